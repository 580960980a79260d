//! Routers: IP forwarding by static routes.
use std::collections::VecDeque;

use tributary_core::{Datagram, FaceId, Node, Time, TimerId, Transmit, TransmitBuf, event::Event};

use super::ip::{IPV4_BYTES, Ipv4Header, Routes};

/// Counters of a router.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RouterStats {
    /// Packets sent on.
    pub forwarded_packets: u64,
    /// Packets dropped: damaged, without a route, or at the end of their hops.
    pub dropped_packets: u64,
}

/// A router that forwards whole IP packets by static routes. The links provide the queues.
#[derive(Debug, Default)]
pub struct IpRouter {
    routes: Routes,
    out: VecDeque<(FaceId, Datagram)>,
    events: VecDeque<Event>,
    stats: RouterStats,
}

impl IpRouter {
    /// A router with that table.
    pub fn new(routes: Routes) -> Self {
        IpRouter { routes, ..IpRouter::default() }
    }
    /// Counters since it was made.
    pub fn stats(&self) -> RouterStats {
        self.stats
    }
    fn drop_packet(&mut self, face: FaceId, reason: &'static str, bytes: usize) {
        self.stats.dropped_packets += 1;
        self.events.push_back(Event::Dropped { face, reason, bytes: bytes as u32 });
    }
}

impl Node for IpRouter {
    fn handle_datagram(&mut self, _: Time, face: FaceId, datagram: Datagram) {
        let bytes = datagram.len();
        let header = Ipv4Header::parse(datagram.header_bytes(), bytes);
        let header = match header.and_then(|header| header.after_link(datagram.is_marked())) {
            Ok(header) => header,
            Err(reason) => return self.drop_packet(face, reason, bytes),
        };
        let Some(next) = self.routes.face(header.destination) else {
            return self.drop_packet(face, "no route to the address", bytes);
        };
        let Some(ttl) = header.ttl.checked_sub(1).filter(|ttl| *ttl > 0) else {
            return self.drop_packet(face, "no hops left", bytes);
        };
        let mut datagram = datagram.with_head(IPV4_BYTES);
        datagram.head_mut()[..IPV4_BYTES].copy_from_slice(&Ipv4Header { ttl, ..header }.emit());
        self.stats.forwarded_packets += 1;
        self.out.push_back((next, datagram));
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, _: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        let (face, datagram) = self.out.pop_front()?;
        out.push_datagram(datagram);
        Some(Transmit { face })
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        None
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

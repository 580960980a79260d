//! Routers: IP forwarding by static routes, alone or together with a node of ours on the same links.
use std::{collections::VecDeque, net::Ipv4Addr};

use tributary_core::{Datagram, FaceId, Node, Time, TimerId, Transmit, TransmitBuf, event::Event};

use super::ip::{IPV4_BYTES, Ipv4Header, PROTOCOL_UDP, Routes, UDP_BYTES, udp_headers, udp_port};

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

/// A node of ours on an IP host: its datagrams go to the neighbour in UDP, and packets for other hosts are forwarded.
///
/// Links of such a host carry whole IP packets, as [`ip_link`](super::ip_link) makes them; our datagrams get their 28
/// bytes of IPv4 and UDP here, so the same links and queues serve both kinds of traffic, byte for byte.
/// ```text
///   face ──► IPv4 ──► UDP to this hop ──► our node      (28 bytes off)
///              │
///              └────► any other address ──► routes ──► face
/// ```
#[derive(Debug)]
pub struct Overlay<N> {
    node: N,
    router: IpRouter,
    batch: TransmitBuf,
}

impl<N: Node> Overlay<N> {
    /// Puts `node` on a host that forwards by `routes`; the node's faces are the host's.
    pub fn new(node: N, routes: Routes) -> Self {
        Overlay { node, router: IpRouter::new(routes), batch: TransmitBuf::new() }
    }
    /// Our node, to look at.
    pub fn node(&self) -> &N {
        &self.node
    }
    /// Our node, for commands.
    pub fn node_mut(&mut self) -> &mut N {
        &mut self.node
    }
    /// Counters of the host's router.
    pub fn router_stats(&self) -> RouterStats {
        self.router.stats()
    }
}

impl<N: Node> Node for Overlay<N> {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        let bytes = datagram.header_bytes();
        let is_ours = Ipv4Header::parse(bytes, datagram.len()).is_ok_and(|header| {
            header.protocol == PROTOCOL_UDP
                && header.destination == NEIGHBOUR
                && usize::from(header.payload_bytes) >= UDP_BYTES
                && udp_port(bytes) == Some(OVERLAY_PORT)
        });
        if is_ours {
            self.node.handle_datagram(now, face, datagram.strip(IPV4_BYTES + UDP_BYTES));
        } else {
            self.router.handle_datagram(now, face, datagram);
        }
    }
    fn handle_timeout(&mut self, now: Time) {
        self.node.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        if let Some(transmit) = self.router.poll_transmit(now, out) {
            return Some(transmit);
        }
        self.batch.clear();
        let transmit = self.node.poll_transmit(now, &mut self.batch)?;
        let mut headers = Vec::with_capacity(tributary_core::HEAD_BYTES_MAX);
        for (head, body) in self.batch.iter() {
            headers.clear();
            headers.extend_from_slice(&udp_headers(NEIGHBOUR, NEIGHBOUR, OVERLAY_PORT, head.len() + body.len()));
            headers.extend_from_slice(head);
            out.push(&headers, body.clone());
        }
        Some(transmit)
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        self.node.poll_timeout()
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.router.poll_event().or_else(|| self.node.poll_event())
    }
}

/// The other end of any link; no host has this address.
const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(169, 254, 0, 1);
/// The port of our daemons on simulated hosts.
const OVERLAY_PORT: u16 = 6_363;

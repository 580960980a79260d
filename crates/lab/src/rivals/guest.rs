//! Rivals as guests of a scenario: a download that competes with the transfers of a family, over the same links and
//! queues.
//!
//! Packets of guests have a header of four bytes and travel in UDP, which counts 28 bytes; so the IPv4 header of a
//! rival is left out on the way and put back at the other end, and its longest packet is 1,488 bytes. That makes 1,500
//! bytes on the link with 12 of them ours: as many as TCP's timestamps would take.
use std::{net::Ipv4Addr, sync::Arc};

use tributary_content::Name;
use tributary_core::{
    Datagram, FaceId, Node, PathId, Rate, SourceId, Time, TimerId, TransferId, Transmit, TransmitBuf,
    event::{Event, PathReport, PathState, SourceReport, TransferReport},
};
use tributary_transport::PathMetric;

use super::{
    content::Content,
    downloader::{DownloadConfig, Downloader, SourceAddress, WINDOW_BYTES},
    host::Host,
    ip::{Ecn, IPV4_BYTES, Ipv4Header, MTU_BYTES, PROTOCOL_TCP, PROTOCOL_UDP, Routes, TTL_DEFAULT},
    mirror::Mirror,
    node::{Rival, RivalNode, Role},
};

use crate::simulation::{FetchSpec, Guest, GuestFactory, Scenario, Seat, file::RivalSpec};

/// Adds a rival's download to a scenario: a guest that fetches, one that serves, and the fetch itself.
///
/// # Errors
/// The names of all rivals, if the kind does not exist.
///
/// # Panics
/// Never: the rivals' names are valid names.
pub fn add(scenario: &mut Scenario, spec: &RivalSpec) -> Result<(), String> {
    let rival = Rival::by_name(&spec.kind).ok_or_else(|| Rival::ALL.map(Rival::name).join(", "))?;
    let (spec, server) = (Arc::new(spec.clone()), format!("{}-server", spec.name));
    let make = |role| {
        let spec = Arc::clone(&spec);
        GuestFactory::new(move |seat: &Seat| RivalGuest::new(rival, role, &spec, seat))
    };
    scenario.add_guest(&spec.name, &spec.to, &[&server], make(Role::Client));
    scenario.add_guest(&server, &spec.from, &[], make(Role::Server));
    scenario.fetches.push(FetchSpec {
        node: spec.name.clone(),
        at: spec.start,
        name: format!("/{}", rival.name()).parse().expect("the names of rivals are names"),
        paths_per_source: 1,
        metric: PathMetric::Hops,
        patience: None,
        rate_limit: None,
    });
    Ok(())
}

/// One end of a rival's download.
struct RivalGuest {
    node: RivalNode,
    own: Ipv4Addr,
    peer: Ipv4Addr,
    protocol: u8,
    ecn: Ecn,
    content: Content,
    spec: Arc<RivalSpec>,
    batch: TransmitBuf,
}

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

impl RivalGuest {
    fn new(rival: Rival, role: Role, spec: &Arc<RivalSpec>, seat: &Seat) -> RivalGuest {
        let (own, peer) = match role {
            Role::Client => (CLIENT, SERVER),
            Role::Server => (SERVER, CLIENT),
        };
        let mtu = seat.faces.first().map_or(MTU_BYTES, |face| face.mtu + IPV4_BYTES as u32).min(MTU_BYTES);
        let content = Content { seed: 1, bytes: spec.bytes };
        let stack = rival.stack(role, &[own], (WINDOW_BYTES, mtu), seat.seed);
        let (addresses, routes) = (vec![own], Routes::all_by(FaceId(0)));
        let node = match role {
            Role::Server => RivalNode::Server(Box::new(Host::new(addresses, routes, stack, Mirror::new(content)))),
            Role::Client => {
                let source = SourceAddress { remote: peer, local: own };
                let (connections, start) = (spec.connections, spec.start.max(Time::from_nanos(1)));
                let config = match connections {
                    1 => DownloadConfig { start, ..DownloadConfig::single() },
                    _ => DownloadConfig { start, connections_per_source: connections, ..DownloadConfig::default() },
                };
                let download = Downloader::new(content, &[source], config);
                RivalNode::Client(Box::new(Host::new(addresses, routes, stack, download)))
            }
        };
        let (protocol, ecn) = match rival {
            Rival::TcpReno | Rival::TcpCubic => (PROTOCOL_TCP, Ecn::NotCapable),
            Rival::QuicNewReno | Rival::QuicCubic | Rival::QuicBbr => (PROTOCOL_UDP, Ecn::Capable),
        };
        RivalGuest { node, own, peer, protocol, ecn, content, spec: Arc::clone(spec), batch: TransmitBuf::new() }
    }
}

impl Guest for RivalGuest {
    fn fetch(&mut self, _: Time, _: &Name) -> Option<TransferId> {
        // It starts itself, at its configured time.
        self.node.download().map(|_| TransferId(0))
    }
    fn report(&self, now: Time, _: TransferId) -> Option<TransferReport> {
        let download = self.node.download()?;
        let bytes = download.received_bytes();
        let source = SourceReport { label: self.spec.from.clone(), bytes, ..SourceReport::default() };
        let path = PathReport {
            path: PathId(0),
            source: SourceId(0),
            label: format!("{} > {} ({})", self.spec.to, self.spec.from, self.spec.kind),
            face: None,
            hops: 0,
            groups: Vec::new(),
            state: PathState::Active,
            reason: String::new(),
            bytes,
            cached_bytes: 0,
            requested_packets: 0,
            lost_packets: 0,
            in_flight_bytes: 0,
            window_bytes: 0,
            rate: Rate::from_bits_per_second(0),
            rtt: None,
            rtt_min: None,
        };
        Some(TransferReport {
            bytes: self.content.bytes,
            stored_bytes: bytes,
            started: download.started().unwrap_or(now),
            ended: download.ended(),
            sources: vec![source],
            paths: vec![path],
            ..TransferReport::default()
        })
    }
    fn is_verified(&self, _: TransferId) -> Option<bool> {
        let download = self.node.download()?;
        Some(download.wrong_bytes() == 0 && download.received_bytes() == self.content.bytes)
    }
}

impl Node for RivalGuest {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        let is_marked = datagram.is_marked();
        let body = datagram.into_bytes();
        let Ok(payload_bytes) = u16::try_from(body.len()) else { return };
        let header = Ipv4Header {
            source: self.peer,
            destination: self.own,
            protocol: self.protocol,
            ttl: TTL_DEFAULT,
            ecn: self.ecn,
            payload_bytes,
        };
        let mut packet = Datagram::new(&header.emit(), body);
        if is_marked {
            packet.set_marked();
        }
        self.node.handle_datagram(now, face, packet);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.node.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        self.batch.clear();
        let transmit = self.node.poll_transmit(now, &mut self.batch)?;
        for packet in self.batch.drain() {
            out.push_datagram(packet.strip(IPV4_BYTES));
        }
        Some(transmit)
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        self.node.poll_timeout()
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.node.poll_event()
    }
}

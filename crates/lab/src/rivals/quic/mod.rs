//! QUIC by quinn-proto, in UDP datagrams in IPv4 packets.
//!
//! The transport is quinn's, untouched: loss recovery, acknowledgements, congestion control, pacing, streams, and
//! the TLS 1.3 handshake and packet protection of rustls with ring. Each connection carries one stream each way.
//!
//! **Replay.** Connection ids, skipped packet numbers and everything else that quinn draws come from the seed. TLS
//! draws its own randomness, so bytes differ from run to run; lengths and times do not, because the certificate, the
//! signature (Ed25519) and the key share (X25519) have fixed lengths. quinn's BBR seeds its generator from the
//! system, but uses it only for the phase of the gain cycle, and that enters only a pacing rate which quinn 0.11
//! reports and does not obey (it paces every controller at 1.25 windows per round trip). A test runs everything
//! twice and compares times, links and lengths.
mod setup;

use std::{
    collections::{BTreeMap, VecDeque},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Instant,
};

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint, Event, Incoming,
    StreamEvent, StreamId, VarInt,
};
use tributary_core::{Datagram, Time};

use super::{
    ip::{Ecn, IPV4_BYTES, Ipv4Header, PROTOCOL_UDP, UDP_BYTES, udp_headers, udp_port},
    stack::{ConnectionId, ConnectionState, Stack, StackStats},
};

/// Which of quinn's controllers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuicController {
    /// RFC 9002.
    NewReno,
    /// RFC 8312, quinn's default.
    Cubic,
    /// BBR of the first version; quinn calls it experimental.
    Bbr,
}

/// Whether a host accepts connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuicRole {
    /// It accepts connections.
    Server,
    /// It opens connections.
    Client,
}

/// All QUIC connections of one host.
pub struct QuicStack {
    /// Quinn's time zero: it requires instants of the system clock and uses only their differences.
    epoch: Instant,
    endpoint: Endpoint,
    client_config: ClientConfig,
    connections: BTreeMap<ConnectionId, Link>,
    ids: BTreeMap<ConnectionHandle, ConnectionId>,
    accepted: VecDeque<ConnectionId>,
    /// Packets ready to go.
    out: VecDeque<(Ipv4Addr, Datagram)>,
    connection_next: u32,
    timeout: Option<Time>,
    /// Whether an application touched a connection since packets were last polled.
    is_touched: bool,
    touched: Time,
    /// The losses of closed connections.
    lost_bytes: u64,
    stats: StackStats,
}

/// One connection with its buffers.
struct Link {
    handle: ConnectionHandle,
    connection: Connection,
    local: Ipv4Addr,
    remote: Ipv4Addr,
    stream: Option<StreamId>,
    is_lost: bool,
}

impl QuicStack {
    /// A stack whose first address is `address`; `window_bytes` is the window of flow control and the send buffer.
    pub fn new(
        role: QuicRole,
        address: Ipv4Addr,
        controller: QuicController,
        (window_bytes, mtu_bytes): (usize, u32),
        seed: u64,
    ) -> Self {
        let seed = setup::host_seed(seed, address);
        let transport = setup::transport_config(controller, window_bytes as u64, mtu_bytes);
        let server = (role == QuicRole::Server).then(|| Arc::new(setup::server_config(transport.clone())));
        QuicStack {
            epoch: epoch(),
            endpoint: Endpoint::new(Arc::new(setup::endpoint_config(seed)), server, false, None),
            client_config: setup::client_config(transport, seed),
            connections: BTreeMap::new(),
            ids: BTreeMap::new(),
            accepted: VecDeque::new(),
            out: VecDeque::new(),
            connection_next: 0,
            timeout: None,
            is_touched: false,
            touched: Time::ZERO,
            lost_bytes: 0,
            stats: StackStats::default(),
        }
    }

    fn instant(&self, now: Time) -> Instant {
        self.epoch + now.since(Time::ZERO)
    }
    fn time(&self, instant: Instant) -> Time {
        Time::ZERO + instant.saturating_duration_since(self.epoch)
    }
    fn add(&mut self, handle: ConnectionHandle, connection: Connection, ends: (Ipv4Addr, Ipv4Addr)) -> ConnectionId {
        let id = ConnectionId(self.connection_next);
        self.connection_next += 1;
        let link = Link { handle, connection, local: ends.0, remote: ends.1, stream: None, is_lost: false };
        self.connections.insert(id, link);
        self.ids.insert(handle, id);
        id
    }
    fn accept(&mut self, now: Time, incoming: Incoming, ends: (Ipv4Addr, Ipv4Addr)) {
        let mut buffer = Vec::new();
        match self.endpoint.accept(incoming, self.instant(now), &mut buffer, None) {
            Ok((handle, connection)) => {
                self.add(handle, connection, ends);
            }
            Err(error) => {
                self.stats.bad_packets += 1;
                if let Some(transmit) = error.response {
                    self.send(ends, &buffer[..transmit.size]);
                }
            }
        }
    }
    fn send(&mut self, (local, remote): (Ipv4Addr, Ipv4Addr), payload: &[u8]) {
        let headers = udp_headers(local, remote, SERVER_PORT, payload.len());
        self.stats.packets += 1;
        self.stats.packet_bytes += (headers.len() + payload.len()) as u64;
        self.out.push_back((remote, Datagram::new(&headers, Bytes::copy_from_slice(payload))));
    }
    /// Drains the output of all connections.
    fn drain(&mut self, now: Time) {
        let instant = self.instant(now);
        let ids: Vec<_> = self.connections.keys().copied().collect();
        for id in ids {
            self.drain_one(id, instant);
        }
        let timeouts = self.connections.values_mut().filter_map(|link| link.connection.poll_timeout());
        let next = timeouts.min();
        self.timeout = next.map(|instant| self.time(instant).max(now));
        self.is_touched = false;
    }
    fn drain_one(&mut self, id: ConnectionId, instant: Instant) {
        let mut buffer = Vec::with_capacity(2_048);
        let Some(link) = self.connections.get_mut(&id) else { return };
        let ends = (link.local, link.remote);
        let mut packets = Vec::new();
        loop {
            buffer.clear();
            while let Some(transmit) = link.connection.poll_transmit(instant, 1, &mut buffer) {
                packets.push(Bytes::copy_from_slice(&buffer[..transmit.size]));
                buffer.clear();
            }
            // New connection ids of the endpoint are announced with further packets.
            let Some(event) = link.connection.poll_endpoint_events() else { break };
            if let Some(answer) = self.endpoint.handle_event(link.handle, event) {
                link.connection.handle_event(answer);
            }
        }
        while let Some(event) = link.connection.poll() {
            match event {
                Event::Connected if link.connection.side().is_client() => {
                    link.stream = link.connection.streams().open(Dir::Bi);
                }
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                    link.stream = link.connection.streams().accept(Dir::Bi);
                    self.accepted.push_back(id);
                }
                Event::ConnectionLost { .. } => link.is_lost = true,
                _ => {}
            }
        }
        if link.connection.is_drained() {
            self.lost_bytes += link.connection.stats().path.lost_bytes;
            let handle = link.handle;
            self.ids.remove(&handle);
            self.connections.remove(&id);
        }
        for packet in packets {
            self.send(ends, &packet);
        }
    }
}

impl Stack for QuicStack {
    fn connect(&mut self, now: Time, local: Ipv4Addr, remote: Ipv4Addr) -> ConnectionId {
        let to = SocketAddr::from((remote, SERVER_PORT));
        let instant = self.instant(now);
        let (handle, connection) = self
            .endpoint
            .connect(instant, self.client_config.clone(), to, setup::SERVER_NAME)
            .expect("name, address and configuration are valid");
        self.touch(now);
        self.add(handle, connection, (local, remote))
    }
    fn handle_packet(&mut self, now: Time, header: Ipv4Header, packet: Bytes) {
        let is_udp = header.protocol == PROTOCOL_UDP && usize::from(header.payload_bytes) >= UDP_BYTES;
        if !is_udp || udp_port(&packet) != Some(SERVER_PORT) {
            self.stats.bad_packets += 1;
            return;
        }
        let ecn = match header.ecn {
            Ecn::NotCapable => None,
            Ecn::Capable => Some(EcnCodepoint::Ect0),
            Ecn::Marked => Some(EcnCodepoint::Ce),
        };
        let ends = (header.destination, header.source);
        let remote = SocketAddr::from((header.source, SERVER_PORT));
        let payload = BytesMut::from(&packet[IPV4_BYTES + UDP_BYTES..]);
        let local = Some(IpAddr::V4(header.destination));
        let mut buffer = Vec::new();
        match self.endpoint.handle(self.instant(now), remote, local, ecn, payload, &mut buffer) {
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(now, incoming, ends),
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let link = self.ids.get(&handle).and_then(|id| self.connections.get_mut(id));
                if let Some(link) = link {
                    link.connection.handle_event(event);
                }
            }
            Some(DatagramEvent::Response(transmit)) => self.send(ends, &buffer[..transmit.size]),
            None => {}
        }
        self.drain(now);
    }
    fn handle_timeout(&mut self, now: Time) {
        let instant = self.instant(now);
        for link in self.connections.values_mut() {
            if link.connection.poll_timeout().is_some_and(|due| due <= instant) {
                link.connection.handle_timeout(instant);
            }
        }
        self.drain(now);
    }
    fn poll_packet(&mut self, now: Time) -> Option<(Ipv4Addr, Datagram)> {
        if self.is_touched {
            self.drain(now);
        }
        self.out.pop_front()
    }
    fn poll_timeout(&self) -> Option<Time> {
        if self.is_touched { Some(self.touched) } else { self.timeout }
    }
    fn poll_accept(&mut self) -> Option<ConnectionId> {
        self.accepted.pop_front()
    }
    fn state(&self, connection: ConnectionId) -> ConnectionState {
        match self.connections.get(&connection) {
            None => ConnectionState::Closed,
            Some(link) if link.is_lost || link.connection.is_closed() => ConnectionState::Closed,
            Some(link) if link.stream.is_some() => ConnectionState::Open,
            Some(_) => ConnectionState::Opening,
        }
    }
    fn read(&mut self, connection: ConnectionId, take: &mut dyn FnMut(&[u8])) {
        let Some(link) = self.connections.get_mut(&connection) else { return };
        let Some(stream) = link.stream else { return };
        let mut stream = link.connection.recv_stream(stream);
        let Ok(mut chunks) = stream.read(true) else { return };
        let mut has_read = false;
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            take(&chunk.bytes);
            has_read = true;
        }
        // The window that was freed is announced with the next packets.
        let _ = chunks.finalize();
        self.is_touched |= has_read;
    }
    fn write(&mut self, connection: ConnectionId, bytes: &[u8]) -> usize {
        let Some(link) = self.connections.get_mut(&connection) else { return 0 };
        let Some(stream) = link.stream else { return 0 };
        let written = link.connection.send_stream(stream).write(bytes).unwrap_or(0);
        self.is_touched |= written > 0;
        written
    }
    fn abort(&mut self, now: Time, connection: ConnectionId) {
        let instant = self.instant(now);
        if let Some(link) = self.connections.get_mut(&connection) {
            link.connection.close(instant, VarInt::from_u32(0), Bytes::new());
            self.touch(now);
        }
    }
    fn stats(&self) -> StackStats {
        let alive: u64 = self.connections.values().map(|link| link.connection.stats().path.lost_bytes).sum();
        StackStats { retransmitted_bytes: self.lost_bytes + alive, ..self.stats }
    }
}

impl QuicStack {
    fn touch(&mut self, now: Time) {
        self.is_touched = true;
        self.touched = now;
    }
}

/// Any instant: quinn's clock has no constructor but "now".
#[expect(clippy::disallowed_methods, reason = "the value is an origin; only differences to it are ever used")]
fn epoch() -> Instant {
    Instant::now()
}

/// The port of both ends; connection ids distinguish connections.
const SERVER_PORT: u16 = 443;

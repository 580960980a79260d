//! TCP by smoltcp, on whole IPv4 packets.
//!
//! What smoltcp 0.14 does and does not do, as read in its source and seen in our tests:
//! - Reno of RFC 5681 and Cubic of RFC 9438; initial window two segments of 1,024 bytes; no pacing.
//! - Receivers delay ACKs by at most 10 ms and report received ranges (SACK); **senders ignore these reports**, and
//!   leave fast recovery with the first new ACK (no NewReno), so several losses in one window mostly end in a
//!   retransmission timeout. That is at least one second (RFC 6298; Linux: 0.2 s), and everything from the first hole
//!   on is then sent again.
//! - No explicit congestion notification: a packet that a queue marks is dropped, as a router would have done.
//! - Window scaling yes; timestamps are left off, which spares 12 bytes a segment.
//! - Receivers hold up to 32 ranges of bytes beyond a hole; further ranges are dropped.
//!
//! It is therefore TCP of the textbook, weaker than Linux under loss; QUIC with the same controllers has
//! acknowledgement ranges, a probe timeout and pacing, and represents today's loss recovery.
use std::{
    collections::{BTreeMap, VecDeque},
    net::Ipv4Addr,
};

use bytes::Bytes;
use smoltcp::{
    iface::{Config, Interface, SocketHandle, SocketSet},
    phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken},
    socket::tcp::{CongestionControl, Socket, SocketBuffer, State},
    time::Instant,
    wire::{HardwareAddress, IpAddress, IpCidr},
};
use tributary_core::{Datagram, Duration, Time};

use super::{
    ip::{IPV4_BYTES, Ipv4Header},
    stack::{ConnectionId, ConnectionState, Stack, StackStats},
};

/// Which of smoltcp's controllers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpController {
    /// RFC 5681.
    Reno,
    /// RFC 9438.
    Cubic,
}

/// All TCP connections of one host.
pub struct TcpStack {
    interface: Interface,
    wire: Wire,
    sockets: SocketSet<'static>,
    connections: BTreeMap<ConnectionId, SocketHandle>,
    /// The socket for the next connection, on a serving host.
    listener: Option<SocketHandle>,
    accepted: VecDeque<ConnectionId>,
    /// Closed by us, until their last packet is out.
    closing: Vec<SocketHandle>,
    controller: TcpController,
    window_bytes: usize,
    role: TcpRole,
    connection_next: u32,
    port_next: u16,
    /// Whether something changed since smoltcp was last polled.
    is_touched: bool,
    /// The time of smoltcp's last poll, and its next deadline.
    polled: Time,
    timeout: Option<Time>,
    stats: StackStats,
    /// The highest sequence number sent so far, by remote address and both ports.
    sent_to: BTreeMap<(Ipv4Addr, u32), u32>,
}

/// Whether a host accepts connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpRole {
    /// It accepts connections and sends files.
    Server,
    /// It opens connections and receives files.
    Client,
}

impl TcpStack {
    /// A stack that owns `addresses` (one to eight); `window_bytes` is the receive buffer of a client and the send
    /// buffer of a server, `mtu_bytes` the longest IP packet.
    ///
    /// # Panics
    /// If there are no addresses, or more than eight.
    pub fn new(
        role: TcpRole,
        addresses: &[Ipv4Addr],
        controller: TcpController,
        (window_bytes, mtu_bytes): (usize, u32),
        seed: u64,
    ) -> Self {
        let mut wire = Wire { received: VecDeque::new(), sent: VecDeque::new(), mtu_bytes };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed =
            addresses.iter().fold(seed, |seed, address| seed.rotate_left(8) ^ u64::from(address.to_bits()));
        let mut interface = Interface::new(config, &mut wire, Instant::ZERO);
        interface.update_ip_addrs(|own| {
            for address in addresses {
                // One network for all hosts: a packet's path follows from the host's routes.
                own.push(IpCidr::new(IpAddress::Ipv4(*address), 8)).expect("a host has at most eight addresses");
            }
        });
        assert!(!addresses.is_empty(), "a host needs an address");
        let mut stack = TcpStack {
            interface,
            wire,
            sockets: SocketSet::new(Vec::new()),
            connections: BTreeMap::new(),
            listener: None,
            accepted: VecDeque::new(),
            closing: Vec::new(),
            controller,
            window_bytes,
            role,
            connection_next: 0,
            port_next: EPHEMERAL_PORT_MIN,
            is_touched: false,
            polled: Time::ZERO,
            timeout: None,
            stats: StackStats::default(),
            sent_to: BTreeMap::new(),
        };
        if role == TcpRole::Server {
            stack.listen();
        }
        stack
    }

    fn socket(&self) -> Socket<'static> {
        let (receive, send) = match self.role {
            TcpRole::Server => (CONTROL_BYTES, self.window_bytes),
            TcpRole::Client => (self.window_bytes, CONTROL_BYTES),
        };
        let mut socket = Socket::new(SocketBuffer::new(vec![0; receive]), SocketBuffer::new(vec![0; send]));
        socket.set_congestion_control(match self.controller {
            TcpController::Reno => CongestionControl::Reno,
            TcpController::Cubic => CongestionControl::Cubic,
        });
        socket
    }
    fn listen(&mut self) {
        let mut socket = self.socket();
        socket.listen(SERVER_PORT).expect("a fresh socket listens");
        self.listener = Some(self.sockets.add(socket));
    }
    fn name(&mut self, handle: SocketHandle) -> ConnectionId {
        let id = ConnectionId(self.connection_next);
        self.connection_next += 1;
        self.connections.insert(id, handle);
        id
    }
    fn poll(&mut self, now: Time) {
        let instant = instant(now);
        for handle in self.connections.values() {
            let socket = self.sockets.get_mut::<Socket<'_>>(*handle);
            // While more data follows, only full segments are sent; near the end Nagle's rule would delay the last one
            // by a round trip.
            socket.set_nagle_enabled(socket.send_queue() > NAGLE_BYTES);
        }
        self.interface.poll(instant, &mut self.wire, &mut self.sockets);
        self.is_touched = false;
        self.polled = now;
        if let Some(listener) = self.listener
            && self.sockets.get::<Socket<'_>>(listener).state() != State::Listen
        {
            let id = self.name(listener);
            self.accepted.push_back(id);
            self.listen();
        }
        let sockets = &mut self.sockets;
        self.closing.retain(|handle| {
            let is_open = sockets.get::<Socket<'_>>(*handle).is_open();
            if !is_open {
                sockets.remove(*handle);
            }
            is_open
        });
        // A deadline that has just been served may still be named; time must pass before it counts again.
        self.timeout = self.interface.poll_at(instant, &self.sockets).map(|due| time(due).max(now + TICK));
    }
    /// Counts outgoing packets; bytes below the highest sequence number of their connection are retransmissions.
    fn count_sent(&mut self, destination: Ipv4Addr, packet: &[u8]) {
        self.stats.packets += 1;
        self.stats.packet_bytes += packet.len() as u64;
        let Some(tcp) = packet.get(IPV4_BYTES..).filter(|tcp| tcp.len() >= 20) else { return };
        let word = |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
        let payload_bytes = (tcp.len() - usize::from(tcp[12] >> 4) * 4) as u32;
        if payload_bytes == 0 {
            return;
        }
        let (ports, start) = (word(0), word(4));
        let highest = self.sent_to.entry((destination, ports)).or_insert(start);
        let end = start.wrapping_add(payload_bytes);
        // Sequence numbers wrap; distances are signed, as in RFC 9293.
        let fresh = (end.wrapping_sub(*highest) as i32).clamp(0, payload_bytes as i32) as u32;
        self.stats.retransmitted_bytes += u64::from(payload_bytes - fresh);
        *highest = highest.wrapping_add(fresh);
    }
}

impl Stack for TcpStack {
    fn connect(&mut self, _now: Time, local: Ipv4Addr, remote: Ipv4Addr) -> ConnectionId {
        let mut socket = self.socket();
        let port = self.port_next;
        self.port_next = self.port_next.checked_add(1).unwrap_or(EPHEMERAL_PORT_MIN);
        socket
            .connect(self.interface.context(), (IpAddress::Ipv4(remote), SERVER_PORT), (IpAddress::Ipv4(local), port))
            .expect("a fresh socket connects to a given address");
        let handle = self.sockets.add(socket);
        self.is_touched = true;
        self.name(handle)
    }
    fn handle_packet(&mut self, now: Time, _: Ipv4Header, packet: Bytes) {
        self.wire.received.push_back(packet);
        self.poll(now);
    }
    fn handle_timeout(&mut self, now: Time) {
        if self.timeout.is_some_and(|due| due <= now) {
            self.poll(now);
        }
    }
    fn poll_packet(&mut self, now: Time) -> Option<(Ipv4Addr, Datagram)> {
        if self.is_touched {
            self.poll(now);
        }
        let packet = self.wire.sent.pop_front()?;
        let destination = Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]);
        self.count_sent(destination, &packet);
        Some((destination, Datagram::from(packet)))
    }
    fn poll_timeout(&self) -> Option<Time> {
        if self.is_touched { Some(self.polled) } else { self.timeout }
    }
    fn poll_accept(&mut self) -> Option<ConnectionId> {
        self.accepted.pop_front()
    }
    fn state(&self, connection: ConnectionId) -> ConnectionState {
        let Some(handle) = self.connections.get(&connection) else { return ConnectionState::Closed };
        match self.sockets.get::<Socket<'_>>(*handle).state() {
            State::SynSent | State::SynReceived | State::Listen => ConnectionState::Opening,
            State::Established => ConnectionState::Open,
            State::Closed
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::Closing
            | State::LastAck
            | State::TimeWait => ConnectionState::Closed,
        }
    }
    fn read(&mut self, connection: ConnectionId, take: &mut dyn FnMut(&[u8])) {
        let Some(handle) = self.connections.get(&connection) else { return };
        let socket = self.sockets.get_mut::<Socket<'_>>(*handle);
        while socket.can_recv() {
            let taken = socket.recv(|bytes| {
                take(bytes);
                (bytes.len(), ())
            });
            if taken.is_err() {
                break;
            }
            self.is_touched = true;
        }
    }
    fn write(&mut self, connection: ConnectionId, bytes: &[u8]) -> usize {
        let Some(handle) = self.connections.get(&connection) else { return 0 };
        let socket = self.sockets.get_mut::<Socket<'_>>(*handle);
        if !socket.can_send() {
            return 0;
        }
        let written = socket.send_slice(bytes).unwrap_or(0);
        self.is_touched |= written > 0;
        written
    }
    fn abort(&mut self, _now: Time, connection: ConnectionId) {
        let Some(handle) = self.connections.remove(&connection) else { return };
        self.sockets.get_mut::<Socket<'_>>(handle).abort();
        self.closing.push(handle);
        self.is_touched = true;
    }
    fn stats(&self) -> StackStats {
        self.stats
    }
}

/// The two ends of the wire under smoltcp.
struct Wire {
    received: VecDeque<Bytes>,
    sent: VecDeque<Bytes>,
    mtu_bytes: u32,
}

impl Device for Wire {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sent<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sent<'_>)> {
        let packet = self.received.pop_front()?;
        Some((Received(packet), Sent(&mut self.sent)))
    }
    fn transmit(&mut self, _: Instant) -> Option<Sent<'_>> {
        Some(Sent(&mut self.sent))
    }
    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu_bytes as usize;
        capabilities
    }
}

struct Received(Bytes);
impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}
struct Sent<'a>(&'a mut VecDeque<Bytes>);
impl TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.push_back(packet.into());
        result
    }
}

fn instant(now: Time) -> Instant {
    Instant::from_micros((now.as_nanos() / 1_000) as i64)
}
fn time(instant: Instant) -> Time {
    Time::from_nanos(instant.total_micros().max(0) as u64 * 1_000)
}

/// The resolution of smoltcp's clock.
const TICK: Duration = Duration::from_micros(1);
/// The port that servers listen on.
const SERVER_PORT: u16 = 80;
/// The first port of clients (RFC 6335).
const EPHEMERAL_PORT_MIN: u16 = 49_152;
/// The buffer for the direction in which only requests go.
const CONTROL_BYTES: usize = 16 << 10;
/// Nagle's rule is off below this number of unacknowledged bytes.
const NAGLE_BYTES: usize = 64 << 10;

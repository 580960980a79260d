//! What the two rivals offer to the programs above them: connections that carry a stream of bytes in each direction.
use std::net::Ipv4Addr;

use bytes::Bytes;
use tributary_core::{Datagram, Time};

use super::ip::Ipv4Header;

/// A connection of one stack; never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId(pub u32);

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectionState {
    /// The handshake is in progress.
    Opening,
    /// Bytes may be written and read.
    Open,
    /// It ended, by either side or by a time limit of the stack; no more data will arrive.
    Closed,
}

/// What a stack has sent, summed over all of its connections, closed ones included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StackStats {
    /// IP packets sent.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub packet_bytes: u64,
    /// TCP: payload bytes that were sent a second or further time. QUIC: bytes of packets declared lost, all of whose
    /// stream data goes out again.
    pub retransmitted_bytes: u64,
    /// Packets that made no sense and were dropped.
    pub bad_packets: u64,
}

/// A third-party transport, with its sockets: sans-I/O, in virtual time, replayable from its seed.
///
/// After any call that takes `now`, a host calls [`Stack::poll_packet`] until it returns `None`, then
/// [`Stack::poll_timeout`].
pub trait Stack {
    /// Opens a connection from the host's address `local` to the mirror at `remote`.
    fn connect(&mut self, now: Time, local: Ipv4Addr, remote: Ipv4Addr) -> ConnectionId;
    /// Takes an IP packet for one of the host's addresses; `header` is the packet's, with the mark of the last link.
    fn handle_packet(&mut self, now: Time, header: Ipv4Header, packet: Bytes);
    /// Runs due timers.
    fn handle_timeout(&mut self, now: Time);
    /// The next IP packet to send, and where.
    fn poll_packet(&mut self, now: Time) -> Option<(Ipv4Addr, Datagram)>;
    /// When to call [`Stack::handle_timeout`] next.
    fn poll_timeout(&self) -> Option<Time>;
    /// A connection that a client opened to this host.
    fn poll_accept(&mut self) -> Option<ConnectionId>;
    /// The state of a connection; closed if it is unknown.
    fn state(&self, connection: ConnectionId) -> ConnectionState;
    /// Passes everything that has arrived to `take`, in order and without gaps, in one or more pieces.
    fn read(&mut self, connection: ConnectionId, take: &mut dyn FnMut(&[u8]));
    /// Appends to the send buffer; returns how many bytes fit.
    fn write(&mut self, connection: ConnectionId, bytes: &[u8]) -> usize;
    /// Ends a connection at once and notifies the other side; its id is forgotten.
    fn abort(&mut self, now: Time, connection: ConnectionId);
    /// The bytes and packets sent so far.
    fn stats(&self) -> StackStats;
}

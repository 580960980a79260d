//! Counters of a driver.
use std::net::{IpAddr, SocketAddr};

use tributary_core::{FaceId, Time, link::LinkStats};

use crate::ecn::EcnCounts;

/// Counters of a driver since its start.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DriverStats {
    /// Turns of the loop.
    pub turns: u64,
    /// Calls of the kernel to wait.
    pub wait_calls: u64,
    /// Calls of the kernel to receive.
    pub receive_calls: u64,
    /// Calls of the kernel to send.
    pub send_calls: u64,
    /// Of these, calls that sent two or more datagrams (GSO).
    pub gso_calls: u64,
    /// Received buffers that held two or more datagrams (GRO).
    pub gro_buffers: u64,
    /// Datagrams received.
    pub in_datagrams: u64,
    /// Bytes received.
    pub in_bytes: u64,
    /// Datagrams handed to the kernel.
    pub out_datagrams: u64,
    /// Bytes handed to the kernel.
    pub out_bytes: u64,
    /// Times the kernel took no more and datagrams had to wait.
    pub send_blocked: u64,
    /// Datagrams dropped because too many bytes waited already.
    pub backlog_drops: u64,
    /// Datagrams longer than the MTU of their face, or than the kernel lets through (EMSGSIZE).
    pub oversize_drops: u64,
    /// Datagrams that the kernel refused for another reason.
    pub send_errors: u64,
    /// Receive calls that failed, ICMP errors included.
    pub receive_errors: u64,
    /// Datagrams sent to a face that does not exist or was removed.
    pub unknown_face_drops: u64,
    /// Datagrams from unknown peers: on a socket without listener, or beyond the limit of faces.
    pub unknown_peer_drops: u64,
    /// Datagrams received, by ECN codepoint.
    pub ecn: EcnCounts,
    /// Datagrams that a queue here would have marked, for peers without ECN.
    pub marked_drops: u64,
    /// Datagrams lost on purpose before the node saw them.
    pub ingress_lost: u64,
    /// Sum over all sockets of receive and send buffer bytes that the kernel did not grant.
    pub buffer_shortfall_bytes: u64,
    /// Fresh receive buffers allocated because all were in use.
    pub buffers_allocated: u64,
    /// One account per face, in the order of their numbers.
    pub faces: Vec<FaceStats>,
    /// One account per open stream, in the order of their faces.
    pub streams: Vec<StreamStats>,
}

/// Counters of one stream since it was opened.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StreamStats {
    /// Its face.
    pub face: FaceId,
    /// The peer, as a URI.
    pub peer: String,
    /// Packets received.
    pub in_packets: u64,
    /// Bytes received.
    pub in_bytes: u64,
    /// Packets accepted for sending.
    pub out_packets: u64,
    /// Bytes accepted for sending.
    pub out_bytes: u64,
}

/// Counters of one face.
#[derive(Clone, PartialEq, Debug)]
pub struct FaceStats {
    /// Its number.
    pub face: FaceId,
    /// The peer.
    pub peer: SocketAddr,
    /// Where its socket is bound.
    pub local: SocketAddr,
    /// The source address of its datagrams, if the socket is unbound; `None` leaves it to the routing table.
    pub source: Option<IpAddr>,
    /// When a datagram last came from there; `None` for never.
    pub heard: Option<Time>,
    /// The kernel's reason when it last refused to send there, and the time.
    pub refused: Option<(&'static str, Time)>,
    /// Datagrams received.
    pub in_datagrams: u64,
    /// Bytes received.
    pub in_bytes: u64,
    /// Datagrams handed to the kernel.
    pub out_datagrams: u64,
    /// Bytes handed to the kernel.
    pub out_bytes: u64,
    /// Counters of the emulated link, if any.
    pub link: Option<LinkStats>,
}

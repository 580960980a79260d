//! Faces over streams: TCP, Unix sockets and WebSocket.
//!
//! A stream has no datagram boundaries, so the family defines by a [`Framing`] where a packet ends; on a WebSocket each
//! binary message is one packet. Bytes that the kernel does not accept at once wait up to a limit; beyond it whole
//! packets are dropped and counted, as a full queue in front of a slow link would. A browser would let any web page
//! open a WebSocket to this machine; only the origins in [`crate::DriverConfig::web_origins`] may connect.
//!
//! ```text
//!   listener ──accept──► ┌────────────┐  ready: bytes ─► Framing ─► packets ─► node
//!   dialer ───connect──► │ Connection │
//!     ▲  after a pause   └─────┬──────┘  packets ─► outbox ─► one write
//!     └──────────── closed ────┘
//! ```
//! | part | module |
//! |---|---|
//! | where a stream leads to | [`address`] |
//! | one stream | `connection` (private) |
//! | all streams of a driver: listeners, dialers, which face is which | `table` (private) |

pub mod address;
mod connection;
pub(crate) mod table;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

use tributary_core::FaceId;

pub use address::StreamAddress;

/// Finds where packets end in a stream of bytes; the wire format of a family knows.
pub trait Framing: Send + Sync + Debug {
    /// How long the packet is that `bytes` begin with. `bytes` is never empty and may end anywhere.
    fn packet_length(&self, bytes: &[u8]) -> PacketLength;
}

/// The length of a packet, as far as its first bytes show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketLength {
    /// It has this many bytes, at least one; they need not be there yet.
    Known(usize),
    /// More bytes are needed.
    Unknown,
    /// No packet begins like this, or it would be too long: the stream is closed.
    Invalid,
}

/// A stream to a known peer. It is connected again, after a pause, whenever it breaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamFaceConfig {
    /// Its number in the node.
    pub id: FaceId,
    /// Where it leads to.
    pub peer: StreamAddress,
}

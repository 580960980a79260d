//! The hop link (paper §3.2.1, §3.4.1): moves whole chunks reliably from one node to the next.
//!
//! | what | module |
//! |---|---|
//! | the back-pressure buffer, which holds all chunks of a node | [`buffer`] |
//! | reassembly, CACKs, the advertised window | [`incoming`] |
//! | fragments, CSYNs, retransmission, window and pace | [`outgoing`] |
//! | stored parts of interrupted chunks | [`partial`] |
//! | what the neighbour has room for, in all and for each destination | `windows` |
pub mod buffer;
pub mod incoming;
pub mod outgoing;
pub mod partial;
mod windows;

pub use buffer::{Arrival, Buffer, Chunk, Origin, Slot};
pub use incoming::{Arrived, Incoming};
pub use outgoing::{Outgoing, OutgoingStats, Sent};
pub use partial::{PartKey, Partials};
pub use windows::{Backlog, Room};

use tributary_core::{ByteCount, Duration};

/// Settings of a hop.
#[derive(Clone, PartialEq, Debug)]
pub struct HopConfig {
    /// Data packets after which a CSYN asks for their arrival, besides the one after the chunk; `u16::MAX` is the
    /// paper's form, in which rate and loss are known once per chunk only, or per window if that is smaller. Default:
    /// 16.
    pub csyn_packets: u16,
    /// When a chunk is sent on. The paper waits until it is complete (§3.2.1); so does a chunk here whose next hop has
    /// something else to send. Default: [`Forwarding::CutThrough`], by which a move to another access router costs 0.28
    /// instead of 0.43 s.
    pub forwarding: Forwarding,
    /// The least time that a CSYN's answer is waited for. Default: 20 ms.
    pub rto_min: Duration,
    /// The same before the first round trip. Default: 200 ms. The prototype has 2 s between routers and 100 ms at hosts.
    pub rto_initial: Duration,
    /// The same at most. Default: 1 s.
    pub rto_max: Duration,
    /// Packets in flight before anything is known of the link. Default: 32.
    pub window_initial_packets: u32,
    /// Bytes in flight at most. Default: 16 MiB.
    pub window_bytes_max: u64,
    /// How much is sent at once, as time at the pace. Default: 1 ms.
    pub quantum: Duration,
    /// How long an incomplete chunk is kept for a neighbour that is away; longer as long as more than half of the buffer
    /// is free. Default: 60 s.
    pub arriving_lifetime: Duration,
    /// Maximum size of the partial store in bytes; zero disables it. It counts against a router's storage, and its parts
    /// are evicted before any complete chunk. Default: 64 MiB.
    pub partial_bytes_max: ByteCount,
}

impl Default for HopConfig {
    fn default() -> Self {
        HopConfig {
            csyn_packets: 16,
            forwarding: Forwarding::CutThrough,
            rto_min: Duration::from_millis(20),
            rto_initial: Duration::from_millis(200),
            rto_max: Duration::from_secs(1),
            window_initial_packets: 32,
            window_bytes_max: 16 << 20,
            quantum: Duration::from_millis(1),
            arriving_lifetime: Duration::from_secs(60),
            partial_bytes_max: ByteCount(64 << 20),
        }
    }
}

/// When a router sends a chunk on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forwarding {
    /// When all of it is here (paper §3.2.1).
    StoreAndForward,
    /// As soon as its first packet is here, if the next hop has nothing else to send.
    CutThrough,
}

#[cfg(test)]
mod tests;

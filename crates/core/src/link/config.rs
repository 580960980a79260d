//! Properties of a link, its changes, and its counters.
use super::{DeliveryTrace, Loss, QueueDiscipline, Script};
use crate::{Duration, Rate};

crate::declared! {
    /// What a link is like. The default is a perfect wire for datagrams of up to 1,472 bytes.
    #[derive(Clone, PartialEq, Debug)]
    pub struct LinkConfig {
        /// Rate of the serialiser; `None` is unlimited (then nothing ever waits), zero blocks everything.
        pub rate: Option<Rate> = None,
        /// Bytes that pass at once after a pause, as a token bucket with the rate lets them; 0 (the default) for a
        /// serialiser.
        pub burst_bytes: u64 = 0,
        /// Recorded moments at which bytes may leave, in place of the rate; `None` for the rate. A change of the rate
        /// ends it.
        pub delivery: Option<DeliveryTrace> = None,
        /// Scheduled changes of the link, in time since the driver's epoch; `None` for a constant link.
        pub script: Option<Script> = None,
        /// Propagation delay.
        pub delay: Duration = Duration::ZERO,
        /// Uniform addition to the delay, from zero to this; it never changes the order of packets.
        pub jitter: Duration = Duration::ZERO,
        /// Loss on the wire, after the serialiser: lost packets have used the rate.
        pub loss: Loss = Loss::None,
        /// Maximum queued bytes, including `overhead_bytes` per packet and excluding the packet being sent; the excess
        /// is dropped at the tail. Default 1 MiB.
        pub queue_bytes: u64 = 1 << 20,
        /// Packets that may wait, the packet being sent excluded; `None` (the default) for as many as bytes allow.
        pub queue_packets: Option<u64> = None,
        /// The discipline that drops or marks within these limits. Default: none (drop-tail).
        pub discipline: QueueDiscipline = QueueDiscipline::DropTail,
        /// Packets held back behind later ones.
        pub reorder: Reorder = Reorder::default(),
        /// Probability, 0 to 1, that a packet arrives twice.
        pub duplicate: f64 = 0.0,
        /// Probability, 0 to 1, that one bit of a packet is flipped.
        pub corrupt: f64 = 0.0,
        /// Bytes per packet that count against rate and queue in addition to the datagram. Default 28: IPv4 and UDP
        /// headers.
        pub overhead_bytes: u32 = 28,
        /// Longest datagram that passes, without overhead; longer ones are counted as oversize. Default 1,472.
        pub mtu: u32 = 1_472,
    }
}

impl LinkConfig {
    /// A loss-free link of that rate and one-way delay, everything else by default.
    pub fn new(rate: Rate, delay: Duration) -> Self {
        LinkConfig { rate: Some(rate), delay, ..LinkConfig::default() }
    }
}

/// Packets that arrive later than their successors.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Reorder {
    /// Probability, 0 to 1, that a packet is held back.
    pub probability: f64,
    /// By how much it is held back.
    pub delay: Duration,
}

/// Whether packets pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LinkState {
    /// They do.
    #[default]
    Up,
    /// All packets offered are lost.
    Down,
}

/// A change of a link at run time; see the setters of [`Link`].
#[derive(Clone, PartialEq, Debug)]
pub enum LinkChange {
    /// Cut or mended.
    State(LinkState),
    /// Another rate; `None` is unlimited.
    Rate(Option<Rate>),
    /// Another propagation delay.
    Delay(Duration),
    /// Another loss process.
    Loss(Loss),
    /// Another limit of the queue.
    QueueBytes(u64),
    /// Another way of delaying packets.
    Reorder(Reorder),
    /// Another probability that a packet arrives twice.
    Duplicate(f64),
    /// Another probability that one bit of a packet is flipped.
    Corrupt(f64),
    /// Another longest datagram; what waits already passes.
    Mtu(u32),
}

/// Counters of a link. Bytes count whole datagrams, without framing overhead.
///
/// `in + duplicated = out + lost + dropped + oversize + in flight`, in packets and in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkStats {
    /// Packets offered.
    pub in_packets: u64,
    /// Bytes offered.
    pub in_bytes: u64,
    /// Packets delivered.
    pub out_packets: u64,
    /// Bytes delivered.
    pub out_bytes: u64,
    /// Packets lost on the wire or to a link that is down.
    pub lost_packets: u64,
    /// Bytes lost on the wire or to a link that is down.
    pub lost_bytes: u64,
    /// Packets dropped by the queue: because it was full, or by its discipline.
    pub dropped_packets: u64,
    /// Bytes dropped by the queue.
    pub dropped_bytes: u64,
    /// Packets longer than the MTU.
    pub oversize_packets: u64,
    /// Bytes of packets longer than the MTU.
    pub oversize_bytes: u64,
    /// Copies made of packets.
    pub duplicated_packets: u64,
    /// Bytes of the copies.
    pub duplicated_bytes: u64,
    /// Packets that the queue's discipline marked.
    pub marked_packets: u64,
    /// Packets with a flipped bit.
    pub corrupted_packets: u64,
    /// Packets held back behind later ones.
    pub reordered_packets: u64,
    /// Bytes that wait now, overhead included.
    pub queue_bytes: u64,
    /// Most bytes that ever waited, overhead included.
    pub queue_bytes_max: u64,
}

impl LinkStats {
    /// Packets that entered and neither left, nor were dropped, nor are among the `in_flight` packets on the link; or
    /// packets that left without having entered. Any value but zero is a defect of the link.
    pub fn unaccounted_packets(&self, in_flight: u64) -> u64 {
        let gone = self.out_packets + self.lost_packets + self.dropped_packets + self.oversize_packets;
        (self.in_packets + self.duplicated_packets).abs_diff(gone + in_flight)
    }
}

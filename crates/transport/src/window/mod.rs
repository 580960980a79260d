//! Window controllers: how many bytes a sub-flow may have in flight, and how fast it requests them.
//!
//! | controller | file | for |
//! |---|---|---|
//! | loss-based | `loss_based.rs` | the paper's slow start and congestion avoidance (§III-D), reproduction |
//! | path-specified | `path_specified.rs` | PTP's slow start, congestion avoidance and fast recovery (PTP §5 D) |
//! | model-based | `model_based.rs` | the product: a model of rate and RTT that random loss does not fool, and a Cubic-like window among flows that fill queues (`rivals.rs`); it finds token buckets and stays below their rate (`bucket.rs`) |
mod bucket;
mod filter;
mod loss_based;
mod loss_meter;
mod model_based;
mod path_specified;
mod rivals;

use alloc::boxed::Box;

use tributary_core::{Duration, Rate, Time};

pub(crate) use filter::RateFilter;
pub use loss_based::LossBased;
pub use model_based::ModelBased;
pub use path_specified::PathSpecified;

use crate::{ControllerKind, TransferConfig};

/// Decides how many bytes a sub-flow may have in flight.
pub trait Controller: Send {
    /// Takes one arrived packet.
    fn on_data(&mut self, now: Time, arrival: &Arrival);
    /// Takes a packet from a cache on the way.
    fn on_cached_data(&mut self, now: Time, arrival: &Arrival) {
        self.on_data(now, arrival);
    }
    /// Takes packets lost by reordering. Called once for each batch found at one time.
    fn on_loss(&mut self, now: Time, loss: &Loss);
    /// Takes marked packets: a queue on the way grows. By default a controller reacts as to a loss (RFC 3168).
    fn on_mark(&mut self, now: Time, mark: &Loss) {
        self.on_loss(now, mark);
    }
    /// The path is silent: nothing arrived for a retransmission timeout.
    fn on_silence(&mut self, now: Time);
    /// The last silence was spurious: answers were late, not lost. Restores the window from before the silence (RFC
    /// 4015).
    fn on_spurious_silence(&mut self) {}
    /// The path is back after a short announced absence: samples that could not be renewed during it have not aged.
    fn on_return(&mut self, now: Time) {
        self.on_silence(now);
    }
    /// The rate that the network announces for it on the path.
    fn expect_rate(&mut self, rate: Rate) {
        let _ = rate;
    }
    /// Sets the growth that coupling allows, given the other sub-flows on shared links.
    fn set_growth(&mut self, growth: Growth);
    /// Its place in its cycle of probes, if it has one.
    fn probe_turn(&self) -> Option<ProbeTurn> {
        None
    }
    /// Whether it models the source's rate, which a flow that near caches answer does not test.
    fn models_rate(&self) -> bool {
        false
    }
    /// The rate that it considers its own, in bytes per second; zero without a model.
    fn own_rate(&self) -> f64 {
        0.0
    }
    /// When its window last yielded to an overflow caused by rivals.
    fn yielded_at(&self) -> Option<Time> {
        None
    }
    /// Takes its part in a group of sub-flows that share a link.
    fn join(&mut self, part: GroupPart) {
        let _ = part;
    }
    /// Bytes that may be in flight.
    fn window(&self) -> u64;
    /// The rate of requests; `None` for as fast as the window opens.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }
    /// The longest burst that the path bears, as time at the pace; `None` if it has shown no limit.
    fn burst_max(&self) -> Option<Duration> {
        None
    }
    /// How evenly requests follow each other at the pace.
    fn spacing(&self) -> Spacing {
        Spacing::Even
    }
    /// The phase, for people.
    fn phase(&self) -> &'static str;
}

/// Up to this many packets are no burst: requests must remain a small part of the reverse traffic.
const BURST_PACKETS_MIN: u64 = 10;

/// Bytes of one request at `rate`, if it may cover up to `most`, and up to `burst` if that is more than a few packets:
/// the burst of answers then fits into the buckets of shapers and policers, as with the batches of kernels
/// (`tcp_tso_autosize` of Linux).
pub(crate) fn portion_bytes(rate: Rate, most: Duration, burst: Duration, packet_bytes: u64) -> u64 {
    let few = (BURST_PACKETS_MIN * packet_bytes).min(rate.bytes_in(most));
    rate.bytes_in(most.min(burst)).max(few)
}

/// How evenly requests follow each other at a pace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spacing {
    /// At even intervals; a late request catches up, by a few packets at most.
    Even,
    /// At distances by chance, from nothing to twice the even one, and nothing catches up.
    ByChance,
}

/// One packet that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Payload bytes.
    pub bytes: u64,
    /// Bytes still in flight after it.
    pub in_flight: u64,
    /// Round-trip time, if this packet gives a valid sample (first of its request, requested once, not from a cache).
    pub rtt: Option<Duration>,
    /// The delivery rate over the time since its request was sent; `None` if that time is too short to measure.
    pub rate: Option<Rate>,
    /// Bytes delivered on this path when its request was sent.
    pub delivered_at_request: u64,
    /// Bytes delivered on this path now.
    pub delivered: u64,
    /// Whether the path lacked packets to request when the request was sent: its rate is then a lower bound only.
    pub starved: bool,
    /// When its request was sent.
    pub requested_at: Time,
    /// Whether a cache nearer than the source answered, so that it does not measure the path.
    pub is_beside: bool,
}

/// Packets declared lost, or marked instead of dropped.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// Payload bytes.
    pub bytes: u64,
    /// Bytes still in flight.
    pub in_flight: u64,
    /// When the oldest of them was requested.
    pub requested_at: Time,
}

/// The growth that coupling leaves to a sub-flow, relative to its uncoupled growth.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Growth {
    /// Packets added to the window per arrived packet in slow start; 1 alone.
    pub slow_start: f64,
    /// Factor on the `1/window` per arrived packet in congestion avoidance; 1 alone. Negative values shrink the window
    /// (OLIA).
    pub avoidance: f64,
    /// Factor on the decrease after a loss; 1 alone, more for a sub-flow that is slower than others (BALIA).
    pub decrease: f64,
    /// Its part of the rate of all together; 1 alone.
    pub weight: f64,
}

impl Growth {
    /// What an uncoupled sub-flow has.
    pub const ALONE: Growth = Growth { slow_start: 1.0, avoidance: 1.0, decrease: 1.0, weight: 1.0 };
}

/// A place in a cycle of probes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeTurn {
    /// The step of the cycle.
    pub step: usize,
    /// When it started.
    pub since: Time,
}

tributary_core::declared! {
    /// What a sub-flow does as a part of a group that behaves as one flow. Default: it shares nothing.
    #[derive(Clone, Copy, PartialEq, Debug)]
    pub struct GroupPart {
        /// The turn that triggers its probes; `None` if it leads or is alone.
        pub turn: Option<ProbeTurn> = None,
        /// When the group was just seen to get less than before: a member that meets no queue probes for more.
        pub short: Option<Time> = None,
        /// The part of its measured rate that it may use, because the rates of all add up to more than they delivered
        /// together; 1 alone.
        pub scale: f64 = 1.0,
        /// How many times its own rate all together have; 1 alone.
        pub times: f64 = 1.0,
        /// When one of the group last yielded to rivals: all yield together, as one flow would.
        pub yielded_at: Option<Time> = None,
    }
}

/// A controller of the configured kind for packets of `packet_bytes`.
pub fn controller(config: &TransferConfig, packet_bytes: u64, now: Time) -> Box<dyn Controller> {
    match config.controller {
        ControllerKind::LossBased => Box::new(LossBased::new(config, packet_bytes)),
        ControllerKind::PathSpecified => Box::new(PathSpecified::new(config, packet_bytes)),
        ControllerKind::Other(other) => (other.law)(config, packet_bytes),
        ControllerKind::ModelBased => Box::new(ModelBased::new(config, packet_bytes, now)),
    }
}

//! Settings of a transfer, the same in every family that pulls packets.
use alloc::boxed::Box;

use tributary_core::{Duration, Ecn};

use crate::{
    coupling::Member,
    window::{Controller, Growth},
};

tributary_core::declared! {
    /// How a receiver fetches. Plain values; [`TransferConfig::check`] is called once, where a config enters the
    /// program.
    #[derive(Clone, PartialEq, Debug)]
    pub struct TransferConfig {
        /// Which window controller each sub-flow uses. Default: model-based.
        pub controller: ControllerKind = ControllerKind::ModelBased,
        /// How sub-flows that share a link are coupled. Default: linked increase.
        pub coupling: Coupling = Coupling::LinkedIncrease,
        /// Maximum packets named by one request, 1 to 64. One is the paper's form (§III-B2). Default: 64.
        pub request_packets_max: u8 = 64,
        /// Maximum data covered by one request, as time at the path's rate; slow paths thus send small requests.
        /// Default: 4 ms.
        pub request_duration: Duration = Duration::from_millis(4),
        /// Longest burst that one request of more than ten packets may cover: the answers of fast paths come in short
        /// bursts. Default: 1 ms.
        pub request_burst: Duration = Duration::from_millis(1),
        /// The first window, in packets, 1 to 256. Default: 16. RFC 6928 has 10, the paper leaves it open.
        pub window_initial_packets: u32 = 16,
        /// The largest window of one path, in bytes. Default: 8 MiB.
        pub window_bytes_max: u64 = 8 << 20,
        /// Whether rivals may fill the queues of the paths. If so, a flow drains a queue now and then to learn the
        /// round-trip time; a link between neighbours has a private queue and needs no draining (`false`). Default:
        /// `true`.
        pub shares_queues: bool = true,
        /// Whether a flow on a shared queue looks for rivals that fill it, and then uses a window like theirs
        /// (`window::rivals`). Default: `true`.
        pub watch_rivals: bool = true,
        /// How a flow answers congestion marks: as a loss, or by as much as is marked. Default: [`Ecn::Classic`].
        pub ecn: Ecn = Ecn::default(),
        /// The smallest retransmission timeout. Default: 50 ms. RFC 6298 has 1 s, the paper leaves it open.
        pub rto_min: Duration = Duration::from_millis(50),
        /// The retransmission timeout before the first round-trip sample; it doubles while no answer arrives. Default:
        /// 300 ms. RFC 6298 has 1 s; a late answer undoes a timeout that was too short.
        pub rto_initial: Duration = Duration::from_millis(300),
        /// The largest retransmission timeout. Default: 60 s, as in RFC 6298 §2.5: a packet of 1,500 bytes takes 1.25 s
        /// on a link of 9,600 bit/s, and several wait in its queue.
        pub rto_max: Duration = Duration::from_secs(60),
        /// The longest pause between probes of a path that has answered before and is silent, unless its answers would
        /// take more than a twentieth of its link. Default: 1 s.
        pub probe_interval_max: Duration = Duration::from_secs(1),
        /// A packet is lost once one that was requested this many packets later has arrived on the same path. Default:
        /// 3.
        pub reorder_packets: u32 = 3,
        /// Maximum bytes of chunks that wait for their last packets, for verification, or for the disk. Default: 24
        /// MiB, at least two chunks.
        pub assembly_bytes_max: u64 = 24 << 20,
        /// Maximum bytes of verified chunks that wait for the disk, part of [`TransferConfig::assembly_bytes_max`]. At
        /// this limit the transfer starts no new chunk. Default: 16 MiB, at least one chunk.
        pub storing_bytes_max: u64 = 16 << 20,
        /// Payload bytes of a packet; `None` fits it to the smallest MTU of the paths. Default: `None`.
        pub packet_bytes: Option<u16> = None,
    }
}

impl TransferConfig {
    /// Whether all values are in range.
    ///
    /// # Errors
    /// [`ConfigError`] names the first field that is not.
    pub fn check(&self) -> Result<(), ConfigError> {
        let rules = [
            (
                (1..=64).contains(&self.request_packets_max),
                "request_packets_max",
                "from 1 (a request a packet, the paper's form) to 64",
            ),
            ((1..=256).contains(&self.window_initial_packets), "window_initial_packets", "from 1 to 256"),
            (self.window_bytes_max >= 65_536, "window_bytes_max", "at least 64 KiB"),
            (self.rto_min >= Duration::from_millis(1), "rto_min", "at least 1 ms"),
            (self.rto_initial >= self.rto_min, "rto_initial", "at least rto_min"),
            (self.rto_max >= self.rto_initial, "rto_max", "at least rto_initial"),
            (self.probe_interval_max >= Duration::from_millis(1), "probe_interval_max", "at least 1 ms"),
            ((1..=1000).contains(&self.reorder_packets), "reorder_packets", "from 1 to 1000"),
            (self.assembly_bytes_max >= 1 << 20, "assembly_bytes_max", "at least 1 MiB"),
            (self.storing_bytes_max >= 1, "storing_bytes_max", "at least 1 byte"),
            (self.packet_bytes.is_none_or(|bytes| (64..=60_000).contains(&bytes)), "packet_bytes", "from 64 to 60000"),
        ];
        match rules.into_iter().find(|(holds, ..)| !holds) {
            Some((_, field, range)) => Err(ConfigError { field, range }),
            None => Ok(()),
        }
    }
}

/// A value out of range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field} must be {range}")]
pub struct ConfigError {
    /// The field.
    pub field: &'static str,
    /// The values that it may have.
    pub range: &'static str,
}

/// The window controllers; see [`crate::window`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControllerKind {
    /// Slow start, congestion avoidance, halving (paper §III-D; RFC 5681): for reproduction.
    LossBased,
    /// PTP's slow start, congestion avoidance and fast recovery (PTP §5 D): for reproduction.
    PathSpecified,
    /// One that another crate brings.
    Other(Other<OtherController>),
    /// A model of the path (bottleneck rate and smallest RTT, BBR-style) that random loss does not fool.
    ModelBased,
}

/// Something of another crate, for research: its name identifies it.
#[derive(Clone, Copy, Debug)]
pub struct Other<F> {
    /// Its name.
    pub name: &'static str,
    /// Its function.
    pub law: F,
}
impl<F> PartialEq for Other<F> {
    fn eq(&self, other: &Other<F>) -> bool {
        self.name == other.name
    }
}
impl<F> Eq for Other<F> {}
/// Makes a controller for packets of that many bytes.
pub type OtherController = fn(&TransferConfig, u64) -> Box<dyn Controller>;
/// The growth of a sub-flow, one of several that share a link.
pub type OtherCoupling = fn(Member, &[Member]) -> Growth;

/// How the sub-flows of one transfer that share a link grow together (paper §III-D; reference/psi).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coupling {
    /// Each for itself.
    Uncoupled,
    /// Linked Increase, RFC 6356.
    LinkedIncrease,
    /// Linked increase with PTP's compensation of round-trip times (PTP eq. 2).
    LinkedIncreaseCompensated,
    /// One that another crate brings.
    Other(Other<OtherCoupling>),
    /// The normalised form: together no faster than the sub-flow with the best window over RTT squared, in slow start too.
    Normalised,
}

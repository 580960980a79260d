//! The results of a simulation.
use tributary_content::Name;
use tributary_core::{
    Duration, PathId, Rate, Time,
    event::{PathState, TransferReport},
    link::LinkStats,
};
use tributary_sim::NetworkStats;
use tributary_transport::NodeStatus;

/// The complete results of a run. Equal scenarios produce equal outcomes.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The scenario's name.
    pub scenario: String,
    /// Its seed.
    pub seed: u64,
    /// The virtual time at which the run was over.
    pub ended: Time,
    /// One per fetch of the scenario, in its order.
    pub transfers: Vec<TransferOutcome>,
    /// Two per link of the scenario, in its order: first the direction from the first to the second end.
    pub links: Vec<LinkOutcome>,
    /// One per node of the scenario, in its order.
    pub nodes: Vec<NodeOutcome>,
    /// Windows, RTTs and rates of all paths of all transfers over time, within the scenario's limit.
    pub path_samples: Vec<PathSample>,
    /// Use of all links over time, within the scenario's limit.
    pub link_samples: Vec<LinkSample>,
    /// What failed or changed, and when, in the words of a figure.
    pub faults: Vec<(Time, String)>,
    /// Events as JSON lines, if the scenario keeps them.
    pub events: Vec<String>,
    /// Events beyond the scenario's limit, which were not kept.
    pub events_dropped: u64,
    /// Counters of the simulator.
    pub stats: NetworkStats,
    /// A fingerprint of every packet and event.
    pub trace_hash: u64,
}

/// The result of one fetch.
#[derive(Clone, PartialEq, Debug)]
pub struct TransferOutcome {
    /// The node or guest that fetched.
    pub node: String,
    /// Name of the object.
    pub name: Name,
    /// Its last report; `None` if it never started.
    pub report: Option<TransferReport>,
    /// Whether it ended with success.
    pub is_completed: bool,
    /// Whether all bytes are those that were published; `None` for guests that do not compare.
    pub is_verified: Option<bool>,
    /// Stored chunks that differ from the published object.
    pub wrong_chunks: u64,
}

impl TransferOutcome {
    /// Whether everything arrived, and nothing else.
    pub fn is_complete(&self) -> bool {
        self.is_completed && self.is_verified != Some(false) && self.wrong_chunks == 0
    }
    /// From the request to the last verified byte; `None` if it did not end with success.
    pub fn seconds(&self) -> Option<f64> {
        let report = self.report.as_ref().filter(|_| self.is_completed)?;
        Some(report.ended?.since(report.started).as_secs_f64())
    }
    /// Payload over that time, in Mbit/s.
    pub fn mbps(&self) -> Option<f64> {
        let report = self.report.as_ref()?;
        Some((report.bytes - report.resumed_bytes) as f64 * 8.0 / 1e6 / self.seconds()?)
    }
    /// Useful bytes received from the source of that label.
    pub fn bytes_from(&self, source: &str) -> u64 {
        let sources = self.report.iter().flat_map(|report| &report.sources);
        sources.filter(|of| of.label == source).map(|of| of.bytes).sum()
    }
}

/// One node at the end of the run.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeOutcome {
    /// Its label.
    pub label: String,
    /// Its status; `None` if it is dead or has no endpoint.
    pub status: Option<NodeStatus>,
}

/// One direction of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkOutcome {
    /// The link's name.
    pub link: String,
    /// The node that sends.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// Its rate at the end; `None` is unlimited.
    pub rate: Option<Rate>,
    /// Its counters. They count datagram bytes, without the link's overhead.
    pub stats: LinkStats,
    /// The link's overhead per packet.
    pub overhead_bytes: u32,
    /// Packets that are still on it.
    pub in_flight_packets: u64,
}

impl LinkOutcome {
    /// Packets whose whereabouts are unknown; zero, or the simulator is wrong.
    pub fn unaccounted_packets(&self) -> u64 {
        self.stats.unaccounted_packets(self.in_flight_packets)
    }
    /// The utilisation of its capacity during `time`, overhead included, 0 to 1; zero for links without limit. Correct
    /// for links whose rate does not change.
    pub fn utilisation(&self, time: Duration) -> f64 {
        let Some(rate) = self.rate.filter(|rate| rate.bits_per_second() > 0) else { return 0.0 };
        let bytes = self.stats.out_bytes + self.stats.out_packets * u64::from(self.overhead_bytes);
        bytes as f64 * 8.0 / (rate.bits_per_second() as f64 * time.as_secs_f64()).max(1.0)
    }
}

/// A path of a transfer at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct PathSample {
    /// When.
    pub time: Time,
    /// The transfer, by its place in the scenario's fetches.
    pub transfer: usize,
    /// The path.
    pub path: PathId,
    /// The source it leads to.
    pub source: String,
    /// The nodes on it.
    pub label: String,
    /// Its state.
    pub state: PathState,
    /// Useful bytes received over it so far.
    pub bytes: u64,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// The window.
    pub window_bytes: u64,
    /// Delivery rate, smoothed.
    pub rate: Rate,
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
}

/// One direction of a link at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkSample {
    /// When.
    pub time: Time,
    /// Which, by its place in [`Outcome::links`].
    pub link: usize,
    /// Bytes delivered so far, without overhead.
    pub out_bytes: u64,
    /// Packets delivered so far.
    pub out_packets: u64,
    /// Bytes that wait, with overhead.
    pub queue_bytes: u64,
    /// Packets dropped from the queue so far.
    pub dropped_packets: u64,
    /// Its rate now, in bit/s; `None` is unlimited.
    pub rate: Option<Rate>,
}

impl Outcome {
    /// Whether every fetch got all its bytes and none was wrong.
    pub fn is_complete(&self) -> bool {
        self.transfers.iter().all(TransferOutcome::is_complete)
    }
    /// The direction of a link, by the nodes that it leads from and to.
    pub fn link(&self, from: &str, to: &str) -> Option<&LinkOutcome> {
        self.links.iter().find(|link| link.from == from && link.to == to)
    }
    /// The samples of one transfer.
    pub fn samples_of(&self, transfer: usize) -> impl Iterator<Item = &PathSample> {
        self.path_samples.iter().filter(move |sample| sample.transfer == transfer)
    }
}

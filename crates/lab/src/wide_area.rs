//! The wide-area networks of the mmFTP paper (its Fig. 3), as far as the paper describes them.
use tributary::{
    Family,
    config::{NodeConfig, Role},
};
use tributary_content::{MemoryObject, Name};
use tributary_core::{Duration, Rate, Time, link::LinkConfig};
use tributary_transport::{ControllerKind, Coupling, TransferConfig};

use crate::{
    congestion::Congestion,
    simulation::{Scenario, object},
};

/// The paper's controller: a request for each packet, slow start, congestion avoidance, halving; sub-flows are
/// independent (§III-D, §IV-B). Initial window and smallest timeout, which it leaves open, have the values usual at its
/// time.
pub fn papers_transfer() -> TransferConfig {
    TransferConfig {
        controller: ControllerKind::LossBased,
        coupling: Coupling::Uncoupled,
        request_packets_max: 1,
        window_initial_packets: 4,
        rto_min: Duration::from_millis(200),
        ..TransferConfig::default()
    }
}

/// The two compared ways of fetching: prefix of the variant's name, and settings.
pub fn controllers() -> [(&'static str, TransferConfig); 2] {
    [("", papers_transfer()), ("default-", TransferConfig::default())]
}

/// One wide-area path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Way {
    /// Its rate in kbit/s while it is calm.
    pub kbps: u64,
    /// Its one-way propagation delay in milliseconds.
    pub delay_ms: u64,
    /// How it is congested.
    pub congestion: Congestion,
}

impl Way {
    /// The link in its calm state.
    pub fn config(&self) -> LinkConfig {
        link(self.kbps, self.delay_ms)
    }
    /// The link with its bursts.
    pub fn congested(&self, seed: u64, stream: u64) -> LinkConfig {
        let rate = Rate::from_bits_per_second(self.kbps * 1000);
        LinkConfig { script: Some(self.congestion.script(rate, seed, stream, LIMIT)), ..self.config() }
    }
    /// One line for a table of parameters.
    pub fn describe(&self) -> String {
        format!("{} Mbit/s, {} ms one way; {}", self.kbps as f64 / 1000.0, self.delay_ms, self.congestion.describe())
    }
}

/// A link with a queue of [`QUEUE`] at its rate, at least 48 KiB.
pub fn link(kbps: u64, delay_ms: u64) -> LinkConfig {
    let rate = Rate::from_bits_per_second(kbps * 1000);
    let queue_bytes = rate.bytes_in(QUEUE).max(48 << 10);
    LinkConfig { queue_bytes, ..LinkConfig::new(rate, Duration::from_millis(delay_ms)) }
}

/// How much a queue holds, as time at the link's rate.
pub const QUEUE: Duration = Duration::from_millis(40);
/// The subscriber's own link in kbit/s. The paper does not give it: 35.5 Mbit/s makes the fastest transfers that it
/// reports (50 MB in 12.2 s, 12 MB in 3.07 s) run at the rate of the link, and it explains why the other publishers'
/// rates rise by
/// 76.5 % and 30 % when the fastest one is silent (§IV-C2).
pub const ACCESS_KBPS: u64 = 35_500;
/// When fetches start: the domain has found itself by then.
pub const START: Time = Time::from_millis(3_000);
/// When a run is aborted.
pub const LIMIT: Time = Time::from_millis(600_000);
/// The name of the fetched file.
pub const NAME: &str = "/lab/file";

/// The object of all publishers.
pub fn file(bytes: usize) -> MemoryObject {
    object(NAME, bytes, 1)
}
/// Its name.
pub fn file_name() -> Name {
    NAME.parse().expect("the name is right")
}

/// The three publishers of Fig. 3(a).
///
/// Rates of publishers 1 and 3 follow from §IV-C2: with r₁ + r₂ + r₃ = 4.1 MB/s in normal mode, gains of 76.5 % and 30
/// % and 14.3 s in failure mode, r₁ ≈ 0.89, r₂ ≈ 2.2, r₃ ≈ 1.0 MB/s, and alone 1.57 and 1.30 MB/s. Publisher 2 gets
/// more than twice as much as the others on the common link, so its round trips are shorter, and publisher 1's are the
/// longest. The rate of publisher 2 follows from its mean of 4.8 s for 12 MB; bursts from the variances of §IV-C1.
pub const THREE_WAYS: [Way; 3] = [
    Way {
        kbps: 14_200,
        delay_ms: 50,
        congestion: Congestion { calm_seconds: 40.0, burst_seconds: 4.0, left: (0.25, 0.5) },
    },
    Way {
        kbps: 26_000,
        delay_ms: 14,
        congestion: Congestion { calm_seconds: 160.0, burst_seconds: 12.0, left: (0.06, 0.16) },
    },
    Way {
        kbps: 12_200,
        delay_ms: 24,
        congestion: Congestion { calm_seconds: 45.0, burst_seconds: 5.0, left: (0.3, 0.6) },
    },
];

/// ```text
///   pub-1 ── fn-1 ────── fn-0 ── receiver
///   pub-2 ── fn-2 ──────┘ │
///   pub-3 ── fn-3 ──────┘ rn-tm
/// ```
/// The links between fn-n and fn-0 are the wide-area paths; `bursts` is the seed of their congestion, `None` for calm.
pub fn three_sources(seed: u64, bursts: Option<u64>, transfer: &TransferConfig) -> Scenario {
    let mut scenario = core(seed);
    for (number, way) in (1..).zip(&THREE_WAYS) {
        add_source(&mut scenario, number);
        add_way(&mut scenario, &format!("fn-{number}"), "fn-0", way, bursts, number);
    }
    scenario.set_transfer(transfer);
    scenario
}

/// The receiver's side of a network: fn-0 with resolver, topology manager and receiver.
pub fn core(seed: u64) -> Scenario {
    let mut scenario = Scenario::new("wide area", seed);
    router(&mut scenario, "fn-0");
    scenario.add_node("rn-tm", Family::Psi, &[Role::Resolver, Role::TopologyManager]);
    scenario.add_node("receiver", Family::Psi, &[Role::Receiver]);
    scenario.add_link("rn-tm", "fn-0", link(100_000, 1));
    scenario.add_link("fn-0", "receiver", link(ACCESS_KBPS, 2));
    scenario.limit = LIMIT;
    scenario
}
/// A forwarder without cache, as in the paper's prototype.
pub fn router<'a>(scenario: &'a mut Scenario, label: &str) -> &'a mut NodeConfig {
    let config = scenario.add_node(label, Family::Psi, &[Role::Router]);
    config.psi_mut().cache_bytes.0 = 0;
    config
}
/// Publisher number n and its forwarder.
pub fn add_source(scenario: &mut Scenario, number: u64) {
    let (publisher, forwarder) = (format!("pub-{number}"), format!("fn-{number}"));
    router(scenario, &forwarder);
    scenario.add_node(&publisher, Family::Psi, &[Role::Sender]);
    scenario.add_link(&publisher, &forwarder, link(100_000, 1));
}
/// A wide-area link whose data direction, `from` to `to`, is congested.
pub fn add_way(scenario: &mut Scenario, from: &str, to: &str, way: &Way, bursts: Option<u64>, stream: u64) {
    let link = scenario.add_link(from, to, way.config());
    if let Some(seed) = bursts {
        link.forward = way.congested(seed, stream);
    }
}

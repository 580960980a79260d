//! The network of MFTP's evaluation (its Fig. 7), shared by all of its experiments.
use tributary::{Family, config::Role};
use tributary_core::{
    Duration, Random, Rate, Time,
    link::{LinkConfig, Loss},
};
use tributary_mf::Config;

use crate::{
    Results,
    optimum::MFTP_PAYLOAD_SHARE,
    rivals::Rival,
    simulation::{Outcome, Scenario},
};

/// The rivals of MFTP, with labels: the paper's, the same law with modern loss recovery, and the one that loss does not
/// fool.
pub(super) const RIVALS: [(Rival, &str); 3] =
    [(Rival::TcpCubic, "TCP Cubic"), (Rival::QuicCubic, "QUIC Cubic"), (Rival::QuicBbr, "QUIC BBR")];
/// Everybody's labels, MFTP's first.
pub(super) const LABELS: [&str; 4] = ["MFTP", RIVALS[0].1, RIVALS[1].1, RIVALS[2].1];

/// The share of a link's bytes that a variant's payload can be, by the variant's name.
pub(super) fn payload_share(variant: &str) -> f64 {
    Rival::by_name(variant).map_or(MFTP_PAYLOAD_SHARE, Rival::payload_share)
}
/// A length drawn evenly from a tenth less to a tenth more than usual.
pub(super) fn about(usual: Duration, random: &mut Random) -> Duration {
    usual.mul_f64(0.9 + 0.2 * random.unit())
}

/// Rate of the last hop. The paper's 802.11g at 54 Mbit/s carries 20 to 25 Mbit/s of IP packets.
pub(super) const LAST_HOP_KBPS: u64 = 25_000;
/// When requests begin: neighbours know each other, and every name has been renewed once, so that each router that keeps
/// names has all of them.
pub(super) const START: Time = Time::from_millis(13_000);
/// The name of the last hop's link.
pub(super) const LAST_HOP: &str = "n3-n4";

/// Server, two routers `rtt` apart, and a client behind a wireless hop.
/// ```text
///   n1 ──1 Gbit/s── n2 ──1 Gbit/s, rtt── n3 ──25 Mbit/s, loss── n4
/// ```
pub(super) fn figure_7(seed: u64, rtt: Duration, loss: f64, set: &dyn Fn(&mut Config)) -> Scenario {
    let mut scenario = Scenario::new("MFTP Fig. 7", seed);
    for (label, roles) in [
        ("n1", &[Role::Sender][..]),
        ("n2", &[Role::Router, Role::Resolver]),
        ("n3", &[Role::Router, Role::Resolver]),
        ("n4", &[Role::Receiver]),
    ] {
        let config = scenario.add_node(label, Family::Mf, roles);
        set(config.mf_mut());
    }
    scenario.add_link("n1", "n2", gigabit(Duration::from_micros(100)));
    scenario.add_link("n2", "n3", gigabit(rtt / 2));
    scenario.add_link("n3", "n4", last_hop(loss));
    scenario.limit = Time::from_millis(7_200_000);
    scenario
}

/// A wired link.
pub(super) fn gigabit(delay: Duration) -> LinkConfig {
    let rate = Rate::from_mbps(1_000);
    LinkConfig { queue_bytes: rate.bytes_in(Duration::from_millis(20)), ..LinkConfig::new(rate, delay) }
}
/// The wireless hop: packets that its own retransmissions could not save are lost, in both directions.
pub(super) fn last_hop(loss: f64) -> LinkConfig {
    let rate = Rate::from_bits_per_second(LAST_HOP_KBPS * 1000);
    let mut link = LinkConfig::new(rate, Duration::from_millis(1));
    // A tenth of a second, as access points have: more than the bandwidth-delay product of all but the longest path.
    link.queue_bytes = rate.bytes_in(Duration::from_millis(100));
    if loss > 0.0 {
        link.loss = Loss::Bernoulli(loss);
    }
    link
}

/// Describes the network that all experiments on Fig. 7 share.
pub(super) fn describe(results: &mut Results) {
    results.parameter("n1 – n2, n2 – n3", "1 Gbit/s, 0.1 ms one way and half of the round-trip time; 20 ms of queue");
    results.parameter("n3 – n4", "25 Mbit/s, 1 ms one way, 100 ms of queue, drop-tail; losses in both directions");
    results.parameter("chunks, back-pressure buffer, end-to-end window", "1 MiB, 6,000 packets, 8 chunks at first");
    results.note(
        "The paper's testbed had 802.11g at 54 Mbit/s, which carries 20 to 25 Mbit/s; netem gave delay and loss. Here the \
         last hop carries 25 Mbit/s, and everything runs in virtual time. Left open by the paper and chosen here: \
         buffer, queues, hello interval (200 ms), storage timer (1 s).",
    );
    results.note(
        "Rivals run on the same links: TCP Cubic is smoltcp's, QUIC Cubic and BBR are quinn's, one connection each, \
         whose handshake counts. smoltcp recovers one loss a round trip, so it has a receive window that fills the \
         path and half of the last hop's queue, and causes no losses itself. At 1 % loss its Cubic is slower than a \
         kernel's; quinn's Cubic represents the law better.",
    );
}

/// Unaccounted packets, summed over runs, as the metric `variant.unaccounted_packets`.
pub(super) fn record_conservation(results: &mut Results, variant: &str, packets: u64) {
    results.metric(format!("{variant}.unaccounted_packets"), packets as f64, "count");
}
/// Unaccounted packets of all links.
pub(super) fn unaccounted(outcome: &Outcome) -> u64 {
    outcome.links.iter().map(crate::simulation::LinkOutcome::unaccounted_packets).sum()
}

/// Unaccounted packets, of MFTP's runs and of all rivals' together.
#[derive(Default)]
pub(super) struct Unaccounted {
    ours: u64,
    rivals: u64,
}

impl Unaccounted {
    /// Adds the packets of a variant, by its name.
    pub(super) fn add(&mut self, variant: &str, packets: u64) {
        match Rival::by_name(variant) {
            None => self.ours += packets,
            Some(_) => self.rivals += packets,
        }
    }
    /// Tells both sums.
    pub(super) fn tell(&self, results: &mut Results) {
        record_conservation(results, "mftp", self.ours);
        record_conservation(results, "rivals", self.rivals);
    }
}

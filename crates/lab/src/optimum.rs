//! Upper bounds: how fast the links of a scenario could carry its transfers if nothing were ever lost or late.
//!
//! One receiver: maximum flow from all sources of the object (dinics). Several simultaneous transfers: a linear program
//! over one flow per transfer that maximises their sum, or the smallest of them (the fair bound). Both count payload:
//! of each full packet of 1,500 bytes, 1,448 are payload, the share of TCP with timestamps over Ethernet. Every
//! transport is compared with the same yardstick. One with shorter headers can exceed it, so MFTP's experiments bound
//! each transport by its [own share](MFTP_PAYLOAD_SHARE).
use petgraph::{algo::maximum_flow::dinics, graph::DiGraph};
use std::collections::{BTreeMap, BTreeSet};
use tributary_core::{
    Time,
    link::{LinkChange, LinkState},
};

use crate::simulation::{Direction, Fault, LinkSpec, PlannedFault, Scenario};

/// Share of a link that payload can use.
pub const PAYLOAD_SHARE: f64 = 1_448.0 / 1_500.0;
/// Share of a link that MFTP's payload can use: of 1,500 bytes 28 are IP's and UDP's, and 10 the packet's number and
/// chunk. No rival's is larger ([`Rival::payload_share`](crate::rivals::Rival::payload_share)), so this share bounds
/// all.
pub const MFTP_PAYLOAD_SHARE: f64 = 1_462.0 / 1_500.0;

/// What the links can carry at one time: bit/s by link, forward and backward.
#[derive(Clone, PartialEq, Debug)]
struct Capacities(Vec<[u64; 2]>);

/// What links without a limit can carry, in bit/s: more than any link with one.
const UNLIMITED: u64 = 1 << 50;

impl Capacities {
    fn new(links: &[LinkSpec]) -> Self {
        let rate = |config: &tributary_core::link::LinkConfig| {
            config.rate.map_or(UNLIMITED, |rate| (rate.bits_per_second() as f64 * (1.0 - config.loss.share())) as u64)
        };
        Capacities(links.iter().map(|link| [rate(&link.forward), rate(&link.backward)]).collect())
    }
}

/// Mean loss of a loss process.
trait Share {
    fn share(&self) -> f64;
}
impl Share for tributary_core::link::Loss {
    fn share(&self) -> f64 {
        use tributary_core::link::Loss;
        match self {
            Loss::Bernoulli(share) => *share,
            Loss::GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad } => {
                let bad = good_to_bad / (good_to_bad + bad_to_good).max(f64::MIN_POSITIVE);
                bad * loss_bad + (1.0 - bad) * loss_good
            }
            // No loss, or single packets by name, which have no share.
            Loss::None | Loss::Mask(_) => 0.0,
        }
    }
}

/// Mbit/s of payload from `sources` together to `receiver`, as the links are at the start of the scenario.
pub fn mbps(scenario: &Scenario, sources: &[&str], receiver: &str) -> f64 {
    mbps_of(PAYLOAD_SHARE, scenario, sources, receiver)
}
/// The same, where payload can use that share of a link.
pub fn mbps_of(payload_share: f64, scenario: &Scenario, sources: &[&str], receiver: &str) -> f64 {
    let sources: BTreeSet<&str> = sources.iter().copied().collect();
    let capacities = Capacities::new(&scenario.links);
    flow(scenario, &capacities, &sources, receiver, &BTreeSet::new()) * payload_share / 1e6
}

/// The least time in which `bytes` can come from `sources` to `receiver` from `start` on, while links change and
/// publishers fall silent as the scenario plans it. `None` if they never arrive.
pub fn seconds(scenario: &Scenario, sources: &[&str], receiver: &str, bytes: u64, start: Time) -> Option<f64> {
    seconds_of(PAYLOAD_SHARE, scenario, sources, receiver, bytes, start)
}
/// The same, where payload can use that share of a link.
pub fn seconds_of(
    payload_share: f64,
    scenario: &Scenario,
    sources: &[&str],
    receiver: &str,
    bytes: u64,
    start: Time,
) -> Option<f64> {
    let mut capacities = Capacities::new(&scenario.links);
    let full = capacities.clone();
    let (mut silent, mut down): (BTreeSet<&str>, BTreeSet<usize>) = (BTreeSet::new(), BTreeSet::new());
    let scripted = scripted(scenario);
    let mut faults: Vec<_> = scripted.iter().chain(&scenario.faults).collect();
    faults.sort_by_key(|planned| planned.at);
    let mut current = full.clone();
    let mut faults = faults.into_iter().peekable();
    let (mut now, mut left) = (start, bytes as f64 * 8.0);
    // What happened before the start counts as the state at the start.
    loop {
        while let Some(planned) = faults.next_if(|planned| planned.at <= now) {
            apply(scenario, &planned.fault, &mut capacities, &mut silent, &mut down);
        }
        for (index, capacity) in current.0.iter_mut().enumerate() {
            *capacity = if down.contains(&index) { [0, 0] } else { capacities.0[index] };
        }
        let able: BTreeSet<&str> = sources.iter().copied().filter(|source| !silent.contains(source)).collect();
        let rate = flow(scenario, &current, &able, receiver, &silent) * payload_share;
        let until = faults.peek().map(|planned| planned.at);
        let possible = until.map_or(f64::INFINITY, |until| rate * until.since(now).as_secs_f64());
        if rate > 0.0 && possible >= left {
            return Some(now.since(start).as_secs_f64() + left / rate);
        }
        left -= possible;
        now = until?;
    }
}

/// The links' own scripts, as faults. A repeating script counts once.
fn scripted(scenario: &Scenario) -> Vec<PlannedFault> {
    let mut planned = Vec::new();
    for link in &scenario.links {
        for (config, direction) in [(&link.forward, Direction::Forward), (&link.backward, Direction::Backward)] {
            for (time, change) in config.script.iter().flat_map(|script| script.steps()) {
                let fault = Fault::Link { link: link.name.clone(), direction, change: change.clone() };
                planned.push(PlannedFault { at: Time::ZERO + *time, fault });
            }
        }
    }
    planned
}

fn apply<'a>(
    scenario: &Scenario,
    fault: &'a Fault,
    capacities: &mut Capacities,
    silent: &mut BTreeSet<&'a str>,
    down: &mut BTreeSet<usize>,
) {
    match fault {
        Fault::Link { link, direction, change } => {
            let Some(index) = scenario.links.iter().position(|of| of.name == *link) else { return };
            match change {
                LinkChange::State(LinkState::Down) => {
                    down.insert(index);
                }
                LinkChange::State(LinkState::Up) => {
                    down.remove(&index);
                }
                LinkChange::Rate(rate) => {
                    let rate = rate.map_or(UNLIMITED, |rate| rate.bits_per_second());
                    let ways = match direction {
                        Direction::Both => [true, true],
                        Direction::Forward => [true, false],
                        Direction::Backward => [false, true],
                    };
                    for (capacity, changes) in capacities.0[index].iter_mut().zip(ways) {
                        if changes {
                            *capacity = rate;
                        }
                    }
                }
                // Other changes do not bound a link's rate.
                _ => {}
            }
        }
        Fault::Kill { node } | Fault::Freeze { node } | Fault::StopServing { node } => {
            silent.insert(node);
        }
        Fault::Start { node } | Fault::Thaw { node } | Fault::ServeAgain { node } => {
            silent.remove(node.as_str());
        }
    }
}

/// Bit/s on the wire from `sources` to `receiver`; hosts other than these pass nothing on.
fn flow(
    scenario: &Scenario,
    capacities: &Capacities,
    sources: &BTreeSet<&str>,
    receiver: &str,
    absent: &BTreeSet<&str>,
) -> f64 {
    let mut graph = DiGraph::<&str, u64>::new();
    let passes = |label: &str| !absent.contains(label) || sources.contains(label) || label == receiver;
    let nodes: BTreeMap<&str, _> = scenario
        .nodes
        .iter()
        .filter(|node| passes(&node.label))
        .map(|node| (node.label.as_str(), graph.add_node(node.label.as_str())))
        .collect();
    let everywhere = graph.add_node("all its holders");
    for source in sources {
        if let Some(node) = nodes.get(source) {
            graph.add_edge(everywhere, *node, UNLIMITED);
        }
    }
    for (link, capacity) in scenario.links.iter().zip(&capacities.0) {
        let [Some(a), Some(b)] = [&link.ends[0], &link.ends[1]].map(|end| nodes.get(end.as_str())) else { continue };
        graph.add_edge(*a, *b, capacity[0]);
        graph.add_edge(*b, *a, capacity[1]);
    }
    let Some(receiver) = nodes.get(receiver) else { return 0.0 };
    let (flow, _) = dinics(&graph, everywhere, *receiver);
    flow as f64
}

/// One of several simultaneous transfers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Demand {
    /// The nodes with the object.
    pub sources: Vec<String>,
    /// Who fetches it.
    pub receiver: String,
}

/// What a linear program makes largest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goal {
    /// The sum of all transfers.
    Sum,
    /// The smallest transfer.
    Smallest,
}

/// Mbit/s of payload of each of several transfers at a time, from a linear program with one flow per transfer and link:
/// the bound for a transport with complete knowledge. `None` if the program has no solution, which cannot be.
pub fn together(scenario: &Scenario, demands: &[Demand], goal: Goal) -> Option<Vec<f64>> {
    use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOutcome};
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let sum_weight = if goal == Goal::Sum { 1.0 } else { 0.0 };
    let totals: Vec<_> = demands.iter().map(|_| problem.add_var(sum_weight, (0.0, f64::INFINITY))).collect();
    if goal == Goal::Smallest {
        let least = problem.add_var(1.0, (0.0, f64::INFINITY));
        for total in &totals {
            problem.add_constraint([(least, 1.0), (*total, -1.0)], ComparisonOp::Le, 0.0);
        }
    }
    let mut edges = Vec::new();
    for link in &scenario.links {
        let [a, b] = [&link.ends[0], &link.ends[1]];
        for (from, to, config) in [(a, b, &link.forward), (b, a, &link.backward)] {
            let mbps = config.rate.map_or(UNLIMITED as f64 / 1e6, |rate| rate.mbps()) * (1.0 - config.loss.share());
            let flows: Vec<_> = demands.iter().map(|_| problem.add_var(0.0, (0.0, mbps))).collect();
            let all: Vec<_> = flows.iter().map(|flow| (*flow, 1.0)).collect();
            problem.add_constraint(&all, ComparisonOp::Le, mbps);
            edges.push((from, to, flows));
        }
    }
    for (index, demand) in demands.iter().enumerate() {
        for node in &scenario.nodes {
            let mut balance = Vec::new();
            for (from, to, flows) in &edges {
                if **to == node.label {
                    balance.push((flows[index], 1.0));
                }
                if **from == node.label {
                    balance.push((flows[index], -1.0));
                }
            }
            if node.label == demand.receiver {
                balance.push((totals[index], -1.0));
                problem.add_constraint(&balance, ComparisonOp::Eq, 0.0);
            } else if !demand.sources.contains(&node.label) && !balance.is_empty() {
                problem.add_constraint(&balance, ComparisonOp::Eq, 0.0);
            }
        }
    }
    let Ok(SolveOutcome::Solution(solution)) = problem.solve() else { return None };
    Some(totals.iter().map(|total| solution[*total] * PAYLOAD_SHARE).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_core::{Duration, Rate, link::LinkConfig};

    fn second(seconds: u64) -> Time {
        Time::from_millis(seconds * 1000)
    }
    /// ```text
    ///   a ──10── x ──12── r        b ──5── x
    /// ```
    fn two_sources() -> Scenario {
        let mut scenario = Scenario::new("bound", 1);
        for label in ["a", "b", "x", "r"] {
            scenario.add_bare_node(label);
        }
        for (a, b, mbps) in [("a", "x", 10), ("b", "x", 5), ("x", "r", 12)] {
            scenario.add_link(a, b, LinkConfig::new(Rate::from_mbps(mbps), Duration::ZERO));
        }
        scenario
    }
    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-6, "{a} is not {b}");
    }

    #[test]
    fn the_narrowest_cut_bounds() {
        let scenario = two_sources();
        near(mbps(&scenario, &["a", "b"], "r"), 12.0 * PAYLOAD_SHARE);
        near(mbps(&scenario, &["a"], "r"), 10.0 * PAYLOAD_SHARE);
        near(mbps(&scenario, &["a", "b"], "x"), 15.0 * PAYLOAD_SHARE);
    }

    #[test]
    fn time_adds_up_over_faults() {
        let mut scenario = two_sources();
        // 12 Mbit/s for 2 s, then 5 for 2 s, then 12 again: 12 Mbit·s of payload are 1 s.
        scenario.fault(second(3), Fault::StopServing { node: "a".into() });
        scenario.fault(second(5), Fault::ServeAgain { node: "a".into() });
        let bytes = (1e6 / 8.0 * PAYLOAD_SHARE * (12.0 * 2.0 + 5.0 * 2.0 + 12.0)) as u64;
        let took = seconds(&scenario, &["a", "b"], "r", bytes, second(1)).unwrap();
        assert!((took - 5.0).abs() < 1e-4, "{took}");
        scenario.change_link(second(1), "x-r", LinkChange::State(LinkState::Down));
        assert_eq!(seconds(&scenario, &["a", "b"], "r", bytes, second(1)), None);
    }

    #[test]
    fn a_linear_program_of_one_transfer_is_a_maximum_flow() {
        let scenario = two_sources();
        let demand = Demand { sources: vec!["a".into(), "b".into()], receiver: "r".into() };
        for goal in [Goal::Sum, Goal::Smallest] {
            near(together(&scenario, std::slice::from_ref(&demand), goal).unwrap()[0], 12.0 * PAYLOAD_SHARE);
        }
    }

    #[test]
    fn several_transfers_share_what_there_is() {
        let scenario = two_sources();
        let demands = [("a", "r"), ("b", "r")]
            .map(|(source, receiver)| Demand { sources: vec![source.into()], receiver: receiver.into() });
        let sum: f64 = together(&scenario, &demands, Goal::Sum).unwrap().iter().sum();
        near(sum, 12.0 * PAYLOAD_SHARE);
        let fair = together(&scenario, &demands, Goal::Smallest).unwrap();
        assert!(fair.iter().all(|mbps| *mbps > 4.99 * PAYLOAD_SHARE), "{fair:?}");
    }
}

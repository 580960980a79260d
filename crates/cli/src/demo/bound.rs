//! The fluid bound: how fast the demo's links could carry the file if nothing were ever lost or late.
use petgraph::{algo::maximum_flow::dinics, graph::DiGraph};
use std::collections::{BTreeMap, BTreeSet};

use super::topology::{Carries, RECEIVER, Topology};

/// Share of a link that payload can use: 1,448 of 1,500 bytes, as TCP uses full Ethernet packets. All compared
/// transports share this yardstick, so our own headers count against us.
pub(crate) const PAYLOAD_SHARE: f64 = 1_448.0 / 1_500.0;

/// What does not work at a moment.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Broken {
    pub(crate) nodes: BTreeSet<&'static str>,
    pub(crate) links: BTreeSet<[&'static str; 2]>,
}

/// Mbit/s of payload from all publishers together to the receiver, by maximum flow over the links for data.
pub(crate) fn capacity_mbps(topology: &Topology, broken: &Broken, loss: f64) -> f64 {
    let publishers: Vec<_> = topology.publishers().collect();
    capacity_from(topology, &publishers, broken, loss)
}
/// The same from any nodes that have the object.
pub(crate) fn capacity_from(topology: &Topology, holders: &[&str], broken: &Broken, loss: f64) -> f64 {
    let mut graph = DiGraph::<&str, u64>::new();
    let works = |label: &str| !broken.nodes.contains(label);
    let nodes: BTreeMap<_, _> = topology
        .nodes
        .iter()
        .filter(|node| works(node.label))
        .map(|node| (node.label, graph.add_node(node.label)))
        .collect();
    let everywhere = graph.add_node("all its holders");
    for holder in holders {
        if let Some(node) = nodes.get(holder) {
            graph.add_edge(everywhere, *node, u64::from(u32::MAX));
        }
    }
    for link in &topology.links {
        if link.carries == Carries::Control || broken.links.contains(&link.ends) {
            continue;
        }
        if let [Some(a), Some(b)] = link.ends.map(|end| nodes.get(end)) {
            graph.add_edge(*a, *b, link.mbps);
            graph.add_edge(*b, *a, link.mbps);
        }
    }
    let Some(receiver) = nodes.get(RECEIVER) else { return 0.0 };
    let (flow, _) = dinics(&graph, everywhere, *receiver);
    flow as f64 * PAYLOAD_SHARE * (1.0 - loss)
}

/// How long `bytes` take at the capacities of `timeline`: moments in seconds, ascending from zero, with the Mbit/s from
/// then on. `None` if they never arrive.
pub(crate) fn seconds(bytes: u64, timeline: &[(f64, f64)]) -> Option<f64> {
    let mut left = bytes as f64 * 8.0 / 1e6;
    for (index, (from, mbps)) in timeline.iter().enumerate() {
        let until = timeline.get(index + 1).map_or(f64::INFINITY, |(next, _)| *next);
        let possible = mbps * (until - from);
        if *mbps > 0.0 && possible >= left {
            return Some(from + left / mbps);
        }
        left -= if *mbps > 0.0 { possible } else { 0.0 };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::topology::{BEST_LINK, Fetches, WEAK_PUBLISHER, choose};

    #[test]
    fn the_links_to_the_receiver_bound_the_demo() {
        let topology = choose(tributary::Family::Psi, Fetches::Once, None);
        let complete = capacity_mbps(&topology, &Broken::default(), 0.0);
        assert!((complete - 56.0 * PAYLOAD_SHARE).abs() < 1e-9, "{complete}");
        let without_publisher = Broken { nodes: [WEAK_PUBLISHER].into(), ..Broken::default() };
        assert!((capacity_mbps(&topology, &without_publisher, 0.0) - 24.0 * PAYLOAD_SHARE).abs() < 1e-9);
        let without_link = Broken { links: [BEST_LINK].into(), ..Broken::default() };
        assert!((capacity_mbps(&topology, &without_link, 0.5) - 36.0 * PAYLOAD_SHARE * 0.5).abs() < 1e-9);
        let without_receiver = Broken { nodes: [RECEIVER].into(), ..Broken::default() };
        assert!(capacity_mbps(&topology, &without_receiver, 0.0).abs() < 1e-9);
    }

    #[test]
    fn time_adds_up_over_changes_of_capacity() {
        let near = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 1e-9, "{a:?} {b}");
        near(seconds(50_000_000, &[(0.0, 40.0)]), 10.0);
        near(seconds(50_000_000, &[(0.0, 40.0), (5.0, 20.0)]), 15.0);
        near(seconds(50_000_000, &[(0.0, 40.0), (5.0, 0.0), (7.0, 40.0)]), 12.0);
        near(seconds(0, &[(0.0, 40.0)]), 0.0);
        assert_eq!(seconds(1, &[(0.0, 0.0)]), None);
    }
}

//! The networks of PTP's evaluation. Nodes have the paper's numbers.
use petgraph::{algo::maximum_flow::dinics, graph::DiGraph};
use std::collections::{BTreeMap, BTreeSet};

/// A link with the same rate and delay in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LinkSpec {
    /// The end nearer to the consumers.
    pub(super) near: u8,
    /// The end nearer to the producers.
    pub(super) far: u8,
    pub(super) kbps: u64,
    pub(super) delay_us: u64,
    pub(super) ways: Ways,
}

/// The directions in which Interests may travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ways {
    /// From near to far.
    Away,
    /// Both ways.
    Both,
}

/// A network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Topology {
    pub(super) links: Vec<LinkSpec>,
}

impl Topology {
    /// Links as (near, far, kbit/s, milliseconds), on which Interests go from near to far.
    pub(super) fn new(links: &[(u8, u8, u64, u64)]) -> Self {
        Topology::of(links, Ways::Away)
    }
    /// A topology whose links carry Interests in both directions.
    pub(super) fn two_way(links: &[(u8, u8, u64, u64)]) -> Self {
        Topology::of(links, Ways::Both)
    }
    fn of(links: &[(u8, u8, u64, u64)], ways: Ways) -> Self {
        let link = |&(near, far, kbps, delay_ms)| LinkSpec { near, far, kbps, delay_us: delay_ms * 1_000, ways };
        Topology { links: links.iter().map(link).collect() }
    }
    /// This topology with shorter delays.
    pub(super) fn with_delays_divided(&self, by: u64) -> Self {
        let links = self.links.iter().map(|link| LinkSpec { delay_us: link.delay_us / by, ..*link });
        Topology { links: links.collect() }
    }
    /// All nodes, in order.
    pub(super) fn nodes(&self) -> BTreeSet<u8> {
        self.links.iter().flat_map(|link| [link.near, link.far]).collect()
    }
    /// The hops that Interests may take: the link's number, from, to.
    pub(super) fn hops(&self) -> Vec<(usize, u8, u8)> {
        let mut hops = Vec::new();
        for (index, link) in self.links.iter().enumerate() {
            hops.push((index, link.near, link.far));
            if link.ways == Ways::Both {
                hops.push((index, link.far, link.near));
            }
        }
        hops
    }
    /// The hops that can start a path to one of `producers` without returning to the hop's node: ndnSIM's "all possible
    /// routes".
    pub(super) fn routes(&self, producers: &[u8]) -> Vec<(usize, u8, u8)> {
        let hops = self.hops();
        let leads = |from: u8, to: u8| {
            let (mut seen, mut open) = (BTreeSet::from([from, to]), vec![to]);
            while let Some(at) = open.pop() {
                if producers.contains(&at) {
                    return true;
                }
                open.extend(
                    hops.iter().filter(|(_, near, far)| *near == at && seen.insert(*far)).map(|(.., far)| *far),
                );
            }
            false
        };
        hops.iter().copied().filter(|(_, from, to)| !producers.contains(from) && leads(*from, *to)).collect()
    }
    /// The maximum kbit/s on the wire that can flow from `producers` to `consumer`, and the share of each hop of
    /// [`Topology::hops`] in one optimum.
    pub(super) fn optimum(&self, producers: &[u8], consumer: u8) -> (u64, Vec<u64>) {
        let mut graph = DiGraph::<u8, u64>::new();
        let nodes: BTreeMap<u8, _> = self.nodes().into_iter().map(|node| (node, graph.add_node(node))).collect();
        let everywhere = graph.add_node(0);
        // Data flows against Interests.
        let edges: Vec<_> = self
            .hops()
            .iter()
            .map(|(link, from, to)| graph.add_edge(nodes[to], nodes[from], self.links[*link].kbps))
            .collect();
        for producer in producers {
            graph.add_edge(everywhere, nodes[producer], u64::from(u32::MAX));
        }
        let (total, flows) = dinics(&graph, everywhere, nodes[&consumer]);
        (total, edges.iter().map(|edge| flows[edge.index()]).collect())
    }
    /// Paths without circles from `consumer` to any of `producers`.
    #[cfg(test)]
    pub(super) fn paths(&self, producers: &[u8], consumer: u8) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        let mut open = vec![vec![consumer]];
        while let Some(path) = open.pop() {
            let last = path[path.len() - 1];
            if producers.contains(&last) {
                found.push(path);
                continue;
            }
            for (_, from, to) in self.hops() {
                if from == last && !path.contains(&to) {
                    open.push(path.iter().copied().chain([to]).collect());
                }
            }
        }
        found.sort();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_flow_is_that_of_the_narrow_links() {
        let tree =
            Topology::new(&[(1, 2, 6000, 5), (2, 3, 2000, 10), (2, 4, 1000, 10), (3, 5, 500, 10), (3, 6, 1000, 10)]);
        assert_eq!(tree.optimum(&[5, 6, 4], 1), (2500, vec![2500, 1500, 1000, 500, 1000]));
        assert_eq!(tree.paths(&[5, 6], 1), [vec![1, 2, 3, 5], vec![1, 2, 3, 6]]);
        assert_eq!(tree.routes(&[5]), [(0, 1, 2), (1, 2, 3), (3, 3, 5)]);
    }

    #[test]
    fn routes_lead_to_a_producer_without_coming_back() {
        // A triangle behind the consumer, and a dead end at 5.
        let two_way = Topology::two_way(&[(1, 2, 1, 1), (2, 3, 1, 1), (2, 4, 1, 1), (3, 4, 1, 1), (3, 5, 1, 1)]);
        let hops: Vec<(u8, u8)> = two_way.routes(&[4]).into_iter().map(|(_, from, to)| (from, to)).collect();
        assert_eq!(hops, [(1, 2), (2, 3), (3, 2), (2, 4), (3, 4), (5, 3)]);
        assert_eq!(two_way.paths(&[4], 1), [vec![1, 2, 3, 4], vec![1, 2, 4]]);
    }
}

//! The k shortest loopless paths (Yen 1971; paper §IV-A), with Lawler's rule that a path varies only behind the place
//! where it left its parent, and A* towards the goal for every variation.
//!
//! Distances to the goal in the complete graph never exceed those in a graph with links removed, so one search from the
//! goal gives the bound for all variations, which then visit little more than the nodes on the path.
use alloc::{
    collections::{BTreeSet, BinaryHeap},
    vec::Vec,
};
use core::cmp::Reverse;

use super::graph::{Graph, LinkIndex, NodeIndex};

/// A path: links in order, and the sum of their costs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Path {
    /// The sum of the links' costs.
    pub cost: u64,
    /// The links, from start to goal.
    pub links: Vec<LinkIndex>,
}

const FAR: u64 = u64::MAX;

/// Searches from one start to one goal. Only routers are passed through; start and goal may be any node.
pub struct Search<'a> {
    graph: &'a Graph,
    costs: &'a [u64],
    start: NodeIndex,
    goal: NodeIndex,
    /// Distance of each node to the goal over routers.
    bound: Vec<u64>,
    /// Per node: the round in which it was seen, its distance from the start of the round, the link that led there.
    seen: Vec<(u32, u64, LinkIndex)>,
    banned_nodes: Vec<bool>,
    round: u32,
}

impl<'a> Search<'a> {
    /// A search with these costs, one per link of the graph, all above zero.
    pub fn new(graph: &'a Graph, costs: &'a [u64], start: NodeIndex, goal: NodeIndex) -> Search<'a> {
        let count = graph.node_count();
        Search {
            graph,
            costs,
            start,
            goal,
            bound: distances_to(graph, costs, goal),
            seen: alloc::vec![(0, 0, LinkIndex(0)); count],
            banned_nodes: alloc::vec![false; count],
            round: 0,
        }
    }
    /// The `k` cheapest loopless paths, cheapest first; of equal cost, the one whose links come first in the graph's
    /// order of those that were found. Fewer if there are fewer.
    pub fn k_shortest(&mut self, k: usize) -> Vec<Path> {
        let mut found: Vec<(Path, usize)> = Vec::new();
        // Candidates with the index of the link at which they left their parent.
        let mut candidates: BTreeSet<(Path, usize)> = BTreeSet::new();
        if k > 0
            && let Some(path) = self.shortest(self.start, self.costs, &[], FAR)
        {
            candidates.insert((path, 0));
        }
        while found.len() < k {
            let Some((path, deviation)) = candidates.pop_first() else { break };
            found.push((path, deviation));
            if found.len() == k {
                break;
            }
            let (path, deviation) = found.last().cloned().expect("it was just pushed");
            let mut root_cost: u64 = path.links[..deviation].iter().map(|link| self.cost(*link)).sum();
            for i in deviation..path.links.len() {
                let root = &path.links[..i];
                let spur = self.graph.link(path.links[i]).from;
                let banned: Vec<LinkIndex> = found
                    .iter()
                    .filter(|(other, _)| other.links.len() > i && other.links[..i] == *root)
                    .map(|(other, _)| other.links[i])
                    .collect();
                root.iter().for_each(|link| self.banned_nodes[self.graph.link(*link).from.0 as usize] = true);
                // A path that is not cheaper than the most expensive candidate of a full set would be dropped again.
                let full = candidates.len() >= k - found.len();
                let dearest = candidates.last().filter(|_| full).map_or(FAR, |(path, _)| path.cost);
                let limit = dearest.checked_sub(root_cost.saturating_add(1));
                let tail = limit.and_then(|limit| self.shortest(spur, self.costs, &banned, limit));
                root.iter().for_each(|link| self.banned_nodes[self.graph.link(*link).from.0 as usize] = false);
                if let Some(tail) = tail {
                    let links = [root, &tail.links[..]].concat();
                    candidates.insert((Path { cost: root_cost + tail.cost, links }, i));
                    // No more than these can still be chosen.
                    while candidates.len() > k - found.len() {
                        candidates.pop_last();
                    }
                }
                root_cost += self.cost(path.links[i]);
            }
        }
        found.into_iter().map(|(path, _)| path).collect()
    }
    /// The cheapest path with `costs` as the links' costs, which must not be less than at the start.
    pub fn shortest_with(&mut self, costs: &[u64]) -> Option<Path> {
        let path = self.shortest(self.start, costs, &[], FAR)?;
        Some(Path { cost: path.links.iter().map(|link| self.cost(*link)).sum(), links: path.links })
    }

    fn cost(&self, link: LinkIndex) -> u64 {
        self.costs[link.0 as usize]
    }
    /// The cheapest path from `from` to the goal that costs at most `limit` and avoids the banned links at its start,
    /// and the banned nodes.
    fn shortest(&mut self, from: NodeIndex, costs: &[u64], banned: &[LinkIndex], limit: u64) -> Option<Path> {
        self.round += 1;
        let bound = self.bound[from.0 as usize];
        // A host that is no router has no transit bound, but paths may start there.
        let bound = if bound == FAR { 0 } else { bound };
        self.seen[from.0 as usize] = (self.round, 0, LinkIndex(0));
        let mut open = BinaryHeap::new();
        open.push(Reverse((bound, bound, from)));
        while let Some(Reverse((estimate, rest, node))) = open.pop() {
            let (_, distance, _) = self.seen[node.0 as usize];
            if node == self.goal {
                return Some(Path { cost: distance, links: self.trace(from) });
            }
            if estimate > distance.saturating_add(rest) || (node != from && !self.graph.is_transit(node)) {
                continue;
            }
            for link in self.graph.links_of(node) {
                let Some(next) = self.graph.end_of(link) else { continue };
                let rest = self.bound[next.0 as usize];
                if rest == FAR || self.banned_nodes[next.0 as usize] || next == from {
                    continue;
                }
                if node == from && banned.contains(&link) {
                    continue;
                }
                let reached = distance + costs[link.0 as usize];
                if reached + rest > limit {
                    continue;
                }
                let (round, known, _) = self.seen[next.0 as usize];
                if round == self.round && known <= reached {
                    continue;
                }
                self.seen[next.0 as usize] = (self.round, reached, link);
                open.push(Reverse((reached + rest, rest, next)));
            }
        }
        None
    }
    fn trace(&self, from: NodeIndex) -> Vec<LinkIndex> {
        let mut links = Vec::new();
        let mut node = self.goal;
        while node != from {
            let (_, _, link) = self.seen[node.0 as usize];
            links.push(link);
            node = self.graph.link(link).from;
        }
        links.reverse();
        links
    }
}

/// Cost of the cheapest path of each node to `goal`; nodes that are not routers end paths, they are not passed.
fn distances_to(graph: &Graph, costs: &[u64], goal: NodeIndex) -> Vec<u64> {
    let mut distances = alloc::vec![FAR; graph.node_count()];
    distances[goal.0 as usize] = 0;
    let mut open = BinaryHeap::new();
    open.push(Reverse((0, goal)));
    while let Some(Reverse((distance, node))) = open.pop() {
        if distance > distances[node.0 as usize] || (node != goal && !graph.is_transit(node)) {
            continue;
        }
        for link in graph.links_into(node) {
            let from = graph.link(*link).from;
            let reached = distance + costs[link.0 as usize];
            if reached < distances[from.0 as usize] {
                distances[from.0 as usize] = reached;
                open.push(Reverse((reached, from)));
            }
        }
    }
    distances
}

/// The last link of the path with the fewest hops from `root` to each node; `None` for the root and for nodes that
/// cannot be reached. Only routers are passed through. Of equal paths the one found first in the graph's order.
pub fn shortest_tree(graph: &Graph, root: NodeIndex) -> Vec<Option<LinkIndex>> {
    let mut last = alloc::vec![None; graph.node_count()];
    let mut layer = alloc::vec![root];
    while !layer.is_empty() {
        let mut next = Vec::new();
        for node in layer {
            if node != root && !graph.is_transit(node) {
                continue;
            }
            for link in graph.links_of(node) {
                let Some(to) = graph.end_of(link) else { continue };
                if to != root && last[to.0 as usize].is_none() {
                    last[to.0 as usize] = Some(link);
                    next.push(to);
                }
            }
        }
        layer = next;
    }
    last
}

#[cfg(test)]
mod tests {
    use super::super::graph::tests::{graph, random_links, states};
    use super::*;
    use crate::ids::Roles;
    use proptest::prelude::*;
    use tributary_core::Random;

    /// Every loopless path, by trying all.
    fn all_paths(graph: &Graph, costs: &[u64], start: NodeIndex, goal: NodeIndex) -> Vec<Path> {
        fn extend(
            graph: &Graph,
            costs: &[u64],
            goal: NodeIndex,
            node: NodeIndex,
            visited: &mut Vec<NodeIndex>,
            links: &mut Vec<LinkIndex>,
            found: &mut Vec<Path>,
        ) {
            if node == goal {
                let cost = links.iter().map(|link| costs[link.0 as usize]).sum();
                found.push(Path { cost, links: links.clone() });
                return;
            }
            if visited.len() > 1 && !graph.is_transit(node) {
                return;
            }
            for link in graph.links_of(node) {
                let Some(next) = graph.end_of(link) else { continue };
                if !visited.contains(&next) {
                    visited.push(next);
                    links.push(link);
                    extend(graph, costs, goal, next, visited, links, found);
                    links.pop();
                    visited.pop();
                }
            }
        }
        let mut found = Vec::new();
        extend(graph, costs, goal, start, &mut [start].into(), &mut Vec::new(), &mut found);
        found.sort();
        found
    }

    proptest! {
        #[test]
        fn yen_finds_what_trying_all_paths_finds(seed in any::<u64>(), count in 2usize..8, extra in 0usize..10, k in 1usize..12) {
            let mut random = Random::new(seed, 0);
            let links = random_links(&mut random, count, extra);
            let mut states = states(count, &links);
            for state in &mut states {
                if random.chance(0.2) {
                    state.roles = Roles::SENDER;
                }
            }
            let graph = Graph::new(&states.iter().collect::<Vec<_>>());
            let unit = random.chance(0.3);
            let costs: Vec<u64> = (0..graph.link_count()).map(|_| if unit { 1 } else { 1 + random.below(9) }).collect();
            let (start, goal) = (NodeIndex(0), NodeIndex(count as u32 - 1));
            let found = Search::new(&graph, &costs, start, goal).k_shortest(k);
            let all = all_paths(&graph, &costs, start, goal);
            let costs_of = |paths: &[Path]| paths.iter().map(|path| path.cost).collect::<Vec<_>>();
            prop_assert_eq!(costs_of(&found), costs_of(&all[..k.min(all.len())]));
            for (i, path) in found.iter().enumerate() {
                prop_assert!(all.contains(path), "{:?} is no path", path);
                prop_assert!(!found[..i].contains(path), "{:?} comes twice", path);
            }
            let again = Search::new(&graph, &costs, start, goal).k_shortest(k);
            prop_assert_eq!(found, again);
        }

        #[test]
        fn yen_agrees_with_the_pathfinding_crate(seed in any::<u64>(), count in 2usize..25, extra in 0usize..40, k in 1usize..10) {
            let mut random = Random::new(seed, 1);
            let graph = graph(count, &random_links(&mut random, count, extra));
            // Among paths of equal cost, version 4.16 of that crate takes dearer ones before it has varied all of them,
            // so the costs here are such that no two paths cost the same; trying all paths covers ties.
            let costs: Vec<u64> = (0..graph.link_count()).map(|_| 1 + random.below(1 << 40)).collect();
            let (start, goal) = (NodeIndex(0), NodeIndex(count as u32 - 1));
            let found = Search::new(&graph, &costs, start, goal).k_shortest(k);
            let successors = |node: &NodeIndex| {
                let next = |link: LinkIndex| Some((graph.end_of(link)?, costs[link.0 as usize]));
                graph.links_of(*node).filter_map(next).collect::<Vec<_>>()
            };
            let theirs = pathfinding::directed::yen::yen(&start, successors, |node| *node == goal, k);
            let ours: Vec<u64> = found.iter().map(|path| path.cost).collect();
            let theirs: Vec<u64> = theirs.into_iter().map(|(_, cost)| cost).collect();
            prop_assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn a_path_to_itself_is_empty_and_no_path_is_none() {
        let graph = graph(3, &[(0, 1)]);
        let costs = [1, 1];
        let same = Search::new(&graph, &costs, NodeIndex(1), NodeIndex(1)).k_shortest(4);
        assert_eq!(same, [Path { cost: 0, links: Vec::new() }]);
        assert_eq!(Search::new(&graph, &costs, NodeIndex(0), NodeIndex(2)).k_shortest(4), []);
    }

    #[test]
    fn hosts_are_not_passed_through() {
        let mut states = states(4, &[(0, 1), (1, 3), (0, 2), (2, 3)]);
        states[1].roles = Roles::SENDER | Roles::RECEIVER;
        let graph = Graph::new(&states.iter().collect::<Vec<_>>());
        let paths = Search::new(&graph, &[1; 8], NodeIndex(0), NodeIndex(3)).k_shortest(9);
        assert_eq!(paths.len(), 1);
        assert_eq!(graph.end_of(paths[0].links[0]), Some(NodeIndex(2)));
        let tree = shortest_tree(&graph, NodeIndex(0));
        assert_eq!(tree[3].map(|link| graph.link(link).from), Some(NodeIndex(2)));
        assert!(tree[1].is_some() && tree[0].is_none());
    }
}

//! Selects the paths of a transfer: the requested number, sharing as few links as possible.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use super::{
    graph::{Graph, LinkIndex, NodeIndex},
    yen::{Path, Search},
};

tributary_core::declared! {
    /// How paths are chosen.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct PathConfig {
        /// Increase of a link's cost, in tenths, each time that a candidate has used it while more candidates are
        /// sought by their disjointness. Zero disables that search. Default: 40.
        pub penalty_tenths: u64 = 40,
        /// Maximum links of a path, bounded by the hop limit of a packet. Default: 63.
        pub hops_max: usize = 63,
    }
}

/// Chooses up to `k` paths from each source to `receiver`, in the direction of data, best first.
///
/// The rule: the first path of each source is its cheapest. Then, in rounds over the sources, each gets of its
/// remaining candidates the one that shares the fewest links with all paths chosen so far for any source; of these
/// the cheapest; of these the first in the order of links. Candidates are the `candidates · k` shortest paths and,
/// for disjointness, up to `2 k` paths that are cheapest when links already used by candidates cost more. With
/// `k` = 1 this is the shortest path, as in the paper (§IV-A).
pub fn select(
    graph: &Graph,
    costs: &[u64],
    sources: &[NodeIndex],
    receiver: NodeIndex,
    k: usize,
    config: &PathConfig,
) -> Vec<Vec<Path>> {
    select_noting(graph, costs, (sources, receiver), k, config, &mut BTreeSet::new())
}

/// The same; adds the links of all candidates to `used`. If no two paths cost the same, the result is the same without any
/// other link: each candidate is the cheapest path of some search.
pub(super) fn select_noting(
    graph: &Graph,
    costs: &[u64],
    (sources, receiver): (&[NodeIndex], NodeIndex),
    k: usize,
    config: &PathConfig,
    used: &mut BTreeSet<LinkIndex>,
) -> Vec<Vec<Path>> {
    let mut candidates: Vec<Vec<Path>> =
        sources.iter().map(|source| candidates_of(graph, costs, [*source, receiver], (k, config), used)).collect();
    let mut taken: BTreeSet<LinkIndex> = BTreeSet::new();
    let mut chosen: Vec<Vec<Path>> = sources.iter().map(|_| Vec::new()).collect();
    for round in 0..k {
        for (candidates, chosen) in candidates.iter_mut().zip(&mut chosen) {
            // In the first round all share as much.
            let is_shared = |link: &&LinkIndex| round > 0 && taken.contains(link);
            let shared = |path: &Path| path.links.iter().filter(is_shared).count();
            let best = candidates.iter().enumerate().min_by_key(|(_, path)| (shared(path), *path));
            if let Some((best, _)) = best {
                let path = candidates.swap_remove(best);
                taken.extend(&path.links);
                chosen.push(path);
            }
        }
    }
    chosen
}

/// Candidates per path that is wanted; the first ones of the k shortest.
const CANDIDATES: usize = 3;

fn candidates_of(
    graph: &Graph,
    costs: &[u64],
    [source, receiver]: [NodeIndex; 2],
    (k, config): (usize, &PathConfig),
    used: &mut BTreeSet<LinkIndex>,
) -> Vec<Path> {
    let mut search = Search::new(graph, costs, source, receiver);
    let mut candidates = search.k_shortest(if k > 1 { k * CANDIDATES } else { k });
    if k > 1 && config.penalty_tenths > 0 && !candidates.is_empty() {
        let mut dearer = costs.to_vec();
        let mut next = candidates.first().cloned();
        for _ in 0..2 * k {
            let Some(path) = next else { break };
            for link in &path.links {
                let cost = costs[link.0 as usize];
                // At least 1 more, for costs below ten tenths.
                dearer[link.0 as usize] += (cost * config.penalty_tenths / 10).max(1);
            }
            if !candidates.contains(&path) {
                candidates.push(path);
            }
            next = search.shortest_with(&dearer);
        }
    }
    used.extend(candidates.iter().flat_map(|path| &path.links));
    candidates.retain(|path| path.links.len() <= config.hops_max);
    candidates
}

/// For each path, the links (in the direction of data) that it shares with another one. Links shared by the same set of
/// paths have one representative: the one with the least known `rate`, or the first if no rate is known.
pub fn shared_links(paths: &[&[LinkIndex]], rate: impl Fn(LinkIndex) -> Option<u32>) -> Vec<Vec<LinkIndex>> {
    let mut users: BTreeMap<LinkIndex, Vec<usize>> = BTreeMap::new();
    for (i, links) in paths.iter().enumerate() {
        links.iter().for_each(|link| users.entry(*link).or_default().push(i));
    }
    let mut representatives: BTreeMap<Vec<usize>, LinkIndex> = BTreeMap::new();
    for (link, users) in users {
        if users.len() > 1 {
            let narrowest = representatives.entry(users).or_insert(link);
            // An unknown rate counts as wide.
            if rate(link).unwrap_or(u32::MAX) < rate(*narrowest).unwrap_or(u32::MAX) {
                *narrowest = link;
            }
        }
    }
    let mut shared = alloc::vec![Vec::new(); paths.len()];
    for (users, link) in representatives {
        users.into_iter().for_each(|user| shared[user].push(link));
    }
    shared.iter_mut().for_each(|links| links.sort_unstable());
    shared
}

#[cfg(test)]
mod tests {
    use super::super::graph::tests::graph;
    use super::*;

    fn nodes(graph: &Graph, path: &Path) -> Vec<u32> {
        path.links.iter().map(|link| graph.end_of(*link).unwrap().0).collect()
    }

    #[test]
    fn disjoint_paths_are_preferred_and_the_first_is_the_shortest() {
        // Data from 0 to 5: short paths 0-1-5 and 0-1-2-5, a long disjoint one 0-3-4-6-5.
        let graph = graph(7, &[(0, 1), (1, 5), (1, 2), (2, 5), (0, 3), (3, 4), (4, 6), (6, 5)]);
        let costs = graph.costs(Default::default());
        let pick = |k| {
            let chosen = select(&graph, &costs, &[NodeIndex(0)], NodeIndex(5), k, &PathConfig::default());
            chosen[0].iter().map(|path| nodes(&graph, path)).collect::<Vec<_>>()
        };
        assert_eq!(pick(1), [[1, 5]]);
        assert_eq!(pick(2), [[1, 5].to_vec(), [3, 4, 6, 5].to_vec()]);
        assert_eq!(pick(9).len(), 3);
        assert_eq!(pick(0).len(), 0);
    }

    #[test]
    fn penalties_find_disjoint_paths_that_the_k_shortest_miss() {
        // Two ladders of short variations over link 0-1, and one long detour.
        let mut links = alloc::vec![(0, 1), (1, 20)];
        (2..18).for_each(|i| links.extend([(1, i), (i, 20)]));
        links.extend([(0, 21), (21, 22), (22, 23), (23, 20)]);
        let graph = graph(24, &links);
        let costs = graph.costs(Default::default());
        let pick = |penalty_tenths| {
            let config = PathConfig { penalty_tenths, ..PathConfig::default() };
            let chosen = select(&graph, &costs, &[NodeIndex(0)], NodeIndex(20), 2, &config);
            nodes(&graph, &chosen[0][1])
        };
        assert_eq!(pick(40), [21, 22, 23, 20]);
        assert_eq!(pick(0).len(), 3);
    }

    #[test]
    fn sources_avoid_each_others_links_after_their_first_path() {
        // Sources 0 and 1 behind router 2 and 3 alike; receiver 4.
        let graph = graph(5, &[(0, 2), (0, 3), (1, 2), (1, 3), (2, 4), (3, 4)]);
        let costs = graph.costs(Default::default());
        let sources = [0, 1].map(NodeIndex);
        let chosen = select(&graph, &costs, &sources, NodeIndex(4), 2, &PathConfig::default());
        assert_eq!(chosen.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn links_shared_by_the_same_paths_are_one_group() {
        let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(LinkIndex);
        let paths: [&[LinkIndex]; 3] = [&[a, b, c], &[a, b, d], &[e, d]];
        let shared = |rate: fn(LinkIndex) -> Option<u32>| shared_links(&paths, rate);
        let first = [[a].to_vec(), [a, d].to_vec(), [d].to_vec()];
        assert_eq!(shared(|_| None), first);
        assert_eq!(shared(|_| Some(5)), first);
        assert_eq!(shared(|link| (link.0 == 1).then_some(5)), [[b].to_vec(), [b, d].to_vec(), [d].to_vec()]);
        assert_eq!(shared(|link| Some(9 - link.0)), [[b].to_vec(), [b, d].to_vec(), [d].to_vec()]);
        assert_eq!(shared(|link| Some(link.0)), first);
    }
}

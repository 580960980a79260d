//! Routes for families with static routes: towards every publisher over every neighbour that is nearer to it.
//!
//! A neighbour counts as nearer if it has fewer links to go, or as many and a smaller number; for one publisher that
//! makes no loops. Loops over several publishers are left to the family's loop detection.
use std::collections::{BTreeMap, VecDeque};
use tributary_content::{Name, ObjectReader};
use tributary_core::FaceId;

use super::scenario::{Host, Scenario};
use tributary::{config::Role, simulated::AssignedRoute};

/// The routes of all nodes. `neighbours` lists each node's, face 1 first.
pub(crate) fn routes(scenario: &Scenario, neighbours: &[Vec<usize>]) -> Vec<Vec<AssignedRoute>> {
    let passes = |node: usize| match &scenario.nodes[node].host {
        Host::Endpoint(config) => config.has_role(Role::Router),
        Host::Bare => false,
    };
    let is_endpoint = |node: usize| matches!(scenario.nodes[node].host, Host::Endpoint(_));
    let mut publishers: BTreeMap<&Name, Vec<usize>> = BTreeMap::new();
    for publication in &scenario.publications {
        let Some(node) = scenario.nodes.iter().position(|node| node.label == publication.node) else { continue };
        publishers.entry(&publication.object.manifest().name).or_default().push(node);
    }
    let mut ways: BTreeMap<usize, Vec<Vec<(usize, u64)>>> = BTreeMap::new();
    let mut found = vec![Vec::new(); scenario.nodes.len()];
    for (name, of) in publishers {
        let mut best: Vec<BTreeMap<usize, u64>> = vec![BTreeMap::new(); scenario.nodes.len()];
        for publisher in of {
            let faces = ways.entry(publisher).or_insert_with(|| ways_to(publisher, neighbours, passes, is_endpoint));
            for (node, faces) in faces.iter().enumerate() {
                for (face, cost) in faces {
                    let known = best[node].entry(*face).or_insert(*cost);
                    *known = (*known).min(*cost);
                }
            }
        }
        for (found, best) in found.iter_mut().zip(best) {
            let route = |(face, cost)| AssignedRoute { face: FaceId(face as u32 + 1), prefix: name.clone(), cost };
            found.extend(best.into_iter().map(route));
        }
    }
    found
}

/// For each node the places of its faces that lead nearer to `publisher`, each with the links to go.
fn ways_to(
    publisher: usize,
    neighbours: &[Vec<usize>],
    passes: impl Fn(usize) -> bool,
    is_endpoint: impl Fn(usize) -> bool,
) -> Vec<Vec<(usize, u64)>> {
    let mut distance: Vec<Option<u64>> = vec![None; neighbours.len()];
    distance[publisher] = Some(0);
    let mut queue = VecDeque::from([publisher]);
    while let Some(node) = queue.pop_front() {
        let next = distance[node].map(|links| links + 1);
        for neighbour in neighbours[node].iter().copied().filter(|neighbour| is_endpoint(*neighbour)) {
            if distance[neighbour].is_none() {
                distance[neighbour] = next;
                if passes(neighbour) {
                    queue.push_back(neighbour);
                }
            }
        }
    }
    let faces = |node: usize| {
        let own = distance[node];
        let nearer = neighbours[node].iter().enumerate().filter_map(|(face, neighbour)| {
            let theirs = distance[*neighbour].filter(|_| *neighbour == publisher || passes(*neighbour))?;
            ((theirs, *neighbour) < (own?, node)).then_some((face, theirs + 1))
        });
        nearer.collect()
    };
    (0..neighbours.len()).map(faces).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ```text
    ///  0 ─ 1 ─ 3     a square with a host at 0 and publishers at 3 and 4
    ///      │   │
    ///      2 ─ 4
    /// ```
    #[test]
    fn every_neighbour_that_is_nearer_is_a_way_and_none_leads_back() {
        let neighbours = [vec![1], vec![0, 3, 2], vec![1, 4], vec![1, 4], vec![2, 3]];
        let ways = ways_to(4, &neighbours, |node| node != 0, |_| true);
        assert_eq!(ways, [vec![(0, 3)], vec![(1, 2), (2, 2)], vec![(1, 1)], vec![(1, 1)], vec![]]);
        // A host passes nothing on, so nothing leads through it.
        let ways = ways_to(0, &neighbours, |node| node != 1, |_| true);
        assert_eq!(ways, [vec![], vec![(0, 1)], vec![], vec![], vec![]]);
    }
}

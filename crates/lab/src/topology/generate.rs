//! Networks from a seed or from a rule.
use tributary_core::{Duration, Location, Random};

use super::{Edge, FIBRE_KM_PER_MS, Place, Topology};

/// A grid of `rows` × `columns` places, called `r0-c0` and so on, each joined to its right and its lower neighbour.
pub fn grid(rows: usize, columns: usize) -> Topology {
    let name = |row: usize, column: usize| format!("r{row}-c{column}");
    let places = (0..rows).flat_map(|row| (0..columns).map(move |column| name(row, column)));
    let mut edges = Vec::new();
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        let here = row * columns + column;
        if column + 1 < columns {
            edges.push([here, here + 1]);
        }
        if row + 1 < rows {
            edges.push([here, here + columns]);
        }
    }
    build(places, edges)
}

/// A tree with `depth` levels below its root and `fanout` children each; called `n0` (the root), `n1` and so on, level
/// by level.
pub fn tree(depth: u32, fanout: usize) -> Topology {
    let mut edges = Vec::new();
    let (mut count, mut level) = (1, 0..1);
    for _ in 0..depth {
        let start = count;
        for parent in level {
            for _ in 0..fanout {
                edges.push([parent, count]);
                count += 1;
            }
        }
        level = start..count;
    }
    build((0..count).map(|index| format!("n{index}")), edges)
}

/// Preferential attachment (Barabási and Albert 1999): a clique of `links + 1` places, then each new place joins `links`
/// different ones, chosen in proportion to how many links they have. Always connected.
///
/// # Panics
/// If `links` is zero, or if there are no more places than `links`.
pub fn barabasi_albert(places: usize, links: usize, seed: u64) -> Topology {
    assert!(links > 0 && places > links, "{places} places cannot have {links} links each");
    let mut random = Random::new(seed, GENERATOR_STREAM);
    let mut edges: Vec<[usize; 2]> = (0..=links).flat_map(|b| (0..b).map(move |a| [a, b])).collect();
    for new in links + 1..places {
        // A uniform end of a uniform link is a place in proportion to its links.
        let mut chosen: Vec<usize> = Vec::with_capacity(links);
        while chosen.len() < links {
            let edge = edges[random.below(edges.len() as u64) as usize];
            let end = edge[random.below(2) as usize];
            if !chosen.contains(&end) {
                chosen.push(end);
            }
        }
        edges.extend(chosen.into_iter().map(|old| [old, new]));
    }
    build((0..places).map(|index| format!("n{index}")), edges)
}

/// Waxman's random graph (1988) on a square of `side` (as the time light takes to cross it): two places at distance `d`
/// are joined with probability `beta · exp(−d / (alpha · diagonal))`, and the link's delay is its length. Components are
/// then joined by the shortest links that do so, so the network is connected. The square lies on the equator, where it is
/// flattest: the places have locations if it is not longer than a quarter of it.
///
/// # Panics
/// If alpha is not above zero or beta is no probability.
pub fn waxman(places: usize, alpha: f64, beta: f64, side: Duration, seed: u64) -> Topology {
    assert!(alpha > 0.0 && (0.0..=1.0).contains(&beta), "alpha {alpha} and beta {beta} give probabilities");
    let mut random = Random::new(seed, GENERATOR_STREAM);
    let points: Vec<(f64, f64)> = (0..places).map(|_| (random.unit(), random.unit())).collect();
    let distance = |a: usize, b: usize| libm::hypot(points[a].0 - points[b].0, points[a].1 - points[b].1);
    let mut edges = Vec::new();
    for a in 0..places {
        for b in a + 1..places {
            if random.chance(beta * libm::exp(-distance(a, b) / (alpha * core::f64::consts::SQRT_2))) {
                edges.push([a, b]);
            }
        }
    }
    let mut topology = build((0..places).map(|index| format!("n{index}")), edges);
    join(&mut topology, distance);
    let degrees = side.as_secs_f64() * 1e3 * FIBRE_KM_PER_MS / KM_PER_DEGREE;
    if degrees <= 90.0 {
        for (place, (x, y)) in topology.places.iter_mut().zip(&points) {
            place.location = Location::from_degrees((y - 0.5) * degrees, (x - 0.5) * degrees);
        }
    }
    for edge in &mut topology.edges {
        edge.forward.delay =
            Some(Duration::from_nanos((distance(edge.ends[0], edge.ends[1]) * side.as_nanos() as f64) as u64));
    }
    topology
}

/// Joins components by the shortest link from the first one to the others, until one is left.
fn join(topology: &mut Topology, distance: impl Fn(usize, usize) -> f64) {
    let mut added = 0;
    loop {
        let components = topology.components();
        let pairs = (0..components.len()).flat_map(|a| (0..components.len()).map(move |b| [a, b]));
        let across = pairs.filter(|[a, b]| components[*a] == 0 && components[*b] != 0);
        let shortest = across.min_by(|x, y| distance(x[0], x[1]).total_cmp(&distance(y[0], y[1])));
        let Some(ends) = shortest else { break };
        topology.edges.push(Edge::between(ends[0], ends[1]));
        added += 1;
    }
    if added > 0 {
        topology.notes.push(format!("{added} links added so that the network is connected"));
    }
}

fn build(names: impl Iterator<Item = String>, edges: Vec<[usize; 2]>) -> Topology {
    Topology {
        places: names.map(|name| Place { name, location: None }).collect(),
        edges: edges.into_iter().map(|[a, b]| Edge::between(a, b)).collect(),
        notes: Vec::new(),
    }
}

/// A degree of the equator.
const KM_PER_DEGREE: f64 = 111.19;

/// The random stream of generators; nodes and links use other numbers.
const GENERATOR_STREAM: u64 = 0x6e6f_6465;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_and_trees_have_their_sizes_and_are_connected() {
        let grid = grid(3, 4);
        assert_eq!((grid.places.len(), grid.edges.len(), grid.is_connected()), (12, 3 * 3 + 2 * 4, true));
        let tree = tree(3, 2);
        assert_eq!((tree.places.len(), tree.edges.len(), tree.is_connected()), (15, 14, true));
        assert_eq!(tree.degrees()[0], 2);
    }

    #[test]
    fn preferential_attachment_has_its_degree_law() {
        let (places, links) = (20_000, 3);
        let topology = barabasi_albert(places, links, 1);
        assert!(topology.is_connected());
        assert_eq!(topology.edges.len(), 6 + (places - 4) * links);
        let degrees = topology.degrees();
        // Dorogovtsev, Mendes and Samukhin 2000: P(k) = 2m(m+1) / (k(k+1)(k+2)), so P(K >= k) = m(m+1) / (k(k+1)).
        for k in [3_usize, 4, 6, 10, 20, 50] {
            let share = degrees.iter().filter(|degree| **degree >= k).count() as f64 / places as f64;
            let expected = (links * (links + 1)) as f64 / (k * (k + 1)) as f64;
            assert!((share / expected - 1.0).abs() < 0.15, "degree {k} and more: {share} instead of {expected}");
        }
    }

    #[test]
    fn waxman_has_as_many_links_as_its_probabilities_say() {
        let (places, alpha, beta) = (400, 0.15, 0.4);
        let side = Duration::from_millis(20);
        let topology = waxman(places, alpha, beta, side, 7);
        assert!(topology.is_connected());
        let mut random = Random::new(7, GENERATOR_STREAM);
        let points: Vec<(f64, f64)> = (0..places).map(|_| (random.unit(), random.unit())).collect();
        let mut expected = 0.0;
        for (index, a) in points.iter().enumerate() {
            for b in &points[index + 1..] {
                let distance = ((a.0 - b.0).powi(2) + (a.1 - b.1).powi(2)).sqrt();
                expected += beta * (-distance / (alpha * 2_f64.sqrt())).exp();
            }
        }
        let links = topology.edges.len() as f64;
        assert!((links - expected).abs() < 4.0 * expected.sqrt(), "{links} links instead of {expected}");
        assert!(topology.edges.iter().all(|edge| edge.forward.delay.is_some_and(|delay| delay < side * 2)));
    }

    #[test]
    fn a_sparse_waxman_graph_is_joined_and_the_same_seed_gives_the_same_graph() {
        let sparse = |seed| waxman(60, 0.05, 0.05, Duration::from_millis(10), seed);
        assert!(sparse(3).is_connected() && !sparse(3).notes.is_empty());
        assert_eq!((sparse(3), sparse(3) == sparse(4)), (sparse(3), false));
        assert_eq!(barabasi_albert(50, 2, 9), barabasi_albert(50, 2, 9));
    }
}

use alloc::{vec, vec::Vec};

use tributary_core::{Duration, Rate};

use super::*;
use crate::receiver::selection::Link;

/// Links of given capacity in Mbit/s and paths over them, in which each path in use gets its fair part.
struct World {
    capacities: Vec<f64>,
    paths: Vec<Vec<usize>>,
    in_use: Vec<bool>,
    in_use_max: usize,
    /// The reverse link of each link.
    reverse: Vec<Option<usize>>,
    /// The reported rates.
    reported: Vec<Option<f64>>,
    /// Bytes of Interests for each byte of Data.
    asking: f64,
    /// At how many changes in a row each path was in use, and the part of its rate that it brings until the first.
    changes: Vec<u32>,
    slow: f64,
    /// A path that delivers a tenth of its rate, regardless of the capacity.
    stuck: Option<usize>,
}

impl World {
    fn new(capacities: &[f64], paths: &[&[usize]], in_use_max: usize) -> World {
        let paths: Vec<Vec<usize>> = paths.iter().map(|path| path.to_vec()).collect();
        World {
            capacities: capacities.to_vec(),
            in_use: vec![false; paths.len()],
            changes: vec![0; paths.len()],
            reverse: vec![None; capacities.len()],
            paths,
            in_use_max,
            reported: vec![None; capacities.len()],
            asking: 0.0,
            slow: 1.0,
            stuck: None,
        }
    }
    /// All loop-free paths from node 1 to one of `ends` over links between two nodes, each direction with a separate
    /// capacity.
    fn of_graph(links: &[(usize, usize, f64)], ends: &[usize], in_use_max: usize) -> World {
        let hops: Vec<(usize, usize, f64)> =
            links.iter().flat_map(|&(a, b, most)| [(a, b, most), (b, a, most)]).collect();
        let (mut found, mut open) = (Vec::new(), vec![(1, vec![1], Vec::new())]);
        while let Some((at, nodes, path)) = open.pop() {
            if ends.contains(&at) {
                found.push(path);
                continue;
            }
            for (index, (_, to, _)) in
                hops.iter().enumerate().filter(|(_, (from, to, _))| *from == at && !nodes.contains(to))
            {
                let nodes: Vec<usize> = nodes.iter().copied().chain([*to]).collect();
                open.push((*to, nodes, path.iter().copied().chain([index]).collect::<Vec<usize>>()));
            }
        }
        let capacities: Vec<f64> = hops.iter().map(|(.., most)| *most).collect();
        let found: Vec<&[usize]> = found.iter().map(|path| &path[..]).collect();
        let reverse = (0..hops.len()).map(|hop| Some(hop ^ 1)).collect();
        World { reverse, ..World::new(&capacities, &found, in_use_max) }
    }
    /// The same world with all link rates reported.
    fn reported(self) -> World {
        World { reported: self.capacities.iter().copied().map(Some).collect(), ..self }
    }
    fn link(&self, index: usize) -> Link {
        let label = |link: usize| [link as u8; LABEL_BYTES];
        let rate = |mbps: f64| Rate::from_bits_per_second((mbps * 1e6) as u64);
        Link { label: label(index), rate: self.reported[index].map(rate), reverse: self.reverse[index].map(label) }
    }
    /// The rate of each path if those of `set` are in use: all grow equally until a link on the way is full, of Data or
    /// of the Interests of paths in the opposite direction.
    fn rates(&self, set: &[bool]) -> Vec<f64> {
        let (mut left, mut rates, mut growing) = (self.capacities.clone(), vec![0.0; set.len()], set.to_vec());
        let times = |path: usize, link: usize| {
            let requests = self.reverse[link].is_some_and(|reverse| self.paths[path].contains(&reverse));
            f64::from(u8::from(self.paths[path].contains(&link))) + if requests { self.asking } else { 0.0 }
        };
        while growing.contains(&true) {
            let users = |link: usize| (0..set.len()).filter(|path| growing[*path]).map(|path| times(path, link)).sum();
            let users: Vec<f64> = (0..left.len()).map(users).collect();
            let busy = || (0..left.len()).filter(|link| users[*link] > 0.0);
            let step = busy().map(|link| left[link] / users[link]).fold(f64::INFINITY, f64::min);
            busy().collect::<Vec<_>>().into_iter().for_each(|link| left[link] -= step * users[link]);
            for path in 0..set.len() {
                if growing[path] {
                    rates[path] += step;
                    growing[path] = (0..left.len()).all(|link| times(path, link) == 0.0 || left[link] > 1e-6);
                }
            }
        }
        rates
    }
    fn total(&self, set: &[bool]) -> f64 {
        self.rates(set).iter().sum()
    }
    /// The most that any set of paths brings.
    fn optimum(&self) -> f64 {
        let sets = (0..1u32 << self.paths.len()).filter(|set| set.count_ones() as usize <= self.in_use_max);
        let bits = |set: u32| (0..self.paths.len()).map(|path| set >> path & 1 == 1).collect::<Vec<bool>>();
        sets.map(|set| self.total(&bits(set))).fold(0.0, f64::max)
    }
    fn known(&self, count: usize) -> Vec<Candidate> {
        let rates = self.rates(&self.in_use);
        let candidate = |index: usize| {
            let part = if self.changes[index] == 0 { self.slow } else { 1.0 };
            let part = if self.stuck == Some(index) { 0.1 } else { part };
            let rate = Rate::from_bits_per_second((rates[index] * part * 1e6) as u64);
            Candidate {
                path: PathId(index as u16),
                in_use: self.in_use[index],
                rate,
                rate_known: self.in_use[index].then_some(rate),
                hops: self.paths[index].len(),
                rtt: Duration::from_millis(10),
                rtt_deviation: Duration::ZERO,
                links: self.paths[index].iter().map(|link| self.link(*link)).collect(),
            }
        };
        (0..count).map(candidate).collect()
    }
    /// Finds the paths one by one, and changes them `changes` times; the throughput after each change.
    fn run(&mut self, changes: usize) -> Vec<f64> {
        self.run_with(changes, |_, _| {})
    }
    /// The same where something happens `before` each change, by its number.
    fn run_with(&mut self, changes: usize, before: impl Fn(&mut World, usize)) -> Vec<f64> {
        let (mut spread, mut random) = (Spread::default(), Random::new(1, 1));
        for count in 1..=self.paths.len() {
            while self.in_use.iter().filter(|in_use| **in_use).count() < self.in_use_max
                && let Some(chosen) = spread.fill(&self.known(count), &mut random)
            {
                self.in_use[usize::from(chosen.0)] = true;
            }
        }
        let mut totals = Vec::new();
        for change in 0..changes {
            before(self, change);
            let chosen = spread.change(&self.known(self.paths.len()), self.asking, self.in_use_max, &mut random);
            let before = self.in_use.clone();
            self.in_use = (0..self.paths.len()).map(|path| chosen.contains(&PathId(path as u16))).collect();
            for (path, changes) in self.changes.iter_mut().enumerate() {
                *changes = if before[path] && self.in_use[path] { *changes + 1 } else { 0 };
            }
            assert!(chosen.len() <= self.in_use_max);
            totals.push(self.total(&self.in_use));
        }
        totals
    }
}

#[test]
fn what_brings_most_stays() {
    let mut world = World::new(&[4.0, 2.0, 2.0, 2.0, 2.0], &[&[0, 1], &[0, 2], &[0, 3], &[0, 4]], 3);
    let totals = world.run(100);
    assert!(totals.iter().all(|total| *total == 4.0), "{totals:?}");
}

/// The mesh of PTP §6 F, in units of 100 kbit/s.
const MESH: [(usize, usize, f64); 18] = [
    (1, 2, 14.0),
    (2, 3, 4.0),
    (2, 4, 6.0),
    (2, 8, 4.0),
    (3, 7, 2.0),
    (3, 9, 2.0),
    (4, 7, 2.0),
    (4, 5, 2.0),
    (4, 11, 2.0),
    (8, 5, 2.0),
    (8, 6, 2.0),
    (6, 12, 2.0),
    (5, 11, 2.0),
    (5, 10, 2.0),
    (7, 10, 2.0),
    (7, 9, 2.0),
    (3, 4, 2.0),
    (5, 7, 2.0),
];

#[test]
fn the_papers_mesh_is_filled_in_a_few_changes_and_stays_so() {
    let mut world = World::of_graph(&MESH, &[9, 10, 11, 12], 10);
    assert_eq!(world.paths.len(), 57);
    let totals = world.run(30);
    let filled = totals.iter().position(|total| *total > 13.99);
    assert!(filled.is_some_and(|change| change < 12), "{totals:?}");
    assert!(totals[20..].iter().all(|total| *total > 13.99), "{totals:?}");
}

#[test]
fn where_rates_are_told_the_mesh_is_filled_at_the_first_change() {
    let mut world = World { asking: 0.05, ..World::of_graph(&MESH, &[9, 10, 11, 12], 10).reported() };
    let totals = world.run(10);
    assert!(totals.iter().all(|total| *total > 13.99), "{totals:?}");
}

#[test]
fn paths_whose_interests_meet_each_other_s_data_are_not_used_together_where_there_are_others() {
    let mut world = World { asking: 0.05, ..World::new(&[2.0; 3], &[&[0], &[1], &[2]], 2).reported() };
    world.reverse = vec![Some(1), Some(0), None];
    world.in_use = vec![true, true, false];
    assert!(world.total(&world.in_use) < 3.9);
    let totals = world.run(4);
    assert!(totals[1..].iter().all(|total| *total == 4.0), "{totals:?}");
}

#[test]
fn a_link_that_carries_less_than_was_told_gives_way_to_one_that_carries_more() {
    // Others use three quarters of the first.
    let mut world = World::new(&[1.0, 2.0], &[&[0], &[1]], 1);
    (world.reported, world.in_use) = (vec![Some(4.0), Some(2.0)], vec![true, false]);
    let totals = world.run(20);
    assert_eq!(totals[10..], [2.0; 10], "{totals:?}");
}

#[test]
fn paths_that_brought_little_at_first_are_tried_once_more_and_not_for_ever() {
    // Windows fill the first path late.
    let world = || {
        let mut world = World::new(&[1.0, 2.0], &[&[0], &[1]], 1);
        (world.reported, world.in_use) = (vec![Some(4.0), Some(2.0)], vec![true, false]);
        world
    };
    let fill = |world: &mut World, change: usize| world.capacities[0] = if change == 0 { 1.0 } else { 4.0 };
    let totals = world().run_with(20, fill);
    assert_eq!(totals[8..], [4.0; 12], "{totals:?}");
    // It does not carry more, whenever it is tried.
    let totals = world().run(60);
    assert_eq!(totals.iter().filter(|total| **total < 2.0).count(), 1, "{totals:?}");
}

#[test]
fn windows_that_grow_slowly_are_waited_for_where_rates_are_not_told() {
    // The last path delivers twice as much as the one before it, but not at once.
    let mut world = World { slow: 0.5, ..World::new(&[2.0, 2.0, 1.0, 2.0], &[&[0], &[1, 2], &[1, 3]], 2) };
    (world.in_use, world.changes) = (vec![true, true, false], vec![1, 1, 0]);
    let totals = world.run(12);
    assert!(totals[1..].iter().all(|total| *total == 4.0), "{totals:?}");
}

#[test]
fn a_path_whose_window_does_not_grow_any_more_gives_way_to_another_over_the_same_links() {
    let mut world = World::new(&[2.0; 3], &[&[0], &[1], &[1, 2]], 2);
    world.in_use = vec![true, true, false];
    let totals = world.run_with(50, |world, change| match change {
        // The rate of the second's link is known from the third too.
        1 => world.in_use = vec![true, false, true],
        4.. => world.stuck = Some(1),
        _ => {}
    });
    assert_eq!(world.in_use, [true, false, true], "{totals:?}");
}

#[test]
fn on_small_graphs_most_of_what_the_best_set_brings_is_found() {
    let mut shares = Vec::new();
    for seed in 0..60 {
        let mut random = Random::new(seed, 9);
        let mut below = |most: u64| random.below(most) as usize;
        let links: Vec<(usize, usize, f64)> =
            (0..9).map(|_| (1 + below(5), 2 + below(5), 1.0 + below(5) as f64)).collect();
        let links: Vec<_> = links.into_iter().filter(|(from, to, _)| from != to).collect();
        let mut world = World::of_graph(&links, &[5, 6], 3);
        if (2..=12).contains(&world.paths.len()) {
            let last = *world.run(40).last().expect("there were changes");
            shares.push(last / world.optimum());
        }
    }
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    let least = shares.iter().copied().fold(1.0, f64::min);
    assert!(shares.len() > 30 && mean > 0.9, "mean {mean:.3}, least {least:.3} of {shares:.2?}");
}

//! Selections that follow from the known paths alone. PTP §4 C and appendix.
use alloc::vec::Vec;
use core::cmp::Reverse;

use tributary_core::{PathId, Random, Rate};

use super::{Candidate, PathSelection, smallest};

/// A selection without state: it chooses at most so many of the known paths.
pub(super) struct Stateless(pub(super) fn(&[Candidate], usize, &mut Random) -> Vec<PathId>);

impl PathSelection for Stateless {
    fn change(&mut self, known: &[Candidate], _: f64, in_use_max: usize, random: &mut Random) -> Vec<PathId> {
        (self.0)(known, in_use_max, random)
    }
}

/// A random unused path replaces the slowest path in use (§4 C 1): a greedy search, since probes say little about
/// bandwidth.
pub(super) fn bandwidth(known: &[Candidate], in_use_max: usize, random: &mut Random) -> Vec<PathId> {
    let mut in_use: Vec<&Candidate> = known.iter().filter(|path| path.in_use).collect();
    let unused = known.iter().filter(|path| !path.in_use).map(|path| path.path).collect::<Vec<_>>();
    in_use.sort_by_key(|path| Reverse(path.rate));
    if in_use.len() >= in_use_max && !unused.is_empty() {
        in_use.truncate(in_use_max.saturating_sub(1));
    }
    let mut chosen: Vec<PathId> = in_use.iter().map(|path| path.path).collect();
    draw(unused, &mut chosen, in_use_max, random);
    chosen
}

/// Any paths.
pub(super) fn random(known: &[Candidate], in_use_max: usize, random: &mut Random) -> Vec<PathId> {
    let mut chosen = Vec::new();
    draw(known.iter().map(|path| path.path).collect(), &mut chosen, in_use_max, random);
    chosen
}

/// Of the faster half of the paths (of twice the required number, if there are more) those with the least varying round
/// trips: an example of a combination.
pub(super) fn hybrid(known: &[Candidate], in_use_max: usize, _: &mut Random) -> Vec<PathId> {
    let fast_count = (known.len() / 2).max(in_use_max);
    // Unused paths come after measured ones.
    let rate = |path: &Candidate| Reverse(path.rate_known.unwrap_or(Rate::from_bits_per_second(0)));
    let fast = smallest(known, fast_count, rate);
    let fast: Vec<Candidate> = known.iter().filter(|path| fast.contains(&path.path)).cloned().collect();
    smallest(&fast, in_use_max, |path| path.rtt_deviation)
}

/// Moves random elements of `left` to `chosen` until it has `count`.
fn draw(mut left: Vec<PathId>, chosen: &mut Vec<PathId>, count: usize, random: &mut Random) {
    while chosen.len() < count && !left.is_empty() {
        chosen.push(left.swap_remove(random.below(left.len() as u64) as usize));
    }
}

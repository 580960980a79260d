//! A random unused path replaces the slowest path in use. PTP §4 C 1: a greedy search, since probes say little about
//! bandwidth.
use alloc::vec::Vec;

use tributary_core::{PathId, Random};

use super::{Candidate, PathSelection};

/// Bandwidth-based selection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bandwidth;

impl PathSelection for Bandwidth {
    fn name(&self) -> &'static str {
        "bandwidth"
    }
    fn change(&mut self, known: &[Candidate], _: f64, in_use_max: usize, random: &mut Random) -> Vec<PathId> {
        let mut in_use: Vec<&Candidate> = known.iter().filter(|path| path.in_use).collect();
        let mut unused: Vec<&Candidate> = known.iter().filter(|path| !path.in_use).collect();
        in_use.sort_by_key(|path| core::cmp::Reverse(path.rate));
        if in_use.len() >= in_use_max && !unused.is_empty() {
            in_use.truncate(in_use_max.saturating_sub(1));
        }
        let mut chosen: Vec<PathId> = in_use.iter().map(|path| path.path).collect();
        while chosen.len() < in_use_max && !unused.is_empty() {
            let at = random.below(unused.len() as u64) as usize;
            chosen.push(unused.swap_remove(at).path);
        }
        chosen
    }
}

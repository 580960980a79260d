//! Of the faster half of the paths (of twice the required number, if there are more) those with the least varying round
//! trips. PTP, appendix: an example of a combination.
use alloc::vec::Vec;

use tributary_core::{PathId, Random, Rate};

use super::{Candidate, PathSelection, smallest};

/// Hybrid selection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hybrid;

impl PathSelection for Hybrid {
    fn name(&self) -> &'static str {
        "hybrid"
    }
    fn change(&mut self, known: &[Candidate], _: f64, in_use_max: usize, _: &mut Random) -> Vec<PathId> {
        let fast_count = (known.len() / 2).max(in_use_max);
        // Unused paths come after measured ones.
        let rate = |path: &Candidate| core::cmp::Reverse(path.rate_known.unwrap_or(Rate::from_bits_per_second(0)));
        let fast = smallest(known, fast_count, rate);
        let fast: Vec<Candidate> = known.iter().filter(|path| fast.contains(&path.path)).cloned().collect();
        smallest(&fast, in_use_max, |path| path.rtt_deviation)
    }
}

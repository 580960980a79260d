//! The paths with the least varying round trips. PTP, appendix; the moving variance is a smoothed mean deviation, as in
//! RFC 6298.
use alloc::vec::Vec;

use tributary_core::{PathId, Random};

use super::{Candidate, PathSelection, smallest};

/// Selection by variance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variance;

impl PathSelection for Variance {
    fn name(&self) -> &'static str {
        "variance"
    }
    fn change(&mut self, known: &[Candidate], _: f64, in_use_max: usize, _: &mut Random) -> Vec<PathId> {
        smallest(known, in_use_max, |path| path.rtt_deviation)
    }
}

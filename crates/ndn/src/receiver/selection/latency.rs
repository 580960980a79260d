//! The paths with the shortest round trips. PTP, appendix.
use alloc::vec::Vec;

use tributary_core::{PathId, Random};

use super::{Candidate, PathSelection, smallest};

/// Selection by latency.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latency;

impl PathSelection for Latency {
    fn name(&self) -> &'static str {
        "latency"
    }
    fn change(&mut self, known: &[Candidate], _: f64, in_use_max: usize, _: &mut Random) -> Vec<PathId> {
        smallest(known, in_use_max, |path| path.rtt)
    }
}

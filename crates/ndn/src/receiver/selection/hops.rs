//! The paths with the fewest hops. PTP, appendix: this spares the network's links.
use alloc::vec::Vec;

use tributary_core::{PathId, Random};

use super::{Candidate, PathSelection, smallest};

/// Selection by hops.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hops;

impl PathSelection for Hops {
    fn name(&self) -> &'static str {
        "hops"
    }
    fn change(&mut self, known: &[Candidate], _: f64, in_use_max: usize, _: &mut Random) -> Vec<PathId> {
        smallest(known, in_use_max, |path| path.hops)
    }
}

//! Any paths. PTP, appendix.
use alloc::vec::Vec;

use tributary_core::{PathId, Random};

use super::{Candidate, PathSelection};

/// Random selection.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtRandom;

impl PathSelection for AtRandom {
    fn name(&self) -> &'static str {
        "random"
    }
    fn change(&mut self, known: &[Candidate], _: f64, in_use_max: usize, random: &mut Random) -> Vec<PathId> {
        let mut left: Vec<PathId> = known.iter().map(|path| path.path).collect();
        let mut chosen = Vec::new();
        while chosen.len() < in_use_max && !left.is_empty() {
            chosen.push(left.swap_remove(random.below(left.len() as u64) as usize));
        }
        chosen
    }
}

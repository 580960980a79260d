//! One face by turns, regardless of cost: packets are distributed evenly. PTP §4 A, for probing Interests.
//!
//! Turns instead of dice: routers that take turns explore the paths of a network with fewer probes than dice need.
//! Chance decides among the faces with equally many turns: with cycles, turns in a fixed order lock in with other
//! routers', and then find 41 of a mesh's 57 paths, however many probes follow.
use alloc::vec::Vec;

use tributary_core::{FaceId, Random};

use super::{Hop, Measurements, Question, Strategy};

/// One face after the other.
#[derive(Clone, Debug, Default)]
pub struct EqualWeight {
    /// Interests that left by each face.
    sent: Measurements<u64>,
}

impl Strategy for EqualWeight {
    fn choose(&mut self, question: &Question<'_>, random: &mut Random, out: &mut Vec<FaceId>) {
        let counts: Vec<u64> = question.hops.iter().map(|hop| *self.sent.at(question.prefix, hop.face)).collect();
        let (fewest, most) = (counts.iter().min().copied().unwrap_or(0), counts.iter().max().copied().unwrap_or(0));
        let fewest: Vec<&Hop> =
            question.hops.iter().zip(&counts).filter(|(_, count)| **count == fewest).map(|(hop, _)| hop).collect();
        if !fewest.is_empty() {
            let hop = fewest[random.below(fewest.len() as u64) as usize];
            let count = self.sent.at(question.prefix, hop.face);
            // A face that is new does not get everything until it has caught up.
            *count = (*count).max(most.saturating_sub(1)) + 1;
            out.push(hop.face);
        }
    }
}

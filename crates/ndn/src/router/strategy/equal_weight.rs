//! One face after the other, whatever they cost: packets are spread evenly. PTP §4 A, for probing Interests.
//!
//! Turns instead of dice: routers that each take turns walk through all paths of a network without cycles before they
//! repeat one, which dice need many more probes for.
use alloc::vec::Vec;

use tributary_core::{FaceId, Random};

use super::{Measurements, Question, Strategy};

/// One face after the other.
#[derive(Clone, Debug, Default)]
pub struct EqualWeight {
    /// Interests that left by each face.
    sent: Measurements<u64>,
}

impl Strategy for EqualWeight {
    fn name(&self) -> &'static str {
        "equal-weight"
    }
    fn choose(&mut self, question: &Question<'_>, _: &mut Random, out: &mut Vec<FaceId>) {
        let counts = question.hops.iter().map(|hop| *self.sent.at(question.prefix, hop.face));
        let most = counts.max().unwrap_or(0);
        let next = question.hops.iter().min_by_key(|hop| *self.sent.at(question.prefix, hop.face));
        if let Some(hop) = next {
            let count = self.sent.at(question.prefix, hop.face);
            // A face that is new does not get everything until it has caught up.
            *count = (*count).max(most.saturating_sub(1)) + 1;
            out.push(hop.face);
        }
    }
}

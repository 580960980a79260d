//! The cheapest face first. NFD's best-route: a copy leaves by the cheapest face that none left by yet, then by the one
//! that was used longest ago.
use alloc::vec::Vec;

use tributary_core::{FaceId, Random};

use super::{Question, Strategy};

/// The cheapest face.
#[derive(Clone, Copy, Debug)]
pub struct BestRoute;

impl Strategy for BestRoute {
    fn name(&self) -> &'static str {
        "best-route"
    }
    fn choose(&mut self, question: &Question<'_>, _: &mut Random, out: &mut Vec<FaceId>) {
        // `None` sorts before any time, and hops are in order of cost.
        out.extend(question.hops.iter().min_by_key(|hop| hop.used_at).map(|hop| hop.face));
    }
}

//! All faces at once.
use alloc::vec::Vec;

use tributary_core::{FaceId, Random};

use super::{Question, Strategy};

/// All faces.
#[derive(Clone, Copy, Debug)]
pub struct Multicast;

impl Strategy for Multicast {
    fn name(&self) -> &'static str {
        "multicast"
    }
    fn choose(&mut self, question: &Question<'_>, _: &mut Random, out: &mut Vec<FaceId>) {
        out.extend(question.hops.iter().map(|hop| hop.face));
    }
}

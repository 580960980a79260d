//! PCON (ICN 2016): each face has a share of the Interests; a congestion mark moves 2 % of a face's share to the
//! others, evenly; one Interest in a thousand tries another face. At the start the cheapest face has everything.
//! reference/baselines. In addition, faces that have recently returned Interests come last: they never mark.
use alloc::vec::Vec;

use tributary_core::{FaceId, Random, Time};

use super::{Hop, Measurements, Outcome, Question, Refusals, Strategy, weighted};

/// Faces by shares.
#[derive(Clone, Debug, Default)]
pub struct Pcon {
    faces: Measurements<Share>,
    refusals: Refusals,
}

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// `None` until the face was first seen among the hops of its prefix.
    share: Option<f64>,
    /// Marks received since the shares were last updated.
    marks: u32,
}

/// The part of a face's share that a mark moves.
const MOVED: f64 = 0.02;
/// How many Interests try a face other than the one chosen.
const TRIED: f64 = 0.001;

impl Pcon {
    /// Moves shares for the marks received since the last Interest.
    fn settle(&mut self, prefix: u64, hops: &[Hop]) {
        for (index, hop) in hops.iter().enumerate() {
            let face = self.faces.at(prefix, hop.face);
            face.share.get_or_insert(if index == 0 { 1.0 } else { 0.0 });
        }
        for hop in hops {
            let face = self.faces.at(prefix, hop.face);
            let marks = core::mem::take(&mut face.marks);
            let before = face.share.unwrap_or(0.0);
            let after = before * libm::pow(1.0 - MOVED, f64::from(marks));
            if hops.len() < 2 || marks == 0 {
                continue;
            }
            face.share = Some(after);
            let each = (before - after) / (hops.len() - 1) as f64;
            for other in hops.iter().filter(|other| other.face != hop.face) {
                let other = self.faces.at(prefix, other.face);
                other.share = Some(other.share.unwrap_or(0.0) + each);
            }
        }
    }
}

impl Strategy for Pcon {
    fn choose(&mut self, question: &Question<'_>, random: &mut Random, out: &mut Vec<FaceId>) {
        self.settle(question.prefix, question.hops);
        let hops = self.refusals.alternatives(question);
        out.push(if random.chance(TRIED) {
            hops[random.below(hops.len() as u64) as usize].face
        } else {
            let share = |hop: &Hop| self.faces.at(question.prefix, hop.face).share.unwrap_or(0.0);
            let shares: Vec<f64> = hops.iter().map(share).collect();
            weighted(&hops, &shares, random)
        });
    }
    fn on_outcome(&mut self, now: Time, prefix: u64, face: FaceId, outcome: Outcome) {
        if let Outcome::Data { marked: true, .. } = outcome {
            self.faces.at(prefix, face).marks += 1;
        }
        self.refusals.on_outcome(now, prefix, face, outcome);
    }
}

//! Request forwarding algorithm of OMCC-RF: per prefix and face a smoothed number of pending Interests,
//! `avg ← 0.9 avg + 0.1 PI`, and a random face with weight `1 / (1 + avg)`. The variant of PTP's author takes the face
//! with the largest `1 / (1 + PI)`. reference/baselines. Beyond both, faces that have recently returned Interests come
//! last: nothing is ever pending there.
use alloc::vec::Vec;

use tributary_core::{FaceId, Random, Time};

use super::{Hop, Measurements, Outcome, Question, Refusals, Strategy, weighted};

/// Faces by their pending Interests.
#[derive(Clone, Debug, Default)]
pub struct Rfa {
    greedy: bool,
    pending: Measurements<Pending>,
    refusals: Refusals,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    count: f64,
    average: f64,
}

/// Weight of the old average.
const KEEP: f64 = 0.9;

impl Rfa {
    /// If `greedy`, the face with the fewest, by the number itself; else one at random, by the smoothed number.
    pub fn new(greedy: bool) -> Self {
        Rfa { greedy, ..Rfa::default() }
    }
    fn change(&mut self, prefix: u64, face: FaceId, by: f64) {
        let pending = self.pending.at(prefix, face);
        pending.count = (pending.count + by).max(0.0);
        pending.average = KEEP * pending.average + (1.0 - KEEP) * pending.count;
    }
}

impl Strategy for Rfa {
    fn choose(&mut self, question: &Question<'_>, random: &mut Random, out: &mut Vec<FaceId>) {
        let hops = self.refusals.alternatives(question);
        let pending = &mut self.pending;
        let of = |hop: &Hop| *pending.at(question.prefix, hop.face);
        let all: Vec<Pending> = hops.iter().map(of).collect();
        out.push(if self.greedy {
            let fewest = (0..all.len()).min_by(|a, b| all[*a].count.total_cmp(&all[*b].count)).unwrap_or(0);
            hops[fewest].face
        } else {
            let weights: Vec<f64> = all.iter().map(|pending| 1.0 / (1.0 + pending.average)).collect();
            weighted(&hops, &weights, random)
        });
    }
    fn on_sent(&mut self, _: Time, prefix: u64, face: FaceId) {
        self.change(prefix, face, 1.0);
    }
    fn on_outcome(&mut self, now: Time, prefix: u64, face: FaceId, outcome: Outcome) {
        self.change(prefix, face, -1.0);
        self.refusals.on_outcome(now, prefix, face, outcome);
    }
}

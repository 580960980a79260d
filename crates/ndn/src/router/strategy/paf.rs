//! Probability-based adaptive forwarding, as a reconstruction: its equations are not public. A random face with weight
//! `1 / SRTT` (smoothed with 1/8), and one Interest in a hundred with equal weights, so that a formerly slow face is
//! tried again. reference/baselines.
use alloc::vec::Vec;

use tributary_core::{FaceId, Random, Time};

use super::{Measurements, Outcome, Question, Strategy, weighted};

/// Faces by their round-trip time.
#[derive(Clone, Debug, Default)]
pub struct Paf {
    smoothed_seconds: Measurements<Option<f64>>,
}

const EXPLORE: f64 = 0.01;
const GAIN: f64 = 1.0 / 8.0;
/// The assumed round trip of an unanswered Interest, in seconds: a dead face must not keep its last good value.
const LOST_SECONDS: f64 = 1.0;

impl Strategy for Paf {
    fn choose(&mut self, question: &Question<'_>, random: &mut Random, out: &mut Vec<FaceId>) {
        let measured: Vec<Option<f64>> =
            question.hops.iter().map(|hop| *self.smoothed_seconds.at(question.prefix, hop.face)).collect();
        // A face without a measurement is assumed to be as good as the best.
        let best = measured.iter().flatten().fold(f64::INFINITY, |best, seconds| best.min(*seconds));
        let best = if best.is_finite() { best } else { 1.0 };
        let explores = random.chance(EXPLORE);
        let weight = |seconds: &Option<f64>| if explores { 1.0 } else { 1.0 / seconds.unwrap_or(best).max(1e-6) };
        let weights: Vec<f64> = measured.iter().map(weight).collect();
        out.push(weighted(question.hops, &weights, random));
    }
    fn on_outcome(&mut self, _: Time, prefix: u64, face: FaceId, outcome: Outcome) {
        let sample = match outcome {
            Outcome::Data { rtt: Some(rtt), .. } => rtt.as_secs_f64(),
            Outcome::Data { rtt: None, .. } => return,
            Outcome::Nack(_) | Outcome::Nothing => LOST_SECONDS,
        };
        let smoothed = self.smoothed_seconds.at(prefix, face);
        *smoothed = Some(smoothed.map_or(sample, |old| old + GAIN * (sample - old)));
    }
}

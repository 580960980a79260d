//! Strategies: which of the faces that lead to a prefix an Interest leaves by. The longer ones have a file each.
//!
//! | strategy | file | chooses |
//! |---|---|---|
//! | `best-route` | `mod.rs` | the cheapest face; a repeated Interest takes the next one |
//! | `multicast` | `mod.rs` | all faces |
//! | `equal-weight` | `equal_weight.rs` | the faces in turn: for PTP's probes (§4 A) |
//! | `rfa` | `rfa.rs` | at random, the fewer Interests are pending the likelier (OMCC-RF) |
//! | `rfa-greedy` | `rfa.rs` | the face with the fewest pending Interests |
//! | `paf` | `paf.rs` | at random, the shorter the round trip the likelier; a reconstruction |
//! | `pcon` | `pcon.rs` | by shares that congestion marks move |
mod equal_weight;
mod paf;
mod pcon;
mod rfa;

use alloc::{boxed::Box, vec::Vec};

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use tributary_core::{Duration, FaceId, Random, Time};

pub use equal_weight::EqualWeight;
pub use paf::Paf;
pub use pcon::Pcon;
pub use rfa::Rfa;

use crate::wire::NackReason;

/// A face through which an Interest may leave: up, within scope, and not its arrival face.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// The face.
    pub face: FaceId,
    /// Its cost.
    pub cost: u64,
    /// When a copy of this Interest last left by it.
    pub used_at: Option<Time>,
}

/// The input of a strategy.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Now.
    pub now: Time,
    /// The prefix that the Interest is passed on by.
    pub prefix: u64,
    /// The faces to choose from, cheapest first; never empty.
    pub hops: &'a [Hop],
}

/// What became of an Interest that left by a face.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Outcome {
    /// Data came.
    Data {
        /// How long it took; `None` if the Interest had left more than once.
        rtt: Option<Duration>,
        /// Whether it was marked for congestion.
        marked: bool,
    },
    /// It was returned.
    Nack(NackReason),
    /// No answer arrived before the entry expired, or Data came through another face.
    Nothing,
}

/// Decides which faces an Interest leaves by.
pub trait Strategy: Send {
    /// Appends the faces to `out`.
    fn choose(&mut self, question: &Question<'_>, random: &mut Random, out: &mut Vec<FaceId>);
    /// An Interest left by a face.
    fn on_sent(&mut self, now: Time, prefix: u64, face: FaceId) {
        let _ = (now, prefix, face);
    }
    /// Its outcome; once for each face through which it left.
    fn on_outcome(&mut self, now: Time, prefix: u64, face: FaceId, outcome: Outcome) {
        let _ = (now, prefix, face, outcome);
    }
}

/// The cheapest face. NFD's best-route: a copy leaves by the cheapest face that none left by yet, then by the one that
/// was used longest ago.
#[derive(Clone, Copy, Debug)]
pub struct BestRoute;

impl Strategy for BestRoute {
    fn choose(&mut self, question: &Question<'_>, _: &mut Random, out: &mut Vec<FaceId>) {
        // `None` sorts before any time, and hops are in order of cost.
        out.extend(question.hops.iter().min_by_key(|hop| hop.used_at).map(|hop| hop.face));
    }
}

/// All faces.
#[derive(Clone, Copy, Debug)]
pub struct Multicast;

impl Strategy for Multicast {
    fn choose(&mut self, question: &Question<'_>, _: &mut Random, out: &mut Vec<FaceId>) {
        out.extend(question.hops.iter().map(|hop| hop.face));
    }
}

/// A strategy by name.
pub type Listed = (&'static str, fn() -> Box<dyn Strategy>);

/// The strategies by name, the default first. A router has one of each.
pub const STRATEGIES: [Listed; 7] = [
    ("best-route", || Box::new(BestRoute)),
    ("multicast", || Box::new(Multicast)),
    ("equal-weight", || Box::new(EqualWeight::default())),
    ("rfa", || Box::new(Rfa::new(false))),
    ("rfa-greedy", || Box::new(Rfa::new(true))),
    ("paf", || Box::new(Paf::default())),
    ("pcon", || Box::new(Pcon::default())),
];

/// The place of a strategy in [`STRATEGIES`].
pub fn by_name(name: &str) -> Option<usize> {
    STRATEGIES.iter().position(|(known, _)| *known == name)
}

/// The measurements of a strategy, by prefix and face. A full table is emptied: a measurement is soon made again.
#[derive(Clone, Debug, Default)]
pub struct Measurements<T>(HashMap<(u64, FaceId), T, FxBuildHasher>);

/// Maximum measurements of one strategy.
const MEASUREMENTS_MAX: usize = 65_536;

impl<T: Default> Measurements<T> {
    /// The measurement, created on first use.
    pub fn at(&mut self, prefix: u64, face: FaceId) -> &mut T {
        if self.0.len() >= MEASUREMENTS_MAX && !self.0.contains_key(&(prefix, face)) {
            self.0.clear();
        }
        self.0.entry((prefix, face)).or_default()
    }
}

/// Faces that have recently returned Interests, by prefix. To a strategy that counts pending or marked ones, a face
/// that returns everything at once looks like the best.
#[derive(Clone, Debug, Default)]
struct Refusals(Measurements<Option<Time>>);

/// How long a face that brought an Interest back is chosen only if all have.
const REFUSED_FOR: Duration = Duration::from_secs(1);

impl Refusals {
    /// Records the outcome of an Interest. Congestion does not mean that a face leads nowhere.
    fn on_outcome(&mut self, now: Time, prefix: u64, face: FaceId, outcome: Outcome) {
        match outcome {
            Outcome::Nack(NackReason::Congestion) | Outcome::Nothing => {}
            Outcome::Nack(_) => *self.0.at(prefix, face) = Some(now),
            Outcome::Data { .. } => *self.0.at(prefix, face) = None,
        }
    }
    /// The candidate faces that have not rejected anything lately; all if that leaves none.
    fn alternatives(&mut self, question: &Question<'_>) -> Vec<Hop> {
        let mut refused = |face| self.0.at(question.prefix, face).is_some_and(|at| question.now < at + REFUSED_FOR);
        let alternatives: Vec<Hop> = question.hops.iter().filter(|hop| !refused(hop.face)).copied().collect();
        if alternatives.is_empty() { question.hops.to_vec() } else { alternatives }
    }
}

/// One of `hops` at random, with probabilities by weight; the first if all weights are zero.
fn weighted(hops: &[Hop], weights: &[f64], random: &mut Random) -> FaceId {
    let mut point = random.unit() * weights.iter().sum::<f64>();
    for (hop, weight) in hops.iter().zip(weights) {
        if point < *weight {
            return hop.face;
        }
        point -= weight;
    }
    hops[0].face
}

#[cfg(test)]
mod tests;

//! Seeded random streams.
use rand_xoshiro::{
    Xoshiro256PlusPlus,
    rand_core::{Rng, SeedableRng},
};

/// A replayable random stream: the same seed and stream number give the same values on every machine.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// Stream number `stream` of the run with seed `seed`; different streams are independent.
    pub fn new(seed: u64, stream: u64) -> Self {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17)))
    }
    /// A uniform 64-bit value.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
    /// A uniform value in `0..bound`; zero if `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }
    /// A uniform value in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && self.unit() < p
    }
}

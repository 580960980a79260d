//! Which packets get lost on the wire.
use alloc::vec::Vec;

use crate::Random;

/// How packets get lost.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Loss {
    /// Not at all.
    #[default]
    None,
    /// Each with this probability, independently.
    Bernoulli(f64),
    /// In bursts: a chain of two states that may change at each packet, starting in the good one.
    GilbertElliott {
        /// Probability per packet to go from good to bad.
        good_to_bad: f64,
        /// Probability per packet to go from bad to good; its inverse is the mean length of a burst.
        bad_to_good: f64,
        /// Loss while good.
        loss_good: f64,
        /// Loss while bad.
        loss_bad: f64,
    },
    /// The n-th packet is lost if the n-th entry is true; packets beyond the end pass.
    Mask(Vec<bool>),
}

/// Decides packet by packet what gets lost.
#[derive(Clone, Debug)]
pub struct LossProcess {
    loss: Loss,
    is_bad: bool,
    index: usize,
}

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The packet passes.
    Passes,
    /// It is lost.
    Lost,
}

impl LossProcess {
    /// The process at its start.
    pub fn new(loss: Loss) -> Self {
        LossProcess { loss, is_bad: false, index: 0 }
    }
    /// The fate of the next packet.
    pub fn next(&mut self, random: &mut Random) -> Fate {
        let lost = match &self.loss {
            Loss::None => false,
            Loss::Bernoulli(p) => random.chance(*p),
            Loss::GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad } => {
                let change = if self.is_bad { bad_to_good } else { good_to_bad };
                self.is_bad ^= random.chance(*change);
                random.chance(if self.is_bad { *loss_bad } else { *loss_good })
            }
            Loss::Mask(mask) => {
                let lost = mask.get(self.index).copied().unwrap_or(false);
                self.index += 1;
                lost
            }
        };
        if lost { Fate::Lost } else { Fate::Passes }
    }
}

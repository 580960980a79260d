//! The best delivery rate of the last rounds.

/// Rounds over which the largest delivery rate counts.
const RATE_ROUNDS: u64 = 10;

/// The largest of the samples of the last rounds, kept as three candidates (as Linux's `win_minmax` does).
#[derive(Clone, Debug, Default)]
pub(crate) struct RateFilter {
    /// Best first; each was seen in a later round than the one before it.
    candidates: [(f64, u64); 3],
}

impl RateFilter {
    /// In the unit of the samples; zero before the first.
    pub(crate) fn best(&self) -> f64 {
        self.candidates[0].0
    }
    /// Takes a sample of a round; rounds only grow.
    pub(crate) fn on_sample(&mut self, rate: f64, round: u64) {
        let new = (rate, round);
        let c = &mut self.candidates;
        if rate >= c[0].0 || round.saturating_sub(c[2].1) > RATE_ROUNDS {
            *c = [new; 3];
            return;
        }
        if rate >= c[1].0 {
            (c[1], c[2]) = (new, new);
        } else if rate >= c[2].0 {
            c[2] = new;
        }
        if round.saturating_sub(c[0].1) > RATE_ROUNDS {
            *c = [c[1], c[2], new];
            if round.saturating_sub(c[0].1) > RATE_ROUNDS {
                *c = [c[1], c[2], new];
            }
        } else if c[1].1 == c[0].1 && round.saturating_sub(c[0].1) > RATE_ROUNDS / 4 {
            (c[1], c[2]) = (new, new);
        } else if c[2].1 == c[1].1 && round.saturating_sub(c[1].1) > RATE_ROUNDS / 2 {
            c[2] = new;
        }
    }
}

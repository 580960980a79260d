//! Marking beyond a fixed length of the queue, as the switches of DCTCP do (RFC 8257 §3.1).
use super::{Backlog, Discipline, Measure, Signal, Verdict};
use crate::{Random, Time};

/// Settings of [`Threshold`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ThresholdConfig {
    /// The unit of `threshold`. Default: bytes.
    pub measure: Measure,
    /// A packet that finds more than this waiting is marked. Default: 30,000 bytes, 20 packets (RFC 8257's paper at 1 Gbit/s).
    pub threshold: u64,
    /// Mark, or (for comparison) drop. Default: mark.
    pub signal: Signal,
}
impl ThresholdConfig {
    /// The defaults.
    pub const DEFAULT: ThresholdConfig =
        ThresholdConfig { measure: Measure::Bytes, threshold: 30_000, signal: Signal::Mark };
}

/// Marks packets that find a long queue.
#[derive(Clone, Debug)]
pub struct Threshold {
    config: ThresholdConfig,
}
impl Threshold {
    /// The discipline at its start.
    pub fn new(config: ThresholdConfig) -> Self {
        Threshold { config }
    }
}
impl Discipline for Threshold {
    fn on_arrival(&mut self, _: Time, _: u64, backlog: Backlog, _: &mut Random) -> Verdict {
        let is_long = self.config.measure.of(backlog) > self.config.threshold;
        if is_long { self.config.signal.verdict() } else { Verdict::Pass }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_beyond_the_threshold_and_not_at_it() {
        let mut threshold = Threshold::new(ThresholdConfig { threshold: 3_000, ..ThresholdConfig::DEFAULT });
        let mut verdict =
            |bytes| threshold.on_arrival(Time::ZERO, 1_500, Backlog { packets: 9, bytes }, &mut Random::new(1, 1));
        assert_eq!((verdict(3_000), verdict(3_001)), (Verdict::Pass, Verdict::Mark));
    }
}

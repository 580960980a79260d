//! Bursty congestion of wide-area links, as scripts of rates.
//!
//! A link alternates between calm, with its full rate, and bursts, when other traffic leaves only a share of it. Both
//! last exponential times; the state at the start is drawn from their stationary distribution. The remaining rate is
//! known exactly, so that the optimum can be computed: that is why this is a change of rate and not cross traffic.
use tributary_core::{
    Duration, Random, Rate, Time,
    link::{LinkChange, Script},
};

/// How a link is congested.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Congestion {
    /// Mean length of calm, in seconds.
    pub calm_seconds: f64,
    /// Mean length of a burst, in seconds.
    pub burst_seconds: f64,
    /// Smallest and largest share of the rate that a burst leaves, 0 to 1; drawn evenly for each burst.
    pub left: (f64, f64),
}

impl Congestion {
    /// What a link of `rate` does until `end`; equal seeds and streams give equal scripts.
    pub fn script(&self, rate: Rate, seed: u64, stream: u64, end: Time) -> Script {
        let mut random = Random::new(seed, CONGESTION_STREAMS + stream);
        let mut is_burst = random.chance(self.burst_seconds / (self.burst_seconds + self.calm_seconds));
        let mut now = Duration::ZERO;
        let mut steps = Vec::new();
        while now < end.since(Time::ZERO) {
            let share = if is_burst { self.left.0 + (self.left.1 - self.left.0) * random.unit() } else { 1.0 };
            let left = Rate::from_bits_per_second((rate.bits_per_second() as f64 * share) as u64);
            steps.push((now, LinkChange::Rate(Some(left))));
            let mean = if is_burst { self.burst_seconds } else { self.calm_seconds };
            // At least a millisecond, so that no two changes are at one time.
            now += Duration::from_secs_f64((-(1.0 - random.unit()).ln() * mean).max(0.001));
            is_burst = !is_burst;
        }
        Script::new(steps, None)
    }
    /// One line for a table of parameters.
    pub fn describe(&self) -> String {
        format!(
            "calm {} s, bursts of {} s that leave {:.0} to {:.0} % (means of exponential laws)",
            self.calm_seconds,
            self.burst_seconds,
            self.left.0 * 100.0,
            self.left.1 * 100.0
        )
    }
}

/// First random stream of congestion.
const CONGESTION_STREAMS: u64 = 0xc0 << 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_take_their_share_of_time_and_are_the_same_for_a_seed() {
        let congestion = Congestion { calm_seconds: 3.0, burst_seconds: 1.0, left: (0.2, 0.4) };
        let rate = Rate::from_mbps(10);
        let script = |seed| congestion.script(rate, seed, 1, Time::from_millis(20_000_000));
        let steps = script(1);
        assert_eq!((steps.clone(), steps == script(2)), (script(1), false));
        let mut bursts = 0.0;
        for pair in steps.steps().windows(2) {
            let LinkChange::Rate(Some(left)) = pair[0].1 else { panic!("only rates change") };
            if left != rate {
                assert!((2.0..=4.0).contains(&left.mbps()));
                bursts += (pair[1].0 - pair[0].0).as_secs_f64();
            }
        }
        assert!((bursts / 20_000.0 - 0.25).abs() < 0.02, "{bursts}");
    }
}

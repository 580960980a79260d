//! Random early detection (Floyd and Jacobson 1993) with the gentle slope beyond the upper threshold (Floyd 2000).
use super::{Backlog, Discipline, Measure, Signal, Verdict};
use crate::{Duration, Random, Rate, Time};

/// Settings of [`Red`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RedConfig {
    /// The unit of the thresholds. Default: packets.
    pub measure: Measure,
    /// Average length below which nothing is dropped. Default 5 packets.
    pub threshold_min: f64,
    /// Average length at which `probability_max` is reached. Default 15 packets, three times the lower one.
    pub threshold_max: f64,
    /// Share of packets dropped at the upper threshold, 0 to 1. Default 0.1.
    pub probability_max: f64,
    /// Weight of the newest length in the average, above 0 to 1. Default 0.002.
    pub weight: f64,
    /// Drop, or mark instead below twice the upper threshold. Default: drop.
    pub signal: Signal,
}
impl RedConfig {
    /// The defaults.
    pub const DEFAULT: RedConfig = RedConfig {
        measure: Measure::Packets,
        threshold_min: 5.0,
        threshold_max: 15.0,
        probability_max: 0.1,
        weight: 0.002,
        signal: Signal::Drop,
    };
}

/// Drops early and at random, the more the longer the queue is on average.
#[derive(Clone, Debug)]
pub struct Red {
    config: RedConfig,
    /// How long a typical packet takes to send; while the queue is idle, its average ages by one empty arrival per
    /// packet time.
    packet_time: Duration,
    average: f64,
    /// Packets that passed since the last one that was dropped or marked, or since the average was below the thresholds.
    count: u64,
    idle_since: Option<Time>,
}

/// The length of a usual packet.
const PACKET_BYTES: u64 = 1_500;

impl Red {
    /// The discipline at its start, in front of a serialiser of that rate; without one nothing is ever idle.
    pub fn new(config: RedConfig, rate: Option<Rate>) -> Self {
        let packet_time = rate.map_or(Duration::ZERO, |rate| rate.time_for(PACKET_BYTES));
        Red { config, packet_time, average: 0.0, count: 0, idle_since: Some(Time::ZERO) }
    }
    /// The average length.
    pub fn average(&self) -> f64 {
        self.average
    }
    fn on_length(&mut self, now: Time, length: f64) {
        if let Some(since) = self.idle_since.take()
            && !self.packet_time.is_zero()
        {
            let packets = now.since(since).as_nanos() as f64 / self.packet_time.as_nanos() as f64;
            self.average *= libm::pow(1.0 - self.config.weight, packets);
        }
        self.average += self.config.weight * (length - self.average);
    }
    /// The probability by the average alone: `p_b` of the paper, with the gentle slope up to twice the upper threshold.
    fn base_probability(&self) -> f64 {
        let RedConfig { threshold_min: low, threshold_max: high, probability_max: top, .. } = self.config;
        if self.average < low {
            0.0
        } else if self.average < high {
            top * (self.average - low) / (high - low)
        } else {
            (top + (1.0 - top) * (self.average - high) / high).min(1.0)
        }
    }
}

impl Discipline for Red {
    fn on_arrival(&mut self, now: Time, _: u64, backlog: Backlog, random: &mut Random) -> Verdict {
        self.on_length(now, self.config.measure.of(backlog) as f64);
        let base = self.base_probability();
        if base <= 0.0 {
            self.count = 0;
            return Verdict::Pass;
        }
        if base >= 1.0 {
            self.count = 0;
            return Verdict::Drop;
        }
        // p_a = p_b / (1 − count · p_b), count as defined in the paper's §7: gaps are uniform on 1 to 1/p_b. (Its
        // pseudo-code counts the packet itself too after a drop, which would make 1/p_b − 1 the longest gap.)
        let spread = 1.0 - self.count as f64 * base;
        let probability = if spread > base { base / spread } else { 1.0 };
        if random.chance(probability) {
            self.count = 0;
            return self.config.signal.verdict();
        }
        self.count += 1;
        Verdict::Pass
    }
    fn on_idle(&mut self, now: Time) {
        self.idle_since.get_or_insert(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn backlog(packets: u64) -> Backlog {
        Backlog { packets, bytes: packets * 1_500 }
    }
    fn red() -> Red {
        Red::new(RedConfig::DEFAULT, Some(Rate::from_mbps(12)))
    }

    #[test]
    fn the_average_has_its_closed_form_busy_and_idle() {
        let (mut red, mut random) = (red(), Random::new(1, 1));
        for _ in 0..1_000 {
            red.on_arrival(Time::ZERO, 1_500, backlog(10), &mut random);
        }
        // avg_n = q (1 − (1 − w)^n)
        let busy = 10.0 * (1.0 - 0.998_f64.powi(1_000));
        assert!((red.average() - busy).abs() < 1e-9, "{}", red.average());
        // 500 ms without work are 500 packets of 1 ms at 12 Mbit/s; then one arrival at an empty queue.
        red.on_idle(Time::from_millis(100));
        red.on_idle(Time::from_millis(300));
        red.on_arrival(Time::from_millis(600), 1_500, backlog(0), &mut random);
        let idle = busy * 0.998_f64.powi(501);
        assert!((red.average() - idle).abs() < 1e-9, "{} instead of {idle}", red.average());
    }

    #[test]
    fn drops_have_the_share_and_the_uniform_gaps_of_the_paper() {
        // The average stands at 10, in the middle of the thresholds: p_b = 0.05, so gaps are uniform on 1..=20.
        let (mut red, mut random) = (red(), Random::new(2, 2));
        red.average = 10.0;
        let dropped: Vec<_> = (0..200_000)
            .filter(|_| red.on_arrival(Time::ZERO, 1_500, backlog(10), &mut random) == Verdict::Drop)
            .collect();
        let gaps: Vec<i64> = dropped.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| (1..=20).contains(gap)));
        for length in 1..=20 {
            let share = gaps.iter().filter(|gap| **gap == length).count() as f64 / gaps.len() as f64;
            assert!((share - 0.05).abs() < 0.008, "gap {length}: {share}");
        }
    }

    #[test]
    fn the_slope_is_gentle_beyond_the_upper_threshold() {
        let probability = |average| Red { average, ..red() }.base_probability();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(close(probability(4.999), 0.0) && close(probability(5.0), 0.0) && close(probability(10.0), 0.05));
        assert!(close(probability(15.0), 0.1) && close(probability(22.5), 0.55));
        assert!(close(probability(30.0), 1.0) && close(probability(99.0), 1.0));
    }

    #[test]
    fn marks_below_twice_the_threshold_and_drops_beyond() {
        let config = RedConfig { signal: Signal::Mark, probability_max: 0.99, ..RedConfig::DEFAULT };
        let mut random = Random::new(3, 3);
        let mut verdicts = |average, length| {
            let mut red = Red { average, ..Red::new(config, None) };
            (0..100).map(|_| red.on_arrival(Time::ZERO, 1_500, backlog(length), &mut random)).collect::<Vec<_>>()
        };
        assert!(!verdicts(14.9, 15).contains(&Verdict::Drop));
        assert!(verdicts(14.9, 15).contains(&Verdict::Mark));
        assert!(verdicts(31.0, 31).iter().all(|verdict| *verdict == Verdict::Drop));
    }
}

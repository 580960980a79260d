//! When a face marks packets for congestion. PCON, CHoPCoP and NFD each have their own rule.
use tributary_core::{Duration, Rate, Time};

/// The rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MarkingRule {
    /// Never.
    #[default]
    Off,
    /// When the queueing delay has been above `target` for a whole `interval`, then faster and faster as CoDel drops:
    /// after `interval / √n`. PCON: 5 ms and 100 ms.
    Codel {
        /// Delay that is all right.
        target: Duration,
        /// How long it may be exceeded.
        interval: Duration,
    },
    /// With a probability that rises linearly from zero at `low` to one at `high`. The substitute for CHoPCoP: 10 and
    /// 50 ms.
    Linear {
        /// Delay up to which nothing is marked.
        low: Duration,
        /// Delay from which everything is.
        high: Duration,
    },
}

impl MarkingRule {
    /// CoDel's rule with PCON's numbers.
    pub const CODEL: MarkingRule =
        MarkingRule::Codel { target: Duration::from_millis(5), interval: Duration::from_millis(100) };
    /// The substitute for CHoPCoP.
    pub const LINEAR: MarkingRule =
        MarkingRule::Linear { low: Duration::from_millis(10), high: Duration::from_millis(50) };

    /// The delay above which it marks, and how long that may be exceeded; PCON's values if the rule has none.
    pub(crate) fn delays(self) -> (Duration, Duration) {
        let usual = (Duration::from_millis(5), Duration::from_millis(100));
        match self {
            MarkingRule::Off => usual,
            MarkingRule::Codel { target, interval } => (target, interval),
            MarkingRule::Linear { low, .. } => (low, usual.1),
        }
    }
}

/// A packet of full size: waiting behind at most one is no queue.
const PACKET_BYTES: u64 = 1_500;

/// The queue of a link with a known rate: how long a packet sent now will wait.
///
/// The queue itself is the driver's or the link's; this follows it by arithmetic.
#[derive(Clone, Debug)]
pub struct Marker {
    rule: MarkingRule,
    rate: Option<Rate>,
    /// When the link will have sent everything.
    busy_until: Time,
    /// CoDel: since when the delay is too long.
    above_since: Option<Time>,
    /// CoDel: when to mark next, and marks in this spell.
    next_mark: Time,
    marks: u32,
}

impl Marker {
    /// A marker for a link of this rate. Without a rate its queue is unknown and nothing is marked.
    pub fn new(rule: MarkingRule, rate: Option<Rate>) -> Self {
        Marker { rule, rate, busy_until: Time::ZERO, above_since: None, next_mark: Time::ZERO, marks: 0 }
    }
    /// Whether it ever marks.
    pub fn is_on(&self) -> bool {
        self.rate.is_some() && self.rule != MarkingRule::Off
    }
    /// Counts a departing packet; returns whether to mark it. `before` is its earlier delay, `unit` is a random number
    /// from 0 to 1.
    pub fn on_packet(&mut self, now: Time, bytes: usize, (before, unit): (Duration, f64)) -> bool {
        let Some(rate) = self.rate else { return false };
        let delay = self.delay(now) + before;
        self.busy_until = self.busy_until.max(now) + rate.time_for(bytes as u64);
        match self.rule {
            MarkingRule::Off => false,
            MarkingRule::Linear { low, high } => {
                let span = high.saturating_sub(low).as_secs_f64().max(1e-9);
                unit < delay.saturating_sub(low).as_secs_f64() / span
            }
            MarkingRule::Codel { target, interval } => self.codel(now, delay, target, interval),
        }
    }
    /// How long a packet that is sent now waits in the link's queue.
    pub fn delay(&self, now: Time) -> Duration {
        self.busy_until.since(now)
    }
    fn codel(&mut self, now: Time, delay: Duration, target: Duration, interval: Duration) -> bool {
        // One packet in transmission is no queue, however long it takes (RFC 8289 §4.4).
        let one_packet = self.rate.map_or(Duration::ZERO, |rate| rate.time_for(PACKET_BYTES));
        if delay <= target.max(one_packet) {
            self.above_since = None;
            self.marks = 0;
            return false;
        }
        let since = *self.above_since.get_or_insert(now);
        if now.since(since) < interval || (self.marks > 0 && now < self.next_mark) {
            return false;
        }
        self.marks += 1;
        self.next_mark = now + interval.div_f64(libm::sqrt(f64::from(self.marks)));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One packet of 1,000 bytes a millisecond into a link of 4 Mbit/s: the queue grows by one millisecond each.
    fn marks(rule: MarkingRule, millis: u64) -> alloc::vec::Vec<u64> {
        let mut marker = Marker::new(rule, Some(Rate::from_mbps(4)));
        (0..millis).filter(|at| marker.on_packet(Time::from_millis(*at), 1000, (Duration::ZERO, 0.5))).collect()
    }

    #[test]
    fn codel_waits_for_an_interval_above_target_and_then_marks_more_and_more_often() {
        let rule = MarkingRule::Codel { target: Duration::from_millis(5), interval: Duration::from_millis(100) };
        let at = marks(rule, 400);
        assert_eq!(at[0], 106, "5 ms of queue at 6 ms, 100 ms later the first mark");
        assert_eq!(at[1..4], [206, 277, 335]);
    }

    #[test]
    fn linear_marks_with_the_probability_of_the_delay() {
        let rule = MarkingRule::Linear { low: Duration::from_millis(10), high: Duration::from_millis(50) };
        assert_eq!(marks(rule, 100)[0], 31, "half way at 30 ms, marked above it");
        assert_eq!(marks(rule, 100).len(), 69);
        assert!(marks(MarkingRule::Off, 100).is_empty());
        assert!(!Marker::new(rule, None).on_packet(Time::ZERO, 1_000_000, (Duration::ZERO, 0.0)));
        let mut idle = Marker::new(rule, Some(Rate::from_mbps(4)));
        assert!(idle.on_packet(Time::ZERO, 1_000, (Duration::from_millis(50), 0.9)), "what waited before counts");
    }
}

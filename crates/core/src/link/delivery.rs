//! Recorded moments at which bytes may leave, as mahimahi's traces have them.
use alloc::sync::Arc;

use crate::{Duration, Rate, Time};

/// A recording of delivery opportunities: at each one a number of bytes may leave, and unused ones are lost.
///
/// The recording starts at the driver's epoch and repeats. A packet may use several opportunities, and several small
/// packets one, as in mahimahi's `LinkQueue`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryTrace {
    /// Offsets in nanoseconds from the start of the recording, ascending, none beyond the period.
    offsets: Arc<[u64]>,
    period: u64,
    bytes_each: u32,
}

impl DeliveryTrace {
    /// What leaves at one opportunity in mahimahi's recordings.
    pub const BYTES_EACH: u32 = 1_500;

    /// A recording with opportunities of `bytes_each` at `offsets`, which repeats when `period` has passed.
    ///
    /// # Panics
    /// If there are no offsets, they do not ascend, the last one lies beyond the period, or the period or `bytes_each`
    /// is zero.
    pub fn new(offsets: impl IntoIterator<Item = Duration>, period: Duration, bytes_each: u32) -> Self {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let offsets: Arc<[u64]> = offsets.into_iter().map(nanos).collect();
        let period = nanos(period);
        assert!(offsets.is_sorted(), "opportunities are told in order");
        assert!(offsets.last().is_some_and(|last| *last <= period), "the last opportunity lies within the period");
        assert!(period > 0 && bytes_each > 0, "time passes and bytes leave");
        DeliveryTrace { offsets, period, bytes_each }
    }
    /// The same recording starting `after` its start; the skipped part comes at its end.
    pub fn begun_at(&self, after: Duration) -> Self {
        let after = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX) % self.period;
        let (before, rest) = self.offsets.split_at(self.offsets.partition_point(|offset| *offset < after));
        let rest = rest.iter().map(|offset| offset - after);
        let before = before.iter().map(|offset| offset + self.period - after);
        DeliveryTrace { offsets: rest.chain(before).collect(), ..self.clone() }
    }
    /// When bytes may leave, from its start on.
    pub fn offsets(&self) -> impl Iterator<Item = Duration> {
        self.offsets.iter().map(|offset| Duration::from_nanos(*offset))
    }
    /// The mean rate over one period.
    pub fn rate_mean(&self) -> Rate {
        let bytes = self.offsets.len() as u64 * u64::from(self.bytes_each);
        Rate::over(bytes, self.period()).expect("a period is longer than zero")
    }
    /// Opportunities in one period.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }
    /// Never: a recording has at least one opportunity.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }
    /// After which time the recording repeats.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period)
    }
    /// Bytes that may leave at each opportunity.
    pub fn bytes_each(&self) -> u32 {
        self.bytes_each
    }
}

/// Sends one packet after the other by a [`DeliveryTrace`].
#[derive(Clone, Debug)]
pub struct Delivery {
    trace: DeliveryTrace,
    /// When the repetition that contains `index` started.
    base: u64,
    /// The next unused opportunity.
    index: usize,
    /// Bytes left of the opportunity at `free_at`.
    credit: u64,
    free_at: Time,
}

impl Delivery {
    /// Nothing is being sent.
    pub fn new(trace: DeliveryTrace) -> Self {
        Delivery { trace, base: 0, index: 0, credit: 0, free_at: Time::ZERO }
    }
    /// Starts to send `bytes` at `now`, or when the present packet has left.
    pub fn start(&mut self, now: Time, bytes: u64) {
        if now > self.free_at {
            // The rest of a past opportunity is lost.
            self.credit = 0;
            self.skip_to(now.as_nanos());
        }
        let mut left = bytes.saturating_sub(self.credit);
        self.credit = self.credit.saturating_sub(bytes);
        while left > 0 {
            let at = self.base.saturating_add(self.trace.offsets[self.index]);
            self.advance();
            let each = u64::from(self.trace.bytes_each);
            self.credit = each.saturating_sub(left);
            left = left.saturating_sub(each);
            self.free_at = Time::from_nanos(at);
        }
        self.free_at = self.free_at.max(now);
    }
    /// When everything that was started has been sent.
    pub fn free_at(&self) -> Time {
        self.free_at
    }
    /// Discards the unsent bytes; the opportunities that they would have used are used up.
    pub fn abort(&mut self, now: Time) {
        self.free_at = self.free_at.min(now);
        self.credit = 0;
    }
    /// The recording.
    pub fn trace(&self) -> &DeliveryTrace {
        &self.trace
    }

    fn advance(&mut self) {
        self.index += 1;
        if self.index == self.trace.offsets.len() {
            self.index = 0;
            self.base = self.base.saturating_add(self.trace.period);
        }
    }
    /// Passes over all opportunities before `now`.
    fn skip_to(&mut self, now: u64) {
        if self.base.saturating_add(self.trace.offsets[self.index]) >= now {
            return;
        }
        // Offsets reach up to the period, so an opportunity at `now` may belong to the repetition before the current one.
        let cycle = now / self.trace.period * self.trace.period;
        let within = now - cycle;
        let before = cycle.checked_sub(self.trace.period).filter(|_| within == 0);
        let (base, within) = before.map_or((cycle, within), |before| (before, self.trace.period));
        let base = base.max(self.base);
        if base == self.base {
            let rest = &self.trace.offsets[self.index..];
            self.index += rest.partition_point(|offset| self.base + offset < now);
        } else {
            self.base = base;
            self.index = self.trace.offsets.partition_point(|offset| *offset < within);
        }
        if self.index == self.trace.offsets.len() {
            self.index = 0;
            self.base = self.base.saturating_add(self.trace.period);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use alloc::{vec, vec::Vec};

    fn trace(ms: &[u64]) -> DeliveryTrace {
        let period = Duration::from_millis(*ms.last().expect("some"));
        DeliveryTrace::new(ms.iter().map(|ms| Duration::from_millis(*ms)), period, 1_500)
    }

    #[test]
    fn a_recording_that_begins_later_ends_with_what_was_before() {
        assert_eq!(trace(&[1, 4, 5, 10]).begun_at(Duration::from_millis(4)), {
            let offsets = [0, 1, 6, 7].map(Duration::from_millis);
            DeliveryTrace::new(offsets, Duration::from_millis(10), 1_500)
        });
        assert_eq!(trace(&[1, 4, 10]).begun_at(Duration::from_millis(20)), trace(&[1, 4, 10]), "two periods later");
    }
    fn ends(delivery: &mut Delivery, starts: &[(u64, u64)]) -> Vec<u64> {
        starts
            .iter()
            .map(|(ms, bytes)| {
                delivery.start(Time::from_millis(*ms), *bytes);
                delivery.free_at().as_nanos() / 1_000_000
            })
            .collect()
    }

    #[test]
    fn one_packet_of_full_size_leaves_at_each_opportunity_and_the_trace_repeats() {
        let mut delivery = Delivery::new(trace(&[2, 5, 5, 10]));
        let starts = vec![(0, 1_500); 9];
        assert_eq!(ends(&mut delivery, &starts), [2, 5, 5, 10, 12, 15, 15, 20, 22]);
        assert_eq!(delivery.trace().rate_mean(), Rate::from_bits_per_second(4_800_000));
    }

    #[test]
    fn small_packets_share_an_opportunity_and_large_ones_use_several() {
        let mut delivery = Delivery::new(trace(&[1, 2, 3, 4, 5, 6, 7, 8]));
        assert_eq!(ends(&mut delivery, &[(0, 500), (0, 500), (0, 501), (0, 1_499), (0, 3_000)]), [1, 1, 2, 2, 4]);
    }

    #[test]
    fn what_is_not_used_is_lost() {
        let mut delivery = Delivery::new(trace(&[2, 5, 5, 10]));
        assert_eq!(
            ends(&mut delivery, &[(0, 100), (3, 1_500), (6, 10), (1_000, 1_500), (1_001, 1_500)]),
            [2, 5, 10, 1_000, 1_002]
        );
    }

    #[test]
    fn agrees_with_walking_through_every_opportunity() {
        for seed in 1..40 {
            let mut random = Random::new(seed, 1);
            let mut offsets: Vec<u64> = (0..1 + random.below(20)).map(|_| random.below(50)).collect();
            offsets.sort_unstable();
            let period = offsets.last().copied().unwrap_or(0).max(1) + random.below(3);
            let trace = DeliveryTrace::new(
                offsets.iter().map(|nanos| Duration::from_nanos(*nanos)),
                Duration::from_nanos(period),
                100,
            );
            let at = |n: usize| (n / offsets.len()) as u64 * period + offsets[n % offsets.len()];
            let mut delivery = Delivery::new(trace);
            let (mut next, mut credit, mut free, mut now) = (0, 0, 0, 0);
            for _ in 0..2_000 {
                now += random.below(4) * random.below(60);
                let bytes = 1 + random.below(250);
                if now > free {
                    credit = 0;
                    while at(next) < now {
                        next += 1;
                    }
                }
                let mut left = bytes;
                loop {
                    let used = left.min(credit);
                    (left, credit) = (left - used, credit - used);
                    if left == 0 {
                        break;
                    }
                    (free, credit) = (at(next), 100);
                    next += 1;
                }
                free = free.max(now);
                delivery.start(Time::from_nanos(now), bytes);
                assert_eq!(delivery.free_at().as_nanos(), free, "seed {seed}");
            }
        }
    }
}

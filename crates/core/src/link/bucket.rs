//! A token bucket in front of a fast wire: the model of shapers and policers in access networks (`tc-tbf`, RFC 2697).
use crate::{Duration, Rate, Time};

/// Lets packets pass at once while it has tokens, and then at its rate. A full bucket has `burst_bytes` of them. In front
/// of it is the queue of the link: a long one makes a shaper, one without room makes a policer, which holds back a single
/// packet at most.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    pub(super) rate: Option<Rate>,
    burst_bytes: u64,
    /// When it will be full again.
    full_at: Time,
    /// When there are tokens for the latest packet.
    ready_at: Time,
    /// Missing tokens at rate zero.
    missing: u64,
}

/// No tokens arrive.
const STOPPED: Rate = Rate::from_bits_per_second(0);

impl TokenBucket {
    /// A full bucket; without a rate everything passes at once, at rate zero nothing does.
    pub fn new(rate: Option<Rate>, burst_bytes: u64) -> Self {
        TokenBucket { rate, burst_bytes, full_at: Time::ZERO, ready_at: Time::ZERO, missing: 0 }
    }
    /// Takes the tokens of a packet of `bytes` that comes at `now`, or after the one before it.
    pub fn start(&mut self, now: Time, bytes: u64) {
        let Some(rate) = self.rate else {
            self.ready_at = now;
            return;
        };
        if rate == STOPPED {
            self.missing += bytes;
        }
        self.full_at = self.full_at.max(now) + rate.time_for(bytes);
        self.ready_at = self.ready(now, rate);
    }
    /// When the packet that was started last leaves; `None` for never (rate zero).
    pub fn free_at(&self) -> Option<Time> {
        (self.ready_at < Time::MAX).then_some(self.ready_at)
    }
    /// Whether nothing ever waits.
    pub fn is_unlimited(&self) -> bool {
        self.rate.is_none()
    }
    /// Changes the rate from `now` on; tokens already in the bucket stay.
    pub fn set_rate(&mut self, now: Time, rate: Option<Rate>) {
        let missing = match self.rate {
            Some(STOPPED) => core::mem::take(&mut self.missing),
            old => old.map_or(0, |old| old.bytes_in(self.full_at.since(now))),
        };
        let waits = self.ready_at > now;
        self.rate = rate;
        self.full_at = now;
        self.ready_at = now;
        let Some(rate) = rate else { return };
        if rate == STOPPED {
            self.missing = missing;
        }
        self.full_at = now + rate.time_for(missing);
        if waits {
            self.ready_at = self.ready(now, rate);
        }
    }
    /// The packet that was started last does not leave after all.
    pub fn abort(&mut self, now: Time) {
        self.ready_at = self.ready_at.min(now);
    }

    /// When no more tokens are missing than the bucket holds.
    fn ready(&self, now: Time, rate: Rate) -> Time {
        match rate.time_for(self.burst_bytes) {
            Duration::MAX => Time::MAX,
            burst => now.max(self.full_at - burst),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_at_once_and_the_rest_at_the_rate() {
        // 1,000 bytes a millisecond.
        let mut bucket = TokenBucket::new(Some(Rate::from_mbps(8)), 3_000);
        let mut leave = |now: u64| {
            bucket.start(Time::from_millis(now), 1_000);
            bucket.free_at().expect("it has a rate").as_nanos() / 1_000_000
        };
        assert_eq!([leave(10), leave(10), leave(10), leave(10), leave(11)], [10, 10, 10, 11, 12]);
        assert_eq!([leave(14), leave(14), leave(14)], [14, 14, 15], "two tokens came meanwhile");
        assert_eq!([leave(100), leave(100), leave(100), leave(100)], [100, 100, 100, 101], "no more than a burst");
    }

    #[test]
    fn a_new_rate_fills_what_is_missing() {
        let mut bucket = TokenBucket::new(Some(Rate::from_mbps(8)), 2_000);
        (0..4).for_each(|_| bucket.start(Time::ZERO, 1_000));
        assert_eq!(bucket.free_at(), Some(Time::from_millis(2)));
        bucket.set_rate(Time::from_millis(1), Some(Rate::from_mbps(4)));
        assert_eq!(bucket.free_at(), Some(Time::from_millis(3)), "one token is missing for the last packet");
        bucket.set_rate(Time::from_millis(2), Some(STOPPED));
        assert_eq!(bucket.free_at(), None, "none come");
        bucket.set_rate(Time::from_millis(9), Some(Rate::from_mbps(8)));
        assert_eq!(bucket.free_at(), Some(Time::ZERO + Duration::from_micros(9_500)), "half a token is missing still");
        bucket.set_rate(Time::from_millis(9), None);
        assert!(bucket.is_unlimited());
        assert_eq!(bucket.free_at(), Some(Time::from_millis(9)));
    }
}

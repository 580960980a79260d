//! Rate limits.
use tributary_core::{Duration, Rate, Time};

/// A token bucket: lets `rate` pass on average and at most one `burst` at once.
#[derive(Clone, Debug, Default)]
pub struct TokenBucket {
    rate: Option<Rate>,
    burst: Duration,
    /// The time at which the bucket is even: before `now` there is credit, after it there is debt.
    even_at: Time,
}

impl TokenBucket {
    /// Passes everything if `rate` is `None`. `burst` is the amount that may pass at once, as time at the rate.
    pub fn new(rate: Option<Rate>, burst: Duration) -> Self {
        TokenBucket { rate, burst, even_at: Time::ZERO }
    }
    /// Changes the rate; `None` lifts the limit.
    pub fn set_rate(&mut self, now: Time, rate: Option<Rate>) {
        self.rate = rate;
        self.even_at = now;
    }
    /// The rate; `None` means unlimited.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }
    /// When the next bytes may pass; a time that is not after `now` means at once.
    pub fn ready_at(&self) -> Time {
        if self.rate.is_some() { self.even_at } else { Time::ZERO }
    }
    /// Counts `bytes` that pass at `now`. One request may run into debt; the next one waits until it is paid.
    pub fn on_pass(&mut self, now: Time, bytes: u64) {
        if let Some(rate) = self.rate {
            self.even_at = self.even_at.max(now - self.burst) + rate.time_for(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_its_rate_to_within_one_burst() {
        let mut bucket = TokenBucket::new(Some(Rate::from_mbps(8)), Duration::from_millis(10));
        let (mut now, mut passed) = (Time::from_millis(1000), 0u64);
        while now < Time::from_millis(2000) {
            if bucket.ready_at() <= now {
                bucket.on_pass(now, 1000);
                passed += 1000;
            }
            now += Duration::from_micros(300);
        }
        assert!((1_000_000..=1_011_000).contains(&passed), "{passed}");
    }
}

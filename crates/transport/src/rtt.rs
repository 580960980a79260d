//! Round-trip time and retransmission timeout.
use tributary_core::Duration;

/// The least margin of the timeout above the smoothed round-trip time (RFC 6298 §2.3: the clock's granularity; RFC 9002
/// §6.1.2 takes 1 ms). On a path whose round-trip time never varies the timeout would fire as the answer arrives.
const GRANULARITY: Duration = Duration::from_millis(1);

/// Smoothed round-trip time, its variation, and the timeout that follows from them. RFC 6298.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    smoothed: Option<Duration>,
    variation: Duration,
    minimum: Option<Duration>,
    /// The present timeout, stored because it is read far more often than it changes.
    rto: Duration,
    rto_min: Duration,
    rto_max: Duration,
}

impl RttEstimator {
    /// No samples yet: the timeout is `rto_initial`. Afterwards it stays within `rto_min` and `rto_max`.
    pub fn new(rto_initial: Duration, rto_min: Duration, rto_max: Duration) -> Self {
        RttEstimator { smoothed: None, variation: Duration::ZERO, minimum: None, rto: rto_initial, rto_min, rto_max }
    }
    /// Folds in one sample, from the transmission of a request to its first answer. Callers drop samples of packets
    /// that were requested twice on the same path (Karn), and answers of caches. RFC 6298 §2, with its gains 1/8 and
    /// 1/4.
    pub fn on_sample(&mut self, sample: Duration) {
        let smoothed = match self.smoothed {
            None => {
                self.variation = sample / 2;
                sample
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(sample)) / 4;
                (smoothed * 7 + sample) / 8
            }
        };
        self.smoothed = Some(smoothed);
        self.rto =
            (smoothed + (self.variation * 4).max(GRANULARITY)).clamp(self.rto_min, self.rto_max.max(smoothed * 2));
        self.minimum = Some(self.minimum.map_or(sample, |minimum| minimum.min(sample)));
    }
    /// The smoothed round-trip time; `None` before the first sample.
    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }
    /// The smallest sample; `None` before the first.
    pub fn minimum(&self) -> Option<Duration> {
        self.minimum
    }
    /// How long to wait for an answer.
    pub fn rto(&self) -> Duration {
        self.rto
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn follows_rfc_6298_by_hand_computed_steps() {
        let mut rtt = RttEstimator::new(MS(300), MS(50), MS(1000));
        assert_eq!(rtt.rto(), MS(300));
        rtt.on_sample(MS(100));
        assert_eq!((rtt.smoothed(), rtt.rto()), (Some(MS(100)), MS(300)));
        rtt.on_sample(MS(180));
        // srtt = 7/8·100 + 1/8·180 = 110; rttvar = 3/4·50 + 1/4·80 = 57.5; rto = 110 + 230
        assert_eq!((rtt.smoothed(), rtt.rto()), (Some(MS(110)), MS(340)));
        assert_eq!(rtt.minimum(), Some(MS(100)));
    }

    #[test]
    fn a_steady_fast_path_times_out_at_the_floor_and_a_slow_one_is_never_below_its_own_rtt() {
        let mut rtt = RttEstimator::new(MS(300), MS(50), MS(1000));
        (0..100).for_each(|_| rtt.on_sample(MS(1)));
        assert_eq!(rtt.rto(), MS(50));
        (0..100).for_each(|_| rtt.on_sample(MS(3000)));
        assert!(rtt.rto() >= MS(3000));
    }

    #[test]
    fn it_does_not_time_out_as_the_answer_arrives_where_the_round_trip_never_varies() {
        let mut rtt = RttEstimator::new(MS(300), MS(50), MS(1000));
        (0..100).for_each(|_| rtt.on_sample(MS(96)));
        assert_eq!(rtt.rto(), MS(97));
    }
}

//! wVegas (Cao, Xu and Fu, ICNP 2012): each sub-flow keeps packets in queues in proportion to its share of the total
//! rate, so that the sub-flows meet equal congestion. It reacts to round-trip times, and halves on loss.
use tributary_core::{Duration, Time};
use tributary_transport::{
    ControllerKind, Other, TransferConfig,
    window::{Arrival, Controller, Growth, Loss},
};

/// It as a controller of transfers.
pub(crate) const WEIGHTED_VEGAS: ControllerKind = ControllerKind::Other(Other {
    name: "weighted-vegas",
    law: |config, packet_bytes| Box::new(WeightedVegas::new(config, packet_bytes)),
});

/// Packets in the queues of all sub-flows together. The paper's total α.
const QUEUED_TOTAL: f64 = 10.0;
/// Minimum packets in the queues of one sub-flow.
const QUEUED_MIN: f64 = 2.0;
/// Packets in queues that end slow start. The paper's γ.
const QUEUED_SLOW_START: f64 = 1.0;
/// The smallest window, in packets.
const WINDOW_MIN: f64 = 2.0;

/// A window in packets that follows round-trip times.
#[derive(Clone, Debug)]
struct WeightedVegas {
    window: f64,
    window_max: f64,
    packet_bytes: u64,
    growth: Growth,
    in_slow_start: bool,
    rtt_min: Option<Duration>,
    /// Sum and number of the round trips of this round.
    round: (f64, u32),
    round_ends_at: u64,
    /// The smallest mean queueing delay of a round, in seconds.
    queueing_min: f64,
    decreased_at: Time,
}

impl WeightedVegas {
    /// Starts in slow start with the configured initial window.
    fn new(config: &TransferConfig, packet_bytes: u64) -> Self {
        let window_max = (config.window_bytes_max / packet_bytes).max(2) as f64;
        WeightedVegas {
            window: f64::from(config.window_initial_packets).min(window_max),
            window_max,
            packet_bytes,
            growth: Growth::ALONE,
            in_slow_start: true,
            rtt_min: None,
            round: (0.0, 0),
            round_ends_at: 0,
            queueing_min: f64::INFINITY,
            decreased_at: Time::ZERO,
        }
    }
    fn on_round(&mut self) {
        let (sum, count) = std::mem::take(&mut self.round);
        let (Some(shortest), true) = (self.rtt_min, count > 0) else { return };
        let (shortest, mean) = (shortest.as_secs_f64(), sum / f64::from(count));
        let queued = self.window * (mean - shortest) / mean;
        if self.in_slow_start {
            if queued > QUEUED_SLOW_START {
                self.in_slow_start = false;
                self.window = (self.window * shortest / mean).max(WINDOW_MIN);
            }
            return;
        }
        let target = (QUEUED_TOTAL * self.growth.weight).max(QUEUED_MIN);
        self.window += if queued > target { -1.0 } else { 1.0 };
        // Now and then the queue is drained, so that the smallest round trip is seen.
        let queueing = mean - shortest;
        self.queueing_min = self.queueing_min.min(queueing.max(1e-6));
        if queued > target && queueing >= 2.0 * self.queueing_min {
            self.window *= shortest / (2.0 * mean) + 0.5;
            self.queueing_min = f64::INFINITY;
        }
        self.window = self.window.clamp(WINDOW_MIN, self.window_max);
    }
}

impl Controller for WeightedVegas {
    fn on_data(&mut self, _: Time, arrival: &Arrival) {
        if let Some(rtt) = arrival.rtt {
            self.rtt_min = Some(self.rtt_min.map_or(rtt, |shortest| shortest.min(rtt)));
            self.round = (self.round.0 + rtt.as_secs_f64(), self.round.1 + 1);
        }
        if arrival.starved {
            return;
        }
        if self.in_slow_start {
            // Every other packet, so that the effect of a round's growth is seen before the next.
            let packets = arrival.bytes as f64 / self.packet_bytes as f64;
            self.window = (self.window + packets / 2.0).min(self.window_max);
        }
        if arrival.delivered_at_request >= self.round_ends_at {
            self.round_ends_at = arrival.delivered;
            self.on_round();
        }
    }
    fn on_cached_data(&mut self, _: Time, _: &Arrival) {
        // A cache's round trip does not measure the path.
    }
    fn on_loss(&mut self, now: Time, loss: &Loss) {
        if loss.requested_at < self.decreased_at {
            return;
        }
        self.decreased_at = now;
        self.in_slow_start = false;
        self.window = (self.window / 2.0).max(WINDOW_MIN);
    }
    fn on_silence(&mut self, now: Time) {
        self.decreased_at = now;
        self.window = WINDOW_MIN;
        self.in_slow_start = true;
    }
    fn set_growth(&mut self, growth: Growth) {
        self.growth = growth;
    }
    fn window(&self) -> u64 {
        (self.window * self.packet_bytes as f64) as u64
    }
    fn phase(&self) -> &'static str {
        if self.in_slow_start { "slow start" } else { "congestion avoidance" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs it against a link of one packet a millisecond, 20 ms long; the packets that stay in its queue.
    fn queued_after(controller: &mut WeightedVegas, rounds: u32) -> f64 {
        let mut delivered = 0;
        for _ in 0..rounds {
            let window = controller.window() / 1000;
            let queued = window.saturating_sub(20);
            for _ in 0..window {
                let before = delivered;
                delivered += 1000;
                let arrival = Arrival {
                    bytes: 1000,
                    in_flight: 0,
                    rtt: Some(Duration::from_millis(20 + queued)),
                    rate: None,
                    delivered_at_request: (before + 1000_u64).saturating_sub(window * 1000),
                    delivered,
                    starved: false,
                    requested_at: Time::ZERO,
                    is_beside: false,
                };
                controller.on_data(Time::ZERO, &arrival);
            }
        }
        controller.window() as f64 / 1000.0 - 20.0
    }

    #[test]
    fn it_keeps_its_part_of_ten_packets_in_queues() {
        for (weight, expected) in [(1.0, 10.0), (0.5, 5.0), (0.01, 2.0)] {
            let mut controller = WeightedVegas::new(&TransferConfig::default(), 1000);
            controller.set_growth(Growth { weight, ..Growth::ALONE });
            let queued = queued_after(&mut controller, 300);
            assert!((queued - expected).abs() < 0.5 * expected + 1.0, "{queued} with a weight of {weight}");
        }
    }

    #[test]
    fn a_loss_halves_it_once() {
        let mut controller = WeightedVegas::new(&TransferConfig::default(), 1000);
        let loss = |at| Loss { bytes: 1000, in_flight: 0, requested_at: Time::from_millis(at) };
        controller.on_loss(Time::from_millis(100), &loss(50));
        controller.on_loss(Time::from_millis(110), &loss(60));
        assert_eq!(controller.window(), 8_000);
    }
}

//! Slow start, congestion avoidance, halving: the paper's controller (§III-D), RFC 5681.
use tributary_core::Time;

use super::{Arrival, Controller, Growth, Loss};
use crate::TransferConfig;

/// The smallest window after a loss, in packets.
const WINDOW_MIN: f64 = 2.0;

tributary_core::declared! {
    /// A window in packets that grows until packets are lost.
    #[derive(Clone, Debug)]
    pub struct LossBased {
        window: f64 = window_initial,
        threshold: f64 = f64::INFINITY,
        window_initial: f64 = window_initial,
        window_max: f64 = window_max,
        packet_bytes: u64 = packet_bytes,
        growth: Growth = Growth::ALONE,
        /// Losses of packets requested before this belong to the decrease already made.
        recovered_from: Time = Time::ZERO,
        /// Window and threshold before the last silence.
        before_silence: (f64, f64) = (window_initial, f64::INFINITY),
    }
    /// Starts in slow start with the configured initial window.
    pub fn new(config: &TransferConfig, packet_bytes: u64) {
        let window_max = (config.window_bytes_max / packet_bytes).max(2) as f64;
        let window_initial = f64::from(config.window_initial_packets).min(window_max);
    }
}

impl Controller for LossBased {
    fn on_data(&mut self, _: Time, arrival: &Arrival) {
        let packets = arrival.bytes as f64 / self.packet_bytes as f64;
        // A window that is not used does not grow (RFC 7661 in spirit).
        if arrival.starved {
            return;
        }
        self.window += packets
            * if self.window < self.threshold { self.growth.slow_start } else { self.growth.avoidance / self.window };
        self.window = self.window.clamp(WINDOW_MIN, self.window_max);
    }
    fn on_loss(&mut self, now: Time, loss: &Loss) {
        if loss.requested_at < self.recovered_from {
            return;
        }
        self.recovered_from = now;
        self.window = (self.window * (1.0 - self.growth.decrease / 2.0)).max(WINDOW_MIN);
        self.threshold = self.window;
    }
    fn on_silence(&mut self, now: Time) {
        self.recovered_from = now;
        self.before_silence = (self.window, self.threshold);
        self.threshold = (self.window / 2.0).max(2.0);
        self.window = 1.0f64.max(self.window_initial.min(2.0));
    }
    fn on_spurious_silence(&mut self) {
        let (window, threshold) = self.before_silence;
        self.window = self.window.max(window);
        self.threshold = threshold;
    }
    fn set_growth(&mut self, growth: Growth) {
        self.growth = growth;
    }
    fn window(&self) -> u64 {
        (self.window * self.packet_bytes as f64) as u64
    }
    fn phase(&self) -> &'static str {
        if self.window < self.threshold { "slow start" } else { "congestion avoidance" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_core::Duration;

    fn arrival() -> Arrival {
        Arrival {
            bytes: 1000,
            in_flight: 0,
            rtt: Some(Duration::from_millis(20)),
            rate: None,
            delivered_at_request: 0,
            delivered: 0,
            starved: false,
            requested_at: Time::ZERO,
            is_beside: false,
        }
    }
    fn packets(controller: &LossBased) -> u64 {
        controller.window() / 1000
    }

    #[test]
    fn doubles_per_window_then_halves_once_per_round_then_adds_one_per_window() {
        let mut reno = LossBased::new(&TransferConfig::default(), 1000);
        (0..16).for_each(|_| reno.on_data(Time::ZERO, &arrival()));
        assert_eq!(packets(&reno), 32);
        let loss = |at| Loss { bytes: 1000, in_flight: 0, requested_at: Time::from_millis(at) };
        reno.on_loss(Time::from_millis(100), &loss(50));
        reno.on_loss(Time::from_millis(110), &loss(60));
        assert_eq!(packets(&reno), 16, "two losses of one round halve once");
        (0..17).for_each(|_| reno.on_data(Time::ZERO, &arrival()));
        assert_eq!(packets(&reno), 17);
        reno.on_loss(Time::from_millis(200), &loss(150));
        assert_eq!(packets(&reno), 8);
    }

    #[test]
    fn coupled_growth_scales_both_phases() {
        let mut reno = LossBased::new(&TransferConfig::default(), 1000);
        reno.set_growth(Growth { slow_start: 0.5, avoidance: 0.25, ..Growth::ALONE });
        (0..16).for_each(|_| reno.on_data(Time::ZERO, &arrival()));
        assert_eq!(packets(&reno), 24);
        reno.on_loss(Time::from_millis(100), &Loss { bytes: 1, in_flight: 0, requested_at: Time::from_millis(1) });
        (0..13 * 4).for_each(|_| reno.on_data(Time::ZERO, &arrival()));
        assert_eq!(packets(&reno), 13);
    }
}

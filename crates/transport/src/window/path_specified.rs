//! The window of PTP's MPCCP (PTP §5 D): slow start, congestion avoidance and fast recovery, with their transitions.
//!
//! ```text
//!                    III: the window reaches the threshold
//!     ┌────────────┐ ────────────────────────────────────► ┌──────────────────────┐
//!     │ slow start │                                        │ congestion avoidance │ ◄──┐ II: a backup window
//!     └────────────┘ ◄──────── timeout, from anywhere       └──────────────────────┘    │ without loss
//!           │  IV: loss            ┌───────────────┐                  │ I: loss         │
//!           └────────────────────► │ fast recovery │ ◄────────────────┘                 │
//!                                  └───────────────┘ ───────────────────────────────────┘
//! ```
//! Loss in fast recovery restores the window that it had on entry (the backup window), or, once that many packets have
//! arrived, decreases it once more. Answers of caches do not speed up slow start, because they do not measure the rest
//! of the path.
use tributary_core::{Rate, Time};

use super::{Arrival, Controller, Growth, Loss, Spacing};
use crate::TransferConfig;

/// What a loss leaves of the window (paper: β, §6 A).
const DECREASE: f64 = 0.75;
/// Windows requested per round trip at most, in slow start and otherwise (RFC 9002 §7.7), at random intervals
/// ([`Spacing::ByChance`]). The paper requests whenever the window opens. Then the packet that a growing window adds
/// follows its neighbour immediately, on a full drop-tail queue it is the one dropped, each time, and the flow that
/// grows fastest loses most often (Floyd and Jacobson, "On traffic phase effects in packet-switched gateways", 1992). A
/// fetch over one path against one over two paths, which each grow half as fast, got 0.458 of the link (OLIA: 0.448),
/// and 0.503 (OLIA: 0.512) with this. Even intervals do not suffice: 0.473 (OLIA: 0.462).
const PACE: [f64; 2] = [2.0, 1.25];
/// The smallest window and threshold, in packets.
const WINDOW_MIN: f64 = 2.0;

tributary_core::declared! {
    /// MPCCP's window, in packets.
    #[derive(Clone, Debug)]
    pub struct PathSpecified {
        window: f64 = f64::from(config.window_initial_packets).min(window_max),
        threshold: f64 = f64::INFINITY,
        window_max: f64 = window_max,
        packet_bytes: u64 = packet_bytes,
        growth: Growth = Growth::ALONE,
        state: State = State::SlowStart,
        /// Window, threshold and state before the last silence.
        before_silence: (f64, f64, State) = (WINDOW_MIN, f64::INFINITY, State::SlowStart),
        /// Smoothed round-trip time in seconds, for the pace.
        round_trip: Option<f64> = None,
    }
    /// Starts in slow start with the configured initial window.
    pub fn new(config: &TransferConfig, packet_bytes: u64) {
        let window_max = (config.window_bytes_max / packet_bytes).max(2) as f64;
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    SlowStart,
    Avoidance,
    Recovery {
        /// The window on entry (paper: cwnd_bk).
        backup: f64,
        /// Packets that have arrived since then.
        arrived: f64,
        /// Packets that have arrived since the last loss.
        in_a_row: f64,
        /// When it was entered: losses of packets requested before belong to the decrease already made.
        since: Time,
    },
}

impl PathSpecified {
    fn grow(&mut self, arrival: &Arrival, is_cached: bool) {
        let packets = arrival.bytes as f64 / self.packet_bytes as f64;
        // A window that is not used does not grow (RFC 7661 in spirit).
        if !arrival.starved {
            let doubles = self.state == State::SlowStart && !is_cached;
            self.window += packets * if doubles { self.growth.slow_start } else { self.growth.avoidance / self.window };
            self.window = self.window.clamp(WINDOW_MIN, self.window_max);
        }
        match &mut self.state {
            State::SlowStart if self.window >= self.threshold => self.state = State::Avoidance,
            State::Recovery { backup, arrived, in_a_row, .. } => {
                *arrived += packets;
                *in_a_row += packets;
                if *in_a_row >= *backup {
                    self.state = State::Avoidance;
                }
            }
            State::SlowStart | State::Avoidance => {}
        }
    }
    fn decrease(&mut self, now: Time) {
        self.window = (self.window * (1.0 - (1.0 - DECREASE) * self.growth.decrease)).max(WINDOW_MIN);
        self.threshold = self.window;
        self.state = State::Recovery { backup: self.window, arrived: 0.0, in_a_row: 0.0, since: now };
    }
}

impl Controller for PathSpecified {
    fn on_data(&mut self, _: Time, arrival: &Arrival) {
        if let Some(sample) = arrival.rtt.map(|rtt| rtt.as_secs_f64()) {
            let smoothed = self.round_trip.get_or_insert(sample);
            *smoothed += (sample - *smoothed) / 8.0;
        }
        self.grow(arrival, false);
    }
    fn on_cached_data(&mut self, _: Time, arrival: &Arrival) {
        self.grow(arrival, true);
    }
    fn on_loss(&mut self, now: Time, loss: &Loss) {
        match &mut self.state {
            State::SlowStart | State::Avoidance => self.decrease(now),
            State::Recovery { since, .. } if loss.requested_at < *since => {}
            State::Recovery { backup, arrived, .. } if *arrived >= *backup => self.decrease(now),
            State::Recovery { backup, in_a_row, .. } => {
                self.window = *backup;
                *in_a_row = 0.0;
            }
        }
    }
    fn on_silence(&mut self, _: Time) {
        self.before_silence = (self.window, self.threshold, self.state);
        // Before the first loss there is no threshold to halve.
        let threshold = if self.threshold.is_finite() { self.threshold } else { self.window };
        self.threshold = (threshold / 2.0).max(WINDOW_MIN);
        self.window = WINDOW_MIN;
        self.state = State::SlowStart;
    }
    fn on_spurious_silence(&mut self) {
        let (window, threshold, state) = self.before_silence;
        (self.window, self.threshold, self.state) = (self.window.max(window), threshold, state);
    }
    fn set_growth(&mut self, growth: Growth) {
        self.growth = growth;
    }
    fn window(&self) -> u64 {
        (self.window * self.packet_bytes as f64) as u64
    }
    fn pacing_rate(&self) -> Option<Rate> {
        let [slow_start, otherwise] = PACE;
        let times = if self.state == State::SlowStart { slow_start } else { otherwise };
        let bytes = self.window * self.packet_bytes as f64;
        self.round_trip.filter(|rtt| *rtt > 0.0).map(|rtt| Rate::from_bytes_per_second((times * bytes / rtt) as u64))
    }
    fn spacing(&self) -> Spacing {
        Spacing::ByChance
    }
    fn phase(&self) -> &'static str {
        match self.state {
            State::SlowStart => "slow start",
            State::Avoidance => "congestion avoidance",
            State::Recovery { .. } => "fast recovery",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_core::Duration;

    const PACKET: u64 = 1000;

    fn controller() -> PathSpecified {
        PathSpecified::new(&TransferConfig { window_initial_packets: 16, ..TransferConfig::default() }, PACKET)
    }
    fn arrival() -> Arrival {
        Arrival {
            bytes: PACKET,
            in_flight: 0,
            rtt: None,
            rate: None,
            delivered_at_request: 0,
            delivered: 0,
            starved: false,
            requested_at: Time::ZERO,
            is_beside: false,
        }
    }
    fn arrive(controller: &mut PathSpecified, packets: u32) {
        (0..packets).for_each(|_| controller.on_data(Time::ZERO, &arrival()));
    }
    fn lose(controller: &mut PathSpecified, at: u64) {
        let at = Time::from_millis(at);
        controller.on_loss(at, &Loss { bytes: PACKET, in_flight: 0, requested_at: at });
    }
    fn state(controller: &PathSpecified) -> (&'static str, u64) {
        (controller.phase(), controller.window() / PACKET)
    }

    #[test]
    fn it_asks_for_two_windows_in_a_round_trip_in_slow_start_and_for_a_window_and_a_quarter_afterwards() {
        let mut window = controller();
        arrive(&mut window, 1);
        assert_eq!(window.pacing_rate(), None, "nothing is known of the round trip");
        window.on_data(Time::ZERO, &Arrival { rtt: Some(Duration::from_millis(100)), ..arrival() });
        // 18 packets of 1,000 bytes in a tenth of a second.
        assert_eq!(window.pacing_rate(), Some(Rate::from_bytes_per_second(2 * 180_000)));
        lose(&mut window, 100);
        assert_eq!(window.pacing_rate(), Some(Rate::from_bytes_per_second(13_500 * 10 * 5 / 4)));
    }

    #[test]
    fn loss_leads_from_slow_start_to_recovery_and_a_window_without_loss_to_avoidance() {
        let mut window = controller();
        arrive(&mut window, 16);
        assert_eq!(state(&window), ("slow start", 32));
        lose(&mut window, 100); // IV
        assert_eq!(state(&window), ("fast recovery", 24));
        arrive(&mut window, 23);
        assert_eq!(state(&window), ("fast recovery", 24));
        arrive(&mut window, 1); // II
        assert_eq!(window.phase(), "congestion avoidance");
        lose(&mut window, 200); // I
        assert_eq!(window.phase(), "fast recovery");
    }

    #[test]
    fn loss_in_recovery_restores_the_backup_window_and_decreases_it_once_that_many_have_arrived() {
        let mut window = controller();
        arrive(&mut window, 16);
        lose(&mut window, 100);
        arrive(&mut window, 20);
        lose(&mut window, 110);
        assert_eq!(state(&window), ("fast recovery", 24), "put back, not decreased");
        arrive(&mut window, 20);
        assert_eq!(window.phase(), "fast recovery", "twenty in a row are not twenty-four");
        lose(&mut window, 120);
        assert_eq!(state(&window).1, 18, "forty have arrived since it was entered: decreased again");
        window.on_loss(
            Time::from_millis(130),
            &Loss { bytes: PACKET, in_flight: 0, requested_at: Time::from_millis(119) },
        );
        assert_eq!(state(&window).1, 18, "asked for before the decrease");
    }

    #[test]
    fn a_timeout_halves_the_threshold_and_starts_anew_from_anywhere() {
        let mut window = controller();
        arrive(&mut window, 16);
        lose(&mut window, 100);
        window.on_silence(Time::from_millis(500));
        assert_eq!(state(&window), ("slow start", 2));
        arrive(&mut window, 9);
        assert_eq!(state(&window), ("slow start", 11));
        arrive(&mut window, 1); // III: 24 / 2
        assert_eq!(state(&window), ("congestion avoidance", 12));
        // The threshold is halved, for any window.
        for threshold in [6, 3] {
            window.on_silence(Time::from_millis(900));
            arrive(&mut window, threshold - 3);
            assert_eq!(window.phase(), "slow start");
            arrive(&mut window, 1);
            assert_eq!(state(&window), ("congestion avoidance", u64::from(threshold)));
        }
        let mut window = controller();
        window.on_silence(Time::from_millis(500));
        arrive(&mut window, 6); // Half of the first window.
        assert_eq!(state(&window), ("congestion avoidance", 8));
    }

    #[test]
    fn what_caches_answer_adds_to_the_window_and_does_not_double_it() {
        let mut window = controller();
        (0..17).for_each(|_| window.on_cached_data(Time::ZERO, &arrival()));
        assert_eq!(state(&window), ("slow start", 17));
    }
}

//! Windows that marks decrease: CHoPCoP's, a reconstruction, and PCON's. reference/baselines.
use tributary_core::{Random, Time};

use super::{Answer, Window};

/// Additive increase, multiplicative decrease.
#[derive(Clone, Debug)]
pub(super) struct Aimd {
    /// Added per Data in slow start.
    slow_start: f64,
    /// Added per window of Data after it.
    increase: f64,
    /// What a decrease leaves.
    keep: f64,
    /// Data between two decreases, in windows.
    pause: f64,
    window: f64,
    threshold: f64,
    data_since_decrease: f64,
    decreased_at: Time,
}

impl Aimd {
    pub(super) fn chopcop() -> Self {
        Aimd { slow_start: 0.5, increase: 2.0, keep: 0.875, pause: 2.0, ..Aimd::pcon() }
    }
    pub(super) fn pcon() -> Self {
        Aimd {
            slow_start: 1.0,
            increase: 1.0,
            keep: 0.5,
            pause: 1.0,
            window: 1.0,
            threshold: f64::INFINITY,
            data_since_decrease: f64::INFINITY,
            decreased_at: Time::ZERO,
        }
    }
    fn decrease(&mut self, now: Time) {
        self.window = (self.window * self.keep).max(1.0);
        self.threshold = self.window;
        self.data_since_decrease = 0.0;
        self.decreased_at = now;
    }
}

impl Window for Aimd {
    fn on_data(&mut self, now: Time, answer: &Answer<'_>, _: &mut Random) {
        self.data_since_decrease += 1.0;
        self.window += if self.window < self.threshold { self.slow_start } else { self.increase / self.window };
        if answer.marked && answer.sent_at >= self.decreased_at && self.data_since_decrease >= self.pause * self.window
        {
            self.decrease(now);
        }
    }
    fn on_timeout(&mut self, now: Time, sent_at: Time) {
        if sent_at >= self.decreased_at {
            self.decrease(now);
        }
    }
    fn interests(&self) -> f64 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_one_window_decrease_once() {
        let mut random = Random::new(1, 1);
        let mut pcon = Aimd::pcon();
        let answer = Answer::at;
        (0..31).for_each(|_| pcon.on_data(Time::ZERO, &answer(0, false), &mut random));
        pcon.on_data(Time::from_millis(10), &answer(5, true), &mut random);
        assert!((pcon.interests() - 16.5).abs() < 1e-9, "{}", pcon.interests());
        (0..10).for_each(|_| pcon.on_data(Time::from_millis(12), &answer(6, true), &mut random));
        assert!((17.0..17.2).contains(&pcon.interests()), "asked for before the decrease: {}", pcon.interests());
        (0..10).for_each(|_| pcon.on_data(Time::from_millis(22), &answer(12, true), &mut random));
        assert!((8.5..9.5).contains(&pcon.interests()), "{}", pcon.interests());
    }
}

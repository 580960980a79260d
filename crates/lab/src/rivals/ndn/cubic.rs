//! CUBIC (RFC 9438) on marks, as PCON's consumer has it: a decrease to four fifths, once per round trip.
use tributary_core::{Random, Time};

use super::{Answer, Window};

const KEEP: f64 = 0.8;
const SCALE: f64 = 0.4;

#[derive(Clone, Debug)]
pub(super) struct Cubic {
    window: f64,
    threshold: f64,
    window_before: f64,
    /// What additive increase would have by now (RFC 9438 §4.3).
    friendly: f64,
    decreased_at: Time,
}

impl Default for Cubic {
    fn default() -> Self {
        Cubic { window: 1.0, threshold: f64::INFINITY, window_before: 0.0, friendly: 0.0, decreased_at: Time::ZERO }
    }
}

impl Cubic {
    fn decrease(&mut self, now: Time) {
        // Fast convergence: a window that did not reach the last one leaves room to others (§4.7).
        self.window_before =
            if self.window < self.window_before { self.window * (1.0 + KEEP) / 2.0 } else { self.window };
        self.window = (self.window * KEEP).max(1.0);
        self.threshold = self.window;
        self.friendly = self.window;
        self.decreased_at = now;
    }
}

impl Window for Cubic {
    fn on_data(&mut self, now: Time, answer: &Answer<'_>, _: &mut Random) {
        if self.window < self.threshold {
            self.window += 1.0;
        } else {
            let seconds = now.since(self.decreased_at).as_secs_f64();
            let turn = (self.window_before * (1.0 - KEEP) / SCALE).cbrt();
            let target = (SCALE * (seconds - turn).powi(3) + self.window_before).clamp(self.window, 1.5 * self.window);
            self.friendly += 3.0 * (1.0 - KEEP) / (1.0 + KEEP) / self.window;
            let grown = self.window + (target - self.window) / self.window;
            self.window = grown.max(self.friendly);
        }
        if answer.marked && answer.sent_at >= self.decreased_at {
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
    fn it_comes_back_to_the_window_before_the_decrease_in_the_time_of_its_equation() {
        let mut random = Random::new(1, 1);
        let mut cubic = Cubic::default();
        let answer = Answer::at;
        (0..99).for_each(|_| cubic.on_data(Time::ZERO, &answer(0, false), &mut random));
        cubic.on_data(Time::from_millis(1), &answer(1, true), &mut random);
        let before = cubic.window_before;
        // K = ∛(101 · 0.2 / 0.4) = 3.7 s; with round trips of 1 s, so that additive increase does not overtake it.
        let mut back = None;
        for second in 1..20u64 {
            for _ in 0..100 {
                cubic.on_data(Time::from_millis(second * 1000), &answer(second * 1000 - 500, false), &mut random);
            }
            if cubic.interests() >= before - 0.5 && back.is_none() {
                back = Some(second);
            }
        }
        assert!(back.is_some_and(|second| (3..=6).contains(&second)), "{back:?}");
    }
}

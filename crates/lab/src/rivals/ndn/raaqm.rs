//! RAAQM, the receiver of OMCC-RF: the longer the round trip of a path within its recent range, the likelier its Data
//! decreases the window of all paths. reference/baselines.
use std::collections::{BTreeMap, VecDeque};
use tributary_core::{Random, Time};

use super::{Answer, Window};

/// Whose parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RaaqmForm {
    /// Parameters of PTP's author (2020).
    Author,
    /// Parameters of the hICN library.
    Hicn,
    /// Parameters of the Bell Labs consumer.
    BellLabs,
}

/// Parameters.
#[derive(Clone, Copy, Debug)]
struct Parameters {
    /// Probability of a decrease beyond the least one, at the longest round trip.
    span: f64,
    /// Seconds above the shortest round trip below which only the least probability counts.
    dead_zone: f64,
    /// What a decrease leaves.
    keep: f64,
    /// Whether the window doubles until the first decrease.
    slow_start: bool,
    /// What a timeout leaves; `None` for one Interest.
    keep_on_timeout: Option<f64>,
    window_max: f64,
}

/// Round trips of a path that are compared.
const SAMPLES: usize = 30;
/// Least probability of a decrease.
const LEAST: f64 = 1e-5;
/// The maximum number of remembered paths; further ones start without history.
const PATHS_MAX: usize = 1024;

impl RaaqmForm {
    fn parameters(self) -> Parameters {
        let plain = Parameters {
            span: 0.02,
            dead_zone: 0.0,
            keep: 0.5,
            slow_start: false,
            keep_on_timeout: Some(0.5),
            window_max: f64::INFINITY,
        };
        match self {
            RaaqmForm::Author => Parameters {
                span: 0.5,
                dead_zone: 0.005,
                keep: 0.875,
                slow_start: true,
                keep_on_timeout: None,
                ..plain
            },
            RaaqmForm::Hicn => {
                Parameters { span: 0.2, keep: 0.8, keep_on_timeout: Some(0.8), window_max: 512.0, ..plain }
            }
            RaaqmForm::BellLabs => plain,
        }
    }
}

#[derive(Debug)]
pub(super) struct Raaqm {
    parameters: Parameters,
    window: f64,
    threshold: f64,
    paths: BTreeMap<Vec<u8>, Path>,
    /// Timeouts of Interests sent before belong to the decrease already made.
    decreased_at: Time,
}

#[derive(Default, Debug)]
struct Path {
    /// Seconds.
    samples: VecDeque<f64>,
    data_since_decrease: f64,
}

impl Raaqm {
    pub(super) fn new(form: RaaqmForm) -> Self {
        let parameters = form.parameters();
        let threshold = if parameters.slow_start { f64::INFINITY } else { 0.0 };
        Raaqm { parameters, window: 1.0, threshold, paths: BTreeMap::new(), decreased_at: Time::ZERO }
    }
    fn decrease(&mut self, now: Time, keep: f64) {
        self.window = (self.window * keep).max(1.0);
        self.threshold = self.window.min(self.threshold);
        self.decreased_at = now;
    }
}

impl Path {
    /// The probability of a decrease after a round trip of `sample` seconds.
    fn probability(&mut self, sample: f64, parameters: &Parameters) -> f64 {
        self.samples.push_back(sample);
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
        if self.samples.len() < SAMPLES {
            return 0.0;
        }
        let shortest = self.samples.iter().copied().fold(f64::INFINITY, f64::min);
        let longest = self.samples.iter().copied().fold(0.0, f64::max);
        if longest <= shortest || sample <= shortest + parameters.dead_zone {
            return LEAST;
        }
        LEAST + parameters.span * (sample - shortest) / (longest - shortest)
    }
}

impl Window for Raaqm {
    fn on_data(&mut self, now: Time, answer: &Answer<'_>, random: &mut Random) {
        self.window += if self.window < self.threshold { 1.0 } else { 1.0 / self.window };
        self.window = self.window.min(self.parameters.window_max);
        let Some(rtt) = answer.rtt else { return };
        if self.paths.len() >= PATHS_MAX && !self.paths.contains_key(answer.path) {
            self.paths.clear();
        }
        let window = self.window;
        let path = self.paths.entry(answer.path.to_vec()).or_default();
        path.data_since_decrease += 1.0;
        let probability = path.probability(rtt.as_secs_f64(), &self.parameters);
        if path.data_since_decrease >= window && random.chance(probability) {
            path.data_since_decrease = 0.0;
            self.decrease(now, self.parameters.keep);
        }
    }
    fn on_timeout(&mut self, now: Time, sent_at: Time) {
        if sent_at < self.decreased_at {
            return;
        }
        match self.parameters.keep_on_timeout {
            Some(keep) => self.decrease(now, keep),
            None => {
                self.threshold = (self.window / 2.0).max(2.0);
                self.window = 1.0;
                self.decreased_at = now;
            }
        }
    }
    fn interests(&self) -> f64 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_core::Duration;

    fn answer(millis: u64, path: &[u8]) -> Answer<'_> {
        Answer { rtt: Some(Duration::from_millis(millis)), sent_at: Time::ZERO, path, marked: false }
    }

    #[test]
    fn a_round_trip_longer_than_others_of_its_path_decreases_the_window_and_one_of_a_long_path_does_not() {
        let mut random = Random::new(1, 1);
        let mut window = Raaqm::new(RaaqmForm::BellLabs);
        (0..2000).for_each(|at| {
            window.on_data(Time::ZERO, &answer(if at % 2 == 0 { 20 } else { 200 }, &[at as u8 % 2]), &mut random)
        });
        let grown = window.interests();
        assert!((62.0..64.0).contains(&grown), "√4000: {grown}");
        // The same round trips on one path.
        let mut one = Raaqm::new(RaaqmForm::BellLabs);
        (0..2000)
            .for_each(|at| one.on_data(Time::ZERO, &answer(if at % 2 == 0 { 20 } else { 200 }, &[0]), &mut random));
        assert!(one.interests() < grown * 0.7, "{}", one.interests());
    }

    #[test]
    fn the_authors_form_doubles_until_its_first_decrease_and_begins_anew_after_a_timeout() {
        let mut random = Random::new(1, 1);
        let mut window = Raaqm::new(RaaqmForm::Author);
        (0..31).for_each(|_| window.on_data(Time::ZERO, &answer(20, &[]), &mut random));
        assert!((window.interests() - 32.0).abs() < 1e-9);
        window.on_timeout(Time::from_millis(50), Time::from_millis(1));
        window.on_timeout(Time::from_millis(51), Time::from_millis(2));
        assert!((window.interests() - 1.0).abs() < 1e-9 && (window.threshold - 16.0).abs() < 1e-9);
    }
}

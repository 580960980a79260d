//! Paired rounds: A B C, A B C, so that disturbances of the machine affect all equally.
use super::interrupt;
use crate::{Outcome, note};

/// What one transfer cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// Bytes transferred.
    pub(crate) bytes: u64,
    /// Time that it took by its own account.
    pub(crate) seconds: f64,
    /// CPU time of the sending side, forwarders excluded.
    pub(crate) server_cpu_seconds: f64,
    /// CPU time of the receiving side.
    pub(crate) client_cpu_seconds: f64,
    /// CPU time of the forwarders.
    pub(crate) hop_cpu_seconds: f64,
    /// Peak memory of the sending side.
    pub(crate) server_peak_bytes: u64,
    /// Peak memory of the receiving side.
    pub(crate) client_peak_bytes: u64,
    /// Peak memory of the forwarders.
    pub(crate) hop_peak_bytes: u64,
    /// Bytes delivered by caches on the path.
    pub(crate) cached_bytes: u64,
}

impl Sample {
    /// Million bytes per second.
    pub(crate) fn rate(&self) -> f64 {
        self.bytes as f64 / self.seconds / 1e6
    }
    /// Million bytes per second if the busier end only computed, on a separate core.
    pub(crate) fn rate_alone(&self) -> f64 {
        self.bytes as f64 / self.server_cpu_seconds.max(self.client_cpu_seconds) / 1e6
    }
    /// CPU seconds per GiB of both ends.
    pub(crate) fn cpu_per_gib(&self) -> f64 {
        self.per_gib(self.server_cpu_seconds + self.client_cpu_seconds)
    }
    /// `seconds` for each GiB transferred.
    pub(crate) fn per_gib(&self, seconds: f64) -> f64 {
        seconds * (1_u64 << 30) as f64 / self.bytes as f64
    }
}

/// One of those that take turns.
pub(crate) struct Contender<'a> {
    name: String,
    run: Box<dyn FnMut() -> Outcome<Sample> + 'a>,
    samples: Vec<Sample>,
    failure: Option<String>,
}

impl<'a> Contender<'a> {
    /// A contender executed by `run`.
    pub(crate) fn new(name: impl Into<String>, run: impl FnMut() -> Outcome<Sample> + 'a) -> Self {
        Contender { name: name.into(), run: Box::new(run), samples: Vec::new(), failure: None }
    }
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
    /// `question` of each sample; empty after a failure.
    pub(crate) fn values(&self, question: impl Fn(&Sample) -> f64) -> Vec<f64> {
        if self.failure.is_some() { Vec::new() } else { self.samples.iter().map(question).collect() }
    }
    /// Why it has no samples.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.as_ref().map(|failure| format!("{} failed and has no figure: {failure}", self.name))
    }
    /// Whether it ran in all rounds.
    pub(crate) fn is_complete(&self) -> bool {
        self.failure.is_none() && !self.samples.is_empty()
    }
}

/// Lets all contenders run `rounds` times, taking turns, `before` before each. One that fails twice in a round is left
/// out from then on. After an interrupt, the rounds that all have finished count.
pub(crate) fn take_turns(rounds: usize, contenders: &mut [Contender<'_>], before: impl Fn() -> Outcome) {
    for round in 1..=rounds {
        for contender in contenders.iter_mut().filter(|contender| contender.failure.is_none()) {
            let mut run = || before().and_then(|()| (contender.run)());
            let outcome = run();
            if interrupt::check().is_err() {
                note(&format!("  interrupted: of {rounds} rounds {} count", round - 1));
                contenders.iter_mut().for_each(|contender| contender.samples.truncate(round - 1));
                return;
            }
            let outcome = outcome.or_else(|error| {
                note(&format!("  round {round}/{rounds} {}: {error}; again", contender.name));
                run()
            });
            match outcome {
                Ok(sample) => {
                    note(&format!(
                        "  round {round}/{rounds} {}: {:.3} s, {:.0} MB/s, {:.2} + {:.2} CPU s/GiB",
                        contender.name,
                        sample.seconds,
                        sample.rate(),
                        sample.per_gib(sample.server_cpu_seconds),
                        sample.per_gib(sample.client_cpu_seconds),
                    ));
                    contender.samples.push(sample);
                }
                Err(error) => {
                    note(&format!("  round {round}/{rounds} {}: {error}", contender.name));
                    contender.failure = Some(error.to_string());
                }
            }
        }
    }
}

/// The middle value, or the mean of the two in the middle; NaN of nothing.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[count / 2],
        count => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert!(median(&[]).is_nan());
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn contenders_alternate_and_one_that_keeps_failing_is_left_out() {
        let order = std::cell::RefCell::new(String::new());
        let mut tries = 0;
        let mut contenders = [
            Contender::new("a", || {
                order.borrow_mut().push('a');
                Ok(Sample::default())
            }),
            Contender::new("b", || {
                order.borrow_mut().push('b');
                tries += 1;
                if tries > 1 { Err("broken".into()) } else { Ok(Sample::default()) }
            }),
        ];
        take_turns(3, &mut contenders, || Ok(()));
        assert_eq!(contenders[0].values(|_| 1.0).len(), 3);
        assert!(contenders[1].values(|_| 1.0).is_empty());
        assert_eq!(contenders[1].failure().as_deref(), Some("b failed and has no figure: broken"));
        drop(contenders);
        assert_eq!(order.into_inner(), "ababba");
    }
}

//! Runs of one scenario with many seeds, and their statistics.

use crate::{
    Results,
    figures::{Bar, Series},
    simulation::{Outcome, Scenario, Simulation, parallel},
    stats::{confidence, mean, variance},
};

/// Runs a scenario that is right by construction.
///
/// # Panics
/// If a name in it means nothing.
pub fn run(scenario: &Scenario) -> Outcome {
    Simulation::run(scenario).unwrap_or_else(|error| panic!("scenario '{}': {error}", scenario.name))
}

/// What the runs of a variant gave, in the order of their seeds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Times {
    /// Seconds of each run that ended with every byte as it was published.
    pub seconds: Vec<f64>,
    /// Runs that did not.
    pub failed: u32,
}

impl Times {
    /// Adds one run.
    pub fn push(&mut self, seconds: Option<f64>) {
        match seconds {
            Some(seconds) => self.seconds.push(seconds),
            None => self.failed += 1,
        }
    }
    /// The first transfer of each outcome.
    pub fn of(outcomes: &[Outcome]) -> Self {
        let mut times = Times::default();
        for outcome in outcomes {
            let transfer = &outcome.transfers[0];
            times.push(transfer.seconds().filter(|_| transfer.is_complete()));
        }
        times
    }
    /// Their mean.
    pub fn mean(&self) -> f64 {
        mean(&self.seconds)
    }
    /// A bar with the 95 % confidence interval of the mean.
    pub fn bar(&self) -> Option<Bar> {
        Bar::with_spread(self.mean(), confidence(&self.seconds))
    }
    /// Reports mean and variance, with the paper's values where it states them, and failed runs if there were any.
    pub fn tell(&self, results: &mut Results, variant: &str, paper: PaperTimes) {
        let mut put = |quantity: &str, value: f64, unit: &str, paper: Option<f64>| match paper {
            Some(paper) => results.comparison(format!("{variant}.{quantity}"), value, unit, paper),
            None => results.metric(format!("{variant}.{quantity}"), value, unit),
        };
        put("seconds_mean", self.mean(), "seconds", paper.mean);
        put("seconds_variance", variance(&self.seconds), "seconds²", paper.variance);
        put("seconds_confidence", confidence(&self.seconds), "seconds", None);
        if self.failed > 0 {
            put("failed", f64::from(self.failed), "count", None);
        }
    }
    /// Its values by iteration, from 1 on.
    pub fn series(&self, label: &str) -> Series {
        Series::new(label, (1..).zip(&self.seconds).map(|(run, seconds)| (f64::from(run), *seconds)).collect())
    }
}

/// The paper's values of a variant.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PaperTimes {
    /// Mean in seconds.
    pub mean: Option<f64>,
    /// Variance in seconds².
    pub variance: Option<f64>,
}

/// Builds and runs one scenario per item on all cores; results in the order of the items.
pub fn each<I: Sync, O: Send>(
    items: &[I],
    build: impl Fn(&I) -> Scenario + Sync,
    read: impl Fn(&I, &Scenario, Outcome) -> O + Sync,
) -> Vec<O> {
    parallel::map(items, |item| {
        let scenario = build(item);
        let outcome = run(&scenario);
        read(item, &scenario, outcome)
    })
}

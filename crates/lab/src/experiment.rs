//! An experiment and its results.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::figures::Figure;

/// One experiment of the table in [`crate::experiments`], as `data/experiments.toml` describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: String,
    /// Its subject, in one line.
    pub title: String,
    /// The place in the paper that it reproduces or continues.
    pub paper: String,
    /// Default number of runs per variant: the paper's number where it states one.
    pub runs: u32,
    /// The parameters that are the same in every run.
    #[serde(default)]
    parameters: Vec<(String, String)>,
    /// Method, result, and differences from the paper with their reasons.
    #[serde(default)]
    notes: Vec<String>,
    /// Captions by figure.
    #[serde(default)]
    captions: BTreeMap<String, String>,
}

impl Experiment {
    /// Runs it.
    ///
    /// # Panics
    /// If no code has its name.
    pub fn run(&self, settings: &Settings) -> Results {
        let run = crate::experiments::run_of(&self.name).expect("each experiment of the data has its code");
        let mut results = Results::new(&self.name, settings);
        run(settings, &mut results);
        for figure in &mut results.figures {
            if let Some(caption) = self.captions.get(&figure.name) {
                figure.caption.clone_from(caption);
            }
        }
        results.parameters.extend_from_slice(&self.parameters);
        results.notes.extend_from_slice(&self.notes);
        results
    }
}

/// How to run an experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The seed of everything. Run number n of a variant has the seed of [`Settings::seed_of`].
    pub seed: u64,
    /// How often each variant runs.
    pub runs: u32,
    /// How large the objects are, how long it runs: full size, or small for tests.
    pub scale: Scale,
    /// The only one that runs of those that [`crate::experiments::schemes`] names; `None` for all.
    pub only: Option<&'static str>,
}

impl Default for Settings {
    /// One run of everything, at full size.
    fn default() -> Self {
        Settings { seed: 1, runs: 1, scale: Scale::Full, only: None }
    }
}

/// Full size or small.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scale {
    /// As in the paper.
    #[default]
    Full,
    /// Small enough for a test without optimisation.
    Small,
}

impl Settings {
    /// The seed of one run of one phase; phases keep the randomness of their variants apart.
    pub fn seed_of(&self, phase: u64, run: u32) -> u64 {
        self.seed.wrapping_mul(1_000_003).wrapping_add(phase * 100_003).wrapping_add(u64::from(run))
    }
    /// Whether the one of this name runs.
    pub fn takes(&self, name: &str) -> bool {
        self.only.is_none_or(|only| only == name)
    }
    /// `full` or `small`, by the scale.
    pub fn choose<T>(&self, full: T, small: T) -> T {
        match self.scale {
            Scale::Full => full,
            Scale::Small => small,
        }
    }
}

/// Results of an experiment: figures for machines, figures for people, and how they were obtained.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// Its name.
    pub experiment: String,
    /// The seed.
    pub seed: u64,
    /// How often each variant ran.
    pub runs: u32,
    /// The measurements, by `variant.quantity` or `variant.quantity@setting`.
    pub metrics: BTreeMap<String, Metric>,
    /// Rows for spreadsheets.
    pub tables: Vec<Table>,
    /// Drawings.
    pub figures: Vec<Figure>,
    /// The parameters, as rows of name and value.
    pub parameters: Vec<(String, String)>,
    /// Method, result, and differences from the paper with their reasons; one paragraph each.
    pub notes: Vec<String>,
}

/// One measured value, and the paper's.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Metric {
    /// Ours.
    pub value: f64,
    /// `seconds`, `mbps`, `share` (0 to 1), `relative` (a change as a part of the earlier value), `count`, `seconds²`,
    /// …
    pub unit: String,
    /// The paper's value; `None` if it states none.
    pub paper: Option<f64>,
}

/// Rows of values with a header.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Table {
    /// The file's name without `.csv`.
    pub name: String,
    /// The names of the columns, with units.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(name: &str, columns: &[&str]) -> Self {
        Table { name: name.into(), columns: columns.iter().map(|column| (*column).into()).collect(), rows: Vec::new() }
    }
    /// Adds a row.
    pub fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }
    /// The rows as CSV.
    pub fn csv(&self) -> String {
        let line = |cells: &[String]| {
            let quoted = cells.iter().map(|cell| {
                if cell.contains([',', '"', '\n']) {
                    format!("\"{}\"", cell.replace('"', "\"\""))
                } else {
                    cell.clone()
                }
            });
            quoted.collect::<Vec<_>>().join(",") + "\n"
        };
        self.rows.iter().fold(line(&self.columns), |text, row| text + &line(row))
    }
}

impl Results {
    /// Nothing yet.
    pub fn new(experiment: &str, settings: &Settings) -> Self {
        Results { experiment: experiment.into(), seed: settings.seed, runs: settings.runs, ..Results::default() }
    }
    /// Adds a value that the paper does not have; nothing if it is not finite.
    pub fn metric(&mut self, name: impl Into<String>, value: f64, unit: &str) {
        self.insert(name.into(), value, unit, None);
    }
    /// Adds a value with the paper's for comparison; nothing if it is not finite.
    pub fn comparison(&mut self, name: impl Into<String>, value: f64, unit: &str, paper: f64) {
        self.insert(name.into(), value, unit, Some(paper));
    }
    fn insert(&mut self, name: String, value: f64, unit: &str, paper: Option<f64>) {
        // JSON has only finite numbers, and a placeholder for a missing one would look like a measurement.
        if value.is_finite() {
            // Six digits are more than any of this means, and spare readers the noise of the last bits.
            let value = (value * 1e6).round() / 1e6;
            self.metrics.insert(name, Metric { value, unit: unit.into(), paper });
        }
    }
    /// A value by its name; not a number if it is missing.
    pub fn value(&self, name: &str) -> f64 {
        self.metrics.get(name).map_or(f64::NAN, |metric| metric.value)
    }
    /// Adds a drawing, with its caption in the data of the experiment.
    pub fn figure(&mut self, name: &str, svg: String) {
        self.captioned(name, "", svg);
    }
    /// Adds a drawing whose caption depends on the run.
    pub fn captioned(&mut self, name: impl Into<String>, caption: impl Into<String>, svg: String) {
        self.figures.push(Figure { name: name.into(), caption: caption.into(), svg });
    }
    /// Adds a parameter to the list of parameters.
    pub fn parameter(&mut self, name: &str, value: impl Into<String>) {
        self.parameters.push((name.into(), value.into()));
    }
    /// Adds a paragraph.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }
    /// The one object that `lab run --json` prints. Shares lie between 0 and 1 there: packets that waited when a count
    /// began come on top of the bytes that a link carries during it.
    pub fn to_line(&self) -> String {
        let mut metrics = self.metrics.clone();
        for metric in metrics.values_mut().filter(|metric| metric.unit == "share") {
            metric.value = metric.value.clamp(0.0, 1.0);
        }
        let value = serde_json::json!({
            "experiment": self.experiment,
            "seed": self.seed,
            "runs": self.runs,
            "metrics": metrics,
        });
        value.to_string()
    }
}

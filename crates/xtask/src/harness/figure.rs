//! Figures, and how they are shown to people and to machines.
use std::{fmt::Write as _, path::Path};

use serde::Serialize;

use super::{
    machine::Machine,
    rounds::median,
    targets::{Target, Verdict},
};
use crate::{Outcome, note, print_line};

/// Everything that one benchmark found out.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// The benchmark.
    pub(crate) bench: &'static str,
    /// A one-line description.
    pub(crate) about: String,
    /// The command that repeats it.
    pub(crate) command: String,
    /// Where it ran.
    pub(crate) machine: Machine,
    /// Its measurements.
    pub(crate) figures: Vec<Figure>,
    /// Notes for the reader: missing yardsticks, deviations.
    pub(crate) notes: Vec<String>,
}

/// One figure: ours in each round, and the yardstick's in the same rounds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    /// The measured quantity.
    pub(crate) what: String,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// Ours, one value a round.
    pub(crate) ours: Vec<f64>,
    /// Median of ours.
    pub(crate) ours_median: f64,
    /// The yardstick.
    pub(crate) yardstick: Option<Yardstick>,
    /// Median over the rounds of ours / yardstick's.
    pub(crate) ratio: Option<f64>,
    /// The target for the ratio, or for our median without a yardstick.
    pub(crate) target: Option<Target>,
    /// Its result against the target.
    pub(crate) verdict: Option<Verdict>,
}

/// What a figure is compared with.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Yardstick {
    /// Its name.
    pub(crate) name: String,
    /// Its values, one a round, or one for all.
    pub(crate) values: Vec<f64>,
    /// Their median.
    pub(crate) median: f64,
}

impl Figure {
    /// A figure of ours alone; values of rounds that failed are not in it.
    pub(crate) fn new(what: impl Into<String>, unit: &'static str, ours: Vec<f64>) -> Figure {
        let ours_median = median(&ours);
        Figure { what: what.into(), unit, ours, ours_median, yardstick: None, ratio: None, target: None, verdict: None }
    }
    /// Adds a yardstick measured in the same rounds; a single value counts for all rounds.
    pub(crate) fn rival(mut self, name: impl Into<String>, values: Vec<f64>) -> Figure {
        let of = |index: usize| values.get(index).or(values.first()).copied().unwrap_or(f64::NAN);
        let ratios: Vec<_> = self.ours.iter().enumerate().map(|(index, ours)| ours / of(index)).collect();
        self.ratio = Some(median(&ratios));
        self.yardstick = Some(Yardstick { name: name.into(), median: median(&values), values });
        self
    }
    /// Judges the ratio, or our median without a yardstick.
    pub(crate) fn judged(mut self, target: Target) -> Figure {
        self.target = Some(target);
        self.verdict = Some(target.verdict(self.ratio.unwrap_or(self.ours_median)));
        self
    }
}

impl Report {
    /// Prints a table for people.
    pub(crate) fn print(&self) {
        print_line(&format!("\n{}: {}", self.bench, self.about));
        let widths = [3, 44, 12, 30, 7, 7, 7, 7];
        let heads = ["#", "figure", "ours", "yardstick", "ratio", "must", "goal", "reached"];
        print_line(&row(&heads.map(String::from), &widths));
        for figure in &self.figures {
            let bound = |bound: fn(&Target) -> f64| {
                figure
                    .target
                    .as_ref()
                    .map_or(String::new(), |target| format!("{} {}", target.sense.sign(), bound(target)))
            };
            let cells = [
                figure
                    .target
                    .filter(|target| target.number > 0)
                    .map_or(String::new(), |target| target.number.to_string()),
                format!("{}, {}", figure.what, figure.unit),
                format!("{} ±{:.0}%", short(figure.ours_median), spread(&figure.ours) * 100.0),
                figure.yardstick.as_ref().map_or(String::new(), |of| format!("{} {}", of.name, short(of.median))),
                figure.ratio.map_or(String::new(), |ratio| format!("{ratio:.3}")),
                bound(|target| target.must),
                bound(|target| target.goal),
                figure.verdict.map_or(String::new(), |verdict| verdict.to_string()),
            ];
            print_line(&row(&cells, &widths));
        }
        for note in &self.notes {
            print_line(&format!("  note: {note}"));
        }
        print_line(&format!("  repeat: {}", self.command));
    }
    /// Writes the JSON to `folder` as `BENCH.json`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn write(&self, folder: &Path) -> Outcome {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(format!("{}.json", self.bench));
        std::fs::write(&path, serde_json::to_string_pretty(self)? + "\n")?;
        note(&format!("written to {}", path.display()));
        Ok(())
    }
}

/// A number with three digits that count.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// Half of the distance between the extremes, as a share of the median.
fn spread(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(f64::MIN, f64::max);
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    let middle = median(values);
    if values.len() < 2 || middle == 0.0 { 0.0 } else { (most - least) / 2.0 / middle }
}

fn row(cells: &[String; 8], widths: &[usize; 8]) -> String {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        // Writing to a String cannot fail.
        let _ = write!(line, "  {cell:<width$}");
    }
    line.trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::targets;

    #[test]
    fn the_ratio_is_the_median_of_the_rounds_ratios_not_the_ratio_of_medians() {
        let figure = Figure::new("rate", "MB/s", vec![100.0, 50.0, 90.0]).rival("pump", vec![200.0, 50.0, 100.0]);
        assert_eq!(figure.ratio, Some(0.9));
        assert_eq!(figure.judged(targets::BULK_PUMP).verdict, Some(Verdict::Goal));
    }

    #[test]
    fn one_yardstick_value_stands_for_all_rounds() {
        let figure = Figure::new("time", "s", vec![11.0, 12.0, 13.0]).rival("fluid bound", vec![10.0]);
        assert_eq!(figure.ratio, Some(1.2));
    }
}

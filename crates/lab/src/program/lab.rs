//! `trib lab`: the papers' experiments, with the papers' figures next to ours.
use std::path::Path;
use tributary::{ApiError, views::counted};
use tributary_lab::{Experiment, Metric, Results, Scale, Settings, experiments, report};
use tributary_terminal::out;

use super::args::Lab;

/// Carries out `lab list`, `lab run` and `lab report`.
pub(crate) fn run(lab: &Lab, json: bool) -> Result<(), ApiError> {
    match lab {
        Lab::List => {
            list(json);
            Ok(())
        }
        Lab::Run { experiment, only, seed, runs, out } => {
            let experiment = find(experiment)?;
            let only = only.as_deref().map(|only| find_scheme(experiment, only)).transpose()?;
            let results = carry_out(experiment, only, *seed, *runs);
            let files =
                report::write(&results, out).map_err(|error| ApiError::io("write to", out.display(), &error))?;
            if json {
                out::data(&results.to_line());
            } else {
                show(&results);
            }
            out::talk(&format!("wrote {} to '{}'", counted(files.len(), "file"), out.join(&experiment.name).display()));
            Ok(())
        }
        Lab::Report { out, seed, runs } => full_report(out, *seed, *runs, json),
    }
}

fn list(json: bool) {
    for experiment in experiments::ALL.iter() {
        let Experiment { name, title, paper, runs, .. } = experiment;
        if json {
            let line = serde_json::json!({"experiment": name, "title": title, "paper": paper, "runs": runs});
            out::data(&line.to_string());
        } else {
            out::data(&format!("{name:<20} {title} ({paper}; {})", counted(*runs, "run")));
        }
    }
}

fn find(name: &str) -> Result<&'static Experiment, ApiError> {
    experiments::find(name).ok_or_else(|| {
        ApiError::usage(format!("there is no experiment '{name}'")).with_hint("`trib lab list` names them")
    })
}

fn find_scheme(experiment: &Experiment, name: &str) -> Result<&'static str, ApiError> {
    let schemes = experiments::schemes(experiment);
    schemes.iter().find(|scheme| **scheme == name).copied().ok_or_else(|| {
        let hint = match schemes.is_empty() {
            true => "only those whose names begin with ptp- compare schemes".to_string(),
            false => format!("it compares {}", schemes.join(", ")),
        };
        ApiError::usage(format!("'{}' has no scheme '{name}'", experiment.name)).with_hint(&hint)
    })
}

fn carry_out(experiment: &Experiment, only: Option<&'static str>, seed: u64, runs: Option<u32>) -> Results {
    let runs = runs.unwrap_or(experiment.runs);
    out::talk(&format!("{}: {} of each variant, seed {seed}", experiment.name, counted(runs, "run")));
    experiment.run(&Settings { seed, runs, scale: Scale::Full, only })
}

/// One report of everything: results already in this folder are used, the others are run now.
fn full_report(folder: &Path, seed: u64, runs: Option<u32>, json: bool) -> Result<(), ApiError> {
    let failed = |error: std::io::Error| ApiError::io("write to", folder.display(), &error);
    let found = report::read(folder).map_err(|error| ApiError::io("read results in", folder.display(), &error))?;
    for experiment in experiments::ALL.iter() {
        if !found.iter().any(|results| results.experiment == experiment.name) {
            report::write(&carry_out(experiment, None, seed, runs), folder).map_err(failed)?;
        }
    }
    let all = report::read(folder).map_err(|error| ApiError::io("read results in", folder.display(), &error))?;
    let page = report::write_page(&all, folder).map_err(failed)?;
    if json {
        for results in &all {
            out::data(&results.to_line());
        }
        out::data(&serde_json::json!({"event": "report", "file": page.display().to_string()}).to_string());
    } else {
        out::data(&page.display().to_string());
    }
    Ok(())
}

/// A table for a terminal.
fn show(results: &Results) {
    let width = results.metrics.keys().map(String::len).max().unwrap_or(0);
    out::data(&format!("{:<width$}  {:>12}  {:>12}  unit", "metric", "here", "paper"));
    for (name, Metric { value, unit, paper }) in &results.metrics {
        let paper = paper.map(|paper| format!("{paper:.3}")).unwrap_or_default();
        out::data(&format!("{name:<width$}  {value:>12.3}  {paper:>12}  {unit}"));
    }
}

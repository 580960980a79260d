//! `trib sim`: a user's own scenario, run once or with many seeds.
use serde_json::{Value, json};
use std::{
    fs::File,
    io::{self, BufWriter},
    path::{Path, PathBuf},
};
use tributary::{ApiError, ErrorKind};
use tributary_lab::{
    figures::Figure,
    rivals::guest,
    run_report,
    simulation::{
        Outcome, Simulation,
        file::{FileError, ScenarioFile, Setting},
        output,
        packets::Packets,
        parallel,
    },
    sweep,
};
use tributary_terminal::{
    failure::mistakes,
    out,
    table::{row, table},
};

use super::args;

/// Runs a scenario with each value of its sweeps and each seed, prints the results, and writes files on request.
pub(crate) fn run(sim: &args::Sim, json: bool) -> Result<(), ApiError> {
    let points = points(sim)?;
    let (mut first, mut starts) = (None, Vec::new());
    for point in &points {
        let file = load(&sim.scenario, sim.seed, point)?;
        check_captures(sim, &file)?;
        starts.push(file.scenario.seed);
        first.get_or_insert(file);
    }
    let first = first.expect("a sweep has one value at least");
    first.notes.iter().for_each(|note| out::talk(&format!("note: {note}")));
    let seeds = |start: u64| (0..u64::from(sim.runs)).map(move |run| start.wrapping_add(run));
    let jobs: Vec<(usize, u64)> =
        starts.iter().enumerate().flat_map(|(point, start)| seeds(*start).map(move |seed| (point, seed))).collect();
    let threads = sim.threads.map_or_else(cores, |threads| threads as usize);
    // Loading again with each seed: generators and random workloads follow it.
    let results = parallel::map_on(threads, &jobs, |(point, seed)| one(sim, &points[*point], *seed));
    let mut runs: Vec<Vec<Value>> = vec![Vec::new(); points.len()];
    for ((point, _), result) in jobs.iter().zip(results) {
        let done = result?;
        if json {
            out::data(&done.summary.to_string());
        } else {
            print_outcome(&done);
        }
        runs[*point].push(done.summary);
    }
    let totals: Vec<Value> =
        runs.iter().zip(&points).map(|(runs, point)| total(&first.scenario.name, runs, point)).collect();
    if let Some(folder) = &sim.out {
        let all: Vec<Value> = runs.iter().flatten().cloned().collect();
        write(&folder.join("runs.csv"), per_run(&all).as_bytes())?;
        let lines: String = totals.iter().map(|total| format!("{total}\n")).collect();
        write(&folder.join("summary.json"), lines.as_bytes())?;
        if !sim.sweep.is_empty() {
            write_figure(folder, &sweep::figure(&totals))?;
        }
        out::talk(&format!("files are in '{}'", folder.display()));
    }
    for total in &totals {
        if json {
            out::data(&total.to_string());
        } else if sim.runs > 1 || totals.len() > 1 {
            print_total(total);
        }
    }
    if totals.iter().all(|total| total["complete"] == true) {
        return Ok(());
    }
    Err(ApiError::new(ErrorKind::Incomplete, "not every transfer of the scenario is complete")
        .with_hint("look at the reasons above, or at events.jsonl after --out DIR; a longer 'duration' may be enough"))
}

/// Every combination of swept values, each behind the values that are the same in all.
fn points(sim: &args::Sim) -> Result<Vec<Vec<Setting>>, ApiError> {
    let count = sim.sweep.iter().try_fold(1usize, |count, sweep| count.checked_mul(sweep.0.len()));
    if count.is_none_or(|count| count > POINTS_MAX) {
        return Err(ApiError::usage(format!("the sweeps have more than {POINTS_MAX} combinations")));
    }
    let mut points = vec![sim.set.clone()];
    for sweep in &sim.sweep {
        let with = |point: &Vec<Setting>, value: &Setting| point.iter().chain([value]).cloned().collect();
        points = points.iter().flat_map(|point| sweep.0.iter().map(move |value| with(point, value))).collect();
    }
    Ok(points)
}
/// The maximum number of combinations of swept values.
const POINTS_MAX: usize = 10_000;

/// Where the files of one run belong: by its swept values, then by its seed.
fn folder_of(out: &Path, sim: &args::Sim, point: &[Setting], seed: u64) -> PathBuf {
    let swept = &point[sim.set.len()..];
    let words: Vec<String> = swept.iter().map(|setting| setting.to_string().replace(['/', '\\', '\0'], "_")).collect();
    let folder = if words.is_empty() { out.to_path_buf() } else { out.join(words.join(" ")) };
    folder.join(format!("seed-{seed}"))
}

/// The results of one run.
struct Done {
    summary: Value,
    lines: Vec<String>,
}

/// One run, with its files.
fn one(sim: &args::Sim, point: &[Setting], seed: u64) -> Result<Done, ApiError> {
    let mut scenario = load(&sim.scenario, Some(seed), point)?.scenario;
    if sim.out.is_none() {
        scenario.sampling = None;
    }
    let folder = sim.out.as_ref().map(|out| folder_of(out, sim, point, seed));
    if let Some(folder) = &folder {
        std::fs::create_dir_all(folder).map_err(|error| ApiError::io("make folder", folder.display(), &error))?;
    }
    let mut simulation = Simulation::new(&scenario)
        .map_err(|error| ApiError::usage(format!("'{}': {error}", sim.scenario.display())))?;
    // As they happen, not in the end: the memory of a run must not grow with its virtual time.
    let events_path = folder.as_ref().map(|folder| folder.join(output::EVENTS));
    if let Some(path) = &events_path {
        let file = File::create(path).map_err(|error| ApiError::io("write", path.display(), &error))?;
        simulation.write_events(Box::new(BufWriter::new(file)));
    }
    let mut packets = None;
    if let Some(folder) = folder.as_ref().filter(|_| !sim.pcap.is_empty()) {
        let path = folder.join("packets.pcapng");
        let cannot = |error: io::Error| ApiError::io("write", path.display(), &error);
        let file = BufWriter::new(File::create(&path).map_err(cannot)?);
        let started = Packets::start(&mut simulation, &scenario, &sim.pcap, Box::new(file)).map_err(cannot)?;
        packets = Some((started, path));
    }
    while !simulation.advance(scenario.limit) {}
    if let Some((path, error)) = events_path.zip(simulation.events_error()) {
        return Err(ApiError::io("write", path.display(), &error));
    }
    let outcome = simulation.outcome();
    if let Some((packets, path)) = packets {
        packets.finish().map_err(|error| ApiError::io("write", path.display(), &error))?;
    }
    if let Some(folder) = &folder {
        write_files(folder, &outcome, sim, point)?;
    }
    let (mut summary, mut lines) = (output::summary(&outcome), lines(&outcome));
    if !point.is_empty() {
        summary["set"] = set(point);
        lines[0] += &format!(" with {}", words(point));
    }
    Ok(Done { summary, lines })
}

/// Values that take the place of the file's, by their keys.
fn set(point: &[Setting]) -> Value {
    point.iter().map(|setting| (setting.key(), Value::from(setting.value()))).collect::<serde_json::Map<_, _>>().into()
}
fn words(point: &[Setting]) -> String {
    point.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn write_files(folder: &Path, outcome: &Outcome, sim: &args::Sim, point: &[Setting]) -> Result<(), ApiError> {
    for file in output::files(outcome).into_iter().filter(|file| file.name != output::EVENTS) {
        write(&folder.join(file.name), file.text.as_bytes())?;
    }
    for figure in run_report::figures(outcome) {
        write_figure(folder, &figure)?;
    }
    // The file's name only: a report must not depend on the scenario's folder.
    let name = sim.scenario.file_name().unwrap_or_default().to_string_lossy();
    let settings: String = point.iter().map(|setting| format!(" --set '{setting}'")).collect();
    let command = format!("trib sim {name} --seed {}{settings} --out DIR", outcome.seed);
    write(&folder.join("report.html"), run_report::report(outcome, &command).as_bytes())
}
/// Writes a figure in each format.
fn write_figure(folder: &Path, figure: &Figure) -> Result<(), ApiError> {
    for (name, bytes) in figure.files().map_err(|error| ApiError::new(ErrorKind::Io, error))? {
        write(&folder.join(name), &bytes)?;
    }
    Ok(())
}
fn write(path: &Path, bytes: &[u8]) -> Result<(), ApiError> {
    std::fs::write(path, bytes).map_err(|error| ApiError::io("write", path.display(), &error))
}
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Reads the scenario.
fn load(path: &Path, seed: Option<u64>, settings: &[Setting]) -> Result<ScenarioFile, ApiError> {
    let mut file = ScenarioFile::load_with(path, seed, settings).map_err(|error| match error {
        FileError::Wrong(errors) => mistakes(path, &errors),
        error => ApiError::from(error),
    })?;
    for rival in &file.rivals {
        guest::add(&mut file.scenario, rival)
            .map_err(|known| ApiError::usage(format!("rivals are {known}, not '{}'", rival.kind)))?;
    }
    Ok(file)
}
fn check_captures(sim: &args::Sim, file: &ScenarioFile) -> Result<(), ApiError> {
    for name in &sim.pcap {
        if file.scenario.link(name).is_none() {
            let known: Vec<&str> = file.scenario.links.iter().map(|link| link.name.as_str()).take(12).collect();
            return Err(ApiError::usage(format!("there is no link '{name}' to capture"))
                .with_hint(format!("links are {}", known.join(", "))));
        }
    }
    Ok(())
}

// ---- for people

fn print_outcome(done: &Done) {
    done.lines.iter().for_each(|line| out::data(line));
}
fn lines(outcome: &Outcome) -> Vec<String> {
    let head = format!(
        "{}, seed {}: {:.3} s of virtual time, {} packet-hops",
        outcome.scenario,
        outcome.seed,
        outcome.ended.as_secs_f64(),
        outcome.stats.packet_hops,
    );
    let mut rows = vec![row(["node", "name", "seconds", "Mbit/s", "MB", "sources", "end"])];
    for transfer in &outcome.transfers {
        let report = transfer.report.clone().unwrap_or_default();
        let number = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.3}"));
        let shares = report.sources.iter().filter(|of| of.bytes > 0);
        let shares: Vec<_> = shares
            .map(|of| format!("{} {:.0} %", of.label, of.bytes as f64 * 100.0 / report.bytes.max(1) as f64))
            .collect();
        let end = report.failure.clone().unwrap_or_else(|| match transfer.is_complete() {
            true => "complete".into(),
            false => {
                format!("{:.0} % when time was up", report.stored_bytes as f64 * 100.0 / report.bytes.max(1) as f64)
            }
        });
        rows.push(vec![
            transfer.node.clone(),
            transfer.name.to_string(),
            number(transfer.seconds()),
            number(transfer.mbps()),
            format!("{:.2}", report.bytes as f64 / 1e6),
            shares.join(", "),
            end,
        ]);
    }
    std::iter::once(head).chain(table(&rows).into_iter().map(|line| format!("  {line}"))).collect()
}
fn print_total(total: &Value) {
    let mut rows = vec![row(["transfer", "complete", "seconds", "± deviation", "Mbit/s"])];
    for transfer in total["transfers"].as_array().into_iter().flatten() {
        let text = |key: &str| transfer[key].as_str().unwrap_or_default().to_string();
        let number = |key: &str| transfer[key].as_f64().map_or_else(|| "-".into(), |value| format!("{value:.3}"));
        let complete = format!("{} of {}", transfer["complete"], total["runs"]);
        let name = format!("{} {}", text("node"), text("name"));
        rows.push(vec![name, complete, number("seconds_mean"), number("seconds_deviation"), number("mbps_mean")]);
    }
    let set = total["set"].as_object().map_or_else(String::new, |set| {
        let words: Vec<String> =
            set.iter().map(|(key, of)| format!("{key}={}", of.as_str().unwrap_or_default())).collect();
        format!(" with {}", words.join(", "))
    });
    out::data(&format!("{} runs together{set}", total["runs"]));
    table(&rows).iter().for_each(|line| out::data(&format!("  {line}")));
}

// ---- all runs together

fn total(name: &str, runs: &[Value], point: &[Setting]) -> Value {
    let of_transfer = |index: usize| {
        let all: Vec<&Value> = runs.iter().map(|run| &run["transfers"][index]).collect();
        let numbers = |key: &str| all.iter().filter_map(|of| of[key].as_f64()).collect::<Vec<f64>>();
        let (seconds, mbps) = (numbers("seconds"), numbers("mbps"));
        json!({
            "node": all[0]["node"],
            "name": all[0]["name"],
            "complete": all.iter().filter(|of| of["complete"] == true).count(),
            "seconds_mean": mean(&seconds),
            "seconds_deviation": deviation(&seconds),
            "mbps_mean": mean(&mbps),
        })
    };
    let transfers = runs.first().and_then(|run| run["transfers"].as_array()).map_or(0, Vec::len);
    let mut total = json!({
        "event": "done",
        "scenario": name,
        "runs": runs.len(),
        "seeds": runs.iter().map(|run| run["seed"].clone()).collect::<Vec<_>>(),
        "complete": runs.iter().all(|run| run["complete"] == true),
        "transfers": (0..transfers).map(of_transfer).collect::<Vec<_>>(),
    });
    if !point.is_empty() {
        total["set"] = set(point);
    }
    total
}
fn per_run(runs: &[Value]) -> String {
    // All runs have values for the same keys.
    let set = |run: &Value| run["set"].as_object().cloned().unwrap_or_default();
    let quoted = |text: &str| format!("\"{}\",", text.replace('"', "\"\""));
    let mut csv: String = runs.first().map(set).unwrap_or_default().keys().map(|key| quoted(key)).collect();
    csv += "seed,transfer,node,name,complete,seconds,mbps\n";
    for run in runs {
        let values: String = set(run).values().map(|value| quoted(value.as_str().unwrap_or_default())).collect();
        for (index, of) in run["transfers"].as_array().into_iter().flatten().enumerate() {
            let number = |key: &str| of[key].as_f64().map(|value| format!("{value:.6}")).unwrap_or_default();
            let text = |key: &str| of[key].as_str().unwrap_or_default().replace('"', "\"\"");
            csv += &values;
            csv += &format!(
                "{},{index},\"{}\",\"{}\",{},{},{}\n",
                run["seed"],
                text("node"),
                text("name"),
                of["complete"],
                number("seconds"),
                number("mbps"),
            );
        }
    }
    csv
}
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
/// The standard deviation of a sample; needs two values.
fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    Some((values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_summed_up_per_transfer() {
        let run = |seed: u64, seconds: f64| {
            let transfer = json!({"node": "a", "name": "/x", "complete": true, "seconds": seconds, "mbps": 8.0});
            json!({"seed": seed, "complete": true, "transfers": [transfer]})
        };
        let total = total("t", &[run(1, 1.0), run(2, 2.0), run(3, 3.0)], &[]);
        assert_eq!(total["transfers"][0]["seconds_mean"], 2.0);
        assert_eq!(total["transfers"][0]["seconds_deviation"], 1.0);
        assert_eq!((&total["runs"], &total["complete"]), (&json!(3), &json!(true)));
        assert_eq!(per_run(&[run(7, 1.5)]).lines().nth(1), Some("7,0,\"a\",\"/x\",true,1.500000,8.000000"));
    }
}

//! mmFTP §IV-C2: the fastest of three publishers falls silent for seven seconds.
use tributary_core::{Duration, Time};
use tributary_transport::TransferConfig;

use crate::{
    Results, Settings, Table, comparison,
    figures::{Bar, BarGroup, Chart, Series, bars, lines},
    optimum,
    runs::{PaperTimes, Times, each},
    simulation::{Fault, Outcome, PathSample, Scenario, parallel},
    stats::mean,
    wide_area::{START, THREE_WAYS, controllers, file, file_name, three_sources},
};

const SOURCES: [&str; 3] = ["pub-1", "pub-2", "pub-3"];
/// How often windows are sampled.
const SAMPLING: Duration = Duration::from_millis(100);

/// Normal or failure mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Normal,
    Failure,
}

struct Item {
    seed: u64,
    mode: Mode,
    transfer: TransferConfig,
    scale: Sizes,
}

/// Sizes of a run.
#[derive(Clone, Copy)]
struct Sizes {
    bytes: usize,
    /// When publisher 2 falls silent and when it answers again, after the request: 20 % of 12.2 s, and 7 s later.
    silent: (Duration, Duration),
}

fn scenario(item: &Item) -> Scenario {
    let mut scenario = three_sources(item.seed, Some(item.seed), &item.transfer);
    let object = file(item.scale.bytes);
    for source in SOURCES {
        scenario.publish(source, Time::ZERO, object.clone());
    }
    scenario.fetch("receiver", START, file_name()).paths_per_source = 1;
    scenario.sampling = Some(SAMPLING);
    if item.mode == Mode::Failure {
        let (from, to) = item.scale.silent;
        scenario.fault(START + from, Fault::StopServing { node: "pub-2".into() });
        scenario.fault(START + to, Fault::ServeAgain { node: "pub-2".into() });
    }
    scenario
}

/// Results of one run.
struct Row {
    seconds: Option<f64>,
    ideal: f64,
    /// Per publisher: window in packets over time since the request.
    windows: [Vec<(f64, f64)>; 3],
    /// Per publisher: Mbit/s while publisher 2 is silent, or would be.
    rates: [f64; 3],
}

fn read(item: &Item, scenario: &Scenario, outcome: Outcome) -> Row {
    let transfer = &outcome.transfers[0];
    let ideal = optimum::seconds(scenario, &SOURCES, "receiver", item.scale.bytes as u64, START);
    let of = |source: &str| outcome.samples_of(0).filter(|sample| sample.source == source).collect::<Vec<_>>();
    let since = |sample: &PathSample| sample.time.since(START).as_secs_f64();
    let windows = SOURCES.map(|source| {
        of(source).iter().map(|sample| (since(sample), sample.window_bytes as f64 / PACKET_BYTES)).collect()
    });
    // From a second after the change, so that the others have had time, until the change back.
    let (from, to) = (item.scale.silent.0.as_secs_f64() + 1.0, item.scale.silent.1.as_secs_f64());
    let rates = SOURCES.map(|source| {
        let within: Vec<_> = of(source).into_iter().filter(|sample| (from..=to).contains(&since(sample))).collect();
        match (within.first(), within.last()) {
            (Some(first), Some(last)) if last.time > first.time => {
                (last.bytes - first.bytes) as f64 * 8e-6 / last.time.since(first.time).as_secs_f64()
            }
            _ => 0.0,
        }
    });
    let seconds = transfer.seconds().filter(|_| transfer.is_complete());
    Row { seconds, ideal: ideal.unwrap_or(0.0), windows, rates }
}

/// Payload of a packet, for windows in packets.
const PACKET_BYTES: f64 = 1_433.0;

pub(super) fn run(settings: &Settings, results: &mut Results) {
    let seconds = Duration::from_secs_f64;
    let scale = settings.choose(
        Sizes { bytes: 50_000_000, silent: (seconds(2.44), seconds(9.44)) },
        Sizes { bytes: 12_000_000, silent: (seconds(0.6), seconds(2.4)) },
    );
    let mut table = Table::new("times", &["variant", "iteration", "seconds", "ideal_seconds"]);
    for (prefix, transfer) in controllers() {
        let rows = [Mode::Normal, Mode::Failure].map(|mode| {
            // Both modes of an iteration meet the same congestion, so that their difference is due to the failure.
            let seeds = (0..settings.runs).map(|run| settings.seed_of(1, run));
            let items: Vec<_> = seeds.map(|seed| Item { seed, mode, transfer: transfer.clone(), scale }).collect();
            each(&items, scenario, read)
        });
        for (rows, (mode, paper)) in rows.iter().zip([("normal", 12.2), ("failure", 14.3)]) {
            let variant = format!("{prefix}{mode}");
            tell(results, &mut table, &variant, rows, paper);
        }
        gains(results, prefix, &rows);
        windows(results, prefix, &rows, scale);
    }
    rivals(results, settings, scale);
    means(results);
    results.tables.push(table);
    describe(results, scale);
}

fn tell(results: &mut Results, table: &mut Table, variant: &str, rows: &[Row], paper: f64) {
    let mut times = Times::default();
    rows.iter().for_each(|row| times.push(row.seconds));
    times.tell(results, variant, PaperTimes { mean: Some(paper), variance: None });
    let ideal = mean(&rows.iter().map(|row| row.ideal).collect::<Vec<_>>());
    results.metric(format!("{variant}.ideal_seconds"), ideal, "seconds");
    results.metric(format!("{variant}.utilisation"), ideal / times.mean().max(1e-9), "share");
    for (run, row) in (1..).zip(rows) {
        let seconds = row.seconds.map(|seconds| format!("{seconds:.6}")).unwrap_or_default();
        table.push(vec![variant.into(), format!("{run}"), seconds, format!("{:.6}", row.ideal)]);
    }
}

/// A download manager with a connection to each publisher, in both modes.
fn rivals(results: &mut Results, settings: &Settings, scale: Sizes) {
    for rival in comparison::RIVALS {
        for (name, mode) in [("normal", Mode::Normal), ("failure", Mode::Failure)] {
            let seeds: Vec<_> = (0..settings.runs).map(|run| settings.seed_of(1, run)).collect();
            let seconds = parallel::map(&seeds, |seed| {
                let scenario = scenario(&Item { seed: *seed, mode, transfer: TransferConfig::default(), scale });
                comparison::seconds(rival, &scenario, &SOURCES, "receiver", scale.bytes as u64, START)
            });
            let mut times = Times::default();
            seconds.into_iter().for_each(|seconds| times.push(seconds));
            times.tell(results, &format!("{}-{name}", rival.name()), PaperTimes::default());
        }
    }
}

fn gains(results: &mut Results, prefix: &str, [normal, failure]: &[Vec<Row>; 2]) {
    let rate = |rows: &[Row], source: usize| mean(&rows.iter().map(|row| row.rates[source]).collect::<Vec<_>>());
    for (source, paper) in [(0, 0.765), (2, 0.30)] {
        let gain = rate(failure, source) / rate(normal, source).max(1e-9) - 1.0;
        results.comparison(format!("{prefix}failure.rate_gain@source-{}", source + 1), gain, "relative", paper);
    }
    for (source, name) in SOURCES.iter().enumerate() {
        let name = name.replace("pub", "source");
        results.metric(format!("{prefix}normal.mbps@{name}"), rate(normal, source), "mbps");
        results.metric(format!("{prefix}failure.mbps@{name}"), rate(failure, source), "mbps");
    }
    let seconds = |mode: &str| results.value(&format!("{prefix}{mode}.seconds_mean"));
    let added = seconds("failure") - seconds("normal");
    results.comparison(format!("{prefix}failure.added_seconds"), added, "seconds", 2.1);
}

/// The paper's Fig. 5: mean windows over time, a drawing per publisher.
fn windows(results: &mut Results, prefix: &str, rows: &[Vec<Row>; 2], scale: Sizes) {
    let who = if prefix.is_empty() { "the paper's controller" } else { "the product's default" };
    let end = rows.iter().flatten().filter_map(|row| row.seconds).fold(0.0, f64::max);
    let mut table = Table::new(&format!("windows-{}", name_of(prefix)), &["publisher", "mode", "seconds", "packets"]);
    for source in 0..3 {
        let series = rows.iter().zip(["normal", "failure"]).map(|(rows, mode)| {
            let of: Vec<_> = rows.iter().map(|row| row.windows[source].as_slice()).collect();
            let points = mean_over_time(&of, end);
            for (time, packets) in &points {
                table.push(vec![format!("{}", source + 1), mode.into(), format!("{time:.1}"), format!("{packets:.2}")]);
            }
            Series::new(mode, points)
        });
        let series: Vec<_> = series.collect();
        let title = format!("Publisher {}: mean congestion window, {who}", source + 1);
        let mut chart = Chart::new(&title, "time since the request (s)", "window (packets)");
        chart.size = (760, 280);
        chart.x_range = Some((0.0, end.ceil()));
        let (from, to) = scale.silent;
        chart.spans.push((from.as_secs_f64(), to.as_secs_f64(), "publisher 2 silent (failure mode)".into()));
        results.captioned(format!("fig5-{}-publisher-{}", name_of(prefix), source + 1), format!(
                "The paper's Fig. 5({}) with {who}: the window to publisher {}, mean of the iterations that still run.{}",
                ["a", "b", "c"][source],
                source + 1,
                if source == 1 && !prefix.is_empty() {
                    " A path that went silent keeps its model, and so its window; nothing but probes is sent there."
                } else {
                    ""
                }
            ), lines(&chart, &series));
    }
    results.tables.push(table);
}
fn name_of(prefix: &str) -> &str {
    if prefix.is_empty() { "paper" } else { "default" }
}
/// The mean of several curves at every sampling time at which at least half of them are still running.
fn mean_over_time(curves: &[&[(f64, f64)]], end: f64) -> Vec<(f64, f64)> {
    let steps = (end / SAMPLING.as_secs_f64()).ceil() as usize;
    (1..=steps)
        .filter_map(|step| {
            let time = step as f64 * SAMPLING.as_secs_f64();
            let near = |(at, _): &&(f64, f64)| (at - time).abs() < SAMPLING.as_secs_f64() / 2.0;
            let values: Vec<f64> =
                curves.iter().filter_map(|curve| curve.iter().find(near)).map(|(_, packets)| *packets).collect();
            (values.len() * 2 >= curves.len()).then(|| (time, mean(&values)))
        })
        .collect()
}

fn means(results: &mut Results) {
    let groups = [("normal", 12.2), ("failure", 14.3)].map(|(mode, paper)| {
        let bar = |variant: &str| {
            let value = |quantity: &str| results.value(&format!("{variant}{mode}.{quantity}"));
            Bar::with_spread(value("seconds_mean"), value("seconds_confidence"))
        };
        let ours = bar("").map(|bar| Bar { paper: Some(paper), ..bar });
        let ideal = Bar::new(results.value(&format!("{mode}.ideal_seconds")));
        let rivals = [bar("tcp-cubic-"), bar("quic-cubic-"), bar("quic-bbr-")];
        BarGroup { label: mode.into(), bars: vec![ours, bar("default-"), rivals[0], rivals[1], rivals[2], ideal] }
    });
    let chart = Chart::new("Mean download time with and without the failure", "", "mean download time (s)");
    results.figure(
        "means",
        bars(&chart, &["paper's controller", "default", "TCP Cubic", "QUIC Cubic", "QUIC BBR", "ideal"], &groups),
    );
}

fn describe(results: &mut Results, scale: Sizes) {
    results.parameter("object", format!("{} bytes", scale.bytes));
    results.parameter(
        "publisher 2 answers no request",
        format!("from {} s to {} s after the request", scale.silent.0.as_secs_f64(), scale.silent.1.as_secs_f64()),
    );
    for (number, way) in (1..).zip(&THREE_WAYS) {
        results.parameter(&format!("way to publisher {number}"), way.describe());
    }
}

//! mmFTP §IV-C3: two publishers over one path each, and over two disjoint paths each.
use tributary_core::Time;
use tributary_transport::TransferConfig;

use crate::{
    Results, Settings, Table,
    congestion::Congestion,
    figures::{Bar, BarGroup, Chart, bars},
    optimum,
    runs::{PaperTimes, Times, each},
    simulation::Scenario,
    stats::{confidence, mean},
    wide_area::{START, Way, add_source, add_way, controllers, core, file, file_name, link, router},
};

/// The paper's four repetitions of the whole experiment: the relative reduction of the mean with four paths in each.
const REPETITIONS: [f64; 4] = [0.315, 0.104, 0.199, 0.116];
const SOURCES: [&str; 2] = ["pub-1", "pub-2"];

/// Paths 1 to 4: 1 and 2 to publisher 1, 3 and 4 to publisher 2. The odd ones are the shorter ones.
///
/// The paper gives no rates; these let two calm paths nearly fill the subscriber's link, so that two more paths give
/// what the paper reports: a way around bursts.
const WAYS: [Way; 4] = [
    Way { kbps: 19_000, delay_ms: 22, congestion: BURSTS },
    Way { kbps: 16_000, delay_ms: 27, congestion: BURSTS },
    Way { kbps: 18_000, delay_ms: 30, congestion: BURSTS },
    Way { kbps: 16_000, delay_ms: 34, congestion: BURSTS },
];
const BURSTS: Congestion = Congestion { calm_seconds: 12.0, burst_seconds: 5.0, left: (0.15, 0.5) };

struct Item {
    seed: u64,
    paths_per_source: u8,
    transfer: TransferConfig,
    bytes: usize,
}

/// ```text
///             ┌─ via-1 ──────────┐
///   pub-1 ─ fn-1                 fn-0 ── receiver
///             └─ via-2 ── far-2 ─┤
///             ┌─ via-3 ──────────┤
///   pub-2 ─ fn-2                 │
///             └─ via-4 ── far-4 ─┘
/// ```
fn scenario(item: &Item) -> Scenario {
    let mut scenario = core(item.seed);
    for (number, (way, stream)) in (1_u64..).zip(WAYS.iter().zip(1..)) {
        let source = number.div_ceil(2);
        if number % 2 == 1 {
            add_source(&mut scenario, source);
        }
        let via = format!("via-{number}");
        router(&mut scenario, &via);
        scenario.add_link(&format!("fn-{source}"), &via, link(100_000, 1));
        if number % 2 == 1 {
            add_way(&mut scenario, &via, "fn-0", way, Some(item.seed), stream);
        } else {
            // One more link than the other path, so that the shortest path is the same in every run.
            let far = format!("far-{number}");
            router(&mut scenario, &far);
            add_way(&mut scenario, &via, &far, way, Some(item.seed), stream);
            scenario.add_link(&far, "fn-0", link(100_000, 1));
        }
    }
    scenario.set_transfer(&item.transfer);
    let object = file(item.bytes);
    for source in SOURCES {
        scenario.publish(source, Time::ZERO, object.clone());
    }
    scenario.fetch("receiver", START, file_name()).paths_per_source = item.paths_per_source;
    scenario
}

pub(super) fn run(settings: &Settings, results: &mut Results) {
    let bytes = settings.choose(50_000_000, 8_000_000);
    let mut table = Table::new("times", &["variant", "repetition", "iteration", "seconds"]);
    let mut groups = Vec::new();
    for (prefix, transfer) in controllers() {
        let mut totals = [Times::default(), Times::default()];
        let mut least = Vec::new();
        for (repetition, paper) in (1..).zip(REPETITIONS) {
            let mut means = [0.0; 2];
            let mut bars = Vec::new();
            for (index, (name, paths_per_source)) in [("two-paths", 1), ("four-paths", 2)].into_iter().enumerate() {
                let phase = repetition * 2 + index as u64;
                let seeds = (0..settings.runs).map(|run| settings.seed_of(phase, run));
                let items: Vec<_> =
                    seeds.map(|seed| Item { seed, paths_per_source, transfer: transfer.clone(), bytes }).collect();
                let rows = each(&items, scenario, |item, scenario, outcome| {
                    let transfer = &outcome.transfers[0];
                    let least = optimum::seconds(scenario, &SOURCES, "receiver", item.bytes as u64, START);
                    (transfer.seconds().filter(|_| transfer.is_complete()), least.unwrap_or(0.0))
                });
                let mut times = Times::default();
                for (run, (seconds, ideal)) in (1..).zip(&rows) {
                    times.push(*seconds);
                    totals[index].push(*seconds);
                    let text = seconds.map(|seconds| format!("{seconds:.6}")).unwrap_or_default();
                    table.push(vec![format!("{prefix}{name}"), format!("{repetition}"), format!("{run}"), text]);
                    if index == 1 {
                        least.push(*ideal);
                    }
                }
                means[index] = times.mean();
                bars.push(Bar::with_spread(times.mean(), confidence(&times.seconds)));
            }
            let gain = 1.0 - means[1] / means[0].max(1e-9);
            results.comparison(format!("{prefix}four-paths.gain@repetition-{repetition}"), gain, "relative", paper);
            groups.push((prefix, repetition, bars));
        }
        for (times, name) in totals.iter().zip(["two-paths", "four-paths"]) {
            times.tell(results, &format!("{prefix}{name}"), PaperTimes::default());
        }
        let gain = 1.0 - totals[1].mean() / totals[0].mean().max(1e-9);
        results.comparison(format!("{prefix}four-paths.gain"), gain, "relative", 0.17);
        let utilisation = mean(&least) / totals[1].mean().max(1e-9);
        results.metric(format!("{prefix}four-paths.utilisation"), utilisation, "share");
        results.metric("optimum.seconds_mean@four-paths", mean(&least), "seconds");
    }
    results.tables.push(table);
    figure(results, groups);
    describe(results, bytes);
}

fn figure(results: &mut Results, groups: Vec<(&str, u64, Vec<Option<Bar>>)>) {
    let groups: Vec<_> = groups
        .into_iter()
        .map(|(prefix, repetition, bars)| {
            let who = if prefix.is_empty() { "paper's" } else { "default" };
            BarGroup { label: format!("{who}, {repetition}"), bars }
        })
        .collect();
    let chart =
        Chart::new("Two publishers, one path or two paths to each", "controller, repetition", "mean download time (s)");
    results.figure("fig6", bars(&chart, &["two paths", "four paths"], &groups));
}

fn describe(results: &mut Results, bytes: usize) {
    results.parameter("object", format!("{bytes} bytes"));
    for (number, way) in (1..).zip(&WAYS) {
        results.parameter(&format!("path {number}"), way.describe());
    }
}

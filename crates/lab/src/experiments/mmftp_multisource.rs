//! mmFTP §IV-C1: a file from each of three publishers in turn, and from all three.
use tributary_transport::TransferConfig;

use crate::{
    Results, Settings, Table, comparison,
    figures::{Bar, BarGroup, Chart, Style, bars, lines},
    optimum,
    runs::{PaperTimes, Times, each},
    simulation::{Scenario, parallel},
    stats::mean,
    wide_area::{ACCESS_KBPS, START, THREE_WAYS, controllers, file, file_name, three_sources},
};

/// The phases of an iteration: name, publishers, and the paper's measurements.
const PHASES: [(&str, &[&str], PaperTimes); 4] = [
    ("source-1", &["pub-1"], PaperTimes { mean: None, variance: Some(1.13) }),
    ("source-2", &["pub-2"], PaperTimes { mean: Some(4.8), variance: Some(15.75) }),
    ("source-3", &["pub-3"], PaperTimes { mean: None, variance: Some(4.16) }),
    ("three-sources", &["pub-1", "pub-2", "pub-3"], PaperTimes { mean: Some(3.07), variance: Some(0.1) }),
];

struct Item {
    seed: u64,
    sources: &'static [&'static str],
    transfer: TransferConfig,
    bytes: usize,
}

fn scenario(item: &Item) -> Scenario {
    let mut scenario = three_sources(item.seed, Some(item.seed), &item.transfer);
    let object = file(item.bytes);
    for source in item.sources {
        scenario.publish(source, tributary_core::Time::ZERO, object.clone());
    }
    // One path to each source, as in the paper.
    scenario.fetch("receiver", START, file_name()).paths_per_source = 1;
    scenario
}

pub(super) fn run(settings: &Settings, results: &mut Results) {
    let bytes = settings.choose(12_000_000, 3_000_000);
    let mut times: Vec<(String, Times)> = Vec::new();
    let mut optima = Vec::new();
    for (prefix, transfer) in controllers() {
        for (phase, (name, sources, paper)) in (1..).zip(PHASES) {
            let seeds = (0..settings.runs).map(|run| settings.seed_of(phase, run));
            let items: Vec<_> = seeds.map(|seed| Item { seed, sources, transfer: transfer.clone(), bytes }).collect();
            let rows = each(&items, scenario, |item, scenario, outcome| {
                let least = optimum::seconds(scenario, item.sources, "receiver", item.bytes as u64, START);
                let transfer = &outcome.transfers[0];
                (transfer.seconds().filter(|_| transfer.is_complete()), least.unwrap_or(0.0))
            });
            let mut of_variant = Times::default();
            rows.iter().for_each(|(seconds, _)| of_variant.push(*seconds));
            let variant = format!("{prefix}{name}");
            of_variant.tell(results, &variant, paper);
            let least: Vec<f64> = rows.iter().map(|(_, least)| *least).collect();
            results.metric(format!("{variant}.utilisation"), mean(&least) / of_variant.mean().max(1e-9), "share");
            if prefix.is_empty() {
                results.metric(format!("optimum.seconds_mean@{name}"), mean(&least), "seconds");
                optima.push(mean(&least));
            }
            times.push((variant, of_variant));
        }
    }
    rivals(results, settings, bytes);
    speedups(results);
    figures(results, &times, &optima);
    table(results, &times);
    describe(results, bytes);
}

/// TCP and QUIC over the same links under the same congestion: one connection, or a download manager's three.
fn rivals(results: &mut Results, settings: &Settings, bytes: usize) {
    for rival in comparison::RIVALS {
        for (phase, (name, sources, _)) in (1..).zip(PHASES) {
            let seeds: Vec<_> = (0..settings.runs).map(|run| settings.seed_of(phase, run)).collect();
            let seconds = parallel::map(&seeds, |seed| {
                let scenario = three_sources(*seed, Some(*seed), &TransferConfig::default());
                comparison::seconds(rival, &scenario, sources, "receiver", bytes as u64, START)
            });
            let mut times = Times::default();
            seconds.into_iter().for_each(|seconds| times.push(seconds));
            times.tell(results, &format!("{}-{name}", rival.name()), PaperTimes::default());
        }
    }
}

fn speedups(results: &mut Results) {
    for prefix in ["", "default-"] {
        let mean_of = |name: &str| results.value(&format!("{prefix}{name}.seconds_mean"));
        let best = (1..=3).map(|n| mean_of(&format!("source-{n}"))).fold(f64::INFINITY, f64::min);
        let speedup = best / mean_of("three-sources");
        results.comparison(format!("{prefix}three-sources.speedup"), speedup, "times", 4.8 / 3.07);
    }
}

fn figures(results: &mut Results, times: &[(String, Times)], optima: &[f64]) {
    for (half, (name, who)) in
        times.chunks(PHASES.len()).zip([("paper", "the paper's controller"), ("default", "the product's default")])
    {
        let series: Vec<_> = half
            .iter()
            .zip(["publisher 1", "publisher 2", "publisher 3", "all three"])
            .map(|((_, times), label)| times.series(label).styled(Style::Marked))
            .collect();
        let chart = Chart::new(&format!("Download time of each iteration, {who}"), "iteration", "download time (s)");
        results.captioned(
            format!("fig4-{name}"),
            format!(
                "The paper's Fig. 4 with {who}: one publisher at a time against all three. Spikes are bursts of \
                 congestion; with three publishers the receiver leaves the congested one aside."
            ),
            lines(&chart, &series),
        );
    }
    let groups = PHASES.iter().enumerate().map(|(index, (name, _, paper))| {
        let with_paper = times[index].1.bar().map(|bar| Bar { paper: paper.mean, ..bar });
        let rival = |rival: &str| Bar::new(results.value(&format!("{rival}-{name}.seconds_mean")));
        let default = times[index + PHASES.len()].1.bar();
        let rivals = ["tcp-cubic", "quic-cubic", "quic-bbr"].map(rival);
        let bars = [with_paper, default].into_iter().chain(rivals).chain([Bar::new(optima[index])]).collect();
        BarGroup { label: (*name).into(), bars }
    });
    let chart = Chart::new("Mean download time", "", "mean download time (s)");
    let groups: Vec<_> = groups.collect();
    results.figure(
        "means",
        bars(&chart, &["paper's controller", "default", "TCP Cubic", "QUIC Cubic", "QUIC BBR", "optimum"], &groups),
    );
}

fn table(results: &mut Results, times: &[(String, Times)]) {
    let mut table = Table::new("times", &["variant", "iteration", "seconds"]);
    for (variant, times) in times {
        for (run, seconds) in (1..).zip(&times.seconds) {
            table.push(vec![variant.clone(), format!("{run}"), format!("{seconds:.6}")]);
        }
    }
    results.tables.push(table);
}

fn describe(results: &mut Results, bytes: usize) {
    results.parameter("object", format!("{bytes} bytes"));
    results.parameter("subscriber's link", format!("{} Mbit/s, 2 ms one way", ACCESS_KBPS as f64 / 1000.0));
    for (number, way) in (1..).zip(&THREE_WAYS) {
        results.parameter(&format!("way to publisher {number}"), way.describe());
    }
}

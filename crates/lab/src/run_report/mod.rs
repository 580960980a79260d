//! The figures of one run of a person's own scenario, and one page that presents it; see `trib sim`.
mod page;

use std::collections::BTreeMap;
use tributary_core::event::PathState;

use crate::{
    figures::{COLOURS, Chart, Figure, Series, lines},
    simulation::{Outcome, PathSample, output},
};
use page::Page;

/// The most lines of a figure, each colour once solid and once dashed; more cannot be distinguished.
const LINES_MAX: usize = 2 * COLOURS;
/// The most faults that are marked.
const MARKS_MAX: usize = 12;

/// All figures for which the run has samples.
pub fn figures(outcome: &Outcome) -> Vec<Figure> {
    let charts = [
        ("progress", "Payload of each transfer that has come so far.", progress(outcome)),
        (
            "rates",
            "Rate at which each path delivers payload, smoothed over a second.",
            paths(outcome, "Rates of paths", "rate (Mbit/s)", |sample| Some(sample.rate.mbps())),
        ),
        (
            "windows",
            "Bytes that may be in flight on each path.",
            paths(outcome, "Windows of paths", "window (kB)", |sample| {
                Some(sample.window_bytes as f64 / 1e3).filter(|window| *window > 0.0)
            }),
        ),
        (
            "rtts",
            "Smoothed round-trip time of each path.",
            paths(outcome, "Round-trip times of paths", "round-trip time (ms)", |sample| {
                sample.rtt.map(|rtt| rtt.as_secs_f64() * 1e3)
            }),
        ),
        (
            "use",
            "Rate at which each direction of a link carries datagrams, headers of the link included.",
            links(outcome, "Use of links", "rate (Mbit/s)", |of| of.out_mbps),
        ),
        (
            "queues",
            "Bytes that wait in front of each direction of a link.",
            links(outcome, "Queues of links", "queue (kB)", |of| of.queue_bytes as f64 / 1e3),
        ),
    ];
    let is_drawn = |drawing: &Drawing| drawing.series.iter().any(|of| of.points.iter().any(|(_, y)| y.is_finite()));
    let drawn = charts.into_iter().filter(|(.., drawing)| is_drawn(drawing));
    drawn
        .map(|(name, caption, drawing)| Figure {
            name: name.into(),
            caption: match drawing.left_out {
                0 => caption.into(),
                more => format!("{caption} The {LINES_MAX} with the most bytes; {more} more are left out."),
            },
            svg: lines(&marked(drawing.chart, outcome), &drawing.series),
        })
        .collect()
}

/// The chart with faults and changes marked.
fn marked(mut chart: Chart, outcome: &Outcome) -> Chart {
    let ended = outcome.ended.as_secs_f64();
    let marks = outcome.faults.iter().map(|(at, what)| (at.as_secs_f64(), what.clone()));
    let mut marks: Vec<(f64, String)> = marks.filter(|(at, _)| *at <= ended).collect();
    marks.sort_by(|one, other| one.0.total_cmp(&other.0));
    marks.truncate(MARKS_MAX);
    chart.marks = marks;
    // A fault may occur after the last sample.
    chart.x_range = Some((0.0, ended));
    chart
}

/// One page that presents a run: the request, the result, every figure. `command` repeats it.
pub fn report(outcome: &Outcome, command: &str) -> String {
    let ended = outcome.ended.as_secs_f64();
    let verdict = if outcome.is_complete() { "every transfer is complete" } else { "not every transfer is complete" };
    let mut page = Page::new(&format!("{}, seed {}", outcome.scenario, outcome.seed))
        .paragraph(&format!("{ended:.3} s of virtual time, {} packet-hops; {verdict}.", outcome.stats.packet_hops))
        .verbatim(command)
        .heading("Transfers");
    let optional = |value: Option<f64>| value.map_or_else(|| "–".into(), |value| format!("{value:.3}"));
    let transfers: Vec<Vec<String>> = outcome
        .transfers
        .iter()
        .map(|transfer| {
            let report = transfer.report.clone().unwrap_or_default();
            vec![
                transfer.node.clone(),
                transfer.name.to_string(),
                optional(transfer.seconds()),
                optional(transfer.mbps()),
                report.bytes.to_string(),
                report.cached_bytes.to_string(),
                report.retransmitted_bytes.to_string(),
                report.failure.unwrap_or_else(|| if transfer.is_complete() { "complete".into() } else { "–".into() }),
            ]
        })
        .collect();
    let header = ["node", "name", "seconds", "Mbit/s", "bytes", "from caches", "requested again", "end"];
    page = page.table(&header, &transfers);
    let rows: Vec<Vec<String>> = outcome.transfers.iter().flat_map(path_rows).collect();
    if !rows.is_empty() {
        let header = ["node", "name", "source", "path", "hops", "bytes", "RTT ms", "lost packets"];
        page = page.heading("Paths").table(&header, &rows);
    }
    page = page.heading("Over time");
    for figure in figures(outcome) {
        page = page.figure(&figure.caption, &figure.svg);
    }
    let mut busiest: Vec<_> = outcome.links.iter().collect();
    busiest.sort_by_key(|link| std::cmp::Reverse(link.stats.out_bytes));
    let time = outcome.ended.since(tributary_core::Time::ZERO);
    let rows: Vec<Vec<String>> = busiest
        .iter()
        .take(40)
        .map(|link| {
            let stats = &link.stats;
            let rate = link.rate.map_or_else(|| "–".into(), |rate| format!("{:.1}", rate.mbps()));
            let utilisation = format!("{:.3}", link.utilisation(time));
            let counters = [stats.out_bytes, stats.dropped_packets, stats.marked_packets, stats.lost_packets];
            [link.from.clone(), link.to.clone(), rate, utilisation]
                .into_iter()
                .chain(counters.iter().map(u64::to_string))
                .collect()
        })
        .collect();
    let header = ["from", "to", "Mbit/s", "utilisation", "bytes", "dropped", "marked", "lost"];
    page.heading("The busiest links").table(&header, &rows).html()
}

fn path_rows(transfer: &crate::simulation::TransferOutcome) -> Vec<Vec<String>> {
    let Some(report) = &transfer.report else { return Vec::new() };
    let source = |path: &tributary_core::event::PathReport| {
        let of = report.sources.iter().find(|of| of.source == path.source);
        of.map(|of| of.label.clone()).unwrap_or_default()
    };
    let row = |path: &tributary_core::event::PathReport| {
        vec![
            transfer.node.clone(),
            transfer.name.to_string(),
            source(path),
            path.label.clone(),
            path.hops.to_string(),
            path.bytes.to_string(),
            path.rtt.map_or_else(|| "–".into(), |rtt| format!("{:.1}", rtt.as_secs_f64() * 1e3)),
            path.lost_packets.to_string(),
        ]
    };
    report.paths.iter().map(row).collect()
}

/// Payload of each transfer, summed over its paths.
fn progress(outcome: &Outcome) -> Drawing {
    let mut sums: BTreeMap<usize, BTreeMap<u64, u64>> = BTreeMap::new();
    for sample in &outcome.path_samples {
        *sums.entry(sample.transfer).or_default().entry(sample.time.as_nanos()).or_default() += sample.bytes;
    }
    let line = |(transfer, points): (usize, BTreeMap<u64, u64>)| {
        let of = &outcome.transfers[transfer];
        let bytes = points.values().copied().max().unwrap_or(0);
        let points = points.into_iter().map(|(nanos, bytes)| (nanos as f64 / 1e9, bytes as f64 / 1e6)).collect();
        (format!("{} {}", of.node, of.name), bytes, points)
    };
    draw(Chart::new("Progress of transfers", "time (s)", "payload (MB)"), sums.into_iter().map(line))
}

/// A line's name in a figure, the number of bytes behind it, and its points.
type Line = (String, u64, Vec<(f64, f64)>);

/// A quantity of the paths. While a path is silent or closed the quantity is unknown, and the line is interrupted.
fn paths(outcome: &Outcome, title: &str, y: &str, value: fn(&PathSample) -> Option<f64>) -> Drawing {
    let mut lines: BTreeMap<(usize, u16), Line> = BTreeMap::new();
    for sample in &outcome.path_samples {
        let name = || {
            let of = if outcome.transfers.len() > 1 { format!("{} ", sample.transfer + 1) } else { String::new() };
            format!("{of}{}", if sample.label.is_empty() { sample.path.to_string() } else { sample.label.clone() })
        };
        let (_, bytes, points) =
            lines.entry((sample.transfer, sample.path.0)).or_insert_with(|| (name(), 0, Vec::new()));
        *bytes = sample.bytes;
        let is_known = !matches!(sample.state, PathState::Silent | PathState::Closed);
        let known = value(sample).filter(|_| is_known);
        points.push((sample.time.as_secs_f64(), known.unwrap_or(f64::NAN)));
    }
    // One that never carried anything has no line.
    let used = lines.into_values().filter(|(_, bytes, points)| *bytes > 0 && points.iter().any(|(_, y)| y.is_finite()));
    draw(Chart::new(title, "time (s)", y), used)
}

/// A quantity of the links; idle links have zeros.
fn links(outcome: &Outcome, title: &str, y: &str, value: fn(&output::LinkUse) -> f64) -> Drawing {
    let mut lines: BTreeMap<(&str, &str, &str), Line> = BTreeMap::new();
    for (link, of) in output::all_uses(outcome) {
        let key = (link.link.as_str(), link.from.as_str(), link.to.as_str());
        let name = || format!("{} to {}", link.from, link.to);
        let (.., points) = lines.entry(key).or_insert_with(|| (name(), link.stats.out_bytes, Vec::new()));
        points.push((of.time.as_secs_f64(), value(&of)));
    }
    let used = lines.into_values().filter(|(_, bytes, points)| *bytes > 0 && points.iter().any(|(_, y)| *y > 0.0));
    draw(Chart::new(title, "time (s)", y), used)
}

/// The lines with the most bytes, the first in full colours, the others dashed.
fn draw(chart: Chart, all: impl Iterator<Item = Line>) -> Drawing {
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(_, bytes, _)| std::cmp::Reverse(*bytes));
    let left_out = all.len().saturating_sub(LINES_MAX);
    let chosen = all.into_iter().take(LINES_MAX).enumerate();
    let series = chosen.map(|(index, (name, _, points))| {
        let series = Series::new(&name, points);
        if index < COLOURS { series } else { series.dashed() }
    });
    Drawing { chart, series: series.collect(), left_out }
}

struct Drawing {
    chart: Chart,
    series: Vec<Series>,
    /// Lines beyond [`LINES_MAX`].
    left_out: usize,
}

//! Drawings that the experiments share.
use std::collections::BTreeSet;

use super::{
    schemes::{MAIN, Scheme},
    variants::{QUEUE_PACKETS, QUEUES_SWEPT},
    world::{Record, SAMPLE, SEGMENT_BYTES, Sample},
};
use crate::{
    Results,
    figures::{COLOURS, Chart, Series, lines},
};

/// A run that figures over time show, and its scheme.
pub(super) type Shown<'a> = (&'a Scheme, &'a Record);

/// The maximum number of paths whose windows are drawn: as many as there are colours, with and without dashes.
const WINDOWS_DRAWN_MAX: usize = 2 * COLOURS;

/// Windows of a run by path. `consumers` are those to show, each with a word before its paths; `more` is drawn too.
pub(super) fn windows(
    title: &str,
    results: &mut Results,
    (scheme, record): Shown<'_>,
    consumers: &[(usize, &str)],
    more: Vec<Series>,
) {
    let (mut series, left_out) = windows_of(record, consumers);
    series.extend(more);
    let chart = Chart {
        size: (900, 400),
        ..Chart::new(&format!("{title}, {}: windows", scheme.label), "time (s)", "window (packets)")
    };
    let left_out = match left_out {
        (0, _) => String::new(),
        (paths, share) => format!(
            " {paths} more paths, with {:.0} % of all windows over time, are left out: they were used least.",
            share * 100.0
        ),
    };
    results.captioned(
        format!("windows-{}", scheme.name),
        format!(
            "Windows of {} in its first run, by path where it has paths; zero while a path is not in use.{left_out}",
            scheme.label
        ),
        lines(&chart, &series),
    );
}

/// The first consumer's requests and arrivals, by scheme, over `samples` samples each.
pub(super) fn rates_by_scheme(title: &str, results: &mut Results, shown: &[Shown<'_>], samples: usize, begin: f64) {
    let Some((_, first)) = shown.first() else { return };
    let end = first.samples.last().map_or(begin + 1.0, |sample| sample.at);
    let curves: Vec<_> = shown.iter().map(|(_, record)| rates(record, 0, samples)).collect();
    let over = SAMPLE.as_secs_f64() * samples as f64;
    for (which, (name, what)) in
        [("requests", "asked for, what is asked for again too"), ("rates", "that arrives, each byte once")]
            .into_iter()
            .enumerate()
    {
        let series =
            shown.iter().zip(&curves).map(|((scheme, _), curves)| Series::new(scheme.label, curves[which].clone()));
        let chart = Chart {
            size: (900, 400),
            x_range: Some((begin, end)),
            ..Chart::new(&format!("{title}: content {what}"), "time (s)", "Mbit/s of content")
        };
        results.captioned(
            name,
            format!("Content {what}, over {over} s each, in the first runs."),
            lines(&chart, &series.collect::<Vec<_>>()),
        );
    }
}

/// A quantity by length of the queues, with 95 % confidence intervals.
pub(super) fn sweep(title: &str, results: &mut Results, quantity: &str, axis: &str) {
    let lengths = QUEUES_SWEPT.map(|length| (length, format!("@queue{length}"))).into_iter();
    let mut lengths: Vec<(u64, String)> = lengths.chain([(QUEUE_PACKETS, String::new())]).collect();
    lengths.sort();
    let series: Vec<Series> = MAIN
        .iter()
        .zip(0i32..)
        .map(|(scheme, place)| {
            let value = |what: &str, setting: &str| results.value(&format!("{}.{what}{setting}", scheme.name));
            // Side by side, so that the intervals do not overlap.
            let x = |length: u64| length as f64 + 1.5 * (f64::from(place) - MAIN.len() as f64 / 2.0);
            let lengths = lengths.iter().filter(|(_, setting)| value(quantity, setting).is_finite());
            let lengths: Vec<&(u64, String)> = lengths.collect();
            let points: Vec<(f64, f64)> =
                lengths.iter().map(|(length, setting)| (x(*length), value(quantity, setting))).collect();
            let half = |setting: &str| value(&format!("{quantity}_confidence"), setting);
            let ranges =
                lengths.iter().zip(&points).map(|((_, setting), (x, y))| (*x, y - half(setting), y + half(setting)));
            let ranges = ranges.collect();
            Series::new(scheme.label, points).styled(crate::figures::Style::Marked).with_ranges(ranges)
        })
        .collect();
    let chart = Chart {
        x_range: Some((0.0, QUEUES_SWEPT[1] as f64 + 20.0)),
        y_to: 1.0,
        ..Chart::new(&format!("{title}: length of the queues"), "queue of each link (packets)", axis)
    };
    results.captioned(
        "queues",
        format!(
            "The {axis} by the length of the drop-tail queues (20, 50 and 200 packets), means of all runs with 95 % \
             confidence intervals."
        ),
        lines(&chart, &series),
    );
}

/// The windows of consumers over time, a series for each path, prefixed by its consumer; and the number of paths left
/// out, with their share of all windows.
fn windows_of(record: &Record, consumers: &[(usize, &str)]) -> (Vec<Series>, (usize, f64)) {
    struct Path {
        label: String,
        points: Vec<(f64, f64)>,
        /// The sum of all samples.
        used: f64,
    }
    let mut paths = Vec::new();
    for (consumer, prefix) in consumers {
        let windows = |sample: &'_ Sample| sample.consumers[*consumer].windows.clone();
        let names: BTreeSet<String> = record.samples.iter().flat_map(windows).map(|(name, _)| name).collect();
        for name in names {
            let all = record.samples.iter().map(|sample| (sample.at, windows(sample).get(&name).copied()));
            let all: Vec<_> = all.skip_while(|(_, window)| window.is_none()).collect();
            let window = |at: Option<usize>| at.and_then(|at| all.get(at)).and_then(|(_, window)| *window);
            // Of a time without use the first and the last moment will do.
            let is_shown = |at: usize| {
                let near = [at.checked_sub(1), Some(at), Some(at + 1)];
                near.into_iter().any(|at| window(at).is_some())
            };
            let points = all.iter().enumerate().filter(|(at, _)| is_shown(*at));
            let points: Vec<(f64, f64)> = points.map(|(_, (at, window))| (*at, window.unwrap_or_default())).collect();
            paths.push(Path { label: format!("{prefix}{name}"), used: points.iter().map(|(_, of)| of).sum(), points });
        }
    }
    let mut by_use: Vec<f64> = paths.iter().map(|path| path.used).collect();
    by_use.sort_by(|a, b| b.total_cmp(a));
    let all: f64 = by_use.iter().sum();
    let least = by_use.get(WINDOWS_DRAWN_MAX - 1).copied().unwrap_or_default();
    let mut left_out = (0, 0.0);
    let mut series: Vec<Series> = Vec::new();
    for path in paths {
        if path.used < least || series.len() == WINDOWS_DRAWN_MAX {
            left_out = (left_out.0 + 1, left_out.1 + path.used / all.max(1.0));
            continue;
        }
        let of = Series::new(&path.label, path.points);
        series.push(if series.len() < COLOURS { of } else { of.dashed() });
    }
    (series, left_out)
}

/// Mbit/s of content that a consumer asks for and that arrives, over `samples` samples each.
pub(super) fn rates(record: &Record, consumer: usize, samples: usize) -> [Vec<(f64, f64)>; 2] {
    let mut curves = [Vec::new(), Vec::new()];
    for pair in record.samples.iter().step_by(samples).collect::<Vec<_>>().windows(2) {
        let [before, after] = [&pair[0].consumers[consumer], &pair[1].consumers[consumer]];
        let seconds = SAMPLE.as_secs_f64() * samples as f64;
        let requested = after.requested.saturating_sub(before.requested) * u64::from(SEGMENT_BYTES);
        let arrived = after.bytes.saturating_sub(before.bytes);
        for (curve, bytes) in curves.iter_mut().zip([requested, arrived]) {
            curve.push((pair[1].at, bytes as f64 * 8e-6 / seconds));
        }
    }
    curves
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::ptp::world::Seen;

    /// One consumer; at each of three moments the paths in use, path n with a window of n packets.
    fn record(in_use: [std::ops::Range<u32>; 3]) -> Record {
        let sample = |(at, paths): (usize, std::ops::Range<u32>)| Sample {
            at: at as f64,
            consumers: vec![Seen {
                windows: paths.map(|path| (format!("{path:02}"), f64::from(path))).collect(),
                ..Seen::default()
            }],
            ..Sample::default()
        };
        Record { samples: in_use.into_iter().enumerate().map(sample).collect() }
    }

    #[test]
    fn every_path_that_is_drawn_looks_its_own_way_and_what_is_left_out_is_told() {
        let (series, left_out) = windows_of(&record([1..27, 1..27, 1..27]), &[(0, "to ")]);
        assert_eq!((series.len(), left_out.0), (WINDOWS_DRAWN_MAX, 12));
        assert_eq!(series[0].label, "to 13", "those with the largest windows");
        let share = (1..13).sum::<u32>() as f64 / (1..27).sum::<u32>() as f64;
        assert!((left_out.1 - share).abs() < 1e-9, "{left_out:?}");
        for (at, one) in series.iter().enumerate() {
            let alike = series[..at].iter().enumerate().filter(|(other, of)| {
                crate::figures::colour(*other) == crate::figures::colour(at) && of.style == one.style
            });
            assert_eq!(alike.count(), 0, "{}", one.label);
        }
        let (few, left_out) = windows_of(&record([1..4, 1..4, 1..4]), &[(0, "")]);
        assert_eq!((few.len(), left_out), (3, (0, 0.0)));
    }

    #[test]
    fn a_path_that_is_not_in_use_has_no_window() {
        let (series, _) = windows_of(&record([2..4, 3..4, 2..4]), &[(0, "")]);
        assert_eq!(series[0].points, [(0.0, 2.0), (1.0, 0.0), (2.0, 2.0)]);
        let (series, _) = windows_of(&record([3..4, 2..4, 3..4]), &[(0, "")]);
        assert_eq!(series[0].points, [(1.0, 2.0), (2.0, 0.0)], "and none before it was known");
    }
}

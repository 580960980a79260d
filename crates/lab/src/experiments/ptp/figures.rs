//! Drawings that the experiments share.
use super::{
    schemes::{MAIN, Scheme},
    throughput::{Measured, Spec},
    variants::{QUEUE_PACKETS, QUEUES_SWEPT, Runs},
    world::{Record, SAMPLE, SEGMENT_BYTES},
};
use crate::{
    Results,
    figures::{Bar, BarGroup, Chart, Figure, Series, bars, lines},
    stats::{confidence, mean},
};

/// Utilisation of each link that the optimum uses, by what the optimum puts on it: the paper's figures 13, 14, 16, 17.
pub(super) fn links(spec: &Spec, results: &mut Results, main: &[&Runs<Measured>], optimum: &[u64]) {
    let hops = spec.topology.hops();
    let used: Vec<usize> = (0..hops.len()).filter(|at| optimum[*at] > 0).collect();
    let groups: Vec<BarGroup> = used
        .iter()
        .map(|at| {
            let (_, from, to) = hops[*at];
            let bars = main.iter().map(|runs| {
                let shares = runs.of(|run| run.hops[*at] / optimum[*at] as f64);
                Bar::with_spread(mean(&shares), confidence(&shares))
            });
            BarGroup { label: format!("{from}-{to}"), bars: bars.collect() }
        })
        .collect();
    let chart = Chart {
        size: (if groups.len() > 9 { 1200 } else { 900 }, 400),
        y_to: 1.0,
        ..Chart::new(&format!("{}: use of each link", spec.title), "link", "measured / optimum")
    };
    let names: Vec<&str> = main.iter().map(|runs| runs.variant.scheme.label).collect();
    results.figures.push(Figure {
        name: "links".into(),
        caption: "Throughput of each link on the wire by what one maximum flow puts on it, means with 95 % confidence \
                  intervals. The first link carries everything that the consumer gets. Where there are several optima, a \
                  link beyond the first may have less than 1 while another has more."
            .into(),
        svg: bars(&chart, &names, &groups),
    });
}

/// The runs that figures over time show, by scheme.
fn shown<'a>(main: &'a [&Runs<Measured>]) -> impl Iterator<Item = (&'a Scheme, &'a Record)> {
    main.iter().filter_map(|runs| Some((&runs.variant.scheme, runs.values.first()?.record.as_ref()?)))
}

/// Windows and rates of the first run.
pub(super) fn over_time(spec: &Spec, results: &mut Results, main: &[&Runs<Measured>]) {
    for (scheme, record) in shown(main) {
        let series = windows(record, 0, "");
        let chart = Chart {
            size: (900, 400),
            ..Chart::new(&format!("{}, {}: windows", spec.title, scheme.label), "time (s)", "window (packets)")
        };
        results.figures.push(Figure {
            name: format!("windows-{}", scheme.name),
            caption: format!("Windows of {} in its first run, by path where it has paths.", scheme.label),
            svg: lines(&chart, &series),
        });
    }
    let rates: Vec<_> = shown(main).map(|(scheme, record)| (scheme.label, rates(record, 0, 10))).collect();
    for (which, (name, what)) in
        [("requests", "asked for, what is asked for again too"), ("rates", "that arrives, each byte once")]
            .into_iter()
            .enumerate()
    {
        let series = rates.iter().map(|(label, rates)| Series::new(label, rates[which].clone()));
        let chart = Chart {
            size: (900, 400),
            ..Chart::new(&format!("{}: content {what}", spec.title), "time (s)", "Mbit/s of content")
        };
        results.figures.push(Figure {
            name: name.into(),
            caption: format!("Content {what}, over one second each, in the first runs."),
            svg: lines(&chart, &series.collect::<Vec<_>>()),
        });
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
            // Side by side, so that intervals do not cover each other.
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
    results.figures.push(Figure {
        name: "queues".into(),
        caption: format!(
            "The {axis} by the length of the drop-tail queues (20, 50 and 200 packets), means of all runs with 95 % \
             confidence intervals."
        ),
        svg: lines(&chart, &series),
    });
}

/// The windows of a consumer over time, one series for each path, `prefix` before its name.
pub(super) fn windows(record: &Record, consumer: usize, prefix: &str) -> Vec<Series> {
    let mut names: Vec<&String> =
        record.samples.iter().flat_map(|sample| sample.consumers[consumer].windows.keys()).collect();
    names.sort();
    names.dedup();
    let series = names.into_iter().map(|name| {
        let points = record
            .samples
            .iter()
            .filter_map(|sample| Some((sample.at, *sample.consumers[consumer].windows.get(name)?)));
        Series::new(&format!("{prefix}{name}"), points.collect())
    });
    series.collect()
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

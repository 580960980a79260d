//! Drawings that the experiments share.
use super::{
    schemes::{MAIN, Scheme},
    throughput::{Measured, QUEUE_PACKETS, Spec},
    world::{Record, SAMPLE, SEGMENT_BYTES},
};
use crate::{
    Results,
    figures::{Bar, BarGroup, Chart, Figure, Series, bars, lines},
    stats::{confidence, mean},
};

/// Utilisation of each link that the optimum uses, by what the optimum puts on it: the paper's figures 13, 14, 16, 17.
pub(super) fn links(spec: &Spec, results: &mut Results, main: &[(&Scheme, &[&Measured])], optimum: &[u64]) {
    let hops = spec.topology.hops();
    let used: Vec<usize> = (0..hops.len()).filter(|at| optimum[*at] > 0).collect();
    let groups: Vec<BarGroup> = used
        .iter()
        .map(|at| {
            let (_, from, to) = hops[*at];
            let bars = main.iter().map(|(_, measured)| {
                let shares: Vec<f64> =
                    measured.iter().map(|measured| measured.hops[*at] / optimum[*at] as f64).collect();
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
    let names: Vec<&str> = main.iter().map(|(scheme, _)| scheme.label).collect();
    results.figures.push(Figure {
        name: "links".into(),
        caption: "Throughput of each link on the wire by what one maximum flow puts on it, means with 95 % confidence \
                  intervals. The first link carries everything that the consumer gets. Where there are several optima, a \
                  link beyond the first may have less than 1 while another has more."
            .into(),
        svg: bars(&chart, &names, &groups),
    });
}

/// Windows and rates of the first run.
pub(super) fn over_time(spec: &Spec, results: &mut Results, main: &[(&Scheme, &[&Measured])]) {
    for (scheme, measured) in main {
        let Some(first) = measured.first() else { continue };
        let series = windows(&first.record, 0, "");
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
    let mut series = Vec::new();
    for (at, (scheme, measured)) in main.iter().enumerate() {
        let Some(first) = measured.first() else { continue };
        let [requests, data] = rates(&first.record, 0, 10);
        series.push(Series::new(scheme.label, data).coloured(at));
        if at == 0 {
            series.push(Series::new(&format!("{}, requests", scheme.label), requests).coloured(at).dashed());
        }
    }
    let chart = Chart {
        size: (900, 400),
        ..Chart::new(&format!("{}: content per second", spec.title), "time (s)", "Mbit/s of content")
    };
    results.figures.push(Figure {
        name: "rates".into(),
        caption: "Content that arrives, each byte once, and for PTP the content asked for (dashed), over one second each, in \
                  the first runs."
            .into(),
        svg: lines(&chart, &series),
    });
}

/// Utilisation by length of the queues.
pub(super) fn sweep(spec: &Spec, results: &mut Results) {
    let series: Vec<Series> = MAIN
        .iter()
        .map(|scheme| {
            let value = |setting: &str| results.value(&format!("{}.utilisation{setting}", scheme.name));
            let points =
                vec![(20.0, value("@queue20")), (QUEUE_PACKETS as f64, value("")), (200.0, value("@queue200"))];
            Series::new(scheme.label, points).styled(crate::figures::Style::Marked)
        })
        .collect();
    let chart = Chart {
        is_x_logarithmic: true,
        y_to: 1.0,
        ..Chart::new(&format!("{}: length of the queues", spec.title), "queue of each link (packets)", "utilisation")
    };
    results.figures.push(Figure {
        name: "queues".into(),
        caption: "Utilisation of the maximum flow by the length of the drop-tail queues, means of all runs.".into(),
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

//! PTP §6 D, scenario 3: a fetch over two paths beside a fetch over one, on one narrow link.
use tributary::simulation::parallel;
use tributary_core::Time;

use super::{
    figures,
    schemes::{MAIN, Scheme},
    throughput::{QUEUE_PACKETS, start_of},
    topology::Topology,
    world::{self, Object, Plan, Record, Start},
};
use crate::{
    Experiment, Results, Settings, Table,
    figures::{Bar, BarGroup, Chart, Figure, Series, bars, lines},
    stats::{confidence, mean},
};

/// The entry of the table.
pub(in crate::experiments) const EXPERIMENT: Experiment = Experiment {
    name: "ptp-fairness",
    title: "a fetch over two paths beside a fetch over one, on one narrow link",
    paper: "PTP §6 D, Figs. 19 and 20",
    runs: 10,
    run,
};

/// The single-path fetch's part in the paper.
const PAPER: [(&str, f64); 5] =
    [("ptp", 0.48), ("ptp-default", 0.48), ("rfa-raaqm", 0.38), ("rfa-chopcop", 0.49), ("paf-raaqm", 0.41)];
/// The narrow link's rate in kbit/s.
const NARROW_KBPS: u64 = 2_000;

pub(super) fn topology() -> Topology {
    Topology::new(&[
        (1, 3, 10_000, 5),
        (2, 3, 10_000, 5),
        (3, 4, NARROW_KBPS, 10),
        (4, 5, 10_000, 5),
        (4, 6, 10_000, 5),
    ])
}

/// A run of `seconds`: consumer 1 fetches A from 5 and 6, consumer 2 fetches B from 5.
pub(super) fn record(scheme: &Scheme, objects: &[Object], seconds: f64, seed: u64) -> Record {
    let start = |node, object| Start { node, object, at: start_of(seed.wrapping_add(u64::from(node))), plain: None };
    world::run(&Plan {
        topology: &topology(),
        scheme,
        objects,
        consumers: vec![start(1, 0), start(2, 1)],
        caches: Vec::new(),
        queue_packets: QUEUE_PACKETS,
        until: Time::from_nanos((seconds * 1e9) as u64),
        seed,
    })
}

/// The two objects, large enough for `seconds`.
pub(super) fn objects(seconds: f64) -> [Object; 2] {
    let bytes = (NARROW_KBPS as f64 * 125.0 * seconds) as u64;
    [Object::new("A", bytes, &[5, 6]), Object::new("B", bytes, &[5])]
}

/// Content bytes of each consumer after `skipped` seconds, and Mbit/s on the narrow link.
pub(super) fn parts(record: &Record, skipped: f64) -> ([f64; 2], f64) {
    let first = record.samples.iter().find(|sample| sample.at >= skipped - 1e-9).expect("runs are longer than that");
    let last = record.samples.last().expect("a run has samples");
    let bytes = [0, 1].map(|at: usize| (last.consumers[at].bytes - first.consumers[at].bytes) as f64);
    (bytes, (last.wire[2] - first.wire[2]) as f64 * 8e-6 / (last.at - first.at))
}

fn run(settings: &Settings) -> Results {
    let (seconds, skipped) = settings.choose((300.0, 60.0), (60.0, 20.0));
    let mut results = Results::new(EXPERIMENT.name, settings);
    let objects = objects(seconds);
    let items: Vec<(&Scheme, u64)> =
        MAIN.iter().flat_map(|scheme| (0..settings.runs).map(move |run| (scheme, settings.seed_of(0, run)))).collect();
    let records = parallel::map(&items, |(scheme, seed)| record(scheme, &objects, seconds, *seed));
    let mut table =
        Table::new("shares", &["scheme", "run", "single (share)", "several (share)", "narrow link (Mbit/s)"]);
    let mut groups = Vec::new();
    for (scheme, records) in MAIN.iter().zip(records.chunks(settings.runs as usize)) {
        let rows: Vec<_> = records.iter().map(|record| parts(record, skipped)).collect();
        let shares: Vec<f64> = rows.iter().map(|([several, single], _)| single / (single + several).max(1.0)).collect();
        let used: Vec<f64> = rows.iter().map(|(_, mbps)| mbps * 1e3 / NARROW_KBPS as f64).collect();
        let name = scheme.name;
        let paper = PAPER.iter().find(|(known, _)| *known == name).map(|(_, share)| *share);
        match paper {
            Some(paper) => results.beside(format!("{name}.single_share"), mean(&shares), "share", paper),
            None => results.metric(format!("{name}.single_share"), mean(&shares), "share"),
        }
        results.metric(format!("{name}.single_share_confidence"), confidence(&shares), "share");
        results.metric(format!("{name}.utilisation"), mean(&used), "share");
        results.metric(format!("{name}.utilisation_confidence"), confidence(&used), "share");
        for (run, (share, used)) in (1..).zip(shares.iter().zip(&used)) {
            let cells =
                [format!("{run}"), format!("{share:.4}"), format!("{:.4}", 1.0 - share), format!("{:.4}", used * 2.0)];
            table.push([name.to_string()].into_iter().chain(cells).collect());
        }
        groups.push(BarGroup {
            label: scheme.label.into(),
            bars: vec![Bar::with_spread(mean(&shares), confidence(&shares)).map(|bar| Bar { paper, ..bar })],
        });
        over_time(&mut results, scheme, &records[0]);
    }
    results.tables.push(table);
    let chart =
        Chart { y_to: 0.6, size: (900, 380), ..Chart::new("Part of the fetch over one path", "", "share of both") };
    results.figures.insert(
        0,
        Figure {
            name: "shares".into(),
            caption:
                "What of the narrow link's content the fetch over one path gets, means with 95 % confidence intervals; \
                      one half is fair. Dashed: the paper's."
                    .into(),
            svg: bars(&chart, &["one path"], &groups),
        },
    );
    describe(&mut results, seconds, skipped);
    results
}

fn over_time(results: &mut Results, scheme: &Scheme, record: &Record) {
    let sum = |at: usize| {
        record.samples.iter().map(|sample| (sample.at, sample.consumers[at].windows.values().sum())).collect::<Vec<_>>()
    };
    let windows = vec![Series::new("several paths, sum", sum(0)), Series::new("one path", sum(1))];
    let chart =
        Chart { size: (900, 360), ..Chart::new(&format!("{}: windows", scheme.label), "time (s)", "window (packets)") };
    results.figures.push(Figure {
        name: format!("windows-{}", scheme.name),
        caption: format!(
            "Windows of both fetches under {} in its first run (the paper's Figs. 19 and 20).",
            scheme.label
        ),
        svg: lines(&chart, &windows),
    });
    let rate = |at| figures::rates(record, at, 20)[1].clone();
    let rates = vec![Series::new("several paths", rate(0)), Series::new("one path", rate(1))];
    let chart = Chart {
        size: (900, 360),
        ..Chart::new(&format!("{}: content", scheme.label), "time (s)", "Mbit/s of content")
    };
    results.figures.push(Figure {
        name: format!("rates-{}", scheme.name),
        caption: format!("Content of both fetches under {} in its first run, over two seconds each.", scheme.label),
        svg: lines(&chart, &rates),
    });
}

fn describe(results: &mut Results, seconds: f64, skipped: f64) {
    results.parameter("run", format!("{seconds} s, of which the first {skipped} s are not counted"));
    results.parameter("narrow link 3-4", "2 Mbit/s, 10 ms, drop-tail queue of 50 packets");
    results.parameter("other links", "10 Mbit/s, 5 ms");
    results.note(
        "A reconstruction: the paper tells the topology and who fetches what, not the rates and delays. Both fetches begin \
         within the first tenth of a second.",
    );
}

//! MFTP §5.1: a large file over a wireless last hop, six profiles of round-trip time and loss.
use tributary_content::MemoryObject;
use tributary_core::{Duration, Time};

use super::network::{LABELS, RIVALS, START, describe, figure_7, payload_share, record_conservation, unaccounted};
use crate::{
    Results, Settings, Table,
    comparison::RivalDownload,
    figures::{Bar, BarGroup, Chart, Series, bars, lines},
    optimum::{self, MFTP_PAYLOAD_SHARE},
    runs::each,
    simulation::{Scenario, parallel},
    stats::mean,
    wide_area::{file, file_name},
};

const RTTS_MS: [u64; 3] = [10, 50, 100];
const LOSSES: [f64; 2] = [0.0, 0.01];
/// The interval over which goodput is averaged, as in the paper's Fig. 8(b).
const INTERVAL: Duration = Duration::from_millis(500);
/// The profile of Fig. 8(b).
const SHOWN: (u64, f64) = (50, 0.01);

struct Item {
    seed: u64,
    rtt_ms: u64,
    loss: f64,
    object: MemoryObject,
}

fn scenario(item: &Item) -> Scenario {
    let mut scenario = figure_7(item.seed, Duration::from_millis(item.rtt_ms), item.loss, &|_| {});
    scenario.publish("n1", Time::ZERO, item.object.clone());
    scenario.fetch("n4", START, file_name());
    scenario.sampling = Some(INTERVAL);
    scenario
}

/// Results of one run.
#[derive(Default)]
struct Row {
    seconds: Option<f64>,
    /// Mbit/s in each interval.
    over_time: Vec<(f64, f64)>,
    unaccounted: u64,
}

/// Differences of a count of bytes, as Mbit/s.
fn rates(progress: &[(f64, u64)]) -> Vec<(f64, f64)> {
    let pairs = progress.windows(2).filter(|pair| pair[1].0 > pair[0].0);
    pairs.map(|pair| (pair[1].0, (pair[1].1 - pair[0].1) as f64 * 8e-6 / (pair[1].0 - pair[0].0))).collect()
}

pub(in crate::experiments) fn run(settings: &Settings, results: &mut Results) {
    let bytes = settings.choose(400_000_000, 6_000_000);
    let object = file(bytes);
    let mut table = Table::new("goodput", &["variant", "rtt_ms", "loss", "run", "goodput_mbps"]);
    let mut groups = Vec::new();
    let mut shown = Vec::new();
    let mut lost = vec![0; RIVALS.len() + 1];
    for loss in LOSSES {
        for rtt_ms in RTTS_MS {
            let setting = format!("rtt{rtt_ms}-loss{}", (loss * 100.0) as u32);
            let items: Vec<_> = (0..settings.runs)
                .map(|run| Item { seed: settings.seed_of(rtt_ms, run), rtt_ms, loss, object: object.clone() })
                .collect();
            let bound = optimum::mbps_of(MFTP_PAYLOAD_SHARE, &scenario(&items[0]), &["n1"], "n4");
            results.metric(format!("optimum.goodput_mbps@{setting}"), bound, "mbps");
            let mut bars = Vec::new();
            for (index, (name, rows)) in all(&items, bytes as u64).into_iter().enumerate() {
                let goodput: Vec<f64> =
                    rows.iter().filter_map(|row| Some(bytes as f64 * 8e-6 / row.seconds?)).collect();
                results.metric(format!("{name}.goodput_mbps@{setting}"), mean(&goodput), "mbps");
                let own_bound = bound * payload_share(&name) / MFTP_PAYLOAD_SHARE;
                results.metric(format!("{name}.utilisation@{setting}"), mean(&goodput) / own_bound, "share");
                lost[index] += rows.iter().map(|row| row.unaccounted).sum::<u64>();
                for (run, mbps) in (1..).zip(&goodput) {
                    let cells = [name.clone(), format!("{rtt_ms}"), format!("{loss}"), format!("{run}")];
                    table.push(cells.into_iter().chain([format!("{mbps:.4}")]).collect());
                }
                if (rtt_ms, loss) == SHOWN
                    && let Some(row) = rows.into_iter().next()
                {
                    shown.push(Series::new(LABELS[index], row.over_time));
                }
                bars.push(Bar::of(&goodput));
            }
            bars.push(Bar::new(bound));
            groups.push(BarGroup { label: format!("{rtt_ms} ms, {} %", loss * 100.0), bars });
        }
    }
    results.tables.push(table);
    kept(results);
    record_conservation(results, "mftp", lost[0]);
    record_conservation(results, "rivals", lost[1..].iter().sum());
    results.tables.push(over_time(&shown));
    figures(results, &groups, shown);
    results.parameter("object", format!("{bytes} bytes"));
    describe(results);
}

/// Everybody's runs, MFTP's first.
fn all(items: &[Item], bytes: u64) -> Vec<(String, Vec<Row>)> {
    let ours = each(items, scenario, |_, _, outcome| {
        let transfer = &outcome.transfers[0];
        let seconds = transfer.seconds().filter(|_| transfer.is_complete());
        let mut progress: Vec<(f64, u64)> = vec![(0.0, 0)];
        progress.extend(outcome.samples_of(0).map(|sample| (sample.time.since(START).as_secs_f64(), sample.bytes)));
        Row { seconds, over_time: rates(&progress), unaccounted: unaccounted(&outcome) }
    });
    let mut all = vec![("mftp".to_string(), ours)];
    for (rival, _) in RIVALS {
        let rows = parallel::map(items, |item| {
            let scenario = scenario(item);
            let mut comparison = RivalDownload::measured(rival, &scenario, "n1", "n4", bytes, START);
            let (seconds, progress) = comparison.seconds_and_progress(scenario.limit, INTERVAL);
            Row { seconds, over_time: rates(&progress), unaccounted: comparison.unaccounted_packets() }
        });
        all.push((rival.name().to_string(), rows));
    }
    all
}

/// Rows of Fig. 8(b).
fn over_time(shown: &[Series]) -> Table {
    let mut table = Table::new("goodput-over-time", &["variant", "seconds_since_request", "goodput_mbps"]);
    for of in shown {
        let row = |(time, mbps): &(f64, f64)| vec![of.label.clone(), format!("{time:.3}"), format!("{mbps:.4}")];
        of.points.iter().for_each(|point| table.push(row(point)));
    }
    table
}

/// What 1 % of loss leaves of the goodput without.
fn kept(results: &mut Results) {
    let names = std::iter::once("mftp").chain(RIVALS.iter().map(|(rival, _)| rival.name()));
    for name in names {
        for rtt in RTTS_MS {
            let of = |loss: u32| results.value(&format!("{name}.goodput_mbps@rtt{rtt}-loss{loss}"));
            let (kept, metric) = (of(1) / of(0), format!("{name}.kept@rtt{rtt}"));
            match (name, rtt) {
                ("mftp", _) => results.comparison(metric, kept, "share", 0.9),
                ("tcp-cubic", 50) => results.comparison(metric, kept, "share", 0.25),
                _ => results.metric(metric, kept, "share"),
            }
        }
    }
}

fn figures(results: &mut Results, groups: &[BarGroup], shown: Vec<Series>) {
    let names: Vec<&str> = LABELS.into_iter().chain(["optimum"]).collect();
    let chart =
        Chart::new("Goodput of a large file over a lossy last hop", "round-trip time, loss", "goodput (Mbit/s)");
    results.figure("fig8a", bars(&chart, &names, groups));
    let chart = Chart::new(
        "Goodput over time, 50 ms and 1 % loss",
        "time since the request (s)",
        "goodput per 500 ms (Mbit/s)",
    );
    results.figure("fig8b", lines(&Chart { x_range: Some((0.0, end(&shown))), ..chart }, &shown));
}

/// The first minute, or the whole run if all end sooner.
fn end(shown: &[Series]) -> f64 {
    let last = shown.iter().flat_map(|of| of.points.last()).map(|(time, _)| *time).fold(0.0, f64::max);
    last.clamp(1.0, 60.0)
}

//! A request at a random moment of ten seconds in which the receiver is connected; then it is away for some time. The
//! start of the absence, within a second, and its length, within a tenth, are drawn as well: neighbours' hellos,
//! storage timers and retransmission timeouts are in another phase each time.
use tributary_content::MemoryObject;
use tributary_core::{
    Duration, Random, Time,
    link::{LinkChange, LinkState},
};
use tributary_mf::Config;

use super::network::{LAST_HOP, START, about, figure_7, unaccounted};
use crate::{
    Results, Settings, Table,
    comparison::RivalDownload,
    figures::Series,
    optimum::{self, MFTP_PAYLOAD_SHARE},
    rivals::Rival,
    runs::run,
    simulation::{Scenario, parallel},
    stats::{mean, quantile},
    wide_area::file_name,
};

/// How long the receiver is connected before it disconnects.
pub(super) const CONNECTED: Duration = Duration::from_secs(10);
/// The round-trip time between the routers.
const RTT: Duration = Duration::from_millis(50);

/// One request.
#[derive(Clone)]
pub(super) struct Item {
    seed: u64,
    request: Time,
    down: Time,
    outage: Duration,
    object: MemoryObject,
}

/// The requests of all runs: equal moments for all variants, and for every length of the outage.
pub(super) fn items(settings: &Settings, outage: Duration, object: &MemoryObject) -> Vec<Item> {
    let item = |run| {
        let seed = settings.seed_of(1, run);
        let mut random = Random::new(seed, REQUEST_STREAM);
        let down = START + CONNECTED + PHASE_MAX.mul_f64(random.unit());
        let before = CONNECTED.mul_f64(random.unit());
        Item { seed, request: down - before, down, outage: about(outage, &mut random), object: object.clone() }
    };
    (0..settings.runs).map(item).collect()
}
/// The largest delay of an outage's start.
const PHASE_MAX: Duration = Duration::from_secs(1);
const REQUEST_STREAM: u64 = 0x0a7a9e;

impl Item {
    /// The scenario with the outage, or as it would be without.
    fn scenario(&self, is_disturbed: bool, set: &dyn Fn(&mut Config)) -> Scenario {
        let mut scenario = figure_7(self.seed, RTT, 0.0, set);
        scenario.publish("n1", Time::ZERO, self.object.clone());
        scenario.fetch("n4", self.request, file_name());
        if is_disturbed {
            scenario.change_link(self.down, LAST_HOP, LinkChange::State(LinkState::Down));
            scenario.change_link(self.down + self.outage, LAST_HOP, LinkChange::State(LinkState::Up));
        }
        scenario.limit = self.request + Duration::from_secs(600);
        scenario
    }
    fn bytes(&self) -> u64 {
        use tributary_content::ObjectReader;
        self.object.manifest().size
    }
    /// The least time in which the links could have carried it.
    pub(super) fn optimum(&self) -> f64 {
        let scenario = self.scenario(true, &|_| {});
        optimum::seconds_of(MFTP_PAYLOAD_SHARE, &scenario, &["n1"], "n4", self.bytes(), self.request).unwrap_or(0.0)
    }
    /// The results of the two: with the outage, and without.
    fn row(&self, disturbed: Option<f64>, undisturbed: Option<f64>, unaccounted: u64) -> Row {
        let connected = self.down.since(self.request).as_secs_f64();
        let lost = disturbed.zip(undisturbed).and_then(|(with, without)| {
            // Without the outage it would have finished in time: nothing to lose.
            (without > connected).then_some(with - without - self.outage.as_secs_f64())
        });
        Row { response: disturbed, lost, unaccounted }
    }
}

/// The result of one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Seconds from the request to the last verified byte.
    pub(super) response: Option<f64>,
    /// Seconds beyond the sum of the outage and the request's time without it; `None` if it was done before.
    pub(super) lost: Option<f64>,
    unaccounted: u64,
}

/// MFTP's runs.
pub(super) fn ours(items: &[Item], set: impl Fn(&mut Config) + Sync) -> Vec<Row> {
    parallel::map(items, |item| {
        let mut lost = 0;
        let mut seconds = |is_disturbed| {
            let outcome = run(&item.scenario(is_disturbed, &set));
            lost += unaccounted(&outcome);
            outcome.transfers[0].seconds().filter(|_| outcome.transfers[0].is_complete())
        };
        let (disturbed, undisturbed) = (seconds(true), seconds(false));
        item.row(disturbed, undisturbed, lost)
    })
}
/// A rival's runs.
pub(super) fn rivals(rival: Rival, items: &[Item]) -> Vec<Row> {
    parallel::map(items, |item| {
        let mut lost = 0;
        let mut seconds = |is_disturbed| {
            let scenario = item.scenario(is_disturbed, &|_| {});
            let mut comparison = RivalDownload::measured(rival, &scenario, "n1", "n4", item.bytes(), item.request);
            let seconds = comparison.seconds(scenario.limit);
            lost += comparison.unaccounted_packets();
            seconds
        };
        let (disturbed, undisturbed) = (seconds(true), seconds(false));
        item.row(disturbed, undisturbed, lost)
    })
}

/// Tells a variant: response times by quantile, time lost beyond the ideal, requests that never ended.
pub(super) fn tell(results: &mut Results, table: &mut Table, variant: &str, setting: &str, rows: &[Row]) {
    let responses: Vec<f64> = rows.iter().filter_map(|row| row.response).collect();
    let lost: Vec<f64> = rows.iter().filter_map(|row| row.lost).collect();
    let mut put = |quantity: &str, value: f64, unit: &str| {
        results.metric(format!("{variant}.{quantity}@{setting}"), value, unit);
    };
    put("response_seconds_mean", mean(&responses), "seconds");
    for (word, share) in [("50", 0.5), ("60", 0.6), ("70", 0.7), ("90", 0.9), ("max", 1.0)] {
        put(&format!("response_seconds_{word}"), quantile(&responses, share), "seconds");
    }
    put("interrupted", lost.len() as f64, "count");
    put("lost_seconds_mean", mean(&lost), "seconds");
    put("lost_seconds_max", quantile(&lost, 1.0), "seconds");
    put("failed", (rows.len() - responses.len()) as f64, "count");
    put("unaccounted_packets", rows.iter().map(|row| row.unaccounted).sum::<u64>() as f64, "count");
    for (run, row) in (1..).zip(rows) {
        let cell = |value: Option<f64>| value.map(|value| format!("{value:.4}")).unwrap_or_default();
        table.push(vec![variant.into(), setting.into(), format!("{run}"), cell(row.response), cell(row.lost)]);
    }
}
/// A table for [`tell`].
pub(super) fn table() -> Table {
    Table::new("responses", &["variant", "setting", "run", "response_seconds", "lost_seconds"])
}

/// The distribution of values as a step line.
pub(super) fn distribution(label: &str, values: impl Iterator<Item = f64>) -> Series {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let steps = sorted
        .iter()
        .zip(0..)
        .flat_map(|(value, before)| [(*value, f64::from(before) / count), (*value, f64::from(before + 1) / count)]);
    Series::new(label, steps.collect())
}
/// The distribution of a variant's response times.
pub(super) fn responses(label: &str, rows: &[Row]) -> Series {
    distribution(label, rows.iter().filter_map(|row| row.response))
}

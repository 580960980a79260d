//! MFTP §5.2.1: a network that delivers held chunks unprompted, against a receiver that must ask again.
use tributary_core::Duration;
use tributary_mf::{Config, config::Rebinding};

use super::{
    network::{RIVALS, describe},
    outage::{distribution, items, ours, responses, rivals, table, tell},
};
use crate::{
    Results, Settings,
    figures::{Chart, lines},
    stats::mean,
    wide_area::file,
};

/// Name, label and settings.
type Variant = (&'static str, &'static str, fn(&mut Config));

const VARIANTS: [Variant; 4] = [
    ("proactive", "network-proactive, watching the name", |_| {}),
    ("proactive-timer", "network-proactive, storage timer of 1 s", |config| config.proxy.rebinding = Rebinding::Timer),
    ("receiver-driven", "receiver-driven, NACK timeout of 1 s", |config| {
        config.proxy.rebinding = Rebinding::Never;
        config.transfer.nack_timeout = Duration::from_secs(1);
    }),
    ("receiver-driven-3s", "receiver-driven, NACK timeout of 3 s", |config| {
        config.proxy.rebinding = Rebinding::Never;
    }),
];

pub(in crate::experiments) fn run(settings: &Settings, results: &mut Results) {
    let bytes = settings.choose(10_000_000, 4_000_000);
    let mut table = table();
    let items = items(settings, Duration::from_secs(10), &file(bytes));
    let optima: Vec<f64> = items.iter().map(super::outage::Item::optimum).collect();
    results.metric("optimum.response_seconds_mean@outage10", mean(&optima), "seconds");
    let mut series = Vec::new();
    for (variant, label, set) in VARIANTS {
        let rows = ours(&items, set);
        tell(results, &mut table, variant, "outage10", &rows);
        series.push(responses(label, &rows));
    }
    for (rival, label) in RIVALS {
        let rows = rivals(rival, &items);
        tell(results, &mut table, rival.name(), "outage10", &rows);
        series.push(responses(label, &rows).dashed());
    }
    series.push(distribution("optimum", optima.into_iter()).coloured(6));
    results.tables.push(table);
    let mut chart = Chart::new("Response times by who resumes, 10 s away", "response time (s)", "share of requests");
    (chart.y_to, chart.size.1) = (1.0, 460);
    results.figure("fig10", lines(&chart, &series));
    results.parameter("object", format!("{bytes} bytes"));
    describe(results);
}

//! MFTP §5.2.1: a network that delivers held chunks unprompted, against a receiver that must ask again.
use tributary_core::Duration;
use tributary_mf::{Config, config::Rebinding};

use super::{
    network::{RIVALS, describe},
    outage::{distribution, items, ours, responses, rivals, table, tell},
};
use crate::{
    Experiment, Results, Settings,
    figures::{Chart, Figure, lines},
    stats::mean,
    wide_area::file,
};

/// The entry of the table.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "mftp-proactive",
    title: "10 s without connection: the network resumes unprompted, or when the receiver asks again",
    paper: "MFTP §5.2.1, Fig. 10",
    runs: 30,
    run,
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

fn run(settings: &Settings) -> Results {
    let bytes = settings.choose(10_000_000, 4_000_000);
    let mut results = Results::new(EXPERIMENT.name, settings);
    let mut table = table();
    let items = items(settings, Duration::from_secs(10), &file(bytes));
    let optima: Vec<f64> = items.iter().map(super::outage::Item::optimum).collect();
    results.metric("optimum.response_seconds_mean@outage10", mean(&optima), "seconds");
    let mut series = Vec::new();
    for (variant, label, set) in VARIANTS {
        let rows = ours(&items, set);
        tell(&mut results, &mut table, variant, "outage10", &rows);
        series.push(responses(label, &rows));
    }
    for (rival, label) in RIVALS {
        let rows = rivals(rival, &items);
        tell(&mut results, &mut table, rival.name(), "outage10", &rows);
        series.push(responses(label, &rows).dashed());
    }
    series.push(distribution("optimum", optima.into_iter()).coloured(6));
    results.tables.push(table);
    let mut chart = Chart::new("Response times by who resumes, 10 s away", "response time (s)", "share of requests");
    (chart.y_to, chart.size.1) = (1.0, 460);
    results.figures.push(Figure {
        name: "fig10".into(),
        caption: "The paper's Fig. 10: the tail of the receiver-driven curves is the wait for the NACK timeout.".into(),
        svg: lines(&chart, &series),
    });
    results.parameter("object", format!("{bytes} bytes"));
    results.parameter(
        "NACK timeouts",
        "3 s where the network resumes (conservative), 1 s and 3 s where the receiver does",
    );
    results.parameter("away", "10 s, a tenth less or more, at a different moment in each run");
    describe(&mut results);
    results.note(
        "As in the paper, the receiver-driven proxy never sends unprompted: the receiver's NACK goes to the server, \
         which knows from a Store message where the chunks are, and answers with a Push to that proxy.",
    );
    results.note(
        "TCP and QUIC store nothing in the network: their counterpart is the connection that both ends keep over the outage, \
         and whose sender tries again by its own timer.",
    );
    results
}

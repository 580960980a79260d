//! MFTP §5.2: the receiver disconnects for 10 or 30 seconds during a file transfer.
use tributary_core::Duration;

use super::{
    network::{RIVALS, describe},
    outage::{Row, distribution, items, ours, responses, rivals, table, tell},
};
use crate::{
    Results, Settings,
    figures::{Chart, lines},
    stats::{mean, quantile},
    wide_area::file,
};

const OUTAGES: [u64; 2] = [10, 30];

pub(in crate::experiments) fn run(settings: &Settings, results: &mut Results) {
    let bytes = settings.choose(10_000_000, 4_000_000);
    let mut table = table();
    let object = file(bytes);
    for seconds in OUTAGES {
        let setting = format!("outage{seconds}");
        let items = items(settings, Duration::from_secs(seconds), &object);
        let optima: Vec<f64> = items.iter().map(super::outage::Item::optimum).collect();
        results.metric(format!("optimum.response_seconds_mean@{setting}"), mean(&optima), "seconds");
        let mut all: Vec<(&str, &str, Vec<Row>)> = vec![("mftp", "MFTP", ours(&items, |_| {}))];
        for (rival, label) in RIVALS {
            all.push((rival.name(), label, rivals(rival, &items)));
        }
        for (variant, _, rows) in &all {
            tell(results, &mut table, variant, &setting, rows);
        }
        advantage(results, &all, seconds, &setting);
        let mut series: Vec<_> = all.iter().map(|(_, label, rows)| responses(label, rows)).collect();
        series.push(distribution("optimum", optima.into_iter()).dashed().coloured(6));
        let title = format!("Response times with {seconds} s without connection");
        let mut chart = Chart::new(&title, "response time (s)", "share of requests");
        chart.y_to = 1.0;
        results.captioned(format!("fig9-{seconds}s"), format!(
                "The paper's Fig. 9 for {seconds} s: of the requests, the share that was answered within a time. Those that \
                 were done before the receiver went away are the steep part on the left."
            ), lines(&chart, &series));
    }
    results.tables.push(table);
    results.parameter("object", format!("{bytes} bytes"));
    describe(results);
}

/// MFTP's advantage over TCP in the paper's cases, and over the same law with modern loss recovery.
fn advantage(results: &mut Results, all: &[(&str, &str, Vec<Row>)], seconds: u64, setting: &str) {
    let (share, paper) = if seconds == 10 { (0.6, 3.0) } else { (0.7, 15.0) };
    let of = |name: &str| {
        let rows = all.iter().find(|(variant, ..)| *variant == name).map(|(.., rows)| rows.as_slice()).unwrap_or(&[]);
        quantile(&rows.iter().filter_map(|row| row.response).collect::<Vec<_>>(), share)
    };
    for (rival, word) in [("tcp-cubic", "tcp"), ("quic-cubic", "quic_cubic")] {
        results.comparison(format!("mftp.ahead_of_{word}_seconds@{setting}"), of(rival) - of("mftp"), "seconds", paper);
    }
}

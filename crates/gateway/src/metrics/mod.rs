//! Metrics for Prometheus: the counters of the node and of the listener, under stable names.
//!
//! | part | module |
//! |---|---|
//! | the metrics and their sources | `table` |
//! | totals over transfers, which come and go | `ledger` |
//! | the counters of the listener | `http` |
//!
//! The number of series is bounded: labels are words of this program, or names of neighbours, sources and paths, and
//! only a limited number of these get separate series.
pub(crate) mod http;
pub(crate) mod ledger;
mod table;

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text, text},
    metrics::MetricType,
    registry::Registry,
};

pub(crate) use self::table::Reading;
use self::table::{COUNTED, Kind, METRICS, Metric, Sample, Value};

/// How metrics are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}
impl Format {
    /// The format that a client requests.
    pub(crate) fn of(accept: &str) -> Format {
        if accept.contains("application/openmetrics-text") { Format::OpenMetrics } else { Format::Prometheus }
    }
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// All metrics as text.
pub(crate) fn written(from: &Reading<'_>, format: Format) -> String {
    let labels = [("family".into(), from.status.family.clone().into())];
    let mut registry = Registry::with_prefix_and_labels("tributary", labels.into_iter());
    registry
        .register_collector(Box::new(Scrape(METRICS.iter().map(|metric| (metric, samples(metric, from))).collect())));
    let mut written = String::new();
    let encoded = match format {
        Format::Prometheus => prometheus_text::encode(&mut written, &registry),
        Format::OpenMetrics => text::encode(&mut written, &registry),
    };
    // Writing to a string cannot fail.
    debug_assert!(encoded.is_ok(), "{encoded:?}");
    written
}

fn samples(metric: &Metric, from: &Reading<'_>) -> Vec<Sample> {
    let counted = COUNTED.iter().filter(|(_, of, _)| *of == metric.name).filter_map(|(counter, _, labels)| {
        let value = *from.status.counters.get(*counter)?;
        Some(Sample { labels: labels.iter().map(ToString::to_string).collect(), value: Value::Count(value) })
    });
    (metric.read)(from).into_iter().chain(counted).collect()
}

/// The result of one scrape.
#[derive(Debug)]
struct Scrape(Vec<(&'static Metric, Vec<Sample>)>);

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (metric, samples) in self.0.iter().filter(|(_, samples)| !samples.is_empty()) {
            let kind = match metric.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            // The library ends each sentence itself.
            let help = metric.help.trim_end_matches('.');
            let mut family = encoder.encode_descriptor(metric.name, help, None, kind)?;
            for sample in samples {
                let labels: Vec<(&str, &str)> =
                    metric.labels.iter().copied().zip(sample.labels.iter().map(String::as_str)).collect();
                // An empty set of labels would leave a stray pair of braces.
                match metric.labels.is_empty() {
                    true => encode(&mut family, &sample.value)?,
                    false => encode(&mut family.encode_family(&labels)?, &sample.value)?,
                }
            }
        }
        Ok(())
    }
}
fn encode(encoder: &mut MetricEncoder<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Number(number) => encoder.encode_gauge(number),
        Value::Count(count) => encoder.encode_counter::<NoLabelSet, _, u64>(count, None),
        Value::Times(times) => {
            let bounds = times.bounds_seconds.iter().copied().chain([f64::MAX]);
            let buckets: Vec<(f64, u64)> = bounds.zip(times.counts.iter().copied()).collect();
            encoder.encode_histogram::<NoLabelSet>(times.sum_seconds, times.count(), &buckets, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        http::{HttpCounts, HttpMeter},
        ledger::{Ledger, Totals},
        table::SHORTFALL,
        *,
    };
    use std::{collections::BTreeSet, fmt::Write, path::Path, time::Duration};
    use tributary::views::{
        CacheView, FaceView, LatencyView, PathView, ProgressView, SourceView, StatusView, StoreView,
    };

    /// Counters that appear with their first time and are no reasons of dropped packets.
    const RARE: [&str; 4] =
        ["events dropped", "requests sent upstream", "groups whose proxy is away", "link state not acknowledged"];

    fn full_name(metric: &Metric) -> String {
        let end = if metric.kind == Kind::Counter { "_total" } else { "" };
        format!("tributary_{}{end}", metric.name)
    }
    /// `tributary_requests_total{result="answered"}` for the counter `requests answered`.
    fn series(counter: &str) -> String {
        if counter == SHORTFALL {
            return "tributary_socket_buffer_shortfall_bytes".into();
        }
        let counted = COUNTED.iter().find(|(of, ..)| *of == counter);
        let (_, of, values) = counted.unwrap_or_else(|| panic!("the counter '{counter}' of the page is no metric"));
        let metric = METRICS.iter().find(|metric| metric.name == *of).expect("it is in the table");
        let labels: Vec<String> =
            metric.labels.iter().zip(*values).map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        format!("{}{labels}", full_name(metric))
    }
    /// The page with the table of metrics, and with the metric of each counter, as they are.
    fn documented(page: &str) -> String {
        let mut table = String::from("| metric | kind | labels | meaning |\n|---|---|---|---|\n");
        for metric in METRICS {
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let kind = format!("{:?}", metric.kind).to_lowercase();
            let (name, help) = (full_name(metric), metric.help);
            writeln!(table, "| `{name}` | {kind} | {} | {help} |", labels.join(", ")).expect("a string");
        }
        let (before, rest) = page.split_once("<!-- metrics:").expect("the mark");
        let (mark, rest) = rest.split_once("-->\n").expect("its end");
        let (_, after) = rest.split_once("<!-- /metrics -->").expect("the other mark");
        let (middle, counters) = after.split_once("## All families").expect("counters");
        let row = |line: &str| match line.split_once(" | ") {
            Some((counter, _)) if counter.starts_with("| `") => {
                format!("{counter} | `{}` |", series(counter.trim_matches(['|', ' ', '`'])))
            }
            _ => line.into(),
        };
        let counters: Vec<String> = counters.lines().map(row).collect();
        let counters = counters.join("\n") + "\n";
        format!("{before}<!-- metrics:{mark}-->\n{table}<!-- /metrics -->{middle}## All families{counters}")
    }

    /// `TRIBUTARY_WRITE_DOCS=1 cargo test -p trib-gateway metrics` writes the page.
    #[test]
    fn the_page_about_metrics_has_each_metric_and_the_metric_of_each_counter() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
        let page = std::fs::read_to_string(&path).expect("the page");
        let made = documented(&page);
        if std::env::var_os("TRIBUTARY_WRITE_DOCS").is_some() {
            std::fs::write(&path, &made).expect("writable");
        }
        let page = std::fs::read_to_string(&path).expect("the page");
        assert!(
            page == made,
            "docs/reference/metrics.md is old: TRIBUTARY_WRITE_DOCS=1 cargo test -p trib-gateway metrics"
        );
        for (counter, ..) in COUNTED.iter().filter(|(counter, ..)| !RARE.contains(counter)) {
            assert!(page.contains(&format!("| `{counter}` |")), "the page lacks '{counter}'");
        }
    }

    #[test]
    fn names_are_unique_and_counters_have_the_labels_of_their_metric() {
        let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len());
        for metric in METRICS {
            assert!(metric.help.ends_with('.') && metric.help.len() > 10, "{}", metric.name);
            assert!(metric.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{}", metric.name);
        }
        for (_, of, labels) in COUNTED {
            let metric = METRICS.iter().find(|metric| metric.name == *of).expect(of);
            assert_eq!((metric.labels.len(), metric.kind), (labels.len(), Kind::Counter), "{}", metric.name);
        }
    }

    #[test]
    fn what_peers_name_is_a_label_and_nothing_else_in_both_formats() {
        let evil = "a\"} 1\n# TYPE evil counter\nevil{x=\"\\";
        let status = StatusView {
            label: evil.into(),
            family: "psi".into(),
            faces: vec![FaceView { id: "face-1".into(), neighbour: evil.into(), up: true, ..FaceView::default() }],
            cache: Some(CacheView { hits: 3, ..CacheView::default() }),
            counters: [("packets arrived".into(), 7), ("malformed".into(), 2)].into(),
            tables: [("pit".into(), 5)].into(),
            table_limits: [("pit".into(), 9)].into(),
            latencies: [("find".into(), LatencyView::default())].into(),
            ..StatusView::default()
        };
        let mut ledger = Ledger::default();
        let totals = ledger.take_all(&[&ProgressView {
            transfer: "transfer-1".into(),
            running: true,
            sources: vec![SourceView { id: evil.into(), bytes: 5, ..SourceView::default() }],
            paths: vec![PathView { via: evil.into(), state: "active".into(), ..PathView::default() }],
            ..ProgressView::default()
        }]);
        let meter = HttpMeter::default();
        meter.answered("api", 200, Duration::from_millis(3));
        let http = meter.counts();
        let store = StoreView { capacity_bytes: 9, ..StoreView::default() };
        let reading = Reading { status: &status, store: Some(&store), totals: &totals, http: &http };
        for format in [Format::Prometheus, Format::OpenMetrics] {
            let text = written(&reading, format);
            for line in text.lines() {
                assert!(line.starts_with("tributary_") || line.starts_with("# "), "{line}");
                assert!(!line.starts_with("# TYPE evil"), "{text}");
            }
            for series in [
                "tributary_psi_packets_total{direction=\"in\",family=\"psi\"} 7",
                "tributary_dropped_packets_total{reason=\"malformed\",family=\"psi\"} 2",
                "tributary_table_entries{table=\"pit\",family=\"psi\"} 5",
                "tributary_cache_lookups_total{result=\"hit\",family=\"psi\"} 3",
                "tributary_store_capacity_bytes{family=\"psi\"} 9",
                "tributary_http_request_seconds_bucket{le=\"0.005\",kind=\"api\",family=\"psi\"} 1",
            ] {
                let (name, value) = series.split_once('{').expect("labels");
                let (labels, value) = value.split_once("} ").expect("a value");
                let has = |line: &str| {
                    let is_value =
                        line.split(' ').next_back().is_some_and(|of| of == value || of == format!("{value}.0"));
                    line.starts_with(&format!("{name}{{"))
                        && labels.split(',').all(|label| line.contains(label))
                        && is_value
                };
                assert!(text.lines().any(has), "{series}\n{text}");
            }
        }
    }

    #[test]
    fn a_scrape_of_a_node_that_has_nothing_has_no_empty_families() {
        let (status, totals, http) = (StatusView::default(), Totals::default(), HttpCounts::default());
        let text = written(&Reading { status: &status, store: None, totals: &totals, http: &http }, Format::Prometheus);
        assert!(!text.contains("tributary_face_up") && text.contains("tributary_uptime_seconds"), "{text}");
    }
}

//! An [`Outcome`] as files: JSON lines and CSV. Equal outcomes produce equal bytes.
use serde_json::{Value, json};
use std::fmt::Write;
use tributary_core::{PathId, Rate, Time};

use super::{LinkOutcome, LinkSample, Outcome, TransferOutcome};

/// A file of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutputFile {
    /// Its name, without a folder.
    pub name: &'static str,
    /// Its content.
    pub text: String,
}

/// All text files of a run: `summary.json`, `events.jsonl`, `transfers.csv`, `sources.csv`, `paths.csv`, `links.csv`
/// and `queues.csv`.
pub fn files(outcome: &Outcome) -> Vec<OutputFile> {
    let mut events = outcome.events.join("\n");
    if !events.is_empty() {
        events.push('\n');
    }
    vec![
        OutputFile { name: "summary.json", text: format!("{}\n", summary(outcome)) },
        OutputFile { name: EVENTS, text: events },
        OutputFile { name: "transfers.csv", text: transfers(outcome) },
        OutputFile { name: "sources.csv", text: sources(outcome) },
        OutputFile { name: "paths.csv", text: paths(outcome) },
        OutputFile { name: "links.csv", text: links(outcome) },
        OutputFile { name: "queues.csv", text: queues(outcome) },
    ]
}

/// The file of events.
pub const EVENTS: &str = "events.jsonl";

/// A run as one JSON object.
pub fn summary(outcome: &Outcome) -> Value {
    let transfers: Vec<Value> = outcome.transfers.iter().map(transfer).collect();
    json!({
        "event": "run",
        "scenario": outcome.scenario,
        "seed": outcome.seed,
        "complete": outcome.is_complete(),
        "seconds": outcome.ended.as_secs_f64(),
        "transfers": transfers,
        "packet_hops": outcome.stats.packet_hops,
        "trace_hash": format!("{:016x}", outcome.trace_hash),
    })
}

fn transfer(transfer: &TransferOutcome) -> Value {
    let mut value = json!({
        "node": transfer.node,
        "name": transfer.name.to_string(),
        "complete": transfer.is_complete(),
        "verified": transfer.is_verified,
        "seconds": transfer.seconds(),
        "mbps": transfer.mbps(),
    });
    let Some(report) = &transfer.report else { return value };
    let label = |source| report.sources.iter().find(|of| of.source == source).map(|of| of.label.clone());
    value["bytes"] = json!(report.bytes);
    value["cached_bytes"] = json!(report.cached_bytes);
    value["retransmitted"] = json!(report.retransmitted_bytes);
    value["failure"] = json!(report.failure);
    value["sources"] = report.sources.iter().map(|of| json!({"id": of.label, "bytes": of.bytes})).collect();
    let path = |path: &tributary_core::event::PathReport| {
        json!({
            "id": path.path.to_string(),
            "source": label(path.source),
            "label": path.label,
            "hops": path.hops,
            "bytes": path.bytes,
            "rtt_ms": path.rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
            "lost_packets": path.lost_packets,
            "requested_packets": path.requested_packets,
        })
    };
    value["paths"] = report.paths.iter().map(path).collect();
    value
}

fn transfers(outcome: &Outcome) -> String {
    let mut csv = String::from(
        "transfer,node,name,complete,seconds,mbps,bytes,cached_bytes,retransmitted_bytes,duplicate_bytes\n",
    );
    for (index, transfer) in outcome.transfers.iter().enumerate() {
        let report = transfer.report.clone().unwrap_or_default();
        row(
            &mut csv,
            &[
                index.to_string(),
                quoted(&transfer.node),
                quoted(&transfer.name.to_string()),
                transfer.is_complete().to_string(),
                optional(transfer.seconds()),
                optional(transfer.mbps()),
                report.bytes.to_string(),
                report.cached_bytes.to_string(),
                report.retransmitted_bytes.to_string(),
                report.duplicate_bytes.to_string(),
            ],
        );
    }
    csv
}

fn sources(outcome: &Outcome) -> String {
    let mut csv = String::from("transfer,node,name,source,bytes\n");
    for (index, transfer) in outcome.transfers.iter().enumerate() {
        for source in transfer.report.iter().flat_map(|report| &report.sources) {
            row(
                &mut csv,
                &[
                    index.to_string(),
                    quoted(&transfer.node),
                    quoted(&transfer.name.to_string()),
                    quoted(&source.label),
                    source.bytes.to_string(),
                ],
            );
        }
    }
    csv
}

fn paths(outcome: &Outcome) -> String {
    let mut csv =
        String::from("time_s,transfer,path,source,label,state,window_bytes,in_flight_bytes,rtt_ms,rate_mbps,bytes\n");
    for sample in &outcome.path_samples {
        row(
            &mut csv,
            &[
                seconds(sample.time),
                sample.transfer.to_string(),
                path_number(sample.path),
                quoted(&sample.source),
                quoted(&sample.label),
                sample.state.to_string(),
                sample.window_bytes.to_string(),
                sample.in_flight_bytes.to_string(),
                optional(sample.rtt.map(|rtt| rtt.as_secs_f64() * 1e3)),
                number(sample.rate.mbps()),
                sample.bytes.to_string(),
            ],
        );
    }
    csv
}
fn path_number(path: PathId) -> String {
    path.0.to_string()
}

/// Counters of all links at the end.
fn links(outcome: &Outcome) -> String {
    let mut csv = String::from(
        "link,from,to,rate_mbps,utilisation,in_packets,out_packets,out_bytes,lost_packets,dropped_packets,\
         marked_packets,oversize_packets,duplicated_packets,corrupted_packets,reordered_packets,queue_bytes_max\n",
    );
    for link in &outcome.links {
        let stats = &link.stats;
        let counters = [
            stats.in_packets,
            stats.out_packets,
            stats.out_bytes,
            stats.lost_packets,
            stats.dropped_packets,
            stats.marked_packets,
            stats.oversize_packets,
            stats.duplicated_packets,
            stats.corrupted_packets,
            stats.reordered_packets,
            stats.queue_bytes_max,
        ];
        let head = [
            quoted(&link.link),
            quoted(&link.from),
            quoted(&link.to),
            optional(link.rate.map(Rate::mbps)),
            number(link.utilisation(outcome.ended.since(Time::ZERO))),
        ];
        let cells: Vec<String> = head.into_iter().chain(counters.iter().map(u64::to_string)).collect();
        row(&mut csv, &cells);
    }
    csv
}

/// Use and queue of all links over time. Links that were idle in an interval have no line for it.
fn queues(outcome: &Outcome) -> String {
    let mut csv = String::from("time_s,link,from,to,rate_mbps,out_mbps,utilisation,queue_bytes,dropped_packets\n");
    for (link, use_of) in uses(outcome) {
        row(
            &mut csv,
            &[
                seconds(use_of.time),
                quoted(&link.link),
                quoted(&link.from),
                quoted(&link.to),
                optional(use_of.rate.map(Rate::mbps)),
                number(use_of.out_mbps),
                optional(use_of.utilisation()),
                use_of.queue_bytes.to_string(),
                use_of.dropped_packets.to_string(),
            ],
        );
    }
    csv
}

/// The use of one direction of a link in one interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkUse {
    /// The end of the interval.
    pub time: Time,
    /// Its throughput, overhead included, in Mbit/s.
    pub out_mbps: f64,
    /// Its rate at the end of the interval.
    pub rate: Option<Rate>,
    /// Bytes that wait at the end of the interval.
    pub queue_bytes: u64,
    /// Packets dropped in the interval.
    pub dropped_packets: u64,
}
impl LinkUse {
    /// Its utilisation; `None` without limit.
    pub fn utilisation(&self) -> Option<f64> {
        self.rate.filter(|rate| rate.bits_per_second() > 0).map(|rate| self.out_mbps / rate.mbps())
    }
}

/// The uses of all links, by time; intervals in which nothing was carried, waited or dropped are left out.
pub fn uses(outcome: &Outcome) -> impl Iterator<Item = (&LinkOutcome, LinkUse)> {
    all_uses(outcome).filter(|(_, of)| of.out_mbps > 0.0 || of.queue_bytes > 0 || of.dropped_packets > 0)
}

/// The uses of all links in all intervals, by time.
pub fn all_uses(outcome: &Outcome) -> impl Iterator<Item = (&LinkOutcome, LinkUse)> {
    let mut last: Vec<Option<LinkSample>> = vec![None; outcome.links.len()];
    outcome.link_samples.iter().filter_map(move |sample| {
        let link = &outcome.links[sample.link];
        let before = last[sample.link].replace(*sample);
        let zero = (Time::ZERO, 0, 0, 0);
        let (since, bytes, packets, dropped) =
            before.map_or(zero, |before| (before.time, before.out_bytes, before.out_packets, before.dropped_packets));
        let interval = sample.time.since(since).as_secs_f64();
        let overhead = (sample.out_packets - packets) * u64::from(link.overhead_bytes);
        let carried = sample.out_bytes - bytes + overhead;
        let dropped_packets = sample.dropped_packets - dropped;
        (interval > 0.0).then(|| {
            let out_mbps = carried as f64 * 8.0 / 1e6 / interval;
            let (time, rate, queue_bytes) = (sample.time, sample.rate, sample.queue_bytes);
            (link, LinkUse { time, out_mbps, rate, queue_bytes, dropped_packets })
        })
    })
}

fn row(csv: &mut String, cells: &[String]) {
    let _ = writeln!(csv, "{}", cells.join(","));
}
fn seconds(time: Time) -> String {
    format!("{:.6}", time.as_secs_f64())
}
fn number(value: f64) -> String {
    format!("{value:.6}")
}
fn optional(value: Option<f64>) -> String {
    value.map(number).unwrap_or_default()
}
/// RFC 4180: fields that contain a comma, a quote or a line end are quoted.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_commas_are_quoted() {
        assert_eq!(quoted("Mumbai,IN \"a\""), "\"Mumbai,IN \"\"a\"\"\"");
        assert_eq!(quoted("plain"), "plain");
    }
}

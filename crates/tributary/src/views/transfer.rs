//! A fetch as a person sees it: how far it is, over which paths, from which sources.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tributary_core::{
    Rate, SourceId, Time, TransferId,
    event::{PathReport, PathState, TransferReport},
};

use super::numbers::{milliseconds, round, share};

tributary_core::declared! {
    /// Where a transfer stands. Bytes are bytes of the object, rates are of payload.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct ProgressView {
        /// The transfer, such as `transfer-1`.
        pub transfer: String = transfer.to_string(),
        /// The name that it fetches.
        pub name: String = name.into(),
        /// Bytes of the object; zero until the manifest is known.
        pub bytes: u64 = report.bytes,
        /// Bytes verified and stored, including those of earlier runs.
        pub stored_bytes: u64 = report.stored_bytes,
        /// Bytes that earlier runs had stored.
        pub resumed_bytes: u64 = report.resumed_bytes,
        /// Bytes delivered by caches on the path.
        pub cached_bytes: u64 = report.cached_bytes,
        /// Bytes asked for again.
        pub retransmitted: u64 = report.retransmitted_bytes,
        /// Bytes that arrived a second time.
        pub duplicate_bytes: u64 = report.duplicate_bytes,
        /// Time since the request, or its duration.
        pub seconds: f64 = round(seconds, 6),
        /// Delivery rate now, in Mbit/s.
        pub mbps: f64 = round(rates.clone().map(|(_, rate)| rate).sum(), 3),
        /// One record per source, in the order in which they were offered; bytes and current rate.
        pub sources: Vec<SourceView> = sources(report, |source| {
            rates.clone().filter(|(of, _)| *of == source).map(|(_, rate)| rate).sum()
        }),
        /// One record per path, likewise.
        pub paths: Vec<PathView> = paths(report, current_rate),
        /// Whether it still runs.
        #[serde(default)]
        pub running: bool = report.ended.is_none(),
        /// Whether it was ended to be resumed later.
        #[serde(default)]
        pub paused: bool = false,
        /// Whether it waits for its turn in the queue.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub waiting: bool = false,
        /// Its number in the queue, such as `get-1`, while it is queued.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub queue: Option<String> = None,
        /// Why it ended without being complete.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub failure: Option<String> = report.failure.clone(),
    }
    /// The account of a transfer as of `now`.
    pub fn new(transfer: TransferId, name: &str, report: &TransferReport, now: Time) {
        let rates = report.paths.iter().map(|path| (path.source, current_rate(path)));
        let seconds = report.ended.unwrap_or(now).since(report.started).as_secs_f64();
    }
}

/// One source of a transfer.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SourceView {
    /// Its name, unique in the transfer.
    pub id: String,
    /// Useful bytes that came from it, not from caches on the way to it.
    pub bytes: u64,
    /// Mbit/s: now while the transfer runs, on average when it is done.
    pub mbps: f64,
    /// Why it is excluded, if it is faulty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distrusted: Option<String>,
    /// Why it is excluded, if it is not faulty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<String>,
}

tributary_core::declared! {
    /// One path of a transfer.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct PathView {
        /// Its number, such as `path-1`.
        pub id: String = path.path.to_string(),
        /// The source it leads to; one of the ids of the sources.
        pub source: String = source,
        /// Links from source to receiver.
        pub hops: u32 = path.hops,
        /// Useful bytes on it, from caches or from the source.
        pub bytes: u64 = path.bytes,
        /// Mbit/s: now while the transfer runs, on average when it is done.
        pub mbps: f64 = round(mbps, 3),
        /// Smoothed round-trip time; `None` before the first sample.
        pub rtt_ms: Option<f64> = path.rtt.map(milliseconds),
        /// Share of packets taken for lost, 0 to 1.
        pub loss: f64 = round(share(path.lost_packets, path.requested_packets), 6),
        /// `idle`, `active`, `silent` or `closed`.
        pub state: String = path.state.to_string(),
        /// Why it is in that state.
        pub reason: String = path.reason.clone(),
        /// The face by which its requests leave this node, such as `face-1`; `None` if that is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub face: Option<String> = path.face.map(|face| face.to_string()),
        /// The nodes on it.
        pub via: String = path.label.clone(),
        /// Bytes that caches on it delivered.
        pub cached_bytes: u64 = path.cached_bytes,
        /// The window.
        pub window_bytes: u64 = path.window_bytes,
        /// Bytes under way.
        pub in_flight_bytes: u64 = path.in_flight_bytes,
        /// Smallest round-trip time seen.
        pub rtt_min_ms: Option<f64> = path.rtt_min.map(milliseconds),
        /// Packets asked for.
        pub requested_packets: u64 = path.requested_packets,
        /// Packets taken for lost.
        pub lost_packets: u64 = path.lost_packets,
    }
    fn new(path: &PathReport, source: String, mbps: f64) {}
}

tributary_core::declared! {
    /// The last word on a transfer that succeeded.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct DoneView {
        /// The fetched name.
        pub name: String = name.into(),
        /// By which architecture.
        pub family: String = family.into(),
        /// Bytes of the object.
        pub bytes: u64 = report.bytes,
        /// Time from the request to the last verified byte.
        pub seconds: f64 = round(taken.as_secs_f64(), 6),
        /// Bytes fetched in this run per second, in Mbit/s.
        pub mbps: f64 = average(report.stored_bytes.saturating_sub(report.resumed_bytes)),
        /// Whether every byte was checked against the publisher's signature; nothing else is ever reported as done of a
        /// name. What web servers delivered was checked against a checksum, or, if none is known, not at all.
        pub verified: bool = true,
        /// Who delivered what.
        pub sources: Vec<SourceView> = sources(report, |source| average(bytes_of(source))),
        /// Over which path.
        pub paths: Vec<PathView> = paths(report, |path| average(path.bytes)),
        /// Bytes delivered by caches on the path.
        pub cached_bytes: u64 = report.cached_bytes,
        /// Bytes asked for again.
        pub retransmitted: u64 = report.retransmitted_bytes,
        /// Bytes that arrived a second time.
        pub duplicate_bytes: u64 = report.duplicate_bytes,
        /// Bytes that an earlier run had verified.
        pub resumed_bytes: u64 = report.resumed_bytes,
        /// The version of the object, where the fetch noted it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub version: Option<u64> = None,
        /// Where it was written; `None` if it was streamed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub output: Option<String> = output,
        /// What a front adds: the demo's fluid bound, ratio, and the like.
        #[serde(flatten)]
        pub more: BTreeMap<String, serde_json::Value> = BTreeMap::new(),
    }
    /// The account of a transfer that is complete.
    pub fn new(name: &str, family: &str, report: &TransferReport, output: Option<String>) {
        let taken = report.ended.unwrap_or(report.started).since(report.started);
        let average = |bytes| Rate::over(bytes, taken).map_or(0.0, |rate| round(rate.mbps(), 3));
        let bytes_of = |source| report.sources.iter().filter(|of| of.source == source).map(|of| of.bytes).sum();
    }
}

fn sources(report: &TransferReport, mbps: impl Fn(SourceId) -> f64) -> Vec<SourceView> {
    report
        .sources
        .iter()
        .map(|source| SourceView {
            id: source_name(report, source.source),
            bytes: source.bytes,
            mbps: round(mbps(source.source), 3),
            distrusted: source.distrusted.clone(),
            closed: source.closed.clone(),
        })
        .collect()
}
fn paths(report: &TransferReport, mbps: impl Fn(&PathReport) -> f64) -> Vec<PathView> {
    report.paths.iter().map(|path| PathView::new(path, source_name(report, path.source), mbps(path))).collect()
}
/// A source's label if no other source has the same one, else label and number.
pub(crate) fn source_name(report: &TransferReport, source: SourceId) -> String {
    let Some(found) = report.sources.iter().find(|of| of.source == source) else { return source.to_string() };
    let is_unique = report.sources.iter().filter(|of| of.label == found.label).count() == 1;
    match (found.label.is_empty(), is_unique) {
        (true, _) => source.to_string(),
        (false, true) => found.label.clone(),
        (false, false) => format!("{} ({source})", found.label),
    }
}
/// The present rate of a path; a silent or closed path's earlier rate does not count.
fn current_rate(path: &PathReport) -> f64 {
    match path.state {
        PathState::Active | PathState::Done => path.rate.mbps(),
        PathState::Idle | PathState::Silent | PathState::Closed => 0.0,
    }
}

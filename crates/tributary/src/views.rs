//! What a person sees of a node: plain records in units that people use, the same in JSON, in bars and in tables.
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
};
use tributary_content::Manifest;
use tributary_core::{
    Duration, Rate, SourceId, Time, TransferId,
    event::{PathReport, PathState, TransferReport},
};
use tributary_transport::{
    CacheStatus, FaceStatus, NodeStatus,
    messaging::{Group, SendReport, StoreStatus},
};

/// Where a transfer stands. Bytes are bytes of the object, rates are of payload.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ProgressView {
    /// The transfer, such as `transfer-1`.
    pub transfer: String,
    /// What it fetches.
    pub name: String,
    /// Bytes of the object; zero until the manifest is known.
    pub bytes: u64,
    /// Bytes verified and stored, those of earlier runs included.
    pub stored_bytes: u64,
    /// Bytes that earlier runs had stored.
    pub resumed_bytes: u64,
    /// Bytes that caches on the way delivered.
    pub cached_bytes: u64,
    /// Bytes asked for again.
    pub retransmitted: u64,
    /// Bytes that arrived a second time.
    pub duplicate_bytes: u64,
    /// Time since the fetch was asked for, or that it took.
    pub seconds: f64,
    /// Delivery rate now, in Mbit/s.
    pub mbps: f64,
    /// One record per source, in the order in which they were offered; bytes and current rate.
    pub sources: Vec<SourceView>,
    /// One record per path, likewise.
    pub paths: Vec<PathView>,
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
    /// What it did, if it lied and is not asked any more for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distrusted: Option<String>,
    /// Why it is not asked any more although it did nothing wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<String>,
}

/// One path of a transfer.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PathView {
    /// Its number, such as `path-1`.
    pub id: String,
    /// The source it leads to; one of the ids of the sources.
    pub source: String,
    /// Links from source to receiver.
    pub hops: u32,
    /// Useful bytes that came over it, from caches or from the source.
    pub bytes: u64,
    /// Mbit/s: now while the transfer runs, on average when it is done.
    pub mbps: f64,
    /// Smoothed round-trip time; `None` before the first sample.
    pub rtt_ms: Option<f64>,
    /// Share of packets taken for lost, 0 to 1.
    pub loss: f64,
    /// `idle`, `active`, `silent` or `closed`.
    pub state: String,
    /// Why it is in that state.
    pub reason: String,
    /// The nodes on it.
    pub via: String,
    /// Bytes that caches on it delivered.
    pub cached_bytes: u64,
    /// The window.
    pub window_bytes: u64,
    /// Bytes under way.
    pub in_flight_bytes: u64,
    /// Smallest round-trip time seen.
    pub rtt_min_ms: Option<f64>,
    /// Packets asked for.
    pub requested_packets: u64,
    /// Packets taken for lost.
    pub lost_packets: u64,
}

/// The last word on a transfer that succeeded.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DoneView {
    /// What was fetched.
    pub name: String,
    /// By which architecture.
    pub family: String,
    /// Bytes of the object.
    pub bytes: u64,
    /// Time from the request to the last verified byte.
    pub seconds: f64,
    /// Bytes fetched in this run per second, in Mbit/s.
    pub mbps: f64,
    /// Whether every byte was checked against the publisher's signature; nothing else is ever reported as done.
    pub verified: bool,
    /// Who delivered what.
    pub sources: Vec<SourceView>,
    /// Over which path.
    pub paths: Vec<PathView>,
    /// Bytes that caches on the way delivered.
    pub cached_bytes: u64,
    /// Bytes asked for again.
    pub retransmitted: u64,
    /// Bytes that arrived a second time.
    pub duplicate_bytes: u64,
    /// Bytes that an earlier run had verified.
    pub resumed_bytes: u64,
    /// Where it was written; `None` if it was streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// What a front adds: the demo's fluid bound, ratio, and the like.
    #[serde(flatten)]
    pub more: BTreeMap<String, serde_json::Value>,
}

impl ProgressView {
    /// The account of a transfer as of `now`.
    pub fn new(transfer: TransferId, name: &str, report: &TransferReport, now: Time) -> Self {
        let rates = report.paths.iter().map(|path| (path.source, current_rate(path)));
        let seconds = report.ended.unwrap_or(now).since(report.started).as_secs_f64();
        ProgressView {
            transfer: transfer.to_string(),
            name: name.into(),
            bytes: report.bytes,
            stored_bytes: report.stored_bytes,
            resumed_bytes: report.resumed_bytes,
            cached_bytes: report.cached_bytes,
            retransmitted: report.retransmitted_bytes,
            duplicate_bytes: report.duplicate_bytes,
            seconds: round(seconds, 6),
            mbps: round(rates.clone().map(|(_, rate)| rate).sum(), 3),
            sources: sources(report, |source| {
                rates.clone().filter(|(of, _)| *of == source).map(|(_, rate)| rate).sum()
            }),
            paths: paths(report, current_rate),
        }
    }
    /// Bytes that are still to come.
    pub fn missing_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.stored_bytes)
    }
}

impl DoneView {
    /// The account of a transfer that is complete.
    pub fn new(name: &str, family: &str, report: &TransferReport, output: Option<String>) -> Self {
        let taken = report.ended.unwrap_or(report.started).since(report.started);
        let average = |bytes| Rate::over(bytes, taken).map_or(0.0, |rate| round(rate.mbps(), 3));
        let bytes_of = |source| report.sources.iter().filter(|of| of.source == source).map(|of| of.bytes).sum();
        DoneView {
            name: name.into(),
            family: family.into(),
            bytes: report.bytes,
            seconds: round(taken.as_secs_f64(), 6),
            mbps: average(report.stored_bytes.saturating_sub(report.resumed_bytes)),
            verified: true,
            sources: sources(report, |source| average(bytes_of(source))),
            paths: paths(report, |path| average(path.bytes)),
            cached_bytes: report.cached_bytes,
            retransmitted: report.retransmitted_bytes,
            duplicate_bytes: report.duplicate_bytes,
            resumed_bytes: report.resumed_bytes,
            output,
            more: BTreeMap::new(),
        }
    }
}

/// Something that is being sent.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SentView {
    /// The transfer, such as `transfer-1`.
    pub transfer: String,
    /// What is sent.
    pub name: String,
    /// To whom.
    pub to: String,
    /// Bytes of the object.
    pub bytes: u64,
    /// Chunks that it is cut into.
    pub chunks: u32,
    /// Chunks that have left at least once.
    pub sent_chunks: u32,
    /// Chunks sent again.
    pub repeated_chunks: u64,
    /// Chunks that storage on the way has promised to keep; of a group, for each of its members.
    pub stored_chunks: u32,
    /// Their numbers in runs: the first, and how many.
    #[serde(default)]
    pub stored_numbers: Vec<(u32, u32)>,
    /// Who keeps how many of them: the custodians' GUIDs.
    #[serde(default)]
    pub custodians: Vec<(String, u64)>,
    /// How long storage on the way keeps it at most, in seconds, if that is less than the lifetime that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_seconds: Option<f64>,
    /// How often a chunk was dropped on the way, as far as that was told.
    #[serde(default)]
    pub dropped_chunks: u64,
    /// Receivers that are known.
    pub destinations: u32,
    /// Receivers that have everything, verified.
    pub delivered: Vec<String>,
    /// Receivers that cannot keep it.
    #[serde(default)]
    pub refused: Vec<String>,
    /// Whether nothing of it waits in the node any more.
    pub has_left: bool,
    /// Since the beginning.
    pub seconds: f64,
}
impl SentView {
    pub(crate) fn new(transfer: TransferId, send: &crate::Send, bytes: u64, report: &SendReport) -> Self {
        SentView {
            transfer: transfer.to_string(),
            name: send.name.clone(),
            to: send.to.clone(),
            bytes,
            chunks: report.chunks,
            sent_chunks: report.sent_chunks,
            repeated_chunks: report.repeated_chunks,
            stored_chunks: report.stored_chunks,
            stored_numbers: report.stored.runs().to_vec(),
            custodians: report.custodians.clone(),
            kept_seconds: report.kept_for.map(|kept| round(kept.as_secs_f64(), 3)),
            dropped_chunks: report.dropped_chunks,
            destinations: report.destinations,
            refused: report.refused.clone(),
            delivered: report.delivered.clone(),
            has_left: report.has_left,
            seconds: 0.0,
        }
    }
}

/// Something that was received without having been asked for.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ReceivedView {
    /// What it is called.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Its version.
    pub version: u64,
    /// The key that signed it.
    pub publisher: String,
    /// Where it is.
    pub output: String,
    /// Always true; nothing else is reported.
    pub verified: bool,
    /// Itself, if it is a short text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}
impl ReceivedView {
    pub(crate) fn new(manifest: &Manifest, path: &Path, text: Option<String>) -> Self {
        ReceivedView {
            name: manifest.name.to_string(),
            bytes: manifest.size,
            version: manifest.version,
            publisher: manifest.publisher.to_string(),
            output: path.display().to_string(),
            verified: true,
            text,
        }
    }
}

/// A group that a node owns.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct GroupView {
    /// Its label.
    pub label: String,
    /// Its GUID: what is sent to it, or is for its members, names this.
    pub guid: String,
    /// The GUIDs of its members, devices or groups again.
    pub members: Vec<String>,
    /// The device whose proxy spreads what is for the group, if one is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
}
impl GroupView {
    pub(crate) fn new((label, group): (String, Group)) -> GroupView {
        let Group { id, members, proxy } = group;
        GroupView { label, guid: id, members, proxy }
    }
}

/// What a node stores for others.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct StoreView {
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes allowed; zero if the node stores nothing for others.
    pub capacity_bytes: u64,
    /// What is held.
    pub held: Vec<HeldView>,
}

/// Chunks of one object from one sender for one destination.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct HeldView {
    /// Who sent it.
    pub source: String,
    /// For whom it is.
    pub destination: String,
    /// The object.
    pub object: String,
    /// Chunks held.
    pub chunks: u64,
    /// Their numbers in runs: the first, and how many.
    #[serde(default)]
    pub numbers: Vec<(u32, u32)>,
    /// Bytes held.
    pub bytes: u64,
    /// Their priority.
    pub priority: u8,
    /// How long the oldest has been here.
    pub age_seconds: f64,
    /// How long they are kept still.
    pub left_seconds: f64,
    /// Why they are here.
    pub reason: String,
    /// The custodian: the router that keeps them until they are on a disk further on. Its GUID.
    #[serde(default)]
    pub custodian: String,
    /// Chunks that wait here or leave.
    #[serde(default)]
    pub waiting: u64,
    /// Chunks for which there was no room further on; they are tried again.
    #[serde(default)]
    pub resting: u64,
    /// Chunks that a neighbour has taken on, of which nobody has said yet that they are on a disk.
    #[serde(default)]
    pub in_transit: u64,
    /// The GUIDs of these neighbours.
    #[serde(default)]
    pub in_transit_to: Vec<String>,
    /// How long the one that is under way longest is.
    #[serde(default)]
    pub in_transit_seconds: f64,
}
impl StoreView {
    pub(crate) fn new(store: &StoreStatus) -> Self {
        let held = store.held.iter().map(|held| HeldView {
            source: held.source.clone(),
            destination: held.destination.clone(),
            object: held.object.clone(),
            chunks: held.chunks.count(),
            numbers: held.chunks.runs().to_vec(),
            bytes: held.bytes.0,
            priority: held.priority,
            age_seconds: round(held.age.as_secs_f64(), 3),
            left_seconds: round(held.left.as_secs_f64(), 3),
            reason: held.reason.into(),
            custodian: held.custodian.clone(),
            waiting: held.waiting,
            resting: held.resting,
            in_transit: held.in_transit,
            in_transit_to: held.in_transit_to.clone(),
            in_transit_seconds: round(held.in_transit_for.as_secs_f64(), 3),
        });
        StoreView { used_bytes: store.used.0, capacity_bytes: store.capacity.0, held: held.collect() }
    }
    /// Chunks that are held.
    pub fn chunks(&self) -> u64 {
        self.held.iter().map(|held| held.chunks).sum()
    }
    /// Chunks that are held here and not in `after`: by their numbers, whatever came in between.
    pub fn lost_in(&self, after: &StoreView) -> u64 {
        self.keys().difference(&after.keys()).count() as u64
    }
    fn keys<'a>(&'a self) -> BTreeSet<(&'a str, &'a str, &'a str, u32)> {
        let runs = self.held.iter().flat_map(|held| held.numbers.iter().map(move |run| (held, run)));
        let key = |held: &'a HeldView, number| (&held.source[..], &held.destination[..], &held.object[..], number);
        runs.flat_map(|(held, (first, count))| {
            (*first..first.saturating_add(*count)).map(move |number| key(held, number))
        })
        .collect()
    }
}

/// A node's status. The counters are those of the node and of its driver.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct StatusView {
    /// Its id, 16 hex digits.
    pub node: String,
    /// Its name.
    pub label: String,
    /// `psi`, `ndn` or `mf`.
    pub family: String,
    /// Its roles in the words of the config.
    pub roles: Vec<String>,
    /// The version of the program.
    #[serde(default)]
    pub version: String,
    /// How long it has been running.
    #[serde(default)]
    pub uptime_seconds: f64,
    /// Where it listens.
    pub listen: Vec<String>,
    /// Its faces.
    pub faces: Vec<FaceView>,
    /// Its packet cache.
    pub cache: Option<CacheView>,
    /// What it publishes.
    pub published: Vec<PublishedView>,
    /// Its transfers, oldest first.
    pub transfers: Vec<TransferView>,
    /// Its part in resolution, as pairs of subject and state.
    pub resolver: Vec<(String, String)>,
    /// Counters by name.
    pub counters: BTreeMap<String, u64>,
    /// The latest changes worth a line, oldest first.
    pub notes: Vec<String>,
}

/// One face of a node.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct FaceView {
    /// Its number, such as `face-1`.
    pub id: String,
    /// The neighbour's name; while it is not known, the address that the config gives, or nothing.
    pub neighbour: String,
    /// Whether the neighbour answers.
    pub up: bool,
    /// Round-trip time to it.
    pub rtt_ms: Option<f64>,
    /// Datagram bytes proven to get through; `None` of a stream, which has no datagrams.
    pub mtu: Option<u32>,
    /// Why nothing gets there, as far as this machine knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What its link carries, as it was said or, in the family `ndn`, measured.
    pub rate_mbps: Option<f64>,
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Packets dropped by a full queue.
    pub dropped_packets: u64,
}

/// A packet cache.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CacheView {
    /// The policy's name.
    pub policy: String,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes allowed.
    pub capacity_bytes: u64,
    /// Packets found.
    pub hits: u64,
    /// Packets not found.
    pub misses: u64,
    /// What is in it.
    pub objects: Vec<CachedObjectView>,
}

/// One object in a cache.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CachedObjectView {
    /// The key under which it is kept.
    pub key: String,
    /// Packets held.
    pub packets: u64,
    /// Bytes held.
    pub bytes: u64,
    /// Packets answered from it.
    pub hits: u64,
}

/// One publication of a node.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PublishedView {
    /// What it is called.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Whether the resolver has confirmed it.
    pub confirmed: bool,
    /// Whether its file or folder was changed or removed since it was published.
    #[serde(default)]
    pub changed: bool,
    /// Why it cannot be served, if somebody has asked for it in vain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

/// One transfer in a status.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TransferView {
    /// Its number, such as `transfer-1`.
    pub id: String,
    /// What it fetches.
    pub name: String,
    /// Bytes of the object.
    pub bytes: u64,
    /// Bytes verified and stored.
    pub stored_bytes: u64,
    /// Whether it still runs.
    pub running: bool,
    /// Why it ended without being complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl StatusView {
    /// What a node says of itself; what only its driver and façade know is left empty.
    pub fn new(status: &NodeStatus) -> Self {
        StatusView {
            node: status.node.to_string(),
            label: status.label.clone(),
            family: status.family.into(),
            roles: status.roles.iter().map(ToString::to_string).collect(),
            faces: status.faces.iter().map(FaceView::new).collect(),
            cache: status.cache.as_ref().map(CacheView::new),
            published: status
                .published
                .iter()
                .map(|(name, bytes)| PublishedView { name: name.clone(), bytes: bytes.0, ..PublishedView::default() })
                .collect(),
            resolver: status.resolver.clone(),
            counters: status.counters.iter().map(|(name, count)| (name.to_string(), *count)).collect(),
            ..StatusView::default()
        }
    }
}
impl FaceView {
    fn new(face: &FaceStatus) -> Self {
        FaceView {
            id: face.face.to_string(),
            neighbour: face.neighbour.clone(),
            up: face.up,
            rtt_ms: face.rtt.map(milliseconds),
            mtu: (face.mtu != u32::MAX).then_some(face.mtu),
            problem: None,
            rate_mbps: face.rate.map(|rate| round(rate.mbps(), 3)),
            sent_packets: face.sent.0,
            sent_bytes: face.sent.1.0,
            received_packets: face.received.0,
            received_bytes: face.received.1.0,
            dropped_packets: face.dropped,
        }
    }
}
impl CacheView {
    fn new(cache: &CacheStatus) -> Self {
        CacheView {
            policy: cache.policy.into(),
            used_bytes: cache.used.0,
            capacity_bytes: cache.capacity.0,
            hits: cache.hits,
            misses: cache.misses,
            objects: cache
                .objects
                .iter()
                .map(|(key, packets, bytes, hits)| CachedObjectView {
                    key: key.clone(),
                    packets: *packets,
                    bytes: bytes.0,
                    hits: *hits,
                })
                .collect(),
        }
    }
}

/// So many of something, such as `1 path` and `2 paths`.
pub fn counted<C: fmt::Display + PartialEq + From<u8>>(count: C, what: &str) -> String {
    let plural = if count == C::from(1) { "" } else { "s" };
    format!("{count} {what}{plural}")
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
    report
        .paths
        .iter()
        .map(|path| PathView {
            id: path.path.to_string(),
            source: source_name(report, path.source),
            hops: path.hops,
            bytes: path.bytes,
            mbps: round(mbps(path), 3),
            rtt_ms: path.rtt.map(milliseconds),
            loss: round(share(path.lost_packets, path.requested_packets), 6),
            state: path.state.to_string(),
            reason: path.reason.clone(),
            via: path.label.clone(),
            cached_bytes: path.cached_bytes,
            window_bytes: path.window_bytes,
            in_flight_bytes: path.in_flight_bytes,
            rtt_min_ms: path.rtt_min.map(milliseconds),
            requested_packets: path.requested_packets,
            lost_packets: path.lost_packets,
        })
        .collect()
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
/// The rate at which a path delivers now; what a silent or closed path had before does not count.
fn current_rate(path: &PathReport) -> f64 {
    match path.state {
        PathState::Active => path.rate.mbps(),
        PathState::Idle | PathState::Silent | PathState::Closed => 0.0,
    }
}
fn milliseconds(duration: Duration) -> f64 {
    round(duration.as_secs_f64() * 1e3, 3)
}
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
/// Cuts digits that mean nothing, so that JSON lines stay readable.
fn round(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    // A sum of nothing is minus zero; adding zero takes the sign away.
    (value * scale).round() / scale + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_lost_is_told_by_the_numbers_of_chunks_and_not_by_their_count() {
        let held = |object: &str, numbers: &[(u32, u32)]| HeldView {
            object: object.into(),
            chunks: numbers.iter().map(|(_, count)| u64::from(*count)).sum(),
            numbers: numbers.to_vec(),
            ..HeldView::default()
        };
        let store = |held: Vec<HeldView>| StoreView { held, ..StoreView::default() };
        let before = store(vec![held("a", &[(0, 3), (7, 1)]), held("b", &[(5, 2)])]);
        assert_eq!((before.chunks(), before.lost_in(&before)), (6, 0));
        let as_many_others = store(vec![held("a", &[(0, 2), (8, 2)]), held("b", &[(4, 2)])]);
        assert_eq!((as_many_others.chunks(), before.lost_in(&as_many_others)), (6, 3));
    }
}

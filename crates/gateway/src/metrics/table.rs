//! The metrics: name, kind, help, labels and source of each. `docs/reference/metrics.md` has a table made from this
//! one.
use tributary::views::{CacheView, FaceView, LatencyView, PublishedView, QuotaView, StatusView, StoreView};

use super::{
    http::HttpCounts,
    ledger::{PathNow, PathTotals, Totals},
};

/// What a metric is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// It only grows.
    Counter,
    /// It rises and falls.
    Gauge,
    /// A distribution of times in seconds.
    Histogram,
}

/// The data that a scrape reads from.
#[derive(Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) status: &'a StatusView,
    pub(crate) store: Option<&'a StoreView>,
    pub(crate) totals: &'a Totals,
    pub(crate) http: &'a HttpCounts,
}

/// A value with its labels, in the order of the metric's.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Sample {
    pub(crate) labels: Vec<String>,
    pub(crate) value: Value,
}
/// A value.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Number(f64),
    Count(u64),
    Times(LatencyView),
}

#[derive(Debug)]
pub(crate) struct Metric {
    /// Without the prefix `tributary_` and without the suffix of its kind (`_total`).
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
    pub(crate) labels: &'static [&'static str],
    pub(crate) read: Read,
}
type Text = &'static str;
type Read = fn(&Reading<'_>) -> Vec<Sample>;

/// Reads nothing: [`COUNTED`] supplies the values.
const fn counted(name: Text, help: Text, labels: &'static [Text]) -> Metric {
    Metric { name, kind: Kind::Counter, help, labels, read: |_| Vec::new() }
}
const fn counter(name: Text, help: Text, labels: &'static [Text], read: Read) -> Metric {
    Metric { name, kind: Kind::Counter, help, labels, read }
}
const fn gauge(name: Text, help: Text, labels: &'static [Text], read: Read) -> Metric {
    Metric { name, kind: Kind::Gauge, help, labels, read }
}
const fn histogram(name: Text, help: Text, labels: &'static [Text], read: Read) -> Metric {
    Metric { name, kind: Kind::Histogram, help, labels, read }
}

/// All metrics. Each has the label `family` as well.
pub(crate) const METRICS: &[Metric] = &[
    gauge("node_info", "The node and the version of the program; always 1.", &["node", "version"], |from| {
        vec![number([&from.status.label, &from.status.version], 1.0)]
    }),
    gauge("uptime_seconds", "Time since the node started.", &[], |from| one(from.status.uptime_seconds)),
    // Faces.
    gauge("face_up", "Whether the neighbour of a face answers: 1 or 0.", &["face", "neighbour"], |from| {
        faces(from, |face| Some(f64::from(u8::from(face.up))))
    }),
    gauge("face_rtt_seconds", "Round-trip time to the neighbour.", &["face", "neighbour"], |from| {
        faces(from, |face| face.rtt_ms.map(|rtt| rtt / 1_000.0))
    }),
    gauge("face_mtu_bytes", "Datagram bytes proven to reach the neighbour.", &["face", "neighbour"], |from| {
        faces(from, |face| face.mtu.map(f64::from))
    }),
    gauge(
        "face_rate_bytes_per_second",
        "Rate of a face's link, configured or measured.",
        &["face", "neighbour"],
        |from| faces(from, |face| face.rate_mbps.map(bytes_per_second)),
    ),
    counter("face_packets", "Packets over a face.", &["face", "neighbour", "direction"], |from| {
        both_ways(from, |face| (face.received_packets, face.sent_packets))
    }),
    counter("face_bytes", "Bytes of these packets.", &["face", "neighbour", "direction"], |from| {
        both_ways(from, |face| (face.received_bytes, face.sent_bytes))
    }),
    counter("face_dropped_packets", "Packets dropped by a full queue.", &["face", "neighbour"], |from| {
        let of = |face: &FaceView| count([&face.id, &face.neighbour], face.dropped_packets);
        shown(from).map(of).collect()
    }),
    gauge("face_cost", "Cost of a face with a policy.", &["face", "neighbour"], |from| {
        faces(from, |face| face.policy.as_ref().map(|policy| f64::from(policy.cost)))
    }),
    gauge("face_backup", "Whether a face is only a backup: 1 or 0.", &["face", "neighbour"], |from| {
        faces(from, |face| face.policy.as_ref().map(|policy| f64::from(u8::from(policy.backup))))
    }),
    gauge("face_closed", "Whether fetches over a face are barred now: 1 or 0.", &["face", "neighbour"], |from| {
        faces(from, |face| face.policy.as_ref().map(|policy| f64::from(u8::from(policy.closed.is_some()))))
    }),
    gauge("face_quota_bytes", "Quota of a face in its day or month.", &["face", "neighbour"], |from| {
        faces(from, |face| quota(face).map(|quota| quota.bytes as f64))
    }),
    gauge("face_quota_used_bytes", "Used bytes of that quota.", &["face", "neighbour"], |from| {
        faces(from, |face| quota(face).map(|quota| quota.used_bytes as f64))
    }),
    gauge(
        "face_limit_bytes_per_second",
        "Request rate allowed over a face at this time of day.",
        &["face", "neighbour"],
        |from| faces(from, |face| face.policy.as_ref()?.limit_mbps.map(bytes_per_second)),
    ),
    // Transfers.
    gauge("transfers_running", "Running fetches.", &[], |from| one(from.totals.running as f64)),
    counter("transfers_ended", "Ended fetches by result.", &["result"], |from| {
        vec![count(["done"], from.totals.done), count(["failed"], from.totals.failed)]
    }),
    counter("source_bytes", "Useful bytes from a source in all fetches.", &["source"], |from| {
        from.totals.sources.iter().map(|(source, bytes)| count([source], *bytes)).collect()
    }),
    counter("sources_distrusted", "Sources excluded for wrong bytes.", &[], |from| total(from.totals.distrusted)),
    counter("cached_bytes", "Fetched bytes delivered by caches.", &[], |from| total(from.totals.cached_bytes)),
    counter("retransmitted_bytes", "Bytes that fetches requested again.", &[], |from| {
        total(from.totals.retransmitted_bytes)
    }),
    counter("duplicate_bytes", "Bytes that arrived a second time.", &[], |from| total(from.totals.duplicate_bytes)),
    counter("path_bytes", "Useful bytes over a path in all fetches.", &["source", "path"], |from| {
        ways(from, |of| of.bytes)
    }),
    counter("path_requested_packets", "Packets requested over a path.", &["source", "path"], |from| {
        ways(from, |of| of.requested_packets)
    }),
    counter("path_lost_packets", "Packets of a path counted as lost.", &["source", "path"], |from| {
        ways(from, |of| of.lost_packets)
    }),
    gauge("path_window_bytes", "Windows of a path, over all running fetches.", &["source", "path"], |from| {
        now(from, |of| Some(of.window_bytes as f64))
    }),
    gauge("path_in_flight_bytes", "Bytes in flight on a path.", &["source", "path"], |from| {
        now(from, |of| Some(of.in_flight_bytes as f64))
    }),
    gauge("path_rate_bytes_per_second", "Delivery rate of a path now.", &["source", "path"], |from| {
        now(from, |of| Some(bytes_per_second(of.mbps)))
    }),
    gauge(
        "path_rtt_seconds",
        "Smoothed round-trip time of a path, the longest of its fetches.",
        &["source", "path"],
        |from| now(from, |of| of.rtt),
    ),
    gauge("paths", "Paths of running fetches by their state.", &["state"], |from| {
        from.totals.states.iter().map(|(state, paths)| number([state], *paths as f64)).collect()
    }),
    // Publications, cache, store, tables.
    gauge("publications", "Publications by their state.", &["state"], |from| {
        let of = |state: &str, is: fn(&PublishedView) -> bool| {
            number([state], from.status.published.iter().filter(|published| is(published)).count() as f64)
        };
        vec![
            of("confirmed", |published| published.confirmed),
            of("unconfirmed", |published| !published.confirmed),
            of("unreadable", |published| published.unreadable.is_some()),
        ]
    }),
    gauge("cache_used_bytes", "Bytes in the packet cache.", &[], |from| {
        from.status.cache.iter().map(|cache| number([], cache.used_bytes as f64)).collect()
    }),
    gauge("cache_capacity_bytes", "Capacity of the packet cache.", &[], |from| {
        from.status.cache.iter().map(|cache| number([], cache.capacity_bytes as f64)).collect()
    }),
    counter("cache_lookups", "Look-ups in the packet cache.", &["result"], |from| {
        let of = |cache: &CacheView| [count(["hit"], cache.hits), count(["miss"], cache.misses)];
        from.status.cache.iter().flat_map(of).collect()
    }),
    gauge("store_used_bytes", "Bytes stored for others.", &[], |from| {
        from.store.iter().map(|store| number([], store.used_bytes as f64)).collect()
    }),
    gauge("store_capacity_bytes", "Capacity of the store for others.", &[], |from| {
        from.store.iter().map(|store| number([], store.capacity_bytes as f64)).collect()
    }),
    gauge("store_objects", "Objects with chunks stored for others.", &[], |from| {
        from.store.iter().map(|store| number([], store.held.len() as f64)).collect()
    }),
    gauge("table_entries", "Entries of the node's tables: see below.", &["table"], |from| {
        from.status.tables.iter().map(|(table, entries)| number([table], *entries as f64)).collect()
    }),
    gauge("table_limit", "Limits of these tables; refusals name the limit.", &["table"], |from| {
        from.status.table_limits.iter().map(|(table, limit)| number([table], *limit as f64)).collect()
    }),
    histogram(
        "resolver_request_seconds",
        "Delay until a publication was confirmed (`publish`), a fetch had \
         its first source (`find`), a listing was complete (`list`).",
        &["operation"],
        |from| from.status.latencies.iter().map(|(operation, times)| self::times([operation], times)).collect(),
    ),
    counter("dropped_packets", "Wrong or unwanted packets dropped, by reason.", &["reason"], |from| {
        let is_reason = |counter: &str| counter != SHORTFALL && COUNTED.iter().all(|(of, ..)| *of != counter);
        let reasons = from.status.counters.iter().filter(|(counter, _)| is_reason(counter));
        reasons.map(|(reason, packets)| count([reason], *packets)).collect()
    }),
    gauge(
        "socket_buffer_shortfall_bytes",
        "Socket buffer that the kernel did not grant; more than zero calls for a larger net.core.rmem_max or wmem_max.",
        &[],
        |from| one(from.status.counters.get(SHORTFALL).copied().unwrap_or(0) as f64),
    ),
    // The gateway and the API.
    gauge("http_connections", "Open connections of the gateway and the API.", &[], |from| {
        one(from.http.connections as f64)
    }),
    gauge("http_objects_open", "Objects that the gateway reads or holds open.", &[], |from| {
        one(from.http.objects as f64)
    }),
    counter("origin_answers", "Answers of origins and their copies, by where they came from.", &["from"], |from| {
        from.http.origin_answers.iter().map(|(of, number)| count([of], *number)).collect()
    }),
    counter("origin_bytes", "Bytes of copies that were fetched, by where they came from.", &["from"], |from| {
        from.http.origin_bytes.iter().map(|(of, bytes)| count([of], *bytes)).collect()
    }),
    gauge("site_members", "Other gateways of the site that answer.", &[], |from| {
        from.http.site_members.map(|members| number([], members as f64)).into_iter().collect()
    }),
    gauge("http_event_streams", "Clients of event streams.", &[], |from| one(from.http.streams as f64)),
    counter("http_events_missed", "Events missed by slow clients.", &[], |from| total(from.http.events_missed)),
    counter("http_requests", "Requests of the gateway and the API by kind and status.", &["kind", "status"], |from| {
        from.http
            .requests
            .iter()
            .map(|((kind, status), requests)| count([kind, &status.to_string()], *requests))
            .collect()
    }),
    histogram("http_request_seconds", "Time until the head of the answer.", &["kind"], |from| {
        from.http.seconds.iter().map(|(kind, times)| self::times([kind], times)).collect()
    }),
    // Counters of the node, by the table below.
    counted("socket_datagrams", "Datagrams of the sockets of all faces.", &["direction"]),
    counted("socket_bytes", "Bytes of datagrams of the sockets of all faces.", &["direction"]),
    counted(
        "socket_dropped_datagrams",
        "Unsent datagrams: full backlog, longer than the MTU, marked for a peer without ECN, or refused by the kernel.",
        &["reason"],
    ),
    counted(
        "socket_ecn_datagrams",
        "Datagrams received, by ECN codepoint; `ignored`: marked ones of a path that marks everything.",
        &["codepoint"],
    ),
    counted("socket_receive_errors", "Receive calls that failed, ICMP errors included.", &[]),
    counted("events_missed", "Events that a slow client of the control socket missed.", &[]),
    counted("psi_packets", "PSI packets of all kinds.", &["direction"]),
    counted("requests", "Requests for objects (in ndn Interests) that reached this publisher.", &["result"]),
    counted("psi_answer_packets", "Packets with which a PSI publisher answered requests.", &[]),
    counted("unsolicited_packets", "Unsolicited packets.", &["kind"]),
    counted("psi_control_messages", "Control messages of PSI.", &["result"]),
    counted("psi_control_fragments_repeated", "Fragments of control messages sent again.", &[]),
    counted("ndn_packets", "Network-layer packets of NDN, control and echo included.", &["type", "direction"]),
    counted("ndn_interests", "Outcomes of Interests in the PIT.", &["result"]),
    counted("ndn_link_packets", "Packets under link reliability.", &["result"]),
    counted("ndn_path_labels", "Hops that this forwarder added to path tags.", &[]),
    counted("ndn_path_tags", "Interests forwarded by their path tag.", &["result"]),
    counted("ndn_echo_requests_answered", "Echo requests answered.", &[]),
    counted("ndn_flow_lookups", "Look-ups in the table of flows.", &["result"]),
    counted("mf_chunks", "Chunks in transit through this node.", &["event"]),
    counted("mf_object_chunks", "Chunks of this node's publications, messages and fetches.", &["event"]),
    counted("mf_wrong_chunks", "Chunks that failed their hash.", &["from"]),
    counted("mf_stored_chunks", "Chunks that the node stores for others.", &["event"]),
    counted("mf_reminders", "Reminders sent to producers of delegated chunks.", &[]),
    counted("mf_unreported_drops", "Dropped chunks that could not be reported to their source.", &[]),
    counted("mf_damage", "Damage found in durable state at the start.", &["of", "unit"]),
    counted("mf_name_store", "Operations of a resolver's engine.", &["event"]),
    counted("psi_record_store", "Operations of a rendezvous node's engine.", &["event"]),
    counted("events_dropped", "Events dropped before a listener took them.", &[]),
    counted("mf_requests_upstream", "Requests for missing chunks that a relay forwarded upstream.", &[]),
    counted("mf_groups_without_proxy", "Chunks for groups whose proxy was away.", &[]),
    counted("limit_refusals", "Requests of hosts or of this node refused at a limit.", &["limit"]),
    counted("psi_pending_packets", "Packets requested while another request for them was in flight.", &["event"]),
    counted("psi_link_states_unacknowledged", "Reports of this node's links that no manager acknowledged.", &[]),
];

/// Despite its kind no counter: its value is the number of missing bytes.
pub(crate) const SHORTFALL: &str = "driver: socket buffer shortfall in bytes";

/// Every counter of a node, as `trib status` has it, with its metric and the values of that one's labels; others count
/// dropped packets by their reason. A test compares these with the nodes' counters.
pub(crate) const COUNTED: &[(&str, &str, &[&str])] = &[
    ("refusals for records_max", "limit_refusals", &["records_max"]),
    ("refusals for publishers_max", "limit_refusals", &["publishers_max"]),
    ("refusals for subscriptions_max", "limit_refusals", &["subscriptions_max"]),
    ("refusals for children_max", "limit_refusals", &["children_max"]),
    ("refusals for scope_subscribers_max", "limit_refusals", &["scope_subscribers_max"]),
    ("refusals for manifest_bytes_max", "limit_refusals", &["manifest_bytes_max"]),
    ("refusals for requests_max", "limit_refusals", &["requests_max"]),
    ("refusals for wishes_max", "limit_refusals", &["wishes_max"]),
    ("refusals for transfers_max", "limit_refusals", &["transfers_max"]),
    ("refusals for nodes_max", "limit_refusals", &["nodes_max"]),
    ("refusals for links_max", "limit_refusals", &["links_max"]),
    ("refusals for clients_max", "limit_refusals", &["clients_max"]),
    ("driver: datagrams in", "socket_datagrams", &["in"]),
    ("driver: datagrams out", "socket_datagrams", &["out"]),
    ("driver: bytes in", "socket_bytes", &["in"]),
    ("driver: bytes out", "socket_bytes", &["out"]),
    ("driver: backlog drops", "socket_dropped_datagrams", &["backlog"]),
    ("driver: oversize drops", "socket_dropped_datagrams", &["oversize"]),
    ("driver: send errors", "socket_dropped_datagrams", &["send error"]),
    ("driver: receive errors", "socket_receive_errors", &[]),
    ("driver: ect(0) in", "socket_ecn_datagrams", &["ect0"]),
    ("driver: ect(1) in", "socket_ecn_datagrams", &["ect1"]),
    ("driver: marked in", "socket_ecn_datagrams", &["ce"]),
    ("driver: marks ignored", "socket_ecn_datagrams", &["ignored"]),
    ("driver: marked drops", "socket_dropped_datagrams", &["marked"]),
    ("events too many for a listener", "events_missed", &[]),
    ("packets arrived", "psi_packets", &["in"]),
    ("packets originated", "psi_packets", &["originated"]),
    ("requests answered", "requests", &["answered"]),
    ("requests for unknown objects", "requests", &["unknown object"]),
    ("packets that wait for another request's answer", "psi_pending_packets", &["joined"]),
    ("pending packets forgotten for pending_packets_max", "psi_pending_packets", &["forgotten"]),
    ("requests dropped, too many wait for the disk", "requests", &["disk busy"]),
    ("interests answered here", "requests", &["answered"]),
    ("interests for what is not here", "requests", &["unknown object"]),
    ("interests dropped, too many wait for the disk", "requests", &["disk busy"]),
    ("data packets answered with", "psi_answer_packets", &[]),
    ("unsolicited data for fetches", "unsolicited_packets", &["data"]),
    ("unsolicited answers of resolvers", "unsolicited_packets", &["resolver answer"]),
    ("control messages delivered", "psi_control_messages", &["delivered"]),
    ("control messages timed out", "psi_control_messages", &["timed out"]),
    ("control fragments repeated", "psi_control_fragments_repeated", &[]),
    ("interests arrived", "ndn_packets", &["interest", "in"]),
    ("interests sent", "ndn_packets", &["interest", "out"]),
    ("data arrived", "ndn_packets", &["data", "in"]),
    ("data sent", "ndn_packets", &["data", "out"]),
    ("nacks arrived", "ndn_packets", &["nack", "in"]),
    ("nacks sent", "ndn_packets", &["nack", "out"]),
    ("interests satisfied", "ndn_interests", &["satisfied"]),
    ("interests not satisfied", "ndn_interests", &["expired"]),
    ("interests aggregated", "ndn_interests", &["aggregated"]),
    ("packets acknowledged on links", "ndn_link_packets", &["acknowledged"]),
    ("packets sent again on links", "ndn_link_packets", &["sent again"]),
    ("packets given up on links", "ndn_link_packets", &["given up"]),
    ("path labels written", "ndn_path_labels", &[]),
    ("path tags followed", "ndn_path_tags", &["followed"]),
    ("path tags that failed", "ndn_path_tags", &["failed"]),
    ("echo requests answered", "ndn_echo_requests_answered", &[]),
    ("flows found by the acceleration base", "ndn_flow_lookups", &["found"]),
    ("flows not found by the acceleration base", "ndn_flow_lookups", &["not found"]),
    ("chunks arrived", "mf_chunks", &["arrived"]),
    ("chunks sent", "mf_chunks", &["sent"]),
    ("chunks originated", "mf_chunks", &["originated"]),
    ("chunks consumed", "mf_chunks", &["consumed"]),
    ("chunks dropped", "mf_chunks", &["dropped"]),
    ("chunks returned", "mf_chunks", &["returned"]),
    ("chunks cut through", "mf_chunks", &["cut through"]),
    ("chunks pushed aside", "mf_chunks", &["pushed aside"]),
    ("object chunks sent", "mf_object_chunks", &["sent"]),
    ("object chunks sent again", "mf_object_chunks", &["sent again"]),
    ("chunks without room in the receive buffer", "mf_object_chunks", &["refused by a full receiver"]),
    ("wrong bytes of sources", "mf_wrong_chunks", &["source"]),
    ("wrong bytes out of storage", "mf_wrong_chunks", &["storage"]),
    ("wrong bytes out of caches", "mf_wrong_chunks", &["cache"]),
    ("chunks stored", "mf_stored_chunks", &["stored"]),
    ("stored chunks delivered", "mf_stored_chunks", &["delivered"]),
    ("stored chunks evicted", "mf_stored_chunks", &["evicted"]),
    ("stored chunks expired", "mf_stored_chunks", &["expired"]),
    ("stored chunks purged", "mf_stored_chunks", &["purged"]),
    ("chunks refused by the store", "mf_stored_chunks", &["refused"]),
    ("chunks restored", "mf_stored_chunks", &["restored"]),
    ("reminders for producers", "mf_reminders", &[]),
    ("unreported drops", "mf_unreported_drops", &[]),
    ("places in the store that are damaged", "mf_damage", &["store", "places"]),
    ("damaged bytes in the store", "mf_damage", &["store", "bytes"]),
    ("damaged files of the store put aside", "mf_damage", &["store", "files"]),
    ("places in the stored names that are damaged", "mf_damage", &["names", "places"]),
    ("damaged bytes in the stored names", "mf_damage", &["names", "bytes"]),
    ("damaged files of the stored names put aside", "mf_damage", &["names", "files"]),
    ("names put into the store of names", "mf_name_store", &["stored"]),
    ("names older than those in the store of names", "mf_name_store", &["stale"]),
    ("lookups in the store of names", "mf_name_store", &["read"]),
    ("changes told by the store of names", "mf_name_store", &["told"]),
    ("failed requests to the store of names", "mf_name_store", &["failed"]),
    ("forged names in the store of names", "mf_name_store", &["forged"]),
    ("names ended in the store of names", "mf_name_store", &["ended"]),
    ("restarts of the store of names", "mf_name_store", &["restarts"]),
    ("entries put into the store of records", "psi_record_store", &["stored"]),
    ("changes told by the store of records", "psi_record_store", &["told"]),
    ("failed requests to the store of records", "psi_record_store", &["failed"]),
    ("malformed entries in the store of records", "psi_record_store", &["malformed"]),
    ("restarts of the store of records", "psi_record_store", &["restarts"]),
    ("events dropped", "events_dropped", &[]),
    ("requests sent upstream", "mf_requests_upstream", &[]),
    ("groups whose proxy is away", "mf_groups_without_proxy", &[]),
    ("link state not acknowledged", "psi_link_states_unacknowledged", &[]),
];

/// Faces with separate series; incoming neighbours could be many.
const FACES_MAX: usize = 500;

fn shown<'r>(from: &'r Reading<'_>) -> impl Iterator<Item = &'r FaceView> {
    from.status.faces.iter().take(FACES_MAX)
}
fn faces(from: &Reading<'_>, of: fn(&FaceView) -> Option<f64>) -> Vec<Sample> {
    shown(from).filter_map(|face| Some(number([&face.id, &face.neighbour], of(face)?))).collect()
}
/// Mbit/s in the base unit of Prometheus.
fn bytes_per_second(mbps: f64) -> f64 {
    mbps * 1e6 / 8.0
}
fn quota(face: &FaceView) -> Option<&QuotaView> {
    face.policy.as_ref()?.quota.as_ref()
}
fn both_ways(from: &Reading<'_>, of: fn(&FaceView) -> (u64, u64)) -> Vec<Sample> {
    let both = |face: &FaceView| {
        let (received, sent) = of(face);
        let [id, neighbour] = [face.id.as_str(), face.neighbour.as_str()];
        [count([id, neighbour, "in"], received), count([id, neighbour, "out"], sent)]
    };
    shown(from).flat_map(both).collect()
}
fn ways(from: &Reading<'_>, of: fn(&PathTotals) -> u64) -> Vec<Sample> {
    from.totals.paths.iter().map(|((source, path), totals)| count([source, path], of(totals))).collect()
}
fn now(from: &Reading<'_>, of: fn(&PathNow) -> Option<f64>) -> Vec<Sample> {
    let all = from.totals.now.iter();
    all.filter_map(|((source, path), now)| Some(number([source, path], of(now)?))).collect()
}
fn one(value: f64) -> Vec<Sample> {
    vec![number([], value)]
}
fn total(value: u64) -> Vec<Sample> {
    vec![count([], value)]
}
fn number<const N: usize>(labels: [&str; N], value: f64) -> Sample {
    Sample { labels: labels.map(String::from).into(), value: Value::Number(value) }
}
fn count<const N: usize>(labels: [&str; N], value: u64) -> Sample {
    Sample { labels: labels.map(String::from).into(), value: Value::Count(value) }
}
fn times<const N: usize>(labels: [&str; N], times: &LatencyView) -> Sample {
    Sample { labels: labels.map(String::from).into(), value: Value::Times(times.clone()) }
}

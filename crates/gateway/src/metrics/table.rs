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

pub(crate) struct Metric {
    /// Without the prefix `tributary_` and without the suffix of its kind (`_total`).
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
    pub(crate) labels: &'static [&'static str],
    pub(crate) read: fn(&Reading<'_>) -> Vec<Sample>,
}

/// A counter of the node that is a metric, or one value of its labels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    /// As `trib status` has it.
    pub(crate) counter: &'static str,
    /// The metric, without prefix and `_total`.
    pub(crate) metric: &'static str,
    pub(crate) labels: &'static [&'static str],
}

/// Reads nothing: [`COUNTED`] supplies the values.
const fn counted(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Metric {
    Metric { name, kind: Kind::Counter, help, labels, read: |_| Vec::new() }
}
const fn counter(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    read: fn(&Reading<'_>) -> Vec<Sample>,
) -> Metric {
    Metric { name, kind: Kind::Counter, help, labels, read }
}
const fn gauge(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    read: fn(&Reading<'_>) -> Vec<Sample>,
) -> Metric {
    Metric { name, kind: Kind::Gauge, help, labels, read }
}
const fn histogram(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    read: fn(&Reading<'_>) -> Vec<Sample>,
) -> Metric {
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
    counter("sources_distrusted", "Sources excluded for wrong bytes.", &[], |from| {
        vec![count([], from.totals.distrusted)]
    }),
    counter("cached_bytes", "Fetched bytes delivered by caches.", &[], |from| {
        vec![count([], from.totals.cached_bytes)]
    }),
    counter("retransmitted_bytes", "Bytes that fetches requested again.", &[], |from| {
        vec![count([], from.totals.retransmitted_bytes)]
    }),
    counter("duplicate_bytes", "Bytes that arrived a second time.", &[], |from| {
        vec![count([], from.totals.duplicate_bytes)]
    }),
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
        let is_reason =
            |counter: &str| counter != SHORTFALL && COUNTED.iter().all(|counted| counted.counter != counter);
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
    gauge("http_event_streams", "Clients of event streams.", &[], |from| one(from.http.streams as f64)),
    counter("http_events_missed", "Events missed by slow clients.", &[], |from| {
        vec![count([], from.http.events_missed)]
    }),
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
        "Unsent datagrams: full backlog, longer than the MTU, or refused by the kernel.",
        &["reason"],
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

/// Every counter of a node; others count dropped packets by their reason. A test compares these with the nodes'
/// counters.
pub(crate) const COUNTED: &[Counted] = &[
    Counted { counter: "refusals for records_max", metric: "limit_refusals", labels: &["records_max"] },
    Counted { counter: "refusals for publishers_max", metric: "limit_refusals", labels: &["publishers_max"] },
    Counted { counter: "refusals for subscriptions_max", metric: "limit_refusals", labels: &["subscriptions_max"] },
    Counted { counter: "refusals for children_max", metric: "limit_refusals", labels: &["children_max"] },
    Counted {
        counter: "refusals for scope_subscribers_max",
        metric: "limit_refusals",
        labels: &["scope_subscribers_max"],
    },
    Counted { counter: "refusals for manifest_bytes_max", metric: "limit_refusals", labels: &["manifest_bytes_max"] },
    Counted { counter: "refusals for requests_max", metric: "limit_refusals", labels: &["requests_max"] },
    Counted { counter: "refusals for wishes_max", metric: "limit_refusals", labels: &["wishes_max"] },
    Counted { counter: "refusals for transfers_max", metric: "limit_refusals", labels: &["transfers_max"] },
    Counted { counter: "refusals for nodes_max", metric: "limit_refusals", labels: &["nodes_max"] },
    Counted { counter: "refusals for links_max", metric: "limit_refusals", labels: &["links_max"] },
    Counted { counter: "refusals for clients_max", metric: "limit_refusals", labels: &["clients_max"] },
    Counted { counter: "driver: datagrams in", metric: "socket_datagrams", labels: &["in"] },
    Counted { counter: "driver: datagrams out", metric: "socket_datagrams", labels: &["out"] },
    Counted { counter: "driver: bytes in", metric: "socket_bytes", labels: &["in"] },
    Counted { counter: "driver: bytes out", metric: "socket_bytes", labels: &["out"] },
    Counted { counter: "driver: backlog drops", metric: "socket_dropped_datagrams", labels: &["backlog"] },
    Counted { counter: "driver: oversize drops", metric: "socket_dropped_datagrams", labels: &["oversize"] },
    Counted { counter: "driver: send errors", metric: "socket_dropped_datagrams", labels: &["send error"] },
    Counted { counter: "driver: receive errors", metric: "socket_receive_errors", labels: &[] },
    Counted { counter: "events too many for a listener", metric: "events_missed", labels: &[] },
    Counted { counter: "packets arrived", metric: "psi_packets", labels: &["in"] },
    Counted { counter: "packets originated", metric: "psi_packets", labels: &["originated"] },
    Counted { counter: "requests answered", metric: "requests", labels: &["answered"] },
    Counted { counter: "requests for unknown objects", metric: "requests", labels: &["unknown object"] },
    Counted {
        counter: "packets that wait for another request's answer",
        metric: "psi_pending_packets",
        labels: &["joined"],
    },
    Counted {
        counter: "pending packets forgotten for pending_packets_max",
        metric: "psi_pending_packets",
        labels: &["forgotten"],
    },
    Counted { counter: "requests dropped, too many wait for the disk", metric: "requests", labels: &["disk busy"] },
    Counted { counter: "interests answered here", metric: "requests", labels: &["answered"] },
    Counted { counter: "interests for what is not here", metric: "requests", labels: &["unknown object"] },
    Counted { counter: "interests dropped, too many wait for the disk", metric: "requests", labels: &["disk busy"] },
    Counted { counter: "data packets answered with", metric: "psi_answer_packets", labels: &[] },
    Counted { counter: "unsolicited data for fetches", metric: "unsolicited_packets", labels: &["data"] },
    Counted {
        counter: "unsolicited answers of resolvers",
        metric: "unsolicited_packets",
        labels: &["resolver answer"],
    },
    Counted { counter: "control messages delivered", metric: "psi_control_messages", labels: &["delivered"] },
    Counted { counter: "control messages timed out", metric: "psi_control_messages", labels: &["timed out"] },
    Counted { counter: "control fragments repeated", metric: "psi_control_fragments_repeated", labels: &[] },
    Counted { counter: "interests arrived", metric: "ndn_packets", labels: &["interest", "in"] },
    Counted { counter: "interests sent", metric: "ndn_packets", labels: &["interest", "out"] },
    Counted { counter: "data arrived", metric: "ndn_packets", labels: &["data", "in"] },
    Counted { counter: "data sent", metric: "ndn_packets", labels: &["data", "out"] },
    Counted { counter: "nacks arrived", metric: "ndn_packets", labels: &["nack", "in"] },
    Counted { counter: "nacks sent", metric: "ndn_packets", labels: &["nack", "out"] },
    Counted { counter: "interests satisfied", metric: "ndn_interests", labels: &["satisfied"] },
    Counted { counter: "interests not satisfied", metric: "ndn_interests", labels: &["expired"] },
    Counted { counter: "interests aggregated", metric: "ndn_interests", labels: &["aggregated"] },
    Counted { counter: "packets acknowledged on links", metric: "ndn_link_packets", labels: &["acknowledged"] },
    Counted { counter: "packets sent again on links", metric: "ndn_link_packets", labels: &["sent again"] },
    Counted { counter: "packets given up on links", metric: "ndn_link_packets", labels: &["given up"] },
    Counted { counter: "path labels written", metric: "ndn_path_labels", labels: &[] },
    Counted { counter: "path tags followed", metric: "ndn_path_tags", labels: &["followed"] },
    Counted { counter: "path tags that failed", metric: "ndn_path_tags", labels: &["failed"] },
    Counted { counter: "echo requests answered", metric: "ndn_echo_requests_answered", labels: &[] },
    Counted { counter: "flows found by the acceleration base", metric: "ndn_flow_lookups", labels: &["found"] },
    Counted { counter: "flows not found by the acceleration base", metric: "ndn_flow_lookups", labels: &["not found"] },
    Counted { counter: "chunks arrived", metric: "mf_chunks", labels: &["arrived"] },
    Counted { counter: "chunks sent", metric: "mf_chunks", labels: &["sent"] },
    Counted { counter: "chunks originated", metric: "mf_chunks", labels: &["originated"] },
    Counted { counter: "chunks consumed", metric: "mf_chunks", labels: &["consumed"] },
    Counted { counter: "chunks dropped", metric: "mf_chunks", labels: &["dropped"] },
    Counted { counter: "chunks returned", metric: "mf_chunks", labels: &["returned"] },
    Counted { counter: "chunks cut through", metric: "mf_chunks", labels: &["cut through"] },
    Counted { counter: "chunks pushed aside", metric: "mf_chunks", labels: &["pushed aside"] },
    Counted { counter: "object chunks sent", metric: "mf_object_chunks", labels: &["sent"] },
    Counted { counter: "object chunks sent again", metric: "mf_object_chunks", labels: &["sent again"] },
    Counted {
        counter: "chunks without room in the receive buffer",
        metric: "mf_object_chunks",
        labels: &["refused by a full receiver"],
    },
    Counted { counter: "wrong bytes of sources", metric: "mf_wrong_chunks", labels: &["source"] },
    Counted { counter: "wrong bytes out of storage", metric: "mf_wrong_chunks", labels: &["storage"] },
    Counted { counter: "wrong bytes out of caches", metric: "mf_wrong_chunks", labels: &["cache"] },
    Counted { counter: "chunks stored", metric: "mf_stored_chunks", labels: &["stored"] },
    Counted { counter: "stored chunks delivered", metric: "mf_stored_chunks", labels: &["delivered"] },
    Counted { counter: "stored chunks evicted", metric: "mf_stored_chunks", labels: &["evicted"] },
    Counted { counter: "stored chunks expired", metric: "mf_stored_chunks", labels: &["expired"] },
    Counted { counter: "stored chunks purged", metric: "mf_stored_chunks", labels: &["purged"] },
    Counted { counter: "chunks refused by the store", metric: "mf_stored_chunks", labels: &["refused"] },
    Counted { counter: "chunks restored", metric: "mf_stored_chunks", labels: &["restored"] },
    Counted { counter: "reminders for producers", metric: "mf_reminders", labels: &[] },
    Counted { counter: "unreported drops", metric: "mf_unreported_drops", labels: &[] },
    Counted { counter: "places in the store that are damaged", metric: "mf_damage", labels: &["store", "places"] },
    Counted { counter: "damaged bytes in the store", metric: "mf_damage", labels: &["store", "bytes"] },
    Counted { counter: "damaged files of the store put aside", metric: "mf_damage", labels: &["store", "files"] },
    Counted {
        counter: "places in the stored names that are damaged",
        metric: "mf_damage",
        labels: &["names", "places"],
    },
    Counted { counter: "damaged bytes in the stored names", metric: "mf_damage", labels: &["names", "bytes"] },
    Counted {
        counter: "damaged files of the stored names put aside",
        metric: "mf_damage",
        labels: &["names", "files"],
    },
    Counted { counter: "names put into the store of names", metric: "mf_name_store", labels: &["stored"] },
    Counted { counter: "names older than those in the store of names", metric: "mf_name_store", labels: &["stale"] },
    Counted { counter: "lookups in the store of names", metric: "mf_name_store", labels: &["read"] },
    Counted { counter: "changes told by the store of names", metric: "mf_name_store", labels: &["told"] },
    Counted { counter: "failed requests to the store of names", metric: "mf_name_store", labels: &["failed"] },
    Counted { counter: "forged names in the store of names", metric: "mf_name_store", labels: &["forged"] },
    Counted { counter: "names ended in the store of names", metric: "mf_name_store", labels: &["ended"] },
    Counted { counter: "restarts of the store of names", metric: "mf_name_store", labels: &["restarts"] },
    Counted { counter: "entries put into the store of records", metric: "psi_record_store", labels: &["stored"] },
    Counted { counter: "changes told by the store of records", metric: "psi_record_store", labels: &["told"] },
    Counted { counter: "failed requests to the store of records", metric: "psi_record_store", labels: &["failed"] },
    Counted {
        counter: "malformed entries in the store of records",
        metric: "psi_record_store",
        labels: &["malformed"],
    },
    Counted { counter: "restarts of the store of records", metric: "psi_record_store", labels: &["restarts"] },
    Counted { counter: "events dropped", metric: "events_dropped", labels: &[] },
    Counted { counter: "requests sent upstream", metric: "mf_requests_upstream", labels: &[] },
    Counted { counter: "groups whose proxy is away", metric: "mf_groups_without_proxy", labels: &[] },
    Counted { counter: "link state not acknowledged", metric: "psi_link_states_unacknowledged", labels: &[] },
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
fn number<const N: usize>(labels: [&str; N], value: f64) -> Sample {
    Sample { labels: labels.map(String::from).into(), value: Value::Number(value) }
}
fn count<const N: usize>(labels: [&str; N], value: u64) -> Sample {
    Sample { labels: labels.map(String::from).into(), value: Value::Count(value) }
}
fn times<const N: usize>(labels: [&str; N], times: &LatencyView) -> Sample {
    Sample { labels: labels.map(String::from).into(), value: Value::Times(times.clone()) }
}

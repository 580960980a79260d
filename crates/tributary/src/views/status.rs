//! A node's status for people: its faces, its cache, its publications and fetches.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tributary_transport::{CacheStatus, FaceStatus, LinkStatus, NetworkStatus, NodeStatus};
use tributary_trust::{Access, Grant};

use super::{
    latency::LatencyView,
    numbers::{milliseconds, round},
};

tributary_core::declared! {
    /// A node's status. The counters are the node's and its driver's.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct StatusView {
        /// Its id, 16 hex digits.
        pub node: String = status.node.to_string(),
        /// Its name.
        pub label: String = status.label.clone(),
        /// `psi`, `ndn` or `mf`.
        pub family: String = status.family.into(),
        /// Its roles in the words of the config.
        pub roles: Vec<String> = status.roles.iter().map(ToString::to_string).collect(),
        /// The version of the program.
        #[serde(default)]
        pub version: String = String::new(),
        /// How long it has been running.
        #[serde(default)]
        pub uptime_seconds: f64 = 0.0,
        /// Where it listens.
        pub listen: Vec<String> = Vec::new(),
        /// Its address and key, for `peer` and `--peer` of others; `None` without proof of keys at that address.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub invitation: Option<String> = None,
        /// Its faces.
        pub faces: Vec<FaceView> = status.faces.iter().map(FaceView::new).collect(),
        /// Its packet cache.
        pub cache: Option<CacheView> = status.cache.as_ref().map(CacheView::new),
        /// The node's publications.
        pub published: Vec<PublishedView> = Vec::new(),
        /// Its transfers, oldest first.
        pub transfers: Vec<TransferView> = Vec::new(),
        /// Its part in resolution, as pairs of subject and state.
        pub resolver: Vec<(String, String)> = status.resolver.clone(),
        /// Links between nodes of the network, each in one direction, as far as the node knows them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub links: Vec<LinkView> = status.links.iter().map(LinkView::new).collect(),
        /// Counters by name.
        pub counters: BTreeMap<String, u64> =
            status.counters.iter().map(|(name, count)| (name.to_string(), *count)).collect(),
        /// Entries of the node's tables now, by the table's name.
        #[serde(default)]
        pub tables: BTreeMap<String, u64> =
            status.tables.iter().map(|(table, entries)| (table.to_string(), *entries)).collect(),
        /// The maximum number of entries for tables with a limit in the config.
        #[serde(default)]
        pub table_limits: BTreeMap<String, u64> =
            status.table_limits.iter().map(|(table, limit)| (table.to_string(), *limit)).collect(),
        /// How long the network took to answer, by operation: `publish`, `find`, `list`.
        #[serde(default)]
        pub latencies: BTreeMap<String, LatencyView> = BTreeMap::new(),
        /// The latest changes worth a line, oldest first.
        pub notes: Vec<String> = Vec::new(),
        /// Its place in the network; `None` if that has no authority.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub network: Option<NetworkView> = status.network.as_ref().map(NetworkView::new),
    }
    /// A node's own status; fields that only its driver and façade know stay empty.
    pub fn new(status: &NodeStatus) {}
}

tributary_core::declared! {
    /// One direction of a link somewhere in the network.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct LinkView {
        /// The sending node's name.
        pub from: String = link.from.clone(),
        /// The receiving node's name.
        pub to: String = link.to.clone(),
        /// The rate of its link; `None` if unknown.
        pub rate_mbps: Option<f64> = link.rate.map(|rate| round(rate.mbps(), 3)),
        /// The part of it in use.
        pub used_mbps: f64 = round(link.used.mbps(), 3),
    }
    fn new(link: &LinkStatus) {}
}

tributary_core::declared! {
    /// A node's place in a network with an authority.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct NetworkView {
        /// The authority's key.
        pub authority: String = network.authority.to_string(),
        /// Whether nodes without a certificate may join as hosts.
        pub open: bool = network.access == Access::Open,
        /// What the node may do; `None` if others do not admit it.
        pub grant: Option<GrantView> = network.grant.as_ref().ok().map(GrantView::new),
        /// Why others do not admit it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub problem: Option<String> = network.grant.as_ref().err().map(ToString::to_string),
    }
    fn new(network: &NetworkStatus) {}
}

tributary_core::declared! {
    /// What a node may do.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct GrantView {
        /// Its certified roles; none for a host.
        pub roles: Vec<String> = grant.roles.words().map(ToString::to_string).collect(),
        /// The names that it owns, with all below them.
        pub names: Vec<String> = grant.prefixes.iter().map(ToString::to_string).collect(),
        /// The serial number of its certificate; `None` without one.
        pub serial: Option<u64> = grant.serial,
        /// When its certificate ends, in Unix seconds; `None` without one.
        pub until: Option<u64> = grant.until.map(|until| until.0),
    }
    fn new(grant: &Grant) {}
}

tributary_core::declared! {
    /// One face of a node.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct FaceView {
        /// Its number, such as `face-1`.
        pub id: String = face.face.to_string(),
        /// The neighbour's name; while it is not known, the address that the config gives, or nothing.
        pub neighbour: String = face.neighbour.clone(),
        /// What the config calls the face.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub label: Option<String> = None,
        /// What fetches may take over it, if the config says anything about that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub policy: Option<FacePolicyView> = None,
        /// Whether the neighbour answers.
        pub up: bool = face.up,
        /// Whether the config does not name the neighbour: it came to this node.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub unsolicited: bool = false,
        /// Round-trip time to it.
        pub rtt_ms: Option<f64> = face.rtt.map(milliseconds),
        /// Datagram bytes proven to get through; `None` of a stream, which has no datagrams.
        pub mtu: Option<u32> = (face.mtu != u32::MAX).then_some(face.mtu),
        /// Why nothing gets there, as far as this machine knows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub problem: Option<String> = face.problem.clone(),
        /// The key that the neighbour has proven; `None` without protection, and before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub key: Option<String> = face.peer_key.map(|key| key.to_string()),
        /// What the neighbour may do, if the network has an authority and the neighbour is admitted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub grant: Option<GrantView> = face.grant.as_ref().map(GrantView::new),
        /// The rate of its link, as reported or, in the family `ndn`, measured.
        pub rate_mbps: Option<f64> = face.rate.map(|rate| round(rate.mbps(), 3)),
        /// Packets sent.
        pub sent_packets: u64 = face.sent.0,
        /// Bytes sent.
        pub sent_bytes: u64 = face.sent.1.0,
        /// Packets received.
        pub received_packets: u64 = face.received.0,
        /// Bytes received.
        pub received_bytes: u64 = face.received.1.0,
        /// Packets dropped by a full queue.
        pub dropped_packets: u64 = face.dropped,
    }
    fn new(face: &FaceStatus) {}
}

/// What fetches may take over a face now.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct FacePolicyView {
    /// Its cost compared with other faces.
    pub cost: u32,
    /// Whether it is used only while no other path answers.
    pub backup: bool,
    /// How much may pass, and how much has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaView>,
    /// The limit at this time of day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_mbps: Option<f64>,
    /// Why nothing is fetched over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<String>,
}

/// A quota of a face, in bytes of datagrams of both directions.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct QuotaView {
    /// How much may pass.
    pub bytes: u64,
    /// How much has passed.
    pub used_bytes: u64,
    /// In which time.
    pub per: QuotaPeriod,
}

/// When a quota starts again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuotaPeriod {
    /// At midnight.
    Day,
    /// At the midnight that begins a month.
    Month,
}
impl QuotaPeriod {
    /// All of them with their words in the config.
    pub const ALL: [(&'static str, QuotaPeriod); 2] = [("day", QuotaPeriod::Day), ("month", QuotaPeriod::Month)];
}

tributary_core::declared! {
    /// A packet cache.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct CacheView {
        /// The policy's name.
        pub policy: String = cache.policy.into(),
        /// Bytes in use.
        pub used_bytes: u64 = cache.used.0,
        /// Bytes allowed.
        pub capacity_bytes: u64 = cache.capacity.0,
        /// Packets found.
        pub hits: u64 = cache.hits,
        /// Packets not found.
        pub misses: u64 = cache.misses,
        /// The objects in it.
        pub objects: Vec<CachedObjectView> = cache
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
    fn new(cache: &CacheStatus) {}
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
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Whether the resolver has confirmed it.
    pub confirmed: bool,
    /// Whether its file or folder was changed or removed since it was published.
    #[serde(default)]
    pub changed: bool,
    /// Why it cannot be served, if a request for it has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

/// One transfer in a status.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TransferView {
    /// Its number, such as `transfer-1`.
    pub id: String,
    /// The name that it fetches.
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

//! A node's status for people: its faces, its cache, its publications and fetches.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tributary_transport::{CacheStatus, FaceStatus, LinkStatus, NetworkStatus, NodeStatus};
use tributary_trust::{Access, Grant};

use super::{
    latency::LatencyView,
    numbers::{milliseconds, round},
};

/// A node's status. The counters are the node's and its driver's.
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
    /// Its address and key, for `peer` and `--peer` of others; `None` without proof of keys at that address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invitation: Option<String>,
    /// Its faces.
    pub faces: Vec<FaceView>,
    /// Its packet cache.
    pub cache: Option<CacheView>,
    /// The node's publications.
    pub published: Vec<PublishedView>,
    /// Its transfers, oldest first.
    pub transfers: Vec<TransferView>,
    /// Its part in resolution, as pairs of subject and state.
    pub resolver: Vec<(String, String)>,
    /// Links between nodes of the network, each in one direction, as far as the node knows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkView>,
    /// Counters by name.
    pub counters: BTreeMap<String, u64>,
    /// Entries of the node's tables now, by the table's name.
    #[serde(default)]
    pub tables: BTreeMap<String, u64>,
    /// The maximum number of entries for tables with a limit in the config.
    #[serde(default)]
    pub table_limits: BTreeMap<String, u64>,
    /// How long the network took to answer, by operation: `publish`, `find`, `list`.
    #[serde(default)]
    pub latencies: BTreeMap<String, LatencyView>,
    /// The latest changes worth a line, oldest first.
    pub notes: Vec<String>,
    /// Its place in the network; `None` if that has no authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkView>,
}

/// One direction of a link somewhere in the network.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LinkView {
    /// The sending node's name.
    pub from: String,
    /// The receiving node's name.
    pub to: String,
    /// The rate of its link; `None` if unknown.
    pub rate_mbps: Option<f64>,
    /// The part of it in use.
    pub used_mbps: f64,
}

impl LinkView {
    fn new(link: &LinkStatus) -> Self {
        LinkView {
            from: link.from.clone(),
            to: link.to.clone(),
            rate_mbps: link.rate.map(|rate| round(rate.mbps(), 3)),
            used_mbps: round(link.used.mbps(), 3),
        }
    }
}

/// A node's place in a network with an authority.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct NetworkView {
    /// The authority's key.
    pub authority: String,
    /// Whether nodes without a certificate may join as hosts.
    pub open: bool,
    /// What the node may do; `None` if others do not admit it.
    pub grant: Option<GrantView>,
    /// Why others do not admit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What a node may do.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct GrantView {
    /// Its certified roles; none for a host.
    pub roles: Vec<String>,
    /// The names that it owns, with all below them.
    pub names: Vec<String>,
    /// The serial number of its certificate; `None` without one.
    pub serial: Option<u64>,
    /// When its certificate ends, in Unix seconds; `None` without one.
    pub until: Option<u64>,
}

impl GrantView {
    fn new(grant: &Grant) -> Self {
        GrantView {
            roles: grant.roles.words().map(ToString::to_string).collect(),
            names: grant.prefixes.iter().map(ToString::to_string).collect(),
            serial: grant.serial,
            until: grant.until.map(|until| until.0),
        }
    }
}
impl NetworkView {
    fn new(network: &NetworkStatus) -> Self {
        NetworkView {
            authority: network.authority.to_string(),
            open: network.access == Access::Open,
            grant: network.grant.as_ref().ok().map(GrantView::new),
            problem: network.grant.as_ref().err().map(ToString::to_string),
        }
    }
}

/// One face of a node.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct FaceView {
    /// Its number, such as `face-1`.
    pub id: String,
    /// The neighbour's name; while it is not known, the address that the config gives, or nothing.
    pub neighbour: String,
    /// What the config calls the face.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What fetches may take over it, if the config says anything about that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<FacePolicyView>,
    /// Whether the neighbour answers.
    pub up: bool,
    /// Whether the config does not name the neighbour: it came to this node.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsolicited: bool,
    /// Round-trip time to it.
    pub rtt_ms: Option<f64>,
    /// Datagram bytes proven to get through; `None` of a stream, which has no datagrams.
    pub mtu: Option<u32>,
    /// Why nothing gets there, as far as this machine knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The key that the neighbour has proven; `None` without protection, and before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What the neighbour may do, if the network has an authority and the neighbour is admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantView>,
    /// The rate of its link, as reported or, in the family `ndn`, measured.
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
    /// The objects in it.
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

impl StatusView {
    /// A node's own status; fields that only its driver and façade know stay empty.
    pub fn new(status: &NodeStatus) -> Self {
        StatusView {
            node: status.node.to_string(),
            label: status.label.clone(),
            family: status.family.into(),
            roles: status.roles.iter().map(ToString::to_string).collect(),
            faces: status.faces.iter().map(FaceView::new).collect(),
            cache: status.cache.as_ref().map(CacheView::new),
            resolver: status.resolver.clone(),
            links: status.links.iter().map(LinkView::new).collect(),
            network: status.network.as_ref().map(NetworkView::new),
            tables: status.tables.iter().map(|(table, entries)| (table.to_string(), *entries)).collect(),
            table_limits: status.table_limits.iter().map(|(table, limit)| (table.to_string(), *limit)).collect(),
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
            problem: face.problem.clone(),
            key: face.peer_key.map(|key| key.to_string()),
            grant: face.grant.as_ref().map(GrantView::new),
            rate_mbps: face.rate.map(|rate| round(rate.mbps(), 3)),
            sent_packets: face.sent.0,
            sent_bytes: face.sent.1.0,
            received_packets: face.received.0,
            received_bytes: face.received.1.0,
            dropped_packets: face.dropped,
            ..FaceView::default()
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

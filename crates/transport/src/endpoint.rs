//! The commands and queries of every family's node, which the facade drives.
use alloc::{boxed::Box, collections::BTreeMap, string::String, vec::Vec};

use crate::{
    Echoes, Forwarding, Messaging,
    bulk::{BulkInput, BulkStep},
    policy::{FacePolicy, PathDemands},
};
use tributary_content::{Name, ObjectReader, PublicKey, StoreOpener};
use tributary_core::{
    ByteCount, Duration, FaceId, FaceProtection, Node, NodeId, Rate, Time, TransferId, event::TransferReport,
};
use tributary_trust::{Access, Grant, Identity, Refusal};

/// A node that publishes and fetches. Commands take effect at once; events report their results. After a command the
/// driver pumps the node, as after any input.
pub trait Endpoint: Node + Send {
    /// Attaches a face that the driver has set up; faces on which packets arrive are attached by themselves with defaults.
    fn add_face(&mut self, now: Time, face: FaceId, options: FaceOptions);
    /// Says how a face is protected, before it is attached. A node behind no layer that protects ignores it.
    fn set_security(&mut self, _face: FaceId, _security: FaceSecurity) {}
    /// Sets the key that the far end of a face has proven; `None` if it has proven no key, as at the start. Families
    /// that do not distinguish peers ignore it.
    fn set_face_key(&mut self, _face: FaceId, _key: Option<PublicKey>) {}
    /// Detaches a removed face.
    fn remove_face(&mut self, now: Time, face: FaceId);
    /// Offers an object under its manifest's name; replaces an older object of that name.
    /// Answered by `ResolverEvent::Published` or `Rejected`.
    fn publish(&mut self, now: Time, object: Box<dyn ObjectReader>);
    /// Withdraws a name. Answered by `ResolverEvent::Unpublished` or `Rejected`.
    fn unpublish(&mut self, now: Time, name: &Name);
    /// Starts a fetch. `Event::Transfer` reports its progress; it ends with `Completed` or `Failed`.
    fn fetch(&mut self, now: Time, fetch: Fetch) -> TransferId;
    /// Starts a fetch that trusts only objects signed with the key of this certificate; `None` if the family has no
    /// such certificates or cannot read this one.
    fn fetch_certified(&mut self, _now: Time, _fetch: Fetch, _certificate: &[u8]) -> Option<TransferId> {
        None
    }
    /// Takes the reports of the driver of a fetch's bulk sources, such as web servers, and returns its orders; `None`
    /// if the fetch does not exist or the family has no such sources.
    fn step_bulk(&mut self, _now: Time, _transfer: TransferId, _inputs: Vec<BulkInput>) -> Option<BulkStep> {
        None
    }
    /// Ends a fetch; verified chunks stay in the store. Unknown transfers are ignored.
    fn cancel(&mut self, now: Time, transfer: TransferId);
    /// Lists a scope now and reports its changes from then on: `ResolverEvent::Appeared`, `Disappeared`, `Listed`.
    fn watch(&mut self, now: Time, scope: &Name);
    /// Ends [`Endpoint::watch`].
    fn unwatch(&mut self, now: Time, scope: &Name);
    /// Withdraws all publications and subscriptions, so that other nodes stop sending to this one. The messages need
    /// some round trips; if a node just stops, its leases expire instead.
    fn leave(&mut self, now: Time);
    /// Limits one transfer, or (`None`) all of them together; a rate of `None` lifts the limit.
    fn limit(&mut self, now: Time, transfer: Option<TransferId>, rate: Option<Rate>);
    /// Sets the owner's policy for a face.
    fn set_face_policy(&mut self, now: Time, face: FaceId, policy: FacePolicy);
    /// Changes a fetch's demands on the paths that it uses; false if the fetch does not exist, or the family leaves
    /// that choice to the network.
    fn set_demands(&mut self, _now: Time, _transfer: TransferId, _demands: PathDemands) -> bool {
        false
    }
    /// The report of a running or ended transfer; `None` if it is unknown or was forgotten.
    fn report(&self, now: Time, transfer: TransferId) -> Option<TransferReport>;
    /// The transfers that this node knows, oldest first, with the names they fetch.
    fn transfers(&self) -> Vec<(TransferId, Name)>;
    /// Whether an object of this name is published here.
    fn publishes(&self, name: &Name) -> bool;
    /// The number of objects published here.
    fn published_count(&self) -> usize;
    /// The objects published here: name and bytes.
    fn published(&self) -> Vec<(Name, ByteCount)>;
    /// What the node is doing. Costs the same however many objects it offers.
    fn status(&self, now: Time) -> NodeStatus;
    /// Why a fetch of `name` has found no source; `None` if the node cannot know, such as while no neighbour answers.
    fn obstacle(&self, _now: Time, _name: &Name) -> Option<Obstacle> {
        None
    }
    /// Sets the node's identity in a network with an authority: at the start, and when its certificate or the list of
    /// revocations has changed. Without it the network has no authority, and every node may do everything.
    fn set_identity(&mut self, _now: Time, _identity: &Identity) {}
    /// Sets the permissions that the neighbour on a face has proven, before its first packet; `None` once it is no
    /// longer admitted. Faces without protection prove nothing.
    fn handle_grant(&mut self, _now: Time, _face: FaceId, _grant: Option<&Grant>) {}
    /// Echo requests, in families that have them.
    fn echoes(&mut self) -> Option<&mut dyn Echoes> {
        None
    }
    /// The forwarding table, in families in which its owner may edit it.
    fn forwarding(&mut self) -> Option<&mut dyn Forwarding> {
        None
    }
    /// Sending and in-network storage, in families that have them.
    fn messaging(&mut self) -> Option<&mut dyn Messaging> {
        None
    }
}

/// The driver's properties of a face.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaceOptions {
    /// The largest datagram that it may carry, in bytes of UDP payload; the path may carry less, which is found by probing.
    pub mtu: u32,
    /// The rate of its link, if configured; the topology manager receives it.
    pub rate: Option<Rate>,
}

/// How a face is protected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FaceSecurity {
    /// Protection of datagrams outside a session.
    pub protection: FaceProtection,
    /// The key that the neighbour must have; `None` for the key remembered for its addresses, or otherwise the first
    /// one.
    pub peer_key: Option<PublicKey>,
    /// Its addresses as written in the config; empty if no key should be remembered for them.
    pub endpoints: Vec<String>,
}

/// A fetch to start.
pub struct Fetch {
    /// What to fetch.
    pub name: Name,
    /// Decides on trust and opens the store once the manifest is known.
    pub opener: Box<dyn StoreOpener>,
    /// The rate not to exceed; `None` for as fast as the paths allow.
    pub rate_limit: Option<Rate>,
    /// Paths per source to request from the network, 1 to 16.
    pub paths_per_source: u8,
    /// What makes a path good.
    pub metric: PathMetric,
    /// How long to go without any source before giving up; `None` waits for ever (a later publication starts it).
    pub patience: Option<Duration>,
}

/// What the network orders paths by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PathMetric {
    /// Fewest links (paper §IV-A).
    #[default]
    Hops,
    /// Smallest sum of measured link delays.
    Latency,
    /// Largest capacity left on the narrowest link.
    ResidualCapacity,
    /// Shortest distance on the map, for nodes with a configured position.
    Distance,
}

impl PathMetric {
    /// All of them, by their names for people; the position in this list is the number on the wire.
    pub const ALL: [(&'static str, PathMetric); 4] = [
        ("hops", PathMetric::Hops),
        ("latency", PathMetric::Latency),
        ("residual-capacity", PathMetric::ResidualCapacity),
        ("distance", PathMetric::Distance),
    ];

    /// Its number on the wire.
    pub fn number(self) -> u8 {
        self as u8
    }
    /// The one with this number.
    pub fn of_number(number: u8) -> Option<PathMetric> {
        Self::ALL.get(usize::from(number)).map(|(_, metric)| *metric)
    }
    /// Whether it depends on measurements that change from second to second.
    pub fn is_measured(self) -> bool {
        matches!(self, PathMetric::Latency | PathMetric::ResidualCapacity)
    }
}

/// What a node is doing, for people and for `--json`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct NodeStatus {
    /// Its id.
    pub node: NodeId,
    /// Its human-readable name.
    pub label: String,
    /// `psi`, `ndn` or `mf`.
    pub family: &'static str,
    /// The roles it plays, in the words of the config.
    pub roles: Vec<&'static str>,
    /// Its faces.
    pub faces: Vec<FaceStatus>,
    /// Its packet cache, if any.
    pub cache: Option<CacheStatus>,
    /// Lines about its part in resolution: known resolvers and topology managers, its records, …
    pub resolver: Vec<(String, String)>,
    /// Counters by name: drops by reason, requests answered, and so on.
    pub counters: BTreeMap<&'static str, u64>,
    /// Entries of its tables now, by the table's name: `pit`, `fib`, `name_records`, …
    pub tables: BTreeMap<&'static str, u64>,
    /// Largest number of entries of each table that has a limit.
    pub table_limits: BTreeMap<&'static str, u64>,
    /// Links between nodes of the network, each in one direction, as far as this node knows them beyond its own faces.
    pub links: Vec<LinkStatus>,
    /// Its network, if that has an authority.
    pub network: Option<NetworkStatus>,
}

/// One direction of a link somewhere in the network, in a [`NodeStatus`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkStatus {
    /// The sending node's name.
    pub from: String,
    /// The receiving node's name.
    pub to: String,
    /// Capacity; `None` if unknown.
    pub rate: Option<Rate>,
    /// Rate in use.
    pub used: Rate,
}

/// A node's place in a network with an authority, in a [`NodeStatus`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetworkStatus {
    /// The authority's key.
    pub authority: PublicKey,
    /// Whether nodes without a certificate may join.
    pub access: Access,
    /// What the node may do, or why others do not admit it.
    pub grant: Result<Grant, Refusal>,
}

/// Why a fetch finds no source although neighbours answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Obstacle {
    /// What kind of reason it is.
    pub kind: ObstacleKind,
    /// The reason, as the end of a sentence: `the rendezvous node knows no publisher of it`.
    pub reason: String,
}

/// Kinds of [`Obstacle`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObstacleKind {
    /// The network lacks a role, or this node a route: waiting does not help.
    Missing,
    /// Name resolution answered that the name has no publisher.
    NoSuchName,
    /// The queried node has not answered.
    Silent,
}

/// One face in a [`NodeStatus`].
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FaceStatus {
    /// Its number.
    pub face: FaceId,
    /// The neighbour's name; empty until it answers.
    pub neighbour: String,
    /// Whether the neighbour answers.
    pub up: bool,
    /// Round-trip time to the neighbour.
    pub rtt: Option<Duration>,
    /// Datagram bytes proven to get through.
    pub mtu: u32,
    /// Rate of its link, as configured or measured.
    pub rate: Option<Rate>,
    /// Packets and bytes sent.
    pub sent: (u64, ByteCount),
    /// Packets and bytes received.
    pub received: (u64, ByteCount),
    /// Packets dropped because the queue was full.
    pub dropped: u64,
    /// The key that the neighbour has proven; `None` without protection, and before.
    pub peer_key: Option<PublicKey>,
    /// Why its protection blocks all packets.
    pub problem: Option<String>,
    /// Whether that is so because the neighbour refuses this node, or is refused.
    pub is_refused: bool,
    /// What the neighbour may do, if the network has an authority and the neighbour is admitted.
    pub grant: Option<Grant>,
}

/// The packet cache in a [`NodeStatus`].
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CacheStatus {
    /// The policy's name.
    pub policy: &'static str,
    /// Bytes in use.
    pub used: ByteCount,
    /// Bytes allowed.
    pub capacity: ByteCount,
    /// Packets found.
    pub hits: u64,
    /// Packets not found.
    pub misses: u64,
    /// Per object: its key, packets held, bytes held, hits.
    pub objects: Vec<(String, u64, ByteCount, u64)>,
}

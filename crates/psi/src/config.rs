//! Settings of a PSI node.
use alloc::{string::String, vec::Vec};

use tributary_core::{ByteCount, Duration, Location, NodeId};
use tributary_transport::TransferConfig;

use crate::router::cache::PayloadMemory;

/// A PSI node's settings. Values that the paper leaves open have a documented default.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// The node's id, unique in its domain.
    pub node: NodeId,
    /// Its human-readable name, at most 32 bytes.
    pub label: String,
    /// Its location, for paths by distance. Default: unknown.
    pub location: Option<Location>,
    /// Seed of its random streams and of its link labels; must differ from node to node and from start to start.
    pub seed: u64,
    /// A secret that the node's messages never reveal: it seeds the nonces that prove an address and the capability
    /// keys of a topology manager. The seed does not suffice, because random values in messages give it away. Default:
    /// all zeros, for simulations.
    pub secret: [u8; 32],
    /// Whether it forwards packets of other nodes and caches (paper: FN).
    pub router: bool,
    /// Whether it is a rendezvous node (paper: RN).
    pub resolver: bool,
    /// Whether it is a topology manager (paper: TM), and with which priority (the highest becomes active).
    pub topology_manager: Option<u8>,
    /// Bytes of the packet cache; zero disables it. Default: 64 MiB.
    pub cache_bytes: ByteCount,
    /// Name of the cache policy: `object-oriented`, `lru` or `fifo`. Default: `object-oriented`.
    pub cache_policy: String,
    /// What the packet cache keeps of payloads. Default: copies.
    pub cache_memory: PayloadMemory,
    /// How long after a request that a router with a cache has passed on others for the same packet wait for its answer.
    /// Default: 2 s.
    pub pending_lifetime: Duration,
    /// Time between hellos. A neighbour is down after five are missed. Default: 200 ms.
    pub hello_interval: Duration,
    /// Kinds of FID that the topology manager may use, in this order: `bloom`, `bitmap`, `list`.
    pub fid_kinds: Vec<String>,
    /// Lease of publications and subscriptions. Default: 30 s.
    pub lease: Duration,
    /// How many rendezvous nodes hold each record. Default: 3.
    pub replicas: u8,
    /// Its limits.
    pub limits: Limits,
    /// How transfers are run.
    pub transfer: TransferConfig,
}

/// The limits of a node. A refusal by a rendezvous node or a topology manager names the limit that was reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Records of a rendezvous node. Default: 1,000,000, of some 1 kB each for items.
    pub records_max: usize,
    /// Items and scopes in one scope. Default: 100,000.
    pub children_max: usize,
    /// Publishers of one item. Default: 4,096.
    pub publishers_max: usize,
    /// Subscriptions to one item. Default: 4,096.
    pub subscriptions_max: usize,
    /// Subscribers of one scope. Default: 1,024.
    pub scope_subscribers_max: usize,
    /// Requests that a rendezvous node works on. Default: 8,192.
    pub requests_max: usize,
    /// Hosts that a rendezvous node serves. Default: 8,192.
    pub clients_max: usize,
    /// Publications and subscriptions of this host. Default: 1,000,000.
    pub wishes_max: usize,
    /// Transfers of a topology manager's domain. Default: 4,096.
    pub transfers_max: usize,
    /// Nodes of its domain. Default: 4,096.
    pub nodes_max: usize,
    /// Directed links of its domain. Default: 65,536.
    pub links_max: usize,
    /// Packets that a router with a cache waits for on behalf of several receivers. Default: 65,536.
    pub pending_packets_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            records_max: 1_000_000,
            children_max: 100_000,
            publishers_max: 4_096,
            subscriptions_max: 4_096,
            scope_subscribers_max: 1_024,
            requests_max: 8_192,
            clients_max: 8_192,
            wishes_max: 1_000_000,
            transfers_max: 4_096,
            nodes_max: 4_096,
            links_max: 65_536,
            pending_packets_max: 65_536,
        }
    }
}

impl Config {
    /// Defaults for a node called `label`: a plain host without any special role.
    pub fn new(label: &str, seed: u64) -> Config {
        Config {
            node: node_of_label(label),
            label: label.into(),
            location: None,
            seed,
            secret: [0; 32],
            router: false,
            resolver: false,
            topology_manager: None,
            cache_bytes: ByteCount(64 << 20),
            cache_policy: "object-oriented".into(),
            cache_memory: PayloadMemory::Copied,
            pending_lifetime: Duration::from_secs(2),
            hello_interval: Duration::from_millis(200),
            fid_kinds: ["bloom", "bitmap", "list"].map(String::from).into(),
            lease: Duration::from_secs(30),
            replicas: 3,
            limits: Limits::default(),
            transfer: TransferConfig::default(),
        }
    }
}

/// The id of a node that is called `label`: the first eight bytes of the label's hash.
pub fn node_of_label(label: &str) -> NodeId {
    let hash = blake3::hash(label.as_bytes());
    NodeId(u64::from_be_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes")))
}

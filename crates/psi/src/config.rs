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
    /// Secret that nobody can learn from what the node says: nonces that prove an address are drawn with it. The seed does
    /// not do for that, because random values that are told give it away. Default: all zeros, for simulations.
    pub secret: [u8; 32],
    /// Whether it forwards packets of other nodes and caches (paper: FN).
    pub router: bool,
    /// Whether it is a rendezvous node (paper: RN).
    pub resolver: bool,
    /// Whether it is a topology manager (paper: TM), and with which priority (the highest becomes active).
    pub topology_manager: Option<u8>,
    /// Bytes of the packet cache; zero for none. Default: 64 MiB.
    pub cache_bytes: ByteCount,
    /// Name of the cache policy: `object-oriented`, `lru` or `fifo`. Default: `object-oriented`.
    pub cache_policy: String,
    /// What the packet cache keeps of payloads. Default: copies.
    pub cache_memory: PayloadMemory,
    /// Key that hellos, beacons and control messages are authenticated with. Default: all zeros (an open domain).
    pub network_key: [u8; 32],
    /// Secret of the topology managers, from which capability keys are derived; the same on active and standby.
    pub domain_secret: [u8; 32],
    /// Time between hellos. A neighbour is down after five are missed. Default: 200 ms.
    pub hello_interval: Duration,
    /// Kinds of FID that the topology manager may use, in this order: `bloom`, `bitmap`, `list`.
    pub fid_kinds: Vec<String>,
    /// Lease of publications and subscriptions. Default: 30 s.
    pub lease: Duration,
    /// How many rendezvous nodes hold each record. Default: 3.
    pub replicas: u8,
    /// How transfers are run.
    pub transfer: TransferConfig,
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
            network_key: [0; 32],
            domain_secret: [0; 32],
            hello_interval: Duration::from_millis(200),
            fid_kinds: ["bloom", "bitmap", "list"].map(String::from).into(),
            lease: Duration::from_secs(30),
            replicas: 3,
            transfer: TransferConfig::default(),
        }
    }
}

/// The id of a node that is called `label`: the first eight bytes of the label's hash.
pub fn node_of_label(label: &str) -> NodeId {
    let hash = blake3::hash(label.as_bytes());
    NodeId(u64::from_be_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes")))
}

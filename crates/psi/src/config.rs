//! Settings of a PSI node.
use alloc::{string::String, vec::Vec};

use tributary_core::{ByteCount, Duration, Location, NodeId};
use tributary_transport::TransferConfig;

use crate::router::cache::PayloadMemory;

tributary_core::declared! {
    /// A PSI node's settings. Values that the paper leaves open have a documented default.
    #[derive(Clone, PartialEq, Debug)]
    pub struct Config {
        /// The node's id, unique in its domain.
        pub node: NodeId = node_of_label(label),
        /// Its human-readable name, at most 32 bytes.
        pub label: String = label.into(),
        /// Its location, for paths by distance. Default: unknown.
        pub location: Option<Location> = None,
        /// Seed of its random streams and of its link labels; must differ from node to node and from start to start.
        pub seed: u64 = seed,
        /// A secret that the node's messages never reveal: it seeds the nonces that prove an address and the capability
        /// keys of a topology manager. The seed does not suffice, because random values in messages give it away.
        /// Default: all zeros, for simulations.
        pub secret: [u8; 32] = [0; 32],
        /// Whether it forwards packets of other nodes and caches (paper: FN).
        pub router: bool = false,
        /// Whether it is a rendezvous node (paper: RN).
        pub resolver: bool = false,
        /// Whether it is a topology manager (paper: TM), and with which priority (the highest becomes active).
        pub topology_manager: Option<u8> = None,
        /// Bytes of the packet cache; zero disables it. Default: 64 MiB.
        pub cache_bytes: ByteCount = ByteCount(64 << 20),
        /// Name of the cache policy: `object-oriented`, `lru` or `fifo`. Default: `object-oriented`.
        pub cache_policy: String = "object-oriented".into(),
        /// What the packet cache keeps of payloads. Default: copies.
        pub cache_memory: PayloadMemory = PayloadMemory::Copied,
        /// How long after a request that a router with a cache has passed on others for the same packet wait for its
        /// answer. Default: 2 s.
        pub pending_lifetime: Duration = Duration::from_secs(2),
        /// Time between hellos. A neighbour is down after five are missed. Default: 200 ms.
        pub hello_interval: Duration = Duration::from_millis(200),
        /// Kinds of FID that the topology manager may use, in this order: `bloom`, `bitmap`, `list`.
        pub fid_kinds: Vec<String> = ["bloom", "bitmap", "list"].map(String::from).into(),
        /// Lease of publications and subscriptions. Default: 30 s.
        pub lease: Duration = Duration::from_secs(30),
        /// How many rendezvous nodes hold each record. Default: 3.
        pub replicas: u8 = 3,
        /// Its limits.
        pub limits: Limits = Limits::default(),
        /// How transfers are run.
        pub transfer: TransferConfig = TransferConfig::default(),
    }
    /// Defaults for a node called `label`: a plain host without any special role.
    pub fn new(label: &str, seed: u64) {}
}

tributary_core::declared! {
    /// The limits of a node. A refusal by a rendezvous node or a topology manager names the limit that was reached.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Limits {
        /// Records of a rendezvous node. Default: 1,000,000, of some 1 kB each for items.
        pub records_max: usize = 1_000_000,
        /// Items and scopes in one scope. Default: 100,000.
        pub children_max: usize = 100_000,
        /// Publishers of one item. Default: 4,096.
        pub publishers_max: usize = 4_096,
        /// Subscriptions to one item. Default: 4,096.
        pub subscriptions_max: usize = 4_096,
        /// Subscribers of one scope. Default: 1,024.
        pub scope_subscribers_max: usize = 1_024,
        /// Requests that a rendezvous node works on. Default: 8,192.
        pub requests_max: usize = 8_192,
        /// Hosts that a rendezvous node serves. Default: 8,192.
        pub clients_max: usize = 8_192,
        /// Publications and subscriptions of this host. Default: 1,000,000.
        pub wishes_max: usize = 1_000_000,
        /// Transfers of a topology manager's domain. Default: 4,096.
        pub transfers_max: usize = 4_096,
        /// Nodes of its domain. Default: 4,096.
        pub nodes_max: usize = 4_096,
        /// Directed links of its domain. Default: 65,536.
        pub links_max: usize = 65_536,
        /// Packets that a router with a cache waits for on behalf of several receivers. Default: 65,536.
        pub pending_packets_max: usize = 65_536,
    }
}

/// The id of a node that is called `label`: the first eight bytes of the label's hash.
pub fn node_of_label(label: &str) -> NodeId {
    let hash = blake3::hash(label.as_bytes());
    NodeId(u64::from_be_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes")))
}

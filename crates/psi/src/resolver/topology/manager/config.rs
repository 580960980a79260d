//! Settings of a topology manager.
use super::*;

/// Settings of a topology manager.
#[derive(Clone, PartialEq, Debug)]
pub struct ManagerConfig {
    /// Its node.
    pub node: NodeId,
    /// Its human-readable name, at most 32 bytes.
    pub label: String,
    /// Boot number; another one after each start.
    pub boot: u64,
    /// The highest of those that answer becomes active; of equal ones the highest node id.
    pub priority: u8,
    /// The secret that its capability keys are derived from; never sent, and new after each start.
    pub secret: [u8; 32],
    /// Time between beacons. Default: 500 ms.
    pub beacon_interval: Duration,
    /// Silence after which an active manager counts as dead. Default: 2.5 s.
    pub manager_silence: Duration,
    /// How long a manager listens after its start before it may become active. Default: 600 ms.
    pub startup_wait: Duration,
    /// How long a change of the topology waits for further ones before paths are computed again. Default: 50 ms.
    pub debounce: Duration,
    /// Silence after which a node is forgotten. Default: 16 s, three refreshes and a little.
    pub node_silence: Duration,
    /// Life of a capability key. Offers are renewed when it changes; the previous one stays valid for one more
    /// period. Default: 1 h.
    pub capability_rotation: Duration,
    /// When a message could not be delivered: how long until the next try. Default: 300 ms.
    pub retry: Duration,
    /// How long a withdrawn transfer or publisher is remembered, so that a delayed request does not revive it: longer
    /// than a message may be in transit. Default: 60 s.
    pub withdrawal_memory: Duration,
    /// Maximum transfers. Default: 4,096.
    pub transfers_max: usize,
    /// Maximum nodes in the domain. Default: 4,096.
    pub nodes_max: usize,
    /// Maximum directed links in the domain. Default: 65,536.
    pub links_max: usize,
    /// Maximum paths per source, up to 16. Default: 16.
    pub paths_max: usize,
    /// Transfers whose paths are computed in one turn; the others follow at once, but packets are handled in between.
    /// Default: 32.
    pub transfers_per_turn: usize,
    /// How FIDs are made.
    pub fid: FidConfig,
    /// How paths are chosen.
    pub paths: PathConfig,
}

/// The secret of the capability keys of one run.
fn capability_secret(config: &Config, boot: u64) -> [u8; 32] {
    const CONTEXT: &str = "tributary 2026 psi topology manager's capability keys";
    let (seed, boot) = (config.seed.to_be_bytes(), boot.to_be_bytes());
    blake3::derive_key(CONTEXT, &[&config.secret[..], &seed, &boot].concat())
}

impl ManagerConfig {
    /// Defaults for the manager on the node of `config`.
    pub fn new(config: &Config, priority: u8, boot: u64) -> ManagerConfig {
        let kind = |name: &String| match name.as_str() {
            "bloom" => Some(FidKind::Bloom),
            "bitmap" => Some(FidKind::Bitmap),
            "list" => Some(FidKind::List),
            _ => None,
        };
        let kinds = config.fid_kinds.iter().filter_map(kind).collect();
        ManagerConfig {
            node: config.node,
            label: config.label.clone(),
            boot,
            priority,
            secret: capability_secret(config, boot),
            beacon_interval: Duration::from_millis(500),
            manager_silence: Duration::from_millis(2500),
            startup_wait: Duration::from_millis(600),
            debounce: Duration::from_millis(50),
            node_silence: Duration::from_secs(16),
            capability_rotation: Duration::from_secs(3600),
            retry: Duration::from_millis(300),
            withdrawal_memory: Duration::from_secs(60),
            transfers_max: config.limits.transfers_max as usize,
            nodes_max: config.limits.nodes_max as usize,
            links_max: config.limits.links_max as usize,
            paths_max: PATHS_MAX,
            transfers_per_turn: 32,
            fid: FidConfig { kinds, ..FidConfig::default() },
            paths: PathConfig::default(),
        }
    }
}

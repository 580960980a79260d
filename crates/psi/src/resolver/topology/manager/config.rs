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
    /// Silence after which a node is forgotten. Default: 16 s, three refreshes and a little.
    pub node_silence: Duration,
    /// The limits of the domain.
    pub limits: Limits,
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
            node_silence: Duration::from_secs(16),
            limits: config.limits,
            transfers_per_turn: 32,
            fid: FidConfig { kinds, ..FidConfig::default() },
            paths: PathConfig::default(),
        }
    }
}

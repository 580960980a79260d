//! Settings of a topology manager.
use super::*;

tributary_core::declared! {
    /// Settings of a topology manager.
    #[derive(Clone, PartialEq, Debug)]
    pub struct ManagerConfig {
        /// Its node.
        pub node: NodeId = config.node,
        /// Its human-readable name, at most 32 bytes.
        pub label: String = config.label.clone(),
        /// Boot number; another one after each start.
        pub boot: u64 = boot,
        /// The highest of those that answer becomes active; of equal ones the highest node id.
        pub priority: u8 = priority,
        /// The secret that its capability keys are derived from; never sent, and new after each start.
        pub secret: [u8; 32] = capability_secret(config, boot),
        /// Silence after which a node is forgotten. Default: 16 s, three refreshes and a little.
        pub node_silence: Duration = Duration::from_secs(16),
        /// The limits of the domain.
        pub limits: Limits = config.limits,
        /// Transfers whose paths are computed in one turn; the others follow at once, but packets are handled in
        /// between. Default: 32.
        pub transfers_per_turn: usize = 32,
        /// How FIDs are made.
        pub fid: FidConfig = FidConfig { kinds, ..FidConfig::default() },
        /// How paths are chosen.
        pub paths: PathConfig = PathConfig::default(),
    }
    /// Defaults for the manager on the node of `config`.
    pub fn new(config: &Config, priority: u8, boot: u64) {
        let kind = |name: &String| match name.as_str() {
            "bloom" => Some(FidKind::Bloom),
            "bitmap" => Some(FidKind::Bitmap),
            "list" => Some(FidKind::List),
            _ => None,
        };
        let kinds = config.fid_kinds.iter().filter_map(kind).collect();
    }
}

/// The secret of the capability keys of one run.
fn capability_secret(config: &Config, boot: u64) -> [u8; 32] {
    const CONTEXT: &str = "tributary 2026 psi topology manager's capability keys";
    let (seed, boot) = (config.seed.to_be_bytes(), boot.to_be_bytes());
    blake3::derive_key(CONTEXT, &[&config.secret[..], &seed, &boot].concat())
}

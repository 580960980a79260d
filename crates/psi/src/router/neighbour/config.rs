//! Settings of the neighbour protocol.
use super::*;

/// Settings of the neighbour protocol.
#[derive(Clone, PartialEq, Debug)]
pub struct NeighbourConfig {
    /// The node.
    pub node: NodeId,
    /// Its human-readable name, at most 32 bytes.
    pub label: String,
    /// Its roles.
    pub roles: Roles,
    /// Boot number; another one after each start.
    pub boot: u64,
    /// Its location. Default: unknown.
    pub location: Option<Location>,
    /// The secret of its link labels; the same as the router's.
    pub secret: [u8; 16],
    /// Secret that the nonces of hellos are drawn with; never sent.
    pub nonce_secret: [u8; 32],
    /// Time between hellos on one face. Default: 200 ms.
    pub hello_interval: Duration,
    /// Maximum topology managers; beacons of more are dropped. Default: 8.
    pub managers_max: usize,
    /// Maximum faces. Default: 1,024.
    pub faces_max: usize,
}

/// Context of the derived nonce secret, for a config without one.
const NONCES: &str = "tributary 2026 psi nonces of hellos";

impl NeighbourConfig {
    /// Defaults for a node.
    pub fn new(node: NodeId, label: &str, roles: Roles, boot: u64, secret: [u8; 16]) -> NeighbourConfig {
        NeighbourConfig {
            node,
            label: label.into(),
            roles,
            boot,
            location: None,
            secret,
            nonce_secret: blake3::derive_key(NONCES, &[&secret[..], &boot.to_be_bytes()].concat()),
            hello_interval: Duration::from_millis(200),
            managers_max: 8,
            faces_max: ADJACENCIES_MAX,
        }
    }
}

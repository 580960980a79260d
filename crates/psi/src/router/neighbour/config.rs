//! Settings of the neighbour protocol.
use super::*;

tributary_core::declared! {
    /// Settings of the neighbour protocol.
    #[derive(Clone, PartialEq, Debug)]
    pub struct NeighbourConfig {
        /// The node.
        pub node: NodeId = node,
        /// Its human-readable name, at most 32 bytes.
        pub label: String = label.into(),
        /// Its roles.
        pub roles: Roles = roles,
        /// Boot number; another one after each start.
        pub boot: u64 = boot,
        /// Its location. Default: unknown.
        pub location: Option<Location> = None,
        /// The secret of its link labels; the same as the router's.
        pub secret: [u8; 16] = secret,
        /// Secret that the nonces of hellos are drawn with; never sent.
        pub nonce_secret: [u8; 32] = blake3::derive_key(NONCES, &[&secret[..], &boot.to_be_bytes()].concat()),
        /// Time between hellos on one face. Default: 200 ms.
        pub hello_interval: Duration = Duration::from_millis(200),
        /// Maximum topology managers; beacons of more are dropped. Default: 8.
        pub managers_max: usize = 8,
        /// Maximum faces. Default: 1,024.
        pub faces_max: usize = ADJACENCIES_MAX,
    }
    /// Defaults for a node.
    pub fn new(node: NodeId, label: &str, roles: Roles, boot: u64, secret: [u8; 16]) {}
}

/// Context of the derived nonce secret, for a config without one.
const NONCES: &str = "tributary 2026 psi nonces of hellos";

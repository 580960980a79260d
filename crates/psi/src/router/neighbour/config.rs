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
    /// Tolerated missed hellos before a face is down. Default: 5, so that a loss of a fifth of all packets takes a face
    /// down once in ten minutes and not twice a minute; transfers notice silence long before.
    pub hello_misses: u32,
    /// Datagram sizes to try, ascending; bounded by each face's configured MTU. The first is assumed to work. Default:
    /// 1,200, 1,472, 8,972, 32,768, 65,507.
    pub mtu_ladder: Vec<u32>,
    /// How often a size is tried, one hello after the other, before the pauses between tries double. Default: 3.
    pub mtu_probes: u32,
    /// Maximum time between checks of the size in use, with a try of the next one. Default: 30 s.
    pub mtu_probe_interval: Duration,
    /// How long a change waits for further ones before the topology managers learn it. Default: 20 ms.
    pub link_state_debounce: Duration,
    /// Time between link-state messages while only round-trip times or loads change. Default: 1 s.
    pub link_state_metric_interval: Duration,
    /// Time between link-state messages while nothing changes. Default: 5 s.
    pub link_state_refresh: Duration,
    /// How long a silent topology manager is remembered. Default: 3 s.
    pub manager_timeout: Duration,
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
            hello_misses: 5,
            mtu_ladder: [DATAGRAM_BYTES_MIN, 1472, 8972, 32_768, 65_507].into(),
            mtu_probes: 3,
            mtu_probe_interval: Duration::from_secs(30),
            link_state_debounce: Duration::from_millis(20),
            link_state_metric_interval: Duration::from_secs(1),
            link_state_refresh: Duration::from_secs(5),
            manager_timeout: Duration::from_secs(3),
            managers_max: 8,
            faces_max: ADJACENCIES_MAX,
        }
    }
}

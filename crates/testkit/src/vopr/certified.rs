//! The authority of a fault run's network: each node has a certificate for its roles, as in a closed network of real
//! daemons, and each face presents the neighbour's, as a handshake would prove it.
use std::sync::Arc;

use tributary_content::{Name, SigningKey};
use tributary_core::{Random, Time};
use tributary_trust::{Access, Certificate, Grant, Identity, Network, Roles, Terms, UnixTime, WallClock};

/// The time of day at which runs start.
const BEGIN: u64 = 1_800_000_000;
/// Streams of random numbers for the keys of nodes.
const KEYS: u64 = 10_000;
/// And for the steps of their clocks.
const CLOCKS: u64 = 1 << 40;

/// The key of a node, which outlives its restarts.
pub(super) fn node_key(seed: u64, index: usize) -> SigningKey {
    let mut random = Random::new(seed, KEYS + index as u64);
    let mut secret = [0; 32];
    secret.iter_mut().for_each(|byte| *byte = random.bits() as u8);
    SigningKey::from_secret(&secret)
}
/// The clock of a node steps every few seconds: some minutes back or ahead, to 1970, and to the right time.
fn clock(seed: u64, index: usize) -> WallClock {
    Arc::new(move |now: Time| {
        let since = now.since(Time::ZERO).as_secs();
        let step = Random::new(seed, CLOCKS + ((index as u64) << 20) + since / 7).below(5);
        UnixTime(match step {
            0 => since,
            1 => BEGIN + since + 400,
            2 => BEGIN + since - 600,
            _ => BEGIN + since,
        })
    })
}
fn authority(seed: u64) -> SigningKey {
    node_key(seed, usize::MAX >> 8)
}
fn network(seed: u64) -> Network {
    Network::new(authority(seed).public(), Access::Closed)
}
/// All names belong to all nodes: other tests cover the right to names.
fn certificate(seed: u64, index: usize, label: &str, roles: Roles) -> Certificate {
    let terms = Terms {
        serial: index as u64,
        key: node_key(seed, index).public(),
        label: label.into(),
        roles,
        prefixes: vec![Name::root()],
        not_before: UnixTime(BEGIN - 60),
        not_after: UnixTime(BEGIN + 86_400),
    };
    Certificate::issue(&authority(seed), terms).expect("labels of plans are short")
}
/// What node `index` is in the network.
pub(super) fn identity(seed: u64, index: usize, label: &str, roles: Roles) -> Identity {
    let certificate = certificate(seed, index, label, roles);
    Identity::new(node_key(seed, index), Some(certificate), network(seed), clock(seed, index))
}
/// A neighbour's view of it.
pub(super) fn grant(seed: u64, index: usize, label: &str, roles: Roles) -> Grant {
    let certificate = certificate(seed, index, label, roles);
    network(seed).verify(&certificate, UnixTime(BEGIN)).expect("it has just been issued")
}

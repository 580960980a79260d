//! Proof that the topology manager handed out a pair of routes.
//!
//! A request carries the route of its answer, so any node could make a source send to a third party. A capability binds
//! the pair of routes to a key that changes with time (zFormation's idea, on the pair of FIDs instead of each link). Nodes
//! with keys drop requests without a valid capability.
//!
//! The active topology manager makes the keys and gives them, with the routes, to nodes that may serve: routers, which
//! forward and answer requests, and senders. The standby managers get them too and continue to use them when they take
//! over.
use alloc::vec::Vec;
use core::fmt;

use tributary_core::{
    wire::codec::{Bytes, U32},
    wire_table,
};

use crate::wire::{FID_BYTES_MAX, Fid};

/// Maximum valid keys: previous, current, next, and one spare.
pub const KEYS_MAX: usize = 4;

wire_table! {
    /// The key of one epoch.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub struct CapabilityKey {
        /// Number of the epoch.
        pub epoch: u32 = U32 => "key epoch",
        /// The key.
        pub key: [u8; 32] = Bytes => "key",
    }
}

impl CapabilityKey {
    /// The key of `epoch` that a topology manager derives from its secret.
    pub fn derive(secret: &[u8; 32], epoch: u32) -> CapabilityKey {
        let mut hasher = blake3::Hasher::new_derive_key("tributary psi capability key");
        hasher.update(secret);
        hasher.update(&epoch.to_be_bytes());
        CapabilityKey { epoch, key: *hasher.finalize().as_bytes() }
    }
    /// The capability of a pair of routes: the low byte of the epoch, then 7 bytes of keyed BLAKE3 over both FIDs
    /// as they are encoded, and the epoch.
    pub fn sign(&self, reverse: &Fid, forward: &Fid) -> [u8; 8] {
        let mut input = Vec::with_capacity(2 * (FID_BYTES_MAX + 2) + 4);
        reverse.encode(&mut input);
        forward.encode(&mut input);
        input.extend_from_slice(&self.epoch.to_be_bytes());
        let hash = blake3::keyed_hash(&self.key, &input);
        let mut capability = [0; 8];
        capability[0] = self.epoch as u8;
        capability[1..].copy_from_slice(&hash.as_bytes()[..7]);
        capability
    }
}
impl fmt::Debug for CapabilityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CapabilityKey(epoch {})", self.epoch)
    }
}

/// The keys of a topology manager: previous, current and next. The next one is distributed early, so that every router
/// knows it before the first request that uses it.
#[derive(Clone)]
pub struct KeyRing {
    secret: [u8; 32],
    keys: [CapabilityKey; 3],
}

impl KeyRing {
    /// Keys derived from this manager's secret, around `epoch`.
    pub fn new(secret: [u8; 32], epoch: u32) -> KeyRing {
        let keys = [epoch.wrapping_sub(1), epoch, epoch.wrapping_add(1)];
        KeyRing { secret, keys: keys.map(|epoch| CapabilityKey::derive(&secret, epoch)) }
    }
    /// Takes over the keys of another manager, so that capabilities signed with them stay valid.
    pub fn adopt(&mut self, keys: &[CapabilityKey]) {
        if let Some(keys) = keys.first_chunk() {
            self.keys = *keys;
        }
    }
    /// The next key becomes the current one, and this manager makes the one after it.
    pub fn rotate(&mut self) {
        let [_, current, next] = self.keys;
        self.keys = [current, next, CapabilityKey::derive(&self.secret, next.epoch.wrapping_add(1))];
    }
    /// The key that signs.
    pub fn current(&self) -> &CapabilityKey {
        &self.keys[1]
    }
    /// All of them, in the order of their epochs.
    pub fn keys(&self) -> &[CapabilityKey] {
        &self.keys
    }
}
impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys).finish()
    }
}

/// The keys that a router or sender holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CapabilityKeys(Vec<CapabilityKey>);

impl CapabilityKeys {
    /// No keys: nothing can be verified.
    pub fn new() -> CapabilityKeys {
        CapabilityKeys::default()
    }
    /// Replaces all keys; beyond [`KEYS_MAX`] only the first ones are taken.
    pub fn replace(&mut self, keys: &[CapabilityKey]) {
        self.0.clear();
        self.0.extend_from_slice(&keys[..keys.len().min(KEYS_MAX)]);
    }
    /// The keys to hold after a topology manager hands out `handed`: these, and the current one of the present keys if
    /// `handed` has none in common with them, as after a restart of the manager. So earlier capabilities stay valid
    /// until the next change, as they do when keys rotate.
    pub fn followed_by(&self, handed: &[CapabilityKey]) -> Vec<CapabilityKey> {
        if self.0.starts_with(handed) {
            return self.0.clone();
        }
        let current = self.0.get(1).or(self.0.first()).filter(|_| !handed.iter().any(|key| self.0.contains(key)));
        handed.iter().take(KEYS_MAX - 1).chain(current).copied().collect()
    }
    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Whether one of the keys made `capability` for this pair of routes.
    pub fn verify(&self, reverse: &Fid, forward: &Fid, capability: &[u8; 8]) -> bool {
        self.0
            .iter()
            .filter(|key| key.epoch as u8 == capability[0])
            .any(|key| key.sign(reverse, forward).iter().zip(capability).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::FidKind;

    #[test]
    fn a_capability_holds_for_its_pair_and_epoch_only() {
        let [a, b] = [[1; 8], [2; 8]].map(|bytes| Fid::new(FidKind::Bloom, 3, &bytes));
        let [old, new] = [7, 8].map(|epoch| CapabilityKey::derive(&[9; 32], epoch));
        let mut keys = CapabilityKeys::new();
        assert!(!keys.verify(&a, &b, &new.sign(&a, &b)));
        keys.replace(&[old, new]);
        assert!(keys.verify(&a, &b, &old.sign(&a, &b)));
        assert!(keys.verify(&a, &b, &new.sign(&a, &b)));
        assert!(!keys.verify(&b, &a, &new.sign(&a, &b)));
        assert!(!keys.verify(&a, &b, &CapabilityKey::derive(&[9; 32], 9).sign(&a, &b)));
        assert!(!keys.verify(&a, &b, &CapabilityKey::derive(&[8; 32], 8).sign(&a, &b)));
        keys.replace(&[new]);
        assert!(!keys.verify(&a, &b, &old.sign(&a, &b)));
    }

    #[test]
    fn of_a_manager_that_started_anew_one_former_key_stays_until_the_next_change() {
        let epochs = |first: u32| [0, 1, 2].map(|at| CapabilityKey::derive(&[9; 32], first + at));
        let mut keys = CapabilityKeys::new();
        let mut handed = |handed: &[CapabilityKey]| {
            keys.replace(&keys.followed_by(handed));
            keys.0.iter().map(|key| key.epoch).collect::<Vec<_>>()
        };
        assert_eq!(handed(&epochs(7)), [7, 8, 9]);
        assert_eq!(handed(&epochs(8)), [8, 9, 10], "they rotate");
        assert_eq!(handed(&epochs(50)), [50, 51, 52, 9]);
        assert_eq!(handed(&epochs(50)), [50, 51, 52, 9], "the same again");
        assert_eq!(handed(&epochs(90)), [90, 91, 92, 51]);
        assert_eq!(handed(&epochs(91)), [91, 92, 93]);
        assert_eq!(handed(&epochs(7)), [7, 8, 9, 92]);
    }
}

//! Messages between routers about names: sealed with a key shared by two runs of two routers, each message once. In a
//! network with an authority the key derives from the certified keys of both, so no other node can send or answer in a
//! router's name, and replays are refused. Without one the key is public, and detects only damage and repetitions.
use alloc::{collections::BTreeMap, vec::Vec};

use tributary_content::PublicKey;
use tributary_trust::Identity;

use super::Replays;
use crate::{
    ids::NetworkAddress,
    wire::{NameMessage, OPEN_KEY, SealedHead, Wire, WireError, seal, unseal},
};

/// Remembered earlier runs of a router; their messages are refused.
const RETIRED_MAX: usize = 64;
/// Maximum routers with a shared key: as many as a topology holds.
const PAIRS_MAX: usize = 1_024;

/// The seals of one router.
pub struct Seals {
    /// The key of a network without an authority.
    open: [u8; 32],
    /// The keys that it shares with the certified router at each address; `None` in a network without an authority.
    pairs: Option<BTreeMap<NetworkAddress, (PublicKey, [u8; 32])>>,
    own: (NetworkAddress, u64),
    remotes: BTreeMap<NetworkAddress, Remote>,
}

/// The state of another router.
#[derive(Default)]
struct Remote {
    /// Its boot number; 0 while unknown.
    boot: u64,
    /// The boot number of its latest link state, which orders its runs; messages may announce a new one earlier.
    newest: u64,
    /// The number of the last message to it, and those of the messages from it.
    sent: u64,
    heard: Replays,
    /// Earlier lives, and the numbers of the messages from these.
    retired: Vec<(u64, Replays)>,
}

impl Remote {
    /// It is in this life now.
    fn live(&mut self, boot: u64) {
        let again = self.retired.iter().position(|(retired, _)| *retired == boot);
        let heard = again.map(|at| self.retired.remove(at).1).unwrap_or_default();
        let before = core::mem::replace(&mut self.heard, heard);
        if self.boot != 0 {
            self.retired.push((self.boot, before));
        }
        if self.retired.len() > RETIRED_MAX {
            self.retired.remove(0);
        }
        self.boot = boot;
    }
    /// It proves that it is in this run; false if that run is over.
    fn advances(&mut self, boot: u64) -> bool {
        if self.retired.iter().any(|(retired, _)| *retired == boot) {
            return false;
        }
        if self.boot != boot {
            self.live(boot);
        }
        true
    }
}

impl Seals {
    /// The seals of the router at `own` with the boot number `boot`.
    pub fn new(own: NetworkAddress, boot: u64) -> Seals {
        let open = blake3::derive_key(CONTEXT, &OPEN_KEY);
        Seals { open, pairs: None, own: (own, boot), remotes: BTreeMap::new() }
    }
    /// From now on it speaks with certified routers only, to each by a key of the two.
    pub fn require_certificates(&mut self) {
        self.pairs.get_or_insert_default();
    }
    /// The certified router at an address has this key.
    pub fn meet(&mut self, router: NetworkAddress, key: PublicKey, identity: &Identity) {
        let Some(pairs) = &mut self.pairs else { return };
        if router == self.own.0 || pairs.get(&router).is_some_and(|(known, _)| *known == key) {
            return;
        }
        if pairs.len() >= PAIRS_MAX && !pairs.contains_key(&router) {
            pairs.pop_first();
        }
        if let Some(secret) = identity.pair_secret(&key, CONTEXT) {
            pairs.insert(router, (key, secret));
        }
    }
    /// Drops the keys of routers that are no longer certified; `key_of` returns the certified router at an address.
    pub fn keep_certified(&mut self, key_of: impl Fn(NetworkAddress) -> Option<PublicKey>) {
        self.pairs.iter_mut().for_each(|pairs| pairs.retain(|router, (key, _)| key_of(*router) == Some(*key)));
    }
    /// The key for messages to or from a router; `None` if it is not known to be certified.
    fn key_for(&self, router: NetworkAddress) -> Option<&[u8; 32]> {
        match &self.pairs {
            Some(pairs) => pairs.get(&router).map(|(_, secret)| secret),
            None => Some(&self.open),
        }
    }
    /// A router's link state gives its boot number. Returns whether that is new.
    pub fn on_boot(&mut self, router: NetworkAddress, boot: u64) -> bool {
        if router == self.own.0 {
            return false;
        }
        let remote = self.remotes.entry(router).or_default();
        if core::mem::replace(&mut remote.newest, boot) == boot || remote.boot == boot {
            return false;
        }
        let is_another = remote.boot != 0;
        remote.live(boot);
        is_another
    }
    /// A sealed message for a router; `None` if it is not known to be certified.
    pub fn seal(&mut self, to: NetworkAddress, message: &NameMessage) -> Option<Vec<u8>> {
        let key = *self.key_for(to)?;
        let remote = self.remotes.entry(to).or_default();
        remote.sent += 1;
        let head = SealedHead { from: self.own, to: (to, remote.boot), number: remote.sent };
        let mut bytes = Vec::new();
        head.encode(&mut bytes);
        message.encode(&mut bytes);
        seal(&key, &mut bytes);
        Some(bytes)
    }
    /// The sender of a message, and its content.
    ///
    /// # Errors
    /// The reason for its rejection.
    pub fn unseal(&mut self, bytes: &[u8]) -> Result<(NetworkAddress, NameMessage), &'static str> {
        // Whose key it must be sealed with is read before that is checked.
        let (claimed, _) = SealedHead::decode(bytes).map_err(WireError::reason)?;
        let key = self.key_for(claimed.from.0).ok_or("sealed by a router that is not known to be certified")?;
        let (head, message) = unseal(key, bytes).and_then(SealedHead::decode).map_err(WireError::reason)?;
        let message = NameMessage::decode(message).map_err(WireError::reason)?;
        if head.to != self.own {
            return Err("sealed for another router, or for an earlier life");
        }
        if self.remotes.len() >= 4 * PAIRS_MAX && !self.remotes.contains_key(&head.from.0) {
            return Err("too many routers");
        }
        let remote = self.remotes.entry(head.from.0).or_default();
        if !remote.advances(head.from.1) || !remote.heard.is_new(head.number) {
            return Err("repeated");
        }
        Ok((head.from.0, message))
    }
}

const CONTEXT: &str = "tributary 2026 mobilityfirst names between routers";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Guid;

    fn router(number: u32, boot: u64) -> Seals {
        Seals::new(NetworkAddress(number), boot)
    }
    fn question(request: u32) -> NameMessage {
        NameMessage::Lookup { request, place: Guid([7; 20]) }
    }

    #[test]
    fn what_is_forged_or_repeated_or_of_an_earlier_life_is_refused() {
        let (mut a, mut b) = (router(1, 11), router(2, 22));
        a.on_boot(NetworkAddress(2), 22);
        let sealed = a.seal(NetworkAddress(2), &question(1)).expect("one key for all");
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(b.unseal(&changed).is_err(), "byte {at}");
        }
        assert_eq!(b.unseal(&sealed), Ok((NetworkAddress(1), question(1))));
        assert!(b.unseal(&sealed).is_err(), "it was said once");
        assert!(
            router(3, 33).unseal(&a.seal(NetworkAddress(2), &question(2)).expect("one key for all")).is_err(),
            "it is for another router"
        );
        assert!(
            router(2, 23).unseal(&a.seal(NetworkAddress(2), &question(3)).expect("one key for all")).is_err(),
            "it has started anew since"
        );
        // The other one restarts: its earlier messages are refused, although they never arrived.
        let late = a.seal(NetworkAddress(2), &question(4)).expect("one key for all");
        let mut again = router(1, 12);
        again.on_boot(NetworkAddress(2), 22);
        assert_eq!(
            b.unseal(&again.seal(NetworkAddress(2), &question(1)).expect("one key for all")),
            Ok((NetworkAddress(1), question(1)))
        );
        assert!(b.unseal(&late).is_err());
    }

    #[test]
    fn in_a_network_with_an_authority_each_two_routers_have_a_key_of_their_own() {
        use tributary_content::SigningKey;
        use tributary_trust::{Access, Network, UnixTime};
        let key = |byte: u8| SigningKey::from_secret(&[byte; 32]);
        let network = Network::new(key(99).public(), Access::Closed);
        let identity =
            |byte: u8| Identity::new(key(byte), None, network.clone(), alloc::sync::Arc::new(|_| UnixTime(1_000)));
        let certified = |number: u8| {
            let mut seals = router(number.into(), 10 + u64::from(number));
            seals.require_certificates();
            for other in [1u8, 2, 3] {
                seals.meet(NetworkAddress(other.into()), key(other).public(), &identity(number));
                seals.on_boot(NetworkAddress(other.into()), 10 + u64::from(other));
            }
            seals
        };
        let (mut a, mut b, mut c) = (certified(1), certified(2), certified(3));
        let sealed = a.seal(NetworkAddress(2), &question(1)).expect("they know each other");
        assert_eq!(b.unseal(&sealed), Ok((NetworkAddress(1), question(1))));
        // A third router, certified like them, cannot speak for the first.
        c.own = (NetworkAddress(1), 11);
        let forged = c.seal(NetworkAddress(2), &question(2)).expect("it knows the second one");
        assert_eq!(b.unseal(&forged), Err("forged"));
        assert_eq!(a.seal(NetworkAddress(7), &question(3)), None, "nobody is certified there");
        let sealed = a.seal(NetworkAddress(2), &question(4)).expect("they know each other");
        b.keep_certified(|router| (router == NetworkAddress(3)).then(|| key(3).public()));
        assert!(b.unseal(&sealed).is_err_and(|reason| reason.contains("not known to be certified")));
        let mut stranger = router(7, 17);
        stranger.on_boot(NetworkAddress(2), 12);
        let sealed = stranger.seal(NetworkAddress(2), &question(1)).expect("one key for all");
        assert!(b.unseal(&sealed).is_err());
    }

    #[test]
    fn a_router_that_starts_anew_is_answered_as_soon_as_it_has_said_something() {
        let (mut a, mut b) = (router(1, 11), router(2, 22));
        assert!(!a.on_boot(NetworkAddress(2), 22) && !b.on_boot(NetworkAddress(1), 11), "they are met first");
        assert!(b.unseal(&a.seal(NetworkAddress(2), &question(1)).expect("one key for all")).is_ok());
        let mut a = router(1, 12);
        a.on_boot(NetworkAddress(2), 22);
        assert!(b.unseal(&a.seal(NetworkAddress(2), &question(1)).expect("one key for all")).is_ok());
        assert!(
            a.unseal(&b.seal(NetworkAddress(1), &question(1)).expect("one key for all")).is_ok(),
            "it need not wait for link state"
        );
        assert!(!b.on_boot(NetworkAddress(1), 12) && b.on_boot(NetworkAddress(1), 13));
    }

    #[test]
    fn link_state_of_an_earlier_life_that_comes_late_is_made_up_for_by_the_next() {
        let (mut a, mut b) = (router(1, 12), router(2, 22));
        a.on_boot(NetworkAddress(2), 22);
        let first = a.seal(NetworkAddress(2), &question(1)).expect("one key for all");
        assert!(b.unseal(&first).is_ok(), "the message is here before any link state");
        b.on_boot(NetworkAddress(1), 11);
        assert!(b.unseal(&a.seal(NetworkAddress(2), &question(2)).expect("one key for all")).is_err());
        b.on_boot(NetworkAddress(1), 12);
        assert!(b.unseal(&a.seal(NetworkAddress(2), &question(3)).expect("one key for all")).is_ok());
        assert!(a.unseal(&b.seal(NetworkAddress(1), &question(4)).expect("one key for all")).is_ok());
        assert!(b.unseal(&first).is_err(), "it is still known what was said");
        // A repeated link state with the known boot number changes nothing.
        let again = router(1, 13).seal(NetworkAddress(2), &question(1)).expect("one key for all");
        assert!(b.unseal(&again).is_err(), "it does not know whom it speaks to");
        let mut again = router(1, 13);
        again.on_boot(NetworkAddress(2), 22);
        assert!(b.unseal(&again.seal(NetworkAddress(2), &question(1)).expect("one key for all")).is_ok());
        b.on_boot(NetworkAddress(1), 12);
        assert!(b.unseal(&again.seal(NetworkAddress(2), &question(2)).expect("one key for all")).is_ok());
    }
}

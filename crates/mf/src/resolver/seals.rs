//! What routers say to each other about names: sealed with the network's key, from one life of a router to one life of
//! another, each message once. So nobody without the key asks in a router's name or answers it, and what somebody
//! repeats is known.
use alloc::{collections::BTreeMap, vec::Vec};

use super::Replays;
use crate::{
    ids::NetworkAddress,
    wire::{NameMessage, SealedHead, WireError, seal, unseal},
};

/// Earlier lives of a router that are remembered; what is of them is refused.
const RETIRED_MAX: usize = 64;

/// All that one router seals and unseals.
pub struct Seals {
    key: [u8; 32],
    own: (NetworkAddress, u64),
    remotes: BTreeMap<NetworkAddress, Remote>,
}

/// What is known of another router.
#[derive(Default)]
struct Remote {
    /// Its boot number; 0 while that is not known.
    boot: u64,
    /// The same as its link state said last, which orders its lives; messages may tell of a new one before.
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
    /// It says, provably, that it is in this life; false if that is over.
    fn says(&mut self, boot: u64) -> bool {
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
    /// The seals of the router at `own` with the boot number `boot`, by the network's key.
    pub fn new(network_key: &[u8; 32], own: NetworkAddress, boot: u64) -> Seals {
        let key = blake3::derive_key(CONTEXT, network_key);
        Seals { key, own: (own, boot), remotes: BTreeMap::new() }
    }
    /// The link state of a router says that it is in this life. Gives whether that is another one than was known.
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
    /// A message for a router.
    pub fn seal(&mut self, to: NetworkAddress, message: &NameMessage) -> Vec<u8> {
        let remote = self.remotes.entry(to).or_default();
        remote.sent += 1;
        let head = SealedHead { from: self.own, to: (to, remote.boot), number: remote.sent };
        let mut bytes = Vec::new();
        head.encode(&mut bytes);
        message.encode(&mut bytes);
        seal(&self.key, &mut bytes);
        bytes
    }
    /// Whom a message is from, and what it says.
    ///
    /// # Errors
    /// A fixed phrase that says why it counts for nothing.
    pub fn unseal(&mut self, bytes: &[u8]) -> Result<(NetworkAddress, NameMessage), &'static str> {
        let (head, message) = unseal(&self.key, bytes).and_then(SealedHead::decode).map_err(WireError::reason)?;
        let message = NameMessage::decode(message).map_err(WireError::reason)?;
        if head.to != self.own {
            return Err("sealed for another router, or for an earlier life");
        }
        let remote = self.remotes.entry(head.from.0).or_default();
        if !remote.says(head.from.1) || !remote.heard.is_new(head.number) {
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

    const KEY: [u8; 32] = [5; 32];

    fn router(number: u32, boot: u64) -> Seals {
        Seals::new(&KEY, NetworkAddress(number), boot)
    }
    fn question(request: u32) -> NameMessage {
        NameMessage::Lookup { request, place: Guid([7; 20]) }
    }

    #[test]
    fn what_is_forged_or_repeated_or_of_an_earlier_life_is_refused() {
        let (mut a, mut b) = (router(1, 11), router(2, 22));
        a.on_boot(NetworkAddress(2), 22);
        let sealed = a.seal(NetworkAddress(2), &question(1));
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(b.unseal(&changed).is_err(), "byte {at}");
        }
        assert_eq!(b.unseal(&sealed), Ok((NetworkAddress(1), question(1))));
        assert!(b.unseal(&sealed).is_err(), "it was said once");
        let mut outsider = Seals::new(&[6; 32], NetworkAddress(1), 11);
        outsider.on_boot(NetworkAddress(2), 22);
        assert_eq!(b.unseal(&outsider.seal(NetworkAddress(2), &question(2))), Err("forged"));
        assert!(router(3, 33).unseal(&a.seal(NetworkAddress(2), &question(2))).is_err(), "it is for another router");
        assert!(router(2, 23).unseal(&a.seal(NetworkAddress(2), &question(3))).is_err(), "it has started anew since");
        // The other one starts anew: what it said before does not count any more, though it was never heard.
        let late = a.seal(NetworkAddress(2), &question(4));
        let mut again = router(1, 12);
        again.on_boot(NetworkAddress(2), 22);
        assert_eq!(b.unseal(&again.seal(NetworkAddress(2), &question(1))), Ok((NetworkAddress(1), question(1))));
        assert!(b.unseal(&late).is_err());
    }

    #[test]
    fn a_router_that_starts_anew_is_answered_as_soon_as_it_has_said_something() {
        let (mut a, mut b) = (router(1, 11), router(2, 22));
        assert!(!a.on_boot(NetworkAddress(2), 22) && !b.on_boot(NetworkAddress(1), 11), "they are met first");
        assert!(b.unseal(&a.seal(NetworkAddress(2), &question(1))).is_ok());
        let mut a = router(1, 12);
        a.on_boot(NetworkAddress(2), 22);
        assert!(b.unseal(&a.seal(NetworkAddress(2), &question(1))).is_ok());
        assert!(a.unseal(&b.seal(NetworkAddress(1), &question(1))).is_ok(), "it need not wait for link state");
        assert!(!b.on_boot(NetworkAddress(1), 12) && b.on_boot(NetworkAddress(1), 13));
    }

    #[test]
    fn link_state_of_an_earlier_life_that_comes_late_is_made_up_for_by_the_next() {
        let (mut a, mut b) = (router(1, 12), router(2, 22));
        a.on_boot(NetworkAddress(2), 22);
        let first = a.seal(NetworkAddress(2), &question(1));
        assert!(b.unseal(&first).is_ok(), "the message is here before any link state");
        b.on_boot(NetworkAddress(1), 11);
        assert!(b.unseal(&a.seal(NetworkAddress(2), &question(2))).is_err());
        b.on_boot(NetworkAddress(1), 12);
        assert!(b.unseal(&a.seal(NetworkAddress(2), &question(3))).is_ok());
        assert!(a.unseal(&b.seal(NetworkAddress(1), &question(4))).is_ok());
        assert!(b.unseal(&first).is_err(), "it is still known what was said");
        // What routes say again of what is known already takes nothing back.
        let again = router(1, 13).seal(NetworkAddress(2), &question(1));
        assert!(b.unseal(&again).is_err(), "it does not know whom it speaks to");
        let mut again = router(1, 13);
        again.on_boot(NetworkAddress(2), 22);
        assert!(b.unseal(&again.seal(NetworkAddress(2), &question(1))).is_ok());
        b.on_boot(NetworkAddress(1), 12);
        assert!(b.unseal(&again.seal(NetworkAddress(2), &question(2))).is_ok());
    }
}

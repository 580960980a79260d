//! Link state signed by certified routers: which router may report which links and storage.
//!
//! `link state | fingerprint of the signer's certificate 8 | bytes of the certificate 2 | certificate | signature 64`
//!
//! The signature covers the link state and the fingerprint, so that forwarding routers can attach the certificate or
//! omit it: a neighbour gets it with the first state of its router, and again once in [`REPEAT`].
use alloc::{collections::BTreeMap, vec::Vec};

use bytes::Bytes;
use tributary_content::{PublicKey, Signature};
use tributary_core::{
    Budget, Duration, FaceId, Time,
    wire::{Reader, Writer},
};
use tributary_trust::{Certificate, Grant, Identity, Roles as CertifiedRoles};

use super::link_state::{LIFETIME, TOO_MANY_ROUTERS, is_newer};
use crate::{
    ids::NetworkAddress,
    wire::{LinkState, Roles, Wire, WireError},
};

/// How often a certificate is repeated to the same neighbour, in case it was not kept there.
const REPEAT: Duration = Duration::from_secs(60);
/// Checked signatures of a neighbour per second, and in a burst. A check takes 50 µs; routers send a state every ten
/// seconds, and after each change of a link.
const CHECKS_PER_SECOND: u64 = 200;
const CHECKS_BURST: u32 = 1_000;
const CONTEXT: &str = "tributary 1 mobilityfirst link state";

tributary_core::declared! {
    /// A router's signing key, and its state of the certified routers around it.
    #[derive(Debug)]
    pub struct SignedStates {
        /// Maximum routers whose certificates and states are remembered: as many as a topology holds.
        routers_max: usize = routers_max,
        /// Its identity in the network.
        pub identity: Identity = identity,
        /// Certified routers by the fingerprints of their certificates, with the certificate's bytes.
        known: BTreeMap<[u8; 8], (Grant, Bytes)> = BTreeMap::new(),
        /// The latest signed state of each router, its own among them.
        latest: BTreeMap<NetworkAddress, Latest> = BTreeMap::new(),
        /// When a certificate was sent over a face last.
        sent: BTreeMap<(FaceId, [u8; 8]), Time> = BTreeMap::new(),
        /// The checks that each face causes.
        budgets: BTreeMap<FaceId, Budget> = BTreeMap::new(),
        /// Signatures that were made and checked.
        counts: (u64, u64) = (0, 0),
    }
    /// Creates the state for the holder of `identity`.
    pub fn new(identity: Identity, routers_max: usize) {}
}

#[derive(Debug)]
struct Latest {
    sequence: u64,
    fingerprint: [u8; 8],
    key: PublicKey,
    heard: Time,
    state: Bytes,
    signature: Signature,
}

/// Why signed link state counts for nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Untrusted(pub(crate) &'static str);

impl From<WireError> for Untrusted {
    fn from(error: WireError) -> Untrusted {
        Untrusted(error.reason())
    }
}

impl SignedStates {
    /// Takes a renewed certificate, or newer revocations.
    pub fn set_identity(&mut self, now: Time, identity: Identity) {
        self.identity = identity;
        self.review(now);
    }
    /// Forgets the routers whose certificates have ended or are revoked.
    pub fn review(&mut self, now: Time) {
        let (identity, known) = (&self.identity, &mut self.known);
        known.retain(|_, (grant, _)| identity.check(grant, now).is_ok());
        // Its own signed state refers to a certificate that may have changed.
        self.latest.retain(|_, latest| known.contains_key(&latest.fingerprint));
    }
    /// Signatures made, and signatures checked.
    #[cfg(test)]
    pub fn counts(&self) -> (u64, u64) {
        self.counts
    }
    /// The key of the certified router at an address, by its latest link state.
    pub fn key_of(&self, router: NetworkAddress) -> Option<PublicKey> {
        self.latest.get(&router).map(|latest| latest.key)
    }
    /// A face is gone, or has another neighbour.
    pub fn forget(&mut self, face: FaceId) {
        self.sent.retain(|(at, _), _| *at != face);
        self.budgets.remove(&face);
    }
    /// The message with a router's state for a neighbour; `own` says whether it is this router's. `None` if this node
    /// has no certificate, or the state never arrived with a signature.
    pub fn message(&mut self, now: Time, to: FaceId, state: &LinkState, own: bool) -> Option<Vec<u8>> {
        let is_signed = self.latest.get(&state.router).is_some_and(|latest| latest.sequence == state.sequence);
        if own && !is_signed {
            self.sign(now, state)?;
        }
        let latest = self.latest.get(&state.router).filter(|latest| latest.sequence == state.sequence)?;
        let sent = self.sent.get(&(to, latest.fingerprint));
        let certificate = match sent.is_none_or(|sent| now.since(*sent) >= REPEAT) {
            true => self.known.get(&latest.fingerprint).map(|(_, bytes)| bytes.clone()).unwrap_or_default(),
            false => Bytes::new(),
        };
        if !certificate.is_empty() {
            self.sent.insert((to, latest.fingerprint), now);
        }
        let mut message = Vec::with_capacity(latest.state.len() + certificate.len() + 74);
        message.put_blob(&latest.state);
        message.put(&latest.fingerprint);
        message.put_blob(&certificate);
        message.put(&latest.signature.0);
        Some(message)
    }
    fn sign(&mut self, now: Time, state: &LinkState) -> Option<()> {
        let certificate = self.identity.certificate()?;
        let fingerprint = certificate.fingerprint();
        if !self.known.contains_key(&fingerprint) {
            let grant = self.identity.verify(certificate, now).ok()?;
            self.known.insert(fingerprint, (grant, certificate.encode().into()));
        }
        let encoded = state.to_bytes();
        let signature = self.identity.sign(CONTEXT, &[&encoded[..], &fingerprint].concat());
        self.counts.0 += 1;
        let (sequence, key) = (state.sequence, self.identity.key());
        let latest = Latest { sequence, fingerprint, key, heard: now, state: encoded.into(), signature };
        self.latest.insert(state.router, latest);
        Some(())
    }
    /// The state in a message from the neighbour on a face.
    ///
    /// # Errors
    /// The reason for its rejection.
    pub(crate) fn open(&mut self, now: Time, from: FaceId, message: &[u8]) -> Result<LinkState, Untrusted> {
        let mut reader = Reader::new(message);
        let encoded = reader.blob("link state", usize::from(u16::MAX))?;
        let fingerprint = reader.array("certificate")?;
        let certificate = reader.blob("certificate", Certificate::BYTES_MAX)?;
        let signature = Signature(reader.array("signature")?);
        reader.end()?;
        let state = LinkState::decode(encoded)?;
        let held = self.latest.get(&state.router);
        // Known states need no check: they arrive over every link.
        if held.is_some_and(|held| {
            held.sequence == state.sequence && *held.state == *encoded && held.signature == signature
        }) {
            return Ok(state);
        }
        self.may_check(now, from)?;
        let grant = self.grant(now, fingerprint, certificate)?;
        self.identity.check(&grant, now).map_err(|_| Untrusted("the router's certificate has ended or is revoked"))?;
        if !grant.roles.contains(CertifiedRoles::ROUTER) {
            return Err(Untrusted("link state of a node that is not certified as a router"));
        }
        if state.roles.contains(Roles::RESOLVER) && !grant.roles.contains(CertifiedRoles::RESOLVER) {
            return Err(Untrusted("link state of a resolver that is not certified as one"));
        }
        // As long as the link state of a router counts, another one does not get its address.
        let held = self.latest.get(&state.router).filter(|held| now.since(held.heard) < LIFETIME);
        if held.is_some_and(|held| held.key != grant.key) {
            return Err(Untrusted("link state for the address of another router"));
        }
        if self.latest.len() >= self.routers_max && !self.latest.contains_key(&state.router) {
            return Err(Untrusted(TOO_MANY_ROUTERS));
        }
        self.counts.1 += 1;
        if !grant.key.verify(CONTEXT, &[encoded, &fingerprint].concat(), &signature) {
            return Err(Untrusted("forged"));
        }
        // A replayed old state replaces none.
        if held.is_none_or(|held| is_newer(state.sequence, held.sequence)) {
            let encoded = Bytes::copy_from_slice(encoded);
            let sequence = state.sequence;
            let latest = Latest { sequence, fingerprint, key: grant.key, heard: now, state: encoded, signature };
            self.latest.insert(state.router, latest);
        }
        self.latest.retain(|_, latest| now.since(latest.heard) < LIFETIME || latest.key == self.identity.key());
        Ok(state)
    }
    fn grant(&mut self, now: Time, fingerprint: [u8; 8], certificate: &[u8]) -> Result<Grant, Untrusted> {
        if let Some((grant, _)) = self.known.get(&fingerprint) {
            return Ok(grant.clone());
        }
        if certificate.is_empty() {
            return Err(Untrusted("link state with a certificate that is not known here yet"));
        }
        let read = Certificate::decode(certificate)?;
        if read.fingerprint() != fingerprint {
            return Err(Untrusted("forged"));
        }
        self.counts.1 += 1;
        let grant = self
            .identity
            .verify(&read, now)
            .map_err(|_| Untrusted("link state with a certificate that is not valid"))?;
        if self.known.len() >= self.routers_max {
            let used: alloc::collections::BTreeSet<_> = self.latest.values().map(|latest| latest.fingerprint).collect();
            self.known.retain(|fingerprint, _| used.contains(fingerprint));
        }
        if self.known.len() >= self.routers_max {
            return Err(Untrusted(TOO_MANY_ROUTERS));
        }
        self.known.insert(fingerprint, (grant.clone(), Bytes::copy_from_slice(certificate)));
        Ok(grant)
    }
    /// Whether a neighbour may cause another check of a signature.
    fn may_check(&mut self, now: Time, from: FaceId) -> Result<(), Untrusted> {
        let may = self.budgets.entry(from).or_default().take(now, CHECKS_BURST, CHECKS_PER_SECOND);
        if may { Ok(()) } else { Err(Untrusted("too many signatures to check")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Guid;
    use alloc::{string::String, sync::Arc};
    use tributary_content::SigningKey;
    use tributary_trust::{Access, Network, Revocations, Terms, UnixTime};

    const FACE: FaceId = FaceId(1);

    fn key(byte: u8) -> SigningKey {
        SigningKey::from_secret(&[byte; 32])
    }
    fn certificate(node: u8, roles: CertifiedRoles) -> Certificate {
        let terms = Terms {
            serial: node.into(),
            key: key(node).public(),
            label: "router".into(),
            roles,
            prefixes: Vec::new(),
            not_before: UnixTime(1_000),
            not_after: UnixTime(2_000),
        };
        Certificate::issue(&key(99), terms).expect("within limits")
    }
    fn network() -> Network {
        Network::new(key(99).public(), Access::Closed)
    }
    /// Node `node` with those roles in its certificate.
    fn node(node: u8, roles: CertifiedRoles) -> SignedStates {
        let clock = Arc::new(|now: Time| UnixTime(1_000 + now.since(Time::ZERO).as_millis() as u64 / 1_000));
        SignedStates::new(Identity::new(key(node), Some(certificate(node, roles)), network(), clock), 1_024)
    }
    fn router(number: u8) -> SignedStates {
        node(number, CertifiedRoles::ROUTER)
    }
    fn state(router: u32, sequence: u64, roles: Roles) -> LinkState {
        let (guid, label) = (Guid([router as u8; 20]), String::from("r"));
        LinkState {
            router: NetworkAddress(router),
            guid,
            sequence,
            boot: 1,
            roles,
            storage_free: 100,
            label,
            links: Vec::new(),
        }
    }
    fn signed(by: &mut SignedStates, state: &LinkState) -> Vec<u8> {
        by.message(Time::ZERO, FACE, state, true).expect("it has a certificate")
    }

    #[test]
    fn what_a_certified_router_says_is_believed_and_passed_on_with_its_signature() {
        let (mut a, mut b, mut c) = (router(1), router(2), router(3));
        let first = state(1, 1, Roles::ROUTER);
        let message = signed(&mut a, &first);
        assert_eq!(b.open(Time::ZERO, FACE, &message), Ok(first.clone()));
        let passed = b.message(Time::ZERO, FaceId(2), &first, false).expect("it was heard");
        assert_eq!(c.open(Time::ZERO, FACE, &passed), Ok(first));
        assert_eq!(c.key_of(NetworkAddress(1)), Some(key(1).public()));
        // The next one refers to the certificate.
        let second = state(1, 2, Roles::ROUTER);
        let shorter = signed(&mut a, &second);
        assert!(message.len() - shorter.len() > 130, "{} and {}", message.len(), shorter.len());
        assert_eq!(b.open(Time::ZERO, FACE, &shorter), Ok(second.clone()));
        let mut late = router(4);
        assert!(late.open(Time::ZERO, FACE, &shorter).is_err(), "it has never seen the certificate");
        let again = a.message(Time::ZERO + REPEAT, FACE, &second, true).expect("it has a certificate");
        assert_eq!(late.open(Time::ZERO, FACE, &again), Ok(second));
    }

    #[test]
    fn nobody_else_tells_of_links_whatever_it_changes() {
        let mut a = router(1);
        let message = signed(&mut a, &state(1, 1, Roles::ROUTER));
        for at in 0..message.len() {
            let mut b = router(2);
            let mut changed = message.clone();
            changed[at] ^= 1;
            assert!(b.open(Time::ZERO, FACE, &changed).is_err(), "byte {at}");
            assert!(b.open(Time::ZERO, FACE, &message[..at]).is_err());
        }
        let refused = |mut by: SignedStates, roles| {
            let message = signed(&mut by, &state(5, 1, roles));
            router(2).open(Time::ZERO, FACE, &message).expect_err("it is not certified for that").0
        };
        assert!(refused(node(5, CertifiedRoles::HOST), Roles::ROUTER).contains("not certified as a router"));
        assert!(refused(node(5, CertifiedRoles::RESOLVER), Roles::RESOLVER).contains("not certified as a router"));
        assert!(refused(router(5), Roles::ROUTER | Roles::RESOLVER).contains("resolver that is not certified"));
        let other = Identity::new(key(5), None, network(), Arc::new(|_| UnixTime(1_000)));
        let mut without = SignedStates::new(other, 1_024);
        assert!(without.message(Time::ZERO, FACE, &state(5, 1, Roles::ROUTER), true).is_none());
    }

    #[test]
    fn a_certified_router_speaks_for_no_address_but_its_own() {
        let (mut a, mut evil, mut b) = (router(1), router(6), router(2));
        assert!(b.open(Time::ZERO, FACE, &signed(&mut a, &state(1, 1, Roles::ROUTER))).is_ok());
        let forged = signed(&mut evil, &state(1, 9, Roles::ROUTER));
        assert_eq!(b.open(Time::ZERO, FACE, &forged), Err(Untrusted("link state for the address of another router")));
        assert!(b.open(Time::ZERO + LIFETIME, FACE, &forged).is_ok(), "the address is free again");
    }

    #[test]
    fn a_certificate_that_has_ended_or_is_revoked_signs_nothing_any_more() {
        let (mut a, mut b) = (router(1), router(2));
        let first = signed(&mut a, &state(1, 1, Roles::ROUTER));
        assert!(b.open(Time::ZERO, FACE, &first).is_ok());
        let late = Time::ZERO + Duration::from_secs(1_000);
        let second = signed(&mut a, &state(1, 2, Roles::ROUTER));
        assert!(b.open(late, FACE, &second).is_err());
        let mut network = network();
        network.revoke(Revocations::issue(&key(99), 2, [1].into(), [].into()).expect("short")).expect("signed");
        let identity = Identity::new(key(2), b.identity.certificate().cloned(), network, Arc::new(|_| UnixTime(1_000)));
        b.set_identity(Time::ZERO, identity);
        assert!(b.open(Time::ZERO, FACE, &second).is_err());
        assert_eq!(b.key_of(NetworkAddress(1)), None);
    }

    #[test]
    fn repeated_states_cost_no_check_and_forged_ones_a_bounded_number() {
        let (mut a, mut b) = (router(1), router(2));
        let message = signed(&mut a, &state(1, 1, Roles::ROUTER));
        for _ in 0..100 {
            assert!(b.open(Time::ZERO, FACE, &message).is_ok());
        }
        assert_eq!((a.counts(), b.counts()), ((1, 0), (0, 2)), "one for the certificate, one for the state");
        for sequence in 2..5_000 {
            let mut forged = signed(&mut a, &state(1, sequence, Roles::ROUTER));
            *forged.last_mut().expect("a signature") ^= 1;
            assert!(b.open(Time::ZERO, FACE, &forged).is_err());
        }
        assert!(b.counts().1 <= u64::from(CHECKS_BURST) + 2, "{:?}", b.counts());
        // Another neighbour's states are still accepted.
        let honest = signed(&mut a, &state(1, 5_000, Roles::ROUTER));
        assert!(b.open(Time::ZERO, FaceId(2), &honest).is_ok());
        // Four routers that each send a state every ten seconds: the cost of an idle network.
        let before = b.counts().1;
        for second in 1..=10u64 {
            let message =
                a.message(Time::from_millis(second * 1_000), FACE, &state(1, 5_000 + second, Roles::ROUTER), true);
            let _ = b.open(Time::from_millis(second * 1_000), FaceId(2), &message.expect("it has a certificate"));
        }
        assert_eq!(b.counts().1 - before, 10, "one check for each state");
    }
}

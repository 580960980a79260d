//! The keys that two nodes share, and each node's permissions, in a network with an authority.
//!
//! Control messages travel over routers of other owners. Each pair of nodes shares a key, which follows from the
//! Ed25519 key of one and the secret of the other (X25519), so no router on the way can read a message, change it, or
//! send one in another node's name. A node's id is the hash of its key, so that a relayed key can be verified.
//!
//! A node learns the keys of topology managers from their signed beacons, and the keys of rendezvous nodes from the
//! routes that a topology manager sends. All other nodes introduce themselves: before its first fragment to a node goes
//! a packet with its certificate (in an open network: its key), which is repeated until the node has acknowledged
//! something. A message counts only if its sender has introduced itself and its certificate is still valid.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use tributary_content::PublicKey;
use tributary_core::{Budget, FaceId, NodeId, Time};
use tributary_trust::{Certificate, Grant, Identity};

use crate::{ids::node_of_key, wire::Secrecy};

/// Maximum nodes whose keys are remembered.
const PAIRS_MAX: usize = 16_384;
/// Introductions per face in a burst, and per second: each takes 100 µs. All nodes of a domain may introduce themselves
/// to a topology manager at once.
const INTRODUCTIONS_BURST: u32 = 4_096;
const INTRODUCTIONS_PER_SECOND: u64 = 500;
/// Faces whose introductions are counted.
const BUDGETS_MAX: usize = 1_024;

const CONTEXT: &str = "tributary 2026 psi control messages between two nodes";

/// Reasons for which control packets are dropped here.
pub mod reason {
    /// A packet of a node that has not introduced itself, or was forgotten; it does so again when it repeats the packet.
    pub const STRANGER: &str = "control: packet of a node that has not introduced itself";
    /// An introduction with bytes that are neither a key nor a certificate, or that belong to another node.
    pub const CREDENTIAL: &str = "control: introduction without the key of its sender";
    /// An introduction of a node that the network does not admit.
    pub const REFUSED: &str = "control: introduction of a node that the network does not admit";
    /// Too many introductions over one face.
    pub const BUDGET: &str = "control: too many introductions";
    /// A message of a node whose certificate has ended or was revoked.
    pub const ENDED: &str = "control: packet of a node whose certificate has ended or was revoked";
}

/// Keys and grants of all nodes that this one exchanges messages with.
pub(super) struct Pairs {
    identity: Identity,
    /// This node's credential: its certificate, or its key without one.
    credential: Vec<u8>,
    known: BTreeMap<NodeId, Pair>,
    /// The known nodes that own names.
    owners: BTreeSet<NodeId>,
    budgets: BTreeMap<FaceId, Budget>,
    clock: u64,
}

/// What this node shares with another one.
struct Pair {
    secrecy: Secrecy,
    code_key: [u8; 32],
    /// The credential of its introduction and the grant in it; `None` if only its key is known.
    introduced: Option<(Vec<u8>, Grant)>,
    used: u64,
}

impl Pair {
    /// Nodes of lesser worth are forgotten first: those with only a known key, then those without a certificate (any
    /// number of keys is free), and among equal ones the least recently used.
    fn worth(&self) -> (bool, bool, u64) {
        let grant = self.introduced.as_ref().map(|(_, grant)| grant);
        (grant.is_some_and(Grant::is_certified), grant.is_some(), self.used)
    }
}
impl core::fmt::Debug for Pairs {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Pairs({} nodes)", self.known.len())
    }
}

impl Pairs {
    pub(super) fn new(identity: Identity) -> Pairs {
        let credential = credential_of(&identity);
        let (known, owners, budgets) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Pairs { identity, credential, known, owners, budgets, clock: 0 }
    }
    /// Takes a renewed identity of the same node. Returns whether its credential has changed.
    pub(super) fn set_identity(&mut self, identity: Identity) -> bool {
        if !self.identity.is_of_network(&identity) {
            // What nodes have shown was of another authority.
            self.known.values_mut().for_each(|pair| pair.introduced = None);
            self.owners.clear();
        }
        self.identity = identity;
        let credential = credential_of(&self.identity);
        core::mem::replace(&mut self.credential, credential) != self.credential
    }
    /// What this node introduces itself with.
    pub(super) fn credential(&self) -> &[u8] {
        &self.credential
    }
    /// The key of the codes at the end of packets to and from a node.
    pub(super) fn code_key(&mut self, node: NodeId) -> Option<[u8; 32]> {
        self.clock += 1;
        let clock = self.clock;
        let pair = self.known.get_mut(&node)?;
        pair.used = clock;
        Some(pair.code_key)
    }
    /// The keys for the content of messages to and from a node.
    pub(super) fn secrecy(&self, node: NodeId) -> Option<&Secrecy> {
        self.known.get(&node).map(|pair| &pair.secrecy)
    }
    /// What a node has shown that it may do.
    pub(super) fn grant(&self, node: NodeId) -> Option<&Grant> {
        self.known.get(&node)?.introduced.as_ref().map(|(_, grant)| grant)
    }
    /// What the nodes that own names may do.
    pub(super) fn owners(&self) -> impl Iterator<Item = &Grant> {
        self.owners.iter().filter_map(|node| self.grant(*node))
    }
    /// Whether a node's credential is still valid.
    pub(super) fn check(&self, now: Time, node: NodeId) -> Result<(), &'static str> {
        let grant = self.grant(node).ok_or(reason::STRANGER)?;
        self.identity.check(grant, now).map_err(|_| reason::ENDED)
    }
    /// Takes a node's key from a source that can vouch for it; another node's key changes nothing.
    pub(super) fn learn(&mut self, node: NodeId, key: &PublicKey) {
        if !self.known.contains_key(&node)
            && node_of_key(key) == node
            && let Some(pair) = self.pair(key)
        {
            self.insert(node, pair);
        }
    }
    /// A node introduces itself. Returns the key that the packet's code must have; [`Pairs::admit`] follows if it has.
    pub(super) fn meet(
        &mut self,
        now: Time,
        face: FaceId,
        node: NodeId,
        credential: &[u8],
    ) -> Result<[u8; 32], &'static str> {
        let known = self.known.get(&node);
        let is_known = |pair: &&Pair| pair.introduced.as_ref().is_some_and(|(shown, _)| shown == credential);
        if let Some(pair) = known.filter(is_known) {
            return Ok(pair.code_key);
        }
        if self.budgets.len() >= BUDGETS_MAX && !self.budgets.contains_key(&face) {
            self.budgets.pop_first();
        }
        let budget = self.budgets.entry(face).or_default();
        if !budget.take(now, INTRODUCTIONS_BURST, INTRODUCTIONS_PER_SECOND) {
            return Err(reason::BUDGET);
        }
        let (key, _) = read_credential(credential)?;
        if node_of_key(&key) != node {
            return Err(reason::CREDENTIAL);
        }
        self.learn(node, &key);
        self.known.get(&node).map(|pair| pair.code_key).ok_or(reason::CREDENTIAL)
    }
    /// A node has introduced itself and proven that it holds the key.
    pub(super) fn admit(&mut self, now: Time, node: NodeId, credential: &[u8]) -> Result<(), &'static str> {
        let Some(pair) = self.known.get_mut(&node) else { return Err(reason::STRANGER) };
        if pair.introduced.as_ref().is_some_and(|(shown, _)| shown == credential) {
            return Ok(());
        }
        let (key, certificate) = read_credential(credential)?;
        let grant = self.identity.admit(&key, "", certificate.as_ref(), now);
        let grant = grant.map_err(|_| reason::REFUSED)?;
        match grant.prefixes.is_empty() {
            true => self.owners.remove(&node),
            false => self.owners.insert(node),
        };
        pair.introduced = Some((credential.into(), grant));
        Ok(())
    }

    fn pair(&mut self, key: &PublicKey) -> Option<Pair> {
        let secret = self.identity.pair_secret(key, CONTEXT)?;
        let code_key = blake3::derive_key("tributary 2026 psi control packet code", &secret);
        self.clock += 1;
        Some(Pair { secrecy: Secrecy::new(&secret), code_key, introduced: None, used: self.clock })
    }
    fn insert(&mut self, node: NodeId, pair: Pair) {
        if self.known.len() >= PAIRS_MAX
            && let Some(oldest) = self.known.iter().min_by_key(|(_, pair)| pair.worth()).map(|(node, _)| *node)
        {
            self.known.remove(&oldest);
            self.owners.remove(&oldest);
        }
        self.known.insert(node, pair);
    }
}

fn credential_of(identity: &Identity) -> Vec<u8> {
    identity.certificate().map_or_else(|| identity.key().0.into(), Certificate::encode)
}

/// The key in a credential, and the certificate if it is one: a bare key has 32 bytes and every certificate more.
fn read_credential(credential: &[u8]) -> Result<(PublicKey, Option<Certificate>), &'static str> {
    if let Ok(key) = credential.try_into() {
        return Ok((PublicKey(key), None));
    }
    let certificate = Certificate::decode(credential).map_err(|_| reason::CREDENTIAL)?;
    Ok((certificate.terms().key, Some(certificate)))
}

#[cfg(test)]
mod tests {
    use alloc::{sync::Arc, vec};

    use proptest::prelude::*;
    use tributary_content::SigningKey;
    use tributary_trust::{Access, Network, Revocations, Roles, Terms, UnixTime};

    use super::*;
    use crate::{
        control::{ControlChannel, ControlConfig, Delivery, Outcome, SendResult},
        network_tests::{self, Faults, route},
        wire::{ControlBody, ControlPacket, MAC_BYTES, Message, seal},
    };

    const FACE: FaceId = FaceId(1);

    fn key(number: u8) -> SigningKey {
        SigningKey::from_secret(&[number; 32])
    }
    fn node(number: u8) -> NodeId {
        node_of_key(&key(number).public())
    }
    fn authority() -> SigningKey {
        key(99)
    }
    fn certificate(number: u8) -> Certificate {
        let terms = Terms {
            serial: number.into(),
            key: key(number).public(),
            label: "node".into(),
            roles: Roles::ROUTER,
            prefixes: vec!["/lab".parse().unwrap()],
            not_before: UnixTime(1_000),
            not_after: UnixTime(2_000),
        };
        Certificate::issue(&authority(), terms).expect("within limits")
    }
    /// Virtual time starts at a wall clock of 1,500 s.
    fn identity(number: u8, certificate: Option<Certificate>, network: Network) -> Identity {
        let clock = |now: Time| UnixTime(1_500).after(now.since(Time::ZERO).as_millis() as u64 / 1_000);
        Identity::new(key(number), certificate, network, Arc::new(clock))
    }
    fn closed() -> Network {
        Network::new(authority().public(), Access::Closed)
    }
    fn channel_of(identity: &Identity, number: u8, boot: u32) -> ControlChannel {
        let mut channel = ControlChannel::new(ControlConfig::default(), node(number), boot);
        channel.set_identity(identity);
        channel
    }
    /// The end of a certified node.
    fn channel(number: u8) -> ControlChannel {
        channel_of(&identity(number, Some(certificate(number)), closed()), number, 1)
    }
    fn message(request: u32) -> Message {
        Message::Sync { request }
    }
    fn ms(millis: u64) -> Time {
        Time::from_millis(millis)
    }
    fn send(channel: &mut ControlChannel, now: Time, from: u8, to: u8, request: u32) {
        channel.send(now, node(to), route(node(to)), route(node(from)), &message(request));
    }
    fn packets(channel: &mut ControlChannel, now: Time) -> Vec<Vec<u8>> {
        core::iter::from_fn(|| channel.poll_packet(now)).map(|(_, packet)| packet).collect()
    }
    /// What becomes of each packet at its receiver.
    fn carry(now: Time, from: &mut ControlChannel, to: &mut ControlChannel) -> Vec<Result<(), &'static str>> {
        packets(from, now).iter().map(|packet| to.handle_packet(now, FACE, packet)).collect()
    }
    fn received(channel: &mut ControlChannel) -> Vec<(NodeId, Message)> {
        core::iter::from_fn(|| channel.poll_delivery()).map(|Delivery { from, message, .. }| (from, message)).collect()
    }

    #[test]
    fn two_nodes_speak_with_a_key_of_their_own_once_one_knows_the_other_s_key() {
        let (mut a, mut b) = (channel(1), channel(2));
        send(&mut a, ms(0), 1, 2, 7);
        assert_eq!(a.poll_outcome().map(|outcome: Outcome| outcome.result), Some(SendResult::NoKey));
        a.learn(node(2), &key(3).public());
        send(&mut a, ms(0), 1, 2, 7);
        assert_eq!(a.poll_outcome().map(|outcome| outcome.result), Some(SendResult::NoKey), "another node's key");
        a.learn(node(2), &key(2).public());
        send(&mut a, ms(0), 1, 2, 7);
        send(&mut a, ms(0), 1, 2, 8);
        assert_eq!(carry(ms(5), &mut a, &mut b), [Ok(()); 3], "it introduces itself, and says two things");
        assert_eq!(received(&mut b), [(node(1), message(7)), (node(1), message(8))]);
        assert!(b.grant(node(1)).is_some_and(|grant| grant.owns(&"/lab/x".parse().unwrap())));
        // The other one learnt the key with that, and introduces itself in turn.
        send(&mut b, ms(6), 2, 1, 9);
        assert_eq!(carry(ms(6), &mut b, &mut a), [Ok(()); 4], "two acknowledgements, and the same");
        assert_eq!(received(&mut a), [(node(2), message(9))]);
        send(&mut a, ms(10), 1, 2, 10);
        assert_eq!(carry(ms(10), &mut a, &mut b).len(), 2, "an acknowledgement and the message: it is known there");
    }

    #[test]
    fn a_certified_router_on_the_way_speaks_in_nobody_else_s_name_and_reads_nothing() {
        let (mut a, mut b, mut evil) = (channel(1), channel(2), channel(3));
        a.learn(node(2), &key(2).public());
        evil.learn(node(2), &key(2).public());
        evil.learn(node(1), &key(1).public());
        send(&mut a, ms(0), 1, 2, 7);
        let heard = packets(&mut a, ms(0));
        for packet in &heard {
            b.handle_packet(ms(1), FACE, packet).unwrap();
        }
        assert_eq!(received(&mut b).len(), 1);
        // The attacker seals forged messages with the keys that it has: those that it shares with each of the two, and
        // the one of networks without an authority.
        send(&mut evil, ms(2), 3, 2, 8);
        let own = packets(&mut evil, ms(2));
        assert_eq!(own.iter().map(|packet| b.handle_packet(ms(2), FACE, packet)).filter(Result::is_ok).count(), 2);
        let pairs = evil.pairs.as_mut().expect("it has an identity");
        let keys = [pairs.code_key(node(2)).unwrap(), pairs.code_key(node(1)).unwrap(), [0; 32]];
        for key in keys {
            for packet in own.iter().chain(&heard) {
                let mut body = packet[..packet.len() - MAC_BYTES].to_vec();
                body[..8].copy_from_slice(&node(1).0.to_be_bytes());
                // A forged message.
                body[20] ^= 0x5a;
                seal(&key, &mut body, 0);
                assert!(b.handle_packet(ms(3), FACE, &body).is_err());
            }
        }
        assert_eq!(received(&mut b), [(node(3), message(8))]);
        // Replayed packets are known already, and captured ones are unreadable.
        for packet in &heard {
            assert_eq!(b.handle_packet(ms(4), FACE, packet), Ok(()));
        }
        assert_eq!(received(&mut b), []);
        let ControlBody::Fragment { payload, .. } =
            ControlPacket::decode(&heard[1][..heard[1].len() - MAC_BYTES]).unwrap().body
        else {
            panic!("the second packet is the message");
        };
        let secrecy = |channel: &ControlChannel, of: u8| {
            let context = crate::wire::MessageKey { from: node(1), boot: 1, message: 0 }.context(node(2));
            channel.pairs.as_ref().unwrap().secrecy(node(of)).unwrap().reveal(&context, payload).is_ok()
        };
        assert!(secrecy(&b, 1) && !secrecy(&evil, 1) && !secrecy(&evil, 2));
    }

    #[test]
    fn a_node_is_heard_only_while_its_certificate_holds() {
        let mut b = channel(2);
        let speaker = |number: u8, certificate: Option<Certificate>, network: Network| {
            let mut channel = channel_of(&identity(number, certificate, network), number, 1);
            channel.learn(node(2), &key(2).public());
            channel
        };
        // Without a certificate, with another node's, and with one of another authority.
        let stranger = Certificate::issue(&key(98), certificate(1).terms().clone()).expect("within limits");
        for (shown, reason) in
            [(None, reason::REFUSED), (Some(certificate(3)), reason::CREDENTIAL), (Some(stranger), reason::REFUSED)]
        {
            let mut a = speaker(1, shown, closed());
            send(&mut a, ms(0), 1, 2, 7);
            assert_eq!(carry(ms(0), &mut a, &mut b), [Err(reason), Err(reason::STRANGER)]);
        }
        let mut a = speaker(1, Some(certificate(1)), closed());
        send(&mut a, ms(0), 1, 2, 7);
        assert_eq!(carry(ms(0), &mut a, &mut b), [Ok(()); 2]);
        // It is revoked.
        let mut network = closed();
        let revoked = Revocations::issue(&authority(), 1, [].into(), [key(1).public()].into());
        network.revoke(revoked.expect("within limits")).expect("signed by the authority");
        b.set_identity(&identity(2, Some(certificate(2)), network));
        carry(ms(1), &mut b, &mut a);
        send(&mut a, ms(1), 1, 2, 8);
        assert_eq!(carry(ms(1), &mut a, &mut b), [Err(reason::ENDED)]);
        b.set_identity(&identity(2, Some(certificate(2)), closed()));
        // It ends.
        send(&mut a, ms(500_000), 1, 2, 9);
        assert!(carry(ms(500_000), &mut a, &mut b).contains(&Err(reason::ENDED)));
        assert_eq!(received(&mut b).len(), 1);
        // In an open network a key is enough, and grants nothing.
        let open = || Network::new(authority().public(), Access::Open);
        let mut b = channel_of(&identity(2, Some(certificate(2)), open()), 2, 1);
        let mut a = speaker(1, None, open());
        send(&mut a, ms(0), 1, 2, 7);
        assert_eq!(carry(ms(0), &mut a, &mut b), [Ok(()); 2]);
        assert_eq!(b.grant(node(1)), Some(&Grant::host(key(1).public(), "")));
    }

    #[test]
    fn who_was_forgotten_introduces_itself_with_the_repetition() {
        let (mut a, mut b) = (channel(1), channel(2));
        a.learn(node(2), &key(2).public());
        send(&mut a, ms(0), 1, 2, 7);
        carry(ms(0), &mut a, &mut b);
        carry(ms(1), &mut b, &mut a);
        // The other one restarts.
        let mut b = channel_of(&identity(2, Some(certificate(2)), closed()), 2, 2);
        send(&mut a, ms(10), 1, 2, 8);
        assert_eq!(carry(ms(10), &mut a, &mut b), [Err(reason::STRANGER)]);
        let due = a.poll_timeout().expect("the message is repeated");
        assert!(due <= ms(100));
        a.handle_timeout(due);
        assert_eq!(carry(due, &mut a, &mut b), [Ok(()); 2]);
        // If routes announce the restart, it does not even wait.
        carry(due, &mut b, &mut a);
        let mut b = channel_of(&identity(2, Some(certificate(2)), closed()), 2, 3);
        a.introduce(node(2));
        send(&mut a, due, 1, 2, 9);
        assert_eq!(carry(due, &mut a, &mut b), [Ok(()); 2]);
    }

    #[test]
    fn introductions_are_limited_face_by_face_and_known_ones_cost_nothing() {
        let mut b = channel_of(&identity(2, None, Network::new(authority().public(), Access::Open)), 2, 1);
        let introduction = |credential: &[u8]| {
            let body = ControlBody::Introduction { credential };
            let mut packet = Vec::new();
            ControlPacket { from: node(1), to: node(2), boot: 1, message: 0, body }.encode(&mut packet);
            seal(&[0; 32], &mut packet, 0);
            packet
        };
        let forged = introduction(&key(3).public().0);
        for _ in 0..INTRODUCTIONS_BURST {
            assert_eq!(b.handle_packet(ms(0), FACE, &forged), Err(reason::CREDENTIAL));
        }
        assert_eq!(b.handle_packet(ms(0), FACE, &forged), Err(reason::BUDGET));
        let mut a = channel_of(&identity(1, None, Network::new(authority().public(), Access::Open)), 1, 1);
        a.learn(node(2), &key(2).public());
        send(&mut a, ms(0), 1, 2, 7);
        let honest = packets(&mut a, ms(0));
        assert_eq!(b.handle_packet(ms(0), FACE, &honest[0]), Err(reason::BUDGET));
        assert_eq!(b.handle_packet(ms(0), FaceId(2), &honest[0]), Ok(()), "another face has a share of its own");
        assert_eq!(b.handle_packet(ms(0), FACE, &honest[0]), Ok(()), "and it is known now");
        assert_eq!(b.handle_packet(ms(1_000), FACE, &forged), Err(reason::CREDENTIAL), "they grow again");
    }

    #[test]
    fn a_flood_of_keys_forgets_nobody_who_has_introduced_itself() {
        let mut pairs = Pairs::new(identity(2, Some(certificate(2)), closed()));
        let shown = certificate(1).encode();
        pairs.meet(ms(0), FACE, node(1), &shown).unwrap();
        pairs.admit(ms(0), node(1), &shown).unwrap();
        for number in 0..PAIRS_MAX as u64 + 10 {
            let secrecy = Secrecy::new(&[0; 32]);
            let pair = Pair { secrecy, code_key: [0; 32], introduced: None, used: number + 100 };
            pairs.insert(NodeId(number), pair);
        }
        assert!(pairs.known.len() == PAIRS_MAX && pairs.grant(node(1)).is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn sealed_messages_arrive_exactly_once_or_are_reported_lost(seed: u64, loss in 0.0..0.2f64, messages in 1u32..40) {
            let mut network = network_tests::Network::new(seed, Faults::lossy(loss));
            let mut a = channel(1);
            a.learn(node(2), &key(2).public());
            network.channels.insert(node(1), a);
            network.channels.insert(node(2), channel(2));
            for request in 0..messages {
                let now = network.now;
                send(network.channels.get_mut(&node(1)).unwrap(), now, 1, 2, request);
            }
            let (mut got, mut delivered) = (Vec::new(), 0);
            loop {
                network.drain();
                got.extend(received(network.channels.get_mut(&node(2)).unwrap()));
                while let Some(outcome) = network.channels.get_mut(&node(1)).unwrap().poll_outcome() {
                    prop_assert!(matches!(outcome.result, SendResult::Delivered | SendResult::TimedOut));
                    delivered += usize::from(outcome.result == SendResult::Delivered);
                }
                let Some(next) = network.next() else { break };
                network.step(next);
            }
            let mut once = got.clone();
            once.sort_by_key(|(_, message)| match message { Message::Sync { request } => *request, _ => 0 });
            once.dedup();
            prop_assert!(once.len() == got.len() && delivered <= got.len() && got.len() <= messages as usize);
            prop_assert!(loss > 0.15 || delivered == messages as usize, "{} of {}", delivered, messages);
        }

        #[test]
        fn any_introduction_is_survived(credential in proptest::collection::vec(any::<u8>(), 0..300), is_cut: bool, at in 0usize..300) {
            let mut b = channel(2);
            let mut shown = certificate(1).encode();
            if is_cut {
                shown.truncate(at);
            } else if let Some(byte) = shown.get_mut(at) {
                *byte ^= 1;
            }
            for credential in [&credential, &shown] {
                let body = ControlBody::Introduction { credential };
                let mut packet = Vec::new();
                ControlPacket { from: node(1), to: node(2), boot: 1, message: 0, body }.encode(&mut packet);
                seal(&[0; 32], &mut packet, 0);
                prop_assert!(b.handle_packet(ms(0), FACE, &packet).is_err());
            }
            prop_assert!(b.grant(node(1)).is_none());
        }
    }
}

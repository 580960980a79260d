//! A node whose faces prove who is there.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tributary_content::{Name, ObjectReader, PublicKey, Signature, SigningKey};
use tributary_core::{
    Datagram, DatagramBatch, FaceChange, FaceId, FaceProtection, FaceRefusal, FaceRequest, Node, PeerKey, Rate, Time,
    TimerId, TransferId, Transmit, TransmitBuf,
    event::{Event, TransferReport},
    printable::escape,
};
use tributary_secure::{Admission, Config, Entropy, OVERHEAD, Peer, Protection, Secured, public_key};
use tributary_transport::{Echoes, Endpoint, FaceOptions, FaceSecurity, Fetch, Messaging, NodeStatus, Obstacle};

use crate::{
    config::{NodeConfig, Security},
    families::BoxedNode,
};

/// `node` with its faces protected as `config` says; `key` is what its neighbours know it by, and the keys of handshakes come
/// from `entropy`.
pub(crate) fn protect(node: BoxedNode, config: &NodeConfig, key: &SigningKey, entropy: Entropy) -> BoxedNode {
    let protection = match config.security {
        Security::None => return node,
        Security::Authenticated => Protection::Authenticated,
        Security::Encrypted | Security::Preferred => Protection::Encrypted,
    };
    let secret = blake3::derive_key(STATIC_KEY, &key.sign(STATIC_KEY, &[]).0);
    let presented = Presented { owner: key.public(), label: config.label.clone() }.encode(key, &public_key(&secret));
    // Programs of others come without a session; one of ours begins one.
    let policy =
        if config.family().profile().is_standard { FaceProtection::Optional } else { FaceProtection::Required };
    let config = Config { secret, presented, protection, policy };
    let pinned = Pinned::default();
    let secured = Secured::new(node, config, Box::new(Neighbours(Arc::clone(&pinned))), entropy);
    Box::new(SecureNode { secured, pinned, told: BTreeMap::new() })
}

/// The system's.
pub(super) fn entropy() -> Entropy {
    Box::new(|bytes: &mut [u8]| getrandom::fill(bytes).expect("the system gives entropy"))
}

/// The keys that neighbours must have, by their faces.
type Pinned = Arc<Mutex<BTreeMap<FaceId, PublicKey>>>;

fn locked(pinned: &Pinned) -> MutexGuard<'_, BTreeMap<FaceId, PublicKey>> {
    pinned.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a static key is signed for, and derived by.
const STATIC_KEY: &str = "tributary 1 static key of a node";

/// What a node presents to its neighbours: its key, a signature by it over the static key of the handshake, its label.
struct Presented {
    owner: PublicKey,
    label: String,
}

impl Presented {
    fn encode(&self, key: &SigningKey, static_key: &[u8; 32]) -> Vec<u8> {
        let signature = key.sign(STATIC_KEY, static_key);
        [&self.owner.0[..], &signature.0, self.label.as_bytes()].concat()
    }
    /// What is in `bytes`, if their key has signed `static_key`.
    fn decode(bytes: &[u8], static_key: &[u8; 32]) -> Option<Presented> {
        let (owner, rest) = bytes.split_first_chunk::<32>()?;
        let (signature, label) = rest.split_first_chunk::<{ Signature::BYTES }>()?;
        let owner = PublicKey(*owner);
        let label = std::str::from_utf8(label).ok().filter(|label| label.len() <= LABEL_BYTES_MAX)?;
        let is_signed = owner.verify(STATIC_KEY, static_key, &Signature(*signature));
        is_signed.then(|| Presented { owner, label: escape(label).into() })
    }
}

/// As long as a label in a config may be.
const LABEL_BYTES_MAX: usize = 32;

/// Who may be a neighbour: whoever proves a key, and on some faces one key only.
struct Neighbours(Pinned);

impl Admission for Neighbours {
    fn admit(&mut self, face: FaceId, key: &[u8; 32], presented: &[u8]) -> Result<Peer, String> {
        let presented =
            Presented::decode(presented, key).ok_or("what it presents does not prove that its key is its own")?;
        match locked(&self.0).get(&face) {
            Some(pinned) if *pinned != presented.owner => {
                Err(format!("its key is {}, and `peer_key` says {pinned}", presented.owner))
            }
            _ => Ok(Peer { key: PeerKey(presented.owner.0), label: presented.label }),
        }
    }
}

/// A node of any family behind the layer.
struct SecureNode {
    secured: Secured<BoxedNode>,
    pinned: Pinned,
    /// The keys of neighbours as the node was told them.
    told: BTreeMap<FaceId, PublicKey>,
}

impl SecureNode {
    /// Tells the node who is at a face before it gets a packet of it.
    fn tell_key(&mut self, face: FaceId) {
        let key = self.secured.peer(face).map(|peer| PublicKey(peer.key.0));
        if self.told.get(&face) != key.as_ref() {
            match key {
                Some(key) => drop(self.told.insert(face, key)),
                None => drop(self.told.remove(&face)),
            }
            self.secured.node_mut().set_face_key(face, key);
        }
    }
}

impl Node for SecureNode {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        self.tell_key(face);
        self.secured.handle_datagram(now, face, datagram);
    }
    fn handle_batch(&mut self, now: Time, face: FaceId, run: DatagramBatch) {
        self.tell_key(face);
        self.secured.handle_batch(now, face, run);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.secured.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        self.secured.poll_transmit(now, out)
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        self.secured.poll_timeout()
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.secured.poll_event()
    }
    fn handle_face(&mut self, now: Time, face: FaceId, change: FaceChange) {
        // Streams are not protected: those of NDN lead to programs of others.
        if let FaceChange::Opened { .. } = change {
            self.secured.set_policy(face, FaceProtection::Off);
        }
        self.secured.handle_face(now, face, change);
    }
    fn handle_storage(&mut self, now: Time) {
        self.secured.handle_storage(now);
    }
    fn poll_face_request(&mut self) -> Option<FaceRequest> {
        self.secured.poll_face_request()
    }
    fn handle_face_answer(&mut self, now: Time, request: u64, answer: Result<FaceId, FaceRefusal>) {
        self.secured.handle_face_answer(now, request, answer);
    }
}

impl Endpoint for SecureNode {
    fn add_face(&mut self, now: Time, face: FaceId, options: FaceOptions) {
        let overhead = if self.secured.policy(face) == FaceProtection::Off { 0 } else { OVERHEAD };
        let options = FaceOptions { mtu: options.mtu.saturating_sub(overhead), ..options };
        self.secured.node_mut().add_face(now, face, options);
    }
    fn set_security(&mut self, face: FaceId, security: FaceSecurity) {
        self.secured.set_policy(face, security.protection);
        match security.peer_key {
            Some(key) => drop(locked(&self.pinned).insert(face, key)),
            None => drop(locked(&self.pinned).remove(&face)),
        }
    }
    fn remove_face(&mut self, now: Time, face: FaceId) {
        locked(&self.pinned).remove(&face);
        self.secured.forget(face);
        self.secured.node_mut().remove_face(now, face);
    }
    fn publish(&mut self, now: Time, object: Box<dyn ObjectReader>) {
        self.secured.node_mut().publish(now, object);
    }
    fn unpublish(&mut self, now: Time, name: &Name) {
        self.secured.node_mut().unpublish(now, name);
    }
    fn fetch(&mut self, now: Time, fetch: Fetch) -> TransferId {
        self.secured.node_mut().fetch(now, fetch)
    }
    fn fetch_certified(&mut self, now: Time, fetch: Fetch, certificate: &[u8]) -> Option<TransferId> {
        self.secured.node_mut().fetch_certified(now, fetch, certificate)
    }
    fn cancel(&mut self, now: Time, transfer: TransferId) {
        self.secured.node_mut().cancel(now, transfer);
    }
    fn watch(&mut self, now: Time, scope: &Name) {
        self.secured.node_mut().watch(now, scope);
    }
    fn unwatch(&mut self, now: Time, scope: &Name) {
        self.secured.node_mut().unwatch(now, scope);
    }
    fn leave(&mut self, now: Time) {
        self.secured.node_mut().leave(now);
    }
    fn limit(&mut self, now: Time, transfer: Option<TransferId>, rate: Option<Rate>) {
        self.secured.node_mut().limit(now, transfer, rate);
    }
    fn report(&self, now: Time, transfer: TransferId) -> Option<TransferReport> {
        self.secured.node().report(now, transfer)
    }
    fn transfers(&self) -> Vec<(TransferId, Name)> {
        self.secured.node().transfers()
    }
    fn status(&self, now: Time) -> NodeStatus {
        let mut status = self.secured.node().status(now);
        for face in &mut status.faces {
            face.peer_key = self.secured.peer(face.face).map(|peer| PublicKey(peer.key.0));
            face.problem = self.secured.trouble(face.face);
        }
        let stats = self.secured.stats();
        let counters = [
            ("protection: packets without it", stats.unprotected),
            ("protection: forged packets", stats.forged),
            ("protection: repeated packets", stats.replayed),
            ("protection: packets of unknown sessions", stats.strays),
            ("protection: neighbours refused", stats.refused),
        ];
        status.counters.extend(counters.into_iter().filter(|(_, count)| *count > 0));
        status
    }
    fn obstacle(&self, now: Time, name: &Name) -> Option<Obstacle> {
        self.secured.node().obstacle(now, name)
    }
    fn echoes(&mut self) -> Option<&mut dyn Echoes> {
        self.secured.node_mut().echoes()
    }
    fn messaging(&mut self) -> Option<&mut dyn Messaging> {
        self.secured.node_mut().messaging()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_static_key_belongs_to_whose_key_has_signed_it() {
        let key = SigningKey::from_secret(&[1; 32]);
        let presented = Presented { owner: key.public(), label: "attic".into() }.encode(&key, &[7; 32]);
        let mut neighbours = Neighbours(Arc::new(Mutex::new(BTreeMap::from([(FaceId(2), key.public())]))));
        let expected = Peer { key: PeerKey(key.public().0), label: "attic".into() };
        assert_eq!(neighbours.admit(FaceId(1), &[7; 32], &presented), Ok(expected.clone()));
        assert_eq!(neighbours.admit(FaceId(2), &[7; 32], &presented), Ok(expected));
        assert!(neighbours.admit(FaceId(1), &[8; 32], &presented).is_err(), "another static key");
        for length in 0..96 {
            assert!(neighbours.admit(FaceId(1), &[7; 32], &presented[..length]).is_err());
        }
        let other = SigningKey::from_secret(&[2; 32]);
        let presented = Presented { owner: other.public(), label: "attic".into() }.encode(&other, &[7; 32]);
        let refused = neighbours.admit(FaceId(2), &[7; 32], &presented).expect_err("another node");
        assert!(refused.contains(&key.public().to_string()) && refused.contains("peer_key"), "{refused}");
    }
}

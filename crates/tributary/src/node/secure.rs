//! A node whose faces authenticate neighbours and check that the network admits them.
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::Arc,
};
use tributary_content::{Name, ObjectReader, PublicKey, SigningKey};
use tributary_core::{
    Datagram, DatagramBatch, Duration, FaceAddresses, FaceChange, FaceId, FaceProtection, FaceRefusal, FaceRequest,
    Node, PeerKey, Rate, Stranger, Time, TimerId, TransferId, Transmit, TransmitBuf,
    event::{Event, TransferReport},
    printable::escape,
};
use tributary_secure::{
    Admission, Config, Entropy, NOTICE_BYTES_MAX, OVERHEAD, PRESENTED_BYTES_MAX, Peer, Protection, Refusal, Secured,
};
use tributary_transport::{
    Echoes, Endpoint, FaceOptions, FaceSecurity, Fetch, Forwarding, Messaging, NetworkStatus, NodeStatus, Obstacle,
    bulk::{BulkInput, BulkStep},
    policy::{FacePolicy, PathDemands},
};
use tributary_trust::{Certificate, Grant, Identity, Revocations, SPREAD_BYTES_MAX, Spread};

use super::peer_keys::PeerKeys;
use crate::{
    config::{NodeConfig, Security},
    families::BoxedNode,
};

/// `node` with its faces protected according to `config`. Its neighbours identify it by `key`; `identity` is its
/// membership in a network with an authority, and newer lists of revocations from neighbours are passed to `keep`.
/// `keys` are the remembered keys of configured neighbours. The keys of handshakes are drawn from `entropy`.
pub(crate) fn protect(
    node: BoxedNode,
    config: &NodeConfig,
    key: &SigningKey,
    identity: Option<&Identity>,
    keep: Keep,
    keys: PeerKeys,
    entropy: Entropy,
) -> BoxedNode {
    let protection = match config.security {
        Security::None => return node,
        Security::Authenticated => Protection::Authenticated,
        Security::Encrypted | Security::Preferred => Protection::Encrypted,
    };
    let own = Presented { owner: key.public(), label: config.label.clone(), certificate: None };
    // Foreign programs come without a session; our nodes start one. In a network with an authority they are admitted on
    // faces whose `security` allows it.
    let is_open = config.family().profile().is_standard && config.security == Security::Preferred;
    let policy = if is_open { FaceProtection::Optional } else { FaceProtection::Required };
    let config = Config { secret: key.agreement_secret(), presented: own.encode(), protection, policy };
    let neighbours = Neighbours::default();
    neighbours.0.lock().keys = keys;
    let of_hook = neighbours.clone();
    let secured = Secured::new(node, config, Box::new(neighbours.clone()), entropy).on_peer(Box::new(
        move |node: &mut BoxedNode, now, face, peer| {
            let grant = of_hook.0.lock().introduce(now, face, peer.is_some());
            node.set_face_key(face, peer.map(|peer| PublicKey(peer.key.0)));
            node.handle_grant(now, face, grant.as_ref());
        },
    ));
    let mut node =
        SecureNode { secured, neighbours, own, keep, notes: VecDeque::new(), warned: None, clock_is_behind: false };
    if let Some(identity) = identity {
        node.set_identity(Time::ZERO, identity);
    }
    Box::new(node)
}

/// Keeps a list of revocations for the next start; returns the error.
pub(crate) type Keep = Box<dyn FnMut(&Revocations) -> Result<(), String> + Send>;

/// The system's.
pub(super) fn entropy() -> Entropy {
    Box::new(|bytes: &mut [u8]| getrandom::fill(bytes).expect("the system gives entropy"))
}

/// What a node presents to its neighbours: its key and label, or a certificate with both. The handshake proves that it has
/// the secret of the key.
struct Presented {
    owner: PublicKey,
    label: String,
    certificate: Option<Certificate>,
}

/// First byte of the presented credential.
const BARE: u8 = 0;
const CERTIFIED: u8 = 1;
const _: () = assert!(Certificate::BYTES_MAX < PRESENTED_BYTES_MAX && SPREAD_BYTES_MAX <= NOTICE_BYTES_MAX);

impl Presented {
    fn encode(&self) -> Vec<u8> {
        match &self.certificate {
            Some(certificate) => [&[CERTIFIED][..], &certificate.encode()].concat(),
            None => [&[BARE][..], &self.owner.0, self.label.as_bytes()].concat(),
        }
    }
    /// The content of `bytes`, if it belongs to the static key of the handshake.
    fn decode(bytes: &[u8], static_key: &[u8; 32]) -> Option<Presented> {
        let (kind, rest) = bytes.split_first()?;
        let presented = match *kind {
            BARE => {
                let (owner, label) = rest.split_first_chunk::<32>()?;
                let label =
                    std::str::from_utf8(label).ok().filter(|label| label.len() <= Certificate::LABEL_BYTES_MAX)?;
                Presented { owner: PublicKey(*owner), label: escape(label).into(), certificate: None }
            }
            CERTIFIED => {
                let certificate = Certificate::decode(rest).ok()?;
                let (owner, label) = (certificate.terms().key, certificate.terms().label.clone());
                Presented { owner, label, certificate: Some(certificate) }
            }
            _ => return None,
        };
        (presented.owner.agreement_key()? == *static_key).then_some(presented)
    }
}

/// Admits neighbours that prove a key which the network admits; some faces admit one key only.
#[derive(Clone, Default)]
struct Neighbours(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    /// The keys that neighbours must have.
    pinned: BTreeMap<FaceId, Pin>,
    keys: PeerKeys,
    identity: Option<Identity>,
    /// What the neighbour of a face is granted; where the handshake is not complete, it is not in force yet.
    grants: BTreeMap<FaceId, Grant>,
    pending: BTreeMap<FaceId, Grant>,
    /// The next check of certificates, in a network with an authority.
    review: Option<Time>,
    /// Forwards lists of revocations there.
    spread: Option<Spread>,
}

/// Knowledge of a face's configured neighbour.
#[derive(Default)]
struct Pin {
    key: Option<PublicKey>,
    /// Whether the config names the key; otherwise it is the key that answered first.
    is_named: bool,
    /// Whether the key should be remembered once it has answered.
    is_new: bool,
    endpoints: Vec<String>,
}

impl Pin {
    /// Checks the key that a neighbour has proven; `is_certified` if the network's authority vouches for it, which outranks
    /// a remembered key.
    fn check(&mut self, keys: &PeerKeys, key: PublicKey, is_certified: bool) -> Result<(), Refusal> {
        let Some(pinned) = self.key.filter(|pinned| *pinned != key) else { return Ok(()) };
        if self.is_named {
            return Err(format!("its key is {key}, and `peer_key` or the invitation says {pinned}").into());
        }
        // The user may have accepted the new one in the meantime.
        if is_certified || keys.known(&self.endpoints).ok().flatten() == Some(key) {
            (self.key, self.is_new) = (Some(key), is_certified);
            return Ok(());
        }
        let reason = format!("its key is {key}, and {} had {pinned} before", self.endpoints.join(","));
        Err(Refusal { reason, remedy: keys.remedy(&self.endpoints, &key) })
    }
}

impl Known {
    /// The neighbour that was admitted last is now at the far end of the face, or has gone.
    fn introduce(&mut self, now: Time, face: FaceId, is_there: bool) -> Option<Grant> {
        let pending = self.pending.remove(&face).filter(|_| is_there);
        if let (Some(pin), Some(grant)) = (self.pinned.get_mut(&face), &pending)
            && std::mem::take(&mut pin.is_new)
        {
            pin.key = Some(grant.key);
            self.keys.remember(&pin.endpoints, &grant.key, pin.is_named || grant.is_certified());
        }
        if let (Some(identity), Some(until)) = (&self.identity, pending.as_ref().and_then(|grant| grant.until)) {
            let end = now + Duration::from_secs(until.since(identity.time_of_day(now)).min(REVIEW_INTERVAL.as_secs()));
            self.review = self.review.map(|review| review.min(end));
        }
        match is_there {
            true => self.grants.extend(pending.map(|grant| (face, grant))),
            false => drop(self.grants.remove(&face)),
        }
        if let Some(spread) = &mut self.spread {
            match is_there {
                true => {
                    spread.greet(now, face);
                    // Pending messages are sent after this packet.
                    self.review = Some(now);
                }
                false => spread.part(face),
            }
        }
        self.grants.get(&face).cloned()
    }
}

impl Admission for Neighbours {
    fn admit(&mut self, now: Time, face: FaceId, key: &[u8; 32], presented: &[u8]) -> Result<Peer, Refusal> {
        let mut known = self.0.lock();
        let known = &mut *known;
        let presented =
            Presented::decode(presented, key).ok_or("what it presents does not prove that its key is its own")?;
        let Presented { owner, label, certificate } = presented;
        let grant = match &known.identity {
            Some(identity) => {
                let admitted = identity.admit(&owner, &label, certificate.as_ref(), now);
                admitted.map_err(|refusal| refusal.to_string())?
            }
            None => Grant::host(owner, &label),
        };
        if let Some(pin) = known.pinned.get_mut(&face) {
            pin.check(&known.keys, owner, grant.is_certified())?;
        }
        let label = grant.label.clone();
        known.pending.insert(face, grant);
        Ok(Peer { key: PeerKey(owner.0), label })
    }
}

/// A node of any family behind the layer.
struct SecureNode {
    secured: Secured<BoxedNode>,
    neighbours: Neighbours,
    own: Presented,
    keep: Keep,
    notes: VecDeque<String>,
    /// When an expiry was last written to the log, and whether this node's own certificate had ended then.
    warned: Option<(Time, bool)>,
    /// Whether the log reports that the machine's clock is behind.
    clock_is_behind: bool,
}

/// Certificates are checked when the next one ends, and at this interval: the machine's clock may be set.
const REVIEW_INTERVAL: Duration = Duration::from_secs(60);
/// How long before its end a certificate is mentioned in the log, in seconds, and how often.
const EXPIRY_NOTICE: u64 = 7 * 86_400;
const EXPIRY_NOTICE_INTERVAL: Duration = Duration::from_secs(86_400);
/// Why the node wakes for certificates; its own timers have numbers far below, and the layer has the highest.
const REVIEW: TimerId = TimerId(u16::MAX - 1);

impl SecureNode {
    /// Exchanges lists of revocations with neighbours.
    fn spread(&mut self, now: Time) {
        let neighbours = self.neighbours.clone();
        let mut known = neighbours.0.lock();
        let mut fresh = Vec::new();
        // Also without an authority, where they count for nothing: otherwise they would wait here forever.
        while let Some((face, notice)) = self.secured.poll_notice() {
            known.spread.iter_mut().for_each(|spread| spread.handle_message(now, face, &notice));
        }
        if let Some(spread) = &mut known.spread {
            spread.handle_timeout(now);
            fresh.extend(core::iter::from_fn(|| spread.poll_list()));
        }
        let identity = known.identity.clone();
        drop(known);
        for list in fresh {
            let Some(identity) = identity.clone() else { continue };
            self.notes.push_back(match (self.keep)(&list) {
                Ok(()) => format!("a neighbour has list {} of revocations: it is in force", list.number()),
                Err(error) => {
                    format!(
                        "a neighbour has list {} of revocations: it is in force until the next start; {error}",
                        list.number()
                    )
                }
            });
            self.set_identity(now, &identity.with_revocations(list));
        }
        let mut known = neighbours.0.lock();
        while let Some((face, message)) = known.spread.as_mut().and_then(Spread::poll_message) {
            self.secured.send_notice(face, &message);
        }
        let next = known.spread.as_ref().and_then(Spread::poll_timeout);
        known.review = known.review.into_iter().chain(next).min();
    }
    /// Writes a line when the authority's certificates start to correct the machine's clock, and one when they stop.
    fn note_clock(&mut self, identity: &Identity, now: Time) {
        let correction = identity.correction(now);
        if std::mem::replace(&mut self.clock_is_behind, correction.is_some()) != correction.is_some() {
            self.notes.push_back(match correction {
                Some((shown, proven)) => format!(
                    "the clock of this machine shows {shown}, and the authority has signed certificates later: {proven} \
                     counts until the clock is set"
                ),
                None => "the clock of this machine was set, and counts again".into(),
            });
        }
    }
    /// Ends the sessions of neighbours whose certificate has ended or is revoked, and warns of those that end soon.
    fn review_grants(&mut self, now: Time) {
        let known = self.neighbours.0.lock();
        let Some(identity) = known.identity.clone() else { return };
        let grants: Vec<(FaceId, Grant)> = known.grants.iter().map(|(face, grant)| (*face, grant.clone())).collect();
        drop(known);
        self.note_clock(&identity, now);
        let time = identity.time_of_day(now);
        let mut next = REVIEW_INTERVAL;
        let mut ending = Vec::new();
        let own = identity.own_grant(&self.own.label, now);
        let has_ended = own.is_err();
        if let Err(refusal) = &own {
            ending.push(format!("other nodes do not admit this one: {refusal}"));
        }
        let own = own.ok().map(|grant| ("of this node".to_string(), grant));
        for (face, grant) in &grants {
            if let Err(refusal) = identity.check(grant, now) {
                self.secured.dismiss(now, *face, &refusal.to_string());
            }
        }
        let theirs = grants.into_iter().map(|(face, grant)| (format!("of '{}' on {face}", grant.label), grant));
        for (whose, until) in own.into_iter().chain(theirs).filter_map(|(whose, grant)| Some((whose, grant.until?))) {
            let left = until.since(time);
            if left > 0 {
                next = next.min(Duration::from_secs(left));
            }
            if (1..=EXPIRY_NOTICE).contains(&left) {
                ending.push(format!(
                    "the certificate {whose} ends at {until}; its authority renews it with `trib network admit`"
                ));
            }
        }
        self.neighbours.0.lock().review = Some(now + next);
        let is_news = |(at, ended)| ended != has_ended || now.since(at) >= EXPIRY_NOTICE_INTERVAL;
        if !ending.is_empty() && self.warned.is_none_or(is_news) {
            self.warned = Some((now, has_ended));
            self.notes.extend(ending);
        }
    }
}

impl Node for SecureNode {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        self.secured.handle_datagram(now, face, datagram);
        if self.secured.has_notices() {
            self.spread(now);
        }
    }
    fn handle_batch(&mut self, now: Time, face: FaceId, run: DatagramBatch) {
        self.secured.handle_batch(now, face, run);
        if self.secured.has_notices() {
            self.spread(now);
        }
    }
    fn handle_timeout(&mut self, now: Time) {
        let review = self.neighbours.0.lock().review;
        if review.is_some_and(|due| due <= now) {
            self.review_grants(now);
            self.spread(now);
        }
        self.secured.handle_timeout(now);
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        let review = self.neighbours.0.lock().review.map(|due| (due, REVIEW));
        self.secured.poll_timeout().into_iter().chain(review).min_by_key(|(due, _)| *due)
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.notes.pop_front().map(Event::Note).or_else(|| self.secured.poll_event())
    }
    fn handle_face(&mut self, now: Time, face: FaceId, change: FaceChange) {
        // Streams are not protected: NDN's lead to foreign programs.
        if let FaceChange::Opened { .. } = change {
            self.secured.set_policy(face, FaceProtection::Off);
        }
        self.secured.handle_face(now, face, change);
    }
    tributary_core::forwarded! {
        this => this.secured;
        fn handle_stranger(&mut Self, now: Time, from: SocketAddr, datagram: &[u8]) -> Stranger;
        fn poll_transmit(&mut Self, now: Time, out: &mut TransmitBuf) -> Option<Transmit>;
        fn handle_storage(&mut Self, now: Time);
        fn poll_face_request(&mut Self) -> Option<FaceRequest>;
        fn handle_face_answer(
            &mut Self, now: Time, request: u64, answer: Result<(FaceId, FaceAddresses), FaceRefusal>
        );
        fn handle_channels(&mut Self, channels: Vec<String>);
    }
}

impl Endpoint for SecureNode {
    fn add_face(&mut self, now: Time, face: FaceId, options: FaceOptions) {
        let overhead = if self.secured.policy(face) == FaceProtection::Off { 0 } else { OVERHEAD };
        let options = FaceOptions { mtu: options.mtu.saturating_sub(overhead), ..options };
        self.secured.node_mut().add_face(now, face, options);
    }
    fn set_security(&mut self, face: FaceId, security: FaceSecurity) {
        let FaceSecurity { mut protection, peer_key, endpoints } = security;
        let mut known = self.neighbours.0.lock();
        // The file was readable at the start. If it no longer is, no neighbour is accepted: no secret belongs to this
        // key.
        let remembered = known.keys.known(&endpoints).unwrap_or(Some(PublicKey([0; 32])));
        let key = peer_key.or(remembered);
        if key.is_some() && protection == FaceProtection::Preferred {
            // An attacker who drops handshakes must not get the packets in the clear.
            protection = FaceProtection::Required;
        }
        if protection == FaceProtection::Off || key.is_none() && endpoints.is_empty() {
            known.pinned.remove(&face);
        } else {
            let is_new = key.is_none() || key != remembered;
            known.pinned.insert(face, Pin { key, is_named: peer_key.is_some(), is_new, endpoints });
        }
        drop(known);
        self.secured.set_policy(face, protection);
    }
    fn set_identity(&mut self, now: Time, identity: &Identity) {
        let mut known = self.neighbours.0.lock();
        // A file may be older than the neighbours' lists.
        let before = known.identity.as_ref().filter(|before| before.is_of_network(identity));
        let identity = match before.and_then(|before| before.network().revocations().cloned()) {
            Some(list) => identity.clone().with_revocations(list),
            None => identity.clone(),
        };
        known.identity = Some(identity.clone());
        let authority = *identity.network().authority();
        if known.spread.as_ref().is_none_or(|spread| *spread.authority() != authority) {
            let mut spread = Spread::new(authority);
            known.grants.keys().for_each(|face| spread.greet(now, *face));
            known.spread = Some(spread);
        }
        if let (Some(spread), Some(list)) = (&mut known.spread, identity.network().revocations()) {
            spread.set_list(list);
        }
        drop(known);
        self.own.certificate = identity.certificate().cloned();
        self.secured.present(&self.own.encode());
        self.secured.node_mut().set_identity(now, &identity);
        self.warned = None;
        self.review_grants(now);
        // Pending messages to neighbours are sent now.
        self.neighbours.0.lock().review = Some(now);
    }
    fn remove_face(&mut self, now: Time, face: FaceId) {
        self.neighbours.0.lock().pinned.remove(&face);
        self.secured.forget(now, face);
        self.secured.node_mut().remove_face(now, face);
    }
    fn status(&self, now: Time) -> NodeStatus {
        let mut status = self.secured.node().status(now);
        for face in &mut status.faces {
            face.peer_key = self.secured.peer(face.face).map(|peer| PublicKey(peer.key.0));
            face.problem = self.secured.trouble(face.face);
            face.is_refused = self.secured.is_refused(face.face);
        }
        let known = self.neighbours.0.lock();
        if let Some(identity) = &known.identity {
            status.faces.iter_mut().for_each(|face| face.grant = known.grants.get(&face.face).cloned());
            let network = identity.network();
            let grant = identity.own_grant(&self.own.label, now);
            status.network = Some(NetworkStatus { authority: *network.authority(), access: network.access(), grant });
        }
        drop(known);
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
    tributary_core::forwarded! {
        this => this.secured.node_mut();
        fn set_face_policy(&mut Self, now: Time, face: FaceId, policy: FacePolicy);
        fn set_demands(&mut Self, now: Time, transfer: TransferId, demands: PathDemands) -> bool;
        fn publish(&mut Self, now: Time, object: Box<dyn ObjectReader>);
        fn unpublish(&mut Self, now: Time, name: &Name);
        fn fetch(&mut Self, now: Time, fetch: Fetch) -> TransferId;
        fn fetch_certified(&mut Self, now: Time, fetch: Fetch, certificate: &[u8]) -> Option<TransferId>;
        fn cancel(&mut Self, now: Time, transfer: TransferId);
        fn step_bulk(&mut Self, now: Time, transfer: TransferId, inputs: Vec<BulkInput>) -> Option<BulkStep>;
        fn watch(&mut Self, now: Time, scope: &Name);
        fn unwatch(&mut Self, now: Time, scope: &Name);
        fn leave(&mut Self, now: Time);
        fn limit(&mut Self, now: Time, transfer: Option<TransferId>, rate: Option<Rate>);
        fn echoes(&mut Self) -> Option<&mut dyn Echoes>;
        fn forwarding(&mut Self) -> Option<&mut dyn Forwarding>;
        fn messaging(&mut Self) -> Option<&mut dyn Messaging>;
    }
    tributary_core::forwarded! {
        this => this.secured.node();
        fn report(&Self, now: Time, transfer: TransferId) -> Option<TransferReport>;
        fn transfers(&Self) -> Vec<(TransferId, Name)>;
        fn publishes(&Self, name: &Name) -> bool;
        fn published_count(&Self) -> usize;
        fn published(&Self) -> Vec<(Name, tributary_core::ByteCount)>;
        fn obstacle(&Self, now: Time, name: &Name) -> Option<Obstacle>;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_trust::{Access, Network, Roles, Terms, UnixTime};

    fn key(byte: u8) -> SigningKey {
        SigningKey::from_secret(&[byte; 32])
    }
    fn static_key(key: &SigningKey) -> [u8; 32] {
        key.public().agreement_key().expect("a key")
    }
    fn presented(key: &SigningKey, certificate: Option<Certificate>) -> Vec<u8> {
        Presented { owner: key.public(), label: "attic".into(), certificate }.encode()
    }
    fn certificate(authority: &SigningKey, key: &SigningKey) -> Certificate {
        let terms = Terms {
            serial: 1,
            key: key.public(),
            label: "cellar".into(),
            roles: Roles::ROUTER,
            prefixes: Vec::new(),
            not_before: UnixTime(1_000),
            not_after: UnixTime(2_000),
        };
        Certificate::issue(authority, terms).expect("within limits")
    }
    fn neighbours(access: Option<Access>) -> Neighbours {
        let neighbours = Neighbours::default();
        let clock = Arc::new(|now: Time| UnixTime(1_000 + now.since(Time::ZERO).as_millis() as u64 / 1_000));
        neighbours.0.lock().identity =
            access.map(|access| Identity::new(key(8), None, Network::new(key(9).public(), access), clock));
        neighbours
    }

    #[test]
    fn a_static_key_belongs_to_the_key_that_it_follows_from() {
        let (own, other) = (key(1), key(2));
        let mut neighbours = neighbours(None);
        let pin = |key: &SigningKey, is_named| Pin { key: Some(key.public()), is_named, ..Pin::default() };
        neighbours.0.lock().pinned = BTreeMap::from([(FaceId(2), pin(&own, true)), (FaceId(3), pin(&own, false))]);
        let mut admit = |face, key: &SigningKey, presented: &[u8]| {
            neighbours.admit(Time::ZERO, FaceId(face), &static_key(key), presented)
        };
        let bare = presented(&own, None);
        let expected = Peer { key: PeerKey(own.public().0), label: "attic".into() };
        assert_eq!(admit(1, &own, &bare), Ok(expected.clone()));
        assert_eq!(admit(2, &own, &bare), Ok(expected));
        assert!(admit(1, &other, &bare).is_err(), "another static key");
        for length in 0..33 {
            assert!(admit(1, &own, &bare[..length]).is_err());
        }
        for (face, word) in [(2, "peer_key"), (3, "before")] {
            let refused = admit(face, &other, &presented(&other, None)).expect_err("another node").reason;
            let has_both = [&own, &other].iter().all(|key| refused.contains(&key.public().to_string()));
            assert!(has_both && refused.contains(word), "{refused}");
        }
    }

    #[test]
    fn a_closed_network_admits_by_certificate_and_an_open_one_everybody_as_a_host() {
        let (own, other) = (key(1), key(2));
        let certified = presented(&own, Some(certificate(&key(9), &own)));
        for access in [Access::Closed, Access::Open] {
            let mut neighbours = neighbours(Some(access));
            let admitted = neighbours.admit(Time::ZERO, FaceId(1), &static_key(&own), &certified).expect("certified");
            assert_eq!(admitted.label, "cellar");
            assert!(neighbours.0.lock().grants.is_empty(), "the handshake is not complete");
            let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
            neighbours.0.lock().review = Some(at(1_040));
            let grant = neighbours.0.lock().introduce(at(990), FaceId(1), true).expect("it is there");
            assert_eq!(neighbours.0.lock().review, Some(at(1_000)), "its certificate ends then");
            assert!(grant.roles.contains(Roles::ROUTER));
            let late = Time::ZERO + Duration::from_secs(1_000);
            let refused = neighbours.admit(late, FaceId(1), &static_key(&own), &certified).expect_err("it has ended");
            assert!(refused.reason.contains("trib network admit"), "{refused:?}");
            assert!(neighbours.admit(Time::ZERO, FaceId(1), &static_key(&other), &certified).is_err(), "stolen");
            let bare = neighbours.admit(Time::ZERO, FaceId(2), &static_key(&other), &presented(&other, None));
            assert_eq!(bare.is_ok(), access == Access::Open);
            let forged = presented(&own, Some(certificate(&key(3), &own)));
            assert!(neighbours.admit(Time::ZERO, FaceId(2), &static_key(&own), &forged).is_err());
        }
    }
}

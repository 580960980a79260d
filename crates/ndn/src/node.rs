//! One node: a forwarder, and a producer and a consumer on internal faces.
//!
//! ```text
//!  faces ◄──► Router ◄──► FACE_SENDER   ◄──► Sender
//!                    ◄──► FACE_RECEIVER ◄──► Receiver
//!                    ◄──► FACE_REGISTRAR ◄─► Registrations, at neighbours
//! ```
mod faces;
mod forwarding;
mod settle;

use alloc::{boxed::Box, collections::BTreeSet, format, string::String, vec::Vec};

use tributary_content::{Name, ObjectReader, PublicKey};
use tributary_core::{
    Datagram, Duration, EchoId, FaceAddresses, FaceId, FaceRefusal, FaceRequest, Node, PeerPlace, Random, Rate, Time,
    TimerId, TransferId, Transmit, TransmitBuf,
    event::{Event, ResolverEvent, TransferReport},
    node::FaceChange,
};
use tributary_transport::{
    Endpoint, FaceOptions, Fetch, NodeStatus, Obstacle,
    bulk::{BulkInput, BulkStep},
    echo::{Echo, Echoes},
    host::{self, Events, FACE_DEFAULT, UnsolicitedFaces},
    policy::{FacePolicy, PathDemands},
};
use tributary_trust::{Grant, Identity};

use self::faces::{UNSOLICITED_FACE_TIMEOUT, is_packet};
use crate::{
    config::Config,
    receiver::Receiver,
    registrar::{Registered, Registrations},
    router::{
        self, FaceProfile, FaceScope, RequestId, Router,
        rib::{CHILD_INHERIT, ORIGIN_APP, Route},
    },
    sender::Sender,
    wire::{Certificate, Interest, LpPacket, SignKey, dataset::FacePersistency},
};

/// The face of this node's producer.
pub const FACE_SENDER: FaceId = FaceId(u32::MAX - 1);
/// The face of this node's consumer.
pub const FACE_RECEIVER: FaceId = FaceId(u32::MAX - 2);

/// The face by which this node's prefixes are registered at neighbours.
pub const FACE_REGISTRAR: FaceId = FaceId(u32::MAX - 3);

/// Why the node wakes up; the number goes into [`TimerId`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
enum Wake {
    Router = 1,
    Receiver,
    UnsolicitedFaces,
    Registrations,
}

tributary_core::declared! {
    /// A node of the NDN family. See [`Endpoint`] for its commands and [`Node`] for its verbs.
    pub struct NdnNode {
        pub(crate) router: Router = router,
        pub(crate) sender: Sender = sender,
        pub(crate) receiver: Receiver = Receiver::new(&config, Random::new(config.seed, 7)),
        pub(crate) registrations: Registrations = registrations,
        /// What a routing daemon of this machine advertises.
        readvertised: Registrations = readvertised,
        random: Random = Random::new(config.seed, 9),
        /// Faces that only packets announced; all packets to them are answers.
        pub(crate) unsolicited: UnsolicitedFaces =
            UnsolicitedFaces::new(UNSOLICITED_FACE_TIMEOUT, UNSOLICITED_FACE_TIMEOUT),
        /// Faces that the driver has opened on request, and those whose addresses it must report.
        opened: BTreeSet<FaceId> = BTreeSet::new(),
        locating: BTreeSet<FaceId> = BTreeSet::new(),
        pub(crate) events: Events = Events::default(),
    }
    /// A node that signs the Data that it publishes with `key`.
    pub fn with_key(config: Config, key: SignKey) {
        let mut random = Random::new(config.seed, config.node.0);
        let mut secret = [0; 16];
        secret[..8].copy_from_slice(&random.bits().to_be_bytes());
        secret[8..].copy_from_slice(&random.bits().to_be_bytes());
        let mut router = Router::new(config.clone(), secret);
        router.add_internal_face(FACE_SENDER, "internal://sender");
        router.add_internal_face(FACE_RECEIVER, "internal://receiver");
        router.add_internal_face(FACE_REGISTRAR, "internal://registrar");
        let mut sender = Sender::new(&config.label, config.segment_bytes.clamp(64, 8000), key.clone(), config.epoch);
        sender.shared_keys = config.shared_keys.clone();
        sender.certify(config.signature.certificates());
        let signer = (key, config.signature.certificates().first().map(|own| own.name().clone()));
        let readvertised = Registrations::new(b"nlsr", Vec::new(), signer.clone(), config.epoch);
        let mut registrations = Registrations::new(b"nfd", config.registrars.clone(), signer, config.epoch);
        for certificate in config.signature.certificates() {
            // They answer for the key's name, which is their prefix.
            let name = certificate.key_name();
            let route = Route { face: FACE_SENDER, origin: ORIGIN_APP, cost: 0, flags: CHILD_INHERIT, expires: None };
            router.register(&name, route);
            registrations.add(Time::ZERO, &name);
        }
    }
}

impl NdnNode {
    /// A node that signs its publications as configured.
    pub fn new(config: Config) -> NdnNode {
        let key = config.signature.key();
        NdnNode::with_key(config, key)
    }
    /// Its settings.
    pub fn config(&self) -> &Config {
        &self.router.config
    }
    /// Its forwarder, to look at.
    pub fn router(&self) -> &Router {
        &self.router
    }
    /// Its forwarder, to command; the driver pumps the node afterwards.
    pub fn router_mut(&mut self) -> &mut Router {
        &mut self.router
    }
    /// Its consumer, to look at.
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    fn deadlines(&self) -> [(Option<Time>, Wake); 5] {
        [
            (self.router.poll_timeout(), Wake::Router),
            (self.receiver.poll_timeout(), Wake::Receiver),
            (self.unsolicited.poll_timeout(), Wake::UnsolicitedFaces),
            (self.registrations.poll_timeout(), Wake::Registrations),
            (self.readvertised.poll_timeout(), Wake::Registrations),
        ]
    }
}

impl Node for NdnNode {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        if self.unsolicited.contains(face) {
            self.unsolicited.on_answer(now, face);
        } else if !self.router.has_face(face)
            && is_packet(&datagram)
            && self.router.add_face(
                face,
                FaceProfile { persistency: FacePersistency::OnDemand, ..self.described(face, FACE_DEFAULT) },
            )
        {
            self.unsolicited.add(now, face);
            self.locating.insert(face);
        }
        self.router.handle_datagram(now, face, datagram);
        self.settle(now);
    }
    fn handle_timeout(&mut self, now: Time) {
        for wake in host::due(now, self.deadlines()) {
            match wake {
                Wake::Router => self.router.handle_timeout(now),
                Wake::Receiver => self.receiver.handle_timeout(now),
                Wake::UnsolicitedFaces => self.close_unsolicited_faces(now),
                Wake::Registrations => self.register_due(now),
            }
        }
        self.settle(now);
    }
    fn handle_storage(&mut self, now: Time) {
        self.receiver.handle_storage(now);
        for data in self.sender.handle_storage() {
            self.router.handle_local(now, FACE_SENDER, &LpPacket::default(), data);
        }
        self.return_refused(now);
        self.settle(now);
    }
    fn handle_face(&mut self, now: Time, face: FaceId, change: FaceChange) {
        match change {
            FaceChange::Opened { mtu, place, addresses } => {
                let scope = match place {
                    PeerPlace::ThisMachine => FaceScope::Local,
                    PeerPlace::OtherUser => FaceScope::OtherUser,
                    PeerPlace::Elsewhere => FaceScope::NonLocal,
                };
                let profile = self.opened(face, FaceOptions { mtu, rate: None }, scope, addresses);
                self.add_face_with(face, profile);
                self.on_face_up(now, face);
                self.settle(now);
            }
            FaceChange::Located(addresses) => self.router.set_face_addresses(face, addresses),
            // It was opened on request and is dialled again: its routes stay.
            FaceChange::Closed if self.opened.contains(&face) => {
                self.registrations.on_face_down(face);
                self.router.set_face_up(now, face, false);
            }
            FaceChange::Closed => self.remove_face(now, face),
        }
    }
    fn poll_face_request(&mut self) -> Option<FaceRequest> {
        if let Some(face) = self.locating.pop_first() {
            return Some(FaceRequest::Locate { face });
        }
        Some(match self.router.poll_face_request()? {
            router::FaceRequest::Create { id, uri, mtu, .. } => {
                let mtu = mtu.map(|mtu| u32::try_from(mtu).unwrap_or(u32::MAX));
                FaceRequest::Open { request: id.0, uri, mtu }
            }
            router::FaceRequest::Destroy { face } => {
                self.unsolicited.remove(face);
                self.opened.remove(&face);
                FaceRequest::Close { face }
            }
        })
    }
    fn handle_face_answer(&mut self, now: Time, request: u64, answer: Result<(FaceId, FaceAddresses), FaceRefusal>) {
        let id = RequestId(request);
        if let Ok((face, addresses)) = &answer {
            let (face, is_datagrams) = (*face, addresses.peer.starts_with("udp"));
            let mtu = if is_datagrams { FACE_DEFAULT.mtu } else { u32::MAX };
            let (uri, local_uri) = (addresses.peer.clone(), addresses.local.clone());
            let profile = FaceProfile { uri, local_uri, ..self.described(face, FaceOptions { mtu, rate: None }) };
            self.add_face_with(face, profile);
            self.opened.insert(face);
            // A stream is up when its far end has answered.
            self.router.set_face_up(now, face, is_datagrams);
            self.on_face_up(now, face);
        }
        self.router.complete_face_request(now, id, answer.map(|(face, _)| face));
        self.settle(now);
    }
    fn handle_channels(&mut self, channels: Vec<String>) {
        self.router.set_channels(channels);
    }
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        loop {
            if let Some(transmit) = self.router.poll_transmit(out) {
                return Some(transmit);
            }
            let outgoing = self.receiver.poll_interest(now)?;
            self.router.handle_local(now, FACE_RECEIVER, &outgoing.headers(), outgoing.interest.clone());
            self.settle(now);
        }
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        host::earliest(self.deadlines()).map(|(due, wake)| (due, TimerId(wake as u16)))
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.events.poll()
    }
}

impl Echoes for NdnNode {
    fn echo(&mut self, now: Time, echo: &Echo) -> Result<EchoId, String> {
        self.receiver.echo(now, echo)
    }
}

impl Endpoint for NdnNode {
    fn add_face(&mut self, now: Time, face: FaceId, options: FaceOptions) {
        self.add_face_with(face, self.described(face, options));
        self.locating.insert(face);
        self.on_face_up(now, face);
    }
    fn set_face_key(&mut self, face: FaceId, key: Option<PublicKey>) {
        self.router.set_face_key(face, key);
    }
    fn remove_face(&mut self, now: Time, face: FaceId) {
        self.unsolicited.remove(face);
        self.locating.remove(&face);
        self.registrations.on_face_down(face);
        self.router.remove_face(now, face);
        self.settle(now);
    }
    fn set_identity(&mut self, _now: Time, _identity: &Identity) {
        self.router.require_certificates();
    }
    fn handle_grant(&mut self, now: Time, face: FaceId, grant: Option<&Grant>) {
        self.router.set_grant(now, face, grant);
        self.settle(now);
    }
    fn publish(&mut self, now: Time, object: Box<dyn ObjectReader>) {
        let name = object.manifest().name.clone();
        let text = format!("{name}");
        if !self.sender.publish(object) {
            let reason = format!("it has more segments of {} bytes than can be numbered", self.config().segment_bytes);
            let rejected = ResolverEvent::Rejected { name: text, operation: "publish", reason };
            return self.events.push(Event::Resolver(rejected));
        }
        let route = Route { face: FACE_SENDER, origin: ORIGIN_APP, cost: 0, flags: CHILD_INHERIT, expires: None };
        if !self.router.register(&name, route) {
            let reason = "too many routes".into();
            self.events.push(Event::Resolver(ResolverEvent::Rejected { name: text, operation: "publish", reason }));
        } else if self.registrations.is_used() {
            // The neighbours' answers confirm it.
            self.registrations.add(now, &name);
            self.register_due(now);
        } else {
            self.events.push(Event::Resolver(ResolverEvent::Published { name: text }));
        }
        self.settle(now);
    }
    fn unpublish(&mut self, now: Time, name: &Name) {
        let text = format!("{name}");
        let event = if self.sender.unpublish(name) {
            self.router.unregister(name, FACE_SENDER, ORIGIN_APP);
            self.registrations.remove(now, name);
            self.register_due(now);
            ResolverEvent::Unpublished { name: text }
        } else {
            let reason = "it is not published here".into();
            ResolverEvent::Rejected { name: text, operation: "unpublish", reason }
        };
        self.events.push(Event::Resolver(event));
        self.settle(now);
    }
    fn fetch(&mut self, now: Time, fetch: Fetch) -> TransferId {
        let id = self.receiver.fetch(now, fetch, None);
        self.settle(now);
        id
    }
    fn fetch_certified(&mut self, now: Time, fetch: Fetch, certificate: &[u8]) -> Option<TransferId> {
        let pinned = Certificate::decode(certificate.to_vec()).ok()?;
        let id = self.receiver.fetch(now, fetch, Some(pinned));
        self.settle(now);
        Some(id)
    }
    fn cancel(&mut self, now: Time, transfer: TransferId) {
        self.receiver.cancel(now, transfer);
        self.receiver.handle_timeout(now);
        self.settle(now);
    }
    fn step_bulk(&mut self, now: Time, transfer: TransferId, inputs: Vec<BulkInput>) -> Option<BulkStep> {
        let step = self.receiver.step_bulk(now, transfer, inputs);
        self.settle(now);
        step
    }
    fn watch(&mut self, _now: Time, scope: &Name) {
        // NDN has no directory of names: no node can list those below one.
        let reason = "NDN has no listing of names".into();
        let name = format!("{scope}");
        self.events.push(Event::Resolver(ResolverEvent::Rejected { name, operation: "subscribe", reason }));
    }
    fn unwatch(&mut self, _now: Time, _scope: &Name) {}
    fn leave(&mut self, now: Time) {
        let names: Vec<Name> = self.sender.objects.published().map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.unpublish(now, name));
    }
    fn limit(&mut self, now: Time, transfer: Option<TransferId>, rate: Option<Rate>) {
        self.receiver.fetches.set_limit(now, transfer, rate);
    }
    fn set_face_policy(&mut self, now: Time, face: FaceId, policy: FacePolicy) {
        self.receiver.set_face_policy(now, face, policy);
    }
    fn set_demands(&mut self, now: Time, transfer: TransferId, demands: PathDemands) -> bool {
        self.receiver.set_demands(now, transfer, demands)
    }
    fn report(&self, now: Time, transfer: TransferId) -> Option<TransferReport> {
        self.receiver.fetches.report(now, transfer)
    }
    fn transfers(&self) -> Vec<(TransferId, Name)> {
        self.receiver.fetches.names()
    }
    fn echoes(&mut self) -> Option<&mut dyn Echoes> {
        Some(self)
    }
    fn publishes(&self, name: &Name) -> bool {
        self.sender.objects.by_name(name).is_some()
    }
    fn published_count(&self) -> usize {
        self.sender.objects.published().len()
    }
    fn published(&self) -> Vec<(Name, tributary_core::ByteCount)> {
        self.sender.objects.published().map(|(name, bytes)| (name.clone(), bytes)).collect()
    }
    fn forwarding(&mut self) -> Option<&mut dyn tributary_transport::Forwarding> {
        Some(self)
    }
    fn status(&self, now: Time) -> NodeStatus {
        self.status_at(now)
    }
    fn obstacle(&self, _now: Time, name: &Name) -> Option<Obstacle> {
        self.obstacle_of(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{router::cs::CsLimits, wire::Data};
    use bytes::Bytes;
    use tributary_core::ByteCount;
    use tributary_transport::host::EVENTS_MAX;

    #[test]
    fn a_large_cache_holds_as_many_packets_as_fit() {
        // A file of 152 MiB in segments of 1,200 bytes, which are 1,400 with name, signature and the rest.
        let file = Config { cache_bytes: ByteCount(256 << 20), ..Config::new("node", 1) };
        let mut node = NdnNode::new(file);
        assert!(node.router().cs.limits.packets_max > (152 << 20) / 1_200);
        let (packets, now) = (100_000_u32, Time::ZERO);
        let name = |number: u32| Name::root().child(&number.to_be_bytes()).expect("it is short");
        let prefix = Name::root();
        assert!(node.router_mut().add_route(&prefix, FACE_SENDER, 0));
        let (asker, options) = (FaceId(1), FaceOptions { mtu: 1_472, rate: None });
        node.add_face(now, asker, options);
        for number in 0..packets {
            let requested = Interest::new((&name(number)).into()).encode();
            node.router_mut().handle_datagram(now, asker, Datagram::from(Bytes::from(requested)));
            let data = Data::new((&name(number)).into(), b"").sign(&SignKey::Null);
            node.router_mut().handle_local(now, FACE_SENDER, &LpPacket::default(), data.into());
            while node.router_mut().poll_transmit(&mut TransmitBuf::new()).is_some() {}
            while node.router_mut().poll_local().is_some() {}
        }
        let cs = &node.router().cs;
        assert_eq!((cs.len(), cs.evicted), (packets as usize, 0));
        assert!(cs.contains(now, (&name(0)).into()), "the first one is there");
        let none = NdnNode::new(Config { cache_bytes: ByteCount(0), ..Config::new("node", 1) });
        assert_eq!(none.router().cs.limits, CsLimits { packets_max: 0, bytes_max: 0 });
    }

    #[test]
    fn events_that_nobody_takes_are_dropped_and_counted_beyond_their_limit() {
        let mut node = NdnNode::new(Config::new("node", 1));
        let scope = Name::root();
        let dropped = |node: &NdnNode| node.status(Time::ZERO).counters.get("events dropped").copied();
        // Each learns that NDN has no listing.
        (0..EVENTS_MAX).for_each(|_| node.watch(Time::ZERO, &scope));
        assert_eq!(dropped(&node), None);
        (0..3).for_each(|_| node.watch(Time::ZERO, &scope));
        assert_eq!(dropped(&node), Some(3));
        assert_eq!(core::iter::from_fn(|| node.poll_event()).count(), EVENTS_MAX);
    }
}

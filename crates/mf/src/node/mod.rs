//! One node of a MobilityFirst network: any mix of roles, glued together.
//!
//! ```text
//!                      ┌─ Hello ──► Neighbour ── up, down ──► Router, Topology, own name
//!  faces ──► packet ───┤
//!                      └─ Data, CSYN, CACK ──► Router ──► chunk ─┬─ passes: ContentCache, Proxy (copies, away), forwarded
//!                                               ▲  │             └─ for this node, by kind:
//!                                               │  ▼                  data ──► Receiver
//!            Sender, Receiver, Proxy, names ────┘ faces               transport ──► Sender, Receiver, Proxy
//!                                                                     names ──► Front, Replica, NameResolver
//! ```
mod chunks;
mod endpoint;
mod groups;
mod messages;
mod messaging;
mod names;
mod settle;
mod store;
#[cfg(test)]
mod tests;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::{String, ToString},
    vec::Vec,
};

use bytes::Bytes;
use tributary_content::{Name, ObjectId, ObjectReader, SigningKey, StoreOpener};
use tributary_core::{
    Datagram, DatagramBatch, FaceId, Node, Random, Rate, Time, TimerId, TransferId, Transmit, TransmitBuf,
    event::{Event, ResolverEvent, TransferReport},
};
use tributary_directory::engine::Engine;
use tributary_transport::{
    Endpoint, FaceOptions, Fetch, NodeStatus,
    host::{self, Events, FACE_DEFAULT, UnsolicitedFaces},
    policy::FacePolicy,
};
use tributary_trust::{Claimants, Grant};

use crate::{
    anycast::Anycasts,
    config::Config,
    custody::Answers,
    groups::Groups,
    ids::{ChunkKey, Guid, NetworkAddress, ServiceId, WEIGHT_MAX, Weighted},
    link::{Origin, Partials, Slot},
    listing::Listings,
    payload::Payload,
    receiver::Receiver,
    relay::Relays,
    resolver::{Answer, Asker, Front, GnrsClient, NameResolver, Records, Replays, Replica, Seals, Stored},
    router::{
        Binding, Output, Router, RouterConfig, StoreReason,
        arriving::Arriving,
        cache::ContentCache,
        link_state::Topology,
        neighbour::{Change, Identity, Neighbour},
        proxy::{ChunkRepository, Holding, Kept, MemoryRepository, Proxy, Refused, Release},
        signed_state::SignedStates,
    },
    sender::{SendOptions, Sender},
    wire::{
        ChunkHeader, ChunkKind, Flags, Hello, LinkState, MtuMessage, NameMessage, NameRecord, OPEN_KEY, PacketType,
        Readers, RecordBody, Roles, TransportBody, TransportMessage, Wire, WireError, seal, unseal,
    },
};

/// Why the node wakes up; the number goes into [`TimerId`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
enum Wake {
    Neighbour = 1,
    Router,
    Topology,
    Proxy,
    Front,
    Resolver,
    Sender,
    Receiver,
    Relays,
    Commit,
    Sweep,
    Custody,
    Names,
    Store,
    Arriving,
}

/// The context from which the secret of the nonces in hellos is derived.
const NONCES: &str = "tributary 2026 mobilityfirst nonces of hellos";
/// The context from which the secret of transfer tokens is derived.
const TOKENS: &str = "tributary 2026 mobilityfirst tokens of transfers";
/// Limit of faces.
const FACES_MAX: usize = 1_024;
/// Limit of neighbours whose boot numbers are remembered.
const BOOTS_MAX: usize = 4_096;
/// Time between two sweeps of old state, and how long an unsolicited face without an answering neighbour is kept.
const SWEEP: core::time::Duration = core::time::Duration::from_secs(1);
const UNSOLICITED_FACE_TIMEOUT: core::time::Duration = core::time::Duration::from_secs(10);
/// The same for a face whose neighbour has answered before and is away: its measurements are worth keeping; without
/// them an outage of 30 s costs almost a second more.
const AWAY_PATIENCE: core::time::Duration = core::time::Duration::from_secs(60);
/// Time between two lookups of the groups among readers: shorter than groups are remembered.
const RULES_LOOK: core::time::Duration = core::time::Duration::from_secs(15);
/// The lifetime of the names of a node that publishes nothing is this many times longer: routers detect its absence
/// themselves.
const IDLE_LEASES: u32 = 10;
/// How long a lookup that found nothing is remembered.
const NOTHING_LIFETIME: core::time::Duration = core::time::Duration::from_secs(1);

tributary_core::declared! {
    /// A node of the MobilityFirst family. See [`Endpoint`] for its commands and [`Node`] for its verbs.
    pub struct MfNode {
        /// The operator's policies for its faces.
        pub(crate) policies: BTreeMap<FaceId, FacePolicy> = BTreeMap::new(),
        pub(crate) guid: Guid = guid,
        key: SigningKey = key,
        pub(crate) roles: Roles = roles,
        pub(crate) neighbour: Neighbour = Neighbour::new(identity, config.rhythm(), config.buffer_packets / 2),
        pub(crate) router: Router = Router::new(router, topology),
        pub(crate) proxy: Option<Proxy> = None,
        pub(crate) front: Option<Front> = config.router.then(|| Front::new(guid, usize::from(config.replicas))),
        pub(crate) replica: Option<Box<dyn Records>> = config.resolver.then(records),
        pub(crate) resolver: Box<dyn NameResolver> = Box::new(resolver),
        pub(crate) sender: Sender = Sender::new(guid, config.transfer.clone(), random.bits() as u32, &secret),
        pub(crate) receiver: Receiver = Receiver::new(config.transfer.clone(), random.below(1 << 24) as u32, &secret),
        pub(crate) cache: ContentCache = cache,
        anycasts: Anycasts = Anycasts::default(),
        groups: Groups = Groups::default(),
        relays: Relays = Relays::default(),
        /// Notices to custodians about their chunks.
        pub(crate) custody: Answers = Answers::default(),
        /// The member that serves each transfer to the nearest of a group.
        chosen: BTreeMap<(Guid, u32), Guid> = BTreeMap::new(),
        listings: Listings = Listings::default(),
        /// Of a router: authenticates messages about names to and from other routers.
        seals: Option<Seals> = config.router.then(|| Seals::new(address, boot)),
        /// For a router in a network with an authority: signs its link state, and checks other routers'.
        signed: Option<SignedStates> = None,
        /// What neighbours on protected faces have proven, and so may claim.
        owners: Claimants = Claimants::default(),
        /// The boot number of each host, and the numbers of its queries since then.
        served: BTreeMap<Guid, (u64, Replays)> = BTreeMap::new(),
        /// Who may look up the records of a name, or (`None`) of this node; others are for all.
        rules: BTreeMap<Option<Name>, Rule> = rules,
        /// When to look up the groups among readers again.
        rules_look_at: Time = now,
        /// Names of own content, for events.
        published: BTreeMap<Guid, (Name, bool)> = BTreeMap::new(),
        /// Destinations of flows whose addresses are watched.
        followed: BTreeSet<Guid> = BTreeSet::new(),
        /// Chunks that were put into the store, and are acknowledged when they are durable.
        storing: Vec<Slot> = Vec::new(),
        /// The chunks of the running commit, and when to poll it.
        committing: Vec<Slot> = Vec::new(),
        commit_look_at: Option<Time> = None,
        /// A store that could not be read at the start, since when, and when that is tried again.
        unread: Option<(Box<dyn ChunkRepository>, Time)> = None,
        open_store_at: Option<Time> = None,
        /// Whether the last try to store chunks failed.
        store_fails: bool = false,
        hellos: VecDeque<(FaceId, Vec<u8>)> = VecDeque::new(),
        pub(crate) faces: BTreeMap<FaceId, FaceOptions> = BTreeMap::new(),
        /// Faces that only packets announced.
        unsolicited: UnsolicitedFaces = UnsolicitedFaces::new(UNSOLICITED_FACE_TIMEOUT, AWAY_PATIENCE),
        /// The last known boot number of each neighbour, [`BOOTS_MAX`] of them.
        boots: BTreeMap<Guid, u64> = BTreeMap::new(),
        /// GUIDs that two machines had at the last sweep, and whether that was reported.
        copies: BTreeMap<Guid, bool> = BTreeMap::new(),
        /// The addresses of the last record of this node.
        attached_to: Vec<Weighted> = Vec::new(),
        sweep_at: Time = now,
        /// Whether to look up the groups that transfers go to again: they are in use, and a group that does not answer
        /// counts as empty after a while.
        looks_at_groups: bool = false,
        pub(crate) events: Events = Events::default(),
        pub(crate) config: Config = config,
    }
    fn start(now: Time, config: Config) {
        let mut random = Random::new(config.seed, config.node.0);
        let key = SigningKey::from_secret(&config.secret);
        let guid = config.guid();
        let roles = roles_of(&config);
        let address = if config.router { config.address } else { NetworkAddress::NONE };
        let boot = random.bits().max(1);
        let nonce_secret = blake3::derive_key(NONCES, &[&config.secret[..], &config.seed.to_be_bytes()].concat());
        let identity = Identity { key: key.clone(), label: config.label.clone(), roles, address, boot, nonce_secret };
        // Others know the boot number, but not the node's own secret.
        let secret = blake3::derive_key(TOKENS, &[&config.secret[..], &boot.to_be_bytes()].concat());
        let router = RouterConfig {
            guid,
            address: config.router.then_some(config.address),
            hop: config.hop.clone(),
            buffer_packets: config.buffer_packets,
            relief: config.relief,
            store_ratio: config.store_ratio,
            stores: config.router && config.proxy.enabled,
            first_hop: random.bits() as u32,
        };
        let topology = config.router.then(|| topology_of(&config, guid, boot));
        let resolver = GnrsClient::new(key.clone(), &config.label, config.binding_lifetime, 0)
            .with_leases(config.binding_lifetime * IDLE_LEASES, config.attachment_lifetime);
        let rules =
            config.readers.iter().map(|(name, configured)| (name.clone(), Rule::new(configured.clone()))).collect();
        let cache_bytes = if config.router { config.cache_bytes } else { tributary_core::ByteCount(0) };
        let mut cache = ContentCache::new(cache_bytes);
        let requests_max = if cache_bytes.0 == 0 { 0 } else { config.pending_requests_max };
        cache.arriving = Arriving::new(requests_max, config.pending_lifetime);
        let records = || -> Box<dyn Records> { Box::new(Replica::new(config.records_max as usize)) };
    }
}

/// A router's initial topology.
fn topology_of(config: &Config, guid: Guid, boot: u64) -> Topology {
    let mut topology = Topology::new(config.address, guid, boot, config.label.clone(), roles_of(config));
    topology.depleted_percent = config.proxy.depleted_percent;
    topology.routers_max = config.routers_max as usize;
    topology
}

impl MfNode {
    /// A node with the roles that `config` names, its chunks in memory. Nothing is sent before a face is added.
    pub fn new(config: Config) -> MfNode {
        MfNode::with_repository(Time::ZERO, config, Box::new(MemoryRepository::default()))
    }
    /// Starts a node whose chunks are in a repository. The repository may hold chunks from an earlier run.
    pub fn with_repository(now: Time, config: Config, repository: Box<dyn ChunkRepository>) -> MfNode {
        let mut node = MfNode::start(now, config);
        if node.config.stores() {
            node.unread = Some((repository, now));
            node.open_store(now);
        }
        node.introduce(now);
        node
    }
    /// Publishes the node's records through the resolver.
    fn introduce(&mut self, now: Time) {
        for (name, rule) in &self.rules {
            self.resolver.set_readers(now, name.as_ref().map_or(self.guid, Guid::of_name), rule.readers.clone());
        }
        if self.config.router {
            self.resolver.put(now, RecordBody::Device(Vec::from([(self.config.address, WEIGHT_MAX)])));
        }
        for (label, group) in &self.config.groups {
            self.resolver.put(now, group.record(label));
        }
    }
    /// Resolves names with another service than the embedded one, and passes it this node's settings; call it before
    /// the node publishes or attaches to anything.
    #[cfg(any(test, feature = "internals"))]
    pub fn set_resolver(&mut self, now: Time, resolver: Box<dyn NameResolver>) {
        self.resolver = resolver;
        self.introduce(now);
    }
    /// Keeps the name records that this node holds for others in `repository`, and restores those of an earlier run.
    pub fn keep_names(&mut self, now: Time, repository: Box<dyn ChunkRepository>) {
        if let Some(Err(error)) = self.replica.as_mut().map(|replica| replica.restore(now, repository)) {
            self.events.push(Event::Note(format!("cannot read the stored names: {error}")));
        }
    }
    /// Stores parts of interrupted chunks in `repository`, and restores those of an earlier run.
    pub fn keep_partials(&mut self, now: Time, repository: Box<dyn ChunkRepository>) {
        let lifetime = self.config.proxy.lifetime;
        match Partials::open(now, self.config.hop.partial_bytes_max, lifetime, repository) {
            Ok(partials) => self.router.partials = partials,
            Err(error) => {
                self.events.push(Event::Note(format!("cannot read the chunks that were interrupted: {error}")));
            }
        }
    }
    /// Keeps the records of names in an outside store from now on, if it is a resolver.
    pub fn keep_names_by(&mut self, engine: Box<dyn Engine>) {
        if let Some(records) = &mut self.replica {
            *records = Box::new(Stored::new(engine, self.config.records_max as usize, self.config.seed));
        }
    }
    /// Whether it is a replica of the record at this place.
    #[cfg(any(test, feature = "internals"))]
    pub fn knows_name(&self, place: &Guid) -> bool {
        self.replica.as_ref().is_some_and(|replica| replica.knows(place))
    }
    /// Its GUID.
    pub fn guid(&self) -> Guid {
        self.guid
    }
    /// Its settings.
    pub fn config(&self) -> &Config {
        &self.config
    }
    /// The key that its names are signed with.
    pub fn key(&self) -> &SigningKey {
        &self.key
    }
    /// The GUID of the group that it owns under a label.
    pub fn group(&self, label: &str) -> Guid {
        Guid::of(&self.key.public(), label.as_bytes())
    }
    /// The chunks that its proxy holds.
    pub fn holdings(&self) -> Vec<Holding> {
        self.proxy.iter().flat_map(Proxy::holdings).cloned().collect()
    }
    /// Its forwarder, to look at.
    pub fn router(&self) -> &Router {
        &self.router
    }
    /// Returns the durable chunks that cannot be read, which exist only if the disk is damaged. Reads all chunks.
    #[cfg(any(test, feature = "internals"))]
    pub fn unreadable_chunks(&mut self, now: Time) -> Vec<ChunkKey> {
        let Some(proxy) = &mut self.proxy else { return Vec::new() };
        let stored = proxy.holdings().filter(|held| held.durable);
        let stored: Vec<ChunkKey> = stored.map(|held| held.key).collect();
        stored.into_iter().filter(|key| proxy.copy(now, key).is_none()).collect()
    }
    /// Its proxy, to look at.
    pub fn proxy(&self) -> Option<&Proxy> {
        self.proxy.as_ref()
    }
    /// Its sender, to look at.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }
    /// The number of requests that joined an arriving object, and of requests that found the table full.
    #[cfg(any(test, feature = "internals"))]
    pub fn joined_requests(&self) -> (u64, u64) {
        (self.cache.arriving.joins, self.cache.arriving.beyond)
    }

    // Commands in addition to `Endpoint`'s.

    /// Takes objects that are pushed to this node if `acceptor` trusts them.
    pub fn accept(&mut self, acceptor: Box<dyn StoreOpener>) {
        self.receiver.accept(Some(acceptor));
    }
    /// Sends an object that is [offered](MfNode::offer) or published here (paper: send); returns the transfer's number.
    pub fn send(&mut self, now: Time, object: ObjectId, destination: Guid, options: SendOptions) -> Option<u32> {
        let addresses = self.router.binding(now, &destination).unwrap_or_default().to_vec();
        let transfer = self.sender.push(now, object, destination, addresses, options);
        self.settle(now);
        transfer
    }
    /// Keeps an object for [`MfNode::send`] without announcing it.
    pub fn offer(&mut self, object: Box<dyn ObjectReader>) {
        self.sender.publish(object);
    }

    // Packets.

    fn take(&mut self, now: Time, face: FaceId, datagram: Datagram) -> Concerns {
        let bytes = datagram.len();
        let kind = match datagram.header_bytes().first().map(|first| PacketType::of(*first)) {
            Some(Ok(kind)) => kind,
            Some(Err(error)) => return self.refuse(face, error.reason(), bytes),
            None => return self.refuse(face, "empty datagram", bytes),
        };
        if !self.faces.contains_key(&face) && !self.meet(now, face) {
            return self.refuse(face, "too many faces", bytes);
        }
        match kind {
            PacketType::Hello => self.on_hello(now, face, &datagram),
            PacketType::Mtu => {
                let message = MtuMessage::decode(&datagram.into_bytes()).map_err(WireError::reason);
                if let Err(reason) = message.and_then(|message| self.neighbour.handle_mtu(now, face, message)) {
                    self.events.on_dropped(face, reason, bytes);
                }
            }
            PacketType::Data | PacketType::Csyn | PacketType::Cack => {
                if self.neighbour.awaits_hello(now, face) && self.router.expects(face, kind, &datagram) {
                    self.neighbour.on_expected(now, face);
                    self.settle_neighbour(now);
                }
                self.neighbour.on_received(face);
                self.neighbour.on_carried(face, bytes);
                self.router.handle_packet(now, face, kind, datagram);
                if kind == PacketType::Cack {
                    self.neighbour.on_arrived(now, face, self.router.take_arrived(face));
                }
                if kind != PacketType::Cack && !self.router.has_outputs() {
                    // A fragment of a chunk that is not complete concerns the hop link alone.
                    return Concerns::Hop;
                }
            }
        }
        Concerns::Node
    }
    fn on_hello(&mut self, now: Time, face: FaceId, datagram: &Datagram) {
        match Hello::decode(&datagram.clone().into_bytes()) {
            Ok(hello) => {
                if let Err(reason) = self.neighbour.handle_hello(now, face, hello) {
                    self.events.on_dropped(face, reason, datagram.len());
                }
            }
            Err(error) => self.events.on_dropped(face, error.reason(), datagram.len()),
        }
    }

    fn refuse(&mut self, face: FaceId, reason: &'static str, bytes: usize) -> Concerns {
        self.events.on_dropped(face, reason, bytes);
        Concerns::Hop
    }

    /// Adds a face that a packet opened; false at the limit.
    fn meet(&mut self, now: Time, face: FaceId) -> bool {
        if let Some(surplus) = self.unsolicited.surplus(|_| false) {
            self.forget_face(now, surplus);
        }
        if self.faces.len() >= FACES_MAX {
            return false;
        }
        self.faces.insert(face, FACE_DEFAULT);
        self.neighbour.add_unsolicited(now, face, FACE_DEFAULT.mtu);
        self.unsolicited.add(now, face);
        true
    }

    // Small things.

    pub(super) fn attach_face(&mut self, now: Time, face: FaceId, options: FaceOptions) {
        self.faces.insert(face, options);
        self.neighbour.add_face(now, face, options.mtu);
    }
    pub(super) fn detach_face(&mut self, now: Time, face: FaceId) {
        self.forget_face(now, face);
        self.settle(now);
    }
    fn forget_face(&mut self, now: Time, face: FaceId) {
        self.faces.remove(&face);
        self.unsolicited.remove(face);
        self.signed.iter_mut().for_each(|signed| signed.forget(face));
        self.neighbour.remove_face(face);
        self.router.remove_face(now, face);
    }
    /// Removes unsolicited faces whose neighbours do not answer, and forgets old state.
    fn sweep(&mut self, now: Time) {
        self.sweep_at = now + SWEEP;
        for face in self.unsolicited.expired(now, |face| self.neighbour.peer(face).is_some()) {
            self.detach_face(now, face);
        }
        self.router.expire(now);
        self.report_copies();
        self.settle_partials(now);
        self.review_routers(now);
        for guid in self.anycasts.expire(now) {
            self.resolver.lookup(now, guid);
        }
        if self.rules_look_at <= now {
            self.rules_look_at = now + RULES_LOOK;
            self.apply_rules(now);
        }
        self.groups.expire(now);
        self.looks_at_groups = true;
        self.relays.expire(now);
        if let Some(replica) = &mut self.replica {
            replica.handle_timeout(now);
        }
        while let Some(text) = self.replica.as_mut().and_then(|records| records.poll_note()) {
            self.events.push(Event::Note(text));
        }
    }
    /// Rejects seals for routers whose certificates have ended or are revoked.
    fn review_routers(&mut self, now: Time) {
        if let (Some(signed), Some(seals)) = (&mut self.signed, &mut self.seals) {
            signed.review(now);
            seals.keep_certified(|router| signed.key_of(router));
        }
    }
    fn deadlines(&self) -> [(Option<Time>, Wake); 15] {
        [
            (self.neighbour.poll_timeout(), Wake::Neighbour),
            (self.router.poll_timeout(), Wake::Router),
            (self.router.topology.as_ref().and_then(Topology::poll_timeout), Wake::Topology),
            (self.proxy.as_ref().and_then(Proxy::poll_timeout), Wake::Proxy),
            (self.front.as_ref().and_then(Front::poll_timeout), Wake::Front),
            (self.resolver.poll_timeout(), Wake::Resolver),
            (self.sender.poll_timeout(), Wake::Sender),
            (self.receiver.poll_timeout(), Wake::Receiver),
            (self.relays.poll_timeout(), Wake::Relays),
            (self.commit_look_at, Wake::Commit),
            ((!self.faces.is_empty()).then_some(self.sweep_at), Wake::Sweep),
            (self.custody.poll_timeout(), Wake::Custody),
            (self.replica.as_ref().and_then(|records| records.poll_timeout()), Wake::Names),
            (self.open_store_at, Wake::Store),
            (self.cache.arriving.poll_timeout(), Wake::Arriving),
        ]
    }
}

/// The roles that a config names.
fn roles_of(config: &Config) -> Roles {
    let of = |has: bool, role: Roles| if has { role } else { Roles::HOST };
    Roles::HOST
        | of(config.router, Roles::ROUTER)
        | of(config.router && config.proxy.enabled, Roles::PROXY)
        | of(config.resolver, Roles::RESOLVER)
}

tributary_core::declared! {
    /// The readers of a node's publications under a name.
    struct Rule {
        /// The devices among them and in these groups, as records name them.
        readers: Readers = Readers::Only(configured.clone()),
        /// Devices and groups, as the owner named them.
        configured: BTreeSet<Guid> = configured,
    }
    /// Groups admit their members once these are known.
    fn new(configured: BTreeSet<Guid>) {}
}

/// Which parts of the node a packet concerns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Concerns {
    /// The hop link alone.
    Hop,
    /// Other parts of the node as well: it must settle.
    Node,
}

impl Node for MfNode {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        if self.take(now, face, datagram) == Concerns::Node {
            self.settle(now);
        }
    }
    fn handle_batch(&mut self, now: Time, face: FaceId, batch: DatagramBatch) {
        let mut concerns = Concerns::Hop;
        for index in 0..batch.count() {
            concerns = concerns.max(self.take(now, face, batch.datagram(index)));
            if self.router.has_outputs() {
                // A complete chunk leaves the buffer before the next one arrives.
                self.settle(now);
                concerns = Concerns::Hop;
            }
        }
        if concerns == Concerns::Node {
            self.settle(now);
        }
    }
    fn handle_timeout(&mut self, now: Time) {
        for wake in host::due(now, self.deadlines()) {
            match wake {
                Wake::Neighbour => self.neighbour.handle_timeout(now),
                Wake::Router => self.router.handle_timeout(now),
                Wake::Topology => {
                    let neighbour = &self.neighbour;
                    if let Some(topology) = &mut self.router.topology {
                        topology.handle_timeout(now, |face| neighbour.cost(face));
                    }
                }
                Wake::Proxy => self.proxy.iter_mut().for_each(|proxy| proxy.handle_timeout(now)),
                Wake::Front => self.front.iter_mut().for_each(|front| front.handle_timeout(now)),
                Wake::Resolver => self.resolver.handle_timeout(now),
                Wake::Sender => self.sender.handle_timeout(now),
                Wake::Receiver => {
                    // Of a router's packets most are for others.
                    if !self.config.router {
                        self.receiver.on_activity(self.router.active_at(), self.router.arriving());
                    }
                    self.receiver.handle_timeout(now);
                }
                // These tasks run when the node settles.
                Wake::Relays | Wake::Custody | Wake::Names => {}
                Wake::Commit => self.commit_look_at = None,
                Wake::Store => {
                    self.open_store_at = None;
                    self.open_store(now);
                }
                Wake::Sweep => self.sweep(now),
                Wake::Arriving => {
                    let sender = &self.sender;
                    self.cache.arriving.handle_timeout(now, &self.router, |id| sender.has_flow(id));
                }
            }
        }
        self.settle(now);
    }
    fn handle_storage(&mut self, now: Time) {
        self.receiver.handle_storage(now);
        self.sender.handle_storage();
        // An outside store of names is settled with the rest.
        self.settle(now);
    }
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        if let Some((face, bytes)) = self.hellos.pop_front() {
            out.push(&[], Bytes::from(bytes));
            return Some(Transmit { face });
        }
        let transmit = self.router.poll_transmit(now, out)?;
        let bytes = || out.iter().map(|(head, body)| head.len() + body.len());
        self.neighbour.on_sent(transmit.face, bytes().max().unwrap_or(0));
        self.neighbour.on_carried(transmit.face, bytes().sum());
        if self.router.timeouts(transmit.face) > 0 {
            self.neighbour.on_unanswered(now, transmit.face);
            self.hellos.extend(core::iter::from_fn(|| self.neighbour.poll_packet()));
        }
        Some(transmit)
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        host::earliest(self.deadlines()).map(|(due, wake)| (due, TimerId(wake as u16)))
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.events.poll()
    }
}

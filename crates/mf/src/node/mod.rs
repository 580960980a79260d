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
    Datagram, DatagramRun, FaceId, Node, Random, Rate, Time, TimerId, TransferId, Transmit, TransmitBuf,
    event::{Event, ResolverEvent, TransferReport},
};
use tributary_transport::{Endpoint, FaceOptions, Fetch, NodeStatus};

use crate::{
    anycast::Anycasts,
    config::Config,
    custody::Answers,
    groups::Groups,
    ids::{ChunkKey, Guid, NetworkAddress, ServiceId, WEIGHT_MAX, Weighted},
    link::{Origin, Slot},
    listing::Listings,
    payload::Payload,
    receiver::Receiver,
    relay::Relays,
    resolver::{Answer, Asker, Front, GnrsClient, NameResolver, Replays, Replica, Seals},
    router::{
        Binding, Output, Router, RouterConfig, StoreReason,
        cache::ContentCache,
        link_state::Topology,
        neighbour::{Change, Identity, Neighbour},
        proxy::{ChunkRepository, Holding, Kept, MemoryRepository, Proxy, Refused, Release},
    },
    sender::{SendOptions, Sender},
    wire::{
        ChunkHeader, ChunkKind, Flags, Hello, LinkState, MtuMessage, NameMessage, NameRecord, PacketType, Readers,
        RecordBody, Roles, TransportMessage, WireError, seal, unseal,
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
}

/// How often it is tried to read a store that could not be read at the start.
const STORE_AGAIN: core::time::Duration = core::time::Duration::from_secs(5);
/// What the nonces of hellos are made for.
const NONCES: &str = "tributary 2026 mobilityfirst nonces of hellos";
/// What the tokens of transfers are made for.
const TOKENS: &str = "tributary 2026 mobilityfirst tokens of transfers";
/// Events that wait for the driver; beyond that they are dropped and counted.
const EVENTS_MAX: usize = 65_536;
/// What a face that nobody described may carry: the longest UDP payload that crosses an Ethernet in one IPv4 packet.
const FACE_DEFAULT: FaceOptions = FaceOptions { mtu: 1_472, rate: None };
/// Faces of a node at most.
const FACES_MAX: usize = 1_024;
/// Faces at most that only packets told of and where nobody has answered, so that senders of forged addresses leave room for
/// neighbours.
const STRANGERS_MAX: usize = 128;
/// Neighbours whose starts are remembered at most.
const STARTS_MAX: usize = 4_096;
/// How often what is old is forgotten, and how long a face that only packets told of is greeted in vain.
const SWEEP: core::time::Duration = core::time::Duration::from_secs(1);
const STRANGER_PATIENCE: core::time::Duration = core::time::Duration::from_secs(10);
/// The same if a neighbour has answered there before, and is away: what was learnt of the hop is worth keeping, without
/// which an outage of 30 s costs almost a second more.
const AWAY_PATIENCE: core::time::Duration = core::time::Duration::from_secs(60);
/// How often groups that are readers are asked for: sooner than they would be forgotten.
const RULES_LOOK: core::time::Duration = core::time::Duration::from_secs(15);
/// How long it is believed that a name is bound to nothing.
const NOTHING_LIFETIME: core::time::Duration = core::time::Duration::from_secs(1);

/// A node of the MobilityFirst family. See [`Endpoint`] for its commands and [`Node`] for its verbs.
pub struct MfNode {
    pub(crate) config: Config,
    pub(crate) guid: Guid,
    key: SigningKey,
    pub(crate) roles: Roles,
    pub(crate) neighbour: Neighbour,
    pub(crate) router: Router,
    pub(crate) proxy: Option<Proxy>,
    pub(crate) front: Option<Front>,
    pub(crate) replica: Option<Replica>,
    pub(crate) resolver: Box<dyn NameResolver>,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) cache: ContentCache,
    anycasts: Anycasts,
    groups: Groups,
    relays: Relays,
    /// What custodians are told of their chunks.
    pub(crate) custody: Answers,
    /// Whom the transfers to the nearest of a group go to.
    chosen: BTreeMap<(Guid, u32), Guid>,
    listings: Listings,
    /// Messages about names to and from other routers, of a router.
    seals: Option<Seals>,
    /// The numbers of the questions of each host, in its present life.
    asked: BTreeMap<Guid, (u64, Replays)>,
    /// Names, or (`None`) this node itself, of which not everybody may know what this node says.
    rules: BTreeMap<Option<Name>, Rule>,
    /// When the groups among their readers are asked for again, which are forgotten otherwise.
    rules_look_at: Time,
    /// Names of own content, for events.
    published: BTreeMap<Guid, (Name, bool)>,
    /// Destinations that are followed while something is sent to them.
    followed: BTreeSet<Guid>,
    /// Chunks that are put into the store and acknowledged when that is durable.
    storing: Vec<Slot>,
    /// Those of the commit that runs, and when to look whether it is done.
    committing: Vec<Slot>,
    commit_look_at: Option<Time>,
    /// A store that could not be read at the start, since when, and when that is tried again.
    unread: Option<(Box<dyn ChunkRepository>, Time)>,
    open_store_at: Option<Time>,
    hellos: VecDeque<(FaceId, Vec<u8>)>,
    pub(crate) faces: BTreeMap<FaceId, FaceOptions>,
    /// Faces at which a router is that has another network key, and how many of its messages were refused for that.
    pub(crate) foreign: BTreeMap<FaceId, u64>,
    /// Faces that a packet made: when a neighbour was there last, and whether there ever was one.
    strangers: BTreeMap<FaceId, (Time, bool)>,
    /// The start of each neighbour that was met last, [`STARTS_MAX`] of them.
    starts: BTreeMap<Guid, u64>,
    /// What it said last of where it is attached.
    attached_to: Vec<Weighted>,
    sweep_at: Time,
    /// Groups to which something is being sent are looked at again: they are in use, and one that does not answer counts as
    /// one of nobody after a while.
    looks_at_groups: bool,
    events: VecDeque<Event>,
    pub(crate) counters: BTreeMap<&'static str, u64>,
}

impl MfNode {
    /// A node with the roles that `config` names, its chunks in memory. Nothing is sent before a face is added.
    pub fn new(config: Config) -> MfNode {
        MfNode::with_repository(Time::ZERO, config, Box::new(MemoryRepository::default()))
    }
    /// The same with its chunks in a repository, which may have some from an earlier life.
    pub fn with_repository(now: Time, config: Config, repository: Box<dyn ChunkRepository>) -> MfNode {
        let mut random = Random::new(config.seed, config.node.0);
        let key = SigningKey::from_secret(&config.secret);
        let guid = Guid::of(&key.public(), &[]);
        let mut roles = Roles::HOST;
        if config.router {
            roles = roles | Roles::ROUTER;
            if config.proxy.enabled {
                roles = roles | Roles::PROXY;
            }
        }
        if config.resolver {
            roles = roles | Roles::RESOLVER;
        }
        let address = if config.router { config.address } else { NetworkAddress::NONE };
        let start = random.bits().max(1);
        let nonce_secret = blake3::derive_key(NONCES, &[&config.secret[..], &config.seed.to_be_bytes()].concat());
        let (label, nonce) = (config.label.clone(), start);
        let identity = Identity { key: key.clone(), label, roles, address, nonce, nonce_secret };
        // Others know the nonce, and not the node's own secret.
        let secret = blake3::derive_key(TOKENS, &[&config.secret[..], &start.to_be_bytes()].concat());
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
        let topology = config.router.then(|| {
            let topology = Topology::new(address, guid, start, config.label.clone(), roles);
            let topology = topology.with_depleted_percent(config.proxy.depleted_percent);
            if config.network_key == [0; 32] { topology } else { topology.vouched_only() }
        });
        let resolver = GnrsClient::new(key.clone(), &config.label, config.binding_lifetime, 0);
        // Groups among them admit their members when these are known.
        let rule = |said: &BTreeSet<Guid>| Rule { said: said.clone(), readers: Readers::Only(said.clone()) };
        let rules = config.readers.iter().map(|(name, said)| (name.clone(), rule(said))).collect();
        let mut node = MfNode {
            guid,
            key,
            roles,
            neighbour: Neighbour::new(
                identity,
                config.hello_interval,
                config.search_interval,
                config.buffer_packets / 2,
            ),
            router: Router::new(router, topology),
            proxy: None,
            unread: None,
            front: config.router.then(|| Front::new(address, guid, usize::from(config.replicas))),
            replica: config.resolver.then(Replica::default),
            resolver: Box::new(resolver),
            sender: Sender::new(guid, config.transfer.clone(), random.bits() as u32, &secret),
            receiver: Receiver::new(config.transfer.clone(), random.below(1 << 24) as u32, &secret),
            cache: ContentCache::new(if config.router { config.cache_bytes } else { tributary_core::ByteCount(0) }),
            anycasts: Anycasts::default(),
            groups: Groups::default(),
            relays: Relays::default(),
            custody: Answers::default(),
            chosen: BTreeMap::new(),
            listings: Listings::default(),
            seals: config.router.then(|| Seals::new(&config.network_key, address, start)),
            asked: BTreeMap::new(),
            rules,
            rules_look_at: now,
            published: BTreeMap::new(),
            followed: BTreeSet::new(),
            storing: Vec::new(),
            committing: Vec::new(),
            commit_look_at: None,
            open_store_at: None,
            hellos: VecDeque::new(),
            faces: BTreeMap::new(),
            foreign: BTreeMap::new(),
            strangers: BTreeMap::new(),
            starts: BTreeMap::new(),
            attached_to: Vec::new(),
            sweep_at: now,
            looks_at_groups: false,
            events: VecDeque::new(),
            counters: BTreeMap::new(),
            config,
        };
        if node.config.router && node.config.proxy.enabled {
            node.unread = Some((repository, now));
            node.open_store(now);
        }
        node.introduce(now);
        node
    }
    /// Takes over what is in the repository. If that cannot be read now, it is tried again: meanwhile nothing is stored.
    fn open_store(&mut self, now: Time) {
        let Some((repository, since)) = self.unread.take() else { return };
        let own = (self.guid, self.config.address);
        match Proxy::open(now, self.config.proxy.clone(), own, repository) {
            Ok(proxy) => {
                let damage = proxy.damage();
                if damage.places > 0 {
                    self.push_event(Event::Note(format!(
                        "stored chunks are lost: {} places of the store are damaged, {} in all; files with damage are kept in the \
                         folder 'damaged' of the store",
                        damage.places,
                        tributary_core::ByteCount(damage.bytes)
                    )));
                }
                if since < now {
                    self.push_event(Event::Note("the stored chunks can be read now".into()));
                }
                self.proxy = Some(proxy);
            }
            Err((error, repository)) => {
                if since == now {
                    let again = STORE_AGAIN.as_secs();
                    self.push_event(Event::Note(format!(
                        "cannot read the stored chunks: {error}; nothing is stored until that succeeds, which is tried every \
                         {again} s"
                    )));
                }
                self.unread = Some((repository, since));
                self.open_store_at = Some(now + STORE_AGAIN);
            }
        }
    }
    /// Says by the resolver what the settings say of this node.
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
    /// Resolves names with another service than the embedded one, which is told what the settings say of this node; to be
    /// called before the node publishes or attaches to anything.
    pub fn set_resolver(&mut self, now: Time, resolver: Box<dyn NameResolver>) {
        self.resolver = resolver;
        self.introduce(now);
    }
    /// Keeps the records of names that this node holds for others in `repository`, and takes over those of an earlier
    /// life.
    pub fn keep_names(&mut self, now: Time, repository: Box<dyn ChunkRepository>) {
        if let Some(Err(error)) = self.replica.as_mut().map(|replica| replica.restore(now, repository)) {
            self.push_event(Event::Note(format!("cannot read the stored names: {error}")));
        }
    }
    /// Whether it holds a record at this place for others.
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
    /// What its proxy holds, for whom, until when.
    pub fn holdings(&self) -> Vec<Holding> {
        self.proxy.iter().flat_map(Proxy::holdings).collect()
    }
    /// Its forwarding part, to look at.
    pub fn router(&self) -> &Router {
        &self.router
    }
    /// Chunks that it says it stores and cannot read: there are none unless its disk is damaged. Reads all of them.
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
    /// Its end of what it sends, to look at.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    // Commands beside those of `Endpoint`.

    /// Takes objects that are sent to this node without having been asked for, if `acceptor` trusts them.
    pub fn accept(&mut self, acceptor: Box<dyn StoreOpener>) {
        self.receiver.accept(Some(acceptor));
    }
    /// Sends an object that is [offered](MfNode::offer) or published here (paper: send); gives the transfer's number.
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
        if !self.faces.contains_key(&face) {
            if !self.meet(now, face) {
                return self.refuse(face, "too many faces", bytes);
            }
        }
        match kind {
            PacketType::Hello => self.on_hello(now, face, &datagram),
            PacketType::Mtu => {
                let message = MtuMessage::decode(&datagram.into_bytes()).map_err(WireError::reason);
                if let Err(reason) = message.and_then(|message| self.neighbour.handle_mtu(now, face, message)) {
                    self.on_dropped(face, reason, bytes);
                }
            }
            PacketType::Data | PacketType::Csyn | PacketType::Cack => {
                if self.neighbour.awaits_hello(now, face) && self.router.expects(face, kind, &datagram) {
                    self.neighbour.on_expected(now, face);
                    self.settle_neighbour(now);
                }
                self.neighbour.on_heard(face);
                self.neighbour.on_carried(face, bytes);
                self.router.handle_packet(now, face, kind, datagram);
                if kind == PacketType::Cack {
                    self.neighbour.on_arrived(now, face, self.router.take_arrived(face));
                }
                if kind != PacketType::Cack && !self.router.has_outputs() {
                    // A fragment more of a chunk that is not complete concerns nobody else.
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
                    self.on_dropped(face, reason, datagram.len());
                }
            }
            Err(error) => self.on_dropped(face, error.reason(), datagram.len()),
        }
    }

    fn refuse(&mut self, face: FaceId, reason: &'static str, bytes: usize) -> Concerns {
        self.on_dropped(face, reason, bytes);
        Concerns::Hop
    }

    /// Takes note of a face that only a packet told of; false if there is no room for it.
    fn meet(&mut self, now: Time, face: FaceId) -> bool {
        let unproven = self.strangers.iter().filter(|(face, _)| self.neighbour.awaits_proof(**face));
        if unproven.clone().count() >= STRANGERS_MAX
            && let Some(oldest) = unproven.min_by_key(|(_, (met, _))| *met).map(|(face, _)| *face)
        {
            self.forget_face(now, oldest);
        }
        if self.faces.len() >= FACES_MAX {
            return false;
        }
        self.faces.insert(face, FACE_DEFAULT);
        self.neighbour.add_stranger(now, face, FACE_DEFAULT.mtu);
        self.strangers.insert(face, (now, false));
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
        self.strangers.remove(&face);
        self.foreign.remove(&face);
        self.neighbour.remove_face(face);
        self.router.remove_face(now, face);
    }
    pub(crate) fn on_dropped(&mut self, face: FaceId, reason: &'static str, bytes: usize) {
        *self.counters.entry(reason).or_default() += 1;
        self.push_event(Event::Dropped { face, reason, bytes: u32::try_from(bytes).unwrap_or(u32::MAX) });
    }
    fn push_event(&mut self, event: Event) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        } else {
            *self.counters.entry("events dropped").or_default() += 1;
        }
    }
    /// Gives up faces that a packet made and whose neighbour does not answer: greeting them for ever would let anybody
    /// aim a stream of hellos at somebody else.
    fn sweep(&mut self, now: Time) {
        self.sweep_at = now + SWEEP;
        let strangers: Vec<FaceId> = self.strangers.keys().copied().collect();
        for face in strangers {
            if self.neighbour.peer(face).is_some() {
                self.strangers.insert(face, (now, true));
            } else if let Some((last, was_there)) = self.strangers.get(&face) {
                let patience = if *was_there { AWAY_PATIENCE } else { STRANGER_PATIENCE };
                if now.since(*last) > patience {
                    self.detach_face(now, face);
                }
            }
        }
        self.router.expire(now);
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
        while let Some(text) = self.replica.as_mut().and_then(Replica::poll_note) {
            self.push_event(Event::Note(text));
        }
    }
    fn deadlines(&self) -> [(Option<Time>, Wake); 14] {
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
            (self.replica.as_ref().and_then(Replica::poll_timeout), Wake::Names),
            (self.open_store_at, Wake::Store),
        ]
    }
}

/// Who may know what a node says under a name.
struct Rule {
    /// Devices and groups, as it was said.
    said: BTreeSet<Guid>,
    /// The devices among them and in these groups, as records name them.
    readers: Readers,
}

/// Whom a packet that was taken concerns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Concerns {
    /// The hop link alone.
    Hop,
    /// Other parts of the node as well: it is to be settled.
    Node,
}

impl Node for MfNode {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        if self.take(now, face, datagram) == Concerns::Node {
            self.settle(now);
        }
    }
    fn handle_run(&mut self, now: Time, face: FaceId, run: DatagramRun) {
        let mut concerns = Concerns::Hop;
        for index in 0..run.count() {
            concerns = concerns.max(self.take(now, face, run.datagram(index)));
            if self.router.has_outputs() {
                // What has come makes room for what comes next.
                self.settle(now);
                concerns = Concerns::Hop;
            }
        }
        if concerns == Concerns::Node {
            self.settle(now);
        }
    }
    fn handle_timeout(&mut self, now: Time) {
        for (due, wake) in self.deadlines() {
            if due.is_none_or(|due| due > now) {
                continue;
            }
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
                // What is due is done when the node settles.
                Wake::Relays | Wake::Custody | Wake::Names => {}
                Wake::Commit => self.commit_look_at = None,
                Wake::Store => {
                    self.open_store_at = None;
                    self.open_store(now);
                }
                Wake::Sweep => self.sweep(now),
            }
        }
        self.settle(now);
    }
    fn handle_storage(&mut self, now: Time) {
        self.receiver.handle_storage(now);
        self.sender.handle_storage();
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
        let due = self.deadlines().into_iter().filter_map(|(due, wake)| Some((due?, wake)));
        due.min_by_key(|(due, _)| *due).map(|(due, wake)| (due, TimerId(wake as u16)))
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

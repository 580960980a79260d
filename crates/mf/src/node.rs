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
    Datagram, FaceId, Node, Random, Rate, Time, TimerId, TransferId, Transmit, TransmitBuf,
    event::{Event, ResolverEvent, TransferReport},
};
use tributary_transport::{Endpoint, FaceOptions, Fetch, NodeStatus};

use crate::{
    anycast::Anycasts,
    config::Config,
    ids::{Guid, NetworkAddress, ServiceId},
    link::{Origin, Slot},
    listing::Listings,
    receiver::Receiver,
    resolver::{Answer, Asker, Front, GnrsClient, NameResolver, Replica},
    router::{
        Output, Router, RouterConfig, StoreReason,
        cache::ContentCache,
        link_state::Topology,
        neighbour::{Change, Identity, Neighbour},
        proxy::{ChunkRepository, Holding, Kept, MemoryRepository, Proxy, Refused, Release},
    },
    sender::{SendOptions, Sender},
    wire::{
        ChunkHeader, ChunkKind, Flags, Hello, LinkState, NameMessage, NameRecord, PacketType, RecordBody, Roles,
        TransportMessage, seal, unseal,
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
    Sweep,
}

/// Events that wait for the driver; beyond that they are dropped and counted.
const EVENTS_MAX: usize = 65_536;
/// What a face that nobody described may carry: the longest UDP payload that crosses an Ethernet in one IPv4 packet.
const FACE_DEFAULT: FaceOptions = FaceOptions { mtu: 1_472, rate: None };
/// Faces of a node at most.
const FACES_MAX: usize = 1_024;
/// How often what is old is forgotten, and how long a face that only packets told of is greeted in vain.
const SWEEP: core::time::Duration = core::time::Duration::from_secs(1);
const STRANGER_PATIENCE: core::time::Duration = core::time::Duration::from_secs(10);
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
    resolver: Box<dyn NameResolver>,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) cache: ContentCache,
    anycasts: Anycasts,
    listings: Listings,
    /// Names of own content, for events.
    published: BTreeMap<Guid, (Name, bool)>,
    /// Destinations that are followed while something is sent to them.
    followed: BTreeSet<Guid>,
    /// Chunks that are put into the store and acknowledged when that is durable.
    storing: Vec<Slot>,
    hellos: VecDeque<(FaceId, Vec<u8>)>,
    pub(crate) faces: BTreeMap<FaceId, FaceOptions>,
    strangers: BTreeMap<FaceId, Time>,
    sweep_at: Time,
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
        let identity =
            Identity { key: key.clone(), label: config.label.clone(), roles, address, nonce: random.bits().max(1) };
        let router = RouterConfig {
            guid,
            address: config.router.then_some(config.address),
            hop: config.hop.clone(),
            buffer_packets: config.buffer_packets,
            relief: config.relief,
            store_ratio: config.store_ratio,
            stores: config.router && config.proxy.enabled,
            depleted_percent: config.proxy.depleted_percent,
            first_hop: random.bits() as u32,
        };
        let topology = config.router.then(|| Topology::new(address, guid, config.label.clone(), roles));
        let mut events = VecDeque::new();
        let proxy = if config.router && config.proxy.enabled {
            match Proxy::new(now, config.proxy.clone(), (guid, address), repository) {
                Ok(proxy) => Some(proxy),
                Err(error) => {
                    events.push_back(Event::Note(format!("cannot read the stored chunks: {error}")));
                    None
                }
            }
        } else {
            None
        };
        let mut resolver = GnrsClient::new(key.clone(), config.binding_lifetime, 0);
        if config.router {
            resolver.put(now, RecordBody::Device(Vec::from([(address, 255)])));
        }
        MfNode {
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
            proxy,
            front: config.router.then(|| Front::new(address, usize::from(config.replicas))),
            replica: config.resolver.then(Replica::default),
            resolver: Box::new(resolver),
            sender: Sender::new(guid, config.transfer.clone(), random.bits() as u32),
            receiver: Receiver::new(config.transfer.clone(), random.below(1 << 24) as u32),
            cache: ContentCache::new(if config.router { config.cache_bytes } else { tributary_core::ByteCount(0) }),
            anycasts: Anycasts::default(),
            listings: Listings::default(),
            published: BTreeMap::new(),
            followed: BTreeSet::new(),
            storing: Vec::new(),
            hellos: VecDeque::new(),
            faces: BTreeMap::new(),
            strangers: BTreeMap::new(),
            sweep_at: now,
            events,
            counters: BTreeMap::new(),
            config,
        }
    }
    /// Resolves names with another service than the embedded one.
    pub fn set_resolver(&mut self, resolver: Box<dyn NameResolver>) {
        self.resolver = resolver;
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
    /// What its proxy holds, for whom, until when.
    pub fn holdings(&self) -> Vec<Holding> {
        self.proxy.iter().flat_map(Proxy::holdings).collect()
    }
    /// Its forwarding part, to look at.
    pub fn router(&self) -> &Router {
        &self.router
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
        self.receiver.accept(acceptor);
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

    // Chunks.

    fn on_output(&mut self, now: Time, output: Output) {
        match output {
            Output::Arrived(slot) => self.on_passing(now, slot),
            Output::Local(slot) => self.on_local(now, slot),
            Output::Store(slot, reason) => self.on_store(now, slot, reason),
            Output::Resolve(guid) => self.resolver.lookup(now, guid),
            Output::Delivered(key) => {
                if let Some(proxy) = &mut self.proxy {
                    proxy.on_delivered(&key);
                    proxy.on_change();
                }
            }
            Output::Lost(header, reason) => {
                if let Some(proxy) = &mut self.proxy {
                    match header.key() {
                        Some(key) if proxy.holds_for(&header.destination) => {
                            proxy.on_lost(&key);
                        }
                        _ => {}
                    }
                    proxy.report_dropped(now, &header);
                }
                self.on_dropped(FaceId::default(), reason, header.payload_bytes as usize);
            }
            Output::Dropped(face, reason, bytes) => self.on_dropped(face, reason, bytes),
        }
    }
    /// A chunk has come from a neighbour.
    fn on_passing(&mut self, now: Time, slot: Slot) {
        let Some(header) = self.router.buffer.chunk(slot).and_then(|chunk| chunk.header.clone()) else { return };
        if !self.config.router || header.destination == self.guid {
            return self.router.forward(now, slot);
        }
        match &header.kind {
            ChunkKind::Data(tag) => {
                if header.service == ServiceId::ContentResponse
                    && !header.flags.contains(Flags::NO_CACHE)
                    && let Some(chunk) = self.router.buffer.chunk(slot)
                {
                    self.cache.insert(tag, || chunk.payload(), u64::from(header.payload_bytes));
                }
                if header.flags.contains(Flags::DELEGATE) && self.router.is_attached(&header.source) {
                    self.delegate(now, slot, &header);
                }
            }
            ChunkKind::Transport if header.service == ServiceId::ContentRequest => {
                if self.answer_or_bind(now, slot, &header) {
                    return;
                }
            }
            ChunkKind::Transport if self.router.is_attached(&header.destination) || self.proxy.is_some() => {
                if self.answer_for_producer(slot, &header) {
                    return;
                }
            }
            ChunkKind::Transport | ChunkKind::Names | ChunkKind::LinkState => {}
        }
        self.router.forward(now, slot);
    }
    /// Keeps a copy for a producer that may be gone when something is missing (paper §3.3, producer delegation).
    fn delegate(&mut self, now: Time, slot: Slot, header: &ChunkHeader) {
        let (Some(proxy), Some(chunk)) = (&mut self.proxy, self.router.buffer.chunk(slot)) else { return };
        let mut copy = header.clone();
        copy.flags = copy.flags.without(Flags::DELEGATE);
        if proxy.put(now, &copy, &chunk.payload(), Kept::Delegated).is_ok()
            && let Some(header) = self.router.buffer.header_mut(slot)
        {
            // One copy is enough.
            *header = copy;
        }
    }
    /// Answers a request out of the cache, or sends it to the nearest that has the content; true if that is done.
    fn answer_or_bind(&mut self, now: Time, slot: Slot, header: &ChunkHeader) -> bool {
        let payload = self.router.buffer.chunk(slot).map(crate::link::Chunk::payload).unwrap_or_default();
        if let Ok(message @ TransportMessage::Request { object, .. }) = TransportMessage::decode(&payload)
            && !header.flags.contains(Flags::NO_CACHE)
            && let Some(cut) = self.cache.look(&object)
        {
            self.router.consume(slot);
            self.sender.handle_request(now, header, &message, Some(cut));
            return true;
        }
        if header.addresses.is_empty() && !self.router.is_attached(&header.destination) {
            self.router.consume(slot);
            self.anycasts.insert(now, header.clone(), payload);
            self.resolver.lookup(now, header.destination);
            return true;
        }
        false
    }
    /// Sends copies of what is missing for a producer that delegated; true if the producer need not see the message.
    fn answer_for_producer(&mut self, slot: Slot, header: &ChunkHeader) -> bool {
        let flow = crate::ids::Flow { source: header.destination, destination: header.source };
        let Some(proxy) = self.proxy.as_mut().filter(|proxy| proxy.answers_for(&flow)) else { return false };
        let payload = self.router.buffer.chunk(slot).map(crate::link::Chunk::payload).unwrap_or_default();
        match TransportMessage::decode(&payload) {
            Ok(TransportMessage::Status { transfer, object, missing, .. }) if !missing.is_empty() => {
                let left = proxy.handle_push(&flow, transfer, object, &missing);
                let done = left.is_empty() || !self.router.is_attached(&header.destination);
                if done {
                    self.router.consume(slot);
                }
                done
            }
            Ok(TransportMessage::Ack { transfer, object, complete: true, .. }) => {
                proxy.on_complete(&flow, transfer, object);
                false
            }
            _ => false,
        }
    }
    fn on_store(&mut self, now: Time, slot: Slot, reason: StoreReason) {
        let (Some(proxy), Some(chunk)) = (&mut self.proxy, self.router.buffer.chunk(slot)) else {
            return self.router.drop_chunk(slot, "no storage");
        };
        let Some(header) = chunk.header.clone() else { return };
        match proxy.put(now, &header, &chunk.payload(), Kept::For(reason)) {
            Ok(()) => self.storing.push(slot),
            Err(Refused::FlowFull) if reason != StoreReason::Relief && reason != StoreReason::BadPath => {
                self.router.drop_chunk(slot, "its flow has its share of the store");
            }
            Err(_) => self.router.refuse_store(now, slot, reason),
        }
    }
    /// Makes durable what was stored, and only then lets go of it.
    fn commit(&mut self) {
        let Some(proxy) = &mut self.proxy else { return };
        match proxy.commit() {
            Ok(()) => {
                for slot in core::mem::take(&mut self.storing) {
                    self.router.consume(slot);
                }
            }
            Err(error) => {
                for slot in core::mem::take(&mut self.storing) {
                    self.router.drop_chunk(slot, "the store failed");
                }
                self.push_event(Event::Note(format!("cannot store chunks: {error}")));
            }
        }
    }
    fn on_local(&mut self, now: Time, slot: Slot) {
        let Some(chunk) = self.router.consume(slot) else { return };
        let payload = chunk.payload();
        let from = if let Origin::Face(face, _) = chunk.origin { face } else { FaceId::default() };
        let Some(header) = chunk.header else { return };
        match header.kind {
            ChunkKind::Data(_) => self.receiver.handle_data(now, &header, &payload),
            ChunkKind::LinkState => {
                let state = unseal(&self.config.network_key, &payload).and_then(LinkState::decode);
                match (state, &mut self.router.topology) {
                    (Ok(state), Some(topology)) => topology.handle_state(now, from, state),
                    (Ok(_), None) => {}
                    (Err(error), _) => self.on_dropped(from, error.reason(), payload.len()),
                }
            }
            ChunkKind::Transport => match TransportMessage::decode(&payload) {
                Ok(message) => self.on_transport(now, &header, &message),
                Err(error) => self.on_dropped(from, error.reason(), payload.len()),
            },
            ChunkKind::Names => match NameMessage::decode(&payload) {
                Ok(message) => self.on_names(now, &header, message),
                Err(error) => self.on_dropped(from, error.reason(), payload.len()),
            },
        }
    }
    fn on_transport(&mut self, now: Time, header: &ChunkHeader, message: &TransportMessage) {
        match message {
            TransportMessage::Request { .. } => self.sender.handle_request(now, header, message, None),
            TransportMessage::Push { flow, transfer, object, chunks } => {
                // Only the source of a flow may say when its chunks go.
                if let Some(proxy) = self.proxy.as_mut().filter(|_| flow.source == header.source) {
                    proxy.handle_push(flow, *transfer, *object, chunks);
                }
            }
            TransportMessage::Unavailable { .. } => self.receiver.handle_message(now, header.source, message),
            TransportMessage::Status { .. }
            | TransportMessage::Ack { .. }
            | TransportMessage::Stored { .. }
            | TransportMessage::Dropped { .. } => {
                self.sender.handle_message(now, header.source, header.source_address, message);
            }
        }
    }
    fn on_names(&mut self, now: Time, header: &ChunkHeader, message: NameMessage) {
        let asker = Asker { guid: header.source, address: header.source_address };
        let is_question =
            matches!(message, NameMessage::Put { .. } | NameMessage::Lookup { .. } | NameMessage::Watch { .. });
        let to_router = header.destination.is_none();
        match (is_question, &mut self.front, &mut self.replica) {
            // A question of a front has the address of its router, one of a host has not.
            (true, _, Some(replica)) if !asker.address.is_none() => replica.handle(now, asker, message),
            (true, Some(front), _) => front.handle_question(now, asker, message),
            (false, Some(front), _) if to_router => front.handle_answer(now, asker.address, message),
            (false, ..) => self.resolver.handle_message(now, message),
            (true, ..) => *self.counters.entry("question to a node without names").or_default() += 1,
        }
    }
    fn originate(&mut self, now: Time, mut header: ChunkHeader, payload: &Bytes, origin: Origin) {
        if header.source == self.guid && header.kind != ChunkKind::Names {
            header.source_address = self.own_address();
        }
        self.router.originate(now, header, payload, origin);
    }
    /// Where this node is: at itself, or at the first of its access routers.
    fn own_address(&self) -> NetworkAddress {
        match self.config.router {
            true => self.config.address,
            false => self.access_routers().first().map_or(NetworkAddress::NONE, |(_, address)| *address),
        }
    }
    fn access_routers(&self) -> Vec<(FaceId, NetworkAddress)> {
        let routers = self.router.peers().filter(|(_, peer)| peer.roles.contains(Roles::ROUTER));
        routers.map(|(face, peer)| (face, peer.address)).collect()
    }
    fn send_message(&mut self, now: Time, to: Guid, address: NetworkAddress, message: &TransportMessage, flags: Flags) {
        let mut header = ChunkHeader::new(ChunkKind::Transport, self.guid, to, address);
        header.flags = flags;
        if let TransportMessage::Request { .. } = message {
            header.service = ServiceId::ContentRequest;
        }
        let mut payload = Vec::new();
        message.encode(&mut payload);
        header.payload_bytes = payload.len() as u32;
        if self.config.router && header.service == ServiceId::ContentRequest && to != self.guid {
            // A router's own requests go through its own cache and its own choice of the nearest.
            header.source_address = self.own_address();
            let slot = self.router.buffer.put(header.clone(), Vec::from([payload.into()]), Origin::Local);
            if !self.answer_or_bind(now, slot, &header) {
                self.router.forward(now, slot);
            }
            return;
        }
        self.originate(now, header, &payload.into(), Origin::Local);
    }

    // Messages between the parts.

    /// Moves messages between the parts until none is left.
    fn settle(&mut self, now: Time) {
        loop {
            let mut moved = self.settle_neighbour(now);
            moved |= self.settle_router(now);
            moved |= self.settle_names(now);
            moved |= self.settle_ends(now);
            moved |= self.settle_proxy(now);
            if !moved {
                break;
            }
        }
    }
    fn settle_neighbour(&mut self, now: Time) -> bool {
        let mut moved = false;
        while let Some(change) = self.neighbour.poll_change() {
            moved = true;
            let (face, peer, up) = match change {
                Change::Up(face, peer) => (face, peer, true),
                Change::Down(face, peer) => (face, peer, false),
            };
            let node = crate::receiver::node_of(&peer.guid);
            self.push_event(Event::Neighbour { face, node, up });
            let (guid, is_router) = (peer.guid, peer.roles.contains(Roles::ROUTER));
            if up {
                self.router.on_up(now, face, peer);
                if let Some(proxy) = &mut self.proxy {
                    proxy.on_reachable(&guid);
                }
            } else {
                self.router.on_down(now, face);
            }
            if is_router && !self.config.router {
                self.on_attachment(now, up);
            }
        }
        while let Some(packet) = self.neighbour.poll_packet() {
            self.hellos.push_back(packet);
        }
        moved
    }
    /// A host has an access router more, or less: its name follows.
    fn on_attachment(&mut self, now: Time, up: bool) {
        let routers = self.access_routers();
        self.receiver.set_attached(now, !routers.is_empty());
        if routers.is_empty() {
            return;
        }
        let addresses = routers.iter().map(|(_, address)| (*address, 128)).collect();
        self.resolver.put(now, RecordBody::Device(addresses));
        if up {
            self.resolver.on_reachable(now);
        }
    }
    fn settle_router(&mut self, now: Time) -> bool {
        let mut moved = false;
        while let Some(output) = self.router.poll_output(now) {
            moved = true;
            self.on_output(now, output);
        }
        self.commit();
        if let Some(topology) = &mut self.router.topology {
            if let Some(proxy) = &self.proxy {
                topology.set_storage_free(now, proxy.free_percent());
            }
            if topology.update() {
                moved = true;
                self.on_routes(now);
            }
        }
        while let Some((face, state)) = self.router.topology.as_mut().and_then(Topology::poll_message) {
            moved = true;
            let mut message = Vec::with_capacity(256);
            state.encode(&mut message);
            seal(&self.config.network_key, &mut message);
            self.router.tell(now, face, message.into());
        }
        moved
    }
    fn on_routes(&mut self, now: Time) {
        let Some(topology) = &self.router.topology else { return };
        let mut members: Vec<(u64, NetworkAddress)> = topology
            .reachable()
            .filter(|(state, _)| state.roles.contains(Roles::RESOLVER))
            .map(|(state, distance)| (distance, state.router))
            .collect();
        members.sort_unstable();
        let members: Vec<NetworkAddress> = members.into_iter().map(|(_, address)| address).collect();
        if let Some(front) = &mut self.front {
            let first = front.members().is_empty() && !members.is_empty();
            front.handle_members(now, members);
            if first {
                self.resolver.on_reachable(now);
            }
        }
        self.receiver.set_attached(now, true);
        if let Some(proxy) = &mut self.proxy {
            proxy.on_change();
        }
    }
    fn settle_names(&mut self, now: Time) -> bool {
        let mut moved = false;
        while let Some(message) = self.resolver.poll_message() {
            moved = true;
            let asker = Asker { guid: self.guid, address: NetworkAddress::NONE };
            let router = self.access_routers().first().map(|(_, address)| *address);
            match (&mut self.front, router) {
                (Some(front), _) => front.handle_question(now, asker, message),
                (None, Some(router)) => self.send_names(now, Guid::NONE, router, &message),
                // It is asked again when a router is there.
                (None, None) => {}
            }
        }
        while let Some((to, message)) = self.front.as_mut().and_then(Front::poll_message) {
            moved = true;
            if to == self.config.address {
                let asker = Asker { guid: self.guid, address: to };
                match &mut self.replica {
                    Some(replica) => replica.handle(now, asker, message),
                    None => *self.counters.entry("question to a node without names").or_default() += 1,
                }
            } else {
                self.send_names(now, Guid::NONE, to, &message);
            }
        }
        while let Some((to, message)) = self.replica.as_mut().and_then(Replica::poll_message) {
            moved = true;
            match &mut self.front {
                Some(front) if to.address == self.config.address => {
                    front.handle_answer(now, self.config.address, message);
                }
                _ => self.send_names(now, Guid::NONE, to.address, &message),
            }
        }
        while let Some((to, message)) = self.front.as_mut().and_then(Front::poll_answer) {
            moved = true;
            if to.guid == self.guid {
                self.resolver.handle_message(now, message);
            } else {
                let address = self.config.address;
                self.send_names(now, to.guid, address, &message);
            }
        }
        while let Some(answer) = self.resolver.poll_answer() {
            moved = true;
            self.on_answer(now, answer);
        }
        moved
    }
    fn send_names(&mut self, now: Time, to: Guid, address: NetworkAddress, message: &NameMessage) {
        let mut header = ChunkHeader::new(ChunkKind::Names, self.guid, to, address);
        if self.config.router {
            header.source_address = self.config.address;
        }
        let mut payload = Vec::new();
        message.encode(&mut payload);
        self.originate(now, header, &payload.into(), Origin::Local);
    }
    fn on_answer(&mut self, now: Time, answer: Answer) {
        match answer {
            Answer::Found(place, records) => {
                self.on_device(now, place, records.iter().find(|record| record.author() == place));
                self.on_announced(now, place, &records);
                self.anycasts.handle_records(place, &records);
                for device in self.anycasts.wanted() {
                    self.resolver.lookup(now, device);
                }
                self.listings.handle_found(place, &records);
            }
            Answer::Changed(place, record) => {
                if record.author() == place {
                    self.on_device(now, place, Some(&record));
                }
                self.on_announced(now, place, core::slice::from_ref(&record));
                self.listings.handle_changed(place, &record);
            }
            Answer::Kept(guid, _) => {
                if let Some((name, here)) = self.published.get(&guid).cloned() {
                    let name = name.to_string();
                    self.push_event(Event::Resolver(if here {
                        ResolverEvent::Published { name }
                    } else {
                        ResolverEvent::Unpublished { name }
                    }));
                    // Renewals are not told again.
                    self.published.remove(&guid);
                }
            }
            Answer::Refused(guid, refusal) => {
                if let Some((name, here)) = self.published.get(&guid) {
                    let (name, operation) = (name.to_string(), if *here { "publish" } else { "unpublish" });
                    let reason = format!("the name service refused: {refusal:?}");
                    self.push_event(Event::Resolver(ResolverEvent::Rejected { name, operation, reason }));
                }
            }
        }
        while let Some(event) = self.listings.poll_event() {
            self.push_event(Event::Resolver(event));
        }
    }
    /// Where a device is, or that it is nowhere: chunks on their way and in store follow.
    fn on_device(&mut self, now: Time, guid: Guid, record: Option<&NameRecord>) {
        let (addresses, lifetime) = match record.map(NameRecord::statement) {
            Some(statement) => match &statement.body {
                RecordBody::Device(bound) => {
                    let lifetime = core::time::Duration::from_millis(u64::from(statement.lifetime_ms));
                    (bound.iter().map(|(address, _)| *address).collect(), lifetime)
                }
                RecordBody::Deleted(_) => (Vec::new(), NOTHING_LIFETIME),
                _ => return,
            },
            None => (Vec::new(), NOTHING_LIFETIME),
        };
        let elsewhere = addresses.iter().any(|address| Some(*address) != self.router_address());
        self.sender.handle_binding(&guid, &addresses);
        self.anycasts.handle_device(guid, &addresses);
        self.router.handle_binding(now, guid, addresses, lifetime);
        if elsewhere && let Some(proxy) = &mut self.proxy {
            proxy.on_reachable(&guid);
        }
    }
    fn router_address(&self) -> Option<NetworkAddress> {
        self.config.router.then_some(self.config.address)
    }
    fn on_announced(&mut self, now: Time, place: Guid, records: &[NameRecord]) {
        let manifests = records.iter().filter_map(|record| Some((record.author(), record.manifest()?)));
        let mut by_name: BTreeMap<Name, Vec<_>> = BTreeMap::new();
        for (author, manifest) in manifests.filter(|(_, manifest)| Guid::of_name(&manifest.name) == place) {
            by_name.entry(manifest.name.clone()).or_default().push((author, manifest));
        }
        for (name, found) in by_name {
            self.receiver.handle_announcements(now, &name, &found);
        }
    }
    fn settle_ends(&mut self, now: Time) -> bool {
        let mut moved = false;
        while let Some(message) = self.receiver.poll_message() {
            moved = true;
            self.send_message(now, message.to, message.address, &message.message, message.flags);
        }
        while let Some((to, address, message)) = self.sender.poll_message() {
            moved = true;
            self.send_message(now, to, address, &message, Flags::NONE);
        }
        while let Some((id, event)) = self.receiver.poll_event() {
            self.push_event(Event::Transfer(id, event));
        }
        while let Some(name) = self.receiver.poll_done() {
            moved = true;
            if !self.listings.watches(&name) {
                self.resolver.unwatch(now, Guid::of_name(&name));
            }
        }
        while let Some((object, reason)) = self.sender.poll_failure() {
            self.push_event(Event::Note(format!("cannot serve '{object}': {reason}")));
        }
        while self.router.room_for_local() || self.config.router && self.router.room_for_own() {
            let Some((header, payload)) = self.sender.poll_chunk(now, &self.cache) else { break };
            moved = true;
            self.originate(now, header, &payload, Origin::Local);
            if self.router.has_outputs() {
                break;
            }
        }
        for (header, payload) in self.anycasts.poll_ready(now, |device, address| self.router.distance(device, address))
        {
            moved = true;
            self.router.originate(now, header, &payload, Origin::Local);
        }
        let follow = self.sender.destinations();
        if follow != self.followed {
            moved = true;
            let (old, new) = (core::mem::replace(&mut self.followed, follow.clone()), follow);
            let held = |guid: &Guid| self.proxy.as_ref().is_some_and(|proxy| proxy.holds_for(guid));
            let ended: Vec<Guid> = old.difference(&new).filter(|guid| !held(guid)).copied().collect();
            ended.into_iter().for_each(|guid| self.resolver.unwatch(now, guid));
            new.difference(&old).for_each(|guid| self.resolver.watch(now, *guid));
        }
        moved
    }
    fn settle_proxy(&mut self, now: Time) -> bool {
        let mut moved = false;
        loop {
            let Some(proxy) = &mut self.proxy else { return moved };
            let router = &self.router;
            let may = |header: &ChunkHeader| router.may_release(now, header);
            let Some((header, payload)) = proxy.poll_release(may) else { break };
            moved = true;
            self.router.originate(now, header, &payload, Origin::Store);
        }
        while let Some((guid, on)) = self.proxy.as_mut().and_then(Proxy::poll_watch) {
            moved = true;
            match on {
                true => self.resolver.watch(now, guid),
                false if self.followed.contains(&guid) => {}
                false => self.resolver.unwatch(now, guid),
            }
        }
        while let Some(guid) = self.proxy.as_mut().and_then(Proxy::poll_lookup) {
            moved = true;
            self.resolver.lookup(now, guid);
        }
        while let Some((to, message)) = self.proxy.as_mut().and_then(|proxy| proxy.poll_report(now)) {
            moved = true;
            if to == self.guid {
                self.sender.handle_message(now, to, self.config.address, &message);
            } else {
                self.send_message(now, to, NetworkAddress::NONE, &message, Flags::NONE);
            }
        }
        while let Some(error) = self.proxy.as_mut().and_then(Proxy::poll_failure) {
            self.push_event(Event::Note(format!("the store of chunks failed: {error}")));
        }
        moved
    }

    // Small things.

    fn attach(&mut self, now: Time, face: FaceId, options: FaceOptions) {
        self.faces.insert(face, options);
        self.neighbour.add_face(now, face, options.mtu);
    }
    fn detach(&mut self, now: Time, face: FaceId) {
        self.faces.remove(&face);
        self.strangers.remove(&face);
        self.neighbour.remove_face(face);
        self.settle(now);
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
                self.strangers.insert(face, now);
            } else if self.strangers.get(&face).is_some_and(|answered| now.since(*answered) > STRANGER_PATIENCE) {
                self.detach(now, face);
            }
        }
        self.anycasts.expire(now);
        if let Some(replica) = &mut self.replica {
            replica.handle_timeout(now);
        }
    }
    fn deadlines(&self) -> [(Option<Time>, Wake); 9] {
        [
            (self.neighbour.poll_timeout(), Wake::Neighbour),
            (self.router.poll_timeout(), Wake::Router),
            (self.router.topology.as_ref().and_then(Topology::poll_timeout), Wake::Topology),
            (self.proxy.as_ref().and_then(Proxy::poll_timeout), Wake::Proxy),
            (self.front.as_ref().and_then(Front::poll_timeout), Wake::Front),
            (self.resolver.poll_timeout(), Wake::Resolver),
            (self.sender.poll_timeout(), Wake::Sender),
            (self.receiver.poll_timeout(), Wake::Receiver),
            ((!self.faces.is_empty()).then_some(self.sweep_at), Wake::Sweep),
        ]
    }
}

impl Node for MfNode {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        let kind = match datagram.header_bytes().first().map(|first| PacketType::of(*first)) {
            Some(Ok(kind)) => kind,
            Some(Err(error)) => return self.on_dropped(face, error.reason(), datagram.len()),
            None => return self.on_dropped(face, "empty datagram", 0),
        };
        if !self.faces.contains_key(&face) {
            if self.faces.len() >= FACES_MAX {
                return self.on_dropped(face, "too many faces", datagram.len());
            }
            self.attach(now, face, FACE_DEFAULT);
            self.strangers.insert(face, now);
        }
        match kind {
            PacketType::Hello => self.on_hello(now, face, &datagram),
            PacketType::Data | PacketType::Csyn | PacketType::Cack => {
                self.router.handle_packet(now, face, kind, datagram);
                if kind != PacketType::Cack && !self.router.has_outputs() {
                    // A fragment more of a chunk that is not complete concerns nobody else.
                    return;
                }
            }
        }
        self.settle(now);
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
                Wake::Receiver => self.receiver.handle_timeout(now),
                Wake::Sweep => self.sweep(now),
            }
        }
        self.settle(now);
    }
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        if let Some((face, bytes)) = self.hellos.pop_front() {
            out.push(&[], Bytes::from(bytes));
            return Some(Transmit { face });
        }
        self.router.poll_transmit(now, out)
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        let due = self.deadlines().into_iter().filter_map(|(due, wake)| Some((due?, wake)));
        due.min_by_key(|(due, _)| *due).map(|(due, wake)| (due, TimerId(wake as u16)))
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

impl Endpoint for MfNode {
    fn add_face(&mut self, now: Time, face: FaceId, options: FaceOptions) {
        self.attach(now, face, options);
        self.strangers.remove(&face);
        self.settle(now);
    }
    fn remove_face(&mut self, now: Time, face: FaceId) {
        self.detach(now, face);
    }
    fn publish(&mut self, now: Time, object: Box<dyn ObjectReader>) {
        let manifest = object.manifest().clone();
        let content = Guid::of_content(&manifest.publisher, &manifest.name);
        self.sender.publish(object);
        self.published.insert(content, (manifest.name.clone(), true));
        self.resolver.put(now, RecordBody::Content(manifest.encode()));
        self.settle(now);
    }
    fn unpublish(&mut self, now: Time, name: &Name) {
        let publisher =
            self.sender.by_name(name).and_then(|object| Some(self.sender.object(&object)?.manifest().publisher));
        match publisher {
            Some(publisher) => {
                let content = Guid::of_content(&publisher, name);
                self.sender.unpublish(name);
                self.published.insert(content, (name.clone(), false));
                self.resolver.delete(now, content);
            }
            None => self.push_event(Event::Resolver(ResolverEvent::Rejected {
                name: name.to_string(),
                operation: "unpublish",
                reason: String::from("it is not published here"),
            })),
        }
        self.settle(now);
    }
    fn fetch(&mut self, now: Time, fetch: Fetch) -> TransferId {
        let place = Guid::of_name(&fetch.name);
        let id = self.receiver.fetch(now, fetch);
        self.resolver.watch(now, place);
        self.settle(now);
        id
    }
    fn cancel(&mut self, now: Time, transfer: TransferId) {
        self.receiver.cancel(now, transfer);
        self.settle(now);
    }
    fn watch(&mut self, now: Time, scope: &Name) {
        self.listings.watch(scope);
        self.resolver.watch(now, Guid::of_name(scope));
        self.push_event(Event::Resolver(ResolverEvent::Subscribed { name: scope.to_string() }));
        self.settle(now);
    }
    fn unwatch(&mut self, now: Time, scope: &Name) {
        self.listings.unwatch(scope);
        if !self.receiver.wants(scope) {
            self.resolver.unwatch(now, Guid::of_name(scope));
        }
        self.push_event(Event::Resolver(ResolverEvent::Unsubscribed { name: scope.to_string() }));
        self.settle(now);
    }
    fn leave(&mut self, now: Time) {
        let names: Vec<Name> = self.sender.published().map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.unpublish(now, name));
        self.resolver.delete(now, self.guid);
        self.settle(now);
    }
    fn limit(&mut self, now: Time, transfer: Option<TransferId>, rate: Option<Rate>) {
        self.receiver.set_limit(now, transfer, rate);
    }
    fn report(&self, now: Time, transfer: TransferId) -> Option<TransferReport> {
        self.receiver.report(now, transfer)
    }
    fn transfers(&self) -> Vec<(TransferId, Name)> {
        self.receiver.transfers()
    }
    fn status(&self, now: Time) -> NodeStatus {
        self.status_at(now)
    }
}

/// Whether a chunk may leave the store now; see [`Proxy::poll_release`].
impl Router {
    fn may_release(&self, now: Time, header: &ChunkHeader) -> Release {
        let mut bound = header.clone();
        bound.addresses.clear();
        match self.verdict(now, &bound) {
            Some(true) => Release::Now,
            Some(false) => Release::Later,
            None => Release::Away,
        }
    }
}

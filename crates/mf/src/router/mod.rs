//! Moves chunks from face to face: back-pressure, late binding, storage-aware routing (paper §3.2 to §3.4).
//!
//! ```text
//!   face ──► Incoming ──► Buffer ──► node: cache? delegated? ──► forward ─┬─► queue ──► Outgoing ──► face
//!                                                                         ├─► this node
//!                                                                         ├─► proxy (away, bad path, in the way)
//!                                                                         └─► waits for its name to be resolved
//! ```
//! | what | module |
//! |---|---|
//! | greeting, attachment, SETT and LETT of links | [`neighbour`] |
//! | link state and routes | [`link_state`] |
//! | where a chunk goes | [`binding`] |
//! | storage for destinations that are away | [`proxy`] |
//! | content cache | [`cache`] |
pub mod binding;
pub mod cache;
pub mod link_state;
pub mod neighbour;
pub mod proxy;

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use bytes::Bytes;
use tributary_content::ObjectId;
use tributary_core::{Datagram, Duration, FaceId, Time, Transmit, TransmitBuf};

use self::{
    binding::{Bindings, Way},
    link_state::Topology,
    neighbour::Peer,
};
use crate::{
    config::HolRelief,
    ids::{ChunkKey, Flow, Guid, NetworkAddress, ServiceId},
    link::{Arrived, Buffer, Chunk, Forwarding, HopConfig, Incoming, Origin, Outgoing, Sent, Slot, buffer::cut},
    wire::{
        Cack, ChunkHeader, ChunkKind, Class, Csyn, DATA_HEADER_BYTES_MAX, DataHeader, Flags, PacketType, Roles,
        WireError,
    },
};

/// Packets of control chunks that a node holds.
const CONTROL_PACKETS: u32 = 16_384;
/// A window below this may not take one chunk; when it opens again the neighbour is told.
const WINDOW_LOW: u32 = 1_200;
/// A window from which on a neighbour counts as having nothing to do.
const WINDOW_FULL: u32 = 1 << 16;
/// How long a face counts as one that is in use.
const ACTIVE: Duration = Duration::from_secs(2);
/// How long chunks wait for their name to be resolved.
const RESOLVE_PATIENCE: Duration = Duration::from_secs(3);
/// How long chunks are kept here that a router with depleted storage gave back.
const DIVERSION: Duration = Duration::from_secs(30);
/// Chunks in a queue that are never pushed to the proxy; out of the store no more than these are put into it.
const QUEUE_KEPT: usize = 2;
/// How long nothing is pushed to a proxy that had no room.
const RELIEF_PAUSE: Duration = Duration::from_millis(200);

/// Settings of the forwarding part of a node.
#[derive(Clone, Debug)]
pub struct RouterConfig {
    /// The node's GUID.
    pub guid: Guid,
    /// Its address, if it is a router.
    pub address: Option<NetworkAddress>,
    /// The hop link.
    pub hop: HopConfig,
    /// Packets of the back-pressure buffer.
    pub buffer_packets: u32,
    /// What is done about head-of-line blocking.
    pub relief: HolRelief,
    /// When a path is bad.
    pub store_ratio: f64,
    /// Whether there is a proxy.
    pub stores: bool,
    /// Below so many percent the storage of another router counts as depleted.
    pub depleted_percent: u8,
    /// Where hop ids start.
    pub first_hop: u32,
}

/// Why a chunk is pushed to the proxy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StoreReason {
    /// The destination has no address, or is not where its address says.
    Away,
    /// There is no way to its address.
    NoRoute,
    /// The way is much worse than usual (GSTAR).
    BadPath,
    /// It is in the way of others (paper §3.4.3).
    Relief,
    /// The storage where it would have to wait is depleted.
    Depleted,
}

/// What the router leaves to the node.
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// A whole chunk has come from a neighbour: look at it, then [`Router::forward`] or [`Router::consume`] it.
    Arrived(Slot),
    /// It is for this node: look at it, then [`Router::consume`] it.
    Local(Slot),
    /// Keep it: [`Router::consume`] it once it is durable, or [`Router::refuse_store`].
    Store(Slot, StoreReason),
    /// A name has to be looked up; the answer goes to [`Router::handle_binding`].
    Resolve(Guid),
    /// The neighbour has taken over a chunk that came out of the store.
    Delivered(ChunkKey),
    /// A chunk of data is lost for good, and why.
    Lost(ChunkHeader, &'static str),
    /// Bytes that made no sense.
    Dropped(FaceId, &'static str, usize),
}

/// Counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RouterStats {
    /// Whole chunks that came from neighbours.
    pub arrived: u64,
    /// Chunks that neighbours took over.
    pub sent: u64,
    /// Chunks made here or brought out of the store.
    pub originated: u64,
    /// Chunks that were for this node, or were stored, or answered by the cache.
    pub consumed: u64,
    /// Chunks dropped.
    pub dropped: u64,
    /// Chunks sent on before they were complete.
    pub cut_through: u64,
    /// Chunks pushed to the proxy because they were in the way.
    pub relieved: u64,
}

struct Hop {
    peer: Option<Peer>,
    /// The neighbour's nonce when it was last there.
    nonce: u64,
    datagram_bytes: u32,
    incoming: Incoming,
    outgoing: Outgoing,
    /// Chunks that wait, by the tag that makes objects take turns.
    queue: VecDeque<(u64, Slot)>,
    /// The tag of the chunk that was begun last, and of the last chunk of each object.
    turn: u64,
    turns: BTreeMap<(Flow, ObjectId), u64>,
    queued: u32,
    used_at: Option<Time>,
    sent: (u64, u64),
    received: (u64, u64),
}

/// The forwarding part of a node; see the [module](self).
pub struct Router {
    config: RouterConfig,
    /// Everything that is on its way through this node.
    pub buffer: Buffer,
    hops: BTreeMap<FaceId, Hop>,
    attached: BTreeMap<Guid, FaceId>,
    /// Routes, if this is a router.
    pub topology: Option<Topology>,
    bindings: Bindings,
    unresolved: BTreeMap<Guid, (Time, Vec<Slot>)>,
    /// Chunks of a host that is attached nowhere.
    waiting: Vec<Slot>,
    /// Chunks that are sent on while they arrive.
    cut: BTreeMap<Slot, FaceId>,
    diverted: BTreeMap<Guid, Time>,
    relief_after: Time,
    outputs: VecDeque<Output>,
    last_face: FaceId,
    /// Counters.
    pub stats: RouterStats,
}

impl Router {
    /// Without faces.
    pub fn new(config: RouterConfig, topology: Option<Topology>) -> Router {
        Router {
            buffer: Buffer::new(config.buffer_packets, CONTROL_PACKETS),
            config,
            hops: BTreeMap::new(),
            attached: BTreeMap::new(),
            topology,
            bindings: Bindings::default(),
            unresolved: BTreeMap::new(),
            waiting: Vec::new(),
            cut: BTreeMap::new(),
            diverted: BTreeMap::new(),
            relief_after: Time::ZERO,
            outputs: VecDeque::new(),
            last_face: FaceId(0),
            stats: RouterStats::default(),
        }
    }

    // Neighbours.

    /// A neighbour answers.
    pub fn on_up(&mut self, now: Time, face: FaceId, peer: Peer) {
        let (config, first_hop) = (self.config.hop.clone(), self.config.first_hop);
        let hop = self.hops.entry(face).or_insert_with(|| Hop {
            peer: None,
            nonce: peer.nonce,
            datagram_bytes: peer.datagram_bytes,
            incoming: Incoming::new(face, config.arriving_lifetime),
            outgoing: Outgoing::new(config, peer.datagram_bytes, first_hop),
            queue: VecDeque::new(),
            turn: 0,
            turns: BTreeMap::new(),
            queued: 0,
            used_at: None,
            sent: (0, 0),
            received: (0, 0),
        });
        if hop.nonce != peer.nonce {
            hop.nonce = peer.nonce;
            hop.outgoing.reset();
            for slot in hop.incoming.reset(&self.buffer) {
                self.buffer.remove(slot);
            }
        }
        hop.datagram_bytes = peer.datagram_bytes;
        hop.outgoing.set_datagram_bytes(peer.datagram_bytes);
        hop.outgoing.set_first_window(peer.window);
        self.attached.insert(peer.guid, face);
        if let Some(topology) = self.topology.as_mut().filter(|_| peer.roles.contains(Roles::ROUTER)) {
            topology.on_up(now, face, peer.address);
        }
        let guid = peer.guid;
        hop.peer = Some(peer);
        for slot in core::mem::take(&mut self.waiting) {
            self.forward(now, slot);
        }
        self.retry(now, guid);
    }
    /// It does not any more: what waits for it goes another way.
    pub fn on_down(&mut self, now: Time, face: FaceId) {
        let Some(hop) = self.hops.get_mut(&face) else { return };
        let Some(peer) = hop.peer.take() else { return };
        if self.attached.get(&peer.guid) == Some(&face) {
            self.attached.remove(&peer.guid);
        }
        let mut again = hop.outgoing.suspend(now, &self.buffer);
        again.extend(hop.queue.drain(..).map(|(_, slot)| slot));
        hop.queued = 0;
        self.cut.retain(|_, to| *to != face);
        if let Some(topology) = self.topology.as_mut().filter(|_| peer.roles.contains(Roles::ROUTER)) {
            topology.on_down(now, face);
            topology.handle_timeout(now, |_| (1, 1));
            topology.update();
        }
        for slot in again {
            if self.buffer.chunk(slot).is_some_and(Chunk::is_complete) {
                self.forward(now, slot);
            }
        }
    }
    /// Whether the holder of a GUID is attached here.
    pub fn is_attached(&self, guid: &Guid) -> bool {
        self.attached.contains_key(guid)
    }
    /// The faces where somebody is, and who.
    pub fn peers(&self) -> impl Iterator<Item = (FaceId, &Peer)> {
        self.hops.iter().filter_map(|(face, hop)| Some((*face, hop.peer.as_ref()?)))
    }

    // Packets.

    /// Takes a packet of the hop link.
    pub fn handle_packet(&mut self, now: Time, face: FaceId, kind: PacketType, datagram: Datagram) {
        let bytes = datagram.len();
        let Some(hop) = self.hops.get_mut(&face).filter(|hop| hop.peer.is_some()) else {
            return self.outputs.push_back(Output::Dropped(face, "not from a neighbour", bytes));
        };
        hop.received = (hop.received.0 + 1, hop.received.1 + bytes as u64);
        let result = match kind {
            PacketType::Data => take_data(now, hop, &datagram, &mut self.buffer).map(Some),
            PacketType::Csyn => Csyn::decode(&datagram.into_bytes()).map(|csyn| {
                hop.incoming.handle_csyn(&csyn);
                None
            }),
            PacketType::Cack => Cack::decode(&datagram.into_bytes()).map(|cack| {
                hop.outgoing.handle_cack(now, &cack, &self.buffer);
                None
            }),
            PacketType::Hello => Ok(None),
        };
        if kind == PacketType::Cack {
            self.on_sent(now, face);
        }
        let result = result.map(|arrived| arrived.into_iter().for_each(|arrived| self.on_arrived(now, arrived)));
        if let Err(error) = result {
            self.outputs.push_back(Output::Dropped(face, error.reason(), bytes));
        }
    }
    fn on_arrived(&mut self, now: Time, arrived: Arrived) {
        match arrived {
            Arrived::Nothing => {}
            Arrived::Fragment(slot, index) => {
                if let Some(face) = self.cut.get(&slot) {
                    if let Some(hop) = self.hops.get_mut(face) {
                        hop.outgoing.on_fragment(slot, index);
                    }
                } else if index == 0 && self.config.hop.forwarding == Forwarding::CutThrough {
                    self.begin_cut(now, slot);
                }
            }
            Arrived::Complete(slot) => {
                self.stats.arrived += 1;
                match self.cut.remove(&slot) {
                    Some(face) => {
                        if let Some(hop) = self.hops.get_mut(&face) {
                            hop.outgoing.on_complete(now, slot);
                        }
                        self.taken(slot);
                    }
                    None => self.outputs.push_back(Output::Arrived(slot)),
                }
            }
        }
    }
    /// Sends a chunk on while it arrives, if nothing speaks against it.
    fn begin_cut(&mut self, now: Time, slot: Slot) {
        let Some(header) = self.buffer.chunk(slot).and_then(|chunk| chunk.header.clone()) else { return };
        let plain = matches!(header.service, ServiceId::Unicast | ServiceId::ContentResponse);
        let asks_much = header.flags.contains(Flags::DELEGATE) || !plain;
        if header.tag().is_none() || asks_much || self.config.address.is_none() {
            return;
        }
        let Way::Face(face, address) = self.way(now, &header) else { return };
        let Some(hop) = self.hops.get_mut(&face) else { return };
        let count = self.buffer.chunk(slot).map_or(0, Chunk::count);
        if header.hops_left == 0 || !hop.queue.is_empty() || !hop.outgoing.can_begin(now, count) {
            return;
        }
        if let Some(header) = self.buffer.header_mut(slot) {
            header.hops_left -= 1;
            binding::narrow(header, address);
        }
        hop.outgoing.begin(now, slot, &mut self.buffer);
        hop.used_at = Some(now);
        self.cut.insert(slot, face);
        self.stats.cut_through += 1;
    }
    /// Takes chunks that the neighbour has taken over out of the buffer, and begins others.
    fn on_sent(&mut self, now: Time, face: FaceId) {
        let Some(hop) = self.hops.get_mut(&face) else { return };
        while let Some(Sent::Done(slot)) = hop.outgoing.poll_done() {
            self.stats.sent += 1;
            let chunk = self.buffer.remove(slot).filter(|chunk| chunk.origin == Origin::Store);
            let key = chunk.and_then(|chunk| chunk.header?.key());
            self.outputs.extend(key.map(Output::Delivered));
        }
        self.advance(now, face);
        self.open_windows();
    }
    /// Begins to send what waits, as far as the neighbour has room.
    fn advance(&mut self, now: Time, face: FaceId) {
        let Some(hop) = self.hops.get_mut(&face).filter(|hop| hop.peer.is_some()) else { return };
        while let Some((tag, slot)) = hop.queue.front().copied() {
            let Some(count) = self.buffer.chunk(slot).map(Chunk::count) else {
                hop.queue.pop_front();
                continue;
            };
            if !hop.outgoing.can_begin(now, count) {
                return;
            }
            hop.queue.pop_front();
            hop.turn = tag;
            if hop.queue.is_empty() {
                hop.turns.clear();
            }
            hop.queued = hop.queued.saturating_sub(u32::from(count));
            hop.outgoing.begin(now, slot, &mut self.buffer);
        }
        hop.outgoing.on_idle();
    }

    // Chunks.

    /// Puts a chunk of this node on its way.
    pub fn originate(&mut self, now: Time, mut header: ChunkHeader, payload: &Bytes, origin: Origin) -> Slot {
        header.payload_bytes = payload.len() as u32;
        let rest = self.datagram_bytes() as usize - DATA_HEADER_BYTES_MAX;
        let fragments = cut(payload, rest - header.len() - 8, rest);
        self.stats.originated += 1;
        let slot = self.buffer.put(header, fragments, origin);
        self.forward(now, slot);
        slot
    }
    /// The smallest datagram that all links carry.
    fn datagram_bytes(&self) -> u32 {
        let links = self.hops.values().filter(|hop| hop.peer.is_some());
        links.map(|hop| hop.datagram_bytes).min().unwrap_or(1_472).max(576)
    }
    /// Room for chunks that this node makes: none while those before it wait (back-pressure reaches the source).
    pub fn room_for_local(&self) -> bool {
        let queued = self.hops.values().filter(|hop| hop.peer.is_some()).map(|hop| hop.queue.len()).min();
        queued.is_some_and(|queued| queued < 2) && self.waiting.is_empty() && self.buffer.free() >= WINDOW_LOW
    }
    /// The same for a router whose chunks may go to itself, its store, or several ways.
    pub fn room_for_own(&self) -> bool {
        self.buffer.used() == 0
    }
    /// Whether the node has something to see to.
    pub fn has_outputs(&self) -> bool {
        !self.outputs.is_empty()
    }
    /// How far it is to a device at an address, as path SETT in microseconds.
    pub fn distance(&self, device: &Guid, address: NetworkAddress) -> Option<u64> {
        if self.attached.contains_key(device) || *device == self.config.guid {
            return Some(0);
        }
        let topology = self.topology.as_ref()?;
        topology.route(address).map(|route| route.short_us.max(1))
    }
    /// Whether a stored chunk with this header could leave: now (true), when there is room (false), or not at all.
    pub fn verdict(&self, now: Time, header: &ChunkHeader) -> Option<bool> {
        match self.way(now, header) {
            Way::Face(face, _) => {
                let queued = self.hops.get(&face).map_or(usize::MAX, |hop| hop.queue.len());
                Some(
                    queued < QUEUE_KEPT
                        && (self.buffer.used() == 0 || self.buffer.free() >= self.config.buffer_packets / 3),
                )
            }
            Way::Local => Some(true),
            Way::Resolve | Way::Store(_) | Way::Wait | Way::Drop(_) => None,
        }
    }
    /// Sends a complete chunk where it belongs.
    pub fn forward(&mut self, now: Time, slot: Slot) {
        let Some(chunk) = self.buffer.chunk(slot) else { return };
        let Some(header) = chunk.header.clone() else { return };
        let transit = matches!(chunk.origin, Origin::Face(..));
        match self.way(now, &header) {
            Way::Local => self.outputs.push_back(Output::Local(slot)),
            Way::Face(face, address) => {
                if transit && header.hops_left == 0 {
                    return self.drop_chunk(slot, "hop limit");
                }
                if let Some(header) = self.buffer.header_mut(slot) {
                    header.hops_left = header.hops_left.saturating_sub(u8::from(transit));
                    binding::narrow(header, address);
                }
                self.taken(slot);
                self.enqueue(now, face, slot);
            }
            Way::Resolve => {
                let waiting = &mut self.unresolved.entry(header.destination).or_insert((now, Vec::new())).1;
                waiting.push(slot);
                self.taken_if_control(slot);
                self.outputs.push_back(Output::Resolve(header.destination));
            }
            Way::Store(reason) if header.is_control() || header.flags.contains(Flags::NO_PROXY) => {
                self.drop_chunk(slot, if reason == StoreReason::NoRoute { "no route" } else { "destination away" });
            }
            Way::Store(reason) => self.outputs.push_back(Output::Store(slot, reason)),
            Way::Wait => self.waiting.push(slot),
            Way::Drop(reason) => self.drop_chunk(slot, reason),
        }
    }
    fn taken_if_control(&mut self, slot: Slot) {
        if self.buffer.chunk(slot).is_some_and(|chunk| chunk.class == Class::Control) {
            self.taken(slot);
        }
    }
    fn enqueue(&mut self, now: Time, face: FaceId, slot: Slot) {
        let (Some(hop), Some(chunk)) = (self.hops.get_mut(&face), self.buffer.chunk(slot)) else { return };
        match chunk.class {
            Class::Control => hop.outgoing.begin(now, slot, &mut self.buffer),
            Class::Bulk => {
                hop.used_at = Some(now);
                hop.queued += u32::from(chunk.count());
                // Objects take turns, by packets: a small one does not wait for all of a large one.
                let object = chunk.header.as_ref().and_then(|header| Some((header.flow(), header.tag()?.object)));
                let tag = object.map_or(hop.turn, |object| {
                    let last = hop.turns.get(&object).copied().unwrap_or(0).max(hop.turn);
                    let tag = last + u64::from(chunk.count());
                    hop.turns.insert(object, tag);
                    tag
                });
                let at = hop.queue.partition_point(|(known, _)| *known <= tag);
                hop.queue.insert(at, (tag, slot));
                self.advance(now, face);
            }
        }
    }
    /// Where a chunk would go now.
    fn way(&self, now: Time, header: &ChunkHeader) -> Way {
        self.way_unless_worse(now, header, self.config.store_ratio)
    }
    fn way_unless_worse(&self, now: Time, header: &ChunkHeader, store_ratio: f64) -> Way {
        binding::Chooser {
            now,
            store_ratio,
            config: &self.config,
            topology: self.topology.as_ref(),
            attached: &self.attached,
            bindings: &self.bindings,
            diverted: &self.diverted,
            // What waits here and what waits behind the neighbour, as its window tells.
            load: &|face| {
                let taken = |hop: &Hop| WINDOW_FULL - hop.outgoing.window_room().min(WINDOW_FULL);
                self.hops.get(&face).map_or(u32::MAX, |hop| hop.queued + taken(hop))
            },
            peers: &|| self.hops.iter().filter_map(|(face, hop)| Some((*face, hop.peer.as_ref()?))).collect(),
        }
        .way(header)
    }
    /// Takes a chunk out: it is for this node, stored, or answered. The neighbour may forget it.
    pub fn consume(&mut self, slot: Slot) -> Option<Chunk> {
        self.stats.consumed += 1;
        self.taken(slot);
        let chunk = self.buffer.remove(slot);
        self.open_windows();
        chunk
    }
    /// The proxy has no room for a chunk that [`Output::Store`] gave.
    pub fn refuse_store(&mut self, now: Time, slot: Slot, reason: StoreReason) {
        match reason {
            StoreReason::Relief => {
                self.relief_after = now + RELIEF_PAUSE;
                self.forward(now, slot);
            }
            StoreReason::BadPath => {
                // Better a bad path than none.
                let header = self.buffer.chunk(slot).and_then(|chunk| chunk.header.as_ref());
                let way = header.map(|header| self.way_unless_worse(now, header, f64::MAX));
                match way {
                    Some(Way::Face(face, _)) => {
                        self.taken(slot);
                        self.enqueue(now, face, slot);
                    }
                    _ => self.drop_chunk(slot, "no room in the store"),
                }
            }
            StoreReason::Away | StoreReason::NoRoute | StoreReason::Depleted => {
                let upstream = self.buffer.chunk(slot).and_then(|chunk| match chunk.origin {
                    Origin::Face(face, hop) => Some((face, hop)),
                    Origin::Local | Origin::Store => None,
                });
                let keeper = upstream.and_then(|(face, hop)| {
                    let hop_state = self.hops.get_mut(&face)?;
                    hop_state.peer.as_ref().filter(|peer| peer.roles.contains(Roles::PROXY))?;
                    Some((hop_state, hop))
                });
                match keeper {
                    Some((hop_state, hop)) => {
                        // Its router may have storage left, and will not send it here again.
                        hop_state.incoming.on_given_back(hop);
                        self.buffer.remove(slot);
                    }
                    None => self.drop_chunk(slot, "no room in the store"),
                }
            }
        }
    }
    /// Drops a chunk that can go nowhere.
    pub fn drop_chunk(&mut self, slot: Slot, reason: &'static str) {
        self.taken(slot);
        self.stats.dropped += 1;
        if let Some(header) = self.buffer.remove(slot).and_then(|chunk| chunk.header) {
            self.outputs.push_back(Output::Lost(header, reason));
        }
        self.open_windows();
    }
    /// Tells the neighbour that it may forget a chunk.
    fn taken(&mut self, slot: Slot) {
        if let Some(Origin::Face(face, id)) = self.buffer.chunk(slot).map(|chunk| chunk.origin)
            && let Some(hop) = self.hops.get_mut(&face)
        {
            hop.incoming.on_taken_late(id);
        }
    }

    // Names.

    /// What a name is bound to, as just learnt; none for nowhere. Chunks on their way follow it.
    pub fn handle_binding(&mut self, now: Time, guid: Guid, addresses: Vec<NetworkAddress>, lifetime: Duration) {
        self.bindings.insert(now, guid, addresses, lifetime);
        self.diverted.remove(&guid);
        self.retry(now, guid);
    }
    /// The addresses that a name is known to have.
    pub fn binding(&self, now: Time, guid: &Guid) -> Option<&[NetworkAddress]> {
        self.bindings.look(now, guid)
    }
    /// Something about this destination has changed: what waits or is queued for it is looked at again.
    fn retry(&mut self, now: Time, guid: Guid) {
        let mut again = self.unresolved.remove(&guid).map(|(_, slots)| slots).unwrap_or_default();
        let mut moving = Vec::new();
        for (face, hop) in &self.hops {
            for (_, slot) in &hop.queue {
                let header = self.buffer.chunk(*slot).and_then(|chunk| chunk.header.as_ref());
                if let Some(header) = header.filter(|header| header.destination == guid) {
                    let way = self.way(now, header);
                    if !matches!(way, Way::Face(to, _) if to == *face) {
                        moving.push((*face, *slot));
                    }
                }
            }
        }
        for (face, slot) in moving {
            let count = self.buffer.chunk(slot).map_or(0, Chunk::count);
            if let Some(hop) = self.hops.get_mut(&face) {
                hop.queue.retain(|(_, queued)| *queued != slot);
                hop.queued = hop.queued.saturating_sub(u32::from(count));
            }
            again.push(slot);
        }
        for slot in again {
            self.forward(now, slot);
        }
    }
    /// Keeps chunks for a destination here rather than with a router whose storage is depleted.
    fn divert(&mut self, now: Time, face: FaceId) {
        let depleted = match (&self.topology, self.hops.get(&face).and_then(|hop| hop.peer.as_ref())) {
            (Some(topology), Some(peer)) => topology.is_depleted(peer.address, self.config.depleted_percent),
            _ => false,
        };
        let Some(hop) = self.hops.get_mut(&face).filter(|_| depleted && self.config.stores) else { return };
        for slot in hop.outgoing.take_refused(&self.buffer) {
            let destination = self.buffer.chunk(slot).and_then(|chunk| Some(chunk.header.as_ref()?.destination));
            if let Some(guid) = destination {
                self.diverted.insert(guid, now + DIVERSION);
            }
            self.outputs.push_back(Output::Store(slot, StoreReason::Depleted));
        }
    }
    /// Pushes chunks to the proxy that keep others from passing (paper §3.4.3): those that wait longest in line for the
    /// face that holds more than its share of a buffer that is nearly full.
    fn relieve(&mut self, now: Time) {
        let nearly_full = self.buffer.free() < self.buffer.capacity() / 4;
        if !nearly_full || self.config.relief == HolRelief::Off || !self.config.stores || now < self.relief_after {
            return;
        }
        let recent = |hop: &&mut Hop| hop.used_at.is_some_and(|at| now.since(at) < ACTIVE);
        let active = self.hops.values_mut().filter(recent).count() as u32;
        let share = self.buffer.capacity() / active.max(1) / 2;
        let Some((_, hop)) = self.hops.iter_mut().max_by_key(|(_, hop)| hop.queued).filter(|_| active > 1) else {
            return;
        };
        while hop.queued > share
            && hop.queue.len() > QUEUE_KEPT
            && let Some((_, slot)) = hop.queue.pop_back()
        {
            hop.queued = hop.queued.saturating_sub(self.buffer.chunk(slot).map_or(0, |chunk| u32::from(chunk.count())));
            self.stats.relieved += 1;
            self.outputs.push_back(Output::Store(slot, StoreReason::Relief));
        }
    }
    /// Tells neighbours whose window was too small for a chunk that it has opened.
    fn open_windows(&mut self) {
        let window = self.buffer.free();
        for hop in self.hops.values_mut().filter(|hop| hop.peer.is_some()) {
            let low = WINDOW_LOW.min(self.config.buffer_packets / 2);
            if hop.incoming.advertised < low && window >= low && !hop.incoming.has_answers() {
                hop.incoming.announce_window();
            }
        }
    }

    // Driving.

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        let faces: Vec<FaceId> = self.hops.keys().copied().collect();
        for face in faces {
            if let Some(hop) = self.hops.get_mut(&face) {
                for slot in hop.incoming.expire(now, &self.buffer) {
                    if let Some(to) = self.cut.remove(&slot)
                        && let Some(hop) = self.hops.get_mut(&to)
                    {
                        hop.outgoing.cancel(slot, &self.buffer);
                    }
                    self.buffer.remove(slot);
                }
            }
        }
        let late: Vec<Guid> = self
            .unresolved
            .iter()
            .filter(|(_, (since, _))| now.since(*since) >= RESOLVE_PATIENCE)
            .map(|(guid, _)| *guid)
            .collect();
        for guid in late {
            self.handle_binding(now, guid, Vec::new(), Duration::from_secs(1));
        }
        self.diverted.retain(|_, until| *until > now);
        self.bindings.expire(now);
    }
    /// When to call [`Router::handle_timeout`] or poll for packets.
    pub fn poll_timeout(&self) -> Option<Time> {
        let hops = self.hops.values().filter(|hop| hop.peer.is_some()).filter_map(|hop| hop.outgoing.poll_timeout());
        let unresolved = self.unresolved.values().map(|(since, _)| *since + RESOLVE_PATIENCE);
        hops.chain(unresolved).min()
    }
    /// What the node has to see to.
    pub fn poll_output(&mut self, now: Time) -> Option<Output> {
        if self.outputs.is_empty() {
            self.relieve(now);
        }
        self.outputs.pop_front()
    }
    /// Fills `out` with packets for one face.
    pub fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        let after = self.hops.range(FaceId(self.last_face.0.wrapping_add(1))..).map(|(face, _)| *face);
        let order: Vec<FaceId> = after.chain(self.hops.range(..=self.last_face).map(|(face, _)| *face)).collect();
        for face in order {
            self.advance(now, face);
            self.divert(now, face);
            let window = self.window_for(now, face);
            let Some(hop) = self.hops.get_mut(&face).filter(|hop| hop.peer.is_some()) else { continue };
            while out.len() < TransmitBuf::DATAGRAMS_MAX / 2
                && let Some(cack) = hop.incoming.poll_cack(window, &self.buffer)
            {
                let mut bytes = Vec::with_capacity(32);
                cack.encode(&mut bytes);
                out.push(&[], bytes.into());
            }
            hop.outgoing.poll_packets(now, &self.buffer, out);
            if !out.is_empty() {
                hop.sent.0 += out.len() as u64;
                hop.sent.1 += out.iter().map(|(head, body)| (head.len() + body.len()) as u64).sum::<u64>();
                self.last_face = face;
                return Some(Transmit { face });
            }
        }
        None
    }
    /// W_ad for a neighbour: the free room is shared among those that send, and is never less than a chunk if there is
    /// room for one.
    fn window_for(&self, now: Time, face: FaceId) -> u32 {
        let sends = |(id, hop): &(&FaceId, &Hop)| **id != face && now.since(hop.incoming.active_at) < ACTIVE;
        let others = self.hops.iter().filter(sends).count() as u32;
        let free = self.buffer.free();
        (free / (others + 1)).max(free.min(WINDOW_LOW))
    }
    /// Packets and bytes sent and received on a face, and packets that wait for it.
    pub fn face_stats(&self, face: FaceId) -> Option<FaceStats> {
        let hop = self.hops.get(&face)?;
        Some(FaceStats { sent: hop.sent, received: hop.received, queued: hop.queued, hop: hop.outgoing.stats })
    }
    /// What a neighbour that has been silent on the hop link looks like: CSYNs in a row without an answer.
    pub fn timeouts(&self, face: FaceId) -> u32 {
        self.hops.get(&face).map_or(0, |hop| hop.outgoing.timeouts())
    }
    /// A one-hop message to a neighbouring router.
    pub fn tell(&mut self, now: Time, face: FaceId, payload: Bytes) {
        let Some(peer) = self.hops.get(&face).and_then(|hop| hop.peer.as_ref()) else { return };
        let mut header = ChunkHeader::new(ChunkKind::LinkState, self.config.guid, peer.guid, NetworkAddress::NONE);
        header.hops_left = 0;
        header.payload_bytes = payload.len() as u32;
        let rest = self.datagram_bytes() as usize - DATA_HEADER_BYTES_MAX;
        let fragments = cut(&payload, rest - header.len() - 8, rest);
        self.stats.originated += 1;
        let slot = self.buffer.put(header, fragments, Origin::Local);
        self.enqueue(now, face, slot);
    }
}

fn take_data(now: Time, hop: &mut Hop, datagram: &Datagram, buffer: &mut Buffer) -> Result<Arrived, WireError> {
    let (header, len) = DataHeader::decode(datagram.header_bytes())?;
    let rest = datagram.clone().strip(len);
    let payload = |skip: usize| rest.clone().strip(skip).into_bytes();
    hop.incoming.handle_data(now, &header, rest.header_bytes(), payload, buffer)
}

/// Counters of a face.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaceStats {
    /// Packets and bytes sent.
    pub sent: (u64, u64),
    /// Packets and bytes received.
    pub received: (u64, u64),
    /// Packets of data that wait.
    pub queued: u32,
    /// The hop link.
    pub hop: crate::link::OutgoingStats,
}

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
//! | the next step of a chunk | [`binding`] |
//! | storage for destinations that are away | [`proxy`] |
//! | content cache | [`cache`] |
//! | requests that join an object which is arriving | [`arriving`] |
pub mod arriving;
pub mod binding;
pub mod cache;
mod chunks;
mod copies;
pub mod link_state;
pub mod neighbour;
mod packets;
pub mod proxy;
mod relief;
pub mod signed_state;

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};

use bytes::Bytes;
use tributary_content::ObjectId;
use tributary_core::{Datagram, Duration, FaceId, Time, Transmit, TransmitBuf};

pub use self::binding::Binding;
use self::{
    binding::{Bindings, Way},
    copies::Copying,
    link_state::Topology,
    neighbour::Peer,
};
use crate::{
    config::HolRelief,
    ids::{ChunkKey, Flow, Guid, NetworkAddress, ServiceId, Token},
    link::{
        Arrived, Buffer, Chunk, Forwarding, HopConfig, Incoming, Origin, Outgoing, PartKey, Partials, Room, Slot,
        buffer::{Copies, cut},
    },
    payload::Payload,
    wire::{
        ADDRESSES_MAX, Cack, ChunkHeader, ChunkKind, Class, Csyn, DataHeader, DataTag, Flags, PacketType, Readers,
        Roles, WireError,
    },
};

/// Packets of control chunks that a node holds.
const CONTROL_PACKETS: u32 = 16_384;
/// Packets of the largest chunk that is common, with some to spare.
const WINDOW_LOW: u32 = 1_200;
/// A window from which on a neighbour counts as having nothing to do.
const WINDOW_FULL: u32 = 1 << 16;
/// How long a face counts as one that is in use.
const ACTIVE: Duration = Duration::from_secs(2);
/// How long chunks wait for their name to be resolved.
const RESOLVE_PATIENCE: Duration = Duration::from_secs(3);
/// How long chunks are kept here that a router with depleted storage returned.
const DIVERSION: Duration = Duration::from_secs(30);
/// Chunks of a destination that are put into a queue out of the store, or from this node.
const QUEUE_KEPT: usize = 2;
/// Distance between the first hop ids of successive faces: 2^32 divided by the golden ratio, which keeps those of any
/// number of faces far apart.
const HOPS_APART: u32 = 0x9E37_79B9;
/// How long an incomplete chunk is kept for an absent neighbour; longer while more than half of the buffer is free.
const ARRIVING_LIFETIME: Duration = Duration::from_secs(60);
/// Longest silence about a chunk from a present neighbour, which queries its unfinished chunks more often.
const ABANDONED: Duration = Duration::from_secs(10);
/// Age from which on an arriving chunk is written to the partial store; faster chunks are written once, complete.
const KEPT_FROM: Duration = Duration::from_secs(1);
/// How long a router waits for full neighbours before it frees space.
const STUCK: Duration = Duration::from_secs(1);
/// How long nothing is pushed to a proxy after it refused for lack of space.
const RELIEF_PAUSE: Duration = Duration::from_millis(200);

/// Why a chunk is lost that can never fit at the next hop, or that would have too many packets there.
pub(crate) const TOO_LARGE: &str = "larger than what the next hop takes";

/// Why a chunk is dropped when the store is full.
pub(crate) const NO_SHARE: &str = "its flow, source or destination has its share of the store";
pub(crate) const NO_ROOM: &str = "the store is full";
/// The reason to store no chunk of a router without a voucher.
pub(crate) const NOT_PROVEN: &str = "its source is not known to be behind the router that sent it";

/// Settings of the forwarding part of a node.
#[derive(Clone, Debug, Default)]
pub struct RouterConfig {
    /// The node's GUID.
    pub guid: Guid,
    /// Its address, if it is a router.
    pub address: Option<NetworkAddress>,
    /// The hop link.
    pub hop: HopConfig,
    /// Packets of the back-pressure buffer.
    pub buffer_packets: u32,
    /// The measure against head-of-line blocking.
    pub relief: HolRelief,
    /// When a path is bad.
    pub store_ratio: f64,
    /// Whether it has a proxy.
    pub stores: bool,
    /// Where hop ids start; at each face elsewhere.
    pub first_hop: u32,
}

/// Why a chunk is pushed to the proxy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StoreReason {
    /// The destination has no address, or is not at its address.
    Away,
    /// There is no path to its address.
    NoRoute,
    /// The path is much worse than usual (GSTAR).
    BadPath,
    /// It blocks others (paper §3.4.3).
    Relief,
    /// The storage where it would wait is depleted.
    Depleted,
}

/// What the router leaves to the node.
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// A complete chunk has arrived from a neighbour: inspect it, then [`Router::forward`] or [`Router::consume`] it.
    Arrived(Slot),
    /// A complete chunk has arrived that was forwarded during its arrival: inspect it only.
    Passed(Slot),
    /// A chunk for a group starts to arrive, and [`Router::begin_copies`] may forward it; or a chunk for this node, and
    /// [`Router::end_early`] may report that it is already here.
    Begun(Slot),
    /// A chunk is complete whose copies were sent during its arrival: [`Router::copy`] it for these headers, then
    /// [`Router::consume`] it.
    Copied(Slot, Vec<ChunkHeader>),
    /// It is for this node: look at it, then [`Router::consume`] it.
    Local(Slot),
    /// Store it: [`Router::consume`] it once it is durable, or [`Router::refuse_store`].
    Store(Slot, StoreReason),
    /// A name must be looked up; pass the answer to [`Router::handle_binding`].
    Resolve(Guid),
    /// The neighbour with this GUID has accepted a chunk that came out of the store, or whose copy may be stored
    /// because it was sent again.
    Delivered(ChunkKey, Token, Guid),
    /// A message between the ends is undeliverable, and why: inspect it, then [`Router::drop_chunk`] it.
    Undeliverable(Slot, &'static str),
    /// A chunk of data is lost for good, and why.
    Lost(ChunkHeader, &'static str),
    /// Bytes that made no sense.
    Dropped(FaceId, &'static str, usize),
}

/// Counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RouterStats {
    /// Complete chunks from neighbours.
    pub arrived: u64,
    /// Chunks that neighbours took over.
    pub sent: u64,
    /// Chunks made here or released from the store.
    pub originated: u64,
    /// Chunks that were for this node, or were stored, or answered by the cache.
    pub consumed: u64,
    /// Chunks dropped.
    pub dropped: u64,
    /// Chunks returned to their neighbour, because the storage here is depleted.
    pub returned: u64,
    /// Chunks sent on before they were complete.
    pub cut_through: u64,
    /// Chunks pushed to the proxy because they blocked others.
    pub relieved: u64,
}

tributary_core::declared! {
    struct Hop {
        peer: Option<Peer> = None,
        /// The neighbour's last known boot number and GUID.
        boot: u64 = peer.boot,
        guid: Guid = peer.guid,
        datagram_bytes: u32 = peer.datagram_bytes,
        incoming: Incoming = Incoming::new(face),
        outgoing: Outgoing = Outgoing::new(config, peer.datagram_bytes, first_hop),
        /// Chunks that wait, by the tag that makes objects take turns.
        queue: VecDeque<(u64, Slot)> = VecDeque::new(),
        /// The turn of the latest started chunk, and of the latest chunk of each object.
        turn: u64 = 0,
        turns: BTreeMap<(Flow, ObjectId), u64> = BTreeMap::new(),
        queued: u32 = 0,
        used_at: Option<Time> = None,
        sent: (u64, u64) = (0, 0),
        received: (u64, u64) = (0, 0),
    }
    fn new(face: FaceId, peer: &Peer, config: HopConfig, first_hop: u32) {}
}

impl Hop {
    /// Whether the link carries a packet with this many bytes of a chunk after its header.
    fn carries(&self, bytes: usize) -> bool {
        DataHeader::BYTES + bytes <= self.datagram_bytes as usize
    }
    /// Chunks for a destination that wait for this face.
    fn in_line<'a>(&'a self, buffer: &'a Buffer, destination: &'a Guid) -> impl Iterator<Item = &'a Chunk> {
        let chunks = self.queue.iter().filter_map(|(_, slot)| buffer.chunk(*slot));
        chunks.filter(move |chunk| chunk.destination().as_ref() == Some(destination))
    }
    /// How many they are.
    fn waiting_for(&self, buffer: &Buffer, destination: &Guid) -> usize {
        self.in_line(buffer, destination).count()
    }
    /// Whether it is the store's turn to queue a chunk for a destination: almost none wait, or passing chunks have
    /// taken more than half of the places. A store that waited for a short queue would wait for the end of all passing
    /// chunks for its destination.
    fn takes_from_store(&self, buffer: &Buffer, destination: &Guid) -> bool {
        let waiting = self.waiting_for(buffer, destination);
        let stored = self.in_line(buffer, destination).filter(|chunk| chunk.origin == Origin::Store).count();
        waiting < QUEUE_KEPT || 2 * stored < waiting
    }
}

/// The forwarding part of a node; see the [module](self).
#[derive(Default)]
pub struct Router {
    config: RouterConfig,
    /// All chunks in transit through this node.
    pub buffer: Buffer,
    hops: BTreeMap<FaceId, Hop>,
    attached: BTreeMap<Guid, FaceId>,
    /// The readers of recently attached hosts.
    rules: BTreeMap<Guid, Readers>,
    /// The versions of the records with these readers, or of their withdrawals.
    rule_versions: BTreeMap<Guid, u64>,
    /// Routes, if this is a router.
    pub topology: Option<Topology>,
    bindings: Bindings,
    unresolved: BTreeMap<Guid, (Time, Vec<Slot>)>,
    /// Chunks of a host that is attached nowhere.
    waiting: Vec<Slot>,
    /// Chunks that are sent on while they arrive.
    cut: BTreeMap<Slot, FaceId>,
    /// Stored parts of chunks whose arrival was interrupted.
    pub partials: Partials,
    /// Chunks with copies that are sent during their arrival.
    copying: BTreeMap<Slot, Copying>,
    diverted: BTreeMap<Guid, Time>,
    suspects: BTreeSet<FaceId>,
    relief_after: Time,
    /// When a chunk was last pushed to the proxy because it blocked others.
    relieved_at: Time,
    /// Until when space that was freed for neighbours is withheld from stored chunks.
    loose_until: Time,
    /// Hop ids used at removed faces: a face that returns continues after them, since its neighbour remembers them.
    retired_hops: u32,
    outputs: VecDeque<Output>,
    last_face: FaceId,
    /// Whether a detached host stores its new transfers.
    pub keeps_own: bool,
    /// Counters.
    pub stats: RouterStats,
}

impl Router {
    /// Without faces.
    pub fn new(config: RouterConfig, topology: Option<Topology>) -> Router {
        let mut buffer = Buffer::new(config.buffer_packets, CONTROL_PACKETS);
        if config.relief == HolRelief::Windows {
            buffer.share();
        }
        Router { config, buffer, topology, ..Router::default() }
    }

    // Neighbours.

    /// A neighbour answers.
    pub fn on_up(&mut self, now: Time, face: FaceId, peer: Peer) {
        // A packet of another face that is replayed here must not belong to a future chunk.
        let first_hop = self.first_hop(face);
        let (config, relieves) = (self.config.hop.clone(), self.relieves());
        let hop = self.hops.entry(face).or_insert_with(|| Hop::new(face, &peer, config, first_hop));
        if hop.boot != peer.boot {
            hop.boot = peer.boot;
            hop.outgoing.reset();
            let given_up = hop.incoming.reset(&self.buffer);
            self.give_up(given_up);
        }
        let Some(hop) = self.hops.get_mut(&face) else { return };
        (hop.guid, hop.datagram_bytes) = (peer.guid, peer.datagram_bytes);
        hop.outgoing.set_datagram_bytes(peer.datagram_bytes);
        hop.outgoing.set_first_window(peer.window);
        self.attached.insert(peer.guid, face);
        if let Some(topology) = self.topology.as_mut().filter(|_| peer.roles.contains(Roles::ROUTER)) {
            topology.on_up(now, face, peer.address, peer.guid);
        }
        let guid = peer.guid;
        // Without relief, hosts must not fill the space that routers need to drain their buffers.
        hop.incoming.yields = self.config.address.is_some() && !peer.roles.contains(Roles::ROUTER) && !relieves;
        hop.peer = Some(peer);
        hop.incoming.on_up(now);
        for slot in core::mem::take(&mut self.waiting) {
            self.forward(now, slot);
        }
        self.retry(now, guid);
    }
    /// The first hop id of a new face.
    fn first_hop(&self, face: FaceId) -> u32 {
        let first = self.config.first_hop.wrapping_add(self.retired_hops);
        first.wrapping_add(face.0.wrapping_mul(HOPS_APART))
    }
    /// A face is gone for good: its arriving chunks will not complete, and its state is dropped.
    pub fn remove_face(&mut self, now: Time, face: FaceId) {
        self.on_down(now, face);
        self.suspects.remove(&face);
        let Some(mut hop) = self.hops.remove(&face) else { return };
        self.retired_hops = self.retired_hops.wrapping_add(hop.outgoing.hops_used());
        let given_up = hop.incoming.reset(&self.buffer);
        self.give_up(given_up);
        self.open_windows();
    }
    /// Removes incomplete chunks, which may have been forwarded partly.
    fn give_up(&mut self, mut slots: Vec<Slot>) {
        while let Some(slot) = slots.pop() {
            slots.extend(self.take_copies(slot));
            if let Some(to) = self.cut.remove(&slot)
                && let Some(hop) = self.hops.get_mut(&to)
            {
                hop.outgoing.cancel(slot, &mut self.buffer);
            }
            self.buffer.remove(slot);
        }
    }
    /// The neighbour is down: its queue takes other routes.
    pub fn on_down(&mut self, now: Time, face: FaceId) {
        self.keep_arriving(now, face, Duration::ZERO);
        let Some(hop) = self.hops.get_mut(&face) else { return };
        let Some(peer) = hop.peer.take() else { return };
        let again = self.take_back(now, face);
        if self.attached.get(&peer.guid) == Some(&face) {
            // It may be at another face as well.
            let other = self.peers().find(|(_, other)| other.guid == peer.guid).map(|(face, _)| face);
            match other {
                Some(other) => drop(self.attached.insert(peer.guid, other)),
                None => drop(self.attached.remove(&peer.guid)),
            }
        }
        if let Some(topology) = self.topology.as_mut().filter(|_| peer.roles.contains(Roles::ROUTER)) {
            topology.on_down(now, face);
            topology.handle_timeout(now, |_| (1, 1));
            topology.update();
        }
        self.forward_complete(now, again);
    }
    /// A neighbour's link carries datagrams of this size. If that is less than before, chunks in transmission are cut
    /// again; arriving ones wait until they are complete.
    pub fn on_mtu(&mut self, now: Time, face: FaceId, bytes: u32) {
        let Some(hop) = self.hops.get_mut(&face) else { return };
        let has_shrunk = bytes < hop.datagram_bytes;
        hop.datagram_bytes = bytes;
        hop.outgoing.set_datagram_bytes(bytes);
        if let Some(peer) = &mut hop.peer {
            peer.datagram_bytes = bytes;
        }
        if has_shrunk {
            let again = self.take_back(now, face);
            self.forward_complete(now, again);
        }
    }
    /// Chunks that wait at a face or are in flight to the neighbour.
    fn take_back(&mut self, now: Time, face: FaceId) -> Vec<Slot> {
        let Some(hop) = self.hops.get_mut(&face) else { return Vec::new() };
        let mut back = hop.outgoing.suspend(now, &mut self.buffer);
        back.extend(hop.queue.drain(..).map(|(_, slot)| slot));
        hop.queued = 0;
        self.cut.retain(|_, to| *to != face);
        back
    }
    /// Forwards chunks again; arriving ones when they are complete.
    fn forward_complete(&mut self, now: Time, slots: Vec<Slot>) {
        for slot in slots {
            if self.buffer.chunk(slot).is_some_and(Chunk::is_complete) {
                self.forward(now, slot);
            }
        }
    }
    /// How slow the link of a face is; see [`neighbour::Neighbour::slowness`].
    pub fn set_slowness(&mut self, now: Time, face: FaceId, (answer_time, airtime): (Duration, Duration)) {
        if let Some(hop) = self.hops.get_mut(&face) {
            hop.outgoing.set_slowness(now, answer_time, airtime);
        }
    }
    /// Whether the neighbour at a face may be gone: chunks take another face if there is one.
    pub fn set_suspect(&mut self, face: FaceId, is_suspect: bool) {
        match is_suspect {
            true => self.suspects.insert(face),
            false => self.suspects.remove(&face),
        };
    }
    /// When data of objects last arrived over any hop.
    pub fn active_at(&self) -> Time {
        self.hops.values().map(|hop| hop.incoming.data_at).max().unwrap_or(Time::ZERO)
    }
    /// The identified chunks in arrival, and when the latest packet of each came.
    pub fn arriving(&self) -> impl Iterator<Item = (ChunkKey, Time)> {
        let arriving = self.hops.values().flat_map(|hop| hop.incoming.slots());
        arriving.filter_map(|(slot, heard)| Some((self.buffer.chunk(slot)?.header.as_ref()?.key()?, heard)))
    }
    /// Whether a chunk of an object is arriving, with a packet since `since`.
    pub fn is_coming(&self, object: &ObjectId, since: Time) -> bool {
        self.arriving().any(|(key, heard)| key.object == *object && heard >= since)
    }
    /// Whether data of an object waits here for a destination.
    pub fn holds_data_for(&self, destination: &Guid, object: &ObjectId) -> bool {
        self.buffer.used_by(destination) > 0 && self.data_for(destination).any(|tag| tag.object == *object)
    }
    /// Whether the buffer has room for a chunk, but this destination has its share: at least half a chunk waits for it.
    pub fn holds_back(&self, destination: &Guid) -> bool {
        let (buffer, chunk) = (&self.buffer, self.buffer.largest());
        buffer.used_by(destination) > chunk / 2 && buffer.free() >= chunk && buffer.free_for(destination) < chunk
    }
    /// Whether the holder of a GUID is attached here.
    pub fn is_attached(&self, guid: &Guid) -> bool {
        self.attached.contains_key(guid)
    }
    /// The faces with a neighbour, and the neighbours.
    pub fn peers(&self) -> impl Iterator<Item = (FaceId, &Peer)> {
        self.hops.iter().filter_map(|(face, hop)| Some((*face, hop.peer.as_ref()?)))
    }

    // Driving.

    /// Runs the timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        let late: Vec<Guid> = self
            .unresolved
            .iter()
            .filter(|(_, (since, _))| now.since(*since) >= RESOLVE_PATIENCE)
            .map(|(guid, _)| *guid)
            .collect();
        for guid in late {
            let lifetime = Duration::from_secs(1);
            let nowhere = Binding { addresses: Vec::new(), readers: Readers::All, lifetime, version: None };
            self.handle_binding(now, guid, nowhere);
        }
    }
    /// Forgets old state: call it about once a second.
    pub fn expire(&mut self, now: Time) {
        let faces: Vec<FaceId> = self.hops.keys().copied().collect();
        for face in faces {
            self.keep_arriving(now, face, KEPT_FROM);
            // A returning neighbour continues its unfinished chunks.
            let has_room = self.buffer.free() > self.buffer.capacity() / 2;
            let Some(hop) = self.hops.get_mut(&face) else { continue };
            let (moving, awaited) = match (hop.peer.is_some(), has_room) {
                (true, _) => (ARRIVING_LIFETIME.min(ABANDONED), ARRIVING_LIFETIME),
                (false, true) => (Duration::MAX, Duration::MAX),
                (false, false) => (ARRIVING_LIFETIME, ARRIVING_LIFETIME),
            };
            let given_up = hop.incoming.expire(now, moving, awaited, &self.buffer);
            self.give_up(given_up);
        }
        self.open_windows();
        self.diverted.retain(|_, until| *until > now);
        self.bindings.expire(now);
        self.rules.retain(|guid, _| self.attached.contains_key(guid));
        self.rule_versions.retain(|guid, _| self.attached.contains_key(guid));
    }
    /// When to call [`Router::handle_timeout`] or poll for packets.
    pub fn poll_timeout(&self) -> Option<Time> {
        let hops = self.hops.values().filter(|hop| hop.peer.is_some()).filter_map(|hop| hop.outgoing.poll_timeout());
        let unresolved = self.unresolved.values().map(|(since, _)| *since + RESOLVE_PATIENCE);
        hops.chain(unresolved).min()
    }
    /// The next output for the node.
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
            // Nearly all faces have nothing to answer: their windows need not be shared out.
            let answers = self.hops.get(&face).is_some_and(|hop| hop.incoming.has_answers());
            let window = if answers { self.window_for(now, face) } else { 0 };
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
    /// W_ad for a neighbour: the active neighbours share the free space, and each gets at least one chunk if one fits.
    /// The neighbour's chunk size is unknown before its first chunk: an empty buffer takes any.
    fn window_for(&self, now: Time, face: FaceId) -> u32 {
        let sends = |(id, hop): &(&FaceId, &Hop)| **id != face && now.since(hop.incoming.active_at) < ACTIVE;
        let others = self.hops.iter().filter(sends).count() as u32;
        let free = self.hops.get(&face).map_or(0, |hop| hop.incoming.room(&self.buffer));
        let shared = if self.buffer.used() == 0 { free } else { free / (others + 1) };
        shared.max(free.min(WINDOW_LOW.max(self.buffer.largest())))
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
    pub fn notify(&mut self, now: Time, face: FaceId, payload: Bytes) {
        let Some(peer) = self.hops.get(&face).and_then(|hop| hop.peer.as_ref()) else { return };
        let mut header = ChunkHeader::new(ChunkKind::LinkState, self.config.guid, peer.guid, NetworkAddress::NONE);
        header.hops_left = 0;
        let slot = self.put_own(header, &payload.into());
        self.enqueue(now, face, slot);
    }
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

#[cfg(test)]
mod tests;

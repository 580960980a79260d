//! The forwarder (paper: FN): source-routed by the FID in the packet, without state per flow (paper §II-B).
//!
//! ```text
//!             ┌──────────────────────────────────────────────────────────────┐
//!  forward ──►│ header ► labels of all faces AND FID ► copies ► egress queues │──► poll_transmit
//!             │              │                   ▲                            │
//!             │              └─► local delivery   └── cache answers requests  │
//!             └──────────────────────────────────────────────────────────────┘
//! ```
//! Loop safety: a hop limit that copies share, never back out of the face of arrival, no FID that is filled beyond a
//! limit or that matches more faces than a limit.
mod answers;
pub mod cache;
mod decision;
mod egress;
pub mod labels;
pub mod neighbour;
mod pending;
mod view;

use alloc::{collections::BTreeMap, vec::Vec};
use bytes::{Buf, Bytes};

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use tributary_core::{ByteCount, Datagram, DatagramBatch, Duration, FaceId, HEAD_BYTES_MAX, NodeId, Time};
use tributary_transport::FaceOptions;

pub use self::pending::PendingCounters;
use self::{
    answers::{Answer, Verified},
    cache::{Body, PacketCache, PayloadMemory},
    decision::{BitmapTable, Memo, Ports},
    egress::{Batch, Face},
    labels::{LABEL_BITS, LabelKey, LabelTables, Port},
    pending::PendingPackets,
    view::{FidView, parts_after, write_header},
};
pub(crate) use self::{decision::is_overfull, view::View};
use crate::{
    capability::{CapabilityKey, CapabilityKeys},
    wire::{DataHeader, FID_BYTES_MAX, FIXED_BYTES, FLAG_MARKED, Header, PacketType, Routes},
};

tributary_core::declared! {
    /// Settings of a router.
    #[derive(Clone, PartialEq, Debug)]
    pub struct RouterConfig {
        /// The node; its low 16 bits name the cache in the packets that it answers with.
        pub node: NodeId = node,
        /// The secret of its link labels, random for each start.
        pub secret: [u8; 16] = secret,
        /// Whether packets are accepted only from faces whose neighbour has answered before, as is due where hellos are
        /// authenticated. Default: false.
        pub neighbours_only: bool = false,
        /// Faces that one packet may leave by. Default: 32.
        pub copies_max: usize = 32,
        /// Maximum faces. Default: 1,024.
        pub faces_max: usize = 1024,
        /// Maximum label tables, one per size and salt of Bloom filters in use. Default: 1,024.
        pub label_tables_max: usize = 1024,
        /// Maximum packets queued for one face. Default: 2,048.
        pub queue_packets_max: usize = 2048,
        /// Maximum bytes queued for one face. Default: 8 MiB.
        pub queue_bytes_max: usize = 8 << 20,
        /// Bytes in a face's queue from which on packets are marked; `None` disables marks. Default: `None`.
        pub mark_bytes: Option<usize> = None,
        /// Bytes of the packet cache; zero disables it. Default: 64 MiB.
        pub cache_bytes: ByteCount = ByteCount(64 << 20),
        /// Name of the cache policy, one of [`cache::POLICIES`]; an unknown one means the first. Default: the first.
        pub cache_policy: alloc::string::String = cache::POLICIES[0].0.into(),
        /// What the cache keeps of payloads. Default: copies.
        pub cache_memory: PayloadMemory = PayloadMemory::Copied,
        /// Maximum packets that a router with a cache awaits on behalf of several receivers; zero disables it. Default:
        /// 65,536.
        pub pending_packets_max: usize = 65_536,
        /// How long after a request others for the same packet wait for its answer. Default: 2 s.
        pub pending_lifetime: Duration = Duration::from_secs(2),
    }
    /// Defaults for `node` with this secret.
    pub fn new(node: NodeId, secret: [u8; 16]) {}
}

tributary_core::declared! {
    /// The forwarder of one node.
    ///
    /// Order of calls: after each [`Router::forward`] or [`Router::originate`] look at the [`Verdict`]; then
    /// [`Router::poll_transmit`] until it returns `None`. A face carries nothing until [`Router::set_face_up`] reports
    /// that its neighbour answers.
    pub struct Router {
        tables: LabelTables = LabelTables::new(&config.secret, LABEL_BITS, config.label_tables_max),
        faces: Vec<Face> = Vec::new(),
        face_index: HashMap<FaceId, usize, FxBuildHasher> = HashMap::with_hasher(FxBuildHasher),
        /// The face of the last packet, which most often is the next packet's too.
        arrived_last: Option<(FaceId, usize)> = None,
        up: Vec<u64> = Vec::new(),
        matches: Vec<u64> = Vec::new(),
        scratch: Vec<u64> = Vec::new(),
        bitmaps: [BitmapTable; 2] = Default::default(),
        keys: CapabilityKeys = CapabilityKeys::new(),
        verified: Verified = Verified::default(),
        cache: Option<PacketCache> = cache,
        /// Counters of the requests for packets that other receivers had requested.
        pub(crate) pending: PendingPackets = PendingPackets::new(config.pending_packets_max, config.pending_lifetime),
        queued: usize = 0,
        spare: Option<Batch> = None,
        next_face: usize = 0,
        memo: Memo = Memo::default(),
        /// Its counters.
        pub stats: RouterStats = RouterStats::default(),
        config: RouterConfig = config,
    }
    fn start(config: RouterConfig) {
        let policy = |name: &str| PacketCache::new(config.cache_bytes, name);
        let cache = match config.cache_bytes {
            ByteCount(0) => None,
            _ => policy(&config.cache_policy).or_else(|| policy(cache::POLICIES[0].0)),
        };
        let cache = cache.map(|mut cache| {
            cache.set_memory(config.cache_memory);
            cache
        });
    }
}

/// What became of a packet.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// How many copies were queued on faces.
    pub copies: usize,
    /// How many packets the cache put in place of (part of) a request.
    pub answered: usize,
    /// The packet as it arrived, if it is also for this node.
    pub local: Option<Datagram>,
    /// Why the packet, or at least one of its copies, was dropped; counted in [`RouterStats::dropped`].
    pub dropped: Option<&'static str>,
}

/// What became of packets at the front of a batch, which have one header in common.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchVerdict {
    /// How many packets it covers; zero if the first one must go through [`Router::forward`] alone.
    pub packets: usize,
    /// The flags in their header.
    pub flags: u8,
    /// Bytes of their header.
    pub header_len: usize,
    /// Whether they are also for this node.
    pub is_local: bool,
    /// Why packets, or copies of them, were dropped, and how many packets; counted in [`RouterStats::dropped`].
    pub dropped: Option<(&'static str, usize)>,
}

/// Counters of a router.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RouterStats {
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets of this node itself.
    pub originated: u64,
    /// Copies queued on faces, answers of the cache included.
    pub queued: u64,
    /// Packets for this node.
    pub delivered: u64,
    /// Packets that the cache answered with.
    pub answered: u64,
    /// Requests that the cache answered wholly.
    pub requests_absorbed: u64,
    /// Packets or copies dropped, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
}

/// Counters and state of one face.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RouterFaceStats {
    /// Whether packets are sent to it.
    pub up: bool,
    /// Packets handed out for sending.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that arrived and were given to [`Router::forward`].
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets dropped because the queue was full or the packet too large for the face.
    pub dropped_packets: u64,
    /// Packets marked because the queue was long.
    pub marked_packets: u64,
    /// Packets that wait.
    pub queue_packets: usize,
    /// Bytes that wait.
    pub queue_bytes: usize,
}

/// The reasons for which a router drops packets.
pub mod reason {
    /// Hops used up.
    pub const TTL: &str = "ttl expired";
    /// More bits set than an honest FID has.
    pub const OVERFULL: &str = "fid overfull";
    /// A Bloom filter of illegal size or salt.
    pub const SHAPE: &str = "fid of illegal shape";
    /// From a face whose neighbour has never answered.
    pub const UNSOLICITED: &str = "packet of an unsolicited face";
}

impl Router {
    /// A router without faces.
    pub fn new(config: RouterConfig) -> Router {
        let mut router = Router::start(config);
        router.on_ports_changed();
        router
    }
    /// Adds a face, down until [`Router::set_face_up`]. A known face gets the new options. Returns false at the limit.
    pub fn add_face(&mut self, face: FaceId, options: FaceOptions) -> bool {
        if let Some(index) = self.face_index.get(&face) {
            self.faces[*index].options = options;
            return true;
        }
        if self.faces.len() >= self.config.faces_max {
            return false;
        }
        self.faces.push(Face::new(face, options));
        self.on_ports_changed();
        true
    }
    /// Removes a face and drops its queue.
    pub fn remove_face(&mut self, face: FaceId) {
        if let Some(index) = self.face_index.get(&face) {
            let removed = self.faces.remove(*index);
            self.queued -= removed.stats.queue_packets;
            self.on_ports_changed();
        }
    }
    /// Sets whether the neighbour on a face answers. Drops the queue of a face that goes down.
    pub fn set_face_up(&mut self, face: FaceId, up: bool) {
        let Some(index) = self.face_index.get(&face).copied() else { return };
        let state = &mut self.faces[index];
        state.stats.up = up;
        state.is_proven |= up;
        if !up {
            self.queued -= state.stats.queue_packets;
            state.stats.dropped_packets += state.stats.queue_packets as u64;
            state.clear();
        }
        self.on_up_changed();
    }
    /// Takes the bitmap numbers and capability keys from a routes message that
    /// [`neighbour::Neighbour::handle_routes`] accepted.
    pub fn handle_routes(&mut self, routes: &Routes) {
        if routes.bitmap != self.bitmaps[0].numbers {
            if routes.bitmap.epoch != self.bitmaps[0].numbers.epoch {
                self.bitmaps.swap(0, 1);
            }
            self.bitmaps[0].numbers = routes.bitmap.clone();
            self.bitmaps[0].rebuild(&self.faces);
            self.memo.forget();
        }
        self.set_keys(&routes.keys);
    }
    /// Replaces the capability keys. Without keys requests are forwarded unverified, and never answered from the cache
    /// or delivered to this node.
    pub fn set_keys(&mut self, keys: &[CapabilityKey]) {
        self.keys.replace(keys);
        self.verified = Verified::default();
    }
    /// Handles a packet that arrived on a face, or (`arrived` = `None`) that this node made itself; see
    /// [`Router::originate`] for those.
    ///
    /// Requests whose capability does not verify are dropped if this node holds keys; those in [`Verdict::local`] are
    /// always verified, so a node without keys gets no requests. With [`RouterConfig::neighbours_only`], all packets
    /// from a face whose neighbour has never answered are dropped.
    #[inline]
    pub fn forward(&mut self, now: Time, arrived: Option<FaceId>, datagram: Datagram) -> Verdict {
        self.stats.arrived += 1;
        let arrived_index = arrived.and_then(|face| self.index_of_arrival(face));
        if let Some(index) = arrived_index {
            let stats = &mut self.faces[index].stats;
            stats.received_packets += 1;
            stats.received_bytes += datagram.len() as u64;
        }
        if arrived.is_some() && !self.may_send(arrived_index) {
            return self.drop(reason::UNSOLICITED);
        }
        let view = match View::parse(datagram.header_bytes()) {
            Ok(view) => view,
            Err(error) => return self.drop(error.reason()),
        };
        match self.decide(view.fid(datagram.header_bytes()), arrived_index) {
            Ok(ports) => self.dispatch(now, Passage::Transit, view, ports, datagram),
            Err(reason) => self.drop(reason),
        }
    }
    /// Handles packets of `batch` from number `first` on that arrived together, as many as have the same header:
    /// equivalent to [`Router::forward`] for each of them, decided once. Only Data comes in batches large enough.
    pub fn forward_batch(&mut self, arrived: FaceId, batch: &DatagramBatch, first: usize) -> BatchVerdict {
        let bytes = batch.bytes(first);
        let Some(view) = View::parse(bytes).ok().filter(|view| view.packet_type == PacketType::Data) else {
            return BatchVerdict::default();
        };
        let header = &bytes[..view.header_len];
        let end = (first + 1..batch.count()).find(|index| !batch.bytes(*index).starts_with(header));
        let all = first..end.unwrap_or(batch.count());
        let mut verdict = BatchVerdict {
            packets: all.len(),
            flags: view.flags,
            header_len: view.header_len,
            ..BatchVerdict::default()
        };
        self.stats.arrived += all.len() as u64;
        let arrived_index = self.index_of_arrival(arrived);
        if let Some(index) = arrived_index {
            let stats = &mut self.faces[index].stats;
            stats.received_packets += all.len() as u64;
            stats.received_bytes += all.clone().map(|index| batch.bytes(index).len() as u64).sum::<u64>();
        }
        let ports = match self.may_send(arrived_index) {
            true => self.decide(view.fid(bytes), arrived_index),
            false => Err(reason::UNSOLICITED),
        };
        let ports = match ports {
            Ok(ports) => ports,
            Err(reason) => {
                verdict.dropped = Some((self.count_drops(reason, all.len()), all.len()));
                return verdict;
            }
        };
        if ports.copies > 0 && view.ttl > 0 && self.cache.is_some() {
            all.clone().for_each(|index| self.on_data(view, &[], Body::Slice(&batch.bytes(index)[view.header_len..])));
        }
        if ports.is_local {
            self.stats.delivered += all.len() as u64;
            verdict.is_local = true;
        }
        if ports.copies == 0 {
            return verdict;
        }
        let Some(ttl) = ttl_of_copies(view.ttl, ports.copies).and_then(|share| share.checked_sub(1)) else {
            verdict.dropped = Some((self.count_drops(reason::TTL, all.len()), all.len()));
            return verdict;
        };
        let mut head = [0; FIXED_BYTES + FID_BYTES_MAX];
        let head = &mut head[..view.header_len];
        head.copy_from_slice(header);
        head[2] = ttl;
        for index in all {
            if let Some(reason) = self.enqueue_copies(head, batch.share(index, view.header_len), ports, &mut 0) {
                let dropped = verdict.dropped.map_or(0, |(_, dropped)| dropped);
                verdict.dropped = Some((reason, dropped + 1));
            }
        }
        verdict
    }
    /// Sends Data packets of this node, which have one header in common: equivalent to [`Router::originate`] for each
    /// of them, decided once. Those for this node itself are appended to `local`.
    pub fn originate_data(
        &mut self,
        header: &Header,
        packets: impl ExactSizeIterator<Item = (DataHeader, Bytes)>,
        local: &mut Vec<Datagram>,
    ) {
        self.stats.originated += packets.len() as u64;
        let ports = self.decide(FidView::of(&header.fid), None);
        let ports = ports.and_then(|ports| Ok((ports, ttl_of_copies(header.ttl, ports.copies).ok_or(reason::TTL)?)));
        let (ports, ttl) = match ports {
            Ok(ports) => ports,
            Err(reason) => {
                self.count_drops(reason, packets.len());
                return;
            }
        };
        let mut head = [0; HEAD_BYTES_MAX];
        let header_len = write_header(&mut head, header.packet_type, header.flags, ttl, &header.fid);
        let head = &mut head[..header_len + DataHeader::BYTES];
        for (data, payload) in packets {
            head[header_len..].copy_from_slice(&data.to_bytes());
            if ports.is_local {
                self.stats.delivered += 1;
                local.push(Datagram::new(head, payload.clone()));
            }
            self.enqueue_copies(head, payload, ports, &mut 0);
        }
    }
    /// Sends a packet of this node: `header`, then `next` (more header bytes, such as an encoded [`DataHeader`]), then
    /// the shared `body`. It may return in [`Verdict::local`]: publisher and subscriber in one node.
    ///
    /// # Panics
    /// If header and `next` together are longer than [`HEAD_BYTES_MAX`].
    pub fn originate(&mut self, now: Time, header: &Header, next: &[u8], body: Bytes) -> Verdict {
        self.stats.originated += 1;
        let mut head = [0; HEAD_BYTES_MAX];
        let header_len = write_header(&mut head, header.packet_type, header.flags, header.ttl, &header.fid);
        let len = header_len + next.len();
        head[header_len..len].copy_from_slice(next);
        let ports = match self.decide(FidView::of(&header.fid), None) {
            Ok(ports) => ports,
            Err(reason) => return self.drop(reason),
        };
        let view = View { packet_type: header.packet_type, flags: header.flags, ttl: header.ttl, header_len };
        self.dispatch(now, Passage::Own, view, ports, Datagram::new(&head[..len], body))
    }

    /// Whether nothing waits to be sent.
    #[cfg(any(test, feature = "internals"))]
    pub fn is_idle(&self) -> bool {
        self.queued == 0
    }
    /// Counters of one face.
    pub fn face_stats(&self, face: FaceId) -> Option<RouterFaceStats> {
        Some(self.faces[*self.face_index.get(&face)?].stats)
    }
    /// The faces, in the order in which they were added.
    #[cfg(any(test, feature = "internals"))]
    pub fn faces(&self) -> impl Iterator<Item = FaceId> {
        self.faces.iter().map(|face| face.id)
    }
    /// The packet cache, if any.
    pub fn cache(&self) -> Option<&PacketCache> {
        self.cache.as_ref()
    }
    /// The capability keys that it holds.
    pub fn keys(&self) -> &CapabilityKeys {
        &self.keys
    }
    /// The key of this node's labels.
    #[cfg(any(test, feature = "internals"))]
    pub fn label_key(&self) -> &LabelKey {
        &self.tables.key
    }

    #[inline]
    fn index_of_arrival(&mut self, face: FaceId) -> Option<usize> {
        match self.arrived_last {
            Some((last, index)) if last == face => Some(index),
            _ => {
                self.arrived_last = self.face_index.get(&face).map(|index| (face, *index));
                self.arrived_last.map(|(_, index)| index)
            }
        }
    }
    /// Whether packets of a face are accepted.
    #[inline]
    fn may_send(&self, face: Option<usize>) -> bool {
        !self.config.neighbours_only || face.is_some_and(|index| self.faces[index].is_proven)
    }
    /// Always inlined: arguments moved into a call are copied, and every packet takes this path.
    #[inline(always)]
    fn dispatch(&mut self, now: Time, passage: Passage, view: View, ports: Ports, mut datagram: Datagram) -> Verdict {
        let Ports { copies, is_local: local, .. } = ports;
        let mut verdict = Verdict::default();
        match (view.packet_type, passage) {
            (PacketType::Request, Passage::Transit) if local && self.keys.is_empty() => {
                return self.drop("no key to verify the capability");
            }
            (PacketType::Request, Passage::Transit) if !self.keys.is_empty() => {
                match self.on_request(now, view, &datagram, local) {
                    Ok(Answer::None) => {}
                    Ok(Answer::Some { rest, answered }) => {
                        verdict.answered = answered;
                        let Some(rest) = rest else {
                            self.stats.requests_absorbed += 1;
                            return verdict;
                        };
                        datagram = rest.into();
                    }
                    Err(reason) => return self.drop(reason),
                }
            }
            (PacketType::Data, Passage::Transit) if copies > 0 && view.ttl > 0 && self.cache.is_some() => {
                let [head, body] = parts_after(&datagram, view.header_len);
                let body = if head.is_empty() { Body::Slice(body) } else { Body::Shared(datagram.body()) };
                self.on_data(view, head, body);
            }
            _ => {}
        }
        if copies == 0 {
            self.stats.delivered += 1;
            verdict.local = Some(datagram);
            return verdict;
        }
        if local {
            self.stats.delivered += 1;
            verdict.local = Some(datagram.clone());
        }
        let ttl = match passage {
            Passage::Own => ttl_of_copies(view.ttl, copies),
            Passage::Transit => ttl_of_copies(view.ttl, copies).and_then(|share| share.checked_sub(1)),
        };
        let Some(ttl) = ttl else {
            verdict.dropped = Some(self.count_drop(reason::TTL));
            return verdict;
        };
        // A mark of the last link's queue travels on to the receiver.
        let mark = if datagram.is_marked() { FLAG_MARKED } else { 0 };
        let dropped = if datagram.head().is_empty() {
            let mut head = [0; FIXED_BYTES + FID_BYTES_MAX];
            let head = &mut head[..view.header_len];
            head.copy_from_slice(&datagram.header_bytes()[..view.header_len]);
            head[1] |= mark;
            head[2] = ttl;
            let mut body = datagram.into_bytes();
            body.advance(view.header_len);
            self.enqueue_copies(head, body, ports, &mut verdict.copies)
        } else {
            let body = datagram.take_body();
            let head = datagram.head_mut();
            head[1] |= mark;
            head[2] = ttl;
            self.enqueue_copies(head, body, ports, &mut verdict.copies)
        };
        verdict.dropped = dropped.or(verdict.dropped);
        verdict
    }
    fn drop(&mut self, reason: &'static str) -> Verdict {
        Verdict { dropped: Some(self.count_drop(reason)), ..Verdict::default() }
    }
    fn count_drop(&mut self, reason: &'static str) -> &'static str {
        self.count_drops(reason, 1)
    }
    fn count_drops(&mut self, reason: &'static str, packets: usize) -> &'static str {
        *self.stats.dropped.entry(reason).or_default() += packets as u64;
        reason
    }
    fn on_ports_changed(&mut self) {
        self.face_index.clear();
        self.arrived_last = None;
        self.faces.iter().enumerate().for_each(|(index, face)| {
            self.face_index.insert(face.id, index);
        });
        let ports: Vec<Port> = self.faces.iter().map(|face| Port::Face(face.id)).chain([Port::Local]).collect();
        self.matches.clear();
        self.matches.resize(ports.len().div_ceil(64), 0);
        self.bitmaps.iter_mut().for_each(|table| table.rebuild(&self.faces));
        self.tables.set_ports(ports);
        self.next_face = 0;
        self.on_up_changed();
    }
    fn on_up_changed(&mut self) {
        self.memo.forget();
        self.up.clear();
        self.up.resize(self.matches.len(), 0);
        let up = self.faces.iter().map(|face| face.stats.up).chain([true]).enumerate();
        up.filter(|(_, up)| *up).for_each(|(index, _)| self.up[index / 64] |= 1 << (index % 64));
    }
}

/// The origin of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passage {
    Transit,
    Own,
}

/// How many more hops each of `copies` may take of the remaining `ttl`; `None` if less than one.
///
/// Copies share the remaining hops, so that one packet never becomes more than `ttl` transmissions, for any FID and any
/// mesh. LIPSIN's limit of hops alone lets copies multiply at every hop.
pub(crate) fn ttl_of_copies(ttl: u8, copies: usize) -> Option<u8> {
    let share = usize::from(ttl) / copies.max(1);
    (share > 0).then_some(share as u8)
}

#[cfg(test)]
mod tests;

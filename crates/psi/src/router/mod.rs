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
pub mod cache;
pub mod labels;
pub mod neighbour;

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};
use bytes::{Buf, Bytes};

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use tributary_core::{ByteCount, Datagram, DatagramRun, FaceId, HEAD_BYTES_MAX, NodeId, Time, Transmit, TransmitBuf};
use tributary_transport::FaceOptions;

use crate::{
    capability::{CapabilityKey, CapabilityKeys},
    wire::{
        BitmapNumbers, DataHeader, FID_BYTES_MAX, FIXED_BYTES, FLAG_CACHED, FLAG_MARKED, FLAG_NO_CACHE, Fid, FidKind,
        Header, PacketType, REQUEST_RUNS_MAX, Request, Routes, StreamKey, TTL_MAX, VERSION, WireError,
    },
};
use cache::{Body, PacketCache, PayloadMemory, Provenance};
use labels::{BLOOM_BYTES_MIN, LabelKey, LabelTables, Port, SALTS, filter_words};

/// Settings of a router.
#[derive(Clone, PartialEq, Debug)]
pub struct RouterConfig {
    /// The node; its low 16 bits name the cache in the packets that it answers with.
    pub node: NodeId,
    /// The secret of its link labels, random for each start.
    pub secret: [u8; 16],
    /// Bits of a link label in a Bloom filter, 1 to 8; the same in the whole domain. Default: 5. LIPSIN §4.
    pub label_bits: u8,
    /// Share of set bits beyond which a Bloom FID is dropped. Default: 0.6. LIPSIN §4.
    pub fill_max: f64,
    /// Faces that one packet may leave by. Default: 32.
    pub copies_max: usize,
    /// Faces at most. Default: 1,024.
    pub faces_max: usize,
    /// Label tables at most, one per size and salt of Bloom filters in use. Default: 1,024.
    pub label_tables_max: usize,
    /// Packets that wait for one face at most. Default: 2,048.
    pub queue_packets_max: usize,
    /// Bytes that wait for one face at most. Default: 8 MiB.
    pub queue_bytes_max: usize,
    /// Bytes in a face's queue from which on packets are marked; `None` marks none. Default: `None`.
    pub mark_bytes: Option<usize>,
    /// Bytes of the packet cache; zero for none. Default: 64 MiB.
    pub cache_bytes: ByteCount,
    /// Name of the cache policy, one of [`cache::POLICIES`]; an unknown one means the first. Default: the first.
    pub cache_policy: alloc::string::String,
    /// What the cache keeps of payloads. Default: copies.
    pub cache_memory: PayloadMemory,
}

impl RouterConfig {
    /// Defaults for `node` with this secret.
    pub fn new(node: NodeId, secret: [u8; 16]) -> RouterConfig {
        RouterConfig {
            node,
            secret,
            label_bits: 5,
            fill_max: 0.6,
            copies_max: 32,
            faces_max: 1024,
            label_tables_max: 1024,
            queue_packets_max: 2048,
            queue_bytes_max: 8 << 20,
            mark_bytes: None,
            cache_bytes: ByteCount(64 << 20),
            cache_policy: cache::POLICIES[0].0.into(),
            cache_memory: PayloadMemory::Copied,
        }
    }
}

/// The forwarder of one node.
///
/// Order of calls: after each [`Router::forward`] or [`Router::originate`] look at the [`Verdict`]; then
/// [`Router::poll_transmit`] until it gives `None`. A face carries nothing until [`Router::set_face_up`] says that
/// its neighbour answers.
pub struct Router {
    config: RouterConfig,
    tables: LabelTables,
    faces: Vec<Face>,
    face_index: HashMap<FaceId, usize, FxBuildHasher>,
    /// The face that the last packet came by, which most often is that of the next one.
    arrived_last: Option<(FaceId, usize)>,
    up: Vec<u64>,
    matches: Vec<u64>,
    scratch: Vec<u64>,
    bitmaps: [BitmapTable; 2],
    keys: CapabilityKeys,
    verified: Verified,
    cache: Option<PacketCache>,
    queued: usize,
    spare: Option<Batch>,
    next_face: usize,
    memo: Memo,
    stats: RouterStats,
}

/// What became of a packet.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// How many copies were queued on faces.
    pub copies: usize,
    /// How many packets the cache put in place of (part of) a request.
    pub answered: usize,
    /// The packet as it came, if it is also for this node.
    pub local: Option<Datagram>,
    /// Why it was dropped, or at least one of its copies; counted in [`RouterStats::dropped`].
    pub dropped: Option<&'static str>,
}

/// What became of packets at the front of a run, which have one header in common.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunVerdict {
    /// How many packets it is about; zero if the first one has to go through [`Router::forward`] by itself.
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
    /// More faces match than an honest FID has.
    pub const COPIES: &str = "fid matches too many faces";
    /// Neither a face nor local delivery matches.
    pub const NO_MATCH: &str = "fid matches nothing here";
    /// A Bloom filter of illegal size or salt.
    pub const SHAPE: &str = "fid of illegal shape";
    /// A bitmap of a numbering that this router does not have.
    pub const EPOCH: &str = "fid of an unknown bitmap epoch";
    /// A request without a valid capability.
    pub const CAPABILITY: &str = "capability not valid";
    /// A request for this node, which has no key yet to verify it with.
    pub const NO_KEYS: &str = "no key to verify the capability";
    /// No room in a face's queue.
    pub const QUEUE: &str = "egress queue full";
    /// Longer than the face's MTU.
    pub const MTU: &str = "longer than the mtu";
}

struct Face {
    id: FaceId,
    options: FaceOptions,
    /// Full batches, of [`TransmitBuf::DATAGRAMS_MAX`] packets each, to be handed out as they are.
    full: VecDeque<Batch>,
    /// The batch behind them.
    open: Batch,
    stats: RouterFaceStats,
}

#[derive(Default)]
struct Batch {
    packets: TransmitBuf,
    bytes: usize,
}

impl Face {
    fn clear(&mut self) {
        self.full.clear();
        self.open = Batch::default();
        self.stats.queue_packets = 0;
        self.stats.queue_bytes = 0;
    }
}

impl Router {
    /// A router without faces.
    pub fn new(config: RouterConfig) -> Router {
        let policy = |name: &str| PacketCache::new(config.cache_bytes, name);
        let cache = match config.cache_bytes {
            ByteCount(0) => None,
            _ => policy(&config.cache_policy).or_else(|| policy(cache::POLICIES[0].0)),
        };
        let cache = cache.map(|mut cache| {
            cache.set_memory(config.cache_memory);
            cache
        });
        let mut router = Router {
            tables: LabelTables::new(&config.secret, config.label_bits, config.label_tables_max),
            faces: Vec::new(),
            face_index: HashMap::with_hasher(FxBuildHasher),
            arrived_last: None,
            up: Vec::new(),
            matches: Vec::new(),
            scratch: Vec::new(),
            bitmaps: Default::default(),
            keys: CapabilityKeys::new(),
            verified: Verified::default(),
            cache,
            queued: 0,
            spare: None,
            next_face: 0,
            memo: Memo::default(),
            stats: RouterStats::default(),
            config,
        };
        router.on_ports_changed();
        router
    }
    /// Adds a face, down until [`Router::set_face_up`]. A known face gets the new options. Returns whether there was
    /// room for it.
    pub fn add_face(&mut self, face: FaceId, options: FaceOptions) -> bool {
        if let Some(index) = self.face_index.get(&face) {
            self.faces[*index].options = options;
            return true;
        }
        if self.faces.len() >= self.config.faces_max {
            return false;
        }
        self.faces.push(Face {
            id: face,
            options,
            full: VecDeque::new(),
            open: Batch::default(),
            stats: RouterFaceStats::default(),
        });
        self.on_ports_changed();
        true
    }
    /// Removes a face and drops what waits for it.
    pub fn remove_face(&mut self, face: FaceId) {
        if let Some(index) = self.face_index.get(&face) {
            let removed = self.faces.remove(*index);
            self.queued -= removed.stats.queue_packets;
            self.on_ports_changed();
        }
    }
    /// Says whether the neighbour on a face answers. What waits for a face that goes down is dropped.
    pub fn set_face_up(&mut self, face: FaceId, up: bool) {
        let Some(index) = self.face_index.get(&face).copied() else { return };
        let state = &mut self.faces[index];
        state.stats.up = up;
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
    /// Replaces the capability keys. Without keys requests are passed on unverified, none is answered from the cache,
    /// and none is delivered to this node.
    pub fn set_keys(&mut self, keys: &[CapabilityKey]) {
        self.keys.replace(keys);
        self.verified = Verified::default();
    }
    /// Handles a packet that arrived on a face, or (`arrived` = `None`) that this node made itself; see
    /// [`Router::originate`] for those.
    ///
    /// Requests whose capability does not verify are dropped if this node holds keys; what
    /// [`Verdict::local`] has is verified always, so a node without keys gets no requests.
    #[inline]
    pub fn forward(&mut self, _now: Time, arrived: Option<FaceId>, datagram: Datagram) -> Verdict {
        self.stats.arrived += 1;
        let arrived_index = arrived.and_then(|face| self.index_of_arrival(face));
        if let Some(index) = arrived_index {
            let stats = &mut self.faces[index].stats;
            stats.received_packets += 1;
            stats.received_bytes += datagram.len() as u64;
        }
        let view = match View::parse(datagram.header_bytes()) {
            Ok(view) => view,
            Err(error) => return self.drop(error.reason()),
        };
        match self.decide(view.fid(datagram.header_bytes()), arrived_index) {
            Ok(ports) => self.dispatch(Passage::Transit, view, ports, datagram),
            Err(reason) => self.drop(reason),
        }
    }
    /// Handles packets of `run` from number `first` on that arrived together, as many as have the same header: what
    /// [`Router::forward`] does with each of them, decided once. Only Data comes in runs that are worth it.
    pub fn forward_run(&mut self, arrived: FaceId, run: &DatagramRun, first: usize) -> RunVerdict {
        let bytes = run.bytes(first);
        let Some(view) = View::parse(bytes).ok().filter(|view| view.packet_type == PacketType::Data) else {
            return RunVerdict::default();
        };
        let header = &bytes[..view.header_len];
        let end = (first + 1..run.count()).find(|index| !run.bytes(*index).starts_with(header));
        let all = first..end.unwrap_or(run.count());
        let mut verdict =
            RunVerdict { packets: all.len(), flags: view.flags, header_len: view.header_len, ..RunVerdict::default() };
        self.stats.arrived += all.len() as u64;
        let arrived_index = self.index_of_arrival(arrived);
        if let Some(index) = arrived_index {
            let stats = &mut self.faces[index].stats;
            stats.received_packets += all.len() as u64;
            stats.received_bytes += all.clone().map(|index| run.bytes(index).len() as u64).sum::<u64>();
        }
        let ports = match self.decide(view.fid(bytes), arrived_index) {
            Ok(ports) => ports,
            Err(reason) => {
                verdict.dropped = Some((self.count_drops(reason, all.len()), all.len()));
                return verdict;
            }
        };
        if ports.copies > 0 && view.ttl > 0 && self.cache.is_some() {
            all.clone().for_each(|index| self.on_data(view, &[], Body::Slice(&run.bytes(index)[view.header_len..])));
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
            if let Some(reason) = self.enqueue_copies(head, run.share(index, view.header_len), ports, &mut 0) {
                let dropped = verdict.dropped.map_or(0, |(_, dropped)| dropped);
                verdict.dropped = Some((reason, dropped + 1));
            }
        }
        verdict
    }
    /// Sends Data packets of this node, which have one header in common: what [`Router::originate`] does with each of
    /// them, decided once. Those for this node itself are appended to `local`.
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
    /// the shared `body`. It may come back in [`Verdict::local`]: publisher and subscriber in one node.
    ///
    /// # Panics
    /// If header and `next` together are longer than [`HEAD_BYTES_MAX`].
    pub fn originate(&mut self, _now: Time, header: &Header, next: &[u8], body: Bytes) -> Verdict {
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
        self.dispatch(Passage::Own, view, ports, Datagram::new(&head[..len], body))
    }
    /// Replaces the empty batch `out` by packets of one face, up to [`TransmitBuf::DATAGRAMS_MAX`]; faces take turns.
    #[inline]
    pub fn poll_transmit(&mut self, out: &mut TransmitBuf) -> Option<Transmit> {
        if self.queued == 0 { None } else { self.next_batch(out) }
    }
    fn next_batch(&mut self, out: &mut TransmitBuf) -> Option<Transmit> {
        let waits = |face: &Face| face.stats.queue_packets > 0;
        let (before, after) = self.faces.split_at(self.next_face);
        let index = match after.iter().position(waits) {
            Some(index) => self.next_face + index,
            None => before.iter().position(waits)?,
        };
        self.next_face = if index + 1 == self.faces.len() { 0 } else { index + 1 };
        // What `out` was before has room for the next packets.
        out.clear();
        let face = &mut self.faces[index];
        let bytes = match face.full.pop_front() {
            Some(mut batch) => {
                core::mem::swap(out, &mut batch.packets);
                let bytes = core::mem::take(&mut batch.bytes);
                self.spare = Some(batch);
                bytes
            }
            None => {
                core::mem::swap(out, &mut face.open.packets);
                core::mem::take(&mut face.open.bytes)
            }
        };
        let count = out.len();
        face.stats.queue_packets -= count;
        face.stats.queue_bytes -= bytes;
        face.stats.sent_packets += count as u64;
        face.stats.sent_bytes += bytes as u64;
        self.queued -= count;
        Some(Transmit { face: face.id })
    }

    /// Whether nothing waits to be sent.
    pub fn is_idle(&self) -> bool {
        self.queued == 0
    }
    /// Counters of the node.
    pub fn stats(&self) -> &RouterStats {
        &self.stats
    }
    /// Counters of one face.
    pub fn face_stats(&self, face: FaceId) -> Option<RouterFaceStats> {
        Some(self.faces[*self.face_index.get(&face)?].stats)
    }
    /// The faces, in the order in which they were added.
    pub fn faces(&self) -> impl Iterator<Item = FaceId> {
        self.faces.iter().map(|face| face.id)
    }
    /// The packet cache, if there is one.
    pub fn cache(&self) -> Option<&PacketCache> {
        self.cache.as_ref()
    }
    /// The key of this node's labels.
    pub fn label_key(&self) -> &LabelKey {
        self.tables.key()
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
    /// Where a packet with this FID goes that arrived by face number `arrived`, or that this node made itself: the faces
    /// are in `self.matches` then.
    fn decide(&mut self, fid: FidView<'_>, arrived: Option<usize>) -> Result<Ports, &'static str> {
        if self.memo.holds(&fid, arrived) {
            return Ok(self.memo.ports);
        }
        self.match_fid(fid)?;
        if let Some(index) = arrived {
            self.matches[index / 64] &= !(1 << (index % 64));
        }
        let is_local = self.take_local();
        let ports = self.ports_of_matches(is_local);
        if ports.copies == 0 && !is_local {
            return Err(reason::NO_MATCH);
        }
        if ports.copies > self.config.copies_max {
            return Err(reason::COPIES);
        }
        self.memo.keep(&fid, arrived, ports);
        Ok(ports)
    }
    /// Sets `self.matches` to the ports (faces that are up, and last the node itself) that the FID names.
    fn match_fid(&mut self, fid: FidView<'_>) -> Result<(), &'static str> {
        self.memo.forget();
        match_ports(&mut self.tables, &self.bitmaps, &self.config, fid, &mut self.matches)?;
        self.matches.iter_mut().zip(&self.up).for_each(|(matched, up)| *matched &= up);
        Ok(())
    }
    /// Takes this node out of `self.matches`; whether it was there.
    fn take_local(&mut self) -> bool {
        let local_index = self.faces.len();
        let local_bit = 1 << (local_index % 64);
        let is_local = self.matches[local_index / 64] & local_bit != 0;
        self.matches[local_index / 64] &= !local_bit;
        is_local
    }
    fn ports_of_matches(&self, is_local: bool) -> Ports {
        let words = || self.matches.iter().enumerate().filter(|(_, word)| **word != 0);
        let first = words().next().map_or(0, |(index, word)| index * 64 + word.trailing_zeros() as usize);
        Ports { copies: words().map(|(_, word)| word.count_ones() as usize).sum(), first, is_local }
    }
    /// Always inlined: what is moved into a call is copied, and this is on the way of every packet.
    #[inline(always)]
    fn dispatch(&mut self, passage: Passage, view: View, ports: Ports, mut datagram: Datagram) -> Verdict {
        let Ports { copies, is_local: local, .. } = ports;
        let mut verdict = Verdict::default();
        match (view.packet_type, passage) {
            (PacketType::Request, Passage::Transit) if local && self.keys.is_empty() => {
                return self.drop(reason::NO_KEYS);
            }
            (PacketType::Request, Passage::Transit) if !self.keys.is_empty() => {
                match self.on_request(view, &datagram, local) {
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
        // What the queue of the last link said goes on to the receiver.
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
    /// Queues a packet on all faces in `self.matches`, of which `ports` tells. Adds to `queued` how many were queued, and
    /// gives the reason if one was not.
    fn enqueue_copies(
        &mut self,
        head: &mut [u8],
        body: Bytes,
        ports: Ports,
        queued: &mut usize,
    ) -> Option<&'static str> {
        if ports.copies == 1 {
            let result = self.enqueue(ports.first, head, body);
            *queued += usize::from(result.is_ok());
            return result.err().map(|reason| self.count_drop(reason));
        }
        let (mut body, mut left, mut dropped) = (Some(body), ports.copies, None);
        for word in 0..self.matches.len() {
            let mut bits = self.matches[word];
            while bits != 0 {
                let index = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                left -= 1;
                let Some(body) = (if left == 0 { body.take() } else { body.clone() }) else { break };
                match self.enqueue(index, head, body) {
                    Ok(()) => *queued += 1,
                    Err(reason) => dropped = Some(self.count_drop(reason)),
                }
            }
        }
        dropped
    }
    /// Puts a packet into a face's queue.
    fn enqueue(&mut self, index: usize, head: &mut [u8], body: Bytes) -> Result<(), &'static str> {
        let face = &mut self.faces[index];
        let bytes = head.len() + body.len();
        if bytes > face.options.mtu as usize {
            face.stats.dropped_packets += 1;
            return Err(reason::MTU);
        }
        let queue_bytes = face.stats.queue_bytes + bytes;
        if face.stats.queue_packets >= self.config.queue_packets_max || queue_bytes > self.config.queue_bytes_max {
            face.stats.dropped_packets += 1;
            return Err(reason::QUEUE);
        }
        if face.open.packets.is_full() {
            let spare = self.spare.take().unwrap_or_default();
            face.full.push_back(core::mem::replace(&mut face.open, spare));
        }
        let batch = &mut face.open;
        let flags = head[1];
        if self.config.mark_bytes.is_some_and(|mark| queue_bytes > mark) {
            head[1] |= FLAG_MARKED;
            face.stats.marked_packets += 1;
        }
        batch.packets.push(head, body);
        batch.bytes += bytes;
        head[1] = flags;
        face.stats.queue_bytes = queue_bytes;
        face.stats.queue_packets += 1;
        self.queued += 1;
        self.stats.queued += 1;
        Ok(())
    }
    /// Keeps a packet that passes through; `head` and `body` are what stands behind its header.
    fn on_data(&mut self, view: View, head: &[u8], body: Body<'_>) {
        let Some(cache) = &mut self.cache else { return };
        let front = if head.is_empty() { &body[..] } else { head };
        let Ok(data) = DataHeader::decode(front) else { return };
        let (head, body) = match head {
            [] => (head, Body::Slice(&body[DataHeader::BYTES..])),
            head => (&head[DataHeader::BYTES..], body),
        };
        let from = if view.flags & FLAG_CACHED == 0 { Provenance::Source } else { Provenance::Cache };
        cache.insert_body(data.stream, data.packet, head, body, from);
    }
    /// Verifies a request and answers what the cache has of it. `self.matches` is left as it was.
    fn on_request(&mut self, view: View, datagram: &Datagram, local: bool) -> Result<Answer, &'static str> {
        let reverse = view.fid(datagram.header_bytes()).to_fid();
        let [head, body] = parts_after(datagram, view.header_len);
        let joined;
        let bytes = if head.is_empty() {
            body
        } else {
            joined = [head, body].concat();
            &joined
        };
        let request = Request::decode(bytes).map_err(WireError::reason)?;
        if !self.verified.check(&self.keys, &reverse, &request.forward, &request.capability) {
            return Err(reason::CAPABILITY);
        }
        if local || view.ttl == 0 || view.flags & FLAG_NO_CACHE != 0 || self.cache.is_none() {
            return Ok(Answer::None);
        }
        self.scratch.clone_from(&self.matches);
        let answer = self.answer(view, &reverse, &request);
        core::mem::swap(&mut self.scratch, &mut self.matches);
        Ok(answer)
    }
    /// Sends what the cache has of `request`, whose own way on is in `self.scratch`.
    fn answer(&mut self, view: View, reverse: &Fid, request: &Request) -> Answer {
        let stream = StreamKey::new(&request.object, request.packet_bytes);
        let Some(cache) = &mut self.cache else { return Answer::None };
        if !cache.holds(stream) {
            cache.count_misses(request.runs.iter().map(|(_, count)| u64::from(*count)).sum());
            return Answer::None;
        }
        if self.match_fid(FidView::of(&request.forward)).is_err() {
            return Answer::None;
        }
        // The answer leaves as if it had come from where the request would have gone on to, so that it takes the
        // same way as an answer of the source, which is the way that the topology manager verified.
        self.take_local();
        self.matches.iter_mut().zip(&self.scratch).for_each(|(matched, request)| *matched &= !request);
        let ports = self.ports_of_matches(false);
        let copies = ports.copies;
        if copies == 0 || copies > self.config.copies_max {
            return Answer::None;
        }
        let mut head = [0; HEAD_BYTES_MAX];
        let Some(ttl) = ttl_of_copies(TTL_MAX, copies) else { return Answer::None };
        let header_len = write_header(&mut head, PacketType::Data, FLAG_CACHED, ttl, &request.forward);
        let head = &mut head[..header_len + DataHeader::BYTES];
        let data = DataHeader { tag: request.tag, packet: 0, stream, origin: self.config.node.0 as u16 };
        head[header_len..].copy_from_slice(&data.to_bytes());

        let mut remaining = Remaining::default();
        let mut answered = 0;
        // It is put back below: packets are queued while it is looked at.
        let Some(mut cache) = self.cache.take() else { return Answer::None };
        for (i, (first, count)) in request.runs.iter().enumerate() {
            let runs_to_come = request.runs.len() - i - 1;
            cache.lookup_run(stream, *first..*first + u32::from(*count), |packet, found| {
                // A hit may split a run in two; the rewritten request must not get too many runs.
                let may_split = remaining.runs.len() + 1 + runs_to_come <= REQUEST_RUNS_MAX;
                let Some(payload) = found.filter(|_| may_split) else {
                    remaining.push(packet);
                    return false;
                };
                head[header_len + 4..header_len + 8].copy_from_slice(&packet.to_be_bytes());
                self.enqueue_copies(head, payload.clone(), ports, &mut 0);
                answered += 1;
                true
            });
            remaining.close();
        }
        self.cache = Some(cache);
        if answered == 0 {
            return Answer::None;
        }
        self.stats.answered += answered as u64;
        if remaining.runs.is_empty() {
            return Answer::Some { rest: None, answered };
        }
        let rest = Request { runs: remaining.runs, ..request.clone() };
        let mut bytes = Vec::with_capacity(256);
        let header = Header { packet_type: PacketType::Request, flags: view.flags, ttl: view.ttl, fid: *reverse };
        header.encode(&mut bytes);
        rest.encode(&mut bytes);
        Answer::Some { rest: Some(bytes.into()), answered }
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

/// Where a packet comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passage {
    Transit,
    Own,
}

/// What the cache did with a request.
enum Answer {
    None,
    Some { rest: Option<Bytes>, answered: usize },
}

/// The packets of a request that the cache does not have, as runs.
#[derive(Default)]
struct Remaining {
    runs: Vec<(u32, u8)>,
    closed: bool,
}

impl Remaining {
    fn push(&mut self, packet: u32) {
        match self.runs.last_mut() {
            Some((first, count)) if !self.closed && *first + u32::from(*count) == packet => *count += 1,
            _ => self.runs.push((packet, 1)),
        }
        self.closed = false;
    }
    /// Ends a run of the original request: what follows is a run of its own.
    fn close(&mut self) {
        self.closed = true;
    }
}

/// How many more hops each of `copies` may take of the `ttl` that there are; `None` if that is less than one.
///
/// Copies share what is left, so that one packet never becomes more than `ttl` transmissions, whatever its FID
/// names and however the nodes are meshed. LIPSIN's limit of hops alone lets copies multiply at every hop.
pub(crate) fn ttl_of_copies(ttl: u8, copies: usize) -> Option<u8> {
    let share = usize::from(ttl) / copies.max(1);
    (share > 0).then_some(share as u8)
}

/// The ports that `fid` names, in `matches`.
fn match_ports(
    tables: &mut LabelTables,
    bitmaps: &[BitmapTable; 2],
    config: &RouterConfig,
    fid: FidView<'_>,
    matches: &mut [u64],
) -> Result<(), &'static str> {
    matches.fill(0);
    match fid.kind {
        FidKind::Bloom => {
            let len = fid.bytes.len();
            if len < BLOOM_BYTES_MIN || fid.salt >= SALTS {
                return Err(reason::SHAPE);
            }
            let filter = filter_words(fid.bytes);
            if is_overfull(&filter[..len.div_ceil(8)], len, config.fill_max) {
                return Err(reason::OVERFULL);
            }
            tables.match_bloom(&filter, len, fid.salt, matches);
        }
        FidKind::List => tables.match_list(fid.bytes, fid.salt, matches),
        FidKind::Bitmap => {
            let table = bitmaps.iter().find(|table| table.numbers.epoch == fid.salt).ok_or(reason::EPOCH)?;
            table.match_bits(fid.bytes, matches);
        }
    }
    Ok(())
}

/// Whether more than the share `fill_max` of a filter's bits is set.
pub(crate) fn is_overfull(words: &[u64], filter_bytes: usize, fill_max: f64) -> bool {
    let set: u32 = words.iter().map(|word| word.count_ones()).sum();
    f64::from(set) > fill_max * (filter_bytes * 8) as f64
}

/// The bits of this node's ports in one numbering of the domain.
#[derive(Default)]
struct BitmapTable {
    numbers: BitmapNumbers,
    bits: Vec<Option<u16>>,
}

impl BitmapTable {
    fn rebuild(&mut self, faces: &[Face]) {
        let bit = |face: &Face| self.numbers.faces.iter().find(|(id, _)| *id == face.id).map(|(_, bit)| *bit);
        self.bits = faces.iter().map(bit).chain([self.numbers.local]).collect();
    }
    fn match_bits(&self, bitmap: &[u8], matches: &mut [u64]) {
        for (i, bit) in self.bits.iter().enumerate() {
            let Some(bit) = bit.map(usize::from) else { continue };
            if bitmap.get(bit / 8).is_some_and(|byte| byte & (1 << (bit % 8)) != 0) {
                matches[i / 64] |= 1 << (i % 64);
            }
        }
    }
}

/// Where a packet goes.
#[derive(Clone, Copy, Default)]
struct Ports {
    /// How many faces it leaves by.
    copies: usize,
    /// The index of the first of them.
    first: usize,
    /// Whether it is for this node, too.
    is_local: bool,
}

/// The last decision: packets come in batches of one path, and then it need not be made again. Its faces are those in
/// [`Router::matches`].
#[derive(Clone)]
struct Memo {
    kind: FidKind,
    salt: u8,
    len: usize,
    bytes: [u8; FID_BYTES_MAX],
    arrived: Option<usize>,
    ports: Ports,
}

impl Default for Memo {
    fn default() -> Self {
        Memo { kind: FidKind::List, salt: 0, len: 0, bytes: [0; FID_BYTES_MAX], arrived: None, ports: Ports::default() }
    }
}

impl Memo {
    /// Whether the decision is about `fid` that arrived by this face; an empty FID never is.
    fn holds(&self, fid: &FidView<'_>, arrived: Option<usize>) -> bool {
        self.len > 0
            && self.arrived == arrived
            && self.salt == fid.salt
            && self.kind == fid.kind
            && self.bytes[..self.len] == *fid.bytes
    }
    fn keep(&mut self, fid: &FidView<'_>, arrived: Option<usize>, ports: Ports) {
        self.len = fid.bytes.len();
        (self.kind, self.salt) = (fid.kind, fid.salt);
        self.bytes[..self.len].copy_from_slice(fid.bytes);
        (self.arrived, self.ports) = (arrived, ports);
    }
    fn forget(&mut self) {
        self.len = 0;
    }
}

/// Pairs of routes whose capability was verified lately, so that each is hashed once and not per request.
#[derive(Default)]
struct Verified(Vec<Option<(Fid, Fid, [u8; 8])>>);

impl Verified {
    const SLOTS: usize = 64;

    fn check(&mut self, keys: &CapabilityKeys, reverse: &Fid, forward: &Fid, capability: &[u8; 8]) -> bool {
        let slot = usize::from(capability[1]) % Self::SLOTS;
        let known = self.0.get(slot).and_then(Option::as_ref);
        if known.is_some_and(|(r, f, c)| r == reverse && f == forward && c == capability) {
            return true;
        }
        let valid = keys.verify(reverse, forward, capability);
        if valid {
            self.0.resize(Self::SLOTS, None);
            self.0[slot] = Some((*reverse, *forward, *capability));
        }
        valid
    }
}

/// The common header without copying its FID; accepts exactly what [`Header::decode`] accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct View {
    pub(crate) packet_type: PacketType,
    pub(crate) flags: u8,
    ttl: u8,
    pub(crate) header_len: usize,
}

impl View {
    #[inline]
    pub(crate) fn parse(bytes: &[u8]) -> Result<View, WireError> {
        let fixed: &[u8; FIXED_BYTES] =
            bytes.first_chunk().ok_or(WireError::Short { field: "header", needs: FIXED_BYTES, has: bytes.len() })?;
        let [kind, flags, ttl, shape, _] = *fixed;
        let header_len = FIXED_BYTES + usize::from(shape & 0x3f) * 2;
        let packet_type = match kind {
            REQUEST => PacketType::Request,
            DATA => PacketType::Data,
            _ => return View::parse_any(bytes),
        };
        let legal = flags & !(FLAG_NO_CACHE | FLAG_CACHED | FLAG_MARKED) == 0
            && ttl <= TTL_MAX
            && shape >> 6 <= FidKind::List as u8
            && header_len <= FIXED_BYTES + FID_BYTES_MAX
            && bytes.len() >= header_len;
        if legal { Ok(View { packet_type, flags, ttl, header_len }) } else { View::parse_any(bytes) }
    }
    fn parse_any(bytes: &[u8]) -> Result<View, WireError> {
        let header = Header::decode(bytes)?;
        Ok(View { packet_type: header.packet_type, flags: header.flags, ttl: header.ttl, header_len: header.len() })
    }
    fn fid<'a>(&self, bytes: &'a [u8]) -> FidView<'a> {
        let kind = match bytes[3] >> 6 {
            0 => FidKind::Bloom,
            1 => FidKind::Bitmap,
            _ => FidKind::List,
        };
        FidView { kind, salt: bytes[4], bytes: &bytes[FIXED_BYTES..self.header_len] }
    }
}

const REQUEST: u8 = (VERSION << 4) | PacketType::Request as u8;
const DATA: u8 = (VERSION << 4) | PacketType::Data as u8;

/// An FID where it lies.
#[derive(Clone, Copy)]
struct FidView<'a> {
    kind: FidKind,
    salt: u8,
    bytes: &'a [u8],
}

impl<'a> FidView<'a> {
    fn of(fid: &'a Fid) -> FidView<'a> {
        FidView { kind: fid.kind(), salt: fid.salt(), bytes: fid.bytes() }
    }
    fn to_fid(self) -> Fid {
        Fid::new(self.kind, self.salt, self.bytes)
    }
}

/// Writes a common header to the start of `out` and gives its length.
fn write_header(out: &mut [u8; HEAD_BYTES_MAX], packet_type: PacketType, flags: u8, ttl: u8, fid: &Fid) -> usize {
    let len = FIXED_BYTES + fid.bytes().len();
    let shape = ((fid.kind() as u8) << 6) | (fid.bytes().len() / 2) as u8;
    out[..FIXED_BYTES].copy_from_slice(&[(VERSION << 4) | packet_type as u8, flags, ttl, shape, fid.salt()]);
    out[FIXED_BYTES..len].copy_from_slice(fid.bytes());
    len
}

/// What stands behind the common header: the rest of the head, and the body.
fn parts_after(datagram: &Datagram, header_len: usize) -> [&[u8]; 2] {
    let head = datagram.head();
    if head.is_empty() { [&[], &datagram.body()[header_len..]] } else { [&head[header_len..], datagram.body()] }
}

#[cfg(test)]
mod tests;

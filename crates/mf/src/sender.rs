//! The sending end (paper §3.1, §3.2.2, §3.4.2): cuts objects into chunks, keeps to the end-to-end window, and repeats
//! what is missing, from the network's storage where it is there.
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::{String, ToString},
    vec::Vec,
};

use bytes::Bytes;
use tributary_content::{ChunkIndex, Name, ObjectId, ObjectReader};
use tributary_core::{ByteCount, Duration, Time};

use crate::{
    config::EndConfig,
    ids::{Flow, Guid, NetworkAddress, ServiceId},
    router::cache::ContentCache,
    wire::{ChunkHeader, ChunkKind, ChunkRanges, DataTag, Flags, Reliability, TransportMessage},
};

/// Flows of a node at most.
const FLOWS_MAX: usize = 4_096;
/// A flow of which nothing is heard for so long is forgotten.
const FLOW_LIFETIME: Duration = Duration::from_secs(3_600);
/// How long a sender waits before it repeats what a proxy has dropped; doubles up to [`DROP_PAUSE_MAX`].
const DROP_PAUSE: Duration = Duration::from_millis(500);
const DROP_PAUSE_MAX: Duration = Duration::from_secs(16);
/// How long an acknowledgement is waited for (reliability [`Reliability::Ack`]); doubles up to 32 times.
const ACK_PATIENCE: Duration = Duration::from_secs(2);
/// A request that comes again so soon is the same request.
const REQUEST_AGAIN: Duration = Duration::from_secs(2);
/// Transfers numbered by a sender have this bit, those numbered by a receiver have not.
pub const PUSHED: u32 = 1 << 31;

/// How something is sent without having been asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendOptions {
    /// Bytes of the object in a chunk.
    pub chunk_bytes: u32,
    /// How sure it has to be.
    pub reliability: Reliability,
    /// Whether it may be stored on the way.
    pub proxy: ProxyUse,
    /// Larger is more important where storage is short.
    pub priority: u8,
    /// How long it is worth storing; `None` leaves it to the proxies.
    pub lifetime: Option<Duration>,
    /// To one, or to all of a group.
    pub service: ServiceId,
}

/// Whether the network may keep chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ProxyUse {
    /// Proxies may store what cannot be delivered.
    #[default]
    Allowed,
    /// The access router is to keep a copy and answer for this node (producer delegation).
    Delegate,
    /// What cannot be delivered is to be dropped.
    Forbidden,
}

impl SendOptions {
    /// As the node's settings say, unicast.
    pub fn new(config: &EndConfig) -> SendOptions {
        SendOptions {
            chunk_bytes: config.chunk_bytes,
            reliability: config.reliability,
            proxy: if config.delegate { ProxyUse::Delegate } else { ProxyUse::Allowed },
            priority: 0,
            lifetime: None,
            service: ServiceId::Unicast,
        }
    }
    fn flags(&self) -> Flags {
        match self.proxy {
            ProxyUse::Allowed => Flags::NONE,
            ProxyUse::Delegate => Flags::DELEGATE,
            ProxyUse::Forbidden => Flags::NO_PROXY,
        }
    }
}

/// All that a node sends.
pub struct Sender {
    own: Guid,
    config: EndConfig,
    objects: BTreeMap<ObjectId, Published>,
    by_name: BTreeMap<Name, ObjectId>,
    flows: BTreeMap<(Guid, u32), Outflow>,
    /// Who was served last: flows take turns.
    last: (Guid, u32),
    next_transfer: u32,
    messages: VecDeque<(Guid, NetworkAddress, TransportMessage)>,
    failures: VecDeque<(String, String)>,
    /// Chunks sent, and of these sent again.
    pub chunks: (u64, u64),
    /// Requests for objects that are not here.
    pub unknown: u64,
}

struct Published {
    reader: Box<dyn ObjectReader>,
    /// Manifest and hash list: chunk 0.
    head: Bytes,
    /// The chunk of the object that was read last.
    last: Option<(u32, Bytes)>,
}

struct Outflow {
    object: ObjectId,
    from_cache: bool,
    addresses: Vec<NetworkAddress>,
    options: SendOptions,
    requested: bool,
    chunk_bytes: u32,
    count: u32,
    /// The next chunk that was never sent.
    next: u32,
    held: ChunkRanges,
    again: BTreeSet<u32>,
    dropped: BTreeSet<u32>,
    stored: BTreeMap<u32, (Guid, NetworkAddress)>,
    unacknowledged: BTreeSet<u32>,
    window: Windows,
    status_sequence: u32,
    heard_at: Time,
    sent_at: Time,
    pause: Duration,
    resume_at: Option<Time>,
    ack_at: Option<Time>,
    ack_tries: u32,
}

/// The end-to-end window (paper §3.4.2). Two windows may be under way, so that the one message per window comes in time.
struct Windows {
    /// First chunk, chunk after the last, and chunks that are to be sent of each window so far; empty for what is too
    /// small for flow control.
    begun: Vec<(u32, u32, u16)>,
    confirmed: usize,
    /// Chunks of the next window; 0 stops.
    advice: u16,
    controlled: bool,
}

impl Windows {
    fn may_send(&mut self, number: u32, count: u32, held: &ChunkRanges) -> bool {
        if !self.controlled || self.begun.last().is_some_and(|(_, end, _)| number < *end) {
            return true;
        }
        if self.advice == 0 || self.begun.len() > self.confirmed + 1 {
            return false;
        }
        let (mut end, mut chunks) = (number, 0);
        while end < count && chunks < self.advice {
            chunks += u16::from(!held.contains(end));
            end += 1;
        }
        self.begun.push((number, end, chunks));
        true
    }
    fn of(&self, number: u32) -> (u16, u16) {
        let at = self.begun.partition_point(|(first, ..)| *first <= number);
        match at.checked_sub(1).map(|at| (at, self.begun[at])) {
            Some((at, (.., chunks))) => (at as u16, chunks),
            None => (u16::MAX, 0),
        }
    }
}

impl Sender {
    /// Nothing to send. `first_transfer` is where pushed transfers are numbered from.
    pub fn new(own: Guid, config: EndConfig, first_transfer: u32) -> Sender {
        Sender {
            own,
            config,
            objects: BTreeMap::new(),
            by_name: BTreeMap::new(),
            flows: BTreeMap::new(),
            last: (Guid::NONE, 0),
            next_transfer: first_transfer,
            messages: VecDeque::new(),
            failures: VecDeque::new(),
            chunks: (0, 0),
            unknown: 0,
        }
    }

    // Objects.

    /// Offers an object; an older one of the same name is dropped.
    pub fn publish(&mut self, reader: Box<dyn ObjectReader>) {
        let (name, object) = (reader.manifest().name.clone(), reader.manifest().object_id());
        if let Some(old) = self.by_name.insert(name, object).filter(|old| *old != object) {
            self.objects.remove(&old);
        }
        let manifest = reader.manifest().encode();
        let mut head = Vec::with_capacity(manifest.len() + 2);
        head.extend_from_slice(&u16::try_from(manifest.len()).unwrap_or(u16::MAX).to_be_bytes());
        head.extend_from_slice(&manifest);
        head.extend_from_slice(&reader.tree());
        self.objects.insert(object, Published { reader, head: head.into(), last: None });
    }
    /// Withdraws a name; gives the object that it had.
    pub fn unpublish(&mut self, name: &Name) -> Option<ObjectId> {
        let object = self.by_name.remove(name)?;
        self.objects.remove(&object);
        Some(object)
    }
    /// Names and sizes of all objects.
    pub fn published(&self) -> impl Iterator<Item = (&Name, ByteCount)> {
        self.by_name.iter().map(|(name, object)| {
            let size = self.objects.get(object).map_or(0, |published| published.reader.manifest().size);
            (name, ByteCount(size))
        })
    }
    /// The reader of an object.
    pub fn object(&self, id: &ObjectId) -> Option<&dyn ObjectReader> {
        self.objects.get(id).map(|published| &*published.reader)
    }
    /// The object that is published under a name.
    pub fn by_name(&self, name: &Name) -> Option<ObjectId> {
        self.by_name.get(name).copied()
    }

    // Flows.

    /// Sends an object that is published here to somebody who did not ask; gives the transfer's number, or nothing if
    /// there is no such object or too many flows.
    pub fn push(
        &mut self,
        now: Time,
        object: ObjectId,
        destination: Guid,
        addresses: Vec<NetworkAddress>,
        options: SendOptions,
    ) -> Option<u32> {
        self.next_transfer = self.next_transfer.wrapping_add(1) | PUSHED;
        let transfer = self.next_transfer;
        let size = self.objects.get(&object)?.reader.manifest().size;
        let chunk_bytes = self.cut_for(object, options.chunk_bytes)?;
        let count = chunk_count(size, chunk_bytes);
        let flow = self.flow(now, object, addresses, options, chunk_bytes, count);
        self.start((destination, transfer), flow).then_some(transfer)
    }
    /// Takes a request. With `cache` it is answered from there, else from the objects published here.
    pub fn handle_request(
        &mut self,
        now: Time,
        header: &ChunkHeader,
        message: &TransportMessage,
        cache: Option<(u32, u32)>,
    ) {
        let TransportMessage::Request { transfer, object, chunk_bytes, reliability, buffer_chunks, held } = message
        else {
            return;
        };
        let id = (header.source, *transfer);
        if let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.object == *object) {
            // Asked again: what was sent long ago must have been lost.
            if now.since(flow.sent_at.max(flow.heard_at)) > REQUEST_AGAIN {
                flow.heard_at = now;
                flow.addresses = header_addresses(header);
                let next = flow.next;
                flow.again.extend((0..next).filter(|number| !held.contains(*number)));
            }
            return;
        }
        let options = SendOptions { reliability: *reliability, ..SendOptions::new(&self.config) };
        let cut = match cache {
            Some(cut) => Some(cut),
            None => self.cut_for(*object, *chunk_bytes).and_then(|chunk_bytes| {
                let size = self.objects.get(object)?.reader.manifest().size;
                Some((chunk_bytes, chunk_count(size, chunk_bytes)))
            }),
        };
        let Some((chunk_bytes, count)) = cut else {
            self.unknown += 1;
            let unavailable = TransportMessage::Unavailable { transfer: *transfer, object: *object };
            return self.messages.push_back((header.source, header.source_address, unavailable));
        };
        let mut flow = self.flow(now, *object, header_addresses(header), options, chunk_bytes, count);
        flow.requested = true;
        flow.from_cache = cache.is_some();
        flow.held = held.clone();
        flow.window.advice = flow.window.advice.min(*buffer_chunks).max(1);
        self.start(id, flow);
    }
    fn flow(
        &self,
        now: Time,
        object: ObjectId,
        addresses: Vec<NetworkAddress>,
        options: SendOptions,
        chunk_bytes: u32,
        count: u32,
    ) -> Outflow {
        let window = Windows {
            begun: Vec::new(),
            confirmed: 0,
            advice: self.config.window_chunks,
            // Small objects are through before the receiver could say anything (paper §3.4.2).
            controlled: count > u32::from(self.config.window_chunks) && options.reliability != Reliability::DontCare,
        };
        Outflow {
            object,
            from_cache: false,
            addresses,
            options,
            requested: false,
            chunk_bytes,
            count,
            next: 0,
            held: ChunkRanges::default(),
            again: BTreeSet::new(),
            dropped: BTreeSet::new(),
            stored: BTreeMap::new(),
            unacknowledged: BTreeSet::new(),
            window,
            status_sequence: 0,
            heard_at: now,
            sent_at: now,
            pause: DROP_PAUSE,
            resume_at: None,
            ack_at: None,
            ack_tries: 0,
        }
    }
    fn start(&mut self, id: (Guid, u32), flow: Outflow) -> bool {
        let room = self.flows.len() < FLOWS_MAX;
        if room {
            self.flows.insert(id, flow);
        }
        room
    }
    /// The chunk size for an object: what is asked for, at most the configured one; whole chunks of the object if it is
    /// larger than these.
    fn cut_for(&self, object: ObjectId, wanted: u32) -> Option<u32> {
        let unit = self.objects.get(&object)?.reader.manifest().chunk_size;
        let wanted = wanted.min(self.config.chunk_bytes).max(1_024);
        Some(if wanted > unit { wanted / unit * unit } else { wanted })
    }
    /// Takes a message of a receiver or a proxy.
    pub fn handle_message(&mut self, now: Time, from: Guid, address: NetworkAddress, message: &TransportMessage) {
        match message {
            TransportMessage::Status { transfer, object, window, advice_chunks, sequence, missing } => {
                let Some(flow) = self.flows.get_mut(&(from, *transfer)).filter(|flow| flow.object == *object) else {
                    return;
                };
                if *sequence <= flow.status_sequence {
                    return;
                }
                flow.status_sequence = *sequence;
                flow.heard_at = now;
                if !address.is_none() && flow.addresses.len() <= 1 {
                    flow.addresses = Vec::from([address]);
                }
                flow.window.confirmed = flow.window.confirmed.max(usize::from(*window).saturating_add(1));
                flow.window.advice = *advice_chunks;
                let own = self.own;
                let mut pushes: BTreeMap<(Guid, NetworkAddress), Vec<u32>> = BTreeMap::new();
                for number in missing.iter().take_while(|number| *number < flow.next) {
                    match flow.stored.remove(&number) {
                        // The network's copy is nearer (paper §3.3); if it does not come either, this end sends it.
                        Some(proxy) => pushes.entry(proxy).or_default().push(number),
                        None => drop(flow.again.insert(number)),
                    }
                }
                for ((proxy, address), numbers) in pushes {
                    let push = TransportMessage::Push {
                        flow: Flow { source: own, destination: from },
                        transfer: *transfer,
                        object: *object,
                        chunks: ChunkRanges::from_ascending(numbers),
                    };
                    self.messages.push_back((proxy, address, push));
                }
            }
            TransportMessage::Ack { transfer, object, complete, chunks } => {
                let id = (from, *transfer);
                let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.object == *object) else { return };
                flow.heard_at = now;
                for number in chunks.iter().take_while(|number| *number < flow.count) {
                    flow.unacknowledged.remove(&number);
                    flow.again.remove(&number);
                }
                if *complete {
                    self.flows.remove(&id);
                }
            }
            TransportMessage::Stored { flow, transfer, object, proxy, address, chunks } => {
                if let Some(state) = self.own_flow(flow, *transfer, *object) {
                    state.stored.extend(chunks.iter().take(65_536).map(|number| (number, (*proxy, *address))));
                    state.pause = DROP_PAUSE;
                    for number in chunks.iter().take(65_536) {
                        state.dropped.remove(&number);
                    }
                }
            }
            TransportMessage::Dropped { flow, transfer, object, chunks, .. } => {
                if let Some(state) = self.own_flow(flow, *transfer, *object)
                    && state.options.reliability != Reliability::DontCare
                {
                    let next = state.next;
                    for number in chunks.iter().take_while(|number| *number < next) {
                        state.stored.remove(&number);
                        state.dropped.insert(number);
                    }
                    if state.resume_at.is_none() {
                        state.resume_at = Some(now + state.pause);
                        state.pause = (state.pause * 2).min(DROP_PAUSE_MAX);
                    }
                }
            }
            TransportMessage::Request { .. } | TransportMessage::Push { .. } | TransportMessage::Unavailable { .. } => {
            }
        }
    }
    fn own_flow(&mut self, flow: &Flow, transfer: u32, object: ObjectId) -> Option<&mut Outflow> {
        let state = self.flows.get_mut(&(flow.destination, transfer))?;
        (flow.source == self.own && state.object == object).then_some(state)
    }
    /// A destination has moved.
    pub fn handle_binding(&mut self, destination: &Guid, addresses: &[NetworkAddress]) {
        let range = (*destination, 0)..=(*destination, u32::MAX);
        for (_, flow) in self.flows.range_mut(range) {
            flow.addresses = addresses.to_vec();
        }
    }
    /// Destinations of flows that last long enough to be followed.
    pub fn destinations(&self) -> BTreeSet<Guid> {
        self.flows.iter().filter(|(_, flow)| flow.window.controlled).map(|((to, _), _)| *to).collect()
    }
    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        for flow in self.flows.values_mut() {
            if flow.resume_at.is_some_and(|at| at <= now) {
                flow.resume_at = None;
                flow.again.append(&mut flow.dropped);
            }
            if flow.ack_at.is_some_and(|at| at <= now) {
                flow.ack_tries += 1;
                flow.ack_at = Some(now + ACK_PATIENCE * 2u32.pow(flow.ack_tries.min(5)));
                flow.again.extend(flow.unacknowledged.iter().copied());
            }
        }
        self.flows.retain(|_, flow| now.since(flow.heard_at.max(flow.sent_at)) < FLOW_LIFETIME);
    }
    /// When to call [`Sender::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let flows = self.flows.values().flat_map(|flow| {
            let ack = flow.ack_at.filter(|_| !flow.unacknowledged.is_empty());
            [flow.resume_at, ack, Some(flow.heard_at.max(flow.sent_at) + FLOW_LIFETIME)]
        });
        flows.flatten().min()
    }
    /// The next chunk to send; the caller asks when the network has room. Flows take turns.
    pub fn poll_chunk(&mut self, now: Time, cache: &ContentCache) -> Option<(ChunkHeader, Bytes)> {
        use core::ops::Bound::{Excluded, Included, Unbounded};
        let after = self.flows.range((Excluded(self.last), Unbounded)).map(|(id, _)| *id);
        let order: Vec<(Guid, u32)> =
            after.chain(self.flows.range((Unbounded, Included(self.last))).map(|(id, _)| *id)).collect();
        for id in order {
            let Some((number, repeated)) = self.flows.get_mut(&id).and_then(Outflow::take_next) else { continue };
            self.last = id;
            let flow = self.flows.get(&id)?;
            let (object, chunk_bytes) = (flow.object, flow.chunk_bytes);
            let payload = match flow.from_cache {
                true => cache.chunk(&object, number).ok_or_else(|| "it went out of the cache".to_string()),
                false => self.read(object, number, chunk_bytes),
            };
            let payload = match payload {
                Ok(payload) => payload,
                Err(reason) => {
                    self.failures.push_back((object.to_string(), reason));
                    self.flows.remove(&id);
                    let unavailable = TransportMessage::Unavailable { transfer: id.1, object };
                    self.messages.push_back((id.0, NetworkAddress::NONE, unavailable));
                    continue;
                }
            };
            let flow = self.flows.get_mut(&id)?;
            flow.sent_at = now;
            self.chunks.0 += 1;
            self.chunks.1 += u64::from(repeated);
            if flow.options.reliability == Reliability::Ack {
                flow.unacknowledged.insert(number);
                flow.ack_at.get_or_insert(now + ACK_PATIENCE);
            }
            let header = flow.header(self.own, id, number, repeated);
            if flow.options.reliability == Reliability::DontCare && flow.next >= flow.count && flow.again.is_empty() {
                self.flows.remove(&id);
            }
            return Some((header, payload));
        }
        None
    }
    /// A chunk of an object: 0 is its description, the others its bytes.
    fn read(&mut self, object: ObjectId, number: u32, chunk_bytes: u32) -> Result<Bytes, String> {
        let published = self.objects.get_mut(&object).ok_or_else(|| "it is not published any more".to_string())?;
        let Some(index) = number.checked_sub(1) else { return Ok(published.head.clone()) };
        let manifest = published.reader.manifest();
        let (unit, size) = (u64::from(manifest.chunk_size), manifest.size);
        let start = u64::from(index) * u64::from(chunk_bytes);
        let end = size.min(start + u64::from(chunk_bytes));
        let mut parts: Vec<Bytes> = Vec::new();
        let mut at = start;
        while at < end {
            let of = u32::try_from(at / unit).unwrap_or(u32::MAX);
            let chunk = match &published.last {
                Some((known, chunk)) if *known == of => chunk.clone(),
                _ => published.reader.read_chunk(ChunkIndex(of)).map_err(|error| error.to_string())?,
            };
            let from = at - u64::from(of) * unit;
            let until = (end - u64::from(of) * unit).min(chunk.len() as u64);
            if until <= from {
                return Err("it is shorter than its manifest says".into());
            }
            parts.push(chunk.slice(from as usize..until as usize));
            published.last = Some((of, chunk));
            at += until - from;
        }
        Ok(match &parts[..] {
            [only] => only.clone(),
            parts => parts.concat().into(),
        })
    }
    /// A message to send.
    pub fn poll_message(&mut self) -> Option<(Guid, NetworkAddress, TransportMessage)> {
        self.messages.pop_front()
    }
    /// An object that could not be read, and why.
    pub fn poll_failure(&mut self) -> Option<(String, String)> {
        self.failures.pop_front()
    }
    /// Whether there is anything to send as soon as there is room.
    pub fn is_idle(&self) -> bool {
        self.flows.values().all(|flow| flow.next >= flow.count && flow.again.is_empty())
    }
    /// Flows that are not finished.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }
}

impl Outflow {
    /// The next chunk, and whether it was sent before: what is missing goes before what is new.
    fn take_next(&mut self) -> Option<(u32, bool)> {
        if self.resume_at.is_some() {
            return None;
        }
        if let Some(number) = self.again.pop_first() {
            return Some((number, true));
        }
        while self.next < self.count && self.held.contains(self.next) {
            // Windows go on over what the receiver has: it counts as sent and received.
            self.next += 1;
        }
        if self.next >= self.count || !self.window.may_send(self.next, self.count, &self.held) {
            return None;
        }
        self.next += 1;
        Some((self.next - 1, false))
    }
    fn header(&self, own: Guid, (destination, transfer): (Guid, u32), number: u32, repeated: bool) -> ChunkHeader {
        let (window, window_chunks) = self.window.of(number);
        let tag = DataTag {
            object: self.object,
            transfer,
            number,
            count: self.count,
            chunk_bytes: self.chunk_bytes,
            reliability: self.options.reliability,
            window,
            window_chunks,
        };
        let mut header = ChunkHeader::new(ChunkKind::Data(tag), own, destination, NetworkAddress::NONE);
        header.flags = self.options.flags();
        if repeated {
            header.flags |= Flags::REPEATED;
        }
        if self.from_cache {
            header.flags |= Flags::CACHED;
        }
        header.addresses = self.addresses.iter().copied().take(crate::wire::ADDRESSES_MAX).collect();
        header.service = match self.options.service {
            ServiceId::Unicast if header.addresses.len() > 1 => ServiceId::Multihoming,
            ServiceId::Unicast if self.requested => ServiceId::ContentResponse,
            service => service,
        };
        header.priority = self.options.priority;
        header.lifetime_ms =
            self.options.lifetime.map_or(0, |lifetime| u32::try_from(lifetime.as_millis()).unwrap_or(u32::MAX));
        header
    }
}

fn header_addresses(header: &ChunkHeader) -> Vec<NetworkAddress> {
    if header.source_address.is_none() { Vec::new() } else { Vec::from([header.source_address]) }
}

/// Chunks of an object of `size` bytes, its description included.
pub fn chunk_count(size: u64, chunk_bytes: u32) -> u32 {
    u32::try_from(size.div_ceil(u64::from(chunk_bytes.max(1)))).unwrap_or(u32::MAX - 1).saturating_add(1)
}

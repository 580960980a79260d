//! The back-pressure buffer (paper §3.4.1): all chunks that are arriving, waiting or being sent.
use alloc::{collections::BTreeMap, vec, vec::Vec};
use core::iter::{once, repeat};

use bytes::Bytes;
use tributary_core::{FaceId, Time};

use crate::{
    ids::{Guid, HopId},
    payload::Payload,
    wire::{CHUNK_PACKETS_MAX, Cack, ChunkHeader, Class},
};

/// Maximum packets of a control chunk.
pub const CONTROL_PACKETS_MAX: u16 = 64;
/// A destination with at most this part (one eighth) of a chunk left counts as one without chunks here.
const DRY_PART: u32 = 8;
/// Maximum destinations whose share of departures is remembered, the unit of these shares, and the smallest relevant
/// share.
const WEIGHTS_MAX: usize = 256;
const WEIGHT_ALL: u64 = 1 << 20;
const WEIGHT_MIN: u64 = 1 << 8;

/// A chunk in a [`Buffer`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Slot(u32);

/// The origin of a chunk in the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Origin {
    /// From a neighbour, identified by this hop id.
    Face(FaceId, HopId),
    /// From this node.
    #[default]
    Local,
    /// From the store of this node.
    Store,
}

/// How a chunk arrived over its last hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrival {
    /// When its first packet arrived.
    pub begun: Time,
    /// Packets that arrived after later ones of the chunk: they were lost on the way, and retransmitted.
    pub late: u16,
    /// Whether the neighbour was away in between: the header may be older than the packets stored during that time.
    pub is_resumed: bool,
}

/// A chunk, perhaps incomplete.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    /// Its header, once packet 0 has arrived.
    pub header: Option<ChunkHeader>,
    /// Its payload, cut as it arrived.
    fragments: Vec<Option<Bytes>>,
    /// How many packets have not arrived.
    pub(super) missing: u16,
    /// All packets before this one have arrived.
    first_missing: u16,
    /// No packet from this one on has arrived.
    end: u16,
    /// The capacity that it counts against.
    pub class: Class,
    /// Its origin.
    pub origin: Origin,
    packets: u32,
    /// Packets that the next hop does not have yet.
    left: u32,
    /// The chunks with which it shares its bytes.
    copies: Option<Copies>,
    /// How it arrived from a neighbour, once complete.
    pub arrival: Option<Arrival>,
}

/// Chunks of one payload for several destinations: the bytes are stored once, and count once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Copies(u32);

impl Chunk {
    /// Its destination, if known.
    pub fn destination(&self) -> Option<Guid> {
        self.header.as_ref().map(|header| header.destination)
    }
    /// Packets of the complete chunk.
    pub fn count(&self) -> u16 {
        self.fragments.len() as u16
    }
    /// Whether the bytes match the header.
    pub fn adds_up(&self) -> bool {
        self.header.as_ref().is_some_and(|header| self.bytes() == u64::from(header.payload_bytes))
    }
    /// Whether all packets have arrived.
    pub fn is_complete(&self) -> bool {
        self.missing == 0
    }
    /// One fragment, if present.
    pub fn fragment(&self, index: u16) -> Option<&Bytes> {
        self.fragments.get(usize::from(index))?.as_ref()
    }
    /// The fragments present, in the form of a CACK.
    pub(super) fn describe(&self) -> (u16, Vec<u8>) {
        Cack::describe(self.first_missing..self.end, |index| self.fragment(index).is_some())
    }
    /// The cut of its payload, derived from the packets present: the lengths of the first and any other one. `None` if
    /// these do not add up to the bytes in its header.
    pub(crate) fn even_cut(&self) -> Option<EvenCut> {
        let (count, total) = (u32::from(self.count()), self.header.as_ref()?.payload_bytes);
        let first = self.fragment(0)?.len() as u32;
        let between = (1..self.count().saturating_sub(1)).find_map(|index| self.fragment(index));
        let rest = match (count, between) {
            (1, _) => 0,
            (2, _) => total.checked_sub(first)?,
            (_, Some(between)) => between.len() as u32,
            (_, None) => total.checked_sub(first + self.fragment(self.count() - 1)?.len() as u32)? / (count - 2),
        };
        let cut = EvenCut { first, rest, total };
        (cut.range(self.count() - 1).0 < total.max(1) && cut.end(count - 1) >= u64::from(total)).then_some(cut)
    }
    /// Payload bytes present.
    pub fn bytes(&self) -> u64 {
        self.fragments.iter().flatten().map(|fragment| fragment.len() as u64).sum()
    }
    /// The payload, without missing fragments.
    pub fn payload(&self) -> Payload {
        self.fragments.iter().flatten().cloned().collect()
    }
    /// Lengths of the fragments.
    pub fn lengths(&self) -> Vec<u32> {
        self.fragments.iter().map(|fragment| fragment.as_ref().map_or(0, |bytes| bytes.len() as u32)).collect()
    }
}

/// A payload cut into packets of equal length except the first and the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EvenCut {
    first: u32,
    rest: u32,
    total: u32,
}

impl EvenCut {
    /// The payload bytes of a packet: start and end.
    pub(crate) fn range(self, index: u16) -> (u32, u32) {
        let end = |index: u32| self.end(index).min(u64::from(self.total)) as u32;
        (u32::from(index).checked_sub(1).map_or(0, end), end(u32::from(index)))
    }
    /// Where a packet of full length would end.
    fn end(self, index: u32) -> u64 {
        u64::from(self.first) + u64::from(index) * u64::from(self.rest)
    }
}

/// Cuts a payload into a first fragment of at most `first` bytes and further ones of at most `rest`.
pub fn cut(payload: &Payload, first: usize, rest: usize) -> Vec<Bytes> {
    payload.cut(once(first).chain(repeat(rest.max(1))))
}

/// Holds chunks: data of objects up to a capacity in packets, control chunks up to another one.
///
/// A chunk is admitted as a unit when its first packet arrives, so that a started chunk can always be finished.
#[derive(Debug, Default)]
pub struct Buffer {
    chunks: BTreeMap<Slot, Chunk>,
    next: u32,
    capacity: u32,
    used: u32,
    /// Packets that the copies occupy together, the number of copies present, and of all copies so far.
    copies: BTreeMap<Copies, (u32, u32, u32)>,
    control_capacity: u32,
    control_used: u32,
    /// Whether destinations have shares.
    shared: bool,
    /// Unsent data packets per destination, including reserved ones.
    destinations: BTreeMap<Guid, u32>,
    /// The share of each destination in recent departures, of [`WEIGHT_ALL`].
    weights: BTreeMap<Guid, u64>,
    /// Packets of the largest chunk of data so far.
    largest: u32,
    /// The maximum number of data packets so far.
    pub peak: u32,
}

impl Buffer {
    /// An empty buffer for `capacity` packets of data (paper: B) and `control_capacity` packets of control chunks.
    pub fn new(capacity: u32, control_capacity: u32) -> Buffer {
        Buffer { capacity, control_capacity, ..Buffer::default() }
    }
    /// Gives every destination a share from now on.
    pub fn share(&mut self) {
        self.shared = true;
    }
    /// Free packets for data.
    pub fn free(&self) -> u32 {
        self.capacity.saturating_sub(self.used)
    }
    /// Buffered or reserved data packets.
    pub fn used(&self) -> u32 {
        self.used
    }
    /// The part of the buffer that a destination may take, in packets.
    ///
    /// Each destination gets two chunks, or one when space is short. One chunk stays free for the next; the rest is
    /// shared in proportion to recent departures, so that all chunks wait equally long. With several destinations none
    /// has more than half.
    pub fn share_of(&self, destination: &Guid) -> u32 {
        let chunk = self.largest.max(1);
        let here = self.destinations.len() as u32;
        let all = here + u32::from(!self.destinations.contains_key(destination));
        let base = (self.capacity / all / chunk).clamp(1, 2) * chunk;
        let rest = self.capacity.saturating_sub(base.saturating_mul(all)).saturating_sub(chunk);
        let unclaimed = WEIGHT_ALL.saturating_sub(self.weights.values().sum()) / u64::from(all);
        let weight = self.weights.get(destination).copied().unwrap_or(0) + unclaimed;
        let share = base + u32::try_from(u64::from(rest) * weight / WEIGHT_ALL).unwrap_or(rest);
        if all > 1 { share.min(base.max(self.capacity / 2)) } else { share }
    }
    /// A chunk of `packets` for a destination has left for its next hop.
    pub fn on_left(&mut self, destination: Guid, packets: u32) {
        let part = |of: u64| of * u64::from(packets) / u64::from(self.capacity.max(1));
        self.weights.values_mut().for_each(|weight| *weight -= part(*weight).min(*weight));
        *self.weights.entry(destination).or_default() += part(WEIGHT_ALL);
        self.weights.retain(|_, weight| *weight >= WEIGHT_MIN);
        if self.weights.len() > WEIGHTS_MAX {
            let least = self.weights.iter().min_by_key(|(_, weight)| **weight).map(|(guid, _)| *guid);
            least.map(|guid| self.weights.remove(&guid));
        }
    }
    /// Packets that fit into the share of a destination; at least one chunk if the destination runs dry and the buffer
    /// has space for it. All free packets if destinations have no shares.
    pub fn free_for(&self, destination: &Guid) -> u32 {
        if !self.shared {
            return self.free();
        }
        let kept = if self.runs_dry(destination) { 0 } else { self.largest };
        let used = self.used_by(destination);
        let share = self.share_of(destination).saturating_sub(used);
        // Shares are counted in chunks that have been buffered. A larger chunk must still fit where there is space: a
        // share grows only with departures, so the chunk would wait forever.
        let has_room = used == 0 && self.used <= self.capacity / 2;
        let share = if has_room { share.max(self.free() / 2) } else { share };
        share.min(self.free().saturating_sub(kept))
    }
    /// Whether a destination has almost nothing left here: it may then use other destinations' unused space.
    pub fn runs_dry(&self, destination: &Guid) -> bool {
        self.used_by(destination) <= self.largest / DRY_PART
    }
    /// Data packets for a destination that are buffered or reserved, without those that the next hop has already: the
    /// next chunk is fetched while the current one leaves.
    pub fn used_by(&self, destination: &Guid) -> u32 {
        self.destinations.get(destination).copied().unwrap_or(0)
    }
    /// Destinations of the buffered data.
    pub fn destinations(&self) -> usize {
        self.destinations.len()
    }
    /// Packets of the largest chunk of data so far.
    pub fn largest(&self) -> u32 {
        self.largest
    }
    fn count(&mut self, destination: Option<Guid>, added: u32, gone: u32) {
        let Some(destination) = destination else { return };
        let used = self.destinations.entry(destination).or_default();
        *used = (*used + added).saturating_sub(gone);
        if *used == 0 {
            self.destinations.remove(&destination);
        }
    }
    /// Total packets of data that fit.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }
    /// Reserves space for a new chunk of `count` packets; `None` if the buffer is full.
    pub fn admit(&mut self, class: Class, count: u16, origin: Origin) -> Option<Slot> {
        let room = match class {
            Class::Bulk => self.free(),
            Class::Control if count > CONTROL_PACKETS_MAX => 0,
            Class::Control => self.control_capacity.saturating_sub(self.control_used),
        };
        if u32::from(count) > room || count == 0 || count > CHUNK_PACKETS_MAX {
            return None;
        }
        Some(self.insert(Chunk {
            fragments: vec![None; usize::from(count)],
            missing: count,
            class,
            origin,
            packets: u32::from(count),
            left: u32::from(count),
            ..Chunk::default()
        }))
    }
    /// Takes a complete chunk of this node. Control chunks are always taken; for data the caller checks
    /// [`Buffer::free`] first, and taking more only delays other chunks.
    pub fn put(&mut self, header: ChunkHeader, fragments: Vec<Bytes>, origin: Origin) -> Slot {
        self.put_copy(header, fragments, origin, None)
    }
    /// What [`Buffer::put_copy`] needs for chunks that share their bytes.
    pub fn new_copies(&mut self) -> Copies {
        self.next = self.next.wrapping_add(1);
        Copies(self.next)
    }
    /// The same for a chunk that may share its bytes with others.
    pub fn put_copy(
        &mut self,
        header: ChunkHeader,
        fragments: Vec<Bytes>,
        origin: Origin,
        copies: Option<Copies>,
    ) -> Slot {
        let class = if header.is_control() { Class::Control } else { Class::Bulk };
        let count = fragments.len() as u16;
        self.insert(Chunk {
            header: Some(header),
            fragments: fragments.into_iter().map(Some).collect(),
            first_missing: count,
            end: count,
            class,
            origin,
            packets: u32::from(count),
            left: u32::from(count),
            copies,
            ..Chunk::default()
        })
    }
    fn insert(&mut self, chunk: Chunk) -> Slot {
        self.next = self.next.wrapping_add(1);
        let slot = Slot(self.next);
        self.insert_at(slot, chunk);
        slot
    }
    fn insert_at(&mut self, slot: Slot, chunk: Chunk) {
        match chunk.class {
            Class::Bulk => {
                self.used += self.joining(chunk.copies, chunk.packets);
                self.largest = self.largest.max(chunk.packets);
                self.count(chunk.destination(), chunk.left, 0);
            }
            Class::Control => self.control_used += chunk.packets,
        }
        self.peak = self.peak.max(self.used);
        self.chunks.insert(slot, chunk);
    }
    /// Packets that one more chunk adds.
    fn joining(&mut self, copies: Option<Copies>, packets: u32) -> u32 {
        let Some(copies) = copies else { return packets };
        let (counted, here, all) = self.copies.entry(copies).or_insert((packets, 0, 0));
        *here += 1;
        *all += 1;
        if *here == 1 { *counted } else { 0 }
    }
    /// Packets that leave with a chunk.
    fn leaving(&mut self, copies: Option<Copies>, packets: u32) -> u32 {
        let Some((copies, (counted, here, _))) = copies.and_then(|id| Some((id, self.copies.get_mut(&id)?))) else {
            return packets;
        };
        *here -= 1;
        if *here > 0 {
            return 0;
        }
        let counted = *counted;
        self.copies.remove(&copies);
        counted
    }
    /// Whether the buffer holds most copies of a chunk: it takes no additional space, and removing it frees none.
    pub fn is_shared(&self, slot: Slot) -> bool {
        let copies = self.chunk(slot).and_then(|chunk| self.copies.get(&chunk.copies?));
        copies.is_some_and(|(_, here, all)| *here > 1 && *here * 2 > *all)
    }
    /// Adds a fragment; returns the chunk, or `None` if the fragment was already present.
    pub fn fill(&mut self, slot: Slot, index: u16, fragment: Bytes) -> Option<&Chunk> {
        let chunk = self.chunks.get_mut(&slot)?;
        let place = chunk.fragments.get_mut(usize::from(index)).filter(|place| place.is_none())?;
        *place = Some(fragment);
        chunk.missing -= 1;
        chunk.end = chunk.end.max(index + 1);
        while chunk.fragment(chunk.first_missing).is_some() {
            chunk.first_missing += 1;
        }
        Some(chunk)
    }
    /// A copy of a chunk under another header: its present fragments, with space for the rest. Their bytes count once.
    pub fn copy_of(&mut self, slot: Slot, header: ChunkHeader) -> Option<Slot> {
        let copies = match self.chunks.get(&slot)?.copies {
            Some(copies) => copies,
            None => {
                let copies = self.new_copies();
                let chunk = self.chunks.get_mut(&slot)?;
                chunk.copies = Some(copies);
                self.copies.insert(copies, (chunk.packets, 1, 1));
                copies
            }
        };
        let chunk = self.chunks.get(&slot)?.clone();
        let left = chunk.packets;
        Some(self.insert(Chunk { header: Some(header), origin: Origin::Local, left, copies: Some(copies), ..chunk }))
    }
    /// Adds the present fragments of a chunk to a copy that was started earlier.
    pub fn complete_copy(&mut self, copy: Slot, slot: Slot) {
        let fragments = self.chunks.get(&slot).map(|chunk| chunk.fragments.clone()).unwrap_or_default();
        self.fill_all(copy, fragments);
    }
    fn fill_all(&mut self, slot: Slot, fragments: Vec<Option<Bytes>>) {
        for (index, fragment) in (0..).zip(fragments) {
            if let Some(fragment) = fragment {
                self.fill(slot, index, fragment);
            }
        }
    }
    /// Another incomplete copy of a chunk, cut in the same way, from another neighbour; both must have their first
    /// packets.
    pub fn other_part(&self, slot: Slot) -> Option<Slot> {
        let is = |chunk: &Chunk| {
            let header = chunk.header.as_ref()?;
            let first = chunk.fragment(0)?.len();
            Some((header.key()?, header.payload_bytes, chunk.count(), first))
        };
        let wanted = is(self.chunks.get(&slot)?)?;
        let other = |(known, chunk): &(&Slot, &Chunk)| {
            let is_other = **known != slot && matches!(chunk.origin, Origin::Face(..));
            is_other && !chunk.is_complete() && is(chunk) == Some(wanted)
        };
        self.chunks.iter().find(other).map(|(known, _)| *known)
    }
    /// Removes a chunk and adds its fragments to another copy.
    pub fn adopt(&mut self, slot: Slot, old: Slot) {
        let fragments = self.remove(old).map(|chunk| chunk.fragments).unwrap_or_default();
        self.fill_all(slot, fragments);
    }
    /// A chunk.
    pub fn chunk(&self, slot: Slot) -> Option<&Chunk> {
        self.chunks.get(&slot)
    }
    /// The payload of a chunk; empty if the chunk is absent.
    pub fn payload(&self, slot: Slot) -> Payload {
        self.chunk(slot).map(Chunk::payload).unwrap_or_default()
    }
    /// The header of a chunk, for changes that keep its destination.
    pub fn header_mut(&mut self, slot: Slot) -> Option<&mut ChunkHeader> {
        self.chunks.get_mut(&slot)?.header.as_mut()
    }
    /// A chunk is complete.
    pub(super) fn set_arrival(&mut self, slot: Slot, arrival: Arrival) {
        if let Some(chunk) = self.chunks.get_mut(&slot) {
            chunk.arrival = Some(arrival);
        }
    }
    /// The header of a chunk has arrived.
    pub(super) fn set_header(&mut self, slot: Slot, header: ChunkHeader) {
        let Some(chunk) = self.chunks.get_mut(&slot) else { return };
        let (left, old, new) = (chunk.left, chunk.destination(), header.destination);
        chunk.header = Some(header);
        if chunk.class == Class::Bulk {
            self.count(old, 0, left);
            self.count(Some(new), left, 0);
        }
    }
    /// Sets how many packets of a chunk in transmission the next hop still lacks; all of them if it is to go elsewhere.
    pub(super) fn set_left(&mut self, slot: Slot, left: u16) {
        let Some(chunk) = self.chunks.get_mut(&slot) else { return };
        let (before, after) = (chunk.left, u32::from(left).min(chunk.packets));
        chunk.left = after;
        let (class, destination) = (chunk.class, chunk.destination());
        if class == Class::Bulk && before != after {
            self.count(destination, after, before);
        }
    }
    /// Removes a chunk.
    pub fn remove(&mut self, slot: Slot) -> Option<Chunk> {
        let chunk = self.chunks.remove(&slot)?;
        match chunk.class {
            Class::Bulk => {
                self.used -= self.leaving(chunk.copies, chunk.packets);
                self.count(chunk.destination(), 0, chunk.left);
            }
            Class::Control => self.control_used -= chunk.packets,
        }
        Some(chunk)
    }
    /// Cuts a complete chunk so that each packet with its headers fits the datagram size; leaves a fitting one
    /// unchanged.
    pub fn fit(&mut self, slot: Slot, first: usize, rest: usize) {
        let Some(chunk) = self.chunks.get(&slot).filter(|chunk| chunk.is_complete()) else { return };
        let fits =
            chunk.fragments.iter().flatten().enumerate().all(|(i, f)| f.len() <= if i == 0 { first } else { rest });
        if !fits {
            let fragments = cut(&chunk.payload(), first, rest);
            self.replace(slot, fragments);
        }
    }
    /// Cuts a complete chunk into fragments of exactly these lengths, if they add up to it.
    pub fn cut_as(&mut self, slot: Slot, lengths: &[u32]) {
        let Some(chunk) = self.chunks.get(&slot).filter(|chunk| chunk.is_complete()) else { return };
        if lengths.iter().map(|len| u64::from(*len)).sum::<u64>() != chunk.bytes() || chunk.lengths() == lengths {
            return;
        }
        let fragments = chunk.payload().cut(lengths.iter().map(|length| *length as usize));
        self.replace(slot, fragments);
    }
    fn replace(&mut self, slot: Slot, fragments: Vec<Bytes>) {
        let Some(mut chunk) = self.remove(slot) else { return };
        chunk.packets = fragments.len() as u32;
        chunk.left = chunk.packets;
        // Copied: it shares no bytes from here on.
        chunk.copies = None;
        chunk.fragments = fragments.into_iter().map(Some).collect();
        (chunk.first_missing, chunk.end) = (chunk.packets as u16, chunk.packets as u16);
        self.insert_at(slot, chunk);
    }
    /// All chunks, in order of arrival.
    pub fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        self.chunks.values()
    }
    /// Complete and arriving chunks.
    pub fn len(&self) -> usize {
        self.chunks.len()
    }
    /// Whether it has no chunks.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::{Guid, NetworkAddress},
        wire::ChunkKind,
    };

    fn data_for(to: u8) -> ChunkHeader {
        let mut header = ChunkHeader::new(
            ChunkKind::Transport(crate::ids::Token(7)),
            Guid::NONE,
            Guid([to; 20]),
            NetworkAddress::NONE,
        );
        header.kind = ChunkKind::Data(crate::wire::DataTag {
            object: tributary_content::ObjectId([1; 16]),
            transfer: 1,
            token: crate::ids::Token(7),
            number: 0,
            count: 1,
            chunk_bytes: 1,
            reliability: crate::wire::Reliability::Nack,
            window: 0,
            window_chunks: 0,
        });
        header
    }

    #[test]
    fn copies_of_one_payload_take_room_once_until_the_last_is_gone() {
        let mut buffer = Buffer::new(10, 2);
        let copies = Some(buffer.new_copies());
        let payload = Bytes::from_static(b"abcdef").into();
        let [first, second, third] =
            [1, 2, 3].map(|to| buffer.put_copy(data_for(to), cut(&payload, 2, 2), Origin::Local, copies));
        assert_eq!((buffer.used(), buffer.used_by(&Guid([2; 20]))), (3, 3));
        buffer.remove(first);
        assert_eq!((buffer.used(), buffer.is_shared(third)), (3, true));
        buffer.cut_as(second, &[1, 5]);
        assert_eq!(buffer.used(), 5, "cut otherwise it has bytes of its own");
        assert!(!buffer.is_shared(second) && !buffer.is_shared(third));
        buffer.remove(third);
        assert_eq!(buffer.used(), 2);
        buffer.remove(second);
        assert_eq!(buffer.used(), 0);
    }

    #[test]
    fn room_is_reserved_with_the_first_packet_and_given_back_with_the_chunk() {
        let mut buffer = Buffer::new(10, 2);
        let first = buffer.admit(Class::Bulk, 7, Origin::Local).expect("there is room");
        assert_eq!((buffer.admit(Class::Bulk, 4, Origin::Local), buffer.free()), (None, 3));
        assert!(buffer.admit(Class::Control, 2, Origin::Local).is_some());
        assert!(buffer.admit(Class::Control, 1, Origin::Local).is_none());
        assert!(buffer.fill(first, 6, Bytes::from_static(b"x")).is_some());
        assert!(buffer.fill(first, 6, Bytes::from_static(b"y")).is_none());
        assert!(buffer.fill(first, 7, Bytes::from_static(b"z")).is_none());
        assert!(buffer.chunk(first).is_some_and(|chunk| !chunk.is_complete() && chunk.bytes() == 1));
        buffer.remove(first);
        assert_eq!(buffer.free(), 10);
    }

    #[test]
    fn a_chunk_is_cut_anew_only_if_it_must_be() {
        let mut buffer = Buffer::new(100, 100);
        let payload = Payload::from(Bytes::from_static(b"0123456789"));
        let header =
            ChunkHeader::new(ChunkKind::Transport(crate::ids::Token(7)), Guid::NONE, Guid::NONE, NetworkAddress::NONE);
        let slot = buffer.put(header, cut(&payload, 2, 4), Origin::Local);
        let lengths = |buffer: &Buffer| buffer.chunk(slot).map(Chunk::lengths).unwrap_or_default();
        assert_eq!(lengths(&buffer), [2, 4, 4]);
        buffer.fit(slot, 3, 4);
        assert_eq!(lengths(&buffer), [2, 4, 4]);
        buffer.fit(slot, 1, 4);
        assert_eq!(lengths(&buffer), [1, 4, 4, 1]);
        buffer.cut_as(slot, &[5, 5]);
        buffer.cut_as(slot, &[5, 6]);
        assert_eq!(lengths(&buffer), [5, 5]);
        assert_eq!(buffer.chunk(slot).map(|chunk| chunk.payload().to_bytes()), Some(payload.to_bytes()));
    }

    #[test]
    fn one_that_runs_dry_has_room_however_many_chunks_of_others_are_here() {
        const CHUNK: usize = 720;
        let mut buffer = Buffer::new(6_000, 0);
        buffer.share();
        let put = |buffer: &mut Buffer, to: u8| {
            buffer.put(data_for(to), alloc::vec![Bytes::from_static(b"x"); CHUNK], Origin::Local)
        };
        let mut slots = Vec::new();
        for to in (1..=4).cycle().take(12) {
            if buffer.free_for(&Guid([to; 20])) as usize >= CHUNK {
                slots.push(put(&mut buffer, to));
            }
        }
        assert!(slots.len() > 4 && buffer.free_for(&Guid([5; 20])) as usize >= CHUNK, "{}", buffer.free());
        slots.drain(..).for_each(|slot| drop(buffer.remove(slot)));
        // The next chunk is fetched while the current one leaves.
        slots.extend((1..=5).map(|to| put(&mut buffer, to)));
        let [first, second] = [1, 2].map(|to| Guid([to; 20]));
        buffer.set_left(slots[0], 300);
        assert_eq!(buffer.used_by(&first), 300);
        assert!(buffer.free_for(&first) as usize >= CHUNK && (buffer.free_for(&second) as usize) < CHUNK);
        buffer.remove(slots[0]);
        assert_eq!((buffer.used_by(&first), buffer.used()), (0, 4 * CHUNK as u32));
    }

    #[test]
    fn a_chunk_larger_than_any_before_has_room_where_another_destination_has_claimed_all_shares() {
        let mut buffer = Buffer::new(6_000, 0);
        buffer.share();
        let [a, b] = [1, 2].map(|to| Guid([to; 20]));
        for _ in 0..1_000 {
            let slot = buffer.put(data_for(1), alloc::vec![Bytes::from_static(b"x"); 100], Origin::Local);
            buffer.remove(slot);
            buffer.on_left(a, 100);
        }
        assert!(buffer.share_of(&b) < 300, "two chunks of those that were here: {}", buffer.share_of(&b));
        assert_eq!(buffer.free_for(&b), 3_000);
    }

    #[test]
    fn no_destination_takes_what_is_left_for_others() {
        let mut buffer = Buffer::new(1_200, 0);
        buffer.share();
        let put = |buffer: &mut Buffer, to: u8, packets: usize| {
            buffer.put(data_for(to), alloc::vec![Bytes::from_static(b"x"); packets], Origin::Local)
        };
        let [a, b, c] = [1, 2, 3].map(|to| Guid([to; 20]));
        let first = put(&mut buffer, 1, 100);
        assert_eq!(buffer.free_for(&a), 1_000, "all but a chunk for the only one");
        let second = put(&mut buffer, 2, 100);
        assert_eq!((buffer.share_of(&a), buffer.share_of(&b)), (550, 550), "equal parts, and a chunk for the next");
        assert_eq!(buffer.share_of(&c), 366);
        for _ in 0..100 {
            buffer.on_left(a, 100);
        }
        assert_eq!(
            (buffer.share_of(&a), buffer.share_of(&b)),
            (600, 200),
            "what leaves quickly needs more, up to half"
        );
        (0..5).for_each(|_| {
            put(&mut buffer, 1, 100);
        });
        assert_eq!((buffer.free_for(&a), buffer.free_for(&b), buffer.free_for(&c)), (0, 100, 200));
        buffer.remove(first);
        buffer.remove(second);
        assert_eq!((buffer.used_by(&a), buffer.used_by(&b), buffer.destinations()), (500, 0, 1));
    }
}

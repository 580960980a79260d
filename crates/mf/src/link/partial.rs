//! The partial store: received bytes of chunks whose transfer a lost contact or a reboot interrupted.
//!
//! ```text
//!   arriving chunk ──(each second, and when the neighbour is lost)──► pieces in the repository
//!         ▲                                                              │
//!         └──(the neighbour sends packets of the chunk again)────────────┴──(taken over, expired, evicted)──► removed
//! ```
//! Pieces are byte ranges of the payload, so the next contact may cut the chunk into packets of another size. A part is
//! stored under the proven GUID of its sender: other neighbours cannot add bytes to it, and a neighbour that exceeds
//! its share of the limit evicts its own parts.
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    vec,
    vec::Vec,
};

use bytes::Bytes;
use tributary_content::{ChunkRepository, MemoryRepository, ObjectId, StoreError};
use tributary_core::{
    ByteCount, Duration, Time,
    wire::{
        Wire,
        codec::{Own, U32},
    },
    wire_table,
};
use tributary_transport::ranges::RangeSet;

use super::buffer::{Chunk, Slot};
use crate::{
    ids::Guid,
    wire::{
        ChunkHeader,
        chunk::CHUNK_BYTES_MAX,
        fields::{GUID, MILLIS},
        transport::OBJECT,
    },
};

/// Overhead of a piece in the repository: its head and index entries.
const PIECE_OVERHEAD_BYTES: u64 = 512;
/// Maximum number of parts.
const PARTS_MAX: usize = 1_024;

wire_table! {
    /// Identifies a chunk of a neighbour. The transfer number is left out, because a rebooted source sends the same bytes
    /// under a new one.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
    pub struct PartKey {
        neighbour: Guid = GUID => "neighbour",
        source: Guid = GUID => "source",
        destination: Guid = GUID => "destination",
        object: ObjectId = OBJECT => "object id",
        number: u32 = U32 => "chunk number",
        chunk_bytes: u32 = U32 => "chunk bytes",
        payload_bytes: u32 = U32 => "payload bytes",
    }
}

wire_table! {
    /// The head of a piece in the repository.
    struct Head {
        key: PartKey = Own => "key",
        offset: u32 = U32 => "offset",
        /// The end of its lifetime by the repository's clock.
        ends_at: Duration = MILLIS => "end",
    }
}

impl PartKey {
    /// The key of a chunk from `neighbour`; `None` for chunks that carry no object data.
    pub fn of(neighbour: Guid, header: &ChunkHeader) -> Option<PartKey> {
        let tag = header.tag()?;
        Some(PartKey {
            neighbour,
            source: header.source,
            destination: header.destination,
            object: tag.object,
            number: tag.number,
            chunk_bytes: tag.chunk_bytes,
            payload_bytes: header.payload_bytes,
        })
    }
}

/// The stored bytes of one chunk.
#[derive(Debug, Default)]
struct Part {
    here: RangeSet,
    pieces: Vec<Piece>,
    until: Time,
    used_at: u64,
    /// The chunk in the buffer that already contains these bytes.
    slot: Option<Slot>,
}

impl Part {
    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| u64::from(piece.bytes) + PIECE_OVERHEAD_BYTES).sum()
    }
}

/// A byte range of a payload and its number in the repository.
#[derive(Clone, Copy, Debug)]
struct Piece {
    id: u64,
    offset: u32,
    bytes: u32,
}

tributary_core::declared! {
    /// Stores parts of chunks in a repository; see the [module](self). The default has a limit of zero bytes.
    pub struct Partials {
        repository: Box<dyn ChunkRepository> = Box::new(MemoryRepository::default()),
        /// The limit in bytes of the config; zero disables the store.
        pub bytes_max: u64 = 0,
        /// The free space of the chunk store.
        room: u64 = u64::MAX,
        /// Maximum lifetime, and the lifetime of chunks that state none.
        lifetime: Duration = Duration::ZERO,
        parts: BTreeMap<PartKey, Part> = BTreeMap::new(),
        used: u64 = 0,
        uses: u64 = 0,
        next_id: u64 = 1,
        /// Pieces with this number or a higher one are not durable yet.
        durable_until: u64 = 1,
        committing_until: Option<u64> = None,
        is_dirty: bool = false,
        /// Whether the last commit failed.
        pub is_failing: bool = false,
        /// Number of parts evicted since this was taken.
        pub dropped: u64 = 0,
        /// Number of resumed chunks, and of payload bytes that their senders did not repeat.
        pub resumed: (u64, u64) = (0, 0),
    }
}

impl Partials {
    /// Opens the repository and restores the parts of an earlier run. `lifetime` is the maximum lifetime, and the
    /// lifetime of chunks that state none.
    ///
    /// # Errors
    /// [`StoreError`] if the repository cannot be read.
    pub fn open(
        now: Time,
        bytes_max: ByteCount,
        lifetime: Duration,
        mut repository: Box<dyn ChunkRepository>,
    ) -> Result<Partials, StoreError> {
        let (found, clock) = (repository.list()?, repository.clock());
        let mut partials = Partials { repository, bytes_max: bytes_max.0, lifetime, ..Partials::default() };
        for (id, head, bytes) in found {
            partials.next_id = partials.next_id.max(id + 1);
            let decoded = Head::decode(&head).ok().zip(u32::try_from(bytes).ok());
            let kept = decoded.filter(|(Head { key, offset, .. }, bytes)| {
                key.payload_bytes <= CHUNK_BYTES_MAX && offset.saturating_add(*bytes) <= key.payload_bytes
            });
            match kept {
                // The lifetime bounds the remaining time if the clock was set back.
                Some((Head { key, offset, ends_at }, bytes)) if ends_at > clock => {
                    let until = now + ends_at.saturating_sub(clock).min(lifetime);
                    partials.insert(key, Piece { id, offset, bytes }, until);
                }
                _ => partials.forget(id),
            }
        }
        partials.durable_until = partials.next_id;
        partials.make_room(0, None);
        Ok(partials)
    }
    /// Bytes in use.
    pub fn used(&self) -> ByteCount {
        ByteCount(self.used)
    }
    /// Sets the free space of the chunk store; parts beyond it are evicted.
    pub fn set_room(&mut self, room: u64) {
        self.room = room;
        self.make_room(0, None);
    }
    /// Stores the packets of an incomplete chunk that are not stored yet.
    pub fn keep(&mut self, now: Time, neighbour: Guid, slot: Slot, chunk: &Chunk) {
        let Some(header) = chunk.header.as_ref().filter(|_| self.bytes_max > 0 && !chunk.is_complete()) else { return };
        let (Some(key), Some(runs)) = (PartKey::of(neighbour, header), self.new_runs(neighbour, chunk)) else { return };
        let lifetime = match header.lifetime_ms {
            0 => self.lifetime,
            wanted => Duration::from_millis(u64::from(wanted)).min(self.lifetime),
        };
        for (offset, fragments) in runs {
            self.put(now, key, lifetime, offset, &fragments);
        }
        if let Some(part) = self.parts.get_mut(&key) {
            (part.slot, part.until) = (Some(slot), now + lifetime);
        }
    }
    /// Stores bytes of a payload from `offset` on, unless the limit forbids it.
    pub fn put(&mut self, now: Time, key: PartKey, lifetime: Duration, offset: u32, fragments: &[Bytes]) {
        let bytes = fragments.iter().map(Bytes::len).sum::<usize>() as u32;
        if !self.make_room(u64::from(bytes) + PIECE_OVERHEAD_BYTES, Some(&key)) {
            self.dropped += 1;
            return;
        }
        let (id, ends_at) = (self.next_id, self.repository.clock().saturating_add(lifetime));
        if self.repository.put(id, &Head { key, offset, ends_at }.to_bytes(), fragments).is_ok() {
            self.next_id += 1;
            self.is_dirty = true;
            self.insert(key, Piece { id, offset, bytes }, now + lifetime);
        }
    }
    /// Whether the store is empty.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
    /// The stored byte ranges of a chunk.
    pub fn here(&self, key: &PartKey) -> Option<&RangeSet> {
        self.parts.get(key).map(|part| &part.here)
    }
    /// Whether the store has bytes that `slot` does not contain.
    pub fn has(&self, key: &PartKey, slot: Slot) -> bool {
        self.parts.get(key).is_some_and(|part| part.slot != Some(slot))
    }
    /// Reads the stored bytes of a chunk for the chunk in `slot`: the payload, with zeros in its gaps, and the valid
    /// byte ranges. `None` if the store has none, or if `slot` has received them before.
    pub fn resume(&mut self, key: &PartKey, slot: Slot) -> Option<(Bytes, RangeSet)> {
        let part = self.parts.get_mut(key).filter(|part| part.slot != Some(slot))?;
        part.slot = Some(slot);
        let mut payload = vec![0; key.payload_bytes as usize];
        for piece in &part.pieces {
            let place = piece.offset as usize..(piece.offset + piece.bytes) as usize;
            match (self.repository.read(piece.id), payload.get_mut(place)) {
                (Ok(bytes), Some(place)) if bytes.len() == place.len() => place.copy_from_slice(&bytes),
                _ => {
                    self.remove(key);
                    return None;
                }
            }
        }
        self.resumed = (self.resumed.0 + 1, self.resumed.1 + part.here.len());
        Some((payload.into(), part.here.clone()))
    }
    /// Removes the part of a chunk: the node has accepted the chunk, or a packet of it was wrong.
    pub fn remove(&mut self, key: &PartKey) {
        if let Some(part) = self.parts.remove(key) {
            self.used -= part.bytes();
            part.pieces.iter().for_each(|piece| self.forget(piece.id));
        }
    }
    /// Removes expired parts and starts a commit of new pieces. Callers repeat it about once a second; the commit
    /// delays nothing, because the sender queries again which bytes arrived.
    ///
    /// # Errors
    /// [`StoreError`] if the repository failed; parts with pieces that are not durable are removed.
    pub fn settle(&mut self, now: Time) -> Result<(), StoreError> {
        let old: Vec<PartKey> = self.parts.iter().filter(|(_, part)| part.until <= now).map(|(key, _)| *key).collect();
        old.iter().for_each(|key| self.remove(key));
        let result = self.commit();
        if result.is_err() {
            (self.committing_until, self.is_failing) = (None, true);
            let durable = self.durable_until;
            let is_lost = |part: &Part| part.pieces.iter().any(|piece| piece.id >= durable);
            let lost: Vec<PartKey> = self.parts.iter().filter(|(_, part)| is_lost(part)).map(|(key, _)| *key).collect();
            lost.iter().for_each(|key| self.remove(key));
        }
        result
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        if let Some(until) = self.committing_until {
            if !self.repository.is_committed()? {
                return Ok(());
            }
            (self.durable_until, self.committing_until, self.is_failing) = (until, None, false);
        }
        if core::mem::take(&mut self.is_dirty) {
            self.repository.commit()?;
            self.committing_until = Some(self.next_id);
        }
        Ok(())
    }
    /// Runs of packets that are not stored yet, each with the offset of its first byte; `None` if the packets do not
    /// determine their offsets.
    fn new_runs(&self, neighbour: Guid, chunk: &Chunk) -> Option<Vec<(u32, Vec<Bytes>)>> {
        let key = PartKey::of(neighbour, chunk.header.as_ref()?)?;
        let here = self.here(&key);
        let (cut, mut runs) = (chunk.even_cut()?, Vec::<(u32, Vec<Bytes>)>::new());
        let mut run_end = None;
        for index in 0..chunk.count() {
            let (Some(fragment), (start, end)) = (chunk.fragment(index), cut.range(index)) else { continue };
            if fragment.len() as u32 != end - start {
                return None;
            }
            if here.is_some_and(|here| here.len_between(start, end) == u64::from(end - start)) {
                continue;
            }
            match runs.last_mut().filter(|_| run_end == Some(start)) {
                Some((_, run)) => run.push(fragment.clone()),
                None => runs.push((start, vec![fragment.clone()])),
            }
            run_end = Some(end);
        }
        Some(runs)
    }
    fn insert(&mut self, key: PartKey, piece: Piece, until: Time) {
        self.uses += 1;
        let part = self.parts.entry(key).or_default();
        (part.used_at, part.until) = (self.uses, part.until.max(until));
        part.here.insert(piece.offset, piece.offset + piece.bytes);
        part.pieces.push(piece);
        self.used += u64::from(piece.bytes) + PIECE_OVERHEAD_BYTES;
    }
    /// Evicts parts until `needed` more bytes of the newcomer fit: the least recently used part of the neighbour that
    /// occupies most. False if the newcomer does not fit at all.
    fn make_room(&mut self, needed: u64, newcomer: Option<&PartKey>) -> bool {
        let most = self.bytes_max.min(self.room);
        let parts_max = PARTS_MAX - usize::from(newcomer.is_some_and(|key| !self.parts.contains_key(key)));
        while self.used + needed > most || self.parts.len() > parts_max {
            let mut neighbours = BTreeMap::<Guid, u64>::new();
            for (key, part) in &self.parts {
                *neighbours.entry(key.neighbour).or_default() += part.bytes();
            }
            newcomer.into_iter().for_each(|key| *neighbours.entry(key.neighbour).or_default() += needed);
            let by_bytes: BTreeSet<(u64, Guid)> = neighbours.into_iter().map(|(guid, bytes)| (bytes, guid)).collect();
            let oldest_of = |guid: &Guid| {
                let own = self.parts.iter().filter(|(key, _)| key.neighbour == *guid && Some(*key) != newcomer);
                own.min_by_key(|(_, part)| part.used_at).map(|(key, _)| *key)
            };
            let Some(victim) = by_bytes.last().and_then(|(_, guid)| oldest_of(guid)) else { return false };
            self.remove(&victim);
            self.dropped += 1;
        }
        true
    }
    fn forget(&mut self, id: u64) {
        // A piece that cannot be removed expires after the next start.
        self.is_dirty |= self.repository.remove(id).is_ok();
    }
}

#[cfg(test)]
mod tests;

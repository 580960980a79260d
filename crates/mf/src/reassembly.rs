//! Puts the chunks of one object together again (paper §3.1): in any order, verified before they count.
use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::{String, ToString},
    vec::Vec,
};
use core::ops::{Range, RangeInclusive};

use bytes::Bytes;
use tributary_content::{ChunkIndex, HashTree, Manifest, StoreError, StoreOpener};
use tributary_core::SourceId;
use tributary_transport::{
    object_writer::{ObjectWriter, Written},
    ranges::RangeSet,
};

use crate::{payload::Payload, sender::chunk_count, wire::ChunkRanges};

/// What a chunk did.
#[derive(Clone, PartialEq, Debug)]
pub enum Taken {
    /// It is kept; everything that it completes is verified and stored, see [`Reassembly::stored`].
    Kept,
    /// It had already arrived.
    Duplicate,
    /// The buffer is full: the chunk has to be sent again.
    Refused,
    /// It contradicts the manifest.
    Wrong(Wrong),
    /// The store refused.
    Failed(String),
}

/// Bytes that contradict the manifest.
#[derive(Clone, PartialEq, Debug)]
pub struct Wrong {
    /// The reason.
    pub reason: String,
    /// The bytes from each sender: with several, the faulty one is unknown.
    pub origins: BTreeMap<Origin, u64>,
    /// The chunks, in the latest cut, that must be sent again.
    pub chunks: RangeInclusive<u32>,
    /// The unit whose bytes are wrong; `None` if a chunk cannot belong to the object at all.
    pub unit: Option<u32>,
}

/// What a source that is in doubt sends again, while others send the object: it is kept apart.
#[derive(Debug)]
pub struct Check {
    /// The chunks to send again: only the unit, in chunks of its length, if exactly one unit is wrong.
    pub chunks: RangeInclusive<u32>,
    /// Their required cut: bytes per chunk, and the object's number of chunks.
    pub cut: (u32, u32),
    unit: Option<u32>,
    parts: Unit,
}

/// What a chunk shows about a suspect source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nothing yet.
    Open,
    /// The corrupted chunks turned out right.
    Right,
    /// It was corrupted again.
    Wrong,
}

tributary_core::declared! {
    /// One object that is being received.
    pub struct Reassembly {
        /// Verifies and stores its units. Nothing may be [taken](Reassembly::take) before it is open.
        pub writer: ObjectWriter = writer,
        /// How the latest chunk was cut, and into how many the object is then. Senders may cut differently, so received
        /// data is tracked in bytes.
        pub cut: Option<(u32, u32)> = None,
        units: BTreeMap<u32, Unit> = BTreeMap::new(),
        /// Complete units that wait for the hash list, or for the reader of an in-order stream.
        waiting: BTreeSet<u32> = BTreeSet::new(),
        /// Verified units that the store is writing: their bytes stay buffered until it has finished.
        storing: BTreeMap<u32, Stored> = BTreeMap::new(),
        /// Whether the store's failure is temporary.
        pub may_succeed_later: bool = false,
        /// Bytes received but not stored.
        pub buffered: u64 = 0,
        /// Units stored and not reported yet.
        pub stored: VecDeque<Stored> = VecDeque::new(),
    }
    fn of(writer: ObjectWriter) {}
}

/// A unit that was verified and stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored {
    /// Which.
    pub index: u32,
    /// Its bytes.
    pub bytes: u32,
    /// The bytes from each sender.
    pub parts: Vec<(Origin, u32)>,
}

/// Who sent a chunk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Origin {
    /// The source of this number.
    Source(SourceId),
    /// Storage on the way, in the name of the source with this number.
    Storage(SourceId),
    /// A cache, or an unknown node.
    Cache,
    /// A web server that has the object too; its account is kept elsewhere.
    Mirror,
}

impl Origin {
    /// The number of the source in whose name the chunk came.
    pub fn source(self) -> Option<SourceId> {
        match self {
            Origin::Source(number) | Origin::Storage(number) => Some(number),
            Origin::Cache | Origin::Mirror => None,
        }
    }
}

#[derive(Debug, Default)]
struct Unit {
    bytes: Vec<u8>,
    /// Which bytes were received.
    here: RangeSet,
    parts: Vec<(Origin, u32)>,
}

impl Unit {
    /// Writes a part; appending to the previous one needs no zeroing.
    fn put(&mut self, offset: usize, part: &[u8]) {
        if self.bytes.len() < offset {
            self.bytes.resize(offset, 0);
        }
        let (over, behind) = part.split_at(part.len().min(self.bytes.len() - offset));
        self.bytes[offset..offset + over.len()].copy_from_slice(over);
        self.bytes.extend_from_slice(behind);
    }
    fn covers(&self, first: u32, until: u32) -> bool {
        self.here.len_between(first, until) >= u64::from(until.saturating_sub(first))
    }
    /// Takes the bytes `first` to `until` out of a payload, from `offset` on; returns how many are new.
    fn take(&mut self, first: u32, until: u32, payload: &Payload, offset: usize) -> u32 {
        let gaps: Vec<(u32, u32)> = self.here.gaps(first, until).collect();
        for (new, end) in &gaps {
            let (mut to, from) = (*new as usize, offset + (new - first) as usize);
            for part in payload.range(from, from + (end - new) as usize) {
                self.put(to, part);
                to += part.len();
            }
        }
        self.here.insert(first, until);
        gaps.into_iter().map(|(new, end)| end - new).sum()
    }
    fn filled(&self) -> u32 {
        self.parts.iter().map(|(_, bytes)| bytes).sum()
    }
}

impl Reassembly {
    /// Opens the store of the object of `manifest`.
    ///
    /// # Errors
    /// The store's error.
    pub fn new(manifest: Manifest, opener: &mut dyn StoreOpener) -> Result<Reassembly, StoreError> {
        Ok(Reassembly::of(ObjectWriter::open(manifest, opener)?))
    }
    /// Creates the reassembly of an unsolicited transfer, identified by the delivery's name.
    ///
    /// # Errors
    /// The store's error.
    pub fn sent(manifest: Manifest, opener: &mut dyn StoreOpener, delivery: &[u8]) -> Result<Reassembly, StoreError> {
        Ok(Reassembly::of(ObjectWriter::open_sent(manifest, opener, delivery)?))
    }
    /// A store's error for people; remembers whether it is temporary.
    fn reason(&mut self, error: StoreError) -> String {
        self.may_succeed_later |= matches!(error, StoreError::Later { .. });
        error.to_string()
    }
    /// Takes the store's answers, from this or another thread; false if there were none.
    ///
    /// # Errors
    /// The store's error.
    pub fn handle_storage(&mut self) -> Result<bool, String> {
        let mut any = false;
        while let Some(written) = self.writer.poll().map_err(|error| self.reason(error))? {
            any = true;
            if let Written::Chunk { index, bytes } = written
                && let Some(stored) = self.storing.remove(&index)
            {
                self.buffered = self.buffered.saturating_sub(u64::from(bytes));
                self.stored.push_back(stored);
            }
        }
        Ok(any)
    }
    /// Starts syncing data that a power cut could lose; returns true if there is nothing to sync.
    ///
    /// # Errors
    /// The store's error.
    pub fn sync(&mut self) -> Result<bool, String> {
        self.writer.sync().map_err(|error| self.reason(error))?;
        self.handle_storage()?;
        self.writer.sync().map_err(|error| self.reason(error))
    }
    /// Whether all of a chunk, cut by `chunk_bytes`, is verified and survives a loss of power.
    pub fn is_durable(&self, number: u32, chunk_bytes: u32) -> bool {
        let Some(bytes) = self.bytes_of(number, chunk_bytes) else { return self.writer.is_tree_durable() };
        let mut units = parts(bytes.clone(), self.manifest().chunk_size);
        bytes.start < bytes.end && units.all(|(unit, ..)| self.writer.are_durable(unit..unit + 1))
    }
    /// The object.
    pub fn manifest(&self) -> &Manifest {
        self.writer.manifest()
    }
    /// Whether the store wants a part of the object only, and its readers may change which.
    pub fn is_selective(&self) -> bool {
        self.writer.wanted().is_some()
    }
    /// Whether everything that the store's readers want now is verified, though they may want more.
    pub fn awaits_wishes(&self) -> bool {
        self.writer.may_want_more() && self.writer.has_all_wanted()
    }
    /// Chunks, cut by `chunk_bytes`, that are wanted and missing, most urgent first.
    pub fn wanted(&self, chunk_bytes: u32) -> impl Iterator<Item = u32> {
        let (cut, unit_bytes) = (u64::from(chunk_bytes.max(1)), u64::from(self.manifest().chunk_size));
        let windows = self.writer.wanted().map(|wanted| wanted.windows.as_slice()).unwrap_or_default();
        let numbers = move |window: &Range<u32>| {
            let bytes =
                u64::from(window.start) * unit_bytes..(u64::from(window.end) * unit_bytes).min(self.manifest().size);
            (bytes.start / cut..bytes.end.div_ceil(cut)).map(|index| u32::try_from(index + 1).unwrap_or(u32::MAX))
        };
        core::iter::once(0)
            .chain(windows.iter().flat_map(numbers))
            .filter(move |number| !self.has(*number, chunk_bytes))
    }
    /// Gives the object its final name, or starts to; true once it has it.
    ///
    /// # Errors
    /// The store's error.
    pub fn finish(&mut self) -> Result<bool, String> {
        self.writer.finish().map_err(|error| self.reason(error))?;
        self.handle_storage()?;
        self.writer.finish().map_err(|error| self.reason(error))
    }
    /// Received chunks, cut by `chunk_bytes`, which are requested again only if verification fails.
    pub fn held(&self, chunk_bytes: u32) -> ChunkRanges {
        let count = chunk_count(self.manifest().size, chunk_bytes);
        ChunkRanges::from_ascending((0..count).filter(|number| self.has(*number, chunk_bytes)))
    }
    /// Whether a unit is stored, or about to be.
    fn is_verified(&self, unit: u32) -> bool {
        self.writer.is_verified(unit)
    }
    /// Whether the bytes `first` to `until` of a unit have arrived.
    fn is_here(&self, unit: u32, first: u32, until: u32) -> bool {
        self.is_verified(unit) || self.units.get(&unit).is_some_and(|state| state.covers(first, until))
    }
    /// Whether a chunk, cut by `chunk_bytes`, has been received.
    pub fn has(&self, number: u32, chunk_bytes: u32) -> bool {
        let Some(bytes) = self.bytes_of(number, chunk_bytes) else { return self.writer.has_tree() };
        let mut parts = parts(bytes.clone(), self.manifest().chunk_size);
        bytes.start < bytes.end && parts.all(|(unit, first, until)| self.is_here(unit, first, until))
    }
    /// The bytes of the object in a chunk, cut by `chunk_bytes`; `None` for its description.
    fn bytes_of(&self, number: u32, chunk_bytes: u32) -> Option<Range<u64>> {
        let start = u64::from(number.checked_sub(1)?) * u64::from(chunk_bytes);
        Some(start..self.manifest().size.min(start + u64::from(chunk_bytes)))
    }
    /// Whether all of a chunk of some cut is verified.
    pub fn holds(&self, number: u32, chunk_bytes: u32, count: u32, len: usize) -> bool {
        match self.range(number, chunk_bytes, count, len) {
            Ok(_) if number == 0 => self.writer.has_tree(),
            Ok(range) => parts(range, self.manifest().chunk_size).all(|(unit, ..)| self.is_verified(unit)),
            Err(_) => false,
        }
    }
    /// Missing chunks of the latest cut; all before the first has arrived.
    pub fn missing(&self) -> impl Iterator<Item = u32> {
        let (_, count) = self.cut.unwrap_or((u32::MAX, 1));
        (0..count).filter(|number| self.is_missing(*number))
    }
    /// Whether a chunk of the last cut is missing.
    pub fn is_missing(&self, number: u32) -> bool {
        let (chunk_bytes, count) = self.cut.unwrap_or((u32::MAX, 1));
        number < count && !self.has(number, chunk_bytes)
    }
    /// Drops unverified data.
    pub fn restart(&mut self) {
        (self.cut, self.buffered) = (None, self.storing.values().map(|stored| u64::from(stored.bytes)).sum());
        self.units.clear();
        self.waiting.clear();
    }
    /// Drops about `bytes` bytes of unverified data, from the end; returns how many.
    pub fn shed(&mut self, bytes: u64) -> u64 {
        let mut shed = 0;
        while shed < bytes
            && let Some((number, unit)) = self.units.pop_last()
        {
            self.waiting.remove(&number);
            shed += u64::from(unit.filled());
        }
        self.buffered = self.buffered.saturating_sub(shed);
        shed
    }
    /// Drops the unverified data of units to which a source has contributed.
    pub fn forget(&mut self, source: SourceId) {
        let is_of = |unit: &Unit| unit.parts.iter().any(|(origin, _)| origin.source() == Some(source));
        let gone: Vec<u32> = self.units.iter().filter(|(_, unit)| is_of(unit)).map(|(number, _)| *number).collect();
        for number in gone {
            self.waiting.remove(&number);
            let filled = self.units.remove(&number).map_or(0, |unit| unit.filled());
            self.buffered = self.buffered.saturating_sub(u64::from(filled));
        }
    }
    /// The bytes of the object that a chunk must contain.
    fn range(&self, number: u32, chunk_bytes: u32, count: u32, bytes: usize) -> Result<Range<u64>, &'static str> {
        if count != chunk_count(self.manifest().size, chunk_bytes) {
            return Err("cuts the object into another number of chunks");
        }
        let Some(range) = self.bytes_of(number, chunk_bytes) else { return Ok(0..0) };
        match bytes as u64 == range.end.saturating_sub(range.start) {
            true => Ok(range),
            false => Err("sends a chunk of another length"),
        }
    }
    /// Starts the check of corrupted chunks: which parts to request again.
    pub fn begin_check(&self, wrong: &Wrong) -> Check {
        let by_unit = |unit: u32| (unit + 1..=unit + 1, self.manifest().chunk_size);
        let cut = self.cut.map_or(self.manifest().chunk_size, |(chunk_bytes, _)| chunk_bytes);
        let (chunks, chunk_bytes) = wrong.unit.map_or_else(|| (wrong.chunks.clone(), cut), by_unit);
        let cut = (chunk_bytes, chunk_count(self.manifest().size, chunk_bytes));
        Check { chunks, cut, unit: wrong.unit, parts: Unit::default() }
    }
    /// Checks a suspect source's chunk, without keeping it.
    pub fn check(
        &self,
        check: &mut Check,
        number: u32,
        (chunk_bytes, count): (u32, u32),
        payload: &Payload,
    ) -> Verdict {
        let is_meant = check.chunks.contains(&number);
        let Ok(range) = self.range(number, chunk_bytes, count, payload.len()) else {
            return if is_meant { Verdict::Wrong } else { Verdict::Open };
        };
        let verdict = |is_right| if is_right { Verdict::Right } else { Verdict::Wrong };
        let (Some(wrong), false) = (check.unit, number == 0) else {
            let is_right = number != 0 || self.head(&payload.to_bytes()).is_ok();
            return if is_meant && check.unit.is_none() { verdict(is_right) } else { Verdict::Open };
        };
        let before = range.start;
        let Some((_, first, until)) = parts(range, self.manifest().chunk_size).find(|(unit, ..)| *unit == wrong) else {
            return Verdict::Open;
        };
        let offset = self.manifest().chunk_offset(ChunkIndex(wrong));
        check.parts.take(first, until, payload, (offset + u64::from(first) - before) as usize);
        if !self.writer.has_tree() || !check.parts.covers(0, self.manifest().chunk_len(ChunkIndex(wrong))) {
            return Verdict::Open;
        }
        let bytes = core::mem::take(&mut check.parts).bytes;
        self.writer.verify_chunk(wrong, &bytes).map_or(Verdict::Open, verdict)
    }
    /// Takes a chunk if `room` suffices for its bytes, or if it contributes to the first unverified unit, on which an
    /// in-order reader waits.
    pub fn take(
        &mut self,
        number: u32,
        (chunk_bytes, count): (u32, u32),
        payload: &Payload,
        origin: Origin,
        room: u64,
    ) -> Taken {
        let range = match self.range(number, chunk_bytes, count, payload.len()) {
            Ok(range) => range,
            Err(reason) => return wrong_chunk(reason, number, (origin, payload.len())),
        };
        self.cut = Some((chunk_bytes, count));
        if self.has(number, chunk_bytes) {
            return Taken::Duplicate;
        }
        if number == 0 {
            return self.take_head(&payload.to_bytes(), origin);
        }
        if payload.len() as u64 > room {
            let first = self.writer.first_unverified();
            if !parts(range.clone(), self.manifest().chunk_size).any(|(unit, ..)| Some(unit) == first) {
                return Taken::Refused;
            }
        }
        let mut at = 0;
        let mut full = Vec::new();
        for (unit, first, until) in parts(range, self.manifest().chunk_size) {
            let from = at;
            at += (until - first) as usize;
            if self.is_verified(unit) {
                continue;
            }
            let unit_len = self.manifest().chunk_len(ChunkIndex(unit));
            let writer = &mut self.writer;
            let state = self.units.entry(unit).or_insert_with(|| {
                let mut bytes = writer.buffer();
                bytes.clear();
                bytes.reserve_exact(unit_len as usize);
                Unit { bytes, ..Unit::default() }
            });
            let new = state.take(first, until, payload, from);
            if new > 0 {
                state.parts.push((origin, new));
                self.buffered += u64::from(new);
            }
            if state.covers(0, unit_len) {
                full.push(unit);
            }
        }
        self.waiting.extend(full);
        self.store_waiting()
    }
    /// Takes a whole unit from a mirror; drops parts of it from other senders.
    pub fn take_unit(&mut self, unit: u32, bytes: Vec<u8>) -> Taken {
        let length = bytes.len() as u64;
        if unit >= self.manifest().chunk_count() || self.is_verified(unit) || !self.writer.has_tree() {
            return Taken::Duplicate;
        }
        if self.writer.verify_chunk(unit, &bytes) != Some(true) {
            return wrong_chunk("sent bytes that are not the object's", unit, (Origin::Mirror, bytes.len()));
        }
        let filled = self.units.remove(&unit).map_or(0, |unit| unit.filled());
        self.buffered = self.buffered.saturating_sub(u64::from(filled)) + length;
        let unit_len = bytes.len() as u32;
        let mut state = Unit { bytes, parts: alloc::vec![(Origin::Mirror, unit_len)], ..Unit::default() };
        state.here.insert(0, unit_len);
        self.units.insert(unit, state);
        self.waiting.insert(unit);
        self.store_waiting()
    }
    /// Whether a unit is missing: not verified, and not complete and about to be.
    pub fn is_missing_unit(&self, unit: u32) -> bool {
        !self.is_verified(unit) && !self.waiting.contains(&unit)
    }
    /// Whether no byte of a unit has arrived.
    pub fn is_untouched(&self, unit: u32) -> bool {
        !self.is_verified(unit) && !self.units.contains_key(&unit)
    }
    /// All units that are missing.
    pub fn missing_units(&self) -> RangeSet {
        let mut missing = RangeSet::new();
        let units = (0..self.manifest().chunk_count()).filter(|unit| self.is_missing_unit(*unit));
        units.for_each(|unit| missing.insert(unit, unit + 1));
        missing
    }
    /// The units that are wanted, most urgent first.
    pub fn windows(&self) -> Vec<Range<u32>> {
        let all = || core::iter::once(0..self.manifest().chunk_count()).collect();
        self.writer.wanted().map_or_else(all, |wanted| wanted.windows.clone())
    }
    /// The hash list in chunk 0, after the manifest. The object's manifest is known, while another sender of the same
    /// bytes may have its own.
    fn head(&self, payload: &Bytes) -> Result<HashTree, String> {
        let (_, tree) = split_head(payload).ok_or("sends a description that is cut")?;
        HashTree::decode(self.manifest(), tree).map_err(|error| error.to_string())
    }
    fn take_head(&mut self, payload: &Bytes, origin: Origin) -> Taken {
        match self.head(payload) {
            Ok(tree) => {
                if let Err(error) = self.writer.put_tree(tree) {
                    return Taken::Failed(self.reason(error));
                }
                match self.handle_storage() {
                    Ok(_) => self.store_waiting(),
                    Err(reason) => Taken::Failed(reason),
                }
            }
            Err(reason) => wrong_chunk(&reason, 0, (origin, payload.len())),
        }
    }
    /// Verifies and stores complete units, as far as the hash list has arrived and the reader keeps up.
    pub fn store_waiting(&mut self) -> Taken {
        if !self.writer.has_tree() {
            return Taken::Kept;
        }
        let ready: Vec<u32> = self.waiting.iter().copied().filter(|unit| self.writer.accepts(*unit)).collect();
        for unit in ready {
            self.waiting.remove(&unit);
            let Some(state) = self.units.remove(&unit) else { continue };
            if self.writer.verify_chunk(unit, &state.bytes) != Some(true) {
                self.buffered = self.buffered.saturating_sub(u64::from(state.filled()));
                // The chunks that waited for the hash list may have other senders than the list.
                let mut origins = BTreeMap::new();
                for (origin, bytes) in state.parts {
                    *origins.entry(origin).or_default() += u64::from(bytes);
                }
                let (reason, chunks) = (alloc::format!("sent wrong bytes in chunk {unit}"), self.chunks_of(unit));
                return Taken::Wrong(Wrong { reason, origins, chunks, unit: Some(unit) });
            }
            let bytes = state.filled();
            if let Err(error) = self.writer.put_chunk(unit, state.bytes) {
                self.buffered = self.buffered.saturating_sub(u64::from(bytes));
                return Taken::Failed(self.reason(error));
            }
            self.storing.insert(unit, Stored { index: unit, bytes, parts: state.parts });
            if let Err(reason) = self.handle_storage() {
                return Taken::Failed(reason);
            }
        }
        Taken::Kept
    }
    /// The chunks of the last cut that a unit's bytes are in.
    fn chunks_of(&self, unit: u32) -> RangeInclusive<u32> {
        let chunk_bytes = u64::from(self.cut.map_or(u32::MAX, |(chunk_bytes, _)| chunk_bytes));
        let start = self.manifest().chunk_offset(ChunkIndex(unit));
        let last = start + u64::from(self.manifest().chunk_len(ChunkIndex(unit))).max(1) - 1;
        let number = |byte: u64| u32::try_from(byte / chunk_bytes + 1).unwrap_or(u32::MAX);
        number(start)..=number(last)
    }
    /// Whether the reader of an in-order stream holds things up.
    pub fn awaits_reader(&self) -> bool {
        self.writer.has_tree() && !self.waiting.is_empty()
    }
    /// Whether only the reader of an in-order stream delays the transfer: everything that it accepts has arrived.
    pub fn is_reader_behind(&self) -> bool {
        self.awaits_reader() && self.writer.first_unverified().is_some_and(|next| !self.writer.accepts(next))
    }
}

/// The units of `unit_bytes` that bytes of an object are in, each with the first of these and the one after the last.
fn parts(bytes: Range<u64>, unit_bytes: u32) -> impl Iterator<Item = (u32, u32, u32)> {
    let unit = u64::from(unit_bytes.max(1));
    (bytes.start / unit..bytes.end.div_ceil(unit)).map(move |number| {
        let before = number * unit;
        let (first, until) = (bytes.start.max(before) - before, bytes.end.min(before + unit) - before);
        (u32::try_from(number).unwrap_or(u32::MAX), first as u32, until as u32)
    })
}

fn wrong_chunk(reason: &str, number: u32, (origin, bytes): (Origin, usize)) -> Taken {
    let origins = BTreeMap::from([(origin, bytes as u64)]);
    Taken::Wrong(Wrong { reason: reason.into(), origins, chunks: number..=number, unit: None })
}

/// The manifest in an unsolicited chunk 0.
pub fn manifest_of(payload: &[u8]) -> Option<Manifest> {
    Manifest::decode(split_head(payload)?.0).ok()
}
/// The manifest and the hash list in chunk 0.
fn split_head(payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = payload.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
}

#[cfg(test)]
mod tests;

//! Bulk sources of a transfer: web servers deliver whole chunks, the paths deliver packets.
//!
//! A chunk belongs to one side at a time: a chunk that a mirror fetches is not idle, so no path requests it, and a
//! mirror gets only chunks without requested packets. Chunks that are late on one side move to the other.
use super::*;
use crate::bulk::{Bulk, BulkChunk, BulkConfig, BulkFlowId, BulkInput, BulkShape, BulkStep, ChunkPool};
use core::ops::Range;

/// First numbers for sources and paths of mirrors, above the network's.
const FIRST_SOURCE: SourceId = SourceId(10_001);
const FIRST_PATH: PathId = PathId(60_001);

impl Transfer {
    /// Takes the reports of the driver of bulk sources, and returns its orders. The first call, even without inputs,
    /// makes the transfer wait for mirrors when it has no other source.
    pub fn step_bulk(&mut self, now: Time, inputs: Vec<BulkInput>) -> BulkStep {
        let mut bulk = self.bulk.take().unwrap_or_else(|| Bulk::new(BulkConfig::default(), FIRST_SOURCE, FIRST_PATH));
        for input in inputs {
            self.take_input(now, &mut bulk, input);
        }
        let mut step = BulkStep { is_ended: self.record.is_ended(), ..BulkStep::default() };
        if let Some(running) = self.running.as_mut().filter(|_| !self.record.is_ended()) {
            let manifest = running.writer.manifest();
            if running.writer.has_tree() && !manifest.is_unsigned() {
                step.shape = Some(BulkShape { size: manifest.size, chunk_size: manifest.chunk_size });
            }
            let mut pool = Pool { running, paths: &mut self.paths };
            bulk.handle_timeout(now, &mut pool);
            // Mirrors share the rate limit of the transfer with its paths: the limiter accounts for delivered chunks
            // before more are ordered.
            if self.limit.ready_at() <= now {
                step.orders.extend(core::iter::from_fn(|| bulk.poll_order(now, &mut pool)));
            }
        }
        step.cuts.extend(core::iter::from_fn(|| bulk.poll_cut()));
        self.record.extend(core::iter::from_fn(|| bulk.poll_event()));
        self.bulk = Some(bulk);
        self.end_if_hopeless(now);
        step
    }
    fn take_input(&mut self, now: Time, bulk: &mut Bulk, input: BulkInput) {
        if let BulkInput::Settled = input {
            self.awaits_mirrors = false;
            return;
        }
        let Some(running) = self.running.as_mut().filter(|_| !self.record.is_ended()) else { return };
        let mut pool = Pool { running, paths: &mut self.paths };
        match input {
            BulkInput::Mirror { label, uplinks, objection } => {
                bulk.handle_mirror(&label, &uplinks, objection, &mut pool);
            }
            BulkInput::Head { flow, number } => {
                self.patience.restart(now);
                bulk.handle_head(now, flow, number);
            }
            BulkInput::Bytes { flow, number, bytes } => {
                self.patience.restart(now);
                bulk.handle_bytes(now, flow, number, bytes);
            }
            BulkInput::Failed { flow, number, failure } => bulk.handle_failure(now, flow, number, failure, &mut pool),
            BulkInput::Chunk { flow, number, chunk, bytes } => {
                let length = bytes.len() as u32;
                let verdict = self.take_chunk(now, bulk, flow, chunk, bytes);
                let Some(running) = &mut self.running else { return };
                let mut pool = Pool { running, paths: &mut self.paths };
                bulk.handle_chunk(now, flow, number, (chunk, length), verdict, &mut pool);
                self.finish_if_complete(now);
            }
            BulkInput::Settled => {}
        }
    }
    /// Verifies a mirror's chunk, and passes it to the store.
    fn take_chunk(&mut self, now: Time, bulk: &Bulk, flow: BulkFlowId, chunk: u32, bytes: Vec<u8>) -> BulkChunk {
        let Some(running) = &mut self.running else { return BulkChunk::Duplicate };
        let unit = Unit::Chunk(chunk);
        let is_usable = bulk.mirror_of(flow).is_some_and(|mirror| bulk.is_usable(mirror));
        if running.is_stored(unit) || !is_usable || chunk >= running.writer.manifest().chunk_count() {
            return BulkChunk::Duplicate;
        }
        if running.writer.verify_chunk(chunk, &bytes) != Some(true) {
            return BulkChunk::Bad(format!("sent chunk {chunk} with bytes that failed verification"));
        }
        let (first, end) = running.layout.packets(unit);
        running.units.remove(&unit);
        running.suspects.remove(&unit);
        running.idle.remove(first, end);
        self.patience.restart(now);
        self.limit.on_pass(now, bytes.len() as u64);
        if let Err(error) = running.writer.put_chunk(chunk, bytes) {
            self.fail(now, error.to_string());
            return BulkChunk::Duplicate;
        }
        self.take_written(now);
        BulkChunk::Kept
    }
    /// Whether mirrors may still deliver something, or are still to be found.
    pub(super) fn has_mirrors(&self) -> bool {
        self.bulk.as_ref().is_some_and(|bulk| self.awaits_mirrors || bulk.any_usable())
    }
    /// Returns the end of a mirror's range to the paths if this path, which lacks packets to request, would deliver it
    /// sooner.
    pub(super) fn release_late(&mut self, now: Time, id: PathId) -> bool {
        let Some(flow) = self.paths.get(&id).and_then(|path| path.flow.as_ref()) else { return false };
        let (latency, rate) = (flow.arrival_of(now, 1).since(now), flow.meter.rate(now));
        let (Some(bulk), Some(running)) = (&mut self.bulk, &mut self.running) else { return false };
        // Chunks that wait for space are no reason to take more from mirrors.
        if running.idle_bytes() > 0 {
            return false;
        }
        let mut pool = Pool { running, paths: &mut self.paths };
        bulk.release(now, latency, rate, &mut pool)
    }
}

/// The chunks of a transfer, for the scheduler of bulk sources.
struct Pool<'a> {
    running: &'a mut Running,
    paths: &'a mut BTreeMap<PathId, Path>,
}

impl Pool<'_> {
    /// Whether no missing packet of a chunk is requested by a path.
    fn is_free(&self, chunk: u32) -> bool {
        let unit = Unit::Chunk(chunk);
        let (first, end) = self.running.layout.packets(unit);
        let idle_until = |packet: u32| self.running.idle.range_from(packet).filter(|(from, _)| *from == packet);
        if self.running.suspects.contains_key(&unit) || self.running.is_stored(unit) {
            return false;
        }
        match self.running.units.get(&unit) {
            None => idle_until(first).is_some_and(|(_, until)| until >= end),
            Some(assembly) => {
                !assembly.is_complete() && assembly.missing_slots().all(|slot| idle_until(first + slot).is_some())
            }
        }
    }
    /// Takes consecutive free chunks in a window, at most `chunks`.
    fn take_in(&mut self, window: Range<u32>, chunks: u32) -> Option<Range<u32>> {
        let first = window.clone().find(|chunk| self.is_free(*chunk))?;
        let last = (first..window.end.min(first + chunks)).take_while(|chunk| self.is_free(*chunk)).last()?;
        let start = self.running.layout.packets(Unit::Chunk(first)).0;
        let stop = self.running.layout.packets(Unit::Chunk(last)).1;
        self.running.idle.remove(start, stop);
        Some(first..last + 1)
    }
    /// The first chunk of a window with an idle packet.
    fn first_idle(&self, window: &Range<u32>) -> Option<u32> {
        let (packet, _) = self.running.idle.range_from(self.running.layout.packets(Unit::Chunk(window.start)).0)?;
        let (unit, ..) = self.running.layout.locate(packet)?;
        Layout::chunk_of(unit).map(|chunk| chunk.0).filter(|chunk| *chunk < window.end)
    }
}

impl ChunkPool for Pool<'_> {
    fn take(&mut self, chunks: u32) -> Option<Range<u32>> {
        if !self.running.writer.has_tree() || self.running.writer.manifest().is_unsigned() {
            return None;
        }
        let windows = match self.running.writer.wanted() {
            Some(wanted) => wanted.windows.clone(),
            None => core::iter::once(0..self.chunks()).collect(),
        };
        for window in windows {
            let Some(first) = self.first_idle(&window) else { continue };
            if let Some(taken) = self.take_in(first..window.end, chunks) {
                return Some(taken);
            }
        }
        // A chunk that failed verification and that its one path has not requested yet: a mirror's copy is whole.
        let open = |(unit, suspect): (&Unit, &Suspect)| {
            Layout::chunk_of(*unit).filter(|_| !suspect.idle.is_empty()).map(|chunk| (*unit, chunk.0))
        };
        let (unit, chunk) = self.running.suspects.iter().find_map(open)?;
        if let Some(suspect) = self.running.suspects.get_mut(&unit) {
            suspect.idle = RangeSet::new();
        }
        Some(chunk..chunk + 1)
    }
    fn take_late(&mut self, eta: Time) -> Option<u32> {
        let running = &*self.running;
        for path in self.paths.values_mut() {
            let Some(flow) = path.flow.as_mut() else { continue };
            let wanted = |packet: u32| {
                packet < TREE_PACKET_FIRST
                    && running.wants(packet)
                    && running
                        .layout
                        .locate(packet)
                        .and_then(|(unit, ..)| Layout::chunk_of(unit))
                        .is_some_and(|chunk| running.writer.is_wanted(chunk.0))
            };
            let late = flow.late_packets(eta, 1, wanted);
            let unit = late.first().and_then(|packet| running.layout.locate(*packet)).map(|(unit, ..)| unit);
            if let Some(chunk) = unit.and_then(Layout::chunk_of) {
                return Some(chunk.0);
            }
        }
        None
    }
    fn give_back(&mut self, run: Range<u32>) {
        for chunk in run {
            let unit = Unit::Chunk(chunk);
            if self.running.is_stored(unit) {
                continue;
            }
            let (first, end) = self.running.layout.packets(unit);
            let missing: Vec<u32> = match self.running.units.get(&unit) {
                Some(assembly) => assembly.missing_slots().map(|slot| first + slot).collect(),
                None => Vec::new(),
            };
            let whole = !self.running.units.contains_key(&unit);
            let idle = match self.running.suspects.get_mut(&unit) {
                Some(suspect) => &mut suspect.idle,
                None => &mut self.running.idle,
            };
            missing.into_iter().for_each(|packet| idle.insert(packet, packet + 1));
            if whole {
                idle.insert(first, end);
            }
        }
    }
    fn is_missing(&self, chunk: u32) -> bool {
        !self.running.is_stored(Unit::Chunk(chunk))
    }
    fn idle_bytes(&self) -> u64 {
        self.running.idle_bytes()
    }
    fn chunk_bytes(&self) -> u32 {
        self.running.writer.manifest().chunk_size
    }
    fn chunks(&self) -> u32 {
        self.running.writer.manifest().chunk_count()
    }
}

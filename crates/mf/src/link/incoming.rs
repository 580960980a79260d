//! The receiving side of a hop: reassembles chunks and answers CSYNs.
use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use tributary_core::{Datagram, Duration, FaceId, Time};

use super::buffer::{Arrival, Buffer, Chunk, Origin, Slot};
use crate::{
    ids::{Guid, HopId},
    wire::{Cack, CackState, ChunkHeader, Class, Csyn, DataHeader, WireError},
};

/// Chunks remembered as inconsistent with their headers, at most.
const SPOILT_MAX: usize = 64;
/// Finished chunks remembered to answer CSYNs again whose answers were lost.
const FINISHED_MAX: usize = 4_096;
/// Maximum CACKs that wait to be sent.
const CACKS_MAX: usize = 1_024;
/// Maximum chunks in arrival.
const ARRIVING_MAX: usize = 1_024;
/// Maximum remembered destinations without space; the neighbour queries others.
const FULL_MAX: usize = 1_024;

/// What a fragment did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrived {
    /// One more fragment has arrived.
    Fragment(Slot, u16),
    /// The chunk is complete: the router forwards it, keeps it, or drops it.
    Complete(Slot),
    /// Some of its packets are not the neighbour's, and it is unknown which: the router removes the chunk, and the
    /// neighbour sends all of it again.
    Spoilt(Slot),
    /// It was of no use.
    Nothing,
}

/// Chunks that arrive over one face.
#[derive(Debug, Default)]
pub struct Incoming {
    face: FaceId,
    arriving: BTreeMap<HopId, Arriving>,
    /// Their destinations.
    finished: BTreeMap<HopId, Option<Guid>>,
    finished_order: VecDeque<HopId>,
    answers: VecDeque<(HopId, u16, u32)>,
    refused: VecDeque<HopId>,
    /// Chunks that did not add up; a second time is the neighbour's own doing.
    spoilt: VecDeque<HopId>,
    /// Destinations whose exhausted share the neighbour has been told about, with their last chunk.
    full: BTreeMap<Guid, HopId>,
    /// Whether the neighbour's chunks leave space for a chunk of others.
    pub yields: bool,
    /// Data packets with a congestion mark, modulo 256.
    marked: u8,
    /// The last advertised window.
    pub advertised: u32,
    /// When the last packet arrived.
    pub active_at: Time,
    /// When the last data of objects arrived.
    pub data_at: Time,
    /// When the neighbour last asked for a window, because a chunk waits there.
    pub asked_at: Time,
}

#[derive(Debug, Default)]
struct Arriving {
    slot: Slot,
    count: u16,
    /// Packets that give the chunk a different number of packets.
    contradictions: u16,
    duplicates: u8,
    /// The highest packet so far.
    highest: u16,
    arrival: Arrival,
    heard: Time,
    /// The neighbour has been away and has not continued the chunk yet.
    awaits: bool,
    destination: Option<Guid>,
}

impl Incoming {
    /// Nothing has arrived.
    pub fn new(face: FaceId) -> Incoming {
        Incoming { face, ..Incoming::default() }
    }
    /// The chunks in arrival, and when the latest packet of each came.
    pub fn slots(&self) -> impl Iterator<Item = (Slot, Time)> {
        self.arriving.values().map(|arriving| (arriving.slot, arriving.heard))
    }
    /// The chunks in arrival, and when their first packet arrived.
    pub fn begun(&self) -> impl Iterator<Item = (Slot, Time)> {
        self.arriving.values().map(|arriving| (arriving.slot, arriving.arrival.begun))
    }
    /// Takes a data packet: its header, and the packet without it.
    ///
    /// A hop id alone identifies packets, so a replayed packet of another chunk may pass for one of this chunk: its
    /// packets must agree on their number, and contain as many bytes as its header states.
    ///
    /// # Errors
    /// [`WireError`] if the chunk header in packet 0 is malformed.
    pub fn handle_data(
        &mut self,
        now: Time,
        header: &DataHeader,
        rest: Datagram,
        buffer: &mut Buffer,
    ) -> Result<Arrived, WireError> {
        if let Some(number) = header.csyn {
            self.answer(header.hop, header.count, number);
        }
        self.marked = self.marked.wrapping_add(u8::from(rest.is_marked()));
        let known = self.arriving.get_mut(&header.hop);
        if known.is_none() && self.finished.contains_key(&header.hop) {
            return Ok(Arrived::Nothing);
        }
        self.active_at = now;
        if header.class == Class::Bulk {
            self.data_at = now;
        }
        let (chunk_header, skip) = if header.index == 0 {
            let (chunk_header, len) = ChunkHeader::decode(rest.header_bytes())?;
            (Some(chunk_header), len)
        } else {
            (None, 0)
        };
        let arriving = match known {
            Some(arriving) if arriving.count == header.count => arriving,
            Some(arriving) => {
                // Only one of both is the neighbour's: the majority decides.
                arriving.contradictions = arriving.contradictions.saturating_add(1);
                let slot = arriving.slot;
                if buffer.chunk(slot).is_some_and(|chunk| chunk.count() - chunk.missing >= arriving.contradictions) {
                    return Err(WireError::Value { field: "packets of the chunk", found: u64::from(header.count) });
                }
                self.arriving.remove(&header.hop);
                return Ok(Arrived::Spoilt(slot));
            }
            None => {
                let is_full = header.class == Class::Bulk && self.room(buffer) < u32::from(header.count);
                let room = self.arriving.len() < ARRIVING_MAX && !is_full;
                let origin = Origin::Face(self.face, header.hop);
                let Some(slot) = room.then(|| buffer.admit(header.class, header.count, origin)).flatten() else {
                    if !self.refused.contains(&header.hop) && self.refused.len() < CACKS_MAX {
                        self.refused.push_back(header.hop);
                        self.answer(header.hop, header.count, 0);
                    }
                    return Ok(Arrived::Nothing);
                };
                self.refused.retain(|hop| *hop != header.hop);
                self.arriving.entry(header.hop).or_insert(Arriving {
                    slot,
                    count: header.count,
                    arrival: Arrival { begun: now, ..Arrival::default() },
                    ..Arriving::default()
                })
            }
        };
        (arriving.heard, arriving.awaits) = (now, false);
        let slot = arriving.slot;
        let Some(chunk) = buffer.fill(slot, header.index, rest.strip(skip).into_bytes()) else {
            arriving.duplicates = arriving.duplicates.saturating_add(1);
            return Ok(Arrived::Nothing);
        };
        let is_complete = chunk.is_complete();
        match header.index < arriving.highest {
            true => arriving.arrival.late += 1,
            // The last packet may arrive first, to query what has arrived.
            false if header.index + 1 < header.count => arriving.highest = header.index,
            false => {}
        }
        let arrival = arriving.arrival;
        if let Some(chunk_header) = chunk_header {
            arriving.destination = Some(chunk_header.destination);
            buffer.set_header(slot, chunk_header);
        }
        if !is_complete {
            return Ok(Arrived::Fragment(slot, header.index));
        }
        if buffer.chunk(slot).is_some_and(Chunk::adds_up) {
            buffer.set_arrival(slot, arrival);
            return Ok(Arrived::Complete(slot));
        }
        self.on_spoilt(header.hop);
        Ok(Arrived::Spoilt(slot))
    }
    /// Data packets from this neighbour that fit.
    pub fn room(&self, buffer: &Buffer) -> u32 {
        let kept = if self.yields && buffer.used() > 0 { buffer.largest() } else { 0 };
        buffer.free().saturating_sub(kept)
    }
    /// The packets of a chunk contradict its header.
    pub fn on_spoilt(&mut self, hop: HopId) {
        if self.spoilt.contains(&hop) {
            return self.on_taken_late(hop);
        }
        self.arriving.remove(&hop);
        self.spoilt.push_back(hop);
        if self.spoilt.len() > SPOILT_MAX {
            self.spoilt.pop_front();
        }
    }
    /// Takes a CSYN.
    pub fn handle_csyn(&mut self, now: Time, csyn: &Csyn) {
        // A question for the window may name a chunk without knowing its packets.
        match self.arriving.get_mut(&csyn.hop).filter(|arriving| arriving.count == csyn.count) {
            Some(arriving) => (arriving.heard, arriving.awaits) = (now, false),
            None => self.asked_at = now,
        }
        self.answer(csyn.hop, csyn.count, csyn.number);
    }
    /// Reports the present fragments of a chunk when the answer is sent: a waiting answer covers later questions, too.
    fn answer(&mut self, hop: HopId, count: u16, number: u32) {
        if let Some((.., waiting)) = self.answers.back_mut().filter(|(known, ..)| *known == hop) {
            *waiting = number.max(*waiting);
        } else if self.answers.len() < CACKS_MAX {
            self.answers.push_back((hop, count, number));
        }
    }
    /// The router has accepted a complete chunk, or dropped it on purpose: the neighbour may forget it.
    pub fn on_taken(&mut self, hop: HopId) {
        let Some(arriving) = self.arriving.remove(&hop) else { return };
        self.finished.insert(hop, arriving.destination);
        self.finished_order.push_back(hop);
        if self.finished_order.len() > FINISHED_MAX
            && let Some(old) = self.finished_order.pop_front()
        {
            self.finished.remove(&old);
        }
    }
    /// The same, if the neighbour may know the chunk as held already: it gets this answer unasked.
    pub fn on_taken_late(&mut self, hop: HopId) {
        self.on_taken(hop);
        self.answer(hop, 1, 0);
    }
    /// A forwarded chunk has left for its next hop. Where the paths to its destination diverge, the neighbour needs to
    /// know how soon chunks leave this node.
    pub fn on_left(&mut self, hop: HopId) {
        if self.finished.contains_key(&hop) {
            self.answer(hop, 1, 0);
        }
    }
    /// A complete chunk is given back: it is as if it had been refused.
    pub fn on_given_back(&mut self, hop: HopId) {
        if self.arriving.remove(&hop).is_some() {
            self.refused.push_back(hop);
            self.answer(hop, 1, 0);
        }
    }
    /// Tells the neighbour that the window has opened.
    pub fn announce_window(&mut self) {
        self.answers.push_back((HopId(0), 0, 0));
    }
    /// Notifies the neighbour of destinations with free space again.
    pub fn announce_destinations(&mut self, buffer: &Buffer) {
        let opened = |guid: &Guid| buffer.free_for(guid) >= buffer.largest();
        let opened: Vec<Guid> = self.full.keys().filter(|guid| opened(guid)).copied().collect();
        for guid in opened {
            if let Some(hop) = self.full.remove(&guid) {
                self.answer(hop, 1, 0);
            }
        }
    }
    /// The next CACK to send, with this window.
    pub fn poll_cack(&mut self, window: u32, buffer: &Buffer) -> Option<Cack> {
        let (hop, count, number) = self.answers.pop_front()?;
        self.advertised = window;
        let mut cack = Cack {
            state: CackState::Window,
            hop,
            number,
            window,
            destination_window: Cack::UNKNOWN,
            duplicates: 0,
            marked: self.marked,
            first_missing: 0,
            bitmap: Vec::new(),
        };
        if count == 0 {
            return Some(cack);
        }
        cack.state = CackState::Partial;
        if let Some(guid) = self.destination(hop) {
            cack.destination_window = buffer.free_for(&guid);
            if cack.destination_window >= buffer.largest() {
                self.full.remove(&guid);
            } else if self.full.len() < FULL_MAX {
                self.full.insert(guid, hop);
            }
        }
        if self.finished.contains_key(&hop) {
            cack.state = CackState::Complete;
        } else if let Some(arriving) = self.arriving.get(&hop)
            && let Some(chunk) = buffer.chunk(arriving.slot)
        {
            cack.duplicates = arriving.duplicates;
            if chunk.is_complete() {
                cack.state = CackState::Held;
            } else {
                (cack.first_missing, cack.bitmap) = chunk.describe();
            }
        } else if let Some(at) = self.refused.iter().position(|refused| *refused == hop) {
            self.refused.remove(at);
            cack.state = CackState::Refused;
        }
        Some(cack)
    }
    fn destination(&self, hop: HopId) -> Option<Guid> {
        match self.arriving.get(&hop) {
            Some(arriving) => arriving.destination,
            None => self.finished.get(&hop).copied().flatten(),
        }
    }
    /// An arriving chunk continues elsewhere; if it is sent again, it starts from the beginning.
    pub fn forget(&mut self, hop: HopId) {
        self.arriving.remove(&hop);
    }
    /// Whether the neighbour has started this chunk, and perhaps finished it.
    pub fn knows(&self, hop: HopId) -> bool {
        self.arriving.contains_key(&hop) || self.finished.contains_key(&hop)
    }
    /// Whether a CACK waits to be sent.
    pub fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }
    /// The neighbour is back and may continue its unfinished chunks.
    pub fn on_up(&mut self, now: Time) {
        for arriving in self.arriving.values_mut() {
            (arriving.heard, arriving.awaits, arriving.arrival.is_resumed) = (now, true, true);
        }
    }
    /// Forgets chunks without progress for `lifetime`, or for `awaited` if the neighbour has been away since, and
    /// returns them for removal from the buffer.
    pub fn expire(&mut self, now: Time, lifetime: Duration, awaited: Duration, buffer: &Buffer) -> Vec<Slot> {
        let old = |arriving: &Arriving| {
            now.since(arriving.heard) >= if arriving.awaits { awaited } else { lifetime }
                && buffer.chunk(arriving.slot).is_none_or(|chunk| !chunk.is_complete())
        };
        let expired: Vec<Slot> =
            self.arriving.values().filter(|arriving| old(arriving)).map(|arriving| arriving.slot).collect();
        self.arriving.retain(|_, arriving| !expired.contains(&arriving.slot));
        expired
    }
    /// The neighbour has restarted and will not continue its unfinished chunks. Returns the chunks to remove from the
    /// buffer.
    pub fn reset(&mut self, buffer: &Buffer) -> Vec<Slot> {
        self.finished.clear();
        self.finished_order.clear();
        self.refused.clear();
        self.spoilt.clear();
        self.full.clear();
        self.answers.clear();
        let arriving = core::mem::take(&mut self.arriving);
        let incomplete = |arriving: &Arriving| buffer.chunk(arriving.slot).is_some_and(|chunk| !chunk.is_complete());
        arriving.values().filter(|arriving| incomplete(arriving)).map(|arriving| arriving.slot).collect()
    }
}

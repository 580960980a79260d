//! A chunk in transfer over the hop.
use alloc::{collections::VecDeque, vec::Vec};

use tributary_core::Time;

use super::{ACKNOWLEDGED, OVERHEAD_BYTES};
use crate::{
    ids::{ChunkKey, Guid, HopId},
    link::buffer::{Buffer, Slot},
    wire::{Cack, Class},
};

/// Chunks of fewer packets are sent without a question to the neighbour.
const ASKING_MIN: usize = 8;

/// The state of each packet, and the queries about them.
#[derive(Default)]
pub(super) struct Sending {
    pub(super) slot: Slot,
    pub(super) key: Option<ChunkKey>,
    pub(super) destination: Guid,
    pub(super) class: Class,
    pub(super) hop: HopId,
    /// Per packet: 0 if unsent, [`ACKNOWLEDGED`], or when it was sent.
    pub(super) order: Vec<u64>,
    /// All packets before this one are acknowledged.
    pub(super) first_open: u16,
    /// No packet from this one on is in flight.
    pub(super) sent_end: u16,
    pub(super) ever_sent: Vec<bool>,
    pub(super) left: u16,
    /// Packets below this one have been sent at least once.
    pub(super) next: u16,
    /// Packets to retransmit, or that arrived late.
    pub(super) again: VecDeque<u16>,
    pub(super) since_csyn: u16,
    pub(super) last_csyn: u32,
    /// Whether a query covers everything sent.
    pub(super) queried: bool,
    pub(super) query_at: Time,
    pub(super) timeouts: u32,
    /// Packets that the neighbour received twice.
    pub(super) duplicates: u8,
    /// Refused: waits until the window admits it.
    pub(super) parked: bool,
    /// Continues after an interruption: the first CACK shows what the neighbour still has.
    pub(super) resumed: bool,
    /// The neighbour may have stored a part of the chunk before either node rebooted: until a CACK reports which, only
    /// the first packet and the last are sent. Their lengths determine the cut, and the last packet is the least likely
    /// to be stored already.
    pub(super) asks: bool,
}

impl Sending {
    /// Whether the chunk is long enough for the question which packets the neighbour has.
    pub(super) fn may_ask(&self) -> bool {
        self.class == Class::Bulk && self.order.len() >= ASKING_MIN
    }
    /// Whether a CACK shows that the neighbour knows the chunk and its cut.
    pub(super) fn is_known(&self, cack: &Cack) -> bool {
        self.asking().into_iter().all(|index| cack.has(index))
    }
    fn asking(&self) -> [u16; 2] {
        [0, self.order.len() as u16 - 1]
    }
    pub(super) fn has_unsent(&self) -> bool {
        if self.asks {
            return self.unsent_of_asking().is_some();
        }
        usize::from(self.next) < self.order.len() || !self.again.is_empty()
    }
    /// Whether the neighbour has dropped the chunk and started again: most packets that it had acknowledged are
    /// missing. A few may be missing because answers were reordered.
    pub(super) fn is_forgotten(&self, cack: &Cack) -> bool {
        let known = || (0..).zip(&self.order).filter(|(_, order)| **order == ACKNOWLEDGED).map(|(index, _)| index);
        let missing = || known().filter(|index| !cack.has(*index));
        known().next().is_some_and(|first| !cack.has(first)) && missing().count() * 2 > known().count()
    }
    pub(super) fn under_way(&self) -> bool {
        let sent = self.order.get(usize::from(self.first_open)..usize::from(self.sent_end)).unwrap_or_default();
        sent.iter().any(|order| *order != 0 && *order != ACKNOWLEDGED)
    }
    /// Lost packets go before unsent ones.
    pub(super) fn take_next(&mut self) -> Option<u16> {
        if self.asks {
            return self.unsent_of_asking();
        }
        while let Some(index) = self.again.pop_front() {
            if self.order[usize::from(index)] == 0 {
                return Some(index);
            }
        }
        while usize::from(self.next) < self.order.len() {
            let index = self.next;
            self.next += 1;
            if self.order[usize::from(index)] == 0 {
                return Some(index);
            }
        }
        None
    }
    fn unsent_of_asking(&self) -> Option<u16> {
        self.asking().into_iter().find(|index| self.order[usize::from(*index)] == 0)
    }
    pub(super) fn restart(&mut self, buffer: &Buffer) {
        self.again.clear();
        self.queried = false;
        self.query_at = Time::MAX;
        match buffer.chunk(self.slot) {
            Some(chunk) if !chunk.is_complete() => {
                self.next = self.order.len() as u16;
                self.again = (0..self.next).filter(|index| chunk.fragment(*index).is_some()).collect();
            }
            _ => self.next = 0,
        }
    }
    pub(super) fn bytes_under_way(&self, buffer: &Buffer) -> u64 {
        let Some(chunk) = buffer.chunk(self.slot) else { return 0 };
        let is_under_way = |order: u64| order != 0 && order != ACKNOWLEDGED;
        let indexes = self.order.iter().zip(0..).filter(|(order, _)| is_under_way(**order)).map(|(_, index)| index);
        indexes.filter_map(|index| chunk.fragment(index)).map(|bytes| bytes.len() as u64 + OVERHEAD_BYTES).sum()
    }
}

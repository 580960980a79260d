//! The forwarding acceleration base: flow names and their FIB entries, found with one look. PTP §4 B.
//!
//! ```text
//!  flow name = name without its last component, the sequence number (figure 6)
//!
//!  hash table: flow name ──► slot            FIFO list through the slots (figure 8):
//!                            ┌──────────┐    newest ◄─► … ◄─► oldest
//!                            │ FIB entry│    a hit moves its slot to the front,
//!                            │ before   │    a new flow in a full table takes the oldest slot
//!                            │ after    │
//!                            └──────────┘
//! ```
//! With promotion on hits the list is in order of last use. The paper compares the flow name with the entry's prefix
//! only, to save the key; two flows with equal hashes would then share an entry, possibly not the longest match. Here
//! the key is stored: a few dozen bytes for each of a bounded number of flows, and never a wrong answer.
use alloc::{boxed::Box, vec::Vec};

use hashbrown::HashTable;

use super::{
    fib::{Fib, FibIndex},
    hash::Prefixes,
};
use crate::wire::NameView;

tributary_core::declared! {
    /// The acceleration base.
    #[derive(Clone, Debug)]
    pub struct Fab {
        table: HashTable<u32> = HashTable::with_capacity(capacity),
        slots: Vec<Slot> = Vec::new(),
        newest: u32 = NONE,
        oldest: u32 = NONE,
        capacity: usize = capacity,
        /// The generation of the FIB that all slots are of.
        generation: u64 = 0,
        /// Look-ups that found their flow, and those that did not.
        pub hits_and_misses: (u64, u64) = (0, 0),
    }
    /// A base for at most `capacity` flows; zero disables it.
    pub fn new(capacity: usize) {}
}

#[derive(Clone, Debug)]
struct Slot {
    key: Box<[u8]>,
    hash: u64,
    entry: Option<FibIndex>,
    /// Towards the newest.
    before: u32,
    /// Towards the oldest.
    after: u32,
}

const NONE: u32 = u32::MAX;

impl Fab {
    /// The FIB entry of a name with these prefixes, through the base if it knows the flow: a router's only lookup.
    pub fn longest_match(&mut self, fib: &Fib, name: NameView<'_>, prefixes: &Prefixes) -> Option<FibIndex> {
        let depth = prefixes.depth().saturating_sub(1);
        let (hash, end) = prefixes.at(depth);
        let flow = &name.as_tlv()[..end];
        // A prefix as long as the complete name is not the flow's: it is looked up separately.
        if let Some(full) = fib.match_at(prefixes, name.as_tlv(), prefixes.depth()) {
            return Some(full);
        }
        if let Some(known) = self.lookup(hash, flow, fib.generation) {
            return known;
        }
        let found = fib.longest_match_from(prefixes, name.as_tlv(), depth);
        self.insert(hash, flow, found);
        found
    }
    /// The FIB entry of a flow, or its known absence (`Some(None)`); `None` if the flow is unknown. `generation` is
    /// that of the FIB; a change empties the table.
    pub fn lookup(&mut self, hash: u64, flow: &[u8], generation: u64) -> Option<Option<FibIndex>> {
        if self.generation != generation {
            self.clear();
            self.generation = generation;
        }
        let slots = &self.slots;
        let is = |slot: &u32| {
            let slot = &slots[*slot as usize];
            slot.hash == hash && *slot.key == *flow
        };
        let Some(&found) = self.table.find(hash, is) else {
            self.hits_and_misses.1 += 1;
            return None;
        };
        self.hits_and_misses.0 += 1;
        if self.newest != found {
            self.unlink(found);
            self.link_newest(found);
        }
        Some(self.slots[found as usize].entry)
    }
    /// Stores the result of longest prefix match for a flow that [`Fab::lookup`] did not find.
    pub fn insert(&mut self, hash: u64, flow: &[u8], entry: Option<FibIndex>) {
        if self.capacity == 0 {
            return;
        }
        let new = Slot { key: flow.into(), hash, entry, before: NONE, after: NONE };
        let slot = if self.slots.len() < self.capacity {
            self.slots.push(new);
            (self.slots.len() - 1) as u32
        } else {
            let oldest = self.oldest;
            self.unlink(oldest);
            let gone = self.slots[oldest as usize].hash;
            if let Ok(found) = self.table.find_entry(gone, |slot| *slot == oldest) {
                found.remove();
            }
            self.slots[oldest as usize] = new;
            oldest
        };
        let slots = &self.slots;
        self.table.insert_unique(hash, slot, |slot| slots[*slot as usize].hash);
        self.link_newest(slot);
    }
    /// Stored flows.
    pub fn len(&self) -> usize {
        self.table.len()
    }
    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    fn clear(&mut self) {
        self.table.clear();
        self.slots.clear();
        (self.newest, self.oldest) = (NONE, NONE);
    }
    fn unlink(&mut self, slot: u32) {
        let Slot { before, after, .. } = self.slots[slot as usize];
        match before {
            NONE => self.newest = after,
            before => self.slots[before as usize].after = after,
        }
        match after {
            NONE => self.oldest = before,
            after => self.slots[after as usize].before = before,
        }
    }
    fn link_newest(&mut self, slot: u32) {
        let second = core::mem::replace(&mut self.newest, slot);
        (self.slots[slot as usize].before, self.slots[slot as usize].after) = (NONE, second);
        match second {
            NONE => self.oldest = slot,
            second => self.slots[second as usize].before = slot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    proptest! {
        /// A plain list as the model. Few hashes, so that they collide.
        #[test]
        fn behaves_as_a_list_in_order_of_use(
            flows in proptest::collection::vec((0u8..12, 0u64..3), 0..200), capacity in 0usize..8,
        ) {
            let mut fab = Fab::new(capacity);
            let mut model: VecDeque<u8> = VecDeque::new();
            let mut generation = 0;
            for (flow, change) in flows {
                if change == 2 && flow == 0 {
                    generation += 1;
                    model.clear();
                }
                let hash = u64::from(flow % 4);
                let known = model.iter().position(|known| *known == flow);
                let entry = Some(FibIndex(u32::from(flow)));
                prop_assert_eq!(fab.lookup(hash, &[flow], generation), known.map(|_| entry));
                if let Some(at) = known {
                    model.remove(at);
                } else {
                    fab.insert(hash, &[flow], entry);
                }
                if capacity > 0 {
                    model.push_front(flow);
                    model.truncate(capacity);
                }
                prop_assert_eq!(fab.len(), model.len());
            }
        }
    }

    #[test]
    fn that_there_is_no_entry_is_remembered_too() {
        let mut fab = Fab::new(2);
        assert_eq!(fab.lookup(1, b"f", 0), None);
        fab.insert(1, b"f", None);
        assert_eq!(fab.lookup(1, b"f", 0), Some(None));
        assert_eq!(fab.hits_and_misses, (1, 1));
        assert_eq!(fab.lookup(1, b"f", 1), None, "another FIB, another answer");
    }
}

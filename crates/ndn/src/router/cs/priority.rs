//! NFD's priority FIFO: evicts stale Data before fresh, each in order of arrival. (NFD has a third class in front,
//! unsolicited Data; this router keeps none.)
use alloc::collections::{BTreeMap, BTreeSet};

use tributary_core::Time;

use super::{CsPolicy, EntryId};

/// Stale entries first.
#[derive(Clone, Debug, Default)]
pub(super) struct Priority {
    next: u64,
    entries: BTreeMap<EntryId, Place>,
    /// By when they get stale.
    fresh: BTreeSet<(Time, EntryId)>,
    /// By arrival.
    fresh_order: BTreeMap<u64, EntryId>,
    stale_order: BTreeMap<u64, EntryId>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    order: u64,
    stale_at: Time,
}

impl CsPolicy for Priority {
    fn on_insert(&mut self, id: EntryId, stale_at: Time) {
        self.on_remove(id);
        self.next += 1;
        self.entries.insert(id, Place { order: self.next, stale_at });
        self.fresh.insert((stale_at, id));
        self.fresh_order.insert(self.next, id);
    }
    fn on_hit(&mut self, _: EntryId) {}
    fn on_remove(&mut self, id: EntryId) {
        if let Some(place) = self.entries.remove(&id) {
            self.fresh.remove(&(place.stale_at, id));
            self.fresh_order.remove(&place.order);
            self.stale_order.remove(&place.order);
        }
    }
    fn victim(&mut self, now: Time) -> Option<EntryId> {
        while let Some((stale_at, id)) = self.fresh.first().copied().filter(|(stale_at, _)| *stale_at <= now) {
            self.fresh.remove(&(stale_at, id));
            if let Some(place) = self.entries.get(&id) {
                self.fresh_order.remove(&place.order);
                self.stale_order.insert(place.order, id);
            }
        }
        let oldest = |order: &BTreeMap<u64, EntryId>| order.first_key_value().map(|(_, id)| *id);
        oldest(&self.stale_order).or_else(|| oldest(&self.fresh_order))
    }
}

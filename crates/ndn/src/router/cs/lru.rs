//! What was not asked for longest goes first.
use alloc::collections::BTreeMap;

use tributary_core::Time;

use super::{CsPolicy, EntryId};

/// Least recently used.
#[derive(Clone, Debug, Default)]
pub struct Lru {
    next: u64,
    by_id: BTreeMap<EntryId, u64>,
    order: BTreeMap<u64, EntryId>,
}

impl CsPolicy for Lru {
    fn name(&self) -> &'static str {
        "lru"
    }
    fn on_insert(&mut self, id: EntryId, _: Time) {
        self.on_hit(id);
    }
    fn on_hit(&mut self, id: EntryId) {
        self.next += 1;
        if let Some(before) = self.by_id.insert(id, self.next) {
            self.order.remove(&before);
        }
        self.order.insert(self.next, id);
    }
    fn on_remove(&mut self, id: EntryId) {
        if let Some(at) = self.by_id.remove(&id) {
            self.order.remove(&at);
        }
    }
    fn victim(&mut self, _: Time) -> Option<EntryId> {
        self.order.first_key_value().map(|(_, id)| *id)
    }
}

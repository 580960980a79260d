//! Evicts the packet that was inserted, or used, the longest time ago.
use tributary_core::{Recency, Time};

use super::{CsPolicy, EntryId};

/// All entries, the next to evict first.
pub(super) struct Ordered {
    /// Whether a hit moves an entry to the end.
    pub(super) is_by_use: bool,
    pub(super) order: Recency<EntryId>,
}

impl CsPolicy for Ordered {
    fn on_insert(&mut self, id: EntryId, _: Time) {
        self.order.touch(id);
    }
    fn on_hit(&mut self, id: EntryId) {
        if self.is_by_use {
            self.order.touch(id);
        }
    }
    fn on_remove(&mut self, id: EntryId) {
        self.order.remove(id);
    }
    fn victim(&mut self, _: Time) -> Option<EntryId> {
        self.order.first()
    }
}

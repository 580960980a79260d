//! Evicts the least recently used packet.
use tributary_core::{Recency, Time};

use super::{CsPolicy, EntryId};

/// Least recently used.
#[derive(Clone, Debug, Default)]
pub struct Lru(Recency<EntryId>);

impl CsPolicy for Lru {
    fn name(&self) -> &'static str {
        "lru"
    }
    fn on_insert(&mut self, id: EntryId, _: Time) {
        self.0.touch(id);
    }
    fn on_hit(&mut self, id: EntryId) {
        self.0.touch(id);
    }
    fn on_remove(&mut self, id: EntryId) {
        self.0.remove(id);
    }
    fn victim(&mut self, _: Time) -> Option<EntryId> {
        self.0.first()
    }
}

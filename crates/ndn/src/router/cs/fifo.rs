//! First in, first out.
use tributary_core::Time;

use super::{CsPolicy, EntryId, Lru};

/// First in, first out: the order of use without the uses.
#[derive(Clone, Debug, Default)]
pub struct Fifo(Lru);

impl CsPolicy for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }
    fn on_insert(&mut self, id: EntryId, stale_at: Time) {
        self.0.on_insert(id, stale_at);
    }
    fn on_hit(&mut self, _: EntryId) {}
    fn on_remove(&mut self, id: EntryId) {
        self.0.on_remove(id);
    }
    fn victim(&mut self, now: Time) -> Option<EntryId> {
        self.0.victim(now)
    }
}

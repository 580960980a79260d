//! Evicts the oldest packet.
use tributary_core::Recency;

use super::{CachePolicy, PacketKey};

/// Oldest packet first.
pub(super) struct Fifo(Recency<PacketKey>);

impl Fifo {
    pub(super) fn new() -> Self {
        Fifo(Recency::new())
    }
}
impl CachePolicy for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }
    fn admits(&self, _: PacketKey) -> bool {
        true
    }
    fn on_insert(&mut self, key: PacketKey) {
        self.0.append(key);
    }
    fn on_hit(&mut self, _: PacketKey) {}
    fn on_remove(&mut self, key: PacketKey) {
        self.0.remove(key);
    }
    fn victim(&mut self, _: PacketKey) -> Option<PacketKey> {
        self.0.first()
    }
}

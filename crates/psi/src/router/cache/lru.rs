//! Evicts the least recently requested packet.
use tributary_core::Recency;

use super::{CachePolicy, PacketKey};

/// Least recently used packet first.
pub(super) struct Lru(Recency<PacketKey>);

impl Lru {
    pub(super) fn new() -> Self {
        Lru(Recency::new())
    }
}
impl CachePolicy for Lru {
    fn name(&self) -> &'static str {
        "lru"
    }
    fn admits(&self, _: PacketKey) -> bool {
        true
    }
    fn on_insert(&mut self, key: PacketKey) {
        self.0.touch(key);
    }
    fn on_hit(&mut self, key: PacketKey) {
        self.0.touch(key);
    }
    fn on_remove(&mut self, key: PacketKey) {
        self.0.remove(key);
    }
    fn victim(&mut self, _: PacketKey) -> Option<PacketKey> {
        self.0.first()
    }
}

//! Evicts the packet that was inserted, or used, the longest time ago.
use tributary_core::Recency;

use super::{CachePolicy, PacketKey};

/// All packets, the next to evict first.
pub(super) struct Ordered {
    /// Whether a hit moves a packet to the end.
    is_by_use: bool,
    order: Recency<PacketKey>,
}

impl Ordered {
    pub(super) fn new(is_by_use: bool) -> Self {
        Ordered { is_by_use, order: Recency::new() }
    }
}
impl CachePolicy for Ordered {
    fn admits(&self, _: PacketKey) -> bool {
        true
    }
    fn on_insert(&mut self, key: PacketKey) {
        self.order.touch(key);
    }
    fn on_hit(&mut self, key: PacketKey) {
        if self.is_by_use {
            self.order.touch(key);
        }
    }
    fn on_remove(&mut self, key: PacketKey) {
        self.order.remove(key);
    }
    fn victim(&mut self, _: PacketKey) -> Option<PacketKey> {
        self.order.first()
    }
}

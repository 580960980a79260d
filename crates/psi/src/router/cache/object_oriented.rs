//! Object-oriented packet caching: objects are the unit of popularity, and their beginnings are worth more than
//! their ends (reference/psi, "later work of the group").
//!
//! The index is by object. The least recently used object loses its last packet first, so every object keeps the
//! packets that a receiver requests first, in few contiguous ranges. An object that alone exceeds the cache keeps its
//! start instead of flushing itself through it.
//!
//! In the published form a router keeps one range from the start of the object and ignores packets behind a gap. With
//! several paths each router sees only some ranges of an object, so by default any packet is admitted
//! ([`Admission::AnyRange`]); the published rule is the policy `object-oriented-strict`.
use alloc::collections::BTreeMap;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use tributary_transport::TREE_PACKET_FIRST;

use tributary_core::Recency;

use super::{CachePolicy, PacketKey};
use crate::wire::StreamKey;

/// Which packets of an object are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// All passing packets.
    AnyRange,
    /// Those that continue the range from the object's start.
    FromStart,
}

/// Last packet of the least recently used object first.
pub(super) struct ObjectOriented {
    admission: Admission,
    objects: HashMap<StreamKey, Ranges, FxBuildHasher>,
    order: Recency<StreamKey>,
}

impl ObjectOriented {
    pub(super) fn new(admission: Admission) -> Self {
        ObjectOriented { admission, objects: HashMap::with_hasher(FxBuildHasher), order: Recency::new() }
    }
}

/// The place of a packet in its object: the hash list is needed first, then the chunks.
fn rank(packet: u32) -> u32 {
    packet.wrapping_sub(TREE_PACKET_FIRST)
}
fn packet(rank: u32) -> u32 {
    rank.wrapping_add(TREE_PACKET_FIRST)
}

impl CachePolicy for ObjectOriented {
    fn admits(&self, (stream, number): PacketKey) -> bool {
        match self.admission {
            Admission::AnyRange => true,
            Admission::FromStart => {
                number == 0
                    || number == TREE_PACKET_FIRST
                    || self.objects.get(&stream).is_some_and(|ranges| ranges.contains(rank(number - 1)))
            }
        }
    }
    fn on_insert(&mut self, (stream, number): PacketKey) {
        self.objects.entry(stream).or_default().insert(rank(number));
        self.order.touch(stream);
    }
    fn on_hit(&mut self, (stream, _): PacketKey) {
        self.order.touch(stream);
    }
    fn on_remove(&mut self, (stream, number): PacketKey) {
        if let Some(ranges) = self.objects.get_mut(&stream) {
            ranges.remove(rank(number));
            if ranges.0.is_empty() {
                self.objects.remove(&stream);
                self.order.remove(stream);
            }
        }
    }
    fn victim(&mut self, (stream, number): PacketKey) -> Option<PacketKey> {
        if self.objects.contains_key(&stream) {
            self.order.touch(stream);
        }
        let oldest = self.order.first()?;
        let last = self.objects.get(&oldest)?.last()?;
        // The newcomer would be the next to go.
        if oldest == stream && last < rank(number) {
            return None;
        }
        Some((oldest, packet(last)))
    }
}

/// Ranges of consecutive ranks: first → last.
#[derive(Default)]
struct Ranges(BTreeMap<u32, u32>);

impl Ranges {
    fn range_of(&self, rank: u32) -> Option<(u32, u32)> {
        self.0.range(..=rank).next_back().map(|(first, last)| (*first, *last)).filter(|(_, last)| *last >= rank)
    }
    fn contains(&self, rank: u32) -> bool {
        self.range_of(rank).is_some()
    }
    fn last(&self) -> Option<u32> {
        self.0.last_key_value().map(|(_, last)| *last)
    }
    fn insert(&mut self, rank: u32) {
        let before = self.0.range_mut(..=rank).next_back();
        let after_end = match before {
            Some((_, last)) if *last >= rank => return,
            Some((first, last)) if *last + 1 == rank => {
                *last = rank;
                let first = *first;
                let Some(end) = rank.checked_add(1).and_then(|next| self.0.remove(&next)) else { return };
                self.0.insert(first, end);
                return;
            }
            _ => rank.checked_add(1).and_then(|next| self.0.remove(&next)),
        };
        self.0.insert(rank, after_end.unwrap_or(rank));
    }
    fn remove(&mut self, rank: u32) {
        let Some((first, last)) = self.range_of(rank) else { return };
        self.0.remove(&first);
        if first < rank {
            self.0.insert(first, rank - 1);
        }
        if rank < last {
            self.0.insert(rank + 1, last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use tributary_core::Random;

    #[test]
    fn runs_are_a_set() {
        let mut random = Random::new(5, 0);
        let (mut ranges, mut model) = (Ranges::default(), BTreeSet::new());
        for _ in 0..5000 {
            let edge = if random.chance(0.5) { 0 } else { u32::MAX - 20 };
            let rank = edge + random.below(21) as u32;
            if random.chance(0.6) {
                ranges.insert(rank);
                model.insert(rank);
            } else {
                ranges.remove(rank);
                model.remove(&rank);
            }
            assert_eq!(ranges.contains(rank), model.contains(&rank));
            assert_eq!(ranges.last(), model.last().copied());
            let starts: BTreeSet<_> =
                model.iter().filter(|rank| **rank == 0 || !model.contains(&(**rank - 1))).copied().collect();
            assert_eq!(ranges.0.keys().copied().collect::<BTreeSet<_>>(), starts);
        }
    }
}

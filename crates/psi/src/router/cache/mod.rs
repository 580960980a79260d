//! The packet cache of a router (paper §III-B2: on-path caches answer fast-path requests).
//!
//! Packets are kept by stream (object and packet size) and number. A [`CachePolicy`] decides on admission and eviction;
//! [`POLICIES`] lists them by name. Payloads are copied, because arriving slices would keep whole receive buffers
//! alive; in larger caches they lie in blocks of up to 64 KiB, and evicting a packet evicts its block. Where packets
//! are slices of their object all the way, as in a simulator, [`PayloadMemory::Shared`] keeps references instead, and
//! nothing else differs.
//!
//! A cache cannot verify packets: receivers do, and bypass a cache that sent wrong ones (`FLAG_NO_CACHE`). A passing
//! answer of the source replaces the cached packet, which heals the cache.
mod blocks;
mod object_oriented;
mod ordered;

#[cfg(test)]
use alloc::vec::Vec;
use alloc::{boxed::Box, collections::BTreeMap};
use bytes::Bytes;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use tributary_core::ByteCount;

use crate::wire::StreamKey;
use blocks::{BlockId, Blocks};
use object_oriented::{Admission, ObjectOriented};
use ordered::Ordered;

/// A packet of a stream.
pub type PacketKey = (StreamKey, u32);

/// A packet's overhead beyond its payload: index entries of cache and policy, and the allocator's share.
pub const PACKET_OVERHEAD_BYTES: u64 = 160;

/// Decides on admission to a cache and eviction from it.
pub trait CachePolicy: Send {
    /// Whether a packet that is not in the cache should be.
    fn admits(&self, key: PacketKey) -> bool;
    /// A packet was put in.
    fn on_insert(&mut self, key: PacketKey);
    /// A requested packet was found.
    fn on_hit(&mut self, key: PacketKey);
    /// A packet was removed.
    fn on_remove(&mut self, key: PacketKey);
    /// The packet to evict so that `newcomer` fits; `None` if the newcomer is worth less than all of them.
    fn victim(&mut self, newcomer: PacketKey) -> Option<PacketKey>;
}

/// Makes a policy.
pub type MakePolicy = fn() -> Box<dyn CachePolicy>;

/// All policies by name, the default first.
pub const POLICIES: [(&str, MakePolicy); 4] = [
    ("object-oriented", || Box::new(ObjectOriented::new(Admission::AnyRange))),
    ("object-oriented-strict", || Box::new(ObjectOriented::new(Admission::FromStart))),
    ("lru", || Box::new(Ordered::new(true))),
    ("fifo", || Box::new(Ordered::new(false))),
];

/// What a cache keeps of the payload of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PayloadMemory {
    /// A copy: the sender of the packet may reuse its memory. The default.
    #[default]
    Copied,
    /// A reference, for packets whose memory exists anyway: a simulation's.
    Shared,
}

/// The last part of a payload, which may be kept as it is.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// Bytes of a buffer.
    Slice(&'a [u8]),
    /// A shared slice.
    Shared(&'a Bytes),
}

impl core::ops::Deref for Body<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Body::Slice(bytes) => bytes,
            Body::Shared(bytes) => bytes,
        }
    }
}

/// Who sent a packet that passes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Provenance {
    /// The source: replaces the cached packet.
    Source,
    /// Another cache: does not.
    Cache,
}

/// The packets that a router keeps.
pub struct PacketCache {
    capacity: u64,
    used: u64,
    packets: HashMap<PacketKey, Held, FxBuildHasher>,
    blocks: Blocks,
    /// The name of its policy.
    pub policy_name: &'static str,
    policy: Box<dyn CachePolicy>,
    objects: BTreeMap<StreamKey, ObjectCounters>,
    /// Counters over all objects, including evicted ones.
    pub counters: CacheCounters,
}

/// Counters of a cache or of one object in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheCounters {
    /// Requested packets that were found.
    pub hits: u64,
    /// Requested packets that were not found.
    pub misses: u64,
    /// Packets put in.
    pub inserts: u64,
    /// Packets evicted for others.
    pub evictions: u64,
    /// Packets that arrived again from the source with other bytes.
    pub replacements: u64,
}

struct Held {
    payload: Bytes,
    block: BlockId,
}

#[derive(Default)]
struct ObjectCounters {
    packets: u64,
    bytes: u64,
    counters: CacheCounters,
    /// The block for its next packet.
    open: Option<BlockId>,
}

/// What a cache holds of one stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheEntry {
    /// Object and packet size.
    pub stream: StreamKey,
    /// Packets held.
    pub packets: u64,
    /// Payload bytes held.
    pub bytes: ByteCount,
    /// Its counters since its first packet.
    pub counters: CacheCounters,
}

impl PacketCache {
    /// A cache of `capacity` bytes, [`PACKET_OVERHEAD_BYTES`] per packet included, with the policy called `policy`;
    /// `None` if there is no such policy.
    pub fn new(capacity: ByteCount, policy: &str) -> Option<PacketCache> {
        let (policy_name, make) = *POLICIES.iter().find(|(name, _)| *name == policy)?;
        Some(PacketCache {
            capacity: capacity.0,
            used: 0,
            packets: HashMap::with_hasher(FxBuildHasher),
            blocks: Blocks::new(capacity.0, PayloadMemory::Copied),
            policy_name,
            policy: make(),
            objects: BTreeMap::new(),
            counters: CacheCounters::default(),
        })
    }
    /// Sets how further packets are kept.
    pub fn set_memory(&mut self, memory: PayloadMemory) {
        self.blocks.memory = memory;
    }
    /// Offers a passing packet; `payload` is head and body, which are copied if the policy admits it.
    #[cfg(test)]
    pub fn insert(&mut self, stream: StreamKey, packet: u32, payload: [&[u8]; 2], from: Provenance) {
        self.insert_body(stream, packet, payload[0], Body::Slice(payload[1]), from);
    }
    /// Inserts a packet with a body that may be kept as it is.
    pub fn insert_body(&mut self, stream: StreamKey, packet: u32, head: &[u8], body: Body<'_>, from: Provenance) {
        let key = (stream, packet);
        let len = head.len() + body.len();
        if let Some(Held { payload: held, .. }) = self.packets.get(&key) {
            let same = held.len() == len && held.starts_with(head) && held.ends_with(&body);
            if same || from == Provenance::Cache {
                return;
            }
            self.counters.replacements += 1;
            if let Some(object) = self.objects.get_mut(&stream) {
                object.counters.replacements += 1;
            }
            self.remove(key);
        }
        if len as u64 + PACKET_OVERHEAD_BYTES > self.capacity || !self.policy.admits(key) {
            return;
        }
        let block = loop {
            let object = self.objects.get(&stream);
            let open = object.and_then(|object| object.open).filter(|open| self.blocks.has_room(*open, len));
            let fresh = object.map_or(0, |object| object.bytes).min(self.blocks.bytes_max).max(len as u64);
            let cost = PACKET_OVERHEAD_BYTES + if open.is_some() { 0 } else { fresh };
            if self.used + cost <= self.capacity {
                self.used += cost;
                break open.unwrap_or_else(|| self.blocks.open(fresh));
            }
            // The victim may be of this very stream, and take its block along.
            let Some(victim) = self.policy.victim(key) else { return };
            self.evict(victim);
        };
        let payload = self.blocks.put(block, key, head, body);
        self.packets.insert(key, Held { payload, block });
        self.policy.on_insert(key);
        let object = self.objects.entry(stream).or_default();
        object.open = Some(block);
        object.packets += 1;
        object.bytes += len as u64;
        object.counters.inserts += 1;
        self.counters.inserts += 1;
    }
    /// The payload of a requested packet.
    #[cfg(test)]
    pub fn lookup(&mut self, stream: StreamKey, packet: u32) -> Option<Bytes> {
        let found = self.packets.get(&(stream, packet)).map(|held| held.payload.clone());
        let object = self.objects.get_mut(&stream).map(|object| &mut object.counters);
        match &found {
            Some(_) => {
                self.policy.on_hit((stream, packet));
                self.counters.hits += 1;
                object.into_iter().for_each(|counters| counters.hits += 1);
            }
            None => {
                self.counters.misses += 1;
                object.into_iter().for_each(|counters| counters.misses += 1);
            }
        }
        found
    }
    /// Looks up packets in order and passes each to `answer`, `None` if it is not held; `answer` returns whether that
    /// one is sent. They are accounted for once.
    pub fn lookup_range(
        &mut self,
        stream: StreamKey,
        packets: core::ops::Range<u32>,
        mut answer: impl FnMut(u32, Option<&Bytes>) -> bool,
    ) {
        let all = packets.len() as u64;
        let mut hits = 0;
        for packet in packets {
            if answer(packet, self.packets.get(&(stream, packet)).map(|held| &held.payload)) {
                hits += 1;
                self.policy.on_hit((stream, packet));
            }
        }
        let object = self.objects.get_mut(&stream).map(|object| &mut object.counters);
        for counters in object.into_iter().chain([&mut self.counters]) {
            counters.hits += hits;
            counters.misses += all - hits;
        }
    }
    /// Drops all packets of `stream`, or (`None`) all packets.
    #[cfg(test)]
    pub fn invalidate(&mut self, stream: Option<StreamKey>) {
        let gone: Vec<PacketKey> = self
            .packets
            .extract_if(|(held, _), _| stream.is_none_or(|stream| stream == *held))
            .map(|(key, held)| {
                self.used -= self.blocks.take_out(held.block).unwrap_or(0) + PACKET_OVERHEAD_BYTES;
                key
            })
            .collect();
        for key in gone {
            self.policy.on_remove(key);
            self.objects.remove(&key.0);
        }
    }
    /// The cached streams, in order of stream key.
    pub fn entries(&self) -> impl Iterator<Item = CacheEntry> {
        self.objects.iter().map(|(stream, object)| CacheEntry {
            stream: *stream,
            packets: object.packets,
            bytes: ByteCount(object.bytes),
            counters: object.counters,
        })
    }
    /// Bytes in use, overhead included.
    pub fn used(&self) -> ByteCount {
        ByteCount(self.used)
    }
    /// Bytes allowed.
    pub fn capacity(&self) -> ByteCount {
        ByteCount(self.capacity)
    }

    /// Evicts a packet together with its block: alone it would free nothing.
    fn evict(&mut self, victim: PacketKey) {
        let Some(block) = self.packets.get(&victim).map(|held| held.block) else {
            // A policy that names a missing packet must not name it forever.
            return self.policy.on_remove(victim);
        };
        for key in self.blocks.keys(block) {
            if self.packets.get(&key).is_none_or(|held| held.block != block) {
                continue;
            }
            self.counters.evictions += 1;
            if let Some(object) = self.objects.get_mut(&key.0) {
                object.counters.evictions += 1;
            }
            self.remove(key);
        }
    }
    fn remove(&mut self, key: PacketKey) {
        self.policy.on_remove(key);
        let Some(held) = self.packets.remove(&key) else { return };
        let freed = self.blocks.take_out(held.block);
        self.used -= freed.unwrap_or(0) + PACKET_OVERHEAD_BYTES;
        if let Some(object) = self.objects.get_mut(&key.0) {
            object.packets -= 1;
            object.bytes -= held.payload.len() as u64;
            if freed.is_some() && object.open == Some(held.block) {
                object.open = None;
            }
            if object.packets == 0 {
                self.objects.remove(&key.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_core::Random;
    use tributary_transport::TREE_PACKET_FIRST;

    const A: StreamKey = StreamKey([1; 6]);
    const B: StreamKey = StreamKey([2; 6]);

    fn cache(policy: &str, packets: u64) -> PacketCache {
        PacketCache::new(ByteCount(packets * (100 + PACKET_OVERHEAD_BYTES)), policy).unwrap()
    }
    fn put(cache: &mut PacketCache, stream: StreamKey, packets: impl IntoIterator<Item = u32>) {
        packets
            .into_iter()
            .for_each(|packet| cache.insert(stream, packet, [&[], &[packet as u8; 100]], Provenance::Source));
    }
    fn held(cache: &PacketCache, stream: StreamKey) -> Vec<u32> {
        let mut held: Vec<_> = cache.packets.keys().filter(|key| key.0 == stream).map(|key| key.1).collect();
        held.sort_unstable();
        held
    }

    #[test]
    fn the_tail_of_the_least_recently_used_object_goes_first() {
        let mut cache = cache("object-oriented", 8);
        put(&mut cache, A, 0..4);
        put(&mut cache, B, 0..4);
        assert!(cache.lookup(A, 0).is_some());
        put(&mut cache, A, 4..6);
        assert_eq!(held(&cache, A), [0, 1, 2, 3, 4, 5]);
        assert_eq!(held(&cache, B), [0, 1]);
        assert_eq!(cache.counters.evictions, 2);
    }

    #[test]
    fn an_object_larger_than_the_cache_keeps_its_beginning_and_its_hash_list() {
        let mut cache = cache("object-oriented", 5);
        put(&mut cache, A, 2..8);
        assert_eq!(held(&cache, A), [2, 3, 4, 5, 6]);
        put(&mut cache, A, [TREE_PACKET_FIRST, 0]);
        assert_eq!(held(&cache, A), [0, 2, 3, 4, TREE_PACKET_FIRST]);
        assert_eq!(cache.used(), cache.capacity());
    }

    #[test]
    fn strict_keeps_one_run_from_the_start() {
        let mut cache = cache("object-oriented-strict", 10);
        put(&mut cache, A, [1, 0, 2, 1, 2, 4]);
        assert_eq!(held(&cache, A), [0, 1, 2]);
    }

    #[test]
    fn lru_and_fifo_differ_in_what_a_hit_means() {
        for (policy, kept) in [("lru", [0, 2, 3]), ("fifo", [1, 2, 3])] {
            let mut cache = cache(policy, 3);
            put(&mut cache, A, 0..3);
            assert!(cache.lookup(A, 0).is_some());
            put(&mut cache, A, [3]);
            assert_eq!(held(&cache, A), kept, "{policy}");
        }
    }

    #[test]
    fn a_source_heals_a_wrong_packet_and_another_cache_does_not() {
        let mut cache = cache("object-oriented", 3);
        cache.insert(A, 0, [b"", b"wrong"], Provenance::Cache);
        cache.insert(A, 0, [b"", b"other"], Provenance::Cache);
        assert_eq!(cache.lookup(A, 0).unwrap(), "wrong");
        cache.insert(A, 0, [b"ri", b"ght one"], Provenance::Source);
        assert_eq!(cache.lookup(A, 0).unwrap(), "right one");
        assert_eq!(cache.used().0, 9 + PACKET_OVERHEAD_BYTES);
        cache.insert(A, 0, [b"ri", b"ght one"], Provenance::Source);
        assert_eq!(cache.counters, CacheCounters { hits: 2, misses: 0, inserts: 2, evictions: 0, replacements: 1 });
    }

    #[test]
    fn invalidation_empties_and_counts_go_on() {
        for (policy, _) in POLICIES {
            let mut cache = cache(policy, 10);
            put(&mut cache, A, 0..4);
            put(&mut cache, B, 0..2);
            cache.invalidate(Some(A));
            assert_eq!(cache.entries().map(|entry| entry.stream).collect::<Vec<_>>(), [B]);
            assert!(cache.lookup(A, 0).is_none());
            cache.invalidate(None);
            assert_eq!(cache.used(), ByteCount(0));
            put(&mut cache, A, 0..20);
            assert_eq!(cache.entries().next().unwrap().packets, 10);
        }
    }

    #[test]
    fn large_objects_lie_in_blocks_that_go_as_a_whole_and_small_ones_waste_nothing() {
        let packet = |number: u32| [number as u8; 1_400];
        let mut cache = PacketCache::new(ByteCount(16 << 20), "lru").unwrap();
        let fill = |cache: &mut PacketCache, stream, packets: core::ops::Range<u32>| {
            packets.for_each(|number| cache.insert(stream, number, [&[], &packet(number)], Provenance::Source));
        };
        fill(&mut cache, A, 0..1_000);
        let blocks: alloc::collections::BTreeSet<u32> = cache.packets.values().map(|held| held.block.0).collect();
        assert!(blocks.len() < 40, "{} blocks", blocks.len());
        assert!((0..1_000).all(|number| cache.lookup(A, number).unwrap() == packet(number)[..]));
        assert!(cache.used().0 < 1_000 * (1_400 + PACKET_OVERHEAD_BYTES) + (128 << 10));
        // As many small objects as fit.
        let small = |number: u32| StreamKey([9, 9, (number >> 16) as u8, (number >> 8) as u8, number as u8, 9]);
        (0..9_000).for_each(|number| fill(&mut cache, small(number), 0..1));
        assert_eq!((cache.entries().count(), cache.counters.evictions), (9_001, 0));
        // The victim is the oldest block of the oldest object, and no more than the new packets need.
        fill(&mut cache, B, 0..1_200);
        let evicted = cache.counters.evictions;
        let left = held(&cache, A);
        assert!(evicted > 0 && left.len() as u64 == 1_000 - evicted && left.is_sorted());
        assert_eq!(left.first().copied(), Some(evicted as u32));
        assert!(cache.used() <= cache.capacity() && cache.used().0 > cache.capacity().0 - (128 << 10));
        cache.invalidate(None);
        assert_eq!(cache.used(), ByteCount(0));
        assert!(cache.blocks.is_empty());
    }

    #[test]
    fn shared_payloads_are_charged_and_evicted_as_copies_are_and_not_copied() {
        let object = Bytes::from(alloc::vec![7u8; 1_000_000]);
        let mut caches = [PayloadMemory::Copied, PayloadMemory::Shared].map(|memory| {
            let mut cache = PacketCache::new(ByteCount(300_000), "lru").unwrap();
            cache.set_memory(memory);
            cache
        });
        for number in 0..700u32 {
            let start = number as usize * 1_400;
            let packet = object.slice(start..start + 1_400);
            for cache in &mut caches {
                cache.insert_body(A, number, &[], Body::Shared(&packet), Provenance::Source);
                assert_eq!(cache.lookup(A, number).as_ref(), Some(&packet));
            }
            assert_eq!(caches[1].lookup(A, number).unwrap().as_ptr(), packet.as_ptr());
            assert_ne!(caches[0].lookup(A, number).unwrap().as_ptr(), packet.as_ptr());
            assert_eq!((caches[0].used(), held(&caches[0], A)), (caches[1].used(), held(&caches[1], A)));
        }
        assert!(caches[1].counters.evictions > 100);
        // A packet that is not all in one piece is copied after all.
        caches[1].insert_body(B, 0, b"ri", Body::Shared(&Bytes::from_static(b"ght")), Provenance::Source);
        assert_eq!(caches[1].lookup(B, 0).unwrap(), "right");
    }

    #[test]
    fn blocks_are_charged_until_their_last_packet_has_left() {
        let mut cache = PacketCache::new(ByteCount(1 << 20), "fifo").unwrap();
        let mut random = Random::new(3, 0);
        for round in 0..30_000u32 {
            let stream = StreamKey([random.below(3) as u8; 6]);
            let number = random.below(700) as u32;
            let payload = [round as u8; 1_200];
            let len = 1_200 - random.below(2) as usize * 100;
            cache.insert(stream, number, [&payload[..10], &payload[10..len]], Provenance::Source);
            assert_eq!(cache.lookup(stream, number).map(|held| held.len()), Some(len));
            assert!(cache.used() <= cache.capacity());
        }
        let charged = cache.blocks.bytes() + cache.packets.len() as u64 * PACKET_OVERHEAD_BYTES;
        assert_eq!(cache.used().0, charged);
        assert!(cache.counters.replacements > 1_000);
    }

    #[test]
    fn no_policy_ever_exceeds_the_capacity_or_loses_count() {
        for (policy, _) in POLICIES {
            let mut random = Random::new(7, 0);
            let mut cache = cache(policy, 20);
            for _ in 0..20_000 {
                let stream = StreamKey([random.below(4) as u8; 6]);
                let packet = random.below(30) as u32 + if random.chance(0.2) { TREE_PACKET_FIRST } else { 0 };
                match random.below(10) {
                    0..6 => {
                        let payload = [random.below(256) as u8; 300];
                        let len = random.below(300) as usize;
                        cache.insert(stream, packet, [&payload[..len / 3], &payload[len / 3..len]], Provenance::Source);
                    }
                    6..9 => drop(cache.lookup(stream, packet)),
                    _ if random.chance(0.05) => cache.invalidate(Some(stream)),
                    _ => {}
                }
                assert!(cache.used() <= cache.capacity());
            }
            let sum = cache.blocks.bytes() + cache.packets.len() as u64 * PACKET_OVERHEAD_BYTES;
            assert_eq!(cache.used().0, sum);
            assert_eq!(cache.entries().map(|entry| entry.packets).sum::<u64>(), cache.packets.len() as u64);
            let bytes: u64 = cache.packets.values().map(|held| held.payload.len() as u64).sum();
            assert_eq!(cache.entries().map(|entry| entry.bytes.0).sum::<u64>(), bytes);
        }
    }
}

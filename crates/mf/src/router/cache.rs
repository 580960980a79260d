//! The content cache of a router (paper §3.2.1): keeps chunks that pass for later requests.
//!
//! Objects are kept and dropped as a whole, least recently used first: a request is answered when all of its object is
//! here or [arriving], because the answer needs one sender that knows what is missing. A cache cannot verify what passes; receivers
//! do, and ask past a cache that lied ([`Flags::NO_CACHE`](crate::wire::Flags::NO_CACHE)).
//!
//! [arriving]: super::arriving
use alloc::collections::BTreeMap;

use bytes::Bytes;
use tributary_content::ObjectId;
use tributary_core::{ByteCount, Recency, Time};

use super::arriving::{Arriving, Pending, Verdict};
use crate::wire::{ChunkRanges, DataTag, TransportMessage};

/// A chunk's overhead beyond its payload.
const CHUNK_OVERHEAD_BYTES: u64 = 128;

/// Chunks of objects that passed.
#[derive(Debug, Default)]
pub struct ContentCache {
    capacity: u64,
    used: u64,
    recency: Recency<ObjectId>,
    objects: BTreeMap<ObjectId, Cached>,
    /// What of it is still to come, and who has joined it.
    pub arriving: Arriving,
    /// Requests answered.
    pub hits: u64,
    /// Requests passed on.
    pub misses: u64,
}

#[derive(Debug, Default)]
struct Cached {
    /// The size of its chunks, and their number.
    cut: (u32, u32),
    chunks: BTreeMap<u32, Bytes>,
    bytes: u64,
}

impl Cached {
    fn is_whole(&self) -> bool {
        self.chunks.len() == self.cut.1 as usize
    }
}

impl ContentCache {
    /// An empty cache; nothing is kept if `capacity` is zero.
    pub fn new(capacity: ByteCount) -> ContentCache {
        ContentCache { capacity: capacity.0, ..ContentCache::default() }
    }
    /// Keeps a passing chunk that bypassed copies and replaces the one here, which may have been corrupted. It never
    /// starts an object.
    pub fn replace(&mut self, tag: &DataTag, payload: impl FnOnce() -> Bytes) {
        let cut = (tag.chunk_bytes, tag.count);
        let Some(known) = self.objects.get_mut(&tag.object).filter(|known| known.cut == cut) else { return };
        let Some(chunk) = known.chunks.get_mut(&tag.number) else { return };
        let right = payload();
        if right.len() == chunk.len() {
            *chunk = Bytes::copy_from_slice(&right);
        } else {
            // The old copy's object was even shorter.
            self.remove(&tag.object);
        }
    }
    /// Keeps a chunk that passes by.
    pub fn insert(&mut self, tag: &DataTag, payload: impl FnOnce() -> Bytes, bytes: u64) {
        let bytes = bytes + CHUNK_OVERHEAD_BYTES;
        if bytes > self.capacity || u64::from(tag.count) * u64::from(tag.chunk_bytes) > 2 * self.capacity {
            return;
        }
        let cut = (tag.chunk_bytes, tag.count);
        let mut description = None;
        if let Some(known) = self.objects.get(&tag.object).filter(|known| known.cut != cut) {
            // Cut in another way: the newer cut wins. The manifest is the same, and receivers that have it do not
            // request it again.
            description = known.chunks.get(&0).cloned().filter(|_| tag.number != 0);
            self.remove(&tag.object);
        }
        let object = self.objects.entry(tag.object).or_default();
        object.cut = cut;
        self.recency.touch(tag.object);
        if let Some(description) = description {
            let bytes = description.len() as u64 + CHUNK_OVERHEAD_BYTES;
            object.chunks.insert(0, description);
            object.bytes += bytes;
            self.used += bytes;
        }
        if object.chunks.contains_key(&tag.number) {
            return;
        }
        // Copied, because arriving slices would keep whole receive buffers alive.
        object.chunks.insert(tag.number, Bytes::copy_from_slice(&payload()));
        object.bytes += bytes;
        self.used += bytes;
        while self.used > self.capacity {
            let Some(oldest) = self.recency.first() else { break };
            self.remove(&oldest);
        }
    }
    /// A receiver that suspects this copy requests an object past copies, and has verified these chunks, cut by
    /// `chunk_bytes`: the others are dropped, and the answer replaces them.
    pub fn keep_only(&mut self, object: &ObjectId, held: &ChunkRanges, chunk_bytes: u32) {
        let Some(known) = self.objects.get_mut(object) else { return };
        let held = held.recut(chunk_bytes, known.cut);
        let mut gone = 0;
        known.chunks.retain(|number, chunk| {
            let stays = held.contains(*number);
            gone += if stays { 0 } else { chunk.len() as u64 + CHUNK_OVERHEAD_BYTES };
            stays
        });
        known.bytes -= gone;
        self.used -= gone;
        if known.chunks.is_empty() {
            self.objects.remove(object);
        }
    }
    /// Forgets an object.
    pub fn remove(&mut self, object: &ObjectId) {
        if let Some(removed) = self.objects.remove(object) {
            self.used -= removed.bytes;
            self.recency.remove(*object);
        }
    }
    /// How the object is cut and into how many chunks, if it is complete here: counts a request.
    pub fn look(&mut self, object: &ObjectId) -> Option<(u32, u32)> {
        let whole = self.objects.get(object).filter(|known| known.is_whole());
        let cut = whole.map(|known| known.cut);
        self.hits += u64::from(cut.is_some());
        self.misses += u64::from(cut.is_none());
        if cut.is_some() {
            self.recency.touch(*object);
        }
        cut
    }
    /// Whether a chunk of it is here.
    pub fn holds(&self, object: &ObjectId, number: u32) -> bool {
        self.objects.get(object).is_some_and(|known| known.chunks.contains_key(&number))
    }
    /// Whether all of an object is here.
    pub fn is_whole(&self, object: &ObjectId) -> bool {
        self.objects.get(object).is_some_and(Cached::is_whole)
    }
    /// A request that cannot be answered as a whole joins what is arriving of its object, if that is all it misses.
    pub fn join(&mut self, now: Time, pending: &Pending, message: &TransportMessage) -> Verdict {
        let ContentCache { capacity, objects, arriving, .. } = self;
        let known = objects.get(&message.object);
        let cut = known.map(|known| {
            let (chunk_bytes, count) = known.cut;
            let bytes = u64::from(count) * (u64::from(chunk_bytes) + CHUNK_OVERHEAD_BYTES);
            (bytes <= *capacity).then_some(known.cut)
        });
        let holds = |number| known.is_some_and(|known| known.chunks.contains_key(&number));
        arriving.on_request(now, pending, message, cut, holds)
    }
    /// A chunk of an object that is cut so; nothing if it has been replaced by another cut.
    pub fn chunk(&self, object: &ObjectId, cut: (u32, u32), number: u32) -> Option<Bytes> {
        let known = self.objects.get(object).filter(|known| known.cut == cut)?;
        known.chunks.get(&number).cloned()
    }
    /// Bytes in use, and bytes allowed.
    pub fn usage(&self) -> (ByteCount, ByteCount) {
        (ByteCount(self.used), ByteCount(self.capacity))
    }
    /// Each object with its chunks and bytes.
    pub fn objects(&self) -> impl Iterator<Item = (&ObjectId, u64, ByteCount)> {
        self.objects.iter().map(|(id, object)| (id, object.chunks.len() as u64, ByteCount(object.bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Reliability;
    use alloc::vec;

    fn tag(object: u8, number: u32) -> DataTag {
        DataTag {
            object: ObjectId([object; 16]),
            transfer: 1,
            token: crate::ids::Token(7),
            number,
            count: 3,
            chunk_bytes: 1_000,
            reliability: Reliability::Nack,
            window: 0,
            window_chunks: 0,
        }
    }

    #[test]
    fn an_object_is_served_when_all_of_it_passed_and_goes_as_a_whole() {
        let mut cache = ContentCache::new(ByteCount(5_000));
        for number in 0..3 {
            assert_eq!(cache.look(&ObjectId([1; 16])), None);
            cache.insert(&tag(1, number), || vec![1; 1_000].into(), 1_000);
        }
        assert_eq!(cache.look(&ObjectId([1; 16])), Some((1_000, 3)));
        cache.insert(&tag(2, 0), || vec![2; 1_000].into(), 1_000);
        assert!(cache.chunk(&ObjectId([1; 16]), (1_000, 3), 1).is_some());
        cache.insert(&tag(2, 1), || vec![2; 1_000].into(), 1_000);
        assert_eq!(cache.chunk(&ObjectId([1; 16]), (1_000, 3), 1), None, "the least recently used object made room");
        assert_eq!(cache.usage().0, ByteCount(2 * 1_128));
        cache.insert(&DataTag { chunk_bytes: 500, ..tag(2, 0) }, || vec![2; 500].into(), 500);
        assert_eq!(cache.usage().0, ByteCount(628), "another cut of the same object replaces it");
        assert!(cache.chunk(&ObjectId([2; 16]), (500, 3), 0).is_some());
        assert_eq!(cache.chunk(&ObjectId([2; 16]), (1_000, 3), 0), None, "who began with the old one gets none of it");
    }

    #[test]
    fn what_comes_past_copies_takes_the_place_of_what_is_here_and_begins_nothing() {
        let mut cache = ContentCache::new(ByteCount(5_000));
        let (id, cut) = (ObjectId([1; 16]), (1_000, 3));
        cache.replace(&tag(1, 0), || vec![2; 1_000].into());
        assert_eq!(cache.usage().0, ByteCount(0));
        (0..3).for_each(|number| cache.insert(&tag(1, number), || vec![1; 1_000].into(), 1_000));
        cache.replace(&tag(1, 1), || vec![2; 1_000].into());
        let first = |cache: &ContentCache, number| cache.chunk(&id, cut, number).map(|chunk| chunk[0]);
        assert_eq!([0, 1, 2].map(|number| first(&cache, number)), [Some(1), Some(2), Some(1)]);
        cache.replace(&tag(1, 2), || vec![2; 900].into());
        assert_eq!((cache.look(&id), cache.usage().0), (None, ByteCount(0)), "it was of another length");
        (0..3).for_each(|number| cache.insert(&tag(1, number), || vec![1; 1_000].into(), 1_000));
        cache.keep_only(&id, &ChunkRanges::from_ascending([1]), 1_000);
        assert_eq!(
            (cache.look(&id), cache.usage().0),
            (None, ByteCount(1_128)),
            "nobody knows whether the others are right"
        );
        cache.keep_only(&id, &ChunkRanges::default(), 1_000);
        assert_eq!(cache.objects().count(), 0);
    }
}

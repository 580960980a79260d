//! The content cache of a router (paper §3.2.1): keeps chunks that pass for later requests.
//!
//! Objects are kept and dropped as a whole, least recently used first: a request is answered when all of its object is
//! here, because the answer needs one sender that knows what is missing. A cache cannot verify what passes; receivers
//! do, and ask past a cache that lied ([`Flags::NO_CACHE`](crate::wire::Flags::NO_CACHE)).
use alloc::collections::BTreeMap;

use bytes::Bytes;
use tributary_content::ObjectId;
use tributary_core::ByteCount;

use crate::wire::DataTag;

/// What a chunk takes beyond its payload.
const CHUNK_OVERHEAD_BYTES: u64 = 128;

/// Chunks of objects that passed.
#[derive(Debug)]
pub struct ContentCache {
    capacity: u64,
    used: u64,
    clock: u64,
    objects: BTreeMap<ObjectId, Cached>,
    /// Requests answered.
    pub hits: u64,
    /// Requests passed on.
    pub misses: u64,
}

#[derive(Debug)]
struct Cached {
    chunk_bytes: u32,
    count: u32,
    chunks: BTreeMap<u32, Bytes>,
    bytes: u64,
    used_at: u64,
}

impl ContentCache {
    /// An empty cache; nothing is kept if `capacity` is zero.
    pub fn new(capacity: ByteCount) -> ContentCache {
        ContentCache { capacity: capacity.0, used: 0, clock: 0, objects: BTreeMap::new(), hits: 0, misses: 0 }
    }
    /// Keeps a chunk that passes by.
    pub fn insert(&mut self, tag: &DataTag, payload: impl FnOnce() -> Bytes, bytes: u64) {
        let bytes = bytes + CHUNK_OVERHEAD_BYTES;
        if bytes > self.capacity || u64::from(tag.count) * u64::from(tag.chunk_bytes) > 2 * self.capacity {
            return;
        }
        self.clock += 1;
        let fits = |known: &Cached| (known.chunk_bytes, known.count) == (tag.chunk_bytes, tag.count);
        if self.objects.get(&tag.object).is_some_and(|known| !fits(known)) {
            // Cut another way: the newer cut wins.
            self.remove(&tag.object);
        }
        let object = self.objects.entry(tag.object).or_insert_with(|| Cached {
            chunk_bytes: tag.chunk_bytes,
            count: tag.count,
            chunks: BTreeMap::new(),
            bytes: 0,
            used_at: 0,
        });
        object.used_at = self.clock;
        if object.chunks.contains_key(&tag.number) {
            return;
        }
        // Copied, because what arrives are slices of receive buffers that would be kept alive as a whole.
        object.chunks.insert(tag.number, Bytes::copy_from_slice(&payload()));
        object.bytes += bytes;
        self.used += bytes;
        while self.used > self.capacity {
            let Some(oldest) = self.objects.iter().min_by_key(|(_, object)| object.used_at).map(|(id, _)| *id) else {
                break;
            };
            self.remove(&oldest);
        }
    }
    /// Forgets an object.
    pub fn remove(&mut self, object: &ObjectId) {
        if let Some(removed) = self.objects.remove(object) {
            self.used -= removed.bytes;
        }
    }
    /// How the object is cut, and into how many chunks, if all of it is here: counts a request.
    pub fn look(&mut self, object: &ObjectId) -> Option<(u32, u32)> {
        self.clock += 1;
        let clock = self.clock;
        match self.objects.get_mut(object).filter(|known| known.chunks.len() == known.count as usize) {
            Some(known) => {
                self.hits += 1;
                known.used_at = clock;
                Some((known.chunk_bytes, known.count))
            }
            None => {
                self.misses += 1;
                None
            }
        }
    }
    /// A chunk of an object that is cut so; nothing if it has been replaced by another cut.
    pub fn chunk(&self, object: &ObjectId, cut: (u32, u32), number: u32) -> Option<Bytes> {
        let known = self.objects.get(object).filter(|known| (known.chunk_bytes, known.count) == cut)?;
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
}

//! The object of a fetch on its way into its store.
//!
//! ```text
//! complete chunk ──► verify ──► store ──► Written, when the store has it: only then it counts
//! ```
//! Families differ in how the bytes of a chunk come together, but share everything else. A store may answer at once or
//! from another thread: [`ObjectWriter::poll`] returns the answers of both in the order of the operations.
use alloc::{
    boxed::Box,
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};
use core::ops::Range;

use tributary_content::{
    Bitmap, ChunkIndex, ChunkPart, ChunkStore, ClosedStore, HashTree, Manifest, ObjectId, StoreAnswer, StoreError,
    StoreOpener, StoreTask, Wanted, Wishes,
};

/// What a store has done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Written {
    /// It is open; chunks of an earlier fetch are held.
    Opened,
    /// The hash list has arrived. These chunks of an earlier fetch do not match it and were dropped.
    Tree {
        /// Their numbers.
        dropped: Vec<u32>,
    },
    /// It holds a chunk.
    Chunk {
        /// The chunk.
        index: u32,
        /// Its bytes.
        bytes: u32,
    },
    /// The chunks held when [`ObjectWriter::sync`] started survive a loss of power.
    Synced,
    /// The object has its final name.
    Finished,
}

tributary_core::declared! {
    /// Writes one object whose chunks arrive in any order.
    pub struct ObjectWriter {
        object: ObjectId = manifest.object_id(),
        store: Box<dyn ChunkStore> = store,
        tree: Option<HashTree> = None,
        /// Verified chunks that the store is writing.
        storing: BTreeSet<u32> = BTreeSet::new(),
        /// The chunks held when the store started to write the hash list.
        held_before_tree: Option<Bitmap> = None,
        finish: Finish = Finish::NotBegun,
        /// Held chunks that are not yet safe against a loss of power, and the subset that a sync is writing to the
        /// disk.
        unsynced: Unsynced = Unsynced { all: true, ..Unsynced::default() },
        syncing: Option<Unsynced> = None,
        stored_bytes: u64 = 0,
        stored_chunks: u32 = 0,
        /// Buffers of stored chunks, for reuse: fresh ones would cost the system a page at a time.
        spare: Vec<Vec<u8>> = Vec::new(),
        spare_max: usize = 8,
        /// The wishes of a store that does not want everything at once.
        wishes: Option<Selection> = None,
        /// The store's immediate answers.
        done: VecDeque<StoreAnswer> = VecDeque::new(),
        manifest: Manifest = manifest,
    }
    fn start(manifest: Manifest, store: Box<dyn ChunkStore>) {}
}

struct Selection {
    wishes: Arc<dyn Wishes>,
    /// The wanted chunks at the last check, and the version of that.
    wanted: Wanted,
    version: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Finish {
    NotBegun,
    UnderWay,
    Done,
}

#[derive(Default)]
struct Unsynced {
    /// All held chunks: there has been no sync yet, and the chunks are not counted one by one.
    all: bool,
    chunks: BTreeSet<u32>,
    tree: bool,
}

impl Unsynced {
    fn is_empty(&self) -> bool {
        !self.all && self.chunks.is_empty() && !self.tree
    }
}

impl ObjectWriter {
    /// Opens the store of the object of `manifest`.
    ///
    /// # Errors
    /// The store's error.
    pub fn open(manifest: Manifest, opener: &mut dyn StoreOpener) -> Result<ObjectWriter, StoreError> {
        let store = opener.open(&manifest)?;
        Ok(ObjectWriter::new(manifest, store))
    }
    /// Opens an object that a sender pushed, identified by its name.
    ///
    /// # Errors
    /// The store's error.
    pub fn open_sent(
        manifest: Manifest,
        opener: &mut dyn StoreOpener,
        delivery: &[u8],
    ) -> Result<ObjectWriter, StoreError> {
        let store = opener.open_sent(&manifest, delivery)?;
        Ok(ObjectWriter::new(manifest, store))
    }
    fn new(manifest: Manifest, store: Box<dyn ChunkStore>) -> ObjectWriter {
        let mut writer = ObjectWriter::start(manifest, store);
        if writer.is_open() {
            writer.on_open();
        }
        writer
    }
    fn on_open(&mut self) {
        self.tree = match self.manifest.chunk_count() {
            // The manifest's root is the complete list.
            0 | 1 => HashTree::decode(&self.manifest, &[]).ok(),
            _ => self.store.tree().cloned(),
        };
        self.count_stored();
        self.wishes = self.store.wishes().map(|wishes| {
            let (version, wanted) = (wishes.version(), wishes.wanted());
            Selection { wishes, wanted, version }
        });
    }
    fn count_stored(&mut self) {
        let missing = self.store.held().unset_ranges().flatten().map(|index| self.chunk_bytes(index));
        self.stored_bytes = self.manifest.size - missing.map(u64::from).sum::<u64>();
        self.stored_chunks = self.store.held().count();
    }
    /// Reads the chunks that the store wants now; true if they have changed.
    pub fn refresh_wishes(&mut self) -> bool {
        let Some(selection) = &mut self.wishes else { return false };
        let version = selection.wishes.version();
        if version == selection.version {
            return false;
        }
        (selection.version, selection.wanted) = (version, selection.wishes.wanted());
        true
    }
    /// Parts of wanted chunks that the store has; each once.
    pub fn take_parts(&self) -> Vec<ChunkPart> {
        self.wishes.as_ref().map_or_else(Vec::new, |selection| selection.wishes.take_parts())
    }
    /// Keeps at most this many buffers for later chunks; 8 by default.
    pub fn keep_buffers(&mut self, max: usize) {
        self.spare_max = max;
    }

    // Questions.

    /// The manifest of the object.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }
    /// Its id.
    pub fn object(&self) -> ObjectId {
        self.object
    }
    /// Whether the store is open; nothing may be put before.
    pub fn is_open(&self) -> bool {
        self.store.is_open()
    }
    /// The chunks that the store holds.
    pub fn held(&self) -> &Bitmap {
        self.store.held()
    }
    /// The bytes of these.
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }
    /// How many chunks the store is writing.
    pub fn storing(&self) -> usize {
        self.storing.len()
    }
    /// The chunks that the store is writing.
    pub fn iter_storing(&self) -> impl Iterator<Item = u32> + '_ {
        self.storing.iter().copied()
    }
    /// Whether chunks can be verified: the hash list has arrived, or the object needs none because its packets are
    /// verified one by one.
    pub fn has_tree(&self) -> bool {
        self.tree.is_some() || self.manifest.is_unsigned()
    }
    /// Whether a chunk is verified: held, or about to be.
    pub fn is_verified(&self, index: u32) -> bool {
        self.store.held().get(index) || self.storing.contains(&index)
    }
    /// The store's wishes at the last [`ObjectWriter::refresh_wishes`]; `None` if it wants everything.
    pub fn wanted(&self) -> Option<&Wanted> {
        self.wishes.as_ref().map(|selection| &selection.wanted)
    }
    /// Whether the store wants a chunk.
    pub fn is_wanted(&self, index: u32) -> bool {
        self.wanted().is_none_or(|wanted| wanted.contains(index))
    }
    /// Whether the store can take a chunk.
    pub fn accepts(&self, index: u32) -> bool {
        self.store.accepts(ChunkIndex(index))
    }
    /// Whether the store's wishes may change without a wake-up of the node.
    pub fn must_be_looked_at(&self) -> bool {
        self.wishes.as_ref().is_some_and(|selection| !selection.wishes.wakes())
    }
    /// Whether the store may want other chunks later.
    pub fn may_want_more(&self) -> bool {
        self.wanted().is_some_and(|wanted| wanted.may_change)
    }
    /// Whether all chunks that are wanted now are verified.
    pub fn has_all_wanted(&self) -> bool {
        match self.wanted() {
            Some(wanted) => wanted.windows.iter().cloned().flatten().all(|index| self.is_verified(index)),
            None => {
                let held = self.store.held();
                held.count() as usize + self.storing.len() >= held.len() as usize
            }
        }
    }
    /// Whether all wanted chunks are held, and no reader may want others.
    pub fn is_complete(&self) -> bool {
        let held = self.store.held();
        match self.wanted() {
            Some(wanted) => {
                let is_held = |window: &Range<u32>| window.clone().all(|index| held.get(index));
                !wanted.may_change && wanted.windows.iter().all(is_held)
            }
            None => held.is_full(),
        }
    }
    /// The wanted bytes of the fetch, and how many of them are held.
    pub fn sizes(&self) -> (u64, u64) {
        let Some(extent) = self.wanted().and_then(|wanted| wanted.extent.as_ref()) else {
            return (self.manifest.size, self.stored_bytes);
        };
        let (held, chunk) = (self.store.held(), u64::from(self.manifest.chunk_size.max(1)));
        let bytes = extent.iter().map(|bytes| bytes.end - bytes.start).sum();
        let stored = extent.iter().filter(|bytes| bytes.start < bytes.end).map(|bytes| {
            let chunks = (bytes.start / chunk) as u32..bytes.end.div_ceil(chunk) as u32;
            let part = |index: u32| {
                let first = u64::from(index) * chunk;
                bytes.end.min(first + chunk) - bytes.start.max(first)
            };
            chunks.filter(|index| held.get(*index)).map(part).sum::<u64>()
        });
        (bytes, stored.sum())
    }
    /// The first chunk that is not verified.
    pub fn first_unverified(&self) -> Option<u32> {
        let held = self.store.held();
        let mut next = held.first_unset();
        while let Some(index) = next.filter(|index| self.storing.contains(index)) {
            next = held.next_unset(index + 1);
        }
        next
    }
    /// Whether the store has an operation in progress.
    pub fn awaits_storage(&self) -> bool {
        let is_writing = self.held_before_tree.is_some() || self.finish == Finish::UnderWay || self.syncing.is_some();
        !self.is_open() || is_writing || !self.storing.is_empty()
    }
    /// Whether the hash list survives a loss of power.
    pub fn is_tree_durable(&self) -> bool {
        let is_pending = |pending: &Unsynced| pending.all || pending.tree;
        self.tree.is_some() && self.held_before_tree.is_none() && !self.pending().any(is_pending)
    }
    /// Whether all of some chunks survive a loss of power.
    pub fn are_durable(&self, mut chunks: Range<u32>) -> bool {
        let is_pending = |index| self.pending().any(|pending| pending.all || pending.chunks.contains(&index));
        chunks.all(|index| self.store.held().get(index) && !is_pending(index))
    }
    fn pending(&self) -> impl Iterator<Item = &Unsynced> {
        self.syncing.iter().chain([&self.unsynced])
    }
    fn chunk_bytes(&self, index: u32) -> u32 {
        self.manifest.chunk_len(ChunkIndex(index))
    }

    // Verification.

    /// The hash list, if these bytes are it.
    pub fn verified_tree(&self, bytes: &[u8]) -> Option<HashTree> {
        HashTree::decode(&self.manifest, bytes).ok()
    }
    /// Whether these are the bytes of a chunk; `None` if the hash list has not arrived.
    pub fn verify_chunk(&self, index: u32, bytes: &[u8]) -> Option<bool> {
        if self.manifest.is_unsigned() {
            return Some(true);
        }
        self.tree.as_ref().map(|tree| tree.verify_chunk(ChunkIndex(index), bytes))
    }

    // Writing.

    /// A buffer for the bytes of a chunk, a used one if available. It keeps its length and contents: a caller that
    /// overwrites all of it need not clear it.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }
    /// Takes the verified hash list.
    ///
    /// # Errors
    /// The store's error.
    pub fn put_tree(&mut self, tree: HashTree) -> Result<(), StoreError> {
        self.held_before_tree = Some(self.store.held().clone());
        self.tree = Some(tree.clone());
        self.begin(StoreTask::Tree(tree))
    }
    /// Takes a verified chunk.
    ///
    /// # Errors
    /// The store's error.
    pub fn put_chunk(&mut self, index: u32, bytes: Vec<u8>) -> Result<(), StoreError> {
        self.begin(StoreTask::Chunk(ChunkIndex(index), bytes))?;
        self.storing.insert(index);
        Ok(())
    }
    /// Begins to sync the chunks that are not yet safe against a loss of power, unless a sync is in progress: the next
    /// one covers all chunks that have arrived by then. True if every chunk is synced.
    ///
    /// # Errors
    /// The store's error.
    pub fn sync(&mut self) -> Result<bool, StoreError> {
        if self.syncing.is_none() && !self.unsynced.is_empty() {
            self.syncing = Some(core::mem::take(&mut self.unsynced));
            self.begin(StoreTask::Sync)?;
        }
        Ok(self.syncing.is_none() && self.unsynced.is_empty())
    }
    /// Starts to give the object its final name; all wanted chunks are held. True once it has it.
    ///
    /// # Errors
    /// The store's error.
    pub fn finish(&mut self) -> Result<bool, StoreError> {
        if self.finish == Finish::NotBegun && !self.awaits_storage() {
            self.finish = Finish::UnderWay;
            self.begin(StoreTask::Finish)?;
        }
        Ok(self.finish == Finish::Done)
    }
    fn begin(&mut self, task: StoreTask) -> Result<(), StoreError> {
        self.done.extend(self.store.begin(task)?);
        Ok(())
    }
    /// The next result of the store; each once.
    ///
    /// # Errors
    /// The store's error in an operation or in opening.
    pub fn poll(&mut self) -> Result<Option<Written>, StoreError> {
        let answer = match self.done.pop_front() {
            Some(answer) => Some(answer),
            None => self.store.poll_answer()?,
        };
        Ok(answer.map(|answer| self.on_answer(answer)))
    }
    fn on_answer(&mut self, answer: StoreAnswer) -> Written {
        match answer {
            StoreAnswer::Opened => {
                self.on_open();
                Written::Opened
            }
            StoreAnswer::Tree => {
                self.unsynced.tree = true;
                let before = self.held_before_tree.take();
                let held = self.store.held();
                let is_dropped = |index: &u32| !held.get(*index);
                let dropped: Vec<u32> = before.iter().flat_map(Bitmap::iter_set).filter(is_dropped).collect();
                self.count_stored();
                Written::Tree { dropped }
            }
            StoreAnswer::Chunk(ChunkIndex(index), buffer) => {
                self.storing.remove(&index);
                if !self.unsynced.all {
                    self.unsynced.chunks.insert(index);
                }
                let bytes = self.chunk_bytes(index);
                self.stored_chunks += 1;
                self.stored_bytes += u64::from(bytes);
                if self.store.held().count() != self.stored_chunks {
                    // The store has found other chunks itself.
                    self.count_stored();
                }
                if self.spare.len() < self.spare_max {
                    self.spare.push(buffer);
                }
                Written::Chunk { index, bytes }
            }
            StoreAnswer::Synced => {
                self.syncing = None;
                Written::Synced
            }
            StoreAnswer::Finished => {
                self.finish = Finish::Done;
                Written::Finished
            }
        }
    }
    /// Releases the store and all buffers; the held chunks stay known.
    pub fn close(&mut self) {
        self.spare.clear();
        self.store = Box::new(ClosedStore::new(self.store.held().clone()));
    }
}

#[cfg(test)]
mod tests {
    use tributary_content::{MemoryObject, MemoryOpener, Name, ObjectKind, ObjectReader, SigningKey};

    use super::*;

    const CHUNK: usize = 4_096;

    fn object(chunks: usize) -> MemoryObject {
        let name: Name = "/x".parse().expect("a name");
        let bytes: Vec<u8> = (0..CHUNK * chunks).map(|at| (at / 7) as u8).collect();
        let key = SigningKey::from_secret(&[1; 32]);
        MemoryObject::with_options(name, bytes, &key, 1, ObjectKind::File, CHUNK as u32).expect("it is short")
    }
    fn chunk(object: &MemoryObject, index: u32) -> Vec<u8> {
        object.bytes()[index as usize * CHUNK..][..CHUNK].to_vec()
    }
    fn written(writer: &mut ObjectWriter) -> Vec<Written> {
        core::iter::from_fn(|| writer.poll().expect("memory does not fail")).collect()
    }

    #[test]
    fn nothing_is_verified_before_the_hash_list_and_nothing_counts_before_the_store_has_it() {
        let mut object = object(3);
        let mut writer = ObjectWriter::open(object.manifest().clone(), &mut MemoryOpener::new()).expect("it opens");
        assert_eq!(writer.verify_chunk(0, &chunk(&object, 0)), None);
        let tree = writer.verified_tree(&object.tree()).expect("it is the right one");
        assert!(writer.verified_tree(&[7; 96]).is_none());
        writer.put_tree(tree).expect("memory does not fail");
        assert_eq!(written(&mut writer), [Written::Tree { dropped: Vec::new() }]);
        for index in [2, 0] {
            let bytes = chunk(&object, index);
            assert_eq!((writer.verify_chunk(index, &bytes), writer.verify_chunk(1, &bytes)), (Some(true), Some(false)));
            writer.put_chunk(index, bytes).expect("memory does not fail");
            assert!(writer.is_verified(index) && writer.awaits_storage());
        }
        assert_eq!((writer.stored_bytes(), writer.first_unverified()), (0, Some(1)));
        let bytes = CHUNK as u32;
        assert_eq!(written(&mut writer), [2, 0].map(|index| Written::Chunk { index, bytes }));
        assert_eq!((writer.stored_bytes(), writer.is_complete()), (2 * CHUNK as u64, false));
        writer.put_chunk(1, chunk(&object, 1)).expect("memory does not fail");
        assert!(writer.has_all_wanted() && !writer.finish().expect("it waits for the last chunk"));
        assert_eq!(written(&mut writer), [Written::Chunk { index: 1, bytes }]);
        writer.finish().expect("memory does not fail");
        assert_eq!(written(&mut writer), [Written::Finished]);
        assert!(writer.finish().expect("it has its name") && object.read_chunk(ChunkIndex(0)).is_ok());
    }

    #[test]
    fn only_what_a_sync_has_taken_is_durable() {
        let object = object(1);
        let mut writer = ObjectWriter::open(object.manifest().clone(), &mut MemoryOpener::new()).expect("it opens");
        assert!(writer.has_tree(), "the manifest has the only hash");
        writer.put_chunk(0, chunk(&object, 0)).expect("memory does not fail");
        written(&mut writer);
        assert!(!writer.are_durable(0..1) && !writer.is_tree_durable());
        assert!(!writer.sync().expect("memory does not fail"), "its answer is not taken yet");
        assert!(!writer.are_durable(0..1));
        assert_eq!(written(&mut writer), [Written::Synced]);
        assert!(writer.are_durable(0..1) && writer.is_tree_durable() && writer.sync().expect("nothing is left"));
    }
}

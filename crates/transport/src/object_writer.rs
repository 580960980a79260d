//! The object of a fetch on its way into its store.
//!
//! ```text
//! complete chunk ──► verify ──► store ──► Written, when the store has it: only then it counts
//! ```
//! Families differ in how the bytes of a chunk come together; the rest is the same. A store may answer at once or from
//! another thread: [`ObjectWriter::poll`] returns the answers of both in the order of the operations.
use alloc::{
    boxed::Box,
    collections::{BTreeSet, VecDeque},
    vec::Vec,
};
use core::ops::Range;

use tributary_content::{
    Bitmap, ChunkIndex, ChunkStore, ClosedStore, HashTree, Manifest, ObjectId, StoreAnswer, StoreError, StoreOpener,
    StoreTask,
};

/// What a store has done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Written {
    /// It is open; what an earlier fetch left is held.
    Opened,
    /// It has the hash list. Chunks of an earlier fetch that do not match it are not held any more: these.
    Tree {
        /// Their numbers.
        dropped: Vec<u32>,
    },
    /// It holds a chunk.
    Chunk {
        /// Which.
        index: u32,
        /// Its bytes.
        bytes: u32,
    },
    /// The chunks held when [`ObjectWriter::sync`] began survive a loss of power.
    Synced,
    /// The object has its final name.
    Finished,
}

/// Writes one object of which chunks arrive in any order.
pub struct ObjectWriter {
    manifest: Manifest,
    object: ObjectId,
    store: Box<dyn ChunkStore>,
    tree: Option<HashTree>,
    /// Verified chunks that the store is writing.
    storing: BTreeSet<u32>,
    /// The chunks held when the store began to write the hash list.
    held_before_tree: Option<Bitmap>,
    finish: Finish,
    /// Held chunks that a loss of power would take, and those of them that a sync is writing to the disk.
    unsynced: Unsynced,
    syncing: Option<Unsynced>,
    stored_bytes: u64,
    /// Buffers of chunks that are stored, for those that come: fresh ones would cost the system a page at a time.
    spare: Vec<Vec<u8>>,
    spare_max: usize,
    /// What the store has done at once.
    done: VecDeque<StoreAnswer>,
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
    /// What the store says.
    pub fn open(manifest: Manifest, opener: &mut dyn StoreOpener) -> Result<ObjectWriter, StoreError> {
        let store = opener.open(&manifest)?;
        Ok(ObjectWriter::new(manifest, store))
    }
    /// The same for an object that a sender pushed, identified by its name.
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
        let mut writer = ObjectWriter {
            object: manifest.object_id(),
            manifest,
            store,
            tree: None,
            storing: BTreeSet::new(),
            held_before_tree: None,
            finish: Finish::NotBegun,
            unsynced: Unsynced { all: true, ..Unsynced::default() },
            syncing: None,
            stored_bytes: 0,
            spare: Vec::new(),
            spare_max: 8,
            done: VecDeque::new(),
        };
        if writer.is_open() {
            writer.on_open();
        }
        writer
    }
    fn on_open(&mut self) {
        self.tree = match self.manifest.chunk_count() {
            // The root in the manifest is all there is of the list.
            0 | 1 => HashTree::decode(&self.manifest, &[]).ok(),
            _ => self.store.tree().cloned(),
        };
        let missing = self.store.held().unset_ranges().flatten().map(|index| self.chunk_bytes(index));
        self.stored_bytes = self.manifest.size - missing.map(u64::from).sum::<u64>();
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
    /// Whether chunks can be verified: the hash list is here, or the object has none because its packets are verified one by
    /// one.
    pub fn has_tree(&self) -> bool {
        self.tree.is_some() || self.manifest.is_unsigned()
    }
    /// Whether a chunk is verified: held, or about to be.
    pub fn is_verified(&self, index: u32) -> bool {
        self.store.held().get(index) || self.storing.contains(&index)
    }
    /// Whether all chunks are verified.
    pub fn has_all_chunks(&self) -> bool {
        let held = self.store.held();
        held.count() as usize + self.storing.len() >= held.len() as usize
    }
    /// Whether all chunks are held.
    pub fn is_complete(&self) -> bool {
        self.store.held().is_full()
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
    /// The first chunk that may not be put yet, as its in-order reader has no room for it; `None` if order does not matter.
    pub fn in_order_until(&self) -> Option<u32> {
        self.store.in_order_until().map(|until| until.0)
    }
    /// Whether the reader of an in-order stream has not taken everything yet. To wait for it in [`ChunkStore::finish`] would
    /// stop the node.
    pub fn has_unread(&self) -> bool {
        self.store.in_order_from().is_some_and(|next| next.0 < self.manifest.chunk_count())
    }
    /// Whether it is read in order.
    pub fn is_in_order(&self) -> bool {
        self.store.in_order_from().is_some()
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
    /// Whether bytes are those of a chunk; `None` if the hash list is not here yet.
    pub fn verify_chunk(&self, index: u32, bytes: &[u8]) -> Option<bool> {
        if self.manifest.is_unsigned() {
            return Some(true);
        }
        self.tree.as_ref().map(|tree| tree.verify_chunk(ChunkIndex(index), bytes))
    }

    // Writing.

    /// A buffer for the bytes of a chunk, a used one if there is any. It keeps its length and contents: a caller that
    /// overwrites all of it need not clear it.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }
    /// Takes the verified hash list.
    ///
    /// # Errors
    /// What the store says.
    pub fn put_tree(&mut self, tree: HashTree) -> Result<(), StoreError> {
        self.held_before_tree = Some(self.store.held().clone());
        self.tree = Some(tree.clone());
        self.begin(StoreTask::Tree(tree))
    }
    /// Takes a verified chunk.
    ///
    /// # Errors
    /// What the store says.
    pub fn put_chunk(&mut self, index: u32, bytes: Vec<u8>) -> Result<(), StoreError> {
        self.begin(StoreTask::Chunk(ChunkIndex(index), bytes))?;
        self.storing.insert(index);
        Ok(())
    }
    /// Begins to sync the chunks that a loss of power would take, unless a sync is in progress: the next one covers all
    /// that came meanwhile. True if nothing is unsynced.
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
    /// Begins to give the object its final name; all chunks are held. True once it has it.
    ///
    /// # Errors
    /// What the store says.
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
                self.stored_bytes -= dropped.iter().map(|index| u64::from(self.chunk_bytes(*index))).sum::<u64>();
                Written::Tree { dropped }
            }
            StoreAnswer::Chunk(ChunkIndex(index), buffer) => {
                self.storing.remove(&index);
                if !self.unsynced.all {
                    self.unsynced.chunks.insert(index);
                }
                let bytes = self.chunk_bytes(index);
                self.stored_bytes += u64::from(bytes);
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
        assert!(writer.has_all_chunks() && !writer.finish().expect("it waits for the last chunk"));
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

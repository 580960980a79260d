//! An object that is served while it arrives.
//!
//! ```text
//!   put_chunk ──► part, then held ──► ArrivingObject: gives what is held, and says of the rest that it is not here yet
//! ```
use std::{
    ops::Range,
    path::PathBuf,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tributary_content::{Bitmap, ChunkIndex, HashTree, Manifest, ObjectReader, StoreError};

use super::{Storage, fs::FsFile, io_error, publish::Reads};

/// Takes the object of a download once its chunks can be verified; called on the thread of the store.
#[derive(Clone)]
pub struct Share(Arc<dyn Fn(ArrivingObject) + Send + Sync>, Storage);
impl Share {
    /// Calls `take`; chunks are read by the threads of `storage`.
    pub fn new(storage: &Storage, take: impl Fn(ArrivingObject) + Send + Sync + 'static) -> Share {
        Share(Arc::new(take), storage.clone())
    }
}
/// The chunks that a download holds, for those who read it.
pub(super) type Held = Arc<Mutex<Bitmap>>;

/// An object whose chunks arrive.
pub struct ArrivingObject {
    content: Arc<Content>,
    storage: Storage,
    reads: Reads,
    /// Not shared with reads, so that it ends with the object.
    life: Arc<()>,
}

struct Content {
    manifest: Manifest,
    tree: HashTree,
    path: PathBuf,
    part: Arc<dyn FsFile>,
    held: Held,
}

/// Passes the object of a download in `part` at `path` to `share`.
pub(super) fn offer(
    share: &Share,
    manifest: &Manifest,
    tree: &HashTree,
    (part, path): (&Arc<dyn FsFile>, PathBuf),
    held: &Held,
) {
    let (manifest, tree, part, held) = (manifest.clone(), tree.clone(), Arc::clone(part), Arc::clone(held));
    let content = Arc::new(Content { manifest, tree, path, part, held });
    let Share(take, storage) = share;
    take(ArrivingObject { content, storage: storage.clone(), reads: Reads::default(), life: Arc::default() });
}

impl ArrivingObject {
    /// A handle that shows whether the object still exists, even if it was moved.
    pub fn watch(&self) -> Weak<()> {
        Arc::downgrade(&self.life)
    }
}
impl Content {
    fn read(&self, index: ChunkIndex) -> Result<Bytes, StoreError> {
        if !self.held.lock().get(index) {
            return Err(StoreError::NotYet { chunk: index.0 });
        }
        let mut chunk = vec![0; self.manifest.chunk_len(index) as usize];
        let read = self.part.read_exact_at(&mut chunk, self.manifest.chunk_offset(index));
        read.map_err(|error| io_error("read", &self.path, &error))?;
        match self.tree.verify_chunk(index, &chunk) {
            true => Ok(chunk.into()),
            false => Err(StoreError::Altered { path: self.path.display().to_string(), chunk: index.0 }),
        }
    }
}
impl ObjectReader for ArrivingObject {
    fn manifest(&self) -> &Manifest {
        &self.content.manifest
    }
    fn tree(&self) -> Bytes {
        self.content.tree.encode()
    }
    fn read_chunk(&mut self, index: ChunkIndex) -> Result<Bytes, StoreError> {
        self.content.read(index)
    }
    fn try_read(&mut self, index: ChunkIndex) -> Result<Option<Bytes>, StoreError> {
        match self.content.held.lock().get(index) {
            true => Ok(None),
            false => Err(StoreError::NotYet { chunk: index.0 }),
        }
    }
    fn begin_read(&mut self, index: ChunkIndex) {
        let content = Arc::clone(&self.content);
        self.reads.begin(&self.storage, index, move || content.read(index));
    }
    fn poll_read(&mut self) -> Option<(ChunkIndex, Result<Bytes, StoreError>)> {
        self.reads.poll()
    }
    fn held(&self) -> Option<Vec<Range<u32>>> {
        Some(self.content.held.lock().set_ranges().collect())
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{
        PartFile, PartOptions,
        fixtures::{directory, object, put},
    };
    use tributary_content::ChunkStore;

    #[test]
    fn what_has_arrived_is_read_by_others_before_the_rest_is_here_and_after_it_has_its_name() {
        let (directory, mut published) = (directory(), object(5000));
        let (storage, taken) = (Storage::default(), Arc::new(Mutex::new(Vec::new())));
        let share = {
            let taken = Arc::clone(&taken);
            Share::new(&storage, move |object| taken.lock().push(object))
        };
        let target = directory.path().join("out");
        let options = PartOptions { share: Some(share), ..PartOptions::default() };
        let mut store = PartFile::open(&target, published.manifest(), &options).expect("nothing speaks against it");
        assert!(taken.lock().is_empty(), "nothing can be verified yet");
        store.put_tree(published.hash_tree()).expect("it matches");
        let mut arriving = taken.lock().pop().expect("it is offered");
        assert_eq!((arriving.manifest(), arriving.tree()), (published.manifest(), published.tree()));
        assert!(matches!(arriving.try_read(ChunkIndex(1)), Err(StoreError::NotYet { chunk: 1 })));
        [1, 2, 4].into_iter().for_each(|index| put(&mut store, &mut published, index));
        assert_eq!(arriving.held(), Some(vec![1..3, 4..5]));
        assert_eq!(arriving.try_read(ChunkIndex(1)), Ok(None));
        arriving.begin_read(ChunkIndex(1));
        let read = loop {
            match arriving.poll_read() {
                Some(read) => break read,
                None => std::thread::sleep(std::time::Duration::from_millis(1)),
            }
        };
        assert_eq!(read, (ChunkIndex(1), published.read_chunk(ChunkIndex(1))));
        // The order in which chunks are wanted differs from receiver to receiver, and all are wanted.
        let mut wanted: Vec<u32> =
            store.wishes().expect("it has an order").wanted().windows.into_iter().flatten().collect();
        wanted.sort_unstable();
        assert_eq!(wanted, [0, 1, 2, 3, 4]);
        [0, 3].into_iter().for_each(|index| put(&mut store, &mut published, index));
        store.finish().expect("all is there");
        assert_eq!(arriving.read_chunk(ChunkIndex(3)), published.read_chunk(ChunkIndex(3)));
    }

    #[test]
    fn a_chunk_of_an_earlier_fetch_that_the_tree_drops_is_wanted_again() {
        let (directory, mut published) = (directory(), object(5000));
        let target = directory.path().join("out");
        let share = Share::new(&Storage::default(), drop);
        let options = PartOptions { share: Some(share), ..PartOptions::default() };
        let open = || PartFile::open(&target, published.manifest(), &options).expect("nothing speaks against it");
        let mut store = open();
        store.put_chunk(ChunkIndex(1), &[9; 1024]).expect("without the tree it cannot know better");
        drop(store);
        let mut store = open();
        assert!(store.held().get(1u32));
        store.put_tree(published.hash_tree()).expect("it matches");
        assert!(!store.held().get(1u32) && store.wishes().expect("an order").wanted().contains(1));
        (0..5).for_each(|index| put(&mut store, &mut published, index));
        store.finish().expect("all is there");
    }
}

//! Objects and stores in memory: for tests, simulations and small things.
use alloc::{format, vec::Vec};
use bytes::Bytes;

use crate::{
    Access, ChunkIndex, HashTree, Manifest, ManifestError, Name, ObjectKind, SigningKey, chunk_hash, chunk_size_for,
    store::{ObjectReader, StoreError},
};

/// A published object in memory.
#[derive(Clone, Debug)]
pub struct MemoryObject {
    manifest: Manifest,
    tree: HashTree,
    bytes: Bytes,
    /// Whether the bytes are those that were hashed for the manifest; then no chunk is hashed again.
    is_intact: bool,
}

impl MemoryObject {
    /// Publishes `bytes` as version 1 of a file, with the usual chunk size.
    ///
    /// # Errors
    /// [`ManifestError`] if the name is the root.
    pub fn new(name: Name, bytes: impl Into<Bytes>, key: &SigningKey) -> Result<Self, ManifestError> {
        let bytes = bytes.into();
        let chunk_size = chunk_size_for(bytes.len() as u64);
        Self::with_options(name, bytes, key, 1, ObjectKind::File, chunk_size)
    }
    /// Publishes `bytes` with every field of the manifest chosen.
    ///
    /// # Errors
    /// [`ManifestError`] names the field that breaks its limit.
    pub fn with_options(
        name: Name,
        bytes: impl Into<Bytes>,
        key: &SigningKey,
        version: u64,
        kind: ObjectKind,
        chunk_size: u32,
    ) -> Result<Self, ManifestError> {
        if !(Manifest::CHUNK_SIZE_MIN..=Manifest::CHUNK_SIZE_MAX).contains(&chunk_size) {
            return Err(ManifestError::ChunkSize { chunk_size });
        }
        let bytes = bytes.into();
        let leaves: Vec<_> = bytes.chunks(chunk_size as usize).map(chunk_hash).collect();
        let tree = HashTree::from_leaves(leaves);
        let manifest = Manifest::sign(name, version, kind, bytes.len() as u64, chunk_size, tree.root(), key)?;
        Ok(MemoryObject { manifest, tree, bytes, is_intact: true })
    }
    /// The same object for these readers only; `key` is the one that it was made with.
    #[must_use]
    pub fn restricted(mut self, access: Access, key: &SigningKey) -> Self {
        self.manifest = self.manifest.restricted(access, key);
        self
    }
    /// The same object, marked as sealed: its bytes come from [`ChunkCipher::seal`](crate::ChunkCipher::seal).
    ///
    /// # Errors
    /// [`ManifestError`] if no sealed object has this size.
    pub fn sealed(mut self, key: &SigningKey) -> Result<Self, ManifestError> {
        self.manifest = self.manifest.sealed(key)?;
        Ok(self)
    }
    /// Changes the bytes behind the manifest's back, as a failing disk would.
    pub fn alter(&mut self, change: impl FnOnce(&mut [u8])) {
        let mut bytes = self.bytes.to_vec();
        change(&mut bytes);
        self.bytes = bytes.into();
        self.is_intact = false;
    }
    /// All bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
    /// The hash tree.
    pub fn hash_tree(&self) -> &HashTree {
        &self.tree
    }
}
impl ObjectReader for MemoryObject {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }
    fn tree(&self) -> Bytes {
        self.tree.encode()
    }
    fn read_chunk(&mut self, index: ChunkIndex) -> Result<Bytes, StoreError> {
        let start = usize::try_from(self.manifest.chunk_offset(index)).unwrap_or(usize::MAX);
        let end = start.saturating_add(self.manifest.chunk_len(index) as usize);
        if index.0 >= self.manifest.chunk_count() || end > self.bytes.len() {
            return Err(StoreError::Io {
                operation: "read",
                path: format!("{}", self.manifest.name),
                reason: format!("there is no chunk {}", index.0),
            });
        }
        let chunk = self.bytes.slice(start..end);
        if self.is_intact || self.tree.verify_chunk(index, &chunk) {
            Ok(chunk)
        } else {
            Err(StoreError::Altered { path: format!("{}", self.manifest.name), chunk: index.0 })
        }
    }
}

#[cfg(feature = "std")]
pub use shared::{MemoryContent, MemoryOpener, MemoryStore};

#[cfg(feature = "std")]
mod shared {
    use alloc::{boxed::Box, collections::BTreeMap, format, sync::Arc, vec, vec::Vec};
    use bytes::Bytes;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use crate::{
        Bitmap, ChunkIndex, HashTree, Manifest, Name, ObjectId, PublicKey,
        store::{ChunkStore, StoreError, StoreOpener, Wanted, Wishes},
    };

    /// A view of the content of stores in memory, during and after their use. Clones show the same content.
    #[derive(Clone, Debug, Default)]
    pub struct MemoryContent(Arc<Mutex<Content>>);

    /// What a fetch continues: the same bytes under the same name.
    type Key = (Name, ObjectId);
    fn key_of(manifest: &Manifest) -> Key {
        (manifest.name.clone(), manifest.object_id())
    }

    #[derive(Debug, Default)]
    struct Content {
        objects: BTreeMap<Key, Object>,
        latest: BTreeMap<Name, Key>,
        keys: BTreeMap<Name, PublicKey>,
        pinned: Option<PublicKey>,
        binds_no_key: bool,
        refuse_chunks_after: Option<u64>,
        chunks_put: u64,
        reading: Option<Reading>,
        /// Counts the changes of `reading`.
        version: u64,
    }
    #[derive(Debug)]
    enum Reading {
        InOrder(Option<ChunkIndex>, ChunkIndex),
        Windows(Wanted),
    }
    #[derive(Debug)]
    struct Object {
        bytes: Vec<u8>,
        held: Bitmap,
        tree: Option<HashTree>,
        finished: bool,
    }

    impl MemoryContent {
        /// The bytes of the latest object opened under this name, once it is finished.
        pub fn finished(&self, name: &Name) -> Option<Bytes> {
            let content = self.lock();
            let object = content.objects.get(content.latest.get(name)?)?;
            object.finished.then(|| Bytes::copy_from_slice(&object.bytes))
        }
        /// The chunks held of the object that was opened last under this name.
        pub fn held(&self, name: &Name) -> Option<Bitmap> {
            let content = self.lock();
            Some(content.objects.get(content.latest.get(name)?)?.held.clone())
        }
        /// Makes every store behave as a full disk once `chunks` more chunks are put; `None` frees space again.
        pub fn refuse_chunks_after(&self, chunks: Option<u64>) {
            let mut content = self.lock();
            content.refuse_chunks_after = chunks.map(|chunks| content.chunks_put.saturating_add(chunks));
        }
        /// Makes every store from now on a stream: its reader has taken the chunks before `from` and accepts those
        /// before `until`. Without `from` the store only refuses the other chunks and states no wishes.
        pub fn read_in_order(&self, from: Option<ChunkIndex>, until: Option<ChunkIndex>) {
            let mut content = self.lock();
            content.reading = until.map(|until| Reading::InOrder(from, until));
            content.version += 1;
        }
        /// Sets what every store wants from now on; it accepts every chunk.
        pub fn want(&self, wanted: Wanted) {
            let mut content = self.lock();
            content.reading = Some(Reading::Windows(wanted));
            content.version += 1;
        }
        fn lock(&self) -> MutexGuard<'_, Content> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// Opens stores in memory. A second fetch of the same object finds the chunks of the first.
    #[derive(Clone, Debug, Default)]
    pub struct MemoryOpener {
        content: MemoryContent,
    }

    impl MemoryOpener {
        /// Nothing held; the key of the first complete object of a name is trusted.
        pub fn new() -> Self {
            MemoryOpener::default()
        }
        /// Nothing held; only `key` is trusted.
        pub fn pinned(key: PublicKey) -> Self {
            let opener = MemoryOpener::default();
            opener.content.lock().pinned = Some(key);
            opener
        }
        /// A view of its stores' content.
        pub fn content(&self) -> MemoryContent {
            self.content.clone()
        }
    }
    impl StoreOpener for MemoryOpener {
        fn trusts(&self, manifest: &Manifest) -> Result<(), StoreError> {
            let content = self.content.lock();
            match content.pinned.or_else(|| content.keys.get(&manifest.name).copied()) {
                Some(key) if key != manifest.publisher => Err(StoreError::Untrusted {
                    reason: format!("'{}' is signed by {}, not by {key}", manifest.name, manifest.publisher),
                }),
                _ => Ok(()),
            }
        }
        fn knows_publisher(&self, name: &Name) -> bool {
            let content = self.content.lock();
            content.pinned.is_some() || content.keys.contains_key(name)
        }
        fn bind_no_key(&mut self) {
            self.content.lock().binds_no_key = true;
        }
        fn resumes(&self, manifest: &Manifest) -> bool {
            let content = self.content.lock();
            content.objects.get(&key_of(manifest)).is_some_and(|object| object.held.count() > 0)
        }
        fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
            self.trusts(manifest)?;
            let id = key_of(manifest);
            let mut content = self.content.lock();
            content.latest.insert(manifest.name.clone(), id.clone());
            let length = usize::try_from(manifest.size).unwrap_or(usize::MAX);
            let object = content.objects.entry(id.clone()).or_insert_with(|| Object {
                bytes: vec![0; length],
                held: Bitmap::new(manifest.chunk_count()),
                tree: None,
                finished: false,
            });
            let (held, tree) = (object.held.clone(), object.tree.clone());
            Ok(Box::new(MemoryStore { content: self.content.clone(), manifest: manifest.clone(), id, held, tree }))
        }
    }

    /// One object being fetched into memory.
    #[derive(Debug)]
    pub struct MemoryStore {
        content: MemoryContent,
        manifest: Manifest,
        id: Key,
        held: Bitmap,
        tree: Option<HashTree>,
    }

    impl MemoryStore {
        fn refuse(&self, operation: &'static str, reason: impl Into<alloc::string::String>) -> StoreError {
            StoreError::Io { operation, path: format!("{}", self.manifest.name), reason: reason.into() }
        }
    }
    impl ChunkStore for MemoryStore {
        fn held(&self) -> &Bitmap {
            &self.held
        }
        fn tree(&self) -> Option<&HashTree> {
            self.tree.as_ref()
        }
        fn put_tree(&mut self, tree: &HashTree) -> Result<(), StoreError> {
            if tree.root() != self.manifest.root {
                return Err(self.refuse("keep the tree of", "it has another root"));
            }
            if let Some(object) = self.content.lock().objects.get_mut(&self.id) {
                object.tree = Some(tree.clone());
            }
            self.tree = Some(tree.clone());
            Ok(())
        }
        fn put_chunk(&mut self, index: ChunkIndex, bytes: &[u8]) -> Result<(), StoreError> {
            let need = self.manifest.chunk_len(index) as usize;
            if index.0 >= self.manifest.chunk_count() || bytes.len() != need {
                return Err(self.refuse("write", format!("chunk {} has {need} bytes, not {}", index.0, bytes.len())));
            }
            let content = self.content.clone();
            let mut content = content.lock();
            if content.refuse_chunks_after.is_some_and(|limit| content.chunks_put >= limit) {
                return Err(self.refuse("write", "no space left"));
            }
            content.chunks_put += 1;
            let start = usize::try_from(self.manifest.chunk_offset(index)).unwrap_or(usize::MAX);
            let object = content.objects.get_mut(&self.id).expect("open() made it and nothing removes it");
            object.bytes[start..start + need].copy_from_slice(bytes);
            object.held.set(index);
            self.held.set(index);
            Ok(())
        }
        fn finish(&mut self) -> Result<(), StoreError> {
            let mut content = self.content.lock();
            let is_partial = matches!(content.reading, Some(Reading::Windows(_)));
            if !self.held.is_full() && !is_partial {
                let missing = self.held.len() - self.held.count();
                return Err(self.refuse("finish", format!("{missing} chunks are missing")));
            }
            let (name, publisher) = (self.manifest.name.clone(), self.manifest.publisher);
            let known = match content.binds_no_key {
                true => content.keys.get(&name).copied().unwrap_or(publisher),
                false => *content.keys.entry(name).or_insert(publisher),
            };
            if content.pinned.is_none() && known != self.manifest.publisher {
                let (name, publisher) = (&self.manifest.name, &self.manifest.publisher);
                return Err(StoreError::Untrusted {
                    reason: format!("'{name}' is signed by {publisher}, not by {known}"),
                });
            }
            if let Some(object) = content.objects.get_mut(&self.id) {
                object.finished = true;
            }
            Ok(())
        }
        fn wishes(&self) -> Option<Arc<dyn Wishes>> {
            match self.content.lock().reading {
                None | Some(Reading::InOrder(None, _)) => return None,
                Some(Reading::InOrder(Some(_), _) | Reading::Windows(_)) => {}
            }
            Some(Arc::new(MemoryWishes { content: self.content.clone(), chunks: self.manifest.chunk_count() }))
        }
        fn accepts(&self, index: ChunkIndex) -> bool {
            match self.content.lock().reading {
                Some(Reading::InOrder(_, until)) => index < until,
                Some(Reading::Windows(_)) | None => true,
            }
        }
    }

    struct MemoryWishes {
        content: MemoryContent,
        chunks: u32,
    }
    impl Wishes for MemoryWishes {
        fn wanted(&self) -> Wanted {
            match &self.content.lock().reading {
                Some(Reading::InOrder(from, until)) => {
                    let window = from.map_or(0, |from| from.0)..until.0.min(self.chunks);
                    Wanted { may_change: from.is_some_and(|from| from.0 < self.chunks), ..Wanted::only(window) }
                }
                Some(Reading::Windows(wanted)) => wanted.clone(),
                None => Wanted::only(0..self.chunks),
            }
        }
        fn version(&self) -> u64 {
            self.content.lock().version
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::{StoreOpener, store::ChunkStore};
    use alloc::vec;

    fn object(bytes: Vec<u8>, key: u8) -> MemoryObject {
        let (name, key) = ("/x".parse().expect("a name"), SigningKey::from_secret(&[key; 32]));
        MemoryObject::with_options(name, bytes, &key, 1, ObjectKind::File, 1024).expect("legal")
    }
    fn copy(from: &mut MemoryObject, to: &mut dyn ChunkStore, indices: impl IntoIterator<Item = u32>) {
        for index in indices.into_iter().map(ChunkIndex) {
            let chunk = from.read_chunk(index).expect("it is published");
            to.put_chunk(index, &chunk).expect("there is room");
        }
    }

    #[test]
    fn a_second_fetch_finds_the_chunks_of_the_first() {
        let mut published = object((0..=255).cycle().take(5000).collect(), 1);
        let (manifest, name) = (published.manifest().clone(), published.manifest().name.clone());
        let mut opener = MemoryOpener::new();
        assert!(!opener.resumes(&manifest));
        let mut store = opener.open(&manifest).expect("nothing speaks against it");
        store.put_tree(published.hash_tree()).expect("it matches");
        copy(&mut published, &mut *store, [4, 1]);
        assert!(store.finish().is_err(), "chunks are missing");
        drop(store);

        assert!(opener.resumes(&manifest));
        let mut store = opener.open(&manifest).expect("nothing speaks against it");
        assert_eq!(store.tree(), Some(published.hash_tree()));
        assert!(store.held().iter_set().eq([1, 4]));
        assert_eq!(opener.content().finished(&name), None);
        copy(&mut published, &mut *store, [0, 2, 3]);
        store.finish().expect("all is there");
        assert_eq!(opener.content().finished(&name).as_ref(), Some(published.bytes()));
    }

    #[test]
    fn another_key_for_a_known_name_is_refused() {
        let (ours, theirs) = (object(vec![1; 10], 1), object(vec![1; 10], 2));
        let mut opener = MemoryOpener::new();
        assert!(opener.trusts(theirs.manifest()).is_ok(), "asking must not remember the key");
        let (mut ours, mut theirs) = (ours, theirs);
        let mut stores = [&ours, &theirs].map(|object| opener.open(object.manifest()).expect("nobody is known"));
        copy(&mut ours, &mut *stores[0], [0]);
        copy(&mut theirs, &mut *stores[1], [0]);
        stores[0].finish().expect("all is there");
        assert!(matches!(stores[1].finish(), Err(StoreError::Untrusted { .. })), "another one was complete first");
        assert!(matches!(opener.open(theirs.manifest()), Err(StoreError::Untrusted { .. })));
        let pinned = MemoryOpener::pinned(theirs.manifest().publisher);
        assert!(pinned.trusts(ours.manifest()).is_err() && pinned.trusts(theirs.manifest()).is_ok());
    }

    #[test]
    fn altered_bytes_are_not_served() {
        let mut published = object(vec![7; 3000], 1);
        published.alter(|bytes| bytes[1500] ^= 1);
        assert!(published.read_chunk(ChunkIndex(0)).is_ok());
        assert_eq!(published.read_chunk(ChunkIndex(1)), Err(StoreError::Altered { path: "/x".into(), chunk: 1 }));
        assert!(matches!(published.read_chunk(ChunkIndex(3)), Err(StoreError::Io { .. })));
    }

    #[test]
    fn chunks_of_a_wrong_length_or_index_and_a_full_store_are_errors() {
        let mut published = object(vec![7; 3000], 1);
        let mut opener = MemoryOpener::new();
        let mut store = opener.open(published.manifest()).expect("nothing speaks against it");
        for (index, length) in [(0, 1023), (0, 1025), (2, 1024), (3, 0), (u32::MAX, 1024)] {
            assert!(store.put_chunk(ChunkIndex(index), &vec![7; length]).is_err(), "{index} {length}");
        }
        opener.content().refuse_chunks_after(Some(1));
        copy(&mut published, &mut *store, [0]);
        assert!(store.put_chunk(ChunkIndex(1), &[7; 1024]).is_err());
        assert_eq!(store.held().count(), 1);
        opener.content().refuse_chunks_after(None);
        copy(&mut published, &mut *store, [1]);
    }
}

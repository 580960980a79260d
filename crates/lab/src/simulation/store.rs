//! Published objects, and stores that compare arriving bytes with them.
use bytes::Bytes;
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};
use tributary_content::{
    Bitmap, ChunkIndex, ChunkStore, HashTree, Manifest, MemoryObject, ObjectReader, SigningKey, StoreError, StoreOpener,
};
use tributary_core::Random;

/// An object of `bytes` random bytes, signed by a publisher of the simulation.
///
/// # Panics
/// If `name` is not a name, or the root.
pub fn object(name: &str, bytes: usize, seed: u64) -> MemoryObject {
    let mut random = Random::new(seed, OBJECT_STREAM);
    let mut content = Vec::with_capacity(bytes + 8);
    while content.len() < bytes {
        content.extend_from_slice(&random.bits().to_le_bytes());
    }
    content.truncate(bytes);
    let name = name.parse().expect("objects of a simulation have names that are right");
    MemoryObject::new(name, content, &SigningKey::from_secret(&PUBLISHER)).expect("the name is not the root")
}

/// The random stream of the bytes of objects.
const OBJECT_STREAM: u64 = 0x0b7ec7;
/// The secret key of all publishers in a simulation.
const PUBLISHER: [u8; 32] = [0x51; 32];

/// A published object that can be made unreadable.
pub(super) struct Gated {
    pub(super) inner: Box<dyn ObjectReader>,
    pub(super) serves: Arc<AtomicBool>,
}

impl ObjectReader for Gated {
    fn manifest(&self) -> &Manifest {
        self.inner.manifest()
    }
    fn tree(&self) -> Bytes {
        self.inner.tree()
    }
    fn read_chunk(&mut self, index: ChunkIndex) -> Result<Bytes, StoreError> {
        if self.serves.load(Ordering::Relaxed) {
            return self.inner.read_chunk(index);
        }
        // Only for now: it keeps silent, and may serve again later.
        Err(StoreError::Later { reason: "the scenario stopped this publisher".into() })
    }
}

/// What a fetch has stored; outlives the node that fetches.
#[derive(Clone, Debug, Default)]
pub(super) struct Shelf(Arc<Mutex<Stored>>);

#[derive(Debug, Default)]
struct Stored {
    held: Option<(Manifest, Bitmap, Option<HashTree>)>,
    wrong_chunks: u64,
    is_finished: bool,
}

impl Shelf {
    /// Whether everything arrived and every byte is as it was published.
    pub(super) fn is_right(&self) -> bool {
        let stored = self.lock();
        stored.is_finished && stored.wrong_chunks == 0
    }
    /// Chunks given to the store that differ from the published ones: always zero, or a bug.
    pub(super) fn wrong_chunks(&self) -> u64 {
        self.lock().wrong_chunks
    }
    fn lock(&self) -> MutexGuard<'_, Stored> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a store that keeps no bytes but compares them with the objects of the scenario.
pub(super) struct Comparing {
    pub(super) shelf: Shelf,
    pub(super) objects: Arc<Vec<MemoryObject>>,
}

impl StoreOpener for Comparing {
    fn trusts(&self, _: &Manifest) -> Result<(), StoreError> {
        Ok(())
    }
    fn resumes(&self, manifest: &Manifest) -> bool {
        let stored = self.shelf.lock();
        stored.held.as_ref().is_some_and(|(of, held, _)| of.object_id() == manifest.object_id() && held.count() > 0)
    }
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
        let mut stored = self.shelf.lock();
        let fresh = || (manifest.clone(), Bitmap::new(manifest.chunk_count()), None);
        let (of, held, tree) = stored.held.get_or_insert_with(fresh);
        if of.object_id() != manifest.object_id() {
            (*of, *held, *tree) = fresh();
        }
        let (held, tree) = (held.clone(), tree.clone());
        let original = self.objects.iter().find(|object| object.manifest().object_id() == manifest.object_id());
        let original = original.map(|object| object.bytes().clone());
        Ok(Box::new(Store { shelf: self.shelf.clone(), manifest: manifest.clone(), original, held, tree }))
    }
}

struct Store {
    shelf: Shelf,
    manifest: Manifest,
    /// The published bytes; `None` if no node published this object.
    original: Option<Bytes>,
    held: Bitmap,
    tree: Option<HashTree>,
}

impl ChunkStore for Store {
    fn held(&self) -> &Bitmap {
        &self.held
    }
    fn tree(&self) -> Option<&HashTree> {
        self.tree.as_ref()
    }
    fn put_tree(&mut self, tree: &HashTree) -> Result<(), StoreError> {
        self.tree = Some(tree.clone());
        if let Some((.., kept)) = &mut self.shelf.lock().held {
            *kept = Some(tree.clone());
        }
        Ok(())
    }
    fn put_chunk(&mut self, index: ChunkIndex, bytes: &[u8]) -> Result<(), StoreError> {
        let start = usize::try_from(self.manifest.chunk_offset(index)).unwrap_or(usize::MAX);
        let expected = self.original.as_ref().and_then(|all| all.get(start..start.saturating_add(bytes.len())));
        let mut stored = self.shelf.lock();
        stored.wrong_chunks += u64::from(expected != Some(bytes));
        if let Some((_, held, _)) = &mut stored.held {
            held.set(index);
        }
        self.held.set(index);
        Ok(())
    }
    fn finish(&mut self) -> Result<(), StoreError> {
        self.shelf.lock().is_finished = true;
        Ok(())
    }
}

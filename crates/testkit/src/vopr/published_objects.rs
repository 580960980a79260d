//! The objects that were really published, and stores that compare with them before they keep anything.
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tributary_content::{
    Bitmap, ChunkIndex, ChunkStore, HadStore, HashTree, Manifest, MemoryContent, MemoryObject, MemoryOpener, Name,
    ObjectId, ObjectKind, ObjectReader, PublicKey, SigningKey, StoreAnswer, StoreError, StoreOpener, StoreTask,
};
use tributary_core::{Random, Time};

use super::{canary::Canary, disk::Pace, workload::ObjectSpec};

/// Who publishes, and who pretends to.
pub(super) fn key(honest: bool) -> SigningKey {
    SigningKey::from_secret(&[if honest { 7 } else { 66 }; 32])
}

/// The object that a plan means; with the key of the imposter, other bytes under the same name.
pub(super) fn make_object(seed: u64, number: usize, spec: &ObjectSpec, version: u64, honest: bool) -> MemoryObject {
    let stream = (number as u64) << 16 | version << 1 | u64::from(honest);
    let mut random = Random::new(seed, 0x0b1e_c700_0000 + stream);
    let len = spec.sizes[version as usize - 1] as usize;
    let bytes: Bytes = (0..len.div_ceil(8)).flat_map(|_| random.bits().to_le_bytes()).take(len).collect();
    let name = spec.name.parse().expect("plans have legal names");
    MemoryObject::with_options(name, bytes, &key(honest), version, ObjectKind::File, spec.chunk_size)
        .expect("plans keep the limits of manifests")
}

/// All bytes that were published with the trusted key.
#[derive(Debug, Default)]
pub(super) struct Truth(Mutex<BTreeMap<ObjectId, (Name, Bytes)>>);

impl Truth {
    pub(super) fn add(&self, object: &MemoryObject) {
        let manifest = object.manifest();
        let entry = (manifest.name.clone(), object.bytes().clone());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(manifest.publication_id(), entry);
    }
    fn bytes(&self, object: &ObjectId) -> Option<Bytes> {
        let objects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        objects.get(object).map(|(_, bytes)| bytes.clone())
    }
    /// Whether these are the bytes of any version of the name.
    pub(super) fn has(&self, name: &Name, bytes: &Bytes) -> bool {
        let objects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        objects.values().any(|(published, truth)| published == name && truth == bytes)
    }
}

/// A receiver's storage: stores in memory that panic when they get an unpublished byte, and that lose unsynced data
/// when their machine loses power.
#[derive(Clone)]
pub(super) struct Vault {
    memory: Arc<Mutex<MemoryOpener>>,
    pinned: Option<PublicKey>,
    disk: Arc<Mutex<Vec<OnDisk>>>,
    /// How often each object was reported complete.
    complete: Arc<Mutex<BTreeMap<Name, u32>>>,
    /// Complete pushed objects: an inbox refuses them from then on.
    had: Deliveries,
    /// How fast its stores are; `None` if they answer at once.
    pace: Option<Pace>,
    truth: Arc<Truth>,
    canary: Option<Canary>,
}

/// Sendings that came whole.
type Deliveries = Arc<Mutex<BTreeSet<Vec<u8>>>>;

/// What the disk of a receiver has of one object; the one that was opened last is the last one.
struct OnDisk {
    manifest: Manifest,
    held: BTreeSet<u32>,
    synced: BTreeSet<u32>,
    is_finished: bool,
}

impl Vault {
    /// An empty one that trusts `pinned` only, or the first key that it sees.
    pub(super) fn new(truth: &Arc<Truth>, pinned: Option<PublicKey>, canary: Option<Canary>) -> Vault {
        let memory = Arc::new(Mutex::new(opener(pinned)));
        let disk = Arc::default();
        let (complete, had) = (Arc::default(), Arc::default());
        Vault { memory, pinned, disk, complete, had, pace: None, truth: Arc::clone(truth), canary }
    }
    /// Makes its stores asynchronous.
    pub(super) fn with_pace(self, pace: Option<Pace>) -> Vault {
        Vault { pace, ..self }
    }
    pub(super) fn content(&self) -> MemoryContent {
        lock(&self.memory).content()
    }
    /// The objects reported complete, and how often, in all lives of the node.
    pub(super) fn complete(&self) -> BTreeMap<Name, u32> {
        lock(&self.complete).clone()
    }
    /// Bytes of an object that a loss of power leaves; `None` if all of it is whole under its name.
    pub(super) fn durable_bytes(&self, object: &ObjectId) -> Option<u64> {
        let disk = lock(&self.disk);
        let Some(one) = disk.iter().find(|one| one.manifest.publication_id() == *object) else { return Some(0) };
        let len = |chunk: &u32| u64::from(one.manifest.chunk_len(ChunkIndex(*chunk)));
        (!one.is_finished).then(|| one.synced.iter().map(len).sum())
    }
    /// Whether anything of an object has come.
    pub(super) fn has_some_of(&self, object: &ObjectId) -> bool {
        lock(&self.disk).iter().any(|one| one.manifest.publication_id() == *object)
    }
    /// The machine loses power: a part of the unsynced data stays.
    pub(super) fn lose_power(&self, random: &mut Random) {
        let mut memory = opener(self.pinned);
        for one in lock(&self.disk).iter_mut() {
            one.held.retain(|chunk| one.is_finished || one.synced.contains(chunk) || random.chance(0.5));
            one.synced.clone_from(&one.held);
            let (Ok(mut store), Some(truth)) =
                (memory.open(&one.manifest), self.truth.bytes(&one.manifest.publication_id()))
            else {
                continue;
            };
            for index in one.held.iter().copied().map(ChunkIndex) {
                let start = one.manifest.chunk_offset(index) as usize;
                let chunk = truth.slice(start..start + one.manifest.chunk_len(index) as usize);
                store.put_chunk(index, &chunk).expect("there is room in memory");
            }
            if one.is_finished {
                store.finish().expect("there is room in memory");
            }
        }
        *lock(&self.memory) = memory;
    }
}
fn opener(pinned: Option<PublicKey>) -> MemoryOpener {
    pinned.map_or_else(MemoryOpener::new, MemoryOpener::pinned)
}
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
impl StoreOpener for Vault {
    fn trusts(&self, manifest: &Manifest) -> Result<(), StoreError> {
        lock(&self.memory).trusts(manifest)
    }
    fn knows_publisher(&self, name: &Name) -> bool {
        lock(&self.memory).knows_publisher(name)
    }
    fn bind_no_key(&mut self) {
        lock(&self.memory).bind_no_key();
    }
    fn resumes(&self, manifest: &Manifest) -> bool {
        lock(&self.memory).resumes(manifest)
    }
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
        self.open_watched(manifest).map(|store| Box::new(store) as Box<dyn ChunkStore>)
    }
    fn open_sent(&mut self, manifest: &Manifest, delivery: &[u8]) -> Result<Box<dyn ChunkStore>, StoreError> {
        if lock(&self.had).contains(delivery) {
            return Ok(Box::new(HadStore::new(manifest)));
        }
        let mut store = self.open_watched(manifest)?;
        store.delivery = Some((Arc::clone(&self.had), delivery.into()));
        Ok(Box::new(store))
    }
}
impl Vault {
    fn open_watched(&mut self, manifest: &Manifest) -> Result<WatchedStore, StoreError> {
        let inner = lock(&self.memory).open(manifest)?;
        let Some(truth) = self.truth.bytes(&manifest.publication_id()) else {
            panic!("a store was opened for '{}' version {}, which nobody published", manifest.name, manifest.version);
        };
        let mut disk = lock(&self.disk);
        let known = disk.iter().position(|one| one.manifest.publication_id() == manifest.publication_id());
        let known = known.map(|at| disk.remove(at));
        let synced = known.map(|one| one.synced).unwrap_or_default();
        let held: BTreeSet<u32> = inner.held().iter_set().collect();
        let synced = synced.intersection(&held).copied().collect();
        disk.push(OnDisk { manifest: manifest.clone(), held, synced, is_finished: false });
        drop(disk);
        let (complete, disk) = (Arc::clone(&self.complete), Arc::clone(&self.disk));
        let (manifest, pace, canary) = (manifest.clone(), self.pace.clone(), self.canary);
        let waiting = VecDeque::new();
        Ok(WatchedStore { inner, truth, complete, disk, manifest, canary, pace, waiting, delivery: None })
    }
}

struct WatchedStore {
    inner: Box<dyn ChunkStore>,
    truth: Bytes,
    complete: Arc<Mutex<BTreeMap<Name, u32>>>,
    disk: Arc<Mutex<Vec<OnDisk>>>,
    manifest: Manifest,
    canary: Option<Canary>,
    pace: Option<Pace>,
    /// Running tasks, with the times at which they end.
    waiting: VecDeque<(Time, StoreTask)>,
    /// What remembers that it came whole, if it was sent unasked.
    delivery: Option<(Deliveries, Vec<u8>)>,
}

impl WatchedStore {
    fn on_disk(&self, change: impl FnOnce(&mut OnDisk)) {
        let mut disk = lock(&self.disk);
        let own = disk.iter_mut().find(|one| one.manifest.publication_id() == self.manifest.publication_id());
        if let Some(own) = own {
            change(own);
        }
    }
}
impl ChunkStore for WatchedStore {
    fn begin(&mut self, task: StoreTask) -> Result<Option<StoreAnswer>, StoreError> {
        let Some(pace) = &self.pace else { return self.perform(task).map(Some) };
        let due = pace.begin(self.waiting.back().map(|(due, _)| *due));
        self.waiting.push_back((due, task));
        Ok(None)
    }
    fn poll_answer(&mut self) -> Result<Option<StoreAnswer>, StoreError> {
        let is_done = |pace: &Pace| self.waiting.front().is_some_and(|(due, _)| pace.is_done(*due));
        if !self.pace.as_ref().is_some_and(is_done) {
            return Ok(None);
        }
        let Some((_, task)) = self.waiting.pop_front() else { return Ok(None) };
        self.perform(task).map(Some)
    }
    fn held(&self) -> &Bitmap {
        self.inner.held()
    }
    fn tree(&self) -> Option<&HashTree> {
        self.inner.tree()
    }
    fn put_tree(&mut self, tree: &HashTree) -> Result<(), StoreError> {
        self.inner.put_tree(tree)
    }
    fn put_chunk(&mut self, index: ChunkIndex, bytes: &[u8]) -> Result<(), StoreError> {
        let start = usize::try_from(self.manifest.chunk_offset(index)).unwrap_or(usize::MAX);
        let truth = self.truth.get(start..start.saturating_add(bytes.len()));
        assert!(
            truth == Some(bytes),
            "chunk {} of '{}' version {} was given to the store with bytes that nobody published",
            index.0,
            self.manifest.name,
            self.manifest.version
        );
        if self.canary == Some(Canary::BadByte) {
            let mut bytes = bytes.to_vec();
            bytes[0] ^= 1;
            return self.inner.put_chunk(index, &bytes);
        }
        self.inner.put_chunk(index, bytes)?;
        self.on_disk(|one| _ = one.held.insert(index.0));
        Ok(())
    }
    fn sync(&mut self) -> Result<(), StoreError> {
        self.inner.sync()?;
        self.on_disk(|one| one.synced.clone_from(&one.held));
        Ok(())
    }
    /// As the product's inbox does, which syncs an object before it gets its name.
    fn finish(&mut self) -> Result<(), StoreError> {
        self.inner.finish()?;
        self.on_disk(|one| one.is_finished = true);
        if let Some((had, delivery)) = &self.delivery {
            lock(had).insert(delivery.clone());
        }
        *lock(&self.complete).entry(self.manifest.name.clone()).or_default() += 1;
        Ok(())
    }
}

/// A published object with some chunks that do not match the manifest.
pub(super) struct FaultyReader {
    pub(super) inner: MemoryObject,
    pub(super) share: f64,
    pub(super) seed: u64,
}
impl ObjectReader for FaultyReader {
    fn manifest(&self) -> &Manifest {
        self.inner.manifest()
    }
    fn tree(&self) -> Bytes {
        self.inner.tree()
    }
    fn read_chunk(&mut self, index: ChunkIndex) -> Result<Bytes, StoreError> {
        let chunk = self.inner.read_chunk(index)?;
        let mut random = Random::new(self.seed, u64::from(index.0));
        if chunk.is_empty() || !random.chance(self.share) {
            return Ok(chunk);
        }
        let mut bytes = chunk.to_vec();
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
        Ok(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_cut_leaves_what_was_synced_or_finished_and_some_of_the_rest() {
        let spec = |name: &str| ObjectSpec {
            name: name.into(),
            sizes: vec![200_000],
            chunk_size: 1_024,
            publishers: Vec::new(),
        };
        let (truth, mut random) = (Arc::new(Truth::default()), Random::new(1, 1));
        let mut vault = Vault::new(&truth, None, None);
        for (number, name) in ["/part", "/whole"].into_iter().enumerate() {
            let mut object = make_object(1, number, &spec(name), 1, true);
            truth.add(&object);
            let manifest = object.manifest().clone();
            let mut store = vault.open(&manifest).expect("memory");
            for index in (0..manifest.chunk_count()).map(ChunkIndex) {
                store.put_chunk(index, &object.read_chunk(index).expect("memory")).expect("memory");
                if index.0 == 49 {
                    store.sync().expect("memory");
                }
            }
            if number == 1 {
                store.finish().expect("memory");
            }
        }
        vault.lose_power(&mut random);
        let held = vault.content().held(&"/part".parse().expect("a name")).expect("it was begun");
        assert!((0..50).all(|index| held.get(ChunkIndex(index))), "what was synced is there");
        assert!((70..120).contains(&(held.count() - 50)), "of 146 others some are: {}", held.count() - 50);
        assert!(vault.content().finished(&"/whole".parse().expect("a name")).is_some());
    }
}

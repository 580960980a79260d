//! An inbox for pushed objects, on a disk that loses unsynced data when its machine is killed.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tributary_content::{Bitmap, ChunkIndex, ChunkStore, HadStore, HashTree, Manifest, Name, StoreError, StoreOpener};

/// An inbox. Clones are the same.
///
/// It keeps the numbers of the chunks that it has, and not their bytes: its caller has verified them.
#[derive(Clone, Debug, Default)]
pub struct Inbox(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// By delivery: the chunks that the process has written, and which of them are synced.
    parts: BTreeMap<Vec<u8>, (Part, Part)>,
    /// Deliveries that are whole under their names.
    complete: BTreeMap<Vec<u8>, Name>,
    /// How often an object of each name became whole.
    came: BTreeMap<Name, u32>,
    /// How many more are accepted; all if unlimited.
    left: Option<u64>,
    syncs: u64,
}

#[derive(Clone, Debug)]
struct Part {
    held: Bitmap,
    tree: Option<HashTree>,
}

impl Inbox {
    /// The machine is killed: unsynced chunks are lost.
    pub fn crash(&self) {
        self.state().parts.values_mut().for_each(|(written, synced)| *written = synced.clone());
    }
    /// From now on it accepts up to this many further objects.
    pub fn take_only(&self, count: Option<u64>) {
        self.state().left = count;
    }
    /// Names of complete objects, and how often each arrived.
    pub fn came(&self) -> BTreeMap<Name, u32> {
        self.state().came.clone()
    }
    /// How many are whole.
    pub fn count(&self) -> usize {
        self.state().complete.len()
    }
    /// How often it was waited for the disk.
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoreOpener for Inbox {
    fn trusts(&self, _: &Manifest) -> Result<(), StoreError> {
        Ok(())
    }
    fn resumes(&self, _: &Manifest) -> bool {
        false
    }
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
        let delivery = manifest.name.to_string().into_bytes();
        self.open_sent(manifest, &delivery)
    }
    fn open_sent(&mut self, manifest: &Manifest, delivery: &[u8]) -> Result<Box<dyn ChunkStore>, StoreError> {
        let mut state = self.state();
        if state.complete.contains_key(delivery) {
            return Ok(Box::new(HadStore::new(manifest)));
        }
        match &mut state.left {
            Some(0) => return Err(StoreError::Later { reason: "nothing more is wanted".into() }),
            Some(left) => *left -= 1,
            None => {}
        }
        let none = Part { held: Bitmap::new(manifest.chunk_count()), tree: None };
        let (written, _) = state.parts.entry(delivery.into()).or_insert_with(|| (none.clone(), none));
        let part = written.clone();
        drop(state);
        Ok(Box::new(Store { inbox: self.clone(), delivery: delivery.into(), manifest: manifest.clone(), part }))
    }
}

struct Store {
    inbox: Inbox,
    delivery: Vec<u8>,
    manifest: Manifest,
    part: Part,
}

impl Store {
    fn write(&self, is_synced: bool) {
        let mut state = self.inbox.state();
        state.syncs += u64::from(is_synced);
        if let Some((written, synced)) = state.parts.get_mut(&self.delivery) {
            *written = self.part.clone();
            if is_synced {
                *synced = self.part.clone();
            }
        }
    }
}
impl ChunkStore for Store {
    fn held(&self) -> &Bitmap {
        &self.part.held
    }
    fn tree(&self) -> Option<&HashTree> {
        self.part.tree.as_ref()
    }
    fn put_tree(&mut self, tree: &HashTree) -> Result<(), StoreError> {
        self.part.tree = Some(tree.clone());
        self.write(false);
        Ok(())
    }
    fn put_chunk(&mut self, index: ChunkIndex, _: &[u8]) -> Result<(), StoreError> {
        self.part.held.set(index);
        self.write(false);
        Ok(())
    }
    fn sync(&mut self) -> Result<(), StoreError> {
        self.write(true);
        Ok(())
    }
    fn finish(&mut self) -> Result<(), StoreError> {
        let mut state = self.inbox.state();
        state.parts.remove(&self.delivery);
        state.syncs += 1;
        let is_new = state.complete.insert(self.delivery.clone(), self.manifest.name.clone()).is_none();
        assert!(is_new, "'{}' is whole twice", self.manifest.name);
        *state.came.entry(self.manifest.name.clone()).or_default() += 1;
        Ok(())
    }
}

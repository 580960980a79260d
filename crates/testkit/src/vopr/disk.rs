//! The disk of a node, which outlives it: what was committed survives a kill and a power cut, of the rest some may.
//!
//! ```text
//!   node ── put, remove ──► doing ── commit ──► begun ── due ──► durable
//!                             │                   │
//!                             └── kill: each of these may have reached the disk, or not
//! ```
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tributary_core::{Duration, Random, Time};

/// The time of the simulation, for what a node does by a clock that goes on while it is dead.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    /// Sets it; it never goes back.
    pub fn set(&self, now: Time) {
        self.0.fetch_max(now.as_nanos(), Ordering::Relaxed);
    }
    /// The time.
    pub fn now(&self) -> Time {
        Time::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// What ails a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Trouble {
    /// Nothing.
    #[default]
    None,
    /// It has no room: nothing more can be put.
    Full,
    /// Commits fail now and then.
    Fails,
}

/// The disk of one node. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct Disk {
    clock: Clock,
    content: Arc<Mutex<Content>>,
}

#[derive(Debug)]
struct Content {
    random: Random,
    trouble: Trouble,
    shelves: BTreeMap<&'static str, Shelf>,
}

/// One repository on a disk.
#[derive(Debug, Default)]
struct Shelf {
    durable: BTreeMap<u64, Kept>,
    /// Done since the last commit began, the first one first.
    doing: Vec<Change>,
    /// Commits that were begun, each with when it is done.
    begun: VecDeque<(Time, Vec<Change>)>,
}
type Kept = (Vec<u8>, bytes::Bytes);
#[derive(Clone, Debug)]
enum Change {
    Put(u64, Kept),
    Remove(u64),
}

impl Shelf {
    fn apply(&mut self, change: Change) {
        match change {
            Change::Put(id, kept) => drop(self.durable.insert(id, kept)),
            Change::Remove(id) => drop(self.durable.remove(&id)),
        }
    }
    /// What the node sees: all that it has done.
    fn get(&self, id: u64) -> Option<&Kept> {
        let changes = self.begun.iter().flat_map(|(_, changes)| changes).chain(&self.doing);
        let last =
            changes.filter(|change| matches!(change, Change::Put(of, _) | Change::Remove(of) if *of == id)).last();
        match last {
            Some(Change::Put(_, kept)) => Some(kept),
            Some(Change::Remove(_)) => None,
            None => self.durable.get(&id),
        }
    }
    fn undone(&mut self) -> Vec<Change> {
        let begun = std::mem::take(&mut self.begun).into_iter().flat_map(|(_, changes)| changes);
        begun.chain(std::mem::take(&mut self.doing)).collect()
    }
}

impl Disk {
    /// An empty one. `random` decides how long it takes and what a kill leaves.
    pub fn new(clock: Clock, random: Random) -> Disk {
        let content = Content { random, trouble: Trouble::None, shelves: BTreeMap::new() };
        Disk { clock, content: Arc::new(Mutex::new(content)) }
    }
    /// What ails it from now on.
    pub fn set_trouble(&self, trouble: Trouble) {
        self.lock().trouble = trouble;
    }
    /// The node was killed, or the machine lost power: what was not committed may be there or not, each by itself.
    pub fn crash(&self) {
        let mut content = self.lock();
        let Content { random, shelves, .. } = &mut *content;
        for shelf in shelves.values_mut() {
            for change in shelf.undone() {
                if random.chance(0.5) {
                    shelf.apply(change);
                }
            }
        }
    }
    /// The node has ended in order: what was begun is done.
    pub fn close(&self) {
        for shelf in self.lock().shelves.values_mut() {
            shelf.undone().into_iter().for_each(|change| shelf.apply(change));
        }
    }
    /// It is another disk, an empty one.
    pub fn wipe(&self) {
        self.lock().shelves.clear();
    }
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a disk takes for a commit at most.
const COMMIT_MAX: Duration = Duration::from_millis(25);

#[cfg(feature = "mf")]
mod repository {
    use bytes::Bytes;
    use tributary_content::StoreError;
    use tributary_core::Duration;
    use tributary_mf::{payload::Payload, router::proxy::ChunkRepository};

    use super::{COMMIT_MAX, Change, Content, Disk, Trouble};

    impl Disk {
        /// The repository of this name on it.
        pub fn repository(&self, name: &'static str) -> Box<dyn ChunkRepository> {
            self.lock().shelves.entry(name).or_default();
            Box::new(Repository { disk: self.clone(), name })
        }
    }

    struct Repository {
        disk: Disk,
        name: &'static str,
    }

    impl Repository {
        fn on_shelf<R>(&mut self, work: impl FnOnce(&mut super::Shelf) -> R) -> R {
            work(self.disk.lock().shelves.entry(self.name).or_default())
        }
    }
    impl ChunkRepository for Repository {
        fn put(&mut self, id: u64, head: &[u8], payload: &Payload) -> Result<(), StoreError> {
            let kept = (head.to_vec(), Bytes::from(payload.pieces().concat()));
            self.on_shelf(|shelf| shelf.doing.push(Change::Put(id, kept)));
            Ok(())
        }
        fn remove(&mut self, id: u64) -> Result<(), StoreError> {
            self.on_shelf(|shelf| shelf.doing.push(Change::Remove(id)));
            Ok(())
        }
        fn commit(&mut self) -> Result<(), StoreError> {
            let now = self.disk.clock.now();
            let mut content = self.disk.lock();
            let Content { random, shelves, .. } = &mut *content;
            // A disk is fast as a rule, and now and then it is not.
            let due = if random.chance(0.3) { now } else { now + COMMIT_MAX.mul_f64(random.unit()) };
            let shelf = shelves.entry(self.name).or_default();
            let changes = std::mem::take(&mut shelf.doing);
            shelf.begun.push_back((due, changes));
            Ok(())
        }
        fn is_committed(&mut self) -> Result<bool, StoreError> {
            let now = self.disk.clock.now();
            let mut content = self.disk.lock();
            let Content { random, shelves, trouble } = &mut *content;
            let shelf = shelves.entry(self.name).or_default();
            while let Some((due, changes)) = shelf.begun.pop_front() {
                if due > now {
                    shelf.begun.push_front((due, changes));
                    return Ok(false);
                }
                let puts = changes.iter().any(|change| matches!(change, Change::Put(..)));
                let fails = match trouble {
                    Trouble::None => false,
                    Trouble::Full => puts,
                    Trouble::Fails => random.chance(0.5),
                };
                if fails {
                    // What was put counts for nothing; what was removed is so with the next commit.
                    let removes = changes.into_iter().filter(|change| matches!(change, Change::Remove(_)));
                    shelf.doing.splice(0..0, removes);
                    let reason =
                        if *trouble == Trouble::Full { "no space left on device" } else { "input/output error" };
                    return Err(error("commit", reason));
                }
                changes.into_iter().for_each(|change| shelf.apply(change));
            }
            Ok(true)
        }
        fn read(&mut self, id: u64) -> Result<Bytes, StoreError> {
            let found = self.on_shelf(|shelf| shelf.get(id).map(|(_, payload)| payload.clone()));
            found.ok_or_else(|| error("read a chunk of", "there is no such chunk"))
        }
        fn list(&mut self) -> Result<Vec<(u64, Vec<u8>, u64)>, StoreError> {
            let kept = |(id, (head, payload)): (&u64, &super::Kept)| (*id, head.clone(), payload.len() as u64);
            Ok(self.on_shelf(|shelf| shelf.durable.iter().map(kept).collect()))
        }
        fn clock(&self) -> Duration {
            self.disk.clock.now().since(tributary_core::Time::ZERO)
        }
    }
    fn error(operation: &'static str, reason: &str) -> StoreError {
        StoreError::Io { operation, path: "the store".into(), reason: reason.into() }
    }
}

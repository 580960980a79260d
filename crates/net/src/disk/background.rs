//! Disk work on separate threads, so that a node's thread never waits for a disk.
//!
//! ```text
//!   node's thread                         thread of a store            threads of readers
//!   BackgroundStore ── begin(task) ─────► open, put, finish
//!        ▲  poll_answer ◄──────────────── answer, in order; Bell
//!   FileObject ── begin_read(chunk) ─────────────────────────────────► read, verify
//!        ▲  poll_read ◄──────────────────────────────────────────────── chunk; Bell
//! ```
use parking_lot::{Condvar, Mutex};
use std::{
    collections::VecDeque,
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, TryRecvError, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use tributary_content::{
    Bitmap, ChunkIndex, ChunkStore, HashTree, Manifest, StoreAnswer, StoreError, StoreTask, Wishes,
};

use super::{io_error, refusal};
use crate::bell::Bell;

/// Threads that read published objects, of one node.
const READERS: usize = 2;
/// How long a refused opening waits before it tries again whether an abandoned store has released its files.
const RELEASE_LOOK: Duration = Duration::from_millis(10);

/// The threads that do a node's disk work. Clones share the same threads.
///
/// When the last clone is dropped, or by [`Storage::wait`], operations in progress are completed: stopping a node loses
/// no verified chunk.
#[derive(Clone, Default)]
pub struct Storage(Arc<Shared>);

#[derive(Default)]
struct Shared {
    bell: Bell,
    reads: Arc<Reads>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Abandoned stores that have not released their files yet.
    abandoned: Arc<AtomicUsize>,
}
#[derive(Default)]
struct Reads {
    queue: Mutex<ReadQueue>,
    changed: Condvar,
}
#[derive(Default)]
struct ReadQueue {
    jobs: VecDeque<ReadJob>,
    readers: usize,
    is_closed: bool,
}
type ReadJob = Box<dyn FnOnce() + Send>;

impl Storage {
    /// What its threads ring; to be given to the node's driver.
    pub fn bell(&self) -> &Bell {
        &self.0.bell
    }
    /// Waits until all operations of abandoned stores are done. To be called after the node's end.
    pub fn wait(&self) {
        self.0.wait();
    }
    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = thread::Builder::new().name(name.into()).spawn(work)?;
        let mut threads = self.0.threads.lock();
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
        Ok(())
    }
    /// Runs `job` on one of the readers.
    pub(super) fn read(&self, job: impl FnOnce() + Send + 'static) {
        let mut queue = self.0.reads.queue.lock();
        queue.jobs.push_back(Box::new(job));
        let needs_reader = queue.readers < READERS.min(queue.jobs.len());
        queue.readers += usize::from(needs_reader);
        drop(queue);
        self.0.reads.changed.notify_one();
        let reads = Arc::clone(&self.0.reads);
        if needs_reader && let Err(error) = self.spawn("read", move || reads.run()) {
            // The existing readers do it; without any the object cannot be read, which is logged.
            tracing::error!(%error, "no thread to read with");
            self.0.reads.queue.lock().readers -= 1;
        }
    }
    /// Opens a store by `open` on a new thread, which carries out all its operations. The node's end returns
    /// immediately.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the system has no more threads.
    pub fn open_store(
        &self,
        manifest: &Manifest,
        mut open: impl FnMut() -> Result<Box<dyn ChunkStore>, StoreError> + Send + 'static,
    ) -> Result<BackgroundStore, StoreError> {
        let (ask, tasks) = channel();
        let (reply_to, answers) = channel();
        let (bell, abandoned) = (self.0.bell.clone(), Arc::clone(&self.0.abandoned));
        let life = Arc::new(());
        let theirs = Arc::clone(&life);
        let work = move || {
            let opened = loop {
                match open() {
                    // An earlier store of the same file may still be writing chunks verified before it was abandoned.
                    // Retrying helps neither a missing key of a sealed object nor a missing part.
                    Err(error)
                        if !matches!(error, StoreError::Sealed { .. } | StoreError::Absent { .. })
                            && abandoned.load(Ordering::Acquire) > 0
                            && Arc::strong_count(&theirs) > 1 =>
                    {
                        thread::sleep(RELEASE_LOOK);
                    }
                    opened => break opened,
                }
            };
            serve(opened, tasks, &reply_to, &bell);
            // If the node's end was dropped while this one lived, its drop has counted this store.
            if Arc::into_inner(theirs).is_some() {
                abandoned.fetch_sub(1, Ordering::AcqRel);
            }
        };
        self.spawn("disk", work).map_err(|error| io_error("start a thread for", Path::new("disk"), &error))?;
        Ok(BackgroundStore {
            held: Bitmap::new(manifest.chunk_count()),
            tree: None,
            is_open: false,
            is_finished: false,
            own: None,
            wishes: None,
            ask: Some(ask),
            answers,
            life: Some(life),
            abandoned: Arc::clone(&self.0.abandoned),
        })
    }
}
impl Shared {
    fn wait(&self) {
        self.reads.queue.lock().is_closed = true;
        self.reads.changed.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock());
        // One of them may be the last owner of all this.
        let rest = threads.into_iter().filter(|other| other.thread().id() != thread::current().id());
        rest.for_each(|thread| drop(thread.join()));
        let mut queue = self.reads.queue.lock();
        (queue.is_closed, queue.readers) = (false, 0);
    }
}
impl Drop for Shared {
    fn drop(&mut self) {
        self.wait();
    }
}
impl Reads {
    fn run(&self) {
        let mut queue = self.queue.lock();
        loop {
            if queue.is_closed {
                return;
            }
            match queue.jobs.pop_front() {
                Some(job) => {
                    drop(queue);
                    job();
                    queue = self.queue.lock();
                }
                None => self.changed.wait(&mut queue),
            }
        }
    }
}

/// A message of a store's thread.
enum Done {
    /// The store is open: the chunks held, the tree and its wishes.
    Opened(Bitmap, Option<Box<HashTree>>, Option<Arc<dyn Wishes>>),
    /// It is open and never waits for a disk: the node's thread calls it itself.
    Own(Box<dyn ChunkStore>),
    /// An answer; with the chunks held if they differ from the earlier ones plus the chunk that was put.
    Answer(StoreAnswer, Option<Bitmap>),
}

/// Carries out the operations of a store until its node's end is dropped.
fn serve(
    opened: Result<Box<dyn ChunkStore>, StoreError>,
    tasks: Receiver<StoreTask>,
    reply_to: &Sender<Result<Done, StoreError>>,
    bell: &Bell,
) {
    // Operations are carried out even without the node's end.
    let answer_with = |done| {
        let _ = reply_to.send(done);
        bell.ring();
    };
    let mut store = match opened {
        Ok(store) if store.never_waits() => return answer_with(Ok(Done::Own(store))),
        Ok(store) => store,
        Err(error) => return answer_with(Err(error)),
    };
    answer_with(Ok(Done::Opened(store.held().clone(), store.tree().cloned().map(Box::new), store.wishes())));
    while let Ok(task) = tasks.recv() {
        let is_tree = matches!(task, StoreTask::Tree(_));
        let expected = store.held().count() + u32::from(matches!(task, StoreTask::Chunk(..)));
        match store.begin(task) {
            Ok(Some(answer)) => {
                let is_last = answer == StoreAnswer::Finished;
                // A store may drop chunks that do not match the tree, and find others on the disk.
                let is_other = is_tree || store.held().count() != expected;
                answer_with(Ok(Done::Answer(answer, is_other.then(|| store.held().clone()))));
                if is_last {
                    // The files are released. Operations that the node requests before it learns of the end need no
                    // answer.
                    drop(store);
                    return tasks.into_iter().for_each(drop);
                }
            }
            // This store answers at once.
            Ok(None) => {}
            Err(error) => answer_with(Err(error)),
        }
    }
}

/// The node's end of a store that works on a separate thread. When it is dropped, the thread completes its operations;
/// it is not joined.
pub struct BackgroundStore {
    held: Bitmap,
    tree: Option<HashTree>,
    is_open: bool,
    /// The object has its name: the thread has nothing more to do, and ends with this.
    is_finished: bool,
    own: Option<Box<dyn ChunkStore>>,
    wishes: Option<Arc<dyn Wishes>>,
    ask: Option<Sender<StoreTask>>,
    answers: Receiver<Result<Done, StoreError>>,
    /// Shared with the thread: the last owner knows that the other end was dropped.
    life: Option<Arc<()>>,
    abandoned: Arc<AtomicUsize>,
}

impl BackgroundStore {
    fn later<T>() -> Result<T, StoreError> {
        Err(refusal("use", Path::new("disk"), "it is asked by begin(), because it works on another thread"))
    }
}
impl ChunkStore for BackgroundStore {
    fn is_open(&self) -> bool {
        self.is_open
    }
    fn begin(&mut self, task: StoreTask) -> Result<Option<StoreAnswer>, StoreError> {
        if let Some(own) = &mut self.own {
            return own.begin(task);
        }
        match &task {
            StoreTask::Tree(tree) if self.tree.is_none() => self.tree = Some(tree.clone()),
            _ => {}
        }
        let sent = self.ask.as_ref().is_some_and(|ask| ask.send(task).is_ok());
        if sent { Ok(None) } else { Err(refusal("write", Path::new("disk"), "the thread that writes has ended")) }
    }
    fn poll_answer(&mut self) -> Result<Option<StoreAnswer>, StoreError> {
        if let Some(own) = &mut self.own {
            return own.poll_answer();
        }
        let done = match self.answers.try_recv() {
            Ok(done) => done?,
            Err(TryRecvError::Empty) => return Ok(None),
            Err(TryRecvError::Disconnected) if self.is_finished => return Ok(None),
            Err(TryRecvError::Disconnected) => {
                return Err(refusal("write", Path::new("disk"), "the thread that writes has ended"));
            }
        };
        let answer = match done {
            Done::Opened(held, tree, wishes) => {
                (self.held, self.tree, self.is_open) = (held, tree.map(|tree| *tree), true);
                self.wishes = wishes;
                StoreAnswer::Opened
            }
            Done::Own(store) => {
                (self.own, self.is_open) = (Some(store), true);
                StoreAnswer::Opened
            }
            Done::Answer(answer, held) => {
                if let Some(held) = held {
                    self.held = held;
                }
                if let StoreAnswer::Chunk(ChunkIndex(index), _) = &answer {
                    self.held.set(*index);
                }
                if answer == StoreAnswer::Finished {
                    self.is_finished = true;
                    // The thread waits for nothing else.
                    self.ask = None;
                }
                answer
            }
        };
        Ok(Some(answer))
    }
    fn held(&self) -> &Bitmap {
        self.own.as_ref().map_or(&self.held, |own| own.held())
    }
    fn tree(&self) -> Option<&HashTree> {
        self.own.as_ref().map_or(self.tree.as_ref(), |own| own.tree())
    }
    fn put_chunk(&mut self, index: ChunkIndex, bytes: &[u8]) -> Result<(), StoreError> {
        self.own.as_mut().map_or_else(Self::later, |own| own.put_chunk(index, bytes))
    }
    fn finish(&mut self) -> Result<(), StoreError> {
        self.own.as_mut().map_or_else(Self::later, |own| own.finish())
    }
    fn wishes(&self) -> Option<Arc<dyn Wishes>> {
        self.own.as_ref().map_or_else(|| self.wishes.clone(), |own| own.wishes())
    }
    fn accepts(&self, index: ChunkIndex) -> bool {
        self.own.as_ref().is_none_or(|own| own.accepts(index))
    }
}
impl Drop for BackgroundStore {
    fn drop(&mut self) {
        self.abandoned.fetch_add(1, Ordering::AcqRel);
        self.ask = None;
        if self.life.take().is_some_and(|life| Arc::into_inner(life).is_some()) {
            self.abandoned.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{
        PartFile, PartOptions, PublishOptions,
        fixtures::{CHUNK, directory, key, object, pattern},
        publish,
    };
    use std::{fs, sync::mpsc::SyncSender, sync::mpsc::sync_channel};
    use tributary_content::{MemoryObject, ObjectReader};

    /// A part that does nothing before the test lets it.
    struct Slow(PartFile, Receiver<()>);
    impl ChunkStore for Slow {
        fn held(&self) -> &Bitmap {
            self.0.held()
        }
        fn put_chunk(&mut self, index: ChunkIndex, bytes: &[u8]) -> Result<(), StoreError> {
            let _ = self.1.recv();
            self.0.put_chunk(index, bytes)
        }
        fn finish(&mut self) -> Result<(), StoreError> {
            let _ = self.1.recv();
            self.0.finish()
        }
    }
    fn slow(storage: &Storage, target: &Path, object: &MemoryObject) -> (BackgroundStore, SyncSender<()>) {
        let (go, gate) = sync_channel(100);
        let (target, manifest) = (target.to_path_buf(), object.manifest().clone());
        let mut gate = Some(gate);
        let open = move || {
            let part = PartFile::open(&target, &manifest, &PartOptions::default())?;
            Ok(Box::new(Slow(part, gate.take().expect("it is opened once"))) as Box<dyn ChunkStore>)
        };
        (storage.open_store(object.manifest(), open).expect("threads are free"), go)
    }
    fn answer(store: &mut BackgroundStore) -> Result<StoreAnswer, StoreError> {
        loop {
            match store.poll_answer() {
                Ok(None) => thread::sleep(Duration::from_millis(1)),
                Ok(Some(answer)) => return Ok(answer),
                Err(error) => return Err(error),
            }
        }
    }
    fn put(store: &mut BackgroundStore, object: &mut MemoryObject, index: u32) {
        let chunk = object.read_chunk(ChunkIndex(index)).expect("published").to_vec();
        assert_eq!(store.begin(StoreTask::Chunk(ChunkIndex(index), chunk)), Ok(None));
    }

    #[test]
    fn nothing_is_held_before_the_disk_has_it_and_nobody_waits() {
        let (directory, storage, mut published) = (directory(), Storage::default(), object(3000));
        let target = directory.path().join("out");
        let (mut store, go) = slow(&storage, &target, &published);
        assert_eq!((answer(&mut store), store.is_open()), (Ok(StoreAnswer::Opened), true));
        for index in [2, 0, 1] {
            put(&mut store, &mut published, index);
        }
        assert_eq!(store.begin(StoreTask::Finish), Ok(None));
        assert_eq!((store.poll_answer(), store.held().count()), (Ok(None), 0));
        for (index, held) in [(2, 1), (0, 2), (1, 3)] {
            go.send(()).expect("it waits");
            assert!(matches!(answer(&mut store), Ok(StoreAnswer::Chunk(ChunkIndex(of), _)) if of == index));
            assert_eq!((store.held().count(), store.held().get(index)), (held, true));
        }
        assert!(!target.exists(), "it has no name before it is whole and asked for");
        go.send(()).expect("it waits");
        assert_eq!(answer(&mut store), Ok(StoreAnswer::Finished));
        assert!(fs::read(&target).expect("there") == *published.bytes());
        assert!(storage.bell().take(), "the driver is called");
        storage.wait();
        assert_eq!(store.poll_answer(), Ok(None), "that its thread has ended since is no failure");
    }

    #[test]
    fn what_was_begun_is_kept_by_who_is_dropped_and_the_next_waits_for_it() {
        let (directory, storage, mut published) = (directory(), Storage::default(), object(3000));
        let target = directory.path().join("out");
        let (mut store, go) = slow(&storage, &target, &published);
        assert_eq!(answer(&mut store), Ok(StoreAnswer::Opened));
        put(&mut store, &mut published, 1);
        put(&mut store, &mut published, 2);
        drop(store);
        // The first still has the lock.
        let (mut again, _) = slow(&storage, &target, &published);
        thread::sleep(Duration::from_millis(50));
        assert_eq!(again.poll_answer(), Ok(None));
        drop(go);
        assert_eq!(answer(&mut again), Ok(StoreAnswer::Opened));
        assert!(again.held().iter_set().eq([1, 2]));
        drop(again);
        storage.wait();
        let part = PartFile::open(&target, published.manifest(), &PartOptions::default()).expect("nobody has it");
        assert_eq!(part.held().count(), 2);
    }

    #[test]
    fn what_is_asked_before_the_end_is_heard_of_is_no_failure() {
        let (directory, storage, mut published) = (directory(), Storage::default(), object(3000));
        let target = directory.path().join("out");
        let (mut store, go) = slow(&storage, &target, &published);
        drop(go);
        (0..3).for_each(|index| put(&mut store, &mut published, index));
        assert_eq!(store.begin(StoreTask::Finish), Ok(None));
        while !target.exists() {
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(50));
        assert_eq!(store.begin(StoreTask::Chunk(ChunkIndex(0), vec![0; 1024])), Ok(None));
        while answer(&mut store) != Ok(StoreAnswer::Finished) {}
        drop(store);
        storage.wait();
    }

    #[test]
    fn what_the_disk_refuses_is_told_and_the_rest_is_kept() {
        let (directory, storage, mut published) = (directory(), Storage::default(), object(3000));
        let (mut store, go) = slow(&storage, &directory.path().join("out"), &published);
        assert_eq!(answer(&mut store), Ok(StoreAnswer::Opened));
        drop(go);
        assert_eq!(store.begin(StoreTask::Chunk(ChunkIndex(1), vec![0; 5])), Ok(None));
        put(&mut store, &mut published, 0);
        let refused = answer(&mut store).expect_err("it is too short").to_string();
        assert!(refused.contains("has 1024 bytes, not 5"), "{refused}");
        assert!(matches!(answer(&mut store), Ok(StoreAnswer::Chunk(ChunkIndex(0), _))));
        assert_eq!(store.held().count(), 1);
        let nowhere = directory.path().join("missing/out");
        let (mut store, _go) = slow(&storage, &nowhere, &published);
        let refused = answer(&mut store).expect_err("there is no such folder").to_string();
        assert!(refused.contains("does not exist"), "{refused}");
    }

    #[test]
    fn chunks_that_are_not_in_memory_are_read_by_others() {
        let (directory, storage) = (directory(), Storage::default());
        let path = directory.path().join("file");
        fs::write(&path, pattern(5000)).expect("writable");
        let options =
            PublishOptions { chunk_size: Some(CHUNK), storage: Some(storage.clone()), ..PublishOptions::default() };
        let name = "/x".parse().expect("a name");
        let mut object = publish(&path, name, &key(), &options).expect("publishable").object;
        // All readers are busy, as with a disk that hangs.
        let (go, gate) = sync_channel::<()>(0);
        let gate = Arc::new(Mutex::new(gate));
        for _ in 0..READERS {
            let gate = Arc::clone(&gate);
            storage.read(move || {
                let _ = gate.lock().recv();
            });
        }
        object.begin_read(ChunkIndex(3));
        assert_eq!(object.poll_read(), None);
        drop(go);
        let (index, chunk) = loop {
            match object.poll_read() {
                Some(read) => break read,
                None => thread::sleep(Duration::from_millis(1)),
            }
        };
        assert_eq!((index, chunk.expect("unaltered")), (ChunkIndex(3), pattern(5000)[3072..4096].to_vec().into()));
        assert!(object.try_read(ChunkIndex(3)).is_ok_and(|chunk| chunk.is_some()), "it is in memory now");
        assert!(object.try_read(ChunkIndex(5)).is_err(), "there is none");
    }
}

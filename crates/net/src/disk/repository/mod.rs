//! Chunks on a disk: numbers, each with a head and a payload, that outlive kills and power cuts.
//!
//! ```text
//!   node's thread                               its own thread, or steps
//!   DiskRepository ── put, remove, commit ────► Writer ──► 0000000000000000.chunks   segments, see `segment`
//!        │            is_committed ◄─────────── answer     0000000000000001.chunks
//!        └─ read ──► what is being written, else Places ─► (the place of each chunk, shared)
//! ```
//! Families choose the contents.
mod file;
#[cfg(test)]
mod histories_tests;
mod segment;
#[cfg(test)]
mod tests;
mod writer;

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use bytes::Bytes;
use tributary_content::{ChunkRepository, Damage, StoreError};

use self::writer::{Places, Where, Writer};
use super::{
    age::{self, Age, Clocks, Reading},
    fs::{FileSystem, OpenOptions, create_folders, real},
};
use crate::bell::Bell;

/// Keeps chunks in one folder: one behind the other in files of some 64 MiB, so that chunks that arrive together are on
/// the disk after one wait. A separate thread writes and waits for the disk; a node's thread never does, except to read
/// a chunk back.
///
/// The chunks in [`DiskRepository::list`] are on the disk. After a kill or a power cut it lists every committed chunk,
/// and others that are whole by their hash. After a commit that failed, all puts since the commit before are void, and
/// removals take effect with the next commit that succeeds.
pub struct DiskRepository {
    fs: Arc<dyn FileSystem>,
    folder: PathBuf,
    /// Uncommitted chunks, to be read from here.
    writing: BTreeMap<u64, Vec<Bytes>>,
    places: Places,
    age: Age,
    worker: Worker,
    /// Commits without an answer yet.
    open: usize,
    damage: Damage,
}

/// How often a repository without a thread is called to continue.
const STEP_INTERVAL: Duration = Duration::from_millis(1);

/// How often the age of the chunks is written down while nothing else is.
const MARK_INTERVAL: Duration = Duration::from_secs(600);

/// All chunks, and the damage.
#[derive(Clone, Debug, Default)]
struct Listed {
    /// Numbers, heads and payload lengths.
    chunks: Vec<(u64, Vec<u8>, u64)>,
    damage: Damage,
}

/// The executor of the jobs.
enum Worker {
    /// A thread.
    Thread {
        jobs: Option<Sender<Job>>,
        done: Receiver<io::Result<Vec<u64>>>,
        listed: Receiver<io::Result<Listed>>,
        thread: Option<JoinHandle<()>>,
    },
    /// The caller that asks whether a commit is done: `at_once` jobs each time.
    Steps { writer: Box<Writer>, jobs: VecDeque<Job>, at_once: usize, done: VecDeque<io::Result<Vec<u64>>> },
}

/// A job of the writer.
enum Job {
    Put {
        id: u64,
        head: Vec<u8>,
        payload: Vec<Bytes>,
    },
    Remove {
        id: u64,
    },
    Commit,
    List,
    /// Says when all before it is done.
    #[cfg(test)]
    Wait(Sender<()>),
}

impl DiskRepository {
    /// A repository in `folder`, which is made when it is first listed. Its thread rings `bell` when a commit is done.
    ///
    /// # Panics
    /// If the system has no thread left.
    pub fn new(folder: &Path, bell: &Bell) -> DiskRepository {
        let (jobs, to_do) = channel();
        let (tell, done) = channel();
        let (show, listed) = channel();
        let (fs, places) = (real(), Places::default());
        let age = Age::new(folder, Arc::new(Reading::now));
        let mut writer = Writer::new(Arc::clone(&fs), folder, places.clone(), age.clone());
        let bell = bell.clone();
        let work = move || {
            loop {
                let job = match to_do.recv_timeout(MARK_INTERVAL) {
                    Ok(job) => job,
                    Err(RecvTimeoutError::Timeout) => {
                        writer.note_age();
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                };
                let is_heard = match job {
                    Job::Put { id, head, payload } => {
                        writer.put(id, &head, &payload);
                        true
                    }
                    Job::Remove { id } => {
                        writer.remove(id);
                        true
                    }
                    Job::Commit => {
                        let is_heard = tell.send(writer.commit()).is_ok();
                        bell.ring();
                        is_heard
                    }
                    Job::List => show.send(writer.list()).is_ok(),
                    #[cfg(test)]
                    Job::Wait(done) => done.send(()).is_ok(),
                };
                if !is_heard {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("store".into()).spawn(work).expect("a thread for the store");
        let worker = Worker::Thread { jobs: Some(jobs), done, listed, thread: Some(thread) };
        Self::with_worker(fs, folder, places, age, worker)
    }
    /// A repository without a thread, on any file system: each [`DiskRepository::is_committed`] does up to `at_once` jobs (a
    /// put, a removal, a commit) of those that wait, at least one, so that the same calls give the same run. Its machine shows the time by `clocks`.
    pub fn in_steps(fs: Arc<dyn FileSystem>, folder: &Path, at_once: usize, clocks: Clocks) -> DiskRepository {
        let (places, age) = (Places::default(), Age::new(folder, clocks));
        let writer = Box::new(Writer::new(Arc::clone(&fs), folder, places.clone(), age.clone()));
        let worker = Worker::Steps { writer, jobs: VecDeque::new(), at_once: at_once.max(1), done: VecDeque::new() };
        Self::with_worker(fs, folder, places, age, worker)
    }
    fn with_worker(fs: Arc<dyn FileSystem>, folder: &Path, places: Places, age: Age, worker: Worker) -> DiskRepository {
        let (writing, folder) = (BTreeMap::new(), folder.into());
        DiskRepository { fs, folder, writing, places, age, worker, open: 0, damage: Damage::default() }
    }
    /// Checks that a folder, which is created if missing, can be read and written.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn check(folder: &Path) -> io::Result<()> {
        let fs = real();
        create_folders(&*fs, folder)?;
        for name in fs.list(folder)? {
            let path = folder.join(name);
            let is_segment = path.extension().is_some_and(|extension| extension == "chunks" || extension == "chunk");
            if is_segment || path.ends_with(age::FILE) {
                let opened = fs.open(&path, OpenOptions::WRITE);
                opened.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
            }
        }
        // If it stays it is removed when the folder is listed.
        let probe = folder.join("0.new");
        match fs.open(&probe, OpenOptions::CREATE).and_then(|file| file.write_all_at(b"probe", 0)) {
            // Stored chunks can be delivered, which makes room again.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
            other => other?,
        }
        match fs.remove_file(&probe) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Does some of the waiting jobs, if no thread does.
    fn step(&mut self) {
        if let Worker::Steps { writer, jobs, at_once, done } = &mut self.worker {
            for _ in 0..*at_once {
                let Some(job) = jobs.pop_front() else { return };
                done.extend(perform(writer, job));
            }
        }
    }
    fn send(&mut self, job: Job) -> Result<(), StoreError> {
        let sent = match &mut self.worker {
            Worker::Thread { jobs, .. } => jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok()),
            Worker::Steps { jobs, .. } => {
                jobs.push_back(job);
                true
            }
        };
        if sent { Ok(()) } else { Err(self.refused("write to", &ended())) }
    }
    fn refused(&self, operation: &'static str, error: &io::Error) -> StoreError {
        StoreError::Io { operation, path: self.folder.display().to_string(), reason: error.to_string() }
    }
}
impl ChunkRepository for DiskRepository {
    fn put(&mut self, id: u64, head: &[u8], payload: &[Bytes]) -> Result<(), StoreError> {
        self.writing.insert(id, payload.into());
        self.send(Job::Put { id, head: head.into(), payload: payload.into() })
    }
    fn remove(&mut self, id: u64) -> Result<(), StoreError> {
        self.writing.remove(&id);
        self.send(Job::Remove { id })
    }
    fn commit(&mut self) -> Result<(), StoreError> {
        self.send(Job::Commit)?;
        self.open += 1;
        Ok(())
    }
    fn is_committed(&mut self) -> Result<bool, StoreError> {
        self.step();
        while self.open > 0 {
            let answer = match &mut self.worker {
                Worker::Thread { done, .. } => done.try_recv(),
                Worker::Steps { done, .. } => done.pop_front().ok_or(TryRecvError::Empty),
            };
            match answer {
                Ok(result) => {
                    self.open -= 1;
                    let written = result.map_err(|error| self.refused("commit", &error))?;
                    written.iter().for_each(|id| drop(self.writing.remove(id)));
                }
                Err(TryRecvError::Empty) => return Ok(false),
                Err(TryRecvError::Disconnected) => {
                    self.open = 0;
                    return Err(self.refused("commit", &ended()));
                }
            }
        }
        Ok(true)
    }
    /// [`StoreError::Later`] if it cannot be read now, [`StoreError::Io`] if it is missing or damaged; damaged chunks
    /// count in [`DiskRepository::damage`] and are put aside when they are removed.
    fn read(&mut self, id: u64) -> Result<Bytes, StoreError> {
        if let Some(payload) = self.writing.get(&id) {
            return Ok(match &payload[..] {
                [only] => only.clone(),
                pieces => pieces.concat().into(),
            });
        }
        // As long as this is held the thread moves nothing.
        let mut known = self.places.0.lock();
        let place = known.chunks.get(&id).copied();
        let read = match &place {
            Some(Where::Segment(place)) => {
                segment::read(&*self.fs, &self.folder, place).map(|read| read.map(|(_, payload)| payload))
            }
            Some(Where::File) => file::read(&*self.fs, &self.folder, id),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        let error = match read {
            Ok(Some(payload)) => return Ok(payload),
            Ok(None) => {
                let (path, at, bytes) = match place {
                    Some(Where::Segment(place)) => {
                        (segment::path(&self.folder, place.segment), place.at, place.bytes())
                    }
                    _ => (file::path(&self.folder, id), 0, 0),
                };
                if known.damaged.insert(id) {
                    self.damage.places += 1;
                    self.damage.bytes += bytes;
                    tracing::warn!(path = %path.display(), at, bytes, "a stored chunk is damaged and lost");
                }
                io::Error::other(format!("{} is damaged at byte {at}", path.display()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => error,
            // The disk fails, or the system has too many files open: the chunk still exists.
            Err(error) => {
                drop(known);
                let reason = format!("cannot read a chunk of '{}' now: {error}", self.folder.display());
                return Err(StoreError::Later { reason });
            }
        };
        drop(known);
        Err(self.refused("read a chunk of", &error))
    }
    /// Waits for the disk: to be called before anything else. After an error it may be called again.
    fn list(&mut self) -> Result<Vec<(u64, Vec<u8>, u64)>, StoreError> {
        self.send(Job::List)?;
        let listed = match &mut self.worker {
            Worker::Thread { listed, .. } => listed.recv().unwrap_or_else(|_| Err(ended())),
            Worker::Steps { writer, jobs, done, .. } => {
                jobs.drain(..).filter_map(|job| perform(writer, job)).for_each(|answer| done.push_back(answer));
                writer.list()
            }
        };
        let listed = listed.map_err(|error| self.refused("list", &error))?;
        self.damage = listed.damage;
        Ok(listed.chunks)
    }
    /// A thread rings the bell; steps run when they are polled.
    fn poll_interval(&self) -> Option<Duration> {
        match &self.worker {
            Worker::Thread { .. } => None,
            Worker::Steps { .. } => Some(STEP_INTERVAL),
        }
    }
    fn clock(&self) -> Duration {
        self.age.now()
    }
    fn damage(&self) -> Damage {
        self.damage
    }
}
impl Drop for DiskRepository {
    /// Put chunks are written before the node ends, but their commit has no receiver.
    fn drop(&mut self) {
        match &mut self.worker {
            Worker::Thread { jobs, thread, .. } => {
                *jobs = None;
                if let Some(thread) = thread.take() {
                    let _ = thread.join();
                }
            }
            Worker::Steps { writer, jobs, .. } => jobs.drain(..).for_each(|job| drop(perform(writer, job))),
        }
    }
}
/// Does one job; returns the answer of a commit.
fn perform(writer: &mut Writer, job: Job) -> Option<io::Result<Vec<u64>>> {
    match job {
        Job::Put { id, head, payload } => writer.put(id, &head, &payload),
        Job::Remove { id } => writer.remove(id),
        Job::Commit => return Some(writer.commit()),
        // It is answered where it is called.
        Job::List => {}
        #[cfg(test)]
        Job::Wait(_) => {}
    }
    None
}
fn ended() -> io::Error {
    io::Error::other("the thread that writes has ended")
}

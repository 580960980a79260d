//! Stored chunks on a disk.
mod file;
mod segment;
#[cfg(test)]
mod tests;
mod writer;

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, Sender, TryRecvError, channel},
    thread::JoinHandle,
};

use bytes::Bytes;
use tributary_content::StoreError;
use tributary_core::Duration;
use tributary_mf::{payload::Payload, router::proxy::ChunkRepository};
use tributary_net::wall_clock;

use self::writer::{Listed, Places, Where, Writer};

/// Keeps chunks in one folder: one behind the other in files of some 64 MiB, so that what came together is on the disk
/// with one wait. A thread of its own writes and waits for the disk; a node's thread never does, except to read a chunk
/// back.
///
/// What [`ChunkRepository::list`] shows is on the disk. After a kill or a power failure it shows all that was committed and
/// of the rest what is whole, by its hash.
#[derive(Debug)]
pub struct FileRepository {
    folder: PathBuf,
    /// What the thread has not committed yet, to be read from here.
    writing: BTreeMap<u64, Payload>,
    places: Places,
    jobs: Option<Sender<Job>>,
    done: Receiver<io::Result<Vec<u64>>>,
    listed: Receiver<io::Result<Listed>>,
    /// Commits that were begun and not answered.
    open: usize,
    thread: Option<JoinHandle<()>>,
}

/// What the thread is to do.
enum Job {
    Put {
        id: u64,
        head: Vec<u8>,
        payload: Payload,
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

impl FileRepository {
    /// A repository in `folder`, which is made when it is first listed.
    ///
    /// # Panics
    /// If the system has no thread left.
    pub fn new(folder: &Path) -> FileRepository {
        let (jobs, to_do) = channel();
        let (tell, done) = channel();
        let (show, listed) = channel();
        let places = Places::default();
        let mut writer = Writer::new(folder, places.clone());
        let work = move || {
            for job in to_do {
                let is_heard = match job {
                    Job::Put { id, head, payload } => {
                        writer.put(id, &head, &payload);
                        true
                    }
                    Job::Remove { id } => {
                        writer.remove(id);
                        true
                    }
                    Job::Commit => tell.send(writer.commit()).is_ok(),
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
        FileRepository {
            folder: folder.into(),
            writing: BTreeMap::new(),
            places,
            jobs: Some(jobs),
            done,
            listed,
            open: 0,
            thread: Some(thread),
        }
    }
    /// Sees that a folder, which is made if there is none, can be read and written.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn check(folder: &Path) -> io::Result<()> {
        make_folder(folder)?;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "chunks" || extension == "chunk") {
                let opened = OpenOptions::new().read(true).write(true).open(&path);
                opened.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
            }
        }
        // If it stays it is removed when the folder is listed.
        let probe = folder.join("0.new");
        match File::create(&probe).and_then(|mut file| file.write_all(b"probe")) {
            // What is stored can be delivered, which makes room again.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
            other => other?,
        }
        match fs::remove_file(&probe) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
    fn send(&mut self, job: Job) -> Result<(), StoreError> {
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if sent { Ok(()) } else { Err(refused(&self.folder, "write to", &ended())) }
    }
}

impl ChunkRepository for FileRepository {
    fn put(&mut self, id: u64, head: &[u8], payload: &Payload) -> Result<(), StoreError> {
        self.writing.insert(id, payload.clone());
        self.send(Job::Put { id, head: head.into(), payload: payload.clone() })
    }
    fn remove(&mut self, id: u64) -> Result<(), StoreError> {
        self.writing.remove(&id);
        self.send(Job::Remove { id })
    }
    fn commit(&mut self) -> Result<(), StoreError> {
        self.open += 1;
        self.send(Job::Commit)
    }
    fn is_committed(&mut self) -> Result<bool, StoreError> {
        while self.open > 0 {
            match self.done.try_recv() {
                Ok(result) => {
                    self.open -= 1;
                    let written = result.map_err(|error| refused(&self.folder, "commit", &error))?;
                    written.iter().for_each(|id| drop(self.writing.remove(id)));
                }
                Err(TryRecvError::Empty) => return Ok(false),
                Err(TryRecvError::Disconnected) => {
                    self.open = 0;
                    return Err(refused(&self.folder, "commit", &ended()));
                }
            }
        }
        Ok(true)
    }
    fn read(&mut self, id: u64) -> Result<Bytes, StoreError> {
        if let Some(payload) = self.writing.get(&id) {
            return Ok(payload.to_bytes());
        }
        // As long as this is held the thread moves nothing.
        let places = self.places.lock();
        let read = match places.get(&id) {
            Some(Where::Segment(place)) => segment::read(&self.folder, place).map(|(_, payload)| payload),
            Some(Where::File) => file::read(&self.folder, id),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        read.map_err(|error| refused(&self.folder, "read a chunk of", &error))
    }
    fn list(&mut self) -> Result<Vec<(u64, Vec<u8>, u64)>, StoreError> {
        self.send(Job::List)?;
        let listed = self.listed.recv().unwrap_or_else(|_| Err(ended()));
        listed.map_err(|error| refused(&self.folder, "list", &error))
    }
    fn clock(&self) -> Duration {
        wall_clock()
    }
}
impl Drop for FileRepository {
    /// What was put is written before the node is gone; nobody is told of it any more.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn make_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
fn ended() -> io::Error {
    io::Error::other("the thread that writes has ended")
}
fn refused(folder: &Path, operation: &'static str, error: &io::Error) -> StoreError {
    StoreError::Io { operation, path: folder.display().to_string(), reason: error.to_string() }
}

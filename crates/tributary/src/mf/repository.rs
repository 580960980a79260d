//! Stored chunks as files.
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, Sender, TryRecvError, channel},
    thread::JoinHandle,
};

use bytes::Bytes;
use tributary_content::StoreError;
use tributary_mf::{payload::Payload, router::proxy::ChunkRepository};

/// Keeps each chunk in a file of its own in one folder, named by its number. A thread of its own writes and waits for
/// the disk; a node's thread never does, except to read a chunk back.
///
/// ```text
/// bytes  0        4            8               16                      48        48 + head
///        | "TBC1" | head bytes | payload bytes | BLAKE3 of the rest    | head …  | payload … |
/// ```
/// A file is written under another name and gets its own at the commit, after the bytes of all are on the disk. So what
/// [`ChunkRepository::list`] shows was durable; what a killed process left half done is removed.
#[derive(Debug)]
pub struct FileRepository {
    folder: PathBuf,
    /// What the thread has not committed yet, to be read from here.
    writing: BTreeMap<u64, Payload>,
    jobs: Option<Sender<Job>>,
    done: Receiver<io::Result<Vec<u64>>>,
    /// Commits that were begun and not answered.
    open: usize,
    thread: Option<JoinHandle<()>>,
}

/// What the thread is to do.
enum Job {
    Put { id: u64, head: Vec<u8>, payload: Payload },
    Remove { id: u64 },
    Commit,
}

const MAGIC: [u8; 4] = *b"TBC1";
const FRONT_BYTES: usize = 48;
/// The longest head that is read back.
const HEAD_BYTES_MAX: usize = 1 << 16;

impl FileRepository {
    /// A repository in `folder`, which is made when it is first listed.
    ///
    /// # Panics
    /// If the system has no thread left.
    pub fn new(folder: &Path) -> FileRepository {
        let (jobs, to_do) = channel();
        let (tell, done) = channel();
        let mut writer = Writer { folder: folder.into(), ..Writer::default() };
        let work = move || {
            for job in to_do {
                if let Some(result) = writer.carry_out(job)
                    && tell.send(result).is_err()
                {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("store".into()).spawn(work).expect("a thread for the store");
        FileRepository {
            folder: folder.into(),
            writing: BTreeMap::new(),
            jobs: Some(jobs),
            done,
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
        fs::read_dir(folder)?.try_for_each(|entry| entry.map(drop))?;
        // No chunk has this number; if it stays it is removed with all that is not under its own name.
        let probe = pending_path(folder, 0);
        match File::create(&probe).and_then(|mut file| file.write_all(&MAGIC)) {
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
        let gone = || io::Error::other("the thread that writes has ended");
        if sent { Ok(()) } else { Err(refused(&self.folder, "write to", &gone())) }
    }
    /// Head and payload length of a file whose lengths are right.
    fn head(path: &Path) -> io::Result<Option<(Vec<u8>, u64)>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut front = [0; FRONT_BYTES];
        if length < FRONT_BYTES as u64 {
            return Ok(None);
        }
        file.read_exact(&mut front)?;
        let Some((head_bytes, payload_bytes, _)) = parse(&front) else { return Ok(None) };
        if head_bytes > HEAD_BYTES_MAX || length != (FRONT_BYTES + head_bytes) as u64 + payload_bytes {
            return Ok(None);
        }
        let mut head = vec![0; head_bytes];
        file.read_exact(&mut head)?;
        Ok(Some((head, payload_bytes)))
    }
    fn try_list(&self) -> io::Result<Vec<(u64, Vec<u8>, u64)>> {
        make_folder(&self.folder)?;
        let mut chunks = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            match (extension, u64::from_str_radix(stem, 16)) {
                ("new", Ok(_)) => fs::remove_file(&path)?,
                ("chunk", Ok(id)) => match Self::head(&path)? {
                    Some((head, payload_bytes)) => chunks.push((id, head, payload_bytes)),
                    None => {
                        tracing::warn!(path = %path.display(), "a stored chunk is damaged and is removed");
                        fs::remove_file(&path)?;
                    }
                },
                _ => {}
            }
        }
        chunks.sort_unstable_by_key(|(id, ..)| *id);
        Ok(chunks)
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
                    let gone = io::Error::other("the thread that writes has ended");
                    return Err(refused(&self.folder, "commit", &gone));
                }
            }
        }
        Ok(true)
    }
    fn read(&mut self, id: u64) -> Result<Bytes, StoreError> {
        if let Some(payload) = self.writing.get(&id) {
            return Ok(payload.to_bytes());
        }
        let path = chunk_path(&self.folder, id);
        let failed = |error: io::Error| refused(&self.folder, "read a chunk of", &error);
        let bytes = Bytes::from(fs::read(&path).map_err(failed)?);
        let damaged = || failed(io::Error::other(format!("{} is damaged", path.display())));
        let front = bytes.first_chunk().ok_or_else(damaged)?;
        let (head_bytes, payload_bytes, hash) = parse(front).ok_or_else(damaged)?;
        let start = FRONT_BYTES.checked_add(head_bytes).filter(|start| *start <= bytes.len()).ok_or_else(damaged)?;
        if (bytes.len() - start) as u64 != payload_bytes || blake3::hash(&bytes[FRONT_BYTES..]) != hash {
            return Err(damaged());
        }
        Ok(bytes.slice(start..))
    }
    fn list(&mut self) -> Result<Vec<(u64, Vec<u8>, u64)>, StoreError> {
        self.try_list().map_err(|error| refused(&self.folder, "list", &error))
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

/// The thread's side.
#[derive(Default)]
struct Writer {
    folder: PathBuf,
    /// Written since the last commit, and not under their own names yet.
    pending: BTreeMap<u64, File>,
    /// The folder, opened before the first of them: of what the disk has refused since then its sync tells.
    opened: Option<File>,
    /// Removed since the last commit.
    removed: bool,
    /// What went wrong since the last commit.
    failed: Option<io::Error>,
}

impl Writer {
    /// Does a job; gives what came of a commit.
    fn carry_out(&mut self, job: Job) -> Option<io::Result<Vec<u64>>> {
        let result = match job {
            Job::Put { id, head, payload } => self.put(id, &head, &payload).inspect_err(|_| {
                // Half a file would take room that may be what is missing.
                let _ = fs::remove_file(pending_path(&self.folder, id));
            }),
            Job::Remove { id } => self.remove(id),
            Job::Commit => return Some(self.commit()),
        };
        if let Err(error) = result {
            self.failed.get_or_insert(error);
        }
        None
    }
    fn put(&mut self, id: u64, head: &[u8], payload: &Payload) -> io::Result<()> {
        let payload = payload.to_bytes();
        let mut hasher = blake3::Hasher::new();
        hasher.update(head).update(&payload);
        let mut front = Vec::with_capacity(FRONT_BYTES + head.len());
        front.extend_from_slice(&MAGIC);
        front.extend_from_slice(&(head.len() as u32).to_be_bytes());
        front.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        front.extend_from_slice(hasher.finalize().as_bytes());
        front.extend_from_slice(head);
        if self.opened.is_none() {
            self.opened = Some(File::open(&self.folder)?);
        }
        let mut file = File::create(pending_path(&self.folder, id))?;
        file.write_all(&front)?;
        file.write_all(&payload)?;
        self.pending.insert(id, file);
        Ok(())
    }
    fn remove(&mut self, id: u64) -> io::Result<()> {
        let path = match self.pending.remove(&id) {
            Some(_) => pending_path(&self.folder, id),
            None => chunk_path(&self.folder, id),
        };
        match fs::remove_file(path) {
            Ok(()) => self.removed = true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
    /// Waits until what is pending is on the disk. Of several files it waits for all at once: a disk that is asked for one
    /// after the other waits for each.
    fn sync(&self, folder: &File) -> io::Result<()> {
        match self.pending.len() {
            0 | 1 => self.pending.values().try_for_each(File::sync_data),
            _ => Ok(nix::unistd::syncfs(folder)?),
        }
    }
    /// Gives what has its own name now.
    fn commit(&mut self) -> io::Result<Vec<u64>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mut written = Vec::new();
        if self.pending.is_empty() && !self.removed {
            return Ok(written);
        }
        let folder = self.opened.take().map_or_else(|| File::open(&self.folder), Ok)?;
        let mut made = self.sync(&folder);
        for id in std::mem::take(&mut self.pending).into_keys() {
            let pending = pending_path(&self.folder, id);
            made = made.and_then(|()| fs::rename(&pending, chunk_path(&self.folder, id)));
            match made {
                Ok(()) => written.push(id),
                // Nothing will ask for it any more, and it takes room.
                Err(_) => drop(fs::remove_file(&pending)),
            }
        }
        made?;
        folder.sync_all()?;
        self.removed = false;
        Ok(written)
    }
}

fn make_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
fn chunk_path(folder: &Path, id: u64) -> PathBuf {
    folder.join(format!("{id:016x}.chunk"))
}
fn pending_path(folder: &Path, id: u64) -> PathBuf {
    folder.join(format!("{id:016x}.new"))
}
fn refused(folder: &Path, operation: &'static str, error: &io::Error) -> StoreError {
    StoreError::Io { operation, path: folder.display().to_string(), reason: error.to_string() }
}

/// Head length, payload length and hash.
fn parse(front: &[u8; FRONT_BYTES]) -> Option<(usize, u64, blake3::Hash)> {
    let rest = front.strip_prefix(&MAGIC)?;
    let (head_bytes, rest) = rest.split_first_chunk()?;
    let (payload_bytes, rest) = rest.split_first_chunk()?;
    let hash: [u8; 32] = *rest.first_chunk()?;
    Some((u32::from_be_bytes(*head_bytes) as usize, u64::from_be_bytes(*payload_bytes), hash.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commits and waits.
    fn commit(repository: &mut FileRepository) {
        repository.commit().expect("a thread");
        while !repository.is_committed().expect("a disk") {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    fn listed(repository: &mut FileRepository) -> Vec<u64> {
        repository.list().expect("a folder").into_iter().map(|(id, ..)| id).collect()
    }

    #[test]
    fn what_was_committed_is_there_after_a_kill_and_the_rest_leaves_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join("store");
        let mut repository = FileRepository::new(&folder);
        assert!(listed(&mut repository).is_empty());
        repository.put(1, b"head one", &vec![1; 100_000].into()).expect("room");
        repository.put(2, b"head two", &Payload::default()).expect("room");
        commit(&mut repository);
        repository.put(3, b"head three", &vec![3; 10].into()).expect("room");
        assert_eq!(repository.read(3).expect("it is there"), [3; 10][..]);
        repository.remove(2).expect("a disk");
        // Killed: no farewell. What the thread did until then is there, and was not committed.
        while chunk_path(&folder, 2).exists() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        std::mem::forget(repository);
        let mut repository = FileRepository::new(&folder);
        assert_eq!(repository.list().expect("a folder"), [(1, b"head one".to_vec(), 100_000)]);
        assert_eq!(repository.read(1).expect("it is there"), [1; 100_000][..]);
        assert!(repository.read(3).is_err());
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1, "something is left behind");
    }
    #[test]
    fn a_folder_that_cannot_be_used_is_found_before_anything_is_entrusted_to_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join("deep/store");
        FileRepository::check(&folder).expect("it is made");
        assert_eq!(fs::read_dir(&folder).expect("it is there").count(), 0, "nothing is left behind");
        let file = dir.path().join("file");
        fs::write(&file, "no folder").expect("a disk");
        assert!(FileRepository::check(&file).is_err());
        assert!(FileRepository::check(&file.join("store")).is_err());
    }
    #[test]
    fn a_damaged_file_is_never_given_out() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut repository = FileRepository::new(dir.path());
        for id in 0..3 {
            repository.put(id, b"head", &vec![7; 1_000].into()).expect("room");
        }
        commit(&mut repository);
        let path = |id| chunk_path(dir.path(), id);
        let (flipped, short, whole) = (path(0), path(1), path(2));
        let mut bytes = fs::read(&flipped).expect("a file");
        bytes[500] ^= 1;
        fs::write(&flipped, bytes).expect("a disk");
        fs::write(&short, &fs::read(&whole).expect("a file")[..700]).expect("a disk");
        assert_eq!(listed(&mut repository), [0, 2], "a file of the wrong length counts");
        assert!(repository.read(0).is_err(), "a flipped bit passes");
        assert!(repository.read(2).is_ok());
    }
}

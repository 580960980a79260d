//! Published files that are open: as many as a process can spare, however many it publishes.
use nix::sys::resource::{Resource, getrlimit};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fs::File,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, Weak},
};
use tributary_core::recency::Recency;

use super::snapshot;

/// Descriptors are few and belong to the process: sockets, downloads and clients need the others.
const SHARE: u64 = 4;
/// Maximum open files where the process may open any number.
const FILES_MAX: usize = 4_096;

/// A file that is closed when others were used since, and opened again when it is read.
#[derive(Debug)]
pub(super) struct PooledFile {
    slot: Arc<Slot>,
    pool: Arc<Pool>,
    number: u64,
}

#[derive(Debug)]
struct Slot {
    path: PathBuf,
    /// Device and inode: another file at its path is not the one that was published.
    identity: (u64, u64),
    file: Mutex<Option<File>>,
}

#[derive(Debug)]
struct Pool {
    files_max: usize,
    state: Mutex<State>,
}
#[derive(Debug, Default)]
struct State {
    next: u64,
    open: HashMap<u64, Weak<Slot>>,
    order: Recency<u64>,
}

impl PooledFile {
    /// A file that is open already.
    ///
    /// # Errors
    /// Errors of reading the file's metadata.
    pub(super) fn new(path: &Path, file: File) -> io::Result<Self> {
        static POOL: LazyLock<Arc<Pool>> = LazyLock::new(|| Arc::new(Pool::new(files_max())));
        Self::in_pool(&POOL, path, file)
    }
    fn in_pool(pool: &Arc<Pool>, path: &Path, file: File) -> io::Result<Self> {
        let identity = identity(&file)?;
        // The working directory may be another one when it is opened again.
        let path = std::path::absolute(path)?;
        let slot = Arc::new(Slot { path, identity, file: Mutex::new(Some(file)) });
        let number = pool.add(&slot);
        Ok(PooledFile { slot, pool: Arc::clone(pool), number })
    }
    /// Reads it.
    ///
    /// # Errors
    /// Errors of `read` and of opening the file again, also if another file is at its path now.
    pub(super) fn with<T>(&self, read: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        let mut file = self.slot.file.lock();
        if file.is_none() {
            let again = snapshot::open(&self.slot.path)?;
            if identity(&again)? != self.slot.identity {
                return Err(io::Error::other("another file has taken its place"));
            }
            *file = Some(again);
        }
        let done = read(file.as_ref().expect("it was opened above"));
        // Another reader may choose the file for closing right away; a file in use is not closed.
        drop(file);
        self.pool.touch(self.number, &self.slot);
        done
    }
    /// The result of `read` if the file is open: opening it could wait for the disk.
    pub(super) fn with_open<T>(&self, read: impl FnOnce(&File) -> T) -> Option<T> {
        let done = self.slot.file.lock().as_ref().map(read)?;
        self.pool.touch(self.number, &self.slot);
        Some(done)
    }
}
impl Drop for PooledFile {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        state.open.remove(&self.number);
        state.order.remove(self.number);
    }
}

impl Pool {
    fn new(files_max: usize) -> Self {
        Pool { files_max, state: Mutex::default() }
    }
    fn add(&self, slot: &Arc<Slot>) -> u64 {
        let mut state = self.state.lock();
        state.next += 1;
        let number = state.next;
        drop(state);
        self.touch(number, slot);
        number
    }
    /// It was used just now; those that were not used for longest are closed.
    fn touch(&self, number: u64, slot: &Arc<Slot>) {
        let mut closed = Vec::new();
        let mut state = self.state.lock();
        state.open.entry(number).or_insert_with(|| Arc::downgrade(slot));
        state.order.touch(number);
        // A file in reading stays; its reader returns here afterwards.
        for _ in self.files_max..state.open.len() {
            let Some(oldest) = state.order.first().filter(|oldest| *oldest != number) else { break };
            state.order.remove(oldest);
            let slot = state.open.remove(&oldest).and_then(|slot| slot.upgrade());
            if let Some(mut file) = slot.as_ref().and_then(|slot| slot.file.try_lock()) {
                closed.extend(file.take());
            }
        }
        // Closing may take the disk's time: other readers do not wait for it.
        drop(state);
    }
}

fn files_max() -> usize {
    let (most, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1_024, 1_024));
    usize::try_from(most / SHARE).unwrap_or(FILES_MAX).clamp(1, FILES_MAX)
}
fn identity(file: &File) -> io::Result<(u64, u64)> {
    file.metadata().map(|metadata| (metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::fixtures::directory;
    use std::{fs, os::unix::fs::FileExt};

    fn read(file: &PooledFile) -> io::Result<u8> {
        let mut byte = [0];
        file.with(|file| file.read_exact_at(&mut byte, 0)).map(|()| byte[0])
    }

    #[test]
    fn any_number_of_files_is_read_with_few_of_them_open() {
        let directory = directory();
        let pool = Arc::new(Pool::new(3));
        let open = |number: u8| {
            let path = directory.path().join(number.to_string());
            fs::write(&path, [number]).expect("writable");
            PooledFile::in_pool(&pool, &path, File::open(&path).expect("it exists")).expect("a file")
        };
        let mut files: Vec<PooledFile> = (0..20).map(open).collect();
        let is_open = |file: &PooledFile| file.slot.file.lock().is_some();
        for number in [3, 19, 0, 7, 3, 3, 12] {
            assert_eq!(read(&files[number]).ok(), Some(number as u8));
            assert!(files.iter().filter(|file| is_open(file)).count() <= 3);
        }
        // The three that were used last.
        assert_eq!([7, 3, 12, 0].map(|number| is_open(&files[number])), [true, true, true, false]);
        files.truncate(5);
        assert_eq!(pool.state.lock().open.len(), 1, "those that are gone take no place");
    }

    #[test]
    fn another_file_at_the_path_is_not_read() {
        let directory = directory();
        let pool = Arc::new(Pool::new(1));
        let paths = ["a", "b"].map(|name| directory.path().join(name));
        let open = |path: &PathBuf| {
            fs::write(path, b"x").expect("writable");
            PooledFile::in_pool(&pool, path, File::open(path).expect("it exists")).expect("a file")
        };
        let [a, b] = [open(&paths[0]), open(&paths[1])];
        assert!(read(&b).is_ok());
        fs::write(directory.path().join("new"), b"y").expect("writable");
        fs::rename(directory.path().join("new"), &paths[0]).expect("it can be replaced");
        assert_eq!(read(&a).expect_err("it is another one").to_string(), "another file has taken its place");
        // An open file still has its bytes.
        fs::write(directory.path().join("new"), b"y").expect("writable");
        fs::rename(directory.path().join("new"), &paths[1]).expect("it can be replaced");
        assert_eq!(read(&b).ok(), Some(b'x'));
    }
}

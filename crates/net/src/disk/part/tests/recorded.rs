//! The real file system, with the sequence of writes to the files of a download, so that it can be cut anywhere, with a
//! disk that fills up, and for a process that is killed after some renames.
use std::{ffi::OsString, time::Duration};

use parking_lot::Mutex;

use super::*;
use crate::disk::fs::{FileSystem, FsFile, Lock, Metadata, OpenOptions, RealFileSystem, Rename, Wait};

/// A change of a file, and whether that is the state.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Write(bool, u64, Vec<u8>),
    SetLen(bool, u64),
}

/// Clones are one disk.
#[derive(Clone, Debug)]
pub(super) struct Recorded(Arc<Mutex<Disk>>);

#[derive(Debug)]
struct Disk {
    writes_left: u32,
    renames_left: u32,
    is_killed: bool,
    steps: Vec<Step>,
}

impl Recorded {
    /// A disk that is full after `writes` writes.
    pub(super) fn that_fills_after(writes: u32) -> Self {
        Recorded::new(writes, u32::MAX)
    }
    /// The process is killed at the rename after `renames` ones.
    pub(super) fn that_is_killed_after(renames: u32) -> Self {
        Recorded::new(u32::MAX, renames)
    }
    fn new(writes_left: u32, renames_left: u32) -> Self {
        Recorded(Arc::new(Mutex::new(Disk { writes_left, renames_left, is_killed: false, steps: Vec::new() })))
    }
    pub(super) fn steps(&self) -> Vec<Step> {
        self.0.lock().steps.clone()
    }
    pub(super) fn renames_left(&self) -> u32 {
        self.0.lock().renames_left
    }
    /// As `PartFile::open` starts a download to an unused place.
    pub(super) fn open_part(&self, target: &Path, manifest: &Manifest) -> Result<PartFile, StoreError> {
        let (target, staging) = (resolve(target)?, staging(target));
        staging.make()?;
        let locked = StateTable::lock(self, &staging.state(), Duration::ZERO)?;
        PartFile::open_locked(
            Arc::new(self.clone()),
            locked,
            staging,
            (target, None),
            manifest,
            &PartOptions::default(),
        )
    }
}

impl FileSystem for Recorded {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn FsFile>> {
        let (file, is_state) = (RealFileSystem.open(path, options)?, path.ends_with("state"));
        Ok(Arc::new(RecordedFile { file, is_state, disk: self.clone() }))
    }
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        RealFileSystem.create_folder(path)
    }
    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        RealFileSystem.list(folder)
    }
    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        match self.0.lock().is_killed {
            true => Err(io::Error::other("it is killed")),
            false => RealFileSystem.metadata(path),
        }
    }
    fn rename(&self, from: &Path, to: &Path, how: Rename) -> io::Result<()> {
        let mut disk = self.0.lock();
        let left = disk.renames_left.checked_sub(1);
        disk.is_killed = left.is_none();
        disk.renames_left = left.ok_or_else(|| io::Error::other("it is killed"))?;
        RealFileSystem.rename(from, to, how)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealFileSystem.link(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        RealFileSystem.remove_file(path)
    }
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        RealFileSystem.sync_folder(folder)
    }
    fn free_bytes(&self, path: &Path) -> Option<u64> {
        RealFileSystem.free_bytes(path)
    }
}

#[derive(Debug)]
struct RecordedFile {
    file: Arc<dyn FsFile>,
    is_state: bool,
    disk: Recorded,
}

impl FsFile for RecordedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut disk = self.disk.0.lock();
        disk.writes_left = disk.writes_left.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
        disk.steps.push(Step::Write(self.is_state, offset, bytes.to_vec()));
        self.file.write_at(bytes, offset)
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.disk.0.lock().steps.push(Step::SetLen(self.is_state, length));
        self.file.set_len(length)
    }
    fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }
    fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
        self.file.allocate(offset, length)
    }
    fn punch_hole(&self, offset: u64, length: u64) -> io::Result<()> {
        self.file.punch_hole(offset, length)
    }
    fn lock(&self, lock: Lock, wait: Wait) -> io::Result<()> {
        self.file.lock(lock, wait)
    }
}

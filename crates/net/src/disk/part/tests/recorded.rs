//! The real file system, with the sequence of writes to the files of a download, so that it can be cut anywhere, and
//! with a disk that fills up.
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
pub(super) struct Recorded(Arc<Mutex<(u32, Vec<Step>)>>);

impl Recorded {
    /// A disk that is full after so many writes.
    pub(super) fn that_fills_after(writes: u32) -> Self {
        Recorded(Arc::new(Mutex::new((writes, Vec::new()))))
    }
    pub(super) fn steps(&self) -> Vec<Step> {
        self.0.lock().1.clone()
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
        RealFileSystem.metadata(path)
    }
    fn rename(&self, from: &Path, to: &Path, how: Rename) -> io::Result<()> {
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
        let (left, steps) = &mut *self.disk.0.lock();
        *left = left.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
        steps.push(Step::Write(self.is_state, offset, bytes.to_vec()));
        self.file.write_at(bytes, offset)
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.disk.0.lock().1.push(Step::SetLen(self.is_state, length));
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

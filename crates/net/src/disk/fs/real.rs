//! The kernel's file system.
use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt},
    path::Path,
    sync::Arc,
};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{Access, Create, FileSystem, FsFile, Kind, Links, Lock, Metadata, OpenOptions, Rename, Wait};
use crate::platform;

/// What the kernel does, as it is.
#[derive(Clone, Copy, Default, Debug)]
pub struct RealFileSystem;

impl FileSystem for RealFileSystem {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn FsFile>> {
        let mut open = fs::OpenOptions::new();
        open.read(true).write(options.access == Access::ReadWrite);
        match options.create {
            Create::Never => &mut open,
            Create::IfMissing => open.create(true),
            Create::New => open.create_new(true),
        };
        open.mode(options.mode);
        if options.links == Links::Refuse {
            open.custom_flags((nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK).bits());
        }
        Ok(Arc::new(open.open(path)?))
    }
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)
    }
    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let mut names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }
    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        fs::symlink_metadata(path).map(|metadata| of(&metadata))
    }
    fn rename(&self, from: &Path, to: &Path, how: Rename) -> io::Result<()> {
        let flags = match how {
            Rename::Replace => return fs::rename(from, to),
            Rename::NoReplace => RenameFlags::NOREPLACE,
            Rename::Exchange => RenameFlags::EXCHANGE,
        };
        Ok(renameat_with(CWD, from, CWD, to, flags)?)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        match File::open(folder)?.sync_all() {
            // Some network file systems do not support this; there the server decides.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
            synced => synced,
        }
    }
    fn free_bytes(&self, path: &Path) -> Option<u64> {
        space(path).map(|(free, _)| free)
    }
}

/// The free bytes of the disk of `path`, and all its bytes; `None` if it does not tell.
pub(in crate::disk) fn space(path: &Path) -> Option<(u64, u64)> {
    let disk = rustix::fs::statvfs(path).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    (disk.f_blocks > 0).then(|| (bytes(disk.f_bavail), bytes(disk.f_blocks)))
}

impl FsFile for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        File::set_len(self, length)
    }
    fn metadata(&self) -> io::Result<Metadata> {
        File::metadata(self).map(|metadata| of(&metadata))
    }
    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }
    fn sync_all(&self) -> io::Result<()> {
        File::sync_all(self)
    }
    fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
        platform::allocate(self, offset, length)
    }
    fn punch_hole(&self, offset: u64, length: u64) -> io::Result<()> {
        platform::punch_hole(self, offset, length)
    }
    fn lock(&self, lock: Lock, wait: Wait) -> io::Result<()> {
        let tried = match (lock, wait) {
            (Lock::Exclusive, Wait::UntilFree) => return File::lock(self),
            (Lock::Shared, Wait::UntilFree) => return File::lock_shared(self),
            (Lock::Exclusive, Wait::Never) => self.try_lock(),
            (Lock::Shared, Wait::Never) => self.try_lock_shared(),
        };
        tried.map_err(|error| match error {
            TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
            TryLockError::Error(error) => error,
        })
    }
}

fn of(metadata: &fs::Metadata) -> Metadata {
    let kind = match metadata.file_type() {
        kind if kind.is_file() => Kind::File,
        kind if kind.is_dir() => Kind::Folder,
        kind if kind.is_symlink() => Kind::Link,
        _ => Kind::Other,
    };
    Metadata {
        kind,
        length: metadata.len(),
        allocated: metadata.blocks().saturating_mul(512),
        identity: (metadata.dev(), metadata.ino()),
        links: metadata.nlink(),
        mode: metadata.mode(),
    }
}

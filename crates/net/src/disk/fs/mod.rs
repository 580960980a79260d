//! The file system as an injected trait, so that every durable store can be tested against power cuts and failing disks.
//!
//! ```text
//!   chunk repository ─┐                    ┌──► RealFileSystem: the kernel's
//!   PartFile ─────────┤                    │
//!   TrustStore ───────┼──► dyn FileSystem ─┤
//!   replace_file ─────┘                    └──► SimulatedDisk: a disk in memory that loses what was not synced,
//!                                               tears and reorders writes, gets full, and fails
//! ```
//! The trait has only the operations that durable stores need. Its guarantees are those of POSIX: data, length and
//! directory entries are durable only after [`FsFile::sync_data`] or [`FileSystem::sync_folder`] has succeeded.
mod real;
#[cfg(any(test, feature = "simulated-disk"))]
mod tests;

use std::{
    ffi::OsString,
    fmt::Debug,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

pub use real::RealFileSystem;
pub(super) use real::space;
#[cfg(any(test, feature = "simulated-disk"))]
pub use tests::{Faults, SimulatedDisk, histories};

/// A file system as one process sees it.
///
/// All methods return the errors of the system. After an error of a changing operation it is unknown whether it was
/// done, in part or not.
#[expect(clippy::missing_errors_doc, reason = "each operation has the errors of its system call")]
pub trait FileSystem: Debug + Send + Sync {
    /// Opens a file. `options` decide whether a link is followed.
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn FsFile>>;
    /// Makes one folder, which only its owner may use. Its name is durable once the folder around it is synced.
    fn create_folder(&self, path: &Path) -> io::Result<()>;
    /// The names in a folder, ascending.
    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>>;
    /// The metadata of `path`; a link is not followed.
    fn metadata(&self, path: &Path) -> io::Result<Metadata>;
    /// Renames a file or folder, in one step.
    fn rename(&self, from: &Path, to: &Path, how: Rename) -> io::Result<()>;
    /// Adds a second name to a file, unless that is taken.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes the name of a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Waits until the names in a folder are on the disk.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
    /// Free bytes on the disk of `path`, if known.
    fn free_bytes(&self, path: &Path) -> Option<u64>;
}

/// An open file. Dropping the last reference closes it and releases its locks.
#[expect(clippy::missing_errors_doc, reason = "each operation has the errors of its system call")]
pub trait FsFile: Debug + Send + Sync {
    /// Reads as many bytes as fit at most; zero at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes some of these bytes, and returns their number.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Cuts the file, or lengthens it by zeros.
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// The system's record of it.
    fn metadata(&self) -> io::Result<Metadata>;
    /// Waits until its bytes and its length are on the disk; its name may not be.
    ///
    /// If that fails, the system may have dropped the unwritten bytes, and succeed the next time without them: a caller
    /// that needs them on the disk must write them again.
    fn sync_data(&self) -> io::Result<()>;
    /// The same, and its times and mode too.
    fn sync_all(&self) -> io::Result<()>;
    /// Allocates space for these bytes; the file is lengthened by zeros if it ends before.
    fn allocate(&self, offset: u64, length: u64) -> io::Result<()>;
    /// Makes these bytes zero and frees their space; the length stays.
    fn punch_hole(&self, offset: u64, length: u64) -> io::Result<()>;
    /// Locks the file against other opens of it, in this process and in others. Without `wait` it returns
    /// [`io::ErrorKind::WouldBlock`] if the file is locked.
    fn lock(&self, lock: Lock, wait: Wait) -> io::Result<()>;

    /// Fills the buffer completely.
    fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(buffer, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    buffer = &mut buffer[read..];
                    offset += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
    /// Writes all bytes.
    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    offset += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenOptions {
    /// Whether it is written to.
    pub access: Access,
    /// Whether it is made.
    pub create: Create,
    /// Whether a link at its place is followed.
    pub links: Links,
    /// The mode of a file that is made.
    pub mode: u32,
}

impl OpenOptions {
    /// Reads an existing file.
    pub const READ: OpenOptions =
        OpenOptions { access: Access::Read, create: Create::Never, links: Links::Follow, mode: 0 };
    /// Reads and writes an existing file.
    pub const WRITE: OpenOptions = OpenOptions { access: Access::ReadWrite, ..OpenOptions::READ };
    /// To read and write, made if it is missing, for its owner only.
    pub const CREATE: OpenOptions = OpenOptions { create: Create::IfMissing, mode: 0o600, ..OpenOptions::WRITE };
    /// To read and write a new file, for its owner only.
    pub const CREATE_NEW: OpenOptions = OpenOptions { create: Create::New, ..OpenOptions::CREATE };
}

/// What may be done with an open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It is read.
    Read,
    /// It is read and written.
    ReadWrite,
}

/// Whether to create a missing file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Create {
    /// It must exist.
    Never,
    /// It is created if missing.
    IfMissing,
    /// It must not exist.
    New,
}

/// What to do with a link in place of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Links {
    /// Opens the target of the link.
    Follow,
    /// Refuse it, and do not wait for pipes: names that can be guessed, in folders that others write to, could lead
    /// anywhere.
    Refuse,
}

/// What a rename does with something that has the new name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rename {
    /// Replaces it.
    Replace,
    /// Refuses.
    NoReplace,
    /// Exchanges the names.
    Exchange,
}

/// Which other locks a lock allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lock {
    /// None.
    Exclusive,
    /// Shared ones.
    Shared,
}

/// Whether to wait for a lock that another open holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Until it is free.
    UntilFree,
    /// Never.
    Never,
}

/// The system's record of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metadata {
    /// The type of the file.
    pub kind: Kind,
    /// Bytes.
    pub length: u64,
    /// Its bytes on the disk.
    pub allocated: u64,
    /// Device and inode: equal for two names of one file.
    pub identity: (u64, u64),
    /// Names that it has.
    pub links: u64,
    /// Permissions and type, in the system's bits.
    pub mode: u32,
}

/// The kind of a directory entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A pipe, a device or a socket.
    Other,
}

/// The kernel's file system.
pub fn real() -> Arc<dyn FileSystem> {
    Arc::new(RealFileSystem)
}
/// The whole contents of a file.
///
/// # Errors
/// Errors of the system.
pub fn read(fs: &dyn FileSystem, path: &Path) -> io::Result<Vec<u8>> {
    let file = fs.open(path, OpenOptions::READ)?;
    let mut bytes = vec![0; usize::try_from(file.metadata()?.length).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}
/// Makes a folder and all missing parents, and waits until their names are on the disk: even existing ones may be
/// recent, made by a process that was killed.
///
/// # Errors
/// Errors of the system.
pub fn create_folders(fs: &dyn FileSystem, path: &Path) -> io::Result<()> {
    let folders: Vec<&Path> = path.ancestors().filter(|folder| folder.file_name().is_some()).collect();
    for folder in folders.into_iter().rev() {
        let is_missing = match fs.metadata(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(error),
            Ok(_) => false,
        };
        if is_missing {
            match fs.create_folder(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        match fs.sync_folder(super::parent(folder)) {
            // Where we may not read we have made nothing.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_missing => {}
            synced => synced?,
        }
    }
    // A link to a folder will do; anything else will not.
    fs.list(path).map(drop)
}
/// Replaces the file at `path` in one step, readable by its owner only, and waits for the disk: a crash or power cut leaves
/// the old or the new one, and the new one once this has returned.
///
/// # Errors
/// Errors of the system. The path then has the old or the new file, and no temporary file remains unless its removal
/// fails too.
pub fn replace(fs: &dyn FileSystem, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let temporary: PathBuf = super::temporary_sibling(path)?;
    let written = (|| {
        let file = fs.open(&temporary, OpenOptions::CREATE_NEW)?;
        let mut at = 0;
        for part in parts {
            file.write_all_at(part, at)?;
            at += part.len() as u64;
        }
        file.sync_all()?;
        fs.rename(&temporary, path, Rename::Replace)
    })();
    if written.is_err() {
        let _ = fs.remove_file(&temporary);
    }
    written?;
    fs.sync_folder(super::parent(path))
}

//! Brings a folder to its next version in place: entries that differ are exchanged, all others stay as they are.
//!
//! ```text
//!   new entries ──► STAGING/changes/N ──► journal ──► each is exchanged with OUT/PATH ──► journal removed
//! ```
//! Each step is one rename, so every entry is the old or the new one, and it can be undone. Inodes tell which steps were
//! done: the process that finds the journal does the others, after a kill and after a power cut.
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use super::{
    fs::{self, FileSystem, Rename},
    parent,
};

/// One entry that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Step {
    /// Below the folder.
    pub(super) path: Vec<u8>,
    /// The inode of the old entry; zero if there is none.
    pub(super) old: u64,
    /// The inode of the new one; zero if the entry is removed.
    pub(super) new: u64,
}

/// The steps of an update, in the order in which they are done.
#[derive(Debug)]
pub(super) struct Update<'a> {
    pub(super) fs: &'a dyn FileSystem,
    /// The folder that is updated.
    pub(super) target: &'a Path,
    /// Has the new entries, under the numbers of their steps, and afterwards the old ones.
    pub(super) slots: &'a Path,
    pub(super) steps: Vec<Step>,
}

impl<'a> Update<'a> {
    /// The update whose journal is at `path`; `None` if the journal is damaged.
    ///
    /// # Errors
    /// Errors of the system.
    pub(super) fn load(
        fs: &'a dyn FileSystem,
        path: &Path,
        (target, slots): (&'a Path, &'a Path),
    ) -> io::Result<Option<Self>> {
        let bytes = fs::read(fs, path)?;
        // The process that wrote it may have been killed before its name was on the disk.
        fs.sync_folder(parent(path))?;
        Ok(decode(&bytes).map(|steps| Update { fs, target, slots, steps }))
    }
    /// Writes the journal, and waits for the disk. The new entries are on the disk already.
    ///
    /// # Errors
    /// Errors of the system.
    pub(super) fn save(&self, path: &Path) -> io::Result<()> {
        let body = encode(&self.steps);
        fs::replace(self.fs, path, &[&body, blake3::hash(&body).as_bytes()])
    }
    /// Does the steps that are not done yet, and waits until they are on the disk.
    ///
    /// # Errors
    /// [`is_interference`] recognises the error of a folder that another program has changed; other errors are the
    /// system's.
    pub(super) fn go_on(&self) -> io::Result<()> {
        for (number, step) in self.steps.iter().enumerate() {
            let (path, slot) = (self.path(step), self.slot(number));
            match (self.inode(&path)?, step.new) {
                (there, new) if there == new => {}
                (there, 0) if there != step.old => {}
                (there, 0) if there == step.old => self.fs.rename(&path, &slot, Rename::NoReplace)?,
                (0, _) => self.fs.rename(&slot, &path, Rename::NoReplace)?,
                (there, _) if there == step.old => self.fs.rename(&slot, &path, Rename::Exchange)?,
                _ => return Err(io::ErrorKind::AlreadyExists.into()),
            }
        }
        self.sync()
    }
    /// Removes the journal, and waits for the disk: it must not come back when what the steps have replaced is gone.
    ///
    /// # Errors
    /// Errors of the system.
    pub(super) fn end(&self, journal: &Path) -> io::Result<()> {
        self.fs.remove_file(journal)?;
        self.fs.sync_folder(parent(journal))
    }
    /// Undoes the steps that are done, and waits until that is on the disk.
    ///
    /// # Errors
    /// Errors of the system. Entries that another program has changed keep their change.
    pub(super) fn undo(&self) -> io::Result<()> {
        for (number, step) in self.steps.iter().enumerate().rev() {
            let (path, slot) = (self.path(step), self.slot(number));
            let undone = match (self.inode(&path)?, self.inode(&slot)?) {
                (there, kept) if step.new != 0 && there == step.new && kept == step.old => {
                    let how = if kept == 0 { Rename::NoReplace } else { Rename::Exchange };
                    self.fs.rename(&path, &slot, how)
                }
                (0, kept) if step.new == 0 && kept == step.old => self.fs.rename(&slot, &path, Rename::NoReplace),
                _ => Ok(()),
            };
            undone.or_else(|error| if is_interference(&error) { Ok(()) } else { Err(error) })?;
        }
        self.sync()
    }
    fn sync(&self) -> io::Result<()> {
        // Before its entries, since a folder that is new may not have its name yet.
        let mut folders: BTreeSet<PathBuf> = self.steps.iter().map(|step| parent(&self.path(step)).into()).collect();
        folders.insert(self.slots.into());
        let is_there = |folder: &PathBuf| self.inode(folder).map(|inode| inode != 0);
        for folder in folders {
            if is_there(&folder)? {
                self.fs.sync_folder(&folder)?;
            }
        }
        Ok(())
    }
    pub(super) fn path(&self, step: &Step) -> PathBuf {
        self.target.join(OsStr::from_bytes(&step.path))
    }
    pub(super) fn slot(&self, number: usize) -> PathBuf {
        slot(self.slots, number)
    }
    fn inode(&self, path: &Path) -> io::Result<u64> {
        match self.fs.metadata(path) {
            Ok(there) => Ok(there.identity.1),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(0),
            Err(error) => Err(error),
        }
    }
}

/// The place of the new entry of a step.
pub(super) fn slot(slots: &Path, number: usize) -> PathBuf {
    slots.join(number.to_string())
}
/// Whether an update failed because another program has changed the folder: a repetition fails too.
pub(super) fn is_interference(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AlreadyExists
            | io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::DirectoryNotEmpty
    )
}

/// `magic | steps: inodes u64 u64, bytes of the path u16, path`; the file has the BLAKE3 of it behind.
fn encode(steps: &[Step]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for Step { path, old, new } in steps {
        bytes.extend_from_slice(&old.to_be_bytes());
        bytes.extend_from_slice(&new.to_be_bytes());
        bytes.extend_from_slice(&u16::try_from(path.len()).expect("an index has short paths").to_be_bytes());
        bytes.extend_from_slice(path);
    }
    bytes
}
fn decode(bytes: &[u8]) -> Option<Vec<Step>> {
    let (body, checksum) = bytes.split_last_chunk::<32>()?;
    if blake3::hash(body) != *checksum {
        return None;
    }
    let (mut rest, mut steps) = (body.strip_prefix(MAGIC)?, Vec::new());
    while !rest.is_empty() {
        let (old, behind) = rest.split_first_chunk()?;
        let (new, behind) = behind.split_first_chunk()?;
        let (length, behind) = behind.split_first_chunk()?;
        let (path, behind) = behind.split_at_checked(u16::from_be_bytes(*length).into())?;
        steps.push(Step { path: path.into(), old: u64::from_be_bytes(*old), new: u64::from_be_bytes(*new) });
        rest = behind;
    }
    Some(steps)
}

const MAGIC: &[u8] = b"TrU\x01";

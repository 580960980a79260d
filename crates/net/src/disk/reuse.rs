//! Finds the chunks of a folder's new version that an earlier version at the same place has.
//!
//! ```text
//!   first chunk ──► length of the index ──► its chunks ──► index ──► files of the same path and size ──► chunks
//! ```
//! The new index gives the place of each file's bytes in the new object, independent of their place in the old one. A
//! chunk made of local bytes counts only if its hash is the one that the publisher signed, so these files need not be
//! trusted.
use std::{
    fs::{File, symlink_metadata},
    ops::Range,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use tributary_content::{ChunkPart, ObjectKind, Wanted, Wishes};

use super::{index::EntryKind, selection::Selected};

/// The wanted chunks of an object that exists locally in part: of a folder its index first, then the missing ones.
#[derive(Debug)]
pub(super) struct ReuseWishes {
    wanted: Mutex<Wanted>,
    parts: Mutex<Vec<ChunkPart>>,
    version: AtomicU64,
}

impl ReuseWishes {
    /// Wants the chunks in `first`; progress counts `extent`, or everything.
    pub(super) fn new(first: Range<u32>, extent: Option<Vec<Range<u64>>>) -> ReuseWishes {
        let windows = Some(first).filter(|first| !first.is_empty()).into_iter().collect();
        let wanted = Wanted { windows, may_change: true, extent };
        ReuseWishes { wanted: Mutex::new(wanted), parts: Mutex::default(), version: AtomicU64::new(0) }
    }
    pub(super) fn want(&self, windows: Vec<Range<u32>>, may_change: bool, extent: Option<Vec<Range<u64>>>) {
        *self.wanted.lock() = Wanted { windows, may_change, extent };
        self.version.fetch_add(1, Ordering::AcqRel);
    }
    /// Gives parts of chunks to the node, from the next call of [`ReuseWishes::want`] on.
    pub(super) fn give_parts(&self, parts: Vec<ChunkPart>) {
        *self.parts.lock() = parts;
    }
    /// Whether it still waits for the tree or the index.
    pub(super) fn may_change(&self) -> bool {
        self.wanted.lock().may_change
    }
    /// Whether it wants no chunk.
    pub(super) fn is_empty(&self) -> bool {
        self.wanted.lock().windows.is_empty()
    }
}
impl Wishes for ReuseWishes {
    fn wanted(&self) -> Wanted {
        self.wanted.lock().clone()
    }
    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
    fn take_parts(&self) -> Vec<ChunkPart> {
        std::mem::take(&mut self.parts.lock())
    }
    /// They change with chunks that are put: the answer to that wakes the node.
    fn wakes(&self) -> bool {
        true
    }
}

/// Local bytes, by their position in the new object.
pub(super) struct LocalBytes {
    /// The place of each piece, ascending.
    pieces: Vec<(Range<u64>, PathBuf)>,
    /// The file that was read last.
    open: Option<(usize, File)>,
}

impl LocalBytes {
    /// The files below `folder` that have the path and the size of a selected one; of a single file, `folder` is that one.
    /// Links are not followed.
    pub(super) fn of(folder: &Path, selected: &Selected) -> LocalBytes {
        let mut pieces = Vec::new();
        for entry in &selected.entries {
            let EntryKind::File { size, .. } = entry.kind else { continue };
            let place = entry.start..entry.start + size;
            let path = match selected.kind {
                ObjectKind::Directory => folder.join(std::ffi::OsStr::from_bytes(&entry.path)),
                ObjectKind::File => folder.into(),
            };
            if size > 0 && symlink_metadata(&path).is_ok_and(|there| there.is_file() && there.len() == size) {
                pieces.push((place, path));
            }
        }
        LocalBytes { pieces, open: None }
    }
    /// Fills `buffer` with the bytes of the object from `offset` on, leaving those before `index_bytes` unchanged;
    /// false if some are missing.
    pub(super) fn fill(&mut self, buffer: &mut [u8], offset: u64, index_bytes: u64) -> bool {
        let end = offset + buffer.len() as u64;
        let mut at = offset.max(index_bytes.min(end));
        let mut number = self.pieces.partition_point(|(place, _)| place.end <= at);
        while at < end {
            let Some((place, path)) = self.pieces.get(number).filter(|(place, _)| place.start <= at) else {
                return false;
            };
            let until = place.end.min(end);
            if self.open.as_ref().is_none_or(|(of, _)| *of != number) {
                let flags = nix::libc::O_NOFOLLOW;
                let Ok(file) = File::options().read(true).custom_flags(flags).open(path) else { return false };
                self.open = Some((number, file));
            }
            let part = &mut buffer[(at - offset) as usize..(until - offset) as usize];
            let read = self.open.as_ref().map(|(_, file)| file.read_exact_at(part, at - place.start));
            if !matches!(read, Some(Ok(()))) {
                return false;
            }
            at = until;
            number += 1;
        }
        true
    }
    /// Whether there are any.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

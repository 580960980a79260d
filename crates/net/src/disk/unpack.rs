//! From the bytes of a directory object to a directory.
use std::{
    ffi::OsStr,
    fs::{DirBuilder, File, OpenOptions},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};
use tributary_content::{Access, ChunkIndex, Manifest, ObjectKind, StoreError};

use super::{
    index::{DirectoryIndex, EntryKind, FileMode},
    io_error,
    pieces::Lent,
    refusal,
    selection::Selected,
    sparse::data_in,
};

/// The verified bytes of a folder.
pub(super) struct Packed {
    pub(super) file: File,
    pub(super) path: PathBuf,
    /// The chunks that are not in the file.
    pub(super) lent: Option<Lent>,
}

impl Packed {
    pub(super) fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        let read = |error| io_error("read", &self.path, &error);
        let Some(lent) = &mut self.lent else { return self.file.read_exact_at(buffer, offset).map_err(read) };
        let range = offset..offset + buffer.len() as u64;
        for index in lent.chunks_of(range.clone()).map(ChunkIndex) {
            let place = lent.place(index);
            let (from, until) = (place.start.max(range.start), place.end.min(range.end));
            let part = &mut buffer[(from - range.start) as usize..(until - range.start) as usize];
            if !lent.has(index.0) {
                self.file.read_exact_at(part, from).map_err(read)?;
                continue;
            }
            let changed = || refusal("read", &self.path, "the earlier version has changed meanwhile; fetch again");
            let chunk = lent.chunk(index).ok_or_else(changed)?;
            part.copy_from_slice(&chunk[(from - place.start) as usize..(until - place.start) as usize]);
        }
        Ok(())
    }
    /// Its index, and the bytes of that.
    pub(super) fn index(&mut self, manifest: &Manifest) -> Result<(DirectoryIndex, u64), StoreError> {
        let mut header = [0; DirectoryIndex::HEADER_BYTES];
        self.read_at(0, &mut header)?;
        let malformed = |error: String| refusal("unpack", &self.path, error);
        let mut bytes = vec![0; DirectoryIndex::encoded_len(&header).map_err(malformed)?];
        self.read_at(0, &mut bytes)?;
        let malformed = |error: String| refusal("unpack", &self.path, error);
        let index = DirectoryIndex::decode(&bytes).map_err(malformed)?;
        let index_bytes = bytes.len() as u64;
        if index_bytes.checked_add(index.content_bytes()) != Some(manifest.plain_size()) {
            return Err(refusal("unpack", &self.path, "the sizes in its index do not add up to its own"));
        }
        Ok((index, index_bytes))
    }
    /// Makes the entry at `path`, where nothing may be. A file gets the bytes from `start` on, and holes where they are
    /// zeros.
    pub(super) fn make(&mut self, kind: &EntryKind, start: u64, path: &Path) -> Result<(), StoreError> {
        match kind {
            EntryKind::Directory { access } => make_directory(path, *access),
            EntryKind::File { size, mode, access } => {
                let mode = match mode {
                    FileMode::Plain => 0o666,
                    FileMode::Executable => 0o777,
                } & access.mode_mask();
                let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
                let file = file.map_err(|error| not_created(path, &error))?;
                self.copy(start, *size, (&file, path))
            }
            EntryKind::Link { target } => {
                std::os::unix::fs::symlink(OsStr::from_bytes(target), path).map_err(|error| not_created(path, &error))
            }
        }
    }
    fn copy(&mut self, start: u64, size: u64, (to, path): (&File, &Path)) -> Result<(), StoreError> {
        let write = |error| io_error("write", path, &error);
        let mut buffer = vec![0; usize::try_from(size.min(COPY_BYTES)).unwrap_or(0)];
        let mut at = 0;
        while at < size {
            let length = usize::try_from((size - at).min(COPY_BYTES)).unwrap_or(0);
            self.read_at(start + at, &mut buffer[..length])?;
            for range in data_in(&buffer[..length], at) {
                to.write_all_at(&buffer[range.clone()], at + range.start as u64).map_err(write)?;
            }
            at += length as u64;
        }
        // Zeros at the end were not written.
        to.set_len(size).map_err(write)
    }
}

/// Makes the directory `into`, which must not exist, from the object of `manifest`; with `selected`, only these entries.
/// Then `into` may become a single file.
///
/// Every entry is new: directories first, then files, links last, so nothing is ever written through a link;
/// [`DirectoryIndex::decode`] checks the index.
///
/// The umask decides who may read it, as far as the manifest and the index allow.
pub(super) fn unpack(
    packed: &mut Packed,
    manifest: &Manifest,
    selected: Option<&Selected>,
    into: &Path,
) -> Result<(), StoreError> {
    let (index, index_bytes) = packed.index(manifest)?;
    let all = selected.is_none().then(|| Selected::all(&index, index_bytes, manifest.access));
    let selected = selected.or(all.as_ref()).expect("it is one or the other");
    if selected.kind == ObjectKind::Directory {
        make_directory(into, selected.access)?;
    }
    let (links, others): (Vec<_>, Vec<_>) =
        selected.entries.iter().partition(|entry| matches!(entry.kind, EntryKind::Link { .. }));
    for entry in others.into_iter().chain(links) {
        match (selected.kind, &entry.kind) {
            (ObjectKind::Directory, kind) => {
                packed.make(kind, entry.start, &into.join(OsStr::from_bytes(&entry.path)))?
            }
            (ObjectKind::File, EntryKind::File { size, mode, access }) => {
                let access = selected.access.max(*access);
                packed.make(&EntryKind::File { size: *size, mode: *mode, access }, entry.start, into)?;
            }
            (ObjectKind::File, _) => {}
        }
    }
    Ok(())
}

/// An index has no path twice, but a file system may take two paths for one.
fn not_created(path: &Path, error: &io::Error) -> StoreError {
    if error.kind() == io::ErrorKind::AlreadyExists {
        let reason = "this file system does not distinguish it from another name in the folder, such as one that \
            differs by case; fetch to another file system";
        return refusal("create", path, reason);
    }
    io_error("create", path, error)
}
fn make_directory(path: &Path, access: Access) -> Result<(), StoreError> {
    DirBuilder::new().mode(access.mode_mask()).create(path).map_err(|error| not_created(path, &error))
}

const COPY_BYTES: u64 = 1 << 20;

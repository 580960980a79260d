//! A directory as one object.
use bytes::Bytes;
use std::{
    ffi::OsStr,
    fmt,
    fs::{self, File},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{FileExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};
use tributary_content::{ChunkIndex, Hash, HashTree, Manifest, Name, ObjectKind, ObjectReader, SigningKey, StoreError};

use super::{
    PublishError, PublishOptions,
    index::{DirectoryIndex, EntryKind, FileMode, IndexEntry},
    io_error,
    publish::{Published, Source, identify, modified_micros},
};

/// A published directory: a [`DirectoryIndex`] and the bytes of its files behind it. No copy is made; the files are
/// read where they are and checked against the tree whenever they are read.
pub struct DirectoryObject(Published<DirectorySource>);

impl DirectoryObject {
    /// Hashes everything below the directory in one pass and signs the manifest.
    ///
    /// # Errors
    /// [`PublishError`] if something cannot be read or changes meanwhile, if there is something other than files,
    /// directories and links that stay inside, or a limit of the index is exceeded.
    pub fn publish(path: &Path, name: Name, key: &SigningKey, options: &PublishOptions) -> Result<Self, PublishError> {
        Published::publish(path, name, key, options).map(DirectoryObject)
    }
    /// Offers a copy of a directory that somebody else signed, such as a finished download.
    /// Of `options` the version and the chunk size do not matter.
    ///
    /// # Errors
    /// [`PublishError::NotTheObject`] if anything differs, and what [`DirectoryObject::publish`] gives.
    pub fn mirror(path: &Path, manifest: Manifest, options: &PublishOptions) -> Result<Self, PublishError> {
        Published::mirror(path, manifest, options).map(DirectoryObject)
    }
    /// The hash tree.
    pub fn hash_tree(&self) -> &HashTree {
        self.0.hash_tree()
    }
    /// What is in the directory.
    pub fn index(&self) -> &DirectoryIndex {
        &self.0.source.index
    }
}
impl ObjectReader for DirectoryObject {
    fn manifest(&self) -> &Manifest {
        self.0.manifest()
    }
    fn tree(&self) -> Bytes {
        self.0.hash_tree().encode()
    }
    fn read_chunk(&mut self, index: ChunkIndex) -> Result<Bytes, StoreError> {
        self.0.read_chunk(index)
    }
}
impl fmt::Debug for DirectoryObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectoryObject").field("path", &self.0.path).field("manifest", self.0.manifest()).finish()
    }
}

struct DirectorySource {
    path: PathBuf,
    index: DirectoryIndex,
    encoded: Vec<u8>,
    /// Where each file that is not empty starts in the object, and its number in the index.
    starts: Vec<(u64, usize)>,
    size: u64,
    modified: u64,
    fingerprint: Hash,
    /// The file read last: most chunks lie within one file.
    open: Option<(usize, File)>,
}

impl Source for DirectorySource {
    const KIND: ObjectKind = ObjectKind::Directory;

    fn open(path: &Path) -> Result<Self, PublishError> {
        let mut walk = Walk { root: path, entries: Vec::new(), modified: 0, identities: Vec::new() };
        walk.visit(path, 0)?;
        let mut hasher = blake3::Hasher::new();
        walk.identities.sort();
        for (path, identity) in &walk.identities {
            hasher.update(&(path.len() as u64).to_be_bytes()).update(path).update(&identity.0);
        }
        let unsuitable = |error: super::index::IndexError| PublishError::Unsuitable {
            path: path.display().to_string(),
            reason: error.to_string(),
        };
        let modified = walk.modified;
        let index = DirectoryIndex::new(walk.entries).map_err(unsuitable)?;
        let encoded = index.encode();
        let (mut at, mut starts) = (encoded.len() as u64, Vec::new());
        for (number, entry) in index.entries().iter().enumerate().filter(|(_, entry)| entry.content_bytes() > 0) {
            starts.push((at, number));
            at = at.saturating_add(entry.content_bytes());
        }
        let fingerprint = Hash(*hasher.finalize().as_bytes());
        Ok(DirectorySource { path: path.into(), index, encoded, starts, size: at, modified, fingerprint, open: None })
    }
    fn size(&self) -> u64 {
        self.size
    }
    fn modified(&self) -> u64 {
        self.modified
    }
    fn fingerprint(&self) -> Hash {
        self.fingerprint
    }
    fn read_at(&mut self, mut offset: u64, mut buffer: &mut [u8]) -> Result<(), StoreError> {
        if let Some(left) = self.encoded.len().checked_sub(usize::try_from(offset).unwrap_or(usize::MAX)) {
            let (head, rest) = buffer.split_at_mut(left.min(buffer.len()));
            let start = self.encoded.len() - left;
            head.copy_from_slice(&self.encoded[start..start + head.len()]);
            offset += head.len() as u64;
            buffer = rest;
        }
        while !buffer.is_empty() {
            let at = self.starts.partition_point(|(start, _)| *start <= offset);
            let Some((start, number)) = at.checked_sub(1).map(|at| self.starts[at]) else { break };
            let entry = &self.index.entries()[number];
            let within = offset - start;
            let left = usize::try_from(entry.content_bytes().saturating_sub(within)).unwrap_or(usize::MAX);
            let path = self.path.join(OsStr::from_bytes(&entry.path));
            if left == 0 {
                return Err(super::refusal("read", &self.path, "the object ends before the chunk does"));
            }
            if self.open.as_ref().is_none_or(|(open, _)| *open != number) {
                let file = File::open(&path).map_err(|error| io_error("open", &path, &error))?;
                self.open = Some((number, file));
            }
            let (piece, rest) = buffer.split_at_mut(left.min(buffer.len()));
            let (_, file) = self.open.as_ref().expect("it was opened above");
            file.read_exact_at(piece, within).map_err(|error| io_error("read", &path, &error))?;
            offset += piece.len() as u64;
            buffer = rest;
        }
        Ok(())
    }
}

struct Walk<'a> {
    root: &'a Path,
    entries: Vec<IndexEntry>,
    modified: u64,
    identities: Vec<(Vec<u8>, Hash)>,
}

impl Walk<'_> {
    fn visit(&mut self, directory: &Path, depth: usize) -> Result<(), PublishError> {
        let unsuitable = |path: &Path, reason: &str| PublishError::Unsuitable {
            path: path.display().to_string(),
            reason: reason.into(),
        };
        if depth > DirectoryIndex::DEPTH_MAX {
            return Err(unsuitable(directory, "it lies more than 64 directories deep"));
        }
        for entry in fs::read_dir(directory).map_err(|error| io_error("read", directory, &error))? {
            let path = entry.map_err(|error| io_error("read", directory, &error))?.path();
            let metadata = fs::symlink_metadata(&path).map_err(|error| io_error("read", &path, &error))?;
            let relative = path.strip_prefix(self.root).expect("it was found below").as_os_str().as_bytes().to_vec();
            let kind = if metadata.is_file() {
                let executable = metadata.permissions().mode() & 0o100 != 0;
                let mode = if executable { FileMode::Executable } else { FileMode::Plain };
                EntryKind::File { size: metadata.len(), mode }
            } else if metadata.is_dir() {
                EntryKind::Directory
            } else if metadata.is_symlink() {
                let target = fs::read_link(&path).map_err(|error| io_error("read", &path, &error))?;
                EntryKind::Link { target: target.into_os_string().into_vec() }
            } else {
                return Err(unsuitable(&path, "it is neither a file nor a directory nor a link"));
            };
            if self.entries.len() == DirectoryIndex::ENTRIES_MAX {
                return Err(unsuitable(self.root, "it has more than 100,000 entries"));
            }
            let mut hasher = blake3::Hasher::new();
            if metadata.is_dir() {
                // What is in a directory is listed; its own times and size change with things that do not matter.
                hasher.update(b"directory");
            } else {
                identify(&mut hasher, &metadata);
                self.modified = self.modified.max(modified_micros(&metadata));
            }
            self.identities.push((relative.clone(), Hash(*hasher.finalize().as_bytes())));
            self.entries.push(IndexEntry { path: relative, kind });
            if metadata.is_dir() {
                self.visit(&path, depth + 1)?;
            }
        }
        Ok(())
    }
}

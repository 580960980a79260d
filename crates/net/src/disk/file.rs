//! A file as an object.
use bytes::Bytes;
use std::{
    fmt,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};
use tributary_content::{ChunkIndex, Hash, HashTree, Manifest, Name, ObjectKind, ObjectReader, SigningKey, StoreError};

use super::{
    PublishError, PublishOptions, io_error,
    publish::{Published, Source, identify, modified_micros},
};

/// A published file. Its bytes stay where they are and are checked against the tree whenever they are read.
pub struct FileObject(Published<FileSource>);

impl FileObject {
    /// Hashes the file in one pass, whatever its size, and signs its manifest.
    ///
    /// # Errors
    /// [`PublishError`] if it cannot be read, is no regular file, is too large, or changes meanwhile.
    pub fn publish(path: &Path, name: Name, key: &SigningKey, options: &PublishOptions) -> Result<Self, PublishError> {
        Published::publish(path, name, key, options).map(FileObject)
    }
    /// Offers a copy of an object that somebody else signed, such as a finished download.
    /// Of `options` the version and the chunk size do not matter.
    ///
    /// # Errors
    /// [`PublishError::NotTheObject`] if a single byte differs, and what [`FileObject::publish`] gives.
    pub fn mirror(path: &Path, manifest: Manifest, options: &PublishOptions) -> Result<Self, PublishError> {
        Published::mirror(path, manifest, options).map(FileObject)
    }
    /// The hash tree.
    pub fn hash_tree(&self) -> &HashTree {
        self.0.hash_tree()
    }
    /// The file, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.0.path
    }
}
impl ObjectReader for FileObject {
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
impl fmt::Debug for FileObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileObject").field("path", &self.0.path).field("manifest", self.0.manifest()).finish()
    }
}

struct FileSource {
    path: PathBuf,
    file: File,
    metadata: fs::Metadata,
}

impl Source for FileSource {
    const KIND: ObjectKind = ObjectKind::File;

    fn open(path: &Path) -> Result<Self, PublishError> {
        // Asked before it is opened: opening a pipe waits for its other end.
        let metadata = fs::metadata(path).map_err(|error| io_error("read", path, &error))?;
        if !metadata.is_file() {
            let reason = "it is neither a file nor a directory".into();
            return Err(PublishError::Unsuitable { path: path.display().to_string(), reason });
        }
        let file = File::open(path).map_err(|error| io_error("open", path, &error))?;
        let metadata = file.metadata().map_err(|error| io_error("read", path, &error))?;
        Ok(FileSource { path: path.into(), file, metadata })
    }
    fn size(&self) -> u64 {
        self.metadata.len()
    }
    fn modified(&self) -> u64 {
        modified_micros(&self.metadata)
    }
    fn fingerprint(&self) -> Hash {
        let mut hasher = blake3::Hasher::new();
        identify(&mut hasher, &self.metadata);
        Hash(*hasher.finalize().as_bytes())
    }
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        self.file.read_exact_at(buffer, offset).map_err(|error| io_error("read", &self.path, &error))
    }
}

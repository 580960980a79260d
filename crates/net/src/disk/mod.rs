//! Objects on disk: files that are published, and downloads.
//!
//! ```text
//!  publisher                                          receiver
//!  FileObject ───────┐                                ┌──► PartFile ──finish──► OUT       (or a directory, unpacked)
//!  DirectoryObject ──┴─ ObjectReader ─► node ─► DiskOpener
//!    │                  verified at each read         ├──► {StreamOptions, StreamStore} ───────► a pipe, in order
//!    └─ records: manifest and tree of unchanged files └──► TrustStore: first key seen for each name
//! ```
//! | part | module |
//! |---|---|
//! | threads that do all this for a node that must not wait | [`background`] |
//! | a file as an object | [`file`](mod@file) |
//! | a directory as an object, its index, and unpacking it | [`directory`], [`index`], `unpack` (private) |
//! | files that do not report their size, such as those in /proc | `snapshot` (private) |
//! | where unfinished downloads lie, and how holes are kept | `staging`, `sparse` (private) |
//! | settings of publishing, the cache of chunks, the memory of a restarted publisher | [`publish`](mod@publish) |
//! | a download that survives being killed at any moment | [`part`] and its table of held chunks `state` (private) |
//! | a folder that becomes its next version in place | `update` (private) |
//! | a download to a pipe | [`stream`] |
//! | first key seen for each name | [`trust`] |
//! | trust and destination in one [`StoreOpener`](tributary_content::StoreOpener) | [`opener`] |
//! | chunks that a node keeps for others | [`repository`] |
//! | files and directories that only readers can open | [`sealed`] |
//! | secret key files | [`key`](mod@key) |
//! | the file system under all of them, real or simulated | [`fs`] |
pub mod age;
pub mod arriving;
pub mod background;
pub mod cache;
pub mod directory;
pub mod file;
pub mod fs;
#[cfg(test)]
mod histories_tests;
pub mod hooked_store;
pub mod index;
pub mod key;
mod open_files;
pub mod opener;
pub mod part;
mod pieces;
mod place;
pub mod publish;
pub mod repository;
mod reuse;
pub mod sealed;
pub mod selection;
mod snapshot;
mod sparse;
mod staging;
mod state;
pub mod stream;
pub mod trust;
mod unpack;
mod update;

pub use arriving::{ArrivingObject, Share};
pub use background::{BackgroundStore, Storage};
pub use cache::{CacheOpener, CacheReader, CachedObject, ObjectCache, OnOpen, Pin};
pub use directory::{DirectoryObject, LeftOut};
pub use file::FileObject;
pub use hooked_store::{HookedStore, StoreHooks};
pub use key::{KeyFileError, load_or_create_key};
pub use opener::{BackgroundOpener, Destination, DiskOpener, DiskOptions, FindKey, Sealed};
pub use part::{Durability, Existing, PartFile, PartOptions, Placed, Resume, directory_at};
pub use place::{number_of, numbered};
pub use publish::{ChunkCache, Original, Publication, PublishError, PublishOptions, publish, publish_copy};
pub use repository::DiskRepository;
pub use sealed::{SealedPublication, publish_sealed};
pub use selection::Selection;
pub use staging::is_reserved;
pub use stream::{StreamOptions, StreamStore};
pub use trust::{Trust, TrustStore};

use std::{
    ffi::OsString,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};
use tributary_content::{ChunkIndex, Manifest, StoreError};
use tributary_core::ByteCount;

/// What the system refused, in words for a person.
fn io_error(operation: &'static str, path: &Path, error: &io::Error) -> StoreError {
    let reason = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            let reason = format!("{error}; verified chunks are kept: free some space and fetch again");
            return StoreError::Later { reason: refusal(operation, path, reason).to_string() };
        }
        io::ErrorKind::UnexpectedEof => "it ends too early".into(),
        _ => error.to_string(),
    };
    refusal(operation, path, reason)
}
/// A refusal of this program.
fn refusal(operation: &'static str, path: &Path, reason: impl Into<String>) -> StoreError {
    StoreError::Io { operation, path: path.display().to_string(), reason: reason.into() }
}
/// Refuses a chunk that the object does not have, or that has another length.
fn check_chunk(manifest: &Manifest, index: ChunkIndex, bytes: &[u8], path: &Path) -> Result<(), StoreError> {
    let need = manifest.chunk_len(index) as usize;
    if index.0 < manifest.chunk_count() && bytes.len() == need {
        return Ok(());
    }
    Err(refusal("write", path, format!("chunk {} has {need} bytes, not {}", index.0, bytes.len())))
}
/// Refuses to write `bytes` bytes to `file` and its temporary folder if they cannot fit: before hours are spent on
/// them. The space that the file uses already counts as free.
///
/// # Errors
/// [`StoreError::Later`] with the space that is needed and left.
pub fn check_room(file: &Path, bytes: u64) -> Result<(), StoreError> {
    let Some(free) = fs::FileSystem::free_bytes(&fs::RealFileSystem, parent(file)) else { return Ok(()) };
    let have = std::fs::metadata(file).map_or(0, |file| file.blocks().saturating_mul(512));
    let need = bytes.saturating_sub(have);
    if need > free {
        let reason = format!("it needs {} more, and the disk has {} left", ByteCount(need), ByteCount(free));
        return Err(StoreError::Later { reason: refusal("reserve space for", file, reason).to_string() });
    }
    Ok(())
}
fn parent(target: &Path) -> &Path {
    target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
/// `path` with `suffix` behind its last component.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}
/// A unique name next to `path`; process numbers repeat between containers that share a disk.
fn temporary_sibling(path: &Path) -> io::Result<PathBuf> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(with_suffix(path, &format!(".{:016x}.tmp", u64::from_ne_bytes(random))))
}
/// Replaces the file at `path` in one step, readable by its owner only, and waits for the disk: a crash or power cut
/// leaves the old or the new one, and the new one once this has returned.
///
/// # Errors
/// The system's error; the path then has the old or the new file, and no temporary file remains.
pub fn replace_file(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    fs::replace(&fs::RealFileSystem, path, parts)
}

#[cfg(test)]
mod fixtures {
    use std::{fs, path::Path};
    use tempfile::TempDir;
    use tributary_content::{
        ChunkIndex, ChunkStore, Manifest, MemoryObject, ObjectKind, ObjectReader, PublicKey, SigningKey,
    };
    use tributary_trust::Believed;

    use super::{Trust, TrustStore};

    pub(super) const CHUNK: u32 = Manifest::CHUNK_SIZE_MIN;

    pub(super) fn key() -> SigningKey {
        SigningKey::from_secret(&[7; 32])
    }
    /// Believes `pinned`, or whom the store remembers.
    pub(super) fn believing(store: &TrustStore, pinned: Option<PublicKey>) -> Trust {
        Trust::new(store.clone(), Believed { pinned, ..Believed::default() })
    }
    pub(super) fn directory() -> TempDir {
        tempfile::tempdir().expect("a temporary directory")
    }
    /// Bytes without a period that could hide a misplaced chunk.
    pub(super) fn pattern(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().update(b"pattern").finalize_xof().fill(&mut bytes);
        bytes
    }
    pub(super) fn object_of(bytes: &[u8], name: &str, version: u64, key: &SigningKey) -> MemoryObject {
        let name = name.parse().expect("a name");
        MemoryObject::with_options(name, bytes.to_vec(), key, version, ObjectKind::File, CHUNK).expect("legal")
    }
    pub(super) fn object(length: usize) -> MemoryObject {
        object_of(&pattern(length), "/x", 1, &key())
    }
    pub(super) fn put(store: &mut dyn ChunkStore, object: &mut dyn ObjectReader, index: u32) {
        let chunk = object.read_chunk(ChunkIndex(index)).expect("the object has it");
        store.put_chunk(ChunkIndex(index), &chunk).expect("the store takes it");
    }
    pub(super) fn put_missing(store: &mut dyn ChunkStore, object: &mut dyn ObjectReader) {
        while let Some(index) = store.held().first_unset() {
            put(store, object, index);
        }
    }
    pub(super) fn read_all(object: &mut dyn ObjectReader) -> Vec<u8> {
        let count = object.manifest().chunk_count();
        (0..count).flat_map(|index| object.read_chunk(ChunkIndex(index)).expect("unaltered").to_vec()).collect()
    }
    pub(super) fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).expect("it is there").map(|entry| entry.expect("it is readable"));
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

//! Objects on disk: what is published from it and what is fetched to it.
//!
//! ```text
//!  publisher                                          receiver
//!  FileObject ───────┐                                ┌──► PartFile ──finish──► OUT       (or a directory, unpacked)
//!  DirectoryObject ──┴─ ObjectReader ─► node ─► DiskOpener
//!    │                  verified at each read         ├──► StreamStore ───────► a pipe, in order
//!    └─ records: manifest and tree of unchanged files └──► TrustStore: first key seen for each name
//! ```
//! | what | module |
//! |---|---|
//! | a file as an object | [`file`] |
//! | a directory as an object, its index, and unpacking it | [`directory`], [`index`], `unpack` (private) |
//! | settings of publishing, the cache of chunks, what a restarted publisher remembers | [`publish`] |
//! | a download that survives being killed at any moment | [`part`] and its table of held chunks `state` (private) |
//! | a download to a pipe | [`stream`] |
//! | first key seen for each name | [`trust`] |
//! | trust and destination in one [`StoreOpener`](tributary_content::StoreOpener) | [`opener`] |
//! | secret key files | [`key`] |
pub mod directory;
pub mod file;
pub mod index;
pub mod key;
pub mod opener;
pub mod part;
pub mod publish;
mod state;
pub mod stream;
pub mod trust;
mod unpack;

pub use directory::DirectoryObject;
pub use file::FileObject;
pub use key::{KeyFileError, load_or_create_key};
pub use opener::{Destination, DiskOpener, DiskOptions};
pub use part::{Durability, Existing, PartFile, PartOptions, Resume};
pub use publish::{ChunkCache, PublishError, PublishOptions, publish};
pub use stream::StreamStore;
pub use trust::TrustStore;

use std::{ffi::OsString, io, path::Path, path::PathBuf};
use tributary_content::StoreError;

/// What the system refused, in words for a person.
fn io_error(operation: &'static str, path: &Path, error: &io::Error) -> StoreError {
    let reason = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("{error}; what is verified is kept: make room and fetch again")
        }
        io::ErrorKind::UnexpectedEof => "it ends too early".into(),
        _ => error.to_string(),
    };
    refusal(operation, path, reason)
}
/// What is refused by us.
fn refusal(operation: &'static str, path: &Path, reason: impl Into<String>) -> StoreError {
    StoreError::Io { operation, path: path.display().to_string(), reason: reason.into() }
}
/// `path` with `suffix` behind its last component.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}
/// Replaces the file at `path` in one step, readable by its owner only; a crash leaves the old or the new one.
fn replace_file(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    use std::{fs, io::Write, os::unix::fs::OpenOptionsExt};
    static SERIAL: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let serial = SERIAL.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let temporary = with_suffix(path, &format!(".{}-{serial}.tmp", std::process::id()));
    let written = (|| {
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        parts.iter().try_for_each(|part| file.write_all(part))?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

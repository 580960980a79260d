//! Secret key files.
use std::{io, path::Path};
use tributary_content::SigningKey;

use super::{
    fs::{self, FileSystem, Kind, OpenOptions, RealFileSystem, create_folders},
    parent, temporary_sibling,
};

/// Reads the secret key in `path`, or creates one there that only its owner may read.
///
/// The file has one line, `ed25519-secret:` and 64 hex digits.
///
/// # Errors
/// [`KeyFileError`] if the file cannot be read or created, is damaged, or is readable by others.
pub fn load_or_create_key(path: &Path) -> Result<SigningKey, KeyFileError> {
    load_or_create(&RealFileSystem, path)
}
/// The same, on any file system.
pub(super) fn load_or_create(fs: &dyn FileSystem, path: &Path) -> Result<SigningKey, KeyFileError> {
    match load(fs, path) {
        Err(KeyFileError::Io { kind: io::ErrorKind::NotFound, .. }) => create(fs, path),
        loaded => loaded,
    }
}

fn load(fs: &dyn FileSystem, path: &Path) -> Result<SigningKey, KeyFileError> {
    let shown = || path.display().to_string();
    let failed = |error: io::Error| KeyFileError::io("read", path, &error);
    let metadata = fs.open(path, OpenOptions::READ).and_then(|file| file.metadata()).map_err(failed)?;
    // Otherwise the error would be about its mode, and the hint would close a folder.
    if metadata.kind == Kind::Folder {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    let mode = metadata.mode & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyFileError::Exposed { path: shown(), mode });
    }
    if metadata.length > 4096 {
        return Err(KeyFileError::Damaged { path: shown() });
    }
    let text = fs::read(fs, path).map_err(failed)?;
    let damaged = || KeyFileError::Damaged { path: shown() };
    let digits = text.trim_ascii().strip_prefix(PREFIX.as_bytes()).ok_or_else(damaged)?;
    let secret = blake3::Hash::from_hex(digits).map_err(|_| damaged())?;
    // The process that made it may have been killed before the name was on the disk. Without permission to sync the
    // folder we did not make the file.
    if let Err(error) = fs.sync_folder(parent(path)) {
        tracing::debug!(%error, path = %path.display(), "cannot sync the folder of the key");
    }
    Ok(SigningKey::from_secret(secret.as_bytes()))
}
fn create(fs: &dyn FileSystem, path: &Path) -> Result<SigningKey, KeyFileError> {
    let failed = |error: io::Error| KeyFileError::io("create", path, &error);
    create_folders(fs, parent(path)).map_err(failed)?;
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| failed(io::Error::other(error.to_string())))?;
    let text = format!("{PREFIX}{}\n", blake3::Hash::from_bytes(secret).to_hex());
    // Written completely under another name first: a crash must not leave half a key, nor may two processes that start
    // at once end with different keys. Linking fails if the name is taken; then the other's key is the key.
    let temporary = temporary_sibling(path).map_err(failed)?;
    let linked = (|| {
        let file = fs.open(&temporary, OpenOptions::CREATE_NEW)?;
        file.write_all_at(text.as_bytes(), 0)?;
        file.sync_all()?;
        fs.link(&temporary, path)
    })();
    let _ = fs.remove_file(&temporary);
    // Losing a key loses everything published under it.
    match linked.and_then(|()| fs.sync_folder(parent(path))) {
        Ok(()) => Ok(SigningKey::from_secret(&secret)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => load(fs, path),
        Err(error) => Err(failed(error)),
    }
}

/// Why there is no secret key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The system refused.
    #[error("cannot {operation} the key file '{path}': {reason}")]
    Io {
        /// The operation.
        operation: &'static str,
        /// The path.
        path: String,
        /// The system's reason.
        reason: String,
        /// The same, for programs.
        kind: io::ErrorKind,
    },
    /// Other users may read or write the secret.
    #[error("the key file '{path}' is open to others (mode {mode:03o}); close it with: chmod 600 '{path}'")]
    Exposed {
        /// The file.
        path: String,
        /// Its mode.
        mode: u32,
    },
    /// There is something else in it.
    #[error("the key file '{path}' is damaged: it should have one line, '{PREFIX}' and 64 hex digits")]
    Damaged {
        /// The file.
        path: String,
    },
}
impl KeyFileError {
    fn io(operation: &'static str, path: &Path, error: &io::Error) -> Self {
        KeyFileError::Io { operation, path: path.display().to_string(), reason: error.to_string(), kind: error.kind() }
    }
}

const PREFIX: &str = "ed25519-secret:";

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt},
    };

    use super::*;
    use crate::disk::fixtures::{directory, names};

    #[test]
    fn a_new_key_is_for_its_owner_only_and_is_read_back() {
        let directory = directory();
        let path = directory.path().join("keys/publisher");
        let made = load_or_create_key(&path).expect("it can be made");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
        assert_eq!(load_or_create_key(&path).expect("it can be read").public(), made.public());
        assert_eq!(names(&directory.path().join("keys")), ["publisher"]);
        let other = load_or_create_key(&directory.path().join("other")).expect("it can be made");
        assert_ne!(other.public(), made.public());
    }

    #[test]
    fn a_key_open_to_others_is_refused_with_the_remedy() {
        let directory = directory();
        let path = directory.path().join("key");
        load_or_create_key(&path).expect("it can be made");
        for mode in [0o640, 0o604, 0o620] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("modes can be set");
            let error = load_or_create_key(&path).expect_err("others may use it").to_string();
            assert!(error.contains("chmod 600"), "{error}");
        }
    }

    #[test]
    fn a_damaged_key_is_refused_and_never_replaced() {
        let directory = directory();
        let path = directory.path().join("key");
        for text in ["", "ed25519-secret:", "ed25519-secret:00", &"0".repeat(64), &"x".repeat(5000)] {
            fs::write(&path, text).expect("writable");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("modes can be set");
            let error = load_or_create_key(&path).expect_err("it is no key");
            assert!(matches!(error, KeyFileError::Damaged { .. }), "{error}");
            assert_eq!(fs::read_to_string(&path).expect("readable"), text);
        }
        let folder = directory.path().join("folder");
        fs::create_dir(&folder).expect("writable");
        let error = load_or_create_key(&folder).expect_err("it is no file").to_string();
        assert_eq!(error, format!("cannot read the key file '{}': is a directory", folder.display()));
    }

    #[test]
    fn two_that_start_at_once_end_with_the_same_key() {
        let directory = directory();
        let path = directory.path().join("key");
        let keys: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| load_or_create_key(&path).map(|key| key.public()))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert!(keys.iter().all(|key| key.is_ok() && *key == keys[0]), "{keys:?}");
    }
}

//! Secret key files.
use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};
use tributary_content::SigningKey;

use super::with_suffix;

/// Reads the secret key in `path`, or makes a new one there that only its owner may read.
///
/// The file has one line, `ed25519-secret:` and 64 hex digits.
///
/// # Errors
/// [`KeyFileError`] if the file cannot be read or made, is damaged, or others may read it.
pub fn load_or_create_key(path: &Path) -> Result<SigningKey, KeyFileError> {
    match load(path) {
        Err(KeyFileError::Io { kind: io::ErrorKind::NotFound, .. }) => create(path),
        loaded => loaded,
    }
}

fn load(path: &Path) -> Result<SigningKey, KeyFileError> {
    let shown = || path.display().to_string();
    let failed = |error: io::Error| KeyFileError::io("read", path, &error);
    let metadata = fs::metadata(path).map_err(failed)?;
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyFileError::Exposed { path: shown(), mode });
    }
    if metadata.len() > 4096 {
        return Err(KeyFileError::Damaged { path: shown() });
    }
    let text = fs::read(path).map_err(failed)?;
    let damaged = || KeyFileError::Damaged { path: shown() };
    let digits = text.trim_ascii().strip_prefix(PREFIX.as_bytes()).ok_or_else(damaged)?;
    let secret = blake3::Hash::from_hex(digits).map_err(|_| damaged())?;
    Ok(SigningKey::from_secret(secret.as_bytes()))
}
fn create(path: &Path) -> Result<SigningKey, KeyFileError> {
    let failed = |error: io::Error| KeyFileError::io("create", path, &error);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| failed(io::Error::other(error.to_string())))?;
    let text = format!("{PREFIX}{}\n", blake3::Hash::from_bytes(secret).to_hex());
    // Written whole under another name first: a crash must not leave half a key, nor may two processes that start at
    // once end with different keys. Linking fails if the name is taken; then the other's key is the key.
    let temporary = with_suffix(path, &format!(".{}.tmp", std::process::id()));
    let _ = fs::remove_file(&temporary);
    let linked = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::hard_link(&temporary, path)
    })();
    let _ = fs::remove_file(&temporary);
    match linked {
        Ok(()) => Ok(SigningKey::from_secret(&secret)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => load(path),
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
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: String,
        /// What the system said.
        reason: String,
        /// The same, for programs.
        kind: io::ErrorKind,
    },
    /// Others may read or write the secret.
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

//! A state folder belongs to one process at a time: two nodes with the same key, store and addresses would take each
//! other's packets.
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};
use tributary_core::{Duration, Time};
use tributary_net::{Clock, disk::replace_file};

use crate::{
    config::NodeConfig,
    error::{ApiError, ErrorKind},
};

/// The locked file in a state folder; it holds the id of the process that has locked it.
const FILE: &str = "lock";
/// The file with the number of the folder's format.
const FORMAT_FILE: &str = "format";
/// What this program writes. It is raised when an earlier program would misread or lose something; folders of lower
/// numbers are converted. A folder without the file has format 1.
const FORMAT: u32 = 1;
/// How long a process that is about to end may still hold the lock.
const PATIENCE: Duration = Duration::from_millis(250);
/// Interval of attempts to take the lock.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// The lock of this process on a state folder. The system releases it when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct StateLock {
    _file: File,
}

impl StateLock {
    /// Locks the state folder of a config, which must exist.
    ///
    /// # Errors
    /// [`ApiError`] names the process that has it.
    pub(crate) fn take(config: &NodeConfig) -> Result<Self, ApiError> {
        check_format(&config.state_dir)?;
        let path = config.state_dir.join(FILE);
        let failed = |error: &io::Error| ApiError::io("lock", path.display(), error);
        let mut open = OpenOptions::new();
        open.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = open.open(&path).map_err(|error| failed(&error))?;
        let clock = Clock::new();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if clock.now().since(Time::ZERO) < PATIENCE => {
                    std::thread::sleep(RETRY_INTERVAL);
                }
                Err(TryLockError::WouldBlock) => return Err(in_use(&mut file, config)),
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    tracing::warn!("'{}' cannot be locked here; start one node with it only", path.display());
                    break;
                }
                Err(TryLockError::Error(error)) => return Err(failed(&error)),
            }
        }
        let format = config.state_dir.join(FORMAT_FILE);
        if !format.exists() {
            replace_file(&format, &[format!("{FORMAT}\n").as_bytes()])
                .map_err(|error| ApiError::io("write", format.display(), &error))?;
        }
        // Only people read it.
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        if let Err(error) = written {
            tracing::debug!(%error, "the number of this process cannot be written to '{}'", path.display());
        }
        Ok(StateLock { _file: file })
    }
}

/// Refuses a folder of a newer program before anything in it is touched.
fn check_format(state_dir: &Path) -> Result<(), ApiError> {
    let path = state_dir.join(FORMAT_FILE);
    let found = match std::fs::read_to_string(&path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ApiError::io("read", path.display(), &error)),
    };
    match found.trim().parse::<u32>() {
        Ok(1..=FORMAT) => return Ok(()),
        Ok(_) => {}
        Err(_) => {
            let message = format!("'{}' is damaged: it holds no number of a format", path.display());
            let hint = "remove it, unless a newer version of this program has used the folder";
            return Err(ApiError::new(ErrorKind::Io, message).with_hint(hint));
        }
    }
    let message = format!(
        "the state folder '{}' was written by a newer version of this program (its format is {}, this one knows up to \
         {FORMAT}); nothing in it was changed",
        state_dir.display(),
        found.trim()
    );
    let hint = "install that version again, or give this node another 'state_dir' in [node]";
    Err(ApiError::new(ErrorKind::Io, message).with_hint(hint))
}

fn in_use(file: &mut File, config: &NodeConfig) -> ApiError {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(32).read_to_string(&mut text));
    let by = match text.trim().parse::<u32>() {
        Ok(process) if read.is_ok() => format!("process {process}"),
        _ => "another process".into(),
    };
    let message =
        format!("the state folder '{}' of the node '{}' is in use by {by}", config.state_dir.display(), config.label);
    let own = "give this node its own 'state_dir' in [node]";
    ApiError::new(ErrorKind::InUse, message).with_hint(match config.control.exists() {
        true => format!("ask the node that runs, with --control {}, or {own}", config.control.display()),
        false => format!("wait until it has ended, or {own}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::MetadataExt};

    #[test]
    fn a_folder_of_a_newer_program_is_refused_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[node]\nlabel = \"a\"\nroles = [\"receiver\"]\nlisten = [\"127.0.0.1:0\"]\nstate_dir = \".\"\n";
        let config = NodeConfig::parse("a.toml", text, folder.path()).unwrap();
        fs::write(folder.path().join(FORMAT_FILE), "2\n").unwrap();
        fs::write(folder.path().join("queue.json"), "what nobody knows yet").unwrap();
        let seen = || {
            let entries = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
            let mut seen: Vec<_> =
                entries.map(|path| (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().ino(), path)).collect();
            seen.sort();
            seen
        };
        let before = seen();
        let refusal = StateLock::take(&config).unwrap_err().to_string();
        assert!(refusal.contains("newer version") && refusal.contains("is 2, this one knows up to 1"), "{refusal}");
        assert_eq!(seen(), before);
        // One step earlier it is taken, and so is a folder from before formats had numbers.
        for format in [Some("1\n"), None] {
            match format {
                Some(format) => fs::write(folder.path().join(FORMAT_FILE), format).unwrap(),
                None => fs::remove_file(folder.path().join(FORMAT_FILE)).unwrap(),
            }
            drop(StateLock::take(&config).unwrap());
            assert_eq!(fs::read_to_string(folder.path().join(FORMAT_FILE)).unwrap(), "1\n");
        }
    }
}

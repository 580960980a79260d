//! A state folder belongs to one process at a time: two nodes with the same key, store and addresses would take each
//! other's packets.
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
};
use tributary_core::{Duration, Time};
use tributary_net::Clock;

use crate::{
    config::NodeConfig,
    error::{ApiError, ErrorKind},
};

/// The locked file in a state folder; it holds the id of the process that has locked it.
const FILE: &str = "lock";
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
        // Only people read it.
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        if let Err(error) = written {
            tracing::debug!(%error, "the number of this process cannot be written to '{}'", path.display());
        }
        Ok(StateLock { _file: file })
    }
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

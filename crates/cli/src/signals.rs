//! The signals that end the program in order: SIGINT, SIGTERM and, unless it was started to outlive its terminal or is a
//! daemon, SIGHUP.
use parking_lot::{Condvar, Mutex};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use std::sync::Arc;
use tributary::{ApiError, ErrorKind, spawn};
use tributary_core::Duration;

/// Exit code of a program that a second signal kills.
pub(crate) const INTERRUPTED: i32 = 130;

/// The message of an interrupted program.
pub(crate) const INTERRUPTED_MESSAGE: &str = "interrupted";

/// Calls `notice` on a thread of its own for each of the signals.
pub(crate) fn watch(signals: &[i32], notice: impl Fn(i32) + Send + 'static) -> Result<(), ApiError> {
    let mut signals = Signals::new(signals).map_err(|error| ApiError::io("listen for", "signals", &error))?;
    spawn("signals", move || signals.forever().for_each(notice)).map(drop)
}

/// Whether a signal has asked the program to exit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish(Arc<(Mutex<bool>, Condvar)>);

impl Wish {
    /// From now on a first signal is a wish and a second one exits the process at once, with exit code 130.
    pub(crate) fn listen() -> Result<Self, ApiError> {
        let wish = Wish::default();
        let made = wish.clone();
        watch(&ending(), move |_| {
            let (is_made, wake) = &*made.0;
            if std::mem::replace(&mut *is_made.lock(), true) {
                std::process::exit(INTERRUPTED);
            }
            wake.notify_all();
        })?;
        Ok(wish)
    }
    /// Whether it was wished.
    pub(crate) fn is_made(&self) -> bool {
        *self.0.0.lock()
    }
    /// Waits until it is made, for at most `most`. Returns whether it is.
    pub(crate) fn wait(&self, most: Duration) -> bool {
        let (is_made, wake) = &*self.0;
        let mut is_made = is_made.lock();
        wake.wait_while_for(&mut is_made, |is_made| !*is_made, most);
        *is_made
    }
    /// The error that an operation ends with if it was wished.
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        if self.is_made() { Err(ApiError::new(ErrorKind::Cancelled, INTERRUPTED_MESSAGE)) } else { Ok(()) }
    }
}

/// The signals that end the program. `nohup` has SIGHUP ignored, and means it.
pub(crate) fn ending() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut signals = vec![SIGINT, SIGTERM];
    if !ignores(&status, SIGHUP) {
        signals.push(SIGHUP);
    }
    signals
}
/// Whether a process ignores a signal, by its /proc/PID/status (proc(5): SigIgn has a bit for each, from 1 on).
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_ignores_is_read_from_its_status() {
        let status = |mask: &str| format!("Name:\ttrib\nSigBlk:\t0000000000000001\nSigIgn:\t{mask}\nSigCgt:\t0\n");
        assert!(ignores(&status("0000000000001001"), SIGHUP));
        assert!(ignores(&status("0000000000004000"), SIGTERM));
        assert!(!ignores(&status("0000000000001000"), SIGHUP));
        assert!(!ignores(&status("what"), SIGHUP) && !ignores("", SIGHUP));
    }
}

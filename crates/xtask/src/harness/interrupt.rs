//! Ctrl-C and SIGTERM: no further processes are started, everything ends in order, and the files are removed.
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};

use crate::Outcome;

static REQUESTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Listens from now on.
///
/// # Errors
/// If the signals cannot be listened to.
pub(crate) fn listen() -> Outcome {
    let requested = REQUESTED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, Arc::clone(requested))?;
    }
    Ok(())
}

/// Fails once a signal has requested termination.
///
/// # Errors
/// Then.
pub(crate) fn check() -> Outcome {
    let is_requested = REQUESTED.get().is_some_and(|requested| requested.load(Ordering::Relaxed));
    if is_requested { Err("interrupted".into()) } else { Ok(()) }
}

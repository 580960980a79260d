//! Ctrl-C and SIGTERM: no new process is started, so that everything ends in order and the files are removed.
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};

use crate::Outcome;

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Listens from now on.
///
/// # Errors
/// If the signals cannot be listened to.
pub(crate) fn listen() -> Outcome {
    let asked = ASKED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, Arc::clone(asked))?;
    }
    Ok(())
}

/// Fails once somebody has asked to end.
///
/// # Errors
/// Then.
pub(crate) fn check() -> Outcome {
    let is_asked = ASKED.get().is_some_and(|asked| asked.load(Ordering::Relaxed));
    if is_asked { Err("interrupted".into()) } else { Ok(()) }
}

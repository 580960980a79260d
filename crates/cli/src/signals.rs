//! SIGINT and SIGTERM as a wish to end in order.
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tributary::{ApiError, ErrorKind};

/// Whether somebody wants the program to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish(Arc<AtomicBool>);

impl Wish {
    /// From now on a first signal is a wish and a second one ends the process at once, with exit code 130.
    pub(crate) fn listen() -> Result<Self, ApiError> {
        let wish = Wish::default();
        for signal in [SIGINT, SIGTERM] {
            // In this order: the second signal finds the flag that the first one has set.
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&wish.0))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&wish.0)))
                .map_err(|error| ApiError::io("listen for", "signals", &error))?;
        }
        Ok(wish)
    }
    /// Whether it was wished.
    pub(crate) fn is_made(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
    /// The error that an operation ends with if it was wished.
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        if self.is_made() { Err(ApiError::new(ErrorKind::Cancelled, "interrupted")) } else { Ok(()) }
    }
}

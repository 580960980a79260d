//! How threads that work for a node call its driver.
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use crate::platform::Wake;

/// Rung by a thread that has done something for a node; its driver then calls [`tributary_core::Node::handle_storage`].
/// Clones are one bell. It may be rung before there is a driver, and by any number of threads.
#[derive(Clone, Debug, Default)]
pub struct Bell(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_rung: AtomicBool,
    wake: OnceLock<Arc<Wake>>,
}

impl Bell {
    /// Wakes the driver; costs nothing while a wake-up is already pending.
    pub fn ring(&self) {
        if !self.0.is_rung.swap(true, Ordering::AcqRel)
            && let Some(wake) = self.0.wake.get()
        {
            wake.ring();
        }
    }
    /// Whether it was rung since the last call.
    pub(crate) fn take(&self) -> bool {
        self.0.is_rung.load(Ordering::Relaxed) && self.0.is_rung.swap(false, Ordering::AcqRel)
    }
    /// From now on `wake` wakes its waiting driver.
    pub(crate) fn attach(&self, wake: &Arc<Wake>) {
        let _ = self.0.wake.set(Arc::clone(wake));
        if self.0.is_rung.load(Ordering::Acquire) {
            wake.ring();
        }
    }
}

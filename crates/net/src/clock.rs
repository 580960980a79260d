//! The only place that reads a clock.
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tributary_core::{Duration, Time};

/// A monotonic clock that counts from its creation.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Instant,
}

impl Clock {
    /// A clock that shows zero now.
    #[expect(clippy::disallowed_methods, reason = "the driver's clock is where time comes from")]
    pub fn new() -> Self {
        Clock { epoch: Instant::now() }
    }
    /// The time now.
    pub fn now(&self) -> Time {
        Time::ZERO + self.epoch.elapsed()
    }
    /// How long it is from now to `due`; zero if that has passed.
    pub fn until(&self, due: Time) -> Duration {
        due.since(self.now())
    }
}
/// The time since the start of 1970 as the system has it; it may be set back and forth. Zero if it is set before.
#[expect(clippy::disallowed_methods, reason = "what is written down for a later life of the node needs it")]
pub fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new()
    }
}

//! The consumers of PTP's rivals: one window for all paths, Interests without tags, and routers that choose the path.
//!
//! | rival | file | reacts to |
//! |---|---|---|
//! | RAAQM, the consumer of OMCC-RF | `raaqm.rs` | round-trip times, path by path |
//! | CHoPCoP | `marks.rs` | marks of routers that also shape Interests |
//! | PCON | `marks.rs` (AIMD), `cubic.rs` (CUBIC) | marks of routers that run CoDel |
//! | ICP | `icp.rs` | timeouts |
//!
//! Equations and parameters are those that can be found; where they leave a choice, the choice favours the rival (after
//! a timeout RAAQM doubles its window up to half of its former size, instead of adding one a round trip). CHoPCoP's
//! thresholds are not public: it is a reconstruction.
pub mod consumer;
mod cubic;
mod icp;
mod marks;
mod raaqm;

pub use consumer::{Consumer, ConsumerConfig};
pub use raaqm::RaaqmForm;

use tributary_core::{Duration, Random, Time};

/// How many Interests may be pending.
pub trait Window: Send {
    /// A Data packet arrived.
    fn on_data(&mut self, now: Time, answer: &Answer<'_>, random: &mut Random);
    /// No answer arrived in time for an Interest sent at `sent_at`.
    fn on_timeout(&mut self, now: Time, sent_at: Time);
    /// The maximum number of pending Interests, at least one.
    fn interests(&self) -> f64;
}

/// A Data packet that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// How long it took; `None` if it was requested more than once.
    pub rtt: Option<Duration>,
    /// When it was last requested.
    pub sent_at: Time,
    /// The labels of the routers on its path, and whether it came from a cache: both identify the path.
    pub path: &'a [u8],
    /// Whether a queue on the path was long.
    pub marked: bool,
}

#[cfg(test)]
impl Answer<'_> {
    /// The answer to an Interest sent at `millis` milliseconds.
    fn at(millis: u64, marked: bool) -> Self {
        Answer { rtt: None, sent_at: Time::from_millis(millis), path: &[], marked }
    }
}

/// A rival's consumer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConsumerKind {
    /// RAAQM.
    Raaqm(RaaqmForm),
    /// CHoPCoP's, a reconstruction.
    Chopcop,
    /// PCON's with additive increase and a decrease to one half.
    PconAimd,
    /// PCON's with CUBIC and a decrease to four fifths.
    PconCubic,
    /// ICP: timeouts only.
    Icp,
}

impl ConsumerKind {
    /// Its window.
    pub fn window(self) -> Box<dyn Window> {
        match self {
            ConsumerKind::Raaqm(form) => Box::new(raaqm::Raaqm::new(form)),
            ConsumerKind::Chopcop => Box::new(marks::Aimd::chopcop()),
            ConsumerKind::PconAimd => Box::new(marks::Aimd::pcon()),
            ConsumerKind::PconCubic => Box::new(cubic::Cubic::default()),
            ConsumerKind::Icp => Box::new(icp::Icp::default()),
        }
    }
}

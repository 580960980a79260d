//! Echo requests: whether a name is reachable, the round-trip time, and the nodes on the way. RFC 9508, RFC 9507.
use alloc::string::String;

use tributary_content::Name;
use tributary_core::{Duration, EchoId, Time};

/// Sends echo requests, in families that have them.
pub trait Echoes {
    /// Sends one. One `Event::Echo` reports the result.
    ///
    /// # Errors
    /// [`EchoError`]: nothing was sent and no event will follow.
    fn echo(&mut self, now: Time, echo: &Echo) -> Result<EchoId, EchoError>;
}

/// An echo request to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Echo {
    /// The name to reach.
    pub target: Name,
    /// The path to take, as an answer named it; `None` for whichever the network chooses.
    pub path: Option<String>,
    /// Traceroute: the neighbour that should answer, counted from 1; `None` for a ping, which continues to the target.
    pub hop: Option<u8>,
    /// How long an answer may take.
    pub patience: Duration,
}

/// Why an echo request was not sent.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EchoError {
    /// No answer could have named the path.
    #[error("'{path}' is no path: {reason}")]
    Path {
        /// The path as it was given.
        path: String,
        /// Its mistake.
        reason: &'static str,
    },
    /// The target's name is too long for the packet.
    #[error("the name is too long for an echo request")]
    Name,
    /// Too many wait for their answers.
    #[error("{under_way} echo requests wait for their answers already")]
    TooMany {
        /// How many.
        under_way: usize,
    },
}

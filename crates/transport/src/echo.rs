//! Echo requests: whether a name can be reached, how long that takes, and who is on the way. RFC 9508, RFC 9507.
use alloc::string::String;

use tributary_content::Name;
use tributary_core::{Duration, EchoId, Time};

/// Sends echo requests, in families that have them.
pub trait Echoes {
    /// Sends one. What comes of it is told by one `Event::Echo`.
    ///
    /// # Errors
    /// [`EchoError`]: nothing was sent, and nothing will be told.
    fn echo(&mut self, now: Time, echo: &Echo) -> Result<EchoId, EchoError>;
}

/// An echo request to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Echo {
    /// What is to be reached.
    pub target: Name,
    /// The path to take, as an answer named it; `None` for whichever the network chooses.
    pub path: Option<String>,
    /// Traceroute: the neighbour that is to answer, counted from 1; `None` for a ping, which goes on to the target.
    pub hop: Option<u8>,
    /// How long an answer may take.
    pub patience: Duration,
}

/// Why an echo request was not sent.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EchoError {
    /// The path is none that an answer could have named.
    #[error("'{path}' is no path: {reason}")]
    Path {
        /// What was given.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The target's name leaves no room.
    #[error("the name is too long for an echo request")]
    Name,
    /// Too many wait for their answers.
    #[error("{under_way} echo requests wait for their answers already")]
    TooMany {
        /// How many.
        under_way: usize,
    },
}

//! Echo requests: whether a name is reachable, the round-trip time, and the nodes on the way. RFC 9508, RFC 9507.
use alloc::string::String;

use tributary_content::Name;
use tributary_core::{Duration, EchoId, Time};

/// Sends echo requests, in families that have them.
pub trait Echoes {
    /// Sends one. One `Event::Echo` reports the result.
    ///
    /// # Errors
    /// The reason, in words: nothing was sent and no event will follow.
    fn echo(&mut self, now: Time, echo: &Echo) -> Result<EchoId, String>;
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

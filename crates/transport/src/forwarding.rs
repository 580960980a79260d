//! The forwarding table of a node, in families in which its owner may edit it. Changes last until the node stops,
//! routes over a stream until that closes; the config restores its own entries at every start.
use alloc::{string::String, vec::Vec};

use tributary_content::Name;
use tributary_core::{Duration, FaceId, Time};

/// Commands about routes, strategies and faces, as with `nfdc` and NFD.
pub trait Forwarding {
    /// The routes of a prefix itself, or (`None`) all, in the order of their prefixes.
    fn routes(&self, now: Time, prefix: Option<&Name>) -> Vec<RouteStatus>;
    /// Adds a route for all names below `prefix`, or changes its cost and lifetime; `None` lasts until the node stops.
    ///
    /// # Errors
    /// [`ForwardingError`]: nothing was changed.
    fn add_route(
        &mut self,
        now: Time,
        prefix: &Name,
        face: FaceId,
        cost: u64,
        lifetime: Option<Duration>,
    ) -> Result<(), ForwardingError>;
    /// Removes the routes of `prefix` over `face`, of any origin; returns how many.
    fn remove_route(&mut self, prefix: &Name, face: FaceId) -> usize;
    /// The chosen strategies, in the order of their prefixes.
    fn strategies(&self) -> Vec<(Name, &'static str)>;
    /// The strategies that can be chosen.
    fn known_strategies(&self) -> Vec<&'static str>;
    /// Sets the strategy of the routes at and below `prefix`, or (`None`) withdraws a choice.
    ///
    /// # Errors
    /// [`ForwardingError`]: nothing was changed.
    fn set_strategy(&mut self, prefix: &Name, strategy: Option<&str>) -> Result<(), ForwardingError>;
    /// Begins to open a face to an address, such as `udp4://192.0.2.1:6363`; returns the number of the request.
    ///
    /// # Errors
    /// [`ForwardingError`] if no face will be opened.
    fn open_face(&mut self, now: Time, uri: &str) -> Result<u64, ForwardingError>;
    /// The result of such a request, reported once; `None` while it is open.
    fn opened_face(&mut self, request: u64) -> Option<Result<FaceId, ForwardingError>>;
    /// Registers this node's names with the neighbour of a face, or no longer.
    fn register_at(&mut self, now: Time, face: FaceId, is_wanted: bool);
    /// Closes a face. True if it existed; the node's internal faces stay open.
    fn close_face(&mut self, now: Time, face: FaceId) -> bool;
}

/// A route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteStatus {
    /// The names below it.
    pub prefix: Name,
    /// The face towards the prefix.
    pub face: FaceId,
    /// Its cost relative to other routes.
    pub cost: u64,
    /// Who made it: `app`, `static`, …, or a number of NFD's management protocol.
    pub origin: String,
    /// Its remaining lifetime; `None` until the node stops.
    pub expires: Option<Duration>,
}

/// Why the forwarding table was not changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForwardingError {
    /// There is no such face.
    #[error("there is no {0}")]
    NoFace(FaceId),
    /// The table has as many routes as it may have.
    #[error("the table of routes is full")]
    Full,
    /// There is no such strategy.
    #[error("there is no strategy '{0}'")]
    NoStrategy(String),
    /// The prefix has no chosen strategy; the strategy of `/` can only be replaced.
    #[error("no strategy is chosen for this prefix")]
    NotChosen,
    /// This face leads to the address already.
    #[error("{0} leads there already")]
    Exists(FaceId),
    /// The face cannot be opened, and why.
    #[error("{0}")]
    NotOpened(String),
}

//! A node from the view of its network's authority.
use serde::{Deserialize, Serialize};

/// A certificate that an authority has issued.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MemberView {
    /// Its serial number.
    pub serial: u64,
    /// The node's name.
    pub label: String,
    /// The node's key.
    pub key: String,
    /// Its roles; none for a host.
    pub roles: Vec<String>,
    /// The names that it owns, with all below them.
    pub names: Vec<String>,
    /// When it ends, in Unix seconds.
    pub until: u64,
    /// `valid`, `ended` or `revoked`.
    pub state: String,
}

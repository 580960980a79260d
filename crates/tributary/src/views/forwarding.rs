//! The forwarding table as fronts show it.
use serde::{Deserialize, Serialize};
use tributary_transport::forwarding::RouteStatus;

/// A route.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RouteView {
    /// The names below it.
    pub prefix: String,
    /// The face that leads there, such as `face-3`.
    pub face: String,
    /// Its cost compared with other routes.
    pub cost: u64,
    /// Who made it: `app` (a program, this node's own publications), `static` (the config, commands), or another word or
    /// number of NFD's management protocol.
    pub origin: String,
    /// For how long it lives yet, in seconds; `None` for as long as the node runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_seconds: Option<f64>,
}

impl From<RouteStatus> for RouteView {
    fn from(status: RouteStatus) -> RouteView {
        RouteView {
            prefix: status.prefix.to_string(),
            face: status.face.to_string(),
            cost: status.cost,
            origin: status.origin,
            expires_seconds: status.expires.map(|left| left.as_secs_f64()),
        }
    }
}

/// The strategy of the names below a prefix.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StrategyView {
    /// The prefix.
    pub prefix: String,
    /// The strategy.
    pub strategy: String,
}

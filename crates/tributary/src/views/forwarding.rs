//! The forwarding table as fronts show it.
use serde::{Deserialize, Serialize};
use tributary_transport::forwarding::RouteStatus;

tributary_core::declared! {
    /// A route.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct RouteView {
        /// The names below it.
        pub prefix: String = status.prefix.to_string(),
        /// The face that leads there, such as `face-3`.
        pub face: String = status.face.to_string(),
        /// Its cost compared with other routes.
        pub cost: u64 = status.cost,
        /// Who made it: `app` (a program, this node's own publications), `static` (the config, commands), or another
        /// word or number of NFD's management protocol.
        pub origin: String = status.origin,
        /// For how long it lives yet, in seconds; `None` for as long as the node runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub expires_seconds: Option<f64> = status.expires.map(|left| left.as_secs_f64()),
    }
    pub(crate) fn new(status: RouteStatus) {}
}

/// The strategy of the names below a prefix.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StrategyView {
    /// The prefix.
    pub prefix: String,
    /// The strategy.
    pub strategy: String,
}

//! The families, and the only match over them.
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, sync::Arc};
use tributary_content::SigningKey;
use tributary_net::Framing;
use tributary_transport::Endpoint;

use crate::{
    config::{NodeConfig, Role},
    simulation::routes::RouteTold,
};

/// An information-centric architecture together with its transport.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Family {
    /// Publish-Subscribe Internetworking with mmFTP.
    #[default]
    Psi,
    /// Named Data Networking with PTP.
    Ndn,
    /// MobilityFirst with MFTP.
    Mf,
}

impl Family {
    /// All families with the words of the config and of `--family`.
    pub const ALL: [(&'static str, Family); 3] = [("psi", Family::Psi), ("ndn", Family::Ndn), ("mf", Family::Mf)];

    /// The word of the config.
    pub fn word(self) -> &'static str {
        match self {
            Family::Psi => "psi",
            Family::Ndn => "ndn",
            Family::Mf => "mf",
        }
    }
    /// The UDP port under which captures of simulated links show it, and by which Wireshark chooses the dissector: its
    /// registered port where it has one.
    pub fn capture_port(self) -> u16 {
        match self {
            Family::Psi => 7001,
            Family::Ndn => 6363,
            Family::Mf => 7002,
        }
    }
    /// Where its packets end in a stream; `None` if it runs over datagrams only.
    pub fn framing(self) -> Option<Arc<dyn Framing>> {
        match self {
            Family::Ndn => Some(Arc::new(crate::ndn::TlvFraming)),
            Family::Psi | Family::Mf => None,
        }
    }
    /// Whether a node can list what its network offers.
    pub fn lists(self) -> bool {
        match self {
            Family::Psi | Family::Mf => true,
            Family::Ndn => false,
        }
    }
    /// Whether its nodes can have a role.
    pub fn plays(self, role: Role) -> bool {
        match self {
            Family::Ndn => matches!(role, Role::Router | Role::Sender | Role::Receiver),
            Family::Psi | Family::Mf => true,
        }
    }
}
impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
impl FromStr for Family {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<_> = Family::ALL.iter().map(|(word, _)| *word).collect();
        match Family::ALL.iter().find(|(word, _)| *word == text) {
            Some((_, family)) => Ok(*family),
            None => Err(format!("'{text}' is no family that this program has; it has {}", words.join(", "))),
        }
    }
}

/// A node that a driver can run.
pub type BoxedNode = Box<dyn Endpoint>;

/// Gives a config what follows from the node's own key.
pub(crate) fn identify(config: &mut NodeConfig, key: &SigningKey) {
    match config.family {
        Family::Psi => {}
        Family::Ndn => crate::ndn::identify(config, key),
        Family::Mf => config.mf.secret = crate::mf::device_secret(key, &config.label),
    }
}
/// Whether a node of a simulation must be told its routes: its family finds none by itself, and its config has none.
pub(crate) fn wants_routes(config: &NodeConfig) -> bool {
    match config.family {
        Family::Ndn => config.ndn.routes.is_empty(),
        Family::Psi | Family::Mf => false,
    }
}
/// Tells a node its routes.
pub(crate) fn tell_routes(config: &mut NodeConfig, told: &[RouteTold]) {
    match config.family {
        Family::Ndn => crate::ndn::tell_routes(config, told),
        Family::Psi | Family::Mf => {}
    }
}
/// Sees that what a node keeps on its disk can be read and written.
///
/// # Errors
/// [`crate::ApiError`] says what cannot, and what to try: a node that stores nothing although it should would lose what
/// others entrust to it.
pub(crate) fn check_storage(config: &NodeConfig) -> Result<(), crate::ApiError> {
    match config.family {
        Family::Psi | Family::Ndn => Ok(()),
        Family::Mf => crate::mf::check_storage(config),
    }
}
/// Makes the node that a config describes. `seed` differs from start to start unless the config fixes it.
pub fn build(config: &NodeConfig, seed: u64) -> BoxedNode {
    match config.family {
        Family::Psi => crate::psi::build(config, seed),
        Family::Ndn => crate::ndn::build(config, seed),
        Family::Mf => crate::mf::build(config, seed),
    }
}

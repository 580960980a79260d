//! The façade's contract with a family.
use std::path::Path;
use tributary_content::{Name, PublicKey, SigningKey};
use tributary_core::{Ecn, FaceId, Location, PeerPlace, Rate};
use tributary_net::Bell;
use tributary_transport::{Endpoint, TransferConfig};

use super::credential::Credential;
use crate::{
    config::{
        NodeConfig, Settings,
        reader::{Scope, Section},
    },
    error::ApiError,
    family::Family,
};

/// A node that a driver can run.
pub type BoxedNode = Box<dyn Endpoint>;

/// The façade's contract with a family, implemented by the settings of its nodes. Defaults are for families that do not
/// need a method.
pub(crate) trait FamilySettings {
    // ---- its part of a config

    /// Reads the section that bears the family's name; files are relative to `folder`.
    fn read(&mut self, section: &Section<'_>, scope: Scope, folder: &Path);
    /// Reads the family's other sections, such as `[[shared_key]]`. If the node is of the family `foreign` instead,
    /// each of them is a mistake.
    fn read_lists(&mut self, _root: &Section<'_>, _folder: &Path, _foreign: Option<Family>) {}
    /// Reads its own keys of a `[[face]]`.
    fn read_face(&mut self, _section: &Section<'_>, _face: &FaceSection) {}
    /// Its transfer settings; `None` if it follows other rules than `[transfer]`.
    fn transfer(&self) -> Option<&TransferConfig> {
        None
    }
    /// The same, to change.
    fn transfer_mut(&mut self) -> Option<&mut TransferConfig> {
        None
    }
    /// Sets how queues may signal congestion, and how its flows answer.
    fn set_ecn(&mut self, ecn: Ecn) {
        self.transfer_mut().into_iter().for_each(|transfer| transfer.ecn = ecn);
    }
    /// Sets the node's location, for families whose paths depend on it.
    fn set_location(&mut self, _location: Location) {}
    /// Lets the other gateways of a site announce copies below these names.
    fn expect_site(&mut self, _names: &[Name]) {}
    /// Legal settings that should still be changed, each in a sentence that explains the change.
    fn warnings(&self, config: &NodeConfig) -> Vec<String>;

    // ---- its node

    /// Sets the values that follow from the node's own key, and from the time of its start.
    fn identify(&mut self, _key: &SigningKey, _label: &str) {}
    /// Sets the key by which neighbours know the node, in a network with an authority.
    fn certify(&mut self, _key: &PublicKey) {}
    /// Checks that the node's data on disk can be read and written.
    ///
    /// # Errors
    /// [`ApiError`] names the unusable storage, and a remedy: a node that silently stores nothing would lose chunks
    /// that other nodes entrust to it.
    fn check_storage(&self, _config: &NodeConfig) -> Result<(), ApiError> {
        Ok(())
    }
    /// Makes the node. `seed` differs from start to start unless the config fixes it; the node's disk threads ring
    /// `bell`.
    fn build(&self, config: &NodeConfig, seed: u64, bell: &Bell) -> BoxedNode;
    /// Whether a simulation must assign routes: its family discovers none, and its config has none.
    fn needs_routes(&self) -> bool {
        false
    }
    /// Prepares it for a simulation; `routes` are empty unless it needs them.
    fn prepare_simulation(&mut self, _routes: &[AssignedRoute]) {}

    // ---- while its node runs

    /// The rules about names that differ in `new`, settings of the same family.
    fn changed_rules(&self, _new: &Settings) -> Vec<NameRule> {
        Vec::new()
    }
    /// Takes over from `new` the rules that are in force without a restart.
    fn adopt_rules(&mut self, _new: &Settings) {}
    /// Takes over this run's values from the settings with which the node started.
    fn continue_run(&mut self, _started: &Settings) {}
    /// The sections that differ from `before` and take effect only after a restart. Other `changes` of the config alter
    /// these settings as well, and are named there.
    fn waiting(&self, before: &Settings, changes: OtherChanges) -> Option<&'static str>;
    /// Remembers a rule over restarts, in the folder of the node's state.
    ///
    /// # Errors
    /// [`ApiError`] if it cannot be written.
    fn remember(&self, _state_dir: &Path, _rule: &NameRule) -> Result<(), ApiError> {
        Ok(())
    }
    /// The proof that this device signs with a publisher's key, in families whose devices have keys.
    fn credential(&self, _publisher: &PublicKey) -> Option<Credential> {
        None
    }
}

/// The part of a `[[face]]` that is read before the family reads its own keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaceSection {
    pub(crate) id: FaceId,
    pub(crate) place: PeerPlace,
    /// Whether its neighbour is at the end of a stream.
    pub(crate) is_stream: bool,
    /// The rate of its link, if configured.
    pub(crate) rate: Option<Rate>,
    /// Whether the node publishes.
    pub(crate) publishes: bool,
}

/// A route that a simulation assigns to a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AssignedRoute {
    /// The neighbour, by the node's face.
    pub face: FaceId,
    /// What can be reached by it.
    pub prefix: Name,
    /// Links to the nearest publisher on that path.
    pub cost: u64,
}

/// A rule about names that may change while a node runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NameRule {
    /// Who may look up a name, or (`None`) the device itself: these devices, or (`None`) everybody.
    Readers { name: Option<Name>, readers: Option<Vec<String>> },
    /// Who belongs to a group; `None` ends it.
    Group { label: String, members: Option<Vec<String>> },
}

/// Changes of a config outside the sections of its family.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OtherChanges {
    pub(crate) roles: bool,
    pub(crate) faces: bool,
}

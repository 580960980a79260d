//! The families: one folder each, behind one trait, and the only match over them.
//!
//! ```text
//!  Family ──profile()──► Profile           what holds for every node of the family: fronts decide by it
//!  Settings ──► dyn FamilySettings         reads its part of a config, builds its node
//!     │              ├─ psi/
//!     └─ one match   ├─ ndn/
//!                    └─ mf/
//! ```
//! A new family is a variant of [`Family`] and of [`Settings`], a line in each `match` of this file, and a folder.
mod contract;
mod credential;
mod engine;
mod mf;
mod ndn;
mod profile;
mod psi;

use std::{collections::BTreeSet, sync::Arc};
use tributary_net::{Bell, Framing};
use tributary_transport::TransferConfig;

use crate::{
    config::{NodeConfig, Role, Settings},
    error::ApiError,
    family::Family,
};

pub use contract::{AssignedRoute, BoxedNode};
pub(crate) use contract::{FaceSection, FamilySettings, NameRule, OtherChanges};
pub use credential::Credential;
pub use ndn::key_chain;
pub use profile::{Abilities, Delivery, Liveness, Profile, Resolution};

impl Family {
    /// What holds for every node of this family.
    pub fn profile(self) -> &'static Profile {
        match self {
            Family::Psi => &psi::PROFILE,
            Family::Ndn => &ndn::PROFILE,
            Family::Mf => &mf::PROFILE,
        }
    }
    /// How packets are delimited in a stream; `None` if the family runs over datagrams only.
    pub fn framing(self) -> Option<Arc<dyn Framing>> {
        self.profile().framing.map(|framing| framing())
    }
    /// Whether its nodes can have a role.
    pub fn plays(self, role: Role) -> bool {
        self.profile().roles.contains(&role)
    }
    /// The families whose nodes have an ability, in the form of a config: `family = "ndn"`.
    pub(crate) fn able(has: impl Fn(&Abilities) -> bool) -> String {
        let able = Family::all().filter(|family| has(&family.profile().abilities));
        able.map(|family| format!("family = \"{family}\"")).collect::<Vec<_>>().join(" or ")
    }
}

impl NodeConfig {
    /// Makes the node, inside another one if the config has a wrapper.
    ///
    /// # Errors
    /// [`ApiError`] if the config requests a fault that no wrapper provides.
    pub(crate) fn build(&self, seed: u64, bell: &Bell) -> Result<BoxedNode, ApiError> {
        let node = self.settings.of_family().build(self, seed, bell);
        match self.wrapper.0 {
            Some(wrap) => Ok(wrap(node, self, seed)),
            None if self.faults.corrupt_cache == 0.0 => Ok(node),
            None => Err(ApiError::usage("no daemon of `trib` has a cache that answers with wrong bytes")
                .with_hint("remove 'corrupt_cache' from [faults], or start the node by `trib-lab node`")),
        }
    }
}

impl Settings {
    /// The defaults for a node of this family, label and roles.
    pub(crate) fn new(family: Family, label: &str, roles: &BTreeSet<Role>) -> Settings {
        match family {
            Family::Psi => Settings::Psi(Box::new(psi::defaults(label, roles))),
            Family::Ndn => Settings::Ndn(Box::new(tributary_ndn::Config::new(label, 0))),
            Family::Mf => Settings::Mf(Box::new(mf::defaults(label, roles))),
        }
    }
    /// Whose they are.
    pub fn family(&self) -> Family {
        match self {
            Settings::Psi(_) => Family::Psi,
            Settings::Ndn(_) => Family::Ndn,
            Settings::Mf(_) => Family::Mf,
        }
    }
    pub(crate) fn of_family(&self) -> &dyn FamilySettings {
        match self {
            Settings::Psi(psi) => &**psi,
            Settings::Ndn(ndn) => &**ndn,
            Settings::Mf(mf) => &**mf,
        }
    }
    pub(crate) fn of_family_mut(&mut self) -> &mut dyn FamilySettings {
        match self {
            Settings::Psi(psi) => &mut **psi,
            Settings::Ndn(ndn) => &mut **ndn,
            Settings::Mf(mf) => &mut **mf,
        }
    }
}

/// The settings of one family by its name.
macro_rules! settings_of {
    ($($variant:ident $get:ident $get_mut:ident $config:ty;)*) => {
        impl NodeConfig {
            /// The node's architecture.
            pub fn family(&self) -> Family {
                self.settings.family()
            }
            /// How it transfers; `None` if `[transfer]` does not apply to its family.
            pub fn transfer(&self) -> Option<&TransferConfig> {
                self.settings.of_family().transfer()
            }
            /// The same, to change.
            pub fn transfer_mut(&mut self) -> Option<&mut TransferConfig> {
                self.settings.of_family_mut().transfer_mut()
            }
            $(
                #[doc = concat!("The settings of a node of the family ", stringify!($get), ".")]
                ///
                /// # Panics
                /// If the node is of another family.
                pub fn $get(&self) -> &$config {
                    self.settings.$get().unwrap_or_else(|| panic!("'{}' is of family {}", self.label, self.family()))
                }
                #[doc = concat!("The same as [`NodeConfig::", stringify!($get), "`], to change.")]
                ///
                /// # Panics
                /// If the node is of another family.
                pub fn $get_mut(&mut self) -> &mut $config {
                    match &mut self.settings {
                        Settings::$variant(config) => config,
                        other => panic!("'{}' is of family {}", self.label, other.family()),
                    }
                }
            )*
        }
        impl Settings {
            $(
                #[doc = concat!("Those of the family ", stringify!($get), "; `None` if they are another's.")]
                pub fn $get(&self) -> Option<&$config> {
                    match self {
                        Settings::$variant(config) => Some(config),
                        _ => None,
                    }
                }
            )*
        }
    };
}
settings_of! {
    Psi psi psi_mut tributary_psi::Config;
    Ndn ndn ndn_mut tributary_ndn::Config;
    Mf mf mf_mut tributary_mf::Config;
}

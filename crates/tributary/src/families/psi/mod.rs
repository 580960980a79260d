//! Publish-Subscribe Internetworking: resolvers match publications with subscriptions, topology managers compute paths.
mod config;

use std::{collections::BTreeSet, path::Path};
use tributary_content::SigningKey;
use tributary_core::Location;
use tributary_net::Bell;
use tributary_psi::{Config, PayloadMemory, PsiNode};
use tributary_transport::TransferConfig;

use super::{
    contract::{AssignedRoute, BoxedNode, FamilySettings, OtherChanges},
    engine,
    profile::{Abilities, Delivery, Liveness, Profile, Resolution},
};
use crate::{
    config::{
        NodeConfig, Role, Settings,
        reader::{Scope, Section},
    },
    error::ApiError,
};

pub(super) static PROFILE: Profile = Profile {
    capture_port: 7001,
    roles: &[Role::Router, Role::Resolver, Role::TopologyManager, Role::Sender, Role::Receiver],
    resolution: Resolution::Servers,
    liveness: Liveness::Hellos,
    delivery: Delivery::Multipath,
    abilities: Abilities { listing: true, echo: false, messages: false, routes: false, partial_sources: true },
    is_standard: false,
    framing: None,
    demo_settings: "",
};

/// The priority of a topology manager that names none.
const TOPOLOGY_MANAGER_PRIORITY: u8 = 100;

/// The settings of a node without a section `[psi]`.
pub(super) fn defaults(label: &str, roles: &BTreeSet<Role>) -> Config {
    Config {
        router: roles.contains(&Role::Router),
        resolver: roles.contains(&Role::Resolver),
        topology_manager: roles.contains(&Role::TopologyManager).then_some(TOPOLOGY_MANAGER_PRIORITY),
        ..Config::new(label, 0)
    }
}

impl FamilySettings for Config {
    fn read(&mut self, section: &Section<'_>, scope: Scope, _: &Path) {
        config::read(section, self, scope);
    }
    fn transfer(&self) -> Option<&TransferConfig> {
        Some(&self.transfer)
    }
    fn transfer_mut(&mut self) -> Option<&mut TransferConfig> {
        Some(&mut self.transfer)
    }
    fn set_location(&mut self, location: Location) {
        self.location = Some(location);
    }
    fn identify(&mut self, key: &SigningKey, _: &str) {
        // The signature that the secret is made from is never shown to anybody.
        let signature = key.sign("tributary psi secret of a node", b"");
        self.secret = blake3::derive_key("tributary 2026 psi secret of a node", &signature.0);
    }
    fn certify(&mut self, key: &tributary_content::PublicKey) {
        self.node = tributary_psi::node_of_key(key);
    }
    fn warnings(&self, _: &NodeConfig) -> Vec<String> {
        Vec::new()
    }
    fn check_storage(&self, config: &NodeConfig) -> Result<(), ApiError> {
        engine::check(&config.resolver)
    }
    fn build(&self, config: &NodeConfig, seed: u64, bell: &Bell) -> BoxedNode {
        let mut inner = PsiNode::new(Config { seed, ..self.clone() });
        // A simulated node has no storage, so no engine.
        if let Some(engine) = config.store.as_ref().and_then(|_| engine::start(&config.resolver, "psi", bell)) {
            inner.keep_records_by(engine);
        }
        Box::new(inner)
    }
    fn prepare_simulation(&mut self, _: &[AssignedRoute]) {
        // Packets are slices of their object all the way: hundreds of caches need not copy them.
        self.cache_memory = PayloadMemory::Shared;
    }
    fn waiting(&self, before: &Settings, changes: OtherChanges) -> Option<&'static str> {
        (before.psi() != Some(self) && !changes.roles).then_some("[psi] or [transfer]")
    }
}

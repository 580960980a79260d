//! MobilityFirst: GUIDs name devices, contents and groups, and routers store undeliverable chunks.
mod config;
mod groups;
#[cfg(test)]
mod histories_tests;
mod readers;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};
use tributary_content::{PublicKey, SigningKey};
use tributary_core::{Ecn, Time};
use tributary_mf::{Config, MfNode};
use tributary_net::{
    Bell,
    disk::{DiskRepository, fs::RealFileSystem},
};

use super::{
    contract::{BoxedNode, FaceSection, FamilySettings, NameRule, OtherChanges},
    credential::Credential,
    engine,
    profile::{Abilities, Delivery, Liveness, Profile, Resolution},
};
use crate::{
    config::{
        EngineConfig, NodeConfig, Role, Settings,
        reader::{Scope, Section},
    },
    error::ApiError,
    family::Family,
};

pub(super) static PROFILE: Profile = Profile {
    capture_port: 7002,
    roles: &[Role::Router, Role::Resolver, Role::TopologyManager, Role::Sender, Role::Receiver],
    resolution: Resolution::Routers,
    liveness: Liveness::Hellos,
    delivery: Delivery::Custody,
    abilities: Abilities { listing: true, echo: false, messages: true, routes: false, partial_sources: false },
    is_standard: false,
    framing: None,
    demo_settings: "",
};

/// The settings of a node without a section `[mf]`.
pub(super) fn defaults(label: &str, roles: &BTreeSet<Role>) -> Config {
    Config { router: roles.contains(&Role::Router), resolver: roles.contains(&Role::Resolver), ..Config::new(label, 0) }
}

impl FamilySettings for Config {
    fn read(&mut self, section: &Section<'_>, _: Scope, _: &Path) {
        config::settings(section, self);
    }
    fn set_ecn(&mut self, ecn: Ecn) {
        self.hop.ecn = ecn;
    }
    fn read_lists(&mut self, root: &Section<'_>, _: &Path, foreign: Option<Family>) {
        // ndn has the same section with other keys.
        if foreign != Some(Family::Ndn) {
            for section in root.sections("readers") {
                config::readers(section, foreign, &mut self.readers);
            }
        }
        for section in root.sections("group") {
            config::group(section, foreign, &mut self.groups);
        }
    }
    fn read_face(&mut self, section: &Section<'_>, face: &FaceSection) {
        self.weights.extend(config::weight(section).map(|weight| (face.id, weight)));
    }
    fn warnings(&self, config: &NodeConfig) -> Vec<String> {
        let is_open = !self.readers.is_empty() && config.network.is_none();
        let warning = "[[readers]] without an authority: any node that poses as a router can look up every name, whatever \
                       its readers; make an authority with `trib network new`, and write its key into [network]";
        is_open.then(|| warning.to_string()).into_iter().collect()
    }
    fn identify(&mut self, key: &SigningKey, label: &str) {
        self.secret = device_secret(key, label);
    }
    /// Checks that stored chunks and names, readers and groups can be read and written.
    fn check_storage(&self, config: &NodeConfig) -> Result<(), ApiError> {
        let Some(folder) = &config.store else { return Ok(()) };
        readers::load(&RealFileSystem, &config.state_dir)?;
        groups::load(&RealFileSystem, &config.state_dir)?;
        engine::check(&config.resolver)?;
        let (names, partial) = (folder.join("names"), folder.join(PARTIAL));
        let stores = outbox_of(self, config).stores();
        let keeps_names = self.resolver && config.resolver == EngineConfig::Embedded;
        let keeps_partials = self.hop.partial_bytes_max.0 > 0;
        let folders = [(stores, folder.as_path()), (keeps_names, &names), (keeps_partials, &partial)];
        for (_, folder) in folders.into_iter().filter(|(is_used, _)| *is_used) {
            DiskRepository::check(folder).map_err(|error| {
                let hint =
                    "make the folder usable, name another 'state_dir' in [node], or move the folder away to begin anew";
                ApiError::io("keep chunks and names in", folder.display(), &error).with_hint(hint)
            })?;
        }
        Ok(())
    }
    fn build(&self, config: &NodeConfig, seed: u64, bell: &Bell) -> BoxedNode {
        Box::new(node(self, config, seed, bell))
    }
    fn changed_rules(&self, new: &Settings) -> Vec<NameRule> {
        let Some(new) = new.mf() else { return Vec::new() };
        let names: BTreeSet<_> = self.readers.keys().chain(new.readers.keys()).collect();
        let names = names.into_iter().filter(|name| self.readers.get(name) != new.readers.get(name));
        let readers = names.map(|name| NameRule::Readers {
            name: name.clone(),
            readers: new.readers.get(name).map(|guids| guids.iter().map(ToString::to_string).collect()),
        });
        let labels: BTreeSet<_> = self.groups.keys().chain(new.groups.keys()).collect();
        let labels = labels.into_iter().filter(|label| self.groups.get(*label) != new.groups.get(*label));
        let groups = labels.map(|label| NameRule::Group {
            label: label.clone(),
            members: new.groups.get(label).map(|group| group.members.iter().map(ToString::to_string).collect()),
        });
        readers.chain(groups).collect()
    }
    fn adopt_rules(&mut self, new: &Settings) {
        if let Some(new) = new.mf() {
            (self.readers, self.groups) = (new.readers.clone(), new.groups.clone());
        }
    }
    fn waiting(&self, before: &Settings, changes: OtherChanges) -> Option<&'static str> {
        let without_rules =
            |config: &Config| Config { readers: BTreeMap::new(), groups: BTreeMap::new(), ..config.clone() };
        let is_same = before.mf().is_some_and(|before| without_rules(before) == without_rules(self));
        (!is_same && !changes.faces && !changes.roles).then_some("[mf]")
    }
    fn remember(&self, state_dir: &Path, rule: &NameRule) -> Result<(), ApiError> {
        match rule {
            NameRule::Readers { name, readers } => {
                let guids = |texts: &Vec<String>| texts.iter().filter_map(|text| text.parse().ok()).collect();
                readers::remember(&RealFileSystem, state_dir, name.clone(), readers.as_ref().map(guids))
            }
            NameRule::Group { label, members } => {
                groups::remember(&RealFileSystem, state_dir, label.clone(), members.clone())
            }
        }
    }
    fn credential(&self, publisher: &PublicKey) -> Option<Credential> {
        Some(Credential::new(&self.secret, publisher))
    }
}

/// The folder within the store for received parts of interrupted chunks.
const PARTIAL: &str = "partial";

fn node(settings: &Config, config: &NodeConfig, seed: u64, bell: &Bell) -> MfNode {
    let mut mf = Config { seed, ..outbox_of(settings, config) };
    let Some(folder) = &config.store else { return MfNode::new(mf) };
    // Changes by commands override the config; `check_storage` has found that they can be read.
    for (name, readers) in readers::load(&RealFileSystem, &config.state_dir).unwrap_or_default() {
        match readers {
            Some(devices) => drop(mf.readers.insert(name, devices)),
            None => drop(mf.readers.remove(&name)),
        }
    }
    for (label, members) in groups::load(&RealFileSystem, &config.state_dir).unwrap_or_default() {
        match members {
            Some(members) => mf.groups.entry(label).or_default().members = members,
            None => drop(mf.groups.remove(&label)),
        }
    }
    let (keeps_names, keeps_partials) = (mf.resolver, mf.hop.partial_bytes_max.0 > 0);
    let mut node = match mf.stores() {
        true => MfNode::with_repository(Time::ZERO, mf, Box::new(DiskRepository::new(folder, bell))),
        false => MfNode::new(mf),
    };
    if keeps_partials {
        node.keep_partials(Time::ZERO, Box::new(DiskRepository::new(&folder.join(PARTIAL), bell)));
    }
    if let Some(engine) = engine::start(&config.resolver, "mf", bell).filter(|_| keeps_names) {
        node.keep_names_by(engine);
    } else if keeps_names {
        node.keep_names(Time::ZERO, Box::new(DiskRepository::new(&folder.join("names"), bell)));
    }
    node
}

/// The settings of a node whose disk keeps its outgoing chunks while no router answers.
fn outbox_of(settings: &Config, config: &NodeConfig) -> Config {
    Config { outbox: config.store.is_some() && config.roles.contains(&Role::Sender), ..settings.clone() }
}
/// The secret of a device, from which its GUID follows. Publishers may share a key between machines; a device is
/// identified by its label too. The signature that the secret is made from is never shown.
fn device_secret(key: &SigningKey, label: &str) -> [u8; 32] {
    let signature = key.sign("tributary mf device", label.as_bytes());
    blake3::derive_key("tributary 2026 mf device secret", &signature.0)
}

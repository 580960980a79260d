//! Named Data Networking: forwarders with routes towards names, receivers that find the paths.
mod config;
mod framing;
pub mod key_chain;

use std::{path::Path, sync::Arc};
use tributary_content::{Name, SigningKey};
use tributary_core::ByteCount;
use tributary_ndn::{
    Anchors, Config, NdnNode, RemoteRegistration, Transit,
    config::{DataSignature, StaticRoute},
};
use tributary_net::{Bell, wall_clock};
use tributary_transport::TransferConfig;

use self::framing::TlvFraming;
use super::{
    contract::{AssignedRoute, BoxedNode, FaceSection, FamilySettings, OtherChanges},
    profile::{Abilities, Delivery, Liveness, Profile, Resolution},
};
use crate::{
    config::{
        NodeConfig, Role, Settings,
        reader::{Scope, Section},
    },
    family::Family,
};

pub(super) static PROFILE: Profile = Profile {
    capture_port: 6363,
    roles: &[Role::Router, Role::Sender, Role::Receiver],
    resolution: Resolution::Routes,
    liveness: Liveness::Traffic,
    delivery: Delivery::Multipath,
    abilities: Abilities { listing: false, echo: true, messages: false, routes: true, partial_sources: false },
    is_standard: true,
    framing: Some(|| Arc::new(TlvFraming)),
    // With the demo's name, its signature and headers a segment just fits a datagram.
    demo_settings: "segment_size = 1342\nremote_registration = \"neighbours\"",
};

impl FamilySettings for Config {
    fn read(&mut self, section: &Section<'_>, _: Scope, folder: &Path) {
        config::settings(section, self, folder);
    }
    fn read_lists(&mut self, root: &Section<'_>, folder: &Path, foreign: Option<Family>) {
        let keys = root.sections("shared_key").into_iter();
        self.shared_keys = keys.filter_map(|section| config::shared_key(section, folder, foreign)).collect();
        let anchors = root.sections("trust_anchor").into_iter();
        let anchors = anchors.filter_map(|section| config::trust_anchor(section, folder, foreign)).collect();
        self.anchors = Anchors::new(anchors);
        // A foreign family's section is read there.
        if foreign.is_none() {
            self.readers = root.sections("readers").into_iter().filter_map(config::readers).collect();
        }
    }
    fn read_face(&mut self, section: &Section<'_>, face: &FaceSection) {
        config::face(section, self, face);
    }
    fn transfer(&self) -> Option<&TransferConfig> {
        Some(&self.transfer)
    }
    fn transfer_mut(&mut self) -> Option<&mut TransferConfig> {
        Some(&mut self.transfer)
    }
    fn expect_site(&mut self, names: &[Name]) {
        if self.remote_registration == RemoteRegistration::Refused {
            self.remote_registration = RemoteRegistration::Neighbours;
            self.registration_prefixes = names.to_vec();
        } else if !self.registration_prefixes.is_empty() {
            self.registration_prefixes.extend_from_slice(names);
        }
    }
    fn warnings(&self, _: &NodeConfig) -> Vec<String> {
        let is_open = self.remote_registration == RemoteRegistration::Neighbours;
        let warning = "remote_registration: any node that reaches this one can claim any name; list the prefixes that neighbours \
                       may register, `registration_prefixes` of [ndn], or use it only where every neighbour is trusted";
        let is_open = is_open && self.registration_prefixes.is_empty();
        is_open.then(|| warning.to_string()).into_iter().collect()
    }
    fn identify(&mut self, key: &SigningKey, _: &str) {
        if let DataSignature::Ed25519(secret) = &mut self.signature {
            // The signature that the secret is made from is never shown.
            let signature = key.sign("tributary ndn data", b"");
            *secret = blake3::derive_key("tributary 2026 ndn data secret", &signature.0);
        }
        self.epoch = wall_clock();
    }
    /// A node that is no router caches nothing and forwards nothing.
    fn build(&self, config: &NodeConfig, seed: u64, _: &Bell) -> BoxedNode {
        let is_router = config.has_role(Role::Router);
        Box::new(NdnNode::new(Config {
            seed,
            transit: if is_router { Transit::Allowed } else { Transit::Refused },
            cache_bytes: if is_router { self.cache_bytes } else { ByteCount(0) },
            ..self.clone()
        }))
    }
    fn needs_routes(&self) -> bool {
        self.routes.is_empty()
    }
    fn prepare_simulation(&mut self, routes: &[AssignedRoute]) {
        let route = |of: &AssignedRoute| StaticRoute { face: of.face, prefix: of.prefix.clone(), cost: of.cost };
        self.routes.extend(routes.iter().map(route));
    }
    fn continue_run(&mut self, started: &Settings) {
        if let Some(started) = started.ndn() {
            self.epoch = started.epoch;
        }
    }
    fn waiting(&self, before: &Settings, changes: OtherChanges) -> Option<&'static str> {
        (before.ndn() != Some(self) && !changes.faces).then_some("[ndn] or [transfer]")
    }
}

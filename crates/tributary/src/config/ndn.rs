//! The section [ndn] of a config file, and what NDN adds to [[face]].
use std::path::Path;

use tributary_content::Name;
use tributary_core::{ByteCount, Duration, FaceId, PeerPlace};
use tributary_ndn::{
    Config,
    config::{DataSignature, Registrar, RegistrationScope, SharedKey, StaticRoute},
    receiver::selection::SELECTIONS,
    router::{InvalidPath, RemoteRegistration, cs, labels::LabelScheme, strategy::STRATEGIES},
};

use super::{
    reader::{Located, Section},
    sections::{duration, size},
};
use crate::registry::Family;

const NAME_HINT: &str = "write a name such as \"/lab\", or \"/\" for everything";

/// What a face's section says for NDN only.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct FaceRoutes {
    /// What can be reached by the neighbour.
    pub(super) prefixes: Vec<Name>,
    /// At what cost.
    pub(super) cost: u64,
    /// Whether prefixes are registered there; `None` for what is usual for such a neighbour.
    pub(super) register: Option<Option<RegistrationScope>>,
}

/// Reads the keys of a face.
pub(super) fn face(section: &Section<'_>) -> FaceRoutes {
    let texts = if section.has("routes") { section.texts("routes") } else { None };
    let scopes = [
        ("localhost", Some(RegistrationScope::Localhost)),
        ("localhop", Some(RegistrationScope::Localhop)),
        ("off", None),
    ];
    FaceRoutes {
        prefixes: names(section, "routes", texts.unwrap_or_default()),
        cost: section.integer("cost", 0..=1 << 32).unwrap_or(0),
        register: section.choice("register", &scopes),
    }
}

/// Bytes of a shared key at least; fewer are soon guessed. RFC 2104 §3 discourages fewer than 32.
const SHARED_KEY_BYTES_MIN: usize = 16;

/// Reads the key that a section [[shared_key]] names.
pub(super) fn shared_key(section: Section<'_>, folder: &Path, family: Family) -> Option<SharedKey> {
    if family != Family::Ndn {
        let hint = "only names of family \"ndn\" have such keys; remove the section".to_string();
        section.problem(section.span_of(""), format!("family {family} has no [[shared_key]]"), hint);
    }
    let prefix = section.parsed("prefix", NAME_HINT);
    let file = section.path("file", folder);
    let secret = file.and_then(|file| {
        read_shared_key(&file)
            .map_err(|message| {
                let hint = "make one with: head -c 32 /dev/urandom > FILE; chmod 600 FILE".to_string();
                section.problem(section.span_of("file"), message, hint);
            })
            .ok()
    });
    section.finish();
    Some(SharedKey { prefix: prefix?, secret: secret? })
}
fn read_shared_key(file: &Path) -> Result<Vec<u8>, String> {
    let secret = std::fs::read(file).map_err(|error| format!("cannot read '{}': {error}", file.display()))?;
    match secret.len() {
        SHARED_KEY_BYTES_MIN.. => Ok(secret),
        bytes => {
            Err(format!("'{}' has {bytes} bytes; a shared key has at least {SHARED_KEY_BYTES_MIN}", file.display()))
        }
    }
}

/// Reads the section into `ndn`.
pub(super) fn settings(section: &Section<'_>, ndn: &mut Config) {
    if let Some(bytes) = size(section, "cache_size", 0, 1 << 40) {
        ndn.cache_bytes = ByteCount(bytes);
    }
    let word = |text: Option<&'static str>, field: &mut String| {
        if let Some(text) = text {
            *field = text.into();
        }
    };
    word(section.choice("cache_policy", &cs::POLICIES.map(|(name, _)| (name, name))), &mut ndn.cache_policy);
    word(section.choice("strategy", &STRATEGIES.map(|(name, _)| (name, name))), &mut ndn.strategy);
    word(section.choice("selection", &SELECTIONS.map(|(name, _)| (name, name))), &mut ndn.paths.selection);
    if let Some(flows) = section.integer("acceleration_flows", 0..=1 << 24) {
        ndn.fab_flows = flows as usize;
    }
    ndn.path_tags = section.choice("path_tags", &[("on", true), ("off", false)]).unwrap_or(ndn.path_tags);
    ndn.tell_rates = section.choice("tell_rates", &[("on", true), ("off", false)]).unwrap_or(ndn.tell_rates);
    let schemes = [("random", LabelScheme::Random), ("huffman", LabelScheme::Huffman)];
    ndn.labels = section.choice("labels", &schemes).unwrap_or(ndn.labels);
    let ways = [("by-name", InvalidPath::ByName), ("nack", InvalidPath::Nack)];
    ndn.invalid_path = section.choice("invalid_path", &ways).unwrap_or(ndn.invalid_path);
    if let Some(bytes) = section.integer("segment_size", 64..=8_000) {
        ndn.segment_bytes = bytes as u16;
    }
    // The secret follows from the node's key when it starts.
    let signatures = [("digest", DataSignature::Digest), ("ed25519", DataSignature::Ed25519([0; 32]))];
    ndn.signature = section.choice("signature", &signatures).unwrap_or(ndn.signature);
    let who = [("off", RemoteRegistration::Refused), ("neighbours", RemoteRegistration::Neighbours)];
    ndn.remote_registration = section.choice("remote_registration", &who).unwrap_or(ndn.remote_registration);
    if section.has("regions") {
        let texts = section.texts("regions").unwrap_or_default();
        ndn.regions = names(section, "regions", texts);
    }
    if let Some(echoes) = section.integer("echoes_per_second", 0..=1 << 20) {
        ndn.echoes_per_second = echoes as u32;
    }
    if let Some(paths) = section.integer("paths_in_use", 1..=256) {
        ndn.paths.in_use_max = paths as usize;
    }
    let set = |value: Option<Duration>, field: &mut Duration| *field = value.unwrap_or(*field);
    let (millisecond, hour) = (Duration::from_millis(1), Duration::from_secs(3_600));
    set(duration(section, "change_interval", millisecond * 100, hour), &mut ndn.paths.change_interval);
    set(duration(section, "probe_interval", millisecond * 5, hour), &mut ndn.paths.probe_interval);
    set(duration(section, "probe_interval_max", millisecond * 5, hour), &mut ndn.paths.probe_interval_max);
    if let Some(probes) = section.integer("probes_initial", 1..=64) {
        ndn.paths.probes_initial = probes as u32;
    }
    set(duration(section, "interest_lifetime", millisecond * 50, hour), &mut ndn.paths.interest_lifetime);
    set(duration(section, "interest_lifetime_max", millisecond * 50, hour), &mut ndn.paths.interest_lifetime_max);
}

/// Lays what the faces' sections say into `ndn`. An application registers at the forwarder of its own machine unless told
/// otherwise.
pub(super) fn lay(ndn: &mut Config, publishes: bool, faces: &[(FaceId, PeerPlace, FaceRoutes)]) {
    for (face, place, routes) in faces {
        let (face, cost) = (*face, routes.cost);
        ndn.routes.extend(routes.prefixes.iter().map(|prefix| StaticRoute { face, prefix: prefix.clone(), cost }));
        let usual = (*place == PeerPlace::ThisMachine && publishes).then_some(RegistrationScope::Localhost);
        ndn.registrars.extend(routes.register.unwrap_or(usual).map(|scope| Registrar { face, scope }));
    }
}

fn names(section: &Section<'_>, key: &'static str, texts: Vec<Located<String>>) -> Vec<Name> {
    texts.iter().filter_map(|text| section.parse(key, text, NAME_HINT)).collect()
}

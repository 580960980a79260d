//! The section [ndn] of a config file, and what NDN adds to [[face]].
use std::path::Path;

use tributary_content::Name;
use tributary_core::{ByteCount, Duration, FaceId, PeerPlace};
use tributary_ndn::{
    Config,
    config::{DataSignature, Registrar, RegistrationScope, SharedKey, StaticRoute},
    receiver::selection::SELECTIONS,
    router::{
        InvalidPath, LinkService, RemoteRegistration, cs, labels::LabelScheme, marking::MarkingRule,
        strategy::STRATEGIES,
    },
};

use super::{
    link,
    reader::{Located, Section},
    sections::{duration, size},
};
use crate::registry::Family;

const NAME_HINT: &str = "write a name such as \"/lab\", or \"/\" for everything";

/// What a face's section says for NDN only.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct FaceSaid {
    /// What can be reached by the neighbour.
    prefixes: Vec<Name>,
    /// At what cost.
    cost: u64,
    /// Whether prefixes are registered there; `None` for what is usual for such a neighbour.
    register: Option<Option<RegistrationScope>>,
    service: LinkService,
}

/// Reads the keys of a face; what is not there about its link is as in `base`.
pub(super) fn face(section: &Section<'_>, base: LinkService, is_stream: bool) -> FaceSaid {
    let texts = section.texts("routes");
    let scopes = [
        ("localhost", Some(RegistrationScope::Localhost)),
        ("localhop", Some(RegistrationScope::Localhop)),
        ("off", None),
    ];
    let said = FaceSaid {
        prefixes: names(section, "routes", texts.unwrap_or_default()),
        cost: section.integer("cost", 0..=1 << 32).unwrap_or(0),
        register: section.choice("register", &scopes),
        service: link_service(section, base),
    };
    if is_stream && section.has("reliability") && said.service.reliability.is_some() {
        let hint = "remove it; a stream loses nothing".to_string();
        section.problem(section.span_of("reliability"), "'reliability' is for neighbours over UDP".into(), hint);
    }
    for (key, is_on) in
        [("marking", said.service.marking != MarkingRule::Off), ("shaping", said.service.shaping.is_some())]
    {
        if is_on && section.has(key) && said.service.rate.is_none() {
            let hint = "write what the link carries, such as rate = \"20Mbps\"".to_string();
            section.problem(section.span_of(key), format!("'{key}' needs the rate of the link"), hint);
        }
    }
    said
}
/// Reads what is done about a link, but for its rate; what is not there is as in `base`.
fn link_service(section: &Section<'_>, base: LinkService) -> LinkService {
    let switch = [("on", true), ("off", false)];
    let reliability = section.choice("reliability", &switch);
    let shaping = section.choice("shaping", &switch);
    let mut service = LinkService {
        reliability: base.reliability.filter(|_| reliability != Some(false)),
        shaping: base.shaping.filter(|_| shaping != Some(false)),
        marking: marking(section, base.marking),
        ..base
    };
    if reliability == Some(true) {
        service.reliability.get_or_insert_default();
    }
    if shaping == Some(true) {
        service.shaping.get_or_insert_default();
    }
    let slack = duration(section, "shaping_slack", Duration::ZERO, Duration::from_secs(10));
    let waiting = section.integer("shaping_interests_max", 1..=1 << 20);
    if let Some(shaping) = &mut service.shaping {
        shaping.slack = slack.unwrap_or(shaping.slack);
        shaping.interests_max = waiting.map_or(shaping.interests_max, |waiting| waiting as usize);
    }
    service
}
/// `marking = "codel"` and its settings.
fn marking(section: &Section<'_>, base: MarkingRule) -> MarkingRule {
    let (codel, linear) = (MarkingRule::CODEL, MarkingRule::LINEAR);
    let rules = [("off", MarkingRule::Off), ("codel", codel), ("linear", linear)];
    let mut rule = section.choice("marking", &rules).unwrap_or(base);
    let (shortest, longest) = (Duration::from_micros(1), Duration::from_secs(60));
    let read = |key| duration(section, key, shortest, longest);
    let [target, interval] = ["marking_target", "marking_interval"].map(read);
    let [low, high] = ["marking_low", "marking_high"].map(read);
    let set = |value: Option<Duration>, field: &mut Duration| *field = value.unwrap_or(*field);
    let strange = match &mut rule {
        MarkingRule::Codel { target: at, interval: after } => {
            set(target, at);
            set(interval, after);
            ["marking_low", "marking_high"]
        }
        MarkingRule::Linear { low: from, high: to } => {
            set(low, from);
            set(high, to);
            if *to <= *from {
                let hint = "nothing is marked up to 'marking_low', everything from 'marking_high' on".to_string();
                section.problem(section.span_of("marking_high"), format!("{to:?} is not above {from:?}"), hint);
            }
            ["marking_target", "marking_interval"]
        }
        MarkingRule::Off => return rule,
    };
    for key in strange.into_iter().filter(|key| section.has(key)) {
        let hint = "marking = \"codel\" has 'marking_target' and 'marking_interval', \"linear\" 'marking_low' and \
                    'marking_high'";
        section.problem(section.span_of(key), format!("'{key}' is of another rule"), hint.into());
    }
    rule
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
    if let Some(faces) = section.section("faces") {
        let rate = link::rate(&faces).or(ndn.link_service.rate);
        ndn.link_service = link_service(&faces, LinkService { rate, ..ndn.link_service });
        faces.finish();
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
    if let Some(texts) = section.texts("regions") {
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

/// Lays what a face's section says into `ndn`. An application registers at the forwarder of its own machine unless told
/// otherwise.
pub(super) fn lay(ndn: &mut Config, publishes: bool, (face, place): (FaceId, PeerPlace), said: FaceSaid) {
    let cost = said.cost;
    ndn.routes.extend(said.prefixes.into_iter().map(|prefix| StaticRoute { face, prefix, cost }));
    let usual = (place == PeerPlace::ThisMachine && publishes).then_some(RegistrationScope::Localhost);
    ndn.registrars.extend(said.register.unwrap_or(usual).map(|scope| Registrar { face, scope }));
    ndn.link_services.insert(face, said.service);
}

fn names(section: &Section<'_>, key: &'static str, texts: Vec<Located<String>>) -> Vec<Name> {
    texts.iter().filter_map(|text| section.parse(key, text, NAME_HINT)).collect()
}

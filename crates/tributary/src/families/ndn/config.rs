//! The section [ndn] of a config file, and NDN's keys in [[face]].
use std::{path::Path, sync::Arc};

use tributary_content::{KeyError, Name, PublicKey};
use tributary_core::{Duration, PeerPlace};
use tributary_ndn::{
    CACHE_POLICIES, Config, InvalidPath, LabelScheme, LinkService, ManagementTrust, MarkingRule, RemoteRegistration,
    SCHEMA_BYTES_MAX, SELECTIONS, STRATEGIES, Schema, TrustAnchor, VerifyKey,
    config::{
        Credentials, DataSignature, NameReaders, Registrar, RegistrationScope, RouterLimits, SharedKey, StaticRoute,
        Unsigned,
    },
};

use super::{
    super::contract::FaceSection,
    key_chain::{self, KeyChain},
};
use crate::{
    config::{
        link,
        reader::{Located, Section},
        values::{SECRET_HINT, duration, read_secret, set_duration, set_size},
    },
    family::Family,
};

const NAME_HINT: &str = "write a name such as \"/lab\", or \"/\" for everything";

/// Reads the keys of a face into `ndn`; missing ones about its link are as in `[ndn.faces]`. An application registers
/// its names at its machine's forwarder unless the config disables it.
pub(super) fn face(section: &Section<'_>, ndn: &mut Config, face: &FaceSection) {
    let is_here = face.place == PeerPlace::ThisMachine;
    // What leads to an application of this machine is no link.
    let base = if is_here { LinkService::default() } else { ndn.link_service };
    let base = LinkService { rate: face.rate.or(base.rate), ..base };
    let texts = section.texts("routes").unwrap_or_default();
    let prefixes = names(section, "routes", texts);
    let cost = section.integer("cost", 0..=1 << 32).unwrap_or(0);
    let scopes = [
        ("localhost", Some(RegistrationScope::Localhost)),
        ("localhop", Some(RegistrationScope::Localhop)),
        ("off", None),
    ];
    let register = section.choice("register", &scopes);
    let service = link_service(section, base);
    if face.is_stream && section.has("reliability") && service.reliability.is_some() {
        section.wrong("reliability", "'reliability' is for neighbours over UDP", "remove it; a stream loses nothing");
    }
    for (key, is_on) in [("marking", service.marking != MarkingRule::Off), ("shaping", service.shaping.is_some())] {
        if is_on && section.has(key) && service.rate.is_none() {
            let hint = "write what the link carries, such as rate = \"20Mbps\"";
            section.wrong(key, format!("'{key}' needs the rate of the link"), hint);
        }
    }
    ndn.routes.extend(prefixes.into_iter().map(|prefix| StaticRoute { face: face.id, prefix, cost }));
    let usual = (is_here && face.publishes).then_some(RegistrationScope::Localhost);
    ndn.registrars.extend(register.unwrap_or(usual).map(|scope| Registrar { face: face.id, scope }));
    ndn.link_services.insert(face.id, service);
}
/// Reads the link service of a face, except its rate; missing keys are as in `base`.
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
    let strange = match &mut rule {
        MarkingRule::Codel { target: at, interval: after } => {
            *at = target.unwrap_or(*at);
            *after = interval.unwrap_or(*after);
            ["marking_low", "marking_high"]
        }
        MarkingRule::Linear { low: from, high: to } => {
            *from = low.unwrap_or(*from);
            *to = high.unwrap_or(*to);
            if *to <= *from {
                let hint = "nothing is marked up to 'marking_low', everything from 'marking_high' on";
                section.wrong("marking_high", format!("{to:?} is not above {from:?}"), hint);
            }
            ["marking_target", "marking_interval"]
        }
        MarkingRule::Off => return rule,
    };
    for key in strange.into_iter().filter(|key| section.has(key)) {
        let hint = "marking = \"codel\" has 'marking_target' and 'marking_interval', \"linear\" 'marking_low' and \
                    'marking_high'";
        section.wrong(key, format!("'{key}' is of another rule"), hint);
    }
    rule
}

/// Reads the key that a section [[shared_key]] names; it is a mistake in the config of a `foreign` family.
pub(super) fn shared_key(section: Section<'_>, folder: &Path, foreign: Option<Family>) -> Option<SharedKey> {
    if let Some(family) = foreign {
        let hint = "only names of family \"ndn\" have such keys; remove the section";
        section.wrong("", format!("family {family} has no [[shared_key]]"), hint);
    }
    let prefix = section.parsed("prefix", NAME_HINT);
    let file = section.path("file", folder);
    let secret = file.and_then(|file| section.kept("file", read_secret(&file), SECRET_HINT));
    section.finish();
    Some(SharedKey { prefix: prefix?, secret: secret? })
}
/// Reads a section [[readers]]: the neighbours that may request the names below a prefix.
pub(super) fn readers(section: Section<'_>) -> Option<NameReaders> {
    let prefix = section.parsed("name", NAME_HINT);
    let keys = section.texts("keys");
    section
        .require(&["name", "keys"], "each [[readers]] has a name and the keys of the neighbours that may ask for it");
    let keys = section.keys(keys, "`trib status` shows the keys of neighbours");
    section.finish();
    Some(NameReaders { prefix: prefix?, keys })
}

/// Reads the section into `ndn`; files are relative to `folder`.
pub(super) fn settings(section: &Section<'_>, ndn: &mut Config, folder: &Path) {
    set_size(section, "cache_size", (0, 1 << 40), &mut ndn.cache_bytes.0);
    if let Some(packets) = section.integer("cache_packets_max", 1..=1 << 32) {
        ndn.cache_packets_max = usize::try_from(packets).ok();
    }
    limits(section, &mut ndn.limits);
    obeyed(section, ndn, folder);
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
    word(section.choice("cache_policy", &CACHE_POLICIES.map(|(name, _)| (name, name))), &mut ndn.cache_policy);
    word(section.choice("strategy", &STRATEGIES.map(|(name, _)| (name, name))), &mut ndn.strategy);
    word(section.choice("selection", &SELECTIONS.map(|(name, _)| (name, name))), &mut ndn.paths.selection);
    section.set_integer("acceleration_flows", 0..=1 << 24, &mut ndn.fab_flows);
    ndn.path_tags = section.choice("path_tags", &[("on", true), ("off", false)]).unwrap_or(ndn.path_tags);
    ndn.tell_rates = section.choice("tell_rates", &[("on", true), ("off", false)]).unwrap_or(ndn.tell_rates);
    let schemes = [("random", LabelScheme::Random), ("huffman", LabelScheme::Huffman)];
    ndn.labels = section.choice("labels", &schemes).unwrap_or(ndn.labels);
    let ways = [("by-name", InvalidPath::ByName), ("nack", InvalidPath::Nack)];
    ndn.invalid_path = section.choice("invalid_path", &ways).unwrap_or(ndn.invalid_path);
    section.set_integer("segment_size", 64..=8_000, &mut ndn.segment_bytes);
    signing(section, ndn, folder);
    let who = [("off", RemoteRegistration::Refused), ("neighbours", RemoteRegistration::Neighbours)];
    ndn.remote_registration = section.choice("remote_registration", &who).unwrap_or(ndn.remote_registration);
    if let Some(texts) = section.texts("registration_prefixes") {
        ndn.registration_prefixes = names(section, "registration_prefixes", texts);
    }
    if let Some(texts) = section.texts("regions") {
        ndn.regions = names(section, "regions", texts);
    }
    section.set_integer("echoes_per_second", 0..=1 << 20, &mut ndn.echoes_per_second);
    section.set_integer("paths_in_use", 1..=256, &mut ndn.paths.in_use_max);
    let (millisecond, hour) = (Duration::from_millis(1), Duration::from_secs(3_600));
    set_duration(section, "change_interval", (millisecond * 100, hour), &mut ndn.paths.change_interval);
    set_duration(section, "probe_interval", (millisecond * 5, hour), &mut ndn.paths.probe_interval);
    set_duration(section, "probe_interval_max", (millisecond * 5, hour), &mut ndn.paths.probe_interval_max);
    section.set_integer("probes_initial", 1..=64, &mut ndn.paths.probes_initial);
    set_duration(section, "interest_lifetime", (millisecond * 50, hour), &mut ndn.paths.interest_lifetime);
    set_duration(section, "interest_lifetime_max", (millisecond * 50, hour), &mut ndn.paths.interest_lifetime_max);
}

/// Whose commands it obeys.
fn obeyed(section: &Section<'_>, ndn: &mut Config, folder: &Path) {
    if let Some(management) = management(section, folder) {
        ndn.management = management;
    }
    if let ManagementTrust::Anchors(anchors) = &mut ndn.management {
        *anchors = Arc::new(ndn.anchors.clone());
        if ndn.anchors.is_empty() {
            let hint = "add a section [[trust_anchor]] with file = \"root.cert\"";
            section.wrong("management", "there is no trust anchor", hint);
        }
    }
}
/// How the node signs, and which unsigned objects it fetches.
fn signing(section: &Section<'_>, ndn: &mut Config, folder: &Path) {
    // The secret follows from the node's key when it starts.
    match section.choice("signature", &[("digest", false), ("ed25519", true)]) {
        Some(true) => ndn.signature = DataSignature::Ed25519([0; 32]),
        Some(false) => ndn.signature = DataSignature::Digest,
        None => {}
    }
    let unsigned = [("fetch", Unsigned::Fetched), ("refuse", Unsigned::Refused)];
    ndn.unsigned = section.choice("unsigned", &unsigned).unwrap_or(ndn.unsigned);
    if let Some(credentials) = identity(section, folder) {
        ndn.signature = DataSignature::Certified(Arc::new(credentials));
        if section.has("signature") {
            let hint = "remove one of the two: with an identity its key signs";
            section.wrong("signature", "'signature' and 'identity' contradict each other", hint);
        }
    }
}

/// Limits of the tables.
fn limits(section: &Section<'_>, limits: &mut RouterLimits) {
    section.set_integer("faces_max", 5..=1 << 20, &mut limits.faces_max);
    section.set_integer("fib_entries_max", 1..=1 << 24, &mut limits.fib_entries_max);
    section.set_integer("routes_max", 1..=1 << 24, &mut limits.routes_max);
    if let Some(entries) = section.integer("pit_entries_max", 16..=1 << 24) {
        // By default a face may have a quarter of the table.
        limits.pit.entries_max = entries as usize;
        limits.pit.entries_per_face_max = limits.pit.entries_max / 4;
    }
    section.set_integer("pit_entries_per_face_max", 4..=1 << 24, &mut limits.pit.entries_per_face_max);
    section.set_integer("pit_faces_per_entry_max", 1..=1 << 16, &mut limits.pit.in_records_max);
    set_size(section, "pit_bytes_max", (1 << 20, 1 << 36), &mut limits.pit.bytes_max);
    section.set_integer("dead_nonces_max", 0..=1 << 26, &mut limits.dead_nonces_max);
    section.set_integer("queue_packets_max", 16..=1 << 20, &mut limits.face.queue_packets_max);
    set_size(section, "queue_bytes_max", (16 << 10, 1 << 32), &mut limits.face.queue_bytes_max);
    section.set_integer("reassembly_packets_max", 1..=1 << 16, &mut limits.face.reassembly.packets_max);
    let (millisecond, hour) = (Duration::from_millis(1), Duration::from_secs(3_600));
    set_duration(section, "pit_lifetime_max", (millisecond * 100, hour), &mut limits.pit.lifetime_max);
    set_duration(section, "dead_nonce_lifetime", (millisecond * 100, hour), &mut limits.dead_nonce_lifetime);
    set_duration(section, "reassembly_patience", (millisecond, hour), &mut limits.face.reassembly.patience);
    if limits.pit.entries_per_face_max > limits.pit.entries_max {
        let span = section.span_of("pit_entries_per_face_max");
        let message = format!("one face cannot have more than all {} entries", limits.pit.entries_max);
        section.problem(span, message, "write at most 'pit_entries_max'");
    }
}

/// Whose commands are obeyed: `management` and `management_keys`.
fn management(section: &Section<'_>, folder: &Path) -> Option<ManagementTrust> {
    let who = [
        ("local", Who::Local),
        ("users", Who::Users),
        ("keys", Who::Keys),
        ("anchors", Who::Anchors),
        ("off", Who::Nobody),
    ];
    let who = section.choice("management", &who);
    let texts = section.texts("management_keys");
    match (who, texts) {
        (Some(Who::Keys), None) => {
            let hint = "list the certificates of operators: management_keys = [\"operator.ndncert\"]";
            section.wrong("management", "the keys are missing", hint);
            None
        }
        (Some(Who::Keys), Some(texts)) => {
            let keys = texts.iter().filter_map(|text| {
                public_key(&text.value)
                    .unwrap_or_else(|| {
                        key_chain::certificate_in(&folder.join(&text.value)).map(|found| found.key().clone())
                    })
                    .map_err(|message| section.problem(text.span.clone(), message, CERTIFICATE_HINT))
                    .ok()
            });
            Some(ManagementTrust::Keys(keys.collect()))
        }
        (who, texts) => {
            if texts.is_some() {
                let hint = "add management = \"keys\", or remove them";
                section.wrong("management_keys", "these keys are not used", hint);
            }
            match who? {
                Who::Nobody => Some(ManagementTrust::Nobody),
                // The caller has read the sections [[trust_anchor]].
                Who::Anchors => Some(ManagementTrust::Anchors(Arc::default())),
                Who::Users => Some(ManagementTrust::AnyUser),
                Who::Local | Who::Keys => Some(ManagementTrust::AnyLocal),
            }
        }
    }
}
#[derive(Clone, Copy)]
enum Who {
    Local,
    Users,
    Keys,
    Anchors,
    Nobody,
}

const CERTIFICATE_HINT: &str = "`trib ndn-key export`, `ndnsec cert-dump -i NAME` or `ndnd sec sign-cert` writes one";

/// A key given directly, as `trib status` of a node shows its command key; `None` for a file name.
fn public_key(text: &str) -> Option<Result<VerifyKey, String>> {
    text.starts_with("ed25519:").then(|| {
        let key: PublicKey = text.parse().map_err(|error: KeyError| error.to_string())?;
        VerifyKey::ed25519(&key.0).ok_or_else(|| format!("'{text}' is no key"))
    })
}

/// Reads `identity` and `keys`: the key and the certificates that the node signs with.
fn identity(section: &Section<'_>, folder: &Path) -> Option<Credentials> {
    let keys = section.path("keys", folder).or_else(key_chain::default_folder);
    let Some(identity) = section.parsed::<Name>("identity", NAME_HINT) else {
        if section.has("keys") && !section.has("identity") {
            section.wrong("keys", "this key chain is not used", "add identity = \"/lab/alice\", or remove it");
        }
        return None;
    };
    let keys = keys.or_else(|| {
        section.wrong("identity", "there is no home folder for the key chain", "write keys = \"FOLDER\"");
        None
    })?;
    let unix = tributary_net::wall_clock().as_secs();
    let found = KeyChain::open(&keys).and_then(|chain| {
        let credential = chain.credential(&identity, unix)?;
        let issuers = credential.certificates.first().map(|own| chain.issuers_of(own)).unwrap_or_default();
        Ok(Credentials::new(credential.secret, credential.certificates, issuers))
    });
    match found {
        Ok(credentials) => credentials,
        Err(error) => {
            section.wrong("identity", error.message, error.hint.unwrap_or_default());
            None
        }
    }
}

/// Reads a section [[trust_anchor]]; it is a mistake in the config of a `foreign` family.
pub(super) fn trust_anchor(section: Section<'_>, folder: &Path, foreign: Option<Family>) -> Option<TrustAnchor> {
    if let Some(family) = foreign {
        let hint = "only names of family \"ndn\" have such anchors; remove the section";
        section.wrong("", format!("family {family} has no [[trust_anchor]]"), hint);
    }
    let file = section.path("file", folder);
    if !section.has("file") {
        section.wrong("", "a trust anchor needs the file of its certificate", "write file = \"root.cert\"");
    }
    let certificate = file.and_then(|file| section.kept("file", key_chain::certificate_in(&file), CERTIFICATE_HINT));
    let prefix = section.parsed("prefix", NAME_HINT);
    let hint = "python-ndn compiles one: compile_lvs(TEXT).encode()";
    let schema = section.path("schema", folder).and_then(|file| section.kept("schema", read_schema(&file), hint));
    if let (Some(schema), Some(certificate)) = (&schema, &certificate)
        && !schema.matches(certificate.name().into())
    {
        let message = format!("no rule of the schema is for the anchor itself, '{}'", certificate.name());
        section.wrong("schema", message, "name the anchor that the schema was written for");
    }
    section.finish();
    let anchor = TrustAnchor::new(certificate?);
    Some(TrustAnchor { prefix: prefix.unwrap_or(anchor.prefix), schema: schema.map(Arc::new), ..anchor })
}
fn read_schema(file: &Path) -> Result<Schema, String> {
    let bytes = key_chain::read_limited(file, SCHEMA_BYTES_MAX as u64)?;
    Schema::decode(&bytes).map_err(|error| format!("'{}' cannot be used: {error}", file.display()))
}

fn names(section: &Section<'_>, key: &'static str, texts: Vec<Located<String>>) -> Vec<Name> {
    texts.iter().filter_map(|text| section.parse(key, text, NAME_HINT)).collect()
}

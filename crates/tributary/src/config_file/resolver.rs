//! The section `[resolver]`.
use std::path::Path;
use tributary_core::ByteCount;
use tributary_web::Url;

use crate::{
    config::{EngineConfig, EtcdConfig, KademliaConfig, Role, reader::Section, values::size},
    families::Resolution,
    family::Family,
};

const ENDPOINTS_HINT: &str = "list the members of the cluster, such as endpoints = [\"http://192.0.2.7:2379\"]";
/// Members of a cluster at most; etcd's authors advise against more than seven.
const ENDPOINTS_MAX: usize = 16;
/// Bytes of a prefix at most.
const PREFIX_BYTES_MAX: usize = 128;
const PREFIX: &str = "/tributary/";

/// Keys that are of one engine alone.
const OF_ETCD: [&str; 1] = ["endpoints"];
const OF_KADEMLIA: [&str; 2] = ["listen", "peers"];
const LISTEN_HINT: &str = "say where other peers reach this one, such as listen = [\"0.0.0.0:7400\"]";
const PEERS_HINT: &str = "write host and port, such as peers = [\"192.0.2.7:7400\"]";
/// Addresses and peers of a config at most.
const PEERS_MAX: usize = 64;
/// Records and bytes that a peer keeps for its swarm, if the config does not say.
const RECORDS_MAX: u64 = 200_000;
const BYTES_MAX: u64 = 256 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Embedded,
    Etcd,
    Kademlia,
}
const KINDS: [(&str, Kind); 3] = [("embedded", Kind::Embedded), ("etcd", Kind::Etcd), ("kademlia", Kind::Kademlia)];

/// Reads `[resolver]` of a node of that family and with these roles.
pub(super) fn resolver(section: Section<'_>, folder: &Path, family: Family, is_resolver: bool) -> EngineConfig {
    let kind = section.choice("engine", &KINDS).unwrap_or(Kind::Embedded);
    let prefix = section.text("prefix");
    let legal = |prefix: &str| (1..=PREFIX_BYTES_MAX).contains(&prefix.len()) && prefix.ends_with('/');
    if let Some(prefix) = prefix.as_ref().filter(|prefix| !legal(&prefix.value)) {
        let hint = format!("write 1 to {PREFIX_BYTES_MAX} bytes that end with a slash, such as \"/tributary/\"");
        section.problem(prefix.span.clone(), "'prefix' is no prefix of keys".into(), hint);
    }
    let etcd = etcd(&section, folder, prefix.as_ref().map(|prefix| prefix.value.clone()));
    let kademlia = kademlia(&section, prefix.as_ref().map(|prefix| prefix.value.clone()));
    match kind {
        Kind::Embedded => {}
        Kind::Etcd if !section.has("endpoints") => section.missing("endpoints", ENDPOINTS_HINT),
        Kind::Kademlia if !section.has("listen") => section.missing("listen", LISTEN_HINT),
        Kind::Etcd | Kind::Kademlia => {}
    }
    fits(&section, kind, family, is_resolver);
    let strangers = [(Kind::Etcd, &OF_ETCD[..]), (Kind::Kademlia, &OF_KADEMLIA)];
    for (of, keys) in strangers.into_iter().filter(|(of, _)| *of != kind) {
        let name = KINDS.iter().find(|(_, kind)| *kind == of).map_or("", |(name, _)| name);
        for key in keys.iter().filter(|key| section.has(key)) {
            let hint = format!("add engine = \"{name}\", or remove '{key}'");
            section.problem(section.span_of(key), format!("'{key}' without engine = \"{name}\""), hint);
        }
    }
    section.finish();
    match kind {
        Kind::Embedded => EngineConfig::Embedded,
        Kind::Etcd => EngineConfig::Etcd(Box::new(etcd)),
        Kind::Kademlia => EngineConfig::Kademlia(Box::new(kademlia)),
    }
}

/// Says if a node cannot have such an engine.
fn fits(section: &Section<'_>, kind: Kind, family: Family, is_resolver: bool) {
    let Some((name, _)) = KINDS.iter().find(|(_, known)| *known == kind && kind != Kind::Embedded) else { return };
    let engine = section.span_of("engine");
    if family.profile().resolution == Resolution::Routes {
        let hint = "remove 'engine', or write family = \"mf\" or \"psi\" in [node]".to_string();
        section.problem(engine, format!("family {family} keeps no names in {name}"), hint);
    } else if kind == Kind::Kademlia && !family.profile().abilities.signed_records {
        // Peers keep what they can verify.
        let message = format!(
            "family {family} keeps no records in kademlia: nobody signs them, so that strangers could not \
                               tell true ones from forged ones"
        );
        section.problem(engine, message, "write engine = \"etcd\" or \"embedded\", or family = \"mf\"".into());
    } else if !is_resolver {
        let hint = format!("add \"{}\" to 'roles' in [node], or remove [resolver]", Role::Resolver);
        section.problem(engine, "an engine of names in a node that resolves none".into(), hint);
    } else if kind == Kind::Kademlia && !cfg!(feature = "kademlia") {
        let message = "this program was built without the feature 'kademlia'".into();
        let hint = "build it with: cargo build --release --features kademlia; or write another engine".into();
        section.problem(engine, message, hint);
    }
}

fn etcd(section: &Section<'_>, folder: &Path, prefix: Option<String>) -> EtcdConfig {
    let endpoints = endpoints(section);
    let user = section.text("user");
    let password = section.path("password_file", folder);
    let ca_certificate = section.path("ca_certificate", folder);
    let (certificate, key) = (section.path("certificate", folder), section.path("certificate_key", folder));
    let pairs = [
        ("user", "password_file", user.is_some(), password.is_some()),
        ("password_file", "user", password.is_some(), user.is_some()),
        ("certificate", "certificate_key", certificate.is_some(), key.is_some()),
        ("certificate_key", "certificate", key.is_some(), certificate.is_some()),
    ];
    for (key, other, ..) in pairs.into_iter().filter(|(.., has, has_other)| *has && !has_other) {
        section.problem(section.span_of(key), format!("'{key}' without '{other}'"), format!("add '{other}'"));
    }
    EtcdConfig {
        endpoints,
        prefix: prefix.unwrap_or_else(|| PREFIX.into()),
        user: user.map(|user| user.value).zip(password),
        ca_certificate,
        certificate: certificate.zip(key),
    }
}

fn kademlia(section: &Section<'_>, prefix: Option<String>) -> KademliaConfig {
    // The name of a protocol begins with a slash.
    let prefix = prefix.unwrap_or_else(|| PREFIX.into());
    if section.has("listen") && !prefix.starts_with('/') {
        let hint = format!("write it with a slash in front: \"/{prefix}\"");
        section.problem(section.span_of("prefix"), "'prefix' begins without a slash".into(), hint);
    }
    let texts = |key: &'static str| {
        let texts = section.texts(key).unwrap_or_default();
        if texts.len() > PEERS_MAX {
            let message = format!("{} addresses are listed", texts.len());
            section.problem(section.span_of(key), message, format!("list {PEERS_MAX} at most"));
        }
        texts
    };
    let mut listen = Vec::new();
    for text in texts("listen") {
        match text.value.parse() {
            Ok(address) => listen.push(address),
            Err(_) => {
                section.problem(text.span, format!("'{}' is no address with a port", text.value), LISTEN_HINT.into())
            }
        }
    }
    let mut peers = Vec::new();
    for text in texts("peers") {
        let is_peer = |peer: &str| {
            peer.rsplit_once(':')
                .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0))
        };
        match is_peer(&text.value) {
            true => peers.push(text.value),
            false => section.problem(text.span, format!("'{}' is no host with a port", text.value), PEERS_HINT.into()),
        }
    }
    KademliaConfig {
        listen,
        peers,
        prefix,
        records_max: section.integer("records_max", 1_000..=100_000_000).unwrap_or(RECORDS_MAX),
        bytes_max: ByteCount(size(section, "size_max", 1 << 20, 1 << 40).unwrap_or(BYTES_MAX)),
    }
}

fn endpoints(section: &Section<'_>) -> Vec<Url> {
    let mut endpoints = Vec::new();
    let texts = section.texts("endpoints").unwrap_or_default();
    if texts.len() > ENDPOINTS_MAX {
        let message = format!("{} endpoints are listed", texts.len());
        section.problem(section.span_of("endpoints"), message, format!("list {ENDPOINTS_MAX} at most"));
    }
    for text in texts {
        let url = Url::parse(&text.value).ok();
        let has_more = |url: &Url| {
            !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some()
        };
        if url.as_ref().is_some_and(has_more) {
            // It may have a password in it, and is not repeated.
            let message = "an endpoint has a user, a password or a query".into();
            let hint = "write scheme, host and port alone; 'user' and 'password_file' say who asks".into();
            section.problem(text.span, message, hint);
            continue;
        }
        match url.filter(|url| ["http", "https"].contains(&url.scheme()) && url.has_host() && url.path() == "/") {
            Some(url) => endpoints.push(url),
            None => {
                section.problem(text.span, format!("'{}' is no endpoint of etcd", text.value), ENDPOINTS_HINT.into())
            }
        }
    }
    endpoints
}

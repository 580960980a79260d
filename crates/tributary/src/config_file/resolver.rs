//! The section `[resolver]`.
use std::path::Path;
use tributary_web::Url;

use crate::{
    config::{EngineConfig, EtcdConfig, Role, reader::Section},
    families::Resolution,
    family::Family,
};

const ENDPOINTS_HINT: &str = "list the members of the cluster, such as endpoints = [\"http://192.0.2.7:2379\"]";
/// Maximum members of a cluster; etcd's authors advise against more than seven.
const ENDPOINTS_MAX: usize = 16;
/// Maximum bytes of a prefix.
const PREFIX_BYTES_MAX: usize = 128;
const PREFIX: &str = "/tributary/";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Embedded,
    Etcd,
}
const KINDS: [(&str, Kind); 2] = [("embedded", Kind::Embedded), ("etcd", Kind::Etcd)];

/// Reads `[resolver]` of a node of that family and with these roles.
pub(super) fn resolver(section: Section<'_>, folder: &Path, family: Family, is_resolver: bool) -> EngineConfig {
    let kind = section.choice("engine", &KINDS).unwrap_or(Kind::Embedded);
    let prefix = section.text("prefix");
    let legal = |prefix: &str| (1..=PREFIX_BYTES_MAX).contains(&prefix.len()) && prefix.ends_with('/');
    if let Some(prefix) = prefix.as_ref().filter(|prefix| !legal(&prefix.value)) {
        let hint = format!("write 1 to {PREFIX_BYTES_MAX} bytes that end with a slash, such as \"/tributary/\"");
        section.problem(prefix.span.clone(), "'prefix' is no prefix of keys", hint);
    }
    let etcd = etcd(&section, folder, prefix.map(|prefix| prefix.value));
    match kind {
        Kind::Etcd if !section.has("endpoints") => section.missing("endpoints", ENDPOINTS_HINT),
        Kind::Embedded if section.has("endpoints") => {
            let hint = "add engine = \"etcd\", or remove 'endpoints'";
            section.wrong("endpoints", "'endpoints' without engine = \"etcd\"", hint);
        }
        Kind::Embedded | Kind::Etcd => {}
    }
    fits(&section, kind, family, is_resolver);
    section.finish();
    match kind {
        Kind::Embedded => EngineConfig::Embedded,
        Kind::Etcd => EngineConfig::Etcd(Box::new(etcd)),
    }
}

/// Says if a node cannot have such an engine.
fn fits(section: &Section<'_>, kind: Kind, family: Family, is_resolver: bool) {
    let Some((name, _)) = KINDS.iter().find(|(_, known)| *known == kind && kind != Kind::Embedded) else { return };
    let engine = section.span_of("engine");
    if family.profile().resolution == Resolution::Routes {
        let hint = "remove 'engine', or write family = \"mf\" or \"psi\" in [node]";
        section.problem(engine, format!("family {family} keeps no names in {name}"), hint);
    } else if !is_resolver {
        let hint = format!("add \"{}\" to 'roles' in [node], or remove [resolver]", Role::Resolver);
        section.problem(engine, "an engine of names in a node that resolves none", hint);
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
        section.wrong(key, format!("'{key}' without '{other}'"), format!("add '{other}'"));
    }
    EtcdConfig {
        endpoints,
        prefix: prefix.unwrap_or_else(|| PREFIX.into()),
        user: user.map(|user| user.value).zip(password),
        ca_certificate,
        certificate: certificate.zip(key),
    }
}

fn endpoints(section: &Section<'_>) -> Vec<Url> {
    let mut endpoints = Vec::new();
    let texts = section.texts("endpoints").unwrap_or_default();
    if texts.len() > ENDPOINTS_MAX {
        let message = format!("{} endpoints are listed", texts.len());
        section.wrong("endpoints", message, format!("list {ENDPOINTS_MAX} at most"));
    }
    for text in texts {
        let url = Url::parse(&text.value).ok();
        let has_more = |url: &Url| {
            !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some()
        };
        if url.as_ref().is_some_and(has_more) {
            // It may have a password in it, and is not repeated.
            let message = "an endpoint has a user, a password or a query";
            let hint = "write only scheme, host and port; 'user' and 'password_file' hold the credentials";
            section.problem(text.span, message, hint);
            continue;
        }
        match url.filter(|url| ["http", "https"].contains(&url.scheme()) && url.has_host() && url.path() == "/") {
            Some(url) => endpoints.push(url),
            None => section.problem(text.span, format!("'{}' is no endpoint of etcd", text.value), ENDPOINTS_HINT),
        }
    }
    endpoints
}

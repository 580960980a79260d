//! The section `[resolver]`: where a resolver keeps its records.
use std::{net::IpAddr, path::PathBuf};
use tributary_web::Url;

/// What keeps the names that a resolver holds for its network.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum EngineConfig {
    /// The resolver itself, in memory and on its disk; resolvers hand names over to each other.
    #[default]
    Embedded,
    /// An etcd cluster, for any number of resolvers.
    Etcd(Box<EtcdConfig>),
}

/// An etcd cluster, as a config names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EtcdConfig {
    /// Its members, as clients reach them.
    pub endpoints: Vec<Url>,
    /// The prefix of all keys.
    pub prefix: String,
    /// A user, and the file with the password; `None` for a cluster without users.
    pub user: Option<(String, PathBuf)>,
    /// A file with certificates to trust in addition to the system's.
    pub ca_certificate: Option<PathBuf>,
    /// A client certificate and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl EngineConfig {
    /// A recommended change, in a sentence that explains it.
    pub(crate) fn warning(&self) -> Option<String> {
        let EngineConfig::Etcd(etcd) = self else { return None };
        let (user, _) = etcd.user.as_ref()?;
        let is_here = |url: &Url| match url.host_str().map(|host| host.trim_matches(['[', ']'])) {
            Some("localhost") => true,
            Some(host) => host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()),
            None => false,
        };
        let open = etcd.endpoints.iter().find(|url| url.scheme() == "http" && !is_here(url))?;
        Some(format!(
            "[resolver] sends the password of '{user}' unencrypted to {open}: whoever is on the way reads it, and can then \
             change all names; write https endpoints, with 'ca_certificate' if they have an authority of their own"
        ))
    }
}

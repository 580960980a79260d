//! What `[resolver]` says: where a resolver keeps its records.
use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};
use tributary_core::ByteCount;
use tributary_web::Url;

/// What keeps the names that a resolver holds for its network.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum EngineConfig {
    /// The resolver itself, in memory and on its disk; resolvers hand names over to each other.
    #[default]
    Embedded,
    /// An etcd cluster, for any number of resolvers.
    Etcd(Box<EtcdConfig>),
    /// A Kademlia swarm that resolvers keep together.
    Kademlia(Box<KademliaConfig>),
}

/// A peer of a Kademlia swarm, as a config describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KademliaConfig {
    /// Where it listens for other peers, with TCP.
    pub listen: Vec<SocketAddr>,
    /// Peers to begin with, as `host:port`.
    pub peers: Vec<String>,
    /// What the name of its protocol begins with.
    pub prefix: String,
    /// Records that it keeps for the swarm at most, and so many of its own hosts.
    pub records_max: u64,
    /// Bytes of those that it keeps for the swarm at most.
    pub bytes_max: ByteCount,
}

/// An etcd cluster, as a config names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EtcdConfig {
    /// Its members, as clients reach them.
    pub endpoints: Vec<Url>,
    /// What the keys begin with.
    pub prefix: String,
    /// A user, and the file with the password; `None` for a cluster without users.
    pub user: Option<(String, PathBuf)>,
    /// A file with certificates to trust beside those of the system.
    pub ca_certificate: Option<PathBuf>,
    /// A certificate that proves who asks, and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl EngineConfig {
    /// What should be changed in it, in a sentence that says how.
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

//! What `[resolver]` says: where a resolver keeps the records of names.
use std::path::PathBuf;
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
    /// What the keys begin with.
    pub prefix: String,
    /// A user, and the file with the password; `None` for a cluster without users.
    pub user: Option<(String, PathBuf)>,
    /// A file with certificates to trust beside those of the system.
    pub ca_certificate: Option<PathBuf>,
    /// A certificate that proves who asks, and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

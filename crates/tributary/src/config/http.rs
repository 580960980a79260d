//! The section `[http]`: the gateway of a node.
use std::{net::SocketAddr, path::PathBuf};
use tributary_content::Name;
use tributary_core::Duration;
use tributary_trust::Access;
use tributary_web::Url;

use super::Invitation;

tributary_core::declared! {
    /// How a gateway serves a node's objects over HTTP.
    #[derive(Clone, PartialEq, Debug)]
    pub struct HttpConfig {
        /// Where it listens: on loopback, unless others should read through it.
        pub listen: SocketAddr = listen,
        /// The folder of its cache.
        pub cache: PathBuf = cache,
        /// Maximum bytes of the cache, besides objects that are being read.
        pub cache_bytes_max: u64 = 10 << 30,
        /// Objects unread for this long leave the cache.
        pub cache_age_max: Duration = Duration::from_secs(7 * 86_400),
        /// Bytes fetched ahead of a client's position.
        pub read_ahead_bytes: u64 = 16 << 20,
        /// How long an object may take to be found, and its next byte to arrive.
        pub patience: Duration = Duration::from_secs(10),
        /// How long the result of looking up a name is used.
        pub fresh: Duration = Duration::from_secs(30),
        /// Connections at a time; others are answered with 503.
        pub connections_max: usize = 1_024,
        /// How long a client may take to send the head of a request.
        pub head_timeout: Duration = Duration::from_secs(10),
        /// Whether the API of the node is served there.
        pub api: bool = true,
        /// The file with the token that clients of the API must send; `None` for none, which is only possible on
        /// loopback.
        pub token_file: Option<PathBuf> = None,
        /// Maximum bytes of an uploaded file.
        pub upload_bytes_max: u64 = 4 << 30,
        /// Whether pages of other sites may embed its objects.
        pub cross_site: bool = false,
        /// Names of the gateway, besides addresses and `localhost`.
        pub hosts: Vec<String> = Vec::new(),
        /// Hosts that it mirrors.
        pub mirrors: Vec<HttpMirror> = Vec::new(),
        /// Web servers whose files it fetches and keeps for its clients and its neighbours.
        pub origins: Vec<HttpOrigin> = Vec::new(),
        /// Space on the disk that the cache leaves free.
        pub cache_reserve_bytes: u64 = 256 << 20,
        /// The gateways that fetch each file once together; `None` for none.
        pub site: Option<SiteConfig> = None,
    }
    /// The defaults, with these two places.
    pub fn new(listen: SocketAddr, cache: PathBuf) {}
}

tributary_core::declared! {
    /// Gateways that fetch each file of an origin once together.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct SiteConfig {
        /// Tells the sites of a segment apart.
        pub name: String = "site".into(),
        /// Whether every gateway that names the site may join. By default it needs a certificate of the node's network,
        /// or its key in `peers`.
        pub access: Access = Access::Closed,
        /// Members, by their nodes' addresses or invitations. All addresses of a host name are members.
        pub peers: Vec<Invitation> = Vec::new(),
        /// Whether members find each other on their segment by multicast DNS.
        pub discovery: bool = true,
    }
}
impl SiteConfig {
    /// Whether no gateway can join: the site is closed, has no invited key, and no network admits nodes.
    pub fn admits_none(&self, has_network: bool) -> bool {
        self.access == Access::Closed && !has_network && self.peers.iter().all(|peer| peer.key.is_none())
    }
}

/// A web server whose files are served below a path or under a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpOrigin {
    /// The host that clients request, in the field `Host`, as a proxy's target or in `?ns=`; `None` for the gateway's own.
    pub host: Option<String>,
    /// The path that clients request, without a slash at its end; empty for all paths.
    pub path: String,
    /// What replaces the path: the server first, then its mirrors, each without a slash at its end.
    pub urls: Vec<Url>,
    /// Further hosts with private addresses that redirects may lead to.
    pub hosts: Vec<String>,
    /// Texts that are replaced in HTML, JSON and other texts: addresses that would lead clients past the gateway.
    pub replace: Vec<(String, String)>,
    /// The rules of its clients.
    pub kind: OriginKind,
    /// Copies are published below this name.
    pub name: Name,
    /// How long an answer that does not say for how long it is fresh is used.
    pub fresh: Duration,
    /// How long a stale answer may be used while the origin is away.
    pub stale: Duration,
    /// How long the gateway looks for a neighbour's copy before it requests the file from the origin; zero: not at all.
    pub peer_patience: Duration,
}

/// The rules of an origin's clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OriginKind {
    /// HTTP only.
    #[default]
    Web,
    /// The hub of Hugging Face: commits are fixed, and large files have a SHA-256.
    HuggingFace,
    /// A registry of container images: tokens for everybody, and digests in paths.
    Oci,
}
impl OriginKind {
    /// All of them, by their names in a config.
    pub const ALL: [(&'static str, OriginKind); 3] =
        [("web", OriginKind::Web), ("huggingface", OriginKind::HuggingFace), ("oci", OriginKind::Oci)];
}

/// A host whose files are objects: those below `name`, or in the folder of that name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpMirror {
    /// The host, such as `deb.example.org`.
    pub host: String,
    /// The name of its root.
    pub name: Name,
}

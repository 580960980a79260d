//! The section `[http]`: the gateway of a node.
use std::{net::SocketAddr, path::PathBuf};
use tributary_content::Name;
use tributary_core::Duration;

/// How a gateway serves a node's objects over HTTP.
#[derive(Clone, PartialEq, Debug)]
pub struct HttpConfig {
    /// Where it listens: on loopback, unless others should read through it.
    pub listen: SocketAddr,
    /// The folder of its cache.
    pub cache: PathBuf,
    /// Maximum bytes of the cache, besides objects that are being read.
    pub cache_bytes_max: u64,
    /// Objects unread for this long leave the cache.
    pub cache_age_max: Duration,
    /// Bytes fetched ahead of a client's position.
    pub read_ahead_bytes: u64,
    /// How long an object may take to be found, and its next byte to arrive.
    pub patience: Duration,
    /// How long the result of looking up a name is used.
    pub fresh: Duration,
    /// Connections at a time; others are answered with 503.
    pub connections_max: usize,
    /// How long a client may take to send the head of a request.
    pub head_timeout: Duration,
    /// Whether the API of the node is served there.
    pub api: bool,
    /// The file with the token that clients of the API must send; `None` for none, which is only possible on loopback.
    pub token_file: Option<PathBuf>,
    /// Maximum bytes of an uploaded file.
    pub upload_bytes_max: u64,
    /// Whether pages of other sites may embed its objects.
    pub cross_site: bool,
    /// Names of the gateway, besides addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Hosts that it mirrors.
    pub mirrors: Vec<HttpMirror>,
}

/// A host whose files are objects: those below `name`, or in the folder of that name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpMirror {
    /// The host, such as `deb.example.org`.
    pub host: String,
    /// The name of its root.
    pub name: Name,
}

impl HttpConfig {
    /// The defaults, with these two places.
    pub fn new(listen: SocketAddr, cache: PathBuf) -> HttpConfig {
        HttpConfig {
            listen,
            cache,
            cache_bytes_max: 10 << 30,
            cache_age_max: Duration::from_secs(7 * 86_400),
            read_ahead_bytes: 16 << 20,
            patience: Duration::from_secs(10),
            fresh: Duration::from_secs(30),
            connections_max: 1_024,
            head_timeout: Duration::from_secs(10),
            api: true,
            token_file: None,
            upload_bytes_max: 4 << 30,
            cross_site: false,
            hosts: Vec::new(),
            mirrors: Vec::new(),
        }
    }
}

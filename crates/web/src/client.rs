//! Connections: TLS with the system's roots, proxies from the environment, one client per uplink.
use reqwest::{
    Client, Url,
    header::{HeaderMap, SET_COOKIE},
    redirect,
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::{fmt, net::IpAddr, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tributary_transport::bulk::connections_for;

use crate::{
    credentials::{Cookies, FILE_BYTES_MAX, Netrc},
    download::{MIRRORS_MAX, WebError},
    origin::Origin,
    request::{Refusal, shown},
    s3::Store,
};

/// How long a connection may take.
pub const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// How long the head of an answer may take, endless headers and interim answers included.
pub const HEAD_TIME_MAX: Duration = Duration::from_secs(30);
/// How long a connection is kept without a request.
const IDLE_TIME_MAX: Duration = Duration::from_secs(60);
/// Maximum bytes of an answer's headers over HTTP/2; over HTTP/1.1 hyper accepts 100 fields and 408 KiB.
const HEADER_BYTES_MAX: u32 = 64 << 10;

/// Where connections leave this machine.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Uplink {
    /// Wherever the system's routes lead.
    Any,
    /// By this network device, such as `wlan0`.
    Device(String),
    /// From this local address.
    Address(IpAddr),
}
impl FromStr for Uplink {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(Uplink::Address(address));
        }
        // IFNAMSIZ of Linux, with its final zero.
        let is_name = (1..16).contains(&text.len()) && !text.contains(|c: char| c == '/' || c.is_whitespace());
        is_name
            .then(|| Uplink::Device(text.into()))
            .ok_or_else(|| format!("'{text}' is neither a local address nor the name of a network device"))
    }
}
impl fmt::Display for Uplink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Uplink::Any => Ok(()),
            Uplink::Device(name) => f.write_str(name),
            Uplink::Address(address) => address.fmt(f),
        }
    }
}

/// How servers are reached.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// The uplinks; each has a separate connection to every mirror. Empty means [`Uplink::Any`].
    pub uplinks: Vec<Uplink>,
    /// Certificates to trust in addition to the system's, in PEM.
    pub ca_certificates: Vec<PathBuf>,
    /// Cookies in Netscape's format.
    pub cookies: Option<PathBuf>,
    /// Passwords by host; `None` uses `$NETRC`, else `~/.netrc`, if it exists.
    pub netrc: Option<PathBuf>,
    /// What the client calls itself; `None` is this program's name and version.
    pub user_agent: Option<String>,
    /// Whether a redirect may lead from https to http.
    pub redirects: Redirects,
    /// The store of `s3://` addresses; `None` reads it from the environment.
    pub store: Option<Store>,
    /// Who names the servers.
    pub origin: Origin,
    /// With [`Origin::Operator`] the hosts that may have any address.
    pub hosts: Vec<String>,
}

/// Which redirects are followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Redirects {
    /// Those that stay encrypted.
    #[default]
    Secure,
    /// From https to http too.
    Any,
}

/// What all requests of a fetch share.
pub(crate) struct Shared {
    cookies: Mutex<Cookies>,
    pub(crate) netrc: Netrc,
    pub(crate) redirects: Redirects,
    pub(crate) store: Store,
    pub(crate) origin: Origin,
    hosts: Vec<String>,
}

impl Shared {
    pub(crate) fn new(options: &ClientOptions) -> Result<Arc<Shared>, WebError> {
        let cookies = options.cookies.as_ref().map(|path| read(path)).transpose()?;
        let netrc = match &options.netrc {
            _ if options.origin != Origin::Person => String::new(),
            Some(path) => read(path)?,
            None => {
                let named = std::env::var_os("NETRC").map(PathBuf::from);
                let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".netrc"));
                named.or_else(home).and_then(|path| read(&path).ok()).unwrap_or_default()
            }
        };
        Ok(Arc::new(Shared {
            cookies: Mutex::new(Cookies::parse(&cookies.unwrap_or_default())),
            netrc: Netrc::parse(&netrc),
            redirects: options.redirects,
            store: options.store.clone().unwrap_or_else(Store::of_environment),
            origin: options.origin,
            hosts: options.hosts.clone(),
        }))
    }
    /// Refuses a URL that may not be requested.
    pub(crate) fn check(&self, url: &Url) -> Result<(), Refusal> {
        let checked = self.origin.check(url, &self.hosts);
        checked.map_err(|why| Refusal::Refused(format!("'{}' is not used: {why}", shown(url))))
    }
    /// The header with the cookies for a request.
    pub(crate) fn cookies(&self, url: &Url, now: u64) -> Option<String> {
        self.cookies.lock().header(url, now)
    }
    /// Keeps the cookies that an answer sets until the end of the fetch. True if one is new.
    pub(crate) fn learn_cookies(&self, url: &Url, headers: &HeaderMap) -> bool {
        let mut cookies = self.cookies.lock();
        let set = headers.get_all(SET_COOKIE).iter().filter_map(|value| value.to_str().ok());
        set.filter(|text| cookies.learn(url, text)).count() > 0
    }
}

/// Where the flows of every mirror leave: each uplink as often as it may have connections to one mirror.
pub(crate) struct Lanes {
    /// The uplinks; equal ones are adjacent.
    pub(crate) uplinks: Vec<Uplink>,
    /// For each mirror a client for each of `uplinks`: flows share no connection, in any version of HTTP.
    pub(crate) clients: Vec<Vec<Client>>,
}

impl Lanes {
    pub(crate) fn new(mirrors: &[Url], options: &ClientOptions) -> Result<Lanes, WebError> {
        if mirrors.is_empty() || mirrors.len() > MIRRORS_MAX {
            let count = mirrors.len();
            return Err(WebError::Usage(format!("a file has from 1 to {MIRRORS_MAX} mirrors, not {count}")));
        }
        let mut different: Vec<&Uplink> = Vec::new();
        for uplink in &options.uplinks {
            if !different.contains(&uplink) {
                different.push(uplink);
            }
        }
        if different.is_empty() {
            different.push(&Uplink::Any);
        }
        let connections = connections_for(mirrors.len(), different.len());
        let uplinks: Vec<Uplink> = different.into_iter().flat_map(|uplink| vec![uplink.clone(); connections]).collect();
        if options.origin == Origin::Stranger && is_proxied() {
            let message = "servers that a publisher names are not used through a proxy, because their addresses cannot be \
                 checked";
            return Err(WebError::Usage(message.into()));
        }
        let tls = tls(options, None)?;
        let over_all = |_: &Url| uplinks.iter().map(|uplink| client(uplink, tls.clone(), options)).collect();
        let clients = mirrors.iter().map(over_all).collect::<Result<_, _>>()?;
        Ok(Lanes { uplinks, clients })
    }
    /// The first place of each uplink.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = usize> {
        (0..self.uplinks.len()).filter(|at| self.is_first(*at))
    }
    /// Whether a place is the first one of its uplink.
    pub(crate) fn is_first(&self, at: usize) -> bool {
        at == 0 || self.uplinks[at] != self.uplinks[at - 1]
    }
}

/// Whether the environment names a proxy.
fn is_proxied() -> bool {
    let names = ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
    names.iter().any(|name| std::env::var_os(name).is_some_and(|proxy| !proxy.is_empty()))
}

/// A client for one flow over an uplink.
pub(crate) fn client(uplink: &Uplink, tls: ClientConfig, options: &ClientOptions) -> Result<Client, WebError> {
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(redirect::Policy::none())
        .connect_timeout(CONNECT_TIME_MAX)
        .pool_max_idle_per_host(1)
        .pool_idle_timeout(IDLE_TIME_MAX)
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(15))
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .http2_adaptive_window(true)
        // Old servers fold fields over several lines, write spaces before the colon, and put text between the fields.
        .http1_allow_obsolete_multiline_headers_in_responses(true)
        .http1_allow_spaces_after_header_name_in_responses(true)
        .http1_ignore_invalid_headers_in_responses(true)
        .referer(false)
        .user_agent(options.user_agent.as_deref().unwrap_or(concat!("tributary/", env!("CARGO_PKG_VERSION"))));
    if let Some(resolver) = options.origin.resolver(&options.hosts) {
        builder = builder.dns_resolver(resolver);
    }
    builder = match uplink {
        Uplink::Any => builder,
        Uplink::Device(name) => builder.interface(name),
        Uplink::Address(address) => builder.local_address(*address),
    };
    builder.build().map_err(|error| WebError::Usage(format!("cannot make connections over '{uplink}': {error}")))
}

/// TLS that trusts the roots of the system and of the options, with a client certificate and its key, in PEM.
pub(crate) fn tls(options: &ClientOptions, certificate: Option<&(PathBuf, PathBuf)>) -> Result<ClientConfig, WebError> {
    let mut roots = RootCertStore::empty();
    // A damaged certificate of the system among many is no reason to fail.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for path in &options.ca_certificates {
        let unusable =
            |why: String| WebError::Usage(format!("cannot use the certificates in '{}': {why}", path.display()));
        let pem = read(path)?;
        let mut count = 0;
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
            roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
            count += 1;
        }
        if count == 0 {
            return Err(unusable("it has no certificate".into()));
        }
    }
    if roots.is_empty() {
        tracing::warn!(
            "this machine trusts no certificates, so no https server can be verified: install ca-certificates, or name \
             a file with 'ca_certificate'"
        );
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| WebError::Usage(format!("cannot set up TLS: {error}")))?;
    let config = config.with_root_certificates(roots);
    let mut config = match certificate {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let unusable =
                |file: &PathBuf, why: String| WebError::Usage(format!("cannot use '{}': {why}", file.display()));
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(read(certificate)?.as_bytes()).collect();
            let chain = chain.map_err(|error| unusable(certificate, error.to_string()))?;
            let secret = PrivateKeyDer::from_pem_slice(read(key)?.as_bytes())
                .map_err(|error| unusable(key, error.to_string()))?;
            config.with_client_auth_cert(chain, secret).map_err(|error| unusable(certificate, error.to_string()))?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

pub(crate) fn read(path: &std::path::Path) -> Result<String, WebError> {
    let failed = |why: String| WebError::Usage(format!("cannot read '{}': {why}", path.display()));
    let length = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
    if length > FILE_BYTES_MAX {
        return Err(failed(format!("it has {length} bytes, more than {FILE_BYTES_MAX}")));
    }
    std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))
}

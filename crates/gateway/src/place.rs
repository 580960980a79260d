//! From a request to the name that it means.
use hyper::{Request, Uri, header};
use tributary_content::{Name, Reference};

use crate::{config::GatewayConfig, folder};

/// A request that means no name, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The path is not legal.
    Path(&'static str),
    /// The `Host` field is malformed.
    Host(&'static str),
    /// The gateway does not mirror this host.
    Misdirected,
}

/// What a request means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The name, and what the query pins.
    pub(crate) reference: Reference,
    /// The least number of components of a folder's name: a mirror's components.
    pub(crate) shortest: usize,
    /// Whether the path ends with a slash.
    pub(crate) is_folder: bool,
}

pub(crate) fn place<B>(request: &Request<B>, config: &GatewayConfig) -> Result<Place, Refusal> {
    let root = root(request, config)?;
    let mut name = root.clone();
    let path = request.uri().path();
    for component in path.split('/').filter(|component| !component.is_empty()) {
        let bytes = decode(component)?;
        // Flat repositories of apt request `./Packages`.
        if bytes == b"." {
            continue;
        }
        name = name.child(&bytes).map_err(|_| Refusal::Path("the path is too long for a name"))?;
    }
    let mut reference = Reference::from(name);
    // The queries of a mirror's clients have the meaning that its origin gives them.
    for field in request.uri().query().filter(|_| root.is_empty()).into_iter().flat_map(|query| query.split('&')) {
        let unread = |_| Refusal::Path("the query names no publisher's key, ed25519:…, or no hash");
        reference.take_field(field).map_err(unread)?;
    }
    Ok(Place { reference, shortest: root.len().max(1), is_folder: path.ends_with('/') })
}

/// Whether a request is for a host that the gateway is a mirror of.
pub(crate) fn is_mirror<B>(request: &Request<B>, config: &GatewayConfig) -> bool {
    root(request, config).is_ok_and(|root| !root.is_empty())
}

/// Whether a request is for the gateway itself, by an address or one of its hosts, and not through it as a proxy.
pub(crate) fn is_own<B>(request: &Request<B>, config: &GatewayConfig) -> bool {
    request.uri().scheme().is_none() && root(request, config).is_ok_and(|root| root.is_empty())
}

/// The host that a request is for, in lower case; `None` if HTTP/1.0 names none.
pub(crate) fn host<B>(request: &Request<B>) -> Result<Option<String>, Refusal> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let field =
        hosts.next().map(|host| host.to_str().map_err(|_| Refusal::Host("the host is not text"))).transpose()?;
    if hosts.next().is_some() {
        return Err(Refusal::Host("there is more than one host"));
    }
    let is_proxied = request.uri().scheme().is_some();
    let host = match request.uri().host() {
        // RFC 9112 §3.2.2: the host of the target counts.
        Some(host) if is_proxied => host.to_string(),
        Some(_) => return Err(Refusal::Host("the target is not a path")),
        None => match field {
            Some(field) => {
                let uri: Uri = field.parse().map_err(|_| Refusal::Host("the host name is invalid"))?;
                let authority = uri.authority().filter(|_| uri.path().len() <= 1 && !field.contains(['@', '/', '?']));
                authority.ok_or(Refusal::Host("the host name is invalid"))?.host().to_string()
            }
            None if request.version() == hyper::Version::HTTP_11 => return Err(Refusal::Host("there is no host")),
            None => return Ok(None),
        },
    };
    Ok(Some(host.trim_end_matches('.').to_ascii_lowercase()))
}
/// The name that the root of the request's host is.
fn root<B>(request: &Request<B>, config: &GatewayConfig) -> Result<Name, Refusal> {
    let Some(host) = host(request)? else { return Ok(Name::root()) };
    if let Some(mirror) = config.mirrors.iter().find(|mirror| mirror.host.eq_ignore_ascii_case(&host)) {
        return Ok(mirror.name.clone());
    }
    // A page of a foreign site whose name was pointed at this node must not read objects through it.
    let is_address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    let is_own = is_address || host == "localhost" || config.hosts.iter().any(|own| own.eq_ignore_ascii_case(&host));
    if is_own { Ok(Name::root()) } else { Err(Refusal::Misdirected) }
}

/// The bytes of a component of a path.
fn decode(component: &str) -> Result<Vec<u8>, Refusal> {
    let wrong = Refusal::Path("a percent sign must be followed by two hexadecimal digits");
    let bytes = folder::decode(component).ok_or(wrong)?;
    match &bytes[..] {
        b".." => Err(Refusal::Path("a path with .. is not resolved here")),
        bytes if bytes.contains(&b'/') => Err(Refusal::Path("a slash inside a component is not part of a path")),
        bytes if bytes.iter().any(|byte| *byte < 0x20 || *byte == 0x7f) => {
            Err(Refusal::Path("a control character is not part of a path"))
        }
        _ => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mirror;

    fn meant(target: &str, hosts: &[&str]) -> Result<String, Refusal> {
        let mut config = GatewayConfig::new("127.0.0.1:0".parse().expect("an address"), "cache".into());
        let name = "/mirror/debian".parse().expect("a name");
        config.mirrors.push(Mirror { host: "deb.example.org".into(), name });
        let mut request = Request::builder().uri(target);
        for host in hosts {
            request = request.header("host", *host);
        }
        place(&request.body(()).expect("a request"), &config).map(|place| place.reference.to_string())
    }

    #[test]
    fn paths_are_names_and_tricks_with_them_are_refused() {
        let local = &["localhost:8080"];
        assert_eq!(meant("/lab/debian.iso", local), Ok("/lab/debian.iso".into()));
        assert_eq!(meant("/lab//a%20b/?format=json", local), Ok("/lab/a%20b".into()));
        assert_eq!(meant("/./lab/%2e/a", local), Ok("/lab/a".into()));
        for path in
            ["/a/../b", "/a/%2e%2e/b", "/a%2fb", "/a%2Fb", "/a/%00", "/a/%0a", "/a/%7f", "/%", "/%1", "/%zz", "/%+1"]
        {
            assert!(matches!(meant(path, local), Err(Refusal::Path(_))), "{path}");
        }
        assert!(matches!(meant(&format!("/{}", "a".repeat(2000)), local), Err(Refusal::Path(_))));
        assert!(matches!(meant(&"/a".repeat(40), local), Err(Refusal::Path(_))));
    }

    #[test]
    fn a_query_pins_as_a_reference_does_and_other_fields_mean_something_else() {
        let key = tributary_content::SigningKey::from_secret(&[1; 32]).public();
        let escaped = key.to_string().replace(':', "%3A");
        let pinned = meant(&format!("/lab/x?format=json&publisher={escaped}"), &["localhost"]);
        assert_eq!(pinned, Ok(format!("trib:/lab/x?publisher={key}")));
        assert!(matches!(meant("/lab/x?publisher=me", &["localhost"]), Err(Refusal::Path(_))));
        assert!(matches!(meant("/lab/x?hash=", &["localhost"]), Err(Refusal::Path(_))));
        assert_eq!(meant("/x?publisher=me", &["deb.example.org"]), Ok("/mirror/debian/x".into()), "a mirror's own");
    }

    #[test]
    fn only_own_hosts_and_mirrors_are_served() {
        assert_eq!(meant("/dists/x", &["deb.example.org"]), Ok("/mirror/debian/dists/x".into()));
        assert_eq!(meant("/dists/x", &["DEB.example.org.:80"]), Ok("/mirror/debian/dists/x".into()));
        assert_eq!(meant("http://deb.example.org/dists/x", &["other.example"]), Ok("/mirror/debian/dists/x".into()));
        for host in ["127.0.0.1:8080", "[::1]:8080", "192.0.2.1", "localhost"] {
            assert_eq!(meant("/x", &[host]), Ok("/x".into()), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example"] {
            assert_eq!(meant("/x", &[host]), Err(Refusal::Misdirected), "{host}");
        }
        for hosts in [&["localhost", "localhost"][..], &[], &[""], &["a b"], &["user@localhost"], &["localhost/x"]] {
            assert!(matches!(meant("/x", hosts), Err(Refusal::Host(_))), "{hosts:?}");
        }
        assert_eq!(meant("http://evil.example/x", &["localhost"]), Err(Refusal::Misdirected));
    }
}

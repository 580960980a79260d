//! Who may use the API.
//!
//! | against | check |
//! |---|---|
//! | other machines | with a token configured, every request carries it; without one the API answers on loopback only |
//! | other users of this machine, and proxies that run as them | without a token the other end of the connection must belong to the owner of this process, according to the kernel; a forwarded request needs a token |
//! | pages of other sites | `Sec-Fetch-Site` and `Origin` must match this listener; no answer carries a field of CORS; a body has a type that forms cannot send |
//! | pages whose host name was redirected here (DNS rebinding) | the host must be an address, `localhost` or one of `hosts`, see [`crate::place`] |
//! | pages of published objects, which have the same host and port | they are sandboxed, so that they have no origin |
use std::{fs, io::Write, net::SocketAddr, os::unix::fs::OpenOptionsExt, path::Path};

use hyper::{HeaderMap, Method, header};
use tokio::sync::{OnceCell, Semaphore};
use tributary::{ApiError, ErrorKind};
use tributary_net::owner::is_tcp_peer_owner;

/// Minimum bytes of a token; shorter ones could be guessed.
const TOKEN_BYTES_MIN: usize = 16;
/// Maximum bytes of a token file.
const TOKEN_FILE_BYTES_MAX: u64 = 4_096;
/// Fields that show that a proxy forwards another client's request.
const FORWARDED: [&str; 4] = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];

/// Concurrent lookups of connection owners in the kernel.
static ASKING: Semaphore = Semaphore::const_new(2);

/// Why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// It carries no token, or another one. 401.
    Token,
    /// It comes from a page of another origin. 403.
    CrossSite,
    /// There is no token, and it does not come from this machine. 403.
    Remote,
    /// There is no token, and it comes from another user of this machine, or was forwarded. 403.
    Foreign,
    /// Its body has a type that a form of another site could send. 415.
    Type,
}

/// The two ends of a connection.
#[derive(Debug)]
pub(crate) struct Connection {
    own: SocketAddr,
    peer: SocketAddr,
    is_owner: OnceCell<bool>,
}

impl Connection {
    pub(crate) fn new(own: SocketAddr, peer: SocketAddr) -> Connection {
        Connection { own, peer, is_owner: OnceCell::new() }
    }
    /// Whether the other end belongs to the owner of this process. Checked once, since that reads a table of the
    /// kernel.
    async fn is_owner(&self) -> bool {
        let (own, peer) = (self.own, self.peer);
        let ask = || async move {
            // Each reads a table with all connections of the machine; many at a time would keep its processors from the node.
            let Ok(_turn) = ASKING.acquire().await else { return false };
            let looked_up = tokio::task::spawn_blocking(move || is_tcp_peer_owner(own, peer));
            looked_up.await.unwrap_or(false)
        };
        *self.is_owner.get_or_init(ask).await
    }
}

/// What requests must show.
#[derive(Debug)]
pub(crate) struct Guard {
    /// The hash of the token: comparing hashes takes constant time.
    token: Option<blake3::Hash>,
    is_loopback: bool,
}

impl Guard {
    /// # Errors
    /// [`ApiError`] if the token's file cannot be read or made, others can read it, or the token is too short.
    pub(crate) fn new(listen: SocketAddr, token_file: Option<&Path>) -> Result<Guard, ApiError> {
        let token = token_file.map(token).transpose()?.map(|token| blake3::hash(token.as_bytes()));
        Ok(Guard { token, is_loopback: listen.ip().is_loopback() })
    }
    /// Checks a request that reads or changes something.
    pub(crate) async fn check(
        &self,
        method: &Method,
        headers: &HeaderMap,
        connection: &Connection,
    ) -> Result<(), Refusal> {
        check_site(headers)?;
        check_type(method, headers)?;
        match &self.token {
            Some(token) => {
                let given = text(headers, header::AUTHORIZATION.as_str()).and_then(bearer);
                let is_right = given.is_some_and(|given| blake3::hash(given.as_bytes()) == *token);
                if is_right { Ok(()) } else { Err(Refusal::Token) }
            }
            None if !self.is_loopback => Err(Refusal::Remote),
            None if FORWARDED.iter().any(|field| headers.contains_key(*field)) => Err(Refusal::Foreign),
            None if connection.is_owner().await => Ok(()),
            None => Err(Refusal::Foreign),
        }
    }
}

impl Refusal {
    pub(crate) fn status(self) -> u16 {
        match self {
            Refusal::Token => 401,
            Refusal::CrossSite | Refusal::Remote | Refusal::Foreign => 403,
            Refusal::Type => 415,
        }
    }
    pub(crate) fn error(self) -> ApiError {
        let (reason, hint) = match self {
            Refusal::Token => (
                "the request carries no valid token",
                "send 'Authorization: Bearer TOKEN' with the content of 'token_file' in [http]",
            ),
            Refusal::CrossSite => {
                ("the request comes from a page of another site", "only pages of this listener may use its API")
            }
            Refusal::Remote => (
                "the API of a listener that other machines reach needs a token",
                "set 'token_file' in [http], or listen on 127.0.0.1",
            ),
            Refusal::Foreign => (
                "without a token only the user that runs the node may use its API, and not through a proxy",
                "set 'token_file' in [http], and send the token",
            ),
            Refusal::Type => ("the body must be JSON", "send 'Content-Type: application/json'"),
        };
        ApiError::new(ErrorKind::Rejected, reason).with_hint(hint)
    }
}

/// Refuses requests that browsers make for pages of other origins.
fn check_site(headers: &HeaderMap) -> Result<(), Refusal> {
    if headers.get_all("sec-fetch-site").iter().any(|site| site != "same-origin" && site != "none") {
        return Err(Refusal::CrossSite);
    }
    let is_own = headers.get_all(header::ORIGIN).iter().all(|origin| is_own(headers, origin.to_str().ok()));
    if is_own { Ok(()) } else { Err(Refusal::CrossSite) }
}
/// Which sites' pages may embed an object, as a value of `Cross-Origin-Resource-Policy`; `None` if the page that requests
/// it may not. Pages of objects are sandboxed, so their requests come from no site, and their address tells.
pub(crate) fn embedding(headers: &HeaderMap) -> Option<&'static str> {
    match (text(headers, "sec-fetch-site"), text(headers, "sec-fetch-dest")) {
        (Some("cross-site"), _) if is_own(headers, text(headers, "referer")) => Some("cross-origin"),
        (Some("cross-site"), dest) if dest != Some("document") => None,
        _ => Some("same-origin"),
    }
}
/// Whether a request is for the host of this address.
fn is_own(headers: &HeaderMap, url: Option<&str>) -> bool {
    let path = url.and_then(|url| url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")));
    path.is_some_and(|path| path.split('/').next() == text(headers, "host"))
}
/// The API takes no bodies of the types that forms send: browsers without `Sec-Fetch-Site` send only those without a
/// preflight.
fn check_type(method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
    let has_body = headers.contains_key(header::TRANSFER_ENCODING)
        || text(headers, header::CONTENT_LENGTH.as_str()).is_some_and(|length| length != "0");
    if *method == Method::GET || *method == Method::HEAD || !has_body {
        return Ok(());
    }
    let kind = text(headers, header::CONTENT_TYPE.as_str()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let is_ours = ["application/json", "application/octet-stream"].iter().any(|ours| kind.eq_ignore_ascii_case(ours));
    if is_ours { Ok(()) } else { Err(Refusal::Type) }
}
fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}
fn bearer(field: &str) -> Option<&str> {
    let (scheme, token) = field.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The token in a file. A missing file is created, for its owner only.
fn token(path: &Path) -> Result<String, ApiError> {
    use std::os::unix::fs::MetadataExt;
    let failed = |operation: &str, error: &std::io::Error| ApiError::io(operation, path.display(), error);
    let wrong = |reason: String, hint: &str| {
        ApiError::new(ErrorKind::Io, format!("the token in '{}' {reason}", path.display())).with_hint(hint)
    };
    match fs::metadata(path) {
        Ok(metadata) if metadata.mode() & 0o077 != 0 => {
            Err(wrong("can be read by others".into(), "make it private: chmod 600 FILE"))
        }
        Ok(metadata) if metadata.len() > TOKEN_FILE_BYTES_MAX => {
            Err(wrong(format!("has {} bytes", metadata.len()), "write one line"))
        }
        Ok(_) => {
            let text = fs::read_to_string(path).map_err(|error| failed("read", &error))?;
            let token = text.trim();
            let is_legal = token.len() >= TOKEN_BYTES_MIN && token.bytes().all(|byte| byte.is_ascii_graphic());
            let hint = "write at least 16 letters and digits, or remove the file to have one made";
            is_legal.then(|| token.to_string()).ok_or_else(|| wrong("is too short or has spaces".into(), hint))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mut secret = [0; 24];
            getrandom::fill(&mut secret)
                .map_err(|error| ApiError::new(ErrorKind::Io, format!("the system gives no random bytes: {error}")))?;
            let token: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
            let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            made.and_then(|mut file| writeln!(file, "{token}")).map_err(|error| failed("create", &error))?;
            Ok(token)
        }
        Err(error) => Err(failed("read", &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in [("host", "127.0.0.1:8080")].iter().chain(fields) {
            headers.append(*name, value.parse().expect("legal"));
        }
        headers
    }

    #[test]
    fn only_pages_of_this_listener_pass() {
        let site = |list: &[(&'static str, &str)]| check_site(&fields(list));
        for own in [
            &[][..],
            &[("origin", "http://127.0.0.1:8080"), ("sec-fetch-site", "same-origin")],
            &[("sec-fetch-site", "none")],
            &[("origin", "https://127.0.0.1:8080")],
        ] {
            assert_eq!(site(own), Ok(()), "{own:?}");
        }
        for foreign in [
            &[("sec-fetch-site", "cross-site")][..],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")],
            &[("origin", "null")],
            &[("origin", "http://127.0.0.1:8081")],
            &[("origin", "http://127.0.0.1")],
            &[("origin", "http://evil.example")],
            &[("origin", "http://127.0.0.1:8080.evil.example")],
            &[("origin", "http://127.0.0.1:8080"), ("origin", "http://evil.example")],
            &[("origin", "127.0.0.1:8080")],
        ] {
            assert_eq!(site(foreign), Err(Refusal::CrossSite), "{foreign:?}");
        }
    }

    #[test]
    fn only_pages_of_this_gateway_embed_its_objects() {
        let (cross, own) = (("sec-fetch-site", "cross-site"), ("referer", "http://127.0.0.1:8080/lab/page.html"));
        for (list, embedding) in [
            (&[][..], Some("same-origin")),
            (&[("sec-fetch-site", "same-origin")], Some("same-origin")),
            (&[cross, ("sec-fetch-dest", "document")], Some("same-origin")),
            (&[cross, ("sec-fetch-dest", "image"), own], Some("cross-origin")),
            (&[cross], None),
            (&[cross, ("sec-fetch-dest", "iframe")], None),
            (&[cross, ("referer", "http://evil.example/")], None),
            (&[cross, ("referer", "http://127.0.0.1:8080.evil.example/")], None),
        ] {
            assert_eq!(super::embedding(&fields(list)), embedding, "{list:?}");
        }
    }

    #[test]
    fn bodies_that_a_form_could_send_are_refused() {
        let kind = |list: &[(&'static str, &str)]| check_type(&Method::POST, &fields(list));
        assert_eq!(kind(&[("content-length", "0")]), Ok(()));
        assert_eq!(kind(&[("content-length", "2"), ("content-type", "application/json; charset=utf-8")]), Ok(()));
        for form in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx"] {
            assert_eq!(kind(&[("content-length", "2"), ("content-type", form)]), Err(Refusal::Type), "{form}");
            assert_eq!(kind(&[("transfer-encoding", "chunked"), ("content-type", form)]), Err(Refusal::Type));
        }
        assert_eq!(kind(&[("content-length", "2")]), Err(Refusal::Type));
    }

    #[test]
    fn a_token_is_made_once_for_its_owner_and_a_weak_or_open_one_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let made = token(&path).expect("it is made");
        assert_eq!((token(&path).expect("it is there"), made.len()), (made.clone(), 48));
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        for weak in ["", "short", "has a space in it somewhere", &"x".repeat(5_000)] {
            fs::write(&path, weak).expect("writable");
            assert!(token(&path).is_err(), "{weak:.30}");
        }
        fs::write(&path, &made).expect("writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("ours");
        assert!(token(&path).expect_err("others read it").message.contains("others"));
    }

    #[tokio::test]
    async fn a_token_counts_by_its_bytes_and_without_one_only_the_owner_on_loopback_passes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let secret = token(&path).expect("it is made");
        let at = |address: &str| address.parse::<SocketAddr>().expect("an address");
        // No such connection exists, so the kernel names no owner.
        let connection = || Connection::new(at("127.0.0.1:1"), at("127.0.0.1:2"));
        let guard = Guard::new(at("0.0.0.0:80"), Some(&path)).expect("readable");
        let check = async |list: &[(&'static str, &str)]| guard.check(&Method::GET, &fields(list), &connection()).await;
        for right in [format!("Bearer {secret}"), format!("bearer {secret}")] {
            assert_eq!(check(&[("authorization", &right)]).await, Ok(()));
        }
        for wrong in [format!("Bearer {secret}x"), format!("Basic {secret}"), secret[1..].into(), "Bearer ".into()] {
            assert_eq!(check(&[("authorization", &wrong)]).await, Err(Refusal::Token), "{wrong}");
        }
        assert_eq!(check(&[]).await, Err(Refusal::Token));
        let open = Guard::new(at("0.0.0.0:80"), None).expect("no file");
        assert_eq!(open.check(&Method::GET, &fields(&[]), &connection()).await, Err(Refusal::Remote));
        let local = Guard::new(at("127.0.0.1:80"), None).expect("no file");
        assert_eq!(local.check(&Method::GET, &fields(&[]), &connection()).await, Err(Refusal::Foreign));
        let own = Connection { is_owner: OnceCell::new_with(Some(true)), ..connection() };
        assert_eq!(local.check(&Method::GET, &fields(&[]), &own).await, Ok(()));
        for proxied in FORWARDED {
            let headers = fields(&[(proxied, "192.0.2.1")]);
            assert_eq!(local.check(&Method::GET, &headers, &own).await, Err(Refusal::Foreign), "{proxied}");
        }
    }
}

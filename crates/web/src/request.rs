//! One request: redirects, ranges, validators, and the interpretation of the answer.
use bytes::Bytes;
use parking_lot::Mutex;
use reqwest::{
    Client, RequestBuilder, Response, StatusCode, Url,
    header::{self, HeaderMap, HeaderName},
};
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};
use tokio::time::timeout;
use tributary_core::Time;
use tributary_net::{Clock, wall_clock};
pub use tributary_transport::bulk::BulkFailure as Refusal;

use crate::{
    client::{HEAD_TIME_MAX, Redirects, Shared},
    metalink::Advertised,
    s3,
};

/// Maximum redirects of one request.
pub const REDIRECTS_MAX: usize = 10;
/// The longest pause that a server may request.
pub const WAIT_MAX: Duration = Duration::from_secs(300);
/// The wait if a busy server does not name one.
const WAIT_DEFAULT: Duration = Duration::from_secs(2);
/// Minimum bytes requested from a server, even if it delivered less.
const RANGE_LEAST: u64 = 1 << 20;
/// Extra bytes that an answer may have before the requested ones, as answers of caches with blocks do.
const OVERLAP_MAX: u64 = 1 << 20;
/// Maximum servers behind one URL whose validators are remembered; validators of further servers are not compared.
const SERVERS_MAX: usize = 64;

/// What shows whether a file on a server is still the same one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Validator {
    /// A strong entity tag.
    pub etag: Option<String>,
    /// The time of its last change, as the server writes it.
    pub modified: Option<String>,
}
impl Validator {
    fn of(headers: &HeaderMap) -> Validator {
        let etag = text(headers, header::ETAG).filter(|tag| !tag.starts_with("W/"));
        let modified = text(headers, header::LAST_MODIFIED);
        Validator { etag: etag.map(str::to_owned), modified: modified.map(str::to_owned) }
    }
    /// Whether an answer with validator `now` may be of the same file.
    fn agrees(&self, now: &Validator) -> bool {
        let same = |a: &Option<String>, b: &Option<String>| a.is_none() || b.is_none() || a == b;
        if self.etag.is_some() && now.etag.is_some() {
            return self.etag == now.etag;
        }
        same(&self.modified, &now.modified)
    }
}

/// The object of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ask {
    /// The whole file, by a request without a range.
    Whole,
    /// The whole file, by a range without an end: the answer shows whether the server delivers ranges.
    FromStart,
    /// These bytes.
    Bytes(Range<u64>),
}
impl Ask {
    fn header(&self) -> Option<String> {
        match self {
            Ask::Whole => None,
            Ask::FromStart => Some("bytes=0-".into()),
            Ask::Bytes(range) => Some(format!("bytes={}-{}", range.start, range.end - 1)),
        }
    }
    fn start(&self) -> u64 {
        if let Ask::Bytes(range) = self { range.start } else { 0 }
    }
}

/// A server's description of a file.
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// Bytes of the file; `None` if the server does not send it.
    pub size: Option<u64>,
    /// Whether it delivers ranges.
    pub ranges: bool,
    /// Its validator.
    pub validator: Validator,
    /// Whether these bytes are a compressed form of the file (`Content-Encoding`).
    pub is_encoded: bool,
    /// The server and path that answered, after all redirects.
    pub answered_by: String,
    /// The time from the request to the head of the answer.
    pub time: Duration,
    /// The mirrors and the checksum that the fields of RFC 6249 name.
    pub(crate) advertised: Advertised,
}

/// An answer whose bytes are read piece by piece.
pub(crate) struct Answer {
    response: Response,
    /// Bytes that were read and given back.
    rest: Bytes,
    pub(crate) head: Head,
    /// The place in the file of the next byte.
    pub(crate) at: u64,
    /// The place at which the answer ends, if the server sends it.
    pub(crate) end: Option<u64>,
}
impl Answer {
    /// Reads on; `None` at the end of the answer.
    pub(crate) async fn read(&mut self) -> Result<Option<Bytes>, Refusal> {
        if self.is_over() {
            return Ok(None);
        }
        if !self.rest.is_empty() {
            self.at += self.rest.len() as u64;
            return Ok(Some(std::mem::take(&mut self.rest)));
        }
        let read = self.response.chunk().await.map_err(|error| failure(&error))?;
        self.at += read.as_ref().map_or(0, |bytes| bytes.len() as u64);
        Ok(read)
    }
    /// Returns the end of the piece that was read last.
    pub(crate) fn give_back(&mut self, bytes: Bytes) {
        self.at -= bytes.len() as u64;
        self.rest = bytes;
    }
    pub(crate) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| self.at >= end)
    }
    /// Reads the end of the body, after which the connection can be used again.
    pub(crate) async fn end(mut self, patience: Duration) {
        let _ = timeout(patience, self.response.chunk()).await;
    }
}

/// A mirror's address, and the known properties of the file there.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) url: Url,
    pub(crate) size: Option<u64>,
    /// Whether a checksum or the hashes of pieces show which file it is. Then validators are ignored: the mirrors behind a
    /// redirector have different ones for the same file.
    pub(crate) is_proven: bool,
    /// The longest range that this server delivers; zero while it delivers whole ranges.
    range_max: Arc<AtomicU64>,
    /// The validators by the servers that answered.
    seen: Arc<Mutex<BTreeMap<String, Validator>>>,
}
impl Place {
    pub(crate) fn new(url: Url, size: Option<u64>, is_proven: bool, range_max: u64) -> Place {
        Place { url, size, is_proven, range_max: Arc::new(range_max.into()), seen: Arc::default() }
    }
    pub(crate) fn range_max(&self) -> u64 {
        self.range_max.load(Ordering::Relaxed)
    }
    /// The part of a range to request.
    pub(crate) fn limited(&self, range: Range<u64>) -> Ask {
        let most = Some(self.range_max()).filter(|most| *most > 0).unwrap_or(u64::MAX);
        Ask::Bytes(range.start..range.end.min(range.start.saturating_add(most)))
    }
    /// How many servers have answered for this URL.
    pub(crate) fn servers(&self) -> usize {
        self.seen.lock().len()
    }
    /// Compares an answer with earlier ones of this and other servers.
    pub(crate) fn compare(&self, head: &Head) -> Result<(), Refusal> {
        let mut seen = self.seen.lock();
        let before = seen.get(&head.answered_by).cloned();
        match (self.size, head.size) {
            (Some(was), Some(now)) if was != now && before.is_none() => {
                let reason = format!("redirects to another file, of {now} bytes");
                return Err(Refusal::Again { reason, wait: None });
            }
            (Some(was), Some(now)) if was != now => {
                let reason = format!("the file has changed on the server: it had {was} bytes and has {now} now");
                return Err(Refusal::Changed(reason));
            }
            _ => {}
        }
        match before {
            Some(before) if !self.is_proven && !before.agrees(&head.validator) => {
                let what = difference(&before, &head.validator);
                Err(Refusal::Changed(format!("the file has changed on the server: {what}")))
            }
            None if seen.len() < SERVERS_MAX => {
                seen.insert(head.answered_by.clone(), head.validator.clone());
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Requests bytes of a known file.
pub(crate) async fn open(client: &Client, shared: &Shared, place: &Place, ask: &Ask) -> Result<Answer, Refusal> {
    let answer = request(client, shared, &place.url, ask).await?;
    place.compare(&answer.head)?;
    if let (Ask::Bytes(range), Some(end)) = (ask, answer.end.filter(|_| answer.head.ranges))
        && end < range.end
    {
        place.range_max.fetch_max((end - range.start).max(RANGE_LEAST), Ordering::Relaxed);
    }
    Ok(answer)
}

/// Requests bytes of a file without comparing the answer to earlier ones.
pub(crate) async fn request(client: &Client, shared: &Shared, url: &Url, ask: &Ask) -> Result<Answer, Refusal> {
    let clock = Clock::new();
    let (response, at, advertised) = send(client, shared, url, ask).await?;
    let headers = response.headers();
    let length = response.content_length();
    // Some servers deliver a range with the status of a whole file.
    let is_range = |bytes: &Range<u64>| {
        response.status() == StatusCode::PARTIAL_CONTENT || length == Some(bytes.end - bytes.start)
    };
    let (at_byte, end, size, ranges) = match content_range(headers).filter(|(bytes, _)| is_range(bytes)) {
        _ if response.status() == StatusCode::RANGE_NOT_SATISFIABLE => match unsatisfied(headers) {
            Some(0) if ask.start() == 0 => (0, Some(0), Some(0), true),
            _ => return Err(Refusal::NoRanges("refuses a range that is in the file".into())),
        },
        Some((bytes, _)) if bytes.start + OVERLAP_MAX < ask.start() && bytes.end > ask.start() => {
            return Err(Refusal::NoRanges("answers ranges with more than these".into()));
        }
        Some((bytes, size)) if bytes.contains(&ask.start()) => (bytes.start, Some(bytes.end), size, *ask != Ask::Whole),
        Some((bytes, _)) => {
            let asked = ask.header().unwrap_or_else(|| "the file".into());
            let (first, last) = (bytes.start, bytes.end - 1);
            return Err(Refusal::Faulty(format!("answered bytes {first} to {last} for {asked}")));
        }
        None if response.status() == StatusCode::PARTIAL_CONTENT && (*ask != Ask::Whole || length == Some(0)) => {
            return Err(Refusal::NoRanges("answered a range without saying which".into()));
        }
        None => (0, length, length, false),
    };
    let is_encoded =
        text(headers, header::CONTENT_ENCODING).is_some_and(|coding| !coding.eq_ignore_ascii_case("identity"));
    let answered_by = format!("{}{}", at.authority(), at.path());
    let (validator, time) = (Validator::of(headers), clock.now().since(Time::ZERO));
    let head = Head { size, ranges, validator, is_encoded, answered_by, time, advertised };
    Ok(Answer { response, rest: Bytes::new(), head, at: at_byte, end })
}

/// Follows redirects to an answer that has a body.
async fn send(client: &Client, shared: &Shared, url: &Url, ask: &Ask) -> Result<(Response, Url, Advertised), Refusal> {
    let object = (url.scheme() == s3::SCHEME).then_some(url);
    let mut at =
        object.map_or_else(|| Ok(url.clone()), |object| shared.store.address(object)).map_err(Refusal::Refused)?;
    let mut seen = vec![at.clone()];
    let mut advertised = Advertised::default();
    let mut is_repeated = false;
    loop {
        shared.check(&at)?;
        // The proof is for the store alone: it is not sent to the target of a redirect.
        let is_store = object.is_some() && seen.len() == 1;
        let request = request_for(client, shared, (&at, is_store), ask);
        let Some(response) = head_of(request, &mut is_repeated).await? else { continue };
        let status = response.status();
        let is_new_cookie = shared.origin.is_trusted() && shared.learn_cookies(&at, response.headers());
        advertised.read(&at, response.headers());
        if let Some(next) = redirect(shared, &at, &response)? {
            // A server may send back to the same address with a cookie.
            if seen.contains(&next) && !is_new_cookie {
                return Err(Refusal::Refused(format!("redirects in a circle, back to '{}'", shown(&next))));
            }
            if seen.len() > REDIRECTS_MAX {
                return Err(Refusal::Refused(format!("redirects more than {REDIRECTS_MAX} times")));
            }
            seen.push(next.clone());
            at = next;
            continue;
        }
        let wait = || {
            let retry_after_text = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
            retry_after_text.and_then(retry_after).unwrap_or(WAIT_DEFAULT).min(WAIT_MAX)
        };
        return match status {
            StatusCode::OK
            | StatusCode::NON_AUTHORITATIVE_INFORMATION
            | StatusCode::PARTIAL_CONTENT
            | StatusCode::RANGE_NOT_SATISFIABLE => Ok((response, at, advertised)),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                Err(Refusal::Again { reason: format!("busy (status {status})"), wait: Some(wait()) })
            }
            status if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => {
                Err(Refusal::Failed(format!("status {status}")))
            }
            status if object.is_some() => {
                let region = response.headers().get("x-amz-bucket-region").and_then(|region| region.to_str().ok());
                let region = region.map(String::from);
                let code = error_code(response).await.unwrap_or_default();
                let hint = shared.store.hint(&code, region.as_deref());
                Err(Refusal::Refused(format!("the store answers status {status} {code}{hint}")))
            }
            status => Err(Refusal::Refused(format!("answers status {status}"))),
        };
    }
}

/// Sends a request; `None` if it is to be sent once more, because the server may have ended a connection that it promised
/// to keep.
pub(crate) async fn head_of(request: RequestBuilder, is_repeated: &mut bool) -> Result<Option<Response>, Refusal> {
    match timeout(HEAD_TIME_MAX, request.send()).await {
        Ok(Ok(response)) => Ok(Some(response)),
        Ok(Err(error)) if error.is_request() && !error.is_connect() && !error.is_timeout() && !*is_repeated => {
            *is_repeated = true;
            Ok(None)
        }
        Ok(Err(error)) => Err(failure(&error)),
        Err(_) => {
            let reason = format!("no complete answer within {} s", HEAD_TIME_MAX.as_secs());
            Err(Refusal::Again { reason, wait: None })
        }
    }
}
/// Where an answer of `at` redirects to, if it does.
pub(crate) fn redirect(shared: &Shared, at: &Url, response: &Response) -> Result<Option<Url>, Refusal> {
    let status = response.status();
    if !status.is_redirection() || status == StatusCode::NOT_MODIFIED {
        return Ok(None);
    }
    let to = response.headers().get(header::LOCATION).map(|to| String::from_utf8_lossy(to.as_bytes()));
    let next = to.and_then(|to| at.join(to.trim()).ok());
    let next = next.ok_or_else(|| Refusal::Faulty(format!("redirects (status {status}) without saying where")))?;
    if !matches!(next.scheme(), "http" | "https") {
        return Err(Refusal::Refused(format!("redirects to '{}', which is no web address", shown(&next))));
    }
    if at.scheme() == "https" && next.scheme() == "http" && shared.redirects == Redirects::Secure {
        let reason = format!("redirects from https to '{}', which is not encrypted", shown(&next));
        return Err(Refusal::Refused(reason));
    }
    Ok(Some(next))
}

/// The request for a range of a file or of an object of a store.
fn request_for(client: &Client, shared: &Shared, (at, is_store): (&Url, bool), ask: &Ask) -> RequestBuilder {
    let mut request = client.get(at.clone()).header(header::ACCEPT_ENCODING, "identity");
    let range = ask.header();
    if let Some(range) = &range {
        request = request.header(header::RANGE, range);
    }
    // Some servers compute digests on request only (RFC 6249 §5).
    request = request.header("want-digest", "sha-256");
    let seconds = wall_clock().as_secs();
    if is_store {
        let signed: Vec<(&str, &str)> = range.iter().map(|range| ("range", range.as_str())).collect();
        let headers = shared.store.sign(at, &signed, seconds).into_iter();
        return headers.fold(request, |request, (name, value)| request.header(name, value));
    }
    if let Some(cookies) = shared.cookies(at, seconds) {
        request = request.header(header::COOKIE, cookies);
    }
    // The password of one host is never sent to another.
    if at.username().is_empty()
        && let Some((name, password)) = at.host_str().and_then(|host| shared.netrc.find(host))
    {
        request = request.basic_auth(name, Some(password));
    }
    request
}

/// The code of an error that a store describes in XML.
async fn error_code(mut response: Response) -> Option<String> {
    let mut text = Vec::new();
    let read = async {
        while text.len() < ERROR_BYTES_MAX {
            let Ok(Some(more)) = response.chunk().await else { break };
            text.extend_from_slice(&more);
        }
    };
    // The part that has arrived by then is used.
    let _ = timeout(HEAD_TIME_MAX, read).await;
    let text = String::from_utf8_lossy(&text);
    let code = text.split_once("<Code>")?.1.split_once("</Code>")?.0;
    (code.len() <= 64 && code.chars().all(|c| c.is_ascii_alphanumeric())).then(|| code.into())
}
/// Bytes of an error's description that are read.
const ERROR_BYTES_MAX: usize = 4_096;

/// A failed request in words: the innermost cause is the most specific.
pub(crate) fn failure(error: &reqwest::Error) -> Refusal {
    let mut cause: &(dyn std::error::Error + 'static) = error;
    let mut certificate = None;
    loop {
        certificate = certificate.or_else(|| cause.downcast_ref::<rustls::Error>().cloned());
        // An error of input or output hides the one that it is made of from its sources.
        let inner = cause.downcast_ref::<std::io::Error>().and_then(|io| io.get_ref());
        match inner.map(|inner| inner as &(dyn std::error::Error + 'static)).or_else(|| cause.source()) {
            Some(inner) => cause = inner,
            None => break,
        }
    }
    match certificate {
        Some(rustls::Error::InvalidCertificate(why)) => {
            let is_unknown = why == rustls::CertificateError::UnknownIssuer;
            let hint = if is_unknown { "; --ca-certificate FILE trusts a private authority" } else { "" };
            Refusal::Refused(format!("its certificate is not valid: {why}{hint}"))
        }
        _ if error.is_timeout() => Refusal::Again { reason: format!("too slow: {cause}"), wait: None },
        _ if error.is_builder() || error.is_redirect() => Refusal::Refused(cause.to_string()),
        _ => Refusal::Again { reason: cause.to_string(), wait: None },
    }
}

/// A URL without its password.
pub fn shown(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_password(None);
    url.to_string()
}

fn difference(was: &Validator, now: &Validator) -> String {
    let say = |of: &Validator| of.etag.clone().or_else(|| of.modified.clone()).unwrap_or_else(|| "nothing".into());
    format!("it was {}, and is {} now", say(was), say(now))
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}
/// The field without its unit. Servers write `bytes 0-9/10` (RFC 9110 §14.4), and also `bytes=0-9/10`, `bytes: 0-9/10`,
/// `Bytes 0-9/10` and `0-9/10`.
fn of_bytes(headers: &HeaderMap) -> Option<&str> {
    let text = text(headers, header::CONTENT_RANGE)?;
    let unit = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (unit, rest) = text.split_at(unit);
    (unit.is_empty() || unit.eq_ignore_ascii_case("bytes")).then(|| rest.trim_start_matches([' ', '\t', '=', ':']))
}
/// `bytes 0-99/1234`: the range and the size, `None` for `*` or if it is left out.
fn content_range(headers: &HeaderMap) -> Option<(Range<u64>, Option<u64>)> {
    let text = of_bytes(headers)?;
    let (range, size) = text.split_once('/').unwrap_or((text, "*"));
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    let size = if size.trim() == "*" { None } else { Some(size.trim().parse().ok()?) };
    let end = last.checked_add(1)?;
    (first < end && size.is_none_or(|size| end <= size)).then_some((first..end, size))
}
/// `bytes */1234`.
fn unsatisfied(headers: &HeaderMap) -> Option<u64> {
    of_bytes(headers)?.strip_prefix("*/")?.trim().parse().ok()
}
/// Seconds or a date. RFC 9110 §10.2.3.
pub(crate) fn retry_after(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    Some(at.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(wall_clock()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        [(name, header::HeaderValue::from_str(value).expect("legal"))].into_iter().collect()
    }

    #[test]
    fn ranges_are_read_and_impossible_ones_refused() {
        let of = |text| content_range(&headers(header::CONTENT_RANGE, text));
        assert_eq!(of("bytes 0-99/1234"), Some((0..100, Some(1234))));
        for odd in ["bytes 5-5/*", "bytes=5-5/*", "Bytes: 5 - 5 / *", "5-5", "bytes  5-5/*"] {
            assert_eq!(of(odd), Some((5..6, None)), "{odd}");
        }
        let last = format!("bytes 0-{}/*", u64::MAX);
        for wrong in ["bytes 9-3/10", "bytes 0-99/50", "items 0-1/2", "bytes */5", "bytes -1-2/3", &last] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_eq!(unsatisfied(&headers(header::CONTENT_RANGE, "bytes */0")), Some(0));
    }

    #[test]
    fn a_server_says_how_long_to_wait_in_seconds_or_by_a_date() {
        assert_eq!(retry_after("7"), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(retry_after("soon"), None);
    }

    #[test]
    fn another_tag_or_date_is_another_file() {
        let of = |etag: Option<&str>, modified: Option<&str>| Validator {
            etag: etag.map(Into::into),
            modified: modified.map(Into::into),
        };
        let was = of(Some("\"a\""), Some("Sun"));
        assert!(was.agrees(&of(Some("\"a\""), Some("Mon"))) && !was.agrees(&of(Some("\"b\""), Some("Sun"))));
        assert!(
            was.agrees(&of(None, Some("Sun"))) && !was.agrees(&of(None, Some("Mon"))) && was.agrees(&of(None, None))
        );
    }
}

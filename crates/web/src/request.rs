//! One request: redirects, ranges, validators, and what a server's answer means.
use reqwest::{
    Client, RequestBuilder, Response, StatusCode, Url,
    header::{self, HeaderMap, HeaderValue},
};
use std::{
    ops::Range,
    time::{Duration, UNIX_EPOCH},
};
use tokio::time::timeout;
use tributary_core::Time;
use tributary_net::{Clock, wall_clock};

use crate::{
    client::{HEAD_TIME_MAX, Redirects, Shared},
    s3,
};

/// Redirects of one request at most.
pub const REDIRECTS_MAX: usize = 10;
/// The longest wait that a server may ask for.
pub const WAIT_MAX: Duration = Duration::from_secs(300);
/// The wait if a busy server does not name one.
const WAIT_DEFAULT: Duration = Duration::from_secs(2);

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
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let etag = text(header::ETAG).filter(|tag| !tag.starts_with("W/"));
        Validator { etag, modified: text(header::LAST_MODIFIED) }
    }
    /// For `If-Range`.
    fn condition(&self) -> Option<HeaderValue> {
        self.etag.as_deref().or(self.modified.as_deref()).and_then(|text| HeaderValue::from_str(text).ok())
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

/// What a server says of a file.
#[derive(Clone, Debug)]
pub struct Head {
    /// Bytes of the file; `None` if the server does not say.
    pub size: Option<u64>,
    /// Whether it delivers ranges.
    pub ranges: bool,
    /// Its validator.
    pub validator: Validator,
    /// The time from the request to the head of the answer.
    pub time: Duration,
}

/// Why a request brought nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It may work later.
    Again {
        /// What happened.
        reason: String,
        /// How long the server asks to wait.
        wait: Option<Duration>,
    },
    /// The server does not have it, or denies it.
    Refused(String),
    /// The answer contradicts the request or earlier answers.
    Faulty(String),
}

/// A mirror's address, and what is known of the file there.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) url: Url,
    pub(crate) validator: Validator,
    pub(crate) size: Option<u64>,
}

/// Asks for the first byte: this shows size, validator, and whether the server knows ranges.
pub(crate) async fn probe(client: &Client, shared: &Shared, url: &Url) -> Result<Head, Refusal> {
    let clock = Clock::new();
    let response = send(client, shared, url, Some(0..1), None).await?;
    let time = clock.now().since(Time::ZERO);
    let validator = Validator::of(response.headers());
    match response.status() {
        StatusCode::PARTIAL_CONTENT => {
            let (_, size) = content_range(response.headers())
                .ok_or_else(|| Refusal::Faulty("answers a range without saying which".into()))?;
            Ok(Head { size, ranges: true, validator, time })
        }
        StatusCode::RANGE_NOT_SATISFIABLE => {
            let size = unsatisfied(response.headers());
            match size {
                Some(0) => Ok(Head { size, ranges: true, validator, time }),
                _ => Err(Refusal::Refused("refuses the first byte of the file".into())),
            }
        }
        _ => Ok(Head { size: response.content_length(), ranges: false, validator, time }),
    }
}

/// Requests bytes of a file. With `None` all of it.
pub(crate) async fn open(
    client: &Client,
    shared: &Shared,
    place: &Place,
    range: Option<Range<u64>>,
) -> Result<Response, Refusal> {
    let condition = range.as_ref().and_then(|_| place.validator.condition());
    let response = send(client, shared, &place.url, range.clone(), condition).await?;
    let now = Validator::of(response.headers());
    let changed =
        || Refusal::Refused(format!("the file has changed on the server: {}", difference(&place.validator, &now)));
    if !place.validator.agrees(&now) {
        return Err(changed());
    }
    match (response.status(), range) {
        (StatusCode::PARTIAL_CONTENT, Some(range)) => {
            let got = content_range(response.headers());
            match got {
                Some((bytes, total)) if bytes == range && (total.is_none() || total == place.size) => Ok(response),
                Some((bytes, total)) if bytes == range => Err(Refusal::Refused(format!(
                    "the file has changed on the server: it had {} bytes and has {} now",
                    place.size.unwrap_or_default(),
                    total.unwrap_or_default()
                ))),
                Some((bytes, _)) => Err(Refusal::Faulty(format!(
                    "answered bytes {} to {} for {} to {}",
                    bytes.start,
                    bytes.end.saturating_sub(1),
                    range.start,
                    range.end - 1
                ))),
                None => Err(Refusal::Faulty("answered a range without saying which".into())),
            }
        }
        (StatusCode::OK, Some(_)) => match place.validator.condition() {
            Some(_) => Err(changed()),
            None => Err(Refusal::Refused("does not answer ranges any more".into())),
        },
        (StatusCode::OK, None) => match (response.content_length(), place.size) {
            (Some(now), Some(was)) if now != was => Err(changed()),
            _ => Ok(response),
        },
        (StatusCode::RANGE_NOT_SATISFIABLE, _) => Err(changed()),
        (status, _) => Err(Refusal::Faulty(format!("answered with status {status}"))),
    }
}

/// Follows redirects to an answer that has a body.
async fn send(
    client: &Client,
    shared: &Shared,
    url: &Url,
    range: Option<Range<u64>>,
    condition: Option<HeaderValue>,
) -> Result<Response, Refusal> {
    let object = (url.scheme() == s3::SCHEME).then_some(url);
    let mut at =
        object.map_or_else(|| Ok(url.clone()), |object| shared.store.address(object)).map_err(Refusal::Refused)?;
    let mut seen = vec![at.clone()];
    loop {
        shared.origin.check(&at).map_err(|why| Refusal::Refused(format!("'{}' is not asked: {why}", shown(&at))))?;
        // The proof is for the store alone: whoever it redirects to gets none.
        let is_store = object.is_some() && seen.len() == 1;
        let request = request_for(client, shared, (&at, is_store), range.as_ref(), condition.as_ref());
        let response = match timeout(HEAD_TIME_MAX, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(failure(&error)),
            Err(_) => {
                let reason = format!("no complete answer within {} s", HEAD_TIME_MAX.as_secs());
                return Err(Refusal::Again { reason, wait: None });
            }
        };
        let status = response.status();
        if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
            let to = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
            let next = to.and_then(|to| at.join(to).ok());
            let next =
                next.ok_or_else(|| Refusal::Faulty(format!("redirects (status {status}) without saying where")))?;
            if !matches!(next.scheme(), "http" | "https") {
                return Err(Refusal::Refused(format!("redirects to '{}', which is no web address", shown(&next))));
            }
            if at.scheme() == "https" && next.scheme() == "http" && shared.redirects == Redirects::Secure {
                let reason = format!("redirects from https to '{}', which is not encrypted", shown(&next));
                return Err(Refusal::Refused(reason));
            }
            if seen.contains(&next) {
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
            StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                let encoding = response.headers().get(header::CONTENT_ENCODING);
                match encoding.filter(|encoding| *encoding != "identity") {
                    Some(encoding) => Err(Refusal::Refused(format!("sends only encoded bytes ({encoding:?})"))),
                    None => Ok(response),
                }
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                Err(Refusal::Again { reason: format!("busy (status {status})"), wait: Some(wait()) })
            }
            status if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => {
                Err(Refusal::Again { reason: format!("status {status}"), wait: None })
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

/// The request for a range of a file or of an object of a store.
fn request_for(
    client: &Client,
    shared: &Shared,
    (at, is_store): (&Url, bool),
    range: Option<&Range<u64>>,
    condition: Option<&HeaderValue>,
) -> RequestBuilder {
    let mut request = client.get(at.clone()).header(header::ACCEPT_ENCODING, "identity");
    let range = range.map(|range| format!("bytes={}-{}", range.start, range.end - 1));
    if let Some(range) = &range {
        request = request.header(header::RANGE, range);
    }
    if let Some(condition) = condition {
        request = request.header(header::IF_RANGE, condition.clone());
    }
    let seconds = wall_clock().as_secs();
    if is_store {
        let signed: Vec<(&str, &str)> = range.iter().map(|range| ("range", range.as_str())).collect();
        let headers = shared.store.sign(at, &signed, seconds).into_iter();
        return headers.fold(request, |request, (name, value)| request.header(name, value));
    }
    if let Some(cookies) = shared.cookies.header(at, seconds) {
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
    // What has come by then is looked at.
    let _ = timeout(HEAD_TIME_MAX, read).await;
    let text = String::from_utf8_lossy(&text);
    let code = text.split_once("<Code>")?.1.split_once("</Code>")?.0;
    (code.len() <= 64 && code.chars().all(|c| c.is_ascii_alphanumeric())).then(|| code.into())
}
/// Bytes of the description of an error that are looked at.
const ERROR_BYTES_MAX: usize = 4_096;

/// A failed request in words: the innermost cause says most.
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
        Some(rustls::Error::InvalidCertificate(why)) => Refusal::Refused(format!(
            "its certificate is not valid: {why}; --ca-certificate FILE trusts a private authority"
        )),
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

/// `bytes 0-99/1234`: the range and the size, `None` for `*`. RFC 9110 §14.4.
fn content_range(headers: &HeaderMap) -> Option<(Range<u64>, Option<u64>)> {
    let text = headers.get(header::CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes ")?;
    let (range, size) = text.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    let size = if size.trim() == "*" { None } else { Some(size.trim().parse().ok()?) };
    let end = last.checked_add(1)?;
    (first < end && size.is_none_or(|size| end <= size)).then_some((first..end, size))
}
/// `bytes */1234`.
fn unsatisfied(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes */")?.trim().parse().ok()
}
/// Seconds or a date. RFC 9110 §10.2.3.
fn retry_after(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    Some(at.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(wall_clock()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        [(name, HeaderValue::from_str(value).expect("legal"))].into_iter().collect()
    }

    #[test]
    fn ranges_are_read_and_impossible_ones_refused() {
        let of = |text| content_range(&headers(header::CONTENT_RANGE, text));
        assert_eq!(of("bytes 0-99/1234"), Some((0..100, Some(1234))));
        assert_eq!(of("bytes 5-5/*"), Some((5..6, None)));
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

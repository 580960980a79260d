//! Which header fields a proxy forwards, and which it adds (RFC 9110 §7.6, RFC 9112 §6).
use bytes::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::exchange::Field;

/// Fields of one connection (RFC 9110 §7.6.1), and those that are for this proxy alone (§11.7.2).
const OF_CONNECTION: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];
/// Fields that control how a message is read or routed, and so cannot come after it (RFC 9110 §6.5.1).
const NEVER_TRAILING: [HeaderName; 6] = [
    header::CONTENT_LENGTH,
    header::HOST,
    header::TRAILER,
    header::CONTENT_ENCODING,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
];

/// Whether a list of tokens contains one, in any case.
pub(crate) fn lists(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    tokens(headers, name).any(|known| known.eq_ignore_ascii_case(token))
}
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',').map(str::trim))
}
/// Whether a message wishes to change the protocol of its connection (RFC 9110 §7.8).
pub(crate) fn upgrades(headers: &HeaderMap) -> bool {
    headers.contains_key(header::UPGRADE) && lists(headers, &header::CONNECTION, "upgrade")
}

/// The forwarded fields: without the connection's own and those that `Connection` names, and without a length that
/// chunked coding overrides (RFC 9112 §6.3). `Upgrade` and `TE: trailers` are kept where they apply: [`into_headers`]
/// names them in the `Connection` of the next hop.
pub(crate) fn forwarded(headers: &HeaderMap) -> Vec<Field> {
    let named: Vec<&str> = tokens(headers, &header::CONNECTION).collect();
    let is_chunked = headers.contains_key(header::TRANSFER_ENCODING);
    let mut has_length = false;
    let mut passes = |name: &HeaderName| {
        let is_length = name == header::CONTENT_LENGTH;
        // Equal lengths are one; different ones are refused where the message is read.
        let is_repeated = is_length && std::mem::replace(&mut has_length, true);
        !OF_CONNECTION.contains(name)
            && !named.iter().any(|known| known.eq_ignore_ascii_case(name.as_str()))
            && (!is_length || !is_chunked)
            && (name != header::TRAILER || is_chunked)
            && !is_repeated
    };
    let passing = headers.iter().filter(|(name, _)| passes(name));
    let mut fields: Vec<Field> = passing.map(|(name, value)| (name.to_string(), bytes_of(value))).collect();
    for (name, value) in &mut fields {
        if name == header::CONTENT_LENGTH.as_str() {
            *value = Bytes::copy_from_slice(value.split(|byte| *byte == b',').next().unwrap_or_default().trim_ascii());
        }
    }
    if upgrades(headers) {
        let wishes = headers.get_all(header::UPGRADE).iter();
        fields.extend(wishes.map(|value| (header::UPGRADE.to_string(), bytes_of(value))));
    }
    if lists(headers, &header::TE, "trailers") {
        fields.push((header::TE.to_string(), Bytes::from_static(b"trailers")));
    }
    fields
}
fn bytes_of(value: &HeaderValue) -> Bytes {
    Bytes::copy_from_slice(value.as_bytes())
}
/// The forwarded trailer fields.
pub(crate) fn trailers(headers: &HeaderMap) -> Vec<Field> {
    let passes = |name: &HeaderName| !OF_CONNECTION.contains(name) && !NEVER_TRAILING.contains(name);
    let passing = headers.iter().filter(|(name, _)| passes(name));
    passing.map(|(name, value)| (name.to_string(), bytes_of(value))).collect()
}

/// Fields for the next connection; `None` if one of them is not legal.
pub(crate) fn into_headers(fields: &[Field]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(fields.len() + 1);
    let mut of_connection = Vec::new();
    for (name, value) in fields {
        let name: HeaderName = name.parse().ok()?;
        if name == header::UPGRADE || name == header::TE {
            of_connection.push(name.to_string());
        } else if OF_CONNECTION.contains(&name) {
            // The other proxy should have left it out.
            continue;
        }
        headers.append(name, HeaderValue::from_maybe_shared(value.clone()).ok()?);
    }
    if !of_connection.is_empty() {
        of_connection.dedup();
        headers.insert(header::CONNECTION, of_connection.join(", ").parse().ok()?);
    }
    Some(headers)
}

/// The value of a field, if there is exactly one of its name.
pub(crate) fn value<'a>(fields: &'a [Field], name: &HeaderName) -> Option<&'a [u8]> {
    let mut values = fields.iter().filter(|(known, _)| known == name.as_str());
    let (first, second) = (values.next(), values.next());
    first.filter(|_| second.is_none()).map(|(_, value)| &value[..])
}
/// Whether a message without content claims to have some. Its reader would take the next message for that content.
pub(crate) fn claims_content(fields: &[Field]) -> bool {
    let mut lengths = fields.iter().filter(|(name, _)| name == header::CONTENT_LENGTH.as_str());
    lengths.any(|(_, length)| &length[..] != b"0")
}
/// Gives a field one value.
pub(crate) fn set(fields: &mut Vec<Field>, name: &HeaderName, value: impl Into<Bytes>) {
    fields.retain(|(known, _)| known != name.as_str());
    fields.push((name.to_string(), value.into()));
}
/// Records that a message has passed this proxy (RFC 9110 §7.6.3).
pub(crate) fn add_via(fields: &mut Vec<Field>, pseudonym: &str) {
    fields.push((header::VIA.to_string(), Bytes::from(format!("1.1 {pseudonym}"))));
}
/// Whether a message has passed this proxy before: then it loops.
pub(crate) fn has_passed(fields: &[Field], pseudonym: &str) -> bool {
    let vias = fields.iter().filter(|(name, _)| name == header::VIA.as_str());
    let mut hops = vias.filter_map(|(_, value)| std::str::from_utf8(value).ok()).flat_map(|value| value.split(','));
    hops.any(|hop| hop.split_whitespace().nth(1) == Some(pseudonym))
}
/// The name of a device's proxy in `Via`: no address, but unique.
pub(crate) fn pseudonym(device: &str) -> String {
    format!("trib-{}", device.get(..12).unwrap_or(device))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name.parse::<HeaderName>().expect("a name"), value.parse().expect("a value"));
        }
        headers
    }
    fn names(fields: &[Field]) -> Vec<&str> {
        fields.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn fields_of_the_connection_stay_behind() {
        let headers = headers(&[
            ("connection", "close, x-of-this-hop"),
            ("connection", "X-Of-That-Hop"),
            ("x-of-this-hop", "1"),
            ("x-of-that-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic eDp5"),
            ("upgrade", "h2c"),
            ("te", "gzip"),
            ("range", "bytes=0-1"),
            ("set-cookie", "a"),
            ("set-cookie", "b"),
        ]);
        assert_eq!(names(&forwarded(&headers)), ["range", "set-cookie", "set-cookie"]);
    }

    #[test]
    fn chunks_overrule_a_length_and_equal_lengths_are_one() {
        let both = headers(&[("content-length", "50"), ("transfer-encoding", "chunked"), ("trailer", "x")]);
        assert_eq!(names(&forwarded(&both)), ["trailer"]);
        let twice = headers(&[("content-length", "5, 5"), ("content-length", "5"), ("trailer", "x")]);
        assert_eq!(forwarded(&twice), [("content-length".to_string(), Bytes::from_static(b"5"))]);
    }

    #[test]
    fn upgrades_and_trailers_are_asked_for_on_the_next_connection_too() {
        let wishes = headers(&[("connection", "Upgrade, TE"), ("upgrade", "websocket"), ("te", "trailers, gzip")]);
        let fields = forwarded(&wishes);
        assert_eq!(names(&fields), ["upgrade", "te"]);
        let next = into_headers(&fields).expect("legal fields");
        assert_eq!(next[header::CONNECTION], "upgrade, te");
        assert_eq!(
            (&next[header::TE], &next[header::UPGRADE]),
            (&"trailers".parse().expect("value"), &wishes["upgrade"])
        );
    }

    #[test]
    fn fields_that_the_other_proxy_must_not_send_do_not_go_on() {
        let of = |name: &str, value: &'static [u8]| into_headers(&[(name.into(), Bytes::from_static(value))]);
        assert_eq!(of("transfer-encoding", b"chunked").map(|headers| headers.len()), Some(0));
        assert_eq!(of("x", b"a\r\nset-cookie: b"), None, "it would split the response");
        assert_eq!(of("x y", b"a"), None);
    }

    #[test]
    fn a_message_that_comes_by_again_is_known() {
        let mut fields = vec![("via".to_string(), Bytes::from_static(b"1.0 fred, HTTP/1.1 trib-0123 (x)"))];
        assert!(has_passed(&fields, "trib-0123") && !has_passed(&fields, "trib-012"));
        add_via(&mut fields, "trib-9");
        assert!(has_passed(&fields, "trib-9"));
    }
}

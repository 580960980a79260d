//! Requests that a proxy answers itself, as the last one that they may reach (RFC 9110 §7.6.2).
use bytes::Bytes;
use hyper::header;

use crate::{
    exchange::{RequestHead, ResponseHead},
    fields::{set, value},
};

/// Secret fields: the answer to `TRACE` leaves them out, because others may read it (RFC 9110 §9.3.8).
const SECRET: [header::HeaderName; 3] = [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION];

/// The next step of a request.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Forwards {
    /// On.
    On,
    /// Not on: this is the answer.
    Here(ResponseHead, Bytes),
}

/// Counts a hop of `TRACE` and `OPTIONS`, the methods that may limit their hops.
///
/// # Errors
/// If the count is no number.
pub(crate) fn count_hop(head: &mut RequestHead) -> Result<Forwards, &'static str> {
    if !matches!(head.method.as_str(), "TRACE" | "OPTIONS")
        || !head.fields.iter().any(|(name, _)| name == header::MAX_FORWARDS.as_str())
    {
        return Ok(Forwards::On);
    }
    let left = value(&head.fields, &header::MAX_FORWARDS).and_then(|value| std::str::from_utf8(value).ok());
    let left: u64 = left.and_then(|left| left.parse().ok()).ok_or("'Max-Forwards' is no number")?;
    if let Some(less) = left.checked_sub(1) {
        set(&mut head.fields, &header::MAX_FORWARDS, less.to_string());
        return Ok(Forwards::On);
    }
    let (field, content) = match head.method.as_str() {
        "TRACE" => {
            let mut trace = format!("TRACE {} HTTP/1.1\r\n", head.target).into_bytes();
            for (name, value) in
                head.fields.iter().filter(|(name, _)| !SECRET.iter().any(|secret| secret.as_str() == name))
            {
                trace.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
            }
            trace.extend(b"\r\n");
            ((header::CONTENT_TYPE.to_string(), Bytes::from_static(b"message/http")), Bytes::from(trace))
        }
        _ => {
            let all = Bytes::from_static(b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE, CONNECT");
            ((header::ALLOW.to_string(), all), Bytes::new())
        }
    };
    let length = (header::CONTENT_LENGTH.to_string(), Bytes::from(content.len().to_string()));
    Ok(Forwards::Here(ResponseHead { status: 200, reason: None, fields: vec![field, length] }, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, left: &'static str) -> RequestHead {
        let field = |name: &str, value: &'static str| (name.to_string(), Bytes::from_static(value.as_bytes()));
        let fields = vec![field("max-forwards", left), field("cookie", "secret"), field("x-seen", "1")];
        RequestHead { method: method.into(), target: "/a".into(), fields }
    }

    #[test]
    fn a_trace_without_forwards_left_is_answered_without_secrets() {
        let answer = count_hop(&mut request("TRACE", "0"));
        let Ok(Forwards::Here(head, content)) = answer else { panic!("{answer:?}") };
        assert_eq!(head.status, 200);
        assert_eq!(&content[..], b"TRACE /a HTTP/1.1\r\nmax-forwards: 0\r\nx-seen: 1\r\n\r\n");
    }

    #[test]
    fn other_requests_go_on_and_forwards_are_counted_where_they_mean_something() {
        let mut options = request("OPTIONS", "7");
        assert_eq!(count_hop(&mut options), Ok(Forwards::On));
        assert_eq!(value(&options.fields, &header::MAX_FORWARDS), Some(&b"6"[..]));
        let mut get = request("GET", "0");
        assert_eq!(count_hop(&mut get), Ok(Forwards::On));
        assert_eq!(value(&get.fields, &header::MAX_FORWARDS), Some(&b"0"[..]), "it is for others");
        assert!(count_hop(&mut request("TRACE", "-1")).is_err());
    }
}

//! What goes through the network: a request with its body, a response in segments, and what a tunnel carries.
//!
//! ```text
//! length of the head 4 | head, JSON | body, or a part of it
//! ```
//! At most [`WINDOW_SEGMENTS`] segments are on their way to a browser that does not take them: its side tells the web
//! server's side what the browser has taken, and when it has gone. A tunnel (`CONNECT`, RFC 9110 §9.3.6) is a response that
//! goes on until the connection ends, and segments of the same form the other way.
use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tributary_content::Name;

/// Bytes of a head at most.
pub const HEAD_BYTES_MAX: usize = 256 << 10;
/// Bytes of a response's body in one segment at most.
pub const SEGMENT_BYTES: usize = 1 << 20;
/// Segments of a response that may be sent beyond those that the browser has taken.
pub const WINDOW_SEGMENTS: u32 = 32;
/// Bytes of a request's body at most.
pub const REQUEST_BYTES_MAX: usize = 32 << 20;

/// The head of a request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RequestHead {
    /// Chosen by the browser's side; answers carry it.
    pub id: u64,
    /// The GUID that answers go to.
    pub reply_to: String,
    /// The method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Headers that concern more than the browser's connection.
    pub headers: Vec<(String, Vec<u8>)>,
}

/// The head of a segment of a response, or of what a browser sends through a tunnel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SegmentHead {
    /// As in the request.
    pub id: u64,
    /// Counts from 0.
    pub number: u32,
    /// Whether it ends the response.
    pub is_last: bool,
    /// The GUID that credits go to; in segment 0 of a response that needs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// Status and headers; in segment 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponseHead>,
    /// Why the response cannot go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// The head of a response.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResponseHead {
    /// The status code.
    pub status: u16,
    /// Headers that concern more than the server's connection.
    pub headers: Vec<(String, Vec<u8>)>,
}

/// What one side has taken of what the other one sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CreditHead {
    /// As in the request.
    pub id: u64,
    /// Segments that it has taken.
    pub taken: u32,
    /// Whether it wants no more.
    pub gone: bool,
}

/// Puts head and body together.
///
/// # Panics
/// Never: heads are made of strings and numbers.
pub fn pack(head: &impl Serialize, body: &[u8]) -> Vec<u8> {
    let head = serde_json::to_vec(head).expect("strings and numbers can always be written");
    let mut bytes = Vec::with_capacity(4 + head.len() + body.len());
    bytes.extend_from_slice(&u32::try_from(head.len()).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend_from_slice(&head);
    bytes.extend_from_slice(body);
    bytes
}
/// Takes them apart; `None` if the bytes are no such thing.
pub fn unpack<H: DeserializeOwned>(bytes: &Bytes) -> Option<(H, Bytes)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = u32::from_be_bytes(*length) as usize;
    if length > HEAD_BYTES_MAX {
        return None;
    }
    let (head, _) = rest.split_at_checked(length)?;
    Some((serde_json::from_slice(head).ok()?, bytes.slice(4 + length..)))
}

/// The name that the web server of a host is attached to: `/http/HOST`, the port left out if it is the usual one.
///
/// `None` if the host cannot be a part of a name.
pub fn name_of_host(authority: &str, usual_port: u16) -> Option<Name> {
    let host = authority.strip_suffix(&format!(":{usual_port}")).unwrap_or(authority).to_ascii_lowercase();
    let root: Name = "/http".parse().ok()?;
    (!host.is_empty()).then(|| root.child(host.as_bytes()).ok()).flatten()
}
/// What a request or a segment is called.
pub(crate) fn name_of_message(kind: &str, from: &str, id: u64, number: u32) -> Option<Name> {
    format!("/http/{kind}/{from}/{id:016x}/{number}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_bodies_are_put_together_and_taken_apart() {
        let head = SegmentHead { id: 7, number: 1, is_last: true, reply_to: None, response: None, failure: None };
        let packed = Bytes::from(pack(&head, b"body"));
        assert_eq!(unpack::<SegmentHead>(&packed), Some((head, Bytes::from_static(b"body"))));
        for cut in 0..packed.len() - 4 {
            assert_eq!(unpack::<SegmentHead>(&packed.slice(..cut)), None, "cut at {cut}");
        }
        assert_eq!(unpack::<SegmentHead>(&Bytes::from_static(&[0xff; 64])), None);
    }

    #[test]
    fn a_host_has_one_name_whatever_its_case_and_usual_port() {
        let name = |host| name_of_host(host, 80).map(|name| name.to_string());
        assert_eq!(name("Example.org:80"), Some("/http/example.org".into()));
        assert_eq!(name("example.org:8080"), Some("/http/example.org%3A8080".into()));
        assert_eq!(name(""), None);
        assert_eq!(name_of_host("example.org:443", 443), name_of_host("example.org", 80));
    }
}

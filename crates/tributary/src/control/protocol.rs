//! The lines of the control socket.
//!
//! ```text
//! client                                       daemon
//!   {"v":1,"request":{"op":"get",…}}        ──►
//!                                           ◄── {"v":1,"tell":{"event":"started",…}}      any number
//!                                           ◄── {"v":1,"end":"done"}                       or
//!                                           ◄── {"v":1,"end":"error","error":{…}}
//! ```
//! Requests follow one another on a connection; each is one line of limited length. A connection that sends
//! `{"v":1,"attach":TOKEN}` instead becomes a stream: after the daemon's `{"v":1,"end":"done"}` it carries only the
//! bytes of the fetch whose request line has the same `"stream":TOKEN`, until its end.
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read};

use crate::{
    error::{ApiError, ErrorKind},
    notice::Notice,
    request::Request,
};

/// The version of the lines. A daemon refuses other versions and names its own.
pub const VERSION: u32 = 1;

/// A line from a client.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    /// [`VERSION`].
    pub(crate) v: u32,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<Request>,
    /// The attached connection where the bytes go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stream: Option<String>,
    /// Makes this connection a stream of that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) attach: Option<String>,
}

/// A line from a daemon.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Reply {
    /// [`VERSION`].
    pub(crate) v: u32,
    /// A notice.
    #[serde(default, rename = "tell", skip_serializing_if = "Option::is_none")]
    pub(crate) notice: Option<Notice>,
    /// The operation is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<End>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<ApiError>,
}

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum End {
    Done,
    Error,
}

impl Call {
    pub(crate) fn request(request: Request, stream: Option<String>) -> Self {
        Call { v: VERSION, request: Some(request), stream, attach: None }
    }
    pub(crate) fn attach(token: String) -> Self {
        Call { v: VERSION, request: None, stream: None, attach: Some(token) }
    }
    /// Reads a line. The version is checked first, so that a newer client gets an error about it and not about a field.
    pub(crate) fn parse(line: &[u8]) -> Result<Call, ApiError> {
        #[derive(Deserialize)]
        struct Versioned {
            v: u32,
        }
        let malformed = |error: serde_json::Error| {
            let hint = "each line is an object such as {\"v\":1,\"request\":{\"op\":\"status\"}}";
            ApiError::new(ErrorKind::Protocol, format!("this line is no request: {error}")).with_hint(hint)
        };
        let Versioned { v } = serde_json::from_slice(line).map_err(malformed)?;
        if v != VERSION {
            let message = format!("the client speaks version {v} of the control protocol, this daemon {VERSION}");
            return Err(ApiError::new(ErrorKind::Protocol, message).with_hint("use `trib` of one release for both"));
        }
        serde_json::from_slice(line).map_err(malformed)
    }
}

impl Reply {
    pub(crate) fn notice(notice: Notice) -> Self {
        Reply { v: VERSION, notice: Some(notice), end: None, error: None }
    }
    pub(crate) fn end(result: Result<(), ApiError>) -> Self {
        let error = result.err();
        let end = if error.is_some() { End::Error } else { End::Done };
        Reply { v: VERSION, notice: None, end: Some(end), error }
    }
}

/// A message as one line.
pub(crate) fn to_line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("strings and numbers can always be written");
    line.push(b'\n');
    line
}

/// Reads one line of at most `bytes_max` bytes into `line`, without its line feed; returns false at the end.
///
/// # Errors
/// `InvalidData` for a longer line, whose rest is not read; and the socket's errors.
pub(crate) fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>, bytes_max: usize) -> io::Result<bool> {
    line.clear();
    let count = reader.by_ref().take(bytes_max as u64 + 1).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if count > bytes_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a line has at most {bytes_max} bytes")));
    }
    Ok(count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Get, Output};

    #[test]
    fn a_line_at_the_limit_is_read_and_one_byte_more_is_refused() {
        let mut line = Vec::new();
        let mut input: &[u8] = b"12345\n678";
        assert!(read_line(&mut input, &mut line, 5).unwrap());
        assert_eq!(line, b"12345");
        assert!(read_line(&mut input, &mut line, 5).unwrap());
        assert_eq!(line, b"678");
        assert!(!read_line(&mut input, &mut line, 5).unwrap());
        let mut input: &[u8] = b"123456\n";
        assert_eq!(read_line(&mut input, &mut line, 5).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn calls_and_replies_survive_the_wire() {
        use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
        // A file may have any name, UTF-8 or not.
        let put = |path: &[u8]| Request::Put {
            path: OsStr::from_bytes(path).into(),
            name: "/a".into(),
            version: None,
            patience_ms: 1,
            term: crate::Term::ThisRun,
            readers: Vec::new(),
            mirrors: Vec::new(),
        };
        let get = Request::Get(Get {
            options: crate::GetOptions { in_network: Some(crate::request::InNetwork::Delegate), ..Default::default() },
            overwrite: crate::Overwrite::Anything,
            ..Get::new("/a", Output::Path(OsStr::from_bytes(b"/na\xffme").into()))
        });
        let explain = Request::Explain { id: "path-1".into() };
        for request in [Request::Status, explain, put(b"/na\xffme"), put(b"/name"), get] {
            let call = Call::request(request, None);
            assert_eq!(Call::parse(&to_line(&call)), Ok(call));
        }
        let reply = Reply::end(Err(ApiError::new(ErrorKind::NotFound, "no").with_hint("try")));
        assert_eq!(serde_json::from_slice::<Reply>(&to_line(&reply)).unwrap(), reply);
        let line = String::from_utf8(to_line(&Reply::end(Ok(())))).unwrap();
        assert_eq!(line, "{\"v\":1,\"end\":\"done\"}\n");
        let line = String::from_utf8(to_line(&Reply::notice(Notice::Note { text: "so".into() }))).unwrap();
        assert_eq!(line, "{\"v\":1,\"tell\":{\"event\":\"note\",\"text\":\"so\"}}\n");
    }

    #[test]
    fn another_version_is_named_before_anything_else_is_looked_at() {
        let error = Call::parse(b"{\"v\":2,\"news\":[]}").unwrap_err();
        assert!(error.message.contains("version 2") && error.message.contains("daemon 1"), "{error}");
        for line in [&b""[..], b"{", b"[]", b"{\"v\":1,\"x\":1}", b"{\"v\":1,\"request\":{\"op\":\"dance\"}}", b"\xff"]
        {
            assert_eq!(Call::parse(line).unwrap_err().kind, ErrorKind::Protocol);
        }
    }
}

//! Daemons with an API, and a client of HTTP as plain as can be, for attacks too.
use std::{
    io::{BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::OnceLock,
    time::Duration,
};

use serde_json::Value;

use tributary_testkit::schema;

use super::{Daemon, config, server};

/// A publisher, and a second daemon whose API is used.
pub(crate) struct Site {
    pub(crate) folder: tempfile::TempDir,
    _server: Daemon,
    pub(crate) receiver: Daemon,
    pub(crate) address: SocketAddr,
    description: OnceLock<Value>,
}

/// The result of a request.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}
impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
    /// The value of a field of the head.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

impl Site {
    pub(crate) fn new(family: &str, http: &str) -> Site {
        Site::with(family, &format!("listen = \"127.0.0.1:0\"\n{http}"), "")
    }
    pub(crate) fn with(family: &str, http: &str, more: &str) -> Site {
        let folder = tempfile::tempdir().unwrap();
        let (server, face) = server(folder.path(), family);
        let config =
            config(folder.path(), "receiver", r#""receiver", "sender""#, 0, &format!("{face}{more}[http]\n{http}"));
        let (receiver, ready) = Daemon::start_ready(folder.path(), &config);
        let address = ready["http"].as_str().unwrap().parse().unwrap();
        Site { folder, _server: server, receiver, address, description: OnceLock::new() }
    }
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
    pub(crate) fn raw(&self, request: &[u8]) -> Answer {
        raw(self.address, request)
    }
    /// A request with these fields, and with a body of JSON if there is one.
    pub(crate) fn ask_with(&self, method: &str, path: &str, fields: &str, body: &str) -> Answer {
        ask(self.address, method, path, fields, body)
    }
    /// A request of the API, whose answer must match its description.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.ask_with(method, &format!("/api/v1{path}"), "", &body);
        let description = self.description.get_or_init(|| self.ask_with("GET", "/api/v1/openapi.json", "", "").json());
        if method != "HEAD" {
            check(description, method, path, &answer);
        }
        answer
    }
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &Value::Null)
    }
    /// A stream of events, from now on.
    pub(crate) fn events(&self, fields: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let host = self.address;
        write!(stream, "GET /api/v1/events HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n").unwrap();
        BufReader::new(stream)
    }
}

/// Panics if an answer does not match the description of the API.
fn check(description: &Value, method: &str, path: &str, answer: &Answer) {
    let path = format!("/api/v1{}", path.split('?').next().unwrap());
    let is_it = |template: &str| {
        let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
        template.len() == path.len()
            && template.iter().zip(&path).all(|(part, text)| part.starts_with('{') || part == text)
    };
    let operations = description["paths"].as_object().unwrap().iter().filter(|(template, _)| is_it(template));
    let operation = operations.filter_map(|(_, methods)| methods.get(method.to_lowercase())).next();
    let error = &description["components"]["responses"]["error"];
    let response = match operation {
        Some(operation) if answer.status == 200 => &operation["responses"]["200"],
        _ => error,
    };
    let kind = answer.field("content-type").unwrap_or_default();
    let schema = &response["content"][kind]["schema"];
    assert!(schema.is_object(), "{method} {path}: {} {kind} is not described", answer.status);
    let objects = match kind {
        "application/x-ndjson" => super::lines(&answer.body),
        "text/event-stream" => Vec::new(),
        _ => vec![answer.json()],
    };
    for object in objects {
        if let Err(reason) = schema::valid(&object, schema, "answer", description) {
            panic!("{method} {path}: the description does not allow this: {reason}\n{object}");
        }
    }
}

/// Sends bytes, and returns the answer.
pub(crate) fn raw(address: SocketAddr, request: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // A server that refuses early may close before it has read everything.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no head in {:?}", String::from_utf8_lossy(&answer)));
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    let mut body = answer[end + 4..].to_vec();
    if head.contains("transfer-encoding: chunked") {
        body = unchunked(&body);
    }
    Answer { status: head.split(' ').nth(1).unwrap().parse().unwrap(), head, body }
}
pub(crate) fn ask(address: SocketAddr, method: &str, path: &str, fields: &str, body: &str) -> Answer {
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{kind}{fields}Content-Length: \
         {length}\r\n\r\n{body}"
    );
    raw(address, request.as_bytes())
}
fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") {
        let len = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap().trim(), 16).unwrap();
        if len == 0 {
            break;
        }
        body.extend_from_slice(&bytes[end + 2..end + 2 + len]);
        bytes = &bytes[end + 2 + len + 2..];
    }
    body
}

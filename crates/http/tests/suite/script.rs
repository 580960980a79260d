//! A web server that answers each path by a script, byte for byte, and records the requests.
use super::*;
use std::{collections::BTreeMap, sync::Mutex};

/// A request as the server has seen it: its first line, and fields and trailers with names in lower case.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) fields: Vec<String>,
}
impl Seen {
    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        values(&self.fields, name)
    }
}
/// The values of all fields of a name.
pub(crate) fn values<'a>(fields: &'a [String], name: &str) -> Vec<&'a str> {
    let prefix = format!("{name}: ");
    fields.iter().filter_map(|field| field.strip_prefix(&prefix)).collect()
}

/// The answer to a request for a path: the pieces that the server writes, and its next action.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) pieces: Vec<Vec<u8>>,
    pub(crate) then: Then,
}
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// The connection is for the next request.
    KeepsOpen,
    /// It ends.
    Closes,
    /// The last piece again and again, until the connection breaks.
    Repeats,
    /// Received bytes are sent back until the connection ends.
    Echoes,
}

pub(crate) struct Script {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
}
impl Script {
    /// Paths and answers; all others are answered with an echo of the request's body.
    pub(crate) fn start(answers: BTreeMap<String, Answer>) -> Script {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let script = Script { address: listener.local_addr().unwrap(), seen: Arc::default() };
        let (answers, seen) = (Arc::new(answers), Arc::clone(&script.seen));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answers, seen) = (Arc::clone(&answers), Arc::clone(&seen));
                thread::spawn(move || while serve(&stream, &answers, &seen).is_some() {});
            }
        });
        script
    }
    pub(crate) fn of(answers: &[(&str, &str, Then)]) -> Script {
        let answer = |text: &str, then| Answer { pieces: vec![text.as_bytes().to_vec()], then };
        Script::start(answers.iter().map(|(path, text, then)| (path.to_string(), answer(text, *then))).collect())
    }
    /// The last request for a target.
    pub(crate) fn last(&self, target: &str) -> Option<Seen> {
        let seen = self.seen.lock().unwrap();
        seen.iter().rev().find(|seen| seen.line.split(' ').nth(1) == Some(target)).cloned()
    }
    pub(crate) fn count(&self, target: &str) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|seen| seen.line.split(' ').nth(1) == Some(target)).count()
    }
    /// The proxies before this server.
    pub(crate) fn world(&self, timeouts: Timeouts) -> World {
        world_of(Server::start(), self.address, None, timeouts, Limits::default())
    }
}
fn serve(mut stream: &TcpStream, answers: &BTreeMap<String, Answer>, seen: &Mutex<Vec<Seen>>) -> Option<()> {
    let mut reader = BufReader::with_capacity(1, stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
        let line = line.trim_end().to_string();
        if line.is_empty() {
            break;
        }
        head.push(line);
    }
    let line = head.remove(0);
    let fields: Vec<String> = head
        .iter()
        .filter_map(|field| field.split_once(':'))
        .map(|(name, value)| format!("{}: {}", name.to_ascii_lowercase(), value.trim()))
        .collect();
    let target = line.split(' ').nth(1)?.to_string();
    if fields.contains(&"expect: 100-continue".to_string()) && target != "/refuses" {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
    }
    let (body, trailers) = if target == "/refuses" { Default::default() } else { body(&mut reader, &fields)? };
    let fields = [fields, trailers].concat();
    seen.lock().unwrap().push(Seen { line, fields });
    let path = target.split('?').next()?;
    let Some(answer) = answers.get(path) else {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(&[head.as_bytes(), &body].concat()).ok()?;
        return Some(());
    };
    for piece in &answer.pieces {
        stream.write_all(piece).ok()?;
        thread::sleep(Duration::from_millis(if answer.pieces.len() > 1 { 300 } else { 0 }));
    }
    match answer.then {
        Then::KeepsOpen => return Some(()),
        Then::Closes => {}
        Then::Repeats => while answer.pieces.last().is_some_and(|piece| stream.write_all(piece).is_ok()) {},
        Then::Echoes => {
            let mut bytes = [0; 1_000];
            while let Some(read) = reader.read(&mut bytes).ok().filter(|read| *read > 0) {
                stream.write_all(&bytes[..read]).ok()?;
            }
        }
    }
    let _ = stream.shutdown(std::net::Shutdown::Both);
    None
}
fn body(reader: &mut impl BufRead, fields: &[String]) -> Option<(Vec<u8>, Vec<String>)> {
    let (mut body, mut trailers) = (Vec::new(), Vec::new());
    if !values(fields, "transfer-encoding").is_empty() {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size).ok()?;
            let size = usize::from_str_radix(size.trim_end(), 16).ok()?;
            if size == 0 {
                break;
            }
            let mut part = vec![0; size + 2];
            reader.read_exact(&mut part).ok()?;
            body.extend_from_slice(&part[..size]);
        }
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            if line.trim_end().is_empty() {
                break;
            }
            trailers.push(line.trim_end().to_ascii_lowercase());
        }
    } else if let Some(length) = values(fields, "content-length").first() {
        body = vec![0; length.parse().ok()?];
        reader.read_exact(&mut body).ok()?;
    }
    Some((body, trailers))
}

/// What a client gets: interim heads, the final head, the body, and whether it is whole.
#[derive(Debug, Default)]
pub(crate) struct Got {
    pub(crate) interims: Vec<(String, Vec<String>)>,
    pub(crate) line: String,
    pub(crate) fields: Vec<String>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<String>,
    pub(crate) is_complete: bool,
}
impl Got {
    pub(crate) fn status(&self) -> u16 {
        self.line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }
    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        values(&self.fields, name)
    }
}
/// Reads one response by the client's rules in RFC 9112 §6.
pub(crate) fn read_response(reader: &mut impl BufRead, method: &str) -> Got {
    let mut got = Got::default();
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = Vec::new();
            if reader.read_until(b'\n', &mut line).unwrap_or(0) == 0 {
                return got;
            }
            let line = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_string();
            if line.is_empty() {
                break;
            }
            lines.push(line);
        }
        let line = lines.remove(0);
        let field = |field: &String| {
            let (name, value) = field.split_once(':').unwrap_or((field, ""));
            format!("{}: {}", name.to_ascii_lowercase(), value.trim())
        };
        let fields: Vec<String> = lines.iter().map(field).collect();
        if line.starts_with("HTTP/1.1 1") && !line.starts_with("HTTP/1.1 101") {
            got.interims.push((line, fields));
            continue;
        }
        (got.line, got.fields) = (line, fields);
        break;
    }
    let status = got.status();
    if method == "HEAD" || matches!(status, 101 | 204 | 304) {
        got.is_complete = true;
    } else if got.values("transfer-encoding") == ["chunked"] {
        loop {
            let mut size = String::new();
            let _ = reader.read_line(&mut size);
            let Ok(size) = usize::from_str_radix(size.trim_end(), 16) else { return got };
            if size == 0 {
                break;
            }
            let mut part = vec![0; size + 2];
            if reader.read_exact(&mut part).is_err() {
                return got;
            }
            got.body.extend_from_slice(&part[..size]);
        }
        loop {
            let mut line = String::new();
            let _ = reader.read_line(&mut line);
            if line.trim_end().is_empty() {
                got.is_complete = line.ends_with('\n');
                return got;
            }
            got.trailers.push(line.trim_end().to_string());
        }
    } else if let Some(length) = got.values("content-length").first().and_then(|length| length.parse().ok()) {
        let mut body = Vec::new();
        let _ = reader.take(length).read_to_end(&mut body);
        (got.is_complete, got.body) = (body.len() as u64 == length, body);
    } else {
        got.is_complete = reader.read_to_end(&mut got.body).is_ok();
    }
    got
}
impl World {
    /// Sends arbitrary bytes on a new connection, and reads one response.
    pub(crate) fn raw(&self, request: impl AsRef<[u8]>) -> Got {
        let request = request.as_ref();
        let stream = self.connect();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let _ = (&stream).write_all(request);
        let method = String::from_utf8_lossy(request).split(' ').next().unwrap_or_default().to_string();
        read_response(&mut BufReader::with_capacity(1, &stream), &method)
    }
    /// Asks for a path of the site.
    pub(crate) fn request(&self, method: &str, path: &str, fields: &str) -> Got {
        self.raw(format!("{method} http://site.example{path} HTTP/1.1\r\nHost: site.example\r\n{fields}\r\n"))
    }
}

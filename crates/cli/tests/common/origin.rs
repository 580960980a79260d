//! A web server whose answers a test decides, and which remembers its requests.
use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
};

/// A request: its method, its target, and its fields in lower case.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) fields: String,
}
impl Asked {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// An answer. With `cut` the connection ends after that many bytes; with a gate the rest waits for it.
#[derive(Clone, Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) cut: Option<usize>,
    pub(crate) gate: Option<(usize, Arc<Gate>)>,
}
impl Reply {
    pub(crate) fn new(status: u16, fields: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Reply {
        let fields = fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Reply { status, fields, body: body.into(), ..Reply::default() }
    }
    /// The range that the request names, if it names one from some byte on.
    pub(crate) fn ranged(mut self, asked: &Asked) -> Reply {
        let size = self.body.len();
        let range = asked.field("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
        let Some((first, last)) = range else { return self };
        let first: usize = first.parse().unwrap();
        let end = last.parse::<usize>().map_or(size, |last| last + 1).min(size);
        self.status = 206;
        self.body = self.body[first..end].to_vec();
        self.fields.push(("Content-Range".into(), format!("bytes {first}-{}/{size}", end - 1)));
        self
    }
}

/// Closed until it is opened.
#[derive(Default)]
pub(crate) struct Gate(Mutex<bool>, Condvar);
impl Gate {
    pub(crate) fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }
    fn pass(&self) {
        drop(self.1.wait_while(self.0.lock().unwrap(), |is_open| !*is_open).unwrap());
    }
}

/// The server; its threads end with the test's process.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}
impl Origin {
    pub(crate) fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let (list, answer) = (Arc::clone(&asked), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (list, answer) = (Arc::clone(&list), Arc::clone(&answer));
                thread::spawn(move || serve(&stream, &list, &*answer));
            }
        });
        Origin { address, asked }
    }
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
    /// The requests so far whose targets begin with this, with GET.
    pub(crate) fn gets(&self, target: &str) -> Vec<Asked> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|asked| asked.method == "GET" && asked.target.starts_with(target)).cloned().collect()
    }
    pub(crate) fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn serve(stream: &TcpStream, list: &Mutex<Vec<Asked>>, answer: &dyn Fn(&Asked) -> Reply) {
    let mut reader = BufReader::new(stream);
    let (mut first, mut fields) = (String::new(), String::new());
    reader.read_line(&mut first).unwrap_or(0);
    let mut words = first.split(' ').map(String::from);
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return };
    loop {
        let mut line = String::new();
        match reader.read_line(&mut line) {
            Ok(length) if length > 2 => match line.trim_end().split_once(':') {
                Some((name, value)) => fields.push_str(&format!("{}:{value}\n", name.to_lowercase())),
                None => return,
            },
            _ => break,
        }
    }
    let asked = Asked { method, target, fields };
    list.lock().unwrap().push(asked.clone());
    let reply = answer(&asked);
    let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", reply.status);
    reply.fields.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
    if !reply.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("transfer-encoding")) && reply.status != 304 {
        head.push_str(&format!("Content-Length: {}\r\n", reply.body.len()));
    }
    head.push_str("\r\n");
    let mut stream = stream;
    let _ = stream.write_all(head.as_bytes());
    if asked.method == "HEAD" || reply.status == 304 {
        return;
    }
    let end = reply.cut.unwrap_or(reply.body.len()).min(reply.body.len());
    let first = reply.gate.as_ref().map_or(end, |(bytes, _)| *bytes).min(end);
    let _ = stream.write_all(&reply.body[..first]);
    if let Some((_, gate)) = &reply.gate {
        gate.pass();
    }
    // A client that has gone does not count.
    let _ = stream.write_all(&reply.body[first..end]);
}

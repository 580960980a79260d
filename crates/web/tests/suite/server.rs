//! A small web server with configurable behaviour.
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};
use tributary_web::Url;

/// How it behaves; by default as a good server does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Behaviour {
    /// Bytes a second of each connection.
    pub(crate) rate: Option<u64>,
    /// Changes a byte in each 50,000.
    pub(crate) flips: bool,
    /// Stops sending after this many bytes of an answer, and keeps the connection.
    pub(crate) stalls_after: Option<usize>,
    /// Answers the range behind the one that was requested, except for the first byte.
    pub(crate) shifts: bool,
    /// Sends the whole file for any request.
    pub(crate) no_ranges: bool,
    /// Redirects there; `%n` is an increasing number.
    pub(crate) redirects: Option<&'static str>,
    /// Sends header after header.
    pub(crate) endless_headers: bool,
    /// Answers with this status and nothing else.
    pub(crate) status: Option<&'static str>,
    /// Answers this many requests with 503 and Retry-After: 1.
    pub(crate) busy_for: u32,
}

pub(crate) struct Server {
    address: SocketAddr,
    scheme: &'static str,
    certificate: String,
    state: Arc<State>,
}
struct State {
    behaviour: Behaviour,
    file: Mutex<(Vec<u8>, u32)>,
    is_over: AtomicBool,
    requests: AtomicU32,
    open: AtomicUsize,
    open_most: AtomicUsize,
    clients: Mutex<Vec<String>>,
    last_head: Mutex<String>,
    tls: Option<Arc<rustls::ServerConfig>>,
}

impl Server {
    pub(crate) fn start(file: &[u8], behaviour: Behaviour) -> Server {
        Self::spawn(file, behaviour, "http", String::new(), None)
    }
    /// With a certificate that only [`Server::certificate`] vouches for.
    pub(crate) fn start_tls(file: &[u8], behaviour: Behaviour) -> Server {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_string()]).expect("a certificate");
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("there are some")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .expect("they fit");
        Self::spawn(file, behaviour, "https", pem("CERTIFICATE", made.cert.der()), Some(Arc::new(config)))
    }
    fn spawn(
        file: &[u8],
        behaviour: Behaviour,
        scheme: &'static str,
        certificate: String,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::new(State {
            behaviour,
            file: Mutex::new((file.to_vec(), 1)),
            is_over: AtomicBool::new(false),
            requests: AtomicU32::new(0),
            open: AtomicUsize::new(0),
            open_most: AtomicUsize::new(0),
            clients: Mutex::default(),
            last_head: Mutex::default(),
            tls,
        });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let state = Arc::clone(&shared);
                thread::spawn(move || serve(&state, stream));
            }
        });
        Server { address, scheme, certificate, state }
    }
    pub(crate) fn url(&self, path: &str) -> Url {
        format!("{}://{}/{path}", self.scheme, self.address).parse().expect("a URL")
    }
    pub(crate) fn label(&self) -> String {
        self.address.to_string()
    }
    pub(crate) fn certificate(&self) -> &str {
        &self.certificate
    }
    /// Replaces the file, with another tag.
    pub(crate) fn change(&self, file: &[u8]) {
        let mut held = self.state.file.lock().expect("no thread panics");
        *held = (file.to_vec(), held.1 + 1);
    }
    /// The most connections that carried an answer at a time.
    pub(crate) fn open_at_once(&self) -> usize {
        self.state.open_most.load(Ordering::SeqCst)
    }
    /// The addresses of its clients.
    pub(crate) fn clients(&self) -> Vec<String> {
        let mut clients = self.state.clients.lock().expect("no thread panics").clone();
        clients.sort();
        clients.dedup();
        clients
    }
    pub(crate) fn last_head(&self) -> String {
        self.state.last_head.lock().expect("no thread panics").clone()
    }
}
impl Drop for Server {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

/// The text form of a certificate or key.
pub(crate) fn pem(kind: &str, der: &[u8]) -> String {
    use base64ct::Encoding;
    let text = base64ct::Base64::encode_string(der);
    let lines: String = text.as_bytes().chunks(64).map(|line| format!("{}\n", String::from_utf8_lossy(line))).collect();
    format!("-----BEGIN {kind}-----\n{lines}-----END {kind}-----\n")
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

fn serve(state: &State, tcp: TcpStream) {
    let peer = tcp.peer_addr().map(|peer| peer.ip().to_string()).unwrap_or_default();
    state.clients.lock().expect("no thread panics").push(peer);
    let _ = tcp.set_nodelay(true);
    let mut stream: Box<dyn Stream> = match &state.tls {
        None => Box::new(tcp),
        Some(config) => {
            let connection = rustls::ServerConnection::new(Arc::clone(config)).expect("the config is legal");
            Box::new(rustls::StreamOwned::new(connection, tcp))
        }
    };
    while let Some(head) = read_head(&mut *stream) {
        *state.last_head.lock().expect("no thread panics") = head.clone();
        let open = state.open.fetch_add(1, Ordering::SeqCst) + 1;
        state.open_most.fetch_max(open, Ordering::SeqCst);
        let answered = answer(state, &mut *stream, &head);
        state.open.fetch_sub(1, Ordering::SeqCst);
        if answered.is_err() {
            return;
        }
    }
}
fn read_head(stream: &mut dyn Stream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 || head.len() > 65_536 {
            return None;
        }
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}
fn answer(state: &State, stream: &mut dyn Stream, head: &str) -> std::io::Result<()> {
    let Behaviour { rate, flips, stalls_after, shifts, no_ranges, redirects, endless_headers, status, busy_for } =
        &state.behaviour;
    let number = state.requests.fetch_add(1, Ordering::SeqCst);
    if let Some(to) = redirects {
        let to = to.replace("%n", &number.to_string());
        return write!(stream, "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
    }
    if *endless_headers {
        write!(stream, "HTTP/1.1 200 OK\r\n")?;
        loop {
            write!(stream, "X-{}: {}\r\n", "a".repeat(100), "b".repeat(8_000))?;
        }
    }
    if let Some(status) = status {
        return write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
    }
    if number < *busy_for {
        return write!(stream, "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n");
    }
    let (file, version) = state.file.lock().expect("no thread panics").clone();
    let field = |name: &str| {
        head.lines()
            .find_map(|line| line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)))
            .map(|of| of.1)
    };
    let tag = format!("\"v{version}\"");
    let range = field("range").filter(|_| !no_ranges && field("if-range").is_none_or(|of| of == tag));
    let range = range.and_then(|range| {
        let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?))
    });
    let (from, to) = match range {
        Some((first, _)) if first >= file.len() => {
            let size = file.len();
            return write!(stream, "HTTP/1.1 416 No\r\nContent-Range: bytes */{size}\r\nContent-Length: 0\r\n\r\n");
        }
        Some((first, last)) => {
            let by = usize::from(*shifts && last > 0);
            let (first, last) = ((first + by).min(file.len() - 1), (last + by).min(file.len() - 1));
            let size = file.len();
            write!(stream, "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {first}-{last}/{size}\r\n")?;
            (first, last + 1)
        }
        None => {
            write!(stream, "HTTP/1.1 200 OK\r\n")?;
            (0, file.len())
        }
    };
    write!(stream, "ETag: {tag}\r\nContent-Length: {}\r\n\r\n", to - from)?;
    let mut body = file[from..to].to_vec();
    if *flips {
        let odd = |at: &usize| (from + at) % 50_000 == 49_999;
        let places: Vec<usize> = (0..body.len()).filter(odd).collect();
        places.into_iter().for_each(|at| body[at] ^= 0x20);
    }
    let mut sent = 0;
    for part in body.chunks(16 << 10) {
        if stalls_after.is_some_and(|most| sent >= most) {
            thread::sleep(Duration::from_secs(60));
        }
        stream.write_all(part)?;
        stream.flush()?;
        sent += part.len();
        if let Some(rate) = rate {
            thread::sleep(Duration::from_secs_f64(part.len() as f64 / *rate as f64));
        }
    }
    stream.flush()
}

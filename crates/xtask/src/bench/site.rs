//! Ten gateways of a site whose clients want the same files at the same time, compared with one nginx that keeps
//! its fetches (`proxy_cache`), and with one gateway alone.
//!
//! The origin sends all its answers together at a limited rate, as an uplink does. A copy is as many bytes of bodies as
//! the files have.
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{Context, Findings, rivals::TRANSFER_PATIENCE, rqbit::free_port};
use crate::{
    Outcome,
    harness::{
        figure::Figure,
        interrupt,
        process::Process,
        targets, tools,
        trib::{Daemon, NodeSpec},
    },
};

/// The gateways.
const MEMBERS: usize = 10;
/// Bytes of the large file, and of each small one.
pub(super) const LARGE: u64 = 64 << 20;
pub(super) const SMALL: u64 = 10_000;
/// Small files.
const FILES: usize = 500;
/// Bytes that the origin sends in a second.
const RATE: u64 = 8_000_000;
const PIECE: usize = 64 << 10;
/// How long a server may take to start, and a site to be complete.
const START_PATIENCE: Duration = Duration::from_secs(30);

/// What all clients of a crowd got.
struct Crowd {
    /// Seconds until each client had the large file.
    seconds: Vec<f64>,
    /// Copies of the large file, and of the small ones, that left the origin.
    copies: [f64; 2],
}
impl Crowd {
    fn slowest(&self) -> f64 {
        self.seconds.iter().copied().fold(0.0, f64::max)
    }
}

pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let mut findings = Findings::default();
    let (mut alone, mut site, mut nginx) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..context.arguments.rounds() {
        interrupt::check()?;
        alone.push(ours(context, 1, &format!("alone-{round}"))?);
        site.push(ours(context, MEMBERS, &format!("site-{round}"))?);
        if let Some(program) = tools::find("nginx") {
            let origin = Origin::start(RATE)?;
            let (_process, address) = proxy_cache(context, &program, &origin, round)?;
            nginx.push(origin.crowd(&[address; MEMBERS])?);
        }
    }
    let of = |crowds: &[Crowd], value: fn(&Crowd) -> f64| crowds.iter().map(value).collect::<Vec<_>>();
    let figure = |what: &str, unit, value: fn(&Crowd) -> f64| {
        let figure = Figure::new(what, unit, of(&site, value));
        if nginx.is_empty() { figure } else { figure.rival("one nginx", of(&nginx, value)) }
    };
    let copies = "copies of the large file that left the origin";
    findings.figures.push(figure(copies, "copies", |of| of.copies[0]).judged(targets::SITE_COPIES));
    let small = "copies of the small files that left the origin";
    findings.figures.push(figure(small, "copies", |of| of.copies[1]).judged(targets::SITE_COPIES));
    let slowest = Figure::new("time of the slowest client", "s", of(&site, Crowd::slowest));
    let slowest = slowest.rival("one gateway alone", of(&alone, Crowd::slowest));
    findings.figures.push(slowest.judged(targets::SITE_TIME));
    if nginx.is_empty() {
        findings.notes.push(tools::missing("nginx", "of it"));
    } else {
        findings.figures.push(figure("time of the slowest client", "s", Crowd::slowest));
    }
    findings.notes.push(format!(
        "{MEMBERS} gateways on one machine, each with a client; {} MiB, then {FILES} files of {SMALL} bytes; the origin \
         sends {} MB/s in all",
        LARGE >> 20,
        RATE / 1_000_000
    ));
    Ok(findings)
}

/// Gateways of ours, each with a client.
fn ours(context: &Context<'_>, members: usize, label: &str) -> Outcome<Crowd> {
    let origin = Origin::start(RATE)?;
    let (mut daemons, mut addresses) = (Vec::<Daemon>::new(), Vec::new());
    for number in 0..members {
        let address = free_address()?;
        let peers = daemons.first().map(|first| format!("peers = [\"{}\"]\n", first.address)).unwrap_or_default();
        let site = format!("[site]\naccess = \"open\"\ndiscovery = false\n{peers}");
        daemons.push(gateway(context, &origin, address, &format!("{label}-{number}"), &site)?);
        addresses.push(address);
    }
    let is_complete = |address: &SocketAddr| {
        let metrics = String::from_utf8_lossy(&get(*address, "/metrics").unwrap_or_default()).into_owned();
        let line = metrics.lines().find(|line| line.starts_with("tributary_site_members")).map(String::from);
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok()) == Some((members - 1) as f64)
    };
    await_all(|| addresses.iter().all(is_complete))?;
    origin.crowd(&addresses)
}
pub(super) fn free_address() -> Outcome<SocketAddr> {
    Ok(([127, 0, 0, 1], free_port()?).into())
}
/// A gateway of ours at an address, which asks the origin; `more` is at the end of its config.
pub(super) fn gateway(
    context: &Context<'_>,
    origin: &Origin,
    address: SocketAddr,
    label: &str,
    more: &str,
) -> Outcome<Daemon> {
    let origin = format!("[[origin]]\npath = \"/\"\nurl = \"http://{}\"\n", origin.address);
    let sections = format!("[http]\nlisten = \"{address}\"\n{origin}{more}");
    NodeSpec::new(label, &["sender", "receiver"]).family("ndn").sections(sections).start(&context.trib, &context.stage)
}
/// One nginx with a cache, which asks once for clients that want the same.
pub(super) fn proxy_cache(
    context: &Context<'_>,
    nginx: &std::path::Path,
    origin: &Origin,
    round: usize,
) -> Outcome<(Process, SocketAddr)> {
    let work = context.stage.path(&format!("nginx-{round}"));
    fs::create_dir_all(&work)?;
    let (config, address) = (work.join("nginx.conf"), free_address()?);
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {}/{kind};\n", work.display()))
        .collect();
    let text = format!(
        "daemon off;\nmaster_process off;\npid {0}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off; sendfile on; keepalive_requests 1000000;\n\
         {temporary}proxy_cache_path {0}/cache keys_zone=all:10m max_size=1g;\nserver {{ listen {address};\n\
         location / {{ proxy_pass http://{1}; proxy_cache all; proxy_cache_lock on; proxy_cache_lock_timeout 10m;\n\
         proxy_cache_lock_age 10m; proxy_cache_valid 200 1h; }} }}\n}}\n",
        work.display(),
        origin.address
    );
    fs::write(&config, text)?;
    let mut command = std::process::Command::new(nginx);
    command.arg("-c").arg(&config).arg("-p").arg(&work);
    let process = Process::spawn("nginx", &context.stage, &mut command)?;
    await_all(|| TcpStream::connect(address).is_ok())?;
    Ok((process, address))
}
fn await_all(is_so: impl Fn() -> bool) -> Outcome {
    let deadline = Instant::now() + START_PATIENCE;
    while !is_so() {
        interrupt::check()?;
        if Instant::now() > deadline {
            return Err("the servers are not ready".into());
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// A web server that counts the bytes of its bodies.
pub(super) struct Origin {
    address: SocketAddr,
    sent: Arc<AtomicU64>,
}
impl Origin {
    /// Starts one that sends at most `rate` bytes a second in all; it ends with this process.
    pub(super) fn start(rate: u64) -> Outcome<Origin> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let origin = Origin { address: listener.local_addr()?, sent: Arc::default() };
        let (sent, pace) = (Arc::clone(&origin.sent), Arc::new(Mutex::new(Instant::now())));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (sent, pace) = (Arc::clone(&sent), Arc::clone(&pace));
                // A client that leaves ends its own thread only.
                thread::spawn(move || drop(answer(&stream, &sent, &pace, rate)));
            }
        });
        Ok(origin)
    }
    /// Has a client at each address read the large file, all at once, and then the small ones.
    fn crowd(&self, addresses: &[SocketAddr]) -> Outcome<Crowd> {
        let begun = Instant::now();
        let seconds = at_once(addresses, |address| {
            let body = get(address, "/large")?;
            if body.len() as u64 == LARGE { Ok(begun.elapsed().as_secs_f64()) } else { Err("a cut file".into()) }
        })?;
        let large = self.sent.swap(0, Ordering::SeqCst);
        at_once(addresses, |address| {
            let is_whole = |file| get(address, &format!("/small/{file}")).map(|body| body.len() as u64 == SMALL);
            let whole: Vec<bool> = (0..FILES).map(is_whole).collect::<Outcome<_>>()?;
            if whole.iter().all(|is_whole| *is_whole) { Ok(()) } else { Err("a cut file".into()) }
        })?;
        let small = self.sent.load(Ordering::SeqCst);
        Ok(Crowd { seconds, copies: [large as f64 / LARGE as f64, small as f64 / (SMALL * FILES as u64) as f64] })
    }
}
pub(super) fn at_once<R: Send>(
    addresses: &[SocketAddr],
    client: impl Fn(SocketAddr) -> Outcome<R> + Sync,
) -> Outcome<Vec<R>> {
    let client = &client;
    thread::scope(|scope| {
        let of = |address| scope.spawn(move || client(address).map_err(|error| error.to_string()));
        let clients: Vec<_> = addresses.iter().copied().map(of).collect();
        let join = |client: thread::ScopedJoinHandle<'_, Result<R, String>>| {
            Ok(client.join().map_err(|_| "a client's thread has panicked")??)
        };
        clients.into_iter().map(join).collect()
    })
}
fn answer(mut stream: &TcpStream, sent: &AtomicU64, pace: &Mutex<Instant>, rate: u64) -> Outcome {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut request = String::new();
        if reader.read_line(&mut request)? == 0 {
            return Ok(());
        }
        let mut line = String::new();
        while reader.read_line(&mut line)? > 2 {
            line.clear();
        }
        let size = if request.contains(" /large") { LARGE } else { SMALL };
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nCache-Control: max-age=3600\r\nETag: \"1\"\r\n\r\n"
        )?;
        let mut left = if request.starts_with("HEAD") { 0 } else { size };
        while left > 0 {
            let length = left.min(PIECE as u64);
            let turn = {
                let mut next = pace.lock().map_err(|_| "a thread of the origin has panicked")?;
                *next = (*next).max(Instant::now()) + Duration::from_secs_f64(length as f64 / rate as f64);
                *next
            };
            thread::sleep(turn.saturating_duration_since(Instant::now()));
            stream.write_all(&[7; PIECE][..length as usize])?;
            sent.fetch_add(length, Ordering::SeqCst);
            left -= length;
        }
    }
}
/// The body at a path.
fn get(address: SocketAddr, path: &str) -> Outcome<Vec<u8>> {
    let mut body = Vec::new();
    read(address, [path.to_string()], &mut body)?;
    Ok(body)
}
/// Reads files one after the other over one connection into `body`.
pub(super) fn read(address: SocketAddr, paths: impl IntoIterator<Item = String>, body: &mut impl Write) -> Outcome {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TRANSFER_PATIENCE))?;
    let mut reader = BufReader::with_capacity(256 << 10, &stream);
    let mut line = String::new();
    for path in paths {
        (&stream).write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())?;
        let (mut is_first, mut length) = (true, None);
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            if is_first && !line.starts_with("HTTP/1.1 200") {
                return Err(format!("{path}: {}", line.trim()).into());
            }
            is_first = false;
            if line.trim().is_empty() {
                break;
            }
            let field = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
            length = length.or(field.and_then(|(_, value)| value.trim().parse::<u64>().ok()));
        }
        let length = length.ok_or("an answer without a length")?;
        if std::io::copy(&mut reader.by_ref().take(length), body)? != length {
            return Err(format!("{path}: a cut file").into());
        }
    }
    Ok(())
}

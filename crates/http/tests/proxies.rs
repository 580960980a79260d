//! A web server, the two proxies with a router between, and a client that speaks HTTP/1.1 over plain sockets: the
//! client must get the server's response.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#[path = "suite/impostor.rs"]
mod impostor;
#[path = "../../tributary/tests/suite/nodes.rs"]
mod nodes;
#[path = "suite/programs.rs"]
mod programs;
#[path = "suite/requests.rs"]
mod requests;
#[path = "suite/responses.rs"]
mod responses;
#[path = "suite/script.rs"]
mod script;
#[path = "suite/streaming.rs"]
mod streaming;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};
use tributary::{
    Clock, LocalApi,
    messenger::{Messenger, MessengerOptions},
};
use tributary_core::{Duration, Time};
use tributary_http::{
    BrowserProxy, OriginProxy,
    browser::BrowserConfig,
    config::{CONNECTION_BYTES_MAX, Limits, Timeouts, WINDOW_BYTES_MAX},
    exchange::SEGMENT_BYTES,
    log::{AccessLog, LogFormat},
    origin::OriginConfig,
};

use nodes::{ENDS, ROUTER, node, port};

const BIG: usize = 5_000_000;

fn byte(at: usize) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 13) as u8
}

/// A web server: `/big` with ranges, `/chunked`, `/echo` of a request's body, `/slow`, 404 else.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// Bytes sent of `/endless`, and the number of connections that broke off.
    endless: Arc<(AtomicUsize, AtomicUsize)>,
}
impl Server {
    fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server =
            Server { address: listener.local_addr().unwrap(), connections: Arc::default(), endless: Arc::default() };
        let (connections, endless) = (Arc::clone(&server.connections), Arc::clone(&server.endless));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::SeqCst);
                // A client that disconnects ends its thread.
                let endless = Arc::clone(&endless);
                thread::spawn(move || while serve(&stream, &endless).is_some() {});
            }
        });
        server
    }
}
fn serve(mut stream: &TcpStream, endless: &(AtomicUsize, AtomicUsize)) -> Option<()> {
    let (line, headers, body) = read_message(&mut BufReader::with_capacity(1, stream))?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let range = headers.iter().find_map(|header| header.strip_prefix("range: bytes="));
    let (status, more, content) = match target {
        "/big" => match range.and_then(|range| range.split_once('-')) {
            Some((first, last)) => {
                let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
                let more = format!("content-range: bytes {first}-{last}/{BIG}\r\n");
                ("206 Partial Content", more, (first..=last).map(byte).collect())
            }
            None => ("200 OK", String::new(), (0..BIG).map(byte).collect::<Vec<u8>>()),
        },
        "/echo" => {
            let host = headers.iter().find_map(|header| header.strip_prefix("host: ")).unwrap_or_default();
            ("200 OK", format!("x-method: {method}\r\nx-host: {host}\r\n"), body)
        }
        "/slow" => {
            thread::sleep(Duration::from_secs(5));
            ("200 OK", String::new(), Vec::new())
        }
        "/endless" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").ok()?;
            let part = [&b"10000\r\n"[..], &[7; 0x1_0000], &b"\r\n"[..]].concat();
            while stream.write_all(&part).is_ok() {
                endless.0.fetch_add(0x1_0000, Ordering::SeqCst);
            }
            endless.1.fetch_add(1, Ordering::SeqCst);
            return None;
        }
        "/chunked" => {
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nset-cookie: a=1\r\nset-cookie: b=2\r\n\r\n";
            stream.write_all(head.as_bytes()).ok()?;
            for number in 0..50 {
                let part = format!("part {number}\n");
                stream.write_all(format!("{:x}\r\n{part}\r\n", part.len()).as_bytes()).ok()?;
            }
            return stream.write_all(b"0\r\n\r\n").ok();
        }
        target => match target.strip_prefix("/object/").and_then(|number| number.parse::<usize>().ok()) {
            Some(number) => ("200 OK", String::new(), vec![number as u8; 1_000 * (number + 1)]),
            None => ("404 Not Found", String::new(), b"no such page".to_vec()),
        },
    };
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{more}\r\n", content.len());
    stream.write_all(head.as_bytes()).ok()?;
    let is_head = method == "HEAD";
    if is_head { Some(()) } else { stream.write_all(&content).ok() }
}
/// First line, headers in lower case, and body of a message with a length or in chunks.
fn read_message(reader: &mut impl BufRead) -> Option<(String, Vec<String>, Vec<u8>)> {
    let mut line = || {
        let mut line = String::new();
        (reader.read_line(&mut line).ok()? > 0).then(|| line.trim_end().to_string())
    };
    let first = line()?;
    let mut headers = Vec::new();
    loop {
        let header = line()?;
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(':')?;
        headers.push(format!("{}: {}", name.to_ascii_lowercase(), value.trim()));
    }
    let mut body = Vec::new();
    if headers.iter().any(|header| header == "transfer-encoding: chunked") {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size).ok()?;
            let size = usize::from_str_radix(size.trim_end(), 16).ok()?;
            let mut part = vec![0; size + 2];
            reader.read_exact(&mut part).ok()?;
            if size == 0 {
                break;
            }
            body.extend_from_slice(&part[..size]);
        }
    } else if let Some(length) = headers.iter().find_map(|header| header.strip_prefix("content-length: ")) {
        body = vec![0; length.parse().ok()?];
        reader.read_exact(&mut body).ok()?;
    }
    Some((first, headers, body))
}

struct World {
    server: Server,
    browser: BrowserProxy,
    _origin: OriginProxy,
    router: u16,
    _router: Arc<LocalApi>,
    folder: tempfile::TempDir,
}
fn world(patience: Duration) -> World {
    world_with(patience, None)
}
fn world_with(patience: Duration, tunnel: Option<SocketAddr>) -> World {
    let server = Server::start();
    let address = server.address;
    let timeouts = Timeouts { answer: patience, ..Timeouts::default() };
    world_of(server, address, tunnel, timeouts, Limits::default())
}
/// The proxies before a web server at `address`. Their side of it waits a quarter as long for an answer as the browser's.
fn world_of(
    server: Server,
    address: SocketAddr,
    tunnel: Option<SocketAddr>,
    timeouts: Timeouts,
    limits: Limits,
) -> World {
    let folder = tempfile::tempdir().unwrap();
    let at = port();
    let router = node(folder.path(), "router", ROUTER, at, None);
    let near = node(folder.path(), "near", ENDS, port(), Some(at));
    let far = node(folder.path(), "far", ENDS, port(), Some(at));
    let site = "/http/site.example".parse().unwrap();
    let origin = format!("http://{address}").parse().unwrap();
    let log = |name: &str, format| Some(AccessLog::open(&folder.path().join(name), format).unwrap());
    let tunnel = tunnel.map(|to| to.to_string());
    let at_origin = Timeouts { answer: timeouts.answer / 4, ..timeouts };
    // The limits are the browser side's: the other one learns a moment later that a request is over.
    let config = OriginConfig {
        origin,
        tunnel,
        limits: Limits::default(),
        timeouts: at_origin,
        log: log("origin.log", LogFormat::Json),
    };
    let messenger = Messenger::open(far, &[site], MessengerOptions::default()).unwrap();
    let origin = OriginProxy::start(messenger, config).unwrap();
    let messenger = Messenger::open(near, &[], MessengerOptions::default()).unwrap();
    let listen = "127.0.0.1:0".parse().unwrap();
    let log = log("browser.log", LogFormat::Combined);
    let config = BrowserConfig { listen, to: None, limits, timeouts, log };
    let browser = BrowserProxy::start(messenger, config).unwrap();
    World { server, browser, _origin: origin, router: at, _router: router, folder }
}
impl World {
    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.browser.address).unwrap()
    }
    /// Sends a request on a persistent connection, as a browser does to its proxy.
    fn ask(&self, mut stream: &TcpStream, request: &str, body: &[u8]) -> (String, Vec<String>, Vec<u8>) {
        stream.write_all(request.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        read_message(&mut BufReader::with_capacity(1, stream)).unwrap()
    }
    fn get(&self, stream: &TcpStream, target: &str, more: &str) -> (String, Vec<String>, Vec<u8>) {
        let request = format!("GET http://site.example{target} HTTP/1.1\r\nHost: site.example\r\n{more}\r\n");
        self.ask(stream, &request, &[])
    }
}

#[test]
fn what_the_browser_gets_is_what_the_server_gave() {
    let world = world(Duration::from_secs(20));
    let stream = world.connect();
    // All on one connection: keep-alive.
    let (status, headers, body) = world.get(&stream, "/big", "");
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(headers.contains(&format!("content-length: {BIG}")), "{headers:?}");
    assert!(body.len() == BIG && body.iter().enumerate().all(|(at, got)| *got == byte(at)));

    let (status, headers, body) = world.get(&stream, "/big", "Range: bytes=1000000-1000099\r\n");
    assert_eq!(status, "HTTP/1.1 206 Partial Content");
    assert!(headers.contains(&format!("content-range: bytes 1000000-1000099/{BIG}")));
    assert_eq!(body, (1_000_000..1_000_100).map(byte).collect::<Vec<u8>>());

    let (_, headers, body) = world.get(&stream, "/chunked", "");
    assert_eq!(String::from_utf8(body).unwrap().lines().count(), 50);
    assert_eq!(headers.iter().filter(|header| header.starts_with("set-cookie")).count(), 2);

    let (status, _, body) = world.get(&stream, "/nothing", "");
    assert_eq!((status.as_str(), &body[..]), ("HTTP/1.1 404 Not Found", &b"no such page"[..]));

    let sent = vec![9; 100_000];
    let request = format!("POST /echo HTTP/1.1\r\nHost: site.example\r\nContent-Length: {}\r\n\r\n", sent.len());
    let (_, headers, body) = world.ask(&stream, &request, &sent);
    assert!(headers.contains(&"x-method: POST".to_string()) && body == sent);
}

#[test]
fn many_objects_come_at_once_over_six_connections() {
    let world = world(Duration::from_secs(20));
    thread::scope(|scope| {
        for connection in 0..6usize {
            let world = &world;
            scope.spawn(move || {
                let stream = world.connect();
                for number in (connection..60).step_by(6) {
                    let (status, _, body) = world.get(&stream, &format!("/object/{number}"), "");
                    assert_eq!(status, "HTTP/1.1 200 OK");
                    assert_eq!(body, vec![number as u8; 1_000 * (number + 1)]);
                }
            });
        }
    });
    let connections = world.server.connections.load(Ordering::SeqCst);
    assert!(connections <= 12, "{connections} connections to the web server for 60 objects");
}

#[test]
fn what_goes_wrong_is_told_with_the_right_status() {
    let world = world(Duration::from_secs(8));
    let status = |target: &str| {
        let request = format!("GET http://site.example{target} HTTP/1.1\r\nHost: site.example\r\n\r\n");
        let (status, _, body) = world.ask(&world.connect(), &request, &[]);
        (status, String::from_utf8(body).unwrap())
    };
    let (line, body) = status("/slow");
    assert!(line.starts_with("HTTP/1.1 504") && body.contains("has not answered within 2s"), "{line} {body}");
    let connect = "CONNECT site.example:443 HTTP/1.1\r\nHost: site.example\r\n\r\n";
    let (line, _, body) = world.ask(&world.connect(), connect, &[]);
    let body = String::from_utf8(body).unwrap();
    assert!(line.starts_with("HTTP/1.1 502") && body.contains("carries no tunnels"), "{line} {body}");
    let elsewhere = "GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n";
    let (line, _, body) = world.ask(&world.connect(), elsewhere, &[]);
    let body = String::from_utf8(body).unwrap();
    assert!(
        line.starts_with("HTTP/1.1 502")
            && body.contains("no device in the network is attached to '/http/other.example'"),
        "{line}"
    );
}

#[test]
fn broken_requests_are_told_with_their_status_and_none_is_smuggled_behind_another() {
    let world = world(Duration::from_secs(8));
    let ask = |request: &[u8]| {
        let mut stream = world.connect();
        // The server may answer and close before it has read the whole request.
        let _ = stream.write_all(request);
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).map_or_else(|error| error.to_string(), |_| line)
    };
    let with = |line: &str, headers: &str, body: &str| format!("{line}\r\n{headers}\r\n{body}").into_bytes();
    let host = "Host: site.example\r\n";
    let get = |headers: &str| with("GET /object/1 HTTP/1.1", headers, "");
    let post = |headers: &str, body: &str| with("POST /echo HTTP/1.1", &format!("{host}{headers}"), body);
    let huge = "a".repeat(600_000);
    for (status, request) in [
        (200, get(host)),
        (431, get(&format!("{host}X-Huge: {huge}\r\n"))),
        (414, with(&format!("GET /{} HTTP/1.1", &huge[..100_000]), host, "")),
        (400, get(&format!("{host}X-Folded: a\r\n b\r\n"))),
        (400, get(&format!("{host}X-Spaced : a\r\n"))),
        (400, get("")),
        (400, with("GET http://site.example/object/1 HTTP/1.1", "", "")),
        (400, with("GET site.example:80 HTTP/1.1", host, "")),
        (400, get("Host: user@site.example\r\n")),
        (417, post("Content-Length: 5\r\nExpect: tea\r\n", "hello")),
        (400, with("TRACE /a HTTP/1.1", &format!("{host}Content-Length: 1\r\n"), "a")),
        (400, get(&format!("{host}Host: other.example\r\n"))),
        (400, get("Host: a b\r\n")),
        (400, with("GE(T /object/1 HTTP/1.1", host, "")),
        (400, with("GET /object/1 HTTP/3.7", host, "")),
        (501, with("GET https://site.example/object/1 HTTP/1.1", host, "")),
        (400, with("CONNECT site.example HTTP/1.1", host, "")),
        (502, with("CONNECT site.example:443 HTTP/1.1", host, "")),
        (200, post("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n")),
        (400, post("Transfer-Encoding: chunked\r\n", "zz\r\nhello\r\n0\r\n\r\n")),
        (400, post("Transfer-Encoding: chunked\r\n", "5\r\nhello!!\r\n0\r\n\r\n")),
        (400, post("Transfer-Encoding: gzip\r\n", "hello")),
        (400, post("Transfer-Encoding: xchunked\r\n", "5\r\nhello\r\n0\r\n\r\n")),
        (400, post("Content-Length: 4\r\nContent-Length: 5\r\n", "hello")),
        (400, post("Content-Length: -5\r\n", "hello")),
    ] {
        let line = ask(&request);
        let shown = String::from_utf8_lossy(&request[..request.len().min(120)]).into_owned();
        assert!(line.starts_with(&format!("HTTP/1.1 {status} ")), "{line:?} to {shown:?}");
    }
    // With both a length and chunks the body is read in chunks, and the bytes behind it are ignored (RFC 9112 §6.1).
    let behind = format!("5\r\nhello\r\n0\r\n\r\nGET /object/2 HTTP/1.1\r\n{host}\r\n");
    let mut stream = world.connect();
    stream.write_all(&post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", &behind)).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert!(answers.ends_with("hello") && answers.matches("HTTP/1.1 ").count() == 1, "{answers}");
    // The target names the host, regardless of the header's content (RFC 9112 §3.2.2).
    let request = "GET http://user@site.example:80/echo HTTP/1.1\r\nHost: other.example\r\n\r\n";
    let (line, headers, _) = world.ask(&world.connect(), request, &[]);
    assert_eq!(line, "HTTP/1.1 200 OK");
    assert!(headers.contains(&"x-host: site.example:80".to_string()), "{headers:?}");
}

/// Maximum bytes that the kernel keeps for one TCP connection, in both its sockets.
fn held_by_a_connection() -> usize {
    let most = |file: &str| -> usize {
        let sizes = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{file}")).unwrap();
        sizes.split_whitespace().nth(2).unwrap().parse().unwrap()
    };
    most("tcp_rmem") + most("tcp_wmem")
}

#[test]
fn an_answer_that_nobody_takes_is_not_fetched_and_ends_when_the_browser_goes() {
    let world = world(Duration::from_secs(20));
    let mut stream = world.connect();
    stream.write_all(b"GET http://site.example/endless HTTP/1.1\r\nHost: site.example\r\n\r\n").unwrap();
    let mut some = vec![0; 1_000_000];
    stream.read_exact(&mut some).unwrap();
    let (sent, broken) = (&world.server.endless.0, &world.server.endless.1);
    // It stops within the bytes allowed in flight, and those held by sockets.
    let mut last = 0;
    let clock = Clock::new();
    while sent.load(Ordering::SeqCst) > last {
        assert!(clock.now() < Time::from_millis(60_000), "it goes on and on: {} bytes", sent.load(Ordering::SeqCst));
        last = sent.load(Ordering::SeqCst);
        thread::sleep(Duration::from_secs(2));
    }
    let most = WINDOW_BYTES_MAX + 24 * SEGMENT_BYTES + 2 * held_by_a_connection();
    assert!((SEGMENT_BYTES..most).contains(&last), "{last} bytes were fetched, {most} are the most");
    // A browser that reads gets more.
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    while sent.load(Ordering::SeqCst) <= last {
        stream.read_exact(&mut some).unwrap();
    }
    drop(stream);
    let gone = clock.now();
    while broken.load(Ordering::SeqCst) == 0 {
        assert!(clock.now().since(gone) < Duration::from_secs(30), "the web server goes on though nobody listens");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A server that sends back each byte turned round, and a last word; it breaks off after `most` bytes.
fn mirror(most: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let (mut bytes, mut done) = ([0; 5_000], 0);
                while done < most {
                    let read = stream.read(&mut bytes).unwrap_or(0);
                    if read == 0 {
                        let _ = stream.write_all(b"the end");
                        return;
                    }
                    bytes[..read].iter_mut().for_each(|byte| *byte = !*byte);
                    if stream.write_all(&bytes[..read]).is_err() {
                        return;
                    }
                    done += read;
                }
            });
        }
    });
    address
}
fn tunnel(world: &World) -> TcpStream {
    let stream = world.connect();
    let (line, ..) = world.ask(&stream, "CONNECT site.example:443 HTTP/1.1\r\nHost: site.example:443\r\n\r\n", &[]);
    assert_eq!(line, "HTTP/1.1 200 OK");
    stream
}

#[test]
fn a_tunnel_carries_bytes_both_ways_until_both_have_ended() {
    let world = world_with(Duration::from_secs(20), Some(mirror(usize::MAX)));
    thread::scope(|scope| {
        for number in 0..4usize {
            let world = &world;
            scope.spawn(move || {
                let stream = tunnel(world);
                // One question and answer at a time, like the start of TLS.
                for at in 0..20 {
                    (&stream).write_all(&[at]).unwrap();
                    let mut answer = [0];
                    (&stream).read_exact(&mut answer).unwrap();
                    assert_eq!(answer[0], !at);
                }
                let sent: Vec<u8> = (0..2_000_000).map(|at| byte(at + number)).collect();
                thread::scope(|scope| {
                    scope.spawn(|| {
                        (&stream).write_all(&sent).unwrap();
                        stream.shutdown(std::net::Shutdown::Write).unwrap();
                    });
                    let mut back = Vec::new();
                    (&stream).read_to_end(&mut back).unwrap();
                    let (mirrored, end) = back.split_at(sent.len());
                    assert!(mirrored.iter().zip(&sent).all(|(back, sent)| *back == !*sent));
                    assert_eq!(end, b"the end");
                });
            });
        }
    });
}

#[test]
fn a_tunnel_ends_when_one_side_breaks_off() {
    let world = world_with(Duration::from_secs(20), Some(mirror(100_000)));
    // The web server: the browser's connection ends soon after.
    let stream = tunnel(&world);
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut writing = stream.try_clone().unwrap();
    thread::spawn(move || while writing.write_all(&[7; 10_000]).is_ok() {});
    let mut bytes = vec![0; 10_000];
    let ended = loop {
        match (&stream).read(&mut bytes) {
            Ok(0) => break true,
            Ok(_) => {}
            Err(error) => break error.kind() != std::io::ErrorKind::WouldBlock,
        }
    };
    assert!(ended, "it stays open though the web server is gone");
    // Other tunnels continue.
    let stream = tunnel(&world);
    (&stream).write_all(&[1]).unwrap();
    (&stream).read_exact(&mut bytes[..1]).unwrap();
    assert_eq!(bytes[0], !1);
}

#[test]
fn a_closed_port_of_the_web_server_is_reported_with_its_address_before_any_timeout() {
    let closed = ([127, 0, 0, 1], port()).into();
    let timeouts = Timeouts { answer: Duration::from_secs(20), ..Timeouts::default() };
    let world = world_of(Server::start(), closed, Some(closed), timeouts, Limits::default());
    for (request, told) in [
        ("GET http://site.example/ HTTP/1.1", format!("cannot reach the web server at http://{closed}")),
        ("CONNECT site.example:443 HTTP/1.1", format!("cannot connect to {closed}")),
    ] {
        let request = format!("{request}\r\nHost: site.example\r\n\r\n");
        let (line, _, body) = world.ask(&world.connect(), &request, &[]);
        let body = String::from_utf8(body).unwrap();
        assert!(line.starts_with("HTTP/1.1 502") && body.contains(&told), "{line} {body}");
    }
}

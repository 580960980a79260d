//! `[[origin]]` over real daemons: a gateway that fetches from web servers on a miss, with plain requests and with the
//! programs that it is for.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crate::common::{
    self, Begun, Daemon, begin, config, http,
    origin::{Asked, Gate, Origin, Reply},
    until,
};
use crate::gateway::SmallDisk;

/// A daemon that connects gateways, and the gateways.
struct Site {
    folder: tempfile::TempDir,
    _server: Daemon,
    face: String,
}
/// A gateway.
struct Node {
    address: SocketAddr,
    _gateway: Begun,
    _lines: BufReader<ChildStdout>,
}
impl Site {
    fn new(family: &str) -> Site {
        let folder = tempfile::tempdir().unwrap();
        let (server, face) = common::server(folder.path(), family);
        Site { folder, _server: server, face }
    }
    fn gateway(&self, label: &str, http: &str, origins: &str) -> Node {
        let more = format!("{}[http]\nlisten = \"127.0.0.1:0\"\n{http}{origins}", self.face);
        let config = config(self.folder.path(), label, r#""receiver", "sender""#, 0, &more);
        let (gateway, ready, lines) =
            begin(self.folder.path(), &["gateway", "--json", "--config", config.to_str().unwrap()]);
        let address = ready["address"].as_str().unwrap().parse().unwrap();
        Node { address, _gateway: gateway, _lines: lines }
    }
    fn path(&self) -> &Path {
        self.folder.path()
    }
}
impl Node {
    fn get(&self, path: &str) -> http::Answer {
        self.with(path, "")
    }
    fn with(&self, path: &str, fields: &str) -> http::Answer {
        http::ask(self.address, "GET", path, fields, "")
    }
    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}
fn origin_section(path: &str, url: &str, more: &str) -> String {
    format!("[[origin]]\npath = \"{path}\"\nurl = \"{url}\"\n{more}")
}
/// Bytes that look like nothing else.
fn noise(seed: u64, size: usize) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(size).collect()
}
fn status<'a>(answer: &'a http::Answer) -> (u16, &'a str) {
    (answer.status, answer.field("cache-status").unwrap_or_default())
}

/// The first bytes reach a client while the origin still holds the last ones; clients at the same time share that one
/// request, later ones need none, and a neighbour's gateway takes the copy.
#[test]
fn a_miss_is_streamed_shared_and_taken_by_neighbours() {
    let site = Site::new("psi");
    let (bytes, gate) = (noise(1, 3_000_000), Arc::<Gate>::default());
    let (body, closed) = (bytes.clone(), Arc::clone(&gate));
    let origin = Origin::start(move |_| Reply {
        gate: Some((1_000_000, Arc::clone(&closed))),
        ..Reply::new(200, &[("ETag", "\"1\""), ("Cache-Control", "max-age=600")], body.clone())
    });
    let section = origin_section("/files", &origin.url("/base"), "");
    let first = site.gateway("first", "", &section);
    let mut early = TcpStream::connect(first.address).unwrap();
    early.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(early, "GET /files/a.bin?x=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut begun = vec![0; 500_000];
    early.read_exact(&mut begun).unwrap();
    thread::scope(|scope| {
        let others: Vec<_> = (0..8).map(|_| scope.spawn(|| first.get("/files/a.bin?x=1"))).collect();
        gate.open();
        for other in others {
            let answer = other.join().unwrap();
            assert!(answer.status == 200 && answer.body == bytes, "{}", answer.head);
        }
    });
    early.read_to_end(&mut begun).unwrap();
    assert!(begun.ends_with(&bytes));
    let again = first.get("/files/a.bin?x=1");
    assert_eq!(status(&again), (200, "tributary; hit"));
    assert_eq!((again.field("etag"), again.field("tributary-verified")), (Some("\"1\""), Some("origin")));
    assert!(again.field("age").is_some());
    let part = first.with("/files/a.bin?x=1", "Range: bytes=1000-1999\r\n");
    assert!(part.status == 206 && part.body == bytes[1_000..2_000]);
    assert_eq!(first.with("/files/a.bin?x=1", "If-None-Match: \"1\"\r\n").status, 304);
    assert_eq!(origin.gets("/base/a.bin?x=1").len(), 1);

    let second = site.gateway("second", "", &section);
    until("the neighbour's copy", || {
        let answer = second.get("/files/a.bin?x=1");
        assert!(answer.body == bytes);
        // Until it is published, the origin is asked.
        status(&answer).1.contains("neighbour") || origin.gets("/base/").len() > 1
    });
    assert_eq!(origin.gets("/base/").len(), 1);
    assert_eq!(second.get("/files/a.bin?x=1").field("tributary-verified"), Some("publisher"));
}

/// What RFC 9111 demands, one rule after the other, at one gateway.
#[test]
fn copies_are_used_as_the_origin_permits() {
    let site = Site::new("psi");
    let (version, is_away) = (Arc::new(AtomicUsize::new(1)), Arc::new(AtomicBool::new(false)));
    let (of, away) = (Arc::clone(&version), Arc::clone(&is_away));
    let origin = Origin::start(move |asked| {
        if away.load(Ordering::SeqCst) {
            return Reply::new(503, &[("Retry-After", "3600")], "busy");
        }
        let tag = format!("\"{}\"", of.load(Ordering::SeqCst));
        let body = format!("{} {}", asked.target, of.load(Ordering::SeqCst));
        let control = match asked.target.split('/').nth(1).unwrap() {
            "stale" => "max-age=0",
            "strict" => "max-age=0, must-revalidate",
            "background" => "max-age=0, stale-while-revalidate=3600",
            "private" => "private, max-age=600",
            "public" => "public, max-age=600",
            "absent" => return Reply::new(404, &[], "nothing"),
            "vary" => {
                let fields = [("Vary", "Accept"), ("Cache-Control", "max-age=600")];
                return Reply::new(200, &fields, asked.field("accept").unwrap_or("none"));
            }
            _ => "max-age=600",
        };
        match asked.field("if-none-match") == Some(&tag) {
            true => Reply::new(304, &[("ETag", &tag), ("Cache-Control", control)], ""),
            false => Reply::new(200, &[("ETag", &tag), ("Cache-Control", control)], body),
        }
    });
    let node = site.gateway("node", "", &origin_section("/o", &origin.url(""), "peer_patience = \"0s\"\n"));
    let gets = |path: &str| origin.gets(path).len();

    // Stale copies are confirmed, and replaced once the origin has another version.
    assert_eq!(node.get("/o/stale/a").text(), "/stale/a 1");
    let confirmed = node.get("/o/stale/a");
    assert_eq!(
        (status(&confirmed), confirmed.text().as_str()),
        ((200, "tributary; fwd=stale; fwd-status=304"), "/stale/a 1")
    );
    node.get("/o/background/a");
    node.get("/o/strict/a");
    node.get("/o/fresh/a");
    version.store(2, Ordering::SeqCst);
    assert_eq!(node.get("/o/stale/a").text(), "/stale/a 2");
    assert_eq!(node.get("/o/fresh/a").text(), "/fresh/a 1");
    assert_eq!(node.with("/o/fresh/a", "Cache-Control: no-cache\r\n").text(), "/fresh/a 2");
    let late = node.get("/o/background/a");
    assert_eq!(
        (status(&late).1, late.text().as_str()),
        ("tributary; hit; detail=stale-while-revalidate", "/background/a 1")
    );
    until("the new version", || node.get("/o/background/a").text() == "/background/a 2");
    assert_eq!(node.with("/o/none/a", "Cache-Control: only-if-cached\r\n").status, 504);

    // Absent files are remembered; answers that depend on a field are kept for each of its values.
    assert_eq!((node.get("/o/absent/a").status, node.get("/o/absent/a").text().as_str()), (404, "nothing"));
    assert_eq!(gets("/absent"), 1);
    for _ in 0..2 {
        for kind in ["text/a", "text/b"] {
            assert_eq!(node.with("/o/vary/a", &format!("Accept: {kind}\r\n")).text(), kind);
        }
    }
    assert_eq!(gets("/vary"), 2);

    // Credentials go to the origin, whose answers are for their user unless they are public.
    let token = "Authorization: Bearer secret\r\n";
    for (path, asked) in [("private", 4), ("plain", 3), ("public", 1)] {
        let path = format!("/o/{path}/a");
        (0..2).for_each(|_| assert_eq!(node.with(&path, token).status, 200));
        (0..2).for_each(|_| assert_eq!(node.get(&path).status, 200));
        let all = gets(&path[2..]);
        assert_eq!(all, asked, "{path}");
    }
    assert!(origin.gets("/plain").iter().filter(|asked| asked.field("authorization").is_some()).count() == 2);

    // A busy origin is left alone for as long as it says, and copies serve meanwhile.
    is_away.store(true, Ordering::SeqCst);
    let before = origin.count();
    let refused = node.get("/o/new/a");
    let wait: u64 = refused.field("retry-after").unwrap().parse().unwrap();
    assert!(refused.status == 503 && (200..=301).contains(&wait), "{}", refused.head);
    assert_eq!(status(&node.get("/o/stale/a")), (200, "tributary; hit; detail=origin-away"));
    assert_eq!(node.get("/o/strict/a").status, 503);
    assert_eq!(node.get("/o/new/b").status, 503);
    assert_eq!(origin.count(), before + 1, "one request for all clients");
    assert_eq!(node.with("/o/x", "").status, 503);
    for trick in ["/o/../x", "/o/%2e%2e/x"] {
        assert_eq!(node.get(trick).status, 400, "{trick}");
    }
    assert_eq!(http::ask(node.address, "POST", "/o/x", "", "{}").status, 405);
}

/// The origin sends other bytes than the digest in the address promises: no client gets the last one. A cut is resumed, and
/// a redirect to an address that the config does not name is not followed.
#[test]
fn wrong_bytes_are_not_completed_and_cuts_are_resumed() {
    let site = Site::new("psi");
    let bytes = noise(2, 400_000);
    let digest = sha256(&bytes);
    let body = bytes.clone();
    let origin = Origin::start(move |asked| match &asked.target {
        target if target.starts_with("/wrong") => Reply::new(200, &[], noise(3, 400_000)),
        target if target.starts_with("/cut") && asked.field("range").is_none() => {
            Reply { cut: Some(150_000), ..Reply::new(200, &[("ETag", "\"c\"")], body.clone()) }
        }
        target if target.starts_with("/inside") => Reply::new(302, &[("Location", "http://127.0.0.2/secret")], ""),
        _ => Reply::new(200, &[("ETag", "\"c\"")], body.clone()).ranged(asked),
    });
    let node = site.gateway("node", "", &origin_section("/o", &origin.url(""), "kind = \"oci\"\n"));
    let wrong = node.get(&format!("/o/wrong/blobs/sha256:{digest}"));
    assert!(wrong.status == 200 && wrong.body.len() < 400_000, "{}", wrong.body.len());
    let right = node.get(&format!("/o/right/blobs/sha256:{digest}"));
    assert_eq!((right.field("tributary-verified"), right.body == bytes), (Some("digest"), true));
    let cut = node.get("/o/cut/x");
    assert!(cut.status == 200 && cut.body == bytes, "{}", cut.body.len());
    assert_eq!(origin.gets("/cut")[1].field("range"), Some("bytes=150000-"));
    let inside = node.get("/o/inside/x");
    assert!(inside.status == 502 && inside.text().contains("not public"), "{}", inside.text());
}
fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
/// Python with this module; its absence is printed, and fails the test with `TRIBUTARY_PEERS=required`.
fn python(module: &str) -> Option<String> {
    let python = std::env::var("TRIBUTARY_PYTHON").unwrap_or_else(|_| "python3".into());
    let import = Command::new(&python).args(["-c", &format!("import {module}")]).stderr(Stdio::null()).status();
    if import.is_ok_and(|status| status.success()) {
        return Some(python);
    }
    assert_ne!(std::env::var("TRIBUTARY_PEERS").as_deref(), Ok("required"), "{python} has no module {module}");
    let _ = writeln!(std::io::stderr(), "\nSKIPPED: {python} has no module {module}; `.ci/peers FOLDER` installs it");
    None
}
/// Runs a program that must succeed.
fn succeed(command: &mut Command) -> String {
    for variable in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env_remove(variable);
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        common::talk(&output),
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}


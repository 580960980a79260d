//! `[site]` over real daemons: gateways that fetch each file of an origin once together.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::clocks::{Clock, in_1971};
use crate::common::{
    self, Daemon, config, http,
    origin::{Gate, Origin, Reply},
    port, trib, until,
};
use crate::origins::{noise, origin_section, sha256};
use crate::roles::{admit, authority, network};

/// A gateway of a site.
struct Member {
    address: SocketAddr,
    at: u16,
    _daemon: Daemon,
}
impl Member {
    /// Starts one at this port, with this `[site]` and these members.
    fn start(folder: &Path, label: &str, at: u16, peers: &[String], site: &str, more: &str) -> Member {
        Member::start_with(&mut trib(folder), folder, label, at, peers, (site, more))
    }
    fn start_with(
        command: &mut Command,
        folder: &Path,
        label: &str,
        at: u16,
        peers: &[String],
        (site, more): (&str, &str),
    ) -> Member {
        let peers = if peers.is_empty() { String::new() } else { format!("peers = {peers:?}\n") };
        let more = format!("family = \"ndn\"\n[http]\nlisten = \"127.0.0.1:0\"\n[site]\n{site}{peers}{more}");
        let config = config(folder, label, r#""receiver", "sender""#, at, &more);
        let (daemon, ready) = Daemon::start_with(command, &config);
        let address = ready["http"].as_str().unwrap().parse().unwrap();
        Member { address, at, _daemon: daemon }
    }
    /// A site of `count` gateways, which all know the first one.
    fn site(folder: &Path, count: usize, more: &str) -> Vec<Member> {
        let mut all = vec![Member::start(folder, "m0", port(), &[], OPEN, more)];
        let first = [format!("127.0.0.1:{}", all[0].at)];
        let start = |number: usize| Member::start(folder, &format!("m{number}"), port(), &first, OPEN, more);
        all.extend((1..count).map(start));
        until("the site", || all.iter().all(|member| member.members() == count - 1));
        all
    }
    fn get(&self, path: &str) -> http::Answer {
        http::ask(self.address, "GET", path, "", "")
    }
    fn metric(&self, name: &str, label: &str) -> Option<f64> {
        let text = self.get("/metrics").text();
        let line = text.lines().find(|line| line.starts_with(name) && line.contains(label))?;
        line.rsplit(' ').next()?.parse().ok()
    }
    fn members(&self) -> usize {
        self.metric("tributary_site_members", "").map_or(0, |members| members as usize)
    }
    /// Reads the head of an answer, and leaves the rest.
    fn begin(&self, path: &str) -> (String, TcpStream) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        (String::from_utf8(head).unwrap(), stream)
    }
    /// The keys that the neighbours of its node have proven.
    fn faces(&self) -> BTreeSet<String> {
        let status = self.get("/api/v1/status").json();
        let faces = status["faces"].as_array().unwrap().iter().filter(|face| face["up"] == true);
        faces.filter_map(|face| Some(face["key"].as_str()?.to_string())).collect()
    }
}
const OPEN: &str = "access = \"open\"\ndiscovery = false\n";
const CLOSED: &str = "discovery = false\n";
const FRESH: (&str, &str) = ("Cache-Control", "max-age=600");

/// Ten gateways miss a large file and many small ones in the same moment: one request for each reaches the origin, and
/// all answers have its bytes. A request for a head reaches it once too.
#[test]
fn concurrent_misses_of_a_site_are_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let large = noise(11, 12_000_000);
    let (body, gate) = (large.clone(), Arc::<Gate>::default());
    let closed = Arc::clone(&gate);
    let origin = Origin::start(move |asked| match asked.target.as_str() {
        "/large" => Reply {
            gate: Some((9_000_000, Arc::clone(&closed))),
            ..Reply::new(200, &[("ETag", "\"l\""), ("Cache-Control", "max-age=600")], body.clone())
        },
        target => Reply::new(200, &[("Cache-Control", "max-age=600")], format!("the file {target}")),
    });
    let all = Member::site(folder.path(), 10, &origin_section("/o", &origin.url(""), ""));
    thread::scope(|scope| {
        let readers: Vec<_> = all.iter().map(|member| scope.spawn(|| member.get("/o/large"))).collect();
        until("all readers", || {
            all.iter().all(|member| member.metric("tributary_http_connections", "").unwrap() >= 2.0)
        });
        gate.open();
        for reader in readers {
            let answer = reader.join().unwrap();
            assert!(answer.status == 200 && answer.body == large, "{}", answer.head);
        }
    });
    assert_eq!(origin.gets("/large").len(), 1);
    thread::scope(|scope| {
        for member in &all {
            scope.spawn(|| {
                for file in 0..40 {
                    let answer = member.get(&format!("/o/small/{file}"));
                    assert_eq!(answer.text(), format!("the file /small/{file}"), "{}", answer.head);
                }
            });
        }
    });
    assert_eq!(origin.gets("/small").len(), 40);
    let before = origin.count();
    assert!(all.iter().all(|member| http::ask(member.address, "HEAD", "/o/head", "", "").status == 200));
    assert_eq!(origin.count() - before, 1);
    let of = |from: &str| -> f64 {
        let label = format!("from=\"{from}\"");
        all.iter().filter_map(|member| member.metric("tributary_origin_bytes_total", &label)).sum()
    };
    assert!(of("origin") < 12_100_000.0 && of("site") > 9.0 * 12_000_000.0, "{} {}", of("origin"), of("site"));
}

/// The member that reads a file from the origin is killed in between: another one requests the rest, and the clients of
/// the others notice nothing. Then the origin is busy: one request tells the whole site, and copies serve.
#[test]
fn a_killed_member_and_a_busy_origin_change_nothing_for_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let (large, gate) = (noise(12, 12_000_000), Arc::<Gate>::default());
    let (body, closed, requests) = (large.clone(), Arc::clone(&gate), AtomicUsize::new(0));
    let is_busy = Arc::<AtomicBool>::default();
    let busy = Arc::clone(&is_busy);
    let origin = Origin::start(move |asked| match asked.target.as_str() {
        _ if busy.load(Ordering::SeqCst) => Reply::new(429, &[("Retry-After", "60")], "slowly"),
        "/large" => {
            let first = requests.fetch_add(1, Ordering::SeqCst) == 0;
            let reply = Reply::new(200, &[("ETag", "\"l\""), FRESH], body.clone()).ranged(asked);
            Reply { gate: first.then(|| (9_000_000, Arc::clone(&closed))), ..reply }
        }
        target => Reply::new(200, &[("Cache-Control", "max-age=0")], format!("the file {target}")),
    });
    let mut all = Member::site(folder.path(), 4, &origin_section("/o", &origin.url(""), ""));
    assert!(all.iter().all(|member| member.get("/o/old").text() == "the file /old"));
    let mut readers: Vec<_> = all.iter().map(|member| member.begin("/o/large")).collect();
    let first = readers.iter().position(|(head, _)| !head.contains("detail=site")).unwrap();
    assert_eq!(readers.iter().filter(|(head, _)| head.contains("detail=site")).count(), 3);
    // All have some bytes.
    for (_, stream) in &mut readers {
        stream.read_exact(&mut [0; 1_000_000]).unwrap();
    }
    drop((all.remove(first), readers.remove(first)));
    for (_, mut stream) in readers {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert!(rest == large[1_000_000..], "{} bytes", rest.len());
    }
    gate.open();
    let asked = origin.gets("/large");
    assert!(asked.len() == 2 && asked[1].field("range").is_some_and(|range| range.starts_with("bytes=")), "{asked:?}");

    is_busy.store(true, Ordering::SeqCst);
    let before = origin.count();
    for member in &all {
        let refused = member.get("/o/new");
        let wait: u64 = refused.field("retry-after").unwrap().parse().unwrap();
        assert!(refused.status == 503 && (50..=61).contains(&wait), "{}", refused.head);
    }
    for (number, member) in all.iter().enumerate() {
        assert_eq!(member.get(&format!("/o/other/{number}")).status, 503);
        let old = member.get("/o/old");
        assert_eq!((old.status, old.text().as_str()), (200, "the file /old"), "{}", old.head);
    }
    assert_eq!(origin.count(), before + 1, "one request of the whole site");
}

/// A member whose disk lies sends other bytes than the digest in the path promises: its readers' clients get no complete
/// file, and then the right one. Credentials stay with their user.
#[test]
fn lies_are_refused_and_credentials_stay_with_their_user() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = noise(13, 300_000);
    let (digest, body) = (sha256(&bytes), bytes.clone());
    let origin = Origin::start(move |asked| match asked.field("authorization") {
        _ if asked.target.contains("blobs") => Reply::new(200, &[FRESH], body.clone()),
        Some(user) => Reply::new(200, &[FRESH], format!("for {user}")),
        None => Reply::new(401, &[], "who are you?"),
    });
    let section = origin_section("/o", &origin.url(""), "kind = \"oci\"\npeer_patience = \"0s\"\n");
    let all = Member::site(folder.path(), 2, &section);
    let path = format!("/o/blobs/sha256:{digest}");
    // The first member in the order of the file has it now, and the other one asks that member.
    let files = |number: usize| folder.path().join(format!("m{number}/http/{digest}.data"));
    assert!(all[0].get(&path).body == bytes);
    until("a copy", || files(0).exists() || files(1).exists());
    assert_eq!(origin.gets("/blobs").len(), 1);
    let liar = if files(1).exists() { 1 } else { 0 };
    let reader = 1 - liar;
    std::fs::write(files(liar), noise(14, 300_000)).unwrap();
    let _ = std::fs::remove_file(files(reader));
    let cut = all[reader].get(&path);
    assert!(cut.status == 200 && cut.body.len() < 300_000, "{} bytes", cut.body.len());
    until("the right bytes", || all[reader].get(&path).body == bytes);
    for user in ["Basic YTpi", "Basic YzpkCg=="] {
        for member in &all {
            let answer = http::ask(member.address, "GET", "/o/private", &format!("Authorization: {user}\r\n"), "");
            assert_eq!(answer.text(), format!("for {user}"));
        }
    }
    assert!(all.iter().all(|member| member.get("/o/private").status == 401));
}

/// Only invited gateways are in a closed site: an outsider at the same segment learns nothing, and its requests to
/// members are refused.
#[test]
fn an_outsider_is_not_in_a_closed_site() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(|asked| Reply::new(200, &[FRESH], format!("the file {}", asked.target)));
    let more = origin_section("/o", &origin.url(""), "");
    let ports: Vec<u16> = (0..2).map(|_| port()).collect();
    let invitations: Vec<String> = (0..2)
        .map(|number| {
            let key = folder.path().join(format!("m{number}/key"));
            std::fs::create_dir(key.parent().unwrap()).unwrap();
            let made = common::run(folder.path(), &["key", "new", key.to_str().unwrap()]);
            let key = String::from_utf8(made.stdout).unwrap();
            format!("trib://{}@127.0.0.1:{}", key.trim().trim_start_matches("ed25519:"), ports[number])
        })
        .collect();
    let start = |number: usize| {
        let peer = std::slice::from_ref(&invitations[1 - number]);
        Member::start(folder.path(), &format!("m{number}"), ports[number], peer, CLOSED, &more)
    };
    let members: Vec<Member> = (0..2).map(start).collect();
    let addresses: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let outsider = Member::start(folder.path(), "outsider", port(), &addresses, OPEN, &more);
    until("the site", || members.iter().all(|member| member.members() == 1));
    for file in 0..20 {
        assert_eq!(members[0].get(&format!("/o/{file}")).text(), format!("the file /{file}"));
        assert_eq!(members[1].get(&format!("/o/{file}")).status, 200);
        assert_eq!(outsider.get(&format!("/o/{file}")).status, 200);
    }
    assert_eq!(origin.gets("/").len(), 40, "the outsider asks the origin itself");
    assert_eq!((outsider.members(), members[0].members()), (0, 1));
    until("their faces", || members.iter().all(|member| member.faces().len() == 1));
}

/// In a closed site of a network, a gateway joins as soon as the authority has admitted it, without a restart; one that
/// the authority has not admitted stays outside.
#[test]
fn gateways_join_a_closed_site_once_their_authority_admits_them() {
    let folder = tempfile::tempdir().unwrap();
    let more = network(&authority(folder.path(), "network"), "");
    let first = Member::start(folder.path(), "m0", port(), &[], CLOSED, &more);
    let peer = [format!("127.0.0.1:{}", first.at)];
    let [second, outsider] =
        ["m1", "m2"].map(|label| Member::start(folder.path(), label, port(), &peer, CLOSED, &more));
    ["m0", "m1"].iter().for_each(|label| drop(admit(folder.path(), &folder.path().join(format!("{label}.toml")), &[])));
    until("the site", || first.members() == 1 && second.members() == 1);
    assert_eq!(outsider.members(), 0);
}

/// Gateways find each other by multicast, each its own site, with protected faces between their nodes; a copy that is
/// complete comes from neighbours by its name; and one that leaves is forgotten.
#[test]
fn gateways_of_a_segment_find_their_site_by_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let large = noise(15, 10_000_000);
    let body = large.clone();
    let origin = Origin::start(move |_| Reply::new(200, &[("ETag", "\"l\""), FRESH], body.clone()));
    let more = origin_section("/o", &origin.url(""), "peer_patience = \"5s\"\n");
    let start = |label: &str, site: &str| {
        let site = format!("access = \"open\"\nname = \"{site}-{}\"\n", std::process::id());
        Member::start(folder.path(), label, port(), &[], &site, &more)
    };
    let others = [start("x0", "x"), start("x1", "x")];
    #[expect(clippy::disallowed_methods, reason = "the time is printed")]
    let begun = Instant::now();
    let mut all: Vec<Member> = (0..3).map(|number| start(&format!("y{number}"), "y")).collect();
    until("the sites", || all.iter().all(|of| of.members() == 2) && others.iter().all(|of| of.members() == 1));
    let _ = writeln!(std::io::stderr(), "the sites were complete after {:?}", begun.elapsed());
    assert!(all[..2].iter().all(|member| member.get("/o/large").body == large));
    let answer = all[2].get("/o/large");
    assert!(answer.body == large, "{}", answer.head);
    assert_eq!(origin.gets("/").len(), 1);
    until("their faces", || all.iter().all(|member| member.faces().len() == 2));
    drop(all.pop());
    until("one is forgotten", || all.iter().all(|member| member.members() == 1));
}

/// Members with clocks in 1971 and a day ahead ask each other as the others do, and their copies are as fresh.
#[test]
fn clocks_of_members_may_differ() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(|asked| Reply::new(200, &[FRESH], format!("the file {}", asked.target)));
    let more = origin_section("/o", &origin.url(""), "");
    let first = Member::start(folder.path(), "m0", port(), &[], OPEN, &more);
    let peer = [format!("127.0.0.1:{}", first.at)];
    let shifted = [("m1", in_1971()), ("m2", 86_400)].map(|(label, seconds)| {
        let clock = Clock::new(folder.path(), &format!("shift-{label}"), seconds);
        let mut command = trib(folder.path());
        Member::start_with(command.envs(clock.0), folder.path(), label, port(), &peer, (OPEN, &more))
    });
    let all: Vec<&Member> = [&first].into_iter().chain(&shifted).collect();
    until("the site", || all.iter().all(|member| member.members() == 2));
    for file in 0..30 {
        for member in &all {
            let answer = member.get(&format!("/o/{file}"));
            assert_eq!(answer.text(), format!("the file /{file}"), "{}", answer.head);
            assert!(answer.field("age").unwrap().parse::<u64>().unwrap() < 60, "{}", answer.head);
        }
    }
    assert_eq!(origin.gets("/").len(), 30);
}

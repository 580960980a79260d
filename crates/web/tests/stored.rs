//! A resolver's records in a real etcd cluster, where the watch of its changes is held up.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "a real cluster takes the time that it takes")]
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use base64ct::{Base64, Encoding};
use tributary_content::SigningKey;
use tributary_core::Time;
use tributary_mf::{
    NameMessage, NameRecord, Readers, RecordBody, Statement,
    ids::{Guid, NetworkAddress},
    resolver::{Asker, Records, Stored},
    wire::Refusal,
};
use tributary_testkit::etcd::{EtcdCluster, is_installed};
use tributary_web::{
    Url,
    etcd::{Etcd, EtcdOptions},
};

/// Passes requests on to a member, and holds up the answers of watches on command.
struct Proxy {
    endpoint: String,
    holds: Arc<AtomicBool>,
}

impl Proxy {
    fn new(member: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let holds = Arc::new(AtomicBool::new(false));
        let (member, held) = (member.trim_start_matches("http://").to_string(), Arc::clone(&holds));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (member, held) = (TcpStream::connect(&member).unwrap(), Arc::clone(&held));
                let watches = Arc::new(AtomicBool::new(false));
                let back = (member.try_clone().unwrap(), client.try_clone().unwrap());
                let is_watch = Arc::clone(&watches);
                thread::spawn(move || {
                    pass(client, member, |bytes| {
                        watches.fetch_or(bytes.starts_with(b"POST /v3/watch"), Ordering::Relaxed);
                    })
                });
                thread::spawn(move || {
                    pass(back.0, back.1, |_| {
                        while is_watch.load(Ordering::Relaxed) && held.load(Ordering::Relaxed) {
                            thread::sleep(Duration::from_millis(20));
                        }
                    })
                });
            }
        });
        Proxy { endpoint, holds }
    }
    fn holds(&self, holds: bool) {
        self.holds.store(holds, Ordering::Relaxed);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, before: impl Fn(&[u8])) {
    let mut buffer = [0; 16_384];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        before(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

struct Resolver {
    stored: Stored,
    bell: mpsc::Receiver<()>,
    clock: Instant,
    notes: Vec<String>,
}

impl Resolver {
    fn new(endpoint: &str, seed: u64) -> Resolver {
        let (ring, bell) = mpsc::channel();
        let options = EtcdOptions::new(vec![Url::parse(endpoint).unwrap()], "/test/");
        let engine = Etcd::start(&options, move || {
            let _ = ring.send(());
        })
        .unwrap();
        let stored = Stored::new(Box::new(engine), 10_000, seed);
        let mut resolver = Resolver { stored, bell, clock: Instant::now(), notes: Vec::new() };
        let begun = Instant::now();
        while !matches!(resolver.look_up(device(99)), NameMessage::Found { .. }) {
            assert!(begun.elapsed() < Duration::from_secs(10), "it begins");
            thread::sleep(Duration::from_millis(50));
        }
        resolver
    }
    fn now(&self) -> Time {
        Time::ZERO + self.clock.elapsed()
    }
    fn turn(&mut self) {
        let _ = self.bell.recv_timeout(Duration::from_millis(10));
        let now = self.now();
        self.stored.settle(now);
        self.stored.handle_timeout(now);
        self.notes.extend(core::iter::from_fn(|| self.stored.poll_note()));
    }
    fn ask(&mut self, message: NameMessage) -> NameMessage {
        let asker = Asker { guid: device(98), address: NetworkAddress(1) };
        let now = self.now();
        self.stored.handle(now, asker, message);
        let begun = Instant::now();
        loop {
            self.turn();
            match self.stored.poll_message() {
                Some((_, NameMessage::Notify { .. })) => {}
                Some((_, answer)) => return answer,
                None => assert!(begun.elapsed() < Duration::from_secs(5), "it is answered"),
            }
        }
    }
    fn look_up(&mut self, place: Guid) -> NameMessage {
        self.ask(NameMessage::Lookup { request: 1, place })
    }
    fn finds(&mut self, place: Guid) -> usize {
        match self.look_up(place) {
            NameMessage::Found { records, .. } => records.len(),
            other => panic!("{other:?}"),
        }
    }
    fn put(&mut self, owner: u8, version: u64) {
        let record = signed(owner, version).encode();
        let put = NameMessage::Put { request: 2, place: device(owner), record };
        assert_eq!(self.ask(put), NameMessage::Done { request: 2, replicas: 1 });
    }
}

fn key(number: u8) -> SigningKey {
    SigningKey::from_secret(&[number; 32])
}
fn device(number: u8) -> Guid {
    Guid::of(&key(number).public(), b"")
}
fn signed(owner: u8, version: u64) -> NameRecord {
    let statement = Statement {
        key: key(owner).public(),
        version,
        lifetime_ms: 30_000,
        ends: None,
        label: "host".into(),
        body: RecordBody::Device(vec![(NetworkAddress(7), 255)]),
        readers: Readers::All,
    };
    NameRecord::sign(statement, &key(owner)).unwrap()
}

#[test]
fn who_is_there_is_asked_when_no_change_has_told_it_and_without_a_watch_questions_are_refused() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cluster = EtcdCluster::start(1, folder.path());
    let proxy = Proxy::new(&cluster.endpoints()[0]);
    let (mut one, mut other) = (Resolver::new(&cluster.endpoints()[0], 1), Resolver::new(&proxy.endpoint, 2));
    one.put(1, 1);
    assert_eq!(other.finds(device(1)), 1);
    proxy.holds(true);
    one.put(2, 1);
    assert_eq!(other.finds(device(2)), 1, "no change has told it of this device");
    let watch = NameMessage::Watch { request: 3, place: device(2), lease_ms: 60_000, known: 0 };
    assert!(matches!(other.ask(watch), NameMessage::Found { records, .. } if records.len() == 1));

    let (begun, refused) = (Instant::now(), NameMessage::Refused { request: 1, refusal: Refusal::Engine });
    while other.look_up(device(1)) != refused {
        assert!(begun.elapsed() < Duration::from_secs(12), "changes are not told");
        thread::sleep(Duration::from_millis(100));
    }
    assert!(begun.elapsed() > Duration::from_secs(2), "an election may take a while: {:?}", begun.elapsed());
    let watch = NameMessage::Watch { request: 1, place: device(1), lease_ms: 60_000, known: 0 };
    assert_eq!(other.ask(watch), refused);
    while !other.notes.iter().any(|note| note.contains("no watch has worked for 5 s")) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", other.notes);
        other.turn();
    }
    assert!(other.stored.state().contains("reports no changes"));
    // Puts continue to work.
    other.put(3, 1);

    proxy.holds(false);
    let begun = Instant::now();
    while other.look_up(device(1)) == refused {
        assert!(begun.elapsed() < Duration::from_secs(20), "changes are told again");
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!((other.finds(device(1)), other.finds(device(3))), (1, 1));
    assert_eq!(other.stored.state(), "in use");
}

#[test]
fn a_flood_of_changes_is_taken_in_rounds() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cluster = EtcdCluster::start(1, folder.path());
    let mut resolver = Resolver::new(&cluster.endpoints()[0], 1);
    let text = |bytes: &str| Base64::encode_string(bytes.as_bytes());
    for part in 0..60 {
        let put = |number: u32| {
            let key = text(&format!("/test/a/{:040x}", part * 100 + number));
            format!(r#"{{"request_put":{{"key":"{key}"}}}}"#)
        };
        let puts: Vec<String> = (0..100).map(put).collect();
        let answer = cluster.post(0, "kv/txn", &format!(r#"{{"success":[{}]}}"#, puts.join(",")));
        assert!(answer.contains("succeeded"), "{answer}");
    }
    // They are all there by now.
    thread::sleep(Duration::from_secs(1));
    let (now, before) = (resolver.now(), resolver.stored.stats().changes);
    (0..5).for_each(|_| resolver.stored.settle(now));
    let taken = resolver.stored.stats().changes - before;
    assert!((1..=1_024).contains(&taken), "{taken} at once");
    assert_eq!(resolver.stored.poll_timeout(), Some(now), "the next round begins at once");
    let begun = Instant::now();
    while resolver.stored.stats().changes < before + 6_000 {
        assert!(begun.elapsed() < Duration::from_secs(10), "{}", resolver.stored.stats().changes);
        resolver.turn();
    }
    assert_eq!(resolver.stored.size().2, 6_000);
}

#[test]
fn a_full_cluster_refuses_what_is_new_by_its_own_name_and_finds_what_is_there() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let more = ["--quota-backend-bytes", "1000000"].map(String::from);
    let cluster = EtcdCluster::with(1, folder.path(), "http", &more);
    let mut resolver = Resolver::new(&cluster.endpoints()[0], 1);
    resolver.put(1, 1);
    let filler = Base64::encode_string(&[0; 60_000]);
    for number in 0..200 {
        let key = Base64::encode_string(format!("/other/{number}").as_bytes());
        let answer = cluster.post(0, "kv/put", &format!(r#"{{"key":"{key}","value":"{filler}"}}"#));
        if answer.contains("space exceeded") {
            break;
        }
    }
    let put = NameMessage::Put { request: 2, place: device(2), record: signed(2, 1).encode() };
    let answer = resolver.ask(put);
    assert_eq!(answer, NameMessage::Refused { request: 2, refusal: Refusal::EngineFull });
    assert!(Refusal::EngineFull.reason().contains("quota"));
    assert_eq!(resolver.stored.state(), "full: keeps nothing new");
    resolver.turn();
    assert!(resolver.notes.iter().any(|note| note.contains("etcd is full")), "{:?}", resolver.notes);
    assert_eq!(resolver.finds(device(1)), 1);
}

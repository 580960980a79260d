//! The client of etcd against a real cluster on loopback: its guarantees while members fail.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "a real cluster takes the time that it takes")]
use std::{
    collections::BTreeMap,
    sync::mpsc,
    time::{Duration, Instant},
};

use tributary_directory::engine::{Answer, Before, Change, Engine, Entry, If, Lease, Priority, Request};
use tributary_testkit::etcd::{EtcdCluster, is_installed};
use tributary_web::{
    Url,
    etcd::{Etcd, EtcdOptions},
};

const LONG: Lease = Lease { id: 7, seconds: 600 };

/// A client, and its notices.
struct Client {
    etcd: Etcd,
    bell: mpsc::Receiver<()>,
    next: u64,
    answers: BTreeMap<u64, Answer>,
    news: Vec<Answer>,
    /// The numbers of answers, in order of arrival.
    order: Vec<u64>,
}

impl Client {
    fn new(endpoints: &[String]) -> Client {
        let endpoints = endpoints.iter().map(|endpoint| Url::parse(endpoint).unwrap()).collect();
        Client::with(&EtcdOptions::new(endpoints, "/test/"))
    }
    fn with(options: &EtcdOptions) -> Client {
        let (ring, bell) = mpsc::channel();
        let etcd = Etcd::start(options, move || {
            let _ = ring.send(());
        })
        .unwrap();
        Client { etcd, bell, next: 0, answers: BTreeMap::new(), news: Vec::new(), order: Vec::new() }
    }
    fn turn(&mut self) {
        let _ = self.bell.recv_timeout(Duration::from_millis(20));
        while let Some(answer) = self.etcd.poll() {
            match answer.id() {
                Some(id) => {
                    self.order.push(id);
                    self.answers.insert(id, answer);
                }
                None => self.news.push(answer),
            }
        }
    }
    fn begin(&mut self, request: impl FnOnce(u64) -> Request) -> u64 {
        self.begin_as(Priority::Question, request)
    }
    fn begin_as(&mut self, priority: Priority, request: impl FnOnce(u64) -> Request) -> u64 {
        self.next += 1;
        self.etcd.ask(request(self.next), priority);
        self.next
    }
    fn ask(&mut self, request: impl FnOnce(u64) -> Request) -> Answer {
        let id = self.begin(request);
        let begun = Instant::now();
        loop {
            if let Some(answer) = self.answers.remove(&id) {
                return answer;
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "each request is answered");
            self.turn();
        }
    }
    fn put(&mut self, key: &str, version: u64, value: &str) -> Answer {
        self.put_if(key, version, value, If::Below(version))
    }
    fn put_if(&mut self, key: &str, version: u64, value: &str, when: If) -> Answer {
        // A busy machine's disk may take longer than a member has for an answer; a repeated put changes nothing.
        let mut answer = self.put_once(key, version, value, when);
        for _ in 0..5 {
            if !matches!(&answer, Answer::Failed { reason, .. } if reason.contains("too slow") || reason.contains("in time"))
            {
                break;
            }
            answer = self.put_once(key, version, value, when);
        }
        answer
    }
    fn put_once(&mut self, key: &str, version: u64, value: &str, when: If) -> Answer {
        self.ask(|id| Request::Put { id, entry: entry(key, version, value), when, lease: LONG })
    }
    fn list(&mut self, count: u32) -> (Vec<Entry>, bool) {
        match self.ask(|id| Request::List { id, from: b"r/".to_vec(), to: b"r0".to_vec(), count, at: None }) {
            Answer::Listed { entries, more, .. } => (entries, more),
            other => panic!("{other:?}"),
        }
    }
    /// Waits until a notice has arrived.
    fn until(&mut self, what: &str, is_it: impl Fn(&Client) -> bool) {
        let begun = Instant::now();
        while !is_it(self) {
            assert!(begun.elapsed() < Duration::from_secs(20), "{what}: {:?}", self.news);
            self.turn();
        }
    }
    /// The versions of a key in its notices, in order.
    fn versions(&self, of: &str) -> Vec<u64> {
        let version = |answer: &Answer| match answer {
            Answer::Changed(Change { key, after: Some(after), .. }) if key == of.as_bytes() => Some(after.version),
            _ => None,
        };
        self.news.iter().filter_map(version).collect()
    }
    fn restarts(&self) -> usize {
        self.news.iter().filter(|answer| matches!(answer, Answer::Restarted { .. })).count()
    }
}

fn entry(key: &str, version: u64, value: &str) -> Entry {
    Entry { key: key.as_bytes().to_vec(), version, value: value.as_bytes().to_vec() }
}

#[test]
fn an_older_record_replaces_no_newer_one_and_a_repeated_one_changes_nothing() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cluster = EtcdCluster::start(1, folder.path());
    let (mut one, mut other) = (Client::new(&cluster.endpoints()), Client::new(&cluster.endpoints()));
    one.until("it begins", |client| client.restarts() == 1);
    assert!(matches!(one.put("r/a", 5, "five"), Answer::Stored { .. }));
    assert!(matches!(other.put("r/a", 5, "five"), Answer::Stored { is_new: false, .. }), "it is there already");
    for (version, value) in [(4, "four"), (5, "another"), (0, "")] {
        let Answer::Stale { entry: there, .. } = other.put("r/a", version, value) else { panic!("{version}") };
        assert_eq!(there, Some(entry("r/a", 5, "five")));
    }
    assert!(matches!(other.put("r/a", 6, "six"), Answer::Stored { .. }));
    assert!(matches!(other.put("r/b", 1 << 60, "much later"), Answer::Stored { .. }));
    one.until("changes", |client| client.versions("r/b") == [1 << 60]);
    assert_eq!(one.versions("r/a"), [5, 6], "what is stored already is no change");
    let before = one.news.iter().filter_map(|answer| match answer {
        Answer::Changed(Change { before, .. }) => Some(before.clone()),
        _ => None,
    });
    let expected = [Before::Nothing, Before::Entry(entry("r/a", 5, "five")), Before::Nothing];
    assert_eq!(before.collect::<Vec<_>>(), expected);
    let (first, more) = one.list(1);
    assert_eq!((first, more), (vec![entry("r/a", 6, "six")], true));
    assert_eq!(one.list(2).0.len(), 2);
    // A put that replaces any version replaces the record that was read, and no later one.
    let Answer::Stale { revision, .. } = one.put("r/b", 2, "mine") else { panic!("a later one is there") };
    let unchanged = If::Unchanged(revision);
    assert!(matches!(one.put_if("r/b", 2, "mine", unchanged), Answer::Stored { is_new: true, .. }));
    assert_eq!(one.list(9).0[1], entry("r/b", 2, "mine"));
    let Answer::Stale { entry: there, .. } = other.put_if("r/b", 1, "another", unchanged) else { panic!("it changed") };
    assert_eq!(there, Some(entry("r/b", 2, "mine")));
    let nothing = other.put_if("r/c", 1, "x", If::Unchanged(1));
    assert!(matches!(nothing, Answer::Stale { entry: None, .. }), "{nothing:?}");
    assert!(matches!(one.put_if("r/b", 0, "any", If::Always), Answer::Stored { .. }));
}

#[test]
fn what_nobody_renews_goes_and_what_is_renewed_stays() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cluster = EtcdCluster::start(1, folder.path());
    let mut client = Client::new(&cluster.endpoints());
    client.until("it begins", |client| client.restarts() == 1);
    let (short, kept) = (Lease { id: 1, seconds: 2 }, Lease { id: 2, seconds: 2 });
    for (key, lease) in [("r/short", short), ("r/kept", kept)] {
        let put = |id| Request::Put { id, entry: entry(key, 1, "x"), when: If::Below(1), lease };
        assert!(matches!(client.ask(put), Answer::Stored { .. }));
    }
    let gone = |client: &Client, of: &str| {
        client.news.iter().any(|answer| {
            matches!(answer, Answer::Changed(Change { key, after: None, before: Before::Entry(_), .. }) if key == of.as_bytes())
        })
    };
    let begun = Instant::now();
    while !gone(&client, "r/short") {
        assert!(begun.elapsed() < Duration::from_secs(12), "a lease ends");
        assert!(matches!(client.ask(|id| Request::Renew { id, lease: kept }), Answer::Renewed { is_alive: true, .. }));
        client.turn();
        std::thread::sleep(Duration::from_millis(300));
    }
    assert!(!gone(&client, "r/kept"));
    assert!(matches!(client.ask(|id| Request::Renew { id, lease: short }), Answer::Renewed { is_alive: false, .. }));
    let again = |id| Request::Put { id, entry: entry("r/short", 1, "x"), when: If::Below(1), lease: short };
    assert!(matches!(client.ask(again), Answer::Stored { .. }), "a lease that has ended is made again");
}

/// Puts versions of a key, each after the previous one was stored, and calls `meanwhile` once some are; returns the
/// acknowledged ones.
fn put_through(client: &mut Client, mut meanwhile: impl FnMut(u64)) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    for version in 1..=300 {
        meanwhile(version);
        if let Answer::Stored { .. } = client.put("r/moving", version, "x") {
            acknowledged.push(version);
        }
    }
    acknowledged
}

#[test]
fn what_was_acknowledged_outlives_the_leader_and_every_change_is_told_once() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = EtcdCluster::start(3, folder.path());
    let (mut writer, mut watcher) = (Client::new(&cluster.endpoints()), Client::new(&cluster.endpoints()));
    watcher.until("it begins", |client| client.restarts() == 1);
    let acknowledged = put_through(&mut writer, |version| {
        if version == 100 {
            let leader = cluster.leader().unwrap();
            cluster.kill(leader);
        }
    });
    assert!(acknowledged.len() > 290, "an election takes a second or two: {}", acknowledged.len());
    watcher.until("the last one", |client| client.versions("r/moving").last() == acknowledged.last());
    let news = watcher.versions("r/moving");
    assert!(acknowledged.iter().all(|version| news.contains(version)), "{news:?}");
    assert!(news.is_sorted_by(|a, b| a < b), "each once, in order: {news:?}");
    assert_eq!(watcher.restarts(), 1, "nothing had to be read anew");
    assert_eq!(watcher.list(9).0[0].version, *acknowledged.last().unwrap());
}

#[test]
fn a_member_that_stands_still_is_left_by_requests_and_by_the_watch() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cluster = EtcdCluster::start(3, folder.path());
    // The client tries its first endpoint first; a follower hangs.
    let still = (cluster.leader().unwrap() + 1) % 3;
    let mut endpoints = cluster.endpoints();
    endpoints.rotate_left(still);
    let mut client = Client::new(&endpoints);
    client.until("it begins", |client| client.restarts() == 1);
    cluster.stop(still, true);
    let begun = Instant::now();
    let acknowledged = put_through(&mut client, |_| {});
    assert_eq!(acknowledged.len(), 300);
    client.until("all", |client| client.versions("r/moving").len() == 300);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert_eq!(client.restarts(), 1);
    cluster.stop(still, false);
}

#[test]
fn without_a_majority_nothing_is_acknowledged_and_nothing_is_lost() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = EtcdCluster::start(3, folder.path());
    let mut client = Client::new(&cluster.endpoints());
    client.until("it begins", |client| client.restarts() == 1);
    assert!(matches!(client.put("r/before", 1, "x"), Answer::Stored { .. }));
    let leader = cluster.leader().unwrap();
    let lost = [leader, (leader + 1) % 3];
    lost.into_iter().for_each(|at| cluster.kill(at));
    let begun = Instant::now();
    let Answer::Failed { reason, .. } = client.put("r/meanwhile", 1, "x") else { panic!("there is no majority") };
    assert!(begun.elapsed() < Duration::from_secs(15) && !reason.is_empty(), "{reason}: {:?}", begun.elapsed());
    let read = client.ask(|id| Request::List { id, from: b"r/".to_vec(), to: b"r0".to_vec(), count: 9, at: None });
    assert!(matches!(read, Answer::Failed { .. }), "what is there is not known: {read:?}");
    lost.into_iter().for_each(|at| cluster.restart(at));
    cluster.wait();
    assert!(matches!(client.put("r/after", 1, "x"), Answer::Stored { .. }));
    let keys: Vec<Vec<u8>> = client.list(9).0.into_iter().map(|entry| entry.key).collect();
    assert!(keys.contains(&b"r/before".to_vec()) && keys.contains(&b"r/after".to_vec()), "{keys:?}");
    client.until("the watch goes on", |client| client.versions("r/after") == [1]);
}

#[test]
fn a_watch_behind_what_is_compacted_begins_anew_and_says_so() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = EtcdCluster::start(3, folder.path());
    let away = (cluster.leader().unwrap() + 1) % 3;
    let endpoints = cluster.endpoints();
    // It knows one member only, so it cannot watch while that one is down.
    let mut watcher = Client::new(&endpoints[away..=away]);
    let mut writer = Client::new(&endpoints);
    watcher.until("it begins", |client| client.restarts() == 1);
    writer.put("r/a", 1, "x");
    watcher.until("the first", |client| client.versions("r/a") == [1]);
    cluster.kill(away);
    (2..=20).for_each(|version| drop(writer.put("r/a", version, "x")));
    let other = (away + 1) % 3;
    let range = cluster.post(other, "kv/range", r#"{"key":"AA==","limit":"1"}"#);
    let revision = range.split_once("\"revision\":\"").unwrap().1.split_once('"').unwrap().0;
    let compacted = cluster.post(other, "kv/compaction", &format!("{{\"revision\":\"{revision}\",\"physical\":true}}"));
    assert!(compacted.contains("header"), "{compacted}");
    cluster.restart(away);
    watcher.until("it begins anew", |client| client.restarts() == 2);
    assert_eq!(watcher.list(9).0[0].version, 20, "what was missed is read");
    writer.put("r/a", 21, "x");
    watcher.until("and goes on", |client| client.versions("r/a").last() == Some(&21));
}

#[test]
fn a_client_with_thousands_of_requests_that_nobody_answers_stops_at_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = Client::new(&[format!("http://{}", listener.local_addr().unwrap())]);
    for number in 0..5_000 {
        let put = |id| Request::Put { id, entry: entry("r/a", number, "x"), when: If::Below(number), lease: LONG };
        client.begin(put);
    }
    // Each 256 of them would take more than a second.
    let begun = Instant::now();
    drop(client);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[test]
fn a_question_waits_for_nothing_that_is_asked_in_the_background() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cluster = EtcdCluster::start(1, folder.path());
    let mut client = Client::new(&cluster.endpoints());
    client.until("it begins", |client| client.restarts() == 1);
    for number in 0..50 {
        client.put(&format!("r/{number}"), 1, &"x".repeat(2_000));
    }
    let list = |id| Request::List { id, from: b"r/".to_vec(), to: b"r0".to_vec(), count: 50, at: None };
    let background: Vec<u64> = (0..600).map(|_| client.begin_as(Priority::Background, list)).collect();
    let keys = ["r/7", "r/none", "r/8"].map(|key| key.as_bytes().to_vec()).to_vec();
    let Answer::Listed { entries, .. } = client.ask(|id| Request::Get { id, keys }) else { panic!("it is read") };
    let keys: Vec<_> = entries.into_iter().map(|entry| entry.key).collect();
    assert_eq!(keys, [b"r/7", b"r/8"], "what is not there is left out");
    let before = client.order.iter().filter(|id| background.contains(id)).count();
    assert!(before < 100, "a question waits for {before} of 600");
    client.until("the background goes on", |client| {
        client.order.iter().filter(|id| background.contains(id)).count() > before
    });
}

#[test]
fn a_full_cluster_says_so_and_what_is_there_is_read_and_watched_on() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let more = ["--quota-backend-bytes", "1000000"].map(String::from);
    let cluster = EtcdCluster::with(1, folder.path(), "http", &more);
    let mut client = Client::new(&cluster.endpoints());
    client.until("it begins", |client| client.restarts() == 1);
    let mut last = client.put("r/first", 1, "x");
    assert!(matches!(last, Answer::Stored { .. }), "{last:?}");
    for number in 0..200 {
        last = client.put(&format!("r/{number}"), 1, &"x".repeat(50_000));
        if !matches!(last, Answer::Stored { .. }) {
            break;
        }
    }
    assert!(matches!(&last, Answer::Failed { is_full: true, reason, .. } if reason.contains("space")), "{last:?}");
    let Answer::Listed { entries, .. } = client.ask(|id| Request::Get { id, keys: vec![b"r/first".to_vec()] }) else {
        panic!("what is there is read")
    };
    assert_eq!(entries, [entry("r/first", 1, "x")]);
    // It accepts no heartbeats, and still the watch is known to be current.
    client.news.clear();
    client.until("it is current", |client| client.news.contains(&Answer::Current));
}

fn pem(kind: &str, bytes: &[u8]) -> String {
    use base64ct::{Base64, Encoding};
    let text = Base64::encode_string(bytes);
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", lines.join("\n"))
}

#[test]
fn users_and_certificates_are_shown_and_checked() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let names = ["127.0.0.1".to_string(), "localhost".to_string()];
    let issued = rcgen::generate_simple_self_signed(names).unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, pem("CERTIFICATE", issued.cert.der())).unwrap();
    std::fs::write(&key, pem("PRIVATE KEY", &issued.signing_key.serialize_der())).unwrap();
    let path = |of: &std::path::Path| of.display().to_string();
    let more = ["--cert-file", &path(&certificate), "--key-file", &path(&key)].map(String::from);
    let secure = EtcdCluster::with(1, &folder.path().join("tls"), "https", &more);
    let endpoint = |cluster: &EtcdCluster, scheme: &str| {
        vec![Url::parse(&cluster.endpoints()[0].replace("http", scheme)).unwrap()]
    };
    let mut options = EtcdOptions::new(endpoint(&secure, "https"), "/test/");
    let mut stranger = Client::with(&options);
    // A member with certificates is not waited for: it may not listen yet.
    let begun = Instant::now();
    let mut refused = stranger.put("r/a", 1, "x");
    let is_right =
        |refused: &Answer| matches!(refused, Answer::Failed { reason, .. } if reason.contains("certificate"));
    while !is_right(&refused) && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(100));
        refused = stranger.put("r/a", 1, "x");
    }
    assert!(is_right(&refused), "{refused:?}");
    options.ca_certificates.push(certificate);
    let mut client = Client::with(&options);
    client.until("it begins", |client| client.restarts() == 1);
    assert!(matches!(client.put("r/a", 1, "x"), Answer::Stored { .. }));
    client.until("told", |client| client.versions("r/a") == [1]);

    drop(secure);
    let cluster = EtcdCluster::start(1, &folder.path().join("users"));
    for (path, body) in [
        ("auth/user/add", r#"{"name":"root","password":"secret"}"#),
        ("auth/role/add", r#"{"name":"root"}"#),
        ("auth/user/grant", r#"{"user":"root","role":"root"}"#),
        ("auth/user/add", r#"{"name":"trib","password":"word"}"#),
        ("auth/role/add", r#"{"name":"names"}"#),
        // All keys below /test/.
        (
            "auth/role/grant",
            r#"{"name":"names","perm":{"permType":"READWRITE","key":"L3Rlc3Qv","range_end":"L3Rlc3Qw"}}"#,
        ),
        ("auth/user/grant", r#"{"user":"trib","role":"names"}"#),
        ("auth/enable", "{}"),
    ] {
        let answer = cluster.post(0, path, body);
        assert!(answer.contains("header"), "{path}: {answer}");
    }
    let mut options = EtcdOptions::new(endpoint(&cluster, "http"), "/test/");
    let refused = Client::with(&options).put("r/a", 1, "x");
    assert!(matches!(refused, Answer::Failed { .. }), "{refused:?}");
    options.user = Some(("trib".into(), "wrong".into()));
    let refused = Client::with(&options).put("r/a", 1, "x");
    assert!(
        matches!(&refused, Answer::Failed { reason, .. } if reason.contains("authentication failed")),
        "{refused:?}"
    );
    options.user = Some(("trib".into(), "word".into()));
    let mut client = Client::with(&options);
    client.until("it begins", |client| client.restarts() == 1);
    assert!(matches!(client.put("r/a", 1, "x"), Answer::Stored { .. }));
    client.until("told", |client| client.versions("r/a") == [1]);
    options.prefix = "/other/".into();
    let refused = Client::with(&options).put("r/a", 1, "x");
    assert!(matches!(&refused, Answer::Failed { reason, .. } if reason.contains("permission denied")), "{refused:?}");
}

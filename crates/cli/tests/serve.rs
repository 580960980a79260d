//! Copies of the same bytes as sources, in all families: real daemons, real datagrams on loopback.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::PathBuf,
    process::Output,
    time::{Duration, Instant, SystemTime},
};

use crate::common::{self, Daemon, begin, config, face, lines, port, rest, run, talk, until};
use serde_json::Value;
use tempfile::TempDir;

const FAMILIES: [&str; 3] = ["psi", "ndn", "mf"];

/// A router, and configs of others at it.
struct World {
    folder: TempDir,
    family: &'static str,
    _router: Daemon,
    at: u16,
}

impl World {
    fn new(family: &'static str) -> World {
        let folder = tempfile::tempdir().unwrap();
        let at = port();
        let (roles, settings) = match family {
            "psi" => (r#""router", "resolver", "topology-manager""#, ""),
            "ndn" => (r#""router""#, "[ndn]\nremote_registration = \"neighbours\"\n"),
            _ => (r#""router", "resolver""#, ""),
        };
        let more = format!("family = \"{family}\"\n{settings}");
        let router = Daemon::start(folder.path(), &config(folder.path(), "router", roles, at, &more));
        let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at / 11) as u8).collect();
        fs::write(folder.path().join("original"), bytes).unwrap();
        World { folder, family, _router: router, at }
    }
    /// The config of a node that publishes and fetches.
    fn config(&self, label: &str, more: &str) -> PathBuf {
        let (family, at) = (self.family, self.at);
        let face = if family == "ndn" { "register = \"localhop\"\nroutes = [\"/\"]\n" } else { "" };
        let more = format!("family = \"{family}\"\n[[face]]\npeer = \"127.0.0.1:{at}\"\n{face}{more}");
        config(self.folder.path(), label, r#""sender", "receiver""#, 0, &more)
    }
    fn start(&self, label: &str, more: &str) -> Daemon {
        Daemon::start(self.folder.path(), &self.config(label, more))
    }
    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
    fn try_run(&self, label: &str, arguments: &[&str]) -> Output {
        let control = self.path(&format!("{label}/control.sock"));
        run(self.folder.path(), &[arguments, &["--control", &control, "--json"]].concat())
    }
    fn run(&self, label: &str, arguments: &[&str]) -> Vec<Value> {
        let output = self.try_run(label, arguments);
        assert_eq!(output.status.code(), Some(0), "{}: {label}: {arguments:?}: {}", self.family, talk(&output));
        lines(&output.stdout)
    }
    /// Publishes a file, and returns the signing key.
    fn put(&self, label: &str, file: &str, name: &str) -> String {
        let published = self.run(label, &["put", &self.path(file), name]);
        let published = published.iter().find(|line| line["event"] == "published").unwrap();
        assert_eq!(published["confirmed"], true, "{}: {published}", self.family);
        published["publisher"].as_str().unwrap().into()
    }
    fn published(&self, label: &str) -> Vec<String> {
        let status = self.run(label, &["status"]);
        let published = status[0]["published"].as_array().unwrap();
        published.iter().map(|one| one["name"].as_str().unwrap().to_string()).collect()
    }
    /// Whether a file is the one that was published first.
    fn is_original(&self, name: &str) -> bool {
        fs::read(self.path(name)).unwrap() == fs::read(self.path("original")).unwrap()
    }
}

/// The sources of a fetch, from the last line that lists them.
fn sources(fetched: &[Value]) -> Vec<Value> {
    fetched.iter().rfind(|line| line["event"] == "done").unwrap()["sources"].as_array().unwrap().clone()
}

#[test]
fn copies_signed_by_three_keys_at_three_times_are_sources_of_one_fetch() {
    for family in FAMILIES {
        let world = World::new(family);
        let labels = ["one", "two", "three"];
        let [first, _second, _third] = labels.map(|label| world.start(label, ""));
        let mut keys = Vec::new();
        for (hours, label) in (1..).zip(labels) {
            let copy = world.path(label) + "/copy";
            fs::copy(world.path("original"), &copy).unwrap();
            let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + 3_600 * hours);
            fs::File::options().write(true).open(&copy).unwrap().set_modified(then).unwrap();
            keys.push(world.put(label, &format!("{label}/copy"), "/lab/file"));
        }
        assert!(keys[0] != keys[1] && keys[1] != keys[2]);
        let _receiver = world.start("receiver", "");
        // No key is known yet: all show the same.
        let target = world.path("first");
        let fetched = world.run("receiver", &["get", "/lab/file", "-o", &target]);
        assert!(world.is_original("first"), "{family}");
        let blamed = |fetched: &[Value]| sources(fetched).iter().any(|source| source["distrusted"].is_string());
        assert!(!blamed(&fetched), "{family}: {fetched:?}");
        // One is pinned, and leaves in the middle: the others have the objects that it signed.
        let target = world.path("second");
        let pinned = ["get", "/lab/file", "-o", &target, "--publisher", &keys[0], "--limit", "10Mbps"];
        let fetched = std::thread::scope(|scope| {
            let fetch = scope.spawn(|| world.run("receiver", &pinned));
            std::thread::sleep(Duration::from_millis(800));
            drop(first);
            fetch.join().unwrap()
        });
        assert!(world.is_original("second") && !blamed(&fetched), "{family}: {fetched:?}");
        assert_eq!(sources(&fetched).len(), 3, "{family}");
    }
}

#[test]
fn what_is_fetched_is_served_as_its_publisher_signed_it_over_restarts_until_it_is_removed() {
    for family in FAMILIES {
        let world = World::new(family);
        let publisher = world.start("publisher", "");
        let key = world.put("publisher", "original", "/lab/file");
        let mirror = world.start("mirror", "");
        let target = world.path("mirrored");
        let fetched = world.run("mirror", &["get", "/lab/file", "-o", &target, "--serve"]);
        let published = fetched.iter().find(|line| line["event"] == "published").unwrap();
        assert_eq!(published["publisher"].as_str(), Some(&*key), "{family}: not the mirror's own key");
        drop((publisher, mirror));
        let mirror = world.start("mirror", "");
        let _receiver = world.start("receiver", "");
        let target = world.path("again");
        let fetched =
            world.run("receiver", &["get", "/lab/file", "-o", &target, "--publisher", &key, "--timeout", "20s"]);
        assert!(world.is_original("again"), "{family}");
        assert!(sources(&fetched).iter().any(|source| source["id"] == "mirror"), "{family}");
        world.run("mirror", &["rm", "/lab/file"]);
        assert!(world.published("mirror").is_empty());
        drop(mirror);
        let _mirror = world.start("mirror", "");
        assert!(world.published("mirror").is_empty(), "{family}: not after a restart either");
        assert!(world.is_original("mirrored"), "{family}: the file stays");
    }
}

#[test]
fn copies_are_withdrawn_by_size_and_age_and_are_no_copies_once_they_are_changed() {
    let world = World::new("psi");
    let _publisher = world.start("publisher", "");
    for name in ["/lab/one", "/lab/two", "/lab/three"] {
        world.put("publisher", "original", name);
    }
    let limits = "[serve]\nfetched = true\nsize_max = \"7MB\"\nage_max = \"4s\"\n";
    let mirror = world.start("mirror", limits);
    for name in ["one", "two", "three"] {
        world.run("mirror", &["get", &format!("/lab/{name}"), "-o", &world.path(&format!("{name}-copy"))]);
    }
    assert_eq!(world.published("mirror"), ["/lab/two", "/lab/three"], "the oldest made room");
    until("copies are withdrawn when they are old", || world.published("mirror").is_empty());
    drop(mirror);

    let _other = world.start("other", "");
    let target = world.path("mine");
    world.run("other", &["get", "/lab/one", "-o", &target, "--serve"]);
    fs::write(&target, "mine now").unwrap();
    drop(_other);
    let _other = world.start("other", "");
    assert!(world.published("other").is_empty(), "it is not what its publisher signed any more");
    let refused = world.try_run("other", &["get", "/lab/two", "-o", "-", "--serve"]);
    assert_eq!(common::class(refused.status.code()), Some(2), "{}", talk(&refused));
}

/// How many daemons fetch at once.
const RECEIVERS: usize = 6;

#[test]
#[expect(clippy::disallowed_methods, reason = "it tells how long real daemons took")]
fn daemons_behind_one_narrow_publisher_serve_each_other_while_they_fetch() {
    let folder = tempfile::tempdir().unwrap();
    let (here, at) = (folder.path(), port());
    let roles = r#""router", "resolver", "topology-manager""#;
    // Without a cache, which would have the same effect.
    let router = config(here, "router", roles, at, "family = \"psi\"\n[psi]\ncache_size = \"0B\"\n");
    let _router = Daemon::start(here, &router);
    let link = "[face.egress]\nrate = \"16Mbps\"\ndelay = \"5ms\"\n";
    let more = format!("family = \"psi\"\n{}{link}", face(at, "psi"));
    let _publisher = Daemon::start(here, &config(here, "publisher", r#""sender""#, 0, &more));
    let file: Vec<u8> = (0..8u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(here.join("f.bin"), &file).unwrap();
    let control = |label: &str| here.join(label).join("control.sock").display().to_string();
    let path = here.join("f.bin").display().to_string();
    let put = run(here, &["put", &path, "/lab/f", "--control", &control("publisher")]);
    assert_eq!(put.status.code(), Some(0), "{}", talk(&put));
    let labels: Vec<String> = (0..RECEIVERS).map(|number| format!("receiver-{number}")).collect();
    let receivers = labels.iter().map(|label| {
        let more = format!("family = \"psi\"\n{}[serve]\nfetched = true\n", face(at, "psi"));
        Daemon::start(here, &config(here, label, r#""receiver", "sender""#, 0, &more))
    });
    let receivers: Vec<Daemon> = receivers.collect();
    let begun = Instant::now();
    let gets = labels.iter().map(|label| {
        let (control, out) = (control(label), here.join(format!("{label}.out")).display().to_string());
        let (get, _, stdout) = begin(here, &["get", "/lab/f", "--control", &control, "-o", &out, "--json"]);
        // All outputs are read at once: a fetch whose progress is not read is stopped.
        (get, std::thread::spawn(move || rest(stdout)))
    });
    let gets: Vec<_> = gets.collect();
    let mut of_publisher = 0;
    for ((get, events), label) in gets.into_iter().zip(&labels) {
        let events = events.join().unwrap();
        assert_eq!(get.wait(), Some(0), "{label}: {:?}", events.last());
        assert!(fs::read(here.join(format!("{label}.out"))).unwrap() == file, "{label}");
        for source in sources(&events) {
            assert!(source["distrusted"].is_null(), "{label}: {source}");
            if source["id"] == "publisher" {
                of_publisher += source["bytes"].as_u64().unwrap();
            }
        }
    }
    let (took, alone) = (begun.elapsed().as_secs_f64(), file.len() as f64 * 8.0 / 16e6);
    let share = of_publisher as f64 / file.len() as f64;
    println!(
        "{RECEIVERS} receivers: {took:.1} s and {share:.2} times the file from the publisher; one needs {alone:.1} s"
    );
    // Without partial sources it is 3.5 times the file, since only those that have ended serve the others.
    assert!(share < 0.4 * RECEIVERS as f64, "{share:.2} times the file from the publisher");
    drop(receivers);
}

//! Resolvers over a real etcd cluster, for MobilityFirst and for rendezvous nodes of PSI: real daemons, real members,
//! and the results when some of each are killed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "real daemons take the time that they take")]

use std::{
    fs,
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

use crate::common::{Daemon, ask, config, face, file, has_program, port, run, talk, until};
use tempfile::TempDir;
use tributary_testkit::etcd::EtcdCluster;

/// A router that resolves no names, a publisher and a receiver at it, and configs of resolvers next to it.
struct World {
    folder: TempDir,
    cluster: EtcdCluster,
    resolvers: [PathBuf; 3],
    _nodes: [Daemon; 3],
}

const RESOLVERS: [&str; 3] = ["one", "two", "three"];

impl World {
    /// `more` are options of the members.
    fn new(family: &str, members: usize, more: &[String]) -> World {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let cluster = EtcdCluster::with(members, &path.join("etcd"), "http", more);
        let hub = port();
        let endpoints =
            cluster.endpoints().iter().map(|endpoint| format!("{endpoint:?}")).collect::<Vec<_>>().join(", ");
        let engine = format!("[resolver]\nengine = \"etcd\"\nendpoints = [{endpoints}]\n");
        let neighbour = face(hub, family);
        let family_line = format!("family = \"{family}\"\n");
        let resolvers = RESOLVERS.map(|label| {
            config(path, label, r#""router", "resolver""#, port(), &format!("{family_line}{neighbour}{engine}"))
        });
        let roles = if family == "psi" { r#""router", "topology-manager""# } else { r#""router""# };
        let router = Daemon::start(path, &config(path, "hub", roles, hub, &family_line));
        let publisher = config(path, "publisher", r#""sender""#, 0, &format!("{family_line}{neighbour}"));
        let receiver = config(path, "receiver", r#""receiver""#, 0, &format!("{family_line}{neighbour}"));
        let nodes = [router, Daemon::start(path, &publisher), Daemon::start(path, &receiver)];
        file(path);
        World { folder, cluster, resolvers, _nodes: nodes }
    }
    fn path(&self) -> &Path {
        self.folder.path()
    }
    fn start(&self, resolver: usize) -> Daemon {
        Daemon::start(self.path(), &self.resolvers[resolver])
    }
    fn start_and_read(&self, resolver: usize) -> Daemon {
        let daemon = self.start(resolver);
        until("it has read what is there", || self.lines(resolver).contains("etcd, in use"));
        daemon
    }
    fn status(&self, label: &str) -> serde_json::Value {
        ask(self.path(), label, &["status"]).remove(0)
    }
    fn counter(&self, label: &str, name: &str) -> u64 {
        self.status(label)["counters"][name].as_u64().unwrap()
    }
    fn resolver_lines(&self, label: &str) -> String {
        self.status(label)["resolver"].to_string()
    }
    fn lines(&self, resolver: usize) -> String {
        self.resolver_lines(RESOLVERS[resolver])
    }
    fn put(&self, name: &str, timeout: &str) -> (Option<i32>, String) {
        let socket = self.path().join("publisher/control.sock").display().to_string();
        let original = self.path().join("original").display().to_string();
        let put = run(self.path(), &["put", &original, name, "--control", &socket, "--timeout", timeout]);
        (put.status.code(), String::from_utf8_lossy(&put.stdout).into_owned() + &talk(&put))
    }
    fn get(&self, name: &str, timeout: &str) -> (Option<i32>, String) {
        let socket = self.path().join("receiver/control.sock").display().to_string();
        let copy = self.path().join("copy").display().to_string();
        let got = run(self.path(), &["get", name, "-o", &copy, "--control", &socket, "--timeout", timeout]);
        if got.status.success() {
            assert!(fs::read(&copy).unwrap() == fs::read(self.path().join("original")).unwrap());
            fs::remove_file(&copy).unwrap();
        }
        (got.status.code(), talk(&got))
    }
    /// A cluster on a busy machine may lose its majority for a moment.
    fn publishes(&self, name: &str) {
        until(&format!("'{name}' published"), || self.put(name, "20s").0 == Some(0));
    }
    fn fetches(&self, name: &str) {
        let (code, printed) = self.get(name, "20s");
        assert_eq!(code, Some(0), "{printed}");
    }
    /// Whether the router reaches this many resolvers.
    fn reaches(&self, count: usize) -> bool {
        self.resolver_lines("hub").contains(&format!("{count} in reach"))
    }
}

#[test]
fn names_outlive_the_resolver_that_took_them_and_a_member_of_the_cluster() {
    if !has_program("etcd") {
        return;
    }
    let mut world = World::new("mf", 3, &[]);
    let one = world.start(0);
    until("a resolver in reach", || world.reaches(1));
    world.publishes("/lab/first");
    world.fetches("/lab/first");
    assert!(world.counter("one", "names put into the store of names") >= 3, "a content has three records");
    assert!(world.resolver_lines("one").contains("etcd, in use"), "{}", world.resolver_lines("one"));

    // The other one starts after the first one's death, with an empty state folder and no news from it.
    drop(one);
    until("no resolver in reach", || world.reaches(0));
    let two = world.start(1);
    let leader = world.cluster.leader().unwrap();
    world.cluster.kill(leader);
    until("the other resolver in reach", || world.reaches(1));
    world.fetches("/lab/first");
    world.publishes("/lab/second");

    // Both at once, and the second one leaves.
    let one = world.start(0);
    until("both in reach", || world.reaches(2));
    world.fetches("/lab/second");
    drop(two);
    world.fetches("/lab/first");
    world.fetches("/lab/second");
    drop(one);
}

#[test]
fn without_a_majority_of_the_cluster_names_are_refused_by_the_engines_name_and_none_is_lost() {
    if !has_program("etcd") {
        return;
    }
    let mut world = World::new("mf", 3, &[]);
    let _one = world.start(0);
    until("a resolver in reach", || world.reaches(1));
    world.publishes("/lab/before");
    world.fetches("/lab/before");

    world.cluster.kill(0);
    world.cluster.kill(1);
    let (_, printed) = world.put("/lab/meanwhile", "6s");
    assert!(printed.contains("etcd"), "whoever publishes is told why: {printed}");
    let (code, printed) = world.get("/lab/other", "6s");
    assert_ne!(code, Some(0));
    assert!(printed.contains("etcd"), "and whoever fetches: {printed}");
    assert!(world.resolver_lines("one").contains("cannot be used now"));

    world.cluster.restart(0);
    world.cluster.restart(1);
    world.cluster.wait();
    let recovered = Instant::now();
    until("the engine is used again", || world.resolver_lines("one").contains("in use"));
    world.fetches("/lab/before");
    // A refused record is put again with the next renewal.
    let begun = Instant::now();
    while world.get("/lab/meanwhile", "5s").0 != Some(0) {
        assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", recovered.elapsed());
        sleep(Duration::from_millis(200));
    }
}

#[test]
fn rendezvous_records_outlive_the_node_that_took_them_and_a_member_of_the_cluster() {
    if !has_program("etcd") {
        return;
    }
    let mut world = World::new("psi", 3, &[]);
    let one = world.start_and_read(0);
    world.publishes("/lab/first");
    let (code, printed) = world.get("/lab/first", "30s");
    assert_eq!(code, Some(0), "{printed}");

    // The other one starts after the first one's death, and that of the cluster's leader.
    drop(one);
    let leader = world.cluster.leader().unwrap();
    world.cluster.kill(leader);
    let two = world.start_and_read(1);
    assert!(world.lines(1).contains("publications"), "{}", world.lines(1));
    let (code, printed) = world.get("/lab/first", "40s");
    assert_eq!(code, Some(0), "{printed}");
    world.publishes("/lab/second");

    // Without a majority nothing new is accepted, and publishers learn the reason.
    let left = world.cluster.leader().unwrap();
    world.cluster.kill(left);
    let (code, printed) = world.put("/lab/third", "15s");
    assert!(code != Some(0) && printed.contains("etcd"), "{printed}");
    world.cluster.restart(leader);
    world.cluster.restart(left);
    world.cluster.wait();
    let begun = Instant::now();
    while world.get("/lab/third", "10s").0 != Some(0) {
        assert!(begun.elapsed() < Duration::from_secs(90), "what was refused is published again");
    }
    drop(two);
}

#[test]
fn rendezvous_nodes_share_a_cluster_and_say_when_it_hangs_or_is_full() {
    if !has_program("etcd") {
        return;
    }
    let world = World::new("psi", 1, &["--quota-backend-bytes", "1000000"].map(String::from));
    let mut nodes: Vec<Daemon> = (0..3).map(|at| world.start_and_read(at)).collect();
    world.publishes("/lab/first");
    let hold = |at: usize, count: usize| world.lines(at).contains(&format!("{count} publications"));
    until("all of them hold it", || (0..3).all(|at| hold(at, 1)));
    // One stops and restarts, with the others' changes in between.
    drop(nodes.remove(0));
    world.publishes("/lab/second");
    nodes.insert(0, world.start_and_read(0));
    until("it has read both", || hold(0, 2));
    for name in ["/lab/first", "/lab/second"] {
        let (code, printed) = world.get(name, "30s");
        assert_eq!(code, Some(0), "{printed}");
    }

    // The member hangs, with its connections open.
    world.cluster.stop(0, true);
    let begun = Instant::now();
    let (code, printed) = world.put("/lab/third", "15s");
    assert!(code != Some(0) && printed.contains("etcd"), "{printed}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    until("the nodes have noticed", || (0..3).all(|at| !world.lines(at).contains("in use")));
    let asked = Instant::now();
    world.lines(1);
    assert!(asked.elapsed() < Duration::from_secs(2), "the node answers: {:?}", asked.elapsed());
    world.cluster.stop(0, false);
    until("it is used again", || (0..3).all(|at| world.lines(at).contains("etcd, in use")));
    let (code, printed) = world.get("/lab/third", "30s");
    assert_eq!(code, Some(0), "what was refused is published again: {printed}");

    // Other clients' keys fill it.
    let (key, filler) = ("L290aGVy", "A".repeat(80_000));
    while !world.cluster.post(0, "kv/put", &format!(r#"{{"key":"{key}","value":"{filler}"}}"#)).contains("exceeded") {}
    let (code, printed) = world.put("/lab/fourth", "10s");
    assert!(code != Some(0) && printed.contains("full"), "{printed}");
    until("it is told", || (0..3).any(|at| world.lines(at).contains("full")));
    assert!(hold(0, 3) || hold(0, 4), "what is there stays: {}", world.lines(0));
}

#[test]
fn a_config_with_an_engine_says_what_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let check = |family: &str, roles: &str, more: &str| {
        let path = config(folder.path(), "node", roles, 7_002, &format!("family = \"{family}\"\n[resolver]\n{more}"));
        let checked = run(folder.path(), &["config", "check", path.to_str().unwrap()]);
        (checked.status.success(), String::from_utf8_lossy(&checked.stdout).into_owned() + &talk(&checked))
    };
    let roles = r#""router", "resolver""#;
    let etcd = "engine = \"etcd\"\nendpoints = [\"http://127.0.0.1:2379\"]\n";
    for (family, roles, more, says) in [
        ("mf", roles, "engine = \"etcd\"\n", "endpoints"),
        ("mf", roles, "engine = \"consul\"\n", "embedded"),
        ("mf", roles, "engine = \"etcd\"\nendpoints = [\"127.0.0.1:2379\"]\n", "no endpoint of etcd"),
        ("mf", roles, "endpoints = [\"http://127.0.0.1:2379\"]\n", "'endpoints' without engine"),
        ("mf", roles, "engine = \"etcd\"\nendpoints = [\"http://u:p@a:1\"]\n", "a user, a password or a query"),
        ("mf", roles, "engine = \"etcd\"\nendpoints = [\"http://a:1/?x=y\"]\n", "a user, a password or a query"),
        ("mf", r#""router""#, etcd, "resolver"),
        ("ndn", r#""router""#, etcd, "family ndn keeps no names in etcd"),
        ("mf", roles, "engine = \"etcd\"\nendpoints = [\"http://a:1\"]\nuser = \"u\"\n", "password_file"),
        ("mf", roles, "engine = \"etcd\"\nendpoints = [\"http://a:1\"]\nprefix = \"names\"\n", "slash"),
    ] {
        let (is_right, printed) = check(family, roles, more);
        assert!(!is_right && printed.contains(says), "{more}: {printed}");
    }
    for family in ["mf", "psi"] {
        let (is_right, printed) = check(family, roles, etcd);
        assert!(is_right, "{printed}");
    }
}

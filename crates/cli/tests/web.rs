//! Web servers as sources, with the program: without any node, and in addition to the sources of a network of real
//! daemons.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test fails by panicking, in real time")]
#[path = "../../web/tests/suite/server.rs"]
#[expect(dead_code, reason = "other tests use the rest of the server")]
mod server;

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Output, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use crate::common::{self, Daemon, begin, lines, port, rest, run, talk, trib, until};
use server::{Behaviour, Server};
use tempfile::TempDir;

/// A router, a publisher of a file over a narrow link, and the config of a receiver.
struct World {
    folder: TempDir,
    _router: Daemon,
    publisher: Option<Daemon>,
    file: Vec<u8>,
}
impl World {
    fn new(family: &str) -> World {
        let (folder, at) = (tempfile::tempdir().unwrap(), port());
        let here = folder.path();
        let (roles, settings) = match family {
            "psi" => (r#""router", "resolver", "topology-manager""#, ""),
            "mf" => (r#""router", "resolver""#, ""),
            _ => (r#""router""#, "[ndn]\nremote_registration = \"neighbours\"\n"),
        };
        let more = format!("family = \"{family}\"\n{settings}");
        let router = Daemon::start(here, &common::config(here, "router", roles, at, &more));
        let routes = |more: &str| if family == "ndn" { format!("{more}routes = [\"/\"]\n") } else { String::new() };
        let link = "[face.egress]\nrate = \"24Mbps\"\ndelay = \"5ms\"\n";
        let face = |register: &str, link: &str| {
            format!("family = \"{family}\"\n[[face]]\npeer = \"127.0.0.1:{at}\"\n{}{link}", routes(register))
        };
        let config = common::config(here, "publisher", r#""sender""#, 0, &face("register = \"localhop\"\n", link));
        let publisher = Daemon::start(here, &config);
        common::config(here, "receiver", r#""receiver""#, 0, &face("", ""));
        let file: Vec<u8> = (0..12u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        fs::write(here.join("f.bin"), &file).unwrap();
        let world = World { _router: router, publisher: Some(publisher), file, folder };
        let put = world.run(&["put", &world.at("f.bin"), "/lab/f", "--control", &world.at("publisher/control.sock")]);
        assert_eq!(put.status.code(), Some(0), "{}", talk(&put));
        world
    }
    fn at(&self, name: &str) -> String {
        at(self.path(), name)
    }
    fn path(&self) -> &Path {
        self.folder.path()
    }
    fn run<T: AsRef<str>>(&self, arguments: &[T]) -> Output {
        run(self.path(), &arguments.iter().map(AsRef::as_ref).collect::<Vec<_>>())
    }
    fn get(&self, mirrors: &[&Server]) -> Vec<String> {
        let (config, out) = (self.at("receiver.toml"), self.at("out"));
        let arguments = ["get", "/lab/f", "--config", &config, "-o", &out, "--timeout", "20s", "--json"];
        let mirrors = mirrors.iter().flat_map(|mirror| ["--mirror".into(), url(mirror)]);
        arguments.map(String::from).into_iter().chain(mirrors).collect()
    }
    fn check(&self) {
        assert!(fs::read(self.path().join("out")).unwrap() == self.file, "the bytes are those that were published");
    }
}
fn at(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}
fn url(server: &Server) -> String {
    server.url("f.bin").to_string()
}
fn source<'a>(done: &'a serde_json::Value, id: &str) -> &'a serde_json::Value {
    let found = done["sources"].as_array().unwrap().iter().find(|source| source["id"] == id);
    found.unwrap_or_else(|| panic!("'{id}' is not in {done}"))
}

fn sources_and_mirrors_deliver_chunks_of_one_transfer(family: &str) {
    let world = World::new(family);
    let honest = Server::start(&world.file, Behaviour { rate: Some(2 << 20), ..Behaviour::default() });
    let faulty = Server::start(&world.file, Behaviour { flips: true, rate: Some(2 << 20), ..Behaviour::default() });
    let output = world.run(&world.get(&[&honest, &faulty]));
    assert_eq!(output.status.code(), Some(0), "{family}: {}", talk(&output));
    world.check();
    let events = lines(&output.stdout);
    let done = events.last().unwrap();
    assert_eq!((&done["event"], &done["verified"]), (&"done".into(), &true.into()), "{done}");
    let bytes = |id: &str| source(done, id)["bytes"].as_u64().unwrap();
    assert!(bytes("publisher") > 1 << 20 && bytes(&honest.label()) > 1 << 20, "{family}: {done}");
    let reason = source(done, &faulty.label())["distrusted"].as_str().unwrap();
    assert!(reason.contains("failed verification") && bytes(&faulty.label()) == 0, "{family}: {reason}");
    assert!(events.iter().any(|line| line["event"] == "source-distrusted" && line["id"] == faulty.label().as_str()));
    assert!(done["paths"].as_array().unwrap().iter().any(|path| path["via"] == honest.label().as_str()));
}
fn mirrors_finish_what_lost_its_sources(family: &str) {
    let mut world = World::new(family);
    let honest = Server::start(&world.file, Behaviour { rate: Some(1 << 20), ..Behaviour::default() });
    let (fetch, _, stdout) = begin(world.path(), &world.get(&[&honest]).iter().map(String::as_str).collect::<Vec<_>>());
    let begun = Instant::now();
    until("a mirror's first bytes", || !honest.clients().is_empty() && begun.elapsed().as_millis() > 800);
    drop(world.publisher.take());
    let events = rest(stdout);
    assert_eq!(fetch.wait(), Some(0), "{family}: {:?}", events.last());
    world.check();
    let done = events.last().unwrap();
    assert!(source(done, &honest.label())["bytes"].as_u64().unwrap() > 4 << 20, "{family}: {done}");
}
fn sources_finish_what_lost_its_mirrors(family: &str) {
    let world = World::new(family);
    let (stalls, gone) = (
        Server::start(&world.file, Behaviour { stalls_after: Some(600_000), ..Behaviour::default() }),
        Server::start(&world.file, Behaviour { status: Some("404 Not Found"), ..Behaviour::default() }),
    );
    let output = world.run(&world.get(&[&stalls, &gone]));
    assert_eq!(output.status.code(), Some(0), "{family}: {}", talk(&output));
    world.check();
    let events = lines(&output.stdout);
    let reason = source(events.last().unwrap(), &gone.label())["closed"].as_str().unwrap();
    assert!(reason.contains("404"), "{reason}");
}

/// The publisher names two web servers, one of them faulty. They are on this machine, to which a publisher's word alone
/// sends no request.
fn mirrors_that_a_publication_names_are_asked_where_that_is_wanted(family: &str) {
    let world = World::new(family);
    let start = |flips| Server::start(&world.file, Behaviour { flips, rate: Some(2 << 20), ..Behaviour::default() });
    let (honest, faulty) = (start(false), start(true));
    let (file, control) = (world.at("f.bin"), world.at("publisher/control.sock"));
    let mirrors = ["--mirror", &url(&honest), "--mirror", &url(&faulty)];
    let put = world.run(&[&["put", &file, "/lab/g", "--control", &control][..], &mirrors].concat());
    assert_eq!(put.status.code(), Some(0), "{}", talk(&put));
    let netrc = world.at("passwords");
    fs::write(&netrc, "machine 127.0.0.1 login me password secret\n").unwrap();
    let get_of = |name: &str, config: &str, out: &str, more: &[&str]| {
        let receiver = fs::read_to_string(world.at("receiver.toml")).unwrap();
        fs::write(world.at(&format!("{out}.toml")), format!("{receiver}\n{config}")).unwrap();
        let (config, path) = (world.at(&format!("{out}.toml")), world.at(out));
        let mut command = trib(world.path());
        command.args(["get", name, "--config", &config, "-o", &path, "--json"]).args(more).env("NETRC", &netrc);
        for variable in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env_remove(variable);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{family}: {}", talk(&output));
        assert!(fs::read(&path).unwrap() == world.file, "the bytes are those that were published");
        lines(&output.stdout).pop().unwrap()
    };
    let get = |config: &str, out: &str, more: &[&str]| get_of("/lab/g", config, out, more);
    // First, while caches are empty: later fetches end before any mirror is needed.
    let done = get("[mirrors]\nprivate = true\n", "asked", &[]);
    assert!(source(&done, &honest.label())["bytes"].as_u64().unwrap() > 1 << 20, "{family}: {done}");
    assert!(source(&done, &faulty.label())["distrusted"].is_string(), "{family}: {done}");
    assert!(
        !honest.last_head().to_ascii_lowercase().contains("authorization"),
        "passwords are for whom a person names"
    );
    let asked = honest.clients().len() + faulty.clients().len();
    get("", "usual", &[]);
    get("[mirrors]\nuse = false\n", "unused", &[]);
    get("[mirrors]\nprivate = true\n", "unwanted", &["--no-mirrors"]);
    // By a name that leads here: it is checked when it is resolved.
    let by_name = url(&honest).replace("127.0.0.1", "localhost");
    let put = world.run(&["put", &file, "/lab/h", "--control", &control, "--mirror", &by_name]);
    assert_eq!(put.status.code(), Some(0), "{}", talk(&put));
    get_of("/lab/h", "", "by-name", &[]);
    assert_eq!(honest.clients().len() + faulty.clients().len(), asked, "nobody was asked");
    let with_password = url(&honest).replace("://", "://user:secret@");
    let refused = world.run(&["put", &file, "/lab/i", "--control", &control, "--mirror", &with_password]);
    assert_eq!(common::class(refused.status.code()), Some(2), "{}", talk(&refused));
    assert!(talk(&refused).contains("password"), "{}", talk(&refused));
}

tributary_testkit::tests! {
    mirrors_that_a_publication_names_are_asked_where_that_is_wanted:
    fn mirrors_that_a_publication_names_are_asked_where_that_is_wanted_in_psi("psi");
    fn mirrors_that_a_publication_names_are_asked_where_that_is_wanted_in_ndn("ndn");
    fn mirrors_that_a_publication_names_are_asked_where_that_is_wanted_in_mf("mf");
}
tributary_testkit::tests! {
    sources_and_mirrors_deliver_chunks_of_one_transfer:
    fn sources_and_mirrors_deliver_chunks_of_one_transfer_in_psi("psi");
    fn sources_and_mirrors_deliver_chunks_of_one_transfer_in_ndn("ndn");
    fn sources_and_mirrors_deliver_chunks_of_one_transfer_in_mf("mf");
}
tributary_testkit::tests! {
    mirrors_finish_what_lost_its_sources:
    fn mirrors_finish_what_lost_its_sources_in_psi("psi");
    fn mirrors_finish_what_lost_its_sources_in_ndn("ndn");
    fn mirrors_finish_what_lost_its_sources_in_mf("mf");
}
tributary_testkit::tests! {
    sources_finish_what_lost_its_mirrors:
    fn sources_finish_what_lost_its_mirrors_in_psi("psi");
    fn sources_finish_what_lost_its_mirrors_in_ndn("ndn");
    fn sources_finish_what_lost_its_mirrors_in_mf("mf");
}

#[test]
fn a_url_needs_no_node_and_a_killed_fetch_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let file: Vec<u8> = (0..8u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let server = Server::start(&file, Behaviour { rate: Some(4 << 20), ..Behaviour::default() });
    let (url, out) = (url(&server), at(folder.path(), "out"));
    let get = ["get", &url, "-o", &out, "--json"];
    let (fetch, _, stdout) = begin(folder.path(), &get);
    let begun = Instant::now();
    until("a second", || begun.elapsed().as_millis() > 1_000);
    fetch.signal("KILL");
    fetch.wait();
    drop(stdout);
    let output = run(folder.path(), &get);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    let events = lines(&output.stdout);
    let done = events.last().unwrap();
    assert!(done["resumed_bytes"].as_u64().unwrap() > 1 << 20 && done["verified"] == false, "{done}");
    assert!(fs::read(folder.path().join("out")).unwrap() == file);
}

#[test]
fn a_proxy_passwords_and_a_store_come_from_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let file = vec![7; 300_000];
    let server = Server::start(&file, Behaviour::default());
    let host = server.label();
    let get = |out: &str, target: &str, variables: &[(&str, &str)]| {
        let mut command = trib(folder.path());
        command.args(["get", target, "-o", &at(folder.path(), out)]).envs(variables.iter().copied());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        assert!(fs::read(folder.path().join(out)).unwrap() == file);
        server.last_head().to_ascii_lowercase()
    };
    // A name that only the proxy resolves.
    let proxy = format!("http://{host}");
    let head = get("a", "http://mirror.invalid/f.bin", &[("http_proxy", &proxy)]);
    assert!(head.starts_with("get http://mirror.invalid/f.bin http/1.1"), "{head}");
    let none = [("http_proxy", "http://127.0.0.1:9"), ("no_proxy", "127.0.0.1")];
    let head = get("b", &url(&server), &none);
    assert!(head.starts_with("get /f.bin http/1.1"), "{head}");
    let netrc = folder.path().join("passwords");
    fs::write(&netrc, "machine 127.0.0.1 login me password secret\n").unwrap();
    let head = get("c", &url(&server), &[("NETRC", netrc.to_str().unwrap())]);
    assert!(head.contains("authorization: basic bwu6c2vjcmv0"), "{head}");
    let store = [("AWS_ENDPOINT_URL", &*proxy), ("AWS_ACCESS_KEY_ID", "lab"), ("AWS_SECRET_ACCESS_KEY", "secret")];
    let head = get("d", "s3://isos/f.bin", &store);
    assert!(
        head.starts_with("get /isos/f.bin http/1.1") && head.contains("aws4-hmac-sha256 credential=lab/"),
        "{head}"
    );
}

#[test]
fn a_metalink_file_and_a_wrong_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = vec![7; 300_000];
    let server = Server::start(&file, Behaviour::default());
    let list = |name: &str| {
        format!(
            "<metalink xmlns='urn:ietf:params:xml:ns:metalink'><file name='{name}'><size>{}</size><url>{}</url></file>\
             </metalink>",
            file.len(),
            url(&server)
        )
    };
    fs::write(folder.path().join("good.meta4"), list("sub/f.bin")).unwrap();
    fs::write(folder.path().join("bad.meta4"), list("../f.bin")).unwrap();
    let output = run(folder.path(), &["get", &at(folder.path(), "good.meta4"), "-o", &at(folder.path(), "")]);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(fs::read(folder.path().join("sub/f.bin")).unwrap() == file);
    let output = run(folder.path(), &["get", &at(folder.path(), "bad.meta4")]);
    assert_eq!(common::class(output.status.code()), Some(2));
    assert!(talk(&output).contains("its name would lead elsewhere"), "{}", talk(&output));
    // Files of web servers can go into a folder too, several at once; a wrong checksum ends with a useful hint.
    fs::create_dir(folder.path().join("there")).unwrap();
    let (there, new, other) =
        (at(folder.path(), "there"), at(folder.path(), "new/"), format!("{}?again", url(&server)));
    for (more, code) in [
        (&[&url(&server)[..], "-o", &there][..], 0),
        (&[&url(&server), "-o", &new], 0),
        (&[&url(&server), "good.meta4", "-o", &at(folder.path(), "both")], 0),
        (&[&url(&server), &other, "-o", &there], 2),
        (&[&url(&server), "-o", &at(folder.path(), "x"), "--sha256", &"0".repeat(64)], 3),
    ] {
        let output = trib(folder.path()).current_dir(folder.path()).arg("get").args(more).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{more:?}: {}", talk(&output));
        let hint = talk(&output).contains("compare the checksum with the publisher's");
        assert_eq!(hint, code == 3, "{}", talk(&output));
    }
    for path in ["there/f.bin", "new/f.bin", "both/f.bin", "both/sub/f.bin"] {
        assert!(fs::read(folder.path().join(path)).unwrap() == file, "{path}");
    }
}

/// A habit of web servers: how many mirrors have it (0: one, and then two), the checksum if it is given, and the files that may
/// arrive. See `common/servers.py`.
#[derive(serde::Deserialize)]
struct Habit {
    habit: String,
    mirrors: usize,
    sha256: Option<String>,
    files: Vec<String>,
}
/// The results of a habit's fetches, by program and number of mirrors; the error is the program's message.
type Fetched = BTreeMap<String, Result<(), String>>;
/// The server with all habits.
struct Corpus(std::process::Child, u16, Vec<Habit>);
impl Corpus {
    fn start(folder: &Path) -> Option<Corpus> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/servers.py");
        let mut server = std::process::Command::new("python3");
        if !common::has_program("python3") {
            return None;
        }
        let mut server = server.arg(script).arg(folder).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
        let port = lines.next().unwrap().parse().unwrap();
        let habits = lines.take_while(|line| line != "end").map(|line| serde_json::from_str(&line).unwrap());
        Some(Corpus(server, port, habits.collect()))
    }
    /// Fetches the file with a program; the error is the program's message.
    fn fetch(&self, folder: &Path, habit: &Habit, program: &str, mirrors: usize) -> Result<(), String> {
        let client = format!("{program}-{mirrors}");
        let folder = folder.join(format!("{}-{client}", habit.habit));
        fs::create_dir(&folder).unwrap();
        let out = at(&folder, "out");
        let url = |mirror| format!("http://127.0.0.1:{}/{}/{client}/{mirror}/file", self.1, habit.habit);
        let urls: Vec<String> = (0..mirrors).map(url).collect();
        let mut command = match program {
            "trib" => {
                let mut command = trib(&folder);
                command.args(["get", &urls[0], "-o", &out, "--timeout", "10s"]);
                urls[1..].iter().for_each(|url| _ = command.args(["--mirror", url]));
                habit.sha256.iter().for_each(|sum| _ = command.args(["--sha256", sum]));
                command
            }
            "aria2" => {
                let mut command = std::process::Command::new("aria2c");
                command.args(["--no-conf", "-q", "-s4", "-x4", "-k1M", "--max-tries=4", "--retry-wait=1", "-t10"]);
                command.args(["-o", "out"]).arg("-d").arg(&folder).args(&urls);
                habit.sha256.iter().for_each(|sum| _ = command.arg(format!("--checksum=sha-256={sum}")));
                command
            }
            _ => {
                let mut command = std::process::Command::new("curl");
                command.args(["-sSfL", "--retry", "3", "--retry-delay", "1", "-m", "30", "-o", &out, &urls[0]]);
                command
            }
        };
        let ended = command.output().unwrap();
        let is_right = |file: &String| fs::read(file).unwrap() == fs::read(&out).unwrap_or(vec![0; 7]);
        let is_fetched = ended.status.success() && habit.files.iter().any(is_right);
        is_fetched.then_some(()).ok_or_else(|| talk(&ended))
    }
    /// All habits with the results of their fetches.
    fn fetch_all(&self, folder: &Path, programs: &[&str]) -> Vec<(&str, Fetched)> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some(habit) = self.2.get(next.fetch_add(1, Ordering::Relaxed)) {
                let counts = if habit.mirrors == 0 { vec![1, 2] } else { vec![habit.mirrors] };
                let each = |program: &&str| {
                    let counts = counts.iter().filter(|count| **count == counts[0] || *program != "curl");
                    counts
                        .map(|count| (format!("{program} {count}"), self.fetch(folder, habit, program, *count)))
                        .collect::<Vec<_>>()
                };
                done.push((habit.habit.as_str(), programs.iter().flat_map(each).collect()));
            }
            done
        };
        let mut all: Vec<_> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        all.sort_by_key(|(habit, _)| self.2.iter().position(|known| known.habit == **habit));
        all
    }
}
impl Drop for Corpus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `trib` completes every row, including all that aria2 or curl complete: docs/results/web.md shows the rows with a
/// miss.
#[test]
fn whatever_habits_web_servers_have_the_file_arrives() {
    let folder = tempfile::tempdir().unwrap();
    let Some(corpus) = Corpus::start(folder.path()) else { return };
    let peers = [("aria2c", "aria2"), ("curl", "curl")];
    let peers = peers.into_iter().filter(|(program, _)| common::has_program(program)).map(|(_, name)| name);
    let programs: Vec<&str> = ["trib"].into_iter().chain(peers).collect();
    let fetched = corpus.fetch_all(folder.path(), &programs);
    let mut failures = Vec::new();
    for (habit, all) in &fetched {
        let of = |program: &str| {
            let own = all.iter().filter(|(name, _)| name.starts_with(program));
            own.map(|(_, fetched)| if fetched.is_ok() { "yes" } else { "no" }).collect::<Vec<_>>().join(", ")
        };
        println!("| {} | {} | {} | {} |", habit.replace('-', " "), of("trib"), of("aria2"), of("curl"));
        let errors = all.iter().filter(|(name, _)| name.starts_with("trib"));
        failures.extend(errors.filter_map(|(_, fetched)| Some(format!("{habit}: {}", fetched.as_ref().err()?))));
    }
    assert!(fetched.len() > 80 && failures.is_empty(), "{failures:#?}");
}

//! Policies of uplinks over real daemons of each family: a receiver with two neighbours, one of them metered.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "real daemons take the time that they take")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use crate::common::{Daemon, SIZE, config, file, json, lines, port, put, run, server, talk, until};

/// A server, two routers next to it, and a receiver with a face to each router: `wwan` and `fibre`.
struct Uplinks {
    folder: tempfile::TempDir,
    family: &'static str,
    _server: Daemon,
    _routers: [Daemon; 2],
    receiver: PathBuf,
}

impl Uplinks {
    /// `policies` of the faces: of `wwan`, and of `fibre`.
    fn new(family: &'static str, policies: [&str; 2]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (server, face) = server(folder.path(), family);
        let more = if family == "ndn" { "[ndn]\nremote_registration = \"neighbours\"\n" } else { "" };
        let face = face.replace("register = \"localhop\"\n", "");
        let (ports, routes) = ([port(), port()], if family == "ndn" { "routes = [\"/\"]\n" } else { "" });
        let routers = [("hill", ports[0]), ("valley", ports[1])].map(|(label, at)| {
            let config = config(folder.path(), label, r#""router""#, at, &format!("{face}{more}"));
            Daemon::start(folder.path(), &config)
        });
        let to = |(label, (at, policy)): (&str, (u16, &str))| {
            format!("[[face]]\npeer = \"127.0.0.1:{at}\"\nlabel = \"{label}\"\n{routes}{policy}\n")
        };
        let faces = ["wwan", "fibre"].into_iter().zip(ports.into_iter().zip(policies)).map(to);
        let faces = format!("family = \"{family}\"\n{}", faces.collect::<String>());
        let receiver = config(folder.path(), "receiver", r#""receiver""#, 0, &faces);
        Uplinks { folder, family, _server: server, _routers: routers, receiver }
    }
    fn folder(&self) -> &Path {
        self.folder.path()
    }
    fn ask(&self, arguments: &[&str]) -> Output {
        let control = self.folder().join("receiver/control.sock");
        run(self.folder(), &[arguments, &["--json", "--control", control.to_str().unwrap()]].concat())
    }
    fn status(&self) -> serde_json::Value {
        lines(&self.ask(&["status"]).stdout).pop().unwrap()
    }
    fn face(&self, label: &str) -> serde_json::Value {
        let status = self.status();
        let faces = status["faces"].as_array().unwrap();
        faces.iter().find(|face| face["label"] == label).unwrap_or_else(|| panic!("{status}")).clone()
    }
    /// Waits until both neighbours answer.
    fn wait(&self) {
        until("both faces are up", || {
            // In NDN only traffic shows that a neighbour is present.
            self.family == "ndn" || ["wwan", "fibre"].iter().all(|face| self.face(face)["up"] == true)
        });
        if self.family == "psi" {
            // The topology manager hears of links some time after the neighbours have met.
            std::thread::sleep(std::time::Duration::from_secs(2));
        }
    }
    fn get(&self, name: &str, output: &str, more: &[&str]) -> Output {
        let output = self.folder().join(output);
        self.ask(&[&["get", name, "-o", output.to_str().unwrap()], more].concat())
    }
    /// The last word on a fetch that must succeed.
    fn fetch(&self, name: &str, output: &str, more: &[&str]) -> serde_json::Value {
        let got = self.get(name, output, more);
        assert_eq!(got.status.code(), Some(0), "{}", String::from_utf8_lossy(&got.stdout));
        let done = lines(&got.stdout).into_iter().find(|line| line["event"] == "done").unwrap();
        assert_eq!(fs::read(self.folder().join(output)).unwrap(), fs::read(self.folder().join("original")).unwrap());
        done
    }
}
/// Bytes received over a face.
fn bytes_over(done: &serde_json::Value, face: &str) -> u64 {
    let paths = done["paths"].as_array().unwrap();
    paths.iter().filter(|path| path["face"] == face).map(|path| path["bytes"].as_u64().unwrap()).sum()
}

const QUOTA: u64 = 1_000_000;

fn a_quota_moves_a_fetch_to_the_other_uplink(family: &'static str) {
    let wwan = "[face.policy]\nquota = \"1MB\"\nquota_per = \"month\"\n";
    let uplinks = Uplinks::new(family, [wwan, "[face.policy]\ncost = 1\n"]);
    let receiver = Daemon::start(uplinks.folder(), &uplinks.receiver);
    put(uplinks.folder(), &file(uplinks.folder()), "/big");
    uplinks.wait();

    // At this rate the cheap face carries all, until its quota ends.
    let done = uplinks.fetch("/big", "one", &["--limit", "8Mbps"]);
    let (wwan, fibre) = (bytes_over(&done, "wwan"), bytes_over(&done, "fibre"));
    // A busy machine notices the end late; `the_end_of_a_quota_is_looked_for_as_closely_as_the_rate_asks_for` bounds how
    // late a node looks.
    assert!(wwan > QUOTA / 2 && wwan < QUOTA * 2, "{wwan} and {fibre}: {done}");
    assert!(fibre as usize > SIZE - QUOTA as usize * 2, "{wwan} and {fibre}: {done}");
    let quota = &uplinks.face("wwan")["policy"]["quota"];
    let used = quota["used_bytes"].as_u64().unwrap();
    assert!((QUOTA..QUOTA * 2).contains(&used) && quota["per"] == "month", "{quota}");
    let explained = String::from_utf8(uplinks.ask(&["explain", "wwan"]).stdout).unwrap();
    assert!(explained.contains("the quota of 'wwan' is used up"), "{explained}");

    // Killed and restarted, the node still knows; the face carries no more content.
    drop(receiver);
    let _receiver = Daemon::start(uplinks.folder(), &uplinks.receiver);
    uplinks.wait();
    assert!(uplinks.face("wwan")["policy"]["closed"].is_string());
    let done = uplinks.fetch("/big", "two", &[]);
    assert_eq!(bytes_over(&done, "wwan"), 0, "{done}");
    assert!(bytes_over(&done, "fibre") as usize >= SIZE, "{done}");
}
tributary_testkit::tests! {
    fn a_quota_moves_a_fetch_to_the_other_uplink_in_psi() = a_quota_moves_a_fetch_to_the_other_uplink("psi");
    fn a_quota_moves_a_fetch_to_the_other_uplink_in_ndn() = a_quota_moves_a_fetch_to_the_other_uplink("ndn");
}

fn fetches_choose_their_uplinks(family: &'static str) {
    let uplinks = Uplinks::new(family, ["", "[face.policy]\nbackup = true\n"]);
    let _receiver = Daemon::start(uplinks.folder(), &uplinks.receiver);
    put(uplinks.folder(), &file(uplinks.folder()), "/big");
    uplinks.wait();

    let done = uplinks.fetch("/big", "one", &[]);
    assert!(bytes_over(&done, "wwan") as usize >= SIZE - SIZE / 10, "the backup rests: {done}");
    let done = uplinks.fetch("/big", "two", &["--only", "fibre"]);
    assert!(bytes_over(&done, "fibre") as usize >= SIZE && bytes_over(&done, "wwan") == 0, "{done}");
    let done = uplinks.fetch("/big", "three", &["--avoid", "face-1", "--priority", "5"]);
    assert!(bytes_over(&done, "fibre") as usize >= SIZE && bytes_over(&done, "wwan") == 0, "{done}");
    let paths = String::from_utf8(uplinks.ask(&["paths", "/big"]).stdout).unwrap();
    let last = json(paths.lines().last().unwrap());
    let faces: Vec<&str> = last["paths"].as_array().unwrap().iter().filter_map(|path| path["face"].as_str()).collect();
    assert!(faces.contains(&"wwan") && faces.contains(&"fibre"), "{last}");
    let wrong = uplinks.get("/big", "four", &["--only", "cable"]);
    assert!(
        wrong.status.code() == Some(2) && String::from_utf8_lossy(&wrong.stdout).contains("wwan, fibre"),
        "{}{}",
        String::from_utf8_lossy(&wrong.stdout),
        talk(&wrong)
    );
}
tributary_testkit::tests! {
    fn fetches_choose_their_uplinks_in_psi() = fetches_choose_their_uplinks("psi");
    fn fetches_choose_their_uplinks_in_ndn() = fetches_choose_their_uplinks("ndn");
}

/// In MobilityFirst routers choose the paths: the operator's policies decide which of the host's accesses are
/// announced.
#[test]
fn a_quota_moves_a_fetch_to_the_other_uplink_in_mobility_first() {
    let wwan = "[face.policy]\nquota = \"1MB\"\nquota_per = \"day\"\n";
    let uplinks = Uplinks::new("mf", [wwan, "[face.policy]\nbackup = true\n"]);
    let _receiver = Daemon::start(uplinks.folder(), &uplinks.receiver);
    put(uplinks.folder(), &file(uplinks.folder()), "/big");
    uplinks.wait();
    uplinks.fetch("/big", "one", &["--limit", "4Mbps"]);
    let received = |face: &str| uplinks.face(face)["received_bytes"].as_u64().unwrap();
    assert!(uplinks.face("wwan")["policy"]["closed"].is_string());
    assert!(received("fibre") as usize > SIZE / 3, "{} and {}", received("wwan"), received("fibre"));
    let before = received("wwan");
    uplinks.fetch("/big", "two", &[]);
    assert!(received("wwan") - before < 200_000, "{}", received("wwan") - before);
    let wrong = uplinks.get("/big", "three", &["--only", "fibre"]);
    assert!(String::from_utf8_lossy(&wrong.stdout).contains("do not choose their paths"), "{}", talk(&wrong));
}

//! Daemons on a disk that stands still: they go on answering, and end what they began when the disk goes on.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "how soon a daemon answers is told by the clock on the wall")]
mod common;

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use common::{Daemon, config, file, lines, port, run, talk, trib};

/// How long the disk stands still, and how soon a node answers all the same.
const STILL: Duration = Duration::from_secs(8);
const ANSWER: Duration = Duration::from_secs(4);

/// A file system of its own that can be made to stand still, until the test ends.
struct Disk(PathBuf);

impl Disk {
    /// `None` where this user may not make one, with a word that even a quiet test run shows.
    fn mount(folder: &Path) -> Option<Disk> {
        use std::io::Write;
        let (image, at) = (folder.join("image"), folder.join("disk"));
        fs::create_dir(&at).unwrap();
        fs::File::create(&image).and_then(|image| image.set_len(64 << 20)).unwrap();
        let is_done = |command: &mut Command| {
            command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        let is_mounted = is_done(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))
            && is_done(Command::new("mount").args(["-o", "loop"]).args([&image, &at]));
        let disk = Disk(at);
        if is_mounted && disk.freeze("-f") && disk.freeze("-u") {
            return Some(disk);
        }
        let _ = writeln!(std::io::stderr(), "\nSKIPPED: a disk that stands still: a file system to freeze needs root");
        None
    }
    fn freeze(&self, how: &str) -> bool {
        Command::new("fsfreeze")
            .arg(how)
            .arg(&self.0)
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }
}
impl Drop for Disk {
    fn drop(&mut self) {
        self.freeze("-u");
        let _ = Command::new("umount").arg("-l").arg(&self.0).stderr(Stdio::null()).status();
    }
}

/// Waits until something holds.
fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} does not come about");
        thread::sleep(Duration::from_millis(20));
    }
}
/// Ten times the usual file, or MobilityFirst, which limits its windows only, would be through before anything happens.
fn large(folder: &Path) -> PathBuf {
    let large = folder.join("large");
    fs::write(&large, fs::read(file(folder)).unwrap().repeat(10)).unwrap();
    large
}
/// A daemon that publishes `original` as `/big`, and the config of a receiver beside it.
fn network(folder: &Path, family: &str, original: &Path) -> (Daemon, PathBuf) {
    let roles = match family {
        "psi" => r#""sender", "router", "resolver", "topology-manager""#,
        "ndn" => r#""sender", "router""#,
        _ => r#""sender", "router", "resolver""#,
    };
    let at = port();
    let of_family = format!("family = \"{family}\"\n");
    let neighbours = if family == "ndn" { "[ndn]\nremote_registration = \"neighbours\"\n" } else { "" };
    let server = Daemon::start(folder, &config(folder, "server", roles, at, &format!("{of_family}{neighbours}")));
    let control = folder.join("server/control.sock");
    let put = run(folder, &["put", original.to_str().unwrap(), "/big", "--control", control.to_str().unwrap()]);
    assert_eq!(put.status.code(), Some(0), "{}", talk(&put));
    let routes = if family == "ndn" { "routes = [\"/\"]\nregister = \"localhop\"\n" } else { "" };
    let face = format!("{of_family}[[face]]\npeer = \"127.0.0.1:{at}\"\n{routes}");
    (server, config(folder, "receiver", r#""receiver""#, 0, &face))
}

fn a_node_answers_while_its_disk_stands_still(family: &str) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let Some(disk) = Disk::mount(folder) else { return };
    let original = large(folder);
    let (server, receiver) = network(folder, family, &original);
    let other = fs::read_to_string(&receiver).unwrap().replace("\"receiver\"\n", "\"other\"\n");
    let (path, small) = (folder.join("other.toml"), folder.join("small"));
    fs::write(&path, other).unwrap();
    fs::write(&small, "small").unwrap();
    let (other, small) = (path.to_str().unwrap(), small.to_str().unwrap());
    let roles = fs::read_to_string(&receiver).unwrap().replace("[\"receiver\"]", "[\"sender\", \"receiver\"]");
    fs::write(&receiver, roles).unwrap();
    let receiver = Daemon::start(folder, &receiver);
    let control = folder.join("receiver/control.sock");
    let control = control.to_str().unwrap();
    let put = run(folder, &["put", small, "/small", "--control", control]);
    assert_eq!(put.status.code(), Some(0), "{}", talk(&put));
    let out = disk.0.join("out");
    let mut get = trib(folder);
    let get =
        get.args(["get", "/big", "-o", out.to_str().unwrap(), "--limit", "60Mbps", "--control", control, "--json"]);
    let get = get.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let part = disk.0.join("out.part");
    until("a chunk on the disk", || fs::metadata(&part).is_ok_and(|part| part.blocks() * 512 >= 256 << 10));

    assert!(disk.freeze("-f"));
    let frozen = Instant::now();
    let slowest = thread::scope(|scope| {
        let questions = scope.spawn(|| {
            let mut slowest = Duration::ZERO;
            while frozen.elapsed() < STILL {
                let asked = Instant::now();
                let status = run(folder, &["status", "--control", control, "--json"]);
                assert_eq!(status.status.code(), Some(0), "{}", talk(&status));
                slowest = slowest.max(asked.elapsed());
                thread::sleep(Duration::from_millis(100));
            }
            slowest
        });
        let copy = folder.join("copy");
        let get = ["get", "/small", "-o", copy.to_str().unwrap(), "--config", other, "--timeout", "4s"];
        let get = run(folder, &get);
        let (served, served_after) = (get.status.code(), frozen.elapsed());
        thread::sleep(STILL.saturating_sub(frozen.elapsed()));
        assert!(disk.freeze("-u"));
        assert_eq!(served, Some(0), "{family}: it serves nothing to others: {}", talk(&get));
        assert!(served_after < STILL, "{family}: it served others after {served_after:?}");
        questions.join().unwrap()
    });
    assert!(slowest < ANSWER, "{family}: a question was answered after {slowest:?}");

    let get = get.wait_with_output().unwrap();
    assert_eq!(get.status.code(), Some(0), "{}", talk(&get));
    assert_eq!(lines(&get.stdout).last().unwrap()["event"], "done");
    assert!(fs::read(&out).unwrap() == fs::read(&original).unwrap());
    assert!(!part.exists());
    assert_eq!((receiver.stop(), server.stop()), (Some(0), Some(0)));
}

#[test]
fn a_receiver_of_psi_answers_while_its_disk_stands_still() {
    a_node_answers_while_its_disk_stands_still("psi");
}
#[test]
fn a_receiver_of_ndn_answers_while_its_disk_stands_still() {
    a_node_answers_while_its_disk_stands_still("ndn");
}
#[test]
fn a_receiver_of_mobilityfirst_answers_while_its_disk_stands_still() {
    a_node_answers_while_its_disk_stands_still("mf");
}

/// Killed at any moment, a receiver goes on with what it had, and what it says to have held is right.
#[test]
fn a_receiver_that_is_killed_again_and_again_loses_no_verified_chunk() {
    for family in ["psi", "ndn", "mf"] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let original = large(folder);
        let (server, receiver) = network(folder, family, &original);
        let (receiver, out) = (receiver.to_str().unwrap(), folder.join("out"));
        let arguments = ["get", "/big", "-o", out.to_str().unwrap(), "--config", receiver, "--json"];
        let mut held = 0;
        for wait in [317, 611, 149, 823, 467] {
            let mut get = trib(folder);
            let get = get.args(arguments).args(["--limit", "60Mbps"]).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut get = get.spawn().unwrap();
            thread::sleep(Duration::from_millis(wait));
            get.kill().unwrap();
            let told = get.wait_with_output().unwrap().stdout;
            // The last line may be cut.
            let whole = &told[..told.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)];
            let told = lines(whole);
            if let Some(started) = told.iter().find(|line| line["event"] == "started") {
                let resumed = started["resumed_bytes"].as_u64().unwrap();
                assert!(resumed >= held, "{family}: {held} bytes were held, and {resumed} are");
                held = resumed;
            }
            let stored = told.iter().filter_map(|line| line["stored_bytes"].as_u64()).max().unwrap_or(0);
            held = held.max(stored);
            if out.exists() {
                break;
            }
        }
        assert!(held > 0, "{family}: it was always killed before anything was stored");
        if !out.exists() {
            let get = run(folder, &arguments);
            assert_eq!(get.status.code(), Some(0), "{}", talk(&get));
            let done = lines(&get.stdout).pop().unwrap();
            assert!(done["resumed_bytes"].as_u64().unwrap() >= held, "{family}: {held} were held: {done}");
        }
        assert!(fs::read(&out).unwrap() == fs::read(&original).unwrap());
        assert_eq!(server.stop(), Some(0));
    }
}

//! Daemons on a blocked disk: they continue to answer, and finish their tasks when the disk continues.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "how soon a daemon answers is told by the clock on the wall")]

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::common::{self, Daemon, config, file, lines, port, run, server_and_receiver, talk, trib};

/// How long the disk is blocked, and how soon a node answers during that time.
const STILL: Duration = Duration::from_secs(8);
const ANSWER: Duration = Duration::from_secs(4);

/// A separate file system that a test can block until its end.
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
/// A daemon that publishes `original` as `/big`, and the config of a receiver next to it.
fn network(folder: &Path, family: &str, original: &Path) -> (Daemon, PathBuf) {
    let made = server_and_receiver(folder, family);
    common::put(folder, original, "/big");
    made
}

/// All files below a folder, by their relative paths.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(at).unwrap().map(|entry| entry.unwrap()) {
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => folders.push(entry.path()),
                kind if kind.is_file() => files.push(entry.path().strip_prefix(folder).unwrap().into()),
                _ => {}
            }
        }
    }
    files.sort();
    files
}

fn what_is_damaged_in_a_state_folder_is_told_or_made_anew(family: &str) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let original = file(folder);
    let at = port();
    let roles = match family {
        "psi" => r#""sender", "receiver", "router", "resolver", "topology-manager""#,
        "ndn" => r#""sender", "receiver", "router""#,
        _ => r#""sender", "receiver", "router", "resolver""#,
    };
    let path = config(folder, "node", roles, at, &format!("family = \"{family}\"\n"));
    let config = path.to_str().unwrap();
    let state = folder.join("node");
    let control = state.join("control.sock").display().to_string();
    let copy = folder.join("copy");
    let ask = |words: &[&str]| run(folder, &[words, &["--control", &control, "--json"]].concat());
    let get = || ask(&["get", "/big", "-o", copy.to_str().unwrap(), "--timeout", "20s"]);
    let node = Daemon::start(folder, &path);
    assert!(ask(&["put", original.to_str().unwrap(), "/big"]).status.success());
    assert!(get().status.success());
    if family == "mf" {
        assert!(ask(&["readers", "/plans", "--only", &"00".repeat(20)]).status.success());
    }
    assert_eq!(node.stop(), Some(0));
    let known =
        ["format", "key", "lock", "publications.jsonl", "published", "readers.json", "store", "trust", "trust.lock"];
    for of in files_below(&state) {
        let top = of.iter().next().unwrap().to_str().unwrap();
        assert!(known.contains(&top), "{family}: {} is a file that nobody damages", of.display());
        let damaged = state.join(&of);
        let complete = match fs::read(&damaged) {
            // What a store has is in another file now.
            Err(error) if top == "store" && error.kind() == std::io::ErrorKind::NotFound => continue,
            complete => complete.unwrap(),
        };
        let mut flipped = complete.clone();
        flipped.iter_mut().take(1).for_each(|byte| *byte ^= 0x40);
        for (how, bytes) in [("flipped", Some(flipped)), ("emptied", Some(Vec::new())), ("a folder", None)] {
            match &bytes {
                Some(bytes) => fs::write(&damaged, bytes).unwrap(),
                None => fs::remove_file(&damaged).and_then(|()| fs::create_dir(&damaged)).unwrap(),
            }
            let what = format!("{family}: {} {how}", of.display());
            // A fetch reports the file if it is about trust; other commands report it at the start.
            let is_reported = |output: &std::process::Output| {
                let notices = talk(output);
                assert_eq!(output.status.code(), Some(5), "{what}: {notices}");
                assert!(
                    notices.contains(&format!("{}", damaged.display())) && !notices.contains("panicked"),
                    "{what}: {notices}"
                );
            };
            let is_complete = |node: Daemon| {
                let got = get();
                match got.status.success() {
                    true => assert!(fs::read(&copy).unwrap() == fs::read(&original).unwrap(), "{what}"),
                    false => {
                        assert!(top.starts_with("trust"), "{what}: {}", talk(&got));
                        is_reported(&got);
                    }
                }
                assert_eq!(node.stop(), Some(0), "{what}");
            };
            let is_harmless =
                matches!((top, &bytes), ("lock" | "trust.lock" | "published" | "store", Some(_)) | ("published", None));
            if is_harmless || top.starts_with("trust") {
                is_complete(Daemon::start(folder, &path));
            } else {
                is_reported(&run(folder, &["node", "--config", config]));
            }
            let _ = fs::remove_dir(&damaged);
            fs::write(&damaged, &complete).unwrap();
            fs::set_permissions(&damaged, fs::Permissions::from_mode(0o600)).unwrap();
            is_complete(Daemon::start(folder, &path));
        }
    }
}

tributary_testkit::tests! {
    what_is_damaged_in_a_state_folder_is_told_or_made_anew:
    fn what_is_damaged_in_the_state_folder_of_a_psi_node_is_told_or_made_anew("psi");
    fn what_is_damaged_in_the_state_folder_of_an_ndn_node_is_told_or_made_anew("ndn");
    fn what_is_damaged_in_the_state_folder_of_a_mobilityfirst_node_is_told_or_made_anew("mf");
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
    let part = || {
        let names = fs::read_dir(&disk.0).unwrap().map(|entry| entry.unwrap().path());
        names.map(|path| path.join("part")).find(|part| part.is_file())
    };
    let blocks = || part().and_then(|part| fs::metadata(part).ok()).map_or(0, |part| part.blocks());
    until("a chunk on the disk", || blocks() * 512 >= 256 << 10);

    assert!(disk.freeze("-f"));
    let frozen = Instant::now();
    let slowest = thread::scope(|scope| {
        let questions = scope.spawn(|| {
            let mut slowest = Duration::ZERO;
            while frozen.elapsed() < STILL {
                let requested = Instant::now();
                let status = run(folder, &["status", "--control", control, "--json"]);
                assert_eq!(status.status.code(), Some(0), "{}", talk(&status));
                slowest = slowest.max(requested.elapsed());
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
    assert_eq!(part(), None);
    assert_eq!((receiver.stop(), server.stop()), (Some(0), Some(0)));
}

tributary_testkit::tests! {
    a_node_answers_while_its_disk_stands_still:
    fn a_receiver_of_psi_answers_while_its_disk_stands_still("psi");
    fn a_receiver_of_ndn_answers_while_its_disk_stands_still("ndn");
    fn a_receiver_of_mobilityfirst_answers_while_its_disk_stands_still("mf");
}

/// Killed at any moment, a receiver resumes with its chunks, and its report of them is right.
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
            let notices = get.wait_with_output().unwrap().stdout;
            // The last line may be cut.
            let complete = &notices[..notices.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)];
            let notices = lines(complete);
            if let Some(started) = notices.iter().find(|line| line["event"] == "started") {
                let resumed = started["resumed_bytes"].as_u64().unwrap();
                assert!(resumed >= held, "{family}: {held} bytes were held, and {resumed} are");
                held = resumed;
            }
            let stored = notices.iter().filter_map(|line| line["stored_bytes"].as_u64()).max().unwrap_or(0);
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

/// The last line of a `get` of `/big` to `out`, and its exit code.
fn get(folder: &Path, receiver: &Path, out: &Path, more: &[&str]) -> (Option<i32>, serde_json::Value) {
    let (receiver, out) = (receiver.to_str().unwrap(), out.to_str().unwrap());
    let words = ["get", "/big", "-o", out, "--config", receiver, "--timeout", "15s", "--json"];
    let got = run(folder, &[&words[..], more].concat());
    (got.status.code(), lines(&got.stdout).pop().unwrap_or_default())
}
fn put(folder: &Path, what: &Path, version: &str) {
    let control = folder.join("server/control.sock");
    let words = ["put", what.to_str().unwrap(), "/big", "--object-version", version, "--control"];
    let put = run(folder, &[&words[..], &[control.to_str().unwrap()]].concat());
    assert_eq!(put.status.code(), Some(0), "{}", talk(&put));
}

#[test]
fn files_beside_a_fetch_and_what_is_in_its_place_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let original = file(folder);
    let (_server, receiver) = network(folder, "psi", &original);
    let (out, read) = (folder.join("out"), |path: &Path| fs::read(path).unwrap());
    for name in ["out.part", "out.part.state", "out.part-dir"] {
        fs::write(folder.join(name), "mine").unwrap();
    }
    // A foreign file is refused before anything is fetched, unless overwriting is requested.
    fs::write(&out, "mine").unwrap();
    fs::set_permissions(&out, fs::Permissions::from_mode(0o600)).unwrap();
    let (code, notices) = get(folder, &receiver, &out, &[]);
    assert_eq!(code, Some(5), "{notices}");
    assert!(notices["message"].as_str().unwrap().contains("--overwrite"), "{notices}");
    assert_eq!(read(&out), b"mine");
    let (code, notices) = get(folder, &receiver, &out, &["--overwrite"]);
    assert_eq!(code, Some(0), "{notices}");
    assert!(read(&out) == read(&original));
    assert_eq!(fs::metadata(&out).unwrap().permissions().mode() & 0o777, 0o600, "no more readable than what was there");
    // The same again needs no byte.
    let (code, notices) = get(folder, &receiver, &out, &[]);
    assert_eq!((code, notices["resumed_bytes"].as_u64()), (Some(0), Some(read(&original).len() as u64)), "{notices}");
    // The next version replaces it, until it is changed locally.
    fs::write(&original, "the next one").unwrap();
    put(folder, &original, "9000000000000001");
    assert_eq!(get(folder, &receiver, &out, &[]).0, Some(0));
    assert_eq!(read(&out), b"the next one");
    fs::write(&out, "the next one, and mine").unwrap();
    fs::write(&original, "the one after").unwrap();
    put(folder, &original, "9000000000000002");
    let (code, notices) = get(folder, &receiver, &out, &[]);
    assert!(
        code == Some(5) && notices["message"].as_str().unwrap().contains("not as it was when it was fetched"),
        "{notices}"
    );
    assert_eq!(read(&out), b"the next one, and mine");
    // A folder next to a folder.
    let (tree, copy) = (folder.join("tree"), folder.join("copy"));
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("secret"), "key").unwrap();
    fs::set_permissions(tree.join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(folder.join("copy.part-dir")).unwrap();
    fs::write(folder.join("copy.part-dir/thesis"), "mine").unwrap();
    put(folder, &tree, "9000000000000003");
    assert_eq!(get(folder, &receiver, &copy, &[]).0, Some(0));
    assert_eq!(fs::metadata(copy.join("secret")).unwrap().permissions().mode() & 0o077, 0);
    assert_eq!(read(&folder.join("copy.part-dir/thesis")), b"mine");
    // The next version replaces a fetched folder; in any other folder it is placed inside, even if that may be
    // replaced.
    fs::write(tree.join("secret"), "next").unwrap();
    put(folder, &tree, "9000000000000004");
    let other = folder.join("copy.part-dir");
    for (target, more, at) in [
        (&copy, &[][..], copy.clone()),
        (&other, &["--overwrite"], other.join("big")),
        (&copy.join(""), &[], copy.join("big")),
        (&copy, &["--overwrite"], copy.clone()),
    ] {
        let (code, notices) = get(folder, &receiver, target, more);
        assert_eq!((code, notices["output"].as_str()), (Some(0), at.to_str()), "{target:?}: {notices}");
        assert_eq!(read(&at.join("secret")), b"next");
    }
    assert_eq!(read(&other.join("thesis")), b"mine");
    for name in ["out.part", "out.part.state", "out.part-dir"] {
        assert_eq!(read(&folder.join(name)), b"mine");
    }
    let left = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(left.filter(|name| name.starts_with(".tributary")).count(), 0);
}

#[test]
fn what_is_all_zeros_takes_no_room_where_it_is_received() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let original = folder.join("image");
    fs::File::create(&original).and_then(|file| file.set_len(24 << 20)).unwrap();
    let used = |path: &Path| fs::metadata(path).unwrap().blocks() * 512;
    if used(&original) > 1 << 20 {
        return;
    }
    let (_server, receiver) = network(folder, "psi", &original);
    let out = folder.join("out");
    assert_eq!(get(folder, &receiver, &out, &[]).0, Some(0));
    assert!(fs::read(&out).unwrap() == vec![0; 24 << 20]);
    assert!(used(&out) <= 1 << 20, "{} bytes of disk", used(&out));
}

/// A publisher that cannot read its file reports it locally, and its receivers learn the reason.
fn a_source_that_changes_is_told(family: &str) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let original = large(folder);
    let (_server, receiver) = network(folder, family, &original);
    let bytes = fs::read(&original).unwrap();
    let mut changed = bytes.clone();
    let middle = changed.len() / 2;
    changed[middle..].iter_mut().for_each(|byte| *byte ^= 1);
    // It has the same length, and it is cut.
    for (how, what) in [(&changed[..], "was changed after"), (&changed[..middle + 5], "")] {
        fs::write(&original, how).unwrap();
        let (code, notices) = get(folder, &receiver, &folder.join("out"), &[]);
        assert_eq!(code, Some(3), "{family}: {notices}");
        let message = notices["message"].as_str().unwrap();
        assert!(message.contains("changed at the source"), "{family}: {message}");
        let control = folder.join("server/control.sock");
        let control = control.to_str().unwrap();
        let status = run(folder, &["status", "--control", control]);
        let status = String::from_utf8_lossy(&status.stdout).into_owned();
        assert!(status.contains("cannot be served") && status.contains(what), "{family}: {status}");
        let explained = run(folder, &["explain", "/big", "--control", control]);
        assert!(String::from_utf8_lossy(&explained.stdout).contains("cannot be served"), "{family}");
    }
}

tributary_testkit::tests! {
    fn a_source_of_psi_that_changes_is_told() = a_source_that_changes_is_told("psi");
    fn a_source_of_ndn_that_changes_is_told() = a_source_that_changes_is_told("ndn");
    fn a_source_of_mobilityfirst_that_changes_is_told() = a_source_that_changes_is_told("mf");
}

#[test]
fn what_a_command_published_until_it_ended_is_not_published_by_the_next_node() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let original = file(folder);
    let roles = r#""sender", "router", "resolver", "topology-manager""#;
    let path = config(folder, "server", roles, port(), "");
    let words = ["put", original.to_str().unwrap(), "/once", "--config", path.to_str().unwrap()];
    let (put, notices, _) = common::begin(folder, &[&words[..], &["--json"]].concat());
    assert_eq!(notices["event"], "published");
    put.signal("INT");
    assert_eq!(put.wait(), Some(0));
    let node = Daemon::start(folder, &path);
    let status = run(folder, &["status", "--control", folder.join("server/control.sock").to_str().unwrap(), "--json"]);
    assert_eq!(lines(&status.stdout)[0]["published"], serde_json::json!([]));
    assert_eq!(node.stop(), Some(0));
}

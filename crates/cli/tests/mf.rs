//! Nodes of the MobilityFirst family as people use them: real daemons, real datagrams on loopback.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use common::{Begun, Daemon, SIZE, begin, file, lines, port, rest, run, talk, trib};
use serde_json::Value;

/// An example as it is in the repository, its router at a port of its own, its state in `folder`.
fn example(folder: &Path, name: &str, label: &str, router: u16) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let text = fs::read_to_string(path).unwrap();
    let (start, rest) = text.split_once("label = \"").unwrap();
    let rest = &rest[rest.find('"').unwrap()..];
    let text = format!("{start}state_dir = \"{label}\"\nlabel = \"{label}{rest}");
    let path = folder.join(format!("{label}.toml"));
    fs::write(&path, text.replace("127.0.0.1:7002", &format!("127.0.0.1:{router}"))).unwrap();
    path
}
/// A router, and the config of a device at it for each of `labels`.
fn network<const N: usize>(folder: &Path, labels: [&str; N]) -> (Daemon, [String; N]) {
    let at = port();
    let router = Daemon::start(folder, &example(folder, "mobile-router.toml", "tower", at));
    let configs = labels.map(|label| example(folder, "mobile-host.toml", label, at).display().to_string());
    (router, configs)
}
fn control(folder: &Path, label: &str) -> String {
    folder.join(label).join("control.sock").display().to_string()
}
fn held(folder: &Path) -> Vec<Value> {
    let store = run(folder, &["store", "--control", &control(folder, "tower"), "--json"]);
    assert_eq!(store.status.code(), Some(0), "{}", talk(&store));
    lines(&store.stdout)[0]["held"].as_array().unwrap().clone()
}
#[test]
fn a_file_and_a_folder_that_are_sent_to_a_name_are_with_all_that_take_what_comes_there() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let original = file(folder);
    let (_router, [near, far, source]) = network(folder, ["near", "far", "source"]);
    let inboxes = ["in-near", "in-far"].map(|name| folder.join(name).display().to_string());
    let mut receivers = Vec::new();
    for (config, inbox) in [&near, &far].into_iter().zip(&inboxes) {
        let arguments = ["recv", "--config", config, "--attach", "/home/all", "-o", inbox, "--count", "2", "--json"];
        let (child, told, stdout) = begin(folder, &arguments);
        assert_eq!((&told["event"], &told["names"][0]), (&"receiving".into(), &"/home/all".into()));
        receivers.push((child, stdout));
    }
    // The names are told to the network without anybody waiting for it.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let album = folder.join("album");
    fs::create_dir_all(album.join("deep")).unwrap();
    fs::write(album.join("deep/picture"), [7; 50_000]).unwrap();
    for (path, name) in [(&original, "/film"), (&album, "/album")] {
        let path = path.to_str().unwrap();
        let send = run(folder, &["send", path, name, "--to", "/home/all", "--config", &source, "--json"]);
        assert_eq!(send.status.code(), Some(0), "{}", talk(&send));
        let told = lines(&send.stdout);
        let sent = told.last().unwrap();
        assert_eq!((&sent["event"], sent["delivered"].as_array().unwrap().len()), (&"sent".into(), 2), "{sent}");
    }
    for ((child, stdout), inbox) in receivers.into_iter().zip(&inboxes) {
        let told = rest(stdout);
        assert_eq!(child.wait(), Some(0));
        let received: Vec<_> = told.iter().filter(|line| line["event"] == "received").collect();
        assert_eq!((received.len(), &received[0]["bytes"]), (2, &SIZE.into()), "{told:?}");
        assert!(fs::read(Path::new(inbox).join("film")).unwrap() == fs::read(&original).unwrap());
        assert_eq!(fs::read(Path::new(inbox).join("album/deep/picture")).unwrap(), [7; 50_000]);
    }
}

#[test]
fn what_nobody_can_take_waits_in_the_router_and_is_told_there() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let original = file(folder);
    let (router, [phone, source]) = network(folder, ["phone", "source"]);
    // A device is known by its key: it is there once, and goes away.
    let there = run(folder, &["recv", "--config", &phone, "--timeout", "300ms", "--json"]);
    assert_eq!(there.status.code(), Some(1), "nothing came: {}", talk(&there));
    let id = lines(&there.stdout)[0]["id"].as_str().unwrap().to_string();
    assert!(lines(&there.stdout).last().unwrap()["message"].as_str().unwrap().contains("0 objects"), "{there:?}");
    let sender = Daemon::start(folder, Path::new(&source));
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let path = original.to_str().unwrap();
    let socket = control(folder, "source");
    let send = ["send", path, "/film", "--to", &id, "--control", &socket, "--lifetime", "10min", "--timeout", "4s"];
    let send = run(folder, &[&send[..], &["--json"]].concat());
    assert_eq!(send.status.code(), Some(1), "it is with nobody: {}", talk(&send));
    assert!(talk(&send).contains("are stored on the way") && talk(&send).contains("trib store"), "{}", talk(&send));
    let told = lines(&send.stdout);
    let last = told.iter().rfind(|line| line["event"] == "sending").unwrap();
    assert_eq!(last["stored_chunks"], last["chunks"], "{last}");
    let held = held(folder);
    assert_eq!((held[0]["destination"].as_str(), &held[0]["chunks"]), (Some(&id[..]), &last["chunks"]), "{held:?}");
    let left = held[0]["left_seconds"].as_f64().unwrap();
    assert!((500.0..=600.0).contains(&left), "{left}");
    let table = run(folder, &["store", "--control", &control(folder, "tower")]);
    assert!(String::from_utf8_lossy(&table.stdout).contains("the destination is away"), "{table:?}");

    let inbox = folder.join("inbox");
    let inbox = inbox.to_str().unwrap();
    let recv = run(folder, &["recv", "--config", &phone, "-o", inbox, "--count", "1", "--timeout", "20s", "--json"]);
    assert_eq!(recv.status.code(), Some(0), "{}", talk(&recv));
    assert!(fs::read(Path::new(inbox).join("film")).unwrap() == fs::read(&original).unwrap());
    assert_eq!((sender.stop(), router.stop()), (Some(0), Some(0)));
}

/// A small file system of its own at a folder, until the test ends.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where this user may not make one, with a word that even a quiet test run shows.
    fn mount(folder: &Path, size: &str) -> Option<SmallDisk> {
        use std::io::Write;
        fs::create_dir_all(folder).unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(folder).stderr(Stdio::null());
        let is_mounted = mount.status().is_ok_and(|status| status.success());
        if !is_mounted {
            let _ = writeln!(std::io::stderr(), "\nSKIPPED: a router with a full disk: mounting a tmpfs needs root");
        }
        is_mounted.then(|| SmallDisk(folder.into()))
    }
}
impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn what_a_full_disk_has_acknowledged_outlives_a_kill_and_the_rest_stays_with_the_source() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let Some(_disk) = SmallDisk::mount(&folder.join("tower/store"), "2m") else { return };
    let original = file(folder);
    let (router, [phone, source]) = network(folder, ["phone", "source"]);
    let there = run(folder, &["recv", "--config", &phone, "--timeout", "300ms", "--json"]);
    let id = lines(&there.stdout)[0]["id"].as_str().unwrap().to_string();
    let sender = Daemon::start(folder, Path::new(&source));
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let (path, socket) = (original.to_str().unwrap(), control(folder, "source"));
    let send = ["send", path, "/film", "--to", &id, "--control", &socket, "--lifetime", "10min", "--timeout", "60s"];
    let (send, _, told) = begin(folder, &[&send[..], &["--json"]].concat());
    let chunks = || held(folder).iter().filter_map(|held| held["chunks"].as_u64()).sum::<u64>();
    let came = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        chunks() > 0
    });
    assert!(came, "nothing is stored");
    std::thread::sleep(std::time::Duration::from_secs(2));
    let before = chunks();
    assert!((1..=3).contains(&before), "{before} of 4 chunks: the description, and 2.9 MiB in 2 MiB");
    // As a power cut would end it.
    drop(router);
    let router = Daemon::start(folder, &folder.join("tower.toml"));
    assert!(chunks() >= before, "{} of {before} chunks are left", chunks());
    let inbox = folder.join("inbox");
    let inbox = inbox.to_str().unwrap();
    let recv = run(folder, &["recv", "--config", &phone, "-o", inbox, "--count", "1", "--timeout", "40s", "--json"]);
    assert_eq!(recv.status.code(), Some(0), "{}", talk(&recv));
    assert!(fs::read(Path::new(inbox).join("film")).unwrap() == fs::read(&original).unwrap());
    let told = rest(told);
    assert_eq!((send.wait(), &told.last().unwrap()["event"]), (Some(0), &"sent".into()), "{told:?}");
    assert_eq!((sender.stop(), router.stop()), (Some(0), Some(0)));
}

#[test]
fn only_those_who_may_look_up_a_name_can_get_it_and_a_restart_does_not_show_it_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let original = file(folder);
    let (_router, [owner, friend, stranger]) = network(folder, ["owner", "friend", "stranger"]);
    let own = Daemon::start(folder, Path::new(&owner));
    let _friend = Daemon::start(folder, Path::new(&friend));
    let _stranger = Daemon::start(folder, Path::new(&stranger));
    let socket = control(folder, "owner");
    let status = run(folder, &["status", "--control", &control(folder, "friend")]);
    let status = String::from_utf8(status.stdout).unwrap();
    let id = status.lines().find(|line| line.contains("guid")).unwrap().split_whitespace().last().unwrap();
    let wrong = run(folder, &["readers", "/plans", "--only", "friend", "--control", &socket]);
    assert!(wrong.status.code() == Some(2) && talk(&wrong).contains("'friend' is no GUID"), "{}", talk(&wrong));
    let limit = run(folder, &["readers", "/plans", "--only", id, "--control", &socket, "--json"]);
    let told = lines(&limit.stdout).remove(0);
    assert_eq!((&told["event"], &told["name"], &told["readers"][0]), (&"readers".into(), &"/plans".into(), &id.into()));
    let put = run(folder, &["put", original.to_str().unwrap(), "/plans", "--control", &socket]);
    assert_eq!(put.status.code(), Some(0), "{}", talk(&put));
    let get = |label: &str| {
        let (output, socket) = (folder.join(format!("of-{label}")), control(folder, label));
        let got =
            run(folder, &["get", "/plans", "-o", output.to_str().unwrap(), "--control", &socket, "--timeout", "3s"]);
        (got.status.code(), talk(&got))
    };
    assert_eq!(get("friend").0, Some(0));
    let (code, talk_of) = get("stranger");
    assert!(code == Some(1) && talk_of.contains("no publisher"), "{talk_of}");
    assert_eq!(own.stop(), Some(0));
    let own = Daemon::start(folder, Path::new(&owner));
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(get("stranger").0, Some(1), "it has started anew");
    let all = run(folder, &["readers", "/plans", "--all", "--control", &socket]);
    assert!(String::from_utf8_lossy(&all.stdout).contains("everybody may look up '/plans'"), "{all:?}");
    assert_eq!((get("stranger").0, own.stop()), (Some(0), Some(0)));
}

#[test]
fn members_of_a_group_may_look_up_what_is_for_it_and_the_group_outlives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let original = file(folder);
    let (_router, [owner, friend]) = network(folder, ["owner", "friend"]);
    let own = Daemon::start(folder, Path::new(&owner));
    let _friend = Daemon::start(folder, Path::new(&friend));
    let ask = |label: &str, words: &[&str]| {
        let asked = run(folder, &[words, &["--control", &control(folder, label), "--json"]].concat());
        assert_eq!(asked.status.code(), Some(0), "{}", talk(&asked));
        lines(&asked.stdout).remove(0)
    };
    let status = run(folder, &["status", "--control", &control(folder, "friend")]);
    let status = String::from_utf8(status.stdout).unwrap();
    let id = status.lines().find(|line| line.contains("guid")).unwrap().split_whitespace().last().unwrap();
    assert_eq!(ask("owner", &["group", "list"])["groups"].as_array().unwrap().len(), 0);
    let none = run(folder, &["group", "remove", "friends", "--control", &control(folder, "owner")]);
    assert!(none.status.code() == Some(2) && talk(&none).contains("none of this label"), "{}", talk(&none));
    let other = "00".repeat(20);
    assert_eq!(ask("owner", &["group", "add", "friends", &other])["groups"][0]["members"][0], other.as_str());
    let group = ask("owner", &["group", "list"])["groups"][0]["guid"].as_str().unwrap().to_string();
    ask("owner", &["readers", "/plans", "--only", &group]);
    ask("owner", &["put", original.to_str().unwrap(), "/plans"]);
    let get = || {
        let (output, socket) = (folder.join("copy"), control(folder, "friend"));
        let words = ["get", "/plans", "-o", output.to_str().unwrap(), "--control", &socket, "--timeout", "5s"];
        run(folder, &words).status.code()
    };
    assert_eq!(get(), Some(1), "it is no member");
    let told = ask("owner", &["group", "add", "friends", id, id]);
    assert_eq!(told["groups"][0]["members"].as_array().unwrap().len(), 2, "each counts once: {told}");
    let told = ask("owner", &["group", "remove", "friends", &other]);
    assert_eq!(told["groups"][0]["members"], serde_json::json!([id]));
    assert_eq!(own.stop(), Some(0));
    let own = Daemon::start(folder, Path::new(&owner));
    assert_eq!(ask("owner", &["group", "list"])["groups"][0]["members"], serde_json::json!([id]));
    assert_eq!(get(), Some(0));
    ask("owner", &["group", "remove", "friends"]);
    assert_eq!(ask("owner", &["group", "list"])["groups"].as_array().unwrap().len(), 0);
    assert_eq!(own.stop(), Some(0));
}

#[test]
fn who_publishes_in_the_foreground_is_asked_and_told_as_a_daemon_is() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let original = file(folder);
    let (_router, [owner, stranger]) = network(folder, ["owner", "stranger"]);
    let _stranger = Daemon::start(folder, Path::new(&stranger));
    let (put, told, _stdout) =
        begin(folder, &["put", original.to_str().unwrap(), "/plans", "--config", &owner, "--json"]);
    assert_eq!(told["event"], "published");
    let socket = control(folder, "owner");
    let ask = |words: &[&str]| {
        let asked = run(folder, &[words, &["--control", &socket, "--json"]].concat());
        assert_eq!(asked.status.code(), Some(0), "{}", talk(&asked));
        lines(&asked.stdout).remove(0)
    };
    assert_eq!(ask(&["status"])["label"], "owner");
    let id = "00".repeat(20);
    assert_eq!(ask(&["readers", "/plans", "--only", &id])["readers"][0], id.as_str());
    let get = || {
        let (output, socket) = (folder.join("copy"), control(folder, "stranger"));
        let words = ["get", "/plans", "-o", output.to_str().unwrap(), "--control", &socket, "--timeout", "3s"];
        run(folder, &words).status.code()
    };
    assert_eq!(get(), Some(1));
    ask(&["readers", "/plans", "--all"]);
    assert_eq!(get(), Some(0));
    let second = run(folder, &["node", "--config", &owner]);
    assert_eq!(second.status.code(), Some(2), "two at one state");
    put.signal("INT");
    assert_eq!(put.wait(), Some(0));
    assert!(!Path::new(&socket).exists(), "the socket is left behind");
}

#[test]
fn the_demo_passes_by_a_cache_that_lies_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let demo = ["demo", "--family", "mf", "--evil", "cache", "--size", "9MB"];
    let told = run(folder.path(), &[&demo[..], &["--json"]].concat());
    assert_eq!(told.status.code(), Some(0), "{}", talk(&told));
    let told = lines(&told.stdout);
    let done = told.last().unwrap();
    let expected = (&"done".into(), &true.into(), &9_000_000.into(), &"passed".into());
    assert_eq!((&done["event"], &done["verified"], &done["bytes"], &done["checks"]), expected);
    assert!(done["bypassed_caches"].as_array().is_some_and(|caches| caches.len() == 1), "{done}");
    // An honest publisher brings what the cache lied about, and is not taken for the liar. Honest caches bring one to five of
    // nine chunks, by when each was asked for.
    assert!(done["source_bytes"].as_u64() > Some(1_000_000), "{done}");
    let is_trusted = |source: &Value| source.get("distrusted").is_none_or(Value::is_null);
    assert!(done["sources"].as_array().unwrap().iter().all(is_trusted), "{done}");
    let shown = run(folder.path(), &demo);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("gave wrong bytes, bypassed"), "{shown}");
}

#[test]
fn a_daemon_takes_what_is_sent_to_a_name_from_attach_until_detach() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (_router, [home, source]) = network(folder, ["home", "source"]);
    let _home = Daemon::start(folder, Path::new(&home));
    let socket = control(folder, "home");
    let inbox = folder.join("inbox");
    let inbox = inbox.to_str().unwrap();
    let (recv, told, stdout) = begin(folder, &["recv", "--control", &socket, "-o", inbox, "--json"]);
    assert_eq!(told["event"], "receiving");
    let second = run(folder, &["recv", "--control", &socket, "-o", inbox]);
    assert_eq!(second.status.code(), Some(2), "one at a time: {}", talk(&second));
    let reading = |value: &str, timeout: &str| {
        let path = folder.join("reading");
        fs::write(&path, value).unwrap();
        let to = ["--to", "/home/readings", "--config", &source, "--timeout", timeout, "--json"];
        run(folder, &[&["send", path.to_str().unwrap(), "/roof/temperature"][..], &to].concat())
    };
    for (command, attached, value, code) in [("attach", true, "21.5", 0), ("detach", false, "22.5", 1)] {
        let change = run(folder, &[command, "/home/readings", "--control", &socket, "--json"]);
        assert_eq!(change.status.code(), Some(0), "{}", talk(&change));
        let told = lines(&change.stdout).remove(0);
        assert_eq!((&told["name"], &told["attached"]), (&"/home/readings".into(), &attached.into()));
        std::thread::sleep(std::time::Duration::from_secs(1));
        let send = reading(value, if attached { "10s" } else { "2s" });
        assert_eq!(send.status.code(), Some(code), "{command}: {}", talk(&send));
    }
    recv.signal("INT");
    let told = rest(stdout);
    assert_eq!(recv.wait(), Some(130));
    let received: Vec<_> = told.iter().filter(|line| line["event"] == "received").collect();
    assert_eq!((received.len(), received[0]["text"].as_str()), (1, Some("21.5")), "{told:?}");
}

#[test]
fn a_daemon_stays_attached_to_what_it_was_told_to_after_somebody_has_received() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (_router, [home, source]) = network(folder, ["home", "source"]);
    let _home = Daemon::start(folder, Path::new(&home));
    let socket = control(folder, "home");
    let inbox = folder.join("inbox");
    let inbox = inbox.to_str().unwrap();
    let attach = run(folder, &["attach", "/home/kept", "--control", &socket]);
    assert_eq!(attach.status.code(), Some(0), "{}", talk(&attach));
    let recv = ["recv", "--attach", "/home/kept", "--attach", "/home/passing", "-o", inbox, "--control", &socket];
    let passing = run(folder, &[&recv[..], &["--timeout", "200ms"]].concat());
    assert_eq!(passing.status.code(), Some(1), "{}", talk(&passing));
    let (recv, _, stdout) = begin(folder, &["recv", "--control", &socket, "-o", inbox, "--json"]);
    let reading = folder.join("reading");
    fs::write(&reading, "21.5").unwrap();
    for (to, timeout, code) in [("/home/kept", "10s", 0), ("/home/passing", "2s", 1)] {
        let to = ["--to", to, "--config", &source, "--timeout", timeout];
        let send = run(folder, &[&["send", reading.to_str().unwrap(), "/roof/temperature"][..], &to].concat());
        assert_eq!(send.status.code(), Some(code), "{to:?}: {}", talk(&send));
    }
    recv.signal("INT");
    assert_eq!(rest(stdout).iter().filter(|line| line["event"] == "received").count(), 1);
}

#[test]
fn what_cannot_be_kept_is_told_and_the_next_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let inbox = folder.join("inbox");
    let Some(_disk) = SmallDisk::mount(&inbox, "1m") else { return };
    let original = file(folder);
    let (_router, [phone, source]) = network(folder, ["phone", "source"]);
    let arguments = ["recv", "--config", &phone, "--attach", "/home/all", "-o", inbox.to_str().unwrap(), "--json"];
    let (_recv, _, stdout) = begin(folder, &[&arguments[..], &["--count", "1"]].concat());
    std::thread::sleep(std::time::Duration::from_secs(1));
    let small = folder.join("small");
    fs::write(&small, "fits").unwrap();
    for (path, name, code) in [(&original, "/film", 1), (&small, "/note", 0)] {
        let to = ["--to", "/home/all", "--config", &source, "--timeout", "4s", "--json"];
        let send = run(folder, &[&["send", path.to_str().unwrap(), name][..], &to].concat());
        assert_eq!(send.status.code(), Some(code), "{}", talk(&send));
    }
    let told = rest(stdout);
    let events: Vec<_> = told.iter().map(|line| (line["event"].as_str().unwrap(), &line["name"])).collect();
    assert_eq!(events, [("not-received", &"/film".into()), ("received", &"/note".into())], "{told:?}");
    let reason = told[0]["reason"].as_str().unwrap();
    assert!(reason.contains("space"), "{reason}");
}

#[test]
fn what_cannot_work_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (_router, [phone]) = network(folder, ["phone"]);
    let tower = control(folder, "tower");
    let other = common::config(folder, "other", r#""sender", "receiver""#, 0, "");
    let other = other.to_str().unwrap();
    let original = file(folder);
    let original = original.to_str().unwrap();
    let origin = ["http-proxy", "server", "--config", &phone, "--name", "/http/a", "--origin"];
    for (arguments, code, words) in [
        (&["send", original, "/x", "--to", "/y", "--config", other][..], 2, "neither send nor store"),
        (&["recv", "--config", other], 2, "neither send nor store"),
        (&["send", "/nowhere/at/all", "/x", "--to", "/y", "--config", &phone], 2, "/nowhere/at/all"),
        (&["send", original, "/x", "--to", "no-guid", "--config", &phone], 2, "no-guid"),
        (&["send", original, "/x", "--to", "/y", "--control", &tower], 2, "sender"),
        (&["recv", "--control", &tower], 2, "receiver"),
        (&["send", original, "/x", "--to", "/y", "--chunk-size", "64MiB", "--config", &phone], 2, "8 MiB"),
        (&["send", original, "/x", "--to", "/nobody", "--timeout", "1s", "--config", &phone], 1, "0 of 0 receivers"),
        (&[&origin[..], &["https://127.0.0.1:1"]].concat(), 2, "http://127.0.0.1:80"),
    ] {
        let refused = run(folder, arguments);
        assert_eq!(refused.status.code(), Some(code), "{arguments:?}: {}", talk(&refused));
        assert!(
            talk(&refused).contains("error: ") && talk(&refused).contains(words),
            "{arguments:?}: {}",
            talk(&refused)
        );
        let json = run(folder, &[arguments, &["--json"]].concat());
        let last = lines(&json.stdout).pop().unwrap();
        assert_eq!((json.status.code(), &last["event"]), (Some(code), &"error".into()), "{arguments:?}: {last}");
    }
}

/// A web server of its own making, one answer a connection: `/big`, `/echo` of a request's body, 404 else.
fn web_server() -> std::net::SocketAddr {
    use std::io::{BufRead, BufReader, Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || -> std::io::Result<()> {
                let mut reader = BufReader::new(stream.try_clone()?);
                let (mut first, mut length) = (String::new(), 0);
                reader.read_line(&mut first)?;
                loop {
                    let mut header = String::new();
                    reader.read_line(&mut header)?;
                    match header.trim_end().to_ascii_lowercase().split_once(": ") {
                        Some(("content-length", value)) => length = value.parse().unwrap_or(0),
                        Some(_) => {}
                        None => break,
                    }
                }
                let mut sent = vec![0; length];
                reader.read_exact(&mut sent)?;
                let (status, body) = match first.split(' ').nth(1) {
                    Some("/big") => ("200 OK", big()),
                    Some("/echo") => ("200 OK", sent),
                    _ => ("404 Not Found", b"no such page".to_vec()),
                };
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                stream.write_all(head.as_bytes())?;
                stream.write_all(&body)
            });
        }
    });
    address
}
fn big() -> Vec<u8> {
    (0..4_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect()
}
/// Asks a proxy on a connection of its own; gives the status and the body.
fn ask(proxy: &str, host: &str, request: &str, body: &[u8]) -> (String, Vec<u8>) {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(proxy).unwrap();
    let head =
        format!("{request} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    (head.lines().next().unwrap().into(), answer[end + 4..].to_vec())
}

#[test]
fn the_two_proxies_are_one_to_whoever_asks_and_tell_what_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (_router, [near, far, dead]) = network(folder, ["near", "far", "dead"]);
    let origin = format!("http://{}", web_server());
    // Taken and given back: nobody listens there.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = format!("http://{nobody}");
    let mut proxies = Vec::new();
    for (config, origin, name) in [(&far, &origin, "/http/site.example"), (&dead, &nobody, "/http/dead.example")] {
        let arguments = ["http-proxy", "server", "--config", config, "--origin", origin, "--name", name, "--json"];
        let (child, told, _) = begin(folder, &arguments);
        assert_eq!((&told["event"], &told["side"]), (&"ready".into(), &"server".into()));
        proxies.push(child);
    }
    let arguments =
        ["http-proxy", "browser", "--config", &near, "--listen", "127.0.0.1:0", "--timeout", "5s", "--json"];
    let (child, told, _) = begin(folder, &arguments);
    proxies.push(child);
    let proxy = told["address"].as_str().unwrap().to_string();
    std::thread::sleep(std::time::Duration::from_secs(1));

    let (status, body) = ask(&proxy, "site.example", "GET http://site.example/big", &[]);
    assert!(status == "HTTP/1.1 200 OK" && body == big(), "{status}, {} bytes", body.len());
    let (status, body) = ask(&proxy, "site.example", "POST /echo", &[9; 100_000]);
    assert!(status == "HTTP/1.1 200 OK" && body == [9; 100_000], "{status}, {} bytes", body.len());
    let (status, body) = ask(&proxy, "site.example", "GET /nothing", &[]);
    assert_eq!((status.as_str(), &body[..]), ("HTTP/1.1 404 Not Found", &b"no such page"[..]));
    let (status, body) = ask(&proxy, "dead.example", "GET /", &[]);
    assert!(status.starts_with("HTTP/1.1 502"), "{status}");
    assert!(String::from_utf8_lossy(&body).contains("cannot reach the web server"), "{body:?}");
    let (status, _) = ask(&proxy, "nobody.example", "GET /", &[]);
    assert!(status.starts_with("HTTP/1.1 504"), "{status}");

    let second = run(folder, &["http-proxy", "browser", "--config", &dead, "--listen", &proxy]);
    assert_eq!(second.status.code(), Some(2), "the port is taken: {}", talk(&second));
    for proxy in proxies {
        proxy.signal("INT");
        assert_eq!(proxy.wait(), Some(0), "it works until it is ended");
    }
}

#[test]
fn a_signal_ends_what_reads_standard_input_or_looks_for_a_neighbour_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let temporary = folder.join("temporary");
    fs::create_dir(&temporary).unwrap();
    let original = file(folder);
    // Nobody is at that port.
    let host = example(folder, "mobile-host.toml", "host", port()).display().to_string();
    let nobody = folder.join("nobody").display().to_string();
    for arguments in [
        &["send", "-", "/x", "--to", "/y", "--control", &nobody][..],
        &["get", "/x", "--config", &host][..],
        &["put", original.to_str().unwrap(), "/x", "--config", &host][..],
    ] {
        for wait in [300, 1_000] {
            let mut command = trib(folder);
            command.args(arguments).env("TMPDIR", &temporary).stdin(Stdio::piped()).stdout(Stdio::null());
            // Standard input stays open until it has ended.
            let mut begun = Begun(command.stderr(Stdio::null()).current_dir(folder).spawn().unwrap());
            std::thread::sleep(std::time::Duration::from_millis(wait));
            begun.signal("INT");
            std::thread::sleep(std::time::Duration::from_millis(1_500));
            let ended = begun.0.try_wait().unwrap();
            assert_eq!(ended.and_then(|status| status.code()), Some(130), "{arguments:?}");
            assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "{arguments:?}");
        }
    }
}

#[test]
fn versions_of_one_name_that_come_at_once_are_all_received_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (_router, [phone, source]) = network(folder, ["phone", "source"]);
    let inbox = folder.join("inbox").display().to_string();
    let arguments = ["recv", "--config", &phone, "--attach", "/home/x", "-o", &inbox, "--count", "12", "--json"];
    let (child, _, stdout) = begin(folder, &arguments);
    let _sender = Daemon::start(folder, Path::new(&source));
    std::thread::sleep(std::time::Duration::from_secs(1));
    let socket = control(folder, "source");
    let sends: Vec<_> = (1..=12)
        .map(|version: u32| {
            let path = folder.join(format!("reading-{version}"));
            fs::write(&path, version.to_string()).unwrap();
            let (path, version) = (path.display().to_string(), version.to_string());
            let what = ["send", &path, "/roof/temperature", "--to", "/home/x", "--object-version", &version];
            let how = ["--control", &socket, "--timeout", "20s"];
            trib(folder).args(what).args(how).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    let codes: Vec<_> = sends.into_iter().map(|mut send| send.wait().unwrap().code()).collect();
    assert_eq!(codes, [Some(0); 12]);
    let told = rest(stdout);
    assert_eq!(child.wait(), Some(0), "{told:?}");
    let received = told.iter().filter(|line| line["event"] == "received");
    let mut versions: Vec<_> = received.clone().map(|line| line["version"].as_u64().unwrap()).collect();
    versions.sort_unstable();
    assert_eq!(versions, (1..=12).collect::<Vec<_>>(), "{told:?}");
    for line in received {
        assert!(line["text"].is_null() || line["text"] == *line["version"].to_string(), "{line}");
    }
    assert_eq!(fs::read_dir(Path::new(&inbox).join("roof")).unwrap().count(), 1);
}

//! Nodes of the MobilityFirst family as people use them: real daemons, real datagrams on loopback.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{ChildStdout, Output, Stdio},
    thread::sleep,
    time::Duration,
};

use crate::common::{self, Begun, Daemon, SIZE, begin, file, lines, port, rest, run, talk, trib};
use serde_json::{Value, json};
use tempfile::TempDir;

/// An example as in the repository, its router at another port, its state in `folder`.
fn example(folder: &Path, name: &str, label: &str, router: u16) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let text = fs::read_to_string(path).unwrap();
    let (start, rest) = text.split_once("label = \"").unwrap();
    let rest = &rest[rest.find('"').unwrap()..];
    let text = format!("{start}state_dir = \"{label}\"\nlabel = \"{label}{rest}");
    let path = folder.join(format!("{label}.toml"));
    let (listen, peer) = (format!("0.0.0.0:{router}"), format!("127.0.0.1:{router}"));
    fs::write(&path, text.replace("0.0.0.0:7002", &listen).replace("127.0.0.1:7002", &peer)).unwrap();
    path
}
/// A small separate file system at a folder, until the test ends.
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

/// The lines of a command's output that report received objects.
fn received(notices: &[Value]) -> Vec<&Value> {
    notices.iter().filter(|line| line["event"] == "received").collect()
}
/// A router called `tower`, and configs of devices at it, in a folder that the test removes.
struct World {
    router: Daemon,
    _disk: Option<SmallDisk>,
    /// A file to send.
    original: String,
    folder: TempDir,
}

impl World {
    /// With the config of a device for each of `labels`.
    fn new<const N: usize>(labels: [&str; N]) -> (World, [String; N]) {
        World::with(tempfile::tempdir().unwrap(), None, labels)
    }
    /// The same with a disk of this size at `place`; `None` if this user cannot make one.
    fn with_disk<const N: usize>(place: &str, size: &str, labels: [&str; N]) -> Option<(World, [String; N])> {
        let folder = tempfile::tempdir().unwrap();
        let disk = SmallDisk::mount(&folder.path().join(place), size)?;
        Some(World::with(folder, Some(disk), labels))
    }
    fn with<const N: usize>(folder: TempDir, disk: Option<SmallDisk>, labels: [&str; N]) -> (World, [String; N]) {
        let (at, path) = (port(), folder.path());
        let router = Daemon::start(path, &example(path, "mobile-router.toml", "tower", at));
        let configs = labels.map(|label| example(path, "mobile-host.toml", label, at).display().to_string());
        let original = file(path).display().to_string();
        (World { router, _disk: disk, original, folder }, configs)
    }
    /// A path in the folder.
    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }
    /// Whether the file of this name in the folder is the one that was sent.
    fn is_original(&self, name: &str) -> bool {
        fs::read(self.path(name)).unwrap() == fs::read(&self.original).unwrap()
    }
    fn control(&self, label: &str) -> String {
        self.path(&format!("{label}/control.sock"))
    }
    fn start(&self, config: &str) -> Daemon {
        Daemon::start(self.folder.path(), Path::new(config))
    }
    fn run(&self, words: &[&str]) -> Output {
        run(self.folder.path(), words)
    }
    /// Starts a command that keeps running; also returns its first notice.
    fn begin(&self, words: &[&str]) -> (Begun, Value, BufReader<ChildStdout>) {
        begin(self.folder.path(), &[words, &["--json"]].concat())
    }
    /// Runs a command that must exit with this code; returns its notices.
    fn notices(&self, code: i32, words: &[&str]) -> Vec<Value> {
        let output = self.run(&[words, &["--json"]].concat());
        assert_eq!(common::class(output.status.code()), Some(code), "{words:?}: {}", talk(&output));
        lines(&output.stdout)
    }
    /// The first line of a daemon's answer to a command.
    fn ask(&self, label: &str, words: &[&str]) -> Value {
        self.notices(0, &[words, &["--control", &self.control(label)]].concat()).remove(0)
    }
    /// The GUID of a daemon.
    fn guid(&self, label: &str) -> String {
        let status = self.run(&["status", "--control", &self.control(label)]);
        let status = String::from_utf8(status.stdout).unwrap();
        status.lines().find(|line| line.contains("guid")).unwrap().split_whitespace().last().unwrap().into()
    }
    /// The message of a command that must be refused with this code.
    fn refused(&self, code: i32, words: &[&str]) -> String {
        let output = self.run(words);
        assert_eq!(common::class(output.status.code()), Some(code), "{words:?}: {}", talk(&output));
        talk(&output)
    }
    /// The exit code and the messages of a daemon's fetch.
    fn get(&self, label: &str, name: &str, timeout: &str) -> (Option<i32>, String) {
        let (copy, socket) = (self.path(&format!("of-{label}")), self.control(label));
        let got = self.run(&["get", name, "-o", &copy, "--control", &socket, "--timeout", timeout]);
        (got.status.code(), talk(&got))
    }
    /// A device receives the stored film.
    fn receive_film(&self, config: &str) {
        self.notices(0, &["recv", "--config", config, "-o", &self.path("inbox"), "--count", "1", "--timeout", "40s"]);
        assert!(self.is_original("inbox/film"));
    }
    /// What the router stores.
    fn held(&self) -> Vec<Value> {
        self.ask("tower", &["store"])["held"].as_array().unwrap().clone()
    }
    fn held_chunks(&self) -> u64 {
        self.held().iter().filter_map(|held| held["chunks"].as_u64()).sum()
    }
    /// Waits until the tower has this many records: its own, and one for each device and each name that a device takes.
    fn knows(&self, records: u64) {
        let known = || self.ask("tower", &["status"])["tables"]["name_records"].as_u64();
        common::until("that the tower knows all names", || known() >= Some(records));
    }
    /// A device that appears once and leaves: its GUID, by which it is known from then on.
    fn passer_by(&self, config: &str) -> String {
        let (there, notices, _stdout) = self.begin(&["recv", "--config", config]);
        self.knows(2);
        there.signal("INT");
        assert_eq!(there.wait(), Some(130));
        let is_away = |face: &Value| face["up"] == false;
        let is_alone = || self.ask("tower", &["status"])["faces"].as_array().unwrap().iter().all(is_away);
        common::until("that the tower misses the device", is_alone);
        notices["id"].as_str().unwrap().into()
    }
}

#[test]
fn a_file_and_a_folder_that_are_sent_to_a_name_are_with_all_that_take_what_comes_there() {
    let (world, [near, far, source]) = World::new(["near", "far", "source"]);
    let receivers = [(near, "in-near"), (far, "in-far")].map(|(config, inbox)| {
        let take = ["recv", "--config", &config, "--attach", "/home/all", "-o", &world.path(inbox), "--count", "2"];
        let (child, notices, stdout) = world.begin(&take);
        assert_eq!((&notices["event"], &notices["names"][0]), (&"receiving".into(), &"/home/all".into()));
        (child, stdout, inbox)
    });
    world.knows(5);
    fs::create_dir_all(world.path("album/deep")).unwrap();
    world.write("album/deep/picture", [7; 50_000]);
    for (path, name) in [(&world.original, "/film"), (&world.path("album"), "/album")] {
        let notices = world.notices(0, &["send", path, name, "--to", "/home/all", "--config", &source]);
        let sent = notices.last().unwrap();
        assert_eq!((&sent["event"], sent["delivered"].as_array().unwrap().len()), (&"sent".into(), 2), "{sent}");
    }
    for (child, stdout, inbox) in receivers {
        let notices = rest(stdout);
        assert_eq!(child.wait(), Some(0));
        let received = received(&notices);
        assert_eq!((received.len(), &received[0]["bytes"]), (2, &SIZE.into()), "{notices:?}");
        assert!(world.is_original(&format!("{inbox}/film")));
        assert_eq!(fs::read(world.path(&format!("{inbox}/album/deep/picture"))).unwrap(), [7; 50_000]);
    }
}

#[test]
fn what_nobody_can_take_waits_in_the_router_and_is_told_there() {
    let (world, [phone, source]) = World::new(["phone", "source"]);
    let id = world.passer_by(&phone);
    let sender = world.start(&source);
    let (film, socket) = (&world.original, world.control("source"));
    let send = ["send", film, "/film", "--to", &id, "--control", &socket, "--lifetime", "10min", "--timeout", "4s"];
    let send = world.run(&[&send[..], &["--json"]].concat());
    assert_eq!(send.status.code(), Some(0), "the network keeps all of it: {}", talk(&send));
    let notices = lines(&send.stdout);
    let last = notices.iter().rfind(|line| line["event"] == "sent").unwrap();
    assert_eq!(last["stored_chunks"], last["chunks"], "{last}");
    let held = world.held();
    assert_eq!((held[0]["destination"].as_str(), &held[0]["chunks"]), (Some(&id[..]), &last["chunks"]), "{held:?}");
    assert_eq!((&held[0]["numbers"], &last["stored_numbers"][0][0]), (&last["stored_numbers"], &0.into()), "{last}");
    let left = held[0]["left_seconds"].as_f64().unwrap();
    assert!((500.0..=600.0).contains(&left), "{left}");
    let table = world.run(&["store", "--control", &world.control("tower")]);
    assert!(String::from_utf8_lossy(&table.stdout).contains("the destination is away"), "{table:?}");

    world.receive_film(&phone);
    assert_eq!((sender.stop(), world.router.stop()), (Some(0), Some(0)));
}

#[test]
fn what_is_delegated_to_the_router_of_its_receiver_comes_though_that_router_was_killed() {
    let (mut world, [phone, source]) = World::new(["phone", "source"]);
    let id = world.passer_by(&phone);
    let film = world.original.clone();
    let notices =
        world.notices(0, &["send", &film, "/film", "--to", &id, "--in-network", "delegate", "--config", &source]);
    let sent = notices.last().unwrap();
    assert_eq!(
        (&sent["event"], &sent["stored_chunks"]),
        (&"sent".into(), &sent["chunks"]),
        "the source may sleep: {sent}"
    );
    let held = world.held();
    assert_eq!(
        (&held[0]["reason"], &held[0]["chunks"]),
        (&"the destination is away".into(), &sent["chunks"]),
        "{held:?}"
    );
    // As a power cut would end it.
    drop(world.router);
    world.router = Daemon::start(world.folder.path(), &world.folder.path().join("tower.toml"));
    assert_eq!(world.held_chunks(), sent["chunks"].as_u64().unwrap());
    world.receive_film(&phone);
    common::until("that nothing is kept of what has arrived", || world.held_chunks() == 0);
    assert_eq!(world.router.stop(), Some(0));
}

#[test]
fn whatever_is_chosen_for_a_message_it_arrives_and_its_sender_is_told_so() {
    let (world, [near, far, source, careless]) = World::new(["near", "far", "source", "careless"]);
    let text = fs::read_to_string(&careless).unwrap();
    fs::write(&careless, format!("{text}\nreliability = \"dont-care\"\n")).unwrap();
    let receivers = [(&near, "in-near"), (&far, "in-far")].map(|(config, inbox)| {
        let take = ["recv", "--config", config, "--attach", "/home/all", "--nack-timeout", "500ms", "-o"];
        world.begin(&[&take[..], &[&world.path(inbox)]].concat())
    });
    let id = receivers[0].1["id"].as_str().unwrap().to_string();
    world.knows(5);
    let film = &world.original;
    let arrives = |inbox: &str, name: &str| {
        let path = world.path(&format!("{inbox}{name}"));
        common::until(&path, || Path::new(&path).exists());
        assert!(world.is_original(&format!("{inbox}{name}")), "{inbox}{name}");
    };
    for (number, (to, options)) in [
        ("/home/all", &["--reliability", "dont-care"][..]),
        ("/home/all", &["--reliability", "nack"]),
        ("/home/all", &["--reliability", "ack"]),
        ("/home/all", &["--in-network", "store"]),
        ("/home/all", &["--in-network", "delegate"]),
        ("/home/all", &["--in-network", "nothing"]),
        ("/home/all", &["--proxies", "3", "--priority", "7"]),
        (&id, &["--reliability", "dont-care"]),
        (&id, &["--reliability", "nack", "--chunk-size", "64KiB"]),
        (&id, &["--reliability", "ack", "--in-network", "nothing"]),
        (&id, &["--in-network", "delegate"]),
        (&id, &["--in-network", "delegate", "--reliability", "dont-care"]),
    ]
    .into_iter()
    .enumerate()
    {
        for config in [&source, &careless] {
            let name = format!("/{}/{number}", if config == &source { "sure" } else { "careless" });
            let send = ["send", film, &name, "--to", to, "--config", config, "--timeout", "20s"];
            let notices = world.notices(0, &[&send[..], options].concat());
            let sent = notices.last().unwrap();
            assert_eq!(
                (&sent["event"], &sent["sent_chunks"]),
                (&"sent".into(), &sent["chunks"]),
                "{options:?}: {sent}"
            );
            if options.contains(&"64KiB") {
                assert_eq!(sent["chunks"], 1 + SIZE.div_ceil(65_536), "{sent}");
            }
            arrives("in-near", &name);
            if to != id {
                arrives("in-far", &name);
            }
        }
    }
    let send = ["send", film, "/nearest", "--to", "/home/all", "--nearest", "--config", &source, "--timeout", "20s"];
    let notices = world.notices(0, &send);
    assert_eq!(notices.last().unwrap()["delivered"].as_array().unwrap().len(), 1, "{notices:?}");
    let has = |inbox: &str| Path::new(&world.path(&format!("{inbox}/nearest"))).exists();
    common::until("one of them", || has("in-near") || has("in-far"));
    common::until("that nothing is kept of what all have", || world.held_chunks() == 0);
    assert!(has("in-near") != has("in-far"), "both");
}

#[test]
fn what_is_not_to_be_kept_for_one_that_is_away_is_told_at_once() {
    let (world, [phone, source]) = World::new(["phone", "source"]);
    let id = world.passer_by(&phone);
    let to = ["send", &world.original, "/film", "--to", &id, "--config", &source];
    let send = world.run(&[&to[..], &["--in-network", "nothing", "--timeout", "60s", "--json"]].concat());
    assert_eq!(common::class(send.status.code()), Some(1), "{}", talk(&send));
    assert!(
        talk(&send).contains("dropped on the way") && talk(&send).contains("--in-network store"),
        "{}",
        talk(&send)
    );
    assert_eq!(world.held_chunks(), 0);
    // The more important one is reported as stored where it waits.
    world.notices(0, &[&to[..], &["--priority", "9", "--chunk-size", "100KiB", "--timeout", "4s"]].concat());
    let held = world.held();
    assert_eq!((&held[0]["priority"], held[0]["chunks"].as_u64().unwrap() > 10), (&9.into(), true), "{held:?}");
}

#[test]
fn what_a_router_keeps_is_purged_by_destination_and_its_sender_hears_so() {
    let (world, [phone, source]) = World::new(["phone", "source"]);
    let id = world.passer_by(&phone);
    let _sender = world.start(&source);
    world.ask("source", &["send", &world.original, "/film", "--to", &id, "--timeout", "4s"]);
    assert!(world.held_chunks() > 0);
    let (none, begin) = ("f".repeat(8), id[..12].to_string());
    let left = world.ask("tower", &["store", "purge", "--to", &none]);
    assert!(!left["held"].as_array().unwrap().is_empty(), "another's: {left}");
    let left = world.ask("tower", &["store", "purge", "--to", &begin]);
    assert_eq!(left["held"].as_array().unwrap().len(), 0, "{left}");
    assert_eq!(world.held_chunks(), 0);
    let status = world.ask("tower", &["status"]);
    assert!(status["counters"]["stored chunks purged"].as_u64().unwrap() > 0, "{}", status["counters"]);
    world.refused(2, &["store", "purge", "--control", &world.control("tower")]);
}

#[test]
fn what_is_held_or_extended_stays_so_though_its_router_is_killed() {
    let (mut world, [phone, source]) = World::new(["phone", "source"]);
    let id = world.passer_by(&phone);
    let sender = world.start(&source);
    world.ask("source", &["send", &world.original, "/film", "--to", &id, "--lifetime", "8s", "--timeout", "4s"]);
    sender.stop();
    let (chunks, of) = (world.held_chunks(), id[..12].to_string());
    assert!(chunks > 0);
    let held = world.ask("tower", &["store", "hold", "--to", &of]);
    assert_eq!(
        (&held["held"][0]["on_hold"], &held["held"][0]["left_seconds"]),
        (&chunks.into(), &0.0.into()),
        "{held}"
    );
    drop(world.router);
    let config = world.folder.path().join("tower.toml");
    world.router = Daemon::start(world.folder.path(), &config);
    let table = world.run(&["store", "--control", &world.control("tower")]);
    assert!(String::from_utf8_lossy(&table.stdout).contains("on hold"), "{table:?}");
    // Longer than its lifetime.
    sleep(Duration::from_secs(8));
    let left = world.ask("tower", &["store", "purge", "--all"]);
    assert_eq!(left["held"][0]["chunks"], chunks, "what is on hold stays: {left}");
    // Extended first, it does not end when it is released.
    world.ask("tower", &["store", "extend", "1h", "--to", &of]);
    let released = world.ask("tower", &["store", "release", "--all"]);
    let left = released["held"][0]["left_seconds"].as_f64().unwrap();
    assert!((3_500.0..=3_600.0).contains(&left) && released["held"][0]["on_hold"] == 0, "{released}");
    drop(world.router);
    world.router = Daemon::start(world.folder.path(), &config);
    assert!(world.held()[0]["left_seconds"].as_f64().unwrap() > 3_400.0, "{:?}", world.held());
    world.refused(2, &["store", "extend", "1ms", "--all", "--control", &world.control("tower")]);
    world.receive_film(&phone);
}

#[test]
fn who_fetches_chooses_chunks_certainty_patience_and_what_is_kept_on_the_way() {
    let (world, [phone, source]) = World::new(["phone", "source"]);
    let _sender = world.start(&source);
    world.ask("source", &["put", &world.original, "/film"]);
    let get = ["get", "/film", "-o", &world.path("film"), "--config", &phone];
    let options = ["--chunk-size", "64KiB", "--reliability", "ack", "--nack-timeout", "500ms"];
    world.notices(0, &[&get[..], &options, &["--in-network", "delegate"]].concat());
    assert!(world.is_original("film"));
    let sent = &world.ask("source", &["status"])["counters"]["object chunks sent"];
    assert_eq!(*sent, 1 + SIZE.div_ceil(65_536));
    let kept = &world.ask("tower", &["status"])["counters"]["chunks stored"];
    assert_eq!(kept, sent, "the router was to answer for the publisher");
    let wrong = world.refused(2, &[&get[..], &["--chunk-size", "1KB"]].concat());
    assert!(wrong.contains("from 1 KiB"), "{wrong}");
    let (folder, of_psi) = (world.folder.path(), port());
    let other = common::config(folder, "other", r#""router", "resolver", "receiver""#, of_psi, "");
    let get = ["get", "/film", "-o", &world.path("none"), "--config", other.to_str().unwrap()];
    let refused = world.refused(2, &[&get[..], &["--reliability", "ack"]].concat());
    assert!(refused.contains("the publisher cuts chunks") && refused.contains("family = \"mf\""), "{refused}");
}

#[test]
fn what_a_full_disk_has_acknowledged_outlives_a_kill_and_the_rest_stays_with_the_source() {
    let Some((mut world, [phone, source])) = World::with_disk("tower/store", "2m", ["phone", "source"]) else { return };
    let id = world.passer_by(&phone);
    let sender = world.start(&source);
    let (film, socket) = (&world.original, world.control("source"));
    let send = ["send", film, "/film", "--to", &id, "--control", &socket, "--lifetime", "10min", "--timeout", "60s"];
    let (send, _, notices) = world.begin(&send);
    common::until("something stored", || world.held_chunks() > 0);
    // More chunks may come; some are the least.
    sleep(Duration::from_secs(2));
    let before = world.held_chunks();
    assert!((1..=3).contains(&before), "{before} of 4 chunks: the description, and 2.9 MiB in 2 MiB");
    // As a power cut would end it.
    drop(world.router);
    world.router = Daemon::start(world.folder.path(), &world.folder.path().join("tower.toml"));
    let after = world.held_chunks();
    assert!(after >= before, "{after} of {before} chunks are left");
    world.receive_film(&phone);
    let notices = rest(notices);
    assert_eq!((send.wait(), &notices.last().unwrap()["event"]), (Some(0), &"sent".into()), "{notices:?}");
    assert_eq!((sender.stop(), world.router.stop()), (Some(0), Some(0)));
}

#[test]
fn only_those_who_may_look_up_a_name_can_get_it_and_a_restart_does_not_show_it_to_others() {
    let (world, [owner, friend, outsider]) = World::new(["owner", "friend", "stranger"]);
    let own = world.start(&owner);
    let (_friend, _outsider) = (world.start(&friend), world.start(&outsider));
    let socket = world.control("owner");
    let id = world.guid("friend");
    let wrong = world.refused(2, &["readers", "/plans", "--only", "friend", "--control", &socket]);
    assert!(wrong.contains("'friend' is no GUID"), "{wrong}");
    let notices = world.ask("owner", &["readers", "/plans", "--only", &id]);
    assert_eq!(
        (&notices["event"], &notices["name"], &notices["readers"][0]),
        (&"readers".into(), &"/plans".into(), &id.into())
    );
    world.ask("owner", &["put", &world.original, "/plans"]);
    assert_eq!(world.get("friend", "/plans", "3s").0, Some(0));
    let (code, talk) = world.get("stranger", "/plans", "3s");
    assert!(code == Some(1) && talk.contains("no publisher"), "{talk}");
    assert_eq!(own.stop(), Some(0));
    let own = world.start(&owner);
    common::until("the name after the restart", || world.get("friend", "/plans", "3s").0 == Some(0));
    assert_eq!(world.get("stranger", "/plans", "3s").0, Some(1), "it has started anew");
    let all = world.run(&["readers", "/plans", "--all", "--control", &socket]);
    assert!(String::from_utf8_lossy(&all.stdout).contains("everybody may look up '/plans'"), "{all:?}");
    assert_eq!((world.get("stranger", "/plans", "3s").0, own.stop()), (Some(0), Some(0)));
}

#[test]
fn members_of_a_group_may_look_up_what_is_for_it_and_the_group_outlives_a_restart() {
    let (world, [owner, friend]) = World::new(["owner", "friend"]);
    let own = world.start(&owner);
    let _friend = world.start(&friend);
    let id = world.guid("friend");
    let groups = |words: &[&str]| world.ask("owner", &[&["group"], words].concat())["groups"].take();
    assert_eq!(groups(&["list"]), json!([]));
    let none = world.refused(2, &["group", "remove", "friends", "--control", &world.control("owner")]);
    assert!(none.contains("none of this label"), "{none}");
    let other = "00".repeat(20);
    assert_eq!(groups(&["add", "friends", &other])[0]["members"], json!([other]));
    let group = groups(&["list"])[0]["guid"].as_str().unwrap().to_string();
    world.ask("owner", &["readers", "/plans", "--only", &group]);
    world.ask("owner", &["put", &world.original, "/plans"]);
    assert_eq!(world.get("friend", "/plans", "5s").0, Some(1), "it is no member");
    let notices = groups(&["add", "friends", &id, &id]);
    assert_eq!(notices[0]["members"].as_array().unwrap().len(), 2, "each counts once: {notices}");
    assert_eq!(groups(&["remove", "friends", &other])[0]["members"], json!([id]));
    assert_eq!(own.stop(), Some(0));
    let own = world.start(&owner);
    assert_eq!(groups(&["list"])[0]["members"], json!([id]));
    assert_eq!(world.get("friend", "/plans", "5s").0, Some(0));
    groups(&["remove", "friends"]);
    assert_eq!(groups(&["list"]), json!([]));
    assert_eq!(own.stop(), Some(0));
}

#[test]
fn who_publishes_in_the_foreground_is_asked_and_told_as_a_daemon_is() {
    let (world, [owner, outsider]) = World::new(["owner", "stranger"]);
    let _outsider = world.start(&outsider);
    let (put, notices, _stdout) = world.begin(&["put", &world.original, "/plans", "--config", &owner]);
    assert_eq!(notices["event"], "published");
    assert_eq!(world.ask("owner", &["status"])["label"], "owner");
    let id = "00".repeat(20);
    assert_eq!(world.ask("owner", &["readers", "/plans", "--only", &id])["readers"][0], id.as_str());
    assert_eq!(world.get("stranger", "/plans", "3s").0, Some(1));
    world.ask("owner", &["readers", "/plans", "--all"]);
    assert_eq!(world.get("stranger", "/plans", "3s").0, Some(0));
    let second = world.run(&["node", "--config", &owner]);
    assert_eq!(common::class(second.status.code()), Some(2), "two at one state");
    put.signal("INT");
    assert_eq!(put.wait(), Some(0));
    assert!(!Path::new(&world.control("owner")).exists(), "the socket is left behind");
}

#[test]
fn the_demo_passes_by_a_cache_that_lies_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let demo = ["demo", "--family", "mf", "--evil", "cache", "--size", "9MB"];
    let notices = run(folder.path(), &[&demo[..], &["--json"]].concat());
    assert_eq!(notices.status.code(), Some(0), "{}", talk(&notices));
    let notices = lines(&notices.stdout);
    let done = notices.last().unwrap();
    let expected = (&"done".into(), &true.into(), &9_000_000.into(), &"passed".into());
    assert_eq!((&done["event"], &done["verified"], &done["bytes"], &done["checks"]), expected);
    assert!(done["bypassed_caches"].as_array().is_some_and(|caches| caches.len() == 1), "{done}");
    // An honest publisher delivers the chunks that the cache corrupted, and does not count as faulty. Honest caches
    // deliver one to five of nine chunks, depending on when each was requested.
    assert!(done["source_bytes"].as_u64() > Some(1_000_000), "{done}");
    let is_trusted = |source: &Value| source.get("distrusted").is_none_or(Value::is_null);
    assert!(done["sources"].as_array().unwrap().iter().all(is_trusted), "{done}");
    let shown = run(folder.path(), &demo);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("gave wrong bytes, bypassed"), "{shown}");
}

#[test]
fn a_daemon_takes_what_is_sent_to_a_name_from_attach_until_detach() {
    let (world, [home, source]) = World::new(["home", "source"]);
    let _home = world.start(&home);
    let take = ["recv", "--control", &world.control("home"), "-o", &world.path("inbox")];
    let (recv, notices, stdout) = world.begin(&take);
    assert_eq!(notices["event"], "receiving");
    // One at a time.
    world.refused(2, &take);
    for (command, attached, value, timeout, code) in
        [("attach", true, "21.5", "10s", 0), ("detach", false, "22.5", "2s", 1)]
    {
        let notices = world.ask("home", &[command, "/home/readings"]);
        assert_eq!((&notices["name"], &notices["attached"]), (&"/home/readings".into(), &attached.into()));
        world.knows(3);
        let reading = world.write("reading", value);
        let to = ["--to", "/home/readings", "--config", &source, "--timeout", timeout];
        world.notices(code, &[&["send", &reading, "/roof/temperature"][..], &to].concat());
    }
    recv.signal("INT");
    let notices = rest(stdout);
    assert_eq!(recv.wait(), Some(130));
    let received = received(&notices);
    assert_eq!((received.len(), received[0]["text"].as_str()), (1, Some("21.5")), "{notices:?}");
}

#[test]
fn a_daemon_stays_attached_to_all_names_after_somebody_has_received() {
    let (world, [home, source]) = World::new(["home", "source"]);
    let _home = world.start(&home);
    world.ask("home", &["attach", "/home/kept"]);
    let take = ["recv", "--control", &world.control("home"), "-o", &world.path("inbox")];
    let names = ["--attach", "/home/kept", "--attach", "/home/passing", "--timeout", "200ms"];
    world.notices(1, &[&take[..], &names].concat());
    let (recv, _, stdout) = world.begin(&take);
    for to in ["/home/kept", "/home/passing"] {
        let reading = world.write("reading", to);
        let to = ["--to", to, "--config", &source, "--wait", "--timeout", "10s"];
        world.notices(0, &[&["send", &reading, "/roof/temperature"][..], &to].concat());
    }
    recv.signal("INT");
    assert_eq!(received(&rest(stdout)).len(), 2, "one for each name");
}

#[test]
fn what_cannot_be_kept_is_told_and_the_next_is_taken() {
    let Some((world, [phone, source])) = World::with_disk("inbox", "1m", ["phone", "source"]) else { return };
    let take = ["recv", "--config", &phone, "--attach", "/home/all", "-o", &world.path("inbox"), "--count", "1"];
    let (_recv, _, stdout) = world.begin(&take);
    world.knows(3);
    let small = world.write("small", "fits");
    for (path, name, code, word) in [(&world.original, "/film", 1, "was refused by"), (&small, "/note", 0, "/note")] {
        let to = ["--to", "/home/all", "--config", &source, "--timeout", "4s"];
        let last = world.notices(code, &[&["send", path, name][..], &to].concat()).pop().unwrap();
        assert!(last.to_string().contains(word), "{last}");
    }
    let notices = rest(stdout);
    let events: Vec<_> = notices.iter().map(|line| (line["event"].as_str().unwrap(), &line["name"])).collect();
    assert_eq!(events, [("not-received", &"/film".into()), ("received", &"/note".into())], "{notices:?}");
    let reason = notices[0]["reason"].as_str().unwrap();
    assert!(reason.contains("space"), "{reason}");
}

#[test]
fn what_cannot_work_is_refused_with_what_to_do() {
    let (world, [phone]) = World::new(["phone"]);
    let tower = world.control("tower");
    let other = common::config(world.folder.path(), "other", r#""sender", "receiver""#, 0, "");
    let other = other.to_str().unwrap();
    let original = &world.original[..];
    let origin = ["http-proxy", "server", "--config", &phone, "--name", "/http/a", "--origin"];
    for (arguments, code, words) in [
        (&["send", original, "/x", "--to", "/y", "--config", other][..], 2, "neither send nor store"),
        (&["recv", "--config", other], 2, "neither send nor store"),
        (&["send", "/nowhere/at/all", "/x", "--to", "/y", "--config", &phone], 2, "/nowhere/at/all"),
        (&["send", original, "/x", "--to", "no-guid", "--config", &phone], 2, "no-guid"),
        (&["send", original, "/x", "--to", "/y", "--control", &tower], 2, "sender"),
        (&["recv", "--control", &tower], 2, "receiver"),
        (&["send", original, "/x", "--to", "/y", "--chunk-size", "64MiB", "--config", &phone], 2, "4.3 MiB"),
        (&["send", original, "/x", "--to", "/nobody", "--timeout", "1s", "--config", &phone], 1, "has no receiver"),
        (&[&origin[..], &["https://127.0.0.1:1"]].concat(), 2, "http://127.0.0.1:80"),
    ] {
        let talk = world.refused(code, arguments);
        assert!(talk.contains("error: ") && talk.contains(words), "{arguments:?}: {talk}");
        let last = world.notices(code, arguments).pop().unwrap();
        assert_eq!(last["event"], "error", "{arguments:?}: {last}");
    }
}

/// A minimal web server, one answer per connection: `/big`, `/echo` of a request's body, 404 otherwise.
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
/// Sends a proxy a request on a new connection; returns the status and the body.
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
    let (world, [near, far, dead]) = World::new(["near", "far", "dead"]);
    let origin = format!("http://{}", web_server());
    // Taken and released: the port has no listener.
    let nobody = format!("http://127.0.0.1:{}", port());
    let mut proxies = Vec::new();
    for (config, origin, name) in [(&far, &origin, "/http/site.example"), (&dead, &nobody, "/http/dead.example")] {
        let arguments = ["http-proxy", "server", "--config", config, "--origin", origin, "--name", name];
        let (child, notices, _) = world.begin(&arguments);
        assert_eq!((&notices["event"], &notices["side"]), (&"ready".into(), &"server".into()));
        proxies.push(child);
    }
    let arguments = ["http-proxy", "browser", "--config", &near, "--listen", "127.0.0.1:0", "--timeout", "5s"];
    let (child, notices, _) = world.begin(&arguments);
    proxies.push(child);
    let proxy = notices["address"].as_str().unwrap().to_string();
    world.knows(6);

    let (status, body) = ask(&proxy, "site.example", "GET http://site.example/big", &[]);
    assert!(status == "HTTP/1.1 200 OK" && body == big(), "{status}, {} bytes", body.len());
    let (status, body) = ask(&proxy, "site.example", "POST /echo", &[9; 100_000]);
    assert!(status == "HTTP/1.1 200 OK" && body == [9; 100_000], "{status}, {} bytes", body.len());
    let (status, body) = ask(&proxy, "site.example", "GET /nothing", &[]);
    assert_eq!((status.as_str(), &body[..]), ("HTTP/1.1 404 Not Found", &b"no such page"[..]));
    let (status, body) = ask(&proxy, "dead.example", "GET /", &[]);
    assert!(status.starts_with("HTTP/1.1 502"), "{status}");
    assert!(String::from_utf8_lossy(&body).contains("cannot reach the web server"), "{body:?}");
    let (status, body) = ask(&proxy, "nobody.example", "GET /", &[]);
    assert!(status.starts_with("HTTP/1.1 502"), "{status}");
    assert!(
        String::from_utf8_lossy(&body).contains("no device in the network is attached to '/http/nobody.example'"),
        "{body:?}"
    );

    // The port is taken.
    world.refused(2, &["http-proxy", "browser", "--config", &dead, "--listen", &proxy]);
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
    // The port has no listener.
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
            let stdin = begun.0.stdin.take();
            sleep(Duration::from_millis(wait));
            begun.signal("INT");
            assert_eq!(begun.wait(), Some(130), "{arguments:?}");
            drop(stdin);
            assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "{arguments:?}");
        }
    }
}

#[test]
fn versions_of_one_name_that_come_at_once_are_all_received_and_told() {
    let (world, [phone, source]) = World::new(["phone", "source"]);
    let inbox = world.path("inbox");
    let arguments = ["recv", "--config", &phone, "--attach", "/home/x", "-o", &inbox, "--count", "12"];
    let (child, _, stdout) = world.begin(&arguments);
    let _sender = world.start(&source);
    world.knows(4);
    let socket = world.control("source");
    let sends: Vec<_> = (1..=12)
        .map(|version: u32| {
            let version = version.to_string();
            let path = world.write(&format!("reading-{version}"), &version);
            let what = ["send", &path, "/roof/temperature", "--to", "/home/x", "--object-version", &version];
            let how = ["--control", &socket, "--timeout", "20s"];
            let mut command = trib(world.folder.path());
            command.args(what).args(how).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    let codes: Vec<_> = sends.into_iter().map(|mut send| send.wait().unwrap().code()).collect();
    assert_eq!(codes, [Some(0); 12]);
    let notices = rest(stdout);
    assert_eq!(child.wait(), Some(0), "{notices:?}");
    let received = received(&notices);
    let mut versions: Vec<_> = received.iter().map(|line| line["version"].as_u64().unwrap()).collect();
    versions.sort_unstable();
    assert_eq!(versions, (1..=12).collect::<Vec<_>>(), "{notices:?}");
    for line in received {
        assert!(line["text"].is_null() || line["text"] == *line["version"].to_string(), "{line}");
    }
    assert_eq!(fs::read_dir(Path::new(&inbox).join("roof")).unwrap().count(), 12, "each has a name of its own");
}

/// All files below a folder: their relative paths, and their content.
fn contents(folder: &str) -> Vec<(String, String)> {
    fn visit(at: &Path, root: &Path, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.is_dir() {
                true => visit(&entry, root, found),
                false => {
                    let path = entry.strip_prefix(root).unwrap().display().to_string();
                    found.push((path, fs::read_to_string(&entry).unwrap()));
                }
            }
        }
    }
    let mut found = Vec::new();
    visit(Path::new(folder), Path::new(folder), &mut found);
    found.sort();
    found
}
/// Sends each of these to a phone that receives with `more` arguments; returns its inbox, and its notices.
fn sent_to_inbox(sent: &[(&str, &str)], more: &[&str]) -> (Vec<(String, String)>, Vec<Value>) {
    let (world, [phone, source]) = World::new(["phone", "source"]);
    let inbox = world.path("inbox");
    let take = ["recv", "--config", &phone, "--attach", "/home/x", "-o", &inbox];
    let (recv, _, mut stdout) = world.begin(&[&take[..], more].concat());
    let _source = world.start(&source);
    world.knows(4);
    for (version, (name, what)) in (1..).zip(sent) {
        let path = world.path(&format!("sent-{version}"));
        match what.strip_prefix("folder with ") {
            Some(file) => fs::create_dir(&path).and_then(|()| fs::write(Path::new(&path).join("file"), file)).unwrap(),
            None => fs::write(&path, what).unwrap(),
        }
        let (version, control) = (version.to_string(), world.control("source"));
        let how = ["--to", "/home/x", "--object-version", &version, "--control", &control, "--timeout", "10s"];
        world.run(&[&["send", &path, name][..], &how].concat());
    }
    let notices = stdout.by_ref().lines().take(sent.len()).map(|line| common::json(&line.unwrap())).collect();
    recv.signal("INT");
    recv.wait();
    assert_eq!(rest(stdout).len(), 1, "the interruption");
    (contents(&inbox), notices)
}
fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(path, content)| (path.to_string(), content.to_string())).collect()
}

#[test]
fn names_of_senders_reach_nothing_of_the_receiver_and_of_each_other() {
    let sent = [
        ("/sensors/roof", "wet"),
        ("/sensors/roof/temperature", "21.5"),
        ("/cellar/door/lock", "shut"),
        ("/cellar/door", "green"),
        ("/foo.part-dir", "folder with one"),
        ("/foo", "folder with two"),
        ("/bar.part.state", "three"),
        ("/bar.part", "four"),
        ("/bar", "five"),
        ("/.ssh/authorized_keys", "six"),
        ("/lab/report", "seven"),
        ("/lab/1000=report", "eight"),
        ("/lab/1000%3Dreport", "nine"),
    ];
    let (inbox, notices) = sent_to_inbox(&sent, &[]);
    let expected = pairs(&[
        ("%2Essh/authorized_keys", "six"),
        ("bar", "five"),
        ("bar.part", "four"),
        ("bar.part.state", "three"),
        ("cellar/door/lock", "shut"),
        ("cellar/door~", "green"),
        ("foo.part-dir/file", "one"),
        ("foo/file", "two"),
        ("lab/1000%3Dreport", "nine"),
        ("lab/1000=report", "eight"),
        ("lab/report", "seven"),
        ("sensors/roof", "wet"),
        ("sensors/roof~/temperature", "21.5"),
    ]);
    assert_eq!(inbox, expected, "{notices:?}");
}

#[test]
fn a_name_that_leads_elsewhere_is_refused_and_the_receiver_says_so() {
    let (inbox, notices) = sent_to_inbox(&[("/d/.....", "x"), ("/d/fine", "y")], &[]);
    assert_eq!(inbox, pairs(&[("d/fine", "y")]));
    let refused: Vec<_> = notices.iter().filter(|line| line["event"] == "not-received").collect();
    assert!(refused.len() == 1 && refused[0]["reason"].as_str().unwrap().contains("leads out"), "{notices:?}");
}

#[test]
fn readings_of_one_name_are_numbered_replaced_or_added_as_lines() {
    let sent = [("/roof.txt", "21.5"), ("/roof.txt", "22\n"), ("/roof.txt", "21.5")];
    let (inbox, _) = sent_to_inbox(&sent, &[]);
    assert_eq!(inbox, pairs(&[("roof.txt", "21.5"), ("roof~2.txt", "22\n"), ("roof~3.txt", "21.5")]));
    let (inbox, _) = sent_to_inbox(&sent[..2], &["--on-repeat", "replace"]);
    assert_eq!(inbox, pairs(&[("roof.txt", "22\n")]));
    let (inbox, notices) = sent_to_inbox(&sent, &["--on-repeat", "append"]);
    assert_eq!(inbox, pairs(&[("roof.txt", "21.5\n22\n21.5\n")]), "{notices:?}");
}

#[test]
fn files_that_were_in_the_inbox_before_and_links_in_it_are_left_alone() {
    for on_repeat in ["number", "replace", "append"] {
        let (world, [phone, source]) = World::new(["phone", "source"]);
        let inbox = world.path("inbox");
        fs::create_dir(&inbox).unwrap();
        let precious = world.write("precious", "mine");
        world.write("inbox/notes", "mine");
        std::os::unix::fs::symlink(&precious, world.path("inbox/link")).unwrap();
        std::os::unix::fs::symlink(world.folder.path(), world.path("inbox/up")).unwrap();
        let take = ["recv", "--config", &phone, "--attach", "/home/x", "-o", &inbox, "--on-repeat", on_repeat];
        let (recv, _, stdout) = world.begin(&take);
        let reading = world.write("reading", "theirs");
        for (name, code) in [("/notes", 0), ("/link", 1), ("/up/precious", 1)] {
            let how = ["--to", "/home/x", "--config", &source, "--timeout", "5s"];
            world.notices(code, &[&["send", &reading, name][..], &how].concat());
        }
        recv.signal("INT");
        let notices = rest(stdout);
        assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");
        assert_eq!(fs::read_to_string(world.path("inbox/notes")).unwrap(), "mine");
        assert_eq!(fs::read_to_string(world.path("inbox/notes~2")).unwrap(), "theirs", "{notices:?}");
        let refused = notices.iter().filter(|line| line["event"] == "not-received");
        assert!(refused.clone().count() == 2, "{notices:?}");
        assert!(refused.clone().all(|line| line["reason"].as_str().unwrap().contains("is a link")), "{notices:?}");
    }
}

/// Messages stored at a router for a phone, whose sender has left; returns the phone's config.
fn messages_for_a_phone(world: &World, [phone, source]: &[String; 2], count: usize) {
    let id = world.passer_by(phone);
    let sender = world.start(source);
    let socket = world.control("source");
    let numbers: Vec<usize> = (0..count).collect();
    for some in numbers.chunks(8) {
        let send = |number: &usize| {
            let path = world.write(&format!("message-{number}"), message(*number));
            let name = format!("/message/{number}");
            let words = ["send", &path, &name, "--to", &id, "--control", &socket, "--timeout", "20s"];
            trib(world.folder.path()).args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        let sends: Vec<_> = some.iter().map(send).collect();
        sends.into_iter().for_each(|mut send| _ = send.wait());
    }
    common::until("that all are kept", || kept_at_tower(world) == count);
    sender.stop();
}
/// Objects in the tower's store.
fn kept_at_tower(world: &World) -> usize {
    let held = world.ask("tower", &["store"])["held"].as_array().unwrap().clone();
    held.iter().map(|held| held["object"].as_str().unwrap()).collect::<std::collections::BTreeSet<_>>().len()
}
/// From one byte to some hundred thousand.
fn message(number: usize) -> Vec<u8> {
    let len = 1 + (number * number * 811) % if number.is_multiple_of(10) { 700_000 } else { 9_000 };
    (0..len).map(|at| (at * 7 + number) as u8).collect()
}
/// A campaign's environment variable, or the test's default.
fn setting(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// `MESSAGES` and `KILLS` make a campaign of it.
#[test]
fn messages_that_are_kept_arrive_once_though_their_receiver_is_killed_while_they_come() {
    let (world, configs) = World::new(["phone", "source"]);
    let (count, kills) = (setting("MESSAGES", 60), setting("KILLS", 4));
    messages_for_a_phone(&world, &configs, count);
    let inbox = world.path("inbox");
    let receive = ["recv", "--config", &configs[0], "-o", &inbox];
    for kill in 0..kills {
        let (recv, _, _) = world.begin(&receive);
        sleep(Duration::from_millis(30 + (kill as u64 * 7_919) % 400));
        recv.signal("KILL");
        recv.wait();
    }
    let notices = world.notices(1, &[&receive[..], &["--timeout", "5s"]].concat());
    println!("{} of {count} came at last, after {kills} kills", received(&notices).len());
    for number in 0..count {
        let arrived = fs::read(world.path(&format!("inbox/message/{number}"))).ok();
        assert!(arrived == Some(message(number)), "message {number}, {} still kept", kept_at_tower(&world));
    }
    let files: Vec<String> = fs::read_dir(world.path("inbox/message"))
        .unwrap()
        .flatten()
        .map(|file| file.file_name().into_string().unwrap())
        .collect();
    assert_eq!(files.len(), count, "each once, and no part is left: {files:?}");
    assert_eq!(kept_at_tower(&world), 0, "the router keeps nothing of what has arrived");
}

#[test]
fn a_receiver_of_so_many_objects_takes_no_more_and_leaves_the_rest_to_the_next_one() {
    let (world, configs) = World::new(["phone", "source"]);
    messages_for_a_phone(&world, &configs, 20);
    let inbox = world.path("inbox");
    for (count, left) in [("7", 13), ("13", 0)] {
        let take = ["recv", "--config", &configs[0], "-o", &inbox, "--count", count, "--timeout", "20s"];
        let notices = world.notices(0, &take);
        assert_eq!(received(&notices).len().to_string(), count);
        let files = fs::read_dir(world.path("inbox/message")).unwrap().count();
        assert_eq!(files, 20 - left, "no part of another one is left");
    }
}

#[test]
fn a_fetch_ends_when_its_access_router_is_gone_and_says_so() {
    let (world, [phone, source]) = World::new(["phone", "source"]);
    let source = world.start(&source);
    world.notices(0, &["put", &world.original, "/film", "--control", &world.control("source")]);
    let World { router, folder, original: _original, _disk } = world;
    let copy = folder.path().join("copy").display().to_string();
    let words = ["get", "/film", "-o", &copy, "--config", &phone, "--timeout", "2s", "--limit", "1Mbps", "--json"];
    let (get, mut last, mut stdout) = begin(folder.path(), &words);
    while last["bytes"].as_u64().is_none_or(|bytes| bytes == 0) {
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        last = common::json(&line);
    }
    let pid = router.process().to_string();
    assert!(std::process::Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    let notices = rest(stdout);
    assert_eq!(common::class(get.wait()), Some(1), "{notices:?}");
    let reason = notices.last().unwrap().to_string();
    assert!(reason.contains("no access router answers") && reason.contains("verified and kept"), "{reason}");
    source.stop();
}

#[test]
fn a_lifetime_that_a_router_cuts_short_is_told() {
    let (world, [phone, source]) = World::new(["phone", "source"]);
    let id = world.passer_by(&phone);
    let words = ["send", &world.original, "/film", "--to", &id, "--config", &source, "--timeout", "3s"];
    for (lifetime, kept) in [("400h", json!(604_800.0)), ("10min", json!(600.0))] {
        let send = world.run(&[&words[..], &["--lifetime", lifetime, "--json"]].concat());
        let notices = lines(&send.stdout);
        let last = notices.iter().rev().find(|line| line["event"] == "sent").unwrap();
        assert_eq!(last["kept_seconds"], kept, "{lifetime}: {last}");
        assert_eq!(last["custodians"].as_array().unwrap().len(), 1, "{last}");
    }
}

//! The queue of a daemon: order, pause and resume, over SIGKILL.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::common::{Daemon, SIZE, ask, config, file, put, server, until};
use serde_json::Value;

struct Queue {
    folder: tempfile::TempDir,
    server: Daemon,
    receiver: PathBuf,
}

impl Queue {
    /// A server with some names of one file, and a receiver that runs `at_once` fetches at a rate of 8 Mbit/s together.
    fn new(family: &str, at_once: u8, names: &[&str]) -> Queue {
        let folder = tempfile::tempdir().unwrap();
        let (server, face) = server(folder.path(), family);
        let original = file(folder.path());
        names.iter().for_each(|name| put(folder.path(), &original, name));
        let limits = format!("[limits]\nqueue_transfers = {at_once}\nrate = \"8Mbps\"\n");
        let receiver = config(folder.path(), "receiver", r#""receiver""#, 0, &format!("{face}{limits}"));
        Queue { folder, server, receiver }
    }
    fn folder(&self) -> &Path {
        self.folder.path()
    }
    fn start(&self) -> Daemon {
        Daemon::start(self.folder(), &self.receiver)
    }
    fn ask(&self, arguments: &[&str]) -> Vec<Value> {
        ask(self.folder(), "receiver", arguments)
    }
    /// Adds names to the queue.
    fn add(&self, names: &[&str], more: &[&str]) -> Vec<Value> {
        let out = self.folder().join("out");
        fs::create_dir_all(&out).unwrap();
        // One name is written to a file, several to a folder.
        let out = if names.len() == 1 { out.join(names[0].trim_start_matches('/')) } else { out };
        self.ask(&[&["get"], names, &["--detach", "-o", out.to_str().unwrap()], more].concat())
    }
    /// The identifier, name and state of all transfers.
    fn states(&self) -> Vec<(String, String)> {
        let state = |view: &Value| {
            let state = match view {
                _ if view["paused"] == true => "paused",
                _ if view["waiting"] == true => "waiting",
                _ if view["running"] == true => "running",
                _ if view["failure"].is_string() => "failed",
                _ => "done",
            };
            (view["name"].as_str().unwrap().to_string(), state.to_string())
        };
        self.ask(&["transfers"]).iter().map(state).collect()
    }
    fn state(&self, name: &str) -> String {
        let states = self.states();
        states.iter().rfind(|(of, _)| of == name).unwrap_or_else(|| panic!("{name} in {states:?}")).1.clone()
    }
    fn is_fetched(&self, name: &str) -> bool {
        let path = self.folder().join("out").join(name.trim_start_matches('/'));
        fs::metadata(path).is_ok_and(|file| file.len() as usize == SIZE)
    }
}

fn a_queue_keeps_its_order_and_outlives_a_kill(family: &str) {
    let queue = Queue::new(family, 1, &["/a", "/b", "/c", "/d"]);
    let daemon = queue.start();
    let begun = queue.add(&["/a", "/b", "/c"], &[]);
    assert_eq!(begun[0]["queue"], "get-1");
    assert!(begun[1]["waiting"] == true && begun[1]["transfer"] == "get-2", "{begun:?}");
    assert_eq!([queue.state("/a"), queue.state("/b"), queue.state("/c")], ["running", "waiting", "waiting"]);
    queue.ask(&["pause", "/b"]);
    queue.ask(&["move", "get-3", "first"]);
    queue.add(&["/d"], &["--priority", "1"]);
    until("some of /a is here", || {
        queue
            .ask(&["transfers"])
            .iter()
            .any(|view| view["name"] == "/a" && view["stored_bytes"].as_u64().unwrap() > 500_000)
    });

    // Killed while the first one runs.
    drop(daemon);
    let _daemon = queue.start();
    until("the queue goes on", || queue.states().iter().any(|(_, state)| state == "running"));
    assert_eq!(queue.state("/b"), "paused");
    until("/d, which is urgent, is here", || queue.is_fetched("/d"));
    assert!(!queue.is_fetched("/b"));
    until("/a is here", || queue.is_fetched("/a"));
    until("/c is here", || queue.is_fetched("/c"));
    assert_eq!(queue.state("/b"), "paused");
    let order = |name: &str| queue.states().iter().position(|(of, _)| of == name).unwrap();
    assert!(order("/d") < order("/c") && order("/d") < order("/a"), "{:?}", queue.states());
    let a = queue.ask(&["transfers"]).into_iter().find(|view| view["name"] == "/a").unwrap();
    assert!(a["resumed_bytes"].as_u64().unwrap() > 0, "{a}");

    queue.ask(&["resume", "get-2"]);
    until("/b is here", || queue.is_fetched("/b"));
    for name in ["a", "b", "c", "d"] {
        let same = fs::read(queue.folder().join("out").join(name)).unwrap();
        assert!(same == fs::read(queue.folder().join("original")).unwrap(), "{name}");
    }
    drop(queue.server);
}

tributary_testkit::tests! {
    a_queue_keeps_its_order_and_outlives_a_kill:
    fn a_queue_keeps_its_order_and_outlives_a_kill_in_psi("psi");
    fn a_queue_keeps_its_order_and_outlives_a_kill_in_ndn("ndn");
    fn a_queue_keeps_its_order_and_outlives_a_kill_in_mobility_first("mf");
}

#[test]
fn what_waits_is_cancelled_and_what_failed_is_resumed() {
    let queue = Queue::new("psi", 1, &["/a"]);
    let _daemon = queue.start();
    queue.add(&["/a"], &["--limit", "2Mbps"]);
    let waiting = queue.add(&["/missing"], &["--timeout", "2s"]);
    assert_eq!(waiting[0]["waiting"], true, "{waiting:?}");
    queue.add(&["/other"], &[]);
    queue.ask(&["cancel", "get-3"]);
    assert!(queue.states().iter().all(|(name, _)| name != "/other"), "{:?}", queue.states());
    queue.ask(&["cancel", "get-1"]);
    until("the name that nobody has fails", || queue.state("/missing") == "failed");
    put(queue.folder(), &queue.folder().join("original"), "/missing");
    queue.ask(&["resume", "get-2"]);
    until("/missing is here", || queue.is_fetched("/missing"));
}

#[test]
fn a_fetch_that_is_paused_and_resumed_is_one_transfer_and_no_failure() {
    for family in crate::roles::FAMILIES {
        let queue = Queue::new(family, 1, &["/a"]);
        let _daemon = queue.start();
        queue.add(&["/a"], &[]);
        let row = || {
            let mut rows = queue.ask(&["transfers"]);
            assert!(rows.len() == 1 && rows[0]["failure"].is_null(), "{family}: {rows:?}");
            rows.remove(0)
        };
        let stored = |row: &Value| row["stored_bytes"].as_u64().unwrap();
        until("some of it is here", || stored(&row()) > 500_000);
        let begun = row();
        queue.ask(&["pause", "/a"]);
        until("it is paused", || row()["paused"] == true);
        let paused = row();
        assert!(stored(&paused) >= stored(&begun) && paused["transfer"] == begun["transfer"], "{family}: {paused}");
        queue.ask(&["resume", "/a"]);
        until("it goes on", || row()["running"] == true);
        until("it is here", || queue.is_fetched("/a") && row()["running"] == false);
        let done = row();
        assert!(done["transfer"] == begun["transfer"] && done["resumed_bytes"] == 0, "{family}: {done}");
        let from_sources = done["sources"].as_array().unwrap().iter().map(|source| source["bytes"].as_u64().unwrap());
        let delivered = from_sources.sum::<u64>() + done["cached_bytes"].as_u64().unwrap();
        assert!(delivered >= SIZE as u64, "{family}: the table has what came before the pause: {done}");
    }
}

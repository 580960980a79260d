//! Resolvers of MobilityFirst whose names lie in a Kademlia swarm: real daemons, and what is left when one is killed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
use std::fs;

use crate::common::{Daemon, ask, config, face, file, port, run, talk, until};

#[test]
fn names_in_a_swarm_outlive_the_resolver_that_took_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let (hub, swarm) = (port(), [port(), port(), port()]);
    let neighbour = face(hub, "mf");
    let resolvers: Vec<_> = ["one", "two", "three"]
        .into_iter()
        .zip(swarm)
        .map(|(label, own)| {
            let others: Vec<String> =
                swarm.iter().filter(|other| **other != own).map(|other| format!("\"127.0.0.1:{other}\"")).collect();
            let engine = format!(
                "[resolver]\nengine = \"kademlia\"\nlisten = [\"127.0.0.1:{own}\"]\npeers = [{}]\n",
                others.join(", ")
            );
            let more = format!("family = \"mf\"\n{neighbour}{engine}");
            config(path, label, r#""router", "resolver""#, port(), &more)
        })
        .collect();
    let host = |label: &str, role: &str| config(path, label, role, 0, &format!("family = \"mf\"\n{neighbour}"));
    let _hub = Daemon::start(path, &config(path, "hub", r#""router""#, hub, "family = \"mf\"\n"));
    let mut daemons: Vec<Daemon> = resolvers.iter().map(|resolver| Daemon::start(path, resolver)).collect();
    let _hosts = [host("publisher", r#""sender""#), host("receiver", r#""receiver""#)]
        .map(|config| Daemon::start(path, &config));
    let original = file(path);
    let lines = |label: &str| ask(path, label, &["status"]).remove(0)["resolver"].to_string();
    for label in ["one", "two", "three"] {
        until("they know each other", || lines(label).contains("kademlia, in use, 2 peers"));
    }
    until("three resolvers in reach", || lines("hub").contains("3 in reach"));

    let socket = |label: &str| path.join(label).join("control.sock").display().to_string();
    let (from, to) = (socket("publisher"), socket("receiver"));
    let put = run(path, &["put", original.to_str().unwrap(), "/lab/first", "--control", &from, "--timeout", "30s"]);
    assert!(put.status.success(), "{}", talk(&put));
    let get = || {
        let copy = path.join("copy").display().to_string();
        let got = run(path, &["get", "/lab/first", "-o", &copy, "--control", &to, "--timeout", "40s"]);
        assert!(got.status.success(), "{}", talk(&got));
        assert!(fs::read(&copy).unwrap() == fs::read(&original).unwrap());
        fs::remove_file(&copy).unwrap();
    };
    get();
    for gone in [2, 1] {
        drop(daemons.remove(0));
        until("it is missed", || lines("hub").contains(&format!("{gone} in reach")));
        get();
    }
    until("the last one says that it is alone", || lines("three").contains("alone"));
}

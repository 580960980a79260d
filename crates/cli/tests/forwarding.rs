//! `trib route`, `strategy` and `face` change the forwarding table of a real NDN daemon, as `nfdc` does NFD's.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use crate::common::{self, Daemon, ask, class, config, file, port, put, run, server, talk};
use serde_json::{Value, json};

/// The routes of the router to `/lab`.
fn routes(folder: &Path) -> Vec<Value> {
    let listed = ask(folder, "router", &["route", "list"]);
    let all = listed[0]["routes"].as_array().unwrap();
    all.iter().filter(|route| route["prefix"] == "/lab").cloned().collect()
}

#[test]
fn routes_strategies_and_faces_are_changed_while_a_node_runs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let [server_port, router_port] = [port(), port()];
    let ndn = "family = \"ndn\"\n";
    let _server = Daemon::start(folder, &config(folder, "server", r#""sender""#, server_port, ndn));
    let _router = Daemon::start(folder, &config(folder, "router", r#""router""#, router_port, ndn));
    let receiver = format!("{ndn}{}", common::face(router_port, "ndn"));
    let _receiver = Daemon::start(folder, &config(folder, "receiver", r#""receiver""#, 0, &receiver));
    put(folder, &file(folder), "/lab/file");
    let get = |patience: &str| {
        let control = folder.join("receiver/control.sock");
        let (control, copy) = (control.to_str().unwrap(), folder.join("copy"));
        run(folder, &["get", "/lab/file", "-o", copy.to_str().unwrap(), "--timeout", patience, "--control", control])
    };
    let none = get("2s");
    assert_eq!(class(none.status.code()), Some(1), "nothing leads to it: {}", talk(&none));

    let opened = ask(folder, "router", &["face", "create", &format!("udp4://127.0.0.1:{server_port}")]);
    assert_eq!(opened[0]["open"], true);
    let face = opened[0]["face"].as_str().unwrap();
    let shown = ask(folder, "router", &["face", "list"]);
    assert!(shown[0]["faces"].as_array().unwrap().iter().any(|of| of["id"] == face), "{shown:?}");
    ask(folder, "router", &["route", "add", "/lab", face, "--cost", "7"]);
    let route = json!({"prefix": "/lab", "face": face, "cost": 7, "origin": "static"});
    assert_eq!(routes(folder), [route]);
    let got = get("30s");
    assert!(got.status.success(), "{}", talk(&got));

    let strategies = |listed: Vec<Value>| listed[0]["strategies"].clone();
    let before = ask(folder, "router", &["strategy", "list"]);
    assert!(before[0]["known"].as_array().unwrap().contains(&json!("multicast")), "{before:?}");
    let set = strategies(ask(folder, "router", &["strategy", "set", "/lab", "multicast"]));
    assert!(set.as_array().unwrap().contains(&json!({"prefix": "/lab", "strategy": "multicast"})), "{set}");
    assert_eq!(strategies(ask(folder, "router", &["strategy", "unset", "/lab"])), strategies(before));

    ask(folder, "router", &["route", "add", "/lab", face, "--for", "1h"]);
    assert!(routes(folder)[0]["expires_seconds"].as_f64().unwrap() > 3_000.0);
    ask(folder, "router", &["route", "remove", "/lab", face]);
    assert_eq!(routes(folder), [] as [Value; 0]);
    let closed = ask(folder, "router", &["face", "destroy", face]);
    assert_eq!(closed, [json!({"event": "face-changed", "face": face, "open": false})]);
}

#[test]
fn what_cannot_be_changed_is_refused_with_what_there_is_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let _router = Daemon::start(folder, &config(folder, "router", r#""router""#, port(), "family = \"ndn\"\n"));
    let (_server, _) = server(folder, "psi");
    let refuse = |node: &str, arguments: &[&str], code: i32, words: &str| {
        let control = folder.join(node).join("control.sock");
        let asked = run(folder, &[arguments, &["--control", control.to_str().unwrap()]].concat());
        let events = talk(&asked);
        assert_eq!(asked.status.code(), Some(code), "{arguments:?}: {events}");
        assert!(events.contains(words), "{arguments:?}: {events}");
    };
    refuse("router", &["route", "add", "/lab", "face-99"], 4, "there is no face-99");
    refuse("router", &["route", "add", "/lab", "attic"], 1, "trib face");
    refuse("router", &["route", "remove", "/lab", "face-1"], 1, "there is none");
    refuse("router", &["strategy", "set", "/lab", "luck"], 4, "there is no strategy 'luck'");
    refuse("router", &["strategy", "unset", "/lab"], 4, "no strategy is chosen");
    refuse("router", &["face", "create", "carrier-pigeon://roof"], 4, "cannot open a face");
    refuse("router", &["face", "destroy", "face-99"], 1, "trib face");
    refuse("server", &["route", "list"], 2, "ndn");
}

//! Networks with an authority: real daemons on loopback that admit each other by certificates.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::common::{self, Daemon, config, face, file, lines, port, run, talk, trib, until};
use serde_json::Value;

const EVERYTHING: &str = r#""router", "resolver", "topology-manager""#;
pub(crate) const FAMILIES: [&str; 3] = ["psi", "ndn", "mf"];

/// An authority in `folder` and its key.
pub(crate) fn authority(folder: &Path, name: &str) -> String {
    let output = trib(folder).args(["network", "new", name, "--json"]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", talk(&output));
    lines(&output.stdout)[0]["authority"].as_str().unwrap().to_string()
}
/// A command of the authority in `network`.
fn command(folder: &Path, arguments: &[&str]) -> Value {
    let output = trib(folder).arg("network").args(arguments).arg("--json").current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", talk(&output));
    lines(&output.stdout)[0].clone()
}
pub(crate) fn admit(folder: &Path, config: &Path, more: &[&str]) -> Value {
    command(folder, &[&["admit", config.to_str().unwrap()], more].concat())
}
/// A config of a family; `more` continues its [node] section and starts others.
fn node(folder: &Path, family: &str, label: &str, roles: &str, listen: u16, more: &str) -> PathBuf {
    let roles = if family == "ndn" { roles.replace(r#", "resolver", "topology-manager""#, "") } else { roles.into() };
    config(folder, label, &roles, listen, &format!("family = \"{family}\"\n{more}"))
}
pub(crate) fn network(authority: &str, more: &str) -> String {
    format!("[network]\nauthority = \"{authority}\"\n{more}")
}
/// Configs of a router, a publisher of `original` as `/lab/FAMILY`, and a receiver, whose `[network]` is `of`.
pub(crate) fn trio(folder: &Path, family: &str, of: &str, original: &Path) -> [PathBuf; 3] {
    let (hub, source) = (port(), port());
    let label = |what: &str| format!("{family}-{what}");
    let publish = format!("[[publish]]\nname = \"/lab/{family}\"\npath = \"{}\"\n", original.display());
    // A forwarder of NDN has a route to the publisher.
    let to_source = if family == "ndn" { face(source, family) } else { String::new() };
    let to_hub = of.to_string() + &face(hub, family);
    [
        node(folder, family, &label("router"), EVERYTHING, hub, &(of.to_string() + &to_source)),
        node(folder, family, &label("sender"), r#""sender""#, source, &(to_hub.clone() + &publish)),
        node(folder, family, &label("receiver"), r#""receiver""#, 0, &to_hub),
    ]
}
pub(crate) fn status(folder: &Path, label: &str) -> Value {
    let control = folder.join(label).join("control.sock");
    let output = run(folder, &["status", "--json", "--control", control.to_str().unwrap()]);
    assert!(output.status.success(), "{}", talk(&output));
    lines(&output.stdout)[0].clone()
}
pub(crate) fn reload(daemon: &Daemon) {
    assert!(Command::new("kill").args(["-HUP", &daemon.process().to_string()]).status().unwrap().success());
}
/// A node's report on its neighbours: at its faces, or in its log if it has no face.
fn problem(status: &Value) -> String {
    format!("{} {}", status["faces"], status["notes"])
}

#[test]
fn nodes_that_the_authority_admits_fetch_from_each_other_in_a_closed_network() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let original = file(folder);
    let authority = authority(folder, "network");
    for family in FAMILIES {
        let label = |what: &str| format!("{family}-{what}");
        let [router, sender, receiver] = trio(folder, family, &network(&authority, ""), &original);
        for config in [&router, &sender, &receiver] {
            admit(folder, config, &["--names", "/lab"]);
        }
        let _router = Daemon::start(folder, &router);
        let _sender = Daemon::start(folder, &sender);
        let copy = folder.join(format!("{family}-copy"));
        let arguments =
            ["get", &format!("/lab/{family}"), "--config", receiver.to_str().unwrap(), "--timeout", "30s", "-o"];
        let output = trib(folder).args(arguments).arg(&copy).output().unwrap();
        assert!(output.status.success(), "{family}: {}", talk(&output));
        assert_eq!(fs::read(&copy).unwrap(), fs::read(&original).unwrap());
        let status = status(folder, &label("router"));
        assert_eq!(status["network"]["authority"], authority.as_str());
        assert_eq!(status["network"]["open"], false);
        assert_eq!(status["network"]["grant"]["roles"][0], "router");
        let grants: Vec<&Value> = status["faces"].as_array().unwrap().iter().map(|face| &face["grant"]).collect();
        assert!(grants.iter().any(|grant| grant["names"][0] == "/lab" && grant["until"].is_u64()), "{grants:?}");
    }
}

#[test]
fn a_closed_network_refuses_whoever_has_no_certificate_and_both_ends_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let [authority, other] = ["network", "other"].map(|name| authority(folder, name));
    for family in FAMILIES {
        let hub = port();
        let label = |what: &str| format!("{family}-{what}");
        let router = node(folder, family, &label("router"), EVERYTHING, hub, &network(&authority, ""));
        admit(folder, &router, &[]);
        let _router = Daemon::start(folder, &router);
        // Nothing, another network's certificate, and no idea of networks.
        let bare =
            node(folder, family, &label("bare"), r#""receiver""#, 0, &(network(&authority, "") + &face(hub, family)));
        let foreign = node(
            folder,
            family,
            &label("foreign"),
            r#""router", "receiver""#,
            0,
            &(network(&other, "") + &face(hub, family)),
        );
        admit(folder, &foreign, &["--network", "other"]);
        let secured = format!("security = \"encrypted\"\n{}", face(hub, family));
        let demo = node(folder, family, &label("demo"), r#""router", "receiver""#, 0, &secured);
        for (config, label, theirs, ours) in [
            (&bare, label("bare"), "shows no certificate", "shows no certificate"),
            (&foreign, label("foreign"), "of another network", "of another network"),
            (&demo, label("demo"), "shows no certificate", "shows no certificate"),
        ] {
            let daemon = Daemon::start(folder, config);
            // A consumer of NDN sends nothing before it wants something.
            let control = folder.join(&label).join("control.sock");
            let wish = ["get", "/lab/none", "-o", "none", "--timeout", "1s", "--control", control.to_str().unwrap()];
            let refused = run(folder, &wish);
            assert_eq!(refused.status.code(), Some(4), "{}", talk(&refused));
            assert!(talk(&refused).contains("trib network admit"), "{}", talk(&refused));
            until(&format!("{family}: the refusal of {label}"), || {
                problem(&status(folder, &label)).contains(theirs)
                    && problem(&status(folder, &self::label(family))).contains(ours)
            });
            let status = status(folder, &label);
            assert!(
                status["faces"].as_array().unwrap().iter().all(|face| face["up"] == false || family == "ndn"),
                "{status}"
            );
            daemon.stop();
        }
    }
}
fn label(family: &str) -> String {
    format!("{family}-router")
}

#[test]
fn an_open_network_admits_everybody_as_a_host_and_shows_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let original = file(folder);
    let authority = authority(folder, "network");
    for family in FAMILIES {
        let label = |what: &str| format!("{family}-{what}");
        let [router, sender, receiver] = trio(folder, family, &network(&authority, "access = \"open\"\n"), &original);
        admit(folder, &router, &[]);
        let _router = Daemon::start(folder, &router);
        let _sender = Daemon::start(folder, &sender);
        let copy = folder.join(format!("{family}-copy"));
        let arguments =
            ["get", &format!("/lab/{family}"), "--config", receiver.to_str().unwrap(), "--timeout", "30s", "-o"];
        let output = trib(folder).args(arguments).arg(&copy).output().unwrap();
        assert!(output.status.success(), "{family}: {}", talk(&output));
        let status = status(folder, &label("router"));
        assert_eq!(status["network"]["open"], true);
        let faces = status["faces"].as_array().unwrap();
        assert!(
            faces
                .iter()
                .any(|face| face["grant"]["serial"].is_null() && face["grant"]["roles"] == serde_json::json!([])),
            "{faces:?}"
        );
    }
}

#[test]
fn a_revoked_node_loses_its_session_when_its_neighbour_reads_the_list() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let authority = authority(folder, "network");
    let hub = port();
    let of = network(&authority, "revoked = \"network/revoked\"\n");
    let router = node(folder, "psi", "router", EVERYTHING, hub, &of);
    let sender = node(folder, "psi", "sender", r#""sender""#, 0, &(of + &face(hub, "psi")));
    admit(folder, &router, &[]);
    admit(folder, &sender, &[]);
    let daemon = Daemon::start(folder, &router);
    let _sender = Daemon::start(folder, &sender);
    let is_up = || status(folder, "sender")["faces"][0]["up"] == true;
    until("the neighbour", is_up);
    let revoked = command(folder, &["revoke", "sender"]);
    assert_eq!((revoked["members"][0]["label"].as_str(), revoked["revocations"].as_u64()), (Some("sender"), Some(2)));
    reload(&daemon);
    until("the refusal", || problem(&status(folder, "sender")).contains("revoked the certificate of 'sender'"));
    until("silence", || !is_up());
    assert_eq!(command(folder, &["show"])["members"][1]["state"], "revoked");
}

#[test]
fn a_list_of_revocations_that_one_node_reads_reaches_all_over_their_neighbours() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let authority = authority(folder, "network");
    for family in ["psi", "mf"] {
        let label = |what: &str| format!("{family}-{what}");
        // Only the first one learns it from its owner; the last one is the neighbour of the revoked node.
        let ports = [port(), port(), port()];
        let events = network(&authority, "revoked = \"network/revoked\"\n");
        let of = network(&authority, "");
        let first = node(folder, family, &label("first"), EVERYTHING, ports[0], &events);
        let middle =
            node(folder, family, &label("middle"), EVERYTHING, ports[1], &(of.clone() + &face(ports[0], family)));
        let last = node(folder, family, &label("last"), EVERYTHING, ports[2], &(of.clone() + &face(ports[1], family)));
        let evil = node(folder, family, &label("evil"), r#""sender""#, 0, &(of + &face(ports[2], family)));
        for config in [&first, &middle, &last, &evil] {
            admit(folder, config, &[]);
        }
        let daemon = Daemon::start(folder, &first);
        let others = [&middle, &last, &evil].map(|config| Daemon::start(folder, config));
        for what in ["middle", "last", "evil"] {
            until("the neighbours", || status(folder, &label(what))["faces"][0]["key"].is_string());
        }
        command(folder, &["revoke", &label("evil")]);
        reload(&daemon);
        until("the refusal", || problem(&status(folder, &label("evil"))).contains("revoked the certificate of"));
        until("the note", || status(folder, &label("last"))["notes"].to_string().contains("of revocations"));
        // It persists over the next start, regardless of the nodes present then.
        drop((daemon, others));
        let _last = Daemon::start(folder, &last);
        let _evil = Daemon::start(folder, &evil);
        until("the refusal", || problem(&status(folder, &label("evil"))).contains("revoked the certificate of"));
    }
}

#[test]
fn a_session_ends_with_the_certificate_and_a_renewed_one_is_taken_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let authority = authority(folder, "network");
    let hub = port();
    let of = network(&authority, "");
    let router = node(folder, "psi", "router", EVERYTHING, hub, &of);
    let sender = node(folder, "psi", "sender", r#""sender""#, 0, &(of + &face(hub, "psi")));
    admit(folder, &router, &[]);
    admit(folder, &sender, &["--for", "4s"]);
    let _router = Daemon::start(folder, &router);
    let daemon = Daemon::start(folder, &sender);
    until("the neighbour", || status(folder, "sender")["faces"][0]["up"] == true);
    until("the notice", || status(folder, "sender")["notes"].to_string().contains("its authority renews it"));
    until("the end", || problem(&status(folder, "sender")).contains("the certificate of 'sender' ended at"));
    assert!(status(folder, "sender")["network"]["problem"].as_str().unwrap().contains("ended at"));
    admit(folder, &sender, &[]);
    reload(&daemon);
    until("the neighbour again", || status(folder, "sender")["faces"][0]["up"] == true);
}

/// Insiders: nodes admitted by the authority as hosts that claim all roles.
#[test]
fn a_host_that_says_it_is_a_router_a_resolver_and_a_topology_manager_becomes_none_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let original = file(folder);
    let authority = authority(folder, "network");
    for family in ["psi", "mf"] {
        let hub = port();
        let of = network(&authority, "") + &face(hub, family);
        let label = |what: &str| format!("{family}-{what}");
        let everything = format!("{EVERYTHING}, \"sender\", \"receiver\"");
        let router = node(folder, family, &label("router"), &everything, hub, &network(&authority, ""));
        let good = node(folder, family, &label("good"), EVERYTHING, 0, &of);
        let publish = format!("[[publish]]\nname = \"/lab/{family}\"\npath = \"{}\"\n", original.display());
        let sender = node(folder, family, &label("sender"), r#""sender""#, 0, &(of.clone() + &publish));
        // It publishes foreign names, if its program allows it.
        let evil = node(folder, family, &label("evil"), &everything, 0, &of);
        admit(folder, &router, &[]);
        admit(folder, &good, &[]);
        admit(folder, &sender, &["--names", "/lab"]);
        let key = folder.join(label("evil")).join("key");
        fs::create_dir(folder.join(label("evil"))).unwrap();
        let made = run(folder, &["key", "new", key.to_str().unwrap(), "--json"]);
        let public = lines(&made.stdout)[0]["public"].as_str().unwrap().to_string();
        let admitted = command(folder, &["admit", &public, "--label", &label("evil"), "--names", "/evil"]);
        let certificate = folder.join(admitted["files"][0].as_str().unwrap());
        fs::copy(certificate, folder.join(label("evil")).join("certificate")).unwrap();
        let _daemons = [&router, &good, &sender, &evil].map(|config| Daemon::start(folder, config));
        until("all neighbours", || {
            let status = status(folder, &label("router"));
            status["faces"].as_array().unwrap().iter().filter(|face| face["up"] == true).count() == 3
        });
        assert!(
            status(folder, &label("evil"))["notes"]
                .to_string()
                .contains("other nodes do not accept this node as router")
        );
        let control = folder.join(label("router")).join("control.sock");
        let get =
            ["get", &format!("/lab/{family}"), "-o", "copy", "--overwrite", "--control", control.to_str().unwrap()];
        let fetched = trib(folder).args(get).current_dir(folder).output().unwrap();
        assert!(fetched.status.success(), "{family}: {}", talk(&fetched));
        let known = status(folder, &label("router"))["resolver"].to_string();
        assert!(known.contains(&label("good")) && !known.contains(&label("evil")), "{family}: {known}");
        if family == "mf" {
            let dropped = status(folder, &label("router"))["counters"].to_string();
            assert!(dropped.contains("not certified as a router"), "{dropped}");
        }
        // Its own program refuses to publish names of others.
        let control = folder.join(label("evil")).join("control.sock");
        let put = ["put", original.to_str().unwrap(), "/lab/mine", "--control", control.to_str().unwrap()];
        let refused = run(folder, &put);
        assert_eq!(common::class(refused.status.code()), Some(1));
        assert!(talk(&refused).contains("the certificate of this node covers '/evil'"), "{}", talk(&refused));
    }
}

#[test]
fn files_that_cannot_be_right_are_refused_at_the_start_and_say_whose_and_why() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let authority = authority(folder, "network");
    let config = node(folder, "psi", "router", EVERYTHING, port(), &network(&authority, ""));
    let refused = || {
        let output = trib(folder).args(["node", "--config"]).arg(&config).output().unwrap();
        assert_eq!(common::class(output.status.code()), Some(2));
        talk(&output)
    };
    fs::create_dir(folder.join("router")).unwrap();
    let certificate = folder.join("router/certificate");
    fs::write(&certificate, "no certificate").unwrap();
    assert!(refused().contains("is not a certificate"), "{}", refused());
    let elsewhere = command(folder, &["admit", &authority, "--label", "other"]);
    fs::copy(folder.join(elsewhere["files"][0].as_str().unwrap()), &certificate).unwrap();
    let printed = refused();
    assert!(printed.contains("it is for 'other'") && printed.contains("trib network admit"), "{printed}");
    // A second authority in the same folder would replace the key of the first.
    let again = trib(folder).args(["network", "new"]).current_dir(folder).output().unwrap();
    assert_eq!(common::class(again.status.code()), Some(2), "{}", talk(&again));
    let exposed = fs::metadata(folder.join("network/authority")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&exposed.permissions()) & 0o777, 0o600);
}

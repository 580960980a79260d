//! Explanations of failed fetches: real daemons on loopback. And how commands find a working node.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    net::UdpSocket,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    thread::sleep,
    time::Duration,
};

use crate::common::{Begun, Daemon, config, face, file, lines, port, run, talk, trib, until};

const EVERYTHING: &str = r#""router", "resolver", "topology-manager""#;

/// A config of a family; `more` continues its [node] section.
fn node(folder: &Path, family: &str, label: &str, roles: &str, listen: u16, more: &str) -> PathBuf {
    let roles = if family == "ndn" { roles.replace(r#", "resolver", "topology-manager""#, "") } else { roles.into() };
    config(folder, label, &roles, listen, &format!("family = \"{family}\"\n{more}"))
}
/// The output of `trib get` for a missing name at a receiver with this config.
fn printed(folder: &Path, receiver: &Path) -> String {
    let arguments = ["get", "/lab/none", "-o", "copy", "--timeout", "3s", "--config", receiver.to_str().unwrap()];
    let output = trib(folder).args(arguments).current_dir(folder).output().unwrap();
    assert!(matches!(output.status.code(), Some(1 | 3)), "{}", talk(&output));
    talk(&output)
}

#[test]
fn a_neighbour_that_does_not_run_and_one_that_says_nothing_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // It receives packets and never answers.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().port();
    let free = port();
    for family in ["psi", "ndn", "mf"] {
        for (to, why) in
            [(free, "nothing listens there (connection refused)"), (silent, "nothing ever came from there")]
        {
            let receiver = node(folder, family, "receiver", r#""receiver""#, 0, &face(to, family));
            let printed = printed(folder, &receiver);
            let expected = format!("no neighbour answers: face-1 to 127.0.0.1:{to}: {why}");
            assert!(printed.contains(&expected), "{family}: {printed}");
        }
    }
}

#[test]
fn a_config_with_a_key_of_earlier_versions_is_refused_and_says_what_to_do_instead() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for family in ["psi", "mf"] {
        let key = format!("[{family}]\nnetwork_key = \"{}\"\n", "aa".repeat(32));
        let old = node(folder, family, "old", r#""receiver""#, 0, &key);
        let output = trib(folder).args(["get", "/lab/none", "--config", old.to_str().unwrap()]).output().unwrap();
        let printed = talk(&output);
        assert_eq!(output.status.code(), Some(2), "{printed}");
        for part in [&format!("'network_key' of [{family}] has gone"), "trib network new", "trib network admit"] {
            assert!(printed.contains(part), "{printed}");
        }
    }
}

#[test]
fn one_receiver_that_faces_several_publishers_needs_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let original = file(folder);
    for (family, roles) in [
        ("psi", r#""receiver", "router", "resolver", "topology-manager""#),
        ("mf", r#""receiver", "router", "resolver""#),
        ("ndn", r#""receiver""#),
    ] {
        let ports = [port(), port(), port()];
        let _publishers = [0, 1, 2].map(|number| {
            let publish = format!("[[publish]]\nname = \"/lab/{number}\"\npath = \"{}\"\n", original.display());
            let label = format!("{family}{number}");
            Daemon::start(folder, &node(folder, family, &label, r#""sender""#, ports[number], &publish))
        });
        let faces = ports.map(|port| face(port, family)).concat();
        let receiver = node(folder, family, &format!("{family}r"), roles, 0, &faces);
        for number in 0..3 {
            let (name, copy) = (format!("/lab/{number}"), folder.join(format!("{family}-{number}")));
            let (copy, config) = (copy.to_str().unwrap(), receiver.to_str().unwrap());
            let got = run(folder, &["get", &name, "-o", copy, "--timeout", "20s", "--config", config]);
            assert_eq!(got.status.code(), Some(0), "{family} {number}: {}", talk(&got));
            assert_eq!(fs::read(copy).unwrap(), fs::read(&original).unwrap());
        }
        // Without these roles, the advice follows within seconds.
        if family != "ndn" {
            let printed = printed(folder, &node(folder, family, &format!("{family}x"), r#""receiver""#, 0, &faces));
            assert!(printed.contains("cannot be found yet: neighbours answer"), "{family}: {printed}");
            assert!(printed.contains(&format!("roles = [{}]", roles)), "{family}: {printed}");
        }
    }
}

#[test]
fn a_network_without_the_role_that_finds_names_is_told_which_one_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (family, missing) in [
        ("psi", "neighbours answer ('publisher'), but the network has no topology manager"),
        ("mf", "neighbours answer ('publisher'), but none of them has the role \"router\""),
        ("ndn", "the forwarder at face-1 knows no route to it"),
    ] {
        let at = port();
        let _publisher = Daemon::start(folder, &node(folder, family, "publisher", r#""sender", "receiver""#, at, ""));
        let printed = printed(folder, &node(folder, family, "receiver", r#""receiver""#, 0, &face(at, family)));
        let is_silent = family == "ndn" && printed.contains("nothing came back from face-1");
        assert!(printed.contains(missing) || is_silent, "{family}: {printed}");
    }
}

#[test]
fn a_name_that_nobody_has_is_told_by_whoever_resolves_names() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (family, reason) in [
        ("psi", "the rendezvous node 'router' knows no publisher of it"),
        ("mf", "the name service behind 'router' knows no source of it"),
        ("ndn", "the forwarder at face-1 knows no route to it"),
    ] {
        let hub = port();
        let _router = Daemon::start(folder, &node(folder, family, "router", EVERYTHING, hub, ""));
        let printed = printed(folder, &node(folder, family, "receiver", r#""receiver""#, 0, &face(hub, family)));
        assert!(printed.contains(reason), "{family}: {printed}");
        assert!(!printed.contains("is a publisher running"), "{family}: {printed}");
    }
}

/// A router, a publisher of `/lab/big` and a running receiver, in a separate home folder, found by their labels.
struct Home {
    folder: tempfile::TempDir,
    original: PathBuf,
    receiver: PathBuf,
    _nodes: Vec<Daemon>,
}

impl Home {
    fn new() -> Home {
        let folder = tempfile::tempdir().unwrap();
        let original = file(folder.path());
        let hub = port();
        let write = |label: &str, roles: &str, listen: u16, more: &str| {
            let path = folder.path().join(format!("{label}.toml"));
            let text =
                format!("[node]\nlabel = \"{label}\"\nroles = [{roles}]\nlisten = [\"127.0.0.1:{listen}\"]\n{more}");
            fs::write(&path, text).unwrap();
            path
        };
        let publish = format!("[[publish]]\nname = \"/lab/big\"\npath = \"{}\"\n", original.display());
        let nodes = vec![
            Daemon::start(folder.path(), &write("router", EVERYTHING, hub, "")),
            Daemon::start(folder.path(), &write("publisher", r#""sender""#, 0, &(face(hub, "psi") + &publish))),
        ];
        let receiver = write("receiver", r#""receiver""#, 0, &face(hub, "psi"));
        Home { folder, original, receiver, _nodes: nodes }
    }
    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().into()
    }
    fn run(&self, arguments: &[&str]) -> Output {
        run(self.folder.path(), arguments)
    }
    fn is_there(&self, name: &str) -> bool {
        fs::read(self.path(name)).is_ok_and(|copy| copy == fs::read(&self.original).unwrap())
    }
}

#[test]
fn a_fetch_that_is_detached_goes_on_without_its_client_and_can_be_followed() {
    let home = Home::new();
    let _receiver = Daemon::start(home.folder.path(), &home.receiver);
    // The name has no publisher yet: the client has exited long before it is published.
    let begun = home.run(&["get", "/lab/later", "-o", &home.path("later"), "--detach", "--timeout", "60s", "--json"]);
    assert_eq!(begun.status.code(), Some(0), "{}", talk(&begun));
    let begun = &lines(&begun.stdout)[0];
    assert_eq!((&begun["event"], &begun["name"]), (&"fetching".into(), &"/lab/later".into()), "{begun}");
    let transfer = begun["transfer"].as_str().unwrap();
    let status = home.run(&["status", "--control", "receiver"]);
    assert!(String::from_utf8_lossy(&status.stdout).contains(&format!("{transfer} fetches '/lab/later'")));
    // Who follows it may go as well, even so.
    let mut follower = trib(home.folder.path());
    let follower = follower.args(["follow", transfer]).stdout(Stdio::null()).stderr(Stdio::null());
    let follower = Begun(follower.spawn().unwrap());
    sleep(Duration::from_millis(500));
    follower.signal("KILL");
    drop(follower);
    let put = home.run(&["put", home.original.to_str().unwrap(), "/lab/later", "--control", "publisher"]);
    assert_eq!(put.status.code(), Some(0), "{}", talk(&put));
    let followed = home.run(&["follow", "/lab/later", "--json"]);
    assert_eq!(followed.status.code(), Some(0), "{}", talk(&followed));
    assert_eq!(lines(&followed.stdout).last().unwrap()["event"], "done");
    until("the file", || home.is_there("later"));
}

#[test]
fn a_second_command_with_the_config_of_a_running_node_works_through_it() {
    let home = Home::new();
    let config = home.receiver.to_str().unwrap();
    // First with the node of a command.
    let mut first = trib(home.folder.path());
    let waits = ["get", "/lab/none", "-o", &home.path("none"), "--timeout", "20s", "--config", config];
    let first = Begun(first.args(waits).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let control = home.folder.path().join("home/tributary/receiver/control.sock");
    until("the first command's node", || control.exists());
    let second = home.run(&["get", "/lab/big", "-o", &home.path("copy"), "--config", config]);
    assert_eq!(second.status.code(), Some(0), "{}", talk(&second));
    assert!(talk(&second).contains("the node 'receiver' runs already and does the work") && home.is_there("copy"));
    first.signal("INT");
    assert_eq!(first.wait(), Some(130));
    // Then with a daemon.
    let _receiver = Daemon::start(home.folder.path(), &home.receiver);
    let third = home.run(&["get", "/lab/big", "-o", &home.path("copy3"), "--config", config]);
    assert_eq!(third.status.code(), Some(0), "{}", talk(&third));
    assert!(home.is_there("copy3"));
}

#[test]
fn of_several_daemons_the_one_that_can_answer_does_and_status_lists_them() {
    let home = Home::new();
    let _receiver = Daemon::start(home.folder.path(), &home.receiver);
    let stated = |arguments: &[&str]| {
        let output = home.run(arguments);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &talk(&output))
    };
    let (code, printed) = stated(&["status"]);
    assert_eq!(code, Some(0), "{printed}");
    for line in ["3 daemons run here:", "router (psi: router, resolver, topology-manager)", "--control publisher"] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    assert_eq!(lines(&home.run(&["status", "--json"]).stdout).len(), 3);
    let (code, printed) = stated(&["cache"]);
    assert!(code == Some(0) && printed.contains("cache ("), "{printed}");
    let (code, printed) = stated(&["get", "/lab/big", "-o", &home.path("copy")]);
    assert_eq!(code, Some(0), "{printed}");
    let (code, printed) = stated(&["explain", "/lab/none"]);
    assert!(code == Some(2) && printed.contains("none of the daemons that run here can do that"), "{printed}");
    let (code, printed) = stated(&["store"]);
    assert!(code == Some(2) && printed.contains("receiver (psi: receiver)"), "{printed}");
    let (code, printed) = stated(&["ls", "/"]);
    assert!(code == Some(2) && printed.contains("which one?") && printed.contains("--control"), "{printed}");
}

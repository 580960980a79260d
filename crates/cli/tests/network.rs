//! The program as people use it: real daemons, real datagrams on loopback.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    net::UdpSocket,
    path::Path,
    process::{Command, Stdio},
};

use crate::common::{self, Begun, Daemon, SIZE, begin, config, file, lines, port, run, talk, trib};

/// A router with all roles that a network needs, and a publisher next to it.
fn network(folder: &Path) -> (Daemon, Daemon, u16) {
    let hub = port();
    let router = r#""router", "resolver", "topology-manager""#;
    let router = Daemon::start(folder, &config(folder, "router", router, hub, ""));
    let to_hub = format!("[[face]]\npeer = \"127.0.0.1:{hub}\"\n");
    let publisher = Daemon::start(folder, &config(folder, "publisher", r#""sender""#, 0, &to_hub));
    (router, publisher, hub)
}

#[test]
fn what_is_put_by_a_daemon_is_fetched_by_a_node_in_the_foreground() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let original = file(folder);
    let (router, publisher, hub) = network(folder);
    let control = folder.join("publisher/control.sock");
    let control = control.to_str().unwrap();
    let put = run(folder, &["put", original.to_str().unwrap(), "/lab/big", "--control", control, "--json"]);
    assert_eq!(put.status.code(), Some(0), "{}", talk(&put));
    assert_eq!(lines(&put.stdout)[0]["confirmed"], true);
    let key = lines(&put.stdout)[0]["publisher"].as_str().unwrap().to_string();

    let to_hub = format!("[[face]]\npeer = \"127.0.0.1:{hub}\"\n");
    let receiver = config(folder, "receiver", r#""receiver""#, 0, &to_hub);
    let receiver = receiver.to_str().unwrap();
    let copy = folder.join("copy");
    let target = copy.to_str().unwrap();
    let get = run(folder, &["get", "/lab/big", "--config", receiver, "-o", target, "--publisher", &key, "--json"]);
    assert_eq!(get.status.code(), Some(0), "{}", talk(&get));
    let notices = lines(&get.stdout);
    let done = notices.last().unwrap();
    assert_eq!((&done["event"], &done["verified"], &done["bytes"]), (&"done".into(), &true.into(), &SIZE.into()));
    assert_eq!(done["sources"][0]["id"], "publisher");
    assert_eq!(std::fs::read(&copy).unwrap(), std::fs::read(&original).unwrap());

    let stream = run(folder, &["get", "/lab/big", "--config", receiver, "-o", "-"]);
    assert_eq!(stream.status.code(), Some(0), "{}", talk(&stream));
    assert!(stream.stdout == std::fs::read(&original).unwrap());
    assert!(!talk(&stream).contains('\u{1b}'), "{}", talk(&stream));
    assert!(!talk(&stream).contains(" INFO "), "what changes in its node is in nobody's way: {}", talk(&stream));

    let ls = run(folder, &["ls", "/lab", "--config", receiver, "--json"]);
    assert_eq!(ls.status.code(), Some(0), "{}", talk(&ls));
    assert!(lines(&ls.stdout).iter().any(|line| line["event"] == "entry" && line["name"] == "/lab/big"), "{ls:?}");

    let missing = run(folder, &["get", "/lab/none", "--config", receiver, "-o", target, "--timeout", "300ms"]);
    assert_eq!(common::class(missing.status.code()), Some(1));
    assert!(talk(&missing).contains("error: cannot fetch '/lab/none'"), "{}", talk(&missing));
    assert!(talk(&missing).contains("trib ls"), "{}", talk(&missing));

    let pinned = ["--publisher", "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"];
    let arguments = [&["get", "/lab/big", "--config", receiver, "-o", target, "--timeout", "2s"][..], &pinned].concat();
    let wrong = run(folder, &arguments);
    assert_eq!(common::class(wrong.status.code()), Some(1), "{}", talk(&wrong));

    assert_eq!(publisher.stop(), Some(0));
    assert_eq!(router.stop(), Some(0));
    assert!(!Path::new(control).exists(), "the control socket goes with its daemon");
}

#[test]
fn a_daemon_is_named_by_its_label_and_an_option_comes_before_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let homes = folder.join("home/tributary");
    std::fs::create_dir_all(&homes).unwrap();
    let original = file(folder);
    let hub = port();
    let roles = r#""router", "resolver", "topology-manager", "sender""#;
    let to_hub = format!("[[face]]\npeer = \"127.0.0.1:{hub}\"\n");
    let _hub = Daemon::start(folder, &config(&homes, "hub", roles, hub, ""));
    let _receiver = Daemon::start(folder, &config(&homes, "receiver", r#""receiver""#, 0, &to_hub));

    let which = run(folder, &["status"]);
    assert_eq!(which.status.code(), Some(0), "{}", talk(&which));
    let listed = String::from_utf8_lossy(&which.stdout).into_owned();
    assert!(
        listed.starts_with("2 daemons run here:\n  hub (psi: router") && listed.contains("  receiver (psi"),
        "{listed}"
    );
    let ask = |variable: &str, words: &[&str]| {
        let requested = trib(folder).env("TRIB_CONTROL", variable).args(words).output().unwrap();
        assert_eq!(requested.status.code(), Some(0), "{words:?}: {}", talk(&requested));
        String::from_utf8(requested.stdout).unwrap()
    };
    assert!(ask("hub", &["status"]).starts_with("node 'hub'"));
    assert!(ask("hub", &["status", "--control", "receiver"]).starts_with("node 'receiver'"));
    ask("hub", &["put", original.to_str().unwrap(), "/lab/big"]);
    let (copy, other) = (folder.join("copy"), folder.join("other"));
    ask("hub", &["get", "/lab/big", "--control", "receiver", "-o", copy.to_str().unwrap()]);
    // Finished fetches stay listed while the daemon runs.
    assert!(ask("receiver", &["paths", "/lab/big"]).contains("fetches '/lab/big' over 1 path:"));
    assert!(ask("receiver", &["explain", "/lab/big"]).contains("fetched '/lab/big'"));
    let own = config(folder, "own", r#""receiver""#, 0, &to_hub);
    ask("hub", &["get", "/lab/big", "--config", own.to_str().unwrap(), "-o", other.to_str().unwrap()]);
    assert!(std::fs::read(other).unwrap() == std::fs::read(original).unwrap());
}

#[test]
fn a_listing_of_thousands_of_names_is_whole_and_a_full_node_takes_new_versions() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let small = folder.join("small");
    std::fs::write(&small, "old").unwrap();
    let path = small.to_str().unwrap();
    const NAMES: usize = 2_500;
    let names: Vec<String> = (0..NAMES).map(|number| format!("/many/n{number}")).collect();
    let entries: String =
        names.iter().map(|name| format!("[[publish]]\nname = \"{name}\"\npath = \"{path}\"\n")).collect();
    let roles = r#""router", "resolver", "topology-manager", "sender", "receiver""#;
    let more = format!("{entries}[limits]\npublications = {NAMES}\n");
    let mut node = Daemon::start(folder, &config(folder, "node", roles, 0, &more));
    assert!((0..NAMES).all(|_| node.line()["event"] == "published"));
    let control = folder.join("node/control.sock");
    let ask = |arguments: &[&str]| run(folder, &[arguments, &["--control", control.to_str().unwrap()]].concat());

    let is_confirmed = || {
        let status = lines(&ask(&["status", "--json"]).stdout).remove(0);
        status["published"].as_array().unwrap().iter().filter(|of| of["confirmed"] == true).count() == NAMES
    };
    let waits = || std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(
        (0..1_200).any(|_| is_confirmed() || {
            waits();
            false
        }),
        "not all are confirmed"
    );
    let listed = ask(&["ls", "/many", "--json", "--timeout", "60s"]);
    assert_eq!(listed.status.code(), Some(0), "{}", talk(&listed));
    let notices = lines(&listed.stdout);
    assert_eq!(
        (&notices.last().unwrap()["event"], &notices.last().unwrap()["entries"]),
        (&"listed".into(), &NAMES.into())
    );
    let mut entries: Vec<&str> =
        notices.iter().filter_map(|line| line["name"].as_str()).filter(|name| *name != "/many").collect();
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    entries.sort_unstable();
    names.sort_unstable();
    assert!(entries == names, "{} of {NAMES} names were listed", entries.len());

    let other = ask(&["put", path, "/other"]);
    assert_eq!(common::class(other.status.code()), Some(2), "{}", talk(&other));
    assert!(talk(&other).contains("publishes 2500 objects already"), "{}", talk(&other));
    std::fs::write(&small, "new").unwrap();
    let newer = ask(&["put", path, "/many/n7"]);
    assert_eq!(newer.status.code(), Some(0), "{}", talk(&newer));
    assert_eq!(ask(&["get", "/many/n7", "-o", "-"]).stdout, b"new");
    assert_eq!(node.stop(), Some(0));
}

#[test]
fn what_the_state_folder_has_no_room_to_remember_is_not_offered() {
    for family in ["psi", "ndn", "mf"] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let roles = if family == "psi" {
            r#""router", "resolver", "topology-manager", "sender""#
        } else {
            r#""router", "sender""#
        };
        let node = Daemon::start(folder, &config(folder, "node", roles, 0, &format!("family = \"{family}\"\n")));
        // An irreplaceable file simulates a full disk: this works for root as well.
        std::fs::create_dir_all(folder.join("node/publications.jsonl/in the way")).unwrap();
        let control = folder.join("node/control.sock");
        let control = control.to_str().unwrap();
        let put = run(folder, &["put", file(folder).to_str().unwrap(), "/big", "--control", control]);
        assert_eq!(common::class(put.status.code()), Some(2), "{family}: {}", talk(&put));
        let status = lines(&run(folder, &["status", "--json", "--control", control]).stdout).remove(0);
        assert_eq!(status["published"], serde_json::json!([]), "{family}");
        assert_eq!(node.stop(), Some(0));
    }
}

/// Asks again until it is so, for a minute.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let requested = (0..600).any(|_| {
        is_so() || {
            std::thread::sleep(std::time::Duration::from_millis(100));
            false
        }
    });
    assert!(requested, "{what} does not come about");
}
/// Starts `trib node --json` without reading its output.
fn unread(command: &mut Command) -> Begun {
    Begun(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
}

#[test]
fn a_daemon_whose_lines_nobody_reads_ends_in_order_at_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let small = folder.join("small");
    std::fs::write(&small, "small").unwrap();
    // More lines than a pipe holds: 64 KiB.
    let entry =
        |number| format!("[[publish]]\nname = \"/a/long/way/down/n{number}\"\npath = \"{}\"\n", small.display());
    let entries: String = (0..1_000).map(entry).collect();
    let roles = r#""router", "resolver", "topology-manager", "sender""#;
    let config = config(folder, "node", roles, 0, &entries);
    let control = folder.join("node/control.sock");
    let status = || run(folder, &["status", "--json", "--control", control.to_str().unwrap()]);
    for signal in ["TERM", "INT"] {
        let node = unread(trib(folder).args(["node", "--json", "--config"]).arg(&config));
        until("a daemon that publishes", || {
            let notices = lines(&status().stdout);
            notices.first().is_some_and(|notices| notices["published"].as_array().is_some_and(|of| of.len() == 1_000))
        });
        node.signal(signal);
        assert_eq!(node.wait(), Some(0), "{signal}");
        assert!(!control.exists(), "{signal}: the control socket goes with its daemon");
    }
}

#[test]
fn a_daemon_that_still_reads_what_it_publishes_ends_at_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // It has no blocks, and takes minutes to hash.
    std::fs::File::create(folder.join("huge")).and_then(|file| file.set_len(1 << 40)).unwrap();
    let publish = "[[publish]]\nname = \"/huge\"\npath = \"huge\"\n";
    let config = config(folder, "node", r#""sender""#, 0, publish);
    let node = unread(trib(folder).args(["node", "--json", "--config"]).arg(&config));
    let control = folder.join("node/control.sock");
    until("a daemon that starts", || control.exists());
    node.signal("TERM");
    assert_eq!(node.wait(), Some(130));
}

#[test]
fn a_daemon_that_is_hung_up_on_reads_its_config_again_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let original = file(folder);
    let hub = port();
    let router = r#""router", "resolver", "topology-manager""#;
    let _router = Daemon::start(folder, &config(folder, "router", router, hub, ""));
    let more = |name: &str, rest: &str| {
        format!(
            "log = \"info\"\n[[face]]\npeer = \"127.0.0.1:{hub}\"\n[[publish]]\nname = \"{name}\"\npath = \"{}\"\n{rest}",
            original.display()
        )
    };
    let write = |name: &str, rest: &str| config(folder, "publisher", r#""sender""#, 0, &more(name, rest));
    let path = write("/lab/first", "");
    let control = folder.join("router/control.sock");
    let lists = |name: &str| {
        let listed = run(folder, &["ls", "/lab", "--json", "--control", control.to_str().unwrap(), "--timeout", "1s"]);
        lines(&listed.stdout).iter().any(|line| line["name"] == name)
    };
    let log = folder.join("log");
    let logged = || std::fs::read_to_string(&log).unwrap();
    let stderr = std::fs::File::create(&log).unwrap();
    let node = trib(folder).args(["node", "--config"]).arg(&path).stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
    let node = Begun(node);
    until("the first name", || lists("/lab/first"));

    write("/lab/second", "");
    node.signal("HUP");
    until("the second name in place of the first", || lists("/lab/second") && !lists("/lab/first"));

    write("/lab/third", "[limits]\nrate = 5\n");
    node.signal("HUP");
    until("why it is not reloaded", || logged().contains("not reloaded, everything stays as it was"));
    assert!(lists("/lab/second") && !lists("/lab/third"), "{}", logged());

    write("/lab/second", "[limits]\nrate = \"5Mbps\"\ntransfers = 3\n");
    node.signal("HUP");
    until("what waits for a restart", || {
        let logged = logged();
        logged.contains("the rate limit") && logged.contains("only after a restart: [limits] other than 'rate'")
    });
    node.signal("TERM");
    assert_eq!(node.wait(), Some(0), "{}", logged());
}

#[test]
fn neighbours_come_and_go_with_the_config_of_a_daemon_that_is_hung_up_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let original = file(folder);
    for family in ["psi", "mf"] {
        let folder = &folder.join(family);
        std::fs::create_dir(folder).unwrap();
        let of = |more: &str| format!("family = \"{family}\"\n{more}");
        let [a, b] = [port(), port()];
        let roles = r#""router", "resolver", "topology-manager""#;
        let _routers =
            [("a", a), ("b", b)].map(|(label, at)| Daemon::start(folder, &config(folder, label, roles, at, &of(""))));
        let write = |neighbours: &[u16]| {
            let face = |port: &u16| format!("[[face]]\npeer = \"127.0.0.1:{port}\"\n");
            let faces: String = neighbours.iter().map(face).collect();
            let publish = format!("[[publish]]\nname = \"/lab/big\"\npath = \"{}\"\n", original.display());
            config(folder, "publisher", r#""sender""#, 0, &of(&(faces + &publish)))
        };
        let path = write(&[a]);
        let control = |label: &str| folder.join(label).join("control.sock").display().to_string();
        let up = || {
            let status = run(folder, &["status", "--json", "--control", &control("publisher")]);
            let status = lines(&status.stdout).remove(0);
            let faces = status["faces"].as_array().unwrap().clone();
            let up = faces
                .iter()
                .filter(|face| face["up"] == true)
                .map(|face| face["neighbour"].as_str().unwrap().to_string());
            let mut up = up.collect::<Vec<_>>();
            up.sort();
            up
        };
        let lists = |label: &str| {
            let listed = run(folder, &["ls", "/lab", "--json", "--control", &control(label), "--timeout", "1s"]);
            lines(&listed.stdout).iter().any(|line| line["name"] == "/lab/big")
        };
        let log = folder.join("log");
        let notices = || std::fs::read_to_string(&log).unwrap();
        let stderr = std::fs::File::create(&log).unwrap();
        let node =
            trib(folder).args(["node", "--config"]).arg(&path).stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
        let node = Begun(node);
        until("the first router", || lists("a") && up() == ["a"]);
        for (neighbours, labels, stated) in [
            (&[a, b][..], &["a", "b"][..], format!("127.0.0.1:{b} is a neighbour")),
            (&[b], &["b"], format!("127.0.0.1:{a} is no longer a neighbour")),
        ] {
            write(neighbours);
            node.signal("HUP");
            until("the routers of the new config", || up() == labels);
            assert!(notices().contains(&stated), "{family}: {}", notices());
        }
        until("the name at the other router", || lists("b"));
        node.signal("TERM");
        assert_eq!(node.wait(), Some(0), "{}", notices());
    }
}

#[test]
fn a_command_that_only_some_families_have_says_so_in_its_help() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let families = ["psi", "ndn", "mf"];
    let daemons = families.map(|family| {
        let path = config(folder, family, r#""router", "sender", "receiver""#, 0, &format!("family = \"{family}\"\n"));
        Daemon::start(folder, &path)
    });
    let small = folder.join("small");
    std::fs::write(&small, "small").unwrap();
    let help = String::from_utf8(run(folder, &["--help"]).stdout).unwrap();
    // Each command has a separate line, and a long one further lines with the same indentation below it.
    let about = |command: &str| {
        let at = help.find(&format!("\n  {command} ")).unwrap_or_else(|| panic!("{command} is not in the help"));
        let lines = help[at + 1..].lines();
        let more = lines.clone().skip(1).take_while(|line| line.starts_with("        "));
        lines.take(1).chain(more).map(str::trim).collect::<Vec<_>>().join(" ")
    };
    let guid = "00".repeat(20);
    let (small, guid) = (small.to_str().unwrap(), guid.as_str());
    for words in [
        &["put", small, "/small"][..],
        &["get", "/small", "-o", "/dev/null", "--timeout", "10ms"],
        &["ls", "/", "--timeout", "10ms"],
        &["rm", "/small"],
        &["status"],
        &["paths", "/small"],
        &["explain", "/small"],
        &["cache"],
        &["cancel", "transfer-1"],
        &["limit", "none"],
        &["ping", "/small", "--count", "1", "--timeout", "10ms"],
        &["traceroute", "/small", "--max-hops", "1", "--timeout", "10ms"],
        &["send", small, "/small", "--to", "/nobody", "--timeout", "10ms"],
        &["recv", "--timeout", "10ms"],
        &["attach", "/a"],
        &["detach", "/a"],
        &["readers", "/a", "--only", guid],
        &["store"],
    ] {
        let own = String::from_utf8(run(folder, &[words[0], "--help"]).stdout).unwrap();
        let own = own.split_whitespace().collect::<Vec<_>>().join(" ");
        for (family, _) in families.iter().zip(&daemons) {
            let control = folder.join(family).join("control.sock");
            let requested = run(folder, &[words, &["--control", control.to_str().unwrap()]].concat());
            let notices = talk(&requested);
            let is_refused =
                notices.contains(&format!("nodes of the family '{family}'")) || notices.contains("has no listing");
            let about = about(words[0]);
            let has = about.split_once("(famil").is_none_or(|(_, families)| families.contains(family));
            assert_eq!(is_refused, !has, "{family}: {about}: {}", talk(&requested));
            let says = about.split_once("(famil").map_or("", |(_, families)| families);
            assert!(own.contains(says), "{own}");
        }
    }
    assert!(about("http-proxy").contains("(family mf)"), "{help}");
}

#[test]
fn what_is_not_there_is_told_alike_in_every_family_with_what_to_try_there() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (family, roles, try_this) in [
        ("psi", r#""router", "resolver", "topology-manager", "receiver""#, "`trib ls`"),
        ("ndn", r#""router", "receiver""#, "[[face]]"),
        ("mf", r#""router", "resolver", "receiver""#, "`trib ls`"),
    ] {
        let node = Daemon::start(folder, &config(folder, family, roles, 0, &format!("family = \"{family}\"\n")));
        let control = folder.join(family).join("control.sock");
        let ask = |words: &[&str]| {
            let requested = run(folder, &[words, &["--control", control.to_str().unwrap(), "--json"]].concat());
            assert_eq!(common::class(requested.status.code()), Some(1), "{family} {words:?}: {}", talk(&requested));
            lines(&requested.stdout).pop().unwrap()
        };
        let got = ask(&["get", "/lab/none", "-o", "/dev/null", "--timeout", "300ms"]);
        let (message, hint) = (got["message"].as_str().unwrap(), got["hint"].as_str().unwrap());
        assert!(
            message.contains("'/lab/none': no publisher answered within 300ms") && hint.contains(try_this),
            "{family}: {got}"
        );
        assert_eq!(message.matches("/lab/none").count(), 1, "{family}: {message}");
        let listed = ask(&["ls", "/lab/none", "--timeout", "300ms"]);
        let message = listed["message"].as_str().unwrap();
        let expected = if family == "ndn" { "NDN has no listing of names" } else { "nothing is known below it" };
        assert!(listed["event"] == "error" && message.contains(expected), "{family}: {listed}");
        assert_eq!(node.stop(), Some(0), "{family}");
    }
}

#[test]
fn the_wait_for_a_neighbour_is_part_of_the_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // It receives packets and never answers.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let small = folder.join("small");
    std::fs::write(&small, "small").unwrap();
    let small = small.to_str().unwrap();
    for (family, words) in [
        ("psi", &["get", "/lab/none", "-o", "-"][..]),
        ("psi", &["ls", "/lab"]),
        ("mf", &["send", small, "/lab/small", "--to", "/lab/all"]),
    ] {
        let more = format!("family = \"{family}\"\n[[face]]\npeer = \"{}\"\n", silent.local_addr().unwrap());
        let config = config(folder, family, r#""sender", "receiver""#, 0, &more);
        let requested = run(folder, &[words, &["--timeout", "300ms", "--config", config.to_str().unwrap()]].concat());
        assert_eq!(common::class(requested.status.code()), Some(1), "{words:?}: {}", talk(&requested));
        assert!(
            talk(&requested).contains("within 300ms no neighbour answers: face-1 to 127.0.0.1:"),
            "{}",
            talk(&requested)
        );
        assert!(talk(&requested).contains("error: no neighbour answered in time"), "{}", talk(&requested));
    }
}

#[test]
fn a_publisher_in_the_foreground_that_is_interrupted_has_done_what_it_should() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let original = file(folder);
    let (_router, publisher, hub) = network(folder);
    assert_eq!(publisher.stop(), Some(0));
    let to_hub = format!("[[face]]\npeer = \"127.0.0.1:{hub}\"\n");
    let config = config(folder, "publisher", r#""sender""#, 0, &to_hub);
    let words = ["put", original.to_str().unwrap(), "/lab/big", "--config", config.to_str().unwrap(), "--json"];
    let (put, notices, _stdout) = begin(folder, &words);
    assert_eq!((&notices["event"], &notices["confirmed"]), (&"published".into(), &true.into()));
    put.signal("INT");
    assert_eq!(put.wait(), Some(0));
}

#[test]
fn a_neighbour_is_told_by_its_address_before_it_is_known_and_by_its_id_when_it_falls_silent() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let hub = port();
    let to_hub = format!("[[face]]\npeer = \"127.0.0.1:{hub}\"\n");
    let _host = Daemon::start(folder, &config(folder, "host", r#""receiver""#, 0, &to_hub));
    let control = folder.join("host/control.sock");
    let status = || lines(&run(folder, &["status", "--json", "--control", control.to_str().unwrap()]).stdout).remove(0);
    assert_eq!(status()["faces"][0]["neighbour"], format!("127.0.0.1:{hub}"));
    let router = r#""router", "resolver", "topology-manager""#;
    let router = Daemon::start(folder, &config(folder, "router", router, hub, ""));
    until("the neighbour", || status()["faces"][0]["neighbour"] == "router");
    drop(router);
    let is_reported = |notices: &serde_json::Value, words: &str| {
        let notes = notices["notes"].as_array().unwrap();
        notes.iter().any(|note| note.as_str().is_some_and(|note| note.contains(words)))
    };
    until("its silence", || is_reported(&status(), " no longer answers"));
    assert!(!is_reported(&status(), "neighbour 0000000000000000"), "{}", status()["notes"]);
}

#[test]
fn a_level_that_is_fetched_is_told_with_what_is_below_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let small = folder.join("small");
    std::fs::write(&small, "small").unwrap();
    for (family, roles) in [
        ("psi", r#""router", "resolver", "topology-manager", "sender", "receiver""#),
        ("mf", r#""router", "resolver", "sender", "receiver""#),
    ] {
        let _node = Daemon::start(folder, &config(folder, family, roles, 0, &format!("family = \"{family}\"\n")));
        let control = folder.join(family).join("control.sock");
        let ask = |words: &[&str]| run(folder, &[words, &["--control", control.to_str().unwrap()]].concat());
        let put = ask(&["put", small.to_str().unwrap(), "/demo/small"]);
        assert_eq!(put.status.code(), Some(0), "{family}: {}", talk(&put));
        // It is not waited for to its end.
        let got = ask(&["get", "/demo", "-o", "-", "--timeout", "1h"]);
        assert_eq!(common::class(got.status.code()), Some(1), "{family}: {}", talk(&got));
        let notices =
            "cannot fetch '/demo': it is a level above other names, such as /demo/small\n  hint: `trib ls /demo` lists";
        assert!(talk(&got).contains(notices), "{family}: {}", talk(&got));
    }
}

#[test]
fn a_busy_port_is_told_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let config = config(folder, "late", r#""router""#, taken.local_addr().unwrap().port(), "");
    let node = run(folder, &["node", "--config", config.to_str().unwrap()]);
    assert_eq!(common::class(node.status.code()), Some(2));
    assert!(talk(&node).contains("address already in use") && talk(&node).contains("hint: "), "{}", talk(&node));
}

/// Runs the demo of a family with 9 MB; returns its last line. It leaves nothing behind.
fn demo(family: &str) -> serde_json::Value {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let demo = ["demo", "--family", family, "--json", "--size", "9MB"];
    let demo = trib(folder.path()).args(demo).env("TMPDIR", &temporary).output().unwrap();
    assert_eq!(demo.status.code(), Some(0), "{family}: {}", talk(&demo));
    let done = lines(&demo.stdout).pop().unwrap();
    assert_eq!((&done["event"], &done["verified"], &done["bytes"]), (&"done".into(), &true.into(), &9_000_000.into()));
    assert!(done["fluid_seconds"].as_f64().unwrap() > 1.0, "{family}: {done}");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    done
}

#[test]
fn the_demos_of_psi_and_ndn_show_a_verified_fetch_from_all_sources_and_leave_nothing_behind() {
    for family in ["psi", "ndn"] {
        let done = demo(family);
        assert_eq!(done["sources"].as_array().unwrap().len(), 3, "{family}: {done}");
        assert!(done["paths"].as_array().unwrap().len() >= 4, "{family}: {done}");
    }
}

#[test]
fn the_demo_of_mobilityfirst_keeps_what_it_stored_over_the_router_s_kill_and_leaves_nothing_behind() {
    let done = demo("mf");
    // It compares the stored chunks at the kill with those afterwards, and fails if any is missing.
    let kept = ["stored_chunks", "restored_chunks", "delivered_from_store"].map(|key| done[key].as_u64());
    assert!(kept.iter().all(|chunks| *chunks > Some(0)), "{done}");
}

#[test]
fn a_demo_larger_than_the_disk_is_refused_before_anything_is_written() {
    for family in ["psi", "ndn", "mf"] {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("kept");
        let demo = run(
            folder.path(),
            &[
                "demo",
                "--family",
                family,
                "--size",
                "1000000TB",
                "--evil",
                "imposter",
                "--keep",
                kept.to_str().unwrap(),
            ],
        );
        assert_eq!(common::class(demo.status.code()), Some(2), "{family}: {}", talk(&demo));
        let notices = format!("cannot reserve space for '{}': it needs ", kept.join("original").display());
        assert!(talk(&demo).contains(&notices), "{family}: {}", talk(&demo));
        assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 0);
    }
}

#[test]
fn a_state_folder_belongs_to_one_process_until_that_has_ended_or_was_killed() {
    for family in ["psi", "ndn", "mf"] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let roles =
            if family == "psi" { r#""router", "resolver", "topology-manager""# } else { r#""router", "sender""# };
        let path = config(folder, "node", roles, 0, &format!("family = \"{family}\"\n"));
        let config = path.to_str().unwrap();
        let first = Daemon::start(folder, &path);
        let state = folder.join("node").display().to_string();
        let control = format!("{state}/control.sock");
        let second = run(folder, &["node", "--config", config]);
        let notices = talk(&second);
        assert_eq!(common::class(second.status.code()), Some(2), "{family}: {notices}");
        let by = format!("'{state}' of the node 'node' is in use by process {}", first.process());
        assert!(notices.contains(&by) && notices.contains(&format!("--control {control}")), "{notices}");
        // A command without a node of its own uses the running one, which may not be able to serve it.
        let second = run(folder, &["get", "/lab/none", "--config", config, "-o", "-"]);
        let notices = talk(&second);
        assert_eq!(common::class(second.status.code()), Some(2), "{family}: {notices}");
        assert!(notices.contains("the node 'node' runs already and does the work"), "{notices}");
        assert!(notices.contains("does not have the role receiver"), "{notices}");
        let status = run(folder, &["status", "--control", &control]);
        assert_eq!(status.status.code(), Some(0), "{}", talk(&status));
        drop(first);
        assert_eq!(Daemon::start(folder, &path).stop(), Some(0), "{family}: after a kill");
        assert_eq!(Daemon::start(folder, &path).stop(), Some(0), "{family}: after an end in order");
    }
}

//! The walk-throughs of `README.md` on three machines: network namespaces on one bridge, with the files of `examples/` as
//! they are. Making namespaces needs root and `ip`; without them the tests say that they are skipped.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "real daemons take the time that they take")]
#[path = "common/machines.rs"]
mod machines;

use machines::{Net, block, is_allowed};
use std::fs;

/// The lines of the block that follows a sentence of `README.md`, with what stands for the reader's own things filled in.
fn walk(sentence: &str, router: &str) -> Vec<String> {
    let lines = block(sentence);
    lines.iter().map(|line| line.replace("ROUTER", router).replace("SOME_FILE", "original")).collect()
}

#[test]
fn a_file_is_published_and_fetched_on_three_machines_as_the_readme_says() {
    if !is_allowed("the walk-through of PSI on three machines") {
        return;
    }
    let net = Net::new("psi");
    let [router, publisher, receiver] = net.machines(["router", "publisher", "receiver"]);
    // By its name, by its address, and by one of an interface behind the one that the others are at.
    for (round, name) in ["router.lan", router.address(), "10.88.0.1"].into_iter().enumerate() {
        let lines = walk("Or three machines", name);
        assert_eq!(lines.len(), 3, "{lines:?}");
        let _router = router.begin(&lines[0], "listens on");
        let _publisher = publisher.begin(&lines[1], "published '/demo/big'");
        let told = receiver.run(&lines[2]);
        assert!(told.contains("every byte verified"), "{name}: {told}");
        let same = fs::read(receiver.path("copy")).unwrap() == fs::read(publisher.path("original")).unwrap();
        assert!(same, "{name}");
        fs::remove_file(receiver.path("copy")).unwrap();
        if round == 0 {
            // What follows in README: the router is asked, and a receiver that stays.
            let asked = walk("a receiver that stays tells", name);
            assert!(router.run(&asked[0]).contains("/demo/big"));
            assert!(router.run(&asked[1]).contains("publisher"));
            let _stays = receiver.begin(&format!("{} --peer {name}", asked[2]), "listens on");
            receiver.run(&asked[3]);
            assert!(receiver.run(&asked[4]).contains("'/demo/big' over 1 path"));
            receiver.run(&asked[5]);
            receiver.until("ls; trib follow /demo/big; cmp copy3 copy2 && echo same", "same");
            fs::remove_file(receiver.path("copy2")).unwrap();
        }
    }
}

#[test]
fn a_file_is_published_and_fetched_on_one_machine_as_the_readme_says() {
    if !is_allowed("the walk-through on one machine") {
        return;
    }
    let net = Net::new("one");
    let [machine] = net.machines(["router"]);
    let lines = walk("Three terminals on one machine", "");
    assert_eq!(lines.len(), 3, "{lines:?}");
    let _router = machine.begin(&lines[0], "listens on");
    let _publisher = machine.begin(&lines[1], "published '/demo/big'");
    assert!(machine.run(&lines[2]).contains("every byte verified"));
}

#[test]
fn an_ndn_file_is_published_and_fetched_on_three_machines_as_the_example_says() {
    if !is_allowed("the walk-through of NDN on three machines") {
        return;
    }
    let net = Net::new("ndn");
    let [router, publisher, receiver] = net.machines(["router", "publisher", "receiver"]);
    let lines = machines::numbered("examples/ndn-router.toml");
    assert_eq!(lines.len(), 3, "{lines:?}");
    let lines: Vec<_> = lines.iter().map(|line| line.replace("SOME_FILE", "original")).collect();
    for name in ["router.lan", "10.88.0.1"] {
        let _router = router.begin(&lines[0], "listens on");
        let _publisher = publisher.begin(&format!("{} --peer {name}", lines[1]), "published '/demo/big'");
        let told = receiver.run(&format!("{} --peer {name}", lines[2]));
        assert!(told.contains("every byte verified"), "{name}: {told}");
        fs::remove_file(receiver.path("copy")).unwrap();
    }
    assert!(!router.path(".local/state/tributary/ndn-router/ndn.sock").exists(), "it goes with its node");
}

#[test]
fn a_reading_is_sent_on_three_machines_as_the_readme_says() {
    if !is_allowed("the walk-through of MobilityFirst on three machines") {
        return;
    }
    let net = Net::new("mf");
    let [router, sender, phone] = net.machines(["router", "publisher", "receiver"]);
    for name in ["router.lan", "10.88.0.1"] {
        let lines = walk("on machines of their own", name);
        assert_eq!(lines.len(), 3, "{lines:?}");
        let _router = router.begin(&lines[0], "listens on");
        let phone_at = format!("export TRIB_PEER={name}; {}", lines[1]);
        let taking = phone.begin(&phone_at, "takes what is sent to");
        let told = sender.run(&format!("export TRIB_PEER={name}; {}", lines[2]));
        assert!(told.contains("the receiver has verified every byte"), "{name}: {told}");
        taking.wait_for("21.5");
        drop(taking);
    }
}

#[test]
fn a_neighbour_on_the_same_link_is_reached_by_its_zone() {
    if !is_allowed("a peer with a zone") {
        return;
    }
    let net = Net::new("zone");
    let [router, publisher] = net.machines(["router", "publisher"]);
    router.run("sed -i 's/^listen = .*/listen = [\"[::]:7001\"]/' examples/router.toml");
    publisher.run("sed -i 's/^listen = .*/listen = [\"0.0.0.0:0\", \"[::]:0\"]/' examples/publisher.toml");
    let _router = router.begin("trib node --config examples/router.toml", "listens on");
    let peer = format!("{}%eth0", router.link_local());
    let put = format!("trib put original /demo/big --config examples/publisher.toml --peer {peer}");
    let _publisher = publisher.begin(&put, "published '/demo/big'");
}

#[test]
fn a_router_that_moves_is_found_again_by_its_name() {
    if !is_allowed("a router whose name gets another address") {
        return;
    }
    let net = Net::new("moves");
    let [router, publisher] = net.machines(["router", "publisher"]);
    publisher.hosts("10.77.0.250 router.lan");
    let _router = router.begin("trib node --config examples/router.toml", "listens on");
    let stays = "trib node --config examples/publisher.toml --peer router.lan";
    let _publisher = publisher.begin(stays, "listens on");
    publisher.until("trib status --control publisher", "router.lan:7001 (10.77.0.250:7001)  silent");
    publisher.hosts("10.77.0.1 router.lan");
    publisher.until("trib status --control publisher", "face-1  router     up");
}

#[test]
fn a_node_that_starts_before_its_network_says_so_and_goes_on_once_it_is_there() {
    if !is_allowed("a node that starts before its network") {
        return;
    }
    let net = Net::new("early");
    let [router, publisher] = net.machines(["router", "publisher"]);
    publisher.run("ip link set eth0 down");
    let _router = router.begin("trib node --config examples/router.toml", "listens on");
    let begun = publisher.begin("trib node --config examples/publisher.toml --peer 10.77.0.1", "listens on");
    begun.wait_for("cannot send to 10.77.0.1:7001: Network is unreachable (no route leads there; is the network up?)");
    let status = publisher.run("trib status --control publisher");
    assert!(status.contains("face-1: cannot send to 10.77.0.1:7001"), "{status}");
    publisher.run("ip link set eth0 up");
    publisher.until("trib status --control publisher", "face-1  router     up");
    assert_eq!(begun.told().matches("cannot send to").count(), 1, "{}", begun.told());
}

#[test]
fn a_file_that_cannot_work_is_named_by_config_check_with_its_line() {
    if !is_allowed("config check on a machine with addresses of its own") {
        return;
    }
    let net = Net::new("check");
    let [router, publisher] = net.machines(["router", "publisher"]);
    publisher.run(
        "sed -i -e 's/0.0.0.0:0/127.0.0.1:0/' -e 's/^peer = .*/peer = \"10.77.0.1:7001\"/' examples/publisher.toml",
    );
    let (code, told) = publisher.try_run("trib config check examples/publisher.toml");
    assert!(code == Some(2) && told.contains("10.77.0.1:7001 is on another machine"), "{told}");
    router.run("sed -i 's/^\\[psi\\]/[[face]]\\npeer = \"10.88.0.1:7001\"\\n[psi]/' examples/router.toml");
    let (code, told) = router.try_run("trib config check examples/router.toml");
    assert!(code == Some(2) && told.contains("10.88.0.1:7001 is this node itself"), "{told}");
}

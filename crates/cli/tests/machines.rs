//! The walk-throughs of `README.md` and of the book's guides on several machines: network namespaces on one bridge, with the files of `examples/` as
//! they are. Making namespaces needs root and `ip`; without them the tests say that they are skipped.

use std::fs;

use crate::common::machines::{Machine, Net, block, blocks, is_allowed, must_be_as_the_sample, numbered, shown};

const README: &str = "README.md";
const DAEMONS: &str = "docs/guide/daemons.md";
const MOBILE: &str = "docs/guide/mobilityfirst.md";
const UPLINKS: &str = "docs/guide/uplinks.md";
const MIRRORS: &str = "docs/guide/mirrors.md";
const ENGINES: &str = "docs/guide/engines.md";

/// The lines of the block after a sentence, with the reader's own values filled in.
fn walk(document: &str, sentence: &str, router: &str) -> Vec<String> {
    let lines = block(document, sentence);
    lines.iter().map(|line| line.replace("ROUTER", router).replace("SOME_FILE", "original")).collect()
}

/// The blocks of commands of the README and the guides, by their first line: the test that runs each, or why none does.
const BLOCKS: &[(&str, &str)] = &[
    ("sudo cp examples/ndn-system.toml", "not run: needs systemd and the tools of NFD"),
    ("trib face create udp4://192.0.2.1:6363", "not run: the neighbour is an example; `forwarding.rs` runs the like"),
    ("trib gateway --site open", "ten_machines_are_a_site_by_one_command_as_the_guide_says"),
    ("./setup", "not run: it installs a compiler, and every run of the tests begins with it"),
    ("cargo run --release -- demo", "the_demo_prints_what_the_readme_shows"),
    (
        "trib node --config examples/router.toml                              #",
        "a_file_is_published_and_fetched_on_one_machine_as_the_readme_says",
    ),
    (
        "trib node --config examples/router.toml                                            #",
        "a_file_is_published_and_fetched_on_three_machines_as_the_readme_says",
    ),
    ("trib get https://a.example.org/x.iso", "not run: these web servers do not exist; `web.rs` runs the like"),
    (
        "trib node --config examples/mobile-router.toml                                     #",
        "a_reading_is_sent_on_three_machines_as_the_guide_says",
    ),
    ("cargo build --release -p trib-lab", "not run: builds; `crates/lab/tests/program.rs` runs the scenarios"),
    ("./.ci/test", "not run: it runs this test"),
    ("curl http://127.0.0.1:8080/api/v1/status", "not run: the address is an example; `api.rs` asks the like"),
    ("trib demo --http", "not run: serves until it is interrupted; `dashboard.rs` opens the page"),
    ("curl -H \"Authorization: Bearer", "not run: the host is an example; `api.rs` asks the like"),
    ("trib ls /demo --control router", "a_file_is_published_and_fetched_on_three_machines_as_the_readme_says"),
    ("trib get /a /b /c --detach", "not run: the names are examples; `queue.rs` runs the like"),
    ("etcd --name a", "names_are_kept_in_three_members_of_etcd_as_the_guide_says"),
    ("trib node --config one.toml", "names_are_kept_in_three_members_of_etcd_as_the_guide_says"),
    ("trib ls /demo --config examples/mobile-host.toml", "names_are_kept_in_three_members_of_etcd_as_the_guide_says"),
    (
        "trib node --config examples/mobile-router.toml\ntrib http-proxy",
        "not run: needs a web server on port 80; `http` has its own tests",
    ),
    ("uci set tributary", "not run: needs OpenWrt; `packaging/openwrt/try` runs the service with stand-ins"),
    ("cp /usr/share/doc/tributary", "not run: needs systemd; `packaging/try-deb` carries out the unit"),
    ("trib doctor  ", "the_keys_and_the_doctor_of_the_guides_run"),
    ("trib get /lab/disk.iso --on-done", "not run: the name is an example; `queue.rs` runs hooks"),
    ("podman run", "not run: `packaging/container/try` runs the image"),
    ("trib lab list", "not run: the experiment takes minutes; `crates/lab/tests` runs experiments"),
    ("trib lab report", "not run: it takes hours"),
    (
        "trib get 'trib:/lab/images/debian.iso?publisher=KEY' --serve",
        "not run: the name is an example; `serve.rs` runs the like",
    ),
    ("trib get /lab/images/doc ", "not run: the names are examples; `folders.rs` runs the like"),
    ("trib put notes.txt", "not run: they go on until they are ended; `versions.rs` runs the like"),
    ("trib key new lab.key", "mirrors_are_used_at_once_as_the_guide_says"),
    ("trib node --config examples/router.toml      # on the router", "mirrors_are_used_at_once_as_the_guide_says"),
    ("trib get /lab/images/debian.iso --config examples/receiver.toml", "mirrors_are_used_at_once_as_the_guide_says"),
    ("trib get https://a.example.org/debian.iso", "not run: these web servers do not exist; `web.rs` runs the like"),
    ("AWS_ENDPOINT_URL", "not run: this store does not exist; `web.rs` runs the like"),
    (
        "trib put debian.iso /lab/images/debian.iso --mirror",
        "not run: this web server does not exist; `web.rs` runs the like",
    ),
    ("trib get /lab/images/debian.iso --mirror", "not run: this web server does not exist; `web.rs` runs the like"),
    (
        "trib node --config examples/mobile-router.toml\ntrib recv",
        "a_reading_is_sent_on_three_machines_as_the_guide_says",
    ),
    ("trib send SOME_FILE /lab/film --to GUID", "what_is_sent_to_a_device_that_is_away_reaches_it_as_the_guide_says"),
    ("trib store extend", "what_is_sent_to_a_device_that_is_away_reaches_it_as_the_guide_says"),
    (
        "trib recv --config examples/mobile-host.toml --attach /lab/all",
        "a_file_reaches_all_that_are_attached_to_a_name_as_the_guide_says",
    ),
    (
        "trib node --config examples/ndn-router.toml",
        "not run: `ndn_interop.rs` runs the like with ndnd, on other ports",
    ),
    ("trib ndn-key new /lab ", "the_keys_and_the_doctor_of_the_guides_run"),
    ("trib put report.pdf", "not run: the keys are examples; `sealed.rs` runs the like"),
    ("trib get /lab/report --config", "not run: the name is an example; `sealed.rs` runs the like"),
    ("trib sim two-links.toml", "not run here: `crates/lab/tests/program.rs` runs it"),
    ("trib node --config examples/router.toml\n", "two_uplinks_of_a_receiver_are_used_at_once_as_the_guide_says"),
    ("trib put SOME_FILE /demo/big --config", "two_uplinks_of_a_receiver_are_used_at_once_as_the_guide_says"),
    ("trib get /demo/big --config uplinks.toml", "two_uplinks_of_a_receiver_are_used_at_once_as_the_guide_says"),
    ("trib node --config uplinks.toml", "two_uplinks_of_a_receiver_are_used_at_once_as_the_guide_says"),
];

#[test]
fn every_block_of_commands_in_readme_and_guides_is_run_or_says_why_not() {
    let guides = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide");
    let guides = fs::read_dir(guides).expect("the guides").map(|entry| entry.expect("readable").file_name());
    let guides = guides.map(|name| format!("docs/guide/{}", name.to_string_lossy()));
    for document in guides.filter(|name| name.ends_with(".md")).chain([README.into()]) {
        for block in blocks(&document) {
            let found = BLOCKS.iter().find(|(first, _)| block.starts_with(first));
            let (_, how) =
                found.unwrap_or_else(|| panic!("{document}: no test runs this, and no reason is given:\n{block}"));
            let is_test = include_str!("machines.rs").contains(&format!("fn {how}() {{"));
            assert!(how.starts_with("not run") || is_test, "there is no test '{how}'");
        }
    }
}

#[test]
fn the_demo_prints_what_the_readme_shows() {
    if !is_allowed("the demo on a machine of its own") {
        return;
    }
    let net = Net::new("demo");
    let [machine] = net.machines(["router"]);
    let printed = machine.run("trib demo");
    must_be_as_the_sample(README, "The demo starts the network", &printed);
}

/// Ten machines on a segment run the guide's command: they find each other, and the origin sends one copy.
#[test]
fn ten_machines_are_a_site_by_one_command_as_the_guide_says() {
    if !is_allowed("a site of ten machines") {
        return;
    }
    let net = Net::new("site");
    let all = net.machines(["origin", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]);
    all.iter().for_each(|machine| machine.hosts("10.77.0.1 origin.lan"));
    let (origin, members) = all.split_first().unwrap();
    let serving = origin.begin("python3 -u -m http.server 8000", "Serving HTTP");
    let lines = block("docs/guide/origins.md", "one command on each machine");
    #[expect(clippy::disallowed_methods, reason = "the time is printed")]
    let begun = std::time::Instant::now();
    let gateways: Vec<_> = members.iter().map(|machine| machine.begin(&lines[0], "serves objects on")).collect();
    let metrics = "curl -s http://127.0.0.1:8080/metrics";
    members.iter().for_each(|machine| machine.until(metrics, "tributary_site_members{family=\"ndn\"} 9"));
    eprintln!("ten members after {:?}", begun.elapsed());
    std::thread::scope(|scope| {
        for machine in members {
            scope.spawn(|| machine.run(&lines[1]));
        }
    });
    let original = fs::read(origin.path("original")).unwrap();
    assert!(members.iter().all(|machine| fs::read(machine.path("copy")).unwrap() == original));
    let asked = serving.printed().matches("\"GET /original HTTP/1.1\" 200").count();
    assert_eq!(asked, 1, "{}", serving.printed());
    drop(gateways);
}

/// A host name with the addresses of all members, as of a headless service: a new address is found while they run.
#[test]
fn a_host_name_names_the_members_of_a_site_and_is_looked_up_again() {
    if !is_allowed("a site by a host name") {
        return;
    }
    let net = Net::new("name");
    let [a, b, c] = net.machines(["a", "b", "c"]);
    let text = "[node]\nlabel = \"member\"\nfamily = \"ndn\"\nroles = [\"sender\", \"receiver\"]\n\
        listen = [\"0.0.0.0:7001\"]\n[http]\nlisten = \"127.0.0.1:8080\"\n\
        [site]\naccess = \"open\"\ndiscovery = false\npeers = [\"site.lan:7001\"]\n";
    let (first, second, third) = ("10.77.0.1 site.lan", "10.77.0.2 site.lan", "10.77.0.3 site.lan");
    [&a, &b].iter().for_each(|machine| machine.hosts(&format!("{first}\n{second}")));
    c.hosts(third);
    let start = |machine: &Machine| {
        fs::write(machine.path("node.toml"), text).unwrap();
        machine.begin("trib gateway --config node.toml", "serves objects on")
    };
    let _gateways = [start(&a), start(&b), start(&c)];
    let has = |machine: &Machine, members: u32| {
        let says = format!("tributary_site_members{{family=\"ndn\"}} {members}");
        machine.until("curl -s http://127.0.0.1:8080/metrics", &says);
    };
    [(&a, 1), (&b, 1), (&c, 0)].iter().for_each(|(machine, members)| has(machine, *members));
    a.hosts(&format!("{first}\n{second}\n{third}"));
    [&a, &b, &c].iter().for_each(|machine| has(machine, 2));
}

#[test]
fn the_keys_and_the_doctor_of_the_guides_run() {
    if !is_allowed("keys and doctor on a machine of its own") {
        return;
    }
    let net = Net::new("keys");
    let [machine] = net.machines(["router"]);
    for line in block("docs/guide/ndn.md", "## Certificates and trust anchors") {
        machine.run(&line);
    }
    let _router = machine.begin("trib node --config examples/router.toml", "listens on");
    machine.run("trib doctor");
}

#[test]
fn a_file_is_published_and_fetched_on_three_machines_as_the_readme_says() {
    if !is_allowed("the walk-through of PSI on three machines") {
        return;
    }
    let net = Net::new("psi");
    let [router, publisher, receiver] = net.machines(["router", "publisher", "receiver"]);
    // By the line that it prints, its name, its address, and by one of an interface behind the one that the others are at.
    for (round, name) in ["", "router.lan", router.address(), "10.88.0.1"].into_iter().enumerate() {
        let started = router.begin(&walk(README, "Or three machines", name)[0], "--peer trib://");
        let printed = started.printed();
        let invitation = printed.split_whitespace().find(|word| word.starts_with("trib://")).unwrap();
        let name = if round == 0 { invitation } else { name };
        let lines = walk(README, "Or three machines", name);
        assert_eq!(lines.len(), 3, "{lines:?}");
        let _publisher = publisher.begin(&lines[1], "published '/demo/big'");
        let printed = receiver.run(&lines[2]);
        assert!(printed.contains("every byte verified"), "{name}: {printed}");
        let same = fs::read(receiver.path("copy")).unwrap() == fs::read(publisher.path("original")).unwrap();
        assert!(same, "{name}");
        fs::remove_file(receiver.path("copy")).unwrap();
        // The receiver has left, which is no problem.
        router.run("trib doctor");
        if round == 0 {
            // The guide to daemons: requests to the router, and a receiver that keeps running.
            let requested = walk(DAEMONS, "a receiver that stays", name);
            assert!(router.run(&requested[0]).contains("/demo/big"));
            assert!(router.run(&requested[1]).contains("publisher"));
            let _stays = receiver.begin(&format!("{} --peer {name}", requested[2]), "listens on");
            receiver.run(&requested[3]);
            assert!(receiver.run(&requested[4]).contains("'/demo/big' over 1 path"));
            receiver.run(&requested[5]);
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
    let lines = walk(README, "Three terminals on one machine", "");
    assert_eq!(lines.len(), 3, "{lines:?}");
    let _router = machine.begin(&lines[0], "listens on");
    let _publisher = machine.begin(&lines[1], "published '/demo/big'");
    assert!(machine.run(&lines[2]).contains("every byte verified"));
}

#[test]
fn a_file_comes_from_two_web_mirrors_over_two_network_devices() {
    if !is_allowed("web mirrors over two network devices") {
        return;
    }
    let net = Net::new("web");
    let [server, receiver] = net.machines(["router", "receiver"]);
    net.second_uplink(&receiver, &server);
    let at = server.path("");
    let at = at.display();
    // Slow enough for every connection to have its part.
    let config = format!(
        "daemon off; master_process off; pid {at}/pid; error_log stderr; events {{}}\n\
         http {{ access_log off; client_body_temp_path {at}/b; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f;\n\
         uwsgi_temp_path {at}/u; scgi_temp_path {at}/s; root {at}; limit_rate 1m;\n\
         server {{ listen 10.88.0.1:8080; }} server {{ listen 10.88.0.1:8081; }} }}\n"
    );
    fs::write(server.path("nginx.conf"), config).unwrap();
    let _nginx = server.begin("export PATH=$PATH:/usr/sbin; echo serves; nginx -p $PWD -c $PWD/nginx.conf", "serves");
    receiver.until("true; curl -s -r 0-0 http://10.88.0.1:8081/original -o /dev/null && echo answers", "answers");
    let printed = receiver.run(
        "trib get http://10.88.0.1:8080/original --mirror http://10.88.0.1:8081/original --interface eth0 --interface eth1 \
         -o copy",
    );
    for flow in ["eth0>10.88.0.1:8080", "eth0>10.88.0.1:8081", "eth1>10.88.0.1:8080", "eth1>10.88.0.1:8081"] {
        let line = printed.lines().find(|line| line.trim_end().ends_with(flow));
        assert!(line.is_some_and(|line| !line.contains(" 0 B ")), "{flow}: {printed}");
    }
    assert!(fs::read(receiver.path("copy")).unwrap() == fs::read(server.path("original")).unwrap());
}

#[test]
fn an_ndn_file_is_published_and_fetched_on_three_machines_as_the_example_says() {
    if !is_allowed("the walk-through of NDN on three machines") {
        return;
    }
    let net = Net::new("ndn");
    let [router, publisher, receiver] = net.machines(["router", "publisher", "receiver"]);
    let lines = numbered("examples/ndn-router.toml");
    assert_eq!(lines.len(), 3, "{lines:?}");
    let lines: Vec<_> = lines.iter().map(|line| line.replace("SOME_FILE", "original")).collect();
    for name in ["router.lan", "10.88.0.1"] {
        let _router = router.begin(&lines[0], "listens on");
        let _publisher = publisher.begin(&format!("{} --peer {name}", lines[1]), "published '/demo/big'");
        let printed = receiver.run(&format!("{} --peer {name}", lines[2]));
        assert!(printed.contains("every byte verified"), "{name}: {printed}");
        fs::remove_file(receiver.path("copy")).unwrap();
    }
    assert!(!router.path(".local/state/tributary/ndn-router/ndn.sock").exists(), "it goes with its node");
}

#[test]
fn a_reading_is_sent_on_three_machines_as_the_guide_says() {
    if !is_allowed("the walk-through of MobilityFirst on three machines") {
        return;
    }
    let net = Net::new("mf");
    let [router, sender, phone] = net.machines(["router", "publisher", "receiver"]);
    for name in ["router.lan", "10.88.0.1"] {
        let lines = walk(MOBILE, "on machines of their own", name);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines, walk(README, "### A message to a device", name), "README has the same lines");
        let _router = router.begin(&lines[0], "listens on");
        let phone_at = format!("export TRIB_PEER={name}; {}", lines[1]);
        let taking = phone.begin(&phone_at, "receives messages to");
        let printed = sender.run(&format!("export TRIB_PEER={name}; {}", lines[2]));
        assert!(printed.contains("the receiver has verified every byte"), "{name}: {printed}");
        taking.wait_for("21.5");
        drop(taking);
    }
}

#[test]
fn what_is_sent_to_a_device_that_is_away_reaches_it_as_the_guide_says() {
    if !is_allowed("the walk-through of a device that is away") {
        return;
    }
    let net = Net::new("away");
    let [router, sender, phone] = net.machines(["router", "publisher", "receiver"]);
    let set = "export TRIB_PEER=router.lan; ";
    let first = walk(MOBILE, "on machines of their own", "");
    let lines = walk(MOBILE, "End `trib recv`, send to the name or to its GUID", "");
    assert_eq!(lines.len(), 3, "{lines:?}");
    let _router = router.begin(&first[0], "listens on");
    let taking = phone.begin(&format!("{set}{}", first[1]), "receives messages to");
    let printed = taking.printed();
    let guid = printed.split_whitespace().find(|word| word.len() == 40 && word.bytes().all(|b| b.is_ascii_hexdigit()));
    let guid = guid.unwrap_or_else(|| panic!("no GUID: {printed}")).to_string();
    drop(taking);
    let printed = sender.run(&format!("{set}{}", lines[0].replace("GUID", &guid)));
    assert!(printed.contains("the network keeps it"), "{printed}");
    let stored = router.run(&lines[1]);
    assert!(stored.contains(&guid[..12]), "for whom: {stored}");
    for line in walk(MOBILE, "The owner of a router may decide otherwise", "") {
        router.run(&line.replace("GUID", &guid));
    }
    phone.run(&format!("{set}{}", lines[2]));
    let same = fs::read(phone.path("inbox/lab/film")).unwrap() == fs::read(sender.path("original")).unwrap();
    assert!(same, "the file came although its sender had gone");
}

#[test]
fn a_file_reaches_all_that_are_attached_to_a_name_as_the_guide_says() {
    if !is_allowed("the walk-through of one file to many") {
        return;
    }
    let net = Net::new("many");
    let [router, sender, one, other] = net.machines(["router", "publisher", "receiver", "second"]);
    let set = "export TRIB_PEER=router.lan; ";
    let lines = walk(MOBILE, "## One file to many", "");
    let _router = router.begin(&walk(MOBILE, "on machines of their own", "")[0], "listens on");
    other.run("sed -i 's/^label = .*/label = \"tablet\"/' examples/mobile-host.toml");
    let taking = [&one, &other].map(|device| device.begin(&format!("{set}{}", lines[0]), "receives messages to"));
    let printed = sender.run(&format!("{set}{}", lines[1]));
    for (device, taking) in [&one, &other].into_iter().zip(&taking) {
        taking.wait_for("/lab/film");
        assert!(
            fs::read(device.path("inbox/lab/film")).unwrap() == fs::read(sender.path("original")).unwrap(),
            "{printed}"
        );
    }
}

#[test]
fn two_uplinks_of_a_receiver_are_used_at_once_as_the_guide_says() {
    if !is_allowed("the walk-through of several uplinks") {
        return;
    }
    let net = Net::new("uplinks");
    let [router, publisher, receiver] = net.machines(["router", "publisher", "receiver"]);
    net.second_uplink(&receiver, &router);
    let name = "router.lan";
    let config =
        shown(UPLINKS, "uplinks.toml").replace("ROUTER", name).replace("eth0", "eth1").replace("wwan0", "eth0");
    fs::write(receiver.path("uplinks.toml"), config).unwrap();
    let _router = router.begin(&walk(UPLINKS, "On the router", name)[0], "listens on");
    let _publisher = publisher.begin(&walk(UPLINKS, "On the publisher", name)[0], "published '/demo/big'");
    let printed = receiver.run(&walk(UPLINKS, "binding may need root", name)[0]);
    assert!(printed.contains("every byte verified"), "{printed}");
    must_be_as_the_sample(UPLINKS, "The last lines say", &printed);
    let paths = printed.lines().filter(|line| line.trim_start().starts_with("path-") && line.contains("iB"));
    assert_eq!(paths.count(), 2, "bytes came over both: {printed}");
    let requested = walk(UPLINKS, "Start the receiver as a daemon", name);
    let _stays = receiver.begin(&requested[0], "listens on");
    receiver.run(&requested[1].replace("copy", "copy2"));
    assert!(receiver.run(&requested[2]).contains("'/demo/big' over 2 paths"));
    assert!(receiver.run(&requested[3]).contains("fetched '/demo/big'"));
}

#[test]
fn mirrors_are_used_at_once_as_the_guide_says() {
    if !is_allowed("the walk-through of mirrors") {
        return;
    }
    let net = Net::new("mirrors");
    let [router, north, south, receiver] = net.machines(["router", "publisher", "south", "receiver"]);
    let name = "router.lan";
    north.run(&walk(MIRRORS, "copy it to each mirror", name)[0]);
    let config = shown(MIRRORS, "mirror.toml").replace("ROUTER", name);
    fs::write(north.path("mirror.toml"), &config).unwrap();
    fs::write(south.path("mirror.toml"), config.replace("north", "south")).unwrap();
    fs::copy(north.path("lab.key"), south.path("lab.key")).unwrap();
    for mirror in [&north, &south] {
        fs::rename(mirror.path("original"), mirror.path("debian.iso")).unwrap();
    }
    let lines = walk(MIRRORS, "The mirrors' config", name);
    let _router = router.begin(&lines[0], "listens on");
    let _mirrors = [&north, &south].map(|mirror| mirror.begin(&lines[1], "'/lab/images/debian.iso'"));
    router.until("trib ls /lab/images --control router", "2 sources");
    let key = north.run("trib key show lab.key");
    let printed = receiver.run(&walk(MIRRORS, "On a receiver", name)[0].replace("KEY", key.trim()));
    assert!(
        printed.contains("every byte verified") && printed.contains("  north") && printed.contains("  south"),
        "{printed}"
    );
    must_be_as_the_sample(MIRRORS, "On a receiver; `KEY`", &printed);
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
    assert_eq!(begun.printed().matches("cannot send to").count(), 1, "{}", begun.printed());
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
    let (code, printed) = publisher.try_run("trib config check examples/publisher.toml");
    assert!(code == Some(2) && printed.contains("10.77.0.1:7001 is on another machine"), "{printed}");
    router.run("sed -i 's/^\\[psi\\]/[[face]]\\npeer = \"10.88.0.1:7001\"\\n[psi]/' examples/router.toml");
    let (code, printed) = router.try_run("trib config check examples/router.toml");
    assert!(code == Some(2) && printed.contains("10.88.0.1:7001 is this node itself"), "{printed}");
}

#[test]
fn names_are_kept_in_three_members_of_etcd_as_the_guide_says() {
    if !is_allowed("the walk-through of names in etcd") || !tributary_testkit::etcd::is_installed() {
        return;
    }
    let net = Net::new("etcd");
    let [machine] = net.machines(["router"]);
    for file in ["one.toml", "two.toml", "host.toml"] {
        fs::write(machine.path(file), shown(ENGINES, file)).unwrap();
    }
    let lines = block(ENGINES, "## Three members on one machine");
    assert_eq!(lines.len(), 3, "{lines:?}");
    // The one word that "etcd Version", "etcdVersion" and "etcd-version" have in common: releases write it differently.
    let mut members: Vec<_> = lines.iter().map(|line| machine.begin(line, "ersion")).collect();
    let lines = walk(ENGINES, "Start them and publish", "");
    assert_eq!(lines.len(), 5, "{lines:?}");
    let one = machine.begin(&lines[0], "listens on");
    let _two = machine.begin(&lines[1], "listens on");
    let _host = machine.begin(&lines[2], "published '/demo/big'");
    machine.until(&lines[3], "etcd, in use");
    machine.until(&lines[4], "/demo/big");
    drop(one);
    members.remove(0);
    let lines = block(ENGINES, "Now end `one`");
    machine.until(&lines[0], "/demo/big");
}

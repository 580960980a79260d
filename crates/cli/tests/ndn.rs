//! Nodes of the NDN family in typical use: the examples, on other ports.

use std::fs;

use crate::common::{self, Daemon, SIZE, example, file, lines, port, run, talk, trib};

#[test]
fn the_examples_publish_and_fetch_through_a_forwarder_over_every_kind_of_face() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (udp, tcp, websocket) = (port(), port(), port());
    let example = |name: &str| example(folder, name, udp, tcp, websocket);
    let original = file(folder);
    // Both ends of the UDP link between the forwarder and the receiver retransmit lost packets.
    let config = example("ndn-router.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}\n[ndn.faces]\nrate = \"1Gbps\"\nreliability = \"on\"\nmarking = \"codel\"\n"))
        .unwrap();
    let router = Daemon::start(folder, &config);
    let publisher = Daemon::start(folder, &example("ndn-publisher.toml"));
    let control = folder.join("ndn-publisher/control.sock");
    let put = ["put", original.to_str().unwrap(), "/lab/big", "--control", control.to_str().unwrap(), "--json"];
    let put = run(folder, &put);
    assert_eq!(put.status.code(), Some(0), "{}", talk(&put));
    assert_eq!(lines(&put.stdout)[0]["confirmed"], true, "the forwarder has confirmed the route: {put:?}");

    let receiver = fs::read_to_string(example("ndn-receiver.toml")).unwrap();
    let receiver = receiver.replace("routes = [\"/\"]", "RELIABILITYroutes = [\"/\"]");
    let over_udp = format!("127.0.0.1:{udp}");
    let addresses = [
        over_udp.clone(),
        format!("tcp://127.0.0.1:{tcp}"),
        format!("ws://127.0.0.1:{websocket}"),
        format!("unix://{}", folder.join("ndn.sock").display()),
    ];
    for (number, address) in addresses.iter().enumerate() {
        let config = folder.join(format!("receiver-{number}.toml"));
        let reliability = if number == 0 { "reliability = \"on\"\n" } else { "" };
        let changed = receiver
            .replace("RELIABILITY", reliability)
            .replace(&format!("peer = \"{over_udp}\""), &format!("peer = \"{address}\""))
            .replace("state_dir = \"ndn-receiver\"", &format!("state_dir = \"receiver-{number}\""));
        fs::write(&config, changed).unwrap();
        let (config, copy) = (config.to_str().unwrap(), folder.join(format!("copy-{number}")));
        let get = run(folder, &["get", "/lab/big", "--config", config, "-o", copy.to_str().unwrap(), "--json"]);
        assert_eq!(get.status.code(), Some(0), "{address}: {}", talk(&get));
        let notices = lines(&get.stdout);
        let done = notices.last().unwrap();
        let expected = (&"done".into(), &"ndn".into(), &true.into(), &SIZE.into());
        assert_eq!((&done["event"], &done["family"], &done["verified"], &done["bytes"]), expected, "{address}");
        assert_eq!(done["sources"][0]["id"], "ndn-publisher", "{address}: {done}");
        assert!(fs::read(&copy).unwrap() == fs::read(&original).unwrap(), "{address}");
        // What one fetch left in the forwarder's store serves the next.
        let cached = done["cached_bytes"].as_u64().unwrap();
        assert!(if number == 0 { cached < SIZE as u64 / 2 } else { cached > SIZE as u64 / 2 }, "{address}: {done}");
    }

    let config = folder.join("receiver-0.toml");
    let config = config.to_str().unwrap();
    let missing = run(folder, &["get", "/lab/none", "--config", config, "-o", "-", "--timeout", "300ms"]);
    assert_eq!(common::class(missing.status.code()), Some(1));
    assert!(talk(&missing).contains("error: cannot fetch '/lab/none'"), "{}", talk(&missing));
    let ls = run(folder, &["ls", "/lab", "--config", config]);
    assert_eq!(common::class(ls.status.code()), Some(1));
    assert!(talk(&ls).contains("NDN has no listing of names"), "{}", talk(&ls));
    let status = run(folder, &["status", "--control", folder.join("ndn-router/control.sock").to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&status.stdout).contains("/lab/big"), "{status:?}");
    let control = folder.join("ndn-router/control.sock");
    let status = run(folder, &["status", "--control", control.to_str().unwrap(), "--json"]);
    let acknowledged = &lines(&status.stdout)[0]["counters"]["packets acknowledged on links"];
    assert!(acknowledged.as_u64() > Some(100), "{acknowledged} of the packets to the receiver over UDP");

    assert_eq!(publisher.stop(), Some(0));
    assert_eq!(router.stop(), Some(0));
    assert!(!folder.join("ndn.sock").exists(), "the Unix socket goes with its daemon");
}

#[test]
fn the_demo_fetches_from_all_publishers_over_all_paths() {
    let folder = tempfile::tempdir().unwrap();
    let demo = trib(folder.path()).args(["demo", "--family", "ndn", "--json", "--size", "9MB"]).output().unwrap();
    assert_eq!(demo.status.code(), Some(0), "{}", talk(&demo));
    let notices = lines(&demo.stdout);
    let done = notices.last().unwrap();
    let expected = (&"done".into(), &"ndn".into(), &true.into(), &9_000_000.into());
    assert_eq!((&done["event"], &done["family"], &done["verified"], &done["bytes"]), expected);
    assert_eq!(done["sources"].as_array().unwrap().len(), 3, "{done}");
    assert!(done["paths"].as_array().unwrap().len() >= 4, "{done}");
    let refused = run(folder.path(), &["demo", "--family", "ndn", "--fail", "tm"]);
    assert_eq!(common::class(refused.status.code()), Some(2), "{}", talk(&refused));
}

#[test]
fn the_demo_passes_by_a_cache_that_lies_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let demo = ["demo", "--family", "ndn", "--evil", "cache", "--size", "9MB"];
    let notices = run(folder.path(), &[&demo[..], &["--json"]].concat());
    assert_eq!(notices.status.code(), Some(0), "{}", talk(&notices));
    let notices = lines(&notices.stdout);
    let done = notices.last().unwrap();
    let expected = (&"done".into(), &true.into(), &9_000_000.into(), &"passed".into());
    assert_eq!((&done["event"], &done["verified"], &done["bytes"], &done["checks"]), expected);
    assert!(done["bypassed_caches"].as_array().is_some_and(|caches| !caches.is_empty()), "{done}");
    // The honest publishers deliver the chunks that the cache corrupted, and none of them counts as faulty.
    assert!(done["source_bytes"].as_u64() > Some(8_000_000), "{done}");
    assert!(
        done["sources"].as_array().unwrap().iter().all(|source| source.get("distrusted").is_none_or(|of| of.is_null()))
    );
    let shown = run(folder.path(), &demo);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("gave wrong bytes, bypassed on "), "{shown}");
}

#[test]
fn ping_and_traceroute_tell_who_answers_by_which_path_and_what_cannot_be_reached() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (udp, tcp, websocket) = (port(), port(), port());
    let example = |name: &str| example(folder, name, udp, tcp, websocket);
    let original = file(folder);
    let _router = Daemon::start(folder, &example("ndn-router.toml"));
    let publisher = example("ndn-publisher.toml");
    let _publisher = Daemon::start(folder, &publisher);
    let control = folder.join("ndn-publisher/control.sock");
    let put = ["put", original.to_str().unwrap(), "/lab/big", "--control", control.to_str().unwrap()];
    assert_eq!(run(folder, &put).status.code(), Some(0));
    let receiver = example("ndn-receiver.toml");
    let ask = |arguments: &[&str]| {
        let output = run(folder, &[arguments, &["--json", "--config", receiver.to_str().unwrap()]].concat());
        (output.status.code(), lines(&output.stdout))
    };

    let (code, notices) = ask(&["ping", "/lab/big", "--count", "3", "--interval", "20ms"]);
    assert_eq!((code, notices.len()), (Some(0), 4), "{notices:?}");
    for (number, echo) in notices[..3].iter().enumerate() {
        assert_eq!((&echo["event"], &echo["number"]), (&"echo".into(), &(number + 1).into()));
        assert_eq!((&echo["outcome"], &echo["responder"]), (&"application".into(), &"ndn-publisher".into()));
        assert!(echo["rtt_ms"].as_f64().is_some_and(|rtt| rtt > 0.0) && echo["path_failed"] == false, "{echo}");
        assert_eq!(echo["path"], notices[0]["path"], "the path of the first answer is kept");
    }
    let (pinged, path) = (&notices[3], notices[0]["path"].as_str().unwrap().to_owned());
    assert_eq!((&pinged["event"], &pinged["sent"], &pinged["answered"]), (&"pinged".into(), &3.into(), &3.into()));
    assert_eq!((pinged["loss"].as_f64(), pinged["paths"][0]["answered"].as_u64()), (Some(0.0), Some(3)));

    let (code, notices) = ask(&["traceroute", "/lab/big"]);
    assert_eq!(code, Some(0), "{notices:?}");
    let hops: Vec<_> = notices.iter().map(|hop| (hop["outcome"].as_str(), hop["responder"].as_str())).collect();
    assert_eq!(hops[0], (Some("hop-limit"), Some("ndn-router")));
    assert_eq!(hops[1], (Some("application"), Some("ndn-publisher")));
    assert_eq!((&notices[2]["event"], &notices[2]["hops"]), (&"traced".into(), &2.into()));

    let (code, notices) = ask(&["ping", "/nowhere", "--count", "1", "--timeout", "300ms"]);
    let error = notices.last().unwrap();
    assert_eq!((code, &error["kind"]), (Some(1), &"not-found".into()), "{notices:?}");
    for path in [path.as_str(), "not-a-path"] {
        let (code, notices) = ask(&["ping", "/lab/big", "--path", path, "--count", "1"]);
        assert_eq!((code, &notices[0]["kind"]), (Some(2), &"usage".into()), "another node named it: {notices:?}");
    }

    // The other end is closed.
    let silent =
        fs::read_to_string(&receiver).unwrap().replace(&format!("127.0.0.1:{udp}"), &format!("127.0.0.1:{}", port()));
    fs::write(folder.join("silent.toml"), silent.replace("state_dir = \"ndn-receiver\"", "state_dir = \"silent\""))
        .unwrap();
    let trace = ["traceroute", "/lab/big", "--config", "silent.toml", "--count", "1", "--timeout", "100ms"];
    let trace = trib(folder).args(trace).current_dir(folder).output().unwrap();
    assert_eq!(common::class(trace.status.code()), Some(1));
    let stated = talk(&trace);
    assert!(stated.contains("to any of 5 requests") && stated.contains("neighbours 1 to 5 were silent"), "{stated}");

    let psi = common::config(folder, "psi-node", "\"receiver\"", port(), "");
    let refused = run(folder, &["ping", "/lab/big", "--config", psi.to_str().unwrap()]);
    assert_eq!(common::class(refused.status.code()), Some(2));
    assert!(talk(&refused).contains("have no echo requests"), "{}", talk(&refused));
}

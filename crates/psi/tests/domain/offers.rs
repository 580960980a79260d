//! The network's offers to a transfer: by which metric, from which sources, for how long, and to how many at a time.
use super::*;
use tributary_core::{Location, NodeId, event::PathState, link::LinkChange};

/// The routers, then a rendezvous node and a topology manager on the first of them.
fn domain_of(seed: u64, routers: &[&str]) -> Domain {
    domain_on_map(seed, routers, |_| None)
}
fn domain_on_map(seed: u64, routers: &[&str], location: impl Fn(&str) -> Option<Location>) -> Domain {
    let mut domain = Domain::new(seed);
    for label in routers {
        domain.node(label, |config| {
            config.router = true;
            config.location = location(label);
        });
    }
    domain.node("rn-1", |config| config.resolver = true);
    domain.node("tm-1", |config| config.topology_manager = Some(1));
    domain.link("rn-1", routers[0], 100, 1);
    domain.link("tm-1", routers[0], 100, 1);
    domain
}
fn fetch_by(domain: &mut Domain, what: &str, metric: PathMetric, paths_per_source: u8) -> (TransferId, MemoryContent) {
    let opener = MemoryOpener::new();
    let content = opener.content();
    let fetch = Fetch {
        name: name(what),
        opener: Box::new(opener),
        rate_limit: None,
        paths_per_source,
        metric,
        patience: Some(Duration::from_secs(20)),
    };
    (domain.with("receiver", |node, now| node.fetch(now, fetch)), content)
}

/// ```text
///   receiver ── fn-1 ──(30 ms, 50 Mbit/s)── fn-2 ── pub-1       fewest hops
///                │                          │
///                ├──(1 ms, 5 Mbit/s)─ fn-3 ─┤                   shortest delay
///                │                          │
///                └──(20 ms, 200 Mbit/s) fn-4 ┘                  most capacity
/// ```
fn three_ways(seed: u64) -> Domain {
    let mut domain = domain_of(seed, &["fn-1", "fn-2", "fn-3", "fn-4"]);
    domain.node("pub-1", |_| {});
    domain.node("receiver", |_| {});
    for (a, b, mbps, delay) in [
        ("receiver", "fn-1", 500, 1),
        ("pub-1", "fn-2", 500, 1),
        ("fn-1", "fn-2", 50, 30),
        ("fn-1", "fn-3", 5, 1),
        ("fn-3", "fn-2", 5, 1),
        ("fn-1", "fn-4", 200, 20),
        ("fn-4", "fn-2", 200, 20),
    ] {
        domain.link(a, b, mbps, delay);
    }
    domain
}

#[test]
fn each_metric_chooses_its_own_path() {
    for (metric, label) in [
        (PathMetric::Hops, "receiver>fn-1>fn-2>pub-1"),
        (PathMetric::Latency, "receiver>fn-1>fn-3>fn-2>pub-1"),
        (PathMetric::ResidualCapacity, "receiver>fn-1>fn-4>fn-2>pub-1"),
    ] {
        let mut domain = three_ways(40);
        let bytes = random_bytes(300_000, 40);
        domain.publish("pub-1", object("/lab/file", bytes.clone()));
        // Round-trip times are measured by hellos, and reported at most once a second.
        domain.run(5.0);
        let (id, content) = fetch_by(&mut domain, "/lab/file", metric, 1);
        let report = domain.finish("receiver", id, 20.0);
        assert_eq!(content.finished(&name("/lab/file")), Some(bytes));
        let labels: Vec<&str> = report.paths.iter().map(|path| path.label.as_str()).collect();
        assert_eq!(labels, [label], "{metric:?}");
    }
}

/// Athens to Vienna through Madrid, or through Sofia and Belgrade, where links are slow and busy.
#[test]
fn the_shortest_way_on_the_map_is_not_the_one_with_the_fewest_links() {
    let place = |label: &str| match label {
        "athens" => "37.98, 23.73",
        "vienna" => "48.21, 16.37",
        "madrid" => "40.42, -3.70",
        "sofia" => "42.70, 23.32",
        _ => "44.79, 20.45",
    };
    for (reported, metric, label) in [
        (true, PathMetric::Distance, "receiver>athens>sofia>belgrade>vienna>pub-1"),
        (true, PathMetric::Hops, "receiver>athens>madrid>vienna>pub-1"),
        // A node without a position counts as far away as its packets take.
        (false, PathMetric::Distance, "receiver>athens>madrid>vienna>pub-1"),
    ] {
        let mut domain = domain_on_map(44, &["athens", "vienna", "madrid", "sofia", "belgrade"], |label| {
            reported.then(|| place(label).parse().unwrap())
        });
        domain.node("pub-1", |_| {});
        domain.node("receiver", |_| {});
        for (a, b, delay) in [
            ("receiver", "athens", 1),
            ("pub-1", "vienna", 1),
            ("athens", "madrid", 12),
            ("madrid", "vienna", 9),
            ("athens", "sofia", 30),
            ("sofia", "belgrade", 20),
            ("belgrade", "vienna", 20),
        ] {
            domain.link(a, b, 100, delay);
        }
        domain.publish("pub-1", object("/lab/file", random_bytes(300_000, 44)));
        domain.run(5.0);
        let (id, _) = fetch_by(&mut domain, "/lab/file", metric, 1);
        let report = domain.finish("receiver", id, 20.0);
        assert_eq!(report.paths[0].label, label, "{metric:?}, told: {reported}");
    }
}

#[test]
fn capacity_that_is_in_use_does_not_count() {
    let mut domain = three_ways(41);
    domain.node("pub-2", |_| {});
    domain.link("pub-2", "fn-2", 1000, 1);
    domain.node("busy", |_| {});
    domain.link("busy", "fn-4", 180, 1);
    domain.publish("pub-2", object("/lab/load", random_bytes(120_000_000, 1)));
    domain.publish("pub-1", object("/lab/file", random_bytes(300_000, 2)));
    domain.run(5.0);
    // 180 of the 200 Mbit/s from fn-2 to fn-4 are in use now: less is left than on the path with 50.
    let load = Fetch {
        name: name("/lab/load"),
        opener: Box::new(MemoryOpener::new()),
        rate_limit: None,
        paths_per_source: 1,
        metric: PathMetric::Hops,
        patience: None,
    };
    domain.with("busy", |node, now| node.fetch(now, load));
    domain.run(3.5);
    let (id, _) = fetch_by(&mut domain, "/lab/file", PathMetric::ResidualCapacity, 1);
    let report = domain.finish("receiver", id, 20.0);
    assert_eq!(report.paths[0].label, "receiver>fn-1>fn-2>pub-1", "{:#?}", report.paths);
}

#[test]
fn what_is_withdrawn_during_a_transfer_is_asked_no_more_and_the_others_finish_it() {
    let mut domain = three_sources(42, |_| {});
    let bytes = random_bytes(16_000_000, 42);
    for publisher in ["pub-1", "pub-2", "pub-3"] {
        domain.publish(publisher, object("/lab/file", bytes.clone()));
    }
    domain.run(3.0);
    let (id, content) = domain.fetch("receiver", "/lab/file");
    domain.run(0.8);
    domain.with("pub-1", |node, now| node.unpublish(now, &name("/lab/file")));
    domain.run(0.5);
    let of_pub_1 = |report: &TransferReport| -> Vec<(PathState, u64)> {
        let paths = report.paths.iter().filter(|path| path.label.ends_with(">pub-1"));
        paths.map(|path| (path.state, path.bytes)).collect()
    };
    let before = of_pub_1(&domain.with("receiver", |node, now| node.report(now, id)).unwrap());
    assert!(before.len() >= 2 && before.iter().all(|(state, _)| *state == PathState::Closed), "{before:?}");
    let report = domain.finish("receiver", id, 60.0);
    assert_eq!(of_pub_1(&report), before);
    assert_eq!(content.finished(&name("/lab/file")), Some(bytes));
    assert!(report.sources.iter().all(|source| source.distrusted.is_none()), "to withdraw is not to lie");
}

#[test]
fn a_publisher_that_died_is_not_offered_any_more_once_its_lease_is_over() {
    let mut domain = domain_of(43, &["fn-1"]);
    for label in ["pub-1", "pub-2", "receiver"] {
        domain.node(label, |config| config.lease = Duration::from_secs(3));
        domain.link(label, "fn-1", 50, 2);
    }
    let bytes = random_bytes(400_000, 43);
    for publisher in ["pub-1", "pub-2"] {
        domain.publish(publisher, object("/lab/file", bytes.clone()));
    }
    domain.run(3.0);
    domain.kill("pub-1");
    let mut offered = Vec::new();
    for wait in [0.2, 3.5] {
        domain.run(wait);
        let (id, content) = domain.fetch("receiver", "/lab/file");
        let report = domain.finish("receiver", id, 20.0);
        assert_eq!(content.finished(&name("/lab/file")), Some(bytes.clone()));
        offered.push(report.sources.iter().map(|source| source.label.clone()).collect::<Vec<_>>());
    }
    assert_eq!(offered[0].len(), 2, "{offered:?}");
    assert_eq!(offered[1], ["pub-2"]);
}

#[test]
fn two_transfers_of_one_node_run_at_a_time_of_the_same_name_or_of_another() {
    let mut domain = three_sources(44, |_| {});
    let (first, second) = (random_bytes(6_000_000, 1), random_bytes(6_000_000, 2));
    for publisher in ["pub-1", "pub-2"] {
        domain.publish(publisher, object("/lab/first", first.clone()));
        domain.publish(publisher, object("/lab/second", second.clone()));
    }
    domain.run(3.0);
    let wanted = [("/lab/first", &first), ("/lab/second", &second), ("/lab/first", &first)];
    let fetches = wanted.map(|(what, bytes)| (domain.fetch("receiver", what), what, bytes));
    for ((id, content), what, bytes) in &fetches {
        let report = domain.finish("receiver", *id, 60.0);
        assert_eq!(content.finished(&name(what)).as_ref(), Some(*bytes));
        assert!(report.sources.iter().all(|source| source.distrusted.is_none()), "{report:#?}");
    }
}

/// Two transfers of a receiver that is limited to 10 Mbit/s as a whole: the bytes of each after five seconds.
fn shares_of_a_common_limit(seed: u64) -> [u64; 2] {
    let mut domain = three_sources(seed, |_| {});
    domain.publish("pub-1", object("/lab/first", random_bytes(16_000_000, 1)));
    domain.publish("pub-2", object("/lab/second", random_bytes(16_000_000, 2)));
    domain.run(3.0);
    domain.with("receiver", |node, now| node.limit(now, None, Some(Rate::from_mbps(10))));
    let ids = ["/lab/first", "/lab/second"].map(|what| domain.fetch("receiver", what).0);
    domain.run(5.5);
    ids.map(|id| {
        let report = domain.with("receiver", |node, now| node.report(now, id)).unwrap();
        report.paths.iter().map(|path| path.bytes).sum()
    })
}

#[test]
fn a_limit_for_all_transfers_holds_for_their_sum() {
    let shares = shares_of_a_common_limit(45);
    let mbps = shares.iter().sum::<u64>() as f64 * 8.0 / 5.5e6;
    assert!((8.5..10.3).contains(&mbps), "{mbps} from {shares:?}");
}

#[test]
fn transfers_share_a_common_limit() {
    let [first, second] = shares_of_a_common_limit(45);
    assert!(first < 2 * second && second < 2 * first, "{first} and {second} bytes");
}

#[test]
fn packets_fit_the_narrowest_path() {
    let mut domain = domain_of(46, &["fn-1", "fn-2"]);
    domain.node("pub-1", |_| {});
    domain.node("receiver", |_| {});
    domain.link("pub-1", "fn-1", 50, 2);
    domain.link("receiver", "fn-1", 50, 2);
    domain.trouble = |config| config.mtu = 1250;
    domain.link("pub-1", "fn-2", 50, 2);
    domain.trouble = |_| {};
    domain.link("receiver", "fn-2", 50, 2);
    domain.link("fn-1", "fn-2", 50, 20);
    let bytes = random_bytes(8_000_000, 46);
    domain.publish("pub-1", object("/lab/file", bytes.clone()));
    domain.run(4.0);
    let (id, content) = domain.fetch("receiver", "/lab/file");
    let report = domain.finish("receiver", id, 30.0);
    assert_eq!(content.finished(&name("/lab/file")), Some(bytes));
    for label in ["receiver>fn-1>pub-1", "receiver>fn-2>pub-1"] {
        let path = report.paths.iter().find(|path| path.label == label).unwrap();
        assert!(path.bytes > 1_000_000, "{path:#?}");
    }
}

#[test]
fn a_longer_way_that_appears_during_a_transfer_is_used() {
    let routers: Vec<String> = (1..=14).map(|i| format!("fn-{i}")).collect();
    let routers: Vec<&str> = routers.iter().map(String::as_str).collect();
    let mut domain = domain_of(47, &routers);
    domain.node("pub-1", |_| {});
    domain.node("pub-2", |_| {});
    domain.node("receiver", |_| {});
    domain.link("receiver", "fn-1", 100, 2);
    domain.link("pub-1", "fn-1", 10, 2);
    let bytes = random_bytes(8_000_000, 47);
    domain.publish("pub-1", object("/lab/file", bytes.clone()));
    domain.publish("pub-2", object("/lab/file", bytes));
    for pair in routers.windows(2) {
        domain.link(pair[0], pair[1], 100, 1);
    }
    domain.run(3.0);
    let (id, _) = domain.fetch("receiver", "/lab/file");
    domain.run(1.0);
    domain.link("pub-2", routers[13], 50, 2);
    let report = domain.finish("receiver", id, 30.0);
    let added = report.paths.iter().find(|path| path.label.ends_with(">pub-2")).expect("it is offered");
    assert!(added.bytes > 1_000_000, "{added:#?}");
}

#[test]
fn what_is_lost_between_a_cache_and_the_receiver_costs_hardly_more_than_the_loss() {
    let mut domain = domain_of(48, &["fn-1"]);
    domain.node("pub-1", |_| {});
    domain.node("receiver", |_| {});
    domain.link("receiver", "fn-1", 40, 5);
    domain.link("pub-1", "fn-1", 40, 20);
    let bytes = random_bytes(12_000_000, 48);
    domain.publish("pub-1", object("/lab/file", bytes));
    domain.run(3.0);
    let (id, _) = domain.fetch("receiver", "/lab/file");
    domain.finish("receiver", id, 30.0);
    let access = domain.connections[&("receiver".into(), "fn-1".into())];
    domain.net.change(access, LinkChange::Loss(lossy(0.02)));
    let (id, _) = domain.fetch("receiver", "/lab/file");
    let report = domain.finish("receiver", id, 60.0);
    let seconds = report.ended.unwrap().since(report.started).as_secs_f64();
    assert!(report.cached_bytes > 11_000_000, "{report:#?}");
    let fluid = 12e6 * 8.0 / (40e6 * PAYLOAD_SHARE * 0.98);
    println!("{seconds:.3} s from the cache, bound {fluid:.3}: {:#?}", report.paths);
    assert!(seconds < fluid * 1.15, "{seconds} s against {fluid} s");
}

/// Both paths to the one source use both access links. The first window fits the narrower one, at either end and for
/// any numbering of the nodes, so that its queue does not overflow.
#[test]
fn first_windows_fit_the_narrowest_of_the_links_that_all_paths_share() {
    for (source_mbps, receiver_mbps) in [(20, 100), (100, 20)] {
        for (source, receiver_router) in [(2, 3), (3, 2)] {
            let mut domain = domain_of(49, &["fn-1", "fn-2", "fn-3"]);
            domain.node("fn-4", |config| (config.router, config.node) = (true, NodeId(receiver_router)));
            domain.node("pub-1", |config| config.node = NodeId(source));
            domain.node("receiver", |_| {});
            for (a, b, mbps) in [
                ("pub-1", "fn-1", source_mbps),
                ("fn-1", "fn-2", 100),
                ("fn-1", "fn-3", 100),
                ("fn-2", "fn-4", 100),
                ("fn-3", "fn-4", 100),
                ("fn-4", "receiver", receiver_mbps),
            ] {
                domain.link(a, b, mbps, 20);
            }
            domain.publish("pub-1", object("/lab/file", random_bytes(8_000_000, 49)));
            domain.run(5.0);
            let (id, _) = domain.fetch("receiver", "/lab/file");
            // The first answers arrive after 180 ms, the answers to the second windows after 340.
            domain.run(0.5);
            let report = domain.with("receiver", |node, now| node.report(now, id)).unwrap();
            assert_eq!(report.paths.iter().filter(|path| path.bytes > 0).count(), 2, "{:#?}", report.paths);
            let dropped: u64 = domain.net.links().map(|(.., link)| link.stats().dropped_packets).sum();
            assert_eq!(dropped, 0, "{source_mbps} and {receiver_mbps} Mbit/s, nodes {source} and {receiver_router}");
        }
    }
}

/// ```text
///   receiver, pub-0 … pub-5, rn-1 ── hub ──(10 % loss)── tm-1
/// ```
#[test]
fn sources_that_come_together_over_a_link_that_loses_are_all_kept() {
    for seed in 60..68 {
        let mut domain = Domain::new(seed);
        domain.node("hub", |config| config.router = true);
        domain.node("rn-1", |config| config.resolver = true);
        domain.node("tm-1", |config| config.topology_manager = Some(1));
        let publishers: Vec<String> = (0..6).map(|number| format!("pub-{number}")).collect();
        for label in publishers.iter().map(String::as_str).chain(["receiver"]) {
            domain.node(label, |_| {});
            domain.link(label, "hub", 20, 10);
        }
        domain.link("rn-1", "hub", 20, 10);
        domain.trouble = |link| link.loss = lossy(0.1);
        domain.link("tm-1", "hub", 20, 10);
        let bytes = random_bytes(4_000_000, seed);
        domain.publish("pub-0", object("/lab/file", bytes.clone()));
        domain.run(6.0);
        let (id, _) = domain.fetch("receiver", "/lab/file");
        domain.with("receiver", |node, now| node.limit(now, Some(id), Some(Rate::from_mbps(1))));
        domain.run(4.0);
        for label in &publishers[1..] {
            domain.publish(label, object("/lab/file", bytes.clone()));
            domain.run(0.02);
        }
        domain.run(9.0);
        let events = domain.reported("receiver");
        let withdrawn = events.iter().filter(|event| format!("{event:?}").contains("withdrawn")).count();
        let report = domain.net.node(domain.nodes["receiver"]).report(domain.net.now(), id).unwrap();
        assert_eq!((report.sources.len(), withdrawn), (6, 0), "seed {seed}");
    }
}

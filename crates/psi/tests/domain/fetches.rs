//! Fetches through a whole domain.
use super::*;
use tributary_core::{event::PathState, link::Reorder};

const BYTES: usize = 24_000_000;

fn publish_everywhere(domain: &mut Domain, bytes: &Bytes) {
    for publisher in ["pub-1", "pub-2", "pub-3"] {
        domain.publish(publisher, object("/lab/file", bytes.clone()));
    }
    domain.run(3.0);
}

fn show(report: &TransferReport) -> f64 {
    let seconds = report.ended.unwrap().since(report.started).as_secs_f64();
    println!("{seconds:.3} s, retransmitted {}, cached {}", report.retransmitted_bytes, report.cached_bytes);
    for path in &report.paths {
        println!(
            "  {} {} {} B ({} cached), {} lost of {}, rtt {:?}, {} {}",
            path.path,
            path.label,
            path.bytes,
            path.cached_bytes,
            path.lost_packets,
            path.requested_packets,
            path.rtt,
            path.state,
            path.reason
        );
    }
    seconds
}

fn fluid_seconds(mbps: f64) -> f64 {
    BYTES as f64 * 8.0 / (mbps * 1e6 * PAYLOAD_SHARE)
}

#[test]
fn a_file_comes_from_three_sources_over_all_paths_near_the_fluid_bound() {
    let mut domain = three_sources(1, |_| {});
    let bytes = random_bytes(BYTES, 1);
    publish_everywhere(&mut domain, &bytes);
    let (id, content) = domain.fetch("receiver", "/lab/file");
    let report = domain.finish("receiver", id, 60.0);
    let seconds = show(&report);
    assert_eq!(content.finished(&name("/lab/file")), Some(bytes));
    assert_eq!(report.sources.iter().filter(|source| source.bytes > 0).count(), 3);
    assert!(report.paths.iter().filter(|path| path.bytes > 0).count() >= 5);
    let ratio = seconds / fluid_seconds(CAPACITY_MBPS);
    assert!(ratio < 1.08, "{ratio}: 3 s are too short to hide the slow path and the first round trips");
}

#[test]
fn a_second_fetch_is_answered_by_the_caches_on_the_way() {
    let mut domain = three_sources(2, |_| {});
    domain.node("office", |_| {});
    domain.link("office", "fn-1", 100, 5);
    let bytes = random_bytes(BYTES, 2);
    publish_everywhere(&mut domain, &bytes);
    let (first, _) = domain.fetch("office", "/lab/file");
    domain.finish("office", first, 60.0);
    let (second, content) = domain.fetch("office", "/lab/file");
    let report = domain.finish("office", second, 60.0);
    show(&report);
    assert_eq!(content.finished(&name("/lab/file")), Some(bytes));
    let requested: u64 = report.sources.iter().map(|source| source.bytes).sum();
    assert!(requested < BYTES as u64 / 100, "{requested} bytes came from the sources");
}

#[test]
fn a_publisher_that_dies_and_comes_back_costs_its_capacity_only() {
    let mut domain = three_sources(3, |_| {});
    let bytes = random_bytes(BYTES, 3);
    publish_everywhere(&mut domain, &bytes);
    let (id, content) = domain.fetch("receiver", "/lab/file");
    domain.run(0.8);
    domain.kill("pub-1");
    domain.run(1.2);
    let again = object("/lab/file", bytes.clone());
    domain.restart("pub-1", |node, now| node.publish(now, Box::new(again)));
    let report = domain.finish("receiver", id, 60.0);
    let seconds = show(&report);
    assert_eq!(content.finished(&name("/lab/file")), Some(bytes));
    let silent = |event: &Event| {
        matches!(
            event,
            Event::Transfer(_, TransferEvent::PathState { state: PathState::Silent | PathState::Closed, .. })
        )
    };
    assert!(domain.reported("receiver").iter().any(silent), "the silence is told");
    assert!(seconds < fluid_seconds(CAPACITY_MBPS) + 1.2 * 0.5 + 0.9, "{seconds}");
}

#[test]
fn resolver_manager_and_link_may_die_while_a_transfer_runs() {
    let mut domain = three_sources(4, |_| {});
    let bytes = random_bytes(BYTES, 4);
    publish_everywhere(&mut domain, &bytes);
    let (id, content) = domain.fetch("receiver", "/lab/file");
    domain.run(0.5);
    domain.kill("rn-1");
    domain.run(0.3);
    domain.kill("tm-1");
    domain.run(0.3);
    domain.kill("fn-1");
    let report = domain.finish("receiver", id, 60.0);
    show(&report);
    assert_eq!(content.finished(&name("/lab/file")), Some(bytes.clone()));
    // And a new fetch works without them.
    domain.run(5.0);
    let (id, content) = domain.fetch("receiver", "/lab/file");
    show(&domain.finish("receiver", id, 60.0));
    assert_eq!(content.finished(&name("/lab/file")), Some(bytes));
}

#[test]
fn new_paths_are_pushed_to_a_transfer_that_runs() {
    let mut domain = three_sources(5, |_| {});
    let bytes = random_bytes(BYTES, 5);
    publish_everywhere(&mut domain, &bytes);
    let (id, _) = domain.fetch("receiver", "/lab/file");
    domain.run(0.7);
    domain.link("pub-3", "fn-1", 30, 5);
    let report = domain.finish("receiver", id, 60.0);
    show(&report);
    let new = report.paths.iter().find(|path| path.label == "receiver>fn-1>pub-3").expect("it is offered");
    assert!(new.bytes > 1_000_000, "the new link is used: {new:#?}");
}

#[test]
fn loss_reordering_and_duplication_everywhere_slow_it_down_and_nothing_else() {
    fn trouble(share: f64, config: &mut LinkConfig) {
        config.loss = lossy(share);
        config.reorder = Reorder { probability: 0.02, delay: Duration::from_millis(3) };
        config.duplicate = 0.01;
    }
    let troubles: [fn(&mut LinkConfig); 3] = [|c| trouble(0.01, c), |c| trouble(0.05, c), |c| trouble(0.2, c)];
    for (round, with) in troubles.into_iter().enumerate() {
        let mut domain = three_sources(6 + round as u64, with);
        let bytes = random_bytes(6_000_000, 6);
        publish_everywhere(&mut domain, &bytes);
        domain.run(10.0);
        let (id, content) = domain.fetch("receiver", "/lab/file");
        show(&domain.finish("receiver", id, 120.0));
        assert_eq!(content.finished(&name("/lab/file")), Some(bytes));
    }
}

#[test]
fn every_kind_of_fid_carries_a_transfer() {
    for kind in ["bloom", "bitmap", "list"] {
        let mut domain = Domain::new(10);
        domain.node("fn-1", |config| config.router = true);
        domain.node("fn-2", |config| config.router = true);
        domain.node("rn-1", |config| config.resolver = true);
        domain.node("tm-1", |config| {
            config.topology_manager = Some(1);
            config.fid_kinds = vec![kind.into()];
        });
        domain.node("pub-1", |_| {});
        domain.node("receiver", |_| {});
        for (a, b) in [("fn-1", "fn-2"), ("rn-1", "fn-1"), ("tm-1", "fn-1"), ("receiver", "fn-1"), ("pub-1", "fn-2")] {
            domain.link(a, b, 50, 2);
        }
        let bytes = random_bytes(1_000_000, 7);
        domain.publish("pub-1", object("/lab/file", bytes.clone()));
        domain.run(3.0);
        println!("kind {kind}");
        let (id, content) = domain.fetch("receiver", "/lab/file");
        domain.finish("receiver", id, 20.0);
        assert_eq!(content.finished(&name("/lab/file")), Some(bytes), "{kind}");
    }
}

/// Lists hold 24 whole labels: nodes that are farther from the manager go by shortened ones.
#[test]
fn a_chain_of_forty_forwarders_is_crossed() {
    let mut domain = Domain::new(12);
    domain.node("tm-1", |config| config.topology_manager = Some(1));
    domain.node("rn-1", |config| config.resolver = true);
    domain.node("pub-1", |_| {});
    domain.node("receiver", |_| {});
    let forwarders: Vec<String> = (1..=40).map(|i| format!("fn-{i}")).collect();
    for label in &forwarders {
        domain.node(label, |config| config.router = true);
    }
    forwarders.windows(2).for_each(|pair| domain.link(&pair[0], &pair[1], 50, 1));
    for (a, b) in [("tm-1", "fn-1"), ("rn-1", "fn-20"), ("pub-1", "fn-2"), ("receiver", "fn-40")] {
        domain.link(a, b, 50, 1);
    }
    let bytes = random_bytes(1_000_000, 7);
    domain.publish("pub-1", object("/lab/file", bytes.clone()));
    domain.run(10.0);
    let (id, content) = domain.fetch("receiver", "/lab/file");
    domain.finish("receiver", id, 20.0);
    assert_eq!(content.finished(&name("/lab/file")), Some(bytes));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut domain = three_sources(seed, |config| config.loss = lossy(0.02));
        let bytes = random_bytes(2_000_000, 8);
        publish_everywhere(&mut domain, &bytes);
        let (id, _) = domain.fetch("receiver", "/lab/file");
        domain.finish("receiver", id, 60.0);
        domain.net.trace_hash()
    };
    assert_eq!(run(20), run(20));
    assert_ne!(run(20), run(21));
}

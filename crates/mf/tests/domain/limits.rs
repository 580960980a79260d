//! Rate limits: chunks arrive at the rate that the receiver requests, and no queue builds up on the way.
use super::*;

/// A server, two routers so far apart, and a reader with a fast last hop.
fn chain(seed: u64, delay: Duration) -> Domain {
    let mut domain = Domain::new(seed);
    domain.node("server", |_| {});
    domain.router("r1");
    domain.router("r2");
    domain.node("reader", |_| {});
    domain.link("server", "r1", 1_000, ms(1));
    domain.link("r1", "r2", 200, delay);
    domain.link("r2", "reader", 100, ms(1));
    domain
}
/// Runs until all transfers have ended. Returns the duration, and the maximum bytes in the routers.
fn run_all(domain: &mut Domain, ids: &[TransferId]) -> (f64, u64) {
    let (start, mut most) = (domain.net.now(), 0);
    while ids.iter().any(|id| domain.report("reader", *id).ended.is_none()) {
        assert!(domain.net.now().since(start) < Duration::from_secs(100), "it goes on");
        domain.run(ms(10));
        let held = |label: &str| domain.at(label).router().buffer.chunks().map(|chunk| chunk.bytes()).sum::<u64>();
        most = most.max(held("r1") + held("r2"));
    }
    for id in ids {
        assert_eq!(domain.report("reader", *id).failure, None);
    }
    assert!(["r1", "r2"].iter().all(|label| domain.repositories[*label].len() == 0), "nothing was stored");
    (domain.net.now().since(start).as_secs_f64(), most)
}

/// Without storage and relief, only the hops' buffers hold blocked chunks (paper §3.4.1).
#[test]
fn a_hop_that_does_not_go_on_blocks_all_before_it_up_to_the_source_and_nothing_is_lost() {
    use tributary_core::link::LinkChange;
    use tributary_mf::{config::HolRelief, sender::SendOptions, wire::Reliability};
    let (chunk_bytes, packets) = (16 << 10, 300);
    let mut domain = Domain::new(93);
    let set = |config: &mut Config| {
        (config.relief, config.proxy.enabled, config.buffer_packets) = (HolRelief::Off, false, packets);
        // A hop's first packets must not make the neighbour seem gone.
        (config.transfer.chunk_bytes, config.hop.window_initial_packets) = (chunk_bytes, 8);
        // The ends neither hold back chunks nor request any again.
        (config.transfer.window_chunks, config.transfer.window_chunks_max) = (u16::MAX, u16::MAX);
        config.transfer.nack_timeout = Duration::from_secs(100);
    };
    domain.node("source", set);
    for label in ["r1", "r2"] {
        domain.node(label, |config| {
            set(config);
            (config.router, config.resolver) = (true, true);
        });
    }
    domain.node("reader", set);
    for (a, b) in [("source", "r1"), ("r1", "r2")] {
        domain.link(a, b, 100, ms(2));
    }
    // As good as closed compared with the others.
    let slow = Rate::from_mbps(1);
    domain.link_with("r2", "reader", LinkConfig::new(slow, ms(2)));
    domain.run(Duration::from_secs(2));
    let opener = MemoryOpener::new();
    let content = opener.content();
    domain.with("reader", |node, _| node.accept(Box::new(opener)));
    let (bytes, to) = (random_bytes(8_000_000, 1), domain.at("reader").guid());
    let file = object("/lab/file", bytes.clone());
    let transfer = domain.with("source", |node, now| {
        let options = SendOptions { reliability: Reliability::Nack, ..SendOptions::new(&node.config().transfer) };
        let id = tributary_content::ObjectReader::manifest(&file).publication_id();
        node.offer(Box::new(file));
        node.send(now, id, to, options).unwrap()
    });
    let sent = |domain: &Domain| domain.at("source").sender().chunks.0;
    let held = |domain: &Domain, label: &str| domain.at(label).router().buffer.used();
    domain.run(Duration::from_secs(5));
    let (before, begun) = (sent(&domain), domain.net.now());
    for _ in 0..200 {
        domain.run(ms(100));
        for label in ["source", "r1", "r2"] {
            assert!(held(&domain, label) <= packets, "{label}: {} packets", held(&domain, label));
        }
    }
    let more = sent(&domain) - before;
    let passed = slow.bytes_in(Duration::from_secs(20)) / u64::from(chunk_bytes) + 1;
    println!(
        "{more} chunks in {:?}, {:?} packets",
        domain.net.now().since(begun),
        ["source", "r1", "r2"].map(|label| held(&domain, label))
    );
    assert!(more <= passed, "{more} chunks leave, and {passed} go over the last hop");
    for label in ["r1", "r2"] {
        assert!(held(&domain, label) > packets / 2, "{label} is full: {}", held(&domain, label));
    }
    let last = domain.connection("r2", "reader");
    domain.net.change(last, LinkChange::Rate(Some(Rate::from_mbps(100))));
    domain.run(Duration::from_secs(20));
    assert_eq!(content.finished(&name("/lab/file")).map(|got| got == bytes), Some(true), "it goes on");
    let report = domain.at("source").sender().report(transfer).unwrap();
    assert_eq!((report.repeated_chunks, report.dropped_chunks, report.stored_chunks), (0, 0, 0));
    for label in ["source", "r1", "r2"] {
        let router = domain.at(label).router();
        assert!(router.stats.dropped == 0 && router.buffer.peak <= packets, "{label}: {:?}", router.stats);
    }
    domain.assert_conservation();
}

#[test]
fn a_limit_holds_and_what_it_holds_back_waits_at_the_source() {
    for (delay, kbps) in [(1, 8_000), (1, 800), (100, 8_000), (20, 40_000)] {
        let mut domain = chain(90, ms(delay));
        let rate = Rate::from_bits_per_second(kbps * 1_000);
        let bytes = random_bytes(rate.bytes_in(Duration::from_secs(10)) as usize, 1);
        domain.publish("server", object("/lab/file", bytes.clone()));
        domain.run(Duration::from_secs(2));
        let (id, content) = domain.fetch_limited("reader", "/lab/file", Some(rate));
        let (seconds, most) = run_all(&mut domain, &[id]);
        println!("{kbps} kbit/s, {delay} ms: {seconds:.2} s, at most {most} bytes in the routers");
        assert_eq!(content.finished(&name("/lab/file")).unwrap(), bytes);
        assert!((9.5..=10.5).contains(&seconds), "{kbps} kbit/s, {delay} ms: {seconds}");
        // Only the windows in flight.
        assert!(most <= rate.bytes_in(ms(900)), "{kbps} kbit/s, {delay} ms: {most}");
    }
}

#[test]
fn small_objects_keep_to_a_limit_of_all_together() {
    let mut domain = chain(91, ms(5));
    let rate = Rate::from_bits_per_second(1_600_000);
    let names: Vec<String> = (0..40).map(|number| format!("/lab/file-{number}")).collect();
    for (what, seed) in names.iter().zip(0..) {
        domain.publish("server", object(what, random_bytes(50_000, seed)));
    }
    domain.run(Duration::from_secs(2));
    domain.with("reader", |node, now| node.limit(now, None, Some(rate)));
    let ids: Vec<TransferId> = names.iter().map(|what| domain.fetch("reader", what).0).collect();
    let (seconds, _) = run_all(&mut domain, &ids);
    println!("{seconds:.2} s");
    assert!((9.5..=10.5).contains(&seconds), "{seconds}");
}

#[test]
fn objects_share_a_limit_of_all_together_evenly() {
    let mut domain = chain(92, ms(5));
    let rate = Rate::from_bits_per_second(8_000_000);
    for what in ["/lab/a", "/lab/b"] {
        domain.publish("server", object(what, random_bytes(5_000_000, 3)));
    }
    domain.run(Duration::from_secs(2));
    domain.with("reader", |node, now| node.limit(now, None, Some(rate)));
    let ids = ["/lab/a", "/lab/b"].map(|what| domain.fetch("reader", what).0);
    let (seconds, _) = run_all(&mut domain, &ids);
    let ends = ids.map(|id| domain.report("reader", id).ended.unwrap());
    println!("{seconds:.2} s, {ends:?}");
    assert!((9.5..=10.5).contains(&seconds), "{seconds}");
    assert!(ends[0].since(ends[1]).max(ends[1].since(ends[0])) < Duration::from_secs(1), "{ends:?}");
}

//! Limits of rate: what the receiver asks for is what comes, and nothing piles up on the way.
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
/// Runs until all transfers have ended. Gives how long it took, and how many bytes were at most in the routers.
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
        // The windows that are under way, and no more.
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

//! Hops behind policers: token buckets without a queue, which drop packets beyond their rate.
use super::*;

#[test]
fn behind_a_policer_a_hop_asks_for_no_more_than_its_rate() {
    const MBPS: u64 = 16;
    for delay_us in [50, 2_000] {
        let mut domain = Domain::new(4);
        domain.router("r1");
        domain.node("server", |_| {});
        domain.node("reader", |_| {});
        domain.link("server", "r1", 100, Duration::from_micros(50));
        let policer = LinkConfig {
            burst_bytes: 16_000,
            queue_bytes: 1_500,
            ..LinkConfig::new(Rate::from_mbps(MBPS), Duration::from_micros(delay_us))
        };
        domain.link_with("r1", "reader", policer);
        // The bytes that it carries in fifteen seconds.
        let size = MBPS as usize * 125_000 * 15;
        domain.publish("server", object("/lab/file", random_bytes(size, 1)));
        domain.run(Duration::from_secs(1));
        let (id, _) = domain.fetch("reader", "/lab/file");
        let time = domain.finish("reader", id, 120);
        let ends = (domain.nodes["r1"], domain.nodes["reader"]);
        let links = domain.net.links().filter(|(_, from, to, _)| (*from, *to) == ends);
        let (came, dropped) = links
            .map(|(.., link)| (link.stats().in_packets, link.stats().dropped_packets))
            .fold((0, 0), |(came, dropped), more| (came + more.0, dropped + more.1));
        let lost = dropped as f64 / came as f64;
        let used = size as f64 * 1_500.0 / 1_462.0 / (time.as_secs_f64() * 125_000.0 * MBPS as f64);
        println!("one way {delay_us} us: {lost:.4} lost, {used:.3} used");
        assert!(lost <= 0.015 && used >= 0.9, "one way {delay_us} us: {lost:.4} lost, {used:.3} used");
    }
}

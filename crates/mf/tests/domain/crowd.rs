//! Receivers that fetch one object at about the same time.
use tributary_testkit::crowd::{self, Role};

use super::*;

#[test]
fn receivers_behind_one_router_need_as_long_as_one_of_them() {
    let node = |role, label: &str, seed| {
        let mut config = Config::new(label, seed);
        if let Role::Router(cache) = role {
            (config.router, config.resolver, config.cache_bytes) = (true, true, cache);
            config.pending_requests_max = REQUESTS_MAX;
        }
        MfNode::new(config)
    };
    crowd::assert_all_are_served(node, |_, _, _| {});
}

const REQUESTS_MAX: u32 = 1_024;
const BYTES: usize = 8 << 20;
const IDEAL: f64 = BYTES as f64 * 8.0 / 16e6;

/// Receivers that fetch one object through one router with a cache, from a source of 16 Mbit/s and 5 ms; another one is
/// further.
fn crowd(receivers: u64, seed: u64, set: impl Fn(&mut Config)) -> Domain {
    let mut domain = Domain::new(seed);
    domain.node("router", |config| {
        (config.router, config.resolver, config.pending_requests_max) = (true, true, REQUESTS_MAX);
        set(config);
    });
    for (source, delay) in [("source", 5), ("other", 30)] {
        domain.node(source, |_| {});
        domain.link(source, "router", 16, ms(delay));
        domain.publish(source, object("/lab/file", random_bytes(BYTES, seed)));
    }
    for number in 0..receivers {
        domain.node(&format!("receiver{number}"), |_| {});
        domain.link("router", &format!("receiver{number}"), 1_000, ms(1));
    }
    domain.run(Duration::from_secs(2));
    domain
}
/// Chunks that have left the sources.
fn sent(domain: &Domain) -> u64 {
    ["source", "other"].map(|source| domain.at(source).sender().chunks.0).iter().sum()
}

#[test]
fn each_chunk_leaves_its_source_once_for_receivers_that_come_at_one_time() {
    for (receivers, spread) in [(4, 600), (16, 2_000)] {
        let mut domain = crowd(receivers, receivers + spread, |_| {});
        let fetches: Vec<_> = (0..receivers)
            .map(|number| {
                let label = format!("receiver{number}");
                let (id, content) = domain.fetch(&label, "/lab/file");
                domain.run(ms(spread / (receivers - 1)));
                (label, id, content)
            })
            .collect();
        for (label, id, content) in fetches {
            domain.finish(&label, id, 120);
            assert_eq!(content.finished(&name("/lab/file")).unwrap().len(), BYTES);
            assert_eq!(domain.report(&label, id).duplicate_bytes, 0);
        }
        assert!(sent(&domain) <= 9, "{} chunks left the source", sent(&domain));
        domain.run(Duration::from_secs(2));
        domain.assert_conservation();
    }
}

#[test]
fn those_who_joined_go_to_a_source_as_soon_as_what_arrives_stops() {
    for (stop, requests_max) in
        [("cancel", REQUESTS_MAX), ("leave", REQUESTS_MAX), ("source", REQUESTS_MAX), ("leave", 0)]
    {
        let mut domain = crowd(4, 7, |config| config.pending_requests_max = requests_max);
        let (first, _) = domain.fetch("receiver0", "/lab/file");
        domain.run(ms(200));
        let fetches: Vec<_> =
            (1..4).map(|number| (number, domain.fetch(&format!("receiver{number}"), "/lab/file"))).collect();
        domain.run(ms(1_800));
        match stop {
            "cancel" => domain.with("receiver0", |node, now| node.cancel(now, first)),
            "leave" => domain.cut("router", "receiver0"),
            _ => domain.cut("source", "router"),
        }
        let mut last = 0.0_f64;
        for (number, (id, content)) in fetches {
            last = last.max(domain.finish(&format!("receiver{number}"), id, 60).as_secs_f64());
            assert_eq!(content.finished(&name("/lab/file")).unwrap().len(), BYTES);
        }
        let (sent, joins) = (sent(&domain), domain.at("router").joined_requests());
        println!(
            "{stop}, {requests_max} requests: last {last:.2} s of {IDEAL:.2}, {sent} chunks sent, {joins:?} joined"
        );
        match requests_max {
            0 => assert!(joins.0 == 0 && sent >= 20, "{sent} chunks"),
            _ => assert!(joins.0 >= 3 && sent < 14 && last < IDEAL + 1.2, "{stop}: {last} s, {sent} chunks"),
        }
    }
}

/// ```text
///   server ── core ── gate ─ ─ ─ radio0, radio1, …
/// ```
/// The gate's buffer holds eight chunks for all radios.
#[test]
fn receivers_on_radios_share_what_arrives_and_do_not_wait_for_each_other() {
    let radios: [&[u64]; 5] =
        [&[2_000; 5], &[500, 4_000], &[4_000, 500], &[1_900, 2_000, 2_100], &[500, 2_000, 4_000, 2_000]];
    for kbps in radios {
        let mut domain = Domain::drawn_with(1, &["server --1000,5-- core* --1000,20-- gate*"], |_, config| {
            config.pending_requests_max = REQUESTS_MAX;
        });
        for (number, kbps) in kbps.iter().enumerate() {
            domain.node(&format!("radio{number}"), |_| {});
            let mut radio = LinkConfig::new(Rate::from_bits_per_second(kbps * 1_000), ms(10));
            radio.queue_bytes = 64 << 10;
            domain.link_with("gate", &format!("radio{number}"), radio);
        }
        let bytes = 40_000_000;
        domain.publish("server", object("/lab/film", random_bytes(bytes, 1)));
        domain.run(Duration::from_secs(3));
        let labels = (0..kbps.len()).map(|number| format!("radio{number}"));
        let fetches: Vec<_> = labels.map(|label| (domain.fetch(&label, "/lab/film").0, label)).collect();
        let times = fetches.iter().zip(kbps).map(|((id, label), kbps)| {
            let ideal = bytes as f64 * 8.0 / 1e3 / *kbps as f64;
            domain.finish(label, *id, 800).as_secs_f64() / ideal
        });
        let times: Vec<f64> = times.collect();
        let (sent, joined) = (domain.at("server").sender().chunks, domain.at("gate").joined_requests().0);
        println!("{kbps:?} kbit/s: {times:.3?} times the ideal, {sent:?} chunks sent, {joined} joined");
        assert!(times.iter().all(|time| *time < 1.08), "{kbps:?}: {times:.3?}");
        assert!(sent.0 <= 42 && joined == kbps.len() as u64 - 1, "{kbps:?}: {sent:?} chunks");
    }
}

//! Receivers that fetch one object at about the same time through one router.
use super::*;
use tributary_core::ByteCount;

const NAME: &str = "/lab/file";
const BYTES: usize = 8 << 20;
/// The rate of the publisher's link in Mbit/s.
const RATE: u64 = 16;

/// Seconds that each of `receivers` needs who start evenly within `spread` seconds, in ascending order, and how often the
/// file leaves the publisher.
fn crowd(seed: u64, receivers: u32, spread: f64, cache: ByteCount) -> (Vec<f64>, f64) {
    let mut domain = Domain::new(seed);
    domain.node("hub", |config| {
        (config.router, config.resolver, config.topology_manager) = (true, true, Some(10));
        config.cache_bytes = cache;
    });
    domain.node("publisher", |_| {});
    domain.link("publisher", "hub", RATE, 5);
    let labels: Vec<String> = (0..receivers).map(|number| format!("receiver-{number}")).collect();
    for label in &labels {
        domain.node(label, |_| {});
        domain.link(label, "hub", 1_000, 0);
    }
    let bytes = random_bytes(BYTES, 3);
    domain.publish("publisher", object(NAME, bytes.clone()));
    domain.run(3.0);
    let sent = |domain: &Domain| {
        let status = domain.net.node(domain.nodes["publisher"]).status(domain.net.now());
        status.faces.iter().map(|face| face.sent.1.0).sum::<u64>()
    };
    let before = sent(&domain);
    let mut fetches = Vec::new();
    for label in &labels {
        fetches.push((label, domain.net.now(), domain.fetch(label, NAME)));
        domain.run(spread / f64::from(receivers - 1));
    }
    let mut times: Vec<f64> = fetches
        .into_iter()
        .map(|(label, begun, (id, content))| {
            let report = domain.finish(label, id, 200.0);
            assert_eq!(content.finished(&name(NAME)), Some(bytes.clone()), "{label}");
            report.ended.unwrap().since(begun).as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times, (sent(&domain) - before) as f64 / BYTES as f64)
}

#[test]
fn receivers_behind_one_router_need_as_long_as_one_of_them() {
    // `CROWD=all` is the grid of the results, `CROWD_SEEDS=20` more cases.
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let grid: Vec<(u32, f64)> = match std::env::var("CROWD") {
        Ok(_) => [2, 3, 4, 8, 16].iter().flat_map(|count| [0.0, 0.6, 2.0].map(|spread| (*count, spread))).collect(),
        Err(_) => vec![(2, 2.0), (4, 0.6), (16, 0.0)],
    };
    let alone = BYTES as f64 * 8.0 / (RATE as f64 * 1e6);
    let mut failures = Vec::new();
    for seed in 1..=number("CROWD_SEEDS").unwrap_or(1) {
        for &(count, spread) in &grid {
            for cache in [ByteCount(64 << 20), ByteCount(0)] {
                let (times, copies) = crowd(seed, count, spread, cache);
                let (median, last) = (times[times.len() / 2], times[times.len() - 1]);
                // Without a cache each gets its own copy.
                let ideal = alone * if cache.0 == 0 { f64::from(count) } else { 1.0 };
                let line = format!(
                    "seed {seed}, {count} receivers within {spread} s, cache {} MiB: median {median:.2} s, last {last:.2} s, \
                     {:.2} and {:.2} times the ideal and the median, {copies:.2} copies",
                    cache.0 >> 20,
                    last / ideal,
                    last / median
                );
                println!("{line}");
                // Packets lost while receivers begin are requested again.
                let is_once = cache.0 == 0 || copies < 1.5;
                if last > 1.3 * ideal || last > 1.3 * median || !is_once {
                    failures.push(line);
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

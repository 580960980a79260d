//! The default window behind token buckets: shapers with a queue, and policers without one (`core::link::TokenBucket`).
//!
//! `BUCKET_SEEDS=10 cargo test --release -p trib-transport --test world buckets -- --nocapture`
use super::*;

const MBPS: u64 = 16;
/// Seconds at that rate.
const SECONDS: u64 = 15;

/// Loss and use of one fetch behind a bucket of `burst_bytes` with a queue of `queue_bytes`.
fn fetch(burst_bytes: u64, queue_bytes: u64, rtt_ms: u64, seed: u64) -> (f64, f64) {
    let mut world = World::new((MBPS * SECONDS * 125_000) as usize, TransferConfig::default(), seed);
    let source = world.source(Conduct::Honest);
    let rate = Rate::from_mbps(MBPS);
    let delay = Duration::from_micros(rtt_ms * 500 + seed * 7);
    world.path(source, LinkConfig { burst_bytes, queue_bytes, ..LinkConfig::new(rate, delay) });
    world.offer();
    let report = world.run(Duration::from_secs(SECONDS * 20));
    world.assert_complete();
    let path = &report.paths[0];
    let carried = path.bytes as f64 * 1_500.0 / 1_443.0;
    let used = carried / (world.now.as_secs_f64() * 125_000.0 * MBPS as f64);
    (path.lost_packets as f64 / path.requested_packets as f64, used)
}

#[test]
fn buckets_are_found_out_and_stayed_under() {
    let seeds = std::env::var("BUCKET_SEEDS").map_or(1, |seeds| seeds.parse().unwrap());
    let mut failed = Vec::new();
    // `tc qdisc … tbf burst 32kb latency 50ms`, and a policer with a bucket of 16 kB: a packet may wait for its token.
    for (label, burst, queue) in [("shaper", 32_768, 100_000), ("policer", 16_000, 1_500)] {
        for rtt_ms in [1, 5, 10, 40, 100] {
            let outcomes: Vec<(f64, f64)> = (1..=seeds).map(|seed| fetch(burst, queue, rtt_ms, seed)).collect();
            let lost = outcomes.iter().map(|(lost, _)| *lost).fold(0.0, f64::max);
            let used = outcomes.iter().map(|(_, used)| *used).fold(1.0, f64::min);
            println!("{label}, round trip {rtt_ms} ms: at most {lost:.4} lost, at least {used:.3} used");
            // Longer paths are not watched for policers, and start with a larger overshoot.
            let lost_max = match (label, rtt_ms) {
                (_, ..=10) => 0.015,
                ("shaper", _) => 0.035,
                _ => 0.15,
            };
            if lost > lost_max || used < 0.95 {
                failed.push((label, rtt_ms));
            }
        }
    }
    assert_eq!(failed, []);
}

//! The default window's distinction between random loss and overflow, over many seeds.
//!
//! `LOSS_SEEDS=20 cargo test --release -p trib-transport --test world losses -- --nocapture`
use super::{shared::Contest, *};
use tributary_core::link::{QueueDiscipline, queue::red::RedConfig};

const MBPS: u64 = 20;
const RTT_MS: u64 = 54;
const SECONDS: u64 = 15;
/// When the flows start.
const STARTS_MS: [u64; 4] = [0, 700, 1_500, 3_000];

/// A link, the part of it left by random loss, and the number of flows that share it.
struct Scenario {
    label: String,
    narrow: LinkConfig,
    request_loss: Loss,
    left: f64,
    flows: usize,
    request_packets_max: u8,
}

/// What became of one run.
#[derive(Clone, Copy)]
struct Outcome {
    /// A share of the link's rate after random loss.
    used: f64,
    /// A share of all requested packets.
    lost: f64,
}

impl Scenario {
    fn lossy(label: String, loss: Loss, left: f64) -> Scenario {
        let mut narrow = link(MBPS, RTT_MS, 0.0);
        narrow.loss = loss.clone();
        Scenario { label, narrow, request_loss: loss, left, flows: 1, request_packets_max: REQUEST_PACKETS_MAX }
    }
    fn random(loss: f64) -> Scenario {
        Scenario::lossy(format!("{:.0} % lost each way", loss * 100.0), Loss::Bernoulli(loss), 1.0 - loss)
    }
    /// The remaining rate of an exchange over two links that lose two fifths each way, where each packet has its
    /// request.
    fn most() -> Scenario {
        Scenario { request_packets_max: 1, ..Scenario::random(0.64) }
    }
    /// Bursts of ten packets on average, in which half is lost.
    fn bursts(loss: f64) -> Scenario {
        let good_to_bad = 0.1 * loss / (0.5 - loss);
        let chain = Loss::GilbertElliott { good_to_bad, bad_to_good: 0.1, loss_good: 0.0, loss_bad: 0.5 };
        Scenario::lossy(format!("{:.0} % each way in bursts", loss * 100.0), chain, 1.0 - loss)
    }
    fn drop_tail(products: f64, flows: usize) -> Scenario {
        let mut narrow = link(MBPS, RTT_MS, 0.0);
        narrow.queue_bytes = (Rate::from_mbps(MBPS).bytes_in(Duration::from_millis(RTT_MS)) as f64 * products) as u64;
        let label = format!("queue of {products} products, flows: {flows}");
        Scenario { label, narrow, request_loss: Loss::None, left: 1.0, flows, request_packets_max: REQUEST_PACKETS_MAX }
    }
    fn early(flows: usize) -> Scenario {
        let mut narrow = link(MBPS, RTT_MS, 0.0);
        narrow.queue_bytes = 250_000;
        narrow.discipline = QueueDiscipline::Red(RedConfig::DEFAULT);
        Scenario {
            label: format!("RED, flows: {flows}"),
            narrow,
            request_loss: Loss::None,
            left: 1.0,
            flows,
            request_packets_max: REQUEST_PACKETS_MAX,
        }
    }
    fn run(&self, object: &MemoryObject, seed: u64) -> Outcome {
        let mut contest = Contest::seeded(self.narrow.clone(), object.clone(), seed);
        contest.request_loss = self.request_loss.clone();
        for (start, index) in STARTS_MS[..self.flows].iter().zip(0..) {
            // A little later, so that drop-tail queues do not see the same in each run.
            contest.run_until(Time::from_millis(start + index * seed * 13));
            contest.add(
                TransferConfig { request_packets_max: self.request_packets_max, ..TransferConfig::default() },
                &[0],
            );
        }
        contest.run_until(Time::from_millis(SECONDS * 1000));
        let paths = contest.paths();
        let sum = |count: fn(&PathReport) -> u64| paths.iter().map(count).sum::<u64>() as f64;
        let capacity = (MBPS * SECONDS * 125_000) as f64 * self.left * 1441.0 / (1441.0 + 57.0);
        Outcome {
            used: sum(|path| path.bytes) / capacity,
            lost: sum(|path| path.lost_packets) / sum(|path| path.requested_packets),
        }
    }
}

/// A node's default.
const REQUEST_PACKETS_MAX: u8 = 64;

fn median_and(values: impl Iterator<Item = f64>, worst: fn(f64, f64) -> f64) -> [f64; 2] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    [values[values.len() / 2], values.iter().copied().reduce(worst).unwrap()]
}

#[test]
fn what_chance_takes_is_made_up_for_and_what_queues_drop_is_not() {
    let seeds = std::env::var("LOSS_SEEDS").map_or(1, |seeds| seeds.parse().unwrap());
    let object = MemoryObject::new(name(), random_bytes((MBPS * SECONDS * 125_000) as usize, 3), &key()).unwrap();
    let scenarios = [0.01, 0.02, 0.05, 0.1, 0.2, 0.4].map(Scenario::random).into_iter();
    let scenarios = scenarios.chain([0.02, 0.05, 0.1].map(Scenario::bursts));
    let scenarios = scenarios.chain([0.25, 0.6].into_iter().flat_map(|q| [1, 2, 4].map(|n| Scenario::drop_tail(q, n))));
    let mut failed = Vec::new();
    for scenario in scenarios.chain([1, 2, 4].map(Scenario::early)) {
        let outcomes: Vec<Outcome> = (1..=seeds).map(|seed| scenario.run(&object, seed)).collect();
        let used = median_and(outcomes.iter().map(|outcome| outcome.used), f64::min);
        let lost = median_and(outcomes.iter().map(|outcome| outcome.lost), f64::max);
        let Scenario { label, left, .. } = scenario;
        println!("{label:34} used {:.3}, worst {:.3}   lost {:.3}, worst {:.3}", used[0], used[1], lost[0], lost[1]);
        let (used_min, lost_max) = if left < 1.0 { (0.75, 0.75) } else { (0.9, 0.4) };
        if used[0] < used_min || lost[0] > lost_max {
            failed.push(label);
        }
    }
    assert_eq!(failed, [""; 0]);
}

/// In Drain more is in flight than the path delivers while losses are compensated: it did not end, and the rate fell
/// from round to round (median below a half).
#[test]
fn where_seven_of_eight_are_lost_the_rest_of_the_link_is_used() {
    let seeds = std::env::var("LOSS_SEEDS").map_or(7, |seeds| seeds.parse().unwrap());
    let object = MemoryObject::new(name(), random_bytes((MBPS * SECONDS * 50_000) as usize, 3), &key()).unwrap();
    let outcomes: Vec<Outcome> = (1..=seeds).map(|seed| Scenario::most().run(&object, seed)).collect();
    let used = median_and(outcomes.iter().map(|outcome| outcome.used), f64::min);
    assert!(used[0] > 0.7 && used[1] > 0.3, "{used:?}");
}

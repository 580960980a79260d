//! Bad networks drawn from a seed, and seeds that can be replayed.
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use tributary_core::{
    Duration, Node, Random, Rate, Time,
    link::{LinkChange, LinkConfig, LinkState, Loss, Reorder},
};
use tributary_sim::{Connection, Network};

/// Runs `test` with `count` seeds, or with the one in the environment variable `TRIBUTARY_SEED`.
///
/// The first seed is 1, or the hexadecimal start of `TRIBUTARY_SEED_BASE`, where CI puts the hash of the commit. When a
/// seed fails, the command that replays it is printed, and the panic continues.
///
/// # Panics
/// If `test` does, or if one of the variables is not a number.
pub fn for_each_seed(name: &str, count: u64, test: impl Fn(u64)) {
    let first = match (std::env::var("TRIBUTARY_SEED"), std::env::var("TRIBUTARY_SEED_BASE")) {
        (Ok(seed), _) => return test(seed.parse().expect("TRIBUTARY_SEED is a decimal number")),
        (_, Ok(base)) => {
            let digits = base.get(..15).unwrap_or(&base);
            u64::from_str_radix(digits, 16).expect("TRIBUTARY_SEED_BASE starts with hexadecimal digits")
        }
        _ => 1,
    };
    for seed in first..first + count {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(seed))) {
            #[expect(clippy::print_stderr, reason = "the person who reads the failure needs the command")]
            {
                eprintln!("replay with: TRIBUTARY_SEED={seed} cargo test {name}");
            }
            resume_unwind(panic);
        }
    }
}

/// A link with a random choice of faults: each kind is present with probability one half (swarm testing).
pub fn hostile_link(random: &mut Random) -> LinkConfig {
    let mut config = LinkConfig {
        rate: random.chance(0.8).then(|| Rate::from_bits_per_second(1_000_000 + random.below(100_000_000))),
        delay: Duration::from_micros(random.below(50_000)),
        queue_bytes: 5_000 + random.below(500_000),
        ..LinkConfig::default()
    };
    if random.chance(0.5) {
        config.jitter = Duration::from_micros(random.below(20_000));
    }
    if random.chance(0.5) {
        config.loss = if random.chance(0.5) {
            Loss::Bernoulli(random.unit() * 0.2)
        } else {
            let (good_to_bad, bad_to_good) = (random.unit() * 0.05, 0.1 + random.unit() * 0.5);
            Loss::GilbertElliott { good_to_bad, bad_to_good, loss_good: 0.0, loss_bad: 0.5 + random.unit() * 0.5 }
        };
    }
    if random.chance(0.5) {
        let delay = Duration::from_micros(random.below(30_000));
        config.reorder = Reorder { probability: random.unit() * 0.2, delay };
    }
    if random.chance(0.5) {
        config.duplicate = random.unit() * 0.1;
    }
    if random.chance(0.5) {
        config.corrupt = random.unit() * 0.05;
    }
    config
}

/// Plans cuts of `connection` at random times before `end`; the last one is mended by then.
pub fn plan_outages<N: Node>(net: &mut Network<N>, connection: Connection, end: Time, random: &mut Random) {
    let mut time = net.now();
    loop {
        let down = time + Duration::from_millis(100 + random.below(5_000));
        let up = down + Duration::from_millis(1 + random.below(2_000));
        if up >= end {
            return;
        }
        net.outage(connection, down, up);
        time = up;
    }
}

/// Begins the phase in which everything must finish: from `time` on the link is up and loses nothing.
pub fn plan_calm<N: Node>(net: &mut Network<N>, connection: Connection, time: Time) {
    net.change_at(time, connection, LinkChange::State(LinkState::Up));
    net.change_at(time, connection, LinkChange::Loss(Loss::None));
}

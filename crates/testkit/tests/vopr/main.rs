//! Fault runs of the PSI family in short: seeds that once found something, some fresh ones, and the canaries.
#![allow(clippy::print_stdout, reason = "a test: what it has seen is worth showing")]
use tributary_testkit::vopr::{Canary, FaultKind, Finding, Options, Totals, psi::Psi, run_seed};

/// `seed # what it found`, one a line; what a line `# open: seed …` tells of is found and not mended yet.
const SEEDS: &str = include_str!("seeds.txt");

fn check(seeds: impl IntoIterator<Item = u64>, options: &Options) -> Totals {
    let mut totals = Totals::default();
    for seed in seeds {
        match run_seed::<Psi>(seed, options) {
            Ok(report) => totals.add(&report),
            Err(Finding { seed, message, place }) => {
                panic!("{message}\n  at {place}\n  replay: cargo xtask vopr --family psi --seed {seed} --trace")
            }
        }
    }
    totals
}

#[test]
fn seeds_that_once_found_something_find_nothing_any_more() {
    let seeds = SEEDS.lines().map(|line| line.split('#').next().unwrap_or("").trim()).filter(|seed| !seed.is_empty());
    let seeds: Vec<u64> = seeds.map(|seed| seed.parse().expect("a decimal number")).collect();
    let totals = check(seeds, &Options::default());
    println!("{totals:?}");
    assert!(totals.completed > 0);
}

#[test]
fn fresh_seeds_find_nothing_and_repeat_themselves() {
    // CI puts the hash of the commit there, so that every commit sees seeds of its own.
    let base = std::env::var("TRIBUTARY_SEED_BASE").ok();
    let first = base.and_then(|hex| u64::from_str_radix(hex.get(..12)?, 16).ok()).unwrap_or(5_000);
    let open = |seed: &u64| SEEDS.lines().any(|line| line.starts_with(&format!("# open: {seed} ")));
    let totals =
        check((first..first + 8).filter(|seed| !open(seed)), &Options { repeat_every: 4, ..Options::default() });
    println!("{totals:?}");
}

/// What a canary makes the checkers find within some seeds.
fn sung(canary: Canary) -> Option<Finding> {
    let none = std::iter::empty::<FaultKind>().collect();
    let options = Options { canary: Some(canary), only: Some(none), repeat_every: 1, ..Options::default() };
    (1..=6).find_map(|seed| run_seed::<Psi>(seed, &options).err())
}

#[test]
fn every_canary_is_heard() {
    for (canary, expected) in [
        (Canary::BadByte, "with bytes that nobody published"),
        (Canary::Vanish, "packets to"),
        (Canary::EndTwice, "completed after it ended"),
        (Canary::Deaf, "liveness"),
        (Canary::Chatter, "chatter"),
        (Canary::Moody, "two runs differ"),
    ] {
        let finding = sung(canary);
        let heard = finding.as_ref().is_some_and(|finding| finding.message.contains(expected));
        assert!(heard, "{canary}: {finding:?}");
    }
}

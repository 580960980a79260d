//! Fault runs of every family in short: seeds that once found something, some fresh ones, and the canaries.
#![allow(clippy::print_stdout, reason = "a test: what it has seen is worth showing")]
use tributary_testkit::vopr::{
    Canary, Family, FaultKind, Finding, Options, Profile, Totals, mf::Mf, ndn::Ndn, psi::Psi, run_seed,
};

/// `seed # finding`, one a line; a line `# open: seed …` is a finding that is not fixed yet. Plans of seeds before a
/// line [`WITH_GROUPS`] are run without groups, and seeds before a line [`AS_PRODUCT`] with the settings and faults of
/// the laboratory, as they were found.
fn found<F: Family>() -> &'static str {
    match F::NAME {
        Psi::NAME => include_str!("seeds/psi.txt"),
        Ndn::NAME => include_str!("seeds/ndn.txt"),
        Mf::NAME => include_str!("seeds/mf.txt"),
        other => panic!("no seeds are kept for {other}"),
    }
}

fn check<F: Family>(seeds: impl IntoIterator<Item = u64>, options: &Options) -> Totals {
    let mut totals = Totals::default();
    let mut findings = Vec::new();
    for seed in seeds {
        match run_seed::<F>(seed, options) {
            Ok(report) => totals.add(&report),
            Err(Finding { seed, message, place }) => {
                let (family, profile) = (F::NAME, options.profile);
                let without = if options.leaves_out_groups { " --without-groups" } else { "" };
                let certified = if options.is_certified { " --certified" } else { "" };
                findings.push(format!(
                    "{message}\n  at {place}\n  replay: cargo xtask vopr --family {family} --profile {profile} --seed {seed} \
                     --trace{without}{certified}"
                ));
            }
        }
    }
    assert!(findings.is_empty(), "{} findings\n{}", findings.len(), findings.join("\n"));
    println!("{}: {totals:?}", F::NAME);
    totals
}

const WITH_GROUPS: &str = "# With groups:";
const AS_PRODUCT: &str = "# As the product is:";

fn known<F: Family>() -> Totals {
    let (laboratory, product) = found::<F>().split_once(AS_PRODUCT).unwrap_or((found::<F>(), ""));
    let (without, with) = laboratory.split_once(WITH_GROUPS).unwrap_or((laboratory, ""));
    let run = |text: &str, options: Options| {
        let seeds = text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
        let seeds = seeds.filter(|seed| !seed.is_empty()).map(|seed| seed.parse().expect("a decimal number"));
        check::<F>(seeds, &options)
    };
    let laboratory = Options { profile: Profile::Laboratory, ..Options::default() };
    run(product, Options::default());
    run(with, laboratory.clone());
    run(without, Options { leaves_out_groups: true, ..laboratory })
}

fn fresh<F: Family>() -> Totals {
    // CI puts the hash of the commit there, so that every commit sees different seeds.
    let base = std::env::var("TRIBUTARY_SEED_BASE").ok();
    let first = base.and_then(|hex| u64::from_str_radix(hex.get(..12)?, 16).ok()).unwrap_or(5_000);
    let open = |seed: &u64| found::<F>().lines().any(|line| line.starts_with(&format!("# open: {seed} ")));
    let seeds = (first..first + 8).filter(|seed| !open(seed));
    check::<F>(seeds, &Options { repeat_every: 4, ..Options::default() })
}

/// In a network with an authority, where each node has a certificate.
fn certified<F: Family>() -> Totals {
    check::<F>(1..5, &Options { is_certified: true, ..Options::default() })
}

tributary_testkit::tests! {
    fn a_psi_network_of_certified_nodes_withstands_faults() = assert!(certified::<Psi>().completed > 0);
    fn an_ndn_network_of_certified_nodes_withstands_faults() = assert!(certified::<Ndn>().completed > 0);
    fn an_mf_network_of_certified_nodes_withstands_faults() = assert!(certified::<Mf>().completed > 0);
    fn seeds_that_once_found_something_in_psi_find_nothing_any_more() = assert!(known::<Psi>().completed > 0);
    fn seeds_that_once_found_something_in_ndn_find_nothing_any_more() = assert!(known::<Ndn>().completed > 0);
    fn seeds_that_once_found_something_in_mf_find_nothing_any_more() = assert!(known::<Mf>().completed > 0);
    fn fresh_seeds_of_psi_find_nothing_and_repeat_themselves() = fresh::<Psi>();
    fn fresh_seeds_of_ndn_find_nothing_and_repeat_themselves() = fresh::<Ndn>();
    fn fresh_seeds_of_mf_find_nothing_and_repeat_themselves() = fresh::<Mf>();
}

/// What a canary makes the checkers find within some seeds.
fn sung<F: Family>(canary: Canary) -> Option<Finding> {
    let none = std::iter::empty::<FaultKind>().collect();
    let options = Options { canary: Some(canary), only: Some(none), repeat_every: 1, ..Options::default() };
    (1..=6).find_map(|seed| run_seed::<F>(seed, &options).err())
}

fn hears_every_canary<F: Family>() {
    for (canary, expected) in [
        (Canary::BadByte, "with bytes that nobody published"),
        (Canary::Vanish, "packets to"),
        (Canary::EndTwice, "completed after it ended"),
        (Canary::Deaf, "liveness"),
        (Canary::Chatter, "chatter"),
        (Canary::Moody, "two runs differ"),
    ] {
        let finding = sung::<F>(canary);
        let heard = finding.as_ref().is_some_and(|finding| finding.message.contains(expected));
        assert!(heard, "{} {canary}: {finding:?}", F::NAME);
    }
}

tributary_testkit::tests! {
    fn every_canary_is_heard_in_psi() = hears_every_canary::<Psi>();
    fn every_canary_is_heard_in_ndn() = hears_every_canary::<Ndn>();
    fn every_canary_is_heard_in_mf() = hears_every_canary::<Mf>();
}

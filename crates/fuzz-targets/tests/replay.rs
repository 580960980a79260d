//! Replays the corpus of the fuzzers, and what once went wrong, through every target.
use fuzz_targets::{INPUT_BYTES_MAX, TARGETS, Target, seeds};
use std::{
    collections::BTreeSet,
    fs, panic,
    path::{Path, PathBuf},
};

/// Files per target at most, so that the repository stays small and this test short.
const FILES_MAX: usize = 64;

/// Targets that take milliseconds for each input: they get fewer variants.
const SLOW: [&str; 7] = ["psi_node", "mf_node", "mf_store", "ndn_node", "ndn_foreign", "node_config", "manifest"];

fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(kind)
}
/// The files of one target in the order of their names; nothing if there is no such folder.
fn files(kind: &str, target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(entries) = fs::read_dir(folder(kind).join(target)) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).expect("a readable file"))).collect()
}
/// Runs one input; a failure names where it came from and shows it, so that it can be kept as a regression.
#[expect(clippy::print_stderr, reason = "the test's output must show the input")]
fn replay(target: &str, run: Target, origin: &str, input: &[u8]) {
    if let Err(cause) = panic::catch_unwind(|| run(input)) {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        eprintln!("{target} fails on {origin}: {hex}");
        panic::resume_unwind(cause);
    }
}
/// The input, cut and with bits flipped; about `count` variants, spread evenly.
fn variants(input: &[u8], count: usize) -> impl Iterator<Item = (String, Vec<u8>)> {
    let step = input.len().div_ceil(count).max(1);
    let cuts = (0..input.len()).step_by(step).map(|cut| (format!("cut at {cut}"), input[..cut].to_vec()));
    let bits = input.len() * 8;
    let step = bits.div_ceil(count).max(1);
    let flips = (0..bits).step_by(step).enumerate().map(move |(number, at)| {
        // A step that is a multiple of eight would only ever flip one bit of each byte.
        let bit = (at + number % step).min(bits - 1);
        let mut flipped = input.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        (format!("bit {bit} flipped"), flipped)
    });
    cuts.chain(flips)
}

#[test]
fn every_input_of_the_corpus_keeps_every_promise() {
    for (target, run) in TARGETS {
        for (path, input) in files("corpus", target).into_iter().chain(files("regressions", target)) {
            replay(target, *run, &path.display().to_string(), &input);
        }
    }
}

#[test]
fn cut_and_flipped_inputs_keep_every_promise() {
    for (target, run) in TARGETS {
        let corpus = files("corpus", target);
        let all = if SLOW.contains(target) { 250 } else { 2_000 };
        let count = (all / corpus.len().max(1)).clamp(8, 256);
        for (path, input) in corpus.into_iter().chain(files("regressions", target)) {
            for (how, variant) in variants(&input, count) {
                replay(target, *run, &format!("{}, {how}", path.display()), &variant);
            }
        }
    }
}

#[test]
fn degenerate_inputs_keep_every_promise() {
    for (target, run) in TARGETS {
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            for length in [0, 1, 2, 3, 7, 64, 1_500, INPUT_BYTES_MAX] {
                replay(target, *run, &format!("{length} bytes of {byte}"), &vec![byte; length]);
            }
        }
    }
}

#[test]
fn every_target_has_a_corpus_with_its_seeds() {
    let seeded: BTreeSet<&str> = seeds::all().into_iter().map(|(target, ..)| target).collect();
    for (target, _) in TARGETS {
        let corpus = files("corpus", target);
        assert!(!corpus.is_empty(), "fuzz/corpus/{target} is empty: cargo run -p fuzz-targets --example seeds");
        assert!(corpus.len() <= FILES_MAX, "fuzz/corpus/{target} has {} files, at most {FILES_MAX}", corpus.len());
        for (path, input) in corpus.into_iter().chain(files("regressions", target)) {
            assert!(input.len() <= INPUT_BYTES_MAX, "{} has {} bytes", path.display(), input.len());
        }
        assert!(seeded.contains(target), "{target} has no seed in src/seeds.rs");
    }
    let known: BTreeSet<&str> = TARGETS.iter().map(|(target, _)| *target).collect();
    assert_eq!(known.len(), TARGETS.len(), "two targets of one name");
    for kind in ["corpus", "regressions"] {
        let Ok(entries) = fs::read_dir(folder(kind)) else { continue };
        for entry in entries {
            let name = entry.expect("a readable folder").file_name();
            assert!(name.to_str().is_some_and(|name| known.contains(name)), "fuzz/{kind}/{name:?} is of no target");
        }
    }
}

#[test]
fn seeds_as_they_are_made_today_keep_every_promise() {
    for (target, name, bytes) in seeds::all() {
        let (_, run) = TARGETS.iter().find(|(known, _)| *known == target).expect("a seed of a known target");
        replay(target, *run, &name, &bytes);
    }
}

#[test]
fn every_target_has_a_fuzzer_and_every_fuzzer_a_target() {
    let manifest = fs::read_to_string(folder("Cargo.toml")).expect("fuzz/Cargo.toml");
    for (target, _) in TARGETS {
        assert!(manifest.contains(&format!("name = \"{target}\"")), "fuzz/Cargo.toml has no fuzzer {target}");
        assert!(folder("fuzz_targets").join(format!("{target}.rs")).exists(), "no fuzz_targets/{target}.rs");
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}

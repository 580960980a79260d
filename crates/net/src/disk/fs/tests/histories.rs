//! How tests run random histories: some in each test run, many in a campaign, and one to replay.
//!
//! ```text
//! cargo test -p trib-net --lib histories                                   some
//! HISTORIES=100000 cargo test -p trib-net --lib histories                  a campaign of each kind
//! HISTORY=77 cargo test -p trib-net --lib disk::repository::histories_tests      one, with all that it does
//! ```
use std::{
    env, panic,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tributary_core::Random;

use super::{super::FileSystem, Faults, SimulatedDisk};

/// A machine and the process that runs on it.
#[derive(Debug)]
pub struct Machine {
    /// What the history is drawn from.
    pub random: Random,
    /// Its disk.
    pub disk: SimulatedDisk,
    /// The disk as the process sees it.
    pub fs: Arc<dyn FileSystem>,
    /// What fails while it is rough: nothing in some histories.
    pub faults: Faults,
    /// Whether the last process ended by a power cut.
    pub was_power_cut: bool,
}

impl Machine {
    /// The machine of one history.
    pub fn new(seed: u64) -> Machine {
        let mut random = Random::new(seed, 0);
        let disk = SimulatedDisk::new(seed);
        let is_rough = random.chance(0.6);
        let mut rare = |most: f64| if is_rough && random.chance(0.5) { most * random.unit() } else { 0.0 };
        let faults = Faults {
            read: rare(0.02),
            write: rare(0.1),
            full: rare(0.1),
            short: rare(0.3),
            sync: rare(0.2),
            change: rare(0.1),
        };
        let fs = disk.start();
        Machine { random, disk, fs, faults, was_power_cut: false }
    }
    /// Makes the following operations fail at random, and perhaps ends the process within one.
    pub fn be_rough(&mut self) {
        self.disk.set_faults(self.faults);
        if self.random.chance(0.3) {
            let operations = 1 + self.random.below(60);
            trace(|| format!("stops in operation {operations}"));
            self.disk.stop_after(operations);
        }
    }
    /// Ends the process, by a kill or a power cut, and starts another one on which nothing fails.
    pub fn restart(&mut self) {
        self.was_power_cut = self.random.chance(0.6);
        match self.was_power_cut {
            true => self.disk.cut_power(),
            false => self.disk.kill(),
        }
        trace(|| format!("restarts, power cut: {}", self.was_power_cut));
        self.disk.set_faults(Faults::NONE);
        self.disk.stop_after(u64::MAX);
        self.fs = self.disk.start();
    }
}

/// Runs `count` histories of `kind` from seed 0 on, or as the environment sets, on all processors.
///
/// # Panics
/// If one fails, with the seed and the command that replays it.
pub fn run(kind: &str, count: u64, history: impl Fn(u64) + panic::RefUnwindSafe + Sync) {
    let number = |variable: &str| env::var(variable).ok().and_then(|text| text.parse().ok());
    if let Some(seed) = number("HISTORY") {
        return history(seed);
    }
    let first = number("HISTORIES_FROM").unwrap_or(0);
    let last = first + number("HISTORIES").unwrap_or(count);
    let (next, failed) = (AtomicU64::new(first), AtomicU64::new(u64::MAX));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= last || failed.load(Ordering::Relaxed) != u64::MAX {
                        return;
                    }
                    if panic::catch_unwind(|| history(seed)).is_err() {
                        failed.fetch_min(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner();
    assert!(
        failed == u64::MAX,
        "history {failed} of '{kind}' breaks a promise, number {} of this run; replay it: HISTORY={failed} cargo test -p {} --lib histories",
        failed - first + 1,
        env::var("CARGO_PKG_NAME").unwrap_or_default(),
    );
}
/// Whether a history is replayed with a trace of its operations.
fn is_traced() -> bool {
    env::var_os("HISTORY").is_some()
}
/// Prints a step of a history, if it is replayed.
#[expect(clippy::print_stderr, reason = "for whoever runs the test")]
pub fn trace(what: impl FnOnce() -> String) {
    if is_traced() {
        eprintln!("{}", what());
    }
}

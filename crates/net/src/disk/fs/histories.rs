//! How tests run random histories: some in each test run, many in a campaign, and one to replay.
//!
//! ```text
//! cargo test -p tributary-net --lib histories                                   some
//! HISTORIES=100000 cargo test -p tributary-net --lib histories                  a campaign of each kind
//! HISTORY=77 cargo test -p tributary-net --lib disk::repository::histories      one, with all that it does
//! ```
use std::{env, panic, sync::atomic::AtomicU64, sync::atomic::Ordering};

/// Runs `count` histories of `kind` from seed 0 on, or as the environment says, on all processors.
///
/// # Panics
/// If one fails, with the seed and what replays it.
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
/// Whether a history is replayed, and is to tell what it does.
pub fn is_traced() -> bool {
    env::var_os("HISTORY").is_some()
}

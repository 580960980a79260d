//! Nonces of Interests that are no longer pending: an Interest that returns with one of them has looped.
use alloc::collections::VecDeque;

use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;
use tributary_core::{Duration, Time};

/// Remembers hashes of name and nonce for a while.
#[derive(Clone, Debug, Default)]
pub struct DeadNonces {
    set: HashSet<u64, FxBuildHasher>,
    order: VecDeque<(Time, u64)>,
    lifetime: Duration,
    entries_max: usize,
}

impl DeadNonces {
    /// Remembers for `lifetime` (NFD: 6 s) but never more than `entries_max`.
    pub fn new(lifetime: Duration, entries_max: usize) -> Self {
        DeadNonces { set: HashSet::with_hasher(FxBuildHasher), order: VecDeque::new(), lifetime, entries_max }
    }
    /// Remembers the hash of a name and a nonce.
    pub fn insert(&mut self, now: Time, hash: u64) {
        self.expire(now);
        if self.entries_max == 0 {
            return;
        }
        while self.order.len() >= self.entries_max {
            self.pop();
        }
        if self.set.insert(hash) {
            self.order.push_back((now, hash));
        }
    }
    /// Whether a name and a nonce were seen recently.
    pub fn contains(&self, hash: u64) -> bool {
        self.set.contains(&hash)
    }
    fn expire(&mut self, now: Time) {
        while self.order.front().is_some_and(|(since, _)| *since + self.lifetime <= now) {
            self.pop();
        }
    }
    fn pop(&mut self) {
        if let Some((_, hash)) = self.order.pop_front() {
            self.set.remove(&hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_old_or_too_much_is_forgotten() {
        let mut dead = DeadNonces::new(Duration::from_secs(6), 3);
        for hash in 1..=4 {
            dead.insert(Time::from_millis(hash), hash);
        }
        assert!(!dead.contains(1) && dead.contains(2) && dead.contains(4));
        dead.insert(Time::from_millis(6003), 9);
        assert!(!dead.contains(3) && dead.contains(4) && dead.contains(9));
    }
}

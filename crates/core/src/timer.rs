//! Deadlines by key.
use alloc::collections::{BTreeMap, BTreeSet};

use crate::Time;

/// A set of timers, each named by a key; setting a key again moves its deadline.
#[derive(Clone, Debug)]
pub struct TimerTable<K> {
    by_key: BTreeMap<K, Time>,
    by_time: BTreeSet<(Time, K)>,
}

impl<K: Ord + Clone> TimerTable<K> {
    /// No timers.
    pub fn new() -> Self {
        TimerTable { by_key: BTreeMap::new(), by_time: BTreeSet::new() }
    }
    /// Sets or moves the timer of `key`.
    pub fn set(&mut self, key: K, due: Time) {
        if let Some(old) = self.by_key.insert(key.clone(), due) {
            self.by_time.remove(&(old, key.clone()));
        }
        self.by_time.insert((due, key));
    }
    /// Stops the timer of `key`, if it runs.
    pub fn stop(&mut self, key: &K) {
        if let Some(old) = self.by_key.remove(key) {
            self.by_time.remove(&(old, key.clone()));
        }
    }
    /// When the timer of `key` is due.
    pub fn due(&self, key: &K) -> Option<Time> {
        self.by_key.get(key).copied()
    }
    /// The earliest timer.
    pub fn next(&self) -> Option<(Time, &K)> {
        self.by_time.first().map(|(due, key)| (*due, key))
    }
    /// Takes out one timer that is due at `now`, earliest first.
    pub fn pop_due(&mut self, now: Time) -> Option<K> {
        if self.by_time.first()?.0 > now {
            return None;
        }
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }
}
impl<K: Ord + Clone> Default for TimerTable<K> {
    fn default() -> Self {
        TimerTable::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_timer_fires_once_at_its_new_time() {
        let mut timers = TimerTable::new();
        timers.set('a', Time::from_millis(5));
        timers.set('b', Time::from_millis(6));
        timers.set('a', Time::from_millis(7));
        assert_eq!(timers.pop_due(Time::from_millis(5)), None);
        assert_eq!(timers.pop_due(Time::from_millis(9)), Some('b'));
        assert_eq!(timers.pop_due(Time::from_millis(9)), Some('a'));
        assert_eq!(timers.pop_due(Time::from_millis(9)), None);
    }
}

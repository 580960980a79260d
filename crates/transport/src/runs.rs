//! A set of packet numbers, kept as runs.
use alloc::collections::BTreeMap;

/// An ordered set of `u32` kept as disjoint, non-adjacent runs; small as long as the set is mostly contiguous.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunSet {
    /// First number → number after the last.
    runs: BTreeMap<u32, u32>,
    len: u64,
}

impl RunSet {
    /// The empty set.
    pub fn new() -> Self {
        RunSet::default()
    }
    /// How many numbers are in the set.
    pub fn len(&self) -> u64 {
        self.len
    }
    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
    /// Adds `first .. end`; numbers already there stay.
    pub fn insert(&mut self, first: u32, end: u32) {
        if first >= end {
            return;
        }
        let (mut first, mut end) = (first, end);
        while let Some((&start, &stop)) = self.runs.range(..=end).next_back() {
            if stop < first {
                break;
            }
            self.runs.remove(&start);
            self.len -= u64::from(stop - start);
            first = first.min(start);
            end = end.max(stop);
        }
        self.runs.insert(first, end);
        self.len += u64::from(end - first);
    }
    /// Takes out `first .. end`; numbers that are not there do not matter.
    pub fn remove(&mut self, first: u32, end: u32) {
        if first >= end {
            return;
        }
        while let Some((&start, &stop)) = self.runs.range(..end).next_back() {
            if stop <= first {
                break;
            }
            self.runs.remove(&start);
            self.len -= u64::from(stop - start);
            if stop > end {
                self.runs.insert(end, stop);
                self.len += u64::from(stop - end);
            }
            if start < first {
                self.runs.insert(start, first);
                self.len += u64::from(first - start);
                break;
            }
        }
    }
    /// The lowest run, as first number and number after the last.
    pub fn first_run(&self) -> Option<(u32, u32)> {
        self.runs.first_key_value().map(|(&first, &end)| (first, end))
    }
    /// The lowest run at or after `from`, or what of a run is: first number and number after the last.
    pub fn run_from(&self, from: u32) -> Option<(u32, u32)> {
        let before = self.runs.range(..=from).next_back().map(|(_, &end)| (from, end)).filter(|(from, end)| from < end);
        before.or_else(|| self.runs.range(from..).next().map(|(&first, &end)| (first, end)))
    }
    /// All runs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.runs.iter().map(|(&first, &end)| (first, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{collections::BTreeSet, vec::Vec};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_plain_set(steps in proptest::collection::vec((any::<bool>(), 0u32..200, 0u32..40), 0..80)) {
            let mut runs = RunSet::new();
            let mut oracle = BTreeSet::new();
            for (add, first, count) in steps {
                if add {
                    runs.insert(first, first + count);
                    oracle.extend(first..first + count);
                } else {
                    runs.remove(first, first + count);
                    oracle.retain(|n| !(first..first + count).contains(n));
                }
                let flat: Vec<u32> = runs.iter().flat_map(|(first, end)| first..end).collect();
                prop_assert_eq!(&flat, &oracle.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(runs.len(), oracle.len() as u64);
                prop_assert_eq!(runs.run_from(first).map(|(next, _)| next), oracle.range(first..).next().copied());
                prop_assert!(runs.iter().zip(runs.iter().skip(1)).all(|(a, b)| a.1 < b.0), "runs are not adjacent");
            }
        }
    }
}

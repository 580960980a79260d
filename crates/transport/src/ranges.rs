//! A set of packet numbers, kept as ranges.
use alloc::collections::BTreeMap;

/// An ordered set of `u32` kept as disjoint, non-adjacent ranges; small while the set is mostly contiguous.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// First number → number after the last.
    ranges: BTreeMap<u32, u32>,
    len: u64,
}

impl RangeSet {
    /// The empty set.
    pub fn new() -> Self {
        RangeSet::default()
    }
    /// How many numbers are in the set.
    pub fn len(&self) -> u64 {
        self.len
    }
    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
    /// Adds `first .. end`, including numbers that are already present.
    pub fn insert(&mut self, first: u32, end: u32) {
        if first >= end {
            return;
        }
        let (mut first, mut end) = (first, end);
        while let Some((&start, &stop)) = self.ranges.range(..=end).next_back() {
            if stop < first {
                break;
            }
            self.ranges.remove(&start);
            self.len -= u64::from(stop - start);
            first = first.min(start);
            end = end.max(stop);
        }
        self.ranges.insert(first, end);
        self.len += u64::from(end - first);
    }
    /// Removes `first .. end`; missing numbers are ignored.
    pub fn remove(&mut self, first: u32, end: u32) {
        if first >= end {
            return;
        }
        while let Some((&start, &stop)) = self.ranges.range(..end).next_back() {
            if stop <= first {
                break;
            }
            self.ranges.remove(&start);
            self.len -= u64::from(stop - start);
            if stop > end {
                self.ranges.insert(end, stop);
                self.len += u64::from(stop - end);
            }
            if start < first {
                self.ranges.insert(start, first);
                self.len += u64::from(first - start);
                break;
            }
        }
    }
    /// The lowest range, as first number and number after the last.
    pub fn first_range(&self) -> Option<(u32, u32)> {
        self.ranges.first_key_value().map(|(&first, &end)| (first, end))
    }
    /// The lowest range at or after `from`, cut at `from` if it starts earlier: first number and end.
    pub fn range_from(&self, from: u32) -> Option<(u32, u32)> {
        let before =
            self.ranges.range(..=from).next_back().map(|(_, &end)| (from, end)).filter(|(from, end)| from < end);
        before.or_else(|| self.ranges.range(from..).next().map(|(&first, &end)| (first, end)))
    }
    /// Whether a number is in the set.
    pub fn contains(&self, number: u32) -> bool {
        self.ranges.range(..=number).next_back().is_some_and(|(_, &end)| number < end)
    }
    /// How many numbers of `first .. end` are in the set.
    pub fn len_between(&self, first: u32, end: u32) -> u64 {
        let (mut from, mut len) = (first, 0);
        while let Some((start, stop)) = self.range_from(from).filter(|(start, _)| *start < end) {
            len += u64::from(stop.min(end) - start);
            from = stop;
        }
        len
    }
    /// The ranges of `first .. end` that are not in the set, ascending.
    pub fn gaps(&self, first: u32, end: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut at = first;
        core::iter::from_fn(move || {
            while at < end {
                let (start, stop) = self.range_from(at).unwrap_or((end, end));
                let gap = (at, start.min(end));
                at = stop.min(end);
                if gap.0 < gap.1 {
                    return Some(gap);
                }
            }
            None
        })
    }
    /// All ranges, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.ranges.iter().map(|(&first, &end)| (first, end))
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
            let mut ranges = RangeSet::new();
            let mut oracle = BTreeSet::new();
            for (add, first, count) in steps {
                if add {
                    ranges.insert(first, first + count);
                    oracle.extend(first..first + count);
                } else {
                    ranges.remove(first, first + count);
                    oracle.retain(|n| !(first..first + count).contains(n));
                }
                let flat: Vec<u32> = ranges.iter().flat_map(|(first, end)| first..end).collect();
                prop_assert_eq!(&flat, &oracle.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(ranges.len(), oracle.len() as u64);
                prop_assert_eq!(ranges.range_from(first).map(|(next, _)| next), oracle.range(first..).next().copied());
                prop_assert!(ranges.iter().zip(ranges.iter().skip(1)).all(|(a, b)| a.1 < b.0), "runs are not adjacent");
            }
        }
    }
}

//! The forwarding table: prefixes and their next faces. Longest prefix match by hash: one lookup per depth with any
//! prefix, from the longest down.
use alloc::vec::Vec;

use tributary_content::Name;
use tributary_core::FaceId;

use super::{
    hash::{COMPONENTS_MAX, NameHasher, Prefixes},
    slab::Slab,
};
use crate::wire::NameView;

/// Maximum next hops of one prefix.
pub const NEXT_HOPS_MAX: usize = 64;

/// A face that leads to a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextHop {
    /// The face.
    pub face: FaceId,
    /// Its cost; lower is better.
    pub cost: u64,
}

/// The place of an entry; valid until the [`Fib::generation`] changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FibIndex(pub(crate) u32);

/// One prefix.
#[derive(Clone, Debug)]
pub struct FibEntry {
    /// The prefix.
    pub prefix: Name,
    /// Its hash, which names it in measurements.
    pub key: u64,
    /// Where it leads, cheapest first.
    pub next_hops: Vec<NextHop>,
    /// Which of the router's strategies decides.
    pub strategy: usize,
}

/// The forwarding table.
#[derive(Clone, Debug)]
pub struct Fib {
    hasher: NameHasher,
    entries: Slab<FibEntry>,
    /// Prefixes of each depth.
    depths: [u32; COMPONENTS_MAX + 1],
    /// Changes whenever a prefix is added or removed, which may invalidate earlier lookups.
    pub generation: u64,
    entries_max: usize,
}

impl Fib {
    /// An empty table for at most `entries_max` prefixes.
    pub fn new(hasher: NameHasher, entries_max: usize) -> Self {
        Fib { hasher, entries: Slab::default(), depths: [0; COMPONENTS_MAX + 1], generation: 0, entries_max }
    }
    /// Sets the next hops of `prefix`; an empty list removes it. False if the table is full.
    pub fn set(&mut self, prefix: &Name, next_hops: &[NextHop], strategy: usize) -> bool {
        let prefixes = self.hasher.prefixes(NameView::from(prefix));
        let key = prefixes.full;
        let found = self.find(key, prefix.as_tlv());
        let mut next_hops = next_hops.to_vec();
        next_hops.sort_by_key(|hop| (hop.cost, hop.face));
        next_hops.truncate(NEXT_HOPS_MAX);
        match (found, next_hops.is_empty()) {
            (Some(index), false) => {
                if let Some(entry) = self.entries.get_mut(index.0) {
                    entry.next_hops = next_hops;
                    entry.strategy = strategy;
                }
            }
            (Some(index), true) => {
                self.entries.remove(index.0);
                self.depths[prefixes.depth()] -= 1;
                self.generation += 1;
            }
            (None, true) => {}
            (None, false) => {
                if self.len() >= self.entries_max {
                    return false;
                }
                self.entries.insert(key, FibEntry { prefix: prefix.clone(), key, next_hops, strategy });
                self.depths[prefixes.depth()] += 1;
                self.generation += 1;
            }
        }
        true
    }
    /// The entry of the longest prefix of the name that `prefixes` belong to, and that `tlv` encodes.
    pub fn longest_match(&self, prefixes: &Prefixes, tlv: &[u8]) -> Option<FibIndex> {
        self.longest_match_from(prefixes, tlv, prefixes.depth())
    }
    /// The same among prefixes of at most `depth_max` components.
    pub fn longest_match_from(&self, prefixes: &Prefixes, tlv: &[u8], depth_max: usize) -> Option<FibIndex> {
        (0..=depth_max.min(prefixes.depth())).rev().find_map(|depth| self.match_at(prefixes, tlv, depth))
    }
    /// The entry of the prefix with exactly `depth` components.
    pub fn match_at(&self, prefixes: &Prefixes, tlv: &[u8], depth: usize) -> Option<FibIndex> {
        if self.depths[depth] == 0 {
            return None;
        }
        let (hash, end) = prefixes.at(depth);
        self.find(hash, &tlv[..end])
    }
    /// The entry of exactly this prefix.
    pub fn exact(&self, prefix: &Name) -> Option<&FibEntry> {
        let view = NameView::from(prefix);
        self.find(self.hasher.name(view), view.as_tlv()).map(|index| self.entry(index))
    }
    fn find(&self, hash: u64, tlv: &[u8]) -> Option<FibIndex> {
        self.entries.find(hash, |entry| entry.prefix.as_tlv() == tlv).map(FibIndex)
    }
    /// An entry that a look-up gave in this generation.
    ///
    /// # Panics
    /// If it was removed since.
    pub fn entry(&self, index: FibIndex) -> &FibEntry {
        self.entries.get(index.0).expect("an index is used in its generation only")
    }
    /// All entries, in no particular but always the same order.
    pub fn iter(&self) -> impl Iterator<Item = &FibEntry> {
        self.entries.iter().map(|(_, entry)| entry)
    }
    /// All entries, to change their strategies.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut FibEntry> {
        self.entries.iter_mut()
    }
    /// Prefixes in the table.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
    /// Whether the table has no prefix.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hop(face: u32) -> NextHop {
        NextHop { face: FaceId(face), cost: u64::from(face) }
    }
    fn lookup(fib: &Fib, hasher: &NameHasher, name: &Name) -> Option<FaceId> {
        let prefixes = hasher.prefixes(NameView::from(name));
        fib.longest_match(&prefixes, name.as_tlv()).map(|index| fib.entry(index).next_hops[0].face)
    }

    #[test]
    fn a_full_table_takes_no_new_prefix_but_changes_old_ones() {
        let mut fib = Fib::new(NameHasher::new([1, 2]), 1);
        let (a, b): (Name, Name) = ("/a".parse().unwrap(), "/b".parse().unwrap());
        assert!(fib.set(&a, &[hop(1)], 0) && !fib.set(&b, &[hop(1)], 0));
        let generation = fib.generation;
        assert!(fib.set(&a, &[hop(3), hop(2)], 0));
        assert_eq!((fib.exact(&a).unwrap().next_hops[0].face, fib.generation), (FaceId(2), generation));
        assert!(fib.set(&a, &[], 0) && fib.set(&b, &[hop(1)], 0) && fib.generation > generation);
    }

    #[test]
    fn of_too_many_next_hops_the_cheapest_stay() {
        let mut fib = Fib::new(NameHasher::new([1, 2]), 1);
        let hops: Vec<NextHop> = (1..=100).rev().map(hop).collect();
        assert!(fib.set(&Name::root(), &hops, 0));
        let kept = &fib.exact(&Name::root()).unwrap().next_hops;
        assert_eq!((kept.len(), kept[0], kept[NEXT_HOPS_MAX - 1]), (NEXT_HOPS_MAX, hop(1), hop(NEXT_HOPS_MAX as u32)));
    }

    proptest! {
        #[test]
        fn finds_what_trying_all_prefixes_finds(
            prefixes in proptest::collection::vec((proptest::collection::vec(0u8..4, 0..5), 0u32..9), 0..40),
            names in proptest::collection::vec(proptest::collection::vec(0u8..4, 0..7), 1..20),
        ) {
            let hasher = NameHasher::new([3, 4]);
            let name = |parts: &[u8]| parts.iter().try_fold(Name::root(), |name, part| name.child(&[*part])).unwrap();
            let mut fib = Fib::new(hasher, 1000);
            let mut model = alloc::collections::BTreeMap::new();
            for (parts, face) in &prefixes {
                // Face 0 means removal.
                let hops = if *face == 0 { Vec::new() } else { alloc::vec![hop(*face)] };
                fib.set(&name(parts), &hops, 0);
                if *face == 0 { model.remove(parts); } else { model.insert(parts.clone(), FaceId(*face)); }
                prop_assert_eq!(fib.len(), model.len());
            }
            for parts in &names {
                let expected = (0..=parts.len()).rev().find_map(|depth| model.get(&parts[..depth]).copied());
                prop_assert_eq!(lookup(&fib, &hasher, &name(parts)), expected);
            }
        }
    }
}

//! The prefixes registered for the published names: a common prefix of many names represents them all, so that a
//! publisher of 100,000 objects needs few routes at its neighbours.
use alloc::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    vec::Vec,
};
use tributary_content::Name;

/// Number of components next to a prefix with registrations behind each, from which on the prefix is registered
/// instead: a folder counts only its own children, so one with few of them claims no foreign names.
pub(super) const COMMON_AT: usize = 64;

#[derive(Default)]
pub(super) struct Cover {
    names: BTreeSet<Name>,
    registered: BTreeMap<Name, Registered>,
    /// How many are registered at and below each of their prefixes.
    within: BTreeMap<Name, usize>,
    /// Components next to a prefix with some of them behind, and their number.
    children: BTreeMap<Name, usize>,
    /// Prefixes that a neighbour does not let this node register.
    barred: BTreeSet<Name>,
    /// Whether prefixes may replace names.
    has_common: bool,
}
struct Registered {
    /// It represents all names below it, not one published name.
    is_common: bool,
    /// The published names that it represents.
    names: usize,
}

/// A change at the neighbours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// Register this prefix. Unneeded prefixes below it stay until it is confirmed.
    Register(Name),
    /// Withdraw this prefix and the remaining ones below it.
    Withdraw(Name),
}

impl Cover {
    /// Whether this prefix should be registered.
    pub(super) fn includes(&self, prefix: &Name) -> bool {
        self.registered.contains_key(prefix)
    }
    /// The prefixes that should be registered.
    pub(super) fn prefixes(&self) -> impl Iterator<Item = &Name> {
        self.registered.keys()
    }
    /// Whether this prefix is registered for all names below it.
    pub(super) fn is_common(&self, prefix: &Name) -> bool {
        self.registered.get(prefix).is_some_and(|entry| entry.is_common)
    }
    /// The common prefixes.
    #[cfg(test)]
    fn common(&self) -> impl Iterator<Item = &Name> {
        self.registered.iter().filter(|(_, entry)| entry.is_common).map(|(prefix, _)| prefix)
    }
    /// The prefix that is registered for a published name.
    pub(super) fn prefix_of(&self, name: &Name) -> Option<Name> {
        let common = (1..=name.len()).map(|depth| name.prefix(depth)).find(|prefix| self.is_common(prefix));
        common.or_else(|| self.includes(name).then(|| name.clone()))
    }
    /// From now on prefixes may replace names: all neighbours send returned Interests to other producers.
    pub(super) fn allow_common(&mut self) -> Vec<Change> {
        if core::mem::replace(&mut self.has_common, true) {
            return Vec::new();
        }
        let mut crowded: Vec<Name> =
            self.children.iter().filter(|(_, count)| **count >= COMMON_AT).map(|(prefix, _)| prefix.clone()).collect();
        // Longest first: a shared prefix below may make its parent less crowded.
        crowded.sort_by_key(|prefix| core::cmp::Reverse(prefix.len()));
        crowded.retain(|prefix| self.is_crowded(prefix));
        let mut changes = Vec::new();
        for prefix in crowded {
            if self.is_crowded(&prefix) {
                self.collapse(&prefix);
                changes.push(Change::Register(prefix));
            }
        }
        changes.retain(|change| matches!(change, Change::Register(prefix) if self.includes(prefix)));
        changes
    }
    /// Takes a published name.
    pub(super) fn add(&mut self, name: &Name) -> Vec<Change> {
        let is_new = self.names.insert(name.clone());
        if let Some(prefix) = self.prefix_of(name) {
            let entry = self.registered.get_mut(&prefix).expect("it is registered");
            if entry.is_common {
                entry.names += usize::from(is_new);
                return Vec::new();
            }
            // Registered again: its publisher asks whether the neighbours have it.
            return [Change::Register(prefix)].into();
        }
        self.insert(name.clone(), Registered { is_common: false, names: 1 });
        let mut registered = name.clone();
        // The common prefix is one more below those before it.
        while let Some(common) = self.crowded(&registered) {
            self.collapse(&common);
            registered = common;
        }
        [Change::Register(registered)].into()
    }
    /// Drops a name that is no longer published.
    pub(super) fn remove(&mut self, name: &Name) -> Vec<Change> {
        let Some(prefix) = self.prefix_of(name).filter(|_| self.names.remove(name)) else { return Vec::new() };
        let entry = self.registered.get_mut(&prefix).expect("it is registered");
        entry.names -= 1;
        if entry.names > 0 {
            return Vec::new();
        }
        self.take(&prefix);
        [Change::Withdraw(prefix)].into()
    }
    /// A neighbour refuses a common prefix: the names below it are registered without it.
    pub(super) fn refuse(&mut self, prefix: &Name) -> Vec<Change> {
        // Who may not register it may not register a shorter one.
        self.barred.extend((1..=prefix.len()).map(|depth| prefix.prefix(depth)));
        self.take(prefix);
        let names: Vec<Name> = below(&self.names, prefix).cloned().collect();
        names.iter().for_each(|name| _ = self.names.remove(name));
        let changes: Vec<Change> = names.iter().flat_map(|name| self.add(name)).collect();
        let mut all = Vec::from([Change::Withdraw(prefix.clone())]);
        // Some of them may have come under a longer prefix since.
        all.extend(changes.into_iter().filter(|change| matches!(change, Change::Register(of) if self.includes(of))));
        all
    }

    fn insert(&mut self, prefix: Name, entry: Registered) {
        for depth in (1..=prefix.len()).rev() {
            let within = self.within.entry(prefix.prefix(depth)).or_default();
            *within += 1;
            if *within == 1 && depth > 1 {
                *self.children.entry(prefix.prefix(depth - 1)).or_default() += 1;
            }
        }
        self.registered.insert(prefix, entry);
    }
    fn take(&mut self, prefix: &Name) -> Option<Registered> {
        let entry = self.registered.remove(prefix)?;
        for depth in (1..=prefix.len()).rev() {
            if count_down(&mut self.within, prefix.prefix(depth)) && depth > 1 {
                count_down(&mut self.children, prefix.prefix(depth - 1));
            }
        }
        Some(entry)
    }
    /// The longest prefix of `prefix` that has too many children.
    fn crowded(&self, prefix: &Name) -> Option<Name> {
        (1..prefix.len()).rev().map(|depth| prefix.prefix(depth)).find(|of| self.is_crowded(of))
    }
    fn is_crowded(&self, prefix: &Name) -> bool {
        let children = self.children.get(prefix).copied().unwrap_or_default();
        self.has_common && children >= COMMON_AT && !self.barred.contains(prefix)
    }
    /// Registers `prefix` instead of those at and below it.
    fn collapse(&mut self, prefix: &Name) {
        let inside = self.registered.range(prefix.clone()..).map(|(of, _)| of);
        let inside: Vec<Name> = inside.take_while(|of| prefix.is_prefix_of(of)).cloned().collect();
        let names = inside.iter().filter_map(|of| self.take(of)).map(|entry| entry.names).sum();
        self.insert(prefix.clone(), Registered { is_common: true, names });
    }
}

/// Whether the count has reached zero.
fn count_down(counts: &mut BTreeMap<Name, usize>, of: Name) -> bool {
    let Entry::Occupied(mut count) = counts.entry(of) else { return false };
    *count.get_mut() -= 1;
    let is_none = *count.get() == 0;
    if is_none {
        count.remove();
    }
    is_none
}
/// The names of a set at and below a prefix: they are next to each other.
pub(super) fn below<'a>(names: &'a BTreeSet<Name>, prefix: &'a Name) -> impl Iterator<Item = &'a Name> {
    names.range(prefix.clone()..).take_while(|name| prefix.is_prefix_of(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use proptest::prelude::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn many_names_become_one_prefix_and_few_stay_what_they_are() {
        let mut cover = Cover { has_common: true, ..Cover::default() };
        let file = |at: usize| name(&format!("/lab/data/{at}"));
        for at in 0..COMMON_AT - 1 {
            assert_eq!(cover.add(&file(at)), [Change::Register(file(at))]);
        }
        assert_eq!(cover.add(&file(COMMON_AT)), [Change::Register(name("/lab/data"))]);
        assert_eq!(cover.add(&file(COMMON_AT + 1)), [], "it is there already");
        assert_eq!(cover.add(&name("/lab/other")), [Change::Register(name("/lab/other"))]);
        assert!(cover.registered.keys().eq(&[name("/lab/data"), name("/lab/other")]));
        // It stays until nothing below it is published.
        for at in (0..COMMON_AT - 1).chain([COMMON_AT]) {
            assert_eq!(cover.remove(&file(at)), []);
        }
        assert_eq!(cover.remove(&file(COMMON_AT + 1)), [Change::Withdraw(name("/lab/data"))]);
        assert_eq!(cover.remove(&file(COMMON_AT + 1)), []);
        assert_eq!(cover.remove(&name("/lab/other")), [Change::Withdraw(name("/lab/other"))]);
        assert!(cover.within.is_empty() && cover.children.is_empty() && cover.names.is_empty());
    }

    #[test]
    fn many_folders_become_one_prefix_and_the_root_is_none() {
        let mut cover = Cover { has_common: true, ..Cover::default() };
        for (folder, file) in (0..100).flat_map(|folder| (0..100).map(move |file| (folder, file))) {
            cover.add(&name(&format!("/lab/{folder}/{file}")));
            cover.add(&name(&format!("/{folder}-{file}")));
        }
        assert_eq!(cover.common().cloned().collect::<Vec<_>>(), [name("/lab")]);
        assert_eq!(cover.registered.len(), 1 + 10_000);
    }

    #[test]
    fn folders_with_few_children_claim_nothing_of_others() {
        let mut cover = Cover { has_common: true, ..Cover::default() };
        for (kind, device) in ["temperature", "humidity"].into_iter().flat_map(|kind| (0..40).map(move |of| (kind, of)))
        {
            cover.add(&name(&format!("/sensors/{kind}/{device}")));
        }
        assert_eq!(cover.common().count(), 0);
    }

    #[test]
    fn what_was_registered_name_by_name_becomes_common_once_that_is_allowed() {
        let mut cover = Cover::default();
        for (folder, file) in (0..3).flat_map(|folder| (0..100).map(move |file| (folder, file))) {
            cover.add(&name(&format!("/lab/{folder}/{file}")));
        }
        assert_eq!(cover.registered.len(), 300);
        let folders: Vec<Change> = (0..3).map(|folder| Change::Register(name(&format!("/lab/{folder}")))).collect();
        assert_eq!(cover.allow_common(), folders);
        assert_eq!((cover.registered.len(), cover.allow_common()), (3, Vec::new()));
    }

    #[test]
    fn what_a_neighbour_refuses_is_registered_name_by_name_and_never_asked_for_again() {
        let mut cover = Cover { has_common: true, ..Cover::default() };
        let file = |at: usize| name(&format!("/lab/data/{at}"));
        (0..2 * COMMON_AT).for_each(|at| drop(cover.add(&file(at))));
        let changes = cover.refuse(&name("/lab/data"));
        assert_eq!(changes.len(), 1 + 2 * COMMON_AT);
        assert_eq!(changes[0], Change::Withdraw(name("/lab/data")));
        assert_eq!(cover.add(&file(1_000)), [Change::Register(file(1_000))]);
        (0..COMMON_AT).for_each(|at| drop(cover.add(&name(&format!("/lab/{at}")))));
        assert_eq!(cover.common().count(), 0);
    }

    proptest! {
        /// Each published name has one prefix that is registered for it, and nothing is registered for no name.
        #[test]
        fn every_name_is_covered_and_nothing_else_is(
            steps in proptest::collection::vec((0u8..8, 0u16..3, 0u16..400), 1..1_500),
        ) {
            let (mut cover, mut names) = (Cover { has_common: true, ..Cover::default() }, BTreeSet::new());
            let mut registered = BTreeSet::new();
            for (what, folder, file) in steps {
                let name = name(&format!("/a/{folder}/{file}"));
                let changes = match what {
                    0 | 1 => {
                        names.remove(&name);
                        cover.remove(&name)
                    }
                    2 if file < 4 => {
                        let common = cover.common().next().cloned();
                        common.map(|common| cover.refuse(&common)).unwrap_or_default()
                    }
                    _ => {
                        names.insert(name.clone());
                        cover.add(&name)
                    }
                };
                for change in changes {
                    match change {
                        Change::Register(prefix) => {
                            registered.retain(|of| !prefix.is_prefix_of(of) || cover.includes(of));
                            registered.insert(prefix);
                        }
                        Change::Withdraw(prefix) => {
                            registered.retain(|of| !prefix.is_prefix_of(of) || cover.includes(of));
                        }
                    }
                }
                prop_assert!(cover.registered.keys().eq(&registered));
                let stood_for: usize = cover.registered.values().map(|entry| entry.names).sum();
                prop_assert_eq!(stood_for, names.len());
                for name in &names {
                    let prefix = cover.prefix_of(name).unwrap();
                    prop_assert!(registered.contains(&prefix));
                }
            }
            names.iter().for_each(|name| drop(cover.remove(name)));
            prop_assert!(cover.registered.is_empty() && cover.within.is_empty() && cover.children.is_empty());
        }
    }
}

//! A record: everything that is known about one item or scope, as entries; the newest version of an entry wins.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use core::ops::Bound;

use tributary_content::Name;
use tributary_core::{Duration, NodeId, Time};
use tributary_transport::PathMetric;

use super::leases::Leases;
use crate::{
    ids::ItemId,
    wire::{ChildState, Entry, EntryKey, EntryValue, RecordUpdate, Wire, Writer},
};

/// An entry as it is held.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) version: u64,
    /// A newer version known to other nodes: its host must number beyond it.
    pub(super) floor: u64,
    /// When it falls: a live entry becomes a withdrawn one, and a withdrawn one is forgotten.
    pub(super) expires: Time,
    /// `None` once it was withdrawn or has expired. Kept for some time so that late duplicates do not revive it.
    pub(super) value: Option<EntryValue>,
}

/// One item or scope, or both halves of a name that is used as either.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) name: Name,
    pub(super) entries: BTreeMap<EntryKey, Held>,
    /// No entry expires before this time. Renewals may leave it too early, and then nothing expires when it fires.
    expiry: Time,
    /// Grows with every visible change of the listing; its upper bits count the successive acting nodes, so that a new
    /// one exceeds its predecessor even if it missed changes.
    pub(super) revision: u64,
    /// The version of the last registration with the parent scope.
    pub(super) registration: u64,
    /// Whether this node acts for the record; the fields below matter only then.
    pub(super) acting: bool,
    /// The last registration with the parent scope (`None` if unknown or failed), and when to repeat it.
    pub(super) registered: Option<ChildState>,
    pub(super) refresh_at: Time,
    /// Work for the next settling: matches to report, changes to notify, listings to send.
    pub(super) matches: BTreeSet<(NodeId, u32)>,
    pub(super) naming: Naming,
    pub(super) changed: BTreeSet<Vec<u8>>,
    pub(super) listings: BTreeSet<NodeId>,
    /// When to check whether the record may leave a node whose responsibility has ended; whether the query is out; and
    /// the fingerprint at which each other node holds it.
    pub(super) drop_at: Option<Time>,
    pub(super) requested: bool,
    pub(super) confirmed: BTreeMap<NodeId, u64>,
    /// Entries that are live.
    live: usize,
    /// The children and the subscriptions among them: the kinds that may be many.
    pub children: usize,
    /// The number of subscriptions to the item.
    pub subscriptions: usize,
}

/// What the acting node has told the topology managers about the publishers.
#[derive(Clone, Debug, Default)]
pub(super) struct Naming {
    /// The publishers that each subscription has learnt, with their versions.
    pub(super) told: BTreeMap<(NodeId, u32), Vec<(NodeId, u64)>>,
    /// When to choose again; `None` while no publisher has changed.
    pub(super) due: Option<Time>,
    /// When it last did.
    last: Option<Time>,
}

impl Naming {
    /// A publisher has changed: a new choice is due, at most one in `pause`.
    pub(super) fn note(&mut self, now: Time, pause: Duration) {
        let due = self.last.map_or(now, |last| (last + pause).max(now));
        self.due.get_or_insert(due);
    }
    pub(super) fn begin(&mut self, now: Time) {
        (self.due, self.last) = (None, Some(now));
    }
    /// The node no longer acts for the record.
    pub(super) fn stop(&mut self) {
        *self = Naming::default();
    }
}

impl Held {
    /// Its newest known version.
    pub(super) fn known_version(&self) -> u64 {
        self.version.max(self.floor)
    }
}

impl Record {
    pub(super) fn new(name: Name) -> Record {
        Record { name, expiry: Time::MAX, ..Record::default() }
    }

    /// Takes `entry` if it is newer than the present one, and returns its former value; else `None`. Of two entries of
    /// one version the withdrawn one wins, so that merging in any order and any number of times gives the same result.
    pub(super) fn merge(&mut self, now: Time, entry: Entry, tombstone: Duration) -> Option<Option<EntryValue>> {
        let held = self.entries.get(&entry.key);
        if let Some(held) = held {
            let withdraws = entry.version == held.version && entry.value.is_none() && held.value.is_some();
            if entry.version <= held.version && !withdraws {
                return None;
            }
        }
        let before = held.and_then(|held| held.value.clone());
        let lease = if entry.value.is_some() { entry.lease } else { tombstone };
        let floor = held.map_or(0, |held| held.floor);
        let held = Held { version: entry.version, floor, expires: now + lease, value: entry.value };
        self.expiry = self.expiry.min(held.expires);
        self.count(&entry.key, before.is_some(), held.value.is_some());
        self.entries.insert(entry.key, held);
        Some(before)
    }

    /// The lease that covers an entry has ended.
    pub(super) fn end_lease(&mut self, now: Time, key: &EntryKey) {
        if let Some(held) = self.entries.get_mut(key).filter(|held| held.value.is_some()) {
            held.expires = now;
            self.expiry = now;
        }
    }

    /// Removes entries that have expired; returns the keys, versions and former values of live ones.
    pub(super) fn expire(&mut self, now: Time, tombstone: Duration) -> Vec<(EntryKey, u64, EntryValue)> {
        let mut fallen = Vec::new();
        if self.expiry > now {
            return fallen;
        }
        self.expiry = Time::MAX;
        self.entries.retain(|key, held| {
            if held.expires > now {
                self.expiry = self.expiry.min(held.expires);
                return true;
            }
            match held.value.take() {
                Some(value) => {
                    held.expires = now + tombstone;
                    self.expiry = self.expiry.min(held.expires);
                    fallen.push((key.clone(), held.version, value));
                    true
                }
                None => false,
            }
        });
        fallen.iter().for_each(|(key, ..)| self.count(key, true, false));
        fallen
    }
    /// An entry that was live or not is live or not now.
    fn count(&mut self, key: &EntryKey, before: bool, after: bool) {
        let step = |count: &mut usize| *count = *count + usize::from(after) - usize::from(before);
        step(&mut self.live);
        match key {
            EntryKey::Child(_) => step(&mut self.children),
            EntryKey::Subscription(..) => step(&mut self.subscriptions),
            EntryKey::Publisher(_) | EntryKey::ScopePublisher(_) | EntryKey::ScopeSubscriber(_) => {}
        }
    }

    /// The entry of `key` if it is live.
    pub(super) fn live(&self, key: &EntryKey) -> Option<&EntryValue> {
        self.entries.get(key)?.value.as_ref()
    }
    /// What a live subscription wants: paths per source, and what makes one good.
    pub(super) fn subscription(&self, (node, transfer): (NodeId, u32)) -> Option<(u8, PathMetric)> {
        match self.live(&EntryKey::Subscription(node, transfer))? {
            EntryValue::Subscription { k, metric } => Some((*k, *metric)),
            _ => None,
        }
    }
    /// The live entries from `first` on, up to but without `end`. Keys are ordered by kind.
    fn live_between(&self, first: EntryKey, end: Option<EntryKey>) -> impl Iterator<Item = (&EntryKey, &Held)> {
        let end = end.map_or(Bound::Unbounded, Bound::Excluded);
        self.entries.range((Bound::Included(first), end)).filter(|(_, held)| held.value.is_some())
    }
    pub(super) fn publishers(&self) -> impl Iterator<Item = (&EntryKey, &Held)> {
        self.live_between(EntryKey::Publisher(NodeId::NONE), Some(EntryKey::ScopePublisher(NodeId::NONE)))
    }
    /// The nodes that published the item and withdrew it, and the versions of that: the newest `max` of them.
    pub(super) fn withdrawn_publishers(&self, max: usize) -> Vec<(NodeId, u64)> {
        let end = Bound::Excluded(EntryKey::ScopePublisher(NodeId::NONE));
        let range = self.entries.range((Bound::Included(EntryKey::Publisher(NodeId::NONE)), end));
        let mut withdrawn: Vec<(Time, NodeId, u64)> = range
            .filter_map(|(key, held)| match key {
                EntryKey::Publisher(node) if held.value.is_none() => Some((held.expires, *node, held.version)),
                _ => None,
            })
            .collect();
        withdrawn.sort_unstable_by(|a, b| b.cmp(a));
        withdrawn.truncate(max);
        withdrawn.into_iter().map(|(_, node, version)| (node, version)).collect()
    }
    pub(super) fn scope_publishers(&self) -> impl Iterator<Item = (&EntryKey, &Held)> {
        self.live_between(EntryKey::ScopePublisher(NodeId::NONE), Some(EntryKey::Subscription(NodeId::NONE, 0)))
    }
    pub(super) fn subscriptions(&self) -> impl Iterator<Item = (&EntryKey, &Held)> {
        self.live_between(EntryKey::Subscription(NodeId::NONE, 0), Some(EntryKey::ScopeSubscriber(NodeId::NONE)))
    }
    pub(super) fn scope_subscribers(&self) -> impl Iterator<Item = (&EntryKey, &Held)> {
        self.live_between(EntryKey::ScopeSubscriber(NodeId::NONE), Some(EntryKey::Child(Vec::new())))
    }
    pub(super) fn children(&self) -> impl Iterator<Item = (&EntryKey, &Held)> {
        self.live_between(EntryKey::Child(Vec::new()), None)
    }

    /// Whether it has a publisher as an item.
    pub(super) fn is_item(&self) -> bool {
        self.publishers().next().is_some()
    }
    /// Whether it exists as a scope: it was created, or has a child. The root always does.
    pub(super) fn is_scope(&self) -> bool {
        self.name.is_empty() || self.children > 0 || self.scope_publishers().next().is_some()
    }
    /// The state that its parent scope should hold for it.
    pub(super) fn state(&self) -> ChildState {
        if self.is_scope() {
            return ChildState::Scope;
        }
        let (mut publishers, mut bytes) = (0, 0);
        for (_, held) in self.publishers() {
            if let Some(EntryValue::Publisher { object_bytes, .. }) = &held.value {
                publishers += 1;
                bytes = bytes.max(*object_bytes);
            }
        }
        if publishers > 0 { ChildState::Item { publishers, bytes } } else { ChildState::Absent }
    }
    /// Whether nothing in it is live.
    pub(super) fn is_dead(&self) -> bool {
        debug_assert_eq!(self.live, self.entries.values().filter(|held| held.value.is_some()).count());
        self.live == 0
    }

    /// Whether the parent scope's registration is outdated or missing.
    pub(super) fn has_news(&self) -> bool {
        let state = self.state();
        !self.name.is_empty()
            && self.registered != Some(state)
            && (state != ChildState::Absent || self.registration > 0)
    }
    /// Whether the registration is due again at `refresh_at`, changed or not.
    pub(super) fn notifies_parent_by_time(&self) -> bool {
        let exists = !self.name.is_empty() && self.state() != ChildState::Absent;
        exists || self.registered.is_none() && self.has_news()
    }

    /// When something in it is due.
    pub(super) fn due(&self) -> Option<Time> {
        let expiry = (!self.entries.is_empty()).then_some(self.expiry);
        let refresh = (self.acting && self.notifies_parent_by_time()).then_some(self.refresh_at);
        let naming = self.naming.due.filter(|_| self.acting);
        [expiry, refresh, naming, self.drop_at].into_iter().flatten().min()
    }

    /// The entry of `key` as another node should hold it.
    pub(super) fn entry(&self, now: Time, key: &EntryKey, leases: &Leases) -> Option<Entry> {
        let held = self.entries.get(key)?;
        let lease = match key {
            EntryKey::Publisher(node) if held.expires == Time::MAX => {
                leases.length(*node, ItemId::new(&self.name).key())
            }
            _ => held.expires.since(now),
        };
        Some(Entry { key: key.clone(), version: held.version, lease, value: held.value.clone() })
    }
    /// An update with just these entries.
    pub(super) fn update(&self, entries: Vec<Entry>) -> RecordUpdate {
        RecordUpdate { name: self.name.clone(), revision: self.revision, registration: self.registration, entries }
    }
    /// The complete record, cut into updates of at most about `bytes_max` bytes.
    pub(super) fn updates(&self, now: Time, bytes_max: usize, leases: &Leases) -> Vec<(usize, RecordUpdate)> {
        let head = RecordUpdate::head_bytes(&self.name);
        let mut updates = Vec::new();
        let mut entries = Vec::new();
        let mut size = head;
        let mut scratch = Vec::new();
        for key in self.entries.keys() {
            let Some(entry) = self.entry(now, key, leases) else { continue };
            scratch.clear();
            entry.encode(&mut scratch);
            if size + scratch.len() > bytes_max && !entries.is_empty() {
                updates.push((size, self.update(core::mem::take(&mut entries))));
                size = head;
            }
            size += scratch.len();
            entries.push(entry);
        }
        updates.push((size, self.update(entries)));
        updates
    }

    /// A number that differs between records with different versions. Leases do not count.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = blake3::Hasher::new();
        let mut line = Vec::new();
        for (key, held) in &self.entries {
            line.clear();
            Entry { key: key.clone(), version: held.version, lease: Duration::ZERO, value: None }.encode(&mut line);
            line.put_u8(u8::from(held.value.is_some()));
            hasher.update(&line);
        }
        u64::from_be_bytes(*hasher.finalize().as_bytes().first_chunk().expect("a hash has 32 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TOMBSTONE: Duration = Duration::from_secs(30);

    fn entry(node: u64, version: u64, live: bool) -> Entry {
        let value = live.then_some(EntryValue::ScopePublisher);
        Entry { key: EntryKey::ScopePublisher(NodeId(node)), version, lease: Duration::from_secs(10), value }
    }
    fn record() -> Record {
        Record::new("/a".parse().unwrap())
    }

    #[test]
    fn a_late_duplicate_never_revives_what_was_withdrawn() {
        let mut record = record();
        assert!(record.merge(Time::ZERO, entry(1, 1, true), TOMBSTONE).is_some());
        assert!(record.is_scope());
        assert!(record.merge(Time::ZERO, entry(1, 2, false), TOMBSTONE).unwrap().is_some());
        assert!(record.merge(Time::ZERO, entry(1, 1, true), TOMBSTONE).is_none());
        assert!(record.merge(Time::ZERO, entry(1, 2, true), TOMBSTONE).is_none());
        assert!(!record.is_scope());
        assert!(record.merge(Time::ZERO, entry(1, 3, true), TOMBSTONE).is_some());
    }

    #[test]
    fn an_entry_falls_with_its_lease_and_is_forgotten_later() {
        let mut record = record();
        record.merge(Time::ZERO, entry(1, 1, true), TOMBSTONE);
        assert_eq!(record.due(), Some(Time::from_millis(10_000)));
        assert!(record.expire(Time::from_millis(9_999), TOMBSTONE).is_empty());
        assert_eq!(record.expire(Time::from_millis(10_000), TOMBSTONE).len(), 1);
        assert!(record.is_dead() && record.entries.len() == 1);
        assert!(record.merge(Time::from_millis(10_001), entry(1, 1, true), TOMBSTONE).is_none());
        record.expire(Time::from_millis(40_000), TOMBSTONE);
        assert!(record.entries.is_empty());
    }

    #[test]
    fn a_long_record_is_cut_into_updates_that_together_are_all_of_it() {
        let mut record = record();
        for node in 1..=100 {
            record.merge(Time::ZERO, entry(node, node, true), TOMBSTONE);
        }
        let updates = record.updates(Time::ZERO, 500, &Leases::default());
        assert!(updates.len() > 3 && updates.iter().all(|(size, _)| *size <= 500));
        let mut copy = Record::new(record.name.clone());
        for (_, update) in updates {
            update.entries.into_iter().for_each(|entry| {
                copy.merge(Time::ZERO, entry, TOMBSTONE);
            });
        }
        assert_eq!(copy.fingerprint(), record.fingerprint());
    }

    proptest! {
        #[test]
        fn merging_in_any_order_and_often_gives_the_same(
            entries in proptest::collection::vec((1u64..4, 1u64..6, any::<bool>()), 1..12),
            order in proptest::collection::vec(any::<prop::sample::Index>(), 24),
        ) {
            let (mut once, mut shuffled) = (record(), record());
            for (node, version, live) in &entries {
                once.merge(Time::ZERO, entry(*node, *version, *live), TOMBSTONE);
            }
            let all = order.iter().map(|index| index.index(entries.len())).chain((0..entries.len()).rev());
            for index in all {
                let (node, version, live) = entries[index];
                shuffled.merge(Time::ZERO, entry(node, version, live), TOMBSTONE);
            }
            prop_assert_eq!(once.fingerprint(), shuffled.fingerprint());
        }
    }
}

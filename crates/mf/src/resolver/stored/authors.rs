//! Each device's records in the store, by bucket, so that its renewals can be compared without visiting each name.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use tributary_core::{Duration, Time};
use tributary_directory::{
    Snapshot,
    engine::{Before, Entry},
};

use super::{
    super::mark,
    keys::{Slot, is_stated},
};
use crate::{
    ids::Guid,
    wire::{BUCKETS, Holding, bucket_of},
};

/// Maximum changes of a bucket during its reading.
const BUFFERED_MAX: usize = 16_384;

tributary_core::declared! {
    /// All buckets, and the present devices.
    #[derive(Debug)]
    pub(super) struct Authors {
        buckets: Vec<Bucket> = (0..BUCKETS).map(|_| Bucket::default()).collect(),
        known: BTreeMap<(Guid, u16), Known> = BTreeMap::new(),
        /// Devices with a valid presence, and the store revision that showed it.
        there: BTreeMap<Guid, u64> = BTreeMap::new(),
        /// Whether they were ever read.
        is_there_known: bool = false,
        /// The list of them, and its state of reading.
        list: Snapshot<(Guid, bool)> = Snapshot::default(),
        listed: BTreeSet<Guid> = BTreeSet::new(),
    }
}

#[derive(Debug, Default)]
struct Bucket {
    snapshot: Snapshot<Change>,
    /// What each author has on the pages that have come.
    sums: BTreeMap<Guid, Holding>,
}

#[derive(Debug)]
struct Change {
    slot: Slot,
    after: Option<Entry>,
    before: Before,
}

#[derive(Debug, Default)]
struct Known {
    holding: Holding,
    /// When its author last declared the records here.
    claimed: Option<Time>,
    unmatched: Option<Unmatched>,
}

/// The store and the author's declaration differ.
#[derive(Debug)]
struct Unmatched {
    since: Time,
    /// The records put since then.
    stated: BTreeSet<Slot>,
}

/// What a comparison has shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Comparison {
    /// The store matches the declaration, or has not been read yet.
    Same,
    /// It must be put again.
    Differs,
    /// All was put again, and surplus records must end.
    Surplus,
}

impl Authors {
    /// Forgets everything; all of it must be read.
    pub(super) fn restart(&mut self) {
        self.buckets.iter_mut().for_each(|bucket| *bucket = Bucket::default());
        self.known.values_mut().for_each(|known| known.holding = Holding::default());
        self.list.give_up();
    }

    // Whether the present devices are known.

    /// Whether they have to be read and are not being read.
    pub(super) fn is_unlisted(&self) -> bool {
        self.list.is_unread()
    }
    /// The list of them comes by this request.
    pub(super) fn expect_list(&mut self, request: u64) {
        self.listed.clear();
        self.list.begin(request);
    }
    pub(super) fn on_list_failed(&mut self, request: u64) {
        if self.list.expects(request) {
            self.list.give_up();
        }
    }
    /// Takes a page of the list, if it is expected.
    pub(super) fn take_list(&mut self, request: u64, there: impl Iterator<Item = Guid>) -> bool {
        let is_expected = self.list.expects(request);
        self.listed.extend(there.filter(|_| is_expected));
        is_expected
    }
    pub(super) fn is_there_known(&self) -> bool {
        self.is_there_known
    }
    pub(super) fn there(&self) -> &BTreeMap<Guid, u64> {
        &self.there
    }
    /// All devices present as of a revision have been read; false if they must be read again.
    pub(super) fn finish_list(&mut self, revision: u64) -> bool {
        let Some(changes) = self.list.finish(revision) else { return false };
        self.there = core::mem::take(&mut self.listed).into_iter().map(|author| (author, revision)).collect();
        self.is_there_known = true;
        for (at, (author, is_there)) in changes.into_iter().filter(|(at, _)| *at > revision) {
            self.set_there(at, author, is_there);
        }
        true
    }
    /// An author has appeared or gone as of a revision; the state of a later one stays.
    pub(super) fn set_there(&mut self, revision: u64, author: Guid, is_there: bool) {
        // The known list stays in use while it is read again.
        self.list.on_change(revision, (author, is_there), BUFFERED_MAX);
        match (is_there, self.there.get(&author)) {
            (true, known) => {
                let revision = known.map_or(revision, |known| revision.max(*known));
                self.there.insert(author, revision);
            }
            (false, Some(known)) if *known > revision => {}
            (false, _) => drop(self.there.remove(&author)),
        }
    }

    // Buckets.

    /// A bucket that is not read yet.
    pub(super) fn next_unread(&self) -> Option<u16> {
        Some(self.buckets.iter().position(|bucket| bucket.snapshot.is_unread())? as u16)
    }
    /// A bucket is read by this request.
    pub(super) fn expect(&mut self, bucket: u16, request: u64) {
        let bucket = &mut self.buckets[usize::from(bucket)];
        bucket.sums.clear();
        bucket.snapshot.begin(request);
    }
    /// It is read again later, if it was read by this request.
    pub(super) fn on_failed(&mut self, bucket: u16, request: u64) {
        let snapshot = &mut self.buckets[usize::from(bucket)].snapshot;
        if snapshot.expects(request) {
            snapshot.give_up();
        }
    }
    fn is_read(&self, bucket: u16) -> bool {
        self.buckets[usize::from(bucket)].snapshot.is_read()
    }
    /// Takes a page of a bucket, if it is expected.
    pub(super) fn take_page<'a>(
        &mut self,
        (bucket, request): (u16, u64),
        records: impl Iterator<Item = (Slot, &'a Entry)>,
    ) -> bool {
        let Bucket { snapshot, sums } = &mut self.buckets[usize::from(bucket)];
        if !snapshot.expects(request) {
            return false;
        }
        for ((place, (author, guid)), entry) in records.filter(|(_, entry)| is_stated(entry)) {
            let sum = sums.entry(author).or_insert(Holding { bucket, ..Holding::default() });
            sum.add(mark(&place, &guid, entry.version));
        }
        true
    }
    /// All pages of a bucket have been read.
    pub(super) fn finish(&mut self, bucket: u16, revision: u64) {
        let Bucket { snapshot, sums } = &mut self.buckets[usize::from(bucket)];
        let Some(changes) = snapshot.finish(revision) else { return };
        for (author, holding) in core::mem::take(sums) {
            self.known.entry((author, bucket)).or_default().holding = holding;
        }
        for (revision, Change { slot, after, before }) in changes {
            self.change(revision, slot, after, before);
        }
    }
    /// Takes a change of a record.
    pub(super) fn change(&mut self, revision: u64, slot: Slot, after: Option<Entry>, before: Before) {
        let (place, (author, guid)) = slot;
        let bucket = bucket_of(&place);
        let snapshot = &mut self.buckets[usize::from(bucket)].snapshot;
        let Some(Change { after, before, .. }) =
            snapshot.on_change(revision, Change { slot, after, before }, BUFFERED_MAX)
        else {
            return;
        };
        let before = match before {
            Before::Unknown => {
                // The previous count is unknown.
                self.known.iter_mut().filter(|((_, at), _)| *at == bucket).for_each(|(_, known)| {
                    known.holding = Holding::default();
                });
                return self.buckets[usize::from(bucket)].snapshot.give_up();
            }
            Before::Nothing => None,
            Before::Entry(entry) => Some(entry),
        };
        let known = self.known.entry((author, bucket)).or_default();
        known.holding.bucket = bucket;
        if let Some(before) = before.filter(is_stated) {
            known.holding.remove(mark(&place, &guid, before.version));
        }
        if let Some(after) = after.filter(is_stated) {
            known.holding.add(mark(&place, &guid, after.version));
        }
        if known.holding.count == 0 {
            self.known.remove(&(author, bucket));
        }
    }

    // Renewals.

    /// Compares an author's declaration of a bucket with its content.
    pub(super) fn compare(&mut self, now: Time, author: Guid, stated: Holding, lease: Duration) -> Comparison {
        let is_read = self.is_read(stated.bucket);
        let Some(known) = self.known.get_mut(&(author, stated.bucket)) else {
            // The bucket is empty, and nothing will have to end; a declaration without records uses no memory.
            let is_same = !is_read || (stated.count, stated.sum) == (0, Holding::default().sum);
            return if is_same { Comparison::Same } else { Comparison::Differs };
        };
        known.claimed = Some(now);
        if !is_read || (known.holding.count, known.holding.sum) == (stated.count, stated.sum) {
            known.unmatched = None;
            return Comparison::Same;
        }
        let unmatched = known.unmatched.get_or_insert_with(|| Unmatched { since: now, stated: BTreeSet::new() });
        match now.since(unmatched.since) > lease * 2 {
            true => Comparison::Surplus,
            false => Comparison::Differs,
        }
    }
    /// Buckets with an author's records that it has not declared for two leases, although it renews others.
    pub(super) fn unclaimed(&mut self, now: Time, author: Guid, lease: Duration) -> Vec<u16> {
        let all = self.known.range_mut((author, 0)..=(author, u16::MAX));
        let mut unclaimed = Vec::new();
        for ((_, bucket), known) in all.filter(|(_, known)| known.holding.count > 0) {
            let since = *known.claimed.get_or_insert(now);
            if now.since(since) > lease * 2 {
                known.claimed = Some(now);
                unclaimed.push(*bucket);
            }
        }
        unclaimed.retain(|bucket| self.is_read(*bucket));
        unclaimed
    }
    /// An author has put a record, new or repeated.
    pub(super) fn on_put(&mut self, now: Time, slot: Slot) {
        let Some(known) = self.known.get_mut(&(slot.1.0, bucket_of(&slot.0))) else { return };
        known.claimed = Some(now);
        if let Some(unmatched) = &mut known.unmatched {
            unmatched.stated.insert(slot);
        }
    }
    /// Forgets authors without records, as after a full read.
    pub(super) fn forget_absent(&mut self) {
        self.known.retain(|_, known| known.holding.count > 0);
    }
    /// Renewals go to other resolvers than before: undeclared buckets may be declared now.
    pub(super) fn forget_claims(&mut self, now: Time) {
        self.known.values_mut().for_each(|known| known.claimed = Some(now));
    }
    /// What an author has put since a bucket is in doubt, which is over.
    pub(super) fn take_unmatched(&mut self, author: Guid, bucket: u16) -> BTreeSet<Slot> {
        let known = self.known.get_mut(&(author, bucket));
        known.and_then(|known| known.unmatched.take()).map(|unmatched| unmatched.stated).unwrap_or_default()
    }
    /// Valid records, as far as buckets are read; buckets that are read.
    pub(super) fn size(&self) -> (u64, usize) {
        let records = self.known.values().map(|known| u64::from(known.holding.count)).sum();
        (records, self.buckets.iter().filter(|bucket| bucket.snapshot.is_read()).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_records_that_are_not_here_takes_no_memory() {
        let (mut authors, lease) = (Authors::default(), Duration::from_secs(30));
        for bucket in 0..BUCKETS {
            authors.expect(bucket, 1);
            authors.finish(bucket, 1);
        }
        for number in 0..=u8::MAX {
            let author = Guid([number; 20]);
            let stated = Holding { bucket: u16::from(number), count: 1, ..Holding::default() };
            assert_eq!(authors.compare(Time::ZERO, author, stated, lease), Comparison::Differs);
            authors.on_put(Time::ZERO, (author, (author, author)));
        }
        assert!(authors.known.is_empty());
    }
}

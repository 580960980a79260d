//! Watched places: their content in the store, updated by its changes.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use tributary_core::Time;
use tributary_directory::{
    Snapshot,
    engine::{Entry, Priority},
};

use super::{
    super::{Asker, digest},
    keys::{Slot, verified},
};
use crate::{
    ids::Guid,
    wire::{NameRecord, RecordKey},
};

/// Maximum changes of a place during its reading.
const BUFFERED_MAX: usize = 4_096;

/// A watch request that is answered once the place is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) asker: Asker,
    pub(super) request: u32,
    pub(super) digest: u64,
    pub(super) is_new: bool,
}

/// The state of a watched place.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) watchers: BTreeMap<Asker, Time>,
    pub(super) waiting: Vec<Waiting>,
    records: BTreeMap<RecordKey, Seen>,
    pub(super) snapshot: Snapshot<(RecordKey, Option<Entry>)>,
    /// How it is being read, or was, and what pages have come.
    pub(super) priority: Priority,
    found: BTreeMap<RecordKey, Seen>,
    /// Watchers have been sent the current state.
    was_notified: bool,
}

#[derive(Debug)]
struct Seen {
    version: u64,
    record: Vec<u8>,
    is_stated: bool,
    /// Whether it holds while its author is away.
    outlives_author: bool,
}

/// What a change of the store means for watchers.
pub(super) enum News {
    /// They are sent this record.
    Record(Vec<u8>),
    /// The stored record is unsigned.
    Forged,
    None,
}

impl Place {
    /// Records held here.
    pub(super) fn len(&self) -> usize {
        self.records.len() + self.found.len()
    }
    /// Whether it is being read for a waiting requester.
    pub(super) fn is_queried(&self) -> bool {
        self.snapshot.is_reading() && self.priority == Priority::Question
    }
    /// It is read by this request.
    pub(super) fn begin(&mut self, request: u64, priority: Priority) {
        self.found.clear();
        self.priority = priority;
        self.snapshot.begin(request);
    }
    /// Takes a page of its records; returns how many of them are forged.
    pub(super) fn take_page(&mut self, place: Guid, records: Vec<(RecordKey, Entry)>) -> u64 {
        let mut forged = 0;
        for (key, entry) in records {
            match seen(&(place, key), &entry) {
                Some(seen) => drop(self.found.insert(key, seen)),
                None => forged += 1,
            }
        }
        forged
    }
    /// All pages are read: returns the news for watchers; `None` if it must be read again.
    pub(super) fn finish(&mut self, place: Guid, revision: u64) -> Option<Vec<News>> {
        let changes = self.snapshot.finish(revision)?;
        let found = core::mem::take(&mut self.found);
        let before = core::mem::replace(&mut self.records, found);
        let is_news = |(key, seen): &(&RecordKey, &Seen)| {
            before.get(*key).is_none_or(|known| (known.version, known.is_stated) != (seen.version, seen.is_stated))
        };
        let mut news: Vec<News> =
            self.records.iter().filter(is_news).map(|(_, seen)| News::Record(seen.record.clone())).collect();
        // A new watcher is sent everything at once.
        if !core::mem::replace(&mut self.was_notified, true) {
            news.clear();
        }
        news.extend(changes.into_iter().map(|(revision, (key, after))| self.change(place, key, revision, after)));
        Some(news)
    }
    /// Takes a change.
    pub(super) fn change(&mut self, place: Guid, key: RecordKey, revision: u64, after: Option<Entry>) -> News {
        let Some((key, after)) = self.snapshot.on_change(revision, (key, after), BUFFERED_MAX) else {
            return News::None;
        };
        let Some(entry) = after else {
            self.records.remove(&key);
            return News::None;
        };
        let Some(seen) = seen(&(place, key), &entry) else {
            self.records.remove(&key);
            return News::Forged;
        };
        let known = self.records.get(&key).map(|known| (known.version, known.is_stated));
        let is_news = known.is_none_or(|known| known != (seen.version, seen.is_stated));
        let news = match is_news && (seen.is_stated || seen.is_deletion()) {
            true => News::Record(seen.record.clone()),
            false => News::None,
        };
        self.records.insert(key, seen);
        news
    }
    /// The valid records: those of present authors.
    pub(super) fn live<'a>(
        &'a self,
        there: &'a BTreeMap<Guid, u64>,
    ) -> impl Iterator<Item = (&'a RecordKey, &'a [u8])> {
        let is_live = |((author, _), seen): &(&RecordKey, &Seen)| seen.is_live(author, there);
        self.records.iter().filter(is_live).map(|(key, seen)| (key, &seen.record[..]))
    }
    /// Authors of records here that are not known to be present.
    pub(super) fn absent(&self, there: &BTreeMap<Guid, u64>) -> BTreeSet<Guid> {
        let is_absent = |((author, _), seen): &(&RecordKey, &Seen)| seen.is_stated && !seen.is_live(author, there);
        self.records.iter().filter(is_absent).map(|((author, _), _)| *author).collect()
    }
    pub(super) fn digest(&self, there: &BTreeMap<Guid, u64>) -> u64 {
        let is_live = |((author, _), seen): &(&RecordKey, &Seen)| seen.is_live(author, there);
        digest(self.records.iter().filter(is_live).map(|(key, seen)| (*key, seen.version)))
    }
}

impl Seen {
    fn is_live(&self, author: &Guid, there: &BTreeMap<Guid, u64>) -> bool {
        self.is_stated && (self.outlives_author || there.contains_key(author))
    }
    fn is_deletion(&self) -> bool {
        NameRecord::bytes_are_deletion(&self.record)
    }
}

fn seen(slot: &Slot, entry: &Entry) -> Option<Seen> {
    let (record, is_stated) = verified(slot, entry)?;
    let outlives_author = record.statement().body.outlives_author();
    Some(Seen { version: entry.version, record: entry.value[1..].to_vec(), is_stated, outlives_author })
}

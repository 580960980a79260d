//! Holds name records in an external store, such as an etcd cluster, in place of a [`Replica`](super::Replica): any
//! number of resolvers may share the store, and each of them answers for all of it.
//!
//! | what | module |
//! |---|---|
//! | requests of fronts, and the store's answers | here |
//! | keys, values, leases | [`keys`] |
//! | places that are watched | [`places`] |
//! | the records of each device per bucket, and the present devices | [`authors`] |
//! | requests, rounds, whether the store can be used | [`Outside`] |
//!
//! - A put is one transaction on the record's version; it is answered when the store has it.
//! - A lookup reads the store through its majority. The store's changes show which devices are present; a device that
//!   they do not show is queried, and requests are refused while no changes arrive.
//! - Reads after a restart delay no request, and each round of the node takes a bounded part of them.
//! - A renewal renews a device's two leases, and compares its declaration of each bucket with the store: missing
//!   records are requested, and surplus ones that are not put again end after two leases.
//! - Every read record is verified as if it had come from the network. Unsigned ones are counted, not found, and
//!   replaced by the next put.
mod authors;
mod keys;
mod places;
mod questions;
#[cfg(test)]
mod tests;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::String,
    vec::Vec,
};

use tributary_core::{Duration, Time};
use tributary_directory::{
    Outside, Page, Pages, StoreEvent, StoreStats,
    engine::{Answer, Before, Change, Engine, Entry, Lease, Priority},
    health::Words,
};
use tributary_trust::Identity;

use self::{
    authors::Authors,
    keys::{Key, Leases, Slot},
    places::{News, Place, Waiting},
};
use super::{Asker, Records, WatchOrder, bucket_on};
use crate::{
    ids::{Guid, NetworkAddress},
    wire::{BUCKETS, Holding, NameMessage, Refusal},
};

/// How long the store may take for a request; a front asks three times within 1.5 s.
const PATIENCE: Duration = Duration::from_millis(1_200);
/// Maximum open requests.
const OPEN_MAX: usize = 16_384;
/// Maximum watched places.
const WATCHED_MAX: usize = 65_536;
/// Records per page of background reads, and concurrent pages.
const PAGE: u32 = 1_000;
const READS_MAX: usize = 2;
/// Interval of sweeps for unused memory.
const FORGET_EACH: Duration = Duration::from_secs(60);
/// The words of reports about the store.
const WORDS: Words = Words { topic: "names", blind: "questions are refused" };
/// The pause before a failed read is repeated.
const READ_AGAIN: Duration = Duration::from_secs(1);

tributary_core::declared! {
    /// A resolver's view of an outside store.
    pub struct Stored {
        outside: Outside<Part> = Outside::new(engine, WORDS),
        leases: Leases = Leases::new(seed),
        identity: Option<Identity> = None,
        /// Maximum watched places and records.
        records_max: usize = records_max,
        watched: BTreeMap<Guid, Place> = BTreeMap::new(),
        /// Records of watched places, counted each second; later ones are added.
        held: usize = 0,
        authors: Authors = Authors::default(),
        /// Questions in order of arrival. They expire in the same order.
        jobs: BTreeMap<u64, Job> = BTreeMap::new(),
        job_next: u64 = 0,
        /// Buckets that are being read.
        reads: usize = 0,
        read_at: Option<Time> = None,
        is_started: bool = false,
        /// The highest revision of the reported changes.
        notified: u64 = 0,
        /// Authors of newly stored records whose presence could not be put yet.
        unannounced: BTreeSet<Guid> = BTreeSet::new(),
        outbox: VecDeque<(Asker, NameMessage)> = VecDeque::new(),
        watch_order: WatchOrder = WatchOrder::default(),
        /// The buckets in which only this resolver ends undeclared records: those whose renewals go to it first. None
        /// until it knows the other resolvers.
        ends: BTreeSet<u16> = BTreeSet::new(),
        swept_at: Time = Time::ZERO,
        forgot_at: Time = Time::ZERO,
    }
    /// Keeps records in `engine`, and at most `records_max` of watched places in memory. `seed` distinguishes it from
    /// others.
    pub fn new(engine: Box<dyn Engine>, records_max: usize, seed: u64) {}
}

/// A question that is not answered yet.
struct Job {
    to: Asker,
    request: u32,
    what: What,
    /// Answers of the store that are outstanding.
    left: u8,
    /// Authors of found records that the store reports as present.
    there: BTreeSet<Guid>,
    due: Time,
}

enum What {
    Put { slot: Slot, stale: Option<u64>, lifetime: Option<Duration> },
    Find { place: Guid, after: Option<crate::wire::RecordKey>, found: Option<Found> },
    Watch { place: Guid, waiting: Waiting },
    Renew { author: Guid, lease: Duration, holdings: Vec<Holding>, is_lost: bool },
}

/// The result of a lookup, whose authors may be absent.
struct Found {
    entries: Vec<Entry>,
    more: bool,
}

/// What a job needs of the store.
enum Step {
    /// Its record is kept.
    Record(Entry, Lease),
    /// Its author is present.
    Presence(Guid),
    /// Whether its author's presence lasts, and its memory.
    PresenceRenewed,
    MemoryRenewed,
    Found,
    /// Which of these are present.
    There(Vec<Guid>),
}

/// What a request to the store is for.
enum Part {
    /// Something that a job needs.
    Job(u64, Step),
    Place(Guid),
    Bucket(u16),
    Authors,
    /// A device's records in a bucket with surplus ones.
    Surplus {
        author: Guid,
        bucket: u16,
        stated: BTreeSet<Slot>,
    },
    Ended,
}

impl Stored {
    /// Since when the store has not answered, or not reported its changes.
    #[cfg(test)]
    pub fn failing_since(&self) -> Option<Time> {
        self.outside.health().failing_since()
    }
    /// Counters for people.
    pub fn stats(&self) -> StoreStats {
        self.outside.stats
    }
    /// The store's state, for people.
    pub fn state(&self) -> String {
        self.outside.health().state()
    }
    /// Valid records, as far as the store was read; buckets that were, of [`BUCKETS`](crate::wire::BUCKETS); devices
    /// that are present.
    pub fn size(&self) -> (u64, usize, usize) {
        let (records, buckets) = self.authors.size();
        (records, buckets, self.authors.there().len())
    }
    fn on_store_event(&mut self, now: Time, event: StoreEvent<Part>) {
        match event {
            StoreEvent::Changed(Change { revision, key, after, before }) => {
                self.notified = self.notified.max(revision);
                self.on_change(now, revision, &key, after, before);
            }
            StoreEvent::Restarted(revision) => {
                self.notified = revision;
                self.restart();
            }
            StoreEvent::Current(_) => {}
            StoreEvent::Done { part, answer } => self.on_done(now, part, answer),
            StoreEvent::Page(page) => self.on_page(now, page),
            StoreEvent::Failed { id, part, is_full } => {
                self.on_failed(now, id, part, if is_full { Refusal::EngineFull } else { Refusal::Engine });
            }
        }
    }
    fn on_done(&mut self, now: Time, part: Part, answer: Answer) {
        let Part::Job(job, step) = part else { return };
        match (step, answer) {
            (Step::Record(entry, lease), Answer::Stale { entry: there, revision, .. }) => {
                self.on_stale(now, job, (entry, lease), there, revision);
            }
            (Step::Record(..), Answer::Stored { is_new, .. }) => self.on_stored(now, job, is_new),
            (Step::Presence(author), Answer::Stored { .. }) => {
                // The store reports it too, with a revision; until then the requester may look it up.
                self.authors.set_there(0, author, true);
                self.unannounced.remove(&author);
                self.on_part(now, job);
            }
            (Step::PresenceRenewed, Answer::Renewed { is_alive, .. }) => self.on_presence(now, job, is_alive),
            (Step::MemoryRenewed, Answer::Renewed { is_alive, .. }) => {
                if let Some(What::Renew { is_lost, .. }) = self.jobs.get_mut(&job).map(|job| &mut job.what) {
                    *is_lost |= !is_alive;
                }
                self.on_part(now, job);
            }
            (Step::Found, Answer::Listed { entries, more, .. }) => self.on_found(now, job, entries, more),
            (Step::There(authors), Answer::Listed { entries, revision, .. }) => {
                self.on_there(now, job, authors, &entries, revision);
            }
            _ => {}
        }
    }
    fn on_page(&mut self, now: Time, page: Page<Part>) {
        match page.part {
            Part::Place(place) => self.on_place(now, place, page),
            Part::Bucket(bucket) => self.on_bucket(bucket, page),
            Part::Authors => self.on_authors(page),
            Part::Surplus { .. } => self.on_surplus(now, page),
            _ => {}
        }
    }
    fn on_failed(&mut self, now: Time, id: u64, part: Part, refusal: Refusal) {
        match part {
            Part::Job(job, _) => self.refuse(job, refusal),
            Part::Place(place) => {
                let Some(known) = self.watched.get_mut(&place).filter(|known| known.snapshot.expects(id)) else {
                    return;
                };
                known.snapshot.give_up();
                for waiting in core::mem::take(&mut known.waiting) {
                    self.refuse_to(waiting.asker, waiting.request, refusal);
                }
            }
            Part::Bucket(bucket) => {
                self.reads -= 1;
                self.authors.on_failed(bucket, id);
                self.read_at = Some(now + READ_AGAIN);
            }
            Part::Authors => {
                self.authors.on_list_failed(id);
                self.read_at = Some(now + READ_AGAIN);
            }
            Part::Surplus { .. } | Part::Ended => {}
        }
    }
    fn refuse_to(&mut self, to: Asker, request: u32, refusal: Refusal) {
        self.outbox.push_back((to, NameMessage::Refused { request, refusal }));
    }
    fn refuse(&mut self, job: u64, refusal: Refusal) {
        if let Some(job) = self.jobs.remove(&job) {
            self.refuse_to(job.to, job.request, refusal);
        }
    }

    // Starts the background reads.

    /// Changes may have been missed: everything is read again.
    fn restart(&mut self) {
        self.is_started = true;
        self.authors.restart();
        self.list_authors();
        let places: Vec<Guid> = self.watched.keys().copied().collect();
        for place in places {
            self.list_place(place, Priority::Background);
        }
        self.read_next();
    }
    /// Until they are read nothing is found.
    fn list_authors(&mut self) {
        let range = keys::authors_range();
        let id = self.outside.read(Priority::Question, Part::Authors, range, PAGE, Pages::OfOneRevision);
        self.authors.expect_list(id);
    }
    fn on_authors(&mut self, Page { id, entries, revision, rest, .. }: Page<Part>) {
        let there = entries.iter().filter_map(|entry| match Key::read(&entry.key) {
            Some(Key::Author(author)) => Some(author),
            _ => None,
        });
        if !self.authors.take_list(id, there) {
            return;
        }
        match rest {
            Some(rest) => self.outside.read_on(id, Part::Authors, rest),
            None if self.authors.finish_list(revision) => {}
            None => self.list_authors(),
        }
    }
    /// Reads the next buckets.
    fn read_next(&mut self) {
        while self.reads < READS_MAX && self.is_started {
            let Some(bucket) = self.authors.next_unread() else { return };
            self.reads += 1;
            let (range, part) = (keys::bucket_range(bucket), Part::Bucket(bucket));
            let id = self.outside.read(Priority::Background, part, range, PAGE, Pages::OfOneRevision);
            self.authors.expect(bucket, id);
        }
    }
    fn on_bucket(&mut self, bucket: u16, Page { id, entries, revision, rest, .. }: Page<Part>) {
        let records = entries.iter().filter_map(|entry| match Key::read(&entry.key) {
            Some(Key::Record(slot)) => Some((slot, entry)),
            _ => None,
        });
        if self.authors.take_page((bucket, id), records) {
            if let Some(rest) = rest {
                return self.outside.read_on(id, Part::Bucket(bucket), rest);
            }
            self.authors.finish(bucket, revision);
        }
        self.reads -= 1;
        self.read_next();
    }
    fn list_place(&mut self, place: Guid, priority: Priority) {
        let Some(known) = self.watched.get_mut(&place) else { return };
        let (range, part) = (keys::place_range(&place, None), Part::Place(place));
        known.begin(self.outside.read(priority, part, range, PAGE, Pages::OfOneRevision), priority);
    }
    fn on_place(&mut self, now: Time, place: Guid, Page { id, entries, revision, rest, .. }: Page<Part>) {
        let held = self.held;
        let Some(known) = self.watched.get_mut(&place).filter(|known| known.snapshot.expects(id)) else { return };
        if held + entries.len() > self.records_max {
            for waiting in core::mem::take(&mut known.waiting) {
                let refused = NameMessage::Refused { request: waiting.request, refusal: Refusal::Full };
                self.outbox.push_back((waiting.asker, refused));
            }
            self.watched.remove(&place);
            return;
        }
        let records: Vec<_> = entries.into_iter().filter_map(|entry| Some((slot_at(place, &entry)?, entry))).collect();
        self.held += records.len();
        self.outside.stats.forged += known.take_page(place, records);
        if let Some(rest) = rest {
            return self.outside.read_on(id, Part::Place(place), rest);
        }
        let priority = known.priority;
        let Some(news) = known.finish(place, revision) else { return self.list_place(place, priority) };
        for news in news {
            self.notify_watchers(now, place, news);
        }
        let waiting = self.watched.get_mut(&place).map(|known| core::mem::take(&mut known.waiting));
        for waiting in waiting.unwrap_or_default() {
            self.answer_watch(now, place, waiting);
        }
    }

    // What changes.

    fn on_change(&mut self, now: Time, revision: u64, key: &[u8], after: Option<Entry>, before: Before) {
        match Key::read(key) {
            Some(Key::Author(author)) => self.authors.set_there(revision, author, after.is_some()),
            Some(Key::Record(slot)) => {
                let (place, key) = slot;
                if let Some(known) = self.watched.get_mut(&place) {
                    let before_it = known.len();
                    let news = known.change(place, key, revision, after.clone());
                    self.held += known.len().saturating_sub(before_it);
                    self.notify_watchers(now, place, news);
                    if self.held > self.records_max {
                        // Its watchers ask again, and are refused or find space.
                        let gone = self.watched.remove(&place).map_or(0, |gone| gone.len());
                        self.held = self.held.saturating_sub(gone);
                    }
                }
                self.authors.change(revision, slot, after, before);
                self.read_next();
            }
            None => {}
        }
    }
    fn notify_watchers(&mut self, now: Time, place: Guid, news: News) {
        let record = match news {
            News::Record(record) => record,
            News::Forged => return self.outside.stats.forged += 1,
            News::None => return,
        };
        let Some(known) = self.watched.get_mut(&place) else { return };
        known.watchers.retain(|_, until| *until > now);
        let notify = |watcher: &Asker| (*watcher, NameMessage::Notify { place, record: record.clone() });
        self.outbox.extend(known.watchers.keys().map(notify));
    }
}

impl Records for Stored {
    fn set_identity(&mut self, identity: &Identity) {
        self.identity = Some(identity.clone());
        self.leases.with_ends(identity.network().clock_tolerance());
    }
    fn handle(&mut self, now: Time, from: Asker, message: NameMessage) {
        self.on_question(now, from, message);
    }
    fn settle(&mut self, now: Time) {
        while let Some(event) = self.outside.poll(now) {
            self.on_store_event(now, event);
        }
        let first = |jobs: &BTreeMap<u64, Job>| jobs.first_key_value().map(|(number, job)| (*number, job.due));
        while let Some((job, _)) = first(&self.jobs).filter(|(_, due)| *due <= now) {
            self.outside.on_late(now);
            self.refuse(job, Refusal::Engine);
        }
        if self.read_at.take_if(|at| *at <= now).is_some() {
            if self.is_started && self.authors.is_unlisted() {
                self.list_authors();
            }
            self.read_next();
        }
    }
    fn poll_message(&mut self) -> Option<(Asker, NameMessage)> {
        self.outbox.pop_front()
    }
    fn poll_note(&mut self) -> Option<String> {
        self.outside.poll_note()
    }
    fn poll_timeout(&self) -> Option<Time> {
        let first = self.jobs.values().next().map(|job| job.due);
        first.into_iter().chain(self.read_at).chain(self.outside.behind_since()).min()
    }
    fn handle_timeout(&mut self, now: Time) {
        if now.since(self.swept_at) < Duration::from_secs(1) {
            return;
        }
        self.swept_at = now;
        self.outside.look(now);
        if now.since(self.forgot_at) >= FORGET_EACH {
            self.forgot_at = now;
            self.authors.forget_absent();
            self.unannounced.clear();
        }
        self.watched.retain(|_, place| {
            place.watchers.retain(|_, until| *until > now);
            !place.watchers.is_empty() || !place.waiting.is_empty()
        });
        self.held = self.watched.values().map(Place::len).sum();
    }
    fn on_restarted(&mut self, router: NetworkAddress) {
        self.watch_order.forget(|asker| asker.address == router);
    }
    fn handle_members(
        &mut self,
        now: Time,
        own: NetworkAddress,
        _: &[NetworkAddress],
        members: &[NetworkAddress],
        _: usize,
    ) {
        let is_first = |bucket: &u16| bucket_on(*bucket, members.iter().copied(), 1).contains(&own);
        self.ends = (0..BUCKETS).filter(is_first).collect();
        self.authors.forget_claims(now);
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        let stats = self.stats();
        Vec::from([
            ("names put into the store of names", stats.stored),
            ("names older than those in the store of names", stats.stale),
            ("lookups in the store of names", stats.read),
            ("changes told by the store of names", stats.changes),
            ("failed requests to the store of names", stats.failed),
            ("forged names in the store of names", stats.forged),
            ("names ended in the store of names", stats.ended),
            ("restarts of the store of names", stats.restarts),
        ])
    }
    fn tables(&self) -> Vec<(&'static str, u64)> {
        Vec::from([("name_records", self.size().0)])
    }
    fn status(&self) -> Vec<(&'static str, String)> {
        let (records, buckets, devices) = self.size();
        let read = if buckets < usize::from(BUCKETS) { ", as far as it has been read" } else { "" };
        Vec::from([
            ("engine of names", format!("{}, {}", self.outside.name(), self.state())),
            ("names there", format!("{records} records of {devices} devices{read}")),
        ])
    }
}

/// Which record of a place an entry is.
fn slot_at(place: Guid, entry: &Entry) -> Option<crate::wire::RecordKey> {
    match Key::read(&entry.key) {
        Some(Key::Record((at, key))) if at == place => Some(key),
        _ => None,
    }
}

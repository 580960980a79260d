//! Questions of fronts: put, look up, watch, renew.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use tributary_core::{Duration, Time};
use tributary_directory::{
    Page, Pages,
    engine::{Entry, If, KEYS_MAX, Lease, Priority, Request},
};

use super::{
    super::{
        Asker, admit, page,
        replica::{LIFETIME_MAX, MEMORY, WATCHERS_MAX, lifetime_of},
    },
    Found, Job, OPEN_MAX, PAGE, PATIENCE, Part, Step, Stored, WATCHED_MAX, What,
    authors::Comparison,
    keys::{self, Key, LEASE_MIN, Leases},
    places::Waiting,
    slot_at,
};
use crate::{
    ids::Guid,
    wire::{Holding, NameMessage, RECORD_SPAN, RecordKey, Refusal, bucket_of, names::RECORDS_MAX},
};

impl Stored {
    /// Takes a request and queries the store for its answer.
    pub(super) fn on_question(&mut self, now: Time, from: Asker, message: NameMessage) {
        match message {
            NameMessage::Put { request, place, record } => self.put(now, from, request, place, record),
            NameMessage::Lookup { request, place } => self.find(now, from, request, place, None),
            NameMessage::Next { request, place, after } => self.find(now, from, request, place, Some(after)),
            NameMessage::Renew { request, author, lease_ms, holdings } => {
                let lease = Duration::from_millis(u64::from(lease_ms)).clamp(LEASE_MIN, LIFETIME_MAX);
                self.renew(now, from, request, author, lease, holdings);
            }
            NameMessage::Watch { request, place, lease_ms, known } => {
                if self.watch_order.is_overtaken(now, from, place, request) {
                    return self.outbox.push_back((from, NameMessage::Done { request, replicas: 0 }));
                }
                let lease = Duration::from_millis(u64::from(lease_ms)).min(LIFETIME_MAX);
                if !self.watch(now, from, request, place, lease, known) {
                    self.refuse_to(from, request, Refusal::Full);
                }
            }
            _ => {}
        }
    }
    /// Opens a request; refuses it and returns `None` at the limit.
    fn open(&mut self, now: Time, to: Asker, request: u32, what: What, left: u8) -> Option<u64> {
        if self.jobs.len() >= OPEN_MAX || self.outside.open() >= 4 * OPEN_MAX {
            self.refuse_to(to, request, Refusal::Busy);
            return None;
        }
        self.job_next += 1;
        let job = Job { to, request, what, left, due: now + PATIENCE, there: BTreeSet::new() };
        self.jobs.insert(self.job_next, job);
        Some(self.job_next)
    }
    fn ask(&mut self, part: Part, request: impl FnOnce(u64) -> Request) {
        self.outside.ask(Priority::Question, part, request);
    }

    // Put.

    fn put(&mut self, now: Time, from: Asker, request: u32, place: Guid, bytes: Vec<u8>) {
        let record = match admit(self.identity.as_ref(), now, &place, &bytes) {
            Ok(record) => record,
            Err(refusal) => return self.refuse_to(from, request, refusal),
        };
        let (slot, author) = ((place, record.key()), record.author());
        let (is_deletion, body) = (record.is_deletion(), &record.statement().body);
        // The author of an attachment or a group is present for no longer than usual.
        let lifetime = (!is_deletion && !body.outlives_author()).then(|| lifetime_of(&record));
        let Some(job) = self.open(now, from, request, What::Put { slot, stale: None, lifetime }, 1) else { return };
        let lease = match is_deletion {
            true => self.leases.deletions(&author, now, (lifetime_of(&record), body.span())),
            false if body.outlives_author() => self.leases.subscriptions(&author, now, lifetime_of(&record)),
            false => self.leases.memory(&author),
        };
        let entry = keys::entry(&slot, &record, &bytes);
        let when = If::Below(entry.version);
        self.put_entry(Part::Job(job, Step::Record(entry.clone(), lease)), when, entry, lease);
    }
    /// A record is in the store. If it is new there, its author is present too: replaying an old record, which anyone
    /// can, revives no author.
    pub(super) fn on_stored(&mut self, now: Time, job: u64, is_new: bool) {
        self.outside.stats.stored += 1;
        let Some(What::Put { slot, lifetime, .. }) = self.jobs.get(&job).map(|job| &job.what) else { return };
        let (slot, lifetime) = (*slot, *lifetime);
        let author = slot.1.0;
        self.authors.on_put(now, slot);
        match lifetime.filter(|_| !self.authors.there().contains_key(&author)) {
            Some(lifetime) if is_new || self.unannounced.contains(&author) => {
                if self.unannounced.len() < OPEN_MAX {
                    self.unannounced.insert(author);
                }
                self.put_presence(job, author, lifetime);
            }
            _ => self.on_part(now, job),
        }
    }
    fn put_entry(&mut self, part: Part, when: If, entry: Entry, lease: Lease) {
        self.ask(part, |id| Request::Put { id, entry, when, lease });
    }
    fn put_presence(&mut self, job: u64, author: Guid, lifetime: Duration) {
        let entry = Entry { key: keys::author_key(&author), version: 1, value: Vec::new() };
        self.put_entry(Part::Job(job, Step::Presence(author)), If::Always, entry, Leases::presence(&author, lifetime));
    }
    /// The store has another record there. A newer one with its author's signature stays; any other is replaced, unless
    /// it changes in between: a newer one may have been put.
    pub(super) fn on_stale(
        &mut self,
        now: Time,
        job: u64,
        (entry, lease): (Entry, Lease),
        there: Option<Entry>,
        revision: u64,
    ) {
        let Some(What::Put { slot, stale, .. }) = self.jobs.get_mut(&job).map(|job| &mut job.what) else { return };
        let is_signed = there.as_ref().is_some_and(|there| keys::verified(slot, there).is_some());
        let when = match there {
            Some(there) if is_signed && there.version >= entry.version => {
                self.outside.stats.stale += 1;
                *stale = Some(there.version);
                return self.on_part(now, job);
            }
            Some(_) if !is_signed => {
                self.outside.stats.forged += 1;
                If::Unchanged(revision)
            }
            _ => If::Below(entry.version),
        };
        self.put_entry(Part::Job(job, Step::Record(entry.clone(), lease)), when, entry, lease);
    }
    /// The store has done one of the things that a question needs.
    pub(super) fn on_part(&mut self, now: Time, number: u64) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        job.left = job.left.saturating_sub(1);
        if job.left > 0 {
            return;
        }
        let Some(Job { to, request, what, .. }) = self.jobs.remove(&number) else { return };
        let answer = match what {
            What::Put { stale: Some(current), .. } => NameMessage::Stale { request, current },
            What::Put { .. } => NameMessage::Done { request, replicas: 1 },
            What::Renew { author, lease, holdings, is_lost } => {
                let missing = self.compare(now, author, lease, &holdings, is_lost);
                NameMessage::Renewed { request, missing }
            }
            What::Find { .. } | What::Watch { .. } => return,
        };
        self.outbox.push_back((to, answer));
    }

    // Look up.

    fn find(&mut self, now: Time, from: Asker, request: u32, place: Guid, after: Option<RecordKey>) {
        if !self.authors.is_there_known() || self.outside.health().is_blind(now) {
            // Nothing would be found regardless of the content, or something ended would be; another resolver may know.
            return self.refuse_to(from, request, Refusal::Engine);
        }
        let what = What::Find { place, after, found: None };
        let Some(job) = self.open(now, from, request, what, 1) else { return };
        let (from, to) = keys::place_range(&place, after.as_ref());
        let count = RECORDS_MAX as u32 + 1;
        self.ask(Part::Job(job, Step::Found), |id| Request::List { id, from, to, count, at: None });
    }
    /// The store has these records at a place. If no change has shown an author as present, the store is queried:
    /// changes may be seconds behind its answers.
    pub(super) fn on_found(&mut self, now: Time, number: u64, entries: Vec<Entry>, more: bool) {
        let Some(Job { what: What::Find { place, found, .. }, .. }) = self.jobs.get_mut(&number) else { return };
        let place = *place;
        let there = self.authors.there();
        let keys = entries.iter().filter(|entry| keys::is_stated(entry)).filter_map(|entry| slot_at(place, entry));
        let absent: BTreeSet<Guid> =
            keys.map(|(author, _)| author).filter(|author| !there.contains_key(author)).collect();
        *found = Some(Found { entries, more });
        if !self.ask_there(number, &absent) {
            self.answer_find(now, number, &BTreeSet::new());
        }
    }
    /// Queries the store which of these authors are present; false if the list is empty.
    fn ask_there(&mut self, job: u64, authors: &BTreeSet<Guid>) -> bool {
        let authors: Vec<Guid> = authors.iter().copied().collect();
        let parts = authors.chunks(KEYS_MAX);
        if let Some(job) = self.jobs.get_mut(&job) {
            job.left = parts.len() as u8;
        }
        for authors in parts {
            let keys = authors.iter().map(keys::author_key).collect();
            self.ask(Part::Job(job, Step::There(authors.to_vec())), |id| Request::Get { id, keys });
        }
        !authors.is_empty()
    }
    /// Some of the queried authors are present.
    pub(super) fn on_there(&mut self, now: Time, number: u64, authors: Vec<Guid>, entries: &[Entry], revision: u64) {
        let there = entries.iter().filter_map(|entry| match Key::read(&entry.key) {
            Some(Key::Author(author)) => Some(author),
            _ => None,
        });
        let there: BTreeSet<Guid> = there.filter(|author| authors.contains(author)).collect();
        if revision > self.notified {
            // Changes have covered an earlier revision, and may have reported departures since.
            there.iter().for_each(|author| self.authors.set_there(revision, *author, true));
        }
        let Some(job) = self.jobs.get_mut(&number) else { return };
        job.left = job.left.saturating_sub(1);
        job.there.extend(there);
        if job.left > 0 {
            return;
        }
        let there = core::mem::take(&mut job.there);
        match job.what {
            What::Find { .. } => self.answer_find(now, number, &there),
            What::Watch { place, waiting } => {
                self.jobs.remove(&number);
                self.notify_watcher(place, waiting, &there);
            }
            What::Put { .. } | What::Renew { .. } => {}
        }
    }
    /// Answers a lookup. These authors are present in addition to the known ones.
    fn answer_find(&mut self, now: Time, number: u64, more_there: &BTreeSet<Guid>) {
        let Some(Job { to, request, what: What::Find { place, after, found: Some(found) }, .. }) =
            self.jobs.remove(&number)
        else {
            return;
        };
        let Found { entries, more } = found;
        self.outside.stats.read += 1;
        let mut live: Vec<(RecordKey, &[u8])> = Vec::new();
        for entry in &entries {
            let Some(key) = slot_at(place, entry) else { continue };
            let Some((record, is_stated)) = keys::verified(&(place, key), entry) else {
                self.outside.stats.forged += 1;
                continue;
            };
            let holds = self.identity.as_ref().is_none_or(|identity| record.holds(identity, now));
            let is_there = self.authors.there().contains_key(&key.0) || more_there.contains(&key.0);
            let is_there = is_there || record.statement().body.outlives_author();
            if is_stated && holds && is_there {
                live.push((key, &entry.value[1..]));
            }
        }
        let last_listed = entries.last().and_then(|last| slot_at(place, last)).filter(|_| more);
        let answer = match page(request, place, after, live.iter().map(|(key, record)| (key, *record))) {
            // Omitted records may fill a page, and more follow.
            NameMessage::Found { records, .. } | NameMessage::Page { records, ends: (_, None), .. }
                if last_listed.is_some() =>
            {
                NameMessage::Page { request, place, ends: (after, last_listed), records }
            }
            answer => answer,
        };
        self.outbox.push_back((to, answer));
    }

    // Watch.

    fn watch(&mut self, now: Time, asker: Asker, request: u32, place: Guid, lease: Duration, digest: u64) -> bool {
        if lease.is_zero() {
            if let Some(known) = self.watched.get_mut(&place) {
                known.watchers.remove(&asker);
            }
            self.outbox.push_back((asker, NameMessage::Done { request, replicas: 1 }));
            return true;
        }
        if self.watched.len() >= WATCHED_MAX && !self.watched.contains_key(&place) {
            return false;
        }
        let known = self.watched.entry(place).or_default();
        if known.watchers.len() >= WATCHERS_MAX && !known.watchers.contains_key(&asker) {
            return false;
        }
        let is_new = known.watchers.insert(asker, now + lease).is_none();
        let waiting = Waiting { asker, request, digest, is_new };
        let is_away =
            self.outside.health().failing_since().is_some() || !self.is_started || self.outside.health().is_blind(now);
        let knows = known.snapshot.is_read() && !self.outside.health().is_blind(now);
        if is_away && !knows && !known.is_queried() {
            self.refuse_to(asker, request, Refusal::Engine);
            // It is tried again nevertheless.
            self.list_place_if(place);
            return true;
        }
        if !knows {
            // A requester's earlier request is replaced.
            known.waiting.retain(|other| other.asker != asker);
            known.waiting.push(waiting);
            self.list_place_if(place);
            return true;
        }
        self.answer_watch(now, place, waiting);
        true
    }
    fn list_place_if(&mut self, place: Guid) {
        // The background read may have many others before it.
        let is_idle = self.watched.get(&place).is_some_and(|known| !known.snapshot.is_read() && !known.is_queried());
        if self.is_started && is_idle {
            self.list_place(place, Priority::Question);
        }
    }
    /// Answers a watch request, once its present authors are known.
    pub(super) fn answer_watch(&mut self, now: Time, place: Guid, waiting: Waiting) {
        let Some(known) = self.watched.get(&place) else { return };
        let absent = known.absent(self.authors.there());
        if absent.is_empty() {
            return self.notify_watcher(place, waiting, &BTreeSet::new());
        }
        let what = What::Watch { place, waiting };
        if let Some(job) = self.open(now, waiting.asker, waiting.request, what, 1) {
            self.ask_there(job, &absent);
        }
    }
    fn notify_watcher(&mut self, place: Guid, waiting: Waiting, more_there: &BTreeSet<Guid>) {
        let Waiting { asker, request, digest, is_new } = waiting;
        let Some(known) = self.watched.get(&place) else { return };
        // The queried authors are usually known now.
        let mut all = BTreeMap::new();
        let there = match more_there.iter().all(|author| self.authors.there().contains_key(author)) {
            true => self.authors.there(),
            false => {
                all.clone_from(self.authors.there());
                all.extend(more_there.iter().map(|author| (*author, 0)));
                &all
            }
        };
        let answer = match !is_new && known.digest(there) == digest {
            true => NameMessage::Done { request, replicas: 1 },
            false => page(request, place, None, known.live(there)),
        };
        self.outbox.push_back((asker, answer));
    }

    // Renew.

    fn renew(&mut self, now: Time, from: Asker, request: u32, author: Guid, lease: Duration, holdings: Vec<Holding>) {
        let what = What::Renew { author, lease, holdings, is_lost: false };
        let Some(job) = self.open(now, from, request, what, 2) else { return };
        let (presence, memory) = (Leases::presence(&author, lease), self.leases.memory(&author));
        self.ask(Part::Job(job, Step::PresenceRenewed), |id| Request::Renew { id, lease: presence });
        self.ask(Part::Job(job, Step::MemoryRenewed), |id| Request::Renew { id, lease: memory });
    }
    /// An author whose presence has ended, or is under another lease, is present again.
    pub(super) fn on_presence(&mut self, now: Time, job: u64, is_alive: bool) {
        let Some(What::Renew { author, lease, .. }) = self.jobs.get(&job).map(|job| &job.what) else { return };
        let (author, lease) = (*author, *lease);
        match is_alive && self.authors.there().contains_key(&author) {
            true => self.on_part(now, job),
            false => self.put_presence(job, author, lease),
        }
    }
    /// Buckets whose records an author must put again.
    fn compare(&mut self, now: Time, author: Guid, lease: Duration, holdings: &[Holding], is_lost: bool) -> Vec<u16> {
        let mut missing = Vec::new();
        let mut surplus = Vec::new();
        for stated in holdings {
            match self.authors.compare(now, author, *stated, lease) {
                Comparison::Same if is_lost => missing.push(stated.bucket),
                Comparison::Same => {}
                Comparison::Differs => missing.push(stated.bucket),
                Comparison::Surplus => {
                    missing.push(stated.bucket);
                    if self.ends.contains(&stated.bucket) {
                        surplus.push(stated.bucket);
                    }
                }
            }
        }
        let unclaimed = self.authors.unclaimed(now, author, lease);
        surplus.extend(unclaimed.into_iter().filter(|bucket| self.ends.contains(bucket)));
        for bucket in surplus {
            let stated = self.authors.take_unmatched(author, bucket);
            let (range, part) = (keys::bucket_range(bucket), Part::Surplus { author, bucket, stated });
            self.outside.read(Priority::Background, part, range, PAGE, Pages::AsTheyAre);
        }
        missing
    }
    /// Records that an author has not put again end, except the subscriptions of an earlier run, which last until their
    /// own end. Their versions stay known.
    pub(super) fn on_surplus(&mut self, now: Time, Page { id, part, entries, rest, .. }: Page<Part>) {
        let Part::Surplus { author, bucket, stated } = &part else { return };
        let lease = self.leases.deletions(author, now, (MEMORY, RECORD_SPAN));
        for entry in entries.into_iter().filter(keys::is_stated) {
            let Some(Key::Record(slot)) = Key::read(&entry.key) else { continue };
            let outlives =
                || keys::verified(&slot, &entry).is_some_and(|(record, _)| record.statement().body.outlives_author());
            if slot.1.0 != *author || bucket_of(&slot.0) != *bucket || stated.contains(&slot) || outlives() {
                continue;
            }
            self.outside.stats.ended += 1;
            // A record with the highest possible version is left alone; it ends with its author's memory.
            let when = If::Below(entry.version.saturating_add(1));
            let entry = keys::ended(entry);
            self.outside.ask(Priority::Background, Part::Ended, |id| Request::Put { id, entry, when, lease });
        }
        if let Some(rest) = rest {
            self.outside.read_on(id, part, rest);
        }
    }
}

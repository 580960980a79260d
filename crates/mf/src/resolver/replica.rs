//! Holds name records: the newest version per author and place, and their watchers. With a repository they outlive the
//! node: a put is answered when the record is durable, and so only its sender waits for the disk.
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::String,
    vec::Vec,
};
use core::ops::Bound;

use tributary_content::StoreError;
use tributary_core::{Duration, Time};
use tributary_trust::{Identity, UnixTime};

use super::{Asker, Records, WatchOrder, admit, bucket_on, mark, page};
use crate::{
    ids::{Guid, NetworkAddress},
    router::proxy::{ChunkRepository, Damage},
    wire::{Holding, NameMessage, NameRecord, RecordKey, Refusal, bucket_of, names::SUBSCRIPTION_SPAN},
};

/// Default maximum of held records.
pub const RECORDS_HELD_MAX: usize = 1_000_000;
/// Maximum watches of one place.
pub(super) const WATCHERS_MAX: usize = 4_096;
/// Records that are handed over at the same time.
const HANDING_MAX: usize = 64;
/// How long to wait for a router's answer to a hand-over; the pause doubles with each try, up to this many times.
const HANDING_PATIENCE: Duration = Duration::from_secs(2);
const HANDING_PAUSES_MAX: u32 = 16;
/// How long the version of an ended record is remembered, so that it cannot be replayed.
pub(super) const MEMORY: Duration = Duration::from_secs(600);
/// Interval of attempts to read an earlier run's records.
const READ_AGAIN: Duration = Duration::from_secs(5);
/// After how long records are written again that could not be written.
const WRITE_AGAIN: Duration = Duration::from_secs(1);
/// Answers that wait for the disk, at most; requesters without an answer repeat their requests.
const WAITING_MAX: usize = 16_384;
/// The longest lifetime of a record and of a watch.
pub(super) const LIFETIME_MAX: Duration = Duration::from_secs(3_600);

tributary_core::declared! {
    /// The records of one node of the service.
    pub struct Replica {
        places: BTreeMap<Guid, Place> = BTreeMap::new(),
        records: usize = 0,
        records_max: usize = records_max,
        /// In a network with an authority, whose records have an end.
        identity: Option<Identity> = None,
        /// When to check whether a record has ended: once per record, no later than its end.
        expiries: BTreeSet<(Time, Slot)> = BTreeSet::new(),
        /// Each device's records per bucket.
        leases: BTreeMap<(Guid, u16), Lease> = BTreeMap::new(),
        /// Places with watchers.
        watched: BTreeSet<Guid> = BTreeSet::new(),
        repository: Option<Box<dyn ChunkRepository>> = None,
        next_id: u64 = 0,
        /// The repository if an earlier run's records could not be read, and when to try again. Until then records are
        /// refused, since none could be kept.
        unread: Option<(Box<dyn ChunkRepository>, Time)> = None,
        /// Records that are neither durable nor in a commit.
        unwritten: BTreeSet<Slot> = BTreeSet::new(),
        /// Records in the running commit.
        writing: Option<BTreeMap<Slot, Writing>> = None,
        /// Obsolete numbers in the repository. A record's old version is removed once the new one is durable: a power
        /// cut may keep a removal and lose the put before it.
        gone: Vec<u64> = Vec::new(),
        /// Answers for the next commit, and for the running one.
        waiting: Vec<(Asker, NameMessage)> = Vec::new(),
        promised: Vec<(Asker, NameMessage)> = Vec::new(),
        commit_at: Option<Time> = None,
        failure: Option<StoreError> = None,
        outbox: VecDeque<(Asker, NameMessage)> = VecDeque::new(),
        watch_order: WatchOrder = WatchOrder::default(),
        /// Pending hand-overs: router and bucket.
        to_hand: BTreeSet<(NetworkAddress, u16)> = BTreeSet::new(),
        /// The records of the bucket that is being handed over.
        next_to_hand: VecDeque<(NetworkAddress, Slot)> = VecDeque::new(),
        /// Unconfirmed hand-overs, by the number of the message.
        handing: BTreeMap<u32, Handing> = BTreeMap::new(),
        next_handing: u32 = 0,
        /// Routers that refused something, and that was noted.
        refused_by: BTreeSet<NetworkAddress> = BTreeSet::new(),
        notes: VecDeque<String> = VecDeque::new(),
        swept_at: Time = Time::ZERO,
        /// Forged or malformed records that were refused.
        pub forged: u64 = 0,
    }
    /// A replica that holds at most `records_max` records.
    pub fn new(records_max: usize) {}
}

#[derive(Debug)]
struct Handing {
    to: NetworkAddress,
    slot: Slot,
    due: Time,
    tries: u32,
    /// It was refused and is offered again when it is due.
    is_refused: bool,
}

/// A record at a place.
type Slot = (Guid, RecordKey);

/// A record that is being written.
struct Writing {
    version: u64,
    /// Its number in the repository.
    id: u64,
}

#[derive(Debug, Default)]
struct Place {
    records: BTreeMap<RecordKey, Held>,
    watchers: BTreeMap<Asker, Time>,
    /// The [`digest`](super::digest) of the records found here.
    digest: u64,
}

#[derive(Debug)]
struct Held {
    version: u64,
    /// The encoded record; empty for an ended one whose version is remembered.
    record: Vec<u8>,
    is_deletion: bool,
    /// When it is over, unless its author's lease is longer.
    until: Time,
    /// When the record ends in any case, by its author's word. Its version is remembered until then.
    ends: Option<UnixTime>,
    /// When to check it.
    look_at: Time,
    /// The number of its durable copy, or else of an older version's.
    id: Option<u64>,
}

impl Held {
    /// Whether requesters find it.
    fn is_live(&self) -> bool {
        !self.record.is_empty() && !self.is_deletion
    }
}

/// A device's records in a bucket, and their common lifetime.
#[derive(Debug, Default)]
struct Lease {
    until: Time,
    holding: Holding,
}

impl Replica {
    /// Records could not be written: they are written again later. Unanswered requesters repeat their puts.
    fn on_failed(&mut self, now: Time, writing: BTreeMap<Slot, Writing>, error: StoreError) {
        self.promised.clear();
        self.failure = Some(error);
        for (slot, Writing { id, .. }) in writing {
            self.gone.push(id);
            self.unwritten.insert(slot);
        }
        self.commit_at = Some(now + WRITE_AGAIN);
    }
    /// Queues the answer to a put until its record is durable.
    fn promise(&mut self, now: Time, to: Asker, answer: NameMessage, slot: Option<Slot>) {
        let is_being_written = |slot: Slot| {
            self.unwritten.contains(&slot) || self.writing.as_ref().is_some_and(|writing| writing.contains_key(&slot))
        };
        if !slot.is_some_and(is_being_written) {
            return self.outbox.push_back((to, answer));
        }
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push((to, answer));
        }
        // Else the commit that runs looks again.
        if self.writing.is_none() {
            self.commit_at.get_or_insert(now);
        }
    }
    fn hand(&mut self, now: Time) {
        let mut open = self.handing.values().filter(|handing| !handing.is_refused).count();
        while open < HANDING_MAX {
            let Some((to, slot)) = self.next_to_hand.pop_front() else {
                let Some((to, bucket)) = self.to_hand.pop_first() else { return };
                self.expand(to, bucket);
                continue;
            };
            self.next_handing = self.next_handing.wrapping_add(1) | NameMessage::HAND_OVER_BIT;
            let handing = Handing { to, slot, due: now + HANDING_PATIENCE, tries: 1, is_refused: false };
            if self.send_handover(self.next_handing, &handing) {
                self.handing.insert(self.next_handing, handing);
                open += 1;
            }
        }
    }
    /// Queues the records of a bucket for a router.
    fn expand(&mut self, to: NetworkAddress, bucket: u16) {
        let mut first = Guid::NONE;
        first.0[..2].copy_from_slice(&(bucket << 6).to_be_bytes());
        let places = self.places.range(first..).take_while(|(place, _)| bucket_of(place) == bucket);
        for (place, known) in places {
            let records = known.records.iter().filter(|(_, held)| !held.record.is_empty());
            self.next_to_hand.extend(records.map(|(key, _)| (to, (*place, *key))));
        }
    }
    /// False if the record is gone.
    fn send_handover(&mut self, request: u32, handing: &Handing) -> bool {
        let (place, _) = handing.slot;
        let Some(record) = self.held(&handing.slot).map(|held| held.record.clone()).filter(|it| !it.is_empty()) else {
            return false;
        };
        let put = NameMessage::Put { request, place, record };
        self.outbox.push_back((Asker { guid: Guid::NONE, address: handing.to }, put));
        true
    }
    /// Repeats unconfirmed hand-overs.
    fn hand_again(&mut self, now: Time) {
        let due: Vec<u32> =
            self.handing.iter().filter(|(_, handing)| handing.due <= now).map(|(request, _)| *request).collect();
        for request in due {
            let Some(mut handing) = self.handing.remove(&request) else { continue };
            handing.tries += 1;
            handing.due = now + HANDING_PATIENCE * (1 << handing.tries.min(16)).min(HANDING_PAUSES_MAX);
            handing.is_refused = false;
            if self.send_handover(request, &handing) {
                self.handing.insert(request, handing);
            }
        }
        self.hand(now);
    }
    /// Prolongs a device's records in a bucket; false if the records here differ.
    fn renew(&mut self, author: Guid, stated: Holding, until: Time) -> bool {
        match self.leases.get_mut(&(author, stated.bucket)) {
            Some(lease) if lease.holding == stated => {
                lease.until = lease.until.max(until);
                true
            }
            _ => stated.count == 0,
        }
    }
    fn held(&self, (place, key): &Slot) -> Option<&Held> {
        self.places.get(place)?.records.get(key)
    }
    /// Replaces a record, and updates the sums and timers that depend on it.
    fn keep(&mut self, now: Time, slot: Slot, record: &NameRecord, bytes: Vec<u8>, id: Option<u64>) {
        let (place, key) = slot;
        let (version, is_deletion) = (record.statement().version, record.is_deletion());
        let until = now + lifetime_of(record);
        self.count_out(&slot);
        let known = self.places.entry(place).or_default();
        // An early timer is moved when it fires.
        let look_at = match known.records.get(&key).map(|held| held.look_at) {
            Some(at) if at <= until => at,
            later => {
                later.map(|at| self.expiries.remove(&(at, slot)));
                self.expiries.insert((until, slot));
                until
            }
        };
        let ends = record.statement().ends;
        let held = Held { version, record: bytes, is_deletion, until, ends, look_at, id };
        self.records += usize::from(known.records.insert(key, held).is_none());
        if !is_deletion {
            let (bucket, (author, guid)) = (bucket_of(&place), key);
            known.digest = known.digest.wrapping_add(mark(&author, &guid, version));
            let lease = self.leases.entry((author, bucket)).or_default();
            lease.holding.bucket = bucket;
            lease.holding.add(mark(&place, &guid, version));
        }
    }
    /// The old record is not found anymore, or has another version.
    fn count_out(&mut self, (place, key): &Slot) {
        let Some(known) = self.places.get_mut(place) else { return };
        let Some(version) = known.records.get(key).filter(|held| held.is_live()).map(|held| held.version) else {
            return;
        };
        let ((author, guid), bucket) = (key, bucket_of(place));
        known.digest = known.digest.wrapping_sub(mark(author, guid, version));
        if let Some(lease) = self.leases.get_mut(&(*author, bucket)) {
            lease.holding.remove(mark(place, guid, version));
            if lease.holding.count == 0 {
                self.leases.remove(&(*author, bucket));
            }
        }
    }
    fn forget_if_empty(&mut self, place: &Guid) {
        if self.places.get(place).is_some_and(|known| known.watchers.is_empty()) {
            self.watched.remove(place);
            if self.places[place].records.is_empty() {
                self.places.remove(place);
            }
        }
    }
    /// Takes a record; returns the answer, and what must be durable before it is sent.
    fn put(&mut self, now: Time, request: u32, place: Guid, bytes: Vec<u8>) -> (NameMessage, Option<Slot>) {
        let refused = |refusal| (NameMessage::Refused { request, refusal }, None);
        if self.unread.is_some() {
            return refused(Refusal::Full);
        }
        let record = match admit(self.identity.as_ref(), now, &place, &bytes) {
            Ok(record) => record,
            Err(refusal) => {
                self.forged += u64::from(refusal != Refusal::Ended);
                return refused(refusal);
            }
        };
        let (slot, version) = ((place, record.key()), record.statement().version);
        let held = self.held(&slot);
        if let Some(held) = held
            && (held.version > version || (held.version == version && held.record != bytes))
        {
            return (NameMessage::Stale { request, current: held.version }, None);
        }
        if held.is_none() && self.records >= self.records_max {
            return refused(Refusal::Full);
        }
        let changed = held.is_none_or(|held| held.version < version);
        let id = held.and_then(|held| held.id);
        if self.repository.is_some() && changed {
            self.unwritten.insert(slot);
        }
        if changed && let Some(known) = self.places.get_mut(&place) {
            known.watchers.retain(|_, until| *until > now);
            let notify = |watcher: &Asker| (*watcher, NameMessage::Notify { place, record: bytes.clone() });
            self.outbox.extend(known.watchers.keys().map(notify));
        }
        self.keep(now, slot, &record, bytes, id);
        (NameMessage::Done { request, replicas: 1 }, Some(slot))
    }
    fn found(&mut self, now: Time, to: Asker, request: u32, place: Guid, after: Option<RecordKey>) {
        let known = self.places.get(&place);
        let bounds = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let records = known.into_iter().flat_map(|known| known.records.range(bounds));
        let live = records.filter(|(key, held)| held.is_live() && self.holds_until(&place, key, held) > now);
        let answer = page(request, place, after, live.map(|(key, held)| (key, &held.record[..])));
        self.outbox.push_back((to, answer));
    }
    /// Until when a record holds: its own lifetime, or the lease of its author.
    fn holds_until(&self, place: &Guid, (author, _): &RecordKey, held: &Held) -> Time {
        match self.leases.get(&(*author, bucket_of(place))).filter(|_| held.is_live()) {
            Some(lease) => held.until.max(lease.until),
            None => held.until,
        }
    }
    /// A record may have ended: its version is remembered for some time, then nothing.
    fn expire(&mut self, now: Time, slot: Slot) {
        let (place, key) = slot;
        let Some(held) = self.held(&slot) else { return };
        let mut until = self.holds_until(&place, &key, held);
        let (has_ended, is_forgotten) = (until <= now, held.record.is_empty());
        if has_ended && !is_forgotten {
            // Until its end it, or an earlier version, could be replayed.
            let ends = held.ends.zip(self.identity.as_ref());
            let left = ends.map_or(0, |(ends, identity)| {
                let latest = SUBSCRIPTION_SPAN + identity.network().clock_tolerance();
                ends.since(identity.time_of_day(now)).min(latest)
            });
            self.count_out(&slot);
            until = now + MEMORY.max(Duration::from_secs(left));
        }
        let Some(known) = self.places.get_mut(&place) else { return };
        if has_ended && is_forgotten {
            self.gone.extend(known.records.remove(&key).and_then(|held| held.id));
            self.records -= 1;
            return self.forget_if_empty(&place);
        }
        if let Some(held) = known.records.get_mut(&key) {
            if has_ended {
                (held.record, held.until) = (Vec::new(), until);
            }
            held.look_at = until;
            self.expiries.insert((until, slot));
        }
    }
    /// Places and records held.
    pub fn size(&self) -> (usize, usize) {
        (self.places.len(), self.records)
    }
}

impl Records for Replica {
    fn set_identity(&mut self, identity: &Identity) {
        self.identity = Some(identity.clone());
    }
    fn restore(&mut self, now: Time, mut repository: Box<dyn ChunkRepository>) -> Result<usize, StoreError> {
        let found = match repository.list() {
            Ok(found) => found,
            Err(error) => {
                self.unread = Some((repository, now + READ_AGAIN));
                return Err(error);
            }
        };
        for (id, head, _) in found {
            self.next_id = self.next_id.max(id + 1);
            let place = head.first_chunk().map(|place| Guid(*place));
            let record = match repository.read(id) {
                Ok(bytes) => NameRecord::decode(&bytes).ok(),
                Err(error) => {
                    self.failure = Some(error);
                    None
                }
            };
            let (Some(place), Some(record)) = (place, record) else { continue };
            if !record.places().contains(&place) || self.records >= self.records_max {
                continue;
            }
            let slot = (place, record.key());
            match self.held(&slot) {
                Some(held) if held.version >= record.statement().version => self.gone.push(id),
                older => {
                    self.gone.extend(older.and_then(|older| older.id));
                    self.keep(now, slot, &record, record.encode(), Some(id));
                }
            }
        }
        self.repository = Some(repository);
        Ok(self.records)
    }
    fn handle(&mut self, now: Time, from: Asker, message: NameMessage) {
        match message {
            NameMessage::Put { request, place, record } => {
                let (answer, slot) = self.put(now, request, place, record);
                self.promise(now, from, answer, slot);
            }
            NameMessage::Lookup { request, place } => self.found(now, from, request, place, None),
            NameMessage::Next { request, place, after } => self.found(now, from, request, place, Some(after)),
            NameMessage::Renew { request, author, lease_ms, holdings } => {
                let until = now + Duration::from_millis(u64::from(lease_ms)).min(LIFETIME_MAX);
                let missing = holdings.into_iter().filter(|stated| !self.renew(author, *stated, until));
                let missing = missing.map(|stated| stated.bucket).collect();
                self.outbox.push_back((from, NameMessage::Renewed { request, missing }));
            }
            NameMessage::Watch { request, place, lease_ms, known: digest } => {
                if self.watch_order.is_overtaken(now, from, place, request) {
                    return self.outbox.push_back((from, NameMessage::Done { request, replicas: 0 }));
                }
                let lease = Duration::from_millis(u64::from(lease_ms)).min(LIFETIME_MAX);
                if lease_ms == 0 {
                    if let Some(known) = self.places.get_mut(&place) {
                        known.watchers.remove(&from);
                    }
                    self.forget_if_empty(&place);
                    return self.outbox.push_back((from, NameMessage::Done { request, replicas: 1 }));
                }
                self.watched.insert(place);
                let known = self.places.entry(place).or_default();
                let watchers = &mut known.watchers;
                if watchers.len() >= WATCHERS_MAX && !watchers.contains_key(&from) {
                    let refused = NameMessage::Refused { request, refusal: Refusal::Full };
                    return self.outbox.push_back((from, refused));
                }
                let is_new = watchers.insert(from, now + lease).is_none();
                if !is_new && known.digest == digest {
                    return self.outbox.push_back((from, NameMessage::Done { request, replicas: 1 }));
                }
                self.found(now, from, request, place, None);
            }
            _ => {}
        }
    }
    fn handle_answer(&mut self, now: Time, from: NetworkAddress, message: &NameMessage) {
        let (request, refusal) = match message {
            NameMessage::Done { request, .. } | NameMessage::Stale { request, .. } => (request, None),
            NameMessage::Refused { request, refusal } => (request, Some(*refusal)),
            _ => return,
        };
        let Some(handing) = self.handing.get_mut(request).filter(|handing| handing.to == from) else { return };
        match refusal {
            Some(Refusal::Full) => {
                handing.is_refused = true;
                handing.due = now + HANDING_PATIENCE * (1 << handing.tries.min(16)).min(HANDING_PAUSES_MAX);
                if self.refused_by.insert(from) {
                    self.notes.push_back(format!(
                        "names: the router at {from} holds as many records as it may and does not take all that it is to \
                         hold; they are offered again and kept here until their lifetimes end"
                    ));
                }
            }
            Some(_) | None => drop(self.handing.remove(request)),
        }
        self.hand(now);
    }
    fn settle(&mut self, now: Time) {
        if let Some((repository, _)) = self.unread.take_if(|(_, at)| *at <= now)
            && let Ok(records) = self.restore(now, repository)
        {
            self.notes.push_back(format!("names: the {records} stored records can be read now"));
        }
        let Some(repository) = &mut self.repository else { return };
        if let Some(writing) = self.writing.take() {
            match repository.is_committed() {
                Ok(false) => {
                    self.writing = Some(writing);
                    // Else the repository has the node called.
                    self.commit_at = repository.poll_interval().map(|interval| now + interval);
                    return;
                }
                Ok(true) => {
                    self.outbox.extend(self.promised.drain(..));
                    for ((place, key), Writing { version, id }) in writing {
                        let held = self.places.get_mut(&place).and_then(|place| place.records.get_mut(&key));
                        match held.filter(|held| held.version >= version) {
                            Some(held) => self.gone.extend(held.id.replace(id)),
                            None => self.gone.push(id),
                        }
                    }
                    if self.unwritten.is_empty() {
                        // They repeated the put during its write.
                        self.outbox.extend(self.waiting.drain(..));
                    }
                    // Obsolete records are removed with the next write, or when their timer is due.
                    self.commit_at = (!self.unwritten.is_empty()).then_some(now);
                }
                Err(error) => return self.on_failed(now, writing, error),
            }
        }
        let has_work = !self.unwritten.is_empty() || !self.gone.is_empty();
        if self.commit_at.is_none_or(|at| at > now) {
            return;
        }
        if !has_work {
            // After a failed commit, its records may have ended before the next attempt.
            self.commit_at = None;
            return;
        }
        let mut writing = BTreeMap::new();
        let mut done = Ok(());
        for (place, key) in core::mem::take(&mut self.unwritten) {
            let held = self.places.get(&place).and_then(|place| place.records.get(&key));
            // It may be over by now.
            let Some(held) = held.filter(|held| !held.record.is_empty()) else { continue };
            let (id, version) = (self.next_id, held.version);
            self.next_id += 1;
            done = done.and_then(|()| repository.put(id, &place.0, &[held.record.clone().into()]));
            writing.insert((place, key), Writing { version, id });
        }
        for id in self.gone.drain(..) {
            done = done.and_then(|()| repository.remove(id));
        }
        self.promised = core::mem::take(&mut self.waiting);
        match done.and_then(|()| repository.commit()) {
            Ok(()) => {
                self.writing = Some(writing);
                // A commit in memory ends at once.
                self.commit_at = Some(now);
            }
            Err(error) => self.on_failed(now, writing, error),
        }
    }
    fn poll_failure(&mut self) -> Option<StoreError> {
        self.failure.take()
    }
    fn poll_message(&mut self) -> Option<(Asker, NameMessage)> {
        self.outbox.pop_front()
    }
    fn poll_note(&mut self) -> Option<String> {
        self.notes.pop_front()
    }
    fn poll_timeout(&self) -> Option<Time> {
        self.commit_at.into_iter().chain(self.unread.as_ref().map(|(_, at)| *at)).min()
    }
    fn handle_timeout(&mut self, now: Time) {
        if now.since(self.swept_at) < Duration::from_secs(1) {
            return;
        }
        self.swept_at = now;
        self.hand_again(now);
        for place in self.watched.iter().copied().collect::<Vec<Guid>>() {
            if let Some(known) = self.places.get_mut(&place) {
                known.watchers.retain(|_, until| *until > now);
            }
            self.forget_if_empty(&place);
        }
        while let Some(&(at, slot)) = self.expiries.first().filter(|(at, _)| *at <= now) {
            self.expiries.remove(&(at, slot));
            self.expire(now, slot);
        }
        if self.repository.is_some() && self.writing.is_none() && !self.gone.is_empty() {
            self.commit_at.get_or_insert(now);
        }
    }
    fn on_restarted(&mut self, router: NetworkAddress) {
        self.watch_order.forget(|asker| asker.address == router);
    }
    fn handle_members(
        &mut self,
        now: Time,
        own: NetworkAddress,
        before: &[NetworkAddress],
        members: &[NetworkAddress],
        replicas: usize,
    ) {
        self.to_hand.retain(|(to, _)| members.contains(to));
        self.next_to_hand.retain(|(to, _)| members.contains(to));
        self.handing.retain(|_, handing| members.contains(&handing.to));
        self.refused_by.retain(|to| members.contains(to));
        let places = self.places.iter().filter(|(_, known)| !known.records.is_empty());
        let buckets: BTreeSet<u16> = places.map(|(place, _)| bucket_of(place)).collect();
        for bucket in buckets {
            let old = bucket_on(bucket, before.iter().copied(), replicas);
            let new = bucket_on(bucket, members.iter().copied(), replicas);
            let newcomers = new.into_iter().filter(|member| *member != own && !old.contains(member));
            self.to_hand.extend(newcomers.map(|member| (member, bucket)));
        }
        self.hand(now);
    }
    fn damage(&self) -> Option<Damage> {
        self.repository.as_ref().map(|repository| repository.damage()).or(Some(Damage::default()))
    }
    fn knows(&self, place: &Guid) -> bool {
        self.places.get(place).is_some_and(|place| place.records.values().any(|held| !held.record.is_empty()))
    }
    fn tables(&self) -> Vec<(&'static str, u64)> {
        let (places, records) = self.size();
        Vec::from([("name_places", places as u64), ("name_records", records as u64)])
    }
    fn status(&self) -> Vec<(&'static str, String)> {
        let (places, records) = self.size();
        Vec::from([("names held", format!("{records} records at {places} places"))])
    }
}

/// How long a record is kept without being renewed; that something was deleted is remembered longer.
pub(super) fn lifetime_of(record: &NameRecord) -> Duration {
    let most = match record.statement().body.is_of_subscription() {
        true => Duration::from_secs(SUBSCRIPTION_SPAN),
        false => LIFETIME_MAX,
    };
    let lifetime = Duration::from_millis(u64::from(record.statement().lifetime_ms)).min(most);
    if record.is_deletion() { lifetime.max(MEMORY) } else { lifetime }
}

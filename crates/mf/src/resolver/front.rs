//! The name service of an access router: takes requests from attached hosts and the router itself, queries the
//! replicas, and returns one answer.
use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};
use core::ops::Bound;

use tributary_core::{Duration, Time};

use super::{Asker, WatchOrder, bucket_on, digest, page, replica::lifetime_of};
use crate::{
    ids::{Guid, NetworkAddress},
    wire::{Holding, NameMessage, NameRecord, RecordKey, Refusal, bucket_of},
};

/// How many replicas are queried at the same time (DMap: 2 of K).
const REPLICAS_QUERIED: usize = 2;
/// How long to wait for an answer, and how often a request is sent (prototype: 500 ms, twice).
const PATIENCE: Duration = Duration::from_millis(500);
const TRIES: u32 = 3;
/// Maximum open requests.
const OPEN_MAX: usize = 16_384;
/// Lease of the watches that a front holds at replicas.
const LEASE: Duration = Duration::from_secs(30);
/// Minimum validity of a replica's records: it is queried again each third of a lease.
const NOTIFIED_MIN: Duration = Duration::from_secs(15);
/// Maximum watched places.
const WATCHED_MAX: usize = 65_536;

/// The service of one access router.
#[derive(Debug, Default)]
pub struct Front {
    /// Maximum open requests.
    open_max: usize,
    /// This router itself, which delivers by all records.
    node: Guid,
    replicas: usize,
    /// Routers that hold records, nearest first.
    members: Vec<NetworkAddress>,
    /// The replicas of requested buckets, nearest first.
    placed: BTreeMap<u16, Vec<NetworkAddress>>,
    next_request: u32,
    open: BTreeMap<u32, Question>,
    watched: BTreeMap<Guid, Watched>,
    watch_order: WatchOrder,
    outbox: VecDeque<(NetworkAddress, NameMessage)>,
    answers: VecDeque<(Asker, NameMessage)>,
    /// Nothing is due before.
    due: Time,
}

tributary_core::declared! {
    #[derive(Debug)]
    struct Question {
        asker: Option<Asker> = asker,
        request: u32 = request,
        message: NameMessage = message,
        queried: Vec<NetworkAddress> = Vec::new(),
        answered: Vec<NetworkAddress> = Vec::new(),
        /// The last record of the page received from each replica of a watch.
        pages: BTreeMap<NetworkAddress, RecordKey> = BTreeMap::new(),
        /// Buckets that differ between a replica and the device.
        missing: BTreeSet<u16> = BTreeSet::new(),
        kept: u8 = 0,
        stale: u64 = 0,
        refused: Option<Refusal> = None,
        /// Whether a replica has answered that can use its engine.
        is_served: bool = false,
        due: Time = now,
        tries: u32 = 0,
    }
    fn new(now: Time, asker: Option<Asker>, request: u32, message: NameMessage) {}
}

impl Question {
    /// Sends the request once more at once, regardless of the number of attempts.
    fn repeat(&mut self, now: Time) {
        (self.due, self.tries) = (now, self.tries.min(TRIES - 1));
    }
}

#[derive(Debug, Default)]
struct Watched {
    watchers: BTreeMap<Asker, Time>,
    renew_at: Time,
    /// Whether replicas have sent their records.
    is_known: bool,
    /// The newest version of each record, as it was passed on.
    notified: BTreeMap<RecordKey, Notified>,
}

#[derive(Debug)]
struct Notified {
    version: u64,
    lifetime: Duration,
    record: Vec<u8>,
    is_deleted: bool,
    /// When it is forgotten unless a replica has it.
    until: Time,
}

impl Watched {
    /// The records behind `after` that a reader may see.
    fn live(&self, after: Option<RecordKey>, reader: Reader) -> impl Iterator<Item = (&RecordKey, &Notified)> {
        let behind = self.notified.range((after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
        behind.filter(move |(_, notified)| !notified.is_deleted && reader.may_know(&notified.record))
    }
    fn digest(&self, reader: Reader) -> u64 {
        digest(self.live(None, reader).map(|(key, notified)| (*key, notified.version)))
    }
    fn page(&self, request: u32, place: Guid, after: Option<RecordKey>, reader: Reader) -> NameMessage {
        page(request, place, after, self.live(after, reader).map(|(key, notified)| (key, &notified.record[..])))
    }
}

/// Whose eyes something is for.
#[derive(Clone, Copy)]
enum Reader {
    /// This router.
    Router,
    /// A host.
    Host(Guid),
}

impl Reader {
    /// The reader behind a request to the front of the router `node`.
    fn of(asker: Asker, node: Guid) -> Reader {
        if asker.guid == node { Reader::Router } else { Reader::Host(asker.guid) }
    }
    fn may_know(self, record: &[u8]) -> bool {
        match self {
            Reader::Router => true,
            Reader::Host(guid) => NameRecord::bytes_may_be_read_by(record, &guid),
        }
    }
}

impl Front {
    /// The front of the router `node`; records have `replicas` replicas.
    pub fn new(node: Guid, replicas: usize) -> Front {
        Front { open_max: OPEN_MAX, node, replicas, due: Time::MAX, ..Front::default() }
    }
    /// Has [`Front::handle_timeout`] look at everything.
    fn look(&mut self, at: Time) {
        self.due = self.due.min(at);
    }
    /// The routers that hold the records of a bucket, nearest first.
    fn replicas_of(&mut self, bucket: u16) -> &[NetworkAddress] {
        let (members, replicas) = (&self.members, self.replicas);
        self.placed.entry(bucket).or_insert_with(|| {
            let chosen = bucket_on(bucket, members.iter().copied(), replicas);
            members.iter().copied().filter(|member| chosen.contains(member)).collect()
        })
    }
    /// Takes the routers that hold records, nearest first; whether they are others than before.
    pub fn handle_members(&mut self, now: Time, members: Vec<NetworkAddress>) -> bool {
        let same = |known: &Vec<NetworkAddress>| {
            members.len() == known.len() && members.iter().all(|member| known.contains(member))
        };
        let changed = !same(&self.members);
        self.members = members;
        self.placed.clear();
        self.look(now);
        if changed {
            for watched in self.watched.values_mut() {
                watched.renew_at = now;
            }
            self.open.values_mut().for_each(|question| question.repeat(now));
        }
        changed
    }
    /// A router has restarted: as a replica, it has lost its requests and watchers.
    pub fn on_restarted(&mut self, now: Time, member: NetworkAddress) {
        self.look(now);
        if self.members.contains(&member) {
            self.watched.values_mut().for_each(|watched| watched.renew_at = now);
        }
        let lost =
            |question: &&mut Question| question.queried.contains(&member) && !question.answered.contains(&member);
        self.open.values_mut().filter(lost).for_each(|question| question.repeat(now));
    }
    /// Limits the open requests.
    #[cfg(test)]
    pub(super) fn set_open_max(&mut self, open_max: usize) {
        self.open_max = open_max;
    }
    /// Takes a question of a host or of this node.
    pub fn handle_question(&mut self, now: Time, asker: Asker, message: NameMessage) {
        let request = match &message {
            NameMessage::Put { request, .. } | NameMessage::Lookup { request, .. } => *request,
            NameMessage::Watch { request, place, lease_ms, known } => {
                let (request, place) = (*request, *place);
                if self.watch_order.is_overtaken(now, asker, place, request) {
                    return;
                }
                if !self.on_watch(now, asker, place, *lease_ms, *known) {
                    let refused = NameMessage::Refused { request, refusal: Refusal::Full };
                    return self.answers.push_back((asker, refused));
                }
                return;
            }
            NameMessage::Next { request, place, after } => {
                let reader = Reader::of(asker, self.node);
                if let Some(watched) = self.watched.get(place).filter(|watched| watched.is_known) {
                    let found = watched.page(*request, *place, Some(*after), reader);
                    return self.answers.push_back((asker, found));
                }
                *request
            }
            // A device renews its own records only.
            NameMessage::Renew { request, author, .. } if *author == asker.guid => *request,
            _ => return,
        };
        if self.open.len() >= self.open_max {
            let refused = NameMessage::Refused { request, refusal: Refusal::Busy };
            return self.answers.push_back((asker, refused));
        }
        self.query(now, Some(asker), request, message);
    }
    fn on_watch(&mut self, now: Time, asker: Asker, place: Guid, lease_ms: u32, known: u64) -> bool {
        if lease_ms == 0 {
            if let Some(watched) = self.watched.get_mut(&place) {
                watched.watchers.remove(&asker);
                if watched.watchers.is_empty() {
                    self.watched.remove(&place);
                    let request = self.number();
                    self.query_with(now, None, 0, NameMessage::Watch { request, place, lease_ms: 0, known: 0 });
                }
            }
            return true;
        }
        if self.watched.len() >= WATCHED_MAX && !self.watched.contains_key(&place) {
            return false;
        }
        let watched = self.watched.entry(place).or_default();
        let until = now + Duration::from_millis(u64::from(lease_ms));
        let is_new = watched.watchers.insert(asker, until).is_none();
        let reader = Reader::of(asker, self.node);
        if watched.is_known && (is_new || known != watched.digest(reader)) {
            let found = watched.page(0, place, None, reader);
            self.answers.push_back((asker, found));
            return true;
        }
        if watched.renew_at == Time::ZERO {
            self.renew(now, place);
        }
        if is_new {
            // A new watcher needs the current state; a lookup returns it, with request 0 like notifications.
            let request = self.number();
            self.query_with(now, Some(asker), 0, NameMessage::Lookup { request, place });
        }
        true
    }
    fn renew(&mut self, now: Time, place: Guid) {
        if let Some(watched) = self.watched.get_mut(&place) {
            watched.renew_at = now + LEASE / 3;
        }
        let request = self.number();
        let lease_ms = u32::try_from(LEASE.as_millis()).unwrap_or(u32::MAX);
        let known = self.watched.get(&place).map_or(0, |watched| watched.digest(Reader::Router));
        self.query_with(now, None, 0, NameMessage::Watch { request, place, lease_ms, known });
        self.look(now + LEASE / 3);
    }
    fn number(&mut self) -> u32 {
        self.next_request = (self.next_request.wrapping_add(1) & !NameMessage::HAND_OVER_BIT).max(1);
        self.next_request
    }
    fn query(&mut self, now: Time, asker: Option<Asker>, request: u32, mut message: NameMessage) {
        let number = self.number();
        if let NameMessage::Put { request, .. }
        | NameMessage::Lookup { request, .. }
        | NameMessage::Next { request, .. }
        | NameMessage::Renew { request, .. } = &mut message
        {
            *request = number;
        }
        self.query_with(now, asker, request, message);
    }
    fn query_with(&mut self, now: Time, asker: Option<Asker>, request: u32, message: NameMessage) {
        let number = self.next_request;
        let question = Question::new(now, asker, request, message);
        self.open.insert(number, question);
        self.send(now, number);
    }
    /// Sends a put to all replicas of the record; a lookup to two more with each try, nearest first.
    fn send(&mut self, now: Time, number: u32) {
        let Some(question) = self.open.get_mut(&number) else { return };
        question.tries += 1;
        question.due = now + PATIENCE;
        self.due = self.due.min(question.due);
        let tries = question.tries as usize;
        let (place, count) = match &question.message {
            NameMessage::Put { place, .. } => (*place, self.replicas),
            NameMessage::Lookup { place, .. } | NameMessage::Next { place, .. } | NameMessage::Watch { place, .. } => {
                (*place, REPLICAS_QUERIED * tries)
            }
            NameMessage::Renew { .. } => return self.send_renewal(number),
            _ => return,
        };
        let nearest: Vec<NetworkAddress> = self.replicas_of(bucket_of(&place)).iter().copied().take(count).collect();
        let Some(question) = self.open.get_mut(&number) else { return };
        for member in nearest {
            if !question.answered.contains(&member) {
                if !question.queried.contains(&member) {
                    question.queried.push(member);
                }
                let message = match question.pages.get(&member) {
                    Some(after) => NameMessage::Next { request: number, place, after: *after },
                    None => question.message.clone(),
                };
                self.outbox.push_back((member, message));
            }
        }
    }
    /// Sends each replica the digests of a device's buckets.
    fn send_renewal(&mut self, number: u32) {
        let Some(NameMessage::Renew { request, author, lease_ms, holdings }) =
            self.open.get(&number).map(|question| question.message.clone())
        else {
            return;
        };
        let mut parts: BTreeMap<NetworkAddress, Vec<Holding>> = BTreeMap::new();
        for holding in holdings {
            for member in self.replicas_of(holding.bucket) {
                parts.entry(*member).or_default().push(holding);
            }
        }
        let Some(question) = self.open.get_mut(&number) else { return };
        for (member, holdings) in parts {
            if !question.answered.contains(&member) {
                if !question.queried.contains(&member) {
                    question.queried.push(member);
                }
                self.outbox.push_back((member, NameMessage::Renew { request, author, lease_ms, holdings }));
            }
        }
    }
    /// A host has restarted: it watches nothing until it asks again, and then gets the current state.
    pub fn forget(&mut self, host: &Guid) {
        self.watch_order.forget(|asker| asker.guid == *host);
        self.watched.values_mut().for_each(|watched| watched.watchers.retain(|asker, _| asker.guid != *host));
    }
    /// Takes an answer or a notification of a replica.
    pub fn handle_answer(&mut self, now: Time, from: NetworkAddress, message: NameMessage) {
        if let NameMessage::Notify { place, record } = &message {
            return drop(self.on_news(now, *place, record, true));
        }
        let Some(number) = message.answered() else { return };
        let Some(question) = self.open.get_mut(&number).filter(|question| question.queried.contains(&from)) else {
            return;
        };
        if question.answered.contains(&from) {
            return;
        }
        if !matches!(&message, NameMessage::Refused { refusal, .. } if refusal.is_of_engine()) {
            question.is_served = true;
        }
        if let (NameMessage::Watch { place, .. }, NameMessage::Page { ends: (after, Some(last)), records, .. }) =
            (&question.message, &message)
        {
            // The answer to a repeated question, or one that leads nowhere.
            if question.pages.get(&from) != after.as_ref() || after.is_some_and(|after| *last <= after) {
                return;
            }
            // The next page is requested from the same replica, which has answered with its last one.
            let place = *place;
            question.pages.insert(from, *last);
            (question.due, question.tries) = (now + PATIENCE, 1);
            self.outbox.push_back((from, NameMessage::Next { request: number, place, after: *last }));
            return self.on_records(now, place, records, true);
        }
        question.answered.push(from);
        let mut all = question.answered.len() >= question.queried.len();
        // A new replica of the place may not have its records yet: the place is empty only if no replica knows any. A
        // replica without access to its engine implies nothing.
        let says_nothing = match (&question.message, &message) {
            (NameMessage::Lookup { .. }, NameMessage::Found { records, .. }) => records.is_empty(),
            (NameMessage::Put { .. } | NameMessage::Renew { .. }, _) => false,
            (_, NameMessage::Refused { refusal, .. }) if refusal.is_of_engine() => !question.is_served,
            _ => false,
        };
        if let Some(place) = place_of(&question.message).filter(|_| all && says_nothing) {
            let queried = question.queried.len();
            if queried < self.replicas_of(bucket_of(&place)).len() {
                self.send(now, number);
                all = false;
            }
        }
        let Some(question) = self.open.get_mut(&number) else { return };
        match message {
            NameMessage::Found { place, records, .. } if matches!(question.message, NameMessage::Watch { .. }) => {
                self.on_records(now, place, &records, false);
            }
            NameMessage::Page { place, records, .. } if matches!(question.message, NameMessage::Watch { .. }) => {
                self.on_records(now, place, &records, true);
            }
            NameMessage::Found { .. } | NameMessage::Page { .. } => self.pass_on(number, message, all),
            NameMessage::Done { replicas, .. } if matches!(question.message, NameMessage::Watch { .. }) => {
                if let Some(place) = place_of(&question.message).filter(|_| replicas > 0) {
                    self.on_unchanged(now, place);
                }
            }
            NameMessage::Renewed { missing, .. } => question.missing.extend(missing),
            NameMessage::Done { replicas, .. } => question.kept = question.kept.saturating_add(replicas),
            NameMessage::Stale { current, .. } => question.stale = question.stale.max(current),
            NameMessage::Refused { refusal, .. } => question.refused = Some(refusal),
            _ => {}
        }
        if all {
            self.conclude(now, number);
        }
    }
    /// Forwards an answer. The nearest replica's wins; an empty one only if it is the last of `all`, since no other can
    /// follow. Records that the requester may not read do not exist for it: an empty answer takes as long either way.
    fn pass_on(&mut self, number: u32, message: NameMessage, all: bool) {
        let Some(question) = self.open.get(&number) else { return };
        let (asker, request, node) = (question.asker, question.request, self.node);
        let reader = asker.map_or(Reader::Router, |asker| Reader::of(asker, node));
        let known = |records: Vec<Vec<u8>>| -> Vec<Vec<u8>> {
            records.into_iter().filter(|record| reader.may_know(record)).collect()
        };
        let (says, answer) = match message {
            NameMessage::Found { place, records, .. } => {
                let records = known(records);
                (!records.is_empty(), NameMessage::Found { request, place, records })
            }
            NameMessage::Page { place, ends, records, .. } => {
                let records = known(records);
                let says = !records.is_empty() || ends.1.is_some();
                (says, NameMessage::Page { request, place, ends, records })
            }
            _ => return,
        };
        if says || all {
            self.open.remove(&number);
            self.answer(asker, answer);
        }
    }
    /// A replica's records of a watched place match those here.
    fn on_unchanged(&mut self, now: Time, place: Guid) {
        let Some(watched) = self.watched.get_mut(&place) else { return };
        for notified in watched.notified.values_mut().filter(|notified| !notified.is_deleted) {
            notified.until = notified.until.max(now + notified.lifetime);
        }
    }
    /// Applies a replica's records of a watched place. Changes between the end of an old lease and the new one are
    /// reported now. A replica that knows less, because it has restarted, is sent the records known here; at the next
    /// renewal, their author sends it newer ones, if any.
    fn on_records(&mut self, now: Time, place: Guid, records: &[Vec<u8>], is_page: bool) {
        // A watcher of a place with several pages fetches them itself until all of them are here.
        let is_filled = self.watched.get(&place).is_none_or(|watched| watched.is_known) || !is_page;
        let newer: Vec<_> = records.iter().filter_map(|record| self.on_news(now, place, record, is_filled)).collect();
        for record in newer {
            self.query(now, None, 0, NameMessage::Put { request: 0, place, record });
        }
    }
    /// Answers a put, or forgets records that no replica has anymore.
    fn conclude(&mut self, now: Time, number: u32) {
        let Some(question) = self.open.remove(&number) else { return };
        let request = question.request;
        let answer = match (&question.message, question.kept, question.stale, question.refused) {
            (NameMessage::Put { .. }, _, current, _) if current > 0 => NameMessage::Stale { request, current },
            (NameMessage::Put { .. }, 0, _, refusal) => {
                NameMessage::Refused { request, refusal: refusal.unwrap_or(Refusal::Unreachable) }
            }
            (NameMessage::Put { .. }, replicas, ..) => NameMessage::Done { request, replicas },
            (NameMessage::Lookup { .. } | NameMessage::Next { .. } | NameMessage::Renew { .. }, .., Some(refusal))
                if refusal.is_of_engine() && !question.is_served =>
            {
                // The absence of records is not certain.
                NameMessage::Refused { request, refusal }
            }
            (NameMessage::Watch { place, .. }, .., Some(refusal)) if refusal.is_of_engine() && !question.is_served => {
                let watchers = self.watched.get(place).into_iter().flat_map(|watched| watched.watchers.keys());
                let refused = |asker: &Asker| (*asker, NameMessage::Refused { request: 0, refusal });
                return self.answers.extend(watchers.map(refused));
            }
            // The first answer to a watch is the state of a place; the watch itself continues.
            (NameMessage::Lookup { .. }, ..) if request == 0 && question.answered.is_empty() => return,
            (NameMessage::Lookup { place, .. }, ..) => {
                NameMessage::Found { request, place: *place, records: Vec::new() }
            }
            (NameMessage::Next { place, after, .. }, ..) => {
                NameMessage::Page { request, place: *place, ends: (Some(*after), None), records: Vec::new() }
            }
            (NameMessage::Renew { .. }, ..) if question.answered.is_empty() => {
                NameMessage::Refused { request, refusal: Refusal::Unreachable }
            }
            (NameMessage::Renew { .. }, ..) => {
                NameMessage::Renewed { request, missing: question.missing.into_iter().collect() }
            }
            (NameMessage::Watch { place, .. }, ..) if !question.answered.is_empty() => {
                if let Some(watched) = self.watched.get_mut(place) {
                    watched.is_known = true;
                    let is_over = |notified: &Notified| notified.until <= now;
                    // Deletions have been reported.
                    let have_ended =
                        watched.notified.values().any(|notified| is_over(notified) && !notified.is_deleted);
                    watched.notified.retain(|_, notified| !is_over(notified));
                    watched.watchers.retain(|_, until| *until > now);
                    for asker in watched.watchers.keys().filter(|_| have_ended) {
                        let found = watched.page(0, *place, None, Reader::of(*asker, self.node));
                        self.answers.push_back((*asker, found));
                    }
                }
                return;
            }
            _ => return,
        };
        self.answer(question.asker, answer);
    }
    fn answer(&mut self, asker: Option<Asker>, message: NameMessage) {
        if let Some(asker) = asker {
            self.answers.push_back((asker, message));
        }
    }
    /// Forwards news to all watchers that may read it, once each. A watcher that may not, but knew the earlier record,
    /// is sent what remains. Returns the record known here if that is newer. Unless `tells`, watchers are not notified.
    fn on_news(&mut self, now: Time, place: Guid, bytes: &[u8], tells: bool) -> Option<Vec<u8>> {
        let watched = self.watched.get_mut(&place)?;
        let record = NameRecord::decode(bytes).ok().filter(|record| record.places().contains(&place))?;
        let lifetime = lifetime_of(&record).max(NOTIFIED_MIN);
        let (key, version, until) = (record.key(), record.statement().version, now + lifetime);
        if let Some(notified) = watched.notified.get_mut(&key).filter(|notified| notified.version >= version) {
            if notified.version == version {
                notified.until = until;
            }
            return (notified.version > version).then(|| notified.record.clone());
        }
        let is_deleted = record.is_deletion();
        let notified = Notified { version, lifetime, record: bytes.into(), is_deleted, until };
        let before = watched.notified.insert(key, notified);
        watched.watchers.retain(|_, until| *until > now);
        let knew = |reader: Reader| {
            before.as_ref().is_some_and(|notified| !notified.is_deleted && reader.may_know(&notified.record))
        };
        for asker in watched.watchers.keys().filter(|_| tells) {
            let reader = Reader::of(*asker, self.node);
            if reader.may_know(bytes) {
                self.answers.push_back((*asker, NameMessage::Notify { place, record: bytes.into() }));
            } else if knew(reader) {
                self.answers.push_back((*asker, watched.page(0, place, None, reader)));
            }
        }
        None
    }
    /// Runs the timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.due > now {
            return;
        }
        self.due = Time::MAX;
        let due: Vec<u32> =
            self.open.iter().filter(|(_, question)| question.due <= now).map(|(number, _)| *number).collect();
        for number in due {
            let tries = self.open.get(&number).map_or(0, |question| question.tries);
            if tries < TRIES { self.send(now, number) } else { self.conclude(now, number) }
        }
        let renew: Vec<Guid> =
            self.watched.iter().filter(|(_, watched)| watched.renew_at <= now).map(|(place, _)| *place).collect();
        for place in renew {
            let alive = self.watched.get_mut(&place).is_some_and(|watched| {
                watched.watchers.retain(|_, until| *until > now);
                !watched.watchers.is_empty()
            });
            if alive {
                self.renew(now, place);
            } else {
                self.watched.remove(&place);
            }
        }
        let open = self.open.values().map(|question| question.due);
        let next = open.chain(self.watched.values().map(|watched| watched.renew_at)).min();
        self.due = self.due.min(next.unwrap_or(Time::MAX));
    }
    /// A message to a replica; to this router's own if the address is its own.
    pub fn poll_message(&mut self) -> Option<(NetworkAddress, NameMessage)> {
        self.outbox.pop_front()
    }
    /// Returns the next answer and its requester.
    pub fn poll_answer(&mut self) -> Option<(Asker, NameMessage)> {
        self.answers.pop_front()
    }
    /// When to call [`Front::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        Some(self.due).filter(|due| *due < Time::MAX)
    }
    /// Routers that hold records, nearest first.
    pub fn members(&self) -> &[NetworkAddress] {
        &self.members
    }
}

/// What a question is about.
fn place_of(message: &NameMessage) -> Option<Guid> {
    match message {
        NameMessage::Put { place, .. }
        | NameMessage::Lookup { place, .. }
        | NameMessage::Next { place, .. }
        | NameMessage::Watch { place, .. } => Some(*place),
        _ => None,
    }
}

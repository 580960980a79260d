//! Records in an outside store, such as an etcd cluster, in place of copies at other rendezvous nodes.
//!
//! | step | embedded | with a store |
//! |---|---|---|
//! | an operation is answered when | all responsible nodes that are alive hold it | the store has it |
//! | the other responsible nodes learn of it | by `Replicate` | by the store's change notices |
//! | a newcomer gets its records | from the others | from the store, whose buckets it reads once |
//! | a node without the changes, or that reads | – | announces that to the others, which do its work until it is ready |
//! | entries in the store go | – | with the lease of their host, whether it has one item or a million |
//!
//! Everything else stays: which node is responsible, which one acts, how long entries stand, and how hosts renew.
//! Merging keeps the newest version, so that changes, pages of a reading and operations may come in any order.
//!
//! | key | value | lease |
//! |---|---|---|
//! | `e/BUCKET/RECORD/ENTRY` | the entry as [`Replicate`] has it, with the name of its record | the host's; for a withdrawn entry, one of this node for some minutes |
//!
//! The lease of a host outlives its publications: the nodes that hold entries decide how long these stand, as without a
//! store.
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};
use core::fmt;

use tributary_core::{Duration, NodeId, Time, event::Event};
use tributary_transport::engine::{self, Answer as StoreAnswer, Engine, Health, If, Lease, Priority, Request, Words};

use super::{Rendezvous, Target, Timer, key_of, members};
use crate::{
    ids::RecordKey,
    wire::{Answer, BUCKETS, EntryKey, EntryValue, Message, Operation, RecordUpdate, Rejection, Replicate, bucket_of},
};

/// Stands for the store among the nodes that an operation waits for.
pub(super) const STORE: NodeId = NodeId::NONE;
/// How long the store may take for an operation: longer than its client does to ask three members, and less than a host waits
/// for an answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// How often the node checks that the store reports its changes, and retries failed reads.
const LOOK: Duration = Duration::from_secs(1);
/// The pause between two rounds in which much is taken: other input of the node comes in between.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(1);
/// How long entries of a host stay in the store without a sign of life, how often that is renewed at most, and up to which
/// lease of an entry that is enough: hosts renew at a third of theirs.
const MEMORY_SECONDS: u32 = 600;
const RENEW_EACH: Duration = Duration::from_secs(100);
const SHORT_LEASE: Duration = Duration::from_secs(300);
/// Life in the store of entries with longer leases; the longest that are granted are renewed after 20 minutes.
const LONG_MEMORY_SECONDS: u32 = 7_200;
/// Records of a page, and records that the node takes in one round.
const PAGE: u32 = 500;
const ROUND_MAX: usize = 1_024;
/// Leases whose last renewal is remembered.
const RENEWED_MAX: usize = 8_192;
/// Puts of the same entry at most, while others change it.
const RACES_MAX: u8 = 3;
/// Wording of messages about the store.
const WORDS: Words = Words { topic: "rendezvous", blind: "this node does not act" };

/// A rendezvous node's view of an outside store.
pub(super) struct Store {
    engine: Box<dyn Engine>,
    /// Distinguishes this node's leases of withdrawn entries from other nodes'.
    salt: u64,
    next_id: u64,
    pending: BTreeMap<u64, Part>,
    is_started: bool,
    /// The buckets that this node is responsible for, and the ones among them that have not been read yet.
    held: BTreeSet<u16>,
    unread: BTreeSet<u16>,
    reading: Option<Reading>,
    /// Whether all buckets have been read since the store began to report changes. Buckets that are added later are
    /// read while the node keeps acting for the others.
    is_read: bool,
    health: Health,
    is_blind: bool,
    renewed: BTreeMap<Lease, Time>,
    round: (Time, usize),
    is_behind: bool,
    /// When this node last announced to the others that it does not act, and the number of that message.
    excused: Option<(Time, u32)>,
    /// Counters for people.
    pub(super) stats: StoreStats,
}

/// Buckets that are being read, page by page.
struct Reading {
    id: u64,
    first: u16,
    last: u16,
}

/// What a rendezvous node has had to do with its store.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StoreStats {
    /// Entries that the store has acknowledged.
    pub stored: u64,
    /// Changes that it has reported.
    pub changes: u64,
    /// Requests that it did not carry out in time.
    pub failed: u64,
    /// Values in the store that are no entries.
    pub malformed: u64,
    /// How often all buckets were read again.
    pub restarts: u64,
}

/// The purpose of a request to the store.
enum Part {
    /// To store a change made by an operation.
    Entry { operation: u32, entry: engine::Entry, lease: Lease, races: u8 },
    /// To renew the lease of a host; `renewal` waits for that, if any.
    Lease { renewal: Option<u32> },
    /// The next page.
    Page,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("unread", &self.unread.len())
            .field("is_read", &self.is_read)
            .field("is_blind", &self.is_blind)
            .finish_non_exhaustive()
    }
}

impl Store {
    fn new(engine: Box<dyn Engine>, salt: u64) -> Store {
        Store {
            health: Health::new(engine.name(), WORDS),
            engine,
            salt,
            next_id: 0,
            pending: BTreeMap::new(),
            is_started: false,
            held: BTreeSet::new(),
            unread: BTreeSet::new(),
            reading: None,
            is_read: false,
            is_blind: false,
            renewed: BTreeMap::new(),
            round: (Time::ZERO, 0),
            is_behind: false,
            excused: None,
            stats: StoreStats::default(),
        }
    }
    pub(super) fn is_ready(&self) -> bool {
        self.is_read && !self.is_blind
    }
    pub(super) fn has_read(&self, bucket: u16) -> bool {
        !self.unread.contains(&bucket)
    }
    /// Its state, for people.
    pub(super) fn state(&self) -> String {
        let state = self.health.state();
        if self.is_read || state != "in use" { state } else { "being read".into() }
    }
    pub(super) fn name(&self) -> &'static str {
        self.engine.name()
    }
    fn ask(&mut self, priority: Priority, part: Part, request: impl FnOnce(u64) -> Request) -> u64 {
        self.next_id += 1;
        self.pending.insert(self.next_id, part);
        self.engine.ask(request(self.next_id), priority);
        self.next_id
    }
    /// Reads the next buckets that have not been read, if nothing is being read.
    fn read_on(&mut self) {
        if !self.is_started || self.reading.is_some() {
            return;
        }
        let Some(first) = self.unread.first().copied() else { return };
        let last = (first..BUCKETS).take_while(|bucket| self.unread.contains(bucket)).last().unwrap_or(first);
        self.read(first, last, format!("e/{first:04x}/").into_bytes());
    }
    fn read(&mut self, first: u16, last: u16, from: Vec<u8>) {
        // What follows a slash.
        let to = format!("e/{last:04x}0").into_bytes();
        let id = self.ask(Priority::Background, Part::Page, |id| Request::List { id, from, to, count: PAGE, at: None });
        self.reading = Some(Reading { id, first, last });
    }
    /// A page has come, whose last key is this if there are more.
    fn on_page(&mut self, reading: &Reading, more: Option<&[u8]>) {
        let Reading { first, last, .. } = *reading;
        match more {
            Some(key) => self.read(first, last, [key, &[0]].concat()),
            None => {
                self.unread.retain(|bucket| !(first..=last).contains(bucket));
                self.is_read |= self.unread.is_empty();
                self.read_on();
            }
        }
    }
    /// The store reports all changes from now on, and may have reported no earlier ones.
    fn restart(&mut self, is_joined: bool) {
        self.is_started = true;
        self.reading = None;
        self.unread = self.held.clone();
        self.is_read = is_joined && self.unread.is_empty();
        self.read_on();
    }
    /// This node is responsible for these buckets now.
    fn hold(&mut self, held: BTreeSet<u16>) {
        self.unread.extend(held.difference(&self.held));
        self.unread.retain(|bucket| held.contains(bucket));
        self.held = held;
        self.is_read |= self.is_started && self.unread.is_empty();
        self.read_on();
    }
    fn put(&mut self, operation: u32, entry: engine::Entry, lease: Lease, when: If, races: u8) {
        let part = Part::Entry { operation, entry: entry.clone(), lease, races };
        self.ask(Priority::Question, part, |id| Request::Put { id, entry, when, lease });
    }
    /// Renews a lease, unless that was done lately and no renewal waits for it.
    fn renew(&mut self, now: Time, lease: Lease, renewal: Option<u32>) {
        let is_recent = self.renewed.get(&lease).is_some_and(|at| now.since(*at) < RENEW_EACH);
        if renewal.is_none() && is_recent {
            return;
        }
        if self.renewed.len() >= RENEWED_MAX && !self.renewed.contains_key(&lease) {
            self.renewed.clear();
        }
        self.renewed.insert(lease, now);
        self.ask(Priority::Question, Part::Lease { renewal }, |id| Request::Renew { id, lease });
    }
}

impl Rendezvous {
    /// Keeps records in an external store from now on; to be called before anything else. `seed` distinguishes this
    /// node from others.
    pub fn keep_records_by(&mut self, engine: Box<dyn Engine>, seed: u64) {
        self.stored = Some(Store::new(engine, seed));
        self.timers.set(Timer::Store, Time::ZERO + LOOK);
    }
    /// The counters, the name and the state of its external store; `None` without one.
    pub fn store_status(&self) -> Option<(StoreStats, &'static str, String)> {
        self.stored.as_ref().map(|store| (store.stats, store.name(), store.state()))
    }
    /// Whether it keeps records in an outside store.
    pub fn has_store(&self) -> bool {
        self.stored.is_some()
    }
    /// Takes the store's answers, as many as fit a round.
    pub fn handle_store(&mut self, now: Time) {
        self.take_round(now);
        self.settle(now);
    }
    fn take_round(&mut self, now: Time) {
        loop {
            let Some(store) = &mut self.stored else { return };
            if store.round.0 != now {
                store.round = (now, 0);
            }
            store.is_behind = store.round.1 >= ROUND_MAX;
            if store.is_behind {
                return self.timers.set(Timer::Store, now + BETWEEN_ROUNDS);
            }
            let Some(store_answer) = store.engine.poll() else { return };
            store.round.1 += match &store_answer {
                StoreAnswer::Listed { entries, .. } => entries.len().max(1),
                _ => 1,
            };
            self.on_store_answer(now, store_answer);
        }
    }
    /// Checks that the store reports its changes, and retries failed reads.
    pub(super) fn on_store_due(&mut self, now: Time) {
        let me = self.me;
        let Some(store) = &mut self.stored else { return };
        self.timers.set(Timer::Store, now + LOOK);
        if let Some(note) = store.health.look(now) {
            self.events.push_back(Event::Note(note));
        }
        let is_blind = store.health.is_found_blind();
        if is_blind != core::mem::replace(&mut store.is_blind, is_blind) {
            self.touched.extend(self.records.keys().copied());
        }
        store.read_on();
        // This node's registrations of names with their scopes are under its own lease.
        store.renew(now, lease_of(me, self.config.registration_lease), None);
        if store.is_behind {
            self.take_round(now);
        }
        self.excuse(now);
    }
    /// While this node does not act, it announces that to the others, which do its work.
    fn excuse(&mut self, now: Time) {
        let is_ready = self.is_ready();
        let Some(store) = self.stored.as_mut().filter(|_| self.joined) else { return };
        if is_ready {
            store.excused = None;
            return;
        }
        let number = match store.excused {
            Some((at, _)) if now.since(at) < self.config.pull_timeout => return,
            Some((_, number)) => number,
            None => self.request_number(),
        };
        self.stored.iter_mut().for_each(|store| store.excused = Some((now, number)));
        self.ready_announced = false;
        for node in self.members.nodes().iter().filter(|node| **node != self.me) {
            self.queried.insert(*node, number);
            self.messages.push_back((Target::Node(*node), Message::Sync { request: number }));
        }
    }
    /// Another node does not act until it announces that it is ready.
    pub(super) fn on_excuse(&mut self, node: NodeId, number: u32) {
        // A repetition may come after the word that it is ready.
        if self.ready_as_of.get(&node) != Some(&number) && self.members.learns(node, number) {
            self.touch_all();
        }
    }
    /// Repeats to the next of the nodes that were excused that this node is ready: a message may be lost.
    pub(super) fn repeat_ready(&mut self, now: Time) {
        self.timers.set(Timer::Compare, now + self.config.compare_interval);
        let next = self.queried.range(self.compare_with..).find(|(node, _)| **node != self.compare_with);
        let Some((node, number)) = next.or_else(|| self.queried.first_key_value()) else { return };
        let (node, number) = (*node, *number);
        self.compare_with = node;
        if self.ready_announced {
            self.messages.push_back((Target::Node(node), Message::Ready { request: number }));
        }
    }
    /// The set of rendezvous nodes has changed: this one reads the buckets that it has become responsible for, and
    /// drops the others, since they are in the store.
    pub(super) fn review_store(&mut self, now: Time) {
        let (me, replicas) = (self.me, self.config.replicas);
        let Some(store) = &mut self.stored else { return };
        let nodes = self.members.nodes();
        let is_held = |bucket: &u16| members::responsible_for(nodes.iter().copied(), *bucket, replicas).contains(&me);
        let held: BTreeSet<u16> = (0..BUCKETS).filter(is_held).collect();
        let gone = |key: &&RecordKey| !held.contains(&bucket_of(**key));
        let gone: Vec<RecordKey> = self.records.keys().filter(gone).copied().collect();
        store.hold(held);
        gone.into_iter().for_each(|key| self.forget(key));
        self.excuse(now);
    }

    /// Has the store keep the change made by a client's operation, in place of other nodes.
    pub(super) fn store_outside(
        &mut self,
        now: Time,
        id: u32,
        (client, operation): (NodeId, &Operation),
        update: RecordUpdate,
    ) {
        let Some(store) = &mut self.stored else { return };
        let Some(changed) = update.entries.first() else { return };
        let (key, version) = (store_key(key_of(&update.name), &changed.key), changed.version);
        let lease = match changed.value {
            Some(_) => lease_of(client, requested_lease(operation)),
            None => withdrawn_lease(store.salt, now),
        };
        if changed.value.is_some() {
            store.renew(now, lease, None);
        }
        let mut value = Vec::new();
        Message::Replicate(Replicate { request: 0, records: Vec::from([update]) }).encode(&mut value);
        store.put(id, engine::Entry { key, version, value }, lease, If::Below(version), 0);
    }
    /// Has the store renew the lease of a host, whose entries have leases of this length; its renewal waits for that.
    pub(super) fn renew_outside(&mut self, now: Time, client: NodeId, length: Duration, renewal: u32) {
        self.stored.iter_mut().for_each(|store| store.renew(now, lease_of(client, length), Some(renewal)));
    }
    /// The store has not confirmed the change of an operation in time.
    pub(super) fn on_store_late(&mut self, now: Time, operation: u32) {
        if let Some(store) = &mut self.stored {
            store.stats.failed += 1;
            let note = store.health.on_trouble(now, "it does not answer in time");
            self.events.extend(note.map(Event::Note));
        }
        self.refuse_operation(now, operation, Answer::Rejected(Rejection::StoreUnavailable));
    }

    fn on_store_answer(&mut self, now: Time, store_answer: StoreAnswer) {
        let Some(store) = &mut self.stored else { return };
        let is_turn = match store_answer {
            StoreAnswer::Changed { after, .. } => {
                store.stats.changes += 1;
                // Entries that the store dropped with their host's lease have expired here long ago.
                return after.iter().for_each(|entry| self.take_entry(now, entry));
            }
            StoreAnswer::Restarted { .. } => {
                store.stats.restarts += 1;
                store.restart(self.joined);
                true
            }
            StoreAnswer::Current => {
                // It answers, even without new requests.
                self.events.extend(store.health.on_success().map(Event::Note));
                store.is_blind
            }
            store_answer => return self.on_answer(now, store_answer),
        };
        self.events.extend(store.health.on_current(now).map(Event::Note));
        store.is_blind = false;
        if is_turn {
            self.touch_all();
            self.excuse(now);
        }
    }
    /// Takes the answer to a request.
    fn on_answer(&mut self, now: Time, store_answer: StoreAnswer) {
        let Some(store) = &mut self.stored else { return };
        let Some((id, part)) = store_answer.id().and_then(|id| Some((id, store.pending.remove(&id)?))) else { return };
        if let StoreAnswer::Failed { reason, is_full, .. } = &store_answer {
            store.stats.failed += 1;
            let note = match is_full {
                true => store.health.on_full(now, reason),
                false => store.health.on_trouble(now, reason),
            };
            self.events.extend(note.map(Event::Note));
            return self.on_store_failed(now, id, part, *is_full);
        }
        self.events.extend(store.health.on_success().map(Event::Note));
        match (part, store_answer) {
            (Part::Entry { operation, .. }, StoreAnswer::Stored { is_new, .. }) => {
                store.stats.stored += 1;
                if is_new {
                    store.health.on_kept();
                }
                self.on_stored(now, operation, STORE, Answer::Done { replicas: 0 });
            }
            (Part::Entry { operation, entry, lease, races }, StoreAnswer::Stale { entry: there, revision, .. }) => {
                self.on_store_stale(now, operation, (entry, lease, races), there, revision);
            }
            (Part::Lease { renewal: Some(renewal) }, StoreAnswer::Renewed { is_alive, .. }) => {
                self.on_renewed_outside(renewal, is_alive);
            }
            (Part::Page, StoreAnswer::Listed { entries, more, .. }) => {
                let Some(reading) = store.reading.take_if(|reading| reading.id == id) else { return };
                entries.iter().for_each(|entry| self.take_entry(now, entry));
                let last = entries.last().filter(|_| more).map(|entry| &entry.key[..]);
                self.stored.iter_mut().for_each(|store| store.on_page(&reading, last));
                if last.is_none() {
                    let range = reading.first..=reading.last;
                    self.touched.extend(self.records.keys().filter(|key| range.contains(&bucket_of(**key))).copied());
                }
            }
            _ => {}
        }
    }
    fn on_store_failed(&mut self, now: Time, id: u64, part: Part, is_full: bool) {
        match part {
            Part::Entry { operation, .. } => {
                let rejection = if is_full { Rejection::StoreFull } else { Rejection::StoreUnavailable };
                self.refuse_operation(now, operation, Answer::Rejected(rejection));
            }
            // The host's entries stay for some minutes; it renews again before that.
            Part::Lease { renewal } => renewal.into_iter().for_each(|renewal| self.on_renewed_outside(renewal, true)),
            Part::Page => {
                // It is read again when the timer looks.
                if let Some(store) = &mut self.stored {
                    store.reading.take_if(|reading| reading.id == id);
                }
            }
        }
    }
    /// The store has another entry there.
    fn on_store_stale(
        &mut self,
        now: Time,
        operation: u32,
        (entry, lease, races): (engine::Entry, Lease, u8),
        there: Option<engine::Entry>,
        revision: u64,
    ) {
        let read = there.as_ref().and_then(read_entry);
        let when = match (&there, read) {
            (Some(there), Some(update)) if there.version >= entry.version => {
                let answer = match is_same(&update, &entry) {
                    // It was put before; only its further lifetime may differ.
                    true => Answer::Done { replicas: 0 },
                    false => Answer::Stale { current: there.version },
                };
                self.take_entry(now, there);
                return match answer {
                    Answer::Done { .. } => self.on_stored(now, operation, STORE, answer),
                    _ => self.refuse_operation(now, operation, answer),
                };
            }
            (Some(_), None) => If::Unchanged(revision),
            _ => If::Below(entry.version),
        };
        match self.stored.as_mut().filter(|_| races < RACES_MAX) {
            Some(store) => store.put(operation, entry, lease, when, races + 1),
            None => self.refuse_operation(now, operation, Answer::Rejected(Rejection::StoreUnavailable)),
        }
    }
    /// Merges an entry of the store, if this node is responsible for it.
    fn take_entry(&mut self, now: Time, entry: &engine::Entry) {
        let Some(update) = read_entry(entry) else {
            self.stored.iter_mut().for_each(|store| store.stats.malformed += 1);
            return;
        };
        if self.members.is_responsible(key_of(&update.name)) {
            let _ = self.on_replicate(now, Replicate { request: 0, records: Vec::from([update]) });
        }
    }
}

/// The lease of a client's entries, shared by all rendezvous nodes: a client has two at most, one for entries of short
/// leases and one for entries of long ones.
pub(super) fn lease_of(client: NodeId, length: Duration) -> Lease {
    let seconds = if length <= SHORT_LEASE { MEMORY_SECONDS } else { LONG_MEMORY_SECONDS };
    lease(&[b"client", &client.0.to_be_bytes(), &seconds.to_be_bytes()], seconds)
}
/// The lease that a client asks for.
fn requested_lease(operation: &Operation) -> Duration {
    match operation {
        Operation::Publish { lease, .. }
        | Operation::PublishScope { lease, .. }
        | Operation::Subscribe { lease, .. }
        | Operation::SubscribeScope { lease, .. }
        | Operation::SetChild { lease, .. } => *lease,
        Operation::Unpublish
        | Operation::UnpublishScope
        | Operation::Unsubscribe { .. }
        | Operation::UnsubscribeScope => Duration::ZERO,
    }
}
/// The lease of entries that a rendezvous node has withdrawn in the same minutes. It is never renewed, so that such
/// entries do not accumulate.
fn withdrawn_lease(salt: u64, now: Time) -> Lease {
    let slot = now.since(Time::ZERO).as_secs() / u64::from(MEMORY_SECONDS);
    lease(&[b"withdrawn", &salt.to_be_bytes(), &slot.to_be_bytes()], 2 * MEMORY_SECONDS)
}
fn lease(parts: &[&[u8]], seconds: u32) -> Lease {
    let mut hasher = blake3::Hasher::new_derive_key("tributary 2026 psi leases");
    for part in parts {
        hasher.update(part);
    }
    let first = hasher.finalize().as_bytes().first_chunk().copied().expect("8 of 32 bytes");
    Lease { id: (u64::from_be_bytes(first) >> 1).max(1), seconds }
}

/// The key of an entry of a record.
fn store_key(record: RecordKey, entry: &EntryKey) -> Vec<u8> {
    let kind = match entry {
        EntryKey::Publisher(node) => format!("p{:016x}", node.0),
        EntryKey::ScopePublisher(node) => format!("s{:016x}", node.0),
        EntryKey::Subscription(node, transfer) => format!("w{:016x}-{transfer:08x}", node.0),
        EntryKey::ScopeSubscriber(node) => format!("l{:016x}", node.0),
        EntryKey::Child(component) => component.iter().fold(String::from("c"), |key, byte| format!("{key}{byte:02x}")),
    };
    format!("e/{:04x}/{:032x}/{kind}", bucket_of(record), u128::from_be_bytes(record.0)).into_bytes()
}
/// The entry in the store, with its record; `None` if it is malformed, or does not match its key and version.
fn read_entry(entry: &engine::Entry) -> Option<RecordUpdate> {
    let Ok(Message::Replicate(Replicate { mut records, .. })) = Message::decode(&entry.value) else { return None };
    let update = records.pop().filter(|_| records.is_empty())?;
    let [only] = &update.entries[..] else { return None };
    let belongs = store_key(key_of(&update.name), &only.key) == entry.key && only.version == entry.version;
    belongs.then_some(update)
}
/// Whether the store's entry is equal except for its lifetime.
fn is_same(there: &RecordUpdate, entry: &engine::Entry) -> bool {
    let value = |update: &RecordUpdate| -> Option<(u64, Option<EntryValue>)> {
        update.entries.first().map(|entry| (entry.version, entry.value.clone()))
    };
    read_entry(entry).is_some_and(|ours| value(&ours) == value(there))
}

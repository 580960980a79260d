//! Records in an outside store, such as an etcd cluster, in place of copies at other rendezvous nodes.
//!
//! | step | embedded | with a store |
//! |---|---|---|
//! | an operation is answered when | all responsible nodes that are alive hold it | the store has it |
//! | the other responsible nodes learn it | by `Replicate` | by the store's change notices |
//! | a newcomer gets its records | from the others | from the store, whose buckets it reads once |
//! | a node without the changes, or that reads | – | announces that to the others, which do its work until it is ready |
//! | entries in the store go | – | with the lease of their host, whether it has one item or a million |
//!
//! Everything else stays: which node is responsible, which one acts, the validity of entries, and the renewals of
//! hosts. Merging keeps the newest version, so that changes, pages of a read and operations may arrive in any order.
//!
//! | key | value | lease |
//! |---|---|---|
//! | `e/BUCKET/RECORD/ENTRY` | the entry as [`Replicate`] has it, with the name of its record | the host's; for a withdrawn entry, one of this node for some minutes |
//!
//! The lease of a host outlives its publications: the nodes that hold entries decide how long these are valid, as
//! without a store.
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};
use core::{fmt, ops::RangeInclusive};

use tributary_core::{Duration, NodeId, Time, event::Event};
use tributary_directory::{
    Outside, Page, Pages, Rest, StoreEvent, StoreStats,
    engine::{self, Answer as StoreAnswer, Engine, If, Lease, Priority, Request},
    health::Words,
};

use super::{COMPARE_INTERVAL, PULL_TIMEOUT, REGISTRATION_LEASE, Rendezvous, Target, Timer, key_of, members};
use crate::{
    ids::RecordKey,
    wire::{
        Answer, BUCKETS, EntryKey, EntryValue, Message, Operation, RecordUpdate, Rejection, Replicate, Wire, bucket_of,
    },
};

/// Stands for the store among the nodes that an operation waits for.
pub(super) const STORE: NodeId = NodeId::NONE;
/// Maximum duration of a store's operation: longer than its client takes to ask three members, and shorter than a host
/// waits for an answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// How often the node checks that the store reports its changes, and retries failed reads.
const LOOK: Duration = Duration::from_secs(1);
/// The pause between two large rounds, for the node's other input.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(1);
/// How long a host's entries stay in the store without a sign of life, the minimum interval of its renewals, and up to
/// which lease of an entry that suffices: hosts renew at a third of theirs.
const MEMORY_SECONDS: u32 = 600;
const RENEW_EACH: Duration = Duration::from_secs(100);
const SHORT_LEASE: Duration = Duration::from_secs(300);
/// Life in the store of entries with longer leases; the longest that are granted are renewed after 20 minutes.
const LONG_MEMORY_SECONDS: u32 = 7_200;
/// Records of a page.
const PAGE: u32 = 500;
/// Leases whose last renewal is remembered.
const RENEWED_MAX: usize = 8_192;
/// Maximum puts of the same entry, while others change it.
const RACES_MAX: u8 = 3;
/// Wording of messages about the store.
const WORDS: Words = Words { topic: "rendezvous", blind: "this node does not act" };

tributary_core::declared! {
    /// A rendezvous node's view of an outside store.
    pub(super) struct Store {
        outside: Outside<Part> = Outside::new(engine, WORDS),
        /// Distinguishes this node's leases of withdrawn entries from other nodes'.
        salt: u64 = salt,
        is_started: bool = false,
        /// The buckets that this node is responsible for, and the ones among them that have not been read yet.
        held: BTreeSet<u16> = BTreeSet::new(),
        unread: BTreeSet<u16> = BTreeSet::new(),
        /// The request that reads some of the unread buckets.
        reading: Option<u64> = None,
        /// Whether all buckets have been read since the store started to report changes. Buckets added later are read
        /// while the node keeps acting for the others.
        is_read: bool = false,
        renewed: BTreeMap<Lease, Time> = BTreeMap::new(),
        /// When this node last announced to the others that it does not act, and the number of that message.
        excused: Option<(Time, u32)> = None,
    }
    fn new(engine: Box<dyn Engine>, salt: u64) {}
}

/// The purpose of a request to the store.
enum Part {
    /// To store a change made by an operation.
    Entry { operation: u32, entry: engine::Entry, lease: Lease, races: u8 },
    /// To renew the lease of a host; `renewal` waits for that, if any.
    Lease { renewal: Option<u32> },
    /// To read these buckets.
    Buckets(RangeInclusive<u16>),
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unread, is_read) = (self.unread.len(), self.is_read);
        f.debug_struct("Store").field("unread", &unread).field("is_read", &is_read).finish_non_exhaustive()
    }
}

impl Store {
    pub(super) fn is_ready(&self) -> bool {
        self.is_read && !self.outside.health().is_found_blind()
    }
    pub(super) fn has_read(&self, bucket: u16) -> bool {
        !self.unread.contains(&bucket)
    }
    pub(super) fn poll_note(&mut self) -> Option<Event> {
        self.outside.poll_note().map(Event::Note)
    }
    /// Its state, for people.
    fn state(&self) -> String {
        let state = self.outside.health().state();
        if self.is_read || state != "in use" { state } else { "being read".into() }
    }
    /// Reads the next buckets that have not been read, if nothing is being read.
    fn read_next(&mut self) {
        if !self.is_started || self.reading.is_some() {
            return;
        }
        let Some(first) = self.unread.first().copied() else { return };
        let last = (first..BUCKETS).take_while(|bucket| self.unread.contains(bucket)).last().unwrap_or(first);
        // What follows a slash.
        let range = (format!("e/{first:04x}/").into_bytes(), format!("e/{last:04x}0").into_bytes());
        let part = Part::Buckets(first..=last);
        self.reading = Some(self.outside.read(Priority::Background, part, range, PAGE, Pages::AsTheyAre));
    }
    fn on_read(&mut self, buckets: &RangeInclusive<u16>) {
        self.reading = None;
        self.unread.retain(|bucket| !buckets.contains(bucket));
        self.is_read |= self.unread.is_empty();
        self.read_next();
    }
    /// The store reports all changes from now on, and may have reported no earlier ones.
    fn restart(&mut self, is_joined: bool) {
        self.is_started = true;
        self.reading = None;
        self.unread = self.held.clone();
        self.is_read = is_joined && self.unread.is_empty();
        self.read_next();
    }
    /// This node is responsible for these buckets now.
    fn hold(&mut self, held: BTreeSet<u16>) {
        self.unread.extend(held.difference(&self.held));
        self.unread.retain(|bucket| held.contains(bucket));
        self.held = held;
        self.is_read |= self.is_started && self.unread.is_empty();
        self.read_next();
    }
    fn put(&mut self, operation: u32, entry: engine::Entry, lease: Lease, when: If, races: u8) {
        let part = Part::Entry { operation, entry: entry.clone(), lease, races };
        self.outside.ask(Priority::Question, part, |id| Request::Put { id, entry, when, lease });
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
        self.outside.ask(Priority::Question, Part::Lease { renewal }, |id| Request::Renew { id, lease });
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
        self.stored.as_ref().map(|store| (store.outside.stats, store.outside.name(), store.state()))
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
        while let Some(event) = self.stored.as_mut().and_then(|store| store.outside.poll(now)) {
            self.on_store_event(now, event);
        }
        if self.stored.as_ref().is_some_and(|store| store.outside.behind_since().is_some()) {
            self.timers.set(Timer::Store, now + BETWEEN_ROUNDS);
        }
    }
    /// Checks that the store reports its changes, and retries failed reads.
    pub(super) fn on_store_due(&mut self, now: Time) {
        let me = self.me;
        let Some(store) = &mut self.stored else { return };
        self.timers.set(Timer::Store, now + LOOK);
        if store.outside.look(now) {
            self.touched.extend(self.records.keys().copied());
        }
        store.read_next();
        // This node's registrations of names with their scopes are under its own lease.
        store.renew(now, lease_of(me, REGISTRATION_LEASE), None);
        self.take_round(now);
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
            Some((at, _)) if now.since(at) < PULL_TIMEOUT => return,
            Some((_, number)) => number,
            None => self.request_number(),
        };
        self.stored.iter_mut().for_each(|store| store.excused = Some((now, number)));
        self.ready_announced = false;
        for node in self.members.nodes.iter().filter(|node| **node != self.me) {
            self.queried.insert(*node, number);
            self.messages.push_back((Target::Node(*node), Message::Sync { request: number }));
        }
    }
    /// Another node does not act until it announces that it is ready.
    pub(super) fn on_excuse(&mut self, node: NodeId, number: u32) {
        // A repetition may arrive after the notice that it is ready.
        if self.ready_as_of.get(&node) != Some(&number) && self.members.learns(node, number) {
            self.touch_all();
        }
    }
    /// Repeats to the next of the nodes that were excused that this node is ready: a message may be lost.
    pub(super) fn repeat_ready(&mut self, now: Time) {
        self.timers.set(Timer::Compare, now + COMPARE_INTERVAL);
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
        let nodes = &self.members.nodes;
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
            Some(_) => lease_of(client, operation.lease().unwrap_or_default()),
            None => withdrawn_lease(store.salt, now),
        };
        if changed.value.is_some() {
            store.renew(now, lease, None);
        }
        let mut value = Vec::new();
        Message::Replicate(Replicate { request: 0, records: Vec::from([update]) }).encode(&mut value);
        store.put(id, engine::Entry { key, version, value }, lease, If::Below(version), 0);
    }
    /// Makes the store renew the lease of a host, whose entries have leases of this length; its renewal waits for that.
    pub(super) fn renew_outside(&mut self, now: Time, client: NodeId, length: Duration, renewal: u32) {
        self.stored.iter_mut().for_each(|store| store.renew(now, lease_of(client, length), Some(renewal)));
    }
    /// The store has not confirmed the change of an operation in time.
    pub(super) fn on_store_late(&mut self, now: Time, operation: u32) {
        self.stored.iter_mut().for_each(|store| store.outside.on_late(now));
        self.refuse_operation(now, operation, Answer::Rejected(Rejection::StoreUnavailable));
    }

    fn on_store_event(&mut self, now: Time, event: StoreEvent<Part>) {
        let Some(store) = &mut self.stored else { return };
        match event {
            // Entries that the store dropped with their host's lease have expired here long ago.
            StoreEvent::Changed(change) => change.after.iter().for_each(|entry| self.take_entry(now, entry)),
            StoreEvent::Restarted(_) => {
                store.restart(self.joined);
                self.touch_all();
                self.excuse(now);
            }
            StoreEvent::Current(true) => {
                self.touch_all();
                self.excuse(now);
            }
            StoreEvent::Page(Page { id, part: Part::Buckets(buckets), entries, rest, .. }) => {
                if store.reading == Some(id) {
                    entries.iter().for_each(|entry| self.take_entry(now, entry));
                    self.on_buckets(id, buckets, rest);
                }
            }
            StoreEvent::Page(_) | StoreEvent::Current(false) => {}
            StoreEvent::Done { part, answer } => self.on_store_done(now, part, answer),
            StoreEvent::Failed { part: Part::Entry { operation, .. }, is_full, .. } => {
                let rejection = if is_full { Rejection::StoreFull } else { Rejection::StoreUnavailable };
                self.refuse_operation(now, operation, Answer::Rejected(rejection));
            }
            // The host's entries stay for some minutes; it renews again before that.
            StoreEvent::Failed { part: Part::Lease { renewal }, .. } => {
                renewal.into_iter().for_each(|renewal| self.on_renewed_outside(renewal, true));
            }
            // They are read again when the timer looks.
            StoreEvent::Failed { id, part: Part::Buckets(_), .. } => drop(store.reading.take_if(|at| *at == id)),
        }
    }
    /// Continues after a page of these buckets.
    fn on_buckets(&mut self, id: u64, buckets: RangeInclusive<u16>, rest: Option<Rest>) {
        let Some(store) = &mut self.stored else { return };
        match rest {
            Some(rest) => store.outside.read_on(id, Part::Buckets(buckets), rest),
            None => {
                store.on_read(&buckets);
                self.touched.extend(self.records.keys().filter(|key| buckets.contains(&bucket_of(**key))).copied());
            }
        }
    }
    fn on_store_done(&mut self, now: Time, part: Part, answer: StoreAnswer) {
        let Some(store) = &mut self.stored else { return };
        match (part, answer) {
            (Part::Entry { operation, .. }, StoreAnswer::Stored { .. }) => {
                store.outside.stats.stored += 1;
                self.on_stored(now, operation, STORE, Answer::Done { replicas: 0 });
            }
            (Part::Entry { operation, entry, lease, races }, StoreAnswer::Stale { entry: there, revision, .. }) => {
                self.on_store_stale(now, operation, (entry, lease, races), there, revision);
            }
            (Part::Lease { renewal: Some(renewal) }, StoreAnswer::Renewed { is_alive, .. }) => {
                self.on_renewed_outside(renewal, is_alive);
            }
            _ => {}
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
                self.take_entry(now, there);
                return match is_same(&update, &entry) {
                    // It was put before; only its further lifetime may differ.
                    true => self.on_stored(now, operation, STORE, Answer::Done { replicas: 0 }),
                    false => self.refuse_operation(now, operation, Answer::Stale { current: there.version }),
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
            self.stored.iter_mut().for_each(|store| store.outside.stats.forged += 1);
            return;
        };
        if self.members.is_responsible(key_of(&update.name)) {
            let _ = self.on_replicate(now, Replicate { request: 0, records: Vec::from([update]) });
        }
    }
}

/// The lease of a client's entries, shared by all rendezvous nodes: a client has at most two, for entries of short and
/// of long leases.
pub(super) fn lease_of(client: NodeId, length: Duration) -> Lease {
    let seconds = if length <= SHORT_LEASE { MEMORY_SECONDS } else { LONG_MEMORY_SECONDS };
    lease(&[b"client", &client.0.to_be_bytes(), &seconds.to_be_bytes()], seconds)
}
/// The lease of entries that a rendezvous node has withdrawn in the same minutes. It is never renewed, so that such
/// entries do not accumulate.
fn withdrawn_lease(salt: u64, now: Time) -> Lease {
    let slot = now.since(Time::ZERO).as_secs() / u64::from(MEMORY_SECONDS);
    lease(&[b"withdrawn", &salt.to_be_bytes(), &slot.to_be_bytes()], 2 * MEMORY_SECONDS)
}
fn lease(parts: &[&[u8]], seconds: u32) -> Lease {
    Lease::of("tributary 2026 psi leases", parts, seconds)
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

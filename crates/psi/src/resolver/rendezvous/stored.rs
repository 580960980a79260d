//! Records in an outside store, such as an etcd cluster, in place of copies at other rendezvous nodes.
//!
//! | what | embedded | with a store |
//! |---|---|---|
//! | an operation is answered when | all responsible nodes that are alive hold it | the store has it |
//! | the other responsible nodes learn of it | by `Replicate` | by the changes that the store tells |
//! | a newcomer gets what it is responsible for | from the others | from the store, which it reads once |
//! | entries in the store go | – | with the lease of their host, whether it has one item or a million |
//!
//! Everything else stays: who is responsible, who acts, how long entries stand, and how hosts renew. Merging keeps the newest
//! version, so that changes, pages of a reading and operations may come in any order.
//!
//! | key | value | lease |
//! |---|---|---|
//! | `e/BUCKET/RECORD/ENTRY` | the entry as [`Replicate`] has it, with the name of its record | the host's; of what was withdrawn, one of this node and some minutes |
//!
//! The lease of a host outlives what it published: how long entries stand is decided by the nodes that hold them, as ever.
use alloc::{boxed::Box, collections::BTreeMap, format, string::String, vec::Vec};
use core::fmt;

use tributary_core::{Duration, NodeId, Time, event::Event};
use tributary_transport::engine::{self, Answer as Told, Engine, If, Lease, Priority, Request};

use super::{Rendezvous, Timer, key_of};
use crate::{
    ids::RecordKey,
    wire::{Answer, EntryKey, EntryValue, Message, RecordUpdate, Rejection, Replicate, bucket_of},
};

/// Stands for the store among the nodes that an operation waits for.
pub(super) const STORE: NodeId = NodeId::NONE;
/// How long the store may take for an operation: longer than its client does to ask three members.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);
/// How long the store may not have shown that it tells its changes before this node stops acting.
const BLIND_AFTER: Duration = Duration::from_secs(5);
/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_secs(1);
/// How long entries of a host stay in the store without a sign of life, and how often the lease is renewed at most.
const MEMORY_SECONDS: u32 = 600;
const RENEW_EACH: Duration = Duration::from_secs(100);
/// Records of a page, and what is taken in a round of the node.
const PAGE: u32 = 500;
const ROUND_MAX: usize = 1_024;
/// Clients of which it is remembered when their leases were renewed.
const RENEWED_MAX: usize = 8_192;
/// Puts of the same entry at most, while others change it.
const RACES_MAX: u8 = 3;

/// A rendezvous node's view of an outside store.
pub(super) struct Store {
    engine: Box<dyn Engine>,
    /// Tells the leases of what this node has withdrawn from those of others.
    salt: u64,
    next_id: u64,
    asked: BTreeMap<u64, Part>,
    is_started: bool,
    /// Whether all that this node is responsible for has been read, or the request for the next page of it.
    is_read: bool,
    reading: Option<u64>,
    /// When it was known last that all changes have been told; before that, since when that is waited for.
    current_at: Option<Time>,
    is_blind: bool,
    is_failing: bool,
    renewed: BTreeMap<NodeId, Time>,
    round: (Time, usize),
    is_behind: bool,
    /// Counters for people.
    pub(super) stats: StoreStats,
}

/// What a rendezvous node has had to do with its store.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StoreStats {
    /// Entries that the store has acknowledged.
    pub stored: u64,
    /// Changes that it has told.
    pub changes: u64,
    /// Requests that it did not carry out.
    pub failed: u64,
    /// What lies there and is no entry.
    pub malformed: u64,
    /// How often all of it was read anew.
    pub restarts: u64,
}

/// What was asked of the store.
enum Part {
    /// To keep what an operation has changed.
    Entry { operation: u32, entry: engine::Entry, lease: Lease, races: u8 },
    /// To renew the lease of a host, whose renewal waits for that; `None` if nobody waits.
    Lease { renewal: Option<u32> },
    /// The next page.
    Page,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("is_read", &self.is_read)
            .field("is_blind", &self.is_blind)
            .finish_non_exhaustive()
    }
}

impl Store {
    pub(super) fn is_ready(&self) -> bool {
        self.is_read && !self.is_blind
    }
    /// How it stands, for people.
    pub(super) fn state(&self) -> &'static str {
        match (self.is_failing, self.is_blind, self.is_read) {
            (true, ..) => "cannot be used now",
            (_, true, _) => "does not tell its changes now: this node does not act",
            (.., false) => "being read",
            _ => "in use",
        }
    }
    pub(super) fn name(&self) -> &'static str {
        self.engine.name()
    }
    fn ask(&mut self, priority: Priority, part: Part, request: impl FnOnce(u64) -> Request) -> u64 {
        self.next_id += 1;
        self.asked.insert(self.next_id, part);
        self.engine.ask(request(self.next_id), priority);
        self.next_id
    }
    fn read(&mut self, from: Vec<u8>) {
        let list = |id| Request::List { id, from, to: b"e0".to_vec(), count: PAGE, at: None };
        self.reading = Some(self.ask(Priority::Background, Part::Page, list));
    }
    fn begin_reading(&mut self) {
        self.is_read = false;
        if self.is_started {
            self.read(b"e/".to_vec());
        }
    }
    fn put(&mut self, operation: u32, entry: engine::Entry, lease: Lease, when: If, races: u8) {
        let part = Part::Entry { operation, entry: entry.clone(), lease, races };
        self.ask(Priority::Question, part, |id| Request::Put { id, entry, when, lease });
    }
    /// Renews the lease of a client, unless that was done lately and nobody waits for it.
    fn renew(&mut self, now: Time, client: NodeId, renewal: Option<u32>) {
        let is_recent = self.renewed.get(&client).is_some_and(|at| now.since(*at) < RENEW_EACH);
        if renewal.is_none() && is_recent {
            return;
        }
        if self.renewed.len() >= RENEWED_MAX && !self.renewed.contains_key(&client) {
            self.renewed.clear();
        }
        self.renewed.insert(client, now);
        self.ask(Priority::Question, Part::Lease { renewal }, |id| Request::Renew { id, lease: lease_of(client) });
    }
}

impl Rendezvous {
    /// Keeps records in an outside store from now on; to be called before anything else. `seed` tells it from others.
    pub fn keep_records_by(&mut self, engine: Box<dyn Engine>, seed: u64) {
        self.stored = Some(Store {
            engine,
            salt: seed,
            next_id: 0,
            asked: BTreeMap::new(),
            is_started: false,
            is_read: false,
            reading: None,
            current_at: None,
            is_blind: false,
            is_failing: false,
            renewed: BTreeMap::new(),
            round: (Time::ZERO, 0),
            is_behind: false,
            stats: StoreStats::default(),
        });
        self.timers.set(Timer::Store, Time::ZERO + LOOK);
    }
    /// What it has had to do with its outside store, and what that is called and how it stands; `None` without one.
    pub fn store_status(&self) -> Option<(StoreStats, &'static str, &'static str)> {
        self.stored.as_ref().map(|store| (store.stats, store.name(), store.state()))
    }
    /// Whether it keeps records in an outside store.
    pub fn has_store(&self) -> bool {
        self.stored.is_some()
    }
    /// Takes what the store says, as much as fits a round.
    pub fn handle_store(&mut self, now: Time) {
        loop {
            let Some(store) = &mut self.stored else { return };
            if store.round.0 != now {
                store.round = (now, 0);
            }
            store.is_behind = store.round.1 >= ROUND_MAX;
            if store.is_behind {
                // The next round begins at once.
                self.timers.set(Timer::Store, now);
                break;
            }
            let Some(told) = store.engine.poll() else { break };
            store.round.1 += match &told {
                Told::Listed { entries, .. } => entries.len().max(1),
                _ => 1,
            };
            self.on_told(now, told);
        }
        self.settle(now);
    }
    /// Looks whether the store tells its changes, and reads again what could not be read.
    pub(super) fn on_store_due(&mut self, now: Time) {
        let me = self.me;
        let Some(store) = &mut self.stored else { return };
        self.timers.set(Timer::Store, now + LOOK);
        let is_blind = now.since(*store.current_at.get_or_insert(now)) > BLIND_AFTER;
        let was_blind = core::mem::replace(&mut store.is_blind, is_blind);
        if is_blind != was_blind {
            let name = store.name();
            let text = match is_blind {
                true => format!(
                    "rendezvous: {name} tells no changes: no watch of it has stood for {} s; this node acts again once one \
                     does",
                    BLIND_AFTER.as_secs()
                ),
                false => format!("rendezvous: {name} tells its changes again"),
            };
            self.events.push_back(Event::Note(text));
            self.touched.extend(self.records.keys().copied());
        }
        if !store.is_read && store.reading.is_none() {
            store.begin_reading();
        }
        // What this node says of names in their scopes lies under its own lease.
        store.renew(now, me, None);
        if store.is_behind {
            self.handle_store(now);
        }
    }
    /// Other nodes are responsible than before: what this one has become responsible for is read.
    pub(super) fn review_store(&mut self, before: &super::Members) {
        let me = self.me;
        let gone: Vec<RecordKey> =
            self.records.keys().filter(|key| !self.members.is_responsible(**key)).copied().collect();
        // It is in the store.
        gone.into_iter().for_each(|key| self.forget(key));
        let nodes = |members: &super::Members, bucket: u16| {
            super::members::responsible_for(members.nodes().iter().copied(), bucket, self.config.replicas).contains(&me)
        };
        let is_new = (0..crate::wire::BUCKETS).any(|bucket| nodes(&self.members, bucket) && !nodes(before, bucket));
        if let Some(store) = self.stored.as_mut().filter(|_| is_new) {
            store.begin_reading();
        }
    }

    /// Has the store keep what an operation has changed, in place of other nodes.
    pub(super) fn store_outside(&mut self, now: Time, operation: u32, client: NodeId, update: RecordUpdate) {
        let Some(store) = &mut self.stored else { return };
        let Some(changed) = update.entries.first() else { return };
        let (key, version) = (store_key(key_of(&update.name), &changed.key), changed.version);
        let lease = match changed.value {
            Some(_) => lease_of(client),
            None => withdrawn_lease(store.salt, now),
        };
        let mut value = Vec::new();
        Message::Replicate(Replicate { request: 0, records: Vec::from([update]) }).encode(&mut value);
        store.renew(now, client, None);
        store.put(operation, engine::Entry { key, version, value }, lease, If::Below(version), 0);
    }
    /// Has the store renew the lease of a host; its renewal waits for that.
    pub(super) fn renew_outside(&mut self, now: Time, client: NodeId, renewal: u32) {
        self.stored.iter_mut().for_each(|store| store.renew(now, client, Some(renewal)));
    }

    fn on_told(&mut self, now: Time, told: Told) {
        let Some(store) = &mut self.stored else { return };
        match told {
            Told::Changed { after, .. } => {
                store.stats.changes += 1;
                // What has gone with its host's lease has fallen here long ago.
                return after.iter().for_each(|entry| self.take_entry(now, entry));
            }
            Told::Restarted { .. } => {
                store.stats.restarts += 1;
                (store.is_started, store.current_at) = (true, Some(now));
                return store.begin_reading();
            }
            Told::Current => return store.current_at = Some(now),
            _ => {}
        }
        let Some(id) = told.id() else { return };
        let Some(part) = store.asked.remove(&id) else { return };
        if let Told::Failed { reason, is_full, .. } = &told {
            store.stats.failed += 1;
            if !core::mem::replace(&mut store.is_failing, true) {
                let text = format!("rendezvous: {} cannot be used: {reason}", store.name());
                self.events.push_back(Event::Note(text));
            }
            return self.on_store_failed(now, id, part, *is_full);
        }
        store.is_failing = false;
        match (part, told) {
            (Part::Entry { operation, .. }, Told::Stored { .. }) => {
                store.stats.stored += 1;
                self.on_stored(now, operation, STORE, Answer::Done { replicas: 0 });
            }
            (Part::Entry { operation, entry, lease, races }, Told::Stale { entry: there, revision, .. }) => {
                self.on_store_stale(now, operation, (entry, lease, races), there, revision);
            }
            (Part::Lease { renewal: Some(renewal) }, Told::Renewed { is_alive, .. }) => {
                self.on_renewed_outside(renewal, is_alive);
            }
            (Part::Page, Told::Listed { entries, more, .. }) if store.reading == Some(id) => {
                store.reading = None;
                match entries.last().filter(|_| more) {
                    Some(last) => store.read([&last.key[..], &[0]].concat()),
                    None => store.is_read = true,
                }
                entries.iter().for_each(|entry| self.take_entry(now, entry));
                if self.is_ready() {
                    self.touch_all();
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
                self.stored.iter_mut().filter(|store| store.reading == Some(id)).for_each(|store| store.reading = None);
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
                    // It was put before; only how long it stands from then on may differ.
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
    /// Merges what the store has, if this node is responsible for it.
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

/// The lease of all that a client has said, at whichever rendezvous node.
fn lease_of(client: NodeId) -> Lease {
    lease(&[b"client", &client.0.to_be_bytes()], MEMORY_SECONDS)
}
/// The lease of what a rendezvous node has withdrawn in the same minutes. Nobody renews it, so that such entries do not heap
/// up.
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

/// Where an entry of a record lies.
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
/// The entry that the store has, with its record; `None` if it is none, or another one than its key and version say.
fn read_entry(entry: &engine::Entry) -> Option<RecordUpdate> {
    let Ok(Message::Replicate(Replicate { mut records, .. })) = Message::decode(&entry.value) else { return None };
    let update = records.pop().filter(|_| records.is_empty())?;
    let [only] = &update.entries[..] else { return None };
    let belongs = store_key(key_of(&update.name), &only.key) == entry.key && only.version == entry.version;
    belongs.then_some(update)
}
/// Whether the store has the same there but for how long it stands.
fn is_same(there: &RecordUpdate, entry: &engine::Entry) -> bool {
    let value = |update: &RecordUpdate| -> Option<(u64, Option<EntryValue>)> {
        update.entries.first().map(|entry| (entry.version, entry.value.clone()))
    };
    read_entry(entry).is_some_and(|ours| value(&ours) == value(there))
}

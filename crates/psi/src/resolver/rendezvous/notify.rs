//! What follows from a change of a record: matches for the topology managers, notices for the subscribers of a scope,
//! news for the parent scope, timers.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use tributary_core::{Duration, NodeId, Random, Time};

use super::{
    NAMED_MAX, PEER_TIMEOUT, Purpose, REGISTRATION_LEASE, Record, Rendezvous, TOMBSTONE_LIFETIME, Target, Timer,
    key_of, subscription_keys,
};
use crate::{
    ids::{ItemId, RecordKey},
    wire::{
        Answer, ChildState, Entry, EntryKey, EntryValue, Message, MissingScopes, NOTHING_KNOWN, NoticeKind, PATHS_MAX,
        PathRequest, Publisher, Relay, ScopeNotice, TERM_SHIFT, WITHDRAWN_MAX, bucket_of,
    },
};

/// Bytes of children in one notice.
const NOTICE_BYTES_MAX: usize = 48 << 10;
/// Time per name when a node registers its names with their scopes again as it starts to act over a store: they are
/// spread over at most five minutes, which the shortest registration outlasts.
const REGISTER_EACH: Duration = Duration::from_millis(1);
const SPREAD_RECORDS_MAX: u32 = 300_000;
/// Time between two choices of the publishers that subscribers learn. In a swarm each receiver becomes a publisher, and
/// each of these changes would cost a request per subscriber.
const NAMING_PAUSE: Duration = Duration::from_millis(200);

impl Rendezvous {
    /// Merges one entry and notes the work that follows; [`Rendezvous::settle`] does it.
    pub(super) fn merge_entry(&mut self, now: Time, key: RecordKey, entry: Entry) {
        let Some(record) = self.records.get_mut(&key) else { return };
        let entry_key = entry.key.clone();
        let after = entry.value.clone();
        let live = |version: u64, value: Option<&EntryValue>| value.is_some().then_some(version);
        let version_before = record.entries.get(&entry_key).and_then(|held| live(held.version, held.value.as_ref()));
        let version = live(entry.version, after.as_ref());
        if let Some(before) = record.merge(now, entry, TOMBSTONE_LIFETIME) {
            if let EntryKey::Publisher(node) = entry_key {
                self.leases.recount(node, key, version_before, version);
            }
            note_change(now, record, &entry_key, before.as_ref(), after.as_ref());
        }
        self.touched.insert(key);
    }

    pub(super) fn on_record_due(&mut self, now: Time, key: RecordKey) {
        let Some(record) = self.records.get_mut(&key) else { return };
        for (entry_key, version, before) in record.expire(now, TOMBSTONE_LIFETIME) {
            if let EntryKey::Publisher(node) = entry_key {
                self.leases.recount(node, key, Some(version), None);
            }
            note_change(now, record, &entry_key, Some(&before), None);
        }
        if record.drop_at.is_some_and(|at| at <= now) {
            self.on_drop_due(now, key);
        }
        self.touched.insert(key);
    }

    /// Does the work that follows from all changes since the last settling.
    pub(super) fn settle(&mut self, now: Time) {
        self.announce_ready();
        while let Some(key) = self.touched.pop_first() {
            self.settle_record(now, key);
        }
        self.request_leave();
    }

    fn settle_record(&mut self, now: Time, key: RecordKey) {
        let acts = self.has_bucket(bucket_of(key)) && self.members.acts(key);
        let lifetime = REGISTRATION_LEASE;
        // The store still has the scopes, so that repeating all registrations causes no flood of puts.
        let spread = match self.stored.is_some() {
            true => {
                let all = REGISTER_EACH * u32::try_from(self.records.len()).unwrap_or(u32::MAX).min(SPREAD_RECORDS_MAX);
                all * u32::from(u16::from_be_bytes([key.0[2], key.0[3]])) / (1 << 16)
            }
            false => Duration::ZERO,
        };
        let Some(record) = self.records.get_mut(&key) else { return };
        if record.entries.is_empty() {
            return self.forget(key);
        }
        if record.is_dead() {
            self.dead.insert(key);
        } else {
            self.dead.remove(&key);
        }
        if record.requested && self.may_go(key) {
            return self.forget(key);
        }
        let Some(record) = self.records.get_mut(&key) else { return };
        if acts && !record.acting {
            // A takeover: this revision is higher than any of the predecessor.
            record.revision = next_term(record.revision, self.me);
            record.registered = None;
            record.refresh_at = now + spread;
            record.matches = subscription_keys(record);
            record.listings = record.scope_subscribers().filter_map(|(key, _)| scope_subscriber(key)).collect();
        }
        record.acting = acts;
        if !acts {
            record.matches.clear();
            record.naming.stop();
            record.changed.clear();
            record.listings.clear();
        }
        let state = record.state();
        let tells_parent = acts
            && (record.registered.is_some() && record.has_news()
                || record.notifies_parent_by_time() && record.refresh_at <= now);
        if tells_parent {
            record.registered = Some(state);
            record.refresh_at = now + lifetime / 3;
            record.registration += 1;
        }
        if !record.changed.is_empty() {
            record.revision += 1;
        }
        self.notify_matches(now, key);
        self.notify_subscribers(key);
        if tells_parent && let Some(record) = self.records.get(&key) {
            let (name, version) = (record.name.clone(), record.registration);
            self.notify_parent(now, Purpose::Registration(key), &name, state, version, MissingScopes::Create);
        }
        match self.records.get(&key).and_then(Record::due) {
            // Never in the past: work that is due now was just done, and returns with the next change at the latest.
            Some(due) => self.timers.set(Timer::Record(key), due.max(now)),
            None => self.timers.stop(&Timer::Record(key)),
        }
    }

    /// Registers again, soon, with the scopes whose records `node` holds: it has just joined, perhaps without its
    /// memory, and may be their only holder.
    pub(super) fn register_again(&mut self, now: Time, node: NodeId) {
        for (key, record) in self.records.iter_mut().filter(|(_, record)| record.acting) {
            let Some(parent) = record.name.parent() else { continue };
            if self.members.responsible(key_of(&parent)).contains(&node) {
                record.registered = None;
                // Spread, so that a node with many records does not send them all at the same time.
                record.refresh_at = now + PEER_TIMEOUT * u32::from(key.0[0]) / 256;
                self.touched.insert(*key);
            }
        }
    }

    /// The parent scope's answer to news about the record of `key`.
    pub(super) fn on_registration_answer(&mut self, now: Time, key: RecordKey, answer: Answer) {
        let Some(record) = self.records.get_mut(&key) else { return };
        match answer {
            Answer::Done { .. } => return,
            Answer::Stale { current } => {
                record.registration = record.registration.max(current);
                record.refresh_at = now;
            }
            Answer::Rejected(rejection) if !rejection.is_passing() => record.refresh_at = now + REGISTRATION_LEASE / 3,
            Answer::NotReady | Answer::Rejected(_) => record.refresh_at = now + PEER_TIMEOUT,
        }
        record.registered = None;
        self.touched.insert(key);
    }

    /// Passes matches to the topology managers (paper §III-B1 step 2): for each subscription that is new or renewed, and
    /// for each that is to learn of other publishers than before.
    fn notify_matches(&mut self, now: Time, key: RecordKey) {
        let Some(record) = self.records.get_mut(&key) else { return };
        let is_turn = record.naming.due.is_some_and(|due| due <= now);
        if record.matches.is_empty() && !is_turn {
            return;
        }
        let due = core::mem::take(&mut record.matches);
        let mut matches = due.clone();
        if is_turn {
            record.naming.begin(now);
            matches.append(&mut subscription_keys(record));
        }
        let mut early = BTreeSet::new();
        let choice = Choice::of(record, self.config.named_max);
        let withdrawn = record.withdrawn_publishers(WITHDRAWN_MAX);
        if choice.publishers.is_empty() && withdrawn.is_empty() && now < self.speaks_from {
            // Withdrawals of subscriptions do not depend on publishers.
            let waits = |subscription: &(NodeId, u32)| record.subscription(*subscription).is_some();
            (early, matches) = matches.into_iter().partition(waits);
        }
        let mut told = Vec::new();
        for subscription in matches {
            // The lease of a forgotten entry has ended at the topology managers too.
            let Some(held) = record.entries.get(&EntryKey::Subscription(subscription.0, subscription.1)) else {
                continue;
            };
            let mut request = PathRequest {
                subscriber: subscription.0,
                transfer: subscription.1,
                version: held.version,
                item: ItemId::new(&record.name),
                metric: tributary_transport::PathMetric::Hops,
                paths: 0,
                lease_ms: 0,
                publishers: Vec::new(),
                withdrawn: Vec::new(),
            };
            if let Some((k, metric)) = record.subscription(subscription) {
                let (named, known) = (choice.named(subscription.0), record.naming.told.get(&subscription));
                if !due.contains(&subscription) && known == Some(&named) {
                    continue;
                }
                (request.metric, request.paths) = (metric, k.min(PATHS_MAX as u8));
                request.lease_ms = u32::try_from(held.expires.since(now).as_millis()).unwrap_or(u32::MAX);
                // The managers know only these publishers of the transfer, unless this node has just taken over.
                let was_told = |node: &NodeId| known.is_none_or(|known| known.iter().any(|(known, _)| known == node));
                request.withdrawn = withdrawn.iter().filter(|(node, _)| was_told(node)).copied().collect();
                request.publishers = named.iter().filter_map(|(node, _)| publisher(record, *node)).collect();
                share_manifests(&mut request.publishers);
                told.push((subscription, Some(named)));
            } else {
                told.push((subscription, None));
            }
            self.messages.push_back((Target::TopologyManagers, Message::PathRequest(request)));
        }
        record.matches = early;
        for (subscription, named) in told {
            match named {
                Some(named) => record.naming.told.insert(subscription, named),
                None => record.naming.told.remove(&subscription),
            };
        }
    }

    /// Sends the changes of a scope to its subscribers, or the complete listing to new ones.
    fn notify_subscribers(&mut self, key: RecordKey) {
        let Some(record) = self.records.get_mut(&key) else { return };
        let changed = core::mem::take(&mut record.changed);
        let listings = core::mem::take(&mut record.listings);
        if changed.is_empty() && listings.is_empty() {
            return;
        }
        let changes: Vec<(Vec<u8>, ChildState)> = changed
            .into_iter()
            .map(|component| match record.live(&EntryKey::Child(component.clone())) {
                Some(EntryValue::Child(child)) => (component, *child),
                _ => (component, ChildState::Absent),
            })
            .collect();
        let (scope, revision) = (record.name.clone(), record.revision);
        let subscribers: Vec<(NodeId, NodeId)> = record
            .scope_subscribers()
            .filter_map(|(key, held)| match held.value {
                Some(EntryValue::ScopeSubscriber { home, .. }) => Some((scope_subscriber(key)?, home)),
                _ => None,
            })
            .collect();
        let all = || -> Vec<(Vec<u8>, ChildState)> {
            record
                .children()
                .filter_map(|(key, held)| match (key, &held.value) {
                    (EntryKey::Child(component), Some(EntryValue::Child(child))) => Some((component.clone(), *child)),
                    _ => None,
                })
                .collect()
        };
        let listing = if listings.is_empty() { Vec::new() } else { cut(all()) };
        let changes = if changes.is_empty() { Vec::new() } else { cut(changes) };
        let mut notices = Vec::new();
        for (node, home) in subscribers {
            let lists = listings.contains(&node);
            let parts = if lists { &listing } else { &changes };
            for (part, children) in parts.iter().enumerate() {
                let kind = if lists {
                    NoticeKind::Listing { part: part as u16, parts: parts.len() as u16 }
                } else {
                    NoticeKind::Change
                };
                let (scope, children) = (scope.clone(), children.clone());
                notices.push((node, home, ScopeNotice { scope, revision, kind, children }));
            }
        }
        for (client, home, notice) in notices {
            if home != self.me {
                let relay = Message::Relay(Relay { client, notice });
                self.messages.push_back((Target::Node(home), relay));
            } else if let Some((route, _)) = self.clients.get(&client) {
                self.messages.push_back((Target::Reply(client, *route), Message::ScopeNotice(notice)));
            }
        }
    }
}

/// A publisher as path requests name it.
fn publisher(record: &Record, node: NodeId) -> Option<Publisher> {
    let held = record.entries.get(&EntryKey::Publisher(node))?;
    let Some(EntryValue::Publisher { label, manifest, .. }) = &held.value else { return None };
    Some(Publisher { node, version: held.version, label: label.clone(), manifest: manifest.clone() })
}
/// Empties each manifest that equals the one before.
fn share_manifests(publishers: &mut [Publisher]) {
    publishers.sort_by(|a, b| a.manifest.cmp(&b.manifest));
    for at in (1..publishers.len()).rev() {
        if publishers[at].manifest == publishers[at - 1].manifest {
            publishers[at].manifest.clear();
        }
    }
}

/// Chooses the publishers that each subscriber learns, so that the work of a swarm grows with its size only: up to
/// `max` that differ from subscriber to subscriber.
///
/// A publisher that has no subscription is complete. `max` subscribers learn of each complete one: if all did, a source
/// would serve each of them too slowly for any to pass on a chunk soon. A pair keeps its rank while others come and go,
/// so that a choice changes about `max · ln n` times while a swarm of `n` gathers.
struct Choice<'a> {
    publishers: Vec<(NodeId, u64, &'a [u8])>,
    /// The complete publishers that each subscriber learns of.
    seeds: BTreeMap<NodeId, Vec<NodeId>>,
    max: usize,
}

impl<'a> Choice<'a> {
    fn of(record: &'a Record, max: usize) -> Choice<'a> {
        let publishers: Vec<(NodeId, u64, &[u8])> = record
            .publishers()
            .filter_map(|(key, held)| match (key, &held.value) {
                (EntryKey::Publisher(node), Some(EntryValue::Publisher { manifest, .. })) => {
                    Some((*node, held.version, manifest.as_slice()))
                }
                _ => None,
            })
            .collect();
        let mut seeds: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
        if publishers.len() > max {
            let subscribers: BTreeSet<NodeId> = subscription_keys(record).into_iter().map(|(node, _)| node).collect();
            for (seed, ..) in publishers.iter().filter(|(node, ..)| !subscribers.contains(node)) {
                let mut nearest: Vec<NodeId> = subscribers.iter().copied().collect();
                nearest.sort_unstable_by_key(|subscriber| rank(*seed, *subscriber));
                nearest.into_iter().take(max).for_each(|to| seeds.entry(to).or_default().push(*seed));
            }
        }
        Choice { publishers, seeds, max }
    }
    /// The publishers that a subscriber learns of, with their versions; itself too if it is one, as the nearest.
    fn named(&self, subscriber: NodeId) -> Vec<(NodeId, u64)> {
        let mut named: Vec<&(NodeId, u64, &[u8])> = self.publishers.iter().collect();
        if named.len() > self.max {
            let seeds = self.seeds.get(&subscriber).map_or(&[][..], Vec::as_slice);
            let of_rank = |(node, ..): &&(NodeId, u64, &[u8])| {
                (*node != subscriber, !seeds.contains(node), rank(*node, subscriber))
            };
            named.sort_by_cached_key(of_rank);
            let own = usize::from(named[0].0 == subscriber);
            let rest = named.split_off(own + self.max.max(seeds.len()).min(NAMED_MAX - 1));
            // Who signs something else under this name must not be hidden by those who agree.
            for other in rest {
                if named.len() < NAMED_MAX && named.iter().all(|(.., manifest)| *manifest != other.2) {
                    named.push(other);
                }
            }
            named.sort_unstable();
        }
        named.into_iter().map(|(node, version, _)| (*node, *version)).collect()
    }
}
/// A number for a publisher and a subscriber.
fn rank(publisher: NodeId, subscriber: NodeId) -> u64 {
    Random::new(subscriber.0, publisher.0).bits()
}

/// The first revision of the node `me` when it acts after one that reached `revision`: 24 bits count acting nodes, 16
/// identify the node, so that two that act at once never use the same, and 24 count changes.
fn next_term(revision: u64, me: NodeId) -> u64 {
    let who = me.0 ^ (me.0 >> 16) ^ (me.0 >> 32) ^ (me.0 >> 48);
    ((revision >> 40).wrapping_add(1) << 40) | ((who & 0xffff) << TERM_SHIFT)
}

/// Cuts children into parts that fit a message; there is at least one part, which may be empty.
fn cut(children: Vec<(Vec<u8>, ChildState)>) -> Vec<Vec<(Vec<u8>, ChildState)>> {
    let mut parts = Vec::from([Vec::new()]);
    let mut size = 0;
    for child in children {
        size += 16 + child.0.len();
        if size > NOTICE_BYTES_MAX {
            parts.push(Vec::new());
            size = 16 + child.0.len();
        }
        parts.last_mut().expect("there is always a part").push(child);
    }
    parts
}

fn scope_subscriber(key: &EntryKey) -> Option<NodeId> {
    match key {
        EntryKey::ScopeSubscriber(node) => Some(*node),
        EntryKey::Publisher(_) | EntryKey::ScopePublisher(_) | EntryKey::Subscription(..) | EntryKey::Child(_) => None,
    }
}

/// Notes the work that follows from a change of one entry.
fn note_change(
    now: Time,
    record: &mut Record,
    key: &EntryKey,
    before: Option<&EntryValue>,
    after: Option<&EntryValue>,
) {
    match key {
        EntryKey::Publisher(_) if before != after => record.naming.note(now, NAMING_PAUSE),
        EntryKey::Subscription(node, transfer) => {
            record.matches.insert((*node, *transfer));
        }
        EntryKey::Child(component) if before != after => {
            record.changed.insert(component.clone());
        }
        EntryKey::ScopeSubscriber(node) => match after {
            Some(EntryValue::ScopeSubscriber { known, .. }) if *known != record.revision => {
                if *known != NOTHING_KNOWN && *known > record.revision {
                    // All former acting nodes have left; taking over again makes this node's revisions higher than
                    // theirs.
                    record.revision = *known;
                    record.acting = false;
                }
                record.listings.insert(*node);
            }
            _ => {
                record.listings.remove(node);
            }
        },
        EntryKey::Publisher(_) | EntryKey::ScopePublisher(_) | EntryKey::Child(_) => {}
    }
}

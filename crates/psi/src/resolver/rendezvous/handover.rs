//! Moves records to the responsible nodes when nodes join and leave, and finds records that a node missed.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use tributary_core::{NodeId, Time, event::Event};

use super::{
    COMPARE_INTERVAL, DROP_GRACE, LEASE_MAX, Members, PEER_TIMEOUT, PULL_TIMEOUT, RETRY_INTERVAL, Record, Rendezvous,
    Target, Timer, key_of, members::responsible,
};
use crate::{
    ids::RecordKey,
    wire::{
        Answer, DIGEST_RECORDS_MAX, Digest, DigestKind, EntryKey, Fid, Message, RecordUpdate, Rejection, Replicate,
        Reply,
    },
};

/// Records for another node. They are kept until that node has confirmed them all, or has left.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Not sent yet.
    keys: BTreeSet<RecordKey>,
    /// Refused one by one, for a limit of the other node. They are offered again later.
    refused: BTreeSet<RecordKey>,
    /// Sent and not confirmed, by the number of the message: with the fingerprints that they had.
    pub(super) in_flight: BTreeMap<u32, BTreeMap<RecordKey, u64>>,
    /// Pulls to answer once everything is confirmed.
    pulls: Vec<(u32, Fid)>,
    /// Maximum records in one message after a refusal, so that accepted ones are confirmed.
    batch_records_max: Option<usize>,
    /// Rounds that failed in a row.
    failures: u32,
    /// Not before this time, after a failure.
    pause_until: Time,
    /// Whether the other node's refusals have been reported.
    refusal_reported: bool,
}

impl Outbox {
    /// A round failed: the next one comes after a pause.
    fn fail(&mut self, now: Time) {
        self.failures += 1;
        let pauses = (1u32 << self.failures.clamp(1, 16).saturating_sub(1)).min(PAUSES_MAX);
        self.pause_until = now + RETRY_INTERVAL * pauses;
    }
}

/// Bytes of records in one message.
const BATCH_BYTES_MAX: usize = 48 << 10;
/// Records in one message.
const BATCH_RECORDS_MAX: usize = 1_024;
/// Messages in flight to one node.
const BATCHES_MAX: usize = 4;
/// Pauses after failures double up to this many times [`RETRY_INTERVAL`].
const PAUSES_MAX: u32 = 64;

impl Rendezvous {
    /// Pushes records to those newly responsible, after the membership changed from `before`.
    pub(super) fn hand_over(&mut self, now: Time, before: &Members) {
        let mut pushes: Vec<(NodeId, RecordKey)> = Vec::new();
        for (key, record) in &mut self.records {
            let old = before.responsible(*key);
            let new = self.members.responsible(*key);
            // The first surviving holder does the work for all.
            let mut survivors = old.iter().filter(|node| self.members.contains(**node));
            if survivors.next() == Some(&self.me) || !old.contains(&self.me) {
                pushes.extend(new.iter().filter(|node| !old.contains(node)).map(|node| (*node, *key)));
            }
            if new.contains(&self.me) {
                record.drop_at = None;
            } else if record.drop_at.is_none() {
                record.drop_at = Some(now + DROP_GRACE);
                record.requested = false;
                record.confirmed.clear();
            }
        }
        let count = pushes.len();
        for (node, key) in pushes {
            if node != self.me {
                self.outboxes.entry(node).or_default().keys.insert(key);
            }
        }
        if count > 0 {
            let note = alloc::format!("rendezvous: handing over {count} records");
            self.events.push_back(Event::Note(note));
        }
        self.pump_outboxes(now);
    }

    fn pump_outboxes(&mut self, now: Time) {
        let nodes: Vec<NodeId> = self.outboxes.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.pump_outbox(now, node));
    }

    /// Sends as many records as the window to `node` allows; answers its pulls when all are confirmed.
    pub(super) fn pump_outbox(&mut self, now: Time, node: NodeId) {
        loop {
            let Some(outbox) = self.outboxes.get_mut(&node) else { return };
            if outbox.pause_until > now {
                return self.timers.set(Timer::Outbox(node), outbox.pause_until);
            }
            if outbox.in_flight.len() >= BATCHES_MAX {
                return;
            }
            let (mut records, mut size, mut keys) = (Vec::new(), 0, BTreeMap::new());
            let mut oversized: Vec<Vec<RecordUpdate>> = Vec::new();
            while size < BATCH_BYTES_MAX
                && keys.len() < outbox.batch_records_max.unwrap_or(BATCH_RECORDS_MAX)
                && let Some(key) = outbox.keys.pop_first()
            {
                let Some(record) = self.records.get(&key) else { continue };
                keys.insert(key, record.fingerprint());
                for (bytes, update) in record.updates(now, BATCH_BYTES_MAX, &self.leases) {
                    if size + bytes > BATCH_BYTES_MAX && !records.is_empty() {
                        oversized.push(core::mem::take(&mut records));
                        size = 0;
                    }
                    size += bytes;
                    records.push(update);
                }
            }
            if !records.is_empty() {
                oversized.push(records);
            }
            if oversized.is_empty() {
                if outbox.in_flight.is_empty() {
                    self.end_outbox_or_wait(now, node);
                }
                return;
            }
            for records in oversized {
                self.request_next = self.request_next.wrapping_add(1) & !Reply::HOST_BIT;
                let request = self.request_next;
                outbox.in_flight.insert(request, keys.clone());
                let replicate = Message::Replicate(Replicate { request, records });
                self.messages.push_back((Target::Node(node), replicate));
            }
            self.timers.set(Timer::Outbox(node), now + PEER_TIMEOUT * 2);
        }
    }

    /// Nothing is left to send: answers the pulls of `node`, unless it refused something, which is offered again then.
    fn end_outbox_or_wait(&mut self, now: Time, node: NodeId) {
        let Some(outbox) = self.outboxes.get_mut(&node) else { return };
        outbox.refused.retain(|key| self.records.contains_key(key));
        if !outbox.refused.is_empty() {
            outbox.keys = core::mem::take(&mut outbox.refused);
            outbox.fail(now);
            return self.timers.set(Timer::Outbox(node), outbox.pause_until);
        }
        let pulls = core::mem::take(&mut outbox.pulls);
        self.outboxes.remove(&node);
        self.timers.stop(&Timer::Outbox(node));
        for (request, route) in pulls {
            self.answer(node, route, request, Answer::Done { replicas: 1 });
        }
    }

    pub(super) fn on_pushed(&mut self, now: Time, node: NodeId, request: u32, answer: Answer) {
        let Some(outbox) = self.outboxes.get_mut(&node) else { return };
        let Some(keys) = outbox.in_flight.remove(&request) else { return };
        match answer {
            Answer::Done { .. } => {
                outbox.failures = 0;
                outbox.batch_records_max = outbox.batch_records_max.map(|max| (max * 2).min(BATCH_RECORDS_MAX));
                // All parts of a long record must have arrived.
                let is_open = |key: &RecordKey| {
                    outbox.keys.contains(key) || outbox.in_flight.values().any(|batch| batch.contains_key(key))
                };
                let confirmed: Vec<_> = keys.into_iter().filter(|(key, _)| !is_open(key)).collect();
                confirmed.into_iter().for_each(|(key, fingerprint)| self.on_confirmed(key, node, fingerprint));
            }
            // It does not know this node yet: retry soon.
            Answer::Rejected(Rejection::NotAuthorised) | Answer::NotReady | Answer::Stale { .. } => {
                outbox.keys.extend(keys.into_keys());
                outbox.fail(now);
            }
            Answer::Rejected(rejection) => {
                if keys.len() > 1 {
                    // Perhaps it accepts some of them.
                    outbox.batch_records_max = Some((keys.len() / 2).max(1));
                    outbox.keys.extend(keys.into_keys());
                } else {
                    outbox.refused.extend(keys.into_keys());
                }
                if !core::mem::replace(&mut outbox.refusal_reported, true) {
                    let text = alloc::format!(
                        "rendezvous: node {node} does not take all the records that it is responsible for: {rejection}; \
                         they are offered again and kept here until their leases end"
                    );
                    self.events.push_back(Event::Note(text));
                }
            }
        }
        self.pump_outbox(now, node);
    }

    pub(super) fn on_outbox_due(&mut self, now: Time, node: NodeId) {
        let Some(outbox) = self.outboxes.get_mut(&node) else { return };
        if outbox.pause_until <= now && !outbox.in_flight.is_empty() {
            for keys in core::mem::take(&mut outbox.in_flight).into_values() {
                outbox.keys.extend(keys.into_keys());
            }
            outbox.fail(now);
        }
        self.pump_outbox(now, node);
    }

    /// Requests from the newly met `node` all records that this one is responsible for.
    pub(super) fn pull_from(&mut self, now: Time, node: NodeId) {
        let request = self.request_number();
        self.pulls.insert(node, request);
        self.queried.insert(node, request);
        self.ready_announced = false;
        self.on_pull_due(now, node);
    }

    pub(super) fn on_pulled(&mut self, now: Time, node: NodeId, answer: Answer) {
        match answer {
            Answer::Done { .. } => self.end_pull(node),
            Answer::Rejected(_) | Answer::NotReady | Answer::Stale { .. } => {
                self.timers.set(Timer::Pull(node), now + RETRY_INTERVAL);
            }
        }
    }

    /// Sends the request of the pull from `node`, for the first time or again.
    ///
    /// It is repeated while it is open, despite other messages from `node`: a node that counted this one as dead has
    /// dropped the pull with all its pending messages, and resumes replication once it learns otherwise.
    pub(super) fn on_pull_due(&mut self, now: Time, node: NodeId) {
        let Some(&request) = self.pulls.get(&node) else { return };
        self.messages.push_back((Target::Node(node), Message::Sync { request }));
        self.timers.set(Timer::Pull(node), now + PULL_TIMEOUT);
    }

    fn end_pull(&mut self, node: NodeId) {
        self.pulls.remove(&node);
        self.timers.stop(&Timer::Pull(node));
        if self.is_ready() {
            self.touch_all();
        }
    }

    /// `node` has left for good. Nodes that were still learning from it pull again from all others, which may have got
    /// from it the records that are missing here.
    pub(super) fn on_predecessor_gone(&mut self, now: Time, node: NodeId) {
        let was_learning = self.pulls.contains_key(&node) && !self.is_settled;
        self.end_pull(node);
        self.queried.remove(&node);
        if was_learning {
            let peers: Vec<NodeId> = self.members.nodes.iter().copied().filter(|other| *other != self.me).collect();
            peers.into_iter().for_each(|other| self.pull_from(now, other));
        }
    }

    /// Announces that this node acts again, once it does: until then the others did its work.
    pub(super) fn announce_ready(&mut self) {
        if self.ready_announced || !self.is_ready() {
            return;
        }
        self.ready_announced = true;
        self.is_settled = true;
        let queried = self.queried.iter().map(|(node, request)| (*node, *request));
        self.messages.extend(queried.map(|(node, request)| (Target::Node(node), Message::Ready { request })));
    }

    /// Another node is ready, as of its pull of this number.
    pub(super) fn on_ready(&mut self, node: NodeId, request: u32) {
        self.ready_as_of.insert(node, request);
        if self.members.stop_learning(node, request) {
            self.touch_all();
        }
    }

    /// `node` wants all records that it is responsible for.
    pub(super) fn on_pull(&mut self, now: Time, node: NodeId, reply: Fid, request: u32) {
        if self.stored.is_some() {
            // Its records come from the store.
            return self.on_excuse(node, request);
        }
        let nodes = &self.members.nodes;
        let replicas = self.config.replicas;
        let keys: Vec<RecordKey> = self
            .records
            .keys()
            .filter(|key| responsible(nodes.iter().copied(), **key, replicas).contains(&node))
            .copied()
            .collect();
        let outbox = self.outboxes.entry(node).or_default();
        match outbox.pulls.iter_mut().find(|(number, _)| *number == request) {
            // A repetition: its records are in transit, and sending them all again would never end on a slow path.
            Some((_, route)) => *route = reply,
            None => {
                outbox.keys.extend(keys);
                outbox.pulls.push((request, reply));
            }
        }
        self.register_again(now, node);
        self.on_excuse(node, request);
        self.pump_outbox(now, node);
    }

    /// Merges records that another node sent.
    pub(super) fn on_replicate(&mut self, now: Time, replicate: Replicate) -> Answer {
        let mut answer = Answer::Done { replicas: 1 };
        for update in replicate.records {
            let key = key_of(&update.name);
            let is_new = !self.records.contains_key(&key);
            if let Err(rejection) = self.make_record(key, &update.name) {
                answer = Answer::Rejected(rejection);
                continue;
            }
            let belongs = self.members.is_responsible(key);
            let Some(record) = self.records.get_mut(&key) else { continue };
            if is_new {
                // Other nodes acted for it before: settling finds that this node does now, and takes over properly.
                record.acting = false;
                record.drop_at = (!belongs).then_some(now + DROP_GRACE);
            }
            if update.revision > record.revision {
                // Another node acted, and subscribers may know that revision with fewer entries than are held here: an
                // acting node takes over again and sends everything to all.
                record.revision = update.revision;
                record.acting = false;
            }
            record.registration = record.registration.max(update.registration);
            for mut entry in update.entries {
                entry.lease = entry.lease.min(LEASE_MAX);
                self.merge_entry(now, key, entry);
            }
        }
        answer
    }

    /// Compares a stretch of the records with the next other node.
    pub(super) fn compare(&mut self, now: Time) {
        self.timers.set(Timer::Compare, now + COMPARE_INTERVAL);
        let peers = || self.members.nodes.iter().copied().filter(|node| *node != self.me);
        let Some(peer) = peers().find(|node| *node > self.compare_with).or_else(|| peers().next()) else { return };
        let shared = |key: &RecordKey| {
            let nodes = self.members.responsible(*key);
            nodes.contains(&peer) && nodes.contains(&self.me)
        };
        let stretch: Vec<RecordKey> = self
            .records
            .range(self.compare_from..)
            .map(|(key, _)| *key)
            .filter(shared)
            .take(DIGEST_RECORDS_MAX)
            .collect();
        // A full stretch continues where it ended, with the same node; otherwise it is the next node's turn.
        match stretch.last() {
            Some(last) if stretch.len() == DIGEST_RECORDS_MAX => {
                self.compare_from = RecordKey(u128::from_be_bytes(last.0).wrapping_add(1).to_be_bytes());
            }
            _ => {
                self.compare_with = peer;
                self.compare_from = RecordKey([0; 16]);
            }
        }
        if let Some(request) = self.queried.get(&peer).filter(|_| self.ready_announced) {
            // In case the message that announced it was lost.
            self.messages.push_back((Target::Node(peer), Message::Ready { request: *request }));
        }
        if !stretch.is_empty() {
            let records = stretch.into_iter().filter_map(|key| Some((key, self.records.get(&key)?.fingerprint())));
            let digest = Digest { kind: DigestKind::Compare, records: records.collect() };
            self.messages.push_back((Target::Node(peer), Message::Digest(digest)));
        }
    }

    pub(super) fn on_digest(&mut self, now: Time, from: NodeId, digest: Digest) {
        if digest.kind == DigestKind::Held {
            return digest.records.into_iter().for_each(|(key, fingerprint)| self.on_confirmed(key, from, fingerprint));
        }
        let (mut differing, mut held) = (Vec::new(), Vec::new());
        for (key, fingerprint) in digest.records {
            let mine = self.records.get(&key).map(Record::fingerprint);
            if mine == Some(fingerprint) {
                held.push((key, fingerprint));
                continue;
            }
            // A node that wants to drop the record only needs it handed over.
            if mine.is_some() && digest.kind != DigestKind::Leaving {
                self.outboxes.entry(from).or_default().keys.insert(key);
            }
            differing.push((key, mine.unwrap_or(0)));
        }
        if digest.kind == DigestKind::Leaving && !held.is_empty() {
            let digest = Digest { kind: DigestKind::Held, records: held };
            self.messages.push_back((Target::Node(from), Message::Digest(digest)));
        }
        if digest.kind != DigestKind::Differs && !differing.is_empty() {
            let digest = Digest { kind: DigestKind::Differs, records: differing };
            self.messages.push_back((Target::Node(from), Message::Digest(digest)));
        }
        self.pump_outbox(now, from);
    }

    /// `node` holds the record of `key` as it was here at `fingerprint`.
    fn on_confirmed(&mut self, key: RecordKey, node: NodeId, fingerprint: u64) {
        if let Some(record) = self.records.get_mut(&key).filter(|record| record.drop_at.is_some()) {
            record.confirmed.insert(node, fingerprint);
            self.touched.insert(key);
        }
    }

    /// The grace period of a record that belongs elsewhere has ended. It is removed once every responsible node has
    /// confirmed that it holds it; those that have not get a query.
    pub(super) fn on_drop_due(&mut self, now: Time, key: RecordKey) {
        let Some(missing) = self.unconfirmed(key) else { return };
        if missing.is_empty() {
            return self.forget(key);
        }
        for node in missing {
            self.leaving.entry(node).or_default().insert(key);
        }
        if let Some(record) = self.records.get_mut(&key) {
            record.drop_at = Some(now + DROP_GRACE);
            record.requested = true;
        }
    }
    /// Whether the record of `key` was queried after its grace and all responsible nodes have confirmed it.
    pub(super) fn may_go(&self, key: RecordKey) -> bool {
        let is_requested = |record: &Record| record.requested && record.drop_at.is_some();
        self.records.get(&key).is_some_and(is_requested) && self.unconfirmed(key).is_some_and(|nodes| nodes.is_empty())
    }
    /// The responsible nodes that have not confirmed the present state of a record.
    fn unconfirmed(&self, key: RecordKey) -> Option<Vec<NodeId>> {
        let record = self.records.get(&key)?;
        let fingerprint = record.fingerprint();
        let mut nodes = self.members.responsible(key);
        nodes.retain(|node| record.confirmed.get(node) != Some(&fingerprint));
        Some(nodes)
    }
    /// Queries the responsible nodes about the records that should leave this one.
    pub(super) fn request_leave(&mut self) {
        for (node, keys) in core::mem::take(&mut self.leaving) {
            let keys: Vec<RecordKey> = keys.into_iter().collect();
            for stretch in keys.chunks(DIGEST_RECORDS_MAX) {
                let records = stretch.iter().filter_map(|key| Some((*key, self.records.get(key)?.fingerprint())));
                let digest = Digest { kind: DigestKind::Leaving, records: records.collect() };
                self.messages.push_back((Target::Node(node), Message::Digest(digest)));
            }
        }
    }

    pub(super) fn forget(&mut self, key: RecordKey) {
        if let Some(record) = self.records.remove(&key) {
            for (entry, held) in record.publishers() {
                if let EntryKey::Publisher(node) = entry {
                    self.leases.recount(*node, key, Some(held.version), None);
                }
            }
        }
        self.dead.remove(&key);
        self.touched.remove(&key);
        self.timers.stop(&Timer::Record(key));
    }
}

//! How records get to where they belong when nodes come and go, and how what was missed is found.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use tributary_core::{NodeId, Time, event::Event};

use super::{Members, Rendezvous, Target, Timer, key_of, members::responsible};
use crate::{
    ids::RecordKey,
    wire::{Answer, DIGEST_RECORDS_MAX, Digest, DigestKind, Fid, Message, RecordUpdate, Rejection, Replicate, Reply},
};

/// Records that another node is to get.
#[derive(Default, Debug)]
pub(super) struct Outbox {
    /// Not sent yet.
    keys: BTreeSet<RecordKey>,
    /// Sent and not confirmed, by the number of the message.
    pub(super) in_flight: BTreeMap<u32, BTreeSet<RecordKey>>,
    /// Pulls to answer once everything is confirmed.
    pulls: Vec<(u32, Fid)>,
    /// Rounds that failed in a row.
    failures: u32,
    /// Not before this time, after a failure.
    pause_until: Time,
}

/// A request for everything that this node is responsible for.
#[derive(Debug)]
pub(super) struct Pull {
    pub(super) request: u32,
    /// Given up if nothing arrives until then.
    deadline: Time,
    /// Given up then in any case: what arrives may be everyday changes, and the answer may be lost.
    end: Time,
    /// When to ask again; `None` while the other node is at it.
    ask_at: Option<Time>,
}

/// Bytes of records in one message.
const BATCH_BYTES_MAX: usize = 48 << 10;
/// Messages under way to one node.
const BATCHES_MAX: usize = 4;
/// Rounds after which pushing to a node that does not take records is given up; comparing makes up for it.
const FAILURES_MAX: u32 = 10;

/// How many times its timeout a pull may last that goes on; comparing makes up for what it did not bring.
const PULL_TIMEOUTS_MAX: u32 = 4;

impl Rendezvous {
    /// Pushes records to those newly responsible, after the membership changed from `before`.
    pub(super) fn hand_over(&mut self, now: Time, before: &Members) {
        let mut pushes: Vec<(NodeId, RecordKey)> = Vec::new();
        for (key, record) in &mut self.records {
            let old = before.responsible(*key);
            let new = self.members.responsible(*key);
            // The first of those that held it and are still there does the work for all.
            let mut survivors = old.iter().filter(|node| self.members.contains(**node));
            if survivors.next() == Some(&self.me) || !old.contains(&self.me) {
                pushes.extend(new.iter().filter(|node| !old.contains(node)).map(|node| (*node, *key)));
            }
            if new.contains(&self.me) {
                record.drop_at = None;
            } else if record.drop_at.is_none() {
                record.drop_at = Some(now + self.config.drop_grace);
                record.offered = false;
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

    /// Sends what the window to `node` allows; answers its pulls when all is confirmed.
    pub(super) fn pump_outbox(&mut self, now: Time, node: NodeId) {
        loop {
            let Some(outbox) = self.outboxes.get_mut(&node) else { return };
            if outbox.pause_until > now {
                return self.timers.set(Timer::Outbox(node), outbox.pause_until);
            }
            if outbox.in_flight.len() >= BATCHES_MAX {
                return;
            }
            let (mut records, mut size, mut keys) = (Vec::new(), 0, BTreeSet::new());
            let mut oversized: Vec<Vec<RecordUpdate>> = Vec::new();
            while size < BATCH_BYTES_MAX
                && let Some(key) = outbox.keys.pop_first()
            {
                let Some(record) = self.records.get(&key) else { continue };
                keys.insert(key);
                for (bytes, update) in record.updates(now, BATCH_BYTES_MAX) {
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
                    let pulls = core::mem::take(&mut outbox.pulls);
                    self.outboxes.remove(&node);
                    self.timers.stop(&Timer::Outbox(node));
                    for (request, route) in pulls {
                        self.answer(node, route, request, Answer::Done { replicas: 1 });
                    }
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
            self.timers.set(Timer::Outbox(node), now + self.config.peer_timeout * 2);
        }
    }

    pub(super) fn on_pushed(&mut self, now: Time, node: NodeId, request: u32, answer: Answer) {
        let Some(outbox) = self.outboxes.get_mut(&node) else { return };
        let Some(keys) = outbox.in_flight.remove(&request) else { return };
        match answer {
            Answer::Done { .. } => outbox.failures = 0,
            // It does not know this node yet: soon.
            Answer::Rejected(Rejection::NotAuthorised) | Answer::NotReady => {
                outbox.keys.extend(keys);
                outbox.failures += 1;
                outbox.pause_until = now + self.config.retry_interval;
            }
            Answer::Rejected(_) | Answer::Stale { .. } => {}
        }
        self.give_up_or_pump(now, node);
    }

    pub(super) fn on_outbox_due(&mut self, now: Time, node: NodeId) {
        let Some(outbox) = self.outboxes.get_mut(&node) else { return };
        if outbox.pause_until <= now && !outbox.in_flight.is_empty() {
            for keys in core::mem::take(&mut outbox.in_flight).into_values() {
                outbox.keys.extend(keys);
            }
            outbox.failures += 1;
        }
        self.give_up_or_pump(now, node);
    }

    fn give_up_or_pump(&mut self, now: Time, node: NodeId) {
        if self.outboxes.get(&node).is_some_and(|outbox| outbox.failures > FAILURES_MAX) {
            self.outboxes.remove(&node);
            return self.timers.stop(&Timer::Outbox(node));
        }
        self.pump_outbox(now, node);
    }

    /// Asks `node`, of which this one has just learnt, for all that this one is responsible for.
    pub(super) fn pull_from(&mut self, now: Time, node: NodeId) {
        let request = self.request_number();
        let deadline = now + self.config.pull_timeout;
        let end = now + self.config.pull_timeout * PULL_TIMEOUTS_MAX;
        self.pulls.insert(node, Pull { request, deadline, end, ask_at: None });
        self.messages.push_back((Target::Node(node), Message::Sync { request }));
        self.timers.set(Timer::Pull(node), deadline);
    }

    pub(super) fn on_pulled(&mut self, now: Time, node: NodeId, answer: Answer) {
        match answer {
            Answer::Rejected(Rejection::NotAuthorised) | Answer::NotReady => {
                let Some(pull) = self.pulls.get_mut(&node) else { return };
                let at = now + self.config.retry_interval;
                pull.ask_at = Some(at);
                self.timers.set(Timer::Pull(node), at.min(pull.deadline));
            }
            Answer::Done { .. } | Answer::Rejected(_) | Answer::Stale { .. } => self.end_pull(node),
        }
    }

    pub(super) fn on_pull_due(&mut self, now: Time, node: NodeId) {
        let Some(pull) = self.pulls.get_mut(&node) else { return };
        if now >= pull.deadline {
            return self.end_pull(node);
        }
        if pull.ask_at.is_some_and(|at| at <= now) {
            pull.ask_at = None;
            let request = pull.request;
            self.messages.push_back((Target::Node(node), Message::Sync { request }));
        }
        self.timers.set(Timer::Pull(node), pull.deadline);
    }

    fn end_pull(&mut self, node: NodeId) {
        self.pulls.remove(&node);
        self.timers.stop(&Timer::Pull(node));
        if self.pulls.is_empty() {
            self.touch_all();
        }
    }

    /// `node` wants all that it is responsible for.
    pub(super) fn on_pull(&mut self, now: Time, node: NodeId, reply: Fid, request: u32) {
        let nodes = self.members.nodes();
        let replicas = self.config.replicas;
        let keys: Vec<RecordKey> = self
            .records
            .keys()
            .filter(|key| responsible(nodes.iter().copied(), **key, replicas).contains(&node))
            .copied()
            .collect();
        let outbox = self.outboxes.entry(node).or_default();
        outbox.keys.extend(keys);
        outbox.pulls.retain(|(number, _)| *number != request);
        outbox.pulls.push((request, reply));
        self.register_again(now, node);
        self.pump_outbox(now, node);
    }

    /// Merges records that another node sent.
    pub(super) fn on_replicate(&mut self, now: Time, from: NodeId, replicate: Replicate) -> Answer {
        if let Some(pull) = self.pulls.get_mut(&from) {
            pull.deadline = (now + self.config.pull_timeout).min(pull.end);
            let due = pull.ask_at.map_or(pull.deadline, |at| at.min(pull.deadline));
            self.timers.set(Timer::Pull(from), due);
        }
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
                // Others acted for it before: settling finds that this node does now, and takes over properly.
                record.acting = false;
                record.drop_at = (!belongs).then_some(now + self.config.drop_grace);
            }
            if update.revision > record.revision {
                // Somebody else acted, and subscribers may know that revision with less in it than there is here: an
                // acting node takes over again, and tells everybody everything.
                record.revision = update.revision;
                record.acting = false;
            }
            record.registration = record.registration.max(update.registration);
            for mut entry in update.entries {
                entry.lease = entry.lease.min(self.config.lease_max);
                self.merge_entry(now, key, entry);
            }
        }
        answer
    }

    /// Compares a stretch of the records with the next other node.
    pub(super) fn compare(&mut self, now: Time) {
        self.timers.set(Timer::Compare, now + self.config.compare_interval);
        let others = || self.members.nodes().iter().copied().filter(|node| *node != self.me);
        let Some(peer) = others().find(|node| *node > self.compare_with).or_else(|| others().next()) else { return };
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
        // A full stretch goes on where it ended, with the same node; else the next node's turn comes.
        match stretch.last() {
            Some(last) if stretch.len() == DIGEST_RECORDS_MAX => {
                self.compare_from = RecordKey(u128::from_be_bytes(last.0).wrapping_add(1).to_be_bytes());
            }
            _ => {
                self.compare_with = peer;
                self.compare_from = RecordKey([0; 16]);
            }
        }
        if !stretch.is_empty() {
            let records = stretch.into_iter().filter_map(|key| Some((key, self.records.get(&key)?.fingerprint())));
            let digest = Digest { kind: DigestKind::Compare, records: records.collect() };
            self.messages.push_back((Target::Node(peer), Message::Digest(digest)));
        }
    }

    pub(super) fn on_digest(&mut self, now: Time, from: NodeId, digest: Digest) {
        let mut differing = Vec::new();
        for (key, fingerprint) in digest.records {
            let mine = self.records.get(&key).map(super::Record::fingerprint);
            if mine == Some(fingerprint) {
                continue;
            }
            if mine.is_some() {
                self.outboxes.entry(from).or_default().keys.insert(key);
            }
            differing.push((key, mine.unwrap_or(0)));
        }
        if digest.kind == DigestKind::Compare && !differing.is_empty() {
            let digest = Digest { kind: DigestKind::Differs, records: differing };
            self.messages.push_back((Target::Node(from), Message::Digest(digest)));
        }
        self.pump_outbox(now, from);
    }

    /// The grace of a record that belongs elsewhere is over: it is offered once more to where it belongs, then goes.
    pub(super) fn on_drop_due(&mut self, now: Time, key: RecordKey) {
        let first = self.members.responsible(key).into_iter().find(|node| self.members.is_alive(*node));
        let Some(record) = self.records.get_mut(&key) else { return };
        match first {
            Some(node) if !record.offered && node != self.me => {
                record.offered = true;
                record.drop_at = Some(now + self.config.drop_grace);
                self.outboxes.entry(node).or_default().keys.insert(key);
                self.pump_outbox(now, node);
            }
            _ => self.forget(key),
        }
    }

    pub(super) fn forget(&mut self, key: RecordKey) {
        self.records.remove(&key);
        self.touched.remove(&key);
        self.timers.stop(&Timer::Record(key));
    }
}

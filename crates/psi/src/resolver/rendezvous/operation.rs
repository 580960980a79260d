//! Operations on a record, carried out by its coordinator: check, register a new name with the parent scope, store,
//! replicate, answer.
use alloc::{collections::BTreeSet, format, vec::Vec};

use tributary_core::{Duration, NodeId, Time, event::Event};

use super::{
    LEASE_MAX, PEER_TIMEOUT, Purpose, REGISTRATION_LEASE, Record, Rendezvous, Target, Timer, key_of, record::Held,
    stored,
};
use crate::{
    ids::RecordKey,
    wire::{
        Answer, ChildState, ClientRequest, Entry, EntryKey, EntryValue, Fid, Limit, Message, MissingScopes, Operation,
        Rejection, Replicate, VERSION_FIRST_MAX, VERSION_STEP_MAX, bucket_of,
    },
};

/// Who gets the answer of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// A call of this very node.
    Call(u32),
    /// Another rendezvous node that forwarded it.
    Peer { node: NodeId, reply: Fid, request: u32 },
}

/// An operation that waits for other nodes.
#[derive(Debug)]
pub(super) struct Operating {
    origin: Origin,
    client: NodeId,
    home: NodeId,
    request: ClientRequest,
    key: RecordKey,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// The parent scope has a request to accept a new name, of this version and with this state; `None` if the name is
    /// known.
    Registering(Option<(u64, ChildState)>),
    /// The change is stored here, and these nodes have not confirmed it yet.
    Replicating { waiting: BTreeSet<NodeId>, replicas: u8, since: Time },
}

/// What the check of an operation found.
enum Verdict {
    /// Nothing to change; the answer is known.
    Answer(Answer),
    /// The entry to store. `registers`: the name does not exist yet as far as this node knows, so the parent scope
    /// comes first.
    Store { entry: Entry, registers: Registers },
}

/// Which part of the full lease the first entry of a name in its parent scope gets.
const FIRST_LEASE_PART: u32 = 4;

/// The registration of a new name with the parent scope, and whether that creates missing scopes.
type Registers = Option<(ChildState, MissingScopes)>;

impl Rendezvous {
    /// Carries out `request` on behalf of `client`, which talks to the rendezvous node `home`.
    pub(super) fn operate(&mut self, now: Time, origin: Origin, client: NodeId, home: NodeId, request: ClientRequest) {
        let key = key_of(&request.name);
        if self.operations.len() >= self.room_for(&request.operation) {
            let rejection = Limit::Requests.reached(self.config.limits.requests_max);
            self.report_limit(&request.name, rejection);
            return self.reply_to(now, origin, Answer::Rejected(rejection));
        }
        if !self.joined || !self.members.is_responsible(key) {
            return self.reply_to(now, origin, Answer::NotReady);
        }
        let id = self.request_number();
        let version = self.records.get(&key).map_or(0, |record| record.registration) + 1;
        let operating = Operating { origin, client, home, request, key, phase: Phase::Registering(None) };
        self.proceed(now, id, operating, Some(version));
    }
    /// Continues with an operation by the present records. A new name is registered with its parent scope under
    /// `version`; `None` if that has been done.
    fn proceed(&mut self, now: Time, id: u32, mut operating: Operating, version: Option<u64>) {
        match (self.check(now, &operating), version) {
            (Verdict::Answer(answer), _) => self.reply_to(now, operating.origin, answer),
            (Verdict::Store { registers: Some((child, scopes)), .. }, Some(version)) => {
                operating.phase = Phase::Registering(Some((version, child)));
                let name = operating.request.name.clone();
                self.operations.insert(id, operating);
                self.notify_parent(now, Purpose::Operation(id), &name, child, version, scopes);
            }
            (Verdict::Store { entry, .. }, version) => {
                if version.is_some() {
                    // Perhaps another operation has registered the name in the meantime.
                    operating.phase = Phase::Registering(None);
                }
                self.store(now, id, operating, entry);
            }
        }
    }

    /// Sends the parent scope of `name` its present state.
    pub(super) fn notify_parent(
        &mut self,
        now: Time,
        purpose: Purpose,
        name: &tributary_content::Name,
        child: ChildState,
        version: u64,
        scopes: MissingScopes,
    ) {
        let parent = name.parent().expect("the root is never told to a parent");
        let component = name.as_tlv()[parent.as_tlv().len()..].to_vec();
        // An operation may yet fail, and its coordinator may die: the acting node makes the lease a full one soon.
        let lease = match purpose {
            Purpose::Operation(_) => REGISTRATION_LEASE / FIRST_LEASE_PART,
            Purpose::Registration(_) | Purpose::Client { .. } => REGISTRATION_LEASE,
        };
        let operation = Operation::SetChild { component, child, lease, scopes };
        self.call(now, purpose, self.me, ClientRequest { request: 0, version, name: parent, operation });
    }

    /// The parent scope's answer to an operation that adds a name.
    pub(super) fn on_parent_answer(&mut self, now: Time, id: u32, answer: Answer) {
        let Some(operating) = self.operations.remove(&id) else { return };
        match (&operating.phase, answer) {
            // The check from before the parent's answer may be out of date.
            (Phase::Registering(_), Answer::Done { .. }) => self.proceed(now, id, operating, None),
            (Phase::Registering(_), Answer::Stale { current }) => self.proceed(now, id, operating, Some(current + 1)),
            (Phase::Registering(_), refusal) => self.reply_to(now, operating.origin, refusal),
            (Phase::Replicating { .. }, _) => drop(self.operations.insert(id, operating)),
        }
    }

    /// Stores `entry` here and makes the other responsible nodes store it too.
    fn store(&mut self, now: Time, id: u32, mut operating: Operating, entry: Entry) {
        let key = operating.key;
        if let Err(rejection) = self.make_record(key, &operating.request.name) {
            return self.reply_to(now, operating.origin, Answer::Rejected(rejection));
        }
        let entry_key = entry.key.clone();
        let child_version = match operating.phase {
            Phase::Registering(child_version) => child_version,
            Phase::Replicating { .. } => None,
        };
        self.merge_entry(now, key, entry);
        let Some(record) = self.records.get_mut(&key) else { return };
        if let Some((version, child)) = child_version.filter(|(version, _)| *version > record.registration) {
            // The parent's state need not be the present one: if another host has published the same since, the acting
            // node reports that.
            record.registration = version;
            record.registered = Some(child);
            record.refresh_at = now + REGISTRATION_LEASE / FIRST_LEASE_PART / 3;
        }
        let entry = record.entry(now, &entry_key, &self.leases);
        let update = record.update(entry.into_iter().collect());
        if self.stored.is_some() {
            let (client, operation) = (operating.client, operating.request.operation.clone());
            operating.phase = Phase::Replicating { waiting: BTreeSet::from([stored::STORE]), replicas: 1, since: now };
            self.operations.insert(id, operating);
            self.timers.set(Timer::Operation(id), now + stored::PATIENCE);
            return self.store_outside(now, id, (client, &operation), update);
        }
        let peers: Vec<NodeId> = self.members.responsible(key).into_iter().filter(|node| *node != self.me).collect();
        for node in &peers {
            let replicate = Replicate { request: id, records: Vec::from([update.clone()]) };
            self.messages.push_back((Target::Node(*node), Message::Replicate(replicate)));
        }
        let waiting: BTreeSet<NodeId> = peers.into_iter().filter(|node| self.members.is_alive(*node)).collect();
        operating.phase = Phase::Replicating { waiting, replicas: 1, since: now };
        self.operations.insert(id, operating);
        self.timers.set(Timer::Operation(id), now + PEER_TIMEOUT);
        self.proceed_if_stored(now, id);
    }

    /// Operation `id` stops waiting for `node`, which has stored its change or (by any other answer) has not.
    pub(super) fn on_stored(&mut self, now: Time, id: u32, node: NodeId, answer: Answer) {
        if let Some(Operating { phase: Phase::Replicating { waiting, replicas, .. }, .. }) =
            self.operations.get_mut(&id)
            && waiting.remove(&node)
        {
            *replicas += u8::from(matches!(answer, Answer::Done { .. }));
            self.proceed_if_stored(now, id);
        }
    }

    pub(super) fn on_operation_due(&mut self, now: Time, id: u32) {
        let Some(Operating { phase: Phase::Replicating { waiting, since, .. }, .. }) = self.operations.get(&id) else {
            return;
        };
        let (waiting, since) = (waiting.clone(), *since);
        if waiting.contains(&stored::STORE) {
            return self.on_store_late(now, id);
        }
        for node in waiting {
            if !self.members.heard_since(node, since) {
                self.suspect(now, node);
            }
            self.on_stored(now, id, node, Answer::NotReady);
        }
    }

    /// An operation ends with this answer. Its changes here last until their leases end, as if its answer were lost.
    pub(super) fn refuse_operation(&mut self, now: Time, id: u32, answer: Answer) {
        let Some(operating) = self.operations.remove(&id) else { return };
        self.timers.stop(&Timer::Operation(id));
        self.reply_to(now, operating.origin, answer);
    }

    fn proceed_if_stored(&mut self, now: Time, id: u32) {
        let Some(Operating { phase: Phase::Replicating { waiting, replicas, .. }, origin, .. }) =
            self.operations.get(&id)
        else {
            return;
        };
        if !waiting.is_empty() {
            return;
        }
        let (origin, replicas) = (*origin, *replicas);
        self.operations.remove(&id);
        self.timers.stop(&Timer::Operation(id));
        self.reply_to(now, origin, Answer::Done { replicas });
    }

    fn reply_to(&mut self, now: Time, origin: Origin, answer: Answer) {
        match origin {
            Origin::Call(id) => self.on_call_answer(now, id, answer),
            Origin::Peer { node, reply, request } => self.answer(node, reply, request, answer),
        }
    }

    /// The record of `key`, created if it does not exist.
    pub(super) fn make_record(&mut self, key: RecordKey, name: &tributary_content::Name) -> Result<(), Rejection> {
        if let Some(record) = self.records.get(&key) {
            return if record.name == *name { Ok(()) } else { Err(Rejection::IdTaken) };
        }
        if self.records.len() >= self.config.limits.records_max {
            match self.dead.first().copied() {
                Some(key) => self.forget(key),
                None => {
                    let rejection = Limit::Records.reached(self.config.limits.records_max);
                    self.report_limit(name, rejection);
                    return Err(rejection);
                }
            }
        }
        let mut record = Record::new(name.clone());
        record.acting = self.has_bucket(bucket_of(key)) && self.members.acts(key);
        self.records.insert(key, record);
        Ok(())
    }

    /// Reports once per limit that this node has reached it; counts every refusal.
    pub(super) fn report_limit(&mut self, name: &tributary_content::Name, rejection: Rejection) {
        let Rejection::LimitReached(limit, _) = rejection else { return };
        let count = self.refused.entry(limit).or_default();
        *count += 1;
        if *count == 1 {
            let text = format!("rendezvous: '{name}' is refused: {rejection}; further refusals are counted");
            self.events.push_back(Event::Note(text));
        }
    }

    /// The verdict on `request` with this node's knowledge. A node that is still taking over its records refuses
    /// nothing: it may lack the reason to agree.
    fn check(&mut self, now: Time, operating: &Operating) -> Verdict {
        let (key, request) = (operating.key, &operating.request);
        let blank = Record::new(request.name.clone());
        let record = self.records.get(&key).unwrap_or(&blank);
        let removes_scope = matches!(request.operation, Operation::UnpublishScope);
        let checked = self.check_record(now, record, operating);
        if let Err(rejection) = checked {
            self.report_limit(&request.name, rejection);
        }
        let has_records = self.has_bucket(bucket_of(key));
        match checked {
            Ok(verdict) if has_records || !removes_scope => verdict,
            Err(rejection) if has_records || is_about_request(rejection) => {
                Verdict::Answer(Answer::Rejected(rejection))
            }
            Ok(_) | Err(_) => Verdict::Answer(Answer::NotReady),
        }
    }

    fn check_record(&self, now: Time, record: &Record, operating: &Operating) -> Result<Verdict, Rejection> {
        let Operating { client, home, request, .. } = operating;
        if record.name != request.name {
            return Err(Rejection::IdTaken);
        }
        let of_root = matches!(
            request.operation,
            Operation::SubscribeScope { .. } | Operation::UnsubscribeScope | Operation::SetChild { .. }
        );
        if request.name.is_empty() && !of_root {
            return Err(Rejection::Malformed);
        }
        let key = entry_key(*client, &request.operation);
        let held = record.entries.get(&key);
        let known = held.map_or(0, Held::known_version);
        let version_max = if held.is_some() { known.saturating_add(VERSION_STEP_MAX) } else { VERSION_FIRST_MAX };
        if request.version > version_max {
            return Ok(Verdict::Answer(Answer::Stale { current: known }));
        }
        if let Some(held) = held {
            if request.version < known || request.version == known && known > held.version {
                return Ok(Verdict::Answer(Answer::Stale { current: known }));
            }
            if request.version == held.version {
                let value = held.value.clone();
                let (is_live, wants_live) = (value.is_some(), request.operation.lease().is_some());
                let lease = if is_live { held.expires.since(now) } else { Duration::ZERO };
                let entry = Entry { key, version: request.version, lease, value };
                return Ok(if wants_live != is_live || contradicts(&request.operation, held) {
                    Verdict::Answer(Answer::Stale { current: held.version })
                } else if is_live || self.stored.is_some() {
                    // A repetition, perhaps over another node: confirm again that all hold it. The store may have been
                    // unreachable at the first request to withdraw it, and has that only by this put.
                    Verdict::Store { entry, registers: None }
                } else {
                    Verdict::Answer(Answer::Done { replicas: 1 })
                });
            }
        }
        let live = held.is_some_and(|held| held.value.is_some());
        let (value, mut lease, registers) = self.check_operation(record, *home, live, &request.operation)?;
        if let (EntryKey::Child(_), Some(held)) = (&key, held.filter(|_| live && value.is_some())) {
            // The short lease of an operation that may yet fail does not shorten the lease that the acting node
            // granted.
            lease = lease.max(held.expires.since(now));
        }
        let entry = Entry { key, version: request.version, lease: lease.min(LEASE_MAX), value };
        Ok(Verdict::Store { entry, registers })
    }

    /// The rules of PSI, operation by operation. `live`: the client's own entry exists already. A name may be an item and
    /// a scope, since a publisher above a name has no say in it.
    fn check_operation(
        &self,
        record: &Record,
        home: NodeId,
        live: bool,
        operation: &Operation,
    ) -> Result<(Option<EntryValue>, Duration, Registers), Rejection> {
        let config = &self.config;
        let limit = |used: &dyn Fn() -> usize, max: usize, limit: Limit| {
            if live || used() < max { Ok(()) } else { Err(limit.reached(max)) }
        };
        let exists = record.state() != ChildState::Absent;
        Ok(match operation {
            Operation::Publish { label, manifest, object_bytes, lease, scopes } => {
                if manifest.len() > config.manifest_bytes_max {
                    return Err(Limit::ManifestBytes.reached(config.manifest_bytes_max));
                }
                limit(&|| record.publishers().count(), config.limits.publishers_max, Limit::Publishers)?;
                let (label, manifest, object_bytes) = (label.clone(), manifest.clone(), *object_bytes);
                let child = ChildState::Item { publishers: 1, bytes: object_bytes };
                let value = EntryValue::Publisher { label, manifest, object_bytes };
                (Some(value), *lease, (!exists).then_some((child, *scopes)))
            }
            Operation::Unpublish if live => (None, Duration::ZERO, None),
            Operation::Unpublish => return Err(Rejection::NotPublished),
            Operation::PublishScope { lease, scopes } => {
                if !live && record.scope_publishers().next().is_some() {
                    return Err(Rejection::AlreadyPublished);
                }
                let registers = (!exists).then_some((ChildState::Scope, *scopes));
                (Some(EntryValue::ScopePublisher), *lease, registers)
            }
            Operation::UnpublishScope => {
                if !live {
                    return Err(if record.scope_publishers().next().is_some() {
                        Rejection::NotAuthorised
                    } else if exists {
                        Rejection::NotPublished
                    } else {
                        Rejection::NoSuchScope
                    });
                }
                if record.children().next().is_some() {
                    return Err(Rejection::ScopeNotEmpty);
                }
                (None, Duration::ZERO, None)
            }
            Operation::Subscribe { k, metric, lease, .. } => {
                if record.is_scope() && !record.is_item() {
                    return Err(Rejection::IsScope);
                }
                limit(&|| record.subscriptions, config.limits.subscriptions_max, Limit::Subscriptions)?;
                (Some(EntryValue::Subscription { k: *k, metric: *metric }), *lease, None)
            }
            Operation::SubscribeScope { known, lease } => {
                if !live && !record.is_scope() {
                    return Err(if record.is_item() { Rejection::IsItem } else { Rejection::NoSuchScope });
                }
                limit(
                    &|| record.scope_subscribers().count(),
                    config.limits.scope_subscribers_max,
                    Limit::ScopeSubscribers,
                )?;
                (Some(EntryValue::ScopeSubscriber { home, known: *known }), *lease, None)
            }
            Operation::Unsubscribe { .. } | Operation::UnsubscribeScope => {
                if !live {
                    return Err(Rejection::NotSubscribed);
                }
                (None, Duration::ZERO, None)
            }
            Operation::SetChild { child, lease, scopes, .. } => {
                if *child == ChildState::Absent {
                    return Ok((None, Duration::ZERO, None));
                }
                if !record.is_scope() && *scopes == MissingScopes::Refuse {
                    return Err(Rejection::NoSuchScope);
                }
                limit(&|| record.children, config.limits.children_max, Limit::Children)?;
                let registers = (!record.is_scope()).then_some((ChildState::Scope, *scopes));
                (Some(EntryValue::Child(*child)), *lease, registers)
            }
        })
    }
}

/// Whether a rejection concerns the request alone, independent of the records.
fn is_about_request(rejection: Rejection) -> bool {
    matches!(rejection, Rejection::Malformed | Rejection::LimitReached(Limit::ManifestBytes, _))
}

/// The entry that an operation of `client` is about.
fn entry_key(client: NodeId, operation: &Operation) -> EntryKey {
    match operation {
        Operation::Publish { .. } | Operation::Unpublish => EntryKey::Publisher(client),
        Operation::PublishScope { .. } | Operation::UnpublishScope => EntryKey::ScopePublisher(client),
        Operation::Subscribe { transfer, .. } | Operation::Unsubscribe { transfer } => {
            EntryKey::Subscription(client, *transfer)
        }
        Operation::SubscribeScope { .. } | Operation::UnsubscribeScope => EntryKey::ScopeSubscriber(client),
        Operation::SetChild { component, .. } => EntryKey::Child(component.clone()),
    }
}

/// Whether a registration differs from the entry that is held under its version. For a moment two nodes may both
/// believe that they act for a name, and use the same number for different messages to its scope.
fn contradicts(operation: &Operation, held: &Held) -> bool {
    match (operation, &held.value) {
        (Operation::SetChild { child, .. }, Some(EntryValue::Child(known))) => child != known,
        _ => false,
    }
}

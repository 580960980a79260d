//! The rendezvous function (paper §II-B): matches publications with subscriptions.
//!
//! All rendezvous nodes of a domain together are a hash table. A record, everything about one item or scope, is held by
//! the `replicas` nodes of highest weight for its key (rendezvous hashing). A client may send its request to any node:
//!
//! ```text
//!  client ── Request ──► asked node ── Forward ──► coordinator ── Replicate ──► other responsible nodes
//!         ◄── Reply ────            ◄── Reply ────             ◄── Reply ─────
//!                                                      │ SetChild (an operation like any other)
//!                                                      ▼
//!                                              coordinator of the parent scope
//! ```
//! - The coordinator is the first responsible node that answers. It checks an operation against the record, has the
//!   parent scope accept a new name, stores the change, and answers when **every responsible node that is alive** has
//!   stored it; a node that does not answer within `peer_timeout` is suspected and not awaited. So after an answer
//!   `Done { replicas: 3 }` any two nodes may fail.
//! - The *acting* node of a record is the first responsible one that is not suspected. It sends matches to the topology
//!   managers ([`PathRequest`]), listings to the subscribers of a scope, and changes to the parent scope. For a moment
//!   two nodes may both believe that they act; all their messages are idempotent.
//! - A host renews all its publications together, by a count and a digest for each of 2,048 buckets of records
//!   ([`Renewal`](crate::wire::Renewal)). All records of a bucket have the same responsible nodes, and each compares
//!   the digest with its entries; the host publishes again where a node's entries differ.
//! - Everything is soft state with a lease. Entries carry versions and merging keeps the newest ([`record`](self)), so
//!   the order and number of arrivals does not matter; a withdrawn entry is remembered as such for
//!   `tombstone_lifetime`.
//! - When nodes join or leave, records are pushed to the newly responsible nodes; a newcomer also pulls its records and
//!   leaves the work to others until it has them; and a slow comparison of fingerprints finds records that are still
//!   missing. Records refused because of a limit are offered again. A node drops records that it is no longer
//!   responsible for after `drop_grace`, once all responsible nodes have confirmed that they hold them.
//! - With an external store ([`stored`]) the store keeps the entries in place of other nodes, and reports their
//!   changes.
mod call;
mod handover;
mod leases;
mod members;
mod notify;
mod operation;
mod record;
mod stored;
#[cfg(test)]
mod stored_tests;
#[cfg(test)]
mod tests;

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    vec::Vec,
};

use tributary_core::{Duration, NodeId, Time, TimerTable, event::Event};

#[cfg(doc)]
use crate::wire::PathRequest;
use crate::{
    config::Limits,
    control::SendResult,
    ids::RecordKey,
    wire::{
        Answer, EntryKey, Fid, Limit, MANIFEST_BYTES_MAX, MatchKey, Message, Overtaken, Rejection, Reply,
        VERSION_FIRST_MAX,
    },
};
use call::{Call, Purpose};
use handover::Outbox;
use leases::{Leases, Renewing};
use members::Members;
use operation::{Operating, Origin};
use record::Record;
use stored::Store;

/// Longest lease that is granted.
const LEASE_MAX: Duration = Duration::from_secs(3_600);
/// Lease of the entries that list a scope's children; they are renewed at a third, and each renewal costs a message in
/// the domain. A removed child is reported at once, so the lease matters only if all holders of a record die together
/// with its host.
const REGISTRATION_LEASE: Duration = Duration::from_secs(1_800);
/// How long a withdrawn entry is remembered, so that late duplicates do not revive it.
const TOMBSTONE_LIFETIME: Duration = Duration::from_secs(60);
/// How long a node may be silent while it is waited for, before it is suspected.
const PEER_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a suspected node is passed over unless it shows a sign of life.
const SUSPECT_LIFETIME: Duration = Duration::from_secs(10);
/// Pause before nodes that could not help are tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// How long an operation may take before it is refused with [`Rejection::NoResolverReachable`] or, if the responsible
/// nodes do answer, with [`Rejection::Overloaded`].
const OPERATION_TIMEOUT: Duration = Duration::from_secs(8);
/// Time between repeated requests for the records of a newly known node.
const PULL_TIMEOUT: Duration = Duration::from_secs(3);
/// Minimum time for which records are kept after this node's responsibility for them has ended; then they are dropped
/// once all responsible nodes have confirmed that they hold them.
const DROP_GRACE: Duration = Duration::from_secs(10);
/// Time between two comparisons of fingerprints, each with one other node.
const COMPARE_INTERVAL: Duration = Duration::from_secs(10);

/// Publishers that one subscriber learns at most: their manifests always fit one message.
const NAMED_MAX: usize = 32;

tributary_core::declared! {
    /// Settings of a [`Rendezvous`] node. All nodes of a domain must have the same `replicas`.
    #[derive(Clone, PartialEq, Debug)]
    pub struct RendezvousConfig {
        /// How many nodes hold each record. Default: 3.
        pub replicas: usize = 3,
        /// How long after its start a node reports no item as unpublished. If all nodes have restarted, hosts publish
        /// again in this time. Default: 2 s.
        pub silence: Duration = Duration::from_secs(2),
        /// Publishers of one item that one subscriber learns if there are more, besides itself, further complete ones
        /// and those with another manifest. Default: 8.
        pub named_max: usize = 8,
        /// Bytes of a manifest. Default: 1,400.
        pub manifest_bytes_max: usize = MANIFEST_BYTES_MAX,
        /// Its limits.
        pub limits: Limits = Limits::default(),
    }
}

/// The destination of a rendezvous node's message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// To another rendezvous node, over the routes of [`crate::wire::Routes`].
    Node(NodeId),
    /// To a node, over the route that its own message brought.
    Reply(NodeId, Fid),
    /// To every topology manager, active and standby.
    TopologyManagers,
}

/// What a rendezvous node holds and does, for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RendezvousStatus {
    /// The known rendezvous nodes, including itself.
    pub members: usize,
    /// Records held.
    pub records: usize,
    /// Records for which it acts.
    pub acting: usize,
    /// Publications of items.
    pub publications: usize,
    /// Subscriptions to items.
    pub subscriptions: usize,
    /// Requests being worked on.
    pub requests: usize,
    /// Hosts that are served.
    pub clients: usize,
}

tributary_core::declared! {
    /// One rendezvous node (paper: RN).
    ///
    /// Order of calls: after any `handle_*`, drain [`Rendezvous::poll_message`] and [`Rendezvous::poll_event`], then
    /// call [`Rendezvous::poll_timeout`].
    #[derive(Debug, Default)]
    pub struct Rendezvous {
        me: NodeId = me,
        members: Members = Members::new(me, config.replicas),
        /// Whether a membership was ever announced: before that, a node does not know its share.
        joined: bool = false,
        /// Since when it may report an item as unpublished.
        speaks_from: Time = Time::default(),
        records: BTreeMap<RecordKey, Record> = BTreeMap::new(),
        /// Records without a live entry: the first to be evicted.
        dead: BTreeSet<RecordKey> = BTreeSet::new(),
        /// Records to settle at the end of the present input.
        touched: BTreeSet<RecordKey> = BTreeSet::new(),
        /// Numbers calls, operations, pushes and pulls; an answer carries the number.
        request_next: u32 = boot.wrapping_mul(0x9e37_79b1) & !Reply::HOST_BIT,
        calls: BTreeMap<u32, Call> = BTreeMap::new(),
        /// The lifetimes of hosts' publications.
        leases: Leases = Leases::default(),
        /// Renewals of hosts that others have not answered yet.
        renewals: BTreeMap<u32, Renewing> = BTreeMap::new(),
        /// Requests of clients that are being worked on, by client and number.
        client_requests: BTreeSet<(NodeId, u32)> = BTreeSet::new(),
        operations: BTreeMap<u32, Operating> = BTreeMap::new(),
        outboxes: BTreeMap<NodeId, Outbox> = BTreeMap::new(),
        /// Pulls of all records that this node is responsible for, by the node that answers: each is open until that
        /// node has sent everything, or has left.
        pulls: BTreeMap<NodeId, u32> = BTreeMap::new(),
        /// The numbers of the last pulls; the announcement that this node is ready refers to them.
        queried: BTreeMap<NodeId, u32> = BTreeMap::new(),
        /// Whether this node has announced that it is ready, and whether it ever was.
        ready_announced: bool = false,
        is_settled: bool = false,
        /// The pull of each other node after which it announced that it is ready.
        ready_as_of: BTreeMap<NodeId, u32> = BTreeMap::new(),
        /// Records to be dropped, by the nodes that have yet to confirm that they hold them.
        leaving: BTreeMap<NodeId, BTreeSet<RecordKey>> = BTreeMap::new(),
        clients: BTreeMap<NodeId, (Fid, Time)> = BTreeMap::new(),
        compare_with: NodeId = NodeId::default(),
        compare_from: RecordKey = RecordKey::default(),
        /// Requests for paths that did not reach a topology manager.
        unasked: BTreeSet<(RecordKey, NodeId, u32)> = BTreeSet::new(),
        /// What keeps the entries in place of other nodes.
        stored: Option<Store> = None,
        timers: TimerTable<Timer> = TimerTable::default(),
        messages: VecDeque<(Target, Message)> = VecDeque::new(),
        events: VecDeque<Event> = VecDeque::new(),
        /// Refusals for each limit that was reached.
        pub refused: BTreeMap<Limit, u64> = BTreeMap::new(),
        /// Messages dropped because they did not come from a rendezvous node, or were invalid here.
        dropped: u64 = 0,
        config: RendezvousConfig = config,
    }
    /// The rendezvous node `me`; `boot` differs from start to start. It starts no action before
    /// [`Rendezvous::handle_members`] was called.
    ///
    /// # Panics
    /// If `config.replicas` is zero, or `config.named_max` is not below 32.
    pub fn new(config: RendezvousConfig, me: NodeId, boot: u32) {
        assert!(config.replicas > 0, "a record is held by at least one node");
        assert!(config.named_max < NAMED_MAX, "the manifests of {NAMED_MAX} publishers fit one path request");
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Timer {
    Record(RecordKey),
    Call(u32),
    Operation(u32),
    Outbox(NodeId),
    Pull(NodeId),
    Lease(NodeId, u16),
    Renewal(u32),
    Forgive,
    Compare,
    Query,
    Speak,
    Store,
}

impl Rendezvous {
    /// Takes over which rendezvous nodes the topology manager announces; this one need not be among them.
    pub fn handle_members(&mut self, now: Time, nodes: &[NodeId]) {
        let before = self.members.clone();
        let (came, went) = self.members.replace(nodes);
        if !self.joined {
            self.joined = true;
            self.speaks_from = now + self.config.silence;
            self.timers.set(Timer::Speak, self.speaks_from);
            self.timers.set(Timer::Compare, now + COMPARE_INTERVAL);
            self.review_store(now);
            self.touch_all();
        }
        if came.is_empty() && went.is_empty() {
            return self.settle(now);
        }
        self.events.push_back(Event::Note(format!(
            "rendezvous: {} nodes, {} came, {} went, {} records held",
            self.members.nodes.len(),
            came.len(),
            went.len(),
            self.records.len(),
        )));
        went.iter().for_each(|node| self.on_gone(now, *node));
        if self.stored.is_some() {
            self.review_store(now);
        } else {
            self.hand_over(now, &before);
            came.iter().for_each(|node| self.pull_from(now, *node));
        }
        self.touch_all();
        self.settle(now);
    }

    /// Takes a message of node `from`, which can be answered over `reply`. Messages that are not for a rendezvous
    /// node are dropped and counted.
    pub fn handle_message(&mut self, now: Time, from: NodeId, reply: Fid, message: Message) {
        if self.members.hear(now, from) {
            self.touch_all();
        }
        let from_member = self.members.contains(from);
        match message {
            Message::Request(request) => self.on_client_request(now, from, reply, request),
            Message::Reply(answer) if from_member => self.on_reply(now, from, answer),
            Message::Forward(forward) if from_member => {
                let origin = Origin::Peer { node: from, reply, request: forward.request };
                self.operate(now, origin, forward.client, from, forward.inner);
            }
            Message::Replicate(replicate) if from_member => {
                let request = replicate.request;
                let answer = self.on_replicate(now, replicate);
                self.answer(from, reply, request, answer);
            }
            Message::Sync { request } if from_member => self.on_pull(now, from, reply, request),
            Message::Digest(digest) if from_member => self.on_digest(now, from, digest),
            Message::Ready { request } if from_member => self.on_ready(from, request),
            Message::Relay(relay) if from_member => match self.clients.get(&relay.client) {
                Some((route, _)) => {
                    self.messages.push_back((Target::Reply(relay.client, *route), Message::ScopeNotice(relay.notice)));
                }
                None => self.dropped += 1,
            },
            Message::Overtaken(overtaken) => self.on_overtaken(overtaken),
            Message::Renewal(renewal) => self.on_renewal(now, from, reply, renewal),
            Message::Renewed(renewed) if from_member => self.on_renewed(from, renewed),
            Message::Forward(crate::wire::Forward { request, .. })
            | Message::Replicate(crate::wire::Replicate { request, .. })
            | Message::Sync { request } => {
                self.dropped += 1;
                self.answer(from, reply, request, Answer::Rejected(Rejection::NotAuthorised));
            }
            Message::Reply(_)
            | Message::Digest(_)
            | Message::Ready { .. }
            | Message::Relay(_)
            | Message::LinkState(_)
            | Message::Routes(_)
            | Message::PathRequest(_)
            | Message::Offer(_)
            | Message::Refused(_)
            | Message::ScopeNotice(_)
            | Message::Renewed(_)
            | Message::Many(_) => self.dropped += 1,
        }
        self.settle(now);
    }

    /// Refuses a request that its host may not make.
    pub fn refuse(&mut self, host: NodeId, reply: Fid, request: u32) {
        self.dropped += 1;
        self.answer(host, reply, request, Answer::Rejected(Rejection::NotAuthorised));
    }
    /// Takes the result of a message to another rendezvous node.
    pub fn handle_outcome(&mut self, now: Time, to: NodeId, result: SendResult) {
        match result {
            SendResult::Delivered => {
                if self.members.hear(now, to) {
                    self.touch_all();
                }
            }
            SendResult::TimedOut => self.suspect(now, to),
            SendResult::QueueFull | SendResult::TooLong | SendResult::NoKey => self.dropped += 1,
        }
        self.settle(now);
    }

    /// Sends all matches again, to newly known topology managers.
    pub fn handle_topology_managers(&mut self, now: Time) {
        for (key, record) in &mut self.records {
            if record.acting {
                record.matches = subscription_keys(record);
                self.touched.insert(*key);
            }
        }
        self.settle(now);
    }

    /// A request for the paths of a transfer did not reach a topology manager: it is sent again soon, with the state of
    /// then.
    pub fn handle_unsolicited(&mut self, now: Time, key: RecordKey, subscriber: NodeId, transfer: u32) {
        if self.unasked.is_empty() {
            self.timers.set(Timer::Query, now + RETRY_INTERVAL);
        }
        self.unasked.insert((key, subscriber, transfer));
    }

    /// Serves the timers that are due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Record(key) => self.on_record_due(now, key),
                Timer::Call(id) => self.on_call_due(now, id),
                Timer::Operation(id) => self.on_operation_due(now, id),
                Timer::Outbox(node) => self.on_outbox_due(now, node),
                Timer::Pull(node) => self.on_pull_due(now, node),
                Timer::Forgive => {
                    if self.members.forgive(now) {
                        self.touch_all();
                    }
                    self.arm_forgiving();
                }
                Timer::Lease(node, bucket) => self.on_lease_due(now, node, bucket),
                Timer::Renewal(id) => self.on_renewal_due(now, id),
                Timer::Store => self.on_store_due(now),
                Timer::Compare if self.stored.is_some() => self.repeat_ready(now),
                Timer::Compare => self.compare(now),
                Timer::Speak => self.touch_all(),
                Timer::Query => {
                    for (key, subscriber, transfer) in core::mem::take(&mut self.unasked) {
                        if let Some(record) = self.records.get_mut(&key) {
                            record.matches.insert((subscriber, transfer));
                            self.touched.insert(key);
                        }
                    }
                }
            }
        }
        self.settle(now);
    }

    /// When to call [`Rendezvous::handle_timeout`] next.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.next().map(|(due, _)| due).filter(|due| *due < Time::MAX)
    }
    /// The next message to send.
    pub fn poll_message(&mut self) -> Option<(Target, Message)> {
        self.messages.pop_front()
    }
    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front().or_else(|| self.stored.as_mut()?.poll_note())
    }

    /// Whether this node has the records that it is responsible for. A newcomer has them when all others have sent
    /// theirs or have left for good, however long that takes; the others do its work until then. A node that was ready
    /// before waits for newcomers only while they answer.
    pub fn is_ready(&self) -> bool {
        if let Some(store) = &self.stored {
            return self.joined && store.is_ready();
        }
        let waits = |node: &NodeId| !self.is_settled || self.members.is_alive(*node);
        self.joined && !self.pulls.keys().any(waits)
    }
    /// Whether this node has the records of one bucket that it is responsible for.
    fn has_bucket(&self, bucket: u16) -> bool {
        self.is_ready() && self.stored.as_ref().is_none_or(|store| store.has_read(bucket))
    }

    /// Its contents. Takes time proportional to the number of entries.
    pub fn status(&self) -> RendezvousStatus {
        let count = |of: fn(&Record) -> usize| self.records.values().map(of).sum();
        RendezvousStatus {
            members: self.members.nodes.len(),
            records: self.records.len(),
            acting: count(|record| usize::from(record.acting)),
            publications: count(|record| record.publishers().count()),
            subscriptions: count(|record| record.subscriptions),
            requests: self.calls.len(),
            clients: self.clients.len(),
        }
    }

    fn request_number(&mut self) -> u32 {
        self.request_next = self.request_next.wrapping_add(1) & !Reply::HOST_BIT;
        self.request_next
    }

    fn touch_all(&mut self) {
        self.touched.extend(self.records.keys().copied());
    }

    fn answer(&mut self, to: NodeId, route: Fid, request: u32, answer: Answer) {
        self.messages.push_back((Target::Reply(to, route), Message::Reply(Reply { request, answer })));
    }

    /// An answer of another rendezvous node: to a call, a replication, a push or a pull.
    fn on_reply(&mut self, now: Time, from: NodeId, reply: Reply) {
        let Reply { request, answer } = reply;
        if self.calls.get(&request).is_some_and(|call| call.queried == Some(from)) {
            self.on_call_answer(now, request, answer);
        } else if self.operations.contains_key(&request) {
            self.on_stored(now, request, from, answer);
        } else if self.outboxes.get(&from).is_some_and(|outbox| outbox.in_flight.contains_key(&request)) {
            self.on_pushed(now, from, request, answer);
        } else if self.pulls.get(&from) == Some(&request) {
            self.on_pulled(now, from, answer);
        } else {
            // Too late, or from a node without a request.
            self.dropped += 1;
        }
    }

    /// A topology manager knows later versions of entries than this node sent: the hosts must number beyond them at
    /// their next renewal, unless newer ones have arrived here since.
    fn on_overtaken(&mut self, overtaken: Overtaken) {
        let Some(record) = self.records.get_mut(&overtaken.item.key()) else { return };
        for (key, version) in overtaken.entries {
            let key = match key {
                MatchKey::Publisher(node) => EntryKey::Publisher(node),
                MatchKey::Subscription(node, transfer) => EntryKey::Subscription(node, transfer),
            };
            if let Some(held) = record.entries.get_mut(&key) {
                held.floor = held.floor.max(version.min(VERSION_FIRST_MAX));
                if let EntryKey::Publisher(node) = key {
                    self.leases.overtake(node, overtaken.item.key());
                }
            }
        }
    }

    fn suspect(&mut self, now: Time, node: NodeId) {
        if self.members.suspect(node, now + SUSPECT_LIFETIME) {
            self.events.push_back(Event::Note(format!("rendezvous: node {node} does not answer")));
            self.touch_all();
            self.arm_forgiving();
            self.stop_waiting_for(now, node);
        }
    }

    fn arm_forgiving(&mut self) {
        match self.members.suspected.values().min().copied() {
            Some(due) => self.timers.set(Timer::Forgive, due),
            None => self.timers.stop(&Timer::Forgive),
        }
    }

    fn on_gone(&mut self, now: Time, node: NodeId) {
        self.outboxes.remove(&node);
        self.timers.stop(&Timer::Outbox(node));
        self.on_predecessor_gone(now, node);
        self.ready_as_of.remove(&node);
        self.stop_waiting_for(now, node);
    }

    /// Nothing more is expected of `node`: calls go to the next one, and operations do not wait for it.
    fn stop_waiting_for(&mut self, now: Time, node: NodeId) {
        let calls: Vec<u32> =
            self.calls.iter().filter(|(_, call)| call.queried == Some(node)).map(|(id, _)| *id).collect();
        calls.into_iter().for_each(|id| self.next_candidate(now, id));
        let operations: Vec<u32> = self.operations.keys().copied().collect();
        operations.into_iter().for_each(|id| self.on_stored(now, id, node, Answer::NotReady));
    }
}

fn subscription_keys(record: &Record) -> BTreeSet<(NodeId, u32)> {
    let of_key = |key: &EntryKey| match key {
        EntryKey::Subscription(node, transfer) => Some((*node, *transfer)),
        _ => None,
    };
    record.subscriptions().filter_map(|(key, _)| of_key(key)).collect()
}

/// The key under which the records of `name` are held.
fn key_of(name: &tributary_content::Name) -> RecordKey {
    crate::ids::ItemId::new(name).key()
}

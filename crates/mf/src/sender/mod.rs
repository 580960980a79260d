//! The sending end (paper §3.1, §3.2.2, §3.4.2): cuts objects into chunks, respects the end-to-end window, and repeats
//! missing chunks, from the network's storage if that has them.
mod flow;
mod flows;
mod group;
#[cfg(test)]
mod many_tests;
mod messages;
mod options;
mod reading;
mod requests;
mod round_robin;
#[cfg(test)]
mod tests;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::{String, ToString},
    vec::Vec,
};

use bytes::Bytes;
use tributary_content::{ChunkIndex, Name, ObjectId, ObjectReader, StoreError, Unavailable};
use tributary_core::{ByteCount, Duration, Time};
use tributary_transport::{
    catalogue::Catalogue,
    messaging::{InNetwork, SendReport},
};

pub use flow::chunk_count;
use flow::{Next, Outflow, Waiting, Windows, header_addresses};
pub(crate) use flow::{nearest_window, on_wire};
use flows::{FlowId, Flows};
use group::{Group, Wanted};
pub use options::SendOptions;
use reading::Reading;
use round_robin::{Round, Turns, size_class};

use crate::{
    config::EndConfig,
    ids::{Flow, Guid, NetworkAddress, ServiceId, Token},
    payload::Payload,
    reports::Reports,
    router::cache::ContentCache,
    wire::{
        ChunkHeader, ChunkKind, ChunkRanges, DataTag, Flags, Reliability, TransportBody, TransportMessage,
        chunk::lifetime_ms,
    },
};

/// Limits of requested flows: all of a node's, and those that one device requested.
const REQUESTED_MAX: usize = 4_096;
const FLOWS_OF_ONE_MAX: usize = 256;
/// Maximum flows that this node pushes. At the limit, a flow that is completely in storage on the way is replaced.
pub(crate) const PUSHED_MAX: usize = 16_384;
/// At the limit a requested flow whose receiver has been silent for this long is replaced: present receivers send
/// messages more often.
const SILENT: Duration = Duration::from_secs(15);
/// A flow ends when its receiver has been silent for this long.
const FLOW_LIFETIME: Duration = Duration::from_secs(3_600);
/// The reason for dropping a readable object.
pub(crate) const LIFETIME_OVER: &str = "its lifetime was over before all had it";
/// How long a sender waits before it repeats chunks dropped by a proxy; doubles up to [`DROP_PAUSE_MAX`].
const DROP_PAUSE: Duration = Duration::from_millis(500);
const DROP_PAUSE_MAX: Duration = Duration::from_secs(16);
/// How long the sender waits for an acknowledgement (reliability [`Reliability::Ack`]); doubles up to 32 times.
const ACK_PATIENCE: Duration = Duration::from_secs(2);
/// The longest pause between two reminders of a silent receiver. A single receiver gets its first one after four NACK
/// timeouts, in which it has sent two NACKs if it has anything of the object.
pub(crate) const REMIND_MAX: Duration = Duration::from_secs(48);
/// A request that arrives again so soon is a copy.
const REQUEST_AGAIN: Duration = Duration::from_secs(2);
/// Reports of ended flows that are kept.
const ENDED_KEPT: usize = 4_096;
/// Set in the numbers of transfers that a sender starts (pushes), and clear in those that a receiver starts (requests).
pub const PUSHED: u32 = 1 << 31;
/// Whether the source started the transfer with this number.
pub fn is_pushed(transfer: u32) -> bool {
    transfer & PUSHED != 0
}

/// The sending flows of a node.
#[derive(Default)]
pub struct Sender {
    own: Guid,
    /// What the tokens of pushed transfers are derived from.
    secret: [u8; 32],
    config: EndConfig,
    /// Objects, each with its manifest and hash list: chunk 0.
    objects: Catalogue<Bytes>,
    /// Objects that are forgotten as soon as no flow sends them.
    lent: BTreeSet<ObjectId>,
    flows: Flows,
    next_transfer: u32,
    messages: VecDeque<(Guid, NetworkAddress, Token, TransportMessage)>,
    reading: Reading,
    /// The known members of groups that flows go to; the groups, and flows to them, that await their members since they
    /// started or since a member sent a message.
    members: BTreeMap<Guid, BTreeSet<Guid>>,
    untold_groups: BTreeSet<Guid>,
    untold_flows: BTreeSet<FlowId>,
    /// Destinations not yet recognised as groups or devices, and whether flows wait for the result.
    unrecognised: BTreeMap<Guid, bool>,
    /// Objects that could not be read, and why.
    pub failures: VecDeque<(String, String)>,
    /// Destination and transfer of expired flows.
    pub expired: VecDeque<(Guid, u32)>,
    /// Flows from the cache that began to wait for a missing chunk.
    pub lacking: Vec<(ObjectId, FlowId)>,
    /// The reports of pushed transfers that have ended, and the order in which they did.
    ended: BTreeMap<u32, SendReport>,
    ended_order: VecDeque<u32>,
    /// Sent chunks, and how many of them were repeats.
    pub chunks: (u64, u64),
    /// Requests for objects that are not published here.
    pub unknown: u64,
}

/// What a cache has of a requested object.
pub struct Cached {
    /// How it is cut, and into how many chunks.
    pub cut: (u32, u32),
    /// Chunks, cut so, that are in flight to the receiver already.
    pub under_way: BTreeSet<u32>,
}

/// Why a chunk cannot be sent.
pub(super) struct Failure {
    /// For the operator of this node.
    reason: String,
    /// For the receiver; `None` if this node may have the object again.
    why: Option<Unavailable>,
    /// The publication that could not be read.
    publication: Option<ObjectId>,
}
impl Failure {
    /// This node does not have it; another one may.
    fn here(reason: &str) -> Failure {
        Failure { reason: reason.into(), why: None, publication: None }
    }
    /// The store cannot read it.
    fn of_source(error: &StoreError, publication: Option<ObjectId>) -> Failure {
        Failure { reason: error.to_string(), why: Unavailable::of(error), publication }
    }
}

impl Sender {
    /// Without flows. Pushed transfers are numbered from `first_transfer`, and their tokens are derived from `secret`.
    pub fn new(own: Guid, config: EndConfig, first_transfer: u32, secret: &[u8; 32]) -> Sender {
        Sender { own, secret: *secret, config, next_transfer: first_transfer, ..Sender::default() }
    }

    // Objects.

    /// Offers an object; an older one of the same name is dropped.
    pub fn publish(&mut self, reader: Box<dyn ObjectReader>) {
        self.lent.remove(&reader.manifest().publication_id());
        let head = head_of(&*reader);
        for gone in self.objects.publish(reader, head) {
            self.on_reader_gone(&gone);
        }
    }
    /// Keeps an object, under the id of its publication, until all receivers that it is [pushed](Sender::push) to have it. It
    /// replaces no object that is published, or was lent, under the same name.
    pub fn lend(&mut self, reader: Box<dyn ObjectReader>) {
        let object = reader.manifest().publication_id();
        if self.objects.get(&object).is_none() {
            let head = head_of(&*reader);
            self.objects.keep(reader, head);
            self.lent.insert(object);
        }
    }
    /// Forgets a lent object that is not being sent.
    pub fn release(&mut self, object: ObjectId) {
        if self.lent.contains(&object) && !self.flows.uses(&object) {
            self.lent.remove(&object);
            self.objects.remove(&object);
            self.on_reader_gone(&object);
        }
    }
    /// Withdraws a name; returns its object.
    pub fn unpublish(&mut self, name: &Name) -> Option<ObjectId> {
        let object = self.objects.withdraw(name)?;
        self.on_reader_gone(&object);
        Some(object)
    }
    /// Names and sizes of all objects that are published.
    pub fn published(&self) -> impl ExactSizeIterator<Item = (&Name, ByteCount)> {
        self.objects.published()
    }
    /// The reader of an object.
    pub fn object(&self, id: &ObjectId) -> Option<&dyn ObjectReader> {
        self.objects.get(id).map(|published| published.reader())
    }
    /// The object that is published under a name.
    pub fn by_name(&self, name: &Name) -> Option<ObjectId> {
        self.objects.by_name(name)
    }

    // Flows.

    /// Pushes an object of this node to a receiver that did not request it. Returns the number of the transfer; `None`
    /// if the object is missing or the limit of flows is reached.
    pub fn push(
        &mut self,
        now: Time,
        object: ObjectId,
        destination: Guid,
        addresses: Vec<NetworkAddress>,
        options: SendOptions,
    ) -> Option<u32> {
        self.next_transfer = self.next_transfer.wrapping_add(1) | PUSHED;
        let transfer = self.next_transfer;
        let size = self.objects.get(&object)?.reader().manifest().size;
        let chunk_bytes = self.cut_for(object, options.chunk_bytes)?;
        let count = chunk_count(size, chunk_bytes);
        let mut flow = self.flow(now, object, addresses, options, chunk_bytes, count);
        flow.token = Token::of(&self.secret, &destination, transfer);
        self.start(now, (destination, transfer), flow).then_some(transfer)
    }
    /// A destination has moved. Chunks that were dropped because it was away go out as soon as it has an address.
    pub fn handle_binding(&mut self, now: Time, destination: &Guid, addresses: impl Iterator<Item = NetworkAddress>) {
        let addresses: Vec<NetworkAddress> = addresses.collect();
        for id in self.flows.to(destination) {
            self.flows.change(&id, |flow| {
                flow.addresses.clone_from(&addresses);
                if !flow.addresses.is_empty() && flow.resume_at.is_some() {
                    (flow.resume_at, flow.pause) = (Some(now), DROP_PAUSE);
                }
            });
        }
    }
    /// The destinations of long flows, whose addresses must be followed; `None` if unchanged since the last call.
    pub fn take_destinations(&mut self) -> Option<BTreeSet<Guid>> {
        self.flows.take_followed()
    }
    /// Runs the timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        let threshold = usize::from(self.config.multicast_threshold);
        for id in self.flows.due(now) {
            let over = self.flows.change(&id, |flow| {
                flow.handle_timeout(now, threshold);
                (flow.over_at() <= now).then_some((flow.object, flow.ends_at.is_some_and(|at| at <= now)))
            });
            let Some((object, has_lifetime)) = over.flatten() else { continue };
            if has_lifetime {
                let name = self.objects.get(&object).map(|published| published.reader().manifest().name.to_string());
                self.failures.push_back((name.unwrap_or_else(|| object.to_string()), LIFETIME_OVER.to_string()));
                self.expired.push_back(id);
            }
            self.end(id);
        }
    }
    /// How long a single receiver may be silent before its first reminder.
    fn remind_first(&self) -> Duration {
        self.config.nack_timeout * 4
    }
    /// When to call [`Sender::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        self.flows.next_due()
    }
    /// The next chunk to send; the caller polls when the network can take one. Flows take turns.
    ///
    /// `has_room` returns whether this many bytes for a destination fit; it must be monotonic in the bytes.
    pub fn poll_chunk(
        &mut self,
        now: Time,
        cache: &ContentCache,
        mut has_room: impl FnMut(&Guid, u32) -> bool,
    ) -> Option<(ChunkHeader, Payload)> {
        let mut round = self.flows.round();
        while let Some(id) = self.flows.next(&mut round) {
            if !has_room(&id.0, self.flows.get(&id)?.bytes) {
                round.refuse();
                continue;
            }
            let begin = |flow: &mut Outflow| flow.waiting.take().or_else(|| flow.take_next(now).map(Waiting::new));
            let Some(begun) = self.flows.change(&id, begin).flatten() else { continue };
            let Next { number, repeated, only } = begun.next;
            let next = begun.next;
            self.flows.served(id);
            let flow = self.flows.get(&id)?;
            let (object, chunk_bytes, count) = (flow.object, flow.chunk_bytes, flow.count);
            let payload = match flow.from_cache {
                true => match cache.chunk(&object, (chunk_bytes, count), number) {
                    Some(chunk) => Ok(Some(Payload::from(chunk))),
                    None if cache.arriving.has_joined(&object, &id) => {
                        let waiting = Waiting { awaits_storage: true, ..begun };
                        self.flows.change(&id, |flow| flow.waiting = Some(waiting));
                        self.lacking.push((object, id));
                        Ok(None)
                    }
                    None => Err(Failure::here("it went out of the cache")),
                },
                false => self.read_for(id, begun),
            };
            let payload = match payload {
                Ok(Some(payload)) => payload,
                Ok(None) => continue,
                Err(failure) => {
                    self.give_up(id, &failure);
                    continue;
                }
            };
            let own = self.own;
            let (header, is_over) = self.flows.change(&id, |flow| {
                // The receiver may have missed it while this end waited for its bytes.
                flow.again.remove(&number);
                // A reminder is no sign of life: its receiver may be absent.
                if !repeated || number != 0 {
                    flow.sent_at = now;
                }
                if !repeated {
                    flow.begun_at = now;
                }
                if flow.has_to_remind() {
                    flow.remind_at = Some(now + flow.remind_after);
                }
                if flow.options.reliability == Reliability::Ack && only.is_none() && flow.group.is_none() {
                    flow.await_ack(now, number);
                }
                flow.repeated += u64::from(repeated);
                let has_all_gone = flow.next >= flow.count && flow.again.is_empty();
                let is_over = flow.options.reliability == Reliability::DontCare && has_all_gone;
                (flow.header(now, own, id, &next), is_over)
            })?;
            self.chunks.0 += 1;
            self.chunks.1 += u64::from(repeated);
            if is_over {
                self.end(id);
            }
            return Some((header, payload));
        }
        None
    }
    /// The cache has a new chunk: a flow that waits for one tries again.
    pub fn on_cached(&mut self, id: FlowId) {
        self.flows.change(&id, |flow| flow.waiting.iter_mut().for_each(|waiting| waiting.awaits_storage = false));
    }
    /// Whether a flow has not ended.
    pub fn has_flow(&self, id: &FlowId) -> bool {
        self.flows.get(id).is_some()
    }
    /// Ends a flow from the cache that waits for a chunk, and returns the request by which a source continues it: for the
    /// chunks that this node has not sent.
    pub fn hand_over(&mut self, id: FlowId) -> Option<TransportMessage> {
        let flow = self.flows.get(&id)?;
        let waits = flow.waiting.as_ref().filter(|waiting| waiting.awaits_storage)?.next.number;
        let is_missing =
            |number: u32| number == waits || flow.again.contains(&number) || flow.dropped.contains(&number);
        let is_sent = |number: u32| number < flow.next || flow.held.contains(number);
        let held = (0..flow.count).filter(|number| is_sent(*number) && !is_missing(*number));
        let request = TransportBody::Request {
            chunk_bytes: flow.chunk_bytes,
            reliability: flow.options.reliability,
            buffer_chunks: flow.window.advice.max(1),
            held: ChunkRanges::from_ascending(held),
        }
        .about(id.1, flow.object);
        self.end(id);
        Some(request)
    }
    /// The next message to send.
    pub fn poll_message(&mut self) -> Option<(Guid, NetworkAddress, Token, TransportMessage)> {
        self.messages.pop_front()
    }
    /// The chunks of a pushed transfer that storage on the way has promised to keep.
    pub fn promised(&self, transfer: u32) -> BTreeSet<u32> {
        let running = self.flows.pushed(transfer).and_then(|id| self.flows.get(&id));
        running.map(|flow| flow.stored.keys().copied().collect()).unwrap_or_default()
    }
    /// The report of a pushed transfer.
    pub fn report(&self, transfer: u32) -> Option<SendReport> {
        let running = self.flows.pushed(transfer).and_then(|id| Some(self.flows.get(&id)?.report(id.0)));
        running.or_else(|| self.ended.get(&transfer).cloned())
    }
    /// Destinations not yet recognised as groups or devices.
    pub fn unrecognised(&self) -> impl Iterator<Item = Guid> {
        self.unrecognised.keys().copied()
    }
    /// Sets whether a destination is a group; `None` if that stays unknown and its messages go to the outbox. Returns
    /// whether flows may start as a result.
    pub fn recognise(&mut self, now: Time, guid: &Guid, is_group: Option<bool>) -> bool {
        let waits = match is_group {
            Some(_) => self.unrecognised.remove(guid).is_some(),
            None => self.unrecognised.insert(*guid, false) == Some(true),
        };
        if !waits {
            return false;
        }
        let mut moved = false;
        for id in self.flows.to(guid) {
            let Some(mut flow) = self.flows.remove(&id) else { continue };
            if !flow.requested && flow.options.recognises {
                moved |= core::mem::take(&mut flow.unrecognised);
                if let Some(is_group) = is_group {
                    flow.recognise(now, is_group);
                }
            }
            if flow.group.is_some() && is_group.is_some() {
                self.notify_members_again(id);
            }
            self.flows.insert(id, flow);
        }
        moved
    }
    /// Sets the members of a group that flows go to.
    pub fn set_members(&mut self, group: &Guid, members: &BTreeSet<Guid>) {
        if !self.flows.is_for_group(group) {
            return;
        }
        let range = (*group, 0)..=(*group, u32::MAX);
        let untold: Vec<FlowId> = self.untold_flows.range(range).copied().collect();
        untold.iter().for_each(|id| _ = self.untold_flows.remove(id));
        let meant = match self.members.get(group) == Some(members) {
            true => untold,
            false => self.flows.to_group(group).into_iter().map(|transfer| (*group, transfer)).collect(),
        };
        self.members.insert(*group, members.clone());
        let own = self.own;
        for id in meant {
            let is_over = self.flows.change(&id, |flow| {
                flow.group.as_mut().is_some_and(|group| {
                    group.set_members(own, members);
                    group.is_over()
                })
            });
            // All members may have completed the object before they were known.
            if is_over == Some(true) {
                self.end(id);
            }
        }
    }
    /// A flow to a group is told its members as soon as they are known.
    fn notify_members_again(&mut self, id: FlowId) {
        self.untold_groups.insert(id.0);
        self.untold_flows.insert(id);
    }
    /// The groups that flows go to: all, or those that need a call of [`Sender::set_members`].
    pub fn take_groups(&mut self, all: bool) -> BTreeSet<Guid> {
        let untold = core::mem::take(&mut self.untold_groups);
        if all { self.flows.groups().copied().collect() } else { untold }
    }
    /// Ends a pushed transfer.
    pub fn cancel(&mut self, transfer: u32) {
        self.flows.pushed(transfer).into_iter().for_each(|id| self.end(id));
    }
    /// Ends a flow that the network cannot carry, and tells its receiver.
    pub fn fail(&mut self, id: FlowId, reason: &str) {
        self.give_up(id, &Failure::here(reason));
    }
    fn give_up(&mut self, id: FlowId, failure: &Failure) {
        let Some(flow) = self.flows.get(&id) else { return };
        let (transfer, object, token) = (id.1, flow.object, flow.token);
        if let Some(published) = self.objects.get_mut(&failure.publication.unwrap_or(object))
            && published.note_failure(&failure.reason)
        {
            let name = published.reader().manifest().name.to_string();
            self.failures.push_back((name, failure.reason.clone()));
        }
        // If another publication has these bytes, the receiver may request them again.
        let is_elsewhere = failure.why.is_some() && self.objects.let_another_answer(&object);
        self.end(id);
        let message = match failure.why.filter(|_| !is_elsewhere) {
            Some(why) => TransportBody::Unreadable { why }.about(transfer, object),
            None => TransportBody::Unavailable.about(transfer, object),
        };
        self.messages.push_back((id.0, NetworkAddress::NONE, token, message));
    }
    /// Ends a flow, and keeps its report if it was pushed.
    fn end(&mut self, id: FlowId) {
        let Some(flow) = self.flows.remove(&id) else { return };
        self.untold_flows.remove(&id);
        if flow.group.is_some() && !self.flows.is_for_group(&id.0) {
            self.members.remove(&id.0);
            self.untold_groups.remove(&id.0);
        }
        self.release(flow.object);
        if flow.requested {
            return;
        }
        self.ended.insert(id.1, SendReport { is_over: true, ..flow.report(id.0) });
        self.ended_order.push_back(id.1);
        if self.ended_order.len() > ENDED_KEPT
            && let Some(oldest) = self.ended_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
    }
    /// Whether a message is about a flow of this node but does not carry its token: then it is forged.
    pub fn is_forged(&self, header: &ChunkHeader, message: &TransportMessage) -> bool {
        let (is_sent, has_token) = self.flows.carries(message.transfer, message.object, header.token());
        is_sent && !has_token
    }
    /// The number of flows.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }
    #[cfg(test)]
    fn looks(&self) -> u64 {
        self.flows.looks()
    }
}

/// Chunk 0 of an object: its manifest and its hash list.
fn head_of(reader: &dyn ObjectReader) -> Bytes {
    let manifest = reader.manifest().encode();
    let mut head = Vec::with_capacity(manifest.len() + 2);
    head.extend_from_slice(&u16::try_from(manifest.len()).unwrap_or(u16::MAX).to_be_bytes());
    head.extend_from_slice(&manifest);
    head.extend_from_slice(&reader.tree());
    head.into()
}

//! The sending end (paper §3.1, §3.2.2, §3.4.2): cuts objects into chunks, keeps to the end-to-end window, and repeats
//! what is missing, from the network's storage where it is there.
mod flow;
mod flows;
mod group;
#[cfg(test)]
mod many;
mod messages;
mod options;
mod reading;
mod turns;

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
use turns::{Round, Turns, size_class};

use crate::{
    config::EndConfig,
    ids::{Flow, Guid, NetworkAddress, ServiceId, Token},
    payload::Payload,
    reports::Reports,
    router::cache::ContentCache,
    wire::{ChunkHeader, ChunkKind, ChunkRanges, DataTag, Flags, Reliability, TransportMessage, chunk::lifetime_ms},
};

/// Flows of a node at most that others have asked for, and those of one device.
const REQUESTED_MAX: usize = 4_096;
const FLOWS_OF_ONE_MAX: usize = 256;
/// Flows of a node at most that were begun here. One that is in storage on the way as a whole makes room for another.
pub(crate) const PUSHED_MAX: usize = 16_384;
/// A flow that was asked for makes room for another one after being silent for so long: receivers that are there say
/// something more often.
const SILENT: Duration = Duration::from_secs(15);
/// A flow of which nothing is heard for so long is forgotten.
const FLOW_LIFETIME: Duration = Duration::from_secs(3_600);
/// Why something is not sent any more that can be read.
pub(crate) const LIFETIME_OVER: &str = "its lifetime was over before all had it";
/// How long a sender waits before it repeats what a proxy has dropped; doubles up to [`DROP_PAUSE_MAX`].
const DROP_PAUSE: Duration = Duration::from_millis(500);
const DROP_PAUSE_MAX: Duration = Duration::from_secs(16);
/// How long an acknowledgement is waited for (reliability [`Reliability::Ack`]); doubles up to 32 times.
const ACK_PATIENCE: Duration = Duration::from_secs(2);
/// How rarely who is silent is reminded at most. A single receiver is given four NACK timeouts first, in which it says
/// twice what is missing if it has anything.
pub(crate) const REMIND_MAX: Duration = Duration::from_secs(48);
/// A request that comes again so soon is the same request.
const REQUEST_AGAIN: Duration = Duration::from_secs(2);
/// Accounts of what is over that are kept.
const ENDED_KEPT: usize = 4_096;
/// Transfers numbered by a sender have this bit, those numbered by a receiver have not.
pub const PUSHED: u32 = 1 << 31;
/// Whether a transfer of this number was begun by its source, and not asked for.
pub fn is_pushed(transfer: u32) -> bool {
    transfer & PUSHED != 0
}

/// All that a node sends.
pub struct Sender {
    own: Guid,
    /// What the tokens of what is sent unasked are made of.
    secret: [u8; 32],
    config: EndConfig,
    /// Objects, each with its manifest and hash list: chunk 0.
    objects: Catalogue<Bytes>,
    /// Objects that are here only as long as they are being sent.
    lent: BTreeSet<ObjectId>,
    flows: Flows,
    next_transfer: u32,
    messages: VecDeque<(Guid, NetworkAddress, Token, TransportMessage)>,
    reading: Reading,
    /// Who belongs to the groups to which something is sent, as far as known; groups and transfers to them that have not
    /// been told since they began, or since a member has spoken.
    members: BTreeMap<Guid, BTreeSet<Guid>>,
    untold_groups: BTreeSet<Guid>,
    untold_flows: BTreeSet<FlowId>,
    failures: VecDeque<(String, String)>,
    /// What was given up as its lifetime was over: to whom, and the transfer.
    expired: VecDeque<(Guid, u32)>,
    /// The accounts of what was sent unasked and is over, and in which order it ended.
    ended: BTreeMap<u32, SendReport>,
    ended_order: VecDeque<u32>,
    /// Chunks sent, and of these sent again.
    pub chunks: (u64, u64),
    /// Requests for objects that are not here.
    pub unknown: u64,
}

/// What a cache has of an object that is asked for.
pub struct Cached {
    /// How it is cut, and into how many chunks.
    pub cut: (u32, u32),
    /// Chunks, cut so, that are on their way to who asks already.
    pub under_way: BTreeSet<u32>,
}

/// Why a chunk cannot be sent.
pub(super) struct Failure {
    /// For whoever runs this node.
    reason: String,
    /// For who waits for the chunk, if there is nothing to hope for here.
    why: Option<Unavailable>,
}
impl Failure {
    /// It may be elsewhere.
    fn here(reason: &str) -> Failure {
        Failure { reason: reason.into(), why: None }
    }
    /// It cannot be read, for good or now.
    fn of_source(error: &StoreError) -> Failure {
        Failure { reason: error.to_string(), why: Unavailable::of(error) }
    }
}

impl Sender {
    /// Nothing to send. `first_transfer` is where pushed transfers are numbered from, and `secret` what their tokens are
    /// made of.
    pub fn new(own: Guid, config: EndConfig, first_transfer: u32, secret: &[u8; 32]) -> Sender {
        Sender {
            own,
            secret: *secret,
            config,
            objects: Catalogue::default(),
            lent: BTreeSet::new(),
            flows: Flows::default(),
            next_transfer: first_transfer,
            messages: VecDeque::new(),
            reading: Reading::default(),
            members: BTreeMap::new(),
            untold_groups: BTreeSet::new(),
            untold_flows: BTreeSet::new(),
            failures: VecDeque::new(),
            expired: VecDeque::new(),
            ended: BTreeMap::new(),
            ended_order: VecDeque::new(),
            chunks: (0, 0),
            unknown: 0,
        }
    }

    // Objects.

    /// Offers an object; an older one of the same name is dropped.
    pub fn publish(&mut self, reader: Box<dyn ObjectReader>) {
        self.lent.remove(&reader.manifest().object_id());
        let head = head_of(&*reader);
        for gone in self.objects.publish(reader, head) {
            self.on_reader_gone(&gone);
        }
    }
    /// Keeps an object until all that it is [pushed](Sender::push) to have it. What is published stays so, under the same
    /// name too, and so does what was lent under that name before.
    pub fn lend(&mut self, reader: Box<dyn ObjectReader>) {
        let object = reader.manifest().object_id();
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
    /// Withdraws a name; gives the object that it had.
    pub fn unpublish(&mut self, name: &Name) -> Option<ObjectId> {
        let object = self.objects.withdraw(name)?;
        self.on_reader_gone(&object);
        Some(object)
    }
    /// Names and sizes of all objects that are published.
    pub fn published(&self) -> impl Iterator<Item = (&Name, ByteCount)> {
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

    /// Sends an object that is published here to somebody who did not ask; gives the transfer's number, or nothing if
    /// there is no such object or too many flows.
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
    /// Takes a request. What is cached is sent from the cache, else from the objects published here.
    pub fn handle_request(
        &mut self,
        now: Time,
        header: &ChunkHeader,
        message: &TransportMessage,
        cached: Option<Cached>,
    ) {
        let TransportMessage::Request { transfer, object, chunk_bytes: wanted, reliability, buffer_chunks, held } =
            message
        else {
            return;
        };
        if is_pushed(*transfer) {
            // Such a number is given by whoever sends unasked, and would be taken for that.
            self.unknown += 1;
            return;
        }
        let (id, token) = ((header.source, *transfer), header.token().unwrap_or_default());
        if let Some(flow) = self.flows.get(&id).filter(|flow| flow.object == *object) {
            // Asked again: what was sent long ago must have been lost.
            if flow.token == token && now.since(flow.sent_at.max(flow.heard_at)) > REQUEST_AGAIN {
                self.flows.change(&id, |flow| {
                    flow.heard_at = now;
                    flow.addresses = header_addresses(header);
                    let (next, held) = (flow.next, held.recut(*wanted, (flow.chunk_bytes, flow.count)));
                    let under_way = cached.map(|cached| cached.under_way).unwrap_or_default();
                    let is_missing = |number: &u32| !held.contains(*number) && !under_way.contains(number);
                    flow.again.extend((0..next).filter(is_missing));
                    // What was begun is there or goes again, even if every message that said so was lost.
                    flow.window.confirmed = flow.window.begun.len();
                    flow.window.advice = (*buffer_chunks).max(1);
                });
            }
            return;
        }
        let usual = SendOptions::new(&self.config);
        let in_network = header.flags.in_network().unwrap_or(usual.in_network);
        let options = SendOptions { reliability: *reliability, in_network, ..usual };
        let cut = match &cached {
            Some(cached) => Some(cached.cut),
            None => self.cut_for(*object, *wanted).and_then(|chunk_bytes| {
                let size = self.objects.get(object)?.reader().manifest().size;
                Some((chunk_bytes, chunk_count(size, chunk_bytes)))
            }),
        };
        let Some((chunk_bytes, count)) = cut else {
            self.unknown += 1;
            let unavailable = TransportMessage::Unavailable { transfer: *transfer, object: *object };
            return self.messages.push_back((header.source, header.source_address, token, unavailable));
        };
        // It may be cut another way than was asked for.
        let mut held = held.recut(*wanted, (chunk_bytes, count));
        if let Some(Cached { under_way, .. }) = &cached {
            let is_held = |number: &u32| held.contains(*number) || under_way.contains(number);
            held = ChunkRanges::from_ascending((0..count).filter(is_held));
            if !under_way.is_empty() && (0..count).all(|number| held.contains(number)) {
                // Somebody else has sent it.
                return;
            }
        }
        let mut flow = self.flow(now, *object, header_addresses(header), options, chunk_bytes, count);
        (flow.requested, flow.token) = (true, token);
        flow.from_cache = cached.is_some();
        flow.held = held;
        flow.window.advice = flow.window.advice.min(*buffer_chunks).max(1);
        // The receiver may take less at a time than this end would send unasked.
        flow.window.controlled = count > u32::from(flow.window.advice) && *reliability != Reliability::DontCare;
        if !self.start(now, id, flow) {
            // There may be another source that has room.
            let unavailable = TransportMessage::Unavailable { transfer: *transfer, object: *object };
            self.messages.push_back((header.source, header.source_address, token, unavailable));
        }
    }
    fn flow(
        &self,
        now: Time,
        object: ObjectId,
        addresses: Vec<NetworkAddress>,
        options: SendOptions,
        chunk_bytes: u32,
        count: u32,
    ) -> Outflow {
        let window = Windows {
            begun: Vec::new(),
            confirmed: 0,
            advice: self.config.window_chunks,
            // Small objects are through before the receiver could say anything (paper §3.4.2).
            // A group is held back by the hops alone: no member speaks for the others (paper §3.5).
            controlled: count > u32::from(self.config.window_chunks)
                && options.reliability != Reliability::DontCare
                && !matches!(options.service, ServiceId::Multicast | ServiceId::Anycast),
        };
        let size = self.objects.get(&object).map_or(u64::MAX, |object| object.reader().manifest().size);
        let bytes = chunk_bytes.min(u32::try_from(size).unwrap_or(u32::MAX));
        Outflow {
            object,
            token: Token::default(),
            from_cache: false,
            addresses,
            options,
            requested: false,
            chunk_bytes,
            bytes,
            size: size_class(bytes),
            count,
            next: 0,
            held: ChunkRanges::default(),
            again: BTreeSet::new(),
            past_copies: BTreeSet::new(),
            dropped: BTreeSet::new(),
            stored: BTreeMap::new(),
            unacknowledged: BTreeSet::new(),
            window,
            reports: Reports::default(),
            heard_at: now,
            sent_at: now,
            begun_at: now,
            ends_at: options.lifetime.map(|lifetime| now + lifetime),
            pause: DROP_PAUSE,
            resume_at: None,
            ack_at: None,
            ack_tries: 0,
            remind_at: None,
            remind_after: self.remind_first(),
            repeated: 0,
            lost: 0,
            kept_for: None,
            delivered: false,
            refused: false,
            waiting: None,
            group: match options.service {
                ServiceId::Multicast => Some(Group::new(Wanted::All)),
                ServiceId::Anycast => Some(Group::new(Wanted::One)),
                _ => None,
            },
        }
    }
    /// Begins a flow if there is room, for what is begun here or for whoever asks. Of what others asked for the flow of which
    /// nothing was heard for longest makes room, if it is silent; of what was begun here one that is in storage as a whole.
    fn start(&mut self, now: Time, id: FlowId, flow: Outflow) -> bool {
        let is_full = match flow.requested {
            false => self.flows.pushed_count() >= PUSHED_MAX,
            true => self.flows.requested_count(None) >= REQUESTED_MAX,
        };
        let is_greedy = flow.requested && self.flows.requested_count(Some(&id.0)) >= FLOWS_OF_ONE_MAX;
        if is_full || is_greedy {
            let is_silent = |at: &Time| now.since(*at) >= SILENT;
            let victim = match flow.requested {
                false => self.flows.longest_kept(),
                true => {
                    let longest = self.flows.longest_silent(is_greedy.then_some(&id.0));
                    longest.filter(|(at, _)| is_silent(at)).map(|(_, id)| id)
                }
            };
            let Some(victim) = victim else { return false };
            self.end(victim);
        }
        self.end(id);
        if flow.group.is_some() {
            self.tell_members_again(id);
        }
        self.flows.insert(id, flow);
        true
    }
    /// The chunk size for an object: what is asked for, at most the configured one; whole chunks of the object if it is
    /// larger than these.
    fn cut_for(&self, object: ObjectId, wanted: u32) -> Option<u32> {
        let unit = self.objects.get(&object)?.reader().manifest().chunk_size;
        let wanted = wanted.min(self.config.chunk_bytes).max(1_024);
        Some(if wanted > unit { wanted / unit * unit } else { wanted })
    }
    /// A destination has moved. What was dropped because it was away, and waits, is sent as soon as it is anywhere.
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
    /// Destinations of flows that last long enough to be followed, if others than when this was asked last.
    pub fn take_destinations(&mut self) -> Option<BTreeSet<Guid>> {
        self.flows.take_followed()
    }
    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        let threshold = usize::from(self.config.multicast_threshold);
        for id in self.flows.due(now) {
            let over = self.flows.change(&id, |flow| {
                flow.handle_timeout(now, threshold);
                (flow.over_at() <= now).then_some((flow.object, flow.ends_at.is_some()))
            });
            let Some((object, has_lifetime)) = over.flatten() else { continue };
            if has_lifetime {
                self.failures.push_back((object.to_string(), LIFETIME_OVER.to_string()));
                self.expired.push_back(id);
            }
            self.end(id);
        }
    }
    /// How long a single receiver may be silent before it is reminded first.
    fn remind_first(&self) -> Duration {
        self.config.nack_timeout * 4
    }
    /// When to call [`Sender::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        self.flows.next_due()
    }
    /// The next chunk to send; the caller asks when the network has room. Flows take turns.
    ///
    /// `has_room` tells whether there is room for so many bytes for a destination, and for fewer bytes if there is for more.
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
                true => cache
                    .chunk(&object, (chunk_bytes, count), number)
                    .map(Payload::from)
                    .map(Some)
                    .ok_or_else(|| Failure::here("it went out of the cache")),
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
                // Who is reminded need not be there.
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
    /// A message to send.
    pub fn poll_message(&mut self) -> Option<(Guid, NetworkAddress, Token, TransportMessage)> {
        self.messages.pop_front()
    }
    /// An object that could not be read, and why.
    pub fn poll_failure(&mut self) -> Option<(String, String)> {
        self.failures.pop_front()
    }
    /// What was given up as its lifetime was over: to whom it went, and the transfer.
    pub fn poll_expired(&mut self) -> Option<(Guid, u32)> {
        self.expired.pop_front()
    }
    /// Chunks of something sent unasked, by number, that storage on the way has promised to keep.
    pub fn promised(&self, transfer: u32) -> BTreeSet<u32> {
        let running = self.flows.pushed(transfer).and_then(|id| self.flows.get(&id));
        running.map(|flow| flow.stored.keys().copied().collect()).unwrap_or_default()
    }
    /// The account of something sent unasked.
    pub fn report(&self, transfer: u32) -> Option<SendReport> {
        let running = self.flows.pushed(transfer).and_then(|id| Some(self.flows.get(&id)?.report(id.0)));
        running.or_else(|| self.ended.get(&transfer).cloned())
    }
    /// Who belongs to a group to which something is being sent.
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
            // All may have had it before it was known who they are.
            if is_over == Some(true) {
                self.end(id);
            }
        }
    }
    /// A transfer to a group is told who belongs to it as soon as that is known.
    fn tell_members_again(&mut self, id: FlowId) {
        self.untold_groups.insert(id.0);
        self.untold_flows.insert(id);
    }
    /// Groups to which something is being sent: all, or those that [`Sender::set_members`] is to be called for.
    pub fn take_groups(&mut self, all: bool) -> BTreeSet<Guid> {
        let untold = core::mem::take(&mut self.untold_groups);
        if all { self.flows.groups().copied().collect() } else { untold }
    }
    /// Ends what is being sent.
    pub fn cancel(&mut self, transfer: u32) {
        self.flows.pushed(transfer).into_iter().for_each(|id| self.end(id));
    }
    /// Gives a flow up for a reason of the network, and tells its receiver.
    pub fn fail(&mut self, id: FlowId, reason: &str) {
        self.give_up(id, &Failure::here(reason));
    }
    fn give_up(&mut self, id: FlowId, failure: &Failure) {
        let Some(flow) = self.flows.get(&id) else { return };
        let (transfer, object, token) = (id.1, flow.object, flow.token);
        if let Some(published) = self.objects.get_mut(&object)
            && published.note_failure(&failure.reason)
        {
            let name = published.reader().manifest().name.to_string();
            self.failures.push_back((name, failure.reason.clone()));
        }
        self.end(id);
        let message = match failure.why {
            Some(why) => TransportMessage::Unreadable { transfer, object, why },
            None => TransportMessage::Unavailable { transfer, object },
        };
        self.messages.push_back((id.0, NetworkAddress::NONE, token, message));
    }
    /// Takes a flow out and keeps its account if nobody asked for it.
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
    /// Whether a message is about something that is sent here, and was made by nobody who knows its token.
    pub fn is_forged(&self, header: &ChunkHeader, message: &TransportMessage) -> bool {
        let (transfer, object) = message.about();
        let (is_sent, has_token) = self.flows.carries(transfer, object, header.token());
        is_sent && !has_token
    }
    /// Flows that are not finished.
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

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_content::{MemoryObject, SigningKey};

    fn object(name: &str) -> Box<dyn ObjectReader> {
        let key = SigningKey::from_secret(&[7; 32]);
        Box::new(MemoryObject::new(name.parse().expect("a name"), Bytes::from_static(b"21.5"), &key).expect("fits"))
    }

    #[test]
    fn a_repeated_request_opens_the_window_that_no_message_confirmed() {
        let cache = ContentCache::new(ByteCount(0));
        let mut sender = Sender::new(Guid([9; 20]), EndConfig::default(), 0, &[0; 32]);
        let (key, name) = (SigningKey::from_secret(&[7; 32]), "/file".parse().expect("a name"));
        let object = MemoryObject::new(name, Bytes::from(alloc::vec![1; 100 << 10]), &key).expect("fits");
        let id = object.manifest().object_id();
        sender.publish(Box::new(object));
        let header = ChunkHeader::new(ChunkKind::Transport(Token(7)), Guid([1; 20]), Guid([9; 20]), NetworkAddress(1));
        let (mut now, mut sent, mut rounds) = (Time::from_millis(1), Vec::new(), 0);
        while sent.len() < 101 && rounds < 100 {
            let request = TransportMessage::Request {
                transfer: 1,
                object: id,
                chunk_bytes: 1 << 10,
                reliability: Reliability::Nack,
                buffer_chunks: 3,
                held: ChunkRanges::from_ascending(sent.iter().copied()),
            };
            sender.handle_request(now, &header, &request, None);
            while let Some((header, _)) = sender.poll_chunk(now, &cache, |_, _| true) {
                sent.push(header.tag().expect("data").number);
            }
            (now, rounds) = (now + REQUEST_AGAIN * 2, rounds + 1);
        }
        assert_eq!(sent, (0..101).collect::<Vec<_>>());
        assert!(rounds > 10, "{rounds}: two windows at a time");
    }

    #[test]
    fn who_has_acknowledged_chunks_and_not_the_whole_is_reminded() {
        let (cache, key) = (ContentCache::new(ByteCount(0)), SigningKey::from_secret(&[7; 32]));
        let receiver = Guid([1; 20]);
        // All of them; the description alone, by a receiver that was killed then and makes nothing of the others.
        for acknowledged in [0..4, 0..1] {
            let mut now = Time::from_millis(1);
            let mut sender = Sender::new(Guid([9; 20]), EndConfig::default(), 0, &[0; 32]);
            let name = "/reading".parse().expect("a name");
            let object = MemoryObject::new(name, Bytes::from(alloc::vec![7; 3_000]), &key).expect("fits");
            let id = object.manifest().object_id();
            sender.lend(Box::new(object));
            let options = SendOptions::new(&EndConfig::default());
            let options = SendOptions { reliability: Reliability::Ack, chunk_bytes: 1_024, ..options };
            sender.push(now, id, receiver, Vec::new(), options);
            let sent: Vec<_> = core::iter::from_fn(|| sender.poll_chunk(now, &cache, |_, _| true)).collect();
            assert_eq!(sent.len(), 4);
            let tag = *sent[0].0.tag().expect("data");
            let from = ChunkHeader::new(ChunkKind::Transport(tag.token), receiver, Guid([9; 20]), NetworkAddress(1));
            let acknowledge = |sender: &mut Sender, now, chunks: ChunkRanges, complete| {
                let ack = TransportMessage::Ack { transfer: tag.transfer, object: id, complete, chunks };
                sender.handle_message(now, &from, &ack);
            };
            acknowledge(&mut sender, now, ChunkRanges::from_ascending(acknowledged), false);
            let mut again = Vec::new();
            while now < Time::from_millis(30_000) {
                now += Duration::from_secs(1);
                sender.handle_timeout(now);
                let sent = core::iter::from_fn(|| sender.poll_chunk(now, &cache, |_, _| true));
                again.extend(sent.map(|(header, _)| header.tag().expect("data").number));
            }
            assert!(again.contains(&0), "by the description, not only {again:?}");
            acknowledge(&mut sender, now, ChunkRanges::default(), true);
            assert_eq!(sender.flows.len(), 0);
        }
    }

    #[test]
    fn who_asks_for_what_was_changed_is_told_so_and_this_node_once() {
        let cache = ContentCache::new(ByteCount(0));
        let mut sender = Sender::new(Guid([9; 20]), EndConfig::default(), 0, &[0; 32]);
        let (key, name) = (SigningKey::from_secret(&[7; 32]), "/file".parse().expect("a name"));
        let mut object = MemoryObject::new(name, Bytes::from(alloc::vec![1; 20_000]), &key).expect("fits");
        object.alter(|bytes| bytes[9] = 2);
        let id = object.manifest().object_id();
        sender.publish(Box::new(object));
        let header = ChunkHeader::new(ChunkKind::Transport(Token(7)), Guid([1; 20]), Guid([9; 20]), NetworkAddress(1));
        for transfer in [1, 2] {
            let request = TransportMessage::Request {
                transfer,
                object: id,
                chunk_bytes: 8_192,
                reliability: Reliability::Nack,
                buffer_chunks: 100,
                held: ChunkRanges::default(),
            };
            sender.handle_request(Time::from_millis(1), &header, &request, None);
            while sender.poll_chunk(Time::from_millis(1), &cache, |_, _| true).is_some() {}
            let told = core::iter::from_fn(|| sender.poll_message()).map(|(.., message)| message);
            let why = Unavailable::Changed;
            assert!(told.eq([TransportMessage::Unreadable { transfer, object: id, why }]));
        }
        assert!(sender.poll_failure().is_some_and(|(name, _)| name == "/file") && sender.poll_failure().is_none());
    }

    #[test]
    fn what_is_here_is_not_sent_however_it_is_cut() {
        let cache = ContentCache::new(ByteCount(0));
        let config = EndConfig { chunk_bytes: 4_096, ..EndConfig::default() };
        let mut sender = Sender::new(Guid([9; 20]), config, 0, &[0; 32]);
        let (key, name) = (SigningKey::from_secret(&[7; 32]), "/file".parse().expect("a name"));
        let object = MemoryObject::new(name, Bytes::from(alloc::vec![1; 20_000]), &key).expect("fits");
        let id = object.manifest().object_id();
        sender.publish(Box::new(object));
        let header = ChunkHeader::new(ChunkKind::Transport(Token(7)), Guid([1; 20]), Guid([9; 20]), NetworkAddress(1));
        let mut now = Time::from_millis(1);
        for (held, missing) in [([0, 1].as_slice(), [3, 4, 5].as_slice()), (&[0, 1, 3], &[3, 4])] {
            let request = TransportMessage::Request {
                transfer: 1,
                object: id,
                chunk_bytes: 8_192,
                reliability: Reliability::Nack,
                buffer_chunks: 100,
                held: ChunkRanges::from_ascending(held.iter().copied()),
            };
            sender.handle_request(now, &header, &request, None);
            let sent = core::iter::from_fn(|| sender.poll_chunk(now, &cache, |_, _| true));
            let sent: Vec<u32> = sent.map(|(header, _)| header.tag().expect("data").number).collect();
            assert_eq!(sent, missing);
            now += REQUEST_AGAIN * 2;
        }
    }

    #[test]
    fn what_was_lent_is_forgotten_when_the_last_one_has_it_and_what_is_published_stays() {
        let cache = ContentCache::new(ByteCount(0));
        let mut sender = Sender::new(Guid([9; 20]), EndConfig::default(), 0, &[0; 32]);
        sender.publish(object("/published"));
        let now = Time::from_millis(1);
        for (name, stays) in [("/published", true), ("/lent", false)] {
            let id = object(name).manifest().object_id();
            sender.lend(object(name));
            let options = SendOptions::new(&EndConfig::default());
            let receivers = [Guid([1; 20]), Guid([2; 20])];
            let transfers = receivers.map(|to| sender.push(now, id, to, Vec::new(), options).expect("room"));
            while sender.poll_chunk(now, &cache, |_, _| true).is_some() {}
            for (receiver, transfer) in receivers.into_iter().zip(transfers) {
                assert!(sender.object(&id).is_some(), "{name}: somebody has not got it");
                let chunks = ChunkRanges::from_ascending([0, 1]);
                let all = TransportMessage::Ack { transfer, object: id, complete: true, chunks };
                let token = Token::of(&[0; 32], &receiver, transfer);
                let from = ChunkHeader::new(ChunkKind::Transport(token), receiver, Guid([9; 20]), NetworkAddress(1));
                sender.handle_message(now, &from, &all);
                assert!(sender.report(transfer).is_some_and(|report| report.is_over));
            }
            assert_eq!(sender.object(&id).is_some(), stays, "{name}");
        }
        assert_eq!(sender.published().count(), 1);
    }

    /// What comes of a message about something sent to one receiver, in chunks 0 to 2, if it shows the token or another
    /// one: chunks that are sent again, chunks in storage, and whether it is over.
    fn comes_of(
        message: impl FnOnce(u32, ObjectId, Flow) -> TransportMessage,
        is_forged: bool,
    ) -> (Vec<u32>, u32, bool) {
        let cache = ContentCache::new(ByteCount(0));
        let (own, receiver, mut now) = (Guid([9; 20]), Guid([1; 20]), Time::from_millis(1));
        let config = EndConfig { chunk_bytes: 1_024, ..EndConfig::default() };
        let mut sender = Sender::new(own, config.clone(), 0, &[5; 32]);
        let (key, name) = (SigningKey::from_secret(&[7; 32]), "/file".parse().expect("a name"));
        let object = MemoryObject::new(name, Bytes::from(alloc::vec![1; 2_048]), &key).expect("fits");
        let id = object.manifest().object_id();
        sender.lend(Box::new(object));
        let transfer = sender.push(now, id, receiver, Vec::new(), SendOptions::new(&config)).expect("room");
        let sent: Vec<_> = core::iter::from_fn(|| sender.poll_chunk(now, &cache, |_, _| true)).collect();
        assert_eq!(sent.len(), 3);
        let token = sent[0].0.token().expect("a chunk shows it");
        let token = if is_forged { Token(token.0 ^ 1) } else { token };
        let said = message(transfer, id, Flow { source: own, destination: receiver });
        let header = ChunkHeader::new(ChunkKind::Transport(token), receiver, own, NetworkAddress(1));
        assert_eq!(sender.is_forged(&header, &said), is_forged);
        sender.handle_message(now, &header, &said);
        now += DROP_PAUSE;
        sender.handle_timeout(now);
        let again = core::iter::from_fn(|| sender.poll_chunk(now, &cache, |_, _| true));
        let again: Vec<u32> = again.map(|(header, _)| header.tag().expect("data").number).collect();
        let report = sender.report(transfer).expect("it is known");
        (again, report.stored_chunks, report.is_over)
    }

    #[test]
    fn what_is_said_of_a_transfer_without_its_token_counts_for_nothing() {
        let (proxy, address) = (Guid([3; 20]), NetworkAddress(3));
        let some = || ChunkRanges::from_ascending([1]);
        let both = |message: fn(u32, ObjectId, Flow, (Guid, NetworkAddress), ChunkRanges) -> TransportMessage| {
            [true, false].map(|is_forged| {
                comes_of(|transfer, object, flow| message(transfer, object, flow, (proxy, address), some()), is_forged)
            })
        };
        let nothing = (Vec::new(), 0, false);
        let nack = both(|transfer, object, _, _, missing| TransportMessage::Status {
            transfer,
            object,
            window: 0,
            advice_chunks: 1,
            sequence: 1,
            missing,
        });
        assert_eq!(nack, [nothing.clone(), (Vec::from([1]), 0, false)]);
        let ack =
            both(|transfer, object, _, _, chunks| TransportMessage::Ack { transfer, object, complete: true, chunks });
        assert_eq!(ack, [nothing.clone(), (Vec::new(), 0, true)]);
        let stored = both(|transfer, object, flow, (proxy, address), chunks| TransportMessage::Stored {
            flow,
            transfer,
            object,
            proxy,
            address,
            chunks,
        });
        assert_eq!(stored, [nothing.clone(), (Vec::new(), 1, false)]);
        let dropped = both(|transfer, object, flow, (proxy, _), chunks| TransportMessage::Dropped {
            flow,
            transfer,
            object,
            proxy,
            chunks,
        });
        assert_eq!(dropped, [nothing, (Vec::from([1]), 0, false)]);
    }

    /// Something of three chunks that was sent to the group [1; 20], whose routers may ask `proxies` of each other.
    struct ToGroup {
        sender: Sender,
        now: Time,
        transfer: u32,
        object: ObjectId,
        token: Token,
    }

    impl ToGroup {
        fn new(proxies: u8) -> ToGroup {
            let (own, group, now) = (Guid([9; 20]), Guid([1; 20]), Time::from_millis(1));
            let config = EndConfig { chunk_bytes: 1_024, ..EndConfig::default() };
            let mut sender = Sender::new(own, config.clone(), 0, &[5; 32]);
            let (key, name) = (SigningKey::from_secret(&[7; 32]), "/file".parse().expect("a name"));
            let object = MemoryObject::new(name, Bytes::from(alloc::vec![1; 2_048]), &key).expect("fits");
            let id = object.manifest().object_id();
            sender.lend(Box::new(object));
            let options = SendOptions { service: ServiceId::Multicast, proxies, ..SendOptions::new(&config) };
            let transfer = sender.push(now, id, group, Vec::new(), options).expect("room");
            sender.set_members(&group, &[Guid([2; 20]), Guid([3; 20])].into());
            let mut to_group = ToGroup { sender, now, transfer, object: id, token: Token::default() };
            let sent = to_group.sent();
            assert_eq!(sent.len(), 3);
            to_group.token = sent[0].0.token().expect("a chunk shows it");
            to_group
        }
        fn sent(&mut self) -> Vec<(ChunkHeader, Payload)> {
            let cache = ContentCache::new(ByteCount(0));
            core::iter::from_fn(|| self.sender.poll_chunk(self.now, &cache, |_, _| true)).collect()
        }
        /// Somebody shows a token and says this; gives what comes of it within a moment: chunks sent again, pushes, and what
        /// storage has, who has everything.
        fn hear(&mut self, from: Guid, token: Token, message: &TransportMessage) -> (usize, usize, u32, usize) {
            let header = ChunkHeader::new(ChunkKind::Transport(token), from, Guid([9; 20]), NetworkAddress(1));
            self.sender.handle_message(self.now, &header, message);
            self.now += Duration::from_millis(100);
            self.sender.handle_timeout(self.now);
            let (again, pushes) = (self.sent().len(), core::iter::from_fn(|| self.sender.poll_message()).count());
            let report = self.sender.report(self.transfer).expect("it is known");
            (again, pushes, report.stored_chunks, report.delivered.len())
        }
    }

    #[test]
    fn what_is_said_of_what_goes_to_a_group_without_its_token_counts_for_nothing() {
        let mut group = ToGroup::new(1);
        let (transfer, object, token) = (group.transfer, group.object, group.token);
        let (member, proxy) = (Guid([2; 20]), Guid([8; 20]));
        let chunks = || ChunkRanges::from_ascending([1]);
        let flow = Flow { source: Guid([9; 20]), destination: member };
        let status = |sequence| TransportMessage::Status {
            transfer,
            object,
            window: 0,
            advice_chunks: 1,
            sequence,
            missing: chunks(),
        };
        let address = NetworkAddress(8);
        let all = Guid([3; 20]);
        let said = [
            // The first is sent again, what storage has is pushed from there, and what it drops is not there any more.
            (status(1), member, (1, 0, 0, 0)),
            (
                TransportMessage::Stored { flow, transfer, object, proxy, address, chunks: chunks() },
                proxy,
                (0, 0, 1, 0),
            ),
            (status(2), member, (0, 1, 0, 0)),
            (
                TransportMessage::Stored { flow, transfer, object, proxy, address, chunks: chunks() },
                proxy,
                (0, 0, 1, 0),
            ),
            (TransportMessage::Dropped { flow, transfer, object, proxy, chunks: chunks() }, proxy, (0, 0, 0, 0)),
            (TransportMessage::Completed { transfer, object, members: [all].into() }, proxy, (0, 0, 0, 1)),
            (TransportMessage::Ack { transfer, object, complete: true, chunks: chunks() }, member, (0, 0, 0, 2)),
        ];
        let (mut stored, mut delivered) = (0, 0);
        for (message, from, comes) in said {
            let nothing = group.hear(from, Token(token.0 ^ 1), &message);
            assert_eq!(nothing, (0, 0, stored, delivered), "{message:?}");
            assert_eq!(group.hear(from, token, &message), comes, "{message:?}");
            (stored, delivered) = (comes.2, comes.3);
        }
        assert!(group.sender.report(transfer).is_some_and(|report| report.is_over));
    }

    #[test]
    fn members_are_spoken_for_only_if_proxies_were_asked_to() {
        for (proxies, delivered) in [(0, 0), (1, 2)] {
            let mut group = ToGroup::new(proxies);
            let (transfer, object, token) = (group.transfer, group.object, group.token);
            let members = [Guid([2; 20]), Guid([3; 20])].into();
            let all = TransportMessage::Completed { transfer, object, members };
            assert_eq!(group.hear(Guid([2; 20]), token, &all), (0, 0, 0, delivered));
            let is_over = group.sender.report(transfer).is_some_and(|report| report.is_over);
            assert_eq!(is_over, proxies > 0, "a member cannot end it for the others");
        }
    }

    #[test]
    fn what_was_said_to_be_missing_is_sent_once_however_often_that_is_repeated() {
        let status = |sequence| {
            move |transfer, object, _| TransportMessage::Status {
                transfer,
                object,
                window: 0,
                advice_chunks: 1,
                sequence,
                missing: ChunkRanges::from_ascending([1]),
            }
        };
        // Whoever repeats it shows the token as well.
        for (sequence, again) in [(5, 0), (4, 0), (6, 1)] {
            let (own, receiver, now) = (Guid([9; 20]), Guid([1; 20]), Time::from_millis(5_000));
            let mut group = ToGroup::new(0);
            let sender = &mut group.sender;
            let transfer =
                sender.push(now, group.object, receiver, Vec::new(), SendOptions::new(&EndConfig::default()));
            let transfer = transfer.expect("room");
            group.now = now;
            let token = group.sent()[0].0.token().expect("a chunk shows it");
            let object = group.object;
            let mut hear = |sequence| {
                let header = ChunkHeader::new(ChunkKind::Transport(token), receiver, own, NetworkAddress(1));
                group.sender.handle_message(group.now, &header, &status(sequence)(transfer, object, ()));
                group.sent().len()
            };
            assert_eq!((hear(5), hear(sequence)), (1, again), "5, then {sequence}");
        }
    }

    #[test]
    fn a_request_that_is_repeated_without_the_token_of_the_first_sends_nothing_again() {
        let cache = ContentCache::new(ByteCount(0));
        let (own, receiver, mut now) = (Guid([9; 20]), Guid([1; 20]), Time::from_millis(1));
        let mut sender = Sender::new(own, EndConfig::default(), 0, &[0; 32]);
        let file = object("/file");
        let request = TransportMessage::Request {
            transfer: 1,
            object: file.manifest().object_id(),
            chunk_bytes: 1 << 10,
            reliability: Reliability::Nack,
            buffer_chunks: 3,
            held: ChunkRanges::default(),
        };
        sender.publish(file);
        for (token, sent) in [(7, 2), (8, 0), (7, 2)] {
            let header = ChunkHeader::new(ChunkKind::Transport(Token(token)), receiver, own, NetworkAddress(1));
            sender.handle_request(now, &header, &request, None);
            let all: Vec<_> = core::iter::from_fn(|| sender.poll_chunk(now, &cache, |_, _| true)).collect();
            assert_eq!(all.len(), sent);
            assert!(all.iter().all(|(header, _)| header.token() == Some(Token(7))));
            now += REQUEST_AGAIN * 2;
        }
    }

    /// One message may name as many chunks as there are numbers.
    fn of_all(chunks: fn(ChunkRanges) -> TransportMessage) -> TransportMessage {
        let mut bytes = Vec::new();
        chunks(ChunkRanges::from_ascending([0])).encode(&mut bytes);
        let count = bytes.len() - 4;
        bytes[count..].fill(0xff);
        TransportMessage::decode(&bytes).expect("it is legal")
    }

    #[test]
    fn storage_has_no_chunks_that_there_are_not() {
        let all = of_all(|chunks| TransportMessage::Stored {
            flow: Flow { source: Guid::NONE, destination: Guid::NONE },
            transfer: 0,
            object: ObjectId([0; 16]),
            proxy: Guid([3; 20]),
            address: NetworkAddress(3),
            chunks,
        });
        let TransportMessage::Stored { proxy, address, chunks, .. } = all else { panic!("{all:?}") };
        let of_one = comes_of(
            |transfer, object, flow| TransportMessage::Stored {
                flow,
                transfer,
                object,
                proxy,
                address,
                chunks: chunks.clone(),
            },
            false,
        );
        assert_eq!(of_one, (Vec::new(), 3, false));
        let mut group = ToGroup::new(1);
        let (transfer, object, token) = (group.transfer, group.object, group.token);
        let flow = Flow { source: Guid([9; 20]), destination: Guid([2; 20]) };
        let stored = TransportMessage::Stored { flow, transfer, object, proxy, address, chunks };
        assert_eq!(group.hear(proxy, token, &stored), (0, 0, 3, 0));
    }

    #[test]
    fn one_who_asks_for_very_much_takes_nothing_from_others() {
        let cache = ContentCache::new(ByteCount(0));
        let own = Guid([9; 20]);
        let mut sender = Sender::new(own, EndConfig::default(), 0, &[0; 32]);
        let file = object("/file");
        let id = file.manifest().object_id();
        sender.publish(file);
        let ask = |sender: &mut Sender, now, from: Guid, transfer| {
            let request = TransportMessage::Request {
                transfer,
                object: id,
                chunk_bytes: 1 << 10,
                reliability: Reliability::Nack,
                buffer_chunks: 3,
                held: ChunkRanges::default(),
            };
            let header = ChunkHeader::new(ChunkKind::Transport(Token(7)), from, own, NetworkAddress(1));
            sender.handle_request(now, &header, &request, None);
            while sender.poll_chunk(now, &cache, |_, _| true).is_some() {}
            let answer = sender.poll_message().map(|(to, .., message)| (to, message));
            match answer {
                None => true,
                Some((to, TransportMessage::Unavailable { transfer: told, .. })) => {
                    assert_eq!((to, told), (from, transfer));
                    false
                }
                other => panic!("{other:?}"),
            }
        };
        let mut now = Time::from_millis(1_000);
        let taken = (0..5_000).filter(|transfer| ask(&mut sender, now, Guid([1; 20]), *transfer)).count();
        assert_eq!((taken, sender.flows()), (FLOWS_OF_ONE_MAX, FLOWS_OF_ONE_MAX));
        assert!(ask(&mut sender, now, Guid([2; 20]), 1), "another one is served");
        // Names cost nothing: as many that ask once fill what is left.
        let guid = |number: u32| Guid([&number.to_be_bytes()[..], &[3; 16]].concat().try_into().expect("20 bytes"));
        (0..REQUESTED_MAX as u32).for_each(|number| _ = ask(&mut sender, now, guid(number), 1));
        assert_eq!(sender.flows(), REQUESTED_MAX);
        assert!(!ask(&mut sender, now, Guid([4; 20]), 1), "all may be about to say something");
        now += SILENT;
        assert!(ask(&mut sender, now, Guid([4; 20]), 1), "who is silent makes room");
        assert!(ask(&mut sender, now, Guid([1; 20]), 9_999));
        let options = SendOptions::new(&EndConfig::default());
        assert!(sender.push(now, id, Guid([5; 20]), Vec::new(), options).is_some());
        assert_eq!(sender.flows(), REQUESTED_MAX + 1, "what is begun here takes no room from those who ask");
    }

    #[test]
    fn windows_beyond_those_that_have_numbers_of_their_own_are_known_by_the_last_one() {
        assert_eq!([0, 65_534, 65_535, 65_536, 131_070].map(on_wire), [0, 65_534, 0, 1, 0]);
        for window in [0, 1, 40_000, 65_534, 65_535, 65_600, 131_069, 131_070, 4_000_000] {
            for known in [window, window + 2, window + 30_000, u32::max(window, 30_000) - 30_000] {
                assert_eq!(nearest_window(on_wire(window), known), window, "beside {known}");
            }
        }
        assert_eq!(nearest_window(u16::MAX, 5), 0, "no window has that number");
    }

    #[test]
    fn a_transfer_of_very_many_windows_goes_on_as_fast_as_it_began() {
        let cache = ContentCache::new(ByteCount(0));
        let config = EndConfig { window_chunks: 1, chunk_bytes: 1_024, ..EndConfig::default() };
        let (own, receiver) = (Guid([9; 20]), Guid([1; 20]));
        let mut sender = Sender::new(own, config.clone(), 0, &[0; 32]);
        let (key, name) = (SigningKey::from_secret(&[7; 32]), "/file".parse().expect("a name"));
        let count = u32::from(u16::MAX) + 1_000;
        let bytes = Bytes::from(alloc::vec![1; (count as usize - 1) * 1_024]);
        let object = MemoryObject::new(name, bytes, &key).expect("fits");
        let id = object.manifest().object_id();
        sender.lend(Box::new(object));
        let mut now = Time::from_millis(1);
        let transfer = sender.push(now, id, receiver, Vec::new(), SendOptions::new(&config)).expect("room");
        let (mut sent, mut silent, mut sequence) = (0, 0, 0);
        while sent < count && silent < 2 {
            now += Duration::from_millis(1);
            let chunks: Vec<_> = core::iter::from_fn(|| sender.poll_chunk(now, &cache, |_, _| true)).collect();
            silent = if chunks.is_empty() { silent + 1 } else { 0 };
            for (header, _) in chunks {
                let tag = header.tag().expect("data");
                (sent, sequence) = (sent + 1, sequence + 1);
                let status = TransportMessage::Status {
                    transfer,
                    object: id,
                    window: tag.window,
                    advice_chunks: 1,
                    sequence,
                    missing: ChunkRanges::default(),
                };
                let kind = ChunkKind::Transport(tag.token);
                sender.handle_message(now, &ChunkHeader::new(kind, receiver, own, NetworkAddress(1)), &status);
            }
        }
        assert_eq!(sent, count, "it stands still after that many chunks");
    }

    #[test]
    fn what_has_a_lifetime_is_given_up_at_its_end_however_often_it_is_dropped() {
        let cache = ContentCache::new(ByteCount(0));
        let (own, receiver, begin) = (Guid([9; 20]), Guid([1; 20]), Time::from_millis(1));
        for lifetime in [Some(Duration::from_secs(100)), None] {
            let mut sender = Sender::new(own, EndConfig::default(), 0, &[0; 32]);
            let file = object("/file");
            let id = file.manifest().object_id();
            sender.lend(file);
            let options = SendOptions { lifetime, ..SendOptions::new(&EndConfig::default()) };
            let transfer = sender.push(begin, id, receiver, Vec::new(), options).expect("room");
            let (mut now, mut sent) = (begin, Vec::new());
            while sender.flows() > 0 && now < begin + FLOW_LIFETIME * 3 {
                while let Some((header, _)) = sender.poll_chunk(now, &cache, |_, _| true) {
                    sent.push((now, header.lifetime_ms));
                    let flow = Flow { source: own, destination: receiver };
                    let chunks = ChunkRanges::from_ascending([header.tag().expect("data").number]);
                    let proxy = Guid([3; 20]);
                    let dropped = TransportMessage::Dropped { flow, transfer, object: id, proxy, chunks };
                    let kind = ChunkKind::Transport(header.token().expect("data"));
                    sender.handle_message(now, &ChunkHeader::new(kind, proxy, own, NetworkAddress(1)), &dropped);
                }
                now = sender.poll_timeout().unwrap_or(now).max(now + Duration::from_millis(1));
                sender.handle_timeout(now);
            }
            let lasted = now.since(begin);
            assert_eq!(lasted, lifetime.unwrap_or(FLOW_LIFETIME), "what is sent again is no sign of life");
            assert!(sent.len() > 6, "it is sent again until then");
            let report = sender.report(transfer).expect("it is known");
            assert!(report.is_over && report.delivered.is_empty());
            assert_eq!(sender.poll_expired().is_some(), lifetime.is_some());
            assert_eq!(sender.poll_failure().is_some(), lifetime.is_some(), "why is told");
            for (at, lifetime_ms) in sent {
                let left = lifetime.map_or(0, |lifetime| (begin + lifetime).since(at).as_millis() as u32);
                assert_eq!(lifetime_ms, left, "each says what is left of it");
            }
        }
    }

    #[test]
    fn tokens_differ_with_secret_receiver_and_transfer() {
        let tokens = [([1; 32], 1, 1), ([2; 32], 1, 1), ([1; 32], 2, 1), ([1; 32], 1, 2)];
        let tokens = tokens.map(|(secret, peer, transfer)| Token::of(&secret, &Guid([peer; 20]), transfer));
        assert_eq!(tokens.iter().map(|token| token.0).collect::<BTreeSet<u64>>().len(), 4);
    }
}

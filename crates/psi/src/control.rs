//! The reliable control plane: messages of up to 64 KiB between any two nodes. Each is delivered at most once, and the
//! sender learns its outcome.
//!
//! A message is cut into fragments, each a control packet that carries the route back. The receiver acknowledges every
//! fragment with a bitmap of all fragments that have arrived; the sender repeats missing ones with truncated
//! exponential backoff until everything is acknowledged or too many attempts made no progress. A bounded memory of
//! complete messages suppresses duplicates (the PSI prototype's later design: ack ids, backoff, LRU, reverse FID).
//!
//! Messages to one node may overtake each other; contents that need an order carry versions. Messages with a waiting
//! client go before the bulk of publications ([`Message::is_bulk`]). Messages that wait for the window are combined
//! ([`batching`]).
//!
//! The window to a peer grows by the acknowledged fragments while the round-trip time shows no queue on the way (at
//! most a quarter above the shortest one), and is halved by timeouts, once for everything that was in flight together:
//! messages leave at the rate of the path.
//!
//! In a network with an authority each pair of nodes shares a key ([`pairs`]); without one, packets carry a code that
//! detects damage but no attack.
mod batching;
mod packets;
pub mod pairs;

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};

use tributary_content::{Name, PublicKey};
use tributary_core::{Duration, FaceId, NodeId, Time, TimerTable};
use tributary_trust::{Grant, Identity, may_claim};

use self::{batching::Held, pairs::Pairs};
use crate::wire::{
    ControlBody, ControlPacket, DATAGRAM_BYTES_MIN, FID_BYTES_MAX, Fid, MAC_BYTES, MESSAGE_BYTES_MAX, Message,
    MessageKey, OPEN_KEY, SECRECY_BYTES, Secrecy, Wire, seal, unseal,
};

/// Bytes of the longest packet, common header included; every path must carry it.
pub const PACKET_BYTES: usize = DATAGRAM_BYTES_MIN as usize;
/// Payload bytes of a fragment: what the common header, the fragment's own fields, the longest FIDs on both ways and
/// the code leave.
const FRAGMENT_BYTES: usize = PACKET_BYTES - (5 + FID_BYTES_MAX) - 27 - (2 + FID_BYTES_MAX) - MAC_BYTES;
/// Retransmission timeout to an unknown peer, on links that are not slow.
const RTO_INITIAL: Duration = Duration::from_millis(200);
/// The least margin of a retransmission timeout above the round-trip time.
const RTO_MIN: Duration = Duration::from_millis(50);
/// Where the exponential backoff ends, if the round trip is not longer itself.
const RTO_MAX: Duration = Duration::from_secs(3);
/// Transmissions without progress after which a message times out: about 10 s at a round-trip time of some 20 ms, and
/// 15 s if the peer was never heard.
const ATTEMPTS_MAX: u32 = 8;
/// Maximum fragments in flight to one peer: the window grows while the round-trip time shows no queue, up to some
/// 200 Mbit/s over a round trip of 80 ms.
const WINDOW_PACKETS_MAX: u32 = 2_048;
/// Peers whose round-trip time is remembered while nothing is in flight to them.
const PEERS_MAX: usize = 4_096;
/// Complete messages that are remembered to suppress duplicates.
const SEEN_MAX: usize = 16_384;
/// How long an incomplete message is kept without progress.
const PARTIAL_LIFETIME: Duration = Duration::from_secs(20);
/// Acknowledgements waiting to be sent; at the limit, further ones are dropped.
const ACKS_MAX: usize = 4_096;

tributary_core::declared! {
    /// Settings of a [`ControlChannel`].
    #[derive(Clone, PartialEq, Debug)]
    pub struct ControlConfig {
        /// Fragments in flight to one peer at the beginning. Default: 32.
        pub window_packets: u32 = 32,
        /// Messages to one peer that wait or are in flight. Default: 32,768, four times the requests that a rendezvous
        /// node has in progress: for each it sends messages to two other nodes and to the holder of the scope.
        pub messages_max: usize = 32_768,
        /// Messages complete but not taken by [`ControlChannel::poll_delivery`]; at the limit, no further one is
        /// acknowledged. Default: 1,024.
        pub deliveries_max: usize = 1_024,
        /// Maximum incomplete messages; at the limit, the one idle for longest is dropped. Default: 4,096.
        pub partials_max: usize = 4_096,
        /// Bytes of all incomplete messages. Default: 32 MiB.
        pub partial_bytes_max: usize = 32 << 20,
    }
}

/// Names one message that this node sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MessageNumber(pub u32);

/// A message that arrived.
#[derive(Clone, PartialEq, Debug)]
pub struct Delivery {
    /// Who sent it.
    pub from: NodeId,
    /// The route back; [`Fid::NONE`] for messages of this very node.
    pub reply: Fid,
    /// The message.
    pub message: Message,
}

/// What became of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Which message.
    pub number: MessageNumber,
    /// Its receiver.
    pub to: NodeId,
    /// Its result.
    pub result: SendResult,
}

/// What became of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendResult {
    /// It arrived.
    Delivered,
    /// No acknowledgement arrived. The message may still have, if all acknowledgements were lost.
    TimedOut,
    /// It was not sent: too many messages wait for this peer.
    QueueFull,
    /// It was not sent: encrypted, it has more than [`MESSAGE_BYTES_MAX`] bytes.
    TooLong,
    /// It was not sent: the receiver's key is not known.
    NoKey,
}

/// Counters of a [`ControlChannel`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ControlStats {
    /// Fragments sent, repetitions included.
    pub fragments_sent: u64,
    /// Of these, repetitions.
    pub fragments_repeated: u64,
    /// Messages delivered to this node.
    pub messages_delivered: u64,
    /// Fragments of messages that were already complete.
    pub duplicates: u64,
    /// Messages of this node that timed out.
    pub timed_out: u64,
    /// Dropped packets: malformed, not authentic, for another node, beyond a limit.
    pub dropped: u64,
}

/// One node's end of all its control conversations.
///
/// Order of calls: after [`ControlChannel::send`], [`ControlChannel::handle_packet`] or
/// [`ControlChannel::handle_timeout`], drain [`ControlChannel::poll_delivery`], [`ControlChannel::poll_outcome`] and
/// [`ControlChannel::poll_packet`], then call [`ControlChannel::poll_timeout`].
#[derive(Debug, Default)]
pub struct ControlChannel {
    config: ControlConfig,
    /// The public keys of a network without an authority.
    open: Secrecy,
    /// In a network with an authority: the keys that this node shares with each other one.
    pairs: Option<Pairs>,
    node: NodeId,
    boot: u32,
    number_next: u32,
    /// Routes for acknowledgements of messages that do not carry one.
    pub routes: BTreeMap<NodeId, Fid>,
    peers: BTreeMap<NodeId, Peer>,
    /// Peers that may have something to send.
    sendable: BTreeSet<NodeId>,
    /// The peer served last, so that all get their turn.
    served: NodeId,
    timers: TimerTable<Timer>,
    partials: BTreeMap<MessageKey, Partial>,
    partial_bytes: usize,
    seen: Seen,
    acks: VecDeque<(Fid, Vec<u8>)>,
    deliveries: VecDeque<Delivery>,
    outcomes: VecDeque<Outcome>,
    stats: ControlStats,
    /// Timeout to an unknown peer.
    rto_initial: Duration,
}

/// The first timeout to an unknown peer, in round trips of this node's slowest link: the path may have another such
/// link.
const ROUND_TRIPS_UNKNOWN: u32 = 2;

impl ControlChannel {
    /// The channel of `node`, whose boot number is `boot`: different from the numbers of its restarts in the last
    /// minutes.
    pub fn new(config: ControlConfig, node: NodeId, boot: u32) -> Self {
        ControlChannel { rto_initial: RTO_INITIAL, config, node, boot, ..ControlChannel::default() }
    }

    /// Sets this node's identity in a network with an authority: from now on it shares a separate key with each other
    /// node.
    pub fn set_identity(&mut self, identity: &Identity) {
        let is_news = match &mut self.pairs {
            Some(pairs) => pairs.set_identity(identity.clone()),
            None => {
                self.pairs = Some(Pairs::new(identity.clone()));
                true
            }
        };
        if is_news {
            self.peers.values_mut().for_each(|peer| peer.introduce_at = Some(Time::ZERO));
        }
    }
    /// Takes the key of a node from a source that can vouch for it.
    pub fn learn(&mut self, node: NodeId, key: &PublicKey) {
        if let Some(pairs) = self.pairs.as_mut().filter(|_| node != self.node) {
            pairs.learn(node, key);
        }
    }
    /// The permissions that a node has proven; `None` without an authority, and for unknown nodes.
    pub fn grant(&self, node: NodeId) -> Option<&Grant> {
        self.pairs.as_ref()?.grant(node)
    }
    /// Whether a node may use a name as its own: see [`may_claim`].
    pub fn may_claim(&self, node: NodeId, name: &Name) -> bool {
        may_claim(name, self.grant(node), self.pairs.as_ref().filter(|_| node != self.node).map(Pairs::owners))
    }
    /// A node has restarted: this one introduces itself again.
    pub fn introduce(&mut self, node: NodeId) {
        self.peers.entry(node).and_modify(|peer| peer.introduce_at = Some(Time::ZERO));
    }

    /// Accepts a message for `to`, over `route`, to be answered over `reply`; its fate comes from
    /// [`ControlChannel::poll_outcome`]. A message to this very node is delivered to it without any packet.
    pub fn send(&mut self, now: Time, to: NodeId, route: Fid, reply: Fid, message: &Message) -> MessageNumber {
        let number = MessageNumber(self.number_next);
        self.number_next = self.number_next.wrapping_add(1);
        let mut refuse = |result| self.outcomes.push_back(Outcome { number, to, result });
        if to == self.node {
            if self.deliveries.len() >= self.config.deliveries_max {
                refuse(SendResult::QueueFull);
            } else {
                refuse(SendResult::Delivered);
                let each = message.clone().each().into_iter();
                self.deliveries.extend(each.map(|message| Delivery { from: to, reply: Fid::NONE, message }));
            }
            return number;
        }
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        if bytes.len() + SECRECY_BYTES > MESSAGE_BYTES_MAX {
            refuse(SendResult::TooLong);
            return number;
        }
        let key = MessageKey { from: self.node, boot: self.boot, message: number.0 };
        let secrecy = self.pairs.as_ref().map_or(Some(&self.open), |pairs| pairs.secrecy(to));
        let Some(secrecy) = secrecy else {
            refuse(SendResult::NoKey);
            return number;
        };
        if self.peers.len() >= PEERS_MAX && !self.peers.contains_key(&to) {
            let idle = self.peers.iter().find(|(_, peer)| peer.waiting == 0).map(|(node, _)| *node);
            match idle {
                Some(node) => self.peers.remove(&node),
                None => {
                    refuse(SendResult::QueueFull);
                    return number;
                }
            };
        }
        let peer = self.peers.entry(to).or_insert_with(|| Peer::new(self.config.window_packets));
        if peer.waiting >= self.config.messages_max {
            refuse(SendResult::QueueFull);
            return number;
        }
        peer.waiting += 1;
        let is_bulk = message.is_bulk();
        if peer.holds(is_bulk) {
            let held = Held::new(number, (route, reply), message, &bytes);
            self.hold(now, to, is_bulk, held);
            return number;
        }
        let bytes = secrecy.hide(&key.context(to), &bytes);
        let outgoing = Outgoing { is_bulk, ..Outgoing::new(bytes, route, reply) };
        peer.ready[usize::from(is_bulk)].insert(number);
        peer.messages.insert(number, outgoing);
        self.sendable.insert(to);
        number
    }

    /// Changes the routes of all messages to `to`; those in flight are sent again at once, with a fresh count of
    /// attempts. Messages that have these routes already stay as they are.
    pub fn reroute(&mut self, to: NodeId, route: Fid, reply: Fid) {
        let Some(peer) = self.peers.get_mut(&to) else { return };
        peer.held.iter_mut().flatten().for_each(|held| held.reroute(route, reply));
        for (number, message) in &mut peer.messages {
            if message.route != route || message.reply != reply {
                message.route = route;
                message.reply = reply;
                message.attempts = message.attempts.min(1);
                peer.in_flight -= message.expire_flight();
                peer.ready[usize::from(message.is_bulk)].insert(*number);
                self.timers.stop(&Timer::Message(to, *number));
            }
        }
        self.sendable.insert(to);
    }

    /// Takes the round trip of a packet of full length over the slowest link of this node.
    pub fn set_slowest_link(&mut self, round_trip: Duration) {
        self.rto_initial = RTO_INITIAL.max(round_trip * ROUND_TRIPS_UNKNOWN);
    }

    /// Drops all messages to `to`, which has left; each outcome is [`SendResult::TimedOut`].
    pub fn abandon(&mut self, to: NodeId) {
        let Some(peer) = self.peers.remove(&to) else { return };
        self.sendable.remove(&to);
        self.timers.stop(&Timer::Held(to));
        let mut given_up: Vec<MessageNumber> = peer.held.iter().flatten().map(|held| held.number).collect();
        for (number, message) in peer.messages {
            self.timers.stop(&Timer::Message(to, number));
            given_up.push(number);
            given_up.extend(message.others);
        }
        given_up.sort_unstable();
        self.conclude(to, given_up, SendResult::TimedOut);
    }

    fn conclude(&mut self, to: NodeId, numbers: Vec<MessageNumber>, result: SendResult) {
        if result == SendResult::TimedOut {
            self.stats.timed_out += numbers.len() as u64;
        }
        if let Some(peer) = self.peers.get_mut(&to) {
            peer.waiting -= numbers.len();
        }
        self.outcomes.extend(numbers.into_iter().map(|number| Outcome { number, to, result }));
    }

    /// Takes the bytes behind the common header of a control packet that arrived on a face.
    ///
    /// # Errors
    /// A fixed phrase if it was dropped, for [`tributary_core::event::Event::Dropped`].
    pub fn handle_packet(&mut self, now: Time, face: FaceId, bytes: &[u8]) -> Result<(), &'static str> {
        let result = self.on_packet(now, face, bytes);
        self.stats.dropped += u64::from(result.is_err());
        result
    }

    /// Serves the timers that are due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Message(to, number) => self.on_message_timeout(now, to, number),
                Timer::Partial(key) => self.drop_partial(key),
                Timer::Held(to) => {
                    self.sendable.insert(to);
                }
            }
        }
    }

    /// When to call [`ControlChannel::handle_timeout`] next.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.next().map(|(due, _)| due)
    }

    /// The next message that arrived.
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }

    /// What became of the next message of this node.
    pub fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    /// The next packet to send: its FID, and the bytes behind the common header.
    pub fn poll_packet(&mut self, now: Time) -> Option<(Fid, Vec<u8>)> {
        if let Some(ack) = self.acks.pop_front() {
            return Some(ack);
        }
        loop {
            let after = self.sendable.range(NodeId(self.served.0.wrapping_add(1))..).next();
            let to = *after.or_else(|| self.sendable.first())?;
            match self.fragment_for(now, to) {
                Some(packet) => {
                    self.served = to;
                    return Some(packet);
                }
                None => self.sendable.remove(&to),
            };
        }
    }

    /// Counters since the start.
    pub fn stats(&self) -> ControlStats {
        self.stats
    }

    /// Messages to `to` that are not acknowledged yet.
    #[cfg(test)]
    pub fn queued(&self, to: NodeId) -> usize {
        self.peers.get(&to).map_or(0, |peer| peer.waiting)
    }

    /// The nodes with messages waiting or in flight.
    pub fn busy(&self) -> Vec<NodeId> {
        self.peers.iter().filter(|(_, peer)| peer.waiting > 0).map(|(node, _)| *node).collect()
    }

    /// The smoothed round-trip time to `to`; `None` before the first sample.
    #[cfg(test)]
    pub fn rtt(&self, to: NodeId) -> Option<Duration> {
        self.peers.get(&to)?.rtt.map(|(smoothed, _)| smoothed)
    }
}

/// All fragments of a message of `count`.
fn all(count: u8) -> u128 {
    u128::MAX >> (128 - u32::from(count).clamp(1, 128))
}

/// Fragments that may be in flight at any loss.
const WINDOW_PACKETS_MIN: u32 = 4;

#[derive(Debug, Default)]
struct Peer {
    messages: BTreeMap<MessageNumber, Outgoing>,
    /// Messages that may have something to send: those that are urgent, and the bulk.
    ready: [BTreeSet<MessageNumber>; 2],
    /// Of the same classes, those that wait for the window or, of the bulk, for others; until when the latter do, and their
    /// bytes.
    held: [VecDeque<Held>; 2],
    held_until: Option<Time>,
    held_bytes: usize,
    /// All messages that are not acknowledged yet.
    waiting: usize,
    in_flight: u32,
    window: u32,
    /// Below this window it grows by every acknowledged packet, beyond it by one packet per round trip.
    slow_start_end: u32,
    /// When the window was last halved.
    halved_at: Time,
    /// Acknowledged since the window last grew.
    landed: u32,
    /// When it last acknowledged anything.
    heard: Option<Time>,
    /// Smoothed round-trip time and its mean deviation (RFC 6298 §2).
    rtt: Option<(Duration, Duration)>,
    rtt_min: Option<Duration>,
    /// Doublings of the timeout that last until a round trip is measured (RFC 6298 §5.7): where the timeout is too
    /// short every message is repeated, and an acknowledgement cannot be matched to a transmission.
    backoff: u32,
    /// In a network with an authority: from when on this node must introduce itself before the next fragment. `None` if
    /// the peer knows it, because it has acknowledged something.
    introduce_at: Option<Time>,
}

/// Maximum doublings that one message passes on to the next.
const BACKOFF_KEPT_MAX: u32 = 3;

impl Peer {
    fn new(window: u32) -> Peer {
        Peer { window, slow_start_end: u32::MAX, introduce_at: Some(Time::ZERO), ..Peer::default() }
    }
    /// The next message of a class among those with ready fragments.
    fn next_ready(&mut self, class: usize) -> Option<MessageNumber> {
        let ready = &mut self.ready[class];
        while let Some(number) = ready.first().copied() {
            if self.messages.get(&number).is_some_and(|message| message.unsent != 0) {
                return Some(number);
            }
            ready.remove(&number);
        }
        None
    }
    /// The timeout of transmission number `attempt`, from 1: it doubles each time until `rto_max`, or twice the round trip.
    fn rto(&self, rto_initial: Duration, attempt: u32) -> Duration {
        let base = match self.rtt {
            None => rto_initial,
            // On a steady path the deviation approaches zero, and the smallest queue would look like a loss.
            Some((smoothed, deviation)) => smoothed + (deviation * 4).max(RTO_MIN),
        };
        let doublings = attempt.saturating_sub(1).max(self.backoff).min(16);
        base.saturating_mul(1 << doublings).min(RTO_MAX.max(base * 2))
    }
}

/// Whether packets wait on the way: an acknowledgement took a quarter more than the shortest round-trip time.
fn has_queue(sample: Option<Duration>, rtt_min: Option<Duration>) -> bool {
    const NOISE: Duration = Duration::from_millis(5);
    match (sample, rtt_min) {
        (Some(sample), Some(least)) => sample > least + least / 4 + NOISE,
        _ => true,
    }
}

/// Folds a round-trip time into smoothed value and deviation (RFC 6298 §2).
fn fold(rtt: &mut Option<(Duration, Duration)>, sample: Duration) {
    *rtt = Some(match *rtt {
        None => (sample, sample / 2),
        Some((smoothed, deviation)) => ((smoothed * 7 + sample) / 8, (deviation * 3 + smoothed.abs_diff(sample)) / 4),
    });
}

tributary_core::declared! {
    /// A message in transit.
    #[derive(Debug)]
    struct Outgoing {
        bytes: Vec<u8> = bytes,
        route: Fid = route,
        reply: Fid = reply,
        count: u8 = count,
        /// Whether it may wait behind others.
        is_bulk: bool = false,
        /// The numbers of messages that go with it, which share its fate.
        others: Vec<MessageNumber> = Vec::new(),
        /// Fragments to send now, in flight, and acknowledged; the others were lost to a timeout and are in `unsent`
        /// again.
        unsent: u128 = all(count),
        flying: u128 = 0,
        acked: u128 = 0,
        /// How often each fragment was sent, and when last.
        sent: Vec<(u8, Time)> = sent,
        /// Rounds of transmission since the last progress.
        attempts: u32 = 0,
        /// When the first of these rounds started.
        started: Time = Time::ZERO,
        /// When its first fragment left first.
        first_sent: Time = Time::ZERO,
    }
    fn new(bytes: Vec<u8>, route: Fid, reply: Fid) {
        let count = bytes.len().div_ceil(FRAGMENT_BYTES).max(1) as u8;
        let sent = alloc::vec![(0, Time::ZERO); usize::from(count)];
    }
}

impl Outgoing {
    /// Declares all fragments in flight lost; returns their number.
    fn expire_flight(&mut self) -> u32 {
        let lost = self.flying.count_ones();
        self.unsent |= self.flying;
        self.flying = 0;
        lost
    }
    /// When the last of the fragments in flight was sent.
    fn last_sent(&self) -> Time {
        let flying = self.sent.iter().enumerate().filter(|(index, _)| self.flying >> index & 1 == 1);
        flying.map(|(_, (_, at))| *at).max().unwrap_or(Time::ZERO)
    }
    /// The round-trip time that `fresh` fragments show: of those sent only once (Karn), the last one sent.
    fn sample(&self, now: Time, fresh: u128) -> Option<Duration> {
        let fragments = self.sent.iter().enumerate().filter(|(index, _)| fresh >> index & 1 == 1);
        fragments.filter(|(_, (times, _))| *times == 1).map(|(_, (_, at))| now.since(*at)).min()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Timer {
    Message(NodeId, MessageNumber),
    Partial(MessageKey),
    /// Messages to a node have waited for others long enough.
    Held(NodeId),
}

/// A message with missing fragments.
#[derive(Debug)]
struct Partial {
    touched: Time,
    received: u128,
    fragments: Vec<Vec<u8>>,
}

/// The messages that were complete most recently.
#[derive(Debug, Default)]
struct Seen {
    clock: u64,
    by_key: BTreeMap<MessageKey, u64>,
    by_age: BTreeMap<u64, MessageKey>,
}

impl Seen {
    /// Whether `key` is remembered; if so, it becomes the youngest.
    fn touch(&mut self, key: MessageKey) -> bool {
        let known = self.by_key.contains_key(&key);
        if known {
            self.insert(key);
        }
        known
    }
    fn insert(&mut self, key: MessageKey) {
        self.clock += 1;
        if let Some(age) = self.by_key.insert(key, self.clock) {
            self.by_age.remove(&age);
        }
        self.by_age.insert(self.clock, key);
        if self.by_key.len() > SEEN_MAX
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.by_key.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests;

//! One sub-flow: its packets in flight on one path, their losses, and its window for further requests.
mod meters;
mod questions;

use alloc::{boxed::Box, collections::VecDeque, vec::Vec};

use tributary_core::{Duration, Random, Rate, Time};

use meters::{RateMeter, UnansweredShare};

use crate::{
    ControllerKind, TransferConfig,
    ranges::RangeSet,
    reordering::Reordering,
    rtt::RttEstimator,
    transfer::{CacheUse, PacketData},
    window::{Arrival, Controller, Loss, Spacing, controller},
};

/// Ranges of consecutive packets: first number and count.
pub type Ranges = Vec<(u32, u8)>;

/// A request is overdue after this many retransmission timeouts.
const OVERDUE_RTOS: u32 = 3;
/// An answer may take this many retransmission timeouts.
const ANSWER_RTOS: u32 = 2;
/// Payload that one system call of a source sends: datagrams of 64 KiB in all (GSO), less their headers.
const SEND_BYTES: u64 = 62 << 10;
/// A path gets complete chunks if it delivers one in this time: 42 Mbit/s for chunks of 256 KiB.
const QUICK: Duration = Duration::from_millis(50);
/// Up to this rate a path is slow.
const SLOW_RATE_MAX: u64 = 256_000;
/// The longest time that a flow's packets in flight may delay other flows, for any controller; some packets are always
/// allowed.
const QUEUE_TIME_MAX: Duration = Duration::from_secs(1);
const WINDOW_PACKETS_MIN: u64 = 4;
/// Packets that a flow may request at once before its path is measured.
const UNPACED_PACKETS: u64 = 16;
/// Maximum remembered requests; their numbers have 16 bits.
const REQUESTS_MAX: usize = 16_384;
/// A timer that is later than this was delayed, and so were the answers that it waits for.
const LATE: Duration = Duration::from_millis(5);
/// A path is silent if its usual share of unanswered requests explains the silence with less than this probability.
const SILENCE_CHANCE: f64 = 0.001;
/// A path that has never answered is probed at intervals that double up to this: it may be slower than any guess.
const UNHEARD_INTERVAL_MAX: Duration = Duration::from_secs(4);
/// The answer to a probe takes at most this part of the time between two, at the last known rate of the path.
const PROBE_SHARE: u32 = 20;
/// Lost packets remembered until they are requested again. The lowest are forgotten first: other paths have probably
/// requested them.
const GIVEN_UP_MAX: u64 = 4_096;
/// Answers over which the share of near caches is averaged.
const SPARED_PACKETS: f64 = 64.0;
/// Near caches that answer at most this share of first requests only repair losses.
const SPARED_MAX: f64 = 1.0 / 16.0;
/// A cache counts as far as the source if its answers are faster than the source's smallest round trip by at most this
/// part.
const AS_FAR_PART: u32 = 8;
/// A settled request is remembered for late packets until this many later ones are settled too.
const SETTLED_KEPT: usize = 64;

tributary_core::declared! {
    /// The state of one path as seen from the receiver.
    pub(crate) struct Flow {
        config: TransferConfig = config.clone(),
        packet_bytes: u64 = packet_bytes,
        pub(crate) controller: Box<dyn Controller> = controller,
        pub(crate) rtt: RttEstimator = RttEstimator::new(rto_initial, config.rto_min, config.rto_max),
        /// Whether all round-trip samples so far came from caches.
        rtt_from_caches: bool = false,
        /// Requests not settled, and the last settled ones; numbers are consecutive.
        requests: VecDeque<Outstanding> = VecDeque::new(),
        first_number: u16 = 0,
        next_sequence: u64 = 0,
        highest_arrived: u64 = 0,
        /// Packets that this path lost and has not requested again.
        given_up: RangeSet = RangeSet::new(),
        /// The share of first requests that near caches answer.
        spared: f64 = 0.0,
        reordering: Reordering = Reordering::new(config.reorder_packets),
        /// The rate of the path according to the network, if it is low.
        slow_rate: Option<Rate> = hints.capacity.filter(|rate| rate.bits_per_second() <= SLOW_RATE_MAX),
        pub(crate) in_flight: u64 = 0,
        pub(crate) delivered: u64 = 0,
        /// What had been delivered when packets were last lost, and when they were the time before.
        delivered_at_losses: [u64; 2] = [0; 2],
        /// When that was; losses of packets requested before are part of the same event.
        lost_at: Time = Time::ZERO,
        delivered_at: Time = now,
        first_sent_at: Time = now,
        starved_until: u64 = 0,
        pace_at: Time = now,
        /// The pace of the first window, if the network reports the rate of the path.
        pace_initial: Option<Rate> = pace_initial,
        last_arrival: Time = now,
        /// After a late timer: when silence counts again.
        excused_until: Time = Time::ZERO,
        /// When this node last woke from suspension: earlier round trips do not describe the path.
        awake_since: Time = Time::ZERO,
        /// `Some` during silence: since when, and when to probe next.
        silent: Option<Silence> = None,
        /// `Some` from a probe's answer that brought no packet until a packet arrives.
        unproven: Option<Unproven> = None,
        /// The share of requests that stay unanswered while the path is not silent.
        unanswered: UnansweredShare = UnansweredShare::default(),
        /// Requests that timed out since the path last answered; of a silent one as many as show that it is.
        timed_out: u32 = 0,
        pub(crate) meter: RateMeter = RateMeter::new(now),
        /// Packets that the window has not counted yet.
        arrived: Option<Arrived> = None,
        pub(crate) requested_packets: u64 = 0,
        pub(crate) lost_packets: u64 = 0,
        /// Payload of marked packets.
        pub(crate) marked_bytes: u64 = 0,
        /// Whether a packet has ever arrived on this path.
        pub(crate) ever_answered: bool = false,
    }
    pub(crate) fn new(now: Time, config: &TransferConfig, packet_bytes: u64, hints: PathHints) {
        let first_window = u64::from(config.window_initial_packets) * packet_bytes;
        // On a slow link the answers to the first window follow each other at its rate.
        let serial = hints.share.map_or(Duration::ZERO, |rate| rate.time_for(first_window));
        // What the network states may be nonsense.
        let expected = |rtt: Duration| rtt.saturating_mul(3).saturating_add(serial).min(config.rto_max);
        let rto_initial = hints.rtt.map_or(config.rto_initial, |rtt| config.rto_initial.max(expected(rtt)));
        let knows_path = config.controller == ControllerKind::ModelBased;
        let pace_initial = hints.rtt.filter(|_| knows_path).and_then(|rtt| Rate::over(first_window, rtt));
        let mut controller = controller(config, packet_bytes, now);
        if let Some(rate) = hints.share {
            controller.expect_rate(rate);
        }
    }
}

/// Packets that arrived together in answer to one request.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    number: u16,
    bytes: u64,
    rtt: Option<Duration>,
    came: Came,
    /// Whether a cache nearer than the source answered.
    is_beside: bool,
}

/// The origin of a packet, as its answer shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Came {
    /// From the source, so that its timing measures the complete path.
    FromSource,
    /// From a cache on the path.
    FromCache,
    /// Over this path, perhaps in answer to an earlier request or out of turn: its timing measures neither order nor
    /// round trip.
    Repeated,
    /// From a cache on the path, perhaps in answer to an earlier request.
    RepeatedFromCache,
    /// Over this path or another one that requested it too: its timing measures neither.
    ByAnyPath,
}

impl Came {
    /// The origin of a packet that is matched to its request.
    pub(crate) fn of(data: &PacketData<'_>) -> Came {
        if data.cache.is_some() { Came::FromCache } else { Came::FromSource }
    }
    /// For a packet that may answer an earlier request.
    pub(crate) fn again(data: &PacketData<'_>) -> Came {
        if data.cache.is_some() { Came::RepeatedFromCache } else { Came::Repeated }
    }
    /// Whether the answered request is known.
    pub(crate) fn is_exact(self) -> bool {
        matches!(self, Came::FromSource | Came::FromCache)
    }
}

#[derive(Clone, Copy, Debug)]
struct Silence {
    since: Time,
    probe_at: Time,
    probes: u32,
}

/// A path whose probe was answered and that has brought no packet since.
#[derive(Clone, Copy, Debug)]
struct Unproven {
    /// Since when no packet has arrived.
    since: Time,
    /// After a second silence: when the next single packet may be requested. The answer to a probe is short and fits
    /// into queues that are too full for packets, and windows of packets fill them.
    request_at: Option<Time>,
}

struct Outstanding {
    ranges: Ranges,
    /// One bit per packet, in request order.
    waiting: u64,
    lost: u64,
    kind: RequestKind,
    caches: CacheUse,
    /// Packets that this path had lost before.
    again: u64,
    /// Packets that another path has requested as well.
    duplicated: u64,
    first_sequence: u64,
    sent_at: Time,
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    starved: bool,
    sampled: bool,
    /// Whether time alone, and no later answer, has given it up.
    timed_out: bool,
}

impl Outstanding {
    fn position(&self, packet: u32) -> Option<u32> {
        let mut position = 0;
        for &(first, count) in &self.ranges {
            if packet >= first && packet - first < u32::from(count) {
                return Some(position + packet - first);
            }
            position += u32::from(count);
        }
        None
    }
    fn packet(&self, mut position: u32) -> u32 {
        for &(first, count) in &self.ranges {
            if position < u32::from(count) {
                return first + position;
            }
            position -= u32::from(count);
        }
        unreachable!("a position is below the number of packets")
    }
    fn each(&self, mut mask: u64) -> impl Iterator<Item = (u32, u32)> + '_ {
        core::iter::from_fn(move || {
            (mask != 0).then(|| {
                let position = mask.trailing_zeros();
                mask &= mask - 1;
                (position, self.packet(position))
            })
        })
    }
}

/// The classification of an arrived packet by its path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// It was waited for.
    Expected,
    /// It was declared lost and arrived after all.
    Late,
    /// It was never requested here, or has already been answered.
    Unsolicited,
}

/// A packet that a path gave up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LostPacket {
    pub(crate) packet: u32,
    /// Whether another request for it is responsible now.
    pub(crate) covered: bool,
}

/// The network's knowledge of a path before it is used.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct PathHints {
    pub(crate) rtt: Option<Duration>,
    /// The rate of its narrowest link; for windows that follow the rate.
    pub(crate) capacity: Option<Rate>,
    /// Its expected share of the rate, given the transfer's other paths over the same links.
    pub(crate) share: Option<Rate>,
}

impl Flow {
    // Commands.

    /// Counts a request for `ranges` that leaves now, and returns its number.
    pub(crate) fn on_request(&mut self, now: Time, ranges: &Ranges, kind: RequestKind, caches: CacheUse) -> u16 {
        let packets: u32 = ranges.iter().map(|&(_, count)| u32::from(count)).sum();
        debug_assert!((1..=64).contains(&packets));
        if self.in_flight == 0 {
            self.first_sent_at = now;
            self.delivered_at = now;
            self.last_arrival = now;
        }
        let mask = if packets == 64 { u64::MAX } else { (1 << packets) - 1 };
        let again = self.take_given_up(ranges);
        self.requests.push_back(Outstanding {
            ranges: ranges.clone(),
            waiting: mask,
            lost: 0,
            kind,
            caches,
            again,
            duplicated: if kind == RequestKind::Claiming { 0 } else { mask },
            first_sequence: self.next_sequence,
            sent_at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            starved: self.delivered < self.starved_until,
            sampled: false,
            timed_out: false,
        });
        self.next_sequence += u64::from(packets);
        self.in_flight += u64::from(packets) * self.packet_bytes;
        self.requested_packets += u64::from(packets);
        if let Some(rate) = self.pace() {
            // A driver that woke up late may catch up by a millisecond or one request, not by more.
            let most = self.controller.burst_max().unwrap_or(Duration::MAX);
            let credit = Duration::from_millis(1).max(self.config.request_duration / 2).min(most);
            let pause = rate.time_for(u64::from(packets) * self.packet_bytes);
            let (credit, pause) = match self.controller.spacing() {
                // At a low rate that is less than a packet, and the measured rate would confirm itself: some packets at
                // least.
                Spacing::Even => (credit.max(rate.time_for(4 * self.packet_bytes)), pause),
                // A number for each request, the same in each run.
                Spacing::ByChance => {
                    (credit, pause.mul_f64(2.0 * Random::new(now.as_nanos(), self.next_sequence).unit()))
                }
            };
            self.pace_at = self.pace_at.max(now - credit) + pause;
        }
        // An answer must not queue behind the answers to many probes.
        let serial = self.current_rate().map_or(Duration::ZERO, |rate| rate.time_for(self.packet_bytes) * PROBE_SHARE);
        let most = self.config.probe_interval_max;
        let rto = self.rtt.rto().min(most);
        let pause = |since| (now.since(since) / 20).clamp(rto, most).max(serial);
        if let Some(silence) = &mut self.silent {
            silence.probes += 1;
            let pause = match self.ever_answered {
                true => pause(silence.since),
                false => self.rtt.rto().saturating_mul(1 << silence.probes.min(8)).min(UNHEARD_INTERVAL_MAX),
            };
            // As many more as are usually unanswered: as soon as one of a path that answers all, one is answered.
            silence.probe_at = now + pause.mul_f64(1.0 - self.unanswered.usual());
        } else if let Some(Unproven { since, request_at: Some(request_at) }) = &mut self.unproven {
            *request_at = now + pause(*since);
        }
        self.first_number.wrapping_add((self.requests.len() - 1) as u16)
    }
    /// Takes one packet in answer to request `number`. [`Flow::on_batch_end`] follows after the last one that arrived with it.
    pub(crate) fn on_data(&mut self, now: Time, number: u16, packet: u32, bytes: u64, came: Came) -> Answer {
        let answer = self.on_answer(now, number, packet, bytes, came);
        if answer != Answer::Unsolicited && came != Came::ByAnyPath {
            self.unproven = None;
        }
        answer
    }
    /// Takes the answer to a probe, which replaces a packet without carrying it.
    pub(crate) fn on_probe(&mut self, now: Time, number: u16, packet: u32) -> Answer {
        let silent = self.silent;
        let answer = self.on_answer(now, number, packet, self.packet_bytes, Came::FromSource);
        if let Some(silence) = silent.filter(|_| self.silent.is_none()) {
            self.unproven.get_or_insert(Unproven { since: silence.since, request_at: None });
        }
        answer
    }
    fn on_answer(&mut self, now: Time, number: u16, packet: u32, bytes: u64, came: Came) -> Answer {
        let from_cache = came == Came::FromCache;
        let index = usize::from(number.wrapping_sub(self.first_number));
        let Some(request) = self.requests.get(index) else { return Answer::Unsolicited };
        let Some(position) = request.position(packet) else { return Answer::Unsolicited };
        let bit = 1u64 << position;
        let sample = now.since(request.sent_at);
        let is_near = (from_cache || came == Came::RepeatedFromCache) && self.is_nearer_than_source(sample);
        let is_again = request.again & bit != 0 || came == Came::RepeatedFromCache;
        let is_beside = is_near && (!is_again || self.spared > SPARED_MAX);
        let batch = (number, came, is_beside);
        if self.arrived.is_some_and(|arrived| (arrived.number, arrived.came, arrived.is_beside) != batch) {
            self.on_batch_end(now);
        }
        let Some(request) = self.requests.get_mut(index) else { return Answer::Unsolicited };
        let sequence = request.first_sequence + u64::from(position);
        let gap = self.highest_arrived.saturating_sub(sequence);
        let answer = if request.waiting & bit != 0 {
            request.waiting &= !bit;
            self.in_flight -= self.packet_bytes;
            if came == Came::FromSource {
                self.reordering.on_overtaken(gap);
            }
            Answer::Expected
        } else if request.lost & bit != 0 {
            request.lost &= !bit;
            self.lost_packets -= 1;
            if came.is_exact() {
                self.reordering.on_late(gap);
            }
            Answer::Late
        } else {
            return Answer::Unsolicited;
        };
        if came == Came::FromSource {
            self.highest_arrived = self.highest_arrived.max(sequence);
        }
        if !is_beside {
            self.first_sent_at = self.first_sent_at.max(request.sent_at);
            self.delivered += bytes;
            self.delivered_at = now;
        }
        let first_of_request = !core::mem::replace(&mut request.sampled, true);
        let mut was_silent = false;
        if came != Came::ByAnyPath {
            self.last_arrival = now;
            self.ever_answered = true;
            was_silent = self.silent.take().is_some();
            // Where the timeout is too short, packets that timed out may still arrive.
            let is_overdue = answer == Answer::Late && now.since(request.sent_at) > self.rtt.rto();
            let timed_out = core::mem::take(&mut self.timed_out);
            (0..if is_overdue { 0 } else { timed_out }).for_each(|_| self.unanswered.on_request(false));
        }
        if first_of_request && answer == Answer::Expected && !was_silent {
            self.unanswered.on_request(true);
        }
        if !is_again && answer == Answer::Expected && came.is_exact() {
            self.spared += (f64::from(u8::from(is_near)) - self.spared) / SPARED_PACKETS;
        }

        let mut rtt = None;
        let is_exact = came.is_exact();
        if !is_exact && first_of_request && self.rtt.smoothed().is_some_and(|usual| sample > usual) {
            // It took at least that long. Without this sample a timeout that is too short would persist, since
            // everything is requested twice.
            self.rtt.on_sample(sample);
        }
        // An answer after a timeout is as exact a sample as one in time, because requests have numbers (Karn's rule is
        // about answers that cannot be matched), and only such samples show that the timeout is too short.
        let is_sample = (answer == Answer::Expected || request.timed_out) && request.sent_at >= self.awake_since;
        if first_of_request && is_sample && is_exact {
            if !from_cache {
                self.forget_caches(now);
            }
            if !from_cache || self.rtt_from_caches || self.rtt.smoothed().is_none() {
                self.rtt_from_caches = from_cache;
                self.rtt.on_sample(sample);
                rtt = Some(sample);
            }
        }
        let arrived = self.arrived.get_or_insert(Arrived { number, bytes: 0, rtt: None, came, is_beside });
        arrived.bytes += bytes;
        arrived.rtt = arrived.rtt.or(rtt);
        if is_near && !is_again {
            self.on_cached_beside_source();
        }
        answer
    }
    /// Whether a cache that answered after `sample` is nearer than the source. The model describes the path to the source:
    /// with a near cache's rate, requests would fill the queue of a far source beyond its rate. A cache as far as the
    /// source, such as its own store, answers over the complete path.
    ///
    /// A near cache that answers repeated requests only has kept packets that were lost behind it, such as by a policer at
    /// the receiver. Its answers count for the path, since only they show the policer's rate. If it answers first requests
    /// too, other receivers have fetched through it, and its rate is not the path's.
    fn is_nearer_than_source(&self, sample: Duration) -> bool {
        let minimum = self.rtt.minimum().filter(|_| !self.rtt_from_caches);
        minimum.is_some_and(|minimum| sample < minimum - minimum / AS_FAR_PART)
    }
    /// Returns which packets of `ranges` this path had lost, and forgets that.
    fn take_given_up(&mut self, ranges: &Ranges) -> u64 {
        if self.given_up.is_empty() {
            return 0;
        }
        let packets = ranges.iter().flat_map(|&(first, count)| first..first + u32::from(count));
        let again = packets.zip(0..).filter(|(packet, _)| self.given_up.contains(*packet));
        let again = again.fold(0u64, |mask, (_, position): (u32, u32)| mask | 1 << position);
        for &(first, count) in ranges {
            self.given_up.remove(first, first + u32::from(count));
        }
        again
    }
    /// A cache has answered a request that was paced for the source: the source sends less than its path carries, and
    /// the next request need not wait for it.
    fn on_cached_beside_source(&mut self) {
        // A window without a model is in use whoever answers, and grows (PTP §5 D).
        if self.controller.models_rate() {
            self.on_starved();
        }
        if let Some(rate) = self.pace() {
            self.pace_at = self.pace_at - rate.time_for(self.packet_bytes);
        }
    }
    /// Forgets measurements from caches alone: they describe another path than the one behind the caches.
    pub(crate) fn forget_caches(&mut self, now: Time) {
        if core::mem::replace(&mut self.rtt_from_caches, false) {
            // Deliveries of caches do not count in the rate of the source.
            for request in &mut self.requests {
                (request.delivered, request.starved) = (self.delivered, true);
            }
            self.controller = controller(&self.config, self.packet_bytes, now);
            self.rtt = RttEstimator::new(self.config.rto_initial, self.config.rto_min, self.config.rto_max);
        }
    }
    /// Undoes losses that only a timeout had declared, after request `number` was answered: packets requested after it
    /// are late too, not lost (RFC 5682 in spirit). `reclaim` returns whether a packet is in no other request. Returns
    /// how many packets count as in flight again.
    pub(crate) fn revive_late(&mut self, number: u16, mut reclaim: impl FnMut(u32) -> bool) -> u64 {
        let index = usize::from(number.wrapping_sub(self.first_number));
        if !self.requests.get(index).is_some_and(|request| request.timed_out) {
            return 0;
        }
        let mut revived = 0;
        for request in self.requests.range_mut(index..) {
            if !core::mem::take(&mut request.timed_out) {
                continue;
            }
            let again = request.each(request.lost).filter(|(_, packet)| reclaim(*packet));
            let again = again.fold(0u64, |mask, (position, _)| mask | 1 << position);
            request.lost &= !again;
            request.waiting |= again;
            // They were idle, so any path that had taken them over has lost them too: they are no duplicates.
            request.duplicated &= !again;
            revived += u64::from(again.count_ones());
        }
        self.in_flight += revived * self.packet_bytes;
        self.lost_packets = self.lost_packets.saturating_sub(revived);
        if revived > 0 {
            self.controller.on_spurious_silence();
        }
        revived
    }
    /// Passes the window the arrivals since the last call, all in answer to one request.
    pub(crate) fn on_batch_end(&mut self, now: Time) {
        let Some(Arrived { number, bytes, rtt, came, is_beside }) = self.arrived.take() else { return };
        self.meter.on_bytes(now, bytes);
        let index = usize::from(number.wrapping_sub(self.first_number));
        let Some(request) = self.requests.get(index) else { return };
        let interval = now.since(request.delivered_at).max(request.sent_at.since(request.first_sent_at));
        let long_enough =
            came != Came::ByAnyPath && self.rtt.minimum().is_some_and(|minimum| interval >= minimum.mul_f32(0.9));
        let arrival = Arrival {
            bytes,
            in_flight: self.in_flight,
            rtt,
            rate: if long_enough { Rate::over(self.delivered - request.delivered, interval) } else { None },
            delivered_at_request: request.delivered,
            delivered: self.delivered,
            starved: request.starved,
            requested_at: request.sent_at,
            is_beside,
        };
        match came {
            Came::FromCache => self.controller.on_cached_data(now, &arrival),
            Came::FromSource | Came::Repeated | Came::RepeatedFromCache | Came::ByAnyPath => {
                self.controller.on_data(now, &arrival);
            }
        }
    }
    /// Tells the window that `bytes` bytes with a congestion mark answered request `number`.
    pub(crate) fn on_mark(&mut self, now: Time, number: u16, bytes: u64) {
        let request = self.requests.get(usize::from(number.wrapping_sub(self.first_number)));
        // Of a request that is settled and forgotten only its age is of interest.
        let round_trip = self.rtt.smoothed().unwrap_or_else(|| self.rtt.rto());
        let requested_at = request.map_or(now - round_trip, |request| request.sent_at);
        self.marked_bytes += bytes;
        self.controller.on_mark(now, &Loss { bytes, in_flight: self.in_flight, requested_at });
    }
    /// Ends the wait for a packet that arrived on another path, in networks that send one answer to all requesters.
    pub(crate) fn forget(&mut self, packet: u32) {
        for request in &mut self.requests {
            let Some(position) = request.position(packet) else { continue };
            if request.waiting & (1 << position) != 0 {
                request.waiting &= !(1 << position);
                self.in_flight -= self.packet_bytes;
            }
        }
        self.forget_settled();
    }
    /// Takes the notice that the source lacks packets of request `number`: the path answers, and none of them is lost.
    /// Returns the awaited packets.
    pub(crate) fn on_not_yet(&mut self, now: Time, number: u16, lacks: impl Fn(u32) -> bool) -> Vec<LostPacket> {
        self.on_batch_end(now);
        let mut given_up = Vec::new();
        let index = usize::from(number.wrapping_sub(self.first_number));
        let Some(request) = self.requests.get_mut(index) else { return given_up };
        // It measures the round trip, but not the capacity of the path.
        self.last_arrival = now;
        self.ever_answered = true;
        let was_silent = self.silent.take().is_some();
        (0..core::mem::take(&mut self.timed_out)).for_each(|_| self.unanswered.on_request(false));
        if !core::mem::replace(&mut request.sampled, true) {
            if !was_silent {
                self.unanswered.on_request(true);
            }
            if request.sent_at >= self.awake_since && !self.rtt_from_caches {
                self.rtt.on_sample(now.since(request.sent_at));
            }
        }
        let waiting = request.each(request.waiting).filter(|(_, packet)| lacks(*packet));
        let gone = waiting.fold(0u64, |mask, (position, _)| mask | 1 << position);
        if gone != 0 {
            give_up(request, gone, &mut given_up, &mut self.given_up);
            // It will not come late either.
            request.lost &= !gone;
            self.in_flight -= given_up.len() as u64 * self.packet_bytes;
            self.on_starved();
        }
        self.forget_settled();
        given_up
    }
    /// Whether request `number` is waited for, or is one of the last ones that were settled.
    pub(crate) fn is_recent(&self, number: u16) -> bool {
        let oldest = self.first_number.wrapping_sub(SETTLED_KEPT as u16);
        usize::from(number.wrapping_sub(oldest)) < SETTLED_KEPT + self.requests.len()
    }
    /// The smoothed round-trip time, zero before the first sample.
    pub(crate) fn round_trip(&self) -> Duration {
        self.rtt.smoothed().unwrap_or(Duration::ZERO)
    }
    /// Takes the notice that `packet` will not arrive in answer to request `number`: it is lost, and the wait for it
    /// ends at once. Appends it to `lost`.
    pub(crate) fn on_refusal(&mut self, now: Time, number: u16, packet: u32, lost: &mut Vec<LostPacket>) {
        let index = usize::from(number.wrapping_sub(self.first_number));
        let Some(request) = self.requests.get_mut(index) else { return };
        let Some(bit) = request.position(packet).map(|position| 1u64 << position) else { return };
        if request.waiting & bit == 0 {
            return;
        }
        let sent_at = request.sent_at;
        give_up(request, bit, lost, &mut self.given_up);
        self.on_lost(now, 1, Some(sent_at));
        self.forget_settled();
    }
    /// Finds packets lost by order: one requested [`Reordering::packets`] later has arrived. Appends them to `lost`.
    pub(crate) fn detect_losses(&mut self, now: Time, lost: &mut Vec<LostPacket>) {
        let Some(horizon) = self.highest_arrived.checked_sub(self.reordering.packets) else { return };
        let before = lost.len();
        let mut oldest = None;
        for request in &mut self.requests {
            if request.first_sequence > horizon {
                break;
            }
            let covered = horizon - request.first_sequence + 1;
            let mask = if covered >= 64 { u64::MAX } else { (1 << covered) - 1 };
            let gone = request.waiting & mask;
            if gone != 0 {
                oldest.get_or_insert(request.sent_at);
                give_up(request, gone, lost, &mut self.given_up);
                if request.waiting == 0 && !request.sampled {
                    self.unanswered.on_request(false);
                }
            }
        }
        self.on_lost(now, (lost.len() - before) as u64, oldest);
        self.forget_settled();
    }
    /// Declares packets lost of requests too old for order or silence to decide: answers of a cache do not reveal the
    /// order of packets from beyond it (paper §III-C: a timer for each request).
    pub(crate) fn detect_overdue(&mut self, now: Time, lost: &mut Vec<LostPacket>) {
        self.give_up_older(now, self.rtt.rto() * OVERDUE_RTOS, lost);
    }
    /// Declares packets lost of requests that are `age` old.
    fn give_up_older(&mut self, now: Time, age: Duration, lost: &mut Vec<LostPacket>) {
        let before = lost.len();
        let mut oldest = None;
        for request in &mut self.requests {
            if request.sent_at + age > now {
                break;
            }
            if request.waiting != 0 {
                oldest.get_or_insert(request.sent_at);
                let waiting = request.waiting;
                give_up(request, waiting, lost, &mut self.given_up);
                request.timed_out = request.kind == RequestKind::Claiming;
                self.timed_out += u32::from(!request.sampled && self.silent.is_none());
            }
        }
        self.on_lost(now, (lost.len() - before) as u64, oldest);
        self.forget_settled();
    }
    /// Checks the path when requests have been unanswered for a timeout: declares it silent and everything in flight
    /// lost, or, if it usually leaves as many unanswered, only the packets that timed out. True if it is silent.
    pub(crate) fn detect_silence(&mut self, now: Time, lost: &mut Vec<LostPacket>) -> bool {
        match self.silence_deadline() {
            Some(deadline) if deadline <= now => {
                // A process that was not scheduled in time finds its answers in the socket: it checks there first.
                if now.since(deadline) > LATE && self.excused_until < deadline {
                    self.excused_until = now + LATE;
                    return false;
                }
            }
            _ => return false,
        }
        if self.silent.is_none() {
            let due =
                self.requests.iter().filter(|request| request.waiting != 0 && request.sent_at + self.rtt.rto() <= now);
            let timed_out = self.timed_out + due.count() as u32;
            if self.unanswered.chance_of(timed_out) >= SILENCE_CHANCE {
                self.give_up_older(now, self.rtt.rto(), lost);
                return false;
            }
            // An outage counts towards the usual share only as many packets as it took to notice it, however many were
            // in flight.
            self.timed_out =
                (1..timed_out).find(|&few| self.unanswered.chance_of(few) < SILENCE_CHANCE).unwrap_or(timed_out);
        }
        self.give_up_all(lost);
        if self.silent.is_none() {
            self.controller.on_silence(now);
            let since = match &mut self.unproven {
                Some(unproven) => {
                    unproven.request_at.get_or_insert(now);
                    unproven.since
                }
                None => self.last_arrival,
            };
            self.silent = Some(Silence { since, probe_at: now, probes: 0 });
        }
        true
    }
    /// Declares everything in flight lost, as when the path is withdrawn.
    pub(crate) fn give_up_all(&mut self, lost: &mut Vec<LostPacket>) {
        let before = lost.len();
        for request in &mut self.requests {
            let waiting = request.waiting;
            give_up(request, waiting, lost, &mut self.given_up);
            request.timed_out |= waiting != 0 && request.kind == RequestKind::Claiming;
        }
        let count = (lost.len() - before) as u64;
        self.lost_packets += count;
        self.in_flight -= count * self.packet_bytes;
        self.forget_settled();
    }
    /// This node stood still until `now`, as a machine that sleeps does.
    pub(crate) fn on_standstill(&mut self, now: Time) {
        self.awake_since = now;
    }
    /// Notes that the window was open, but no packet was left to request.
    pub(crate) fn on_starved(&mut self) {
        self.starved_until = self.delivered + self.in_flight.max(self.packet_bytes);
    }
    /// Bytes delivered between the last two losses, or since the last one if that is more.
    pub(crate) fn loss_interval(&self) -> u64 {
        let [last, before] = self.delivered_at_losses;
        (self.delivered - last).max(last - before)
    }
    /// Whether it recently lacked packets to request, so that its delivery rate underestimates its link.
    pub(crate) fn is_starved(&self) -> bool {
        self.delivered < self.starved_until
    }
    /// At most `max` packets in flight that would arrive after `eta` and that no other path has requested. Marks them
    /// as duplicated.
    pub(crate) fn late_packets(&mut self, eta: Time, max: usize, wanted: impl Fn(u32) -> bool) -> Vec<u32> {
        let round_trip = self.rtt.smoothed().unwrap_or_else(|| self.rtt.rto());
        let per_packet = self.current_rate().map_or(Duration::ZERO, |rate| rate.time_for(self.packet_bytes));
        let mut packets = Vec::new();
        let silent = self.silent.is_some();
        for request in &mut self.requests {
            let mut chosen = 0u64;
            for (position, packet) in request.each(request.waiting & !request.duplicated) {
                let expected = request.sent_at + round_trip + per_packet * position;
                if packets.len() < max && (silent || expected > eta) && wanted(packet) {
                    packets.push(packet);
                    chosen |= 1 << position;
                }
            }
            request.duplicated |= chosen;
            if packets.len() >= max {
                break;
            }
        }
        packets
    }

    fn on_lost(&mut self, now: Time, packets: u64, oldest: Option<Time>) {
        let Some(requested_at) = oldest else { return };
        let bytes = packets * self.packet_bytes;
        self.lost_packets += packets;
        self.in_flight -= bytes;
        if requested_at >= self.lost_at {
            self.lost_at = now;
            self.delivered_at_losses = [self.delivered, self.delivered_at_losses[0]];
            self.reordering.on_loss();
        }
        self.controller.on_loss(now, &Loss { bytes, in_flight: self.in_flight, requested_at });
    }
    fn forget_settled(&mut self) {
        let mut settled = self.requests.iter().take_while(|request| request.waiting == 0).count();
        while settled > 0 && (settled > SETTLED_KEPT || self.requests.front().is_some_and(|request| request.lost == 0))
        {
            self.requests.pop_front();
            self.first_number = self.first_number.wrapping_add(1);
            settled -= 1;
        }
    }
}

/// Whether a request takes its packets away from the other paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RequestKind {
    /// No other path requests its packets.
    Claiming,
    /// Other paths request its packets too, and this one answers for them from now on: the end-game.
    Duplicating,
    /// Other paths request its packet too, and this one answers for nothing.
    Probing,
}

fn give_up(request: &mut Outstanding, gone: u64, lost: &mut Vec<LostPacket>, given_up: &mut RangeSet) {
    lost.extend(request.each(gone).map(|(position, packet)| {
        given_up.insert(packet, packet + 1);
        let covered = match request.kind {
            RequestKind::Claiming => request.duplicated & (1 << position) != 0,
            RequestKind::Duplicating => false,
            RequestKind::Probing => true,
        };
        LostPacket { packet, covered }
    }));
    request.waiting &= !gone;
    request.lost |= gone;
    while given_up.len() > GIVEN_UP_MAX
        && let Some((first, end)) = given_up.first_range()
    {
        given_up.remove(first, end);
    }
}

#[cfg(test)]
mod tests;

//! One sub-flow: what is under way on one path, what of it is lost, and how much more may be asked for.
use alloc::{boxed::Box, collections::VecDeque, vec::Vec};

use tributary_core::{Duration, Random, Rate, Time};

use crate::{
    ControllerKind, TransferConfig,
    reordering::Reordering,
    rtt::RttEstimator,
    transfer::{CacheUse, PacketData},
    window::{Arrival, Controller, GroupPart, Growth, Loss, ProbeTurn, Spacing, controller},
};

/// Runs of consecutive packets: first number and count.
pub type Ranges = Vec<(u32, u8)>;

/// A request is overdue after this many retransmission timeouts.
const OVERDUE_RTOS: u32 = 3;
/// An answer may take this many retransmission timeouts.
const ANSWER_RTOS: u32 = 2;
/// Payload that one system call of a source sends: datagrams of 64 KiB in all (GSO), less their headers.
const SEND_BYTES: u64 = 62 << 10;
/// How long a chunk may take on a path that gets whole ones: 42 Mbit/s for chunks of 256 KiB.
const QUICK: Duration = Duration::from_millis(50);
/// Packets that a path may be asked for at once before anything is known of it.
const UNPACED_PACKETS: u64 = 16;
/// Requests remembered at most; their numbers have 16 bits.
const REQUESTS_MAX: usize = 16_384;
/// A timer that comes later than this was held up, and so were the answers that it waits for.
const LATE: Duration = Duration::from_millis(5);
/// A path is silent when what it usually leaves unanswered explains its silence with less than this probability.
const SILENCE_CHANCE: f64 = 0.001;
/// The largest share of unanswered requests that explains silence: 66 of them in a row.
const UNANSWERED_MAX: f64 = 0.9;
/// Requests that the share of unanswered ones looks back on.
const UNANSWERED_REQUESTS: f64 = 64.0;
/// Answered requests that it takes for granted at first.
const ANSWERED_FIRST: f64 = 16.0;
/// Requests that are settled are remembered for late packets until so many after them are settled too.
const SETTLED_KEPT: usize = 64;

/// The state of one path as seen from the receiver.
pub(crate) struct Flow {
    config: TransferConfig,
    packet_bytes: u64,
    controller: Box<dyn Controller>,
    rtt: RttEstimator,
    /// Whether all round-trip samples so far came from caches.
    rtt_from_caches: bool,
    /// Requests not settled, and the last settled ones; numbers are consecutive.
    requests: VecDeque<Outstanding>,
    first_number: u16,
    next_sequence: u64,
    highest_arrived: u64,
    reordering: Reordering,
    in_flight: u64,
    delivered: u64,
    /// What had been delivered when packets were last lost, and when they were the time before.
    delivered_at_losses: [u64; 2],
    /// When that was: losses of packets asked for before are part of it.
    lost_at: Time,
    delivered_at: Time,
    first_sent_at: Time,
    starved_until: u64,
    pace_at: Time,
    /// The pace of the first window, if the network has said what the path carries.
    pace_initial: Option<Rate>,
    last_arrival: Time,
    /// After a timer that came late: when silence counts again.
    excused_until: Time,
    /// `Some` while nothing comes: since when, and when to probe next.
    silent: Option<Silence>,
    /// `Some` from when a probe was answered that brought no packet until a packet comes.
    unproven: Option<Unproven>,
    /// The share of requests that nothing answers, so long as the path is not silent.
    unanswered: UnansweredShare,
    /// Requests that timed out since the path last answered; of a silent one as many as show that it is.
    timed_out: u32,
    meter: RateMeter,
    /// Packets that the window was not told of yet.
    arrived: Option<Arrived>,
    pub(crate) requested_packets: u64,
    pub(crate) lost_packets: u64,
    /// Payload of packets that came marked.
    pub(crate) marked_bytes: u64,
    ever_answered: bool,
}

/// Packets that arrived together in answer to one request.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    number: u16,
    bytes: u64,
    rtt: Option<Duration>,
    came: Came,
}

/// Where a packet came from, as far as its answer tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Came {
    /// From the source: it tells of the whole path.
    FromSource,
    /// From a cache on the path.
    FromCache,
    /// By this path, perhaps in answer to a request before, or before its turn: it tells nothing of order and round-trip time.
    Repeated,
    /// By this path or by another one that was asked for it too: it tells nothing of either.
    ByAnyPath,
}

impl Came {
    /// For a packet of which it is known which request it answers.
    pub(crate) fn of(data: &PacketData<'_>) -> Came {
        if data.cache.is_some() { Came::FromCache } else { Came::FromSource }
    }
    /// Whether it is known which request it answers.
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
    /// Since when it brings none.
    since: Time,
    /// Once it has fallen silent again, when the next packet may be asked for, each by itself: what answers a probe is
    /// short and finds room where packets find none, and windows full of these are what takes it.
    request_at: Option<Time>,
}

struct Outstanding {
    ranges: Ranges,
    /// One bit per packet, in request order.
    waiting: u64,
    lost: u64,
    kind: RequestKind,
    caches: CacheUse,
    /// Packets that another path was asked for as well.
    duplicated: u64,
    first_sequence: u64,
    sent_at: Time,
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    starved: bool,
    sampled: bool,
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

/// What an arrived packet meant to its path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// It was waited for.
    Expected,
    /// It had been taken for lost, and came after all.
    Late,
    /// It was never asked for here, or has been answered already.
    Unsolicited,
}

/// A packet that a path gave up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LostPacket {
    pub(crate) packet: u32,
    /// Whether another request for it is responsible now.
    pub(crate) covered: bool,
}

impl Flow {
    /// `rtt_hint` and `rate_hint` are what the network tells of the path.
    pub(crate) fn new(
        now: Time,
        config: &TransferConfig,
        packet_bytes: u64,
        rtt_hint: Option<Duration>,
        rate_hint: Option<Rate>,
    ) -> Flow {
        let rto_initial = rtt_hint.map_or(config.rto_initial, |rtt| config.rto_initial.max(rtt * 3));
        let first_window = u64::from(config.window_initial_packets) * packet_bytes;
        let knows_path = config.controller == ControllerKind::ModelBased;
        let pace_initial = rtt_hint.filter(|_| knows_path).and_then(|rtt| Rate::over(first_window, rtt));
        let mut controller = controller(config, packet_bytes, now);
        if let Some(rate) = rate_hint {
            controller.expect_rate(rate);
        }
        Flow {
            controller,
            config: config.clone(),
            packet_bytes,
            rtt: RttEstimator::new(rto_initial, config.rto_min, config.rto_max),
            rtt_from_caches: false,
            requests: VecDeque::new(),
            first_number: 0,
            next_sequence: 0,
            highest_arrived: 0,
            reordering: Reordering::new(config.reorder_packets),
            in_flight: 0,
            delivered: 0,
            delivered_at_losses: [0; 2],
            lost_at: Time::ZERO,
            delivered_at: now,
            first_sent_at: now,
            starved_until: 0,
            pace_at: now,
            pace_initial,
            last_arrival: now,
            excused_until: Time::ZERO,
            silent: None,
            unproven: None,
            unanswered: UnansweredShare::default(),
            timed_out: 0,
            meter: RateMeter::new(now),
            arrived: None,
            requested_packets: 0,
            lost_packets: 0,
            marked_bytes: 0,
            ever_answered: false,
        }
    }

    // Commands.

    /// Counts a request for `ranges` that leaves now, and gives its number.
    pub(crate) fn on_request(&mut self, now: Time, ranges: &Ranges, kind: RequestKind, caches: CacheUse) -> u16 {
        let packets: u32 = ranges.iter().map(|&(_, count)| u32::from(count)).sum();
        debug_assert!((1..=64).contains(&packets));
        if self.in_flight == 0 {
            self.first_sent_at = now;
            self.delivered_at = now;
            self.last_arrival = now;
        }
        let mask = if packets == 64 { u64::MAX } else { (1 << packets) - 1 };
        self.requests.push_back(Outstanding {
            ranges: ranges.clone(),
            waiting: mask,
            lost: 0,
            kind,
            caches,
            duplicated: if kind == RequestKind::Claiming { 0 } else { mask },
            first_sequence: self.next_sequence,
            sent_at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            starved: self.delivered < self.starved_until,
            sampled: false,
        });
        self.next_sequence += u64::from(packets);
        self.in_flight += u64::from(packets) * self.packet_bytes;
        self.requested_packets += u64::from(packets);
        if let Some(rate) = self.pace() {
            // A driver that woke up late may catch up by a millisecond or one request, not by more.
            let credit = Duration::from_millis(1).max(self.config.request_duration / 2);
            let pause = rate.time_for(u64::from(packets) * self.packet_bytes);
            let (credit, pause) = match self.controller.spacing() {
                // At a low rate that is less than a packet, and the rate measured would confirm itself: some packets at least.
                Spacing::Even => (credit.max(rate.time_for(4 * self.packet_bytes)), pause),
                // A number for each request, the same in each run.
                Spacing::ByChance => {
                    (credit, pause.mul_f64(2.0 * Random::new(now.as_nanos(), self.next_sequence).unit()))
                }
            };
            self.pace_at = self.pace_at.max(now - credit) + pause;
        }
        let rto = self.rtt.rto().min(self.config.rto_max);
        let pause = |since| (now.since(since) / 20).clamp(rto, self.config.rto_max);
        if let Some(silence) = &mut self.silent {
            silence.probes += 1;
            // As many more as are usually unanswered: as soon as one of a path that answers all, one is answered.
            silence.probe_at = now + pause(silence.since).mul_f64(1.0 - self.unanswered.usual());
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
    /// Takes the answer to a probe that stands for a packet and does not bring it.
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
        let Some(request) = self.requests.get_mut(index) else { return Answer::Unsolicited };
        let Some(position) = request.position(packet) else { return Answer::Unsolicited };
        let bit = 1u64 << position;
        if self.arrived.is_some_and(|arrived| arrived.number != number || arrived.came != came) {
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
        if request.sent_at > self.first_sent_at {
            self.first_sent_at = request.sent_at;
        }
        self.delivered += bytes;
        self.delivered_at = now;
        let first_of_request = !core::mem::replace(&mut request.sampled, true);
        let mut was_silent = false;
        if came != Came::ByAnyPath {
            self.last_arrival = now;
            self.ever_answered = true;
            was_silent = self.silent.take().is_some();
            // Where the timeout is too short, what timed out may still come.
            let is_overdue = answer == Answer::Late && now.since(request.sent_at) > self.rtt.rto();
            let timed_out = core::mem::take(&mut self.timed_out);
            (0..if is_overdue { 0 } else { timed_out }).for_each(|_| self.unanswered.on_request(false));
        }
        if first_of_request && answer == Answer::Expected && !was_silent {
            self.unanswered.on_request(true);
        }

        let mut rtt = None;
        let sample = now.since(request.sent_at);
        let is_exact = came.is_exact();
        if !is_exact && first_of_request && self.rtt.smoothed().is_some_and(|usual| sample > usual) {
            // It took at least that long: without this a timeout that is too short would last, as all is asked for twice.
            self.rtt.on_sample(sample);
        }
        if first_of_request && answer == Answer::Expected && is_exact {
            if !from_cache {
                self.forget_caches(now);
            }
            if !from_cache || self.rtt_from_caches || self.rtt.smoothed().is_none() {
                self.rtt_from_caches = from_cache;
                self.rtt.on_sample(sample);
                rtt = Some(sample);
            }
        }
        let arrived = self.arrived.get_or_insert(Arrived { number, bytes: 0, rtt: None, came });
        arrived.bytes += bytes;
        arrived.rtt = arrived.rtt.or(rtt);
        answer
    }
    /// What was learned from caches alone is of another path than the one behind them.
    pub(crate) fn forget_caches(&mut self, now: Time) {
        if core::mem::replace(&mut self.rtt_from_caches, false) {
            self.controller = controller(&self.config, self.packet_bytes, now);
            self.rtt = RttEstimator::new(self.config.rto_initial, self.config.rto_min, self.config.rto_max);
        }
    }
    /// Tells the window what has arrived since the last call, in answer to one request.
    pub(crate) fn on_batch_end(&mut self, now: Time) {
        let Some(Arrived { number, bytes, rtt, came }) = self.arrived.take() else { return };
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
        };
        match came {
            Came::FromCache => self.controller.on_cached_data(now, &arrival),
            Came::FromSource | Came::Repeated | Came::ByAnyPath => self.controller.on_data(now, &arrival),
        }
    }
    /// Tells the window of `bytes` bytes that came marked in answer to request `number`.
    pub(crate) fn on_mark(&mut self, now: Time, number: u16, bytes: u64) {
        let request = self.requests.get(usize::from(number.wrapping_sub(self.first_number)));
        // Of a request that is settled and forgotten only its age is of interest.
        let round_trip = self.rtt.smoothed().unwrap_or_else(|| self.rtt.rto());
        let requested_at = request.map_or(now - round_trip, |request| request.sent_at);
        self.marked_bytes += bytes;
        self.controller.on_mark(now, &Loss { bytes, in_flight: self.in_flight, requested_at });
    }
    /// Ends the wait for a packet that came by another path, where only one answer comes to all who ask.
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
    /// Takes word that `packet` will not come in answer to request `number`: it is lost, and the wait for it ends at once.
    /// Appends it to `lost`.
    pub(crate) fn on_refusal(&mut self, now: Time, number: u16, packet: u32, lost: &mut Vec<LostPacket>) {
        let index = usize::from(number.wrapping_sub(self.first_number));
        let Some(request) = self.requests.get_mut(index) else { return };
        let Some(bit) = request.position(packet).map(|position| 1u64 << position) else { return };
        if request.waiting & bit == 0 {
            return;
        }
        let sent_at = request.sent_at;
        give_up(request, bit, lost);
        self.on_lost(now, 1, Some(sent_at));
        self.forget_settled();
    }
    /// Finds packets lost by order: one asked for [`Reordering::packets`] later has arrived. Appends them to `lost`.
    pub(crate) fn detect_losses(&mut self, now: Time, lost: &mut Vec<LostPacket>) {
        let Some(horizon) = self.highest_arrived.checked_sub(self.reordering.packets()) else { return };
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
                give_up(request, gone, lost);
                if request.waiting == 0 && !request.sampled {
                    self.unanswered.on_request(false);
                }
            }
        }
        self.on_lost(now, (lost.len() - before) as u64, oldest);
        self.forget_settled();
    }
    /// Gives up packets of requests that are so old that neither order nor silence tells of them: what a cache answers
    /// says nothing about the order of what comes from behind it (paper §III-C: a timer for each request).
    pub(crate) fn detect_overdue(&mut self, now: Time, lost: &mut Vec<LostPacket>) {
        self.give_up_older(now, self.rtt.rto() * OVERDUE_RTOS, lost);
    }
    /// Gives up packets of requests that are `age` old.
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
                give_up(request, waiting, lost);
                self.timed_out += u32::from(!request.sampled && self.silent.is_none());
            }
        }
        self.on_lost(now, (lost.len() - before) as u64, oldest);
        self.forget_settled();
    }
    /// Looks at the path when nothing came for a whole timeout although something was asked for: declares it silent and
    /// gives up all that is under way, or only what timed out if it usually leaves so much unanswered. True if it is silent.
    pub(crate) fn detect_silence(&mut self, now: Time, lost: &mut Vec<LostPacket>) -> bool {
        match self.silence_deadline() {
            Some(deadline) if deadline <= now => {
                // A process that was not run in time finds its answers in the socket: it looks there first.
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
            // Of an outage no more tells of what is usually unanswered than it took to notice it, however much was under way.
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
    /// Gives up everything that is under way, as when the path is withdrawn.
    pub(crate) fn give_up_all(&mut self, lost: &mut Vec<LostPacket>) {
        let before = lost.len();
        for request in &mut self.requests {
            let waiting = request.waiting;
            give_up(request, waiting, lost);
        }
        let count = (lost.len() - before) as u64;
        self.lost_packets += count;
        self.in_flight -= count * self.packet_bytes;
        self.forget_settled();
    }
    /// Notes that there was room to ask for more, but nothing to ask for.
    pub(crate) fn on_starved(&mut self) {
        self.starved_until = self.delivered + self.in_flight.max(self.packet_bytes);
    }
    /// How it grows, given the others on its links.
    pub(crate) fn set_growth(&mut self, growth: Growth) {
        self.controller.set_growth(growth);
    }
    /// Where its controller stands in its cycle of probes.
    pub(crate) fn probe_turn(&self) -> Option<ProbeTurn> {
        self.controller.probe_turn()
    }
    /// The rate that its controller takes for its own, in bytes per second.
    pub(crate) fn own_rate(&self) -> f64 {
        self.controller.own_rate()
    }
    /// Takes its part in a group.
    pub(crate) fn join(&mut self, part: GroupPart) {
        self.controller.join(part);
    }
    /// Bytes delivered so far.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }
    /// Bytes delivered between the last two losses, or since the last one if that is more.
    pub(crate) fn loss_interval(&self) -> u64 {
        let [last, before] = self.delivered_at_losses;
        (self.delivered - last).max(last - before)
    }
    /// Whether it was short of things to ask for lately, so that what it delivers says nothing about its link.
    pub(crate) fn is_starved(&self) -> bool {
        self.delivered < self.starved_until
    }
    /// Packets under way that would arrive after `eta` and that no other path was asked for, at most `max` of them.
    /// Marks them as duplicated.
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

    // Questions.

    /// How many packets may be asked for at `now`; zero if it must wait for answers or for its pace.
    pub(crate) fn room(&self, now: Time) -> u32 {
        if let Some(silence) = self.silent {
            return u32::from(silence.probe_at <= now);
        }
        if self.requests.len() >= REQUESTS_MAX {
            return 0;
        }
        if let Some(request_at) = self.alone_at() {
            return u32::from(request_at <= now && self.in_flight == 0);
        }
        if self.pace_at > now && self.pace().is_some() {
            return 0;
        }
        let window = self.controller.window().max(self.packet_bytes);
        let free = (window.saturating_sub(self.in_flight) / self.packet_bytes) as u32;
        if free == 0 {
            return 0;
        }
        let portion = self.portion();
        // Waiting for a worthwhile portion keeps requests few; an idle path asks for whatever it can.
        if free >= portion || self.in_flight == 0 { free.min(portion) } else { 0 }
    }
    /// When the next packet may be asked for, if each is asked for by itself.
    fn alone_at(&self) -> Option<Time> {
        self.unproven.and_then(|unproven| unproven.request_at)
    }
    /// How fast to ask. A large first window in one burst would overflow the queue that it was made to fill; a small one
    /// would only come later.
    fn pace(&self) -> Option<Rate> {
        let is_large = self.requested_packets >= UNPACED_PACKETS && self.rtt.smoothed().is_none();
        self.controller.pacing_rate().or(self.pace_initial.filter(|_| is_large))
    }
    /// Packets per request at the path's rate.
    fn portion(&self) -> u32 {
        let quarter = (self.controller.window() / self.packet_bytes / 4) as u32;
        let by_rate = match self.pace() {
            Some(rate) => (rate.bytes_in(self.config.request_duration) / self.packet_bytes) as u32,
            None => quarter,
        };
        let portion = by_rate.min(quarter).clamp(1, u32::from(self.config.request_packets_max));
        // Whole sends of the source, if it is enough for one.
        let per_send = (SEND_BYTES / self.packet_bytes).max(1) as u32;
        if portion > per_send { portion - portion % per_send } else { portion }
    }
    /// When to look at the path again: its pace, its silence, its next probe.
    pub(crate) fn deadline(&self, polled_at: Time) -> Option<Time> {
        let next = match self.silent {
            Some(silence) => silence.probe_at,
            None => self.alone_at().unwrap_or(self.pace_at),
        };
        // What was possible when the path was last polled, and not done, waits for an arrival and not for time.
        let waits = next > polled_at && (self.silent.is_some() || self.in_flight < self.controller.window());
        let Some(oldest) = self.requests.iter().find(|request| request.waiting != 0) else {
            return waits.then_some(next);
        };
        let due = self.silence_after(oldest).min(oldest.sent_at + self.rtt.rto() * OVERDUE_RTOS);
        Some(if waits { due.min(next) } else { due })
    }
    fn silence_deadline(&self) -> Option<Time> {
        let oldest = self.requests.iter().find(|request| request.waiting != 0)?;
        Some(self.silence_after(oldest))
    }
    fn silence_after(&self, oldest: &Outstanding) -> Time {
        (self.last_arrival.max(oldest.sent_at) + self.rtt.rto()).max(self.excused_until)
    }
    /// What request `number` allowed caches to do; `None` if there is no such request any more.
    pub(crate) fn cache_use(&self, number: u16) -> Option<CacheUse> {
        let index = usize::from(number.wrapping_sub(self.first_number));
        self.requests.get(index).map(|request| request.caches)
    }
    /// Whether the answer to request `number` for `packet` is lost, and not only late: so much that was asked for later
    /// has come that the path would have to reorder by more than it ever did.
    pub(crate) fn was_overtaken(&self, number: u16, packet: u32) -> bool {
        let age = self.first_number.wrapping_sub(number);
        if (1..u16::MAX / 2).contains(&age) {
            // It is forgotten: numbers are consecutive.
            return true;
        }
        let index = usize::from(number.wrapping_sub(self.first_number));
        self.requests.get(index).is_some_and(|request| {
            let sequence = request.position(packet).map_or(0, |position| request.first_sequence + u64::from(position));
            sequence + self.reordering.packets() <= self.highest_arrived
        })
    }
    /// Whether the answer to a request for a packet is still waited for.
    pub(crate) fn waits_for(&self, number: u16, packet: u32) -> bool {
        let request = self.requests.get(usize::from(number.wrapping_sub(self.first_number)));
        request.is_some_and(|request| {
            request.position(packet).is_some_and(|position| request.waiting & 1u64 << position != 0)
        })
    }
    /// Whether something that comes at `now` comes too soon after request `number` to be its answer: in less than half of the
    /// smallest round trip. Where much is lost few answers tell of that, and many a one that is sooner is the first to find
    /// the queue empty.
    pub(crate) fn is_too_soon(&self, now: Time, number: u16) -> bool {
        let request = self.requests.get(usize::from(number.wrapping_sub(self.first_number)));
        request.zip(self.rtt.minimum()).is_some_and(|(request, minimum)| now.since(request.sent_at) < minimum / 2)
    }
    /// Whether `packet` counts as lost that request `number` asked for, and is remembered.
    pub(crate) fn took_for_lost(&self, number: u16, packet: u32) -> bool {
        let request = self.requests.get(usize::from(number.wrapping_sub(self.first_number)));
        request.is_some_and(|request| request.position(packet).is_some_and(|at| request.lost & (1 << at) != 0))
    }
    /// Since when nothing comes; `None` if it answers.
    pub(crate) fn silent_since(&self) -> Option<Time> {
        self.silent.map(|silence| silence.since)
    }
    /// Whether a packet has ever come over this path.
    pub(crate) fn ever_answered(&self) -> bool {
        self.ever_answered
    }
    /// How long the answer to what is asked for at `now` may take: twice the timeout, because the queue that it waits in
    /// may grow as fast as it is emptied (what was measured last is then half of what comes); over a silent path at least
    /// as long as nothing has come, because nothing else tells how long it takes.
    pub(crate) fn answer_time(&self, now: Time) -> Duration {
        let silent = self.silent.map_or(Duration::ZERO, |silence| now.since(silence.since));
        (self.rtt.rto() * ANSWER_RTOS).max(silent)
    }
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }
    pub(crate) fn window(&self) -> u64 {
        self.controller.window()
    }
    pub(crate) fn phase(&self) -> &'static str {
        self.controller.phase()
    }
    pub(crate) fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }
    /// Delivery rate over the last second or so.
    pub(crate) fn rate(&self, now: Time) -> Rate {
        self.meter.rate(now)
    }
    fn current_rate(&self) -> Option<Rate> {
        self.controller.pacing_rate().filter(|rate| rate.bits_per_second() > 0)
    }
    /// Whether `bytes` are a matter of some milliseconds.
    pub(crate) fn is_quick_with(&self, bytes: u64) -> bool {
        self.current_rate().is_some_and(|rate| rate.bytes_in(QUICK) >= bytes)
    }
    /// When `packets` asked for at `now` would have arrived.
    pub(crate) fn arrival_of(&self, now: Time, packets: u32) -> Time {
        let per_packet = self.current_rate().map_or(Duration::ZERO, |rate| rate.time_for(self.packet_bytes));
        now + self.rtt.smoothed().unwrap_or_else(|| self.rtt.rto()) + per_packet * packets
    }

    /// Bytes asked for from `now` on that arrive by `eta` at the path's rate; none while it is silent.
    pub(crate) fn brings_until(&self, now: Time, eta: Time) -> u64 {
        let Some(rate) = self.current_rate().filter(|_| self.silent.is_none()) else { return 0 };
        rate.bytes_in(eta.since(self.arrival_of(now, 1)))
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

/// The share of a path's requests that nothing answers.
#[derive(Clone, Copy, Default, Debug)]
struct UnansweredShare {
    share: f64,
    /// How many requests it is made of, up to those it looks back on.
    requests: f64,
}

impl UnansweredShare {
    fn on_request(&mut self, answered: bool) {
        let outcome = if answered { 0.0 } else { 1.0 };
        self.requests = (self.requests + 1.0).min(UNANSWERED_REQUESTS - ANSWERED_FIRST);
        self.share += (outcome - self.share) / (self.requests + ANSWERED_FIRST);
    }
    /// How likely `requests` in a row stay unanswered by chance.
    fn chance_of(self, requests: u32) -> f64 {
        libm::pow(self.usual(), f64::from(requests))
    }
    fn usual(self) -> f64 {
        self.share.min(UNANSWERED_MAX)
    }
}

/// Whether a request takes its packets away from the other paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RequestKind {
    /// Its packets are asked for nowhere else.
    Claiming,
    /// Its packets are asked for elsewhere too, and it answers for them from now on: the end-game.
    Duplicating,
    /// Its packet is asked for elsewhere too, and it answers for nothing.
    Probing,
}

fn give_up(request: &mut Outstanding, gone: u64, lost: &mut Vec<LostPacket>) {
    lost.extend(request.each(gone).map(|(position, packet)| {
        let covered = match request.kind {
            RequestKind::Claiming => request.duplicated & (1 << position) != 0,
            RequestKind::Duplicating => false,
            RequestKind::Probing => true,
        };
        LostPacket { packet, covered }
    }));
    request.waiting &= !gone;
    request.lost |= gone;
}

/// Delivery rate in slots of 100 ms, over the last ten.
#[derive(Clone, Debug)]
struct RateMeter {
    started: Time,
    /// Number and bytes of each slot in which something came, oldest first.
    slots: VecDeque<(u64, u64)>,
}

const SLOT: u64 = 100_000_000;
const SLOTS: u64 = 10;

impl RateMeter {
    fn new(started: Time) -> Self {
        RateMeter { started, slots: VecDeque::new() }
    }
    fn on_bytes(&mut self, now: Time, bytes: u64) {
        let slot = now.as_nanos() / SLOT;
        match self.slots.back_mut() {
            Some((last, sum)) if *last >= slot => *sum += bytes,
            _ => self.slots.push_back((slot, bytes)),
        }
        if self.slots.len() as u64 > SLOTS + 1 {
            self.slots.pop_front();
        }
    }
    fn rate(&self, now: Time) -> Rate {
        let slot = now.as_nanos() / SLOT;
        let first = slot.saturating_sub(SLOTS);
        let bytes: u64 = self.slots.iter().filter(|(slot, _)| *slot >= first).map(|(_, bytes)| bytes).sum();
        let from = Time::from_nanos(first * SLOT).max(self.started);
        Rate::over(bytes, now.since(from)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u64 = 1200;

    fn ms(ms: u32) -> Time {
        Time::ZERO + Duration::from_millis(1) * ms
    }
    fn flow() -> Flow {
        Flow::new(Time::ZERO, &TransferConfig::default(), PACKET, None, None)
    }
    fn ask(flow: &mut Flow, at: Time, packet: u32) -> u16 {
        flow.on_request(at, &alloc::vec![(packet, 1)], RequestKind::Claiming, CacheUse::Allowed)
    }
    /// Takes packet `packet` in answer to `number`, and gives what is lost then.
    fn answer(flow: &mut Flow, at: Time, number: u16, packet: u32) -> Vec<u32> {
        flow.on_data(at, number, packet, PACKET, Came::FromSource);
        flow.on_batch_end(at);
        let mut lost = Vec::new();
        flow.detect_losses(at, &mut lost);
        lost.into_iter().map(|lost| lost.packet).collect()
    }

    #[test]
    fn what_caches_filled_is_forgotten_when_they_are_passed_by_and_what_the_source_did_is_not() {
        for (came, is_kept) in [(Came::FromCache, false), (Came::FromSource, true)] {
            let mut flow = flow();
            let first = flow.window();
            for packet in 0..64 {
                let number = ask(&mut flow, ms(packet), packet);
                flow.on_data(ms(packet + 1), number, packet, PACKET, came);
                flow.on_batch_end(ms(packet + 1));
            }
            assert!(flow.window() > first && flow.rtt().smoothed().is_some());
            flow.forget_caches(ms(70));
            assert_eq!((flow.window() > first, flow.rtt().smoothed().is_some()), (is_kept, is_kept), "{came:?}");
        }
    }

    /// Asks for a packet every 10 ms for four seconds, of which every `answered_of`-th is answered 40 ms later.
    fn flow_with_answers(answered_of: u32) -> Flow {
        let mut flow = flow();
        let mut numbers = Vec::new();
        for packet in 0..400 {
            let now = ms(packet * 10);
            numbers.push(ask(&mut flow, now, packet));
            if packet >= 4 && packet % answered_of == 0 {
                answer(&mut flow, now, numbers[packet as usize - 4], packet - 4);
            }
            assert!(!flow.detect_silence(now, &mut Vec::new()), "silent though it answers: {packet}");
        }
        flow
    }
    /// Goes on to ask for a packet every 10 ms from `from` milliseconds on, which nothing answers, and gives how many
    /// milliseconds later the path is silent.
    fn silent_after(flow: &mut Flow, from: u32) -> u32 {
        let silent = (0..2000).step_by(10).find(|after| {
            ask(flow, ms(from + after), 1000 + after);
            flow.detect_silence(ms(from + after), &mut Vec::new())
        });
        silent.expect("nothing comes for two seconds")
    }

    #[test]
    fn a_path_is_silent_when_what_it_usually_leaves_unanswered_does_not_explain_it() {
        // One that answers all is silent after one timeout, 50 ms from the last answer.
        assert_eq!(silent_after(&mut flow_with_answers(1), 4000), 40);
        // Of half of them ten in a row are less likely than one in a thousand, of three in four 24; the first of them was
        // asked for before the last answer.
        let [half, most] = [2, 4].map(|answered_of| silent_after(&mut flow_with_answers(answered_of), 4000));
        assert!((80..=100).contains(&half) && (190..=220).contains(&most), "{half} {most}");
    }

    #[test]
    fn an_outage_counts_among_what_is_usually_unanswered_by_no_more_than_it_took_to_notice_it() {
        let mut flow = flow_with_answers(1);
        // Forty more are under way when nothing comes any more.
        (0..40).for_each(|more| _ = ask(&mut flow, ms(3990), 500 + more));
        silent_after(&mut flow, 4000);
        let probe = ask(&mut flow, ms(4500), 600);
        answer(&mut flow, ms(4540), probe, 600);
        assert!(flow.silent_since().is_none() && flow.unanswered.share < 0.05, "{:?}", flow.unanswered);
        // The next outage is noticed when two have timed out, not seven.
        assert_eq!(silent_after(&mut flow, 4540), 60);
    }

    #[test]
    fn a_path_that_answers_probes_and_brings_no_packet_is_asked_for_one_at_a_time_and_ever_more_rarely() {
        let mut flow = flow_with_answers(1);
        // Asks until it is silent, has the probe answered, and gives the moment of that.
        let next_life = |flow: &mut Flow, from: u32| {
            let probe_at = from + silent_after(flow, from) + 10;
            let probe = ask(flow, ms(probe_at), 0);
            assert_eq!(flow.on_probe(ms(probe_at + 30), probe, 0), Answer::Expected);
            flow.on_batch_end(ms(probe_at + 30));
            assert!(flow.silent_since().is_none());
            probe_at + 30
        };
        let first = next_life(&mut flow, 4000);
        ask(&mut flow, ms(first), 6);
        assert!(flow.room(ms(first + 20)) > 0, "an outage may be over");
        let mut now = first;
        let mut pauses = Vec::new();
        for _ in 0..3 {
            now = next_life(&mut flow, now) + 2000;
            assert_eq!(flow.room(ms(now)), 1);
            let number = ask(&mut flow, ms(now), 7);
            assert_eq!(flow.room(ms(now + 20)), 0);
            // It is lost.
            flow.on_refusal(ms(now + 1), number, 7, &mut Vec::new());
            pauses.extend((0..).find(|after| flow.room(ms(now + after)) == 1));
        }
        assert!(pauses.is_sorted() && pauses[0] >= 100 && pauses[2] >= 300, "{pauses:?}");
        let number = ask(&mut flow, ms(now + 1000), 8);
        answer(&mut flow, ms(now + 1040), number, 8);
        ask(&mut flow, ms(now + 1040), 9);
        assert!(flow.room(ms(now + 1060)) > 0, "it brings packets");
    }

    #[test]
    fn what_is_lost_is_remembered_until_64_more_are_settled_however_much_is_under_way() {
        for (settled, expected) in [(63, Answer::Late), (64, Answer::Unsolicited)] {
            let mut flow = flow();
            let numbers: Vec<u16> = (0..200).map(|packet| ask(&mut flow, ms(packet), packet)).collect();
            let lost: Vec<u32> = (1..=settled)
                .flat_map(|packet| answer(&mut flow, ms(200 + packet), numbers[packet as usize], packet))
                .collect();
            assert_eq!(lost, [0]);
            assert_eq!(flow.on_data(ms(300), numbers[0], 0, PACKET, Came::FromSource), expected, "after {settled}");
        }
    }

    #[test]
    fn a_path_that_reordered_once_learns_of_losses_as_soon_as_before() {
        let mut flow = flow();
        let mut until_lost = Vec::new();
        for sixty in 0..42 {
            let first = sixty * 60;
            let at = sixty * 200;
            let numbers: Vec<u16> = (0..60).map(|packet| ask(&mut flow, ms(at + packet), first + packet)).collect();
            // The first one of each sixty does not come, but once after forty others.
            for packet in 1..60 {
                let now = ms(at + 100 + packet);
                if answer(&mut flow, now, numbers[packet as usize], first + packet).contains(&first) {
                    until_lost.push(packet);
                }
                if (sixty, packet) == (1, 40) {
                    assert_eq!(flow.on_data(now, numbers[0], first, PACKET, Came::FromSource), Answer::Late);
                }
            }
        }
        // Losses 3 to 16 of the first sixteen, and all of the next, take the path to reorder by fifty.
        assert_eq!(until_lost[..2], [3, 3]);
        assert!(until_lost[2..32].iter().all(|&packets| packets == 50), "{until_lost:?}");
        assert!(until_lost[32..].iter().all(|&packets| packets == 3), "{until_lost:?}");
        assert_eq!(until_lost.len(), 42);
    }
}

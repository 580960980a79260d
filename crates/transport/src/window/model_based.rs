//! A model of the path: the rate of its bottleneck and its smallest round-trip time (BBR-style).
//!
//! ```text
//!   Startup ──(rate stops growing)──► Drain ──(queue empty)──► Probe: 1.25, 0.75, 1 × 6 of the rate, an RTT each
//!                                                                │  ▲
//!                                          (RTT minimum is old)  ▼  │  (much is lost, or there is new room)
//!                                                    ProbeRtt, ProbeLoss, Refill
//! ```
//! Startup ends at once, without a queue to drain, when the path delivers the rate that the network announced.
//!
//! Differences from BBR (draft-cardwell-iccrg-bbr-congestion-control): the receiver paces requests, not data; the RTT
//! probe ends two round trips after half of the target is left in flight, and is rarer on long paths; the window is
//! smaller (BBR's is twice the bandwidth-delay product) unless the rate of a private link varies; and the pace
//! compensates random loss, because at a loss of a fifth the probe's gain of 1.25 would be used up and the estimate
//! could never grow again. A loss probe (`loss_meter.rs`) finds out which loss is random, by requesting less. Among
//! flows that fill the queue another window applies (`rivals.rs`).
use tributary_core::{Duration, Ecn, Rate, Time};

use super::{
    Arrival, Controller, GroupPart, Growth, Loss, ProbeTurn, RateFilter,
    bucket::{Bucket, Circumstances},
    loss_meter::{LOSS_FREE, LossMeter, LossProbe, QUEUES_MAX, Round},
    portion_bytes,
    rivals::{self, Rivals, Stage, Turn},
};
use crate::TransferConfig;

const STARTUP_GAIN: f64 = 2.77;
/// The window, as a multiple of the bytes that the path delivers in its smallest round trip. Where the rate varies and
/// the queue is private, the window leaves enough in flight for a sudden increase of the rate, which a radio shows
/// within tens of milliseconds.
const WINDOW_GAIN: f64 = 1.25;
const WINDOW_GAIN_VARYING: f64 = 3.0;
/// Among flows that do not yield: BBR's window (twice the product). Against flows that did not yield while this one did
/// the window is larger, as they lose a third of their packets without reacting.
const PRESSING: Pressing = Pressing { window_gain: 2.0, loss_compensated: 0.1 };
const PRESSING_FOR_SURE: Pressing = Pressing { window_gain: 3.0, loss_compensated: 0.4 };
/// A queue that lengthens round trips by less does not indicate rivals: machines and the batches of fast paths do too.
const RIVALS_QUEUE: Duration = Duration::from_millis(4);
/// The pace of a window among rivals, as a multiple of the window per round trip: the window limits, the pace only
/// spreads.
const COMPETITIVE_PACE: f64 = 1.25;
/// Growth of the rate in a round of Startup; less for some rounds ends it.
const STARTUP_GROWTH: f64 = 1.25;
/// Startup ends if the loss grows by this much from one round to the next.
const STARTUP_LOSS: f64 = 0.1;
/// Packets of a round that suffice to end it early.
const STARTUP_LOSS_PACKETS: f64 = 40.0;
/// Round trips this many times as long as the smallest show that a link of one's own has slowed down; its rate then
/// counts as varying for this long.
const FALLEN: u32 = 3;
const VARYING_LIFE: Duration = Duration::from_secs(10);
/// Minimum packets in flight.
const WINDOW_PACKETS_MIN: u64 = 4;
const COMPETITIVE_WINDOW_PACKETS: u64 = 2;
/// The pace behind a bucket, as a part of the rate: its limit decides.
const GAIN_LIMITED: f64 = 1.05;
/// Longest round trip of a path whose losses are watched for a token bucket.
const BUCKET_RTT_MAX: Duration = Duration::from_millis(15);
/// The time by which the packet that waits for its token, and this machine, lengthen round trips without a queue.
const BUCKET_QUEUE: Duration = Duration::from_millis(2);
/// The burst that a nearly empty bucket bears, as time at its rate.
const BURST_LIMITED: Duration = Duration::from_millis(2);
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// A probe whose best rate is this many times the previous one has found capacity.
const FOUND_ROOM: f64 = 1.15;
/// Pace and window, as multiples of the path's rate and product, where free capacity was found.
const REFILL_GAIN: f64 = 2.0;
/// Rounds without growth that end it.
const REFILL_ROUNDS: u32 = 3;
/// How long the smallest RTT counts.
const RTT_LIFE: Duration = Duration::from_secs(10);
/// A confirmed smallest round trip counts for this many round trips, if the path still delivers this part of its rate:
/// probes of long paths then take no larger share of the time than probes of short ones. It is rounded to whole lives,
/// up to this many: flows that share a queue see it empty only if they probe together.
const RTT_LIFE_ROUNDS: u32 = 150;
const RTT_LIVES_MAX: u128 = 3;
const RTT_LIFE_RATE: f64 = 0.8;
/// A round that a shared queue lengthens counts as this many at most. With a private queue the rate is remembered for
/// longer: a radio may soon reach its earlier rate again.
const LONG_ROUND_MAX: f64 = 4.0;
/// Smaller round-trip times measure batches and schedulers, not the path.
const RTT_FLOOR: Duration = Duration::from_micros(500);
/// Maximum duration of such a probe, if that is more than two round trips.
const RTT_PROBE: Duration = Duration::from_millis(100);
/// The window of the probe, as a part of the path's bandwidth-delay product. On a shared queue all flows keep half: the
/// queue drains if the smallest is less than twice the true one. One's own queue drains soonest with next to nothing in
/// flight.
const RTT_PROBE_SHARED: f64 = 0.5;
const RTT_PROBE_OWN: f64 = 0.1;
/// Maximum loss that the pace compensates for: while the queue is empty, so that the pace cannot be its cause, and
/// otherwise.
const LOSS_COMPENSATED_MAX: [f64; 2] = [0.9, 0.1];
/// Loss that needs no compensation, as a part of the arriving bytes.
const LOSS_FREE_ARRIVED: f64 = 0.05;
/// Packets that a flow claims beyond its share for the root of each packet of its bandwidth-delay product.
const CLAIM_PACKETS: f64 = 3.0;
/// Pace and window of a loss probe, as parts of the path's rate and product.
const LOSS_PROBE_GAIN: f64 = 0.5;
/// The part of its window by which a flow backs off when a queue overflows.
const OVERFLOW_CUT: f64 = 0.15;
/// The part of its bandwidth-delay product that a flow keeps when packets are marked.
const MARK_FLOOR: f64 = 0.9;
/// The cut of the path's product if all packets are marked; if fewer are, in proportion.
const MARKS_YIELD: f64 = 0.8;
/// The weight of a round in the share of marks (draft-briscoe-iccrg-prague-congestion-control §2.4.2).
const MARKS_WEIGHT: f64 = 1.0 / 16.0;
/// After this many rounds without an overflow the ceiling rises twice as fast.
const CEILING_DOUBLES: u32 = 8;
/// A queue that stood for this many rounds and is suddenly empty indicates new capacity.
const STANDING_ROUNDS: u32 = 4;
/// Loss after this many rounds without any queue is no overflow.
const CALM_ROUNDS: u32 = 3;
/// The part of the announced rate whose delivery confirms it: headers and some loss take the remainder.
const CONFIRMED: f64 = 0.9;
/// A round of Startup with this few packets, or in which the rate grew this many times, did not fill the path.
const FEW_PACKETS: f64 = 32.0;
const UNFILLED_GROWTH: f64 = 1.8;

/// How a flow shares with flows that do not yield.
#[derive(Clone, Copy, Debug)]
struct Pressing {
    /// Its window, as a multiple of the path's bandwidth-delay product.
    window_gain: f64,
    /// Maximum loss that the pace compensates for.
    loss_compensated: f64,
}

/// What a queue that overflowed has taught.
#[derive(Clone, Copy, Debug)]
struct Ceiling {
    bytes: f64,
    clean_rounds: u32,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    Startup { rate_before: f64, rounds_without_growth: u32 },
    Drain,
    Probe { step: usize, since: Time },
    Refill { rounds_left: u32 },
    ProbeRtt { until: Time, before: Duration },
    ProbeLoss(LossProbe),
}

impl Default for Phase {
    fn default() -> Self {
        Phase::Startup { rate_before: 0.0, rounds_without_growth: 0 }
    }
}

tributary_core::declared! {
    /// Keeps about one bandwidth-delay product in flight, at any loss.
    #[derive(Clone, Debug, Default)]
    pub struct ModelBased {
        phase: Phase = Phase::default(),
        rate: RateFilter = RateFilter::default(),
        rtt_min: Option<(Duration, Time)> = None,
        /// The best rate when it was last seen.
        rate_at_rtt_min: f64 = 0.0,
        /// Whether the last probe of the smallest RTT confirmed the known one.
        is_confirmed: bool = false,
        shares_queues: bool = config.shares_queues,
        watches_rivals: bool = config.shares_queues && config.watch_rivals,
        /// Whether the rate of a private link varies, and when it was last seen to have fallen.
        is_varying: bool = false,
        fell_at: Option<Time> = None,
        /// Smallest sample of this round and of the last one.
        rtt_this_round: Option<Duration> = None,
        rtt_last_round: Option<Duration> = None,
        /// Mean of the samples of the last one.
        rtt_mean_last: Option<Duration> = None,
        /// Sum and number of the samples of this round.
        rtt_sum: (Duration, u32) = Default::default(),
        /// Rounds in a row without any queue, and with one all the time.
        calm_rounds: u32 = 0,
        standing_rounds: u32 = 0,
        /// The best rate when the last probe for more started.
        rate_before_probe: f64 = f64::INFINITY,
        round: u64 = 0,
        round_ends_at: u64 = 0,
        loss: LossMeter = LossMeter::default(),
        /// Whether the share of marks tells how much to yield; the share, smoothed.
        marks_count: bool = config.ecn == Ecn::Scalable,
        marks: f64 = 0.0,
        /// The rate that the network announced for the path, in bytes per second.
        expected: Option<f64> = None,
        /// Maximum bytes in flight since a queue overflowed.
        ceiling: Option<Ceiling> = None,
        rivals: Rivals = Rivals::default(),
        bucket: Bucket = Bucket::default(),
        /// The part lost in the last round of Startup.
        lost_in_startup: f64 = 0.0,
        /// Its part in a group of sub-flows that share a link.
        part: GroupPart = GroupPart::default(),
        packet_bytes: u64 = packet_bytes,
        window_initial: u64 = window_initial,
        window_max: u64 = config.window_bytes_max,
        request_duration: Duration = config.request_duration,
        request_burst: Duration = config.request_burst,
        request_bytes_max: u64 = u64::from(config.request_packets_max) * packet_bytes,
        /// The window that follows from all fields above: read several times a packet, computed once.
        window: u64 = window_initial.min(config.window_bytes_max),
        pacing_rate: Option<Rate> = None,
    }
    /// Starts with the configured initial window and no model.
    pub fn new(config: &TransferConfig, packet_bytes: u64, _now: Time) {
        let window_initial = u64::from(config.window_initial_packets) * packet_bytes;
    }
}

impl ModelBased {
    /// Bandwidth-delay product in bytes; `None` without a model.
    fn product(&self) -> Option<f64> {
        let (rtt, _) = self.rtt_min?;
        let rate = self.rate.best() * self.part.scale;
        (rate > 0.0).then(|| rate * rtt.max(RTT_FLOOR).as_secs_f64())
    }
    /// Bytes that requests, answers and system calls hold back because they come in portions, not in packets. Sub-flows
    /// that share a link hold back three packets together where portions are smaller: an amount that does not depend on
    /// the rate is a claim on the link.
    fn held_back(&self) -> u64 {
        let packet = (self.packet_bytes as f64 / self.part.times) as u64;
        3 * self.request_bytes().clamp(packet, self.request_bytes_max)
    }
    /// Bytes of one request.
    fn portion(&self) -> u64 {
        self.request_bytes().clamp(self.packet_bytes, self.request_bytes_max)
    }
    /// Bytes that arrive in the time that one request covers.
    fn request_bytes(&self) -> u64 {
        let rate = Rate::from_bytes_per_second(self.rate.best() as u64);
        portion_bytes(rate, self.request_duration, self.request_burst, self.packet_bytes)
    }
    /// Bytes beyond the share in proportion to its rate. Where flows compete with windows in proportion to their rates,
    /// every division of the link is stable; a claim that grows slower than the rate makes equal shares the only stable
    /// division. Sub-flows that share a link have one claim together.
    fn claim(&self, product: f64) -> u64 {
        let packet = self.packet_bytes as f64;
        let together = product * self.part.times / packet;
        (CLAIM_PACKETS * libm::sqrt(together) * packet / self.part.times) as u64
    }
    /// The factor on pace and window that makes up for random loss.
    fn compensation(&self) -> f64 {
        let [empty, standing] = LOSS_COMPENSATED_MAX;
        if matches!(self.phase, Phase::ProbeLoss(_)) || self.bucket.limit().is_some() {
            return 1.0;
        }
        if self.rivals.press() {
            return 1.0 / (1.0 - self.loss.share.min(self.pressing().loss_compensated));
        }
        let most = if self.queue_is_empty() { empty } else { standing.max(self.loss.proved()).min(empty) };
        // Without the loss that needs no compensation: a part of the arriving bytes, which is little where most is
        // lost.
        let lost = self.loss.compensated();
        1.0 / (1.0 - (lost - LOSS_FREE.min(LOSS_FREE_ARRIVED * (1.0 - lost))).clamp(0.0, most))
    }
    /// Whether a loss is explained by the queue, without a probe.
    fn queue_is_long(&self) -> bool {
        self.rtt_min.zip(self.rtt_last_round).is_some_and(|((minimum, _), last)| last > minimum * 3 / 2)
    }
    /// Whether the mean of the last round's round trips was at most `queue` above the smallest.
    fn queue_is_below(&self, queue: Duration) -> bool {
        self.rtt_min.zip(self.rtt_mean_last).is_some_and(|((minimum, _), mean)| mean <= minimum + queue)
    }
    fn pressing(&self) -> Pressing {
        if self.rivals.press_for_sure() { PRESSING_FOR_SURE } else { PRESSING }
    }
    fn queue_is_empty(&self) -> bool {
        match (self.rtt_min, self.rtt_last_round) {
            (Some((minimum, _)), Some(last)) => last <= minimum + minimum / 5 + Duration::from_micros(500),
            _ => true,
        }
    }
    /// Lowers or raises the ceiling after a round. Random loss occurs with an empty queue as well, and that much is no
    /// sign. Clearly more is an overflow, most likely of several flows, if a standing queue accompanies it or if it
    /// lasts for several rounds. A mark always is one.
    fn on_round_of_losses(&mut self, now: Time, Round { share, packets, marked }: Round) {
        let is_marked = marked > 0.0;
        self.marks += (marked - self.marks) * MARKS_WEIGHT;
        if self.queue_is_empty() && matches!(self.phase, Phase::Probe { .. }) {
            self.loss.on_empty_queue(share);
        }
        let packet = self.packet_bytes as f64;
        let product = self.product().unwrap_or(0.0);
        // A sub-flow represents all sub-flows of its link.
        let packets = packets * self.part.times;
        let usual = self.loss.chance_of(self.lost_in_startup, packets);
        let is_overflow = || match self.phase {
            // A queue that was full at the flow's start looks like the path's own delay; random loss does not stop the
            // rate from growing.
            Phase::Startup { rate_before, .. } => {
                let is_full = self.rate.best() < rate_before * STARTUP_GROWTH
                    && (usual + STARTUP_LOSS..QUEUES_MAX).contains(&share);
                !self.queue_is_empty() || self.watches_rivals && !self.watches_buckets() && is_full
            }
            Phase::Drain => !self.queue_is_empty(),
            Phase::ProbeLoss(_) => false,
            Phase::Probe { .. } | Phase::Refill { .. } | Phase::ProbeRtt { .. } => {
                !self.queue_is_empty() || self.loss.overflows() && self.calm_rounds < CALM_ROUNDS
            }
        };
        let overflows = is_marked || share > self.loss.usual_max(packets) && is_overflow();
        if let Phase::Startup { .. } = self.phase {
            self.lost_in_startup = share;
        }
        if overflows {
            if let Phase::Startup { .. } = self.phase {
                self.phase = Phase::Drain;
            }
            let window = self.window_of_model();
            // A mark may come from a queue of a few packets, so that the window stays near the path's product. Scalable
            // marks come in most rounds: a rate that fell with each of them would not return. The claim makes shares equal.
            let kept = match (is_marked, self.marks_count) {
                (false, _) => 0.0,
                (true, false) => product * MARK_FLOOR,
                (true, true) => {
                    product * (1.0 - self.marks * MARKS_YIELD) + (self.held_back() + self.claim(product)) as f64
                }
            };
            let floor = kept.max((WINDOW_PACKETS_MIN * self.packet_bytes) as f64);
            let cut = if is_marked && self.marks_count { self.marks / 2.0 } else { OVERFLOW_CUT };
            let bytes = (window as f64 * (1.0 - cut)).max(floor);
            self.ceiling = Some(Ceiling { bytes, clean_rounds: 0 });
            if let Phase::Probe { .. } | Phase::Refill { .. } = self.phase
                && let Some(round_trip) = self.rtt_last_round.filter(|_| self.watches_rivals && !is_marked)
            {
                let turn = self.rivals.on_overflow(self.together(window), self.rate.best(), round_trip);
                self.take_turn(now, round_trip, turn);
            }
        } else if let Some(ceiling) = &mut self.ceiling {
            ceiling.clean_rounds += 1;
            // By packets and not by a share, so that flows become equal; accelerating, because capacity may be new.
            // Each of n sub-flows meets an n-th of the losses and yields a part of an n-th: so together they may gain
            // an n-th.
            let steps = f64::from(1u32 << (ceiling.clean_rounds / CEILING_DOUBLES).min(8));
            ceiling.bytes += steps * packet / (self.part.times * self.part.times);
            // The path's product without a queue is below the ceiling, even if the ceiling was set at a lower rate.
            if self.calm_rounds >= CALM_ROUNDS {
                ceiling.bytes = ceiling.bytes.max(product);
            }
            if ceiling.bytes > self.window_max as f64 {
                self.ceiling = None;
            }
        }
    }
    /// Starts and ends probes of the losses, once per round.
    fn probe_losses(&mut self, now: Time, starved: bool) {
        let is_calm = self.calm_rounds > 0;
        if let Phase::ProbeLoss(probe) = &mut self.phase {
            probe.on_round(is_calm);
            if is_calm {
                self.rate.on_sample(probe.rate, self.round);
            }
        }
        match self.phase {
            Phase::ProbeLoss(probe) if self.loss.is_over(&probe) => {
                self.phase = Phase::Probe { step: 2, since: now };
                let is_random = self.loss.on_probed(now, self.packet_bytes, &probe);
                if is_random && self.queue_is_empty() {
                    self.ceiling = None;
                }
            }
            Phase::Probe { .. }
                if !starved && !self.queue_is_long() && !self.rivals.are_seen() && self.bucket.limit().is_none() =>
            {
                let round_trip = self.rtt_last_round.unwrap_or(Duration::ZERO);
                if let Some(probe) = self.loss.begin_probe(now, round_trip, self.rate.best()) {
                    self.phase = Phase::ProbeLoss(probe);
                }
            }
            _ => {}
        }
    }
    /// A round has passed; `starved` if the flow lacked packets to show whether the rate can still grow.
    fn on_round(&mut self, now: Time, starved: bool) {
        self.on_round_of_rtts(now);
        self.on_round_of_rivals(now);
        let at = self.circumstances(now);
        match self.watches_buckets() {
            true => self.bucket.on_round(at),
            // A limit of a bucket that is no longer watched would never end.
            false => self.bucket = Bucket::default(),
        }
        self.round += self.rounds_in_a_long_one();
        let round = self.loss.on_round(self.packet_bytes, self.portion() / self.packet_bytes, self.part.times);
        self.on_round_of_refill(now);
        round.into_iter().for_each(|round| self.on_round_of_losses(now, round));
        self.probe_losses(now, starved);
        if let Phase::Startup { rate_before, rounds_without_growth } = self.phase
            && !starved
        {
            let rate = self.rate.best();
            let is_unfilled = |round: &Round| round.packets <= FEW_PACKETS || rate >= rate_before * UNFILLED_GROWTH;
            if let Some(round) = round.filter(is_unfilled).filter(|_| self.calm_rounds > 0) {
                self.loss.on_unfilled(round);
            }
            self.phase = if self.expected.is_some_and(|expected| rate >= expected * CONFIRMED) {
                Phase::Probe { step: 0, since: now }
            } else if rate >= rate_before * STARTUP_GROWTH {
                Phase::Startup { rate_before: rate, rounds_without_growth: 0 }
            } else if rounds_without_growth >= 2 {
                Phase::Drain
            } else {
                Phase::Startup { rate_before, rounds_without_growth: rounds_without_growth + 1 }
            };
        }
    }
    /// The number of round trips without a queue that the last one is worth: the time for which a rate is remembered
    /// must not depend on the queue, least of all where a path has become slower and its queue is full.
    fn rounds_in_a_long_one(&self) -> u64 {
        if !self.shares_queues {
            return 1;
        }
        let (Some((minimum, _)), Some(last)) = (self.rtt_min, self.rtt_last_round) else { return 1 };
        let times = last.as_secs_f64() / minimum.max(RTT_FLOOR).as_secs_f64();
        (times + 0.5).clamp(1.0, LONG_ROUND_MAX) as u64
    }
    /// Checks for a queue in this round, and probes at once if a standing queue has drained.
    fn on_round_of_rtts(&mut self, now: Time) {
        let (Some(smallest), Some((minimum, _))) = (self.rtt_this_round.take(), self.rtt_min) else { return };
        self.rtt_last_round = Some(smallest);
        if matches!(self.phase, Phase::Probe { .. }) && !self.shares_queues && smallest > minimum * FALLEN {
            self.fell_at = Some(now);
        }
        self.is_varying = self.fell_at.is_some_and(|at| now.since(at) < VARYING_LIFE);
        let (sum, count) = core::mem::take(&mut self.rtt_sum);
        self.rtt_mean_last = Some(sum / count.max(1));
        // A mean, because the queue of random early detection is short and fluctuates.
        let is_calm = sum / count.max(1) <= minimum + minimum / 16 + Duration::from_micros(500);
        self.calm_rounds = if is_calm { self.calm_rounds + 1 } else { 0 };
        let has_vanished = self.standing_rounds >= STANDING_ROUNDS && self.queue_is_empty();
        self.standing_rounds = if self.queue_is_empty() { 0 } else { self.standing_rounds + 1 };
        if let (true, Phase::Probe { step: 2.., .. }) = (has_vanished, self.phase) {
            self.probe(now);
        }
    }
    /// Looks for rivals, and adjusts the window to their behaviour.
    fn on_round_of_rivals(&mut self, now: Time) {
        let Some(round_trip) = self.rtt_last_round.filter(|_| self.watches_rivals) else { return };
        let round = rivals::Round {
            now,
            round_trip,
            times: self.rounds_in_a_long_one() as u32,
            is_calm: self.calm_rounds > 0 || self.bucket.limit().is_some() || self.queue_is_below(RIVALS_QUEUE),
            stage: match self.phase {
                Phase::Drain => Stage::Draining,
                Phase::Probe { .. } => Stage::Probing,
                Phase::ProbeRtt { .. } => Stage::Measuring,
                Phase::Startup { .. } | Phase::Refill { .. } | Phase::ProbeLoss(_) => Stage::Other,
            },
            is_alone: self.part.times <= 1.0,
            lost: self.loss.share,
            may_be_random: self.loss.may_be_random(),
            window: self.together(self.window_of_model()),
            window_max: self.together(self.window_max),
            rate: self.rate.best(),
        };
        let turn = self.rivals.on_round(round);
        self.take_turn(now, round_trip, turn);
    }
    /// Reacts to the rivals' behaviour.
    fn take_turn(&mut self, now: Time, round_trip: Duration, turn: Option<Turn>) {
        match turn {
            Some(Turn::Measure) => {
                let Some((minimum, _)) = self.rtt_min else { return };
                if let Phase::Drain = self.phase {
                    self.loss.on_drained(now, round_trip, self.rate.best());
                }
                self.see_rtt_min(now, round_trip);
                self.begin_rtt_probe(now, round_trip, minimum);
            }
            Some(Turn::BeginAnew) => {
                self.ceiling = None;
                self.phase = Phase::Startup { rate_before: 0.0, rounds_without_growth: 0 };
            }
            Some(Turn::GoOn(window)) => self.go_on_from(window),
            None => {}
        }
    }
    /// Probes the round-trip time, which is `sample` now and was `before`.
    fn begin_rtt_probe(&mut self, now: Time, sample: Duration, before: Duration) {
        self.phase = Phase::ProbeRtt { until: now + RTT_PROBE.max(sample * 2), before };
    }
    /// Continues from the window that it had among suspected rivals.
    fn go_on_from(&mut self, window: f64) {
        let bytes = window * self.packet_bytes as f64 / self.part.times;
        self.ceiling = Some(Ceiling { bytes, clean_rounds: 0 });
    }
    /// Packets of all sub-flows together if this one has `bytes`.
    fn together(&self, bytes: u64) -> f64 {
        bytes as f64 / self.packet_bytes as f64 * self.part.times
    }
    /// Bytes of this sub-flow among rivals that fill the queue, unless it measures the round-trip time.
    fn competitive_window(&self) -> Option<u64> {
        let window = self.rivals.window()?;
        let bytes = (window * self.packet_bytes as f64 / self.part.times) as u64;
        let measures = matches!(self.phase, Phase::ProbeRtt { .. } | Phase::Startup { .. });
        (!measures).then(|| bytes.max(COMPETITIVE_WINDOW_PACKETS * self.packet_bytes).min(self.window_max))
    }
    /// Probes out of turn, because rival flows or the path itself have changed.
    fn probe(&mut self, now: Time) {
        self.rate_before_probe = self.rate.best();
        self.phase = Phase::Probe { step: 0, since: now };
        self.raise_ceiling(CYCLE[0]);
    }
    /// Lifts the ceiling that an overflow had set, to `gain` times the path's product.
    fn raise_ceiling(&mut self, gain: f64) {
        let product = self.product().unwrap_or(0.0);
        let enough = product * gain + (self.held_back() + self.claim(product)) as f64;
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.bytes = ceiling.bytes.max(enough);
        }
    }
    /// Whether the probe found capacity; its result arrives during the next rounds. If it did, there may be more, as
    /// after a burst of congestion. Capacity taken from other flows leaves a queue.
    fn found_room(&self, step: usize) -> bool {
        (2..4).contains(&step) && self.rate.best() >= self.rate_before_probe * FOUND_ROOM && self.calm_rounds > 0
    }
    /// Fills free capacity as Startup does, but only until a queue forms. The old ceiling was learned when the path
    /// carried less.
    fn refill(&mut self) {
        self.raise_ceiling(REFILL_GAIN);
        self.rate_before_probe = self.rate.best();
        self.phase = Phase::Refill { rounds_left: REFILL_ROUNDS };
    }
    fn on_round_of_refill(&mut self, now: Time) {
        let Phase::Refill { rounds_left } = self.phase else { return };
        if self.calm_rounds == 0 {
            self.phase = Phase::Probe { step: 1, since: now };
        } else if self.rate.best() >= self.rate_before_probe * FOUND_ROOM {
            self.refill();
        } else if rounds_left == 0 {
            self.phase = Phase::Probe { step: 2, since: now };
        } else {
            self.phase = Phase::Refill { rounds_left: rounds_left - 1 };
        }
    }
    fn on_rtt(&mut self, now: Time, sample: Duration) {
        self.rtt_sum = (self.rtt_sum.0 + sample, self.rtt_sum.1 + 1);
        self.rtt_this_round = Some(self.rtt_this_round.map_or(sample, |smallest| smallest.min(sample)));
        match self.rtt_min {
            // A sample close to the minimum renews it: the queue was empty, so that a probe is unnecessary.
            Some((minimum, _)) if sample <= minimum => self.see_rtt_min(now, sample),
            Some((minimum, _)) if is_close(sample, minimum) => self.see_rtt_min(now, minimum),
            Some((minimum, since)) if now.since(since) > self.rtt_life(minimum) => match self.phase {
                // A Startup of this length lacked packets to send, or none passed: a probe would end it before it has
                // found anything.
                Phase::Startup { .. } => self.see_rtt_min(now, minimum),
                Phase::ProbeRtt { .. } => self.see_rtt_min(now, sample),
                _ => self.begin_rtt_probe(now, sample, minimum),
            },
            Some(_) => {}
            None => self.see_rtt_min(now, sample),
        }
    }
    fn see_rtt_min(&mut self, now: Time, minimum: Duration) {
        self.rtt_min = Some((minimum, now));
        self.rate_at_rtt_min = self.rate.best();
    }
    /// How long the smallest RTT counts. One measured in a queue of other flows, or before the path slowed down, needs
    /// correction soon.
    fn rtt_life(&self, minimum: Duration) -> Duration {
        if !self.is_confirmed || self.rate.best() < self.rate_at_rtt_min * RTT_LIFE_RATE {
            return RTT_LIFE;
        }
        let lives = (minimum * RTT_LIFE_ROUNDS).as_nanos().div_ceil(RTT_LIFE.as_nanos());
        RTT_LIFE * lives.clamp(1, RTT_LIVES_MAX) as u32
    }
    fn advance(&mut self, now: Time, in_flight: u64) {
        let Some((rtt, _)) = self.rtt_min else { return };
        let product = self.product().unwrap_or(0.0);
        match self.phase {
            // Lost packets count as in flight until their loss is detected.
            Phase::Drain if in_flight as f64 <= product * self.compensation() => {
                let probe = self.loss.on_drained(now, rtt, self.rate.best());
                self.phase = probe.map_or(Phase::Probe { step: 2, since: now }, Phase::ProbeLoss);
            }
            Phase::Probe { step, .. } if self.found_room(step) => self.refill(),
            Phase::Probe { .. } if self.part.turn.is_some() => {}
            Phase::Probe { step, since } => {
                let elapsed = now.since(since) > rtt;
                let done = match step {
                    0 => {
                        elapsed && in_flight as f64 >= 1.25 * product.min(self.window_max as f64 / 1.3)
                            || now.since(since) > rtt * 3
                    }
                    1 => elapsed || in_flight as f64 <= product,
                    _ => elapsed,
                };
                if done {
                    let step = (step + 1) % CYCLE.len();
                    if step == 0 {
                        self.rate_before_probe = self.rate.best();
                    }
                    self.phase = Phase::Probe { step, since: now };
                }
            }
            // One round trip without a queue measures, a second one lets the other flows see the empty queue, so that
            // their next probes coincide; with one only, flows took each other's queues for the path's delay.
            Phase::ProbeRtt { until, before }
                if now < until && (!self.shares_queues || in_flight <= self.window_of_model()) =>
            {
                self.phase = Phase::ProbeRtt { until: until.min(now + rtt * 2), before };
            }
            Phase::ProbeRtt { until, before } if now >= until => {
                self.is_confirmed = is_close(rtt, before) && is_close(before, rtt);
                let is_empty = is_close(rtt, before);
                let is_queue = !is_empty && self.rivals.are_behind(rtt);
                let window = self.rivals.on_measured(now, is_empty, self.rate.best());
                if let Some(window) = window {
                    self.go_on_from(window);
                }
                self.see_rtt_min(now, if is_queue { before } else { rtt });
                self.phase = Phase::Probe { step: 2, since: now };
            }
            _ => {}
        }
    }
    fn window_of_model(&self) -> u64 {
        let Some(product) = self.product() else { return self.window_initial.min(self.window_max) };
        if let Some(window) = self.competitive_window() {
            return window;
        }
        let gain = match self.phase {
            Phase::Startup { .. } => STARTUP_GAIN,
            // No claim, so that the other flows on the link see the queue drain too and do not mistake it for the
            // path's delay.
            Phase::ProbeRtt { .. } if self.shares_queues => RTT_PROBE_SHARED,
            Phase::ProbeRtt { .. } => RTT_PROBE_OWN,
            Phase::ProbeLoss(_) => 1.0,
            Phase::Refill { .. } => REFILL_GAIN,
            Phase::Drain | Phase::Probe { .. } if self.is_varying => WINDOW_GAIN_VARYING,
            Phase::Drain | Phase::Probe { .. } if self.rivals.press() => self.pressing().window_gain,
            Phase::Drain | Phase::Probe { .. } => WINDOW_GAIN,
        };
        let floor = match self.phase {
            Phase::Startup { .. } => self.window_initial,
            _ => WINDOW_PACKETS_MIN * self.packet_bytes,
        };
        let extra = match self.phase {
            Phase::ProbeRtt { .. } => 0,
            Phase::ProbeLoss(_) => self.held_back(),
            _ => self.held_back() + self.claim(product),
        };
        let window = (product * gain * self.compensation()) as u64 + extra;
        let ceiling = self.ceiling.filter(|_| !self.rivals.press()).map_or(u64::MAX, |ceiling| ceiling.bytes as u64);
        window.min(ceiling).max(floor).min(self.window_max)
    }
    fn pacing_rate_of_model(&self) -> Option<Rate> {
        self.rtt_min?;
        if let Some(window) = self.competitive_window() {
            let round_trip = self.rtt_last_round?.max(RTT_FLOOR);
            return Rate::over((window as f64 * COMPETITIVE_PACE) as u64, round_trip);
        }
        let rate = self.rate.best() * self.part.scale;
        if rate <= 0.0 {
            return None;
        }
        let rate = (rate * self.compensation()).max(self.rate_min()) * self.gain();
        let rate = self.bucket.limit().map_or(rate, |limit| rate.min(limit)) as u64;
        // The first samples of Startup come from a window that does not fit the path yet.
        if let Phase::Startup { .. } = self.phase {
            let (rtt, _) = self.rtt_min?;
            let floor = Rate::over(self.window_initial, rtt).map_or(0, |rate| rate.bytes_per_second());
            let floor = self.bucket.limit().map_or(floor, |limit| floor.min(limit as u64));
            return Some(Rate::from_bytes_per_second(rate.max(floor)));
        }
        Some(Rate::from_bytes_per_second(rate))
    }
    /// The rate that fills the smallest window in the smallest round trip: with less in flight too few answers would
    /// arrive to measure random loss, and uncompensated loss lowers the rate round by round.
    fn rate_min(&self) -> f64 {
        let Some((rtt, _)) = self.rtt_min else { return 0.0 };
        (WINDOW_PACKETS_MIN * self.packet_bytes) as f64 / self.part.times / rtt.max(RTT_FLOOR).as_secs_f64()
    }
    /// Whether losses may indicate a bucket. On long paths its tokens come and go with the probes of each round trip,
    /// and the loss that the loss meter leaves is some percent; on short ones a round trip is over before a bucket is
    /// empty or full, and the model alone may lose nearly everything.
    fn watches_buckets(&self) -> bool {
        self.rtt_min.is_some_and(|(minimum, _)| minimum <= BUCKET_RTT_MAX) && !self.rivals.are_seen()
    }
    fn circumstances(&self, now: Time) -> Circumstances {
        let least = self.rtt_min.map_or(RTT_FLOOR, |(minimum, _)| minimum.max(RTT_FLOOR));
        Circumstances {
            now,
            round_trip: self.rtt_last_round.unwrap_or(least).max(least),
            has_queue: self.rtt_mean_last.is_some_and(|mean| mean > least + least / 8 + BUCKET_QUEUE),
            is_startup: matches!(self.phase, Phase::Startup { .. }),
            random: self.loss.known(),
            packet_bytes: self.packet_bytes as f64,
        }
    }
    /// Draws the conclusions after a change.
    fn conclude(&mut self) {
        self.window = self.window_of_model();
        self.pacing_rate = self.pacing_rate_of_model();
    }
    /// Whether Startup loses clearly more in this round than in the one before: it requests no more than the bytes
    /// delivered until the round shows whether the path is full, instead of losing two thirds for another round trip or
    /// two.
    fn startup_loses(&self) -> bool {
        let (share, packets) = self.loss.of_round(self.packet_bytes);
        let usual = self.loss.chance_of(self.lost_in_startup, packets);
        self.watches_buckets() && packets >= STARTUP_LOSS_PACKETS && share > usual + STARTUP_LOSS / 2.0
    }
    fn gain(&self) -> f64 {
        match self.phase {
            Phase::Startup { .. } if self.startup_loses() => 1.0,
            Phase::Startup { .. } => STARTUP_GAIN,
            Phase::Drain => 1.0 / STARTUP_GAIN,
            // No other flow waits in a private queue: bytes that the link may soon carry stay there.
            Phase::Probe { step, .. } if self.is_varying => CYCLE[step].max(1.0),
            // Below the rate of a bucket there is nothing to probe by more, and no queue to drain by less.
            Phase::Probe { .. } if self.bucket.limit().is_some() => GAIN_LIMITED,
            Phase::Probe { step, .. } => CYCLE[step],
            Phase::Refill { .. } => REFILL_GAIN,
            Phase::ProbeRtt { .. } => 0.75,
            Phase::ProbeLoss(_) => LOSS_PROBE_GAIN,
        }
    }
}

/// Whether a sample shows no queue beyond this minimum.
fn is_close(sample: Duration, minimum: Duration) -> bool {
    sample <= minimum + minimum / 16 + Duration::from_micros(200)
}

impl Controller for ModelBased {
    fn on_data(&mut self, now: Time, arrival: &Arrival) {
        // A model describes one responder: a cache's rate says nothing about the path to the source.
        if arrival.is_beside {
            return;
        }
        self.loss.on_delivered(arrival.bytes);
        if self.watches_buckets() {
            let at = self.circumstances(now);
            self.bucket.on_delivered(at, arrival.requested_at, arrival.bytes, arrival.starved);
        }
        if let Phase::ProbeLoss(probe) = &mut self.phase {
            probe.on_delivered(arrival.requested_at, arrival.bytes);
        }
        if let Some(rate) = arrival.rate {
            let rate = rate.bits_per_second() as f64 / 8.0;
            if !arrival.starved || rate > self.rate.best() {
                self.rate.on_sample(rate, self.round);
            }
        }
        if arrival.delivered_at_request >= self.round_ends_at {
            self.round_ends_at = arrival.delivered;
            self.on_round(now, arrival.starved);
        }
        if let Some(rtt) = arrival.rtt {
            self.on_rtt(now, rtt);
        }
        self.advance(now, arrival.in_flight);
        self.conclude();
    }
    fn on_loss(&mut self, now: Time, loss: &Loss) {
        self.rivals.on_loss(now, loss.requested_at);
        self.loss.on_lost(loss.requested_at, loss.bytes);
        if self.watches_buckets() {
            let at = self.circumstances(now);
            self.bucket.on_lost(at, loss.requested_at, loss.bytes);
            self.conclude();
        }
        if let Phase::ProbeLoss(probe) = &mut self.phase {
            probe.on_lost(loss.requested_at, loss.bytes);
        }
    }
    fn on_mark(&mut self, now: Time, mark: &Loss) {
        self.rivals.on_mark(now, mark.requested_at);
        self.loss.on_mark(mark.bytes);
    }
    fn on_silence(&mut self, now: Time) {
        // The model stays: a path that returns is most likely the same.
        if let Phase::ProbeRtt { .. } | Phase::ProbeLoss(_) | Phase::Refill { .. } | Phase::Drain = self.phase {
            self.phase = Phase::Probe { step: 2, since: now };
        }
        self.loss.on_silence();
        self.bucket.on_silence();
        self.conclude();
    }
    fn on_return(&mut self, now: Time) {
        if let Some((minimum, _)) = self.rtt_min {
            self.see_rtt_min(now, minimum);
        }
        self.on_silence(now);
    }
    fn expect_rate(&mut self, rate: Rate) {
        self.expected = Some(rate.bits_per_second() as f64 / 8.0);
    }
    fn set_growth(&mut self, _: Growth) {
        // It does not grow with arrivals: `join` makes it fair.
    }
    fn probe_turn(&self) -> Option<ProbeTurn> {
        match self.phase {
            Phase::Probe { step, since } => Some(ProbeTurn { step, since }),
            Phase::Refill { .. } => Some(ProbeTurn { step: 2, since: Time::ZERO }),
            Phase::Startup { .. } | Phase::Drain | Phase::ProbeRtt { .. } | Phase::ProbeLoss(_) => None,
        }
    }
    fn models_rate(&self) -> bool {
        true
    }
    fn own_rate(&self) -> f64 {
        self.rate.best()
    }
    fn yielded_at(&self) -> Option<Time> {
        self.rivals.yielded_at()
    }
    fn join(&mut self, part: GroupPart) {
        self.part = part;
        if let Some(at) = part.yielded_at {
            self.rivals.on_yielded(at, self.rtt_last_round.unwrap_or(Duration::ZERO));
        }
        if let Phase::Probe { step: own, since } = self.phase {
            let ProbeTurn { step, since } = part.turn.unwrap_or(ProbeTurn { step: own, since });
            if let (Some(now), 2.., true) = (part.short, step, self.calm_rounds > 0) {
                self.probe(now);
            } else {
                if step == 0 && own != 0 {
                    self.rate_before_probe = self.rate.best();
                }
                self.phase = Phase::Probe { step, since };
            }
        }
        self.conclude();
    }
    fn window(&self) -> u64 {
        self.window
    }
    fn pacing_rate(&self) -> Option<Rate> {
        self.pacing_rate
    }
    fn burst_max(&self) -> Option<Duration> {
        self.bucket.limit().map(|_| BURST_LIMITED)
    }
    fn phase(&self) -> &'static str {
        match self.phase {
            Phase::Drain | Phase::Probe { .. } | Phase::Refill { .. } if self.rivals.press() => {
                "competing with flows that fill the queue"
            }
            Phase::Drain | Phase::Probe { .. } | Phase::Refill { .. } if self.rivals.are_seen() => "competing",
            Phase::Probe { .. } if self.bucket.limit().is_some() => "below a token bucket's rate",
            Phase::Startup { .. } => "startup",
            Phase::Drain => "drain",
            Phase::Probe { step: 0, .. } => "probe up",
            Phase::Probe { step: 1, .. } => "probe down",
            Phase::Probe { .. } => "steady",
            Phase::Refill { .. } => "refill",
            Phase::ProbeRtt { .. } => "probe rtt",
            Phase::ProbeLoss(_) => "probe loss",
        }
    }
}

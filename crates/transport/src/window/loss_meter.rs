//! Determines the part of its losses that a flow compensates: the part that does not depend on its request rate.
//!
//! Random loss takes its share of any rate; a queue drops the excess. Round by round the two look alike once a queue is
//! always full, or drops before it is long: the link delivers its full rate, and the pace that compensates for the loss
//! keeps it so. So loss counts as an overflow until a probe has shown otherwise: a flow that loses much measures the
//! loss, requests less for some round trips, and compensates for no more than the loss that remains even then. A flow
//! that requests half as much over an otherwise idle path finds no queue: if round trips stay longer, rivals fill it.
//! (BBRv2 and v3 have a bound of 2 % instead, beyond which every loss is an overflow.)
//!
//! ```text
//!   loss is small ──(much, over rounds)──► watch ──► probe: half the rate   ──┬─ as much, no queue: random, for 10 s
//!        ▲                                   ▲              ▲                 ├─ more than before: due to rivals
//!        └──────────(it was a moment)────────┘──(a pause)───┼─────────────────┴─ less, or a queue: an overflow
//!                       Startup lost much and met no queue ─┘
//! ```
use tributary_core::{Duration, Time};

/// Loss that needs no making up for, because the window controller's own probes cover it.
pub(super) const LOSS_FREE: f64 = 0.03;
/// Loss with an empty queue that counts as random without a proof.
const UNPROVED_MAX: f64 = 2.0 * LOSS_FREE;
/// No queue takes more than this part from a flow that yields.
pub(super) const QUEUES_MAX: f64 = 0.5;
/// Standard deviations by which chance may exceed the usual loss before it counts as an overflow.
const CHANCE_DEVIATIONS: f64 = 2.0;
/// Rounds of fewer packets, lost or not, count together with the next; rounds of a group are counted together.
const ROUND_PACKETS_MIN: f64 = 12.0;
/// Packets in rounds that did not fill the path from which on their loss is significant.
const UNFILLED_PACKETS_MIN: f64 = 48.0;
/// The rounds over which a share is smoothed.
const SMOOTHED_ROUNDS: f64 = 15.0;
/// How long a proof counts that loss is random.
const PROOF_LIFE: Duration = Duration::from_secs(10);
/// Rounds that a flow watches before a probe, that a probe lasts, and that pass until the next one: twice as many
/// after each that found an overflow.
const WATCH_ROUNDS: u64 = 8;
const PROBE_ROUNDS: u64 = 14;
/// Rounds that a probe may end earlier.
const PROBE_ROUNDS_LEFT: u64 = 8;
const PAUSE_ROUNDS: u64 = 16;
const PAUSE_DOUBLES: u32 = 4;
/// Round trips until a lower rate shows in the queue; early detection averages over some.
const PROBE_LAG: u64 = 4;
/// A probe shows that loss is random if at least this part of it does not yield.
const RANDOM_MIN: f64 = 0.4;
/// Loss yields to a lower rate if it falls by more than this many standard deviations.
const YIELD_DEVIATIONS: f64 = 1.5;
/// Loss of less than this part of the loss before ends a probe early.
const CLEARLY_LESS: f64 = 0.25;
/// Loss that grew by this factor, and by this many standard deviations, at a lower rate has another cause.
const GROWN: f64 = 1.5;
const GROWN_DEVIATIONS: f64 = 3.0;

/// The measured loss, and its random part.
#[derive(Clone, Debug, Default)]
pub(super) struct LossMeter {
    round: u64,
    delivered: u64,
    lost: u64,
    marked: u64,
    /// The part that is lost, smoothed over rounds.
    pub(super) share: f64,
    /// The random loss: measured over rounds with an empty queue while it is little, and else by a probe.
    random: f64,
    /// The loss in rounds of Startup that did not fill the path.
    unfilled: Sample,
    /// Packets requested earlier were lost by Startup.
    counts_from: Time,
    /// Packets of a round, and how many of them are lost together at most, because one request covers them.
    round_packets: f64,
    together: f64,
    watch: Option<Watch>,
    proof: Option<Proof>,
}

/// The losses of one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) share: f64,
    /// Packets, lost or not.
    pub(super) packets: f64,
    /// The part that arrived with a congestion mark.
    pub(super) marked: f64,
}

/// The loss before a probe.
#[derive(Clone, Copy, Debug, Default)]
struct Watch {
    rounds: u64,
    delivered: u64,
    lost: u64,
}

/// What the last probe has shown.
#[derive(Clone, Copy, Debug)]
struct Proof {
    /// What may be made up for.
    random: f64,
    at: Time,
    round: u64,
    /// How many probes in a row have found an overflow.
    overflows: u32,
}

/// A probe of the present losses: the fate of the packets that were requested at the lower pace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct LossProbe {
    counts_from: Time,
    ends_after_round: u64,
    before: Sample,
    /// The path's rate before, in bytes per second: a probe does not measure it.
    pub(super) rate: f64,
    rounds: u32,
    calm_rounds: u32,
    delivered: u64,
    lost: u64,
}

/// A share of lost packets and the number of packets behind it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Sample {
    share: f64,
    packets: f64,
}

impl LossProbe {
    /// Takes a round; a calm one met no queue.
    pub(super) fn on_round(&mut self, is_calm: bool) {
        self.rounds += 1;
        self.calm_rounds += u32::from(is_calm);
    }
    pub(super) fn on_delivered(&mut self, requested_at: Time, bytes: u64) {
        self.delivered += if requested_at >= self.counts_from { bytes } else { 0 };
    }
    pub(super) fn on_lost(&mut self, requested_at: Time, bytes: u64) {
        self.lost += if requested_at >= self.counts_from { bytes } else { 0 };
    }
}

impl LossMeter {
    /// Takes `bytes` that arrived.
    pub(super) fn on_delivered(&mut self, bytes: u64) {
        self.delivered += bytes;
    }
    /// Takes packets that are lost.
    pub(super) fn on_lost(&mut self, requested_at: Time, bytes: u64) {
        self.lost += if requested_at >= self.counts_from { bytes } else { 0 };
    }
    /// Takes `bytes` that arrived with a congestion mark.
    pub(super) fn on_mark(&mut self, bytes: u64) {
        self.marked += bytes;
    }
    /// Forgets Startup's losses; starts a probe if much was lost before the queue was full.
    pub(super) fn on_drained(&mut self, now: Time, round_trip: Duration, rate: f64) -> Option<LossProbe> {
        self.share = self.random;
        self.lost = 0;
        self.counts_from = now;
        let Sample { share, packets } = self.unfilled;
        let is_much = share > UNPROVED_MAX + libm::sqrt(share / packets.max(1.0));
        is_much.then(|| self.probe(now + round_trip, self.unfilled, rate))
    }
    /// Starts again after the path was silent.
    pub(super) fn on_silence(&mut self) {
        (self.delivered, self.lost, self.watch) = (0, 0, None);
    }
    /// The largest share of `packets` that is lost by chance if `share` is usual.
    pub(super) fn chance_of(&self, share: f64, packets: f64) -> f64 {
        share + 2.0 * self.chance(share, packets)
    }
    /// The part of the loss that a probe has shown to be random.
    pub(super) fn proved(&self) -> f64 {
        self.proof.filter(|proof| proof.overflows == 0).map_or(0.0, |proof| proof.random)
    }
    /// The part that has been lost of this round so far, and the packets, lost or not.
    pub(super) fn of_round(&self, packet_bytes: u64) -> (f64, f64) {
        let total = (self.delivered + self.lost) as f64;
        (self.lost as f64 / total.max(1.0), total / packet_bytes as f64)
    }
    /// The known share of random loss: from a probe, or because Startup met it before the path was full.
    pub(super) fn known(&self) -> f64 {
        let unfilled = if self.unfilled.packets >= UNFILLED_PACKETS_MIN { self.unfilled.share } else { 0.0 };
        self.proved().max(unfilled)
    }
    /// Whether more is lost than a queue takes from a flow that has found its rate, and no probe has shown a queue.
    pub(super) fn may_be_random(&self) -> bool {
        self.share > UNPROVED_MAX && self.proof.is_none_or(|proof| proof.overflows == 0)
    }
    /// Takes a round of Startup that did not fill the path.
    pub(super) fn on_unfilled(&mut self, Round { share, packets, .. }: Round) {
        self.unfilled.packets += packets;
        self.unfilled.share += (share - self.unfilled.share) * packets / self.unfilled.packets;
        self.random = self.unfilled.share;
        self.share = self.random;
    }
    /// The losses of this round. Packets have `packet_bytes`, one request covers `together` of them, and all flows of
    /// its group have `times` as many.
    pub(super) fn on_round(&mut self, packet_bytes: u64, together: u64, times: f64) -> Option<Round> {
        self.round += 1;
        let total = self.delivered + self.lost;
        // Losses are found in batches: of rounds of few packets most would seem to lose nothing.
        if total == 0 || (total as f64) * times < ROUND_PACKETS_MIN * packet_bytes as f64 {
            return None;
        }
        let share = self.lost as f64 / total as f64;
        self.share += (share - self.share) / 8.0;
        self.round_packets = total as f64 / packet_bytes as f64;
        self.together = together as f64;
        if let Some(watch) = &mut self.watch {
            watch.rounds += 1;
            watch.delivered += self.delivered;
            watch.lost += self.lost;
        }
        let marked = (self.marked as f64 / self.delivered.max(1) as f64).min(1.0);
        (self.delivered, self.lost, self.marked) = (0, 0, 0);
        Some(Round { share, packets: self.round_packets, marked })
    }
    /// Takes a round with an empty queue, whose loss counts as random unless it is large.
    pub(super) fn on_empty_queue(&mut self, share: f64) {
        let most = self.proof.map_or(UNPROVED_MAX, |proof| proof.random.max(LOSS_FREE));
        self.random = (self.random + (share - self.random) / 8.0).min(most);
    }
    /// The loss above which a round of `packets`, its group's included, lost more than by chance.
    pub(super) fn usual_max(&self, packets: f64) -> f64 {
        1.5 * self.random + LOSS_FREE + CHANCE_DEVIATIONS * libm::sqrt(self.random.max(LOSS_FREE / 2.0) / packets)
    }
    /// Whether it loses more over rounds than random loss explains, and no watch for the reason is running.
    pub(super) fn overflows(&self) -> bool {
        self.watch.is_none() && self.is_much()
    }
    /// The loss that a flow may make up for, 0 to 1.
    pub(super) fn compensated(&self) -> f64 {
        self.share.min(self.random)
    }
    /// Starts to watch, or a probe, if one is due: called once per round. `round_trip` is the present one, `rate` the
    /// path's delivery rate.
    pub(super) fn begin_probe(&mut self, now: Time, round_trip: Duration, rate: f64) -> Option<LossProbe> {
        let Some(Watch { rounds, delivered, lost }) = self.watch else {
            if self.wants_probe(now) {
                self.watch = Some(Watch::default());
            }
            return None;
        };
        if rounds < WATCH_ROUNDS {
            return None;
        }
        self.watch = None;
        let share = lost as f64 / (delivered + lost).max(1) as f64;
        let before = Sample { share, packets: self.round_packets * WATCH_ROUNDS as f64 };
        let is_old = self.proof.is_some_and(|proof| now.since(proof.at) > PROOF_LIFE);
        let known = if is_old { 0.0 } else { self.random };
        (share > known.max(LOSS_FREE) + LOSS_FREE)
            .then(|| self.probe(now + round_trip * PROBE_LAG as u32, before, rate))
    }
    /// Whether a probe has ended.
    pub(super) fn is_over(&self, probe: &LossProbe) -> bool {
        let share = probe.lost as f64 / (probe.delivered + probe.lost).max(1) as f64;
        let rounds_left = (probe.ends_after_round + 1).saturating_sub(self.round);
        rounds_left == 0
            || rounds_left <= PROBE_ROUNDS_LEFT
                && (share >= probe.before.share || share < CLEARLY_LESS * probe.before.share)
    }
    /// Draws the conclusion of a probe of packets of `packet_bytes`: whether the loss is random.
    pub(super) fn on_probed(&mut self, now: Time, packet_bytes: u64, probe: &LossProbe) -> bool {
        let total = probe.delivered + probe.lost;
        if total == 0 {
            return false;
        }
        let share = probe.lost as f64 / total as f64;
        let before = probe.before.share;
        // Of the difference of two samples.
        let packets = 1.0 / (packet_bytes as f64 / total as f64 + 1.0 / probe.before.packets.max(1.0));
        let deviation = libm::sqrt(before.max(LOSS_FREE / 2.0) * (1.0 - before) / packets);
        let has_grown = share > GROWN * before + GROWN_DEVIATIONS * deviation;
        let yielded = (before - share - YIELD_DEVIATIONS * deviation).max(0.0);
        // If rivals' traffic had caused the loss, it would have fallen with a lower request rate as well.
        let random = (share - yielded).max(0.0);
        let is_random = probe.calm_rounds * 2 > probe.rounds && random > RANDOM_MIN * before && !has_grown;
        let overflows = self.proof.map_or(0, |proof| proof.overflows);
        let (random, overflows) = match () {
            () if has_grown => (self.random, overflows),
            () if is_random => (random, 0),
            () => (self.random.min(random), overflows + 1),
        };
        self.proof = Some(Proof { random, at: now, round: self.round, overflows });
        self.random = random;
        is_random
    }

    fn probe(&self, counts_from: Time, before: Sample, rate: f64) -> LossProbe {
        let ends_after_round = self.round + PROBE_ROUNDS;
        LossProbe { counts_from, ends_after_round, before, rate, rounds: 0, calm_rounds: 0, delivered: 0, lost: 0 }
    }
    fn is_much(&self) -> bool {
        let usual = self.random.max(LOSS_FREE);
        self.share > usual + LOSS_FREE + self.chance(usual, self.round_packets * SMOOTHED_ROUNDS)
    }
    fn wants_probe(&self, now: Time) -> bool {
        let Some(proof) = self.proof else { return self.is_much() };
        let pause = PAUSE_ROUNDS << proof.overflows.min(PAUSE_DOUBLES);
        let is_old = self.random > LOSS_FREE && now.since(proof.at) > PROOF_LIFE;
        self.round >= proof.round + pause && (self.is_much() || is_old)
    }
    /// The largest deviation of the loss from `share` among `packets` by chance.
    fn chance(&self, share: f64, packets: f64) -> f64 {
        CHANCE_DEVIATIONS * libm::sqrt(share.max(LOSS_FREE / 2.0) * self.together.max(1.0) / packets.max(1.0))
    }
}

//! Detects rivals (competing flows) on the bottleneck link, and selects how to share it with them.
//!
//! A flow that keeps one bandwidth-delay product in flight gets the remainder next to one that fills the queue (Cubic,
//! RFC 9438; NewReno, RFC 6582), and next to nothing against one that keeps twice as much in flight and does not yield
//! (BBR). So the model watches for both, as the mode switches of Copa (NSDI 2018) and Nimbus (SIGCOMM 2022) do:
//!
//! | observation | rivals | how the flow shares |
//! |---|---|---|
//! | the queue drains when the flow requests less | none, or flows like this one | by its model |
//! | a queue persists or overflows, even when the flow requests half | flows that fill it | by a window that grows and yields as Cubic's |
//! | that window yields most of itself, and an eighth is still lost | flows that do not yield | by its model, with twice as much in flight, for some seconds; then it yields again to find out |
//!
//! ```text
//!         queue stands for 16 rounds, or after Startup's drain, and an RTT probe finds it
//!   None ────────────────────────────────────────────────────────────► Filling ◄─(5–40 s)── Pressing
//!     ▲                                                                │  │                    ▲
//!     └──(the RTT probe found the path empty, or loss without queue)───┘  └─(an eighth lost)───┘
//! ```
//! Flows like this one drain the queue together when they probe the round-trip time; fillers do not, which
//! distinguishes the two. All saw the queue begin to stand at the same moment, so that they also make a first probe
//! soon after it together.
use tributary_core::{Duration, Time};

/// What a window keeps at an overflow (RFC 9438 §4.6), and at a mark (RFC 8511).
const KEPT: f64 = 0.7;
const KEPT_AT_MARK: f64 = 0.85;
/// C of RFC 9438 §4.1, in packets per cubic second.
const CUBIC: f64 = 0.4;
/// Packets per round by which Reno's estimate grows until it reaches the last maximum (RFC 9438 §4.3), and from there
/// on.
const RENO_GROWTH: f64 = 3.0 * (1.0 - KEPT) / (1.0 + KEPT);
/// Growth a round of a window that looks for its share right after Startup.
const SLOW_START: f64 = 1.5;
/// Maximum growth per round.
const GROWTH_MAX: f64 = 1.5;
/// The smallest window, in packets.
const WINDOW_MIN: f64 = 2.0;

/// Rounds with a queue in a row after which a rival must keep it: two cycles of probes, and each probe drains.
const STANDING_ROUNDS: u32 = 16;
/// Rounds with a queue after Startup, once the flow has requested less.
const DRAIN_ROUNDS: u32 = 5;
/// Rounds with a queue before an overflow that does not count as random loss, if no queue preceded them: the flow's own
/// queue takes longer to drain.
const OVERFLOW_ROUNDS: u32 = 3;
/// Rounds with loss and no queue after which loss counts as random.
const RANDOM_ROUNDS: u32 = 3;
/// A flow that shares with flows like itself looks for others once it has less than this part of its rate.
const DISPLACED: f64 = 0.75;
/// Loss that persists although the window has yielded to this part of itself indicates flows that do not yield.
const PRESSED_LOSS: f64 = 0.12;
const YIELDED: f64 = 0.4;
/// Consecutive probes that must find the same round trip among rivals until it counts as the path's.
const SAME_FLOORS: u32 = 3;
/// How long such loss lasts before a flow presses too.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long it presses before it yields again to test whether rivals still do not yield: initially, at most, and the
/// factor of growth after each test that finds them.
const PRESSING: Duration = Duration::from_secs(5);
const PRESSING_MAX: Duration = Duration::from_secs(40);
const PRESSING_GROWTH: u32 = 4;
/// The patience of a flow that has pressed: longer than flows like it press at first. Flows that pressed because of each
/// other then see the loss end.
const PATIENCE_AFTER: Duration = Duration::from_secs(6);

tributary_core::declared! {
    /// A window among flows that fill the queue: Cubic's, for all sub-flows of a group together, in packets.
    #[derive(Clone, Copy, PartialEq, Debug)]
    pub(super) struct Cubic {
        window: f64 = window,
        /// The window at the last overflow, after it, and the window that Reno would have by now.
        most: f64 = window,
        least: f64 = window,
        reno: f64 = window,
        grows_since: Time = now,
        /// Losses of packets requested earlier than this already led to a decrease.
        cut_at: Time = now,
        /// Its first window.
        first: f64 = window,
        is_slow_start: bool = is_slow_start,
    }
    fn new(now: Time, window: f64, is_slow_start: bool) {
        let window = window.max(WINDOW_MIN);
    }
}

impl Cubic {
    /// Yields to an overflow, fast where it yields for the second time in a row (RFC 9438 §4.7).
    fn cut(&mut self, now: Time, kept: f64) {
        self.most = if self.window < self.most { self.window * (1.0 + kept) / 2.0 } else { self.window };
        self.window = (self.window * kept).max(WINDOW_MIN);
        (self.least, self.reno) = (self.window, self.window);
        (self.grows_since, self.cut_at) = (now, now);
        self.is_slow_start = false;
    }
    /// Grows for a round (RFC 9438 §4.2 to §4.5).
    fn grow(&mut self, now: Time, round_trip: Duration) {
        if self.is_slow_start {
            self.window *= SLOW_START;
            return;
        }
        let plateau = libm::cbrt((self.most - self.least).max(0.0) / CUBIC);
        let time = (now + round_trip).since(self.grows_since).as_secs_f64() - plateau;
        let cubic = CUBIC * time * time * time + self.most;
        self.reno += if self.reno < self.most { RENO_GROWTH } else { 1.0 };
        self.window = self.window.max(cubic.min(GROWTH_MAX * self.window)).max(self.reno);
    }
}

/// The flows on the narrow link, as far as seen.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
enum Seen {
    /// No rivals, or flows like this one.
    #[default]
    None,
    Filling(Cubic),
    Pressing {
        until: Time,
    },
}

/// A queue that may be due to rivals.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Suspicion {
    /// The window, in packets of all together, and whether it still looks for its share.
    window: f64,
    is_slow_start: bool,
    /// The smallest round trip in this queue.
    round_trip: Duration,
}

/// Watches for rivals.
#[derive(Clone, Debug, Default)]
pub(super) struct Rivals {
    seen: Seen,
    /// Rounds in a row with a queue; rounds of Startup's drain; rounds with loss and no queue in a row.
    standing_rounds: u32,
    drain_rounds: u32,
    random_rounds: u32,
    /// Whether it has seen the path without a queue since it last filled the queue itself.
    was_calm: bool,
    /// The total window, in packets, when Startup's drain started.
    drained_window: f64,
    /// The rate when the last RTT probe found the path empty: any flows on it drain the queue too.
    rate_when_empty: Option<f64>,
    /// What RTT probes found lately, and how many in a row.
    floor: (Duration, u32),
    has_lost: bool,
    /// Rivals may keep the queue: the state from which the flow continues once a probe of the round-trip time has
    /// confirmed it.
    suspicion: Option<Suspicion>,
    /// How long it presses or has pressed, if it has since it was last alone.
    pressing: Option<Duration>,
    /// Since when much is lost although its window has yielded.
    pressed_since: Option<Time>,
}

/// A round, for [`Rivals::on_round`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) now: Time,
    pub(super) round_trip: Duration,
    /// Approximate number of rounds without the queue.
    pub(super) times: u32,
    /// Whether no queue stood in it.
    pub(super) is_calm: bool,
    /// In which part of its life the flow is.
    pub(super) stage: Stage,
    /// Whether no other sub-flow shares the link: a queue that stays when this one requests less is not the transfer's
    /// own.
    pub(super) is_alone: bool,
    /// The part that is lost, smoothed.
    pub(super) lost: f64,
    /// Whether that may be chance's work, which no window helps against.
    pub(super) may_be_random: bool,
    /// The window of the model and the largest allowed, in packets of all sub-flows together.
    pub(super) window: f64,
    pub(super) window_max: f64,
    /// The best rate.
    pub(super) rate: f64,
}

/// A relevant stage of a flow's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// It requests less than Startup did, until its queue has drained.
    Draining,
    /// It probes for more and for less in turn.
    Probing,
    /// It requests little, to measure the round-trip time.
    Measuring,
    /// Anything else.
    Other,
}

/// The flow's action after a round.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Turn {
    /// It measures the round-trip time, to find out which flows keep the queue.
    Measure,
    /// It looks for its share again, like a new flow.
    BeginAnew,
    /// The suspected rivals do not exist: it continues from this window, in packets of all sub-flows together.
    GoOn(f64),
}

impl Rivals {
    /// The window, in packets of all sub-flows together, if rivals fill the queue.
    pub(super) fn window(&self) -> Option<f64> {
        match self.seen {
            Seen::Filling(cubic) => Some(cubic.window),
            Seen::None | Seen::Pressing { .. } => None,
        }
    }
    /// Whether rivals do not yield.
    pub(super) fn press(&self) -> bool {
        matches!(self.seen, Seen::Pressing { .. })
    }
    /// Whether rivals still pressed while this flow yielded, for longer than flows like it would.
    pub(super) fn press_for_sure(&self) -> bool {
        self.press() && self.pressing > Some(PRESSING)
    }
    /// Whether any rivals were detected.
    pub(super) fn are_seen(&self) -> bool {
        self.seen != Seen::None
    }
    /// When the window last yielded.
    pub(super) fn yielded_at(&self) -> Option<Time> {
        match self.seen {
            Seen::Filling(cubic) if !cubic.is_slow_start => Some(cubic.cut_at),
            _ => None,
        }
    }
    /// Takes a loss of a packet requested at `requested_at`.
    pub(super) fn on_loss(&mut self, now: Time, requested_at: Time) {
        self.has_lost = true;
        self.cut(now, requested_at, KEPT);
    }
    /// Takes a congestion mark on a packet requested at `requested_at`.
    pub(super) fn on_mark(&mut self, now: Time, requested_at: Time) {
        self.cut(now, requested_at, KEPT_AT_MARK);
    }
    /// Another sub-flow that shares the link has yielded at `at`. They yield together, as one flow would; losses within
    /// a round trip belong to the same overflow.
    pub(super) fn on_yielded(&mut self, at: Time, round_trip: Duration) {
        if let Seen::Filling(cubic) = &mut self.seen
            && at > cubic.cut_at + round_trip
        {
            cubic.cut(at, KEPT);
        }
    }
    /// A queue overflowed for a flow with this window, in packets of all together. If it stood before, it may be flows that
    /// fill it.
    pub(super) fn on_overflow(&mut self, window: f64, rate: f64, round_trip: Duration) -> Option<Turn> {
        let enough = if self.was_calm { OVERFLOW_ROUNDS } else { STANDING_ROUNDS };
        let may_be = self.seen == Seen::None && self.standing_rounds >= enough && self.is_displaced(rate);
        may_be.then(|| self.suspect(Suspicion { window: window * KEPT, is_slow_start: false, round_trip }))
    }
    /// Whether its rate is clearly less than when a probe last found the path empty: flows like it are not suspected again.
    fn is_displaced(&self, rate: f64) -> bool {
        self.rate_when_empty.is_none_or(|before| rate < before * DISPLACED)
    }
    /// An RTT probe is over. If it found the path as empty as ever, any other flows drain the queue as well: returns
    /// the window that the flow had among suspected rivals.
    pub(super) fn on_measured(&mut self, now: Time, is_empty: bool, rate: f64) -> Option<f64> {
        self.rate_when_empty = is_empty.then_some(rate);
        if let Some(Suspicion { window, is_slow_start, .. }) = self.suspicion.take().filter(|_| !is_empty) {
            self.seen = Seen::Filling(Cubic::new(now, window, is_slow_start));
            self.random_rounds = 0;
            return None;
        }
        if is_empty { self.forget() } else { None }
    }
    /// Whether the round trip that a probe has found includes rivals' queue. A path that has become longer gives the
    /// same value each time, at any request rate; a queue that fills and overflows does not, and shrinks by the flow's
    /// own reduction.
    pub(super) fn are_behind(&mut self, round_trip: Duration) -> bool {
        if let Some(suspicion) = self.suspicion {
            let is_queue = round_trip + suspicion.round_trip / 32 < suspicion.round_trip;
            self.suspicion = self.suspicion.filter(|_| is_queue);
            return is_queue;
        }
        let (floor, times) = self.floor;
        let is_same = round_trip <= floor + floor / 32 && floor <= round_trip + round_trip / 32;
        self.floor = (round_trip, if is_same { times + 1 } else { 1 });
        self.are_seen() && self.floor.1 < SAME_FLOORS
    }
    /// Takes a round.
    pub(super) fn on_round(&mut self, round: Round) -> Option<Turn> {
        let has_lost = core::mem::take(&mut self.has_lost);
        if round.stage == Stage::Measuring {
            // The round trip that calm is judged by is the one that is being measured.
            return None;
        }
        self.standing_rounds = if round.is_calm { 0 } else { self.standing_rounds + round.times };
        self.was_calm = match round.stage {
            Stage::Other | Stage::Draining => false,
            Stage::Probing | Stage::Measuring => self.was_calm || round.is_calm,
        };
        match &mut self.seen {
            Seen::Pressing { until } => {
                if round.now >= *until && round.stage == Stage::Probing {
                    self.seen = Seen::Filling(Cubic::new(round.now, round.window, false));
                }
            }
            Seen::Filling(cubic) => {
                match (has_lost, round.is_calm) {
                    (true, true) => self.random_rounds += 1,
                    (true, false) => self.random_rounds = 0,
                    (false, _) => {}
                }
                let has_yielded = cubic.window < YIELDED * cubic.first && self.standing_rounds >= STANDING_ROUNDS;
                let is_pressed = has_yielded && round.lost > PRESSED_LOSS;
                self.pressed_since = is_pressed.then(|| self.pressed_since.unwrap_or(round.now));
                if self.random_rounds >= RANDOM_ROUNDS {
                    // Random loss had reduced the window, so the reduction is undone.
                    let first = cubic.first;
                    return self.forget().map(|window| Turn::GoOn(window.max(first)));
                }
                let patience = if self.pressing.is_some() { PATIENCE_AFTER } else { PATIENCE };
                let has_waited = self.pressed_since.is_some_and(|since| round.now.since(since) >= patience);
                if has_waited && round.stage == Stage::Probing {
                    let longer = |pressing: Duration| (pressing * PRESSING_GROWTH).min(PRESSING_MAX);
                    let pressing = self.pressing.map_or(PRESSING, longer);
                    self.seen = Seen::Pressing { until: round.now + pressing };
                    (self.pressing, self.pressed_since) = (Some(pressing), None);
                    return Some(Turn::BeginAnew);
                }
                cubic.grow(round.now, round.round_trip);
                cubic.window = cubic.window.min(round.window_max);
            }
            Seen::None => return self.look(round),
        }
        None
    }

    /// Checks whether rivals keep the queue.
    fn look(&mut self, round: Round) -> Option<Turn> {
        if round.may_be_random || !round.is_alone {
            self.standing_rounds = 0;
            return None;
        }
        if round.stage == Stage::Draining {
            if self.drain_rounds == 0 {
                self.drained_window = round.window;
            }
            self.drain_rounds += 1;
            if self.drain_rounds > DRAIN_ROUNDS && !round.is_calm {
                let (window, round_trip) = (self.drained_window, round.round_trip);
                return Some(self.suspect(Suspicion { window, is_slow_start: true, round_trip }));
            }
        } else if round.stage == Stage::Probing {
            if round.is_calm {
                self.drain_rounds = 0;
            }
            // It has requested less already.
            let is_from_startup = self.drain_rounds > 0;
            let enough = if is_from_startup { DRAIN_ROUNDS } else { STANDING_ROUNDS };
            if self.standing_rounds >= enough && self.is_displaced(round.rate) {
                let (window, round_trip) = (round.window, round.round_trip);
                return Some(self.suspect(Suspicion { window, is_slow_start: is_from_startup, round_trip }));
            }
        }
        None
    }
    fn suspect(&mut self, suspicion: Suspicion) -> Turn {
        self.suspicion = Some(suspicion);
        (self.drain_rounds, self.standing_rounds) = (0, 0);
        Turn::Measure
    }
    fn cut(&mut self, now: Time, requested_at: Time, kept: f64) {
        if let Seen::Filling(cubic) = &mut self.seen
            && requested_at >= cubic.cut_at
        {
            cubic.cut(now, kept);
        }
    }
    fn forget(&mut self) -> Option<f64> {
        let window = self.window();
        if window.is_some() {
            (self.seen, self.standing_rounds, self.pressing) = (Seen::None, 0, None);
        }
        window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const ROUND_TRIP: Duration = Duration::from_millis(50);

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }
    /// A round of a flow that probes, with a window of 80 packets.
    fn round(number: u64, is_calm: bool) -> Round {
        let (now, round_trip) = (at(50 * number), ROUND_TRIP);
        let (window, window_max) = (80.0, 10_000.0);
        Round {
            now,
            round_trip,
            times: 1,
            is_calm,
            stage: Stage::Probing,
            is_alone: true,
            lost: 0.0,
            may_be_random: false,
            window,
            window_max,
            rate: 1e6,
        }
    }
    /// Rivals after this many rounds with a queue, the last one at `50 ms * rounds`.
    fn standing(rounds: u64) -> Rivals {
        let mut rivals = Rivals::default();
        (1..=rounds).for_each(|number| assert_eq!(rivals.on_round(round(number, false)), None));
        rivals
    }
    /// Rivals whose queue a probe has found, 16 rounds after the first one.
    fn found() -> Rivals {
        let mut rivals = standing(u64::from(STANDING_ROUNDS) - 1);
        assert_eq!(rivals.on_round(round(16, false)), Some(Turn::Measure));
        measured(&mut rivals, false);
        rivals
    }
    /// What a probe of the round-trip time leads to, in a path that is empty or not.
    fn measured(rivals: &mut Rivals, is_empty: bool) -> Option<f64> {
        assert_eq!(!is_empty && rivals.are_behind(ROUND_TRIP / 2), !is_empty);
        rivals.on_measured(at(800), is_empty, 1e6)
    }
    fn filling(rivals: &Rivals) -> Cubic {
        match rivals.seen {
            Seen::Filling(cubic) => cubic,
            seen => panic!("{seen:?}"),
        }
    }

    #[test]
    fn a_window_grows_back_to_where_it_was_in_the_time_of_rfc_9438() {
        let mut cubic = Cubic::new(at(0), 1_000.0, false);
        cubic.cut(at(0), KEPT);
        assert!((cubic.window - 700.0).abs() < 1e-9);
        // K = ∛(W_max (1 − β) / C), RFC 9438 §4.2.
        let plateau_ms = (libm::cbrt(1_000.0 * 0.3 / 0.4) * 1_000.0) as u64;
        let mut now = 0;
        while now < plateau_ms {
            assert!(cubic.window < 1_000.0, "{now} ms");
            cubic.grow(at(now), ROUND_TRIP);
            now += 50;
        }
        assert!((cubic.window - 1_000.0).abs() < 1.0, "{cubic:?}");
        // Half a second past it the growth is C / 8 packets, and two seconds past it 8 C.
        for (later, more) in [(500, 0.05), (2_000, 3.2)] {
            cubic.grow(at(plateau_ms + later - 50), ROUND_TRIP);
            assert!((cubic.window - 1_000.0 - more).abs() < 0.3, "{later} ms: {cubic:?}");
        }
    }

    #[test]
    fn a_small_window_grows_as_renos_does_with_this_decrease() {
        let mut cubic = Cubic::new(at(0), 20.0, false);
        cubic.cut(at(0), KEPT);
        (0..10).for_each(|number| cubic.grow(at(50 * number), ROUND_TRIP));
        // α = 3 (1 − β) / (1 + β) packets a round, RFC 9438 §4.3.
        assert!((cubic.window - (14.0 + 10.0 * 0.9 / 1.7)).abs() < 0.01, "{cubic:?}");
    }

    #[test]
    fn who_yields_again_before_it_was_back_leaves_more_to_others() {
        let mut cubic = Cubic::new(at(0), 100.0, false);
        cubic.cut(at(0), KEPT);
        cubic.cut(at(100), KEPT);
        assert!((cubic.most - 70.0 * 0.85).abs() < 1e-9, "RFC 9438 §4.7: {cubic:?}");
    }

    #[test]
    fn a_queue_that_stands_through_two_cycles_of_probes_may_be_somebody_elses() {
        let mut rivals = standing(u64::from(STANDING_ROUNDS) - 1);
        assert_eq!(rivals.on_round(round(16, false)), Some(Turn::Measure));
        assert!(!rivals.are_seen(), "the probe has to find it");
        measured(&mut rivals, false);
        assert_eq!(rivals.window(), Some(80.0));
        // One round without a queue restarts the count.
        let mut calm = standing(u64::from(STANDING_ROUNDS) - 1);
        assert_eq!(calm.on_round(round(16, true)), None);
        (17..30).for_each(|number| assert_eq!(calm.on_round(round(number, false)), None));
        // Other sub-flows of the transfer may keep it.
        let mut group = standing(u64::from(STANDING_ROUNDS) - 1);
        (16..60).for_each(|number| {
            assert_eq!(group.on_round(Round { is_alone: false, ..round(number, false) }), None);
        });
    }

    #[test]
    fn where_loss_may_be_random_nobody_is_looked_for() {
        let mut rivals = standing(u64::from(STANDING_ROUNDS) - 1);
        let lossy = |number| Round { lost: 0.2, may_be_random: true, ..round(number, false) };
        (16..60).for_each(|number| assert_eq!(rivals.on_round(lossy(number)), None));
        assert_eq!(rivals.on_overflow(80.0, 1e6, ROUND_TRIP), None);
    }

    #[test]
    fn a_queue_that_outlives_startups_drain_is_somebody_elses() {
        let mut rivals = Rivals::default();
        let drain = |number| Round { stage: Stage::Draining, window: 200.0 - number as f64, ..round(number, false) };
        let turns: Vec<_> = (1..=6).map(|number| rivals.on_round(drain(number))).collect();
        assert_eq!(turns, [None, None, None, None, None, Some(Turn::Measure)]);
        measured(&mut rivals, false);
        assert_eq!(rivals.window(), Some(199.0), "the window when the drain began");
        rivals.on_round(round(7, false));
        assert!(rivals.window() > Some(250.0), "it looks for its share as fast as a flow that begins: {rivals:?}");
        // Nor does it take sixteen rounds more if the drain ended with little in flight and the queue is still there.
        let mut patient = Rivals::default();
        (1..=2).for_each(|number| assert_eq!(patient.on_round(drain(number)), None));
        let turn = (3..=8).find_map(|number| patient.on_round(round(number, false)));
        assert_eq!(turn, Some(Turn::Measure));
        // A flow that is alone drains its queue.
        let mut alone = Rivals::default();
        (1..=9).for_each(|number| assert_eq!(alone.on_round(Round { is_calm: true, ..drain(number) }), None));
    }

    #[test]
    fn flows_that_drain_the_queue_together_are_none() {
        let mut rivals = found();
        let window = rivals.window();
        assert_eq!(measured(&mut rivals, true), window, "they have gone: it goes on from there");
        (21..60).for_each(|number| assert_eq!(rivals.on_round(round(number, false)), None));
        assert!(!rivals.are_seen(), "their queue is no reason to look for others");
        assert_eq!(rivals.on_overflow(80.0, 1e6, ROUND_TRIP), None);
        let displaced = Round { rate: 0.7e6, ..round(60, false) };
        assert_eq!(rivals.on_round(displaced), Some(Turn::Measure), "but that one of them takes its share is");
        measured(&mut rivals, true);
        assert!(!rivals.are_seen(), "unless it takes part in the draining");
    }

    #[test]
    fn a_queue_is_told_from_a_path_that_has_become_longer() {
        let ms = |ms| Duration::from_millis(ms);
        let mut rivals = found();
        assert!([150, 180, 182, 150, 240].iter().all(|found| rivals.are_behind(ms(*found))));
        assert_eq!([120, 121, 122].map(|found| rivals.are_behind(ms(found))), [true, true, false]);
        assert!(!Rivals::default().are_behind(ms(150)), "nobody is there");
        // What half a window does not shorten is no queue.
        let mut longer = standing(u64::from(STANDING_ROUNDS) - 1);
        longer.on_round(round(16, false));
        assert!(!longer.are_behind(ROUND_TRIP));
        longer.on_measured(at(800), false, 1e6);
        assert!(!longer.are_seen());
    }

    #[test]
    fn loss_without_a_queue_is_no_rival() {
        let mut rivals = found();
        for number in 17..19 {
            rivals.on_loss(at(50 * number), at(50 * number - 1));
            assert_eq!(rivals.on_round(round(number, true)), None);
        }
        rivals.on_loss(at(950), at(949));
        let left = rivals.on_round(round(19, true));
        assert_eq!(left, Some(Turn::GoOn(80.0)), "what it yielded to chance it takes back");
        assert!(!rivals.are_seen());
    }

    #[test]
    fn one_overflow_is_yielded_to_once_by_every_sub_flow() {
        let mut rivals = found();
        rivals.on_loss(at(900), at(870));
        let after = filling(&rivals);
        assert!((after.window - 56.0).abs() < 1e-9);
        rivals.on_loss(at(910), at(880));
        rivals.on_yielded(at(940), ROUND_TRIP);
        assert_eq!(filling(&rivals), after, "requested before, or within a round trip: the same overflow");
        rivals.on_yielded(at(960), ROUND_TRIP);
        assert!((filling(&rivals).window - 56.0 * KEPT).abs() < 1e-9);
        rivals.on_mark(at(1_100), at(1_050));
        assert!((filling(&rivals).window - 56.0 * KEPT * KEPT_AT_MARK).abs() < 1e-9);
    }

    #[test]
    fn an_overflow_counts_only_after_a_queue_stood() {
        // Without an empty path before it the queue may be the flow's own, from Startup.
        assert_eq!(standing(3).on_overflow(80.0, 1e6, ROUND_TRIP), None);
        let after_calm = |rounds: u64| {
            let mut rivals = Rivals::default();
            rivals.on_round(round(1, true));
            (0..rounds).for_each(|number| assert_eq!(rivals.on_round(round(2 + number, false)), None));
            rivals
        };
        assert_eq!(after_calm(2).on_overflow(80.0, 1e6, ROUND_TRIP), None);
        let mut rivals = after_calm(3);
        assert_eq!(rivals.on_overflow(80.0, 1e6, ROUND_TRIP), Some(Turn::Measure));
        measured(&mut rivals, false);
        assert_eq!(rivals.window(), Some(56.0));
    }

    #[test]
    fn beside_flows_that_do_not_yield_it_presses_for_some_time() {
        let mut rivals = found();
        let lossy = |number| Round { lost: 0.2, ..round(number, false) };
        // Presses, by more if rivals surely do not yield: the rounds in which it starts and ends.
        let press = |rivals: &mut Rivals, from: u64, for_sure: bool| {
            let mut number = from;
            while !rivals.press() {
                assert!(number < from + 200, "{rivals:?}");
                rivals.on_loss(at(50 * number), at(50 * number));
                let turn = rivals.on_round(lossy(number));
                assert_eq!(turn, rivals.press().then_some(Turn::BeginAnew));
                number += 1;
            }
            let pressed = number;
            assert_eq!(rivals.press_for_sure(), for_sure);
            while rivals.press() {
                assert_eq!(rivals.on_round(lossy(number)), None);
                number += 1;
            }
            assert_eq!(rivals.window(), Some(80.0), "it finds out whether it still has to");
            [pressed, number]
        };
        let rounds = |duration: Duration| duration.as_millis() as u64 / 50;
        let [pressed, ended] = press(&mut rivals, 17, false);
        assert!(pressed - 17 > rounds(PATIENCE) && ended - pressed == rounds(PRESSING), "{pressed} {ended}");
        let [again, until] = press(&mut rivals, ended, true);
        assert!(again - ended > rounds(PATIENCE_AFTER), "those who press because of it have ended: {again}");
        assert_eq!(until - again, rounds(PRESSING * PRESSING_GROWTH));
        // No rival presses any longer: all is forgotten.
        measured(&mut rivals, true);
        assert_eq!(rivals.pressing, None);
    }
}

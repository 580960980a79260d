//! Estimates the rate of a link from the round trips of greetings, and limits the interval of control packets by it.
//!
//! ```text
//!   round trip of a long greeting  ─┐
//!                                   ├─► difference ÷ bytes ──► time of a byte ──► interval of greetings
//!   round trip of a short greeting ─┘        (queues and delay are in both)
//! ```
//! The smallest round trip counts, since queues only lengthen it. Until a long greeting is answered, the link is
//! assumed to be as slow as its round trip allows: a satellite is then greeted too rarely for a moment, a radio never
//! too often.
use tributary_core::{Duration, Rate, Time};

/// Bytes of a datagram's headers on a link: IPv4 and UDP.
const OVERHEAD_BYTES: usize = 28;
/// A hello of more bytes than this is a long one; both kinds differ by at least this much.
const SHORT_BYTES_MAX: usize = 320;
const DIFFERENCE_BYTES_MIN: usize = 200;
/// Least round trips are forgotten after one to two of these.
const TURN: Duration = Duration::from_secs(120);
/// Higher rates are not distinguished: scheduling and queues of other traffic cause differences as large.
const RATE_MAX: u64 = 256_000;
/// The longest interval on any link.
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// The measured speed of one link, in the direction in which this node sends.
#[derive(Clone, Debug, Default)]
pub struct LinkPace {
    /// The least round trips of this turn and of the one before it.
    turns: [Turn; 2],
    turn_ends: Time,
}

/// Bytes of a greeting, and its round trip.
type Sample = (usize, Duration);

#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    short: Option<Sample>,
    long: Option<Sample>,
}

impl LinkPace {
    /// Takes the round trip of a greeting of `bytes`, less the time for which its receiver held the answer back.
    pub fn on_round_trip(&mut self, now: Time, bytes: usize, round_trip: Duration) {
        if now >= self.turn_ends {
            // Old samples are dropped only when newer ones replace them.
            let [last, before] = self.turns;
            let kept = Turn { short: last.short.or(before.short), long: last.long.or(before.long) };
            self.turns = [Turn::default(), kept];
            self.turn_ends = now + TURN;
        }
        let turn = &mut self.turns[0];
        let known = if bytes > SHORT_BYTES_MAX { &mut turn.long } else { &mut turn.short };
        if known.is_none_or(|(_, least)| round_trip < least) {
            *known = Some((bytes, round_trip));
        }
    }
    /// Forgets everything, because the neighbour is another one.
    pub fn forget(&mut self) {
        *self = LinkPace::default();
    }
    /// Whether greetings of both lengths were answered, which distinguishes a slow link from a long one.
    pub fn tells_lengths(&self) -> bool {
        self.difference().is_some()
    }
    /// The rate of the link, if it is below 256 kbit/s and long greetings have shown it.
    pub fn rate(&self) -> Option<Rate> {
        let (bytes, time) = self.difference()?;
        Rate::over(bytes as u64, time).filter(|rate| rate.bits_per_second() <= RATE_MAX)
    }
    /// How long a datagram of `bytes` occupies the link at most; zero while unknown.
    pub fn airtime(&self, bytes: usize) -> Duration {
        let wire = |bytes: usize| (bytes + OVERHEAD_BYTES) as f64;
        if let Some((difference, time)) = self.difference() {
            return time.mul_f64(wire(bytes) / difference as f64);
        }
        // One direction takes at most half of a round trip, if both are equal.
        match self.least(|turn| turn.short).or_else(|| self.least(|turn| turn.long)) {
            Some((greeting, round_trip)) => (round_trip / 2).mul_f64(wire(bytes) / wire(greeting)),
            None => Duration::ZERO,
        }
    }
    /// The time between control packets of `bytes` that take at most one part in `parts` of the link; `base` if the link
    /// is fast enough for that.
    pub fn interval(&self, base: Duration, bytes: usize, parts: u32) -> Duration {
        (self.airtime(bytes) * parts).min(INTERVAL_MAX).max(base)
    }

    /// The difference in bytes, and in time, between the fastest long greeting and the fastest short one.
    fn difference(&self) -> Option<(usize, Duration)> {
        let ((short, sooner), (long, later)) = (self.least(|turn| turn.short)?, self.least(|turn| turn.long)?);
        let bytes = long.checked_sub(short).filter(|bytes| *bytes >= DIFFERENCE_BYTES_MIN)?;
        Some((bytes, later.saturating_sub(sooner)))
    }
    fn least(&self, kind: impl Fn(&Turn) -> Option<Sample>) -> Option<Sample> {
        self.turns.iter().filter_map(kind).min_by_key(|(_, round_trip)| *round_trip)
    }
}

/// When to send the next of a series of messages: the interval at most doubles from one to the next, so that receivers
/// that use a [`Cadence`] can follow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ramp {
    gap: Duration,
    sent_at: Option<Time>,
}

impl Ramp {
    /// Counts a message that leaves at `now`; returns the time until the next one, for a target interval of `target`
    /// and a first one of `base`. A message that leaves before its time does not lengthen the interval.
    pub fn on_sent(&mut self, now: Time, base: Duration, target: Duration) -> Duration {
        let most = if self.is_due(now) { self.gap * 2 } else { self.gap };
        self.gap = target.min(most.max(base));
        self.sent_at = Some(now);
        self.gap
    }
    /// The target interval is `target` from now on: returns when the next message is due if that is sooner than before.
    pub fn shorten(&mut self, target: Duration) -> Option<Time> {
        let sent_at = self.sent_at.filter(|_| target < self.gap)?;
        self.gap = target;
        Some(sent_at + target)
    }
    /// Whether a message may leave at `now`: it is the first, or the interval since the last one has passed.
    pub fn is_due(&self, now: Time) -> bool {
        self.sent_at.is_none_or(|at| now >= at + self.gap)
    }
}

/// The intervals of another node's messages, by which its silence is judged: it may know its link to be slower than
/// this end does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cadence {
    gap: Duration,
    heard_at: Option<Time>,
}

impl Cadence {
    /// Records a message. Some arrive out of turn: a short gap shortens the interval by a quarter only.
    pub fn on_message(&mut self, now: Time) {
        let gap = self.heard_at.map_or(Duration::ZERO, |at| now.since(at)).min(INTERVAL_MAX * 2);
        self.gap = gap.max(self.gap * 3 / 4);
        self.heard_at = Some(now);
    }
    /// The time between two messages: `base`, or the last interval if that is longer.
    pub fn interval(&self, base: Duration) -> Duration {
        self.gap.max(base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const MS: fn(u64) -> Duration = Duration::from_millis;
    const BASE: Duration = Duration::from_millis(200);

    /// The round trip of a greeting of `bytes` with an answer of 100 over a link of that rate and delay.
    fn round_trip(rate: u64, delay_ms: u64, bytes: usize) -> Duration {
        let rate = Rate::from_bits_per_second(rate);
        rate.time_for(bytes as u64 + 28) + rate.time_for(128) + MS(delay_ms) * 2
    }
    fn known(rate: u64, delay_ms: u64, lengths: &[usize]) -> LinkPace {
        let mut pace = LinkPace::default();
        for bytes in lengths {
            pace.on_round_trip(Time::ZERO, *bytes, round_trip(rate, delay_ms, *bytes));
        }
        pace
    }

    #[test]
    fn two_lengths_tell_the_rate_of_a_slow_link_whatever_its_delay() {
        for delay in [1, 20, 280] {
            for rate in [2_400, 9_600, 64_000, 200_000] {
                let found = known(rate, delay, &[100, 1_200]).rate().expect("it is slow").bits_per_second() as f64;
                assert!((found / rate as f64 - 1.0).abs() < 0.01, "{rate} bit/s, {delay} ms: {found}");
            }
        }
        assert_eq!(known(1_000_000, 280, &[100, 1_200]).rate(), None, "fast enough not to matter");
        assert_eq!(known(9_600, 20, &[100]).rate(), None, "its delay may be the reason");
    }

    #[test]
    fn greetings_take_their_part_of_a_slow_link_and_are_as_frequent_as_ever_on_a_fast_one() {
        assert_eq!(LinkPace::default().interval(BASE, 100, 40), BASE);
        assert_eq!(known(20_000_000, 280, &[100, 1_200]).interval(BASE, 100, 40), BASE, "a satellite");
        for rate in [9_600, 64_000] {
            for lengths in [&[100][..], &[100, 1_200]] {
                let interval = known(rate, 20, lengths).interval(BASE, 100, 40);
                let share = Rate::from_bits_per_second(rate).time_for(128).as_secs_f64() / interval.as_secs_f64();
                assert!(share < 0.0251, "{rate} bit/s, {lengths:?}: {share}");
            }
        }
        assert_eq!(known(300, 20, &[100, 1_200]).interval(BASE, 100, 40), INTERVAL_MAX);
    }

    #[test]
    fn what_is_said_out_of_turn_slows_nothing_down_and_a_faster_rhythm_begins_at_once() {
        let mut ramp = Ramp::default();
        for at in 0..10 {
            assert_eq!(ramp.on_sent(Time::from_millis(at), BASE, MS(5_000)), BASE);
        }
        assert_eq!(ramp.on_sent(Time::from_millis(209), BASE, MS(5_000)), BASE * 2);
        assert_eq!(ramp.shorten(MS(500)), None);
        assert_eq!(ramp.shorten(MS(100)), Some(Time::from_millis(309)));
    }

    #[test]
    fn who_listens_follows_a_rhythm_that_slows_down() {
        let (mut ramp, mut cadence, mut now) = (Ramp::default(), Cadence::default(), Time::ZERO);
        let mut gaps = Vec::new();
        for _ in 0..8 {
            assert!(ramp.is_due(now));
            cadence.on_message(now);
            let gap = ramp.on_sent(now, BASE, MS(5_000));
            assert!(gap < cadence.interval(BASE) * 4, "{gap:?}");
            gaps.push(gap.as_millis());
            now += gap;
        }
        assert_eq!(gaps, [200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000]);
        // One out of turn is no sign of a new rhythm; many are.
        cadence.on_message(now + MS(1));
        assert!(cadence.interval(BASE) > MS(3_500));
        (2..30).for_each(|at| cadence.on_message(now + MS(at)));
        assert_eq!(cadence.interval(BASE), BASE);
    }

    #[test]
    fn queues_do_not_count_and_a_link_that_changes_is_measured_anew() {
        let mut pace = known(64_000, 20, &[100, 1_200]);
        pace.on_round_trip(Time::from_millis(50), 100, MS(5_000));
        pace.on_round_trip(Time::from_millis(60), 1_200, MS(9_000));
        assert_eq!(pace.interval(BASE, 100, 10), BASE);
        for second in 1..400u64 {
            let bytes = if second % 10 == 0 { 1_200 } else { 100 };
            pace.on_round_trip(Time::from_millis(second * 1_000), bytes, round_trip(9_600, 20, bytes));
        }
        let found = pace.rate().expect("it is slow").bits_per_second();
        assert!((9_500..9_700).contains(&found), "{found}");
        pace.forget();
        assert_eq!((pace.rate(), pace.airtime(1_000)), (None, Duration::ZERO));
    }
}

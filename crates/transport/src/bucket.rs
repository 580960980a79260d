//! Finds out that a token bucket polices a path, and the rate at which it fills.
//!
//! ```text
//!   losses ──► two intervals with the same goodput ──► trial: ask no faster than that ──► losses end ──► capped
//!                                                          │                                │  ▲
//!                                                          └─ losses go on: random          └──┘ raised now and then
//! ```
//! A bucket passes a burst at the rate of the line before it drops, so the best delivery rate of a path behind one is that
//! of the line: whoever paces by it loses for as long as the transfer lasts. What arrives over an interval much longer
//! than a burst is the rate of the bucket. Random loss shows the same goodput, and goes on at a lower rate; a queue that
//! overflows shows longer round trips (BBR's long-term bandwidth sampling, draft-cardwell-iccrg-bbr-congestion-control-00
//! §4.1.7, without the trial).
use tributary_core::{Duration, Rate, Time};

/// An interval lasts for this long and for so many round trips at least, then until so many packets are lost or have come;
/// it has an end in any case.
const INTERVAL: Duration = Duration::from_millis(60);
const INTERVAL_ROUND_TRIPS: u32 = 4;
const INTERVAL_LOSSES: u64 = 12;
const INTERVAL_PACKETS: u64 = 400;
const INTERVAL_MAX: Duration = Duration::from_secs(1);
/// The part of the packets whose loss may be that of a bucket.
const SHARE_SUSPECT: f64 = 0.03;
/// Where more than the first is lost the signs must be clear; where more than the second is, a trial, which asks for no more
/// than what arrives, would cost more than it finds.
const SHARE_MAX: [f64; 2] = [0.4, 0.9];
/// The part of them that may still be lost in the trial: less than this, or than this part of what was lost before.
const SHARE_CLEAN: f64 = 0.01;
const CLEAN_OF_BEFORE: f64 = 0.25;
/// Behind a bucket the best delivery rate, that of a burst, is at least so many times what arrives in an interval. Over a
/// link that loses at random or whose queue overflows it is the rate of the link.
/// Where much is lost few answers make a rate, and more of it is chance.
const DECEIVED: f64 = 6.0;
const DECEIVED_HEAVY: f64 = 25.0;
/// So much needs no second interval before the trial.
const SHARE_HEAVY: f64 = 0.12;
/// A trial in which no more than this part of the share before is lost goes on at a lower rate.
const FALLEN: f64 = 0.6;
/// By which part two intervals may differ that show the same goodput.
const SAME: f64 = 0.15;
/// How long no trial follows one that has found random loss; it doubles each time, up to the second.
const TRIAL_PAUSE: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(120)];
/// A trial asks for this part of the goodput, so that a queue before the bucket drains.
const TRIAL: f64 = 0.92;
/// A cap that holds is raised after this time by the first part, and twice as much each time that this costs nothing.
const RAISE_INTERVAL: Duration = Duration::from_secs(1);
const RAISE: [f64; 2] = [0.02, 0.5];
/// What is left of a cap at least when packets are lost below it.
const LOWERED: f64 = 0.95;
/// The part of a bucket's rate that is asked for.
const HELD: f64 = 0.985;
/// A cap that is so many times the pace without it is none any more.
const LIFTED: f64 = 1.5;

/// Watches what arrives and what is lost on one path.
#[derive(Clone, Debug)]
pub struct BucketMeter {
    state: State,
    /// When the current interval began, and what had arrived and been lost then, in packets.
    since: Time,
    delivered: u64,
    lost: u64,
    /// No trial before this.
    quiet_until: Time,
    pause: Duration,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    /// Nothing is known; the goodput of the last interval with losses, in packets per second, and its share of losses.
    Watching(Option<(f64, f64)>),
    /// The first interval of a trial passes uncounted: packets that were asked for before are still coming.
    Trying { rate: f64, share: f64, settled: bool },
    /// The path carries `rate` and no more. `raise` is by what part it is raised next, at that time.
    Capped { rate: f64, raise: f64, raise_at: Time, raised: bool },
}

impl BucketMeter {
    /// Watches from `now`.
    pub fn new(now: Time) -> BucketMeter {
        BucketMeter {
            state: State::Watching(None),
            since: now,
            delivered: 0,
            lost: 0,
            quiet_until: Time::ZERO,
            pause: TRIAL_PAUSE[0],
        }
    }
    /// The pace that the path bears, in packets of `packet_bytes`; `None` if no bucket is known.
    pub fn cap(&self, packet_bytes: u64) -> Option<Rate> {
        let packets = match self.state {
            State::Watching(_) => return None,
            State::Trying { rate, .. } => rate * TRIAL,
            State::Capped { rate, .. } => rate * HELD,
        };
        Some(Rate::from_bytes_per_second((packets * packet_bytes as f64) as u64))
    }
    /// Whether there seems to be one.
    pub fn is_known(&self) -> bool {
        !matches!(self.state, State::Watching(_))
    }
    /// Nothing comes over the path for a while: what was seen before says nothing of it any more.
    pub fn on_silence(&mut self) {
        self.state = State::Watching(None);
    }
    /// Takes what has arrived and been lost so far, in packets, the smallest round trip, and in packets per second the best
    /// delivery rate of late and the pace without any cap.
    pub fn on_progress(
        &mut self,
        now: Time,
        delivered: u64,
        lost: u64,
        round_trip: Duration,
        (best, pace): (f64, f64),
    ) {
        let elapsed = now.since(self.since);
        let least = INTERVAL.max(round_trip * INTERVAL_ROUND_TRIPS);
        if elapsed < least {
            return;
        }
        // What was declared lost and came after all makes the count of losses fall.
        let (arrived, gone) = (delivered - self.delivered, lost.saturating_sub(self.lost));
        let packets = match self.state {
            // As many as would lose enough if the losses were random.
            State::Trying { share, .. } => ((INTERVAL_LOSSES as f64 / share) as u64).min(INTERVAL_PACKETS),
            State::Watching(_) | State::Capped { .. } => INTERVAL_PACKETS,
        };
        if gone < INTERVAL_LOSSES && arrived + gone < packets && elapsed < INTERVAL_MAX.max(least) {
            return;
        }
        (self.since, self.delivered, self.lost) = (now, delivered, lost);
        let goodput = arrived as f64 / elapsed.as_secs_f64();
        let share = gone as f64 / (arrived + gone).max(1) as f64;
        let [usual, most] = SHARE_MAX;
        let is_deceived = share <= most && best >= goodput * if share <= usual { DECEIVED } else { DECEIVED_HEAVY };
        self.state = self.next(now, goodput, (share, gone), (is_deceived, pace));
    }
    fn next(&mut self, now: Time, goodput: f64, (share, gone): (f64, u64), (is_deceived, pace): (bool, f64)) -> State {
        let is_suspect = share >= SHARE_SUSPECT && gone >= INTERVAL_LOSSES && is_deceived && now >= self.quiet_until;
        match self.state {
            State::Watching(_) if !is_suspect => State::Watching(None),
            State::Watching(Some((before, lost))) if (goodput / before - 1.0).abs() <= SAME => {
                State::Trying { rate: (goodput + before) / 2.0, share: share.min(lost), settled: false }
            }
            State::Watching(_) if share >= SHARE_HEAVY => State::Trying { rate: goodput, share, settled: false },
            State::Watching(_) => State::Watching(Some((goodput, share))),
            State::Trying { rate, share, settled: false } => State::Trying { rate, share, settled: true },
            State::Trying { rate, share: before, settled: true } => {
                if share <= SHARE_CLEAN.max(before * CLEAN_OF_BEFORE) {
                    self.pause = TRIAL_PAUSE[0];
                    return State::Capped { rate, raise: RAISE[0], raise_at: now + RAISE_INTERVAL, raised: false };
                }
                if share <= before * FALLEN {
                    // Fewer, but not few: the burst that the bucket passed at first was in the goodput.
                    return State::Trying { rate: goodput, share: before, settled: false };
                }
                self.quiet_until = now + self.pause;
                self.pause = (self.pause * 2).min(TRIAL_PAUSE[1]);
                State::Watching(None)
            }
            State::Capped { rate, raise, raise_at, raised } => {
                if share > SHARE_CLEAN {
                    // What arrives now is what the bucket lets pass, whether it was raised too far or has become smaller.
                    // Less may have come because less was asked for: step by step.
                    let rate = rate.min(goodput.max(rate * LOWERED));
                    return State::Capped { rate, raise: RAISE[0], raise_at: now + RAISE_INTERVAL * 3, raised: false };
                }
                if pace > 0.0 && pace * LIFTED < rate {
                    return State::Watching(None);
                }
                if now < raise_at {
                    return State::Capped { rate, raise, raise_at, raised };
                }
                let raise = if raised { (raise * 2.0).min(RAISE[1]) } else { RAISE[0] };
                State::Capped { rate: rate * (1.0 + raise), raise, raise_at: now + RAISE_INTERVAL, raised: true }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_core::Random;

    const PACKET: u64 = 1_000;
    const RTT: Duration = Duration::from_millis(10);

    /// A source that would send 4,000 packets a second if nothing capped it, over a policer of so many packets a second, or
    /// over random loss. Gives the share of its packets that were lost in the last half of the time, and what arrived then
    /// in a second.
    fn run(meter: &mut BucketMeter, policer: Option<f64>, loss: f64, seconds: u64) -> (f64, f64) {
        let (mut tokens, mut delivered, mut lost) = (16.0f64, 0u64, 0u64);
        let (mut random, mut debt) = (Random::new(7, 7), 0.0);
        let mut at_half = (0, 0);
        // A burst passes a policer at the rate of the line.
        let best = if policer.is_some() { 100_000.0 } else { 4_000.0 };
        for step in 0..seconds * 1_000 {
            let now = Time::from_millis(step + 1);
            let pace =
                meter.cap(PACKET).map_or(4_000.0, |cap| cap.bytes_per_second() as f64 / PACKET as f64).min(4_000.0);
            debt += pace / 1_000.0;
            tokens = policer.map_or(f64::INFINITY, |rate| (tokens + rate / 1_000.0).min(16.0));
            while debt >= 1.0 {
                debt -= 1.0;
                match tokens >= 1.0 && !random.chance(loss) {
                    true => (delivered, tokens) = (delivered + 1, tokens - 1.0),
                    false => lost += 1,
                }
            }
            meter.on_progress(now, delivered, lost, RTT, (best, 4_000.0));
            if step == seconds * 500 {
                at_half = (delivered, lost);
            }
        }
        let (arrived, gone) = ((delivered - at_half.0) as f64, (lost - at_half.1) as f64);
        (gone / (arrived + gone), arrived / (seconds as f64 / 2.0))
    }

    #[test]
    fn a_policer_is_found_out_and_hardly_loses_anything_from_then_on() {
        for rate in [500.0, 1_333.0, 3_700.0] {
            let mut meter = BucketMeter::new(Time::ZERO);
            let (lost, arrived) = run(&mut meter, Some(rate), 0.0, 20);
            assert!(lost < 0.01 && arrived > 0.95 * rate, "{rate} packets a second: {lost} lost, {arrived} arrived");
        }
    }

    #[test]
    fn random_loss_is_not_taken_for_a_policer() {
        for loss in [0.01, 0.05, 0.2] {
            let mut meter = BucketMeter::new(Time::ZERO);
            let (_, arrived) = run(&mut meter, None, loss, 40);
            assert!(arrived > 4_000.0 * (1.0 - loss) * 0.97, "{loss}: {arrived} of 4,000 a second");
        }
    }

    #[test]
    fn a_policer_that_goes_away_leaves_no_cap_for_long() {
        let mut meter = BucketMeter::new(Time::ZERO);
        run(&mut meter, Some(3_000.0), 0.0, 6);
        assert!(meter.cap(PACKET).is_some());
        (meter.since, meter.delivered, meter.lost) = (Time::ZERO, 0, 0);
        if let State::Capped { raise_at, .. } = &mut meter.state {
            *raise_at = Time::ZERO;
        }
        let (_, arrived) = run(&mut meter, None, 0.0, 30);
        assert!(arrived > 3_900.0 && meter.cap(PACKET).is_none(), "{arrived} a second");
    }
}

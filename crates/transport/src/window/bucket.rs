//! Detects a token bucket on the path, and finds the rate that it passes.
//!
//! A policer drops packets beyond its rate once its tokens are used up. Round trips stay short, so that to the model
//! its losses look like random loss of a radio, for which a flow compensates by requesting more; and each pause fills
//! the bucket, so that short samples of the rate measure the tokens instead of the rate. The rate between two losses is
//! the policed rate (BBRv1 samples it likewise for policers, `bbr_lt_bw_sampling` of Linux; Flach and others, SIGCOMM
//! 2016). Requesting no more than that rate shows whether it is a bucket: losses end then, and random ones do not.
//!
//! ```text
//!   Watch ──(much lost between two losses, no queue)──► Trial: asks for what passed ──(losses ended)──► Hold
//!     ▲                                                  │                                              │  ▲ a loss: less
//!     └──────────(a pause, twice as long each time)──────┴──────────(they did not; much is lost)────────┘  └ none: more
//! ```
use tributary_core::{Duration, Time};

/// The least time between two losses, in round trips and absolute: a rate needs some packets.
const SAMPLE_ROUNDS: u32 = 2;
const SAMPLE_MIN: Duration = Duration::from_millis(25);
const SAMPLE_PACKETS: f64 = 30.0;
/// Losses that are spread over more time than this indicate no bucket.
const SAMPLE_MAX: Duration = Duration::from_secs(5);
/// While a bucket is empty losses follow each other: after a pause of `QUIET_ROUNDS` round trips, in Startup sooner, a
/// new sample starts.
const QUIET_ROUNDS: u32 = 12;
/// Where the answers are lost as well, losses come with silences between them, and the bucket fills again in each: a
/// radio hardly causes `SILENCES` of them in a row, and up to `SILENT_PAUSE` may pass from one loss to the next.
const SILENCES: u32 = 3;
const SILENT_PAUSE: Duration = Duration::from_millis(60);
/// Number and share of lost packets in a sample that indicate a bucket, if that is clearly above the known random loss.
/// Smaller losses are left to the loss meter: a trial costs, and radios and early drops lose some percent.
const LOST_PACKETS: f64 = 10.0;
const LOST_MIN: f64 = 0.2;
/// The rate that a trial requests, as a part of the rate that passed; and the rate once the bucket is confirmed.
const TRIAL: f64 = 0.9;
const HELD: f64 = 0.985;
/// The least duration of a trial, in round trips and absolute, and its number of packets.
const TRIAL_ROUNDS: u32 = 4;
const TRIAL_MIN: Duration = Duration::from_millis(100);
/// A longer one is abandoned.
const TRIAL_MAX: Duration = Duration::from_secs(3);
const TRIAL_PACKETS: f64 = 200.0;
/// Packets that a trial would lose if losses continued as before.
const TRIAL_LOST: f64 = 20.0;
/// Maximum consecutive trials.
const ATTEMPTS_MAX: u32 = 3;
/// Another one is made only if at most this part of the earlier loss is left.
const LESS: f64 = 0.5;
/// The most that a trial loses if it is a bucket, as a part of the earlier loss; and absolute.
const ENDED: f64 = 0.25;
const LOST_MAX: f64 = 0.02;
/// Steps by which it requests more while nothing is lost, and the time between two; each doubles after some.
const STEP: f64 = 0.0025;
/// Until the first loss: a trial requests less than passes.
const STEP_FIRST: f64 = 0.015;
const STEP_TIME: Duration = Duration::from_millis(250);
const STEP_DOUBLES: u32 = 4;
/// The same after a sample with silences, in which less has passed than might have, and the time between two.
const STEP_SILENT: f64 = 0.1;
const STEP_SILENT_TIME: Duration = Duration::from_millis(100);
/// After this many steps without a loss, which reach ten times the rate found, there is no bucket.
const STEPS_SILENT_MAX: u32 = 24;
/// Decrease after a loss, down to the rate that the trial has shown to pass.
const YIELD: f64 = 0.01;
/// Packets in one account, the maximum that a bucket loses of them while the flow requests less than its rate, and the
/// number of accounts that confirm a bucket.
const ACCOUNT: f64 = 1_000.0;
const ACCOUNT_LOST: f64 = 20.0;
const ACCOUNTS_SURE: u32 = 5;
/// After this many rounds in a row with a queue, another bottleneck is narrower than the bucket.
const QUEUE_ROUNDS: u32 = 4;
/// A bucket no longer exists once this multiple of the rate found passes without loss.
const GONE: f64 = 1.5;
/// Until the next trial after one that failed.
const REFUSED: Duration = Duration::from_secs(5);
const REFUSED_DOUBLES: u32 = 5;

/// Bytes delivered and lost since a moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    from: Time,
    lost_at: Time,
    delivered: f64,
    lost: f64,
    /// Silences that were each followed by losses.
    silences: u32,
    is_silent: bool,
}

impl Sample {
    fn new(from: Time) -> Sample {
        Sample { from, lost_at: from, delivered: 0.0, lost: 0.0, silences: 0, is_silent: false }
    }
    fn share(&self) -> f64 {
        self.lost / (self.delivered + self.lost).max(1.0)
    }
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Watch,
    Trial {
        /// Packets requested from `from` on.
        sample: Sample,
        rate: f64,
        lost_before: f64,
        /// Whether the sample had silences, so that more might pass.
        is_low: bool,
        /// Trials in a row: the first sample includes the tokens that were in the bucket.
        attempts: u32,
    },
    Hold(Hold),
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    /// The requested rate, and the rate that passed when the bucket was found, in bytes per second.
    limit: f64,
    found: f64,
    /// Losses of packets requested earlier than this already led to a decrease.
    cut_at: Time,
    step_at: Time,
    steps: u32,
    /// Bytes delivered and lost since the last account, and the number of accounts.
    account: Sample,
    accounts: u32,
    /// Whether anything was lost since it was found.
    is_met: bool,
    /// Whether clearly more than the rate found might pass.
    is_low: bool,
}

/// Watches the losses of one path for a token bucket.
#[derive(Clone, Debug, Default)]
pub(super) struct Bucket {
    state: State,
    /// Since the last loss that started a sample.
    sample: Option<Sample>,
    /// Rounds in a row that met a queue.
    queue_rounds: u32,
    refused_until: Time,
    refusals: u32,
}

/// The model's state when packets are lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circumstances {
    pub(super) now: Time,
    pub(super) round_trip: Duration,
    /// Whether round trips indicate a queue.
    pub(super) has_queue: bool,
    /// Whether the flow has not found its rate yet.
    pub(super) is_startup: bool,
    /// The known share of random loss.
    pub(super) random: f64,
    pub(super) packet_bytes: f64,
}

impl Bucket {
    /// The limit of requests, in bytes per second; `None` if no bucket is known.
    pub(super) fn limit(&self) -> Option<f64> {
        match self.state {
            State::Watch => None,
            State::Trial { rate, .. } => Some(rate * TRIAL),
            State::Hold(hold) => Some(hold.limit),
        }
    }
    /// Takes `bytes` that arrived in answer to a request at `requested_at`.
    pub(super) fn on_delivered(&mut self, at: Circumstances, requested_at: Time, bytes: u64, starved: bool) {
        if let Some(sample) = &mut self.sample {
            sample.delivered += bytes as f64;
            if starved || at.now.since(sample.from) > SAMPLE_MAX.max(at.round_trip * SAMPLE_ROUNDS * 2) {
                self.sample = None;
            }
        }
        match &mut self.state {
            State::Watch => {}
            State::Trial { sample, .. } => {
                if requested_at >= sample.from {
                    sample.delivered += bytes as f64;
                }
                self.conclude_trial(at);
            }
            State::Hold(hold) => {
                hold.account.delivered += bytes as f64;
                let is_gone = hold.grow(at.now, starved);
                if hold.account.delivered + hold.account.lost >= ACCOUNT * at.packet_bytes {
                    let lost = hold.account.lost;
                    hold.account = Sample::new(at.now);
                    hold.accounts += 1;
                    if hold.accounts == ACCOUNTS_SURE {
                        self.refusals = 0;
                    }
                    if lost > ACCOUNT_LOST * at.packet_bytes {
                        return self.refuse(at.now);
                    }
                }
                if is_gone {
                    self.state = State::Watch;
                }
            }
        }
    }
    /// Takes packets that are lost.
    pub(super) fn on_lost(&mut self, at: Circumstances, requested_at: Time, bytes: u64) {
        match &mut self.state {
            State::Watch => {}
            State::Trial { sample, .. } => {
                if requested_at >= sample.from {
                    sample.lost += bytes as f64;
                }
                self.sample = None;
                return;
            }
            State::Hold(hold) => {
                hold.account.lost += bytes as f64;
                if requested_at >= hold.cut_at {
                    hold.cut(at.now);
                }
            }
        }
        let Some(sample) = &mut self.sample else {
            self.sample = Some(Sample::new(at.now));
            return;
        };
        let quiet = if at.is_startup { at.round_trip * 3 / 2 } else { at.round_trip * QUIET_ROUNDS };
        let quiet = if core::mem::take(&mut sample.is_silent) {
            sample.silences += 1;
            quiet.max(SILENT_PAUSE)
        } else {
            quiet
        };
        let pause = at.now.since(sample.lost_at);
        sample.lost += bytes as f64;
        sample.lost_at = at.now;
        let elapsed = at.now.since(sample.from);
        if elapsed > SAMPLE_MAX.max(at.round_trip * SAMPLE_ROUNDS * 2) || pause > quiet.max(SAMPLE_MIN) {
            self.sample = Some(Sample::new(at.now));
            return;
        }
        let lost = sample.lost / at.packet_bytes;
        let is_long = elapsed >= SAMPLE_MIN.max(at.round_trip * SAMPLE_ROUNDS)
            && sample.delivered >= SAMPLE_PACKETS * at.packet_bytes;
        let is_regular = sample.silences == 0 || sample.silences >= SILENCES;
        if is_long && is_regular && lost >= LOST_PACKETS {
            let sample = core::mem::replace(sample, Sample::new(at.now));
            self.judge(at, sample, elapsed);
        }
    }
    /// Begins a trial if a sample lost clearly more than the random loss, and no queue explains it.
    fn judge(&mut self, at: Circumstances, sample: Sample, elapsed: Duration) {
        let packets = (sample.delivered + sample.lost) / at.packet_bytes;
        let usual = at.random + 2.0 * libm::sqrt(at.random / packets);
        if at.has_queue || sample.share() < usual + LOST_MIN || at.now < self.refused_until {
            return;
        }
        let (rate, lost_before) = (sample.delivered / elapsed.as_secs_f64(), sample.share());
        // The tokens that the bucket still lacks for whole bursts arrive until then.
        let sample_from = at.now + at.round_trip.max(SAMPLE_MIN);
        let is_low = sample.silences > 0;
        self.state = State::Trial { sample: Sample::new(sample_from), rate, lost_before, is_low, attempts: 1 };
        self.sample = None;
    }
    /// Ends a trial that has lasted long enough.
    fn conclude_trial(&mut self, at: Circumstances) {
        let State::Trial { sample, rate, lost_before, is_low, attempts } = self.state else { return };
        let is_long = at.now.since(sample.from) >= TRIAL_MIN.max(at.round_trip * TRIAL_ROUNDS) + at.round_trip
            && sample.delivered + sample.lost >= TRIAL_PACKETS.max(TRIAL_LOST / lost_before) * at.packet_bytes;
        if !is_long {
            if at.now.since(sample.from) > TRIAL_MAX {
                self.refuse(at.now);
            }
            return;
        }
        if sample.share() <= (ENDED * lost_before).min(LOST_MAX) {
            self.state = State::Hold(Hold {
                limit: rate * HELD,
                found: rate,
                cut_at: at.now,
                step_at: at.now + STEP_TIME,
                steps: 0,
                account: Sample::new(at.now),
                accounts: 0,
                is_met: false,
                is_low,
            });
            return;
        }
        // The requests of its start were answered a round trip later.
        let elapsed = at.now.since(sample.from + at.round_trip).max(Duration::from_millis(1));
        let passed = sample.delivered / elapsed.as_secs_f64();
        if attempts < ATTEMPTS_MAX && sample.share() < LESS * lost_before {
            let sample = Sample::new(at.now + at.round_trip.max(SAMPLE_MIN));
            self.state = State::Trial { sample, rate: passed, lost_before, is_low, attempts: attempts + 1 };
        } else {
            self.refuse(at.now);
        }
    }
    /// It was no bucket, or is no longer recognisable as one.
    fn refuse(&mut self, now: Time) {
        (self.state, self.sample) = (State::Watch, None);
        self.refused_until = now + REFUSED * (1 << self.refusals.min(REFUSED_DOUBLES));
        self.refusals += 1;
    }
    /// A round has passed.
    pub(super) fn on_round(&mut self, at: Circumstances) {
        self.queue_rounds = if at.has_queue { self.queue_rounds + 1 } else { 0 };
        if at.has_queue {
            self.sample = None;
        }
        if self.queue_rounds >= QUEUE_ROUNDS && self.limit().is_some() {
            self.refuse(at.now);
        }
    }
    /// The path is silent: a sample across that is void, unless silences repeat.
    pub(super) fn on_silence(&mut self) {
        if let Some(sample) = &mut self.sample {
            sample.is_silent = true;
        }
        if let State::Trial { .. } = self.state {
            self.state = State::Watch;
        }
    }
}

impl Hold {
    /// Requests more, step by step, while no packet is lost; true once the bucket no longer exists.
    fn grow(&mut self, now: Time, starved: bool) -> bool {
        if now < self.step_at {
            return false;
        }
        self.step_at = now + if self.is_low && !self.is_met { STEP_SILENT_TIME } else { STEP_TIME };
        // A starved flow does not test the rate.
        if !starved {
            let step = match self.is_met {
                true => STEP * f64::from(1u32 << (self.steps / STEP_DOUBLES).min(6)),
                false if self.is_low => STEP_SILENT,
                false => STEP_FIRST,
            };
            if self.is_low && !self.is_met {
                // This much has passed.
                self.found = self.found.max(self.limit);
            }
            self.limit *= 1.0 + step;
            self.steps += 1;
        }
        self.limit > GONE * self.found || self.is_low && !self.is_met && self.steps > STEPS_SILENT_MAX
    }
    /// Asks for less after a loss.
    fn cut(&mut self, now: Time) {
        // The bucket passes no more than the present limit.
        self.is_met = true;
        // The trial has shown that this much passes: losses below it are not the bucket's.
        self.limit = (self.limit * (1.0 - YIELD)).max(self.found * TRIAL);
        (self.cut_at, self.step_at, self.steps) = (now, now + STEP_TIME, 0);
    }
}

//! The largest datagram that the link of a face carries, found by probing the neighbour: path MTU discovery of a
//! packetization layer (RFC 8899), without ICMP.
//!
//! ```text
//!   untried ──small probe answered──► in use: the MTU of the face ────its probe unanswered──► largest size answered
//!      ▲ │                                   ▲                                                        │
//!      └─┘ no answer: as configured          └──────────── a larger one answered ────────────────────┘
//! ```
//! A neighbour that answers no probe may not implement them; then the configured size stays. RFC 8899 starts at a base
//! size and searches upwards; here the configured size holds until smaller probes are answered and larger ones are not,
//! because a wrong setting is the exception. Probes are sent only while datagrams are (RFC 8899 §4.1), so that an idle
//! face stays silent, and not while datagrams of the size in use are known to arrive.
use alloc::{collections::VecDeque, vec::Vec};

use tributary_core::{Duration, Time};

use crate::LinkPace;

/// Sizes of common links besides the configured one: the least that IPv4 must carry, RFC 8899's base, IPv6's least MTU,
/// tunnels, PPPoE over IPv6 and IPv4, Ethernet over IPv6 and IPv4, jumbo frames, the kernel's loopback (RFC 8899
/// §5.3.2: a table of common sizes). All are UDP payloads.
const SIZES: [u32; 11] = [576, 1_200, 1_232, 1_372, 1_432, 1_444, 1_452, 1_464, 1_472, 8_972, 32_768];
/// How often a size is tried (RFC 8899 §5.1.2, MAX_PROBES).
const ATTEMPTS_MAX: u32 = 3;
/// The number of tries if smaller ones are lost too, at random: a larger one is ruled out only if all of its tries are
/// lost.
const ATTEMPTS_MAX_LOSSY: u32 = 8;
/// The number of tries of the smallest size without any answer.
const LIFE_TRIES_MAX: u32 = 3;
/// Minimum wait for an answer (RFC 8899 §5.1.1, PROBE_TIMER).
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two checks that the size in use still gets through; RFC 8899 leaves it to the transport's own signs.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Checks take at most this fraction (1/`CHECK_PARTS`) of a slow link.
const CHECK_PARTS: u32 = 100;
/// Probes whose times are remembered, so that late answers show their duration.
const SENT_MAX: usize = 16;
/// Time between two tries of larger sizes (RFC 8899 has 600 s for PMTU_RAISE_TIMER), and between two probes of a
/// neighbour that answers no probe.
const RAISE_INTERVAL: Duration = Duration::from_secs(30);

/// A datagram to send: of `size` bytes, carrying `number`, which the neighbour sends back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MtuProbe {
    /// To be sent back.
    pub number: u32,
    /// Bytes of the whole datagram.
    pub size: u32,
}

/// The search on one face.
///
/// Call [`PathMtu::on_sent`] for datagrams that leave, send the probes of [`PathMtu::poll_probe`], and read
/// [`PathMtu::size`] after [`PathMtu::on_answer`] and [`PathMtu::handle_timeout`].
#[derive(Clone, Debug, Default)]
pub struct PathMtu {
    /// Ascending; the last is the configured size.
    sizes: Vec<u32>,
    size: u32,
    /// Whether the neighbour has ever answered.
    is_known: bool,
    /// Whether datagrams have left since the last round, or since one of the size in use is known to have arrived.
    is_used: bool,
    /// Until then data is more likely than a probe to show that the size in use gets through.
    rests_until: Time,
    next_number: u32,
    round: Option<Round>,
    check_at: Time,
    raise_at: Time,
    /// How long to wait for an answer.
    patience: Duration,
    probes: VecDeque<MtuProbe>,
    /// The probes sent last, and when.
    sent: VecDeque<(MtuProbe, Time)>,
    /// How slow the link is.
    pace: LinkPace,
}

/// Probes with outstanding answers.
#[derive(Clone, Debug)]
struct Round {
    /// With whether they were answered.
    sent: Vec<(MtuProbe, bool)>,
    /// The largest size answered.
    answered: u32,
    attempts: u32,
    /// Tries of the smallest size alone since the last answer.
    life_tries: u32,
    began: Time,
    due: Time,
}

impl PathMtu {
    /// A face whose datagrams have at most `size_max` bytes. `number_first` should be random: a node that does not
    /// receive a probe then cannot answer it.
    pub fn new(size_max: u32, number_first: u32) -> PathMtu {
        let sizes = SIZES.into_iter().filter(|size| *size < size_max).chain([size_max]).collect();
        PathMtu { sizes, size: size_max, next_number: number_first, patience: PATIENCE, ..PathMtu::default() }
    }
    /// The number of the next probe, for a search that restarts.
    pub fn next_number(&self) -> u32 {
        self.next_number
    }
    /// Maximum bytes of a datagram.
    pub fn size(&self) -> u32 {
        self.size
    }
    /// The configured size: datagrams are never longer.
    pub fn size_configured(&self) -> u32 {
        *self.sizes.last().expect("what the face is told is always among them")
    }
    /// A datagram of `bytes` leaves. Sizes that any link carries need no probe.
    pub fn on_sent(&mut self, bytes: usize) {
        self.is_used |= bytes > self.sizes[0] as usize / 2 && self.sizes.len() > 1;
    }
    /// A datagram of `bytes` has arrived: if it has the size in use, that size needs no probe for a while (RFC 8899 §3:
    /// acknowledged data may confirm a size). It may have left before the current round started, so the round
    /// continues; the answer to the probe may still be queued behind it, so the round waits longer.
    pub fn on_arrived(&mut self, now: Time, bytes: u32) {
        if bytes < self.size {
            return;
        }
        let patience = self.patience;
        self.rests_until = self.rests_until.max(now + patience);
        if let Some(round) = &mut self.round {
            if round.answered < bytes && now.since(round.began) < RAISE_INTERVAL {
                round.due = now + patience;
            }
            return;
        }
        self.is_used = false;
        self.check_at = self.check_at.max(now + self.check_interval());
        if self.is_known && self.size < self.size_configured() {
            // Larger sizes are still tried.
            self.check_at = self.check_at.min(self.raise_at);
        }
    }
    /// There are signs that large datagrams are lost: the size in use is tried at once, unless one has just arrived or
    /// may be on its way.
    pub fn check(&mut self, now: Time) {
        if self.is_used && self.round.is_none() {
            self.check_at = self.check_at.min(now.max(self.rests_until));
        }
    }
    /// Sends the smallest probe unless the neighbour has answered one; its round trip shows how slow the link is.
    pub fn probe_smallest(&mut self, now: Time) {
        if !self.is_known && self.round.is_none() && self.check_at <= now {
            self.begin(now);
        }
    }
    /// The size in use is not probed before `until`: on a slow link a probe takes the time of data, whose
    /// acknowledgement may come first and confirm that size.
    pub fn put_off(&mut self, until: Time) {
        if !self.is_known || self.round.is_none() {
            self.check_at = self.check_at.max(until);
            self.rests_until = self.rests_until.max(until);
        }
    }
    /// The round-trip time of the link: answers are awaited for twice as long, and for at least a second.
    pub fn on_round_trip(&mut self, round_trip: Duration) {
        self.patience = (round_trip * 2).clamp(PATIENCE, RAISE_INTERVAL);
    }
    /// The neighbour is silent, at all sizes: answers get more time.
    pub fn on_silence(&mut self, now: Time) {
        if let Some(round) = self.round.as_mut().filter(|round| round.due <= now) {
            round.due = now + self.patience;
        }
    }
    /// The neighbour is away, so missing answers are no evidence about sizes.
    pub fn on_away(&mut self) {
        self.probes.clear();
        self.round = None;
        self.is_used = false;
    }
    /// The bytes of the probe with this number and the time since it was sent, while that is remembered.
    pub fn round_trip_of(&self, now: Time, number: u32) -> Option<(usize, Duration)> {
        let (probe, at) = self.sent.iter().find(|(probe, _)| probe.number == number)?;
        Some((probe.size as usize, now.since(*at)))
    }
    /// The neighbour has answered the probe with this number.
    pub fn on_answer(&mut self, now: Time, number: u32) {
        if let Some((bytes, round_trip)) = self.round_trip_of(now, number) {
            self.pace.on_round_trip(now, bytes, round_trip);
            self.patience = self.patience.max((round_trip * 2).min(RAISE_INTERVAL));
        }
        let Some(round) = &mut self.round else { return };
        let Some((probe, is_answered)) = round.sent.iter_mut().find(|(probe, _)| probe.number == number) else {
            return;
        };
        *is_answered = true;
        round.answered = round.answered.max(probe.size);
        self.size = self.size.max(round.answered);
        if !core::mem::replace(&mut self.is_known, true) {
            match self.check_at <= now {
                true => self.begin(now),
                false => self.round = None,
            }
        } else if round.sent.iter().all(|(probe, _)| probe.size <= round.answered) {
            self.end(now);
        } else if core::mem::take(&mut round.life_tries) > 0 {
            // Datagrams arrive again while an earlier probe stays unanswered: the sizes in between are tried
            // immediately.
            self.try_again(now);
        }
    }
    /// Serves the timer.
    pub fn handle_timeout(&mut self, now: Time) {
        let Some(round) = &self.round else {
            if self.is_used && self.check_at <= now {
                self.begin(now);
            }
            return;
        };
        if round.due > now {
            return;
        }
        let answered = round.answered;
        let is_lossy = round.sent.iter().any(|(probe, is_answered)| probe.size <= answered && !is_answered);
        let attempts_max = if is_lossy { ATTEMPTS_MAX_LOSSY } else { ATTEMPTS_MAX };
        if answered < self.size && round.attempts < attempts_max && round.life_tries < LIFE_TRIES_MAX {
            return self.try_again(now);
        }
        // Without any answer the link or the neighbour is down, which is no evidence about sizes.
        if self.is_known && answered > 0 {
            self.size = answered;
        }
        self.end(now);
    }
    /// The next probe to send.
    pub fn poll_probe(&mut self) -> Option<MtuProbe> {
        self.probes.pop_front()
    }
    /// When to call [`PathMtu::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        match &self.round {
            Some(round) => Some(round.due),
            None => self.is_used.then_some(self.check_at),
        }
    }

    fn begin(&mut self, now: Time) {
        let sent = Vec::new();
        self.round = Some(Round { sent, answered: 0, attempts: 0, life_tries: 0, began: now, due: now });
        self.try_again(now);
        if self.is_known && self.raise_at <= now {
            self.raise_at = now + RAISE_INTERVAL;
            let larger: Vec<u32> = self.sizes.iter().copied().filter(|size| *size > self.size).collect();
            larger.into_iter().for_each(|size| self.send(now, size));
        }
    }
    fn check_interval(&self) -> Duration {
        self.pace.interval(CHECK_INTERVAL, self.size as usize, CHECK_PARTS)
    }
    /// The size in use first; if it stays unanswered, the smallest, which shows whether the link works; then the size in
    /// use once more, since a full queue may have dropped it; then every candidate to replace it. Sent together, all of
    /// them occupy a link of 9,600 bit/s for 12 s.
    fn try_again(&mut self, now: Time) {
        let Some(round) = &mut self.round else { return };
        let is_dead = self.is_known && round.attempts > 0 && round.answered == 0;
        match is_dead {
            true => round.life_tries += 1,
            false => round.attempts += 1,
        }
        round.due = now + self.patience * (1 << round.life_tries.min(4));
        let range = match (self.is_known, round.attempts) {
            (false, _) => 0..=self.sizes[0],
            (true, _) if is_dead => 0..=self.sizes[0],
            (true, 1 | 2) => self.size..=self.size,
            (true, _) => round.answered + 1..=self.size,
        };
        let sizes: Vec<u32> = self.sizes.iter().copied().filter(|size| range.contains(size)).collect();
        sizes.into_iter().for_each(|size| self.send(now, size));
    }
    fn send(&mut self, now: Time, size: u32) {
        let probe = MtuProbe { number: self.next_number, size };
        self.next_number = self.next_number.wrapping_add(1);
        self.probes.push_back(probe);
        self.sent.push_back((probe, now));
        if self.sent.len() > SENT_MAX {
            self.sent.pop_front();
        }
        self.round.iter_mut().for_each(|round| round.sent.push((probe, false)));
    }
    fn end(&mut self, now: Time) {
        self.round = None;
        self.is_used = false;
        self.check_at = now + if self.is_known { self.check_interval() } else { RAISE_INTERVAL };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_core::Random;

    /// A face that sends all the time over a link that carries `carries` bytes to a neighbour that answers or does not.
    struct Link {
        mtu: PathMtu,
        now: Time,
        carries: u32,
        answers: bool,
        /// The part of the probes that is lost, or their answers.
        loss: f64,
        random: Random,
        sends: bool,
        /// Whether its arrivals are acknowledged.
        acknowledged: bool,
        probes: usize,
    }

    impl Link {
        fn new(configured: u32, carries: u32) -> Link {
            Link {
                mtu: PathMtu::new(configured, 7),
                now: Time::ZERO,
                carries,
                answers: true,
                loss: 0.0,
                random: Random::new(1, 0),
                sends: true,
                acknowledged: false,
                probes: 0,
            }
        }
        fn run(&mut self, seconds: u64) -> u32 {
            let end = self.now + Duration::from_secs(seconds);
            while self.now < end {
                self.step();
            }
            self.mtu.size()
        }
        fn step(&mut self) {
            if self.sends {
                self.mtu.on_sent(self.mtu.size() as usize);
            }
            if self.mtu.poll_timeout().is_some_and(|due| due <= self.now) {
                self.mtu.handle_timeout(self.now);
            }
            self.now += Duration::from_millis(50);
            if self.acknowledged && self.mtu.size() <= self.carries {
                self.mtu.on_arrived(self.now, self.mtu.size());
            }
            while let Some(probe) = self.mtu.poll_probe() {
                self.probes += 1;
                let is_lost = self.random.chance(self.loss);
                if self.answers && !is_lost && probe.size <= self.carries {
                    self.mtu.on_answer(self.now, probe.number);
                }
            }
        }
    }

    #[test]
    fn a_link_that_carries_less_than_told_is_found_out() {
        let cases = [(1_472, 1_500, 1_472), (1_472, 1_471, 1_464), (1_472, 1_300, 1_232), (1_472, 600, 576)];
        for (configured, carries, found) in cases.into_iter().chain([(9_000, 2_000, 1_472), (65_507, 9_000, 8_972)]) {
            assert_eq!(Link::new(configured, carries).run(4), found, "told {configured}, carries {carries}");
        }
    }

    #[test]
    fn a_link_that_shrinks_is_noticed_and_tried_again_when_it_grows() {
        let mut link = Link::new(1_472, 1_472);
        assert_eq!(link.run(20), 1_472);
        link.carries = 1_280;
        assert_eq!(link.run(9), 1_232);
        link.carries = 1_472;
        assert_eq!(link.run(36), 1_472);
        link.carries = 1_400;
        link.mtu.on_sent(1_472);
        link.mtu.check(link.now);
        assert_eq!(link.run(4), 1_372, "sooner where there are signs");
    }

    #[test]
    fn what_is_acknowledged_is_not_tried_and_what_is_not_is() {
        let mut link = Link::new(1_472, 1_472);
        link.acknowledged = true;
        link.run(600);
        assert_eq!(link.probes, 2, "a small one, and one of the size in use");
        link.carries = 1_280;
        assert_eq!(link.run(9), 1_232, "as soon as without acknowledgements");
        let probes = link.probes;
        link.run(600);
        assert!(link.probes - probes <= 2 * 600 / 30 * 8, "only larger ones: {}", link.probes - probes);
        link.carries = 1_472;
        assert_eq!(link.run(36), 1_472);
        // Short datagrams that arrive are no evidence about long ones.
        link.acknowledged = false;
        link.carries = 1_280;
        for _ in 0..180 {
            link.step();
            link.mtu.on_sent(1_472);
            link.mtu.on_arrived(link.now, 1_200);
        }
        assert_eq!(link.mtu.size(), 1_232);
    }

    #[test]
    fn the_first_data_on_a_slow_link_takes_the_place_of_a_probe() {
        let second = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let probed_at = |arrives_at: Option<u64>| {
            let mut mtu = PathMtu::new(1_472, 7);
            mtu.probe_smallest(second(0));
            assert_eq!(mtu.poll_probe().map(|probe| probe.size), Some(576));
            mtu.put_off(second(4));
            mtu.on_answer(second(0), 7);
            (1..20).find(|at| {
                mtu.on_sent(1_472);
                if arrives_at.is_some_and(|from| *at >= from) {
                    mtu.on_arrived(second(*at), 1_472);
                    // An answer to something else is late.
                    mtu.on_sent(1_472);
                    mtu.check(second(*at));
                }
                mtu.handle_timeout(second(*at));
                mtu.poll_probe().is_some()
            })
        };
        assert_eq!([None, Some(2), Some(5)].map(probed_at), [Some(4), None, Some(4)]);
    }

    #[test]
    fn who_answers_no_probe_is_sent_what_the_face_is_told() {
        let mut link = Link::new(1_472, 1_000);
        link.answers = false;
        assert_eq!(link.run(60), 1_472);
        assert_eq!(link.probes, 2 * ATTEMPTS_MAX as usize, "and hardly anything of it");
        link.answers = true;
        assert_eq!(link.run(40), 576);
    }

    #[test]
    fn random_loss_is_not_taken_for_a_narrow_link() {
        let mut link = Link::new(1_472, 1_472);
        link.loss = 0.36;
        let shrunk = (0..720).filter(|_| link.run(5) < 1_472).count();
        assert!(shrunk < 14, "in {shrunk} of 720 moments of an hour");
        link.carries = 1_280;
        assert_eq!(link.run(60), 1_232);
    }

    #[test]
    fn what_is_not_answered_because_the_neighbour_left_says_nothing_of_sizes() {
        let mut link = Link::new(1_472, 1_472);
        link.run(3);
        for _ in 0..ATTEMPTS_MAX_LOSSY + 1 {
            // Only the small probes of a round are answered before its end.
            link.carries = 1_000;
            link.mtu.on_sent(1_472);
            link.mtu.check(link.now);
            assert_eq!(link.run(2), 1_472);
            link.mtu.on_away();
            assert!(link.mtu.poll_timeout().is_none() && link.mtu.poll_probe().is_none());
            link.carries = 1_472;
        }
        assert_eq!(link.run(9), 1_472);
    }

    #[test]
    fn silence_says_nothing_of_sizes() {
        let mut link = Link::new(1_472, 1_472);
        link.run(3);
        link.answers = false;
        assert_eq!(link.run(100), 1_472);
    }

    #[test]
    fn answers_behind_a_long_queue_are_waited_for() {
        let probes = |round_trip: u64, wait: fn(&mut PathMtu, Time)| {
            let mut link = Link::new(1_472, 1_472);
            link.run(3);
            link.mtu.on_round_trip(Duration::from_secs(round_trip));
            link.answers = false;
            link.mtu.on_sent(1_472);
            link.mtu.check(link.now);
            let before = link.probes;
            for _ in 0..5 * 20 {
                link.step();
                wait(&mut link.mtu, link.now);
            }
            link.probes - before
        };
        assert_eq!(probes(0, |_, _| {}), 3, "whether anything comes back, ever more rarely");
        assert_eq!(probes(0, |mtu, now| mtu.on_arrived(now, 1_472)), 1, "those of the size in use arrive");
        assert_eq!(probes(0, PathMtu::on_silence), 1, "nothing at all arrives");
        assert_eq!(probes(3, |_, _| {}), 1, "round trips take longer");
    }

    #[test]
    fn a_face_that_sends_nothing_asks_nothing() {
        let mut link = Link::new(1_472, 1_472);
        link.sends = false;
        link.run(100);
        link.mtu.on_sent(40);
        link.run(100);
        assert_eq!((link.probes, link.mtu.poll_timeout()), (0, None));
        assert_eq!(PathMtu::new(500, 0).size(), 500);
    }

    #[test]
    fn an_answer_to_no_probe_changes_nothing() {
        let mut link = Link::new(1_472, 1_000);
        link.run(4);
        for number in 0..7 {
            link.mtu.on_answer(link.now, number);
        }
        assert_eq!(link.run(60), 576);
    }
}

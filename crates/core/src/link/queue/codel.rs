//! Controlled delay (RFC 8289): drops at the head when even the shortest wait of an interval was too long.
use super::{Backlog, Discipline, Signal, Verdict};
use crate::{Duration, Time};

/// Settings of [`CoDel`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CoDelConfig {
    /// The standing delay that is accepted. Default 5 ms (RFC 8289 §4.4).
    pub target: Duration,
    /// For how long the wait must stay above it; of the order of a round trip. Default 100 ms (RFC 8289 §4.3).
    pub interval: Duration,
    /// Nothing is dropped while no more than this waits (RFC 8289 §5.4: one MTU). Default 1,500 bytes.
    pub bytes_min: u64,
    /// Drop, or mark instead. Default: drop.
    pub signal: Signal,
}
impl CoDelConfig {
    /// The defaults.
    pub const DEFAULT: CoDelConfig = CoDelConfig {
        target: Duration::from_millis(5),
        interval: Duration::from_millis(100),
        bytes_min: 1_500,
        signal: Signal::Drop,
    };
}

/// RFC 8289 §5 dequeues several packets in one call. Here each call dequeues one, so [`Phase`] holds the state that the
/// RFC keeps in its program counter.
#[derive(Clone, Debug)]
pub struct CoDel {
    config: CoDelConfig,
    phase: Phase,
    /// When the wait will have been above the target for an interval; `None` while it is not above.
    first_above: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Packets pass.
    Passing,
    /// The packet that started the dropping was just dropped; the next one passes in any case.
    Entered,
    /// Packets pass until `drop_next`.
    Dropping,
    /// A packet was dropped because `drop_next` had come; the next one decides when that is again.
    Dropped,
}

impl CoDel {
    /// The discipline at its start.
    pub fn new(config: CoDelConfig) -> Self {
        CoDel { config, phase: Phase::Passing, first_above: None, drop_next: Time::ZERO, count: 0, last_count: 0 }
    }
    /// RFC 8289 §5.4, `dodequeue`: whether the wait has been above the target for an interval.
    fn is_too_long(&mut self, now: Time, sojourn: Duration, backlog: Backlog) -> bool {
        if sojourn < self.config.target || backlog.bytes <= self.config.bytes_min {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + self.config.interval);
                false
            }
            Some(first_above) => now >= first_above,
        }
    }
    /// RFC 8289 §5.3: drops come closer with the square root of their number.
    fn control_law(&self, from: Time) -> Time {
        let interval = self.config.interval.as_nanos() as f64;
        from + Duration::from_nanos((interval / libm::sqrt(f64::from(self.count))) as u64)
    }
    /// The decision of one turn of the RFC's `while (now >= drop_next_ && dropping_)`.
    fn drop_if_due(&mut self, now: Time) -> Verdict {
        if now < self.drop_next {
            self.phase = Phase::Dropping;
            return Verdict::Pass;
        }
        self.count += 1;
        match self.config.signal {
            Signal::Drop => self.phase = Phase::Dropped,
            // A marked packet is sent, so there is no next one in this turn.
            Signal::Mark => {
                self.phase = Phase::Dropping;
                self.drop_next = self.control_law(self.drop_next);
            }
        }
        self.config.signal.verdict()
    }
    fn enter(&mut self, now: Time) -> Verdict {
        // If the last dropping is not long over, its rate was about right: RFC 8289 §5.5.
        let delta = self.count.saturating_sub(self.last_count);
        let is_recent = now.since(self.drop_next) < self.config.interval * 16;
        self.count = if delta > 1 && is_recent { delta } else { 1 };
        self.drop_next = self.control_law(now);
        self.last_count = self.count;
        self.phase = match self.config.signal {
            Signal::Drop => Phase::Entered,
            Signal::Mark => Phase::Dropping,
        };
        self.config.signal.verdict()
    }
}

impl Discipline for CoDel {
    fn on_departure(&mut self, now: Time, sojourn: Duration, backlog: Backlog) -> Verdict {
        let is_too_long = self.is_too_long(now, sojourn, backlog);
        match self.phase {
            Phase::Passing if is_too_long => self.enter(now),
            Phase::Passing => Verdict::Pass,
            Phase::Entered => {
                self.phase = Phase::Dropping;
                Verdict::Pass
            }
            Phase::Dropping | Phase::Dropped if !is_too_long => {
                self.phase = Phase::Passing;
                Verdict::Pass
            }
            Phase::Dropping => self.drop_if_due(now),
            Phase::Dropped => {
                self.drop_next = self.control_law(self.drop_next);
                self.drop_if_due(now)
            }
        }
    }
    fn on_idle(&mut self, _: Time) {
        // RFC 8289 §5.4: an empty queue ends the dropping.
        self.first_above = None;
        self.phase = Phase::Passing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use alloc::{collections::VecDeque, vec::Vec};

    /// The pseudo-code of RFC 8289 §5.2 to §5.6, line by line, with its own queue of (arrival, bytes, number).
    struct Oracle {
        queue: VecDeque<(Time, u64, u64)>,
        bytes: u64,
        first_above_time: Time,
        drop_next: Time,
        count: u32,
        lastcount: u32,
        dropping: bool,
        dropped: Vec<u64>,
    }
    const TARGET: Duration = Duration::from_millis(5);
    const INTERVAL: Duration = Duration::from_millis(100);
    impl Oracle {
        fn control_law(t: Time, count: u32) -> Time {
            t + Duration::from_nanos((INTERVAL.as_nanos() as f64 / libm::sqrt(f64::from(count))) as u64)
        }
        fn dodequeue(&mut self, now: Time) -> (Option<(Time, u64, u64)>, bool) {
            let Some(packet) = self.queue.pop_front() else {
                self.first_above_time = Time::ZERO;
                return (None, false);
            };
            self.bytes -= packet.1;
            if now.since(packet.0) < TARGET || self.bytes <= 1_500 {
                self.first_above_time = Time::ZERO;
            } else if self.first_above_time == Time::ZERO {
                self.first_above_time = now + INTERVAL;
            } else if now >= self.first_above_time {
                return (Some(packet), true);
            }
            (Some(packet), false)
        }
        fn dequeue(&mut self, now: Time) -> Option<u64> {
            let (mut packet, mut ok_to_drop) = self.dodequeue(now);
            if packet.is_none() {
                self.dropping = false;
                return None;
            }
            if self.dropping {
                if !ok_to_drop {
                    self.dropping = false;
                }
                while now >= self.drop_next && self.dropping {
                    self.dropped.extend(packet.map(|packet| packet.2));
                    self.count += 1;
                    (packet, ok_to_drop) = self.dodequeue(now);
                    if ok_to_drop {
                        self.drop_next = Self::control_law(self.drop_next, self.count);
                    } else {
                        self.dropping = false;
                    }
                }
            } else if ok_to_drop {
                self.dropped.extend(packet.map(|packet| packet.2));
                (packet, _) = self.dodequeue(now);
                self.dropping = true;
                let delta = self.count.saturating_sub(self.lastcount);
                self.count = 1;
                if delta > 1 && now.since(self.drop_next) < INTERVAL * 16 {
                    self.count = delta;
                }
                self.drop_next = Self::control_law(now, self.count);
                self.lastcount = self.count;
            }
            packet.map(|packet| packet.2)
        }
    }

    /// Sends packets of 1,000 bytes at `load` of a 10 Mbit/s line for 20 s; returns what each implementation sends and
    /// drops.
    fn runs(seed: u64, load: f64) -> ([Vec<u64>; 2], [Vec<u64>; 2]) {
        let mut random = Random::new(seed, 1);
        let mut oracle = Oracle {
            queue: VecDeque::new(),
            bytes: 0,
            first_above_time: Time::ZERO,
            drop_next: Time::ZERO,
            count: 0,
            lastcount: 0,
            dropping: false,
            dropped: Vec::new(),
        };
        let mut queue =
            super::super::Queue::new(1 << 30, None, super::super::QueueDiscipline::CoDel(CoDelConfig::DEFAULT), None);
        let (mut sent, mut dropped) = ([Vec::new(), Vec::new()], Vec::new());
        let (mut number, mut arrival) = (0, Time::ZERO);
        for slot in 1..25_000_u64 {
            let now = Time::from_nanos(slot * 800_000);
            while arrival <= now {
                oracle.queue.push_back((arrival, 1_000, number));
                oracle.bytes += 1_000;
                assert_ne!(queue.admit(arrival, 1_000, &mut random), Verdict::Drop);
                queue.push(arrival, 1_000, number);
                number += 1;
                // Bursts and pauses around the mean, so that the dropping starts and ends many times.
                let is_quiet = slot / 2_500 % 2 == 1;
                let mean = 800_000.0 / load * if is_quiet { 2.0 } else { 1.0 };
                arrival += Duration::from_nanos((mean * 2.0 * random.unit()) as u64);
            }
            sent[0].extend(oracle.dequeue(now));
            while let Some((_, number, verdict)) = queue.pop(now) {
                if verdict == Verdict::Pass {
                    sent[1].push(number);
                    break;
                }
                dropped.push(number);
            }
        }
        (sent, [oracle.dropped, dropped])
    }

    #[test]
    fn sends_and_drops_what_the_pseudo_code_of_the_rfc_does() {
        for (seed, load) in [(1, 0.9), (2, 1.05), (3, 1.5), (4, 3.0)] {
            let (sent, dropped) = runs(seed, load);
            assert_eq!(sent[0], sent[1], "load {load}");
            assert_eq!(dropped[0], dropped[1], "load {load}");
            assert_eq!(dropped[0].is_empty(), load < 1.0, "load {load}: {} dropped", dropped[0].len());
        }
    }

    #[test]
    fn marks_instead_of_drops_come_at_the_same_pace() {
        let mut codel = CoDel::new(CoDelConfig { signal: Signal::Mark, ..CoDelConfig::DEFAULT });
        let backlog = Backlog { packets: 100, bytes: 100_000 };
        let marks: Vec<_> = (0..400)
            .map(Time::from_millis)
            .filter(|now| codel.on_departure(*now, Duration::from_millis(50), backlog) == Verdict::Mark)
            .map(|now| now.as_nanos() / 1_000_000)
            .collect();
        // First after one interval, then after 100/√1, 100/√2, 100/√3 … ms.
        assert_eq!(marks, [100, 200, 271, 329, 379]);
    }
}

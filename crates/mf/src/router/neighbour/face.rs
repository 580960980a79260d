//! The state of the neighbour behind one face: its hellos, and the samples of its round trips.
use super::*;

impl Face {
    /// The neighbour has proven a nonce, which ends the one before: a hello that was repeated from elsewhere ends none.
    pub(super) fn on_proven(&mut self, nonce: u64) {
        let before = self.proven_nonce.replace(nonce).filter(|before| *before != nonce);
        self.ended_nonces.extend(before);
        if self.ended_nonces.len() > ENDED_NONCES_MAX {
            self.ended_nonces.pop_front();
        }
    }
    /// The time between two questions to a neighbour under suspicion.
    pub(super) fn check_interval(&self) -> Duration {
        let (packets, bytes) = CHECK_BEHIND;
        let trips = self.rtt.unwrap_or(Duration::ZERO) * CHECK_ROUND_TRIPS + self.pace.airtime(bytes) * packets;
        CHECK_INTERVAL.max(trips / CHECKS_MAX)
    }
    /// Says the next hello sooner if the link bears it, as was measured just now.
    pub(super) fn shorten_interval(&mut self, rhythm: &Rhythm) {
        let target = self.hello_interval(rhythm);
        self.next_hello = self.ramp.shorten(target).map_or(self.next_hello, |at| at.min(self.next_hello));
    }
    /// The interval of hellos to a neighbour that answers.
    pub(super) fn hello_interval(&self, rhythm: &Rhythm) -> Duration {
        let base = match self.is_idle {
            true if rhythm.follows => self.cadence.interval(rhythm.idle.max(rhythm.hello)),
            true => rhythm.idle.max(rhythm.hello),
            false => rhythm.hello,
        };
        self.pace.interval(base, HELLO_BYTES, HELLO_PARTS)
    }
    /// When an idle neighbour's hello is so late that it is probed: five missed hellos would take minutes.
    pub(super) fn late_at(&self, base: Duration) -> Option<Time> {
        let expected = self.expected_interval(base);
        let is_idle = self.up.is_some() && self.check.is_none() && self.is_idle && expected > IDLE;
        is_idle.then(|| self.alive_at + expected * LATE + Duration::from_nanos(1))
    }
    /// The neighbour's hello interval, as far as known.
    pub(super) fn expected_interval(&self, base: Duration) -> Duration {
        self.cadence.interval(self.pace.interval(base, HELLO_BYTES, HELLO_PARTS))
    }
    /// Gives the first data of a contact the time to confirm the size in use, before a probe of that size takes the link.
    pub(super) fn put_mtu_off(&mut self, now: Time) {
        let until = now + self.known_airtime(CHECK_BEHIND.1) * MTU_PARTS;
        self.path_mtu.iter_mut().for_each(|search| search.put_off(until));
    }
    /// For how long a datagram occupies the link, unless the link may only be long; else zero.
    pub(super) fn known_airtime(&self, bytes: usize) -> Duration {
        if self.pace.tells_lengths() { self.pace.airtime(bytes) } else { Duration::ZERO }
    }
    /// Accepts the number of a hello, or returns why it cannot be the next one.
    pub(super) fn check_sequence(&mut self, now: Time, sequence: u32) -> Result<(), &'static str> {
        if self.proven && sequence > self.sequence_max(now) {
            // A damaged or forged number would make all later hellos count as old.
            return Err("hello out of sequence");
        }
        if sequence <= self.heard_sequence {
            if self.proven {
                return Err("old hello");
            }
            // Earlier hellos, and their numbers, proved nothing.
            (self.heard_sequence, self.heard) = (0, 0);
        }
        Ok(())
    }
    /// The maximum number of a neighbour's next hello: it sends one per [`REPLY_INTERVAL`], and some in addition.
    pub(super) fn sequence_max(&self, now: Time) -> u32 {
        let since = self.heard_at.map_or(Duration::ZERO, |at| now.since(at));
        let replies = since.as_nanos() / REPLY_INTERVAL.as_nanos();
        self.heard_sequence.saturating_add(SEQUENCE_STEP).saturating_add(u32::try_from(replies).unwrap_or(u32::MAX))
    }
    pub(super) fn on_hello(&mut self, now: Time, hello: &Hello) {
        let gap = hello.sequence - self.heard_sequence;
        self.heard = if self.heard_sequence == 0 || gap > 32 {
            0
        } else {
            (u64::from(self.heard) << gap | 1 << (gap - 1)) as u32
        };
        self.heard_sequence = hello.sequence;
        self.heard_at = Some(now);
        if let Some(sent_probe) = self.sent.iter().find(|sent_probe| sent_probe.sequence == hello.probe.sequence) {
            let rtt = now.since(sent_probe.at).saturating_sub(Duration::from_micros(u64::from(hello.probe.held_us)));
            self.pace.on_round_trip(now, sent_probe.bytes, rtt);
            self.rtt = Some(self.rtt.map_or(rtt, |smoothed| (smoothed * 7 + rtt) / 8));
            // Behind data it measures the queue instead of the link.
            let under_way = u128::from(self.carried - sent_probe.carried) * rtt.as_nanos();
            match under_way > u128::from(LOAD_BYTES) * now.since(sent_probe.at).as_nanos() {
                true => self.loaded = true,
                false => self.rtt_min = Some(self.rtt_min.map_or(rtt, |least| least.min(rtt))),
            }
            let round_trip = self.rtt.unwrap_or(rtt);
            self.path_mtu.iter_mut().for_each(|search| search.on_round_trip(round_trip));
        }
        self.learn_whether_it_holds(&hello.probe);
        self.heard_count = hello.probe.heard.count_ones() + u32::from(hello.probe.sequence != 0);
    }
    /// The arrival of a later hello decides whether those sent during the silence have arrived or are lost.
    pub(super) fn learn_whether_it_holds(&mut self, probe: &Probe) {
        let Range { start, end } = self.unanswered;
        if start == end || probe.sequence < end {
            return;
        }
        self.unanswered = 0..0;
        let known = start.max(probe.sequence.saturating_sub(u32::BITS))..end;
        if known.len() >= UNANSWERED_MIN {
            let came = known.clone().filter(|hello| probe.heard >> (probe.sequence - 1 - hello) & 1 == 1).count();
            self.holds = came * 2 > known.len();
        }
    }
    /// One sample of the cost: the least one-way time since the last sample, times the expected transmissions. While
    /// the link is in constant use, the one-way time stays as it was.
    pub(super) fn take_sample(&mut self, now: Time) {
        let loaded = core::mem::take(&mut self.loaded);
        let rtt = self.rtt_min.take().or(self.rtt_sampled.filter(|_| loaded));
        let Some(rtt) = rtt.filter(|_| self.up.is_some()) else { return };
        (self.sampled_at, self.rtt_sampled) = (now, Some(rtt));
        let heard = self.heard_count.clamp(1, 32);
        let known = self.sequence.wrapping_sub(self.counted_from).clamp(heard, 33);
        // The latest one is still in flight when it is counted.
        let sent = known.saturating_sub(1).max(heard);
        let serial = Duration::from_nanos(COST_BYTES * 80);
        self.samples.push_back((rtt / 2 + serial) * sent / heard);
        if self.samples.len() > SAMPLES[1] {
            self.samples.pop_front();
        }
    }
}

//! The rate of the link behind a face without a configured one, measured with trains of packets that leave back to back
//! and arrive spaced by the link's time for each (packet pair, Keshav 1991). On a direct link no foreign packets
//! interleave, unlike on a path through a network.
//!
//! ```text
//!  this node   ─► first, padded 1, … padded n ─►   neighbour: time from the first to the last
//!              ◄───────── that time ◄──────────
//! ```
//! A train is sent when the rate is needed, as defined by [`LinkRate::train`]. Once the rate is known, trains take a
//! thousandth of a link of 20 kbit/s or more. A token bucket's burst would count as the link's rate: behind one the
//! rate must be configured.
use alloc::{collections::VecDeque, vec::Vec};

use tributary_core::{Duration, Rate, Time};

use crate::wire::{LpPacket, RateProbe};

/// Maximum bytes of a padded packet, with its headers.
const PACKET_BYTES: usize = 1_200;
/// Types, lengths and numbers of a padded packet, 3 bytes each but for the outer type.
const AROUND_BYTES: usize = 16;
/// The packets of a train arrive over at least this time, so that the wake-up time of a process matters little; if they
/// took less, the next train is twice as long, up to [`PADDED_MAX`]. Faster rates (154 Mbit/s) stay unknown.
const TOOK_MIN: Duration = Duration::from_millis(2);
const PADDED_MAX: u8 = 32;
/// A train that took longer met a process that slept.
const TOOK_MAX: Duration = Duration::from_secs(10);
/// The median of this many trains counts. Until then they follow each other after [`PAUSE_MIN`], later after [`PAUSE`]
/// and [`SHARE`] times the duration of one, or [`PAUSE_FAST`] where the link is too fast.
const SAMPLES: usize = 3;
/// One train that took this long suffices for now: wake-up delays are short against it, and on such a link three would
/// delay everything else.
const TOOK_SLOW: Duration = Duration::from_millis(400);
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_secs(10);
const SHARE: u32 = 1_000;
const PAUSE_FAST: Duration = Duration::from_secs(60);
/// The pause doubles without answers, as with neighbours of other programs, up to this.
const PAUSE_MAX: Duration = Duration::from_mins(10);
/// Consecutive unanswered trains after which the rate is unknown again.
const UNANSWERED_MAX: u32 = 3;

tributary_core::declared! {
    /// Measures one link.
    #[derive(Clone, Debug)]
    pub(crate) struct LinkRate {
        samples: VecDeque<Rate> = VecDeque::with_capacity(SAMPLES),
        /// The train that is not answered yet, and the bytes of its padded packets.
        under_way: Option<(u32, usize)> = None,
        next_number: u32 = number,
        padded: u8 = 1,
        /// The duration of the last train that gave a rate.
        took: Duration = Duration::ZERO,
        next_at: Time = Time::ZERO,
        unanswered: u32 = 0,
    }
    /// Starts without a rate; `number` is random, so that forged answers do not count.
    pub(crate) fn new(number: u32) {}
}

impl LinkRate {
    /// Maximum packets of a train, and their bytes.
    pub(crate) const TRAIN_MAX: (usize, usize) = (1 + PADDED_MAX as usize, (1 + PADDED_MAX as usize) * PACKET_BYTES);

    /// Forgets the rate; later answers do not count.
    pub(crate) fn forget(&mut self) {
        *self = LinkRate::new(self.next_number);
    }
    /// The rate of the link, if known.
    pub(crate) fn rate(&self) -> Option<Rate> {
        let mut sorted: Vec<Rate> = self.samples.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }
    /// The packets of the next train, no longer than `mtu`; none before it is due.
    pub(crate) fn train(&mut self, now: Time, mtu: usize) -> impl Iterator<Item = LpPacket<'static>> + use<> {
        let is_due = now >= self.next_at;
        if is_due && self.under_way.is_some() {
            self.unanswered += 1;
            // Long ones are lost more easily.
            self.padded = (self.padded / 2).max(1);
            if self.unanswered >= UNANSWERED_MAX {
                self.samples.clear();
            }
        }
        if is_due {
            self.next_at = now + self.pause();
            self.next_number = self.next_number.wrapping_add(1);
        }
        let zeros = mtu.min(PACKET_BYTES).saturating_sub(AROUND_BYTES);
        let (number, last) = (self.next_number, if is_due { self.padded } else { 0 });
        let packet = move |place| {
            let probe = RateProbe { number, place, last, zeros: if place == 0 { 0 } else { zeros } };
            LpPacket { rate_probe: Some(probe), ..LpPacket::default() }
        };
        if is_due {
            self.under_way = Some((number, usize::from(last) * packet(last).encode().len()));
        }
        (0..=last).filter(move |_| is_due).map(packet)
    }
    fn pause(&self) -> Duration {
        let is_known = self.samples.len() >= SAMPLES || self.took >= TOOK_SLOW && !self.samples.is_empty();
        let pause = if is_known { PAUSE.max(self.took * SHARE) } else { PAUSE_MIN };
        pause.saturating_mul(1 << self.unanswered.min(10)).min(PAUSE_MAX)
    }
    /// Takes the neighbour's measurement of a train.
    pub(crate) fn on_answer(&mut self, now: Time, number: u32, took: Duration) {
        if took > TOOK_MAX {
            return;
        }
        let Some((_, bytes)) = self.under_way.take_if(|(sent, _)| *sent == number) else { return };
        self.unanswered = 0;
        if took < TOOK_MIN && self.padded < PADDED_MAX {
            self.padded = (self.padded * 2).min(PADDED_MAX);
            self.next_at = now;
            return;
        }
        if took < TOOK_MIN {
            // Too fast, or read all at once.
            self.samples.pop_front();
            self.next_at = now + PAUSE_FAST;
            return;
        }
        // The link may have become slower.
        let enough = (TOOK_MIN * 2 * u32::from(self.padded)).as_nanos() / took.as_nanos().max(1);
        self.padded = u8::try_from(enough).unwrap_or(self.padded).clamp(1, self.padded);
        self.took = took;
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.extend(Rate::over(bytes as u64, took));
        self.next_at = now + self.pause();
    }
}

/// A neighbour's train during its arrival.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arriving(Option<Train>);

#[derive(Clone, Debug)]
struct Train {
    number: u32,
    /// The position of the next packet.
    next: u8,
    first_at: Time,
}

impl Arriving {
    /// Takes the link's next packet, `None` for one outside a train; returns the answer if a train is complete and no
    /// other packet interrupted it.
    pub(crate) fn on_packet(&mut self, now: Time, probe: Option<&RateProbe>) -> Option<(u32, Duration)> {
        let before = self.0.take();
        let probe = probe?;
        if probe.place == 0 {
            self.0 = Some(Train { number: probe.number, next: 1, first_at: now });
            return None;
        }
        let train = before.filter(|train| (train.number, train.next) == (probe.number, probe.place))?;
        if probe.place >= probe.last {
            return Some((probe.number, now.since(train.first_at)));
        }
        self.0 = Some(Train { next: train.next + 1, ..train });
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends the trains that are due at `now` over a link of `rate`, on which each packet arrives `late` later than it
    /// should; how many packets they had.
    fn over(link: &mut LinkRate, now: Time, rate: Rate, mut late: impl FnMut(u8) -> Duration) -> Vec<usize> {
        let (mut far, mut sent) = (Arriving::default(), Vec::new());
        loop {
            let train: Vec<LpPacket<'_>> = link.train(now, 1_472).collect();
            if train.is_empty() {
                return sent;
            }
            sent.push(train.len());
            let (mut at, mut answer) = (now, None);
            for packet in &train {
                let bytes = packet.encode().len();
                assert!(bytes <= PACKET_BYTES);
                let probe = packet.rate_probe.as_ref().unwrap();
                at += rate.time_for(bytes as u64);
                answer = far.on_packet(at + late(probe.place), Some(probe));
            }
            let (number, took) = answer.expect("the last one is answered");
            link.on_answer(now, number, took);
        }
    }
    fn sent_at(seconds: u64) -> Time {
        Time::from_millis(seconds * 1_000)
    }

    #[test]
    fn trains_are_as_long_as_it_takes_to_tell_the_rate_of_their_link() {
        for (kbps, padded) in
            [(10, 1), (200, 1), (4_700, 1), (4_900, 2), (9_500, 2), (9_700, 4), (75_000, 16), (150_000, 32)]
        {
            let rate = Rate::from_bits_per_second(kbps * 1_000);
            let mut link = LinkRate::new(7);
            let sent = over(&mut link, sent_at(0), rate, |_| Duration::ZERO);
            assert_eq!(sent.last(), Some(&(padded + 1)), "{kbps} kbit/s: {sent:?}");
            let found = link.rate().unwrap().bits_per_second() as f64;
            assert!((found / rate.bits_per_second() as f64 - 1.0).abs() < 0.001, "{kbps} kbit/s: {found}");
        }
        let mut link = LinkRate::new(7);
        let sent = over(&mut link, sent_at(0), Rate::from_mbps(160), |_| Duration::ZERO);
        assert_eq!((sent, link.rate()), (alloc::vec![2, 3, 5, 9, 17, 33], None), "too fast");
        assert!(over(&mut link, sent_at(59), Rate::from_mbps(9), |_| Duration::ZERO).is_empty());
        assert_eq!(over(&mut link, sent_at(60), Rate::from_mbps(9), |_| Duration::ZERO), [33], "slower now");
        assert!(link.rate().is_some());
        assert_eq!(over(&mut link, sent_at(61), Rate::from_mbps(9), |_| Duration::ZERO), [4], "and known to be");
    }

    #[test]
    fn they_take_a_thousandth_of_the_link_and_the_median_counts() {
        let rate = Rate::from_bits_per_second(200_000);
        let mut link = LinkRate::new(u32::MAX);
        let mut sent = Vec::new();
        for second in 0..300 {
            // One train in three meets a sleeping receiver.
            let is_late = sent.len() % 3 == 1;
            let late = |place| if is_late && place == 1 { Duration::from_millis(80) } else { Duration::ZERO };
            if !over(&mut link, sent_at(second), rate, late).is_empty() {
                sent.push(second);
            }
        }
        assert_eq!(sent[..3], [0, 1, 2]);
        assert!(sent[3..].windows(2).all(|pair| pair[1] - pair[0] >= 48), "{sent:?}");
        assert!(sent.len() > 6, "{sent:?}");
        assert!((199_000..=201_000).contains(&link.rate().unwrap().bits_per_second()));
    }

    #[test]
    fn a_neighbour_that_does_not_answer_is_asked_ever_more_rarely() {
        let mut link = LinkRate::new(1);
        let sent: Vec<u64> = (0..2_300).filter(|second| link.train(sent_at(*second), 1_472).count() > 0).collect();
        assert_eq!(sent, [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1_023, 1_623, 2_223]);
        assert_eq!(link.rate(), None);
        // An answer that was waited for no more, and one to nothing.
        link.on_answer(sent_at(2_300), 2, Duration::from_millis(5));
        link.on_answer(sent_at(2_300), 99, Duration::from_millis(5));
        assert_eq!(link.rate(), None);
        link.on_answer(sent_at(2_300), 14, Duration::from_millis(5));
        assert!(link.rate().is_some());
        assert!(link.train(sent_at(2_301), 1_472).count() > 0, "the pause is short again");
    }

    #[test]
    fn what_is_not_confirmed_any_more_is_forgotten_and_long_trains_that_are_lost_become_short() {
        let fast = Rate::from_mbps(140);
        let measured = || {
            let mut link = LinkRate::new(3);
            (0..3).for_each(|second| drop(over(&mut link, sent_at(second), fast, |_| Duration::ZERO)));
            link
        };
        let mut link = measured();
        assert_eq!((link.samples.len(), link.padded), (3, 32));
        let lengths: Vec<usize> = (0..600).map(|second| link.train(sent_at(100 + second), 1_472).count()).collect();
        let sent: Vec<usize> = lengths.into_iter().filter(|packets| *packets > 0).collect();
        assert_eq!((&sent[..6], link.rate()), (&[33, 17, 9, 5, 3, 2][..], None));
        // A train read all at once costs one sample; no train exceeds the maximum.
        let mut link = measured();
        let late = |place| if place == 0 { Duration::from_millis(2) } else { Duration::ZERO };
        assert_eq!(over(&mut link, sent_at(100), fast, late), [33]);
        assert!(link.rate().is_some());
        link.padded = 31;
        assert_eq!(over(&mut link, sent_at(200), Rate::from_mbps(500), |_| Duration::ZERO), [32, 33]);
        // A neighbour that slept, or states wrong times, does not end it.
        let mut link = measured();
        let number = link.train(sent_at(100), 1_472).last().unwrap().rate_probe.unwrap().number;
        link.on_answer(sent_at(101), number, Duration::from_nanos(u64::MAX));
        assert!(link.train(sent_at(111), 1_472).count() > 0);
        link.forget();
        assert_eq!((link.rate(), link.train(sent_at(111), 1_472).count()), (None, 2));
    }

    #[test]
    fn a_train_that_something_came_in_between_of_is_not_answered() {
        let train: Vec<RateProbe> = (0..=2).map(|place| RateProbe { number: 5, place, last: 2, zeros: 9 }).collect();
        let answers = |order: &[Option<usize>]| {
            let mut far = Arriving::default();
            let at = |index: usize| Time::from_millis(3 * index as u64);
            let taken = order
                .iter()
                .enumerate()
                .filter_map(|(index, packet)| far.on_packet(at(index), packet.map(|place| &train[place])));
            taken.collect::<Vec<_>>()
        };
        let complete = (5, Duration::from_millis(6));
        assert_eq!(answers(&[Some(0), Some(1), Some(2)]), [complete]);
        assert_eq!(answers(&[Some(1), Some(0), Some(1), Some(2), Some(2)]), [complete]);
        for order in [
            &[Some(0), Some(1), None, Some(2)][..],
            &[Some(0), Some(2)],
            &[Some(1), Some(2)],
            &[Some(0), Some(1), Some(1), Some(2)],
            &[Some(2), Some(1), Some(0)],
        ] {
            assert_eq!(answers(order), []);
        }
        let alone = RateProbe { number: 6, place: 255, last: 255, zeros: 0 };
        assert_eq!(Arriving::default().on_packet(Time::ZERO, Some(&alone)), None);
    }
}

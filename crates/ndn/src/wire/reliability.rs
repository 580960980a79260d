//! Link reliability: packets that the next hop did not acknowledge are sent to it again. NDNLPv2, "Reliability".
//!
//! ```text
//!  sender                                  receiver
//!  TxSequence 7 ──────────────────────────► remembers 7
//!  TxSequence 8 ──── lost                   …
//!  TxSequence 9 ──────────────────────────► remembers 9
//!  forgets 7, 9 ◄─────────────────────────  Ack 7, Ack 9, on whatever goes back, or after 5 ms by themselves
//!  8 again, as TxSequence 12, once three later ones are acknowledged, or after the RTO; given up after three times
//! ```
//! A receiver of numbers acknowledges them, even if it sends none itself. A neighbour that acknowledges nothing has no
//! link reliability: it gets a number now and then, and no retransmissions.
use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use tributary_core::{Duration, Time};
use tributary_transport::rtt::RttEstimator;

use super::fragment::Piece;

tributary_core::declared! {
    /// Settings of link reliability. The defaults are NFD's.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct ReliabilityConfig {
        /// Maximum packets that await acknowledgement; beyond that they go unreliably. Default: 4,096.
        pub unacknowledged_max: usize = 4096,
        /// Maximum acknowledgements that wait to be sent. Default: 1,024.
        pub acks_max: usize = 1024,
    }
}

tributary_core::declared! {
    /// Both ends of link reliability on one face.
    #[derive(Clone, Debug)]
    pub struct Reliability {
        config: ReliabilityConfig = config,
        next: u64 = first,
        rtt: RttEstimator = RttEstimator::new(Duration::from_secs(1), RTO_MIN, Duration::from_secs(10)),
        sent: BTreeMap<u64, Sent> = BTreeMap::new(),
        acks: VecDeque<u64> = VecDeque::new(),
        acks_since: Option<Time> = None,
        /// Recently arrived pieces and their times, so that duplicates are dropped; also in order of arrival.
        seen: BTreeMap<u64, Time> = BTreeMap::new(),
        seen_order: VecDeque<(Time, u64)> = VecDeque::new(),
        /// Packets dropped without acknowledgement since the neighbour last used reliability.
        ignored: u32 = 0,
        /// Packets without a number since the last one with a number.
        unnumbered: u32 = 0,
        resend: VecDeque<Piece> = VecDeque::new(),
        retries: VecDeque<u8> = VecDeque::new(),
        /// What happened.
        pub stats: ReliabilityStats = ReliabilityStats::default(),
    }
    /// A link on which nothing was sent; the first number must differ from start to start.
    pub fn new(config: ReliabilityConfig, first: u64) {}
}

/// Counters of link reliability.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReliabilityStats {
    /// Packets acknowledged.
    pub acknowledged: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Packets dropped after all retransmissions.
    pub exhausted: u64,
    /// Packets that arrived a second time.
    pub duplicates: u64,
}

#[derive(Clone, Debug)]
struct Sent {
    piece: Piece,
    at: Time,
    retries: u8,
    later_acks: u8,
}

/// Maximum retransmissions of a packet. NFD's, as the following.
pub const RETRIES_MAX: u8 = 3;
/// A packet is lost when this many later ones are acknowledged.
const REORDER_PACKETS: u8 = 3;
/// How long an acknowledgement waits for a packet to travel with.
const ACK_DELAY: Duration = Duration::from_millis(5);
/// The smallest retransmission timeout. RFC 6298 has 1 s.
const RTO_MIN: Duration = Duration::from_millis(200);
/// Pieces remembered against duplicates.
const SEEN_MAX: usize = 4096;
/// How long numbers are remembered: a restarted neighbour may reuse numbers, and its packets are no duplicates then.
const SEEN_FOR: Duration = Duration::from_secs(5);
/// Consecutive unacknowledged packets after which the neighbour counts as one without reliability.
const IGNORED_MAX: u32 = 64;
/// One of this many packets to such a neighbour has a number.
const NUMBERED_OF: u32 = 64;

impl Reliability {
    /// The number for a piece that leaves now; `None` if too many wait for acknowledgement, or the neighbour seems to
    /// acknowledge nothing.
    pub fn on_send(&mut self, now: Time, piece: &Piece, retries: u8) -> Option<u64> {
        if self.sent.len() >= self.config.unacknowledged_max {
            return None;
        }
        if self.ignored >= IGNORED_MAX && self.unnumbered + 1 < NUMBERED_OF {
            self.unnumbered += 1;
            return None;
        }
        self.unnumbered = 0;
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.sent.insert(number, Sent { piece: piece.clone(), at: now, retries, later_acks: 0 });
        Some(number)
    }
    /// Takes an arrived TxSequence, with the Sequence of its piece: a retransmitted piece has a new TxSequence, but the
    /// same Sequence. False if the piece has arrived before.
    pub fn on_arrival(&mut self, now: Time, number: u64, sequence: Option<u64>) -> bool {
        if self.acks.len() < self.config.acks_max {
            self.acks.push_back(number);
            self.acks_since.get_or_insert(now);
        }
        self.ignored = 0;
        self.forget_seen(now);
        let piece = sequence.unwrap_or(number);
        let is_new = self.seen.insert(piece, now).is_none();
        self.seen_order.push_back((now, piece));
        self.stats.duplicates += u64::from(!is_new);
        is_new
    }
    fn forget_seen(&mut self, now: Time) {
        while let Some((at, piece)) = self.seen_order.front().copied()
            && (at + SEEN_FOR <= now || self.seen_order.len() >= SEEN_MAX)
        {
            self.seen_order.pop_front();
            // A repeated piece is remembered from its latest arrival.
            if self.seen.get(&piece) == Some(&at) {
                self.seen.remove(&piece);
            }
        }
    }
    /// Takes an acknowledgement.
    pub fn on_ack(&mut self, now: Time, number: u64) {
        let Some(sent) = self.sent.remove(&number) else { return };
        self.stats.acknowledged += 1;
        self.ignored = 0;
        if sent.retries == 0 {
            self.rtt.on_sample(now.since(sent.at));
        }
        let lost: Vec<u64> = self
            .sent
            .range_mut(..number)
            .filter_map(|(number, sent)| {
                sent.later_acks += 1;
                (sent.later_acks >= REORDER_PACKETS).then_some(*number)
            })
            .collect();
        lost.into_iter().for_each(|number| self.on_lost(number));
    }
    /// Serves the timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        let rto = self.rtt.rto();
        let lost: Vec<u64> =
            self.sent.iter().take_while(|(_, sent)| sent.at + rto <= now).map(|(number, _)| *number).collect();
        lost.into_iter().for_each(|number| self.on_lost(number));
    }
    fn on_lost(&mut self, number: u64) {
        let Some(sent) = self.sent.remove(&number) else { return };
        if sent.retries >= RETRIES_MAX {
            self.stats.exhausted += 1;
            self.ignored += 1;
            return;
        }
        self.stats.retransmitted += 1;
        self.resend.push_back(sent.piece);
        self.retries.push_back(sent.retries + 1);
    }
    /// A piece to send again, and how often it was sent already.
    pub fn poll_resend(&mut self) -> Option<(Piece, u8)> {
        Some((self.resend.pop_front()?, self.retries.pop_front()?))
    }
    /// Acknowledgements that fit into `room` bytes of a departing packet.
    pub fn take_acks(&mut self, room: usize) -> Vec<u64> {
        let count = self.acks.len().min(room / ACK_BYTES).min(super::lp::ACKS_MAX);
        let acks = self.acks.drain(..count).collect();
        if self.acks.is_empty() {
            self.acks_since = None;
        }
        acks
    }
    /// Whether acknowledgements have waited long enough for a packet to travel with.
    pub fn acks_are_due(&self, now: Time) -> bool {
        self.acks_since.is_some_and(|since| since + ACK_DELAY <= now)
    }
    /// When to look again.
    pub fn poll_timeout(&self) -> Option<Time> {
        let rto = self.rtt.rto();
        // Numbers are in the order of time.
        let oldest = self.sent.first_key_value().map(|(_, sent)| sent.at + rto);
        let acks = self.acks_since.map(|since| since + ACK_DELAY);
        oldest.into_iter().chain(acks).min()
    }
}

/// Bytes of one Ack header.
const ACK_BYTES: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(byte: u8) -> Piece {
        Piece { fragment: alloc::vec![byte].into(), ..Piece::default() }
    }

    #[test]
    fn what_arrives_and_is_not_acknowledged_yet_is_remembered_up_to_limits() {
        let mut link = Reliability::new(ReliabilityConfig::default(), 1);
        for number in 0..2 * SEEN_MAX as u64 {
            assert!(link.on_arrival(Time::ZERO, number, None));
        }
        assert_eq!((link.seen.len(), link.acks.len()), (SEEN_MAX, ReliabilityConfig::default().acks_max));
        assert!(!link.on_arrival(Time::ZERO, 2 * SEEN_MAX as u64 - 1, None), "the last ones");
        assert!(link.on_arrival(Time::ZERO + SEEN_FOR, 2 * SEEN_MAX as u64 - 1, None), "for a while");
        let sent = (0..5_000).filter(|_| link.on_send(Time::ZERO, &piece(0), 0).is_some()).count();
        assert_eq!(sent, ReliabilityConfig::default().unacknowledged_max, "beyond that they go unreliably");
    }
    #[test]
    fn a_neighbour_that_acknowledges_nothing_is_sent_hardly_anything_twice_until_it_does() {
        let mut link = Reliability::new(ReliabilityConfig::default(), 1);
        let mut now = Time::ZERO;
        let mut sent = |link: &mut Reliability, packets: u32| {
            let mut again = 0;
            for _ in 0..packets {
                link.on_send(now, &piece(0), 0);
                for _ in 0..4 {
                    now += Duration::from_secs(20);
                    link.handle_timeout(now);
                    while let Some((piece, retries)) = link.poll_resend() {
                        again += 1;
                        link.on_send(now, &piece, retries);
                    }
                }
            }
            again
        };
        assert_eq!(sent(&mut link, IGNORED_MAX), 3 * IGNORED_MAX);
        let few = sent(&mut link, 640);
        assert!((1..=30).contains(&few), "{few} of 640 sent again");
        assert!(link.on_arrival(now, 5, None), "it numbers what it sends, so it knows reliability");
        assert!(link.on_send(now, &piece(0), 0).is_some() && link.on_send(now, &piece(0), 0).is_some());
    }

    #[test]
    fn a_packet_is_sent_again_after_three_later_ones_and_given_up_after_three_times() {
        let mut link = Reliability::new(ReliabilityConfig::default(), 1);
        let mut now = Time::ZERO;
        let mut number = link.on_send(now, &piece(0), 0).unwrap();
        for round in 1..=4 {
            for _ in 0..2 {
                now += Duration::from_millis(10);
                let later = link.on_send(now, &piece(9), 0).unwrap();
                link.on_ack(now, later);
            }
            assert!(link.poll_resend().is_none(), "two are not enough");
            let later = link.on_send(now, &piece(9), 0).unwrap();
            link.on_ack(now, later);
            match link.poll_resend() {
                Some((again, retries)) => {
                    assert_eq!((again.fragment[0], retries), (0, round));
                    let next = link.on_send(now, &again, retries).unwrap();
                    assert!(next > number, "it has a number of its own");
                    number = next;
                }
                None => assert_eq!((round, link.stats.exhausted), (4, 1)),
            }
        }
        assert_eq!(link.poll_timeout(), None);
    }

    #[test]
    fn silence_is_noticed_by_time_and_acks_travel_soon() {
        let mut link = Reliability::new(ReliabilityConfig::default(), 1);
        link.on_send(Time::ZERO, &piece(1), 0);
        assert_eq!(link.poll_timeout(), Some(Time::from_millis(1000)));
        link.handle_timeout(Time::from_millis(1000));
        assert_eq!(link.poll_resend().map(|(_, retries)| retries), Some(1));
        assert!(link.on_arrival(Time::from_millis(1000), 5, Some(8)));
        assert!(!link.on_arrival(Time::from_millis(1001), 6, Some(8)), "the same piece again");
        assert!(!link.acks_are_due(Time::from_millis(1004)) && link.acks_are_due(Time::from_millis(1005)));
        assert_eq!(link.take_acks(12), [5]);
        assert_eq!(link.take_acks(100), [6]);
        assert_eq!(link.poll_timeout(), None);
    }
}

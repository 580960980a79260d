//! The codepoint of outgoing datagrams of a face, and which marks of incoming ones count.
//!
//! ```text
//!   to a peer:    Waiting ──(some datagrams from it)──► Capable ──(it stops answering, soon)──► Suspect
//!                    ▲ ▲                                   │                                       │
//!                    │ └──────(it stops answering, later)──┘                                       │
//!                    └──────────────────────────(RETRY_AFTER)──────────────────────────────────────┘
//!   from a peer:  marks count, unless a long run of them has no ECT packet in between
//! ```
//! RFC 9000 §13.4.2 validates at the sender, by counts that the receiver returns. Here marks count where they arrive, so
//! the receiver validates them, and nothing is returned:
//! - A path that clears the codepoint delivers no marks; losses remain as signals.
//! - A path that sets CE on everything is recognised by the missing ECT packets; its marks are ignored.
//! - A path that drops packets with a codepoint makes the neighbour unreachable as soon as they carry one; packets then
//!   leave without one. A node reports that its neighbour stopped answering; where it does not (`ndn`), silence counts.
use quinn_udp::EcnCodepoint;
use tributary_core::{Duration, Ecn, Time};

/// The bits of the codepoint CE.
pub(crate) const CE: u8 = 0b11;
/// Marks in a row without an ECT packet that make the path suspect, before the first ECT packet and after it: a queue
/// of a busy link may mark a whole window.
const MARKS_FIRST: u64 = 32;
const MARKS_RUN: u64 = 4_096;
/// Datagrams from a peer until packets to it carry the codepoint: it is a neighbour by then.
const HEARD_MIN: u64 = 16;
/// Datagrams with a codepoint, and the time, that a peer may leave unanswered before it counts as silent.
const UNANSWERED: u64 = 8;
const SILENCE: Duration = Duration::from_secs(3);
/// A peer that stops answering within this time of the first codepoint may be behind a path that drops them.
const SOON: Duration = Duration::from_secs(10);
/// When packets to a suspect peer carry the codepoint again.
const RETRY_AFTER: Duration = Duration::from_secs(3_600);

/// Arrived datagrams by codepoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EcnCounts {
    /// Without a codepoint: the peer sets none, or the path clears it.
    pub not_capable: u64,
    /// ECT(0).
    pub classic: u64,
    /// ECT(1).
    pub scalable: u64,
    /// CE: marked by a queue on the way.
    pub marked: u64,
    /// Of these, not believed because the path marks everything.
    pub ignored: u64,
}

/// The state of one face.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EcnState {
    ecn: Ecn,
    /// Whether an ECT packet has arrived, and the marks since the last one.
    has_seen_capable: bool,
    marks_run: u64,
    outgoing: Outgoing,
}

#[derive(Clone, Copy, Debug)]
enum Outgoing {
    /// The number of datagrams from the peer so far.
    Waiting { heard: u64 },
    /// Packets carry the codepoint since then. `unanswered` of them left since the peer was last `heard`.
    Capable { since: Time, unanswered: u64, heard: Time },
    /// The peer stopped answering when packets carried the codepoint.
    Suspect { until: Time },
}

impl EcnState {
    pub(crate) fn new(ecn: Ecn) -> EcnState {
        EcnState { ecn, has_seen_capable: false, marks_run: 0, outgoing: Outgoing::Waiting { heard: 0 } }
    }
    /// Takes datagrams that arrived together, and counts them; returns whether they are marked.
    pub(crate) fn on_arrival(
        &mut self,
        now: Time,
        codepoint: Option<EcnCodepoint>,
        datagrams: u64,
        counts: &mut EcnCounts,
    ) -> bool {
        match &mut self.outgoing {
            Outgoing::Waiting { heard } => {
                *heard += datagrams;
                if *heard >= HEARD_MIN {
                    self.outgoing = Outgoing::Capable { since: now, unanswered: 0, heard: now };
                }
            }
            Outgoing::Capable { unanswered, heard, .. } => (*unanswered, *heard) = (0, now),
            Outgoing::Suspect { until } if now >= *until => self.outgoing = Outgoing::Waiting { heard: datagrams },
            Outgoing::Suspect { .. } => {}
        }
        let count = match codepoint {
            None => &mut counts.not_capable,
            Some(EcnCodepoint::Ect0) => &mut counts.classic,
            Some(EcnCodepoint::Ect1) => &mut counts.scalable,
            Some(EcnCodepoint::Ce) => &mut counts.marked,
        };
        *count += datagrams;
        if codepoint != Some(EcnCodepoint::Ce) {
            self.has_seen_capable |= codepoint.is_some();
            self.marks_run = 0;
            return false;
        }
        self.marks_run += datagrams;
        let is_believed = self.marks_run <= if self.has_seen_capable { MARKS_RUN } else { MARKS_FIRST };
        counts.ignored += if is_believed { 0 } else { datagrams };
        is_believed
    }
    /// The peer has stopped answering.
    pub(crate) fn on_lost(&mut self, now: Time) {
        if let Outgoing::Capable { since, .. } = self.outgoing {
            self.outgoing = match now.since(since) < SOON {
                true => Outgoing::Suspect { until: now + RETRY_AFTER },
                false => Outgoing::Waiting { heard: 0 },
            };
        }
    }
    /// The bits for a datagram that leaves; `None` if its mark would get lost, so that the datagram must be dropped
    /// (RFC 3168 §5: queues drop packets that are not capable).
    pub(crate) fn on_departure(&mut self, now: Time, is_marked: bool) -> Option<u8> {
        let bits = match &mut self.outgoing {
            _ if self.ecn == Ecn::Off => 0,
            Outgoing::Waiting { .. } | Outgoing::Suspect { .. } => 0,
            Outgoing::Capable { unanswered, heard, .. } => {
                *unanswered += 1;
                if *unanswered > UNANSWERED && now.since(*heard) > SILENCE {
                    self.on_lost(now);
                }
                self.ecn.bits()
            }
        };
        match (is_marked, bits) {
            (true, 0) => None,
            (true, _) => Some(CE),
            (false, bits) => Some(bits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Time = Time::from_millis;

    fn heard(ecn: Ecn) -> EcnState {
        let mut state = EcnState::new(ecn);
        (0..HEARD_MIN).for_each(|_| arrive(&mut state, 0, Some(EcnCodepoint::Ect0)));
        state
    }
    fn arrive(state: &mut EcnState, at: u64, codepoint: Option<EcnCodepoint>) {
        assert!(!state.on_arrival(AT(at), codepoint, 1, &mut EcnCounts::default()));
    }

    #[test]
    fn a_peer_that_was_heard_gets_the_configured_codepoint_and_marks_are_carried() {
        for (ecn, bits) in [(Ecn::Classic, 0b10), (Ecn::Scalable, 0b01)] {
            assert_eq!(EcnState::new(ecn).on_departure(AT(0), false), Some(0), "not heard yet");
            let mut state = heard(ecn);
            assert_eq!(state.on_departure(AT(1), false), Some(bits));
            assert_eq!(state.on_departure(AT(1), true), Some(CE));
        }
        assert_eq!(heard(Ecn::Off).on_departure(AT(1), false), Some(0));
        assert_eq!(heard(Ecn::Off).on_departure(AT(1), true), None, "a queue drops what it may not mark");
    }

    #[test]
    fn a_peer_that_falls_silent_at_the_first_codepoints_gets_packets_without_one_for_long() {
        let mut state = heard(Ecn::Classic);
        for at in 0..10 {
            assert_eq!(state.on_departure(AT(at * 100), false), Some(0b10), "silent for a moment");
        }
        assert_eq!(state.on_departure(AT(3_001), false), Some(0b10));
        assert_eq!(state.on_departure(AT(3_002), false), Some(0));
        (0..100).for_each(|at| arrive(&mut state, 4_000 + at, None));
        assert_eq!(state.on_departure(AT(4_200), false), Some(0), "it was the codepoint");
        (0..HEARD_MIN).for_each(|_| arrive(&mut state, 3_700_000, None));
        assert_eq!(state.on_departure(AT(3_700_001), false), Some(0b10), "tried again");
    }

    #[test]
    fn a_neighbour_that_is_lost_soon_is_suspect_and_one_that_leaves_later_is_not() {
        for (at, bits) in [(2_000, 0), (60_000, 0b10)] {
            let mut state = heard(Ecn::Classic);
            state.on_lost(AT(at));
            assert_eq!(state.on_departure(AT(at), false), Some(0), "not heard again yet");
            (0..HEARD_MIN).for_each(|_| arrive(&mut state, at + 1_000, None));
            assert_eq!(state.on_departure(AT(at + 1_000), false), Some(bits));
        }
        // One that answers is never suspect, and neither is one to which little leaves.
        let mut state = heard(Ecn::Classic);
        for second in 0..100 {
            assert_eq!(state.on_departure(AT(second * 1_000), false), Some(0b10));
            arrive(&mut state, second * 1_000 + 50, None);
        }
    }

    #[test]
    fn marks_on_everything_are_ignored_until_an_unmarked_packet_shows_that_some_are_not() {
        let (mut state, mut counts) = (EcnState::new(Ecn::Classic), EcnCounts::default());
        let mut arrive = |codepoint, datagrams| state.on_arrival(AT(0), Some(codepoint), datagrams, &mut counts);
        let marks: Vec<bool> = (0..40).map(|_| arrive(EcnCodepoint::Ce, 1)).collect();
        assert!(marks[..32].iter().all(|is_marked| *is_marked) && !marks[32..].contains(&true));
        assert!(!arrive(EcnCodepoint::Ect0, 1));
        assert!(arrive(EcnCodepoint::Ce, 64));
        assert!(!(0..100).fold(true, |_, _| arrive(EcnCodepoint::Ce, 64)), "all of them again");
        assert_eq!((counts.classic, counts.marked, counts.not_capable), (1, 40 + 101 * 64, 0));
        assert_eq!(counts.ignored, 8 + 101 * 64 - 4_096);
    }
}

//! The chunks that the receiver knows to be missing, and how long it waits before it sends a NACK (paper §3.2.2: the
//! NACK timeout).
use alloc::collections::BTreeSet;
use core::ops::RangeInclusive;

use tributary_core::{Duration, Time};

use crate::{reassembly::Reassembly, wire::ChunkRanges};

/// Maximum doublings of the NACK timeout.
pub(super) const BACKOFF_MAX: u32 = 2;
/// A restarted router has this long to find its neighbours and routes before a NACK goes through it. The NACK also
/// names chunks that are still upstream of that router; routers that have a chunk take no second copy of it.
const RESTART_PATIENCE: Duration = Duration::from_millis(150);
/// A unit that was corrupted twice is requested again after this pause, which doubles up to four NACK timeouts. The
/// first repetition is immediate.
const CORRUPT_PAUSE: Duration = Duration::from_millis(100);

/// The NACK timer of one transfer.
#[derive(Default)]
pub(super) struct NackTimer {
    /// When the next NACK is due without arrivals.
    pub(super) due: Time,
    /// Consecutive NACKs without effect.
    pub(super) in_vain: u32,
    recovery: Option<Recovery>,
}

/// An access router has lost its memory: the timeout is short for a while.
#[derive(Clone, Copy)]
struct Recovery {
    /// The timeout; it doubles with each NACK.
    timeout: Duration,
    until: Time,
}

impl NackTimer {
    /// Not running before [`NackTimer::restart`].
    pub(super) fn new() -> NackTimer {
        NackTimer { due: Time::MAX, in_vain: 0, recovery: None }
    }
    /// Waits from `now`.
    pub(super) fn restart(&mut self, now: Time, timeout: Duration) {
        let timeout = timeout * 2u32.pow(self.in_vain.min(BACKOFF_MAX));
        self.due = now + self.recovery_at(now).map_or(timeout, |recovery| timeout.min(recovery.timeout));
    }
    /// Sends nothing before `until`.
    pub(super) fn put_off(&mut self, until: Time) {
        self.due = self.due.max(until);
    }
    /// The first timeout, without the backoff of unanswered NACKs.
    pub(super) fn timeout_at(&self, now: Time, timeout: Duration) -> Duration {
        self.recovery_at(now).map_or(timeout, |recovery| recovery.timeout)
    }
    /// Nothing arrived before the timeout.
    pub(super) fn on_timeout(&mut self, now: Time) {
        self.recovery = self.recovery_at(now);
        match &mut self.recovery {
            Some(recovery) => recovery.timeout *= 2,
            None => self.in_vain += 1,
        }
    }
    /// A router on the way has restarted.
    pub(super) fn on_router_restart(&mut self, now: Time, timeout: Duration) {
        self.recovery = Some(Recovery { timeout: RESTART_PATIENCE, until: now + timeout });
        self.restart(now, timeout);
    }
    fn recovery_at(&self, now: Time) -> Option<Recovery> {
        self.recovery.filter(|recovery| now < recovery.until)
    }
}

/// The next status message's report on missing chunks.
#[derive(Default)]
pub(super) struct Missing {
    /// The NACK names all missing chunks.
    pub(super) all: bool,
    /// While a router on the way recovers from a restart: gaps show what it has lost.
    pub(super) gaps: Option<Gaps>,
    /// Corrupted chunks that are requested again.
    corrupt: BTreeSet<u32>,
    /// How often in a row that happened without a verified unit between, and since when.
    corrupt_in_a_row: u32,
    pub(super) corrupt_since: Option<Time>,
    /// Chunks that readers want, that the sender has not been asked for, and that are not in its flow otherwise.
    pub(super) wanted: BTreeSet<u32>,
}

/// Chunks missing before those that arrive after a router's restart: routers send the chunks of a flow in order, so a
/// gap means that the router has lost them.
#[derive(Default)]
pub(super) struct Gaps {
    /// Chunks below this one have arrived, or are known to be missing.
    seen: u32,
    /// After a gap, how long to look for more of them: chunks on other paths may only be late.
    until: Option<Time>,
    /// Missing chunks not yet reported.
    missing: BTreeSet<u32>,
}

impl Gaps {
    /// A chunk has arrived; true if others are missing before it.
    pub(super) fn on_chunk(&mut self, number: u32, until: Time, is_missing: impl Fn(u32) -> bool) -> bool {
        let before = self.missing.len();
        self.missing.extend((self.seen..number).filter(|earlier| is_missing(*earlier)));
        self.seen = self.seen.max(number + 1);
        let found = self.missing.len() > before;
        if found {
            self.until.get_or_insert(until);
        }
        found
    }
    pub(super) fn is_over(&self, now: Time) -> bool {
        self.until.is_some_and(|until| now >= until) && self.missing.is_empty()
    }
    pub(super) fn take(&mut self) -> BTreeSet<u32> {
        core::mem::take(&mut self.missing)
    }
}

impl Missing {
    /// Whether there is something to report.
    pub(super) fn any(&self) -> bool {
        self.all
            || !self.corrupt.is_empty()
            || !self.wanted.is_empty()
            || self.gaps.as_ref().is_some_and(|gaps| !gaps.missing.is_empty())
    }
    /// Returns the missing chunks to report, at most `max`; none while they may still be on their way. After `in_vain`
    /// unanswered NACKs it returns all missing chunks.
    ///
    /// If readers want only a part of the object, these are the missing ones of the `asked` chunks.
    pub(super) fn take(
        &mut self,
        reassembly: &Reassembly,
        in_vain: u32,
        max: usize,
        requested_chunks: Option<&BTreeSet<u32>>,
    ) -> ChunkRanges {
        let all = core::mem::take(&mut self.all) || in_vain > 0;
        let mut some = self.gaps.as_mut().map(Gaps::take).unwrap_or_default();
        some.append(&mut self.corrupt);
        some.append(&mut self.wanted);
        match all {
            true if let Some(requested_chunks) = requested_chunks => {
                let missing = requested_chunks.iter().copied().filter(|number| reassembly.is_missing(*number));
                ChunkRanges::from_ascending(missing.take(max))
            }
            true => ChunkRanges::from_ascending(reassembly.missing().take(max)),
            false => ChunkRanges::from_ascending(some.into_iter().filter(|number| reassembly.is_missing(*number))),
        }
    }

    /// Looks for gaps before an arrived chunk; true if there are new ones.
    pub(super) fn find_gaps(&mut self, now: Time, number: u32, timeout: Duration, reassembly: &Reassembly) -> bool {
        let Some(gaps) = &mut self.gaps else { return false };
        if gaps.is_over(now) {
            self.gaps = None;
            return false;
        }
        gaps.on_chunk(number, now + timeout, |number| reassembly.is_missing(number))
    }

    /// Chunks were corrupted. Returns the pause before they are requested again, unless one is already running
    /// (`is_due`).
    pub(super) fn on_corrupt(
        &mut self,
        now: Time,
        chunks: RangeInclusive<u32>,
        timeout: Duration,
        is_due: bool,
    ) -> Option<Duration> {
        self.corrupt_since.get_or_insert(now);
        let is_new = self.corrupt.is_empty();
        self.corrupt.extend(chunks);
        if !is_new && is_due {
            return None;
        }
        let pause = match self.corrupt_in_a_row {
            0 => Duration::ZERO,
            times => (CORRUPT_PAUSE * 2u32.pow(times.min(16) - 1)).min(timeout * 2u32.pow(BACKOFF_MAX)),
        };
        self.corrupt_in_a_row += 1;
        Some(pause)
    }
    /// A unit is verified.
    pub(super) fn on_verified(&mut self) {
        (self.corrupt_in_a_row, self.corrupt_since) = (0, None);
    }
    /// The sender of the corrupted chunks has stopped.
    pub(super) fn on_sender_gone(&mut self) {
        self.corrupt.clear();
        self.wanted.clear();
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn a_gap_is_told_once_and_looked_for_as_long_as_none_was_found() {
        let (mut gaps, here) = (Gaps::default(), [0, 1, 2, 5, 6]);
        let until = Time::from_millis(3_000);
        let mut on_chunk = |number| {
            gaps.on_chunk(number, until, |earlier| !here.contains(&earlier));
            (gaps.take().into_iter().collect::<Vec<_>>(), gaps.is_over(until))
        };
        assert_eq!(on_chunk(2), (Vec::new(), false));
        assert_eq!(on_chunk(5), (Vec::from([3, 4]), true));
        assert_eq!(on_chunk(6), (Vec::new(), true));
    }
}

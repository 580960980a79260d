//! The windows, their arrived chunks, and when the acknowledging message of a window is due (paper §3.4.2).
use alloc::collections::{BTreeMap, BTreeSet};

use tributary_core::Time;

use crate::{sender::nearest_window, wire::DataTag};

/// The part (one quarter) of a window's chunks that may be late.
const LATE_PART: usize = 4;

/// The windows of the present sender.
#[derive(Default)]
pub(super) struct Windows {
    /// Incomplete windows: their chunks, and the arrived ones.
    open: BTreeMap<u32, (u16, BTreeSet<u32>)>,
    /// The latest one that has started.
    pub(super) highest: Option<u32>,
    /// The latest window taken as complete.
    taken: Option<u32>,
    /// When the next status message is due, and the window that it acknowledges.
    pub(super) status: Option<(Time, u32)>,
    sequence: u32,
}

impl Windows {
    /// A missing chunk has arrived.
    pub(super) fn on_chunk(&mut self, tag: &DataTag) {
        if tag.window_chunks > 0 {
            // A sender may be in the middle of the object: its windows count from the first one that arrives.
            let number = nearest_window(tag.window, self.highest());
            if self.taken.is_some_and(|taken| number <= taken) {
                return;
            }
            let window = self.open.entry(number).or_insert((tag.window_chunks, BTreeSet::new()));
            window.1.insert(tag.number);
            self.highest = self.highest.max(Some(number));
        }
    }
    /// Returns a complete window, once, and the highest if there are several. Where chunks arrive over several accesses
    /// (`parts`), the last ones may still be on their way over a slow access, and the others do not wait for them: a
    /// lost chunk is reported with all missing ones when arrivals stop.
    pub(super) fn take_complete(&mut self, parts: bool) -> Option<u32> {
        let late = |chunks: u16| if parts { usize::from(chunks) / LATE_PART } else { 0 };
        let is_full = |(chunks, here): &(u16, BTreeSet<u32>)| here.len() + late(*chunks) >= usize::from(*chunks);
        let window = self.open.iter().filter(|(_, state)| is_full(state)).map(|(window, _)| *window).max()?;
        if parts {
            self.taken = self.taken.max(Some(window));
        }
        self.open.retain(|number, state| *number > window || !parts && !is_full(state));
        Some(window)
    }
    /// The highest window that has started; 0 before the first.
    pub(super) fn highest(&self) -> u32 {
        self.highest.unwrap_or(0)
    }
    /// A new sender starts with new windows; the report on the last one is still sent.
    pub(super) fn on_sender_change(&mut self) {
        self.open.clear();
        (self.highest, self.taken) = (None, None);
    }
    /// No node is sending.
    pub(super) fn on_sender_gone(&mut self) {
        self.on_sender_change();
        self.status = None;
    }

    /// Makes the next status message due now, whichever window it acknowledges.
    pub(super) fn hasten_status(&mut self, now: Time) {
        let window = self.status.map_or(self.highest(), |(_, window)| window);
        self.status = Some((now, window));
    }
    /// The number of the next status message: the sender drops older ones.
    pub(super) fn next_sequence(&mut self) -> u32 {
        self.sequence += 1;
        self.sequence
    }
}

#[cfg(test)]
mod tests {
    use tributary_content::ObjectId;

    use super::*;
    use crate::wire::Reliability;

    #[test]
    fn a_window_waits_for_its_late_chunks_unless_they_may_be_on_a_slow_way() {
        let tag = |number, window| DataTag {
            object: ObjectId([1; 16]),
            transfer: 1,
            number,
            count: 100,
            chunk_bytes: 1_000,
            window,
            window_chunks: 8,
            reliability: Reliability::Nack,
            token: crate::ids::Token(1),
        };
        for parts in [false, true] {
            let (mut windows, mut taken) = (Windows::default(), alloc::vec::Vec::new());
            // The third and the last chunk of the first window arrive last of all.
            for number in [0, 1, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 2, 7] {
                windows.on_chunk(&tag(number, (number / 8) as u16));
                taken.extend(windows.take_complete(parts).map(|window| (number, window)));
            }
            let expected: &[(u32, u32)] = if parts { &[(6, 0), (13, 1)] } else { &[(15, 1), (7, 0)] };
            assert_eq!(taken, expected, "several ways: {parts}");
        }
    }
}

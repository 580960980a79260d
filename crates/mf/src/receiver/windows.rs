//! Which chunks of which window have come, and when the message is due that acknowledges a window (paper §3.4.2).
use alloc::collections::{BTreeMap, BTreeSet};

use tributary_core::Time;

use crate::{sender::nearest_window, wire::DataTag};

/// The windows of the present sender.
#[derive(Default)]
pub(super) struct Windows {
    /// Chunks of each window that is not complete, and those of them that are here.
    open: BTreeMap<u32, (u16, BTreeSet<u32>)>,
    highest: Option<u32>,
    /// When the next status message is due, and the window that it acknowledges.
    status: Option<(Time, u32)>,
    sequence: u32,
}

impl Windows {
    /// A chunk has come that was missing.
    pub(super) fn on_chunk(&mut self, tag: &DataTag) {
        if tag.window_chunks > 0 {
            // A sender may be in the middle of the object: its windows are counted from the first one that comes.
            let number = nearest_window(tag.window, self.highest());
            let window = self.open.entry(number).or_insert((tag.window_chunks, BTreeSet::new()));
            window.1.insert(tag.number);
            self.highest = self.highest.max(Some(number));
        }
    }
    /// A window of which all chunks are here; each once, the highest if there are several.
    pub(super) fn take_complete(&mut self) -> Option<u32> {
        let full = self.open.iter().filter(|(_, (chunks, here))| here.len() >= usize::from(*chunks));
        let window = full.map(|(window, _)| *window).max()?;
        self.open.retain(|number, (chunks, here)| *number > window || here.len() < usize::from(*chunks));
        Some(window)
    }
    /// The highest window that has begun; 0 before the first.
    pub(super) fn highest(&self) -> u32 {
        self.highest.unwrap_or(0)
    }
    /// The same; `None` before the first.
    pub(super) fn last_begun(&self) -> Option<u32> {
        self.highest
    }
    /// Another sender begins with windows of its own; what was to be said of the last one still is.
    pub(super) fn on_sender_change(&mut self) {
        self.open.clear();
        self.highest = None;
    }
    /// Nobody sends any more.
    pub(super) fn on_sender_gone(&mut self) {
        self.on_sender_change();
        self.status = None;
    }

    /// When the next status message is due, and the window that it acknowledges.
    pub(super) fn status(&self) -> Option<(Time, u32)> {
        self.status
    }
    pub(super) fn set_status(&mut self, at: Time, window: u32) {
        self.status = Some((at, window));
    }
    pub(super) fn clear_status(&mut self) {
        self.status = None;
    }
    /// Makes the next status message due now, whichever window it acknowledges.
    pub(super) fn hasten_status(&mut self, now: Time) {
        let window = self.status.map_or(self.highest(), |(_, window)| window);
        self.set_status(now, window);
    }
    /// The number of the next status message: the sender drops older ones.
    pub(super) fn next_sequence(&mut self) -> u32 {
        self.sequence += 1;
        self.sequence
    }
}

//! What a sub-flow measures over its requests: the share that stays unanswered, and the delivery rate.
use alloc::collections::VecDeque;

use tributary_core::{Rate, Time};

/// The largest share of unanswered requests that explains silence: 66 of them in a row.
const UNANSWERED_MAX: f64 = 0.9;
/// Requests that the share of unanswered ones looks back on.
const UNANSWERED_REQUESTS: f64 = 64.0;
/// Assumed number of answered requests at the start.
const ANSWERED_FIRST: f64 = 16.0;

/// The share of a path's requests that nothing answers.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct UnansweredShare {
    pub(super) share: f64,
    /// How many requests it is made of, up to those it looks back on.
    pub(super) requests: f64,
}

impl UnansweredShare {
    pub(super) fn on_request(&mut self, answered: bool) {
        let outcome = if answered { 0.0 } else { 1.0 };
        self.requests = (self.requests + 1.0).min(UNANSWERED_REQUESTS - ANSWERED_FIRST);
        self.share += (outcome - self.share) / (self.requests + ANSWERED_FIRST);
    }
    /// How likely `requests` in a row stay unanswered by chance.
    pub(super) fn chance_of(self, requests: u32) -> f64 {
        libm::pow(self.usual(), f64::from(requests))
    }
    pub(super) fn usual(self) -> f64 {
        self.share.min(UNANSWERED_MAX)
    }
}

/// Delivery rate in slots of 100 ms, over the last ten.
#[derive(Clone, Debug)]
pub(crate) struct RateMeter {
    pub(super) started: Time,
    /// Number and bytes of each slot with arrivals, oldest first.
    pub(super) slots: VecDeque<(u64, u64)>,
}

const SLOT: u64 = 100_000_000;
const SLOTS: u64 = 10;

impl RateMeter {
    pub(super) fn new(started: Time) -> Self {
        RateMeter { started, slots: VecDeque::new() }
    }
    pub(super) fn on_bytes(&mut self, now: Time, bytes: u64) {
        let slot = now.as_nanos() / SLOT;
        match self.slots.back_mut() {
            Some((last, sum)) if *last >= slot => *sum += bytes,
            _ => self.slots.push_back((slot, bytes)),
        }
        if self.slots.len() as u64 > SLOTS + 1 {
            self.slots.pop_front();
        }
    }
    pub(crate) fn rate(&self, now: Time) -> Rate {
        let slot = now.as_nanos() / SLOT;
        let first = slot.saturating_sub(SLOTS);
        let bytes: u64 = self.slots.iter().filter(|(slot, _)| *slot >= first).map(|(_, bytes)| bytes).sum();
        let from = Time::from_nanos(first * SLOT).max(self.started);
        Rate::over(bytes, now.since(from)).unwrap_or_default()
    }
}

//! Scheduled changes of a link: rates and delays of a measured link, outages, contacts.
use alloc::sync::Arc;

use super::LinkChange;
use crate::{Duration, Time};

/// A list of changes with their times after the driver's epoch, which may repeat.
#[derive(Clone, PartialEq, Debug)]
pub struct Script {
    steps: Arc<[(Duration, LinkChange)]>,
    period: Option<Duration>,
}

impl Script {
    /// These changes, in this order. They repeat after each `period`; `None` for once only.
    ///
    /// # Panics
    /// If the times do not ascend, or the period is zero or does not lie beyond the last of them.
    pub fn new(steps: impl IntoIterator<Item = (Duration, LinkChange)>, period: Option<Duration>) -> Self {
        let steps: Arc<[_]> = steps.into_iter().collect();
        assert!(steps.is_sorted_by_key(|(time, _)| *time), "changes are told in order");
        let last = steps.last().map_or(Duration::ZERO, |(time, _)| *time);
        assert!(period.is_none_or(|period| period > last), "a script repeats after its last change");
        Script { steps, period }
    }
    /// The changes of one run through it.
    pub fn steps(&self) -> &[(Duration, LinkChange)] {
        &self.steps
    }
    /// After which time it repeats.
    pub fn period(&self) -> Option<Duration> {
        self.period
    }
}

/// A [`Script`] being carried out.
#[derive(Clone, Debug)]
pub(super) struct Prompter {
    script: Script,
    base: Time,
    index: usize,
}

impl Prompter {
    pub(super) fn new(script: Script) -> Self {
        Prompter { script, base: Time::ZERO, index: 0 }
    }
    /// When the next change is due.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.script.steps.get(self.index).map(|(time, _)| self.base + *time)
    }
    /// The next change that is due at `now`, and when it was.
    pub(super) fn poll(&mut self, now: Time) -> Option<(Time, LinkChange)> {
        let due = self.next_due().filter(|due| *due <= now)?;
        let change = self.script.steps[self.index].1.clone();
        self.index += 1;
        if self.index == self.script.steps.len()
            && let Some(period) = self.script.period
        {
            self.index = 0;
            self.base += period;
        }
        Some((due, change))
    }
}

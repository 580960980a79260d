//! Fetches that go on without a client: which ones were paused, and how to begin them again.
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::request::Get;

/// Fetches that are remembered: those that run, and paused ones until they are resumed. Further ones cannot be paused.
const REMEMBERED_MAX: usize = 1_024;

/// The fetches that were begun, by their transfer, such as `transfer-1`.
#[derive(Debug, Default)]
pub(crate) struct Background {
    begun: Mutex<BTreeMap<String, Begun>>,
}
#[derive(Debug)]
struct Begun {
    get: Get,
    state: State,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Running,
    Paused,
}

impl Background {
    /// A fetch runs.
    pub(crate) fn on_begun(&self, transfer: &str, get: &Get) {
        let mut begun = self.lock();
        if begun.len() < REMEMBERED_MAX {
            begun.insert(transfer.into(), Begun { get: get.clone(), state: State::Running });
        }
    }
    /// A fetch has ended; if it was paused it stays known.
    pub(crate) fn on_ended(&self, transfer: &str) {
        let mut begun = self.lock();
        if begun.get(transfer).is_some_and(|begun| begun.state == State::Running) {
            begun.remove(transfer);
        }
    }
    /// Whether a fetch is to be ended to be resumed later. False if it does not run in the background.
    pub(crate) fn pause(&self, transfer: &str) -> bool {
        let mut begun = self.lock();
        let running = begun.get_mut(transfer).filter(|begun| begun.state == State::Running);
        running.map(|begun| begun.state = State::Paused).is_some()
    }
    /// What to begin again, once.
    pub(crate) fn resume(&self, transfer: &str) -> Option<Get> {
        let mut begun = self.lock();
        let is_paused = begun.get(transfer).is_some_and(|begun| begun.state == State::Paused);
        if is_paused { begun.remove(transfer).map(|begun| begun.get) } else { None }
    }
    /// A fetch that was to be resumed could not be: it stays paused.
    pub(crate) fn on_not_resumed(&self, transfer: &str, get: Get) {
        self.lock().insert(transfer.into(), Begun { get, state: State::Paused });
    }
    pub(crate) fn is_paused(&self, transfer: &str) -> bool {
        self.lock().get(transfer).is_some_and(|begun| begun.state == State::Paused)
    }
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Begun>> {
        // The table is consistent between any two statements.
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Output;

    #[test]
    fn what_was_paused_is_resumed_once_and_nothing_else_is() {
        let background = Background::default();
        let get = Get::new("/a", Output::Path("a".into()));
        background.on_begun("transfer-1", &get);
        assert!(background.resume("transfer-1").is_none(), "it runs");
        assert!(background.pause("transfer-1") && !background.pause("transfer-1") && !background.pause("transfer-2"));
        // Its thread ends after that.
        background.on_ended("transfer-1");
        assert!(background.is_paused("transfer-1"));
        assert_eq!(background.resume("transfer-1"), Some(get.clone()));
        assert!(background.resume("transfer-1").is_none() && !background.is_paused("transfer-1"));
        background.on_begun("transfer-2", &get);
        background.on_ended("transfer-2");
        assert!(!background.pause("transfer-2"));
    }
}

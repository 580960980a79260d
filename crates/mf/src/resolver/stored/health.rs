//! Whether the store can be used, whether it has room, and whether it tells its changes; and what of that is told to people.
use alloc::{format, string::String};

use tributary_core::{Duration, Time};

/// How often it is told that the store cannot be used, or is full.
const NOTE_EACH: Duration = Duration::from_secs(10);
/// How long the store may not have shown that it tells its changes: it does so every two seconds, and an election of its
/// members takes a second or two.
pub(super) const BLIND_AFTER: Duration = Duration::from_secs(5);

/// What is known of the state of the store.
#[derive(Debug, Default)]
pub(super) struct Health {
    name: &'static str,
    /// Since when it does not answer.
    failing: Option<Time>,
    /// Whether that was told, and when something of the kind was told last.
    is_noted: bool,
    noted_at: Option<Time>,
    /// Since when it keeps nothing new, and when that was told last.
    full: Option<Time>,
    full_noted_at: Option<Time>,
    /// When it was known last that all changes have been told.
    current_at: Option<Time>,
    /// When this began to look, and whether it was told that changes are not.
    begun_at: Option<Time>,
    is_blind_noted: bool,
}

impl Health {
    pub(super) fn new(name: &'static str) -> Health {
        Health { name, ..Health::default() }
    }
    /// Since when the store does not answer, or does not tell its changes.
    pub(super) fn failing_since(&self) -> Option<Time> {
        let blind = || self.current_at.or(self.begun_at).filter(|_| self.is_blind_noted);
        self.failing.or_else(blind)
    }
    /// How it stands, for people.
    pub(super) fn state(&self) -> &'static str {
        match (self.failing, self.is_blind_noted, self.full) {
            (Some(_), ..) => "cannot be used now",
            (_, true, _) => "does not tell its changes now: questions are refused",
            (.., Some(_)) => "full: keeps nothing new",
            _ => "in use",
        }
    }
    /// Whether who is there is not known well enough to answer by it.
    pub(super) fn is_blind(&self, now: Time) -> bool {
        self.current_at.is_none_or(|at| now.since(at) > BLIND_AFTER)
    }
    /// A request has failed: gives what is to be told of that.
    pub(super) fn on_trouble(&mut self, now: Time, reason: &str) -> Option<String> {
        self.failing.get_or_insert(now);
        // A store that answers every other request is told of now and then.
        if self.is_noted || self.noted_at.is_some_and(|at| now.since(at) < NOTE_EACH) {
            return None;
        }
        (self.is_noted, self.noted_at) = (true, Some(now));
        Some(format!("names: {} cannot be used: {reason}; what it does not keep is refused", self.name))
    }
    /// A request has failed because the store has no room.
    pub(super) fn on_full(&mut self, now: Time, reason: &str) -> Option<String> {
        self.full.get_or_insert(now);
        if self.full_noted_at.is_some_and(|at| now.since(at) < NOTE_EACH) {
            return None;
        }
        self.full_noted_at = Some(now);
        let name = self.name;
        Some(format!("names: {name} is full: {reason}; what it has is found, and what is new is refused"))
    }
    /// A request was carried out.
    pub(super) fn on_success(&mut self) -> Option<String> {
        self.failing = None;
        core::mem::take(&mut self.is_noted).then(|| format!("names: {} can be used again", self.name))
    }
    /// Something new was kept.
    pub(super) fn on_kept(&mut self) {
        self.full = None;
    }
    /// All changes of a moment ago have been told.
    pub(super) fn on_current(&mut self, now: Time) -> Option<String> {
        self.current_at = Some(now);
        core::mem::take(&mut self.is_blind_noted).then(|| format!("names: {} tells its changes again", self.name))
    }
    /// Looks whether changes are told.
    pub(super) fn look(&mut self, now: Time) -> Option<String> {
        let since = self.current_at.unwrap_or(*self.begun_at.get_or_insert(now));
        if self.is_blind_noted || now.since(since) <= BLIND_AFTER {
            return None;
        }
        self.is_blind_noted = true;
        Some(format!(
            "names: {} tells no changes: no watch of it has stood for {} s; questions are refused until one does",
            self.name,
            BLIND_AFTER.as_secs()
        ))
    }
}

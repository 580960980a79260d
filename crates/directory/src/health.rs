//! Tracks whether the store answers, has free space and reports its changes, and words the messages to people about it.
use alloc::{format, string::String};

use tributary_core::{Duration, Time};

/// Shortest time between two messages that the store fails, or is full.
const NOTE_EACH: Duration = Duration::from_secs(10);
/// How long the store may go without showing that its watch works: it does so every two seconds, and an election of its
/// members takes a second or two.
pub const BLIND_AFTER: Duration = Duration::from_secs(5);

tributary_core::declared! {
    /// The state of a store, as far as its answers show it.
    #[derive(Debug)]
    pub struct Health {
        name: &'static str = name,
        words: Words = words,
        /// Since when it does not answer.
        failing: Option<Time> = None,
        /// Whether a message reported that, and when the last message about failures was sent.
        is_noted: bool = false,
        noted_at: Option<Time> = None,
        /// Since when it has refused new records, and when the last message reported that.
        full: Option<Time> = None,
        full_noted_at: Option<Time> = None,
        /// When the watch was last up to date.
        current_at: Option<Time> = None,
        /// The first call of `look`, and whether a message has reported the stalled watch.
        begun_at: Option<Time> = None,
        is_blind_noted: bool = false,
    }
    /// The health of a store of this name before its first answer.
    pub fn new(name: &'static str, words: Words) {}
}

/// A resolver's wording of messages about its store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Words {
    /// The start of its messages to people.
    pub topic: &'static str,
    /// The consequence of a stalled watch.
    pub blind: &'static str,
}

impl Health {
    /// Since when the store does not answer, or its watch has stalled.
    pub fn failing_since(&self) -> Option<Time> {
        let blind = || self.current_at.or(self.begun_at).filter(|_| self.is_blind_noted);
        self.failing.or_else(blind)
    }
    /// Its state, for people.
    pub fn state(&self) -> String {
        match (self.failing, self.is_blind_noted, self.full) {
            (Some(_), ..) => "cannot be used now".into(),
            (_, true, _) => format!("reports no changes now: {}", self.words.blind),
            (.., Some(_)) => "full: keeps nothing new".into(),
            _ => "in use".into(),
        }
    }
    /// Whether [`Health::look`] has found the watch stalled, and it has not recovered.
    pub fn is_found_blind(&self) -> bool {
        self.is_blind_noted
    }
    /// Whether the watch is too far behind for answers from the local copy.
    pub fn is_blind(&self, now: Time) -> bool {
        self.current_at.is_none_or(|at| now.since(at) > BLIND_AFTER)
    }
    /// A request has failed: returns the message to people, if one is due.
    pub fn on_trouble(&mut self, now: Time, reason: &str) -> Option<String> {
        self.failing.get_or_insert(now);
        // A store that answers every other request is reported once per `NOTE_EACH`.
        if self.is_noted || self.noted_at.is_some_and(|at| now.since(at) < NOTE_EACH) {
            return None;
        }
        (self.is_noted, self.noted_at) = (true, Some(now));
        Some(format!(
            "{}: {} cannot be used: {reason}; records that it does not store are refused",
            self.words.topic, self.name
        ))
    }
    /// A request has failed because the store is full.
    pub fn on_full(&mut self, now: Time, reason: &str) -> Option<String> {
        self.full.get_or_insert(now);
        if self.full_noted_at.is_some_and(|at| now.since(at) < NOTE_EACH) {
            return None;
        }
        self.full_noted_at = Some(now);
        let (topic, name) = (self.words.topic, self.name);
        Some(format!("{topic}: {name} is full: {reason}; stored records are found, and new ones are refused"))
    }
    /// A request was carried out.
    pub fn on_success(&mut self) -> Option<String> {
        self.failing = None;
        core::mem::take(&mut self.is_noted).then(|| format!("{}: {} can be used again", self.words.topic, self.name))
    }
    /// Something new was kept.
    pub fn on_kept(&mut self) {
        self.full = None;
    }
    /// All changes up to a moment ago have been reported.
    pub fn on_current(&mut self, now: Time) -> Option<String> {
        self.current_at = Some(now);
        core::mem::take(&mut self.is_blind_noted)
            .then(|| format!("{}: {} reports its changes again", self.words.topic, self.name))
    }
    /// Checks whether the watch still reports changes.
    pub fn look(&mut self, now: Time) -> Option<String> {
        let since = self.current_at.unwrap_or(*self.begun_at.get_or_insert(now));
        if self.is_blind_noted || now.since(since) <= BLIND_AFTER {
            return None;
        }
        self.is_blind_noted = true;
        Some(format!(
            "{}: {} reports no changes: no watch has worked for {} s; until one does {}",
            self.words.topic,
            self.name,
            BLIND_AFTER.as_secs(),
            self.words.blind
        ))
    }
}

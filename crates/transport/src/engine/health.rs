//! Whether the store can be used, whether it has room, and whether it tells its changes; and what of that is told to people.
use alloc::{format, string::String};

use tributary_core::{Duration, Time};

/// How often it is told that the store cannot be used, or is full.
const NOTE_EACH: Duration = Duration::from_secs(10);
/// How long the store may not have shown that it tells its changes: it does so every two seconds, and an election of its
/// members takes a second or two.
pub const BLIND_AFTER: Duration = Duration::from_secs(5);

/// What is known of the state of a store.
#[derive(Debug)]
pub struct Health {
    name: &'static str,
    words: Words,
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

/// What a resolver calls what it keeps, and what it does without its store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Words {
    /// What its messages to people begin with.
    pub topic: &'static str,
    /// What it does while the store tells no changes.
    pub blind: &'static str,
}

impl Health {
    /// Of a store of this name, of which nothing is known.
    pub fn new(name: &'static str, words: Words) -> Health {
        Health {
            name,
            words,
            failing: None,
            is_noted: false,
            noted_at: None,
            full: None,
            full_noted_at: None,
            current_at: None,
            begun_at: None,
            is_blind_noted: false,
        }
    }
    /// Since when the store does not answer, or does not tell its changes.
    pub fn failing_since(&self) -> Option<Time> {
        let blind = || self.current_at.or(self.begun_at).filter(|_| self.is_blind_noted);
        self.failing.or_else(blind)
    }
    /// How it stands, for people.
    pub fn state(&self) -> String {
        match (self.failing, self.is_blind_noted, self.full) {
            (Some(_), ..) => "cannot be used now".into(),
            (_, true, _) => format!("does not tell its changes now: {}", self.words.blind),
            (.., Some(_)) => "full: keeps nothing new".into(),
            _ => "in use".into(),
        }
    }
    /// Whether [`Health::look`] has found that changes are not told, and they have not been since.
    pub fn is_found_blind(&self) -> bool {
        self.is_blind_noted
    }
    /// Whether who is there is not known well enough to answer by it.
    pub fn is_blind(&self, now: Time) -> bool {
        self.current_at.is_none_or(|at| now.since(at) > BLIND_AFTER)
    }
    /// A request has failed: gives what is to be told of that.
    pub fn on_trouble(&mut self, now: Time, reason: &str) -> Option<String> {
        self.failing.get_or_insert(now);
        // A store that answers every other request is told of now and then.
        if self.is_noted || self.noted_at.is_some_and(|at| now.since(at) < NOTE_EACH) {
            return None;
        }
        (self.is_noted, self.noted_at) = (true, Some(now));
        Some(format!("{}: {} cannot be used: {reason}; what it does not keep is refused", self.words.topic, self.name))
    }
    /// A request has failed because the store has no room.
    pub fn on_full(&mut self, now: Time, reason: &str) -> Option<String> {
        self.full.get_or_insert(now);
        if self.full_noted_at.is_some_and(|at| now.since(at) < NOTE_EACH) {
            return None;
        }
        self.full_noted_at = Some(now);
        let (topic, name) = (self.words.topic, self.name);
        Some(format!("{topic}: {name} is full: {reason}; what it has is found, and what is new is refused"))
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
    /// All changes of a moment ago have been told.
    pub fn on_current(&mut self, now: Time) -> Option<String> {
        self.current_at = Some(now);
        core::mem::take(&mut self.is_blind_noted)
            .then(|| format!("{}: {} tells its changes again", self.words.topic, self.name))
    }
    /// Looks whether changes are told.
    pub fn look(&mut self, now: Time) -> Option<String> {
        let since = self.current_at.unwrap_or(*self.begun_at.get_or_insert(now));
        if self.is_blind_noted || now.since(since) <= BLIND_AFTER {
            return None;
        }
        self.is_blind_noted = true;
        Some(format!(
            "{}: {} tells no changes: no watch of it has stood for {} s; until one does {}",
            self.words.topic,
            self.name,
            BLIND_AFTER.as_secs(),
            self.words.blind
        ))
    }
}

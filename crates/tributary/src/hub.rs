//! Spreads a node's events to whoever waits for them, and remembers the little that a later question needs.
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
};
use tributary_core::{
    Duration, Time,
    event::{Event, ResolverEvent, TransferEvent},
};

/// Events that wait for one listener at most; what exceeds it is dropped and counted. Who waits for the end of
/// something asks the node as well, so a lost event costs a little time and nothing else.
const EVENTS_PER_LISTENER: usize = 1_024;
/// The same for who lists names: each entry of a listing is told once.
const ENTRIES_PER_LISTENER: usize = 1 << 20;
/// Notes that are remembered.
const NOTES_MAX: usize = 64;
/// Names whose resolution is remembered.
const NAMES_MAX: usize = 20_000;

/// What is said of something published that cannot be served.
fn unreadable(name: &str, reason: &str) -> String {
    format!("cannot serve '{name}' any more: {reason}; publish it again")
}

/// The place where all events of a node pass.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    listeners: Vec<Listening>,
    /// Names of ours that cannot be served, and why.
    unreadable: BTreeMap<String, String>,
    notes: VecDeque<String>,
    published: BTreeMap<String, Resolution>,
    events_dropped: u64,
}

/// A listener, and how many events wait for it, of how many at most.
#[derive(Debug)]
struct Listening {
    sender: Sender<Event>,
    waiting: Arc<AtomicUsize>,
    room: usize,
}

/// What the resolver said about a name of ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Resolution {
    /// It knows the name.
    Confirmed,
    /// It refused, and why.
    Rejected(String),
}

impl Hub {
    /// Takes an event. Called on the driver's thread, so it never blocks.
    pub(crate) fn handle_event(&self, now: Time, event: Event) {
        // Chunks and drops come by the thousand; whoever wants to know asks for the counts.
        if matches!(event, Event::Dropped { .. } | Event::Transfer(_, TransferEvent::ChunkStored { .. })) {
            return;
        }
        match &event {
            Event::Note(text) => tracing::info!("{now}: {text}"),
            Event::Resolver(ResolverEvent::Rejected { name, operation, reason }) => {
                tracing::warn!("{now}: {operation} of '{name}' was refused: {reason}");
            }
            Event::Unreadable { name, reason } => tracing::warn!("{}", unreadable(name, reason)),
            event => tracing::debug!("{now}: {event:?}"),
        }
        let mut state = self.state();
        state.remember(now, &event);
        let mut dropped = 0;
        state.listeners.retain(|listener| {
            if listener.waiting.load(Ordering::Relaxed) >= listener.room {
                dropped += 1;
                // Whoever has gone takes nothing out; that is seen here.
                return Arc::strong_count(&listener.waiting) > 1;
            }
            listener.waiting.fetch_add(1, Ordering::Relaxed);
            listener.sender.send(event.clone()).is_ok()
        });
        state.events_dropped += dropped;
    }
    /// Listens from now on.
    pub(crate) fn listen(self: &Arc<Self>) -> Listener {
        self.listen_with(EVENTS_PER_LISTENER)
    }
    /// Listens from now on to all entries of a listing, however slow whoever lists is.
    pub(crate) fn listen_to_many(self: &Arc<Self>) -> Listener {
        self.listen_with(ENTRIES_PER_LISTENER)
    }
    fn listen_with(self: &Arc<Self>, room: usize) -> Listener {
        let (sender, events) = channel();
        let waiting = Arc::<AtomicUsize>::default();
        self.state().listeners.push(Listening { sender, waiting: Arc::clone(&waiting), room });
        Listener { events, waiting }
    }
    /// What the resolver last said about a name of ours.
    pub(crate) fn resolution(&self, name: &str) -> Option<Resolution> {
        self.state().published.get(name).cloned()
    }
    /// Why a name of ours cannot be served, if it was found out that it cannot.
    pub(crate) fn unreadable(&self, name: &str) -> Option<String> {
        self.state().unreadable.get(name).cloned()
    }
    /// Forgets what is known about a name of ours, before it is published anew.
    pub(crate) fn forget(&self, name: &str) {
        let mut state = self.state();
        state.published.remove(name);
        state.unreadable.remove(name);
    }
    /// The latest notes, oldest first.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.state().notes.iter().cloned().collect()
    }
    /// Keeps a note that does not come from the node.
    pub(crate) fn note(&self, text: &str) {
        self.state().keep_note(text.into());
    }
    /// Events that listeners were too slow for.
    pub(crate) fn events_dropped(&self) -> u64 {
        self.state().events_dropped
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is whole between any two statements, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remember(&mut self, now: Time, event: &Event) {
        match event {
            Event::Note(text) => self.keep_note(format!("{now}: {text}")),
            Event::Unreadable { name, reason } => {
                self.keep_note(format!("{now}: {}", unreadable(name, reason)));
                if self.unreadable.len() < NAMES_MAX || self.unreadable.contains_key(name) {
                    self.unreadable.insert(name.clone(), reason.clone());
                }
            }
            Event::Neighbour { face, node, up } => {
                let change = if *up { "answers" } else { "does not answer any more" };
                self.keep_note(format!("{now}: {face}: neighbour {node} {change}"));
            }
            Event::Resolver(ResolverEvent::Published { name }) => self.resolve(name, Resolution::Confirmed),
            Event::Resolver(ResolverEvent::Rejected { name, operation: "publish", reason }) => {
                self.keep_note(format!("{now}: publication of '{name}' was refused: {reason}"));
                self.resolve(name, Resolution::Rejected(reason.clone()));
            }
            Event::Resolver(ResolverEvent::Unpublished { name }) => {
                self.published.remove(name);
            }
            _ => {}
        }
    }
    fn resolve(&mut self, name: &str, resolution: Resolution) {
        if self.published.len() < NAMES_MAX || self.published.contains_key(name) {
            self.published.insert(name.into(), resolution);
        }
    }
    fn keep_note(&mut self, text: String) {
        if self.notes.len() == NOTES_MAX {
            self.notes.pop_front();
        }
        self.notes.push_back(text);
    }
}

/// Receives the events from the moment on at which it was made.
#[derive(Debug)]
pub(crate) struct Listener {
    events: Receiver<Event>,
    waiting: Arc<AtomicUsize>,
}

/// What came of waiting.
#[derive(Debug)]
pub(crate) enum Heard {
    /// An event.
    Event(Event),
    /// Nothing in that time.
    Silence,
    /// The node is gone.
    Gone,
}

impl Listener {
    /// Waits for the next event, for at most `patience`.
    pub(crate) fn wait(&self, patience: Duration) -> Heard {
        match self.events.recv_timeout(patience) {
            Ok(event) => {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                Heard::Event(event)
            }
            Err(RecvTimeoutError::Timeout) => Heard::Silence,
            Err(RecvTimeoutError::Disconnected) => Heard::Gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(text: &str) -> Event {
        Event::Note(text.into())
    }

    #[test]
    fn a_slow_listener_loses_events_and_never_blocks_the_node() {
        let hub = Arc::new(Hub::default());
        let listener = hub.listen();
        for _ in 0..EVENTS_PER_LISTENER + 5 {
            hub.handle_event(Time::ZERO, note("x"));
        }
        assert_eq!(hub.events_dropped(), 5);
        assert!(matches!(listener.wait(Duration::ZERO), Heard::Event(_)));
        drop(listener);
        hub.handle_event(Time::ZERO, note("x"));
        assert_eq!(hub.events_dropped(), 5);
        assert_eq!(hub.notes().len(), NOTES_MAX);
    }

    #[test]
    fn who_lists_loses_no_entry_however_many_there_are() {
        let hub = Arc::new(Hub::default());
        let listener = hub.listen_to_many();
        for entry in 0..20 * EVENTS_PER_LISTENER {
            hub.handle_event(Time::ZERO, note(&entry.to_string()));
        }
        let heard = std::iter::from_fn(|| match listener.wait(Duration::ZERO) {
            Heard::Event(event) => Some(event),
            Heard::Silence | Heard::Gone => None,
        });
        assert_eq!((heard.count(), hub.events_dropped()), (20 * EVENTS_PER_LISTENER, 0));
    }

    #[test]
    fn remembers_what_the_resolver_said_last() {
        let hub = Arc::new(Hub::default());
        let name = "/a".to_string();
        let refused = ResolverEvent::Rejected { name: name.clone(), operation: "publish", reason: "full".into() };
        hub.handle_event(Time::ZERO, Event::Resolver(refused));
        assert_eq!(hub.resolution("/a"), Some(Resolution::Rejected("full".into())));
        hub.handle_event(Time::ZERO, Event::Resolver(ResolverEvent::Published { name: name.clone() }));
        assert_eq!(hub.resolution("/a"), Some(Resolution::Confirmed));
        hub.handle_event(Time::ZERO, Event::Resolver(ResolverEvent::Unpublished { name }));
        assert_eq!(hub.resolution("/a"), None);
    }
}

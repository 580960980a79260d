//! Passes a node's events to its subscribers, and remembers the few facts that later requests need.
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
};
use tributary_core::{
    Duration, Time,
    event::{Event, ResolverEvent, TransferEvent},
};

use super::log_limit::{LeftOut, LogLimit};
use crate::log::targets;

/// Maximum events that wait for one subscriber; further ones are dropped and counted. Operations that wait for an end
/// also query the node, so a lost event costs only a little time.
const EVENTS_PER_SUBSCRIBER: usize = 1_024;
/// The same limit for subscribers to a listing, whose entries are unique events.
const ENTRIES_PER_LISTING: usize = 1 << 20;
/// Notes that are remembered.
const NOTES_MAX: usize = 64;
/// Names whose resolution is remembered: more than a node may publish.
const NAMES_MAX: usize = 1 << 20;

/// The note about a publication that cannot be served.
fn unreadable(name: &str, reason: &str) -> String {
    format!("can no longer serve '{name}': {reason}; publish it again")
}

/// Passes the events of a node on to its subscribers.
#[derive(Debug, Default)]
pub(crate) struct EventBus {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    subscribers: Vec<Subscriber>,
    /// Names of ours that cannot be served, and why.
    unreadable: BTreeMap<String, String>,
    notes: VecDeque<String>,
    published: BTreeMap<String, Resolution>,
    events_dropped: u64,
    limit: LogLimit,
}

/// A subscriber, how many events wait for it, and how many may.
#[derive(Debug)]
struct Subscriber {
    sender: Sender<Event>,
    waiting: Arc<AtomicUsize>,
    room: usize,
}

/// What the resolver answered about a name of ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Resolution {
    /// It knows the name.
    Confirmed,
    /// It refused, and why.
    Rejected(String),
}

impl EventBus {
    /// Takes an event. Called on the driver's thread, so it never blocks.
    pub(crate) fn handle_event(&self, now: Time, event: Event) {
        // Chunks and drops come by the thousand; subscribers read the counters instead.
        if matches!(event, Event::Dropped { .. } | Event::Transfer(_, TransferEvent::ChunkStored { .. })) {
            return;
        }
        // Any sender of datagrams causes notes: their number is bounded, in the log and in memory. The log is written
        // without the lock: a blocked terminal must not delay requests for the state.
        let (summaries, admitted) = {
            let mut state = self.state.lock();
            let summaries = state.limit.summaries(now);
            let admitted = match &event {
                Event::Note(text) => state.limit.admit(now, text),
                Event::Neighbour { face, up, .. } => state.limit.admit(now, &format!("{face} up {up}")),
                _ => Some(LeftOut::default()),
            };
            (summaries, admitted)
        };
        for (count, shape) in summaries {
            tracing::info!("{count} more lines were left out: {shape}");
        }
        if let Some(left_out) = &admitted {
            match &event {
                Event::Note(text) => tracing::info!("{text}{left_out}"),
                Event::Resolver(ResolverEvent::Rejected { name, operation, reason }) => {
                    tracing::warn!(target: targets::NAMES, "{operation} of '{name}' was refused: {reason}");
                }
                Event::Unreadable { name, reason } => tracing::warn!("{}", unreadable(name, reason)),
                Event::Neighbour { .. } => tracing::debug!(target: targets::NEIGHBOURS, "{event:?}{left_out}"),
                Event::Transfer(..) => tracing::debug!(target: targets::TRANSFERS, "{event:?}{left_out}"),
                Event::Resolver(_) => tracing::debug!(target: targets::NAMES, "{event:?}{left_out}"),
                event => tracing::debug!("{event:?}{left_out}"),
            }
        }
        let mut state = self.state.lock();
        if admitted.is_some() {
            state.remember(now, &event);
        }
        let mut dropped = 0;
        state.subscribers.retain(|subscriber| {
            if subscriber.waiting.load(Ordering::Relaxed) >= subscriber.room {
                dropped += 1;
                // A dropped subscriber is found and removed here.
                return Arc::strong_count(&subscriber.waiting) > 1;
            }
            subscriber.waiting.fetch_add(1, Ordering::Relaxed);
            subscriber.sender.send(event.clone()).is_ok()
        });
        state.events_dropped += dropped;
    }
    /// Subscribes to all events from now on.
    pub(crate) fn subscribe(self: &Arc<Self>) -> Subscription {
        self.subscribe_with(EVENTS_PER_SUBSCRIBER)
    }
    /// Subscribes to the entries of a listing; none is lost however slow the subscriber is.
    pub(crate) fn subscribe_to_listing(self: &Arc<Self>) -> Subscription {
        self.subscribe_with(ENTRIES_PER_LISTING)
    }
    fn subscribe_with(self: &Arc<Self>, room: usize) -> Subscription {
        let (sender, events) = channel();
        let waiting = Arc::<AtomicUsize>::default();
        self.state.lock().subscribers.push(Subscriber { sender, waiting: Arc::clone(&waiting), room });
        Subscription { events, waiting }
    }
    /// The resolver's last answer about a name that this node publishes.
    pub(crate) fn resolution(&self, name: &str) -> Option<Resolution> {
        self.state.lock().published.get(name).cloned()
    }
    /// Why one of our names cannot be served, if a read of it has failed.
    pub(crate) fn unreadable(&self, name: &str) -> Option<String> {
        self.state.lock().unreadable.get(name).cloned()
    }
    /// Forgets the resolver's answer about a name, before it is published again.
    pub(crate) fn forget(&self, name: &str) {
        let mut state = self.state.lock();
        state.published.remove(name);
        state.unreadable.remove(name);
    }
    /// The latest notes, oldest first.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.state.lock().notes.iter().cloned().collect()
    }
    /// Keeps a note that does not come from the node.
    pub(crate) fn note(&self, text: &str) {
        self.state.lock().keep_note(text.into());
    }
    /// Events that subscribers were too slow for.
    pub(crate) fn events_dropped(&self) -> u64 {
        self.state.lock().events_dropped
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
                let change = if *up { "answers" } else { "no longer answers" };
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

/// Receives the events after its creation.
#[derive(Debug)]
pub(crate) struct Subscription {
    events: Receiver<Event>,
    waiting: Arc<AtomicUsize>,
}

impl Subscription {
    /// Waits for the next event, for at most `patience`.
    ///
    /// # Errors
    /// None arrived in that time, or the node is gone.
    pub(crate) fn wait(&self, patience: Duration) -> Result<Event, RecvTimeoutError> {
        let event = self.events.recv_timeout(patience)?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Ok(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(text: &str) -> Event {
        Event::Note(text.into())
    }

    #[test]
    fn a_slow_subscriber_loses_events_and_never_blocks_the_node() {
        let bus = Arc::new(EventBus::default());
        let subscription = bus.subscribe();
        for second in 0..EVENTS_PER_SUBSCRIBER + 5 {
            bus.handle_event(Time::from_millis(10_000 * second as u64), note("x"));
        }
        assert_eq!(bus.events_dropped(), 5);
        assert!(subscription.wait(Duration::ZERO).is_ok());
        drop(subscription);
        bus.handle_event(Time::ZERO, note("x"));
        assert_eq!(bus.events_dropped(), 5);
        assert_eq!(bus.notes().len(), NOTES_MAX);
    }

    #[test]
    fn who_lists_loses_no_entry_however_many_there_are() {
        let bus = Arc::new(EventBus::default());
        let subscription = bus.subscribe_to_listing();
        for entry in 0..20 * EVENTS_PER_SUBSCRIBER {
            bus.handle_event(Time::ZERO, note(&entry.to_string()));
        }
        let heard = std::iter::from_fn(|| subscription.wait(Duration::ZERO).ok());
        assert_eq!((heard.count(), bus.events_dropped()), (20 * EVENTS_PER_SUBSCRIBER, 0));
    }

    #[test]
    fn remembers_what_the_resolver_said_last() {
        let bus = Arc::new(EventBus::default());
        let name = "/a".to_string();
        let refused = ResolverEvent::Rejected { name: name.clone(), operation: "publish", reason: "full".into() };
        bus.handle_event(Time::ZERO, Event::Resolver(refused));
        assert_eq!(bus.resolution("/a"), Some(Resolution::Rejected("full".into())));
        bus.handle_event(Time::ZERO, Event::Resolver(ResolverEvent::Published { name: name.clone() }));
        assert_eq!(bus.resolution("/a"), Some(Resolution::Confirmed));
        bus.handle_event(Time::ZERO, Event::Resolver(ResolverEvent::Unpublished { name }));
        assert_eq!(bus.resolution("/a"), None);
    }
}

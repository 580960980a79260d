//! The node's events, once for all listening clients: one thread watches the node and writes each event once; a client
//! costs a queue of references.
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc::{self, error::TrySendError};
use tributary::{Api, ApiError, ErrorKind, Flow, LocalApi, Notice, Request, spawn};

use crate::metrics::ledger::Ledger;

/// Streams of events at a time.
const STREAMS_MAX: usize = 512;
/// Events that wait for one client; one that is slower misses some, and hears how many.
const WAITING_MAX: usize = 256;
/// Events that are kept for clients that reconnect with the id of the last event they saw.
const KEPT_MAX: usize = 512;
/// Time from one progress of a transfer to the next.
const PROGRESS_MS: u64 = 1_000;

/// Distributes the node's events.
#[derive(Debug)]
pub(crate) struct Hub {
    state: Mutex<State>,
    /// Distinguishes the events of this run from other runs'.
    run: String,
}
#[derive(Debug, Default)]
struct State {
    clients: Vec<Client>,
    kept: VecDeque<(u64, Bytes)>,
    next: u64,
    missed: u64,
}
#[derive(Debug)]
struct Client {
    events: mpsc::Sender<Bytes>,
    missed: u64,
}

impl Hub {
    /// Begins to watch the node, until `ended` is set or the node ends.
    pub(crate) fn start(
        api: &Arc<LocalApi>,
        ledger: &Arc<Mutex<Ledger>>,
        ended: &Arc<AtomicBool>,
    ) -> Result<Arc<Hub>, ApiError> {
        let mut run = [0; 4];
        getrandom::fill(&mut run)
            .map_err(|error| ApiError::new(ErrorKind::Io, format!("the system gives no random bytes: {error}")))?;
        let hub = Arc::new(Hub { state: Mutex::default(), run: format!("{:08x}", u32::from_be_bytes(run)) });
        let (of_thread, api, ended) = (Arc::clone(&hub), Arc::clone(api), Arc::clone(ended));
        let ledger = Arc::clone(ledger);
        let watch = move || {
            let ask = Request::Watch { progress_ms: PROGRESS_MS };
            let watched = api.ask(ask, None, &mut |notice| {
                if let Notice::Happened { what, .. } = &notice
                    && let Notice::Progress(view) = &**what
                {
                    ledger.lock().take(view);
                }
                of_thread.publish(&notice);
                if ended.load(Ordering::SeqCst) { Flow::Stop } else { Flow::Continue }
            });
            if let Err(error) = watched {
                tracing::debug!("the node's events are no longer received: {}", error.message);
            }
            of_thread.state.lock().clients.clear();
        };
        spawn("events", watch)?;
        Ok(hub)
    }
    /// Listens from now on, or from the event after `last` if that is still known.
    ///
    /// # Errors
    /// [`ApiError`] if too many listen.
    pub(crate) fn listen(&self, last: Option<&str>) -> Result<mpsc::Receiver<Bytes>, ApiError> {
        let (events, received) = mpsc::channel(WAITING_MAX + KEPT_MAX);
        let mut state = self.state.lock();
        state.clients.retain(|client| !client.events.is_closed());
        if state.clients.len() >= STREAMS_MAX {
            let message = format!("{STREAMS_MAX} clients listen to events already");
            return Err(ApiError::new(ErrorKind::InUse, message).with_hint("close a page, or try again later"));
        }
        // Browsers reconnect on their own; they should wait a moment.
        let _ = events.try_send(Bytes::from_static(b"retry: 2000\n\n"));
        if let Some(last) = last {
            let seen = last.strip_prefix(&self.run).and_then(|rest| rest.strip_prefix('-')?.parse::<u64>().ok());
            let first_kept = state.kept.front().map_or(state.next, |(number, _)| *number);
            match seen {
                Some(seen) if seen >= first_kept.saturating_sub(1) => {
                    let unseen = state.kept.iter().filter(|(number, _)| *number > seen);
                    unseen.for_each(|(_, event)| _ = events.try_send(event.clone()));
                }
                _ => _ = events.try_send(missed(None)),
            }
        }
        state.clients.push(Client { events, missed: 0 });
        Ok(received)
    }
    /// Clients that listen, and events that clients were too slow for.
    pub(crate) fn counts(&self) -> (usize, u64) {
        let mut state = self.state.lock();
        state.clients.retain(|client| !client.events.is_closed());
        (state.clients.len(), state.missed)
    }

    fn publish(&self, notice: &Notice) {
        let mut state = self.state.lock();
        let bytes = match notice {
            Notice::Happened { what, .. } => {
                let number = state.next;
                state.next += 1;
                let id = format!("{}-{number}", self.run);
                let bytes = event(Some(&id), name(&what.to_line()), &notice.to_line());
                if state.kept.len() == KEPT_MAX {
                    state.kept.pop_front();
                }
                state.kept.push_back((number, bytes.clone()));
                bytes
            }
            // Keeps idle connections alive that a middlebox would cut.
            _ => Bytes::from_static(b": waiting\n\n"),
        };
        let mut all_missed = 0;
        state.clients.retain_mut(|client| {
            if client.missed > 0 && client.events.capacity() > 1 {
                let _ = client.events.try_send(missed(Some(client.missed)));
                client.missed = 0;
            }
            match client.events.try_send(bytes.clone()) {
                Ok(()) => true,
                Err(TrySendError::Full(_)) => {
                    client.missed += 1;
                    all_missed += 1;
                    true
                }
                Err(TrySendError::Closed(_)) => false,
            }
        });
        state.missed += all_missed;
    }
}

/// An event of a stream, as the HTML standard has them (§9.2).
pub(crate) fn event(id: Option<&str>, name: &str, data: &str) -> Bytes {
    // A notice is one line.
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    Bytes::from(format!("{id}event: {name}\ndata: {data}\n\n"))
}
/// The name of a notice: the value of its field `event`, at the start of its line.
pub(crate) fn name(line: &str) -> &str {
    let value = line.strip_prefix("{\"event\":\"").unwrap_or_default();
    value.split('"').next().unwrap_or_default()
}
/// How many events a client has missed; `None` if unknown.
fn missed(count: Option<u64>) -> Bytes {
    event(None, "missed", &serde_json::json!({"event": "missed", "count": count}).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub() -> Hub {
        Hub { state: Mutex::default(), run: "0a".into() }
    }
    fn happened(text: &str) -> Notice {
        Notice::Happened { seconds: 1.0, transfer: None, what: Box::new(Notice::Note { text: text.into() }) }
    }
    fn received(events: &mut mpsc::Receiver<Bytes>) -> Vec<String> {
        let all = std::iter::from_fn(|| events.try_recv().ok());
        all.map(|bytes| String::from_utf8(bytes.to_vec()).expect("text")).collect()
    }

    #[test]
    fn a_client_that_comes_again_gets_what_it_missed() {
        let hub = hub();
        let mut first = hub.listen(None).expect("room");
        hub.publish(&happened("one"));
        hub.publish(&Notice::Waiting);
        hub.publish(&happened("two"));
        let all = received(&mut first);
        assert_eq!(all[0], "retry: 2000\n\n");
        assert!(all[1].starts_with("id: 0a-0\nevent: note\ndata: {\"event\":\"happened\""), "{}", all[1]);
        assert_eq!((all[2].as_str(), all.len()), (": waiting\n\n", 4));
        let mut again = hub.listen(Some("0a-0")).expect("room");
        let again = received(&mut again);
        assert_eq!((again.len(), &again[1]), (2, &all[3]));
        for unknown in ["0b-0", "x", "0a-"] {
            let lines = received(&mut hub.listen(Some(unknown)).expect("room"));
            assert_eq!(lines[1], "event: missed\ndata: {\"count\":null,\"event\":\"missed\"}\n\n", "{unknown}");
        }
    }

    #[test]
    fn a_client_that_does_not_read_misses_events_and_hears_how_many() {
        let hub = hub();
        let mut slow = hub.listen(None).expect("room");
        // One place is taken by the first line of the stream.
        let more_than_fit = WAITING_MAX + KEPT_MAX + 9;
        (0..more_than_fit).for_each(|_| hub.publish(&happened("x")));
        assert_eq!(hub.counts(), (1, 10));
        received(&mut slow);
        hub.publish(&happened("y"));
        let lines = received(&mut slow);
        assert!(lines[0].contains("\"count\":10") && lines[1].contains("\"y\""), "{lines:?}");
        drop(slow);
        assert_eq!(hub.counts(), (0, 10));
    }

    #[test]
    fn more_clients_than_allowed_are_refused_until_one_goes() {
        let hub = hub();
        let mut clients: Vec<_> = (0..STREAMS_MAX).map(|_| hub.listen(None).expect("room")).collect();
        assert_eq!(hub.listen(None).expect_err("full").kind, ErrorKind::InUse);
        clients.pop();
        hub.listen(None).expect("room again");
    }
}

//! Fetches that continue without a client: a list on the disk, of which a few run at a time.
//!
//! ```text
//!  begin ──► waiting ──► running ──► done: out of the list
//!              ▲  ▲         │ │
//!   resume ────┘  └─ restart┘ └────► failed, paused ──► resume, cancel
//! ```
//! The entries on the disk have the state after a restart: a running one waits. Its verified chunks are on the disk as
//! well, and it resumes there.
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};
use tributary_core::{Duration, Time};
use tributary_net::{
    Clock,
    disk::fs::{self, FileSystem},
};

use crate::{
    error::{ApiError, ErrorKind},
    request::{Get, Place},
    state_file::StateFile,
};

/// The file in the folder of a node's state.
const FILE: &str = "queue.json";
/// Minimum interval of lookups of a followed name.
const EVERY_MIN_MS: u64 = 1_000;
/// Maximum entries; failed ones are replaced by new ones.
const ENTRIES_MAX: usize = 1_024;

/// The queue of one node.
#[derive(Debug)]
pub(crate) struct Queue {
    fs: Arc<dyn FileSystem>,
    file: PathBuf,
    inner: Mutex<Inner>,
    clock: Clock,
    /// Set when the daemon stops: running fetches stop, and resume after the next start.
    ended: OnceLock<Arc<AtomicBool>>,
}

/// The content of the file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Inner {
    next: u64,
    entries: Vec<Entry>,
}

/// One fetch of the queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    number: u64,
    pub(crate) state: State,
    pub(crate) get: Get,
    /// Its latest transfer, such as `transfer-1`.
    #[serde(skip)]
    pub(crate) transfer: Option<String>,
    /// Whether a thread works at it, be it to end it.
    #[serde(skip)]
    is_active: bool,
    /// When it is its turn at the earliest.
    #[serde(skip)]
    due: Time,
}
impl Entry {
    /// Its identifier, such as `get-1`.
    pub(crate) fn id(&self) -> String {
        format!("get-{}", self.number)
    }
}

/// What an entry does.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    /// It waits for its turn.
    Waiting,
    /// It runs.
    #[serde(skip)]
    Running,
    /// It waits to be resumed.
    Paused,
    /// It ended, for this reason.
    Failed(String),
    /// It must be forgotten once it has ended.
    #[serde(skip)]
    Cancelled,
}

impl Queue {
    /// Reads the file in `state_dir`, if it exists.
    ///
    /// # Errors
    /// [`ApiError`] if it cannot be read or is damaged.
    pub(crate) fn open(state_dir: &Path) -> Result<Self, ApiError> {
        Self::on(fs::real(), state_dir)
    }
    fn on(fs: Arc<dyn FileSystem>, state_dir: &Path) -> Result<Self, ApiError> {
        let file = state_dir.join(FILE);
        let stored = StateFile::new(&*fs, state_dir, FILE, "move it away to begin with an empty queue");
        let inner = stored.read_if_there()?.unwrap_or(Inner { next: 1, ..Inner::default() });
        Ok(Queue { fs, file, inner: Mutex::new(inner), clock: Clock::new(), ended: OnceLock::new() })
    }

    // Commands.

    /// Sets the flag that stops running fetches; the first one counts.
    pub(crate) fn end_with(&self, ended: &Arc<AtomicBool>) {
        self.ended.get_or_init(|| Arc::clone(ended));
    }
    /// Adds a fetch at the end.
    pub(crate) fn add(&self, get: Get) -> Result<u64, ApiError> {
        self.change(|inner| {
            if inner.entries.len() >= ENTRIES_MAX {
                let failed = inner.entries.iter().position(|entry| matches!(entry.state, State::Failed(_)));
                let Some(oldest) = failed else {
                    let message = format!("cannot fetch '{}': {ENTRIES_MAX} fetches wait already", get.name);
                    return Err(ApiError::usage(message).with_hint("`trib cancel` removes one"));
                };
                inner.entries.remove(oldest);
            }
            let number = inner.next;
            inner.next += 1;
            let (state, transfer) = (State::Waiting, None);
            inner.entries.push(Entry { number, get: get.clone(), state, transfer, is_active: false, due: Time::ZERO });
            Ok(number)
        })
    }
    /// The next fetch to run, if fewer than `running_max` run: of those that wait the first one of the highest priority.
    pub(crate) fn take(&self, running_max: usize) -> Option<(u64, Get)> {
        let mut inner = self.inner.lock();
        if self.is_ending() || inner.entries.iter().filter(|entry| entry.is_active).count() >= running_max {
            return None;
        }
        let now = self.clock.now();
        let waits = |entry: &&mut Entry| entry.state == State::Waiting && !entry.is_active && entry.due <= now;
        let next = inner.entries.iter_mut().filter(waits).rev().max_by_key(|entry| entry.get.paths.priority)?;
        (next.state, next.is_active) = (State::Running, true);
        // On the disk it waits, as before.
        Some((next.number, next.get.clone()))
    }
    /// A fetch that runs has this transfer.
    pub(crate) fn on_begun(&self, number: u64, transfer: &str) {
        if let Some(entry) = self.inner.lock().entries.iter_mut().find(|entry| entry.number == number) {
            entry.transfer = Some(transfer.into());
        }
    }
    /// A running fetch has ended. Returns its new state; `None` if it has left the list. A fetch that follows its
    /// publisher waits for the next version; it now has `version`.
    pub(crate) fn on_ended(&self, number: u64, result: Result<Option<u64>, String>) -> Result<Option<State>, ApiError> {
        let (is_ending, now) = (self.is_ending(), self.clock.now());
        self.change(|inner| {
            let Some(index) = inner.entries.iter().position(|entry| entry.number == number) else { return Ok(None) };
            let entry = &mut inner.entries[index];
            entry.is_active = false;
            let again = entry.get.every_ms.map(|every| now + Duration::from_millis(every.max(EVERY_MIN_MS)));
            if let Ok(Some(version)) = result {
                entry.get.newer_than = Some(version);
            }
            match (&entry.state, result) {
                (State::Running, _) if again.is_some() => {
                    (entry.state, entry.due) = (State::Waiting, again.unwrap_or(now));
                }
                (State::Paused | State::Waiting, Ok(_)) if again.is_some() => {}
                (_, Ok(_)) | (State::Cancelled, Err(_)) => {
                    inner.entries.remove(index);
                    return Ok(None);
                }
                (State::Running, Err(_)) if is_ending => entry.state = State::Waiting,
                (State::Running, Err(reason)) => entry.state = State::Failed(reason),
                // It was paused, or paused and resumed while it ended.
                (_, Err(_)) => {}
            }
            Ok(Some(entry.state.clone()))
        })
    }
    /// Pauses a running or waiting fetch. Returns the transfer to end, if there is one.
    pub(crate) fn pause(&self, number: u64) -> Result<Option<String>, ApiError> {
        self.change(|inner| {
            let entry = inner.get(number)?;
            match entry.state {
                State::Waiting | State::Running => {
                    entry.state = State::Paused;
                    Ok(entry.transfer.clone().filter(|_| entry.is_active))
                }
                State::Paused => Err(usage(format!("{} is paused already", entry.id()))),
                State::Failed(_) | State::Cancelled => Err(usage(format!("{} does not run", entry.id()))),
            }
        })
    }
    /// Lets a fetch wait for its turn again that was paused or has failed.
    pub(crate) fn resume(&self, number: u64) -> Result<(), ApiError> {
        self.change(|inner| {
            let entry = inner.get(number)?;
            match entry.state {
                State::Paused | State::Failed(_) => {
                    (entry.state, entry.due) = (State::Waiting, Time::ZERO);
                    Ok(())
                }
                State::Waiting | State::Running | State::Cancelled => {
                    Err(usage(format!("{} is not paused", entry.id())))
                }
            }
        })
    }
    /// Removes a fetch from the list. Returns the transfer to end, if there is one.
    pub(crate) fn remove(&self, number: u64) -> Result<Option<String>, ApiError> {
        self.change(|inner| {
            let entry = inner.get(number)?;
            if entry.is_active {
                entry.state = State::Cancelled;
                return Ok(entry.transfer.clone());
            }
            inner.entries.retain(|entry| entry.number != number);
            Ok(None)
        })
    }
    /// Moves a fetch to another place in the list.
    pub(crate) fn shift(&self, number: u64, place: Place) -> Result<(), ApiError> {
        self.change(|inner| {
            let index = inner.index(number)?;
            let entry = inner.entries.remove(index);
            let to = match place {
                Place::First => 0,
                Place::Last => inner.entries.len(),
            };
            inner.entries.insert(to, entry);
            Ok(())
        })
    }

    // Questions.

    pub(crate) fn entry(&self, number: u64) -> Option<Entry> {
        self.inner.lock().entries.iter().find(|entry| entry.number == number).cloned()
    }
    /// Whether a thread works at a fetch.
    pub(crate) fn is_active(&self, number: u64) -> bool {
        self.inner.lock().is_active(number)
    }
    /// Whether a running fetch should continue.
    pub(crate) fn is_wanted(&self, number: u64) -> bool {
        let is_wanted = |entry: &Entry| entry.number == number && entry.state == State::Running;
        !self.is_ending() && self.inner.lock().entries.iter().any(is_wanted)
    }
    /// Whether the fetch of this transfer was paused, and will resume with the same transfer.
    pub(crate) fn is_put_off(&self, transfer: &str) -> bool {
        let is_it = |entry: &Entry| entry.transfer.as_deref() == Some(transfer);
        let is_off = |entry: &Entry| matches!(entry.state, State::Paused | State::Waiting);
        self.inner.lock().entries.iter().any(|entry| is_it(entry) && is_off(entry))
    }
    /// All entries, in order.
    pub(crate) fn list(&self) -> Vec<Entry> {
        self.inner.lock().entries.iter().filter(|entry| entry.state != State::Cancelled).cloned().collect()
    }
    /// Finds an entry by its identifier, by its latest transfer, or by the name that it fetches (the latest of
    /// several).
    pub(crate) fn find(&self, text: &str) -> Option<u64> {
        let by_name =
            || self.inner.lock().entries.iter().rfind(|entry| entry.get.name == text).map(|entry| entry.number);
        self.find_by_id(text).or_else(by_name)
    }
    /// Finds an entry by its identifier, or by its latest transfer.
    pub(crate) fn find_by_id(&self, text: &str) -> Option<u64> {
        let is_it = |entry: &&Entry| entry.id() == text || entry.transfer.as_deref() == Some(text);
        self.inner.lock().entries.iter().find(is_it).map(|entry| entry.number)
    }
    pub(crate) fn is_ending(&self) -> bool {
        self.ended.get().is_some_and(|ended| ended.load(Ordering::SeqCst))
    }

    /// Changes the list and writes it; if that fails, the list is as before.
    fn change<R>(&self, change: impl FnOnce(&mut Inner) -> Result<R, ApiError>) -> Result<R, ApiError> {
        let mut inner = self.inner.lock();
        let before = inner.clone();
        let done = change(&mut inner)?;
        if let Err(error) = self.write(&inner) {
            // Ended entries stay so, regardless of the disk.
            let active: Vec<bool> = before.entries.iter().map(|of| inner.is_active(of.number)).collect();
            *inner = before;
            for (entry, is_active) in inner.entries.iter_mut().zip(active) {
                if entry.is_active && !is_active && entry.state == State::Running {
                    entry.state = State::Failed("its end could not be written to the disk".into());
                }
                entry.is_active = is_active;
            }
            return Err(error);
        }
        Ok(done)
    }
    fn write(&self, inner: &Inner) -> Result<(), ApiError> {
        let mut stored = inner.clone();
        stored.entries.retain(|entry| entry.state != State::Cancelled);
        let running = stored.entries.iter_mut().filter(|entry| entry.state == State::Running);
        running.for_each(|entry| entry.state = State::Waiting);
        let text = serde_json::to_vec_pretty(&stored)
            .map_err(|error| ApiError::new(ErrorKind::Io, format!("cannot remember the queue: {error}")))?;
        fs::replace(&*self.fs, &self.file, &[&text]).map_err(|error| ApiError::io("write", self.file.display(), &error))
    }
}

impl Inner {
    fn index(&self, number: u64) -> Result<usize, ApiError> {
        self.entries.iter().position(|entry| entry.number == number).ok_or_else(|| {
            let message = format!("there is no fetch get-{number}");
            ApiError::new(ErrorKind::NotFound, message).with_hint("`trib transfers` lists them")
        })
    }
    fn get(&mut self, number: u64) -> Result<&mut Entry, ApiError> {
        let index = self.index(number)?;
        Ok(&mut self.entries[index])
    }
    fn is_active(&self, number: u64) -> bool {
        self.entries.iter().any(|entry| entry.number == number && entry.is_active)
    }
}

fn usage(message: String) -> ApiError {
    ApiError::usage(message).with_hint("`trib transfers` shows what each fetch does")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Output;

    fn get(name: &str, priority: i8) -> Get {
        let mut get = Get::new(name, Output::Path(format!("/tmp{name}").into()));
        get.paths.priority = priority;
        get
    }
    fn names(queue: &Queue) -> Vec<String> {
        queue.list().into_iter().map(|entry| entry.get.name).collect()
    }

    #[test]
    fn runs_so_many_at_a_time_in_order_and_the_urgent_first() {
        let folder = tempfile::tempdir().unwrap();
        let queue = Queue::open(folder.path()).unwrap();
        let [a, b, c] = [("/a", 0), ("/b", 0), ("/c", 0)].map(|(name, of)| queue.add(get(name, of)).unwrap());
        assert_eq!(queue.take(2).map(|(number, _)| number), Some(a));
        queue.shift(c, Place::First).unwrap();
        assert_eq!(queue.take(2).map(|(number, _)| number), Some(c));
        assert_eq!(queue.take(2), None);
        let d = queue.add(get("/d", 5)).unwrap();
        assert_eq!(queue.on_ended(a, Ok(None)).unwrap(), None);
        assert_eq!(queue.take(2).map(|(number, _)| number), Some(d));
        assert_eq!(queue.on_ended(c, Err("no source".into())).unwrap(), Some(State::Failed("no source".into())));
        assert_eq!(queue.take(2).map(|(number, _)| number), Some(b));
        assert_eq!(names(&queue), ["/c", "/b", "/d"]);
    }

    #[test]
    fn a_restart_runs_what_ran_and_leaves_what_was_paused() {
        let folder = tempfile::tempdir().unwrap();
        let queue = Queue::open(folder.path()).unwrap();
        let [a, b, c] = ["/a", "/b", "/c"].map(|name| queue.add(get(name, 0)).unwrap());
        queue.take(1).unwrap();
        queue.on_begun(a, "transfer-7");
        queue.pause(b).unwrap();
        assert!(queue.pause(b).is_err() && queue.resume(a).is_err());
        drop(queue);
        let queue = Queue::open(folder.path()).unwrap();
        let states: Vec<State> = queue.list().into_iter().map(|entry| entry.state).collect();
        assert_eq!(states, [State::Waiting, State::Paused, State::Waiting]);
        assert_eq!([queue.find("get-1"), queue.find("/b"), queue.find("transfer-7")], [Some(a), Some(b), None]);
        assert_eq!(queue.take(9).map(|(number, _)| number), Some(a));
        assert_eq!(queue.take(9).map(|(number, _)| number), Some(c));
        queue.resume(b).unwrap();
        assert_eq!(queue.take(9).map(|(number, _)| number), Some(b));
        assert_eq!(queue.add(get("/d", 0)).unwrap(), c + 1, "numbers are not used again");
    }

    #[test]
    fn what_is_paused_or_cancelled_while_it_runs_is_so_once_it_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let queue = Queue::open(folder.path()).unwrap();
        let [a, b] = ["/a", "/b"].map(|name| queue.add(get(name, 0)).unwrap());
        for (number, transfer) in [(a, "transfer-1"), (b, "transfer-2")] {
            queue.take(2).unwrap();
            queue.on_begun(number, transfer);
        }
        assert_eq!(queue.pause(a).unwrap().as_deref(), Some("transfer-1"));
        assert_eq!(queue.remove(b).unwrap().as_deref(), Some("transfer-2"));
        assert_eq!(names(&queue), ["/a"]);
        queue.resume(a).unwrap();
        assert_eq!(queue.take(9), None, "its thread still ends");
        assert_eq!(queue.on_ended(a, Err("cancelled".into())).unwrap(), Some(State::Waiting));
        assert_eq!(queue.on_ended(b, Err("cancelled".into())).unwrap(), None);
        assert_eq!(queue.take(9).map(|(number, _)| number), Some(a));
        // The daemon stops: running fetches resume next time.
        queue.end_with(&Arc::new(AtomicBool::new(true)));
        assert_eq!(queue.on_ended(a, Err("the node was stopped".into())).unwrap(), Some(State::Waiting));
        assert_eq!(queue.take(9), None);
    }

    #[test]
    fn what_follows_its_publisher_waits_for_the_next_version_and_remembers_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let queue = Queue::open(folder.path()).unwrap();
        let a = queue.add(Get { every_ms: Some(3_600_000), ..get("/a", 0) }).unwrap();
        queue.take(1).unwrap();
        assert_eq!(queue.on_ended(a, Ok(Some(7))).unwrap(), Some(State::Waiting));
        assert_eq!(queue.take(1), None, "in an hour");
        drop(queue);
        let queue = Queue::open(folder.path()).unwrap();
        let (_, again) = queue.take(1).expect("a restart looks at once");
        assert_eq!(again.newer_than, Some(7));
        assert_eq!(queue.on_ended(a, Err("no source".into())).unwrap(), Some(State::Waiting), "it may come back");
        queue.pause(a).unwrap();
        queue.resume(a).unwrap();
        assert!(queue.take(1).is_some(), "whoever resumes it wants it now");
    }

    /// The list matches the last acknowledged change, or an attempt since then that failed.
    #[test]
    fn what_was_acknowledged_outlives_kills_power_cuts_and_failing_disks() {
        use std::collections::BTreeSet;

        use tributary_net::disk::fs::histories::{self, Machine, trace};

        let history = |seed| {
            let mut machine = Machine::new(seed);
            let state = Path::new("/state");
            let texts = |queue: &Queue| -> Vec<String> {
                queue.list().iter().map(|of| format!("{} {:?}", of.number, of.state == State::Paused)).collect()
            };
            let mut possible = BTreeSet::from([Vec::new()]);
            for _ in 0..2 + machine.random.below(5) {
                fs::create_folders(&*machine.fs, state).expect("nothing fails");
                let queue = Queue::on(Arc::clone(&machine.fs), state).expect("it is never damaged");
                let found = texts(&queue);
                assert!(possible.contains(&found), "{found:?} of {possible:?}");
                machine.be_rough();
                for _ in 0..machine.random.below(12) {
                    let known: Vec<u64> = queue.list().iter().map(|of| of.number).collect();
                    let one = known.get(machine.random.below(1 + known.len() as u64) as usize).copied();
                    let before = texts(&queue);
                    let (wanted, done) = match (machine.random.below(4), one) {
                        (0, Some(one)) => {
                            let mut wanted = before.clone();
                            wanted.retain(|of| !of.starts_with(&format!("{one} ")));
                            (wanted, queue.remove(one).map(drop))
                        }
                        (1, Some(one)) if before.contains(&format!("{one} false")) => {
                            let pause = |of: &String| match of.starts_with(&format!("{one} ")) {
                                true => format!("{one} true"),
                                false => of.clone(),
                            };
                            (before.iter().map(pause).collect(), queue.pause(one).map(drop))
                        }
                        _ => {
                            let next = queue.inner.lock().next;
                            let mut wanted = before.clone();
                            wanted.push(format!("{next} false"));
                            (wanted, queue.add(get("/x", 0)).map(drop))
                        }
                    };
                    trace(|| format!("{wanted:?}: {done:?}"));
                    match done {
                        Ok(()) => possible = BTreeSet::from([wanted]),
                        Err(_) => drop(possible.insert(wanted)),
                    }
                }
                machine.restart();
            }
        };
        histories::run("queue", 1_000, history);
    }
}

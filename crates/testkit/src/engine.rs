//! A store of a resolver's records in memory that behaves like etcd and fails on demand.
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use tributary_core::{Duration, Time};
use tributary_directory::engine::{Answer, Before, Change, Engine, Entry, If, Lease, Priority, Request};

/// The interval of [`Answer::Current`].
const CURRENT_EACH: Duration = Duration::from_secs(2);

/// The store that several engines share.
#[derive(Default)]
pub struct MemoryStore {
    now: Time,
    current_at: Time,
    /// The revision of the last change.
    pub revision: u64,
    /// Entries by key, with their leases and the revisions that made them.
    pub kept: BTreeMap<Vec<u8>, (Entry, u64, u64)>,
    /// Leases, with their seconds and ends.
    pub leases: BTreeMap<u64, (u32, Time)>,
    /// All changes, for reads of earlier revisions.
    log: Vec<(u64, Vec<u8>, Option<Entry>)>,
    /// The answers that each engine has not fetched.
    pub inboxes: Vec<VecDeque<Answer>>,
    /// Engines that get answers to requests only.
    pub mute: BTreeSet<usize>,
    /// The number of puts.
    pub puts: usize,
    /// An entry that another client puts just before the next put with [`If::Unchanged`].
    pub overtakes: Option<Entry>,
    /// All requests fail.
    pub is_broken: bool,
    /// All puts fail for lack of space.
    pub is_full: bool,
}

impl MemoryStore {
    /// A new engine over a store.
    pub fn engine(store: &Arc<Mutex<MemoryStore>>) -> Box<dyn Engine> {
        let mut inner = store.lock().unwrap_or_else(PoisonError::into_inner);
        let restarted = Answer::Restarted { revision: inner.revision };
        inner.inboxes.push(VecDeque::from([restarted]));
        Box::new(Shared(Arc::clone(store), inner.inboxes.len() - 1))
    }
    /// Sends an answer to all engines.
    pub fn tell(&mut self, answer: &Answer) {
        let inboxes = self.inboxes.iter_mut().enumerate().filter(|(at, _)| !self.mute.contains(at));
        inboxes.for_each(|(_, inbox)| inbox.push_back(answer.clone()));
    }
    /// Puts an entry unconditionally.
    pub fn set(&mut self, entry: Entry, lease: u64) {
        self.revision += 1;
        let key = entry.key.clone();
        let before = self.kept.insert(key.clone(), (entry.clone(), lease, self.revision));
        self.tell_change(key, Some(entry), before.map_or(Before::Nothing, |(entry, ..)| Before::Entry(entry)));
    }
    fn tell_change(&mut self, key: Vec<u8>, after: Option<Entry>, before: Before) {
        self.log.push((self.revision, key.clone(), after.clone()));
        self.tell(&Answer::Changed(Change { revision: self.revision, key, after, before }));
    }
    /// Advances the clock; leases end, and their entries with them.
    pub fn advance(&mut self, now: Time) {
        self.now = now;
        if self.current_at <= now && !self.is_broken {
            self.current_at = now + CURRENT_EACH;
            self.tell(&Answer::Current);
        }
        self.leases.retain(|_, (_, until)| *until > now);
        let is_over = |(_, (_, lease, _)): &(&Vec<u8>, &(Entry, u64, u64))| !self.leases.contains_key(lease);
        let over: Vec<Vec<u8>> = self.kept.iter().filter(is_over).map(|(key, _)| key.clone()).collect();
        for key in over {
            let before = self.kept.remove(&key).map_or(Before::Unknown, |(entry, ..)| Before::Entry(entry));
            self.revision += 1;
            self.tell_change(key, None, before);
        }
    }
    fn renew(&mut self, Lease { id, seconds }: Lease) {
        self.leases.insert(id, (seconds, self.now + Duration::from_secs(u64::from(seconds))));
    }
    /// The entries at a revision.
    fn at(&self, revision: u64) -> BTreeMap<Vec<u8>, Entry> {
        let mut entries = BTreeMap::new();
        for (_, key, after) in self.log.iter().take_while(|(at, ..)| *at <= revision) {
            match after {
                Some(entry) => drop(entries.insert(key.clone(), entry.clone())),
                None => drop(entries.remove(key)),
            }
        }
        entries
    }
    fn put(&mut self, id: u64, entry: Entry, when: If, lease: Lease) -> Answer {
        self.puts += 1;
        if !self.leases.contains_key(&lease.id) {
            self.renew(lease);
        }
        if let Some(other) = self.overtakes.take_if(|_| matches!(when, If::Unchanged(_))) {
            self.set(other, lease.id);
        }
        let there = self.kept.get_mut(&entry.key);
        let may = match (&there, when) {
            (_, If::Always) | (None, If::Below(_)) => true,
            (Some((there, ..)), If::Below(below)) => there.version < below,
            (there, If::Unchanged(at)) => there.as_ref().is_some_and(|(_, _, revision)| *revision == at),
        };
        match there {
            Some((there, under, _)) if *there == entry => {
                *under = lease.id;
                Answer::Stored { id, is_new: false }
            }
            there if !may => {
                let revision = there.as_ref().map_or(self.revision, |(_, _, revision)| *revision);
                Answer::Stale { id, entry: there.map(|(entry, ..)| entry.clone()), revision }
            }
            _ => {
                self.set(entry, lease.id);
                Answer::Stored { id, is_new: true }
            }
        }
    }
    fn ask(&mut self, request: Request) -> Answer {
        let (id, revision) = (request.id(), self.revision);
        let is_full = self.is_full && matches!(request, Request::Put { .. });
        if self.is_broken || is_full {
            let reason = if is_full { "no room" } else { "it is broken" };
            return Answer::Failed { id, reason: reason.into(), is_full };
        }
        match request {
            Request::Put { entry, when, lease, .. } => self.put(id, entry, when, lease),
            Request::Renew { lease, .. } => {
                let is_alive = self.leases.contains_key(&lease.id);
                if is_alive {
                    self.renew(lease);
                }
                Answer::Renewed { id, is_alive }
            }
            Request::Get { keys, .. } => {
                let entries = keys.iter().filter_map(|key| Some(self.kept.get(key)?.0.clone())).collect();
                Answer::Listed { id, entries, more: false, revision }
            }
            Request::List { from, to, count, at, .. } => {
                let count = count as usize;
                let mut entries: Vec<Entry> = match at {
                    Some(at) => self.at(at).range(from..to).map(|(_, entry)| entry.clone()).take(count + 1).collect(),
                    None => self.kept.range(from..to).map(|(_, (entry, ..))| entry.clone()).take(count + 1).collect(),
                };
                let more = entries.len() > count;
                entries.truncate(count);
                Answer::Listed { id, entries, more, revision: at.unwrap_or(revision) }
            }
        }
    }
}

struct Shared(Arc<Mutex<MemoryStore>>, usize);
impl Engine for Shared {
    fn name(&self) -> &'static str {
        "memory"
    }
    fn ask(&mut self, request: Request, _: Priority) {
        let mut store = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = store.ask(request);
        store.inboxes[self.1].push_back(answer);
    }
    fn poll(&mut self) -> Option<Answer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).inboxes[self.1].pop_front()
    }
}

//! A resolver's client side of an external store: it numbers requests, remembers the purpose of each, reads ranges in pages,
//! and tracks the health of the store.
use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    format,
    string::String,
    vec::Vec,
};

use tributary_core::Time;

use crate::{
    engine::{Answer, Change, Engine, Entry, Priority, Request},
    health::{Health, Words},
};

/// Entries and changes that a round takes, some 5 µs each, so that other input of the node is not delayed.
const ROUND_MAX: usize = 1_024;
/// Pages of one range: a store that always has more would be read for ever.
const PAGES_MAX: u32 = 1 << 14;

tributary_core::declared! {
    /// An external store as a resolver sees it. `P` is the purpose of a request, which its answer returns.
    ///
    /// Order of calls: drain [`Outside::poll`] when the engine rings and while [`Outside::behind_since`] returns a
    /// time; call [`Outside::look`] every second; then drain the notes.
    pub struct Outside<P> {
        health: Health = Health::new(engine.name(), words),
        engine: Box<dyn Engine> = engine,
        id_next: u64 = 0,
        open: BTreeMap<u64, (P, Option<Rest>)> = BTreeMap::new(),
        /// The time of this round and the number of items taken in it; whether the round ended early.
        round: (Time, usize) = (Time::ZERO, 0),
        is_behind: bool = false,
        notes: VecDeque<String> = VecDeque::new(),
        /// Counters for people.
        pub stats: StoreStats = StoreStats::default(),
    }
    /// A store in an unknown state.
    pub fn new(engine: Box<dyn Engine>, words: Words) {}
}

/// Counters of a resolver's use of its store.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StoreStats {
    /// Records that the store has acknowledged.
    pub stored: u64,
    /// Records that were older than those in the store.
    pub stale: u64,
    /// Lookups that it has answered.
    pub read: u64,
    /// Changes that it has reported.
    pub changes: u64,
    /// Requests that it did not carry out in time.
    pub failed: u64,
    /// Records in it that are malformed or not authentic.
    pub forged: u64,
    /// Records that ended because their authors did not repeat them.
    pub ended: u64,
    /// How often the resolver read everything again.
    pub restarts: u64,
}

/// An event of the store.
#[derive(Debug)]
pub enum StoreEvent<P> {
    /// The store has carried out a request.
    Done {
        /// The purpose of the request.
        part: P,
        /// Never [`Answer::Failed`].
        answer: Answer,
    },
    /// A page of a range.
    Page(Page<P>),
    /// The store has not carried out a request.
    Failed {
        /// The number of the request.
        id: u64,
        /// The purpose of the request.
        part: P,
        /// Whether the store is full.
        is_full: bool,
    },
    /// A record has changed.
    Changed(Change),
    /// The store reports all changes above this revision; it may have missed earlier ones.
    Restarted(u64),
    /// The reported changes are complete up to now; true if they were not for a while.
    Current(bool),
}

/// A page of a range, in ascending order of keys.
#[derive(Debug)]
pub struct Page<P> {
    /// The number of the request, equal for all pages of a range; [`Outside::read`] returned it.
    pub id: u64,
    /// The purpose of the request.
    pub part: P,
    /// The records.
    pub entries: Vec<Entry>,
    /// The revision of the store that the page shows.
    pub revision: u64,
    /// The argument of [`Outside::read_on`]; `None` on the last page.
    pub rest: Option<Rest>,
}

/// The unread part of a range.
#[derive(Clone, Debug)]
pub struct Rest {
    from: Vec<u8>,
    to: Vec<u8>,
    count: u32,
    priority: Priority,
    pages: Pages,
    at: Option<u64>,
    pages_left: u32,
}

impl Rest {
    /// The part behind a page that has these entries.
    fn behind(self, entries: &[Entry]) -> Result<Rest, String> {
        let from = entries.last().map(|last| [&last.key[..], &[0]].concat()).filter(|from| *from > self.from);
        match (from, self.pages_left.checked_sub(1)) {
            (Some(from), Some(pages_left)) => Ok(Rest { from, pages_left, ..self }),
            (None, _) => Err("it lists a page again and again".into()),
            (_, None) => Err(format!("it lists more than {PAGES_MAX} pages")),
        }
    }
}

/// Which revisions the pages of a range show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pages {
    /// All pages show one revision. The request fails if the store has compacted that revision.
    OfOneRevision,
    /// Each page shows the revision at the time of its request.
    AsTheyAre,
}

impl<P> Outside<P> {
    /// What the engine is called.
    pub fn name(&self) -> &'static str {
        self.engine.name()
    }
    /// The health of the store.
    pub fn health(&self) -> &Health {
        &self.health
    }
    /// Requests without an answer.
    pub fn open(&self) -> usize {
        self.open.len()
    }
    /// The time of the last round, if it ended early: the next round is due.
    pub fn behind_since(&self) -> Option<Time> {
        self.is_behind.then_some(self.round.0)
    }
    /// The next note for people.
    pub fn poll_note(&mut self) -> Option<String> {
        self.notes.pop_front()
    }

    /// Sends the request that `request` makes of a new number, and returns the number.
    pub fn ask(&mut self, priority: Priority, part: P, request: impl FnOnce(u64) -> Request) -> u64 {
        self.id_next += 1;
        self.open.insert(self.id_next, (part, None));
        self.engine.ask(request(self.id_next), priority);
        self.id_next
    }
    /// Requests the records between two keys, the second excluded, in pages of `count`.
    pub fn read(
        &mut self,
        priority: Priority,
        part: P,
        (from, to): (Vec<u8>, Vec<u8>),
        count: u32,
        pages: Pages,
    ) -> u64 {
        self.id_next += 1;
        let rest = Rest { from, to, count, priority, pages, at: None, pages_left: PAGES_MAX };
        self.read_on(self.id_next, part, rest);
        self.id_next
    }
    /// Requests the next page.
    pub fn read_on(&mut self, id: u64, part: P, rest: Rest) {
        let Rest { from, to, count, priority, at, .. } = rest.clone();
        self.open.insert(id, (part, Some(rest)));
        self.engine.ask(Request::List { id, from, to, count, at }, priority);
    }
    /// Records that a request timed out.
    pub fn on_late(&mut self, now: Time) {
        self.stats.failed += 1;
        let note = self.health.on_trouble(now, "it does not answer in time");
        self.notes.extend(note);
    }
    /// Checks whether the store reports changes; true when it has just stopped to.
    pub fn look(&mut self, now: Time) -> bool {
        let note = self.health.look(now);
        let is_news = note.is_some();
        self.notes.extend(note);
        is_news
    }

    /// The next event; `None` also at the end of a round.
    pub fn poll(&mut self, now: Time) -> Option<StoreEvent<P>> {
        if self.round.0 != now {
            self.round = (now, 0);
        }
        loop {
            self.is_behind = self.round.1 >= ROUND_MAX;
            if self.is_behind {
                return None;
            }
            let answer = self.engine.poll()?;
            self.round.1 += match &answer {
                Answer::Listed { entries, .. } => entries.len().max(1),
                _ => 1,
            };
            let event = self.take(now, answer);
            if event.is_some() {
                return event;
            }
        }
    }
    /// The event of an answer; `None` if no open request has its number.
    fn take(&mut self, now: Time, answer: Answer) -> Option<StoreEvent<P>> {
        let answer = match answer {
            Answer::Changed(change) => {
                self.stats.changes += 1;
                return Some(StoreEvent::Changed(change));
            }
            Answer::Restarted { revision } => {
                self.stats.restarts += 1;
                self.notes.extend(self.health.on_current(now));
                return Some(StoreEvent::Restarted(revision));
            }
            Answer::Current => {
                let is_back = self.health.is_found_blind();
                // The store answers, even without new requests.
                self.notes.extend(self.health.on_success());
                self.notes.extend(self.health.on_current(now));
                return Some(StoreEvent::Current(is_back));
            }
            answer => answer,
        };
        let id = answer.id()?;
        let (part, rest) = self.open.remove(&id)?;
        let (mut page, mut answer) = (None, answer);
        if let (Some(mut read), Answer::Listed { entries, more, revision, .. }) = (rest, &answer) {
            let revision = read.at.unwrap_or(*revision);
            read.at = (read.pages == Pages::OfOneRevision).then_some(revision);
            match more.then(|| read.behind(entries)).transpose() {
                Ok(rest) => page = Some((revision, rest)),
                Err(reason) => answer = Answer::Failed { id, is_full: false, reason },
            }
        }
        if let Answer::Failed { reason, is_full, .. } = answer {
            self.stats.failed += 1;
            self.notes.extend(match is_full {
                true => self.health.on_full(now, &reason),
                false => self.health.on_trouble(now, &reason),
            });
            return Some(StoreEvent::Failed { id, part, is_full });
        }
        self.notes.extend(self.health.on_success());
        if let Answer::Stored { is_new: true, .. } = &answer {
            self.health.on_kept();
        }
        Some(match (page, answer) {
            (Some((revision, rest)), Answer::Listed { entries, .. }) => {
                StoreEvent::Page(Page { id, part, entries, revision, rest })
            }
            (_, answer) => StoreEvent::Done { part, answer },
        })
    }
}

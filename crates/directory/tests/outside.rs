//! A resolver's copy of a range against the store: they are equal after any history of changes, failures and lost events.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use proptest::prelude::*;
use tributary_core::{Duration, Time};
use tributary_directory::{
    Outside, Pages, Snapshot, StoreEvent,
    engine::{Answer, Engine, Entry, If, Lease, Priority, Request},
    health::Words,
};
use tributary_testkit::engine::MemoryStore;

const WORDS: Words = Words { topic: "test", blind: "it waits" };
const TICK: Duration = Duration::from_millis(100);
type Store = Arc<Mutex<MemoryStore>>;

fn key(number: u8) -> Vec<u8> {
    format!("r/{number:03}").into_bytes()
}
fn put(number: u8, version: u64) -> Request {
    let entry = Entry { key: key(number), version, value: vec![number] };
    Request::Put { id: 0, entry, when: If::Below(version), lease: Lease { id: u64::from(number) + 1, seconds: 5 } }
}

/// A resolver that keeps a copy of everything below a prefix.
struct Mirror {
    outside: Outside<()>,
    snapshot: Snapshot<(Vec<u8>, Option<Entry>)>,
    known: BTreeMap<Vec<u8>, Entry>,
    found: BTreeMap<Vec<u8>, Entry>,
    changes_kept_max: usize,
}

impl Mirror {
    fn new(store: &Store, changes_kept_max: usize) -> Mirror {
        let outside = Outside::new(MemoryStore::engine(store), WORDS);
        let (known, found) = (BTreeMap::new(), BTreeMap::new());
        Mirror { outside, snapshot: Snapshot::default(), known, found, changes_kept_max }
    }
    fn read(&mut self) {
        self.found.clear();
        let range = (b"r/".to_vec(), b"r0".to_vec());
        self.snapshot.begin(self.outside.read(Priority::Background, (), range, 3, Pages::OfOneRevision));
    }
    fn change(&mut self, revision: u64, key: Vec<u8>, after: Option<Entry>) {
        match self.snapshot.on_change(revision, (key, after), self.changes_kept_max) {
            Some((key, Some(entry))) => drop(self.known.insert(key, entry)),
            Some((key, None)) => drop(self.known.remove(&key)),
            None => {}
        }
    }
    /// Takes one event; false without one.
    fn take(&mut self, now: Time) -> bool {
        let Some(event) = self.outside.poll(now) else { return false };
        match event {
            StoreEvent::Restarted(_) => self.read(),
            StoreEvent::Changed(change) => self.change(change.revision, change.key, change.after),
            StoreEvent::Failed { id, .. } if self.snapshot.expects(id) => self.snapshot.give_up(),
            StoreEvent::Page(page) if self.snapshot.expects(page.id) => {
                self.found.extend(page.entries.into_iter().map(|entry| (entry.key.clone(), entry)));
                if let Some(rest) = page.rest {
                    self.outside.read_on(page.id, (), rest);
                } else if let Some(changes) = self.snapshot.finish(page.revision) {
                    self.known = std::mem::take(&mut self.found);
                    changes.into_iter().for_each(|(revision, (key, after))| self.change(revision, key, after));
                } else {
                    self.read();
                }
            }
            _ => {}
        }
        true
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Put(u8),
    /// The mirror takes this number of events.
    Take(u8),
    /// Time passes; leases end.
    Pass(u8),
    Break(bool),
    /// The store loses its reports of changes, and restarts.
    Lose,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0u8..20).prop_map(Step::Put),
        8 => (0u8..6).prop_map(Step::Take),
        2 => (1u8..30).prop_map(Step::Pass),
        1 => any::<bool>().prop_map(Step::Break),
        1 => Just(Step::Lose),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    #[test]
    fn a_copy_of_a_range_equals_the_store_after_any_history(steps in steps(), kept_max in 0usize..8) {
        let store = Store::default();
        let mut other = MemoryStore::engine(&store);
        let mut mirror = Mirror::new(&store, kept_max);
        let mut now = Time::ZERO;
        for (version, step) in (1..).zip(steps) {
            match step {
                Step::Put(number) => other.ask(put(number, version), Priority::Question),
                Step::Take(count) => {
                    for _ in 0..count {
                        mirror.take(now);
                    }
                }
                Step::Pass(ticks) => {
                    now += TICK * u32::from(ticks);
                    store.lock().unwrap().advance(now);
                }
                Step::Break(is_broken) => store.lock().unwrap().is_broken = is_broken,
                Step::Lose => {
                    let mut store = store.lock().unwrap();
                    let revision = store.revision;
                    let inbox = &mut store.inboxes[1];
                    inbox.retain(|answer| answer.id().is_some());
                    inbox.push_back(Answer::Restarted { revision });
                }
            }
        }
        // Liveness phase: the store works, and the mirror reads everything that it could not read before.
        store.lock().unwrap().is_broken = false;
        loop {
            now += TICK;
            while mirror.take(now) {}
            if !mirror.snapshot.is_unread() {
                break;
            }
            mirror.read();
        }
        let there: BTreeMap<Vec<u8>, Entry> =
            store.lock().unwrap().kept.iter().map(|(key, (entry, ..))| (key.clone(), entry.clone())).collect();
        prop_assert!(mirror.snapshot.is_read());
        prop_assert_eq!(mirror.known, there);
    }
}

#[test]
fn a_round_takes_a_bounded_part_and_the_rest_comes_in_the_next() {
    let store = Store::default();
    let mut outside: Outside<()> = Outside::new(MemoryStore::engine(&store), WORDS);
    (0..3_000).for_each(|_| store.lock().unwrap().tell(&Answer::Current));
    let mut taken = Vec::new();
    for round in 0..4 {
        let now = Time::from_millis(round);
        taken.push(std::iter::from_fn(|| outside.poll(now)).count());
        assert_eq!(outside.behind_since(), (round < 2).then_some(now));
    }
    assert_eq!(taken, [1_024, 1_024, 953, 0]);
}

#[test]
fn a_store_is_told_of_when_it_fails_is_full_or_tells_nothing_and_when_that_is_over() {
    let store = Store::default();
    let mut outside: Outside<()> = Outside::new(MemoryStore::engine(&store), WORDS);
    let mut notes = |now: u64, ask: Option<Request>| {
        let now = Time::from_millis(now);
        if let Some(request) = ask {
            outside.ask(Priority::Question, (), |_| request);
        }
        outside.look(now);
        while outside.poll(now).is_some() {}
        let note = outside.poll_note();
        (note, outside.health().state())
    };
    let expect = |(note, state): (Option<String>, String), text: Option<&str>, expected: &str| {
        assert_eq!((note.is_some(), state.as_str()), (text.is_some(), expected), "{note:?}");
        text.into_iter().for_each(|text| assert!(note.as_ref().unwrap().contains(text), "{note:?}"));
    };
    expect(notes(0, None), None, "in use");
    expect(notes(6_000, None), Some("reports no changes"), "reports no changes now: it waits");
    store.lock().unwrap().tell(&Answer::Current);
    expect(notes(6_100, None), Some("reports its changes again"), "in use");
    store.lock().unwrap().is_broken = true;
    let renew = |id| Some(Request::Renew { id, lease: Lease { id: 1, seconds: 5 } });
    expect(notes(6_200, renew(1)), Some("cannot be used: it is broken"), "cannot be used now");
    expect(notes(6_300, renew(2)), None, "cannot be used now");
    store.lock().unwrap().is_broken = false;
    store.lock().unwrap().is_full = true;
    expect(notes(6_400, renew(3)), Some("can be used again"), "in use");
    let put_as = |id: u64| match put(1, 1) {
        Request::Put { entry, when, lease, .. } => Some(Request::Put { id, entry, when, lease }),
        _ => None,
    };
    expect(notes(6_500, put_as(4)), Some("is full: no room"), "full: keeps nothing new");
    store.lock().unwrap().is_full = false;
    expect(notes(6_600, put_as(5)), None, "in use");
}

/// A store that answers each request for a page with one entry and the news that more follow.
struct Endless {
    /// Whether each page has another entry.
    advances: bool,
    pages: u32,
    asked: Option<u64>,
}
impl Engine for Endless {
    fn name(&self) -> &'static str {
        "endless"
    }
    fn ask(&mut self, request: Request, _: Priority) {
        let Request::List { id, .. } = request else { return };
        self.asked = Some(id);
        self.pages += u32::from(self.advances);
    }
    fn poll(&mut self) -> Option<Answer> {
        let id = self.asked.take()?;
        let entries = vec![Entry { key: format!("r/{:08}", self.pages).into(), version: 1, value: Vec::new() }];
        Some(Answer::Listed { id, entries, more: true, revision: 1 })
    }
}

#[test]
fn a_store_that_always_has_more_ends_a_read_with_an_error() {
    for (advances, reason) in [(false, "a page again and again"), (true, "more than 16384 pages")] {
        let mut outside: Outside<()> = Outside::new(Box::new(Endless { advances, pages: 0, asked: None }), WORDS);
        let begun = outside.read(Priority::Background, (), (b"r/".to_vec(), b"r0".to_vec()), 1, Pages::AsTheyAre);
        let mut pages = 0;
        let failed = loop {
            match outside.poll(Time::from_millis(pages)) {
                Some(StoreEvent::Page(page)) => outside.read_on(page.id, (), page.rest.unwrap()),
                Some(StoreEvent::Failed { id, .. }) => break id,
                other => panic!("{other:?}"),
            }
            pages += 1;
        };
        let note = outside.poll_note().unwrap();
        assert!(failed == begun && note.contains(reason), "{note}");
        assert_eq!(outside.open(), 0);
    }
}

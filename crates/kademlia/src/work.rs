//! Requests of the resolver, carried out by reading and putting sets.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Semaphore, mpsc, oneshot, watch},
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout_at},
};
use tributary_transport::engine::{Answer, Entry, If, Lease, Priority, Request, Rules};

use crate::{
    Inbox, KademliaOptions, READ_TIME_MAX, WRITE_TIME_MAX,
    peer::{Command, Copies, Found},
    records::{Again, Records},
    set::{Held, Offer, Offers, SET_BYTES_MAX, Set, Taken},
    shard::{DEPTH_MAX, Shard},
};

pub(crate) type Asked = Request;

/// Questions that are under way at the same time, each with one lookup or two, and what is done beside them.
const QUESTIONS_MAX: usize = 64;
const BACKGROUND_MAX: usize = 4;
const SAYS_MAX: usize = 8;
const POLLS_MAX: usize = 8;
/// Bytes of a set from which on it is split.
const SPLIT_AT: usize = SET_BYTES_MAX / 2;
/// How often watched groups are read.
const POLL_EACH: Duration = Duration::from_secs(10);
/// How often it is looked what has ended, and what is to be said again.
const LOOK_EACH: Duration = Duration::from_millis(500);
/// For how long the parts of a long list that were read are good for its next pages, and how many lists are kept.
const PAGES_LAST: Duration = Duration::from_secs(5);
const PAGED_MAX: usize = 16;

/// What was read of a group or a part of it.
#[derive(Default)]
struct Read {
    set: Set,
    /// All who keep it were asked.
    is_complete: bool,
}

/// A list, and until when it is good.
type Pages = (Instant, BTreeMap<Vec<u8>, Held>);

/// What answers requests.
pub(crate) struct Work {
    rules: Arc<dyn Rules>,
    peer: mpsc::UnboundedSender<Command>,
    count: watch::Receiver<usize>,
    records: Mutex<Records>,
    /// Long lists that were read a moment ago.
    pages: Mutex<BTreeMap<Vec<u8>, Pages>>,
    records_max: usize,
    /// Until when it waits for others: no answer is better than that nothing is there.
    joins_until: Instant,
    inbox: Arc<Inbox>,
}

/// Why something could not be done.
struct Trouble {
    reason: String,
    is_full: bool,
}

fn trouble(reason: impl Into<String>) -> Trouble {
    Trouble { reason: reason.into(), is_full: false }
}

fn no_answer() -> Trouble {
    trouble(format!("no peer has answered within {} ms", READ_TIME_MAX.as_millis()))
}

impl Work {
    pub(crate) fn new(
        options: &KademliaOptions,
        rules: Arc<dyn Rules>,
        peer: mpsc::UnboundedSender<Command>,
        count: watch::Receiver<usize>,
        inbox: Arc<Inbox>,
    ) -> Work {
        Work {
            rules,
            peer,
            count,
            records: Mutex::default(),
            pages: Mutex::default(),
            records_max: options.records_max,
            joins_until: options.joins_until(),
            inbox,
        }
    }
    /// A group is watched from now on, or not any more.
    pub(crate) fn watch(&self, group: &[u8], is_watched: bool) {
        if self.rules.group(group) == Some(group) {
            self.change(|records| records.watch(group, is_watched));
        }
    }
    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Changes what is known, and tells that.
    fn change<T>(&self, change: impl FnOnce(&mut Records) -> T) -> T {
        let mut records = self.records();
        let result = change(&mut records);
        let told = records.take_told();
        if !told.is_empty() {
            self.inbox.push(told);
        }
        result
    }
    /// Answers a request.
    async fn carry_out(&self, request: Request) -> Answer {
        let id = request.id();
        let answer = match request {
            Request::Put { entry, when, lease, .. } => self.put(id, entry, when, lease).await,
            Request::Renew { lease, .. } => {
                Ok(Answer::Renewed { id, is_alive: self.records().renew(Instant::now(), lease.id) })
            }
            Request::Get { keys, .. } => self.get(id, keys).await,
            Request::List { from, to, count, .. } => self.list(id, &from, &to, count as usize).await,
        };
        answer.unwrap_or_else(|Trouble { reason, is_full }| Answer::Failed { id, reason, is_full })
    }

    // Read.

    /// Whether nobody else is there yet who is expected to be.
    fn is_joining(&self) -> bool {
        *self.count.borrow() == 0 && Instant::now() < self.joins_until
    }
    async fn read_shard(&self, shard: &Shard, deadline: Instant) -> Result<Read, Trouble> {
        if self.is_joining() {
            return Err(trouble("no peer answers yet"));
        }
        let (found, mut finds) = mpsc::unbounded_channel();
        let _ = self.peer.send(Command::Get { key: shard.encode(), found });
        let mut read = Read::default();
        while let Ok(Some(found)) = timeout_at(deadline, finds.recv()).await {
            match found {
                Found::All => {
                    read.is_complete = true;
                    break;
                }
                Found::Set(bytes) => self.merge(shard, &bytes, &mut read.set),
            }
        }
        Ok(read)
    }
    /// Takes what one peer keeps, as if it had come from a stranger, which it has.
    fn merge(&self, shard: &Shard, bytes: &[u8], set: &mut Set) {
        let now = Instant::now();
        let Some(offers) = Offers::decode(&shard.group, bytes) else { return self.inbox.count_forged(1) };
        if let Some(split) = offers.split {
            set.mark_split(now, split);
        }
        for offer in offers.records {
            if set.take(now, shard, offer, &*self.rules) == Taken::Forged {
                self.inbox.count_forged(1);
            }
        }
    }
    /// All of a group, with what this resolver has put there.
    async fn read_group(&self, group: &[u8]) -> Result<BTreeMap<Vec<u8>, Held>, Trouble> {
        let deadline = Instant::now() + READ_TIME_MAX;
        let (mut found, mut left, mut is_complete) = (BTreeMap::new(), vec![Shard::root(group)], true);
        while !left.is_empty() {
            // The parts of one depth are read at the same time.
            let reads = left.iter().map(|shard| self.read_shard(shard, deadline));
            let reads = futures::future::join_all(reads).await;
            let mut below = Vec::new();
            for (shard, read) in left.iter().zip(reads) {
                let read = read?;
                is_complete &= read.is_complete;
                if !read.is_complete && read.set.is_empty() && shard.depth > 0 {
                    // A part of a list would be missing.
                    return Err(no_answer());
                }
                if read.set.split(Instant::now()).is_some() && shard.depth < DEPTH_MAX {
                    below.extend(shard.halves());
                }
                newest(&mut found, read.set.into_entries());
            }
            left = below;
        }
        let own: BTreeMap<Vec<u8>, Held> = {
            let records = self.records();
            let end = behind(group);
            let own = records.range(group, &end).filter(|(key, _)| records.is_own(key));
            own.map(|(key, held)| (key.clone(), held.clone())).collect()
        };
        newest(&mut found, own);
        if found.is_empty() && !is_complete {
            return Err(no_answer());
        }
        let now = Instant::now();
        found.retain(|_, held| held.ends > now);
        Ok(found)
    }
    async fn list(&self, id: u64, from: &[u8], to: &[u8], count: usize) -> Result<Answer, Trouble> {
        let group = self.rules.group(from).filter(|group| behind(group) == to);
        let Some(group) = group else {
            let records = self.records();
            let all = records.range(from, to).map(|(key, held)| entry(key, held));
            return Ok(page(id, all, count, records.revision()));
        };
        let paged = if from == group { None } else { self.paged(group) };
        let found = match paged {
            Some(found) => found,
            None => self.read_group(group).await?,
        };
        let revision = self.change(|records| {
            if records.is_watched(group) {
                records.absorb(&found);
            }
            records.revision()
        });
        let all = found.range(from.to_vec()..).map(|(key, held)| entry(key, held));
        let answer = page(id, all, count, revision);
        if matches!(answer, Answer::Listed { more: true, .. }) {
            self.keep_pages(group, found);
        }
        Ok(answer)
    }
    fn paged(&self, group: &[u8]) -> Option<BTreeMap<Vec<u8>, Held>> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|_, (until, _)| *until > Instant::now());
        pages.get(group).map(|(_, found)| found.clone())
    }
    fn keep_pages(&self, group: &[u8], found: BTreeMap<Vec<u8>, Held>) {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|_, (until, _)| *until > Instant::now());
        if pages.len() < PAGED_MAX || pages.contains_key(group) {
            pages.insert(group.to_vec(), (Instant::now() + PAGES_LAST, found));
        }
    }
    async fn get(&self, id: u64, keys: Vec<Vec<u8>>) -> Result<Answer, Trouble> {
        let one = |key: Vec<u8>| async move {
            let known =
                self.records().get(&key).filter(|held| held.ends > Instant::now()).map(|held| entry(&key, held));
            if known.is_some() && self.records().is_own(&key) {
                return Ok(known);
            }
            let Some(group) = self.rules.group(&key) else { return Ok(None) };
            let found = self.read_group(group).await?;
            Ok(found.get(&key).map(|held| entry(&key, held)))
        };
        let found = futures::future::join_all(keys.into_iter().map(one)).await;
        let mut entries: Vec<Entry> =
            found.into_iter().collect::<Result<Vec<_>, Trouble>>()?.into_iter().flatten().collect();
        entries.sort_by(|one, other| one.key.cmp(&other.key));
        // Of none of them changes are told: as of no revision.
        Ok(Answer::Listed { id, entries, more: false, revision: 0 })
    }

    // Put.

    async fn put(&self, id: u64, entry: Entry, when: If, lease: Lease) -> Result<Answer, Trouble> {
        let now = Instant::now();
        if !self.rules.accepts(&entry) {
            // That it has ended, which nobody signs: peers keep it until its end, if it is not said again.
            let may = self.records().get(&entry.key).is_some_and(|held| match when {
                If::Below(version) => held.version < version,
                If::Unchanged(_) | If::Always => false,
            });
            if may {
                self.change(|records| records.withdraw(&entry.key));
            }
            return Ok(Answer::Stored { id, is_new: may });
        }
        let Some(group) = self.rules.group(&entry.key).map(<[u8]>::to_vec) else {
            return Err(trouble("such a key cannot be kept"));
        };
        let until = {
            let mut records = self.records();
            if records.own() >= self.records_max && !records.is_own(&entry.key) {
                let reason = format!("this resolver says {} records (records_max)", self.records_max);
                return Err(Trouble { reason, is_full: true });
            }
            records.lease(now, lease)
        };
        let (shard, is_new) = match when {
            If::Always => (Shard::root(&group), true),
            If::Below(_) | If::Unchanged(_) => {
                let below = if let If::Below(below) = when { below } else { entry.version };
                match self.room_for(&group, &entry, below, until).await? {
                    Room::Here { shard, is_new } => (shard, is_new),
                    Room::Stale(there) => return Ok(Answer::Stale { id, entry: Some(there), revision: 0 }),
                }
            }
        };
        let ttl = until.saturating_duration_since(Instant::now());
        let offers = Offers { split: None, records: vec![Offer { entry: entry.clone(), ttl }] };
        self.put_set(&shard, &offers).await?;
        self.change(|records| records.publish(entry, lease.id, shard, now, until));
        Ok(Answer::Stored { id, is_new })
    }
    /// Reads what there is at the parts of a group where a record belongs; the first one that has room takes it.
    async fn room_for(&self, group: &[u8], new: &Entry, below: u64, until: Instant) -> Result<Room, Trouble> {
        let deadline = Instant::now() + READ_TIME_MAX;
        let (mut is_new, mut marks) = (true, Vec::new());
        for depth in 0..=DEPTH_MAX {
            let shard = Shard::at(group, depth, &new.key);
            let read = self.read_shard(&shard, deadline).await?;
            let own = self.records().get(&new.key).cloned();
            for there in read.set.get(&new.key).cloned().into_iter().chain(own) {
                if there.version == new.version && there.value == new.value {
                    is_new = false;
                } else if there.version >= below {
                    return Ok(Room::Stale(entry(&new.key, &there)));
                }
            }
            let split = read.set.split(Instant::now());
            if (split.is_none() && read.set.bytes() < SPLIT_AT) || depth == DEPTH_MAX {
                for mark in marks {
                    self.mark_split(&mark, until).await?;
                }
                return Ok(Room::Here { shard, is_new });
            }
            if split.is_none_or(|left| left < until.saturating_duration_since(Instant::now()) / 2) {
                marks.push(shard);
            }
        }
        Err(Trouble { reason: "the list is as long as lists may be".into(), is_full: true })
    }
    async fn mark_split(&self, shard: &Shard, until: Instant) -> Result<(), Trouble> {
        let split = Some(until.saturating_duration_since(Instant::now()));
        self.put_set(shard, &Offers { split, records: Vec::new() }).await
    }
    async fn put_set(&self, shard: &Shard, offers: &Offers) -> Result<(), Trouble> {
        if self.is_joining() {
            return Err(trouble("no peer answers yet"));
        }
        let (done, copied) = oneshot::channel();
        let _ = self.peer.send(Command::Put { key: shard.encode(), value: offers.encode(&shard.group), done });
        match timeout_at(Instant::now() + 2 * WRITE_TIME_MAX, copied).await {
            Ok(Ok(Copies { made, needed })) if made >= needed => Ok(()),
            Ok(Ok(Copies { made, needed })) => {
                let why = "the others do not answer, have no room, or have a newer one";
                Err(trouble(format!("{made} peers keep the record, and {needed} would have to; {why}")))
            }
            _ => Err(trouble("no peer has answered")),
        }
    }

    // What is done unasked.

    /// Says again what is to be kept for longer.
    async fn say(self: Arc<Work>) {
        let room = Arc::new(Semaphore::new(SAYS_MAX));
        let mut ticks = interval(LOOK_EACH);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.change(|records| records.expire(Instant::now()));
            while !self.is_joining() {
                let Some(again) = self.records().next_due(Instant::now()) else { break };
                let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
                let work = Arc::clone(&self);
                tokio::spawn(async move {
                    work.send_again(again).await;
                    drop(permit);
                });
            }
        }
    }
    async fn send_again(&self, Again { shard, offers, until }: Again) {
        let mut is_kept = true;
        if let (Some(key), Some(last)) = (until.keys().next(), until.values().max()) {
            for depth in 0..shard.depth {
                let above = Shard::at(&shard.group, depth, key);
                is_kept &= self.mark_split(&above, *last).await.is_ok();
            }
        }
        is_kept = is_kept && self.put_set(&shard, &offers).await.is_ok();
        self.records().on_said(Instant::now(), &until, is_kept);
    }
    /// Says all again as soon as somebody is there after nobody was.
    async fn meet(self: Arc<Work>) {
        let mut count = self.count.clone();
        let mut was_alone = true;
        while count.changed().await.is_ok() {
            let is_alone = *count.borrow_and_update() == 0;
            if was_alone && !is_alone {
                // Whoever came first knows others.
                sleep(LOOK_EACH).await;
                self.records().say_all(Instant::now());
            }
            was_alone = is_alone;
        }
    }
    /// Reads watched groups.
    async fn poll(self: Arc<Work>) {
        let room = Arc::new(Semaphore::new(POLLS_MAX));
        loop {
            let next = Instant::now() + POLL_EACH;
            let watched = self.records().watched();
            for group in watched {
                self.inbox.has_room().await;
                let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
                let work = Arc::clone(&self);
                tokio::spawn(async move {
                    if let Ok(found) = work.read_group(&group).await {
                        work.change(|records| {
                            if records.is_watched(&group) {
                                records.absorb(&found);
                            }
                        });
                    }
                    drop(permit);
                });
            }
            sleep_until(next).await;
        }
    }
}

enum Room {
    Here {
        shard: Shard,
        is_new: bool,
    },
    /// This is there, and may not be replaced.
    Stale(Entry),
}

/// Carries out what is asked until nobody can ask any more.
pub(crate) async fn run(
    work: Arc<Work>,
    asked: mpsc::UnboundedReceiver<Asked>,
    asked_later: mpsc::UnboundedReceiver<Asked>,
) {
    work.inbox.push([Answer::Restarted { revision: 0 }]);
    // Whatever ends first, the others end with it.
    tokio::select! {
        () = Arc::clone(&work).say() => {}
        () = Arc::clone(&work).meet() => {}
        () = Arc::clone(&work).poll() => {}
        () = carry_out(&work, asked, Priority::Question) => {}
        () = carry_out(&work, asked_later, Priority::Background) => {}
    }
}

async fn carry_out(work: &Arc<Work>, mut asked: mpsc::UnboundedReceiver<Asked>, priority: Priority) {
    let is_question = priority == Priority::Question;
    let room = Arc::new(Semaphore::new(if is_question { QUESTIONS_MAX } else { BACKGROUND_MAX }));
    while let Some(request) = asked.recv().await {
        if !is_question {
            work.inbox.has_room().await;
        }
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { break };
        let work = Arc::clone(work);
        tokio::spawn(async move {
            let answer = work.carry_out(request).await;
            drop(permit);
            match is_question {
                true => work.inbox.push_first(answer),
                false => work.inbox.push([answer]),
            }
        });
    }
}

fn entry(key: &[u8], held: &Held) -> Entry {
    Entry { key: key.to_vec(), version: held.version, value: held.value.clone() }
}
/// Behind the last key of a group.
fn behind(group: &[u8]) -> Vec<u8> {
    let mut end = group.to_vec();
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    end
}
fn page(id: u64, all: impl Iterator<Item = Entry>, count: usize, revision: u64) -> Answer {
    let mut entries: Vec<Entry> = all.take(count + 1).collect();
    let more = entries.len() > count;
    entries.truncate(count);
    Answer::Listed { id, entries, more, revision }
}
/// Adds records to others; of two with the same key the newer one stays.
fn newest(all: &mut BTreeMap<Vec<u8>, Held>, more: BTreeMap<Vec<u8>, Held>) {
    for (key, held) in more {
        let is_newer = all.get(&key).is_none_or(|known| (known.version, &known.value) <= (held.version, &held.value));
        if is_newer {
            let ends = all
                .get(&key)
                .filter(|known| known.value == held.value)
                .map_or(held.ends, |known| known.ends.max(held.ends));
            all.insert(key, Held { ends, ..held });
        }
    }
}

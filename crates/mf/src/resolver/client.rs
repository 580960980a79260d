//! A node's own names, questions and watches, kept up against a service that may be out of reach for a while.
use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    string::String,
    vec::Vec,
};

use tributary_content::SigningKey;
use tributary_core::{Duration, Time};

use super::{Answer, NameResolver, digest};
use crate::{
    ids::Guid,
    wire::{NameMessage, NameRecord, Readers, RecordBody, RecordKey, Statement},
};

/// How long the access router's answer is waited for; it tries replicas meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a lookup is tried before it counts as answered by nothing.
const TRIES: u32 = 3;
/// How long it is remembered that a record was deleted, so that what was said before and comes later does not revive it,
/// and of how many at a place.
const DELETED_MEMORY: (Duration, usize) = (Duration::from_secs(60), 4_096);
/// Lookups open at the same time at most.
const LOOKUPS_MAX: usize = 4_096;

/// The embedded resolver: asks the name service of an access router.
#[derive(Debug)]
pub struct GnrsClient {
    key: SigningKey,
    label: String,
    lifetime: Duration,
    /// How long an answer is waited for.
    patience: Duration,
    version: u64,
    next_request: u32,
    reachable: bool,
    pub(super) own: BTreeMap<Guid, Own>,
    /// Who may know what is said of a GUID, where that is not everybody.
    readers: BTreeMap<Guid, Readers>,
    open: BTreeMap<u32, Open>,
    watches: BTreeMap<Guid, Watched>,
    outbox: VecDeque<NameMessage>,
    answers: VecDeque<Answer>,
    due: Time,
}

#[derive(Debug)]
pub(super) struct Own {
    pub(super) record: NameRecord,
    renew_at: Time,
    deleted: bool,
}

#[derive(Debug, Default)]
struct Watched {
    renew_at: Time,
    known: BTreeMap<RecordKey, NameRecord>,
    /// Versions of deletions, and until when they are remembered.
    deleted: BTreeMap<RecordKey, (u64, Time)>,
    /// Whether the service has said what there is: then `known` is all of it.
    is_answered: bool,
}

impl Watched {
    /// A record has come; false if it is no news.
    fn take(&mut self, now: Time, record: &NameRecord) -> bool {
        let (key, version) = (record.key(), record.statement().version);
        let known = self.known.get(&key).map(|known| known.statement().version);
        let deleted = self.deleted.get(&key).filter(|(_, until)| *until > now).map(|(version, _)| *version);
        if known.max(deleted).is_some_and(|known| known >= version) {
            return false;
        }
        self.deleted.remove(&key);
        if record.is_deletion() {
            self.known.remove(&key);
            if self.deleted.len() >= DELETED_MEMORY.1 {
                self.deleted.retain(|_, (_, until)| *until > now);
                let oldest = self.deleted.iter().min_by_key(|(_, (_, until))| *until).map(|(key, _)| *key);
                oldest.filter(|_| self.deleted.len() >= DELETED_MEMORY.1).map(|key| self.deleted.remove(&key));
            }
            self.deleted.insert(key, (version, now + DELETED_MEMORY.0));
        } else {
            self.known.insert(key, record.clone());
        }
        true
    }
    /// All that there is has come. It may have been overtaken by what is known of single records: of each the newest one
    /// counts. True if something is not there any more.
    fn replace(&mut self, now: Time, records: &[NameRecord]) -> bool {
        let mut before = core::mem::take(&mut self.known);
        for record in records {
            if let Some(known) = before.remove(&record.key()) {
                self.known.insert(known.key(), known);
            }
            self.take(now, record);
        }
        !before.is_empty()
    }
}

#[derive(Clone, PartialEq, Debug)]
enum Open {
    Put { guid: Guid, place: Guid, version: u64, due: Time },
    Lookup { place: Guid, due: Time, tries: u32 },
}

impl GnrsClient {
    /// A client that signs with `key` and calls itself `label`. `version` is where its versions start; it must be higher than in the last life
    /// of the node, and corrects itself if it is not.
    pub fn new(key: SigningKey, label: &str, lifetime: Duration, version: u64) -> GnrsClient {
        GnrsClient {
            key,
            label: label.into(),
            lifetime,
            patience: PATIENCE,
            version,
            next_request: 0,
            reachable: false,
            own: BTreeMap::new(),
            readers: BTreeMap::new(),
            open: BTreeMap::new(),
            watches: BTreeMap::new(),
            outbox: VecDeque::new(),
            answers: VecDeque::new(),
            due: Time::MAX,
        }
    }
    fn number(&mut self) -> u32 {
        self.next_request = self.next_request.wrapping_add(1).max(1);
        self.next_request
    }
    fn lifetime_ms(&self) -> u32 {
        u32::try_from(self.lifetime.as_millis()).unwrap_or(u32::MAX)
    }
    fn say(&mut self, now: Time, body: RecordBody, deleted: bool) {
        self.version += 1;
        let (key, version, lifetime_ms) = (self.key.public(), self.version, self.lifetime_ms());
        let (label, readers) = (self.label.clone(), Readers::All);
        let mut statement = Statement { key, version, lifetime_ms, label, body, readers };
        if let Some(readers) = statement.guid().and_then(|guid| self.readers.get(&guid)) {
            statement.readers = readers.clone();
        }
        let Ok(record) = NameRecord::sign(statement, &self.key) else { return };
        let guid = record.guid();
        self.own.insert(guid, Own { record, renew_at: now + self.lifetime / 3, deleted });
        self.send_own(now, guid);
    }
    fn send_own(&mut self, now: Time, guid: Guid) {
        let Some(own) = self.own.get(&guid).filter(|_| self.reachable) else { return };
        let (record, version) = (own.record.encode(), own.record.statement().version);
        let places: Vec<Guid> = own.record.places().to_vec();
        self.open.retain(|_, open| !matches!(open, Open::Put { guid: known, .. } if *known == guid));
        for place in places {
            let request = self.number();
            self.open.insert(request, Open::Put { guid, place, version, due: now + self.patience });
            self.outbox.push_back(NameMessage::Put { request, place, record: record.clone() });
        }
        self.set_due();
    }
    fn send_watch(&mut self, now: Time, place: Guid) {
        if !self.reachable {
            return;
        }
        let (request, lease_ms) = (self.number(), self.lifetime_ms());
        let watched = self.watches.entry(place).or_default();
        watched.renew_at = now + self.lifetime / 3;
        let known = digest(watched.known.iter().map(|(key, record)| (*key, record.statement().version)));
        self.outbox.push_back(NameMessage::Watch { request, place, lease_ms, known });
        self.set_due();
    }
    fn send_lookup(&mut self, now: Time, place: Guid, tries: u32) {
        let request = self.number();
        self.open.insert(request, Open::Lookup { place, due: now + self.patience, tries });
        if self.reachable {
            self.outbox.push_back(NameMessage::Lookup { request, place });
        }
        self.set_due();
    }
    fn set_due(&mut self) {
        let open = self.open.values().map(|open| match open {
            Open::Put { due, .. } | Open::Lookup { due, .. } => *due,
        });
        let own = self.own.values().map(|own| own.renew_at).filter(|_| self.reachable);
        let watches = self.watches.values().map(|watched| watched.renew_at).filter(|_| self.reachable);
        self.due = open.chain(own).chain(watches).min().unwrap_or(Time::MAX);
    }
    fn authentic(place: Guid, records: &[Vec<u8>]) -> Vec<NameRecord> {
        let decoded = records.iter().filter_map(|bytes| NameRecord::decode(bytes).ok());
        decoded.filter(|record| record.places().contains(&place)).collect()
    }
}

/// Renewals of a record take at most one part in so many of a slow link.
const RENEWAL_PARTS: u32 = 60;
/// The longest lifetime for the sake of a slow link.
const LIFETIME_MAX: Duration = Duration::from_secs(3_600);

impl NameResolver for GnrsClient {
    fn set_slowness(&mut self, answer_time: Duration, airtime: Duration) {
        self.patience = PATIENCE.max(answer_time);
        self.lifetime = self.lifetime.max((airtime * (3 * RENEWAL_PARTS)).min(LIFETIME_MAX));
    }
    fn put(&mut self, now: Time, body: RecordBody) {
        self.say(now, body, false);
    }
    fn set_readers(&mut self, now: Time, guid: Guid, readers: Readers) {
        match &readers {
            Readers::All => drop(self.readers.remove(&guid)),
            Readers::Only(_) => drop(self.readers.insert(guid, readers.clone())),
        }
        let differs = |own: &&Own| !own.deleted && own.record.statement().readers != readers;
        if let Some(own) = self.own.get(&guid).filter(differs) {
            self.say(now, own.record.statement().body.clone(), false);
        }
    }
    fn delete(&mut self, now: Time, guid: Guid) {
        let Some(own) = self.own.get(&guid).filter(|own| !own.deleted) else { return };
        let body = match &own.record.statement().body {
            RecordBody::Device(_) => RecordBody::Deleted(Vec::new()),
            RecordBody::Group { label, .. } => RecordBody::Deleted(label.clone()),
            RecordBody::Content(_) => match own.record.manifest() {
                Some(manifest) => RecordBody::ContentDeleted { content: guid, name: manifest.name },
                None => return,
            },
            RecordBody::Attached { name } => RecordBody::Detached { name: name.clone() },
            RecordBody::Deleted(_) | RecordBody::ContentDeleted { .. } | RecordBody::Detached { .. } => return,
        };
        self.say(now, body, true);
    }
    fn lookup(&mut self, now: Time, place: Guid) {
        let known = |open: &Open| matches!(open, Open::Lookup { place: known, .. } if *known == place);
        if self.open.values().any(known) || self.open.len() >= LOOKUPS_MAX {
            return;
        }
        self.send_lookup(now, place, 1);
    }
    fn watch(&mut self, now: Time, place: Guid) {
        let watched = self.watches.entry(place).or_default();
        match watched.is_answered {
            true => self.answers.push_back(Answer::Found(place, watched.known.values().cloned().collect())),
            // Whoever asks now must be told what others were told of it before.
            false => watched.known.clear(),
        }
        self.send_watch(now, place);
    }
    fn is_watched(&self, place: Guid) -> bool {
        self.watches.contains_key(&place)
    }
    fn known(&self, place: Guid) -> Option<usize> {
        let watched = self.watches.get(&place)?;
        // A service that has kept what this node says of itself, and says nothing of a place, knows nothing there.
        let is_open = self.open.values().any(|open| matches!(open, Open::Put { .. }));
        let is_served = self.reachable && !self.own.is_empty() && !is_open;
        (watched.is_answered || is_served).then_some(watched.known.len())
    }
    fn records(&self, place: Guid) -> Option<Vec<NameRecord>> {
        let watched = self.watches.get(&place).filter(|watched| watched.is_answered)?;
        Some(watched.known.values().cloned().collect())
    }
    fn unwatch(&mut self, _: Time, place: Guid) {
        if self.watches.remove(&place).is_some() && self.reachable {
            let request = self.number();
            self.outbox.push_back(NameMessage::Watch { request, place, lease_ms: 0, known: 0 });
        }
        self.set_due();
    }
    fn on_reachable(&mut self, now: Time) {
        self.reachable = true;
        let own: Vec<Guid> = self.own.keys().copied().collect();
        own.into_iter().for_each(|guid| self.send_own(now, guid));
        let watches: Vec<Guid> = self.watches.keys().copied().collect();
        watches.into_iter().for_each(|place| self.send_watch(now, place));
        for open in self.open.values_mut() {
            if let Open::Lookup { due, tries, .. } = open {
                (*due, *tries) = (now, tries.saturating_sub(1));
            }
        }
        self.handle_timeout(now);
    }
    fn handle_message(&mut self, now: Time, message: NameMessage) {
        match message {
            NameMessage::Done { request, replicas } => {
                if let Some(Open::Put { guid, .. }) = self.open.remove(&request)
                    && !self.open.values().any(|open| matches!(open, Open::Put { guid: other, .. } if *other == guid))
                {
                    self.answers.push_back(Answer::Kept(guid, replicas));
                    if self.own.get(&guid).is_some_and(|own| own.deleted) {
                        self.own.remove(&guid);
                    }
                }
            }
            NameMessage::Stale { request, current } => {
                let Some(Open::Put { guid, .. }) = self.open.remove(&request) else { return };
                self.version = self.version.max(current);
                let Some(own) = self.own.get(&guid) else { return };
                if own.record.statement().version <= current {
                    let (body, deleted) = (own.record.statement().body.clone(), own.deleted);
                    self.say(now, body, deleted);
                }
            }
            NameMessage::Refused { request, refusal } => {
                if let Some(Open::Put { guid, .. }) = self.open.remove(&request) {
                    self.answers.push_back(Answer::Refused(guid, refusal));
                }
            }
            NameMessage::Found { request, place, records } => {
                // Request 0 is the first answer to a watch.
                let queries =
                    matches!(self.open.get(&request), Some(Open::Lookup { place: known, .. }) if *known == place);
                if queries {
                    self.open.remove(&request);
                }
                let records = Self::authentic(place, &records);
                let mut dropped = false;
                match self.watches.get_mut(&place) {
                    Some(watched) => {
                        if queries {
                            for record in &records {
                                watched.take(now, record);
                            }
                        } else {
                            dropped = watched.replace(now, &records);
                            watched.is_answered = true;
                        }
                        let known = watched.known.values().cloned().collect();
                        self.answers.push_back(Answer::Found(place, known));
                    }
                    None if queries => self.answers.push_back(Answer::Found(place, records)),
                    None => {}
                }
                if dropped {
                    // Either it is over, or this was overtaken by the word of it: then the service says so.
                    self.send_watch(now, place);
                }
            }
            NameMessage::Notify { place, record } => {
                if let Some(watched) = self.watches.get_mut(&place) {
                    let news = Self::authentic(place, &[record]).into_iter().filter(|record| watched.take(now, record));
                    self.answers.extend(news.map(|record| Answer::Changed(place, Box::new(record))));
                }
            }
            NameMessage::Put { .. } | NameMessage::Lookup { .. } | NameMessage::Watch { .. } => {}
        }
        self.set_due();
    }
    fn handle_timeout(&mut self, now: Time) {
        if self.due > now {
            return;
        }
        let overdue = |(request, open): (&u32, &Open)| match open {
            Open::Put { due, .. } | Open::Lookup { due, .. } => (*due <= now).then_some((*request, open.clone())),
        };
        let late: Vec<(u32, Open)> = self.open.iter().filter_map(overdue).collect();
        for (request, open) in late {
            self.open.remove(&request);
            match open {
                Open::Put { guid, place, version, .. } => {
                    let own = self.own.get(&guid).filter(|own| own.record.statement().version == version);
                    if let Some(record) = own.map(|own| own.record.encode()).filter(|_| self.reachable) {
                        let request = self.number();
                        self.open.insert(request, Open::Put { guid, place, version, due: now + self.patience });
                        self.outbox.push_back(NameMessage::Put { request, place, record });
                    }
                }
                Open::Lookup { place, tries, .. } if tries < TRIES => self.send_lookup(now, place, tries + 1),
                Open::Lookup { place, .. } => self.answers.push_back(Answer::Found(place, Vec::new())),
            }
        }
        if self.reachable {
            let renew = self.own.iter().filter(|(_, own)| own.renew_at <= now).map(|(guid, _)| *guid);
            let renew: Vec<Guid> = renew.collect();
            for guid in renew {
                // A renewal says the same again: watchers are not told.
                if let Some(own) = self.own.get_mut(&guid) {
                    own.renew_at = now + self.lifetime / 3;
                }
                self.send_own(now, guid);
            }
            let watches: Vec<Guid> =
                self.watches.iter().filter(|(_, watched)| watched.renew_at <= now).map(|(place, _)| *place).collect();
            watches.into_iter().for_each(|place| self.send_watch(now, place));
        }
        self.set_due();
    }
    fn poll_message(&mut self) -> Option<NameMessage> {
        self.outbox.pop_front()
    }
    fn poll_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }
    fn poll_timeout(&self) -> Option<Time> {
        Some(self.due).filter(|due| *due < Time::MAX)
    }
}

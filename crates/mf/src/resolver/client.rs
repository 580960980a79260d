//! A node's own names, lookups and watches, maintained against a service that may be unreachable for a while.
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::String,
    vec::Vec,
};
use core::ops::Bound;

use tributary_content::SigningKey;
use tributary_core::{Duration, Time};
use tributary_trust::{Identity, UnixTime};

use super::{Answer, NameResolver, digest, mark, scopes::Scopes};
use crate::{
    ids::Guid,
    wire::{
        Holding, NameMessage, NameRecord, RECORD_SPAN, Readers, RecordBody, RecordKey, Refusal, Statement, bucket_of,
    },
};

/// How long to wait for the access router's answer; it tries replicas during that time.
const PATIENCE: Duration = Duration::from_secs(2);
/// Attempts of a lookup before it counts as empty.
const TRIES: u32 = 3;
/// How long deleted records are remembered, so that late messages do not revive them, and how many per place.
const DELETED_MEMORY: (Duration, usize) = (Duration::from_secs(60), 4_096);
/// Maximum open lookups.
const LOOKUPS_MAX: usize = 4_096;
/// When to renew buckets that had open puts during the last renewal.
const POSTPONED: Duration = Duration::from_secs(1);
/// Records renewed at a time because they end soon.
const ENDING_MAX: usize = 1_024;
/// Maximum records on their way to the service: the rest waits here, and the service's answers set the pace. An
/// overloaded service halves the limit, and each kept record raises it by one.
const PUTS_OPEN_MAX: usize = 256;
/// How long puts pause after that.
const PUTS_PAUSE: Duration = Duration::from_millis(200);

tributary_core::declared! {
    /// The embedded resolver: queries the name service of an access router.
    #[derive(Debug)]
    pub struct GnrsClient {
        key: SigningKey = key,
        /// In a network with an authority, whose records have an end.
        identity: Option<Identity> = None,
        /// No record ends earlier.
        ends_first: Option<UnixTime> = None,
        label: String = label.into(),
        lifetime: Duration = lifetime,
        /// The same while this node publishes nothing.
        idle_lifetime: Duration = lifetime,
        /// How long attachments and groups outlast this node.
        attachment: Duration = lifetime,
        /// How long to wait for an answer.
        patience: Duration = PATIENCE,
        version: u64 = version,
        next_request: u32 = 0,
        reachable: bool = false,
        pub(super) own: BTreeMap<Guid, Own> = BTreeMap::new(),
        /// The readers of a GUID's records, if restricted.
        readers: BTreeMap<Guid, Readers> = BTreeMap::new(),
        /// The scopes with contents of this node, and their readers.
        scopes: Scopes = Scopes::default(),
        /// Queued records, by GUID and place.
        waiting: VecDeque<(Guid, Guid)> = VecDeque::new(),
        puts_open: usize = 0,
        /// The current limit of open puts, and the end of their pause.
        puts_max: usize = PUTS_OPEN_MAX,
        puts_paused_until: Time = Time::ZERO,
        /// Refused records; they are put again at the next renewal.
        refused: BTreeSet<(Guid, Guid)> = BTreeSet::new(),
        /// The records of this node that the service should hold, by bucket.
        holdings: BTreeMap<u16, Holding> = BTreeMap::new(),
        renew_at: Time = Time::MAX,
        /// Buckets left out of the last renewal, and when they are renewed.
        postponed: BTreeSet<u16> = BTreeSet::new(),
        postponed_at: Time = Time::MAX,
        open: BTreeMap<u32, Open> = BTreeMap::new(),
        watches: BTreeMap<Guid, Watched> = BTreeMap::new(),
        outbox: VecDeque<NameMessage> = VecDeque::new(),
        answers: VecDeque<Answer> = VecDeque::new(),
        /// Why the service did not answer, if that is its latest message.
        trouble: Option<Refusal> = None,
        due: Time = Time::MAX,
    }
    /// A client that signs with `key` and has this label. `version` is its first version; it must exceed the
    /// versions of the node's last run, and corrects itself otherwise.
    pub fn new(key: SigningKey, label: &str, lifetime: Duration, version: u64) {}
}

#[derive(Debug)]
pub(super) struct Own {
    pub(super) record: NameRecord,
    deleted: bool,
    stated_at: Time,
    /// The places where the service has it, as bits in the order of the record's places.
    kept: u8,
    /// The number of replicas at the place with the fewest.
    replicas: u8,
}

impl Own {
    fn bit(&self, place: &Guid) -> u8 {
        self.record.places().iter().position(|known| known == place).map_or(0, |at| 1 << at)
    }
    fn is_kept(&self) -> bool {
        self.kept.count_ones() as usize == self.record.places().len()
    }
}

#[derive(Debug, Default)]
struct Watched {
    renew_at: Time,
    known: BTreeMap<RecordKey, NameRecord>,
    /// Versions of deletions, and how long they are remembered.
    deleted: BTreeMap<RecordKey, (u64, Time)>,
    /// Whether the service has answered: then `known` is complete.
    is_answered: bool,
    /// Whether a known record was missing on all pages so far.
    has_lost: bool,
}

impl Watched {
    /// A record has arrived; false if it is not new.
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
    /// All records between `after` and `last` have arrived. Single records may be newer: the newest version of each
    /// counts.
    fn replace(&mut self, now: Time, after: Option<RecordKey>, last: Option<RecordKey>, records: &[NameRecord]) {
        let bounds = (after.map_or(Bound::Unbounded, Bound::Excluded), last.map_or(Bound::Unbounded, Bound::Included));
        // A page that ends before it starts is empty.
        let is_empty = after.zip(last).is_some_and(|(after, last)| last <= after);
        let here: BTreeSet<RecordKey> = records.iter().map(NameRecord::key).collect();
        let gone: Vec<RecordKey> = match is_empty {
            true => Vec::new(),
            false => self.known.range(bounds).map(|(key, _)| *key).filter(|key| !here.contains(key)).collect(),
        };
        self.has_lost |= !gone.is_empty();
        for key in gone {
            self.known.remove(&key);
        }
        for record in records {
            self.take(now, record);
        }
    }
}

/// An unanswered request, and when its answer is late.
#[derive(Clone, PartialEq, Debug)]
struct Open {
    due: Time,
    what: What,
}

#[derive(Clone, PartialEq, Debug)]
enum What {
    Put {
        guid: Guid,
        place: Guid,
        version: u64,
    },
    /// `after`: the next page of a watched place.
    Lookup {
        place: Guid,
        after: Option<RecordKey>,
        tries: u32,
    },
    Renewal {
        stated: BTreeMap<u16, Holding>,
    },
}

impl GnrsClient {
    /// Sets a longer lifetime for a node that publishes nothing, and the time that attachments to names and groups
    /// outlast it.
    pub fn with_leases(self, idle_lifetime: Duration, attachment: Duration) -> GnrsClient {
        GnrsClient { idle_lifetime: idle_lifetime.min(LIFETIME_MAX), attachment, ..self }
    }
    fn number(&mut self) -> u32 {
        self.next_request = self.next_request.wrapping_add(1).max(1);
        self.next_request
    }
    /// The lease of this node's records and watches. An outdated record of a content makes fetches fail, one of a
    /// device's location only delays them: routers detect themselves whether it is present.
    fn lease(&self) -> Duration {
        let is_content = |own: &Own| !own.deleted && matches!(own.record.statement().body, RecordBody::Content(_));
        match self.own.values().any(is_content) {
            true => self.lifetime,
            false => self.lifetime.max(self.idle_lifetime),
        }
    }
    fn lease_ms(&self) -> u32 {
        u32::try_from(self.lease().as_millis()).unwrap_or(u32::MAX)
    }
    fn lifetime_ms(&self, body: &RecordBody) -> u32 {
        let lifetime = match body {
            body if body.is_of_subscription() => self.attachment,
            RecordBody::Content(_) => self.lifetime,
            _ => self.lease(),
        };
        u32::try_from(lifetime.as_millis()).unwrap_or(u32::MAX)
    }
    /// A statement in a newer version; its end is set when it is signed.
    fn statement(&mut self, body: RecordBody, readers: Readers) -> Statement {
        self.version += 1;
        let lifetime_ms = self.lifetime_ms(&body);
        let (key, label) = (self.key.public(), self.label.clone());
        Statement { key, version: self.version, lifetime_ms, ends: None, label, body, readers }
    }
    fn send_record(&mut self, now: Time, body: RecordBody, deleted: bool) {
        let mut statement = self.statement(body, Readers::All);
        if let Some(readers) = statement.guid().and_then(|guid| self.readers.get(&guid)) {
            statement.readers = readers.clone();
        }
        if let RecordBody::Content(_) = statement.body {
            self.count_scopes(now, &statement, true);
        }
        self.sign(now, statement, deleted);
    }
    /// Signs records again that have no end, or that end within half of [`RECORD_SPAN`]; at most [`ENDING_MAX`] at a
    /// time.
    fn send_end(&mut self, now: Time) {
        let Some(identity) = &self.identity else { return };
        let soon = identity.time_of_day(now).after(RECORD_SPAN / 2);
        if self.ends_first.is_some_and(|first| first >= soon) {
            return;
        }
        let is_ending =
            |(_, own): &(&Guid, &Own)| !own.deleted && own.record.statement().ends.is_none_or(|ends| ends < soon);
        let ending: Vec<Guid> = self.own.iter().filter(is_ending).take(ENDING_MAX).map(|(guid, _)| *guid).collect();
        ending.iter().for_each(|guid| self.send_again(now, guid));
        let stated = self.own.values().filter(|own| !own.deleted).map(|own| own.record.statement().ends);
        // All later records end later.
        self.ends_first = stated.min().map_or(Some(soon), |first| first);
    }
    /// An attachment lasts for its lifetime from its latest put: puts it again before much of that is over.
    fn say_attachments_again(&mut self, now: Time) {
        let is_old = |(_, own): &(&Guid, &Own)| {
            own.record.statement().body.outlives_author()
                && now.since(own.stated_at) >= self.attachment / ATTACHMENT_PARTS
        };
        let old: Vec<Guid> = self.own.iter().filter(is_old).map(|(guid, _)| *guid).collect();
        old.iter().for_each(|guid| self.send_again(now, guid));
    }
    /// Puts a record again, in a newer version.
    fn send_again(&mut self, now: Time, guid: &Guid) {
        let Some(own) = self.own.get(guid) else { return };
        let (mut statement, deleted) = (own.record.statement().clone(), own.deleted);
        self.version += 1;
        statement.version = self.version;
        if let RecordBody::Content(_) = statement.body {
            self.count_scopes(now, &statement, true);
        }
        self.sign(now, statement, deleted);
    }
    fn sign(&mut self, now: Time, mut statement: Statement, deleted: bool) {
        statement.ends = self.identity.as_ref().map(|identity| identity.time_of_day(now).after(statement.body.span()));
        let Ok(record) = NameRecord::sign(statement, &self.key) else { return };
        let guid = record.guid();
        let places = record.places().to_vec();
        if let Some(own) = self.own.get(&guid) {
            let old = (own.kept, own.deleted, own.record.statement().version, own.record.places().to_vec());
            if let RecordBody::Content(_) = own.record.statement().body {
                let statement = own.record.statement().clone();
                self.count_scopes(now, &statement, false);
            }
            let (kept, was_deleted, version, old_places) = old;
            for (_, place) in old_places.iter().enumerate().filter(|(at, _)| kept & (1 << at) != 0 && !was_deleted) {
                self.count(&guid, place, version, false);
            }
        }
        self.own.insert(guid, Own { record, deleted, stated_at: now, kept: 0, replicas: u8::MAX });
        let renew_at = now + self.lease() / 3;
        if renew_at < self.renew_at {
            self.renew_at = renew_at;
            self.look(renew_at);
        }
        places.into_iter().for_each(|place| self.wait(guid, place));
        self.send_waiting(now);
    }
    /// Queues a put behind the others, so that an unanswered one blocks none; the device's location goes first, since
    /// chunks wait for it.
    fn wait(&mut self, guid: Guid, place: Guid) {
        match self.is_urgent(&guid) {
            true => self.waiting.push_front((guid, place)),
            false => self.waiting.push_back((guid, place)),
        }
    }
    /// Adds a record to, or removes it from, those that the service should hold.
    fn count(&mut self, guid: &Guid, place: &Guid, version: u64, is_in: bool) {
        let bucket = bucket_of(place);
        let holding = self.holdings.entry(bucket).or_insert(Holding { bucket, ..Holding::default() });
        let mark = mark(place, guid, version);
        if is_in {
            holding.add(mark)
        } else {
            holding.remove(mark)
        }
        if holding.count == 0 {
            self.holdings.remove(&bucket);
        }
    }
    /// A content is added or withdrawn, which changes the records of the scopes above it.
    fn count_scopes(&mut self, now: Time, statement: &Statement, is_in: bool) {
        let RecordBody::Content(manifest) = &statement.body else { return };
        let Ok(manifest) = tributary_content::Manifest::decode(manifest) else { return };
        for scope in self.scopes.count(&manifest.name, &statement.readers, is_in) {
            let known = self.own.get(&Guid::of_scope(&scope)).filter(|own| !own.deleted);
            let readers = self.scopes.readers(&scope);
            if known.map(|own| &own.record.statement().readers) == readers.as_ref() {
                continue;
            }
            let body = match readers {
                Some(_) => RecordBody::Scope { name: scope },
                None => RecordBody::ScopeGone { name: scope },
            };
            let deleted = readers.is_none();
            let statement = self.statement(body, readers.unwrap_or_default());
            self.sign(now, statement, deleted);
        }
    }
    /// Sends queued puts as far as the limit allows.
    fn send_waiting(&mut self, now: Time) {
        self.renew_postponed(now);
        while self.reachable && self.puts_open < self.puts_max && self.puts_paused_until <= now {
            let Some((guid, place)) = self.waiting.front().copied() else { break };
            // A bucket with constant puts would never be renewed, and its records would expire: all contents of a scope
            // are in one bucket. Only the device's location does not wait for that.
            if !self.postponed.is_empty() && !self.is_urgent(&guid) {
                break;
            }
            self.waiting.pop_front();
            self.send_put(now, guid, place);
        }
    }
    fn is_urgent(&self, guid: &Guid) -> bool {
        self.own.get(guid).is_some_and(|own| matches!(own.record.statement().body, RecordBody::Device(_)))
    }
    /// Renews the buckets left out of a renewal once no put is open.
    fn renew_postponed(&mut self, now: Time) {
        if self.reachable && !self.postponed.is_empty() && self.puts_open == 0 && !self.is_renewing() {
            let postponed = core::mem::take(&mut self.postponed);
            self.send_renewals(now, Some(&postponed));
        }
    }
    fn send_put(&mut self, now: Time, guid: Guid, place: Guid) {
        // It may have been put in between, or withdrawn.
        let Some(own) = self.own.get(&guid).filter(|own| own.bit(&place) & !own.kept != 0) else { return };
        let (record, version) = (own.record.encode(), own.record.statement().version);
        let request = self.number();
        self.puts_open += 1;
        self.open(now, request, What::Put { guid, place, version });
        self.outbox.push_back(NameMessage::Put { request, place, record });
    }
    /// The service was too busy for a put: it is put again soon, with fewer in parallel.
    fn on_busy(&mut self, now: Time, request: u32) {
        let Some(What::Put { guid, place, .. }) = self.close(request, |what| matches!(what, What::Put { .. })) else {
            return;
        };
        self.puts_open -= 1;
        self.waiting.push_front((guid, place));
        // Simultaneous refusals count once.
        if self.puts_paused_until <= now {
            self.puts_max = (self.puts_max / 2).max(1);
            self.puts_paused_until = now + PUTS_PAUSE;
            self.look(self.puts_paused_until);
        }
    }
    /// Removes an open put; `None` if there is none or a newer record exists.
    fn close_put(&mut self, now: Time, request: u32) -> Option<(Guid, Guid)> {
        let Some(What::Put { guid, place, version }) = self.close(request, |what| matches!(what, What::Put { .. }))
        else {
            return None;
        };
        self.puts_open -= 1;
        self.send_waiting(now);
        self.own.get(&guid).filter(|own| own.record.statement().version == version).map(|_| (guid, place))
    }
    /// Renews all records of this node.
    fn send_renewal(&mut self, now: Time) {
        self.renew_at = now + self.lease() / 3;
        self.look(self.renew_at);
        self.say_attachments_again(now);
        self.waiting.extend(core::mem::take(&mut self.refused));
        self.send_end(now);
        self.send_renewals(now, None);
        self.send_waiting(now);
    }
    /// Sends the records that replicas should hold in these buckets or (`None`) all. Buckets with open puts are renewed
    /// later: their content is not settled, and every mismatch would be put again.
    fn send_renewals(&mut self, now: Time, only: Option<&BTreeSet<u16>>) {
        self.postponed_at = Time::MAX;
        if only.is_none() {
            self.postponed.clear();
        }
        let busy = self.busy_buckets();
        let wanted = self.holdings.values().filter(|it| only.is_none_or(|only| only.contains(&it.bucket)));
        let (later, holdings): (Vec<Holding>, Vec<Holding>) = wanted.copied().partition(|it| busy.contains(&it.bucket));
        self.postpone(now, later.iter().map(|holding| holding.bucket));
        if holdings.is_empty() {
            return;
        }
        let (request, lease_ms) = (self.number(), self.lease_ms());
        let stated = holdings.iter().map(|holding| (holding.bucket, *holding)).collect();
        self.open.retain(|_, open| !matches!(open.what, What::Renewal { .. }));
        self.open(now, request, What::Renewal { stated });
        let author = Guid::of(&self.key.public(), &[]);
        self.outbox.push_back(NameMessage::Renew { request, author, lease_ms, holdings });
    }
    fn postpone(&mut self, now: Time, buckets: impl Iterator<Item = u16>) {
        self.postponed.extend(buckets);
        if !self.postponed.is_empty() {
            self.postponed_at = now + POSTPONED;
            self.look(self.postponed_at);
        }
    }
    fn busy_buckets(&self) -> BTreeSet<u16> {
        let puts = self.open.values().filter_map(|open| match &open.what {
            What::Put { place, .. } => Some(bucket_of(place)),
            _ => None,
        });
        puts.collect()
    }
    /// A replica holds something else in these buckets, perhaps because it has just changed.
    fn on_missing(&mut self, now: Time, stated: &BTreeMap<u16, Holding>, missing: &[u16]) {
        let busy = self.busy_buckets();
        let is_settled = |bucket: &u16| !busy.contains(bucket) && self.holdings.get(bucket) == stated.get(bucket);
        let (again, later): (Vec<u16>, Vec<u16>) = missing.iter().partition(|bucket| is_settled(bucket));
        self.postpone(now, later.into_iter());
        if !again.is_empty() {
            self.put_again(now, &again);
        }
    }
    /// Replicas hold something else in these buckets: all their records are put again.
    fn put_again(&mut self, now: Time, buckets: &[u16]) {
        let mut again = Vec::new();
        for (guid, own) in self.own.iter_mut().filter(|(_, own)| !own.deleted) {
            for (at, place) in own.record.places().iter().enumerate() {
                if own.kept & (1 << at) != 0 && buckets.binary_search(&bucket_of(place)).is_ok() {
                    own.kept &= !(1 << at);
                    again.push((*guid, *place, own.record.statement().version));
                }
            }
        }
        for (guid, place, version) in again {
            self.count(&guid, &place, version, false);
            self.waiting.push_back((guid, place));
        }
        self.send_waiting(now);
    }
    fn send_watch(&mut self, now: Time, place: Guid) {
        if !self.reachable {
            return;
        }
        let (request, lease) = (self.number(), self.lease());
        let lease_ms = u32::try_from(lease.as_millis()).unwrap_or(u32::MAX);
        let watched = self.watches.entry(place).or_default();
        watched.renew_at = now + lease / 3;
        let known = digest(watched.known.iter().map(|(key, record)| (*key, record.statement().version)));
        self.outbox.push_back(NameMessage::Watch { request, place, lease_ms, known });
        self.look(now + lease / 3);
    }
    /// Looks a place up, or asks for the next page of a watched one.
    fn ask(&mut self, now: Time, place: Guid, after: Option<RecordKey>, tries: u32) {
        let request = self.number();
        let is_page =
            |what: &What| matches!(what, What::Lookup { place: known, after: Some(_), .. } if *known == place);
        self.open.retain(|_, open| after.is_none() || !is_page(&open.what));
        self.open(now, request, What::Lookup { place, after, tries });
        if self.reachable {
            self.outbox.push_back(match after {
                Some(after) => NameMessage::Next { request, place, after },
                None => NameMessage::Lookup { request, place },
            });
        }
    }
    fn open(&mut self, now: Time, request: u32, what: What) {
        self.open.insert(request, Open { due: now + self.patience, what });
        self.look(now + self.patience);
    }
    /// Ends an open request if it is one of these.
    fn close(&mut self, request: u32, is_it: impl Fn(&What) -> bool) -> Option<What> {
        self.open.extract_if(request..=request, |_, open| is_it(&open.what)).next().map(|(_, open)| open.what)
    }
    fn is_renewing(&self) -> bool {
        self.open.values().any(|open| matches!(open.what, What::Renewal { .. }))
    }
    /// Makes [`GnrsClient::handle_timeout`] check everything at this time.
    fn look(&mut self, at: Time) {
        self.due = self.due.min(at);
    }
    /// Finds when something is due next.
    fn set_due(&mut self) {
        let open = self.open.values().map(|open| open.due);
        let own = Some(self.renew_at.min(self.postponed_at)).filter(|_| self.reachable);
        let watches = self.watches.values().map(|watched| watched.renew_at).filter(|_| self.reachable);
        let puts = Some(self.puts_paused_until).filter(|_| self.reachable && !self.waiting.is_empty());
        let puts = puts.filter(|until| *until > Time::ZERO && self.puts_open < self.puts_max);
        self.due = open.chain(own).chain(watches).chain(puts).min().unwrap_or(Time::MAX);
    }
    fn authentic(&self, now: Time, place: Guid, records: &[Vec<u8>]) -> Vec<NameRecord> {
        let decoded = records.iter().filter_map(|bytes| NameRecord::decode(bytes).ok());
        let holds = |record: &NameRecord| self.identity.as_ref().is_none_or(|identity| record.holds(identity, now));
        decoded.filter(|record| record.places().contains(&place) && holds(record)).collect()
    }
    fn on_kept(&mut self, guid: Guid, place: Guid, replicas: u8) {
        let Some(own) = self.own.get_mut(&guid) else { return };
        let (bit, version, deleted) = (own.bit(&place), own.record.statement().version, own.deleted);
        if own.kept & bit != 0 {
            return;
        }
        own.kept |= bit;
        own.replicas = own.replicas.min(replicas);
        let (is_kept, replicas) = (own.is_kept(), own.replicas);
        if !deleted {
            self.count(&guid, &place, version, true);
        }
        if is_kept {
            self.answers.push_back(Answer::Kept(guid, replicas));
            if deleted {
                self.own.remove(&guid);
            }
        }
    }
    /// A page of a place's records has arrived.
    fn on_found(
        &mut self,
        now: Time,
        request: u32,
        place: Guid,
        (after, last): (Option<RecordKey>, Option<RecordKey>),
        records: &[Vec<u8>],
    ) {
        // Request 0 is the first answer to a watch.
        let open = self.open.get(&request).map(|open| &open.what);
        let is_of =
            |behind| matches!(open, Some(What::Lookup { place: at, after, .. }) if *at == place && *after == behind);
        let is_lookup = is_of(None);
        if is_lookup || is_of(after) {
            self.open.remove(&request);
        } else if after.is_some() {
            return;
        }
        let records = self.authentic(now, place, records);
        let Some(watched) = self.watches.get_mut(&place) else {
            if is_lookup {
                self.answers.push_back(Answer::Found(place, records));
            }
            return;
        };
        if is_lookup && last.is_none() {
            for record in &records {
                watched.take(now, record);
            }
            return self.answers.push_back(Answer::Found(place, watched.known.values().cloned().collect()));
        }
        watched.replace(now, after, last, &records);
        match last.filter(|last| after.is_none_or(|after| after < *last)) {
            Some(last) => self.ask(now, place, Some(last), 1),
            None => {
                watched.is_answered = true;
                let has_lost = core::mem::take(&mut watched.has_lost);
                self.answers.push_back(Answer::Found(place, watched.known.values().cloned().collect()));
                if has_lost {
                    // Either the watch has ended, or its end was announced in between: the service clarifies.
                    self.send_watch(now, place);
                }
            }
        }
    }
}

/// An attachment is put again after this part (one eighth) of its lifetime.
const ATTACHMENT_PARTS: u32 = 8;
/// Renewals of a record take at most this part (one sixtieth) of a slow link.
const RENEWAL_PARTS: u32 = 60;
/// The longest lifetime on a slow link.
const LIFETIME_MAX: Duration = Duration::from_secs(3_600);

impl NameResolver for GnrsClient {
    fn set_slowness(&mut self, answer_time: Duration, airtime: Duration) {
        self.patience = PATIENCE.max(answer_time);
        self.lifetime = self.lifetime.max((airtime * (3 * RENEWAL_PARTS)).min(LIFETIME_MAX));
    }
    fn put(&mut self, now: Time, body: RecordBody) {
        self.send_record(now, body, false);
    }
    fn set_identity(&mut self, now: Time, identity: &Identity) {
        self.identity = Some(identity.clone());
        self.ends_first = None;
        self.send_end(now);
    }
    fn set_readers(&mut self, now: Time, guid: Guid, readers: Readers) {
        match &readers {
            Readers::All => drop(self.readers.remove(&guid)),
            Readers::Only(_) => drop(self.readers.insert(guid, readers.clone())),
        }
        let differs = |own: &&Own| !own.deleted && own.record.statement().readers != readers;
        if let Some(own) = self.own.get(&guid).filter(differs) {
            self.send_record(now, own.record.statement().body.clone(), false);
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
            RecordBody::Deleted(_)
            | RecordBody::ContentDeleted { .. }
            | RecordBody::Detached { .. }
            | RecordBody::Scope { .. }
            | RecordBody::ScopeGone { .. } => return,
        };
        self.send_record(now, body, true);
    }
    fn lookup(&mut self, now: Time, place: Guid) {
        let known = |open: &Open| matches!(open.what, What::Lookup { place: known, after: None, .. } if known == place);
        if self.open.values().any(known) || self.open.len() >= LOOKUPS_MAX {
            return;
        }
        self.ask(now, place, None, 1);
    }
    fn watch(&mut self, now: Time, place: Guid) {
        let watched = self.watches.entry(place).or_default();
        match watched.is_answered {
            true => self.answers.push_back(Answer::Found(place, watched.known.values().cloned().collect())),
            // A new requester must get everything that earlier ones were sent.
            false => watched.known.clear(),
        }
        self.send_watch(now, place);
    }
    fn is_watched(&self, place: Guid) -> bool {
        self.watches.contains_key(&place)
    }
    fn known(&self, place: Guid) -> Option<usize> {
        let watched = self.watches.get(&place)?;
        // A service that keeps this node's records and returns none for a place has none there.
        let is_served = self.reachable && !self.own.is_empty() && self.puts_open == 0 && self.waiting.is_empty();
        (watched.is_answered || is_served).then_some(watched.known.len())
    }
    fn records(&self, place: Guid) -> Option<Vec<NameRecord>> {
        let watched = self.watches.get(&place).filter(|watched| watched.is_answered)?;
        Some(watched.known.values().cloned().collect())
    }
    fn trouble(&self) -> Option<Refusal> {
        self.trouble
    }
    fn unwatch(&mut self, _: Time, place: Guid) {
        if self.watches.remove(&place).is_some() && self.reachable {
            let request = self.number();
            self.outbox.push_back(NameMessage::Watch { request, place, lease_ms: 0, known: 0 });
        }
    }
    fn on_reachable(&mut self, now: Time) {
        self.reachable = true;
        for open in self.open.values_mut() {
            match &mut open.what {
                What::Lookup { tries, .. } => *tries = tries.saturating_sub(1),
                What::Put { .. } => {}
                What::Renewal { .. } => continue,
            }
            open.due = now;
        }
        (self.due, self.renew_at) = (now, now);
        self.watches.values_mut().for_each(|watched| watched.renew_at = now);
        self.handle_timeout(now);
    }
    fn handle_message(&mut self, now: Time, message: NameMessage) {
        self.trouble = match &message {
            NameMessage::Refused { refusal, .. } if refusal.is_of_engine() => Some(*refusal),
            _ => None,
        };
        match message {
            NameMessage::Done { request, replicas } => {
                self.puts_max = (self.puts_max + 1).min(PUTS_OPEN_MAX);
                if let Some((guid, place)) = self.close_put(now, request) {
                    self.on_kept(guid, place, replicas);
                }
            }
            NameMessage::Stale { request, current } => {
                let newest = self.close_put(now, request);
                self.version = self.version.max(current);
                let Some((guid, _)) = newest else { return };
                if self.own.get(&guid).is_some_and(|own| own.record.statement().version <= current) {
                    self.send_again(now, &guid);
                }
            }
            // Any other request is repeated when its answer is late.
            NameMessage::Refused { request, refusal: Refusal::Busy } => self.on_busy(now, request),
            NameMessage::Refused { request, refusal } => {
                if let Some(key) = self.close_put(now, request) {
                    let holds =
                        |own: &Own| self.identity.as_ref().is_none_or(|identity| own.record.holds(identity, now));
                    if refusal == Refusal::Ended && self.own.get(&key.0).is_some_and(|own| !holds(own)) {
                        // It was signed under another clock time.
                        return self.send_again(now, &key.0);
                    }
                    self.refused.insert(key);
                    self.answers.push_back(Answer::Refused(key.0, refusal));
                } else if refusal == Refusal::Unreachable || refusal.is_of_engine() {
                    self.close(request, |what| matches!(what, What::Renewal { .. }));
                }
            }
            NameMessage::Renewed { request, missing } => {
                if let Some(What::Renewal { stated }) = self.close(request, |it| matches!(it, What::Renewal { .. })) {
                    self.on_missing(now, &stated, &missing);
                    self.send_waiting(now);
                }
            }
            NameMessage::Found { request, place, records } => {
                self.on_found(now, request, place, (None, None), &records)
            }
            NameMessage::Page { request, place, ends, records } => {
                self.on_found(now, request, place, ends, &records);
            }
            NameMessage::Notify { place, record } => {
                let records = self.authentic(now, place, &[record]);
                if let Some(watched) = self.watches.get_mut(&place) {
                    let news = records.into_iter().filter(|record| watched.take(now, record));
                    self.answers.extend(news.map(|record| Answer::Changed(place, Box::new(record))));
                }
            }
            NameMessage::Put { .. }
            | NameMessage::Lookup { .. }
            | NameMessage::Watch { .. }
            | NameMessage::Next { .. }
            | NameMessage::Renew { .. }
            | NameMessage::Many(_) => {}
        }
    }
    fn handle_timeout(&mut self, now: Time) {
        if self.due > now {
            return;
        }
        let late: Vec<(u32, Open)> = self.open.extract_if(.., |_, open| open.due <= now).collect();
        for (_, open) in late {
            match open.what {
                What::Put { guid, place, version } => {
                    self.puts_open -= 1;
                    if self.own.get(&guid).is_some_and(|own| own.record.statement().version == version) {
                        self.wait(guid, place);
                    }
                }
                What::Lookup { place, after, tries } if tries < TRIES => self.ask(now, place, after, tries + 1),
                What::Lookup { place, after: None, .. } => self.answers.push_back(Answer::Found(place, Vec::new())),
                // The renewal of the watch begins with the first page again.
                What::Lookup { .. } => {}
                What::Renewal { .. } => self.renew_at = now,
            }
        }
        self.send_waiting(now);
        if self.reachable {
            if self.renew_at <= now {
                self.send_renewal(now);
            } else if self.postponed_at <= now {
                match self.is_renewing() {
                    true => self.postpone(now, core::iter::empty()),
                    false => {
                        let postponed = core::mem::take(&mut self.postponed);
                        self.send_renewals(now, Some(&postponed));
                    }
                }
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

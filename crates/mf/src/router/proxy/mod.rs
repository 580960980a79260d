//! The transport proxy (paper §3.3): keeps chunks for destinations that are away, and sends them when they are back.
//!
//! ```text
//!   put ──► waiting ──(destination back, pushed, or the storage timer)──► released ──(kept further on)──► gone
//!              ▲                                                             │
//!              └───────────── (link lost, dropped on the way, timeout) ──────┘
//! ```
//! A chunk stays in the store until it is on a disk further on: that of the next router that stores it, or of its
//! receiver (`custody.rs`). So a router that is killed at any moment loses nothing that was acknowledged as stored. A
//! delegated copy, which answers requests for its producer, waits like any other chunk if the chunk itself is blocked,
//! and stays here when the next hop has it. A receiver that has not heard of a delegated object cannot send a NACK: the
//! proxy sends it the manifest again, as the source would if it were awake.
mod custody;
mod entries;
mod head;
mod holding;
mod outputs;
mod reports;
mod retention;
mod shares;
#[cfg(test)]
mod tests;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::{String, ToString},
    vec::Vec,
};

use bytes::Bytes;
use tributary_content::{ObjectId, StoreError};
use tributary_core::{ByteCount, Duration, Time, TimerTable};

pub use tributary_content::{ChunkRepository, Damage, MemoryRepository};

pub(crate) use self::retention::Decision;
pub use self::{
    custody::Place,
    entries::Holding,
    holding::{Kept, ProxyStats, Refused, Release},
};
use self::{
    custody::{Transits, Window},
    entries::{Destination, Waiting},
    head::{decode_head, encode_head},
    reports::{Report, ReportId, Source},
    retention::Terms,
    shares::{FlowState, SourceState},
};
use super::StoreReason;
use crate::{
    config::{ProxyConfig, Rebinding},
    ids::{ChunkKey, Custodian, Flow, Guid, NetworkAddress, ServiceId, Token},
    payload::Payload,
    sender::{REMIND_MAX, is_pushed},
    wire::{ChunkHeader, ChunkRanges, DataTag, Flags},
};

/// Limit of reports that wait.
const REPORTS_MAX: usize = 4_096;
/// How many chunks just accepted by the next hop are remembered, and for how long: a NACK that names them may have been
/// sent before they arrived.
const LATELY_MAX: usize = 4_096;
const LATELY: Duration = Duration::from_secs(3);
/// An unreachable source is tried again after at most this many storage timers.
const REPORT_BACKOFF_MAX: u32 = 64;

/// The proxy of a router; see the [module](self).
#[derive(Default)]
pub struct Proxy {
    config: ProxyConfig,
    /// This node, and its present address.
    pub own: (Guid, NetworkAddress),
    repository: Box<dyn ChunkRepository>,
    chunks: BTreeMap<u64, Holding>,
    keys: BTreeMap<ChunkKey, u64>,
    flows: BTreeMap<Flow, FlowState>,
    /// Flows in eviction order: by the lowest priority of their chunks, then by last use.
    order: BTreeSet<(u8, u64, Flow)>,
    sources: BTreeMap<Guid, SourceState>,
    /// Sources by stored bytes; of equal ones the least recently used comes last.
    largest: BTreeSet<(u64, core::cmp::Reverse<u64>, Guid)>,
    destinations: BTreeMap<Guid, Destination>,
    /// Destinations that may be reachable, and the one after which the next search starts.
    ready: BTreeSet<Guid>,
    tried_last: Guid,
    /// Destinations for which chunks wait that were stored because of routes or queues.
    by_ways: BTreeSet<Guid>,
    /// The storage timers of destinations.
    timers: TimerTable<Guid>,
    transits: Transits,
    deadlines: BTreeSet<(Time, u64)>,
    /// Delegated descriptions by when they are sent to their receivers again.
    reminders: TimerTable<u64>,
    used: u64,
    /// Bytes of the last chunk that did not fit.
    needed: u64,
    next_id: u64,
    clock: u64,
    dirty: bool,
    /// Chunks put since the last commit started, and those of the running commit: their sources are notified when they
    /// are durable.
    uncommitted: Vec<ChunkKey>,
    committing: Option<Vec<ChunkKey>>,
    reports: BTreeMap<ReportId, Report>,
    /// Reports that are long enough to leave before they are due; some may have left.
    full_reports: BTreeSet<ReportId>,
    report_at: Option<Time>,
    /// Durable chunks to report when reports are free, and the next of them.
    untold: BTreeSet<u64>,
    untold_from: u64,
    /// Chunks that the next hop has just accepted, the oldest first.
    lately: VecDeque<(Time, ChunkKey)>,
    terms: Terms,
    /// Storage timers until sources that could not be reached are tried again.
    report_backoff: u32,
    /// Names to start (true) or stop (false) watching.
    pub watches: VecDeque<(Guid, bool)>,
    /// Names to look up because their storage timers are over.
    pub lookups: VecDeque<Guid>,
    /// Transfers kept for less than their lifetime, to be reported to their sources.
    capped: VecDeque<(ChunkKey, Source, Duration)>,
    /// The last failure of the store.
    pub failure: Option<StoreError>,
    /// For a host's outbox: destinations not yet recognised as groups or devices; `None` in a router.
    unrecognised: Option<BTreeSet<Guid>>,
    /// Expired chunks: the object's name or identifier, the destination, and the number.
    pub expired: BTreeMap<(Guid, String), u64>,
    /// Counters.
    pub stats: ProxyStats,
}

impl Proxy {
    /// A proxy with all chunks that an earlier life left in the repository.
    ///
    /// # Errors
    /// [`StoreError`] if the repository cannot be read, with the repository, so that callers can try again.
    pub fn open(
        now: Time,
        config: ProxyConfig,
        own: (Guid, NetworkAddress),
        mut repository: Box<dyn ChunkRepository>,
    ) -> Result<Proxy, (StoreError, Box<dyn ChunkRepository>)> {
        let mut terms = Terms::default();
        let listed = repository.list().and_then(|mut found| {
            // The records have numbers too, which must not be given away again.
            let next_id = found.iter().map(|(id, ..)| id + 1).max().unwrap_or(1);
            let decided = terms.take_from(&mut found, &mut *repository)?;
            Ok((found, next_id, decided))
        });
        let (found, next_id, mut decided) = match listed {
            Ok(listed) => listed,
            Err(error) => return Err((error, repository)),
        };
        let mut proxy = Proxy { config, own, repository, next_id, terms, report_backoff: 1, ..Proxy::default() };
        for (id, head, bytes) in found {
            let Some((delegated, ends_at, header)) = decode_head(&head) else { continue };
            if let Some(key) = header.key() {
                // If the clock was set back, the chunk is kept no longer than if it had just arrived.
                let left = ends_at.map_or(Duration::MAX, |at| at.saturating_sub(proxy.repository.clock()));
                let clock = proxy.repository.clock();
                let decided = decided.remove(&id).map(|term| (term.on_hold, now + term.left_at(clock)));
                let until = now + proxy.lifetime(&header).min(left);
                let source = Source::of(&header);
                // After a restart it is unknown whether the next hop has a delegated copy's chunk. A copy for a group
                // only answers requests: it is not forwarded.
                let is_for_group = header.is_for_group() && delegated;
                proxy.add((now, until), id, header, key, bytes, StoreReason::Away, delegated);
                if key.number == 0
                    && let Ok(payload) = proxy.repository.read(id)
                {
                    proxy.note_name(id, &payload);
                }
                // It may have left in an earlier life.
                proxy.chunks.entry(id).and_modify(|stored| (stored.durable, stored.sends) = (true, 1));
                decided.into_iter().for_each(|(on_hold, until)| proxy.set_term(id, on_hold, until));
                proxy.notify_previous(id);
                if !is_for_group {
                    proxy.take_back(id, StoreReason::Away);
                }
                proxy.stats.restored += 1;
                // The node may have been killed before it reported the chunk.
                proxy.report(now, key, source, true);
            }
        }
        Ok(proxy)
    }

    // Inputs.

    /// Makes this a host's outbox: its chunks leave whenever there is an access router, regardless of the destination's
    /// address.
    pub fn be_outbox(&mut self) {
        let unrecognised = self.chunks.values().filter(|stored| stored.header.service != ServiceId::Multicast);
        self.unrecognised = Some(unrecognised.map(|stored| stored.key.flow.destination).collect());
        let waiting =
            self.destinations.values().flat_map(|destination| destination.waiting.iter().map(|entry| entry.3));
        for id in waiting.collect::<Vec<u64>>() {
            self.take_back(id, StoreReason::NoRoute);
        }
    }
    /// The outbox's destinations not yet recognised as groups or devices.
    pub fn unrecognised(&self) -> Vec<Guid> {
        self.unrecognised.iter().flatten().copied().collect()
    }
    /// An outbox's destination was recognised as a group or a device: its chunks leave accordingly.
    pub fn recognise(&mut self, guid: &Guid, is_group: bool) {
        self.unrecognised.iter_mut().for_each(|unrecognised| _ = unrecognised.remove(guid));
        let ids =
            self.destinations.get(guid).map(|known| known.waiting.iter().map(|entry| entry.3).collect::<Vec<u64>>());
        for id in ids.into_iter().flatten() {
            let Some(stored) = self.chunks.get_mut(&id) else { continue };
            stored.header.service = stored.header.service.for_group(is_group);
        }
        self.ready.insert(*guid);
    }
    /// Stores a chunk. It replaces an older copy if it answers a request that bypasses copies ([`Flags::NO_CACHE`]). It
    /// is durable after the next commit.
    ///
    /// # Errors
    /// [`Refused`] gives the reason. No chunk is evicted for a flow or a source that has reached its share, or for a
    /// chunk of lower priority; one of equal priority only if its source has more in store than the newcomer's would
    /// have.
    pub fn put(&mut self, now: Time, header: &ChunkHeader, payload: &Payload, why: Kept) -> Result<(), Refused> {
        let Some(key) = header.key().filter(|_| self.config.enabled) else { return Err(Refused::Broken) };
        let bytes = payload.len() as u64 + CHUNK_OVERHEAD_BYTES;
        let mut decided = None;
        if header.flags.contains(Flags::NO_CACHE)
            && let Some(id) = self.keys.get(&key).copied()
            && self.chunks.get(&id).is_some_and(|stored| stored.place == Place::Here)
        {
            let stored = self.chunks.get(&id).filter(|_| self.terms.has(id));
            decided = stored.map(|stored| (stored.on_hold, stored.until));
            self.remove(id);
        }
        if let Some(id) = self.keys.get(&key).copied() {
            self.stats.duplicates += 1;
            if let Kept::For(reason) = why {
                self.take_back(id, reason);
            }
            self.on_come_again(id, header);
            self.uncommitted.push(key);
            return Ok(());
        }
        let flow_bytes = self.flows.get(&key.flow).map_or(0, |flow| flow.bytes);
        let source_bytes = self.sources.get(&key.flow.source).map_or(0, |source| source.bytes);
        let destination_bytes = self.destinations.get(&key.flow.destination).map_or(0, |destination| destination.bytes);
        let ProxyConfig { capacity, flow_capacity, source_capacity, destination_capacity, .. } = self.config;
        // A share as large as the store is no limit: the store's capacity applies.
        let exceeds = |share: ByteCount, held: u64| share < capacity && held + bytes > share.0;
        let has_share = exceeds(flow_capacity, flow_bytes) || exceeds(source_capacity, source_bytes);
        if has_share || exceeds(destination_capacity, destination_bytes) {
            self.stats.refused += 1;
            return Err(Refused::ShareFull);
        }
        while self.used + bytes > capacity.0 {
            let Some(victim) = self.victim(&key.flow, header.priority, source_bytes + bytes) else {
                self.needed = bytes;
                return Err(Refused::Full);
            };
            self.stats.evicted += 1;
            self.drop_stored(now, victim);
        }
        let (reason, delegated) = match why {
            Kept::For(reason) => (reason, false),
            Kept::Delegated => (StoreReason::Away, true),
        };
        let id = self.next_id;
        let lifetime = self.lifetime(header);
        if u64::from(header.lifetime_ms) > lifetime.as_millis() as u64
            && key.number == 0
            && self.capped.len() < REPORTS_MAX
        {
            self.capped.push_back((key, Source::of(header), lifetime));
        }
        let head = encode_head(delegated, self.repository.clock().saturating_add(lifetime), header);
        if let Err(error) = self.repository.put(id, &head, payload.pieces()) {
            self.failure = Some(error);
            return Err(Refused::Broken);
        }
        self.next_id += 1;
        self.dirty = true;
        self.stats.stored += 1;
        let span = (now, now + lifetime);
        self.add(span, id, header.clone(), key, bytes - CHUNK_OVERHEAD_BYTES, reason, delegated);
        if key.number == 0 {
            self.note_name(id, &payload.to_bytes());
        }
        if let Some((on_hold, until)) = decided {
            self.set_term(id, on_hold, until);
            self.keep_term(now, id);
        }
        self.uncommitted.push(key);
        Ok(())
    }
    /// Starts to make puts and removals durable; only then may they be acknowledged. True if a commit was started, or
    /// nothing was left to commit; false while one runs.
    ///
    /// # Errors
    /// [`StoreError`] if that fails; the puts since the last commit are lost then.
    pub fn begin_commit(&mut self) -> Result<bool, StoreError> {
        if self.committing.is_some() {
            return Ok(false);
        }
        let keys = core::mem::take(&mut self.uncommitted);
        if core::mem::take(&mut self.dirty)
            && let Err(error) = self.put_terms().and_then(|()| self.repository.commit())
        {
            self.on_terms_failed();
            self.forget_unless_durable(keys);
            return Err(error);
        }
        self.committing = Some(keys);
        Ok(true)
    }
    /// Whether anything was put or removed since the last commit started.
    pub fn has_uncommitted(&self) -> bool {
        self.dirty || !self.uncommitted.is_empty()
    }
    /// Whether no commit runs anymore; sources are notified of chunks that are now durable.
    ///
    /// # Errors
    /// [`StoreError`] if the commit failed; its puts are lost then.
    pub fn poll_commit(&mut self, now: Time) -> Result<bool, StoreError> {
        if self.committing.is_none() {
            return Ok(true);
        }
        match self.repository.is_committed() {
            Ok(false) => Ok(false),
            Ok(true) => {
                self.on_terms_committed();
                let keys = self.committing.take().unwrap_or_default();
                // Chunks dropped since then have been reported already.
                for key in keys {
                    if let Some((id, stored)) = self.keys.get(&key).and_then(|id| Some((*id, self.chunks.get_mut(id)?)))
                    {
                        stored.durable = true;
                        let source = Source::of(&stored.header);
                        self.report(now, key, source, true);
                        self.notify_previous(id);
                    }
                }
                Ok(true)
            }
            Err(error) => {
                self.on_terms_failed();
                let keys = self.committing.take().unwrap_or_default();
                self.forget_unless_durable(keys);
                Err(error)
            }
        }
    }
    /// How often to poll a commit that runs; `None` if the repository wakes the node.
    pub fn commit_poll_interval(&self) -> Option<Duration> {
        self.repository.poll_interval()
    }
    /// The destination is attached, or bound to an address: its waiting chunks may leave, if this proxy watches
    /// bindings.
    pub fn on_reachable(&mut self, guid: &Guid) {
        if self.config.rebinding == Rebinding::Watch && self.destinations.contains_key(guid) {
            self.ready.insert(*guid);
        }
    }
    /// Routes have changed: unreachable sources are tried again, and chunks that lacked a route may leave.
    pub fn on_ways(&mut self, now: Time) {
        if !self.reports.is_empty() {
            self.report_at = self.report_at.map(|at| at.min(now + self.config.report_delay));
        }
        self.wake_lost();
        self.on_change();
    }
    /// Routes or queues have changed: chunks stored because of them may leave.
    pub fn on_change(&mut self) {
        self.ready.extend(&self.by_ways);
    }
    /// A neighbour, `via`, has a released chunk in its memory. A chunk without custody is removed then.
    pub fn on_delivered(&mut self, now: Time, key: &ChunkKey, token: Token, via: Guid) {
        let Some(id) = self.keys.get(key).copied() else { return };
        let kept = self.chunks.get(&id).filter(|stored| self.keeps_custody(&stored.header));
        if let Some(stored) = kept {
            if stored.has(token) {
                self.on_taken_on(now, id, via);
            }
            return;
        }
        let is_old = |(at, _): &(Time, ChunkKey)| now.since(*at) >= LATELY;
        while self.lately.len() >= LATELY_MAX || self.lately.front().is_some_and(is_old) {
            self.lately.pop_front();
        }
        self.lately.push_back((now, *key));
        match self.chunks.get_mut(&id).filter(|stored| stored.has(token)) {
            // A delegated copy stays until its lifetime is over.
            Some(stored) if stored.delegated => (stored.place, stored.owed) = (Place::Here, false),
            Some(_) => {
                self.stats.delivered += 1;
                self.remove(id);
            }
            None => {}
        }
    }
    /// A chunk that may be stored passes, retransmitted by its source: that one is forwarded, and the stored one
    /// follows only if it is lost. Returns the custodian of both, if that is this proxy.
    pub fn on_passing(&mut self, now: Time, key: &ChunkKey, token: Token) -> Option<Custodian> {
        let id = self.keys.get(key).copied()?;
        let is_same = |stored: &&Holding| stored.owed && stored.has(token);
        let stored = self.chunks.get(&id).filter(is_same)?;
        let keeps = self.keeps_custody(&stored.header);
        self.leave_rest(id);
        self.on_released(now, id);
        self.unwait(id);
        keeps.then(|| self.custodian())
    }
    /// A released chunk was lost in transit: it waits again.
    pub fn on_lost(&mut self, key: &ChunkKey) {
        if let Some(id) = self.keys.get(key).copied() {
            self.take_back(id, StoreReason::Away);
        }
    }
    /// A chunk can never be forwarded from here: it is dropped.
    pub fn on_stuck(&mut self, now: Time, key: &ChunkKey) {
        if let Some(id) = self.keys.get(key).copied() {
            self.drop_stored(now, id);
        }
    }
    /// The source requests that chunks are sent now (paper: Push), or the receiver reports them missing. Returns those
    /// that are not stored, and were not until a moment ago, or that have another token.
    pub fn handle_push(
        &mut self,
        now: Time,
        token: Token,
        flow: &Flow,
        transfer: u32,
        object: ObjectId,
        chunks: &ChunkRanges,
    ) -> ChunkRanges {
        let description = self.keys.get(&ChunkKey { flow: *flow, object, transfer, number: 0 }).copied();
        if let Some(id) = description.filter(|id| self.chunks.get(id).is_some_and(|stored| stored.has(token))) {
            // Its receiver knows the object, and requests what it needs again.
            self.remind_after(now, id, REMIND);
        }
        let key = |number| ChunkKey { flow: *flow, object, transfer, number };
        let named = chunks.runs().iter().flat_map(|(first, count)| self.keys.range(key(*first)..key(first + count)));
        let is_meant = |id: &u64| self.chunks.get(id).is_some_and(|stored| stored.has(token));
        let here: Vec<(u32, u64)> = named.filter(|(_, id)| is_meant(id)).map(|(key, id)| (key.number, *id)).collect();
        for (_, id) in &here {
            if !self.is_missed(now, *id) {
                continue;
            }
            let Some(stored) = self.chunks.get(id) else { continue };
            let reason = stored.reason;
            self.take_back(*id, reason);
            self.ready.insert(flow.destination);
        }
        let is_late = |(at, known): &&(Time, ChunkKey)| now.since(*at) < LATELY && key(known.number) == *known;
        let lately = self.lately.iter().filter(is_late).map(|(_, known)| known.number);
        let numbers: BTreeSet<u32> = here.into_iter().map(|(number, _)| number).chain(lately).collect();
        chunks.without(numbers)
    }
    /// All of a transfer has arrived, according to a message with its token: its copies are removed.
    pub fn on_complete(&mut self, token: Token, flow: &Flow, transfer: u32, object: ObjectId) {
        let range = ChunkKey { flow: *flow, object, transfer, number: 0 }..=ChunkKey {
            flow: *flow,
            object,
            transfer,
            number: u32::MAX,
        };
        let is_meant = |id: &u64| self.chunks.get(id).is_some_and(|stored| stored.has(token));
        let ids: Vec<u64> = self.keys.range(range).map(|(_, id)| *id).filter(is_meant).collect();
        ids.into_iter().for_each(|id| self.remove(id));
    }
    /// Drops chunks by the operator's command, except those on hold; their sources are notified as at the end of a
    /// lifetime. Returns the number dropped.
    pub fn purge(&mut self, now: Time, keys: &[ChunkKey]) -> u64 {
        let ids = keys.iter().filter_map(|key| self.keys.get(key).copied());
        let ids: Vec<u64> = ids.filter(|id| self.chunks.get(id).is_some_and(|stored| !stored.on_hold)).collect();
        ids.iter().for_each(|id| self.drop_stored(now, *id));
        self.stats.purged += ids.len() as u64;
        ids.len() as u64
    }
    /// Runs the timers that are due: lifetimes, storage timers.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((_, id)) = self.deadlines.first().copied().filter(|(until, _)| *until <= now) {
            self.stats.expired += 1;
            self.note_expired(id);
            self.drop_stored(now, id);
        }
        while let Some(id) = self.reminders.pop_due(now) {
            let Some(stored) = self.chunks.get(&id) else { break };
            let (to, is_idle) = (stored.key.flow.destination, !stored.owed && stored.place == Place::Here);
            let after = stored.remind_after.unwrap_or(REMIND);
            self.remind_after(now, id, (after * 2).min(REMIND_MAX));
            if is_idle {
                self.stats.reminded += 1;
                self.take_back(id, StoreReason::Away);
                self.ready.insert(to);
            }
        }
        self.custody_timeout(now);
        while let Some(guid) = self.timers.pop_due(now) {
            let Some(destination) = self.destinations.get(&guid) else { continue };
            self.timers.set(guid, now + self.config.timer);
            if !destination.waiting.is_empty() && self.config.rebinding != Rebinding::Never {
                self.ready.insert(guid);
                self.lookups.push_back(guid);
            }
        }
    }

    // Questions.

    /// All chunks.
    pub fn holdings(&self) -> impl Iterator<Item = &Holding> {
        self.chunks.values()
    }
    /// The name of a chunk's object, if its manifest is stored.
    pub fn name_of(&self, key: &ChunkKey) -> Option<&str> {
        let head = self.keys.get(&ChunkKey { number: 0, ..*key })?;
        self.chunks.get(head)?.name.as_deref()
    }
    /// Whether a chunk is stored.
    pub fn has(&self, key: &ChunkKey) -> bool {
        self.keys.contains_key(key)
    }
    /// Reads a chunk, which stays.
    pub fn copy(&mut self, now: Time, key: &ChunkKey) -> Option<(ChunkHeader, Bytes)> {
        let id = *self.keys.get(key)?;
        let header = self.chunks.get(&id)?.header.clone();
        match self.repository.read(id) {
            Ok(payload) => Some((header, payload)),
            Err(error) => {
                if !matches!(error, StoreError::Later { .. }) {
                    self.drop_stored(now, id);
                }
                self.failure = Some(error);
                None
            }
        }
    }
    /// Whether chunks are stored for a destination.
    pub fn holds_for(&self, guid: &Guid) -> bool {
        self.destinations.contains_key(guid)
    }
    /// The stored chunks of a transfer that wait for a destination.
    pub fn waiting_for(&self, guid: &Guid, object: ObjectId, transfer: u32) -> impl Iterator<Item = &DataTag> {
        let range = (object, transfer, 0, 0)..=(object, transfer, u32::MAX, u64::MAX);
        let waiting = self.destinations.get(guid).into_iter().flat_map(move |to| to.waiting.range(range.clone()));
        waiting.filter_map(|(.., id)| self.chunks.get(id)?.header.tag())
    }
    /// Whether delegated copies of this flow are stored.
    pub fn answers_for(&self, flow: &Flow) -> bool {
        self.flows.get(flow).is_some_and(|state| state.delegated > 0)
    }
    /// Bytes in use and bytes allowed.
    pub fn usage(&self) -> (ByteCount, ByteCount) {
        (ByteCount(self.used), self.config.capacity)
    }
    /// What its repository has found damaged.
    pub fn damage(&self) -> Damage {
        self.repository.damage()
    }
    /// Free capacity in percent; 0 while a chunk as large as the last one that was refused would be refused again.
    pub fn free_percent(&self) -> u8 {
        let capacity = self.config.capacity.0.max(1);
        match capacity.saturating_sub(self.used) {
            free if free < self.needed => 0,
            free => (free * 100 / capacity).min(100) as u8,
        }
    }

    // Private.

    /// A chunk has expired: it is reported if it was still to be forwarded.
    fn note_expired(&mut self, id: u64) {
        let Some(stored) = self.chunks.get(&id).filter(|stored| stored.owed) else { return };
        let name = self.name_of(&stored.key).map_or_else(|| stored.key.object.to_string(), String::from);
        let key = (stored.key.flow.destination, name);
        if self.expired.len() < EXPIRED_NOTED_MAX || self.expired.contains_key(&key) {
            *self.expired.entry(key).or_default() += 1;
        }
    }
    /// How long a chunk is kept that has just arrived.
    fn lifetime(&self, header: &ChunkHeader) -> Duration {
        match header.lifetime_ms {
            0 if !header.tag().is_some_and(|tag| is_pushed(tag.transfer)) => {
                self.config.lifetime.min(REQUESTED_LIFETIME)
            }
            0 => self.config.lifetime,
            wanted => Duration::from_millis(u64::from(wanted)).min(self.config.lifetime),
        }
    }
}

/// How long chunks of a fetch are kept: a receiver that is away for longer requests them again when it is back.
const REQUESTED_LIFETIME: Duration = Duration::from_secs(3_600);
/// Maximum objects whose expiry is recorded individually between two reports.
const EXPIRED_NOTED_MAX: usize = 64;
/// A chunk's overhead beyond its payload: header and index entries.
pub const CHUNK_OVERHEAD_BYTES: u64 = 512;
/// A silent receiver is sent the description of a delegated object again after this time, as by a source that is awake;
/// the time doubles up to [`REMIND_MAX`].
const REMIND: Duration = Duration::from_secs(12);

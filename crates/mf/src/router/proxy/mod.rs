//! The transport proxy (paper §3.3): keeps chunks for destinations that are away, and sends them when they are back.
//!
//! ```text
//!   put ──► waiting ──(destination back, pushed, or the storage timer)──► released ──(kept further on)──► gone
//!              ▲                                                             │
//!              └───────────── (link lost, dropped on the way, timeout) ──────┘
//! ```
//! A chunk stays in the store until it is on a disk further on: that of the next router that stores it, or of its
//! receiver (`custody.rs`). So a router that is killed at any moment loses nothing that was acknowledged as stored.
//! A copy that is kept to answer for its producer waits like any other if the chunk
//! itself can go no further; it stays when the next hop has it. A receiver that has heard nothing of what was delegated
//! cannot say that it is missing: it is sent the description again from here, as its source would if it were awake.
mod custody;
mod outputs;
#[cfg(test)]
mod tests;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};

use bytes::Bytes;
use tributary_content::{ObjectId, StoreError};
use tributary_core::{ByteCount, Duration, Time};

pub use tributary_content::{ChunkRepository, Damage, MemoryRepository};

use self::custody::{Place, Transits, Window};
use super::StoreReason;
use crate::{
    config::{ProxyConfig, Rebinding},
    ids::{ChunkKey, Custodian, Flow, Guid, NetworkAddress, ServiceId, Token},
    payload::Payload,
    sender::{REMIND_MAX, is_pushed},
    wire::{ChunkHeader, ChunkRanges, DataTag, Flags},
};

/// Reports of so many chunks, or of half a window that is stored, go out before their delay is over.
const REPORT_CHUNKS: usize = 1_024;
/// Reports that wait at most.
const REPORTS_MAX: usize = 4_096;
/// Chunks of which it is remembered that the next hop has just taken them, and for how long: who says that they are missing
/// may not have had them yet.
const LATELY_MAX: usize = 4_096;
const LATELY: Duration = Duration::from_secs(3);
/// For how many storage timers at most it is not tried again to tell a source that could not be reached.
const REPORT_BACKOFF_MAX: u32 = 64;

/// Sources that are looked at at most for one that makes room, from the one with most in store.
const SOURCES_TRIED: usize = 64;

/// Why a chunk was not stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Its flow, or its source, has as much in store as it may have.
    ShareFull,
    /// The store is full of chunks that are not less important, of sources that have no more here than its own.
    Full,
    /// There is no storage here, or it failed.
    Broken,
}

/// Whether a chunk may leave the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Release {
    /// Now.
    Now,
    /// When there is room.
    Later,
    /// Its destination is still away.
    Away,
    /// Its destination is not there for its source; it may be for others.
    Hidden,
}

/// One stored chunk, for people.
#[derive(Clone, PartialEq, Debug)]
pub struct Holding {
    /// Which chunk, from whom to whom.
    pub key: ChunkKey,
    /// Its length.
    pub bytes: ByteCount,
    /// Its priority.
    pub priority: u8,
    /// Since when.
    pub since: Time,
    /// Until when at most.
    pub until: Time,
    /// Why it is here.
    pub reason: StoreReason,
    /// Whether it is a copy that is kept to answer for its producer.
    pub delegated: bool,
    /// Whether it is to leave: a copy may be here only to answer from.
    pub owed: bool,
    /// Where it is.
    pub state: HoldingState,
    /// Whether it outlives the node: it has been acknowledged, or may be.
    pub durable: bool,
}

/// Where a chunk is that is kept until somebody further on has it on a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HoldingState {
    /// It waits for a way, or its turn.
    Waiting,
    /// It was refused or lost, and is tried again later.
    Resting,
    /// It is in the queues of this router, or on its link.
    Leaving,
    /// A neighbour has it in its memory, since then.
    InTransit {
        /// The neighbour.
        to: Guid,
        /// When it took it on.
        since: Time,
    },
}

/// Counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProxyStats {
    /// Chunks stored.
    pub stored: u64,
    /// Chunks that were in store already.
    pub duplicates: u64,
    /// Chunks that are on a disk further on.
    pub delivered: u64,
    /// Chunks sent again as nobody said in time that they are on a disk.
    pub timeouts: u64,
    /// Chunks for which there was no room further on.
    pub refusals: u64,
    /// Chunks that were dropped further on.
    pub lost: u64,
    /// Chunks that had to go for others.
    pub evicted: u64,
    /// Chunks whose lifetime was over.
    pub expired: u64,
    /// Chunks that were not stored because their flow or their source had enough.
    pub refused: u64,
    /// Chunks found in the store at the start.
    pub restored: u64,
    /// Descriptions that were sent again to receivers who had said nothing.
    pub reminded: u64,
    /// Reports of dropped chunks that were not made, as there were too many: their receivers say what is missing.
    pub untold: u64,
}

struct Stored {
    header: ChunkHeader,
    key: ChunkKey,
    bytes: u64,
    since: Time,
    until: Time,
    reason: StoreReason,
    delegated: bool,
    /// Whether the next hop is to get it from here; of a copy it may have come by itself.
    owed: bool,
    place: Place,
    /// Whether it was refused or lost, and is not tried now.
    rests: bool,
    /// How often it has left.
    sends: u32,
    /// Whether a commit has made it so.
    durable: bool,
    /// When it goes to its receiver again, which may know nothing of it and then cannot ask, and after how long the next
    /// time.
    remind: Option<(Time, Duration)>,
}

impl Stored {
    /// Whether its transfer has that token.
    fn has(&self, token: Token) -> bool {
        self.header.token() == Some(token)
    }
}

/// Whom to tell of a chunk.
#[derive(Clone, Copy)]
struct Source {
    /// Where it was when it sent the chunk.
    address: NetworkAddress,
    /// What it is told under.
    token: Token,
    /// Chunks of the window that the chunk belongs to; zero if it has none.
    window_chunks: u16,
}

impl Source {
    fn of(header: &ChunkHeader) -> Source {
        Source {
            address: header.source_address,
            token: header.token().unwrap_or_default(),
            window_chunks: header.tag().map_or(0, |tag| tag.window_chunks),
        }
    }
}

/// What a source is to be told of.
#[derive(Default)]
struct Report {
    /// Where the source was when it sent.
    address: NetworkAddress,
    token: Token,
    chunks: BTreeSet<u32>,
    /// With so many it goes out: the source may be waiting for it to begin its next window.
    enough: usize,
}

impl Report {
    fn is_full(&self) -> bool {
        self.chunks.len() >= self.enough
    }
}

/// The transfer and object that a report is about, and whether it is of what is stored.
type ReportId = (Flow, u32, ObjectId, bool);

#[derive(Default)]
struct FlowState {
    bytes: u64,
    used_at: u64,
    /// Chunks that are kept to answer for their producer.
    delegated: u32,
    /// By priority, least first; then the last chunk first.
    chunks: BTreeSet<(u8, core::cmp::Reverse<u64>)>,
}

/// What a source has in store.
#[derive(Default)]
struct SourceState {
    bytes: u64,
    used_at: u64,
    /// Its flows as in [`Proxy::order`].
    order: BTreeSet<(u8, u64, Flow)>,
}

/// Where a waiting chunk stands: object, transfer, number, and its number in the store.
type Waiting = (ObjectId, u32, u32, u64);

struct Destination {
    /// Waiting chunks; those of a transfer leave in this order, and transfers take turns.
    waiting: BTreeSet<Waiting>,
    turn: Turn,
    /// Waiting chunks that are here because of ways.
    by_ways: u32,
    /// Chunks that are here for it.
    chunks: u32,
    watched: bool,
    timer: Time,
    window: Window,
}

/// Which of the transfers that wait for a destination is served, until it has had [`TURN_BYTES`]: deficit round robin
/// (Shreedhar and Varghese, 1996), so that what waited behind a large object does not wait for all of it.
#[derive(Default)]
struct Turn {
    transfer: Option<(ObjectId, u32)>,
    left: u64,
}

impl Turn {
    /// Where the search for the next chunk begins; before that it comes last.
    fn begin(&self) -> Waiting {
        match self.transfer {
            Some((object, transfer)) if self.left > 0 => (object, transfer, 0, 0),
            Some((object, transfer)) => (object, transfer, u32::MAX, u64::MAX),
            None => (ObjectId([0; 16]), 0, 0, 0),
        }
    }
    fn on_release(&mut self, chunk: &Waiting, bytes: u64) {
        let transfer = Some((chunk.0, chunk.1));
        if self.transfer != transfer || self.left == 0 {
            *self = Turn { transfer, left: TURN_BYTES };
        }
        self.left = self.left.saturating_sub(bytes);
    }
}

/// The proxy of a router; see the [module](self).
pub struct Proxy {
    config: ProxyConfig,
    own: (Guid, NetworkAddress),
    repository: Box<dyn ChunkRepository>,
    chunks: BTreeMap<u64, Stored>,
    keys: BTreeMap<ChunkKey, u64>,
    flows: BTreeMap<Flow, FlowState>,
    /// Flows in the order in which they make room: by the priority of their least chunk, then by when they were used.
    order: BTreeSet<(u8, u64, Flow)>,
    sources: BTreeMap<Guid, SourceState>,
    /// Sources by what they have in store; of those with as much the one that was idle longest is the last.
    largest: BTreeSet<(u64, core::cmp::Reverse<u64>, Guid)>,
    destinations: BTreeMap<Guid, Destination>,
    /// Destinations that are worth trying, and where the search for one begins: after the one that was tried last.
    ready: BTreeSet<Guid>,
    tried_last: Guid,
    /// Destinations for which chunks wait that are here because of ways.
    by_ways: BTreeSet<Guid>,
    /// Destinations by when their storage timers are over.
    timers: BTreeSet<(Time, Guid)>,
    transits: Transits,
    deadlines: BTreeSet<(Time, u64)>,
    /// Copies of descriptions by when their receivers are reminded.
    reminders: BTreeSet<(Time, u64)>,
    used: u64,
    /// Bytes of the last chunk that there was no room for.
    needed: u64,
    next_id: u64,
    clock: u64,
    dirty: bool,
    /// Put since the last commit began, and in the one that runs: their sources are told when they are durable.
    uncommitted: Vec<ChunkKey>,
    committing: Option<Vec<ChunkKey>>,
    reports: BTreeMap<ReportId, Report>,
    /// Of these, those that have become long enough to go before they are due; some may have gone.
    full_reports: BTreeSet<ReportId>,
    report_at: Option<Time>,
    /// Durable chunks whose sources are told when there is room for more reports, and which of them comes next.
    untold: BTreeSet<u64>,
    untold_from: u64,
    /// Chunks that the next hop has taken lately, the first one first.
    lately: VecDeque<(Time, ChunkKey)>,
    /// After how many storage timers sources that could not be reached are tried again.
    report_backoff: u32,
    watches: VecDeque<(Guid, bool)>,
    lookups: VecDeque<Guid>,
    /// Transfers whose sources are told that they are kept for less time than they ask for.
    capped: VecDeque<(ChunkKey, Source, Duration)>,
    failure: Option<StoreError>,
    /// Counters.
    pub stats: ProxyStats,
}

impl Proxy {
    /// A proxy with everything that an earlier life left in the repository.
    ///
    /// # Errors
    /// [`StoreError`] if the repository cannot be read.
    pub fn new(
        now: Time,
        config: ProxyConfig,
        own: (Guid, NetworkAddress),
        mut repository: Box<dyn ChunkRepository>,
    ) -> Result<Proxy, StoreError> {
        let found = repository.list()?;
        let mut proxy = Proxy {
            config,
            own,
            repository,
            chunks: BTreeMap::new(),
            keys: BTreeMap::new(),
            flows: BTreeMap::new(),
            destinations: BTreeMap::new(),
            ready: BTreeSet::new(),
            tried_last: Guid::NONE,
            by_ways: BTreeSet::new(),
            timers: BTreeSet::new(),
            transits: Transits::default(),
            order: BTreeSet::new(),
            sources: BTreeMap::new(),
            largest: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            reminders: BTreeSet::new(),
            used: 0,
            needed: 0,
            next_id: 1,
            clock: 0,
            dirty: false,
            uncommitted: Vec::new(),
            committing: None,
            reports: BTreeMap::new(),
            full_reports: BTreeSet::new(),
            report_at: None,
            untold: BTreeSet::new(),
            untold_from: 0,
            lately: VecDeque::new(),
            report_backoff: 1,
            watches: VecDeque::new(),
            lookups: VecDeque::new(),
            capped: VecDeque::new(),
            failure: None,
            stats: ProxyStats::default(),
        };
        for (id, head, bytes) in found {
            proxy.next_id = proxy.next_id.max(id + 1);
            let Some((delegated, ends_at, header)) = decode_head(&head) else { continue };
            if let Some(key) = header.key() {
                // If the clock was set back it is kept no longer than if it had just come.
                let left = ends_at.map_or(Duration::MAX, |at| at.saturating_sub(proxy.repository.clock()));
                let until = now + proxy.lifetime(&header).min(left);
                let source = Source::of(&header);
                // Whether the next hop has taken a copy's chunk over is not known any more. A copy for a group is there to
                // answer from, and nobody's way.
                let is_for_group = matches!(header.service, ServiceId::Multicast | ServiceId::Anycast);
                proxy.add((now, until), id, header, key, bytes, StoreReason::Away, delegated);
                // It may have left in an earlier life.
                proxy.chunks.entry(id).and_modify(|stored| (stored.durable, stored.sends) = (true, 1));
                proxy.tell_previous(id);
                if !is_for_group {
                    proxy.take_back(id, StoreReason::Away);
                }
                proxy.stats.restored += 1;
                // The node may have been killed before its source was told.
                proxy.report(now, key, source, true);
            }
        }
        Ok(proxy)
    }

    // Inputs.

    /// Keeps a chunk, in place of an older copy if it answers a request that is to go past these
    /// ([`Flags::NO_CACHE`]). It is durable after the next [`Proxy::commit`].
    ///
    /// # Errors
    /// [`Refused`] says why it is not kept. Nothing goes for a flow or a source that has its share, or for a chunk that is
    /// less important; what is as important goes only if its source has more in store than the newcomer's would have.
    pub fn put(&mut self, now: Time, header: &ChunkHeader, payload: &Payload, why: Kept) -> Result<(), Refused> {
        let Some(key) = header.key().filter(|_| self.config.enabled) else { return Err(Refused::Broken) };
        let bytes = payload.len() as u64 + CHUNK_OVERHEAD_BYTES;
        if header.flags.contains(Flags::NO_CACHE)
            && let Some(id) = self.keys.get(&key).copied()
            && self.chunks.get(&id).is_some_and(|stored| stored.place == Place::Here)
        {
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
        let ProxyConfig { capacity, flow_capacity, source_capacity, .. } = self.config;
        // Where one may fill the whole store there are no shares: the store is full.
        let exceeds = |share: ByteCount, held: u64| share < capacity && held + bytes > share.0;
        if exceeds(flow_capacity, flow_bytes) || exceeds(source_capacity, source_bytes) {
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
        self.uncommitted.push(key);
        Ok(())
    }
    /// Begins to make durable what was put and removed; only then may it be acknowledged. True if a commit was begun, or
    /// there was nothing to commit; false while one runs.
    ///
    /// # Errors
    /// [`StoreError`] if that fails; what was put since the last commit is not here any more then.
    pub fn begin_commit(&mut self) -> Result<bool, StoreError> {
        if self.committing.is_some() {
            return Ok(false);
        }
        let keys = core::mem::take(&mut self.uncommitted);
        if core::mem::take(&mut self.dirty)
            && let Err(error) = self.repository.commit()
        {
            self.forget_unless_durable(keys);
            return Err(error);
        }
        self.committing = Some(keys);
        Ok(true)
    }
    /// Whether something was done since the last commit began.
    pub fn has_uncommitted(&self) -> bool {
        self.dirty || !self.uncommitted.is_empty()
    }
    /// Whether no commit runs any more; sources are told of what is durable now.
    ///
    /// # Errors
    /// [`StoreError`] if it failed; what it was to make durable is not here any more then.
    pub fn poll_commit(&mut self, now: Time) -> Result<bool, StoreError> {
        if self.committing.is_none() {
            return Ok(true);
        }
        match self.repository.is_committed() {
            Ok(false) => Ok(false),
            Ok(true) => {
                let keys = self.committing.take().unwrap_or_default();
                // What was dropped meanwhile was told of already.
                for key in keys {
                    if let Some((id, stored)) = self.keys.get(&key).and_then(|id| Some((*id, self.chunks.get_mut(id)?)))
                    {
                        stored.durable = true;
                        let source = Source::of(&stored.header);
                        self.report(now, key, source, true);
                        self.tell_previous(id);
                    }
                }
                Ok(true)
            }
            Err(error) => {
                let keys = self.committing.take().unwrap_or_default();
                self.forget_unless_durable(keys);
                Err(error)
            }
        }
    }
    /// When a commit that runs is to be asked for again; `None` if the repository has the node called.
    pub fn commit_poll_interval(&self) -> Option<Duration> {
        self.repository.poll_interval()
    }
    /// The destination is attached, or bound to an address: what waits for it may go, if that is what this proxy goes by.
    pub fn on_reachable(&mut self, guid: &Guid) {
        if self.config.rebinding == Rebinding::Watch && self.destinations.contains_key(guid) {
            self.ready.insert(*guid);
        }
    }
    /// Ways have changed: sources that could not be reached are tried again, and what is here because of ways may go.
    pub fn on_ways(&mut self, now: Time) {
        if !self.reports.is_empty() {
            self.report_at = self.report_at.map(|at| at.min(now + self.config.report_delay));
        }
        self.wake_lost();
        self.on_change();
    }
    /// Ways or queues have changed: what is here because of them may go.
    pub fn on_change(&mut self) {
        self.ready.extend(&self.by_ways);
    }
    /// A neighbour, `via`, has taken a released chunk into its memory. If that is as far as custody goes, the chunk is gone.
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
            // A copy for the producer stays until its lifetime is over.
            Some(stored) if stored.delegated => (stored.place, stored.owed) = (Place::Here, false),
            Some(_) => {
                self.stats.delivered += 1;
                self.remove(id);
            }
            None => {}
        }
    }
    /// A chunk that may be here comes by, sent again by its source: that one goes, and this one if that one is lost. Gives
    /// who its custodian is then, if it is this proxy.
    pub fn on_passing(&mut self, now: Time, key: &ChunkKey, token: Token) -> Option<Custodian> {
        let id = self.keys.get(key).copied()?;
        let is_same = |stored: &&Stored| stored.owed && stored.has(token);
        let stored = self.chunks.get(&id).filter(is_same)?;
        let keeps = self.keeps_custody(&stored.header);
        self.leave_rest(id);
        self.on_released(now, id);
        self.unwait(id);
        keeps.then(|| self.custodian())
    }
    /// A released chunk was lost on its way: it waits again.
    pub fn on_lost(&mut self, key: &ChunkKey) {
        if let Some(id) = self.keys.get(key).copied() {
            self.take_back(id, StoreReason::Away);
        }
    }
    /// A chunk can never go on from here: it is dropped.
    pub fn on_stuck(&mut self, now: Time, key: &ChunkKey) {
        if let Some(id) = self.keys.get(key).copied() {
            self.drop_stored(now, id);
        }
    }
    /// The source says that chunks are to be sent now (paper: Push), or the receiver that they are missing. Gives those that
    /// are not here, nor were until a moment ago, or have another token than is shown.
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
            // Its receiver knows of it, and asks again if it has to.
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
    /// Everything of a transfer has arrived, as somebody says who knows its token: copies of it are of no use any more.
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
    /// Does what is due: lifetimes, storage timers.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((_, id)) = self.deadlines.first().copied().filter(|(until, _)| *until <= now) {
            self.stats.expired += 1;
            self.drop_stored(now, id);
        }
        while let Some((_, id)) = self.reminders.first().copied().filter(|(at, _)| *at <= now) {
            let Some(stored) = self.chunks.get(&id) else { break };
            let (to, is_idle) = (stored.key.flow.destination, !stored.owed && stored.place == Place::Here);
            let after = stored.remind.map_or(REMIND, |(_, after)| after);
            self.remind_after(now, id, (after * 2).min(REMIND_MAX));
            if is_idle {
                self.stats.reminded += 1;
                self.take_back(id, StoreReason::Away);
                self.ready.insert(to);
            }
        }
        self.custody_timeout(now);
        while let Some((at, guid)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, guid));
            let Some(destination) = self.destinations.get_mut(&guid) else { continue };
            destination.timer = now + self.config.timer;
            self.timers.insert((destination.timer, guid));
            if !destination.waiting.is_empty() && self.config.rebinding != Rebinding::Never {
                self.ready.insert(guid);
                self.lookups.push_back(guid);
            }
        }
    }

    // Questions.

    /// Everything that is held.
    pub fn holdings(&self) -> impl Iterator<Item = Holding> {
        self.chunks.values().map(|stored| Holding {
            key: stored.key,
            bytes: ByteCount(stored.bytes),
            priority: stored.header.priority,
            since: stored.since,
            until: stored.until,
            reason: stored.reason,
            delegated: stored.delegated,
            owed: stored.owed,
            state: match stored.place {
                Place::Here if stored.rests => HoldingState::Resting,
                Place::Here => HoldingState::Waiting,
                Place::Leaving => HoldingState::Leaving,
                Place::InTransit { via, since } => HoldingState::InTransit { to: via, since },
            },
            durable: stored.durable,
        })
    }
    /// Whether a chunk is here.
    pub fn has(&self, key: &ChunkKey) -> bool {
        self.keys.contains_key(key)
    }
    /// A chunk that is here and stays.
    pub fn copy(&mut self, now: Time, key: &ChunkKey) -> Option<(ChunkHeader, Bytes)> {
        let id = *self.keys.get(key)?;
        let header = self.chunks.get(&id)?.header.clone();
        match self.repository.read(id) {
            Ok(payload) => Some((header, payload)),
            Err(error) => {
                self.failure = Some(error);
                self.drop_stored(now, id);
                None
            }
        }
    }
    /// Whether anything is held for a destination.
    pub fn holds_for(&self, guid: &Guid) -> bool {
        self.destinations.contains_key(guid)
    }
    /// The chunks of a transfer that wait here for a destination.
    pub fn waiting_for(&self, guid: &Guid, object: ObjectId, transfer: u32) -> impl Iterator<Item = &DataTag> {
        let range = (object, transfer, 0, 0)..=(object, transfer, u32::MAX, u64::MAX);
        let waiting = self.destinations.get(guid).into_iter().flat_map(move |to| to.waiting.range(range.clone()));
        waiting.filter_map(|(.., id)| self.chunks.get(id)?.header.tag())
    }
    /// Whether a copy is held to answer for the producer of this flow.
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
    /// How much is free, in percent; nothing while a chunk like the last that was refused would be refused again.
    pub fn free_percent(&self) -> u8 {
        let capacity = self.config.capacity.0.max(1);
        match capacity.saturating_sub(self.used) {
            free if free < self.needed => 0,
            free => (free * 100 / capacity).min(100) as u8,
        }
    }

    // Private.

    /// How long a chunk is kept that has just come.
    fn lifetime(&self, header: &ChunkHeader) -> Duration {
        match header.lifetime_ms {
            0 => self.config.lifetime,
            wanted => Duration::from_millis(u64::from(wanted)).min(self.config.lifetime),
        }
    }
    #[expect(clippy::too_many_arguments, reason = "the fields of one entry")]
    fn add(
        &mut self,
        (now, until): (Time, Time),
        id: u64,
        header: ChunkHeader,
        key: ChunkKey,
        payload_bytes: u64,
        reason: StoreReason,
        delegated: bool,
    ) {
        let bytes = payload_bytes + CHUNK_OVERHEAD_BYTES;
        self.clock += 1;
        let used_at = self.clock;
        self.change_flow(key.flow, |flow| {
            flow.bytes += bytes;
            flow.used_at = used_at;
            flow.delegated += u32::from(delegated);
            flow.chunks.insert((header.priority, core::cmp::Reverse(id)));
        });
        self.change_source(key.flow.source, |source| {
            source.bytes += bytes;
            source.used_at = used_at;
        });
        self.used += bytes;
        self.deadlines.insert((until, id));
        self.keys.insert(key, id);
        let timer = now + self.config.timer;
        let (config, timers) = (&self.config, &mut self.timers);
        let destination = self.destinations.entry(key.flow.destination).or_insert_with(|| Destination {
            waiting: BTreeSet::new(),
            turn: Turn::default(),
            by_ways: 0,
            chunks: 0,
            watched: false,
            timer: {
                timers.insert((timer, key.flow.destination));
                timer
            },
            window: Window::new(config),
        });
        destination.chunks += 1;
        let (place, rests, sends, durable, owed) = (Place::Here, false, 0, false, false);
        let is_pushed_to_one =
            is_pushed(key.transfer) && !matches!(header.service, ServiceId::Multicast | ServiceId::Anycast);
        let remind = None;
        let stored = Stored {
            header,
            key,
            bytes,
            since: now,
            until,
            reason,
            delegated,
            owed,
            place,
            rests,
            sends,
            durable,
            remind,
        };
        self.chunks.insert(id, stored);
        if !delegated {
            self.take_back(id, reason);
        } else if key.number == 0 && is_pushed_to_one {
            self.remind_after(now, id, REMIND);
        }
    }
    /// Puts off when the receiver of a description is sent it again from here.
    fn remind_after(&mut self, now: Time, id: u64, after: Duration) {
        let Some(stored) = self.chunks.get_mut(&id).filter(|stored| stored.delegated) else { return };
        if let Some((at, _)) = stored.remind.replace((now + after, after)) {
            self.reminders.remove(&(at, id));
        }
        self.reminders.insert((now + after, id));
    }
    /// The next hop is to get a chunk from here: it waits.
    fn take_back(&mut self, id: u64, reason: StoreReason) {
        self.leave_rest(id);
        self.leave_transit(id);
        self.unwait(id);
        let Some(stored) = self.chunks.get_mut(&id) else { return };
        (stored.owed, stored.reason) = (true, reason);
        let key = stored.key;
        let Some(destination) = self.destinations.get_mut(&key.flow.destination) else { return };
        destination.waiting.insert((key.object, key.transfer, key.number, id));
        if reason != StoreReason::Away {
            destination.by_ways += 1;
            self.by_ways.insert(key.flow.destination);
            self.ready.insert(key.flow.destination);
        }
        if self.config.rebinding == Rebinding::Watch && !destination.watched {
            destination.watched = true;
            self.watches.push_back((key.flow.destination, true));
        }
    }
    /// A chunk does not wait any more.
    fn unwait(&mut self, id: u64) {
        let Some(stored) = self.chunks.get(&id) else { return };
        let key = stored.key;
        let Some(destination) = self.destinations.get_mut(&key.flow.destination) else { return };
        if destination.waiting.remove(&(key.object, key.transfer, key.number, id)) && stored.reason != StoreReason::Away
        {
            destination.by_ways -= 1;
            if destination.by_ways == 0 {
                self.by_ways.remove(&key.flow.destination);
            }
        }
    }
    /// Changes what is known of a flow, and with it its place among those that make room.
    fn change_flow(&mut self, flow: Flow, change: impl FnOnce(&mut FlowState)) {
        let place = |state: &FlowState| state.chunks.first().map(|(least, _)| (*least, state.used_at, flow));
        let state = self.flows.entry(flow).or_default();
        let of_source = &mut self.sources.entry(flow.source).or_default().order;
        if let Some(before) = place(state) {
            self.order.remove(&before);
            of_source.remove(&before);
        }
        change(state);
        match place(state) {
            Some(place) => {
                self.order.insert(place);
                of_source.insert(place);
            }
            None => {
                self.flows.remove(&flow);
            }
        }
    }
    /// The same for a source, after its flows.
    fn change_source(&mut self, source: Guid, change: impl FnOnce(&mut SourceState)) {
        let place = |state: &SourceState| (state.bytes, core::cmp::Reverse(state.used_at), source);
        let state = self.sources.entry(source).or_default();
        self.largest.remove(&place(state));
        change(state);
        match state.order.is_empty() {
            true => drop(self.sources.remove(&source)),
            false => drop(self.largest.insert(place(state))),
        }
    }
    /// The chunk that has to go for another flow's: the first in order if that is less important, else one of the source
    /// that has most in store, if that is more than the newcomer's would have.
    fn victim(&self, newcomer: &Flow, priority: u8, source_bytes: u64) -> Option<u64> {
        let first = |order: &BTreeSet<(u8, u64, Flow)>| order.iter().find(|(.., flow)| flow != newcomer).copied();
        let less_important = first(&self.order).filter(|(least, ..)| *least < priority);
        let larger = self.largest.iter().rev().take(SOURCES_TRIED).take_while(|(bytes, ..)| *bytes > source_bytes);
        let mut larger = larger.filter_map(|(.., source)| first(&self.sources.get(source)?.order));
        let (.., flow) = less_important.or_else(|| larger.find(|(least, ..)| *least <= priority))?;
        let (_, id) = self.flows.get(&flow)?.chunks.first()?;
        Some(id.0)
    }
    fn drop_stored(&mut self, now: Time, id: u64) {
        if let Some(stored) = self.chunks.get(&id) {
            let (key, source, owed) = (stored.key, Source::of(&stored.header), stored.owed);
            if owed {
                self.report(now, key, source, false);
            }
        }
        self.remove(id);
    }
    fn remove(&mut self, id: u64) {
        self.leave_rest(id);
        self.leave_transit(id);
        self.unwait(id);
        let Some(stored) = self.chunks.remove(&id) else { return };
        if let Err(error) = self.repository.remove(id) {
            self.failure = Some(error);
        }
        self.dirty = true;
        let key = stored.key;
        self.keys.remove(&key);
        self.used -= stored.bytes;
        self.untold.remove(&id);
        self.deadlines.remove(&(stored.until, id));
        if let Some((at, _)) = stored.remind {
            self.reminders.remove(&(at, id));
        }
        self.change_flow(key.flow, |flow| {
            flow.bytes -= stored.bytes;
            flow.delegated -= u32::from(stored.delegated);
            flow.chunks.remove(&(stored.header.priority, core::cmp::Reverse(id)));
        });
        self.change_source(key.flow.source, |source| source.bytes -= stored.bytes);
        if let Some(destination) = self.destinations.get_mut(&key.flow.destination) {
            destination.chunks -= 1;
            if destination.chunks == 0 {
                if destination.watched {
                    self.watches.push_back((key.flow.destination, false));
                }
                self.timers.remove(&(destination.timer, key.flow.destination));
                self.forget_window(&key.flow.destination);
                self.destinations.remove(&key.flow.destination);
                self.ready.remove(&key.flow.destination);
            }
        }
    }
    /// A commit has failed: a chunk that is not durable would be acknowledged when it comes again, and lost by a kill.
    fn forget_unless_durable(&mut self, keys: Vec<ChunkKey>) {
        for id in keys.iter().filter_map(|key| self.keys.get(key).copied()).collect::<Vec<_>>() {
            if self.chunks.get(&id).is_some_and(|stored| !stored.durable) {
                self.remove(id);
            }
        }
    }
    fn report(&mut self, now: Time, key: ChunkKey, source: Source, stored: bool) {
        let due = now + self.config.report_delay;
        self.report_at = Some(self.report_at.map_or(due, |at| at.min(due)));
        let of = |stored: bool| (key.flow, key.transfer, key.object, stored);
        if let Some(opposite) = self.reports.get_mut(&of(!stored)) {
            opposite.chunks.remove(&key.number);
            if opposite.chunks.is_empty() {
                self.reports.remove(&of(!stored));
            }
        }
        if self.reports.len() >= REPORTS_MAX && !self.reports.contains_key(&of(stored)) {
            if stored {
                // It is here: its source is told when others have been.
                self.untold.extend(self.keys.get(&key));
                return;
            }
            self.hold_back(1);
            if self.reports.len() >= REPORTS_MAX {
                self.stats.untold += 1;
                return;
            }
        }
        let report = self.reports.entry(of(stored)).or_default();
        (report.address, report.token) = (source.address, source.token);
        report.enough = match source.window_chunks {
            window if window > 0 && stored => usize::from(window.div_ceil(2)).min(REPORT_CHUNKS),
            _ => REPORT_CHUNKS,
        };
        report.chunks.insert(key.number);
        if report.is_full() {
            self.full_reports.insert(of(stored));
        }
    }
    /// Takes back so many reports of what is here, to make them later.
    fn hold_back(&mut self, count: usize) {
        let held = self.reports.keys().filter(|(.., stored)| *stored).take(count).copied();
        for id in held.collect::<Vec<_>>() {
            let (flow, transfer, object, _) = id;
            let numbers = self.reports.remove(&id).map(|report| report.chunks).unwrap_or_default();
            let keys = numbers.into_iter().map(|number| ChunkKey { flow, object, transfer, number });
            self.untold.extend(keys.filter_map(|key| self.keys.get(&key)));
        }
    }
    /// Makes reports of what is here and was held back, as far as there is room.
    fn tell_more(&mut self, now: Time) {
        while self.reports.len() < REPORTS_MAX {
            let next = self.untold.range(self.untold_from..).next().or_else(|| self.untold.first()).copied();
            let Some(id) = next else { return };
            self.untold.remove(&id);
            self.untold_from = id + 1;
            if let Some(stored) = self.chunks.get(&id) {
                let (key, source) = (stored.key, Source::of(&stored.header));
                self.report(now, key, source, true);
            }
        }
    }
    /// Tells a source of a chunk that was dropped here without ever having been stored.
    pub fn report_dropped(&mut self, now: Time, header: &ChunkHeader) {
        if let Some(key) = header.key() {
            self.report(now, key, Source::of(header), false);
        }
    }
}

/// Why a chunk is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// It waits.
    For(StoreReason),
    /// It is a copy, to answer for its producer.
    Delegated,
}

/// What a chunk takes beyond its payload: header and index entries.
pub const CHUNK_OVERHEAD_BYTES: u64 = 512;
/// What a transfer is sent of what waits before it is another one's turn: the largest usual chunk.
const TURN_BYTES: u64 = 1 << 20;
/// After how long a receiver that has said nothing is sent the description of what was delegated again, as by a source
/// that is awake; doubles up to [`REMIND_MAX`].
const REMIND: Duration = Duration::from_secs(12);
/// The first byte of what the repository keeps beside a payload: a flag for a copy, and one for heads that tell when their
/// lifetime ends, which earlier versions did not write.
const HEAD_DELEGATED: u8 = 1;
const HEAD_ENDS: u8 = 2;

/// What the repository keeps beside a payload: flags, when it ends in milliseconds of the repository's clock, the header.
fn encode_head(delegated: bool, ends_at: Duration, header: &ChunkHeader) -> Vec<u8> {
    let mut head = Vec::with_capacity(header.len() + 9);
    head.push(HEAD_ENDS | if delegated { HEAD_DELEGATED } else { 0 });
    head.extend_from_slice(&u64::try_from(ends_at.as_millis()).unwrap_or(u64::MAX).to_be_bytes());
    header.encode(&mut head);
    head
}
/// Whether it is a copy, when it ends if that is told, and the header.
fn decode_head(head: &[u8]) -> Option<(bool, Option<Duration>, ChunkHeader)> {
    let (flags, mut rest) = head.split_first()?;
    let mut ends_at = None;
    if flags & HEAD_ENDS != 0 {
        let (millis, header) = rest.split_first_chunk()?;
        (ends_at, rest) = (Some(Duration::from_millis(u64::from_be_bytes(*millis))), header);
    }
    Some((flags & HEAD_DELEGATED != 0, ends_at, ChunkHeader::decode(rest).ok()?.0))
}

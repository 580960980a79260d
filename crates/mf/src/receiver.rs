//! The receiving end (paper §3.1, §3.2.2, §3.4.2): asks for objects, says once per window how much may come and what is
//! missing, and takes what is pushed.
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::{String, ToString},
    vec::Vec,
};

use bytes::Bytes;
use tributary_content::{Manifest, Name, ObjectId, StoreOpener};
use tributary_core::{
    Duration, NodeId, PathId, Rate, SourceId, Time, TransferId,
    event::{PathReport, PathState, SourceReport, TransferEvent, TransferReport},
};
use tributary_transport::{Fetch, limit::TokenBucket};

use crate::{
    config::EndConfig,
    ids::{Guid, NetworkAddress},
    reassembly::{Reassembly, Taken, manifest_of},
    sender::PUSHED,
    wire::{ChunkHeader, ChunkRanges, DataTag, Flags, Reliability, TransportMessage, chunk::HOPS_MAX},
};

/// Ended transfers whose reports are kept.
const ENDED_KEPT: usize = 256;
/// How much a request's wait grows at most.
const BACKOFF_MAX: u32 = 2;
/// How often a sender that was stopped, or a reader that is slow, is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Pushed objects that are received at the same time at most.
const PUSHED_MAX: usize = 256;
/// Chunks of a pushed object that are kept before its description has come.
const EARLY_MAX: usize = 64;

/// What to send to whom.
#[derive(Clone, PartialEq, Debug)]
pub struct Outgoing {
    /// To whom.
    pub to: Guid,
    /// Where it is, as far as known.
    pub address: NetworkAddress,
    /// What.
    pub message: TransportMessage,
    /// Whether caches may answer.
    pub flags: Flags,
}

/// All that a node receives.
pub struct Receiver {
    config: EndConfig,
    next: u32,
    fetches: BTreeMap<TransferId, Incoming>,
    pushed: BTreeMap<(Guid, u32), TransferId>,
    /// Decides on what is pushed and where it is stored; nothing is taken without one.
    acceptor: Option<Box<dyn StoreOpener>>,
    /// Chunks of pushed objects whose description has not come.
    early: BTreeMap<(Guid, u32), Vec<(ChunkHeader, Bytes)>>,
    limit: TokenBucket,
    attached: bool,
    outbox: VecDeque<Outgoing>,
    events: VecDeque<(TransferId, TransferEvent)>,
    /// Names whose announcements are not needed any more.
    done: VecDeque<Name>,
    /// Chunks that belong to no transfer of ours.
    pub strays: u64,
}

struct Incoming {
    name: Name,
    opener: Option<Box<dyn StoreOpener>>,
    patience: Option<Duration>,
    limit: TokenBucket,
    started: Time,
    ended: Option<Time>,
    failure: Option<String>,
    resumed: u64,
    reassembly: Option<Reassembly>,
    object: Option<ObjectId>,
    content: Guid,
    sources: Vec<Source>,
    /// The one that is asked; `None` leaves the choice to the network (anycast).
    asked: Option<Guid>,
    /// Who sends.
    sender: Option<(Guid, NetworkAddress)>,
    transfer: u32,
    reliability: Reliability,
    /// Caches are passed by, because one lied.
    avoid_caches: bool,
    windows: BTreeMap<u16, (u16, BTreeSet<u32>)>,
    highest_window: Option<u16>,
    status_at: Option<(Time, u16)>,
    window_chunks: u16,
    stopped: bool,
    sequence: u32,
    nack_at: Time,
    nacks: u32,
    lonely_since: Time,
    cached_bytes: u64,
    repeated_bytes: u64,
    duplicate_bytes: u64,
    /// For the current rate.
    recent: VecDeque<(Time, u64)>,
}

struct Source {
    guid: Guid,
    label: String,
    bytes: u64,
    hops: u32,
    distrusted: Option<String>,
}

impl Receiver {
    /// Without transfers. `first` is where they are numbered from, so that those of an earlier life are not mixed up
    /// with new ones.
    pub fn new(config: EndConfig, first: u32) -> Receiver {
        Receiver {
            config,
            next: first & !PUSHED,
            fetches: BTreeMap::new(),
            pushed: BTreeMap::new(),
            acceptor: None,
            early: BTreeMap::new(),
            limit: TokenBucket::new(None, Duration::from_millis(20)),
            attached: false,
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            done: VecDeque::new(),
            strays: 0,
        }
    }
    /// From now on objects that are pushed are taken if `acceptor` trusts them.
    pub fn accept(&mut self, acceptor: Box<dyn StoreOpener>) {
        self.acceptor = Some(acceptor);
    }

    // Fetches.

    /// Starts a fetch; what is announced under its name goes to [`Receiver::handle_announcements`].
    pub fn fetch(&mut self, now: Time, fetch: Fetch) -> TransferId {
        let id = self.number();
        let reliability = self.config.reliability;
        let mut incoming = Incoming::new(now, fetch.name, id.0, reliability, self.config.window_chunks);
        incoming.opener = Some(fetch.opener);
        incoming.patience = fetch.patience;
        incoming.limit = TokenBucket::new(fetch.rate_limit, Duration::from_millis(20));
        self.fetches.insert(id, incoming);
        self.forget_old();
        id
    }
    fn number(&mut self) -> TransferId {
        self.next = (self.next + 1) & !PUSHED;
        TransferId(self.next.max(1))
    }
    fn forget_old(&mut self) {
        let ended = self.fetches.iter().filter(|(_, fetch)| fetch.ended.is_some()).map(|(id, _)| *id);
        let ended: Vec<TransferId> = ended.collect();
        for id in ended.iter().take(ended.len().saturating_sub(ENDED_KEPT)) {
            self.fetches.remove(id);
        }
    }
    /// What devices announce under a name: the device and the manifest.
    pub fn handle_announcements(&mut self, now: Time, name: &Name, found: &[(Guid, Manifest)]) {
        let ids: Vec<TransferId> = self
            .fetches
            .iter()
            .filter(|(_, fetch)| fetch.name == *name && fetch.ended.is_none() && fetch.opener.is_some())
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            let Some(fetch) = self.fetches.get_mut(&id) else { continue };
            let told = fetch.sources.len();
            let opened = fetch.consider(found);
            for (number, source) in fetch.sources.iter().enumerate().skip(told) {
                let (id_of, node) = (SourceId(number as u16), node_of(&source.guid));
                let label = source.label.clone();
                self.events.push_back((id, TransferEvent::SourceAdded { source: id_of, node, label }));
                if let Some(reason) = source.distrusted.clone() {
                    let label = source.label.clone();
                    self.events.push_back((id, TransferEvent::SourceDistrusted { source: id_of, label, reason }));
                }
            }
            match opened {
                Opened::No => {}
                Opened::Failed(reason) => self.fail(now, id, reason),
                Opened::Yes => {
                    let Some(fetch) = self.fetches.get_mut(&id) else { continue };
                    let bytes = fetch.reassembly.as_ref().map_or(0, |reassembly| reassembly.manifest().size);
                    let resumed_bytes = fetch.resumed;
                    self.events.push_back((id, TransferEvent::Started { bytes, resumed_bytes }));
                    self.request(now, id);
                    self.finish_if_complete(now, id);
                }
            }
        }
    }
    /// Asks for what is missing: the network chooses the nearest source, unless one has to be avoided.
    fn request(&mut self, now: Time, id: TransferId) {
        let config = &self.config;
        let Some(fetch) = self.fetches.get_mut(&id).filter(|fetch| fetch.ended.is_none()) else { return };
        let (Some(reassembly), Some(object)) = (&fetch.reassembly, fetch.object) else { return };
        let trusted: Vec<Guid> =
            fetch.sources.iter().filter(|source| source.distrusted.is_none()).map(|source| source.guid).collect();
        let any_lied = trusted.len() < fetch.sources.len();
        fetch.asked = match trusted.len() {
            0 => return,
            count if any_lied || fetch.nacks > 0 => Some(trusted[fetch.nacks as usize % count]),
            _ => None,
        };
        let chunk_bytes = reassembly.cut().map_or(config.chunk_bytes, |(chunk_bytes, _)| chunk_bytes);
        let message = TransportMessage::Request {
            transfer: fetch.transfer,
            object,
            chunk_bytes,
            reliability: fetch.reliability,
            buffer_chunks: fetch.window_chunks,
            held: reassembly.held(chunk_bytes),
        };
        let flags = if fetch.avoid_caches { Flags::NO_CACHE } else { Flags::NONE };
        let to = fetch.asked.unwrap_or(fetch.content);
        self.outbox.push_back(Outgoing { to, address: NetworkAddress::NONE, message, flags });
        fetch.set_nack(now, config.nack_timeout);
    }
    /// Ends a fetch; what is verified stays.
    pub fn cancel(&mut self, now: Time, id: TransferId) {
        if self.fetches.get(&id).is_some_and(|fetch| fetch.ended.is_none()) {
            self.fail(now, id, "cancelled".into());
        }
    }
    /// Limits one fetch or all together, by the windows that senders are given.
    pub fn set_limit(&mut self, now: Time, id: Option<TransferId>, rate: Option<Rate>) {
        match id {
            None => self.limit.set_rate(now, rate),
            Some(id) => {
                if let Some(fetch) = self.fetches.get_mut(&id) {
                    fetch.limit.set_rate(now, rate);
                }
            }
        }
    }
    /// The node is attached to a router, or not any more: what is not sent to it then is not missing.
    pub fn set_attached(&mut self, now: Time, attached: bool) {
        if attached && !self.attached {
            for fetch in self.fetches.values_mut() {
                fetch.lonely_since = now;
                fetch.set_nack(now, self.config.nack_timeout);
            }
        }
        self.attached = attached;
    }

    // Chunks.

    /// Takes a chunk of an object for this node.
    pub fn handle_data(&mut self, now: Time, header: &ChunkHeader, payload: &Bytes) {
        let Some(tag) = header.tag() else { return };
        let id = if tag.transfer & PUSHED == 0 {
            TransferId(tag.transfer)
        } else {
            match self.pushed.get(&(header.source, tag.transfer)) {
                Some(id) => *id,
                None => return self.on_pushed(now, header, tag, payload),
            }
        };
        let Some(fetch) = self.fetches.get_mut(&id).filter(|fetch| fetch.object == Some(tag.object)) else {
            self.strays += 1;
            return;
        };
        if fetch.ended.is_some() {
            // It did not hear that all is well.
            if fetch.failure.is_none() && fetch.reliability != Reliability::DontCare {
                let chunks = ChunkRanges::default();
                let (transfer, object) = (fetch.transfer, tag.object);
                let message = TransportMessage::Ack { transfer, object, complete: true, chunks };
                self.outbox.push_back(Outgoing::new(header.source, header.source_address, message));
            }
            return;
        }
        let bytes = payload.len() as u64;
        let Some(reassembly) = &mut fetch.reassembly else { return };
        if fetch.sender.is_some_and(|(known, _)| known != header.source)
            && reassembly.cut().is_some_and(|cut| cut != (tag.chunk_bytes, tag.count))
        {
            // What the last one began is over; the next cuts it another way.
            reassembly.restart();
            fetch.windows.clear();
        }
        let first = fetch.sender.is_none_or(|(known, _)| known != header.source);
        fetch.sender = Some((header.source, header.source_address));
        if first {
            fetch.windows.clear();
            (fetch.highest_window, fetch.nacks) = (None, 0);
        }
        fetch.lonely_since = now;
        let (number, chunk_bytes, count) = (tag.number, tag.chunk_bytes, tag.count);
        match reassembly.take(number, chunk_bytes, count, payload) {
            Taken::Kept(stored) => {
                fetch.nacks = 0;
                fetch.on_useful(now, header, bytes);
                fetch.on_window(tag);
                let stored = stored.into_iter().map(|(index, bytes)| (id, TransferEvent::ChunkStored { index, bytes }));
                self.events.extend(stored);
            }
            Taken::Duplicate => fetch.duplicate_bytes += bytes,
            Taken::Wrong(reason) => return self.distrust(now, id, header, reason),
            Taken::Failed(reason) => return self.fail(now, id, reason),
        }
        if fetch.reliability == Reliability::Ack {
            let chunks = ChunkRanges::from_ascending([number]);
            let (transfer, object) = (fetch.transfer, tag.object);
            let message = TransportMessage::Ack { transfer, object, complete: false, chunks };
            self.outbox.push_back(Outgoing::new(header.source, header.source_address, message));
        }
        fetch.set_nack(now, self.config.nack_timeout);
        let window = fetch.complete_window();
        if let Some(window) = window {
            fetch.limit.on_pass(now, bytes * u64::from(fetch.window_chunks));
            self.limit.on_pass(now, bytes * u64::from(fetch.window_chunks));
            let at = fetch.limit.ready_at().max(self.limit.ready_at()).max(now);
            fetch.status_at = Some((at, window));
        }
        self.finish_if_complete(now, id);
        self.say_due(now, id);
    }
    /// The first chunks of something that nobody here asked for.
    fn on_pushed(&mut self, now: Time, header: &ChunkHeader, tag: &DataTag, payload: &Bytes) {
        let key = (header.source, tag.transfer);
        let running = self.pushed.values().filter(|id| self.fetches.get(id).is_some_and(|fetch| fetch.ended.is_none()));
        if self.acceptor.is_none() || running.count() + self.early.len() >= PUSHED_MAX {
            self.strays += 1;
            return;
        }
        if tag.number != 0 {
            let early = self.early.entry(key).or_default();
            if early.len() < EARLY_MAX {
                early.push((header.clone(), payload.clone()));
            }
            return;
        }
        let manifest = manifest_of(payload).filter(|manifest| manifest.object_id() == tag.object);
        let opened = manifest.and_then(|manifest| {
            let acceptor = self.acceptor.as_mut()?;
            acceptor.trusts(&manifest).ok()?;
            Some((manifest.name.clone(), Reassembly::new(manifest, &mut **acceptor).ok()?))
        });
        let Some((name, reassembly)) = opened else {
            self.strays += 1;
            self.early.remove(&key);
            return;
        };
        let id = self.number();
        let mut incoming = Incoming::new(now, name, tag.transfer, tag.reliability, self.config.window_chunks);
        incoming.object = Some(tag.object);
        incoming.resumed = reassembly.stored_bytes();
        let (bytes, resumed_bytes) = (reassembly.manifest().size, incoming.resumed);
        incoming.reassembly = Some(reassembly);
        incoming.sources.push(Source::new(header.source));
        self.fetches.insert(id, incoming);
        self.pushed.insert(key, id);
        self.events.push_back((id, TransferEvent::Started { bytes, resumed_bytes }));
        self.handle_data(now, header, payload);
        for (header, payload) in self.early.remove(&key).unwrap_or_default() {
            self.handle_data(now, &header, &payload);
        }
        self.forget_old();
    }
    /// Who sent wrong bytes is asked no more; if it was a cache, caches are passed by.
    fn distrust(&mut self, now: Time, id: TransferId, header: &ChunkHeader, reason: String) {
        let Some(fetch) = self.fetches.get_mut(&id) else { return };
        if let Some(reassembly) = &mut fetch.reassembly {
            reassembly.restart();
        }
        (fetch.sender, fetch.highest_window) = (None, None);
        fetch.windows.clear();
        if header.flags.contains(Flags::CACHED) {
            fetch.avoid_caches = true;
            let node = node_of(&header.source);
            self.events.push_back((id, TransferEvent::CacheDistrusted { node, reason }));
        } else if let Some(number) = fetch.sources.iter().position(|source| source.guid == header.source) {
            let source = &mut fetch.sources[number];
            source.distrusted = Some(reason.clone());
            let label = source.label.clone();
            let source = SourceId(number as u16);
            self.events.push_back((id, TransferEvent::SourceDistrusted { source, label, reason: reason.clone() }));
            if fetch.sources.iter().all(|source| source.distrusted.is_some()) {
                let reason = format!("no source of '{}' can be trusted: {reason}", fetch.name);
                return self.fail(now, id, reason);
            }
        } else {
            self.strays += 1;
        }
        self.request(now, id);
    }
    /// Takes a message that is for a receiver.
    pub fn handle_message(&mut self, now: Time, from: Guid, message: &TransportMessage) {
        let TransportMessage::Unavailable { transfer, object } = message else { return };
        let id = TransferId(*transfer);
        let asked = |fetch: &&mut Incoming| fetch.object == Some(*object) && fetch.ended.is_none();
        if let Some(fetch) = self.fetches.get_mut(&id).filter(asked) {
            let is_known = fetch.sources.iter().any(|source| source.guid == from);
            if is_known || fetch.sender.is_some_and(|(sender, _)| sender == from) {
                (fetch.nacks, fetch.sender) = (fetch.nacks + 1, None);
                fetch.avoid_caches |= !is_known;
                // Not at once: it may be the only one, and about to come back.
                fetch.set_nack(now, self.config.nack_timeout / 4);
            }
        }
    }

    // Driving.

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        let ids: Vec<TransferId> =
            self.fetches.iter().filter(|(_, fetch)| fetch.ended.is_none()).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(fetch) = self.fetches.get_mut(&id) else { continue };
            if let Some(reassembly) = fetch.reassembly.as_mut().filter(|reassembly| reassembly.awaits_reader()) {
                match reassembly.store_waiting() {
                    Taken::Kept(stored) if !stored.is_empty() => {
                        fetch.lonely_since = now;
                        let told =
                            stored.into_iter().map(|(index, bytes)| (id, TransferEvent::ChunkStored { index, bytes }));
                        self.events.extend(told);
                    }
                    Taken::Failed(reason) => {
                        self.fail(now, id, reason);
                        continue;
                    }
                    Taken::Kept(_) | Taken::Duplicate | Taken::Wrong(_) => {}
                }
                self.finish_if_complete(now, id);
            }
            self.say_due(now, id);
            let Some(fetch) = self.fetches.get_mut(&id).filter(|fetch| fetch.ended.is_none()) else { continue };
            if let Some(patience) = fetch.patience.filter(|_| self.attached)
                && now.since(fetch.lonely_since) >= patience
            {
                let reason = fetch.lonely_reason(patience);
                self.fail(now, id, reason);
                continue;
            }
            if fetch.nack_at <= now && self.attached && fetch.object.is_some() {
                self.nack(now, id);
            }
        }
    }
    /// Nothing has come for a long time: says what is missing, again and again (paper: NACK timeout).
    fn nack(&mut self, now: Time, id: TransferId) {
        let Some(fetch) = self.fetches.get_mut(&id) else { return };
        fetch.nacks += 1;
        if fetch.reliability == Reliability::DontCare && fetch.transfer & PUSHED != 0 {
            return self.fail(now, id, "chunks are missing, and the sender does not care".into());
        }
        let nothing_yet = fetch.sender.is_none() || fetch.nacks > 1;
        if nothing_yet && fetch.transfer & PUSHED == 0 {
            fetch.sender = None;
            self.request(now, id);
        } else {
            let window = fetch.highest_window.unwrap_or(0);
            fetch.status_at = Some((now, window));
            self.say_due(now, id);
        }
        if let Some(fetch) = self.fetches.get_mut(&id) {
            fetch.set_nack(now, self.config.nack_timeout);
        }
    }
    /// The one message per window, if it is due.
    fn say_due(&mut self, now: Time, id: TransferId) {
        let (config, limit_ready) = (self.config.clone(), self.limit.ready_at());
        let Some(fetch) = self.fetches.get_mut(&id).filter(|fetch| fetch.ended.is_none()) else { return };
        let Some((_, window)) = fetch.status_at.filter(|(at, _)| (*at).max(limit_ready.min(*at)) <= now) else {
            return;
        };
        let (Some(reassembly), Some((to, address)), Some(object)) = (&fetch.reassembly, fetch.sender, fetch.object)
        else {
            return;
        };
        let share = reassembly.buffered_bytes() * 100 / config.buffer_bytes.0.max(1);
        // Window notice (reference/mobilityfirst): below 50 % increase, 50 to 80 % decrease, above 80 % stop.
        let chunk_bytes = reassembly.cut().map_or(config.chunk_bytes, |(chunk_bytes, _)| chunk_bytes);
        let most = (config.buffer_bytes.0 / u64::from(chunk_bytes.max(1)) / 4).clamp(1, u64::from(u16::MAX)) as u16;
        let most = most.min(config.window_chunks_max);
        let limited = fetch.limit.rate().is_some() || self.limit.rate().is_some();
        let advice = match share {
            0..50 if limited => fetch.window_chunks,
            0..50 => fetch.window_chunks.saturating_mul(2).min(most),
            50..=80 => (fetch.window_chunks / 2).max(1),
            _ => 0,
        };
        fetch.stopped = advice == 0;
        if advice > 0 {
            fetch.window_chunks = advice;
        }
        fetch.sequence += 1;
        let highest = reassembly.highest;
        let sent = |number: &u32| *number < highest || fetch.nacks > 0;
        let missing = ChunkRanges::from_ascending(reassembly.missing().filter(sent));
        let message = TransportMessage::Status {
            transfer: fetch.transfer,
            object,
            window,
            advice_chunks: advice,
            sequence: fetch.sequence,
            missing: if fetch.nacks > 0 { missing } else { ChunkRanges::default() },
        };
        fetch.status_at = fetch.stopped.then(|| (now + LOOK_AGAIN, window));
        self.outbox.push_back(Outgoing::new(to, address, message));
    }
    fn finish_if_complete(&mut self, now: Time, id: TransferId) {
        let Some(fetch) = self.fetches.get_mut(&id).filter(|fetch| fetch.ended.is_none()) else { return };
        let Some(reassembly) = fetch.reassembly.as_mut().filter(|reassembly| reassembly.is_complete()) else { return };
        if let Err(reason) = reassembly.finish() {
            return self.fail(now, id, reason);
        }
        fetch.ended = Some(now);
        if let (Some((to, address)), Some(object)) = (fetch.sender, fetch.object)
            && fetch.reliability != Reliability::DontCare
        {
            let chunks = ChunkRanges::default();
            let message = TransportMessage::Ack { transfer: fetch.transfer, object, complete: true, chunks };
            self.outbox.push_back(Outgoing::new(to, address, message));
        }
        self.done.push_back(fetch.name.clone());
        self.events.push_back((id, TransferEvent::Completed));
    }
    fn fail(&mut self, now: Time, id: TransferId, reason: String) {
        let Some(fetch) = self.fetches.get_mut(&id) else { return };
        fetch.ended = Some(now);
        fetch.failure = Some(reason.clone());
        fetch.reassembly = None;
        self.done.push_back(fetch.name.clone());
        self.events.push_back((id, TransferEvent::Failed { reason }));
    }
    /// What to send.
    pub fn poll_message(&mut self) -> Option<Outgoing> {
        self.outbox.pop_front()
    }
    /// What happened.
    pub fn poll_event(&mut self) -> Option<(TransferId, TransferEvent)> {
        self.events.pop_front()
    }
    /// A name that no fetch needs announcements of any more.
    pub fn poll_done(&mut self) -> Option<Name> {
        while let Some(name) = self.done.pop_front() {
            if !self.fetches.values().any(|fetch| fetch.name == name && fetch.ended.is_none()) {
                return Some(name);
            }
        }
        None
    }
    /// When to call [`Receiver::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let running = self.fetches.values().filter(|fetch| fetch.ended.is_none());
        let due = running.flat_map(|fetch| {
            let nack = Some(fetch.nack_at).filter(|_| self.attached && fetch.object.is_some());
            let patience = fetch.patience.map(|patience| fetch.lonely_since + patience).filter(|_| self.attached);
            let reader = fetch.reassembly.as_ref().is_some_and(Reassembly::awaits_reader);
            let reader = reader.then(|| fetch.lonely_since.max(fetch.last_look()) + LOOK_AGAIN);
            [nack, patience, fetch.status_at.map(|(at, _)| at), reader]
        });
        due.flatten().min()
    }

    // Questions.

    /// The account of a transfer.
    pub fn report(&self, now: Time, id: TransferId) -> Option<TransferReport> {
        self.fetches.get(&id).map(|fetch| fetch.report(now))
    }
    /// All transfers that are remembered, oldest first.
    pub fn transfers(&self) -> Vec<(TransferId, Name)> {
        self.fetches.iter().map(|(id, fetch)| (*id, fetch.name.clone())).collect()
    }
    /// Whether a fetch of this name runs.
    pub fn wants(&self, name: &Name) -> bool {
        self.fetches.values().any(|fetch| fetch.name == *name && fetch.ended.is_none())
    }
}

impl Outgoing {
    fn new(to: Guid, address: NetworkAddress, message: TransportMessage) -> Outgoing {
        Outgoing { to, address, message, flags: Flags::NONE }
    }
}

enum Opened {
    No,
    Yes,
    Failed(String),
}

impl Incoming {
    fn new(now: Time, name: Name, transfer: u32, reliability: Reliability, window_chunks: u16) -> Incoming {
        Incoming {
            name,
            opener: None,
            patience: None,
            limit: TokenBucket::new(None, Duration::from_millis(20)),
            started: now,
            ended: None,
            failure: None,
            resumed: 0,
            reassembly: None,
            object: None,
            content: Guid::NONE,
            sources: Vec::new(),
            asked: None,
            sender: None,
            transfer,
            reliability,
            avoid_caches: false,
            windows: BTreeMap::new(),
            highest_window: None,
            status_at: None,
            window_chunks,
            stopped: false,
            sequence: 0,
            nack_at: Time::MAX,
            nacks: 0,
            lonely_since: now,
            cached_bytes: 0,
            repeated_bytes: 0,
            duplicate_bytes: 0,
            recent: VecDeque::new(),
        }
    }
    /// Takes note of sources, and chooses the object: one that can be gone on with, else the highest version.
    fn consider(&mut self, found: &[(Guid, Manifest)]) -> Opened {
        let Some(opener) = self.opener.as_mut() else { return Opened::No };
        let mut trusted = Vec::new();
        for (device, manifest) in found {
            let known = self.sources.iter().any(|source| source.guid == *device);
            let verdict = opener.trusts(manifest);
            if !known {
                let distrusted = verdict.as_ref().err().map(ToString::to_string);
                self.sources.push(Source { distrusted, ..Source::new(*device) });
            }
            if verdict.is_ok() {
                trusted.push((device, manifest));
            }
        }
        if let Some(object) = self.object {
            for (device, _) in trusted.iter().filter(|(_, manifest)| manifest.object_id() != object) {
                if let Some(source) = self.sources.iter_mut().find(|source| source.guid == **device) {
                    source.distrusted.get_or_insert_with(|| "offers another version or another file".into());
                }
            }
            return Opened::No;
        }
        let best = trusted.iter().max_by_key(|(_, manifest)| (opener.resumes(manifest), manifest.version));
        let Some((_, manifest)) = best else { return Opened::No };
        let manifest = (*manifest).clone();
        let object = manifest.object_id();
        for (device, other) in &trusted {
            if other.object_id() != object
                && let Some(source) = self.sources.iter_mut().find(|source| source.guid == **device)
            {
                source.distrusted = Some("offers another version or another file".into());
            }
        }
        self.content = Guid::of_content(&manifest.publisher, &manifest.name);
        match Reassembly::new(manifest, &mut **opener) {
            Ok(reassembly) => {
                self.resumed = reassembly.stored_bytes();
                self.object = Some(object);
                self.reassembly = Some(reassembly);
                Opened::Yes
            }
            Err(reason) => Opened::Failed(reason),
        }
    }
    fn set_nack(&mut self, now: Time, timeout: Duration) {
        self.nack_at = now + timeout * 2u32.pow(self.nacks.min(BACKOFF_MAX));
    }
    fn on_useful(&mut self, now: Time, header: &ChunkHeader, bytes: u64) {
        if header.flags.contains(Flags::CACHED) {
            self.cached_bytes += bytes;
        } else if let Some(source) = self.sources.iter_mut().find(|source| source.guid == header.source) {
            source.bytes += bytes;
            source.hops = u32::from(HOPS_MAX - header.hops_left) + 1;
        }
        if header.flags.contains(Flags::REPEATED) {
            self.repeated_bytes += bytes;
        }
        self.recent.push_back((now, bytes));
        while self.recent.front().is_some_and(|(at, _)| now.since(*at) > Duration::from_secs(2)) {
            self.recent.pop_front();
        }
    }
    fn on_window(&mut self, tag: &DataTag) {
        if tag.window_chunks > 0 {
            let window = self.windows.entry(tag.window).or_insert((tag.window_chunks, BTreeSet::new()));
            window.1.insert(tag.number);
            self.highest_window = Some(self.highest_window.map_or(tag.window, |highest| highest.max(tag.window)));
        }
    }
    /// A window of which all chunks are here; each once, the highest if there are several.
    fn complete_window(&mut self) -> Option<u16> {
        let full = self.windows.iter().filter(|(_, (chunks, here))| here.len() >= usize::from(*chunks));
        let window = full.map(|(window, _)| *window).max()?;
        self.windows.retain(|number, (chunks, here)| *number > window || here.len() < usize::from(*chunks));
        Some(window)
    }
    fn last_look(&self) -> Time {
        self.recent.back().map_or(self.started, |(at, _)| *at)
    }
    fn lonely_reason(&self, patience: Duration) -> String {
        let seconds = patience.as_secs_f64();
        match (&self.reassembly, self.sources.len()) {
            (None, 0) => format!("no publisher of '{}' answered within {seconds:.0} s", self.name),
            (None, _) => format!("no source of '{}' can be trusted", self.name),
            (Some(reassembly), sources) => format!(
                "none of the {sources} sources of '{}' answered for {seconds:.0} s; {} of {} bytes are verified and kept",
                self.name,
                reassembly.stored_bytes(),
                reassembly.manifest().size
            ),
        }
    }
    fn report(&self, now: Time) -> TransferReport {
        let sources = self.sources.iter().zip(0..).map(|(source, number)| SourceReport {
            source: SourceId(number),
            node: node_of(&source.guid),
            label: source.label.clone(),
            bytes: source.bytes,
            distrusted: source.distrusted.clone(),
            closed: None,
        });
        let paths = self.sources.iter().zip(0..).map(|(source, number)| self.path_report(now, source, number));
        let size = self.reassembly.as_ref().map_or(0, |reassembly| reassembly.manifest().size);
        TransferReport {
            bytes: size,
            stored_bytes: self.reassembly.as_ref().map_or(0, Reassembly::stored_bytes),
            resumed_bytes: self.resumed,
            cached_bytes: self.cached_bytes,
            retransmitted_bytes: self.repeated_bytes,
            duplicate_bytes: self.duplicate_bytes,
            started: self.started,
            ended: self.ended,
            failure: self.failure.clone(),
            sources: sources.collect(),
            paths: paths.collect(),
        }
    }
    fn path_report(&self, now: Time, source: &Source, number: u16) -> PathReport {
        let sends = self.sender.is_some_and(|(sender, _)| sender == source.guid);
        let (state, reason) = match (&source.distrusted, self.ended, sends) {
            (Some(reason), ..) => (PathState::Closed, reason.clone()),
            (None, Some(_), _) => (PathState::Idle, "the transfer has ended".into()),
            (None, None, true) if self.nacks > 0 => (PathState::Silent, "nothing comes; asked again".into()),
            (None, None, true) => (PathState::Active, "sends".into()),
            (None, None, false) => (PathState::Idle, "the network chose another source".into()),
        };
        let since = self.recent.front().map_or(Duration::ZERO, |(at, _)| now.since(*at));
        let recent: u64 = self.recent.iter().map(|(_, bytes)| bytes).sum();
        PathReport {
            path: PathId(number),
            source: SourceId(number),
            label: source.label.clone(),
            hops: source.hops,
            groups: Vec::new(),
            state,
            reason,
            bytes: source.bytes,
            cached_bytes: 0,
            requested_packets: 0,
            lost_packets: 0,
            in_flight_bytes: 0,
            window_bytes: self
                .reassembly
                .as_ref()
                .and_then(Reassembly::cut)
                .map_or(0, |(chunk_bytes, _)| u64::from(chunk_bytes) * u64::from(self.window_chunks)),
            rate: Rate::over(recent, since).filter(|_| sends).unwrap_or_default(),
            rtt: None,
            rtt_min: None,
        }
    }
}

impl Source {
    fn new(guid: Guid) -> Source {
        Source { guid, label: guid.to_string(), bytes: 0, hops: 0, distrusted: None }
    }
}

/// The number by which people know a GUID: its first eight bytes.
pub fn node_of(guid: &Guid) -> NodeId {
    NodeId(u64::from_be_bytes(*guid.0.first_chunk().expect("8 of 20 bytes")))
}

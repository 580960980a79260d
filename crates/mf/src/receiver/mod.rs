//! The receiving end (paper §3.1, §3.2.2, §3.4.2): asks for objects, says once per window how much may come and what is
//! missing, and takes what is pushed.
mod chunks;
mod custody;
mod doubt;
mod driving;
mod incoming;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::{String, ToString},
    vec::Vec,
};

use bytes::Bytes;
use tributary_content::{Manifest, Name, ObjectId, StoreError, StoreOpener};
use tributary_core::{
    Duration, NodeId, PathId, Rate, SourceId, Time, TransferId,
    event::{PathReport, PathState, TransferEvent, TransferReport},
};
use tributary_transport::{
    Fetch,
    choice::{self, Choice, Standing},
    fetches::{FetchTable, Fetching, LIMIT_BURST},
    limit::TokenBucket,
    sources::{self, Evidence, Sources},
    transfer::STOOD_STILL,
};

use doubt::Doubt;
use incoming::{Asked, Gaps, Incoming, Opened, Peer, Source, Suspicion};

use crate::{
    config::EndConfig,
    custody::Answer,
    ids::{ChunkKey, Custodian, Guid, NetworkAddress, Token},
    payload::Payload,
    reassembly::{Check, Origin, Reassembly, Stored, Taken, Wrong, manifest_of},
    sender::{ProxyUse, is_pushed, nearest_window, on_wire},
    wire::{ChunkHeader, ChunkRanges, CustodyState, DataTag, Flags, Reliability, TransportMessage, chunk::HOPS_MAX},
};

/// A NACK timeout that is chosen is at least so long.
pub const NACK_TIMEOUT_MIN: Duration = Duration::from_millis(50);
/// Ended transfers whose reports are kept.
const ENDED_MAX: usize = 256;
/// How long a router that has started anew has to find its neighbours and routes before it is said by way of it what is
/// missing. What is still upstream of it is asked for too; routers that have a chunk take no other copy of it.
const RESTART_PATIENCE: Duration = Duration::from_millis(150);
/// For so many NACK timeouts at most a chunk of the object that is coming puts a NACK off.
const POSTPONED_MAX: u32 = 16;
/// The same of packets of whatever else is coming: those of the object may be in line behind it. If they are, it costs
/// little to ask for them: routers that have a chunk take no other copy of it.
const POSTPONED_BY_OTHERS_MAX: u32 = 2;
/// How much a request's wait grows at most.
const BACKOFF_MAX: u32 = 2;
/// How long the announcements of other publishers are waited for while nothing is known of who publishes a name, and the
/// name service has not sent all of its records.
const GATHER_TIME: Duration = Duration::from_millis(250);
/// How long a chunk and a window take under a limit; two windows may be under way. Windows that are too short for the
/// round trip grow up to the last.
const LIMITED_CHUNK: Duration = Duration::from_millis(50);
const LIMITED_WINDOW: Duration = Duration::from_millis(100);
const LIMITED_WINDOW_MAX: Duration = Duration::from_millis(400);
/// Windows of an object at most under a limit: its source remembers where each begins.
const LIMITED_WINDOWS: u64 = 50_000;
/// How long it is waited until what was wrong twice is asked for again; doubles up to four NACK timeouts. The first time
/// it is asked for at once.
const WRONG_PAUSE: Duration = Duration::from_millis(100);
/// How often a source is asked again, past copies, for what came wrong in its name, and nothing of it right, until it is
/// called a liar: somebody on the way may have changed it.
const WRONG_ASKS: u32 = 6;
/// For so many NACK timeouts who did not answer, or was said to be gone, is asked only if nobody else can be.
const AWAY_TIMEOUTS: u32 = 4;
/// After this part of a NACK timeout, one in so many, a sender that is silent is asked whether it is still there, if others
/// could go on for it; the wait doubles, and so often it is asked.
const CALL_PART: u32 = 8;
const CALLS_MAX: u32 = 3;
/// For how long something that is pushed may come wrong, and nothing of it right, until it is given up.
const WRONG_LIFETIME: Duration = Duration::from_secs(600);
/// How often a sender that was stopped, or a reader that is slow, is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Pushed objects that are received at the same time at most: of others it is said that there is no room now, and whoever
/// keeps them waits.
const PUSHED_MAX: usize = 256;
/// Pushed objects of which it is remembered that they came, so that copies are known, beside those under way.
const PUSHED_KEPT: usize = 4_096;
/// Chunks of a pushed object that are kept before its description has come, or somebody takes what is pushed.
const EARLY_MAX: usize = 64;
/// An object of which nothing has come for so long makes room for others, if there is none.
const EARLY_PATIENCE: Duration = Duration::from_secs(60);

/// What to send to whom.
#[derive(Clone, PartialEq, Debug)]
pub struct Outgoing {
    /// To whom.
    pub to: Guid,
    /// Where it is, as far as known.
    pub address: NetworkAddress,
    /// The token of the transfer that it is about.
    pub token: Token,
    /// What.
    pub message: TransportMessage,
    /// Whether caches may answer.
    pub flags: Flags,
    /// Proxies that a request for what a group misses may still ask.
    pub proxies: u8,
}

/// How one object is fetched. `None` leaves a choice to the node's settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FetchOptions {
    /// Bytes of a chunk that is asked for.
    pub chunk_bytes: Option<u32>,
    /// How sure it has to be.
    pub reliability: Option<Reliability>,
    /// How long nothing may come before it is said what is missing.
    pub nack_timeout: Option<Duration>,
    /// What storage on the way is to do with it.
    pub proxy: Option<ProxyUse>,
}

impl FetchOptions {
    fn nack_timeout(&self, config: &EndConfig) -> Duration {
        self.nack_timeout.unwrap_or(config.nack_timeout)
    }
}

/// A device that has something, and what it calls itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Announcer {
    /// The device.
    pub guid: Guid,
    /// For people; may be empty.
    pub label: String,
}

/// Whether announcements are all that there are of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Announced {
    /// They are.
    All,
    /// There may be more: the name service has not sent all of its records yet.
    Some,
}

/// All that a node receives.
pub struct Receiver {
    config: EndConfig,
    /// What the tokens of fetches are made of.
    secret: [u8; 32],
    fetches: FetchTable<Incoming>,
    pushed: BTreeMap<(Guid, u32), TransferId>,
    /// The keys of `pushed`, the oldest first.
    pushed_since: VecDeque<(Guid, u32)>,
    /// What became of those in `pushed` whose fetches are forgotten: whoever missed the answer sends again.
    settled: BTreeMap<(Guid, u32), Settled>,
    /// Decides on what is pushed and where it is stored; nothing is taken without one.
    acceptor: Option<Box<dyn StoreOpener>>,
    /// Chunks of pushed objects whose description has not come, or that nobody takes yet.
    early: BTreeMap<(Guid, u32), Early>,
    attached: bool,
    /// When packets of chunks for this node last came.
    active_at: Time,
    /// Objects, by the numbers of their transfers, of which a chunk is coming, and when a packet of it came last.
    arriving: BTreeMap<(Option<ObjectId>, u32), Time>,
    outbox: VecDeque<Outgoing>,
    /// What custodians are to be told of their chunks.
    answers: VecDeque<Answer>,
    /// Custodians of what there was no room for: they are told when there is.
    refused_to: BTreeMap<Custodian, Answer>,
    /// Names whose announcements are not needed any more.
    done: VecDeque<Name>,
    /// Chunks that belong to no transfer of ours.
    pub strays: u64,
    /// Chunks for which there was no room.
    pub refused: u64,
    /// Bytes that came and were not what their manifest says.
    pub wrong: WrongBytes,
}

/// Bytes that were wrong, by who sent them. Of what several sent together the wrong ones are not known: all count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WrongBytes {
    /// Sources.
    pub sources: u64,
    /// Storage on the way, in the name of sources.
    pub storage: u64,
    /// Caches, and who is not known.
    pub caches: u64,
}

impl WrongBytes {
    fn count(&mut self, origin: Origin, bytes: u64) {
        *match origin {
            Origin::Source(_) => &mut self.sources,
            Origin::Storage(_) => &mut self.storage,
            Origin::Cache => &mut self.caches,
        } += bytes;
    }
}

/// What became of a pushed object.
struct Settled {
    object: ObjectId,
    token: Token,
    has_all: bool,
}

/// Chunks of a pushed object that is not being received yet.
struct Early {
    chunks: Vec<(ChunkHeader, Bytes)>,
    heard_at: Time,
}

impl Receiver {
    /// Without transfers. `first` is where they are numbered from, so that those of an earlier life are not mixed up
    /// with new ones, and `secret` what their tokens are made of.
    pub fn new(config: EndConfig, first: u32, secret: &[u8; 32]) -> Receiver {
        Receiver {
            config,
            secret: *secret,
            fetches: FetchTable::new(first, ENDED_MAX),
            pushed: BTreeMap::new(),
            pushed_since: VecDeque::new(),
            settled: BTreeMap::new(),
            acceptor: None,
            early: BTreeMap::new(),
            attached: false,
            active_at: Time::ZERO,
            arriving: BTreeMap::new(),
            outbox: VecDeque::new(),
            answers: VecDeque::new(),
            refused_to: BTreeMap::new(),
            done: VecDeque::new(),
            strays: 0,
            refused: 0,
            wrong: WrongBytes::default(),
        }
    }
    /// From now on objects that are pushed are taken if `acceptor` trusts them; none without one. What came shortly
    /// before waits for [`Receiver::take_early`].
    pub fn accept(&mut self, acceptor: Option<Box<dyn StoreOpener>>) {
        self.acceptor = acceptor;
    }

    /// Packets of chunks for this node, whole or not yet, last came at `at`.
    /// What is `arriving` now are these.
    pub fn on_activity(&mut self, at: Time, arriving: impl Iterator<Item = (ChunkKey, Time)>) {
        self.active_at = at;
        self.arriving.clear();
        for (key, at) in arriving {
            let heard = self.arriving.entry((Some(key.object), key.transfer)).or_insert(at);
            *heard = at.max(*heard);
        }
    }
    /// How long nothing may come before it is said what is missing.
    pub fn set_nack_timeout(&mut self, timeout: Duration) {
        self.config.nack_timeout = timeout.max(NACK_TIMEOUT_MIN);
    }

    // Fetches.

    /// Starts a fetch; what is announced under its name goes to [`Receiver::handle_announcements`].
    pub fn fetch(&mut self, now: Time, fetch: Fetch, options: FetchOptions) -> TransferId {
        let id = self.fetches.number();
        let reliability = options.reliability.unwrap_or(self.config.reliability);
        let token = Token::of(&self.secret, &Guid::NONE, id.0);
        let mut incoming = Incoming::new(now, fetch.name, (id.0, token), reliability, self.config.window_chunks);
        incoming.opener = Some(fetch.opener);
        (incoming.patience, incoming.options) = (fetch.patience, options);
        incoming.limit = TokenBucket::new(fetch.rate_limit, LIMIT_BURST);
        self.insert(id, incoming);
        id
    }
    /// Adds a fetch. What became of a pushed object outlives its fetch.
    fn insert(&mut self, id: TransferId, fetch: Incoming) {
        // Those that are forgotten may have events left.
        self.collect_events();
        for (id, fetch) in self.fetches.insert(id, fetch) {
            let (Some(object), Some(source)) = (fetch.object, fetch.sources.first()) else { continue };
            let key = (source.state.guid, fetch.transfer);
            if self.pushed.get(&key) == Some(&id) {
                let settled = Settled { object, token: fetch.token, has_all: fetch.failure.is_none() };
                self.settled.insert(key, settled);
            }
        }
    }
    /// What devices announce under a name: the device and the manifest. While nothing is known of who publishes it, a part of
    /// the announcements decides nothing for [`GATHER_TIME`].
    pub fn handle_announcements(
        &mut self,
        now: Time,
        name: &Name,
        found: &[(Announcer, Manifest)],
        announced: Announced,
    ) {
        let is_meant = |(_, fetch): &(TransferId, &Incoming)| fetch.name == *name && fetch.opener.is_some();
        let ids: Vec<TransferId> = self.fetches.running().filter(is_meant).map(|(id, _)| id).collect();
        for id in ids {
            let Some(fetch) = self.fetches.get_mut(id) else { continue };
            if announced == Announced::Some && fetch.gather(now, found) {
                continue;
            }
            self.decide(now, id, found);
        }
    }
    /// Chooses among announcements, or judges the sources of a fetch that has chosen by them.
    fn decide(&mut self, now: Time, id: TransferId, found: &[(Announcer, Manifest)]) {
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        fetch.gathered = None;
        let had_source = fetch.sources.any_usable();
        let opened = fetch.consider(found);
        let has_first = !had_source && fetch.sources.any_usable();
        let is_open = fetch.reassembly.as_ref().is_some_and(Reassembly::is_open);
        match opened {
            // There was nobody to ask when the store was opened, or since.
            Opened::No if has_first && is_open => self.request(now, id),
            Opened::No | Opened::Begun => {}
            Opened::Failed(reason) => self.fail(now, id, reason),
            Opened::Yes => self.on_open(now, id),
        }
    }
    /// The store of a fetch is open: asks for what is missing, and takes what came meanwhile.
    fn on_open(&mut self, now: Time, id: TransferId) {
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        let Some(reassembly) = &fetch.reassembly else { return };
        fetch.resumed = reassembly.stored_bytes();
        let (bytes, resumed_bytes) = (reassembly.manifest().size, fetch.resumed);
        fetch.events.push_back(TransferEvent::Started { bytes, resumed_bytes });
        if !is_pushed(fetch.transfer) {
            self.request(now, id);
        } else if let Some(guid) = fetch.sources.first().map(|source| source.state.guid) {
            let key = (guid, fetch.transfer);
            for (header, payload) in self.early.remove(&key).map(|early| early.chunks).unwrap_or_default() {
                self.handle_data(now, &header, &payload.into());
            }
        }
        self.finish_if_complete(now, id);
        self.settle_custody(now, id);
    }
    /// Takes what stores have answered that work on another thread.
    pub fn handle_storage(&mut self, now: Time) {
        let awaits = |fetch: &Incoming| fetch.reassembly.as_ref().is_some_and(Reassembly::awaits_storage);
        let ids: Vec<TransferId> = self.fetches.iter().filter(|(_, fetch)| awaits(fetch)).map(|(id, _)| id).collect();
        for id in ids {
            let Some(fetch) = self.fetches.get_mut(id) else { continue };
            let Some(reassembly) = &mut fetch.reassembly else { continue };
            let was_open = reassembly.is_open();
            let answered = reassembly.handle_storage();
            let is_open = reassembly.is_open();
            // What was stored before something failed, too.
            fetch.take_stored();
            match answered {
                Ok(true) => {}
                Ok(false) => continue,
                Err(reason) => {
                    self.fail(now, id, reason);
                    continue;
                }
            }
            fetch.lonely_since = now;
            if is_open && !was_open {
                self.on_open(now, id);
            }
            self.finish_if_complete(now, id);
            self.settle_custody(now, id);
        }
    }
    /// Asks for what is missing: the network chooses the nearest source, unless one has to be avoided.
    fn request(&mut self, now: Time, id: TransferId) {
        let buffer = self.buffer_of(id);
        let config = &self.config;
        let Some((fetch, shared)) = self.fetches.get_with_limit(id) else { return };
        if fetch.ended.is_some() {
            return;
        }
        if fetch.limit.ready_at().max(shared.ready_at()) > now {
            fetch.request_since.get_or_insert(now);
            return;
        }
        fetch.request_since = None;
        if fetch.reassembly.is_none() {
            return;
        }
        let asked = match fetch.choose(now) {
            None => return,
            Some(Asked::Nearest) => None,
            Some(Asked::Source(guid)) => Some(guid),
        };
        fetch.asked = asked;
        fetch.on_request(now);
        self.outbox.extend(asked.into_iter().flat_map(|guid| fetch.on_asked(guid)));
        let (Some(reassembly), Some(object)) = (&fetch.reassembly, fetch.object) else { return };
        let rate = fetch.limit.rate().into_iter().chain(shared.rate()).min();
        let size = reassembly.manifest().size;
        let limited = rate.map_or(u64::MAX, |rate| rate.bytes_in(LIMITED_CHUNK).max(1_024));
        let wanted =
            fetch.options.chunk_bytes.unwrap_or(config.chunk_bytes).min(u32::try_from(limited).unwrap_or(u32::MAX));
        let chunk_bytes = reassembly.cut().map_or(wanted, |(chunk_bytes, _)| chunk_bytes);
        if let Some(rate) = rate {
            fetch.window_chunks = fetch.window_chunks.min(limited_window(rate, LIMITED_WINDOW, chunk_bytes, size));
        }
        let room = u16::try_from(buffer / u64::from(chunk_bytes.max(1))).unwrap_or(u16::MAX).max(1);
        fetch.window_chunks = fetch.window_chunks.min(room);
        let message = TransportMessage::Request {
            transfer: fetch.transfer,
            object,
            chunk_bytes,
            reliability: fetch.reliability,
            buffer_chunks: fetch.window_chunks,
            held: reassembly.held(chunk_bytes),
        };
        let mut flags = fetch.options.proxy.map_or(Flags::NONE, ProxyUse::flags);
        if fetch.avoid_caches {
            flags |= Flags::NO_CACHE;
        }
        let to = fetch.asked.unwrap_or(fetch.content);
        self.outbox.push_back(Outgoing { flags, ..Outgoing::new(to, NetworkAddress::NONE, fetch.token, message) });
        fetch.ungranted = size.saturating_sub(reassembly.stored_bytes() + reassembly.buffered_bytes());
        (fetch.granted, fetch.asked_bytes) = (fetch.highest_window, chunk_bytes);
        let bytes = fetch.take_grant(2 * u64::from(fetch.window_chunks), chunk_bytes);
        fetch.limit.on_pass(now, bytes);
        shared.on_pass(now, bytes);
        fetch.set_nack(now, fetch.options.nack_timeout(config));
    }
    /// Ends a fetch; what is verified stays.
    pub fn cancel(&mut self, now: Time, id: TransferId) {
        if self.fetches.get(id).is_some_and(|fetch| fetch.ended.is_none()) {
            self.fail(now, id, "cancelled".into());
        }
    }
    /// Limits one fetch or all together, by the windows that senders are given.
    pub fn set_limit(&mut self, now: Time, id: Option<TransferId>, rate: Option<Rate>) {
        self.fetches.set_limit(now, id, rate);
    }
    /// What is on its way may not come, as an access router has started anew, or as it does not follow this node to where
    /// that is now: it is said soon what is missing.
    pub fn on_lost_way(&mut self, now: Time) {
        for (_, fetch) in self.fetches.running_mut() {
            let timeout = fetch.options.nack_timeout(&self.config);
            let until = now + timeout;
            fetch.suspicion = Some(Suspicion { patience: RESTART_PATIENCE, until });
            fetch.gaps = Some(Gaps::default());
            fetch.set_nack(now, timeout);
        }
    }
    /// The node is attached to a router, or not any more: what is not sent to it then is not missing.
    pub fn set_attached(&mut self, now: Time, attached: bool) {
        if attached && !self.attached {
            for (_, fetch) in self.fetches.iter_mut() {
                (fetch.lonely_since, fetch.calls) = (now, 0);
                fetch.set_nack(now, fetch.options.nack_timeout(&self.config));
            }
        }
        self.attached = attached;
    }

    // Room for what is not stored yet: it is there for all transfers together.

    fn buffered_bytes(&self) -> u64 {
        let running = self.fetches.iter().filter_map(|(_, fetch)| fetch.reassembly.as_ref());
        running.map(Reassembly::buffered_bytes).sum()
    }
    fn buffered_of(&self, id: TransferId) -> u64 {
        let reassembly = self.fetches.get(id).and_then(|fetch| fetch.reassembly.as_ref());
        reassembly.map_or(0, Reassembly::buffered_bytes)
    }
    /// What a transfer may buffer: all that others do not, and its part in any case.
    fn buffer_of(&self, id: TransferId) -> u64 {
        let most = self.config.buffer_bytes.0;
        let running = self.fetches.iter().filter(|(_, fetch)| fetch.reassembly.is_some()).count().max(1) as u64;
        let others = self.buffered_bytes() - self.buffered_of(id);
        most.saturating_sub(others).max(most / running)
    }
    /// Bytes that there is room for of a transfer. Where others have filled the buffer, those give back what came last that
    /// have more than this one would have.
    fn make_room(&mut self, id: TransferId, bytes: u64) -> u64 {
        let own = self.buffered_of(id);
        let mut free = self.config.buffer_bytes.0.saturating_sub(self.buffered_bytes());
        while free < bytes {
            let others = self.fetches.iter_mut().filter(|(other, _)| *other != id);
            let others = others.filter_map(|(_, fetch)| fetch.reassembly.as_mut());
            let largest = others.max_by_key(|other| other.buffered_bytes());
            let Some(largest) = largest.filter(|other| other.buffered_bytes() > own + bytes) else { break };
            let shed = largest.shed(bytes - free);
            if shed == 0 {
                break;
            }
            free += shed;
        }
        free
    }

    // Questions.

    /// The account of a transfer.
    pub fn report(&self, now: Time, id: TransferId) -> Option<TransferReport> {
        self.fetches.report(now, id)
    }
    /// All transfers that are remembered, oldest first.
    pub fn transfers(&self) -> Vec<(TransferId, Name)> {
        self.fetches.names()
    }
    /// Whether a fetch of this name runs.
    pub fn wants(&self, name: &Name) -> bool {
        self.fetches.running().any(|(_, fetch)| fetch.name == *name)
    }
}

impl Outgoing {
    /// An answer to whoever sent a chunk, by way of the proxies that it names.
    fn answer(header: &ChunkHeader, message: TransportMessage) -> Outgoing {
        let (proxies, token) = (header.proxies_left, header.token().unwrap_or_default());
        Outgoing { proxies, ..Outgoing::new(header.source, header.source_address, token, message) }
    }
    fn new(to: Guid, address: NetworkAddress, token: Token, message: TransportMessage) -> Outgoing {
        Outgoing { to, address, token, message, flags: Flags::NONE, proxies: 0 }
    }
}

/// Chunks of a window that takes so long under a limit.
fn limited_window(rate: Rate, time: Duration, chunk_bytes: u32, size: u64) -> u16 {
    let bytes = rate.bytes_in(time).max(size / LIMITED_WINDOWS);
    u16::try_from((bytes / u64::from(chunk_bytes.max(1))).max(1)).unwrap_or(u16::MAX)
}

/// The number by which people know a GUID: its first eight bytes.
pub fn node_of(guid: &Guid) -> NodeId {
    NodeId(u64::from_be_bytes(*guid.0.first_chunk().expect("8 of 20 bytes")))
}

#[cfg(test)]
mod tests {
    use tributary_transport::PathMetric;

    use super::*;

    /// A fetch without limits.
    pub(super) fn fetch_of(name: &Name, opener: impl StoreOpener + 'static) -> Fetch {
        Fetch {
            name: name.clone(),
            opener: Box::new(opener),
            rate_limit: None,
            paths_per_source: 1,
            metric: PathMetric::Hops,
            patience: None,
        }
    }
}

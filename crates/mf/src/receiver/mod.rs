//! The receiving end (paper §3.1, §3.2.2, §3.4.2): requests objects, grants windows, reports missing chunks once per
//! window, and accepts pushed objects.
//!
//! ```text
//!  announcements ──► choice ──► request ──► source
//!                                             │ chunks
//!  status, NACK ◄── windows, missing ◄── data ┴──► Reassembly ──► verified ──► store
//! ```
mod completion;
mod corrupt;
mod credit;
mod custody;
mod data;
mod incoming;
mod mirrors;
mod missing;
mod notices;
mod pushed;
mod requests;
mod suspects;
#[cfg(test)]
mod tests;
mod timeouts;
mod windows;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::ops::{Range, RangeInclusive};

use bytes::Bytes;
use tributary_content::{Manifest, Name, ObjectId, StoreError, StoreOpener, Unavailable};
use tributary_core::{
    Duration, NodeId, PathId, Rate, SourceId, Time, TransferId,
    event::{PathReport, PathState, TransferEvent, TransferReport},
};
use tributary_transport::{
    Fetch,
    fetches::{FetchTable, Fetching},
    messaging::GetOptions,
    object_choice::{self, Choice, Standing, Unfit},
    patience::Patience,
    record::Record,
    sources::{self, Evidence, Sources},
};

use credit::{Credit, Fill, LIMITED_CHUNK};
use custody::{Custody, CustodyAnswers};
use incoming::{Incoming, Opened, Peer, is_there};
use missing::{Gaps, Missing, NackTimer};
use pushed::Pushed;
use suspects::Trial;
use windows::Windows;

use crate::{
    config::EndConfig,
    custody::Answer,
    ids::{ChunkKey, Custodian, Guid, NetworkAddress, Token},
    payload::Payload,
    reassembly::{Check, Origin, Reassembly, Stored, Taken, Wrong, manifest_of},
    sender::{chunk_count, is_pushed, on_wire},
    wire::{
        ChunkHeader, ChunkRanges, CustodyState, DataTag, Flags, Reliability, TransportBody, TransportMessage,
        chunk::HOPS_MAX, transport::RANGES_MAX,
    },
};

/// Ended transfers whose reports are kept.
const ENDED_MAX: usize = 256;
/// An arriving chunk of the object postpones a NACK up to this many NACK timeouts.
const POSTPONED_MAX: u32 = 16;
/// The same for packets of other transfers, behind which the object's may be queued. If they are, requesting them costs
/// little: routers that have a chunk take no second copy of it.
const POSTPONED_BY_OTHERS_MAX: u32 = 2;
/// How long to wait for other publishers' announcements while a name's publisher is unknown, and the name service has
/// not sent all of its records.
const GATHER_TIME: Duration = Duration::from_millis(250);
/// Consecutive requests to a source, bypassing copies, for chunks corrupted in its name, before it counts as faulty:
/// another node on the way may have changed them.
const RETRIES_MAX: u32 = 6;
/// If no other source is left, a source that did not answer, or was reported as gone, is requested for this many NACK
/// timeouts.
const AWAY_TIMEOUTS: u32 = 4;
/// If others could take over, a silent sender is probed after this part (one eighth) of a NACK timeout; the wait
/// doubles with each of at most this many probes.
const PROBE_PART: u32 = 8;
const PROBES_MAX: u32 = 3;
/// A pushed object whose chunks all arrive corrupted fails after this time.
const CORRUPT_LIFETIME: Duration = Duration::from_secs(600);
/// The time that a chunk may occupy the slowest of several accesses: during that time the others carry the chunks
/// behind it, and at the end they wait for it. Its size has a lower bound, since each chunk carries a header.
const SLOWEST_CHUNK: Duration = Duration::from_millis(50);
const SLOWEST_CHUNK_BYTES_MIN: u64 = 32 << 10;
/// Interval of checks on a stopped sender or a slow reader.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A message to send.
#[derive(Clone, PartialEq, Debug)]
pub struct Outgoing {
    /// Its destination.
    pub to: Guid,
    /// The destination's address, if known.
    pub address: NetworkAddress,
    /// The token of the transfer that it is about.
    pub token: Token,
    /// The message.
    pub message: TransportMessage,
    /// Whether caches may answer.
    pub flags: Flags,
    /// Proxies that a request for a group's missing chunks may still try.
    pub proxies: u8,
}

/// A device that has an object, and its own name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Announcer {
    /// The device.
    pub guid: Guid,
    /// For people; may be empty.
    pub label: String,
}

/// Whether these are all announcements of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Announced {
    /// They are.
    All,
    /// There may be more: the name service has not sent all of its records yet.
    Some,
}

tributary_core::declared! {
    /// The receiving transfers of a node.
    pub struct Receiver {
        /// Its settings.
        pub config: EndConfig = config,
        /// What the tokens of fetches are derived from.
        secret: [u8; 32] = *secret,
        fetches: FetchTable<Incoming> = FetchTable::new(first, ENDED_MAX),
        pushed: Pushed = Pushed::default(),
        /// Answers to custodians.
        answers: CustodyAnswers = CustodyAnswers::default(),
        attached: bool = false,
        /// The rate of the slowest of several accesses, if known.
        slowest_access: Option<Rate> = None,
        /// Whether there are several.
        has_several_ways: bool = false,
        /// When the latest packets of chunks for this node arrived.
        active_at: Time = Time::ZERO,
        /// Objects with chunks in arrival, by transfer number, and when their latest packet arrived.
        arriving: BTreeMap<(Option<ObjectId>, u32), Time> = BTreeMap::new(),
        outbox: VecDeque<Outgoing> = VecDeque::new(),
        /// Names whose announcements no fetch needs anymore.
        done: VecDeque<Name> = VecDeque::new(),
        /// Chunks that belong to no transfer of ours.
        pub strays: u64 = 0,
        /// Chunks refused because the buffer was full.
        pub refused: u64 = 0,
        /// Bytes that contradicted their manifests.
        pub wrong: WrongBytes = WrongBytes::default(),
    }
    /// Creates a receiver without transfers. Numbering starts at `first`, so that a new run's transfers differ from
    /// an earlier run's; `secret` derives their tokens.
    pub fn new(config: EndConfig, first: u32, secret: &[u8; 32]) {}
}

/// Corrupted bytes, by sender. With several senders of a unit the faulty one is unknown: all count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WrongBytes {
    /// Sources.
    pub sources: u64,
    /// Storage on the way, in the name of sources.
    pub storage: u64,
    /// Caches and unknown nodes.
    pub caches: u64,
}

impl WrongBytes {
    fn count(&mut self, origin: Origin, bytes: u64) {
        *match origin {
            Origin::Source(_) => &mut self.sources,
            Origin::Storage(_) => &mut self.storage,
            Origin::Cache => &mut self.caches,
            Origin::Mirror => return,
        } += bytes;
    }
}

impl Receiver {
    // What happens around the receiver.

    /// Records that packets of chunks for this node last arrived at `at`; the chunks in `arriving` are incomplete.
    pub fn on_activity(&mut self, at: Time, arriving: impl Iterator<Item = (ChunkKey, Time)>) {
        self.active_at = at;
        self.arriving.clear();
        for (key, at) in arriving {
            let heard = self.arriving.entry((Some(key.object), key.transfer)).or_insert(at);
            *heard = at.max(*heard);
        }
    }
    /// Packets in flight may be lost, because an access router has restarted or chunks do not follow this node to its
    /// new place: shortens the NACK timeout.
    pub fn on_lost_way(&mut self, now: Time) {
        for (_, fetch) in self.fetches.running_mut() {
            fetch.missing.gaps = Some(Gaps::default());
            fetch.nack.on_router_restart(now, fetch.nack_timeout(&self.config));
        }
    }
    /// The node was attached to or detached from a router: chunks that no one sends in its absence are not missing.
    pub fn set_attached(&mut self, now: Time, attached: bool) {
        if attached && !self.attached {
            for (_, fetch) in self.fetches.iter_mut() {
                fetch.patience.restart(now);
                fetch.serving.probes = 0;
                fetch.nack.restart(now, fetch.nack_timeout(&self.config));
            }
        }
        self.attached = attached;
    }

    /// Sets the number of this node's accesses, and the rate of the slowest one, if known.
    pub fn set_accesses(&mut self, count: usize, slowest: Option<Rate>) {
        self.has_several_ways = count > 1;
        self.slowest_access = slowest.filter(|_| self.has_several_ways);
    }

    // Fetches.

    /// Starts a fetch; pass announcements of its name to [`Receiver::handle_announcements`].
    pub fn fetch(&mut self, now: Time, fetch: Fetch, options: GetOptions) -> TransferId {
        let id = self.fetches.number_for(&*fetch.opener);
        let reliability = options.reliability.unwrap_or(self.config.reliability);
        let token = Token::of(&self.secret, &Guid::NONE, id.0);
        let mut incoming = Incoming::new(now, fetch.name, (id.0, token), reliability, self.config.window_chunks);
        (incoming.opener, incoming.options) = (Some(fetch.opener), options);
        incoming.patience = Patience::new(now, fetch.patience);
        incoming.credit = Credit::new(self.config.window_chunks, fetch.rate_limit);
        self.insert(id, incoming);
        id
    }
    fn insert(&mut self, id: TransferId, fetch: Incoming) {
        // Those that are forgotten may have events left.
        self.collect_events();
        for (id, fetch) in self.fetches.insert(id, fetch) {
            self.pushed.on_forgotten(id, &fetch);
        }
    }
    /// Limits one fetch or all together, by the windows that senders are granted.
    pub fn set_limit(&mut self, now: Time, id: Option<TransferId>, rate: Option<Rate>) {
        self.fetches.set_limit(now, id, rate);
    }
    /// Takes announcements under a name: the device and the manifest. While the publisher is unknown, a part of the
    /// announcements decides nothing for 250 ms.
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
    /// The name service holds no announcement at a place that this node may read.
    pub fn handle_absence(&mut self, place: Guid) {
        let is_meant = |fetch: &Incoming| fetch.sources.is_empty() && fetch.gathered.is_none();
        let fetches = self.fetches.running_mut().map(|(_, fetch)| fetch).filter(|fetch| is_meant(fetch));
        for fetch in fetches.filter(|fetch| fetch.opener.is_some() && Guid::of_name(&fetch.name) == place) {
            fetch.record.on_absent("the name service knows no publisher of it");
        }
    }
    /// Chooses among announcements, or judges the sources of a fetch that has chosen by them.
    fn decide(&mut self, now: Time, id: TransferId, found: &[(Announcer, Manifest)]) {
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        fetch.gathered = None;
        let had_source = fetch.sources.any_usable();
        let opened = fetch.consider(found);
        let has_first = !had_source && fetch.sources.any_usable();
        let is_open = fetch.reassembly.as_ref().is_some_and(|it| it.writer.is_open());
        match opened {
            // There was no source to request from when the store was opened, or since.
            Opened::No if has_first && is_open => self.request(now, id),
            Opened::No | Opened::Begun => {}
            Opened::Failed(reason) => self.fail(now, id, reason),
            Opened::Yes => self.on_open(now, id),
        }
    }
    /// The store of a transfer is open: requests the missing chunks, and takes those that arrived early.
    fn on_open(&mut self, now: Time, id: TransferId) {
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        let Some(reassembly) = &fetch.reassembly else { return };
        let (bytes, stored) = reassembly.writer.sizes();
        fetch.record.on_open(bytes, stored);
        if !is_pushed(fetch.transfer) {
            self.request(now, id);
        } else if let Some(guid) = fetch.sources.first().map(|source| source.state.guid) {
            let key = (guid, fetch.transfer);
            for (header, payload) in self.pushed.take_early(&key) {
                self.handle_data(now, &header, &payload.into());
            }
        }
        self.settle(now, id);
    }
    /// Takes the answers of stores on other threads.
    pub fn handle_storage(&mut self, now: Time) {
        let awaits = |fetch: &Incoming| fetch.reassembly.as_ref().is_some_and(|it| it.writer.awaits_storage());
        let ids: Vec<TransferId> = self.fetches.iter().filter(|(_, fetch)| awaits(fetch)).map(|(id, _)| id).collect();
        self.handle_wishes(now);
        for id in ids {
            let Some(fetch) = self.fetches.get_mut(id) else { continue };
            let Some(reassembly) = &mut fetch.reassembly else { continue };
            let was_open = reassembly.writer.is_open();
            let answered = reassembly.handle_storage();
            let is_open = reassembly.writer.is_open();
            // Includes what was stored before a failure.
            fetch.take_stored();
            match answered {
                Ok(true) => {}
                Ok(false) => continue,
                Err(reason) => {
                    self.fail(now, id, reason);
                    continue;
                }
            }
            fetch.patience.restart(now);
            if is_open && !was_open {
                self.on_open(now, id);
            }
            self.settle(now, id);
        }
    }

    /// Reads the current wishes of readers of object parts.
    fn handle_wishes(&mut self, now: Time) {
        let is_selective = |fetch: &Incoming| fetch.reassembly.as_ref().is_some_and(Reassembly::is_selective);
        let selective = self.fetches.running().filter(|(_, fetch)| is_selective(fetch));
        let ids: Vec<TransferId> = selective.map(|(id, _)| id).collect();
        for id in ids {
            let Some(fetch) = self.fetches.get_mut(id) else { continue };
            if fetch.reassembly.as_mut().is_some_and(|it| it.writer.refresh_wishes()) {
                self.on_wishes(now, id);
            }
        }
    }
    /// The readers' wishes for a part of an object have changed.
    fn on_wishes(&mut self, now: Time, id: TransferId) {
        let Some(fetch) = self.fetches.get_mut(id).filter(|fetch| !fetch.record.is_ended()) else { return };
        let is_new = fetch.requested_chunks.is_empty();
        if fetch.serving.sender.is_none() && is_new {
            self.request(now, id);
        }
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        fetch.request_wanted(now);
        if is_new && !fetch.requested_chunks.is_empty() {
            // No source caused the silence so far.
            fetch.patience.restart(now);
            fetch.nack.in_vain = 0;
            fetch.nack.restart(now, fetch.nack_timeout(&self.config));
        }
        self.settle(now, id);
    }

    // Questions.

    /// The report of a transfer.
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
    /// An answer to a chunk's sender, through the proxies that the chunk names.
    fn answer(header: &ChunkHeader, message: TransportMessage) -> Outgoing {
        let (proxies, token) = (header.proxies_left, header.token().unwrap_or_default());
        Outgoing { proxies, ..Outgoing::new(header.source, header.source_address, token, message) }
    }
    fn new(to: Guid, address: NetworkAddress, token: Token, message: TransportMessage) -> Outgoing {
        Outgoing { to, address, token, message, flags: Flags::NONE, proxies: 0 }
    }
}

/// The number that people see for a GUID: its first eight bytes.
pub fn node_of(guid: &Guid) -> NodeId {
    NodeId(u64::from_be_bytes(*guid.0.first_chunk().expect("8 of 20 bytes")))
}

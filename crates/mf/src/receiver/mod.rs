//! The receiving end (paper §3.1, §3.2.2, §3.4.2): requests objects, says once per window how much may come and what is
//! missing, and takes what is pushed.
//!
//! ```text
//!  announcements ──► choice ──► request ──► source
//!                                             │ chunks
//!  status, NACK ◄── windows, missing ◄── data ┴──► Reassembly ──► verified ──► store
//! ```
mod corrupt;
mod credit;
mod custody;
mod data;
mod ends;
mod incoming;
mod mirrors;
mod missing;
mod notices;
mod pushed;
mod requests;
#[cfg(test)]
mod tests;
mod timeouts;
mod trial;
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
    choice::{self, Choice, Standing},
    fetches::{FetchTable, Fetching},
    messaging::GetOptions,
    patience::Patience,
    record::Record,
    sources::{self, Evidence, Sources},
};

use credit::{Credit, Fill, LIMITED_CHUNK};
use custody::{Custody, CustodyAnswers};
use incoming::{Incoming, Opened, Peer, is_there};
use missing::{Missing, NackTimer};
use pushed::Pushed;
use trial::Trial;
use windows::Windows;

use crate::{
    config::EndConfig,
    custody::Answer,
    ids::{ChunkKey, Custodian, Guid, NetworkAddress, Token},
    payload::Payload,
    reassembly::{Check, Origin, Reassembly, Stored, Taken, Wrong, manifest_of},
    sender::{chunk_count, is_pushed, on_wire},
    wire::{
        ChunkHeader, ChunkRanges, CustodyState, DataTag, Flags, Reliability, TransportMessage, chunk::HOPS_MAX,
        transport::RANGES_MAX,
    },
};

/// Ended transfers whose reports are kept.
const ENDED_MAX: usize = 256;
/// A chunk of the object that is coming puts a NACK off for at most so many NACK timeouts.
const POSTPONED_MAX: u32 = 16;
/// The same of packets of whatever else is coming: those of the object may be in line behind it. If they are, it costs
/// little to request them: routers that have a chunk take no other copy of it.
const POSTPONED_BY_OTHERS_MAX: u32 = 2;
/// How long the announcements of other publishers are waited for while nothing is known of who publishes a name, and
/// the name service has not sent all of its records.
const GATHER_TIME: Duration = Duration::from_millis(250);
/// How often in a row a source is asked again, past copies, for what came wrong in its name, until it is blamed:
/// another node on the way may have changed it.
const RETRIES_MAX: u32 = 6;
/// A source that did not answer, or was reported to be gone, is requested for so many NACK timeouts only if no other
/// can be.
const AWAY_TIMEOUTS: u32 = 4;
/// A silent sender is probed after this part of a NACK timeout, one in so many, if others could take over; the wait
/// doubles with each of at most so many probes.
const PROBE_PART: u32 = 8;
const PROBES_MAX: u32 = 3;
/// A pushed object of which all that comes is wrong is given up after so long.
const CORRUPT_LIFETIME: Duration = Duration::from_secs(600);
/// A chunk keeps the slowest of several accesses busy for so long: meanwhile the others carry what comes behind it, and at
/// the end they wait for it. It has so many bytes at least, as each begins with a header.
const SLOWEST_CHUNK: Duration = Duration::from_millis(50);
const SLOWEST_CHUNK_BYTES_MIN: u64 = 32 << 10;
/// How often a sender that was stopped, or a reader that is slow, is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A message to send.
#[derive(Clone, PartialEq, Debug)]
pub struct Outgoing {
    /// Its destination.
    pub to: Guid,
    /// Where the destination is, as far as known.
    pub address: NetworkAddress,
    /// The token of the transfer that it is about.
    pub token: Token,
    /// The message.
    pub message: TransportMessage,
    /// Whether caches may answer.
    pub flags: Flags,
    /// Proxies that a request for what a group misses may still ask.
    pub proxies: u8,
}

/// A device that has an object, and what it calls itself.
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
    /// What the tokens of fetches are derived from.
    secret: [u8; 32],
    fetches: FetchTable<Incoming>,
    pushed: Pushed,
    /// What custodians hear of their chunks.
    answers: CustodyAnswers,
    attached: bool,
    /// The rate of the slowest of several accesses, as far as it is known.
    slowest_access: Option<Rate>,
    /// Whether there are several.
    has_several_ways: bool,
    /// When packets of chunks for this node last came.
    active_at: Time,
    /// Objects, by the numbers of their transfers, of which a chunk is coming, and when a packet of it came last.
    arriving: BTreeMap<(Option<ObjectId>, u32), Time>,
    outbox: VecDeque<Outgoing>,
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
    /// Without transfers. They are numbered from `first`, so that those of an earlier life of the node are not mixed up
    /// with new ones, and their tokens are derived from `secret`.
    pub fn new(config: EndConfig, first: u32, secret: &[u8; 32]) -> Receiver {
        Receiver {
            config,
            secret: *secret,
            fetches: FetchTable::new(first, ENDED_MAX),
            pushed: Pushed::default(),
            answers: CustodyAnswers::default(),
            attached: false,
            slowest_access: None,
            has_several_ways: false,
            active_at: Time::ZERO,
            arriving: BTreeMap::new(),
            outbox: VecDeque::new(),
            done: VecDeque::new(),
            strays: 0,
            refused: 0,
            wrong: WrongBytes::default(),
        }
    }

    // What happens around the receiver.

    /// Packets of chunks for this node, whole or not yet, last came at `at`; those of `arriving` are still incomplete.
    pub fn on_activity(&mut self, at: Time, arriving: impl Iterator<Item = (ChunkKey, Time)>) {
        self.active_at = at;
        self.arriving.clear();
        for (key, at) in arriving {
            let heard = self.arriving.entry((Some(key.object), key.transfer)).or_insert(at);
            *heard = at.max(*heard);
        }
    }
    /// Sets how long the receiver waits for the next packet before a NACK names the missing chunks.
    pub fn set_nack_timeout(&mut self, timeout: Duration) {
        self.config.nack_timeout = timeout;
    }
    /// What is in flight may be lost: an access router has started anew, or chunks do not follow this node to where it
    /// is now. NACKs come soon.
    pub fn on_lost_way(&mut self, now: Time) {
        for (_, fetch) in self.fetches.running_mut() {
            fetch.missing.watch_gaps();
            fetch.nack.on_router_restart(now, fetch.nack_timeout(&self.config));
        }
    }
    /// The node is attached to a router, or not any more: what is not sent to it then is not missing.
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

    /// How many accesses this node has, and the rate of the slowest one, as far as it is known.
    pub fn set_accesses(&mut self, count: usize, slowest: Option<Rate>) {
        self.has_several_ways = count > 1;
        self.slowest_access = slowest.filter(|_| self.has_several_ways);
    }

    // Fetches.

    /// Starts a fetch; what is announced under its name goes to [`Receiver::handle_announcements`].
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
    /// Takes what devices announce under a name: the device and the manifest. While nothing is known of who publishes
    /// it, a part of the announcements decides nothing for 250 ms.
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
        let is_open = fetch.reassembly.as_ref().is_some_and(Reassembly::is_open);
        match opened {
            // There was no source to request from when the store was opened, or since.
            Opened::No if has_first && is_open => self.request(now, id),
            Opened::No | Opened::Begun => {}
            Opened::Failed(reason) => self.fail(now, id, reason),
            Opened::Yes => self.on_open(now, id),
        }
    }
    /// The store of a transfer is open: requests what is missing, and takes what came meanwhile.
    fn on_open(&mut self, now: Time, id: TransferId) {
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        let Some(reassembly) = &fetch.reassembly else { return };
        let (bytes, stored) = reassembly.sizes();
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
    /// Takes what stores have answered that work on another thread.
    pub fn handle_storage(&mut self, now: Time) {
        let awaits = |fetch: &Incoming| fetch.reassembly.as_ref().is_some_and(Reassembly::awaits_storage);
        let ids: Vec<TransferId> = self.fetches.iter().filter(|(_, fetch)| awaits(fetch)).map(|(id, _)| id).collect();
        self.handle_wishes(now);
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
            fetch.patience.restart(now);
            if is_open && !was_open {
                self.on_open(now, id);
            }
            self.settle(now, id);
        }
    }

    /// Looks at what readers of parts of objects want now.
    fn handle_wishes(&mut self, now: Time) {
        let is_selective = |fetch: &Incoming| fetch.reassembly.as_ref().is_some_and(Reassembly::is_selective);
        let selective = self.fetches.running().filter(|(_, fetch)| is_selective(fetch));
        let ids: Vec<TransferId> = selective.map(|(id, _)| id).collect();
        for id in ids {
            let Some(fetch) = self.fetches.get_mut(id) else { continue };
            if fetch.reassembly.as_mut().is_some_and(Reassembly::refresh_wishes) {
                self.on_wishes(now, id);
            }
        }
    }
    /// What readers of a part of an object want has changed.
    fn on_wishes(&mut self, now: Time, id: TransferId) {
        let Some(fetch) = self.fetches.get_mut(id).filter(|fetch| !fetch.record.is_ended()) else { return };
        let is_new = fetch.requested_chunks.is_empty();
        if fetch.serving.sender.is_none() && is_new {
            self.request(now, id);
        }
        let Some(fetch) = self.fetches.get_mut(id) else { return };
        fetch.request_wanted(now);
        if is_new && !fetch.requested_chunks.is_empty() {
            // The silence so far was nobody's fault.
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
    /// An answer to whoever sent a chunk, by way of the proxies that it names.
    fn answer(header: &ChunkHeader, message: TransportMessage) -> Outgoing {
        let (proxies, token) = (header.proxies_left, header.token().unwrap_or_default());
        Outgoing { proxies, ..Outgoing::new(header.source, header.source_address, token, message) }
    }
    fn new(to: Guid, address: NetworkAddress, token: Token, message: TransportMessage) -> Outgoing {
        Outgoing { to, address, token, message, flags: Flags::NONE, proxies: 0 }
    }
}

/// The number by which people know a GUID: its first eight bytes.
pub fn node_of(guid: &Guid) -> NodeId {
    NodeId(u64::from_be_bytes(*guid.0.first_chunk().expect("8 of 20 bytes")))
}

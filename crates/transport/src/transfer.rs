//! One fetch, from the first offer of sources to the last verified chunk.
//!
//! ```text
//!   offers ──► trust, choice of the object ──► paths
//!                                               │
//!   idle packets ──► requests, path by path ──► answers ──► units ──► verified ──► store
//!        ▲                                        │           │
//!        └──────── lost, silent, withdrawn ◄──────┘           └──► culprits named and dropped
//! ```
//! A family turns [`PacketRequest`]s into its packets and calls [`Transfer::handle_data`] for the answers.
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::ops::{Bound, Range};

use tributary_content::{ChunkIndex, ChunkPart, Manifest, Name, ObjectId, PublicKey, StoreOpener, Unavailable};
use tributary_core::{
    Duration, FaceId, NodeId, PathId, Random, Rate, SourceId, Time, earlier,
    event::{PathReport, PathState, TransferEvent, TransferReport},
};
use tributary_trust::owner_of;

use crate::{
    ControllerKind, Coupling, TREE_PACKET_FIRST, TransferConfig,
    assembly::{Assembly, Origin},
    bulk::Bulk,
    coupling::{self, GroupModel, Member},
    fetches::LIMIT_BURST,
    flow::{Answer, Came, Flow, LostPacket, PathHints, Ranges, RequestKind},
    layout::{Layout, Unit},
    limit::TokenBucket,
    object_choice::{self, Choice, Standing},
    object_writer::{ObjectWriter, Written},
    patience::Patience,
    policy::{FaceRules, Held, PathDemands, Rank, Shared},
    ranges::RangeSet,
    record::Record,
    sources::{Evidence, Sources},
    window::{GroupPart, Growth},
};

mod blame;
mod bulk;
mod outputs;
mod partial;
mod policy;
mod report;
mod requests;
mod running;
mod sources;

pub use partial::Holdings;
use partial::{Partials, Pick};
use running::{Put, Running, Suspect, Verdict};

/// How many ranges one request may have.
pub const REQUEST_RANGES_MAX: usize = 16;
/// Time between two updates of coupled sub-flows.
const COUPLING_INTERVAL: Duration = Duration::from_millis(5);
/// Largest first window, for any announced rate of a path.
const WINDOW_INITIAL_PACKETS_MAX: u32 = 256;
/// The first window must not occupy a link of known rate for longer than this, so that control messages and other
/// transfers do not wait behind it; two packets are sent in any case.
const WINDOW_INITIAL_TIME: Duration = Duration::from_secs(1);
const WINDOW_INITIAL_PACKETS_MIN: u64 = 2;
/// How long the single source of a suspect unit may be silent before the transfer requests the unit from another one.
const SUSPECT_PATIENCE: Duration = Duration::from_secs(2);
/// Time between two searches for packets that this path would deliver sooner than another one, while nothing is idle:
/// they go through everything in flight.
const SEARCH_PAUSE: Duration = Duration::from_millis(5);
/// Time between two checks of readers that do not notify, while they hold the fetch up.
const READER_INTERVAL: Duration = Duration::from_millis(5);

/// A source that the network offers, with all paths to it.
#[derive(Clone, Debug)]
pub struct SourceOffer {
    /// Its node.
    pub node: NodeId,
    /// Its human-readable name.
    pub label: String,
    /// The signed manifest of the source's object, encoded; empty for the manifest of [`Transfer::describe`].
    pub manifest: Vec<u8>,
    /// The paths to it.
    pub paths: Vec<PathOffer>,
}

/// A path that the network offers.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PathOffer {
    /// Its number, the same in every offer of this transfer.
    pub path: PathId,
    /// The nodes on it, the receiver first and the source last, with `>` between: for people, and to find the node that
    /// changed bytes.
    pub label: String,
    /// Links from source to receiver.
    pub hops: u32,
    /// The largest payload that a data packet on it may have.
    pub packet_bytes_max: u16,
    /// Links that it shares with other paths of this transfer.
    pub shared_links: Vec<SharedLink>,
    /// The round-trip time that the network expects; `None` if unknown.
    pub rtt: Option<Duration>,
    /// The spare rate of its narrowest link; `None` if unknown.
    pub capacity: Option<Rate>,
    /// The face on which its requests leave this node; `None` if unknown.
    pub face: Option<FaceId>,
}

/// A link that several paths of a transfer share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedLink {
    /// Its number, the same on all these paths.
    pub number: u16,
    /// Its spare rate; `None` if unknown.
    pub capacity: Option<Rate>,
}

impl SharedLink {
    /// A link of unknown capacity.
    pub const fn new(number: u16) -> SharedLink {
        SharedLink { number, capacity: None }
    }
}

impl PathOffer {
    /// The numbers of its shared links: paths with one in common are coupled.
    pub fn groups(&self) -> Vec<u16> {
        self.shared_links.iter().map(|link| link.number).collect()
    }
}

/// A request to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketRequest {
    /// The path to send it on.
    pub path: PathId,
    /// Its number on this path, to be returned with every answer.
    pub number: u16,
    /// The requested object.
    pub object: ObjectId,
    /// Payload bytes of a packet.
    pub packet_bytes: u16,
    /// Runs of packets: first number and count; 1 to 64 packets in all.
    pub ranges: Ranges,
    /// Whether caches on the way may answer.
    pub caches: CacheUse,
    /// Whether it probes a silent path. A family whose network answers each request once, over any path, probes with a
    /// separate request on that path and reports with [`Transfer::handle_probe`].
    pub is_probe: bool,
}

/// Whether caches on the way may answer a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CacheUse {
    /// They may.
    #[default]
    Allowed,
    /// They must pass it on to the source.
    Bypassed,
}

/// A packet of an object that arrived.
#[derive(Clone, Copy, Debug)]
pub struct PacketData<'a> {
    /// The path of its request.
    pub path: PathId,
    /// The number of the request that it answers.
    pub number: u16,
    /// Its number in the object.
    pub packet: u32,
    /// The low bits of the cache's node id, if a cache sent it.
    pub cache: Option<u16>,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// Which request a packet answers that several have requested.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Answers {
    /// The last one.
    This,
    /// Probably the last one, and its path answers in any case; it may have arrived out of turn.
    OneOfSeveral,
    /// One of several over any of several paths.
    Any,
}

tributary_core::declared! {
    /// One fetch of one object.
    pub struct Transfer {
        name: Name = name,
        config: TransferConfig = config,
        opener: Box<dyn StoreOpener> = opener,
        patience: Patience = Patience::new(now, patience),
        limit: TokenBucket = TokenBucket::new(rate_limit, LIMIT_BURST),
        record: Record = Record::new(now),
        sources: Sources<()> = Sources::default(),
        paths: BTreeMap<PathId, Path> = BTreeMap::new(),
        opening: Option<Opening> = None,
        running: Option<Running> = None,
        last_path: PathId = PathId(0),
        polled_at: Time = now,
        /// From when packets in flight may be searched again, and whether a search waits for that.
        search_at: Time = now,
        awaits_search: bool = false,
        coupled_at: Time = now,
        /// What sub-flows that share links get together, by their paths.
        group_models: BTreeMap<Vec<PathId>, GroupModel> = BTreeMap::new(),
        /// What the family found out of an object that has no manifest.
        described: Option<Manifest> = None,
        /// Why the family could not use the objects that it found.
        obstacle: Option<String> = None,
        /// Why the network refuses to name sources, until a source offers the object.
        refusal: Option<String> = None,
        /// Labels of nodes between that changed bytes.
        convicted: BTreeSet<String> = BTreeSet::new(),
        /// Web servers and similar sources; `None` if they are not in use.
        bulk: Option<Bulk> = None,
        /// Whether the search for them continues.
        awaits_mirrors: bool = true,
        demands: PathDemands = PathDemands::default(),
        /// The policies of the node's faces, and their version.
        rules: FaceRules = FaceRules::default(),
        rules_version: u64 = 0,
        /// When a path that is held may be used, if time alone decides that.
        held_until: Option<Time> = None,
    }
    /// A fetch of `name` that starts at `now` and fails after `patience` without any source; `None` waits forever.
    pub fn new(
        now: Time,
        name: Name,
        config: TransferConfig,
        opener: Box<dyn StoreOpener>,
        rate_limit: Option<Rate>,
        patience: Option<Duration>
    ) {
    }
}

/// A chosen object whose store is being opened on another thread.
struct Opening {
    layout: Layout,
    writer: ObjectWriter,
    is_cut_by_guess: bool,
    /// What the network offers at present, to be used then.
    offers: Vec<SourceOffer>,
}

/// A source's offer, and whether its manifest is trusted for the name of the fetch.
struct Offered {
    source: SourceId,
    manifest: Manifest,
    check: Result<(), object_choice::Unfit>,
    paths: Vec<PathOffer>,
}

#[derive(Default)]
struct Path {
    source: SourceId,
    offer: PathOffer,
    /// Whether the network offers it at present.
    is_offered: bool,
    flow: Option<Flow>,
    caches: CacheUse,
    closed: Option<String>,
    /// Whether it is closed only because of its face.
    is_left_out: bool,
    /// Why it is not used now, although it could be.
    held: Option<Held>,
    /// The state in its last event.
    reported: PathState,
    bytes: u64,
    cached_bytes: u64,
    /// Verified bytes on it from its source.
    verified_bytes: u64,
    /// Set once bytes from its source arrived altered on it: the path stays closed.
    altered: Option<blame::Altered>,
    /// Packets that a cache on it gave wrongly: the source's answer to them heals the cache.
    to_heal: Vec<u32>,
}

impl Transfer {
    // Inputs.

    /// Describes an object without a manifest, by [`Manifest::unsigned`]. The family verifies each packet before
    /// [`Transfer::handle_data`]; the packets have the paths' packet size, the chunks are multiples of it.
    pub fn describe(&mut self, manifest: Manifest) {
        self.described = Some(manifest);
    }
    /// Drops an object whose description was wrong; [`Transfer::describe`] sets the new one, and the next offers start
    /// the transfer again. All paths close with `reason`.
    pub fn start_over(&mut self, now: Time, reason: &str) {
        if self.record.is_ended() {
            return;
        }
        let paths: Vec<PathId> = self.paths.keys().copied().collect();
        paths.into_iter().for_each(|id| self.close_path(id, reason.into()));
        (self.running, self.opening, self.described) = (None, None, None);
        self.record.start_over();
        // The arrived bytes are discarded, so no source is credited for them.
        self.sources.iter_mut().for_each(|source| source.bytes = 0);
        for path in self.paths.values_mut() {
            (path.bytes, path.cached_bytes, path.verified_bytes) = (0, 0, 0);
        }
        self.patience.restart(now);
    }
    /// A packet on the way to the object was answered, so that patience with silent sources starts again.
    pub fn note_answer(&mut self, now: Time) {
        self.patience.restart(now);
    }
    /// Sets why the family could not use the objects that it found, `None` without any; the failure reports it if no
    /// source answers.
    pub fn set_obstacle(&mut self, obstacle: Option<&str>) {
        if self.obstacle.as_deref() != obstacle {
            self.obstacle = obstacle.map(Into::into);
        }
    }
    /// Sets why the network refuses to name sources; the failure reports it if no source answers. True if it is new.
    pub fn set_refusal(&mut self, refusal: &str) -> bool {
        let is_news = self.refusal.as_deref() != Some(refusal);
        self.refusal = Some(refusal.into());
        is_news
    }
    /// The name has no publisher, for the given `reason`; sources that were named earlier still count.
    pub fn set_absent(&mut self, reason: &str) {
        if self.sources.is_empty() {
            self.record.on_absent(reason);
        }
    }
    /// Whether it has ended because its name has no publisher.
    pub fn was_in_vain(&self) -> bool {
        self.record.was_in_vain()
    }
    /// Takes the complete present offer of the network: earlier offers that it lacks are withdrawn.
    pub fn handle_offer(&mut self, now: Time, mut offers: Vec<SourceOffer>) {
        if self.record.is_ended() {
            return;
        }
        offers.retain(|offer| self.is_answer(&offer.manifest));
        if !offers.is_empty() {
            self.refusal = None;
            self.record.on_present();
        }
        if let Some(opening) = &mut self.opening {
            opening.offers = offers;
            return;
        }
        let kept = if self.running.is_none() { offers.clone() } else { Vec::new() };
        let mut offered_paths = BTreeSet::new();
        let mut usable = Vec::new();
        let offered = self.read_offers(now, offers);
        if self.running.is_none() {
            let trusted = offered.iter().filter(|offer| offer.check.is_ok()).map(|offer| &offer.manifest);
            match object_choice::choose(&*self.opener, &self.name, trusted) {
                Choice::Object { manifest, advice, is_agreed } => {
                    self.record.extend(advice.map(|text| TransferEvent::Advice { text }));
                    if is_agreed {
                        self.opener.bind_no_key();
                    }
                    self.start(now, manifest, &offered);
                }
                Choice::Nothing => {
                    for Offered { source, check, .. } in offered {
                        if let Err(unfit) = check {
                            self.distrust(now, source, Evidence::Offer, unfit.to_string());
                        }
                    }
                    return self.end_if_hopeless(now);
                }
                Choice::Contested(reason) => return self.fail(now, reason),
            }
        }
        if let Some(opening) = &mut self.opening {
            opening.offers = kept;
            return;
        }
        let Some(running) = self.running.as_ref().filter(|_| !self.record.is_ended()) else { return };
        let chosen = running.writer.manifest().clone();
        for Offered { source, manifest, check, paths } in offered {
            match object_choice::standing(&manifest, check, &chosen) {
                Standing::Wanted => {}
                Standing::Superseded(reason) => {
                    self.close_source(source, reason);
                    continue;
                }
                Standing::Faulty(reason) => {
                    self.distrust(now, source, Evidence::Offer, reason);
                    continue;
                }
                Standing::Contested(reason) => return self.fail(now, reason),
            }
            // The network offers the source again, so it is back, unless it has reported that it lacks the object.
            if !self.sources.reopen(source) {
                continue;
            }
            for path in paths {
                offered_paths.insert(path.path);
                usable.push((source, path));
            }
        }
        self.cut_for_first_paths(&usable);
        usable.iter().for_each(|(source, path)| self.add_path(now, *source, path.clone(), &usable));
        let withdrawn: Vec<PathId> = self.paths.keys().filter(|path| !offered_paths.contains(path)).copied().collect();
        for id in withdrawn {
            self.close_path(id, "withdrawn by the network".into());
            self.paths.entry(id).and_modify(|path| path.is_offered = false);
        }
        if self.fit_to_paths(&usable) {
            usable.iter().for_each(|(source, path)| self.add_path(now, *source, path.clone(), &usable));
        }
        self.close_unreachable(now);
        self.move_suspects(now);
        self.couple(now);
    }
    /// Whether a source with this manifest answers the fetch: under a name that belongs to a key, only that key does.
    /// Strangers' answers would end the fetch before the owner's arrives.
    pub fn is_answer(&self, manifest: &[u8]) -> bool {
        owner_of(&self.name).is_none_or(|owner| {
            let is_owners = |of: &Manifest| of.publisher == owner && of.name == self.name;
            self.manifest_of(manifest).is_ok_and(|manifest| is_owners(&manifest) || self.fetches(&manifest))
        })
    }
    /// Whether a source with this manifest would be used: its manifest is valid, and describes the bytes that are being
    /// fetched or is of this name and of a trusted key.
    pub fn trusts(&self, manifest: &[u8]) -> bool {
        self.manifest_of(manifest).is_ok_and(|manifest| {
            self.fetches(&manifest) || object_choice::check(&*self.opener, &self.name, &manifest).is_ok()
        })
    }
    /// An authority vouches for this publisher of the name.
    pub fn certify(&mut self, publisher: PublicKey) {
        self.opener.certify(publisher);
    }
    /// Whether this fetch is for the bytes of `manifest`.
    pub fn fetches(&self, manifest: &Manifest) -> bool {
        self.running.as_ref().is_some_and(|running| running.writer.object() == manifest.object_id())
    }
    /// Closes all paths and lets the next offers decide the packet size, if nothing has been verified so far: the
    /// source may have stated a wrong one. True if it did so.
    pub fn cut_anew(&mut self) -> bool {
        if self.paths.values().any(|path| path.verified_bytes > 0) {
            return false;
        }
        let paths: Vec<PathId> = self.paths.keys().copied().collect();
        paths
            .into_iter()
            .for_each(|id| self.close_path(id, "what its source tells of its packets may be wrong".into()));
        self.opening.iter_mut().for_each(|opening| opening.is_cut_by_guess = true);
        self.running.iter_mut().for_each(|running| running.is_cut_by_guess = true);
        true
    }
    /// Whether an offered path may be used for requests.
    pub fn uses(&self, path: PathId) -> bool {
        self.paths.get(&path).is_some_and(|path| path.closed.is_none())
    }
    /// How long the answer to a request that leaves at `now` over a path in use may take: a network that forgets
    /// requests must remember it for this long. `None` if the path is not used.
    pub fn answer_time(&self, now: Time, path: PathId) -> Option<Duration> {
        self.paths.get(&path)?.flow.as_ref().map(|flow| flow.answer_time(now))
    }
    /// Whether the answer to a request for a packet is lost and not only late: answers to later requests over that path
    /// have arrived.
    pub fn was_overtaken(&self, path: PathId, number: u16, packet: u32) -> bool {
        let flow = self.paths.get(&path).and_then(|path| path.flow.as_ref());
        flow.is_some_and(|flow| flow.was_overtaken(number, packet))
    }
    /// Takes one packet that arrived.
    pub fn handle_data(&mut self, now: Time, data: &PacketData<'_>) {
        self.handle_batch(now, core::iter::once(*data));
    }
    /// Takes a packet that several requests named in a network that answers once: no path waits for it any longer.
    ///
    /// An answer of the source that arrives much sooner after the last request than any over its path before (RFC 8985
    /// §6.2, step 2) is the late answer to request `earlier` over the same path, if there was one. Caches are nearer.
    pub fn handle_once(&mut self, now: Time, data: &PacketData<'_>, answers: Answers, earlier: Option<u16>) {
        let flow = self.paths.get(&data.path).and_then(|path| path.flow.as_ref());
        let is_too_soon = data.cache.is_none() && flow.is_some_and(|flow| flow.is_too_soon(now, data.number));
        let earlier = earlier.filter(|number| flow.is_some_and(|flow| flow.took_for_lost(*number, data.packet)));
        let number = earlier.filter(|_| is_too_soon && answers == Answers::This).unwrap_or(data.number);
        let data = &PacketData { number, ..*data };
        let came = match answers {
            Answers::This if is_too_soon && earlier.is_none() => Came::again(data),
            Answers::This => Came::of(data),
            Answers::OneOfSeveral => Came::again(data),
            Answers::Any => Came::ByAnyPath,
        };
        self.take(now, data, came);
        for path in self.paths.values_mut() {
            path.flow.iter_mut().for_each(|flow| flow.forget(data.packet));
        }
        if let Some(running) = self.running.as_mut().filter(|_| !self.record.is_ended()) {
            // If it was of no use, such as for a suspect unit that only one path may deliver, no path waits for it now.
            running.make_idle(data.packet);
        }
        self.on_batch_end(now, Some(data.path));
    }
    /// Takes the answer to a request with [`PacketRequest::is_probe`] that brought something else than its packet.
    pub fn handle_probe(&mut self, now: Time, path: PathId, number: u16, packet: u32) {
        if self.running.is_none() || self.record.is_ended() {
            return;
        }
        let Some(known) = self.paths.get_mut(&path) else { return };
        let Some(flow) = known.flow.as_mut() else { return };
        let was_silent = flow.silent_since().is_some();
        if flow.on_probe(now, number, packet) == Answer::Unsolicited {
            return;
        }
        self.patience.restart(now);
        if was_silent && flow.silent_since().is_none() {
            self.record.push(known.report_active(path));
        }
        self.on_batch_end(now, Some(path));
    }
    /// The network reports that it drops the answer to request `number` because of congestion: the packet is lost and
    /// requested again, without waiting for order or time to show it.
    pub fn handle_refusal(&mut self, now: Time, path: PathId, number: u16, packet: u32) {
        let mut lost = Vec::new();
        if let Some(flow) = self.paths.get_mut(&path).and_then(|path| path.flow.as_mut()) {
            flow.on_refusal(now, number, packet, &mut lost);
        }
        self.return_lost(&lost);
    }
    /// The source at the end of a path reports that it cannot answer request `number`: this fetch closes the source,
    /// and fails at once if it has no other. Reports that match no request are ignored.
    pub fn handle_unavailable(&mut self, now: Time, path: PathId, number: u16, packet: u32, why: Unavailable) {
        if self.running.is_none() || self.record.is_ended() {
            return;
        }
        let Some(known) = self.paths.get(&path) else { return };
        if !known.flow.as_ref().is_some_and(|flow| flow.waits_for(number, packet)) {
            return;
        }
        let source = known.source;
        let closed = self.sources.close_unavailable(source, why.to_string());
        self.on_source_closed(source, closed, &why.to_string());
        self.move_suspects(now);
        self.end_if_hopeless(now);
    }
    /// Takes packets that arrived together; detects losses and updates windows once for the batch.
    pub fn handle_batch<'a>(&mut self, now: Time, batch: impl Iterator<Item = PacketData<'a>>) {
        let mut last = None;
        for data in batch {
            if last.is_some_and(|path| path != data.path) {
                self.on_batch_end(now, last);
            }
            last = Some(data.path);
            self.take(now, &data, Came::of(&data));
        }
        self.on_batch_end(now, last);
    }
    /// `bytes` bytes of payload in answer to request `number` carried a congestion mark: a queue grows on the way
    /// (paper §III-D: in-network congestion control, to which the receiver reacts).
    pub fn handle_marks(&mut self, now: Time, path: PathId, number: u16, bytes: u64) {
        if let Some(flow) = self.paths.get_mut(&path).and_then(|path| path.flow.as_mut()) {
            flow.on_mark(now, number, bytes);
        }
    }
    fn on_batch_end(&mut self, now: Time, path: Option<PathId>) {
        let Some(path) = path else { return };
        if let Some(flow) = self.paths.get_mut(&path).and_then(|path| path.flow.as_mut()) {
            flow.on_batch_end(now);
        }
        self.detect_losses(now, path);
        if now.since(self.coupled_at) >= COUPLING_INTERVAL {
            self.couple(now);
        }
    }
    fn take(&mut self, now: Time, data: &PacketData<'_>, came: Came) {
        if self.record.is_ended() {
            return;
        }
        let Some(path) = self.paths.get_mut(&data.path) else { return };
        let (Some(flow), Some(running)) = (&mut path.flow, &mut self.running) else { return };
        let was_silent = flow.silent_since().is_some();
        let bytes = data.payload.len() as u64;
        let cache_use = flow.cache_use(data.number);
        let answer = flow.on_data(now, data.number, data.packet, bytes, came);
        if answer == Answer::Unsolicited {
            self.record.duplicate_bytes += bytes;
            return;
        }
        if answer == Answer::Late {
            flow.revive_late(data.number, |packet| running.reclaim(packet));
        }
        let is_back = was_silent && flow.silent_since().is_none();
        self.patience.restart(now);
        if is_back {
            self.record.push(path.report_active(data.path));
        }
        if data.cache.is_some() && (path.caches == CacheUse::Bypassed || cache_use == Some(CacheUse::Bypassed)) {
            running.make_idle(data.packet);
            // After several requests, it may answer one that allowed caches.
            if cache_use == Some(CacheUse::Bypassed) && came == Came::FromCache {
                self.on_altered(now, data.path, "a cache's answer came although none was allowed");
            }
            return;
        }
        let origin = Origin { path: data.path, cache: data.cache, is_sure: came.is_exact() };
        if running.layout.locate(data.packet).is_none_or(|(.., len)| len as usize != data.payload.len()) {
            running.make_idle(data.packet);
            let what = format!("answered packet {} with {bytes} bytes", data.packet);
            return self.blame(now, origin, &what, [data.packet].into());
        }
        if data.cache.is_none()
            && let Some((Unit::Chunk(index), ..)) = running.layout.locate(data.packet)
        {
            running.partials.on_packet(path.source, index);
        }
        match running.put(data.packet, data.payload, origin) {
            Put::Duplicate => self.record.duplicate_bytes += bytes,
            Put::Kept => path.on_useful(bytes, data.cache),
            Put::Completed(unit) => {
                path.on_useful(bytes, data.cache);
                if data.cache.is_none() {
                    running.partials.on_delivery(path.source);
                }
                self.verify(now, unit);
            }
        }
    }
    /// Takes the answers of a store that works on another thread.
    pub fn handle_storage(&mut self, now: Time) {
        if let Some(opening) = &mut self.opening {
            match opening.writer.poll() {
                Ok(_) if !opening.writer.is_open() => return,
                Ok(_) => {}
                Err(error) => return self.fail(now, error.to_string()),
            }
            let Some(mut opening) = self.opening.take() else { return };
            let offers = core::mem::take(&mut opening.offers);
            self.run(now, opening);
            self.handle_offer(now, offers);
        }
        self.take_written(now);
        self.finish_if_complete(now);
    }
    /// Takes the results of the store, immediate or from another thread.
    fn take_written(&mut self, now: Time) {
        while let Some(running) = self.running.as_mut().filter(|running| running.writer.awaits_storage()) {
            let written = match running.writer.poll() {
                Ok(Some(written)) => written,
                Ok(None) => return,
                Err(error) => return self.fail(now, error.to_string()),
            };
            // It is not the sources that keep silent.
            self.patience.restart(now);
            match written {
                Written::Opened | Written::Synced => {}
                Written::Tree { dropped } => running.on_dropped(&dropped),
                Written::Chunk { index, bytes } => {
                    self.record.push(TransferEvent::ChunkStored { index, bytes });
                }
                Written::Finished => {
                    running.close();
                    self.record.complete(now);
                }
            }
        }
    }
    /// Serves the timer: finds silent paths, and ends a fetch that has no source.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.record.is_ended() {
            return;
        }
        let due = self.poll_timeout();
        if self.patience.restart_after_standstill(now, due) {
            self.paths.values_mut().filter_map(|path| path.flow.as_mut()).for_each(|flow| flow.on_standstill(now));
        }
        let mut lost = Vec::new();
        for (id, path) in &mut self.paths {
            let Some(flow) = &mut path.flow else { continue };
            let before = flow.silent_since();
            flow.detect_overdue(now, &mut lost);
            if flow.detect_silence(now, &mut lost) && before.is_none() {
                path.reported = PathState::Silent;
                let reason = match flow.ever_answered {
                    true => format!("no answer for {} ms", flow.rtt.rto().as_millis()),
                    false => "has not answered yet".into(),
                };
                self.record.push(TransferEvent::PathState { path: *id, state: PathState::Silent, reason });
            }
        }
        self.return_lost(&lost);
        self.move_suspects(now);
        self.finish_if_complete(now);
        let waits = |running: &Running| running.awaits_reader() || running.writer.awaits_storage();
        // A fetch of higher priority uses the capacity of its paths, and they answer that one.
        let answers = |path: &Path| path.flow.as_ref().is_some_and(|flow| flow.silent_since().is_none());
        let gives_way = self.paths.values().any(|path| path.held == Some(Held::Priority) && answers(path));
        let held_up = self.opening.is_some()
            || self.running.as_ref().is_some_and(waits)
            || self.limit.ready_at() > now
            || gives_way;
        if held_up {
            // It is not the sources that keep silent.
            self.patience.restart(now);
        }
        if self.patience.is_over(now) && !self.record.is_ended() {
            self.fail(now, self.silence_reason());
        }
    }
    /// Ends the fetch; verified chunks stay.
    pub fn cancel(&mut self, now: Time) {
        if !self.record.is_ended() {
            self.fail(now, "cancelled".into());
        }
    }
    /// Changes its demands on the paths that it uses.
    pub fn set_demands(&mut self, now: Time, demands: PathDemands) {
        if self.demands != demands {
            self.demands = demands;
            self.apply_rules(now);
        }
    }
    /// Changes the rate limit; `None` lifts it.
    pub fn set_limit(&mut self, now: Time, rate: Option<Rate>) {
        self.limit.set_rate(now, rate);
    }
}

impl Path {
    /// Marks path `id` as answering again, and returns the event.
    fn report_active(&mut self, id: PathId) -> TransferEvent {
        self.reported = PathState::Active;
        TransferEvent::PathState { path: id, state: PathState::Active, reason: "answers again".into() }
    }
    fn on_useful(&mut self, bytes: u64, cache: Option<u16>) {
        self.bytes += bytes;
        if cache.is_some() {
            self.cached_bytes += bytes;
        }
    }
}

//! One fetch, from the first offer of sources to the last verified chunk.
//!
//! ```text
//!   offers ──► trust, choice of the object ──► paths
//!                                               │
//!   idle packets ──► requests, path by path ──► answers ──► units ──► verified ──► store
//!        ▲                                        │           │
//!        └──────── lost, silent, withdrawn ◄──────┘           └──► culprits named and dropped
//! ```
//! A family turns [`PacketRequest`]s into its packets and calls [`Transfer::handle_data`] for what comes back.
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::{String, ToString},
    vec::Vec,
};

use tributary_content::{ChunkIndex, ChunkStore, HashTree, Manifest, Name, ObjectId, StoreError, StoreOpener};
use tributary_core::{
    Duration, NodeId, PathId, Rate, SourceId, Time,
    event::{PathReport, PathState, SourceReport, TransferEvent, TransferReport},
};

use crate::{
    ControllerKind, Coupling, TREE_PACKET_FIRST, TransferConfig,
    assembly::{Assembly, Origin},
    coupling::{self, Member},
    flow::{Answer, Flow, LostPacket, RequestKind, Runs},
    layout::{Layout, Unit},
    limit::TokenBucket,
    runs::RunSet,
    window::Growth,
};

/// How many runs one request may have.
pub const REQUEST_RUNS_MAX: usize = 16;
/// How often coupled sub-flows are looked at again.
const COUPLING_INTERVAL: Duration = Duration::from_millis(5);
/// The first window at most, whatever the network says of a path.
const WINDOW_INITIAL_PACKETS_MAX: u32 = 256;
/// How long the one source that a doubtful unit is fetched from may be silent before another one is asked for all of it.
const SUSPECT_PATIENCE: Duration = Duration::from_secs(2);
/// How often the reader of an in-order stream is looked at while it holds the fetch up.
const READER_INTERVAL: Duration = Duration::from_millis(5);
/// How much a rate limit lets pass at once, as time.
const LIMIT_BURST: Duration = Duration::from_millis(20);

/// A source that the network offers, with all paths to it.
#[derive(Clone, Debug)]
pub struct SourceOffer {
    /// Its node.
    pub node: NodeId,
    /// Its human-readable name.
    pub label: String,
    /// The signed manifest of what it publishes, encoded.
    pub manifest: Vec<u8>,
    /// The paths to it.
    pub paths: Vec<PathOffer>,
}

/// A path that the network offers.
#[derive(Clone, PartialEq, Debug)]
pub struct PathOffer {
    /// Its number, the same in every offer of this transfer.
    pub path: PathId,
    /// The nodes on it, for people.
    pub label: String,
    /// Links from source to receiver.
    pub hops: u32,
    /// The largest payload that a data packet on it may have.
    pub packet_bytes_max: u16,
    /// Links that it shares with other paths of this transfer, by number.
    pub groups: Vec<u16>,
    /// The round-trip time that the network expects; `None` if it does not know.
    pub latency: Option<Duration>,
    /// The rate that the network has left on its narrowest link; `None` if it does not know.
    pub capacity: Option<Rate>,
}

/// A request to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketRequest {
    /// The path to send it on.
    pub path: PathId,
    /// Its number on this path, to be returned with every answer.
    pub number: u16,
    /// What is asked for.
    pub object: ObjectId,
    /// Payload bytes of a packet.
    pub packet_bytes: u16,
    /// Runs of packets: first number and count; 1 to 64 packets in all.
    pub runs: Runs,
    /// Whether caches on the way may answer.
    pub caches: CacheUse,
}

/// Whether caches on the way may answer a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheUse {
    /// They may.
    Allowed,
    /// They must pass it on to the source.
    Bypassed,
}

/// A packet of an object that arrived.
#[derive(Clone, Copy, Debug)]
pub struct PacketData<'a> {
    /// The path that it was asked for on.
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

/// One fetch of one object.
pub struct Transfer {
    name: Name,
    config: TransferConfig,
    opener: Box<dyn StoreOpener>,
    patience: Option<Duration>,
    limit: TokenBucket,
    started: Time,
    ended: Option<Time>,
    failure: Option<String>,
    /// Since when there has been no source that answers.
    lonely_since: Time,
    sources: BTreeMap<SourceId, Source>,
    paths: BTreeMap<PathId, Path>,
    running: Option<Running>,
    last_path: PathId,
    polled_at: Time,
    coupled_at: Time,
    events: VecDeque<TransferEvent>,
    account: Account,
}

#[derive(Default)]
struct Account {
    resumed_bytes: u64,
    cached_bytes: u64,
    retransmitted_bytes: u64,
    duplicate_bytes: u64,
}

struct Source {
    node: NodeId,
    label: String,
    object: ObjectId,
    bytes: u64,
    distrusted: Option<String>,
}

struct Path {
    source: SourceId,
    offer: PathOffer,
    flow: Option<Flow>,
    caches: CacheUse,
    closed: Option<String>,
    /// What was last told of it.
    told: PathState,
    bytes: u64,
    cached_bytes: u64,
}

/// What exists once the object is chosen.
struct Running {
    manifest: Manifest,
    object: ObjectId,
    layout: Layout,
    store: Box<dyn ChunkStore>,
    tree: Option<HashTree>,
    /// Packets that nobody was asked for, hash list and chunks apart because the hash list goes first.
    idle_tree: RunSet,
    idle: RunSet,
    units: BTreeMap<Unit, Assembly>,
    /// Units that failed verification, and the one source that each is fetched from anew.
    suspects: BTreeMap<Unit, Suspect>,
    buffers: Vec<Vec<u8>>,
    units_max: usize,
    stored_bytes: u64,
    /// Whether the reader of an in-order stream holds things up; it must be looked at again.
    awaits_reader: bool,
}

struct Suspect {
    source: SourceId,
    idle: RunSet,
}

impl Transfer {
    /// A fetch of `name` that begins at `now` and gives up after `patience` without any source; `None` never does.
    pub fn new(
        now: Time,
        name: Name,
        config: TransferConfig,
        opener: Box<dyn StoreOpener>,
        rate_limit: Option<Rate>,
        patience: Option<Duration>,
    ) -> Transfer {
        Transfer {
            name,
            config,
            opener,
            patience,
            limit: TokenBucket::new(rate_limit, LIMIT_BURST),
            started: now,
            ended: None,
            failure: None,
            lonely_since: now,
            sources: BTreeMap::new(),
            paths: BTreeMap::new(),
            running: None,
            last_path: PathId(0),
            polled_at: now,
            coupled_at: now,
            events: VecDeque::new(),
            account: Account::default(),
        }
    }

    // Inputs.

    /// Takes everything that the network offers at present; what was offered before and is not in it is withdrawn.
    pub fn handle_offer(&mut self, now: Time, offers: Vec<SourceOffer>) {
        if self.ended.is_some() {
            return;
        }
        let mut candidates = Vec::new();
        let mut offered_paths = BTreeSet::new();
        let mut accepted = Vec::new();
        for offer in offers {
            let source = self.source_id(&offer);
            let manifest = match self.check_manifest(&offer.manifest) {
                Ok(manifest) => manifest,
                Err(reason) => {
                    self.distrust(now, source, reason);
                    continue;
                }
            };
            let object = manifest.object_id();
            let known = self.sources.get_mut(&source).expect("source_id adds it");
            known.object = object;
            if known.distrusted.is_none() {
                candidates.push(manifest);
                accepted.push((source, object, offer.paths));
            }
        }
        if self.running.is_none() {
            match self.choose(&candidates) {
                Some(manifest) => self.start(now, manifest, &accepted),
                None => return,
            }
        }
        let Some(running) = self.running.as_ref().filter(|_| self.ended.is_none()) else { return };
        let (object, chosen) = (running.object, running.manifest.clone());
        for (source, offered, paths) in accepted {
            if offered != object {
                let manifest = candidates.iter().find(|manifest| manifest.object_id() == offered);
                let reason = manifest.map_or_else(String::new, |manifest| differs(manifest, &chosen));
                self.distrust(now, source, reason);
                continue;
            }
            for path in paths {
                offered_paths.insert(path.path);
                self.add_path(now, source, path);
            }
        }
        let withdrawn: Vec<PathId> = self.paths.keys().filter(|path| !offered_paths.contains(path)).copied().collect();
        for path in withdrawn {
            self.close_path(path, "withdrawn by the network".into());
        }
        self.couple(now);
    }
    /// Takes one packet that arrived.
    pub fn handle_data(&mut self, now: Time, data: &PacketData<'_>) {
        let Some(path) = self.paths.get_mut(&data.path) else { return };
        let (Some(flow), Some(running)) = (&mut path.flow, &mut self.running) else { return };
        let was_silent = flow.silent_since().is_some();
        let bytes = data.payload.len() as u64;
        let cache_use = flow.cache_use(data.number);
        let answer = flow.on_data(now, data.number, data.packet, bytes, data.cache.is_some());
        if answer == Answer::Stray {
            self.account.duplicate_bytes += bytes;
            return;
        }
        self.lonely_since = now;
        if was_silent {
            path.told = PathState::Active;
            self.events.push_back(TransferEvent::PathState {
                path: data.path,
                state: PathState::Active,
                reason: "answers again".into(),
            });
        }
        if data.cache.is_some() && (path.caches == CacheUse::Bypassed || cache_use == Some(CacheUse::Bypassed)) {
            running.make_idle(data.packet);
            if cache_use == Some(CacheUse::Bypassed) {
                self.close_path(data.path, "a cache on it answers although it must not".into());
            }
            return;
        }
        let origin = Origin { path: data.path, cache: data.cache };
        if running.layout.locate(data.packet).is_none_or(|(.., len)| len as usize != data.payload.len()) {
            running.make_idle(data.packet);
            return self.blame(now, origin, &format!("answered packet {} with {bytes} bytes", data.packet));
        }
        match running.put(data.packet, data.payload, origin, path.source) {
            Put::Duplicate => self.account.duplicate_bytes += bytes,
            Put::Kept => path.on_useful(bytes, data.cache, &mut self.account),
            Put::Completed(unit) => {
                path.on_useful(bytes, data.cache, &mut self.account);
                self.verify(now, unit);
            }
        }
        self.detect_losses(now, data.path);
        if now.since(self.coupled_at) >= COUPLING_INTERVAL {
            self.couple(now);
        }
    }
    /// Does what is due: finds silent paths, gives up without sources.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.ended.is_some() {
            return;
        }
        let mut lost = Vec::new();
        for (id, path) in &mut self.paths {
            let Some(flow) = &mut path.flow else { continue };
            let before = flow.silent_since();
            flow.detect_overdue(now, &mut lost);
            if flow.detect_silence(now, &mut lost) && before.is_none() {
                path.told = PathState::Silent;
                let reason = match flow.ever_answered() {
                    true => format!("no answer for {} ms", flow.rtt().rto().as_millis()),
                    false => "has not answered yet".into(),
                };
                self.events.push_back(TransferEvent::PathState { path: *id, state: PathState::Silent, reason });
            }
        }
        self.return_lost(&lost);
        self.move_suspects(now);
        let held_up = self.running.as_ref().is_some_and(|running| running.awaits_reader) || self.limit.ready_at() > now;
        if held_up {
            // It is not the sources that keep silent.
            self.lonely_since = now;
        }
        if let Some(deadline) = self.patience_deadline()
            && deadline <= now
        {
            self.fail(now, self.lonely_reason());
        }
    }
    /// Ends the fetch; what is verified stays.
    pub fn cancel(&mut self, now: Time) {
        if self.ended.is_none() {
            self.fail(now, "cancelled".into());
        }
    }
    /// Changes the rate limit; `None` lifts it.
    pub fn set_limit(&mut self, now: Time, rate: Option<Rate>) {
        self.limit.set_rate(now, rate);
    }

    // Outputs.

    /// The next request to send at `now`, within the limits of this transfer and of all transfers together (`shared`).
    pub fn poll_request(&mut self, now: Time, shared: &mut TokenBucket) -> Option<PacketRequest> {
        self.polled_at = now;
        if self.ended.is_some() || self.running.is_none() {
            return None;
        }
        if self.limit.ready_at() > now || shared.ready_at() > now {
            self.paths.values_mut().filter_map(|path| path.flow.as_mut()).for_each(Flow::on_starved);
            return None;
        }
        let from = self.last_path;
        let order: Vec<PathId> = {
            let after = self.paths.range(PathId(from.0.saturating_add(1))..);
            after.chain(self.paths.range(..=from)).filter(|(_, path)| path.flow.is_some()).map(|(id, _)| *id).collect()
        };
        for id in order {
            if let Some(request) = self.request_on(now, id) {
                let bytes = request.runs.iter().map(|&(_, count)| u64::from(count)).sum::<u64>()
                    * u64::from(request.packet_bytes);
                self.limit.on_pass(now, bytes);
                shared.on_pass(now, bytes);
                self.last_path = id;
                return Some(request);
            }
        }
        None
    }
    /// When to call [`Transfer::handle_timeout`] or poll for requests again.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.ended.is_some() {
            return None;
        }
        let flows = self.paths.values().filter_map(|path| path.flow.as_ref()?.deadline(self.polled_at));
        let limit = Some(self.limit.ready_at()).filter(|ready| *ready > self.polled_at && self.running.is_some());
        let awaits_reader = self.running.as_ref().is_some_and(|running| running.awaits_reader);
        let reader = awaits_reader.then(|| self.polled_at + READER_INTERVAL);
        flows.chain(self.patience_deadline()).chain(limit).chain(reader).min()
    }
    /// The next thing worth telling.
    pub fn poll_event(&mut self) -> Option<TransferEvent> {
        self.events.pop_front()
    }

    // Questions.

    /// What is fetched.
    pub fn name(&self) -> &Name {
        &self.name
    }
    /// What is fetched, once it is chosen.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.running.as_ref().map(|running| &running.manifest)
    }
    /// Whether it has ended, one way or the other.
    pub fn is_ended(&self) -> bool {
        self.ended.is_some()
    }
    /// The account so far.
    pub fn report(&self, now: Time) -> TransferReport {
        let sources = self.sources.iter().map(|(id, source)| SourceReport {
            source: *id,
            node: source.node,
            label: source.label.clone(),
            bytes: source.bytes,
            distrusted: source.distrusted.clone(),
        });
        let running = self.running.as_ref();
        TransferReport {
            bytes: running.map_or(0, |running| running.manifest.size),
            stored_bytes: running.map_or(0, |running| running.stored_bytes),
            resumed_bytes: self.account.resumed_bytes,
            cached_bytes: self.account.cached_bytes,
            retransmitted_bytes: self.account.retransmitted_bytes,
            duplicate_bytes: self.account.duplicate_bytes,
            started: self.started,
            ended: self.ended,
            failure: self.failure.clone(),
            sources: sources.collect(),
            paths: self.paths.iter().map(|(id, path)| self.path_report(now, *id, path)).collect(),
        }
    }

    // Sources and paths.

    fn source_id(&mut self, offer: &SourceOffer) -> SourceId {
        if let Some((id, _)) = self.sources.iter().find(|(_, source)| source.node == offer.node) {
            return *id;
        }
        let id = SourceId(self.sources.len() as u16 + 1);
        let label = offer.label.clone();
        self.events.push_back(TransferEvent::SourceAdded { source: id, node: offer.node, label: label.clone() });
        self.sources
            .insert(id, Source { node: offer.node, label, object: ObjectId([0; 16]), bytes: 0, distrusted: None });
        id
    }
    fn check_manifest(&self, bytes: &[u8]) -> Result<Manifest, String> {
        let manifest = Manifest::decode(bytes).map_err(|error| format!("its manifest is not valid: {error}"))?;
        if manifest.name != self.name {
            return Err(format!("its manifest is for another name, '{}'", manifest.name));
        }
        self.opener.trusts(&manifest).map_err(|error| error.to_string())?;
        Ok(manifest)
    }
    /// What to fetch when sources offer different objects: what an earlier run has begun; else of the publisher that
    /// most sources agree on, the newest version.
    fn choose(&self, candidates: &[Manifest]) -> Option<Manifest> {
        let backers = |manifest: &Manifest| candidates.iter().filter(|m| m.publisher == manifest.publisher).count();
        candidates
            .iter()
            .enumerate()
            .max_by_key(|(index, m)| (self.opener.resumes(m), backers(m), m.version, core::cmp::Reverse(*index)))
            .map(|(_, manifest)| manifest.clone())
    }
    fn start(&mut self, now: Time, manifest: Manifest, offers: &[(SourceId, ObjectId, Vec<PathOffer>)]) {
        let object = manifest.object_id();
        let usable = offers.iter().filter(|(_, offered, _)| *offered == object).flat_map(|(.., paths)| paths);
        let smallest = usable.map(|path| path.packet_bytes_max).min().unwrap_or(1200);
        let packet_bytes = self.config.packet_bytes.map_or(smallest, |configured| configured.min(smallest));
        let Some(layout) = Layout::new(&manifest, packet_bytes) else {
            let size = manifest.size;
            return self
                .fail(now, format!("{size} bytes in packets of {packet_bytes} are more packets than can be numbered"));
        };
        let store = match self.opener.open(&manifest) {
            Ok(store) => store,
            Err(error) => return self.fail(now, error.to_string()),
        };
        let mut idle = RunSet::new();
        let mut held_bytes = manifest.size;
        for run in store.held().unset_runs() {
            held_bytes -=
                (run.start..run.end).map(|index| u64::from(manifest.chunk_len(ChunkIndex(index)))).sum::<u64>();
            idle.insert(layout.packets(Unit::Chunk(run.start)).0, layout.packets(Unit::Chunk(run.end - 1)).1);
        }
        let mut idle_tree = RunSet::new();
        let tree = store.tree().cloned();
        let (first, end) = layout.packets(Unit::Tree);
        if !idle.is_empty() && tree.is_none() {
            idle_tree.insert(first, end);
        }
        self.account.resumed_bytes = held_bytes;
        self.lonely_since = now;
        self.events.push_back(TransferEvent::Started { bytes: manifest.size, resumed_bytes: held_bytes });
        let units_max = (self.config.assembly_bytes_max / u64::from(manifest.chunk_size.max(1))).max(2) as usize;
        self.running = Some(Running {
            object,
            layout,
            store,
            tree,
            idle_tree,
            idle,
            units: BTreeMap::new(),
            suspects: BTreeMap::new(),
            buffers: Vec::new(),
            units_max,
            stored_bytes: held_bytes,
            awaits_reader: false,
            manifest,
        });
        self.finish_if_complete(now);
    }
    fn add_path(&mut self, now: Time, source: SourceId, offer: PathOffer) {
        let Some(running) = &self.running else { return };
        let packet_bytes = running.layout.packet_bytes();
        let id = offer.path;
        if let Some(path) = self.paths.get_mut(&id) {
            let reopened = path.closed.is_some() && path.source == source;
            path.offer = offer;
            if !reopened && path.offer.packet_bytes_max >= packet_bytes {
                return;
            }
            if reopened {
                path.closed = None;
            }
        } else {
            self.events.push_back(TransferEvent::PathAdded { path: id, source });
            self.paths.insert(
                id,
                Path {
                    source,
                    offer,
                    flow: None,
                    caches: CacheUse::Allowed,
                    closed: None,
                    told: PathState::Idle,
                    bytes: 0,
                    cached_bytes: 0,
                },
            );
        }
        let path = self.paths.get_mut(&id).expect("it was there or has just been put there");
        if path.offer.packet_bytes_max < packet_bytes {
            let reason = format!(
                "carries packets of {} bytes, this transfer's have {packet_bytes}",
                path.offer.packet_bytes_max
            );
            self.close_path(id, reason);
            return;
        }
        path.told = PathState::Active;
        let offer = path.offer.clone();
        let config = self.config_for(&offer, u64::from(packet_bytes));
        let flow = Flow::new(now, &config, u64::from(packet_bytes), offer.latency);
        if let Some(path) = self.paths.get_mut(&id) {
            path.flow = Some(flow);
        }
    }
    /// The settings for a path: what the network knows of it spares the model-based window the first round trips
    /// (paper §III-D: the network and the receiver cooperate). Paths that share a link begin with their part of it.
    fn config_for(&self, offer: &PathOffer, packet_bytes: u64) -> TransferConfig {
        let mut config = self.config.clone();
        if let (ControllerKind::ModelBased, Some(rate), Some(latency)) =
            (config.controller, offer.capacity, offer.latency)
        {
            let shares = |path: &&Path| path.offer.groups.iter().any(|group| offer.groups.contains(group));
            let sharing =
                self.paths.values().filter(|path| path.offer.path != offer.path).filter(shares).count() as u64;
            let packets = rate.bytes_in(latency) / packet_bytes / (1 + sharing);
            let packets = u32::try_from(packets).unwrap_or(u32::MAX);
            config.window_initial_packets = packets.clamp(config.window_initial_packets, WINDOW_INITIAL_PACKETS_MAX);
        }
        config
    }
    fn close_path(&mut self, id: PathId, reason: String) {
        let Some(path) = self.paths.get_mut(&id) else { return };
        if path.closed.is_some() {
            return;
        }
        let mut lost = Vec::new();
        if let Some(mut flow) = path.flow.take() {
            flow.give_up_all(&mut lost);
        }
        path.closed = Some(reason.clone());
        path.told = PathState::Closed;
        self.events.push_back(TransferEvent::PathState { path: id, state: PathState::Closed, reason });
        self.return_lost(&lost);
    }
    /// Names a source that lies, asks it no more, and drops what it sent that is not verified yet.
    fn distrust(&mut self, now: Time, id: SourceId, reason: String) {
        let Some(source) = self.sources.get_mut(&id) else { return };
        if source.distrusted.is_some() {
            return;
        }
        source.distrusted = Some(reason.clone());
        let label = source.label.clone();
        self.events.push_back(TransferEvent::SourceDistrusted { source: id, label: label.clone(), reason });
        let paths: BTreeSet<PathId> =
            self.paths.iter().filter(|(_, path)| path.source == id).map(|(id, _)| *id).collect();
        for path in &paths {
            self.close_path(*path, format!("'{label}' is not trusted any more"));
        }
        if let Some(running) = &mut self.running {
            running.discard(|origin| paths.contains(&origin.path) && origin.cache.is_none());
        }
        self.move_suspects(now);
    }

    // Requests.

    fn request_on(&mut self, now: Time, id: PathId) -> Option<PacketRequest> {
        let running = self.running.as_mut()?;
        let path = self.paths.get_mut(&id)?;
        let source = path.source;
        let flow = path.flow.as_mut()?;
        let room = flow.room(now);
        if room == 0 {
            return None;
        }
        let mut caches = path.caches;
        let mut kind = RequestKind::Claiming;
        let runs = if flow.silent_since().is_some() {
            // A probe takes nothing away from the paths that answer.
            kind = RequestKind::Probing;
            running.probe()
        } else if let Some(runs) = running.take_suspect(source, room) {
            caches = CacheUse::Bypassed;
            runs
        } else {
            running.take_idle(room)
        };
        let runs = if runs.is_empty() && kind == RequestKind::Claiming {
            flow.on_starved();
            let eta = flow.arrival_of(now, room);
            kind = RequestKind::Duplicating;
            self.late_packets(id, eta, room)
        } else {
            runs
        };
        if runs.is_empty() {
            return None;
        }
        let running = self.running.as_ref()?;
        let flow = self.paths.get_mut(&id)?.flow.as_mut()?;
        let number = flow.on_request(now, &runs, kind, caches);
        let packet_bytes = running.layout.packet_bytes();
        Some(PacketRequest { path: id, number, object: running.object, packet_bytes, runs, caches })
    }
    /// Packets that other paths were asked for and that this one, idle, would bring sooner: the end-game, and the way
    /// round a path that holds up the assembly.
    fn late_packets(&mut self, own: PathId, eta: Time, room: u32) -> Runs {
        let Some(running) = &mut self.running else { return Runs::new() };
        let mut packets = Vec::new();
        for (id, path) in &mut self.paths {
            let Some(flow) = path.flow.as_mut().filter(|_| *id != own) else { continue };
            let left = room as usize - packets.len();
            if left > 0 {
                packets.extend(flow.late_packets(eta, left, |packet| running.wants(packet)));
            }
        }
        packets.sort_unstable();
        packets.dedup();
        let (runs, left_over) = into_runs(&packets);
        // Each chosen packet is this path's duty now; what does not fit into the request becomes anyone's.
        for packet in left_over {
            running.make_idle(*packet);
        }
        let asked: u64 = runs.iter().map(|&(_, count)| u64::from(count)).sum();
        self.account.retransmitted_bytes += asked * u64::from(running.layout.packet_bytes());
        runs
    }

    // Losses.

    fn detect_losses(&mut self, now: Time, id: PathId) {
        let Some(flow) = self.paths.get_mut(&id).and_then(|path| path.flow.as_mut()) else { return };
        let mut lost = Vec::new();
        flow.detect_losses(now, &mut lost);
        flow.detect_overdue(now, &mut lost);
        self.return_lost(&lost);
    }
    fn return_lost(&mut self, lost: &[LostPacket]) {
        let Some(running) = self.running.as_mut().filter(|_| !lost.is_empty()) else { return };
        for loss in lost.iter().filter(|loss| !loss.covered) {
            if running.make_idle(loss.packet) {
                self.account.retransmitted_bytes += u64::from(running.layout.packet_bytes());
            }
        }
    }

    // Verification.

    fn verify(&mut self, now: Time, unit: Unit) {
        let Some(running) = &mut self.running else { return };
        match running.verify(unit) {
            Verdict::Waits => {}
            Verdict::Good => self.on_good(now, unit),
            Verdict::Bad => self.on_bad(now, unit),
        }
    }
    fn on_good(&mut self, now: Time, unit: Unit) {
        let Some(running) = &mut self.running else { return };
        let Some(assembly) = running.units.remove(&unit) else { return };
        running.suspects.remove(&unit);
        for origin in assembly.culprits() {
            self.blame(now, origin, "sent bytes that failed verification");
        }
        let Some(running) = &mut self.running else { return };
        match unit {
            Unit::Tree => {
                let Ok(tree) = HashTree::decode(&running.manifest, assembly.bytes()) else { return };
                if let Err(error) = running.take_tree(tree) {
                    return self.fail(now, error.to_string());
                }
                let waiting: Vec<Unit> =
                    running.units.iter().filter(|(_, unit)| unit.is_complete()).map(|(unit, _)| *unit).collect();
                for unit in waiting {
                    self.verify(now, unit);
                }
            }
            Unit::Chunk(index) => {
                if let Err(error) = running.store.put_chunk(ChunkIndex(index), assembly.bytes()) {
                    return self.fail(now, error.to_string());
                }
                let bytes = assembly.bytes().len() as u64;
                running.stored_bytes += bytes;
                for (origin, bytes) in assembly.shares() {
                    let source = self.paths.get(&origin.path).map(|path| path.source);
                    if let (None, Some(source)) = (origin.cache, source.and_then(|id| self.sources.get_mut(&id))) {
                        source.bytes += bytes as u64;
                    }
                }
                running.buffers.push(assembly.into_buffer());
                running.buffers.truncate(4);
                self.events.push_back(TransferEvent::ChunkStored { index, bytes: bytes as u32 });
                self.finish_if_complete(now);
            }
        }
    }
    /// A unit failed. With a single contributor the culprit is known; else the unit is fetched anew from one source,
    /// past all caches, and the difference tells.
    fn on_bad(&mut self, now: Time, unit: Unit) {
        let Some(running) = &mut self.running else { return };
        let Some(assembly) = running.units.get_mut(&unit) else { return };
        let contributors: Vec<Origin> = assembly.contributors().into_iter().collect();
        let sender = |origin: &Origin| (self.paths.get(&origin.path).map(|path| path.source), origin.cache);
        let first = contributors.first().map(sender);
        let what = match unit {
            Unit::Tree => "sent a hash list that failed verification".into(),
            Unit::Chunk(index) => format!("sent chunk {index} with bytes that failed verification"),
        };
        if contributors.iter().all(|origin| Some(sender(origin)) == first) {
            assembly.discard(|_| true);
            running.restart(unit);
            if let Some(origin) = contributors.first() {
                self.blame(now, *origin, &what);
            }
            return;
        }
        assembly.set_aside();
        let (first, end) = running.layout.packets(unit);
        running.take_out(first, end);
        let mut idle = RunSet::new();
        idle.insert(first, end);
        // The source that contributed least is the least likely culprit.
        let shares = contributors.iter().filter_map(|origin| self.paths.get(&origin.path)).map(|path| path.source);
        let shares: Vec<SourceId> = shares.collect();
        let next = self.live_sources(now).into_iter().min_by_key(|id| shares.iter().filter(|s| *s == id).count());
        let Some(running) = &mut self.running else { return };
        running.suspects.insert(unit, Suspect { source: next.unwrap_or_default(), idle });
        self.move_suspects(now);
    }
    fn blame(&mut self, now: Time, origin: Origin, what: &str) {
        let Some(path) = self.paths.get_mut(&origin.path) else { return };
        let Some(cache) = origin.cache else {
            let source = path.source;
            return self.distrust(now, source, what.into());
        };
        if path.caches == CacheUse::Bypassed {
            return;
        }
        path.caches = CacheUse::Bypassed;
        let reason = format!("{what} (on path {}, bypassed from now on)", path.offer.label);
        self.events.push_back(TransferEvent::CacheDistrusted { node: NodeId(u64::from(cache)), reason });
        if let Some(running) = &mut self.running {
            running.discard(|other| other.path == origin.path && other.cache.is_some());
        }
    }
    /// Gives units under suspicion whose source is gone to another source; ends the fetch if there is none.
    fn move_suspects(&mut self, now: Time) {
        let live = self.live_sources(now);
        let Some(running) = &mut self.running else { return };
        let stranded: Vec<Unit> = running
            .suspects
            .iter()
            .filter(|(_, suspect)| !live.contains(&suspect.source))
            .map(|(unit, _)| *unit)
            .collect();
        let Some(next) = live.first() else {
            let trusted = self.sources.values().any(|source| source.distrusted.is_none());
            if !trusted && !self.sources.is_empty() && self.ended.is_none() {
                self.fail(now, self.untrusted_reason());
            }
            return;
        };
        for unit in stranded {
            let (first, end) = running.layout.packets(unit);
            if let Some(assembly) = running.units.get_mut(&unit) {
                assembly.discard(|_| true);
            }
            let suspect = running.suspects.get_mut(&unit).expect("it was found there");
            suspect.source = *next;
            suspect.idle.insert(first, end);
        }
    }
    /// Sources that are trusted and have a path that is not silent for long; if there is none, those that have a path.
    fn live_sources(&self, now: Time) -> Vec<SourceId> {
        let with = |wanted: &dyn Fn(&Flow) -> bool| -> Vec<SourceId> {
            let live = self.paths.values().filter(|path| path.flow.as_ref().is_some_and(wanted));
            let mut sources: Vec<SourceId> = live.map(|path| path.source).collect();
            sources.sort_unstable();
            sources.dedup();
            sources
        };
        let answering = with(&|flow| flow.silent_since().is_none_or(|since| now.since(since) < SUSPECT_PATIENCE));
        if answering.is_empty() { with(&|_| true) } else { answering }
    }

    // Ends.

    fn finish_if_complete(&mut self, now: Time) {
        let Some(running) = &mut self.running else { return };
        if !running.store.held().is_full() {
            return;
        }
        match running.store.finish() {
            Ok(()) => {
                self.ended = Some(now);
                self.events.push_back(TransferEvent::Completed);
                running.units.clear();
                running.buffers.clear();
            }
            Err(error) => self.fail(now, error.to_string()),
        }
    }
    fn fail(&mut self, now: Time, reason: String) {
        self.ended = Some(now);
        if let Some(running) = &mut self.running {
            running.units.clear();
            running.buffers.clear();
        }
        self.failure = Some(reason.clone());
        self.events.push_back(TransferEvent::Failed { reason });
    }
    fn patience_deadline(&self) -> Option<Time> {
        Some(self.lonely_since + self.patience?)
    }
    fn lonely_reason(&self) -> String {
        let seconds = self.patience.unwrap_or_default().as_secs_f64();
        match (&self.running, self.sources.len()) {
            (None, 0) => format!("no publisher of '{}' answered within {seconds:.0} s", self.name),
            (None, _) => self.untrusted_reason(),
            (Some(running), sources) => format!(
                "none of the {sources} sources of '{}' answered for {seconds:.0} s; {} of {} bytes are verified and kept",
                self.name, running.stored_bytes, running.manifest.size
            ),
        }
    }
    fn untrusted_reason(&self) -> String {
        let mut reason = format!("no source of '{}' can be trusted:", self.name);
        for source in self.sources.values() {
            let why = source.distrusted.as_deref().unwrap_or("it does not answer");
            reason.push_str(&format!(" '{}': {why};", source.label));
        }
        reason.pop();
        reason
    }

    // Coupling and reports.

    fn couple(&mut self, now: Time) {
        self.coupled_at = now;
        if self.config.coupling == Coupling::Uncoupled {
            return;
        }
        let member = |path: &Path, flow: &Flow| {
            let packet_bytes = f64::from(path.offer.packet_bytes_max.max(1));
            let rtt = flow.rtt().smoothed().map_or(0.1, |rtt| rtt.as_secs_f64().max(1e-6));
            Member { window: (flow.window() as f64 / packet_bytes).max(0.1), rtt }
        };
        let flows: Vec<(PathId, Vec<u16>, Member)> = self
            .paths
            .iter()
            .filter_map(|(id, path)| {
                let flow = path.flow.as_ref().filter(|flow| flow.silent_since().is_none())?;
                Some((*id, path.offer.groups.clone(), member(path, flow)))
            })
            .collect();
        for (id, groups, own) in &flows {
            let sharing =
                flows.iter().filter(|(other, shared, _)| other == id || shared.iter().any(|g| groups.contains(g)));
            let group: Vec<Member> = sharing.map(|(.., member)| *member).collect();
            let growth =
                if groups.is_empty() { Growth::ALONE } else { coupling::growth(self.config.coupling, *own, &group) };
            if let Some(flow) = self.paths.get_mut(id).and_then(|path| path.flow.as_mut()) {
                flow.set_growth(growth);
            }
        }
    }
    fn path_report(&self, now: Time, id: PathId, path: &Path) -> PathReport {
        let flow = path.flow.as_ref();
        let (state, reason) = match (&path.closed, flow) {
            (Some(reason), _) => (PathState::Closed, reason.clone()),
            (None, None) => (PathState::Idle, "not opened yet".into()),
            (None, Some(flow)) => match flow.silent_since() {
                Some(since) => {
                    (PathState::Silent, format!("no answer for {:.1} s; probed", now.since(since).as_secs_f64()))
                }
                None if !flow.ever_answered() => (PathState::Active, "waits for the first answer".into()),
                None => (PathState::Active, self.activity(now, flow)),
            },
        };
        PathReport {
            path: id,
            source: path.source,
            label: path.offer.label.clone(),
            hops: path.offer.hops,
            groups: path.offer.groups.clone(),
            state,
            reason,
            bytes: path.bytes,
            cached_bytes: path.cached_bytes,
            requested_packets: flow.map_or(0, |flow| flow.requested_packets),
            lost_packets: flow.map_or(0, |flow| flow.lost_packets),
            in_flight_bytes: flow.map_or(0, Flow::in_flight),
            window_bytes: flow.map_or(0, Flow::window),
            rate: flow.map_or_else(Rate::default, |flow| flow.rate(now)),
            rtt: flow.and_then(|flow| flow.rtt().smoothed()),
            rtt_min: flow.and_then(|flow| flow.rtt().minimum()),
        }
    }
    fn activity(&self, now: Time, flow: &Flow) -> String {
        if self.ended.is_some() {
            return "the transfer has ended".into();
        }
        if let Some(rate) = self.limit.rate().filter(|_| self.limit.ready_at() > now) {
            return format!("limited to {rate} by request");
        }
        let full =
            if flow.room(now) == 0 { "as much under way as the path carries" } else { "nothing left to ask for" };
        format!("{full} ({})", flow.phase())
    }
}

impl Path {
    fn on_useful(&mut self, bytes: u64, cache: Option<u16>, account: &mut Account) {
        self.bytes += bytes;
        if cache.is_some() {
            self.cached_bytes += bytes;
            account.cached_bytes += bytes;
        }
    }
}

enum Put {
    Kept,
    Duplicate,
    Completed(Unit),
}

enum Verdict {
    Good,
    Bad,
    /// A chunk that is complete before the hash list is.
    Waits,
}

impl Running {
    fn put(&mut self, packet: u32, payload: &[u8], origin: Origin, source: SourceId) -> Put {
        let Some((unit, offset, _)) = self.layout.locate(packet) else { return Put::Duplicate };
        if self.is_stored(unit) {
            return Put::Duplicate;
        }
        if let Some(suspect) = self.suspects.get_mut(&unit) {
            if suspect.source != source {
                return Put::Duplicate;
            }
            suspect.idle.remove(packet, packet + 1);
        } else {
            // It may be idle although it arrived: taken for lost too early, or asked for by a probe.
            self.take_out(packet, packet + 1);
        }
        let assembly = self.assembly(unit);
        if assembly.is_complete() || !assembly.put(offset as usize, payload, origin) {
            return Put::Duplicate;
        }
        if assembly.is_complete() { Put::Completed(unit) } else { Put::Kept }
    }
    fn assembly(&mut self, unit: Unit) -> &mut Assembly {
        let (buffers, layout) = (&mut self.buffers, &self.layout);
        self.units.entry(unit).or_insert_with(|| {
            let buffer = buffers.pop().unwrap_or_default();
            Assembly::new(buffer, layout.unit_bytes(unit) as usize, usize::from(layout.packet_bytes()))
        })
    }
    fn is_stored(&self, unit: Unit) -> bool {
        match unit {
            Unit::Tree => self.tree.is_some(),
            Unit::Chunk(index) => self.store.held().get(index),
        }
    }
    /// Whether a packet has not arrived yet.
    fn misses(&self, packet: u32) -> bool {
        self.layout.locate(packet).is_some_and(|(unit, offset, _)| {
            let missing = |assembly: &Assembly| !assembly.has(offset as usize);
            !self.is_stored(unit) && self.units.get(&unit).is_none_or(missing)
        })
    }
    /// Whether a packet is of use from anyone.
    fn wants(&self, packet: u32) -> bool {
        self.misses(packet) && self.layout.locate(packet).is_some_and(|(unit, ..)| !self.suspects.contains_key(&unit))
    }
    /// Takes the verified hash list; chunks of an earlier run that do not match it are asked for again.
    fn take_tree(&mut self, tree: HashTree) -> Result<(), StoreError> {
        let before = self.store.held().clone();
        self.store.put_tree(&tree)?;
        self.tree = Some(tree);
        for index in before.iter_set().filter(|index| !self.store.held().get(*index)) {
            let (first, end) = self.layout.packets(Unit::Chunk(index));
            self.idle.insert(first, end);
            self.stored_bytes -= u64::from(self.manifest.chunk_len(ChunkIndex(index)));
        }
        Ok(())
    }
    fn verify(&self, unit: Unit) -> Verdict {
        let Some(assembly) = self.units.get(&unit) else { return Verdict::Waits };
        let good = match unit {
            Unit::Tree => HashTree::decode(&self.manifest, assembly.bytes()).is_ok(),
            Unit::Chunk(_) if self.manifest.tree_bytes() == 0 => self.manifest.verify_only_chunk(assembly.bytes()),
            Unit::Chunk(index) => match &self.tree {
                Some(tree) => tree.verify_chunk(ChunkIndex(index), assembly.bytes()),
                None => return Verdict::Waits,
            },
        };
        if good { Verdict::Good } else { Verdict::Bad }
    }
    /// Puts a packet back among those that nobody was asked for; false if it is of no use any more.
    fn make_idle(&mut self, packet: u32) -> bool {
        let Some((unit, ..)) = self.layout.locate(packet).filter(|_| self.misses(packet)) else { return false };
        match self.suspects.get_mut(&unit) {
            Some(suspect) => suspect.idle.insert(packet, packet + 1),
            None => self.idle_of(unit).insert(packet, packet + 1),
        }
        true
    }
    fn idle_of(&mut self, unit: Unit) -> &mut RunSet {
        if unit == Unit::Tree { &mut self.idle_tree } else { &mut self.idle }
    }
    fn take_out(&mut self, first: u32, end: u32) {
        let set = if first >= TREE_PACKET_FIRST { &mut self.idle_tree } else { &mut self.idle };
        if set.first_run().is_some_and(|(lowest, _)| lowest < end) {
            set.remove(first, end);
        }
    }
    /// Makes all packets of a unit idle.
    fn restart(&mut self, unit: Unit) {
        let (first, end) = self.layout.packets(unit);
        match self.suspects.get_mut(&unit) {
            Some(suspect) => suspect.idle.insert(first, end),
            None => self.idle_of(unit).insert(first, end),
        }
    }
    /// Drops what `unwanted` origins sent of units that are not verified yet, and asks for it again. A unit under
    /// suspicion loses the suspicion with the packets that caused it.
    fn discard(&mut self, unwanted: impl Fn(Origin) -> bool) {
        let units: Vec<Unit> = self.units.keys().copied().collect();
        for unit in units {
            let Some(assembly) = self.units.get_mut(&unit) else { continue };
            let suspected = assembly.failed.as_ref();
            let relieved =
                suspected.is_some_and(|(_, origins)| origins.iter().flatten().any(|origin| unwanted(*origin)));
            if relieved {
                assembly.take_back();
                self.suspects.remove(&unit);
            }
            let (first, _) = self.layout.packets(unit);
            let slots = assembly.discard(&unwanted);
            for slot in slots {
                self.make_idle(first + slot);
            }
        }
    }
    /// Up to `max` idle packets, ascending, hash list first; none of units that would exceed the assembly.
    fn take_idle(&mut self, max: u32) -> Runs {
        let mut runs = Runs::new();
        let mut left = max;
        self.awaits_reader = false;
        while left > 0 && runs.len() < REQUEST_RUNS_MAX {
            let tree = !self.idle_tree.is_empty();
            let set = if tree { &self.idle_tree } else { &self.idle };
            let Some((first, end)) = set.first_run() else { break };
            let Some((unit, ..)) = self.layout.locate(first) else { break };
            if let Some(index) = Layout::chunk_of(unit)
                && self.store.in_order_until().is_some_and(|until| index >= until)
            {
                self.awaits_reader = true;
                break;
            }
            if !tree && !self.units.contains_key(&unit) && self.units.len() >= self.units_max {
                break;
            }
            let end = end.min(self.layout.packets(unit).1).min(first + left);
            self.take_out(first, end);
            self.assembly(unit);
            left -= end - first;
            match runs.last_mut() {
                Some((start, count)) if *start + u32::from(*count) == first => *count += (end - first) as u8,
                _ => runs.push((first, (end - first) as u8)),
            }
        }
        runs
    }
    /// Up to `max` packets that only `source` may be asked for.
    fn take_suspect(&mut self, source: SourceId, max: u32) -> Option<Runs> {
        let suspect =
            self.suspects.values_mut().find(|suspect| suspect.source == source && !suspect.idle.is_empty())?;
        let (first, end) = suspect.idle.first_run()?;
        let end = end.min(first + max);
        suspect.idle.remove(first, end);
        Some(Runs::from([(first, (end - first) as u8)]))
    }
    /// One packet that is of use, without claiming it: what a silent path is probed with.
    fn probe(&self) -> Runs {
        let idle = self.idle_tree.first_run().or_else(|| self.idle.first_run()).map(|(first, _)| first);
        let open = || {
            self.units.keys().find_map(|unit| {
                let (first, end) = self.layout.packets(*unit);
                (first..end).find(|packet| self.misses(*packet))
            })
        };
        idle.or_else(open).map(|packet| Runs::from([(packet, 1)])).unwrap_or_default()
    }
}

/// Ascending packets as runs, as many as fit into a request, and the packets left over.
fn into_runs(packets: &[u32]) -> (Runs, &[u32]) {
    let mut runs = Runs::new();
    for (index, &packet) in packets.iter().enumerate() {
        if let Some((first, count)) = runs.last_mut()
            && *first + u32::from(*count) == packet
            && *count < 64
        {
            *count += 1;
        } else if runs.len() < REQUEST_RUNS_MAX {
            runs.push((packet, 1));
        } else {
            return (runs, &packets[index..]);
        }
    }
    (runs, &[])
}

fn differs(offered: &Manifest, chosen: &Manifest) -> String {
    if offered.publisher == chosen.publisher {
        format!("offers version {} of the object, this fetch is of version {}", offered.version, chosen.version)
    } else {
        format!("offers another file under this name, signed by {} and not by {}", offered.publisher, chosen.publisher)
    }
}

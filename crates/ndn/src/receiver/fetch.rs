//! One fetch: its probes, its paths, and the Interests that its transfer asks for.
use alloc::{
    collections::{BTreeMap, VecDeque},
    format,
    string::{String, ToString},
    vec::Vec,
};

use tributary_content::{Manifest, Name};
use tributary_core::{
    Duration, NodeId, PathId, Random, Rate, Time,
    event::{PathState, TransferEvent, TransferReport},
};
use tributary_transport::{
    Fetch, Transfer, TransferConfig,
    fetches::Fetching as _,
    limit::TokenBucket,
    transfer::{Answers, CacheUse, PacketData, PacketRequest, PathOffer, SharedLink, SourceOffer},
};

use super::{
    Outgoing, Source,
    foreign::{Foreign, Found, Question},
    paths::{Paths, Tag, Traffic, Way},
    requested::{Form, PacketRequests, token_of},
};
use crate::{
    config::{PathConfig, node_of_label},
    ids::Nonce,
    naming::{self, Requested},
    router::LocalPacket,
    wire::{Data, Interest, KeyLocator, NackReason, NameView, VerifyKey, lp::Origin, packet_type, types},
};

/// Probing Interests for segments of others come so many times more slowly than those for manifests.
const SEGMENT_PROBE_PAUSE: u32 = 10;
/// By which part the time between probes grows with each answer that brings nothing new; what is lost tells nothing. While
/// nobody answers, they are limited by how long they live.
const PROBES_SLOW_BY: u32 = 20;
/// Beyond so many refusals in a row the time between probes grows no more, whatever its limit is.
const REFUSALS_REPORTED_MAX: u32 = 16;
/// Probes under way at one time: of those for paths that are not known yet, and of those over silent ones.
const PROBES_MAX: usize = 64;
/// Sources of a fetch that are not trusted, at most: they are named, and not asked.
const UNTRUSTED_MAX: usize = 8;
/// How long sources may show a manifest with another size of the packets than others without anything that comes right.
const CUT_PATIENCE: Duration = Duration::from_secs(1);
/// How long the answers to the first probes are waited for at most, beside that of the first one, while nothing is known of
/// who publishes the name.
const GATHER_MAX: Duration = Duration::from_millis(250);
/// Paths whose producers cannot be told apart share what is left of a link between them: all are one group (PTP eq. 2
/// sums over all paths in use).
const GROUP_OF_ALL: u16 = 0;

/// A probing Interest under way.
#[derive(Clone, Copy)]
struct Probe {
    sent: Time,
    expires: Time,
}

/// Whether the answers to the first probes are still waited for: the first publisher that is heard would be believed,
/// whoever else claims the name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gathering {
    NotBegun,
    Until(Time),
    Over,
}

/// Whom a fetch believes.
pub(super) struct Trust {
    /// The key that all Data must be signed with.
    pub(super) shared: Option<VerifyKey>,
    /// Unix time of the driver's epoch.
    pub(super) epoch: Duration,
}

/// A request of the engine in whose place something else was asked for.
#[derive(Clone, Copy)]
struct SubstitutedRequest {
    path: PathId,
    number: u16,
    packet: u32,
}

pub(super) struct Fetching {
    label: String,
    shared: Option<VerifyKey>,
    config: PathConfig,
    pub(super) transfer: Transfer,
    pub(super) paths: Paths,
    sources: BTreeMap<NodeId, Source>,
    version: Option<u64>,
    /// Probes under way, by nonce.
    probes: BTreeMap<[u8; 4], Probe>,
    /// Those of them that ask whether a silent path answers: which, and the engine's request.
    path_probes: BTreeMap<[u8; 4], SubstitutedRequest>,
    probe_at: Time,
    started: Time,
    /// When a source was first heard of.
    heard_at: Option<Time>,
    gathering: Gathering,
    /// Ways that answers have shown meanwhile, and how much later than they came they are taken.
    gathered_late: Option<Duration>,
    gathered: VecDeque<(Time, Way)>,
    /// Since when two sources contradict each other about the size of the packets, and how long the first one is believed.
    cut_since: Option<(Time, Duration)>,
    probe_interval: Duration,
    probes_at_once: u32,
    /// How often in a row probes came back (Nack), each time of those sent since the time before, and when last.
    refusals: u32,
    refused_at: Time,
    /// Which path each packet was asked for on last (PTP §5 D: a vector indexed by SEQ), and by which request.
    requested: BTreeMap<u32, PacketRequests>,
    traffic: Traffic,
    waiting: VecDeque<Outgoing>,
    /// What is found out in case nobody shows a manifest.
    foreign: Foreign,
    /// Probing Interests under way for segments of an object of others.
    segment_probes: BTreeMap<u32, Probe>,
    events: VecDeque<TransferEvent>,
}

impl tributary_transport::fetches::Fetching for Fetching {
    fn name(&self) -> &Name {
        self.transfer.name()
    }
    fn is_ended(&self) -> bool {
        self.transfer.is_ended()
    }
    fn set_limit(&mut self, now: Time, rate: Option<Rate>) {
        self.transfer.set_limit(now, rate);
    }
    fn report(&self, now: Time) -> TransferReport {
        self.transfer.report(now)
    }
}

impl Fetching {
    pub(super) fn new(
        now: Time,
        label: &str,
        fetch: Fetch,
        config: TransferConfig,
        paths: PathConfig,
        trust: Trust,
    ) -> Self {
        // How an object is cut is its producer's decision, and the same for all who fetch it.
        let config = TransferConfig { packet_bytes: None, ..config };
        Fetching {
            label: label.into(),
            foreign: Foreign::new(&fetch.name, trust.shared.clone(), trust.epoch),
            shared: trust.shared,
            segment_probes: BTreeMap::new(),
            transfer: Transfer::new(now, fetch.name, config, fetch.opener, fetch.rate_limit, fetch.patience),
            probes_at_once: paths.probes_initial,
            probe_interval: paths.probe_interval,
            paths: Paths::new(now, paths.clone()),
            config: paths,
            sources: BTreeMap::new(),
            version: None,
            probes: BTreeMap::new(),
            path_probes: BTreeMap::new(),
            probe_at: now,
            started: now,
            heard_at: None,
            gathering: Gathering::NotBegun,
            gathered_late: None,
            gathered: VecDeque::new(),
            cut_since: None,
            refusals: 0,
            refused_at: now,
            requested: BTreeMap::new(),
            traffic: Traffic::default(),
            waiting: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    // Inputs.

    /// Takes a Data or a Nack; whether it belongs to this fetch.
    pub(super) fn handle_packet(&mut self, now: Time, local: &LocalPacket, random: &mut Random) -> bool {
        if self.is_ended() {
            return false;
        }
        let object = self.transfer.name().clone();
        let data = match packet_type(&local.packet) {
            Some(types::DATA) => Data::decode(&local.packet).ok(),
            _ => None,
        };
        let interest = Interest::decode(&local.packet).ok().filter(|_| local.nack.is_some());
        let Some(name) = data.as_ref().map(|data| data.name).or(interest.as_ref().map(|interest| interest.name)) else {
            return false;
        };
        let object = NameView::from(&object);
        if let Some(data) = &data
            && self.on_discovery(now, local, data, random)
        {
            return true;
        }
        if !object.is_prefix_of(name) {
            return false;
        }
        let requested = naming::requested(object, name);
        let may_be_ours = !self.foreign.is_confirmed() && requested == Some(Requested::Manifest);
        if self.foreign.known().is_some() && !may_be_ours {
            return self.on_segment(now, local, name, data.as_ref(), random);
        }
        match (requested, data) {
            (Some(Requested::Manifest), Some(data)) => self.on_probe_answer(now, local, &data, random),
            (Some(Requested::Manifest), None) => self.on_probe_returned(now, local, name, random),
            (Some(Requested::Packet { version, packet }), data) if self.version == Some(version) => {
                self.on_packet(now, local, packet, data.as_ref(), random)
            }
            _ => false,
        }
    }
    /// Takes an answer to what was asked to find out about an object of others; whether it was one.
    fn on_discovery(&mut self, now: Time, local: &LocalPacket, data: &Data<'_>, random: &mut Random) -> bool {
        match self.foreign.handle_data(now, &local.packet, data) {
            Found::Nothing => false,
            Found::Step => true,
            Found::Progress => {
                self.transfer.note_answer(now);
                true
            }
            Found::Object(text) => {
                let Some(known) = self.foreign.known() else { return true };
                self.transfer.describe(known.manifest.clone());
                let segments = known.segments;
                if !self.transfer.trusts(&[]) && self.foreign.look_elsewhere(now) {
                    return true;
                }
                self.events.push_back(TransferEvent::Advice { text });
                self.segment_probes.clear();
                if self.foreign.known().is_some_and(|known| known.gathered.is_some()) {
                    // All is here; the way that its last segment came is the way that it came.
                    self.on_source(
                        now,
                        tag_of(local).unwrap_or(Tag::Labels(Vec::new())),
                        &local.rates,
                        Duration::ZERO,
                        random,
                    );
                    return true;
                }
                // There is nothing to know of the way yet; the first probes tell.
                self.probe_at = now;
                self.probes_at_once = self.config.probes_initial.min(segments);
                true
            }
            Found::Refused(news) => {
                let name = self.transfer.name();
                let text = |reason| match self.foreign.is_absent() {
                    true => format!("'{name}' does not exist: {reason}"),
                    false => format!("'{name}' is there, but cannot be fetched: {reason}"),
                };
                self.events.extend(news.map(|reason| TransferEvent::Advice { text: text(reason) }));
                true
            }
        }
    }
    /// Takes a segment of an object of others, or the Interest for one that came back.
    fn on_segment(
        &mut self,
        now: Time,
        local: &LocalPacket,
        name: NameView<'_>,
        data: Option<&Data<'_>>,
        random: &mut Random,
    ) -> bool {
        if self.foreign.known().is_some_and(|known| known.gathered.is_some()) {
            // Late: everything is here, and its packets are no segments.
            return true;
        }
        let Some(segment) = self.foreign.known().and_then(|known| known.segment(name)) else { return false };
        if data.is_some_and(|data| self.foreign.verified(data).is_none()) {
            return true;
        }
        let fits = |data: &Data<'_>| {
            self.foreign.known().is_none_or(|known| known.fits(segment, data.content.map_or(0, <[u8]>::len)))
        };
        if data.is_some_and(|data| !fits(data)) {
            self.on_uneven(now);
            return true;
        }
        let sent = self.segment_probes.remove(&segment);
        match (sent, tag_of(local), data) {
            (Some(probe), Some(tag), Some(_)) => {
                self.on_source(now, tag, &local.rates, now.since(probe.sent), random);
            }
            (Some(probe), _, None) => self.on_refused_probe(now, local, probe),
            _ => {}
        }
        self.on_packet(now, local, segment, data, random) || sent.is_some()
    }
    /// Segments of unequal sizes are no lie, but where each one lies is not known then: they are put together in memory, and
    /// what was fetched by their supposed size is fetched again.
    fn on_uneven(&mut self, now: Time) {
        if !self.foreign.on_uneven() {
            return;
        }
        self.transfer.start_over(now, "the segments of the object have unequal sizes");
        self.version = None;
        self.sources.clear();
        self.requested.clear();
        self.waiting.clear();
        self.segment_probes.clear();
        let text = format!(
            "the segments of '{}' have unequal sizes: they are put together in memory, in order",
            self.transfer.name()
        );
        self.events.push_back(TransferEvent::Advice { text });
    }
    /// Takes a packet of the object, or the Interest for one that came back; whether it was asked for.
    fn on_packet(
        &mut self,
        now: Time,
        local: &LocalPacket,
        packet: u32,
        data: Option<&Data<'_>>,
        random: &mut Random,
    ) -> bool {
        let Some((path, number)) = self.requested.get(&packet).map(PacketRequests::last) else { return false };
        if local.nack == Some(NackReason::Congestion) && !local.path_failed {
            self.on_refusal(now, local, packet);
        }
        if let Some(NackReason::Unavailable(why)) = local.nack
            && local.token == token_of((path, number))
        {
            self.transfer.handle_unavailable(now, path, number, packet, why);
        }
        if let (Some(data), Some(requested)) = (data, self.requested.remove(&packet)) {
            let payload = data.content.unwrap_or(&[]);
            self.traffic.content += payload.len() as u64;
            self.traffic.data += local.packet.len() as u64;
            // Who cached it is not told; that it was cached is (PTP §5 D 1).
            let cache = local.origin.map(|_| 0);
            let data = PacketData { path, number, packet, cache, payload };
            let is_reported = cache.is_none() && local.token == token_of((path, number));
            let answers = self.answers(now, packet, &requested, local.origin, is_reported);
            match requested.is_first() && answers == Answers::This {
                true => self.transfer.handle_data(now, &data),
                false => self.transfer.handle_once(now, &data, answers, requested.earlier()),
            }
            // Of what may have come by another path it is not known where the queue is.
            if local.marked && answers == Answers::This {
                self.transfer.handle_marks(now, path, number, payload.len() as u64);
            }
        }
        self.note_failure(now, local, path, random);
        true
    }
    /// What came back, or its answer, may say that the tag of the path that it was to follow leads nowhere.
    fn note_failure(&mut self, now: Time, local: &LocalPacket, path: PathId, random: &mut Random) {
        if local.path_failed && self.paths.on_failed(now, path, random) {
            self.offer(now, random);
        }
    }
    /// Too many Interests wait on the way: the one that was sent last is dropped there, if it is that one which comes back.
    fn on_refusal(&mut self, now: Time, local: &LocalPacket, packet: u32) {
        let Some((path, number)) = self.requested.get(&packet).map(PacketRequests::last) else { return };
        if local.token == token_of((path, number)) {
            self.transfer.handle_refusal(now, path, number, packet);
        }
    }
    /// Which of the Interests for a packet may be the one that is answered. If our own router `is_reported` by the token of the
    /// last one, and marks nothing, the Data came by the face by which that one left.
    fn answers(
        &self,
        now: Time,
        packet: u32,
        requested: &PacketRequests,
        origin: Option<Origin>,
        is_reported: bool,
    ) -> Answers {
        let is_apart = |path| is_reported && self.paths.leave_apart(path, requested.path);
        let is_lost = |path, number| self.transfer.was_overtaken(path, number, packet);
        let answers = requested.answers(now, origin, is_apart, is_lost);
        // What was asked for before may lie in a cache by now, and not all on the way would say that it came from there.
        let may_be_cached = !requested.is_first() && origin.is_none() && !self.paths.is_flagged(requested.path);
        if may_be_cached { answers.max(Answers::OneOfSeveral) } else { answers }
    }
    /// A way to a producer of an object of others.
    fn on_source(&mut self, now: Time, tag: Tag, rates: &[Option<Rate>], rtt: Duration, random: &mut Random) {
        let Some(known) = self.foreign.known() else { return };
        let (label, segment_bytes) = (known.producer.clone(), known.segment_bytes);
        let Some((node, label)) = self.source_of(label, &[], true) else { return };
        let is_new = !self.sources.contains_key(&node);
        self.foreign.confirm();
        self.sources.insert(node, Source { node, label, manifest: Vec::new(), segment_bytes });
        self.refusals = 0;
        self.slow_probes();
        if self.paths.on_probe(now, Way { tag, rates: rates.to_vec(), source: node, rtt }, random) || is_new {
            self.offer(now, random);
        }
    }
    /// The source that calls itself `label`. Anybody may: who shows an object of another publisher under the name of one
    /// that is known is another source. `None` for one too many of those that are not trusted.
    fn source_of(&self, label: String, manifest: &[u8], trusted: bool) -> Option<(NodeId, String)> {
        let publisher = |manifest: &[u8]| Manifest::decode(manifest).ok().map(|manifest| manifest.publisher);
        let (node, shown) = (node_of_label(&label), publisher(manifest));
        let (node, label) = match self.sources.get(&node) {
            Some(known) if publisher(&known.manifest) != shown => {
                let key = shown.map_or_else(|| "another".into(), |key| key.to_string());
                let label = format!("{label} ({key})");
                (node_of_label(&label), label)
            }
            _ => (node, label),
        };
        let is_one_more = !trusted && !self.sources.contains_key(&node);
        let untrusted = || self.sources.values().filter(|source| !self.transfer.trusts(&source.manifest)).count();
        (!is_one_more || untrusted() < UNTRUSTED_MAX).then_some((node, label))
    }
    /// Whether the last probes came back without an answer.
    pub(super) fn is_refused(&self) -> bool {
        self.refusals > 0
    }
    /// Takes a probing Interest that came back; whether it was one.
    fn on_probe_returned(&mut self, now: Time, local: &LocalPacket, name: NameView<'_>, random: &mut Random) -> bool {
        let nonce = name.last().and_then(|last| <[u8; 4]>::try_from(last.value).ok());
        let Some((nonce, probe)) = nonce.and_then(|nonce| Some((nonce, self.probes.remove(&nonce)?))) else {
            return false;
        };
        match self.path_probes.remove(&nonce) {
            None => self.on_refused_probe(now, local, probe),
            // Over a silent path the engine sets the pace.
            Some(requested) => self.note_failure(now, local, requested.path, random),
        }
        true
    }
    /// Where nothing leads on, or too much waits, probes come half as often each time (RFC 6298 §5.5), until one is
    /// answered. One that went in a circle tells of its own way only.
    fn on_refused_probe(&mut self, now: Time, local: &LocalPacket, probe: Probe) {
        if matches!(local.nack, Some(NackReason::NoRoute | NackReason::Congestion)) && probe.sent >= self.refused_at {
            (self.refusals, self.refused_at) = (self.refusals.saturating_add(1), now);
            self.probe_at = self.probe_at.max(now + self.probe_pause());
        }
    }
    fn on_probe_answer(&mut self, now: Time, local: &LocalPacket, data: &Data<'_>, random: &mut Random) -> bool {
        let nonce = data.name.last().and_then(|last| <[u8; 4]>::try_from(last.value).ok());
        let Some((nonce, probe)) = nonce.and_then(|nonce| Some((nonce, self.probes.remove(&nonce)?))) else {
            return false;
        };
        let requested = self.path_probes.remove(&nonce);
        if let Some(requested) = &requested {
            self.note_failure(now, local, requested.path, random);
        }
        self.refusals = 0;
        let Ok((segment_bytes, manifest)) = naming::decode_manifest(data.content.unwrap_or(&[])) else { return true };
        if self.shared.as_ref().is_some_and(|key| !data.is_signed_by(key)) {
            return true;
        }
        let Some(tag) = tag_of(local) else { return true };
        // A node that does not publish it any more hands the probe on by name: who shows another version would not answer
        // for packets of this one either.
        let shows_object = |of: &Manifest| of.encode() == manifest;
        if let Some(requested) =
            requested.filter(|_| !local.path_failed && self.transfer.manifest().is_some_and(shows_object))
        {
            self.transfer.handle_probe(now, requested.path, requested.number, requested.packet);
        }
        let trusted = self.transfer.manifest().is_some_and(shows_object) || self.transfer.trusts(manifest);
        let Some((node, label)) = self.source_of(producer_of(data), manifest, trusted) else { return true };
        // Another cut of the same object has other packets under the same names.
        let is_cut_otherwise = |of: &Source| of.manifest == manifest && of.segment_bytes != segment_bytes;
        if self.sources.values().any(is_cut_otherwise) && !(trusted && self.give_up_cut(now, manifest, random)) {
            return true;
        }
        if trusted {
            self.foreign.end();
        }
        let is_new = self.sources.get(&node).is_none_or(|source| source.manifest != manifest);
        if is_new {
            self.paths.forgive(node);
        }
        self.sources.insert(node, Source { node, label, manifest: manifest.to_vec(), segment_bytes });
        self.heard_at.get_or_insert(now);
        self.gathered
            .push_back((now, Way { tag, rates: local.rates.clone(), source: node, rtt: now.since(probe.sent) }));
        if self.version.is_some() || !self.gathers(now, probe.sent) {
            self.take_gathered(now, is_new, random);
        }
        true
    }
    /// Takes the ways that answers have shown, as far apart as the answers came: flows that begin at the same moment lose
    /// packets at the same moment, and end their slow starts together, the wide ones with the narrow ones. `is_new` says
    /// whether the source of the last one, or what it offers, is news.
    fn take_gathered(&mut self, now: Time, is_new: bool, random: &mut Random) {
        while let Some((heard, _)) = self.gathered.front() {
            let late = *self.gathered_late.get_or_insert(now.since(*heard));
            if *heard + late > now {
                return;
            }
            let Some((_, found)) = self.gathered.pop_front() else { return };
            let known = self.paths.len();
            let changed = self.paths.on_probe(now, found, random);
            match self.paths.len() > known {
                true => self.probe_interval = self.config.probe_interval,
                false => self.slow_probes(),
            }
            // Sources are found one by one, and what others publish step by step: that the first is not trusted does not
            // say that none will be.
            let heard_at = self.heard_at.unwrap_or(now);
            let is_early = now.since(heard_at) < self.config.interest_lifetime || self.foreign.is_found();
            if self.version.is_none()
                && is_early
                && !self.sources.values().any(|source| self.transfer.trusts(&source.manifest))
            {
                continue;
            }
            if changed || is_new || self.version.is_none() {
                self.offer(now, random);
            }
        }
        self.gathered_late = None;
    }
    /// Whether the answers to other probes that were sent at `sent` or before are waited for, as long again as the first
    /// answer took.
    fn gathers(&mut self, now: Time, sent: Time) -> bool {
        if self.gathering == Gathering::NotBegun {
            self.gathering = Gathering::Until(now + now.since(sent).min(GATHER_MAX));
        }
        let is_open = matches!(self.gathering, Gathering::Until(until) if now < until);
        let is_answered = !self.probes.values().any(|probe| probe.sent <= sent);
        if !is_open || is_answered || self.transfer.knows_publisher() {
            self.gathering = Gathering::Over;
        }
        self.gathering != Gathering::Over
    }
    /// Gives up the sources that showed a manifest first, if for a while nothing has come right of them: anybody may show an
    /// honest manifest, and tell of packets of another size than there are. Whether they are given up.
    fn give_up_cut(&mut self, now: Time, manifest: &[u8], random: &mut Random) -> bool {
        let (since, patience) = *self.cut_since.get_or_insert((now, CUT_PATIENCE));
        if now.since(since) < patience || !self.transfer.cut_anew() {
            return false;
        }
        // Whoever is honest has longer the next time.
        self.cut_since = Some((now, patience * 2));
        let given_up: Vec<NodeId> =
            self.sources.values().filter(|source| source.manifest == manifest).map(|source| source.node).collect();
        self.sources.retain(|node, _| !given_up.contains(node));
        self.paths.refuse_sources(&given_up, random);
        true
    }
    /// Tells the transfer which paths are in use now; those that it refuses give way to others.
    fn offer(&mut self, now: Time, random: &mut Random) {
        loop {
            self.offer_once(now);
            let refuses = |id: &PathId| self.version.is_some() && !self.transfer.uses(*id);
            let refused: Vec<PathId> = self.paths.in_use().map(|(id, _)| id).filter(refuses).collect();
            if refused.is_empty() || self.is_ended() {
                return;
            }
            self.paths.refuse(&refused, random);
        }
    }
    fn offer_once(&mut self, now: Time) {
        let nodes = self.paths.nodes();
        let offers = self.sources.values().map(|source| {
            // Who is on a path over which wrong bytes came may become clear later, by the labels of others.
            let reported = self.paths.reported(|id| self.transfer.is_altered(id));
            let paths = reported.filter(|(_, path)| path.source == source.node);
            SourceOffer {
                node: source.node,
                label: source.label.clone(),
                manifest: source.manifest.clone(),
                paths: paths
                    .map(|(id, path)| PathOffer {
                        path: id,
                        label: path.label(&self.label, &source.label, &nodes),
                        hops: path.hops() as u32,
                        packet_bytes_max: source.segment_bytes,
                        shared_links: [SharedLink::new(GROUP_OF_ALL)].into(),
                        rtt: Some(path.rtt),
                        capacity: None,
                    })
                    .collect(),
            }
        });
        let offers: Vec<SourceOffer> = offers.collect();
        self.transfer.handle_offer(now, offers);
        self.version = self.transfer.manifest().map(|manifest: &Manifest| manifest.version);
    }
    pub(super) fn handle_storage(&mut self, now: Time, random: &mut Random) {
        self.transfer.handle_storage(now);
        if self.version.is_none() && self.transfer.manifest().is_some() {
            self.offer(now, random);
        }
    }
    pub(super) fn handle_timeout(&mut self, now: Time, random: &mut Random) {
        if self.is_ended() {
            return;
        }
        if self.transfer.poll_timeout().is_some_and(|due| due <= now) {
            self.transfer.set_obstacle(self.foreign.obstacle());
            self.transfer.handle_timeout(now);
        }
        if self.paths.poll_timeout() <= now {
            let report = self.transfer.report(now);
            let bytes_of = |id: PathId| report.paths.iter().find(|path| path.path == id).map_or(0, |path| path.bytes);
            if self.paths.handle_timeout(now, bytes_of, &self.traffic, random) {
                self.offer(now, random);
            }
        }
        if matches!(self.gathering, Gathering::Until(until) if until <= now) {
            self.gathering = Gathering::Over;
        }
        if self.gathering == Gathering::Over {
            self.take_gathered(now, true, random);
        }
        self.probes.retain(|_, probe| probe.expires > now);
        self.path_probes.retain(|nonce, _| self.probes.contains_key(nonce));
        self.segment_probes.retain(|_, probe| probe.expires > now);
    }

    // Outputs.

    pub(super) fn poll_interest(
        &mut self,
        now: Time,
        limit: &mut TokenBucket,
        random: &mut Random,
    ) -> Option<Outgoing> {
        if let Some(probe) = self.poll_probe(now, random) {
            return Some(probe);
        }
        if let Some(waiting) = self.waiting.pop_front() {
            return Some(waiting);
        }
        if let Some(question) = self.foreign.poll(now, self.probe_pause()) {
            let interest = self.question(&question, random);
            let probe = question.caches == CacheUse::Bypassed;
            return Some(Outgoing { interest, tag: None, probe, token: None });
        }
        let request = self.poll_request(now, limit)?;
        let version = self.version?;
        let tag = self.paths.tag(request.path).cloned();
        if request.is_probe
            && let Some(packet) = request.ranges.first().map(|(first, _)| *first)
            && let Some(probe) =
                self.path_probe(now, SubstitutedRequest { path: request.path, number: request.number, packet }, random)
        {
            return Some(probe);
        }
        let object: Name = self.transfer.name().clone();
        let lifetime = self.lifetime_on(now, request.path);
        for packet in request.ranges.iter().flat_map(|&(first, count)| first..first + u32::from(count)) {
            let name = match self.foreign.known() {
                Some(known) => known.name(packet),
                None => naming::packet_name(&object, version, packet).ok(),
            };
            let Some(name) = name else { continue };
            let bypasses = request.caches == CacheUse::Bypassed || self.foreign.must_bypass(packet);
            let (path, number) = (request.path, request.number);
            let mut requested = match self.requested.remove(&packet) {
                Some(known) => known.again(now, path, number, lifetime),
                None => PacketRequests::first(now, path, number, lifetime),
            };
            requested.caches = if bypasses { CacheUse::Bypassed } else { CacheUse::Allowed };
            let form = requested.form;
            self.requested.insert(packet, requested);
            let interest = self.interest(&name, form, lifetime, random);
            self.traffic.interests += (interest.len() + tag.as_ref().map_or(0, Tag::bytes)) as u64;
            self.waiting.push_back(Outgoing {
                interest,
                tag: tag.clone(),
                probe: bypasses,
                token: Some(token_of((path, number))),
            });
        }
        self.waiting.pop_front()
    }
    /// The next request of the engine that has to leave; what was put together in memory answers at once.
    fn poll_request(&mut self, now: Time, limit: &mut TokenBucket) -> Option<PacketRequest> {
        loop {
            let request = self.transfer.poll_request(now, limit)?;
            let Some(known) = self.foreign.known().filter(|known| known.gathered.is_some()) else {
                return Some(request);
            };
            let packets = request.ranges.iter().flat_map(|&(first, count)| first..first + u32::from(count));
            for packet in packets {
                let payload = known.gathered_packet(packet).unwrap_or_default();
                let (path, number) = (request.path, request.number);
                self.transfer.handle_data(now, &PacketData { path, number, packet, cache: None, payload });
            }
        }
    }
    fn poll_probe(&mut self, now: Time, random: &mut Random) -> Option<Outgoing> {
        if self.probe_at > now || !self.may_probe() {
            return None;
        }
        self.probes_at_once = self.probes_at_once.saturating_sub(1);
        if self.probes_at_once == 0 {
            self.probe_at = now + self.probe_pause();
        }
        if let Some(known) = self.foreign.known() {
            if known.gathered.is_some() {
                self.probe_at = now + self.config.probe_interval_max;
                return None;
            }
            // The segments themselves are asked for: others know no other names. They are long, so few are asked for.
            if self.probes_at_once == 0 {
                self.probe_at = now + (self.config.probe_interval * SEGMENT_PROBE_PAUSE).max(self.probe_pause());
            }
            let segment = random.below(u64::from(known.segments)) as u32;
            let name = known.name(segment)?;
            let lifetime = self.lifetime_anywhere(now);
            self.segment_probes.insert(segment, Probe { sent: now, expires: now + lifetime });
            let interest = self.interest(&name, Form::default(), lifetime, random);
            return Some(Outgoing { interest, tag: None, probe: true, token: None });
        }
        // Each probe has a name of its own, so that none is answered by what another one brings.
        let (_, interest) = self.manifest_interest(now, self.lifetime_anywhere(now), random)?;
        Some(Outgoing { interest, tag: None, probe: true, token: None })
    }
    fn may_probe(&self) -> bool {
        self.probes.len() - self.path_probes.len() < PROBES_MAX
    }
    fn slow_probes(&mut self) {
        self.probe_interval = self.within_limits(self.probe_interval + self.probe_interval / PROBES_SLOW_BY);
    }
    /// How long after a probe the next one comes.
    fn probe_pause(&self) -> Duration {
        self.within_limits(self.probe_interval * (1 << self.refusals.min(REFUSALS_REPORTED_MAX)))
    }
    fn within_limits(&self, interval: Duration) -> Duration {
        interval.min(self.config.probe_interval_max).max(self.config.probe_interval)
    }
    /// Asks over a silent path for the manifest, by a name that nothing else has: a packet's name may be answered by any
    /// path that was asked for it. `None` for objects of others, which have no such name.
    fn path_probe(&mut self, now: Time, requested: SubstitutedRequest, random: &mut Random) -> Option<Outgoing> {
        if self.foreign.known().is_some() || self.path_probes.len() >= PROBES_MAX {
            return None;
        }
        let tag = Some(self.paths.tag(requested.path)?.clone());
        let (nonce, interest) = self.manifest_interest(now, self.lifetime_on(now, requested.path), random)?;
        self.path_probes.insert(nonce, requested);
        Some(Outgoing { interest, tag, probe: true, token: None })
    }
    /// An Interest for the manifest with a name of its own, and the nonce in it.
    fn manifest_interest(
        &mut self,
        now: Time,
        lifetime: Duration,
        random: &mut Random,
    ) -> Option<([u8; 4], bytes::Bytes)> {
        let nonce = Nonce::from(random.bits()).0;
        let base = self.transfer.name().typed_child(types::KEYWORD, naming::MANIFEST).ok()?;
        let name = base.child(&nonce).ok()?;
        self.probes.insert(nonce, Probe { sent: now, expires: now + lifetime });
        Some((nonce, self.interest(&name, Form::default(), lifetime, random)))
    }
    /// An Interest that discovers what there is, or for exactly one name. Where caches do not know that they are passed by,
    /// it asks for what is fresh at least.
    fn question(&self, question: &Question, random: &mut Random) -> bytes::Bytes {
        Interest {
            nonce: Some(Nonce::from(random.bits())),
            lifetime_millis: Some(self.config.interest_lifetime.as_millis() as u64),
            can_be_prefix: question.discovers,
            must_be_fresh: question.discovers || question.caches == CacheUse::Bypassed,
            ..Interest::new(NameView::from(&question.name))
        }
        .encode()
        .into()
    }
    /// How long an Interest is pending that follows a path.
    fn lifetime_on(&self, now: Time, path: PathId) -> Duration {
        self.lifetime_for(self.transfer.answer_time(now, path))
    }
    /// How long an Interest is pending that may go any way: as on the slowest path in use; while nobody has answered, as
    /// long again as nobody has.
    fn lifetime_anywhere(&self, now: Time) -> Duration {
        let slowest = self.paths.in_use().filter_map(|(id, _)| self.transfer.answer_time(now, id)).max();
        self.lifetime_for(slowest.or_else(|| self.heard_at.is_none().then(|| now.since(self.started))))
    }
    fn lifetime_for(&self, answer_time: Option<Duration>) -> Duration {
        let (least, most) = (self.config.interest_lifetime, self.config.interest_lifetime_max);
        answer_time.unwrap_or(least).min(most).max(least)
    }
    fn interest(&self, name: &Name, form: Form, lifetime: Duration, random: &mut Random) -> bytes::Bytes {
        Interest {
            nonce: Some(Nonce::from(random.bits())),
            can_be_prefix: form.can_be_prefix,
            must_be_fresh: form.must_be_fresh,
            lifetime_millis: Some(lifetime.as_millis() as u64),
            ..Interest::new(NameView::from(name))
        }
        .encode()
        .into()
    }
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        if self.is_ended() {
            return None;
        }
        let oldest = self.probes.values().map(|probe| probe.expires).min();
        let probe = if self.may_probe() { Some(self.probe_at) } else { oldest };
        let change = Some(self.paths.poll_timeout());
        let foreign = self.foreign.poll_timeout(self.probe_pause());
        let gathered = match self.gathering {
            Gathering::Until(until) => Some(until),
            Gathering::Over => self.gathered.front().map(|(heard, _)| *heard + self.gathered_late.unwrap_or_default()),
            Gathering::NotBegun => None,
        };
        let due = self.transfer.poll_timeout().into_iter().chain(probe).chain(oldest).chain(change);
        due.chain(foreign).chain(gathered).min()
    }
    /// The next thing worth telling. A path that stays silent is exchanged if there is another, as forwarders of others send
    /// no Nack for it (PTP §4 C 2).
    pub(super) fn poll_event(&mut self, now: Time, random: &mut Random) -> Option<TransferEvent> {
        while let Some(event) = self.transfer.poll_event() {
            let changed = match &event {
                TransferEvent::PathState { path, state, .. } => {
                    // Its timeout is over, and as long again its answers may take.
                    let lateness = self.transfer.answer_time(now, *path).unwrap_or_default() / 2;
                    self.paths.set_silent(now, *path, (*state == PathState::Silent).then_some(lateness));
                    match state {
                        // It may have been opened again since.
                        PathState::Closed => {
                            !self.transfer.uses(*path)
                                && self.paths.in_use().any(|(id, _)| id == *path)
                                && self.paths.refuse(&[*path], random)
                        }
                        PathState::Idle | PathState::Active | PathState::Silent => false,
                    }
                }
                _ => false,
            };
            self.events.push_back(event);
            if changed {
                // What comes back, or is there instead, is to be found soon.
                self.probe_interval = self.config.probe_interval;
                self.probe_at = self.probe_at.min(now + self.probe_pause());
                self.offer(now, random);
            }
        }
        self.events.pop_front()
    }
}

/// The way that a probing Interest took. A cache's answer says nothing about the way to the producer.
fn tag_of(local: &LocalPacket) -> Option<Tag> {
    match (&local.tag, &local.tag_bits) {
        _ if local.origin.is_some() => None,
        (_, Some(bits)) => Some(Tag::Bits(bits.clone())),
        // Without labels it comes from this very node.
        (labels, None) => Some(Tag::Labels(labels.clone().unwrap_or_default())),
    }
}

/// How the producer of a Data calls itself in its key locator; a name of its own for each that does not.
pub(super) fn producer_of(data: &Data<'_>) -> String {
    match data.signature.key_locator {
        Some(KeyLocator::Name(name)) => {
            let first = name.components().next().map(|component| component.value.to_vec()).unwrap_or_default();
            String::from_utf8(first).unwrap_or_else(|_| name.to_string())
        }
        _ => "producer".into(),
    }
}

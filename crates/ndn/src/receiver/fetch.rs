//! One fetch: its probes, its paths, and the Interests for its transfer's requests.
mod outputs;

use alloc::{
    collections::{BTreeMap, VecDeque},
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use tributary_content::{Manifest, Name, ObjectId};
use tributary_core::{
    Duration, NodeId, PathId, Random, Rate, Time,
    event::{PathState, TransferEvent, TransferReport},
};
use tributary_transport::{
    Fetch, Transfer, TransferConfig,
    fetches::Fetching as _,
    policy::{Faces, PathDemands, Shared},
    transfer::{Answers, CacheUse, PacketData, PacketRequest, PathOffer, SharedLink, SourceOffer},
};

use super::{
    Outgoing, Source,
    foreign::{Foreign, Found, Question},
    manifest_signer::Vouching,
    paths::{Paths, Tag, Traffic, Way},
    requested::{Form, PacketRequests, token_of},
};
use crate::{
    config::{PathConfig, Unsigned, node_of_label},
    ids::Nonce,
    naming::{self, Requested},
    router::LocalPacket,
    trust::Anchors,
    wire::{Certificate, Component, Data, Interest, KeyLocator, NackReason, NameView, VerifyKey, certificate, types},
};

/// Probing Interests for segments of foreign objects are this many times rarer than those for manifests.
const SEGMENT_PROBE_PAUSE: u32 = 10;
/// The part by which the interval between probes grows with each answer without news; losses do not count. Without
/// answers, the lifetime of probes limits their rate.
const PROBES_SLOW_BY: u32 = 20;
/// After this many consecutive refusals the interval between probes stops growing, regardless of its limit.
const REFUSALS_REPORTED_MAX: u32 = 16;
/// Content received between two probes, per byte of a probe's answer, while paths in use deliver: on a slow link this
/// spaces probes out, up to [`PROBE_PAUSE_MAX`].
const PROBE_PARTS: u64 = 25;
const PROBE_PAUSE_MAX: Duration = Duration::from_secs(30);
/// Between these times without any answer probes may be late on a slow link; after that they are lost.
const UNANSWERED: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(2)];
/// Rates up to this are passed to the engine, so that first windows fit slow links.
const SLOW_RATE_MAX: u64 = 256_000;
/// Probes in flight at one time: those for new paths, and those over silent ones.
const PROBES_MAX: usize = 64;
/// Maximum untrusted sources of a fetch: they are named, and not used.
const UNTRUSTED_MAX: usize = 8;
/// How long sources may show a manifest with another packet size than others without delivering anything right.
const CUT_PATIENCE: Duration = Duration::from_secs(1);
/// Wait for further answers to the first probes after the first answer, while the name's publisher is unknown: a
/// publisher farther away may contest the name.
const GATHER: Duration = Duration::from_millis(250);
/// Paths whose producers cannot be distinguished share the rest of a link: all are one group (PTP eq. 2 sums over all
/// paths in use).
const GROUP_OF_ALL: u16 = 0;

/// A probing Interest in flight.
#[derive(Clone, Copy)]
struct Probe {
    sent: Time,
    expires: Time,
}

/// Whether to wait for more answers to the first probes: otherwise the first publisher heard would win, regardless of
/// other claims to the name.
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
    /// The certificate that a person has named.
    pub(super) pinned: Option<Certificate>,
    /// The trust anchors of the node.
    pub(super) anchors: Arc<Anchors>,
    /// The policy for unsigned objects.
    pub(super) unsigned: Unsigned,
    /// Unix time of the driver's epoch.
    pub(super) epoch: Duration,
}

/// A request of the engine that was replaced by another Interest.
#[derive(Clone, Copy)]
struct SubstitutedRequest {
    path: PathId,
    number: u16,
    packet: u32,
}

tributary_core::declared! {
    pub(crate) struct Fetching {
        label: String = label.into(),
        shared: Option<VerifyKey> = trust.shared,
        /// Who vouches for the signers of manifests.
        vouching: Vouching = vouching,
        pub(super) transfer: Transfer =
            Transfer::new(now, fetch.name, config, fetch.opener, fetch.rate_limit, fetch.patience),
        pub(super) paths: Paths = Paths::new(now, paths.clone()),
        sources: BTreeMap<NodeId, Source> = BTreeMap::new(),
        /// The version of the chosen object. A source of the same bytes may have them under another one.
        version: Option<u64> = None,
        /// Probes in flight, by nonce.
        probes: BTreeMap<[u8; 4], Probe> = BTreeMap::new(),
        /// Probes of silent paths: the nonce, and the engine's request.
        path_probes: BTreeMap<[u8; 4], SubstitutedRequest> = BTreeMap::new(),
        probe_at: Time = now,
        started: Time = now,
        /// When a source was first heard.
        heard_at: Option<Time> = None,
        gathering: Gathering = Gathering::NotBegun,
        /// New paths from answers, and the delay with which they are offered.
        gathered_late: Option<Duration> = None,
        gathered: VecDeque<(Time, Way)> = VecDeque::new(),
        /// When two sources began to contradict each other about the packet size, and how long the first source counts.
        cut_since: Option<(Time, Duration)> = None,
        probe_interval: Duration = paths.probe_interval,
        probes_at_once: u32 = paths.probes_initial,
        /// When the last probe left, the object's bytes received by then, and the bytes of the last answer to a probe.
        probed: (Time, u64, u64) = (now, 0, 0),
        /// Probes sent since the last answer.
        unanswered_probes: u32 = 0,
        /// Consecutive refusals of probes (Nack), each counting those sent since the previous one, and the time of the
        /// last.
        refusals: u32 = 0,
        refused_at: Time = now,
        /// The path and request that each packet was last requested by (PTP §5 D: a vector indexed by SEQ).
        requested: BTreeMap<u32, PacketRequests> = BTreeMap::new(),
        traffic: Traffic = Traffic::default(),
        waiting: VecDeque<Outgoing> = VecDeque::new(),
        /// The discovery of a foreign object, in case no source shows a manifest.
        foreign: Foreign = foreign,
        /// Probing Interests in flight for segments of a foreign object.
        segment_probes: BTreeMap<u32, Probe> = BTreeMap::new(),
        events: VecDeque<TransferEvent> = VecDeque::new(),
        /// The next timer of a fetch without an object that has nothing to send; a packet ends the pause. Hundreds of
        /// lookups may be open, and each input polls all fetches.
        quiet_until: Option<Time> = None,
        config: PathConfig = paths,
    }
    pub(super) fn new(now: Time, label: &str, fetch: Fetch, config: TransferConfig, paths: PathConfig, trust: Trust) {
        // The producer decides how an object is cut, for all receivers.
        let config = TransferConfig { packet_bytes: None, ..config };
        let (foreign, vouching) = (Foreign::new(&fetch.name, &trust), Vouching::new(&fetch.name, &trust));
    }
}

impl tributary_transport::fetches::Fetching for Fetching {
    tributary_core::forwarded! {
        this => this.transfer;
        fn name(&Self) -> &Name;
        fn is_ended(&Self) -> bool;
        fn was_in_vain(&Self) -> bool;
        fn set_limit(&mut Self, now: Time, rate: Option<Rate>);
        fn report(&Self, now: Time) -> TransferReport;
    }
    fn set_demands(&mut self, now: Time, demands: PathDemands) -> bool {
        self.transfer.set_demands(now, demands);
        true
    }
}

impl Fetching {
    fn is_quiet(&self, now: Time) -> bool {
        self.quiet_until.is_some_and(|until| now < until)
    }

    // Inputs.

    /// Whether a packet of this name may be an answer to this fetch.
    pub(super) fn concerns(&self, name: NameView<'_>) -> bool {
        NameView::from(self.transfer.name()).is_prefix_of(name)
            || self.vouching.awaits(name)
            || self.foreign.awaits(name)
    }
    /// Takes a Data or a Nack of this name; whether it belongs to this fetch.
    pub(super) fn handle_packet(
        &mut self,
        now: Time,
        local: &LocalPacket,
        name: NameView<'_>,
        data: Option<&Data<'_>>,
        random: &mut Random,
    ) -> bool {
        self.quiet_until = None;
        let object = self.transfer.name().clone();
        let object = NameView::from(&object);
        let is_certificate = self.vouching.handle_packet(now, &local.packet, data);
        self.on_vouching();
        if let Some(data) = data
            && (self.on_discovery(now, local, data, random) || is_certificate)
        {
            return true;
        }
        if !object.is_prefix_of(name) {
            return false;
        }
        let requested = naming::requested(object, name);
        let may_be_ours = !self.foreign.is_confirmed && requested == Some(Requested::Manifest);
        if self.foreign.known().is_some() && !may_be_ours {
            return self.on_segment(now, local, name, data, random);
        }
        match (requested, data) {
            (Some(Requested::Manifest), Some(data)) => self.on_probe_answer(now, local, data, random),
            (Some(Requested::Manifest), None) => self.on_probe_returned(now, local, name, random),
            (Some(Requested::Packet { version, packet }), data) if self.is_wanted_version(version) => {
                self.on_packet(now, local, packet, data, random)
            }
            _ => false,
        }
    }
    /// Whether a source has the bytes that are fetched under this version.
    fn is_wanted_version(&self, version: u64) -> bool {
        let is_of_source = |source: &Source| {
            source.shown.as_ref().is_some_and(|shown| shown.version == version && self.transfer.fetches(shown))
        };
        self.version.is_some_and(|chosen| chosen == version || self.sources.values().any(is_of_source))
    }
    /// The version under which the source of a path has the bytes that are fetched.
    fn version_on(&self, path: PathId) -> Option<u64> {
        let source = self.paths.source(path).and_then(|node| self.sources.get(&node));
        // A source that now shows other bytes keeps its paths until they are offered again.
        let shown = source.and_then(|source| source.shown.as_ref()).filter(|shown| self.transfer.fetches(shown));
        shown.map(|shown| shown.version).or(self.version)
    }
    /// Takes an answer to the discovery of a foreign object; true if it was one.
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
                    // All is here; its last segment's path becomes the path of the object.
                    let tag = tag_of(local).unwrap_or_default();
                    self.on_source(now, tag, local, Duration::ZERO, random);
                    return true;
                }
                // Nothing is known of the path yet; the first probes show it.
                self.probe_at = now;
                self.probes_at_once = self.config.probes_initial.min(segments);
                true
            }
            Found::Refused(news) => {
                let name = self.transfer.name();
                let text = |reason| match self.foreign.is_absent {
                    true => format!("'{name}' does not exist: {reason}"),
                    false => format!("'{name}' exists, but cannot be fetched: {reason}"),
                };
                self.events.extend(news.map(|reason| TransferEvent::Advice { text: text(reason) }));
                true
            }
        }
    }
    /// Reports once why a manifest's signer could not be verified.
    fn on_vouching(&mut self) {
        if let Some(reason) = self.vouching.poll_refusal() {
            let name = self.transfer.name();
            let text = format!("'{name}' exists, but cannot be fetched: {reason}");
            self.events.push_back(TransferEvent::Advice { text });
        }
    }
    /// Takes a segment of a foreign object, or a returned Interest for one.
    fn on_segment(
        &mut self,
        now: Time,
        local: &LocalPacket,
        name: NameView<'_>,
        data: Option<&Data<'_>>,
        random: &mut Random,
    ) -> bool {
        if self.foreign.known().is_some_and(|known| known.gathered.is_some()) {
            // Late: the object is complete, and these packets are not its segments.
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
                self.on_source(now, tag, local, now.since(probe.sent), random);
            }
            (Some(probe), _, None) => self.on_refused_probe(now, local, probe),
            _ => {}
        }
        self.on_packet(now, local, segment, data, random) || sent.is_some()
    }
    /// Segments of unequal sizes are legal, but their offsets are unknown then: they are assembled in memory, and those
    /// fetched by a supposed size are fetched again.
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
    /// Takes a packet of the object, or a returned Interest for one; true if it was requested.
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
            // Data does not name the caching node, only that a cache answered (PTP §5 D 1).
            let cache = local.origin.map(|_| 0);
            let data = PacketData { path, number, packet, cache, payload };
            let answers = self.answers(now, packet, &requested, local);
            match requested.is_first() && answers == Answers::This {
                true => self.transfer.handle_data(now, &data),
                false => self.transfer.handle_once(now, &data, answers, requested.earlier()),
            }
            // If the Data may have used another path, the location of the queue is unknown.
            if local.marked && answers == Answers::This {
                self.transfer.handle_marks(now, path, number, payload.len() as u64);
            }
        }
        self.note_failure(now, local, path, random);
        true
    }
    /// A returned Interest, or its answer, may report that its path tag leads nowhere.
    fn note_failure(&mut self, now: Time, local: &LocalPacket, path: PathId, random: &mut Random) {
        if local.path_failed && self.paths.on_failed(now, path, random) {
            self.offer(now, random);
        }
    }
    /// Too many Interests wait on the way: if the returned one is the last one sent, it was dropped there.
    fn on_refusal(&mut self, now: Time, local: &LocalPacket, packet: u32) {
        let Some((path, number)) = self.requested.get(&packet).map(PacketRequests::last) else { return };
        if local.token == token_of((path, number)) {
            self.transfer.handle_refusal(now, path, number, packet);
        }
    }
    /// Which of the Interests for a packet may be the answered one. If the token is that of the last one, and our own
    /// router marks nothing, the Data arrived on the face where that one left.
    fn answers(&self, now: Time, packet: u32, requested: &PacketRequests, local: &LocalPacket) -> Answers {
        let is_reported = local.origin.is_none() && local.token == token_of(requested.last());
        let is_apart = |path| is_reported && self.paths.leave_apart(path, requested.path);
        let is_lost = |path, number| self.transfer.was_overtaken(path, number, packet);
        let answers = requested.answers(now, local.origin, is_apart, is_lost);
        // An earlier request may have filled a cache, and some forwarders on the way would not mark its answer.
        let may_be_cached = !requested.is_first() && local.origin.is_none() && !self.paths.is_flagged(requested.path);
        if may_be_cached { answers.max(Answers::OneOfSeveral) } else { answers }
    }
    /// The policies of faces or the demands of the fetch have changed: paths that were of no use may be now.
    pub(super) fn reconsider_paths(&mut self, now: Time, faces: &Faces, random: &mut Random) {
        self.quiet_until = None;
        self.transfer.note_rules(now, faces);
        if !self.is_ended() && self.paths.reconsider(|id| self.transfer.is_altered(id), random) {
            self.offer(now, random);
        }
    }
    /// Adds a path to a producer of a foreign object.
    fn on_source(&mut self, now: Time, tag: Tag, local: &LocalPacket, rtt: Duration, random: &mut Random) {
        let Some(known) = self.foreign.known() else { return };
        let (label, segment_bytes) = (known.producer.clone(), known.segment_bytes);
        let Some((node, label)) = self.source_of(label, &[], true) else { return };
        let is_new = !self.sources.contains_key(&node);
        self.foreign.confirm();
        self.sources.insert(node, Source { node, label, manifest: Vec::new(), shown: None, segment_bytes });
        self.refusals = 0;
        self.slow_probes();
        let way = Way { tag, rates: local.rates.clone(), source: node, face: local.via, rtt };
        if self.paths.on_probe(now, way, random) || is_new {
            self.offer(now, random);
        }
    }
    /// The source with this label. Labels are unproven: a producer that shows another publisher's object under a known
    /// label is another source. `None` for an untrusted source beyond the limit.
    fn source_of(&self, label: String, manifest: &[u8], trusted: bool) -> Option<(NodeId, String)> {
        let shown = Manifest::decode(manifest).ok().map(|manifest| manifest.publisher);
        let node = node_of_label(&label);
        let (node, label) = match self.sources.get(&node) {
            Some(known) if known.shown.as_ref().map(|shown| shown.publisher) != shown => {
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
    /// Whether the latest probes were refused.
    pub(super) fn is_refused(&self) -> bool {
        self.refusals > 0
    }
    /// Takes a returned Interest; returns whether it was a probe.
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
    /// Each refusal, for lack of a route or because of congestion, halves the rate of probes (RFC 6298 §5.5), until one
    /// is answered. A looping probe only concerns its own path.
    fn on_refused_probe(&mut self, now: Time, local: &LocalPacket, probe: Probe) {
        if matches!(local.nack, Some(NackReason::NoRoute | NackReason::Congestion)) && probe.sent >= self.refused_at {
            (self.refusals, self.refused_at) = (self.refusals.saturating_add(1), now);
            self.probe_at = self.probe_at.max(now + self.probe_pause());
        }
        // A probe takes one of several paths: perhaps none is left.
        if local.nack == Some(NackReason::NoRoute) && self.probes.is_empty() && self.heard_at.is_none() {
            self.probe_at = self.probe_at.max(now + self.config.probe_interval_max);
            self.transfer.set_absent("forwarders know no route to it, or only to nodes that do not have it");
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
        (self.refusals, self.unanswered_probes, self.probed.2) = (0, 0, local.packet.len() as u64);
        let Ok((segment_bytes, manifest)) = naming::decode_manifest(data.content.unwrap_or(&[])) else { return true };
        if self.shared.as_ref().is_some_and(|key| !data.is_signed_by(key)) || !self.transfer.is_answer(manifest) {
            return true;
        }
        let shown = Manifest::decode(manifest).ok();
        // Verified bytes need no trust in their source.
        let shows_object = shown.as_ref().is_some_and(|shown| self.transfer.fetches(shown));
        if !shows_object && !self.vouching.is_vouched(now, &local.packet, data) {
            self.on_vouching();
            return true;
        }
        if let Some(shown) = shown.as_ref().filter(|_| !shows_object && self.vouching.has_anchors()) {
            self.transfer.certify(shown.publisher);
        }
        let Some(tag) = tag_of(local) else { return true };
        // A node that no longer publishes it forwards the probe by name: a producer with other bytes would not answer
        // for packets of this object either.
        if let Some(requested) = requested.filter(|_| !local.path_failed && shows_object) {
            self.transfer.handle_probe(now, requested.path, requested.number, requested.packet);
        }
        let trusted = shows_object || self.transfer.trusts(manifest);
        let Some((node, label)) = self.source_of(producer_of(data), manifest, trusted) else { return true };
        // Another cut of the same bytes has other packets under the same numbers.
        let object = shown.as_ref().map(Manifest::object_id);
        let is_cut_otherwise = |of: &Source| of.object() == object && of.segment_bytes != segment_bytes;
        if self.sources.values().any(is_cut_otherwise) && !(trusted && self.give_up_cut(now, object, random)) {
            return true;
        }
        if trusted {
            self.foreign.end();
        }
        let is_new = self.sources.get(&node).is_none_or(|source| source.manifest != manifest);
        if is_new {
            self.paths.forgive(node);
        }
        self.sources.insert(node, Source { node, label, manifest: manifest.to_vec(), shown, segment_bytes });
        self.heard_at.get_or_insert(now);
        self.gathered.push_back((
            now,
            Way { tag, rates: local.rates.clone(), source: node, face: local.via, rtt: now.since(probe.sent) },
        ));
        if self.version.is_some() || !self.gathers(now, probe.sent) {
            self.take_gathered(now, is_new, random);
        }
        true
    }
    /// Adds the paths that answers have shown, spaced like the answers: flows that start at the same moment lose
    /// packets at the same moment, and end their slow starts together, wide ones with narrow ones. `is_new` says
    /// whether the source of the last one, or its offer, is new.
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
            // Sources are found one by one, and foreign objects step by step: an untrusted first source does not mean
            // that all will be.
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
    /// Whether the answers to other probes that were sent at `sent` or before are waited for.
    fn gathers(&mut self, now: Time, sent: Time) -> bool {
        if self.gathering == Gathering::NotBegun {
            self.gathering = Gathering::Until(now + GATHER);
        }
        let is_open = matches!(self.gathering, Gathering::Until(until) if now < until);
        let is_answered = !self.probes.values().any(|probe| probe.sent <= sent);
        if !is_open || is_answered || self.transfer.knows_publisher() {
            self.gathering = Gathering::Over;
        }
        self.gathering != Gathering::Over
    }
    /// Excludes the sources that showed a manifest first, if nothing valid has come from them for a while: any node may
    /// show an honest manifest and state a wrong packet size. True if they are excluded.
    fn give_up_cut(&mut self, now: Time, object: Option<ObjectId>, random: &mut Random) -> bool {
        let (since, patience) = *self.cut_since.get_or_insert((now, CUT_PATIENCE));
        if now.since(since) < patience || !self.transfer.cut_anew() {
            return false;
        }
        // An honest source has longer the next time.
        self.cut_since = Some((now, patience * 2));
        let given_up: Vec<NodeId> =
            self.sources.values().filter(|source| source.object() == object).map(|source| source.node).collect();
        self.sources.retain(|node, _| !given_up.contains(node));
        self.paths.refuse_sources(&given_up, random);
        true
    }
    /// Offers the paths in use to the transfer; others replace those that it refuses.
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
            // Labels of other paths may show later which node is on a path that delivered corrupted bytes.
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
                        capacity: self.paths.narrowest(id).filter(|rate| rate.bits_per_second() <= SLOW_RATE_MAX),
                        face: path.face,
                    })
                    .collect(),
            }
        });
        let offers: Vec<SourceOffer> = offers.collect();
        self.transfer.handle_offer(now, offers);
        self.version = self.transfer.manifest().map(|manifest: &Manifest| manifest.version);
    }
    pub(super) fn handle_storage(&mut self, now: Time, random: &mut Random) {
        self.quiet_until = None;
        self.transfer.handle_storage(now);
        if self.version.is_none() && self.transfer.manifest().is_some() {
            self.offer(now, random);
        }
    }
    pub(super) fn handle_timeout(&mut self, now: Time, random: &mut Random) {
        if self.is_ended() || self.is_quiet(now) {
            return;
        }
        self.quiet_until = None;
        if self.transfer.poll_timeout().is_some_and(|due| due <= now) {
            self.transfer.set_obstacle(self.vouching.obstacle().or(self.foreign.obstacle()));
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
}

/// The path of a probing Interest. A cache's answer does not show the path to the producer.
fn tag_of(local: &LocalPacket) -> Option<Tag> {
    match (&local.tag, &local.tag_bits) {
        _ if local.origin.is_some() => None,
        (_, Some(bits)) => Some(Tag::Bits(bits.clone())),
        // Without labels it comes from this node itself.
        (labels, None) => Some(Tag::Labels(labels.clone().unwrap_or_default())),
    }
}

/// The producer's name in the Data's key locator; a unique name without one.
pub(super) fn producer_of(data: &Data<'_>) -> String {
    match data.signature.key_locator {
        Some(KeyLocator::Name(name)) => {
            let is_key = |of: &Component<'_>| of.kind == types::GENERIC && of.value == certificate::KEY;
            let identity = name.components().position(|component| is_key(&component)).unwrap_or(name.len());
            let first = name.components().next().map(|component| component.value.to_vec()).unwrap_or_default();
            match String::from_utf8(first) {
                // A label of ours, or an identity of one component, reads as it is.
                Ok(text) if identity <= 1 || identity == name.len() => text,
                _ => name.prefix(identity).to_string(),
            }
        }
        _ => "producer".into(),
    }
}

//! One fetch: its probes, its paths, and the Interests that its transfer asks for.
use alloc::{
    collections::{BTreeMap, VecDeque},
    string::{String, ToString},
    vec::Vec,
};

use tributary_content::{Manifest, Name};
use tributary_core::{
    NodeId, PathId, Random, Time,
    event::{PathState, TransferEvent},
};
use tributary_transport::{
    Fetch, Transfer, TransferConfig,
    limit::TokenBucket,
    transfer::{CacheUse, PacketData, PathOffer, SourceOffer},
};

use super::{
    Outgoing, Source,
    paths::{Paths, Tag},
};
use crate::{
    config::{PathConfig, node_of_label},
    ids::Nonce,
    naming::{self, Asked},
    router::LocalPacket,
    wire::{Data, Interest, KeyLocator, NameView, packet_type, types},
};

/// Probes under way at one time.
const PROBES_MAX: usize = 64;
/// Paths whose producers cannot be told apart share what is left of a link between them: all are one group (PTP eq. 2
/// sums over all paths in use).
const GROUP_OF_ALL: u16 = 0;

pub(super) struct Fetching {
    label: String,
    config: PathConfig,
    pub(super) transfer: Transfer,
    pub(super) paths: Paths,
    sources: BTreeMap<NodeId, Source>,
    segment_bytes: Option<u16>,
    version: Option<u64>,
    /// Probes under way, by nonce: when each was sent.
    probes: BTreeMap<[u8; 4], Time>,
    probe_at: Time,
    probes_at_once: u32,
    /// Which path each packet was asked for on last (PTP §5 D: a vector indexed by SEQ), and by which request.
    asked: BTreeMap<u32, (PathId, u16)>,
    waiting: VecDeque<Outgoing>,
    events: VecDeque<TransferEvent>,
}

impl Fetching {
    pub(super) fn new(now: Time, label: &str, fetch: Fetch, config: TransferConfig, paths: PathConfig) -> Self {
        Fetching {
            label: label.into(),
            transfer: Transfer::new(now, fetch.name, config, fetch.opener, fetch.rate_limit, fetch.patience),
            probes_at_once: paths.probes_initial,
            paths: Paths::new(now, paths.clone()),
            config: paths,
            sources: BTreeMap::new(),
            segment_bytes: None,
            version: None,
            probes: BTreeMap::new(),
            probe_at: now,
            asked: BTreeMap::new(),
            waiting: VecDeque::new(),
            events: VecDeque::new(),
        }
    }
    pub(super) fn is_ended(&self) -> bool {
        self.transfer.is_ended()
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
        if !object.is_prefix_of(name) {
            return false;
        }
        match (naming::asked(object, name), data) {
            (Some(Asked::Manifest), Some(data)) => self.on_probe_answer(now, local, &data, random),
            (Some(Asked::Packet { version, packet }), data) if self.version == Some(version) => {
                let Some((path, number)) = self.asked.get(&packet).copied() else { return false };
                if let Some(data) = data {
                    self.asked.remove(&packet);
                    let payload = data.content.unwrap_or(&[]);
                    // Who cached it is not told; that it was cached is (PTP §5 D 1).
                    let cache = local.origin.map(|_| 0);
                    self.transfer.handle_data(now, &PacketData { path, number, packet, cache, payload });
                }
                if local.path_failed && self.paths.on_failed(now, path, random) {
                    self.offer(now);
                }
                true
            }
            _ => false,
        }
    }
    fn on_probe_answer(&mut self, now: Time, local: &LocalPacket, data: &Data<'_>, random: &mut Random) -> bool {
        let nonce = data.name.last().and_then(|last| <[u8; 4]>::try_from(last.value).ok());
        let Some(sent) = nonce.and_then(|nonce| self.probes.remove(&nonce)) else { return false };
        let Ok((segment_bytes, manifest)) = naming::decode_manifest(data.content.unwrap_or(&[])) else { return true };
        // A cache's answer says nothing about the way to the producer.
        let tag = match (&local.tag, &local.tag_bits) {
            _ if local.origin.is_some() => None,
            (Some(labels), _) if !labels.is_empty() => Some(Tag::Labels(labels.clone())),
            (_, Some(bits)) => Some(Tag::Bits(bits.clone())),
            _ => None,
        };
        let Some(tag) = tag else { return true };
        let label = producer_of(data);
        let node = node_of_label(&label);
        self.segment_bytes.get_or_insert(segment_bytes);
        if self.segment_bytes != Some(segment_bytes) {
            // Another cut of the same object has other packets under the same names.
            return true;
        }
        let is_new = !self.sources.contains_key(&node);
        self.sources.insert(node, Source { node, label, manifest: manifest.to_vec() });
        if self.paths.on_probe(now, tag, node, now.since(sent), random) || is_new {
            self.offer(now);
        }
        true
    }
    /// Tells the transfer which paths are in use now.
    fn offer(&mut self, now: Time) {
        let Some(segment_bytes) = self.segment_bytes else { return };
        let offers = self.sources.values().map(|source| {
            let paths = self.paths.in_use().filter(|(_, path)| path.source == source.node);
            SourceOffer {
                node: source.node,
                label: source.label.clone(),
                manifest: source.manifest.clone(),
                paths: paths
                    .map(|(id, path)| PathOffer {
                        path: id,
                        label: path.label(&self.label, &source.label),
                        hops: path.hops() as u32,
                        packet_bytes_max: segment_bytes,
                        groups: [GROUP_OF_ALL].into(),
                        latency: Some(path.rtt),
                        capacity: None,
                    })
                    .collect(),
            }
        });
        let offers: Vec<SourceOffer> = offers.collect();
        self.transfer.handle_offer(now, offers);
        self.version = self.transfer.manifest().map(|manifest: &Manifest| manifest.version);
    }
    pub(super) fn handle_timeout(&mut self, now: Time, random: &mut Random) {
        if self.is_ended() {
            return;
        }
        if self.transfer.poll_timeout().is_some_and(|due| due <= now) {
            self.transfer.handle_timeout(now);
        }
        if self.paths.next_change() <= now {
            let report = self.transfer.report(now);
            let bytes_of = |id: PathId| report.paths.iter().find(|path| path.path == id).map_or(0, |path| path.bytes);
            if self.paths.handle_timeout(now, bytes_of, random) {
                self.offer(now);
            }
        }
        let lifetime = self.config.interest_lifetime;
        self.probes.retain(|_, sent| *sent + lifetime > now);
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
        let request = self.transfer.poll_request(now, limit)?;
        let version = self.version?;
        let tag = self.paths.tag(request.path).cloned();
        let object: Name = self.transfer.name().clone();
        for packet in request.runs.iter().flat_map(|&(first, count)| first..first + u32::from(count)) {
            let Ok(name) = naming::packet_name(&object, version, packet) else { continue };
            self.asked.insert(packet, (request.path, request.number));
            self.waiting.push_back(Outgoing {
                interest: self.interest(&name, random),
                tag: tag.clone(),
                probe: request.caches == CacheUse::Bypassed,
            });
        }
        self.waiting.pop_front()
    }
    fn poll_probe(&mut self, now: Time, random: &mut Random) -> Option<Outgoing> {
        if self.probe_at > now || self.probes.len() >= PROBES_MAX {
            return None;
        }
        self.probes_at_once = self.probes_at_once.saturating_sub(1);
        if self.probes_at_once == 0 {
            self.probe_at = now + self.config.probe_interval;
        }
        let nonce = Nonce::from(random.bits()).0;
        let base = self.transfer.name().typed_child(types::KEYWORD, naming::MANIFEST).ok()?;
        // Each probe has a name of its own, so that none is answered by what another one brings.
        let name = base.child(&nonce).ok()?;
        self.probes.insert(nonce, now);
        Some(Outgoing { interest: self.interest(&name, random), tag: None, probe: true })
    }
    fn interest(&self, name: &Name, random: &mut Random) -> bytes::Bytes {
        Interest {
            nonce: Some(Nonce::from(random.bits())),
            lifetime_millis: Some(self.config.interest_lifetime.as_millis() as u64),
            ..Interest::new(NameView::from(name))
        }
        .encode()
        .into()
    }
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        if self.is_ended() {
            return None;
        }
        let oldest = self.probes.values().min().map(|sent| *sent + self.config.interest_lifetime);
        let probe = if self.probes.len() < PROBES_MAX { Some(self.probe_at) } else { oldest };
        let change = Some(self.paths.next_change());
        self.transfer.poll_timeout().into_iter().chain(probe).chain(oldest).chain(change).min()
    }
    /// The next thing worth telling. A path that fell silent is exchanged at once if there is another: the twin of the
    /// Nack, for forwarders that send none (PTP §4 C 2).
    pub(super) fn poll_event(&mut self, now: Time, random: &mut Random) -> Option<TransferEvent> {
        while let Some(event) = self.transfer.poll_event() {
            if let TransferEvent::PathState { path, state: PathState::Silent, .. } = &event {
                let path = *path;
                if self.paths.has_other(now, path) && self.paths.on_failed(now, path, random) {
                    self.events.push_back(event);
                    self.offer(now);
                    continue;
                }
            }
            self.events.push_back(event);
        }
        self.events.pop_front()
    }
}

/// How the producer of a Data calls itself in its key locator; a name of its own for each that does not.
fn producer_of(data: &Data<'_>) -> String {
    match data.signature.key_locator {
        Some(KeyLocator::Name(name)) => {
            let first = name.components().next().map(|component| component.value.to_vec()).unwrap_or_default();
            String::from_utf8(first).unwrap_or_else(|_| name.to_string())
        }
        _ => "producer".into(),
    }
}

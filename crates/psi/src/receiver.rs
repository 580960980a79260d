//! The receiving side of mmFTP (paper: subscriber): fetches of this node, their sub-flows and routes.
use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::ToString,
    vec::Vec,
};

use tributary_content::{Name, ObjectId, Unavailable};
use tributary_core::{
    Duration, FaceId, NodeId, PathId, Random, Rate, Time, TransferId, earlier,
    event::{TransferEvent, TransferReport},
};
use tributary_transport::{
    Fetch, Transfer, TransferConfig,
    bulk::{BulkInput, BulkStep},
    fetches::{FetchTable, Fetching},
    policy::{PathDemands, Shared},
    transfer::{CacheUse, PacketData, PathOffer, SharedLink, SourceOffer},
};

use crate::{
    config::node_of_label,
    sender::{GIVEN, data_overhead, holdings_of},
    wire::{
        DataHeader, FLAG_CACHED, FLAG_MARKED, FLAG_NO_CACHE, FLAG_UNAVAILABLE, Fid, Offer, OfferVersion, Request,
        StreamKey,
    },
};

/// How long an incomplete set of offers waits for its rest before it is used as it is.
const OFFER_PATIENCE: Duration = Duration::from_millis(250);
/// How long to wait while the publisher is unknown: a part of the offers must not decide who that is.
const FIRST_OFFER_PATIENCE: Duration = Duration::from_secs(2);
/// Why there is no source: the topology manager learns it from the rendezvous node that is responsible for the name.
const NOBODY: &str = "the rendezvous node knows no publisher of it";
const LEVEL: &str = "it is a level above other names";
/// Packets leave space for an FID of at least this length, so that a path that appears later and needs a longer one
/// fits too; the topology manager of a large domain announces how much more ([`Offer::fid_room`]).
const FID_BYTES_BUDGET: usize = 16;
/// How long a flow number rests before it is used for another path: answers to the former one may be in transit.
const FLOW_REST: Duration = Duration::from_secs(10);
/// Ended fetches whose reports are kept.
const ENDED_KEPT: usize = 64;

/// Tells by which face a packet with an FID leaves a node.
pub type FaceOf<'a> = &'a mut dyn FnMut(&Fid) -> Option<FaceId>;

tributary_core::declared! {
    /// All fetches of a node.
    pub struct Receiver {
        config: TransferConfig = config,
        pub(crate) transfers: FetchTable<Entry> = FetchTable::new((random.below(1 << 20) as u32 + 1) << 8, ENDED_KEPT),
        /// The transfer and path of each flow number, which is in every request's tag.
        flows: Vec<Option<(TransferId, PathId)>> = Vec::new(),
        /// Flow numbers that are given back, and when they may be used again.
        resting: VecDeque<(Time, u16)> = VecDeque::new(),
        polled_at: Time = Time::ZERO,
        /// Whether a fetch has ended since the last [`Receiver::poll_ended`].
        pub news: bool = false,
        /// Data packets that belong to no request of ours.
        pub unsolicited: u64 = 0,
    }
    /// A receiver without fetches. `random` chooses the first transfer number, so that transfers from before a restart
    /// are not mistaken for its own.
    pub fn new(config: TransferConfig, random: &mut Random) {}
}

pub(crate) struct Entry {
    transfer: Transfer,
    routes: BTreeMap<PathId, Route>,
    /// Bytes that packets leave for FIDs, from the first offer.
    fid_room: Option<usize>,
    applied: Option<OfferVersion>,
    pending: Option<Pending>,
    stream: Option<(ObjectId, u16, StreamKey)>,
    /// Events of this node about it, besides the engine's.
    advice: VecDeque<TransferEvent>,
    ended_reported: bool,
    /// Whether an event has reported that a path is unused because flow numbers ran out.
    scarcity_reported: bool,
}

struct Route {
    flow: u16,
    reverse: Fid,
    forward: Fid,
    capability: [u8; 8],
}

/// Offers of one version, until all of them have arrived.
struct Pending {
    version: OfferVersion,
    since: Time,
    /// By their index, and whether the source is of use.
    offers: BTreeMap<u8, (Offer, bool)>,
    count: u8,
}

impl Pending {
    /// The offers of sources that are of use, each with its manifest; without those whose manifest is still on its way.
    fn of_use(&self) -> Vec<Offer> {
        let (mut offers, mut before) = (Vec::new(), None);
        for (index, (offer, is_of_use)) in &self.offers {
            if !offer.manifest.is_empty() {
                before = Some((*index, &offer.manifest));
            }
            let Some((last, manifest)) = before else { continue };
            // Each part up to this one has arrived.
            let is_known = offer.manifest.is_empty().then(|| self.offers.range(last..=*index).count());
            if is_known.is_none_or(|parts| parts == usize::from(index - last) + 1) && *is_of_use {
                offers.push(Offer { manifest: manifest.clone(), ..offer.clone() });
            }
        }
        offers
    }
}

impl Receiver {
    /// Starts a fetch; the node subscribes to its name.
    pub fn fetch(&mut self, now: Time, fetch: Fetch) -> TransferId {
        let id = self.transfers.number_for(&*fetch.opener);
        let transfer =
            Transfer::new(now, fetch.name, self.config.clone(), fetch.opener, fetch.rate_limit, fetch.patience);
        let entry = Entry {
            transfer,
            routes: BTreeMap::new(),
            fid_room: None,
            applied: None,
            pending: None,
            stream: None,
            advice: VecDeque::new(),
            ended_reported: false,
            scarcity_reported: false,
        };
        self.transfers.insert(id, entry);
        id
    }
    /// Ends a fetch.
    pub fn cancel(&mut self, now: Time, id: TransferId) {
        if let Some(entry) = self.transfers.get_mut(id) {
            entry.transfer.cancel(now);
        }
    }
    /// Takes the reports of the driver of a fetch's bulk sources, and returns its orders.
    pub fn step_bulk(&mut self, now: Time, id: TransferId, inputs: Vec<BulkInput>) -> Option<BulkStep> {
        self.transfers.get_mut(id).map(|fetch| fetch.transfer.step_bulk(now, inputs))
    }
    /// The network refuses to serve a fetch: unless another source does, it fails for this reason in the end. Returns
    /// its name if the reason is new.
    pub fn set_refusal(&mut self, id: TransferId, reason: &str) -> Option<Name> {
        let entry = self.transfers.get_mut(id).filter(|entry| !entry.transfer.is_ended())?;
        entry.transfer.set_refusal(reason).then(|| entry.transfer.name().clone())
    }
    /// The name is a scope above others, so no object has it.
    pub fn set_absent(&mut self, name: &Name) {
        for (_, entry) in self.transfers.running_mut().filter(|(_, entry)| entry.transfer.name() == name) {
            entry.transfer.set_absent(LEVEL);
        }
    }
    /// The network refuses to serve all fetches of a name.
    pub fn set_refusal_of(&mut self, name: &str, reason: &str) {
        for (_, entry) in self.transfers.running_mut().filter(|(_, entry)| entry.transfer.name().to_string() == name) {
            entry.transfer.set_refusal(reason);
        }
    }
    /// Takes one source's part of an offer of the topology manager. The set is used once it is complete. A source that
    /// is not `is_of_use` is skipped.
    ///
    /// `face_of` returns the face by which a packet with an FID leaves this node.
    pub fn handle_offer(&mut self, now: Time, offer: Offer, is_of_use: bool, face_of: FaceOf<'_>) {
        let id = TransferId(offer.transfer);
        let Some(entry) = self.transfers.get_mut(id).filter(|entry| !entry.transfer.is_ended()) else { return };
        if entry.applied.is_some_and(|applied| applied >= offer.version) {
            return;
        }
        if entry.pending.as_ref().is_none_or(|pending| pending.version < offer.version) {
            let (version, count) = (offer.version, offer.count);
            entry.pending = Some(Pending { version, since: now, offers: BTreeMap::new(), count });
        }
        let Some(pending) = entry.pending.as_mut().filter(|pending| pending.version == offer.version) else { return };
        if offer.count > 0 {
            pending.offers.insert(offer.index, (offer, is_of_use));
        } else {
            // Only the acting node of a name, which holds all its publications, requests its paths.
            entry.transfer.set_absent(NOBODY);
        }
        if pending.offers.len() >= usize::from(pending.count) {
            self.apply_offers(now, id, face_of);
        }
    }
    /// Takes Data packets for this node that arrived together, each with the payload that follows its headers.
    pub fn handle_data<'a>(&mut self, now: Time, flags: u8, packets: impl Iterator<Item = (DataHeader, &'a [u8])>) {
        let mut packets = packets.peekable();
        while let Some((first, _)) = packets.peek().copied() {
            // Packets of one flow and one stream follow each other.
            let same = |(header, _): &(DataHeader, &[u8])| {
                header.tag >> 16 == first.tag >> 16 && header.stream == first.stream
            };
            let flow = self.flows.get((first.tag >> 16) as usize).copied().flatten();
            let entry = flow.and_then(|(id, path)| Some((self.transfers.get_mut(id)?, path)));
            let of_stream = |entry: &Entry| entry.stream.is_some_and(|(.., stream)| stream == first.stream);
            let Some((entry, path)) = entry.filter(|(entry, _)| of_stream(entry)) else {
                while packets.next_if(same).is_some() {
                    self.unsolicited += 1;
                }
                continue;
            };
            let mut bytes = 0;
            let of_batch = core::iter::from_fn(|| packets.next_if(same));
            if flags & FLAG_UNAVAILABLE != 0 {
                for (header, payload) in of_batch {
                    let number = header.tag as u16;
                    if payload.first() == Some(&GIVEN) {
                        if let Some(given) = holdings_of(payload) {
                            entry.transfer.handle_given(path, number, &given);
                        }
                        continue;
                    }
                    match payload.first().and_then(|why| Unavailable::from_number(*why)) {
                        Some(Unavailable::NotYet) => {
                            // Even a malformed list means that this chunk is missing.
                            let holdings = holdings_of(payload).unwrap_or_default();
                            entry.transfer.handle_holdings(now, path, number, header.packet, &holdings);
                        }
                        Some(why) => entry.transfer.handle_unavailable(now, path, number, header.packet, why),
                        None => {}
                    }
                }
                self.news |= entry.transfer.is_ended();
                continue;
            }
            entry.transfer.handle_batch(
                now,
                of_batch.inspect(|(_, payload)| bytes += payload.len() as u64).map(|(header, payload)| PacketData {
                    path,
                    number: header.tag as u16,
                    packet: header.packet,
                    cache: (flags & FLAG_CACHED != 0).then_some(header.origin),
                    payload,
                }),
            );
            if flags & FLAG_MARKED != 0 {
                entry.transfer.handle_marks(now, path, first.tag as u16, bytes);
            }
            self.news |= entry.transfer.is_ended();
        }
    }
    /// Takes the answers of stores that work on other threads.
    pub fn handle_storage(&mut self, now: Time) {
        for (_, entry) in self.transfers.running_mut() {
            entry.transfer.handle_storage(now);
            self.news |= entry.transfer.is_ended();
        }
    }
    /// Serves the timers that are due.
    pub fn handle_timeout(&mut self, now: Time, face_of: FaceOf<'_>) {
        let mut overdue = Vec::new();
        for (id, entry) in self.transfers.iter_mut() {
            if entry.transfer.poll_timeout().is_some_and(|due| due <= now) {
                entry.transfer.handle_timeout(now);
                self.news |= entry.transfer.is_ended();
            }
            if entry.offers_due().is_some_and(|due| due <= now) {
                overdue.push(id);
            }
        }
        for id in overdue {
            self.apply_offers(now, id, face_of);
        }
    }
    /// The next request to send: its route, its flags, and itself.
    #[inline]
    pub fn poll_request(&mut self, now: Time) -> Option<(Fid, u8, Request)> {
        self.polled_at = now;
        // This runs for every packet that passes a node, whether it fetches anything or not.
        if self.transfers.is_empty() {
            return None;
        }
        self.transfers.serve_in_turn(|entry, shared| entry.poll_request(now, shared))
    }
    /// When to call [`Receiver::handle_timeout`] or poll for requests again.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.transfers.is_empty() { None } else { self.next_deadline() }
    }
    fn next_deadline(&self) -> Option<Time> {
        // This runs twice a packet: ended fetches, which may be many, are skipped first.
        let mut due = None;
        let limit = Some(self.transfers.shared.limit.ready_at()).filter(|ready| *ready > self.polled_at);
        for (_, entry) in self.transfers.running() {
            due = earlier(due, earlier(earlier(entry.transfer.poll_timeout(), entry.offers_due()), limit));
        }
        due
    }
    /// The next event of a fetch.
    #[inline]
    pub fn poll_event(&mut self) -> Option<(TransferId, TransferEvent)> {
        if self.transfers.is_empty() {
            return None;
        }
        self.transfers.collect_events(Entry::poll_event);
        self.transfers.poll_event()
    }
    /// A fetch that has just ended, to unsubscribe from; each once.
    pub fn poll_ended(&mut self, now: Time) -> Option<(TransferId, Name)> {
        self.news = false;
        let (id, entry) = self.transfers.iter_mut().find(|(_, entry)| entry.is_ended() && !entry.ended_reported)?;
        entry.ended_reported = true;
        for route in core::mem::take(&mut entry.routes).values() {
            self.flows[usize::from(route.flow)] = None;
            self.resting.push_back((now + FLOW_REST, route.flow));
        }
        Some((id, entry.transfer.name().clone()))
    }
    /// The name of a fetch.
    pub fn name_of(&self, id: TransferId) -> Option<&Name> {
        self.transfers.get(id).map(|entry| entry.transfer.name())
    }

    fn apply_offers(&mut self, now: Time, id: TransferId, face_of: FaceOf<'_>) {
        let Some(entry) = self.transfers.get_mut(id) else { return };
        let Some(pending) = entry.pending.take() else { return };
        if pending.offers.len() >= usize::from(pending.count) {
            entry.applied = Some(pending.version);
        }
        let (mut sources, mut offered) = (Vec::new(), BTreeSet::new());
        let offers = pending.of_use();
        let is_empty = offers.is_empty();
        for offer in offers {
            let mut paths = Vec::new();
            let rate = |kbps: u32| (kbps > 0).then(|| Rate::from_bits_per_second(u64::from(kbps) * 1000));
            for path in &offer.paths {
                let path_id = PathId(path.id);
                offered.insert(path_id);
                let flow = match entry.routes.get(&path_id) {
                    Some(route) => route.flow,
                    None => match free_flow(&mut self.flows, &mut self.resting, now, (id, path_id)) {
                        Some(flow) => flow,
                        None => {
                            if !core::mem::replace(&mut entry.scarcity_reported, true) {
                                let text = format!(
                                    "'{}' has paths that are not used: all numbers of flows are in use",
                                    entry.transfer.name()
                                );
                                entry.advice.push_back(TransferEvent::Advice { text });
                            }
                            continue;
                        }
                    },
                };
                let (reverse, forward, capability) = (path.reverse, path.forward, path.capability);
                entry.routes.insert(path_id, Route { flow, reverse, forward, capability });
                // A domain that grows during a transfer does not change its packets.
                let fid_room = *entry.fid_room.get_or_insert(usize::from(offer.fid_room).max(FID_BYTES_BUDGET));
                let room = (path.mtu as usize).saturating_sub(data_overhead(forward.bytes().len().max(fid_room)));
                paths.push(PathOffer {
                    path: path_id,
                    label: path.label.clone(),
                    hops: u32::from(path.hops),
                    packet_bytes_max: u16::try_from(room).unwrap_or(u16::MAX).min(60_000),
                    shared_links: path
                        .shared_links
                        .iter()
                        .map(|link| SharedLink { number: link.number, capacity: rate(link.residual_kbps) })
                        .collect(),
                    capacity: rate(path.residual_kbps),
                    face: face_of(&reverse),
                    rtt: (path.latency_us > 0).then(|| Duration::from_micros(u64::from(path.latency_us)) * 2),
                });
            }
            let (node, label) = (offer.source, offer.source_label);
            sources.push(SourceOffer { node, label, manifest: offer.manifest, paths });
        }
        if pending.offers.len() >= usize::from(pending.count) || entry.applied.is_none() {
            entry.transfer.handle_offer(now, sources);
        }
        if pending.offers.len() >= usize::from(pending.count) {
            let is_over = |path: &PathId| !offered.contains(path) && !entry.transfer.uses(*path);
            let over: Vec<PathId> = entry.routes.keys().filter(|path| is_over(path)).copied().collect();
            for route in over.iter().filter_map(|path| entry.routes.remove(path)) {
                self.resting.push_back((now + FLOW_REST, route.flow));
            }
        }
        if pending.offers.len() < usize::from(pending.count) {
            // The rest may still arrive; the present offers are used until then.
            let since = if is_empty { now } else { Time::MAX };
            entry.pending = Some(Pending { since, ..pending });
        }
    }
}

impl Fetching for Entry {
    tributary_core::forwarded! {
        this => this.transfer;
        fn name(&Self) -> &Name;
        fn is_ended(&Self) -> bool;
        fn was_in_vain(&Self) -> bool;
        fn set_limit(&mut Self, now: Time, rate: Option<Rate>);
        fn report(&Self, now: Time) -> TransferReport;
    }
    fn is_settled(&self) -> bool {
        self.ended_reported
    }
    fn set_demands(&mut self, now: Time, demands: PathDemands) -> bool {
        self.transfer.set_demands(now, demands);
        true
    }
}

impl Entry {
    fn poll_event(&mut self) -> Option<TransferEvent> {
        let event = self.advice.pop_front().or_else(|| self.transfer.poll_event())?;
        Some(self.with_cache_named(event))
    }
    /// The next request of a fetch that has not ended, with its route and its flags.
    fn poll_request(&mut self, now: Time, shared: &mut Shared) -> Option<(Fid, u8, Request)> {
        if self.transfer.is_ended() {
            return None;
        }
        let request = self.transfer.poll_request(now, shared)?;
        let route = self.routes.get(&request.path)?;
        if self.stream.is_none_or(|(object, bytes, _)| (object, bytes) != (request.object, request.packet_bytes)) {
            let key = StreamKey::new(&request.object, request.packet_bytes);
            self.stream = Some((request.object, request.packet_bytes, key));
        }
        let flags = if request.caches == CacheUse::Bypassed { FLAG_NO_CACHE } else { 0 };
        let tag = u32::from(route.flow) << 16 | u32::from(request.number);
        let (object, packet_bytes) = (request.object, request.packet_bytes);
        let (capability, forward) = (route.capability, route.forward);
        Some((route.reverse, flags, Request { tag, object, packet_bytes, capability, forward, ranges: request.ranges }))
    }
    /// When incomplete offers are used anyway.
    fn offers_due(&self) -> Option<Time> {
        let pending = self.pending.as_ref()?;
        let patience = if self.transfer.knows_publisher() { OFFER_PATIENCE } else { FIRST_OFFER_PATIENCE };
        Some(pending.since + patience)
    }
    /// A cache names itself by the low bits of its id only; the labels of the path identify the node.
    fn with_cache_named(&self, event: TransferEvent) -> TransferEvent {
        let TransferEvent::CacheDistrusted { node, reason } = event else { return event };
        let report = self.transfer.report(Time::ZERO);
        let mut nodes = report.paths.iter().flat_map(|path| path.label.split('>')).map(node_of_label);
        let node = nodes.find(|full: &NodeId| full.0 as u16 == node.0 as u16).unwrap_or(node);
        TransferEvent::CacheDistrusted { node, reason }
    }
}

/// Assigns a flow number to a path; numbers that have rested come before new ones.
fn free_flow(
    flows: &mut Vec<Option<(TransferId, PathId)>>,
    resting: &mut VecDeque<(Time, u16)>,
    now: Time,
    owner: (TransferId, PathId),
) -> Option<u16> {
    if let Some((_, flow)) = resting.front().copied().filter(|(until, _)| *until <= now) {
        resting.pop_front();
        flows[usize::from(flow)] = Some(owner);
        return Some(flow);
    }
    let flow = u16::try_from(flows.len()).ok()?;
    flows.push(Some(owner));
    Some(flow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PathOffer as WirePath;
    use tributary_content::{MemoryObject, MemoryOpener, ObjectReader, SigningKey};

    /// The only source, with one path of this number.
    fn offer(transfer: TransferId, sequence: u32, path: u16) -> Offer {
        let name: Name = "/x".parse().unwrap();
        let object = MemoryObject::new(name, alloc::vec![1; 100_000], &SigningKey::from_secret(&[1; 32])).unwrap();
        let path = WirePath {
            id: path,
            reverse: Fid::NONE,
            forward: Fid::NONE,
            capability: [0; 8],
            hops: 2,
            mtu: 1_472,
            latency_us: 1_000,
            capacity_kbps: 0,
            residual_kbps: 0,
            shared_links: Vec::new(),
            label: "r>s".into(),
        };
        Offer {
            transfer: transfer.0,
            version: OfferVersion { term: 1, sequence },
            index: 0,
            count: 1,
            source: NodeId(5),
            source_label: "s".into(),
            manifest: object.manifest().encode(),
            fid_room: 0,
            paths: [path].into(),
        }
    }
    fn receiver() -> (Receiver, TransferId) {
        let mut receiver = Receiver::new(TransferConfig::default(), &mut Random::new(1, 1));
        let fetch = Fetch {
            name: "/x".parse().unwrap(),
            opener: alloc::boxed::Box::new(MemoryOpener::new()),
            rate_limit: None,
            paths_per_source: 1,
            metric: tributary_transport::PathMetric::Hops,
            patience: None,
        };
        let id = receiver.fetch(Time::ZERO, fetch);
        (receiver, id)
    }
    fn used(receiver: &mut Receiver, now: Time) -> Option<u32> {
        receiver.poll_request(now).map(|(.., request)| request.tag >> 16)
    }

    #[test]
    fn a_source_of_no_use_is_passed_over_and_the_others_of_the_same_offer_are_not() {
        let (mut receiver, id) = receiver();
        let of = |index: u8, is_of_use: bool, receiver: &mut Receiver| {
            let part = Offer { index, count: 2, source: NodeId(5 + u64::from(index)), ..offer(id, 1, index.into()) };
            receiver.handle_offer(Time::ZERO, part, is_of_use, &mut |_| None);
        };
        of(0, false, &mut receiver);
        of(1, true, &mut receiver);
        let report = receiver.transfers.report(Time::ZERO, id).expect("it runs");
        let labels: Vec<_> = report.sources.iter().map(|source| source.node).collect();
        assert_eq!(labels, [NodeId(6)]);
        assert_eq!(report.paths.len(), 1);
    }
    #[test]
    fn a_source_without_a_manifest_has_that_of_the_one_before_once_that_is_known() {
        let (mut receiver, id) = receiver();
        let mut part = |index: u8, seconds: u64| {
            let now = seconds * 10_000;
            let mut part =
                Offer { index, count: 3, source: NodeId(5 + u64::from(index)), ..offer(id, 1, index.into()) };
            if index > 0 {
                part.manifest.clear();
            }
            receiver.handle_offer(Time::from_millis(now), part, index != 1, &mut |_| None);
            receiver.handle_timeout(Time::from_millis(now) + FIRST_OFFER_PATIENCE * 2, &mut |_| None);
            let report = receiver.transfers.report(Time::ZERO, id).expect("it runs");
            report.sources.iter().map(|source| source.node.0).collect::<Vec<_>>()
        };
        assert_eq!(part(2, 0), [0; 0], "its manifest is not known yet");
        assert_eq!(part(0, 1), [5]);
        assert_eq!(part(1, 2), [5, 7], "the second is of no use, and its manifest counts");
    }
    #[test]
    fn flow_numbers_of_paths_that_are_withdrawn_are_used_again_after_a_rest() {
        let (mut receiver, id) = receiver();
        for round in 0..1_000u16 {
            let now = Time::from_millis(u64::from(round) * 100);
            receiver.handle_offer(now, offer(id, u32::from(round) + 1, round), true, &mut |_| None);
            assert_eq!(
                receiver.transfers.get(id).unwrap().routes.len(),
                1,
                "one path is offered, the others are withdrawn"
            );
            assert!(used(&mut receiver, now).is_some(), "round {round}");
        }
        assert!(receiver.flows.len() <= 101, "{} numbers in ten seconds", receiver.flows.len());
    }

    #[test]
    fn a_path_without_a_flow_number_is_told_once() {
        let (mut receiver, id) = receiver();
        receiver.flows.resize(1 << 16, Some((TransferId(0), PathId(0))));
        for sequence in 1..4 {
            receiver.handle_offer(Time::ZERO, offer(id, sequence, 7), true, &mut |_| None);
        }
        let scarce = |event: &(TransferId, TransferEvent)| matches!(&event.1, TransferEvent::Advice { text } if text.contains("numbers of flows"));
        let reported = core::iter::from_fn(|| receiver.poll_event()).filter(scarce).count();
        assert_eq!((reported, used(&mut receiver, Time::ZERO)), (1, None));
    }
}

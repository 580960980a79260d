//! A receiver, stateless sources, and emulated links between them, in virtual time: one integration binary.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test: a failed unwrap is a failed test")]

mod blame;
mod buckets;
mod faults;
mod losses;
mod marks;
mod paper;
mod policies;
mod rates;
mod shared;
mod standing;
mod storage;
mod wishes;

use std::collections::BTreeMap;

use bytes::Bytes;
use tributary_content::{MemoryContent, MemoryObject, MemoryOpener, Name, ObjectKind, ObjectReader, SigningKey};
use tributary_core::{
    Datagram, Duration, FaceId, NodeId, PathId, Random, Rate, Time,
    event::{PathReport, TransferEvent, TransferReport},
    link::{Link, LinkConfig, Loss},
};
use tributary_transport::{
    Transfer, TransferConfig,
    layout::{Layout, Unit},
    policy::Shared,
    transfer::{CacheUse, PacketData, PacketRequest, PathOffer, SharedLink, SourceOffer},
};

/// What a source does to its answers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Conduct {
    Honest,
    /// Flips a bit in one of this many packets.
    Corrupts(u32),
    /// Sends packets that are too short.
    CutsShort,
}

pub(crate) struct TestPath {
    pub source: usize,
    up: Link,
    down: Link,
    /// The source hears nothing on this path from … to ….
    pub silent: Option<(Time, Time)>,
    /// A cache on the path answers every request that may use caches, with wrong bytes.
    pub lying_cache: bool,
    /// A node on the path alters one of this many packets of the source.
    pub altering: Option<u32>,
}

pub(crate) struct World {
    pub now: Time,
    pub transfer: Transfer,
    pub content: MemoryContent,
    pub object: MemoryObject,
    pub paths: BTreeMap<PathId, TestPath>,
    pub sources: Vec<Conduct>,
    pub events: Vec<(Time, TransferEvent)>,
    offers: Vec<SourceOffer>,
    requests: Vec<PacketRequest>,
    random: Random,
    pub sent_packets: u64,
    /// State shared with other fetches.
    pub shared: Shared,
}

pub(crate) fn name() -> Name {
    "/test/object".parse().unwrap()
}
pub(crate) fn key() -> SigningKey {
    SigningKey::from_secret(&[7; 32])
}
pub(crate) fn random_bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed, 99);
    (0..len.div_ceil(8)).flat_map(|_| random.bits().to_le_bytes()).take(len).collect()
}
/// A link as the scenarios have it: rate, round-trip time, loss in each direction, a queue of 1.5 bandwidth-delay products.
pub(crate) fn link(mbps: u64, rtt_ms: u64, loss: f64) -> LinkConfig {
    let rate = Rate::from_mbps(mbps);
    let mut config = LinkConfig::new(rate, Duration::from_millis(rtt_ms) / 2);
    config.queue_bytes = (rate.bytes_in(Duration::from_millis(rtt_ms)) * 3 / 2).max(30_000);
    config.loss = if loss > 0.0 { Loss::Bernoulli(loss) } else { Loss::None };
    config
}

impl World {
    pub(crate) fn new(bytes: usize, config: TransferConfig, seed: u64) -> World {
        let object = MemoryObject::new(name(), random_bytes(bytes, seed), &key()).unwrap();
        let opener = MemoryOpener::new();
        let content = opener.content();
        let patience = Some(Duration::from_secs(60));
        World {
            now: Time::ZERO,
            transfer: Transfer::new(Time::ZERO, name(), config, Box::new(opener), None, patience),
            content,
            object,
            paths: BTreeMap::new(),
            sources: Vec::new(),
            events: Vec::new(),
            offers: Vec::new(),
            requests: Vec::new(),
            random: Random::new(seed, 1),
            sent_packets: 0,
            shared: Shared::default(),
        }
    }
    pub(crate) fn source(&mut self, conduct: Conduct) -> usize {
        self.sources.push(conduct);
        let number = self.sources.len();
        self.offers.push(SourceOffer {
            node: NodeId(number as u64),
            label: format!("source-{number}"),
            manifest: self.object.manifest().encode(),
            paths: Vec::new(),
        });
        number - 1
    }
    pub(crate) fn path(&mut self, source: usize, config: LinkConfig) -> PathId {
        let id = PathId(self.paths.len() as u16 + 1);
        let stream = u64::from(id.0) * 2 + 100;
        let up = Link::new(config.clone(), Random::new(self.random.bits(), stream));
        let down = Link::new(config, Random::new(self.random.bits(), stream + 1));
        self.paths.insert(id, TestPath { source, up, down, silent: None, lying_cache: false, altering: None });
        self.offers[source].paths.push(PathOffer {
            path: id,
            label: format!("receiver>source-{}", source + 1),
            hops: 1,
            packet_bytes_max: 1443,
            shared_links: Vec::new(),
            rtt: None,
            capacity: None,
            face: None,
        });
        id
    }
    /// A path that leaves by that face.
    pub(crate) fn path_by(&mut self, source: usize, config: LinkConfig, face: FaceId) -> PathId {
        let id = self.path(source, config);
        self.offers[source].paths.last_mut().expect("it has just been added").face = Some(face);
        id
    }
    pub(crate) fn offers(&mut self) -> &mut Vec<SourceOffer> {
        &mut self.offers
    }
    pub(crate) fn offer(&mut self) {
        self.transfer.handle_offer(self.now, self.offers.clone());
    }
    /// Runs until the transfer ends; panics if it does not within `limit` of virtual time.
    pub(crate) fn run(&mut self, limit: Duration) -> TransferReport {
        self.run_until(Time::ZERO + limit);
        assert!(self.transfer.is_ended(), "not done after {limit:?}: {:#?}", self.transfer.report(self.now));
        self.transfer.report(self.now)
    }
    pub(crate) fn run_until(&mut self, end: Time) {
        let mut spins = 0;
        while self.now < end && !self.transfer.is_ended() {
            if self.transfer.poll_timeout().is_some_and(|due| due <= self.now) {
                self.transfer.handle_timeout(self.now);
            }
            while let Some(request) = self.transfer.poll_request(self.now, &mut self.shared) {
                self.send(request);
            }
            while let Some(event) = self.transfer.poll_event() {
                self.events.push((self.now, event));
            }
            let links = self.paths.values().flat_map(|path| [path.up.poll_timeout(), path.down.poll_timeout()]);
            let next = links.chain([self.transfer.poll_timeout()]).flatten().min().unwrap_or(end).min(end);
            spins = if next <= self.now { spins + 1 } else { 0 };
            assert!(spins < 1000, "spins at {}", self.now);
            self.now = self.now.max(next);
            self.deliver();
        }
        while let Some(event) = self.transfer.poll_event() {
            self.events.push((self.now, event));
        }
    }
    fn send(&mut self, request: PacketRequest) {
        let index = self.requests.len() as u32;
        let path = self.paths.get_mut(&request.path).unwrap();
        let packets: u32 = request.ranges.iter().map(|&(_, count)| u32::from(count)).sum();
        self.sent_packets += u64::from(packets);
        let size = 70 + 5 * request.ranges.len();
        path.up.enqueue(self.now, Datagram::new(&index.to_be_bytes(), Bytes::from(vec![0; size])));
        self.requests.push(request);
    }
    fn deliver(&mut self) {
        let ids: Vec<PathId> = self.paths.keys().copied().collect();
        for id in ids {
            let path = self.paths.get_mut(&id).unwrap();
            let mut requested = Vec::new();
            while let Some(datagram) = path.up.poll_deliver(self.now) {
                requested.push(u32::from_be_bytes(*datagram.header_bytes().first_chunk().unwrap()));
            }
            for index in requested {
                self.answer(id, index);
            }
            let path = self.paths.get_mut(&id).unwrap();
            let mut arrived = Vec::new();
            while let Some(datagram) = path.down.poll_deliver(self.now) {
                arrived.push(datagram);
            }
            for datagram in arrived {
                let head = datagram.head();
                let index = u32::from_be_bytes(*head.first_chunk().unwrap());
                let packet = u32::from_be_bytes(head[4..8].try_into().unwrap());
                let number = self.requests[index as usize].number;
                let cache = (head[8] == 1).then_some(77);
                let payload = datagram.body();
                self.transfer.handle_data(self.now, &PacketData { path: id, number, packet, cache, payload });
            }
        }
    }
    fn answer(&mut self, id: PathId, index: u32) {
        let request = &self.requests[index as usize];
        let path = self.paths.get_mut(&id).unwrap();
        let from_cache = path.lying_cache && request.caches == CacheUse::Allowed;
        if !from_cache && path.silent.is_some_and(|(from, to)| (from..to).contains(&self.now)) {
            return;
        }
        let conduct = self.sources[path.source];
        let layout = Layout::exact(self.object.manifest(), request.packet_bytes).unwrap();
        for packet in request.ranges.iter().flat_map(|&(first, count)| first..first + u32::from(count)) {
            let (unit, offset, len) = layout.locate(packet).unwrap();
            let complete = match unit {
                Unit::Tree => self.object.tree(),
                Unit::Chunk(chunk) => {
                    let start = chunk as usize * self.object.manifest().chunk_size as usize;
                    self.object.bytes().slice(start..)
                }
            };
            let mut payload = complete.slice(offset as usize..(offset + len) as usize);
            let corrupt = match conduct {
                Conduct::Corrupts(every) => packet.is_multiple_of(every),
                _ => from_cache || path.altering.is_some_and(|every| packet.is_multiple_of(every)),
            };
            if corrupt {
                let mut bytes = payload.to_vec();
                bytes[0] ^= 0x40;
                payload = bytes.into();
            }
            if conduct == Conduct::CutsShort {
                payload.truncate(1);
            }
            let mut head = [0; 29];
            head[..4].copy_from_slice(&index.to_be_bytes());
            head[4..8].copy_from_slice(&packet.to_be_bytes());
            head[8] = u8::from(from_cache);
            path.down.enqueue(self.now, Datagram::new(&head, payload));
        }
    }
    pub(crate) fn assert_complete(&self) {
        assert!(matches!(self.events.last(), Some((_, TransferEvent::Completed))), "{:?}", self.events.last());
        assert_eq!(self.content.finished(&name()).as_ref(), Some(self.object.bytes()), "the bytes are the object's");
    }
}

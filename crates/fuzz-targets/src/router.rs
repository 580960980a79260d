//! The forwarder, fed with arbitrary datagrams and with honest ones that only its manager could make.
use bytes::Bytes;
use tributary_content::ObjectId;
use tributary_core::{ByteCount, Datagram, FaceId, NodeId, Time, TransmitBuf};
use tributary_psi::{
    capability::{CapabilityKey, CapabilityKeys},
    router::{
        Router, RouterConfig, Verdict,
        labels::{FILTER_WORDS_MAX, Port, filter_bytes},
        reason,
    },
    wire::{
        BitmapNumbers, DataHeader, FIXED_BYTES, FLAG_CACHED, Fid, FidKind, Header, PacketType, REQUEST_PACKETS_MAX,
        Request, Routes, StreamKey, Wire,
    },
};
use tributary_transport::FaceOptions;

use crate::input::Input;

const FACES: u32 = 8;
const COPIES_MAX: usize = 4;
const QUEUE_PACKETS_MAX: usize = 48;
const QUEUE_BYTES_MAX: usize = 24_000;
const CACHE_BYTES: u64 = 16_384;
const MTU: usize = 1_472;
const EPOCH: u8 = 7;
const OBJECT: ObjectId = ObjectId([5; 16]);
const PACKET_BYTES: u16 = 900;

/// However it is fed, a router
///
/// - copies a packet to no more than `copies_max` faces that are up, never back to its origin, with one hop less and
///   otherwise unchanged, and not at all when its hops are used up;
/// - drops Bloom filters of all ones;
/// - divides the remaining hops among copies, so that no FID makes a packet multiply without end;
/// - gives nothing, not one byte, for a request without a valid capability once it holds keys, and delivers none to
///   its own node before;
/// - answers a valid one with no more than `REQUEST_PACKETS_MAX` packets per copy;
/// - keeps queues and cache within their limits, and accounts for every packet.
pub fn router_forward(data: &[u8]) {
    let mut input = Input::new(data);
    let mut world = World::new(input.u8());
    while let Some(step) = input.step() {
        world.step(step, &mut input);
    }
    world.drain();
    assert!(world.router.is_idle());
}

struct World {
    router: Router,
    keys: Vec<CapabilityKey>,
    queued: usize,
    /// Send queued packets after each input, to check them; otherwise only when the script has a step for it.
    drains: bool,
}

impl World {
    fn new(setup: u8) -> World {
        let config = RouterConfig {
            copies_max: COPIES_MAX,
            faces_max: FACES as usize,
            label_tables_max: 8,
            queue_packets_max: QUEUE_PACKETS_MAX,
            queue_bytes_max: QUEUE_BYTES_MAX,
            mark_bytes: (setup & 1 != 0).then_some(4_000),
            cache_bytes: ByteCount(CACHE_BYTES),
            cache_policy: ["object-oriented", "lru", "fifo", "nonsense"][usize::from(setup >> 1 & 3)].into(),
            ..RouterConfig::new(NodeId(0xfeed), [3; 16])
        };
        let mut world = World { router: Router::new(config), keys: Vec::new(), queued: 0, drains: setup & 16 != 0 };
        for face in 0..FACES - 1 {
            world.router.add_face(FaceId(face), FaceOptions { mtu: MTU as u32, rate: None });
            world.router.set_face_up(FaceId(face), face != 5);
        }
        if setup & 8 == 0 {
            world.keys = [1, 2].map(|epoch| CapabilityKey::derive(&[9; 32], epoch)).into();
        }
        let faces = (0..FACES).map(|face| (FaceId(face), face as u16 * 9)).collect();
        let routes = Routes {
            manager: NodeId(1),
            term: 1,
            sequence: 1,
            resolvers: Vec::new(),
            bitmap: BitmapNumbers { epoch: EPOCH, local: Some(100), faces },
            keys: world.keys.clone(),
        };
        world.router.handle_routes(&routes);
        world
    }
    /// An FID for the faces whose bit is set in `mask`, with bit 8 for the node itself.
    fn fid(&self, kind: u8, salt: u8, mask: u16) -> Fid {
        let ports = (0..FACES).map(|face| Port::Face(FaceId(face))).chain([Port::Local]);
        let ports: Vec<Port> = ports.enumerate().filter(|(i, _)| mask >> i & 1 == 1).map(|(_, port)| port).collect();
        let key = self.router.label_key();
        match kind % 3 {
            0 => {
                let mut words = [0; FILTER_WORDS_MAX];
                ports.iter().for_each(|port| key.seeds(*port, salt % 64).bloom(32, 5).add_to(&mut words));
                Fid::new(FidKind::Bloom, salt % 64, &filter_bytes(&words, 32))
            }
            1 => {
                let mut bits = [0; 14];
                for port in ports {
                    let bit = match port {
                        Port::Face(face) => face.0 as usize * 9,
                        Port::Local => 100,
                    };
                    bits[bit / 8] |= 1 << (bit % 8);
                }
                Fid::new(FidKind::Bitmap, EPOCH, &bits)
            }
            _ => Fid::new(FidKind::List, salt, &ports.iter().flat_map(|port| key.list(*port)).collect::<Vec<u8>>()),
        }
    }
    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        let arrived = FaceId(u32::from(input.u8()) % (FACES + 2));
        match step % 8 {
            0 => self.forward(arrived, input.blob().into()),
            // Any header in front of anything, with an FID that leads somewhere.
            1 => {
                let packet_type = [PacketType::Hello, PacketType::Control, PacketType::Request, PacketType::Data];
                let fid = self.fid(input.u8(), input.u8(), input.u16());
                let header = Header {
                    packet_type: packet_type[usize::from(input.u8() % 4)],
                    flags: input.u8() & 7,
                    ttl: input.u8() % 65,
                    fid,
                };
                let mut bytes = Vec::new();
                header.encode(&mut bytes);
                match input.u8() % 2 {
                    0 => {
                        bytes.extend_from_slice(input.blob());
                        self.forward(arrived, bytes.into());
                    }
                    _ => self.forward(arrived, Datagram::new(&bytes, Bytes::copy_from_slice(input.blob()))),
                }
            }
            // A request as a receiver makes it, honest or with a capability that is not its own.
            2 | 3 => {
                let reverse = self.fid(input.u8(), input.u8(), input.u16());
                let forward = self.fid(input.u8(), input.u8(), input.u16());
                let honest = CapabilityKey::derive(&[9; 32], 1 + u32::from(input.u8() & 1)).sign(&reverse, &forward);
                let capability = if step % 8 == 2 { honest } else { input.u64().to_be_bytes() };
                let count = 1 + usize::from(input.u8() % 16);
                let ranges = (0..count).map(|_| (u32::from(input.u8()), 1 + input.u8() % 4)).collect();
                let request =
                    Request { tag: 3, object: OBJECT, packet_bytes: PACKET_BYTES, capability, forward, ranges };
                let (flags, ttl) = (input.u8() & 1, input.u8() % 65);
                let mut bytes = Vec::new();
                Header { packet_type: PacketType::Request, flags, ttl, fid: reverse }.encode(&mut bytes);
                request.encode(&mut bytes);
                self.forward(arrived, bytes.into());
            }
            // A packet for the cache.
            4 => {
                let fid = self.fid(input.u8(), input.u8(), input.u16());
                let stream = StreamKey::new(&OBJECT, PACKET_BYTES);
                let data = DataHeader { tag: 3, packet: input.u8().into(), stream, origin: 1 };
                let (flags, ttl) = (input.u8() & FLAG_CACHED, 9);
                let mut bytes = Vec::new();
                Header { packet_type: PacketType::Data, flags, ttl, fid }.encode(&mut bytes);
                data.encode(&mut bytes);
                bytes.resize(bytes.len() + usize::from(input.u16() % PACKET_BYTES), 7);
                self.forward(arrived, bytes.into());
            }
            5 => {
                self.drain();
            }
            6 => {
                match input.u8() % 4 {
                    0 => self.router.set_face_up(arrived, true),
                    1 => self.router.set_face_up(arrived, false),
                    2 => self.router.remove_face(arrived),
                    _ => {
                        self.router.add_face(arrived, FaceOptions { mtu: MTU as u32, rate: None });
                    }
                }
                self.queued = self.waiting();
                assert!(self.router.faces().count() <= FACES as usize);
            }
            _ => {
                if let Ok(routes) = Routes::decode(input.blob()) {
                    self.router.handle_routes(&routes);
                    self.keys = routes.keys;
                }
            }
        }
    }
    fn forward(&mut self, arrived: FaceId, datagram: Datagram) {
        let (bytes, before) = (datagram.to_vec(), self.router.stats.clone());
        let up: Vec<FaceId> = self.router.faces().filter(|face| self.up(*face)).collect();
        let onward = up.iter().filter(|face| **face != arrived).count();
        let queues: Vec<usize> = up.iter().map(|face| self.queue(*face)).collect();
        let verdict = self.router.forward(Time::ZERO, Some(arrived), datagram.clone());
        let waiting = self.waiting();
        let put = waiting - self.queued;
        self.queued = waiting;
        assert_eq!(self.router.stats.queued - before.queued, put as u64, "what is queued is counted");
        assert_eq!(self.router.stats.arrived, before.arrived + 1);
        if let Some(reason) = verdict.dropped {
            let count = |dropped: &std::collections::BTreeMap<_, u64>| dropped.get(reason).copied().unwrap_or(0);
            assert!(count(&self.router.stats.dropped) > count(&before.dropped), "drops are counted");
        }
        assert!(verdict.copies <= COPIES_MAX.min(onward));
        assert!(verdict.answered <= REQUEST_PACKETS_MAX);
        assert!(put <= verdict.copies + verdict.answered * COPIES_MAX.min(onward));
        if let Some(index) = up.iter().position(|face| *face == arrived)
            && verdict.answered == 0
        {
            assert_eq!(self.queue(arrived), queues[index], "never back to where it came from");
        }
        for face in &up {
            let stats = self.router.face_stats(*face).expect("it was just listed");
            assert!(stats.queue_packets <= QUEUE_PACKETS_MAX && stats.queue_bytes <= QUEUE_BYTES_MAX);
        }
        if let Some(local) = &verdict.local {
            assert_eq!(local.to_vec()[FIXED_BYTES..FIXED_BYTES.max(local.len())].len() + FIXED_BYTES, local.len());
        }
        if let Some(cache) = self.router.cache() {
            assert!(cache.used().0 <= CACHE_BYTES);
        }
        // The header is in the head if there is one; packets from sockets have no head.
        match Header::decode(datagram.header_bytes()) {
            Err(_) => nothing(&verdict, put),
            Ok(header) => {
                self.check(&header, &bytes[header.len()..], &verdict, put);
                if self.drains {
                    let hops: usize = self.drain().into_iter().map(|copy| usize::from(copy.ttl) + 1).sum();
                    assert!(verdict.answered > 0 || hops <= header.ttl.into(), "{hops} hops out of {}", header.ttl);
                }
            }
        }
    }
    fn check(&self, header: &Header, rest: &[u8], verdict: &Verdict, put: usize) {
        if header.ttl == 0 {
            assert_eq!(put, 0, "hops are used up");
        }
        if header.packet_type != PacketType::Request {
            assert_eq!(verdict.answered, 0);
        }
        let ones = !header.fid.is_none() && header.fid.bytes().iter().all(|byte| *byte == 0xff);
        if ones && header.fid.kind() == FidKind::Bloom {
            nothing(verdict, put);
            assert!(matches!(verdict.dropped, Some(reason::OVERFULL | reason::SHAPE)));
        }
        if header.fid.is_none() {
            nothing(verdict, put);
        }
        if header.packet_type == PacketType::Request && !self.keys.is_empty() {
            let mut keys = CapabilityKeys::new();
            keys.replace(&self.keys);
            let request = Request::decode(rest).ok();
            let valid = request.is_some_and(|r| keys.verify(&header.fid, &r.forward, &r.capability));
            if !valid {
                nothing(verdict, put);
            }
        }
        if header.packet_type == PacketType::Request && self.keys.is_empty() {
            assert!(verdict.local.is_none() && verdict.answered == 0, "nothing tells that it may be answered");
        }
    }
    /// Sends all queued packets and returns their headers.
    fn drain(&mut self) -> Vec<Header> {
        let mut headers = Vec::new();
        let mut batch = TransmitBuf::new();
        let mut drained = 0;
        while self.router.poll_transmit(&mut batch).is_some() {
            assert!(!batch.is_empty() && batch.len() <= TransmitBuf::DATAGRAMS_MAX);
            drained += batch.len();
            for datagram in batch.drain() {
                assert!(datagram.len() <= MTU);
                let header = Header::decode(datagram.header_bytes()).expect("what leaves is a packet");
                assert!(
                    header.packet_type != PacketType::Request
                        || Request::decode(&datagram.to_vec()[header.len()..]).is_ok()
                        || self.keys.is_empty()
                );
                headers.push(header);
            }
        }
        assert_eq!(drained, self.queued, "what was queued is sent");
        self.queued = 0;
        headers
    }
    fn up(&self, face: FaceId) -> bool {
        self.router.face_stats(face).is_some_and(|stats| stats.up)
    }
    fn queue(&self, face: FaceId) -> usize {
        self.router.face_stats(face).map_or(0, |stats| stats.queue_packets)
    }
    fn waiting(&self) -> usize {
        self.router.faces().map(|face| self.queue(face)).sum()
    }
}

/// A packet had no effect.
fn nothing(verdict: &Verdict, put: usize) {
    assert!(verdict.copies == 0 && verdict.answered == 0 && put == 0, "amplified: {verdict:?}");
    assert!(verdict.local.is_none() && verdict.dropped.is_some(), "taken: {verdict:?}");
}

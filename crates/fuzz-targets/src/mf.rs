//! The packets and messages of the MobilityFirst family, and a whole node between neighbours that do as they please.
use std::fmt::Debug;
use tributary_content::{MemoryOpener, ObjectReader, SigningKey};
use tributary_core::{ByteCount, Duration, FaceId, Outlet, Time, Transmit, TransmitBuf, event::Event};
use tributary_mf::{
    Config, MfNode,
    ids::{Custodian, Guid, HopId, NetworkAddress, ServiceId, Token},
    wire::{
        ADDRESSES_MAX, CHUNK_PACKETS_MAX, Cack, CackState, ChunkHeader, ChunkKind, Class, Csyn, DataHeader, DataTag,
        Flags, Hello, LABEL_BYTES_MAX, LinkState, MtuMessage, NameMessage, NameRecord, PacketType, Probe, Reliability,
        Roles, SealedHead, TransportBody, TransportMessage, Wire, WireError, chunk::CHUNK_BYTES_MAX, chunk::HOPS_MAX,
        names::RECORDS_MAX, routing::ADJACENCIES_MAX, seal, transport::RANGES_MAX, unseal,
    },
};
use tributary_transport::{
    Endpoint, FaceOptions, Fetch, Messaging, PathMetric,
    messaging::{AcceptOptions, Destination, SendOptions, Spread},
};

use crate::{
    driven::{Driven, Ear},
    input::Input,
    seeds,
};

/// What parses re-emits byte for byte, reads as the same again, and is refused when a byte is missing.
fn exact<T: PartialEq + Debug>(
    data: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, WireError>,
    encode: impl Fn(&T, &mut Vec<u8>),
) -> Option<T> {
    match decode(data) {
        Ok(value) => {
            let mut out = b"before".to_vec();
            encode(&value, &mut out);
            assert_eq!((&out[..6], &out[6..]), (&b"before"[..], data), "what parses re-emits");
            assert_eq!(decode(data).as_ref(), Ok(&value), "reading is repeatable");
            Some(value)
        }
        Err(error) => {
            assert!(!error.to_string().is_empty() && !error.reason().is_empty());
            None
        }
    }
}
/// The same check for headers: their parser does not read the bytes behind them.
fn front<T: PartialEq + Debug>(
    data: &[u8],
    decode: impl Fn(&[u8]) -> Result<(T, usize), WireError>,
    encode: impl Fn(&T, &mut Vec<u8>),
) -> Option<T> {
    let (value, length) = match decode(data) {
        Ok(found) => found,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    let mut out = Vec::new();
    encode(&value, &mut out);
    assert_eq!(out, data[..length], "what parses re-emits");
    for cut in 0..length {
        assert!(decode(&data[..cut]).is_err(), "cut at {cut}");
    }
    Some(value)
}

/// A hello re-emits byte for byte; only a signature by its key proves it.
pub fn mf_hello(data: &[u8]) {
    let Some(mut hello) = exact(data, Hello::decode, Hello::encode) else { return };
    assert!(hello.label.len() <= LABEL_BYTES_MAX);
    if hello.is_proven() {
        hello.nonce ^= 1;
        assert!(!hello.is_proven(), "the proof is of this meeting only");
    }
}

/// Data headers, CSYNs, CACKs and probes of the MTU re-emit byte for byte and keep the limits of a chunk.
pub fn mf_hop(data: &[u8]) {
    exact(data, MtuMessage::decode, MtuMessage::encode);
    if let Some(header) = front(data, |data| Ok((DataHeader::decode(data)?, DataHeader::BYTES)), DataHeader::encode) {
        assert!(header.index < header.count && header.count <= CHUNK_PACKETS_MAX);
    }
    if let Some(csyn) = exact(data, Csyn::decode, Csyn::encode) {
        assert!((1..=CHUNK_PACKETS_MAX).contains(&csyn.count));
    }
    if let Some(cack) = exact(data, Cack::decode, Cack::encode) {
        assert!(usize::from(cack.first_missing) + cack.bitmap.len() * 8 <= usize::from(CHUNK_PACKETS_MAX) + 8);
        let here = (0..CHUNK_PACKETS_MAX).filter(|index| cack.has(*index)).count();
        assert!(here <= usize::from(CHUNK_PACKETS_MAX));
    }
}

/// A chunk header re-emits byte for byte and keeps its limits.
pub fn mf_chunk(data: &[u8]) {
    let Some(header) = front(data, ChunkHeader::decode, ChunkHeader::encode) else { return };
    assert!(header.hops_left <= HOPS_MAX && header.payload_bytes <= CHUNK_BYTES_MAX);
    assert!(header.addresses.len() <= ADDRESSES_MAX && header.addresses.iter().all(|address| !address.is_none()));
    if let Some(tag) = header.tag() {
        assert!(tag.number < tag.count && (1..=CHUNK_BYTES_MAX).contains(&tag.chunk_bytes));
    }
}

/// A transport message re-emits byte for byte; runs of chunks ascend and neither touch nor overlap.
pub fn mf_transport(data: &[u8]) {
    let Some(message) = exact(data, TransportMessage::decode, TransportMessage::encode) else { return };
    let chunks = match &message {
        TransportMessage { body: TransportBody::Request { held: chunks, .. }, .. }
        | TransportMessage { body: TransportBody::Status { missing: chunks, .. }, .. }
        | TransportMessage { body: TransportBody::Ack { chunks, .. }, .. }
        | TransportMessage { body: TransportBody::Stored { chunks, .. }, .. }
        | TransportMessage { body: TransportBody::Dropped { chunks, .. }, .. }
        | TransportMessage { body: TransportBody::Push { chunks, .. }, .. }
        | TransportMessage { body: TransportBody::Custody { chunks, .. }, .. } => chunks,
        TransportMessage { body: TransportBody::Unavailable, .. }
        | TransportMessage { body: TransportBody::Unreadable { .. }, .. }
        | TransportMessage { body: TransportBody::Completed { .. }, .. }
        | TransportMessage { body: TransportBody::KeptFor { .. }, .. } => return,
    };
    assert!(chunks.runs().len() <= RANGES_MAX);
    for pair in chunks.runs().windows(2) {
        assert!(pair[0].0 + pair[0].1 < pair[1].0);
    }
}

/// Messages about names re-emit byte for byte. Records, in messages and alone, count only if they are signed by the key
/// that they contain, and any changed bit invalidates them.
pub fn mf_names(data: &[u8]) {
    match exact(data, NameMessage::decode, NameMessage::encode) {
        Some(NameMessage::Found { records, .. } | NameMessage::Page { records, .. }) => {
            assert!(records.len() <= RECORDS_MAX);
        }
        Some(NameMessage::Renew { holdings, .. }) => {
            assert!(holdings.windows(2).all(|pair| pair[0].bucket < pair[1].bucket));
        }
        Some(NameMessage::Many(all)) => assert!(!all.iter().any(|message| matches!(message, NameMessage::Many(_)))),
        _ => {}
    }
    if let Ok((head, message)) = SealedHead::decode(data) {
        let mut emitted = Vec::new();
        head.encode(&mut emitted);
        assert!(SealedHead::is_at(data) && [&emitted[..], message].concat() == data);
    }
    let Ok(record) = NameRecord::decode(data) else { return };
    assert!(record.may_be_read_by(&record.author()) && NameRecord::bytes_may_be_read_by(data, &record.author()));
    assert_eq!(record.encode(), data);
    assert!(!record.places().is_empty() && record.author() == Guid::of(&record.statement().key, &[]));
    for bit in [0, data.len() * 4, data.len() * 8 - 1] {
        let mut forged = data.to_vec();
        forged[bit / 8] ^= 1 << (bit % 8);
        assert!(NameRecord::decode(&forged).is_err(), "bit {bit} flipped");
    }
}

/// A link-state message re-emits byte for byte and unseals with its key only.
pub fn mf_link_state(data: &[u8]) {
    let Some(state) = exact(data, LinkState::decode, LinkState::encode) else { return };
    assert!(state.label.len() <= LABEL_BYTES_MAX && state.links.len() <= ADJACENCIES_MAX && state.storage_free <= 100);
    let mut sealed = data.to_vec();
    seal(&[1; 32], &mut sealed);
    assert_eq!(unseal(&[1; 32], &sealed), Ok(data));
    assert!(unseal(&[2; 32], &sealed).is_err());
}

const FACES: u32 = 3;
const MTU: u32 = 1_472;
const PEER_NONCE: u64 = 77;
/// Longer scripts find nothing that shorter ones do not, and take longer.
const STEPS_MAX: usize = 192;

/// However it is fed, a node keeps the contract of [`tributary_core::Node`], everything that it sends parses, its buffer
/// and its store keep their limits, and left alone afterwards it does not babble.
pub fn mf_node(data: &[u8]) {
    let mut input = Input::new(data);
    let mut world = World::new(input.u8());
    world.greet();
    for _ in 0..STEPS_MAX {
        let Some(step) = input.step() else { break };
        world.step(step, &mut input);
    }
    world.leave_alone();
}

struct World {
    driven: Driven<MfNode, Outputs>,
    sequence: u32,
    hop: u32,
}

/// The node's messages that the script answers.
#[derive(Default)]
struct Outputs {
    nonce: u64,
    /// Chunks to acknowledge: face, hop id, CSYN number.
    requested: Vec<(FaceId, HopId, u32)>,
    datagrams: usize,
}
impl Outlet for Outputs {
    fn transmit(&mut self, _: Time, transmit: Transmit, batch: &mut TransmitBuf) {
        for datagram in batch.drain() {
            self.datagrams += 1;
            let bytes = datagram.to_vec();
            match PacketType::of(bytes[0]).expect("what leaves is a packet") {
                PacketType::Hello => self.nonce = Hello::decode(&bytes).expect("it is a hello").nonce,
                PacketType::Mtu => drop(MtuMessage::decode(&bytes).expect("it is a probe or an answer")),
                PacketType::Cack => drop(Cack::decode(&bytes).expect("it is a CACK")),
                PacketType::Csyn => {
                    let csyn = Csyn::decode(&bytes).expect("it is a CSYN");
                    self.ask(transmit.face, csyn.hop, csyn.number);
                }
                PacketType::Data => {
                    let header = DataHeader::decode(&bytes).expect("it is data");
                    if header.index == 0 {
                        ChunkHeader::decode(&bytes[DataHeader::BYTES..]).expect("packet 0 has the header of the chunk");
                    }
                    header.csyn.into_iter().for_each(|number| self.ask(transmit.face, header.hop, number));
                }
            }
        }
    }
    fn event(&mut self, _: Time, _: Event) {}
}
impl Outputs {
    fn ask(&mut self, face: FaceId, hop: HopId, number: u32) {
        if self.requested.len() < 64 {
            self.requested.push((face, hop, number));
        }
    }
}

fn peer_key(face: FaceId) -> SigningKey {
    SigningKey::from_secret(&[100 + face.0 as u8; 32])
}
pub(crate) fn peer_guid(face: FaceId) -> Guid {
    Guid::of(&peer_key(face).public(), &[])
}

impl Ear for Outputs {
    fn datagrams(&mut self) -> usize {
        std::mem::take(&mut self.datagrams)
    }
}

impl World {
    fn new(setup: u8) -> World {
        let mut config = Config::new("fuzzed", 7);
        config.router = setup & 1 != 0;
        config.resolver = config.router && setup & 2 != 0;
        config.buffer_packets = 3_000;
        config.proxy.capacity = ByteCount(20_000);
        config.proxy.flow_capacity = ByteCount(10_000);
        config.cache_bytes = ByteCount(20_000);
        let mut world = World { driven: Driven::new(MfNode::new(config), MTU), sequence: 0, hop: 0 };
        for face in 0..FACES {
            world.driven.command(|node, now| node.add_face(now, FaceId(face), FaceOptions { mtu: MTU, rate: None }));
        }
        if setup & 4 != 0 {
            world.driven.command(|node, now| node.publish(now, Box::new(seeds::object("/lab/object", 5_000))));
        }
        if setup & 8 != 0 {
            world.driven.command(|node, now| {
                Messaging::accept(node, now, Some(Box::new(MemoryOpener::new())), &AcceptOptions::default());
            });
        }
        world
    }
    /// Two neighbours prove their identities: a router and a host.
    fn greet(&mut self) {
        for _ in 0..2 {
            for face in [FaceId(0), FaceId(1)] {
                self.hello(face);
            }
        }
    }
    fn hello(&mut self, face: FaceId) {
        self.sequence += 1;
        let key = peer_key(face);
        let is_router = face.0 == 0;
        let mut hello = Hello {
            roles: if is_router { Roles::ROUTER | Roles::RESOLVER | Roles::PROXY } else { Roles::HOST },
            accepts: true,
            sequence: self.sequence,
            probe: Probe::default(),
            nonce: PEER_NONCE,
            echo: self.driven.heard.nonce,
            address: if is_router { NetworkAddress(9) } else { NetworkAddress::NONE },
            datagram_bytes: MTU as u16,
            window: 1_000,
            key: key.public(),
            label: "peer".into(),
            wants_answer: false,
            signature: None,
        };
        hello.sign(&key);
        let mut bytes = Vec::new();
        hello.encode(&mut bytes);
        self.driven.datagram(face, bytes.into());
    }
    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        let face = FaceId(u32::from(input.u8()) % FACES);
        match step % 10 {
            0 => {
                let bytes = input.blob().to_vec();
                self.driven.datagram(face, bytes.into());
            }
            1 => self.driven.pass(Duration::from_millis(u64::from(input.u16()) % 5_000)),
            2 => self.hello(face),
            3 => {
                // Each CSYN of the node gets an answer, true or false.
                let state = [CackState::Complete, CackState::Refused, CackState::Held, CackState::Partial];
                let (state, window) = (state[usize::from(input.u8()) % 4], u32::from(input.u16()));
                for (face, hop, number) in std::mem::take(&mut self.driven.heard.requested) {
                    let bitmap = Vec::new();
                    let destination_window = window;
                    let cack = Cack {
                        state,
                        hop,
                        number,
                        window,
                        destination_window,
                        duplicates: 0,
                        marked: 0,
                        first_missing: 0,
                        bitmap,
                    };
                    let mut bytes = Vec::new();
                    cack.encode(&mut bytes);
                    self.driven.datagram(face, bytes.into());
                }
            }
            4 => self.chunk(face, ChunkKind::Transport(Token(6)), input),
            5 => self.chunk(face, ChunkKind::Names, input),
            6 => self.chunk(face, ChunkKind::LinkState, input),
            7 => {
                let tag = DataTag {
                    object: seeds::object("/lab/object", 5_000).manifest().object_id(),
                    transfer: u32::from(input.u8()) | u32::from(input.u8()) << 24,
                    token: Token(6),
                    number: u32::from(input.u8()) % 6,
                    count: 6,
                    chunk_bytes: 1_000,
                    reliability: Reliability::Nack,
                    window: u16::MAX,
                    window_chunks: 0,
                };
                self.chunk(face, ChunkKind::Data(tag), input);
            }
            8 => {
                let (to, spread) = (input.u8(), input.u8());
                let to = match to % 3 {
                    0 => Destination::Name("/lab/all".parse().expect("a name")),
                    1 => Destination::Id(peer_guid(FaceId(1)).to_string()),
                    _ => Destination::Id("nobody".into()),
                };
                let spread = [Spread::All, Spread::Nearest, Spread::AllByProxies(2)][usize::from(spread) % 3];
                let options = SendOptions { spread, ..SendOptions::default() };
                self.driven.command(|node, now| {
                    drop(Messaging::send(node, now, Box::new(seeds::object("/lab/message", 300)), &to, &options));
                });
            }
            _ => {
                let fetch = Fetch {
                    name: "/lab/other".parse().expect("a name"),
                    opener: Box::new(MemoryOpener::new()),
                    rate_limit: None,
                    paths_per_source: 1,
                    metric: PathMetric::Hops,
                    patience: Some(Duration::from_secs(5)),
                };
                self.driven.command(|node, now| {
                    node.attach(now, &"/lab/all".parse().expect("a name"));
                    node.fetch(now, fetch);
                });
            }
        }
    }
    /// A chunk of one packet with a sound header, and a payload of the script.
    fn chunk(&mut self, face: FaceId, kind: ChunkKind, input: &mut Input<'_>) {
        let (whom, service, options) = (input.u8(), input.u8(), input.u8());
        let own = self.driven.node.inner().guid();
        let whom = [own, Guid::NONE, peer_guid(FaceId(1)), peer_guid(FaceId(2)), Guid([7; 20])][usize::from(whom) % 5];
        let mut header = ChunkHeader::new(kind, peer_guid(face), whom, NetworkAddress::NONE);
        let services = [
            ServiceId::Unicast,
            ServiceId::Multicast,
            ServiceId::Anycast,
            ServiceId::Multihoming,
            ServiceId::ContentRequest,
            ServiceId::ContentResponse,
        ];
        header.service = services[usize::from(service) % services.len()];
        header.source_address = NetworkAddress(u32::from(options & 15));
        header.proxies_left = options >> 6;
        let flags = [Flags::NONE, Flags::DELEGATE, Flags::NO_PROXY, Flags::NO_CACHE, Flags::CACHED, Flags::STORED];
        header.flags = flags[usize::from(options >> 4) % flags.len()];
        if header.tag().is_some() && options & 16 != 0 {
            // A neighbour, or the node itself.
            let guid = if options & 64 != 0 { own } else { peer_guid(FaceId(0)) };
            header.custodian = Some(Custodian { guid, address: NetworkAddress(9) });
        }
        if options & 32 != 0 {
            header.addresses = vec![self.driven.node.inner().config().address, NetworkAddress(9)];
        }
        let payload = input.blob();
        let payload = &payload[..payload.len().min(1_200)];
        header.payload_bytes = payload.len() as u32;
        self.hop += 1;
        let class = if header.is_control() { Class::Control } else { Class::Bulk };
        let mut bytes = Vec::new();
        DataHeader { index: 0, count: 1, hop: HopId(self.hop), csyn: Some(self.hop), class }.encode(&mut bytes);
        header.encode(&mut bytes);
        bytes.extend_from_slice(payload);
        self.driven.datagram(face, bytes.into());
    }
    fn leave_alone(&mut self) {
        self.driven.leave_alone(10);
        let node = self.driven.node.inner();
        if let Some(proxy) = node.proxy() {
            let (used, capacity) = proxy.usage();
            assert!(used <= capacity, "{used} of {capacity}");
        }
    }
}

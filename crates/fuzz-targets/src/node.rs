//! A complete PSI node in any mix of roles, between arbitrary neighbours that know its secrets.
use bytes::Bytes;
use std::sync::OnceLock;
use tributary_content::{ChunkIndex, MemoryOpener, Name, ObjectId, ObjectReader};
use tributary_core::{
    ByteCount, Datagram, Duration, FaceId, NodeId, Outlet, Rate, Time, TransferId, Transmit, TransmitBuf, event::Event,
};
use tributary_psi::{
    Config, PsiNode,
    capability::CapabilityKey,
    ids::Roles,
    router::labels::{LabelKey, Port},
    wire::{
        Answer, Beacon, BitmapNumbers, ControlBody, ControlPacket, DataHeader, Fid, FidKind, Header, Heard, Hello,
        LinkState, ManagerState, Message, MessageKey, Offer, OfferVersion, PacketType, PathOffer, Rejection, Reply,
        Request, ResolverRoute, Routes, Secrecy, SharedLink, StreamKey, TTL_MAX, Wire, seal, unseal,
    },
};
use tributary_transport::{Endpoint, FaceOptions, Fetch, PathMetric};

use crate::{
    driven::{Driven, Ear},
    input::Input,
    seeds,
};

const NETWORK_KEY: [u8; 32] = [0; 32];
const PEER: NodeId = NodeId(0x50);
const FACES: u32 = 4;
const MTU: u32 = 1_472;
const OBJECT_NAME: &str = "/lab/object";
const OBJECT_BYTES: usize = 5_000;
/// Senders of messages: the topology manager and, of the seeds, a router, a rendezvous node and a publisher.
const SENDERS: [NodeId; 4] = [PEER, NodeId(2), NodeId(4), NodeId(5)];

/// However it is fed, a node
///
/// - keeps the contract of [`tributary_core::Node`]: it does not spin, every packet fits the MTU, timers that were
///   served are not due again;
/// - answers one packet with a bounded number of packets;
/// - serves no request without a valid capability, and none while it has no key to disclose;
/// - left alone afterwards, it neither babbles nor stops.
pub fn psi_node(data: &[u8]) {
    play(data).driven.leave_alone(20);
}
fn play(data: &[u8]) -> World {
    let mut input = Input::new(data);
    let mut world = World::new(input.u8());
    world.greet();
    for _ in 0..STEPS_MAX {
        let Some(step) = input.step() else { break };
        world.step(step, &mut input);
    }
    world
}

/// Longer scripts find nothing that shorter ones do not, and take longer.
const STEPS_MAX: usize = 256;

/// What neighbours and topology managers know of the node, and others do not.
struct Secrets {
    labels: LabelKey,
    /// By face, of those that are attached.
    nonces: Vec<u64>,
}

impl Secrets {
    fn nonce(&self, face: FaceId) -> u64 {
        self.nonces.get(face.0 as usize).copied().unwrap_or_default()
    }
}

/// Learnt as a topology manager learns it: the node sends its link state to the sender of a beacon.
fn secrets() -> &'static Secrets {
    static SECRETS: OnceLock<Secrets> = OnceLock::new();
    SECRETS.get_or_init(|| {
        let mut world = World::bare(0);
        let learn = |face: u32| {
            let first = hello(FaceId(face), None, 1);
            world.driven.heard.hello = None;
            world.sealed(FaceId(face), PacketType::Hello, |out| first.encode(out));
            world.driven.heard.hello.as_ref().expect("a hello is answered").nonce
        };
        let nonces: Vec<u64> = (0..FACES - 1).map(learn).collect();
        let heard = hello(FaceId(0), Some(nonces[0]), 2);
        world.sealed(FaceId(0), PacketType::Hello, |out| heard.encode(out));
        world.sealed(FaceId(0), PacketType::Beacon, |out| beacon(1).encode(out));
        world.driven.pass(Duration::from_millis(100));
        let state = world.driven.heard.link_state.as_ref().expect("a topology manager is told the links");
        Secrets { labels: LabelKey::new(&state.secret), nonces }
    })
}

fn hello(face: FaceId, heard: Option<u64>, sent_us: u64) -> Hello {
    let heard =
        heard.map(|nonce| Heard { node: config(0).node, nonce, face, echo_us: 1, age_us: 0, received_bytes_max: MTU });
    Hello {
        node: NodeId(PEER.0 + u64::from(face.0)),
        nonce: 1,
        face: FaceId(9),
        roles: Roles::ROUTER,
        label: "peer".into(),
        sent_us,
        heard,
        padding_bytes: 0,
    }
}
fn beacon(sequence: u32) -> Beacon {
    Beacon {
        node: PEER,
        boot: 1,
        sequence,
        term: 1,
        state: ManagerState::Active,
        priority: 255,
        capability_epoch: 1,
        label: "manager".into(),
        to_manager: [[1; 4]].into(),
        from_manager: [[2; 4]].into(),
    }
}
fn config(setup: u8) -> Config {
    let mut config = Config::new("fuzzed", 7);
    config.router = setup & 1 != 0;
    config.resolver = setup & 2 != 0;
    config.topology_manager = (setup & 4 != 0).then_some(setup);
    config.cache_bytes = ByteCount(32_768);
    config
}
fn object_name() -> Name {
    OBJECT_NAME.parse().expect("a name")
}
fn object() -> &'static tributary_content::MemoryObject {
    static OBJECT: OnceLock<tributary_content::MemoryObject> = OnceLock::new();
    OBJECT.get_or_init(|| seeds::object(OBJECT_NAME, OBJECT_BYTES))
}

struct World {
    driven: Driven<PsiNode, Outputs>,
    hellos: u64,
    beacons: u32,
    messages: u32,
    offers: u32,
    transfer: Option<TransferId>,
}

/// The node's messages that the script answers.
#[derive(Default)]
struct Outputs {
    hello: Option<Hello>,
    link_state: Option<LinkState>,
    /// Unacknowledged fragments: destination, message, index, count.
    fragments: Vec<(NodeId, u32, u32, u8)>,
    requests: Vec<Request>,
    /// Control messages that wait for a reply: destination and number.
    requested: Vec<(NodeId, u32)>,
    datagrams: usize,
    data: usize,
}

impl Outlet for Outputs {
    fn transmit(&mut self, _: Time, transmit: Transmit, batch: &mut TransmitBuf) {
        assert!(transmit.face.0 <= FACES, "nobody ever used {}", transmit.face);
        for datagram in batch.drain() {
            self.datagrams += 1;
            let bytes = datagram.to_vec();
            let header = Header::decode(&bytes).expect("what leaves is a packet");
            let body = &bytes[header.len()..];
            match header.packet_type {
                PacketType::Hello => {
                    let body = unseal(&NETWORK_KEY, body).expect("it was sealed");
                    self.hello = Some(Hello::decode(body).expect("it is a hello"));
                }
                PacketType::Beacon => {
                    Beacon::decode(unseal(&NETWORK_KEY, body).expect("it was sealed")).expect("it is a beacon");
                }
                PacketType::Control => self.on_control(body),
                PacketType::Request => {
                    if let Ok(request) = Request::decode(body)
                        && self.requests.len() < 64
                    {
                        self.requests.push(request);
                    }
                }
                PacketType::Data => self.data += 1,
            }
        }
    }
    fn event(&mut self, _: Time, _: Event) {}
}
impl Outputs {
    fn on_control(&mut self, body: &[u8]) {
        // A forwarder passes on packets whether or not others have sealed them.
        let Ok(body) = unseal(&NETWORK_KEY, body) else { return };
        let Ok(packet) = ControlPacket::decode(body) else { return };
        if let ControlBody::Fragment { count, payload, .. } = packet.body {
            let key = MessageKey { from: packet.from, boot: packet.boot, message: packet.message };
            let Ok(message) = Secrecy::new(&NETWORK_KEY).reveal(&key.context(packet.to), payload) else { return };
            let payload = &message[..];
            let number = match Message::decode(payload) {
                Ok(Message::LinkState(state)) => {
                    self.link_state = Some(state);
                    None
                }
                Ok(Message::Request(request)) => Some(request.request),
                Ok(Message::Forward(forward)) => Some(forward.request),
                Ok(Message::Replicate(replicate)) => Some(replicate.request),
                Ok(Message::Sync { request }) => Some(request),
                _ => None,
            };
            if self.requested.len() < 64 {
                self.requested.extend(number.map(|number| (packet.to, number)));
            }
            if self.fragments.len() < 64 {
                self.fragments.push((packet.to, packet.boot, packet.message, count));
            }
        }
    }
}

impl Ear for Outputs {
    fn datagrams(&mut self) -> usize {
        std::mem::take(&mut self.datagrams)
    }
}

impl World {
    fn new(setup: u8) -> World {
        secrets();
        World::bare(setup)
    }
    fn bare(setup: u8) -> World {
        let mut world = World {
            driven: Driven::new(PsiNode::new(config(setup)), MTU),
            hellos: 2,
            beacons: 1,
            messages: 0,
            offers: 0,
            transfer: None,
        };
        for face in 0..FACES - 1 {
            world.driven.command(|node, now| node.add_face(now, FaceId(face), FaceOptions { mtu: MTU, rate: None }));
        }
        if setup & 8 != 0 {
            world.driven.command(|node, now| node.publish(now, Box::new(object().clone())));
        }
        world
    }
    /// Brings two faces up, and makes one of the neighbours the topology manager.
    fn greet(&mut self) {
        for face in [FaceId(0), FaceId(1)] {
            let hello = hello(face, Some(secrets().nonce(face)), 1);
            self.sealed(face, PacketType::Hello, |out| hello.encode(out));
        }
        self.sealed(FaceId(0), PacketType::Beacon, |out| beacon(1).encode(out));
    }

    /// An FID of kind list: bits 0 to 3 of `mask` are faces, bit 4 is the node itself.
    fn fid(mask: u8) -> Fid {
        let ports = (0..FACES).map(|face| Port::Face(FaceId(face))).chain([Port::Local]).enumerate();
        let labels = ports.filter(|(i, _)| mask >> i & 1 == 1).flat_map(|(_, port)| secrets().labels.list(port));
        Fid::new(FidKind::List, 0, &labels.collect::<Vec<u8>>())
    }
    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        let face = FaceId(u32::from(input.u8()) % FACES);
        match step % 14 {
            0 => self.driven.datagram(face, input.blob().into()),
            1 => {
                let types = [PacketType::Control, PacketType::Request, PacketType::Data, PacketType::Hello];
                let packet_type = types[usize::from(input.u8() % 4)];
                let header =
                    Header { packet_type, flags: input.u8() & 7, ttl: input.u8() % 65, fid: Self::fid(input.u8()) };
                let mut bytes = Vec::new();
                header.encode(&mut bytes);
                bytes.extend_from_slice(input.blob());
                self.driven.datagram(face, bytes.into());
            }
            // A message in one piece, as the script has it.
            2 => {
                let from = SENDERS[usize::from(input.u8() % 4)];
                self.message(face, from, input.blob());
            }
            // A valid message with up to four changed bytes.
            3 => {
                let from = SENDERS[usize::from(input.u8() % 4)];
                let messages = sample_messages();
                let mut bytes = messages[usize::from(input.u8()) % messages.len()].clone();
                change(&mut bytes, input);
                self.message(face, from, &bytes);
            }
            4 => self.request(face, input),
            5 => {
                let mut body = Vec::new();
                if input.u8() & 1 == 0 {
                    self.hellos += 1;
                    hello(face, Some(secrets().nonce(face)), self.hellos).encode(&mut body);
                    change(&mut body, input);
                    self.sealed(face, PacketType::Hello, |out| out.extend_from_slice(&body));
                } else {
                    self.beacons += 1;
                    beacon(self.beacons).encode(&mut body);
                    change(&mut body, input);
                    self.sealed(face, PacketType::Beacon, |out| out.extend_from_slice(&body));
                }
            }
            6 | 7 => {
                self.driven.pass(Duration::from_millis(u64::from(input.u8()) * if step % 14 == 6 { 1 } else { 40 }))
            }
            8 => self.obey(face, input),
            9 => self.acknowledge(face, input.u8()),
            10 => self.offer(face, input),
            11 => self.answer(face, input),
            12 => self.reply(face, input),
            _ => self.domain(face, input),
        }
    }
    /// A request for the object of this node.
    fn request(&mut self, face: FaceId, input: &mut Input<'_>) {
        let object = if input.u8() == 255 { ObjectId([1; 16]) } else { object().manifest().object_id() };
        let packet_bytes = 1 + input.u16() % 2_000;
        let count = 1 + usize::from(input.u8() % 4);
        let ranges = (0..count).map(|_| (input.u32(), 1 + input.u8() % 16)).collect();
        let request = Request {
            tag: input.u32(),
            object,
            packet_bytes,
            capability: input.u64().to_be_bytes(),
            forward: Self::fid(input.u8()),
            ranges,
        };
        let mut bytes = Vec::new();
        let fid = Self::fid(input.u8());
        Header { packet_type: PacketType::Request, flags: 0, ttl: 9, fid }.encode(&mut bytes);
        request.encode(&mut bytes);
        self.driven.heard.data = 0;
        self.driven.datagram(face, bytes.into());
        assert_eq!(self.driven.heard.data, 0, "served without a capability");
    }
    /// A command of a person.
    fn obey(&mut self, face: FaceId, input: &mut Input<'_>) {
        let number = input.u8();
        let name = if number & 0x80 == 0 { object_name() } else { "/lab/other/x".parse().expect("a name") };
        match number % 9 {
            0 => self.driven.command(|node, now| node.publish(now, Box::new(object().clone()))),
            1 => self.driven.command(|node, now| node.unpublish(now, &name)),
            2 => {
                let fetch = Fetch {
                    name,
                    opener: Box::new(MemoryOpener::new()),
                    rate_limit: (number & 0x40 != 0).then(|| Rate::from_mbps(1)),
                    paths_per_source: 1 + number % 16,
                    metric: PathMetric::Hops,
                    patience: (number & 0x20 != 0).then(|| Duration::from_secs(5)),
                };
                let mut transfer = TransferId(0);
                self.driven.command(|node, now| transfer = node.fetch(now, fetch));
                self.transfer = Some(transfer);
            }
            3 => {
                if let Some(transfer) = self.transfer {
                    self.driven.command(|node, now| node.cancel(now, transfer));
                }
            }
            4 => self.driven.command(|node, now| node.watch(now, &name.parent().expect("it has a parent"))),
            5 => self.driven.command(|node, now| node.unwatch(now, &name.parent().expect("it has a parent"))),
            6 => {
                let (transfer, rate) = (self.transfer, Rate::from_bits_per_second(input.u32().into()));
                self.driven.command(|node, now| node.limit(now, transfer, (number & 0x40 != 0).then_some(rate)));
            }
            7 => self.driven.command(|node, now| node.add_face(now, face, FaceOptions { mtu: MTU, rate: None })),
            _ => self.driven.command(|node, now| node.remove_face(now, face)),
        }
    }
    /// Acknowledges the node's messages.
    fn acknowledge(&mut self, face: FaceId, some: u8) {
        for (to, boot, message, count) in std::mem::take(&mut self.driven.heard.fragments) {
            let received = (u128::MAX >> (128 - u32::from(count))) & !u128::from(some);
            let body = ControlBody::Ack { received };
            let node = self.driven.node.inner().config().node;
            let mut bytes = Vec::new();
            ControlPacket { from: to, to: node, boot, message, body }.encode(&mut bytes);
            self.control(face, bytes);
        }
    }
    /// Replies to the node's questions in control messages.
    fn reply(&mut self, face: FaceId, input: &mut Input<'_>) {
        let (number, detail) = (input.u8(), input.u8());
        let answer = match number % 4 {
            0 => Answer::Done { replicas: detail },
            1 => {
                let rejections: Vec<Rejection> = Rejection::all().collect();
                Answer::Rejected(rejections[usize::from(detail) % rejections.len()])
            }
            2 => Answer::Stale { current: if number & 0x80 == 0 { detail.into() } else { u64::MAX >> 1 } },
            _ => Answer::NotReady,
        };
        for (from, request) in std::mem::take(&mut self.driven.heard.requested) {
            let mut bytes = Vec::new();
            Message::Reply(Reply { request, answer }).encode(&mut bytes);
            self.message(face, from, &bytes);
        }
    }
    /// Sends the node the routes to rendezvous nodes and, on request, keys.
    fn domain(&mut self, face: FaceId, input: &mut Input<'_>) {
        let (some, keys) = (input.u8(), input.u8());
        let resolvers = [SENDERS[0], SENDERS[1], SENDERS[2], self.driven.node.inner().config().node];
        let resolvers = resolvers.into_iter().enumerate().filter(|(i, _)| some >> i & 1 == 1);
        let resolvers = resolvers.map(|(i, node)| ResolverRoute {
            node,
            boot: 1,
            label: "resolver".into(),
            to: Self::fid(1 << (i % 2)),
            back: Self::fid(16),
            key: None,
        });
        self.offers += 1;
        let routes = Routes {
            manager: PEER,
            term: 1,
            sequence: self.offers,
            resolvers: resolvers.collect(),
            bitmap: BitmapNumbers { epoch: 1, local: Some(9), faces: vec![(FaceId(0), 1), (FaceId(1), 2)] },
            keys: (0..u32::from(keys % 3)).map(|epoch| CapabilityKey::derive(&[9; 32], epoch)).collect(),
        };
        let mut bytes = Vec::new();
        Message::Routes(routes).encode(&mut bytes);
        self.message(face, PEER, &bytes);
    }
    /// Offers one or two paths to the object for the fetch that runs.
    fn offer(&mut self, face: FaceId, input: &mut Input<'_>) {
        let Some(transfer) = self.transfer else { return };
        self.offers += 1;
        let mut path = |id| PathOffer {
            id,
            reverse: Self::fid(1 << (id % 2)),
            forward: Self::fid(16),
            capability: [3; 8],
            hops: 2,
            mtu: if input.u8() == 0 { MTU } else { input.u16().into() },
            latency_us: input.u16().into(),
            capacity_kbps: 1_000,
            residual_kbps: 500,
            shared_links: vec![SharedLink { number: input.u8().into(), residual_kbps: 500 }],
            label: "fuzzed>peer".into(),
        };
        let paths = vec![path(0), path(1)];
        let mut manifest = object().manifest().encode();
        let count = 1 + input.u8() % 2;
        if input.u8() == 1 {
            change(&mut manifest, input);
        }
        let offer = Offer {
            transfer: transfer.0,
            version: OfferVersion { term: 1, sequence: self.offers },
            index: input.u8() % count,
            count,
            source: NodeId(PEER.0 + u64::from(input.u8() % 2)),
            source_label: "peer".into(),
            manifest,
            fid_room: input.u8() % 97,
            paths,
        };
        let mut bytes = Vec::new();
        Message::Offer(offer).encode(&mut bytes);
        self.message(face, PEER, &bytes);
    }
    /// Answers the requests that the node sent, with the requested content or with something else.
    fn answer(&mut self, face: FaceId, input: &mut Input<'_>) {
        let (lie, skip) = (input.u8(), input.u8());
        for request in std::mem::take(&mut self.driven.heard.requests) {
            let layout = tributary_transport::layout::Layout::exact(object().manifest(), request.packet_bytes);
            let packets = request.ranges.iter().flat_map(|(first, count)| *first..*first + u32::from(*count));
            for packet in packets.filter(|packet| u32::from(skip) & (1 << (packet % 8)) == 0) {
                let located = layout.as_ref().and_then(|layout| layout.locate(packet));
                let payload = located.map(|(unit, offset, len)| {
                    let complete = match tributary_transport::layout::Layout::chunk_of(unit) {
                        None => object().tree(),
                        Some(ChunkIndex(index)) => {
                            object().clone().read_chunk(ChunkIndex(index)).expect("it has all of its chunks")
                        }
                    };
                    complete.slice(offset as usize..(offset + len) as usize)
                });
                let mut payload = payload.unwrap_or_default().to_vec();
                match lie % 8 {
                    5 => payload.truncate(usize::from(lie)),
                    6 => payload.resize(payload.len() + 9, 1),
                    7 => payload.iter_mut().for_each(|byte| *byte ^= 1),
                    _ => {}
                }
                let stream = StreamKey::new(&request.object, request.packet_bytes);
                let data = DataHeader { tag: request.tag, packet, stream, origin: lie.into() };
                let mut head = Vec::new();
                let flags = lie >> 7 << 1;
                Header { packet_type: PacketType::Data, flags, ttl: 3, fid: Self::fid(16) }.encode(&mut head);
                data.encode(&mut head);
                self.driven.datagram(face, Datagram::new(&head, Bytes::from(payload)));
            }
        }
    }
    fn message(&mut self, face: FaceId, from: NodeId, message: &[u8]) {
        self.messages += 1;
        let reply = Self::fid(1 << (face.0 % 2));
        let node = self.driven.node.inner().config().node;
        let key = MessageKey { from, boot: 1, message: self.messages };
        let hidden = Secrecy::new(&NETWORK_KEY).hide(&key.context(node), message);
        let body = ControlBody::Fragment { index: 0, count: 1, reply, payload: &hidden };
        let mut bytes = Vec::new();
        ControlPacket { from, to: node, boot: 1, message: self.messages, body }.encode(&mut bytes);
        self.control(face, bytes);
    }
    fn control(&mut self, face: FaceId, mut body: Vec<u8>) {
        let mut bytes = Vec::new();
        Header { packet_type: PacketType::Control, flags: 0, ttl: 3, fid: Self::fid(16) }.encode(&mut bytes);
        seal(&NETWORK_KEY, &mut body, 0);
        bytes.extend_from_slice(&body);
        self.driven.datagram(face, bytes.into());
    }
    fn sealed(&mut self, face: FaceId, packet_type: PacketType, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        Header { packet_type, flags: 0, ttl: TTL_MAX, fid: Fid::NONE }.encode(&mut bytes);
        let start = bytes.len();
        encode(&mut bytes);
        seal(&NETWORK_KEY, &mut bytes, start);
        self.driven.datagram(face, bytes.into());
    }
}

/// Changes up to four runs of up to eight bytes of something that was right.
fn change(bytes: &mut [u8], input: &mut Input<'_>) {
    for _ in 0..input.u8() % 5 {
        let (at, length, value) = (usize::from(input.u16()), 1 + usize::from(input.u8() % 8), input.u8());
        bytes.iter_mut().skip(at).take(length).for_each(|byte| *byte = value);
    }
}
/// The messages of the seeds, encoded.
fn sample_messages() -> &'static [Vec<u8>] {
    static MESSAGES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    MESSAGES.get_or_init(|| {
        seeds::all().into_iter().filter(|(target, ..)| *target == "message").map(|(.., bytes)| bytes).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play_seed(name: &str) -> World {
        let seed = seeds::all().into_iter().find(|(target, seed, _)| *target == "psi_node" && seed == name);
        play(&seed.expect("there is such a seed").2)
    }

    #[test]
    fn the_script_of_a_fetch_moves_the_object() {
        let world = play_seed("seed-fetch");
        let transfer = world.transfer.expect("a fetch was asked for");
        let report = world.driven.node.inner().report(world.driven.now, transfer).expect("it is known");
        assert_eq!(report.stored_bytes, OBJECT_BYTES as u64, "{report:?}");
    }

    #[test]
    fn the_script_of_a_service_asks_before_and_after_there_are_keys() {
        let world = play_seed("seed-serve");
        let counters = world.driven.node.inner().status(world.driven.now).counters;
        for reason in ["no key to verify the capability", "capability not valid"] {
            assert!(counters.get(reason).is_some_and(|count| *count > 0), "{reason}: {counters:?}");
        }
    }

    #[test]
    fn the_script_of_a_resolver_makes_it_ask_others() {
        let world = play_seed("seed-resolve");
        // One for the routes, 14 of the script; the others are replies.
        assert!(world.messages > 20, "{:?}", world.driven.node.inner().status(world.driven.now));
    }
}

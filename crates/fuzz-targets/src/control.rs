//! The control channel and the neighbour protocol under input that a member of the domain could send.
use std::collections::BTreeSet;
use tributary_core::{Datagram, Duration, FaceId, NodeId, Time};
use tributary_psi::{
    control::{ControlChannel, ControlConfig, MessageNumber, PACKET_BYTES},
    ids::Roles,
    router::neighbour::{Neighbour, NeighbourConfig},
    wire::{
        Beacon, ControlBody, ControlPacket, FID_BYTES_MAX, Fid, FidKind, Header, Heard, Hello, ManagerState, Message,
        MessageKey, PacketType, Routes, Secrecy, TTL_MAX, Wire, seal,
    },
};
use tributary_transport::FaceOptions;

use crate::input::Input;

const KEY: [u8; 32] = [0; 32];
const NODE: NodeId = NodeId(1);
const BOOT: u32 = 77;

/// However it is fed, a control channel
///
/// - delivers each message once;
/// - sends no more than one acknowledgement per received packet, no packet beyond its size, and repeats a message no
///   more often than configured;
/// - reports the outcome of every message of this node, and of no other;
/// - requests no timeout that it has already served.
pub fn control_channel(data: &[u8]) {
    let mut input = Input::new(data);
    let config = ControlConfig { partials_max: 4, partial_bytes_max: 4_096, messages_max: 6, ..Default::default() };
    let mut world = Channel {
        channel: ControlChannel::new(config, NODE, BOOT),
        now: Time::from_millis(1_000),
        waiting: BTreeSet::new(),
        delivered: BTreeSet::new(),
        fragments: 0,
    };
    while let Some(step) = input.step() {
        world.step(step, &mut input);
    }
    // Left alone, it gives everything up.
    for _ in 0..2_000 {
        let Some(due) = world.channel.poll_timeout() else { break };
        world.pass(due.since(world.now));
    }
    assert!(world.waiting.is_empty(), "the fate of every message is told: {:?}", world.waiting);
    assert_eq!(world.channel.poll_timeout(), None, "nothing is left to wait for");
}

struct Channel {
    channel: ControlChannel,
    now: Time,
    waiting: BTreeSet<MessageNumber>,
    /// Fragment counts differ, so one key may be complete once, and only once, for each of them.
    delivered: BTreeSet<(NodeId, u32)>,
    fragments: u64,
}

impl Channel {
    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        match step % 6 {
            0 => self.packet(input.blob(), 0),
            1 => {
                let mut bytes = input.blob().to_vec();
                seal(&KEY, &mut bytes, 0);
                self.packet(&bytes, 0);
            }
            // A fragment of a message.
            2 => {
                let (from, message) = (NodeId(2 + u64::from(input.u8() % 8)), input.u8().into());
                let count = 1 + input.u8() % 128;
                let index = input.u8() % count;
                let reply = if input.u8() & 1 == 0 { Fid::NONE } else { Fid::new(FidKind::List, 0, &[1; 96]) };
                let key = MessageKey { from, boot: 5, message };
                let content = input.blob();
                // A message in one packet is encrypted; of a fragment the rest is missing anyway.
                let complete = (count == 1).then(|| Secrecy::new(&KEY).hide(&key.context(NODE), content));
                let body =
                    ControlBody::Fragment { index, count, reply, payload: complete.as_deref().unwrap_or(content) };
                // The content contains the message's number, so that a second delivery is noticed.
                self.sealed(&ControlPacket { from, to: NODE, boot: 5, message, body }, message + 1);
            }
            // An acknowledgement of a message that may have been sent.
            3 => {
                let received = u128::from(input.u64()) << 64 | u128::from(input.u64());
                let body = ControlBody::Ack { received };
                let (from, message) = (NodeId(2 + u64::from(input.u8() % 8)), input.u8().into());
                let boot = if input.u8() == 0 { 1 } else { BOOT };
                self.sealed(&ControlPacket { from, to: NODE, boot, message, body }, 0);
            }
            4 => {
                let message = Message::decode(input.blob()).unwrap_or(Message::Sync { request: 7 });
                let to = NodeId(1 + u64::from(input.u8() % 9));
                let (route, reply) = (Fid::new(FidKind::List, 0, &[2; 96]), Fid::new(FidKind::List, 0, &[3; 96]));
                let number = self.channel.send(self.now, to, route, reply, &message);
                assert!(self.waiting.insert(number), "each message has its own number");
                if input.u8() == 1 {
                    self.channel.reroute(to, reply, route);
                }
                if input.u8() == 1 {
                    self.channel.abandon(to);
                }
                self.settle(0, 0);
            }
            _ => self.pass(Duration::from_millis(input.u16().into())),
        }
    }
    fn sealed(&mut self, packet: &ControlPacket<'_>, number: u32) {
        let mut bytes = Vec::new();
        packet.encode(&mut bytes);
        seal(&KEY, &mut bytes, 0);
        self.packet(&bytes, number);
    }
    fn packet(&mut self, bytes: &[u8], number: u32) {
        if let Err(reason) = self.channel.handle_packet(self.now, FaceId(0), bytes) {
            assert!(!reason.is_empty());
        }
        self.settle(1, number);
    }
    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.channel.handle_timeout(self.now);
        self.settle(0, 0);
        assert!(self.channel.poll_timeout().is_none_or(|due| due > self.now), "a served timer is due again");
    }
    fn settle(&mut self, packets: usize, number: u32) {
        while let Some(delivery) = self.channel.poll_delivery() {
            if delivery.from != NODE && number > 0 {
                assert!(self.delivered.insert((delivery.from, number)), "delivered twice: {delivery:?}");
            }
        }
        let mut acks = 0;
        while let Some((fid, bytes)) = self.channel.poll_packet(self.now) {
            assert!(3 + fid.encoded_len() + bytes.len() <= PACKET_BYTES);
            let body = tributary_psi::wire::unseal(&KEY, &bytes).expect("it was sealed");
            match ControlPacket::decode(body).expect("it is a packet").body {
                ControlBody::Ack { .. } => acks += 1,
                ControlBody::Fragment { .. } => self.fragments += 1,
                ControlBody::Introduction { .. } => panic!("without an authority there is nothing to show"),
            }
        }
        assert!(acks <= packets, "{acks} acknowledgements for {packets} packets");
        while let Some(outcome) = self.channel.poll_outcome() {
            assert!(self.waiting.remove(&outcome.number), "a fate of nothing: {outcome:?}");
        }
        let stats = self.channel.stats();
        assert_eq!(stats.fragments_sent, self.fragments);
        assert!(stats.fragments_repeated <= stats.fragments_sent && stats.fragments_sent < 1 << 32);
    }
}

const FACES: u32 = 4;
const NEIGHBOUR_BOOT: u64 = 0xabcd;

/// However it is fed, the neighbour protocol
///
/// - answers a packet with few packets, each within the face's MTU, and with no more bytes than it got (plus one hello)
///   while the other end has not shown that it hears this node;
/// - reports faces going up and down alternately, and only its own faces;
/// - remembers no more topology managers than configured, each with routes that fit an FID;
/// - requests no timeout that it has already served.
pub fn neighbour(data: &[u8]) {
    let mut input = Input::new(data);
    let roles = Roles::ROUTER;
    let config = NeighbourConfig {
        managers_max: 3,
        faces_max: FACES as usize,
        ..NeighbourConfig::new(NODE, "fuzzed", roles, NEIGHBOUR_BOOT, [3; 16])
    };
    let mut world = Greeter { neighbour: Neighbour::new(config), now: Time::from_millis(1_000), up: BTreeSet::new() };
    for face in 0..FACES - 1 {
        assert!(world.neighbour.add_face(world.now, FaceId(face), FaceOptions { mtu: 9_000, rate: None }));
    }
    world.settle(None);
    while let Some(step) = input.step() {
        world.step(step, &mut input);
    }
}

struct Greeter {
    neighbour: Neighbour,
    now: Time,
    up: BTreeSet<FaceId>,
}

impl Greeter {
    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        let face = FaceId(u32::from(input.u8()) % (FACES + 1));
        match step % 8 {
            0 => self.datagram(face, input.blob()),
            1 => {
                let packet_type = if input.u8() & 1 == 0 { PacketType::Hello } else { PacketType::Beacon };
                self.sealed(face, packet_type, input.blob().to_vec());
            }
            2 | 3 => {
                let own = step % 8 == 3;
                let heard = Heard {
                    node: if own { NODE } else { NodeId(input.u64()) },
                    nonce: if own { NEIGHBOUR_BOOT } else { input.u64() },
                    face: if own { face } else { FaceId(input.u32()) },
                    echo_us: input.u32().into(),
                    age_us: input.u16().into(),
                    received_bytes_max: input.u32(),
                };
                let hello = Hello {
                    node: NodeId(1 + u64::from(input.u8() % 4)),
                    nonce: u64::from(input.u8() % 3),
                    face: FaceId(u32::from(input.u8() % 2)),
                    roles: Roles::NONE,
                    label: "other".into(),
                    sent_us: input.u32().into(),
                    heard: (input.u8() != 0).then_some(heard),
                    padding_bytes: input.u16() % 2_000,
                };
                let mut body = Vec::new();
                hello.encode(&mut body);
                self.sealed(face, PacketType::Hello, body);
            }
            4 => {
                let mut label = |_| [input.u8(); 4];
                let labels: Vec<[u8; 4]> = (0..2).map(&mut label).collect();
                let beacon = Beacon {
                    node: NodeId(1 + u64::from(input.u8() % 8)),
                    boot: u64::from(input.u8() % 3),
                    sequence: input.u16().into(),
                    term: input.u32(),
                    state: if input.u8() & 1 == 0 { ManagerState::Standby } else { ManagerState::Active },
                    priority: input.u8(),
                    capability_epoch: input.u32(),
                    label: "manager".into(),
                    to_manager: labels.repeat(usize::from(input.u8() % 13)),
                    from_manager: labels.repeat(usize::from(input.u8() % 13)),
                };
                let mut body = Vec::new();
                beacon.encode(&mut body);
                self.sealed(face, PacketType::Beacon, body);
            }
            5 => {
                self.now += Duration::from_millis(input.u16().into());
                self.neighbour.handle_timeout(self.now);
                self.settle(None);
                assert!(self.neighbour.poll_timeout().is_none_or(|due| due > self.now), "a served timer is due again");
            }
            6 => {
                match input.u8() % 3 {
                    0 => self.neighbour.remove_face(self.now, face),
                    1 => {
                        self.neighbour.add_face(self.now, face, FaceOptions { mtu: 9_000, rate: None });
                    }
                    _ => self.neighbour.set_used(self.now, face, input.u32()),
                }
                self.settle(None);
            }
            _ => {
                if let Ok(routes) = Routes::decode(input.blob()) {
                    self.neighbour.handle_routes(&routes);
                }
                self.neighbour.handle_other_version(face, input.u8());
                self.settle(None);
            }
        }
    }
    fn sealed(&mut self, face: FaceId, packet_type: PacketType, body: Vec<u8>) {
        let mut bytes = Vec::new();
        Header { packet_type, flags: 0, ttl: TTL_MAX, fid: Fid::NONE }.encode(&mut bytes);
        let start = bytes.len();
        bytes.extend_from_slice(&body);
        seal(&KEY, &mut bytes, start);
        self.datagram(face, &bytes);
    }
    fn datagram(&mut self, face: FaceId, bytes: &[u8]) {
        self.neighbour.handle_datagram(self.now, face, &Datagram::from(bytes));
        self.settle(Some((face, bytes.len())));
    }
    fn settle(&mut self, arrived: Option<(FaceId, usize)>) {
        let was_up = self.up.clone();
        while let Some((face, up)) = self.neighbour.poll_face() {
            let changes = if up { self.up.insert(face) } else { self.up.remove(&face) };
            assert!(changes && face.0 <= FACES, "{face} is up: {up}, again");
        }
        for face in (0..=FACES).map(FaceId) {
            assert_eq!(self.neighbour.is_up(face), self.up.contains(&face));
        }
        let (mut packets, mut bytes_out) = (0, 0);
        while let Some((face, bytes)) = self.neighbour.poll_packet() {
            packets += 1;
            bytes_out += bytes.len();
            assert!(bytes.len() <= 9_000 && face.0 <= FACES);
            let header = Header::decode(&bytes).expect("it is a packet");
            assert!(matches!(header.packet_type, PacketType::Hello | PacketType::Beacon));
        }
        if let Some((face, bytes_in)) = arrived {
            // Greetings, probes, and a beacon per manager and face.
            assert!(packets <= 8 + 4 * FACES as usize, "{packets} packets for one");
            if !was_up.contains(&face) && !self.up.contains(&face) {
                assert!(bytes_out <= bytes_in + 200, "{bytes_out} bytes for {bytes_in} of somebody unproven");
            }
        }
        let managers = self.neighbour.managers();
        assert!(managers.len() <= 3);
        for manager in managers {
            assert!(manager.to.bytes().len() <= FID_BYTES_MAX && manager.back.bytes().len() <= FID_BYTES_MAX);
        }
        assert!(self.neighbour.neighbours().len() <= FACES as usize);
        if let Some(state) = self.neighbour.poll_link_state() {
            assert!(state.adjacencies.len() <= FACES as usize);
        }
        while self.neighbour.poll_beacon().is_some() {}
        let mut events = 0;
        while self.neighbour.poll_event().is_some() {
            events += 1;
            assert!(events < 64, "babbles");
        }
    }
}

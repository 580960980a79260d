//! Packets of the NDN family, and a complete node.
use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use tributary::Family;
use tributary_content::{MemoryObject, MemoryOpener, Name};
use tributary_core::{Datagram, Duration, FaceId, Node, Rate, Time, TransmitBuf};
use tributary_ndn::{
    Config, NdnNode,
    config::{Registrar, RegistrationScope, StaticRoute},
    naming,
    router::{FaceProfile, FaceScope, InvalidPath, RemoteRegistration, labels::LabelScheme, shaping::ShapingConfig},
    wire::dataset::FacePersistency,
    wire::{
        ControlParameters, ControlResponse, Data, Interest, LpPacket, NackReason, NameView, PACKET_BYTES_MAX, PathTag,
        RateProbe, SignKey, SignatureInfo, SignatureType, WireError,
        dataset::{FaceEntry, FaceFilter},
        echo::{EchoReply, EchoRequest, ReplyCode},
        fragment::{Piece, Reassembler, ReassemblyLimits},
        huffman::BitTag,
        interest::with_parameters,
        reliability::{RETRIES_MAX, Reliability, ReliabilityConfig},
    },
};
use tributary_net::PacketLength;
use tributary_testkit::{Checked, Limits};
use tributary_transport::{Endpoint, FaceOptions, Fetch, PathMetric};

use crate::{content::key, input::Input};

fn check_error(error: &WireError) {
    assert!(!error.to_string().is_empty() && !error.reason().is_empty());
}

/// An Interest re-emits byte for byte unless an unknown field in it was ignored; its accessors agree with its fields.
pub fn ndn_interest(data: &[u8]) {
    let interest = match Interest::decode(data) {
        Ok(interest) => interest,
        Err(error) => return check_error(&error),
    };
    let again = interest.encode();
    assert!(!interest.is_canonical() || again == data, "what parses re-emits");
    let read = Interest::decode(&again).expect("what is emitted parses");
    assert_eq!(read.encode(), again);
    assert_eq!((read.name, read.nonce, read.hop_limit), (interest.name, interest.nonce, interest.hop_limit));
    assert!(!interest.name.is_empty() && interest.hints().count() <= data.len());
    if let (Some(at), Some(hops)) = (interest.source.hop_limit_at, interest.hop_limit) {
        assert_eq!(data[at], hops);
    }
    if let (Some(at), Some(nonce)) = (interest.nonce_at(), interest.nonce) {
        assert_eq!(data[at..at + 4], nonce.0);
    }
    let _ = interest.digest_is_right();
    assert!(!interest.is_signed_by(&SignKey::ed25519(&[9; 32]).verify_key()), "nobody guesses a signature");
    check_name(interest.name);
}

/// A Data re-emits byte for byte unless an unknown field in it was ignored; an invented signature does not verify.
pub fn ndn_data(data: &[u8]) {
    let packet = match Data::decode(data) {
        Ok(packet) => packet,
        Err(error) => return check_error(&error),
    };
    let again = packet.encode();
    assert!(!packet.is_canonical() || again == data, "what parses re-emits");
    let read = Data::decode(&again).expect("what is emitted parses");
    assert_eq!((read.name, read.content, read.signature), (packet.name, packet.content, packet.signature));
    let _ = (packet.final_block(), packet.freshness(), packet.content_type(), packet.implicit_digest());
    assert!(!packet.is_signed_by(&SignKey::ed25519(&[9; 32]).verify_key()), "nobody guesses a signature");
    check_name(packet.name);
    let content = packet.content.unwrap_or(&[]);
    match EchoReply::decode(content) {
        Ok(reply) => assert_eq!(EchoReply::decode(&reply.encode()), Ok(reply)),
        Err(error) => check_error(&error),
    }
    if let Ok((segment_bytes, manifest)) = naming::decode_manifest(content) {
        assert!((64..=8_000).contains(&segment_bytes) && manifest.len() <= content.len());
    }
}
fn check_name(name: NameView<'_>) {
    let components = name.components().count();
    assert_eq!(components, name.len());
    assert!((0..=components).all(|count| name.prefix(count).is_prefix_of(name)));
    let object = name.prefix(components / 2);
    let _ = naming::requested(object, name);
    if let Some(echo) = EchoRequest::of(name) {
        assert_eq!(echo.target.len() + 2, name.len());
    }
}

/// A link packet re-emits byte for byte unless an unknown part was ignored, whether its fragment is in the same buffer
/// or behind it.
pub fn ndn_link(data: &[u8]) {
    let packet = match LpPacket::decode(data) {
        Ok(packet) => packet,
        Err(error) => return check_error(&error),
    };
    let again = packet.encode();
    assert!(!packet.is_canonical || again == data, "what parses re-emits");
    let read = LpPacket::decode(&again).expect("what is emitted parses");
    assert_eq!(read.encode(), again);
    assert!(packet.pit_token.is_none_or(|token| (1..=32).contains(&token.len())));
    if let Some(fragment) = packet.fragment {
        let mut head = Vec::new();
        packet.encode_head(Some(fragment.len()), &mut head);
        let behind = LpPacket::decode_head(&head, fragment.len()).expect("a head alone parses");
        assert_eq!((behind.pit_token, behind.tag, behind.nack), (packet.pit_token, packet.tag, packet.nack));
    }
}

/// Path tags are stacks: the last pushed label is popped first; bits are read as they are written.
pub fn ndn_tags(data: &[u8]) {
    if let Ok(tag) = PathTag::parse(data) {
        assert_eq!(tag.as_bytes(), data);
        if let Some(longer) = tag.pushed(&[1, 2, 3, 4]) {
            let longer = PathTag::parse(&longer).expect("what was pushed is a tag");
            assert_eq!(longer.pop(4), Some((&[1u8, 2, 3, 4][..], tag)));
        }
    }
    if let Ok(tag) = BitTag::parse(data) {
        let stack = tag.to_stack();
        assert_eq!(BitTag::parse(&stack.value()).expect("what is written is read").to_stack().bits(), stack.bits());
    }
}

/// Parameters and responses of the management protocol survive encoding and parsing; a filter of faces matches a face
/// that has its properties.
pub fn ndn_control(data: &[u8]) {
    match ControlParameters::decode(data) {
        Ok(parameters) => assert_eq!(ControlParameters::decode(&parameters.encode()), Ok(parameters)),
        Err(error) => check_error(&error),
    }
    match ControlResponse::decode(data) {
        Ok(response) => assert_eq!(ControlResponse::decode(&response.encode()), Ok(response)),
        Err(error) => check_error(&error),
    }
    match FaceFilter::decode(data) {
        Ok(filter) => {
            let face = FaceEntry {
                face_id: filter.face_id.unwrap_or(7),
                uri: filter.uri.clone().unwrap_or_default(),
                local_uri: filter.local_uri.clone().unwrap_or_default(),
                is_local: filter.scope == Some(1),
                persistency: if filter.persistency == Some(1) {
                    FacePersistency::OnDemand
                } else {
                    FacePersistency::Persistent
                },
                ..FaceEntry::default()
            };
            let can_fit = filter.scheme.is_none()
                && filter.scope.is_none_or(|scope| scope < 2)
                && filter.persistency.is_none_or(|persistency| persistency < 2);
            assert!(!can_fit || filter.fits(&face), "{filter:?} {face:?}");
            assert!(filter.face_id.is_none_or(|id| !filter.fits(&FaceEntry { face_id: id ^ 1, ..face })));
        }
        Err(error) => check_error(&error),
    }
}

/// Fragments in any order yield whole packets or nothing, and use bounded memory for a bounded time.
pub fn ndn_fragments(data: &[u8]) {
    let mut input = Input::new(data);
    let limits = ReassemblyLimits::default();
    let mut reassembler = Reassembler::new(limits);
    let mut now = Time::ZERO;
    while let Some(step) = input.step() {
        now += Duration::from_millis(u64::from(step) * 8);
        reassembler.handle_timeout(now);
        let payload = Bytes::copy_from_slice(input.blob());
        let packet = LpPacket {
            sequence: Some(u64::from(input.u8())),
            frag_index: Some(u64::from(input.u8() % 8)),
            frag_count: Some(u64::from(input.u8() % 8)),
            ..LpPacket::around(&payload)
        };
        let bytes = Bytes::from(packet.encode());
        if let Ok(Some((_, complete))) = reassembler.handle_piece(now, &packet, &bytes, &payload) {
            assert!(complete.len() <= PACKET_BYTES_MAX, "longer than a packet may be");
        }
        assert!(reassembler.len() <= limits.packets_max);
    }
    if let Some(due) = reassembler.poll_timeout() {
        reassembler.handle_timeout(due);
        let last = due + Duration::from_secs(60);
        reassembler.handle_timeout(last);
        assert!(reassembler.is_empty(), "left alone, it forgets");
    }
}

/// How long link reliability remembers arrived packets.
const SEEN_FOR: Duration = Duration::from_secs(5);

/// Link reliability: a recently received packet is recognised, no packet exceeds its retransmissions, and each ends
/// acknowledged or abandoned, under any loss and any numbers.
pub fn ndn_reliability(data: &[u8]) {
    let mut input = Input::new(data);
    let config = ReliabilityConfig { unacknowledged_max: 64, acks_max: 32 };
    let first = input.u64();
    let (mut near, mut far) = (Reliability::new(config, first), Reliability::new(config, input.u64()));
    let (mut now, mut sequence, mut sent) = (Time::ZERO, 0_u64, 0_u64);
    let mut link: VecDeque<(u64, u64)> = VecDeque::new();
    let mut arrived = BTreeMap::new();
    let mut is_new = |now: Time, sequence| arrived.insert(sequence, now).is_none_or(|before| before + SEEN_FOR <= now);
    let mut send = |near: &mut Reliability, now, sequence: u64, retries| {
        let fragment = Bytes::copy_from_slice(&sequence.to_be_bytes());
        let number = near.on_send(now, &Piece::new(&LpPacket::default(), fragment), retries);
        sent += u64::from(number.is_some());
        number.map(|number| (sequence, number))
    };
    let resent = |near: &mut Reliability| {
        let (piece, retries) = near.poll_resend()?;
        assert!((1..=RETRIES_MAX).contains(&retries), "sent again {retries} times");
        let sequence = <[u8; 8]>::try_from(&piece.fragment[..]).expect("what was sent comes back");
        Some((u64::from_be_bytes(sequence), retries))
    };
    while let Some(step) = input.step() {
        now += Duration::from_millis(u64::from(step >> 3));
        match step & 7 {
            0 | 1 => {
                sequence += 1;
                link.extend(send(&mut near, now, sequence, 0));
            }
            2 => drop(link.pop_front()),
            3 => {
                let (number, sequence) = (input.u64(), input.u64());
                assert_eq!(far.on_arrival(now, number, Some(sequence)), is_new(now, sequence));
            }
            4 => {
                let acks = far.take_acks(usize::from(input.u8()));
                acks.into_iter().for_each(|number| near.on_ack(now, number));
            }
            5 => near.on_ack(now, first.wrapping_add(u64::from(input.u8()))),
            6 => near.handle_timeout(now),
            _ => {
                if let Some((sequence, number)) = link.pop_front() {
                    assert_eq!(far.on_arrival(now, number, Some(sequence)), is_new(now, sequence));
                }
            }
        }
        while let Some((sequence, retries)) = resent(&mut near) {
            link.extend(send(&mut near, now, sequence, retries));
        }
    }
    let mut rounds = 0;
    while let Some(due) = near.poll_timeout() {
        rounds += 1;
        assert!(rounds < 1_000, "left alone, it babbles");
        now = now.max(due);
        near.handle_timeout(now);
        while let Some((sequence, retries)) = resent(&mut near) {
            send(&mut near, now, sequence, retries);
        }
    }
    let stats = near.stats;
    assert_eq!(stats.acknowledged + stats.exhausted + stats.retransmitted, sent, "the fate of each is told");
}

/// Packet boundaries are found in a stream however it is cut: the start of a packet yields the same length as the
/// whole, or nothing yet.
pub fn ndn_stream(data: &[u8]) {
    let framing = Family::Ndn.framing().expect("NDN has streams");
    let mut rest = data;
    while !rest.is_empty() {
        let complete = framing.packet_length(rest);
        for have in 1..rest.len().min(16) {
            let check_error = framing.packet_length(&rest[..have]);
            assert!(
                check_error == PacketLength::Unknown || check_error == complete,
                "{check_error:?} of {have} bytes, {complete:?} of all"
            );
        }
        let PacketLength::Known(length) = complete else {
            assert!(complete == PacketLength::Invalid || rest.len() < 16, "enough bytes always tell");
            return;
        };
        assert!((2..=PACKET_BYTES_MAX + (8 << 10)).contains(&length), "{length} bytes");
        let Some((packet, behind)) = rest.split_at_checked(length) else { return };
        for error in [LpPacket::decode(packet).err(), Interest::decode(packet).err(), Data::decode(packet).err()] {
            assert!(!matches!(error, Some(WireError::Trailing { .. })), "it ends where the packet ends");
            error.iter().for_each(check_error);
        }
        rest = behind;
    }
}

const OBJECT: &str = "/lab/x";
const FACES: u32 = 3;

/// A forwarder with a producer, a consumer and a neighbour at which it registers keeps the contract of a node under any
/// input on its faces; without input it comes to rest.
pub fn ndn_node(data: &[u8]) {
    let mut input = Input::new(data);
    let (bits, more) = (input.u8(), input.u8());
    let mut node = Checked::with_limits(NdnNode::new(config(bits, more)), Limits { mtu: 1_472, ..Limits::default() });
    let mut now = Time::ZERO;
    for face in 1..=FACES {
        let options = FaceOptions { mtu: 1_472, rate: Some(Rate::from_mbps(8)) };
        node.command(now, |node, now| node.add_face(now, FaceId(face), options));
        drain(&mut node, now);
    }
    // One face shapes Interests, one retransmits lost packets, one is local.
    let options = FaceOptions { mtu: 1_472, rate: Some(Rate::from_mbps(1)) };
    let shaping = (more & 4 != 0).then_some(ShapingConfig { interests_max: 4, ..ShapingConfig::DEFAULT });
    let reliability = (more & 8 != 0).then(ReliabilityConfig::default);
    let profiles = [
        (1, FaceProfile { reliability, ..FaceProfile::from(options) }),
        (2, FaceProfile { shaping, reliability, ..FaceProfile::from(options) }),
        (3, FaceProfile { scope: FaceScope::Local, ..FaceProfile::from(options) }),
    ];
    for (face, profile) in profiles {
        node.command(now, |node, _| node.add_face_with(FaceId(face), profile));
        drain(&mut node, now);
    }
    let object = MemoryObject::new(name(OBJECT), vec![7; 9_000], key()).expect("a small object");
    node.command(now, |node, now| node.publish(now, Box::new(object)));
    drain(&mut node, now);
    node.command(now, |node, now| node.fetch(now, fetch()));
    drain(&mut node, now);
    while let Some(step) = input.step() {
        now += Duration::from_millis(u64::from(step >> 3));
        while let Some((due, _)) = node.poll_timeout().filter(|(due, _)| *due <= now) {
            node.handle_timeout(due.max(now));
            drain(&mut node, now);
        }
        let face = FaceId(u32::from(step) % (FACES + 1) + 1);
        let datagram = packet(&mut input);
        node.handle_datagram(now, face, Datagram::from(datagram));
        drain(&mut node, now);
    }
    // Without input every operation ends: the fetch, pending Interests; registrations are tried with pauses.
    let mut wakes = 0;
    while let Some((due, _)) = node.poll_timeout().filter(|(due, _)| *due <= now + Duration::from_secs(30)) {
        wakes += 1;
        assert!(wakes < 5_000, "left alone, it babbles");
        let due = due.max(now);
        node.handle_timeout(due);
        drain(&mut node, due);
    }
    assert!(node.inner().router().pit.len() <= 64, "left alone, it forgets what was pending");
}
fn config(bits: u8, more: u8) -> Config {
    let face = FaceId(1);
    Config {
        labels: [LabelScheme::Random, LabelScheme::Huffman][usize::from(more & 1)],
        invalid_path: [InvalidPath::ByName, InvalidPath::Nack][usize::from(more >> 1 & 1)],
        path_tags: bits & 1 == 0,
        tell_rates: bits & 32 == 0,
        cache_policy: ["lru", "fifo", "priority"][usize::from(bits >> 1 & 3) % 3].into(),
        routes: vec![StaticRoute { face, prefix: name("/"), cost: 1 }],
        registrars: vec![Registrar { face, scope: RegistrationScope::Localhop }],
        remote_registration: [RemoteRegistration::Refused, RemoteRegistration::Neighbours][usize::from(bits >> 3 & 1)],
        ..Config::new("fuzz", u64::from(bits))
    }
}
fn fetch() -> Fetch {
    Fetch {
        name: name("/other/y"),
        opener: Box::new(MemoryOpener::new()),
        rate_limit: None,
        paths_per_source: 2,
        metric: PathMetric::Hops,
        patience: Some(Duration::from_secs(10)),
    }
}
pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("a name")
}
/// A raw datagram, or a well-formed packet: a fuzzer does not guess names.
fn packet(input: &mut Input<'_>) -> Vec<u8> {
    let kind = input.u8();
    let texts = [
        OBJECT,
        "/lab/x/32=metadata",
        "/lab/x/v=1/seg=0",
        "/other/y/32=manifest/abcd",
        "/other/y",
        "/lab/x/12345678/32=ping",
        "/other/12345678/32=traceroute",
        "/localhop/nfd/rib",
    ];
    let name = name(texts[usize::from(kind >> 3) % texts.len()]);
    let nonce = tributary_ndn::ids::Nonce(input.u32().to_be_bytes());
    let interest = Interest {
        can_be_prefix: kind & 0x40 != 0,
        must_be_fresh: kind & 0x80 != 0,
        nonce: Some(nonce),
        ..Interest::new(NameView::from(&name))
    }
    .encode();
    match kind & 7 {
        0 | 1 => input.blob().to_vec(),
        2 => interest,
        3 => Data::new(NameView::from(&name), input.blob()).sign(&SignKey::Digest),
        4 => LpPacket { nack: Some(NackReason::NoRoute), ..LpPacket::around(&interest) }.encode(),
        5 => LpPacket { probe: true, ..LpPacket::around(&interest) }.encode(),
        6 => {
            let tag = input.blob();
            let tag = PathTag::parse(tag).ok().filter(|tag| !tag.is_empty());
            LpPacket { tag, pit_token: Some(&nonce.0), ..LpPacket::around(&interest) }.encode()
        }
        _ => match input.u8() % 8 {
            0 | 1 => command(input),
            2 => {
                let tag_bits = BitTag::parse(input.blob()).ok();
                LpPacket { tag_bits, probe: kind & 8 != 0, ..LpPacket::around(&interest) }.encode()
            }
            3 => {
                let (acks, tx_sequence) = (vec![u64::from(input.u8()), input.u64()], Some(u64::from(input.u8())));
                let sequence = Some(u64::from(input.u8()));
                LpPacket { acks, tx_sequence, sequence, ..LpPacket::around(&interest) }.encode()
            }
            4 => {
                let (boot_probe, boot_answer) = (Some(input.u32()), Some((input.u32(), input.u64())));
                let (number, took) = (input.u32(), Duration::from_nanos(input.u64()));
                let rate_probe = RateProbe { number, place: kind >> 3 & 3, last: kind >> 5, zeros: 0 };
                let (rate_probe, rate_answer) = (Some(rate_probe), Some((number, took)));
                let probes = LpPacket { boot_probe, boot_answer, rate_probe, rate_answer, ..LpPacket::default() };
                LpPacket { mtu_answer: Some(input.u32()), ..probes }.encode()
            }
            5 => {
                let next_hop_face = Some(u64::from(input.u8()));
                LpPacket { next_hop_face, probe: kind & 8 != 0, ..LpPacket::around(&interest) }.encode()
            }
            6 => {
                let data = Data::new(NameView::from(&name), input.blob()).sign(&SignKey::Digest);
                let tag = PathTag::parse(&[1, 2, 3, 4]).ok();
                LpPacket { tag, pit_token: Some(&nonce.0), ..LpPacket::around(&data) }.encode()
            }
            _ => {
                let mut bytes = interest;
                let at = usize::from(input.u8()) % bytes.len();
                bytes[at] ^= 1 << (kind >> 5);
                bytes
            }
        },
    }
}
/// A command or a question of the management protocol, signed as applications sign it.
fn command(input: &mut Input<'_>) -> Vec<u8> {
    let verbs = [
        "rib/register",
        "rib/unregister",
        "fib/add-nexthop",
        "fib/remove-nexthop",
        "faces/create",
        "faces/update",
        "faces/destroy",
        "strategy-choice/set",
        "strategy-choice/unset",
        "cs/config",
        "cs/erase",
        "faces/query",
        "faces/events",
        "status/general",
        "faces/list",
        "fib/list",
        "rib/list",
        "strategy-choice/list",
        "cs/info",
    ];
    let (which, wanted) = (input.u8(), input.u16());
    let has = |bit: u16, value: u64| (wanted & 1 << bit != 0).then_some(value);
    let number = u64::from(input.u8());
    let parameters = ControlParameters {
        name: has(0, 0).map(|_| name(["/lab", "/other/y"][usize::from(number % 2 == 1)])),
        face_id: has(1, number % 6),
        uri: has(2, 0).map(|_| ["udp4://192.0.2.1:6363", "unix:///x", "dev://"][number as usize % 3].into()),
        origin: has(3, number),
        cost: has(4, number),
        capacity: has(5, number << (number % 57)),
        flags: has(6, number % 8),
        mask: has(7, number >> 3),
        strategy: has(8, 0).map(|_| {
            name(["/localhost/nfd/strategy/multicast/v=1", "/localhost/nfd/strategy/rfa"][usize::from(number % 2 == 1)])
        }),
        expiration_millis: has(9, number << (number % 57)),
        persistency: has(10, number % 4),
        mark_interval: has(11, number << (number % 57)),
        mark_threshold: has(12, number << (number % 57)),
        mtu: has(13, 64 + 5 * number),
        count: has(14, number),
        ..ControlParameters::default()
    };
    let verb = verbs[usize::from(which) % verbs.len()];
    let scope = if which & 0x80 == 0 { "localhost" } else { "localhop" };
    let parameters = if wanted >> 15 == 0 { parameters.encode() } else { input.blob().to_vec() };
    let requested = name(&format!("/{scope}/nfd/{verb}")).child(&parameters).expect("parameters are short");
    let nonce = input.u32().to_be_bytes();
    let signature =
        SignatureInfo { nonce: Some(&nonce), time: Some(number), ..SignatureInfo::new(SignatureType::DigestSha256) };
    let nonce = Some(tributary_ndn::ids::Nonce(nonce));
    let requested = NameView::from(&requested);
    let command = Interest { nonce, signature: Some(signature), ..Interest::new(requested) };
    match which & 0x40 {
        0 => with_parameters(&command, Some(&SignKey::Digest)),
        _ => Interest { signature: None, can_be_prefix: true, must_be_fresh: true, ..command }.encode(),
    }
}
fn drain(node: &mut Checked<NdnNode>, now: Time) {
    let mut batch = TransmitBuf::new();
    loop {
        batch.clear();
        if node.poll_transmit(now, &mut batch).is_none() {
            break;
        }
    }
    while node.poll_event().is_some() {}
}

/// Valid inputs to start from.
#[expect(clippy::too_many_lines, reason = "a table of seeds")]
pub fn seeds() -> Vec<crate::seeds::Seed> {
    let (plain, versioned) = (name("/lab/x"), name("/lab/x/v=1/seg=0"));
    let interest = Interest {
        can_be_prefix: true,
        must_be_fresh: true,
        nonce: Some(tributary_ndn::ids::Nonce([1, 2, 3, 4])),
        lifetime_millis: Some(4_000),
        hop_limit: Some(9),
        ..Interest::new(NameView::from(&plain))
    };
    let signed = with_parameters(&interest, Some(&SignKey::Digest));
    let data = Data::new(NameView::from(&versioned), b"content").sign(&SignKey::Digest);
    let manifest = naming::encode_manifest(1_200, b"manifest");
    let by_key = Data::new(NameView::from(&versioned), &manifest);
    let by_key = by_key.sign(&SignKey::ed25519(&[1; 32]));
    let interest = interest.encode();
    let tag = [1, 2, 3, 4, 5, 6, 7, 8];
    let link = LpPacket {
        pit_token: Some(&[7; 6]),
        congestion_mark: Some(1),
        tag: PathTag::parse(&tag).ok(),
        probe: true,
        ..LpPacket::around(&data)
    };
    let nack = LpPacket { nack: Some(NackReason::Congestion), ..LpPacket::around(&interest) };
    let piece = LpPacket { sequence: Some(9), frag_index: Some(0), frag_count: Some(2), ..LpPacket::around(&[1; 9]) };
    let parameters = ControlParameters {
        name: Some(plain.clone()),
        face_id: Some(3),
        cost: Some(5),
        uri: Some("udp4://192.0.2.1:6363".into()),
        ..ControlParameters::default()
    };
    let response = ControlResponse { code: 200, text: "OK".into(), body: Some(parameters.clone()) };
    let script = |steps: &[&[u8]]| steps.concat();
    let pieces = script(&[&[1, 0, 3, 1, 2, 3, 5, 0, 2], &[1, 0, 2, 4, 5, 6, 1, 2]]);
    let walk = script(&[
        &[0, 0, 8, 2, 0, 0, 0, 1],
        &[9, 10, 0, 0, 0, 2],
        &[17, 0x52, 0, 0, 0, 3],
        &[40, 3, 0, 0, 0, 4, 0, 2, 9, 9],
    ]);
    let echo = name("/lab/x/12345678/32=ping");
    let echo = Data::new(NameView::from(&echo), &EchoReply { code: ReplyCode::Object, responder: "north" }.encode())
        .sign(&SignKey::Digest);
    // A Huffman label, a Nack for an unknown path, shaping and reliability; then each kind of well-formed packet.
    let managed = script(&[
        &[0, 15],
        &[3, 7, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0, 9],
        &[3, 7, 0, 0, 0, 2, 0, 14, 0, 0, 0, 0, 0, 0, 8],
        &[2, 7, 0, 0, 0, 3, 2, 0, 2, 0x80, 1],
        &[2, 7, 0, 0, 0, 4, 3, 1, 0, 0, 0, 0, 0, 0, 0, 1, 7, 7],
        &[1, 7, 0, 0, 0, 5, 4, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1],
        &[3, 7, 0, 0, 0, 6, 5, 2],
        &[1, 39, 0, 0, 0, 7, 6, 0, 2, 9, 9],
    ]);
    let link_script = script(&[&[8, 8, 8, 15, 2, 7], &[4, 60], &[3], &[9; 16], &[5], &[0; 8], &[255, 254]]);
    let stream = [&data[..], &interest, &nack.encode()].concat();
    let seeds: [(&str, &str, Vec<u8>); 22] = [
        ("ndn_node", "managed", managed),
        ("ndn_reliability", "lost-and-forged", link_script),
        ("ndn_stream", "three", stream),
        ("ndn_data", "echo", echo),
        ("ndn_interest", "full", interest.clone()),
        ("ndn_interest", "signed", signed),
        ("ndn_data", "digest", data.clone()),
        ("ndn_data", "manifest", by_key),
        ("ndn_link", "tagged", link.encode()),
        ("ndn_link", "nack", nack.encode()),
        ("ndn_link", "piece", piece.encode()),
        ("ndn_link", "mtu-probe", LpPacket { mtu_probe: Some((5, 30)), ..LpPacket::default() }.encode()),
        ("ndn_link", "mtu-answer", LpPacket { mtu_answer: Some(5), ..LpPacket::default() }.encode()),
        ("ndn_link", "run-probe", LpPacket { boot_probe: Some(5), ..LpPacket::default() }.encode()),
        ("ndn_link", "run-answer", LpPacket { boot_answer: Some((5, 9)), ..LpPacket::default() }.encode()),
        ("ndn_tags", "labels", tag.to_vec()),
        ("ndn_control", "parameters", parameters.encode()),
        ("ndn_control", "response", response.encode()),
        (
            "ndn_control",
            "filter",
            [&[150, 17, 105, 1, 3, 131, 4][..], b"udp4", &[132, 1, 0, 133, 1, 1, 129, 0]].concat(),
        ),
        ("ndn_fragments", "two", pieces),
        ("ndn_node", "walk", walk),
        ("ndn_node", "raw", [&[0, 0, 8, 0, 0, 0, 0, 0, 0, interest.len() as u8][..], &interest].concat()),
    ];
    seeds.into_iter().map(|(target, label, bytes)| (target, format!("seed-{label}"), bytes)).collect()
}

//! The packets of the NDN family, and a whole node of it.
use bytes::Bytes;
use tributary_content::{MemoryObject, MemoryOpener, Name};
use tributary_core::{Datagram, Duration, FaceId, Node, Time, TransmitBuf};
use tributary_ndn::{
    Config, NdnNode,
    config::{Registrar, RegistrationScope, StaticRoute},
    naming,
    router::RemoteRegistration,
    wire::{
        ControlParameters, ControlResponse, Data, Interest, LpPacket, NackReason, NameView, PACKET_BYTES_MAX, PathTag,
        SignKey, WireError,
        dataset::{FaceEntry, FaceFilter},
        echo::{EchoReply, EchoRequest, ReplyCode},
        fragment::{Reassembler, ReassemblyLimits},
        huffman::BitTag,
    },
};
use tributary_testkit::{Checked, Limits};
use tributary_transport::{Endpoint, FaceOptions, Fetch, PathMetric};

use crate::{content::key, input::Input};

fn told(error: &WireError) {
    assert!(!error.to_string().is_empty() && !error.reason().is_empty());
}

/// An Interest re-emits byte for byte unless something unknown in it was ignored; what it says of itself holds.
pub fn ndn_interest(data: &[u8]) {
    let interest = match Interest::decode(data) {
        Ok(interest) => interest,
        Err(error) => return told(&error),
    };
    let again = interest.encode();
    assert!(!interest.is_canonical() || again == data, "what parses re-emits");
    let read = Interest::decode(&again).expect("what is emitted parses");
    assert_eq!(read.encode(), again);
    assert_eq!((read.name, read.nonce, read.hop_limit), (interest.name, interest.nonce, interest.hop_limit));
    assert!(!interest.name.is_empty() && interest.hints().count() <= data.len());
    if let (Some(at), Some(hops)) = (interest.hop_limit_at(), interest.hop_limit) {
        assert_eq!(data[at], hops);
    }
    if let (Some(at), Some(nonce)) = (interest.nonce_at(), interest.nonce) {
        assert_eq!(data[at..at + 4], nonce.0);
    }
    let _ = interest.digest_is_right();
    assert!(!interest.is_signed_by(&SignKey::ed25519(&[9; 32]).verify_key()), "nobody guesses a signature");
    check_name(interest.name);
}

/// A Data re-emits byte for byte unless something unknown in it was ignored; nobody guesses its signature.
pub fn ndn_data(data: &[u8]) {
    let packet = match Data::decode(data) {
        Ok(packet) => packet,
        Err(error) => return told(&error),
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
        Err(error) => told(&error),
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
    let _ = naming::asked(object, name);
    if let Some(echo) = EchoRequest::of(name) {
        assert_eq!(echo.target.len() + 2, name.len());
    }
}

/// A link packet re-emits byte for byte unless something unknown in it was ignored, whether its fragment lies in the same
/// buffer or behind it.
pub fn ndn_link(data: &[u8]) {
    let packet = match LpPacket::decode(data) {
        Ok(packet) => packet,
        Err(error) => return told(&error),
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

/// Path tags are stacks: what is pushed comes off first; bits are read as they are written.
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

/// Parameters and responses of the management protocol survive being written and read; a filter of faces fits the face
/// that is as it says.
pub fn ndn_control(data: &[u8]) {
    match ControlParameters::decode(data) {
        Ok(parameters) => assert_eq!(ControlParameters::decode(&parameters.encode()), Ok(parameters)),
        Err(error) => told(&error),
    }
    match ControlResponse::decode(data) {
        Ok(response) => assert_eq!(ControlResponse::decode(&response.encode()), Ok(response)),
        Err(error) => told(&error),
    }
    match FaceFilter::decode(data) {
        Ok(filter) => {
            let face = FaceEntry {
                face_id: filter.face_id.unwrap_or(7),
                uri: filter.uri.clone().unwrap_or_default(),
                local_uri: filter.local_uri.clone().unwrap_or_default(),
                is_local: filter.scope == Some(1),
                is_persistent: filter.persistency != Some(1),
                ..FaceEntry::default()
            };
            let can_fit = filter.scheme.is_none()
                && filter.scope.is_none_or(|scope| scope < 2)
                && filter.persistency.is_none_or(|persistency| persistency < 2);
            assert!(!can_fit || filter.fits(&face), "{filter:?} {face:?}");
            assert!(filter.face_id.is_none_or(|id| !filter.fits(&FaceEntry { face_id: id ^ 1, ..face })));
        }
        Err(error) => told(&error),
    }
}

/// Pieces of packets in any order give whole packets or nothing, and take bounded room for a bounded time.
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
        if let Ok(Some((_, whole))) = reassembler.handle_piece(now, &packet, &bytes, &payload) {
            assert!(whole.len() <= PACKET_BYTES_MAX, "longer than a packet may be");
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

const OBJECT: &str = "/lab/x";
const FACES: u32 = 3;

/// A forwarder with a producer, a consumer and a neighbour to register at keeps the contract of a node whatever comes by
/// its faces; left alone, it comes to rest.
pub fn ndn_node(data: &[u8]) {
    let mut input = Input::new(data);
    let mut node = Checked::with_limits(NdnNode::new(config(input.u8())), Limits { mtu: 1_472, ..Limits::default() });
    let mut now = Time::ZERO;
    for face in 1..=FACES {
        node.command(now, |node, now| node.add_face(now, FaceId(face), FaceOptions { mtu: 1_472, rate: None }));
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
    // Left alone, whatever was begun ends: fetch, pending Interests, registrations are tried with pauses.
    let mut wakes = 0;
    while let Some((due, _)) = node.poll_timeout().filter(|(due, _)| *due <= now + Duration::from_secs(30)) {
        wakes += 1;
        assert!(wakes < 5_000, "left alone, it babbles");
        let due = due.max(now);
        node.handle_timeout(due);
        drain(&mut node, due);
    }
    assert!(node.inner().router().pit().len() <= 64, "left alone, it forgets what was pending");
}
fn config(bits: u8) -> Config {
    let face = FaceId(1);
    Config {
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
fn name(text: &str) -> Name {
    text.parse().expect("a name")
}
/// A raw datagram, or one that is made right: nobody guesses names.
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
        _ => {
            let mut bytes = interest;
            let at = usize::from(input.u8()) % bytes.len();
            bytes[at] ^= 1 << (kind >> 5);
            bytes
        }
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
    let signed = tributary_ndn::wire::interest::with_parameters(&interest, Some(&SignKey::Digest));
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
        &[0, 8, 2, 0, 0, 0, 1],
        &[9, 10, 0, 0, 0, 2],
        &[17, 0x52, 0, 0, 0, 3],
        &[40, 3, 0, 0, 0, 4, 0, 2, 9, 9],
    ]);
    let echo = name("/lab/x/12345678/32=ping");
    let echo = Data::new(NameView::from(&echo), &EchoReply { code: ReplyCode::Object, responder: "north" }.encode())
        .sign(&SignKey::Digest);
    let seeds: [(&str, &str, Vec<u8>); 19] = [
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
        ("ndn_link", "run-probe", LpPacket { run_probe: Some(5), ..LpPacket::default() }.encode()),
        ("ndn_link", "run-answer", LpPacket { run_answer: Some((5, 9)), ..LpPacket::default() }.encode()),
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
        ("ndn_node", "raw", [&[0, 8, 0, 0, 0, 0, 0, 0, interest.len() as u8][..], &interest].concat()),
    ];
    seeds.into_iter().map(|(target, label, bytes)| (target, format!("seed-{label}"), bytes)).collect()
}

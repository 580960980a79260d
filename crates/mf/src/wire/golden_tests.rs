//! Golden packets, malformed ones, and properties of the parsers.
use alloc::{vec, vec::Vec};
use core::fmt::Debug;

use proptest::prelude::*;
use tributary_content::{Manifest, MemoryObject, ObjectId, PublicKey, SigningKey, Unavailable, store::ObjectReader};
use tributary_testkit::golden::{self, GoldenPacket};

use super::{
    chunk::{CHUNK_HEADER_BYTES_MAX, HOPS_MAX},
    transport::RANGES_MAX,
    *,
};
use crate::ids::{Custodian, Flow, Guid, HopId, NetworkAddress, ServiceId, Token};

/// Whole packets, with which the dissector for Wireshark is tested too.
const PACKETS: &str = include_str!("../../tests/golden/packets.txt");

/// Bytes from hex digits; blanks group fields.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|c| !c.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}
/// It reads as `expected` and re-emits byte for byte.
fn agree<T: PartialEq + Debug>(
    bytes: &[u8],
    expected: &T,
    decode: impl Fn(&[u8]) -> Result<T, WireError>,
    encode: impl Fn(&T, &mut Vec<u8>),
) {
    assert_eq!(decode(bytes).as_ref(), Ok(expected));
    let mut emitted = Vec::new();
    encode(expected, &mut emitted);
    assert_eq!(emitted, bytes);
}
/// The same, and every cut and one byte too many are refused.
fn check<T: PartialEq + Debug>(
    bytes: &[u8],
    expected: &T,
    decode: impl Fn(&[u8]) -> Result<T, WireError>,
    encode: impl Fn(&T, &mut Vec<u8>),
) {
    agree(bytes, expected, &decode, encode);
    let is_in = |packet: &GoldenPacket| packet.bytes.windows(bytes.len()).any(|window| window == bytes);
    assert!(
        golden::parse(PACKETS).unwrap().iter().any(is_in),
        "tests/golden/packets.txt has no packet with {bytes:02x?}"
    );
    for cut in 0..bytes.len() {
        assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    assert_eq!(decode(&[bytes, &[0]].concat()), Err(WireError::Trailing { extra: 1 }));
}
fn guid(byte: u8) -> Guid {
    Guid([byte; 20])
}
fn key() -> SigningKey {
    SigningKey::from_secret(&[7; 32])
}

/// A whole packet as it is read and written again.
fn again(bytes: &[u8]) -> Result<Vec<u8>, WireError> {
    let mut out = Vec::new();
    match PacketType::of(bytes[0])? {
        PacketType::Hello => Hello::decode(bytes)?.encode(&mut out),
        PacketType::Csyn => Csyn::decode(bytes)?.encode(&mut out),
        PacketType::Cack => Cack::decode(bytes)?.encode(&mut out),
        PacketType::Mtu => MtuMessage::decode(bytes)?.encode(&mut out),
        PacketType::Data => {
            let header = DataHeader::decode(bytes)?;
            header.encode(&mut out);
            let rest = &bytes[DataHeader::BYTES..];
            if header.index > 0 {
                return Ok([&out[..], rest].concat());
            }
            let (chunk, len) = ChunkHeader::decode(rest)?;
            chunk.encode(&mut out);
            let payload = &rest[len..];
            match chunk.kind {
                ChunkKind::Data(_) => out.extend_from_slice(payload),
                ChunkKind::Transport(_) => TransportMessage::decode(payload)?.encode(&mut out),
                ChunkKind::Names => NameMessage::decode(payload)?.encode(&mut out),
                ChunkKind::LinkState => LinkState::decode(payload)?.encode(&mut out),
            }
            if header.count == 1 {
                assert_eq!(payload.len(), chunk.payload_bytes as usize);
            }
        }
    }
    Ok(out)
}

#[test]
fn golden_packets_are_read_and_come_back() {
    for packet in golden::parse(PACKETS).unwrap() {
        match (&packet.error, again(&packet.bytes)) {
            (None, again) => assert_eq!(again.as_ref(), Ok(&packet.bytes), "{} (line {})", packet.name, packet.line),
            (Some(_), again) => assert!(again.is_err(), "{} (line {}): {again:02x?}", packet.name, packet.line),
        }
    }
}

#[test]
fn golden_data_header() {
    let plain = DataHeader { index: 3, count: 700, hop: HopId(0xcafe), csyn: None, class: Class::Bulk };
    let asking = DataHeader { csyn: Some(9), ..plain };
    let control = DataHeader { class: Class::Control, ..asking };
    for (bytes, header) in [
        ("32 00 0003 02bc 0000cafe 00000000", plain),
        ("32 00 0003 02bc 0000cafe 00000009", asking),
        ("32 02 0003 02bc 0000cafe 00000009", control),
    ] {
        assert_eq!(DataHeader::decode(&hex(bytes)), Ok(header));
        assert_eq!(header.to_bytes(), hex(bytes)[..]);
    }
    for (bytes, error) in [
        ("32 01 0003 02bc 0000cafe 00000009", WireError::Value { field: "flags", found: 1 }),
        ("32 00 02bc 02bc 0000cafe 00000000", WireError::Value { field: "packet number", found: 700 }),
        ("32 00 0000 0000 0000cafe 00000000", WireError::Value { field: "packets of the chunk", found: 0 }),
        ("32 00 0000 2001 0000cafe 00000000", WireError::Value { field: "packets of the chunk", found: 8_193 }),
        ("33 00 0003 02bc 0000cafe 00000000", WireError::Value { field: "packet type", found: 3 }),
        ("12 00 0003 02bc 0000cafe 00000000", WireError::Version { found: 1, known: 3 }),
        ("32 00 0003 02bc 0000cafe 00", WireError::Short { field: "csyn number", needs: 4, has: 1 }),
    ] {
        assert_eq!(DataHeader::decode(&hex(bytes)), Err(error), "{bytes}");
    }
}

#[test]
fn golden_csyn_and_cack() {
    let csyn = Csyn { count: 700, hop: HopId(0xcafe), number: 9 };
    check(&hex("33 00 02bc 0000cafe 00000009"), &csyn, Csyn::decode, Csyn::encode);
    let (first_missing, bitmap) = Cack::describe(0..20, |index| index < 4 || index == 6 || index == 14);
    assert_eq!((first_missing, bitmap.as_slice()), (4, [0b0000_0100, 0b0000_0100].as_slice()));
    let cack = Cack {
        state: CackState::Partial,
        hop: HopId(0xcafe),
        number: 9,
        window: 1_500,
        destination_window: 750,
        duplicates: 1,
        first_missing,
        bitmap,
    };
    agree(&hex("34 00 0000cafe 00000009 000005dc 000002ee 0001 0004 0404"), &cack, Cack::decode, Cack::encode);
    for (bytes, field) in [
        ("34 00 0000cafe 00000009 000005dc 000002ee 0001 0004 0400", "bitmap"),
        ("34 00 0000cafe 00000009 000005dc 000002ee 0001 0004 05", "bitmap"),
        ("34 01 0000cafe 00000009 000005dc 000002ee 0001 0004 04", "bytes of the bitmap"),
        ("34 00 0000cafe 00000009 000005dc 000002ee 0001 1fff 0404", "bytes of the bitmap"),
        ("34 05 0000cafe 00000009 000005dc 000002ee 0001 0004", "state"),
    ] {
        let found = Cack::decode(&hex(bytes));
        assert!(matches!(found, Err(WireError::Value { field: f, .. }) if f == field), "{bytes}: {found:?}");
    }
}

#[test]
fn golden_mtu_messages() {
    use tributary_transport::MtuProbe;
    check(&hex("35 01 0000cafe"), &MtuMessage::Answer(0xcafe), MtuMessage::decode, MtuMessage::encode);
    let probe = MtuMessage::Probe(MtuProbe { number: 0xcafe, size: 9 });
    agree(&hex("35 00 0000cafe 000000"), &probe, MtuMessage::decode, MtuMessage::encode);
    let dirty = WireError::Value { field: "padding", found: 7 };
    assert_eq!(MtuMessage::decode(&hex("35 00 0000cafe 0007")), Err(dirty));
    let unknown = WireError::Value { field: "probe or answer", found: 2 };
    assert_eq!(MtuMessage::decode(&hex("35 02 0000cafe")), Err(unknown));
}

#[test]
fn golden_hello() {
    let mut hello = Hello {
        roles: Roles::ROUTER | Roles::PROXY,
        accepts: true,
        wants_answer: false,
        sequence: 5,
        probe: Probe { sequence: 4, held_us: 1_000, heard: 0b11 },
        nonce: 1,
        echo: 2,
        address: NetworkAddress(0xaabb),
        datagram_bytes: 1_472,
        window: 1_500,
        key: PublicKey([9; 32]),
        label: "r1".into(),
        signature: None,
    };
    let bytes =
        hex("31 85 00000005 00000004 000003e8 00000003 0000000000000001 0000000000000002 0000aabb 05c0 000005dc \
         0909090909090909090909090909090909090909090909090909090909090909 0002 7231");
    agree(&bytes, &hello, Hello::decode, Hello::encode);
    assert!(!hello.is_proven());
    hello.key = key().public();
    hello.sign(&key());
    let mut signed = Vec::new();
    hello.encode(&mut signed);
    let again = Hello::decode(&signed).unwrap();
    assert!(again.is_proven());
    for changed in [
        Hello { nonce: 3, ..again.clone() },
        Hello { echo: 3, ..again.clone() },
        Hello { address: NetworkAddress(1), ..again.clone() },
        Hello { label: "r2".into(), ..again.clone() },
        Hello { key: SigningKey::from_secret(&[8; 32]).public(), ..again.clone() },
    ] {
        assert!(!changed.is_proven());
    }
    assert_eq!(Hello::decode(&[&signed[..], &[0]].concat()), Err(WireError::Trailing { extra: 1 }));
}

fn data_header() -> ChunkHeader {
    let tag = DataTag {
        object: ObjectId([0x11; 16]),
        transfer: 6,
        token: Token(5),
        number: 2,
        count: 9,
        chunk_bytes: 1 << 20,
        reliability: Reliability::Nack,
        window: 1,
        window_chunks: 8,
    };
    ChunkHeader {
        flags: Flags::DELEGATE | Flags::CACHED | Flags::STORED,
        service: ServiceId::Multihoming,
        hops_left: 60,
        priority: 3,
        proxies_left: 2,
        lifetime_ms: 1_000,
        payload_bytes: 1 << 20,
        source_address: NetworkAddress(1),
        addresses: vec![NetworkAddress(2), NetworkAddress(3)],
        ..ChunkHeader::new(ChunkKind::Data(tag), guid(0xaa), guid(0xbb), NetworkAddress::NONE)
    }
}

#[test]
fn golden_chunk_header() {
    let bytes = hex("00 29 0004 3c 03 02 000003e8 00100000 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 00000001 \
         bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb 02 00000002 00000003 \
         11111111111111111111111111111111 00000006 0000000000000005 00000002 00000009 00100000 01 0001 0008");
    let message = ChunkHeader::new(ChunkKind::Transport(Token(5)), guid(0xaa), guid(0xbb), NetworkAddress::NONE);
    let of_message = hex("01 00 0000 40 00 00 00000000 00000000 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 00000000 \
         bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb 00 0000000000000005");
    let decode = |bytes: &[u8]| ChunkHeader::decode(bytes).map(|(header, _)| header);
    agree(&of_message, &message, decode, ChunkHeader::encode);
    assert_eq!(message.len(), of_message.len());
    let header = data_header();
    let decode = |bytes: &[u8]| ChunkHeader::decode(bytes).map(|(header, _)| header);
    agree(&bytes, &header, decode, ChunkHeader::encode);
    assert_eq!(header.len(), bytes.len());
    for cut in 0..bytes.len() {
        assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    let with = |at: usize, value: u8| {
        let mut bad = bytes.clone();
        bad[at] = value;
        decode(&bad)
    };
    for (at, value, field) in [
        (0, 4, "chunk kind"),
        (1, 0x80, "flags"),
        (3, 3, "service"),
        (4, HOPS_MAX + 1, "hops left"),
        (11, 0xff, "payload bytes"),
        (59, 11, "addresses"),
        (99, 9, "chunk number"),
        (104, 0xff, "chunk bytes"),
        (108, 3, "reliability"),
    ] {
        let found = with(at, value);
        assert!(matches!(found, Err(WireError::Value { field: f, .. }) if f == field), "{field}: {found:?}");
    }
    let kept = ChunkHeader { custodian: Some(Custodian { guid: guid(0xcc), address: NetworkAddress(7) }), ..header };
    let mut of_kept = [&bytes[..], &hex("cccccccccccccccccccccccccccccccccccccccc 00000007")].concat();
    of_kept[1] = 0x69;
    agree(&of_kept, &kept, decode, ChunkHeader::encode);
    assert_eq!(kept.len(), of_kept.len());
    assert!((0..of_kept.len()).all(|cut| decode(&of_kept[..cut]).is_err()));
    let mut message_kept = of_message.clone();
    message_kept[1] = 0x40;
    let refused = decode(&[&message_kept[..], &[0; 24]].concat());
    assert_eq!(refused, Err(WireError::Value { field: "flags", found: 0x40 }), "messages have no custodian");
    let fullest = ChunkHeader { addresses: vec![NetworkAddress(1); ADDRESSES_MAX], ..kept };
    assert_eq!(fullest.len(), CHUNK_HEADER_BYTES_MAX);
    assert!(fullest.len() + DataHeader::BYTES <= tributary_core::HEAD_BYTES_MAX);
}

#[test]
fn golden_transport_messages() {
    use TransportBody as M;
    let (transfer, object) = (6, ObjectId([0x11; 16]));
    let (flow, chunks) = (Flow { source: guid(0xaa), destination: guid(0xbb) }, ChunkRanges::from_ascending([1, 2, 5]));
    let (a, b, c, id) = (
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
        "cccccccccccccccccccccccccccccccccccccccc",
        "00000006 11111111111111111111111111111111",
    );
    let runs = "02 00000001 00000002 00000005 00000001";
    for (bytes, message) in [
        (
            alloc::format!("01 {id} 00100000 01 0008 {runs}"),
            M::Request { chunk_bytes: 1 << 20, reliability: Reliability::Nack, buffer_chunks: 8, held: chunks.clone() },
        ),
        (
            alloc::format!("02 {id} 0001 0010 00000003 {runs}"),
            M::Status { window: 1, advice_chunks: 16, sequence: 3, missing: chunks.clone() },
        ),
        (alloc::format!("03 {id} 01 {runs}"), M::Ack { complete: true, chunks: chunks.clone() }),
        (
            alloc::format!("04 {id} {a} {b} {c} 00000007 {runs}"),
            M::Stored { flow, proxy: guid(0xcc), address: NetworkAddress(7), chunks: chunks.clone() },
        ),
        (alloc::format!("05 {id} {a} {b} {c} {runs}"), M::Dropped { flow, proxy: guid(0xcc), chunks: chunks.clone() }),
        (alloc::format!("06 {id} {a} {b} {runs}"), M::Push { flow, chunks: chunks.clone() }),
        (alloc::format!("07 {id}"), M::Unavailable),
        (
            alloc::format!("09 {id} {a} {b} 01 {runs}"),
            M::Custody { flow, state: CustodyState::Taken, chunks: chunks.clone() },
        ),
        (alloc::format!("0a {id} 02"), M::Unreadable { why: Unavailable::Gone }),
        (alloc::format!("0b {id} {a} {b} 0036ee80"), M::KeptFor { flow, lifetime_ms: 3_600_000 }),
    ] {
        check(&hex(&bytes), &message.about(transfer, object), TransportMessage::decode, TransportMessage::encode);
    }
    let unknown = TransportMessage::decode(&hex(&alloc::format!("09 {id} {a} {b} 05 00")));
    assert_eq!(unknown, Err(WireError::Value { field: "custody", found: 5 }));
    // All possible numbers: a receiver must not iterate over them.
    let all = hex(&alloc::format!("06 {id} {a} {b} 01 00000000 ffffffff"));
    let Ok(TransportMessage { body: M::Push { chunks, .. }, .. }) = TransportMessage::decode(&all) else {
        panic!("it is legal")
    };
    assert_eq!(chunks.runs(), [(0, u32::MAX)]);
    assert_eq!(chunks.without([0, 7, 8, u32::MAX - 1]).runs(), [(1, 6), (9, u32::MAX - 10)]);
    assert_eq!(ChunkRanges::from_ascending([3, 4, 9]).without([1, 3, 5, 9, 11]).runs(), [(4, 1)]);
    for (runs, field) in [
        ("02 00000001 00000002 00000003 00000001", "first chunk"),
        ("02 00000005 00000001 00000001 00000001", "first chunk"),
        ("01 00000001 00000000", "chunk count"),
        ("01 ffffffff 00000001", "chunk count"),
        ("79", "chunk ranges"),
    ] {
        let found = TransportMessage::decode(&hex(&alloc::format!("03 {id} 00 {runs}")));
        assert!(matches!(found, Err(WireError::Value { field: f, .. }) if f == field), "{runs}: {found:?}");
    }
}

#[test]
fn golden_link_state() {
    let state = LinkState {
        router: NetworkAddress(1),
        guid: guid(0xaa),
        sequence: 3,
        boot: 5,
        roles: Roles::ROUTER | Roles::RESOLVER,
        storage_free: 100,
        label: "r1".into(),
        links: vec![Adjacency { neighbour: NetworkAddress(2), short_us: 5_000, long_us: 4_000 }],
    };
    let bytes =
        hex("00000001 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 0000000000000003 0000000000000005 03 64 0002 7231 \
         01 00000002 00001388 00000fa0");
    check(&bytes, &state, LinkState::decode, LinkState::encode);
    let mut sealed = bytes.clone();
    seal(&[1; 32], &mut sealed);
    assert_eq!(unseal(&[1; 32], &sealed), Ok(&bytes[..]));
    assert!(unseal(&[2; 32], &sealed).is_err() && unseal(&[1; 32], &sealed[..sealed.len() - 1]).is_err());
    sealed[0] ^= 1;
    assert_eq!(unseal(&[1; 32], &sealed), Err(WireError::Forged { field: "message of the network" }));
    let unordered = LinkState { links: vec![state.links[0], state.links[0]], ..state };
    let mut bytes = Vec::new();
    unordered.encode(&mut bytes);
    assert_eq!(LinkState::decode(&bytes), Err(WireError::Value { field: "neighbour", found: 2 }));
}

fn statement(body: RecordBody) -> Statement {
    Statement {
        key: key().public(),
        version: 4,
        lifetime_ms: 30_000,
        ends: None,
        label: "x".into(),
        body,
        readers: Readers::All,
    }
}

#[test]
fn golden_name_record() {
    let record = NameRecord::sign(statement(RecordBody::Device(vec![(NetworkAddress(7), 200)])), &key()).unwrap();
    let bytes = record.encode();
    let signed = hex("00 ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c 0000000000000004 00007530 \
         0001 78 \
         01 00000007 c8");
    assert_eq!(bytes[..signed.len()], signed);
    assert_eq!(bytes.len(), signed.len() + 64);
    assert_eq!(NameRecord::decode(&bytes), Ok(record.clone()));
    assert_eq!((record.guid(), record.author()), (Guid::of(&key().public(), b""), Guid::of(&key().public(), b"")));
    for bit in 0..bytes.len() * 8 {
        let mut forged = bytes.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        assert!(NameRecord::decode(&forged).is_err(), "bit {bit}");
    }
    for cut in 0..bytes.len() {
        assert!(NameRecord::decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
}

#[test]
fn golden_name_record_with_readers() {
    let body = || RecordBody::Device(vec![(NetworkAddress(7), 200)]);
    let readers = Readers::Only([guid(0xbb), guid(0xcc)].into());
    let signed = |readers: Readers| NameRecord::sign(Statement { readers, ..statement(body()) }, &key());
    let record = signed(readers).unwrap();
    let bytes = record.encode();
    let expected =
        hex("80 ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c 0000000000000004 00007530 \
         0001 78 01 00000007 c8 \
         02 bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb cccccccccccccccccccccccccccccccccccccccc");
    assert_eq!(bytes[..bytes.len() - 64], expected);
    assert_eq!(NameRecord::decode(&bytes), Ok(record.clone()));
    for (device, may) in [(guid(0xbb), true), (guid(0xcc), true), (guid(0xdd), false), (record.author(), true)] {
        assert_eq!(record.may_be_read_by(&device), may);
        assert_eq!(NameRecord::bytes_may_be_read_by(&bytes, &device), may);
    }
    assert!(!NameRecord::bytes_may_be_read_by(&bytes[..70], &guid(0xbb)), "what is malformed is for nobody");
    // "The author alone" differs from "everybody".
    let nobody = signed(Readers::Only([].into())).unwrap();
    assert!(!nobody.may_be_read_by(&guid(0xbb)) && NameRecord::decode(&nobody.encode()) == Ok(nobody));
    assert!(signed(Readers::All).unwrap().may_be_read_by(&guid(0xbb)));
    // Duplicates, disorder, and too many readers.
    let many = Readers::Only((0..=64).map(guid).collect());
    assert_eq!(signed(many), Err(WireError::Value { field: "readers", found: 65 }));
    let mut unordered = expected.clone();
    let at = expected.len() - 40;
    unordered[at..at + 20].copy_from_slice(&[0xcc; 20]);
    unordered.extend_from_slice(&[0; 64]);
    assert_eq!(NameRecord::decode(&unordered), Err(WireError::Value { field: "reader", found: 0xcc }));
}

#[test]
fn golden_sealed_head() {
    let head = SealedHead { from: (NetworkAddress(1), 11), to: (NetworkAddress(2), 22), number: 3 };
    let bytes = hex("09 00000001 000000000000000b 00000002 0000000000000016 0000000000000003 beef");
    assert_eq!(SealedHead::decode(&bytes), Ok((head, &[0xbe, 0xef][..])));
    let mut out = Vec::new();
    head.encode(&mut out);
    assert_eq!(out, bytes[..bytes.len() - 2]);
    assert!(SealedHead::is_at(&bytes) && !SealedHead::is_at(&bytes[1..]));
    assert_eq!(SealedHead::decode(&bytes[1..]), Err(WireError::Value { field: "message kind", found: 0 }));
    assert!(SealedHead::decode(&bytes[..20]).is_err());
}

#[test]
fn a_record_of_content_belongs_to_the_places_that_its_manifest_proves() {
    let publisher = SigningKey::from_secret(&[3; 32]);
    let object = MemoryObject::new("/a/b".parse().unwrap(), vec![1; 10], &publisher).unwrap();
    let manifest: &Manifest = object.manifest();
    let record = NameRecord::sign(statement(RecordBody::Content(manifest.encode())), &key()).unwrap();
    let name = |text: &str| Guid::of_name(&text.parse().unwrap());
    let content = Guid::of_content(&publisher.public(), &manifest.name);
    assert_eq!(record.places(), [content, name("/a/b"), name("/a")], "what is above is told by records of scopes");
    assert_eq!(record.manifest().as_ref(), Some(manifest));
    let mut altered = manifest.encode();
    altered[10] ^= 1;
    let refused = NameRecord::sign(statement(RecordBody::Content(altered)), &key());
    assert_eq!(refused, Err(WireError::Forged { field: "manifest of the content" }));
}

#[test]
fn golden_name_messages() {
    use NameMessage as M;
    let place = guid(0xaa);
    let [a, b, c] = ["aa", "bb", "cc"].map(|byte| byte.repeat(20));
    let key = (guid(0xbb), guid(0xcc));
    for (bytes, message) in [
        (alloc::format!("01 00000009 {a} 0002 beef"), M::Put { request: 9, place, record: vec![0xbe, 0xef] }),
        ("02 00000009 05".into(), M::Done { request: 9, replicas: 5 }),
        ("03 00000009 0000000000000007".into(), M::Stale { request: 9, current: 7 }),
        ("04 00000009 01".into(), M::Refused { request: 9, refusal: Refusal::Forged }),
        (alloc::format!("05 00000009 {a}"), M::Lookup { request: 9, place }),
        (alloc::format!("06 00000009 {a} 01 0001 ff"), M::Found { request: 9, place, records: vec![vec![0xff]] }),
        (
            alloc::format!("07 00000009 {a} 00007530 0000000000000005"),
            M::Watch { request: 9, place, lease_ms: 30_000, known: 5 },
        ),
        (alloc::format!("08 {a} 0001 ff"), M::Notify { place, record: vec![0xff] }),
        (alloc::format!("0a 00000009 {a} {b} {c}"), M::Next { request: 9, place, after: key }),
        (
            alloc::format!("0b 00000009 {a} 02 {b} {c} 01 0001 ff"),
            M::Page { request: 9, place, ends: (None, Some(key)), records: vec![vec![0xff]] },
        ),
        (
            alloc::format!("0b 00000009 {a} 01 {b} {c} 00"),
            M::Page { request: 9, place, ends: (Some(key), None), records: vec![] },
        ),
        (
            alloc::format!(
                "0c 00000009 {a} 00007530 0002 0003 00000002 0000000000000007 03ff 00000001 0000000000000008"
            ),
            M::Renew {
                request: 9,
                author: place,
                lease_ms: 30_000,
                holdings: vec![Holding { bucket: 3, count: 2, sum: 7 }, Holding { bucket: 1_023, count: 1, sum: 8 }],
            },
        ),
        ("0d 00000009 0002 0003 03ff".into(), M::Renewed { request: 9, missing: vec![3, 1_023] }),
        (
            alloc::format!("0e 0002 0006 02 00000009 05 0019 05 00000009 {a}"),
            M::Many(vec![M::Done { request: 9, replicas: 5 }, M::Lookup { request: 9, place }]),
        ),
    ] {
        check(&hex(&bytes), &message, M::decode, M::encode);
    }
    for (bytes, error) in [
        ("0d 00000009 0002 0003 0003", WireError::Value { field: "bucket", found: 3 }),
        ("0d 00000009 0001 0400", WireError::Value { field: "bucket", found: 1_024 }),
        ("0d 00000009 0401", WireError::Value { field: "bucket", found: 1_025 }),
        ("0e 0001 0003 0e 0000", WireError::Value { field: "message kind", found: 14 }),
        ("0e 0201", WireError::Value { field: "messages", found: 513 }),
        ("0e 0001 0001 02", WireError::Short { field: "request", needs: 4, has: 0 }),
    ] {
        assert_eq!(M::decode(&hex(bytes)), Err(error), "{bytes}");
    }
}

proptest! {
    #[test]
    fn a_cack_says_exactly_which_packets_are_here(here: Vec<bool>) {
        let count = here.len() as u16;
        let (first_missing, bitmap) = Cack::describe(0..count, |index| here[usize::from(index)]);
        let cack = Cack {
            state: CackState::Partial, hop: HopId(1), number: 2, window: 3, destination_window: 4, duplicates: 0, first_missing, bitmap,
        };
        let mut bytes = Vec::new();
        cack.encode(&mut bytes);
        prop_assert_eq!(Cack::decode(&bytes), Ok(cack.clone()));
        for (index, here) in here.iter().enumerate() {
            prop_assert_eq!(cack.has(index as u16), *here);
        }
    }

    #[test]
    fn ranges_hold_what_they_were_made_of(numbers in prop::collection::btree_set(0u32..400, 0..300)) {
        let ranges = ChunkRanges::from_ascending(numbers.iter().copied());
        prop_assert!(ranges.runs().len() <= RANGES_MAX);
        prop_assert!(ranges.iter().eq(numbers.iter().copied().take(ranges.iter().count())));
        prop_assert!(numbers.iter().all(|number| ranges.contains(*number)) || ranges.runs().len() == RANGES_MAX);
        let message = TransportBody::Ack { complete: false, chunks: ranges }.about(1, ObjectId([1; 16]));
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        prop_assert_eq!(TransportMessage::decode(&bytes), Ok(message));
    }

    #[test]
    fn ranges_of_another_cut_are_what_lies_wholly_in_them(
        numbers in prop::collection::btree_set(0u32..60, 0..60), from in 1u32..9, to in 1u32..9, count in 1u32..40,
    ) {
        let ranges = ChunkRanges::from_ascending(numbers.iter().copied());
        let recut = ranges.recut(from, (to, count));
        for number in 1..count {
            let mut bytes = (number - 1) * to..number * to;
            prop_assert_eq!(recut.contains(number), bytes.all(|byte| numbers.contains(&(byte / from + 1))), "{}", number);
        }
        prop_assert_eq!(recut.contains(0), numbers.contains(&0));
        prop_assert!(from == to || recut.iter().all(|number| number < count));
        prop_assert!(recut.runs().windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0));
    }

    #[test]
    fn any_bytes_are_refused_or_re_emitted(mut bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0u8..18) {
        if let Some(first) = bytes.first_mut() {
            *first = if kind < 4 { VERSION << 4 | (kind + 1) } else { kind - 3 };
        }
        re_emits(&bytes, Csyn::decode, Csyn::encode);
        re_emits(&bytes, Cack::decode, Cack::encode);
        re_emits(&bytes, Hello::decode, Hello::encode);
        re_emits(&bytes, TransportMessage::decode, TransportMessage::encode);
        re_emits(&bytes, NameMessage::decode, NameMessage::encode);
        re_emits(&bytes, LinkState::decode, LinkState::encode);
        re_emits(&bytes, NameRecord::decode, |record: &NameRecord, out: &mut Vec<u8>| out.extend(record.encode()));
        if let Ok((header, len)) = ChunkHeader::decode(&bytes) {
            let mut out = Vec::new();
            header.encode(&mut out);
            prop_assert_eq!(&out[..], &bytes[..len]);
            prop_assert_eq!(header.len(), len);
        }
        if let Ok(header) = DataHeader::decode(&bytes) {
            prop_assert_eq!(&header.to_bytes()[..], &bytes[..DataHeader::BYTES]);
        }
    }
}
fn re_emits<T>(bytes: &[u8], decode: impl Fn(&[u8]) -> Result<T, WireError>, encode: impl Fn(&T, &mut Vec<u8>)) {
    if let Ok(value) = decode(bytes) {
        let mut out = Vec::new();
        encode(&value, &mut out);
        assert_eq!(out, bytes);
    }
}

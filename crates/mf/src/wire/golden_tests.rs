//! Golden packets, malformed ones, and properties of the parsers.
use alloc::{format, string::String, vec, vec::Vec};
use core::fmt;

use proptest::prelude::*;
use tributary_content::{Manifest, MemoryObject, ObjectId, SigningKey, store::ObjectReader};
use tributary_testkit::golden;

use super::{chunk::CHUNK_HEADER_BYTES_MAX, transport::RANGES_MAX, *};
use crate::ids::{Guid, HopId, NetworkAddress};

/// Whole packets, with which the dissector for Wireshark is tested too.
const PACKETS: &str = include_str!("../../tests/golden/packets.txt");

/// The bytes of the packet of that name.
fn packet(name: &str) -> Vec<u8> {
    golden::parse(PACKETS).unwrap().into_iter().find(|packet| packet.name == name).unwrap().bytes
}
/// The header of the chunk in the packet of that name, and what follows it.
fn chunk(name: &str) -> (ChunkHeader, Vec<u8>) {
    let bytes = packet(name).split_off(DataHeader::BYTES);
    let (header, len) = ChunkHeader::decode(&bytes).unwrap();
    (header, bytes[len..].to_vec())
}
fn guid(byte: u8) -> Guid {
    Guid([byte; 20])
}
fn key() -> SigningKey {
    SigningKey::from_secret(&[7; 32])
}

/// What a packet says, one part after the other, and the packet as it is encoded again.
struct Parts(Vec<String>, Vec<u8>);

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}
impl Parts {
    fn decode(bytes: &[u8]) -> Result<Parts, WireError> {
        let mut parts = Parts(Vec::new(), Vec::new());
        match PacketType::of(bytes[0])? {
            PacketType::Hello => parts.add(Hello::decode(bytes)?, Hello::encode),
            PacketType::Csyn => parts.add(Csyn::decode(bytes)?, Csyn::encode),
            PacketType::Cack => parts.add(Cack::decode(bytes)?, Cack::encode),
            PacketType::Mtu => parts.add(MtuMessage::decode(bytes)?, MtuMessage::encode),
            PacketType::Data => parts.add_data(bytes)?,
        }
        Ok(parts)
    }
    fn add<T: fmt::Debug>(&mut self, part: T, encode: impl Fn(&T, &mut Vec<u8>)) {
        encode(&part, &mut self.1);
        self.0.push(format!("{part:?}"));
    }
    fn add_data(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        let hop = DataHeader::decode(bytes)?;
        self.add(hop, DataHeader::encode);
        let rest = &bytes[DataHeader::BYTES..];
        if hop.index > 0 {
            self.1.extend_from_slice(rest);
            return Ok(());
        }
        let (header, len) = ChunkHeader::decode(rest)?;
        let (kind, payload) = (header.kind, &rest[len..]);
        assert_eq!(header.len(), len);
        assert!(hop.count > 1 || payload.len() == header.payload_bytes as usize);
        self.add(header, ChunkHeader::encode);
        match kind {
            ChunkKind::Data(_) => self.1.extend_from_slice(payload),
            ChunkKind::Transport(_) => self.add(TransportMessage::decode(payload)?, TransportMessage::encode),
            ChunkKind::Names => self.add(NameMessage::decode(payload)?, NameMessage::encode),
            ChunkKind::LinkState => self.add(LinkState::decode(payload)?, LinkState::encode),
        }
        Ok(())
    }
}

#[test]
fn golden_packets_say_what_is_told_and_come_back() {
    let packets = golden::parse(PACKETS).unwrap();
    let differences: Vec<String> = packets
        .iter()
        .filter_map(|packet| packet.difference(Parts::decode, |parts, out| out.extend_from_slice(&parts.1)))
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn no_part_of_a_golden_packet_is_one() {
    fn ends<T>(bytes: &[u8], decode: impl Fn(&[u8]) -> Result<T, WireError>) {
        assert!((0..bytes.len()).all(|cut| decode(&bytes[..cut]).is_err()), "{bytes:02x?}");
        assert!(decode(&[bytes, &[0]].concat()).is_err(), "{bytes:02x?}");
    }
    for packet in golden::parse(PACKETS).unwrap().into_iter().filter(|packet| packet.error.is_none()) {
        let bytes = &packet.bytes;
        match PacketType::of(bytes[0]).unwrap() {
            PacketType::Hello => ends(bytes, Hello::decode),
            PacketType::Csyn => ends(bytes, Csyn::decode),
            PacketType::Data if DataHeader::decode(bytes).unwrap().index == 0 => {
                let (header, payload) = chunk(&packet.name);
                let header_bytes = &bytes[DataHeader::BYTES..bytes.len() - payload.len()];
                assert!((0..header_bytes.len()).all(|cut| ChunkHeader::decode(&header_bytes[..cut]).is_err()));
                match header.kind {
                    ChunkKind::Data(_) => {}
                    ChunkKind::Transport(_) => ends(&payload, TransportMessage::decode),
                    ChunkKind::Names => ends(&payload, NameMessage::decode),
                    ChunkKind::LinkState => ends(&payload, LinkState::decode),
                }
            }
            // A CACK is as long as its bitmap, a probe as its padding.
            PacketType::Data | PacketType::Cack | PacketType::Mtu => {}
        }
    }
}

#[test]
fn a_hello_is_proven_by_its_key_and_by_nothing_else() {
    let mut hello = Hello::decode(&packet("hello of a router")).unwrap();
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

#[test]
fn the_longest_headers_fit_in_front_of_a_payload() {
    let (kept, _) = chunk("the same with a custodian");
    let fullest = ChunkHeader { addresses: vec![NetworkAddress(1); ADDRESSES_MAX], ..kept };
    assert_eq!(fullest.len(), CHUNK_HEADER_BYTES_MAX);
    assert!(fullest.len() + DataHeader::BYTES <= tributary_core::HEAD_BYTES_MAX);
}

#[test]
fn runs_of_chunks_are_cut_by_those_that_are_here() {
    // All possible numbers: a receiver must not iterate over them.
    let (_, all) = chunk("transport: push of all numbers that there may be");
    let Ok(TransportMessage { body: TransportBody::Push { chunks, .. }, .. }) = TransportMessage::decode(&all) else {
        panic!("it is legal")
    };
    assert_eq!(chunks.runs(), [(0, u32::MAX)]);
    assert_eq!(chunks.without([0, 7, 8, u32::MAX - 1]).runs(), [(1, 6), (9, u32::MAX - 10)]);
    assert_eq!(ChunkRanges::from_ascending([3, 4, 9]).without([1, 3, 5, 9, 11]).runs(), [(4, 1)]);
}

#[test]
fn link_state_is_sealed_with_the_key_of_the_network() {
    let (_, bytes) = chunk("link state, its code left out");
    let mut sealed = bytes.clone();
    seal(&[1; 32], &mut sealed);
    assert_eq!(unseal(&[1; 32], &sealed), Ok(&bytes[..]));
    assert!(unseal(&[2; 32], &sealed).is_err() && unseal(&[1; 32], &sealed[..sealed.len() - 1]).is_err());
    sealed[0] ^= 1;
    assert_eq!(unseal(&[1; 32], &sealed), Err(WireError::Forged { field: "message of the network" }));
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
    let signed = golden::bytes(
        "00 ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c 0000000000000004 00007530 \
         0001 78 \
         01 00000007 c8",
    );
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
    let expected = golden::bytes(
        "80 ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c 0000000000000004 00007530 \
         0001 78 01 00000007 c8 \
         02 bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb cccccccccccccccccccccccccccccccccccccccc",
    );
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
    let bytes = golden::bytes("09 00000001 000000000000000b 00000002 0000000000000016 0000000000000003 beef");
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

proptest! {
    #[test]
    fn a_cack_says_exactly_which_packets_are_here(here: Vec<bool>) {
        let count = here.len() as u16;
        let (first_missing, bitmap) = Cack::describe(0..count, |index| here[usize::from(index)]);
        let cack = Cack {
            state: CackState::Partial, hop: HopId(1), number: 2, window: 3, destination_window: 4, duplicates: 0, marked: 5, first_missing, bitmap,
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
}

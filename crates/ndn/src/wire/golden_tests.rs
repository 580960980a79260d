//! Packets written by hand from the packet format 0.3 and NDNLPv2, field by field; and properties of all packets.
use alloc::{string::ToString, vec::Vec};

use proptest::prelude::*;
use tributary_content::Name;
use tributary_testkit::golden;

use super::*;
use crate::ids::Nonce;

const GOLDEN: &str = include_str!("../../tests/golden/packets.txt");

fn read(bytes: &[u8]) -> Result<(Vec<u8>, bool), WireError> {
    match packet_type(bytes) {
        Some(types::INTEREST) => Interest::decode(bytes).map(|packet| (packet.encode(), packet.is_canonical())),
        Some(types::DATA) => Data::decode(bytes).map(|packet| (packet.encode(), packet.is_canonical())),
        Some(types::LP_PACKET) => LpPacket::decode(bytes).map(|packet| (packet.encode(), packet.is_canonical)),
        Some(kind) => Err(WireError::Type(kind)),
        None => Err(WireError::Number("packet", 0)),
    }
}

#[test]
fn golden_packets_are_read_as_told_and_come_back() {
    for packet in golden::parse(GOLDEN).unwrap() {
        let result = read(&packet.bytes);
        match (&packet.error, result) {
            (Some(expected), result) => {
                let error = result.expect_err(&packet.name);
                assert_eq!(&error.to_string(), expected, "{} (line {})", packet.name, packet.line);
            }
            (None, Ok((again, true))) => assert_eq!(hex(&again), hex(&packet.bytes), "{}", packet.name),
            (None, Ok((_, false))) => assert!(packet.name.contains("all elements"), "{}", packet.name),
            (None, Err(error)) => panic!("{} (line {}): {error}", packet.name, packet.line),
        }
    }
}

#[test]
fn the_interest_with_all_elements_says_what_was_written() {
    let packets = golden::parse(GOLDEN).unwrap();
    let bytes = &packets.iter().find(|packet| packet.name.contains("all elements")).unwrap().bytes;
    let interest = Interest::decode(bytes).unwrap();
    assert!(interest.can_be_prefix && interest.must_be_fresh);
    assert_eq!(interest.name.prefix(2).to_name(), "/ab/c".parse());
    assert_eq!(interest.hints().map(|hint| hint.to_name()).collect::<Vec<_>>(), ["/x/y".parse()]);
    assert_eq!((interest.nonce, interest.hop_limit), (Some(Nonce([0xde, 0xad, 0xbe, 0xef])), Some(64)));
    assert_eq!(interest.lifetime().as_millis(), 4000);
    let info = interest.signature.unwrap();
    assert_eq!((info.kind, info.time, info.sequence), (SignatureType::DigestSha256, Some(1), Some(7)));
    assert!(!interest.is_canonical() && !interest.digest_is_right());
}

prop_compose! {
    fn any_name()(parts in proptest::collection::vec(
        (prop_oneof![Just(8u16), Just(50), Just(54), Just(32), 3u16..65_535], proptest::collection::vec(any::<u8>(), 0..12)),
        1..8,
    )) -> Name {
        parts.iter().try_fold(Name::root(), |name, (kind, value)| name.typed_child(*kind, value)).unwrap()
    }
}

proptest! {
    #[test]
    fn any_interest_comes_back(
        name in any_name(), hint in proptest::option::of(any_name()), flags in any::<[bool; 3]>(),
        nonce in proptest::option::of(any::<[u8; 4]>()), lifetime in proptest::option::of(any::<u64>()),
        hops in proptest::option::of(any::<u8>()), parameters in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..50)),
        key in any::<[u8; 32]>(),
    ) {
        let mut encoded_hint = Vec::new();
        tlv::Writer::put_element(&mut encoded_hint, types::NAME, hint.as_ref().map_or(&[][..], |hint| hint.as_tlv()));
        let interest = Interest {
            can_be_prefix: flags[0], must_be_fresh: flags[1],
            forwarding_hint: hint.is_some().then_some(&encoded_hint[..]),
            nonce: nonce.map(Nonce), lifetime_millis: lifetime, hop_limit: hops,
            ..Interest::new(NameView::from(&name))
        };
        let bytes = interest.encode();
        let read = Interest::decode(&bytes).unwrap();
        prop_assert!(read.is_canonical() && read.digest_is_right());
        prop_assert_eq!(Interest { source: Default::default(), ..read.clone() }, interest.clone());
        if let (Some(at), Some(hops)) = (read.source.hop_limit_at, hops) {
            prop_assert_eq!(bytes[at], hops);
        }
        if let (Some(at), Some(nonce)) = (read.nonce_at(), nonce) {
            prop_assert_eq!(&bytes[at..at + 4], &nonce);
        }
        if let Some(parameters) = parameters {
            let key = flags[2].then(|| SignKey::ed25519(&key));
            let bytes = interest::with_parameters(&Interest { parameters: Some(&parameters), ..interest }, key.as_ref());
            let read = Interest::decode(&bytes).unwrap();
            prop_assert!(read.is_canonical() && read.digest_is_right());
            prop_assert_eq!(read.parameters, Some(&parameters[..]));
            prop_assert_eq!(key.is_some_and(|key| read.is_signed_by(&key.verify_key())), flags[2]);
            prop_assert_eq!(read.encode(), bytes);
        }
    }
    #[test]
    fn any_data_comes_back(
        name in any_name(), last in proptest::option::of(any::<u32>()), freshness in proptest::option::of(any::<u64>()),
        kind in proptest::option::of(0u64..2000), content in proptest::collection::vec(any::<u8>(), 0..300),
        key in any::<[u8; 32]>(),
    ) {
        let block = last.map(|last| "/".parse::<Name>().unwrap().typed_child(types::SEGMENT, &last.to_be_bytes()).unwrap());
        let meta = MetaInfo {
            content_type: kind.map(ContentType::from), freshness_millis: freshness,
            final_block_id: block.as_ref().map(|block| &block.as_tlv()[..]),
        };
        let data = Data { meta: Some(meta), ..Data::new(NameView::from(&name), &content) };
        let key = SignKey::ed25519(&key);
        let bytes = data.sign(&key);
        let read = Data::decode(&bytes).unwrap();
        prop_assert!(read.is_canonical() && read.is_signed_by(&key.verify_key()));
        prop_assert_eq!((read.name, read.meta, read.content), (data.name, data.meta, data.content));
        prop_assert_eq!(read.encode(), bytes);
    }
}

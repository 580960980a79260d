//! Packets written by hand from the packet format 0.3 and NDNLPv2, field by field; and properties of all packets.
use alloc::{string::ToString, vec::Vec};

use proptest::prelude::*;
use tributary_content::Name;
use tributary_testkit::golden;

use super::*;
use crate::ids::Nonce;

const GOLDEN: &str = "
== interest, name only
05 06  07 04  08 02 6e6f                       # /no
== interest with all elements
05 81                                          # 129 bytes
  07 29                                        # Name: /ab/params-sha256=… , 41 bytes
    08 02 6162   08 01 63
    02 20 6c84e2ff92acd2a331f6a2fb1ac8df2d0bd26ec3d0edf7f0a83b9e0f6a7d9da6
  21 00                                        # CanBePrefix
  12 00                                        # MustBeFresh
  1e 08  07 06 08 01 78 08 01 79               # ForwardingHint /x/y
  0a 04 deadbeef                               # Nonce
  0c 02 0fa0                                   # InterestLifetime 4000
  22 01 40                                     # HopLimit 64
  24 03 010203                                 # ApplicationParameters
  2c 12                                        # InterestSignatureInfo, 18 bytes
    1b 01 00                                   # SHA-256
    26 04 01020304                             # SignatureNonce
    28 02 0001                                 # SignatureTime in two bytes: not its shortest form
    2a 01 07                                   # SignatureSeqNum
    f0 00                                      # unknown, ignored
  2e 20 0000000000000000 0000000000000000 0000000000000000 0000000000000000
== interest, long type and length
05 fd0106                                      # length 262 in three bytes
  07 fd0102  fd0140 fc                         # one component of type 320 and 252 bytes
    00000000000000000000000000000000 00000000000000000000000000000000 00000000000000000000000000000000 00000000000000000000000000000000
    00000000000000000000000000000000 00000000000000000000000000000000 00000000000000000000000000000000 00000000000000000000000000000000
    00000000000000000000000000000000 00000000000000000000000000000000 00000000000000000000000000000000 00000000000000000000000000000000
    00000000000000000000000000000000 00000000000000000000000000000000 00000000000000000000000000000000 000000000000000000000000
    fd 00                                      # … and a component whose type is cut
! packet ends inside Name: needs 3 bytes, has 2
== interest without a name
05 02  21 00
! Name is missing
== interest with an empty name
05 02  07 00
! Name of an Interest cannot have 0 bytes
== interest, length not in its shortest form
05 fd0006  07 04  08 02 6e6f
! type or length at byte 1 of Interest is not in its shortest form or out of range
== interest, cut
05 06  07 04  08 02 6e
! packet ends inside Interest: needs 6 bytes, has 5
== interest with something behind it
05 06  07 04  08 02 6e6f  00
! 1 bytes after the end of the packet
== interest, nonce of three bytes
05 0b  07 04 08 02 6e6f  0a 03 010203
! Nonce cannot have 3 bytes
== interest, lifetime of three bytes
05 0b  07 04 08 02 6e6f  0c 03 010203
! InterestLifetime cannot have 3 bytes
== interest, critical element unknown
05 08  07 04 08 02 6e6f  23 00
! element of critical type 35 is unknown or out of place in Interest
== interest, elements out of order
05 0a  07 04 08 02 6e6f  12 00  21 00
! element of critical type 33 is unknown or out of place in Interest
== data
06 26
  07 09  08 01 61  36 01 05  32 01 00          # /a/v=5/seg=0
  14 0a  18 01 00  19 02 0fa0  1a 01 00        # cut: FinalBlockId holds no component
  15 02 6869
  16 03 1b 01 c8
  17 00
! packet ends inside Data: needs 38 bytes, has 34
== data, null signature
06 24
  07 09  08 01 61  36 01 05  32 01 00          # /a/v=5/seg=0
  14 0c  18 01 00  19 02 0fa0  1a 03 32 01 09  # blob, fresh for 4 s, last segment 9
  15 02 6869                                   # hi
  16 03 1b 01 c8                               # null
  17 00
== data without a signature
06 05  07 03 08 01 61
! SignatureInfo is missing
== digest component of one byte
06 05  07 03 01 01 61
! digest component cannot have 1 bytes
== lp: bare fragment
64 0a  50 08  05 06 07 04 08 02 6e6f
== lp: token, nack, mark, acks, sequence
64 34
  62 04 01020304                               # PIT token
  fd0320 05 fd0321 01 96                       # Nack, no route
  fd0340 01 01                                 # congestion mark
  fd0344 08 0000000000000007                   # Ack 7
  fd0348 08 0000000000000008                   # TxSequence 8
  50 06  05 04 07 02 08 00
== lp: second of two pieces
64 17  51 08 00000000000000ff  52 01 01  53 01 02  50 05 0102030405
== lp: PTP tag of two labels, probe, from a cache, failed
64 1f
  fd0380 08 a1a2a3a4 b1b2b3b4
  fd0388 00
  fd038c 01 01
  fd0390 00
  50 04 05 02 07 00
== lp: tag of ten bits
64 0d  fd0384 03 06 a5 40  50 04 05 02 07 00
== lp: tag whose unused bits are not zero
64 07  fd0384 03 06 a5 41
! unused bits of PathTagBits cannot be 6
== lp: origin unknown
64 05  fd038c 01 03
! PathOrigin cannot be 3
== lp: unknown critical header
64 04  fd0321 00
! element of critical type 801 is unknown or out of place in LpPacket
== lp: idle
64 00
== something else
80 00
! packet of type 128 is none of Interest, Data and LpPacket
";

fn read(bytes: &[u8]) -> Result<(Vec<u8>, bool), WireError> {
    match packet_type(bytes) {
        Some(types::INTEREST) => Interest::decode(bytes).map(|packet| (packet.encode(), packet.is_canonical())),
        Some(types::DATA) => Data::decode(bytes).map(|packet| (packet.encode(), packet.is_canonical())),
        Some(types::LP_PACKET) => LpPacket::decode(bytes).map(|packet| (packet.encode(), packet.is_canonical)),
        Some(kind) => Err(WireError::Type { kind }),
        None => Err(WireError::Number { field: "packet", at: 0 }),
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
        if let (Some(at), Some(hops)) = (read.hop_limit_at(), hops) {
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
    #[test]
    fn golden_packets_with_changed_bytes_never_panic_and_come_back_if_canonical(
        which in any::<prop::sample::Index>(), changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        cut in any::<prop::sample::Index>(),
    ) {
        let packets = golden::parse(GOLDEN).unwrap();
        let mut bytes = which.get(&packets).bytes.clone();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if cut.index(4) == 0 {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok((again, true)) = read(&bytes) {
            prop_assert_eq!(again, bytes);
        }
    }
}

use super::*;
use crate::wire::{
    Beacon, FidKind, Hello,
    golden::{check, hex},
};
use proptest::prelude::*;

#[test]
fn golden_link_state_reads_and_re_emits() {
    let bytes =
        hex("0000000000000a01 00000000000000aa 00000002 00000007 09 0005 7075622d31 000102030405060708090a0b0c0d0e0f
         02438760 fe95e8b0 0001 00000003 0000000000000b02 00000007 000003e8 00004e20 00000064 000005c0");
    let state = LinkState {
        node: NodeId(0xa01),
        boot: 0xaa,
        sequence: 2,
        term: 7,
        roles: Roles::ROUTER | Roles::SENDER,
        label: "pub-1".into(),
        secret: core::array::from_fn(|i| i as u8),
        location: Location::from_degrees(37.98, -23.73),
        adjacencies: [Adjacency {
            face: FaceId(3),
            neighbour: NodeId(0xb02),
            neighbour_face: FaceId(7),
            rtt_us: 1000,
            capacity_kbps: 20_000,
            used_kbps: 100,
            mtu: 1472,
        }]
        .into(),
    };
    check(&bytes, &state, LinkState::decode, LinkState::encode);
    let mut many = bytes[..56].to_vec();
    many.extend_from_slice(&[4, 1]);
    assert_eq!(LinkState::decode(&many), Err(WireError::Value { field: "number of links", found: 1025 }));
}

#[test]
fn golden_routes_read_and_re_emit() {
    let bytes = hex("0000000000000c03 00000002 00000001
         0001 0000000000000d04 000000dd 0004 726e2d31 8200 11223344 0403 8000000000000001
         02 ffff 0001 00000003 0011
         01 00000005 0707070707070707070707070707070707070707070707070707070707070707");
    let routes = Routes {
        manager: NodeId(0xc03),
        term: 2,
        sequence: 1,
        resolvers: [ResolverRoute {
            node: NodeId(0xd04),
            boot: 0xdd,
            label: "rn-1".into(),
            to: Fid::new(FidKind::List, 0, &[0x11, 0x22, 0x33, 0x44]),
            back: Fid::new(FidKind::Bloom, 3, &[0x80, 0, 0, 0, 0, 0, 0, 1]),
            key: None,
        }]
        .into(),
        bitmap: BitmapNumbers { epoch: 2, local: None, faces: [(FaceId(3), 17)].into() },
        keys: [CapabilityKey { epoch: 5, key: [7; 32] }].into(),
    };
    check(&bytes, &routes, Routes::decode, Routes::encode);
    let mut certified = routes;
    certified.resolvers[0].key = Some(PublicKey([8; 32]));
    let mut out = Vec::new();
    certified.encode(&mut out);
    assert_eq!(out, [&bytes[..], &[8; 32]].concat());
    assert_eq!(Routes::decode(&out), Ok(certified));
}

fn request() -> PathRequest {
    PathRequest {
        subscriber: NodeId(0xe05),
        transfer: 6,
        version: 5 << 32 | 7,
        item: ItemId::new(&"/a".parse().unwrap()),
        metric: PathMetric::Latency,
        paths: 4,
        lease_ms: 30_000,
        publishers: [Publisher {
            node: NodeId(0xa01),
            version: 3 << 32 | 1,
            label: "pub-1".into(),
            manifest: [1, 2, 3].into(),
        }]
        .into(),
        withdrawn: [(NodeId(0xa02), 4)].into(),
    }
}

#[test]
fn golden_path_request_reads_and_re_emits() {
    let request = request();
    let mut item = Vec::new();
    request.item.encode(&mut item);
    let bytes = [
        hex("0000000000000e05 00000006 0000000500000007"),
        item.clone(),
        hex("01 04 00007530 01 0000000000000a01 0000000300000001 0005 7075622d31 0003 010203
             01 0000000000000a02 0000000000000004"),
    ]
    .concat();
    check(&bytes, &request, PathRequest::decode, PathRequest::encode);
    for (at, found, field) in [(0, 4, "metric"), (1, 17, "number of paths"), (6, 65, "number of publishers")] {
        let mut bad = bytes.clone();
        bad[20 + item.len() + at] = found;
        assert_eq!(PathRequest::decode(&bad), Err(WireError::Value { field, found: found.into() }));
    }
}

#[test]
fn golden_overtaken_reads_and_re_emits() {
    let entries = [(MatchKey::Subscription(NodeId(0xe05), 6), 9), (MatchKey::Publisher(NodeId(0xa01)), 8)];
    let overtaken = Overtaken { item: ItemId::new(&"/a".parse().unwrap()), entries: entries.into() };
    let mut bytes = Vec::new();
    overtaken.item.encode(&mut bytes);
    let item = bytes.len();
    bytes.extend(hex("02 01 0000000000000e05 00000006 0000000000000009 00 0000000000000a01 0000000000000008"));
    check(&bytes, &overtaken, Overtaken::decode, Overtaken::encode);
    for (at, found, field) in [(0, 66, "number of entries"), (1, 2, "entry kind")] {
        let mut bad = bytes.clone();
        bad[item + at] = found;
        assert_eq!(Overtaken::decode(&bad), Err(WireError::Value { field, found: found.into() }));
    }
}

#[test]
fn golden_offer_reads_and_re_emits() {
    let bytes = hex("00000006 00000002 00000003 00 01 0000000000000a01 0005 7075622d31 0003 010203 20
         01 0102 8200 11223344 8200 55667788 0501020304050607 03 000005c0 00002710 00004e20 00002710
         02 0001 00002710 0002 00000000 0006 723e666e3e70");
    let offer = Offer {
        transfer: 6,
        version: OfferVersion { term: 2, sequence: 3 },
        index: 0,
        count: 1,
        source: NodeId(0xa01),
        source_label: "pub-1".into(),
        manifest: [1, 2, 3].into(),
        fid_room: 32,
        paths: [PathOffer {
            id: 0x102,
            reverse: Fid::new(FidKind::List, 0, &[0x11, 0x22, 0x33, 0x44]),
            forward: Fid::new(FidKind::List, 0, &[0x55, 0x66, 0x77, 0x88]),
            capability: [5, 1, 2, 3, 4, 5, 6, 7],
            hops: 3,
            mtu: 1472,
            latency_us: 10_000,
            capacity_kbps: 20_000,
            residual_kbps: 10_000,
            shared_links: [(1, 10_000), (2, 0)]
                .map(|(number, residual_kbps)| SharedLink { number, residual_kbps })
                .into(),
            label: "r>fn>p".into(),
        }]
        .into(),
    };
    check(&bytes, &offer, Offer::decode, Offer::encode);

    let none = Offer::none(6, OfferVersion { term: 2, sequence: 4 });
    check(&hex("00000006 00000002 00000004 00 00"), &none, Offer::decode, Offer::encode);
    assert!(Offer::decode(&hex("00000006 00000002 00000004 01 00")).is_err());
}

/// Any bytes that decode re-emit.
fn total<T>(bytes: &[u8], decode: fn(&[u8]) -> Result<T, WireError>, encode: fn(&T, &mut Vec<u8>)) {
    if let Ok(value) = decode(bytes) {
        let mut emitted = Vec::new();
        encode(&value, &mut emitted);
        assert_eq!(emitted, bytes);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_re_emitted(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        for decode in [
            |bytes: &[u8]| total(bytes, LinkState::decode, LinkState::encode),
            |bytes: &[u8]| total(bytes, Routes::decode, Routes::encode),
            |bytes: &[u8]| total(bytes, PathRequest::decode, PathRequest::encode),
            |bytes: &[u8]| total(bytes, Overtaken::decode, Overtaken::encode),
            |bytes: &[u8]| total(bytes, Offer::decode, Offer::encode),
            |bytes: &[u8]| total(bytes, Hello::decode, Hello::encode),
            |bytes: &[u8]| total(bytes, Beacon::decode, Beacon::encode),
        ] {
            decode(&noise);
        }
    }

    #[test]
    fn damaged_messages_are_refused_or_re_emitted(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = Vec::new();
        request().encode(&mut bytes);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        total(&bytes, PathRequest::decode, PathRequest::encode);
        let offer = Offer { count: 1, source_label: "pub-1".into(), manifest: bytes, ..Offer::none(1, OfferVersion::default()) };
        let mut bytes = Vec::new();
        offer.encode(&mut bytes);
        total(&bytes, Offer::decode, Offer::encode);
    }
}

//! What a router promises.
use alloc::vec::Vec;

use proptest::prelude::*;
use tributary_content::ObjectId;
use tributary_core::TransmitBuf;

use super::*;
use crate::wire::*;

const NOW: Time = Time::ZERO;
const OPTIONS: FaceOptions = FaceOptions { mtu: 9000, rate: None };
const OBJECT: ObjectId = ObjectId([4; 16]);

fn router_with(config: RouterConfig, faces: u32) -> Router {
    let mut router = Router::new(config);
    for face in 0..faces {
        assert!(router.add_face(FaceId(face), OPTIONS));
        router.set_face_up(FaceId(face), true);
    }
    router
}
fn router(faces: u32) -> Router {
    router_with(RouterConfig::new(NodeId(0xabcd_1234), [1; 16]), faces)
}
fn list_to(router: &Router, ports: &[Port]) -> Fid {
    let labels: Vec<_> = ports.iter().map(|port| router.label_key().list(*port)).collect();
    list_fid(&labels)
}
fn bloom_to(router: &Router, ports: &[Port], len: usize, salt: u8) -> Fid {
    let mut filter = [0; labels::FILTER_WORDS_MAX];
    ports.iter().for_each(|port| router.label_key().seeds(*port, salt).bloom(len, 5).add_to(&mut filter));
    Fid::new(FidKind::Bloom, salt, &labels::filter_bytes(&filter, len))
}
fn packet(packet_type: PacketType, flags: u8, ttl: u8, fid: Fid, rest: &[u8]) -> Datagram {
    let mut bytes = Vec::new();
    Header { packet_type, flags, ttl, fid }.encode(&mut bytes);
    bytes.extend_from_slice(rest);
    bytes.into()
}
fn data(fid: Fid, number: u32, payload: &[u8]) -> Datagram {
    let mut rest = Vec::new();
    DataHeader { tag: 1, packet: number, stream: StreamKey::new(&OBJECT, 1000), origin: 7 }.encode(&mut rest);
    rest.extend_from_slice(payload);
    packet(PacketType::Data, 0, 9, fid, &rest)
}
fn sent(router: &mut Router) -> Vec<(u32, Vec<u8>)> {
    let (mut batch, mut sent) = (TransmitBuf::new(), Vec::new());
    while let Some(transmit) = router.poll_transmit(&mut batch) {
        assert!(batch.len() <= TransmitBuf::DATAGRAMS_MAX);
        sent.extend(batch.drain().map(|datagram| (transmit.face.0, datagram.to_vec())));
    }
    assert!(router.is_idle());
    sent
}
fn face(id: u32) -> Port {
    Port::Face(FaceId(id))
}

#[test]
fn a_packet_leaves_by_the_faces_of_its_fid_and_is_delivered() {
    let mut router = router(70);
    let ports = [face(3), face(69), Port::Local];
    for fid in [list_to(&router, &ports), bloom_to(&router, &ports, 64, 5)] {
        let verdict = router.forward(NOW, Some(FaceId(1)), packet(PacketType::Control, 0, 9, fid, b"x"));
        assert_eq!((verdict.copies, verdict.dropped), (2, None));
        assert_eq!(verdict.local, Some(packet(PacketType::Control, 0, 9, fid, b"x")));
        // Two copies share the 9 hops that are left.
        let expected = packet(PacketType::Control, 0, 3, fid, b"x").to_vec();
        assert_eq!(sent(&mut router), [(3, expected.clone()), (69, expected)]);
    }
}

proptest! {
    #[test]
    fn a_run_is_forwarded_as_its_packets_are(
        packets in proptest::collection::vec((0usize..5, 0u8..4, any::<u8>(), 0u32..40), 1..30),
        ttl in 0u8..4,
    ) {
        let [mut by_run, mut one_by_one] = [0, 1].map(|_| router(4));
        let ports: [&[Port]; 5] =
            [&[face(2)], &[Port::Local], &[face(1), face(2), Port::Local], &[face(9)], &[face(0), face(1)]];
        let all: Vec<Vec<u8>> = packets
            .iter()
            .map(|(ports_index, kind, flags, number)| {
                let fid = list_to(&by_run, ports[*ports_index]);
                let mut bytes = data(fid, *number, &[0; 20]).to_vec();
                bytes[1] = flags & FLAG_CACHED;
                bytes[2] = ttl;
                match kind {
                    0 => bytes[0] = (VERSION << 4) | PacketType::Control as u8,
                    1 => bytes[20] ^= flags,
                    _ => {}
                }
                bytes
            })
            .collect();
        let stride = all.iter().map(Vec::len).max().unwrap();
        let padding = |bytes: &Vec<u8>| core::iter::repeat_n(0, stride - bytes.len());
        let padded: Vec<u8> = all.iter().flat_map(|bytes| bytes.iter().copied().chain(padding(bytes))).collect();
        // The last packet of a batch may be cut anywhere.
        let cut = padded.len() - usize::from(packets[0].2) % stride;
        let run = DatagramBatch::new(padded[..cut.max(1)].to_vec().into(), stride);

        let (mut first, mut local) = (0, 0);
        while first < run.count() {
            let verdict = by_run.forward_batch(FaceId(0), &run, first);
            if verdict.packets == 0 {
                local += usize::from(by_run.forward(NOW, Some(FaceId(0)), run.datagram(first)).local.is_some());
                first += 1;
            } else {
                local += if verdict.is_local { verdict.packets } else { 0 };
                first += verdict.packets;
            }
        }
        let expected = (0..run.count()).filter(|index| {
            one_by_one.forward(NOW, Some(FaceId(0)), run.datagram(*index)).local.is_some()
        });
        prop_assert_eq!(local, expected.count());
        prop_assert_eq!(&by_run.stats, &one_by_one.stats);
        for id in 0..4 {
            prop_assert_eq!(by_run.face_stats(FaceId(id)), one_by_one.face_stats(FaceId(id)));
        }
        let caches = [&by_run, &one_by_one].map(|router| router.cache().unwrap().entries().collect::<Vec<_>>());
        prop_assert_eq!(&caches[0], &caches[1]);
        prop_assert_eq!(sent(&mut by_run), sent(&mut one_by_one));
    }
}

#[test]
fn never_back_out_of_the_face_of_arrival() {
    let mut router = router(3);
    let fid = list_to(&router, &[face(0), face(1)]);
    let verdict = router.forward(NOW, Some(FaceId(1)), packet(PacketType::Control, 0, 9, fid, b""));
    assert_eq!(verdict.copies, 1);
    assert_eq!(sent(&mut router)[0].0, 0);
    let fid = list_to(&router, &[face(1)]);
    let verdict = router.forward(NOW, Some(FaceId(1)), packet(PacketType::Control, 0, 9, fid, b""));
    assert_eq!(verdict.dropped, Some("fid matches nothing here"));
}

#[test]
fn faces_that_are_down_or_removed_get_nothing() {
    let mut router = router(3);
    let fid = list_to(&router, &[face(1)]);
    let forward = |router: &mut Router| router.forward(NOW, None, packet(PacketType::Control, 0, 9, fid, b""));
    assert_eq!(forward(&mut router).copies, 1);
    router.set_face_up(FaceId(1), false);
    assert!(sent(&mut router).is_empty());
    assert_eq!(forward(&mut router).dropped, Some("fid matches nothing here"));
    router.set_face_up(FaceId(1), true);
    assert_eq!(forward(&mut router).copies, 1);
    router.remove_face(FaceId(1));
    assert!(sent(&mut router).is_empty());
    assert_eq!(forward(&mut router).dropped, Some("fid matches nothing here"));
}

#[test]
fn the_last_hop_delivers_and_the_next_one_would_not() {
    let mut router = router(2);
    let fid = list_to(&router, &[face(1), Port::Local]);
    let verdict = router.forward(NOW, Some(FaceId(0)), packet(PacketType::Control, 0, 1, fid, b""));
    assert_eq!((verdict.copies, verdict.dropped), (1, None));
    let verdict = router.forward(NOW, Some(FaceId(0)), packet(PacketType::Control, 0, 0, fid, b""));
    assert_eq!((verdict.copies, verdict.dropped), (0, Some(reason::TTL)));
    assert!(verdict.local.is_some());
    assert_eq!(router.stats.dropped[reason::TTL], 1);
}

#[test]
fn fids_of_all_ones_and_of_illegal_shape_are_dropped() {
    let mut router = router(4);
    for (kind, salt, len, fill, expected) in [
        (FidKind::Bloom, 0, 32, 0xff, reason::OVERFULL),
        (FidKind::Bloom, 0, 96, 0xf7, reason::OVERFULL),
        (FidKind::Bloom, 64, 32, 1, reason::SHAPE),
        (FidKind::Bloom, 0, 6, 1, reason::SHAPE),
        (FidKind::Bloom, 0, 0, 0, reason::SHAPE),
        (FidKind::Bloom, 0, 32, 0, "fid matches nothing here"),
        (FidKind::List, 0, 96, 0xff, "fid matches nothing here"),
        (FidKind::Bitmap, 9, 96, 0xff, "fid of an unknown bitmap epoch"),
    ] {
        let fid = Fid::new(kind, salt, &[fill; 96][..len]);
        let verdict = router.forward(NOW, Some(FaceId(0)), packet(PacketType::Data, 0, 9, fid, &[0; 50]));
        assert_eq!(verdict.dropped, Some(expected), "{fid:?}");
        assert!(verdict.local.is_none());
    }
}

#[test]
fn one_face_more_than_allowed_drops_the_packet() {
    let ports: Vec<_> = (0..5).map(face).collect();
    for (copies_max, copies, dropped) in [(5, 5, None), (4, 0, Some("fid matches too many faces"))] {
        let config = RouterConfig { copies_max, ..RouterConfig::new(NodeId(1), [1; 16]) };
        let mut router = router_with(config, 6);
        let fid = list_to(&router, &ports);
        let verdict = router.forward(NOW, None, packet(PacketType::Data, 0, 9, fid, &[0; 50]));
        assert_eq!((verdict.copies, verdict.dropped), (copies, dropped));
    }
}

#[test]
fn queues_keep_their_limits_in_packets_and_bytes_and_mark_before() {
    let base = RouterConfig { mark_bytes: Some(250), ..RouterConfig::new(NodeId(1), [1; 16]) };
    let by_count = RouterConfig { queue_packets_max: 4, ..base.clone() };
    let by_bytes = RouterConfig { queue_bytes_max: 4 * 100 + 99, ..base };
    for config in [by_count, by_bytes] {
        let mut router = router_with(config, 1);
        let fid = list_to(&router, &[face(0)]);
        let one = packet(PacketType::Data, 0, 9, fid, &[0; 91]);
        assert_eq!(one.len(), 100);
        let verdicts: Vec<_> = (0..6).map(|_| router.forward(NOW, None, one.clone()).dropped).collect();
        assert_eq!(verdicts, [None, None, None, None, Some("egress queue full"), Some("egress queue full")]);
        let stats = router.face_stats(FaceId(0)).unwrap();
        assert_eq!(
            (stats.queue_packets, stats.queue_bytes, stats.dropped_packets, stats.marked_packets),
            (4, 400, 2, 2)
        );
        let marks: Vec<_> = sent(&mut router).iter().map(|(_, bytes)| bytes[1]).collect();
        assert_eq!(marks, [0, 0, FLAG_MARKED, FLAG_MARKED]);
    }
    let mut router = router(1);
    let fid = list_to(&router, &[face(0)]);
    let long = packet(PacketType::Data, 0, 9, fid, &[0; 9000]);
    assert_eq!(router.forward(NOW, None, long).dropped, Some("longer than the mtu"));
}

#[test]
fn the_mark_of_the_last_links_queue_goes_on_in_the_header() {
    let mut router = router(2);
    let fid = list_to(&router, &[face(1)]);
    for marked in [false, true] {
        let mut datagram = packet(PacketType::Data, 0, 9, fid, &[0; 50]);
        if marked {
            datagram.set_marked();
        }
        assert_eq!(router.forward(NOW, Some(FaceId(0)), datagram).copies, 1);
        let flags = sent(&mut router)[0].1[1];
        assert_eq!(flags, if marked { FLAG_MARKED } else { 0 });
    }
}

#[test]
fn faces_take_turns_and_batches_are_full() {
    let mut router = router(2);
    for port in [0, 1] {
        let fid = list_to(&router, &[face(port)]);
        (0..100).for_each(|_| drop(router.forward(NOW, None, packet(PacketType::Data, 0, 9, fid, &[0; 20]))));
    }
    let mut batch = TransmitBuf::new();
    let mut turns = Vec::new();
    while let Some(transmit) = router.poll_transmit(&mut batch) {
        turns.push((transmit.face.0, batch.len()));
        batch.clear();
    }
    assert_eq!(turns, [(0, 64), (1, 64), (0, 36), (1, 36)]);
}

#[test]
fn own_packets_may_be_for_this_node_too() {
    let mut router = router(2);
    let fid = list_to(&router, &[face(1), Port::Local]);
    let header = Header { packet_type: PacketType::Data, flags: 0, ttl: TTL_MAX, fid };
    let verdict = router.originate(NOW, &header, b"next header", Bytes::from_static(b" body"));
    let mut expected = Vec::new();
    header.encode(&mut expected);
    expected.extend_from_slice(b"next header body");
    assert_eq!(verdict.local.unwrap().to_vec(), expected);
    assert_eq!(sent(&mut router), [(1, expected)]);
}

#[test]
fn bitmaps_of_the_present_and_the_previous_numbering_work() {
    let mut router = router(3);
    let routes = |epoch, bits: [u16; 2]| Routes {
        manager: NodeId(1),
        term: 1,
        sequence: 1,
        resolvers: Vec::new(),
        bitmap: BitmapNumbers { epoch, local: Some(0), faces: [(FaceId(0), bits[0]), (FaceId(2), bits[1])].into() },
        keys: Vec::new(),
    };
    let faces = |router: &mut Router, epoch, bit: usize| {
        let mut bytes = [0; 8];
        bytes[bit / 8] |= 1 << (bit % 8);
        let fid = Fid::new(FidKind::Bitmap, epoch, &bytes);
        let verdict = router.forward(NOW, None, packet(PacketType::Data, 0, 9, fid, &[0; 50]));
        let faces: Vec<_> = sent(router).into_iter().map(|(face, _)| face).collect();
        (faces, verdict.local.is_some(), verdict.dropped)
    };
    router.handle_routes(&routes(5, [7, 63]));
    router.handle_routes(&routes(6, [9, 700]));
    assert_eq!(faces(&mut router, 5, 63), ([2].into(), false, None));
    assert_eq!(faces(&mut router, 6, 9), ([0].into(), false, None));
    assert_eq!(faces(&mut router, 6, 0), ([].into(), true, None));
    assert_eq!(faces(&mut router, 6, 7).2, Some("fid matches nothing here"));
    router.handle_routes(&routes(7, [1, 2]));
    assert_eq!(faces(&mut router, 5, 63).2, Some("fid of an unknown bitmap epoch"));
}

#[test]
fn copies_share_the_hops_that_are_left() {
    for (ttl, faces, left) in [(9, 1, Some(8)), (9, 2, Some(3)), (9, 4, Some(1)), (4, 4, Some(0)), (3, 4, None)] {
        let mut router = router(6);
        let fid = list_to(&router, &(1..=faces).map(face).collect::<Vec<_>>());
        let verdict = router.forward(NOW, Some(FaceId(0)), packet(PacketType::Control, 0, ttl, fid, b""));
        assert_eq!(verdict.dropped, if left.is_none() { Some(reason::TTL) } else { None });
        let sent = sent(&mut router);
        assert_eq!(sent.len(), if left.is_none() { 0 } else { faces as usize });
        assert!(sent.iter().all(|(_, bytes)| Some(bytes[2]) == left));
    }
}

/// A cache between a receiver behind face 0 and a source behind face 1, with the keys of epoch 3.
struct CacheBench {
    router: Router,
    reverse: Fid,
    forward: Fid,
    key: CapabilityKey,
}

impl CacheBench {
    fn new() -> CacheBench {
        let mut router = router(3);
        let (reverse, forward) = (list_to(&router, &[face(1)]), list_to(&router, &[face(0)]));
        let key = CapabilityKey::derive(&[5; 32], 3);
        router.set_keys(&[key]);
        CacheBench { router, reverse, forward, key }
    }
    fn request(&self, flags: u8, ranges: &[(u32, u8)]) -> Datagram {
        let mut rest = Vec::new();
        Request {
            tag: 77,
            object: OBJECT,
            packet_bytes: 1000,
            capability: self.key.sign(&self.reverse, &self.forward),
            forward: self.forward,
            ranges: ranges.into(),
        }
        .encode(&mut rest);
        packet(PacketType::Request, flags, 9, self.reverse, &rest)
    }
    fn fill(&mut self, packets: impl IntoIterator<Item = u32>) {
        for number in packets {
            self.router.forward(NOW, Some(FaceId(1)), data(self.forward, number, &number.to_be_bytes()));
        }
        sent(&mut self.router);
    }
    /// Answered packets, and the ranges that were passed on.
    fn ask(&mut self, flags: u8, ranges: &[(u32, u8)]) -> (Vec<u32>, Vec<(u32, u8)>) {
        let verdict = self.router.forward(NOW, Some(FaceId(0)), self.request(flags, ranges));
        assert_eq!(verdict.dropped, None);
        let (mut answers, mut passed) = (Vec::new(), Vec::new());
        for (face, bytes) in sent(&mut self.router) {
            let header = Header::decode(&bytes).unwrap();
            let rest = &bytes[header.len()..];
            match face {
                0 => {
                    assert_eq!((header.flags, header.fid), (FLAG_CACHED, self.forward));
                    let data = DataHeader::decode(rest).unwrap();
                    assert_eq!((data.tag, data.origin, data.stream), (77, 0x1234, StreamKey::new(&OBJECT, 1000)));
                    assert_eq!(rest[DataHeader::BYTES..], data.packet.to_be_bytes());
                    answers.push(data.packet);
                }
                _ => {
                    assert_eq!((header.flags, header.fid, header.ttl), (flags, self.reverse, 8));
                    passed = Request::decode(rest).unwrap().ranges;
                }
            }
        }
        assert_eq!(verdict.answered, answers.len());
        (answers, passed)
    }
}

#[test]
fn the_cache_answers_what_it_has_and_passes_on_the_rest() {
    let mut bench = CacheBench::new();
    assert_eq!(bench.ask(0, &[(0, 4)]), ([].into(), [(0, 4)].into()));
    bench.fill([0, 1, 4, 9]);
    assert_eq!(bench.ask(0, &[(0, 2)]), ([0, 1].into(), [].into()));
    assert_eq!(bench.ask(0, &[(0, 6), (9, 1), (6, 2)]), ([0, 1, 4, 9].into(), [(2, 2), (5, 1), (6, 2)].into()));
    assert_eq!(bench.router.stats.requests_absorbed, 1);
    let entry = bench.router.cache().unwrap().entries().next().unwrap();
    assert_eq!((entry.packets, entry.counters.hits, entry.counters.misses), (4, 6, 5));
}

#[test]
fn requests_for_a_packet_under_way_join_the_first_one() {
    let mut bench = CacheBench::new();
    let routes = [0, 2].map(|receiver| list_to(&bench.router, &[face(receiver)]));
    // The ranges that are forwarded when the receiver behind a face requests packets `first` to `first + count` at a
    // millisecond.
    let ask = |bench: &mut CacheBench, ms: u64, receiver: usize, first: u32, count: u8| {
        bench.forward = routes[receiver];
        let request = bench.request(0, &[(first, count)]);
        bench.router.forward(Time::from_millis(ms), Some(FaceId(receiver as u32 * 2)), request);
        let passed = sent(&mut bench.router);
        assert!(passed.iter().all(|(face, _)| *face == 1), "nothing is cached");
        let ranges = |bytes: &Vec<u8>| Request::decode(&bytes[Header::decode(bytes).unwrap().len()..]).unwrap().ranges;
        passed.iter().flat_map(|(_, bytes)| ranges(bytes)).collect::<Vec<_>>()
    };
    let arrive = |bench: &mut CacheBench, packet: u32| {
        bench.router.forward(NOW, Some(FaceId(1)), data(routes[0], packet, b"it"));
        let copies = sent(&mut bench.router).into_iter().map(|(face, bytes)| {
            let header = Header::decode(&bytes).unwrap();
            let data = DataHeader::decode(&bytes[header.len()..]).unwrap();
            assert_eq!((data.packet, &bytes[header.len() + DataHeader::BYTES..]), (packet, &b"it"[..]));
            (face, header.flags, data.tag)
        });
        copies.collect::<Vec<_>>()
    };
    assert_eq!(ask(&mut bench, 0, 0, 0, 4), [(0, 4)]);
    assert_eq!(ask(&mut bench, 1, 1, 2, 4), [(4, 2)], "two of them are under way");
    assert_eq!(arrive(&mut bench, 2), [(2, FLAG_CACHED, 77), (0, 0, 1)], "each gets it by its own route, once");
    assert_eq!(arrive(&mut bench, 0), [(0, 0, 1)]);
    // An answer is lost: the retransmitted request is forwarded, the others join it once more, and not forever.
    assert_eq!(ask(&mut bench, 300, 1, 3, 1), [(3, 1)], "it waits no longer");
    for (ms, passed) in [(310, 0), (320, 0), (330, 0), (340, 1)] {
        assert_eq!(ask(&mut bench, ms, 0, 3, 1).len(), passed, "{ms} ms");
        if passed == 0 {
            assert_eq!(ask(&mut bench, ms + 5, 1, 3, 1).len(), 1, "the other one lost the answer again");
        }
    }
    assert_eq!(bench.router.pending.counters, PendingCounters { joined: 5, evicted: 0 });
    // After the lifetime no request joins an unanswered one.
    assert_eq!(ask(&mut bench, 2_000, 0, 4, 1), Vec::new());
    assert_eq!(ask(&mut bench, 2_002, 0, 5, 1), [(5, 1)]);
}

#[test]
fn a_full_table_of_pending_packets_forgets_the_oldest() {
    let mut bench = CacheBench::new();
    bench.router.pending = PendingPackets::new(4, Duration::from_secs(2));
    let [here, there] = [0, 2].map(|receiver| list_to(&bench.router, &[face(receiver)]));
    for (forward, first, count) in [(here, 0, 6), (there, 2, 4)] {
        bench.forward = forward;
        bench.router.forward(NOW, Some(FaceId(0)), bench.request(0, &[(first, count)]));
    }
    assert_eq!(bench.router.pending.counters, PendingCounters { joined: 4, evicted: 2 });
}

#[test]
fn no_cache_and_another_way_back_pass_the_cache() {
    let mut bench = CacheBench::new();
    bench.fill(0..4);
    assert_eq!(bench.ask(FLAG_NO_CACHE, &[(0, 4)]), ([].into(), [(0, 4)].into()));
    // The way back does not use this node, or uses only the request's own next hop.
    for forward in [Fid::new(FidKind::List, 0, &[9; 8]), list_to(&bench.router, &[face(1)])] {
        bench.forward = forward;
        assert_eq!(bench.ask(0, &[(0, 4)]), ([].into(), [(0, 4)].into()));
    }
}

#[test]
fn without_a_valid_capability_nothing_is_answered_or_passed_on() {
    let mut bench = CacheBench::new();
    bench.fill(0..4);
    bench.key = CapabilityKey::derive(&[6; 32], 3);
    let forged = bench.request(0, &[(0, 4)]);
    assert_eq!(bench.router.forward(NOW, Some(FaceId(0)), forged.clone()).dropped, Some("capability not valid"));
    assert!(bench.router.is_idle());
    // A router without keys forwards it, answers nothing, and delivers nothing to itself.
    bench.router.set_keys(&[]);
    let verdict = bench.router.forward(NOW, Some(FaceId(0)), forged);
    assert_eq!((verdict.answered, verdict.copies), (0, 1));
    bench.reverse = list_to(&bench.router, &[Port::Local]);
    let verdict = bench.router.forward(NOW, Some(FaceId(0)), bench.request(0, &[(0, 4)]));
    assert_eq!((verdict.local, verdict.dropped), (None, Some("no key to verify the capability")));
}

#[test]
fn a_rewritten_request_never_has_too_many_runs() {
    let mut bench = CacheBench::new();
    bench.fill((0..200).step_by(2));
    let ranges: Vec<_> = (0..15).map(|i| (i * 4, 4)).collect();
    let (answers, passed) = bench.ask(0, &ranges);
    assert!(passed.len() <= REQUEST_RANGES_MAX && !answers.is_empty());
    let mut all: Vec<u32> = passed.iter().flat_map(|(first, count)| *first..*first + u32::from(*count)).collect();
    all.extend(answers);
    all.sort_unstable();
    assert_eq!(all, (0..60).collect::<Vec<_>>());
}

#[test]
fn the_node_of_the_source_does_not_answer_for_it() {
    let mut bench = CacheBench::new();
    bench.fill(0..4);
    bench.reverse = list_to(&bench.router, &[face(1), Port::Local]);
    let request = bench.request(0, &[(0, 4)]);
    let verdict = bench.router.forward(NOW, Some(FaceId(0)), request.clone());
    assert_eq!((verdict.answered, verdict.local), (0, Some(request)));
}

proptest! {
    #[test]
    fn the_fast_header_view_agrees_with_the_full_parser(mut bytes in prop::collection::vec(any::<u8>(), 0..120), kind in 0u8..8) {
        if let Some(first) = bytes.first_mut() {
            *first = (VERSION << 4) | kind;
        }
        if bytes.len() > 3 && bytes[3] & 1 == 0 {
            bytes[1] &= 7;
            bytes[2] &= 63;
            bytes[3] &= 0xbf;
        }
        match (View::parse(&bytes), Header::decode(&bytes)) {
            (Ok(view), Ok(header)) => {
                prop_assert_eq!(view.header_len, header.len());
                prop_assert_eq!((view.packet_type, view.flags, view.ttl), (header.packet_type, header.flags, header.ttl));
                prop_assert_eq!(view.fid(&bytes).to_fid(), header.fid);
                let mut head = [0; HEAD_BYTES_MAX];
                let len = write_header(&mut head, header.packet_type, header.flags, header.ttl, &header.fid);
                prop_assert_eq!(&head[..len], &bytes[..len]);
            }
            (Err(a), Err(b)) => prop_assert_eq!(a, b),
            (view, header) => prop_assert!(false, "{:?} but {:?}", view, header),
        }
    }
}

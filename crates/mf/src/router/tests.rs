//! Two routers whose packets the test transfers.
use alloc::string::String;

use super::*;
use crate::{
    ids::Guid,
    link::buffer::cut,
    wire::{CackState, DataTag, Reliability},
};

fn router(number: u8) -> Router {
    router_with(number, 1_000)
}
fn router_with(number: u8, buffer_packets: u32) -> Router {
    let config = RouterConfig {
        guid: Guid([number; 20]),
        address: Some(NetworkAddress(u32::from(number))),
        hop: HopConfig::default(),
        buffer_packets,
        relief: HolRelief::Off,
        store_ratio: 2.0,
        stores: false,
        first_hop: u32::from(number) << 24,
    };
    Router::new(config, None)
}
fn meet(router: &mut Router, now: Time, face: u32, number: u8) {
    meet_over(router, now, face, number, 1_472);
}
/// Adds a neighbour behind a link that carries datagrams of this size.
fn meet_over(router: &mut Router, now: Time, face: u32, number: u8, datagram_bytes: u32) {
    router.on_up(now, FaceId(face), Peer { datagram_bytes, ..peer(number) });
}
fn peer(number: u8) -> Peer {
    Peer {
        guid: Guid([number; 20]),
        label: String::new(),
        // Hosts send their own chunks; the second router forwards others'.
        roles: if number == 2 { Roles::ROUTER } else { Roles::HOST },
        address: if number == 2 { NetworkAddress(2) } else { NetworkAddress::NONE },
        boot: u64::from(number),
        datagram_bytes: 1_472,
        window: 1_000,
    }
}
/// The packets of a chunk of 2,000 bytes, all `number`, in transit to a neighbour.
fn send(router: &mut Router, now: Time, to: u8, number: u8) -> Vec<Bytes> {
    send_bytes(router, now, to, number, 2_000)
}
fn send_bytes(router: &mut Router, now: Time, to: u8, number: u8, bytes: usize) -> Vec<Bytes> {
    send_chunk(router, now, header_to(to, number), bytes)
}
fn header_to(to: u8, number: u8) -> ChunkHeader {
    let tag = DataTag {
        object: ObjectId([1; 16]),
        transfer: 1,
        token: Token(7),
        number: u32::from(number),
        count: 100,
        chunk_bytes: 2_000,
        reliability: Reliability::Nack,
        window: 0,
        window_chunks: 0,
    };
    ChunkHeader::new(ChunkKind::Data(tag), Guid([1; 20]), Guid([to; 20]), NetworkAddress::NONE)
}
fn send_chunk(router: &mut Router, now: Time, header: ChunkHeader, bytes: usize) -> Vec<Bytes> {
    let number = header.tag().map_or(0, |tag| tag.number as u8);
    router.originate(now, header, &Bytes::from(alloc::vec![number; bytes]).into(), Origin::Local);
    let packets = data_packets(router, now);
    assert!(!packets.is_empty(), "there is room for it");
    packets.into_iter().map(|(_, packet)| packet).collect()
}
/// The packets of data that leave now, and where.
fn data_packets(router: &mut Router, now: Time) -> Vec<(FaceId, Bytes)> {
    let mut packets = Vec::new();
    let mut out = TransmitBuf::default();
    while let Some(Transmit { face }) = router.poll_transmit(now, &mut out) {
        packets.extend(out.drain().map(|datagram| (face, Bytes::from(datagram.to_vec()))));
    }
    packets.retain(|(_, packet)| PacketType::of(packet[0]) == Ok(PacketType::Data));
    packets
}
/// Passes packets of a chunk to a router. Returns the packets that leave.
fn pass_on(relay: &mut Router, now: Time, packets: Vec<Bytes>) -> Vec<Bytes> {
    let mut leaving = Vec::new();
    for packet in packets {
        relay.handle_packet(now, FaceId(1), PacketType::Data, packet.into());
        while let Some(output) = relay.poll_output(now) {
            if let Output::Arrived(slot) = output {
                relay.forward(now, slot);
            }
        }
        leaving.extend(data_packets(relay, now).into_iter().map(|(_, packet)| packet));
    }
    leaving
}
/// Passes packets of a chunk for a group to a router; neighbours 3 and 4 are its members. Returns the packets that
/// leave after each.
fn relay_group(relay: &mut Router, now: Time, packets: &[Bytes]) -> Vec<Vec<(FaceId, Bytes)>> {
    let take = |packet: &Bytes| {
        relay.handle_packet(now, FaceId(1), PacketType::Data, packet.clone().into());
        while let Some(output) = relay.poll_output(now) {
            match output {
                Output::Begun(slot) => {
                    let header = relay.buffer.chunk(slot).and_then(|chunk| chunk.header.clone()).expect("it has begun");
                    let to = |number: u8| ChunkHeader {
                        destination: Guid([number; 20]),
                        service: ServiceId::Unicast,
                        ..header.clone()
                    };
                    assert_eq!(relay.begin_copies(now, slot, [3, 4].map(to).into()), 2);
                }
                Output::Copied(slot, rest) => {
                    relay.copy(now, slot, rest);
                    relay.consume(slot);
                }
                other => panic!("{other:?}"),
            }
        }
        data_packets(relay, now)
    };
    packets.iter().map(take).collect()
}
/// A router between a source and two members of a group, and the packets of a chunk for it.
fn group_of_two(now: Time) -> (Router, Vec<Bytes>) {
    let (mut sender, mut relay) = (router(1), router(2));
    meet(&mut sender, now, 1, 2);
    meet(&mut relay, now, 1, 1);
    meet(&mut relay, now, 2, 3);
    meet(&mut relay, now, 3, 4);
    let header = ChunkHeader { service: ServiceId::Multicast, ..header_to(2, 33) };
    let packets = send_chunk(&mut sender, now, header, 4_000);
    assert_eq!(packets.len(), 3);
    (relay, packets)
}
/// The payload that a member makes of packets of its face.
fn received(now: Time, face: FaceId, packets: &[(FaceId, Bytes)]) -> Option<Bytes> {
    let mut member = router(face.0 as u8 + 1);
    meet(&mut member, now, 1, 2);
    for (_, packet) in packets.iter().filter(|(to, _)| *to == face) {
        member.handle_packet(now, FaceId(1), PacketType::Data, packet.clone().into());
    }
    complete(&mut member, now)
}
/// The payload of the arrived chunk, if complete.
fn complete(member: &mut Router, now: Time) -> Option<Bytes> {
    let outputs = core::iter::from_fn(|| member.poll_output(now));
    let slot =
        outputs.filter_map(|output| if let Output::Arrived(slot) = output { Some(slot) } else { None }).last()?;
    member.consume(slot).map(|chunk| chunk.payload().to_bytes())
}

#[test]
fn packets_of_another_face_that_somebody_repeats_spoil_no_chunk() {
    let now = Time::from_millis(1_000);
    let (mut sender, mut receiver) = (router(1), router(2));
    meet(&mut sender, now, 1, 2);
    meet(&mut sender, now, 2, 3);
    meet(&mut receiver, now, 1, 1);
    let mut take = |packet: Bytes| {
        receiver.handle_packet(now, FaceId(1), PacketType::Data, packet.into());
        match receiver.poll_output(now) {
            Some(Output::Arrived(slot)) => receiver.consume(slot).map(|chunk| chunk.payload().to_bytes()),
            _ => None,
        }
    };
    // The second packet of the first chunk over another face arrives before the first chunk over this one.
    let other = send(&mut sender, now, 3, 33);
    assert_eq!((other.len(), take(other[1].clone())), (2, None));
    let chunk = send(&mut sender, now, 2, 22);
    let came: Vec<Bytes> = chunk.into_iter().filter_map(take).collect();
    assert_eq!(came, [Bytes::from(alloc::vec![22; 2_000])]);
}

#[test]
fn a_chunk_whose_later_packets_are_too_long_for_the_next_link_is_not_cut_through() {
    let now = Time::from_millis(1_000);
    // In the second order the packet that makes the chunk whole is the one that is too long.
    for order in [[0, 1, 2], [0, 2, 1]] {
        let (mut sender, mut relay, mut receiver) = (router(1), router(2), router(3));
        meet(&mut sender, now, 1, 3);
        meet(&mut relay, now, 1, 1);
        meet_over(&mut relay, now, 2, 3, 1_466);
        meet(&mut receiver, now, 1, 2);
        let packets = send_bytes(&mut sender, now, 3, 33, 4_000);
        // First packets leave space for a longer header.
        let lengths: Vec<usize> = packets.iter().map(Bytes::len).collect();
        assert!(lengths[0] <= 1_466 && lengths[1] > 1_466, "{lengths:?}");
        let leaving = pass_on(&mut relay, now, order.map(|index| packets[index].clone()).into());
        assert_eq!(relay.stats.cut_through, 1, "it began to be sent on");
        for packet in leaving {
            assert!(packet.len() <= 1_466, "{} bytes, {order:?}", packet.len());
            receiver.handle_packet(now, FaceId(1), PacketType::Data, packet.into());
        }
        assert_eq!(complete(&mut receiver, now).as_deref(), Some(&[33; 4_000][..]), "all of it is there: {order:?}");
    }
}

#[test]
fn a_copy_whose_last_packet_to_come_is_too_long_for_its_link_goes_whole() {
    let now = Time::from_millis(1_000);
    let (mut relay, packets) = group_of_two(now);
    relay.on_mtu(now, FaceId(2), 1_466);
    let leaving = relay_group(&mut relay, now, &[0, 2, 1].map(|index| packets[index].clone())).concat();
    let longest = leaving.iter().filter(|(face, _)| *face == FaceId(2)).map(|(_, packet)| packet.len()).max();
    assert!(longest <= Some(1_466), "{longest:?}");
    for face in [2, 3] {
        assert_eq!(received(now, FaceId(face), &leaving), Some(alloc::vec![33; 4_000].into()));
    }
}

#[test]
fn a_chunk_whose_header_grows_by_the_address_chosen_here_is_not_cut_through_into_too_long_packets() {
    let now = Time::from_millis(1_000);
    let (mut sender, mut relay) = (router(1), router(2));
    meet(&mut sender, now, 1, 9);
    let mut topology = Topology::new(NetworkAddress(2), Guid([2; 20]), 2, String::new(), Roles::ROUTER);
    topology.on_up(now, FaceId(2), NetworkAddress(3), Guid([3; 20]));
    let links = [2].map(|to| crate::wire::Adjacency { neighbour: NetworkAddress(to), short_us: 1, long_us: 1 });
    let state = crate::wire::LinkState {
        router: NetworkAddress(3),
        guid: Guid([3; 20]),
        sequence: 1,
        boot: 3,
        roles: Roles::ROUTER,
        storage_free: 100,
        label: String::new(),
        links: links.into(),
    };
    topology.handle_state(now, FaceId(2), state);
    topology.handle_timeout(now, |_| (1, 1));
    topology.update();
    relay.topology = Some(topology);
    meet(&mut relay, now, 1, 1);
    let addresses = Vec::from([(NetworkAddress(3), 255)]);
    let binding = Binding { addresses, readers: Readers::All, lifetime: Duration::from_secs(9), version: Some(1) };
    relay.handle_binding(now, Guid([9; 20]), binding);
    let packets = send_chunk(&mut sender, now, header_to(9, 33), 4_000);
    // The first packet in its arrived form would just fit the link to the next router.
    meet_over(&mut relay, now, 2, 3, packets[0].len() as u32);
    let leaving = pass_on(&mut relay, now, packets);
    let longest = leaving.iter().map(Bytes::len).max();
    assert!(longest <= Some(relay.hops[&FaceId(2)].datagram_bytes as usize), "{longest:?}");
    assert!(leaving.len() >= 3, "all of it leaves");
}

#[test]
fn an_empty_buffer_takes_the_largest_chunk_however_many_neighbours_send() {
    let (now, mut relay) = (Time::from_millis(10), router_with(2, 6_000));
    (1..=8).for_each(|number| meet(&mut relay, now, u32::from(number), number));
    for number in 3..=8 {
        let mut source = router(number);
        meet(&mut source, now, 1, 2);
        for packet in send(&mut source, now, 2, number) {
            relay.handle_packet(now, FaceId(u32::from(number)), PacketType::Data, packet.into());
        }
    }
    while let Some(output) = relay.poll_output(now) {
        if let Output::Arrived(slot) = output {
            relay.consume(slot);
        }
    }
    let mut question = Vec::new();
    Csyn { count: 1, hop: crate::ids::HopId(9), number: 1 }.encode(&mut question);
    relay.handle_packet(now, FaceId(1), PacketType::Csyn, Bytes::from(question).into());
    let (mut out, mut windows) = (TransmitBuf::default(), Vec::new());
    while let Some(Transmit { face }) = relay.poll_transmit(now, &mut out) {
        let cacks = out.drain().filter_map(|datagram| Cack::decode(&datagram.to_vec()).ok());
        windows.extend(cacks.filter(|_| face == FaceId(1)).map(|cack| cack.window));
    }
    assert!(!windows.is_empty() && windows.iter().all(|window| *window == 6_000), "{windows:?}");
}

/// The neighbour at a face acknowledges all packets of the chunk of which it was sent one.
fn has_all(router: &mut Router, now: Time, face: FaceId, packet: &[u8]) {
    let hop = DataHeader::decode(packet).expect("a packet of data").hop;
    let (state, bitmap, mut answer) = (CackState::Complete, Vec::new(), Vec::new());
    Cack {
        state,
        hop,
        number: 0,
        window: 999,
        destination_window: 999,
        duplicates: 0,
        marked: 0,
        first_missing: 0,
        bitmap,
    }
    .encode(&mut answer);
    router.handle_packet(now, face, PacketType::Cack, Bytes::from(answer).into());
}

#[test]
fn what_the_next_hop_has_from_somebody_else_is_not_waited_for() {
    let now = Time::ZERO;
    let (mut source, mut relay) = (router(1), router(2));
    meet(&mut source, now, 1, 3);
    meet(&mut relay, now, 1, 1);
    meet(&mut relay, now, 2, 3);
    let mut packets = send_bytes(&mut source, now, 3, 7, 20_000);
    let lost = packets.remove(5);
    let left = pass_on(&mut relay, now, packets);
    assert!(left.len() > 5 && relay.buffer.len() == 1, "it is cut through");
    has_all(&mut relay, now, FaceId(2), &left[0]);
    assert_eq!(relay.buffer.len(), 0, "the next hop has it");
    let mut out = TransmitBuf::default();
    assert_eq!(relay.poll_transmit(now, &mut out), Some(Transmit { face: FaceId(1) }));
    let reported: Vec<Cack> = out.drain().filter_map(|datagram| Cack::decode(&datagram.to_vec()).ok()).collect();
    assert!(reported.iter().any(|cack| cack.state == CackState::Complete), "{reported:?}");
    assert_eq!(pass_on(&mut relay, now, [lost].into()).len(), 0, "it does not begin anew");
    assert_eq!(relay.buffer.len(), 0);
}

#[test]
fn what_the_next_hop_can_never_take_is_dropped_and_keeps_nobody_waiting() {
    let now = Time::from_millis(1_000);
    // A buffer of 40 packets, and a link over which a chunk of 8 MB would exceed the packet numbers.
    for (window, datagram_bytes, bytes, left) in
        [(20, 1_472, 70_000, 20_000), (20, 576, 30_000, 20_000), (100_000, 576, 6_000_000, 4_400_000)]
    {
        let mut relay = router(1);
        relay.on_up(now, FaceId(3), Peer { window, datagram_bytes, ..peer(3) });
        let slots: Vec<Slot> = [bytes, left]
            .into_iter()
            .zip(1..)
            .map(|(bytes, number)| {
                // As links further back have cut it.
                let fragments = cut(&alloc::vec![1; bytes].into(), 1_300, 1_400);
                let header = ChunkHeader { payload_bytes: bytes as u32, ..header_to(3, number) };
                let origin = Origin::Face(FaceId(1), crate::ids::HopId(u32::from(number)));
                let slot = relay.buffer.put(header, fragments, origin);
                relay.forward(now, slot);
                slot
            })
            .collect();
        let Some(Output::Lost(header, TOO_LARGE)) = relay.poll_output(now) else { panic!("it is lost") };
        assert_eq!((header.payload_bytes as usize, relay.stats.dropped), (bytes, 1));
        assert!(relay.poll_output(now).is_none() && relay.buffer.chunk(slots[1]).is_some());
        // A chunk larger than the window leaves as the window opens.
        relay.hops.get_mut(&FaceId(3)).unwrap().outgoing.set_first_window(40.max(window));
        relay.advance(now, FaceId(3));
        assert_eq!(relay.hops[&FaceId(3)].outgoing.sending(), 1, "the other one is on its way");
    }
}

#[test]
fn a_chunk_that_the_store_has_no_room_for_goes_back_into_line_as_often_as_it_must() {
    let mut now = Time::from_millis(1_000);
    let mut relay = router(1);
    (relay.config.relief, relay.config.stores) = (HolRelief::Proxy, true);
    relay.on_up(now, FaceId(3), Peer { window: 0, ..peer(3) });
    for number in 1..=4 {
        let fragments = alloc::vec![Bytes::from_static(b"x"); 200];
        let origin = Origin::Face(FaceId(1), crate::ids::HopId(number));
        let slot = relay.buffer.put(header_to(3, number as u8), fragments, origin);
        relay.forward(now, slot);
    }
    let mut refused = 0;
    while refused < 100 {
        now += RELIEF_PAUSE;
        let Some(Output::Store(slot, StoreReason::Relief)) = relay.poll_output(now) else {
            panic!("it is pushed aside")
        };
        relay.refuse_store(now, slot, StoreReason::Relief);
        refused += 1;
        while let Some(output) = relay.poll_output(now) {
            assert!(!matches!(output, Output::Lost(..)), "{output:?} after {refused} times");
        }
    }
    let hops = relay.buffer.chunks().filter_map(|chunk| Some(chunk.header.as_ref()?.hops_left));
    assert!(hops.eq([crate::wire::chunk::HOPS_MAX - 1; 4]));
}

#[test]
fn copies_for_a_group_leave_while_the_chunk_arrives() {
    let now = Time::from_millis(1_000);
    let (mut relay, packets) = group_of_two(now);
    let leaving = relay_group(&mut relay, now, &packets);
    let counts: Vec<usize> = leaving.iter().map(Vec::len).collect();
    assert_eq!(counts, [2, 2, 2], "each packet goes on to both as it comes");
    assert_eq!(relay.buffer.used(), 3, "their bytes are here once");
    let all = leaving.concat();
    for face in [2, 3] {
        assert_eq!(received(now, FaceId(face), &all), Some(alloc::vec![33; 4_000].into()));
    }
}

#[test]
fn copies_of_a_chunk_that_does_not_end_are_given_up_with_it() {
    let now = Time::from_millis(1_000);
    let (mut relay, packets) = group_of_two(now);
    relay_group(&mut relay, now, &packets[..2]);
    assert_eq!((relay.buffer.len(), relay.buffer.used()), (3, 3));
    let source = Peer { boot: 99, ..relay.peers().next().expect("it is there").1.clone() };
    relay.on_up(now, FaceId(1), source);
    assert_eq!((relay.buffer.len(), relay.buffer.used(), relay.stats.originated), (0, 0, 0));
    let counts: Vec<usize> = relay_group(&mut relay, now, &packets).iter().map(Vec::len).collect();
    assert_eq!(counts, [2, 2, 2], "it comes again");
}

#[test]
fn a_copy_that_its_member_had_already_is_not_given_up_once_more() {
    let now = Time::from_millis(1_000);
    let (mut relay, packets) = group_of_two(now);
    let leaving = relay_group(&mut relay, now, &packets[..2]).concat();
    let (face, packet) = leaving.iter().find(|(face, _)| *face == FaceId(2)).expect("a copy leaves there");
    has_all(&mut relay, now, *face, packet);
    let source = Peer { boot: 99, ..relay.peers().next().expect("it is there").1.clone() };
    relay.on_up(now, FaceId(1), source);
    let stats = relay.stats;
    assert_eq!((relay.buffer.len(), stats.originated, stats.sent), (0, 1, 1), "{stats:?}");
}

#[test]
fn a_member_that_goes_while_a_chunk_arrives_gets_all_of_it_when_it_is_back() {
    let now = Time::from_millis(1_000);
    let (mut relay, packets) = group_of_two(now);
    let mut leaving = relay_group(&mut relay, now, &packets[..2]).concat();
    relay.on_down(now, FaceId(2));
    leaving.retain(|(face, _)| *face == FaceId(3));
    leaving.extend(relay_group(&mut relay, now, &packets[2..]).concat());
    assert_eq!(received(now, FaceId(3), &leaving), Some(alloc::vec![33; 4_000].into()), "the other one has it");
    meet(&mut relay, now, 2, 3);
    let again = data_packets(&mut relay, now);
    assert_eq!(received(now, FaceId(2), &again), Some(alloc::vec![33; 4_000].into()));
}

#[test]
fn what_a_chunk_out_of_the_store_takes_is_known_before_it_comes_out() {
    let now = Time::from_millis(1_000);
    let mut router = router(1);
    meet(&mut router, now, 1, 2);
    for bytes in [0, 1, 1_385, 2_000, 65_536] {
        let header = ChunkHeader {
            payload_bytes: bytes,
            ..ChunkHeader::new(ChunkKind::Transport(Token(7)), Guid([1; 20]), Guid([2; 20]), NetworkAddress::NONE)
        };
        let slot = router.put_own(header.clone(), &Bytes::from(alloc::vec![0; bytes as usize]).into());
        let packets = router.buffer.chunk(slot).map(|chunk| u32::from(chunk.count()));
        assert_eq!(packets, Some(router.packets_of(&header)), "of {bytes} bytes");
    }
}

#[test]
fn of_a_face_that_is_gone_for_good_nothing_stays_and_one_that_comes_back_begins_anew() {
    let now = Time::from_millis(1_000);
    let (mut sender, mut relay, mut receiver) = (router(1), router(2), router(3));
    meet(&mut sender, now, 1, 3);
    meet(&mut relay, now, 1, 1);
    meet(&mut relay, now, 2, 3);
    meet(&mut receiver, now, 1, 2);
    let mut arrived = |leaving: Vec<Bytes>| {
        leaving.into_iter().for_each(|packet| {
            receiver.handle_packet(now, FaceId(1), PacketType::Data, packet.into());
        });
        let mut chunks = Vec::new();
        while let Some(output) = receiver.poll_output(now) {
            if let Output::Arrived(slot) = output {
                let payload = receiver.consume(slot).expect("it is there").payload().to_bytes();
                chunks.push((payload[0], payload.len()));
            }
        }
        chunks
    };
    let packets = send_bytes(&mut sender, now, 3, 33, 4_000);
    assert_eq!(arrived(pass_on(&mut relay, now, packets[..2].to_vec())), []);
    relay.on_down(now, FaceId(1));
    relay.expire(now + Duration::from_secs(3_600));
    assert_eq!(relay.buffer.used(), 3, "whoever is away may come back and go on");
    relay.remove_face(now, FaceId(1));
    assert_eq!((relay.buffer.len(), relay.buffer.used(), relay.hops.len()), (0, 0, 1));
    meet(&mut relay, now, 1, 1);
    assert_eq!(arrived(pass_on(&mut relay, now, packets)), [(33, 4_000)]);
    // The receiver remembers the chunks of its face, even if the relay does not.
    relay.remove_face(now, FaceId(2));
    meet(&mut relay, now, 2, 3);
    let packets = send_bytes(&mut sender, now, 3, 44, 4_000);
    let came = arrived(pass_on(&mut relay, now, packets));
    assert_eq!(came, [(33, 4_000), (44, 4_000)], "what was not acknowledged comes again, and nothing is taken for it");
}

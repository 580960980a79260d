//! Two routers whose packets are handed over by hand.
use alloc::string::String;

use super::*;
use crate::{
    ids::Guid,
    wire::{DataTag, Reliability},
};

fn router(number: u8) -> Router {
    let config = RouterConfig {
        guid: Guid([number; 20]),
        address: Some(NetworkAddress(u32::from(number))),
        hop: HopConfig::default(),
        buffer_packets: 1_000,
        relief: HolRelief::Off,
        store_ratio: 2.0,
        stores: false,
        depleted_percent: 10,
        first_hop: u32::from(number) << 24,
    };
    Router::new(config, None)
}
fn meet(router: &mut Router, now: Time, face: u32, number: u8) {
    meet_over(router, now, face, number, 1_472);
}
/// Meets a neighbour behind a link that carries datagrams of so many bytes.
fn meet_over(router: &mut Router, now: Time, face: u32, number: u8, datagram_bytes: u32) {
    let peer = Peer {
        guid: Guid([number; 20]),
        label: String::new(),
        roles: Roles::HOST,
        address: NetworkAddress::NONE,
        nonce: u64::from(number),
        datagram_bytes,
        window: 1_000,
    };
    router.on_up(now, FaceId(face), peer);
}
/// The packets of a chunk of 2,000 bytes, all `number`, on their way to a neighbour.
fn send(router: &mut Router, now: Time, to: u8, number: u8) -> Vec<Bytes> {
    send_bytes(router, now, to, number, 2_000)
}
fn send_bytes(router: &mut Router, now: Time, to: u8, number: u8, bytes: usize) -> Vec<Bytes> {
    let tag = DataTag {
        object: ObjectId([1; 16]),
        transfer: 1,
        number: u32::from(number),
        count: 100,
        chunk_bytes: 2_000,
        reliability: Reliability::Nack,
        window: 0,
        window_chunks: 0,
    };
    let header = ChunkHeader::new(ChunkKind::Data(tag), Guid([1; 20]), Guid([to; 20]), NetworkAddress::NONE);
    router.originate(now, header, &Bytes::from(alloc::vec![number; bytes]).into(), Origin::Local);
    let packets = data_packets(router, now);
    assert!(!packets.is_empty(), "there is room for it");
    packets
}
/// The packets of data that leave now.
fn data_packets(router: &mut Router, now: Time) -> Vec<Bytes> {
    let mut packets = Vec::new();
    let mut out = TransmitBuf::default();
    while router.poll_transmit(now, &mut out).is_some() {
        packets.extend(out.drain().map(|datagram| Bytes::from(datagram.to_vec())));
    }
    packets.retain(|packet: &Bytes| PacketType::of(packet[0]) == Ok(PacketType::Data));
    packets
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
    // The second packet of the first chunk over another face is heard before the first chunk over this one.
    let other = send(&mut sender, now, 3, 33);
    assert_eq!((other.len(), take(other[1].clone())), (2, None));
    let chunk = send(&mut sender, now, 2, 22);
    let came: Vec<Bytes> = chunk.into_iter().filter_map(take).collect();
    assert_eq!(came, [Bytes::from(alloc::vec![22; 2_000])]);
}

#[test]
fn a_chunk_whose_later_packets_are_too_long_for_the_next_link_is_not_cut_through() {
    let now = Time::from_millis(1_000);
    let (mut sender, mut relay, mut receiver) = (router(1), router(2), router(3));
    meet(&mut sender, now, 1, 3);
    meet(&mut relay, now, 1, 1);
    meet_over(&mut relay, now, 2, 3, 1_466);
    meet(&mut receiver, now, 1, 2);
    let packets = send_bytes(&mut sender, now, 3, 33, 4_000);
    // First packets leave room for a longer header.
    let lengths: Vec<usize> = packets.iter().map(Bytes::len).collect();
    assert!(lengths[0] <= 1_466 && lengths[1] > 1_466, "{lengths:?}");
    let mut leaving = Vec::new();
    for packet in packets {
        relay.handle_packet(now, FaceId(1), PacketType::Data, packet.into());
        while let Some(output) = relay.poll_output(now) {
            if let Output::Arrived(slot) = output {
                relay.forward(now, slot);
            }
        }
        leaving.extend(data_packets(&mut relay, now));
    }
    assert_eq!(relay.stats.cut_through, 1, "it began to be sent on");
    for packet in leaving {
        assert!(packet.len() <= 1_466, "{} bytes", packet.len());
        receiver.handle_packet(now, FaceId(1), PacketType::Data, packet.into());
    }
    let Some(Output::Arrived(slot)) = receiver.poll_output(now) else { panic!("all of it is there") };
    let chunk = receiver.consume(slot).expect("it is there");
    assert_eq!(chunk.payload().to_bytes(), alloc::vec![33; 4_000]);
}

#[test]
fn what_a_chunk_out_of_the_store_takes_is_known_before_it_comes_out() {
    let now = Time::from_millis(1_000);
    let mut router = router(1);
    meet(&mut router, now, 1, 2);
    for bytes in [0, 1, 1_385, 2_000, 65_536] {
        let header = ChunkHeader {
            payload_bytes: bytes,
            ..ChunkHeader::new(ChunkKind::Transport, Guid([1; 20]), Guid([2; 20]), NetworkAddress::NONE)
        };
        let slot = router.put_own(header.clone(), &Bytes::from(alloc::vec![0; bytes as usize]).into());
        let packets = router.buffer.chunk(slot).map(|chunk| u32::from(chunk.count()));
        assert_eq!(packets, Some(router.packets_of(&header)), "of {bytes} bytes");
    }
}

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
    let peer = Peer {
        guid: Guid([number; 20]),
        label: String::new(),
        roles: Roles::HOST,
        address: NetworkAddress::NONE,
        nonce: u64::from(number),
        datagram_bytes: 1_472,
        window: 1_000,
    };
    router.on_up(now, FaceId(face), peer);
}
/// The packets of a chunk of 2,000 bytes, all `number`, on their way to a neighbour.
fn send(router: &mut Router, now: Time, to: u8, number: u8) -> Vec<Bytes> {
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
    router.originate(now, header, &Bytes::from(alloc::vec![number; 2_000]).into(), Origin::Local);
    let mut out = TransmitBuf::default();
    router.poll_transmit(now, &mut out).expect("there is room for it");
    let packets = out.iter().map(|(head, body)| Bytes::from([head, body].concat()));
    packets.filter(|packet| PacketType::of(packet[0]) == Ok(PacketType::Data)).collect()
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

use super::*;
use crate::{
    ids::{NetworkAddress, Token},
    link::{Buffer, Origin, buffer::cut},
    wire::{ChunkKind, Class, DataTag, Reliability},
};

const LIFETIME: Duration = Duration::from_secs(3_600);

fn payload(number: u32, bytes: usize) -> Bytes {
    (0..bytes).map(|at| (at * 7 + at / 251 + number as usize) as u8).collect()
}
fn header(number: u32, bytes: usize) -> ChunkHeader {
    let tag = DataTag {
        object: ObjectId([1; 16]),
        transfer: 1,
        token: Token(7),
        number,
        count: 1_000,
        chunk_bytes: 1 << 20,
        reliability: Reliability::Nack,
        window: 0,
        window_chunks: 0,
    };
    let kind = ChunkKind::Data(tag);
    let header = ChunkHeader::new(kind, Guid([8; 20]), Guid([9; 20]), NetworkAddress::NONE);
    ChunkHeader { payload_bytes: bytes as u32, ..header }
}
/// A chunk whose packets with these numbers have arrived.
fn arrive(
    buffer: &mut Buffer,
    (number, bytes): (u32, usize),
    (first, rest): (usize, usize),
    packets: impl IntoIterator<Item = u16>,
) -> Slot {
    let fragments = cut(&payload(number, bytes).into(), first, rest);
    let slot = buffer.admit(Class::Bulk, fragments.len() as u16, Origin::Local).expect("there is room");
    buffer.set_header(slot, header(number, bytes));
    for index in packets {
        buffer.fill(slot, index, fragments[usize::from(index)].clone());
    }
    slot
}
fn partials(bytes_max: u64) -> Partials {
    Partials::open(Time::ZERO, ByteCount(bytes_max), LIFETIME, Box::new(MemoryRepository::default())).expect("empty")
}
fn key(neighbour: u8, number: u32, bytes: usize) -> PartKey {
    PartKey::of(Guid([neighbour; 20]), &header(number, bytes)).expect("it is data")
}
fn keep(partials: &mut Partials, now: Time, neighbour: u8, buffer: &Buffer, slot: Slot) {
    partials.keep(now, Guid([neighbour; 20]), slot, buffer.chunk(slot).expect("it is here"));
}

proptest::proptest! {
    /// Whichever packets of whichever cuts arrive, the store returns what arrived, each byte once.
    #[test]
    fn what_is_kept_is_what_has_come_however_it_is_cut(
        bytes in 3_000usize..30_000,
        contacts in proptest::collection::vec((100usize..1_400, 200usize..1_400, proptest::collection::btree_set(1u16..200, 0..60)), 1..5),
    ) {
        let (mut partials, mut buffer, mut came) = (partials(1 << 20), Buffer::new(60_000, 0), RangeSet::new());
        for (first, rest, packets) in contacts {
            let count = 1 + (bytes - first).div_ceil(rest) as u16;
            let packets: Vec<u16> = core::iter::once(0).chain(packets).filter(|index| *index < count - 1).collect();
            let slot = arrive(&mut buffer, (1, bytes), (first, rest), packets.iter().copied());
            let cut = buffer.chunk(slot).and_then(Chunk::even_cut);
            keep(&mut partials, Time::ZERO, 5, &buffer, slot);
            if let Some(cut) = cut {
                packets.iter().map(|index| cut.range(*index)).for_each(|(start, end)| came.insert(start, end));
            }
        }
        let other = Slot::default();
        let found = partials.resume(&key(5, 1, bytes), other);
        proptest::prop_assert!(!partials.has(&key(5, 1, bytes), other), "it is given once");
        let (given, here) = found.unwrap_or_default();
        proptest::prop_assert_eq!(&here, &came);
        let right = payload(1, bytes);
        for (start, end) in here.iter() {
            proptest::prop_assert_eq!(&given[start as usize..end as usize], &right[start as usize..end as usize]);
        }
        partials.remove(&key(5, 1, bytes));
        proptest::prop_assert_eq!(partials.used(), ByteCount(0));
    }
}

#[test]
fn whoever_fills_the_limit_pushes_out_its_own_parts_and_whole_chunks_push_out_all() {
    let (mut partials, mut buffer) = (partials(50_000), Buffer::new(60_000, 0));
    let honest = arrive(&mut buffer, (0, 20_000), (1_000, 1_000), 0..10);
    keep(&mut partials, Time::ZERO, 1, &buffer, honest);
    for number in 1..100 {
        let slot = arrive(&mut buffer, (number, 20_000), (1_000, 1_000), 0..10);
        keep(&mut partials, Time::ZERO, 2, &buffer, slot);
        assert!(partials.used() <= ByteCount(50_000));
    }
    assert!(partials.has(&key(1, 0, 20_000), Slot::default()), "the other neighbour's is here still");
    assert!(partials.has(&key(2, 99, 20_000), Slot::default()) && !partials.has(&key(2, 1, 20_000), Slot::default()));
    assert!(!partials.has(&key(3, 0, 20_000), Slot::default()), "nobody else goes on with it");
    assert_eq!(core::mem::take(&mut partials.dropped), 96);
    partials.set_room(0);
    assert!(partials.is_empty() && partials.used() == ByteCount(0));
    keep(&mut partials, Time::ZERO, 1, &buffer, honest);
    assert!(partials.is_empty(), "the store leaves no room");
}

#[test]
fn parts_end_with_the_lifetime_of_their_chunk() {
    let (mut partials, mut buffer) = (partials(50_000), Buffer::new(60_000, 0));
    let slot = arrive(&mut buffer, (1, 20_000), (1_000, 1_000), 0..10);
    if let Some(header) = buffer.header_mut(slot) {
        header.lifetime_ms = 5_000;
    }
    keep(&mut partials, Time::from_millis(1_000), 1, &buffer, slot);
    assert_eq!(partials.settle(Time::from_millis(5_999)), Ok(()));
    assert!(!partials.is_empty());
    assert_eq!(partials.settle(Time::from_millis(6_000)), Ok(()));
    assert!(partials.is_empty());
}

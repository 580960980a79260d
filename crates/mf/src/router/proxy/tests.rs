use alloc::{vec, vec::Vec};

use proptest::prelude::*;

impl Proxy {
    /// [`Proxy::open`] without the repository in errors.
    pub(super) fn new(
        now: Time,
        config: ProxyConfig,
        own: (Guid, NetworkAddress),
        repository: Box<dyn ChunkRepository>,
    ) -> Result<Proxy, StoreError> {
        Proxy::open(now, config, own, repository).map_err(|(error, _)| error)
    }
}

use super::{entries::TURN_BYTES, head::HEAD_DELEGATED, reports::REPORT_CHUNKS, *};
use crate::custody::Answer;
use crate::wire::{ChunkKind, CustodyState, DataTag, Reliability, TransportBody, TransportMessage, Wire};

fn guid(byte: u8) -> Guid {
    Guid([byte; 20])
}
pub(super) fn header(source: u8, destination: u8, number: u32, priority: u8) -> ChunkHeader {
    let tag = DataTag {
        object: ObjectId([9; 16]),
        transfer: 1,
        token: TOKEN,
        number,
        count: 2_000,
        chunk_bytes: 1_000,
        reliability: Reliability::Nack,
        window: 0,
        window_chunks: 0,
    };
    let header = ChunkHeader::new(ChunkKind::Data(tag), guid(source), guid(destination), NetworkAddress(5));
    ChunkHeader { priority, ..header }
}
fn proxy(capacity: u64, flow_capacity: u64) -> Proxy {
    let config = ProxyConfig {
        capacity: ByteCount(capacity),
        flow_capacity: ByteCount(flow_capacity),
        lifetime: Duration::from_secs(60),
        custody_timeout: Duration::from_secs(1),
        ..ProxyConfig::default()
    };
    Proxy::new(Time::ZERO, config, (guid(99), NetworkAddress(7)), Box::new(MemoryRepository::default())).expect("empty")
}
/// Sources are notified when it is durable.
fn commit(proxy: &mut Proxy) {
    assert_eq!(proxy.begin_commit(), Ok(true));
    assert_eq!(proxy.poll_commit(Time::ZERO), Ok(true));
}
/// A neighbour has a released chunk in its memory, and then its receiver has it on disk.
fn on_disk_beyond(proxy: &mut Proxy, now: Time, key: &ChunkKey, token: Token) {
    let before = proxy.usage().0;
    proxy.on_delivered(now, key, token, guid(77));
    assert_eq!(proxy.usage().0, before, "it may still be lost");
    taken(proxy, now, key, token);
}
fn taken(proxy: &mut Proxy, now: Time, key: &ChunkKey, token: Token) {
    custody_state(proxy, now, key, token, CustodyState::Taken);
}
/// A chunk's receiver reports its state.
fn custody_state(proxy: &mut Proxy, now: Time, key: &ChunkKey, token: Token, state: CustodyState) {
    let chunks = ChunkRanges::from_ascending([key.number]);
    let about = (&key.flow, key.transfer, key.object);
    proxy.on_custody(now, &key.flow.destination, token, about, state, &chunks);
}
const TOKEN: Token = Token(7);
/// No chunk is partly at its next hop.
fn none_begun(_: &ChunkHeader) -> Vec<ChunkKey> {
    Vec::new()
}
const AWAY: Kept = Kept::For(StoreReason::Away);
const CHUNK: u64 = 1_000 + CHUNK_OVERHEAD_BYTES;

/// The same of another object.
fn of_object(object: u8, header: ChunkHeader) -> ChunkHeader {
    let tag = DataTag { object: ObjectId([object; 16]), ..*header.tag().expect("data") };
    ChunkHeader { kind: ChunkKind::Data(tag), ..header }
}

#[test]
fn transfers_that_wait_for_one_destination_take_turns_by_bytes() {
    let mut proxy = proxy(64 << 20, 64 << 20);
    let large = TURN_BYTES as usize;
    let small = large / 4;
    for (object, source, chunks, bytes) in [(1, 1, 6, large), (5, 3, 5, small), (9, 4, 2, large)] {
        for number in 0..chunks {
            let header = of_object(object, header(source, 2, number, 0));
            assert_eq!(proxy.put(Time::ZERO, &header, &vec![object; bytes].into(), AWAY), Ok(()));
        }
    }
    proxy.on_reachable(&guid(2));
    let left: Vec<u8> = core::iter::from_fn(|| proxy.poll_release(Time::ZERO, |_| Release::Now, none_begun))
        .map(|(_, payload)| payload[0])
        .collect();
    assert_eq!(left, [1, 5, 5, 5, 5, 9, 1, 5, 9, 1, 1, 1, 1], "none waits for all of another one");
}

#[test]
fn destinations_without_room_are_tried_a_few_at_a_time_and_all_have_their_turns() {
    let (count, mut proxy) = (10_000_u32, proxy(64 << 20, 64 << 20));
    let device = |number: u32| Guid([&number.to_be_bytes()[..], &[5; 16]].concat().try_into().expect("20 bytes"));
    for number in 0..count {
        let header = ChunkHeader { destination: device(number), ..header(1, 2, 0, 0) };
        assert_eq!(proxy.put(Time::ZERO, &header, &vec![0; 10].into(), AWAY), Ok(()));
        proxy.on_reachable(&device(number));
    }
    let tried = core::cell::Cell::new(0);
    let mut poll = |room_for: Option<Guid>| {
        let may = |header: &ChunkHeader| {
            tried.set(tried.get() + 1);
            if Some(header.destination) == room_for { Release::Now } else { Release::Later }
        };
        proxy.poll_release(Time::ZERO, may, none_begun).map(|(header, _)| header.destination)
    };
    assert_eq!(poll(None), None);
    assert!(tried.get() <= 64, "{}", tried.get());
    for wanted in [device(count - 1), device(1), device(count / 2)] {
        let polls = (0..count).find(|_| poll(Some(wanted)) == Some(wanted)).expect("its turn comes");
        assert!(polls <= count / 64, "{polls}");
    }
}

#[test]
fn chunks_leave_in_order_when_their_destination_is_back_and_go_when_the_next_hop_has_them() {
    let mut proxy = proxy(1 << 20, 1 << 20);
    for number in [2, 0, 1] {
        assert_eq!(proxy.put(Time::ZERO, &header(1, 2, number, 0), &vec![number as u8; 1_000].into(), AWAY), Ok(()));
    }
    assert_eq!(proxy.watches.pop_front(), Some((guid(2), true)));
    assert!(proxy.poll_release(Time::ZERO, |_| Release::Now, none_begun).is_none(), "nobody is back");
    proxy.on_reachable(&guid(2));
    assert!(proxy.poll_release(Time::ZERO, |_| Release::Later, none_begun).is_none());
    for number in 0..3u8 {
        let (header, payload) = proxy.poll_release(Time::ZERO, |_| Release::Now, none_begun).expect("one more");
        assert_eq!((header.tag().map(|tag| tag.number), &payload[..]), (Some(u32::from(number)), &[number; 1_000][..]));
        assert!(header.addresses.is_empty(), "it is bound anew");
    }
    assert!(proxy.poll_release(Time::ZERO, |_| Release::Now, none_begun).is_none());
    assert_eq!(proxy.usage().0, ByteCount(3 * CHUNK), "until the next hop has them");
    proxy.on_lost(&header(1, 2, 1, 0).key().expect("data"));
    proxy.on_reachable(&guid(2));
    assert!(proxy.poll_release(Time::ZERO, |_| Release::Now, none_begun).is_some(), "lost on its way, it waits again");
    for number in 0..3 {
        on_disk_beyond(&mut proxy, Time::ZERO, &header(1, 2, number, 0).key().expect("data"), TOKEN);
    }
    assert_eq!((proxy.usage().0, proxy.watches.pop_front()), (ByteCount(0), Some((guid(2), false))));
}

#[test]
fn what_was_interrupted_leaves_before_what_was_not_begun() {
    let mut proxy = proxy(1 << 20, 1 << 20);
    for number in 0..4 {
        assert_eq!(proxy.put(Time::ZERO, &header(1, 2, number, 0), &vec![0; 1_000].into(), AWAY), Ok(()));
    }
    proxy.on_reachable(&guid(2));
    // The first chunk is gone.
    let begun = |_: &ChunkHeader| [9, 2].iter().filter_map(|number| header(1, 2, *number, 0).key()).collect();
    let released = core::iter::from_fn(|| proxy.poll_release(Time::ZERO, |_| Release::Now, begun));
    let numbers: Vec<_> = released.filter_map(|(header, _)| Some(header.tag()?.number)).collect();
    assert_eq!(numbers, [2, 0, 1, 3]);
}

#[test]
fn what_its_source_sends_again_does_not_leave_from_here_too_unless_it_is_lost() {
    let mut proxy = proxy(1 << 20, 1 << 20);
    let key = header(1, 2, 0, 0).key().expect("data");
    assert_eq!(proxy.put(Time::ZERO, &header(1, 2, 0, 0), &vec![0; 1_000].into(), AWAY), Ok(()));
    proxy.on_reachable(&guid(2));
    on_disk_beyond(&mut proxy, Time::ZERO, &key, Token(8));
    assert!(proxy.has(&key), "it was another one's");
    assert_eq!(proxy.on_passing(Time::ZERO, &key, Token(8)), None);
    assert!(proxy.poll_release(Time::ZERO, |_| Release::Now, none_begun).is_some(), "another one's goes by");
    proxy.on_lost(&key);
    proxy.on_reachable(&guid(2));
    assert!(proxy.on_passing(Time::ZERO, &key, TOKEN).is_some());
    assert!(proxy.poll_release(Time::ZERO, |_| Release::Now, none_begun).is_none(), "it is on its way");
    proxy.on_lost(&key);
    proxy.on_reachable(&guid(2));
    assert!(proxy.poll_release(Time::ZERO, |_| Release::Now, none_begun).is_some(), "this one is left");
    assert!(proxy.on_passing(Time::ZERO, &key, TOKEN).is_some());
    on_disk_beyond(&mut proxy, Time::ZERO, &key, TOKEN);
    assert!(!proxy.has(&key) && proxy.usage().0 == ByteCount(0), "the other one is at the next hop");
}

#[test]
fn a_flow_has_its_share_and_the_longest_idle_flow_of_no_higher_priority_goes_first() {
    let mut proxy = proxy(4 * CHUNK, 2 * CHUNK);
    let mut put = |source: u8, number: u32, priority: u8| {
        let header = header(source, 50, number, priority);
        proxy.put(Time::ZERO, &header, &vec![0; 1_000].into(), AWAY)
    };
    assert_eq!((put(1, 0, 0), put(1, 1, 0), put(1, 2, 0)), (Ok(()), Ok(()), Err(Refused::ShareFull)));
    assert_eq!((put(2, 0, 5), put(2, 1, 5)), (Ok(()), Ok(())));
    assert_eq!((put(3, 0, 1), put(3, 1, 1)), (Ok(()), Ok(())), "flow 1 makes room");
    assert_eq!(put(4, 0, 0), Err(Refused::Full), "everything here is more important");
    let held: Vec<u8> = proxy.holdings().map(|holding| holding.key.flow.source.0[0]).collect();
    assert_eq!((held, proxy.stats.evicted), (vec![2, 2, 3, 3], 2));
    commit(&mut proxy);
    let told: Vec<_> = core::iter::from_fn(|| proxy.poll_report(Time::from_millis(60), |_, _| true)).collect();
    let dropped = told
        .iter()
        .filter(|(.., message)| matches!(message, TransportMessage { body: TransportBody::Dropped { .. }, .. }));
    let dropped: Vec<_> = dropped.map(|(to, ..)| *to).collect();
    assert_eq!(dropped, [guid(1)]);
    assert_eq!(told.len(), 3, "one message for each flow, and none for what was stored and dropped: {told:?}");
}

/// The paper would drop the oldest flow, and with it a promise.
#[test]
fn what_a_source_has_in_store_does_not_go_for_its_own_that_is_as_important() {
    let mut proxy = proxy(4 * CHUNK, 2 * CHUNK);
    let put = |proxy: &mut Proxy, destination, number, priority| {
        let header = header(1, destination, number, priority);
        proxy.put(Time::ZERO, &header, &vec![0; 1_000].into(), AWAY)
    };
    let held = |proxy: &Proxy| -> Vec<(u8, u32)> {
        let of = |holding: &Holding| (holding.key.flow.destination.0[0], holding.key.number);
        proxy.holdings().map(of).collect()
    };
    // The second flow starts first, and is used last.
    for (destination, number) in [(51, 0), (50, 0), (50, 1), (51, 1)] {
        assert_eq!(put(&mut proxy, destination, number, 3), Ok(()));
    }
    assert_eq!(put(&mut proxy, 52, 0, 3), Err(Refused::Full));
    assert_eq!(held(&proxy), [(51, 0), (50, 0), (50, 1), (51, 1)]);
    assert_eq!(put(&mut proxy, 52, 0, 4), Ok(()), "it is more important");
    assert_eq!(held(&proxy), [(51, 0), (50, 0), (51, 1), (52, 0)], "of those alike the longest idle flow makes room");
}

/// A linear search for chunks to drop would take ten thousand million steps here.
#[test]
fn a_full_store_of_a_hundred_thousand_flows_finds_at_once_which_makes_room() {
    let sources = 100_000u32;
    let mut proxy = proxy(2 * u64::from(sources) * (1 + CHUNK_OVERHEAD_BYTES), 2_000);
    let mut put = |source: u32, number| {
        let mut guid = [0; 20];
        guid[..4].copy_from_slice(&source.to_be_bytes());
        let header = ChunkHeader { source: Guid(guid), ..header(0, 50, number, 0) };
        let put = proxy.put(Time::ZERO, &header, &vec![0; 1].into(), AWAY);
        (put, proxy.chunks.len(), proxy.stats.evicted)
    };
    let full = 2 * sources as usize;
    for source in 0..sources {
        (0..2).for_each(|number| assert_eq!(put(source, number).0, Ok(())));
    }
    for source in 0..sources {
        let evicted = u64::from(source) + 1;
        assert_eq!(put(sources + source, 0), (Ok(()), full, evicted), "one that has two of them has one less");
    }
    assert_eq!(put(2 * sources, 0).0, Err(Refused::Full), "nobody has more than that one would have");
    let left = proxy.chunks.values().filter(|stored| stored.key.flow.source.0[..4] < sources.to_be_bytes()[..]);
    let left: Vec<u32> = left.filter_map(|stored| Some(stored.header.tag()?.number)).collect();
    assert_eq!(left, vec![0; sources as usize], "of each the last chunk went, and of no one two");
}

#[test]
fn a_source_has_its_share_to_however_many_it_sends() {
    let mut proxy = proxy(100 * CHUNK, 2 * CHUNK);
    proxy.config.source_capacity = ByteCount(5 * CHUNK);
    let mut put = |source: u8, destination: u8| {
        let header = header(source, destination, 0, 0);
        proxy.put(Time::ZERO, &header, &vec![0; 1_000].into(), AWAY)
    };
    let kept = (10..20).map(|destination| put(1, destination)).collect::<Vec<_>>();
    assert_eq!(kept, [[Ok(()); 5], [Err(Refused::ShareFull); 5]].concat());
    assert_eq!(put(2, 10), Ok(()));
}

#[test]
fn many_sources_within_their_shares_take_nothing_from_one_that_has_less() {
    let mut proxy = proxy(40 * CHUNK, 10 * CHUNK);
    let mut put = |source: u8, number: u32| {
        let header = header(source, 50, number, 0);
        let _ = proxy.put(Time::ZERO, &header, &vec![0; 1_000].into(), AWAY);
    };
    (0..4).for_each(|number| put(1, number));
    (2..9).for_each(|source| (0..12).for_each(|number| put(source, number)));
    let held = |source: u8| proxy.sources.get(&guid(source)).map_or(0, |source| source.bytes / CHUNK);
    assert_eq!(held(1), 4, "acknowledged, and less than others have");
    let others: Vec<u64> = (2..9).map(held).collect();
    assert_eq!(others.iter().sum::<u64>(), 36);
    assert!(others.iter().all(|held| (5..=6).contains(held)), "they share what is left: {others:?}");
}

#[test]
fn lifetimes_end_and_reports_are_batched() {
    let mut proxy = proxy(1 << 20, 1 << 20);
    for number in 0..10 {
        let header = ChunkHeader { lifetime_ms: 500, ..header(1, 2, number, 0) };
        assert_eq!(proxy.put(Time::ZERO, &header, &vec![0; 10].into(), AWAY), Ok(()));
    }
    assert_eq!(proxy.poll_report(Time::from_millis(99), |_, _| true), None, "a promise before it is durable");
    commit(&mut proxy);
    assert_eq!(proxy.poll_report(Time::from_millis(49), |_, _| true), None);
    let chunks = ChunkRanges::from_ascending(0..10);
    let (object, flow) = (ObjectId([9; 16]), Flow { source: guid(1), destination: guid(2) });
    let stored = TransportBody::Stored { flow, proxy: guid(99), address: NetworkAddress(7), chunks: chunks.clone() }
        .about(1, object);
    assert_eq!(
        proxy.poll_report(Time::from_millis(50), |_, _| true),
        Some((guid(1), NetworkAddress::NONE, TOKEN, stored))
    );
    assert_eq!(proxy.poll_report(Time::from_millis(50), |_, _| true), None);
    proxy.handle_timeout(Time::from_millis(500));
    assert_eq!((proxy.usage().0, proxy.stats.expired), (ByteCount(0), 10));
    let dropped = TransportBody::Dropped { flow, proxy: guid(99), chunks }.about(1, object);
    assert_eq!(
        proxy.poll_report(Time::from_millis(560), |_, _| true),
        Some((guid(1), NetworkAddress::NONE, TOKEN, dropped))
    );
}

/// The source waits for it to start its next window.
#[test]
fn half_a_window_that_is_stored_is_told_at_once() {
    let mut proxy = proxy(1 << 20, 1 << 20);
    let mut store = |numbers: core::ops::Range<u32>| {
        for number in numbers {
            let mut header = header(1, 2, number, 0);
            if let ChunkKind::Data(tag) = &mut header.kind {
                tag.window_chunks = 7;
            }
            assert_eq!(proxy.put(Time::ZERO, &header, &vec![0; 10].into(), AWAY), Ok(()));
        }
        commit(&mut proxy);
        match proxy.poll_report(Time::ZERO, |_, _| true)? {
            (.., TransportMessage { body: TransportBody::Stored { chunks, .. }, .. }) => {
                Some(chunks.iter().collect::<Vec<_>>())
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(store(0..3), None, "the rest may follow soon");
    assert_eq!(store(3..4), Some(vec![0, 1, 2, 3]));
    assert_eq!(store(4..7), None);
    assert_eq!(store(7..9), Some(vec![4, 5, 6, 7, 8]));
}

#[test]
fn what_a_source_that_cannot_be_reached_is_to_be_told_waits_for_a_way() {
    let mut proxy = proxy(1 << 20, 1 << 20);
    assert_eq!(proxy.put(Time::ZERO, &header(1, 2, 4, 0), &vec![0; 10].into(), AWAY), Ok(()));
    commit(&mut proxy);
    assert_eq!(proxy.poll_report(Time::from_millis(60), |_, _| false), None);
    assert_eq!(proxy.lookups.pop_front(), Some(guid(1)));
    let again = proxy.report_at.expect("it is tried again");
    assert_eq!(proxy.poll_report(again, |_, _| false), None);
    assert_eq!(proxy.report_at, Some(again + Duration::from_secs(2)), "less and less often");
    proxy.on_ways(again);
    let soon = again + Duration::from_millis(50);
    assert!(proxy.poll_report(soon, |to, _| *to == guid(1)).is_some(), "there is a way");
    assert_eq!(proxy.poll_report(soon, |_, _| true), None);
}

#[test]
fn a_long_report_that_finds_no_way_is_not_tried_again_at_once() {
    let mut proxy = proxy(1 << 20, 1 << 20);
    for number in 0..REPORT_CHUNKS as u32 {
        assert_eq!(proxy.put(Time::ZERO, &header(1, 2, number, 0), &vec![0; 10].into(), AWAY), Ok(()));
    }
    commit(&mut proxy);
    let now = Time::from_millis(60);
    let mut tries = || {
        assert_eq!(proxy.poll_report(now, |_, _| false), None);
        proxy.lookups.pop_front()
    };
    assert_eq!(tries(), Some(guid(1)));
    assert_eq!(tries(), None, "a node that settles would never end");
    let soon = Time::from_millis(1);
    assert!(proxy.poll_report(soon, |_, _| true).is_some(), "with a way it need not wait");
}

#[test]
fn a_push_releases_what_waits_and_says_what_is_not_here() {
    let mut proxy = proxy(1 << 20, 1 << 20);
    assert_eq!(proxy.put(Time::ZERO, &header(1, 2, 4, 0), &vec![0; 10].into(), AWAY), Ok(()));
    assert_eq!(proxy.put(Time::ZERO, &header(1, 2, 5, 0), &vec![0; 10].into(), Kept::Delegated), Ok(()));
    let flow = Flow { source: guid(1), destination: guid(2) };
    let wanted = ChunkRanges::from_ascending([3, 4, 5]);
    let unknown = proxy.handle_push(Time::ZERO, Token(8), &flow, 1, ObjectId([9; 16]), &wanted);
    assert_eq!(unknown, wanted, "with another token");
    assert!(proxy.poll_release(Time::ZERO, |_| Release::Now, none_begun).is_none());
    let unknown = proxy.handle_push(Time::ZERO, TOKEN, &flow, 1, ObjectId([9; 16]), &wanted);
    assert_eq!(unknown, ChunkRanges::from_ascending([3]));
    assert!(proxy.answers_for(&flow));
    let numbers: Vec<_> = core::iter::from_fn(|| proxy.poll_release(Time::ZERO, |_| Release::Now, none_begun))
        .filter_map(|(header, _)| header.tag().map(|tag| tag.number))
        .collect();
    assert_eq!(numbers, [4, 5]);
    on_disk_beyond(&mut proxy, Time::ZERO, &header(1, 2, 5, 0).key().expect("data"), TOKEN);
    assert!(proxy.answers_for(&flow), "the copy for the producer stays");
    let used = proxy.usage().0;
    proxy.on_complete(Token(8), &flow, 1, ObjectId([9; 16]));
    assert_eq!(proxy.usage().0, used, "with another token");
    proxy.on_complete(TOKEN, &flow, 1, ObjectId([9; 16]));
    assert_eq!(proxy.usage().0, ByteCount(0));
}

/// All possible chunk numbers, as only an attacker would name them.
fn all_numbers() -> ChunkRanges {
    let flow = Flow { source: guid(1), destination: guid(2) };
    let (mut bytes, chunks) = (Vec::new(), ChunkRanges::from_ascending([0]));
    TransportBody::Push { flow, chunks }.about(1, ObjectId([9; 16])).encode(&mut bytes);
    let count = bytes.len() - 4;
    bytes[count..].fill(0xff);
    match TransportMessage::decode(&bytes) {
        Ok(TransportMessage { body: TransportBody::Push { chunks, .. }, .. }) => chunks,
        other => panic!("{other:?}"),
    }
}

/// One by one, four thousand million numbers would stop the node, and exhaust its memory.
#[test]
fn a_push_of_all_numbers_there_are_costs_no_more_than_what_is_here() {
    let mut proxy = proxy(1 << 20, 1 << 20);
    for number in [1, 4] {
        assert_eq!(proxy.put(Time::ZERO, &header(1, 2, number, 0), &vec![0; 10].into(), AWAY), Ok(()));
    }
    let flow = Flow { source: guid(1), destination: guid(2) };
    let left = proxy.handle_push(Time::ZERO, TOKEN, &flow, 1, ObjectId([9; 16]), &all_numbers());
    assert_eq!(left.runs(), [(0, 1), (2, 2), (5, u32::MAX - 5)]);
    let released = core::iter::from_fn(|| proxy.poll_release(Time::ZERO, |_| Release::Now, none_begun)).count();
    assert_eq!(released, 2);
}

#[test]
fn what_the_next_hop_has_just_taken_is_not_said_to_be_gone() {
    let mut proxy = proxy(1 << 20, 1 << 20);
    let (flow, key) = (Flow { source: guid(1), destination: guid(2) }, header(1, 2, 4, 0).key().expect("data"));
    assert_eq!(proxy.put(Time::ZERO, &header(1, 2, 4, 0), &vec![0; 10].into(), AWAY), Ok(()));
    taken(&mut proxy, Time::ZERO, &key, TOKEN);
    assert!(proxy.has(&key), "nobody can have what was never sent");
    proxy.on_reachable(&guid(2));
    assert!(proxy.poll_release(Time::ZERO, |_| Release::Now, none_begun).is_some());
    on_disk_beyond(&mut proxy, Time::ZERO, &key, TOKEN);
    let wanted = ChunkRanges::from_ascending([4, 5]);
    let mut left = |now| proxy.handle_push(now, TOKEN, &flow, 1, ObjectId([9; 16]), &wanted);
    assert_eq!(left(Time::ZERO).runs(), [(5, 1)], "its receiver may not have had it yet");
    assert_eq!(left(Time::ZERO + LATELY), wanted, "it must have been lost further on");
}

#[test]
fn what_cannot_be_read_any_more_is_said_to_be_dropped() {
    for is_copied in [false, true] {
        let disk = Disk { is_torn: true, ..Disk::default() };
        let own = (guid(99), NetworkAddress(7));
        let mut proxy = Proxy::new(Time::ZERO, ProxyConfig::default(), own, Box::new(disk)).expect("empty");
        assert_eq!(proxy.put(Time::ZERO, &header(1, 2, 4, 0), &vec![0; 10].into(), AWAY), Ok(()));
        commit(&mut proxy);
        let told = |proxy: &mut Proxy, now| match proxy.poll_report(now, |_, _| true) {
            Some((.., TransportMessage { body: TransportBody::Stored { .. }, .. })) => "stored",
            Some((.., TransportMessage { body: TransportBody::Dropped { .. }, .. })) => "dropped",
            other => panic!("{other:?}"),
        };
        assert_eq!(told(&mut proxy, Time::from_millis(100)), "stored");
        proxy.on_reachable(&guid(2));
        let now = Time::from_millis(200);
        if is_copied {
            assert!(proxy.copy(now, &header(1, 2, 4, 0).key().expect("data")).is_none());
        } else {
            assert!(proxy.poll_release(now, |_| Release::Now, none_begun).is_none());
        }
        assert!(proxy.failure.take().is_some() && proxy.usage().0 == ByteCount(0));
        assert_eq!(told(&mut proxy, Time::from_millis(300)), "dropped");
    }
}

#[test]
fn a_proxy_that_starts_again_with_very_many_transfers_tells_each_source() {
    let (count, own) = (3 * REPORTS_MAX as u64, (guid(99), NetworkAddress(7)));
    let of = |transfer: u64| {
        let mut header = header(1, 2, 0, 0);
        if let ChunkKind::Data(tag) = &mut header.kind {
            tag.transfer = transfer as u32;
        }
        header.source = Guid([(transfer / u64::from(REPORTS_MAX as u32)) as u8; 20]);
        header
    };
    let mut repository = MemoryRepository::default();
    for id in 0..count {
        let mut head = vec![0];
        of(id).encode(&mut head);
        repository.put(id, &head, &[vec![0; 10].into()]).expect("room");
    }
    let mut proxy = Proxy::new(Time::ZERO, ProxyConfig::default(), own, Box::new(repository)).expect("it can be read");
    assert_eq!(proxy.reports.len(), REPORTS_MAX);
    let (mut now, mut told) = (Time::ZERO, BTreeSet::new());
    // The first chunks' source is unreachable.
    while told.len() < 2 * REPORTS_MAX && now < Time::from_millis(600_000) {
        now = proxy.report_at.expect("not all are told").max(now + Duration::from_millis(1));
        while let Some((to, _, _, message)) = proxy.poll_report(now, |to, _| to.0[0] != 0) {
            assert!(matches!(message, TransportMessage { body: TransportBody::Stored { .. }, .. }) && to.0[0] != 0);
            assert!(told.insert(message.transfer), "once is enough");
        }
        assert!(proxy.reports.len() <= REPORTS_MAX);
    }
    assert_eq!(told.len(), 2 * REPORTS_MAX);
    now = proxy.report_at.expect("not all are told");
    while proxy.poll_report(now, |_, _| true).is_some_and(|(.., message)| told.insert(message.transfer)) {}
    assert_eq!((told.len() as u64, proxy.stats.untold), (count, 0));
}

#[test]
fn what_goes_on_to_the_next_store_is_kept_there_for_what_is_left_of_its_lifetime() {
    let mut proxy = proxy(1 << 20, 1 << 20);
    for (number, lifetime_ms) in [(0, 5_000), (1, 0)] {
        let header = ChunkHeader { lifetime_ms, ..header(1, 2, number, 0) };
        assert_eq!(proxy.put(Time::ZERO, &header, &vec![0; 10].into(), AWAY), Ok(()));
    }
    proxy.on_reachable(&guid(2));
    let now = Time::from_millis(2_000);
    let left = core::iter::from_fn(|| proxy.poll_release(now, |_| Release::Now, none_begun));
    assert_eq!(left.map(|(header, _)| header.lifetime_ms).collect::<Vec<_>>(), [3_000, 0]);
}

#[test]
fn a_copy_for_a_producer_waits_if_its_chunk_goes_no_further_and_stays_when_it_has() {
    let mut proxy = proxy(1 << 20, 1 << 20);
    let (kept, key) = (header(1, 2, 0, 0), header(1, 2, 0, 0).key().expect("data"));
    let released = |proxy: &mut Proxy| proxy.poll_release(Time::ZERO, |_| Release::Now, none_begun).is_some();
    assert_eq!(proxy.put(Time::ZERO, &kept, &vec![0; 10].into(), Kept::Delegated), Ok(()));
    proxy.on_reachable(&guid(2));
    assert!(!released(&mut proxy), "the chunk itself is on its way");
    assert_eq!(proxy.put(Time::ZERO, &kept, &vec![0; 10].into(), AWAY), Ok(()));
    assert_eq!(proxy.watches.pop_front(), Some((guid(2), true)));
    assert!(proxy.holdings().all(|held| held.owed && held.delegated));
    proxy.on_reachable(&guid(2));
    assert!(released(&mut proxy));
    on_disk_beyond(&mut proxy, Time::ZERO, &key, TOKEN);
    assert!(proxy.has(&key) && proxy.holdings().all(|held| !held.owed), "it answers for the producer from now on");
    proxy.on_reachable(&guid(2));
    assert!(!released(&mut proxy), "once is enough");
}

/// After a restart it is unknown whether the next hop has it.
#[test]
fn a_copy_for_a_producer_leaves_after_a_start_and_one_for_a_group_does_not() {
    let mut repository = MemoryRepository::default();
    let groups = ChunkHeader { service: ServiceId::Multicast, ..header(1, 3, 0, 0) };
    for (id, header) in [(1, header(1, 2, 0, 0)), (2, groups)] {
        let mut head = vec![HEAD_DELEGATED];
        header.encode(&mut head);
        repository.put(id, &head, &[vec![0; 10].into()]).expect("room");
    }
    let own = (guid(99), NetworkAddress(7));
    let mut proxy = Proxy::new(Time::ZERO, ProxyConfig::default(), own, Box::new(repository)).expect("it can be read");
    [2, 3].iter().for_each(|destination| proxy.on_reachable(&guid(*destination)));
    let to = core::iter::from_fn(|| proxy.poll_release(Time::ZERO, |_| Release::Now, none_begun))
        .map(|(header, _)| header.destination);
    assert_eq!(to.collect::<Vec<_>>(), [guid(2)]);
    assert!(proxy.holdings().all(|held| held.delegated));
}

proptest! {
    #[test]
    fn bytes_are_accounted_for_and_limits_hold(
        steps in prop::collection::vec((0u8..13, 0u8..4, 0u8..3, 0u32..12, 0u8..3, 1usize..3_000), 1..120),
    ) {
        let (capacity, share) = (20_000, 8_000);
        let mut proxy = proxy(capacity, share);
        let mut now = Time::ZERO;
        for (action, source, destination, number, priority, bytes) in steps {
            now += Duration::from_millis(100);
            let header = header(source, destination, number, priority);
            let key = header.key().expect("data");
            match action {
                0..=2 => drop(proxy.put(now, &header, &vec![0; bytes].into(), AWAY)),
                3 => proxy.on_delivered(now, &key, TOKEN, guid(70 + source)),
                4 | 5 => {
                    proxy.on_reachable(&guid(destination));
                    proxy.poll_release(now, |_| Release::Now, none_begun);
                }
                6 | 7 => taken(&mut proxy, now, &key, TOKEN),
                8 => custody_state(&mut proxy, now, &key, TOKEN, CustodyState::Refused),
                9 => custody_state(&mut proxy, now, &key, TOKEN, CustodyState::Lost),
                10 => proxy.on_neighbour_lost(&guid(70 + source), 1),
                11 => proxy.on_neighbour(now, &guid(70 + source), u64::from(priority)),
                _ => proxy.handle_timeout(now),
            }
            proxy.assert_custody();
            let held: u64 = proxy.holdings().map(|holding| holding.bytes).sum();
            prop_assert_eq!(held, proxy.usage().0.0);
            prop_assert!(held <= capacity);
            for (id, flow) in &proxy.flows {
                prop_assert!(flow.bytes <= share);
                let least = flow.chunks.first().expect("a flow without chunks is forgotten").0;
                prop_assert!(proxy.order.contains(&(least, flow.used_at, *id)));
            }
            prop_assert_eq!(proxy.order.len(), proxy.flows.len());
            for (id, source) in &proxy.sources {
                let flows = proxy.flows.iter().filter(|(flow, _)| flow.source == *id);
                prop_assert_eq!(source.bytes, flows.map(|(_, flow)| flow.bytes).sum::<u64>());
                prop_assert!(source.order.iter().all(|place| place.2.source == *id && proxy.order.contains(place)));
                prop_assert!(proxy.largest.contains(&(source.bytes, core::cmp::Reverse(source.used_at), *id)));
            }
            prop_assert_eq!(proxy.sources.values().map(|source| source.order.len()).sum::<usize>(), proxy.flows.len());
            prop_assert_eq!(proxy.largest.len(), proxy.sources.len());
            let stats = proxy.stats;
            prop_assert_eq!(
                stats.stored, stats.delivered + stats.evicted + stats.expired + proxy.chunks.len() as u64
            );
            let waiting: usize = proxy.destinations.values().map(|to| to.waiting.len()).sum();
            let away = |stored: &&Holding| stored.place != Place::Here || stored.rests;
            let away = proxy.chunks.values().filter(away).count();
            prop_assert_eq!(waiting + away, proxy.chunks.len());
        }
    }
}

/// A disk that can be full, or unreadable.
#[derive(Default)]
struct Disk {
    inner: MemoryRepository,
    full: alloc::sync::Arc<core::sync::atomic::AtomicBool>,
    puts: Vec<u64>,
    is_torn: bool,
    /// Reads that fail before one succeeds.
    fails: u32,
    clock: Duration,
}
impl ChunkRepository for Disk {
    fn put(&mut self, id: u64, head: &[u8], payload: &[Bytes]) -> Result<(), StoreError> {
        self.puts.push(id);
        self.inner.put(id, head, payload)
    }
    fn remove(&mut self, id: u64) -> Result<(), StoreError> {
        self.inner.remove(id)
    }
    fn commit(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    fn is_committed(&mut self) -> Result<bool, StoreError> {
        let puts = core::mem::take(&mut self.puts);
        if !puts.is_empty() && self.full.load(core::sync::atomic::Ordering::Relaxed) {
            let reason = "no space left".into();
            return Err(StoreError::Io { operation: "commit", path: "store".into(), reason });
        }
        Ok(true)
    }
    fn read(&mut self, id: u64) -> Result<Bytes, StoreError> {
        if self.fails > 0 {
            self.fails -= 1;
            return Err(StoreError::Later { reason: "input/output error".into() });
        }
        self.inner.read(if self.is_torn { u64::MAX } else { id })
    }
    fn list(&mut self) -> Result<Vec<(u64, Vec<u8>, u64)>, StoreError> {
        self.inner.list()
    }
    fn clock(&self) -> Duration {
        self.clock
    }
}

#[test]
fn a_chunk_that_cannot_be_read_now_stays_and_leaves_later() {
    let own = (guid(99), NetworkAddress(7));
    let disk = Disk { fails: 3, ..Disk::default() };
    let mut proxy = Proxy::new(Time::ZERO, ProxyConfig::default(), own, Box::new(disk)).expect("empty");
    proxy.put(Time::ZERO, &header(1, 2, 0, 0), &vec![1; 1_000].into(), AWAY).expect("room");
    commit(&mut proxy);
    let key = header(1, 2, 0, 0).key().expect("data");
    assert!(proxy.copy(Time::ZERO, &key).is_none() && proxy.has(&key), "for others");
    proxy.on_reachable(&guid(2));
    let mut now = Time::ZERO;
    let left = loop {
        if let Some((left, _)) = proxy.poll_release(now, |_| Release::Now, none_begun) {
            break left;
        }
        assert!(proxy.has(&key), "the disk fails for now");
        assert!(now < Time::from_millis(10_000), "it is tried again");
        now += Duration::from_millis(100);
        proxy.handle_timeout(now);
    };
    assert_eq!(left.key(), Some(key));
    assert!(now >= Time::from_millis(1_000), "{now}: not at once");
}

#[test]
fn a_lifetime_goes_on_over_a_restart_and_while_the_node_is_down() {
    let own = (guid(99), NetworkAddress(7));
    let (second, config) =
        (Duration::from_secs(1), ProxyConfig { lifetime: Duration::from_secs(60), ..ProxyConfig::default() });
    let came = Duration::from_secs(1_000_000);
    // The time from its arrival to the restart, if the clock is right, and its remaining lifetime.
    for (lifetime_ms, gone, left) in [(10_000, 4, 6), (10_000, 10, 0), (10_000, 99, 0), (0, 20, 40), (0, -30, 60)] {
        let disk = Disk { clock: came, ..Disk::default() };
        let mut first = Proxy::new(Time::ZERO, config.clone(), own, Box::new(disk)).expect("empty");
        let header = ChunkHeader { lifetime_ms, ..header(1, 2, 0, 0) };
        first.put(Time::from_millis(5_000), &header, &vec![0; 10].into(), Kept::Delegated).expect("room");
        let (_, head, bytes) = first.repository.list().expect("in memory").remove(0);
        let mut disk =
            Disk { clock: if gone < 0 { came - second * 30 } else { came + second * gone as u32 }, ..Disk::default() };
        disk.put(1, &head, &[vec![0; bytes as usize].into()]).expect("in memory");
        let start = Time::ZERO + second;
        let mut again = Proxy::new(start, config.clone(), own, Box::new(disk)).expect("in memory");
        let held = again.holdings().next().expect("nobody has taken it");
        assert_eq!((held.until.since(start), held.delegated), (left * second, true), "{lifetime_ms} {gone}");
        again.handle_timeout(start + left * second);
        assert_eq!(again.stats.expired, 1);
    }
}

#[test]
fn what_a_full_disk_did_not_take_is_not_here_and_is_never_acknowledged() {
    let full = alloc::sync::Arc::<core::sync::atomic::AtomicBool>::default();
    let disk = Disk { inner: MemoryRepository::default(), full: alloc::sync::Arc::clone(&full), ..Disk::default() };
    let own = (guid(99), NetworkAddress(7));
    let mut proxy = Proxy::new(Time::ZERO, ProxyConfig::default(), own, Box::new(disk)).expect("empty");
    let put = |proxy: &mut Proxy, number| proxy.put(Time::ZERO, &header(1, 2, number, 0), &vec![1; 1_000].into(), AWAY);
    let key = |number| header(1, 2, number, 0).key().expect("data");
    put(&mut proxy, 0).expect("room");
    commit(&mut proxy);
    full.store(true, core::sync::atomic::Ordering::Relaxed);
    // The durable one comes again in addition to a new one.
    put(&mut proxy, 0).expect("it is here");
    put(&mut proxy, 1).expect("room, as far as is known");
    assert_eq!(proxy.begin_commit(), Ok(true));
    assert!(proxy.poll_commit(Time::ZERO).is_err());
    assert!(proxy.has(&key(0)) && !proxy.has(&key(1)));
    assert_eq!(proxy.usage().0, ByteCount(CHUNK));
    // It comes again and is no duplicate: it is acknowledged only when it is on disk.
    put(&mut proxy, 1).expect("room");
    assert_eq!((proxy.stats.duplicates, proxy.begin_commit()), (1, Ok(true)));
    assert!(proxy.poll_commit(Time::ZERO).is_err());
    let later = Time::ZERO + Duration::from_secs(1);
    let stored = |message: Option<(_, _, _, TransportMessage)>| match message {
        Some((.., TransportMessage { body: TransportBody::Stored { chunks, .. }, .. })) => {
            chunks.iter().collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!((stored(proxy.poll_report(later, |_, _| true)), proxy.poll_report(later, |_, _| true)), (vec![0], None));
    full.store(false, core::sync::atomic::Ordering::Relaxed);
    put(&mut proxy, 1).expect("room");
    commit(&mut proxy);
    assert_eq!(stored(proxy.poll_report(later, |_, _| true)), [1]);
}

#[test]
fn what_goes_past_copies_takes_their_place_and_what_leaves_says_that_it_was_stored() {
    let mut proxy = proxy(1 << 20, 1 << 20);
    let first = header(1, 2, 0, 0);
    let right = ChunkHeader { flags: Flags::REPEATED | Flags::NO_CACHE, ..first.clone() };
    for (header, byte) in [(&first, 1), (&first, 2), (&right, 3)] {
        assert_eq!(proxy.put(Time::ZERO, header, &vec![byte; 1_000].into(), AWAY), Ok(()));
        let kept = proxy.copy(Time::ZERO, &first.key().expect("data")).map(|(_, payload)| payload[0]);
        assert_eq!(kept, Some(if byte == 3 { 3 } else { 1 }));
    }
    assert_eq!(proxy.usage().0, ByteCount(CHUNK));
    proxy.on_reachable(&guid(2));
    let (header, payload) = proxy.poll_release(Time::ZERO, |_| Release::Now, none_begun).expect("it is here");
    assert_eq!((header.flags.contains(Flags::STORED), payload[0]), (true, 3));
    assert_eq!(proxy.put(Time::ZERO, &right, &vec![4; 1_000].into(), AWAY), Ok(()), "it is on its way already");
    assert_eq!(proxy.stats.duplicates, 2);
}

impl Proxy {
    /// The custody state agrees with the chunks.
    fn assert_custody(&self) {
        let transits = self.transits.ids();
        for (id, stored) in &self.chunks {
            assert_eq!(transits.contains(id), stored.place != Place::Here, "{:?}", stored.key);
            let entry = (stored.key.object, stored.key.transfer, stored.key.number, *id);
            let waits = self.destinations[&stored.key.flow.destination].waiting.contains(&entry);
            assert_eq!(waits, stored.owed && stored.place == Place::Here && !stored.rests, "{:?}", stored.key);
            assert_eq!(self.transits.rests(*id), stored.rests, "{:?}", stored.key);
        }
        for (guid, destination) in &self.destinations {
            let away = self.chunks.values().filter(|stored| stored.key.flow.destination == *guid);
            let bytes: u64 = away.filter(|stored| stored.place != Place::Here).map(|stored| stored.bytes).sum();
            assert_eq!(destination.window.bytes(), bytes);
        }
        let mut timers = self.timers.clone();
        let timers: BTreeSet<Guid> = core::iter::from_fn(|| timers.pop_due(Time::MAX)).collect();
        assert!(timers.iter().eq(self.destinations.keys()));
    }
}

/// Released one by one, and in the memory of the next hop: returns their headers.
fn release(proxy: &mut Proxy, now: Time) -> Vec<ChunkHeader> {
    let left: Vec<ChunkHeader> = core::iter::from_fn(|| proxy.poll_release(now, |_| Release::Now, none_begun))
        .map(|(header, _)| header)
        .collect();
    left.iter().for_each(|header| proxy.on_delivered(now, &header.key().expect("data"), TOKEN, guid(77)));
    left
}
fn numbers(headers: &[ChunkHeader]) -> Vec<u32> {
    headers.iter().filter_map(|header| Some(header.tag()?.number)).collect()
}

#[test]
fn a_chunk_stays_until_it_is_on_a_disk_further_on_and_goes_again_when_nobody_says_so() {
    let mut proxy = proxy(1 << 20, 1 << 20);
    let put = |proxy: &mut Proxy, number| proxy.put(Time::ZERO, &header(1, 2, number, 0), &vec![0; 1_000].into(), AWAY);
    (0..3).for_each(|number| assert_eq!(put(&mut proxy, number), Ok(())));
    commit(&mut proxy);
    proxy.on_reachable(&guid(2));
    let left = release(&mut proxy, Time::ZERO);
    let own = Custodian { guid: guid(99), address: NetworkAddress(7) };
    assert!(left.iter().all(|header| header.custodian == Some(own) && !header.flags.contains(Flags::REPEATED)));
    assert!(proxy.holdings().all(|held| matches!(held.place, Place::InTransit { via, .. } if via == guid(77))));
    let key = |number| header(1, 2, number, 0).key().expect("data");
    let soon = Time::from_millis(500);
    taken(&mut proxy, soon, &key(1), Token(8));
    assert!(proxy.has(&key(1)), "nobody says so who does not know the token");
    taken(&mut proxy, soon, &key(1), TOKEN);
    taken(&mut proxy, soon, &key(1), TOKEN);
    assert!(!proxy.has(&key(1)), "said twice or once");
    let due = proxy.custody_due().expect("the others are waited for");
    assert!(due > soon && due < soon + Duration::from_secs(2), "by the round trip that was measured: {due}");
    proxy.handle_timeout(due);
    let again = release(&mut proxy, due);
    assert_eq!(numbers(&again), [0, 2]);
    assert!(again.iter().all(|header| header.flags.contains(Flags::REPEATED)), "who has them knows them by that");
    let later = proxy.custody_due().expect("they are waited for again");
    assert!(later.since(due) >= due.since(soon) * 3 / 2, "twice as long: {later} after {due}");
    [0, 2].into_iter().for_each(|number| taken(&mut proxy, later, &key(number), TOKEN));
    assert_eq!((proxy.usage().0, proxy.stats.timeouts, proxy.custody_due()), (ByteCount(0), 2, None));
}

#[test]
fn what_a_neighbour_had_in_its_memory_goes_again_when_it_has_lost_that_and_not_when_it_was_away() {
    for life in [5, 6] {
        let mut proxy = proxy(1 << 20, 1 << 20);
        assert_eq!(proxy.put(Time::ZERO, &header(1, 2, 0, 0), &vec![0; 1_000].into(), AWAY), Ok(()));
        proxy.on_reachable(&guid(2));
        release(&mut proxy, Time::ZERO);
        proxy.on_neighbour_lost(&guid(77), 5);
        let gone = proxy.poll_release(Time::ZERO, |_| Release::Away, none_begun);
        assert!(gone.is_none() && proxy.holdings().all(|held| held.place == Place::Here && !held.rests));
        let now = Time::from_millis(300);
        proxy.on_neighbour(now, &guid(77), life);
        proxy.on_reachable(&guid(2));
        assert_eq!(release(&mut proxy, now).len(), usize::from(life == 6), "life {life}");
    }
}

/// The typical store for a device after a long absence.
fn messages(count: u32, bytes: usize) -> Proxy {
    let mut proxy = proxy(1 << 30, 1 << 30);
    for number in 0..count {
        for chunk in 0..2 {
            let mut header = header(1, 2, chunk, 0);
            if let ChunkKind::Data(tag) = &mut header.kind {
                tag.transfer = number;
                tag.object.0[..4].copy_from_slice(&number.to_be_bytes());
            }
            let payload = vec![0; if chunk == 0 { 200 } else { bytes }];
            assert_eq!(proxy.put(Time::ZERO, &header, &payload.into(), AWAY), Ok(()));
        }
    }
    commit(&mut proxy);
    proxy.on_reachable(&guid(2));
    proxy
}

#[test]
fn no_more_objects_are_on_their_way_than_may_be_and_what_has_begun_goes_on() {
    let mut proxy = messages(1_000, 100);
    proxy.config.custody_objects = 10;
    proxy.destinations.values_mut().for_each(|to| to.window = Window::new(&proxy.config));
    let left = release(&mut proxy, Time::ZERO);
    let transfers =
        |left: &[ChunkHeader]| left.iter().filter_map(|header| Some(header.tag()?.transfer)).collect::<BTreeSet<u32>>();
    assert_eq!((left.len(), transfers(&left).len()), (20, 10), "all of each");
    taken(&mut proxy, Time::ZERO, &left[1].key().expect("data"), TOKEN);
    assert_eq!(release(&mut proxy, Time::ZERO).len(), 0, "a description of it is still on its way");
    taken(&mut proxy, Time::ZERO, &left[0].key().expect("data"), TOKEN);
    assert_eq!(release(&mut proxy, Time::ZERO).len(), 2, "the next one");
    let mut rounds = 0;
    while proxy.usage().0.0 > 0 && rounds < 1_000 {
        rounds += 1;
        let away = |held: &&Holding| matches!(held.place, Place::InTransit { .. });
        let keys: Vec<ChunkKey> = proxy.holdings().filter(away).map(|held| held.key).collect();
        assert!(keys.len() <= 20);
        keys.iter().for_each(|key| taken(&mut proxy, Time::ZERO, key, TOKEN));
        release(&mut proxy, Time::ZERO);
    }
    assert_eq!((proxy.usage().0, proxy.stats.timeouts), (ByteCount(0), 0), "after {rounds} rounds");
}

#[test]
fn who_has_no_room_is_sent_one_object_after_a_while_and_all_when_it_says_that_there_is_room() {
    for says_so in [true, false] {
        let mut proxy = messages(50, 100);
        let left = release(&mut proxy, Time::ZERO);
        assert_eq!(left.len(), 100);
        let mut now = Time::from_millis(10);
        left.iter().for_each(|header| {
            custody_state(&mut proxy, now, &header.key().expect("data"), TOKEN, CustodyState::Refused);
        });
        assert!(proxy.holdings().all(|held| held.place == Place::Here && held.rests));
        assert_eq!(release(&mut proxy, now).len(), 0);
        if says_so {
            custody_state(&mut proxy, now, &left[7].key().expect("data"), Token(8), CustodyState::Ready);
            assert_eq!(release(&mut proxy, now).len(), 0, "nobody says so who does not know the token");
            custody_state(&mut proxy, now, &left[7].key().expect("data"), TOKEN, CustodyState::Ready);
        } else {
            now = proxy.custody_due().expect("it is tried again");
            proxy.handle_timeout(now);
        }
        let first = release(&mut proxy, now);
        assert_eq!(first.len(), 2, "one object");
        first.iter().for_each(|header| taken(&mut proxy, now, &header.key().expect("data"), TOKEN));
        assert_eq!(release(&mut proxy, now).len(), 6, "it takes them: more at a time");
    }
}

#[test]
fn objects_of_which_each_is_partly_on_its_way_do_not_hold_up_each_other() {
    let mut proxy = messages(20, 1_000);
    proxy.config.custody_bytes = ByteCount(3 * CHUNK);
    let mut kept: BTreeMap<u32, u32> = BTreeMap::new();
    for round in 0.. {
        assert!(round < 1_000, "{kept:?}");
        for header in release(&mut proxy, Time::ZERO) {
            *kept.entry(header.tag().expect("data").transfer).or_default() += 1;
        }
        // Its receiver can keep only complete objects.
        let Some(complete) = kept.iter().find(|(_, chunks)| **chunks == 2).map(|(transfer, _)| *transfer) else {
            break;
        };
        kept.remove(&complete);
        let keys: Vec<ChunkKey> =
            proxy.holdings().map(|held| held.key).filter(|key| key.transfer == complete).collect();
        keys.iter().for_each(|key| taken(&mut proxy, Time::ZERO, key, TOKEN));
    }
    assert_eq!((proxy.usage().0, kept.len()), (ByteCount(0), 0), "all were whole at some time");
}

#[test]
fn the_custodian_before_is_told_when_a_chunk_is_durable_here_and_whenever_it_sends_it_again() {
    let mut proxy = proxy(1 << 20, 1 << 20);
    let before = Custodian { guid: guid(98), address: NetworkAddress(6) };
    let came = ChunkHeader { custodian: Some(before), ..header(1, 2, 0, 0) };
    assert_eq!(proxy.put(Time::ZERO, &came, &vec![0; 1_000].into(), AWAY), Ok(()));
    assert_eq!(proxy.poll_answer(), None, "a promise before it is durable");
    commit(&mut proxy);
    let answer = Answer { custodian: before, token: TOKEN, key: came.key().expect("data"), state: CustodyState::Taken };
    assert_eq!((proxy.poll_answer(), proxy.poll_answer()), (Some(answer), None));
    assert!(proxy.take_from_custodian(&came), "it need not go on");
    assert_eq!(proxy.poll_answer(), Some(answer));
    proxy.on_reachable(&guid(2));
    let left = release(&mut proxy, Time::ZERO);
    assert_eq!(left[0].custodian.map(|custodian| custodian.guid), Some(guid(99)), "it is the custodian now");
    let mut list = proxy.repository.list().expect("it can be read");
    let mut disk = MemoryRepository::default();
    for (id, head, _) in list.drain(..) {
        disk.put(id, &head, &[vec![0; 1_000].into()]).expect("room");
    }
    let own = (guid(99), NetworkAddress(7));
    let mut proxy = Proxy::new(Time::ZERO, ProxyConfig::default(), own, Box::new(disk)).expect("it can be read");
    assert_eq!(proxy.poll_answer(), Some(answer), "it may have been killed before it said so");
    proxy.on_reachable(&guid(2));
    assert!(release(&mut proxy, Time::ZERO)[0].flags.contains(Flags::REPEATED), "it may have left before");
}

#[test]
fn custody_ends_at_the_next_hop_where_the_settings_say_so() {
    let mut proxy = proxy(1 << 20, 1 << 20);
    proxy.config.custody = crate::config::CustodyUntil::Hop;
    assert_eq!(proxy.put(Time::ZERO, &header(1, 2, 0, 0), &vec![0; 1_000].into(), AWAY), Ok(()));
    proxy.on_reachable(&guid(2));
    let left = release(&mut proxy, Time::ZERO);
    assert_eq!((left[0].custodian, proxy.usage().0), (None, ByteCount(0)));
}

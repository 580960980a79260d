use super::*;
use crate::{
    network_tests::{Faults, Network, route},
    wire::Replicate,
};
use proptest::prelude::*;

const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);
const C: NodeId = NodeId(3);

fn small(request: u32) -> Message {
    Message::Sync { request }
}

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// A message of about `bytes` bytes, identified by `request`.
fn big(request: u32, bytes: usize) -> Message {
    let name: Name = "/x".parse().unwrap();
    let update = |i: usize| crate::wire::RecordUpdate {
        name: name.clone(),
        revision: i as u64,
        registration: 0,
        entries: Vec::new(),
    };
    Message::Replicate(Replicate { request, records: (0..bytes / 23).map(update).collect() })
}

fn pair() -> (ControlChannel, ControlChannel) {
    let new = |node| ControlChannel::new(ControlConfig::default(), node, 9);
    (new(A), new(B))
}

/// Passes every pending packet of `from` to `to`.
fn carry(now: Time, from: &mut ControlChannel, to: &mut ControlChannel) -> usize {
    let packets: Vec<_> = core::iter::from_fn(|| from.poll_packet(now)).collect();
    packets.iter().for_each(|(_, packet)| to.handle_packet(now, FaceId(0), packet).unwrap());
    packets.len()
}

#[test]
fn a_message_is_delivered_and_both_ends_know() {
    let (mut a, mut b) = pair();
    let number = a.send(ms(0), B, route(B), route(A), &small(7));
    assert_eq!(carry(ms(5), &mut a, &mut b), 1);
    assert_eq!(b.poll_delivery(), Some(Delivery { from: A, reply: route(A), message: small(7) }));
    assert_eq!(a.poll_outcome(), None);
    assert_eq!(carry(ms(10), &mut b, &mut a), 1);
    assert_eq!(a.poll_outcome(), Some(Outcome { number, to: B, result: SendResult::Delivered }));
    assert_eq!((a.poll_timeout(), b.poll_timeout()), (None, None));
    assert_eq!(a.rtt(B), Some(Duration::from_millis(5)));
}

#[test]
fn the_secret_of_the_labels_is_not_to_be_read_on_the_wire() {
    let (mut a, mut b) = pair();
    let state = crate::wire::LinkState {
        node: A,
        boot: 9,
        sequence: 1,
        term: 1,
        roles: crate::ids::Roles::ROUTER,
        label: "north".into(),
        secret: *b"sixteen secrets!",
        location: None,
        adjacencies: Vec::new(),
    };
    a.send(ms(0), B, route(B), route(A), &Message::LinkState(state.clone()));
    let (_, packet) = a.poll_packet(ms(0)).unwrap();
    assert!(!packet.windows(8).any(|bytes| state.secret.windows(8).any(|secret| secret == bytes)));
    b.handle_packet(ms(5), FaceId(0), &packet).unwrap();
    assert_eq!(b.poll_delivery().unwrap().message, Message::LinkState(state));
}

#[test]
fn a_message_to_oneself_needs_no_packet() {
    let (mut a, _) = pair();
    a.send(ms(0), A, Fid::NONE, Fid::NONE, &small(7));
    assert_eq!(a.poll_delivery().map(|d| d.from), Some(A));
    assert_eq!(a.poll_outcome().map(|o| o.result), Some(SendResult::Delivered));
    assert_eq!(a.poll_packet(ms(0)), None);
}

/// A rendezvous node with many publications sends requests to itself.
#[test]
fn messages_that_go_together_come_one_by_one_also_to_oneself() {
    let (mut a, _) = pair();
    a.send(ms(0), A, Fid::NONE, Fid::NONE, &Message::Many([small(1), small(2)].into()));
    let delivered = core::iter::from_fn(|| a.poll_delivery());
    assert_eq!(delivered.map(|delivery| delivery.message).collect::<Vec<_>>(), [small(1), small(2)]);
}

#[test]
fn backoff_doubles_to_its_limit_and_then_the_message_is_given_up() {
    let (mut a, _) = pair();
    let number = a.send(ms(0), B, route(B), route(A), &small(7));
    let mut sent_at = Vec::new();
    let mut now = ms(0);
    while a.poll_outcome().is_none() {
        a.handle_timeout(now);
        while a.poll_packet(now).is_some() {
            sent_at.push(now.as_nanos() / 1_000_000);
        }
        match a.poll_timeout() {
            Some(due) => now = due,
            None => break,
        }
    }
    assert_eq!(sent_at, [0, 200, 600, 1_400, 3_000, 6_000, 9_000, 12_000]);
    assert_eq!(now, ms(15_000));
    assert_eq!(a.stats().timed_out, 1);
    assert_eq!(number, MessageNumber(0));
}

#[test]
fn what_waits_for_a_dead_peer_fails_with_the_first() {
    let (mut a, _) = pair();
    for request in 0..100 {
        a.send(ms(0), B, route(B), route(A), &small(request));
    }
    let mut now = ms(0);
    loop {
        a.handle_timeout(now);
        while a.poll_packet(now).is_some() {}
        match a.poll_timeout() {
            Some(due) => now = due,
            None => break,
        }
    }
    let outcomes: Vec<_> = core::iter::from_fn(|| a.poll_outcome()).collect();
    assert_eq!(outcomes.len(), 100);
    assert!(outcomes.iter().all(|o| o.result == SendResult::TimedOut));
    assert!(now <= ms(20_000), "{now}");
}

#[test]
fn retransmits_only_the_missing_fragments() {
    let (mut a, mut b) = pair();
    a.send(ms(0), B, route(B), route(A), &big(1, 9_000));
    let packets: Vec<_> = core::iter::from_fn(|| a.poll_packet(ms(0))).collect();
    assert_eq!(packets.len(), 10);
    for (index, (_, packet)) in packets.iter().enumerate() {
        if index != 3 && index != 7 {
            b.handle_packet(ms(5), FaceId(0), packet).unwrap();
        }
    }
    carry(ms(10), &mut b, &mut a);
    assert_eq!(b.poll_delivery(), None);
    let due = a.poll_timeout().unwrap();
    a.handle_timeout(due);
    assert_eq!(carry(due, &mut a, &mut b), 2);
    assert_eq!(b.poll_delivery().map(|d| d.message), Some(big(1, 9_000)));
    assert_eq!(a.stats().fragments_repeated, 2);
}

#[test]
fn a_repeated_message_is_acknowledged_again_but_delivered_once() {
    let (mut a, mut b) = pair();
    a.send(ms(0), B, route(B), route(A), &small(7));
    let (_, packet) = a.poll_packet(ms(0)).unwrap();
    for _ in 0..3 {
        b.handle_packet(ms(5), FaceId(0), &packet).unwrap();
    }
    assert!(b.poll_delivery().is_some() && b.poll_delivery().is_none());
    assert_eq!(core::iter::from_fn(|| b.poll_packet(ms(5))).count(), 3);
    assert_eq!(b.stats().duplicates, 2);
}

#[test]
fn a_restarted_sender_is_not_taken_for_its_former_self() {
    let (mut a, mut b) = pair();
    a.send(ms(0), B, route(B), route(A), &small(7));
    carry(ms(0), &mut a, &mut b);
    let mut a = ControlChannel::new(ControlConfig::default(), A, 10);
    a.send(ms(0), B, route(B), route(A), &small(8));
    // The ack from before the restart reaches the new process, and must not count for its message of the same number.
    let (_, old_ack) = b.poll_packet(ms(1)).unwrap();
    assert_eq!(a.handle_packet(ms(1), FaceId(0), &old_ack), Err("control: ack of an earlier run"));
    carry(ms(2), &mut a, &mut b);
    assert_eq!(core::iter::from_fn(|| b.poll_delivery()).count(), 2);
    assert_eq!(a.poll_outcome(), None);
}

#[test]
fn a_receiver_that_lost_its_fragments_gets_them_all_again() {
    let (mut a, mut b) = pair();
    a.send(ms(0), B, route(B), route(A), &big(1, 2_500));
    let packets: Vec<_> = core::iter::from_fn(|| a.poll_packet(ms(0))).collect();
    assert_eq!(packets.len(), 3);
    b.handle_packet(ms(5), FaceId(0), &packets[0].1).unwrap();
    b.handle_packet(ms(5), FaceId(0), &packets[1].1).unwrap();
    carry(ms(6), &mut b, &mut a);
    let mut b = ControlChannel::new(ControlConfig::default(), B, 10);
    let mut now = ms(6);
    for _ in 0..10 {
        now = a.poll_timeout().unwrap_or(now);
        a.handle_timeout(now);
        carry(now, &mut a, &mut b);
        carry(now, &mut b, &mut a);
    }
    assert!(b.poll_delivery().is_some());
    assert_eq!(a.poll_outcome().map(|o| o.result), Some(SendResult::Delivered));
}

#[test]
fn new_routes_are_used_at_once_for_messages_under_way() {
    let (mut a, mut b) = pair();
    a.send(ms(0), B, route(C), route(A), &small(7));
    assert_eq!(a.poll_packet(ms(0)).unwrap().0, route(C));
    a.reroute(B, route(C), route(A));
    assert_eq!(a.poll_packet(ms(1)), None, "the same route changes nothing");
    a.reroute(B, route(B), route(A));
    let (fid, packet) = a.poll_packet(ms(1)).unwrap();
    assert_eq!(fid, route(B));
    b.handle_packet(ms(2), FaceId(0), &packet).unwrap();
    carry(ms(3), &mut b, &mut a);
    assert_eq!(a.poll_outcome().map(|o| o.result), Some(SendResult::Delivered));
}

#[test]
fn the_window_bounds_what_is_under_way_and_all_peers_get_their_turn() {
    let config = ControlConfig { window_packets: 4, ..ControlConfig::default() };
    let mut a = ControlChannel::new(config, A, 9);
    a.send(ms(0), B, route(B), route(A), &big(1, 20_000));
    a.send(ms(0), C, route(C), route(A), &big(2, 20_000));
    let order: Vec<_> = core::iter::from_fn(|| a.poll_packet(ms(0))).map(|(fid, _)| fid).collect();
    let expected: Vec<_> = (0..8).map(|i| route(if i % 2 == 0 { B } else { C })).collect();
    assert_eq!(order, expected);
}

#[test]
fn every_limit_refuses_and_says_so() {
    let config = ControlConfig { messages_max: 2, deliveries_max: 2, ..ControlConfig::default() };
    let mut a = ControlChannel::new(config.clone(), A, 9);
    let mut b = ControlChannel::new(config, B, 9);
    a.send(ms(0), B, route(B), route(A), &big(0, 65_700));
    assert_eq!(a.poll_outcome().map(|o| o.result), Some(SendResult::TooLong));
    for request in 0..3 {
        a.send(ms(0), B, route(B), route(A), &small(request));
    }
    assert_eq!(a.poll_outcome().map(|o| o.result), Some(SendResult::QueueFull));
    carry(ms(1), &mut a, &mut b);
    carry(ms(2), &mut b, &mut a);
    while a.poll_outcome().is_some() {}
    a.send(ms(3), B, route(B), route(A), &small(9));
    let (_, packet) = a.poll_packet(ms(3)).unwrap();
    assert_eq!(b.handle_packet(ms(4), FaceId(0), &packet), Err("control: delivery queue full"));
    b.poll_delivery().unwrap();
    assert_eq!(b.handle_packet(ms(5), FaceId(0), &packet), Ok(()), "the repetition is taken once there is room");
}

#[test]
fn foreign_packets_are_dropped_with_a_reason() {
    let (mut a, mut b) = pair();
    a.send(ms(0), C, route(C), route(A), &small(7));
    let (_, mut packet) = a.poll_packet(ms(0)).unwrap();
    assert_eq!(b.handle_packet(ms(0), FaceId(0), &packet), Err("control: for another node"));
    packet[8..16].copy_from_slice(&B.0.to_be_bytes());
    assert_eq!(b.handle_packet(ms(0), FaceId(0), &packet), Err("control: not authentic"));
    assert_eq!(b.handle_packet(ms(0), FaceId(0), &[]), Err("control: not authentic"));
    assert_eq!(b.stats().dropped, 3);
    assert_eq!(b.poll_packet(ms(0)), None);
}

#[test]
fn incomplete_messages_are_bounded_in_number_and_time() {
    let config = ControlConfig { partials_max: 2, ..ControlConfig::default() };
    let (mut a, _) = pair();
    let mut b = ControlChannel::new(config, B, 9);
    for request in 0..5 {
        a.send(ms(0), B, route(B), route(A), &big(request, 1_500));
        let (_, first) = a.poll_packet(ms(0)).unwrap();
        while a.poll_packet(ms(0)).is_some() {}
        b.handle_packet(ms(u64::from(request)), FaceId(0), &first).unwrap();
        assert!(b.partials.len() <= 2);
    }
    let due = b.poll_timeout().unwrap();
    assert_eq!(due, ms(20_003));
    b.handle_timeout(due + Duration::from_secs(1));
    assert_eq!((b.partials.len(), b.partial_bytes, b.poll_timeout()), (0, 0, None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_message_arrives_exactly_once_or_is_reported_lost(
        seed: u64, loss in 0.0..0.2f64, messages in 1u32..60, large in 0u32..4,
    ) {
        let mut network = Network::new(seed, Faults::lossy(loss));
        for node in [A, B, C] {
            network.add(node, node.0 as u32 + 5);
        }
        let mut sent = BTreeMap::new();
        for request in 0..messages {
            let to = if network.random.chance(0.5) { B } else { C };
            let bytes = if request < large { 24 + network.random.below(65_000) as usize } else { 24 };
            let number = network.channels.get_mut(&A).unwrap().send(network.now, to, route(to), route(A), &big(request, bytes));
            sent.insert((to, number), request);
        }
        let mut got = BTreeMap::new();
        let mut outcomes = BTreeMap::new();
        loop {
            network.drain();
            for node in [B, C] {
                while let Some(delivery) = network.channels.get_mut(&node).unwrap().poll_delivery() {
                    let Message::Replicate(Replicate { request, .. }) = delivery.message else { panic!() };
                    *got.entry((node, request)).or_insert(0) += 1;
                }
            }
            while let Some(outcome) = network.channels.get_mut(&A).unwrap().poll_outcome() {
                prop_assert!(outcomes.insert((outcome.to, outcome.number), outcome.result).is_none());
            }
            let Some(next) = network.next() else { break };
            network.step(next);
        }
        prop_assert_eq!(outcomes.len(), sent.len());
        for ((to, number), request) in sent {
            let times = got.get(&(to, request)).copied().unwrap_or(0);
            match outcomes[&(to, number)] {
                SendResult::Delivered => prop_assert_eq!(times, 1),
                SendResult::TimedOut => prop_assert!(times <= 1),
                other => prop_assert!(false, "{:?}", other),
            }
        }
        prop_assert!(network.now < Time::from_millis(60_000), "done at {}", network.now);
    }

    #[test]
    fn any_bytes_are_survived(packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..120), 0..20)) {
        let (_, mut b) = pair();
        for mut packet in packets {
            // Half of them are authentic and for this node, so that the code behind the first checks is reached too.
            if packet.len() > 30 && packet[0] % 2 == 0 {
                packet[8..16].copy_from_slice(&B.0.to_be_bytes());
                packet[24] %= 3;
                seal(&[0; 32], &mut packet, 0);
            }
            let _ = b.handle_packet(ms(1), FaceId(0), &packet);
            while b.poll_delivery().is_some() || b.poll_packet(ms(1)).is_some() {}
        }
        b.handle_timeout(ms(100_000));
        prop_assert_eq!(b.partial_bytes, 0);
    }
}

#[test]
fn what_somebody_waits_for_passes_the_bulk() {
    let (mut a, mut b) = pair();
    for request in 0..20 {
        a.send(ms(0), B, route(B), route(A), &big(request, 20_000));
    }
    a.send(ms(0), B, route(B), route(A), &small(99));
    carry(ms(5), &mut a, &mut b);
    let first = b.poll_delivery().map(|delivery| delivery.message);
    assert_eq!(first, Some(small(99)), "before all that waits");
}

/// The most fragments that `a` has in flight to `b` while both exchange `messages`, each round trip taking `rtt`
/// milliseconds longer per packet beyond the first `room`.
fn most_in_flight(messages: u32, room: u64, rtt: impl Fn(u64) -> u64) -> u32 {
    let (mut a, mut b) = pair();
    for request in 0..messages {
        a.send(ms(0), B, route(B), route(A), &big(request, 20_000));
    }
    let (mut now, mut most) = (0, 0);
    for _ in 0..60 {
        let packets: Vec<_> = core::iter::from_fn(|| a.poll_packet(ms(now))).collect();
        most = most.max(packets.len() as u32);
        now += rtt((packets.len() as u64).saturating_sub(room));
        for (_, packet) in packets {
            b.handle_packet(ms(now), FaceId(0), &packet).unwrap();
        }
        while b.poll_delivery().is_some() {}
        while let Some((_, ack)) = b.poll_packet(ms(now)) {
            a.handle_packet(ms(now), FaceId(0), &ack).unwrap();
        }
        a.handle_timeout(ms(now));
    }
    most
}

#[test]
fn the_window_grows_until_packets_queue() {
    assert_eq!(most_in_flight(400, u64::MAX, |_| 80), 2_048, "an empty path: to the limit");
    let narrow = most_in_flight(200, 60, |beyond| 80 + 3 * beyond);
    assert!((32..200).contains(&narrow), "a path that queues beyond 60 packets: {narrow}");
}

#[test]
fn on_a_path_without_any_jitter_a_little_queue_is_no_loss() {
    let (mut a, mut b) = pair();
    let mut now = 0;
    for request in 0..200 {
        a.send(ms(now), B, route(B), route(A), &small(request));
        let (_, packet) = a.poll_packet(ms(now)).unwrap();
        // The round trip takes 80 ms each time, and 20 ms more at the end.
        let rtt = if request == 199 { 100 } else { 80 };
        a.handle_timeout(ms(now + 79));
        b.handle_packet(ms(now + 40), FaceId(0), &packet).unwrap();
        while b.poll_delivery().is_some() {}
        now += rtt;
        a.handle_timeout(ms(now));
        let (_, ack) = b.poll_packet(ms(now)).unwrap();
        a.handle_packet(ms(now), FaceId(0), &ack).unwrap();
        assert_eq!(a.poll_packet(ms(now)), None, "nothing is repeated");
    }
    assert_eq!(a.stats().fragments_repeated, 0);
}

#[test]
fn a_flood_of_small_messages_fills_packets_and_each_is_delivered_once_with_its_outcome() {
    const COUNT: u32 = 2_000;
    let (mut a, mut b) = pair();
    // The round-trip time is known.
    a.send(ms(0), B, route(B), route(A), &small(1));
    carry(ms(40), &mut a, &mut b);
    carry(ms(80), &mut b, &mut a);
    a.poll_outcome();
    b.poll_delivery();
    // One at a time, as they come in.
    let mut numbers: BTreeSet<MessageNumber> =
        (0..COUNT).map(|request| a.send(ms(80), B, route(B), route(A), &big(request, 100))).collect();
    let (mut now, mut packets, mut delivered) = (ms(80), 0, Vec::new());
    while !numbers.is_empty() {
        packets += carry(now, &mut a, &mut b);
        now += Duration::from_millis(80);
        delivered.extend(core::iter::from_fn(|| b.poll_delivery()));
        carry(now, &mut b, &mut a);
        while let Some(outcome) = a.poll_outcome() {
            assert_eq!(outcome.result, SendResult::Delivered);
            assert!(numbers.remove(&outcome.number), "two outcomes of one message");
        }
        now = now.max(a.poll_timeout().unwrap_or(now).min(now + Duration::from_millis(10)));
        a.handle_timeout(now);
        assert!(now < ms(60_000), "{} are left", numbers.len());
    }
    let mut requests: Vec<u32> = delivered
        .iter()
        .map(|delivery| match &delivery.message {
            Message::Replicate(replicate) => replicate.request,
            other => panic!("{other:?}"),
        })
        .collect();
    requests.sort_unstable();
    assert_eq!(requests, Vec::from_iter(0..COUNT));
    assert!(packets < COUNT as usize / 5, "{packets} packets");
    assert_eq!((a.queued(B), a.poll_timeout()), (0, None));
}

#[test]
fn a_single_bulk_message_waits_for_nothing_and_held_ones_are_given_up_with_their_peer() {
    let (mut a, mut b) = pair();
    a.send(ms(0), B, route(B), route(A), &big(1, 100));
    assert_eq!(carry(ms(40), &mut a, &mut b), 1);
    carry(ms(80), &mut b, &mut a);
    a.poll_outcome();
    a.send(ms(100), B, route(B), route(A), &big(2, 100));
    let held = a.send(ms(100), B, route(B), route(A), &big(3, 100));
    assert_eq!(core::iter::from_fn(|| a.poll_packet(ms(100))).count(), 1, "the second one follows what is in flight");
    // An eighth of the round-trip time later it goes too.
    assert_eq!(a.poll_timeout(), Some(ms(105)));
    a.handle_timeout(ms(105));
    assert_eq!(core::iter::from_fn(|| a.poll_packet(ms(105))).count(), 1);
    let last = a.send(ms(111), B, route(B), route(A), &big(4, 100));
    a.abandon(B);
    let outcomes: Vec<_> = core::iter::from_fn(|| a.poll_outcome()).map(|it| (it.number, it.result)).collect();
    assert_eq!(outcomes.len(), 3);
    assert!(outcomes.contains(&(held, SendResult::TimedOut)) && outcomes.contains(&(last, SendResult::TimedOut)));
    assert_eq!(a.poll_timeout(), None);
}

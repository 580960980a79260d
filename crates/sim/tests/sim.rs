//! Links and networks: conservation, exactness, determinism, faults.
#![allow(clippy::unwrap_used, reason = "a test: a failed unwrap is a failed test")]
use std::{cell::RefCell, collections::VecDeque, rc::Rc};

use proptest::prelude::*;
use tributary_core::{
    event::Event,
    link::{
        DeliveryTrace, Link, LinkChange, LinkConfig, LinkState, LinkStats, Loss, QueueDiscipline, Reorder, Script,
        Serialiser,
    },
    *,
};
use tributary_sim::{Network, NodeIndex, RunEnd, TraceDepth};

fn ms(n: u64) -> Time {
    Time::from_millis(n)
}

// ---- links

fn loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        Just(Loss::None),
        (0.0..1.0).prop_map(Loss::Bernoulli),
        (0.0..0.3, 0.05..1.0, 0.0..0.1, 0.5..1.0).prop_map(|(good_to_bad, bad_to_good, loss_good, loss_bad)| {
            Loss::GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad }
        }),
        prop::collection::vec(any::<bool>(), 0..50).prop_map(Loss::Mask),
    ]
}
fn link_config() -> impl Strategy<Value = LinkConfig> {
    let rate = prop_oneof![Just(None), Just(Some(0)), (1u64..2_000_000_000).prop_map(Some), Just(Some(u64::MAX))];
    let first = (rate, 0u64..50_000, 0u64..20_000, loss(), 0u64..60_000);
    let second = (0.0..0.5, 0u64..30_000, 0.0..0.3, 0.0..0.3, 0u32..60, 0u32..1_500);
    (first, second).prop_map(
        |((rate, delay, jitter, loss, queue_bytes), (p, held, duplicate, corrupt, overhead, mtu))| LinkConfig {
            rate: rate.map(Rate::from_bits_per_second),
            delay: Duration::from_micros(delay),
            jitter: Duration::from_micros(jitter),
            loss,
            queue_bytes,
            reorder: Reorder { probability: p, delay: Duration::from_micros(held) },
            duplicate,
            corrupt,
            overhead_bytes: overhead,
            mtu,
            ..LinkConfig::default()
        },
    )
}
/// Links with every discipline, packet limits, recordings and scripts.
fn any_link_config() -> impl Strategy<Value = LinkConfig> {
    let discipline = prop::sample::select(QueueDiscipline::ALL.map(|(_, discipline)| discipline).to_vec());
    let delivery = prop::option::weighted(
        0.3,
        prop::collection::vec(0u64..20_000, 1..30).prop_map(|mut micros| {
            micros.sort_unstable();
            let period = Duration::from_micros(micros.last().copied().unwrap_or(0) + 1);
            DeliveryTrace::new(micros.into_iter().map(Duration::from_micros), period, 1_500)
        }),
    );
    let script = prop::option::weighted(
        0.3,
        prop::collection::vec((0u64..3_000_000, change()), 1..10).prop_map(|mut steps| {
            steps.sort_by_key(|(micros, _)| *micros);
            Script::new(steps.into_iter().map(|(micros, change)| (Duration::from_micros(micros), change)), None)
        }),
    );
    (link_config(), discipline, prop::option::of(0u64..40), delivery, script).prop_map(
        |(config, discipline, queue_packets, delivery, script)| LinkConfig {
            discipline,
            queue_packets,
            delivery,
            script,
            ..config
        },
    )
}
#[derive(Clone, Debug)]
enum Step {
    Enqueue(usize),
    Deliver,
    DeliverAtTimeout,
    Change(LinkChange),
}
fn change() -> impl Strategy<Value = LinkChange> {
    let rate = prop_oneof![Just(None), (0u64..100_000_000).prop_map(|bits| Some(Rate::from_bits_per_second(bits)))];
    let state = prop_oneof![Just(LinkState::Up), Just(LinkState::Down)];
    prop_oneof![
        rate.prop_map(LinkChange::Rate),
        state.prop_map(LinkChange::State),
        (0u64..50_000).prop_map(|micros| LinkChange::Delay(Duration::from_micros(micros))),
        loss().prop_map(LinkChange::Loss),
        (0u64..60_000).prop_map(LinkChange::QueueBytes),
        (0.0..1.0f64).prop_map(LinkChange::Duplicate),
        (0.0..1.0f64).prop_map(LinkChange::Corrupt),
        (0u32..2_000).prop_map(LinkChange::Mtu),
        (0.0..1.0f64, 0u64..50_000).prop_map(|(probability, micros)| {
            LinkChange::Reorder(Reorder { probability, delay: Duration::from_micros(micros) })
        }),
    ]
}
fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0usize..1_600).prop_map(Step::Enqueue),
        2 => Just(Step::Deliver),
        4 => Just(Step::DeliverAtTimeout),
        1 => change().prop_map(Step::Change),
    ]
}
fn accounted(stats: &LinkStats, in_flight: u64) -> (u64, u64) {
    let gone = stats.out_packets + stats.lost_packets + stats.dropped_packets + stats.oversize_packets;
    (stats.in_packets + stats.duplicated_packets, gone + in_flight)
}

proptest! {
    #[test]
    fn every_packet_is_accounted_for(
        config in any_link_config(), steps in prop::collection::vec((0u64..3_000_000, step()), 1..300), seed: u64,
    ) {
        let mut link = Link::new(config, Random::new(seed, 0));
        let (mut now, mut last_arrival) = (Time::ZERO, Time::ZERO);
        for (pause, step) in steps {
            now += Duration::from_nanos(pause);
            match step {
                Step::Enqueue(len) => link.enqueue(now, Datagram::from(vec![0; len])),
                Step::Change(change) => link.apply(now, change),
                Step::DeliverAtTimeout => now = now.max(link.poll_timeout().unwrap_or(now)),
                Step::Deliver => {}
            }
            while let Some((arrival, _)) = link.poll_arrival(now) {
                prop_assert!(arrival <= now);
                prop_assert!(arrival >= last_arrival, "arrivals are in order of time");
                last_arrival = arrival;
            }
            prop_assert!(link.poll_timeout().is_none_or(|due| due > now), "what is due has been delivered");
            let (came, went) = accounted(&link.stats(), link.in_flight());
            prop_assert_eq!(came, went);
        }
        // With its script behind it and given a rate, it empties, and then the bytes add up as well.
        now = now.max(ms(3_001));
        while link.poll_deliver(now).is_some() {}
        link.apply(now, LinkChange::Rate(Some(Rate::from_mbps(1))));
        while let Some(due) = link.poll_timeout() {
            while link.poll_deliver(due).is_some() {}
        }
        let stats = link.stats();
        prop_assert_eq!((link.in_flight(), stats.queue_bytes), (0, 0));
        let gone = stats.out_bytes + stats.lost_bytes + stats.dropped_bytes + stats.oversize_bytes;
        prop_assert_eq!(stats.in_bytes + stats.duplicated_bytes, gone);
    }

    #[test]
    fn serialiser_agrees_with_the_closed_form(
        rate in 1u64..10_000_000_000, packets in prop::collection::vec(1u64..70_000, 1..200), start in 0u64..1_000_000_000,
    ) {
        let rate = Rate::from_bits_per_second(rate);
        let start = Time::from_nanos(start);
        let mut serialiser = Serialiser::new(Some(rate));
        let mut sum = 0;
        for bytes in packets {
            serialiser.start(start, bytes);
            sum += bytes;
            prop_assert_eq!(serialiser.free_at(), Some(start + rate.time_for(sum)));
        }
    }

    #[test]
    fn a_busy_link_delivers_at_the_closed_form(
        rate in 10_000u64..1_000_000_000, lens in prop::collection::vec(1usize..1_472, 1..100), delay in 0u64..1_000_000,
    ) {
        let rate = Rate::from_bits_per_second(rate);
        let delay = Duration::from_micros(delay);
        let mut link = Link::new(LinkConfig::new(rate, delay), Random::new(1, 1));
        for len in &lens {
            link.enqueue(ms(3), Datagram::from(vec![0; *len]));
        }
        let mut sum = 0;
        for len in &lens {
            sum += *len as u64 + 28;
            let due = link.poll_timeout().expect("a packet is under way");
            prop_assert_eq!(due, ms(3) + rate.time_for(sum) + delay);
            prop_assert_eq!(link.poll_deliver(due).map(|datagram| datagram.len()), Some(*len));
        }
    }

    #[test]
    fn the_rate_does_not_depend_on_when_it_is_looked_at(
        changes in prop::collection::vec((1u64..50_000_000, 0u64..50_000_000), 1..20), looks in prop::collection::vec(0u64..1_000_000_000, 0..50),
    ) {
        let run = |looks: &[u64]| {
            let mut link = Link::new(LinkConfig::new(Rate::from_mbps(5), Duration::ZERO), Random::new(1, 1));
            for _ in 0..200 {
                link.enqueue(Time::ZERO, Datagram::from(vec![0; 972]));
            }
            let mut moments: Vec<(u64, Option<u64>)> = looks.iter().map(|time| (*time, None)).collect();
            let mut time = 0;
            for (pause, bits) in &changes {
                time += pause;
                moments.push((time, Some(*bits)));
            }
            moments.push((2_000_000_000, Some(100_000_000)));
            moments.push((4_000_000_000, None));
            moments.sort();
            let mut arrivals = Vec::new();
            for (nanos, change) in moments {
                let now = Time::from_nanos(nanos);
                while let Some((time, _)) = link.poll_arrival(now) {
                    arrivals.push(time);
                }
                if let Some(bits) = change {
                    link.apply(now, LinkChange::Rate(Some(Rate::from_bits_per_second(bits))));
                }
            }
            arrivals
        };
        let seldom = run(&[]);
        prop_assert_eq!(seldom.len(), 200);
        prop_assert_eq!(seldom, run(&looks));
    }
}

// ---- networks

/// Now and then sends a numbered packet on each of its faces, and forwards received ones until its energy is spent.
struct Gossip {
    random: Random,
    faces: u32,
    next: Time,
    queue: VecDeque<(FaceId, Datagram)>,
    heard: u64,
    reported: VecDeque<Event>,
}
impl Gossip {
    fn new(seed: u64, faces: u32) -> Self {
        let random = Random::new(seed, u64::from(faces));
        Gossip { random, faces, next: Time::ZERO, queue: VecDeque::new(), heard: 0, reported: VecDeque::new() }
    }
}
impl Node for Gossip {
    fn handle_datagram(&mut self, _: Time, face: FaceId, datagram: Datagram) {
        self.heard += 1;
        let mut bytes = datagram.to_vec();
        if bytes.pop().is_some() && !bytes.is_empty() {
            let other = FaceId((face.0 + 1) % self.faces);
            self.queue.push_back((other, Datagram::from(bytes)));
        } else {
            self.reported.push_back(Event::Note(format!("worn out on {face}")));
        }
    }
    fn handle_timeout(&mut self, now: Time) {
        while self.next <= now {
            self.next += Duration::from_micros(500 + self.random.below(1_000));
            let len = 1 + self.random.below(6) as usize;
            for face in 0..self.faces {
                self.queue.push_back((FaceId(face), Datagram::from(vec![self.random.bits() as u8; len])));
            }
        }
    }
    fn poll_transmit(&mut self, _: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        let (face, datagram) = self.queue.pop_front()?;
        out.push_datagram(datagram);
        Some(Transmit { face })
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        Some((self.next, TimerId(1)))
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.reported.pop_front()
    }
}
fn wild() -> LinkConfig {
    LinkConfig {
        jitter: Duration::from_millis(2),
        loss: Loss::Bernoulli(0.05),
        reorder: Reorder { probability: 0.1, delay: Duration::from_millis(1) },
        duplicate: 0.05,
        corrupt: 0.05,
        ..LinkConfig::new(Rate::from_mbps(2), Duration::from_millis(3))
    }
}
fn ring(seed: u64, depth: TraceDepth) -> Network<Gossip> {
    let mut net = Network::new(seed);
    net.set_trace_depth(depth);
    let nodes: Vec<_> = (0..5).map(|index| net.add_node(Gossip::new(seed ^ index, 2))).collect();
    for (index, node) in nodes.iter().enumerate() {
        net.connect((*node, FaceId(0)), (nodes[(index + 1) % 5], FaceId(1)), wild(), wild());
    }
    net
}

#[test]
fn equal_seeds_give_equal_traces_and_other_seeds_other_ones() {
    for depth in [TraceDepth::Headers, TraceDepth::Full] {
        let hash = |seed, pauses: &[u64]| {
            let mut net = ring(seed, depth);
            for pause in pauses {
                net.run_until(ms(*pause));
            }
            net.run_until(ms(500));
            (net.trace_hash(), net.stats())
        };
        assert!(hash(1, &[]).1.packet_hops > 1_000);
        assert_eq!(hash(1, &[]), hash(1, &[]));
        assert_eq!(hash(1, &[]).0, hash(1, &[3, 77, 78, 400]).0, "where a run pauses does not matter");
        assert_ne!(hash(1, &[]).0, hash(2, &[]).0);
    }
}

#[test]
fn packets_of_a_whole_network_are_accounted_for() {
    let mut net = ring(7, TraceDepth::Off);
    net.run_until(ms(1_000));
    let delivered: u64 = net.links().map(|(_, _, _, link)| link.stats().out_packets).sum();
    let heard: u64 = (0..5).map(|index| net.node(NodeIndex(index)).heard).sum();
    assert_eq!((delivered, heard), (net.stats().packet_hops, net.stats().packet_hops));
    for (_, _, _, link) in net.links() {
        let (came, went) = accounted(&link.stats(), link.in_flight());
        assert_eq!(came, went);
    }
}

#[test]
fn a_dead_node_hears_nothing_and_a_restarted_one_begins_anew() {
    let mut net = ring(3, TraceDepth::Headers);
    let victim = NodeIndex(2);
    net.at(ms(100), move |net| drop(net.kill(victim)));
    net.at(ms(200), move |net| net.restart(victim, |now| Gossip { next: now, ..Gossip::new(99, 2) }));
    net.run_until(ms(150));
    assert!(!net.is_alive(victim) && net.stats().unreceived_packets > 0);
    net.run_until(ms(200));
    let unreceived = net.stats().unreceived_packets;
    net.run_until(ms(400));
    assert!(net.node(victim).heard > 0);
    assert_eq!(net.stats().unreceived_packets, unreceived);
}

#[test]
fn an_outage_is_planned_and_ends() {
    let mut net = Network::new(1);
    let (a, b) = (net.add_node(Gossip::new(1, 1)), net.add_node(Gossip::new(2, 1)));
    let wire = LinkConfig::default();
    let connection = net.connect((a, FaceId(0)), (b, FaceId(0)), wire.clone(), wire);
    net.outage(connection, ms(10), ms(20));
    net.run_until(Time::from_nanos(9_999_999));
    let before = net.link_stats(connection.a_to_b);
    assert_eq!(before.lost_packets, 0);
    net.run_until(Time::from_nanos(19_999_999));
    let during = net.link_stats(connection.a_to_b);
    assert_eq!(during.out_packets, before.out_packets);
    assert!(during.lost_packets > 0);
    net.run_until(ms(30));
    assert_eq!(net.link_stats(connection.a_to_b).lost_packets, during.lost_packets);
}

#[test]
fn runs_end_for_the_reason_that_came_first() {
    struct Silent;
    impl Node for Silent {
        fn handle_datagram(&mut self, _: Time, _: FaceId, _: Datagram) {}
        fn handle_timeout(&mut self, _: Time) {}
        fn poll_transmit(&mut self, _: Time, _: &mut TransmitBuf) -> Option<Transmit> {
            None
        }
        fn poll_timeout(&self) -> Option<(Time, TimerId)> {
            None
        }
        fn poll_event(&mut self) -> Option<Event> {
            None
        }
    }
    let mut idle = Network::new(1);
    idle.add_node(Silent);
    idle.at(ms(5), |_| {});
    assert_eq!(idle.run_while(ms(100), |_| true), RunEnd::Idle);
    assert_eq!(idle.now(), ms(5));

    let mut busy = ring(1, TraceDepth::Off);
    assert_eq!(busy.run_while(ms(50), |net| net.node(NodeIndex(0)).heard < 5), RunEnd::ConditionEnded);
    assert!(busy.now() < ms(50));
    assert_eq!(busy.run_while(ms(50), |_| true), RunEnd::LimitReached);
    assert_eq!(busy.now(), ms(50));
}

#[test]
fn actions_run_before_what_is_due_at_the_same_time_and_in_order() {
    let mut net = ring(1, TraceDepth::Off);
    let log = Rc::new(RefCell::new(Vec::new()));
    for (time, name) in [(20, "late"), (10, "first"), (10, "second")] {
        let log = Rc::clone(&log);
        net.at(ms(time), move |net| log.borrow_mut().push((net.now(), name)));
    }
    net.run_until(ms(30));
    net.at(ms(1), |net| assert_eq!(net.now(), ms(30)));
    net.run_until(ms(31));
    assert_eq!(*log.borrow(), [(ms(10), "first"), (ms(10), "second"), (ms(20), "late")]);
}

#[test]
fn observer_and_tap_see_what_happens() {
    let mut net = ring(5, TraceDepth::Off);
    let (events, packets) = (Rc::new(RefCell::new(0)), Rc::new(RefCell::new(0)));
    let (count_events, count_packets) = (Rc::clone(&events), Rc::clone(&packets));
    net.set_observer(move |_, _, event| *count_events.borrow_mut() += usize::from(matches!(event, Event::Note(_))));
    net.set_tap(move |seen| *count_packets.borrow_mut() += u64::from(seen.from != seen.to));
    net.run_until(ms(100));
    assert!(*events.borrow() > 0);
    assert_eq!(*packets.borrow(), net.stats().packet_hops);
}

#[test]
fn a_packet_to_a_face_without_a_link_is_counted() {
    let mut net = Network::new(1);
    let lonely = net.add_node(Gossip::new(1, 1));
    net.run_until(ms(10));
    assert!(net.stats().unconnected_packets > 0);
    let heard = net.with(lonely, |node, _| node.heard);
    net.inject(lonely, FaceId(0), Datagram::from(&b"xy"[..]));
    assert_eq!(net.node(lonely).heard, heard + 1);
}

#[test]
#[should_panic(expected = "node 0 spins at 0.000000 s")]
fn a_node_that_never_rests_is_named() {
    struct Restless;
    impl Node for Restless {
        fn handle_datagram(&mut self, _: Time, _: FaceId, _: Datagram) {}
        fn handle_timeout(&mut self, _: Time) {}
        fn poll_transmit(&mut self, _: Time, _: &mut TransmitBuf) -> Option<Transmit> {
            None
        }
        fn poll_timeout(&self) -> Option<(Time, TimerId)> {
            Some((Time::ZERO, TimerId(8)))
        }
        fn poll_event(&mut self) -> Option<Event> {
            None
        }
    }
    Network::new(1).add_node(Restless);
}

#[test]
#[should_panic(expected = "time stands still at 0.001000 s")]
fn nodes_that_answer_each_other_without_delay_are_stopped() {
    #[derive(Default)]
    struct Echo(Option<Datagram>);
    impl Node for Echo {
        fn handle_datagram(&mut self, _: Time, _: FaceId, datagram: Datagram) {
            self.0 = Some(datagram);
        }
        fn handle_timeout(&mut self, _: Time) {}
        fn poll_transmit(&mut self, _: Time, out: &mut TransmitBuf) -> Option<Transmit> {
            out.push_datagram(self.0.take()?);
            Some(Transmit { face: FaceId(0) })
        }
        fn poll_timeout(&self) -> Option<(Time, TimerId)> {
            None
        }
        fn poll_event(&mut self) -> Option<Event> {
            None
        }
    }
    let mut net = Network::new(1);
    let (a, b) = (net.add_node(Echo::default()), net.add_node(Echo::default()));
    net.connect((a, FaceId(0)), (b, FaceId(0)), LinkConfig::default(), LinkConfig::default());
    net.at(ms(1), move |net| net.inject(a, FaceId(0), Datagram::from(&b"ball"[..])));
    net.run_until(ms(2));
}

//! Links as a whole.
use super::*;
use alloc::{vec, vec::Vec};

fn ms(n: u64) -> Time {
    Time::from_millis(n)
}
fn packet(tag: u8, len: usize) -> Datagram {
    Datagram::from(vec![tag; len])
}
fn link(config: LinkConfig) -> Link {
    Link::new(config, Random::new(1, 1))
}
fn drain(link: &mut Link, now: Time) -> Vec<(u64, u8)> {
    core::iter::from_fn(|| link.poll_arrival(now)).map(|(t, d)| (t.as_nanos(), d.header_bytes()[0])).collect()
}

#[test]
fn delivers_after_serialisation_and_delay() {
    let mut link = link(LinkConfig::new(Rate::from_mbps(8), Duration::from_millis(10)));
    link.enqueue(ms(0), packet(1, 972));
    link.enqueue(ms(0), packet(2, 972));
    assert_eq!(link.poll_timeout(), Some(ms(11)));
    assert!(link.poll_deliver(Time::from_nanos(10_999_999)).is_none());
    assert_eq!(drain(&mut link, ms(11)), [(11_000_000, 1)]);
    assert_eq!(link.poll_timeout(), Some(ms(12)));
    assert_eq!(drain(&mut link, ms(50)), [(12_000_000, 2)]);
    assert_eq!((link.poll_timeout(), link.in_flight()), (None, 0));
}

#[test]
fn queue_takes_exactly_its_limit() {
    let config = LinkConfig { queue_bytes: 2_000, ..LinkConfig::new(Rate::from_mbps(8), Duration::ZERO) };
    let mut at_limit = link(config.clone());
    for _ in 0..3 {
        at_limit.enqueue(ms(0), packet(1, 972));
    }
    assert_eq!((at_limit.stats().dropped_packets, at_limit.stats().queue_bytes_max), (0, 2_000));
    let mut beyond = link(LinkConfig { queue_bytes: 1_999, ..config });
    for _ in 0..3 {
        beyond.enqueue(ms(0), packet(1, 972));
    }
    assert_eq!(beyond.stats().dropped_packets, 1);
}

#[test]
fn mask_loses_exactly_what_it_names() {
    let mut link = link(LinkConfig { loss: Loss::Mask(vec![false, true, true]), ..LinkConfig::default() });
    for tag in 0..5 {
        link.enqueue(ms(1), packet(tag, 10));
    }
    assert_eq!(drain(&mut link, ms(1)), [(1_000_000, 0), (1_000_000, 3), (1_000_000, 4)]);
    assert_eq!(link.stats().lost_packets, 2);
}

#[test]
fn a_rate_change_applies_to_the_rest_of_the_packet_being_sent() {
    let mut link = link(LinkConfig::new(Rate::from_mbps(8), Duration::ZERO));
    link.enqueue(ms(0), packet(1, 972));
    link.apply(Time::from_nanos(500_000), LinkChange::Rate(Some(Rate::from_mbps(4))));
    assert_eq!(link.poll_timeout(), Some(Time::from_nanos(1_500_000)));
    link.apply(ms(1), LinkChange::Rate(Some(Rate::from_bits_per_second(0))));
    assert_eq!(link.poll_timeout(), None);
    link.apply(ms(100), LinkChange::Rate(Some(Rate::from_mbps(1))));
    assert_eq!(link.poll_timeout(), Some(ms(102)));
    link.apply(ms(101), LinkChange::Rate(None));
    assert_eq!(drain(&mut link, ms(101)), [(101_000_000, 1)]);
}

#[test]
fn a_cut_loses_what_waits_but_not_what_is_on_the_wire() {
    let mut link = link(LinkConfig::new(Rate::from_mbps(8), Duration::from_millis(10)));
    for tag in 0..4 {
        link.enqueue(ms(0), packet(tag, 972));
    }
    link.apply(Time::from_nanos(1_500_000), LinkChange::State(LinkState::Down));
    link.enqueue(ms(2), packet(9, 972));
    assert_eq!(link.stats().lost_packets, 4);
    assert_eq!(drain(&mut link, ms(100)), [(11_000_000, 0)]);
    link.apply(ms(200), LinkChange::State(LinkState::Up));
    link.enqueue(ms(200), packet(5, 972));
    assert_eq!(link.poll_timeout(), Some(ms(211)));
}

#[test]
fn jitter_and_a_shorter_delay_keep_the_order_and_reorder_breaks_it() {
    let jitter = LinkConfig { jitter: Duration::from_millis(5), ..LinkConfig::default() };
    let mut link_jitter = link(jitter.clone());
    for tag in 0..100 {
        link_jitter.enqueue(Time::from_nanos(u64::from(tag) * 1_000), packet(tag, 10));
    }
    link_jitter.apply(ms(1), LinkChange::Delay(Duration::ZERO));
    link_jitter.enqueue(ms(1), packet(100, 10));
    let tags: Vec<_> = drain(&mut link_jitter, ms(100)).into_iter().map(|(_, tag)| tag).collect();
    assert_eq!(tags, (0..=100).collect::<Vec<_>>());

    let reorder = Reorder { probability: 0.3, delay: Duration::from_micros(10) };
    let mut link_reorder = link(LinkConfig { reorder, ..jitter });
    for tag in 0..100 {
        link_reorder.enqueue(Time::from_nanos(u64::from(tag) * 1_000), packet(tag, 10));
    }
    let arrivals = drain(&mut link_reorder, ms(100));
    assert!(arrivals.is_sorted_by_key(|(time, _)| *time));
    assert!(!arrivals.is_sorted_by_key(|(_, tag)| *tag));
    assert_eq!(arrivals.len(), 100);
}

#[test]
fn corruption_flips_one_bit_and_duplication_adds_one_copy() {
    let mut link = link(LinkConfig { corrupt: 1.0, duplicate: 1.0, ..LinkConfig::default() });
    link.enqueue(ms(0), packet(0, 100));
    let (a, b) = (link.poll_deliver(ms(0)).expect("first"), link.poll_deliver(ms(0)).expect("copy"));
    assert_eq!(a, b);
    assert_eq!(a.to_vec().iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    let stats = link.stats();
    assert_eq!((stats.in_packets, stats.duplicated_packets, stats.out_packets), (1, 1, 2));
}

#[test]
fn a_datagram_of_mtu_size_passes_and_one_byte_more_does_not() {
    let mut link = link(LinkConfig { mtu: 100, ..LinkConfig::default() });
    link.enqueue(ms(0), packet(0, 100));
    link.enqueue(ms(0), packet(1, 101));
    assert_eq!(drain(&mut link, ms(0)), [(0, 0)]);
    assert_eq!(link.stats().oversize_packets, 1);
}

#[test]
fn gilbert_elliott_has_its_stationary_loss_in_bursts() {
    let loss = Loss::GilbertElliott { good_to_bad: 0.01, bad_to_good: 0.25, loss_good: 0.0, loss_bad: 1.0 };
    let (mut process, mut random) = (LossProcess::new(loss), Random::new(7, 7));
    let fates: Vec<_> = (0..200_000).map(|_| process.next(&mut random)).collect();
    let lost = fates.iter().filter(|fate| **fate == Fate::Lost).count() as f64;
    let bursts = fates.windows(2).filter(|w| w[0] == Fate::Passes && w[1] == Fate::Lost).count() as f64;
    assert!((lost / 200_000.0 - 0.01 / 0.26).abs() < 0.003, "{lost}");
    assert!((lost / bursts - 4.0).abs() < 0.3, "{}", lost / bursts);
}

#[test]
fn serialiser_does_not_drift() {
    // 7 bytes at 3 Gbit/s take 18.67 ns: a sum of rounded times would be off by a third of a million.
    let rate = Rate::from_mbps(3_000);
    let mut serialiser = Serialiser::new(Some(rate));
    for _ in 0..1_000_000 {
        serialiser.start(Time::ZERO, 7);
    }
    assert_eq!(serialiser.free_at(), Some(Time::ZERO + rate.time_for(7_000_000)));
    // Beyond 64 bits: the same closed form holds.
    let mut fast = Serialiser::new(Some(Rate::from_bits_per_second(u64::MAX)));
    for _ in 0..10 {
        fast.start(Time::ZERO, 1 << 40);
    }
    assert_eq!(fast.free_at(), Some(Time::ZERO + Rate::from_bits_per_second(u64::MAX).time_for(10 << 40)));
}

#[test]
fn a_packet_limit_counts_packets() {
    let rate = Rate::from_mbps(8);
    let mut link = link(LinkConfig { queue_packets: Some(2), ..LinkConfig::new(rate, Duration::ZERO) });
    for tag in 0..4 {
        link.enqueue(ms(0), packet(tag, 10));
    }
    assert_eq!((link.stats().dropped_packets, link.in_flight()), (1, 3));
}

#[test]
fn a_script_changes_rates_under_a_packet_and_cuts_and_mends() {
    let steps = [
        (Duration::from_millis(1), LinkChange::Rate(Some(Rate::from_mbps(4)))),
        (Duration::from_millis(5), LinkChange::State(LinkState::Down)),
        (Duration::from_millis(8), LinkChange::State(LinkState::Up)),
    ];
    let script = Some(Script::new(steps, Some(Duration::from_millis(10))));
    let mut link = link(LinkConfig { script, ..LinkConfig::new(Rate::from_mbps(8), Duration::ZERO) });
    // 2,000 bytes: half of them in the first millisecond, the rest in two more.
    link.mtu = 10_000;
    link.enqueue(ms(0), packet(1, 1_972));
    assert_eq!(link.poll_timeout(), Some(ms(1)), "the change is due before the packet is through");
    assert!(drain(&mut link, ms(1)).is_empty());
    assert_eq!(link.poll_timeout(), Some(ms(3)));
    assert_eq!(drain(&mut link, ms(3)), [(3_000_000, 1)]);
    assert_eq!(link.poll_timeout(), None, "an idle link waits for nothing");
    // At 4 ms 2,000 bytes take 4 ms, but at 5 ms the link is cut, and from 8 ms on it is up again.
    link.enqueue(ms(4), packet(2, 1_972));
    link.enqueue(ms(7), packet(3, 472));
    link.enqueue(ms(8), packet(4, 472));
    assert_eq!(drain(&mut link, ms(9)), [(9_000_000, 4)]);
    assert_eq!(link.stats().lost_packets, 2);
    // The script repeats: in the third round the same happens.
    link.enqueue(ms(27), packet(5, 472));
    link.enqueue(ms(28), packet(6, 472));
    assert_eq!(drain(&mut link, ms(29)), [(29_000_000, 6)]);
}

#[test]
fn a_recording_lets_packets_out_at_its_moments_only() {
    let opportunities = [3, 4, 10].map(Duration::from_millis);
    let delivery = Some(DeliveryTrace::new(opportunities, Duration::from_millis(10), 1_500));
    let mut link = link(LinkConfig { delivery, delay: Duration::from_millis(1), ..LinkConfig::default() });
    for tag in 0..4 {
        link.enqueue(ms(0), packet(tag, 1_472));
    }
    assert_eq!(link.poll_timeout(), Some(ms(4)));
    let arrivals = [(4_000_000, 0), (5_000_000, 1), (11_000_000, 2), (14_000_000, 3)];
    assert_eq!(drain(&mut link, ms(100)), arrivals);
}

#[test]
fn every_discipline_conserves_packets_and_delivers_its_marks() {
    for (word, discipline) in QueueDiscipline::ALL {
        for signal in [queue::Signal::Drop, queue::Signal::Mark] {
            let discipline = match discipline {
                QueueDiscipline::DropTail => QueueDiscipline::DropTail,
                QueueDiscipline::Red(config) => QueueDiscipline::Red(queue::red::RedConfig { signal, ..config }),
                QueueDiscipline::CoDel(config) => {
                    QueueDiscipline::CoDel(queue::codel::CoDelConfig { signal, ..config })
                }
                QueueDiscipline::Threshold(config) => {
                    QueueDiscipline::Threshold(queue::threshold::ThresholdConfig { signal, ..config })
                }
            };
            let rate = Rate::from_mbps(12);
            let config =
                LinkConfig { discipline, queue_bytes: 60_000, ..LinkConfig::new(rate, Duration::from_millis(3)) };
            let mut link = link(config);
            let mut random = Random::new(5, 5);
            let (mut marked, mut now) = (0, Time::ZERO);
            for _ in 0..20_000 {
                now += Duration::from_nanos(random.below(1_600_000));
                link.enqueue(now, packet(0, 1_472));
                while let Some(datagram) = link.poll_deliver(now) {
                    marked += u64::from(datagram.is_marked());
                }
                let stats = link.stats();
                let gone = stats.out_packets + stats.lost_packets + stats.dropped_packets;
                assert_eq!(stats.in_packets, gone + link.in_flight(), "{word}");
            }
            now += Duration::from_secs(1);
            while let Some(datagram) = link.poll_deliver(now) {
                marked += u64::from(datagram.is_marked());
            }
            assert_eq!((link.in_flight(), marked), (0, link.stats().marked_packets), "{word}");
            let may_mark = signal == queue::Signal::Mark && word != "drop-tail";
            assert_eq!(marked > 0, may_mark, "{word}");
            assert!(link.stats().dropped_packets > 0 || may_mark, "{word}: load is above one");
        }
    }
}

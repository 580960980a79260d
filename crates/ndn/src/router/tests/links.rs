//! Two routers on one link: pieces, losses, marks.
use super::*;
use crate::wire::reliability::ReliabilityConfig;
use tributary_core::{Duration, Random, Rate};

/// Passes packets that `from` sent on face 4 to face 1 of `to`, except those that `lose` selects.
fn carry(sent: &[Sent], to: &mut Bench, mut lose: impl FnMut() -> bool) -> Vec<Sent> {
    let on_link: Vec<&Sent> = sent.iter().filter(|sent| sent.face == 4).collect();
    on_link.iter().filter(|_| !lose()).flat_map(|sent| to.recv(1, &sent.bytes)).collect()
}

#[test]
fn a_large_packet_crosses_a_small_mtu_in_pieces_and_a_stream_whole() {
    let mut a = Bench::with_routes(&[("/", 4)]);
    let mut b = Bench::with_routes(&[("/", 4)]);
    let token = LpPacket { pit_token: Some(&[1, 2, 3, 4]), ..LpPacket::default() };
    let requested = a.recv_with(2, &token, &interest("/a", 1));
    expect(&carry(&requested, &mut b, || false), &[(4, "interest /a")]);
    let large = data_of("/a", &alloc::vec![5; 8000]);
    let pieces = b.recv(4, &large);
    assert_eq!(pieces.len(), 6);
    assert!(pieces.iter().all(|piece| piece.bytes.len() <= 1472 && piece.face == 1));
    let back: Vec<Sent> = pieces.iter().rev().flat_map(|piece| a.recv(4, &piece.bytes)).collect();
    assert_eq!(back.len(), 6, "to the application in pieces again");
    assert_eq!(back[0].headers().pit_token, Some(&[1, 2, 3, 4][..]));
    a.router.add_face(FaceId(3), profile(u32::MAX));
    let back = a.recv_with(3, &token, &interest("/a", 2));
    assert_eq!((back.len(), back[0].packet()), (1, large));
}

#[test]
fn a_reliable_link_brings_everything_across_though_a_third_is_lost() {
    let reliable = FaceProfile { reliability: Some(ReliabilityConfig::default()), ..profile(1472) };
    let (mut a, mut b) = (Bench::with_routes(&[("/", 4)]), Bench::with_routes(&[("/", 4)]));
    a.router.add_face(FaceId(4), reliable.clone());
    b.router.add_face(FaceId(1), reliable);
    let mut random = Random::new(5, 5);
    let (mut waiting, mut arrived, mut sent_in_all) = (Vec::new(), 0, 0);
    for millis in 0..60_000u64 {
        a.at(millis);
        b.at(millis);
        if millis < 200 {
            waiting.extend(a.recv(2, &interest(&alloc::format!("/{millis}"), millis)));
        }
        waiting.extend(a.sent());
        let crossing = core::mem::take(&mut waiting);
        sent_in_all += crossing.len();
        let out = carry(&crossing, &mut b, || random.chance(0.33));
        arrived += out.iter().filter(|sent| sent.face == 4).count();
        // Acknowledgements go back over the same bad link.
        for back in out.iter().chain(&b.sent()).filter(|sent| sent.face == 1) {
            if !random.chance(0.33) {
                waiting.extend(a.recv(4, &back.bytes));
            }
        }
    }
    // Three repetitions leave 0.33⁴ = 1.2 % of the packets behind.
    assert!((194..=200).contains(&arrived), "{arrived} of 200");
    assert!((200..450).contains(&sent_in_all), "{sent_in_all} packets for 200");
}

/// Two routers, face 4 of the first and face 1 of the second on one link; the first booted at `epoch`.
fn reliable_pair(epoch: Duration, second_is: Option<ReliabilityConfig>) -> (Bench, Bench) {
    let mut a = Bench::new(1, |config| config.epoch = epoch);
    a.routes(&[("/", 4)]);
    let mut b = Bench::with_routes(&[("/", 4)]);
    a.router.add_face(FaceId(4), FaceProfile { reliability: Some(ReliabilityConfig::default()), ..profile(1472) });
    b.router.add_face(FaceId(1), FaceProfile { reliability: second_is, ..profile(1472) });
    (a, b)
}

#[test]
fn who_is_sent_numbers_acknowledges_them_though_it_sends_none() {
    let (mut a, mut b) = reliable_pair(Duration::ZERO, None);
    let requested = a.recv(2, &interest("/a", 1));
    expect(&carry(&requested, &mut b, || false), &[(4, "interest /a")]);
    // A duplicate is no new packet.
    expect(&carry(&requested, &mut b, || false), &[]);
    b.at(5);
    let acks = b.sent();
    assert_eq!(Bench::what(&acks), [(1, "idle".into())]);
    acks.iter().for_each(|ack| assert!(a.recv(4, &ack.bytes).is_empty()));
    a.at(20_000);
    assert!(a.sent().iter().all(|sent| sent.headers().tx_sequence.is_none()), "nothing is sent again");
    // Its own packets have no number.
    b.at(20_000);
    b.router.add_route(&name("/back"), FaceId(1), 0);
    let back = b.recv(4, &interest("/back", 2));
    assert_eq!((back.len(), back[0].headers().tx_sequence), (1, None));
}

#[test]
fn what_a_neighbour_sends_that_has_started_anew_is_no_duplicate() {
    let (mut a, mut b) = reliable_pair(Duration::ZERO, Some(ReliabilityConfig::default()));
    let mut crossed = |a: &mut Bench, run: &str| {
        let names = (0..50).map(|n| alloc::format!("/{run}/{n}"));
        let sent: Vec<Sent> = names.flat_map(|name| a.recv(2, &interest(&name, 7))).collect();
        carry(&sent, &mut b, || false).iter().filter(|sent| sent.face == 4).count()
    };
    assert_eq!(crossed(&mut a, "one"), 50);
    let (mut a, _) = reliable_pair(Duration::from_secs(1), None);
    assert_eq!(crossed(&mut a, "two"), 50);
}

#[test]
fn who_probes_is_told_what_was_measured_where_nobody_said_it() {
    let reported = |tell_rates: bool, options: FaceOptions| {
        let (mut a, mut b) = (Bench::with_routes(&[("/", 4)]), Bench::new(2, |config| config.tell_rates = tell_rates));
        b.routes(&[("/", 4)]);
        b.router.add_face(FaceId(1), FaceProfile::from(options));
        let (probe, mut idle) = (LpPacket { probe: true, ..LpPacket::default() }, 0);
        for second in 0..4 {
            a.at(second * 1_000);
            b.at(second * 1_000);
            let requested = a.recv_with(2, &probe, &interest(&alloc::format!("/{second}"), second));
            carry(&requested, &mut b, || false);
            for crossing in b.recv(4, &data(&alloc::format!("/{second}"))) {
                a.now += Rate::from_mbps(3).time_for(crossing.bytes.len() as u64);
                idle += u32::from(crossing.what() == "idle");
                for sent in a.recv(4, &crossing.bytes) {
                    if sent.face == 4 {
                        b.recv(1, &sent.bytes);
                    } else if second == 3 {
                        let rates = sent.headers().rates.unwrap();
                        return (idle, rates.rates().nth(1).unwrap().map(|rate| rate.bits_per_second() / 1_000));
                    }
                }
            }
        }
        unreachable!("each probe is answered");
    };
    let unknown = FaceOptions { mtu: 1_472, rate: None };
    // Three trains of two packets; the next one is not due before long.
    assert_eq!(reported(true, unknown), (6, Some(3_000)));
    assert_eq!(reported(false, unknown), (0, None), "what is not told is not measured");
    assert_eq!(reported(true, FaceOptions { rate: Some(Rate::from_mbps(7)), ..unknown }), (0, Some(7_000)));
    assert_eq!(reported(true, FaceOptions { mtu: u32::MAX, ..unknown }), (0, None), "nor is a stream");
}

#[test]
fn a_face_whose_queue_is_long_marks_what_it_sends() {
    let rule = marking::MarkingRule::Codel { target: Duration::from_millis(5), interval: Duration::from_millis(100) };
    let slow = FaceProfile { rate: Some(Rate::from_mbps(1)), marking: rule, ..profile(9000) };
    let mut bench = Bench::with_routes(&[("/", 4)]);
    bench.router.add_face(FaceId(1), slow);
    let mut marked = 0;
    for n in 0..1000u64 {
        bench.at(n * 4);
        let requested = alloc::format!("/{n}");
        bench.recv(1, &interest(&requested, n));
        let back = bench.recv(4, &data_of(&requested, &[0; 1000]));
        marked += back.iter().filter(|sent| sent.headers().congestion_mark.is_some()).count();
    }
    assert!(marked > 5, "{marked}: twice what the link carries");
}

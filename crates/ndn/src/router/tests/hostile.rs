//! Floods, forgeries and nonsense.
use super::*;
use crate::wire::fragment::{Numbering, cut};

#[test]
fn a_flood_of_interests_on_one_face_leaves_room_for_the_others() {
    let limits = PitLimits { entries_max: 100, entries_per_face_max: 60, ..PitLimits::default() };
    let mut bench = Bench::new(1, |config| config.limits.pit = limits);
    bench.routes(&[("/", 4)]);
    let mut refused = 0;
    for n in 0..10_000u64 {
        let sent = bench.recv(1, &interest(&alloc::format!("/flood/{n}"), n));
        refused += sent.iter().filter(|sent| sent.what().starts_with("nack 50")).count();
    }
    assert_eq!((bench.router.pit.len(), refused), (50, 9_950));
    assert_eq!(bench.dropped("pit share of the face used up"), 9_950);
    expect(&bench.recv(2, &interest("/honest", 1)), &[(4, "interest /honest")]);
    expect(&bench.recv(4, &data("/honest")), &[(2, "data /honest")]);
    // A second flood, and others that come after both of them.
    for n in 0..10_000u64 {
        bench.recv(2, &interest(&alloc::format!("/second/{n}"), n));
    }
    for n in 0..10u64 {
        let requested = alloc::format!("/honest/{n}");
        expect(&bench.recv(3, &interest(&requested, n)), &[(4, &alloc::format!("interest {requested}"))]);
    }
    expect(&bench.recv(4, &data("/honest/7")), &[(3, "data /honest/7")]);
    // One floods alone, up to the limit of a face, when the table has been emptied.
    bench.at(4000);
    let mut bench = Bench::new(1, |config| config.limits.pit = PitLimits { entries_per_face_max: 30, ..limits });
    bench.routes(&[("/", 4)]);
    for n in 0..100u64 {
        bench.recv(1, &interest(&alloc::format!("/flood/{n}"), n));
    }
    assert_eq!(bench.router.pit.len(), 30);
}

#[test]
fn long_interests_and_what_they_came_in_take_no_more_memory_than_they_may() {
    let limits = PitLimits { bytes_max: 1 << 20, ..PitLimits::default() };
    let mut bench = Bench::new(1, |config| config.limits.pit = limits);
    bench.routes(&[("/", 4)]);
    let long = |of: &str, n: u64| {
        let parameters = [7; 8_000];
        let name = name(&alloc::format!("/{of}/{n}"));
        let interest = Interest { parameters: Some(&parameters), ..Interest::new(NameView::from(&name)) };
        Bytes::from(crate::wire::interest::with_parameters(&interest, None))
    };
    let face = |n: u64| 1 + (n % 2) as u32;
    bench.router.add_face(FaceId(1), profile(u32::MAX));
    bench.router.add_face(FaceId(2), profile(u32::MAX));
    for n in 0..1_000 {
        bench.recv(face(n), &long("flood", n));
    }
    // Each of two has a quarter, and others still fit.
    let kept = bench.router.pit.len() * 8_000;
    assert!((450 << 10..=512 << 10).contains(&kept), "{kept} bytes");
    assert_eq!(bench.dropped("pit share of the face used up") as usize, 1_000 - bench.router.pit.len());
    expect(&bench.recv(3, &interest("/honest", 1)), &[(4, "interest /honest")]);
    // A short one, alone in a large piece of memory, and one in pieces.
    let room = Bytes::from([&interest("/alone", 2)[..], &[0; 65_000]].concat());
    bench.recv(3, &room.slice(..interest("/alone", 2).len()));
    let packet = long("pieces", 1);
    let mut sequence = 0;
    let pieces = cut(&LpPacket::default(), &packet, 1_400, 400, Numbering::WhenCut, &mut sequence).unwrap();
    let rooms: Vec<Bytes> = pieces[1..]
        .iter()
        .map(|piece| Bytes::from([piece.head(&[], None), piece.fragment.to_vec(), alloc::vec![0; 65_000]].concat()))
        .collect();
    for (piece, room) in pieces[1..].iter().zip(&rooms) {
        bench.recv(3, &room.slice(..piece.head(&[], None).len() + piece.fragment.len()));
    }
    assert!(rooms.iter().chain([&room]).all(Bytes::is_unique), "what came is kept, and not what it came in");
    let before = bench.router.pit.len();
    bench.recv(3, &[&pieces[0].head(&[], None)[..], &pieces[0].fragment].concat().into());
    assert_eq!(bench.router.pit.len(), before + 1);
}

#[test]
fn no_interest_is_pending_for_longer_than_the_limit() {
    let mut bench = Bench::with_routes(&[("/", 4)]);
    let requested = name("/a");
    let for_ever = Interest { lifetime_millis: Some(u64::MAX), ..Interest::new(NameView::from(&requested)) };
    bench.recv(1, &for_ever.encode().into());
    assert_eq!(bench.router.poll_timeout(), Some(Time::from_millis(60_000)));
    assert!(bench.at(60_000).router.pit.is_empty());
}

#[test]
fn what_waits_to_leave_by_a_face_is_limited_in_packets_and_in_bytes() {
    let limits = FaceLimits { queue_packets_max: 10, queue_bytes_max: 4_000, ..FaceLimits::default() };
    let mut bench = Bench::new(1, |config| config.limits.face = limits);
    bench.routes(&[("/", 4)]);
    let push = |bench: &mut Bench, face, packet: Bytes| {
        bench.router.handle_datagram(bench.now, FaceId(face), Datagram::from(packet));
    };
    (0..30u64).for_each(|n| push(&mut bench, 1, interest(&alloc::format!("/{n}"), n)));
    // Ten are forwarded, ten of the others rejected, and ten of these rejections do not fit either.
    assert_eq!((bench.sent().len(), bench.dropped(face::reason::QUEUE)), (20, 30));
    (0..10).for_each(|n| push(&mut bench, 4, data_of(&alloc::format!("/{n}"), &[0; 1_000])));
    assert_eq!((bench.sent().len(), bench.dropped(face::reason::QUEUE)), (3, 37));
}

#[test]
fn an_application_that_takes_nothing_is_given_up_to_a_limit() {
    let mut bench = Bench::with_routes(&[]);
    let application = FaceId(INTERNAL_FACES_FIRST);
    bench.router.add_internal_face(application, "internal://slow");
    assert!(bench.router.add_route(&name("/a"), application, 0));
    // Duplicates with a tag that ends here are not suppressed.
    let tagged = LpPacket { tag: Some(crate::wire::PathTag::EMPTY), ..LpPacket::default() };
    for nonce in 0..LOCAL_PACKETS_MAX as u64 + 10 {
        bench.recv_with(1, &tagged, &interest("/a", nonce));
    }
    assert_eq!(bench.dropped("application too slow"), 10);
    assert_eq!(core::iter::from_fn(|| bench.router.poll_local()).count(), LOCAL_PACKETS_MAX);
}

#[test]
fn what_is_told_and_nobody_hears_is_limited() {
    let mut bench = Bench::new(1, |_| {});
    for number in 0..EVENTS_MAX as u32 + 100 {
        bench.recv(77, &data("/a"));
        let answer = LpPacket { boot_answer: Some((number, 7)), ..LpPacket::default() };
        bench.recv(1, &answer.encode().into());
    }
    assert_eq!(core::iter::from_fn(|| bench.router.poll_event()).count(), EVENTS_MAX);
    assert_eq!(core::iter::from_fn(|| bench.router.boot_answers.pop_front()).count(), BOOT_ANSWERS_MAX);
}

#[test]
fn data_of_another_machine_s_own_names_is_out_of_scope() {
    let mut bench = Bench::with_routes(&[("/", 4)]);
    expect(&bench.recv(4, &data("/localhost/a")), &[]);
    assert_eq!((bench.dropped(reason::SCOPE), bench.dropped("unsolicited data")), (1, 0));
}

/// The cost of a packet from an ever new address, besides the packet itself: no search, signature or code book.
#[test]
fn faces_that_only_packets_told_of_cost_no_signature_and_no_search() {
    let mut bench = Bench::with_routes(&[("/", 4)]);
    for n in 0..5_000 {
        bench.router.add_route(&name(&alloc::format!("/prefix/{n}")), FaceId(2), n);
    }
    let before = bench.router.work();
    for face in 100..2_100 {
        bench.router.add_face(FaceId(face), profile(1_472));
        let _ = bench.recv(face, &interest("/localhost/nfd/x", u64::from(face)));
        bench.router.remove_face(bench.now, FaceId(face));
    }
    assert_eq!(bench.router.work(), before);
}

#[test]
fn data_that_nobody_asked_for_there_fills_no_cache_and_answers_nobody() {
    let mut bench = Bench::with_routes(&[("/", 4)]);
    expect(&bench.recv(2, &data("/a")), &[]);
    bench.recv(1, &interest("/a", 1));
    expect(&bench.recv(2, &data_of("/a", b"poison")), &[]);
    assert_eq!((bench.dropped("unsolicited data"), bench.router.cs.len()), (2, 0));
    expect(&bench.recv(4, &data("/a")), &[(1, "data /a")]);
    assert_eq!(bench.router.cs.len(), 1);
}

#[test]
fn a_poisoned_cache_is_passed_by_and_mended_by_a_probe() {
    let mut bench = Bench::with_routes(&[("/", 4)]);
    bench.recv(1, &interest("/a", 1));
    bench.recv(4, &data_of("/a", b"poison"));
    assert_eq!(bench.recv(2, &interest("/a", 2))[0].packet(), data_of("/a", b"poison"));
    let probe = LpPacket { probe: true, ..LpPacket::default() };
    expect(&bench.recv_with(2, &probe, &interest("/a", 3)), &[(4, "interest /a")]);
    expect(&bench.recv(4, &data("/a")), &[(2, "data /a")]);
    assert_eq!(bench.recv(3, &interest("/a", 4))[0].packet(), data("/a"));
}

#[test]
fn packets_beyond_the_limits_are_dropped() {
    let mut bench = Bench::with_routes(&[("/", 4)]);
    let requested = name("/a");
    let large = Interest { parameters: Some(&[0; 9_000]), ..Interest::new(NameView::from(&requested)) };
    expect(&bench.recv(1, &crate::wire::interest::with_parameters(&large, None).into()), &[]);
    assert_eq!(bench.dropped(reason::TOO_LONG), 1);
    assert!(bench.router.pit.is_empty());
}

#[test]
fn wrong_digests_and_packets_that_are_none_are_dropped() {
    let mut bench = Bench::with_routes(&[("/", 4)]);
    let requested = name("/a");
    let with = Interest { parameters: Some(b"p"), ..Interest::new(NameView::from(&requested)) };
    let mut bytes = crate::wire::interest::with_parameters(&with, None);
    expect(
        &bench.recv(1, &bytes.clone().into()),
        &[(4, "interest /a/params-sha256=620e59c59d04596b40d4cbe11e875a127f928accec817bec4519ae74d661f47a")],
    );
    *bytes.last_mut().unwrap() ^= 1;
    expect(&bench.recv(1, &bytes.into()), &[]);
    assert_eq!(bench.dropped("parameters digest is wrong"), 1);
    for nonsense in [&[][..], &[0], &[5], &[6, 0], &[100, 3, 80, 9, 9], &[100, 4, 80, 2, 99, 0], &[255; 50]] {
        expect(&bench.recv(1, &Bytes::copy_from_slice(nonsense)), &[]);
    }
    expect(&bench.recv(77, &data("/a")), &[]);
    assert_eq!(bench.dropped("unknown face"), 1);
}

#[test]
fn faces_and_routes_have_their_limits() {
    let limits = RouterLimits { faces_max: 5, routes_max: 2, fib_entries_max: 3, ..RouterLimits::default() };
    let mut bench = Bench::new(1, |config| config.limits = limits);
    assert!(!bench.router.add_face(FaceId(9), profile(1472)), "four and the management's");
    assert_eq!(bench.dropped("too many faces"), 1);
    assert!(bench.router.add_route(&name("/a"), FaceId(1), 0) && bench.router.add_route(&name("/b"), FaceId(1), 0));
    assert!(!bench.router.add_route(&name("/c"), FaceId(1), 0));
    bench.router.remove_face(bench.now, FaceId(1));
    assert!(bench.router.rib.is_empty() && bench.router.add_face(FaceId(9), profile(1472)));
    assert!(bench.router.add_route(&name("/c"), FaceId(9), 0));
}

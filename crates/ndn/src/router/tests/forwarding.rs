//! NDN's requirements on a forwarder.
use super::*;
use crate::wire::{signature::digest, tlv::Writer};
use strategy::STRATEGIES;

#[test]
fn an_interest_follows_the_longest_prefix_and_data_goes_back_with_its_token() {
    let mut bench = Bench::with_routes(&[("/", 2), ("/a", 3), ("/a/b", 4)]);
    for length in [1, 4, 6, 32] {
        let token = [7u8; 32];
        let headers = LpPacket { pit_token: Some(&token[..length]), ..LpPacket::default() };
        let requested = alloc::format!("/a/b/{length}");
        let sent = bench.recv_with(1, &headers, &interest(&requested, 1));
        expect(&sent, &[(4, &alloc::format!("interest {requested}"))]);
        assert_eq!(sent[0].bytes, interest(&requested, 1), "it needs no headers and has none");
        let back = bench.recv(4, &data(&requested));
        expect(&back, &[(1, &alloc::format!("data {requested}"))]);
        assert_eq!(back[0].headers().pit_token, Some(&token[..length]));
        assert_eq!(back[0].packet(), data(&requested));
    }
    expect(&bench.recv(1, &interest("/x", 1)), &[(2, "interest /x")]);
    expect(&bench.recv(1, &interest("/a/x", 1)), &[(3, "interest /a/x")]);
    assert_eq!(bench.router.stats.satisfied_and_not, (4, 0));
}

#[test]
fn interests_of_several_faces_are_one_and_all_are_answered() {
    let mut bench = Bench::with_routes(&[("/", 4)]);
    expect(&bench.recv(1, &interest("/a", 1)), &[(4, "interest /a")]);
    expect(&bench.recv(2, &interest("/a", 2)), &[]);
    expect(&bench.recv(3, &interest("/a", 3)), &[]);
    let back = bench.recv(4, &data("/a"));
    expect(&back, &[(1, "data /a"), (2, "data /a"), (3, "data /a")]);
    let origins: Vec<_> = back.iter().map(|sent| sent.headers().origin).collect();
    assert_eq!(origins, [None, Some(Origin::Aggregation), Some(Origin::Aggregation)], "the 1-bit flag of §5 D 1");
    assert_eq!(bench.router.stats.aggregated, 2);
    expect(&bench.recv(4, &data("/a")), &[]);
    assert_eq!(bench.dropped("unsolicited data"), 1);
}

fn interest_as_prefix(requested: &str, nonce: u64) -> Bytes {
    let nonce = Some(Nonce::from(nonce));
    Interest { nonce, can_be_prefix: true, ..Interest::new(NameView::from(&name(requested))) }.encode().into()
}

/// The second face bypasses the copy for the first: the next answer may belong to either.
#[test]
fn two_faces_that_ask_in_two_forms_are_both_told_that_the_answer_may_be_the_others() {
    let mut bench = Bench::with_routes(&[("/", 4)]);
    bench.recv(1, &interest("/a", 1));
    expect(&bench.recv(2, &interest_as_prefix("/a", 2)), &[(4, "interest /a")]);
    let back = bench.recv(4, &data("/a"));
    let origins: Vec<_> = back.iter().map(|sent| sent.headers().origin).collect();
    assert_eq!(origins, [Some(Origin::Aggregation); 2]);
}

#[test]
fn who_asks_in_two_forms_is_answered_once_or_once_for_each_of_its_tokens() {
    let mut bench = Bench::with_routes(&[("/", 4)]);
    let as_prefix = |nonce| interest_as_prefix("/a", nonce);
    bench.recv(1, &interest("/a", 1));
    expect(&bench.recv(1, &as_prefix(2)), &[(4, "interest /a")]);
    expect(&bench.recv(2, &as_prefix(3)), &[]);
    expect(&bench.recv(4, &data("/a")), &[(1, "data /a"), (2, "data /a")]);
    assert!(bench.router.pit.is_empty());
    bench.router.erase_cache(&Name::root(), 10);
    let token = |token| LpPacket { pit_token: Some(token), ..LpPacket::default() };
    bench.at(10_000).recv_with(1, &token(b"one"), &interest("/a", 4));
    bench.recv_with(1, &token(b"two"), &as_prefix(5));
    let back = bench.recv(4, &data("/a"));
    let tokens: Vec<_> = back.iter().map(|sent| sent.headers().pit_token.map(<[u8]>::to_vec)).collect();
    assert_eq!(tokens, [Some(b"one".to_vec()), Some(b"two".to_vec())]);
}

#[test]
fn a_copy_is_held_back_for_a_while_and_then_tries_the_next_face() {
    let mut bench = Bench::with_routes(&[("/", 3), ("/", 4)]);
    expect(&bench.recv(1, &interest("/a", 1)), &[(3, "interest /a")]);
    expect(&bench.at(9).recv(1, &interest("/a", 2)), &[]);
    expect(&bench.at(10).recv(1, &interest("/a", 3)), &[(4, "interest /a")]);
    expect(&bench.at(29).recv(1, &interest("/a", 4)), &[]);
    expect(&bench.at(30).recv(1, &interest("/a", 5)), &[(3, "interest /a")]);
    expect(&bench.recv(4, &data("/a")), &[(1, "data /a")]);
}

#[test]
fn what_goes_in_a_circle_is_noticed_by_its_nonce_even_after_the_answer() {
    let mut bench = Bench::with_routes(&[("/", 4)]);
    bench.recv(1, &interest("/a", 1));
    expect(&bench.recv(2, &interest("/a", 1)), &[(2, "nack 100 /a")]);
    expect(&bench.recv(4, &interest("/a", 1)), &[(4, "nack 100 /a")]);
    expect(&bench.recv(4, &data("/a")), &[(1, "data /a")]);
    bench.router.erase_cache(&Name::root(), 10);
    expect(&bench.recv(2, &interest("/a", 1)), &[(2, "nack 100 /a")]);
    assert_eq!(bench.dropped("interest loop"), 3);
    expect(&bench.at(7000).recv(2, &interest("/b", 9)), &[(4, "interest /b")]);
    expect(&bench.recv(4, &data("/b")), &[(2, "data /b")]);
    expect(&bench.at(7001).recv(2, &interest("/a", 1)), &[(4, "interest /a")]);
}

#[test]
fn unanswered_interests_are_forgotten_in_time() {
    let mut bench = Bench::with_routes(&[("/", 4)]);
    let requested = name("/a");
    let short = Interest {
        nonce: Some(Nonce::from(1)),
        lifetime_millis: Some(100),
        ..Interest::new(NameView::from(&requested))
    };
    bench.recv(1, &short.encode().into());
    bench.recv(1, &interest("/b", 1));
    assert_eq!(bench.router.poll_timeout(), Some(Time::from_millis(100)));
    bench.at(100);
    assert_eq!((bench.router.pit.len(), bench.router.stats.satisfied_and_not), (1, (0, 1)));
    expect(&bench.recv(4, &data("/a")), &[]);
    bench.at(4000);
    assert!(bench.router.pit.is_empty() && bench.router.poll_timeout().is_none());
}

#[test]
fn the_content_store_answers_and_says_that_it_did() {
    let mut bench = Bench::with_routes(&[("/", 4)]);
    bench.recv(1, &interest("/a", 1));
    bench.recv(4, &data("/a"));
    let back = bench.recv(2, &interest("/a", 2));
    expect(&back, &[(2, "data /a")]);
    assert_eq!(back[0].headers().origin, Some(Origin::Cache));
    let requested = name("/a");
    let fresh =
        Interest { nonce: Some(Nonce::from(3)), must_be_fresh: true, ..Interest::new(NameView::from(&requested)) };
    expect(&bench.at(999).recv(2, &fresh.encode().into()), &[(2, "data /a")]);
    expect(&bench.at(1000).recv(2, &fresh.encode().into()), &[(4, "interest /a")]);
}

#[test]
fn hops_are_counted_and_a_missing_nonce_is_added() {
    let mut bench = Bench::with_routes(&[("/", 4)]);
    let with = |hops: u8| {
        let requested = name(&alloc::format!("/{hops}"));
        Bytes::from(
            Interest {
                hop_limit: Some(hops),
                nonce: Some(Nonce::from(1)),
                ..Interest::new(NameView::from(&requested))
            }
            .encode(),
        )
    };
    let sent = bench.recv(1, &with(5));
    assert_eq!(Interest::decode(&sent[0].packet()).unwrap().hop_limit, Some(4));
    expect(&bench.recv(1, &with(0)), &[]);
    assert_eq!(bench.dropped(reason::HOP_LIMIT), 1);
    expect(&bench.recv(1, &with(1)), &[]);
    assert_eq!(bench.dropped(reason::HOP_LIMIT), 2, "a Nack would say that there is no route");
    let without = Interest::new(NameView::from(&name("/n"))).encode();
    let sent = bench.recv(1, &without.into());
    assert!(Interest::decode(&sent[0].packet()).unwrap().nonce.is_some());
    // Unknown elements stay in place, and the parameters digest stays right.
    let mut tail = Vec::new();
    tail.put_element(types::APPLICATION_PARAMETERS, b"parameters");
    tail.put_element(0x7e00, b"unknown");
    let requested = name("/d").typed_child(types::PARAMETERS_DIGEST, &digest(&[&tail])).unwrap();
    let mut strange = Vec::new();
    strange.put_nested(types::INTEREST, |out| {
        out.put_element(types::NAME, requested.as_tlv());
        out.put_element(types::MUST_BE_FRESH, &[]);
        out.put_element(types::HOP_LIMIT, &[9]);
        out.extend_from_slice(&tail);
    });
    let packet = bench.recv(1, &strange.clone().into())[0].packet();
    let passed = Interest::decode(&packet).unwrap();
    assert!(passed.digest_is_right() && passed.must_be_fresh && packet.ends_with(&tail));
    assert_eq!((passed.hop_limit, packet.len()), (Some(8), strange.len() + 6));
}

#[test]
fn names_of_this_machine_and_of_one_hop_stay_there() {
    let mut bench = Bench::with_routes(&[("/", 4), ("/localhost/app", 3), ("/localhop/app", 3)]);
    expect(&bench.recv(1, &interest("/localhost/app", 1)), &[]);
    assert_eq!(bench.dropped(reason::SCOPE), 1);
    expect(&bench.recv(1, &interest("/localhop/app", 1)), &[(1, "nack 150 /localhop/app")]);
    let local = FaceProfile { scope: FaceScope::Local, ..profile(1472) };
    bench.router.add_face(FaceId(2), local.clone());
    expect(&bench.recv(2, &interest("/localhop/app", 2)), &[(3, "interest /localhop/app")]);
    expect(&bench.recv(2, &interest("/localhost/app", 2)), &[(2, "nack 150 /localhost/app")]);
    bench.router.add_face(FaceId(3), local);
    expect(&bench.recv(2, &interest("/localhost/app", 3)), &[(3, "interest /localhost/app")]);
    expect(&bench.recv(3, &data("/localhost/app")), &[(2, "data /localhost/app")]);
    // A local application may choose the face.
    let headers = LpPacket { next_hop_face: Some(1), ..LpPacket::default() };
    expect(&bench.recv_with(2, &headers, &interest("/x", 1)), &[(1, "interest /x")]);
    expect(&bench.recv_with(4, &headers, &interest("/y", 1)), &[]);
    assert_eq!(bench.dropped("next hop named by another machine"), 1);
}

/// Names of any length, elements of applications, hints as programs of before 2022 write them.
#[test]
fn what_the_packet_format_allows_is_forwarded_as_it_came() {
    let mut bench = Bench::with_routes(&[("/a", 4)]);
    for components in [32, 33, 40, 600] {
        let tlv = [&[8u8, 1, b'a'][..], &[8u8, 0].repeat(components)].concat();
        let view = NameView::parse(&tlv).unwrap();
        for can_be_prefix in [false, true] {
            let nonce = Some(Nonce::from(u64::from(can_be_prefix)));
            let asked = Bytes::from(Interest { nonce, can_be_prefix, ..Interest::new(view) }.encode());
            assert_eq!(bench.recv(1, &asked)[0].packet(), asked);
            let longer = [&tlv[..], if can_be_prefix { &[8, 1, b'x'] } else { &[] }].concat();
            let made = Bytes::from(Data::new(NameView::parse(&longer).unwrap(), b"").sign(&SignKey::Digest));
            assert_eq!(bench.recv(4, &made)[0].packet(), made);
            bench.router.erase_cache(&Name::root(), 100);
        }
    }
    let delegations = [0x1f, 8, 0x1e, 1, 10, 7, 3, 8, 1, b'a'];
    let requested = name("/b");
    let hinted = Interest {
        forwarding_hint: Some(&delegations),
        nonce: Some(Nonce::from(1)),
        ..Interest::new(NameView::from(&requested))
    };
    expect(&bench.recv(1, &hinted.encode().into()), &[(4, "interest /b")]);
    // CachePolicy counts from any sender.
    let no_cache = LpPacket { cache_policy: Some(1), ..LpPacket::default() };
    bench.recv(1, &interest("/a/n", 1));
    expect(&bench.recv_with(4, &no_cache, &data("/a/n")), &[(1, "data /a/n")]);
    expect(&bench.recv(1, &interest("/a/n", 2)), &[(4, "interest /a/n")]);
}

#[test]
fn a_forwarding_hint_leads_until_its_network_is_reached() {
    let hint: Vec<u8> = [&[7u8, 5][..], &[8, 3], b"net", &[7, 7], &[8, 5], b"other"].concat();
    let requested = name("/a");
    let hinted = |nonce: u64| {
        Bytes::from(
            Interest {
                forwarding_hint: Some(&hint),
                nonce: Some(Nonce::from(nonce)),
                ..Interest::new(NameView::from(&requested))
            }
            .encode(),
        )
    };
    let mut bench = Bench::with_routes(&[("/", 1), ("/a", 2), ("/other", 3)]);
    expect(&bench.recv(4, &hinted(1)), &[(3, "interest /a")]);
    let mut bench = Bench::new(1, |config| config.regions.push(name("/net/site")));
    bench.routes(&[("/", 1), ("/a", 2), ("/other", 3)]);
    expect(&bench.recv(4, &hinted(1)), &[(2, "interest /a")]);
}

#[test]
fn an_interest_that_comes_back_from_everywhere_goes_back() {
    let mut bench = Bench::with_routes(&[("/", 3), ("/", 4)]);
    bench.router.set_strategy(&Name::root(), "multicast");
    let token = LpPacket { pit_token: Some(&[9, 9]), ..LpPacket::default() };
    expect(&bench.recv_with(1, &token, &interest("/a", 1)), &[(3, "interest /a"), (4, "interest /a")]);
    let nack = |why| LpPacket { nack: Some(why), ..LpPacket::default() };
    expect(&bench.recv_with(3, &nack(NackReason::NoRoute), &interest("/a", 1)), &[]);
    expect(&bench.recv_with(3, &nack(NackReason::NoRoute), &interest("/a", 1)), &[]);
    let back = bench.recv_with(4, &nack(NackReason::Congestion), &interest("/a", 1));
    expect(&back, &[(1, "nack 50 /a")]);
    assert_eq!(back[0].headers().pit_token, Some(&[9, 9][..]));
    assert_eq!(bench.dropped(reason::UNSOLICITED_NACK), 1);
    expect(&bench.recv(2, &interest("/none", 1)), &[(3, "interest /none"), (4, "interest /none")]);
    expect(&bench.recv_with(3, &nack(NackReason::NoRoute), &interest("/none", 2)), &[]);
    assert_eq!(bench.dropped(reason::UNSOLICITED_NACK), 2, "another nonce is another Interest");
}

fn nack(why: NackReason) -> LpPacket<'static> {
    LpPacket { nack: Some(why), ..LpPacket::default() }
}

#[test]
fn an_interest_that_comes_back_is_tried_elsewhere_before_it_goes_back() {
    for probe in [false, true] {
        let mut bench = Bench::with_routes(&[("/", 2), ("/", 3), ("/", 4)]);
        let requested = LpPacket { pit_token: Some(&[9, 9]), probe, ..LpPacket::default() };
        let mut sent = bench.recv_with(1, &requested, &interest("/a", 1));
        let mut tried = Vec::new();
        let circle = if probe { NackReason::NoRoute } else { NackReason::Duplicate };
        for why in [circle, NackReason::NoRoute, circle] {
            assert_eq!((sent.len(), sent[0].what().as_str()), (1, "interest /a"));
            assert_eq!(sent[0].headers().probe, probe);
            tried.push(sent[0].face);
            sent = bench.recv_with(sent[0].face, &nack(why), &interest("/a", 1));
        }
        expect(&sent, &[(1, "nack 150 /a")]);
        assert_eq!(sent[0].headers().pit_token, Some(&[9, 9][..]));
        tried.sort_unstable();
        assert_eq!(tried, [2, 3, 4], "each once");
        assert!(bench.router.pit.is_empty());
    }
    // A loop is a path that a probe has ruled out.
    let mut bench = Bench::with_routes(&[("/", 3), ("/", 4)]);
    let probe = LpPacket { probe: true, ..LpPacket::default() };
    let sent = bench.recv_with(1, &probe, &interest("/a", 1));
    let back = bench.recv_with(sent[0].face, &nack(NackReason::Duplicate), &interest("/a", 1));
    expect(&back, &[(1, "nack 100 /a")]);
}

#[test]
fn where_too_much_waits_or_a_face_was_named_an_interest_goes_back_at_once() {
    let mut bench = Bench::with_routes(&[("/", 3), ("/", 4)]);
    bench.recv(1, &interest("/a", 1));
    expect(&bench.recv_with(3, &nack(NackReason::Congestion), &interest("/a", 1)), &[(1, "nack 50 /a")]);
    bench.router.add_face(FaceId(2), FaceProfile { scope: FaceScope::Local, ..profile(1472) });
    let named = LpPacket { next_hop_face: Some(4), ..LpPacket::default() };
    expect(&bench.recv_with(2, &named, &interest("/b", 1)), &[(4, "interest /b")]);
    expect(&bench.recv_with(4, &nack(NackReason::NoRoute), &interest("/b", 1)), &[(2, "nack 150 /b")]);
    // No face is waiting.
    let requested = name("/c");
    let (nonce, lifetime_millis) = (Some(Nonce::from(1)), Some(100));
    let short = Bytes::from(Interest { nonce, lifetime_millis, ..Interest::new(NameView::from(&requested)) }.encode());
    bench.recv(1, &short);
    bench.at(100);
    expect(&bench.recv_with(3, &nack(NackReason::NoRoute), &short), &[]);
}

#[test]
fn an_interest_is_tried_on_so_many_faces_and_no_more() {
    // All that deny the name, as producers below a common prefix do; some of those with other reasons.
    for (reason, expected) in [(NackReason::NoRoute, 11), (NackReason::Unspecified, 8)] {
        let mut bench = Bench::with_routes(&[]);
        for face in 2..=12 {
            bench.router.add_face(FaceId(face), profile(1472));
            bench.routes(&[("/", face)]);
        }
        let mut sent = bench.recv(1, &interest("/a", 1));
        let mut tried = 0;
        while sent[0].face != 1 {
            tried += 1;
            sent = bench.recv_with(sent[0].face, &nack(reason), &interest("/a", 1));
        }
        assert_eq!(tried, expected, "{reason:?}");
        assert_eq!(sent.len(), 1);
    }
}

/// Randomly connected routers, with routes to some of their neighbours that may end nowhere or loop; a producer behind
/// face 4 of the last one, the consumer on face 1 of the first. Returns whether an Interest must find it, and the
/// answers.
fn ask_somewhere(seed: u64, strategy: &str) -> (bool, Vec<String>) {
    const ROUTERS: usize = 6;
    let mut random = Random::new(seed, 1);
    let mut benches: Vec<Bench> = (1..=ROUTERS as u8)
        .map(|secret| Bench::new(secret ^ seed as u8, |config| config.strategy = strategy.into()))
        .collect();
    let mut free: Vec<(usize, u32)> =
        (0..ROUTERS).flat_map(|at| (1..=4).map(move |face| (at, face))).filter(|end| *end != (0, 1)).collect();
    free.retain(|end| *end != (ROUTERS - 1, 4));
    let mut leads_to: Vec<Vec<usize>> = alloc::vec![Vec::new(); ROUTERS];
    let mut joined = BTreeMap::new();
    while free.len() >= 2 {
        let one = free.swap_remove(random.below(free.len() as u64) as usize);
        let other = free.swap_remove(random.below(free.len() as u64) as usize);
        for ((at, face), (to, far)) in [(one, other), (other, one)] {
            joined.insert((at, face), (to, far));
            if at != to && random.chance(0.4) {
                benches[at].routes(&[("/", face)]);
                leads_to[at].push(to);
            }
        }
    }
    benches[ROUTERS - 1].routes(&[("/", 4)]);
    let mut reached = alloc::vec![0];
    let mut next = 0;
    while let Some(at) = reached.get(next).copied() {
        let news: Vec<usize> = leads_to[at].iter().copied().filter(|to| !reached.contains(to)).collect();
        news.into_iter().for_each(|to| {
            if !reached.contains(&to) {
                reached.push(to)
            }
        });
        next += 1;
    }
    let mut back = Vec::new();
    let mut moving = VecDeque::from([((0, 1), interest("/a", 1))]);
    while let Some(((at, face), bytes)) = moving.pop_front() {
        for sent in benches[at].recv(face, &bytes) {
            match ((at, sent.face), joined.get(&(at, sent.face))) {
                ((0, 1), _) => back.push(sent.what()),
                (end, _) if end == (ROUTERS - 1, 4) => moving.push_back((end, data("/a"))),
                (_, Some(far)) => moving.push_back((*far, sent.bytes)),
                (_, None) => {}
            }
        }
    }
    (reached.contains(&(ROUTERS - 1)), back)
}

#[test]
fn one_interest_finds_the_producer_wherever_routes_lead_to_it() {
    for (strategy, _) in STRATEGIES {
        let mut found = 0;
        for seed in 0..200 {
            let (leads_there, back) = ask_somewhere(seed, strategy);
            assert_eq!(back.len(), 1, "seed {seed}, {strategy}: {back:?}");
            assert_eq!(back[0] == "data /a", leads_there, "seed {seed}, {strategy}: {back:?}");
            found += u32::from(leads_there);
        }
        assert!((50..150).contains(&found), "both kinds are there: {found}");
    }
}

#[test]
fn congestion_marks_travel_on() {
    let mut bench = Bench::with_routes(&[("/", 4)]);
    bench.recv(1, &interest("/a", 1));
    let marked = LpPacket { congestion_mark: Some(1), ..LpPacket::default() };
    let back = bench.recv_with(4, &marked, &data("/a"));
    assert_eq!(back[0].headers().congestion_mark, Some(1));
    let onward = bench.recv_with(1, &marked, &interest("/b", 1));
    assert_eq!((onward[0].face, onward[0].headers().congestion_mark), (4, Some(1)));
    let probe = LpPacket { probe: true, ..marked };
    assert_eq!(bench.recv_with(1, &probe, &interest("/c", 1))[0].headers().congestion_mark, Some(1));
    // A mark of the network below becomes one, with headers and without.
    for packet in
        [interest("/d", 1), LpPacket { fragment: Some(&interest("/e", 1)), ..LpPacket::default() }.encode().into()]
    {
        let mut datagram = Datagram::from(packet);
        datagram.set_marked();
        bench.router.handle_datagram(bench.now, FaceId(1), datagram);
        assert_eq!(bench.sent()[0].headers().congestion_mark, Some(1));
    }
    assert_eq!(bench.recv(1, &interest("/f", 1))[0].headers().congestion_mark, None, "it marks one packet");
}

#[test]
fn strategies_are_chosen_by_prefix() {
    let mut bench = Bench::with_routes(&[("/", 3), ("/", 4), ("/m", 3), ("/m", 4)]);
    assert!(bench.router.set_strategy(&name("/m"), "multicast"));
    assert!(!bench.router.set_strategy(&name("/m"), "no-such"));
    expect(&bench.recv(1, &interest("/m/1", 1)), &[(3, "interest /m/1"), (4, "interest /m/1")]);
    expect(&bench.recv(1, &interest("/x", 1)), &[(3, "interest /x")]);
    assert!(bench.router.unset_strategy(&name("/m")) && !bench.router.unset_strategy(&Name::root()));
    expect(&bench.recv(1, &interest("/m/2", 1)), &[(3, "interest /m/2")]);
}

//! Path tags: recorded, followed, refused.
use super::*;
use crate::wire::{PathRates, PathTag, huffman::BitTag};
use labels::LabelScheme;

/// A chain of routers, face 4 of each joined to face 1 of the next; the consumer on face 2 of the first.
struct Chain(Vec<Bench>);

impl Chain {
    fn new(count: u8, set: impl Fn(usize, &mut Config)) -> Chain {
        let bench = |at: u8| {
            let mut bench = Bench::new(at + 1, |config| set(usize::from(at), config));
            bench.routes(&[("/", 4)]);
            bench
        };
        Chain((0..count).map(bench).collect())
    }
    /// An Interest of the consumer travels to the producer behind the last router, which answers with `answer`; returns
    /// what the consumer receives.
    fn fetch(&mut self, headers: &LpPacket<'_>, requested: &Bytes, answer: Option<&Bytes>) -> Vec<Sent> {
        let last = self.0.len() - 1;
        let mut moving = self.0[0].recv_with(2, headers, requested);
        for at in 1..=last {
            let [ref sent] = moving[..] else { return moving };
            if sent.face != 4 {
                return moving;
            }
            moving = self.0[at].recv(1, &sent.bytes);
        }
        let Some(answer) = answer.filter(|_| moving.iter().any(|sent| sent.face == 4)) else { return moving };
        let mut back = self.0[last].recv(4, answer);
        for at in (0..last).rev() {
            let [ref sent] = back[..] else { return back };
            assert_eq!(sent.face, 1);
            back = self.0[at].recv(4, &sent.bytes);
        }
        back
    }
}
fn probe() -> LpPacket<'static> {
    LpPacket { probe: true, ..LpPacket::default() }
}

#[test]
fn a_probe_brings_a_label_for_each_router_and_the_tag_leads_the_same_way() {
    for scheme in [LabelScheme::Random, LabelScheme::Huffman] {
        let mut chain = Chain::new(3, |_, config| config.labels = scheme);
        let back = chain.fetch(&probe(), &interest("/a/1", 1), Some(&data("/a/1")));
        let headers = back[0].headers();
        let tagged = LpPacket { tag: headers.tag, tag_bits: headers.tag_bits, ..LpPacket::default() };
        match scheme {
            LabelScheme::Random => assert_eq!(tagged.tag.unwrap().as_bytes().len(), 3 * labels::LABEL_BYTES),
            LabelScheme::Huffman => assert!(tagged.tag_bits.unwrap().to_stack().bits() <= 3 * (2 + 3)),
        }
        let back = chain.fetch(&tagged, &interest("/a/2", 2), Some(&data("/a/2")));
        expect(&back, &[(2, "data /a/2")]);
        let headers = back[0].headers();
        assert!(headers.tag.is_none() && headers.tag_bits.is_none(), "only probes bring tags");
        assert!(!headers.path_failed && headers.origin.is_none());
        for bench in &chain.0 {
            let stats = &bench.router.stats;
            assert_eq!((stats.labels_written, stats.tags_followed, stats.tags_failed), (1, 1, 0));
        }
    }
}

#[test]
fn a_tag_overrides_the_strategy_and_the_rest_of_it_goes_on() {
    let mut bench = Bench::with_routes(&[("/", 3), ("/", 4)]);
    let mut tags = Vec::new();
    for n in 0..2u64 {
        let requested = alloc::format!("/a/{n}");
        let sent = bench.recv_with(1, &probe(), &interest(&requested, n));
        assert!(sent[0].headers().probe, "the probe stays one");
        // What the producer's side recorded is below this router's label.
        let brought = LpPacket { tag: Some(PathTag::parse(&[9, 9, 9]).unwrap()), ..LpPacket::default() };
        let back = bench.recv_with(sent[0].face, &brought, &data(&requested));
        tags.push((sent[0].face, back[0].headers().tag.unwrap().as_bytes().to_vec()));
    }
    let mut faces = tags.iter().map(|(face, _)| *face).collect::<Vec<_>>();
    faces.sort_unstable();
    assert_eq!(faces, [3, 4], "probes are spread evenly, whoever is first");
    for (round, (face, tag)) in tags.iter().cycle().take(6).enumerate() {
        let headers = LpPacket { tag: Some(PathTag::parse(tag).unwrap()), ..LpPacket::default() };
        let sent = bench.recv_with(1, &headers, &interest(&alloc::format!("/b/{round}"), 1));
        expect(&sent, &[(*face, &alloc::format!("interest /b/{round}"))]);
        assert_eq!(sent[0].headers().tag.unwrap().as_bytes(), [9, 9, 9]);
    }
}
#[test]
fn an_interest_whose_tag_ends_here_goes_to_the_producer_in_this_node() {
    let mut bench = Bench::with_routes(&[("/a", 3), ("/b", 3)]);
    let producer = FaceId(INTERNAL_FACES_FIRST);
    bench.router.add_internal_face(producer, "internal://producer");
    assert!(bench.router.add_route(&name("/a"), producer, 9));
    expect(&bench.recv(1, &interest("/a/1", 1)), &[(3, "interest /a/1")]);
    let empty_bits = BitTag::parse(&[0]).unwrap();
    let ends = [
        LpPacket { tag: Some(PathTag::EMPTY), ..LpPacket::default() },
        LpPacket { tag_bits: Some(empty_bits), ..LpPacket::default() },
    ];
    for (n, headers) in ends.iter().enumerate() {
        expect(&bench.recv_with(1, headers, &interest(&alloc::format!("/a/ends/{n}"), 2)), &[]);
        assert_eq!(bench.router.poll_local().map(|local| local.face), Some(producer));
        let elsewhere = alloc::format!("/b/ends/{n}");
        expect(&bench.recv_with(1, headers, &interest(&elsewhere, 3)), &[(3, &alloc::format!("interest {elsewhere}"))]);
    }
}
#[test]
fn probes_pass_by_caches_on_the_whole_way_and_cached_answers_say_so() {
    let mut chain = Chain::new(3, |_, _| {});
    chain.fetch(&LpPacket::default(), &interest("/a", 1), Some(&data("/a")));
    let back = chain.fetch(&probe(), &interest("/a", 2), Some(&data_of("/a", b"newer")));
    assert_eq!(back[0].packet(), data_of("/a", b"newer"));
    assert!(back[0].headers().tag.is_some() && back[0].headers().origin.is_none());
    // A cache in the middle: the flag reaches the consumer.
    chain.0[0].router.erase_cache(&Name::root(), 10);
    let sent = chain.0[0].recv(2, &interest("/a", 3));
    let from_middle = chain.0[1].recv(1, &sent[0].bytes);
    let back = chain.0[0].recv(4, &from_middle[0].bytes);
    assert_eq!(back[0].headers().origin, Some(Origin::Cache));
}

/// A node that lied to a consumer past caches must not be heard through another's request.
#[test]
fn what_a_cache_has_answered_to_others_is_not_given_to_who_asks_past_caches() {
    let of_cache = LpPacket { origin: Some(Origin::Cache), ..LpPacket::default() };
    let token = |token| LpPacket { pit_token: Some(token), ..probe() };
    for probe_is_first in [false, true] {
        for other in [1, 2] {
            let mut bench = Bench::with_routes(&[("/", 4)]);
            let mut requested =
                [(other, LpPacket::default(), interest("/a", 1)), (2, token(b"past"), interest("/a", 2))];
            requested.rotate_left(usize::from(probe_is_first));
            for (face, headers, requested) in &requested {
                let sent = bench.recv_with(*face, headers, requested);
                expect(&sent, &[(4, "interest /a")]);
                assert_eq!(sent[0].headers().probe, headers.probe, "neither is a copy of the other");
            }
            let back = bench.recv_with(4, &of_cache, &data_of("/a", b"a lie"));
            expect(&back, &[(other, "data /a")]);
            assert_eq!(back[0].headers().pit_token, None);
            expect(&bench.recv_with(4, &of_cache, &data_of("/a", b"a lie")), &[]);
            let back = bench.recv(4, &data("/a"));
            expect(&back, &[(2, "data /a")]);
            let headers = back[0].headers();
            assert_eq!((headers.pit_token, headers.origin), (Some(&b"past"[..]), None));
            assert!(headers.tag.is_some() && bench.router.pit.is_empty());
        }
    }
}

#[test]
fn the_producer_answers_who_asks_past_caches_and_who_does_not() {
    let mut bench = Bench::with_routes(&[("/", 4)]);
    bench.recv(1, &interest("/a", 1));
    bench.recv(2, &interest("/a", 2));
    bench.recv_with(2, &probe(), &interest("/a", 3));
    let back = bench.recv(4, &data("/a"));
    expect(&back, &[(1, "data /a"), (2, "data /a")]);
    assert!(back[1].headers().tag.is_some() && back[1].headers().origin.is_none(), "it is told of the way");
    assert!(bench.router.pit.is_empty());
}

#[test]
fn an_interest_past_caches_comes_back_to_who_sent_it_and_is_known_without_its_header() {
    let mut bench = Bench::with_routes(&[("/", 4)]);
    bench.recv(1, &interest("/a", 1));
    bench.recv_with(2, &probe(), &interest("/a", 2));
    expect(&bench.recv(3, &interest("/a", 2)), &[(3, "nack 100 /a")]);
    let nack = LpPacket { nack: Some(NackReason::NoRoute), ..LpPacket::default() };
    expect(&bench.recv_with(4, &nack, &interest("/a", 2)), &[(2, "nack 150 /a")]);
    expect(&bench.recv(4, &data("/a")), &[(1, "data /a")]);
}

#[test]
fn forged_labels_faces_that_are_down_and_those_that_lead_elsewhere_are_not_followed() {
    let mut bench = Bench::with_routes(&[("/", 3), ("/", 4), ("/other", 2)]);
    let label_of = |bench: &Bench, face: u32| bench.router.labels.push(PathTag::EMPTY, FaceId(face)).unwrap();
    let go = |bench: &mut Bench, tag: &[u8], requested: &str| {
        let headers = LpPacket { tag: Some(PathTag::parse(tag).unwrap()), ..LpPacket::default() };
        let sent = bench.recv_with(1, &headers, &interest(requested, 1));
        let back = bench.recv(sent[0].face, &data(requested));
        (sent[0].face, back[0].headers().path_failed)
    };
    let good = label_of(&bench, 4);
    assert_eq!(go(&mut bench, &good, "/1"), (4, false));
    assert_eq!(go(&mut bench, &[1, 2, 3, 4], "/2"), (3, true), "nobody was told this label");
    assert_eq!(go(&mut bench, &good[..3], "/3"), (3, true));
    let elsewhere = label_of(&bench, 2);
    assert_eq!(go(&mut bench, &elsewhere, "/4"), (3, true), "that face does not lead to the prefix");
    assert_eq!(go(&mut bench, &elsewhere, "/other/5"), (2, false));
    let back_where_it_came_from = label_of(&bench, 1);
    assert_eq!(go(&mut bench, &back_where_it_came_from, "/6"), (3, true));
    bench.router.set_face_up(bench.now, FaceId(4), false);
    assert_eq!(go(&mut bench, &good, "/7"), (3, true));
    assert_eq!((bench.router.stats.tags_followed, bench.router.stats.tags_failed), (2, 5));
}

#[test]
fn a_router_may_return_a_nack_at_once_instead() {
    let mut bench = Bench::new(1, |config| config.invalid_path = InvalidPath::Nack);
    bench.routes(&[("/", 3)]);
    let headers = LpPacket { tag: Some(PathTag::parse(&[1, 2, 3, 4]).unwrap()), ..LpPacket::default() };
    let sent = bench.recv_with(1, &headers, &interest("/a", 1));
    expect(&sent, &[(1, "nack 150 /a")]);
    assert!(sent[0].headers().path_failed && bench.router.pit.is_empty());
}

#[test]
fn when_a_link_fails_those_on_the_path_are_told_at_once() {
    let mut chain = Chain::new(3, |_, _| {});
    let back = chain.fetch(&probe(), &interest("/a/1", 1), Some(&data("/a/1")));
    let tag = back[0].headers().tag.unwrap().as_bytes().to_vec();
    let tagged = LpPacket { tag: Some(PathTag::parse(&tag).unwrap()), ..LpPacket::default() };
    chain.fetch(&tagged, &interest("/a/2", 2), None);
    let now = chain.0[2].now;
    chain.0[2].router.set_face_up(now, FaceId(4), false);
    let mut back = chain.0[2].sent();
    for at in (0..2).rev() {
        expect(&back, &[(1, "nack 150 /a/2")]);
        assert!(back[0].headers().path_failed);
        back = chain.0[at].recv(4, &back[0].bytes);
    }
    expect(&back, &[(2, "nack 150 /a/2")]);
    assert!(back[0].headers().path_failed);
    // By then no path is left: the next Interest returns from where the path ends.
    let sent = chain.fetch(&tagged, &interest("/a/3", 3), None);
    expect(&sent, &[(1, "nack 150 /a/3")]);
    assert!(sent[0].headers().path_failed);
}

#[test]
fn a_path_on_which_too_much_waits_has_not_failed() {
    let mut chain = Chain::new(3, |_, _| {});
    let back = chain.fetch(&probe(), &interest("/a/1", 1), Some(&data("/a/1")));
    let tag = back[0].headers().tag.unwrap().as_bytes().to_vec();
    let tagged = LpPacket { tag: Some(PathTag::parse(&tag).unwrap()), ..LpPacket::default() };
    for (why, path_failed) in [(NackReason::Congestion, false), (NackReason::NoRoute, true)] {
        chain.fetch(&tagged, &interest("/a/2", why.number()), None);
        let nack = LpPacket { nack: Some(why), ..LpPacket::default() };
        let mut back = chain.0[2].recv_with(4, &nack, &interest("/a/2", why.number()));
        for at in (0..2).rev() {
            back = chain.0[at].recv(4, &back[0].bytes);
        }
        expect(&back, &[(2, &alloc::format!("nack {} /a/2", why.number()))]);
        assert_eq!(back[0].headers().path_failed, path_failed, "{why:?}");
    }
}

#[test]
fn a_legacy_forwarder_in_the_middle_shortens_the_tag_and_nothing_else() {
    let mut chain = Chain::new(3, |at, config| config.path_tags = at != 1);
    let back = chain.fetch(&probe(), &interest("/a/1", 1), Some(&data("/a/1")));
    let tag = back[0].headers().tag.unwrap().as_bytes().to_vec();
    assert_eq!(tag.len(), labels::LABEL_BYTES, "the consumer's side of the path");
    let tagged = LpPacket { tag: Some(PathTag::parse(&tag).unwrap()), ..LpPacket::default() };
    let back = chain.fetch(&tagged, &interest("/a/2", 2), Some(&data("/a/2")));
    expect(&back, &[(2, "data /a/2")]);
    assert!(!back[0].headers().path_failed);
}

#[test]
fn who_probes_is_told_the_rate_of_the_link_before_each_label() {
    let kbps = |rates: &PathRates<'_>| -> Vec<u64> {
        rates.rates().map(|rate| rate.map_or(0, |rate| rate.bits_per_second() / 1_000)).collect()
    };
    let fetch = |legacy: Option<usize>, silent: Option<usize>| {
        let mut chain = Chain::new(3, |at, config| {
            (config.path_tags, config.tell_rates) = (legacy != Some(at), silent != Some(at));
        });
        for (at, bench) in chain.0.iter_mut().enumerate() {
            // Towards the consumer, on the last way back and on the others.
            let rate = Some(Rate::from_bits_per_second(1_000_000 * (at as u64 + 1)));
            let face = FaceId(if at == 0 { 2 } else { 1 });
            assert!(bench.router.add_face(face, FaceProfile { rate, ..profile(1472) }));
        }
        let back = chain.fetch(&probe(), &interest("/a/1", 1), Some(&data("/a/1")));
        let reported = kbps(&back[0].headers().rates.unwrap());
        let back = chain.fetch(&LpPacket::default(), &interest("/a/2", 2), Some(&data("/a/2")));
        assert!(back[0].headers().rates.is_none(), "only who probes");
        reported
    };
    // The consumer's own label, for the link to the first router, comes first in its tag.
    assert_eq!(fetch(None, None), [1_000, 2_000, 3_000]);
    assert_eq!(fetch(None, Some(1)), [1_000, 0, 3_000]);
    assert_eq!(fetch(Some(1), None), [1_000], "what is behind a legacy forwarder has no labels either");
}

#[test]
fn tags_that_lead_in_a_circle_end_where_the_interest_was_before() {
    // Two routers with two links between them; a tag that leads there, back and there again.
    let mut benches: Vec<Bench> = (1..=2)
        .map(|secret| {
            let mut bench = Bench::new(secret, |_| {});
            bench.routes(&[("/", 4), ("/", 3)]);
            bench
        })
        .collect();
    let label = |bench: &Bench, face: u32| bench.router.labels.push(PathTag::EMPTY, FaceId(face)).unwrap();
    let round = [label(&benches[0], 4), label(&benches[1], 3)].concat();
    let tag = round.repeat(16);
    let headers = LpPacket { tag: Some(PathTag::parse(&tag).unwrap()), ..LpPacket::default() };
    let mut sent = benches[0].recv_with(1, &headers, &interest("/a", 1));
    let mut hops = 0;
    while let [ref only] = sent[..] {
        if !only.what().starts_with("interest") || hops > 100 {
            break;
        }
        hops += 1;
        let (to, face, bytes) = (hops % 2, only.face, only.bytes.clone());
        sent = benches[to].recv(face, &bytes);
    }
    assert_eq!(hops, 2, "there, back, and refused");
    expect(&sent, &[(3, "nack 100 /a")]);
}

#[test]
fn a_lost_packet_is_asked_for_again_by_any_path_at_once() {
    let mut bench = Bench::with_routes(&[("/", 3), ("/", 4)]);
    let label = |bench: &Bench, face: u32| bench.router.labels.push(PathTag::EMPTY, FaceId(face)).unwrap();
    let (three, four) = (label(&bench, 3), label(&bench, 4));
    let ask = |bench: &mut Bench, face: u32, tag: &[u8], nonce: u64| {
        let headers = LpPacket { tag: Some(PathTag::parse(tag).unwrap()), ..LpPacket::default() };
        Bench::what(&bench.recv_with(face, &headers, &interest("/a", nonce)))
    };
    assert_eq!(ask(&mut bench, 1, &three, 1), [(3, "interest /a".into())]);
    assert_eq!(ask(&mut bench, 1, &three, 2), [(3, "interest /a".into())], "the consumer decides, not the router");
    assert_eq!(ask(&mut bench, 1, &four, 3), [(4, "interest /a".into())]);
    // The Data in transit answers another consumer on the same path.
    assert_eq!(ask(&mut bench, 2, &four, 4), []);
    let back = bench.recv(4, &data("/a"));
    let origins: Vec<_> = back.iter().map(|sent| (sent.face, sent.headers().origin)).collect();
    assert_eq!(origins, [(1, None), (2, Some(Origin::Aggregation))]);
}

#[test]
fn who_comes_while_an_answer_is_on_its_way_waits_for_it_and_repeats_at_its_own_pace() {
    let mut bench = Bench::with_routes(&[("/", 3)]);
    let tag = bench.router.labels.push(PathTag::EMPTY, FaceId(3)).unwrap();
    let ask = |bench: &mut Bench, at: u64, face: u32, nonce: u64| {
        let headers = LpPacket { tag: Some(PathTag::parse(&tag).unwrap()), ..LpPacket::default() };
        Bench::what(&bench.at(at).recv_with(face, &headers, &interest("/a", nonce)))
    };
    assert_eq!(ask(&mut bench, 0, 1, 1), [(3, "interest /a".into())]);
    assert_eq!(ask(&mut bench, 200, 2, 2), [], "long after the suppression");
    assert_eq!(ask(&mut bench, 400, 2, 3), [(3, "interest /a".into())], "the one before may be lost");
    assert_eq!(ask(&mut bench, 600, 4, 4), []);
    let back = bench.recv(3, &data("/a"));
    let mut origins: Vec<_> = back.iter().map(|sent| (sent.face, sent.headers().origin)).collect();
    origins.sort_by_key(|(face, _)| *face);
    let shared = Some(Origin::Aggregation);
    assert_eq!(origins, [(1, shared), (2, None), (4, shared)]);
}

#[test]
fn requests_for_a_lost_packet_in_other_forms_share_an_answer_too() {
    let mut bench = Bench::with_routes(&[("/", 3)]);
    let tag = bench.router.labels.push(PathTag::EMPTY, FaceId(3)).unwrap();
    let passes = |bench: &mut Bench, at: u64, face: u32, (can_be_prefix, must_be_fresh): (bool, bool)| {
        let headers = LpPacket { tag: Some(PathTag::parse(&tag).unwrap()), ..LpPacket::default() };
        let nonce = Some(Nonce::from(at));
        let lost = name("/a");
        let lost = Interest { nonce, can_be_prefix, must_be_fresh, ..Interest::new(NameView::from(&lost)) };
        !bench.at(at).recv_with(face, &headers, &Bytes::from(lost.encode())).is_empty()
    };
    let (first, second, third) = ((false, false), (true, false), (false, true));
    for (at, face, form, is_passed) in [
        (1, 1, first, true),
        (5, 2, first, false),
        (6, 4, first, false),
        // The one that was passed on may be lost.
        (100, 1, second, true),
        // Another one has been in flight since, for some time.
        (150, 2, second, false),
        (300, 2, third, false),
        (360, 2, third, true),
        // No one waits for others forever.
        (361, 4, second, false),
        (362, 4, third, false),
        (363, 4, first, true),
    ] {
        assert_eq!(passes(&mut bench, at, face, form), is_passed, "face {face} after {at} ms");
    }
    let mut faces: Vec<u32> = bench.recv(3, &data("/a")).iter().map(|sent| sent.face).collect();
    faces.sort_unstable();
    faces.dedup();
    assert_eq!(faces, [1, 2, 4]);
}

#[test]
fn the_acceleration_base_gives_what_longest_prefix_match_gives() {
    let mut with = Bench::with_routes(&[]);
    let mut without = Bench::new(1, |config| config.fab_flows = 0);
    let mut random = Random::new(3, 3);
    for round in 0..3000u64 {
        let depth = random.below(4);
        let path: String = (0..=depth).map(|_| alloc::format!("/{}", random.below(3))).collect();
        if random.chance(0.01) {
            let (face, gone) = (FaceId(2 + random.below(3) as u32), random.chance(0.5));
            for bench in [&mut with, &mut without] {
                if gone {
                    bench.router.unregister(&name(&path), face, ORIGIN_STATIC);
                } else {
                    bench.router.add_route(&name(&path), face, round);
                }
            }
        }
        let results = [&mut with, &mut without].map(|bench| Bench::what(&bench.recv(1, &interest(&path, round))));
        assert_eq!(results[0], results[1], "round {round}: {path}");
        for bench in [&mut with, &mut without] {
            bench.at(round * 5000);
        }
    }
    assert!(with.router.fab.hits_and_misses.0 > 1000);
}

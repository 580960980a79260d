use super::*;

fn hops(count: u32) -> Vec<Hop> {
    (1..=count).map(|face| Hop { face: FaceId(face), cost: u64::from(face), used_at: None }).collect()
}
/// How often each face is chosen in `rounds`, with `then` called after each choice.
fn shares(
    strategy: &mut dyn Strategy,
    hops: &[Hop],
    rounds: u32,
    mut then: impl FnMut(&mut dyn Strategy, FaceId),
) -> Vec<f64> {
    let mut random = Random::new(1, 2);
    let mut counts = alloc::vec![0.0; hops.len()];
    for _ in 0..rounds {
        let mut out = Vec::new();
        strategy.choose(&Question { now: Time::ZERO, prefix: 7, hops }, &mut random, &mut out);
        for face in out {
            counts[face.0 as usize - 1] += 1.0 / f64::from(rounds);
            strategy.on_sent(Time::ZERO, 7, face);
            then(strategy, face);
        }
    }
    counts
}
fn near(shares: &[f64], expected: &[f64]) {
    assert_eq!(shares.len(), expected.len());
    let close = shares.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.02);
    assert!(close, "{shares:?} instead of {expected:?}");
}
fn data(rtt_millis: u64, marked: bool) -> Outcome {
    Outcome::Data { rtt: Some(Duration::from_millis(rtt_millis)), marked }
}

#[test]
fn all_strategies_are_found_by_the_names_that_they_are_listed_by() {
    for (index, (name, _)) in STRATEGIES.iter().enumerate() {
        assert_eq!(by_name(name), Some(index));
    }
    assert_eq!(by_name("none"), None);
}

#[test]
fn best_route_takes_the_cheapest_then_those_not_used_then_the_oldest() {
    let mut hops = hops(3);
    let next = |hops: &[Hop]| {
        let mut out = Vec::new();
        let question = Question { now: Time::ZERO, prefix: 0, hops };
        BestRoute.choose(&question, &mut Random::new(1, 1), &mut out);
        out[0].0
    };
    for at in 0..5 {
        let chosen = next(&hops);
        assert_eq!(u64::from(chosen), at % 3 + 1);
        hops[chosen as usize - 1].used_at = Some(Time::from_millis(at));
    }
}

#[test]
fn multicast_takes_all_and_equal_weight_one_after_the_other() {
    near(&shares(&mut Multicast, &hops(3), 10, |_, _| {}), &[1.0, 1.0, 1.0]);
    let mut equal = EqualWeight::default();
    near(&shares(&mut equal, &hops(2), 1000, |_, _| {}), &[0.5, 0.5]);
    // A third face gets its third, not everything until it has caught up.
    near(&shares(&mut equal, &hops(3), 3000, |_, _| {}), &[1.0 / 3.0; 3]);
}

#[test]
fn rfa_shuns_faces_where_interests_pile_up() {
    // Face 1 answers at once, on face 2 nine more Interests are always pending: averages of 0.5 and 9.5, weights of
    // 1/1.5 and 1/10.5, shares of 7/8 and 1/8.
    let mut rfa = Rfa::new(false);
    (0..9).for_each(|_| rfa.on_sent(Time::ZERO, 7, FaceId(2)));
    for _ in 0..200 {
        rfa.on_sent(Time::ZERO, 7, FaceId(2));
        rfa.on_outcome(Time::ZERO, 7, FaceId(2), data(1, false));
    }
    let shares_of =
        |rfa: &mut Rfa| shares(rfa, &hops(2), 20_000, |rfa, face| rfa.on_outcome(Time::ZERO, 7, face, data(1, false)));
    let random = shares_of(&mut rfa);
    near(&random, &[0.875, 0.125]);
    let mut greedy = Rfa::new(true);
    (0..9).for_each(|_| greedy.on_sent(Time::ZERO, 7, FaceId(2)));
    near(&shares_of(&mut greedy), &[1.0, 0.0]);
    // Without answers the greedy variant keeps all faces equally full.
    near(&shares(&mut Rfa::new(true), &hops(4), 4000, |_, _| {}), &[0.25; 4]);
}

/// Face 1 returns every Interest at once, on the others ten are always pending.
#[test]
fn a_face_that_brings_back_all_at_once_is_no_face_on_which_nothing_waits() {
    for (name, make) in ["rfa", "rfa-greedy", "pcon"].map(|name| STRATEGIES[by_name(name).unwrap()]) {
        let chosen = |why: NackReason| {
            let mut strategy = make();
            for face in 2..=3 {
                (0..10).for_each(|_| strategy.on_sent(Time::ZERO, 7, FaceId(face)));
            }
            let shares = shares(&mut *strategy, &hops(3), 1000, |strategy, face| {
                let outcome = if face.0 == 1 { Outcome::Nack(why) } else { data(10, false) };
                strategy.on_outcome(Time::ZERO, 7, face, outcome);
            });
            let later = |millis, strategy: &mut dyn Strategy| {
                let question = Question { now: Time::from_millis(millis), prefix: 7, hops: &hops(3)[..1] };
                let mut out = Vec::new();
                strategy.choose(&question, &mut Random::new(1, 1), &mut out);
                out
            };
            assert_eq!(later(0, &mut *strategy), [FaceId(1)], "{name}: there is no other");
            let again = Question { now: Time::from_millis(1000), prefix: 7, hops: &hops(3) };
            let mut out = Vec::new();
            (0..100).for_each(|n| strategy.choose(&again, &mut Random::new(n, 1), &mut out));
            assert!(out.contains(&FaceId(1)), "{name}: it is tried again after a while");
            shares[0]
        };
        assert!(chosen(NackReason::NoRoute) < 0.01 && chosen(NackReason::Duplicate) < 0.01);
        assert!(chosen(NackReason::Congestion) > 0.3, "where too much waits it leads on all the same");
    }
}

#[test]
fn paf_prefers_short_round_trips_in_proportion() {
    let mut paf = Paf::default();
    near(
        &shares(&mut paf, &hops(2), 20_000, |paf, face| {
            paf.on_outcome(Time::ZERO, 7, face, data(if face.0 == 1 { 30 } else { 10 }, false))
        }),
        &[0.25, 0.75],
    );
    near(
        &shares(&mut paf, &hops(2), 20_000, |paf, face| {
            let outcome = if face.0 == 2 { Outcome::Nothing } else { data(30, false) };
            paf.on_outcome(Time::ZERO, 7, face, outcome);
        }),
        &[0.97, 0.03],
    );
}

#[test]
fn pcon_moves_two_hundredths_for_each_mark() {
    let mut pcon = Pcon::default();
    near(&shares(&mut pcon, &hops(3), 5000, |_, _| {}), &[1.0, 0.0, 0.0]);
    for _ in 0..10 {
        pcon.on_outcome(Time::ZERO, 7, FaceId(1), data(1, true));
    }
    // 0.98¹⁰ is left, the rest is shared evenly.
    let left = 0.98f64.powi(10);
    near(&shares(&mut pcon, &hops(3), 20_000, |_, _| {}), &[left, (1.0 - left) / 2.0, (1.0 - left) / 2.0]);
}

#[test]
fn measurements_start_anew_when_there_are_too_many() {
    let mut measured = Measurements::<u32>::default();
    (0..MEASUREMENTS_MAX as u64).for_each(|prefix| *measured.at(prefix, FaceId(1)) = 7);
    assert_eq!((*measured.at(0, FaceId(1)), measured.0.len()), (7, MEASUREMENTS_MAX));
    assert_eq!((*measured.at(0, FaceId(2)), measured.0.len()), (0, 1));
}

use super::{aggregation::COMMON_AT, *};
use alloc::format;

fn registrations(scope: RegistrationScope) -> (Registrations, Random) {
    let registrar = Registrar { face: FaceId(3), scope };
    (
        Registrations::new(b"nfd", [registrar].into(), (SignKey::Digest, None), Duration::from_secs(1_000)),
        Random::new(1, 1),
    )
}
fn answer(command: &Command, code: u64, text: &str) -> LocalPacket {
    let interest = Interest::decode(&command.interest).unwrap();
    let content = ControlResponse { code, text: text.into(), body: None }.encode();
    LocalPacket {
        via: None,
        face: FaceId(1),
        packet: Data::new(interest.name, &content).sign(&SignKey::Digest).into(),
        nack: None,
        incoming_face: None,
        token: Vec::new(),
        tag: None,
        tag_bits: None,
        rates: Vec::new(),
        probe: false,
        origin: None,
        path_failed: false,
        marked: false,
    }
}

fn outcome(registrations: &mut Registrations, now: Time, answer: &LocalPacket) -> Option<Registered> {
    registrations.handle_packet(now, answer);
    registrations.poll_outcome()
}
/// The neighbour is up, and runs our forwarder.
fn known(registrations: &mut Registrations) {
    registrations.on_face_up(Time::ZERO, FaceId(3));
    registrations.on_boot(Time::ZERO, FaceId(3), 0, 77);
}
/// A command's verb and prefix.
fn parsed(command: &Command) -> (String, Name) {
    let interest = Interest::decode(&command.interest).unwrap();
    let parts: Vec<_> = interest.name.components().collect();
    let parameters = ControlParameters::decode(parts[4].value).unwrap();
    (String::from_utf8(parts[3].value.to_vec()).unwrap(), parameters.name.unwrap())
}

#[test]
fn a_hundred_thousand_names_are_some_routes_and_each_is_confirmed() {
    let (mut registrations, mut random) = registrations(RegistrationScope::Localhop);
    known(&mut registrations);
    let mut routes = BTreeSet::new();
    let (mut commands, mut confirmed, mut now) = (0, BTreeSet::new(), Time::ZERO);
    let name = |at: u32| format!("/lab/{}/{at}", at % 10).parse::<Name>().unwrap();
    let mut answer_all = |registrations: &mut Registrations, now: Time| {
        let mut sent = VecDeque::new();
        loop {
            sent.extend(core::iter::from_fn(|| registrations.poll(now, &mut random, |_| true)));
            assert!(sent.len() <= IN_FLIGHT_MAX);
            let Some(command) = sent.pop_front() else { break };
            commands += 1;
            match parsed(&command) {
                (verb, prefix) if verb == "register" => drop(routes.insert(prefix)),
                (_, prefix) => drop(routes.remove(&prefix)),
            }
            registrations.handle_packet(now, &answer(&command, 200, "OK"));
        }
        confirmed.extend(core::iter::from_fn(|| registrations.poll_outcome()).map(|outcome| match outcome {
            Registered::Confirmed(name) => name,
            Registered::Refused(..) => unreachable!("nothing is refused"),
        }));
        (routes.clone(), commands, confirmed.len())
    };
    for at in 0..100_000 {
        registrations.add(now, &name(at));
        if at % 1_000 == 999 {
            now += Duration::from_millis(1);
            let (_, _, confirmed) = answer_all(&mut registrations, now);
            assert_eq!(confirmed, at as usize + 1);
        }
    }
    let (routes, commands, _) = answer_all(&mut registrations, now);
    assert_eq!(routes, (0..10).map(|folder| format!("/lab/{folder}").parse().unwrap()).collect());
    assert!(commands < 2 * 10 * (COMMON_AT + 2), "{commands}");
    let (_, after, _) = answer_all(&mut registrations, now + RENEWAL + Duration::from_millis(200));
    assert_eq!(after - commands, 10, "one renewal of each");
}

#[test]
fn where_a_common_prefix_is_refused_names_are_registered_one_by_one() {
    let (mut registrations, mut random) = registrations(RegistrationScope::Localhop);
    known(&mut registrations);
    let name = |at: usize| format!("/lab/{at}").parse::<Name>().unwrap();
    (0..=COMMON_AT).for_each(|at| registrations.add(Time::ZERO, &name(at)));
    let (mut confirmed, mut refused) = (0, 0);
    while let Some(command) = registrations.poll(Time::ZERO, &mut random, |_| true) {
        let is_common = parsed(&command).1.len() == 1;
        refused += usize::from(is_common);
        let (code, text) = if is_common { (403, "not below your prefix") } else { (200, "OK") };
        registrations.handle_packet(Time::ZERO, &answer(&command, code, text));
        while let Some(outcome) = registrations.poll_outcome() {
            assert!(matches!(outcome, Registered::Confirmed(_)), "{outcome:?}");
            confirmed += 1;
        }
    }
    assert_eq!((confirmed, refused), (COMMON_AT + 1, 2), "it is asked for once, and withdrawn");
}

#[test]
fn a_passing_refusal_of_a_common_prefix_is_told_and_asked_again() {
    let (mut registrations, mut random) = registrations(RegistrationScope::Localhost);
    known(&mut registrations);
    let name = |at: usize| format!("/lab/{at}").parse::<Name>().unwrap();
    (0..=COMMON_AT).for_each(|at| registrations.add(Time::ZERO, &name(at)));
    let (mut confirmed, mut refused) = (0, 0);
    while let Some(command) = registrations.poll(Time::ZERO, &mut random, |_| true) {
        let (code, text) = if parsed(&command).1.len() == 1 { (503, "too many routes") } else { (200, "OK") };
        registrations.handle_packet(Time::ZERO, &answer(&command, code, text));
        while let Some(outcome) = registrations.poll_outcome() {
            match outcome {
                Registered::Confirmed(_) => confirmed += 1,
                Registered::Refused(_, reason) => {
                    assert_eq!(reason, "too many routes");
                    refused += 1;
                }
            }
        }
    }
    assert_eq!(confirmed + refused, COMMON_AT + 1);
    let again = registrations.poll(Time::ZERO + RENEWAL, &mut random, |_| true).unwrap();
    assert_eq!(parsed(&again), ("register".into(), "/lab".parse().unwrap()));
    // The names that it has are not withdrawn before.
    registrations.handle_packet(Time::ZERO + RENEWAL, &answer(&again, 200, "OK"));
    let withdrawn = core::iter::from_fn(|| registrations.poll(Time::ZERO + RENEWAL, &mut random, |_| true));
    let verbs: BTreeSet<String> = withdrawn.take(IN_FLIGHT_MAX).map(|command| parsed(&command).0).collect();
    assert_eq!(verbs, ["unregister".into()].into());
}

#[test]
fn a_neighbour_that_is_away_confirms_nothing_and_is_sent_no_withdrawals_later() {
    let (mut registrations, mut random) = registrations(RegistrationScope::Localhost);
    known(&mut registrations);
    let name = |at: usize| format!("/lab/{at}").parse::<Name>().unwrap();
    (0..=COMMON_AT).for_each(|at| registrations.add(Time::ZERO, &name(at)));
    while let Some(command) = registrations.poll(Time::ZERO, &mut random, |_| true) {
        registrations.handle_packet(Time::ZERO, &answer(&command, 200, "OK"));
    }
    while registrations.poll_outcome().is_some() {}
    registrations.on_face_down(FaceId(3));
    registrations.add(Time::ZERO, &name(1_000));
    assert_eq!(registrations.poll_outcome(), None);
    for at in 0..10_000 {
        let other: Name = format!("/{at}").parse().unwrap();
        registrations.add(Time::ZERO, &other);
        registrations.remove(Time::ZERO, &other);
    }
    let neighbour = &registrations.neighbours[&FaceId(3)];
    assert!(neighbour.registered.len() == 1 && neighbour.queue.len() <= IN_FLIGHT_MAX + 2);
}

#[test]
fn a_prefix_is_asked_for_again_until_the_neighbour_answers_and_renewed_elsewhere() {
    for (scope, renewed) in [(RegistrationScope::Localhost, false), (RegistrationScope::Localhop, true)] {
        let (mut registrations, mut random) = registrations(scope);
        let name: Name = "/lab/file".parse().unwrap();
        registrations.add(Time::from_millis(5), &name);
        assert!(registrations.poll(Time::from_millis(5), &mut random, |_| false).is_none(), "it is away");
        registrations.on_face_up(Time::from_millis(6), FaceId(3));
        let first = registrations.poll(Time::from_millis(6), &mut random, |_| true).unwrap();
        assert!(registrations.poll(Time::from_millis(1_005), &mut random, |_| true).is_none());
        let second = registrations.poll(Time::from_millis(1_006), &mut random, |_| true).unwrap();
        let at = Time::from_millis(1_100);
        assert_eq!(outcome(&mut registrations, at, &answer(&first, 200, "OK")), None, "it was replaced");
        let confirmed = outcome(&mut registrations, at, &answer(&second, 200, "OK"));
        assert_eq!(confirmed, Some(Registered::Confirmed(name.clone())));
        let due = registrations.neighbours[&FaceId(3)].timers.first().map(|(due, _)| *due);
        assert_eq!(due, renewed.then_some(at + RENEWAL));
        registrations.remove(at, &name);
        let is_withdrawal = |command: &Command| {
            let interest = Interest::decode(&command.interest).unwrap();
            interest.name.components().nth(3).is_some_and(|verb| verb.value == b"unregister")
        };
        let first = registrations.poll(at, &mut random, |_| true).unwrap();
        let again = registrations.poll(at + PATIENCE, &mut random, |_| true).unwrap();
        assert!([&first, &again].into_iter().all(is_withdrawal), "it is asked until it answers");
        assert_eq!(outcome(&mut registrations, at + PATIENCE, &answer(&again, 200, "OK")), None);
        assert_eq!(registrations.poll_timeout(), None);
        // A neighbour that never answers is dropped.
        registrations.on_face_up(at, FaceId(3));
        registrations.add(at, &name);
        registrations.remove(at, &name);
        let requested = (0..120)
            .filter(|second| registrations.poll(at + Duration::from_secs(*second), &mut random, |_| true).is_some());
        assert_eq!(requested.count() as u32, WITHDRAWALS_MAX);
        assert_eq!(registrations.poll_timeout(), None);
    }
}

#[test]
fn who_starts_anew_is_asked_again_and_who_knows_no_questions_is_asked_seldom() {
    let (mut registrations, mut random) = registrations(RegistrationScope::Localhost);
    let name: Name = "/lab/file".parse().unwrap();
    let face = FaceId(3);
    let mut ask = |of: &mut Registrations, at: u64| of.poll_boot_probe(Time::from_millis(at), &mut random, |_| true);
    assert_eq!(ask(&mut registrations, 0), None, "nothing is registered there");
    registrations.add(Time::ZERO, &name);
    let (_, first) = ask(&mut registrations, 0).unwrap();
    let mut random = Random::new(2, 2);
    let command = registrations.poll(Time::ZERO, &mut random, |_| true).unwrap();
    registrations.handle_packet(Time::from_millis(10), &answer(&command, 200, "OK"));
    registrations.on_boot(Time::ZERO, face, first, 77);
    let mut ask = |of: &mut Registrations, at: u64| of.poll_boot_probe(Time::from_millis(at), &mut random, |_| true);
    assert_eq!(ask(&mut registrations, 999), None);
    let (_, second) = ask(&mut registrations, 1_000).unwrap();
    registrations.on_boot(Time::ZERO, face, second, 77);
    registrations.on_boot(Time::ZERO, face, first, 78);
    assert_eq!(registrations.poll_timeout(), Some(Time::from_millis(2_000)), "an old answer says nothing");
    let (_, third) = ask(&mut registrations, 2_000).unwrap();
    registrations.on_boot(Time::ZERO, face, third, 78);
    assert!(registrations.poll(Time::from_millis(2_010), &mut random, |_| true).is_some(), "it has started anew");

    let (mut registrations, mut random) = self::registrations(RegistrationScope::Localhost);
    registrations.add(Time::ZERO, &name);
    let mut requested = 0;
    for at in 0..100 {
        requested +=
            usize::from(registrations.poll_boot_probe(Time::from_millis(at * 1_000), &mut random, |_| true).is_some());
    }
    assert_eq!(requested, 4 + 4);
}

#[test]
fn a_refusal_is_told_with_its_reason() {
    let (mut registrations, mut random) = registrations(RegistrationScope::Localhop);
    let name: Name = "/lab/file".parse().unwrap();
    registrations.add(Time::ZERO, &name);
    let command = registrations.poll(Time::ZERO, &mut random, |_| true).unwrap();
    assert_eq!(command.headers().next_hop_face, Some(3));
    let refused = outcome(&mut registrations, Time::ZERO, &answer(&command, 403, "not you"));
    assert_eq!(refused, Some(Registered::Refused(name, "not you".into())));
}

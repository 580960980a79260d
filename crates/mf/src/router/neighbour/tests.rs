use super::*;

const RHYTHM: Rhythm = Rhythm {
    hello: Duration::from_millis(200),
    idle: Duration::from_secs(10),
    search: Duration::from_millis(25),
    search_max: Duration::from_secs(10),
    follows: false,
};

fn neighbour(number: u8) -> Neighbour {
    let identity = Identity {
        key: SigningKey::from_secret(&[number; 32]),
        label: String::new(),
        roles: Roles::ROUTER,
        address: NetworkAddress(u32::from(number)),
        boot: u64::from(number),
        nonce_secret: [number; 32],
    };
    Neighbour::new(identity, RHYTHM, 1_000)
}
fn on_hello(to: &mut Neighbour, now: Time, packet: &[u8]) {
    match Hello::decode(packet) {
        Ok(hello) => _ = to.handle_hello(now, FaceId(1), hello),
        Err(_) => {
            let message = MtuMessage::decode(packet).expect("it was made here");
            let _ = to.handle_mtu(now, FaceId(1), message);
        }
    }
}

#[test]
fn a_neighbour_whose_answers_wait_in_a_queue_is_not_asked_at_every_packet() {
    let (mut a, mut b) = (neighbour(1), neighbour(2));
    a.add_face(Time::ZERO, FaceId(1), 1_472);
    b.add_face(Time::ZERO, FaceId(1), 1_472);
    let mut hellos = 0;
    for step in 0..20_000u64 {
        let now = Time::ZERO + Duration::from_micros(200) * step as u32;
        if step > 10_000 {
            a.on_unanswered(now, FaceId(1));
            a.on_received(FaceId(1));
        }
        for (_, packet) in core::iter::from_fn(|| a.poll_packet()).collect::<Vec<_>>() {
            hellos += u32::from(step > 10_000);
            on_hello(&mut b, now, &packet);
        }
        for (_, packet) in core::iter::from_fn(|| b.poll_packet()).collect::<Vec<_>>() {
            on_hello(&mut a, now, &packet);
        }
        a.handle_timeout(now);
        b.handle_timeout(now);
    }
    assert!((10..=100).contains(&hellos), "{hellos} in two seconds");
}

#[test]
fn a_neighbour_that_starts_anew_does_not_make_the_link_look_lossy() {
    let (mut a, mut b) = (neighbour(1), neighbour(2));
    let mut now = Time::from_millis(1_000);
    a.add_face(now, FaceId(1), 1_472);
    b.add_face(now, FaceId(1), 1_472);
    for step in 0..8_000u64 {
        if step == 5_000 {
            b = neighbour(2);
            b.identity.boot += 1;
            b.add_face(now, FaceId(1), 1_472);
        }
        let stated: Vec<_> = core::iter::from_fn(|| a.poll_packet()).collect();
        let answered: Vec<_> = core::iter::from_fn(|| b.poll_packet()).collect();
        now += Duration::from_millis(5);
        stated.iter().for_each(|(_, packet)| on_hello(&mut b, now, packet));
        answered.iter().for_each(|(_, packet)| on_hello(&mut a, now, packet));
        a.handle_timeout(now);
        b.handle_timeout(now);
        if step > 1_000 {
            let (short, long) = a.cost(FaceId(1));
            assert!(short < long + long / 10, "SETT {short}, LETT {long} us after {step} steps");
        }
    }
}

#[test]
fn a_hello_of_another_face_that_somebody_repeats_silences_nobody() {
    let (mut a, mut b) = (neighbour(1), neighbour(2));
    let mut now = Time::from_millis(1_000);
    // The second face has no neighbour, and sends more hellos.
    a.add_face(now, FaceId(1), 1_472);
    a.add_face(now, FaceId(2), 1_472);
    b.add_face(now, FaceId(1), 1_472);
    for step in 0..1_000u64 {
        while let Some((face, packet)) = a.poll_packet() {
            if face == FaceId(1) || step == 600 {
                on_hello(&mut b, now, &packet);
            }
        }
        while let Some((_, packet)) = b.poll_packet() {
            on_hello(&mut a, now, &packet);
        }
        now += Duration::from_millis(5);
        a.handle_timeout(now);
        b.handle_timeout(now);
    }
    let stated: Vec<Change> = core::iter::from_fn(|| b.changes.pop_front()).collect();
    assert!(matches!(stated[..], [Change::Up(..)]), "{stated:?}");
}

#[test]
fn a_damaged_number_of_a_hello_silences_nobody() {
    let (mut a, mut b) = (neighbour(1), neighbour(2));
    let mut now = Time::from_millis(1_000);
    a.add_face(now, FaceId(1), 1_472);
    b.add_face(now, FaceId(1), 1_472);
    for step in 0..2_000u64 {
        let stated: Vec<_> = core::iter::from_fn(|| b.poll_packet()).collect();
        core::iter::from_fn(|| a.poll_packet()).for_each(|(_, packet)| on_hello(&mut b, now, &packet));
        for (_, packet) in stated {
            match Hello::decode(&packet) {
                // Before anybody is proven, and later.
                Ok(mut hello) if step < 2 || (600..650).contains(&step) => {
                    hello.sequence |= 1 << 30;
                    let _ = a.handle_hello(now, FaceId(1), hello);
                }
                _ => on_hello(&mut a, now, &packet),
            }
        }
        now += Duration::from_millis(5);
        a.handle_timeout(now);
        b.handle_timeout(now);
    }
    let stated: Vec<Change> = core::iter::from_fn(|| a.changes.pop_front()).collect();
    assert!(matches!(stated[..], [Change::Up(..)]), "{stated:?}");
}

/// Two neighbours, and their delayed hellos.
struct Pair {
    now: Time,
    ends: [Neighbour; 2],
    held: [Vec<Vec<u8>>; 2],
}

impl Pair {
    fn new() -> Pair {
        let now = Time::from_millis(1_000);
        let mut ends = [neighbour(1), neighbour(2)];
        ends.iter_mut().for_each(|end| end.add_face(now, FaceId(1), 1_472));
        Pair { now, ends, held: [Vec::new(), Vec::new()] }
    }
    /// Runs for `ms`; hellos that do not arrive at once arrive at its end or not at all. Returns the number of hellos
    /// from both sides.
    fn run(&mut self, ms: u64, link: Weather) -> usize {
        let mut stated = 0;
        for _ in 0..ms / 5 {
            for end in 0..2 {
                let packets: Vec<_> = core::iter::from_fn(|| self.ends[end].poll_packet()).collect();
                stated += packets.len();
                self.held[end].extend(packets.into_iter().map(|(_, packet)| packet));
            }
            self.now += Duration::from_millis(5);
            match link {
                Weather::Clear => self.deliver(),
                Weather::Loses => self.held = [Vec::new(), Vec::new()],
                Weather::Holds => {}
            }
            self.ends.iter_mut().for_each(|end| end.handle_timeout(self.now));
        }
        stated
    }
    fn deliver(&mut self) {
        for end in 0..2 {
            let packets = core::mem::take(&mut self.held[end]);
            packets.iter().for_each(|packet| on_hello(&mut self.ends[1 - end], self.now, packet));
        }
    }
    fn changes(&mut self) -> Vec<Change> {
        core::iter::from_fn(|| self.ends[0].changes.pop_front()).collect()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Weather {
    Clear,
    Loses,
    Holds,
}

/// A hello of `claims`, with this nonce, signed by `signs`.
fn hello(claims: u8, signs: Option<u8>, nonce: u64, echo: u64) -> Hello {
    let Identity { key, label, roles, address, .. } = neighbour(claims).identity;
    let mut hello = Hello {
        roles,
        accepts: false,
        wants_answer: false,
        sequence: 1,
        probe: Probe::default(),
        nonce,
        echo,
        address,
        datagram_bytes: 1_472,
        window: 1_000,
        key: key.public(),
        label,
        signature: None,
    };
    signs.into_iter().for_each(|signs| hello.sign(&SigningKey::from_secret(&[signs; 32])));
    hello
}

#[test]
fn nobody_is_met_who_does_not_prove_who_it_is() {
    let now = Time::from_millis(1_000);
    let mut a = neighbour(1);
    a.add_face(now, FaceId(1), 1_472);
    let ours = a.faces[&FaceId(1)].nonce;
    let mut taken = |hello: Hello| (a.handle_hello(now, FaceId(1), hello), a.changes.pop_front().is_some());
    assert_eq!(taken(hello(2, Some(2), 9, 77)), (Ok(()), false), "it answers somebody else");
    let at = |sequence, hello: Hello| Hello { sequence, ..hello };
    assert_eq!(taken(at(2, hello(2, None, 9, ours))), (Ok(()), false), "the proof is still to come");
    assert_eq!(taken(at(3, hello(2, Some(3), 9, ours))), (Err("forged"), false));
    let of_another_life = Hello { nonce: 9, ..hello(2, Some(2), 8, ours) };
    assert_eq!(taken(at(4, of_another_life)), (Err("forged"), false));
    assert_eq!(taken(at(5, hello(2, Some(2), 9, ours))), (Ok(()), true));
}

#[test]
fn who_claims_the_place_of_a_neighbour_that_answers_has_to_prove_who_it_is() {
    let mut pair = Pair::new();
    pair.run(2_000, Weather::Clear);
    assert!(matches!(pair.changes()[..], [Change::Up(..)]));
    let guid = pair.ends[0].peer(FaceId(1)).expect("it is there").guid;
    let ours = pair.ends[0].faces[&FaceId(1)].nonce;
    for claims in [2, 3] {
        // It knows no nonce, has heard an earlier run's, knows it without a key, or without the key that it claims.
        for (signs, echo) in [(None, 0), (Some(claims), 77), (None, ours), (Some(9), ours)] {
            let now = pair.now;
            let refused = pair.ends[0].handle_hello(now, FaceId(1), hello(claims, signs, 50, echo));
            assert_eq!(refused, Err("hello of another start, not proven yet"), "{claims} {signs:?} {echo}");
            pair.run(100, Weather::Clear);
            assert_eq!(pair.changes(), []);
        }
    }
    assert_eq!(pair.ends[0].peer(FaceId(1)).map(|peer| peer.guid), Some(guid));
    let now = pair.now;
    assert_eq!(pair.ends[0].handle_hello(now, FaceId(1), hello(3, Some(3), 50, ours)), Ok(()));
    let stated = pair.changes();
    assert!(matches!(&stated[..], [Change::Down(..), Change::Up(_, peer)] if peer.guid != guid), "{stated:?}");
}

#[test]
fn an_address_that_has_proven_nothing_gets_one_short_answer_to_a_hello_and_nothing_else() {
    let mut now = Time::from_millis(1_000);
    let mut a = neighbour(1);
    a.add_unsolicited(now, FaceId(1), 1_472);
    let mut run = |a: &mut Neighbour, came: &[Hello]| {
        let (mut bytes_in, mut answers) = (0, Vec::new());
        for step in 0..200 {
            now += Duration::from_millis(50);
            if let Some(hello) = came.get(step) {
                let mut bytes = Vec::new();
                hello.encode(&mut bytes);
                bytes_in += bytes.len();
                let _ = a.handle_hello(now, FaceId(1), hello.clone());
            }
            a.handle_timeout(now);
            answers.extend(core::iter::from_fn(|| a.poll_packet()).map(|(_, packet)| packet));
        }
        (bytes_in, answers)
    };
    assert_eq!(run(&mut a, &[]).1.len(), 0, "nobody is greeted who has said no hello");
    let forged: Vec<Hello> = (1..=50).map(|at| Hello { sequence: at, ..hello(2, Some(2), 9, u64::from(at)) }).collect();
    let (came, answers) = run(&mut a, &forged);
    assert!(answers.len() <= 50, "{} answers", answers.len());
    assert!(answers.iter().map(Vec::len).sum::<usize>() <= came, "no more than came");
    let unsigned = |packet: &Vec<u8>| Hello::decode(packet).is_ok_and(|hello| hello.signature.is_none());
    assert!(answers.iter().all(unsigned), "no signature is made for who may have forged its address");
    assert!(a.peer(FaceId(1)).is_none() && a.awaits_proof(FaceId(1)));
    assert_eq!(a.signatures(), (0, 0));
    // Nonces from another face prove nothing here.
    a.add_face(now, FaceId(2), 1_472);
    let learnt = a.faces[&FaceId(2)].nonce;
    let _ = a.handle_hello(now, FaceId(1), Hello { sequence: 99, ..hello(2, Some(2), 9, learnt) });
    assert!(a.peer(FaceId(1)).is_none());
    let ours = a.faces[&FaceId(1)].nonce;
    assert_eq!(a.handle_hello(now, FaceId(1), Hello { sequence: 100, ..hello(2, Some(2), 9, ours) }), Ok(()));
    assert!(a.peer(FaceId(1)).is_some());
}

#[test]
fn hellos_of_earlier_starts_are_replayed_in_vain() {
    let mut pair = Pair::new();
    let mut recorded = Vec::new();
    for start in 0..3 {
        for _ in 0..400 {
            let sent_probe: Vec<_> =
                core::iter::from_fn(|| pair.ends[1].poll_packet()).map(|(_, packet)| packet).collect();
            recorded.extend(sent_probe.iter().cloned());
            pair.held[1].extend(sent_probe);
            pair.run(5, Weather::Clear);
        }
        assert!(pair.ends[0].peer(FaceId(1)).is_some());
        pair.changes();
        if start < 2 {
            pair.ends[1] = neighbour(2);
            pair.ends[1].identity.boot = 100 + start;
            pair.ends[1].add_face(pair.now, FaceId(1), 1_472);
        }
    }
    for replayed in &recorded {
        let now = pair.now;
        on_hello(&mut pair.ends[0], now, replayed);
    }
    pair.run(2_000, Weather::Clear);
    assert_eq!(pair.changes(), []);
    // Nor do they bring back a neighbour that is gone.
    pair.run(2_000, Weather::Loses);
    assert!(matches!(pair.changes()[..], [Change::Down(..)]));
    for replayed in &recorded {
        let now = pair.now;
        on_hello(&mut pair.ends[0], now, replayed);
    }
    assert_eq!(pair.changes(), []);
}

#[test]
fn a_neighbour_that_starts_anew_on_a_slow_link_is_answered_at_once() {
    let mut pair = Pair::new();
    pair.run(2_000, Weather::Clear);
    pair.ends[0].faces.entry(FaceId(1)).and_modify(|face| face.rtt = Some(Duration::from_secs(1)));
    pair.run(400_000, Weather::Loses);
    // It has just searched, and does so again in half a second.
    while pair.now.since(pair.ends[0].faces[&FaceId(1)].sent_at) > Duration::from_millis(5) {
        pair.run(5, Weather::Loses);
    }
    pair.changes();
    pair.ends[1] = neighbour(2);
    pair.ends[1].identity.boot = 3;
    pair.ends[1].add_face(pair.now, FaceId(1), 1_472);
    pair.run(50, Weather::Clear);
    assert!(matches!(pair.changes()[..], [Change::Up(..)]));
}

#[test]
fn searches_are_few_where_the_link_brings_later_what_it_does_not_bring_at_once() {
    let searches = |link: Weather| {
        let mut pair = Pair::new();
        pair.run(2_000, Weather::Clear);
        let first = pair.run(6_000, link);
        pair.run(2_000, Weather::Clear);
        let again = pair.run(6_000, link);
        pair.run(500, Weather::Clear);
        assert!(pair.ends[0].peer(FaceId(1)).is_some());
        (first, again)
    };
    let (first, again) = searches(Weather::Holds);
    assert!((300..500).contains(&first) && again < 80, "held back: {first} and {again}");
    let (first, again) = searches(Weather::Loses);
    assert!((300..500).contains(&first) && again > 300, "lost: {first} and {again}");
}

#[test]
fn what_only_the_neighbour_can_have_sent_brings_it_back() {
    let mut pair = Pair::new();
    pair.run(2_000, Weather::Clear);
    assert!(matches!(pair.changes()[..], [Change::Up(..)]));
    assert!(!pair.ends[0].awaits_hello(pair.now, FaceId(1)), "hellos come");
    pair.run(1_500, Weather::Loses);
    assert!(matches!(pair.changes()[..], [Change::Down(..)]));
    pair.ends[0].on_received(FaceId(1));
    assert!(pair.ends[0].peer(FaceId(1)).is_none(), "anything that came might be a stranger's");
    assert!(pair.ends[0].awaits_hello(pair.now, FaceId(1)));
    pair.ends[0].on_expected(pair.now, FaceId(1));
    assert!(matches!(pair.changes()[..], [Change::Up(..)]));
    pair.run(1_500, Weather::Loses);
    assert!(matches!(pair.changes()[..], [Change::Down(..)]), "silent again");
}

#[test]
fn hellos_become_rare_while_nothing_is_carried_and_a_neighbour_that_is_gone_then_is_missed_soon() {
    let mut pair = Pair::new();
    pair.ends[0].identity.roles = Roles::HOST;
    pair.run(60_000, Weather::Clear);
    assert!(pair.run(60_000, Weather::Clear) <= 14, "one in ten seconds at each end");
    pair.changes();
    // Traffic restores the interval at once, at the end that sees it.
    pair.ends.iter_mut().for_each(|end| end.on_carried(FaceId(1), 10_000));
    assert!(pair.run(2_000, Weather::Clear) >= 18);
    pair.run(90_000, Weather::Clear);
    assert_eq!(pair.changes(), [], "nobody is taken for gone");
    pair.run(21_000, Weather::Loses);
    assert!(matches!(pair.changes()[..], [Change::Down(..)]), "it is asked when its hello is late");
}

#[test]
fn a_host_searches_for_a_lost_router_less_and_less_often_and_finds_it_within_a_part_of_its_absence() {
    for absence in [1, 4, 30, 300, 3_000] {
        let mut pair = Pair::new();
        pair.ends[0].identity.roles = Roles::HOST;
        pair.run(2_000, Weather::Clear);
        // The router has died: it is silent.
        let mut said = Vec::new();
        let (begin, end) = (pair.now, pair.now + Duration::from_secs(absence));
        while pair.now < end {
            pair.now += Duration::from_millis(5);
            pair.ends[0].handle_timeout(pair.now);
            said.extend(core::iter::from_fn(|| pair.ends[0].poll_packet()).map(|_| pair.now));
        }
        let in_last = |seconds| said.iter().filter(|at| end.since(**at) <= Duration::from_secs(seconds)).count();
        assert!(absence < 30 || in_last(5) <= 8, "{} hellos in the last 5 s of {absence}", in_last(5));
        let gaps = said.windows(2).map(|pair| pair[1].since(pair[0])).max().expect("it searches");
        let most = Duration::from_millis(400).max((end.since(begin) / 24).min(Duration::from_millis(12_600)));
        assert!(gaps <= most, "{gaps:?} between two hellos in {absence} s");
    }
}

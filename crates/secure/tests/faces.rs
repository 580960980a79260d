//! Nodes behind the layer, joined by links that lose, delay, change and repeat.
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use tributary_core::{
    Datagram, Duration, FaceChange, FaceId, FaceProtection, FaceRequest, Node, PeerKey, Random, Time, TimerId,
    Transmit, TransmitBuf, event::Event,
};
use tributary_secure::{Admission, Config, HELD_FOR, OVERHEAD, Peer, Protection, Refusal, Secured, public_key};

/// A node that sends the test's packets and keeps received ones.
#[derive(Default)]
struct Toy {
    sending: VecDeque<(FaceId, Vec<Vec<u8>>)>,
    got: Vec<(FaceId, Vec<u8>)>,
    marked: usize,
}

impl Node for Toy {
    fn handle_datagram(&mut self, _: Time, face: FaceId, datagram: Datagram) {
        self.marked += usize::from(datagram.is_marked());
        self.got.push((face, datagram.to_vec()));
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, _: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        let (face, packets) = self.sending.pop_front()?;
        for packet in packets {
            let (head, body) = packet.split_at(packet.len().min(7));
            out.push(head, Bytes::copy_from_slice(body));
        }
        Some(Transmit { face })
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        None
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}

/// Admits nodes that present the right word, and notes their keys.
struct Word(&'static [u8]);

impl Admission for Word {
    fn admit(&mut self, _: Time, _: FaceId, key: &[u8; 32], presented: &[u8]) -> Result<Peer, Refusal> {
        match presented == self.0 {
            true => Ok(Peer { key: PeerKey(*key), label: String::from_utf8_lossy(presented).into() }),
            false => Err("it does not know the word".into()),
        }
    }
}

fn config(number: u8) -> Config {
    Config {
        secret: [number; 32],
        presented: b"word".to_vec(),
        protection: Protection::Encrypted,
        policy: FaceProtection::Required,
    }
}
fn node(config: Config, seed: u64) -> Secured<Toy> {
    let mut random = Random::new(seed, 9);
    let entropy = move |bytes: &mut [u8]| bytes.iter_mut().for_each(|byte| *byte = random.bits() as u8);
    Secured::new(Toy::default(), config, Box::new(Word(b"word")), Box::new(entropy))
}

type Packet = Vec<u8>;
type Tamper = Box<dyn FnMut(&mut Random, Packet) -> Vec<Packet>>;

/// Two nodes, `a` with face 1 and `b` with face 2, and the link between them.
struct Pair {
    nodes: [Secured<Toy>; 2],
    faces: [FaceId; 2],
    now: Time,
    under_way: BTreeMap<(Time, u64), (usize, Packet)>,
    sent: u64,
    delay: Duration,
    random: Random,
    /// What the link makes of a packet.
    tamper: Tamper,
    /// All sent packets with their senders.
    seen: Vec<(usize, Packet)>,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Pair {
    fn new(a: Config, b: Config) -> Pair {
        Pair {
            nodes: [node(a, 1), node(b, 2)],
            faces: [FaceId(1), FaceId(2)],
            now: Time::ZERO,
            under_way: BTreeMap::new(),
            sent: 0,
            delay: Duration::from_millis(10),
            random: Random::new(7, 7),
            tamper: Box::new(|_, packet| vec![packet]),
            seen: Vec::new(),
            notes: Arc::default(),
        }
    }
    fn usual() -> Pair {
        Pair::new(config(1), config(2))
    }
    fn say(&mut self, from: usize, packets: &[&[u8]]) {
        let face = self.faces[from];
        let packets = packets.iter().map(|packet| packet.to_vec()).collect();
        self.nodes[from].node_mut().sending.push_back((face, packets));
    }
    fn heard(&mut self, by: usize) -> Vec<String> {
        let got = std::mem::take(&mut self.nodes[by].node_mut().got);
        got.into_iter().map(|(_, packet)| String::from_utf8_lossy(&packet).into()).collect()
    }
    fn pump(&mut self, number: usize) {
        if self.nodes[number].poll_timeout().is_some_and(|(due, _)| due <= self.now) {
            self.nodes[number].handle_timeout(self.now);
        }
        let mut batch = TransmitBuf::new();
        while self.nodes[number].poll_transmit(self.now, &mut batch).is_some() {
            for datagram in batch.drain().collect::<Vec<_>>() {
                let packet = datagram.to_vec();
                self.seen.push((number, packet.clone()));
                for packet in (self.tamper)(&mut self.random, packet) {
                    self.sent += 1;
                    self.under_way.insert((self.now + self.delay, self.sent), (1 - number, packet));
                }
            }
        }
        while let Some(event) = self.nodes[number].poll_event() {
            if let Event::Note(note) = event {
                self.notes.lock().expect("one thread").push(note);
            }
        }
    }
    fn deliver(&mut self, to: usize, packet: &[u8]) {
        self.nodes[to].handle_datagram(self.now, self.faces[to], Datagram::from(packet));
    }
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.pump(0);
            self.pump(1);
            let arrival = self.under_way.first_key_value().map(|((at, _), _)| *at);
            let timers = self.nodes.iter().filter_map(|node| node.poll_timeout()).map(|(due, _)| due);
            let Some(next) = arrival.into_iter().chain(timers).min().filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            while let Some(first) = self.under_way.first_entry().filter(|first| first.key().0 <= self.now) {
                let (to, packet) = first.remove();
                self.deliver(to, &packet);
            }
        }
        self.now = end;
    }
    fn run_ms(&mut self, ms: u64) {
        self.run(Duration::from_millis(ms));
    }
    fn assert_noted(&self, part: &str) {
        let notes = self.notes.lock().expect("one thread");
        assert!(notes.iter().any(|note| note.contains(part)), "{part} is not in {notes:#?}");
    }
}

#[test]
fn packets_that_waited_for_the_handshake_arrive_and_so_do_later_ones_both_ways() {
    let mut pair = Pair::usual();
    pair.say(0, &[b"one", b"two"]);
    // Initiation, cookie, initiation, response, then finish and data: five one-way delays.
    pair.run_ms(49);
    assert!(pair.heard(1).is_empty());
    pair.run_ms(2);
    assert_eq!(pair.heard(1), ["one", "two"]);
    pair.say(1, &[b"three"]);
    pair.say(0, &[b"four"]);
    pair.run_ms(10);
    assert_eq!((pair.heard(0), pair.heard(1)), (vec!["three".into()], vec!["four".into()]));
    let peer = pair.nodes[0].peer(FaceId(1)).expect("it is known");
    assert_eq!((peer.key, &*peer.label), (PeerKey(public_key(&[2; 32])), "word"));
    assert_eq!(pair.nodes[1].peer(FaceId(2)).map(|peer| peer.key), Some(PeerKey(public_key(&[1; 32]))));
    for (_, packet) in &pair.seen {
        assert!(!packet.windows(3).any(|window| window == b"one" || window == b"fou"), "nothing can be read");
    }
}

#[test]
fn runs_stay_runs_and_overhead_is_what_is_said() {
    let mut pair = Pair::usual();
    pair.say(0, &[b"hello"]);
    pair.run_ms(100);
    pair.heard(1);
    pair.seen.clear();
    let packets: Vec<Vec<u8>> = (0..20u8).map(|number| vec![number; if number == 19 { 40 } else { 1_000 }]).collect();
    pair.say(0, &packets.iter().map(Vec::as_slice).collect::<Vec<_>>());
    pair.pump(0);
    let sealed: Vec<Vec<u8>> = pair.seen.drain(..).map(|(_, packet)| packet).collect();
    assert!(sealed.iter().zip(&packets).all(|(sealed, packet)| sealed.len() == packet.len() + OVERHEAD as usize));
    let run = tributary_core::DatagramBatch::new(sealed.concat().into(), 1_000 + OVERHEAD as usize);
    pair.nodes[1].handle_batch(pair.now, FaceId(2), run);
    let got: Vec<Vec<u8>> = pair.nodes[1].node_mut().got.drain(..).map(|(_, packet)| packet).collect();
    assert_eq!(got, packets);
}

#[test]
fn a_handshake_outlasts_a_link_that_loses_reorders_and_repeats() {
    for seed in 0..200 {
        let mut pair = Pair::usual();
        pair.random = Random::new(seed, 1);
        pair.tamper = Box::new(|random, packet| match random.below(10) {
            0..4 => vec![],
            4 => vec![packet.clone(), packet],
            _ => vec![packet],
        });
        if seed % 2 == 0 {
            pair.say(1, &[b"both begin"]);
        }
        let mut heard = 0;
        for second in 0..200 {
            pair.say(0, &[format!("{second}").as_bytes()]);
            pair.run_ms(500);
            heard = pair.heard(1).len();
            if second > 5 && heard > 0 {
                break;
            }
        }
        assert!(heard > 0, "seed {seed}");
        pair.tamper = Box::new(|_, packet| vec![packet]);
        pair.run_ms(20_000);
        pair.heard(0);
        pair.heard(1);
        for _ in 0..20 {
            pair.say(0, &[b"to"]);
            pair.say(1, &[b"fro"]);
            pair.run_ms(50);
        }
        assert_eq!((pair.heard(0).len(), pair.heard(1).len()), (20, 20), "seed {seed}: nothing is lost any more");
    }
}

#[test]
fn changed_packets_neither_arrive_nor_disturb() {
    for seed in 0..100 {
        let mut pair = Pair::usual();
        pair.random = Random::new(seed, 2);
        // Each packet arrives with two changed copies, one of them first.
        pair.tamper = Box::new(|random, packet| {
            let mut changed = || {
                let mut changed = packet.clone();
                let at = random.below(packet.len() as u64) as usize;
                changed[at] ^= 1 << random.below(8);
                if random.chance(0.1) {
                    changed.truncate(at);
                }
                changed
            };
            vec![changed(), packet.clone(), changed()]
        });
        for number in 0..10 {
            pair.say(0, &[format!("a{number}").as_bytes()]);
            pair.say(1, &[format!("b{number}").as_bytes()]);
            pair.run_ms(300);
        }
        for (by, who) in [(1, "a"), (0, "b")] {
            let mut heard = pair.heard(by);
            heard.sort();
            let all: Vec<String> = (0..10).map(|number| format!("{who}{number}")).collect();
            // The first may be lost with a message of the handshake.
            assert!(heard == all || heard == all[1..] || heard == all[2..], "seed {seed}: {heard:?}");
        }
    }
}

#[test]
fn what_was_recorded_is_not_heard_again() {
    let mut pair = Pair::usual();
    for number in 0..5 {
        pair.say(0, &[format!("{number}").as_bytes()]);
        pair.say(1, &[format!("{number}").as_bytes()]);
        pair.run_ms(100);
    }
    assert_eq!((pair.heard(0).len(), pair.heard(1).len()), (5, 5));
    let recorded = pair.seen.clone();
    let established = [pair.nodes[0].stats().established, pair.nodes[1].stats().established];
    for (from, packet) in recorded {
        pair.deliver(1 - from, &packet);
        // Also to its origin.
        pair.deliver(from, &packet);
        pair.run_ms(50);
    }
    assert!(pair.heard(0).is_empty() && pair.heard(1).is_empty());
    assert_eq!([pair.nodes[0].stats().established, pair.nodes[1].stats().established], established);
    pair.say(0, &[b"still"]);
    pair.say(1, &[b"here"]);
    pair.run_ms(10);
    assert_eq!((pair.heard(0), pair.heard(1)), (vec!["here".into()], vec!["still".into()]));
}

#[test]
fn an_unproven_address_gets_no_more_bytes_than_it_sent_and_no_state() {
    let mut pair = Pair::usual();
    pair.say(0, &[b"hello"]);
    pair.run_ms(200);
    // Every kind of packet that neighbours exchange, from faces that have proven nothing, and each with any length.
    let mut packets: Vec<Packet> = pair.seen.iter().map(|(_, packet)| packet.clone()).collect();
    packets.extend((0..=255u8).map(|first| vec![first; 60]));
    let mut batch = TransmitBuf::new();
    let mut worst = 0.0f64;
    for (number, packet) in packets.iter().enumerate() {
        for length in (1..=packet.len()).step_by(3).chain([packet.len()]) {
            let face = FaceId(1_000 + (number * 1_000 + length) as u32);
            pair.nodes[1].handle_datagram(pair.now, face, Datagram::from(&packet[..length]));
            let mut bytes = 0;
            while pair.nodes[1].poll_transmit(pair.now, &mut batch).is_some() {
                bytes += batch.drain().map(|datagram| datagram.len()).sum::<usize>();
            }
            worst = worst.max(bytes as f64 / length as f64);
            assert!(pair.nodes[1].poll_timeout().is_none(), "nothing is repeated");
        }
    }
    assert!(worst <= 1.0, "{worst} bytes out per byte in");
    assert!(pair.nodes[1].node_mut().got.len() == 1, "the neighbour's hello, and nothing else");
}

#[test]
fn a_cookie_of_another_face_is_worth_nothing() {
    let mut pair = Pair::usual();
    pair.say(0, &[b"hello"]);
    pair.run_ms(200);
    let with_cookie =
        pair.seen.iter().filter(|(from, packet)| *from == 0 && packet[0] == 0xd0).nth(1).expect("sent again");
    let packet = Datagram::from(with_cookie.1.as_slice());
    pair.nodes[1].handle_datagram(pair.now, FaceId(77), packet);
    let mut batch = TransmitBuf::new();
    assert_eq!(pair.nodes[1].poll_transmit(pair.now, &mut batch), Some(Transmit { face: FaceId(77) }));
    let answer = batch.drain().next().expect("one").to_vec();
    assert_eq!(answer[0], 0xd1, "a cookie, and no handshake");
}

#[test]
fn who_presents_nothing_good_is_refused_hears_why_and_reaches_nothing() {
    let mut pair = Pair::new(Config { presented: b"guess".to_vec(), ..config(1) }, config(2));
    for _ in 0..20 {
        pair.say(0, &[b"let me in"]);
        pair.run_ms(1_000);
    }
    assert!(pair.heard(1).is_empty());
    pair.assert_noted("the neighbour on face-1 refuses this node: it does not know the word");
    pair.assert_noted("the neighbour on face-2 is refused: it does not know the word");
    assert_eq!(pair.nodes[0].stats().initiated, 1, "it is not asked again and again");
    // The other way round the stranger answers, and is refused too.
    let mut pair = Pair::new(config(1), Config { presented: b"guess".to_vec(), ..config(2) });
    pair.say(0, &[b"a secret"]);
    pair.run_ms(3_000);
    assert!(pair.heard(1).is_empty());
    pair.assert_noted("the neighbour on face-1 is refused");
    pair.assert_noted("the neighbour on face-2 refuses this node: it does not know the word");
}

#[test]
fn a_neighbour_that_is_dismissed_is_heard_no_more_hears_why_and_may_come_back_with_another_word() {
    let mut pair = Pair::usual();
    let known: Arc<Mutex<Vec<(FaceId, bool)>>> = Arc::default();
    let told = Arc::clone(&known);
    let [first, second] = pair.nodes;
    let second = second.on_peer(Box::new(move |node: &mut Toy, _, face, peer| {
        assert!(peer.is_none() || node.got.is_empty(), "who is there is known before its first packet");
        told.lock().expect("one thread").push((face, peer.is_some()));
    }));
    pair.nodes = [first, second];
    pair.say(0, &[b"one"]);
    pair.run_ms(100);
    assert_eq!(pair.heard(1), ["one"]);
    let now = pair.now;
    pair.nodes[1].dismiss(now, FaceId(2), "its time is over");
    pair.say(0, &[b"two"]);
    pair.run_ms(100);
    assert!(pair.heard(1).is_empty());
    pair.assert_noted("the neighbour on face-1 refuses this node: its time is over");
    assert_eq!(*known.lock().expect("one thread"), [(FaceId(2), true), (FaceId(2), false)]);
    assert!(pair.nodes[1].peer(FaceId(2)).is_none());
    // It does not ask again and again, but asks at once when it has something else to show.
    pair.say(0, &[b"three"]);
    pair.run_ms(1_000);
    assert!(pair.heard(1).is_empty());
    pair.nodes[0].present(b"word");
    pair.say(0, &[b"four"]);
    pair.run_ms(100);
    assert!(pair.heard(1).contains(&"four".to_string()));
}

#[test]
fn a_neighbour_that_was_started_again_is_heard_within_moments() {
    for (restarted, delay) in [(0, 10), (1, 10), (0, 150), (1, 150), (0, 300), (1, 300)] {
        let mut pair = Pair::usual();
        pair.delay = Duration::from_millis(delay);
        pair.say(0, &[b"hello"]);
        pair.run_ms(2_000);
        // Several times in a row, each soon after the last session began.
        for start in 0..4 {
            pair.nodes[restarted] = node(config(1 + restarted as u8), 99 + start);
            let handshake = 5 * delay.div_ceil(100);
            for round in 0..handshake + 10 {
                pair.say(0, &[b"to"]);
                pair.say(1, &[b"fro"]);
                pair.run_ms(100);
                if round == handshake {
                    pair.heard(0);
                    pair.heard(1);
                }
            }
            let (fro, to) = (pair.heard(0).len(), pair.heard(1).len());
            assert!(fro >= 7 && to >= 7, "start {start} of {restarted}, {delay} ms away: {fro} and {to} of 9");
        }
    }
}

#[test]
fn forged_words_of_an_unknown_session_change_nothing() {
    let mut pair = Pair::usual();
    pair.say(0, &[b"hello"]);
    pair.run_ms(1_000);
    let initiated = pair.nodes[0].stats().initiated;
    let index = pair.seen.iter().find(|(from, packet)| *from == 0 && packet[0] == 0xd4).expect("data").1[1..4].to_vec();
    for _ in 0..100 {
        let word = [&[0xd7], &index[..]].concat();
        pair.deliver(0, &word);
        pair.say(0, &[b"to"]);
        pair.run_ms(100);
    }
    assert_eq!(pair.heard(1).len(), 101, "nothing is lost");
    assert!(pair.nodes[0].stats().initiated - initiated <= 3, "one handshake each five seconds at most");
}

#[test]
fn keys_change_under_way_and_nothing_is_lost() {
    let mut pair = Pair::usual();
    for _ in 0..4_000 {
        pair.say(0, &[b"to"]);
        pair.say(1, &[b"fro"]);
        pair.run_ms(100);
    }
    assert_eq!((pair.heard(0).len(), pair.heard(1).len()), (4_000, 4_000));
    let established = pair.nodes[0].stats().established;
    assert!((4..=5).contains(&established), "400 s, new keys after 120 each: {established}");
}

#[test]
fn keys_end_three_minutes_after_the_last_handshake_if_later_ones_are_kept_away_and_both_ends_say_so() {
    for policy in [FaceProtection::Required, FaceProtection::Preferred] {
        let mut pair = Pair::usual();
        for (node, face) in pair.nodes.iter_mut().zip(pair.faces) {
            node.set_policy(face, policy);
        }
        pair.say(0, &[b"hello"]);
        pair.run_ms(1_000);
        pair.heard(1);
        pair.tamper = Box::new(|_, packet| if packet[0] < 0xd4 { vec![] } else { vec![packet] });
        let mut seconds = [0, 0];
        for second in 1..400 {
            pair.say(0, &[b"to"]);
            pair.say(1, &[b"fro"]);
            pair.run_ms(1_000);
            for (number, last) in seconds.iter_mut().enumerate() {
                *last = if pair.heard(number).is_empty() { *last } else { second };
            }
        }
        assert!(seconds.iter().all(|last| (170..=180).contains(last)), "{policy:?}: {seconds:?}");
        for face in ["face-1", "face-2"] {
            pair.assert_noted(&format!("the keys on {face} have ended, and every handshake for new ones has failed"));
        }
        pair.tamper = Box::new(|_, packet| vec![packet]);
        for _ in 0..10 {
            pair.say(0, &[b"again"]);
            pair.run_ms(1_000);
        }
        assert!(pair.heard(1).contains(&"again".to_string()), "{policy:?}");
    }
}

#[test]
fn both_may_begin_at_once() {
    let mut pair = Pair::usual();
    pair.say(0, &[b"to"]);
    pair.say(1, &[b"fro"]);
    pair.run_ms(100);
    assert_eq!((pair.heard(0), pair.heard(1)), (vec!["fro".into()], vec!["to".into()]));
    for _ in 0..50 {
        pair.say(0, &[b"to"]);
        pair.say(1, &[b"fro"]);
        pair.run_ms(20);
    }
    assert_eq!((pair.heard(0).len(), pair.heard(1).len()), (50, 50));
}

#[test]
fn the_stricter_wish_holds_and_what_is_only_authenticated_can_be_read_but_not_changed() {
    let weak = |number| Config { protection: Protection::Authenticated, ..config(number) };
    for (a, b, is_readable) in [(weak(1), config(2), false), (config(1), weak(2), false), (weak(1), weak(2), true)] {
        let mut pair = Pair::new(a, b);
        pair.say(0, &[b"can this be read?"]);
        pair.run_ms(200);
        assert_eq!(pair.heard(1), ["can this be read?"]);
        let seen = pair.seen.iter().any(|(_, packet)| packet.windows(17).any(|part| part == b"can this be read?"));
        assert_eq!(seen, is_readable);
        pair.tamper = Box::new(|_, mut packet| {
            packet[12] ^= 1;
            vec![packet]
        });
        pair.say(0, &[b"changed on the way"]);
        pair.run_ms(200);
        assert!(pair.heard(1).is_empty());
    }
}

#[test]
fn a_face_without_protection_passes_packets_and_one_that_requires_it_does_not() {
    let mut pair = Pair::new(Config { policy: FaceProtection::Off, ..config(1) }, config(2));
    pair.nodes[1].set_policy(FaceId(2), FaceProtection::Required);
    pair.say(0, &[b"plain"]);
    pair.run_ms(1_000);
    assert!(pair.heard(1).is_empty());
    assert_eq!(pair.nodes[1].stats().unprotected, 1);
    pair.assert_noted("is `security` the same at both ends?");
    pair.nodes[1].set_policy(FaceId(2), FaceProtection::Off);
    pair.say(0, &[b"plain"]);
    pair.say(1, &[b"too"]);
    pair.run_ms(100);
    assert_eq!((pair.heard(0), pair.heard(1)), (vec!["too".into()], vec!["plain".into()]));
}

#[test]
fn the_far_end_may_decide_and_a_session_is_never_undercut() {
    let optional = Config { policy: FaceProtection::Optional, ..config(2) };
    let mut pair = Pair::new(Config { policy: FaceProtection::Off, ..config(1) }, optional.clone());
    pair.say(0, &[b"plain"]);
    pair.say(1, &[b"plain too"]);
    pair.run_ms(100);
    assert_eq!((pair.heard(0), pair.heard(1)), (vec!["plain too".into()], vec!["plain".into()]));
    let mut pair = Pair::new(config(1), optional);
    pair.say(0, &[b"sealed"]);
    pair.run_ms(100);
    assert_eq!(pair.heard(1), ["sealed"]);
    pair.deliver(1, b"forged without a session");
    pair.run_ms(100);
    assert!(pair.heard(1).is_empty());
}

#[test]
fn a_neighbour_that_cannot_is_spoken_to_without_and_one_that_can_with_protection() {
    let preferred = Config { policy: FaceProtection::Preferred, ..config(1) };
    let mut pair = Pair::new(preferred.clone(), Config { policy: FaceProtection::Off, ..config(2) });
    for number in 0..200 {
        pair.say(0, &[format!("to {number}").as_bytes()]);
        pair.say(1, &[b"fro"]);
        pair.run_ms(100);
    }
    let heard = pair.heard(1);
    assert_eq!(pair.heard(0).len(), 200);
    assert_eq!(heard.iter().filter(|packet| packet.starts_with("to ")).count(), 200, "nothing waits");
    assert!(heard.len() <= 206, "it is asked a few times whether it can, and not again and again: {}", heard.len());
    let mut pair = Pair::new(preferred, Config { policy: FaceProtection::Optional, ..config(2) });
    for number in 0..20 {
        pair.say(0, &[format!("to {number}").as_bytes()]);
        pair.run_ms(20);
    }
    assert_eq!(pair.heard(1).len(), 20);
    pair.seen.clear();
    pair.say(0, &[b"to the end"]);
    pair.say(1, &[b"and back"]);
    pair.run_ms(20);
    assert_eq!((pair.heard(1), pair.heard(0)), (vec!["to the end".into()], vec!["and back".into()]));
    assert!(pair.seen.iter().all(|(_, packet)| packet[0] == 0xd4), "nothing is in the clear");
}

#[test]
fn a_neighbour_keeps_its_face_when_its_address_changes() {
    let mut pair = Pair::usual();
    pair.say(0, &[b"hello"]);
    pair.run_ms(1_000);
    pair.heard(1);
    // A NAT was started again: what `a` sends comes from another address, which is face 9 of `b`; its old one is dead.
    pair.faces[1] = FaceId(9);
    pair.say(0, &[b"from elsewhere"]);
    pair.run_ms(100);
    let got = std::mem::take(&mut pair.nodes[1].node_mut().got);
    assert_eq!(got, [(FaceId(2), b"from elsewhere".to_vec())], "it is the same neighbour");
    let request = pair.nodes[1].poll_face_request();
    assert_eq!(request, Some(FaceRequest::Move { face: FaceId(2), to: FaceId(9) }));
    assert_eq!(pair.nodes[1].stats().moves, 1);
}

#[test]
fn a_packet_from_another_address_alone_moves_nobody() {
    let mut pair = Pair::usual();
    pair.say(0, &[b"hello"]);
    pair.run_ms(1_000);
    // An attacker on the path forwards a packet from another address, and drops the answers.
    pair.say(0, &[b"caught"]);
    pair.pump(0);
    let (_, caught) = pair.seen.pop().expect("it is on its way");
    pair.under_way.clear();
    let before: usize = pair.seen.len();
    pair.nodes[1].handle_datagram(pair.now, FaceId(9), Datagram::from(caught.as_slice()));
    pair.pump(1);
    let asked: usize = pair.seen[before..].iter().map(|(_, packet)| packet.len()).sum();
    assert!(asked <= 2 * caught.len(), "{asked} bytes to an address that has proven nothing");
    pair.under_way.clear();
    pair.run_ms(5_000);
    assert_eq!(pair.nodes[1].poll_face_request(), None);
    assert_eq!(pair.nodes[1].stats().moves, 0);
}

/// Passes packets between another node, at its face 1, and face `face` of `b`, so often back and forth; gives how many of its
/// handshakes are answered.
fn exchange(pair: &mut Pair, other: &mut Secured<Toy>, face: FaceId, rounds: usize) -> usize {
    let mut batch = TransmitBuf::new();
    let mut answered = 0;
    for _ in 0..rounds {
        while other.poll_transmit(pair.now, &mut batch).is_some() {
            for datagram in batch.drain().collect::<Vec<_>>() {
                pair.nodes[1].handle_datagram(pair.now, face, Datagram::from(datagram.to_vec().as_slice()));
            }
        }
        while pair.nodes[1].poll_transmit(pair.now, &mut batch).is_some() {
            for datagram in batch.drain().collect::<Vec<_>>() {
                answered += usize::from(datagram.to_vec()[0] == 0xd2);
                other.handle_datagram(pair.now, FaceId(1), Datagram::from(datagram.to_vec().as_slice()));
            }
        }
    }
    answered
}
/// Strangers at these faces of `b` start handshakes and return their cookies; returns how many are answered.
fn flood(pair: &mut Pair, faces: impl Iterator<Item = FaceId>) -> usize {
    faces.enumerate().fold(0, |answered, (number, face)| {
        let mut stranger = node(config(3), number as u64 + 100);
        stranger.node_mut().sending.push_back((FaceId(1), vec![b"flood".to_vec()]));
        answered + exchange(pair, &mut stranger, face, 2)
    })
}

#[test]
fn a_session_in_use_gives_way_to_another_key_after_silence_only_and_then_for_good() {
    let mut pair = Pair::usual();
    let mut other = node(config(3), 3);
    let mut say = |pair: &mut Pair, packet: &[u8]| {
        other.node_mut().sending.push_back((FaceId(1), vec![packet.to_vec()]));
        exchange(pair, &mut other, FaceId(2), 3);
        pair.heard(1)
    };
    assert_eq!(say(&mut pair, b"before"), ["before"]);
    pair.say(0, &[b"hello"]);
    pair.run_ms(1_000);
    assert!(pair.heard(1).is_empty());
    pair.assert_noted("the neighbour on face-2 is refused: a session under another key is in use here");
    assert_eq!(say(&mut pair, b"still here"), ["still here"]);
    assert!(!pair.nodes[1].is_refused(FaceId(2)), "what was refused harms nobody");
    pair.run(HELD_FOR + Duration::from_secs(30));
    pair.say(0, &[b"hello"]);
    pair.run_ms(100);
    assert_eq!(pair.heard(1), ["hello"]);
    assert_eq!(pair.nodes[1].peer(FaceId(2)).map(|peer| peer.key), Some(PeerKey(public_key(&[1; 32]))));
    assert!(say(&mut pair, b"in its name").is_empty());
}

#[test]
fn handshakes_are_answered_at_a_rate_that_leaves_time_for_others() {
    let mut pair = Pair::usual();
    let answered = flood(&mut pair, (100..1_100).map(FaceId));
    assert_eq!((answered, pair.nodes[1].stats().postponed), (25, 975));
    pair.run_ms(100);
    pair.say(0, &[b"hello"]);
    pair.run_ms(100);
    assert_eq!(pair.heard(1), ["hello"], "a neighbour is heard a moment later");
}

#[test]
fn one_address_takes_its_own_share_of_handshakes_only() {
    let mut pair = Pair::usual();
    assert_eq!(flood(&mut pair, std::iter::repeat_n(FaceId(100), 1_000)), 8);
    pair.say(0, &[b"hello"]);
    pair.run_ms(100);
    assert_eq!(pair.heard(1), ["hello"]);
}

#[test]
fn strangers_do_not_take_the_share_of_configured_neighbours() {
    let mut pair = Pair::usual();
    pair.nodes[1].set_policy(FaceId(2), FaceProtection::Required);
    for _ in 0..20 {
        flood(&mut pair, (100..200).map(FaceId));
        pair.say(0, &[b"hello"]);
        pair.run_ms(5);
    }
    pair.run_ms(60);
    assert!(!pair.heard(1).is_empty(), "it is answered at once, not when a flood ends");
}

#[test]
fn a_mark_of_congestion_passes() {
    let mut pair = Pair::usual();
    pair.say(0, &[b"hello"]);
    pair.run_ms(100);
    pair.say(0, &[b"marked"]);
    pair.pump(0);
    let mut datagram = Datagram::from(pair.seen.pop().expect("sent").1.as_slice());
    datagram.set_marked();
    pair.nodes[1].handle_datagram(pair.now, FaceId(2), datagram);
    assert_eq!(pair.nodes[1].node().marked, 1);
}

#[test]
fn a_closed_face_is_forgotten() {
    let mut pair = Pair::usual();
    pair.say(0, &[b"hello"]);
    pair.run_ms(100);
    pair.nodes[1].handle_face(pair.now, FaceId(2), FaceChange::Closed);
    assert_eq!(pair.nodes[1].peer(FaceId(2)), None);
}

//! What neighbours promise each other.
use alloc::vec::Vec;

use proptest::prelude::*;
use tributary_core::{Random, Rate};

use super::{hello::Peer, *};

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}
fn config(id: u64, boot: u64) -> NeighbourConfig {
    NeighbourConfig::new(NodeId(id), &format!("n{id}"), Roles::ROUTER, boot, [id as u8; 16])
}

/// Nodes on a line, face 1 to the left, face 2 to the right; a packet takes 1 ms and at most `mtu` bytes.
struct Line {
    now: Time,
    nodes: Vec<Neighbour>,
    flying: Vec<(Time, usize, FaceId, Vec<u8>)>,
    cut: bool,
    /// The part of packets that is lost.
    loss: f64,
    random: Random,
    mtu: usize,
    events: Vec<(usize, Event)>,
    faces: Vec<(usize, FaceId, bool)>,
    states: Vec<LinkState>,
}

impl Line {
    fn new(count: u64) -> Line {
        let mut line = Line {
            now: ms(1000),
            nodes: (1..=count).map(|id| Neighbour::new(config(id, id))).collect(),
            flying: Vec::new(),
            cut: false,
            loss: 0.0,
            random: Random::new(1, 0),
            mtu: 9000,
            events: Vec::new(),
            faces: Vec::new(),
            states: Vec::new(),
        };
        for i in 0..line.nodes.len() {
            line.attach(i);
        }
        line
    }
    fn attach(&mut self, i: usize) {
        let options = FaceOptions { mtu: 20_000, rate: Some(Rate::from_mbps(8)) };
        for (face, exists) in [(1, i > 0), (2, i + 1 < self.nodes.len())] {
            if exists {
                assert!(self.nodes[i].add_face(self.now, FaceId(face), options));
            }
        }
    }
    fn settle(&mut self) {
        for (i, node) in self.nodes.iter_mut().enumerate() {
            while let Some((face, packet)) = node.poll_packet() {
                let (to, on) = if face == FaceId(2) { (i + 1, FaceId(1)) } else { (i - 1, FaceId(2)) };
                let is_lost = self.cut || self.random.unit() < self.loss;
                if !is_lost && packet.len() <= self.mtu {
                    self.flying.push((self.now + Duration::from_millis(1), to, on, packet));
                }
            }
            while let Some((face, up)) = node.poll_face() {
                self.faces.push((i, face, up));
            }
            while let Some(event) = node.poll_event() {
                self.events.push((i, event));
            }
            self.states.extend(node.poll_link_state());
            while node.poll_beacon().is_some() {}
        }
    }
    fn run_until(&mut self, end: Time) {
        loop {
            self.settle();
            let timers = self.nodes.iter().filter_map(Neighbour::poll_timeout);
            let next = timers.chain(self.flying.iter().map(|packet| packet.0)).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            let (due, later) = core::mem::take(&mut self.flying).into_iter().partition(|packet| packet.0 <= self.now);
            self.flying = later;
            for (_, to, face, packet) in due {
                self.nodes[to].handle_datagram(self.now, face, &packet.into());
            }
            self.nodes.iter_mut().for_each(|node| node.handle_timeout(self.now));
        }
        self.now = end;
    }
    fn notes(&self) -> Vec<String> {
        let note = |(_, event): &(usize, Event)| match event {
            Event::Note(text) => Some(text.clone()),
            _ => None,
        };
        self.events.iter().filter_map(note).collect()
    }
    fn beacon(&mut self, node: usize, sequence: u32, term: u32) {
        let beacon = Beacon {
            node: self.nodes[node].config.node,
            boot: self.nodes[node].config.boot,
            sequence,
            term,
            state: ManagerState::Active,
            priority: 1,
            capability_epoch: 1,
            label: "tm".into(),
            to_manager: Vec::new(),
            from_manager: Vec::new(),
        };
        self.nodes[node].originate_beacon(self.now, beacon);
    }
}

#[test]
fn neighbours_are_up_within_two_round_trips_and_down_after_the_fifth_missed_hello() {
    let mut line = Line::new(2);
    line.run_until(ms(1004));
    assert_eq!(line.faces, [(0, FaceId(2), true), (1, FaceId(1), true)]);
    let rtt = line.nodes[0].neighbours()[0].rtt.unwrap();
    assert!((1900..2100).contains(&rtt.as_micros()), "{rtt:?}");
    line.run_until(ms(2000));
    line.cut = true;
    line.faces.clear();
    line.run_until(ms(2900));
    assert_eq!(line.faces, []);
    line.run_until(ms(3110));
    assert_eq!(line.faces.len(), 2);
    assert!(!line.nodes[0].is_up(FaceId(2)));
    line.cut = false;
    line.run_until(ms(3350));
    assert!(line.nodes[0].is_up(FaceId(2)) && line.nodes[1].is_up(FaceId(1)));
}

#[test]
fn the_mtu_is_the_largest_size_of_the_ladder_that_got_through() {
    for (link, expected) in [(1000, 1200), (1472, 1472), (1500, 1472), (9000, 8972), (70_000, 20_000)] {
        let mut line = Line::new(2);
        line.mtu = link;
        if link < 1200 {
            line.mtu = 1100;
        }
        line.run_until(ms(1100));
        let info = line.nodes[0].neighbours().remove(0);
        assert_eq!((info.up, info.mtu), (true, expected), "link of {link}");
    }
}

#[test]
fn a_link_that_carries_less_than_before_is_noticed() {
    let mut line = Line::new(2);
    line.run_until(ms(2000));
    assert_eq!(line.nodes[0].neighbours()[0].mtu, 8972);
    line.mtu = 1472;
    line.run_until(ms(200_000));
    assert_eq!(line.nodes[0].neighbours()[0].mtu, 1472);
    assert!(line.nodes[0].is_up(FaceId(2)));
    line.mtu = 9000;
    line.run_until(ms(240_000));
    assert_eq!(line.nodes[0].neighbours()[0].mtu, 8972);
}

#[test]
fn a_fifth_of_loss_takes_no_face_down_and_large_packets_are_found() {
    let mut line = Line::new(12);
    line.loss = 0.2;
    line.run_until(ms(21_000));
    let mtus: Vec<u32> = line.nodes.iter().flat_map(Neighbour::neighbours).map(|info| info.mtu).collect();
    assert!(mtus.iter().all(|mtu| *mtu == 8972), "{mtus:?}");
    line.run_until(ms(600_000));
    assert_eq!(line.notes(), [""; 0]);
}

#[test]
fn what_one_end_has_forgotten_is_found_out_anew_at_once() {
    let mut line = Line::new(2);
    line.run_until(ms(3050));
    // Only one of the ends misses the other for a while, and its messages of that time are lost: it loses its record of
    // received sizes.
    line.nodes[0].on_down(line.now, FaceId(2), "test");
    line.nodes[0].faces.get_mut(&FaceId(2)).expect("it has one").peer = None;
    line.nodes[1].send_hello(line.now, FaceId(1), None);
    line.run_until(ms(4000));
    assert!(line.faces.iter().filter(|(node, _, up)| *node == 1 && !up).count() == 0, "the other one noticed nothing");
    let mtus: Vec<u32> = line.nodes.iter().flat_map(Neighbour::neighbours).map(|info| info.mtu).collect();
    assert_eq!(mtus, [8972, 8972]);
}

#[test]
fn a_restarted_neighbour_is_noticed_at_once_and_its_ghost_is_not() {
    let mut line = Line::new(2);
    line.run_until(ms(2000));
    let mut ghost = Vec::new();
    line.nodes[1].send_hello(line.now, FaceId(1), None);
    ghost.extend(line.nodes[1].poll_packet());
    line.nodes[1] = Neighbour::new(config(2, 77));
    line.attach(1);
    line.faces.clear();
    line.run_until(ms(2010));
    assert_eq!(line.faces.iter().filter(|(node, ..)| *node == 0).map(|face| face.2).collect::<Vec<_>>(), [false, true]);
    assert!(line.notes().iter().any(|note| note.contains("the neighbour restarted")));
    line.faces.clear();
    line.nodes[0].handle_datagram(line.now, FaceId(2), &ghost.remove(0).1.into());
    line.run_until(ms(3000));
    assert_eq!(line.faces, []);
}

/// An attacker that can send from the address of a neighbour, but receives no packets sent there, as over the internet.
#[test]
fn hellos_in_the_name_of_a_neighbour_that_is_up_change_nothing_until_they_are_proven() {
    let mut line = Line::new(2);
    line.run_until(ms(2000));
    let faces = line.nodes[0].faces[&FaceId(2)].peer.as_ref().map(|peer| (peer.node, peer.nonce));
    line.faces.clear();
    // Of another run of the neighbour, of another node, and with no hello of this node acknowledged.
    for (id, incarnation) in [(2, 77), (2, 78), (9, 1)] {
        let mut other = Neighbour::new(config(id, incarnation));
        other.add_face(line.now, FaceId(1), FaceOptions { mtu: 1500, rate: None });
        let (_, forged) = other.poll_packet().unwrap();
        for at in 0..20 {
            let now = line.now + Duration::from_millis(at);
            line.nodes[0].handle_datagram(now, FaceId(2), &forged.clone().into());
        }
        let answers = core::iter::from_fn(|| line.nodes[0].poll_packet()).count();
        assert!(answers <= 1, "{answers} answers to 20 forged hellos");
    }
    line.run_until(ms(10_000));
    assert_eq!(line.faces, [], "{:?}", line.notes());
    assert_eq!(line.nodes[0].faces[&FaceId(2)].peer.as_ref().map(|peer| (peer.node, peer.nonce)), faces);
}

#[test]
fn hellos_of_earlier_runs_are_replayed_in_vain() {
    let mut line = Line::new(2);
    let mut recorded = Vec::new();
    for run in 0..4 {
        line.run_until(line.now + Duration::from_millis(1_000));
        // A hello that echoes this node's, sealed by any of the keys.
        line.nodes[1].send_hello(line.now, FaceId(1), None);
        recorded.extend(line.nodes[1].poll_packet().map(|(_, packet)| packet));
        line.nodes[1] = Neighbour::new(config(2, 100 + run));
        line.attach(1);
    }
    line.run_until(line.now + Duration::from_millis(1_000));
    assert!(line.nodes[0].is_up(FaceId(2)));
    line.faces.clear();
    for replayed in recorded.iter().cycle().take(100) {
        line.nodes[0].handle_datagram(line.now, FaceId(2), &replayed.clone().into());
        line.run_until(line.now + Duration::from_millis(100));
    }
    assert_eq!(line.faces, [], "{:?}", line.notes());
    // Nor do they bring back a neighbour that is down.
    line.cut = true;
    line.run_until(line.now + Duration::from_millis(3_000));
    assert!(!line.nodes[0].is_up(FaceId(2)));
    for replayed in &recorded {
        line.nodes[0].handle_datagram(line.now, FaceId(2), &replayed.clone().into());
        assert!(!line.nodes[0].is_up(FaceId(2)));
    }
}

/// Face 1 leads to an attacker that reads along, face 2 to an address that answers nothing. Nonces learnt at the one do
/// not bring up the other, and an unproven address gets at most three times the bytes that came from it.
#[test]
fn what_is_learnt_on_one_face_proves_nothing_on_another() {
    let mut node = Neighbour::new(config(1, 1));
    let mut attacker = Neighbour::new(config(2, 2));
    let options = FaceOptions { mtu: 1500, rate: None };
    attacker.add_face(ms(0), FaceId(1), options);
    assert!(node.add_unsolicited(ms(0), FaceId(1), options) && node.add_unsolicited(ms(0), FaceId(2), options));
    let (mut came, mut went) = (0, 0);
    for step in 0..200 {
        let now = ms(step * 50);
        attacker.handle_timeout(now);
        let told =
            attacker.faces[&FaceId(1)].peer.as_ref().map(|peer| (peer.node, peer.nonce, peer.face, peer.sent_us));
        while let Some((_, packet)) = attacker.poll_packet() {
            // A forged hello in the name of the victim, with the hello heard here as if it were heard there.
            let mut hello = Hello::decode(unseal(&[0; 32], &packet[5..]).unwrap()).unwrap();
            if let (Some((.., face, _)), Some(heard)) = (told, &mut hello.heard) {
                heard.face = FaceId(3 - face.0);
            }
            hello.padding_bytes = 0;
            let mut forged = packet[..5].to_vec();
            hello.encode(&mut forged);
            seal(&[0; 32], &mut forged, 5);
            came += forged.len();
            node.handle_datagram(now, FaceId(2), &forged.into());
            node.handle_datagram(now, FaceId(1), &packet.into());
            node.greet_unsolicited(now, FaceId(2), 1);
        }
        node.handle_timeout(now);
        while let Some((face, packet)) = node.poll_packet() {
            if face == FaceId(1) {
                attacker.handle_datagram(now, FaceId(1), &packet.into());
            } else {
                went += packet.len();
            }
        }
    }
    assert!(node.is_up(FaceId(1)) && !node.is_up(FaceId(2)));
    assert!(went <= 3 * came, "{went} bytes for {came}");
}

#[test]
fn one_way_links_do_not_come_up() {
    let (mut a, mut b) = (Neighbour::new(config(1, 1)), Neighbour::new(config(2, 2)));
    let options = FaceOptions { mtu: 1500, rate: None };
    for i in 0..20 {
        let now = ms(i * 100);
        a.add_face(now, FaceId(1), options);
        b.add_face(now, FaceId(1), options);
        a.handle_timeout(now);
        b.handle_timeout(now);
        while let Some((_, packet)) = a.poll_packet() {
            b.handle_datagram(now, FaceId(1), &packet.into());
        }
        while b.poll_packet().is_some() {}
    }
    assert!(!a.is_up(FaceId(1)) && !b.is_up(FaceId(1)));
    assert_eq!(b.faces[&FaceId(1)].peer.as_ref().map(|peer| peer.node), Some(NodeId(1)));
}

#[test]
fn forged_foreign_and_own_packets_are_dropped_with_their_reason() {
    let mut line = Line::new(2);
    line.run_until(ms(2000));
    line.events.clear();
    line.nodes[0].send_hello(line.now, FaceId(2), None);
    let (_, own) = line.nodes[0].poll_packet().unwrap();
    let mut forged = own.clone();
    *forged.last_mut().unwrap() ^= 1;
    let mut foreign = own.clone();
    foreign[0] = 0x91;
    for packet in [own, forged, foreign.clone(), foreign] {
        line.nodes[0].handle_datagram(line.now, FaceId(2), &packet.into());
    }
    line.settle();
    let reasons = line.events.iter().filter_map(|(_, event)| match event {
        Event::Dropped { reason, .. } => Some(*reason),
        _ => None,
    });
    assert_eq!(
        reasons.collect::<Vec<_>>(),
        ["own hello came back", "damaged hello or beacon", "other wire version", "other wire version"]
    );
    let notes = line.notes();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("leads back to this node") && notes[1].contains("speaks wire format version 9"));
}

#[test]
fn nodes_of_an_older_wire_format_are_no_neighbours_and_the_reason_is_told() {
    // The first message of an older program to a node that does not know it.
    let mut line = Line::new(2);
    line.nodes[0].send_hello(line.now, FaceId(2), None);
    let (_, mut older) = line.nodes[0].poll_packet().unwrap();
    older[0] = 0x11;
    line.nodes[1].handle_datagram(line.now, FaceId(1), &older.into());
    line.settle();
    assert!(!line.nodes[1].is_up(FaceId(1)));
    let advertised = "the other end speaks wire format version 1, this program speaks 4; update the older one";
    assert!(line.notes()[0].ends_with(advertised), "{:?}", line.notes());
}

proptest! {
    #[test]
    fn routes_in_any_order_and_often_leave_those_of_the_newest_term_and_sequence(
        count in 1u32..12,
        order in prop::collection::vec(any::<prop::sample::Index>(), 24),
    ) {
        let mut line = Line::new(1);
        // Three messages in each term.
        let routes = |number: u32| Routes {
            manager: NodeId(9),
            term: number / 3 + 1,
            sequence: number % 3,
            resolvers: Vec::new(),
            bitmap: crate::wire::BitmapNumbers { epoch: number as u8, ..Default::default() },
            keys: Vec::new(),
        };
        let all: Vec<Routes> = (0..count).map(routes).collect();
        for routes in order.iter().map(|at| at.get(&all)).chain(all.iter().rev()) {
            line.nodes[0].handle_routes(routes);
        }
        prop_assert_eq!(line.nodes[0].routes(), all.last());
    }
}

#[test]
fn link_state_is_told_when_a_manager_is_known_and_again_on_change_and_refresh() {
    let mut line = Line::new(3);
    line.run_until(ms(1500));
    assert_eq!(line.states, []);
    line.beacon(0, 1, 7);
    line.run_until(ms(1600));
    let mut nodes: Vec<_> = line.states.iter().map(|state| (state.node.0, state.sequence, state.term)).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, [(1, 1, 7), (2, 1, 7), (3, 1, 7)]);
    let middle = line.states.iter().find(|state| state.node == NodeId(2)).unwrap();
    assert_eq!(middle.adjacencies.len(), 2);
    let left = middle.adjacencies[0];
    assert_eq!((left.face, left.neighbour, left.neighbour_face), (FaceId(1), NodeId(1), FaceId(2)));
    assert_eq!((left.capacity_kbps, left.mtu), (8000, 8972));
    line.states.clear();
    line.beacon(0, 2, 7);
    line.run_until(ms(3000));
    assert_eq!(line.states, [], "nothing changed");
    line.beacon(0, 3, 7);
    line.nodes[2].set_used(line.now, FaceId(1), 5000);
    line.run_until(ms(3010));
    assert_eq!(line.states.iter().map(|state| state.adjacencies[0].used_kbps).collect::<Vec<_>>(), [5000]);
    (4..8).for_each(|i| {
        line.beacon(0, i, 7);
        line.run_until(ms(u64::from(i) * 1000));
    });
    assert!(line.states.iter().any(|state| state.node == NodeId(1)), "refreshed after 5 s");
}

#[test]
fn beacons_bring_routes_both_ways_and_newcomers_get_the_last_one() {
    let mut line = Line::new(4);
    line.run_until(ms(1500));
    line.beacon(0, 1, 3);
    line.run_until(ms(1510));
    for i in 0..4 {
        let manager = line.nodes[i].active_manager().unwrap();
        let keys: Vec<LabelKey> = (1..=4).map(|id| LabelKey::new(&[id; 16])).collect();
        let towards =
            (1..=i).rev().map(|node| keys[node].list(Port::Face(FaceId(1)))).chain([keys[0].list(Port::Local)]);
        let from = (0..i).map(|node| keys[node].list(Port::Face(FaceId(2)))).chain([keys[i].list(Port::Local)]);
        assert_eq!(manager.to, list_fid(&towards.collect::<Vec<_>>()), "node {i}");
        assert_eq!(manager.back, list_fid(&from.collect::<Vec<_>>()), "node {i}");
        assert_eq!((manager.beacon.term, manager.beacon.state), (3, ManagerState::Active));
    }
    line.nodes[3] = Neighbour::new(config(4, 99));
    line.attach(3);
    line.run_until(ms(1530));
    assert!(line.nodes[3].active_manager().is_some());
    line.run_until(ms(4600));
    assert!(line.nodes[3].active_manager().is_none() && line.nodes[0].active_manager().is_some());
    assert!(line.notes().iter().any(|note| note == "topology manager tm is silent"));
}

#[test]
fn a_second_way_to_the_manager_serves_when_the_first_breaks() {
    // A manager 1 that node 9 hears over two faces.
    let mut node = Neighbour::new(config(9, 9));
    let keys: Vec<LabelKey> = (1..=3).map(|id| LabelKey::new(&[id; 16])).collect();
    let hello = |id: u64, face: u32, nonce: u64, now: Time| {
        let mut other = Neighbour::new(config(id, id));
        other.add_face(now, FaceId(5), FaceOptions { mtu: 1500, rate: None });
        other.faces.get_mut(&FaceId(5)).unwrap().peer = Some(Peer {
            node: NodeId(9),
            nonce,
            face: FaceId(face),
            roles: Roles::NONE,
            label: String::new(),
            heard: now,
            greeted: now,
            // Of a hello that node 9 has sent.
            sent_us: u64::MAX >> 1,
            echo_us: 0,
            rtt: None,
        });
        other.packets.clear();
        other.send_hello(now, FaceId(5), None);
        let (_, packet) = other.poll_packet().unwrap();
        (other, packet)
    };
    for face in [1, 2] {
        node.add_face(ms(0), FaceId(face), FaceOptions { mtu: 1500, rate: None });
        let nonce = node.faces[&FaceId(face)].nonce;
        let (mut other, packet) = hello(u64::from(face) + 1, face, nonce, ms(1));
        node.handle_datagram(ms(1), FaceId(face), &packet.into());
        assert!(node.is_up(FaceId(face)));
        let mut beacon = Beacon {
            node: NodeId(1),
            boot: 1,
            sequence: 1,
            term: 1,
            state: ManagerState::Active,
            priority: 1,
            capability_epoch: 1,
            label: "tm".into(),
            to_manager: [keys[0].list(Port::Local)].into(),
            from_manager: [[face as u8; 4]].into(),
        };
        other.send_beacon(Time::ZERO, FaceId(5), &beacon, Some(FaceId(6)));
        let (_, packet) = other.poll_packet().unwrap();
        node.handle_datagram(ms(1), FaceId(face), &packet.into());
        // A copy that has already passed this node offers no path.
        beacon.from_manager.push(LabelKey::new(&[9; 16]).list(Port::Face(FaceId(3 - face))));
        other.send_beacon(Time::ZERO, FaceId(5), &beacon, Some(FaceId(7)));
        let (_, packet) = other.poll_packet().unwrap();
        node.handle_datagram(ms(1), FaceId(face), &packet.into());
    }
    let first = node.active_manager().unwrap().to;
    assert_eq!(first.bytes()[..4], node.key.list(Port::Face(FaceId(1))));
    node.remove_face(ms(2), FaceId(1));
    let second = node.active_manager().unwrap().to;
    assert_eq!(second.bytes()[..4], node.key.list(Port::Face(FaceId(2))));
    assert_eq!(second.bytes().len(), first.bytes().len());
    node.remove_face(ms(2), FaceId(2));
    assert!(node.active_manager().is_none());
}

#[test]
fn there_is_room_for_so_many_managers_and_faces_and_no_more() {
    let mut line = Line::new(2);
    line.nodes[1].config.managers_max = 0;
    line.run_until(ms(1500));
    line.beacon(0, 1, 1);
    line.run_until(ms(1600));
    assert!(line.nodes[1].active_manager().is_none());
    assert!(
        line.events
            .iter()
            .any(|(_, event)| matches!(event, Event::Dropped { reason: "too many topology managers", .. }))
    );
    let mut node = Neighbour::new(NeighbourConfig { faces_max: 1, ..config(1, 1) });
    let options = FaceOptions { mtu: 1500, rate: None };
    assert!(node.add_face(ms(0), FaceId(1), options) && node.add_face(ms(0), FaceId(1), options));
    assert!(!node.add_face(ms(0), FaceId(2), options));
}

#[test]
fn older_routes_are_refused() {
    let mut node = Neighbour::new(config(1, 1));
    let routes = |term, sequence| Routes {
        manager: NodeId(1),
        term,
        sequence,
        resolvers: Vec::new(),
        bitmap: Default::default(),
        keys: Vec::new(),
    };
    assert!(node.handle_routes(&routes(2, 5)));
    assert!(!node.handle_routes(&routes(2, 5)) && !node.handle_routes(&routes(1, 9)));
    assert!(node.handle_routes(&routes(3, 1)));
    assert_eq!(node.routes().map(|routes| routes.term), Some(3));
}

#[test]
fn a_neighbour_that_was_silent_is_soon_known_to_be_back_and_not_greeted_eagerly_for_ever() {
    for (outage, limit) in [(5_000, 60), (60_000, 210)] {
        let mut line = Line::new(2);
        line.run_until(line.now + Duration::from_millis(2_000));
        assert!(line.nodes[0].is_up(FaceId(2)) && line.nodes[1].is_up(FaceId(1)));
        line.cut = true;
        line.run_until(line.now + Duration::from_millis(outage));
        assert!(!line.nodes[0].is_up(FaceId(2)));
        line.cut = false;
        line.run_until(line.now + Duration::from_millis(limit));
        assert!(line.nodes[0].is_up(FaceId(2)) && line.nodes[1].is_up(FaceId(1)), "after {outage} ms");
    }
}

//! Nodes on links of 1 ms whose packets a test can see, forge and drop.
use alloc::format;

use tributary_content::{MemoryObject, MemoryOpener, ObjectId, SigningKey};
use tributary_core::event::ResolverEvent;
use tributary_transport::PathMetric;

use super::*;
use crate::{
    router::{labels::Port, neighbour::trust, reason},
    wire::{StreamKey, list_fid},
};

const OPTIONS: FaceOptions = FaceOptions { mtu: 1_472, rate: None };

/// The first node is the centre: its faces are the numbers of the others, whose face 0 leads to it.
struct Star {
    now: Time,
    nodes: Vec<PsiNode>,
    flying: Vec<(Time, usize, FaceId, Vec<u8>)>,
    /// Whether a packet from one node to another is lost.
    is_lost: fn(usize, &[u8]) -> bool,
    /// What the first node sent to faces that lead nowhere.
    astray: Vec<(FaceId, Vec<u8>)>,
    dropped: Vec<&'static str>,
    /// Events of the second node.
    reported: Vec<Event>,
}

impl Star {
    /// Nodes that know each other's addresses; `set` sets their roles.
    fn new(labels: &[&str], set: impl Fn(&mut Config)) -> Star {
        let nodes = labels.iter().enumerate().map(|(seed, label)| {
            let mut config = Config::new(label, seed as u64 + 1);
            set(&mut config);
            PsiNode::new(config)
        });
        let mut star = Star {
            now: Time::from_millis(1_000),
            nodes: nodes.collect(),
            flying: Vec::new(),
            is_lost: |_, _| false,
            astray: Vec::new(),
            dropped: Vec::new(),
            reported: Vec::new(),
        };
        for other in 1..star.nodes.len() {
            star.nodes[0].add_face(star.now, FaceId(other as u32), OPTIONS);
            star.nodes[other].add_face(star.now, FaceId(0), OPTIONS);
        }
        star
    }
    /// The first of them is a router, and all know each other.
    fn around_router(labels: &[&str]) -> Star {
        let mut star = Star::new(labels, |config| config.router = config.label == labels[0]);
        star.run(100);
        star
    }
    fn drain(&mut self) {
        for from in 0..self.nodes.len() {
            let mut out = TransmitBuf::new();
            while let Some(transmit) = self.nodes[from].poll_transmit(self.now, &mut out) {
                for packet in out.drain().map(|datagram| datagram.to_vec()) {
                    let (to, face) = match from {
                        0 => (transmit.face.0 as usize, FaceId(0)),
                        _ => (0, FaceId(from as u32)),
                    };
                    if to >= self.nodes.len() {
                        self.astray.push((transmit.face, packet));
                    } else if !(self.is_lost)(from, &packet) {
                        self.flying.push((self.now + Duration::from_millis(1), to, face, packet));
                    }
                }
            }
            while let Some(event) = self.nodes[from].poll_event() {
                if let Event::Dropped { reason, .. } = event {
                    self.dropped.push(reason);
                } else if from == 1 {
                    self.reported.push(event);
                }
            }
        }
    }
    fn run(&mut self, millis: u64) {
        let end = self.now + Duration::from_millis(millis);
        loop {
            self.drain();
            let timers = self.nodes.iter().filter_map(|node| node.poll_timeout().map(|(due, _)| due));
            let Some(next) = timers.chain(self.flying.iter().map(|packet| packet.0)).min() else { break };
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            let (due, later) = core::mem::take(&mut self.flying).into_iter().partition(|packet| packet.0 <= self.now);
            self.flying = later;
            for (_, to, face, packet) in due {
                self.nodes[to].handle_datagram(self.now, face, packet.into());
            }
            self.nodes.iter_mut().for_each(|node| node.handle_timeout(self.now));
        }
        self.now = end;
    }
    /// A Data packet that leaves the first node by this face.
    fn data(&self, face: u32) -> Vec<u8> {
        let fid = list_fid(&[self.nodes[0].router.label_key().list(Port::Face(FaceId(face)))]);
        let mut bytes = Vec::new();
        Header { packet_type: PacketType::Data, flags: 0, ttl: 9, fid }.encode(&mut bytes);
        let stream = StreamKey::new(&ObjectId([4; 16]), 1_000);
        DataHeader { tag: 1, packet: 0, stream, origin: 7 }.encode(&mut bytes);
        bytes.extend_from_slice(b"poison");
        bytes
    }
    /// Lets the first node have this over a face; how many packets it has cached and passed on by it.
    fn passed_on(&mut self, face: u32, packet: &[u8]) -> (usize, u64) {
        self.run(5);
        let queued = self.nodes[0].router.stats.queued;
        self.nodes[0].handle_datagram(self.now, FaceId(face), packet.to_vec().into());
        let run = [packet, packet].concat();
        self.nodes[0].handle_batch(self.now, FaceId(face), DatagramBatch::new(run.into(), packet.len()));
        let queued = self.nodes[0].router.stats.queued - queued;
        self.run(5);
        (self.nodes[0].router.cache().map_or(0, |cache| cache.entries().count()), queued)
    }
}

#[test]
fn what_strangers_send_is_never_passed_on() {
    let mut star = Star::around_router(&["hub", "a", "b"]);
    let packet = star.data(2);
    assert_eq!(star.passed_on(99, &packet), (0, 0));
    let strange = star.dropped.iter().filter(|other| **other == reason::UNSOLICITED);
    assert_eq!(strange.count(), 3, "{:?}", star.dropped);
    assert_eq!(star.nodes[0].status(star.now).counters[reason::UNSOLICITED], 3);
    assert_eq!(star.passed_on(1, &packet), (1, 3), "neighbours are heard");
    // A node that is silent for a short time stays known.
    star.is_lost = |from, _| from == 1;
    star.run(3_000);
    assert!(!star.nodes[0].neighbour.is_up(FaceId(1)));
    assert_eq!(star.passed_on(1, &packet).1, 3);
}

#[test]
fn a_stranger_that_greets_is_a_neighbour_and_heard_at_once() {
    let mut star = Star::around_router(&["hub", "a", "b"]);
    star.nodes[0].remove_face(star.now, FaceId(1));
    star.run(3_000);
    assert!(star.nodes[0].neighbour.is_up(FaceId(1)) && star.nodes[0].unsolicited.contains(FaceId(1)));
    assert!(!star.nodes[0].unsolicited.has_unproven());
    let packet = star.data(2);
    assert_eq!(star.passed_on(1, &packet), (1, 3));
    // It is forgotten after longer silence.
    star.is_lost = |from, _| from == 1;
    star.run(15_000);
    assert!(!star.nodes[0].faces.contains_key(&FaceId(1)));
}

#[test]
fn a_forged_address_draws_one_hello_for_a_datagram_and_changes_nothing_in_the_router() {
    let mut star = Star::around_router(&["hub", "a"]);
    for (forged, hellos) in [(&[0u8; 40][..], 1), (&[0x91; 40], 1), (&[0; 8], 0), (&[], 0)] {
        star.astray.clear();
        star.nodes[0].handle_datagram(star.now, FaceId(50), forged.to_vec().into());
        star.run(20_000);
        assert_eq!(star.astray.len(), hellos, "for {forged:?}: nothing much longer than what came");
        assert!(!star.nodes[0].faces.contains_key(&FaceId(50)), "it is forgotten");
    }
    star.astray.clear();
    for _ in 0..1_000 {
        star.nodes[0].handle_datagram(star.now, FaceId(50), [0; 40].to_vec().into());
        star.run(1);
    }
    assert!((4..=6).contains(&star.astray.len()), "{} hellos in a second", star.astray.len());
    assert_eq!(star.nodes[0].router.faces().collect::<Vec<_>>(), [FaceId(1)]);
}

#[test]
fn forged_addresses_leave_room_for_neighbours() {
    let mut star = Star::around_router(&["hub", "a", "b"]);
    star.nodes[0].remove_face(star.now, FaceId(2));
    for flood in 0..2_000u32 {
        star.nodes[0].handle_datagram(star.now, FaceId(1_000 + flood), [0; 40].to_vec().into());
        if flood % 10 == 0 {
            star.run(1);
        }
        assert!(star.nodes[0].faces.len() <= host::UNPROVEN_MAX + 2);
    }
    assert!(star.nodes[0].neighbour.is_up(FaceId(2)), "it greeted in between");
    assert_eq!(star.nodes[0].router.faces().count(), 2);
    assert!(star.nodes[0].faces.contains_key(&FaceId(2_999)) && !star.nodes[0].faces.contains_key(&FaceId(1_000)));
    // A configured neighbour is not unsolicited.
    star.nodes[0].add_face(star.now, FaceId(2_999), OPTIONS);
    star.astray.clear();
    star.run(1_000);
    let hellos = star.astray.iter().filter(|(face, _)| *face == FaceId(2_999)).count();
    assert!((4..=6).contains(&hellos), "{hellos}");
}

#[test]
fn a_request_for_paths_that_is_lost_is_repeated() {
    let mut star = Star::new(&["rn-1", "tm-1"], |config| {
        config.resolver = config.label == "rn-1";
        config.topology_manager = (config.label == "tm-1").then_some(1);
        config.lease = Duration::from_secs(100_000);
    });
    star.run(3_000);
    let name: Name = "/lab/file".parse().unwrap();
    let object = MemoryObject::new(name.clone(), alloc::vec![7; 1_000], &SigningKey::from_secret(&[1; 32])).unwrap();
    star.nodes[1].publish(star.now, Box::new(object));
    star.run(1_000);
    // Hellos and beacons continue, so the manager does not seem to have failed.
    star.is_lost = |from, bytes| from == 0 && bytes[0] & 0x0f == PacketType::Control as u8;
    let fetch = Fetch {
        name,
        opener: Box::new(MemoryOpener::new()),
        rate_limit: None,
        paths_per_source: 1,
        metric: PathMetric::Hops,
        patience: None,
    };
    let (now, node) = (star.now, &mut star.nodes[0]);
    let id = node.fetch(now, fetch);
    // It times out after nine seconds; the manager forgets a node that is silent for sixteen.
    star.run(10_000);
    assert!(star.nodes[0].control.stats().timed_out > 0);
    star.is_lost = |_, _| false;
    star.run(5_000);
    let report = star.nodes[0].report(star.now, id).unwrap();
    assert!(report.ended.is_some(), "{report:#?}");
}

#[test]
fn what_was_refused_for_good_is_not_published_any_more() {
    let mut star = Star::new(&["rn-1", "tm-1"], |config| {
        config.resolver = config.label == "rn-1";
        config.limits.records_max = 3;
        config.topology_manager = (config.label == "tm-1").then_some(1);
    });
    star.run(3_000);
    // The second name would be the fourth record, after the root, `/s` and `/s/file`.
    for (text, published) in [("/s/file", 1), ("/t", 1), ("/s", 2)] {
        let key = SigningKey::from_secret(&[1; 32]);
        let object = MemoryObject::new(text.parse().unwrap(), alloc::vec![7; 1_000], &key).unwrap();
        let now = star.now;
        star.nodes[1].publish(now, Box::new(object));
        star.run(1_000);
        assert_eq!(star.nodes[1].published_count(), published, "{text}");
    }
}

#[test]
fn a_transfer_beyond_the_limit_of_the_domain_fails_with_that_reason() {
    let mut star = Star::new(&["hub", "host"], |config| {
        (config.router, config.resolver) = (config.label == "hub", config.label == "hub");
        config.topology_manager = (config.label == "hub").then_some(1);
    });
    star.nodes[0].manager.as_mut().unwrap().config.limits.transfers_max = 1;
    star.run(3_000);
    let mut failures = Vec::new();
    for text in ["/a", "/b"] {
        let fetch = Fetch {
            name: text.parse().unwrap(),
            opener: Box::new(MemoryOpener::new()),
            rate_limit: None,
            paths_per_source: 1,
            metric: PathMetric::Hops,
            patience: Some(Duration::from_secs(3)),
        };
        let now = star.now;
        let id = star.nodes[1].fetch(now, fetch);
        star.run(100);
        failures.push(id);
    }
    star.run(4_000);
    let limit =
        "topology manager hub: limit reached: transfers in the domain of the topology manager (transfers_max = 1)";
    let reasons: Vec<_> = failures.iter().map(|id| star.nodes[1].report(star.now, *id).unwrap().failure).collect();
    assert_eq!(reasons[0].as_deref(), Some("no publisher of '/a' answered within 3s"));
    assert_eq!(reasons[1], Some(format!("no publisher of '/b' answered within 3s: {limit}")));
    let refused = star.reported.iter().filter(|event| {
        matches!(event, Event::Resolver(ResolverEvent::Rejected { name, operation: "subscribe", reason })
            if name == "/b" && reason == limit)
    });
    assert_eq!(refused.count(), 1, "{:?}", star.reported);
}

// A network with an authority.

use alloc::{string::String, sync::Arc};
use tributary_trust::{Access, Certificate, Grant, Network, Roles as CertifiedRoles, Terms, UnixTime};

use crate::ids::node_of_key;
use crate::wire::{ControlBody, ControlPacket};

fn node_key(number: usize) -> SigningKey {
    SigningKey::from_secret(&[number as u8 + 1; 32])
}
fn network(access: Access) -> Network {
    Network::new(SigningKey::from_secret(&[99; 32]).public(), access)
}
fn certificate(number: usize, roles: CertifiedRoles, prefixes: &[&str]) -> Certificate {
    let terms = Terms {
        serial: number as u64,
        key: node_key(number).public(),
        label: String::from("node"),
        roles,
        prefixes: prefixes.iter().map(|prefix| prefix.parse().expect("a name")).collect(),
        not_before: UnixTime(1_000),
        not_after: UnixTime(1_000_000),
    };
    Certificate::issue(&SigningKey::from_secret(&[99; 32]), terms).expect("within limits")
}
fn identity_in(access: Access, number: usize, certificate: Option<Certificate>) -> Identity {
    Identity::new(node_key(number), certificate, network(access), Arc::new(|_| UnixTime(2_000)))
}
fn identity(number: usize, certificate: Option<Certificate>) -> Identity {
    identity_in(Access::Open, number, certificate)
}

impl Star {
    /// Nodes with these certificates around the first one; each claims to be a router, a resolver and a topology
    /// manager except the first, which is a router alone. Without `certified` the network has no authority.
    fn of(certificates: &[Option<CertifiedRoles>], certified: bool) -> Star {
        match certified {
            true => Star::of_access(certificates, Access::Open, |number| number > 0, |_| &[]),
            false => {
                let mut star = Star::without_identities(certificates.len(), |number| number > 0);
                star.run(10_000);
                star
            }
        }
    }
    fn without_identities(count: usize, is_manager: fn(usize) -> bool) -> Star {
        let labels = ["0", "1", "2", "3", "4"];
        Star::new(&labels[..count], |config| {
            let number: usize = config.label.parse().expect("a number");
            config.node = node_of_key(&node_key(number).public());
            config.router = true;
            config.resolver = number > 0;
            config.topology_manager = is_manager(number).then_some(number as u8);
        })
    }
    /// The same in a network with an authority; `is_manager` selects the nodes that claim to be a topology manager, and
    /// `prefixes` gives the names that a certificate grants to a node.
    fn of_access(
        certificates: &[Option<CertifiedRoles>],
        access: Access,
        is_manager: fn(usize) -> bool,
        prefixes: impl Fn(usize) -> &'static [&'static str],
    ) -> Star {
        let mut star = Star::without_identities(certificates.len(), is_manager);
        let now = star.now;
        let certificate =
            |number: usize| certificates[number].map(|roles| certificate(number, roles, prefixes(number)));
        for number in 0..certificates.len() {
            star.nodes[number].set_identity(now, &identity_in(access, number, certificate(number)));
        }
        for number in 1..certificates.len() {
            for (node, face, other) in [(0, number as u32, number), (number, 0, 0)] {
                let (key, certificate) = (node_key(other).public(), certificate(other));
                let grant = network(access).admit(&key, "node", certificate.as_ref(), UnixTime(2_000));
                star.nodes[node].handle_grant(now, FaceId(face), grant.ok().as_ref());
            }
        }
        star.run(10_000);
        star
    }
    fn managers(&self) -> Vec<NodeId> {
        self.nodes[0].neighbour.managers().into_iter().map(|manager| manager.beacon.node).collect()
    }
}
fn all_roles() -> CertifiedRoles {
    CertifiedRoles::ROUTER | CertifiedRoles::RESOLVER | CertifiedRoles::TOPOLOGY_MANAGER
}

#[test]
fn nobody_is_a_topology_manager_without_a_certificate_that_says_so() {
    let certificates = [
        Some(CertifiedRoles::ROUTER),
        Some(all_roles()),
        Some(CertifiedRoles::ROUTER),
        Some(CertifiedRoles::HOST),
        None,
    ];
    assert_eq!(Star::of(&certificates, false).managers().len(), 4, "without an authority, whoever says so");
    let star = Star::of(&certificates, true);
    assert_eq!(
        star.managers(),
        [node_of_key(&node_key(1).public())],
        "a term is as high as its beacon says: {:?}",
        star.dropped
    );
    for reason in [trust::reason::HOST, trust::reason::MANAGER] {
        assert!(star.dropped.contains(&reason), "{reason}: {:?}", star.dropped);
    }
    // Beacons of every second, each signed once and checked once; hellos and copies cost nothing.
    let (_, checked) = star.nodes[0].neighbour.signatures();
    assert!(checked <= 60, "{checked} checks in ten seconds");
    let (signed, _) = star.nodes[1].neighbour.signatures();
    assert!((1..=30).contains(&signed), "{signed} signatures in ten seconds");
}

#[test]
fn the_way_to_a_topology_manager_leads_over_routers_only() {
    let (router, manager) = (CertifiedRoles::ROUTER, CertifiedRoles::TOPOLOGY_MANAGER);
    let found_behind = |hub: CertifiedRoles| {
        let certificates = [Some(hub), Some(router | manager), Some(CertifiedRoles::HOST)];
        let star = Star::of_access(&certificates, Access::Open, |number| number == 1, |_| &[]);
        star.nodes[2].neighbour.managers().len()
    };
    assert_eq!(found_behind(router), 1);
    assert_eq!(found_behind(manager), 0, "routers drop what it passes on in the names of others");
}

#[test]
fn nodes_have_the_roles_of_their_certificates_at_the_topology_manager() {
    let (router, resolver) = (CertifiedRoles::ROUTER, CertifiedRoles::RESOLVER);
    let star = Star::of(&[Some(router), Some(all_roles()), Some(router | resolver), Some(router), None], true);
    let manager = star.nodes[1].manager.as_ref().expect("it is one");
    let roles = |number: usize| {
        let state = manager.link_state(node_of_key(&node_key(number).public())).expect("it is in the domain");
        [Roles::ROUTER, Roles::RESOLVER, Roles::TOPOLOGY_MANAGER].map(|role| state.roles.contains(role))
    };
    // All but the first claim all of these roles.
    let found = [0, 1, 2, 3, 4].map(roles);
    assert_eq!(found, [[true, false, false], [true; 3], [true, true, false], [true, false, false], [false; 3]]);
}

#[test]
fn capability_keys_go_to_those_who_may_serve_and_to_other_managers() {
    let (router, manager) = (CertifiedRoles::ROUTER, CertifiedRoles::TOPOLOGY_MANAGER);
    for access in [Access::Open, Access::Closed] {
        // A router, the manager, a host without names, one with names, and one without a certificate.
        let all = [Some(router), Some(router | manager), Some(CertifiedRoles::HOST), Some(CertifiedRoles::HOST), None];
        let star =
            Star::of_access(&all, access, |number| number == 1, |number| if number == 3 { &["/lab"] } else { &[] });
        let has_keys = |number: usize| !star.nodes[number].router.keys().is_empty();
        let is_in = |number: usize| {
            star.nodes[1].manager.as_ref().unwrap().link_state(star.nodes[number].config.node).is_some()
        };
        assert_eq!([0, 1, 2, 3].map(has_keys), [true, true, false, true], "{access:?}");
        assert!(is_in(2) && has_keys(4) == (access == Access::Open) && is_in(4) == (access == Access::Open));
    }
}

#[test]
fn a_rendezvous_node_takes_publications_below_certified_prefixes_only() {
    let (router, host) = (CertifiedRoles::ROUTER, CertifiedRoles::HOST);
    let publish = |star: &mut Star, number: usize, text: &str| {
        let name: Name = text.parse().expect("a name");
        let object = MemoryObject::new(name, alloc::vec![7; 1_000], &node_key(number)).expect("not empty");
        star.nodes[number].publish(star.now, Box::new(object));
    };
    for access in [Access::Closed, Access::Open] {
        let all = [Some(router), Some(all_roles()), Some(host), Some(host), (access == Access::Closed).then_some(host)];
        let prefixes = |number: usize| -> &[&str] {
            match number {
                2 => &["/lab"],
                3 => &["/other"],
                _ => &[],
            }
        };
        let mut star = Star::of_access(&all, access, |number| number == 1, prefixes);
        let published = |star: &Star| star.nodes[1].rendezvous.as_ref().expect("it is one").status().publications;
        publish(&mut star, 2, "/lab/image");
        star.run(1_000);
        assert_eq!(published(&star), 1);
        // Another host, a router on the way, and one without names or, in an open network, without a certificate.
        for number in [3, 0, 4] {
            publish(&mut star, number, "/lab/image");
            publish(&mut star, number, "/lab/other");
        }
        star.run(1_000);
        assert_eq!(published(&star), 1, "{access:?}");
        publish(&mut star, 3, "/other/image");
        publish(&mut star, 4, "/free");
        star.run(1_000);
        assert_eq!(published(&star), if access == Access::Open { 3 } else { 2 }, "what nobody owns is for all");
        let count = |number: usize| {
            star.nodes[number]
                .status(star.now)
                .counters
                .get("publication of a name that its host does not own")
                .copied()
        };
        assert!(count(1).is_some_and(|count| count >= 6), "{:?}", count(1));
        // Renewals carry no certificate, and last.
        star.run(90_000);
        assert_eq!(published(&star), if access == Access::Open { 3 } else { 2 });
    }
}

#[test]
fn a_router_on_the_way_registers_nothing_in_the_name_of_another_node() {
    let mut star = Star::of(&[Some(CertifiedRoles::ROUTER), Some(all_roles()), Some(CertifiedRoles::HOST)], true);
    let (victim, resolver) = (node_of_key(&node_key(2).public()), star.nodes[1].config.node);
    // The router seals with the key that it shares with the rendezvous node, which needs no introduction of another
    // node.
    let mut evil = ControlChannel::new(ControlConfig::default(), victim, 77);
    evil.set_identity(&identity(0, Some(certificate(0, CertifiedRoles::ROUTER, &[]))));
    evil.learn(resolver, &node_key(1).public());
    let fid = list_fid(&[star.nodes[1].router.label_key().list(Port::Local)]);
    let before = star.nodes[1].control.stats();
    evil.send(star.now, resolver, fid, Fid::NONE, &Message::Sync { request: 1 });
    let mut sent = 0;
    while let Some((fid, body)) = evil.poll_packet(star.now) {
        let mut packet = Vec::new();
        Header { packet_type: PacketType::Control, flags: 0, ttl: 9, fid }.encode(&mut packet);
        packet.extend(body);
        star.nodes[1].handle_datagram(star.now, FaceId(0), packet.into());
        sent += 1;
    }
    let after = star.nodes[1].control.stats();
    assert_eq!((sent, after.dropped - before.dropped), (2, 2));
    assert_eq!(after.messages_delivered, before.messages_delivered);
}

#[test]
fn a_host_sends_no_control_message_in_the_name_of_another_node() {
    let hosts =
        [Some(CertifiedRoles::ROUTER), Some(all_roles()), Some(CertifiedRoles::HOST), Some(CertifiedRoles::HOST)];
    for certified in [false, true] {
        let mut star = Star::of(&hosts, certified);
        let (victim, evil) = (node_of_key(&node_key(2).public()), node_of_key(&node_key(3).public()));
        let queued = |star: &mut Star, from: NodeId| {
            let fid = list_fid(&[star.nodes[0].router.label_key().list(Port::Face(FaceId(1)))]);
            let mut packet = Vec::new();
            Header { packet_type: PacketType::Control, flags: 0, ttl: 9, fid }.encode(&mut packet);
            let body = ControlBody::Fragment { index: 0, count: 1, reply: Fid::NONE, payload: b"I take it all back" };
            let to = star.nodes[1].config.node;
            ControlPacket { from, to, boot: 1, message: 1, body }.encode(&mut packet);
            let before = star.nodes[0].router.stats.queued;
            star.nodes[0].handle_datagram(star.now, FaceId(3), packet.into());
            star.nodes[0].router.stats.queued - before
        };
        assert_eq!(queued(&mut star, evil), 1, "in its own name");
        assert_eq!(queued(&mut star, victim), u64::from(!certified));
    }
}

#[test]
fn a_neighbour_is_the_node_whose_key_it_has_proven() {
    let mut star = Star::of(&[Some(CertifiedRoles::ROUTER), Some(all_roles())], true);
    let is_up = |star: &Star| star.nodes[0].neighbour.neighbours().iter().any(|neighbour| neighbour.up);
    assert!(is_up(&star));
    // Another node is at the end of the face, and continues as that node.
    let other = Grant { key: node_key(2).public(), ..Grant::host(node_key(2).public(), "other") };
    star.nodes[0].handle_grant(star.now, FaceId(1), Some(&other));
    star.run(3_000);
    assert!(
        !is_up(&star) && star.dropped.contains(&"hello of a node that is not the one whose key was proven"),
        "{:?}",
        star.dropped
    );
}

#[test]
fn what_has_the_name_of_a_key_is_published_under_its_signature_only_without_an_authority_too() {
    let mut star = Star::new(&["0", "1", "2", "3"], |config| {
        let is_resolver = config.label == "1";
        config.router = is_resolver || config.label == "0";
        (config.resolver, config.topology_manager) = (is_resolver, is_resolver.then_some(1));
    });
    star.run(10_000);
    let publish = |star: &mut Star, number: usize, signer: usize| {
        let name = tributary_trust::key_prefix(&node_key(9).public()).child(b"image").expect("it is short");
        let object = MemoryObject::new(name, alloc::vec![7; 1_000], &node_key(signer)).expect("not empty");
        star.nodes[number].publish(star.now, Box::new(object));
        star.run(1_000);
        star.nodes[1].rendezvous.as_ref().expect("it is one").status().publications
    };
    assert_eq!(publish(&mut star, 2, 2), 0);
    assert_eq!(publish(&mut star, 3, 9), 1, "its signature counts, and not who serves it");
    let counters = star.nodes[1].status(star.now).counters;
    assert!(counters.contains_key("publication of a name that its host does not own"), "{counters:?}");
}

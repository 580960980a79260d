//! Packets from an attacker: how many answers they draw, and their reach.
use super::*;
use std::cell::Cell;
use tributary_content::ObjectReader;
use tributary_core::{ByteCount, Datagram, NodeId};
use tributary_psi::{
    ids::Roles,
    resolver::topology::manager::{ManagerConfig, TopologyManager},
    router::neighbour::{Neighbour, NeighbourConfig},
    wire::{
        DataHeader, Fid, FidKind, Header, LinkState, Message, PacketType, REQUEST_PACKETS_MAX, Request, StreamKey,
        TERM_END, TTL_MAX, successions,
    },
};

/// A publisher behind a router, a receiver that has fetched from it, and one of its requests as received by the
/// publisher. The cache is off, so that all answers are the publisher's.
struct Bench {
    domain: Domain,
    request: (Header, Request),
    /// Data packets that the publisher has sent, and the largest of them.
    answers: Rc<Cell<(usize, usize)>>,
}

impl Bench {
    fn new(seed: u64) -> Bench {
        let mut domain = Domain::new(seed);
        domain.node("fn-1", |config| {
            config.router = true;
            config.cache_bytes = ByteCount(0);
        });
        domain.node("rn-1", |config| config.resolver = true);
        domain.node("tm-1", |config| config.topology_manager = Some(1));
        for label in ["pub-1", "receiver", "victim"] {
            domain.node(label, |_| {});
        }
        for label in ["rn-1", "tm-1", "pub-1", "receiver", "victim"] {
            domain.link(label, "fn-1", 100, 1);
        }
        let (publisher, router) = (domain.nodes["pub-1"], domain.nodes["fn-1"]);
        let (answers, seen) = (Rc::new(Cell::new((0, 0))), Rc::new(RefCell::new(None)));
        let (count, catch) = (Rc::clone(&answers), Rc::clone(&seen));
        domain.net.set_tap(move |packet| {
            let bytes = packet.datagram.to_vec();
            let Ok(header) = Header::decode(&bytes) else { return };
            if packet.from == publisher && header.packet_type == PacketType::Data {
                let (packets, largest) = count.get();
                count.set((packets + 1, largest.max(bytes.len())));
            }
            if packet.from == router && packet.to == publisher && header.packet_type == PacketType::Request {
                let request = Request::decode(&bytes[header.len()..]).unwrap();
                *catch.borrow_mut() = Some((header, request));
            }
        });
        domain.publish("pub-1", object("/lab/file", random_bytes(2_000_000, 1)));
        domain.run(3.0);
        let (id, _) = domain.fetch("receiver", "/lab/file");
        domain.finish("receiver", id, 20.0);
        domain.run(1.0);
        let request = seen.borrow_mut().take().expect("a request was seen");
        Bench { domain, request, answers }
    }
    /// How many packets the publisher answers with when this arrives from its router.
    fn answers_to(&mut self, change: impl FnOnce(&mut Header, &mut Request)) -> usize {
        let (mut header, mut request) = self.request.clone();
        change(&mut header, &mut request);
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        request.encode(&mut bytes);
        let before = self.answers.get().0;
        self.domain.net.inject(self.domain.nodes["pub-1"], FaceId(1), Datagram::from(Bytes::from(bytes)));
        self.domain.run(0.5);
        self.answers.get().0 - before
    }
}

#[test]
fn a_request_draws_as_many_packets_as_it_names_and_never_more_than_the_limit() {
    let mut bench = Bench::new(60);
    assert_eq!(bench.answers_to(|_, request| request.ranges = vec![(3, 5), (40, 1)]), 6);
    assert_eq!(bench.answers_to(|_, request| request.ranges = vec![(0, 64)]), REQUEST_PACKETS_MAX);
    // One packet more than the limit makes a request malformed, and packets beyond the end are passed over.
    assert_eq!(bench.answers_to(|_, request| request.ranges = vec![(0, 64), (64, 1)]), 0);
    assert_eq!(bench.answers_to(|_, request| request.ranges = vec![(1_000_000, 64)]), 0);
    assert_eq!(bench.answers_to(|_, request| request.packet_bytes = u16::MAX), 0, "longer than any link carries");
}

#[test]
fn a_request_whose_answer_would_go_elsewhere_is_not_answered_at_all() {
    let mut bench = Bench::new(61);
    let complete = |request: &mut Request| request.ranges = vec![(0, 64)];
    assert_eq!(bench.answers_to(|_, request| complete(request)), 64, "the original is answered");
    let forged = |bytes: &[u8]| Fid::new(FidKind::Bloom, 0, bytes);
    for forward in [forged(&[0xff; 64]), forged(&[0x55; 8]), Fid::NONE, bench.request.0.fid] {
        let answers = bench.answers_to(|_, request| {
            complete(request);
            request.forward = forward;
        });
        assert_eq!(answers, 0, "{forward:?}");
    }
    for bit in 0..64 {
        let answers = bench.answers_to(|_, request| {
            complete(request);
            request.capability[bit / 8] ^= 1 << (bit % 8);
        });
        assert_eq!(answers, 0, "bit {bit} of the capability");
    }
}

#[test]
fn a_publisher_that_has_just_started_answers_nobody_before_it_can_verify() {
    let mut domain = Domain::new(62);
    domain.node("pub-1", |_| {});
    domain.node("attacker", |_| {});
    domain.link("attacker", "pub-1", 100, 1);
    domain.publish("pub-1", object("/lab/file", random_bytes(200_000, 1)));
    domain.run(1.0);
    let (publisher, answers) = (domain.nodes["pub-1"], Rc::new(Cell::new(0)));
    let count = Rc::clone(&answers);
    domain.net.set_tap(move |packet| {
        let data = Header::decode(&packet.datagram.to_vec()).is_ok_and(|h| h.packet_type == PacketType::Data);
        count.set(count.get() + u32::from(packet.from == publisher && data));
    });
    let object = object("/lab/file", random_bytes(200_000, 1)).manifest().object_id();
    // Filters that are a little more than half full: one in 18 has a label by chance.
    let mut random = Random::new(62, 1);
    let mut filter = || -> [u8; 64] {
        core::array::from_fn(|_| (random.bits() | random.bits() & random.bits() & random.bits()) as u8)
    };
    for _ in 0..3000 {
        let (reverse, forward) = (filter(), filter());
        let mut bytes = Vec::new();
        let fid = Fid::new(FidKind::Bloom, 0, &reverse);
        Header { packet_type: PacketType::Request, flags: 0, ttl: TTL_MAX, fid }.encode(&mut bytes);
        let request = Request {
            tag: 1,
            object,
            packet_bytes: 1200,
            capability: [0; 8],
            forward: Fid::new(FidKind::Bloom, 0, &forward),
            ranges: vec![(0, 64)],
        };
        request.encode(&mut bytes);
        domain.net.inject(publisher, FaceId(1), Datagram::from(Bytes::from(bytes)));
    }
    domain.run(2.0);
    assert_eq!(answers.get(), 0, "packets drawn by requests without a capability");
}

/// Routers that all are neighbours, and FIDs with a bit for each link.
fn mesh(seed: u64, routers: usize) -> Domain {
    let mut domain = Domain::new(seed);
    let labels: Vec<String> = (0..routers).map(|i| format!("fn-{i}")).collect();
    for label in &labels {
        domain.node(label, |config| config.router = true);
    }
    domain.node("tm-1", |config| {
        config.topology_manager = Some(1);
        config.fid_kinds = vec!["bitmap".into()];
    });
    domain.link("tm-1", "fn-0", 1000, 1);
    for (i, a) in labels.iter().enumerate() {
        labels[i + 1..].iter().for_each(|b| domain.link(a, b, 1000, 1));
    }
    domain
}

#[test]
fn a_packet_for_everywhere_does_not_multiply_without_end() {
    for routers in [3, 4, 5] {
        let mut domain = mesh(63, routers);
        domain.run(3.0);
        let copies = Rc::new(Cell::new(0u64));
        let count = Rc::clone(&copies);
        domain.net.set_tap(move |packet| {
            let data = Header::decode(&packet.datagram.to_vec()).is_ok_and(|h| h.packet_type == PacketType::Data);
            count.set(count.get() + u64::from(data));
        });
        // An attacker can try all epochs of bitmaps; one of them is the manager's term.
        for epoch in 0..=u8::MAX {
            let fid = Fid::new(FidKind::Bitmap, epoch, &[0xff; 96]);
            let mut bytes = Vec::new();
            Header { packet_type: PacketType::Data, flags: 0, ttl: TTL_MAX, fid }.encode(&mut bytes);
            DataHeader { tag: 1, packet: 0, stream: StreamKey([1; 6]), origin: 1 }.encode(&mut bytes);
            bytes.extend_from_slice(&[0; 1000]);
            domain.net.inject(domain.nodes["fn-1"], FaceId(1), Datagram::from(Bytes::from(bytes)));
        }
        domain.run(0.03);
        let limit = u64::from(TTL_MAX) * 2;
        assert!(copies.get() <= limit, "one packet became {} within 30 ms among {routers} routers", copies.get());
    }
}

fn link_state(node: NodeId, sequence: u32, term: u32) -> LinkState {
    LinkState {
        node,
        boot: 1,
        sequence,
        term,
        roles: Roles::ROUTER,
        label: "fn-9".into(),
        secret: [9; 16],
        location: None,
        adjacencies: Vec::new(),
    }
}

#[test]
fn the_highest_term_does_not_stop_a_manager() {
    let config = Config::new("tm-1", 1);
    let mut manager = TopologyManager::new(ManagerConfig::new(&config, 1, 1));
    let mut node = Neighbour::new(NeighbourConfig::new(config.node, "tm-1", Roles::NONE, 1, [1; 16]));
    // Only the manager's own node, which accepts the routes that it gets.
    let mut taken = |manager: &mut TopologyManager| {
        let reported = std::iter::from_fn(|| manager.poll_message()).filter_map(|(_, message)| match message {
            Message::Routes(routes) => Some(routes),
            _ => None,
        });
        reported.filter(|routes| node.handle_routes(routes)).map(|routes| routes.term).collect::<Vec<_>>()
    };
    manager.handle_timeout(Time::ZERO);
    manager.handle_link_state(Time::ZERO, link_state(config.node, 1, 0));
    manager.handle_timeout(Time::from_millis(2000));
    assert!(manager.is_active());
    assert_eq!(taken(&mut manager), [manager.term]);
    for (sequence, term) in [(2, 7 << 12), (3, TERM_END - 1), (4, TERM_END - 1), (5, u32::MAX)] {
        let (now, before) = (Time::from_millis(2000 + u64::from(sequence) * 100), manager.term);
        manager.handle_link_state(now, link_state(NodeId(9), sequence, term));
        manager.handle_timeout(now);
        assert!(manager.is_active() && manager.term >= before && manager.term < TERM_END, "{}", manager.term);
        if sequence <= 3 {
            assert_eq!(successions(manager.term), (successions(term) + 1).min(successions(TERM_END - 1)));
            assert_eq!(taken(&mut manager), [manager.term]);
        }
    }
    // There is no higher term; later changes are still sent, and accepted.
    manager.handle_link_state(
        Time::from_millis(3000),
        LinkState { roles: Roles::RESOLVER, ..link_state(config.node, 2, 0) },
    );
    manager.handle_timeout(Time::from_millis(3100));
    assert_eq!(taken(&mut manager), [manager.term]);
}

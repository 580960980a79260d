//! A topology manager's time for one path request, in this process: eight paths between two nodes of a graph of 1,000,
//! each with a FID for the data and one for the requests, all verified to reach no other node.
use std::{hint::black_box, time::Instant};

use tributary_core::{Duration, FaceId, NodeId, Random, Time};
use tributary_psi::{
    Config,
    ids::{ItemId, Roles},
    resolver::topology::manager::{ManagerConfig, TopologyManager},
    wire::{Adjacency, LinkState, Message, PathRequest, Publisher},
};
use tributary_transport::PathMetric;

use super::{Context, Findings};
use crate::{
    Outcome,
    harness::{figure::Figure, rounds::median, targets},
};

/// Nodes of the graph.
const NODES: u64 = 1_000;
/// Links beyond the ring that joins all nodes; with it, a node has four neighbours on average.
const CHORDS: u64 = 1_000;
/// Paths per request.
const PATHS: u8 = 8;
/// Requests in a round, each between other nodes.
const REQUESTS: u64 = 200;

pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let mut rounds = Vec::new();
    let mut slowest = Vec::new();
    let mut fewest = usize::MAX;
    let (mut links, mut graph_milliseconds) = (0, Vec::new());
    for round in 0..context.arguments.rounds() as u64 {
        let (mut manager, now, milliseconds) = ready(round)?;
        graph_milliseconds.push(milliseconds);
        links = manager.size().1;
        let mut random = Random::new(round, 1);
        let mut milliseconds = Vec::new();
        for number in 0..REQUESTS {
            let request = request(&mut random, number);
            let key = (request.subscriber, request.transfer);
            let start = Instant::now();
            manager.handle_path_request(now, NodeId(1), black_box(request));
            let messages: Vec<_> = std::iter::from_fn(|| manager.poll_message()).collect();
            milliseconds.push(start.elapsed().as_secs_f64() * 1e3);
            fewest = fewest.min(paths_in(&messages, key)?);
        }
        rounds.push(median(&milliseconds));
        slowest.push(milliseconds.iter().copied().fold(0.0, f64::max));
    }
    let what = format!("{PATHS} verified paths both ways");
    let mut findings = Findings::default();
    findings.figures.push(Figure::new(what.clone(), "ms", rounds).judged(targets::PATH_COMPUTATION));
    findings.figures.push(Figure::new(format!("{what}, slowest of {REQUESTS}"), "ms", slowest));
    findings.figures.push(Figure::new("the graph from the link states, and all routes", "ms", graph_milliseconds));
    findings.notes.push(format!(
        "{NODES} nodes, {links} directed links (a ring and random chords), one graph a round; one request is \
         k shortest paths, choice by disjointness, two FIDs a path, verification and offer; at least {fewest} paths offered",
    ));
    Ok(findings)
}

/// A manager that knows and manages the domain, and the time that learning took.
fn ready(seed: u64) -> Outcome<(TopologyManager, Time, f64)> {
    let mut config = ManagerConfig::new(&Config { node: NodeId(1), ..Config::new("manager", seed) }, 100, 1);
    config.node_silence = Duration::from_secs(3_600);
    let mut manager = TopologyManager::new(config);
    let mut now = Time::from_millis(1);
    manager.handle_timeout(now);
    let start = Instant::now();
    for state in domain(seed) {
        manager.handle_link_state(now, state);
    }
    for _ in 0..1_000 {
        if manager.is_active() && manager.size().0 as u64 == NODES {
            break;
        }
        now += Duration::from_millis(10);
        manager.handle_timeout(now);
    }
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    if !manager.is_active() || manager.size().0 as u64 != NODES {
        return Err(format!("the manager knows {:?} nodes and links: {:?}", manager.size(), manager.refused).into());
    }
    while manager.poll_message().is_some() {}
    Ok((manager, now, milliseconds))
}

/// A ring with random chords.
fn domain(seed: u64) -> Vec<LinkState> {
    let mut random = Random::new(seed, 0);
    let mut states: Vec<LinkState> = (1..=NODES)
        .map(|node| LinkState {
            node: NodeId(node),
            boot: 1,
            sequence: 1,
            term: 0,
            roles: Roles::ROUTER,
            label: format!("node-{node}"),
            secret: [random.bits(), random.bits()].map(u64::to_le_bytes).concat().try_into().expect("twice eight"),
            location: None,
            adjacencies: Vec::new(),
        })
        .collect();
    let ring = (0..NODES).map(|node| (node, (node + 1) % NODES));
    let chords: Vec<_> = (0..CHORDS).map(|_| (random.below(NODES), random.below(NODES))).collect();
    for (a, b) in ring.chain(chords).filter(|(a, b)| a != b) {
        let [a, b] = [a as usize, b as usize];
        let faces = [a, b].map(|node| FaceId(states[node].adjacencies.len() as u32 + 1));
        for (from, to, face, other) in [(a, b, faces[0], faces[1]), (b, a, faces[1], faces[0])] {
            states[from].adjacencies.push(Adjacency {
                face,
                neighbour: NodeId(to as u64 + 1),
                neighbour_face: other,
                rtt_us: 2_000,
                capacity_kbps: 1_000_000,
                used_kbps: 0,
                mtu: 1_472,
            });
        }
    }
    states
}

fn request(random: &mut Random, number: u64) -> PathRequest {
    let subscriber = random.below(NODES);
    let publisher = (subscriber + 1 + random.below(NODES - 1)) % NODES;
    PathRequest {
        subscriber: NodeId(subscriber + 1),
        transfer: number as u32,
        version: 1,
        item: ItemId::new(&"/bench/file".parse().expect("a name")),
        metric: PathMetric::Hops,
        paths: PATHS,
        lease_ms: 60_000,
        publishers: vec![Publisher {
            node: NodeId(publisher + 1),
            version: 1,
            label: "publisher".into(),
            manifest: vec![0; 200],
        }],
        withdrawn: Vec::new(),
    }
}

/// How many paths the offers among `messages` have.
fn paths_in(messages: &[(NodeId, Message)], (subscriber, transfer): (NodeId, u32)) -> Outcome<usize> {
    let offers = messages.iter().filter_map(|(to, message)| match message {
        Message::Offer(offer) if *to == subscriber && offer.transfer == transfer => Some(offer.paths.len()),
        _ => None,
    });
    match offers.sum() {
        0 => Err("the manager offered no path".into()),
        paths => Ok(paths),
    }
}

//! A topology manager's time for one path request, in this process: eight paths between two nodes of a graph of 1,000,
//! each with a FID for the data and one for the requests, all verified to reach no other node. And its processor time
//! for a link between routers that goes and returns, in a domain of 800 nodes with 400 transfers.
use std::{collections::BTreeMap, hint::black_box, time::Instant};

use nix::{
    sys::time::TimeValLike,
    time::{ClockId, clock_gettime},
};
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
/// Nodes of the domain with a link that flaps. Each joins by two links, mostly to nodes that have many.
const FLAP_NODES: u64 = 800;
/// Transfers there, and their paths per source.
const TRANSFERS: u64 = 400;
const FLAP_PATHS: u8 = 4;
/// Rendezvous nodes, to which the manager gives all nodes routes.
const RESOLVERS: std::ops::RangeInclusive<u64> = 2..=4;
/// Links that flap in a round, one after the other.
const FLAPS: usize = 40;

pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let mut rounds = Vec::new();
    let mut slowest = Vec::new();
    let mut fewest = usize::MAX;
    let (mut links, mut graph_milliseconds) = (0, Vec::new());
    for round in 0..context.arguments.rounds() as u64 {
        let (mut manager, now, milliseconds) = ready(domain(NODES, &ring(round), round))?;
        graph_milliseconds.push(milliseconds);
        links = manager.size().1;
        let mut random = Random::new(round, 1);
        let mut milliseconds = Vec::new();
        for number in 0..REQUESTS {
            let request = request(&mut random, number, NODES, PATHS);
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
    flaps(context, &mut findings)?;
    Ok(findings)
}

/// What a link between routers costs the manager that goes and returns.
fn flaps(context: &Context<'_>, findings: &mut Findings) -> Outcome {
    let (mut typical, mut busiest, mut computations) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..context.arguments.rounds() as u64 {
        let links = grown(round);
        let (manager, now, _) = ready(domain(FLAP_NODES, &links, round))?;
        let states = domain(FLAP_NODES, &links, round);
        let mut flapping = Flapping { manager, now, states, used: BTreeMap::new() };
        let mut random = Random::new(round, 1);
        for number in 0..TRANSFERS {
            let request = request(&mut random, number, FLAP_NODES, FLAP_PATHS);
            flapping.manager.handle_path_request(flapping.now, NodeId(1), request);
            flapping.settle();
        }
        let known = |link: &(&(u64, u64), &u64)| links.contains(link.0) || links.contains(&(link.0.1, link.0.0));
        let most = *flapping.used.iter().filter(known).max_by_key(|(_, paths)| **paths).ok_or("no path was offered")?.0;
        let mut milliseconds = Vec::new();
        for _ in 0..FLAPS {
            let before = flapping.manager.computations;
            milliseconds.push(flapping.flap(links[random.below(links.len() as u64) as usize])?);
            computations.push((flapping.manager.computations - before) as f64);
        }
        typical.push(median(&milliseconds));
        busiest.push(flapping.flap(most)?);
    }
    let what = "a link goes and returns, processor time";
    findings.figures.push(Figure::new(what, "ms", typical).judged(targets::FLAP));
    findings
        .figures
        .push(Figure::new(format!("{what}, the link with the most paths"), "ms", busiest).judged(targets::FLAP));
    findings.notes.push(format!(
        "flaps: {FLAP_NODES} nodes in a graph grown by preferential attachment, {TRANSFERS} transfers of {FLAP_PATHS} \
         paths; median of {FLAPS} links at random; on average {:.1} transfers are searched again",
        computations.iter().sum::<f64>() / computations.len() as f64
    ));
    Ok(())
}

/// A manager of a domain with a link that flaps.
struct Flapping {
    manager: TopologyManager,
    now: Time,
    states: Vec<LinkState>,
    /// Links by the offers' labels of paths that have them.
    used: BTreeMap<(u64, u64), u64>,
}

impl Flapping {
    /// Serves timers and takes messages until nothing is left to do soon.
    fn settle(&mut self) {
        for _ in 0..30 {
            self.now += Duration::from_millis(10);
            self.manager.handle_timeout(self.now);
            while let Some((_, message)) = self.manager.poll_message() {
                let Message::Offer(offer) = message else { continue };
                for label in offer.paths.iter().map(|path| path.label.as_str()) {
                    let nodes: Vec<u64> = label.split('>').filter_map(|node| node[1..].parse().ok()).collect();
                    for pair in nodes.windows(2) {
                        *self.used.entry((pair[0].min(pair[1]) - 1, pair[0].max(pair[1]) - 1)).or_default() += 1;
                    }
                }
            }
            while self.manager.poll_beacon().is_some() || self.manager.poll_event().is_some() {}
        }
    }
    /// Both ends report that the link has gone, later that it is back. Returns the processor time in milliseconds.
    fn flap(&mut self, (a, b): (u64, u64)) -> Outcome<f64> {
        let before = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
        for is_up in [false, true] {
            for (node, other) in [(a, b), (b, a)] {
                let state = &mut self.states[node as usize];
                state.sequence += 1;
                let mut state = state.clone();
                state.adjacencies.retain(|link| is_up || link.neighbour != NodeId(other + 1));
                self.manager.handle_link_state(self.now, state);
            }
            self.settle();
        }
        Ok((clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)? - before).num_nanoseconds() as f64 / 1e6)
    }
}

/// A manager that knows and manages the domain, and the time that learning took.
fn ready(states: Vec<LinkState>) -> Outcome<(TopologyManager, Time, f64)> {
    let nodes = states.len();
    let mut config = ManagerConfig::new(&Config { node: NodeId(1), ..Config::new("manager", 1) }, 100, 1);
    config.node_silence = Duration::from_secs(3_600);
    let mut manager = TopologyManager::new(config);
    let mut now = Time::from_millis(1);
    manager.handle_timeout(now);
    let start = Instant::now();
    for state in states {
        manager.handle_link_state(now, state);
    }
    for _ in 0..1_000 {
        if manager.is_active() && manager.size().0 == nodes {
            break;
        }
        now += Duration::from_millis(10);
        manager.handle_timeout(now);
    }
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    if !manager.is_active() || manager.size().0 != nodes {
        return Err(format!("the manager knows {:?} nodes and links: {:?}", manager.size(), manager.refused).into());
    }
    while manager.poll_message().is_some() {}
    Ok((manager, now, milliseconds))
}

/// A ring with random chords.
fn ring(seed: u64) -> Vec<(u64, u64)> {
    let mut random = Random::new(seed, 0);
    let ring = (0..NODES).map(|node| (node, (node + 1) % NODES));
    let chords: Vec<_> = (0..CHORDS).map(|_| (random.below(NODES), random.below(NODES))).collect();
    ring.chain(chords).filter(|(a, b)| a != b).collect()
}
/// A graph in which each new node has two links, to nodes chosen by the number of their links (Barabási and Albert 1999).
fn grown(seed: u64) -> Vec<(u64, u64)> {
    let mut random = Random::new(seed, 0);
    let mut links = vec![(0, 1)];
    for node in 2..FLAP_NODES {
        let mut pick = || {
            let (a, b) = links[random.below(links.len() as u64) as usize];
            if random.chance(0.5) { a } else { b }
        };
        let one = pick();
        let other = (0..100).map(|_| pick()).find(|other| *other != one);
        links.push((one, node));
        links.extend(other.map(|other| (other, node)));
    }
    links
}
/// The link states of routers with these links.
fn domain(nodes: u64, links: &[(u64, u64)], seed: u64) -> Vec<LinkState> {
    let mut random = Random::new(seed, 2);
    let mut states: Vec<LinkState> = (1..=nodes)
        .map(|node| LinkState {
            node: NodeId(node),
            boot: 1,
            sequence: 1,
            term: 0,
            roles: if RESOLVERS.contains(&node) { Roles::ROUTER | Roles::RESOLVER } else { Roles::ROUTER },
            label: format!("n{node}"),
            secret: [random.bits(), random.bits()].map(u64::to_le_bytes).concat().try_into().expect("twice eight"),
            location: None,
            adjacencies: Vec::new(),
        })
        .collect();
    for (a, b) in links {
        let [a, b] = [*a as usize, *b as usize];
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

fn request(random: &mut Random, number: u64, nodes: u64, paths: u8) -> PathRequest {
    let subscriber = random.below(nodes);
    let publisher = (subscriber + 1 + random.below(nodes - 1)) % nodes;
    PathRequest {
        subscriber: NodeId(subscriber + 1),
        transfer: number as u32,
        version: 1,
        item: ItemId::new(&"/bench/file".parse().expect("a name")),
        metric: PathMetric::Hops,
        paths,
        lease_ms: u32::MAX,
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

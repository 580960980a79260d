//! Figures of the forwarder and of the topology manager (design target 15):
//! `cargo run --release -p tributary-psi --example topology_bench`
//!
//! One argument chooses a part: `forwarding`, `paths` or `sizes`. On a busy machine look at the best run.
//!
//! - nanoseconds per packet and per link of a forwarding decision, queueing and batching included,
//! - microseconds for 8 verified paths both ways on a random graph of 1,000 nodes, with and without remembered labels,
//! - the share of paths for which a Bloom filter of each size suffices with 1, 8 and 64 salts.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark measures wall-clock time and prints it"
)]

use std::{collections::BTreeSet, time::Instant};

use bytes::Bytes;
use tributary_core::{ByteCount, Datagram, FaceId, NodeId, Random, Time, TransmitBuf};
use tributary_psi::{
    ids::Roles,
    resolver::topology::{FidBuilder, FidConfig, Graph, LinkIndex, NodeIndex, PathConfig, Source, Tree, select},
    router::{
        Router, RouterConfig,
        labels::{FILTER_WORDS_MAX, Port, filter_bytes},
    },
    wire::{Adjacency, DataHeader, Fid, FidKind, Header, LinkState, PacketType, StreamKey, TTL_MAX, list_fid},
};
use tributary_transport::FaceOptions;

fn main() {
    let wanted = std::env::args().nth(1);
    let is_wanted = |name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
    if is_wanted("forwarding") {
        forwarding();
    }
    if is_wanted("paths") {
        paths();
    }
    if is_wanted("sizes") {
        sizes();
    }
}

fn forwarding() {
    println!("forwarding a Data packet of 1,400 bytes to one face (median and best of 31 runs of 20,000 packets)");
    for (kind, bytes) in [(FidKind::Bloom, 8), (FidKind::Bloom, 32), (FidKind::Bloom, 64), (FidKind::List, 16)] {
        for faces in [4u32, 16, 64] {
            let mut config = RouterConfig::new(NodeId(1), [1; 16]);
            config.cache_bytes = ByteCount(0);
            let mut router = Router::new(config);
            for face in 0..faces {
                router.add_face(FaceId(face), FaceOptions { mtu: 9000, rate: None });
                router.set_face_up(FaceId(face), true);
            }
            let port = Port::Face(FaceId(faces - 1));
            let fid = match kind {
                FidKind::Bloom => {
                    let mut filter = [0; FILTER_WORDS_MAX];
                    router.label_key().seeds(port, 3).bloom(bytes, 5).add_to(&mut filter);
                    Fid::new(FidKind::Bloom, 3, &filter_bytes(&filter, bytes))
                }
                _ => list_fid(&[[9; 4], [8; 4], router.label_key().list(port), [7; 4]]),
            };
            let mut packet = Vec::new();
            Header { packet_type: PacketType::Data, flags: 0, ttl: TTL_MAX, fid }.encode(&mut packet);
            DataHeader { tag: 1, packet: 2, stream: StreamKey([3; 6]), origin: 4 }.encode(&mut packet);
            packet.resize(1400, 0);
            let packet = Datagram::from(Bytes::from(packet));
            let mut batch = TransmitBuf::new();
            let per_packet = runs(|| {
                let start = Instant::now();
                for _ in 0..20_000 / 64 {
                    for _ in 0..64 {
                        let verdict = router.forward(Time::ZERO, Some(FaceId(0)), packet.clone());
                        debug_assert_eq!(verdict.copies, 1);
                    }
                    router.poll_transmit(&mut batch);
                    batch.clear();
                }
                start.elapsed().as_nanos() as f64 / 20_000.0
            });
            // The decision alone: FIDs that match nothing take the same tests and no copy. There are two of them in
            // turn, because the router remembers its last decision.
            let misses = [0x11, 0x22].map(|fill| {
                let fid = match kind {
                    FidKind::Bloom => Fid::new(FidKind::Bloom, 3, &vec![fill; bytes]),
                    _ => list_fid(&[[9; 4], [8; 4], [fill; 4], [7; 4]]),
                };
                let mut packet = Vec::new();
                Header { packet_type: PacketType::Data, flags: 0, ttl: TTL_MAX, fid }.encode(&mut packet);
                packet.resize(1400, 0);
                Datagram::from(Bytes::from(packet))
            });
            let decision = runs(|| {
                let start = Instant::now();
                for i in 0..20_000 {
                    let verdict = router.forward(Time::ZERO, Some(FaceId(0)), misses[i % 2].clone());
                    debug_assert_eq!(verdict.copies, 0);
                }
                start.elapsed().as_nanos() as f64 / 20_000.0
            });
            println!(
                "  {kind:?} of {bytes:2} bytes, {faces:2} links: {:6.1} / {:6.1} ns a packet; \
                 without a match {:6.1} / {:6.1} ns, best {:5.2} ns a link",
                per_packet.0,
                per_packet.1,
                decision.0,
                decision.1,
                decision.1 / f64::from(faces),
            );
        }
    }
}

fn paths() {
    let graph = random_graph(1000, 1000, 7);
    println!("8 verified paths both ways, {} nodes, {} directed links", graph.node_count(), graph.link_count());
    let costs = graph.costs(Default::default());
    let pairs: Vec<(NodeIndex, NodeIndex)> = (0..50).map(|i| (NodeIndex(i * 7), NodeIndex(999 - i * 11))).collect();
    let (mut cold, mut warm, mut search) = (Vec::new(), Vec::new(), Vec::new());
    let (mut kinds, mut bytes) = ([0; 3], 0);
    for (source, receiver) in pairs {
        let mut builder = FidBuilder::new(FidConfig::default());
        builder.on_graph(&graph, &BTreeSet::new());
        for times in [&mut cold, &mut warm] {
            let start = Instant::now();
            let sources = [Source { node: source }];
            let chosen = select(&graph, &costs, &sources, receiver, 8, &PathConfig::default()).remove(0);
            search.push(start.elapsed().as_micros() as f64);
            assert_eq!(chosen.len(), 8);
            for path in chosen {
                let back: Vec<LinkIndex> = path.links.iter().rev().filter_map(|link| graph.reverse_of(*link)).collect();
                let forward = Tree { source, links: &path.links, destinations: &[receiver] };
                let reverse = Tree { source: receiver, links: &back, destinations: &[source] };
                for tree in [forward, reverse] {
                    let fid = builder.build(&graph, tree).expect("paths of this graph can be encoded");
                    kinds[fid.kind() as usize] += 1;
                    bytes += fid.bytes().len();
                }
            }
            times.push(start.elapsed().as_micros() as f64);
        }
    }
    println!(
        "  first time: median {:.0} µs, best {:.0} µs, worst {:.0} µs; with remembered labels: median {:.0} µs; \
         path search alone: median {:.0} µs, best {:.0} µs",
        quantile(&mut cold, 0.5),
        quantile(&mut cold, 0.0),
        quantile(&mut cold, 1.0),
        quantile(&mut warm, 0.5),
        quantile(&mut search, 0.5),
        quantile(&mut search, 0.0)
    );
    println!(
        "  kinds: {} bloom, {} bitmap, {} list; {:.1} bytes on average",
        kinds[0],
        kinds[1],
        kinds[2],
        bytes as f64 / kinds.iter().sum::<usize>() as f64
    );
}

fn sizes() {
    println!("share of unicast paths over nodes of degree 4 that a Bloom filter reaches without a false match");
    println!("  bytes  salts  {}", [4, 8, 16, 24, 32, 48, 64].map(|hops| format!("{hops:>5} hops")).join(" "));
    for bytes in [8, 16, 31, 64, 96] {
        for salts in [1, 8, 64] {
            let mut row = Vec::new();
            for hops in [4usize, 8, 16, 24, 32, 48, 64] {
                let trials = 100;
                let mut reached = 0;
                for trial in 0..trials {
                    let graph = caterpillar(hops, trial);
                    let config = FidConfig {
                        kinds: vec![FidKind::Bloom],
                        bloom_bytes: vec![bytes],
                        salts,
                        ..FidConfig::default()
                    };
                    let mut builder = FidBuilder::new(config);
                    let costs = graph.costs(Default::default());
                    let (source, receiver) = (NodeIndex(0), NodeIndex(hops as u32));
                    let config = PathConfig { hops_max: 64, ..PathConfig::default() };
                    let path =
                        select(&graph, &costs, &[Source { node: source }], receiver, 1, &config).remove(0).remove(0);
                    let tree = Tree { source, links: &path.links, destinations: &[receiver] };
                    reached += usize::from(builder.build(&graph, tree).is_some());
                }
                row.push(format!("{:>10.2}", reached as f64 / trials as f64));
            }
            println!("  {bytes:5}  {salts:5}  {}", row.join(" "));
        }
    }
}

/// Median and best of 31 runs.
fn runs(mut run: impl FnMut() -> f64) -> (f64, f64) {
    let mut times: Vec<f64> = (0..31).map(|_| run()).collect();
    (quantile(&mut times, 0.5), quantile(&mut times, 0.0))
}
fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share) as usize]
}

/// A random tree with `extra` more links, in the style of `count` routers.
fn random_graph(count: usize, extra: usize, seed: u64) -> Graph {
    let mut random = Random::new(seed, 0);
    let mut links: Vec<(usize, usize)> = (1..count).map(|i| (random.below(i as u64) as usize, i)).collect();
    while links.len() < count - 1 + extra {
        let (a, b) = (random.below(count as u64) as usize, random.below(count as u64) as usize);
        if a != b && !links.contains(&(a, b)) && !links.contains(&(b, a)) {
            links.push((a, b));
        }
    }
    graph(count, &links, seed)
}
/// A path of `hops` links whose nodes each have four links.
fn caterpillar(hops: usize, seed: u64) -> Graph {
    let mut links: Vec<(usize, usize)> = (0..hops).map(|i| (i, i + 1)).collect();
    let mut next = hops + 1;
    for node in 0..=hops {
        let missing = if node == 0 || node == hops { 3 } else { 2 };
        for _ in 0..missing {
            links.push((node, next));
            next += 1;
        }
    }
    graph(next, &links, seed)
}
fn graph(count: usize, links: &[(usize, usize)], seed: u64) -> Graph {
    let mut random = Random::new(seed, 1);
    let mut states: Vec<LinkState> = (0..count)
        .map(|i| {
            let mut secret = [0; 16];
            secret[..8].copy_from_slice(&random.bits().to_be_bytes());
            LinkState {
                node: NodeId(i as u64 + 1),
                boot: 1,
                sequence: 1,
                term: 0,
                roles: Roles::ROUTER,
                label: format!("n{i}"),
                secret,
                location: None,
                adjacencies: Vec::new(),
            }
        })
        .collect();
    for (a, b) in links {
        let faces = [states[*a].adjacencies.len() as u32, states[*b].adjacencies.len() as u32];
        for (from, to, own, other) in [(*a, *b, faces[0], faces[1]), (*b, *a, faces[1], faces[0])] {
            states[from].adjacencies.push(Adjacency {
                face: FaceId(own),
                neighbour: NodeId(to as u64 + 1),
                neighbour_face: FaceId(other),
                rtt_us: 1000,
                capacity_kbps: 10_000,
                used_kbps: 0,
                mtu: 1472,
            });
        }
    }
    Graph::new(&states.iter().collect::<Vec<_>>())
}

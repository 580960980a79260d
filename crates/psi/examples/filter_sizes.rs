//! The share of paths for which a Bloom filter of each size suffices with 1, 8 and 64 salts:
//! `cargo run --release -p trib-psi --example filter_sizes`
#![expect(clippy::print_stdout, reason = "a benchmark prints what it measures")]

use tributary_core::{FaceId, NodeId, Random};
use tributary_psi::{
    ids::Roles,
    resolver::topology::{FidBuilder, FidConfig, Graph, NodeIndex, PathConfig, Tree, select},
    wire::{Adjacency, FidKind, LinkState},
};

fn main() {
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
                    let config = FidConfig { kinds: vec![FidKind::Bloom], bloom_bytes: vec![bytes], salts };
                    let mut builder = FidBuilder::new(config);
                    let costs = graph.costs(Default::default());
                    let (source, receiver) = (NodeIndex(0), NodeIndex(hops as u32));
                    let config = PathConfig { hops_max: 64, ..PathConfig::default() };
                    let path = select(&graph, &costs, &[source], receiver, 1, &config).remove(0).remove(0);
                    let tree = Tree { source, links: &path.links, destinations: &[receiver] };
                    reached += usize::from(builder.build(&graph, tree).is_some());
                }
                row.push(format!("{:>10.2}", reached as f64 / trials as f64));
            }
            println!("  {bytes:5}  {salts:5}  {}", row.join(" "));
        }
    }
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

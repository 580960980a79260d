//! What finds the forwarding entry of an Interest fastest: the acceleration base, longest prefix match by hash, or a
//! trie of components; at 10, 10³ and 10⁶ prefixes. And what tags cost, in bytes and time, as random labels and as
//! Huffman codes.
//!
//! `cargo run --release -p tributary-ndn --example lookup_bench`
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]
use std::{
    collections::HashMap,
    hint::black_box,
    time::{Duration, Instant},
};

use tributary_content::Name;
use tributary_core::{FaceId, Random};
use tributary_ndn::{
    router::{
        fab::Fab,
        fib::{Fib, NextHop},
        hash::NameHasher,
        labels::Labels,
    },
    wire::{NameView, PathTag, huffman::BitTag},
};

/// Look-ups per measurement; the median of [`ROUNDS`] counts.
const LOOKUPS: usize = 200_000;
const ROUNDS: usize = 7;
/// Flows under way at one time: Interests come in runs of one flow or mixed.
const FLOWS: usize = 64;

/// A trie of components, as the textbook has it.
#[derive(Default)]
struct Trie {
    children: HashMap<Box<[u8]>, Trie>,
    face: Option<FaceId>,
}

impl Trie {
    fn insert(&mut self, prefix: &Name, face: FaceId) {
        let mut at = self;
        for component in prefix.components() {
            at = at.children.entry(component.into()).or_default();
        }
        at.face = Some(face);
    }
    fn lookup(&self, name: NameView<'_>) -> Option<FaceId> {
        let (mut at, mut found) = (self, self.face);
        for component in name.components() {
            let Some(next) = at.children.get(component.value) else { break };
            at = next;
            found = at.face.or(found);
        }
        found
    }
}

#[expect(clippy::disallowed_methods, reason = "a measurement of wall-clock time")]
fn median(mut run: impl FnMut() -> u64) -> f64 {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            black_box(run());
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[ROUNDS / 2].as_secs_f64() * 1e9 / LOOKUPS as f64
}

/// A prefix of two to five components, as sites, groups and collections have them.
fn prefix(n: u64, random: &mut Random) -> Name {
    let mut name: Name = format!("/net/site-{}", n % 1009).parse().unwrap();
    name = name.child(format!("group-{n}").as_bytes()).unwrap();
    for _ in 0..random.below(3) {
        name = name.child(format!("part-{}", random.below(50)).as_bytes()).unwrap();
    }
    name
}

fn look_ups() {
    println!("{:>9}  {:>22}  {:>10}  {:>10}  {:>10}", "prefixes", "Interests", "FAB", "hash LPM", "trie LPM");
    for count in [10u64, 1_000, 1_000_000] {
        let mut random = Random::new(1, count);
        let hasher = NameHasher::new([random.bits(), random.bits()]);
        let (mut fib, mut trie, mut prefixes) = (Fib::new(hasher, 1 << 21), Trie::default(), Vec::new());
        for n in 0..count {
            let prefix = prefix(n, &mut random);
            fib.set(&prefix, &[NextHop { face: FaceId(n as u32), cost: 0 }], 0);
            trie.insert(&prefix, FaceId(n as u32));
            prefixes.push(prefix);
        }
        for (kind, flows) in [("64 flows in turn", FLOWS), ("100,000 flows in turn", 100_000)] {
            let names: Vec<Name> = (0..LOOKUPS)
                .map(|at| {
                    let flow = at % flows;
                    let prefix = &prefixes[flow * 7919 % prefixes.len()];
                    let name: Name = prefix.child(format!("file-{flow}").as_bytes()).unwrap();
                    let name = name.typed_child(54, &[1]).unwrap();
                    name.typed_child(50, &(at as u32 / flows as u32).to_be_bytes()).unwrap()
                })
                .collect();
            let mut fab = Fab::new(4096);
            let by_fab = median(|| {
                let mut found = 0;
                for name in &names {
                    let view = NameView::from(name);
                    let hashes = hasher.prefixes(view).unwrap();
                    let depth = hashes.depth() - 1;
                    let (hash, end) = hashes.at(depth);
                    let flow = &name.as_tlv()[..end];
                    let index = fab.lookup(hash, flow, 1).unwrap_or_else(|| {
                        let index = fib.longest_match_from(&hashes, name.as_tlv(), depth);
                        fab.insert(hash, flow, index);
                        index
                    });
                    found += u64::from(index.is_some());
                }
                found
            });
            let by_hash = median(|| {
                let mut found = 0;
                for name in &names {
                    let hashes = hasher.prefixes(NameView::from(name)).unwrap();
                    found += u64::from(fib.longest_match(&hashes, name.as_tlv()).is_some());
                }
                found
            });
            let by_trie =
                median(|| names.iter().map(|name| u64::from(trie.lookup(NameView::from(name)).is_some())).sum());
            println!("{count:>9}  {kind:>22}  {by_fab:>7.0} ns  {by_hash:>7.0} ns  {by_trie:>7.0} ns");
        }
    }
}

/// Tags over paths whose routers have `faces` faces, named as often as Zipf's law with exponent 1 says.
fn tags() {
    println!(
        "\n{:>5}  {:>5}  {:>16}  {:>16}  {:>12}  {:>12}",
        "hops", "faces", "random labels", "Huffman codes", "push+pop", "push+pop"
    );
    for hops in [4usize, 8, 16] {
        for faces in [4u32, 16, 64] {
            let mut random = Random::new(hops as u64, faces.into());
            let mut routers: Vec<Labels> = (0..hops).map(|at| Labels::new([at as u8 + 1; 16])).collect();
            routers.iter_mut().for_each(|router| (0..faces).for_each(|face| router.add(FaceId(face))));
            let weights: f64 = (1..=faces).map(|rank| 1.0 / f64::from(rank)).sum();
            let mut face = || {
                let mut point = random.unit() * weights;
                let rank = (1..=faces).find(|rank| {
                    point -= 1.0 / f64::from(*rank);
                    point < 0.0
                });
                FaceId(rank.unwrap_or(faces) - 1)
            };
            let paths: Vec<Vec<FaceId>> = (0..2000).map(|_| (0..hops).map(|_| face()).collect()).collect();
            let rounds = LOOKUPS / (paths.len() * hops);
            let (mut bytes, mut bits) = (0, 0);
            let by_label = median(|| {
                for _ in 0..rounds.max(1) {
                    for path in &paths {
                        let mut tag = Vec::new();
                        for (router, face) in routers.iter().zip(path) {
                            tag = router.push(PathTag::parse(&tag).unwrap(), *face).unwrap();
                        }
                        bytes = tag.len();
                        let mut rest = PathTag::parse(&tag).unwrap();
                        for router in routers.iter().rev() {
                            rest = router.pop(rest).unwrap().1;
                        }
                    }
                }
                0
            });
            let by_code = median(|| {
                bits = 0;
                for _ in 0..rounds.max(1) {
                    for path in &paths {
                        let mut tag: Option<Vec<u8>> = None;
                        for (router, face) in routers.iter_mut().zip(path) {
                            let before = tag.as_deref().map(|tag| BitTag::parse(tag).unwrap());
                            tag = Some(router.push_bits(before, *face).unwrap().value());
                        }
                        let mut tag = tag.unwrap();
                        bits += tag.len();
                        for router in routers.iter().rev() {
                            tag = router.pop_bits(BitTag::parse(&tag).unwrap()).unwrap().1.value();
                        }
                    }
                }
                0
            });
            let mean = bits as f64 / (rounds.max(1) * paths.len()) as f64;
            let scale = LOOKUPS as f64 / (rounds.max(1) * paths.len() * hops) as f64;
            println!(
                "{hops:>5}  {faces:>5}  {bytes:>10} bytes  {mean:>10.1} bytes  {:>9.0} ns  {:>9.0} ns",
                by_label * scale,
                by_code * scale
            );
        }
    }
}

fn main() {
    look_ups();
    tags();
}

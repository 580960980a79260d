//! What path tags cost, in bytes and time, as random labels and as Huffman codes. Look-ups are measured by
//! `cargo xtask bench ndn-lookup`.
//!
//! `cargo run --release -p trib-ndn --example tags_bench`
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]
use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use tributary_core::{FaceId, Random};
use tributary_ndn::{
    router::labels::Labels,
    wire::{PathTag, huffman::BitTag},
};

/// Labels per measurement; the median of [`ROUNDS`] counts.
const LABELS: usize = 200_000;
const ROUNDS: usize = 7;

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
    times[ROUNDS / 2].as_secs_f64() * 1e9 / LABELS as f64
}

/// Tags over paths whose routers have `faces` faces, named with frequencies by Zipf's law with exponent 1.
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
            let rounds = LABELS / (paths.len() * hops);
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
            let scale = LABELS as f64 / (rounds.max(1) * paths.len() * hops) as f64;
            println!(
                "{hops:>5}  {faces:>5}  {bytes:>10} bytes  {mean:>10.1} bytes  {:>9.0} ns  {:>9.0} ns",
                by_label * scale,
                by_code * scale
            );
        }
    }
}

fn main() {
    tags();
}

//! What a packet costs by the number of faces: `cargo run --release -p tributary-ndn --example faces_bench`
//!
//! An Interest arrives on one face and leaves on another, and its Data returns; timers are polled after each packet, as
//! by a driver. Printed: nanoseconds per exchange, median of 9 runs of 5,000, and the factor against 4 faces.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark measures wall-clock time and prints it"
)]

use std::time::Instant;

use bytes::Bytes;
use tributary_content::Name;
use tributary_core::{Datagram, FaceId, Time, TransmitBuf};
use tributary_ndn::{
    ids::Nonce,
    router::{FaceProfile, Router, RouterConfig},
    wire::{Data, Interest, NameView, SignKey},
};
use tributary_transport::FaceOptions;

const EXCHANGES: u64 = 5_000;

fn main() {
    let mut least = None;
    for faces in [4, 40, 400, 4_000] {
        let mut runs: Vec<f64> = (0..9).map(|run| measure(faces, run)).collect();
        runs.sort_by(f64::total_cmp);
        let median = runs[runs.len() / 2];
        let factor = median / *least.get_or_insert(median);
        println!("{faces:>6} faces: {median:>8.0} ns for an Interest and its Data, {factor:.2} times that with 4");
    }
}

fn measure(faces: u32, run: u64) -> f64 {
    let mut config = RouterConfig::new([7; 16]);
    config.limits.faces_max = faces as usize + 1;
    let mut router = Router::new(config);
    for face in 1..=faces {
        router.add_face(FaceId(face), FaceProfile::from(FaceOptions { mtu: 1_472, rate: None }));
    }
    let prefix: Name = "/a".parse().expect("a name");
    assert!(router.add_route(&prefix, FaceId(faces), 1));
    let exchanges: Vec<(Bytes, Bytes)> = (0..EXCHANGES)
        .map(|number| {
            let name: Name = format!("/a/{run}/{number}").parse().expect("a name");
            let view = NameView::from(&name);
            let interest = Interest { nonce: Some(Nonce::from(number)), ..Interest::new(view) };
            (interest.encode().into(), Data::new(view, b"content").sign(&SignKey::Digest).into())
        })
        .collect();
    let mut out = TransmitBuf::new();
    let mut sent = 0;
    let begin = Instant::now();
    for (number, (interest, data)) in exchanges.into_iter().enumerate() {
        let now = Time::from_millis(number as u64 / 100 + 1);
        for (face, packet) in [(FaceId(2), interest), (FaceId(faces), data)] {
            router.handle_datagram(now, face, Datagram::from(packet));
            out.clear();
            while router.poll_transmit(&mut out).is_some() {
                sent += out.len();
                out.clear();
            }
            while router.poll_event().is_some() {}
            if router.poll_timeout().is_some_and(|due| due <= now) {
                router.handle_timeout(now);
            }
        }
    }
    let took = begin.elapsed();
    // A few nonces meet in the table of dead ones.
    assert!(sent as u64 > 19 * EXCHANGES / 10, "{sent} packets of {} were sent", 2 * EXCHANGES);
    took.as_nanos() as f64 / EXCHANGES as f64
}

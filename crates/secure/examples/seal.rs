//! What protection costs: CPU seconds per GiB to seal and to open batches, as a driver calls the layer.
//! `cargo run --release -p trib-secure --example seal -- [PACKET BYTES]`
#![expect(clippy::print_stdout, reason = "it is a measurement")]
use std::{collections::VecDeque, time::Instant};

use bytes::Bytes;
use tributary_core::{
    Datagram, DatagramBatch, FaceId, FaceProtection, Node, PeerKey, Time, TimerId, Transmit, TransmitBuf, event::Event,
};
use tributary_secure::{Admission, Config, Peer, Protection, Refusal, Secured};

#[derive(Default)]
struct Pipe {
    sending: VecDeque<Bytes>,
    heard: usize,
}

impl Node for Pipe {
    fn handle_datagram(&mut self, _: Time, _: FaceId, datagram: Datagram) {
        self.heard += datagram.len();
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, _: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        while let Some(body) = self.sending.pop_front() {
            out.push(&[0; 40], body);
        }
        (!out.is_empty()).then_some(Transmit { face: FaceId(1) })
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        None
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}

struct Anybody;

impl Admission for Anybody {
    fn admit(&mut self, _: Time, _: FaceId, key: &[u8; 32], _: &[u8]) -> Result<Peer, Refusal> {
        Ok(Peer { key: PeerKey(*key), label: String::new() })
    }
}

fn node(number: u8, protection: Protection) -> Secured<Pipe> {
    let config = Config { secret: [number; 32], presented: Vec::new(), protection, policy: FaceProtection::Required };
    let mut next = number;
    let entropy = Box::new(move |bytes: &mut [u8]| {
        for byte in bytes {
            next = next.wrapping_mul(5).wrapping_add(1);
            *byte = next;
        }
    });
    Secured::new(Pipe::default(), config, Box::new(Anybody), entropy)
}

#[expect(clippy::disallowed_methods, reason = "it measures wall-clock time")]
fn main() {
    let packet: usize = std::env::args().nth(1).and_then(|bytes| bytes.parse().ok()).unwrap_or(1_472);
    let body = Bytes::from(vec![7; packet - 40 - tributary_secure::OVERHEAD as usize]);
    let per_batch = (65_000 / packet).min(TransmitBuf::DATAGRAMS_MAX);
    for protection in [Protection::Encrypted, Protection::Authenticated] {
        let mut nodes = [node(1, protection), node(2, protection)];
        let mut batch = TransmitBuf::new();
        nodes[0].node_mut().sending.push_back(body.clone());
        for _ in 0..6 {
            for from in 0..2 {
                while nodes[from].poll_transmit(Time::ZERO, &mut batch).is_some() {
                    for datagram in batch.drain().collect::<Vec<_>>() {
                        nodes[1 - from].handle_datagram(Time::ZERO, FaceId(1), Datagram::from(datagram.to_vec()));
                    }
                }
            }
        }
        let (mut sealing, mut opening) = (0.0, 0.0);
        let batches = (1 << 30) / (per_batch * packet);
        let mut room = vec![0u8; per_batch * packet];
        nodes[1].node_mut().heard = 0;
        for _ in 0..batches {
            nodes[0].node_mut().sending.extend(std::iter::repeat_n(body.clone(), per_batch));
            let start = Instant::now();
            nodes[0].poll_transmit(Time::ZERO, &mut batch);
            sealing += start.elapsed().as_secs_f64();
            let mut at = 0;
            batch.take_each(|_, body| {
                room[at..at + body.len()].copy_from_slice(&body);
                at += body.len();
            });
            let run = DatagramBatch::new(Bytes::copy_from_slice(&room[..at]), packet);
            let start = Instant::now();
            nodes[1].handle_batch(Time::ZERO, FaceId(1), run);
            opening += start.elapsed().as_secs_f64();
        }
        assert_eq!(nodes[1].node().heard, batches * per_batch * (packet - tributary_secure::OVERHEAD as usize));
        println!("{protection:?}, {packet} bytes: sealing {sealing:.2} s/GiB, opening {opening:.2} s/GiB");
    }
}

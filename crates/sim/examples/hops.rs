//! Packet-hops per second of the bare simulator: a sender, three trivial forwarders and a sink in a chain.
//!
//! `cargo run --release -p trib-sim --example hops [PACKETS]`
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark prints wall-clock figures")]
use std::time::Instant;

use bytes::Bytes;
use tributary_core::{event::Event, link::LinkConfig, *};
use tributary_sim::{Network, TraceDepth};

enum Role {
    Sender { left: u64, next: Time, payload: Bytes },
    Forwarder(Vec<Datagram>),
    Sink(u64),
}

const GAP: Duration = Duration::from_nanos(12_000);

impl Node for Role {
    fn handle_datagram(&mut self, _: Time, _: FaceId, datagram: Datagram) {
        match self {
            Role::Sender { .. } => {}
            Role::Forwarder(queue) => {
                let mut datagram = datagram.with_head(40);
                datagram.head_mut()[0] = datagram.head()[0].wrapping_add(1);
                queue.push(datagram);
            }
            Role::Sink(count) => *count += 1,
        }
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        match self {
            Role::Sender { left, next, payload } if *left > 0 && *next <= now => {
                *left -= 1;
                *next = now + GAP;
                out.push(&[0; 40], payload.clone());
            }
            Role::Forwarder(queue) => out.push_datagram(queue.pop()?),
            _ => return None,
        }
        Some(Transmit { face: FaceId(1) })
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        match self {
            Role::Sender { left: 1.., next, .. } => Some((*next, TimerId(0))),
            _ => None,
        }
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}

fn main() {
    let packets = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    for depth in [TraceDepth::Off, TraceDepth::Headers] {
        let mut net = Network::new(1);
        net.set_trace_depth(depth);
        let payload = Bytes::from(vec![1; 1_400]);
        let mut last = net.add_node(Role::Sender { left: packets, next: Time::ZERO, payload });
        for hop in 0..4 {
            let next = net.add_node(if hop < 3 { Role::Forwarder(Vec::new()) } else { Role::Sink(0) });
            let link = LinkConfig::new(Rate::from_mbps(1_000), Duration::from_millis(5));
            net.connect((last, FaceId(1)), (next, FaceId(0)), link.clone(), link);
            last = next;
        }
        let start = Instant::now();
        net.run_until(Time::MAX);
        let seconds = start.elapsed().as_secs_f64();
        let hops = net.stats().packet_hops;
        println!(
            "trace {depth:?}: {hops} packet-hops in {seconds:.3} s: {:.2} million/s, {:.0} ns each, hash {:016x}",
            hops as f64 / seconds / 1e6,
            seconds * 1e9 / hops as f64,
            net.trace_hash(),
        );
    }
}

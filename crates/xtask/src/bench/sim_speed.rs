//! How fast the simulator runs real protocol code: one transfer over four hops of PSI nodes, in this process.
//!
//! ```text
//! receiver ── forwarder ── forwarder ── forwarder ── publisher       1 Gbit/s and 5 ms each
//! ```
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tributary_content::{MemoryObject, SigningKey};
use tributary_core::ByteCount;
use tributary_sim::TraceDepth;
use tributary_testkit::chain::Chain;

use super::{Context, Findings, ours::NAME};
use crate::{
    Outcome,
    harness::{figure::Figure, targets},
    note,
};

/// Bytes of the object.
const SIZE: usize = 64 << 20;
/// Links on the path.
const HOPS: usize = 4;
/// Packet-hops per second of an ns-3 release build with TCP on the same chain, as recorded with the targets.
const NS3_RECORDED: f64 = 135_000.0;

pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let object = MemoryObject::new(NAME.parse()?, vec![7; SIZE], &SigningKey::from_secret(&[1; 32]))?;
    let variants = [
        ("no cache", TraceDepth::Headers, 0),
        ("no cache, no trace hash", TraceDepth::Off, 0),
        ("caches of 16 MiB", TraceDepth::Headers, 16 << 20),
    ];
    let mut rates = vec![Vec::new(); variants.len()];
    let mut mbps = Vec::new();
    for round in 0..context.arguments.rounds() {
        for ((name, depth, cache_bytes), rates) in variants.iter().zip(&mut rates) {
            let crossing =
                Chain { hops: HOPS, depth: *depth, cache_bytes: *cache_bytes }.carry(&object, processor_time)?;
            let (seconds, virtual_seconds) = (crossing.elapsed.as_secs_f64(), crossing.virtual_time.as_secs_f64());
            note(&format!(
                "  round {} {name}: {} packet-hops in {seconds:.3} s of CPU, {virtual_seconds:.3} s of virtual time",
                round + 1,
                crossing.packet_hops,
            ));
            rates.push(crossing.packet_hops as f64 / seconds);
            mbps.push(SIZE as f64 * 8.0 / virtual_seconds / 1e6);
        }
    }
    let mut findings = Findings::default();
    for ((index, (name, ..)), rates) in variants.iter().enumerate().zip(rates) {
        let figure =
            Figure::new(format!("packet-hops, {name}"), "1/s", rates).rival("ns-3, recorded", vec![NS3_RECORDED]);
        findings.figures.push(if index == 0 { figure.judged(targets::SIMULATOR_NS3) } else { figure });
    }
    findings.figures.push(Figure::new("goodput in virtual time", "Mbit/s", mbps));
    findings.notes.push(format!(
        "{} over {HOPS} hops, verified; ns-3 is not run here: its figure is the one recorded with the targets, so that \
         ratio is a hint only",
        ByteCount(SIZE as u64),
    ));
    Ok(findings)
}

/// Of this thread: other load on the machine does not count for the simulator.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

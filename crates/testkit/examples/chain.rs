//! Packet-hops per second of the simulator with real protocol code: one transfer over four hops of PSI nodes.
//!
//! `cargo run --release -p trib-testkit --features psi --example chain [MIB [off|headers [CACHE_MIB]]]`; under
//! `valgrind --tool=callgrind` its instruction count does not depend on other load.
#![expect(clippy::print_stdout, reason = "a benchmark prints what it measures")]
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tributary_content::{MemoryObject, SigningKey};
use tributary_sim::TraceDepth;
use tributary_testkit::chain::Chain;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default| arguments.get(index).map_or(Ok(default), |text| text.parse());
    let (mib, cache_mib) = (number(0, 64)?, number(2, 0)?);
    let depth = if arguments.get(1).is_some_and(|text| text == "off") { TraceDepth::Off } else { TraceDepth::Headers };
    let object = MemoryObject::new("/bench/file".parse()?, vec![7; mib << 20], &SigningKey::from_secret(&[1; 32]))?;
    let crossing = Chain { hops: 4, depth, cache_bytes: (cache_mib as u64) << 20 }.carry(&object, processor_time)?;
    println!(
        "{depth:?}: {} packet-hops in {:?} of CPU, {:.2} million a second; {:?} of virtual time; hash {:016x}",
        crossing.packet_hops,
        crossing.elapsed,
        crossing.packet_hops as f64 / crossing.elapsed.as_secs_f64() / 1e6,
        crossing.virtual_time,
        crossing.trace_hash,
    );
    Ok(())
}

fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

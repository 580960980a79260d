//! How fast the simulator runs real protocol code: one transfer over four hops of PSI nodes, in this process.
//!
//! ```text
//! receiver ── forwarder ── forwarder ── forwarder ── publisher       1 Gbit/s and 5 ms each
//! ```
use std::{cell::Cell, rc::Rc, time::Instant};

use tributary_content::{MemoryObject, MemoryOpener, Name, SigningKey};
use tributary_core::{
    ByteCount, Duration, FaceId, Rate, Time,
    event::{Event, TransferEvent},
    link::LinkConfig,
};
use tributary_psi::{Config, PsiNode};
use tributary_sim::{Network, TraceDepth};
use tributary_transport::{Endpoint, FaceOptions, Fetch, PathMetric};

use super::{Context, Findings, ours::NAME};
use crate::{
    Outcome,
    harness::{figure::Figure, targets},
    note,
};

/// Bytes of the object.
const SIZE: usize = 64 << 20;
/// Links on the way.
const HOPS: usize = 4;
/// Packet-hops per second of an ns-3 release build with TCP on the same chain, as recorded with the targets.
const NS3_RECORDED: f64 = 135_000.0;
/// Virtual time until which the transfer must be over.
const LIMIT: Time = Time::from_millis(60_000);

/// Runs it.
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
            let (packet_hops, seconds, virtual_seconds) = transfer(&object, *depth, *cache_bytes)?;
            note(&format!(
                "  round {} {name}: {packet_hops} packet-hops in {seconds:.3} s, {virtual_seconds:.3} s of virtual time",
                round + 1,
            ));
            rates.push(packet_hops as f64 / seconds);
            mbps.push(SIZE as f64 * 8.0 / virtual_seconds / 1e6);
        }
    }
    let mut findings = Findings::default();
    for ((index, (name, ..)), rates) in variants.iter().enumerate().zip(rates) {
        let figure =
            Figure::new(format!("packet-hops, {name}"), "1/s", rates).beside("ns-3, recorded", vec![NS3_RECORDED]);
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

/// Packet-hops, seconds, and seconds of virtual time of one transfer.
fn transfer(object: &MemoryObject, depth: TraceDepth, cache_bytes: u64) -> Outcome<(u64, f64, f64)> {
    let mut network = Network::new(1);
    network.set_trace_depth(depth);
    let nodes: Vec<_> = (0..=HOPS)
        .map(|index| {
            let mut config = Config::new(&format!("node-{index}"), index as u64 + 1);
            config.router = index > 0 && index < HOPS;
            config.cache_bytes = ByteCount(cache_bytes);
            if index == 1 {
                (config.resolver, config.topology_manager) = (true, Some(1));
            }
            network.add_node(PsiNode::new(config))
        })
        .collect();
    let link = LinkConfig { queue_bytes: 8 << 20, ..LinkConfig::new(Rate::from_mbps(1_000), Duration::from_millis(5)) };
    for pair in nodes.windows(2) {
        // Face 1 leads towards the receiver, face 2 towards the publisher.
        network.connect((pair[0], FaceId(2)), (pair[1], FaceId(1)), link.clone(), link.clone());
        for (node, face) in [(pair[0], FaceId(2)), (pair[1], FaceId(1))] {
            network.with(node, |node, now| node.add_face(now, face, FaceOptions { mtu: 1_472, rate: link.rate }));
        }
    }
    let has_ended = Rc::new(Cell::new(false));
    let ended = Rc::clone(&has_ended);
    network.set_observer(move |_, _, event| {
        if let Event::Transfer(_, TransferEvent::Completed | TransferEvent::Failed { .. }) = event {
            ended.set(true);
        }
    });
    let [receiver, publisher] = [nodes[0], nodes[HOPS]];
    network.with(publisher, |node, now| node.publish(now, Box::new(object.clone())));
    // The domain finds itself before the clock starts.
    network.run_until(Time::from_millis(2_000));
    let name: Name = NAME.parse()?;
    let opener = MemoryOpener::new();
    let content = opener.content();
    let fetch = Fetch {
        name: name.clone(),
        opener: Box::new(opener),
        rate_limit: None,
        paths_per_source: 1,
        metric: PathMetric::Hops,
        patience: None,
    };
    let hops_before = network.stats().packet_hops;
    let virtual_start = network.now();
    let start = Instant::now();
    network.with(receiver, |node, now| node.fetch(now, fetch));
    network.run_while(LIMIT, |_| !has_ended.get());
    let seconds = start.elapsed().as_secs_f64();
    if content.finished(&name).is_none_or(|bytes| bytes != *object.bytes()) {
        return Err(format!("the transfer is not over at {} of virtual time", network.now()).into());
    }
    let virtual_seconds = network.now().since(virtual_start).as_secs_f64();
    Ok((network.stats().packet_hops - hops_before, seconds, virtual_seconds))
}

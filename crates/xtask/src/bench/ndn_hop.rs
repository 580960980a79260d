//! An NDN exchange, Interest and Data of 8,000 bytes, through a forwarder with sockets: ours and ndnd's between the same
//! programs.
use super::{
    Context, Findings, add,
    ndnd::{self, Over, Store},
    rivals::Source,
};
use crate::{
    Outcome,
    harness::{
        figure::Figure,
        rounds::{Contender, Sample, take_turns},
        targets,
    },
};

/// Content of a segment of `ndnd put`.
const SEGMENT_BYTES: f64 = 8_000.0;
/// `ndnd` holds an object in memory several times over.
const BYTES_MAX: u64 = 256 << 20;

pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let source = Source::make(&mut context.stage, context.arguments.size.0.min(BYTES_MAX))?;
    let (stage, trib) = (&context.stage, &context.trib);
    let mut findings = Findings::default();
    let mut contenders = Vec::new();
    let mut pair = |over, store| {
        let ours = ndnd::through_trib(trib, stage, &source, over, store);
        let ours = add(&mut contenders, &mut findings, "trib", ours);
        (ours, add(&mut contenders, &mut findings, "ndnd", ndnd::ndnd(stage, &source, over, store)))
    };
    let (ours, theirs) = pair(Over::Unix, Store::Packets);
    let bare = pair(Over::Unix, Store::Nothing);
    let over = [Over::Tcp, Over::Udp].map(|over| pair(over, Store::Packets));
    let over_others = ["TCP", "UDP between two forwarders"].into_iter().zip(over);
    take_turns(context.arguments.rounds(), &mut contenders, || stage.warm(source.size));
    findings.notes.extend(contenders.iter().filter_map(Contender::failure));

    let complete = |index: Option<usize>| index.map(|index| &contenders[index]).filter(|other| other.is_complete());
    let Some(ours) = complete(ours) else { return Err("no fetch through our forwarder was complete".into()) };
    let exchange = |sample: &Sample| sample.hop_cpu_seconds * 1e6 / (sample.bytes as f64 / SEGMENT_BYTES);
    let megabytes = |sample: &Sample| sample.hop_peak_bytes as f64 / f64::from(1 << 20);
    let cpu = Figure::new("CPU of the forwarder per exchange", "µs", ours.values(exchange));
    let rate = Figure::new("rate through the forwarder", "MB/s", ours.values(Sample::rate));
    let memory = Figure::new("peak memory of the forwarder", "MiB", ours.values(megabytes));
    findings.figures.extend(match complete(theirs) {
        Some(theirs) => [
            cpu.rival("ndnd's forwarder", theirs.values(exchange)).judged(targets::NDN_EXCHANGE),
            rate.rival("ndnd's forwarder", theirs.values(Sample::rate)),
            memory.rival("ndnd's forwarder", theirs.values(megabytes)),
        ],
        None => [cpu, rate, memory],
    });
    if let (Some(ours), Some(theirs)) = (complete(bare.0), complete(bare.1)) {
        let cpu = Figure::new("CPU per exchange without content stores", "µs", ours.values(exchange));
        findings.figures.push(cpu.rival("ndnd's forwarder", theirs.values(exchange)));
    }
    for (way, (ours, theirs)) in over_others {
        let Some(ours) = complete(ours) else { continue };
        let rate = Figure::new(format!("rate over {way}"), "MB/s", ours.values(Sample::rate));
        findings.figures.push(match complete(theirs) {
            Some(theirs) => rate.rival("ndnd's forwarder", theirs.values(Sample::rate)),
            None => rate,
        });
    }
    findings.notes.push(
        "ndnd put and ndnd cat on both sides of either forwarder, over Unix sockets and with segments of 8,000 bytes \
         unless stated otherwise; content stores of 2,048 packets, ndnd's default in two threads, unless stated \
         otherwise"
            .into(),
    );
    Ok(findings)
}

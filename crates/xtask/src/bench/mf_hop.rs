//! MobilityFirst through one router on loopback, compared with quinn without one.
use super::{
    Context, Findings, add,
    ours::Ground,
    rivals::{self, Source},
};
use crate::{
    Outcome,
    harness::{
        figure::Figure,
        rounds::{Contender, Sample, take_turns},
        targets,
    },
};

pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let source = Source::make(&mut context.stage, context.arguments.size.0)?;
    let (stage, trib) = (&context.stage, &context.trib);
    let mut findings = Findings::default();
    let mut contenders = Vec::new();
    let ours = Ground::mf_hop(trib, stage, &source).map(|ground| ground.contender("trib"));
    let ours = add(&mut contenders, &mut findings, "trib", ours);
    let quinn = add(&mut contenders, &mut findings, "quinn", rivals::quinn(stage, &source));
    take_turns(context.arguments.rounds(), &mut contenders, || stage.warm(source.size));
    findings.notes.extend(contenders.iter().filter_map(Contender::failure));

    let complete = |index: Option<usize>| index.map(|index| &contenders[index]).filter(|other| other.is_complete());
    let Some(ours) = complete(ours) else { return Err("no transfer through our router was complete".into()) };
    let rate = Figure::new("rate through one router", "MB/s", ours.values(Sample::rate));
    let ends = Figure::new("CPU of both ends", "s/GiB", ours.values(Sample::cpu_per_gib));
    let hop = ours.values(|sample| sample.per_gib(sample.hop_cpu_seconds));
    findings.figures.extend(match complete(quinn) {
        Some(quinn) => [
            rate.rival("quinn, no router", quinn.values(Sample::rate)),
            ends.rival("quinn", quinn.values(Sample::cpu_per_gib)).judged(targets::CPU_QUINN),
        ],
        None => [rate, ends],
    });
    findings.figures.push(Figure::new("CPU of the router", "s/GiB", hop).judged(targets::CPU_HOP));
    let cpu = |what: &str, values| Figure::new(format!("CPU of the {what}"), "s/GiB", values);
    let publisher = ours.values(|sample| sample.per_gib(sample.server_cpu_seconds));
    let receiver = ours.values(|sample| sample.per_gib(sample.client_cpu_seconds));
    findings.figures.extend([cpu("publisher", publisher), cpu("receiver", receiver)]);
    let mebibytes = |bytes: fn(&Sample) -> u64| ours.values(|sample| bytes(sample) as f64 / f64::from(1 << 20));
    for (what, values) in [
        ("publisher", mebibytes(|sample| sample.server_peak_bytes)),
        ("router", mebibytes(|sample| sample.hop_peak_bytes)),
        ("receiver", mebibytes(|sample| sample.client_peak_bytes)),
    ] {
        findings.figures.push(Figure::new(format!("peak memory of the {what}"), "MiB", values));
    }
    findings
        .notes
        .push("chunks of 1 MiB are verified and written at the receiver; quinn's stream is written only".into());
    Ok(findings)
}

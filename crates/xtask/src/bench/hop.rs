//! One forwarder between publisher and receiver: without a cache, filling one, and out of one.
use std::rc::Rc;

use super::{Context, Findings, add, ndnd, ours::Ground, rivals::Source};
use crate::{
    Outcome,
    harness::{
        figure::Figure,
        rounds::{Contender, Sample, take_turns},
        targets,
    },
};

/// ndnd put, forwarder, cat, as recorded with the targets on a quiet machine.
const NDND_RECORDED_MBPS: f64 = 172.0;
/// What a cache needs beyond the payload that it holds, as a share.
const CACHE_HEADROOM: f64 = 1.25;

pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let source = Source::make(&mut context.stage, context.arguments.size.0)?;
    let (stage, trib) = (&context.stage, &context.trib);
    let mut findings = Findings::default();
    let mut contenders = Vec::new();
    let direct = Ground::pair(trib, stage, &source, "direct", None).map(|ground| ground.contender("direct"));
    let direct = add(&mut contenders, &mut findings, "direct", direct);
    let plain = Ground::hop(trib, stage, &source, "plain", 0).map(|ground| ground.contender("forwarder"));
    let plain = add(&mut contenders, &mut findings, "forwarder", plain);
    let cache_bytes = (source.size as f64 * CACHE_HEADROOM) as u64;
    let cached = add(&mut contenders, &mut findings, "cache", cached(trib, stage, &source, cache_bytes));
    let ndnd =
        add(&mut contenders, &mut findings, "ndnd", ndnd::ndnd(stage, &source, ndnd::Over::Unix, ndnd::Store::Packets));
    take_turns(context.arguments.rounds(), &mut contenders, || stage.warm(source.size));
    findings.notes.extend(contenders.iter().filter_map(Contender::failure));

    let complete = |index: Option<usize>| index.map(|index| &contenders[index]).filter(|other| other.is_complete());
    let rate = |contender: &Contender<'_>| contender.values(Sample::rate);
    let figures = &mut findings.figures;
    for (what, contender) in [("forwarder", complete(plain)), ("cache", complete(cached))] {
        let Some(contender) = contender else { continue };
        let (name, yardstick) = match complete(ndnd) {
            Some(ndnd) => ("ndnd", rate(ndnd)),
            None => ("ndnd, recorded", vec![NDND_RECORDED_MBPS]),
        };
        let figure = Figure::new(format!("rate through the {what}"), "MB/s", rate(contender));
        figures.push(figure.rival(name, yardstick).judged(targets::HOP_NDND));
        if let Some(direct) = complete(direct) {
            let figure = Figure::new(format!("rate through the {what}"), "MB/s", rate(contender));
            figures.push(figure.rival("trib without a hop", rate(direct)));
        }
        let cpu = contender.values(|sample| sample.per_gib(sample.hop_cpu_seconds));
        figures.push(Figure::new(format!("CPU of the {what}"), "s/GiB", cpu).judged(targets::CPU_HOP));
        if what == "forwarder" {
            let all = |sample: &Sample| sample.cpu_per_gib() + sample.per_gib(sample.hop_cpu_seconds);
            let figure = Figure::new("CPU of both ends and the forwarder", "s/GiB", contender.values(all));
            figures.push(match complete(ndnd) {
                Some(ndnd) => figure.rival("ndnd", ndnd.values(all)),
                None => figure,
            });
        }
        let memory = contender.values(|sample| sample.hop_peak_bytes as f64 / f64::from(1 << 20));
        let memory = Figure::new(format!("peak memory of the {what}"), "MiB", memory);
        figures.push(if what == "forwarder" { memory.judged(targets::MEMORY) } else { memory });
    }
    if let Some(cached) = complete(cached) {
        let share = cached.values(|sample| sample.cached_bytes as f64 / sample.bytes as f64);
        figures.push(Figure::new("share that came from the cache", "of 1", share));
        let publisher = cached.values(|sample| sample.per_gib(sample.server_cpu_seconds));
        figures.push(Figure::new("CPU of the publisher behind the cache", "s/GiB", publisher));
        findings.notes.push(format!(
            "the cache may hold {:.0} MiB and was filled by one fetch before the rounds; its memory is beyond the target's",
            cache_bytes as f64 / f64::from(1 << 20),
        ));
    }
    findings.notes.push(match complete(ndnd) {
        Some(_) => "ndnd puts, forwards and cats over Unix sockets; its time leaves out that cat writes the file afterwards",
        None => "ndnd did not run here: its figure is the one recorded with the targets, so that ratio is a hint only",
    }.into());
    Ok(findings)
}

/// A forwarder whose cache one fetch has filled.
fn cached<'a>(
    trib: &'a crate::harness::trib::Trib,
    stage: &'a crate::harness::stage::Stage,
    source: &Source,
    cache_bytes: u64,
) -> Outcome<Contender<'a>> {
    let ground: Rc<Ground<'a>> = Ground::hop(trib, stage, source, "cached", cache_bytes)?;
    ground.fetch()?;
    Ok(ground.contender("cache"))
}

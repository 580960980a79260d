//! Three sources, compared with rqbit from three seeders and aria2 from three mirrors.
use super::{
    Context, Findings, add,
    ours::Ground,
    rivals::{self, Checksum, Source},
    rqbit,
};
use crate::{
    Outcome,
    harness::{
        figure::Figure,
        rounds::{Contender, Sample, take_turns},
        targets,
    },
};

/// How many sources, mirrors, seeders.
const SOURCES: usize = 3;
/// rqbit from three seeders, as recorded with the targets.
const RQBIT_RECORDED_MBPS: f64 = 534.0;

pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let source = Source::make(&mut context.stage, context.arguments.size.0)?;
    let (stage, trib) = (&context.stage, &context.trib);
    let mut findings = Findings::default();
    let mut contenders = Vec::new();
    let ours = Ground::sources(trib, stage, &source, SOURCES).map(|ground| ground.contender("trib"));
    let ours = add(&mut contenders, &mut findings, "trib", ours);
    let plain = rivals::aria2(stage, &source, SOURCES, Checksum::Unchecked);
    let plain = add(&mut contenders, &mut findings, "aria2", plain);
    let checked = rivals::aria2(stage, &source, SOURCES, Checksum::Sha256);
    let checked = add(&mut contenders, &mut findings, "aria2 with checksum", checked);
    let torrent = add(&mut contenders, &mut findings, "rqbit", rqbit::rqbit(stage, &source, SOURCES));
    take_turns(context.arguments.rounds(), &mut contenders, || stage.warm(source.size));
    findings.notes.extend(contenders.iter().filter_map(Contender::failure));

    let complete = |index: Option<usize>| index.map(|index| &contenders[index]).filter(|other| other.is_complete());
    let rate = |contender: &Contender<'_>| contender.values(Sample::rate);
    let Some(ours) = complete(ours) else {
        for other in [plain, checked, torrent].into_iter().filter_map(complete) {
            findings.figures.push(Figure::new(format!("{} rate", other.name()), "MB/s", rate(other)));
        }
        return Ok(findings);
    };
    for (other, target) in [(plain, Some(targets::SOURCES_ARIA2)), (checked, None)] {
        if let Some(other) = complete(other) {
            let figure = Figure::new("rate", "MB/s", rate(ours)).rival(other.name(), rate(other));
            findings.figures.push(match target {
                Some(target) => figure.judged(target),
                None => figure,
            });
        }
    }
    let (name, yardstick) = match complete(torrent) {
        Some(rqbit) => ("rqbit, verified", rate(rqbit)),
        None => ("rqbit, recorded", vec![RQBIT_RECORDED_MBPS]),
    };
    let figure = Figure::new("rate", "MB/s", rate(ours)).rival(name, yardstick);
    findings.figures.push(figure.judged(targets::SOURCES_RQBIT));
    if complete(torrent).is_none() {
        findings.notes.push(
            "rqbit did not run here: its figure is the one recorded with the targets on a quiet machine, so that ratio is \
             a hint only"
                .into(),
        );
    }
    let cpu = Figure::new("CPU of all ends", "s/GiB", ours.values(Sample::cpu_per_gib));
    findings.figures.push(match complete(torrent) {
        Some(rqbit) => cpu.rival("rqbit", rqbit.values(Sample::cpu_per_gib)),
        None => cpu,
    });
    let receiver = ours.values(|sample| sample.client_peak_bytes as f64 / f64::from(1 << 20));
    findings.figures.push(Figure::new("peak memory of the receiver", "MiB", receiver).judged(targets::MEMORY));
    Ok(findings)
}

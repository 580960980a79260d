//! One source over loopback: rate, CPU and memory, compared with the bare pump, quinn, and curl with nginx.
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
        stage::Stage,
        targets,
        trib::Trib,
    },
    note,
    yardstick::DATAGRAM_BYTES,
};

/// The largest datagram that UDP over IPv4 has.
const DATAGRAM_BYTES_MAX: u32 = 65_507;

#[expect(clippy::too_many_lines, reason = "the script of one benchmark")]
pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let source = Source::make(&mut context.stage, context.arguments.size.0)?;
    let memory_source = match context.arguments.memory_size {
        Some(size) => Some(Source::make(&mut context.stage, size.0)?),
        None => None,
    };
    let (stage, trib) = (&context.stage, &context.trib);
    let mut findings = Findings::default();
    let mut contenders = Vec::new();
    let is_ours = add(
        &mut contenders,
        &mut findings,
        "trib",
        Ground::pair(trib, stage, &source, "bulk", None).map(|ground| ground.contender("trib")),
    );
    let large = Ground::pair(trib, stage, &source, "large", Some(DATAGRAM_BYTES_MAX));
    let mtu = large.as_ref().ok().and_then(|ground| ground.mtu());
    let is_large = add(
        &mut contenders,
        &mut findings,
        "trib at the path MTU",
        large.map(|ground| ground.contender("trib at the path MTU")),
    );
    let pump = add(&mut contenders, &mut findings, "pump", rivals::pump(stage, &source, DATAGRAM_BYTES));
    let large_pump = match mtu {
        Some(mtu) if is_large.is_some() => {
            findings.notes.push(format!("the path MTU that the daemons find on loopback is {mtu} bytes"));
            add(
                &mut contenders,
                &mut findings,
                "pump at the path MTU",
                rivals::pump(stage, &source, usize::try_from(mtu)?),
            )
        }
        _ => None,
    };
    let quinn = add(&mut contenders, &mut findings, "quinn", rivals::quinn(stage, &source));
    let curl = add(&mut contenders, &mut findings, "curl", rivals::curl(stage, &source));
    take_turns(context.arguments.rounds(), &mut contenders, || stage.warm(source.size));
    findings.notes.extend(contenders.iter().filter_map(Contender::failure));

    let ours = is_ours.map(|index| &contenders[index]).filter(|ours| ours.is_complete());
    let complete = |index: Option<usize>| index.map(|index| &contenders[index]).filter(|other| other.is_complete());
    let rate = |contender: &Contender<'_>| contender.values(Sample::rate);
    let cpu = |contender: &Contender<'_>| contender.values(Sample::cpu_per_gib);
    let figures = &mut findings.figures;
    if let Some(ours) = ours {
        for (other, target) in [(pump, targets::BULK_PUMP), (quinn, targets::BULK_QUINN), (curl, targets::BULK_CURL)] {
            if let Some(other) = complete(other) {
                figures.push(Figure::new("rate", "MB/s", rate(ours)).rival(other.name(), rate(other)).judged(target));
            }
        }
        if let Some(other) = complete(pump) {
            let alone = |contender: &Contender<'_>| contender.values(Sample::rate_alone);
            let figure = Figure::new("rate with a core for each end", "MB/s", alone(ours));
            figures.push(figure.rival(other.name(), alone(other)));
        }
        for (other, target) in [(quinn, Some(targets::CPU_QUINN)), (pump, None), (curl, None)] {
            if let Some(other) = complete(other) {
                let figure = Figure::new("CPU of both ends", "s/GiB", cpu(ours)).rival(other.name(), cpu(other));
                figures.push(match target {
                    Some(target) => figure.judged(target),
                    None => figure,
                });
            }
        }
        figures.push(Figure::new(
            "CPU of the publisher",
            "s/GiB",
            ours.values(|sample| sample.per_gib(sample.server_cpu_seconds)),
        ));
        figures.push(Figure::new(
            "CPU of the receiver",
            "s/GiB",
            ours.values(|sample| sample.per_gib(sample.client_cpu_seconds)),
        ));
        figures.extend(memory(&source, ours.values(server_mebibytes), ours.values(client_mebibytes)));
    } else {
        figures.extend(contenders.iter().filter(|other| other.is_complete()).flat_map(|other| {
            [
                Figure::new(format!("{} rate", other.name()), "MB/s", rate(other)),
                Figure::new(format!("{} CPU", other.name()), "s/GiB", cpu(other)),
            ]
        }));
    }
    if let Some(large) = complete(is_large) {
        if let Some(other) = complete(large_pump) {
            figures.push(Figure::new("rate at the path MTU", "MB/s", rate(large)).rival(other.name(), rate(other)));
        }
        if let Some(other) = complete(quinn) {
            figures.push(
                Figure::new("CPU of both ends at the path MTU", "s/GiB", cpu(large)).rival(other.name(), cpu(other)),
            );
        }
        figures.push(Figure::new("memory of the receiver at the path MTU", "MiB", large.values(client_mebibytes)));
    }
    findings.notes.push(
        "'rate with a core for each end' is the rate that the CPU time of the busier end would allow on a quiet \
         machine; it varies less than the rate when others use the cores"
            .into(),
    );
    // Their daemons and files are removed before the large transfer needs the space.
    drop(contenders);
    if let Some(source) = memory_source {
        match fetch_once(trib, stage, &source) {
            Ok(sample) => findings.figures.extend(memory(
                &source,
                vec![server_mebibytes(&sample)],
                vec![client_mebibytes(&sample)],
            )),
            Err(error) => findings.notes.push(format!("the transfer of {} bytes failed: {error}", source.size)),
        }
    }
    Ok(findings)
}

fn fetch_once(trib: &Trib, stage: &Stage, source: &Source) -> Outcome<Sample> {
    note(&format!("  one transfer of {} bytes", source.size));
    Ground::pair(trib, stage, source, "memory", None)?.fetch()
}

fn memory(source: &Source, publisher: Vec<f64>, receiver: Vec<f64>) -> [Figure; 2] {
    let size = tributary_core::ByteCount(source.size);
    [("publisher", publisher), ("receiver", receiver)].map(|(who, values)| {
        Figure::new(format!("peak memory of the {who}, {size}"), "MiB", values).judged(targets::MEMORY)
    })
}

fn server_mebibytes(sample: &Sample) -> f64 {
    sample.server_peak_bytes as f64 / f64::from(1 << 20)
}
fn client_mebibytes(sample: &Sample) -> f64 {
    sample.client_peak_bytes as f64 / f64::from(1 << 20)
}

//! The simulator compared with reality: three paths of 20, 12 and 8 Mbit/s once as real daemons over emulated links and
//! once by `trib sim` with equal rates, delays, queues and loss, in turn.
use serde_json::Value;

use super::{
    Context, Findings,
    paths::{self, Trouble},
    rivals::Source,
};
use crate::{
    Outcome,
    harness::{figure::Figure, process::Process, targets},
    note,
};

/// Without trouble, and with 1 % loss on every link.
pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let source = Source::make(&mut context.stage, paths::SIZE)?;
    let mut findings = Findings::default();
    for (name, trouble) in [("", Trouble::None), (", 1 % loss", Trouble::Loss(0.01))] {
        let (mut simulated, mut real) = (Vec::new(), Vec::new());
        for round in 0..context.arguments.rounds() {
            let sample = paths::fetch(&context.trib, &context.stage, &source, trouble)?;
            let real_mbps = sample.bytes as f64 * 8.0 / 1e6 / sample.seconds;
            let simulated_mbps = simulate(context, trouble, round as u64 + 1)?;
            note(&format!("  round {}{name}: {simulated_mbps:.3} simulated, {real_mbps:.3} Mbit/s real", round + 1));
            simulated.push(simulated_mbps);
            real.push(real_mbps);
        }
        let figure = Figure::new(format!("simulated goodput{name}"), "Mbit/s", simulated);
        let figure = figure.rival("daemons, emulated links", real);
        let away = figure.ratio.map_or(f64::NAN, |ratio| (ratio - 1.0).abs());
        findings.figures.push(figure);
        let away = Figure::new(format!("distance from it{name}"), "share", vec![away]);
        findings.figures.push(away.judged(targets::SIMULATOR_REAL));
    }
    Ok(findings)
}

/// Goodput of the same network in virtual time.
fn simulate(context: &Context<'_>, trouble: Trouble, seed: u64) -> Outcome<f64> {
    let loss = if let Trouble::Loss(share) = trouble { format!("loss = {share}\n") } else { String::new() };
    let mut text = String::from(
        "[[node]]\nlabel = \"receiver\"\nroles = [\"receiver\", \"router\", \"resolver\", \"topology-manager\"]\n\
         [[fetch]]\nnode = \"receiver\"\nname = \"/bench/file\"\nstart = \"3s\"\n",
    );
    for (index, mbps) in paths::LINKS_MBPS.iter().enumerate() {
        let publisher = format!("publisher-{}", index + 1);
        text += &format!(
            "[[node]]\nlabel = \"{publisher}\"\nroles = [\"sender\"]\n\
             [[link]]\nends = [\"receiver\", \"{publisher}\"]\nrate = \"{mbps}Mbps\"\ndelay = \"{}\"\nqueue = \"{}\"\n{loss}\
             [[publish]]\nnode = \"{publisher}\"\nname = \"/bench/file\"\nsize = \"{}\"\n",
            paths::DELAY,
            paths::QUEUE,
            paths::SIZE,
        );
    }
    let path = context.stage.path("real.toml");
    std::fs::write(&path, text)?;
    let mut command = context.trib.command();
    command.args(["sim", "--json", "--seed", &seed.to_string()]).arg(&path);
    let ended = Process::spawn("trib sim", &context.stage, &mut command)?.finish(paths::PATIENCE)?;
    let run: Value = serde_json::from_str(ended.lines.first().ok_or("the run printed nothing")?)?;
    run["transfers"][0]["mbps"].as_f64().ok_or_else(|| format!("the simulated transfer is not complete: {run}").into())
}

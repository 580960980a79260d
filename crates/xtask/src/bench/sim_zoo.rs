//! A whole provider network in the simulator: 754 nodes, 100 concurrent transfers of PSI, by `trib sim`.
//!
//! The network is Kdl of the Internet Topology Zoo, its largest with coordinates, if `TRIBUTARY_DATA` names the folder
//! that holds `topology-zoo/Kdl.graphml`; else a graph by Barabási and Albert of that many nodes.
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{Context, Findings};
use crate::{
    Outcome,
    harness::{figure::Figure, process::Process},
    note,
};

const TRANSFERS: u32 = 100;
const OBJECT: &str = "1MB";
/// How long a run may take.
const PATIENCE: Duration = Duration::from_secs(3_600);

pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let zoo = std::env::var_os("TRIBUTARY_DATA").map(|data| PathBuf::from(data).join("topology-zoo/Kdl.graphml"));
    let zoo = zoo.filter(|path| path.is_file());
    let network = match &zoo {
        Some(path) => format!("file = {path:?}\ncomponent = \"largest\""),
        None => "generate = \"barabasi-albert\"\nplaces = 754\nlinks = 2".into(),
    };
    // All links have equal rates: the file lists no rates, and only a bottleneck in the middle matters.
    let text = format!(
        "scenario = {{ duration = \"300s\", sampling = \"none\" }}\n[topology]\n{network}\n\
         link = {{ rate = \"100Mbps\", delay = \"1ms\" }}\n\
         [random]\ntransfers = {TRANSFERS}\nsize = \"{OBJECT}\"\nstart = \"5s\"\nspread = \"1s\"\n"
    );
    let path = context.stage.path("zoo.toml");
    std::fs::write(&path, text)?;
    let mut findings = Findings::default();
    let (mut seconds, mut rates, mut memory, mut virtual_seconds) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..context.arguments.rounds() {
        let mut command = context.trib.command();
        command.args(["sim", "--json", "--threads", "1", "--seed"]).arg((round + 1).to_string()).arg(&path);
        let start = Instant::now();
        let process = Process::spawn("trib sim", &context.stage, &mut command)?;
        let ended = process.finish(PATIENCE)?;
        let elapsed = start.elapsed().as_secs_f64();
        let run: Value = serde_json::from_str(ended.lines.first().ok_or("the run printed nothing")?)?;
        let number = |key: &str| run[key].as_f64().unwrap_or(f64::NAN);
        note(&format!(
            "  round {}: {elapsed:.1} s ({:.1} s of CPU) for {:.1} s of virtual time, {} packet-hops, complete: {}",
            round + 1,
            ended.cpu_seconds,
            number("seconds"),
            run["packet_hops"],
            run["complete"],
        ));
        seconds.push(elapsed);
        rates.push(number("packet_hops") / ended.cpu_seconds);
        memory.push(ended.peak_bytes as f64 / (1 << 20) as f64);
        virtual_seconds.push(number("seconds"));
    }
    findings.figures.push(Figure::new("the whole run", "s", seconds));
    findings.figures.push(Figure::new("packet-hops per CPU second", "1/s", rates));
    findings.figures.push(Figure::new("virtual time", "s", virtual_seconds));
    findings.figures.push(Figure::new("peak memory", "MiB", memory));
    findings.notes.push(match zoo {
        Some(_) => format!("Kdl of the Topology Zoo, {TRANSFERS} transfers of {OBJECT}"),
        None => format!("Barabási–Albert, 754 nodes (TRIBUTARY_DATA is not set), {TRANSFERS} transfers of {OBJECT}"),
    });
    Ok(findings)
}

//! A receiver that moves from one access router to another while a file comes: real daemons over emulated links.
//!
//! ```text
//!                            ┌── 1 Gbit/s ── access-1 ── 25 Mbit/s, until it moves ──┐
//!  server ─ 1 Gbit/s, 20 ms ─ core                                                    ├─ receiver
//!                            └── 1 Gbit/s ── access-2 ── 25 Mbit/s, from then on ────┘
//! ```
use std::{net::SocketAddr, thread::sleep, time::Duration};

use super::{Context, Findings, add, clear, ours::NAME, paths::PATIENCE, rivals::Source};
use crate::{
    Outcome,
    harness::{
        figure::Figure,
        rounds::{Contender, Sample, take_turns},
        stage::{Stage, hash_of},
        trib::{Daemon, Done, Face, NodeSpec, Trib},
    },
};

/// Bytes of the file: 3.3 s of an access link.
const SIZE: u64 = 10_000_000;
/// When the receiver leaves its first router, after the request.
const LEAVES: Duration = Duration::from_millis(1_500);
/// Seconds until it is at the second one; `None` stays where it is.
const MOVES: [Option<u64>; 4] = [None, Some(0), Some(1), Some(5)];
/// An access link, the same in both directions.
const ACCESS: &str = "rate = \"25Mbps\", delay = \"1ms\", queue = \"256KiB\"";
/// Links between routers, and from the server.
const WIRED: [&str; 2] = [
    "rate = \"1000Mbps\", delay = \"20ms\", queue = \"2MiB\"",
    "rate = \"1000Mbps\", delay = \"1ms\", queue = \"2MiB\"",
];

/// Runs it.
pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let source = &Source::make(&mut context.stage, SIZE)?;
    let (stage, trib) = (&context.stage, &context.trib);
    let mut findings = Findings::default();
    let mut contenders = Vec::new();
    for pause in MOVES {
        let name = match pause {
            None => "staying".to_string(),
            Some(pause) => format!("moving, {pause} s between"),
        };
        let contender = Contender::new(name.clone(), move || fetch(trib, stage, source, pause));
        add(&mut contenders, &mut findings, &name, Ok(contender));
    }
    take_turns(context.arguments.rounds(), &mut contenders, || Ok(()));
    findings.notes.extend(contenders.iter().filter_map(Contender::failure));
    let staying = contenders[0].values(|sample| sample.seconds);
    for (contender, pause) in contenders.iter().zip(MOVES) {
        let Some(pause) = pause else { continue };
        let seconds = contender.values(|sample| sample.seconds);
        let lost = seconds.iter().zip(&staying).map(|(moving, staying)| moving - staying - pause as f64);
        let lost: Vec<f64> = lost.collect();
        if !lost.is_empty() {
            findings.figures.push(Figure::new(format!("time lost by a move with {pause} s between"), "s", lost));
        }
    }
    if findings.figures.is_empty() {
        return Err("no move was complete".into());
    }
    findings.notes.push(format!(
        "{} MB, the move {LEAVES:?} after the request; lost is the time beyond that of a receiver that stays, in the same \
         round, plus the time between",
        SIZE / 1_000_000
    ));
    Ok(findings)
}

fn fetch(trib: &Trib, stage: &Stage, source: &Source, pause: Option<u64>) -> Outcome<Sample> {
    let network = Network::start(trib, stage, source)?;
    let output = stage.path("mobility-output");
    clear(&output)?;
    let get = trib.get_by(stage, &network.receiver, NAME, &output)?;
    let first = get.line(PATIENCE)?;
    if let Some(pause) = pause {
        sleep(LEAVES);
        network.set_access(0, false)?;
        sleep(Duration::from_secs(pause));
        network.set_access(1, true)?;
    }
    let ended = get.finish(PATIENCE)?;
    let lines: Vec<String> = std::iter::once(first).chain(ended.lines).collect();
    let done = Done::read(&lines)?;
    if hash_of(&output)? != source.hash {
        return Err("what arrived differs from what was published".into());
    }
    clear(&output)?;
    Ok(Sample { bytes: done.bytes, seconds: done.seconds, ..Sample::default() })
}

struct Network {
    _server: Daemon,
    _core: Daemon,
    access: Vec<Daemon>,
    receiver: Daemon,
}

impl Network {
    fn start(trib: &Trib, stage: &Stage, source: &Source) -> Outcome<Network> {
        let mut places = Vec::new();
        for _ in 0..5 {
            places.push(stage.address()?);
        }
        let [server_at, core_at, first_at, second_at, receiver_at] = places[..] else { unreachable!("five were made") };
        let face = |peer: SocketAddr, link: &str| Face { egress: Some(link.into()), ..Face::to(peer) };
        let node = |label: &str, roles, listen, faces| NodeSpec {
            label: format!("mobility-{label}"),
            family: Some("mf"),
            roles,
            listen: Some(listen),
            faces,
            ..NodeSpec::default()
        };
        const ROUTER: &[&str] = &["router", "resolver"];
        let [far, near] = WIRED;
        let faces = vec![face(server_at, far), face(first_at, near), face(second_at, near)];
        let core = trib.node(stage, &node("core", ROUTER, core_at, faces))?;
        let mut access = Vec::new();
        for (label, at) in [("access-1", first_at), ("access-2", second_at)] {
            let faces = vec![face(receiver_at, ACCESS), face(core_at, near)];
            access.push(trib.node(stage, &node(label, ROUTER, at, faces))?);
        }
        let publish = Some((NAME.into(), source.path.clone()));
        let server = NodeSpec { publish, ..node("server", &["sender"], server_at, vec![face(core_at, far)]) };
        let server = trib.node(stage, &server)?;
        let faces = vec![face(first_at, ACCESS), face(second_at, ACCESS)];
        let receiver = trib.node(stage, &node("receiver", &["receiver"], receiver_at, faces))?;
        let network = Network { _server: server, _core: core, access, receiver };
        network.set_access(1, false)?;
        network._server.wait_until_published()?;
        network.receiver.wait_until("it is attached to the first router only", |status| {
            let faces = status["faces"].as_array().map_or(&[][..], Vec::as_slice);
            let up: Vec<bool> = faces.iter().map(|face| face["up"] == true).collect();
            up == [true, false]
        })?;
        // Whoever was reached over the second link for a moment has learnt that it is gone.
        sleep(SETTLES);
        Ok(network)
    }
    /// Cuts or mends an access link at both ends.
    fn set_access(&self, link: usize, up: bool) -> Outcome {
        self.access[link].set_link(1, up)?;
        self.receiver.set_link(link + 1, up)
    }
}

/// How long names and ways take to settle after the start.
const SETTLES: Duration = Duration::from_secs(3);

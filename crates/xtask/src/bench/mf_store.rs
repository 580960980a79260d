//! The storage rate of a MobilityFirst router for an absent receiver, compared with a plain copy with fsync; and the
//! chunks that remain when the router is killed.
use std::{
    cell::Cell,
    collections::BTreeSet,
    fs::File,
    io,
    time::{Duration, Instant},
};

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use serde_json::Value;
use tributary_core::Random;

use super::{
    Context, Findings, add, clear,
    rivals::{Source, TRANSFER_PATIENCE},
};
use crate::{
    Outcome,
    harness::{
        figure::Figure,
        process::Process,
        rounds::{Contender, Sample, take_turns},
        stage::{Stage, hash_of},
        trib::{Daemon, Face, NodeSpec, Trib, chunk_numbers},
    },
    note,
};

/// The object for the absent receiver.
const NAME: &str = "/bench/stored";
/// The store's capacity beyond the payload, as a share: heads of chunks, index entries.
const HEADROOM: f64 = 1.25;
/// Bytes that a router stores when it is killed.
const KILL_BYTES: u64 = 100 << 20;
/// How long a returned receiver may wait for the stored chunks.
const RETURN_PATIENCE: Duration = Duration::from_secs(60);

/// Rate of storing (issue: durable before it is acknowledged).
pub(super) fn run_speed(context: &mut Context<'_>) -> Outcome<Findings> {
    let source = Source::make(&mut context.stage, context.arguments.size.0)?;
    let (stage, trib) = (&context.stage, &context.trib);
    let mut findings = Findings::default();
    let mut contenders = Vec::new();
    let store = || {
        let world = World::start(trib, stage, &source)?;
        let before = world.cpu_seconds()?;
        let start = Instant::now();
        let send = world.send()?;
        // Acknowledged chunks were durable before.
        follow(&send, Sending::is_stored)?;
        let seconds = start.elapsed().as_secs_f64();
        let after = world.cpu_seconds()?;
        Ok(Sample {
            bytes: source.size,
            seconds,
            server_cpu_seconds: after.0 - before.0,
            hop_cpu_seconds: after.1 - before.1,
            server_peak_bytes: world.sender.process.peak_bytes(),
            hop_peak_bytes: world.router.process.peak_bytes(),
            ..Sample::default()
        })
    };
    let ours = add(&mut contenders, &mut findings, "trib", Ok(Contender::new("trib", store)));
    let copy = || {
        let copied = stage.path("copied");
        let before = own_cpu_seconds()?;
        let start = Instant::now();
        let mut to = File::create(&copied)?;
        io::copy(&mut File::open(&source.path)?, &mut to)?;
        to.sync_all()?;
        let seconds = start.elapsed().as_secs_f64();
        clear(&copied)?;
        let server_cpu_seconds = own_cpu_seconds()? - before;
        Ok(Sample { bytes: source.size, seconds, server_cpu_seconds, ..Sample::default() })
    };
    let copy = add(&mut contenders, &mut findings, "copy", Ok(Contender::new("copy with fsync", copy)));
    take_turns(context.arguments.rounds(), &mut contenders, || stage.warm(source.size));
    findings.notes.extend(contenders.iter().filter_map(Contender::failure));

    let complete = |index: Option<usize>| index.map(|index| &contenders[index]).filter(|other| other.is_complete());
    let Some(ours) = complete(ours) else { return Err("nothing was stored in all rounds".into()) };
    let rate = Figure::new("stored durably and acknowledged", "MB/s", ours.values(Sample::rate));
    findings.figures.push(match complete(copy) {
        Some(copy) => rate.rival("copy with fsync", copy.values(Sample::rate)),
        None => rate,
    });
    let cpu = ours.values(|sample| sample.per_gib(sample.hop_cpu_seconds));
    findings.figures.push(Figure::new("CPU of the router that stores", "s/GiB", cpu));
    let memory = ours.values(|sample| sample.hop_peak_bytes as f64 / f64::from(1 << 20));
    findings.figures.push(Figure::new("peak memory of the router that stores", "MiB", memory));
    findings.notes.push(
        "from `trib send` to a device that is away until its sender knows that all chunks are stored; each chunk is \
         hashed, written and synchronised before it is acknowledged; the copy is one process's"
            .into(),
    );
    Ok(findings)
}

/// SIGKILL while a router stores; the acknowledged chunks exist afterwards, one by one, and reach the receiver. In the
/// last round the router had acknowledged everything, and the sender is killed with it.
pub(super) fn run_kill(context: &mut Context<'_>) -> Outcome<Findings> {
    let source = Source::make(&mut context.stage, KILL_BYTES)?;
    let (stage, trib, rounds) = (&context.stage, &context.trib, context.arguments.rounds());
    let mut findings = Findings::default();
    let mut random = Random::new(SEED, 0);
    let (mut acknowledged, mut lost, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let is_last = round + 1 == rounds;
        let share = if is_last { 1.0 } else { (round as f64 + random.unit()) / rounds as f64 };
        let mut world = World::start(trib, stage, &source)?;
        let send = world.send()?;
        let seen = follow(&send, |view| view.stored.len() as f64 >= share * f64::from(view.chunks))?;
        world.router.process.kill()?;
        // The chunks acknowledged until then.
        let seen = last_of(&send, seen)?;
        if is_last {
            world.sender.process.kill()?;
        }
        let restored = world.revive(trib, stage)?;
        let missing = seen.stored.difference(&restored).count();
        let entire = world.receive(trib, stage, &source)?;
        note(&format!(
            "  round {}/{rounds}: killed at {:.0} %{}, {} of {} chunks acknowledged, {} restored, {missing} lost; the \
             receiver {}",
            round + 1,
            share * 100.0,
            if is_last { " with the sender" } else { "" },
            seen.stored.len(),
            seen.chunks,
            restored.len(),
            if entire { "has the file" } else { "has NOT got the file" },
        ));
        acknowledged.push(seen.stored.len() as f64);
        lost.push(missing as f64);
        wrong.push(f64::from(u8::from(!entire)));
    }
    let figures = &mut findings.figures;
    figures.push(Figure::new("chunks acknowledged when it was killed", "chunks", acknowledged));
    figures.push(Figure::new("of these lost, in all rounds", "chunks", vec![lost.iter().sum()]));
    figures.push(Figure::new("files that the receiver did not get, in all rounds", "files", vec![wrong.iter().sum()]));
    findings.notes.push(format!(
        "{} MiB to a device that is away; SIGKILL at a moment of each {rounds}th of the transfer drawn from seed {SEED}, \
         in the last round once everything is acknowledged, of the sender too; chunks are compared by their numbers",
        KILL_BYTES >> 20
    ));
    Ok(findings)
}
/// How long a sender whose router is dead may still report earlier progress.
const QUIET: Duration = Duration::from_millis(500);
/// Draws the moments.
const SEED: u64 = 5;

/// A router that stores, a sender, and a receiver that is away.
struct World<'a> {
    trib: &'a Trib,
    stage: &'a Stage,
    source: &'a Source,
    router: Daemon,
    router_spec: NodeSpec,
    sender: Daemon,
    receiver_spec: NodeSpec,
    receiver_id: String,
    sends: Cell<u32>,
}

/// A sender's knowledge.
#[derive(Debug)]
struct Sending {
    chunks: u32,
    stored: BTreeSet<u32>,
}
impl Sending {
    /// From a line of `trib send`; `None` for other lines.
    fn read(line: &str) -> Outcome<Option<Sending>> {
        let printed: Value = serde_json::from_str(line)?;
        let chunks = printed["chunks"].as_u64().and_then(|chunks| u32::try_from(chunks).ok());
        let Some(chunks) = chunks.filter(|_| printed["stored_numbers"].is_array()) else { return Ok(None) };
        Ok(Some(Sending { chunks, stored: chunk_numbers(&printed["stored_numbers"])? }))
    }
    fn is_stored(&self) -> bool {
        self.stored.len() >= self.chunks as usize
    }
}

impl<'a> World<'a> {
    fn start(trib: &'a Trib, stage: &'a Stage, source: &'a Source) -> Outcome<World<'a>> {
        let node = |label: &str, roles, faces| NodeSpec::new(format!("store-{label}"), roles).family("mf").faces(faces);
        let room = (source.size as f64 * HEADROOM) as u64 + (1 << 20);
        let router_spec = NodeSpec {
            listen: Some(stage.address()?),
            sections: format!("[mf]\nstore_size = \"{room}B\"\nstore_flow_size = \"{room}B\"\ncache_size = \"0B\"\n"),
            ..node("router", &["router", "resolver"], Vec::new())
        };
        let router = trib.node(stage, &router_spec)?;
        let to_router = || vec![Face::to(router.address)];
        let receiver_spec = node("receiver", &["receiver"], to_router());
        // A device is identified by its key: it starts once to report its identifier, and exits.
        let receiver = trib.node(stage, &receiver_spec)?;
        receiver.wait_until_neighbours(1)?;
        let receiver_id = id_of(&receiver)?;
        drop(receiver);
        let sender = trib.node(stage, &node("sender", &["sender"], to_router()))?;
        sender.wait_until_neighbours(1)?;
        router.wait_until("the receiver is away", |status| {
            let faces = status["faces"].as_array().map_or(&[][..], Vec::as_slice);
            faces.iter().filter(|face| face["up"] == true).count() == 1
        })?;
        Ok(World { trib, stage, source, router, router_spec, sender, receiver_spec, receiver_id, sends: Cell::new(0) })
    }
    /// CPU time of the sender and of the router.
    fn cpu_seconds(&self) -> Outcome<(f64, f64)> {
        Ok((self.sender.process.cpu_seconds()?, self.router.process.cpu_seconds()?))
    }
    /// Sends the file to the receiver.
    fn send(&self) -> Outcome<Process> {
        self.sends.set(self.sends.get() + 1);
        self.trib.send_by(self.stage, &self.sender, &self.source.path, NAME, &self.receiver_id, TRANSFER_PATIENCE)
    }
    /// Starts the router again; returns the numbers of the chunks that it found in its store.
    fn revive(&mut self, trib: &Trib, stage: &Stage) -> Outcome<BTreeSet<u32>> {
        self.router = trib.node_again(stage, &self.router_spec)?;
        self.router.held_chunks()
    }
    /// The receiver returns; true if it has received the whole file.
    fn receive(&self, trib: &Trib, stage: &Stage, source: &Source) -> Outcome<bool> {
        let inbox = stage.path("inbox");
        let recv = trib.recv_again(stage, &self.receiver_spec, &inbox, RETURN_PATIENCE)?;
        let received = recv.finish(RETURN_PATIENCE * 2).is_ok();
        let file = inbox.join(NAME.trim_start_matches('/'));
        let entire = received && hash_of(&file)? == source.hash;
        if inbox.exists() {
            std::fs::remove_dir_all(inbox)?;
        }
        Ok(entire)
    }
}

/// Reads the output of `trib send` until `enough` is true.
fn follow(send: &Process, enough: impl Fn(&Sending) -> bool) -> Outcome<Sending> {
    loop {
        if let Some(view) = Sending::read(&send.line(TRANSFER_PATIENCE)?)?
            && enough(&view)
        {
            return Ok(view);
        }
    }
}
/// The last report of `trib send` after `view`, once there are no more.
fn last_of(send: &Process, mut view: Sending) -> Outcome<Sending> {
    while let Ok(line) = send.line(QUIET) {
        view = Sending::read(&line)?.unwrap_or(view);
    }
    Ok(view)
}
fn id_of(daemon: &Daemon) -> Outcome<String> {
    let status = daemon.status()?;
    let pairs = status["resolver"].as_array().map_or(&[][..], Vec::as_slice);
    let guid = pairs.iter().find(|pair| pair[0] == "guid").and_then(|pair| pair[1].as_str());
    Ok(guid.ok_or("a MobilityFirst node without a GUID")?.into())
}
fn own_cpu_seconds() -> Outcome<f64> {
    Ok(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.num_nanoseconds() as f64 / 1e9)
}

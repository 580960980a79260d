//! NDN over a narrow link between two unmodified forwarders: the value of a consumer's window without help of the
//! network.
//!
//! ```text
//!  producer ── ndnd's forwarder ── 25 Mbit/s, 10 ms, queue of 64 KiB ── ndnd's forwarder ── consumer
//! ```
//! Each forwarder has a separate network namespace and the kernel's interface to the other one; programs are at their
//! Unix sockets. Ours and ndnd's in turn, each transfer over new links and forwarders; nothing is cached.
use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{Context, Findings, clear, ndnd, ours::NAME, rivals::Source};
use crate::{
    Outcome,
    harness::{
        emulator::{Emulator, Link, inside},
        figure::Figure,
        process::Process,
        stage::Stage,
        tools,
        trib::{Done, NodeSpec, Trib},
    },
    note,
};

/// Bytes of the file: some seconds on the link.
const SIZE: u64 = 25_000_000;
const RATE_MBPS: f64 = 25.0;
/// How long one fetch may take: three times the link's time.
const PATIENCE: Duration = Duration::from_secs(30);
const NEAR: usize = 0;
const FAR: usize = 1;
/// The only link.
const NARROW: usize = 0;
/// The configuration of both forwarders: UDP to the other one, and no content store, which would answer in its stead.
const FORWARDER: &str = "core:\n  log_level: ERROR\nfw:\n  threads: 2\ntables:\n  content_store:\n    admit: false\n    \
                         serve: false\nfaces:\n  udp:\n    enabled_multicast: false\n  tcp:\n    enabled: false\n  \
                         websocket:\n    enabled: false\n";

pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let ndnd = tools::find("ndnd").ok_or_else(|| tools::missing("ndnd", "whose forwarders these are"))?;
    let source = Source::make(&mut context.stage, SIZE)?;
    let (stage, trib, rounds) = (&context.stage, &context.trib, context.arguments.rounds());
    let (mut goodput, mut carried, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    let mut theirs = Vec::new();
    let mut findings = Findings::default();
    for round in 1..=rounds {
        let fetched = Network::start(&ndnd, stage)?.fetch(trib, stage, &source)?;
        note(&format!("  trib, round {round}: {:.2} Mbit/s, {:.3} of the link", fetched.goodput_mbps, fetched.share));
        goodput.push(fetched.goodput_mbps);
        carried.push(fetched.share);
        repeated.push(fetched.repeated);
        match Network::start(&ndnd, stage)?.theirs(&ndnd, stage, &source) {
            Ok(mbps) => {
                note(&format!("  ndnd, round {round}: {mbps:.2} Mbit/s"));
                theirs.push(mbps);
            }
            Err(error) => note(&format!("  ndnd, round {round}: {error}")),
        }
    }
    findings.notes.push(format!(
        "ndnd put and ndnd cat: {} of {rounds} fetches were complete within {} s",
        theirs.len(),
        PATIENCE.as_secs()
    ));
    let figures = &mut findings.figures;
    figures.push(Figure::new("share of the link's rate that IP packets of the fetch took", "", carried));
    let goodput = Figure::new("goodput, verified", "Mbit/s", goodput);
    figures.push(if theirs.is_empty() { goodput } else { goodput.rival("ndnd, where complete", theirs) });
    figures.push(Figure::new("share of the payload requested again", "", repeated));
    findings.notes.push(format!(
        "the link: {RATE_MBPS} Mbit/s, 10 ms each way, a queue of 64 KiB; its rate counts IP packets, which ndnd cuts to \
         its own MTU of 1,420"
    ));
    Ok(findings)
}

/// Two forwarders of ndnd, joined by the link.
struct Network {
    emulator: Emulator,
    near: PathBuf,
    far: PathBuf,
    /// They run as long as the network.
    _forwarders: [Process; 2],
}

struct Fetched {
    goodput_mbps: f64,
    share: f64,
    repeated: f64,
}

impl Network {
    fn start(ndnd: &Path, stage: &Stage) -> Outcome<Network> {
        let link = Link { ends: [NEAR, FAR], mbps: RATE_MBPS, delay_ms: 10.0, loss: 0.0, queue_kib: 64 };
        let emulator = Emulator::start(stage, 2, &[link], &[])?;
        let (near, far) = (stage.path("near.sock"), stage.path("far.sock"));
        let forwarder = |label: &str, host: usize, socket: &Path| {
            ndnd::forwarder(stage, label, inside(emulator.host(host), ndnd), socket, FORWARDER)
        };
        let forwarders = [forwarder("near", NEAR, &near)?, forwarder("far", FAR, &far)?];
        let mut command = Command::new(ndnd);
        let there = format!("face=udp4://{}:6363", emulator.address(NARROW, NEAR));
        command.args(["fw", "route-add", "prefix=/", &there]).env(ndnd::TRANSPORT, ndnd::transport(&far));
        Process::spawn("route", stage, &mut command)?.finish(PATIENCE)?;
        Ok(Network { emulator, near, far, _forwarders: forwarders })
    }
    fn fetch(&self, trib: &Trib, stage: &Stage, source: &Source) -> Outcome<Fetched> {
        let output = stage.path("legacy-output");
        clear(&output)?;
        let node = |label: &str, role: &'static [&'static str], socket: &Path, more: &str| {
            NodeSpec::new(label, role)
                .family("ndn")
                .sections(format!("[[face]]\npeer = \"{}\"\n{more}", ndnd::transport(socket)))
        };
        let producer = NodeSpec {
            publish: Some((NAME.into(), source.path.clone())),
            ..node("producer", &["sender"], &self.near, "")
        };
        let producer = trib.node(stage, &producer)?;
        producer.wait_until_published()?;
        let consumer = node("consumer", &["receiver"], &self.far, "routes = [\"/\"]\n");
        let before = self.emulator.received_bytes(FAR, NARROW)?;
        let ended = trib.get_here(stage, &consumer, NAME, &output)?.finish(PATIENCE)?;
        let done = Done::read(&ended.lines)?;
        let carried = self.emulator.received_bytes(FAR, NARROW)? - before;
        source.take(&output)?;
        let mbps = |bytes: u64| bytes as f64 * 8.0 / done.seconds / 1e6;
        Ok(Fetched {
            goodput_mbps: mbps(done.bytes),
            share: mbps(carried) / RATE_MBPS,
            repeated: done.retransmitted as f64 / done.bytes as f64,
        })
    }
    /// The goodput of ndnd's programs.
    fn theirs(&self, ndnd: &Path, stage: &Stage, source: &Source) -> Outcome<f64> {
        let output = stage.path("ndnd-output");
        clear(&output)?;
        let _put = ndnd::put(ndnd, stage, "ndnd-put", NAME, source, &self.near)?;
        let ended = ndnd::cat(ndnd, stage, "ndnd-cat", NAME, &output, &ndnd::transport(&self.far))?.finish(PATIENCE)?;
        source.take(&output)?;
        Ok(source.size as f64 * 8.0 / ndnd::printed_seconds(&ended.lines, source.size)? / 1e6)
    }
}

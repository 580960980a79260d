//! MobilityFirst over a lossy or interrupted last hop, compared with the kernel's TCP over the same emulated links, in
//! turn.
//!
//! ```text
//!   server ── 1 Gbit/s, rest of the round trip ── router ── 25 Mbit/s, 1 ms, loss, silence ── client
//! ```
//! Three network namespaces; each transfer has new daemons, connections and links, so that no knowledge of the path
//! remains from the transfer before.
use std::{net::SocketAddr, path::Path, time::Duration};

use super::{
    Context, Findings, add, clear,
    ours::NAME,
    rivals::{Source, TRANSFER_PATIENCE},
};
use crate::{
    Outcome,
    harness::{
        emulator::{Emulator, Link, Silence, inside},
        figure::Figure,
        process::Process,
        rounds::{Contender, Sample, take_turns},
        stage::Stage,
        targets,
        trib::{Done, Face, NodeSpec, Trib},
    },
    note,
    yardstick::Fetched,
};

/// Rate of the last hop in Mbit/s.
const LAST_HOP_MBPS: f64 = 25.0;
/// Room in front of the last hop: 84 ms, as access points have.
const QUEUE_KIB: u32 = 256;
/// Share of a link that TCP's payload can have.
const PAYLOAD_SHARE: f64 = 1_448.0 / 1_500.0;
/// The hosts.
const SERVER: usize = 0;
const ROUTER: usize = 1;
const CLIENT: usize = 2;
/// The links.
const WIRED: usize = 0;
const LAST_HOP: usize = 1;

/// Bytes of the file over a lossy hop: 16 s of the last hop.
const LOSS_BYTES: u64 = 50_000_000;
/// Transfers that loss has stalled are not awaited.
const LOSS_SECONDS_MAX: f64 = 30.0;
/// Round-trip times in milliseconds.
const RTTS_MS: [u32; 3] = [10, 50, 100];

/// Bytes of the file that an outage interrupts: 3.3 s of the last hop.
const OUTAGE_BYTES: u64 = 10_000_000;
/// The round-trip time of an outage's path in milliseconds.
const OUTAGE_RTT_MS: u32 = 50;
/// Outages in seconds.
const OUTAGES: [u64; 2] = [10, 30];
/// Start of a request after the links came up: daemons know each other by then.
const REQUEST_AT: Duration = Duration::from_secs(6);
/// Outages start between the first and the last of these times after the request.
const OUTAGE_MOMENTS: [f64; 2] = [0.3, 2.9];

/// The sending transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transport {
    Mftp,
    Tcp(&'static str),
}
/// All of them, ours first.
const TRANSPORTS: [Transport; 3] = [Transport::Mftp, Transport::Tcp("bbr"), Transport::Tcp("cubic")];

impl Transport {
    fn name(self) -> String {
        match self {
            Transport::Mftp => "trib".into(),
            Transport::Tcp(congestion) => format!("kernel TCP {congestion}"),
        }
    }
}

/// One transfer over new links.
struct Trial<'a> {
    trib: &'a Trib,
    stage: &'a Stage,
    source: &'a Source,
    rtt_ms: u32,
    loss: f64,
    /// When the last hop falls silent after the request, and for how long.
    outage: Option<(Duration, Duration)>,
    /// In seconds; the bytes received by then count, if the transport reports them.
    seconds_max: Option<f64>,
}

/// With and without loss (target 10).
pub(super) fn run_loss(context: &mut Context<'_>) -> Outcome<Findings> {
    let source = Source::make(&mut context.stage, LOSS_BYTES)?;
    let (stage, trib) = (&context.stage, &context.trib);
    let mut findings = Findings::default();
    for rtt_ms in RTTS_MS {
        let mut contenders = Vec::new();
        for transport in TRANSPORTS {
            for loss in [0.0, 0.01] {
                let trial = Trial {
                    trib,
                    stage,
                    source: &source,
                    rtt_ms,
                    loss,
                    outage: None,
                    seconds_max: Some(LOSS_SECONDS_MAX),
                };
                let name = format!("{}, RTT {rtt_ms} ms, {} % loss", transport.name(), loss * 100.0);
                let contender = Contender::new(name.clone(), move || trial.run(transport));
                add(&mut contenders, &mut findings, &name, Ok(contender));
            }
        }
        take_turns(context.arguments.rounds(), &mut contenders, || Ok(()));
        findings.notes.extend(contenders.iter().filter_map(Contender::failure));
        let goodput = |place: usize| contenders[place].values(|sample: &Sample| sample.rate() * 8.0);
        let [clean, lossy, bbr_clean, bbr, cubic_clean, cubic] = std::array::from_fn(goodput);
        if clean.is_empty() || lossy.is_empty() {
            continue;
        }
        let figure =
            |what: &str, ours: &Vec<f64>| Figure::new(format!("{what}, RTT {rtt_ms} ms"), "Mbit/s", ours.clone());
        let figures = &mut findings.figures;
        figures.push(figure("1 % loss", &lossy).rival("trib without loss", clean.clone()).judged(targets::LOSS_OWN));
        for (name, values, target) in [("BBR", bbr, Some(targets::LOSS_BBR)), ("Cubic", cubic, None)] {
            if !values.is_empty() {
                let figure = figure("1 % loss", &lossy).rival(format!("kernel TCP {name}"), values);
                figures.push(target.map_or(figure.clone(), |target| figure.judged(target)));
            }
        }
        for (name, values) in [("BBR", bbr_clean), ("Cubic", cubic_clean)] {
            if !values.is_empty() {
                figures.push(figure("no loss", &clean).rival(format!("kernel TCP {name}"), values));
            }
        }
    }
    findings.notes.push(format!(
        "goodput of {} MB from the request, or the connection, to the last byte, ours verified and written; transfers \
         longer than {LOSS_SECONDS_MAX} s are cut off and count with the bytes until then; {:.1} Mbit/s is the limit \
         of TCP's payload on the last hop",
        LOSS_BYTES / 1_000_000,
        LAST_HOP_MBPS * PAYLOAD_SHARE,
    ));
    if findings.figures.is_empty() { Err(findings.notes.join("; ").into()) } else { Ok(findings) }
}

/// The last hop is silent for some time (target 11).
pub(super) fn run_outage(context: &mut Context<'_>) -> Outcome<Findings> {
    let source = Source::make(&mut context.stage, OUTAGE_BYTES)?;
    let (stage, trib, rounds) = (&context.stage, &context.trib, context.arguments.rounds());
    let mut findings = Findings::default();
    let mut contenders = Vec::new();
    for transport in TRANSPORTS {
        for length in [0].into_iter().chain(OUTAGES) {
            let source = &source;
            let mut round = 0;
            let name = format!("{}, {length} s away", transport.name());
            let contender = Contender::new(name.clone(), move || {
                let at = Duration::from_secs_f64(moment(round, rounds));
                let outage = (length > 0).then_some((at, Duration::from_secs(length)));
                let trial = Trial { trib, stage, source, rtt_ms: OUTAGE_RTT_MS, loss: 0.0, outage, seconds_max: None };
                let sample = trial.run(transport)?;
                round += 1;
                Ok(sample)
            });
            add(&mut contenders, &mut findings, &name, Ok(contender));
        }
    }
    take_turns(rounds, &mut contenders, || Ok(()));
    findings.notes.extend(contenders.iter().filter_map(Contender::failure));
    let per_transport = 1 + OUTAGES.len();
    for (of_length, length) in OUTAGES.into_iter().enumerate() {
        for (of_transport, transport) in TRANSPORTS.into_iter().enumerate() {
            let seconds =
                |place: usize| contenders[of_transport * per_transport + place].values(|sample| sample.seconds);
            let (without, with) = (seconds(0), seconds(1 + of_length));
            let lost: Vec<f64> =
                with.iter().zip(&without).map(|(with, without)| with - without - length as f64).collect();
            if lost.is_empty() {
                continue;
            }
            let most = lost.iter().copied().fold(f64::MIN, f64::max);
            let mean = lost.iter().sum::<f64>() / lost.len() as f64;
            note(&format!("  {}, {length} s away: lost {lost:.3?} s", transport.name()));
            let what = format!("{} after {length} s", transport.name());
            let figure = Figure::new(format!("most time lost by {what}"), "s", vec![most]);
            let is_ours = transport == Transport::Mftp;
            findings.figures.push(if is_ours { figure.judged(targets::OUTAGE) } else { figure });
            findings.figures.push(Figure::new(format!("mean time lost by {what}"), "s", vec![mean]));
        }
    }
    findings.notes.push(format!(
        "{} MB at a round trip of {OUTAGE_RTT_MS} ms; the last hop falls silent at a different moment in each round, \
         equal for all, {:.1} to {:.1} s after the request; time lost is the time beyond the same transport's \
         without an outage in the same round, plus the outage",
        OUTAGE_BYTES / 1_000_000,
        moment(0, rounds),
        moment(rounds - 1, rounds),
    ));
    if findings.figures.is_empty() { Err(findings.notes.join("; ").into()) } else { Ok(findings) }
}
/// Start of a round's outage, in seconds after the request.
fn moment(round: usize, rounds: usize) -> f64 {
    let [first, last] = OUTAGE_MOMENTS;
    first + (last - first) * (round.min(rounds - 1) as f64 + 0.5) / rounds as f64
}

impl Trial<'_> {
    fn run(&self, transport: Transport) -> Outcome<Sample> {
        let wired = Link {
            ends: [SERVER, ROUTER],
            mbps: 1_000.0,
            delay_ms: f64::from(self.rtt_ms) / 2.0 - 1.0,
            loss: 0.0,
            queue_kib: 2_048,
        };
        let last =
            Link { ends: [ROUTER, CLIENT], mbps: LAST_HOP_MBPS, delay_ms: 1.0, loss: self.loss, queue_kib: QUEUE_KIB };
        let silence = self.outage.map(|(at, length)| Silence { link: LAST_HOP, from: REQUEST_AT + at, length });
        let emulator = Emulator::start(self.stage, 3, &[wired, last], silence.as_slice())?;
        emulator.route(SERVER, LAST_HOP, WIRED)?;
        emulator.route(CLIENT, WIRED, LAST_HOP)?;
        match transport {
            Transport::Mftp => self.mftp(&emulator),
            Transport::Tcp(congestion) => self.tcp(&emulator, congestion),
        }
    }
    fn mftp(&self, emulator: &Emulator) -> Outcome<Sample> {
        let at = |host: usize, link: usize| SocketAddr::from((emulator.address(link, host), PORT));
        let spec =
            |label: &str, host: usize, listen: SocketAddr, roles: &'static [&'static str], peers: &[SocketAddr]| {
                NodeSpec::new(label, roles)
                    .family("mf")
                    .inside(emulator.host(host))
                    .listen(listen)
                    .faces(peers.iter().copied().map(Face::to).collect())
            };
        let anywhere = SocketAddr::from(([0, 0, 0, 0], PORT));
        let router = spec("router", ROUTER, anywhere, &["router", "resolver"], &[]);
        let server = NodeSpec {
            publish: Some((NAME.into(), self.source.path.clone())),
            ..spec("server", SERVER, anywhere, &["sender"], &[at(ROUTER, WIRED)])
        };
        let client = spec("client", CLIENT, anywhere, &["receiver"], &[at(ROUTER, LAST_HOP)]);
        let _router = self.trib.node(self.stage, &router)?;
        let server = self.trib.node(self.stage, &server)?;
        let client = self.trib.node(self.stage, &client)?;
        server.wait_until_published()?;
        client.wait_until_neighbours(1)?;
        let output = self.stage.path("output");
        clear(&output)?;
        emulator.wait_until(REQUEST_AT)?;
        let ended = self.trib.get_by(self.stage, &client, NAME, &output)?.finish(TRANSFER_PATIENCE)?;
        let done = Done::read(&ended.lines)?;
        self.source.take(&output)?;
        Ok(Sample { bytes: done.bytes, seconds: done.seconds, ..Sample::default() })
    }
    fn tcp(&self, emulator: &Emulator, congestion: &str) -> Outcome<Sample> {
        let address = SocketAddr::from((emulator.address(WIRED, SERVER), PORT));
        let program = std::env::current_exe()?;
        let here = |host: usize, program: &Path| {
            let mut command = inside(emulator.host(host), program);
            command.arg("yardstick");
            command
        };
        let mut command = here(SERVER, &program);
        command.args(["tcp-serve", &address.to_string(), congestion, &self.source.size.to_string()]);
        let server = Process::spawn("tcp-server", self.stage, &mut command)?;
        server.line_after("ready ", START_PATIENCE)?;
        emulator.wait_until(REQUEST_AT)?;
        let mut command = here(CLIENT, &program);
        command.args(["tcp-get", &address.to_string(), &self.source.size.to_string()]);
        if let Some(seconds) = self.seconds_max {
            command.args(["--seconds-max", &seconds.to_string()]);
        }
        let client = Process::spawn("tcp-client", self.stage, &mut command)?.finish(TRANSFER_PATIENCE)?;
        let fetched: Fetched = serde_json::from_str(client.lines.last().ok_or("the client printed nothing")?)?;
        Ok(Sample { bytes: fetched.bytes, seconds: fetched.seconds, ..Sample::default() })
    }
}

/// The port of all servers and daemons; each has a separate namespace.
const PORT: u16 = 7_077;
/// How long a server may take to start.
const START_PATIENCE: Duration = Duration::from_secs(10);

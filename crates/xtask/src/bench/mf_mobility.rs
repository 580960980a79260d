//! A receiver that moves from one access router to another during a transfer, compared with the kernel's TCP over the
//! same emulated links, in turn.
//!
//! ```text
//!                            ┌── 1 Gbit/s ── access-1 ── 25 Mbit/s, until it moves ──┐
//!  server ─ 1 Gbit/s, 20 ms ─ core                                                    ├─ client
//!                            └── 1 Gbit/s ── access-2 ── 25 Mbit/s, from then on ────┘
//! ```
//! Five network namespaces; each transfer has new daemons, connections and links. A receiver that moves loses its
//! address in the first access network and the routes over it, and has a route over the second one after its arrival.
//! TCP's connections do not outlive that: its client requests the rest by HTTP over a new one.
use std::{net::SocketAddr, thread::sleep, time::Duration};

use super::{Context, Findings, add, clear, ours::NAME, rivals::Source};
use crate::{
    Outcome,
    harness::{
        emulator::{Emulator, Link, Silence, inside},
        figure::Figure,
        process::Process,
        rounds::{Contender, Sample, take_turns},
        stage::Stage,
        trib::{Done, Face, NodeSpec, Trib},
    },
    note,
    yardstick::Fetched,
};

/// Bytes of the file: 3.3 s of an access link.
const SIZE: u64 = 10_000_000;
/// Start of a request after the links came up: daemons know each other by then.
const REQUEST_AT: Duration = Duration::from_secs(7);
/// When the client leaves its first router, after the request.
const LEAVES: Duration = Duration::from_millis(1_500);
/// Seconds until it is at the second one; `None` stays where it is.
const MOVES: [Option<u64>; 4] = [None, Some(0), Some(1), Some(5)];
/// Rate of an access link in Mbit/s.
const ACCESS_MBPS: f64 = 25.0;
/// After this time without a byte a client closes a connection: the default of Python's package manager; the defaults
/// of apt and aria2 are 30 and 60 s.
const TIMEOUT_SECONDS: u64 = 15;
/// How long a transfer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a server may take to start.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// The port of all servers and daemons; each has a separate namespace.
const PORT: u16 = 7_077;

/// The hosts.
const SERVER: usize = 0;
const CORE: usize = 1;
const CLIENT: usize = 4;
const ACCESS: [usize; 2] = [2, 3];
/// The links.
const FAR: usize = 0;
const NEAR: [usize; 2] = [1, 2];
const LAST: [usize; 2] = [3, 4];

/// The sending transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transport {
    Mftp,
    /// With this congestion control. The client is notified of its move immediately.
    Notified(&'static str),
    /// The client has nothing but its timeout.
    Timeout(&'static str),
}
/// All of them, ours first.
const TRANSPORTS: [Transport; 5] = [
    Transport::Mftp,
    Transport::Notified("bbr"),
    Transport::Notified("cubic"),
    Transport::Timeout("bbr"),
    Transport::Timeout("cubic"),
];

impl Transport {
    fn name(self) -> String {
        match self {
            Transport::Mftp => "trib".into(),
            Transport::Notified(congestion) => format!("kernel TCP {congestion}, notified of the move"),
            Transport::Timeout(congestion) => format!("kernel TCP {congestion}, timeout"),
        }
    }
    /// The transfer without a move for comparison: there the TCP clients do not differ.
    fn staying(self) -> Transport {
        match self {
            Transport::Timeout(congestion) => Transport::Notified(congestion),
            other => other,
        }
    }
}

pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let source = Source::make(&mut context.stage, SIZE)?;
    let (stage, trib) = (&context.stage, &context.trib);
    let mut findings = Findings::default();
    let (mut contenders, mut kinds) = (Vec::new(), Vec::new());
    for transport in TRANSPORTS {
        for pause in MOVES.into_iter().filter(|pause| pause.is_some() || transport.staying() == transport) {
            let name = match pause {
                None => format!("{}, staying", transport.name()),
                Some(pause) => format!("{}, {pause} s between", transport.name()),
            };
            let trial = Trial { trib, stage, source: &source, pause };
            let contender = Contender::new(name.clone(), move || trial.run(transport));
            add(&mut contenders, &mut findings, &name, Ok(contender));
            kinds.push((transport, pause));
        }
    }
    take_turns(context.arguments.rounds(), &mut contenders, || Ok(()));
    findings.notes.extend(contenders.iter().filter_map(Contender::failure));
    let seconds = |transport: Transport, pause: Option<u64>| {
        let place = kinds.iter().position(|kind| *kind == (transport, pause));
        place.map_or(Vec::new(), |place| contenders[place].values(|sample| sample.seconds))
    };
    for pause in MOVES.into_iter().flatten() {
        for transport in TRANSPORTS {
            let (moving, staying) = (seconds(transport, Some(pause)), seconds(transport.staying(), None));
            let lost: Vec<f64> =
                moving.iter().zip(&staying).map(|(moving, staying)| moving - staying - pause as f64).collect();
            if lost.is_empty() {
                continue;
            }
            note(&format!("  {}, {pause} s between: lost {lost:.3?} s", transport.name()));
            let what = format!("lost with {pause} s between, {}", transport.name());
            findings.figures.push(Figure::new(what, "s", lost));
        }
    }
    if findings.figures.is_empty() {
        return Err(findings.notes.join("; ").into());
    }
    findings.notes.push(format!(
        "{} MB, the move {LEAVES:?} after the request; time lost is the time beyond the same transport's without a \
         move, in the same round, plus the time between. TCP's client requests the missing part over a new \
         connection: notified of the move, as soon as its address towards the server has changed, or else after \
         {TIMEOUT_SECONDS} s without a byte",
        SIZE / 1_000_000
    ));
    Ok(findings)
}

/// One transfer over new links.
struct Trial<'a> {
    trib: &'a Trib,
    stage: &'a Stage,
    source: &'a Source,
    pause: Option<u64>,
}

impl Trial<'_> {
    fn run(&self, transport: Transport) -> Outcome<Sample> {
        let link = |ends: [usize; 2], mbps: f64, delay_ms: f64, queue_kib: u32| Link {
            ends,
            mbps,
            delay_ms,
            loss: 0.0,
            queue_kib,
        };
        let links = [
            link([SERVER, CORE], 1_000.0, 20.0, 2_048),
            link([CORE, ACCESS[0]], 1_000.0, 1.0, 2_048),
            link([CORE, ACCESS[1]], 1_000.0, 1.0, 2_048),
            link([ACCESS[0], CLIENT], ACCESS_MBPS, 1.0, 256),
            link([ACCESS[1], CLIENT], ACCESS_MBPS, 1.0, 256),
        ];
        let leaves = REQUEST_AT + LEAVES;
        let arrives = self.pause.map(|pause| leaves + Duration::from_secs(pause));
        // A link without a node at its end is silent.
        let first = arrives.map(|_| Silence { link: LAST[0], from: leaves, length: FOREVER });
        let second = Silence { link: LAST[1], from: Duration::ZERO, length: arrives.unwrap_or(FOREVER) };
        let silences: Vec<Silence> = first.into_iter().chain([second]).collect();
        let emulator = Emulator::start(self.stage, 5, &links, &silences)?;
        for (access, (near, last)) in ACCESS.into_iter().zip(NEAR.into_iter().zip(LAST)) {
            emulator.route(SERVER, last, FAR)?;
            emulator.route(CORE, last, near)?;
            emulator.route(access, FAR, near)?;
        }
        emulator.route(CLIENT, FAR, LAST[0])?;
        let output = self.stage.path("mobility-output");
        clear(&output)?;
        let seconds = match transport {
            Transport::Mftp => self.mftp(&emulator)?,
            Transport::Notified(congestion) => self.tcp(&emulator, congestion, &["--follow"])?,
            Transport::Timeout(congestion) => self.tcp(&emulator, congestion, &[])?,
        };
        self.source.take(&output)?;
        Ok(Sample { bytes: SIZE, seconds, ..Sample::default() })
    }
    /// Moves the client, whose request starts now.
    fn travel(&self, emulator: &Emulator) -> Outcome {
        let Some(pause) = self.pause else { return Ok(()) };
        emulator.wait_until(REQUEST_AT + LEAVES)?;
        emulator.leave(CLIENT, LAST[0])?;
        if pause > 0 {
            emulator.wait_until(REQUEST_AT + LEAVES + Duration::from_secs(pause))?;
        }
        // A first packet that were sent a moment too soon would cost TCP's client a second.
        sleep(LINK_COMES_UP);
        emulator.route(CLIENT, FAR, LAST[1])
    }
    fn mftp(&self, emulator: &Emulator) -> Outcome<f64> {
        let spec = |label: &str, host: usize, roles: &'static [&'static str], peers: &[(usize, usize)]| {
            NodeSpec::new(format!("mobility-{label}"), roles)
                .family("mf")
                .inside(emulator.host(host))
                .listen(SocketAddr::from(([0, 0, 0, 0], PORT)))
                .faces(
                    peers
                        .iter()
                        .map(|(link, peer)| Face::to(SocketAddr::from((emulator.address(*link, *peer), PORT))))
                        .collect(),
                )
        };
        const ROUTER: &[&str] = &["router", "resolver"];
        let _core = self.trib.node(self.stage, &spec("core", CORE, ROUTER, &[]))?;
        let _access = [
            self.trib.node(self.stage, &spec("access-1", ACCESS[0], ROUTER, &[(NEAR[0], CORE)]))?,
            self.trib.node(self.stage, &spec("access-2", ACCESS[1], ROUTER, &[(NEAR[1], CORE)]))?,
        ];
        let publish = Some((NAME.into(), self.source.path.clone()));
        let server = NodeSpec { publish, ..spec("server", SERVER, &["sender"], &[(FAR, CORE)]) };
        let server = self.trib.node(self.stage, &server)?;
        let peers = [(LAST[0], ACCESS[0]), (LAST[1], ACCESS[1])];
        let client = self.trib.node(self.stage, &spec("client", CLIENT, &["receiver"], &peers))?;
        server.wait_until_published()?;
        client.wait_until_neighbours(1)?;
        emulator.wait_until(REQUEST_AT)?;
        let get = self.trib.get_by(self.stage, &client, NAME, &self.stage.path("mobility-output"))?;
        self.travel(emulator)?;
        Ok(Done::read(&get.finish(PATIENCE)?.lines)?.seconds)
    }
    fn tcp(&self, emulator: &Emulator, congestion: &str, options: &[&str]) -> Outcome<f64> {
        let address = SocketAddr::from((emulator.address(FAR, SERVER), PORT)).to_string();
        let program = std::env::current_exe()?;
        let mut command = inside(emulator.host(SERVER), &program);
        let folder = self.source.path.parent().expect("it is in the stage's folder");
        command.args(["yardstick", "http-serve"]).arg(folder).args(["--listen", &address, "--congestion", congestion]);
        let server = Process::spawn("http-server", self.stage, &mut command)?;
        server.line_after("ready ", START_PATIENCE)?;
        let mut command = inside(emulator.host(CLIENT), &program);
        command.args(["yardstick", "http-get", &address, self.source.name()]);
        command.arg(self.stage.path("mobility-output")).arg(SIZE.to_string());
        command.args(["--timeout", &TIMEOUT_SECONDS.to_string()]).args(options);
        emulator.wait_until(REQUEST_AT)?;
        let client = Process::spawn("http-client", self.stage, &mut command)?;
        self.travel(emulator)?;
        let ended = client.finish(PATIENCE)?;
        let fetched: Fetched = serde_json::from_str(ended.lines.last().ok_or("the client printed nothing")?)?;
        Ok(fetched.seconds)
    }
}

/// The maximum delay until a link comes up.
const LINK_COMES_UP: Duration = Duration::from_millis(5);
/// Longer than any transfer may take.
const FOREVER: Duration = Duration::from_secs(3_600);

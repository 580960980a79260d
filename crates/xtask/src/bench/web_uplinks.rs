//! One file from two web mirrors over three uplinks, compared with aria2 over the same uplinks and curl over the best
//! one.
//!
//! ```text
//!             ┌── link-0: 20 Mbit/s, 20 ms, away for 5 s ──┐
//!  receiver ──┼── link-1: 12 Mbit/s, 20 ms, 1 % loss ──────┼── both mirrors (nginx)
//!             └── link-2:  8 Mbit/s, 20 ms ────────────────┘
//! ```
//! Two network namespaces. The receiver has a default route over each uplink, the best one first, as a machine with a
//! cable, a wireless and a mobile network has. The servers' TCP is Cubic, the default of Linux servers. Each transfer
//! has new links and servers, so that no knowledge of the paths remains from the transfer before.
//!
//! The fluid bound is the time that the file takes if every uplink carries 1,448 bytes of payload in each packet of
//! 1,500 bytes that is not lost, from the first moment on, without round trips.
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use super::{
    Context, Findings, add, clear,
    rivals::{Source, TRANSFER_PATIENCE, nginx_config, sha256},
};
use crate::{
    Outcome,
    harness::{
        emulator::{Emulator, Link, Silence, inside},
        figure::Figure,
        process::Process,
        rounds::{Contender, Sample, take_turns},
        stage::{Stage, hash_of},
        targets, tools,
        trib::Trib,
    },
    note,
};

/// Bytes of the file.
const SIZE: u64 = 200_000_000;
/// The uplinks: rate in Mbit/s and share of lost packets.
const UPLINKS: [(f64, f64); 3] = [(20.0, 0.0), (12.0, 0.01), (8.0, 0.0)];
/// Half of the round-trip time in milliseconds.
const DELAY_MS: f64 = 20.0;
/// Room in front of each link: a quarter of a second of the slowest one.
const QUEUE_KIB: u32 = 256;
/// The uplink that is away.
const AWAY: usize = 0;
/// Start of the outage in seconds after the request, and its duration.
const AWAY_FROM: f64 = 6.0;
const AWAY_SECONDS: f64 = 5.0;
/// Share of a link that payload can have.
const PAYLOAD_SHARE: f64 = 1_448.0 / 1_500.0;
/// Start of the request after the links came up.
const REQUEST_AT: Duration = Duration::from_secs(2);
/// How long a server may take to start.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// The hosts.
const RECEIVER: usize = 0;
const SERVERS: usize = 1;
/// The mirrors, behind all uplinks.
const MIRRORS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 78, 0, 1), Ipv4Addr::new(10, 78, 0, 2)];

/// Who fetches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Client {
    Trib,
    /// With this many connections in all.
    Aria2(usize),
    Curl,
}
impl Client {
    const ALL: [Client; 4] = [
        Client::Trib,
        Client::Aria2(UPLINKS.len() * MIRRORS.len()),
        Client::Aria2(4 * UPLINKS.len() * MIRRORS.len()),
        Client::Curl,
    ];

    fn name(self) -> String {
        match self {
            Client::Trib => "trib".into(),
            Client::Aria2(connections) => format!("aria2 with {connections} connections"),
            Client::Curl => "curl over the best uplink".into(),
        }
    }
}

/// What all transfers have in common.
struct Trial<'a> {
    trib: &'a Trib,
    stage: &'a Stage,
    source: &'a Source,
    checksum: &'a str,
}

pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let source = Source::make(&mut context.stage, SIZE)?;
    let (stage, trib) = (&context.stage, &context.trib);
    let checksum = sha256(stage, &source)?;
    let trial = Trial { trib, stage, source: &source, checksum: &checksum };
    let mut findings = Findings::default();
    let mut contenders = Vec::new();
    for client in Client::ALL {
        let trial = &trial;
        let contender = Contender::new(client.name(), move || trial.run(client));
        add(&mut contenders, &mut findings, &client.name(), Ok(contender));
    }
    take_turns(context.arguments.rounds(), &mut contenders, || Ok(()));
    findings.notes.extend(contenders.iter().filter_map(Contender::failure));
    let bound = fluid_seconds(SIZE);
    let Some((ours, others)) = contenders.split_first().filter(|(ours, _)| ours.is_complete()) else {
        return Ok(findings);
    };
    // The share of the bound, so that more is better.
    let share = |contender: &Contender<'_>| contender.values(|sample| bound / sample.seconds);
    let figure = Figure::new("share of the fluid bound", "", share(ours));
    findings.figures.push(figure.judged(targets::WEB_UPLINKS));
    findings.figures.push(Figure::new("time", "s", ours.values(|sample| sample.seconds)));
    for other in others.iter().filter(|other| other.is_complete()) {
        let rate = |contender: &Contender<'_>| contender.values(|sample| sample.rate() * 8.0);
        findings.figures.push(Figure::new("rate", "Mbit/s", rate(ours)).rival(other.name(), rate(other)));
    }
    findings.notes.push(format!(
        "the bound is {bound:.2} s: {SIZE} bytes at {PAYLOAD_SHARE:.4} of the uplinks' rates after losses, without \
         the best one for {AWAY_SECONDS} s, without any round trip; every time covers the whole process, \
         verification included"
    ));
    Ok(findings)
}

impl Trial<'_> {
    fn run(&self, client: Client) -> Outcome<Sample> {
        let link = |(mbps, loss): (f64, f64)| Link {
            ends: [RECEIVER, SERVERS],
            mbps,
            delay_ms: DELAY_MS,
            loss,
            queue_kib: QUEUE_KIB,
        };
        let links = UPLINKS.map(link);
        let from = REQUEST_AT + Duration::from_secs_f64(AWAY_FROM);
        let silence = Silence { link: AWAY, from, length: Duration::from_secs_f64(AWAY_SECONDS) };
        let emulator = Emulator::start(self.stage, 2, &links, &[silence])?;
        for link in 0..UPLINKS.len() {
            let (here, there) = (emulator.address(link, RECEIVER), emulator.address(link, SERVERS));
            emulator.run(
                RECEIVER,
                &format!("ip route add 10.78.0.0/24 via {there} dev link-{link} metric {}", 100 + link),
            )?;
            emulator.run(SERVERS, &format!("ip route add {here}/32 dev link-{link} congctl cubic"))?;
        }
        for mirror in MIRRORS {
            emulator.run(SERVERS, &format!("ip address add {mirror}/32 dev lo"))?;
        }
        let nginx = tools::find("nginx").ok_or_else(|| tools::missing("nginx", "of web mirrors"))?;
        let folder = self.source.path.parent().expect("it is in the stage's folder");
        let listen = MIRRORS.map(|mirror| SocketAddr::from((mirror, 80)));
        let config = nginx_config(&self.stage.path("mirrors"), &listen, folder)?;
        let mut server =
            Process::spawn("mirrors", self.stage, inside(emulator.host(SERVERS), &nginx).arg("-c").arg(&config))?;
        self.await_server(&emulator, &mut server)?;
        emulator.wait_until(REQUEST_AT)?;

        let output = self.stage.path("uplinks-output");
        clear(&output)?;
        let mut command = self.command(client, &emulator, &output)?;
        let start = Instant::now();
        let ended = Process::spawn("client", self.stage, &mut command)?.finish(TRANSFER_PATIENCE)?;
        let seconds = start.elapsed().as_secs_f64();
        if hash_of(&output)? != self.source.hash {
            return Err("the received file differs from the mirrors'".into());
        }
        clear(&output)?;
        let carried =
            (0..UPLINKS.len()).map(|link| emulator.received_bytes(RECEIVER, link)).collect::<Outcome<Vec<_>>>()?;
        let carried: Vec<String> = carried.iter().map(|bytes| format!("{:.1}", *bytes as f64 / 1e6)).collect();
        note(&format!("    {}: the uplinks carried {} MB", client.name(), carried.join(", ")));
        let server_cpu_seconds = server.cpu_seconds()?;
        Ok(Sample {
            bytes: self.source.size,
            seconds,
            server_cpu_seconds,
            client_cpu_seconds: ended.cpu_seconds,
            client_peak_bytes: ended.peak_bytes,
            ..Sample::default()
        })
    }
    /// Waits until the servers answer, on their own machine: no connection crosses an uplink before the request.
    fn await_server(&self, emulator: &Emulator, server: &mut Process) -> Outcome {
        let deadline = Instant::now() + START_PATIENCE;
        let probe = format!("curl --silent --fail --range 0-0 --output /dev/null {}", self.url(MIRRORS[0]));
        while emulator.run(SERVERS, &probe).is_err() {
            if Instant::now() > deadline || !server.is_running() {
                return Err(server.line(Duration::ZERO).expect_err("nginx prints nothing on stdout"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
    fn url(&self, mirror: Ipv4Addr) -> String {
        format!("http://{mirror}/{}", self.source.name())
    }
    fn command(&self, client: Client, emulator: &Emulator, output: &Path) -> Outcome<Command> {
        let find =
            |name: &str| tools::find(name).ok_or_else(|| tools::missing(name, &format!("against {}", client.name())));
        let here = |program: &Path| inside(emulator.host(RECEIVER), program);
        let devices: Vec<String> = (0..UPLINKS.len()).map(|link| format!("link-{link}")).collect();
        let urls = MIRRORS.map(|mirror| self.url(mirror));
        Ok(match client {
            Client::Trib => {
                let mut command = here(self.trib.command().get_program().as_ref());
                command.arg("get").arg(&urls[0]).args(urls[1..].iter().flat_map(|url| ["--mirror", url]));
                command.args(devices.iter().flat_map(|device| ["--interface", device]));
                command.args(["--json", "--overwrite", "--sha256", self.checksum, "-o"]).arg(output);
                command.env("XDG_STATE_HOME", self.stage.path("state"));
                command
            }
            Client::Aria2(connections) => {
                let mut command = here(&find("aria2c")?);
                let folder = output.parent().expect("it is in the stage's folder");
                let name = output.file_name().expect("it has a name").display();
                command.args(["--quiet", "--no-conf", "--file-allocation=none", "--min-split-size=1M"]);
                command.arg(format!("--multiple-interface={}", devices.join(",")));
                command.arg(format!("--split={connections}"));
                command.arg(format!("--max-connection-per-server={}", connections / MIRRORS.len()));
                command.arg(format!("--checksum=sha-256={}", self.checksum));
                command.arg(format!("--dir={}", folder.display())).arg(format!("--out={name}")).args(&urls);
                command
            }
            Client::Curl => {
                let mut command = here(&find("curl")?);
                command.args(["--silent", "--show-error", "--fail", "--interface", &devices[0], "--output"]);
                command.arg(output).arg(&urls[0]);
                command
            }
        })
    }
}

/// The fluid bound in seconds.
fn fluid_seconds(bytes: u64) -> f64 {
    let mut left = bytes as f64 * 8.0 / PAYLOAD_SHARE / 1e6;
    let rates = UPLINKS.map(|(mbps, loss)| mbps * (1.0 - loss));
    let total: f64 = rates.iter().sum();
    let without = total - rates[AWAY];
    let mut seconds = 0.0;
    for (rate, length) in [(total, AWAY_FROM), (without, AWAY_SECONDS)] {
        if left <= rate * length {
            return seconds + left / rate;
        }
        (left, seconds) = (left - rate * length, seconds + length);
    }
    seconds + left / total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fluid_bound_leaves_out_what_is_lost_and_away() {
        let near = |bytes, seconds: f64| {
            let found = fluid_seconds(bytes);
            assert!((found - seconds).abs() < 0.005, "{found}");
        };
        // 39.88 Mbit/s from the start; 96.5 % of it is payload.
        near(10_000_000, 2.08);
        near(SIZE, 44.07);
    }
}

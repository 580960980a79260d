//! The yardsticks as contenders: each starts its server once and fetches once per round.
use std::{
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use super::clear;
use crate::{
    Outcome,
    harness::{
        process::{Ended, Process},
        rounds::{Contender, Sample},
        stage::{Stage, hash_of},
        tools,
    },
    yardstick::Fetched,
};

/// A file that is transferred.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Where it is.
    pub(super) path: PathBuf,
    /// How many bytes it has.
    pub(super) size: u64,
    /// Its BLAKE3.
    pub(super) hash: String,
}

impl Source {
    /// Makes one on `stage`.
    pub(super) fn make(stage: &mut Stage, size: u64) -> Outcome<Source> {
        let (path, hash) = stage.source(size)?;
        Ok(Source { path, size, hash })
    }
    /// Compares what was received in `output` with it, and removes that.
    pub(super) fn take(&self, output: &Path) -> Outcome {
        if hash_of(output)? != self.hash {
            return Err("the received file differs from the published one".into());
        }
        clear(output)
    }
    /// The name of its file.
    pub(super) fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).expect("the stage names it in ASCII")
    }
}

/// How long a server may take to start.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// How long one transfer may take.
pub(super) const TRANSFER_PATIENCE: Duration = Duration::from_secs(300);

/// The bare UDP pump with datagrams of `datagram` bytes.
pub(super) fn pump<'a>(stage: &'a Stage, source: &Source, datagram: usize) -> Outcome<Contender<'a>> {
    let name = if datagram == crate::yardstick::DATAGRAM_BYTES { "pump".into() } else { format!("pump-{datagram}") };
    let datagram = datagram.to_string();
    let mut command = this_program()?;
    command.arg("pump-serve").arg(&source.path).args(["--datagram", &datagram]);
    let server = Process::spawn(&format!("{name}-server"), stage, &mut command)?;
    let address = server.line_after("ready ", START_PATIENCE)?;
    let (source, output) = (source.clone(), stage.path("pump-output"));
    Ok(Contender::new(name, move || {
        let mut command = this_program()?;
        command.arg("pump-get").arg(&address).arg(&output).arg(source.size.to_string()).args(["--datagram", &datagram]);
        own_client(stage, &server, &mut command, &source, &output)
    }))
}

/// quinn on one stream.
pub(super) fn quinn<'a>(stage: &'a Stage, source: &Source) -> Outcome<Contender<'a>> {
    let certificate = stage.path("certificate");
    let mut command = this_program()?;
    command.arg("quic-serve").arg(&source.path).arg(&certificate);
    let server = Process::spawn("quinn-server", stage, &mut command)?;
    let address = server.line_after("ready ", START_PATIENCE)?;
    let (source, output) = (source.clone(), stage.path("quinn-output"));
    Ok(Contender::new("quinn", move || {
        let mut command = this_program()?;
        command.arg("quic-get").arg(&address).arg(&certificate).arg(&output).arg(source.size.to_string());
        own_client(stage, &server, &mut command, &source, &output)
    }))
}

/// curl from an HTTP server.
pub(super) fn curl<'a>(stage: &'a Stage, source: &Source) -> Outcome<Contender<'a>> {
    let curl = tools::find("curl").ok_or_else(|| tools::missing("curl", "against an HTTP download"))?;
    let mirror = Mirror::start(stage, "mirror-0", source)?;
    let (source, output) = (source.clone(), stage.path("curl-output"));
    Ok(Contender::new(format!("curl + {}", mirror.kind), move || {
        clear(&output)?;
        let mut command = Command::new(&curl);
        command.args(["--silent", "--show-error", "--fail", "--write-out", "%{time_total}\n", "--output"]);
        command.arg(&output).arg(mirror.url(&source));
        let before = mirror.server.cpu_seconds()?;
        let client = Process::spawn("curl", stage, &mut command)?.finish(TRANSFER_PATIENCE)?;
        let server_cpu_seconds = mirror.server.cpu_seconds()? - before;
        let seconds: f64 = client.lines.last().ok_or("curl printed no time")?.parse()?;
        check_length(&output, source.size)?;
        clear(&output)?;
        Ok(sample(&source, seconds, server_cpu_seconds, mirror.server.peak_bytes(), &client))
    }))
}

/// Whether a download is compared with its SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Checksum {
    /// It is not.
    Unchecked,
    /// It is, after it has arrived.
    Sha256,
}

/// aria2 from `count` mirrors.
pub(super) fn aria2<'a>(stage: &'a Stage, source: &Source, count: usize, checksum: Checksum) -> Outcome<Contender<'a>> {
    let aria2 = tools::find("aria2c").ok_or_else(|| tools::missing("aria2c", "against aria2"))?;
    let mirrors = (0..count)
        .map(|index| Mirror::start(stage, &format!("mirror-{index}"), source))
        .collect::<Outcome<Vec<_>>>()?;
    let name = match checksum {
        Checksum::Unchecked => "aria2",
        Checksum::Sha256 => "aria2 with checksum",
    };
    let sum = match checksum {
        Checksum::Unchecked => None,
        Checksum::Sha256 => Some(sha256(stage, source)?),
    };
    let (source, output) = (source.clone(), stage.path("aria2-output"));
    Ok(Contender::new(name, move || {
        clear(&output)?;
        let mut command = Command::new(&aria2);
        command.args([
            "--quiet",
            "--no-conf",
            "--file-allocation=none",
            "--min-split-size=1M",
            "--piece-length=16M",
            "--max-connection-per-server=1",
        ]);
        command.arg(format!("--split={count}")).arg(format!("--dir={}", stage.path("").display()));
        command.arg("--out=aria2-output").args(mirrors.iter().map(|mirror| mirror.url(&source)));
        if let Some(sum) = &sum {
            command.arg(format!("--checksum=sha-256={sum}"));
        }
        let cpu = || mirrors.iter().map(|mirror| mirror.server.cpu_seconds()).sum::<Outcome<f64>>();
        let before = cpu()?;
        let start = Instant::now();
        let client = Process::spawn("aria2", stage, &mut command)?.finish(TRANSFER_PATIENCE)?;
        // It prints no time, so the benchmark measures it.
        let seconds = start.elapsed().as_secs_f64();
        let server_cpu_seconds = cpu()? - before;
        check_length(&output, source.size)?;
        clear(&output)?;
        let peak = mirrors.iter().map(|mirror| mirror.server.peak_bytes()).max().unwrap_or(0);
        Ok(sample(&source, seconds, server_cpu_seconds, peak, &client))
    }))
}

/// An HTTP server on loopback.
struct Mirror {
    server: Process,
    address: SocketAddr,
    kind: &'static str,
}

impl Mirror {
    /// Starts nginx, or a server of this crate if nginx is not installed.
    fn start(stage: &Stage, name: &str, source: &Source) -> Outcome<Mirror> {
        let folder = source.path.parent().expect("it is in the stage's folder");
        let Some(nginx) = tools::find("nginx") else {
            let server = Process::spawn(name, stage, this_program()?.arg("http-serve").arg(folder))?;
            let address = server.line_after("ready ", START_PATIENCE)?.parse()?;
            return Ok(Mirror { server, address, kind: "a small HTTP server" });
        };
        let address = stage.address()?;
        let config = nginx_config(&stage.path(name), &[address], folder)?;
        let mut server = Process::spawn(name, stage, Command::new(nginx).arg("-c").arg(&config))?;
        let deadline = Instant::now() + START_PATIENCE;
        while TcpStream::connect(address).is_err() {
            if Instant::now() > deadline || !server.is_running() {
                return Err(server.line(Duration::ZERO).expect_err("nginx prints nothing on stdout"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Mirror { server, address, kind: "nginx" })
    }
    fn url(&self, source: &Source) -> String {
        format!("http://{}/{}", self.address, source.name())
    }
}

/// Writes the config of an nginx that serves `root` on all of `listen`, and keeps all its files below `work`.
pub(super) fn nginx_config(work: &Path, listen: &[SocketAddr], root: &Path) -> Outcome<PathBuf> {
    std::fs::create_dir_all(work)?;
    let config = work.join("nginx.conf");
    let listen: String = listen.iter().map(|address| format!("listen {address}; ")).collect();
    let (work, root) = (work.display(), root.display());
    // One process, so that its CPU time is a single figure.
    let text = format!(
        "daemon off;\nmaster_process off;\npid {work}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\n  access_log off;\n  \
         sendfile on;\n  tcp_nopush on;\n  client_body_temp_path {work}/body;\n  proxy_temp_path {work}/proxy;\n  \
         fastcgi_temp_path {work}/fastcgi;\n  uwsgi_temp_path {work}/uwsgi;\n  scgi_temp_path {work}/scgi;\n  \
         server {{ {listen}root {root}; }}\n}}\n"
    );
    std::fs::write(&config, text)?;
    Ok(config)
}

/// This program, about to be one end of a yardstick.
fn this_program() -> Outcome<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("yardstick");
    Ok(command)
}

/// Runs a client that prints [`Fetched`].
fn own_client(
    stage: &Stage,
    server: &Process,
    command: &mut Command,
    source: &Source,
    output: &Path,
) -> Outcome<Sample> {
    clear(output)?;
    let before = server.cpu_seconds()?;
    let client = Process::spawn("client", stage, command)?.finish(TRANSFER_PATIENCE)?;
    let server_cpu_seconds = server.cpu_seconds()? - before;
    let fetched: Fetched = serde_json::from_str(client.lines.last().ok_or("the client printed nothing")?)?;
    check_length(output, source.size)?;
    clear(output)?;
    if fetched.hash.as_ref().is_some_and(|hash| *hash != source.hash) {
        return Err("the received file differs from the source".into());
    }
    Ok(sample(source, fetched.seconds, server_cpu_seconds, server.peak_bytes(), &client))
}

fn sample(source: &Source, seconds: f64, server_cpu_seconds: f64, server_peak_bytes: u64, client: &Ended) -> Sample {
    Sample {
        bytes: source.size,
        seconds,
        server_cpu_seconds,
        client_cpu_seconds: client.cpu_seconds,
        server_peak_bytes,
        client_peak_bytes: client.peak_bytes,
        ..Sample::default()
    }
}

/// Sees that all of a file arrived.
pub(super) fn check_length(path: &Path, size: u64) -> Outcome {
    let length = std::fs::metadata(path)?.len();
    if length == size { Ok(()) } else { Err(format!("{} has {length} of {size} bytes", path.display()).into()) }
}

/// SHA-256 of a file, in hexadecimal digits.
pub(super) fn sha256(stage: &Stage, source: &Source) -> Outcome<String> {
    let tool = tools::find("sha256sum").ok_or_else(|| tools::missing("sha256sum", "against aria2 with checksum"))?;
    let ended = Process::spawn("sha256sum", stage, Command::new(tool).arg(&source.path))?.finish(TRANSFER_PATIENCE)?;
    let line = ended.lines.into_iter().next().ok_or("sha256sum printed nothing")?;
    Ok(line.split(' ').next().unwrap_or_default().into())
}

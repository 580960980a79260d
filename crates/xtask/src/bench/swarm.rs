//! Receivers that fetch one file at the same time and serve each other, compared with aria2's BitTorrent.
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use super::{
    Context, Findings,
    rivals::{Source, TRANSFER_PATIENCE},
    rqbit::{free_port, write_torrent},
};
use crate::{
    Outcome,
    harness::{
        figure::Figure,
        interrupt,
        process::Process,
        targets, tools,
        trib::{Daemon, Face, NodeSpec},
    },
    note,
};

const NAME: &str = "/bench/swarm";
const BYTES: u64 = 16 << 20;
/// The source's rate in bytes/s, and the same as a link of a node.
const RATE: u64 = 2_000_000;
const LINK: &str = "rate = \"16Mbps\", delay = \"5ms\"";
/// Interval between checks for finished downloads of aria2.
const LOOK: Duration = Duration::from_millis(20);

/// One crowd: seconds until the last receiver is done, and processor seconds of each.
struct Crowd {
    seconds: f64,
    cpu_seconds: f64,
}

pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let mut findings = Findings::default();
    let source = Source::make(&mut context.stage, BYTES)?;
    for receivers in context.arguments.receivers.clone() {
        interrupt::check()?;
        note(&format!("  {receivers} receivers"));
        let (ours, copies, messages) = ours(context, &source, receivers)?;
        let theirs = match tools::find("aria2c") {
            Some(aria2) => Some(aria2_swarm(context, &aria2, &source, receivers)?),
            None => {
                findings.notes.push(tools::missing("aria2c", "of it"));
                None
            }
        };
        let figure = |what: &str, unit, of: fn(&Crowd) -> f64, target| {
            let figure = Figure::new(format!("{receivers} receivers: {what}"), unit, vec![of(&ours)]);
            match &theirs {
                Some(theirs) => figure.rival("aria2", vec![of(theirs)]).judged(target),
                None => figure,
            }
        };
        findings.figures.push(figure("time to the last one", "s", |of| of.seconds, targets::SWARM_TIME));
        findings.figures.push(figure("processor time of each", "s", |of| of.cpu_seconds, targets::SWARM_CPU));
        let what = format!("{receivers} receivers: copies from the source");
        findings.figures.push(Figure::new(what, "copies", vec![copies]));
        let what = format!("{receivers} receivers: control messages to each");
        findings.figures.push(Figure::new(what, "messages", vec![messages]));
    }
    findings.notes.push(format!(
        "{} MiB from one source of {} Mbit/s; daemons and commands on one machine; encrypted, over a router without a cache",
        BYTES >> 20,
        RATE * 8 / 1_000_000
    ));
    Ok(findings)
}

/// Our receivers, the copies that left the publisher, and the control messages that each receiver sent.
fn ours(context: &Context<'_>, source: &Source, receivers: usize) -> Outcome<(Crowd, f64, f64)> {
    let (stage, trib) = (&context.stage, &context.trib);
    let router = NodeSpec::new(format!("swarm-{receivers}-router"), &["router", "resolver", "topology-manager"])
        .sections("[psi]\ncache_size = \"0B\"\n")
        .start(trib, stage)?;
    let face = Face { egress: Some(LINK.into()), ..Face::to(router.address) };
    let publisher = NodeSpec::new(format!("swarm-{receivers}-publisher"), &["sender"])
        .face(face)
        .publish(NAME, &source.path)
        .start(trib, stage)?;
    publisher.wait_until_published()?;
    let start = |index| {
        NodeSpec::new(format!("swarm-{receivers}-receiver-{index}"), &["sender", "receiver"])
            .face(Face::to(router.address))
            .sections("[serve]\nfetched = true\n")
            .start(trib, stage)
    };
    let daemons: Vec<Daemon> = (0..receivers).map(start).collect::<Outcome<_>>()?;
    router.wait_until_neighbours(receivers + 1)?;
    let cpu = || daemons.iter().map(|daemon| daemon.process.cpu_seconds()).sum::<Outcome<f64>>();
    let sent = || count(&publisher, "driver: bytes out");
    let messages = || {
        let delivered = daemons.iter().map(|daemon| count(daemon, "control messages delivered"));
        delivered.sum::<Outcome<f64>>()
    };
    let before = (cpu()?, sent()?, messages()?);
    let begun = Instant::now();
    let outputs: Vec<PathBuf> = (0..receivers).map(|index| stage.path(&format!("swarm-output-{index}"))).collect();
    let started = daemons.iter().zip(&outputs).map(|(daemon, output)| trib.get_by(stage, daemon, NAME, output));
    let commands: Vec<Process> = started.collect::<Outcome<_>>()?;
    let mut commands_cpu = 0.0;
    for command in commands {
        commands_cpu += command.finish(TRANSFER_PATIENCE)?.cpu_seconds;
    }
    let seconds = begun.elapsed().as_secs_f64();
    outputs.iter().try_for_each(|output| source.take(output))?;
    let each = receivers as f64;
    let crowd = Crowd { seconds, cpu_seconds: (cpu()? - before.0 + commands_cpu) / each };
    Ok((crowd, (sent()? - before.1) / source.size as f64, (messages()? - before.2) / each))
}
fn count(daemon: &Daemon, counter: &str) -> Outcome<f64> {
    let status = daemon.status()?;
    Ok(status["counters"][counter].as_f64().ok_or_else(|| format!("there is no counter '{counter}'"))?)
}

/// aria2's receivers, which find each other by a tracker.
fn aria2_swarm(context: &Context<'_>, aria2: &Path, source: &Source, receivers: usize) -> Outcome<Crowd> {
    let stage = &context.stage;
    let (torrent, ended) = (stage.path("swarm.torrent"), stage.path("swarm-ended.sh"));
    write_torrent(&torrent, source, Some(&tracker()?))?;
    fs::write(&ended, "#!/bin/sh\ntouch \"$3.ended\"\n")?;
    fs::set_permissions(&ended, fs::Permissions::from_mode(0o755))?;
    let aria2 = |folder: &Path, more: &[&str]| -> Outcome<Command> {
        let mut command = Command::new(aria2);
        command.args(["--no-conf", "--quiet", "--enable-dht=false", "--enable-dht6=false", "--disable-ipv6=true"]);
        command.args(["--bt-enable-lpd=false", "--seed-ratio=0.0", "--file-allocation=none"]);
        command.arg(format!("--listen-port={}", free_port()?)).arg("--dir").arg(folder).args(more).arg(&torrent);
        Ok(command)
    };
    let folder = source.path.parent().ok_or("a source without a folder")?;
    let limit = format!("--max-overall-upload-limit={RATE}");
    let mut command = aria2(folder, &[&limit, "--bt-seed-unverified=true"])?;
    let seeder = Process::spawn("aria2-seeder", stage, &mut command)?;
    thread::sleep(Duration::from_secs(1));
    let begun = Instant::now();
    let on_end = format!("--on-bt-download-complete={}", ended.display());
    let mut leechers = Vec::new();
    for index in 0..receivers {
        let folder = stage.path(&format!("aria2-{index}"));
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let process = Process::spawn(&format!("aria2-{index}"), stage, &mut aria2(&folder, &[&on_end])?)?;
        leechers.push((folder.join(source.name()), process));
    }
    let is_done = |file: &Path| file.with_file_name(format!("{}.ended", source.name())).exists();
    while !leechers.iter().all(|(file, _)| is_done(file)) {
        interrupt::check()?;
        if begun.elapsed() > TRANSFER_PATIENCE {
            return Err("aria2's receivers do not end".into());
        }
        thread::sleep(LOOK);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let cpu = leechers.iter().map(|(_, process)| process.cpu_seconds()).sum::<Outcome<f64>>()?;
    drop(seeder);
    for (file, process) in leechers {
        drop(process);
        fs::remove_dir_all(file.parent().ok_or("a file without a folder")?)?;
    }
    Ok(Crowd { seconds, cpu_seconds: cpu / receivers as f64 })
}

/// Starts a tracker (BEP 3, 23) that tells each peer of all others, and returns its URL. It ends with this process.
fn tracker() -> Outcome<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/announce", listener.local_addr()?);
    let peers: Arc<Mutex<BTreeSet<u16>>> = Arc::default();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let peers = Arc::clone(&peers);
            thread::spawn(move || {
                // A peer that gets no answer announces itself again.
                let _ = answer(stream, &peers);
            });
        }
    });
    Ok(url)
}
fn answer(stream: TcpStream, peers: &Mutex<BTreeSet<u16>>) -> Outcome {
    let mut reader = BufReader::new(&stream);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let port = request.split(['?', '&', ' ']).find_map(|pair| pair.strip_prefix("port=")).ok_or("no port")?;
    let port: u16 = port.parse()?;
    let mut addresses = Vec::new();
    {
        let mut peers = peers.lock().map_err(|_| "a tracker's thread has panicked")?;
        for other in peers.iter().filter(|other| **other != port) {
            addresses.extend_from_slice(&[127, 0, 0, 1]);
            addresses.extend_from_slice(&other.to_be_bytes());
        }
        peers.insert(port);
    }
    let mut body = format!("d8:intervali5e12:min intervali2e5:peers{}:", addresses.len()).into_bytes();
    body.extend_from_slice(&addresses);
    body.push(b'e');
    write!(&stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len())?;
    Ok((&stream).write_all(&body)?)
}

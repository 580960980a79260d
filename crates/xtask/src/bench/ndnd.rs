//! ndnd as a contender: put → forwarder → cat over Unix sockets, the forwarder its own or ours.
use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use super::{
    clear,
    rivals::{Source, TRANSFER_PATIENCE, check_length},
};
use crate::{
    Outcome,
    harness::{
        process::Process,
        rounds::{Contender, Sample},
        stage::{Stage, hash_of},
        tools,
        trib::Trib,
    },
};

/// The name under which the file is published.
const NAME: &str = "/bench/file";
/// Where ndnd's programs look for the address of their forwarder.
pub(super) const TRANSPORT: &str = "NDN_CLIENT_TRANSPORT";
/// Only a Unix socket listens, so that any number of these run on one machine.
const ONLY_UNIX: &str = "core:\n  log_level: ERROR\nfw:\n  threads: 2\nfaces:\n  udp:\n    enabled_unicast: false\n    \
                         enabled_multicast: false\n  tcp:\n    enabled: false\n  websocket:\n    enabled: false\n";
/// How long the forwarder may take to listen.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// How long `put` may take: it reads the file into memory and signs every segment first.
const PUT_PATIENCE: Duration = Duration::from_secs(120);

/// A producer and a forwarder of ndnd that run through all rounds; each fetch is a process of its own.
pub(super) fn ndnd<'a>(stage: &'a Stage, source: &Source) -> Outcome<Contender<'a>> {
    let ndnd = tools::find("ndnd").ok_or_else(|| tools::missing("ndnd", "against ndnd in the same run"))?;
    let socket = stage.path("ndnd.sock");
    let forwarder = forwarder(stage, "ndnd-forwarder", Command::new(&ndnd), &socket, ONLY_UNIX)?;
    between(ndnd, stage, source, "ndnd", &socket, forwarder)
}

/// Starts ndnd's forwarder by `command`, which runs `ndnd`, and waits until it listens at `socket`.
pub(super) fn forwarder(
    stage: &Stage,
    label: &str,
    mut command: Command,
    socket: &Path,
    sections: &str,
) -> Outcome<Process> {
    let config = stage.path(label).with_extension("yml");
    let text = format!("{sections}  unix:\n    enabled: true\n    socket_path: {}\n", socket.display());
    std::fs::write(&config, text)?;
    clear(socket)?;
    let forwarder = Process::spawn(label, stage, command.args(["fw", "run"]).arg(&config))?;
    let deadline = Instant::now() + START_PATIENCE;
    while !socket.exists() {
        if Instant::now() > deadline {
            return Err("ndnd's forwarder does not listen".into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(forwarder)
}

/// The same programs on both sides of our forwarder.
pub(super) fn through_trib<'a>(trib: &Trib, stage: &'a Stage, source: &Source) -> Outcome<Contender<'a>> {
    let ndnd = tools::find("ndnd").ok_or_else(|| tools::missing("ndnd", "on both sides of our forwarder"))?;
    let (socket, config) = (stage.path("trib.sock"), stage.path("ndn-forwarder.toml"));
    let text = format!(
        "[node]\nlabel = \"ndn-forwarder\"\nfamily = \"ndn\"\nroles = [\"router\"]\nstate_dir = \"ndn-forwarder\"\n\
         listen = [\"unix://{}\"]\n[ndn]\ncache_size = \"0B\"\n",
        socket.display()
    );
    std::fs::write(&config, text)?;
    let mut command = trib.command();
    let forwarder = Process::spawn("ndn-forwarder", stage, command.args(["node", "--json", "--config"]).arg(&config))?;
    while !forwarder.line(START_PATIENCE)?.contains("ready") {}
    between(ndnd, stage, source, "trib", &socket, forwarder)
}

/// Publishes `source` as `name` by `ndnd put` at the forwarder behind `socket`.
pub(super) fn put(
    ndnd: &Path,
    stage: &Stage,
    label: &str,
    name: &str,
    source: &Source,
    socket: &Path,
) -> Outcome<Process> {
    // It reads the object from stdin, and tells on stderr what it does.
    let mut command = Command::new("sh");
    command.args(["-c", r#"exec "$0" put "$1" <"$2" 2>&1"#]).arg(ndnd).arg(name).arg(&source.path);
    let producer = Process::spawn(label, stage, command.env(TRANSPORT, transport(socket)))?;
    while !producer.line(PUT_PATIENCE)?.contains("Registered route") {}
    Ok(producer)
}
/// Fetches `name` by `ndnd cat` at the forwarder behind `socket`.
pub(super) fn cat(
    ndnd: &Path,
    stage: &Stage,
    label: &str,
    name: &str,
    output: &Path,
    socket: &Path,
) -> Outcome<Process> {
    let mut command = Command::new("sh");
    command.args(["-c", r#"exec "$0" cat "$1" 2>&1 >"$2""#]).arg(ndnd).arg(name).arg(output);
    Process::spawn(label, stage, command.env(TRANSPORT, transport(socket)))
}
/// A socket's address, as ndnd's programs and our configs have it.
pub(super) fn transport(socket: &Path) -> String {
    format!("unix://{}", socket.display())
}

/// `put` and `cat` on both sides of a forwarder that listens at `socket`.
fn between<'a>(
    ndnd: PathBuf,
    stage: &'a Stage,
    source: &Source,
    label: &'static str,
    socket: &Path,
    forwarder: Process,
) -> Outcome<Contender<'a>> {
    let producer = put(&ndnd, stage, &format!("{label}-put"), NAME, source, socket)?;
    let socket = socket.to_path_buf();
    let (source, output) = (source.clone(), stage.path(&format!("{label}-output")));
    let mut is_checked = false;
    Ok(Contender::new(label, move || {
        clear(&output)?;
        let before = (producer.cpu_seconds()?, forwarder.cpu_seconds()?);
        let client = cat(&ndnd, stage, &format!("{label}-cat"), NAME, &output, &socket)?;
        let client = client.finish(TRANSFER_PATIENCE)?;
        let after = (producer.cpu_seconds()?, forwarder.cpu_seconds()?);
        check_length(&output, source.size)?;
        if !std::mem::replace(&mut is_checked, true) && hash_of(&output)? != source.hash {
            return Err("what arrived differs from what was published".into());
        }
        clear(&output)?;
        Ok(Sample {
            bytes: source.size,
            seconds: told_seconds(&client.lines, source.size)?,
            server_cpu_seconds: after.0 - before.0,
            hop_cpu_seconds: after.1 - before.1,
            client_cpu_seconds: client.cpu_seconds,
            server_peak_bytes: producer.peak_bytes(),
            hop_peak_bytes: forwarder.peak_bytes(),
            client_peak_bytes: client.peak_bytes,
            cached_bytes: 0,
        })
    }))
}

/// The time by its own account, which leaves out that it writes the object only afterwards.
pub(super) fn told_seconds(lines: &[String], bytes: u64) -> Outcome<f64> {
    let told = lines.iter().find_map(|line| line.strip_prefix("Throughput: ")?.strip_suffix(" Mbit/s"));
    let rate: f64 = told.ok_or("ndnd cat told no throughput")?.trim().parse()?;
    Ok(bytes as f64 * 8.0 / rate / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_own_account_is_read() {
        let lines = ["Object fetched /a".into(), "Throughput: 332.304058 Mbit/s".into()];
        assert!((told_seconds(&lines, 200_000_000).unwrap() - 4.815).abs() < 0.001);
        assert!(told_seconds(&[], 1).is_err());
    }
}

//! ndnd as a contender: put → forwarder → cat, the forwarder its own or ours.
use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use super::{
    clear,
    rivals::{Source, TRANSFER_PATIENCE, check_length},
    rqbit::free_port,
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
/// What packets go over between `put` and `cat`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// The Unix sockets of one forwarder.
    Unix,
    /// The Unix socket of one forwarder, and TCP from there to `cat`.
    Tcp,
    /// UDP between two forwarders; `put` and `cat` at their Unix sockets, as they have no UDP.
    Udp,
}

/// What forwarders keep to answer others with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Store {
    /// Nothing.
    Nothing,
    /// The default number of packets in ndnd's exchange, in each of its two threads.
    Packets,
}
/// Packets that a thread of ndnd's keeps by default.
const STORE_PACKETS: u32 = 1_024;

impl Store {
    /// For ndnd's configuration.
    fn section(self) -> String {
        let (capacity, is_used) = if self == Store::Packets { (STORE_PACKETS, true) } else { (0, false) };
        format!("tables:\n  content_store:\n    capacity: {capacity}\n    admit: {is_used}\n    serve: {is_used}\n")
    }
    /// For ours: the same capacity.
    fn cache_size(self) -> &'static str {
        if self == Store::Packets { "16MiB" } else { "0B" }
    }
}

/// ndnd's configuration up to the Unix socket; a transport without a port does not listen, so that any number of
/// instances run on one machine.
fn sections(tcp: Option<u16>, udp: Option<u16>, store: Store) -> String {
    let port = |port: Option<u16>| port.map_or(String::new(), |port| format!("    port_unicast: {port}\n"));
    format!(
        "core:\n  log_level: ERROR\nfw:\n  threads: 2\n{}faces:\n  udp:\n    enabled_unicast: {}\n    \
         enabled_multicast: false\n{}  tcp:\n    enabled: {}\n{}  websocket:\n    enabled: false\n",
        store.section(),
        udp.is_some(),
        port(udp),
        tcp.is_some(),
        port(tcp),
    )
}
/// How long the forwarder may take to listen.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// How long `put` may take: it reads the file into memory and signs every segment first.
const PUT_PATIENCE: Duration = Duration::from_secs(120);

/// A producer and a forwarder of ndnd that run through all rounds; each fetch is a new process.
pub(super) fn ndnd<'a>(stage: &'a Stage, source: &Source, over: Over, store: Store) -> Outcome<Contender<'a>> {
    let ndnd = tools::find("ndnd").ok_or_else(|| tools::missing("ndnd", "against ndnd in the same run"))?;
    let label = match over {
        Over::Unix if store == Store::Nothing => "ndnd-bare",
        Over::Unix => "ndnd",
        Over::Tcp => "ndnd-tcp",
        Over::Udp => "ndnd-udp",
    };
    let (port, near) = (free_port()?, stage.path(label).with_extension("sock"));
    let listen = match over {
        Over::Unix => sections(None, None, store),
        Over::Tcp => sections(Some(port), None, store),
        Over::Udp => sections(None, Some(port), store),
    };
    let start = |label: &str, socket: &Path, sections: &str| {
        forwarder(stage, &format!("{label}-forwarder"), Command::new(&ndnd), socket, sections)
    };
    let mut forwarders = vec![start(label, &near, &listen)?];
    let at = match over {
        Over::Unix => transport(&near),
        Over::Tcp => format!("tcp://127.0.0.1:{port}"),
        Over::Udp => {
            let far = stage.path("ndnd-far.sock");
            forwarders.push(start("ndnd-far", &far, &sections(None, Some(free_port()?), store))?);
            let mut command = Command::new(&ndnd);
            command.args(["fw", "route-add", "prefix=/", &format!("face=udp4://127.0.0.1:{port}")]);
            let route = Process::spawn("ndnd-route", stage, command.env(TRANSPORT, transport(&far)))?;
            route.finish(START_PATIENCE)?;
            transport(&far)
        }
    };
    between(ndnd, stage, source, label, &near, &at, forwarders)
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

/// The same programs on both sides of one or two of our forwarders.
pub(super) fn through_trib<'a>(
    trib: &Trib,
    stage: &'a Stage,
    source: &Source,
    over: Over,
    store: Store,
) -> Outcome<Contender<'a>> {
    let ndnd = tools::find("ndnd").ok_or_else(|| tools::missing("ndnd", "on both sides of our forwarder"))?;
    let label = match over {
        Over::Unix if store == Store::Nothing => "trib-bare",
        Over::Unix => "trib",
        Over::Tcp => "trib-tcp",
        Over::Udp => "trib-udp",
    };
    let start = |label: &str, socket: &Path, listen: &str, more: &str| -> Outcome<Process> {
        let config = stage.path(label).with_extension("toml");
        let text = format!(
            "[node]\nlabel = \"{label}\"\nfamily = \"ndn\"\nroles = [\"router\"]\nstate_dir = \"{label}-state\"\n\
             listen = [\"{}\", \"{listen}\"]\n[ndn]\ncache_size = \"{}\"\n{more}",
            transport(socket),
            store.cache_size()
        );
        std::fs::write(&config, text)?;
        let mut command = trib.command();
        let forwarder = Process::spawn(label, stage, command.args(["node", "--json", "--config"]).arg(&config))?;
        while !forwarder.line(START_PATIENCE)?.contains("ready") {}
        Ok(forwarder)
    };
    let (near, there) = (stage.path(label).with_extension("sock"), format!("127.0.0.1:{}", free_port()?));
    let tcp = format!("tcp://{there}");
    let mut forwarders = vec![start(label, &near, if over == Over::Tcp { &tcp } else { &there }, "")?];
    let at = match over {
        Over::Unix => transport(&near),
        Over::Tcp => tcp,
        Over::Udp => {
            let far = stage.path("trib-far.sock");
            let route = format!("[[face]]\npeer = \"{there}\"\nroutes = [\"/\"]\n");
            forwarders.push(start("trib-far", &far, "127.0.0.1:0", &route)?);
            transport(&far)
        }
    };
    between(ndnd, stage, source, label, &near, &at, forwarders)
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
    // It reads the object from stdin, and logs to stderr.
    let mut command = Command::new("sh");
    command.args(["-c", r#"exec "$0" put "$1" <"$2" 2>&1"#]).arg(ndnd).arg(name).arg(&source.path);
    let producer = Process::spawn(label, stage, command.env(TRANSPORT, transport(socket)))?;
    while !producer.line(PUT_PATIENCE)?.contains("Registered route") {}
    Ok(producer)
}
/// Fetches `name` by `ndnd cat` at the forwarder with the address `at`.
pub(super) fn cat(ndnd: &Path, stage: &Stage, label: &str, name: &str, output: &Path, at: &str) -> Outcome<Process> {
    let mut command = Command::new("sh");
    command.args(["-c", r#"exec "$0" cat "$1" 2>&1 >"$2""#]).arg(ndnd).arg(name).arg(output);
    Process::spawn(label, stage, command.env(TRANSPORT, at))
}
/// A socket's address, as ndnd's programs and our configs have it.
pub(super) fn transport(socket: &Path) -> String {
    format!("unix://{}", socket.display())
}

/// `put` at the forwarder that listens at the socket `near`, and `cat` at the one with the address `at`.
fn between<'a>(
    ndnd: PathBuf,
    stage: &'a Stage,
    source: &Source,
    label: &'static str,
    near: &Path,
    at: &str,
    forwarders: Vec<Process>,
) -> Outcome<Contender<'a>> {
    let producer = put(&ndnd, stage, &format!("{label}-put"), NAME, source, near)?;
    let at = at.to_string();
    let cpu = |forwarders: &[Process]| forwarders.iter().map(Process::cpu_seconds).sum::<Outcome<f64>>();
    let (source, output) = (source.clone(), stage.path(&format!("{label}-output")));
    let mut is_checked = false;
    Ok(Contender::new(label, move || {
        clear(&output)?;
        let before = (producer.cpu_seconds()?, cpu(&forwarders)?);
        let client = cat(&ndnd, stage, &format!("{label}-cat"), NAME, &output, &at)?;
        let client = client.finish(TRANSFER_PATIENCE)?;
        let after = (producer.cpu_seconds()?, cpu(&forwarders)?);
        check_length(&output, source.size)?;
        if !std::mem::replace(&mut is_checked, true) && hash_of(&output)? != source.hash {
            return Err("the received file differs from the published one".into());
        }
        clear(&output)?;
        Ok(Sample {
            bytes: source.size,
            seconds: printed_seconds(&client.lines, source.size)?,
            server_cpu_seconds: after.0 - before.0,
            hop_cpu_seconds: after.1 - before.1,
            client_cpu_seconds: client.cpu_seconds,
            server_peak_bytes: producer.peak_bytes(),
            hop_peak_bytes: forwarders.iter().map(Process::peak_bytes).max().unwrap_or(0),
            client_peak_bytes: client.peak_bytes,
            cached_bytes: 0,
        })
    }))
}

/// The time by its own account, which leaves out that it writes the object only afterwards.
pub(super) fn printed_seconds(lines: &[String], bytes: u64) -> Outcome<f64> {
    let printed = lines.iter().find_map(|line| line.strip_prefix("Throughput: ")?.strip_suffix(" Mbit/s"));
    let rate: f64 = printed.ok_or("ndnd cat printed no throughput")?.trim().parse()?;
    Ok(bytes as f64 * 8.0 / rate / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_own_account_is_read() {
        let lines = ["Object fetched /a".into(), "Throughput: 332.304058 Mbit/s".into()];
        assert!((printed_seconds(&lines, 200_000_000).unwrap() - 4.815).abs() < 0.001);
        assert!(printed_seconds(&[], 1).is_err());
    }
}

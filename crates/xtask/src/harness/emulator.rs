//! Emulated links that third-party programs and the kernel's own transports cross too: network namespaces, joined by an
//! emulator that is not part of the workspace.
//!
//! The emulator is a program that takes a file of `link NAME NAMESPACE DEVICE ADDRESS NAMESPACE DEVICE ADDRESS RATE
//! DELAY LOSS QUEUE` and `at SECONDS NAME both loss=SHARE` (Mbit/s, milliseconds, a share of 1, KiB), joins the
//! namespaces by pairs of TUN devices, prints `ready` when they are up, and runs until it is stopped.
use std::{
    fmt::Write as _,
    fs,
    net::Ipv4Addr,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::{process::Process, stage::Stage, tools};
use crate::Outcome;

/// Where the emulator is, if not on PATH.
pub(crate) const VARIABLE: &str = "LINKEMU";
/// How long it may take to make its links.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// A link between two hosts, the same in both directions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// Its ends, by their place among the hosts.
    pub(crate) ends: [usize; 2],
    /// Rate in Mbit/s.
    pub(crate) mbps: f64,
    /// Delay of each direction in milliseconds.
    pub(crate) delay_ms: f64,
    /// Share of the packets that are lost.
    pub(crate) loss: f64,
    /// Queue capacity in front of it.
    pub(crate) queue_kib: u32,
}

/// A link is silent for some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Silence {
    pub(crate) link: usize,
    /// From when on, counted from [`Emulator::start`]'s return.
    pub(crate) from: Duration,
    /// For how long.
    pub(crate) length: Duration,
}

/// Hosts that are joined by emulated links. Dropping it removes them.
pub(crate) struct Emulator {
    hosts: Vec<String>,
    links: Vec<Link>,
    started: Instant,
    // Ends before the namespaces are removed.
    _process: Option<Process>,
}

impl Emulator {
    /// Makes `hosts` namespaces joined by `links`. Hosts that are no ends of a link's direct neighbours are reached by
    /// the routes that [`Emulator::route`] adds.
    ///
    /// # Errors
    /// If the emulator is missing, or this process may not make namespaces, with the remedy.
    pub(crate) fn start(stage: &Stage, hosts: usize, links: &[Link], silences: &[Silence]) -> Outcome<Emulator> {
        let program = find()?;
        let tag = std::process::id();
        let mut emulator = Emulator {
            hosts: (0..hosts).map(|host| format!("trib-{tag}-{host}")).collect(),
            links: links.to_vec(),
            started: Instant::now(),
            _process: None,
        };
        for host in &emulator.hosts {
            ip(&["netns", "add", host])?;
            ip(&["-n", host, "link", "set", "lo", "up"])?;
            // Routers forward; connections start without metrics of earlier ones.
            shell(host, "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv4/tcp_no_metrics_save")?;
        }
        let config = stage.path("links.cfg");
        fs::write(&config, emulator.config(silences)?)?;
        let mut command = Command::new(program);
        // Real-time priority where it is permitted: being late would be jitter that no link has.
        let process = Process::spawn("emulator", stage, command.arg(&config).env("RT", "1"))?;
        process.line_after("ready", START_PATIENCE)?;
        emulator.started = Instant::now();
        emulator._process = Some(process);
        Ok(emulator)
    }
    /// The namespace of a host.
    pub(crate) fn host(&self, host: usize) -> &str {
        &self.hosts[host]
    }
    /// The address of a host on one of its links.
    pub(crate) fn address(&self, link: usize, host: usize) -> Ipv4Addr {
        let end = usize::from(self.links[link].ends[1] == host);
        Ipv4Addr::new(10, 77, link as u8, end as u8 + 1)
    }
    /// Packets of `host` for the far `link` take its link `via`.
    ///
    /// # Errors
    /// If the route cannot be added.
    pub(crate) fn route(&self, host: usize, link: usize, via: usize) -> Outcome {
        let [first, second] = self.links[via].ends;
        let gateway = self.address(via, if first == host { second } else { first });
        ip(&["-n", &self.hosts[host], "route", "add", &format!("10.77.{link}.0/24"), "via", &gateway.to_string()])
    }
    /// Runs a script of the shell on a host.
    ///
    /// # Errors
    /// If it fails; the error has the script's output.
    pub(crate) fn run(&self, host: usize, script: &str) -> Outcome {
        shell(&self.hosts[host], script)
    }
    /// `host` drops its address on one of its links, and with it all routes over it, as a host that leaves a network
    /// does.
    ///
    /// # Errors
    /// If it has no such address.
    pub(crate) fn leave(&self, host: usize, link: usize) -> Outcome {
        ip(&["-n", &self.hosts[host], "address", "flush", "dev", &format!("link-{link}")])
    }
    /// Bytes of IP packets that `host` has received over `link`.
    ///
    /// # Errors
    /// If the host does not report it.
    pub(crate) fn received_bytes(&self, host: usize, link: usize) -> Outcome<u64> {
        let counter = format!("/sys/class/net/link-{link}/statistics/rx_bytes");
        let output = inside(&self.hosts[host], Path::new("cat")).arg(&counter).output()?;
        String::from_utf8_lossy(&output.stdout).trim().parse().map_err(|_| format!("{counter} tells nothing").into())
    }
    /// Waits until `moment` after the start.
    ///
    /// # Errors
    /// If it has passed already.
    pub(crate) fn wait_until(&self, moment: Duration) -> Outcome {
        let elapsed = self.started.elapsed();
        if elapsed > moment {
            return Err(format!("the network took {elapsed:.1?} to come up, {moment:?} were planned").into());
        }
        std::thread::sleep(moment.saturating_sub(elapsed));
        Ok(())
    }

    fn config(&self, silences: &[Silence]) -> Outcome<String> {
        let mut text = String::from("mtu 1500\n");
        for (index, link) in self.links.iter().enumerate() {
            let end = |end: usize| {
                let host = link.ends[end];
                format!("{} link-{index} {}/24", self.hosts[host], self.address(index, host))
            };
            writeln!(
                text,
                "link {index} {} {} {} {} {} {}",
                end(0),
                end(1),
                link.mbps,
                link.delay_ms,
                link.loss,
                link.queue_kib
            )?;
        }
        for silence in silences {
            let link = silence.link;
            let until = (silence.from + silence.length).as_secs_f64();
            writeln!(text, "at {} {link} both loss=1", silence.from.as_secs_f64())?;
            writeln!(text, "at {until} {link} both loss={}", self.links[link].loss)?;
        }
        Ok(text)
    }
}
impl Drop for Emulator {
    fn drop(&mut self) {
        drop(self._process.take());
        for host in &self.hosts {
            // One that was never made cannot be removed.
            let _ = ip(&["netns", "delete", host]);
        }
    }
}

/// `program`, about to run in a namespace.
pub(crate) fn inside(namespace: &str, program: &Path) -> Command {
    // The program replaces its process, so that signals and CPU time are the program's.
    let mut command = Command::new(ip_program());
    command.args(["netns", "exec", namespace]).arg(program);
    command
}

fn find() -> Outcome<PathBuf> {
    // The owner of a process is the user that it acts for.
    if fs::metadata("/proc/self")?.uid() != 0 {
        return Err("network namespaces need root: run this as root".into());
    }
    if tools::find("ip").is_none() {
        return Err("network namespaces need the program 'ip' (package iproute2)".into());
    }
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    match named {
        Some(path) if path.is_file() => Ok(path),
        Some(path) => Err(format!("{VARIABLE} names '{}', which is no file", path.display()).into()),
        None => tools::find("linkemu").ok_or_else(|| {
            format!("no link emulator: put linkemu on PATH, or its path into the environment variable {VARIABLE}")
                .into()
        }),
    }
}
/// Also where PATH does not lead to it.
fn ip_program() -> PathBuf {
    tools::find("ip").unwrap_or_else(|| "ip".into())
}
fn ip(arguments: &[&str]) -> Outcome {
    finish(Command::new(ip_program()).args(arguments), &format!("ip {}", arguments.join(" ")))
}
fn shell(namespace: &str, script: &str) -> Outcome {
    finish(inside(namespace, Path::new("sh")).args(["-c", script]), script)
}
fn finish(command: &mut Command, what: &str) -> Outcome {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("'{what}' failed: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}

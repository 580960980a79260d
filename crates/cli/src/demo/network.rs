//! The demo's daemons: separate processes of this very program.
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::{self, File},
    io::Write as _,
    net::{SocketAddr, UdpSocket},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tributary::{Api, ApiError, ErrorKind, Request, SocketApi, families::Resolution, views::StatusView};
use tributary_core::{Duration, Random, Rate};

use super::topology::{LinkSpec, NodeSpec, Part, Topology};
use crate::commands::{daemons, laboratory};

/// The part of one node's config that the topology does not determine.
#[derive(Clone, Default, Debug)]
pub(crate) struct NodeSettings {
    /// Name, file and key of its publication.
    pub(crate) publish: Option<(String, PathBuf, PathBuf)>,
    /// Lines for [faults].
    pub(crate) faults: String,
}

/// What all nodes have in common.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) loss: f64,
    pub(crate) cache_bytes: u64,
    /// Lines for the receiver's [transfer].
    pub(crate) transfer: String,
    /// Where the receiver's dashboard listens.
    pub(crate) http: Option<SocketAddr>,
    pub(crate) nodes: BTreeMap<&'static str, NodeSettings>,
}

/// All daemons of a demo. Dropping it stops them in any case.
pub(crate) struct Network {
    pub(crate) folder: PathBuf,
    nodes: BTreeMap<&'static str, Daemon>,
}

/// One process.
struct Daemon {
    config: PathBuf,
    control: PathBuf,
    log: PathBuf,
    /// Its cache is faulty: `trib-lab` runs it.
    has_faulty_cache: bool,
    child: Option<Child>,
}

/// How long a daemon may take to end after the request.
const END_PATIENCE: Duration = Duration::from_secs(2);
/// Interval at which a state is polled.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
/// The smallest queue of a link: one batch of datagrams.
const QUEUE_BYTES_MIN: u64 = 64 << 10;

impl Network {
    /// Writes the configs into `folder` and starts all daemons.
    pub(crate) fn start(topology: &Topology, settings: &Settings, folder: &Path) -> Result<Self, ApiError> {
        let ports = free_ports(topology.nodes.len())?;
        let ports: BTreeMap<_, _> = topology.nodes.iter().map(|node| node.label).zip(ports).collect();
        let mut network = Network { folder: folder.into(), nodes: BTreeMap::new() };
        for node in &topology.nodes {
            let own = folder.join(node.label);
            fs::create_dir_all(&own).map_err(|error| ApiError::io("make the folder", own.display(), &error))?;
            let config = own.join("node.toml");
            let text = config_text(topology, node, settings, &ports);
            fs::write(&config, text).map_err(|error| ApiError::io("write", config.display(), &error))?;
            let has_faulty_cache =
                settings.nodes.get(node.label).is_some_and(|own| own.faults.contains("corrupt_cache"));
            let (control, log) = (own.join("state/control.sock"), own.join("node.log"));
            let daemon = Daemon { config, control, log, has_faulty_cache, child: None };
            network.nodes.insert(node.label, daemon);
        }
        for node in &topology.nodes {
            network.revive(node.label)?;
        }
        Ok(network)
    }
    /// Starts a daemon that is not running.
    pub(crate) fn revive(&mut self, label: &str) -> Result<(), ApiError> {
        let daemon = self.nodes.get_mut(label).expect("labels come from the topology");
        let (program, command): (_, &[&str]) = match daemon.has_faulty_cache {
            true => (laboratory::program("demo --evil cache")?, &["node", "--config"]),
            false => {
                let program = std::env::current_exe().map_err(|error| ApiError::io("find", "this program", &error))?;
                (program, &["node", "--stop-with-stdin", "--config"])
            }
        };
        let log = File::options().create(true).append(true).open(&daemon.log);
        let log = log.map_err(|error| ApiError::io("write", daemon.log.display(), &error))?;
        let child = Command::new(&program)
            .args(command)
            .arg(&daemon.config)
            .env_remove("TRIB_CONTROL")
            .env_remove("TRIB_PEER")
            // A Ctrl-C on the terminal is for the demo, which then ends its daemons.
            .process_group(0)
            // The other end stays with the demo: when it ends, however it ends, the daemons see it.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| ApiError::io("start", program.display(), &error))?;
        daemon.child = Some(child);
        Ok(())
    }
    /// Kills a daemon, like a power cut.
    pub(crate) fn kill(&mut self, label: &str) -> Result<(), ApiError> {
        let daemon = self.nodes.get_mut(label).expect("labels come from the topology");
        if let Some(mut child) = daemon.child.take() {
            let ended = child.kill().and_then(|()| child.wait());
            ended.map_err(|error| ApiError::io("kill", label, &error))?;
        }
        Ok(())
    }
    /// The control socket of a daemon.
    pub(crate) fn api(&self, label: &str) -> Result<SocketApi, ApiError> {
        SocketApi::open(&self.nodes[label].control)
    }
    /// A daemon's status; `None` while it does not answer.
    pub(crate) fn status(&self, label: &str) -> Option<StatusView> {
        daemons::status(&self.api(label).ok()?).ok()
    }
    /// Cuts or mends a link at both ends.
    pub(crate) fn set_link(&self, topology: &Topology, [a, b]: [&str; 2], up: bool) -> Result<(), ApiError> {
        self.set_face(topology, [a, b], up)?;
        self.set_face(topology, [b, a], up)
    }
    /// The same at one end.
    pub(crate) fn set_face(&self, topology: &Topology, [here, there]: [&str; 2], up: bool) -> Result<(), ApiError> {
        if let Some(face) = topology.face(here, there) {
            self.api(here)?.answers(Request::Link { face, up })?;
        }
        Ok(())
    }
    /// Fails if a daemon that should run has ended, with the end of its log.
    pub(crate) fn check(&mut self) -> Result<(), ApiError> {
        for (label, daemon) in &mut self.nodes {
            let Some(child) = &mut daemon.child else { continue };
            let ended = child.try_wait().map_err(|error| ApiError::io("watch", label, &error))?;
            if let Some(status) = ended {
                let log = fs::read_to_string(&daemon.log).unwrap_or_default();
                let lines: Vec<_> = log.lines().rev().take(LOG_LINES).collect();
                let end: Vec<_> = lines.into_iter().rev().collect();
                let message = format!("the daemon '{label}' of the demo exited ({status}):\n{}", end.join("\n"));
                return Err(ApiError::new(ErrorKind::Io, message));
            }
        }
        Ok(())
    }
}
impl Drop for Network {
    fn drop(&mut self) {
        let mut children: Vec<_> = self.nodes.values_mut().filter_map(|daemon| daemon.child.take()).collect();
        // All get the request first, so that they stop in parallel.
        children.iter_mut().for_each(|child| drop(child.stdin.take()));
        let mut waited = Duration::ZERO;
        while waited < END_PATIENCE && children.iter_mut().any(|child| matches!(child.try_wait(), Ok(None))) {
            std::thread::sleep(LOOK);
            waited += LOOK;
        }
        for child in &mut children {
            // One that has ended cannot be killed, and that is all right.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Lines of a daemon's log that an error shows.
const LOG_LINES: usize = 12;

/// Free UDP ports of 127.0.0.1; held together until all are found, so that they differ.
fn free_ports(count: usize) -> Result<Vec<u16>, ApiError> {
    let failed = |error: std::io::Error| ApiError::io("find a free UDP port on", "127.0.0.1", &error);
    let sockets = (0..count).map(|_| UdpSocket::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    sockets.iter().map(|socket| Ok(socket.local_addr().map_err(failed)?.port())).collect()
}

/// A node's config file.
fn config_text(
    topology: &Topology,
    node: &NodeSpec,
    settings: &Settings,
    ports: &BTreeMap<&'static str, u16>,
) -> String {
    let own = settings.nodes.get(node.label).cloned().unwrap_or_default();
    let profile = topology.family.profile();
    let (roles, priority) = match node.part {
        Part::Forwarder if profile.resolution == Resolution::Routers => (r#"["router", "resolver"]"#, None),
        Part::Publisher => (r#"["sender"]"#, None),
        Part::Forwarder => (r#"["router"]"#, None),
        Part::Rendezvous => (r#"["resolver"]"#, None),
        Part::TopologyManager(priority) => (r#"["topology-manager"]"#, Some(priority)),
        Part::Receiver => (r#"["receiver"]"#, None),
    };
    let port = ports[node.label];
    let mut text = format!(
        "# One daemon of a demo of trib.\n[node]\nlabel = \"{}\"\nfamily = \"{}\"\nroles = {roles}\nstate_dir = \"state\"\nlisten = [\"127.0.0.1:{port}\"]\n",
        node.label, topology.family
    );
    if let Some((_, _, key)) = &own.publish {
        push(&mut text, &format!("key = {}", quoted(key)));
    }
    for (link, neighbour) in topology.links_of(node.label) {
        push(&mut text, &format!("\n[[face]] # to {neighbour}\npeer = \"127.0.0.1:{}\"", ports[neighbour]));
        push(&mut text, &egress(link, settings.loss));
        if profile.resolution == Resolution::Routes {
            push(&mut text, &route(topology, node, neighbour));
        }
    }
    if let Some((name, path, _)) = &own.publish {
        push(&mut text, &format!("\n[[publish]]\nname = \"{name}\"\npath = {}\nversion = 1", quoted(path)));
    }
    push(&mut text, &format!("\n[{}]", topology.family));
    push(&mut text, profile.demo_settings);
    if let Some(priority) = priority {
        push(&mut text, &format!("topology_manager_priority = {priority}"));
    }
    if node.part == Part::Forwarder {
        push(&mut text, &format!("cache_size = \"{}B\"", settings.cache_bytes));
    }
    if node.part == Part::Receiver && !settings.transfer.is_empty() {
        push(&mut text, &format!("\n[transfer]\n{}", settings.transfer));
    }
    if let Some(http) = settings.http.filter(|_| node.part == Part::Receiver) {
        push(&mut text, &format!("\n[http]\nlisten = \"{http}\""));
    }
    if !own.faults.is_empty() {
        push(&mut text, &format!("\n[faults]\n{}", own.faults));
    }
    text
}
fn push(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("writing to a string never fails");
}
/// The routes of a face, and the registrations of publications.
fn route(topology: &Topology, node: &NodeSpec, neighbour: &str) -> String {
    match node.part {
        Part::Publisher => "register = \"localhop\"".into(),
        // Publishers announce their objects themselves.
        Part::Forwarder if topology.publishers().any(|label| label == neighbour) => String::new(),
        _ if topology.leads_to_publishers(node.label, neighbour) => "routes = [\"/demo\"]".into(),
        _ => String::new(),
    }
}
fn egress(link: &LinkSpec, loss: f64) -> String {
    // One and a half times the capacity of the demo's longest path at this rate, in both directions.
    let round_trip = Duration::from_millis(2 * (link.delay_ms + 10));
    let queue = (Rate::from_mbps(link.mbps).bytes_in(round_trip) * 3 / 2).max(QUEUE_BYTES_MIN);
    let (mbps, delay) = (link.mbps, link.delay_ms);
    format!("egress = {{ rate = \"{mbps}Mbps\", delay = \"{delay}ms\", queue = \"{queue}B\", loss = {loss:?} }}")
}
/// A path as a TOML string.
fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display().to_string().replace('\\', "\\\\").replace('"', "\\\""))
}
/// Writes `bytes` bytes that do not compress; equal seeds write equal bytes.
pub(crate) fn write_random(path: &Path, bytes: u64, seed: u64) -> Result<(), ApiError> {
    let failed = |error: std::io::Error| ApiError::io("write", path.display(), &error);
    let mut file = File::create(path).map_err(failed)?;
    let mut random = Random::new(seed, 3);
    let mut block = vec![0; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        for word in block.as_chunks_mut::<8>().0 {
            *word = random.bits().to_le_bytes();
        }
        let part = left.min(block.len() as u64);
        file.write_all(&block[..part as usize]).map_err(failed)?;
        left -= part;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::topology::{Fetches, choose};
    use tributary::{Family, NodeConfig};

    #[test]
    fn every_config_of_every_topology_is_right() {
        for (family, fetches) in [
            (Family::Psi, Fetches::Once),
            (Family::Psi, Fetches::Twice),
            (Family::Ndn, Fetches::Once),
            (Family::Ndn, Fetches::Twice),
            (Family::Mf, Fetches::Once),
        ] {
            let topology = choose(family, fetches, None);
            let ports =
                topology.nodes.iter().enumerate().map(|(index, node)| (node.label, 7_000 + index as u16)).collect();
            let publish = Some(("/demo/big".to_string(), "/tmp/a \"b\"".into(), "/tmp/key".into()));
            let of_publisher = NodeSettings { publish, faults: "corrupt_chunks = 0.5".into() };
            let settings = Settings {
                loss: 0.01,
                cache_bytes: 1 << 20,
                transfer: if family == Family::Psi { "paths_per_source = 2".into() } else { String::new() },
                http: Some(([127, 0, 0, 1], 8080).into()),
                nodes: [("pub-a", of_publisher)].into(),
            };
            for node in &topology.nodes {
                let text = config_text(&topology, node, &settings, &ports);
                let config =
                    NodeConfig::parse(node.label, &text, Path::new("/tmp")).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(config.faces.len(), topology.links_of(node.label).count());
                assert!(config.faces.iter().all(|face| face.egress.is_some()));
                if node.label == "pub-a" {
                    assert_eq!(config.publish[0].path, Path::new("/tmp/a \"b\""));
                }
            }
        }
    }

    #[test]
    fn the_same_seed_writes_the_same_bytes_whatever_the_length() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        write_random(&a, (1 << 20) + 5, 1).unwrap();
        write_random(&b, 3, 1).unwrap();
        let (a, b) = (fs::read(a).unwrap(), fs::read(b).unwrap());
        assert_eq!((a.len(), b.len()), ((1 << 20) + 5, 3));
        assert_eq!(a[..3], b[..]);
    }
}

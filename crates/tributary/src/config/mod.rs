//! The config file of a node: commented TOML in, checked settings out, errors that name the line.
//!
//! ```
//! use tributary::config::NodeConfig;
//! let text = "[node]\nlabel = \"alice\"\nroles = [\"receiver\"]\nlisten = [\"127.0.0.1:7001\"]\nstat_dir = \"/tmp\"\n";
//! let errors = NodeConfig::parse("alice.toml", text, "/etc/tributary".as_ref()).unwrap_err();
//! assert_eq!(
//!     errors.to_string(),
//!     "alice.toml:5:1: unknown key 'stat_dir' in [node]\n  hint: did you mean 'state_dir'?"
//! );
//! ```
#[cfg(test)]
mod documented;
mod error;
pub(crate) mod link;
mod mf;
mod ndn;
mod peer;
pub(crate) mod reader;
pub(crate) mod sections;

use std::{
    collections::BTreeSet,
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
};
use tributary_content::Name;
use tributary_core::{Duration, Rate, link::LinkConfig};
use tributary_ndn::router::RemoteRegistration;
use tributary_net::StreamAddress;
use tributary_transport::PathMetric;

pub use error::{ConfigErrors, Drawing, Problem};
pub(crate) use peer::is_own;
pub use peer::{NamedPeer, PeerAddress};
pub use reader::parse_share;

use crate::{
    error::{ApiError, ErrorKind},
    registry::Family,
    views::counted,
};

/// Everything that makes one node. Made by [`NodeConfig::parse`] only, so whoever has one knows that it was checked.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct NodeConfig {
    /// Its human-readable name, 1 to 32 bytes, unique in its domain.
    pub label: String,
    /// Its architecture.
    pub family: Family,
    /// The roles it plays; never empty.
    pub roles: BTreeSet<Role>,
    /// Where keys, downloads' state and publications are kept.
    pub state_dir: PathBuf,
    /// Path of the control socket. Default: `control.sock` in the state folder.
    pub control: PathBuf,
    /// File of the publisher's secret key, made if it is missing. Default: `key` in the state folder.
    pub key: PathBuf,
    /// Seed of random choices; `None` takes a new one at each start.
    pub seed: Option<u64>,
    /// How much a daemon logs; `None` leaves it to the command line.
    pub log: Option<LogLevel>,
    /// Addresses on which it takes datagrams.
    pub listen: Vec<SocketAddr>,
    /// Where it accepts streams; together with `listen` never empty.
    pub listen_streams: Vec<StreamAddress>,
    /// Origins of web pages that may reach it by WebSocket.
    pub web_origins: Vec<String>,
    /// Its neighbours.
    pub faces: Vec<FaceConfig>,
    /// What it publishes from the start.
    pub publish: Vec<PublishConfig>,
    /// Settings of the PSI family, those of transfers included. Its seed is set at each start.
    pub psi: tributary_psi::config::Config,
    /// Settings of the MobilityFirst family. Its seed and, from the node's key, its secret are set at each start.
    pub mf: tributary_mf::Config,
    /// Settings of the NDN family. Its seed and the secret of its signatures are set at each start.
    pub ndn: tributary_ndn::Config,
    /// Folder of what the node stores for others; `None` keeps it in memory. Default: `store` in the state folder.
    pub store: Option<PathBuf>,
    /// How fetches are asked for.
    pub fetch: FetchConfig,
    /// What it allows at most.
    pub limits: Limits,
    /// Deliberate misbehaviour, for demos and tests.
    pub faults: Faults,
}

/// How much is logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogLevel {
    /// What is wrong.
    Warn,
    /// And what changes.
    Info,
    /// And what is decided and why.
    Debug,
}

impl LogLevel {
    /// All of them with the words of the config.
    pub const ALL: [(&'static str, LogLevel); 3] =
        [("warn", LogLevel::Warn), ("info", LogLevel::Info), ("debug", LogLevel::Debug)];
}

/// What a node does for its network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Forwards for others, and caches.
    Router,
    /// Holds publications and subscriptions (paper: rendezvous node).
    Resolver,
    /// Knows the graph and hands out paths.
    TopologyManager,
    /// Publishes.
    Sender,
    /// Fetches.
    Receiver,
}

impl Role {
    /// All roles with the words of the config.
    pub const ALL: [(&'static str, Role); 5] = [
        ("router", Role::Router),
        ("resolver", Role::Resolver),
        ("topology-manager", Role::TopologyManager),
        ("sender", Role::Sender),
        ("receiver", Role::Receiver),
    ];
}
impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, _) = Role::ALL.iter().find(|(_, role)| role == self).expect("ALL lists every role");
        f.write_str(word)
    }
}

/// A neighbour and the way to it.
#[derive(Clone, PartialEq, Debug)]
pub struct FaceConfig {
    /// The neighbour's address.
    pub peer: PeerAddress,
    /// Our address; one of [`NodeConfig::listen`]. `None` takes the first one of the peer's kind.
    pub local: Option<SocketAddr>,
    /// The network device to bind to; `None` leaves it to the routing table.
    pub device: Option<String>,
    /// The largest datagram in bytes of UDP payload.
    pub mtu: u32,
    /// What the link really carries; `None` for the rate of `egress`, if that has one.
    pub rate: Option<Rate>,
    /// How packets that leave by this face are delayed, limited and lost; `None` for not at all.
    pub egress: Option<LinkConfig>,
}

impl FaceConfig {
    /// Our address that datagrams to `peer` come from, of those in `listen` unless it names one: the neighbour knows us by it.
    /// `None` leaves it to the routing table.
    pub(crate) fn source(&self, listen: &[SocketAddr], peer: SocketAddr) -> Option<SocketAddr> {
        let listener = || listen.iter().find(|address| address.is_ipv4() == peer.is_ipv4()).copied();
        self.local.or_else(|| if self.device.is_none() { listener() } else { None })
    }
}

/// An object that a node publishes from the start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublishConfig {
    /// What it is called.
    pub name: Name,
    /// The file or folder.
    pub path: PathBuf,
    /// Its version; `None` takes the time of its last change.
    pub version: Option<u64>,
}

/// How fetches are asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct FetchConfig {
    /// Paths per source that are asked of the network, 1 to 16. Default: 4.
    pub paths_per_source: u8,
    /// What makes a path good. Default: fewest hops.
    pub metric: PathMetric,
    /// How long to go without any source before giving up. Default: 10 s.
    pub patience: Duration,
}

/// What a node allows at most.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Rate of all fetches together; `None` for no limit.
    pub rate: Option<Rate>,
    /// Clients on the control socket at a time. Default: 32.
    pub control_clients: usize,
    /// Bytes of one line on the control socket. Default: 64 KiB.
    pub control_line_bytes: usize,
    /// Objects that it publishes. Default: 10,000.
    pub publications: usize,
    /// Fetches that run at a time. Default: 64.
    pub transfers: usize,
}

/// Deliberate misbehaviour, for demos and tests; all off by default.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Faults {
    /// Share of the chunks read from published objects in which bytes are flipped.
    pub corrupt_chunks: f64,
    /// Share of the packets answered from the cache in which bytes are flipped.
    pub corrupt_cache: f64,
}

/// Whether a check of a config looks for the files that it publishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Disk {
    Looked,
    NotLooked,
}

/// How many bytes a config file has at most.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

impl NodeConfig {
    /// Reads and checks a config file; relative paths in it start at its folder.
    ///
    /// # Errors
    /// [`LoadError`] if the file cannot be read, or with everything that is wrong in it.
    pub fn load(path: &Path) -> Result<NodeConfig, LoadError> {
        let unreadable = |reason: String| LoadError::Read { path: path.display().to_string(), reason };
        let length = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
        if length > FILE_BYTES_MAX {
            return Err(unreadable(format!("it has {length} bytes; a config has at most {FILE_BYTES_MAX}")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = std::path::absolute(folder).map_err(|error| unreadable(error.to_string()))?;
        Ok(sections::read(&path.display().to_string(), &text, &folder, Disk::Looked)?)
    }
    /// Checks the content of a config file, but not whether what it publishes is there. `file` is what errors call it; relative paths start at `folder`.
    ///
    /// # Errors
    /// [`ConfigErrors`] with everything that is wrong, each with its line.
    pub fn parse(file: &str, text: &str, folder: &Path) -> Result<NodeConfig, ConfigErrors> {
        sections::read(file, text, folder, Disk::NotLooked)
    }
    /// Takes `text` as the neighbour in place of that of the only `[[face]]`, whose other settings stay. Port and scheme are
    /// those of the config where `text` has none.
    ///
    /// # Errors
    /// A sentence that says why it cannot be.
    pub fn set_peer(&mut self, text: &str) -> Result<(), String> {
        let [face] = &mut self.faces[..] else {
            let count = counted(self.faces.len(), "[[face]] section");
            return Err(format!("the config has {count}, and exactly one can be given another peer"));
        };
        let peer = face.peer.replaced(text)?;
        if peer.is_stream() != face.peer.is_stream() || peer.is_stream() && self.family.framing().is_none() {
            return Err(format!("'{text}' would be reached in another way than {}", face.peer));
        }
        let replaced = FaceConfig { peer, ..face.clone() };
        if let Some((message, hint)) = sections::unreachable(&replaced, &self.listen) {
            return Err(format!("{message}; {hint}"));
        }
        *face = replaced;
        Ok(())
    }
    /// The default settings of a node that runs in a simulation: it listens nowhere and keeps nothing on disk.
    ///
    /// # Panics
    /// If `label` is empty or longer than 32 bytes.
    pub fn simulated(label: &str, family: Family, roles: &[Role]) -> NodeConfig {
        let words: Vec<_> = roles.iter().map(|role| format!("\"{role}\"")).collect();
        let text = format!(
            "[node]\nlabel = {label:?}\nfamily = \"{family}\"\nroles = [{}]\nlisten = [\"127.0.0.1:0\"]\n",
            words.join(", ")
        );
        let mut config = NodeConfig::parse(label, &text, Path::new("/nowhere"))
            .unwrap_or_else(|errors| panic!("the label of a simulated node is wrong: {errors}"));
        config.listen.clear();
        config.store = None;
        config
    }
    /// What is legal and should still not stay as it is, each in a sentence that says what to do.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.family == Family::Ndn && self.ndn.remote_registration == RemoteRegistration::Neighbours {
            warnings.push(
                "remote_registration: whoever reaches this node can claim any name; use it only where every neighbour is \
                 trusted, `remote_registration` of [ndn]"
                    .into(),
            );
        }
        if self.family == Family::Mf && !self.mf.readers.is_empty() && self.mf.network_key == [0; 32] {
            warnings.push(
                "no network_key: whoever poses as a router can look up every name, whoever its readers are; give every \
                 node of the network the same 64 hex digits, `network_key` of [mf]"
                    .into(),
            );
        }
        if self.family != Family::Psi {
            return warnings;
        }
        if self.psi.network_key == [0; 32] {
            warnings.push(
                "no network_key: whoever reaches this node can pose as a neighbour or a topology manager and read all \
                 control messages; give every node of the domain the same 64 hex digits, `network_key` of [psi]"
                    .into(),
            );
        }
        if self.psi.domain_secret == [0; 32] && self.has_role(Role::TopologyManager) {
            warnings.push(
                "no domain_secret: anybody can make the capabilities that requests need; give all topology managers \
                 the same 64 hex digits, `domain_secret` of [psi]"
                    .into(),
            );
        }
        warnings
    }
    /// Whether it plays a role.
    pub fn has_role(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }
}

/// Why a config file gives no node.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read config '{path}': {reason}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// There are mistakes in it.
    #[error(transparent)]
    Wrong(#[from] ConfigErrors),
}
impl From<LoadError> for ApiError {
    fn from(error: LoadError) -> Self {
        ApiError::new(ErrorKind::Usage, error.to_string())
    }
}

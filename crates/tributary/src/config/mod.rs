//! The config of a node, and the reading of values from TOML with errors that name the line. `config_file` reads a
//! complete file.
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
#[cfg(any(test, feature = "documented"))]
pub mod documented;
mod error;
mod http;
mod invitation;
pub mod link;
mod peer;
pub mod reader;
pub mod recordings;
mod resolver;
mod settings;
pub mod values;

use crate::log::LogLevels;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
};
use tributary_content::{BlindingKey, Name, NameError, PublicKey, StoreOpener};
use tributary_core::{Duration, Ecn, FaceId, Rate, link::LinkConfig};
use tributary_net::{StreamAddress, UnixAccess};
use tributary_transport::{Endpoint, Fetch, PathMetric};
use tributary_trust::{CLOCK_TOLERANCE, Keys, Roles, UnixTime};

pub use error::{ConfigErrors, Drawing, Problem};
pub use http::{HttpConfig, HttpMirror, HttpOrigin, OriginKind, SiteConfig};
pub use invitation::Invitation;
pub use peer::{NamedPeer, PeerAddress};
pub(crate) use peer::{is_own, reached_at};
pub use reader::{nearest, parse_share};
pub use resolver::{EngineConfig, EtcdConfig};
pub use settings::Settings;

pub use crate::views::QuotaPeriod;
pub use tributary_trust::Access;

use crate::{error::ApiError, family::Family, paths::control_in};

tributary_core::declared! {
    /// Everything that makes one node. Only [`NodeConfig::parse`] makes it, so every value has been checked.
    #[derive(Clone, PartialEq, Debug)]
    #[non_exhaustive]
    pub struct NodeConfig {
        /// Its human-readable name, 1 to 32 bytes, unique in its domain.
        pub label: String = label.into(),
        /// The roles it plays; never empty.
        pub roles: BTreeSet<Role> = roles,
        /// Where keys, downloads' state and publications are kept.
        pub state_dir: PathBuf = state_dir.into(),
        /// Path of the control socket. Default: `control.sock` in the state folder.
        pub control: PathBuf = control_in(state_dir),
        /// File of the publisher's secret key, made if it is missing. Default: `key` in the state folder.
        pub key: PathBuf = state_dir.join("key"),
        /// Seed of random choices; `None` draws a new one at each start.
        pub seed: Option<u64> = None,
        /// How much a daemon logs; `None` leaves it to the command line.
        pub log: Option<LogLevels> = None,
        /// How its log lines look; `None` leaves it to the environment.
        pub log_format: Option<LogFormat> = None,
        /// Addresses on which it receives datagrams.
        pub listen: Vec<SocketAddr> = Vec::new(),
        /// Where it accepts streams; together with `listen` never empty.
        pub listen_streams: Vec<StreamAddress> = Vec::new(),
        /// Who may connect to its Unix sockets.
        pub unix_access: UnixAccess = UnixAccess::default(),
        /// Origins of web pages that may reach it by WebSocket.
        pub web_origins: Vec<String> = Vec::new(),
        /// How its packets ask queues to signal congestion.
        pub ecn: Ecn = Ecn::default(),
        /// How packets are protected between this node and its neighbours over UDP.
        pub security: Security = Security::Encrypted,
        /// The network that it belongs to, if that has an authority.
        pub network: Option<NetworkConfig> = None,
        /// Its neighbours.
        pub faces: Vec<FaceConfig> = Vec::new(),
        /// Below which prefixes names are blinded, and with which keys.
        pub blind: BTreeMap<Name, BlindingKey> = BTreeMap::new(),
        /// The publishers to believe below prefixes.
        pub trust: Keys = Keys::new(),
        /// Groups of readers' keys, by their labels.
        pub key_groups: BTreeMap<String, Vec<PublicKey>> = BTreeMap::new(),
        /// Objects that it publishes from the start.
        pub publish: Vec<PublishConfig> = Vec::new(),
        /// The family's own settings, which also identify the family.
        pub settings: Settings = settings,
        /// Folder of the chunks that the node stores for others; `None` keeps them in memory. Default: `store` in the
        /// state folder.
        pub store: Option<PathBuf> = Some(state_dir.join("store")),
        /// Settings of fetches.
        pub fetch: FetchConfig = FetchConfig::default(),
        /// Which fetched objects are served.
        pub serve: ServeConfig = ServeConfig::default(),
        /// The use of web servers that publishers name.
        pub mirrors: MirrorsConfig = MirrorsConfig::default(),
        /// Its limits.
        pub limits: Limits = Limits::default(),
        /// Deliberate misbehaviour, for demos and tests.
        pub faults: Faults = Faults::default(),
        /// Its gateway for programs that speak HTTP; `None` runs none.
        pub http: Option<HttpConfig> = None,
        /// What keeps the names that it holds for its network, if it is a resolver.
        pub resolver: EngineConfig = EngineConfig::default(),
        /// Puts the node into another one. No config file sets it.
        pub wrapper: Wrapper = Wrapper::default(),
    }
    /// A node with the defaults of all sections except `[node]`.
    pub(crate) fn new(label: &str, settings: Settings, roles: BTreeSet<Role>, state_dir: &Path) {}
}

/// Puts the node that a config makes into another one, which gets the config and the seed: for faulty nodes of the lab.
#[derive(Clone, Copy, Default)]
pub struct Wrapper(pub Option<Wrap>);

type Wrap = fn(Box<dyn Endpoint>, &NodeConfig, u64) -> Box<dyn Endpoint>;

/// Functions cannot be compared. All wrappers are equal.
impl PartialEq for Wrapper {
    fn eq(&self, _: &Wrapper) -> bool {
        true
    }
}
impl fmt::Debug for Wrapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wrapper").field(&self.0.is_some()).finish()
    }
}

/// The name that `name` is published under: below a prefix with a key its components are blinded.
///
/// # Errors
/// [`NameError`] if that gets too long.
pub(crate) fn published_name(blind: &BTreeMap<Name, BlindingKey>, name: &Name) -> Result<Name, NameError> {
    let longest = blind.iter().filter(|(prefix, _)| prefix.is_prefix_of(name)).max_by_key(|(prefix, _)| prefix.len());
    longest.map_or_else(|| Ok(name.clone()), |(prefix, key)| key.blind(prefix, name))
}

/// How log lines look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// Both with the words of the config.
    pub const ALL: [(&'static str, LogFormat); 2] = [("text", LogFormat::Text), ("json", LogFormat::Json)];
}

/// How packets are protected between neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Security {
    /// Encrypts if the neighbour supports it, and sends plain packets otherwise: for `ndn`, whose neighbours may be other
    /// programs.
    Preferred,
    /// Neighbours prove their keys; packets are encrypted and authenticated.
    Encrypted,
    /// Neighbours prove their keys; packets are authenticated and not encrypted.
    Authenticated,
    /// No protection: for other programs, and for measurements.
    None,
}

impl Security {
    /// All of them with their words in the config.
    pub const ALL: [(&'static str, Security); 4] = [
        ("preferred", Security::Preferred),
        ("encrypted", Security::Encrypted),
        ("authenticated", Security::Authenticated),
        ("none", Security::None),
    ];
}

tributary_core::declared! {
    /// A network with an authority, as the config of one of its nodes describes it.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct NetworkConfig {
        /// The authority's key.
        pub authority: PublicKey = authority,
        /// Whether nodes without a certificate may join as hosts. Default: they may not.
        pub access: Access = Access::Closed,
        /// File of the node's certificate, which may be missing. Default: `certificate` in the state folder.
        pub certificate: PathBuf = state_dir.join("certificate"),
        /// File of the authority's list of revocations, which may be missing. Default: `revoked` in the state folder.
        pub revoked: PathBuf = state_dir.join("revoked"),
        /// How far the clocks of two nodes may be apart. Default:
        /// [`CLOCK_TOLERANCE`](tributary_trust::CLOCK_TOLERANCE).
        pub clock_tolerance: Duration = Duration::from_secs(CLOCK_TOLERANCE),
    }
    /// The closed network of an authority, with its files in the state folder.
    pub fn new(authority: PublicKey, state_dir: &Path) {}
}

impl NetworkConfig {
    /// Adopts an invitation's statements about the network, for a node of `family` in `network`.
    ///
    /// # Errors
    /// A sentence if it invites to another network or to nodes of another family.
    pub(crate) fn join(
        network: &mut Option<NetworkConfig>,
        invited: &Invitation,
        (family, state_dir): (Family, &Path),
    ) -> Result<(), String> {
        let wrong = |part, reason: String| Err(invitation::wrong(part, &reason));
        if let Some(of) = invited.family.filter(|of| *of != family) {
            return wrong("family", format!("it is {of}, and this node is of family {family}"));
        }
        let Some(authority) = invited.network else { return Ok(()) };
        match network.get_or_insert_with(|| NetworkConfig::new(authority, state_dir)).authority {
            own if own == authority => Ok(()),
            own => wrong("network", format!("its authority is {authority}, and that of [network] is {own}")),
        }
    }
}

/// What a node does for its network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Forwards packets of other nodes, and caches.
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

    /// What a certificate must allow for this role: nothing for senders and receivers, which every host may be.
    pub(crate) fn certified(self) -> Roles {
        match self {
            Role::Router => Roles::ROUTER,
            Role::Resolver => Roles::RESOLVER,
            Role::TopologyManager => Roles::TOPOLOGY_MANAGER,
            Role::Sender | Role::Receiver => Roles::HOST,
        }
    }
}
impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, _) = Role::ALL.iter().find(|(_, role)| role == self).expect("ALL lists every role");
        f.write_str(word)
    }
}

/// A neighbour and the path to it.
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
    /// How packets are protected. Whether they can be read follows from the node's and the neighbour's.
    pub security: Security,
    /// The key that the neighbour must have; `None` for the first key that answers there.
    pub peer_key: Option<PublicKey>,
    /// End of the period in which `peer` invites to a first contact; `None` for unlimited.
    pub invited_until: Option<UnixTime>,
    /// What the face is called in tables; `None` for its number alone.
    pub label: Option<String>,
    /// What fetches may take over it.
    pub policy: FacePolicyConfig,
}

/// What fetches may take over a face.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FacePolicyConfig {
    /// Its cost relative to other faces: paths over cheaper ones are filled first. Default: 0.
    pub cost: u32,
    /// Whether it is used only while no other path answers.
    pub is_backup: bool,
    /// How many bytes may pass in a day or month.
    pub quota: Option<Quota>,
    /// Limits by the time of day. Of several that hold, the first counts.
    pub schedule: Vec<ScheduledRate>,
}
/// How many bytes may pass over a face in a day or month of the local calendar, both directions together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    /// Bytes of datagrams.
    pub bytes: u64,
    /// In which time.
    pub per: QuotaPeriod,
    /// What happens when they have passed.
    pub at_end: QuotaEnd,
}

/// What happens at the end of a quota.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuotaEnd {
    /// Fetches request nothing more over the face.
    Stop,
    /// The face is a backup: fetches use it while no other path answers.
    Backup,
}
impl QuotaEnd {
    /// All of them with their words in the config.
    pub const ALL: [(&'static str, QuotaEnd); 2] = [("stop", QuotaEnd::Stop), ("backup", QuotaEnd::Backup)];
}

/// A limit that holds at some time of each day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScheduledRate {
    /// The minute of the local day from which it holds.
    pub from: u16,
    /// The minute from which it does not; before `from` if it holds over midnight.
    pub to: u16,
    /// What may be requested; zero for nothing.
    pub rate: Rate,
}
impl ScheduledRate {
    /// Whether it holds in that minute of the day.
    pub fn holds_at(&self, minute: u16) -> bool {
        if self.from <= self.to {
            (self.from..self.to).contains(&minute)
        } else {
            minute >= self.from || minute < self.to
        }
    }
}

impl FaceConfig {
    /// The largest datagram of a face that names none: an Ethernet frame without IPv4 and UDP headers.
    pub(crate) const MTU: u32 = 1_472;
    /// A face to the node with this key, in a node with this security.
    pub(crate) fn to(address: SocketAddr, key: PublicKey, security: Security) -> FaceConfig {
        FaceConfig {
            peer: PeerAddress::Datagrams(address),
            local: None,
            device: None,
            mtu: FaceConfig::MTU,
            rate: None,
            egress: None,
            security: if security == Security::Preferred { Security::Encrypted } else { security },
            peer_key: (security != Security::None).then_some(key),
            invited_until: None,
            label: None,
            policy: FacePolicyConfig::default(),
        }
    }
    /// Whether both are one face; labels and uses do not matter.
    pub(crate) fn is_same_link(&self, other: &FaceConfig) -> bool {
        *self == FaceConfig { label: self.label.clone(), policy: self.policy.clone(), ..other.clone() }
    }
    /// Our address for datagrams to `peer`, one of those in `listen` unless `peer` names one: the neighbour knows us by
    /// it. `None` leaves it to the routing table.
    pub(crate) fn source(&self, listen: &[SocketAddr], peer: SocketAddr) -> Option<SocketAddr> {
        let listener = || listen.iter().find(|address| address.is_ipv4() == peer.is_ipv4()).copied();
        self.local.or_else(|| if self.device.is_none() { listener() } else { None })
    }
}

/// An object that a node publishes from the start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublishConfig {
    /// Its name.
    pub name: Name,
    /// The file or folder.
    pub path: PathBuf,
    /// Its version; `None` uses the time of its last change.
    pub version: Option<u64>,
    /// Who alone can read it; empty if everybody can.
    pub readers: Vec<PublicKey>,
    /// URLs of web servers that have the same file.
    pub mirrors: Vec<String>,
}

tributary_core::declared! {
    /// Settings of fetches.
    #[derive(Clone, PartialEq, Debug)]
    pub struct FetchConfig {
        /// Paths per source to request from the network, 1 to 16. Default: 4.
        pub paths_per_source: u8 = 4,
        /// What makes a path good. Default: fewest hops.
        pub metric: PathMetric = PathMetric::Hops,
        /// How long to go without any source before giving up. Default: 10 s.
        pub patience: Duration = Duration::from_secs(10),
    }
}
impl FetchConfig {
    /// A fetch with these settings.
    pub(crate) fn fetch(&self, name: Name, opener: Box<dyn StoreOpener>, patience: Duration) -> Fetch {
        let (paths_per_source, metric) = (self.paths_per_source, self.metric);
        Fetch { name, opener, rate_limit: None, paths_per_source, metric, patience: Some(patience) }
    }
}

/// Which fetched objects a node serves, as the publishers signed them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServeConfig {
    /// Whether everything that is fetched to a file or folder is served; otherwise each fetch decides.
    pub fetched: bool,
    /// Bytes of such copies; the oldest are withdrawn for newer ones. `None` for no limit.
    pub bytes_max: Option<u64>,
    /// How long a copy is served; `None` until it is removed.
    pub age_max: Option<Duration>,
}

tributary_core::declared! {
    /// Whether web servers that publishers name are used, and which.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct MirrorsConfig {
        /// Whether they are used. Default: yes.
        pub used: bool = true,
        /// Whether they may be at addresses that are not public: of this machine, of private networks, of the link.
        /// Default: no, because otherwise a publisher could make this machine send requests to internal services.
        pub private: bool = false,
    }
}

tributary_core::declared! {
    /// The limits of a node.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Limits {
        /// Rate of all fetches together; `None` for no limit.
        pub rate: Option<Rate> = None,
        /// Clients on the control socket at a time. Default: 32.
        pub control_clients: usize = 32,
        /// Bytes of one line on the control socket. Default: 64 KiB.
        pub control_line_bytes: usize = 64 << 10,
        /// Objects that it publishes. Default: 10,000.
        pub publications: usize = 10_000,
        /// Fetches that run at a time. Default: 64.
        pub transfers: usize = 64,
        /// Of these, fetches of the queue. Default: 8.
        pub queue_transfers: usize = 8,
        /// Concurrent lookups of names, including names with a kept negative answer. Default: 1,024.
        pub lookups: usize = 1_024,
    }
}

/// Deliberate misbehaviour, for demos and tests; all off by default.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Faults {
    /// Share of the chunks read from published objects in which bytes are flipped.
    pub corrupt_chunks: f64,
    /// Share of the packets answered from the cache in which bytes are flipped. Needs [`NodeConfig::wrapper`].
    pub corrupt_cache: f64,
}

/// Maximum bytes of a config file.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

impl NodeConfig {
    /// Whether it plays a role.
    pub fn has_role(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }
}

/// The number of the face that a config lists at `index`.
pub(crate) fn face_id(index: usize) -> FaceId {
    FaceId(index as u32 + 1)
}

/// Why a config file yields no node.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read config '{path}': {reason}")]
    Read {
        /// The file.
        path: String,
        /// The system's reason.
        reason: String,
    },
    /// There are mistakes in it.
    #[error(transparent)]
    Wrong(#[from] ConfigErrors),
}
impl From<LoadError> for ApiError {
    fn from(error: LoadError) -> Self {
        ApiError::usage(error.to_string())
    }
}

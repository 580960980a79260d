//! Settings of an NDN node.
use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};
use core::fmt;

use tributary_content::Name;
use tributary_core::{ByteCount, Duration, FaceId, NodeId};
use tributary_transport::TransferConfig;

pub use crate::router::{NameReaders, RouterLimits};
use crate::{
    router::{InvalidPath, LinkService, ManagementTrust, RemoteRegistration, Transit, labels::LabelScheme},
    trust::Anchors,
    wire::{Certificate, Secret, SignKey},
};

tributary_core::declared! {
    /// An NDN node's settings. Values that the paper leaves open have a documented default.
    #[derive(Clone, PartialEq, Debug)]
    pub struct Config {
        /// The node's id, unique among the sources of an object.
        pub node: NodeId = node_of_label(label),
        /// Its human-readable name, at most 32 bytes; producers sign with it as key locator.
        pub label: String = label.into(),
        /// Seed of its random streams, labels and nonces; must differ from node to node and from start to start.
        pub seed: u64 = seed,
        /// Bytes of the content store; zero for none. Default: 64 MiB.
        pub cache_bytes: ByteCount = ByteCount(64 << 20),
        /// Maximum packets of the content store. Default: as many as its bytes allow.
        pub cache_packets_max: Option<usize> = None,
        /// Share of the Data passing by that it keeps, by chance, 0 to 1. Default: 1.
        pub cache_share: f64 = 1.0,
        /// Its policy: `lru`, `fifo` or `priority`. Default: `lru`.
        pub cache_policy: String = "lru".into(),
        /// Strategy of prefixes for which none is chosen. Default: `best-route`.
        pub strategy: String = "best-route".into(),
        /// How long its forwarder suppresses a duplicate of a pending Interest: initial and maximum; it doubles.
        /// Default: 10 to 250 ms, as in NFD.
        pub suppression: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250)),
        /// Flows in the acceleration base. Default: 4,096. PTP §4 B 2.
        pub fab_flows: usize = 4096,
        /// Whether tags are recorded and followed. Default: yes.
        pub path_tags: bool = true,
        /// Whether Data for probes carries the rates of this node's links, measured on faces without a configured rate.
        /// Default: yes.
        pub tell_rates: bool = true,
        /// How labels are written. Default: at random.
        pub labels: LabelScheme = LabelScheme::Random,
        /// What becomes of tags that cannot be followed. Default: by name.
        pub invalid_path: InvalidPath = InvalidPath::ByName,
        /// Whether labels are written into every Data, not only into answers to probes: the consumers of OMCC-RF
        /// distinguish paths by them. Default: no.
        pub label_all: bool = false,
        /// Content bytes of a segment that is published, 64 to 8,000; it fits a datagram with its name and signature.
        /// Default: 1,200. The paper has 1,024.
        pub segment_bytes: u16 = 1200,
        /// Names of this network, for forwarding hints. Default: none.
        pub regions: Vec<Name> = Vec::new(),
        /// The link service of faces to other machines without a separate setting, including unsolicited ones and those
        /// made by command. Default: none.
        pub link_service: LinkService = LinkService::default(),
        /// What single faces are like. Default: none.
        pub link_services: BTreeMap<FaceId, LinkService> = BTreeMap::new(),
        /// Routes through neighbours; they return with their face. Default: none.
        pub routes: Vec<StaticRoute> = Vec::new(),
        /// Neighbours at which to register the prefixes of local publications. Default: none.
        pub registrars: Vec<Registrar> = Vec::new(),
        /// Whether Interests from other nodes for other nodes are forwarded. Default: yes.
        pub transit: Transit = Transit::Allowed,
        /// The commands that are accepted, including neighbours'. Default: any from this machine.
        pub management: ManagementTrust = ManagementTrust::AnyLocal,
        /// Limits of its tables and queues.
        pub limits: RouterLimits = RouterLimits::default(),
        /// Whether neighbours may register prefixes here. Default: no.
        pub remote_registration: RemoteRegistration = RemoteRegistration::Refused,
        /// Names below which they may; without any, all but the root and the reserved ones. Default: none.
        pub registration_prefixes: Vec<Name> = Vec::new(),
        /// Names that only some neighbours may request. Default: none.
        pub readers: Vec<NameReaders> = Vec::new(),
        /// Echo requests of one neighbour that are answered in a second; zero for none. Default: 100.
        pub echoes_per_second: u32 = 100,
        /// How published Data is signed. Default: by digest.
        pub signature: DataSignature = DataSignature::Digest,
        /// Keys shared with the publishers below a prefix. Default: none.
        pub shared_keys: Vec<SharedKey> = Vec::new(),
        /// Whether unsigned objects without a manifest are fetched. Default: yes, with a notice.
        pub unsigned: Unsigned = Unsigned::Fetched,
        /// Trust anchors: objects below an anchor's prefixes are accepted only if the anchor vouches for them. Default:
        /// none.
        pub anchors: Anchors = Anchors::default(),
        /// Unix time of the driver's epoch; versions of metadata and times of commands count from it. Default: zero.
        pub epoch: Duration = Duration::ZERO,
        /// How paths are found and chosen.
        pub paths: PathConfig = PathConfig::default(),
        /// How transfers are run.
        // A fetch over one path would take a fetch over several paths that share its link for a rival, which costs
        // it a tenth of its share; sub-flows of a group do not look for rivals.
        pub transfer: TransferConfig = TransferConfig { watch_rivals: false, ..TransferConfig::default() },
    }
    /// Defaults for a node called `label`.
    pub fn new(label: &str, seed: u64) {}
}

/// A route of the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaticRoute {
    /// The neighbour.
    pub face: FaceId,
    /// What can be reached by it.
    pub prefix: Name,
    /// Its cost; strategies prefer little.
    pub cost: u64,
}

/// A neighbour at which prefixes are registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registrar {
    /// The neighbour.
    pub face: FaceId,
    /// Which of its doors is used.
    pub scope: RegistrationScope,
}

/// The name below which a prefix is registered with a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RegistrationScope {
    /// `/localhost/nfd`: a forwarder on this machine.
    #[default]
    Localhost,
    /// `/localhop/nfd`: a forwarder one hop away that allows it.
    Localhop,
}

/// A key that all publishers and consumers below a prefix share: Data there is signed with it (HMAC with SHA-256), and
/// no other signature is trusted there.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedKey {
    /// The prefix.
    pub prefix: Name,
    /// The key.
    pub secret: Vec<u8>,
}

impl SharedKey {
    /// The key for a name: the longest matching prefix decides.
    pub(crate) fn of<'a>(keys: &'a [SharedKey], name: &Name) -> Option<&'a SharedKey> {
        keys.iter().filter(|key| key.prefix.is_prefix_of(name)).max_by_key(|key| key.prefix.len())
    }
}

impl fmt::Debug for SharedKey {
    /// Shows no secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedKey({})", self.prefix)
    }
}

/// The policy for objects with a digest in place of a signature: a digest excludes damage, but anyone can make it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unsigned {
    /// They are fetched unless a trust anchor, or a pinned or remembered key, forbids it.
    #[default]
    Fetched,
    /// They are refused everywhere.
    Refused,
}

/// A key with its certificates, by which a node signs its publications and commands.
#[derive(Clone)]
pub struct Credentials {
    key: SignKey,
    /// What KeyLocators name first, then the others that are served for it and its issuers.
    certificates: Vec<Certificate>,
}

impl Credentials {
    /// A key with its certificates, the best one first, and its issuers' certificates; `None` without a certificate.
    pub fn new(secret: Secret, mut own: Vec<Certificate>, issuers: Vec<Certificate>) -> Option<Credentials> {
        own.extend(issuers);
        (!own.is_empty()).then_some(Credentials { key: secret.key, certificates: own })
    }
    /// The certificate that KeyLocators name.
    pub fn certificate(&self) -> &Certificate {
        &self.certificates[0]
    }
    /// All certificates to serve.
    pub fn certificates(&self) -> &[Certificate] {
        &self.certificates
    }
}
impl PartialEq for Credentials {
    fn eq(&self, other: &Self) -> bool {
        // The first certificate is for the key.
        self.certificates == other.certificates
    }
}
impl fmt::Debug for Credentials {
    /// Shows no secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.certificate().name())
    }
}

/// How published Data is signed. A fetch with a manifest verifies by the manifest in any case.
#[derive(Clone, PartialEq, Default)]
pub enum DataSignature {
    /// SHA-256, which shows that nothing was damaged.
    #[default]
    Digest,
    /// Ed25519 with this secret, which proves the origin; about 20 µs a segment.
    Ed25519([u8; 32]),
    /// By a key with a certificate, which is published too.
    Certified(Arc<Credentials>),
}

impl fmt::Debug for DataSignature {
    /// Shows no secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DataSignature::Digest => "Digest",
            DataSignature::Ed25519(_) => "Ed25519",
            DataSignature::Certified(credentials) => return credentials.fmt(f),
        })
    }
}

impl DataSignature {
    /// The key.
    pub fn key(&self) -> SignKey {
        match self {
            DataSignature::Digest => SignKey::Digest,
            DataSignature::Ed25519(secret) => SignKey::ed25519(secret),
            DataSignature::Certified(credentials) => credentials.key.clone(),
        }
    }
    /// The certificates to serve, the one that KeyLocators name first.
    pub fn certificates(&self) -> &[Certificate] {
        match self {
            DataSignature::Digest | DataSignature::Ed25519(_) => &[],
            DataSignature::Certified(credentials) => credentials.certificates(),
        }
    }
}

tributary_core::declared! {
    /// How a consumer finds and chooses paths. PTP §3 A, §4 C.
    #[derive(Clone, PartialEq, Debug)]
    pub struct PathConfig {
        /// Maximum paths in use (paper: N). Default: 10, as in §6 A.
        pub in_use_max: usize = 10,
        /// Time between changes of the paths in use (paper: T). Default: 10 s, as in §6 A.
        pub change_interval: Duration = Duration::from_secs(10),
        /// Time between probing Interests. Default: 100 ms, as in §3 A.
        pub probe_interval: Duration = Duration::from_millis(100),
        /// Maximum time between probing Interests: it grows while none brings anything new, and doubles while they are
        /// rejected (Nack: no route, congestion). The paper's probes keep their rate. Default: 1 s.
        pub probe_interval_max: Duration = Duration::from_secs(1),
        /// Probing Interests sent at once at the start. Default: 4.
        pub probes_initial: u32 = 4,
        /// Which paths are used: one of [`crate::receiver::selection::SELECTIONS`]. Default: `spread`; the paper has
        /// `bandwidth`.
        pub selection: String = "spread".into(),
        /// Minimum lifetime of an Interest, and its lifetime while its path is unknown. Default: 2 s.
        pub interest_lifetime: Duration = Duration::from_secs(2),
        /// Maximum lifetime of an Interest. Its lifetime is twice the timeout from its path's round trips, including
        /// queueing, so that none expires before its Data arrives. Default: 30 s.
        pub interest_lifetime_max: Duration = Duration::from_secs(30),
    }
}

/// The id of a node that is called `label`: the first eight bytes of the label's digest.
pub fn node_of_label(label: &str) -> NodeId {
    let hash = crate::wire::signature::digest(&[label.as_bytes()]);
    NodeId(u64::from_be_bytes(*hash.first_chunk().expect("a digest has 32 bytes")))
}

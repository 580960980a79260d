//! Settings of a node.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};

use tributary_content::{Name, SigningKey};
use tributary_core::{ByteCount, Duration, FaceId, NodeId};
use tributary_transport::{
    ConfigError,
    messaging::{CHUNK_BYTES, NACK_TIMEOUT},
};

use crate::{
    ids::{Guid, NetworkAddress},
    link::HopConfig,
    router::neighbour::Rhythm,
    wire::{
        Reliability,
        names::{MEMBERS_MAX, OWN_LABEL_BYTES_MAX, READERS_MAX, RecordBody},
    },
};

tributary_core::declared! {
    /// A MobilityFirst node's settings. Values that the paper leaves open have a documented default.
    #[derive(Clone, PartialEq, Debug)]
    pub struct Config {
        /// The node's id for people and tests, unique in its network.
        pub node: NodeId = NodeId(u64::from_be_bytes(*hash.as_bytes().first_chunk().expect("8 of 32 bytes"))),
        /// Its human-readable name, at most 32 bytes.
        pub label: String = label.into(),
        /// Seed of its random streams; must differ from node to node and from start to start.
        pub seed: u64 = seed,
        /// Secret of its Ed25519 key, from which its GUID follows; must stay the same from start to start.
        pub secret: [u8; 32] = *blake3::hash(format!("secret of {label}").as_bytes()).as_bytes(),
        /// Whether it forwards chunks of other nodes, and hosts attach to it.
        pub router: bool = false,
        /// Whether it holds records of names for the network (paper: GNRS server).
        pub resolver: bool = false,
        /// Its address, if it is a router. Default: derived from the label.
        pub address: NetworkAddress = NetworkAddress::of_label(label),
        /// Time between hellos to a neighbour that answers. It is gone after five are missed. Default: 200 ms; the
        /// prototype has 2 s and 11 s.
        pub hello_interval: Duration = Duration::from_millis(200),
        /// Time between hellos between a host and its router while next to nothing is carried. Default: 10 s.
        pub idle_interval: Duration = Duration::from_secs(10),
        /// Time between hellos to a neighbour that does not answer. A host increases it from 5 s of silence on, to a
        /// thirtieth of the silence, which bounds how late the router's return is noticed. Default: 25 ms.
        pub search_interval: Duration = Duration::from_millis(25),
        /// The longest time between the hellos of a host to a router that does not answer. Default: 10 s.
        pub search_interval_max: Duration = Duration::from_secs(10),
        /// Packets of the back-pressure buffer (paper: B). Default: 6,000.
        pub buffer_packets: u32 = 6_000,
        /// The hop link.
        pub hop: HopConfig = HopConfig::default(),
        /// The measure against chunks that block others. Default: [`HolRelief::Windows`].
        pub relief: HolRelief = HolRelief::Windows,
        /// A router stores chunks despite a path if the path's short-term cost exceeds its long-term cost by this
        /// factor; at least 1. Default: 1.1 (GSTAR).
        pub store_ratio: f64 = 1.1,
        /// In-network storage.
        pub proxy: ProxyConfig = ProxyConfig::default(),
        /// Whether a host stores its outgoing messages while no router answers, so that they survive a restart.
        /// Default: no.
        pub outbox: bool = false,
        /// Bytes of the content cache of a router; zero for none. Default: 64 MiB.
        pub cache_bytes: ByteCount = ByteCount(64 << 20),
        /// Requests that wait at a router with a cache for an object that is arriving for another receiver, and such
        /// objects, at most; zero lets each request go to a source. Default: 0, until devices at intermittent contacts
        /// lose nothing by it.
        pub pending_requests_max: u32 = 0,
        /// How long a receiver whose request joined such an object has nothing to receive, while no packet of the
        /// object comes, until its request goes to a source. Default: 2 s.
        pub pending_lifetime: Duration = Duration::from_secs(2),
        /// How many replicas hold each name. Default: 5 (paper DMap: K).
        pub replicas: u8 = 5,
        /// Maximum name records that this node holds for the network as a resolver. Default: 1,000,000, of some 450
        /// bytes each for contents.
        pub records_max: u32 = crate::resolver::replica::RECORDS_HELD_MAX as u32,
        /// Maximum other routers known to a router. Default: 1,024.
        pub routers_max: u32 = crate::router::link_state::ROUTERS_MAX as u32,
        /// Lifetime of this node's names; the node renews them at a third of it. A node that publishes nothing uses ten
        /// times this lifetime, since routers detect its absence themselves. Default: 30 s.
        pub binding_lifetime: Duration = Duration::from_secs(30),
        /// How long the network keeps messages to a name for this node after its last attachment. Default: 7 days.
        pub attachment_lifetime: Duration = MESSAGE_LIFETIME,
        /// The weights of a host's accesses by face, from 1 to 255; the default follows the access's rate, and is the
        /// maximum if that is unknown. Chunks for a host with several accesses are distributed by these weights; among
        /// several hosts with the same object the one with the least distance divided by weight gets the request.
        pub weights: BTreeMap<FaceId, u8> = BTreeMap::new(),
        /// The only devices that may look up this node's records under a name, or (`None`) its own location. At most 64
        /// devices each; for others the name does not exist.
        pub readers: BTreeMap<Option<Name>, BTreeSet<Guid>> = BTreeMap::new(),
        /// Groups that this node owns (paper §3.5), by their labels of 1 to 64 bytes: the GUID of each follows from the
        /// node's key and the label.
        pub groups: BTreeMap<String, GroupConfig> = BTreeMap::new(),
        /// The ends of transfers.
        pub transfer: EndConfig = EndConfig::default(),
    }
    /// Defaults for a node called `label`: a host. Its key is made from label and nothing else, which suits tests only.
    pub fn new(label: &str, seed: u64) {
        let hash = blake3::hash(label.as_bytes());
    }
}

/// A group's members, as its owner lists them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupConfig {
    /// Devices or nested groups; at most 64, so larger groups consist of groups.
    pub members: Vec<Guid>,
    /// The device whose proxy distributes the group's messages and answers its members' requests for missing chunks;
    /// `None` leaves this to the first router on the way.
    pub proxy: Option<Guid>,
}

impl Config {
    /// Whether the node keeps chunks: other nodes' as a router, or its own.
    pub fn stores(&self) -> bool {
        self.proxy.enabled && (self.router || self.outbox)
    }
    /// How far apart its hellos are.
    pub(crate) fn rhythm(&self) -> Rhythm {
        Rhythm {
            hello: self.hello_interval,
            idle: self.idle_interval,
            search: self.search_interval,
            search_max: self.search_interval_max,
            follows: self.router,
        }
    }
    /// For a device on a battery: when idle, it sends a hello once a minute, renews its names every ten minutes, and
    /// finally searches for a lost router every two minutes.
    pub fn save_battery(&mut self) {
        (self.idle_interval, self.search_interval_max) = (Duration::from_secs(60), Duration::from_secs(120));
        self.binding_lifetime = Duration::from_secs(180);
    }
}

impl GroupConfig {
    /// Whether a group of this label may have this many members.
    pub(crate) fn is_legal(&self, label: &str) -> bool {
        (1..=OWN_LABEL_BYTES_MAX).contains(&label.len()) && self.members.len() <= MEMBERS_MAX
    }
    /// The owner's record of it in the network.
    pub(crate) fn record(&self, label: &str) -> RecordBody {
        let proxy = self.proxy.unwrap_or(Guid::NONE);
        RecordBody::Group { label: label.as_bytes().into(), members: self.members.clone(), proxy }
    }
}

/// The measure against chunks that block others (paper §3.4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HolRelief {
    /// Blocked chunks stay, and so does everything queued behind them.
    Off,
    /// They are pushed to the proxy, as in the paper, by queue and by share.
    Proxy,
    /// Each destination has a share of the buffer and a window, so few chunks block others; those are pushed to the
    /// proxy.
    #[default]
    Windows,
}

/// How a proxy finds out that a destination is back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rebinding {
    /// At once, by watching its name and its attachment; the storage timer is the fallback.
    Watch,
    /// When the storage timer expires (paper §3.3).
    Timer,
    /// Not at all: the source must push (paper §5.2.1, receiver-driven).
    Never,
}

/// When a store may drop a forwarded chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CustodyUntil {
    /// On the disk of a router further on, or of the receiver (custody transfer, RFC 5050 §5.10).
    Disk,
    /// When it is in the next hop's memory, as in the paper; a kill of that node loses it.
    Hop,
}

tributary_core::declared! {
    /// Settings of a storage proxy.
    #[derive(Clone, PartialEq, Debug)]
    pub struct ProxyConfig {
        /// Whether this router stores chunks. Default: yes.
        pub enabled: bool = true,
        /// Bytes of storage. Default: 1 GiB.
        pub capacity: ByteCount = ByteCount(1 << 30),
        /// Bytes for each flow (paper: S). Default: 100 MiB.
        pub flow_capacity: ByteCount = ByteCount(FLOW_CAPACITY_MAX),
        /// Bytes for each source, to whomever it sends. Default: 512 MiB, half of the storage.
        pub source_capacity: ByteCount = ByteCount(512 << 20),
        /// Bytes per destination from all senders; a subscriber that never returns uses no more. Default: 896 MiB,
        /// seven eighths of the storage.
        pub destination_capacity: ByteCount = ByteCount(896 << 20),
        /// Default and maximum lifetime of stored chunks. Default: 7 days, so that a device may be away for a weekend
        /// or a week.
        pub lifetime: Duration = MESSAGE_LIFETIME,
        /// The storage timer. Default: 1 s.
        pub timer: Duration = Duration::from_secs(1),
        /// How the return of a destination is noticed. Default: [`Rebinding::Watch`].
        pub rebinding: Rebinding = Rebinding::Watch,
        /// How long Stored and Dropped messages are collected. Default: 50 ms.
        pub report_delay: Duration = Duration::from_millis(50),
        /// When this store may drop a forwarded chunk. Default: [`CustodyUntil::Disk`].
        pub custody: CustodyUntil = CustodyUntil::Disk,
        /// Objects in transit to one destination before it acknowledges storage, from 1. Default: 128.
        pub custody_objects: u32 = 128,
        /// Bytes in transit to one destination before it acknowledges storage; an object in progress may exceed it.
        /// Default: 64 MiB.
        pub custody_bytes: ByteCount = ByteCount(64 << 20),
        /// Minimum timeout after which a chunk without an acknowledgement of storage is sent again. The timeout follows
        /// the measured round trip (RFC 6298), and is three times the minimum before the first one. Chunks lost with a
        /// neighbour or a router further on are sent again at once, so this covers lost acknowledgements only, and
        /// exceeds the queueing time further on. Default: 10 s.
        pub custody_timeout: Duration = Duration::from_secs(10),
        /// The maximum timeout after any number of failed attempts. Default: 2 min.
        pub custody_timeout_max: Duration = Duration::from_secs(120),
        /// A router with less free storage than this percentage counts as depleted: routes through it are avoided, and
        /// chunks that it refused wait here. Default: 5.
        pub depleted_percent: u8 = crate::router::link_state::DEPLETED_PERCENT,
    }
}

tributary_core::declared! {
    /// Settings of the two ends of transfers.
    #[derive(Clone, PartialEq, Debug)]
    pub struct EndConfig {
        /// Bytes of a chunk that a receiver proposes, and the sender's maximum. Default: 1 MiB.
        pub chunk_bytes: u32 = 1 << 20,
        /// What a receiver reports. Default: [`Reliability::Nack`].
        pub reliability: Reliability = Reliability::Nack,
        /// The first end-to-end window, in chunks (paper: W_e). Objects that fit into it are not subject to flow
        /// control. Default: 8.
        pub window_chunks: u16 = 8,
        /// The largest end-to-end window, in chunks. Default: 256.
        pub window_chunks_max: u16 = 256,
        /// Bytes that a receiver buffers before it can store them. Default: 64 MiB.
        pub buffer_bytes: ByteCount = ByteCount(64 << 20),
        /// How long a receiver waits for the next packet before it reports missing chunks; doubles with every
        /// repetition, up to four times as long. Default: 3 s.
        pub nack_timeout: Duration = Duration::from_secs(3),
        /// Lifetime of this node's messages unless the command sets one. Default: 7 days.
        pub message_lifetime: Duration = MESSAGE_LIFETIME,
        /// Whether the access router answers for this node (producer delegation, paper §3.3). Default: no.
        pub delegate: bool = false,
        /// A chunk that more group members than this request is sent to all again, otherwise to each of them (paper
        /// §3.5). Default: 2.
        pub multicast_threshold: u16 = 2,
    }
}

impl Config {
    /// The GUID of the node.
    pub fn guid(&self) -> Guid {
        Guid::of(&SigningKey::from_secret(&self.secret).public(), &[])
    }
    /// Whether all values are in range.
    ///
    /// # Errors
    /// [`ConfigError`] names the first field that is not.
    pub fn check(&self) -> Result<(), ConfigError> {
        let chunk_packets = self.transfer.chunk_bytes.div_ceil(1_000);
        let rules = [
            (self.label.len() <= 32, "label", "at most 32 bytes"),
            (self.hello_interval >= Duration::from_millis(10), "hello_interval", "at least 10 ms"),
            (self.search_interval >= Duration::from_millis(5), "search_interval", "at least 5 ms"),
            (
                self.buffer_packets >= 2 * chunk_packets.max(32),
                "buffer_packets",
                "at least two chunks: twice chunk_bytes in packets of 1,000 bytes",
            ),
            (self.hop.csyn_packets >= 1, "csyn_packets", "at least 1"),
            (self.store_ratio >= 1.0, "store_ratio", "at least 1"),
            (self.pending_lifetime >= Duration::from_millis(10), "pending_lifetime", "at least 10 ms"),
            ((1..=16).contains(&self.replicas), "replicas", "from 1 to 16"),
            (self.binding_lifetime >= Duration::from_secs(1), "binding_lifetime", "at least 1 s"),
            (self.readers.values().all(|devices| devices.len() <= READERS_MAX), "readers", "at most 64 devices"),
            (
                self.groups.keys().all(|label| (1..=OWN_LABEL_BYTES_MAX).contains(&label.len())),
                "label",
                "1 to 64 bytes",
            ),
            (self.groups.values().all(|group| group.members.len() <= MEMBERS_MAX), "members", "at most 64"),
            (self.weights.values().all(|weight| *weight > 0), "weight", "from 1 to 255"),
            (self.proxy.flow_capacity <= self.proxy.capacity, "flow_capacity", "at most capacity"),
            (self.proxy.timer >= Duration::from_millis(10), "storage_timer", "at least 10 ms"),
            (self.proxy.custody_objects >= 1, "custody_objects", "at least 1"),
            (self.proxy.custody_timeout >= Duration::from_millis(10), "custody_timeout", "at least 10 ms"),
            (
                self.proxy.custody_timeout_max >= self.proxy.custody_timeout,
                "custody_timeout_max",
                "at least custody_timeout",
            ),
            (
                CHUNK_BYTES.contains(&self.transfer.chunk_bytes),
                "chunk_bytes",
                "1 KiB to 4.3 MiB, which are 8,192 packets over the narrowest links",
            ),
            (self.transfer.window_chunks >= 1, "window_chunks", "at least 1"),
            (
                self.transfer.window_chunks_max >= self.transfer.window_chunks,
                "window_chunks_max",
                "at least window_chunks",
            ),
            (NACK_TIMEOUT.contains(&self.transfer.nack_timeout), "nack_timeout", "50 ms to 86,400 s"),
        ];
        match rules.into_iter().find(|(holds, ..)| !holds) {
            Some((_, field, range)) => Err(ConfigError { field, range }),
            None => Ok(()),
        }
    }
}

/// How long a message is kept by default: a device may be away for a weekend, or for a week.
const MESSAGE_LIFETIME: Duration = Duration::from_secs(7 * 86_400);

impl ProxyConfig {
    /// Settings for this capacity, with the default shares: a quarter per flow, between 5 MiB, so that some chunks of
    /// the usual size fit, and 100 MiB; half per source.
    pub fn with_capacity(capacity: ByteCount) -> ProxyConfig {
        let ByteCount(bytes) = capacity;
        let share =
            |part: u64, most: u64| ByteCount(part.clamp(FLOW_CAPACITY_MIN, most.max(FLOW_CAPACITY_MIN)).min(bytes));
        ProxyConfig {
            enabled: bytes > 0,
            capacity,
            flow_capacity: share(bytes / 4, FLOW_CAPACITY_MAX),
            source_capacity: share(bytes / 2, bytes),
            destination_capacity: share(bytes / 8 * 7, bytes),
            ..ProxyConfig::default()
        }
    }
}

/// Maximum and minimum default share of a flow.
const FLOW_CAPACITY_MAX: u64 = 100 << 20;
const FLOW_CAPACITY_MIN: u64 = 5 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_legal_and_a_buffer_too_small_for_two_chunks_is_not() {
        let mut config = Config::new("x", 1);
        assert_eq!(config.check(), Ok(()));
        config.buffer_packets = 2_000;
        assert_eq!(config.check().map_err(|error| error.field), Err("buffer_packets"));
        (config.buffer_packets, config.transfer.chunk_bytes) = (60_000, 4_500_000);
        assert_eq!(config.check(), Ok(()));
        config.transfer.chunk_bytes = 4_600_000;
        assert_eq!(
            config.check().map_err(|error| error.field),
            Err("chunk_bytes"),
            "more packets than a chunk may have"
        );
    }
}

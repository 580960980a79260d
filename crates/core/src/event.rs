//! Events of a node: the one stream from which bars, JSON lines, metrics and figures are made.
use alloc::string::String;
use core::fmt;

use crate::{Duration, EchoId, FaceId, NodeId, PathId, Rate, SourceId, Time, TransferId};

/// Something that happened in a node. Names are the same in every family.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A packet was dropped. `reason` is one of a fixed set of phrases, so that counters can be kept by it.
    Dropped {
        /// Its source or destination.
        face: FaceId,
        /// Why.
        reason: &'static str,
        /// Its length.
        bytes: u32,
    },
    /// A neighbour started or stopped answering on a face.
    Neighbour {
        /// The face.
        face: FaceId,
        /// The neighbour's id.
        node: NodeId,
        /// Whether it answers.
        up: bool,
    },
    /// Something about one transfer.
    Transfer(TransferId, TransferEvent),
    /// What the resolver answered to a publication, a subscription or a listing.
    Resolver(ResolverEvent),
    /// The outcome of an echo request.
    Echo(EchoReport),
    /// This node can no longer read one of its publications; its receivers get the reason. Emitted once per reason.
    Unreadable {
        /// Its name, as an NDN URI.
        name: String,
        /// The error, and its file.
        reason: String,
    },
    /// A change worth a line in the log: a take-over, a hand-over, a limit reached.
    Note(String),
}

/// A message of the resolver to this node. Every rejection reaches the application.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ResolverEvent {
    /// The resolver knows a name of ours.
    Published {
        /// The name, as an NDN URI.
        name: String,
    },
    /// A name of ours is withdrawn.
    Unpublished {
        /// The name, as an NDN URI.
        name: String,
    },
    /// A subscription is active; publications follow now or later.
    Subscribed {
        /// The name, as an NDN URI.
        name: String,
    },
    /// A subscription is withdrawn.
    Unsubscribed {
        /// The name, as an NDN URI.
        name: String,
    },
    /// Something appeared under a scope that this node subscribed to (start-publish, scope-published).
    Appeared {
        /// The full name of the item or scope.
        name: String,
        /// Whether it is a scope, else an item.
        is_scope: bool,
        /// How many publishers offer it; zero for scopes.
        publishers: u32,
        /// Bytes of the object; zero for scopes.
        bytes: u64,
    },
    /// An entry left a scope that this node subscribed to (stop-publish, scope-unpublished).
    Disappeared {
        /// The full name of the item or scope.
        name: String,
    },
    /// The first complete listing of a scope was delivered.
    Listed {
        /// The scope.
        name: String,
        /// How many entries it has.
        entries: u32,
    },
    /// A request was refused.
    Rejected {
        /// The name it was about.
        name: String,
        /// The operation: `publish`, `unpublish`, `subscribe`, `unsubscribe`, …
        operation: &'static str,
        /// Why it was refused.
        reason: String,
    },
}

/// The outcome of one echo request; each request ends with exactly one report.
#[derive(Clone, PartialEq, Debug)]
pub struct EchoReport {
    /// The request.
    pub echo: EchoId,
    /// From sending it to the answer, or until it timed out.
    pub rtt: Duration,
    /// How the request ended.
    pub outcome: EchoOutcome,
    /// The path named by the answer, in the form for the next request; `None` without one.
    pub path: Option<String>,
    /// Routers on that path, if known.
    pub hops: u32,
    /// Whether the requested path could not be followed to its end.
    pub path_failed: bool,
}

/// How an echo request ended.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EchoOutcome {
    /// The node of this name: it is the target.
    Forwarder(String),
    /// An application on the node of this name serves the target.
    Application(String),
    /// The cache of the node of this name has the target.
    Object(String),
    /// The request reached the node of this name, where its hop limit ended.
    HopLimit(String),
    /// The network reports the target as unreachable, and the reason.
    Unreachable(String),
    /// Nothing.
    Silence,
}

/// What happened to one transfer.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum TransferEvent {
    /// The manifest is known and trusted, and the store is open.
    Started {
        /// Bytes of the object.
        bytes: u64,
        /// Bytes that an earlier fetch had already verified.
        resumed_bytes: u64,
    },
    /// The network knows no publisher of the name. The fetch waits for a publication until its patience ends.
    Absent {
        /// The reporting component.
        reason: String,
    },
    /// A source was offered.
    SourceAdded {
        /// Its number in this transfer.
        source: SourceId,
        /// Its node.
        node: NodeId,
        /// Its human-readable name.
        label: String,
    },
    /// A source is distrusted and gets no more requests.
    SourceDistrusted {
        /// Its number in this transfer.
        source: SourceId,
        /// Its human-readable name.
        label: String,
        /// The evidence.
        reason: String,
    },
    /// A source became unusable through no fault, for example because it now offers another version.
    SourceClosed {
        /// Its number in this transfer.
        source: SourceId,
        /// Its human-readable name.
        label: String,
        /// Why.
        reason: String,
    },
    /// A node between receiver and source changed bytes; paths through it are avoided.
    ForwarderDistrusted {
        /// Its human-readable name.
        label: String,
        /// Its offence, with the evidence.
        reason: String,
    },
    /// Advice for the person who requested the transfer.
    Advice {
        /// What.
        text: String,
    },
    /// A cache on the way sent wrong bytes and is bypassed from now on.
    CacheDistrusted {
        /// The cache, as it named itself.
        node: NodeId,
        /// The evidence.
        reason: String,
    },
    /// A path appeared.
    PathAdded {
        /// Its number in this transfer.
        path: PathId,
        /// The source it leads to.
        source: SourceId,
    },
    /// A path changed its state.
    PathState {
        /// The path.
        path: PathId,
        /// Its present state.
        state: PathState,
        /// Why.
        reason: String,
    },
    /// A chunk was verified and stored.
    ChunkStored {
        /// Its index.
        index: u32,
        /// Its length.
        bytes: u32,
    },
    /// Everything is verified and stored.
    Completed,
    /// The transfer ended without success; verified chunks are kept.
    Failed {
        /// The operation, its object, and the reason.
        reason: String,
    },
}

/// What a path is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PathState {
    /// Offered, no request yet.
    #[default]
    Idle,
    /// Requests and data flow.
    Active,
    /// The transfer has ended, and the path was in use until then.
    Done,
    /// It went silent; probed until it answers.
    Silent,
    /// Withdrawn by the network, or its source distrusted.
    Closed,
}
impl fmt::Display for PathState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PathState::Idle => "idle",
            PathState::Active => "active",
            PathState::Done => "done",
            PathState::Silent => "silent",
            PathState::Closed => "closed",
        })
    }
}

/// The account of one transfer, per source and per path. Bytes are payload bytes of the object.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TransferReport {
    /// Bytes of the object; zero until the manifest is known.
    pub bytes: u64,
    /// Bytes verified and stored, including those from earlier fetches.
    pub stored_bytes: u64,
    /// Bytes that earlier fetches had stored.
    pub resumed_bytes: u64,
    /// Bytes from caches on the way.
    pub cached_bytes: u64,
    /// Bytes requested again.
    pub retransmitted_bytes: u64,
    /// Bytes that arrived a second time, end-game included.
    pub duplicate_bytes: u64,
    /// When the fetch started.
    pub started: Time,
    /// When it ended; `None` while it runs.
    pub ended: Option<Time>,
    /// If it failed: the operation, its object, and the reason.
    pub failure: Option<String>,
    /// One account per source.
    pub sources: alloc::vec::Vec<SourceReport>,
    /// One account per path.
    pub paths: alloc::vec::Vec<PathReport>,
}

/// The account of one source.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SourceReport {
    /// Its number in this transfer.
    pub source: SourceId,
    /// Its node.
    pub node: NodeId,
    /// Its human-readable name.
    pub label: String,
    /// Useful bytes from it (not from caches on the way to it).
    pub bytes: u64,
    /// The evidence if it is distrusted.
    pub distrusted: Option<String>,
    /// Why it gets no more requests although it is not faulty: it offers another version now, or the only paths to it
    /// change packets.
    pub closed: Option<String>,
}

/// The account of one path.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PathReport {
    /// Its number in this transfer.
    pub path: PathId,
    /// The source it leads to.
    pub source: SourceId,
    /// The nodes on it, for people.
    pub label: String,
    /// The face on which its requests leave this node; `None` if unknown.
    pub face: Option<FaceId>,
    /// Links from source to receiver.
    pub hops: u32,
    /// Links that it shares with other paths of its transfer, by number: paths with a number in common are coupled.
    pub groups: alloc::vec::Vec<u16>,
    /// Its state.
    pub state: PathState,
    /// Why it is in that state.
    pub reason: String,
    /// Useful bytes on it, from caches or from the source.
    pub bytes: u64,
    /// Of these, bytes that caches on it delivered.
    pub cached_bytes: u64,
    /// Requested packets; in MobilityFirst, which requests chunks, the packets sent for the chunks that arrived.
    pub requested_packets: u64,
    /// Packets declared lost; in MobilityFirst those that arrived after later ones of their chunk, because they were
    /// lost on the last hop, or on an earlier one whose router forwarded the chunk during its arrival.
    pub lost_packets: u64,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// The window.
    pub window_bytes: u64,
    /// The current delivery rate, smoothed.
    pub rate: Rate,
    /// Smoothed round-trip time; `None` before the first sample. In MobilityFirst the time from the last request to a source
    /// that sent nothing until the first packet of its answer.
    pub rtt: Option<Duration>,
    /// Smallest round-trip time seen.
    pub rtt_min: Option<Duration>,
}

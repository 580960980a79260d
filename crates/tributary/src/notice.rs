//! Notices: everything that the program reports, as JSON objects. Their shapes are defined only here.
//!
//! Each is an object with a field `event`; on the command line with `--json` it is one line on stdout, on the control
//! socket it is the value of `tell`. New fields may be added; fields are never renamed or removed.
use serde::{Deserialize, Serialize};
use tributary_core::{
    Duration,
    event::{Event, ResolverEvent, TransferEvent},
    printable,
};

use crate::{
    error::{ApiError, ErrorKind},
    views::{
        CacheView, DoneView, EchoView, GroupView, MemberView, PathView, PingedView, ProgressView, ReceivedView,
        RouteView, SentView, StatusView, StoreView, StrategyView,
    },
};

/// Something that an operation or a node reports.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Notice {
    /// A fetch has started and has a number.
    Fetching {
        /// The transfer.
        transfer: String,
        /// Name of the object.
        name: String,
        /// The folder that holds it until it is complete; the same fetch resumes from there after an interruption.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<String>,
        /// Its number in the queue, such as `get-1`, if a daemon fetches in the background.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queue: Option<String>,
        /// Whether it waits for its turn, and `transfer` is its number in the queue.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        waiting: bool,
    },
    /// The manifest is known and trusted.
    Started {
        /// Bytes of the object.
        bytes: u64,
        /// Bytes that an earlier run had verified.
        resumed_bytes: u64,
    },
    /// A source was offered.
    Source {
        /// Its name.
        id: String,
        /// Its node.
        node: String,
    },
    /// A faulty source is excluded.
    SourceDistrusted {
        /// Its name.
        id: String,
        /// The evidence.
        reason: String,
    },
    /// A source is excluded, through no fault of its own.
    SourceClosed {
        /// Its name.
        id: String,
        /// Why.
        reason: String,
    },
    /// A node between receiver and source changed bytes; paths through it are avoided.
    ForwarderDistrusted {
        /// Its name.
        id: String,
        /// The evidence.
        reason: String,
    },
    /// A cache sent wrong bytes and is bypassed.
    CacheDistrusted {
        /// Its node; `without a name` in families whose caches do not identify themselves.
        node: String,
        /// The evidence, and the path.
        reason: String,
    },
    /// A path appeared.
    Path {
        /// Its number.
        id: String,
        /// The number of the source it leads to.
        source: String,
    },
    /// A path changed its state.
    PathState {
        /// Its number.
        id: String,
        /// Its present state.
        state: String,
        /// Why.
        reason: String,
    },
    /// The progress of a transfer, several times a second while it runs.
    Progress(ProgressView),
    /// A transfer succeeded: the last line of `get` and `demo`.
    Done(DoneView),
    /// The operation failed: the last line in place of its result.
    Error {
        /// What kind of failure.
        kind: ErrorKind,
        /// The operation, its object, and the reason.
        message: String,
        /// What to try.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
    },
    /// A daemon is up.
    Ready {
        /// The node's name.
        label: String,
        /// Its architecture.
        family: String,
        /// Its roles.
        roles: Vec<String>,
        /// Where it listens.
        listen: Vec<String>,
        /// Its control socket.
        control: String,
        /// The key that it publishes with.
        publisher: String,
        /// Its address and key, for `peer` and `--peer` of others; `None` without proof of keys at that address.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        invitation: Option<String>,
        /// Where its gateway and its API listen; `None` without `[http]`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        http: Option<String>,
    },
    /// An object is published.
    Published {
        /// Name of the object.
        name: String,
        /// Its length.
        bytes: u64,
        /// Its version.
        version: u64,
        /// The publisher's key, for `get --publisher`.
        publisher: String,
        /// Its name with that key, to be fetched by.
        #[serde(default)]
        reference: String,
        /// Whether the resolver has confirmed it; if not, the node keeps trying.
        confirmed: bool,
    },
    /// A name is withdrawn.
    Unpublished {
        /// The name.
        name: String,
    },
    /// An entry of a listing.
    Entry {
        /// The full name.
        name: String,
        /// `scope` or `object`.
        kind: String,
        /// How many publishers offer it.
        publishers: u32,
        /// Its length.
        bytes: u64,
    },
    /// A listing is complete.
    Listed {
        /// The scope.
        name: String,
        /// How many entries it has.
        entries: u32,
    },
    /// What a node is doing.
    Status(Box<StatusView>),
    /// The paths of one transfer.
    Paths {
        /// The transfer.
        transfer: String,
        /// Name of the object that it fetches.
        name: String,
        /// Its paths.
        paths: Vec<PathView>,
    },
    /// An explanation of a transfer, a path or a name.
    Explanation {
        /// The id or name in the question.
        id: String,
        /// Sentences.
        lines: Vec<String>,
    },
    /// Contents of the packet cache.
    Cache(CacheView),
    /// The progress of a sending, whenever it changes.
    Sending(SentView),
    /// An object was delivered, or stored for its receivers: the last line of `send`.
    Sent(SentView),
    /// This node receives objects.
    Receiving {
        /// Its identifier, for `send --to`.
        id: String,
        /// The names that it is attached to.
        names: Vec<String>,
    },
    /// The result of one echo request.
    Echo(EchoView),
    /// The result of a `ping`: its last line.
    Pinged(PingedView),
    /// The result of a `traceroute`: its last line.
    Traced {
        /// The target.
        name: String,
        /// The node that answered for it; `None` without an answer.
        responder: Option<String>,
        /// Neighbours on the way, including the one that answered for the target.
        hops: u32,
    },
    /// An object that was sent to this node has arrived and is verified.
    Received(ReceivedView),
    /// An object that was sent to this node could not be kept, or did not arrive completely.
    NotReceived {
        /// The object's name.
        name: String,
        /// Why.
        reason: String,
    },
    /// No news. Sent periodically, so that a disconnected client is noticed.
    Waiting,
    /// The node was attached to a name, or detached from it.
    Attached {
        /// The name.
        name: String,
        /// Which.
        attached: bool,
    },
    /// Who may look up a name of the node.
    Readers {
        /// The name; `None` is the device itself.
        name: Option<String>,
        /// The devices that may; `None` for all.
        readers: Option<Vec<String>>,
    },
    /// Groups that the node owns: all of them, or the one that was changed.
    Groups {
        /// The groups.
        groups: Vec<GroupView>,
    },
    /// The chunks that the node stores for others.
    Store(StoreView),
    /// Routes of a node.
    Routes {
        /// In the order of their prefixes.
        routes: Vec<RouteView>,
    },
    /// The strategies of a node.
    Strategies {
        /// The choices, in the order of the prefixes.
        strategies: Vec<StrategyView>,
        /// What can be chosen.
        known: Vec<String>,
    },
    /// A face was opened or closed.
    FaceChanged {
        /// Its number, such as `face-3`.
        face: String,
        /// Whether it is open now.
        open: bool,
    },
    /// The result of one check of `doctor`.
    Check {
        /// The object of the check.
        subject: String,
        /// `ok`, `warning` or `problem`.
        state: String,
        /// The finding.
        text: String,
        /// What to do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
    },
    /// How much the node logs.
    Log {
        /// The level of everything, and of single modules: `info,net=debug`.
        levels: String,
        /// The modules that can have a separate level.
        modules: Vec<String>,
    },
    /// A transfer was ended.
    Cancelled {
        /// The transfer.
        transfer: String,
    },
    /// A limit was set.
    Limited {
        /// The transfer; `None` for all together.
        transfer: Option<String>,
        /// The rate; `None` for no limit.
        bits_per_second: Option<u64>,
    },
    /// A config file has no mistakes.
    Config {
        /// The file.
        file: String,
        /// The node's name.
        label: String,
        /// Its architecture.
        family: String,
        /// Its roles.
        roles: Vec<String>,
        /// How many neighbours it names.
        faces: usize,
    },
    /// The public half of a key.
    Key {
        /// The file with the secret half.
        file: String,
        /// The public half, for `get --publisher`.
        public: String,
    },
    /// An invitation.
    Invitation {
        /// The line for `peer` and `--peer`.
        invitation: String,
        /// When it ends, in Unix seconds; `None` for never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<u64>,
    },
    /// An NDN certificate.
    Certificate {
        /// Its name: identity, `KEY`, id of the key, issuer, version.
        name: String,
        /// Whom it names.
        identity: String,
        /// The algorithm of its key.
        algorithm: String,
        /// The name of the key that signed it.
        issuer: Option<String>,
        /// Its first second, `YYYYMMDDThhmmss`, UTC.
        not_before: String,
        /// Its last second.
        not_after: String,
        /// Whether the key chain has its secret key.
        has_key: bool,
    },
    /// A network's authority and the certificates that it has issued.
    Network {
        /// The authority's folder.
        folder: String,
        /// Its public key, for `authority` in configs.
        authority: String,
        /// The number of its list of revocations.
        revocations: u64,
        /// Its certificates, oldest first.
        members: Vec<MemberView>,
    },
    /// A node was admitted to a network.
    Admitted {
        /// Its certificate.
        member: MemberView,
        /// The files with the certificate.
        files: Vec<String>,
    },
    /// Certificates were revoked.
    Revoked {
        /// The list of revocations, to copy to every node.
        file: String,
        /// Its number.
        revocations: u64,
        /// The members revoked by this change.
        members: Vec<MemberView>,
    },
    /// A neighbour came up or went down.
    Neighbour {
        /// The face.
        face: String,
        /// Its node.
        node: String,
        /// Whether it answers.
        up: bool,
    },
    /// A change worth a line.
    Note {
        /// The line.
        text: String,
    },
    /// Something happened at a node that is watched.
    Happened {
        /// When, in seconds since the node started.
        seconds: f64,
        /// The transfer that it is about; `None` if it is about none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transfer: Option<String>,
        /// What.
        what: Box<Notice>,
    },
}

impl Notice {
    /// The JSON object, in one line.
    pub fn to_line(&self) -> String {
        let line = serde_json::to_string(self).expect("strings and numbers can always be written");
        // A terminal shows these lines too.
        printable::escape_json(line)
    }
    /// The notice of a node's event; `None` for those that are too many to report (chunks, dropped packets), and for
    /// those that an operation turns into its own answer.
    pub fn from_event(event: Event) -> Option<Notice> {
        match event {
            Event::Neighbour { face, node, up } => {
                Some(Notice::Neighbour { face: face.to_string(), node: node.to_string(), up })
            }
            Event::Transfer(_, event) => Notice::from_transfer(event),
            Event::Resolver(event) => Notice::from_resolver(event),
            Event::Note(text) => Some(Notice::Note { text }),
            // Event is open to additions; unknown ones have no notice yet. Dropped packets are counted.
            _ => None,
        }
    }

    fn from_transfer(event: TransferEvent) -> Option<Notice> {
        Some(match event {
            TransferEvent::Started { bytes, resumed_bytes } => Notice::Started { bytes, resumed_bytes },
            TransferEvent::SourceAdded { node, label: id, .. } => Notice::Source { id, node: node.to_string() },
            TransferEvent::SourceDistrusted { label: id, reason, .. } => Notice::SourceDistrusted { id, reason },
            TransferEvent::SourceClosed { label: id, reason, .. } => Notice::SourceClosed { id, reason },
            TransferEvent::ForwarderDistrusted { label: id, reason } => Notice::ForwarderDistrusted { id, reason },
            TransferEvent::Advice { text } => Notice::Note { text },
            TransferEvent::Absent { reason } => Notice::Note { text: format!("it has no publisher yet: {reason}") },
            TransferEvent::CacheDistrusted { node, reason } => {
                let node = if node.0 == 0 { "without a name".into() } else { node.to_string() };
                Notice::CacheDistrusted { node, reason }
            }
            TransferEvent::PathAdded { path, source } => {
                Notice::Path { id: path.to_string(), source: source.to_string() }
            }
            TransferEvent::PathState { path, state, reason } => {
                Notice::PathState { id: path.to_string(), state: state.to_string(), reason }
            }
            // Progress notices count chunks; completion and failure are reported with the final account.
            _ => return None,
        })
    }
    fn from_resolver(event: ResolverEvent) -> Option<Notice> {
        Some(match event {
            ResolverEvent::Appeared { name, is_scope, publishers, bytes } => {
                Notice::Entry { name, kind: if is_scope { "scope" } else { "object" }.into(), publishers, bytes }
            }
            ResolverEvent::Listed { name, entries } => Notice::Listed { name, entries },
            ResolverEvent::Unpublished { name } => Notice::Unpublished { name },
            ResolverEvent::Rejected { name, operation, reason } => {
                let message = format!("cannot {operation} '{name}': {reason}");
                Notice::Error { kind: ErrorKind::Rejected, message, hint: None }
            }
            _ => return None,
        })
    }
}
impl From<&ApiError> for Notice {
    fn from(error: &ApiError) -> Self {
        Notice::Error { kind: error.kind, message: error.message.clone(), hint: error.hint.clone() }
    }
}

/// How often [`Notice::Progress`] is sent.
pub const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

//! The messages of the rendezvous function (paper §II-B) between hosts and rendezvous nodes: requests and answers.
//! Messages among rendezvous nodes are in [`records`](super::records).
use alloc::{string::String, vec::Vec};
use core::fmt;

use tributary_content::Name;
use tributary_core::{
    Duration, NodeId,
    wire::codec::{Blob, COUNT_MAX, Choice, List16, Of, Own, Pair, Text, U8, U16, U32, U64},
    wire_table,
};
use tributary_transport::PathMetric;

use super::{LABEL_BYTES_MAX, MANIFEST_BYTES_MAX, PATHS_MAX, Reader, Wire, WireError, Writer, control::node_id};

wire_table! {
    /// A host's request to a rendezvous node; rendezvous nodes also pass it on to the responsible one.
    ///
    /// ```text
    /// request 4 | version 8 | name (length 2, NDN TLV) | operation 1 | its fields
    /// ```
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ClientRequest {
        /// Chosen by the asker, returned in the answer.
        pub request: u32 = U32 => "request",
        /// Orders a host's messages about one publication or subscription; grows with every change and renewal, so that
        /// a late duplicate changes nothing.
        pub version: u64 = VERSION => "version",
        /// The item or scope.
        pub name: Name = NAME => "name",
        /// What to do with it.
        pub operation: Operation = Own => "operation",
    }
}

/// Whether missing scopes are created on the path to a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MissingScopes {
    /// No: refuse with [`Rejection::NoSuchScope`], which is PSI's rule.
    Refuse,
    /// Yes: they exist while they contain anything.
    Create,
}

wire_table! {
    /// An operation on an item or a scope.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Operation("operation") {
        /// Announce an item, or renew its announcement (paper: publish).
        0 => Publish {
            /// Lifetime of the announcement without renewal.
            lease: Duration = LEASE => "lease",
            /// What to do about scopes that do not exist.
            scopes: MissingScopes = SCOPES => "missing scopes",
            /// Bytes of the object, for listings.
            object_bytes: u64 = U64 => "object bytes",
            /// Human-readable name of the publisher.
            label: String = Text(LABEL_BYTES_MAX) => "label",
            /// The signed manifest; the rendezvous function does not look into it.
            manifest: Vec<u8> = Blob(MANIFEST_BYTES_MAX) => "manifest",
        },
        /// Withdraw an item of the asker.
        1 => Unpublish,
        /// Create a scope, or renew it.
        2 => PublishScope {
            /// Lifetime without renewal.
            lease: Duration = LEASE => "lease",
            /// What to do about scopes above it that do not exist.
            scopes: MissingScopes = SCOPES => "missing scopes",
        },
        /// Remove a scope that the asker created and that is empty.
        3 => UnpublishScope,
        /// Ask for an item, or renew the wish (paper: slow-path subscription).
        4 => Subscribe {
            /// Lifetime without renewal.
            lease: Duration = LEASE => "lease",
            /// The asker's number of the transfer.
            transfer: u32 = U32 => "transfer",
            /// Paths wanted per source.
            k: u8 = PATHS_PER_SOURCE => "paths per source",
            /// What makes a path short.
            metric: PathMetric = METRIC => "metric",
        },
        /// End a transfer.
        5 => Unsubscribe {
            /// Its number.
            transfer: u32 = U32 => "transfer",
        },
        /// Subscribe to the entries of a scope, present and future.
        6 => SubscribeScope {
            /// Lifetime without renewal.
            lease: Duration = LEASE => "lease",
            /// The newest revision of the listing that the subscriber has; [`NOTHING_KNOWN`] without one.
            known: u64 = KNOWN => "known revision",
        },
        /// Give that up.
        7 => UnsubscribeScope,
        /// Among rendezvous nodes only: the state of one component of the scope (this request's name).
        8 => SetChild {
            /// How long that is true without renewal.
            lease: Duration = LEASE => "lease",
            /// What to do if the scope does not exist.
            scopes: MissingScopes = SCOPES => "missing scopes",
            /// The component, as NDN TLV.
            component: Vec<u8> = COMPONENT => "name component",
            /// Its present state there.
            child: ChildState = Own => "child state",
        },
    }
}

impl Operation {
    /// The lifetime of its entry without renewal; `None` for a withdrawal.
    pub(crate) fn lease(&self) -> Option<Duration> {
        match self {
            Operation::Publish { lease, .. }
            | Operation::PublishScope { lease, .. }
            | Operation::Subscribe { lease, .. }
            | Operation::SubscribeScope { lease, .. } => Some(*lease),
            Operation::SetChild { lease, child, .. } => (*child != ChildState::Absent).then_some(*lease),
            Operation::Unpublish
            | Operation::UnpublishScope
            | Operation::Unsubscribe { .. }
            | Operation::UnsubscribeScope => None,
        }
    }
}

/// The revision of a listing that no subscriber has seen.
pub const NOTHING_KNOWN: u64 = u64::MAX;
/// Bits of a listing's revision that count changes; the bits above identify the counting node.
pub const TERM_SHIFT: u32 = 24;

wire_table! {
    /// What hangs under a scope at one component.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum ChildState("child state") {
        /// The child was removed.
        0 => Absent,
        /// A scope.
        1 => Scope,
        /// An item.
        2 => Item {
            /// How many publishers offer it.
            publishers: u32 = U32 => "publishers",
            /// Bytes of the object.
            bytes: u64 = U64 => "bytes",
        },
    }
}

wire_table! {
    /// The answer to a request.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Reply {
        /// The request's number.
        pub request: u32 = U32 => "request",
        /// The result.
        pub answer: Answer = Own => "answer",
    }
}

impl Reply {
    /// Set in the request numbers of hosts, and clear in those among rendezvous nodes: a node that is both knows which
    /// of its halves an answer belongs to.
    pub const HOST_BIT: u32 = 1 << 31;
}

wire_table! {
    /// The result of a request.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Answer("answer") {
        /// It is done, and this many rendezvous nodes hold the result.
        0 => Done {
            /// At least one; fewer than configured if fewer are reachable.
            replicas: u8 = U8 => "replicas",
        },
        /// It is refused.
        1 => Rejected(rejection: Rejection = Own => "rejection"),
        /// Something newer is already known; the requester may repeat the request with a version beyond `current`.
        2 => Stale {
            /// The known version.
            current: u64 = VERSION => "current version",
        },
        /// The node is still taking over its records; ask another one.
        3 => NotReady,
    }
}

/// Declares the rejections but for limits, in the order of their codes, with their texts for people.
macro_rules! rejections {
    ($($(#[$doc:meta])* $plain:ident $text:literal)*) => {
        /// Why a request is refused. Every one of these reaches the application.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub enum Rejection {
            $($(#[$doc])* $plain,)*
            /// A limit is reached: which, and its value.
            LimitReached(Limit, u32),
        }
        impl Rejection {
            const PLAIN: &[Rejection] = &[$(Rejection::$plain),*];
        }
        impl fmt::Display for Rejection {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Rejection::$plain => f.write_str($text),)*
                    Rejection::LimitReached(limit, max) => {
                        write!(f, "limit reached: {limit} ({} = {max})", limit.name())
                    }
                }
            }
        }
    };
}
rejections! {
    /// The scope that the name hangs under, or the scope itself, does not exist.
    NoSuchScope "no such scope"
    /// The asker publishes this already, or another node created this scope.
    AlreadyPublished "already published"
    /// The asker does not publish this.
    NotPublished "not published by this node"
    /// The asker did not subscribe to this.
    NotSubscribed "not subscribed"
    /// The scope has items or scopes in it.
    ScopeNotEmpty "the scope is not empty"
    /// The name is a scope, but an item was requested.
    IsScope "the name is a scope, not an item"
    /// The name is an item, but a scope was requested.
    IsItem "the name is an item, not a scope"
    /// Another name has the same id.
    IdTaken "another name has the same id"
    /// None of the responsible rendezvous nodes answers.
    NoResolverReachable "no resolver reachable"
    /// The request makes no sense, such as publishing the root.
    Malformed "malformed request"
    /// The asker may not do this: it is for rendezvous nodes, or for the node that created the scope.
    NotAuthorised "not authorised"
    /// The responsible rendezvous nodes answer, but did not get to it in time.
    Overloaded "the resolvers are overloaded"
    /// The rendezvous nodes keep records in an outside store, which cannot be used now.
    StoreUnavailable
        "the resolvers cannot use their engine: the etcd cluster under them does not answer, or has lost its majority"
    /// The external store is full.
    StoreFull
        "the resolvers' engine is full: the etcd cluster under them has used up its quota (`--quota-backend-bytes`)"
}
impl core::error::Error for Rejection {}

/// Declares the limits in the order of their codes, with the names of their settings and their texts for people.
macro_rules! limits {
    ($($limit:ident $name:literal $text:literal)*) => {
        /// A limit of a rendezvous node, of the asker, or of a topology manager.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Limit {
            $(#[doc = concat!("`", $name, "`: ", $text, ".")] $limit,)*
        }
        impl Limit {
            /// All of them, in the order of their codes.
            pub(crate) const ALL: [Limit; 12] = [$(Limit::$limit),*];
            /// The name of the setting.
            pub fn name(self) -> &'static str {
                match self { $(Limit::$limit => $name),* }
            }
            /// The counter of refusals for it.
            pub(crate) fn counter(self) -> &'static str {
                match self { $(Limit::$limit => concat!("refusals for ", $name)),* }
            }
        }
        impl fmt::Display for Limit {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Limit::$limit => $text),* })
            }
        }
    };
}
limits! {
    Records "records_max" "records of the resolver"
    Publishers "publishers_max" "publishers of the item"
    Subscriptions "subscriptions_max" "subscriptions to the item"
    Children "children_max" "entries of the scope"
    ScopeSubscribers "scope_subscribers_max" "subscribers of the scope"
    ManifestBytes "manifest_bytes_max" "bytes of the manifest"
    Requests "requests_max" "requests that the resolver works on"
    Wishes "wishes_max" "publications and subscriptions of the node"
    Transfers "transfers_max" "transfers in the domain of the topology manager"
    Nodes "nodes_max" "nodes in the domain of the topology manager"
    Links "links_max" "links in the domain of the topology manager"
    Clients "clients_max" "hosts that the resolver serves"
}

impl Limit {
    /// The rejection for this limit, whose value is `max`.
    pub(crate) fn reached(self, max: usize) -> Rejection {
        Rejection::LimitReached(self, u32::try_from(max).unwrap_or(u32::MAX))
    }
}

impl Rejection {
    /// Whether the same request may be accepted later: the request itself is valid.
    pub(crate) fn is_passing(self) -> bool {
        matches!(
            self,
            Rejection::NoResolverReachable
                | Rejection::Overloaded
                | Rejection::StoreUnavailable
                | Rejection::StoreFull
                | Rejection::LimitReached(Limit::Requests, _)
        )
    }
    /// Whether the only obstacle is the node's load: fewer requests in progress help.
    pub(crate) fn is_busy(self) -> bool {
        matches!(self, Rejection::LimitReached(Limit::Requests, _) | Rejection::Overloaded)
    }
}
wire_table! {
    /// A notice to a scope's subscriber.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ScopeNotice {
        /// The scope.
        pub scope: Name = NAME => "name",
        /// Orders all notices of one scope: a later one overrides an earlier one.
        pub revision: u64 = VERSION => "revision",
        /// Whether this is the whole listing, or changes.
        pub kind: NoticeKind = NOTICE_KIND => "notice kind",
        /// Components (as NDN TLV) and their states.
        pub children: Vec<(Vec<u8>, ChildState)> =
            List16(COUNT_MAX, "child", Pair("name component", COMPONENT, "child state", Own)) => "children",
    }
}

wire_table! {
    /// The kinds of [`ScopeNotice`].
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum NoticeKind("notice kind") {
        /// The complete listing, cut into parts; names in no part are not in the scope.
        0 => Listing {
            /// Which part.
            part: u16 = U16 => "part",
            /// The number of parts; at least one.
            parts: u16 = U16 => "parts",
        },
        /// Changes only.
        1 => Change,
    }
}

/// The highest version or revision: the upper half of the numbers is refused, so that increments never overflow.
pub const VERSION_MAX: u64 = u64::MAX >> 1;
/// Maximum lead of a version over the known one. A host's versions increase by one with each of its requests; one that
/// is further ahead is answered with the known one, and the host continues from there. So a single forged message
/// cannot exhaust the numbers of a host.
pub const VERSION_STEP_MAX: u64 = 1 << 40;
/// The highest version of an unknown entry: it leaves as much space above as below.
pub const VERSION_FIRST_MAX: u64 = 1 << 62;
/// A version or revision.
pub(super) const VERSION: Of<u64> = Of(version, |value, out| out.put_u64(*value));
/// The revision that a subscriber has seen. A rendezvous node that lost everything continues beyond it, so far less
/// than the limit of [`version`] is legal.
pub(super) const KNOWN: Of<u64> = Of(
    |reader, field| match reader.u64(field)? {
        NOTHING_KNOWN => Ok(NOTHING_KNOWN),
        found if found >> 62 == 0 => Ok(found),
        found => Err(WireError::Value { field, found }),
    },
    |value, out| out.put_u64(*value),
);
pub(super) const LEASE: Of<Duration> = Of(
    |reader, field| Ok(Duration::from_millis(reader.u32(field)?.into())),
    |lease, out| out.put_u32(u32::try_from(lease.as_millis()).unwrap_or(u32::MAX)),
);
pub(super) const NAME: Of<Name> =
    Of(|reader, field| name_of(reader.blob(field, Name::BYTES_MAX)?, field), |name, out| out.put_blob(name.as_tlv()));
/// A single name component as NDN TLV.
pub(super) const COMPONENT: Of<Vec<u8>> = Of(
    |reader, field| {
        let tlv = reader.blob(field, Name::BYTES_MAX)?;
        match name_of(tlv, field)?.len() {
            1 => Ok(tlv.into()),
            found => Err(WireError::Value { field, found: found as u64 }),
        }
    },
    |component, out| out.put_blob(component),
);
pub(super) const NODE: Of<NodeId> = Of(node_id, |node, out| out.put_u64(node.0));
pub(super) const METRIC: Of<PathMetric> =
    Of(|reader, field| reader.choice(field, PathMetric::of_number), |metric, out| out.put_u8(metric.number()));
pub(super) const PATHS_PER_SOURCE: Of<u8> = Of(
    |reader, field| match reader.u8(field)? {
        k if k > 0 && usize::from(k) <= PATHS_MAX => Ok(k),
        found => Err(WireError::Value { field, found: found.into() }),
    },
    |k, out| out.put_u8(*k),
);
const SCOPES: Choice<MissingScopes> = Choice(&[MissingScopes::Refuse, MissingScopes::Create]);

pub(super) fn version(reader: &mut Reader<'_>, field: &'static str) -> Result<u64, WireError> {
    match reader.u64(field)? {
        found if found <= VERSION_MAX => Ok(found),
        found => Err(WireError::Value { field, found }),
    }
}
fn name_of(tlv: &[u8], field: &'static str) -> Result<Name, WireError> {
    let found = tlv.first().copied().unwrap_or(0).into();
    Name::from_tlv(bytes::Bytes::copy_from_slice(tlv)).map_err(|_| WireError::Value { field, found })
}

impl Rejection {
    /// From here on codes are limits.
    const LIMIT_CODE_FIRST: u8 = 0x80;

    /// All possible rejections, limits with the value 0.
    pub fn all() -> impl Iterator<Item = Rejection> {
        let limits = Limit::ALL.into_iter().map(|limit| Rejection::LimitReached(limit, 0));
        Rejection::PLAIN.iter().copied().chain(limits)
    }
    /// Its number on the wire. The value of a limit follows it.
    pub fn code(self) -> u8 {
        let position =
            |at: Option<usize>| at.and_then(|at| u8::try_from(at).ok()).expect("every rejection is in the table");
        match self {
            Rejection::LimitReached(limit, _) => {
                Rejection::LIMIT_CODE_FIRST + position(Limit::ALL.iter().position(|l| *l == limit))
            }
            other => 1 + position(Rejection::PLAIN.iter().position(|r| *r == other)),
        }
    }
}
impl Wire for Rejection {
    fn read(reader: &mut Reader<'_>) -> Result<Rejection, WireError> {
        let found = reader.u8("rejection")?;
        match Rejection::all().find(|rejection| rejection.code() == found) {
            Some(Rejection::LimitReached(limit, _)) => Ok(Rejection::LimitReached(limit, reader.u32("limit")?)),
            Some(plain) => Ok(plain),
            None => Err(WireError::Value { field: "rejection", found: found.into() }),
        }
    }
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(self.code());
        if let Rejection::LimitReached(_, max) = self {
            out.put_u32(*max);
        }
    }
}

wire_table! {
    /// A topology manager refuses something to a node: to serve one of its transfers, or to take the node into the
    /// domain.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Refused {
        /// The node's number of the transfer; zero if it is about the node itself.
        pub transfer: u32 = U32 => "transfer",
        /// Why.
        pub rejection: Rejection = Own => "rejection",
    }
}

const NOTICE_KIND: Of<NoticeKind> = Of(
    |reader, _| match NoticeKind::read(reader)? {
        NoticeKind::Listing { part, parts } if part >= parts => {
            Err(WireError::Value { field: "part", found: part.into() })
        }
        kind => Ok(kind),
    },
    NoticeKind::encode,
);

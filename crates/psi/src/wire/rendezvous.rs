//! The messages of the rendezvous function (paper §II-B) between hosts and rendezvous nodes: requests and answers.
//! Messages among rendezvous nodes are in [`records`](super::records).
use alloc::{string::String, vec::Vec};
use core::fmt;

use tributary_content::Name;
use tributary_core::Duration;
use tributary_transport::PathMetric;

use super::{Fields, LABEL_BYTES_MAX, MANIFEST_BYTES_MAX, PATHS_MAX, Reader, WireError, Writer};

/// A host's request to a rendezvous node; rendezvous nodes also pass it on to the responsible one.
///
/// ```text
/// request 4 | version 8 | name (length 2, NDN TLV) | operation 1 | its fields
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientRequest {
    /// Chosen by the asker, returned in the answer.
    pub request: u32,
    /// Orders a host's messages about one publication or subscription; grows with every change and renewal, so that a
    /// late duplicate changes nothing.
    pub version: u64,
    /// The item or scope.
    pub name: Name,
    /// What to do with it.
    pub operation: Operation,
}

/// Whether scopes that do not exist are created on the way to a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MissingScopes {
    /// No: refuse with [`Rejection::NoSuchScope`], which is PSI's rule.
    Refuse,
    /// Yes: they exist as long as something hangs under them.
    Create,
}

/// An operation on an item or a scope.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Announce an item, or renew its announcement (paper: publish).
    Publish {
        /// Human-readable name of the publisher.
        label: String,
        /// The signed manifest; the rendezvous function does not look into it.
        manifest: Vec<u8>,
        /// Bytes of the object, for listings.
        object_bytes: u64,
        /// Lifetime of the announcement without renewal.
        lease: Duration,
        /// What to do about scopes that do not exist.
        scopes: MissingScopes,
    },
    /// Withdraw an item of the asker.
    Unpublish,
    /// Create a scope, or renew it.
    PublishScope {
        /// Lifetime without renewal.
        lease: Duration,
        /// What to do about scopes above it that do not exist.
        scopes: MissingScopes,
    },
    /// Remove a scope that the asker created and that is empty.
    UnpublishScope,
    /// Ask for an item, or renew the wish (paper: slow-path subscription).
    Subscribe {
        /// The asker's number of the transfer.
        transfer: u32,
        /// Paths wanted per source.
        k: u8,
        /// What makes a path short.
        metric: PathMetric,
        /// Lifetime without renewal.
        lease: Duration,
    },
    /// End a transfer.
    Unsubscribe {
        /// Its number.
        transfer: u32,
    },
    /// Subscribe to the entries of a scope, present and future.
    SubscribeScope {
        /// The newest revision of the listing that the subscriber has; [`NOTHING_KNOWN`] without one.
        known: u64,
        /// Lifetime without renewal.
        lease: Duration,
    },
    /// Give that up.
    UnsubscribeScope,
    /// Among rendezvous nodes only: the state of one component of the scope (this request's name).
    SetChild {
        /// The component, as NDN TLV.
        component: Vec<u8>,
        /// What hangs there now.
        child: ChildState,
        /// How long that is true without renewal.
        lease: Duration,
        /// What to do if the scope does not exist.
        scopes: MissingScopes,
    },
}

/// The revision of a listing that no subscriber has seen.
pub const NOTHING_KNOWN: u64 = u64::MAX;
/// Bits of a listing's revision that count changes; the bits above identify the counting node.
pub const TERM_SHIFT: u32 = 24;

/// What hangs under a scope at one component.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChildState {
    /// The child was removed.
    Absent,
    /// A scope.
    Scope,
    /// An item.
    Item {
        /// How many publishers offer it.
        publishers: u32,
        /// Bytes of the object.
        bytes: u64,
    },
}

/// The answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The request's number.
    pub request: u32,
    /// The result.
    pub answer: Answer,
}

impl Reply {
    /// Numbers of hosts' requests have this bit, those among rendezvous nodes do not: a node that is both knows
    /// which of its halves an answer is for.
    pub const HOST_BIT: u32 = 1 << 31;

    /// Whether this answers a request of a host, else one of a rendezvous node.
    pub fn is_for_host(&self) -> bool {
        self.request & Reply::HOST_BIT != 0
    }
}

/// The result of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is done, and this many rendezvous nodes hold the result.
    Done {
        /// At least one; fewer than configured if fewer are reachable.
        replicas: u8,
    },
    /// It is refused.
    Rejected(Rejection),
    /// Something newer is already known; the asker may ask again with a version beyond `current`.
    Stale {
        /// The version that is known.
        current: u64,
    },
    /// The node is still taking over its records; ask another one.
    NotReady,
}

/// Why a request is refused. Every one of these reaches the application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Rejection {
    /// The scope that the name hangs under, or the scope itself, does not exist.
    NoSuchScope,
    /// The asker publishes this already, or another node created this scope.
    AlreadyPublished,
    /// The asker does not publish this.
    NotPublished,
    /// The asker did not subscribe to this.
    NotSubscribed,
    /// The scope has items or scopes in it.
    ScopeNotEmpty,
    /// The name is a scope, but an item was requested.
    IsScope,
    /// The name is an item, but a scope was requested.
    IsItem,
    /// Another name has the same id.
    IdTaken,
    /// A limit is reached: which, and its value.
    LimitReached(Limit, u32),
    /// None of the responsible rendezvous nodes answers.
    NoResolverReachable,
    /// The responsible rendezvous nodes answer, but did not get to it in time.
    Overloaded,
    /// The request makes no sense, such as publishing the root.
    Malformed,
    /// The asker may not do this: it is for rendezvous nodes, or for the node that created the scope.
    NotAuthorised,
    /// The rendezvous nodes keep records in an outside store, which cannot be used now.
    StoreUnavailable,
    /// The external store is full.
    StoreFull,
}

/// A limit of a rendezvous node, of the asker, or of a topology manager.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Limit {
    /// Records in all.
    Records,
    /// Publishers of one item.
    Publishers,
    /// Subscriptions to one item.
    Subscriptions,
    /// Items and scopes in one scope.
    Children,
    /// Subscribers of one scope.
    ScopeSubscribers,
    /// Bytes of a manifest.
    ManifestBytes,
    /// Requests being worked on.
    Requests,
    /// Publications and subscriptions of one host.
    Wishes,
    /// Transfers of the domain.
    Transfers,
    /// Nodes of the domain.
    Nodes,
    /// Directed links of the domain.
    Links,
    /// Hosts that a rendezvous node serves.
    Clients,
}

impl Limit {
    /// All of them, in the order of their codes.
    pub(crate) const ALL: [Limit; 12] = [
        Limit::Records,
        Limit::Publishers,
        Limit::Subscriptions,
        Limit::Children,
        Limit::ScopeSubscribers,
        Limit::ManifestBytes,
        Limit::Requests,
        Limit::Wishes,
        Limit::Transfers,
        Limit::Nodes,
        Limit::Links,
        Limit::Clients,
    ];
    /// The name of the setting.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Records => "records_max",
            Limit::Publishers => "publishers_max",
            Limit::Subscriptions => "subscriptions_max",
            Limit::Children => "children_max",
            Limit::ScopeSubscribers => "scope_subscribers_max",
            Limit::ManifestBytes => "manifest_bytes_max",
            Limit::Requests => "requests_max",
            Limit::Wishes => "wishes_max",
            Limit::Transfers => "transfers_max",
            Limit::Nodes => "nodes_max",
            Limit::Links => "links_max",
            Limit::Clients => "clients_max",
        }
    }
    /// The counter of refusals for it.
    pub(crate) fn counter(self) -> &'static str {
        match self {
            Limit::Records => "refusals for records_max",
            Limit::Publishers => "refusals for publishers_max",
            Limit::Subscriptions => "refusals for subscriptions_max",
            Limit::Children => "refusals for children_max",
            Limit::ScopeSubscribers => "refusals for scope_subscribers_max",
            Limit::ManifestBytes => "refusals for manifest_bytes_max",
            Limit::Requests => "refusals for requests_max",
            Limit::Wishes => "refusals for wishes_max",
            Limit::Transfers => "refusals for transfers_max",
            Limit::Nodes => "refusals for nodes_max",
            Limit::Links => "refusals for links_max",
            Limit::Clients => "refusals for clients_max",
        }
    }
    /// The rejection for this limit, whose value is `max`.
    pub(crate) fn reached(self, max: usize) -> Rejection {
        Rejection::LimitReached(self, u32::try_from(max).unwrap_or(u32::MAX))
    }
}

impl Rejection {
    /// Whether the same request may be taken later: nothing is wrong with it.
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
    /// Whether the node has too much to do now, and nothing else is in the way: fewer requests in progress help.
    pub(crate) fn is_busy(self) -> bool {
        matches!(self, Rejection::LimitReached(Limit::Requests, _) | Rejection::Overloaded)
    }
}
impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rejection::NoSuchScope => "no such scope",
            Rejection::AlreadyPublished => "already published",
            Rejection::NotPublished => "not published by this node",
            Rejection::NotSubscribed => "not subscribed",
            Rejection::ScopeNotEmpty => "the scope is not empty",
            Rejection::IsScope => "the name is a scope, not an item",
            Rejection::IsItem => "the name is an item, not a scope",
            Rejection::IdTaken => "another name has the same id",
            Rejection::LimitReached(limit, max) => {
                return write!(f, "limit reached: {limit} ({} = {max})", limit.name());
            }
            Rejection::NoResolverReachable => "no resolver reachable",
            Rejection::Overloaded => "the resolvers are overloaded",
            Rejection::Malformed => "malformed request",
            Rejection::NotAuthorised => "not authorised",
            Rejection::StoreUnavailable => {
                "the resolvers cannot use their engine: the etcd cluster under them does not answer, or has lost its majority"
            }
            Rejection::StoreFull => {
                "the resolvers' engine is full: the etcd cluster under them has used up its quota (`--quota-backend-bytes`)"
            }
        })
    }
}
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::Records => "records of the resolver",
            Limit::Publishers => "publishers of the item",
            Limit::Subscriptions => "subscriptions to the item",
            Limit::Children => "entries of the scope",
            Limit::ScopeSubscribers => "subscribers of the scope",
            Limit::ManifestBytes => "bytes of the manifest",
            Limit::Requests => "requests that the resolver works on",
            Limit::Wishes => "publications and subscriptions of the node",
            Limit::Transfers => "transfers in the domain of the topology manager",
            Limit::Nodes => "nodes in the domain of the topology manager",
            Limit::Links => "links in the domain of the topology manager",
            Limit::Clients => "hosts that the resolver serves",
        })
    }
}
impl core::error::Error for Rejection {}

/// A notice to a scope's subscriber.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScopeNotice {
    /// The scope.
    pub scope: Name,
    /// Orders all notices of one scope: a later one overrides an earlier one.
    pub revision: u64,
    /// Whether this is the whole listing, or changes.
    pub kind: NoticeKind,
    /// Components (as NDN TLV) and their states.
    pub children: Vec<(Vec<u8>, ChildState)>,
}

/// The kinds of [`ScopeNotice`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoticeKind {
    /// The complete listing, cut into parts; names in no part are not in the scope.
    Listing {
        /// Which part.
        part: u16,
        /// How many there are; at least one.
        parts: u16,
    },
    /// Changes only.
    Change,
}

/// The highest version or revision: the upper half of the numbers is refused, so that counting on never overflows.
pub const VERSION_MAX: u64 = u64::MAX >> 1;
/// How far a version may be beyond the known one. A host's versions grow by one with each of its requests; one that is
/// further ahead is answered with the known one, and the host continues from there. So a single forged message cannot
/// bring a version to the end of the numbers, beyond which its host could not go.
pub const VERSION_STEP_MAX: u64 = 1 << 40;
/// The highest version of an unknown entry: it leaves as much room above as below.
pub const VERSION_FIRST_MAX: u64 = 1 << 62;
/// A version or revision.
pub(super) fn version(reader: &mut Reader<'_>, field: &'static str) -> Result<u64, WireError> {
    match reader.u64(field)? {
        found if found <= VERSION_MAX => Ok(found),
        found => Err(WireError::Value { field, found }),
    }
}
/// The revision that a subscriber has seen. A rendezvous node that lost everything continues beyond it, so far less
/// than the limit of [`version`] is legal.
pub(super) fn known_revision(reader: &mut Reader<'_>) -> Result<u64, WireError> {
    match reader.u64("known revision")? {
        NOTHING_KNOWN => Ok(NOTHING_KNOWN),
        found if found >> 62 == 0 => Ok(found),
        found => Err(WireError::Value { field: "known revision", found }),
    }
}
pub(super) fn put_lease(lease: Duration, out: &mut Vec<u8>) {
    out.put_u32(u32::try_from(lease.as_millis()).unwrap_or(u32::MAX));
}
pub(super) fn lease(reader: &mut Reader<'_>) -> Result<Duration, WireError> {
    Ok(Duration::from_millis(reader.u32("lease")?.into()))
}
pub(super) fn put_name(name: &Name, out: &mut Vec<u8>) {
    out.put_blob(name.as_tlv());
}
pub(super) fn name(reader: &mut Reader<'_>) -> Result<Name, WireError> {
    let tlv = reader.blob("name", Name::BYTES_MAX)?;
    Name::from_tlv(bytes::Bytes::copy_from_slice(tlv))
        .map_err(|_| WireError::Value { field: "name", found: tlv.first().copied().unwrap_or(0).into() })
}
/// A single name component as NDN TLV.
pub(super) fn component(reader: &mut Reader<'_>) -> Result<Vec<u8>, WireError> {
    let tlv = reader.blob("name component", Name::BYTES_MAX)?;
    match Name::from_tlv(bytes::Bytes::copy_from_slice(tlv)) {
        Ok(name) if name.len() == 1 => Ok(tlv.into()),
        Ok(name) => Err(WireError::Value { field: "name component", found: name.len() as u64 }),
        Err(_) => Err(WireError::Value { field: "name component", found: tlv.first().copied().unwrap_or(0).into() }),
    }
}
pub(super) fn choice<T: Copy>(reader: &mut Reader<'_>, field: &'static str, values: &[T]) -> Result<T, WireError> {
    reader.choice(field, |found| values.get(usize::from(found)).copied())
}
pub(super) fn paths_per_source(reader: &mut Reader<'_>) -> Result<u8, WireError> {
    match reader.u8("paths per source")? {
        k if k > 0 && usize::from(k) <= PATHS_MAX => Ok(k),
        found => Err(WireError::Value { field: "paths per source", found: found.into() }),
    }
}

impl MissingScopes {
    fn encode(self, out: &mut Vec<u8>) {
        out.put_u8(u8::from(self == MissingScopes::Create));
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        choice(reader, "missing scopes", &[MissingScopes::Refuse, MissingScopes::Create])
    }
}

impl ChildState {
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        match self {
            ChildState::Absent => out.put_u8(0),
            ChildState::Scope => out.put_u8(1),
            ChildState::Item { publishers, bytes } => {
                out.put_u8(2);
                out.put_u32(publishers);
                out.put_u64(bytes);
            }
        }
    }
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(match reader.u8("child state")? {
            0 => ChildState::Absent,
            1 => ChildState::Scope,
            2 => ChildState::Item { publishers: reader.u32("publishers")?, bytes: reader.u64("bytes")? },
            found => return Err(WireError::Value { field: "child state", found: found.into() }),
        })
    }
}

impl ClientRequest {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let request = reader.u32("request")?;
        let version = version(reader, "version")?;
        let name = name(reader)?;
        let operation = match reader.u8("operation")? {
            0 => Operation::Publish {
                lease: lease(reader)?,
                scopes: MissingScopes::decode(reader)?,
                object_bytes: reader.u64("object bytes")?,
                label: reader.text("label", LABEL_BYTES_MAX)?,
                manifest: reader.blob("manifest", MANIFEST_BYTES_MAX)?.into(),
            },
            1 => Operation::Unpublish,
            2 => Operation::PublishScope { lease: lease(reader)?, scopes: MissingScopes::decode(reader)? },
            3 => Operation::UnpublishScope,
            4 => Operation::Subscribe {
                lease: lease(reader)?,
                transfer: reader.u32("transfer")?,
                k: paths_per_source(reader)?,
                metric: reader.metric()?,
            },
            5 => Operation::Unsubscribe { transfer: reader.u32("transfer")? },
            6 => Operation::SubscribeScope { lease: lease(reader)?, known: known_revision(reader)? },
            7 => Operation::UnsubscribeScope,
            8 => Operation::SetChild {
                lease: lease(reader)?,
                scopes: MissingScopes::decode(reader)?,
                component: component(reader)?,
                child: ChildState::decode(reader)?,
            },
            found => return Err(WireError::Value { field: "operation", found: found.into() }),
        };
        Ok(ClientRequest { request, version, name, operation })
    }
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.request);
        out.put_u64(self.version);
        put_name(&self.name, out);
        match &self.operation {
            Operation::Publish { label, manifest, object_bytes, lease, scopes } => {
                out.put_u8(0);
                put_lease(*lease, out);
                scopes.encode(out);
                out.put_u64(*object_bytes);
                out.put_blob(label.as_bytes());
                out.put_blob(manifest);
            }
            Operation::Unpublish => out.put_u8(1),
            Operation::PublishScope { lease, scopes } => {
                out.put_u8(2);
                put_lease(*lease, out);
                scopes.encode(out);
            }
            Operation::UnpublishScope => out.put_u8(3),
            Operation::Subscribe { transfer, k, metric, lease } => {
                out.put_u8(4);
                put_lease(*lease, out);
                out.put_u32(*transfer);
                out.put_u8(*k);
                out.put_u8(metric.number());
            }
            Operation::Unsubscribe { transfer } => {
                out.put_u8(5);
                out.put_u32(*transfer);
            }
            Operation::SubscribeScope { known, lease } => {
                out.put_u8(6);
                put_lease(*lease, out);
                out.put_u64(*known);
            }
            Operation::UnsubscribeScope => out.put_u8(7),
            Operation::SetChild { component, child, lease, scopes } => {
                out.put_u8(8);
                put_lease(*lease, out);
                scopes.encode(out);
                out.put_blob(component);
                child.encode(out);
            }
        }
    }
}

impl Rejection {
    const PLAIN: [Rejection; 14] = [
        Rejection::NoSuchScope,
        Rejection::AlreadyPublished,
        Rejection::NotPublished,
        Rejection::NotSubscribed,
        Rejection::ScopeNotEmpty,
        Rejection::IsScope,
        Rejection::IsItem,
        Rejection::IdTaken,
        Rejection::NoResolverReachable,
        Rejection::Malformed,
        Rejection::NotAuthorised,
        Rejection::Overloaded,
        Rejection::StoreUnavailable,
        Rejection::StoreFull,
    ];
    /// From here on codes are limits.
    const LIMIT_CODE_FIRST: u8 = 0x80;

    /// All rejections that there are, limits with the value 0.
    pub fn all() -> impl Iterator<Item = Rejection> {
        let limits = Limit::ALL.into_iter().map(|limit| Rejection::LimitReached(limit, 0));
        Rejection::PLAIN.into_iter().chain(limits)
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
    fn decode(reader: &mut Reader<'_>) -> Result<Rejection, WireError> {
        let found = reader.u8("rejection")?;
        match Rejection::all().find(|rejection| rejection.code() == found) {
            Some(Rejection::LimitReached(limit, _)) => Ok(Rejection::LimitReached(limit, reader.u32("limit")?)),
            Some(plain) => Ok(plain),
            None => Err(WireError::Value { field: "rejection", found: found.into() }),
        }
    }
    fn encode(self, out: &mut Vec<u8>) {
        out.put_u8(self.code());
        if let Rejection::LimitReached(_, max) = self {
            out.put_u32(max);
        }
    }
}

/// A topology manager refuses something to a node: to serve one of its transfers, or to take the node into the domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The node's number of the transfer; zero if it is about the node itself.
    pub transfer: u32,
    /// Why.
    pub rejection: Rejection,
}

impl Refused {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Refused { transfer: reader.u32("transfer")?, rejection: Rejection::decode(reader)? })
    }
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.transfer);
        self.rejection.encode(out);
    }
}

impl Reply {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let request = reader.u32("request")?;
        let answer = match reader.u8("answer")? {
            0 => Answer::Done { replicas: reader.u8("replicas")? },
            1 => Answer::Rejected(Rejection::decode(reader)?),
            2 => Answer::Stale { current: version(reader, "current version")? },
            3 => Answer::NotReady,
            found => return Err(WireError::Value { field: "answer", found: found.into() }),
        };
        Ok(Reply { request, answer })
    }
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.request);
        match self.answer {
            Answer::Done { replicas } => out.extend_from_slice(&[0, replicas]),
            Answer::Rejected(rejection) => {
                out.put_u8(1);
                rejection.encode(out);
            }
            Answer::Stale { current } => {
                out.put_u8(2);
                out.put_u64(current);
            }
            Answer::NotReady => out.put_u8(3),
        }
    }
}

impl ScopeNotice {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let scope = name(reader)?;
        let revision = version(reader, "revision")?;
        let kind = match reader.u8("notice kind")? {
            0 => {
                let (part, parts) = (reader.u16("part")?, reader.u16("parts")?);
                if part >= parts {
                    return Err(WireError::Value { field: "part", found: part.into() });
                }
                NoticeKind::Listing { part, parts }
            }
            1 => NoticeKind::Change,
            found => return Err(WireError::Value { field: "notice kind", found: found.into() }),
        };
        let count = reader.u16("children")?;
        let children = (0..count)
            .map(|_| Ok((component(reader)?, ChildState::decode(reader)?)))
            .collect::<Result<_, WireError>>()?;
        Ok(ScopeNotice { scope, revision, kind, children })
    }
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_name(&self.scope, out);
        out.put_u64(self.revision);
        match self.kind {
            NoticeKind::Listing { part, parts } => {
                out.put_u8(0);
                out.put_u16(part);
                out.put_u16(parts);
            }
            NoticeKind::Change => out.put_u8(1),
        }
        out.put_count16(self.children.len());
        for (component, child) in &self.children {
            out.put_blob(component);
            child.encode(out);
        }
    }
}

//! Messages among rendezvous nodes (paper §II-B): requests on their way to the responsible one, and its records.
use alloc::{string::String, vec::Vec};

use tributary_content::Name;
use tributary_core::{Duration, NodeId};
use tributary_transport::PathMetric;

use super::{
    Fields, LABEL_BYTES_MAX, MANIFEST_BYTES_MAX, Reader, WireError, Writer,
    control::node_id,
    rendezvous::{
        ChildState, ClientRequest, ScopeNotice, choice, component, known_revision, lease, name, paths_per_source,
        put_lease, put_name, version,
    },
};

/// A request on its way from the rendezvous node that received it to the responsible one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forward {
    /// The number that the forwarding node waits for.
    pub request: u32,
    /// On whose behalf.
    pub client: NodeId,
    /// The request.
    pub inner: ClientRequest,
}

/// State for another responsible node to keep; answered with a [`Reply`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replicate {
    /// The number that the sender waits for.
    pub request: u32,
    /// What to merge into the records held.
    pub records: Vec<RecordUpdate>,
}

/// Some or all entries of one record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordUpdate {
    /// The item or scope.
    pub name: Name,
    /// The newest revision of its listing, if it is a scope.
    pub revision: u64,
    /// The newest version of its registration with the parent scope.
    pub registration: u64,
    /// The entries.
    pub entries: Vec<Entry>,
}

/// One entry of a record: the newest version wins, in any order of arrival.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The owner and the kind.
    pub key: EntryKey,
    /// Its version.
    pub version: u64,
    /// Its lifetime from now on.
    pub lease: Duration,
    /// Its value; `None` marks a withdrawn entry.
    pub value: Option<EntryValue>,
}

/// The owner and kind of an entry of a record.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EntryKey {
    /// A node publishes the item.
    Publisher(NodeId),
    /// A node created the scope.
    ScopePublisher(NodeId),
    /// A transfer of a node wants the item.
    Subscription(NodeId, u32),
    /// A node wants the listing.
    ScopeSubscriber(NodeId),
    /// Something hangs under the scope at this component (NDN TLV).
    Child(Vec<u8>),
}

/// The value of an entry; its variants correspond to [`EntryKey`]'s.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EntryValue {
    /// About the publisher of an item.
    Publisher {
        /// Its human-readable name.
        label: String,
        /// Its manifest.
        manifest: Vec<u8>,
        /// Bytes of the object.
        object_bytes: u64,
    },
    /// Only that it exists.
    ScopePublisher,
    /// About a subscription.
    Subscription {
        /// Paths wanted per source.
        k: u8,
        /// What makes a path short.
        metric: PathMetric,
    },
    /// About the subscriber of a scope.
    ScopeSubscriber {
        /// The rendezvous node that it talks to.
        home: NodeId,
        /// The newest revision of the listing that it has.
        known: u64,
    },
    /// What hangs in a scope; never [`ChildState::Absent`].
    Child(ChildState),
}

/// A fingerprint of records that both nodes should hold, to find differences.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Digest {
    /// What the receiver is to do.
    pub kind: DigestKind,
    /// Key and fingerprint of each.
    pub records: Vec<(crate::ids::RecordKey, u64)>,
}

/// The kinds of [`Digest`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DigestKind {
    /// Compare: send your records that differ, and answer with their digest.
    Compare,
    /// These differ: send yours.
    Differs,
    /// The sender will forget these records: confirm those that you hold, and request those whose entries you need.
    Leaving,
    /// The sender holds these.
    Held,
}

impl DigestKind {
    const ALL: [DigestKind; 4] = [DigestKind::Compare, DigestKind::Differs, DigestKind::Leaving, DigestKind::Held];
}

/// A notice for a subscriber, on its way to the rendezvous node that the subscriber talks to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relay {
    /// The client that gets the answer.
    pub client: NodeId,
    /// The notice.
    pub notice: ScopeNotice,
}

/// How many records a [`Digest`] covers at most.
pub const DIGEST_RECORDS_MAX: usize = 1_024;

impl Forward {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Forward {
            request: reader.u32("request")?,
            client: node_id(reader, "client")?,
            inner: ClientRequest::decode(reader)?,
        })
    }
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.request);
        out.put_u64(self.client.0);
        self.inner.encode(out);
    }
}

impl Relay {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Relay { client: node_id(reader, "client")?, notice: ScopeNotice::decode(reader)? })
    }
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.client.0);
        self.notice.encode(out);
    }
}

impl Digest {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let kind = choice(reader, "digest kind", &DigestKind::ALL)?;
        let count = reader.u16("records")?;
        if usize::from(count) > DIGEST_RECORDS_MAX {
            return Err(WireError::Value { field: "records", found: count.into() });
        }
        let records = (0..count)
            .map(|_| Ok((crate::ids::RecordKey(reader.array("record key")?), reader.u64("fingerprint")?)))
            .collect::<Result<_, WireError>>()?;
        Ok(Digest { kind, records })
    }
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(self.kind as u8);
        out.put_count16(self.records.len());
        for (key, fingerprint) in &self.records {
            out.extend_from_slice(&key.0);
            out.put_u64(*fingerprint);
        }
    }
}

impl Replicate {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let request = reader.u32("request")?;
        let count = reader.u16("records")?;
        let records = (0..count).map(|_| RecordUpdate::decode(reader)).collect::<Result<_, _>>()?;
        Ok(Replicate { request, records })
    }
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.request);
        out.put_count16(self.records.len());
        self.records.iter().for_each(|record| record.encode(out));
    }
}

impl RecordUpdate {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let name = name(reader)?;
        let revision = version(reader, "revision")?;
        let registration = version(reader, "registration")?;
        let count = reader.u16("entries")?;
        let entries = (0..count).map(|_| Entry::decode(reader)).collect::<Result<_, _>>()?;
        Ok(RecordUpdate { name, revision, registration, entries })
    }
    fn encode(&self, out: &mut Vec<u8>) {
        put_name(&self.name, out);
        out.put_u64(self.revision);
        out.put_u64(self.registration);
        out.put_count16(self.entries.len());
        self.entries.iter().for_each(|entry| entry.encode(out));
    }
    /// Bytes of an update without its entries.
    pub(crate) fn head_bytes(name: &Name) -> usize {
        20 + name.as_tlv().len()
    }
}

impl Entry {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let key = match reader.u8("entry kind")? {
            0 => EntryKey::Publisher(node_id(reader, "publisher")?),
            1 => EntryKey::ScopePublisher(node_id(reader, "scope publisher")?),
            2 => EntryKey::Subscription(node_id(reader, "subscriber")?, reader.u32("transfer")?),
            3 => EntryKey::ScopeSubscriber(node_id(reader, "scope subscriber")?),
            4 => EntryKey::Child(component(reader)?),
            found => return Err(WireError::Value { field: "entry kind", found: found.into() }),
        };
        let version = version(reader, "version")?;
        let lease = lease(reader)?;
        let value = match reader.u8("entry state")? {
            0 => None,
            1 => Some(EntryValue::decode(&key, reader)?),
            found => return Err(WireError::Value { field: "entry state", found: found.into() }),
        };
        Ok(Entry { key, version, lease, value })
    }
    /// Appends the entry to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match &self.key {
            EntryKey::Publisher(node) => {
                out.put_u8(0);
                out.put_u64(node.0);
            }
            EntryKey::ScopePublisher(node) => {
                out.put_u8(1);
                out.put_u64(node.0);
            }
            EntryKey::Subscription(node, transfer) => {
                out.put_u8(2);
                out.put_u64(node.0);
                out.put_u32(*transfer);
            }
            EntryKey::ScopeSubscriber(node) => {
                out.put_u8(3);
                out.put_u64(node.0);
            }
            EntryKey::Child(component) => {
                out.put_u8(4);
                out.put_blob(component);
            }
        }
        out.put_u64(self.version);
        put_lease(self.lease, out);
        out.put_u8(u8::from(self.value.is_some()));
        if let Some(value) = &self.value {
            value.encode(out);
        }
    }
}

impl EntryValue {
    fn decode(key: &EntryKey, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(match key {
            EntryKey::Publisher(_) => EntryValue::Publisher {
                object_bytes: reader.u64("object bytes")?,
                label: reader.text("label", LABEL_BYTES_MAX)?,
                manifest: reader.blob("manifest", MANIFEST_BYTES_MAX)?.into(),
            },
            EntryKey::ScopePublisher(_) => EntryValue::ScopePublisher,
            EntryKey::Subscription(..) => {
                EntryValue::Subscription { k: paths_per_source(reader)?, metric: reader.metric()? }
            }
            EntryKey::ScopeSubscriber(_) => {
                EntryValue::ScopeSubscriber { home: node_id(reader, "home")?, known: known_revision(reader)? }
            }
            EntryKey::Child(_) => match ChildState::decode(reader)? {
                ChildState::Absent => return Err(WireError::Value { field: "child state", found: 0 }),
                child => EntryValue::Child(child),
            },
        })
    }
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            EntryValue::Publisher { label, manifest, object_bytes } => {
                out.put_u64(*object_bytes);
                out.put_blob(label.as_bytes());
                out.put_blob(manifest);
            }
            EntryValue::ScopePublisher => {}
            EntryValue::Subscription { k, metric } => {
                out.put_u8(*k);
                out.put_u8(metric.number());
            }
            EntryValue::ScopeSubscriber { home, known } => {
                out.put_u64(home.0);
                out.put_u64(*known);
            }
            EntryValue::Child(child) => child.encode(out),
        }
    }
}

//! Messages among rendezvous nodes (paper §II-B): requests on their way to the responsible one, and its records.
use alloc::{string::String, vec::Vec};

use tributary_content::Name;
use tributary_core::{
    Duration, NodeId,
    wire::{
        Codec,
        codec::{COUNT_MAX, Choice, List16, Of, Own, Pair, U32, U64},
    },
    wire_table,
};
use tributary_transport::PathMetric;

use super::{
    LABEL_BYTES_MAX, MANIFEST_BYTES_MAX, Reader, Wire, WireError, Writer,
    rendezvous::{
        COMPONENT, ChildState, ClientRequest, KNOWN, LEASE, METRIC, NAME, NODE, PATHS_PER_SOURCE, ScopeNotice, VERSION,
    },
};
use crate::ids::RecordKey;

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
    pub records: Vec<(RecordKey, u64)>,
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

wire_table!(struct Forward { request: U32 => "request", client: NODE => "client", inner: Own => "request" });

wire_table!(struct Relay { client: NODE => "client", notice: Own => "notice" });

wire_table!(struct Digest {
    kind: DIGEST_KIND => "digest kind",
    records: List16(DIGEST_RECORDS_MAX, "record", Pair("record key", RECORD_KEY, "fingerprint", U64)) => "records",
});
const DIGEST_KIND: Choice<DigestKind> =
    Choice(&[DigestKind::Compare, DigestKind::Differs, DigestKind::Leaving, DigestKind::Held]);
const RECORD_KEY: Of<RecordKey> = Of(|reader, field| reader.array(field).map(RecordKey), |key, out| out.put(&key.0));

wire_table!(struct Replicate { request: U32 => "request", records: List16(COUNT_MAX, "record", Own) => "records" });

wire_table!(struct RecordUpdate {
    name: NAME => "name",
    revision: VERSION => "revision",
    registration: VERSION => "registration",
    entries: List16(COUNT_MAX, "entry", Own) => "entries",
});

impl RecordUpdate {
    /// Bytes of an update without its entries.
    pub(crate) fn head_bytes(name: &Name) -> usize {
        20 + name.as_tlv().len()
    }
}

wire_table!(enum EntryKey "entry kind" {
    0 => Publisher(node: NODE => "publisher")
    1 => ScopePublisher(node: NODE => "scope publisher")
    2 => Subscription(node: NODE => "subscriber", transfer: U32 => "transfer")
    3 => ScopeSubscriber(node: NODE => "scope subscriber")
    4 => Child(component: COMPONENT => "name component")
});

/// The kind of the value is that of the key.
impl Wire for Entry {
    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let key = EntryKey::read(reader)?;
        let version = VERSION.read(reader, "version")?;
        let lease = LEASE.read(reader, "lease")?;
        let value = match reader.u8("entry state")? {
            0 => None,
            1 => Some(EntryValue::read(&key, reader)?),
            found => return Err(WireError::Value { field: "entry state", found: found.into() }),
        };
        Ok(Entry { key, version, lease, value })
    }
    fn encode(&self, out: &mut Vec<u8>) {
        self.key.encode(out);
        out.put_u64(self.version);
        LEASE.write(&self.lease, out);
        out.put_u8(u8::from(self.value.is_some()));
        if let Some(value) = &self.value {
            value.encode(out);
        }
    }
}

impl EntryValue {
    fn read(key: &EntryKey, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(match key {
            EntryKey::Publisher(_) => EntryValue::Publisher {
                object_bytes: reader.u64("object bytes")?,
                label: reader.text("label", LABEL_BYTES_MAX)?,
                manifest: reader.blob("manifest", MANIFEST_BYTES_MAX)?.into(),
            },
            EntryKey::ScopePublisher(_) => EntryValue::ScopePublisher,
            EntryKey::Subscription(..) => EntryValue::Subscription {
                k: PATHS_PER_SOURCE.read(reader, "paths per source")?,
                metric: METRIC.read(reader, "metric")?,
            },
            EntryKey::ScopeSubscriber(_) => EntryValue::ScopeSubscriber {
                home: NODE.read(reader, "home")?,
                known: KNOWN.read(reader, "known revision")?,
            },
            EntryKey::Child(_) => match ChildState::read(reader)? {
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

//! Messages among rendezvous nodes (paper §II-B): requests in transit to the responsible one, and its records.
use alloc::{string::String, vec::Vec};

use tributary_content::Name;
use tributary_core::{
    Duration, NodeId,
    wire::{
        Codec,
        codec::{Blob, COUNT_MAX, Choice, List16, Of, Own, Pair, Text, U32, U64},
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

wire_table! {
    /// A request in transit from the rendezvous node that received it to the responsible one.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Forward {
        /// The number that the forwarding node waits for.
        pub request: u32 = U32 => "request",
        /// The requesting client.
        pub client: NodeId = NODE => "client",
        /// The request.
        pub inner: ClientRequest = Own => "request",
    }
}

wire_table! {
    /// State for another responsible node to keep; answered with a [`Reply`].
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Replicate {
        /// The number that the sender waits for.
        pub request: u32 = U32 => "request",
        /// What to merge into the records held.
        pub records: Vec<RecordUpdate> = List16(COUNT_MAX, "record", Own) => "records",
    }
}

wire_table! {
    /// Some or all entries of one record.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct RecordUpdate {
        /// The item or scope.
        pub name: Name = NAME => "name",
        /// The newest revision of its listing, if it is a scope.
        pub revision: u64 = VERSION => "revision",
        /// The newest version of its registration with the parent scope.
        pub registration: u64 = VERSION => "registration",
        /// The entries.
        pub entries: Vec<Entry> = List16(COUNT_MAX, "entry", Own) => "entries",
    }
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

wire_table! {
    /// The owner and kind of an entry of a record.
    #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
    pub enum EntryKey("entry kind") {
        /// A node publishes the item.
        0 => Publisher(node: NodeId = NODE => "publisher"),
        /// A node created the scope.
        1 => ScopePublisher(node: NodeId = NODE => "scope publisher"),
        /// A node's transfer wants the item.
        2 => Subscription(node: NodeId = NODE => "subscriber", transfer: u32 = U32 => "transfer"),
        /// A node wants the listing.
        3 => ScopeSubscriber(node: NodeId = NODE => "scope subscriber"),
        /// Something hangs under the scope at this component (NDN TLV).
        4 => Child(component: Vec<u8> = COMPONENT => "name component"),
    }
}

wire_table! {
    /// The value of an entry; its variants correspond to [`EntryKey`]'s, and have their numbers.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum EntryValue("entry kind") {
        /// About the publisher of an item.
        0 => Publisher {
            /// Bytes of the object.
            object_bytes: u64 = U64 => "object bytes",
            /// Its human-readable name.
            label: String = Text(LABEL_BYTES_MAX) => "label",
            /// Its manifest.
            manifest: Vec<u8> = Blob(MANIFEST_BYTES_MAX) => "manifest",
        },
        /// Only that it exists.
        1 => ScopePublisher,
        /// About a subscription.
        2 => Subscription {
            /// Paths wanted per source.
            k: u8 = PATHS_PER_SOURCE => "paths per source",
            /// What makes a path short.
            metric: PathMetric = METRIC => "metric",
        },
        /// About the subscriber of a scope.
        3 => ScopeSubscriber {
            /// The rendezvous node that it talks to.
            home: NodeId = NODE => "home",
            /// The newest revision of the listing that it has.
            known: u64 = KNOWN => "known revision",
        },
        /// What hangs in a scope; never [`ChildState::Absent`].
        4 => Child(child: ChildState = PRESENT_CHILD => "child state"),
    }
}
const PRESENT_CHILD: Of<ChildState> = Of(
    |reader, field| match ChildState::read(reader)? {
        ChildState::Absent => Err(WireError::Value { field, found: 0 }),
        child => Ok(child),
    },
    ChildState::encode,
);

wire_table! {
    /// A fingerprint of records that both nodes should hold, to find differences.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Digest {
        /// What the receiver must do.
        pub kind: DigestKind = DIGEST_KIND => "digest kind",
        /// Key and fingerprint of each.
        pub records: Vec<(RecordKey, u64)> =
            List16(DIGEST_RECORDS_MAX, "record", Pair("record key", RECORD_KEY, "fingerprint", U64)) => "records",
    }
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

wire_table! {
    /// A notice for a subscriber, in transit to the subscriber's rendezvous node.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Relay {
        /// The client that gets the answer.
        pub client: NodeId = NODE => "client",
        /// The notice.
        pub notice: ScopeNotice = Own => "notice",
    }
}

/// Maximum records covered by a [`Digest`].
pub const DIGEST_RECORDS_MAX: usize = 1_024;

const DIGEST_KIND: Choice<DigestKind> =
    Choice(&[DigestKind::Compare, DigestKind::Differs, DigestKind::Leaving, DigestKind::Held]);
const RECORD_KEY: Of<RecordKey> = Of(|reader, field| reader.array(field).map(RecordKey), |key, out| out.put(&key.0));

impl RecordUpdate {
    /// Bytes of an update without its entries.
    pub(crate) fn head_bytes(name: &Name) -> usize {
        20 + name.as_tlv().len()
    }
}

/// The kind of the value is that of the key.
impl Wire for Entry {
    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let kind = reader.u8("entry kind")?;
        let key = EntryKey::read_fields(kind, reader)?;
        let version = VERSION.read(reader, "version")?;
        let lease = LEASE.read(reader, "lease")?;
        let value = match reader.u8("entry state")? {
            0 => None,
            1 => Some(EntryValue::read_fields(kind, reader)?),
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
            value.write_fields(out);
        }
    }
}

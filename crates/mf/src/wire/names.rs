//! The global name resolution service on the wire: signed, versioned records, and the messages about them.
use alloc::{collections::BTreeSet, string::String, vec::Vec};

use tributary_content::{Manifest, Name, PublicKey, Signature, SigningKey};
use tributary_core::{
    Time,
    wire::{
        Codec,
        codec::{Blob, List8, Messages, Of, Pair, U8, U32, U64},
    },
    wire_table,
};
use tributary_directory::holdings::Ascending;
use tributary_trust::{Identity, UnixTime, check_signer};

use super::{
    Reader, WireError, Writer,
    chunk::ADDRESSES_MAX,
    fields::{ADDRESS, GUID, PLACE},
};
use crate::ids::{Guid, NetworkAddress, Weighted};

/// A device's records in one bucket, without deletions: the [marks](crate::resolver::mark) of places, GUIDs and
/// versions.
pub use tributary_directory::holdings::Holding;

/// Maximum members of a group in one record; larger groups consist of groups (paper §3.5).
pub const MEMBERS_MAX: usize = 64;
/// Maximum readers of a record.
pub const READERS_MAX: usize = 64;
/// Maximum records in one answer; larger places answer in pages.
pub const RECORDS_MAX: usize = 255;
/// Maximum bytes of records in one answer, and of messages in one [`NameMessage::Many`].
pub const ANSWER_BYTES_MAX: usize = 60_000;
/// Maximum messages in one [`NameMessage::Many`].
pub const MESSAGES_MAX: usize = 512;
/// Maximum bytes of a record.
pub const RECORD_BYTES_MAX: usize = 4_096;
/// Validity of a record in a network with an authority before its owner signs it again, in seconds. Resolvers remember
/// the versions of ended and deleted records for this time, so that they cannot be replayed.
pub const RECORD_SPAN: u64 = 6 * 3_600;
/// The same for attachments and groups, which outlive their owner's absence: 30 days.
pub const SUBSCRIPTION_SPAN: u64 = 30 * 86_400;
/// Maximum bytes of the label of a group or a context.
pub const OWN_LABEL_BYTES_MAX: usize = 64;

/// The devices that may read a record, in addition to its author and the network's routers, which need it for delivery.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Readers {
    /// Everybody.
    #[default]
    All,
    /// These devices; for all others the record does not exist.
    Only(BTreeSet<Guid>),
}

impl Readers {
    fn decode(reader: &mut Reader<'_>) -> Result<Readers, WireError> {
        let devices = reader.list("readers", READERS_MAX, |reader| GUID.read(reader, "reader"))?;
        match devices.windows(2).find(|pair| pair[0] >= pair[1]) {
            Some(pair) => Err(WireError::Value { field: "reader", found: u64::from(pair[1].0[0]) }),
            None => Ok(Readers::Only(devices.into_iter().collect())),
        }
    }
    /// Whether a device is one of them.
    pub fn contain(&self, device: &Guid) -> bool {
        match self {
            Readers::All => true,
            Readers::Only(devices) => devices.contains(device),
        }
    }
}

wire_table! {
    /// The content of a record.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum RecordBody("record kind") {
        /// Where a device is attached: addresses with weights, best first. Empty: nowhere now.
        0 => Device(addresses: Vec<Weighted> = List8(ADDRESSES_MAX, "address", WEIGHTED) => "addresses"),
        /// The members of the group with this label.
        1 => Group {
            /// The device whose proxy distributes the group's messages and answers members' requests for missing chunks
            /// (paper §3.5); [`Guid::NONE`] for the first router on the way.
            proxy: Guid = GUID => "proxy",
            /// The owner's label of the group, not empty.
            label: Vec<u8> = GROUP_LABEL => "label",
            /// Devices or nested groups.
            members: Vec<Guid> = List8(MEMBERS_MAX, "member", GUID) => "members",
        },
        /// A device receives messages to this name. Where the name is listed, the attached devices form a group.
        5 => Attached {
            /// The name.
            name: Name = NAME => "name",
        },
        /// It no longer does.
        6 => Detached {
            /// The name.
            name: Name = NAME => "name",
        },
        /// A device has this content: its signed manifest. The GUID derives from the publisher's key and the name.
        2 => Content(manifest: Vec<u8> = Blob(Manifest::BYTES_MAX) => "manifest"),
        /// Withdraws the earlier record; the label is as in the group, empty for a device.
        3 => Deleted(label: Vec<u8> = Blob(OWN_LABEL_BYTES_MAX) => "label"),
        /// The device no longer has the content of this GUID.
        4 => ContentDeleted {
            /// The content.
            content: Guid = GUID => "content",
            /// The announced name.
            name: Name = NAME => "name",
        },
        /// The device has contents below this name. The listing of the scope above holds one such record per device,
        /// regardless of its number of contents there.
        7 => Scope {
            /// The scope, which is not the root.
            name: Name = SCOPE => "scope",
        },
        /// It no longer has any there.
        8 => ScopeGone {
            /// The scope.
            name: Name = SCOPE => "scope",
        },
    }
}

const WEIGHTED: Of<Weighted> = Of(
    |reader, field| match (PLACE.read(reader, field)?, reader.u8("weight")?) {
        (_, 0) => Err(WireError::Value { field: "weight", found: 0 }),
        binding => Ok(binding),
    },
    |(address, weight), out| {
        out.put_u32(address.0);
        out.put_u8(*weight);
    },
);
const GROUP_LABEL: Of<Vec<u8>> = Of(
    |reader, field| match reader.blob(field, OWN_LABEL_BYTES_MAX)? {
        [] => Err(WireError::Value { field, found: 0 }),
        label => Ok(label.into()),
    },
    |label, out| out.put_blob(label),
);
const NAME: Of<Name> = Of(
    |reader, _| {
        let tlv = reader.blob("name", Name::BYTES_MAX)?;
        Name::from_tlv(tlv.to_vec()).map_err(|_| WireError::Value { field: "name", found: tlv.len() as u64 })
    },
    |name, out| out.put_blob(name.as_tlv()),
);
const SCOPE: Of<Name> = Of(
    |reader, field| match NAME.read(reader, field)? {
        name if name.is_empty() => Err(WireError::Value { field, found: 0 }),
        name => Ok(name),
    },
    |name, out| NAME.write(name, out),
);

impl RecordBody {
    /// Whether the record stays valid in its author's absence: messages to an attached device or a group are kept
    /// during that time.
    pub fn outlives_author(&self) -> bool {
        matches!(self, RecordBody::Attached { .. } | RecordBody::Group { .. })
    }
    /// Whether it is an attachment or a group, or withdraws one: a replica that was unreachable could revive it for as
    /// long as the record is valid.
    pub fn is_of_subscription(&self) -> bool {
        match self {
            RecordBody::Detached { .. } => true,
            RecordBody::Deleted(label) => !label.is_empty(),
            body => body.outlives_author(),
        }
    }
    /// Its validity in seconds without a new signature. A withdrawal is remembered for as long.
    pub fn span(&self) -> u64 {
        if self.is_of_subscription() { SUBSCRIPTION_SPAN } else { RECORD_SPAN }
    }
}

/// A key owner's statement about a GUID. Later versions replace earlier ones.
///
/// `kind 1, with 128 if readers are named and 64 if it has an end | key 32 | version 8 | lifetime in ms 4
/// | if it has an end: Unix seconds 8 | label | body | if readers are named: how many 1, in ascending order 20 each | signature 64`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    /// The signing key: the device's, or the group owner's.
    pub key: PublicKey,
    /// The highest version wins.
    pub version: u64,
    /// Its lifetime without renewal, in milliseconds.
    pub lifetime_ms: u32,
    /// When it ends, regardless of renewals and repetitions by others; `None` without an authority, where nodes need
    /// not know the time of day.
    pub ends: Option<UnixTime>,
    /// The signer's label for people; at most [`LABEL_BYTES_MAX`](super::LABEL_BYTES_MAX) bytes.
    pub label: String,
    /// Its statement.
    pub body: RecordBody,
    /// Its readers; at most [`READERS_MAX`] devices.
    pub readers: Readers,
}

/// A signed [`Statement`]. Records from [`NameRecord::sign`] or [`NameRecord::decode`] are authentic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameRecord {
    statement: Statement,
    signature: Signature,
    guid: Guid,
    /// The GUID and the names' listings under which it can be looked up.
    places: Vec<Guid>,
}

/// The author and the GUID of a record.
pub type RecordKey = (Guid, Guid);

impl NameRecord {
    /// Signs a statement.
    ///
    /// # Errors
    /// [`WireError`] if it exceeds a limit, or its manifest is invalid.
    ///
    /// # Panics
    /// If `key` is not the statement's.
    pub fn sign(statement: Statement, key: &SigningKey) -> Result<NameRecord, WireError> {
        assert_eq!(key.public(), statement.key, "a statement is signed with its own key");
        let bytes = statement.bytes();
        let signature = key.sign(CONTEXT, &bytes);
        NameRecord::decode(&[&bytes[..], &signature.0].concat())
    }
    /// Reads and checks a record: the result is signed by its key, and concerns only GUIDs that this key, or the
    /// manifest in it, proves.
    ///
    /// # Errors
    /// [`WireError::Forged`] if it is not authentic, another [`WireError`] if it is malformed.
    pub fn decode(bytes: &[u8]) -> Result<NameRecord, WireError> {
        if bytes.len() > RECORD_BYTES_MAX {
            return Err(WireError::Value { field: "bytes of the record", found: bytes.len() as u64 });
        }
        let Some((signed, signature)) = bytes.split_last_chunk::<{ Signature::BYTES }>() else {
            return Err(WireError::Short { field: "signature", needs: Signature::BYTES, has: bytes.len() });
        };
        let statement = Statement::decode(signed)?;
        let signature = Signature(*signature);
        let (guid, places) = statement.places()?;
        if !statement.key.verify(CONTEXT, signed, &signature) {
            return Err(WireError::Forged { field: "name record" });
        }
        Ok(NameRecord { statement, signature, guid, places })
    }
    /// The statement in the bytes of a record, before anybody has checked its signature.
    pub fn statement_in(bytes: &[u8]) -> Option<Statement> {
        let (signed, _) = bytes.split_last_chunk::<{ Signature::BYTES }>()?;
        Statement::decode(signed).ok()
    }
    /// The canonical bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.statement.bytes();
        bytes.put(&self.signature.0);
        bytes
    }
    /// Its statement.
    pub fn statement(&self) -> &Statement {
        &self.statement
    }
    /// The GUID that it concerns.
    pub fn guid(&self) -> Guid {
        self.guid
    }
    /// Its author, a device or owner: a GUID has one record from each.
    pub fn author(&self) -> Guid {
        Guid::of(&self.statement.key, &[])
    }
    /// Its author and its GUID.
    pub fn key(&self) -> RecordKey {
        (self.author(), self.guid())
    }
    /// The places that may keep it: for content its GUID, its name and the listing of the scope above; for a scope the
    /// listing of the scope above; for everything else its GUID.
    pub fn places(&self) -> &[Guid] {
        &self.places
    }
    /// Whether a device may read it.
    pub fn may_be_read_by(&self, device: &Guid) -> bool {
        self.statement.may_be_read_by(device)
    }
    /// The same for the bytes of a record that was checked before.
    pub fn bytes_may_be_read_by(bytes: &[u8], device: &Guid) -> bool {
        let signed = bytes.split_last_chunk::<{ Signature::BYTES }>().map(|(signed, _)| signed);
        signed.and_then(|signed| Statement::decode(signed).ok()).is_some_and(|stated| stated.may_be_read_by(device))
    }
    /// Whether a record is a withdrawal, without checking its signature.
    pub fn bytes_are_deletion(bytes: &[u8]) -> bool {
        bytes.first().is_some_and(|kind| matches!(kind & !(NAMES_READERS | HAS_END), 3 | 4 | 6 | 8))
    }
    /// Whether its end is present, in the future, and no further away than records may state, by the time of day of
    /// `identity`.
    pub fn holds(&self, identity: &Identity, now: Time) -> bool {
        let time = identity.time_of_day(now);
        let latest = self.statement.body.span() + identity.network().clock_tolerance();
        self.statement.ends.is_some_and(|ends| time < ends && ends <= time.after(latest))
    }
    /// The manifest, of content.
    pub fn manifest(&self) -> Option<Manifest> {
        if let RecordBody::Content(bytes) = &self.statement.body { Manifest::decode(bytes).ok() } else { None }
    }
    /// Whether it is a withdrawal.
    pub fn is_deletion(&self) -> bool {
        matches!(
            self.statement.body,
            RecordBody::Deleted(_)
                | RecordBody::ContentDeleted { .. }
                | RecordBody::Detached { .. }
                | RecordBody::ScopeGone { .. }
        )
    }
}

impl Statement {
    fn may_be_read_by(&self, device: &Guid) -> bool {
        self.readers.contain(device) || Guid::of(&self.key, &[]) == *device
    }
    /// The GUID that it concerns; `None` if its manifest is invalid.
    pub fn guid(&self) -> Option<Guid> {
        self.places().ok().map(|(guid, _)| guid)
    }
    fn bytes(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(128);
        let kind = self.body.write_fields(&mut body);
        let flag = if self.readers == Readers::All { 0 } else { NAMES_READERS };
        let mut out = Vec::with_capacity(256);
        out.put_u8(kind | flag | if self.ends.is_some() { HAS_END } else { 0 });
        out.put(&self.key.0);
        out.put_u64(self.version);
        out.put_u32(self.lifetime_ms);
        self.ends.iter().for_each(|ends| out.put_u64(ends.0));
        out.put_blob(self.label.as_bytes());
        out.put(&body);
        if let Readers::Only(devices) = &self.readers {
            out.put_count8(devices.len().min(usize::from(u8::MAX)));
            devices.iter().for_each(|device| out.put(&device.0));
        }
        out
    }
    fn decode(bytes: &[u8]) -> Result<Statement, WireError> {
        let mut reader = Reader::new(bytes);
        let flags = reader.u8("record kind")?;
        let (kind, has_readers, has_end) =
            (flags & !(NAMES_READERS | HAS_END), flags & NAMES_READERS != 0, flags & HAS_END != 0);
        let key = PublicKey(reader.array("key")?);
        let version = reader.u64("version")?;
        if version >= 1 << 63 {
            // The upper half is refused, so that counting up never overflows.
            return Err(WireError::Value { field: "version", found: version });
        }
        let lifetime_ms = reader.u32("lifetime")?;
        let ends = if has_end { Some(UnixTime(reader.u64("end")?)) } else { None };
        let label = reader.text("label", super::LABEL_BYTES_MAX)?;
        let body = RecordBody::read_fields(kind, &mut reader)?;
        let readers = if has_readers { Readers::decode(&mut reader)? } else { Readers::All };
        reader.end()?;
        Ok(Statement { key, version, lifetime_ms, ends, label, body, readers })
    }
    /// The GUID that it concerns, and the places that may keep it.
    fn places(&self) -> Result<(Guid, Vec<Guid>), WireError> {
        let alone = |guid: Guid| (guid, Vec::from([guid]));
        Ok(match &self.body {
            RecordBody::Device(_) => alone(Guid::of(&self.key, &[])),
            RecordBody::Group { label, .. } | RecordBody::Deleted(label) => alone(Guid::of(&self.key, label)),
            RecordBody::Content(manifest) => {
                let forged = WireError::Forged { field: "manifest of the content" };
                let is_signed = |of: &Manifest| check_signer(&of.name, &of.publisher).is_ok();
                let manifest = Manifest::decode(manifest).ok().filter(is_signed).ok_or(forged)?;
                content_places(Guid::of_content(&manifest.publisher, &manifest.name), &manifest.name)
            }
            RecordBody::ContentDeleted { content, name } => content_places(*content, name),
            RecordBody::Attached { name } | RecordBody::Detached { name } => alone(Guid::of_name(name)),
            RecordBody::Scope { name } | RecordBody::ScopeGone { name } => {
                (Guid::of_scope(name), above(name).into_iter().collect())
            }
        })
    }
}

fn content_places(content: Guid, name: &Name) -> (Guid, Vec<Guid>) {
    (content, [content, Guid::of_name(name)].into_iter().chain(above(name)).collect())
}
/// The listing of a name's scope; the root has none.
fn above(name: &Name) -> Option<Guid> {
    name.len().checked_sub(1).map(|count| Guid::of_name(&name.prefix(count)))
}
/// Why a record was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Refusal {
    /// It is not authentic, or malformed.
    Forged = 1,
    /// The service has reached its limit.
    Full = 2,
    /// No node that holds records is reachable.
    Unreachable = 3,
    /// A record belongs to other places than this one.
    Misplaced = 4,
    /// In a network with an authority: it has ended, or its end is missing or too far away.
    Ended = 5,
    /// The service's external store cannot be used now: nothing was acknowledged.
    Engine = 6,
    /// The external store is full: nothing was acknowledged.
    EngineFull = 7,
    /// Too many requests are open: the same one will be accepted soon.
    Busy = 8,
}

impl Refusal {
    const ALL: [Refusal; 8] = [
        Refusal::Forged,
        Refusal::Full,
        Refusal::Unreachable,
        Refusal::Misplaced,
        Refusal::Ended,
        Refusal::Engine,
        Refusal::EngineFull,
        Refusal::Busy,
    ];
    /// Whether a resolver could not use its external store: this implies nothing about the store's content.
    pub fn is_of_engine(self) -> bool {
        matches!(self, Refusal::Engine | Refusal::EngineFull)
    }
    /// The explanation for the refused node.
    pub fn reason(self) -> String {
        String::from(match self {
            Refusal::Forged => "the name service refused it: the record is not authentic, or malformed",
            Refusal::Full => {
                "the name service is full: it holds `records_max` of [mf] records, or 4,096 routers watch this name already"
            }
            Refusal::Unreachable => "no router that holds records of names can be reached",
            Refusal::Misplaced => "the name service refused it: the record belongs to another place",
            Refusal::Ended => {
                "the name service refused it: the record has ended, or its end is too far away; are the clocks right?"
            }
            Refusal::Engine => {
                "the name service cannot use its engine: the etcd cluster under it does not answer, or has lost its majority"
            }
            Refusal::EngineFull => {
                "the name service's engine is full: the etcd cluster under it has used up its quota (`--quota-backend-bytes`) \
                 and keeps nothing more until it is compacted and defragmented, and its alarm is disarmed"
            }
            Refusal::Busy => "the name service is busy; the request is repeated soon",
        })
    }
}

wire_table! {
    /// A request to the name resolution service, or its answer. `request` matches the two; `place` is a GUID, or the
    /// [listing](Guid::of_name) of a name.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum NameMessage("message kind") {
        /// Inserts, updates, or (with a deletion) deletes.
        1 => Put {
            /// Chosen by the requester: increases with each message.
            request: u32 = U32 => "request",
            /// Where to keep it: one of the record's places.
            place: Guid = GUID => "place",
            /// The record, encoded; not yet checked.
            record: Vec<u8> = RECORD => "record",
        },
        /// The record is kept by `replicas`.
        2 => Done {
            /// As in the request.
            request: u32 = U32 => "request",
            /// How many nodes hold it.
            replicas: u8 = U8 => "replicas",
        },
        /// A record of this author with a higher version, or another one with the same, is known.
        3 => Stale {
            /// As in the request.
            request: u32 = U32 => "request",
            /// The known version.
            current: u64 = U64 => "version",
        },
        /// It was refused.
        4 => Refused {
            /// As in the request.
            request: u32 = U32 => "request",
            /// Why.
            refusal: Refusal = REFUSAL => "refusal",
        },
        /// Requests all records at a place.
        5 => Lookup {
            /// Chosen by the requester.
            request: u32 = U32 => "request",
            /// The place.
            place: Guid = GUID => "place",
        },
        /// All records; a place whose records do not fit answers with a [`NameMessage::Page`].
        6 => Found {
            /// As in the request.
            request: u32 = U32 => "request",
            /// The place.
            place: Guid = GUID => "place",
            /// The records, encoded.
            records: Vec<Vec<u8>> = RECORDS => "records",
        },
        /// Requests notifications of changes at a place, for a while. If the requester's state is outdated,
        /// [`NameMessage::Found`] or the first [`NameMessage::Page`] answers; otherwise replicas answer with
        /// [`NameMessage::Done`]. Notifications follow.
        7 => Watch {
            /// Chosen by the requester.
            request: u32 = U32 => "request",
            /// The place.
            place: Guid = GUID => "place",
            /// For how long, in milliseconds; 0 ends it.
            lease_ms: u32 = U32 => "lease",
            /// [Digest](crate::resolver::digest) of the known records; 0 for none.
            known: u64 = U64 => "known",
        },
        /// A record has changed at a watched place.
        8 => Notify {
            /// The place.
            place: Guid = GUID => "place",
            /// The record, encoded.
            record: Vec<u8> = RECORD => "record",
        },
        /// Requests the records at a place that follow this one.
        10 => Next {
            /// Chosen by the requester.
            request: u32 = U32 => "request",
            /// The place.
            place: Guid = GUID => "place",
            /// The last record of the previous page.
            after: RecordKey = KEY => "record",
        },
        /// Renews all of a device's records: one lease per device and bucket of places, not one per record.
        12 => Renew {
            /// Chosen by the requester.
            request: u32 = U32 => "request",
            /// The device.
            author: Guid = GUID => "author",
            /// For how long, in milliseconds.
            lease_ms: u32 = U32 => "lease",
            /// The records that replicas should hold of it, in ascending order of buckets.
            holdings: Vec<Holding> = Ascending(BUCKETS) => "bucket",
        },
        /// The answer: buckets in which a replica holds something else, which must be put again.
        13 => Renewed {
            /// As in the request.
            request: u32 = U32 => "request",
            /// The buckets, in ascending order.
            missing: Vec<u16> = Ascending(BUCKETS) => "bucket",
        },
        /// A part of a place's records, in the order of [`RecordKey`]s.
        11 => Page {
            /// As in the request.
            request: u32 = U32 => "request",
            /// The place.
            place: Guid = GUID => "place",
            /// The records lie behind the first of these, `None` for the first page, and end with the second, `None` for the
            /// last page.
            ends: (Option<RecordKey>, Option<RecordKey>) = ENDS => "ends of the page",
            /// The records, encoded, without those that the requester may not read.
            records: Vec<Vec<u8>> = RECORDS => "records",
        },
        /// Several messages at once, not nested.
        14 => Many(all: Vec<NameMessage> = Messages(MESSAGES_MAX, MANY) => "messages"),
    }
}

/// Buckets distribute places over routers, so that few numbers describe a device's records at each of them.
pub const BUCKETS: u16 = 1_024;

/// The bucket of a place: the first 10 bits of its GUID.
pub fn bucket_of(place: &Guid) -> u16 {
    u16::from_be_bytes([place.0[0], place.0[1]]) >> 6
}

const KEY: Pair<Of<Guid>, Of<Guid>> = Pair("author of the record", GUID, "guid of the record", GUID);
/// Which of the two there are, then those.
const ENDS: Of<(Option<RecordKey>, Option<RecordKey>)> = Of(
    |reader, field| {
        let ends = reader.choice(field, |byte| (byte < 4).then_some(byte))?;
        let mut end = |bit: u8| (ends & bit != 0).then(|| KEY.read(reader, "record")).transpose();
        Ok((end(1)?, end(2)?))
    },
    |(after, last), out| {
        out.put_u8(u8::from(after.is_some()) | u8::from(last.is_some()) << 1);
        after.iter().chain(last).for_each(|key| KEY.write(key, out));
    },
);
const RECORD: Blob = Blob(RECORD_BYTES_MAX);
const RECORDS: List8<Blob> = List8(RECORDS_MAX, "record", RECORD);
const REFUSAL: Of<Refusal> = Of(
    |reader, field| reader.choice(field, |byte| Refusal::ALL.into_iter().find(|refusal| *refusal as u8 == byte)),
    |refusal, out| out.put_u8(*refusal as u8),
);

impl NameMessage {
    /// Set in the request numbers of replicas that hand over records, and clear in those of fronts: a router that is
    /// both knows which of them an answer belongs to.
    pub const HAND_OVER_BIT: u32 = 1 << 31;

    /// Whether it answers a hand-over.
    pub fn answers_hand_over(&self) -> bool {
        self.answered().is_some_and(|request| request & NameMessage::HAND_OVER_BIT != 0)
    }
    /// Its number, if it is a request.
    pub fn question(&self) -> Option<u32> {
        match self {
            NameMessage::Put { request, .. }
            | NameMessage::Lookup { request, .. }
            | NameMessage::Watch { request, .. }
            | NameMessage::Next { request, .. }
            | NameMessage::Renew { request, .. } => Some(*request),
            _ => None,
        }
    }
    /// The number of the request that it answers, if it is an answer.
    pub fn answered(&self) -> Option<u32> {
        match self {
            NameMessage::Done { request, .. }
            | NameMessage::Stale { request, .. }
            | NameMessage::Refused { request, .. }
            | NameMessage::Found { request, .. }
            | NameMessage::Page { request, .. }
            | NameMessage::Renewed { request, .. } => Some(*request),
            _ => None,
        }
    }
    /// The messages that it consists of: several, or itself.
    pub fn each(self) -> Vec<NameMessage> {
        match self {
            NameMessage::Many(all) => all,
            single => Vec::from([single]),
        }
    }
    /// Joins messages into as few as hold them within [`ANSWER_BYTES_MAX`], in their order.
    pub fn join(messages: Vec<NameMessage>) -> Vec<NameMessage> {
        let mut joined: Vec<Vec<NameMessage>> = Vec::new();
        let mut left = 0;
        for message in messages {
            let bytes = message.len_about();
            match joined.last_mut().filter(|last| bytes <= left && last.len() < MESSAGES_MAX) {
                Some(last) => {
                    left -= bytes;
                    last.push(message);
                }
                None => {
                    left = ANSWER_BYTES_MAX.saturating_sub(bytes);
                    joined.push(Vec::from([message]));
                }
            }
        }
        let single = |mut many: Vec<NameMessage>| match many.len() {
            1 => many.pop(),
            _ => Some(NameMessage::Many(many)),
        };
        joined.into_iter().filter_map(single).collect()
    }
    /// An upper bound of its bytes within a [`NameMessage::Many`].
    fn len_about(&self) -> usize {
        let parts = match self {
            NameMessage::Put { record, .. } | NameMessage::Notify { record, .. } => record.len(),
            NameMessage::Found { records, .. } | NameMessage::Page { records, .. } => {
                records.iter().map(|record| record.len() + 2).sum()
            }
            NameMessage::Renew { holdings, .. } => holdings.len() * Holding::BYTES,
            NameMessage::Renewed { missing, .. } => missing.len() * 2,
            _ => 0,
        };
        parts + 128
    }
}

/// The header of a message between routers, which ends with an authentication code over all of it.
///
/// `kind 9 | from: address 4, boot number 8 | to: address 4, boot number 8 | number 8`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SealedHead {
    /// The sending router, and its boot number.
    pub from: (NetworkAddress, u64),
    /// The receiving router, and its newest known boot number.
    pub to: (NetworkAddress, u64),
    /// Increases from 1.
    pub number: u64,
}

impl SealedHead {
    /// Whether a payload is one of these rather than a [`NameMessage`] itself.
    pub fn is_at(payload: &[u8]) -> bool {
        payload.first() == Some(&SEALED)
    }
    /// Reads the header of an [unsealed](super::unseal) message, and returns the bytes that follow.
    ///
    /// # Errors
    /// [`WireError`] names the field and its error.
    pub fn decode(bytes: &[u8]) -> Result<(SealedHead, &[u8]), WireError> {
        let mut reader = Reader::new(bytes);
        reader.choice("message kind", |kind| (kind == SEALED).then_some(()))?;
        let from = (ADDRESS.read(&mut reader, "from")?, reader.u64("life")?);
        let to = (ADDRESS.read(&mut reader, "to")?, reader.u64("life")?);
        let head = SealedHead { from, to, number: reader.u64("number")? };
        Ok((head, reader.rest()))
    }
    /// Appends the head to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(SEALED);
        for (address, life) in [self.from, self.to] {
            out.put_u32(address.0);
            out.put_u64(life);
        }
        out.put_u64(self.number);
    }
}

const CONTEXT: &str = "tributary mobilityfirst name record";
/// In the kind of a record: it lists readers.
const NAMES_READERS: u8 = 128;
/// In the kind of a record: it states an end.
const HAS_END: u8 = 64;
/// The kind of a message between routers.
const SEALED: u8 = 9;
/// The kind of several messages at once.
const MANY: u8 = 14;

//! The global name resolution service on the wire: signed, versioned records, and what is asked about them.
use alloc::{string::String, vec::Vec};

use tributary_content::{Manifest, Name, PublicKey, Signature, SigningKey};

use super::{
    WireError,
    chunk::ADDRESSES_MAX,
    reader::{Reader, Writer},
};
use crate::ids::{Guid, NetworkAddress, Weighted};

/// Members of a group in one record at most; larger groups are made of groups (paper §3.5).
pub const MEMBERS_MAX: usize = 64;
/// Records in one answer at most.
pub const RECORDS_MAX: usize = 255;
/// Bytes of a record at most.
pub const RECORD_BYTES_MAX: usize = 4_096;
/// Bytes of a label of a group or a context at most.
pub const OWN_LABEL_BYTES_MAX: usize = 64;

/// What a record says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecordBody {
    /// Where a device is attached: addresses with weights, best first. None: nowhere now.
    Device(Vec<Weighted>),
    /// Who belongs to the group of this label.
    Group {
        /// The owner's label of the group, not empty.
        label: Vec<u8>,
        /// Devices, or groups again.
        members: Vec<Guid>,
        /// The device whose proxy spreads what is for the group, and answers for what its members miss (paper §3.5);
        /// [`Guid::NONE`] if whoever comes to it first does.
        proxy: Guid,
    },
    /// A device takes what is sent to this name. Where the name is listed, those who say so are a group.
    Attached {
        /// The name.
        name: Name,
    },
    /// It does not any more.
    Detached {
        /// The name.
        name: Name,
    },
    /// A device has this content: its signed manifest. The GUID is that of the publisher's key and the name.
    Content(Vec<u8>),
    /// What was said before does not hold any more; the label is as in the group, empty for a device.
    Deleted(Vec<u8>),
    /// The device does not have the content of this GUID any more.
    ContentDeleted {
        /// The content.
        content: Guid,
        /// The name that it was announced under.
        name: Name,
    },
}

/// What the owner of a key says of a GUID. Later versions replace earlier ones.
///
/// `kind 1 | key 32 | version 8 | lifetime in ms 4 | label | body | signature 64`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    /// Whose key signs: the device's, or the group owner's.
    pub key: PublicKey,
    /// The last writer wins by this.
    pub version: u64,
    /// How long it holds without being renewed, in milliseconds.
    pub lifetime_ms: u32,
    /// What the signer calls itself, for people; at most [`LABEL_BYTES_MAX`](super::LABEL_BYTES_MAX) bytes.
    pub label: String,
    /// What it says.
    pub body: RecordBody,
}

/// A signed [`Statement`]. One that came from [`NameRecord::sign`] or [`NameRecord::decode`] is authentic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameRecord {
    statement: Statement,
    signature: Signature,
    /// Under which GUID it can be looked up, and under which names' listings.
    places: Vec<Guid>,
}

/// Who says something, and of what.
pub type RecordKey = (Guid, Guid);

impl NameRecord {
    /// Signs a statement.
    ///
    /// # Errors
    /// [`WireError`] if it exceeds a limit, or its manifest is none.
    ///
    /// # Panics
    /// If `key` is not the statement's.
    pub fn sign(statement: Statement, key: &SigningKey) -> Result<NameRecord, WireError> {
        assert_eq!(key.public(), statement.key, "a statement is signed with its own key");
        let bytes = statement.bytes();
        let signature = key.sign(CONTEXT, &bytes);
        NameRecord::decode(&[&bytes[..], &signature.0].concat())
    }
    /// Reads a record and checks it: what comes back is signed by its key, and says nothing of GUIDs that this key, or
    /// the manifest in it, does not prove.
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
        let places = statement.places()?;
        if !statement.key.verify(CONTEXT, signed, &signature) {
            return Err(WireError::Forged { field: "name record" });
        }
        Ok(NameRecord { statement, signature, places })
    }
    /// The canonical bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.statement.bytes();
        bytes.put(&self.signature.0);
        bytes
    }
    /// What it says.
    pub fn statement(&self) -> &Statement {
        &self.statement
    }
    /// The GUID that it is about.
    pub fn guid(&self) -> Guid {
        self.places.first().copied().unwrap_or_default()
    }
    /// The device or owner that says it: a GUID has one record from each.
    pub fn author(&self) -> Guid {
        Guid::of(&self.statement.key, &[])
    }
    /// Who says it, and of what.
    pub fn key(&self) -> RecordKey {
        (self.author(), self.guid())
    }
    /// Where it may be kept: under its GUID and, for content, under the listings of its name and of all scopes above.
    pub fn places(&self) -> &[Guid] {
        &self.places
    }
    /// The manifest, of content.
    pub fn manifest(&self) -> Option<Manifest> {
        if let RecordBody::Content(bytes) = &self.statement.body { Manifest::decode(bytes).ok() } else { None }
    }
    /// Whether it takes back what was said.
    pub fn is_deletion(&self) -> bool {
        matches!(
            self.statement.body,
            RecordBody::Deleted(_) | RecordBody::ContentDeleted { .. } | RecordBody::Detached { .. }
        )
    }
}

impl Statement {
    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.put_u8(match &self.body {
            RecordBody::Device(_) => 0,
            RecordBody::Group { .. } => 1,
            RecordBody::Content(_) => 2,
            RecordBody::Deleted(_) => 3,
            RecordBody::ContentDeleted { .. } => 4,
            RecordBody::Attached { .. } => 5,
            RecordBody::Detached { .. } => 6,
        });
        out.put(&self.key.0);
        out.put_u64(self.version);
        out.put_u32(self.lifetime_ms);
        out.put_blob(self.label.as_bytes());
        match &self.body {
            RecordBody::Device(addresses) => {
                out.put_u8(addresses.len() as u8);
                for (address, weight) in addresses {
                    out.put_u32(address.0);
                    out.put_u8(*weight);
                }
            }
            RecordBody::Group { label, members, proxy } => {
                out.put(&proxy.0);
                out.put_blob(label);
                out.put_u8(members.len() as u8);
                members.iter().for_each(|member| out.put(&member.0));
            }
            RecordBody::Content(manifest) => out.put_blob(manifest),
            RecordBody::Deleted(label) => out.put_blob(label),
            RecordBody::ContentDeleted { content, name } => {
                out.put(&content.0);
                out.put_blob(name.as_tlv());
            }
            RecordBody::Attached { name } | RecordBody::Detached { name } => out.put_blob(name.as_tlv()),
        }
        out
    }
    fn decode(bytes: &[u8]) -> Result<Statement, WireError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8("record kind")?;
        let key = PublicKey(reader.array("key")?);
        let version = reader.u64("version")?;
        if version >= 1 << 63 {
            // The upper half is refused, so that counting up never overflows.
            return Err(WireError::Value { field: "version", found: version });
        }
        let lifetime_ms = reader.u32("lifetime")?;
        let label = reader.text("label", super::LABEL_BYTES_MAX)?;
        let body = match kind {
            0 => RecordBody::Device(reader.list("addresses", ADDRESSES_MAX, |reader| {
                match (reader.address("address")?, reader.u8("weight")?) {
                    (NetworkAddress::NONE, _) => Err(WireError::Value { field: "address", found: 0 }),
                    (_, 0) => Err(WireError::Value { field: "weight", found: 0 }),
                    binding => Ok(binding),
                }
            })?),
            1 => {
                let proxy = reader.guid("proxy")?;
                let label: Vec<u8> = reader.blob("label", OWN_LABEL_BYTES_MAX)?.into();
                if label.is_empty() {
                    return Err(WireError::Value { field: "label", found: 0 });
                }
                let members = reader.list("members", MEMBERS_MAX, |reader| reader.guid("member"))?;
                RecordBody::Group { label, members, proxy }
            }
            2 => RecordBody::Content(reader.blob("manifest", Manifest::BYTES_MAX)?.into()),
            3 => RecordBody::Deleted(reader.blob("label", OWN_LABEL_BYTES_MAX)?.into()),
            4 => RecordBody::ContentDeleted { content: reader.guid("content")?, name: read_name(&mut reader)? },
            5 => RecordBody::Attached { name: read_name(&mut reader)? },
            6 => RecordBody::Detached { name: read_name(&mut reader)? },
            found => return Err(WireError::Value { field: "record kind", found: u64::from(found) }),
        };
        reader.end()?;
        Ok(Statement { key, version, lifetime_ms, label, body })
    }
    fn places(&self) -> Result<Vec<Guid>, WireError> {
        Ok(match &self.body {
            RecordBody::Device(_) => Vec::from([Guid::of(&self.key, &[])]),
            RecordBody::Group { label, .. } | RecordBody::Deleted(label) => Vec::from([Guid::of(&self.key, label)]),
            RecordBody::Content(manifest) => {
                let forged = WireError::Forged { field: "manifest of the content" };
                let manifest = Manifest::decode(manifest).map_err(|_| forged)?;
                content_places(Guid::of_content(&manifest.publisher, &manifest.name), &manifest.name)
            }
            RecordBody::ContentDeleted { content, name } => content_places(*content, name),
            RecordBody::Attached { name } | RecordBody::Detached { name } => Vec::from([Guid::of_name(name)]),
        })
    }
}

fn content_places(content: Guid, name: &Name) -> Vec<Guid> {
    let listings = (0..=name.len()).rev().map(|count| Guid::of_name(&name.prefix(count)));
    [content].into_iter().chain(listings).collect()
}
fn read_name(reader: &mut Reader<'_>) -> Result<Name, WireError> {
    let tlv = reader.blob("name", Name::BYTES_MAX)?;
    Name::from_tlv(tlv.to_vec()).map_err(|_| WireError::Value { field: "name", found: tlv.len() as u64 })
}

/// Why a record was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Refusal {
    /// It is not authentic, or malformed.
    Forged = 1,
    /// The service holds as much as it may.
    Full = 2,
    /// No node that holds records can be reached.
    Unreachable = 3,
    /// A record belongs to other places than this one.
    Misplaced = 4,
}

/// A question to the name resolution service, or its answer. `request` matches the two; `place` is a GUID, or the
/// [listing](Guid::of_name) of a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NameMessage {
    /// Insert, update, or (with a deletion) delete.
    Put {
        /// Chosen by who asks.
        request: u32,
        /// Where to keep it: one of the record's places.
        place: Guid,
        /// The record, encoded; not yet checked.
        record: Vec<u8>,
    },
    /// It is kept; `replicas` say so.
    Done {
        /// As in the question.
        request: u32,
        /// How many nodes hold it.
        replicas: u8,
    },
    /// A record of this author with a higher version, or another one with the same, is known.
    Stale {
        /// As in the question.
        request: u32,
        /// The version that is known.
        current: u64,
    },
    /// It was not taken.
    Refused {
        /// As in the question.
        request: u32,
        /// Why.
        refusal: Refusal,
    },
    /// What is known at a place?
    Lookup {
        /// Chosen by who asks.
        request: u32,
        /// The place.
        place: Guid,
    },
    /// What is known.
    Found {
        /// As in the question.
        request: u32,
        /// The place.
        place: Guid,
        /// The records, encoded.
        records: Vec<Vec<u8>>,
    },
    /// Tell me what changes at a place, for some time. Answered by [`NameMessage::Found`] if that is not what is known
    /// already, then by notifications.
    Watch {
        /// Chosen by who asks.
        request: u32,
        /// The place.
        place: Guid,
        /// For how long, in milliseconds; 0 ends it.
        lease_ms: u32,
        /// [Digest](crate::resolver::digest) of the records that are known already; 0 for none.
        known: u64,
    },
    /// A record has changed at a place that is watched.
    Notify {
        /// The place.
        place: Guid,
        /// The record, encoded.
        record: Vec<u8>,
    },
}

impl NameMessage {
    /// Reads a whole message.
    ///
    /// # Errors
    /// [`WireError`] names the field and what is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<NameMessage, WireError> {
        let mut reader = Reader::new(bytes);
        let record = |reader: &mut Reader<'_>| Ok(reader.blob("record", RECORD_BYTES_MAX)?.to_vec());
        let message = match reader.u8("message kind")? {
            1 => NameMessage::Put {
                request: reader.u32("request")?,
                place: reader.guid("place")?,
                record: record(&mut reader)?,
            },
            2 => NameMessage::Done { request: reader.u32("request")?, replicas: reader.u8("replicas")? },
            3 => NameMessage::Stale { request: reader.u32("request")?, current: reader.u64("version")? },
            4 => NameMessage::Refused {
                request: reader.u32("request")?,
                refusal: reader.choice("refusal", |byte| {
                    let all = [Refusal::Forged, Refusal::Full, Refusal::Unreachable, Refusal::Misplaced];
                    all.into_iter().find(|refusal| *refusal as u8 == byte)
                })?,
            },
            5 => NameMessage::Lookup { request: reader.u32("request")?, place: reader.guid("place")? },
            6 => NameMessage::Found {
                request: reader.u32("request")?,
                place: reader.guid("place")?,
                records: reader.list("records", RECORDS_MAX, record)?,
            },
            7 => NameMessage::Watch {
                request: reader.u32("request")?,
                place: reader.guid("place")?,
                lease_ms: reader.u32("lease")?,
                known: reader.u64("known")?,
            },
            8 => NameMessage::Notify { place: reader.guid("place")?, record: record(&mut reader)? },
            found => return Err(WireError::Value { field: "message kind", found: u64::from(found) }),
        };
        reader.end()?;
        Ok(message)
    }
    /// Appends the message to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            NameMessage::Put { request, place, record } => {
                out.put_u8(1);
                out.put_u32(*request);
                out.put(&place.0);
                out.put_blob(record);
            }
            NameMessage::Done { request, replicas } => {
                out.put_u8(2);
                out.put_u32(*request);
                out.put_u8(*replicas);
            }
            NameMessage::Stale { request, current } => {
                out.put_u8(3);
                out.put_u32(*request);
                out.put_u64(*current);
            }
            NameMessage::Refused { request, refusal } => {
                out.put_u8(4);
                out.put_u32(*request);
                out.put_u8(*refusal as u8);
            }
            NameMessage::Lookup { request, place } => {
                out.put_u8(5);
                out.put_u32(*request);
                out.put(&place.0);
            }
            NameMessage::Found { request, place, records } => {
                out.put_u8(6);
                out.put_u32(*request);
                out.put(&place.0);
                out.put_u8(records.len().min(RECORDS_MAX) as u8);
                records.iter().take(RECORDS_MAX).for_each(|record| out.put_blob(record));
            }
            NameMessage::Watch { request, place, lease_ms, known } => {
                out.put_u8(7);
                out.put_u32(*request);
                out.put(&place.0);
                out.put_u32(*lease_ms);
                out.put_u64(*known);
            }
            NameMessage::Notify { place, record } => {
                out.put_u8(8);
                out.put(&place.0);
                out.put_blob(record);
            }
        }
    }
}

const CONTEXT: &str = "tributary mobilityfirst name record";

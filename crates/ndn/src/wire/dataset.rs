//! Status datasets of the management protocol: the answers to `status`, `faces/list`, `fib/list` and the like. NFD
//! management, "ForwarderStatus", "FaceMgmt", "FibMgmt", "RibMgmt", "CsMgmt", "StrategyChoice".
use alloc::{string::String, vec::Vec};

use super::{
    WireError,
    control::types as control,
    tlv::{Reader, Writer, integer},
};

/// Type of one entry of a dataset.
pub(crate) const ENTRY: u32 = 128;
/// Type of one entry of `faces/channels`, which has another one than the rest (NFD management protocol, face dataset).
pub(crate) const CHANNEL: u32 = 130;
/// Type of one record in an entry.
pub(crate) const RECORD: u32 = 129;

/// Counters of packets, of a face or of the forwarder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PacketCounters {
    /// Interests in and out.
    pub interests: (u64, u64),
    /// Data in and out.
    pub data: (u64, u64),
    /// Nacks in and out.
    pub nacks: (u64, u64),
    /// Bytes in and out.
    pub bytes: (u64, u64),
}

impl PacketCounters {
    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        out.put_integer(144, self.interests.0);
        out.put_integer(145, self.data.0);
        out.put_integer(151, self.nacks.0);
        out.put_integer(146, self.interests.1);
        out.put_integer(147, self.data.1);
        out.put_integer(152, self.nacks.1);
    }
}

/// How long a face stays, with NFD's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FacePersistency {
    /// Even without traffic.
    #[default]
    Persistent = 0,
    /// While there is traffic.
    OnDemand = 1,
    /// Also while its far end cannot be reached, as all dialled faces of this program do.
    Permanent = 2,
}

/// One face of `faces/list`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FaceEntry {
    /// Its number.
    pub face_id: u64,
    /// Address of its far end.
    pub uri: String,
    /// Address of its near end.
    pub local_uri: String,
    /// Whether it leads to an application of this machine.
    pub is_local: bool,
    /// Whether it stays without traffic.
    pub persistency: FacePersistency,
    /// Its MTU in bytes; `None` means unlimited.
    pub mtu: Option<u64>,
    /// 1: local fields, 2: reliability, 4: congestion marking.
    pub flags: u64,
    /// Packets.
    pub counters: PacketCounters,
}

impl FaceEntry {
    /// Appends the entry to the content of the answer.
    pub fn append(&self, out: &mut Vec<u8>) {
        out.put_nested(ENTRY, |out| {
            self.append_nature(out);
            if let Some(mtu) = self.mtu {
                out.put_integer(control::MTU, mtu);
            }
            self.counters.append(out);
            out.put_integer(148, self.counters.bytes.0);
            out.put_integer(149, self.counters.bytes.1);
            out.put_integer(control::FLAGS, self.flags);
        });
    }
    fn append_nature(&self, out: &mut Vec<u8>) {
        out.put_integer(control::FACE_ID, self.face_id);
        out.put_element(control::URI, self.uri.as_bytes());
        out.put_element(control::LOCAL_URI, self.local_uri.as_bytes());
        out.put_integer(132, u64::from(self.is_local));
        out.put_integer(control::FACE_PERSISTENCY, self.persistency as u64);
        out.put_integer(134, 0);
    }
    /// The content of a notification of `faces/events`: the face's change.
    pub fn notification(&self, event: FaceEvent) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_nested(FACE_EVENT_NOTIFICATION, |out| {
            out.put_integer(FACE_EVENT_KIND, event as u64);
            self.append_nature(out);
            out.put_integer(control::FLAGS, self.flags);
        });
        out
    }
}

/// Type of a notification of `faces/events`.
const FACE_EVENT_NOTIFICATION: u32 = 192;
/// What became of the face.
const FACE_EVENT_KIND: u32 = 193;

/// What became of a face.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaceEvent {
    /// It was made, and is up.
    Created = 1,
    /// It is gone.
    Destroyed = 2,
    /// Its far end can be reached again.
    Up = 3,
    /// Its far end cannot be reached.
    Down = 4,
}

/// Type of the filter of `faces/query`.
const FACE_QUERY_FILTER: u32 = 150;
/// Scheme of a face's address.
const URI_SCHEME: u32 = 131;

/// The filter of `faces/query`; `None` matches all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FaceFilter {
    /// Its number.
    pub face_id: Option<u64>,
    /// The scheme of either end's address.
    pub scheme: Option<String>,
    /// Address of its far end.
    pub uri: Option<String>,
    /// Address of its near end.
    pub local_uri: Option<String>,
    /// 0: another machine, 1: this one.
    pub scope: Option<u64>,
    /// 0: it stays, 1: it closes without traffic.
    pub persistency: Option<u64>,
}

impl FaceFilter {
    /// Reads the element, which must fill `bytes`.
    ///
    /// # Errors
    /// [`WireError`] names the field; an unknown kind of filter is an error, too.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        const FIELD: &str = "FaceQueryFilter";
        let mut reader = Reader::new(FIELD, super::tlv::only(FIELD, bytes, FACE_QUERY_FILTER)?);
        let mut filter = FaceFilter::default();
        while let Some(element) = reader.element()? {
            let number = || integer(FIELD, element.value).map(Some);
            let wrong = || WireError::Length(FIELD, element.value.len());
            let text = || String::from_utf8(element.value.to_vec()).map(Some).map_err(|_| wrong());
            match element.kind {
                control::FACE_ID => filter.face_id = number()?,
                URI_SCHEME => filter.scheme = text()?,
                control::URI => filter.uri = text()?,
                control::LOCAL_URI => filter.local_uri = text()?,
                132 => filter.scope = number()?,
                control::FACE_PERSISTENCY => filter.persistency = number()?,
                kind => return Err(WireError::Critical(FIELD, kind)),
            }
        }
        Ok(filter)
    }
    /// Whether a face matches.
    pub fn fits(&self, face: &FaceEntry) -> bool {
        let has_scheme = |scheme: &String| {
            [&face.uri, &face.local_uri].into_iter().any(|uri| uri.split("://").next() == Some(scheme.as_str()))
        };
        self.face_id.is_none_or(|id| id == face.face_id)
            && self.scheme.as_ref().is_none_or(has_scheme)
            && self.uri.as_ref().is_none_or(|uri| *uri == face.uri)
            && self.local_uri.as_ref().is_none_or(|uri| *uri == face.local_uri)
            && self.scope.is_none_or(|scope| scope == u64::from(face.is_local))
            && self.persistency.is_none_or(|persistency| persistency == face.persistency as u64)
    }
}

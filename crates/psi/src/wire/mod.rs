//! The packets of the PSI family. Parsing is total: any bytes yield a packet or a [`WireError`], never a panic, and
//! parsed packets re-emit byte for byte.
//!
//! Every packet starts with the common header:
//! ```text
//!  0        1        2        3        4        5
//! +--------+--------+--------+--------+--------+----------------+
//! |ver |typ| flags  |  ttl   |kind|0..| salt   | ...            |
//! +--------+--------+--------+--------+--------+----------------+
//! ```
//! written out: byte 0 = version (high nibble) and type (low nibble); byte 1 = flags; byte 2 = hops left;
//! byte 3 = FID kind (high 2 bits) and FID length in 2-byte units (low 6 bits); byte 4 = salt; then the FID.
//! Hello and Beacon go one hop and carry an empty FID.
// A number truncated on its way into or out of a packet would make another packet of it.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]
mod beacon;
mod control;
mod data;
mod fid;
mod fields;
#[cfg(test)]
mod golden_tests;
mod hello;
mod mac;
pub(crate) mod message;
mod records;
mod rendezvous;
mod renewal;
mod request;
mod secrecy;
mod topology;

pub use beacon::{BEACON_LABELS_MAX, Beacon, ListLabel, ManagerState, SHORT_LABELS, list_fid};
pub use control::{ControlBody, ControlPacket, FRAGMENTS_MAX};
pub use data::{DataHeader, StreamKey};
pub use fid::{FID_BYTES_MAX, Fid, FidKind};
use fields::Fields;
pub use fields::{TERM_END, successions, term_after};
pub use hello::{Heard, Hello};
pub use mac::{MAC_BYTES, OPEN_KEY, seal, unseal};
pub use message::{MANY_BYTES_MAX, MESSAGE_BYTES_MAX, Message};
pub use records::{
    DIGEST_RECORDS_MAX, Digest, DigestKind, Entry, EntryKey, EntryValue, Forward, RecordUpdate, Relay, Replicate,
};
pub use rendezvous::{
    Answer, ChildState, ClientRequest, Limit, MissingScopes, NOTHING_KNOWN, NoticeKind, Operation, Refused, Rejection,
    Reply, ScopeNotice, TERM_SHIFT, VERSION_FIRST_MAX, VERSION_MAX, VERSION_STEP_MAX,
};
pub use renewal::{BUCKETS, Holding, RENEWAL_LEASE_MAX, Renewal, Renewed, bucket_of, mark};
pub use request::{REQUEST_PACKETS_MAX, REQUEST_RANGES_MAX, Request};
pub use secrecy::{MessageKey, SECRECY_BYTES, Secrecy};
pub use topology::{
    ADJACENCIES_MAX, Adjacency, BitmapNumbers, LABEL_BYTES_MAX, LinkState, MANIFEST_BYTES_MAX, MatchKey, OVERTAKEN_MAX,
    Offer, OfferVersion, Overtaken, PATH_LABEL_BYTES_MAX, PATHS_MAX, PUBLISHERS_MAX, PathOffer, PathRequest, Publisher,
    RESOLVERS_MAX, ResolverRoute, Routes, SHARED_LINKS_MAX, SharedLink, WITHDRAWN_MAX,
};
pub use tributary_core::wire::{Reader, Wire, WireError, Writer};

/// The version of the wire format: one more with each change that a node without it misreads. 2 has the boot numbers of
/// rendezvous nodes in [`Routes`]; 3 has versions in [`PathRequest`], the values of limits in [`Rejection`], and
/// rendezvous nodes that announce when they are ready; 4 places records by the buckets of their keys, and has
/// [`Renewal`] and messages that consist of several.
pub const VERSION: u8 = 4;
/// Bytes of the common header before the FID.
pub const FIXED_BYTES: usize = 5;
/// Bytes of a datagram that every link carries: control packets are made for it.
pub const DATAGRAM_BYTES_MIN: u32 = 1_200;
/// The largest number of hops a packet may take; a packet that claims more is dropped.
pub const TTL_MAX: u8 = 64;

/// What a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PacketType {
    /// A neighbour greets a neighbour; one hop.
    Hello = 1,
    /// A topology manager announces itself; flooded hop by hop.
    Beacon = 2,
    /// A reliable control message, or its acknowledgement.
    Control = 3,
    /// A fast-path request (paper: fast-path subscription, §III-B2).
    Request = 4,
    /// A packet of an object.
    Data = 5,
}

/// Flag of a Request: caches must not answer it.
pub const FLAG_NO_CACHE: u8 = 0b0000_0001;
/// Flag of a Data packet: a cache on the way sent it; `origin` names the cache.
pub const FLAG_CACHED: u8 = 0b0000_0010;
/// Flag of any packet: a queue on the way was longer than its marking threshold.
pub const FLAG_MARKED: u8 = 0b0000_0100;
/// Flag of a Data packet: its source cannot deliver that packet; the payload is one byte with the reason. It is no
/// packet of the object, and no cache keeps it.
pub const FLAG_UNAVAILABLE: u8 = 0b0000_1000;
const FLAGS_KNOWN: u8 = 0b0000_1111;

/// The part that every packet starts with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// What follows.
    pub packet_type: PacketType,
    /// `FLAG_*`.
    pub flags: u8,
    /// Hops left.
    pub ttl: u8,
    /// Its route.
    pub fid: Fid,
}

impl Header {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    /// [`WireError`] names the field and its error.
    pub fn decode(bytes: &[u8]) -> Result<Header, WireError> {
        let fixed: &[u8; FIXED_BYTES] =
            bytes.first_chunk().ok_or(WireError::Short { field: "header", needs: FIXED_BYTES, has: bytes.len() })?;
        if fixed[0] >> 4 != VERSION {
            return Err(WireError::Version { found: fixed[0] >> 4, known: VERSION });
        }
        let packet_type = match fixed[0] & 0x0f {
            1 => PacketType::Hello,
            2 => PacketType::Beacon,
            3 => PacketType::Control,
            4 => PacketType::Request,
            5 => PacketType::Data,
            found => return Err(WireError::Value { field: "packet type", found: u64::from(found) }),
        };
        if fixed[1] & !FLAGS_KNOWN != 0 {
            return Err(WireError::Value { field: "flags", found: u64::from(fixed[1]) });
        }
        if fixed[2] > TTL_MAX {
            return Err(WireError::Value { field: "ttl", found: u64::from(fixed[2]) });
        }
        let fid = Fid::decode(&bytes[3..])?;
        Ok(Header { packet_type, flags: fixed[1], ttl: fixed[2], fid })
    }
    /// Appends the header to `out`.
    pub fn encode(&self, out: &mut alloc::vec::Vec<u8>) {
        out.extend_from_slice(&[(VERSION << 4) | self.packet_type as u8, self.flags, self.ttl]);
        self.fid.encode(out);
    }
    /// Length of the encoded header.
    #[expect(clippy::len_without_is_empty, reason = "a header is never empty")]
    pub fn len(&self) -> usize {
        3 + self.fid.encoded_len()
    }
}

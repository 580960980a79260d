//! The packets of the NDN family: packet format 0.3, NDNLPv2, and the management protocol. Parsing is total over
//! borrowed bytes: any bytes yield a packet or a [`WireError`], never a panic.
//!
//! A parsed packet re-emits byte for byte if it was in canonical form: elements in order, numbers in their shortest
//! form, no ignored elements. `is_canonical` says whether it was; a forwarder forwards the bytes that it received and
//! never its interpretation of them.
//!
//! ```text
//!  LpPacket 100                                  hop by hop: rewritten by every forwarder
//!  ├─ Sequence, FragIndex, FragCount             a piece of a packet that is longer than the MTU
//!  ├─ PitToken, Nack, CongestionMark, TxSequence, Ack, …
//!  ├─ 0x0380 PathTag … 0x0390 PathFailed         PTP; forwarders that do not know them ignore them
//!  ├─ 0x0394 MtuProbe, 0x0398 MtuAnswer          path MTU discovery; ignored likewise
//!  ├─ 0x039c BootProbe, 0x03a0 BootAnswer        boot number of a neighbour; ignored likewise
//!  └─ Fragment 80
//!     └─ Interest 5 or Data 6                    end to end: covered by digests and signatures
//! ```
// A number truncated on its way into or out of a packet would make another packet of it.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]
pub mod certificate;
pub mod control;
pub mod data;
pub mod dataset;
pub mod echo;
pub mod fragment;
#[cfg(test)]
mod golden_tests;
pub mod huffman;
pub mod interest;
pub mod lp;
pub mod name;
pub mod reliability;
pub mod secret;
pub mod signature;
pub mod spki;
pub mod tag;
pub mod tlv;

pub use certificate::{Certificate, CertificateError};
pub use control::{ControlParameters, ControlResponse};
pub use data::{ContentType, Data, MetaInfo};
pub use interest::Interest;
pub use lp::{LpPacket, NackReason, RateProbe};
pub use name::{Component, NameView};
pub use secret::{Secret, SecretError};
pub use signature::{KeyLocator, SignKey, SignatureInfo, SignatureType, ValidityPeriod, VerifyKey};
pub use tag::{PathRates, PathTag};

#[cfg(test)]
use alloc::string::String;

/// The longest packet in bytes, NDNLPv2 headers not counted. NDN packet format 0.3 leaves it to practice; every
/// forwarder in use has this number.
pub const PACKET_BYTES_MAX: usize = 8800;

/// Why bytes are not a packet.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The packet ends too early.
    #[error("packet ends inside {field}: needs {needs} bytes, has {has}")]
    Short {
        /// Which element.
        field: &'static str,
        /// Bytes that it needs.
        needs: u64,
        /// Bytes left.
        has: usize,
    },
    /// Bytes follow the end of the packet.
    #[error("{extra} bytes after the end of the packet")]
    Trailing {
        /// How many.
        extra: usize,
    },
    /// A type or length is not in its shortest form, or a type is zero or above 2³² − 1.
    #[error("type or length at byte {at} of {field} is not in its shortest form or out of range")]
    Number {
        /// The element that contains it.
        field: &'static str,
        /// Where.
        at: usize,
    },
    /// A critical element is unknown, or known and out of place.
    #[error("element of critical type {kind} is unknown or out of place in {field}")]
    Critical {
        /// The element that contains it.
        field: &'static str,
        /// Its type.
        kind: u32,
    },
    /// A required element is missing.
    #[error("{field} is missing")]
    Missing {
        /// Which element.
        field: &'static str,
    },
    /// An element has a length that it cannot have.
    #[error("{field} cannot have {bytes} bytes")]
    Length {
        /// Which element.
        field: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// An element has a value that is not legal.
    #[error("{field} cannot be {found}")]
    Value {
        /// Which element.
        field: &'static str,
        /// Its value.
        found: u64,
    },
    /// The packet is of a type that a forwarder does not handle.
    #[error("packet of type {kind} is none of Interest, Data and LpPacket")]
    Type {
        /// Its type.
        kind: u32,
    },
    /// Elements that contradict each other.
    #[error("{what}")]
    Contradiction {
        /// Their error.
        what: &'static str,
    },
}

impl WireError {
    /// A fixed phrase per kind of error, for counters.
    pub fn reason(&self) -> &'static str {
        match self {
            WireError::Short { .. } => "malformed: too short",
            WireError::Trailing { .. } => "malformed: trailing bytes",
            WireError::Number { .. } => "malformed: number not in shortest form",
            WireError::Critical { .. } => "malformed: critical element unknown or out of place",
            WireError::Missing { .. } => "malformed: element missing",
            WireError::Length { .. } => "malformed: illegal length",
            WireError::Value { .. } => "malformed: illegal value",
            WireError::Type { .. } => "malformed: neither Interest nor Data nor LpPacket",
            WireError::Contradiction { .. } => "malformed: elements contradict each other",
        }
    }
}

/// Type numbers of elements: NDN packet format 0.3 "TLV-TYPE numbers"; NDNLPv2; NFD management.
pub mod types {
    /// An Interest.
    pub const INTEREST: u32 = 5;
    /// A Data.
    pub const DATA: u32 = 6;
    /// A Name.
    pub const NAME: u32 = 7;
    /// Interest: a longer name may answer.
    pub const CAN_BE_PREFIX: u32 = 33;
    /// Interest: stale Data may not answer.
    pub const MUST_BE_FRESH: u32 = 18;
    /// Interest: names of networks where the producer can be reached.
    pub const FORWARDING_HINT: u32 = 30;
    /// Interest: distinguishes copies of one Interest from new ones.
    pub const NONCE: u32 = 10;
    /// Interest: milliseconds until it is forgotten.
    pub const INTEREST_LIFETIME: u32 = 12;
    /// Interest: hops left.
    pub const HOP_LIMIT: u32 = 34;
    /// Interest: the application's parameters.
    pub const APPLICATION_PARAMETERS: u32 = 36;
    /// Interest: how it is signed.
    pub const INTEREST_SIGNATURE_INFO: u32 = 44;
    /// Interest: the signature.
    pub const INTEREST_SIGNATURE_VALUE: u32 = 46;
    /// Data: about the content.
    pub const META_INFO: u32 = 20;
    /// Data: the content.
    pub const CONTENT: u32 = 21;
    /// Data: how it is signed.
    pub const SIGNATURE_INFO: u32 = 22;
    /// Data: the signature.
    pub const SIGNATURE_VALUE: u32 = 23;
    /// MetaInfo: the kind of content.
    pub const CONTENT_TYPE: u32 = 24;
    /// MetaInfo: milliseconds until it is stale.
    pub const FRESHNESS_PERIOD: u32 = 25;
    /// MetaInfo: the last segment's name component.
    pub const FINAL_BLOCK_ID: u32 = 26;
    /// Signature info: the algorithm.
    pub const SIGNATURE_TYPE: u32 = 27;
    /// Signature info: which key.
    pub const KEY_LOCATOR: u32 = 28;
    /// Key locator: digest of the key.
    pub const KEY_DIGEST: u32 = 29;
    /// Interest signature: random bytes.
    pub const SIGNATURE_NONCE: u32 = 38;
    /// Interest signature: milliseconds since 1970.
    pub const SIGNATURE_TIME: u32 = 40;
    /// Interest signature: a counter.
    pub const SIGNATURE_SEQUENCE: u32 = 42;
    /// Signature info of a certificate: when it counts.
    pub const VALIDITY_PERIOD: u32 = 253;
    /// Validity period: its first second.
    pub const NOT_BEFORE: u32 = 254;
    /// Validity period: its last second.
    pub const NOT_AFTER: u32 = 255;

    /// Name component without further meaning.
    pub const GENERIC: u16 = 8;
    /// Name component: SHA-256 of the complete Data.
    pub const IMPLICIT_DIGEST: u16 = 1;
    /// Name component: SHA-256 of an Interest's parameters.
    pub const PARAMETERS_DIGEST: u16 = 2;
    /// Name component: a word of the protocol. NDN naming conventions, revision 3.
    pub const KEYWORD: u16 = 32;
    /// Name component: number of a segment.
    pub const SEGMENT: u16 = 50;
    /// Name component: version.
    pub const VERSION: u16 = 54;
    /// Name component: number in a sequence.
    pub const SEQUENCE: u16 = 58;

    /// The link packet.
    pub const LP_PACKET: u32 = 100;
    /// LP: a packet or a piece of one.
    pub const LP_FRAGMENT: u32 = 80;
    /// LP: number of the piece on this link.
    pub const LP_SEQUENCE: u32 = 81;
    /// LP: number of the piece in its packet.
    pub const LP_FRAG_INDEX: u32 = 82;
    /// LP: pieces of the packet.
    pub const LP_FRAG_COUNT: u32 = 83;
    /// LP: returned with the answer as it is.
    pub const LP_PIT_TOKEN: u32 = 98;
    /// LP: the Interest is returned unanswered.
    pub const LP_NACK: u32 = 800;
    /// LP: why.
    pub const LP_NACK_REASON: u32 = 801;
    /// LP: the face on which a packet arrived, for a local application.
    pub const LP_INCOMING_FACE: u32 = 812;
    /// LP: the face that a local application selects.
    pub const LP_NEXT_HOP_FACE: u32 = 816;
    /// LP: whether to cache.
    pub const LP_CACHE_POLICY: u32 = 820;
    /// LP: which cache policy.
    pub const LP_CACHE_POLICY_TYPE: u32 = 821;
    /// LP: a queue on the way is long.
    pub const LP_CONGESTION_MARK: u32 = 832;
    /// LP: a TxSequence that arrived.
    pub const LP_ACK: u32 = 836;
    /// LP: number for acknowledgement.
    pub const LP_TX_SEQUENCE: u32 = 840;
    /// LP: self-learning.
    pub const LP_NON_DISCOVERY: u32 = 844;
    /// LP: self-learning.
    pub const LP_PREFIX_ANNOUNCEMENT: u32 = 848;
    /// LP, PTP: a stack of labels, one byte string; see [`super::tag`].
    pub const LP_PATH_TAG: u32 = 0x0380;
    /// LP, PTP: a stack of labels as bits; see [`super::huffman`].
    pub const LP_PATH_TAG_BITS: u32 = 0x0384;
    /// LP, PTP, on an Interest: go to a producer, by no cache, and bring a tag back.
    pub const LP_PATH_PROBE: u32 = 0x0388;
    /// LP, PTP, on a Data: it does not come from a producer for this Interest.
    pub const LP_PATH_ORIGIN: u32 = 0x038c;
    /// LP, PTP, on a Data or Nack: the tag could not be followed.
    pub const LP_PATH_FAILED: u32 = 0x0390;
    /// LP: probes whether a datagram of this size arrives; a number of 4 bytes, then zeros.
    pub const LP_MTU_PROBE: u32 = 0x0394;
    /// LP: it does; the number.
    pub const LP_MTU_ANSWER: u32 = 0x0398;
    /// LP: probes for the neighbour's boot number; a number of 4 bytes.
    pub const LP_BOOT_PROBE: u32 = 0x039c;
    /// LP: this one; the number of the probe, then 8 bytes that differ from start to start.
    pub const LP_BOOT_ANSWER: u32 = 0x03a0;
    /// LP, PTP, on a Data that answers a probe: the rates of the links of its tag; see [`super::tag::PathRates`].
    pub const LP_PATH_RATES: u32 = 0x03a4;
    /// LP: a packet of a train that measures the rate of the link: the train's number of 4 bytes, the packet's place in it
    /// and the last place, a byte each, then zeros.
    pub const LP_RATE_PROBE: u32 = 0x03a8;
    /// LP: the number of the train, then the time between the arrivals of its first and its last packet, 8 bytes, in
    /// ns.
    pub const LP_RATE_ANSWER: u32 = 0x03ac;
}

/// The type of the packet that `bytes` start with, if they start with one at all.
pub fn packet_type(bytes: &[u8]) -> Option<u32> {
    tlv::read_number(bytes).map(|(kind, _)| kind).and_then(|kind| u32::try_from(kind).ok())
}

/// Hex digits, for people and for tests.
#[cfg(test)]
pub(crate) fn hex(bytes: &[u8]) -> String {
    use core::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

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
    /// The packet ends too early, inside this element: the bytes that it needs, and those that are left.
    #[error("packet ends inside {0}: needs {1} bytes, has {2}")]
    Short(&'static str, u64, usize),
    /// The number of bytes behind the end of the packet.
    #[error("{0} bytes after the end of the packet")]
    Trailing(usize),
    /// A type or length in this element and at this place is not in its shortest form, or a type is zero or above
    /// 2³² − 1.
    #[error("type or length at byte {1} of {0} is not in its shortest form or out of range")]
    Number(&'static str, usize),
    /// Inside this element, a critical one of that type is unknown, or known and out of place.
    #[error("element of critical type {1} is unknown or out of place in {0}")]
    Critical(&'static str, u32),
    /// This required element is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// This element has a length that it cannot have.
    #[error("{0} cannot have {1} bytes")]
    Length(&'static str, usize),
    /// This element has a value that is not legal.
    #[error("{0} cannot be {1}")]
    Value(&'static str, u64),
    /// The packet is of this type, which a forwarder does not handle.
    #[error("packet of type {0} is none of Interest, Data and LpPacket")]
    Type(u32),
    /// Elements that contradict each other in this way.
    #[error("{0}")]
    Contradiction(&'static str),
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
    /// LP: why an Interest is returned unanswered.
    pub const LP_NACK_REASON: u32 = 801;
    /// LP: which cache policy.
    pub const LP_CACHE_POLICY_TYPE: u32 = 821;
    /// LP: a TxSequence that arrived.
    pub const LP_ACK: u32 = 836;
    /// LP: number for acknowledgement.
    pub const LP_TX_SEQUENCE: u32 = 840;
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

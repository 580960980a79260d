//! An authority's statement about one key.
use alloc::{string::String, vec::Vec};
use tributary_content::{Name, PublicKey, Signature, SigningKey};
use tributary_core::{
    printable,
    wire::{Reader, WireError, Writer},
};

use crate::{Roles, TextError, UnixTime, text};

/// The contents of a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Serial number within the authority; revocations name it.
    pub serial: u64,
    /// The node's key.
    pub key: PublicKey,
    /// The node's name, 1 to [`Certificate::LABEL_BYTES_MAX`] bytes without control characters.
    pub label: String,
    /// What the node may do for the network.
    pub roles: Roles,
    /// The names that it owns: these and all below them. At most [`Certificate::PREFIXES_MAX`], of at most
    /// [`Certificate::PREFIX_BYTES_MAX`] bytes together.
    pub prefixes: Vec<Name>,
    /// From when it is valid.
    pub not_before: UnixTime,
    /// End of validity; later than `not_before`.
    pub not_after: UnixTime,
}

/// An authority's signed statement about one key. Decoding checks the form only;
/// [`Network::admit`](crate::Network::admit) checks the signature.
///
/// Encoded, all numbers big-endian:
/// ```text
///      bytes  field
///          1  layout, 1
///          8  network: the first bytes of the authority's hash
///          8  serial number
///         32  Ed25519 key of the node
///          8  not before, Unix seconds
///          8  not after, Unix seconds
///          1  roles
///          1  bytes of the label, n
///          n  label
///          1  prefixes, p
///   p × (2+)  length and bytes (NDN components back to back) of each
///         64  signature of the authority over all bytes before it, in the context "tributary 1 certificate"
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Certificate {
    network: [u8; 8],
    terms: Terms,
    signature: Signature,
}

const CONTEXT: &str = "tributary 1 certificate";
const PREFIX: &str = "tributary-certificate:";
const LAYOUT: u8 = 1;

impl Certificate {
    /// Bytes of a label.
    pub const LABEL_BYTES_MAX: usize = 32;
    /// Prefixes of one certificate.
    pub const PREFIXES_MAX: usize = 16;
    /// Bytes of all prefixes of one certificate, each with two bytes for its length: the certificate must fit into a
    /// handshake.
    pub const PREFIX_BYTES_MAX: usize = 640;
    /// Bytes of a certificate.
    pub const BYTES_MAX: usize = 68 + Self::LABEL_BYTES_MAX + Self::PREFIX_BYTES_MAX + Signature::BYTES;

    /// Signs `terms`.
    ///
    /// # Errors
    /// [`IssueError`] if they do not keep the limits.
    pub fn issue(authority: &SigningKey, terms: Terms) -> Result<Certificate, IssueError> {
        let prefix_bytes = terms.prefixes.iter().map(|prefix| 2 + prefix.as_tlv().len()).sum::<usize>();
        if terms.label.is_empty() || terms.label.len() > Self::LABEL_BYTES_MAX {
            return Err(IssueError::Label { bytes: terms.label.len() });
        }
        if terms.label.contains(printable::is_unsafe) {
            return Err(IssueError::LabelCharacter);
        }
        if terms.prefixes.len() > Self::PREFIXES_MAX || prefix_bytes > Self::PREFIX_BYTES_MAX {
            return Err(IssueError::Prefixes { count: terms.prefixes.len(), bytes: prefix_bytes });
        }
        if terms.not_after <= terms.not_before {
            return Err(IssueError::Never);
        }
        let network = network_id(&authority.public());
        let signature = authority.sign(CONTEXT, &body(&network, &terms));
        Ok(Certificate { network, terms, signature })
    }
    /// The terms of the certificate; they hold only if the signature does.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }
    /// The first bytes of its hash, to refer to it.
    pub fn fingerprint(&self) -> [u8; 8] {
        *blake3::hash(&self.encode()).as_bytes().first_chunk().expect("a hash has 32 bytes")
    }
    /// Whether it claims to belong to this authority's network.
    pub fn is_of(&self, authority: &PublicKey) -> bool {
        self.network == network_id(authority)
    }
    /// Whether the authority has signed it. Costs a signature check.
    pub fn is_signed_by(&self, authority: &PublicKey) -> bool {
        authority.verify(CONTEXT, &body(&self.network, &self.terms), &self.signature)
    }
    /// Its bytes, up to [`Certificate::BYTES_MAX`].
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = body(&self.network, &self.terms);
        bytes.extend_from_slice(&self.signature.0);
        bytes
    }
    /// Reads the bytes of a certificate. The signature is not checked.
    ///
    /// # Errors
    /// [`WireError`] if they do not have its form.
    pub fn decode(bytes: &[u8]) -> Result<Certificate, WireError> {
        let mut reader = Reader::new(bytes);
        let layout = reader.u8("layout")?;
        if layout != LAYOUT {
            return Err(WireError::Version { found: layout, known: LAYOUT });
        }
        let network = reader.array("network")?;
        let serial = reader.u64("serial")?;
        let key = PublicKey(reader.array("key")?);
        let (not_before, not_after) = (UnixTime(reader.u64("not before")?), UnixTime(reader.u64("not after")?));
        if not_after <= not_before {
            return Err(WireError::Value { field: "not after", found: not_after.0 });
        }
        let bits = reader.u8("roles")?;
        let roles = Roles::from_bits(bits).ok_or(WireError::Value { field: "roles", found: bits.into() })?;
        let length = reader.u8("label")?;
        let illegal = WireError::Value { field: "label", found: length.into() };
        let label = core::str::from_utf8(reader.bytes("label", length.into())?).map_err(|_| illegal)?;
        if label.is_empty() || label.len() > Self::LABEL_BYTES_MAX || label.contains(printable::is_unsafe) {
            return Err(illegal);
        }
        let count = reader.u8("prefixes")?;
        if usize::from(count) > Self::PREFIXES_MAX {
            return Err(WireError::Value { field: "prefixes", found: count.into() });
        }
        let mut room = Self::PREFIX_BYTES_MAX;
        let mut prefixes = Vec::with_capacity(count.into());
        for _ in 0..count {
            let tlv = reader.blob("prefix", room.saturating_sub(2))?;
            room = room.saturating_sub(2 + tlv.len());
            let illegal = WireError::Value { field: "prefix", found: tlv.len() as u64 };
            prefixes.push(Name::from_tlv(tlv.to_vec()).map_err(|_| illegal)?);
        }
        let signature = Signature(reader.array("signature")?);
        reader.end()?;
        let terms = Terms { serial, key, label: label.into(), roles, prefixes, not_before, not_after };
        Ok(Certificate { network, terms, signature })
    }
    /// As one line of text: `tributary-certificate:` and hex digits.
    pub fn to_text(&self) -> String {
        text::write(PREFIX, &self.encode())
    }
    /// Parses the output of [`Certificate::to_text`].
    ///
    /// # Errors
    /// [`TextError`] if it is something else.
    pub fn from_text(text: &str) -> Result<Certificate, TextError> {
        Ok(Certificate::decode(&text::read(PREFIX, text, Self::BYTES_MAX)?)?)
    }
}

/// Limits that terms do not keep.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IssueError {
    /// The label is empty or too long.
    #[error("the label has {bytes} bytes; it may have 1 to {}", Certificate::LABEL_BYTES_MAX)]
    Label {
        /// Its bytes.
        bytes: usize,
    },
    /// The label would disturb terminals.
    #[error("the label holds a control character, or one that changes the direction of text")]
    LabelCharacter,
    /// There are too many prefixes, or they are too long.
    #[error(
        "{count} name prefixes of {bytes} bytes together; a certificate carries at most {} of {} bytes",
        Certificate::PREFIXES_MAX,
        Certificate::PREFIX_BYTES_MAX
    )]
    Prefixes {
        /// How many.
        count: usize,
        /// Their bytes.
        bytes: usize,
    },
    /// It would never be valid.
    #[error("the certificate would end before it begins")]
    Never,
}

/// What certificates and revocations call the network of an authority.
pub(crate) fn network_id(authority: &PublicKey) -> [u8; 8] {
    let hash = blake3::derive_key("tributary 1 network id", &authority.0);
    *hash.first_chunk().expect("a hash has 32 bytes")
}

fn body(network: &[u8; 8], terms: &Terms) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(Certificate::BYTES_MAX);
    bytes.push(LAYOUT);
    bytes.extend_from_slice(network);
    bytes.extend_from_slice(&terms.serial.to_be_bytes());
    bytes.extend_from_slice(&terms.key.0);
    bytes.extend_from_slice(&terms.not_before.0.to_be_bytes());
    bytes.extend_from_slice(&terms.not_after.0.to_be_bytes());
    bytes.push(terms.roles.bits());
    bytes.put_count8(terms.label.len());
    bytes.extend_from_slice(terms.label.as_bytes());
    bytes.put_count8(terms.prefixes.len());
    for prefix in &terms.prefixes {
        bytes.put_count16(prefix.as_tlv().len());
        bytes.extend_from_slice(prefix.as_tlv());
    }
    bytes
}

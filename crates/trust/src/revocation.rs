//! Certificates that an authority has revoked.
use alloc::{collections::BTreeSet, string::String, vec::Vec};
use tributary_content::{PublicKey, Signature, SigningKey};
use tributary_core::wire::{Reader, WireError, Writer};

use crate::{TextError, certificate::network_id, text};

/// A numbered list of an authority's revocations. A list with a higher number replaces the other.
///
/// Encoded: layout 1 (1 byte), network (8), number (8), serial numbers (2-byte count, 8 each), keys (2-byte count, 32
/// each), both in ascending order, signature (64) over all before it in the context "tributary 1 revocations".
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Revocations {
    network: [u8; 8],
    number: u64,
    serials: BTreeSet<u64>,
    keys: BTreeSet<PublicKey>,
    signature: Signature,
}

const CONTEXT: &str = "tributary 1 revocations";
const PREFIX: &str = "tributary-revocations:";
const LAYOUT: u8 = 1;

impl Revocations {
    /// Serial numbers, and likewise keys, of one list.
    pub const ENTRIES_MAX: usize = 10_000;
    /// Bytes of a list.
    pub const BYTES_MAX: usize = 21 + Self::ENTRIES_MAX * (8 + 32) + Signature::BYTES;

    /// Signs list number `number`.
    ///
    /// # Errors
    /// [`RevocationsError`] if it is too long.
    pub fn issue(
        authority: &SigningKey,
        number: u64,
        serials: BTreeSet<u64>,
        keys: BTreeSet<PublicKey>,
    ) -> Result<Revocations, RevocationsError> {
        let entries = serials.len().max(keys.len());
        if entries > Self::ENTRIES_MAX {
            return Err(RevocationsError { entries });
        }
        let network = network_id(&authority.public());
        let signature = authority.sign(CONTEXT, &body(&network, number, &serials, &keys));
        Ok(Revocations { network, number, serials, keys, signature })
    }
    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }
    /// The serial numbers of certificates that are revoked.
    pub fn serials(&self) -> &BTreeSet<u64> {
        &self.serials
    }
    /// Keys whose certificates are all revoked.
    pub fn keys(&self) -> &BTreeSet<PublicKey> {
        &self.keys
    }
    /// Whether the authority has signed it.
    pub fn is_signed_by(&self, authority: &PublicKey) -> bool {
        let body = body(&self.network, self.number, &self.serials, &self.keys);
        self.network == network_id(authority) && authority.verify(CONTEXT, &body, &self.signature)
    }
    /// Whether a certificate with this serial number of this key is revoked.
    pub fn revokes(&self, serial: u64, key: &PublicKey) -> bool {
        self.serials.contains(&serial) || self.keys.contains(key)
    }
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = body(&self.network, self.number, &self.serials, &self.keys);
        bytes.extend_from_slice(&self.signature.0);
        bytes
    }
    /// Reads its bytes. The signature is not checked.
    ///
    /// # Errors
    /// [`WireError`] if they do not have its form.
    pub fn decode(bytes: &[u8]) -> Result<Revocations, WireError> {
        let mut reader = Reader::new(bytes);
        let layout = reader.u8("layout")?;
        if layout != LAYOUT {
            return Err(WireError::Version { found: layout, known: LAYOUT });
        }
        let network = reader.array("network")?;
        let number = reader.u64("number")?;
        let serials = ascending(&mut reader, "serials", |reader| reader.u64("serial"))?;
        let keys = ascending(&mut reader, "keys", |reader| reader.array("key").map(PublicKey))?;
        let signature = Signature(reader.array("signature")?);
        reader.end()?;
        Ok(Revocations { network, number, serials, keys, signature })
    }
    /// As one line of text: `tributary-revocations:` and hex digits.
    pub fn to_text(&self) -> String {
        text::write(PREFIX, &self.encode())
    }
    /// Parses the output of [`Revocations::to_text`].
    ///
    /// # Errors
    /// [`TextError`] if it is something else.
    pub fn from_text(text: &str) -> Result<Revocations, TextError> {
        Ok(Revocations::decode(&text::read(PREFIX, text, Self::BYTES_MAX)?)?)
    }
}

/// A list that is too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{entries} revoked certificates; a list holds at most {}: issue certificates that end sooner, or begin a new network",
    Revocations::ENTRIES_MAX
)]
pub struct RevocationsError {
    /// How many entries it would have.
    pub entries: usize,
}

/// A counted list in strictly ascending order, so that equal lists have equal bytes.
fn ascending<T: Ord + Copy>(
    reader: &mut Reader<'_>,
    field: &'static str,
    mut one: impl FnMut(&mut Reader<'_>) -> Result<T, WireError>,
) -> Result<BTreeSet<T>, WireError> {
    let count = reader.u16(field)?;
    let illegal = WireError::Value { field, found: count.into() };
    if usize::from(count) > Revocations::ENTRIES_MAX {
        return Err(illegal);
    }
    let mut entries = BTreeSet::new();
    for _ in 0..count {
        let entry = one(reader)?;
        if entries.last().is_some_and(|last| *last >= entry) {
            return Err(illegal);
        }
        entries.insert(entry);
    }
    Ok(entries)
}

fn body(network: &[u8; 8], number: u64, serials: &BTreeSet<u64>, keys: &BTreeSet<PublicKey>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(21 + serials.len() * 8 + keys.len() * 32);
    bytes.push(LAYOUT);
    bytes.extend_from_slice(network);
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.put_count16(serials.len());
    serials.iter().for_each(|serial| bytes.extend_from_slice(&serial.to_be_bytes()));
    bytes.put_count16(keys.len());
    keys.iter().for_each(|key| bytes.extend_from_slice(&key.0));
    bytes
}

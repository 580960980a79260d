//! Hashes of chunks and objects.
use core::{fmt, str::FromStr};

use crate::hex;

/// A BLAKE3 hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// Bytes of a hash.
    pub const BYTES: usize = 32;
}
impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::show(&self.0, f)
    }
}
impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

/// Identifies the bytes of an object ([`Manifest::object_id`](crate::Manifest::object_id)), or one publication of them
/// ([`Manifest::publication_id`](crate::Manifest::publication_id)): the first 16 bytes of a BLAKE3 hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ObjectId(pub [u8; 16]);

impl ObjectId {
    /// The id of the publication whose encoded manifest is `manifest`.
    pub fn of_publication(manifest: &[u8]) -> Self {
        ObjectId(*blake3::hash(manifest).as_bytes().first_chunk().expect("16 of 32 bytes"))
    }
    /// The id of `size` bytes in chunks of `chunk_size` whose hash tree has this root.
    pub fn of_bytes(size: u64, chunk_size: u32, root: &Hash) -> Self {
        let mut encoded = [0; 8 + 4 + Hash::BYTES];
        encoded[..8].copy_from_slice(&size.to_be_bytes());
        encoded[8..12].copy_from_slice(&chunk_size.to_be_bytes());
        encoded[12..].copy_from_slice(&root.0);
        ObjectId(*blake3::keyed_hash(OBJECT_DOMAIN, &encoded).as_bytes().first_chunk().expect("16 of 32 bytes"))
    }
}
impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::show(&self.0, f)
    }
}
impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({self})")
    }
}
impl FromStr for ObjectId {
    type Err = ObjectIdError;
    fn from_str(text: &str) -> Result<Self, ObjectIdError> {
        let mut id = [0; 16];
        hex::decode(text, &mut id).ok_or(ObjectIdError)?;
        Ok(ObjectId(id))
    }
}

/// Text that is not an object id.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an object id has 32 hex digits")]
pub struct ObjectIdError;

/// The hash of one chunk: a leaf of the [`HashTree`](crate::HashTree).
///
/// Keyed BLAKE3 with a fixed public key, so that a chunk is never mistaken for an inner node or for other hashed data,
/// at BLAKE3's full speed because the chunk is contiguous.
pub fn chunk_hash(chunk: &[u8]) -> Hash {
    Hash(*blake3::keyed_hash(CHUNK_DOMAIN, chunk).as_bytes())
}
/// A number that cannot be guessed without `secret`; different inputs collide only by chance.
pub fn secret_number(secret: &[u8; 32], of: [u64; 3]) -> u64 {
    let drawn = blake3::keyed_hash(secret, of.map(u64::to_be_bytes).as_flattened());
    u64::from_be_bytes(*drawn.as_bytes().first_chunk().expect("8 of 32 bytes"))
}
/// The hash of an inner node of the tree.
pub(crate) fn node_hash(left: &Hash, right: &Hash) -> Hash {
    let mut pair = [0; 64];
    pair[..32].copy_from_slice(&left.0);
    pair[32..].copy_from_slice(&right.0);
    Hash(*blake3::keyed_hash(NODE_DOMAIN, &pair).as_bytes())
}
/// The root of an object without chunks.
pub(crate) fn empty_root() -> Hash {
    Hash(*blake3::keyed_hash(NODE_DOMAIN, &[]).as_bytes())
}

const OBJECT_DOMAIN: &[u8; 32] = b"tributary object: size and root ";
const CHUNK_DOMAIN: &[u8; 32] = b"tributary hash tree 1: chunk    ";
const NODE_DOMAIN: &[u8; 32] = b"tributary hash tree 1: node     ";

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_chunk_is_never_taken_for_an_inner_node() {
        let (a, b) = (chunk_hash(b"a"), chunk_hash(b"b"));
        let pair = [a.0, b.0].concat();
        assert_ne!(chunk_hash(&pair), node_hash(&a, &b));
        assert_ne!(chunk_hash(b""), empty_root());
        assert_ne!(chunk_hash(b"a").0, *blake3::hash(b"a").as_bytes());
    }

    #[test]
    fn golden_secret_numbers() {
        let numbers = [(1, [1, 2, 3]), (1, [1, 2, 4]), (2, [1, 2, 3])];
        let drawn = numbers.map(|(secret, of)| secret_number(&[secret; 32], of));
        assert_eq!(drawn, [1_305_667_032_149_634_888, 11_247_336_152_215_398_234, 2_433_086_183_896_248_129]);
    }

    #[test]
    fn ids_are_shown_in_hex_and_read_back() {
        let id = ObjectId::of_publication(b"x");
        assert_eq!(id.to_string().len(), 32);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!("xyz".parse::<ObjectId>(), Err(ObjectIdError));
        assert_eq!("0".repeat(31).parse::<ObjectId>(), Err(ObjectIdError));
        assert_eq!("+0".repeat(16).parse::<ObjectId>(), Err(ObjectIdError));
    }
}

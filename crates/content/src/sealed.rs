//! Chunks that only readers can open.
//!
//! A sealed object is an ordinary object: its chunks are sealed before they are hashed, so that sources, caches, stores
//! and mirrors hold and verify bytes that they cannot read.
//! ```text
//!   plain     | piece 0, chunk size - 16 | piece 1                  | … | last piece: the rest |
//!                         │ AES-256-GCM, nonce: index and whether it is the last
//!   sealed    | piece 0          | tag 16 | piece 1         | tag 16 | … | last piece     | tag 16 |
//!             └──────── chunk 0 ─────────┘                              └──── last chunk ────┘
//! ```
//! This is the STREAM construction (Hoang, Reyhanitabar, Rogaway, Vizár: "Online authenticated encryption and its
//! nonce-reuse misuse-resistance", 2015): a chunk at another place, of another object or behind a cut does not open. An
//! empty object is one chunk, a tag alone.
//!
//! AES-256-GCM by `ring` takes half the CPU time of ChaCha20-Poly1305 on processors with AES instructions, and secure
//! faces use it too. Its first weakness, a repeated nonce, cannot occur: each version of each object has its own random
//! key. The key's [commitment](ObjectKey::commitment) removes the second, that a ciphertext may open under two keys.
use core::fmt;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroize;

use crate::{ChunkIndex, Hash, Manifest};

/// Bytes that sealing adds to each chunk.
pub const TAG_BYTES: u32 = 16;

/// The secret of one version of one sealed object. It is wiped from memory when dropped, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ObjectKey([u8; 32]);

impl ObjectKey {
    /// Bytes of a key.
    pub const BYTES: usize = 32;

    /// The key made of 32 secret bytes, which must come from a good source of entropy and serve one version of one object.
    pub fn from_secret(secret: [u8; Self::BYTES]) -> Self {
        ObjectKey(secret)
    }
    /// The secret bytes.
    pub fn secret(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
    /// Identifies the key and reveals nothing else about it; two keys with the same commitment cannot be found.
    pub fn commitment(&self) -> Hash {
        Hash(blake3::derive_key("tributary sealed object v1: commitment to its key", &self.0))
    }
}
impl Drop for ObjectKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}
impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectKey(committed to by {})", self.commitment())
    }
}

/// Seals and opens the chunks of one object.
pub struct ChunkCipher {
    key: LessSafeKey,
    last: u32,
}

impl ChunkCipher {
    /// For an object of `chunks` chunks, at least one.
    pub fn new(key: &ObjectKey, chunks: u32) -> Self {
        let mut secret = blake3::derive_key("tributary sealed object v1: key of its chunks", &key.0);
        let unbound = UnboundKey::new(&AES_256_GCM, &secret).expect("a key of AES-256 has 32 bytes");
        secret.zeroize();
        ChunkCipher { key: LessSafeKey::new(unbound), last: chunks.saturating_sub(1) }
    }
    /// For the object of `manifest`, which is sealed.
    pub fn of(key: &ObjectKey, manifest: &Manifest) -> Self {
        Self::new(key, manifest.chunk_count())
    }
    /// Seals a chunk in place: its plain bytes, and behind them [`TAG_BYTES`] bytes of any value.
    ///
    /// # Panics
    /// If `chunk` is shorter than a tag.
    pub fn seal(&self, index: ChunkIndex, chunk: &mut [u8]) {
        let (plain, room) = chunk.split_at_mut(chunk.len() - TAG_BYTES as usize);
        let tag = self.key.seal_in_place_separate_tag(self.nonce(index), Aad::empty(), plain);
        room.copy_from_slice(tag.expect("a chunk is shorter than 64 GiB").as_ref());
    }
    /// Opens a chunk in place; returns its plain bytes.
    ///
    /// # Errors
    /// [`NotSealed`] if it was not sealed with this key as this chunk of an object of as many chunks.
    pub fn open<'a>(&self, index: ChunkIndex, chunk: &'a mut [u8]) -> Result<&'a [u8], NotSealed> {
        let opened = self.key.open_in_place(self.nonce(index), Aad::empty(), chunk);
        opened.map(|plain| &*plain).map_err(|_| NotSealed { chunk: index.0 })
    }
    /// Seals all bytes of an object, for chunks of `chunk_size` bytes.
    #[cfg(test)]
    fn seal_all(key: &ObjectKey, plain: &[u8], chunk_size: u32) -> alloc::vec::Vec<u8> {
        let step = (chunk_size - TAG_BYTES) as usize;
        let count = u32::try_from(plain.len().div_ceil(step).max(1)).expect("objects have at most 65,536 chunks");
        let cipher = ChunkCipher::new(key, count);
        let mut sealed = alloc::vec::Vec::with_capacity(plain.len() + count as usize * TAG_BYTES as usize);
        for index in 0..count {
            let from = (index as usize * step).min(plain.len());
            let start = sealed.len();
            sealed.extend_from_slice(&plain[from..plain.len().min(from + step)]);
            sealed.resize(sealed.len() + TAG_BYTES as usize, 0);
            cipher.seal(ChunkIndex(index), &mut sealed[start..]);
        }
        sealed
    }
    /// ```text
    ///   0 × 7 | index, 4 bytes, big-endian | 1 for the last chunk, else 0
    /// ```
    fn nonce(&self, index: ChunkIndex) -> Nonce {
        let mut nonce = [0; 12];
        nonce[7..11].copy_from_slice(&index.0.to_be_bytes());
        nonce[11] = u8::from(index.0 == self.last);
        Nonce::assume_unique_for_key(nonce)
    }
}
impl fmt::Debug for ChunkCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkCipher").field("last", &self.last).finish_non_exhaustive()
    }
}

/// A chunk that does not open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("chunk {chunk} was not sealed with the key of this object")]
pub struct NotSealed {
    /// Its number.
    pub chunk: u32,
}

/// Size of a sealed object with `plain` bytes of content; `chunk_size` is above [`TAG_BYTES`]. Saturates.
pub fn sealed_size(plain: u64, chunk_size: u32) -> u64 {
    let chunks = plain.div_ceil(u64::from(chunk_size - TAG_BYTES)).max(1);
    chunks.saturating_mul(u64::from(TAG_BYTES)).saturating_add(plain)
}
/// The reverse of [`sealed_size`]; `None` for a size that no sealed object has.
pub fn plain_size(sealed: u64, chunk_size: u32) -> Option<u64> {
    let chunks = sealed.div_ceil(u64::from(chunk_size));
    let plain = sealed.checked_sub(chunks.checked_mul(u64::from(TAG_BYTES))?)?;
    (sealed_size(plain, chunk_size) == sealed).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HashTree, MemoryObject, ObjectKind, SigningKey, chunk_hash, store::ObjectReader};
    use alloc::{vec, vec::Vec};
    use proptest::prelude::*;

    const CHUNK: u32 = 1024;

    fn key(byte: u8) -> ObjectKey {
        ObjectKey::from_secret([byte; 32])
    }
    fn pattern(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at / 3) as u8).collect()
    }
    fn opened(key: &ObjectKey, sealed: &[u8], chunk_size: u32) -> Result<Vec<u8>, NotSealed> {
        let count = sealed.len().div_ceil(chunk_size as usize) as u32;
        let cipher = ChunkCipher::new(key, count);
        let mut plain = Vec::new();
        for (index, chunk) in (0..).map(ChunkIndex).zip(sealed.chunks(chunk_size as usize)) {
            plain.extend_from_slice(cipher.open(index, &mut chunk.to_vec())?);
        }
        Ok(plain)
    }

    /// The layout in bytes, computed by another implementation as well (AES-256-GCM of Python's `cryptography`, keys by the
    /// `derive_key` of the BLAKE3 reference).
    #[test]
    fn golden_chunks_are_sealed_byte_for_byte() {
        let hex =
            |bytes: &[u8]| bytes.iter().map(|byte| alloc::format!("{byte:02x}")).collect::<alloc::string::String>();
        let cipher = ChunkCipher::new(&key(7), 2);
        let mut chunks = [[&b"first piece"[..], &[0; 16]].concat(), [&b"the rest"[..], &[0; 16]].concat()];
        for (index, chunk) in chunks.iter_mut().enumerate() {
            cipher.seal(ChunkIndex(index as u32), chunk);
        }
        assert_eq!(hex(&key(7).commitment().0), GOLDEN_COMMITMENT);
        assert_eq!([hex(&chunks[0]), hex(&chunks[1])], GOLDEN_CHUNKS);
    }
    const GOLDEN_COMMITMENT: &str = "d07e32fa888e6bce3dc601b8c27c5c3b72f5517dd62d13c1158fc1b2f762c0b4";
    const GOLDEN_CHUNKS: [&str; 2] =
        ["41f6c22cec987df5de725c1d24b79ed1eba2b6e9e8203c6186db6a", "6ce0f61cfad7075cc6da9790dc2fff19e6309817f9361a3e"];

    #[test]
    fn an_empty_object_is_a_tag_and_sizes_follow_from_each_other() {
        for (plain, sealed) in [(0, 16), (1, 17), (1008, 1024), (1009, 1041), (2016, 2048), (2017, 2065)] {
            assert_eq!((sealed_size(plain, CHUNK), plain_size(sealed, CHUNK)), (sealed, Some(plain)));
        }
        for sealed in [0, 1, 15, 1025, 1039, 1040, 2049, 2064] {
            assert_eq!(plain_size(sealed, CHUNK), None, "{sealed}");
        }
        for sealed in u64::MAX - 5000..=u64::MAX {
            assert!(plain_size(sealed, CHUNK).is_none_or(|plain| sealed_size(plain, CHUNK) == sealed));
        }
    }

    #[test]
    fn what_is_cut_reordered_swapped_or_under_another_key_does_not_open() {
        let plain = pattern(4000);
        let sealed = ChunkCipher::seal_all(&key(1), &plain, CHUNK);
        assert!(opened(&key(1), &sealed, CHUNK) == Ok(plain.clone()));
        assert_eq!(opened(&key(2), &sealed, CHUNK), Err(NotSealed { chunk: 0 }));
        // Cut at a chunk, the last one that is left was not sealed as the last.
        assert_eq!(opened(&key(1), &sealed[..2048], CHUNK), Err(NotSealed { chunk: 1 }));
        assert_eq!(opened(&key(1), &sealed[..sealed.len() - 1], CHUNK), Err(NotSealed { chunk: 3 }));
        let longer = [&sealed[..3072], &sealed[2048..3072], &sealed[3072..]].concat();
        assert_eq!(opened(&key(1), &longer, CHUNK), Err(NotSealed { chunk: 3 }));
        let mut reordered = sealed.clone();
        reordered[..2048].rotate_left(1024);
        assert_eq!(opened(&key(1), &reordered, CHUNK), Err(NotSealed { chunk: 0 }));
        let other = ChunkCipher::seal_all(&key(3), &plain, CHUNK);
        let swapped = [&sealed[..1024], &other[1024..2048], &sealed[2048..]].concat();
        assert_eq!(opened(&key(1), &swapped, CHUNK), Err(NotSealed { chunk: 1 }));
        assert!(ChunkCipher::new(&key(1), 1).open(ChunkIndex(0), &mut [0; 15]).is_err(), "shorter than a tag");
    }

    #[test]
    fn a_sealed_object_is_verified_by_everybody_and_shows_nothing() {
        let signing = SigningKey::from_secret(&[9; 32]);
        let plain = pattern(5000);
        let object = |sealed: Vec<u8>| {
            MemoryObject::with_options("/x".parse().expect("a name"), sealed, &signing, 1, ObjectKind::File, CHUNK)
        };
        let sealed = ChunkCipher::seal_all(&key(1), &plain, CHUNK);
        let mut published = object(sealed.clone()).expect("legal").sealed(&signing).expect("its size fits");
        let manifest = Manifest::decode(&published.manifest().encode()).expect("it is signed");
        assert!(manifest.is_sealed && manifest.plain_size() == 5000 && manifest.size == 5080);
        let tree = HashTree::decode(&manifest, &published.tree()).expect("it is right");
        for index in (0..manifest.chunk_count()).map(ChunkIndex) {
            assert!(tree.verify_chunk(index, &published.read_chunk(index).expect("there")));
        }
        assert!(!sealed.windows(8).any(|window| plain.windows(8).any(|of| of == window)));
        assert!(object(vec![0; 1030]).expect("legal").sealed(&signing).is_err(), "no sealed object has this size");
        assert_ne!(chunk_hash(&sealed), chunk_hash(&plain));
    }

    proptest! {
        #[test]
        fn ranges_of_plain_bytes_are_in_the_chunks_that_are_named(
            length in 0usize..6000, chunk_size in 1024u32..2000, from in 0u64..7000, bytes in 0u64..7000,
        ) {
            let (plain, signing) = (pattern(length), SigningKey::from_secret(&[9; 32]));
            let sealed = ChunkCipher::seal_all(&key(1), &plain, chunk_size);
            prop_assert_eq!(sealed.len() as u64, sealed_size(length as u64, chunk_size));
            let name = "/x".parse().expect("a name");
            let published = MemoryObject::with_options(name, sealed, &signing, 1, ObjectKind::File, chunk_size);
            let mut published = published.expect("legal").sealed(&signing).expect("its size fits");
            let manifest = published.manifest().clone();
            prop_assert_eq!(manifest.plain_size(), length as u64);
            let chunks = manifest.chunks_of_plain(from..from + bytes);
            let cipher = ChunkCipher::of(&key(1), &manifest);
            let first = u64::from(chunks.start) * u64::from(manifest.plain_chunk_size());
            let mut got = Vec::new();
            for index in chunks.map(ChunkIndex) {
                let mut chunk = published.read_chunk(index).expect("there").to_vec();
                got.extend_from_slice(cipher.open(index, &mut chunk).expect("it is ours"));
            }
            let oracle = plain.get(from.min(length as u64) as usize..(from + bytes).min(length as u64) as usize);
            let oracle = oracle.unwrap_or_default();
            let skip = if oracle.is_empty() { 0 } else { (from - first) as usize };
            prop_assert_eq!(&got[skip..skip + oracle.len()], oracle);
            prop_assert!(got.len() < oracle.len() + 2 * manifest.plain_chunk_size() as usize);
        }

        #[test]
        fn sizes_that_are_taken_are_those_that_sealing_gives(sealed in 0u64..20_000, chunk_size in 1024u32..3000) {
            let made = (0..20_000u64).any(|plain| sealed_size(plain, chunk_size) == sealed);
            prop_assert_eq!(plain_size(sealed, chunk_size).is_some(), made);
        }
    }
}

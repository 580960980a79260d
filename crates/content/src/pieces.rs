//! Pieces cut by content: a receiver finds bytes of a new version among its files by them.
//!
//! ```text
//!   old  │ a │  b  │ c │    d    │            An edit shifts all later chunks, and changes one piece.
//!   new  │ a │ b' │ c │    d    │
//! ```
//! Chunks remain the unit of requests and verification. The list of pieces is only a hint: a chunk made of local pieces
//! counts if its hash is the one in the tree.
use alloc::vec::Vec;
use core::{fmt, ops::Range};

use crate::{Hash, Manifest, ManifestError};

/// Where the bytes of an object are cut (FastCDC: <https://www.usenix.org/conference/atc16/technical-sessions/presentation/xia>).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PieceSizes {
    /// Bytes of the shortest piece but the last.
    pub min: u32,
    /// Bytes of a piece on average, about.
    pub average: u32,
    /// Bytes of the longest piece.
    pub max: u32,
}

impl PieceSizes {
    /// The sizes for an object of `size` bytes: 32 KiB on average, doubled until there are at most about 65,536 pieces;
    /// `None` below 1 MiB, where an edit changes most of the few chunks anyway.
    pub fn of(size: u64) -> Option<PieceSizes> {
        if size < 1 << 20 {
            return None;
        }
        let mut average = 32 << 10;
        while average < 4 << 20 && size > u64::from(Manifest::CHUNKS_MAX) * u64::from(average) {
            average *= 2;
        }
        Some(PieceSizes { min: average / 4, average, max: average * 4 })
    }
    fn are_legal(self) -> bool {
        (1 << 10..=4 << 20).contains(&self.average)
            && (64..=1 << 20).contains(&self.min)
            && self.max <= 16 << 20
            && self.min < self.average
            && self.average < self.max
    }
}

/// What a manifest says of the pieces of its object. Their list follows the leaves of the hash tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pieces {
    /// Their sizes.
    pub sizes: PieceSizes,
    /// How many there are, up to [`Pieces::COUNT_MAX`].
    pub count: u32,
    /// The hash of their encoded list.
    pub list: Hash,
}

impl Pieces {
    /// Maximum pieces of an object.
    pub const COUNT_MAX: u32 = 4 * Manifest::CHUNKS_MAX;
    /// Bytes of the fields in a manifest.
    pub(crate) const BYTES: usize = 4 * 4 + Hash::BYTES;

    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        let PieceSizes { min, average, max } = self.sizes;
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice([min, average, max, self.count].map(u32::to_be_bytes).as_flattened());
        bytes[16..].copy_from_slice(&self.list.0);
        bytes
    }
    pub(crate) fn decode(bytes: &[u8; Self::BYTES]) -> Pieces {
        let number = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let mut list = Hash([0; Hash::BYTES]);
        list.0.copy_from_slice(&bytes[16..]);
        let sizes = PieceSizes { min: number(0), average: number(4), max: number(8) };
        Pieces { sizes, count: number(12), list }
    }
    /// Whether an object of `size` bytes can have these.
    pub(crate) fn check(&self, size: u64) -> Result<(), ManifestError> {
        let fewest = size.div_ceil(u64::from(self.sizes.max.max(1)));
        let most = size.div_ceil(u64::from(self.sizes.min.max(1))).min(u64::from(Self::COUNT_MAX));
        match self.sizes.are_legal() && (fewest..=most).contains(&u64::from(self.count)) {
            true => Ok(()),
            false => Err(ManifestError::Pieces { count: self.count, size }),
        }
    }
}

/// One piece: its hash, and its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Piece {
    /// The hash of its bytes.
    pub hash: PieceHash,
    /// Their number.
    pub len: u32,
}

impl Piece {
    /// Bytes of an encoded piece.
    pub const BYTES: usize = 16;

    /// The piece of these bytes.
    pub fn of(bytes: &[u8]) -> Piece {
        let hash = blake3::keyed_hash(PIECE_DOMAIN, bytes);
        let hash = PieceHash(*hash.as_bytes().first_chunk().expect("12 of 32 bytes"));
        Piece { hash, len: u32::try_from(bytes.len()).unwrap_or(u32::MAX) }
    }
    fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..12].copy_from_slice(&self.hash.0);
        bytes[12..].copy_from_slice(&self.len.to_be_bytes());
        bytes
    }
    fn decode(bytes: &[u8; Self::BYTES]) -> Piece {
        let (hash, len) = bytes.split_first_chunk::<12>().expect("12 of 16 bytes");
        Piece { hash: PieceHash(*hash), len: u32::from_be_bytes([len[0], len[1], len[2], len[3]]) }
    }
}

/// A hash that finds a piece. It proves nothing: users of a piece verify its chunk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PieceHash(pub [u8; 12]);

impl fmt::Debug for PieceHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::hex::show(&self.0, f)
    }
}

/// The list of an object's pieces, in their order, and what a manifest says of it.
pub fn list_pieces(sizes: PieceSizes, pieces: &[Piece]) -> (Pieces, Vec<u8>) {
    let list: Vec<u8> = pieces.iter().flat_map(Piece::encode).collect();
    let count = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
    (Pieces { sizes, count, list: list_hash(&list) }, list)
}
/// The hash of an encoded list.
pub(crate) fn list_hash(list: &[u8]) -> Hash {
    Hash(*blake3::keyed_hash(LIST_DOMAIN, list).as_bytes())
}
/// The pieces of an encoded list with their places in the object.
pub(crate) fn places(list: &[u8]) -> impl Iterator<Item = (Range<u64>, PieceHash)> {
    let mut at = 0;
    list.as_chunks::<{ Piece::BYTES }>().0.iter().map(move |piece| {
        let Piece { hash, len } = Piece::decode(piece);
        let start = at;
        at += u64::from(len);
        (start..at, hash)
    })
}

const PIECE_DOMAIN: &[u8; 32] = b"tributary piece cut by content  ";
const LIST_DOMAIN: &[u8; 32] = b"tributary list of pieces        ";

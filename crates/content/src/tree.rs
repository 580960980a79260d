//! The hash tree over the chunks of an object.
use alloc::vec::Vec;
use bytes::Bytes;
use core::ops::Range;

use crate::{
    ChunkIndex, Hash, Manifest, PieceHash,
    hash::{chunk_hash, empty_root, node_hash},
    pieces,
};

/// The hashes of all chunks, checked against the root that a manifest signs.
///
/// ```text
///            root                 A node without a sibling moves up as it is.
///           /    \                The root of one chunk is its leaf; of none, a fixed hash.
///        n01      l2
///       /   \       \
///     l0     l1      l2           leaves: chunk_hash of each chunk
/// ```
/// The list of pieces, if the manifest has one, travels behind the leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HashTree {
    /// The leaves, and the list of pieces behind them.
    encoded: Bytes,
    chunks: u32,
    root: Hash,
}

impl HashTree {
    /// The tree over these leaves, in the order of the chunks.
    pub fn from_leaves(leaves: Vec<Hash>) -> Self {
        Self::with_pieces(leaves, &[])
    }
    /// The tree over these leaves, and an encoded list of pieces ([`list_pieces`](crate::list_pieces)).
    pub fn with_pieces(leaves: Vec<Hash>, list: &[u8]) -> Self {
        let root = fold(&leaves, |_| ());
        let encoded = leaves.iter().flat_map(|leaf| leaf.0).chain(list.iter().copied()).collect();
        HashTree { encoded, chunks: u32::try_from(leaves.len()).unwrap_or(u32::MAX), root }
    }
    /// The same tree, for a manifest without pieces.
    #[must_use]
    pub fn without_pieces(self) -> Self {
        HashTree { encoded: self.encoded.slice(..self.chunks as usize * Hash::BYTES), ..self }
    }
    /// Reads the tree of an object from an untrusted source.
    ///
    /// # Errors
    /// [`TreeError`] if it has not [`Manifest::tree_bytes`] bytes, or root or list of pieces are not the manifest's.
    pub fn decode(manifest: &Manifest, bytes: &[u8]) -> Result<Self, TreeError> {
        let need = manifest.tree_bytes();
        if bytes.len() as u64 != need {
            return Err(TreeError::Length { need, have: bytes.len() });
        }
        let (leaves, list) = bytes.split_at(bytes.len() - manifest.piece_list_bytes());
        let leaves = match manifest.chunk_count() {
            1 => [manifest.root].to_vec(),
            _ => leaves.as_chunks::<{ Hash::BYTES }>().0.iter().map(|leaf| Hash(*leaf)).collect(),
        };
        let tree = HashTree::with_pieces(leaves, list);
        if tree.root != manifest.root {
            return Err(TreeError::Root { have: tree.root, need: manifest.root });
        }
        let has_pieces = |pieces: &crate::Pieces| {
            let end = pieces::places(list).last().map(|(place, _)| place.end);
            pieces::list_hash(list) == pieces.list && end == Some(manifest.size)
        };
        if manifest.pieces.as_ref().is_none_or(has_pieces) { Ok(tree) } else { Err(TreeError::Pieces) }
    }
    /// The leaves back to back, and the list of pieces; empty for at most one chunk. A clone of shared bytes.
    pub fn encode(&self) -> Bytes {
        if self.chunks > 1 { self.encoded.clone() } else { Bytes::new() }
    }
    /// The pieces with their places in the object, ascending; empty without a list.
    pub fn pieces(&self) -> impl Iterator<Item = (Range<u64>, PieceHash)> {
        pieces::places(&self.encoded[self.chunks as usize * Hash::BYTES..])
    }

    /// The root that the manifest signs.
    pub fn root(&self) -> Hash {
        self.root
    }
    /// The number of chunks.
    pub fn chunk_count(&self) -> u32 {
        self.chunks
    }
    /// The hash of one chunk; `None` beyond the last.
    pub fn leaf(&self, index: ChunkIndex) -> Option<Hash> {
        self.leaves().get(index.0 as usize).map(|leaf| Hash(*leaf))
    }
    fn leaves(&self) -> &[[u8; Hash::BYTES]] {
        let leaves = self.encoded.as_chunks().0;
        leaves.get(..self.chunks as usize).unwrap_or_default()
    }
    /// Whether these are the bytes of that chunk; never for a chunk beyond the last.
    pub fn verify_chunk(&self, index: ChunkIndex, bytes: &[u8]) -> bool {
        self.leaf(index).is_some_and(|leaf| leaf == chunk_hash(bytes))
    }
    /// The hashes that lead from one chunk to the root, bottom up, for a verifier with the manifest only; `None` beyond
    /// the last chunk. At most 16 hashes. It costs as much as computing the root.
    pub fn proof(&self, index: ChunkIndex) -> Option<Vec<Hash>> {
        self.leaf(index)?;
        let leaves: Vec<Hash> = self.leaves().iter().map(|leaf| Hash(*leaf)).collect();
        let (mut at, mut proof) = (index.0 as usize, Vec::new());
        fold(&leaves, |level| {
            if let Some(sibling) = level.get(at ^ 1) {
                proof.push(*sibling);
            }
            at /= 2;
        });
        Some(proof)
    }
}

/// Whether `bytes` are chunk `index` of the object, shown by a [`HashTree::proof`] instead of the tree.
pub fn verify_proof(manifest: &Manifest, index: ChunkIndex, bytes: &[u8], proof: &[Hash]) -> bool {
    let (mut at, mut width) = (index.0, manifest.chunk_count());
    if at >= width {
        return false;
    }
    let (mut node, mut siblings) = (chunk_hash(bytes), proof.iter());
    while width > 1 {
        if at ^ 1 < width {
            let Some(sibling) = siblings.next() else { return false };
            node = if at % 2 == 0 { node_hash(&node, sibling) } else { node_hash(sibling, &node) };
        }
        at /= 2;
        width = width.div_ceil(2);
    }
    siblings.next().is_none() && node == manifest.root
}

/// Why bytes are not the hash tree of an object.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// Not the length that the manifest implies.
    #[error("the hash tree has {have} bytes instead of {need}")]
    Length {
        /// What the manifest implies.
        need: u64,
        /// Bytes present.
        have: usize,
    },
    /// Not the root that the manifest signs.
    #[error("the hash tree has root {have} instead of {need}")]
    Root {
        /// The root of the bytes.
        have: Hash,
        /// The root that was signed.
        need: Hash,
    },
    /// Not the list of pieces that the manifest signs, or their bytes are not the object's.
    #[error("the list of pieces behind the hash tree is not the signed one")]
    Pieces,
}

/// Computes the root, showing each level, leaves first, that has more than one node.
fn fold(leaves: &[Hash], mut on_level: impl FnMut(&[Hash])) -> Hash {
    let mut level = leaves.to_vec();
    while level.len() > 1 {
        on_level(&level);
        level = level
            .chunks(2)
            .map(|pair| match pair {
                [left, right] => node_hash(left, right),
                lone => lone[0],
            })
            .collect();
    }
    level.first().copied().unwrap_or_else(empty_root)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ObjectKind, SigningKey};
    use alloc::vec;
    use proptest::prelude::*;

    const CHUNK: u32 = Manifest::CHUNK_SIZE_MIN;

    /// An object of `count` chunks, the last one short, that all differ.
    fn object(count: u32) -> (Manifest, HashTree, Vec<Vec<u8>>) {
        let mut chunks: Vec<Vec<u8>> = (0..count).map(|i| i.to_be_bytes().repeat(CHUNK as usize / 4)).collect();
        if let Some(last) = chunks.last_mut() {
            last.truncate(7);
        }
        let tree = HashTree::from_leaves(chunks.iter().map(|chunk| chunk_hash(chunk)).collect());
        let size = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        let (name, key) = ("/x".parse().expect("a name"), SigningKey::from_secret(&[1; 32]));
        let manifest = Manifest::sign(name, 1, ObjectKind::File, size, CHUNK, tree.root(), &key).expect("legal");
        (manifest, tree, chunks)
    }
    /// The root from the other end: the left part is the largest power of two below the count.
    fn oracle(leaves: &[Hash]) -> Hash {
        match leaves {
            [] => empty_root(),
            [leaf] => *leaf,
            _ => {
                let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
                node_hash(&oracle(left), &oracle(right))
            }
        }
    }

    #[test]
    fn none_or_one_chunk_need_no_tree() {
        for count in [0, 1] {
            let (manifest, tree, chunks) = object(count);
            assert_eq!(tree.encode().len() as u64, manifest.tree_bytes());
            assert_eq!(HashTree::decode(&manifest, &[]), Ok(tree.clone()));
            assert_eq!(HashTree::decode(&manifest, &[0; 32]), Err(TreeError::Length { need: 0, have: 32 }));
            for chunk in chunks {
                assert!(tree.verify_chunk(ChunkIndex(0), &chunk));
                assert!(manifest.verify_only_chunk(&chunk) && !manifest.verify_only_chunk(b"other"));
                assert_eq!(tree.proof(ChunkIndex(0)), Some(vec![]));
            }
            assert_eq!(tree.proof(ChunkIndex(count)), None);
        }
    }

    #[test]
    fn the_largest_tree_has_proofs_of_sixteen_hashes() {
        let leaves = vec![Hash([9; 32]); Manifest::CHUNKS_MAX as usize];
        let tree = HashTree::from_leaves(leaves);
        assert_eq!(tree.proof(ChunkIndex(40_000)).map(|proof| proof.len()), Some(16));
        assert_eq!(tree.encode().len(), 2 << 20);
    }

    proptest! {
        #[test]
        fn root_and_proofs_agree_with_a_recursive_oracle(count in 0u32..70) {
            let (manifest, tree, chunks) = object(count);
            let leaves: Vec<Hash> = chunks.iter().map(|chunk| chunk_hash(chunk)).collect();
            prop_assert_eq!(tree.root(), oracle(&leaves));
            prop_assert_eq!(HashTree::decode(&manifest, &tree.encode()), Ok(tree.clone()));
            for (index, chunk) in (0..).map(ChunkIndex).zip(&chunks) {
                let proof = tree.proof(index).expect("within the tree");
                prop_assert!(verify_proof(&manifest, index, chunk, &proof));
                prop_assert!(tree.verify_chunk(index, chunk));
            }
            prop_assert!(tree.leaf(ChunkIndex(count)).is_none() && tree.proof(ChunkIndex(count)).is_none());
        }

        #[test]
        fn an_altered_tree_is_refused(count in 2u32..40, at: prop::sample::Index, bit in 0u8..8) {
            let (manifest, tree, _) = object(count);
            let mut bytes = tree.encode().to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let root_differs = matches!(HashTree::decode(&manifest, &bytes), Err(TreeError::Root { .. }));
            prop_assert!(root_differs);
            bytes[at] ^= 1 << bit;
            prop_assert!(HashTree::decode(&manifest, &bytes).is_ok());
            let short = HashTree::decode(&manifest, &bytes[1..]);
            prop_assert_eq!(short, Err(TreeError::Length { need: bytes.len() as u64, have: bytes.len() - 1 }));
        }

        #[test]
        fn nothing_but_the_right_chunk_with_its_own_proof_is_accepted(
            count in 2u32..40, at: prop::sample::Index, other: prop::sample::Index, bit in 0usize..56,
        ) {
            let (manifest, tree, chunks) = object(count);
            let (at, other) = (at.index(chunks.len()), other.index(chunks.len()));
            let index = |at: usize| ChunkIndex(u32::try_from(at).expect("small"));
            let proof = tree.proof(index(at)).expect("within the tree");
            if at != other {
                prop_assert!(!verify_proof(&manifest, index(other), &chunks[at], &proof));
                prop_assert!(!tree.verify_chunk(index(other), &chunks[at]));
            }
            let mut altered = chunks[at].clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!verify_proof(&manifest, index(at), &altered, &proof));
            prop_assert!(!tree.verify_chunk(index(at), &altered));
            let mut longer = proof.clone();
            longer.push(Hash([0; 32]));
            prop_assert!(!verify_proof(&manifest, index(at), &chunks[at], &longer));
            prop_assert!(!verify_proof(&manifest, index(at), &chunks[at], &proof[1..]));
            prop_assert!(!verify_proof(&manifest, ChunkIndex(count), &chunks[at], &proof));
        }
    }
}

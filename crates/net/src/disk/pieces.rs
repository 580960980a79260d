//! Cuts objects into pieces, and finds pieces of a new version in the earlier version at the target.
use std::{collections::HashMap, fs::symlink_metadata, ops::Range, path::Path};

use fastcdc::v2020::FastCDC;
use tributary_content::{Bitmap, ChunkIndex, Hash, HashTree, Manifest, Piece, PieceHash, PieceSizes};

use super::{
    directory::DirectorySource,
    file::FileSource,
    place::placed_fingerprint,
    publish::{OpenSource, Record, Source, hash},
};

/// Cuts bytes that arrive in order.
pub(super) struct Cutter {
    sizes: PieceSizes,
    /// Bytes behind the last cut.
    rest: Vec<u8>,
    pieces: Vec<Piece>,
}

impl Cutter {
    pub(super) fn new(sizes: PieceSizes) -> Cutter {
        Cutter { sizes, rest: Vec::new(), pieces: Vec::new() }
    }
    /// Takes the next bytes; the rest is a piece too if they are the last ones.
    pub(super) fn push(&mut self, bytes: &[u8], are_last: bool) {
        self.rest.extend_from_slice(bytes);
        let PieceSizes { min, average, max } = self.sizes;
        let cutter = FastCDC::new(&self.rest, min as usize, average as usize, max as usize);
        let mut start = 0;
        // The place of a cut depends on up to the maximum of bytes.
        while start < self.rest.len() && (are_last || self.rest.len() - start >= max as usize) {
            let (_, end) = cutter.cut(start, self.rest.len() - start);
            self.pieces.push(Piece::of(&self.rest[start..end]));
            start = end;
        }
        self.rest.drain(..start);
    }
    pub(super) fn pieces(self) -> Vec<Piece> {
        self.pieces
    }
}

/// Fills a buffer from this place on; false if that fails.
type Read = Box<dyn FnMut(u64, &mut [u8]) -> bool + Send>;

/// The pieces of a local file or folder.
pub(super) struct EarlierPieces {
    /// Their places in the object that it is.
    places: HashMap<PieceHash, Range<u64>>,
    /// Of the file or folder when it was opened.
    fingerprint: Hash,
    read: Read,
    /// The piece that was read last: those that span several small chunks are read once.
    last: (Option<PieceHash>, Vec<u8>),
}

impl EarlierPieces {
    /// Pieces of the file or folder at `path`, cut in these sizes. Links are not followed.
    /// Reads the entries of a folder unless `folder` has them.
    pub(super) fn at(
        path: &Path,
        folder: Option<Box<DirectorySource>>,
        state_dir: Option<&Path>,
        sizes: PieceSizes,
    ) -> Option<EarlierPieces> {
        match (symlink_metadata(path).ok()?, folder) {
            (there, Some(folder)) if there.is_dir() => Self::of(path, *folder, None, state_dir, sizes),
            (there, None) if there.is_dir() => {
                Self::of(path, DirectorySource::open(path).ok()?, None, state_dir, sizes)
            }
            (there, _) if there.is_file() => {
                Self::of(path, FileSource::open(path).ok()?, Some(&there), state_dir, sizes)
            }
            _ => None,
        }
    }
    fn of<S: Source + 'static>(
        path: &Path,
        mut source: S,
        placed: Option<&std::fs::Metadata>,
        state_dir: Option<&Path>,
        sizes: PieceSizes,
    ) -> Option<EarlierPieces> {
        let fingerprints = [source.fingerprint(), placed.map_or_else(|| source.fingerprint(), placed_fingerprint)];
        let record = Record::load(state_dir, path).filter(|record| {
            let is_cut = record.manifest.pieces.is_some_and(|pieces| pieces.sizes == sizes);
            is_cut && fingerprints.contains(&record.fingerprint) && record.manifest.size == source.size()
        });
        let tree = match record {
            Some(record) => record.tree,
            None => hash(path, &mut source, 1 << 20, Some(sizes)).ok()?.0,
        };
        let places = tree.pieces().map(|(place, hash)| (hash, place)).collect();
        let fingerprint = fingerprints[0];
        let read = Box::new(move |at, buffer: &mut [u8]| source.read_at(at, buffer).is_ok());
        Some(EarlierPieces { places, fingerprint, read, last: (None, Vec::new()) })
    }
    /// The pieces that another object shares with this one, in the order of that object.
    pub(super) fn shared(&self, with: impl Iterator<Item = (Range<u64>, PieceHash)>) -> Vec<SharedPiece> {
        with.filter_map(|(there, hash)| {
            let here = self.places.get(&hash).filter(|here| here.end - here.start == there.end - there.start)?;
            Some(SharedPiece { there, here: here.start, hash })
        })
        .collect()
    }
    /// Fills `buffer` with the bytes of the other object from `offset` on, as far as they are in shared pieces; returns
    /// the ranges of it that are filled, which may touch. Pieces that have changed on the disk are left out.
    pub(super) fn fill(&mut self, shared: &[SharedPiece], buffer: &mut [u8], offset: u64) -> Vec<Range<usize>> {
        let end = offset + buffer.len() as u64;
        let mut filled = Vec::new();
        for piece in &shared[shared.partition_point(|piece| piece.there.end <= offset)..] {
            let there = &piece.there;
            if there.start >= end {
                break;
            }
            if let Some(bytes) = self.read_piece(piece) {
                let (from, until) = (there.start.max(offset), there.end.min(end));
                let part = (from - offset) as usize..(until - offset) as usize;
                let of_piece = (from - there.start) as usize..(until - there.start) as usize;
                buffer[part.clone()].copy_from_slice(&bytes[of_piece]);
                filled.push(part);
            }
        }
        filled
    }
    /// The bytes of a piece, if they are what its hash says.
    fn read_piece(&mut self, piece: &SharedPiece) -> Option<&[u8]> {
        let (last, bytes) = &mut self.last;
        if *last != Some(piece.hash) {
            *last = None;
            bytes.resize((piece.there.end - piece.there.start) as usize, 0);
            let is_right = (self.read)(piece.here, bytes) && Piece::of(bytes).hash == piece.hash;
            *last = is_right.then_some(piece.hash);
        }
        last.is_some().then_some(bytes)
    }
}

/// Verified chunks of a new version that stay in the earlier version until the new one takes its place.
pub(super) struct Lent {
    earlier: EarlierPieces,
    shared: Vec<SharedPiece>,
    chunks: Bitmap,
    manifest: Manifest,
    tree: HashTree,
    /// The chunk that was read last.
    last: (Option<u32>, Vec<u8>),
}

impl Lent {
    pub(super) fn new(earlier: EarlierPieces, shared: Vec<SharedPiece>, manifest: &Manifest, tree: HashTree) -> Lent {
        let (chunks, manifest) = (Bitmap::new(manifest.chunk_count()), manifest.clone());
        Lent { earlier, shared, chunks, manifest, tree, last: (None, Vec::new()) }
    }
    /// Fills `chunk` as far as the earlier version has its bytes, and returns these ranges, which may touch.
    pub(super) fn fill(&mut self, index: ChunkIndex, chunk: &mut [u8]) -> Vec<Range<usize>> {
        self.earlier.fill(&self.shared, chunk, self.manifest.chunk_offset(index))
    }
    /// Lends a chunk that was verified.
    pub(super) fn lend(&mut self, index: u32) {
        self.chunks.set(index);
    }
    pub(super) fn take_back(&mut self, index: u32) {
        self.chunks.clear(index);
    }
    pub(super) fn has(&self, index: u32) -> bool {
        self.chunks.get(index)
    }
    pub(super) fn chunks_of(&self, range: Range<u64>) -> Range<u32> {
        self.manifest.chunks_of_plain(range)
    }
    pub(super) fn place(&self, index: ChunkIndex) -> Range<u64> {
        let start = self.manifest.chunk_offset(index);
        start..start + u64::from(self.manifest.chunk_len(index))
    }
    /// A chunk, if the earlier version still has it.
    pub(super) fn chunk(&mut self, index: ChunkIndex) -> Option<&[u8]> {
        if self.last.0 != Some(index.0) {
            let mut chunk = std::mem::take(&mut self.last.1);
            chunk.resize(self.manifest.chunk_len(index) as usize, 0);
            let filled: usize = self.fill(index, &mut chunk).iter().map(ExactSizeIterator::len).sum();
            let is_right = filled == chunk.len() && self.tree.verify_chunk(index, &chunk);
            self.last = (is_right.then_some(index.0), chunk);
        }
        self.last.0.map(|_| &self.last.1[..])
    }
    /// Whether all bytes in `range` of the new version are those that the earlier one, while its fingerprint is this,
    /// has from `at` on.
    pub(super) fn lies_at(&self, range: &Range<u64>, at: u64, fingerprint: &Hash) -> bool {
        let mut chunks = self.manifest.chunks_of_plain(range.clone());
        let first = self.shared.partition_point(|piece| piece.there.end <= range.start);
        let pieces = self.shared[first..].iter().take_while(|piece| piece.there.start < range.end);
        self.earlier.fingerprint == *fingerprint
            && chunks.all(|index| self.has(index))
            && pieces.into_iter().all(|piece| piece.here + range.start == at + piece.there.start)
    }
}

/// A piece that another object shares with a local one.
pub(super) struct SharedPiece {
    /// Its place in the other object.
    there: Range<u64>,
    /// Where it starts in the local object.
    here: u64,
    hash: PieceHash,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{
        FileObject, PublishOptions,
        fixtures::{directory, key, pattern},
    };
    use proptest::prelude::*;
    use tributary_content::{HashTree, Manifest, ObjectReader, SigningKey};

    #[test]
    fn an_object_whose_name_leaves_no_room_for_pieces_has_a_tree_without_them() {
        let directory = directory();
        let path = directory.path().join("file");
        std::fs::write(&path, pattern(2 << 20)).expect("writable");
        let options = PublishOptions { state_dir: Some(directory.path().join("state")), ..PublishOptions::default() };
        for (name, is_cut) in [("/short".into(), true), (format!("/{}", "a".repeat(1_000)), false)] {
            // The second time from the record.
            for _ in 0..2 {
                let published =
                    FileObject::publish(&path, name.parse().expect("a name"), &key(), &options).expect("publishable");
                assert_eq!(published.manifest().pieces.is_some(), is_cut, "{name}");
                let read = HashTree::decode(published.manifest(), &published.tree()).expect("it is its tree");
                assert_eq!(read.pieces().next().is_some(), is_cut, "{name}");
            }
        }
    }

    #[test]
    fn a_file_is_mirrored_under_manifests_with_and_without_pieces() {
        let directory = directory();
        let path = directory.path().join("file");
        std::fs::write(&path, pattern(2 << 20)).expect("writable");
        let options = PublishOptions { state_dir: Some(directory.path().join("state")), ..PublishOptions::default() };
        let name = || "/x".parse().expect("a name");
        let own = FileObject::publish(&path, name(), &key(), &options).expect("publishable").manifest().clone();
        let theirs = SigningKey::from_secret(&[8; 32]);
        let plain = Manifest::sign(name(), 1, own.kind, own.size, own.chunk_size, own.root, &theirs).expect("legal");
        for manifest in [plain.clone(), own, plain] {
            let mirrored = FileObject::mirror(&path, manifest, &options).expect("the same bytes");
            assert!(HashTree::decode(mirrored.manifest(), &mirrored.tree()).is_ok());
        }
    }

    const SIZES: PieceSizes = PieceSizes { min: 256, average: 1_024, max: 4_096 };

    fn cut(bytes: &[u8], step: usize) -> Vec<Piece> {
        let mut cutter = Cutter::new(SIZES);
        let count = bytes.len().div_ceil(step);
        bytes.chunks(step).enumerate().for_each(|(at, part)| cutter.push(part, at + 1 == count));
        cutter.pieces()
    }

    proptest! {
        #[test]
        fn cuts_depend_on_the_bytes_and_not_on_how_they_arrive(len in 1usize..60_000, step in 1usize..20_000) {
            let bytes = pattern(len);
            let pieces = cut(&bytes, step);
            prop_assert_eq!(&pieces, &cut(&bytes, len));
            let mut rest = &bytes[..];
            for (at, piece) in pieces.iter().enumerate() {
                let (bytes, behind) = rest.split_at(piece.len as usize);
                prop_assert_eq!(*piece, Piece::of(bytes));
                prop_assert!(piece.len <= SIZES.max && (piece.len >= SIZES.min || at + 1 == pieces.len()));
                rest = behind;
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn an_edit_changes_the_pieces_around_it_only(at in 0usize..100_000, removed in 0usize..50, added in 0usize..50) {
            let old = pattern(100_000);
            let end = (at + removed).min(old.len());
            let new = [&old[..at], &vec![7; added], &old[end..]].concat();
            let before: std::collections::HashSet<_> = cut(&old, 10_000).into_iter().collect();
            let changed: u32 = cut(&new, 10_000).iter().filter(|piece| !before.contains(piece)).map(|piece| piece.len).sum();
            prop_assert!(changed <= 4 * SIZES.max, "{} bytes", changed);
        }
    }
}

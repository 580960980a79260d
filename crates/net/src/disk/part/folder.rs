//! Reuse of local bytes at the target, and the order in which the chunks of a folder are requested: its index first.
use std::{ops::Range, sync::Arc};

use tributary_content::{ChunkCipher, ChunkIndex, ChunkPart, HashTree, Manifest, ObjectKind, StoreError};

use super::{Existing, PartFile, PartOptions, clear, remove_all, staged};
use crate::disk::{
    check_room,
    index::DirectoryIndex,
    io_error,
    pieces::{EarlierPieces, Lent},
    place, refusal,
    reuse::{LocalBytes, ReuseWishes},
    sealed::not_sealed,
    selection::Selected,
};

/// Refuses an object without selectable parts.
pub(super) fn check_selectable(manifest: &Manifest, options: &PartOptions) -> Result<(), StoreError> {
    let reason = match (&options.selection, manifest.kind) {
        (Some(_), ObjectKind::File) => "is a file; of a file, ranges of its bytes can be fetched",
        (Some(_), ObjectKind::Directory) if manifest.is_sealed && options.key.is_none() => {
            "is sealed, and its contents cannot be listed without a reader's key"
        }
        _ => return Ok(()),
    };
    Err(StoreError::Absent { reason: format!("there are no parts to choose from: '{}' {reason}", manifest.name) })
}

impl PartFile {
    /// Prepares to fetch a part of a folder, and to take over the chunks of an earlier version at the same place. The
    /// bytes of a sealed object differ from its files' bytes.
    pub(super) fn begin_reuse(&mut self) -> Result<(), StoreError> {
        let selects = self.options.selection.is_some();
        if selects && self.manifest.chunk_count() <= 1 {
            // The manifest's root is the whole tree, so no packets will bring it.
            self.tree = HashTree::decode(&self.manifest, &[]).ok();
        }
        let is_here = match self.manifest.kind {
            _ if self.manifest.is_sealed || self.manifest.chunk_count() <= 1 || !self.is_replacing() => false,
            ObjectKind::Directory => self.target.is_dir(),
            ObjectKind::File => self.is_cut() && self.target.is_file(),
        };
        if selects || is_here {
            // The size of a part is known with the index.
            let extent = selects.then(|| vec![Range { start: 0, end: DirectoryIndex::HEADER_BYTES as u64 }]);
            let first = Range { start: 0, end: u32::from(!self.is_cut()) };
            self.wishes = Some(Arc::new(ReuseWishes::new(first, extent)));
            self.go_on_with_reuse()?;
        }
        Ok(())
    }
    /// Whether its pieces tell which bytes are here. Most pieces of a folder are of no use to a part of it.
    fn is_cut(&self) -> bool {
        self.manifest.pieces.is_some() && self.options.selection.is_none()
    }
    fn is_replacing(&self) -> bool {
        !matches!(self.options.existing, Existing::Number | Existing::Refuse)
    }
    /// Takes over pieces that are here. Of a folder wants the index; with it selects the other chunks, and takes over
    /// those that match existing files. If the index of a completely wanted folder is malformed, everything is wanted:
    /// unpacking reports the error.
    pub(super) fn go_on_with_reuse(&mut self) -> Result<(), StoreError> {
        let Some(wishes) = self.wishes.clone().filter(|wishes| wishes.may_change() && self.tree.is_some()) else {
            return Ok(());
        };
        if self.is_cut() && wishes.is_empty() {
            self.take_or_warn(Self::take_pieces);
            match self.manifest.kind {
                ObjectKind::File => wishes.want(self.in_order(self.held.unset_ranges().collect()), false, None),
                ObjectKind::Directory => wishes.want([Range { start: 0, end: 1 }].into(), true, None),
            }
        }
        if !self.held.get(0u32) || !wishes.may_change() {
            return Ok(());
        }
        let index_bytes = self.index_bytes()?;
        if let Some(bytes) = index_bytes {
            let chunks = self.manifest.chunks_of_plain(0..bytes);
            self.copy_lent(chunks.clone())?;
            if chunks.clone().any(|index| !self.held.get(index)) {
                let extent = self.options.selection.is_some().then(|| vec![self.stored(0..bytes)]);
                wishes.want(vec![chunks], true, extent);
                return Ok(());
            }
        }
        let index = index_bytes.map(|bytes| self.index(bytes)).transpose()?.flatten();
        if self.options.selection.is_none() {
            let selected = index.map(|(index, bytes)| Selected::all(&index, bytes, self.manifest.access));
            let all = Range { start: 0, end: self.manifest.chunk_count() };
            // Its pieces have found more already.
            if let Some(selected) = selected.filter(|_| self.lent.is_none()) {
                self.take_or_warn(|part| part.take_local(&selected, [all].into()));
            }
            let missing = self.held.unset_ranges().flatten().map(ChunkIndex);
            let bytes: u64 = missing.map(|index| u64::from(self.manifest.chunk_len(index))).sum();
            check_room(&self.part_path, 2 * bytes)?;
            wishes.want(self.in_order(self.held.unset_ranges().collect()), false, None);
            return Ok(());
        }
        let Some((index, bytes)) = index else {
            clear(&self.staging)?;
            return Err(refusal("unpack", &self.part_path, "the index of the folder is malformed"));
        };
        let decided = self.decide(&wishes, &index, bytes);
        if let Err(StoreError::Absent { .. }) = &decided
            && self.held.count() <= self.manifest.chunks_of_plain(0..bytes).end
        {
            // The next fetch can use no other file here.
            clear(&self.staging)?;
        }
        decided
    }
    /// Removes a folder whose index is malformed: no later fetch can unpack it.
    pub(super) fn clear_if_refused(&self) -> Result<(), StoreError> {
        match self.index_bytes()?.map(|bytes| self.index(bytes)).transpose()?.flatten() {
            Some(_) => remove_all(&self.staging.unpacked()),
            None => clear(&self.staging),
        }
    }
    /// Wants the selected chunks of a folder.
    fn decide(&mut self, wishes: &ReuseWishes, index: &DirectoryIndex, bytes: u64) -> Result<(), StoreError> {
        let Some(selection) = self.options.selection.clone() else { return Ok(()) };
        let selected = selection.select(index, bytes, self.manifest.access)?;
        self.options.part_kind = Some(selected.kind);
        place::check(
            &self.target,
            &self.manifest,
            &self.options,
            &staged(&self.staging, &self.manifest, &self.options),
        )?;
        let wanted = selected.bytes();
        let size: u64 = wanted.iter().map(|range| range.end - range.start).sum();
        let copies = 2 + u64::from(self.options.key_of(&self.manifest).is_some());
        check_room(&self.part_path, size.saturating_mul(copies))?;
        let mut chunks: Vec<Range<u32>> = vec![self.manifest.chunks_of_plain(0..bytes)];
        for more in wanted.iter().map(|range| self.manifest.chunks_of_plain(range.clone())) {
            match chunks.last_mut() {
                Some(last) if last.end >= more.start => last.end = last.end.max(more.end),
                _ => chunks.push(more),
            }
        }
        if !self.manifest.is_sealed && self.is_replacing() {
            self.take_local(&selected, chunks.clone())?;
        }
        let extent = std::iter::once(0..bytes).chain(wanted).map(|range| self.stored(range)).collect();
        self.selected = Some(selected);
        wishes.want(chunks, false, Some(extent));
        Ok(())
    }
    /// The position of plain bytes in the object.
    fn stored(&self, plain: Range<u64>) -> Range<u64> {
        let (step, stored) = (u64::from(self.manifest.plain_chunk_size().max(1)), u64::from(self.manifest.chunk_size));
        let place = |at: u64| (at / step * stored + at % step).min(self.manifest.size);
        place(plain.start)..place(plain.end)
    }
    /// The bytes of the index, from its first ones; `None` if these make no sense.
    fn index_bytes(&self) -> Result<Option<u64>, StoreError> {
        let header = self.read_plain(0..DirectoryIndex::HEADER_BYTES as u64)?;
        let len = DirectoryIndex::encoded_len(&header).ok().map(|len| len as u64);
        Ok(len.filter(|len| *len <= self.manifest.plain_size()))
    }
    fn index(&self, bytes: u64) -> Result<Option<(DirectoryIndex, u64)>, StoreError> {
        let index = DirectoryIndex::decode(&self.read_plain(0..bytes)?).ok();
        let is_whole =
            |index: &DirectoryIndex| bytes.checked_add(index.content_bytes()) == Some(self.manifest.plain_size());
        Ok(index.filter(is_whole).map(|index| (index, bytes)))
    }
    /// Plain bytes of held chunks; bytes behind the end are left out.
    fn read_plain(&self, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        let read = |error| io_error("read", &self.part_path, &error);
        let range = range.start..range.end.min(self.manifest.plain_size());
        let mut plain = vec![0; usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0)];
        let Some(key) = self.options.key_of(&self.manifest) else {
            self.part.read_exact_at(&mut plain, range.start).map_err(read)?;
            return Ok(plain);
        };
        plain.clear();
        let (cipher, step) = (ChunkCipher::of(key, &self.manifest), u64::from(self.manifest.plain_chunk_size()));
        for index in self.manifest.chunks_of_plain(range.clone()).map(ChunkIndex) {
            let mut chunk = vec![0; self.manifest.chunk_len(index) as usize];
            self.part.read_exact_at(&mut chunk, self.manifest.chunk_offset(index)).map_err(read)?;
            let opened = cipher.open(index, &mut chunk).map_err(|error| not_sealed(&self.manifest, &error))?;
            let first = u64::from(index.0) * step;
            let end = (first + opened.len() as u64).min(range.end);
            plain.extend_from_slice(&opened[(range.start.max(first) - first) as usize..(end - first) as usize]);
        }
        Ok(plain)
    }
    /// What fails costs bytes of the network, and not the download.
    fn take_or_warn(&mut self, take: impl FnOnce(&mut Self) -> Result<(), StoreError>) {
        if let Err(error) = take(self) {
            tracing::warn!("'{}': existing files are not reused: {error}", self.target.display());
        }
    }
    /// Takes over chunks whose pieces are all at the target, in any order. Of incomplete chunks it passes on the local
    /// bytes.
    fn take_pieces(&mut self) -> Result<(), StoreError> {
        let Some((tree, pieces)) = self.tree.clone().zip(self.manifest.pieces) else { return Ok(()) };
        let state_dir = self.options.state_dir.as_deref();
        let there = self.earlier.take();
        let Some(earlier) = EarlierPieces::at(&self.target, there, state_dir, pieces.sizes) else { return Ok(()) };
        let shared = earlier.shared(tree.pieces());
        if shared.is_empty() {
            return Ok(());
        }
        let mut lent = Lent::new(earlier, shared, &self.manifest, tree.clone());
        let (mut parts, mut room) = (Vec::new(), PARTS_BYTES_MAX);
        let mut buffer = Vec::new();
        for index in 0..self.manifest.chunk_count() {
            let chunk = ChunkIndex(index);
            if self.held.get(index) {
                continue;
            }
            buffer.clear();
            buffer.resize(self.manifest.chunk_len(chunk) as usize, 0);
            let here = lent.fill(chunk, &mut buffer);
            if here.iter().map(ExactSizeIterator::len).sum::<usize>() == buffer.len() {
                match (tree.verify_chunk(chunk, &buffer), self.manifest.kind) {
                    (false, _) => {}
                    // The first chunk tells the length of the index.
                    (true, ObjectKind::Directory) if index > 0 => {
                        self.held.set(index);
                        lent.lend(index);
                    }
                    (true, _) => self.keep(chunk, &buffer)?,
                }
            } else if !here.is_empty() && room >= buffer.len() {
                room -= buffer.len();
                parts.push(ChunkPart { index, bytes: buffer.clone(), here: joined(here) });
            }
        }
        if let Some(wishes) = &self.wishes {
            wishes.give_parts(parts);
        }
        self.lent = Some(lent).filter(|_| self.manifest.kind == ObjectKind::Directory);
        Ok(())
    }
    /// Copies lent chunks in `chunks` to the part; those that are gone are fetched.
    fn copy_lent(&mut self, chunks: Range<u32>) -> Result<(), StoreError> {
        let Some(mut lent) = self.lent.take() else { return Ok(()) };
        let mut copied = Ok(());
        for index in chunks.filter(|index| lent.has(*index)).collect::<Vec<_>>() {
            lent.take_back(index);
            self.held.clear(index);
            if copied.is_ok()
                && let Some(chunk) = lent.chunk(ChunkIndex(index))
            {
                copied = self.keep(ChunkIndex(index), chunk);
            }
        }
        self.lent = Some(lent);
        copied
    }
    /// Takes over the chunks in `chunks` that match files at the target.
    fn take_local(&mut self, selected: &Selected, chunks: Vec<Range<u32>>) -> Result<(), StoreError> {
        let Some((tree, index_bytes)) = self.tree.clone().zip(self.index_bytes()?) else { return Ok(()) };
        let mut local = LocalBytes::of(&self.target, selected);
        if local.is_empty() {
            return Ok(());
        }
        let mut buffer = Vec::new();
        for index in chunks.into_iter().flatten().map(ChunkIndex) {
            if self.held.get(index) {
                continue;
            }
            buffer.resize(self.manifest.chunk_len(index) as usize, 0);
            let is_here = local.fill(&mut buffer, self.manifest.chunk_offset(index), index_bytes);
            if is_here && tree.verify_chunk(index, &buffer) {
                self.keep(index, &buffer)?;
            }
        }
        Ok(())
    }
}

/// Ranges that touch, as one.
fn joined(ranges: Vec<Range<usize>>) -> Vec<Range<u32>> {
    let mut joined: Vec<Range<u32>> = Vec::new();
    for Range { start, end } in ranges {
        let (start, end) = (start as u32, end as u32);
        match joined.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => joined.push(start..end),
        }
    }
    joined
}

/// Bytes of incomplete chunks that wait in memory for the rest of them; further chunks are fetched whole.
const PARTS_BYTES_MAX: usize = 32 << 20;

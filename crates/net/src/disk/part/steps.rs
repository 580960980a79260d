//! The steps of a part file on the disk: loading the chunks of an earlier fetch, writing, syncing, and placing the
//! object.
use std::ops::Range;

use super::*;

impl PartFile {
    /// Takes over the chunks of an earlier fetch.
    pub(super) fn load(&mut self) -> Result<(), StoreError> {
        let mut buffer = Vec::new();
        for (index, slot) in (0..).map(ChunkIndex).zip(self.state.slots(self.manifest.chunk_count())?) {
            let Some(hash) = slot else { continue };
            let leaf = self.tree.as_ref().and_then(|tree| tree.leaf(index)).unwrap_or(hash);
            buffer.resize(self.manifest.chunk_len(index) as usize, 0);
            let verified = leaf == hash
                && match self.options.resume {
                    Resume::Trust => true,
                    Resume::Rehash => match self.part.read_exact_at(&mut buffer, self.manifest.chunk_offset(index)) {
                        Ok(()) => chunk_hash(&buffer) == leaf,
                        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
                        // Chunks that cannot be read just now may have been acknowledged.
                        Err(error) => return Err(io_error("read", &self.part_path, &error)),
                    },
                };
            if verified {
                self.held.set(index);
            } else {
                tracing::warn!("'{}': {index} of the earlier run fails its check", self.part_path.display());
                self.is_blank = false;
                self.state.clear_slot(index)?;
            }
        }
        Ok(())
    }
    /// Wants the chunks from a random one on, if the object is served while it arrives, and nothing else decides their
    /// order.
    pub(super) fn begin_share(&mut self) {
        let count = self.manifest.chunk_count();
        if self.options.share.is_none() || count < 2 || self.manifest.is_unsigned() {
            return;
        }
        if self.wishes.is_none() {
            let wishes = ReuseWishes::new(Range::default(), None);
            // All of them: chunks of an earlier fetch may turn out not to match the tree.
            wishes.want(self.in_order([Range { start: 0, end: count }].into()), false, None);
            self.wishes = Some(Arc::new(wishes));
        }
        self.offer();
    }
    /// Some chunks in the order in which they are wanted: from a random one on if other receivers are served.
    pub(super) fn in_order(&self, chunks: Vec<Range<u32>>) -> Vec<Range<u32>> {
        let mut random = [0; 4];
        if self.options.share.is_some() {
            // Without randomness all start at the same one, and are slower.
            let _ = getrandom::fill(&mut random);
        }
        let first = u32::from_ne_bytes(random) % self.manifest.chunk_count().max(1);
        let behind = chunks.iter().map(|range| range.start.max(first)..range.end);
        let before = chunks.iter().map(|range| range.start..range.end.min(first));
        behind.chain(before).filter(|range| !range.is_empty()).collect()
    }
    /// Offers the chunks that have arrived to other receivers, once they can be verified. A sealed object that this
    /// node opens only at the end is not offered.
    pub(super) fn offer(&self) {
        let is_whole = self.options.selection.is_none() && self.options.key_of(&self.manifest).is_none();
        if let (Some(share), Some(tree), true) = (&self.options.share, &self.tree, is_whole) {
            arriving::offer(share, &self.manifest, tree, (&self.part, self.part_path.clone()), &self.shared);
        }
    }
    /// Checks that the part has its name. If it was removed, the held bytes are still here, and are written again.
    pub(super) fn keep_name(&mut self) -> Result<(), StoreError> {
        let read = |error| io_error("read", &self.part_path, &error);
        let own = self.part.metadata().map_err(read)?;
        if own.links > 0 {
            let is_own = |named: fs::Metadata| named.identity == own.identity;
            return match self.fs.metadata(&self.part_path).is_ok_and(is_own) {
                true => Ok(()),
                false => Err(refusal("write", &self.part_path, "it was moved away, or something else is in its place")),
            };
        }
        tracing::warn!("'{}' was removed; verified chunks are written again", self.part_path.display());
        let write = |error| io_error("write", &self.part_path, &error);
        self.staging.make()?;
        let options = OpenOptions { mode: 0o666, ..OpenOptions::CREATE_NEW };
        let part = self.fs.open(&self.part_path, options).map_err(write)?;
        part.set_len(self.manifest.size).map_err(write)?;
        let mut buffer = Vec::new();
        for index in self.in_part().iter_set().map(ChunkIndex) {
            let offset = self.manifest.chunk_offset(index);
            buffer.resize(self.manifest.chunk_len(index) as usize, 0);
            self.part.read_exact_at(&mut buffer, offset).map_err(read)?;
            for range in data_in(&buffer, offset) {
                part.write_all_at(&buffer[range.clone()], offset + range.start as u64).map_err(write)?;
            }
        }
        self.part = part;
        self.is_blank = true;
        (self.unsynced, self.is_named) = (self.in_part(), false);
        Ok(())
    }
    /// The held chunks whose bytes are in the part.
    pub(super) fn in_part(&self) -> Bitmap {
        let mut in_part = self.held.clone();
        for index in self.held.iter_set() {
            if self.lent.as_ref().is_some_and(|lent| lent.has(index)) {
                in_part.clear(index);
            }
        }
        in_part
    }
    /// Writes a chunk; where the file has zeros it writes only the other bytes.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if !self.is_blank {
            return overwrite(&*self.part, offset, bytes);
        }
        data_in(bytes, offset)
            .try_for_each(|range| self.part.write_all_at(&bytes[range.clone()], offset + range.start as u64))
    }
    /// Writes a verified chunk, and then that it is held.
    pub(super) fn keep(&mut self, index: ChunkIndex, bytes: &[u8]) -> Result<(), StoreError> {
        let offset = self.manifest.chunk_offset(index);
        if let Err(error) = self.write(offset, bytes) {
            // A part of it may be written.
            self.is_blank = false;
            return Err(io_error("write", &self.part_path, &error));
        }
        let leaf = self.tree.as_ref().and_then(|tree| tree.leaf(index)).unwrap_or_else(|| chunk_hash(bytes));
        self.state.put_slot(index, &leaf)?;
        self.unsynced.set(index.0);
        self.held.set(index);
        self.shared.lock().set(index);
        Ok(())
    }
    pub(super) fn finish_file(&mut self) -> Result<(), StoreError> {
        self.keep_name()?;
        let (ready, opened) = match self.open_sealed()? {
            Some(opened) => (self.staging.opened(), Some(opened)),
            None => (self.part_path.clone(), None),
        };
        let refused = |error| io_error("set the mode of", &ready, &error);
        // The umask was applied when the part was made.
        let mode = self.part.metadata().map_err(refused)?.mode;
        let permissions = std::fs::Permissions::from_mode(mode & 0o666 & self.manifest.access.mode_mask());
        std::fs::set_permissions(&ready, permissions).map_err(refused)?;
        if self.options.durability == Durability::Power {
            let written = match opened {
                Some(opened) => opened.sync_all(),
                None => {
                    self.sync()?;
                    self.part.sync_all()
                }
            };
            written.map_err(|error| io_error("write to disk", &ready, &error))?;
        }
        self.place(&ready)?;
        self.sync_names()?;
        if ready != self.part_path {
            remove(&ready)?;
        }
        remove(&self.part_path)
    }
    /// Ends a folder, or a part of one.
    pub(super) fn finish_directory(&mut self) -> Result<(), StoreError> {
        let mut packed = self.packed()?;
        let placed = self.place_directory(&mut packed);
        self.lent = packed.lent;
        if placed.is_err() {
            self.clear_if_refused()?;
        }
        placed?;
        remove(&self.staging.opened())?;
        remove(&self.part_path)
    }
    fn place_directory(&mut self, packed: &mut Packed) -> Result<(), StoreError> {
        if self.update(packed)? {
            self.options.placed.set(&self.target);
            // A process that was killed as it placed the folder has left it.
            return remove_all(&self.staging.unpacked());
        }
        let into = self.unpack(packed)?;
        self.place(&into)?;
        self.sync_names()?;
        remove_all(&into)
    }
    /// The bytes of a folder, which are complete.
    pub(super) fn packed(&mut self) -> Result<Packed, StoreError> {
        let path = match self.open_sealed()? {
            Some(_) => self.staging.opened(),
            None => self.part_path.clone(),
        };
        let file = File::open(&path).map_err(|error| io_error("read", &path, &error))?;
        Ok(Packed { file, path, lent: self.lent.take() })
    }
    /// Writes the plain bytes of a sealed object whose key is known next to its final place.
    pub(super) fn open_sealed(&self) -> Result<Option<File>, StoreError> {
        let Some(key) = self.options.key_of(&self.manifest) else { return Ok(None) };
        open_to((&*self.part, &self.part_path), &self.manifest, &self.held, key, &self.staging.opened()).map(Some)
    }
    /// Makes the directory next to its final place; returns its path.
    pub(super) fn unpack(&self, packed: &mut Packed) -> Result<PathBuf, StoreError> {
        let into = self.staging.unpacked();
        remove_all(&into)?;
        unpack(packed, &self.manifest, self.selected.as_ref(), &into)?;
        if self.options.durability == Durability::Power {
            // One call for thousands of files; no other covers them and their names.
            nix::unistd::sync();
        }
        Ok(into)
    }
    /// Waits until the final name is on the disk, before anything is removed that could get it again.
    pub(super) fn sync_names(&self) -> Result<(), StoreError> {
        if self.options.durability != Durability::Power {
            return Ok(());
        }
        for folder in [parent(&self.target), &*self.staging.folder] {
            self.fs.sync_folder(folder).map_err(|error| io_error("write to disk", folder, &error))?;
        }
        Ok(())
    }
    /// Writes the bytes again that a failed sync may have dropped: readable bytes may be on no disk.
    pub(super) fn write_again(&mut self) -> Result<(), StoreError> {
        self.state.put_header()?;
        if let Some(tree) = &self.tree {
            self.state.put_tree(tree)?;
        }
        self.is_blank = false;
        let slots = self.state.slots(self.manifest.chunk_count())?;
        let mut buffer = Vec::new();
        for index in self.unsynced.iter_set().map(ChunkIndex) {
            let offset = self.manifest.chunk_offset(index);
            buffer.resize(self.manifest.chunk_len(index) as usize, 0);
            self.part.read_exact_at(&mut buffer, offset).map_err(|error| io_error("read", &self.part_path, &error))?;
            let hash = chunk_hash(&buffer);
            let leaf = self.tree.as_ref().and_then(|tree| tree.leaf(index));
            if leaf.or(slots[index.0 as usize]) != Some(hash) {
                self.state.clear_slot(index)?;
                let reason = format!("the disk has dropped chunk {}; fetch again", index.0);
                return Err(refusal("write to disk", &self.part_path, reason));
            }
            self.part.write_all_at(&buffer, offset).map_err(|error| io_error("write", &self.part_path, &error))?;
            self.state.put_slot(index, &hash)?;
        }
        Ok(())
    }
    pub(super) fn sync_all(&mut self) -> Result<(), StoreError> {
        // For the next process of this machine: if this one ends after a failed sync, that one would trust bytes that
        // are on no disk.
        let suspect = self.staging.suspect();
        self.fs.open(&suspect, OpenOptions::CREATE).map_err(|error| io_error("create", &suspect, &error))?;
        if self.is_suspect {
            self.write_again()?;
        }
        // The state names only chunks whose bytes are on the disk: the bytes are synced first.
        self.part.sync_data().map_err(|error| io_error("write to disk", &self.part_path, &error))?;
        self.state.sync()?;
        // Before its name is made durable. If it stays, the next process's first sync is slower.
        let _ = self.fs.remove_file(&suspect);
        if !self.is_named {
            for folder in [&*self.staging.folder, parent(&self.target)] {
                self.fs.sync_folder(folder).map_err(|error| io_error("write to disk", folder, &error))?;
            }
        }
        Ok(())
    }
    /// The tree of the object. An object that is verified packet by packet has none, and gets one from its chunks.
    pub(super) fn complete_tree(&self) -> Result<HashTree, StoreError> {
        if let Some(tree) = &self.tree {
            return Ok(tree.clone());
        }
        Ok(HashTree::from_leaves(self.state.slots(self.manifest.chunk_count())?.into_iter().flatten().collect()))
    }
    /// How many wanted chunks are missing.
    pub(super) fn missing(&self) -> u32 {
        match (&self.options.selection, &self.wishes) {
            (Some(_), Some(wishes)) => {
                let wanted = wishes.wanted();
                let missing = wanted.windows.into_iter().flatten().filter(|index| !self.held.get(*index)).count();
                u32::try_from(missing).unwrap_or(u32::MAX).max(u32::from(wanted.may_change))
            }
            _ => self.held.len() - self.held.count(),
        }
    }
    /// Moves the file at `from` to its final name, and remembers its object.
    pub(super) fn place(&self, from: &Path) -> Result<(), StoreError> {
        let state_dir = self.options.state_dir.as_deref();
        // A file with a numbered name is never replaced, so it needs no record.
        let is_remembered =
            self.options.existing != Existing::Number || self.options.kind(&self.manifest) == ObjectKind::Directory;
        let record = match is_remembered {
            true => Some(place::record_of(from, &self.manifest, self.complete_tree()?, &self.options)?),
            false => None,
        };
        let of_part =
            self.options.selection.as_ref().zip(record.as_ref()).map(|(selection, record)| record.of_part(selection));
        // Before it has the final name: a process may be killed between these two.
        record.iter().for_each(|record| record.save(state_dir, from));
        of_part.iter().for_each(|record| record.save(state_dir, &Record::part_at(from)));
        let target = place::place(from, &self.target, &self.manifest, &self.options)?;
        // An existing part stays, and so do its records: they describe other bytes than those at `from`.
        let is_kept = match record.as_ref().filter(|_| of_part.is_some()) {
            Some(new) => {
                let there = place::record_of(&target, &self.manifest, new.tree.clone(), &self.options)?;
                there.fingerprint != new.fingerprint
            }
            None => false,
        };
        if let Some(record) = record {
            if !is_kept {
                record.save(state_dir, &target);
            }
            Record::forget(state_dir, from);
        }
        if let Some(record) = of_part {
            if !is_kept {
                record.save(state_dir, &Record::part_at(&target));
            }
            Record::forget(state_dir, &Record::part_at(from));
        }
        self.options.placed.set(&target);
        Ok(())
    }
}

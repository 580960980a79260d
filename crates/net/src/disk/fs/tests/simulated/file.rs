//! The bytes of a simulated file: cached, durable, and the possible states after a power cut.
use super::*;

/// The bytes of a file as readers see them, as the disk has them, and everything that may be lost.
#[derive(Debug)]
pub(super) struct File {
    pub(super) cached: Content,
    pub(super) durable: Content,
    /// Changes since the last sync, divided by truncations.
    pub(super) epochs: Vec<Epoch>,
}

impl Default for File {
    fn default() -> Self {
        File { cached: Content::default(), durable: Content::default(), epochs: vec![Epoch::default()] }
    }
}

/// Writes between two cuts.
#[derive(Default, Debug)]
pub(super) struct Epoch {
    /// The length in bytes to which it first truncates the file.
    pub(super) cut: Option<u64>,
    /// How each page was left by each write.
    pub(super) pages: BTreeMap<u64, Vec<Option<Page>>>,
    /// How long the file was made by each write.
    pub(super) lengths: Vec<u64>,
}

/// The length that a file keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// Any that it had since the last sync.
    Any,
    /// The one that it has.
    Last,
}

impl File {
    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        if bytes.is_empty() {
            return;
        }
        self.cached.write(bytes, offset);
        self.record(offset, bytes.len() as u64);
    }
    /// Notes how the pages of these bytes are now.
    pub(super) fn record(&mut self, offset: u64, length: u64) {
        let epoch = self.epochs.last_mut().expect("there is always one");
        for page in offset / PAGE_BYTES as u64..(offset + length).div_ceil(PAGE_BYTES as u64) {
            epoch.pages.entry(page).or_default().push(self.cached.pages.get(&page).cloned());
        }
        epoch.lengths.push(self.cached.length);
    }
    pub(super) fn set_len(&mut self, length: u64) {
        if length < self.cached.length {
            self.cached.cut(length);
            self.epochs.push(Epoch { cut: Some(length), ..Epoch::default() });
        } else {
            self.cached.length = length;
            self.epochs.last_mut().expect("there is always one").lengths.push(length);
        }
    }
    pub(super) fn allocate(&mut self, offset: u64, length: u64) {
        for page in offset / PAGE_BYTES as u64..(offset + length).div_ceil(PAGE_BYTES as u64) {
            self.cached.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE_BYTES]));
        }
        self.set_len(self.cached.length.max(offset + length));
    }
    pub(super) fn punch_hole(&mut self, offset: u64, length: u64) {
        let end = (offset + length).min(self.cached.length);
        if offset >= end {
            return;
        }
        let first_page = offset.div_ceil(PAGE_BYTES as u64);
        let end_page = end / PAGE_BYTES as u64;
        for page in offset / PAGE_BYTES as u64..end.div_ceil(PAGE_BYTES as u64) {
            if (first_page..end_page).contains(&page) {
                self.cached.pages.remove(&page);
            } else if let Some(bytes) = self.cached.pages.get_mut(&page) {
                let start = page * PAGE_BYTES as u64;
                let range = offset.max(start) - start..end.min(start + PAGE_BYTES as u64) - start;
                Arc::make_mut(bytes)[range.start as usize..range.end as usize].fill(0);
            }
        }
        self.record(offset, end - offset);
    }
    /// A sync that succeeds.
    pub(super) fn settle(&mut self) {
        for epoch in std::mem::replace(&mut self.epochs, vec![Epoch::default()]) {
            if let Some(length) = epoch.cut {
                self.durable.cut(length);
            }
            for (page, mut versions) in epoch.pages {
                self.durable.set_page(page, versions.pop().flatten());
            }
            self.durable.length = epoch.lengths.last().copied().unwrap_or(self.durable.length);
        }
    }
    /// What the disk may have if it stops now.
    pub(super) fn remains(&mut self, random: &mut Random, length: Length) -> Content {
        let mut content = self.durable.clone();
        let epochs = std::mem::take(&mut self.epochs);
        let last = match length {
            Length::Any => random.below(epochs.len() as u64) as usize,
            Length::Last => epochs.len() - 1,
        };
        // Often all or nothing, else a part.
        let kept = [0.0, 0.5, 0.9, 1.0][random.below(4) as usize];
        let is_torn = random.chance(0.5);
        for (number, epoch) in epochs.into_iter().take(last + 1).enumerate() {
            if let Some(length) = epoch.cut {
                content.cut(length);
            }
            for (page, mut versions) in epoch.pages {
                let pick = |random: &mut Random| {
                    let newest = versions.len() - 1;
                    random.chance(kept).then(|| match random.chance(0.7) {
                        true => newest,
                        false => random.below(versions.len() as u64) as usize,
                    })
                };
                if !is_torn {
                    if let Some(version) = pick(random) {
                        content.set_page(page, versions.swap_remove(version));
                    }
                    continue;
                }
                let mut bytes = content.pages.get(&page).map_or([0; PAGE_BYTES], |page| **page);
                for (sector, bytes) in bytes.chunks_exact_mut(SECTOR_BYTES).enumerate() {
                    if let Some(version) = pick(random) {
                        let from = sector * SECTOR_BYTES;
                        match &versions[version] {
                            Some(page) => bytes.copy_from_slice(&page[from..from + SECTOR_BYTES]),
                            None => bytes.fill(0),
                        }
                    }
                }
                content.set_page(page, Some(Arc::new(bytes)));
            }
            let pick = match length {
                Length::Any if number == last => random.below(epoch.lengths.len() as u64 + 1).checked_sub(1),
                _ => (epoch.lengths.len() as u64).checked_sub(1),
            };
            content.length = pick.map_or(content.length, |pick| epoch.lengths[pick as usize]);
        }
        let length = content.length;
        content.cut(length);
        content
    }
}

/// Bytes in pages; a missing page is zeros, and nothing follows the length.
#[derive(Clone, Default, Debug)]
pub(super) struct Content {
    pub(super) pages: BTreeMap<u64, Page>,
    pub(super) length: u64,
}

pub(super) type Page = Arc<[u8; PAGE_BYTES]>;

impl Content {
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let count = (self.length.saturating_sub(offset)).min(buffer.len() as u64) as usize;
        for (start, end, page, within) in pieces(offset, count) {
            match self.pages.get(&page) {
                Some(page) => buffer[start..end].copy_from_slice(&page[within..within + end - start]),
                None => buffer[start..end].fill(0),
            }
        }
        count
    }
    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        for (start, end, page, within) in pieces(offset, bytes.len()) {
            let page = self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE_BYTES]));
            Arc::make_mut(page)[within..within + end - start].copy_from_slice(&bytes[start..end]);
        }
        self.length = self.length.max(offset + bytes.len() as u64);
    }
    /// How many of `count` bytes at `offset` can be written if `room` more pages fit.
    pub(super) fn fits(&self, count: usize, offset: u64, mut room: u64) -> usize {
        if room == u64::MAX {
            return count;
        }
        for (start, _, page, _) in pieces(offset, count) {
            if !self.pages.contains_key(&page) {
                if room == 0 {
                    return start;
                }
                room -= 1;
            }
        }
        count
    }
    pub(super) fn cut(&mut self, length: u64) {
        let within = (length % PAGE_BYTES as u64) as usize;
        drop(self.pages.split_off(&length.div_ceil(PAGE_BYTES as u64)));
        if within > 0
            && let Some(page) = self.pages.get_mut(&(length / PAGE_BYTES as u64))
        {
            Arc::make_mut(page)[within..].fill(0);
        }
        self.length = length;
    }
    pub(super) fn set_page(&mut self, page: u64, bytes: Option<Page>) {
        match bytes {
            Some(bytes) => drop(self.pages.insert(page, bytes)),
            None => drop(self.pages.remove(&page)),
        }
    }
}

/// Cuts `count` bytes at `offset` by pages: from and to where among these bytes, the page, and from where in it.
pub(super) fn pieces(offset: u64, count: usize) -> impl Iterator<Item = (usize, usize, u64, usize)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        if start == count {
            return None;
        }
        let at = offset + start as u64;
        let within = (at % PAGE_BYTES as u64) as usize;
        let end = count.min(start + PAGE_BYTES - within);
        let piece = (start, end, at / PAGE_BYTES as u64, within);
        start = end;
        Some(piece)
    })
}

//! A published object on its way out: chunks that have to be read from a disk are waited for without stopping the node.
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use bytes::Bytes;
use tributary_content::{ChunkIndex, ObjectReader, StoreError};

/// Bytes of chunks that a source reads at a time at most; at least one chunk is read.
pub const READ_BYTES_MAX: u64 = 8 << 20;

/// An object and the chunks of it that are being read.
pub struct Served {
    reader: Box<dyn ObjectReader>,
    reading: BTreeSet<ChunkIndex>,
    read: BTreeMap<ChunkIndex, Result<Bytes, StoreError>>,
}

impl Served {
    /// An object of which nothing is being read.
    pub fn new(reader: Box<dyn ObjectReader>) -> Served {
        Served { reader, reading: BTreeSet::new(), read: BTreeMap::new() }
    }
    /// The object.
    pub fn reader(&self) -> &dyn ObjectReader {
        &*self.reader
    }
    /// A chunk, or `None` if it has to be waited for; then [`Served::begin`] with it.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be read.
    pub fn chunk(&mut self, index: ChunkIndex) -> Result<Option<Bytes>, StoreError> {
        match self.read.get(&index) {
            Some(read) => read.clone().map(Some),
            None if self.reading.contains(&index) => Ok(None),
            None => self.reader.try_read(index),
        }
    }
    /// Begins to read a chunk, unless it is being read or other reads, of `bytes_under_way` bytes in all, must end first.
    /// Whether it is being read now.
    pub fn begin(&mut self, index: ChunkIndex, bytes_under_way: u64) -> bool {
        let bytes = u64::from(self.reader.manifest().chunk_len(index));
        let has_room = bytes_under_way == 0 || bytes_under_way + bytes <= READ_BYTES_MAX;
        if has_room && self.reading.insert(index) {
            self.reader.begin_read(index);
        }
        self.reading.contains(&index)
    }
    /// Bytes of the chunks that are being read.
    pub fn bytes_under_way(&self) -> u64 {
        self.reading.iter().map(|index| u64::from(self.reader.manifest().chunk_len(*index))).sum()
    }
    /// Takes the results of reads and returns their chunks: [`Served::chunk`] has them until [`Served::forget_read`].
    pub fn take_read(&mut self) -> Vec<ChunkIndex> {
        let mut taken = Vec::new();
        while !self.reading.is_empty()
            && let Some((index, read)) = self.reader.poll_read()
        {
            self.reading.remove(&index);
            self.read.insert(index, read);
            taken.push(index);
        }
        taken
    }
    /// Lets go of what [`Served::take_read`] took.
    pub fn forget_read(&mut self) {
        self.read.clear();
    }
}

//! A source whose chunks are on a disk that hangs until a switch is set.
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use tributary_content::{ChunkIndex, Manifest, MemoryObject, ObjectReader, StoreError};

/// An object with only its first chunks in memory; no chunk may be read twice.
pub struct OnDisk {
    object: MemoryObject,
    in_memory: u32,
    goes_on: Arc<AtomicBool>,
    begun: Vec<ChunkIndex>,
}

impl OnDisk {
    /// `object` with its first `in_memory` chunks in memory. Reads of the others complete once the switch is set.
    pub fn new(object: MemoryObject, in_memory: u32) -> (OnDisk, Arc<AtomicBool>) {
        let goes_on = Arc::new(AtomicBool::new(false));
        (OnDisk { object, in_memory, goes_on: goes_on.clone(), begun: Vec::new() }, goes_on)
    }
}

impl ObjectReader for OnDisk {
    fn manifest(&self) -> &Manifest {
        self.object.manifest()
    }
    fn tree(&self) -> Bytes {
        self.object.tree()
    }
    fn read_chunk(&mut self, _: ChunkIndex) -> Result<Bytes, StoreError> {
        unreachable!("a node does not wait")
    }
    fn try_read(&mut self, index: ChunkIndex) -> Result<Option<Bytes>, StoreError> {
        if index.0 < self.in_memory { self.object.read_chunk(index).map(Some) } else { Ok(None) }
    }
    fn begin_read(&mut self, index: ChunkIndex) {
        assert!(!self.begun.contains(&index), "it is read twice");
        self.begun.push(index);
    }
    fn poll_read(&mut self) -> Option<(ChunkIndex, Result<Bytes, StoreError>)> {
        let goes_on = self.goes_on.load(Ordering::Relaxed) && !self.begun.is_empty();
        goes_on.then(|| self.begun.remove(0)).map(|index| (index, self.object.read_chunk(index)))
    }
}

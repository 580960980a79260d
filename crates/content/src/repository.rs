//! The chunks that a node stores for others: a trait that a driver injects, and a repository in memory.
use alloc::{boxed::Box, collections::BTreeMap, string::String, vec::Vec};
use core::time::Duration;

use bytes::Bytes;

use crate::StoreError;

/// Stores chunks. Only [`ChunkRepository::is_committed`] makes operations count: when it returns true, chunks that were
/// put are durable and removed ones are gone. A process killed earlier loses some or all operations since the last
/// commit.
pub trait ChunkRepository: Send {
    /// Keeps a chunk under a number that is not in use: a head of some hundred bytes, and a payload in pieces. It is durable
    /// after the next commit.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it cannot be kept.
    fn put(&mut self, id: u64, head: &[u8], payload: &[Bytes]) -> Result<(), StoreError>;
    /// Forgets a chunk, for good after the next commit; unknown numbers are ignored.
    ///
    /// # Errors
    /// [`StoreError::Io`] if that fails.
    fn remove(&mut self, id: u64) -> Result<(), StoreError>;
    /// Makes all operations so far durable, or starts to.
    ///
    /// # Errors
    /// [`StoreError::Io`] if that fails; then nothing since the last commit counts.
    fn commit(&mut self) -> Result<(), StoreError>;
    /// Whether the last commit is done. A repository with its own writer thread returns false until then, so that the
    /// node's thread never waits for a disk; no other commit starts before.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the last commit failed; then nothing since the one before counts.
    fn is_committed(&mut self) -> Result<bool, StoreError> {
        Ok(true)
    }
    /// How often to call [`ChunkRepository::is_committed`] during a commit; `None` if the repository wakes its node
    /// when the commit is done.
    fn poll_interval(&self) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }
    /// The payload of a chunk.
    ///
    /// # Errors
    /// [`StoreError::Later`] if it cannot be read now, as the disk fails; [`StoreError::Io`] if it is lost.
    fn read(&mut self, id: u64) -> Result<Bytes, StoreError>;
    /// Numbers, heads and payload lengths of all chunks, ascending: read at a node's start.
    ///
    /// # Errors
    /// [`StoreError::Io`] if they cannot be read.
    fn list(&mut self) -> Result<Vec<(u64, Vec<u8>, u64)>, StoreError>;
    /// The time since a moment that is the same in every run of the node, such as the start of 1970: after a restart it
    /// shows how long chunks must still be kept. If nothing outlives the node it may stand still.
    fn clock(&self) -> Duration {
        Duration::ZERO
    }
    /// Damage found since the chunks were listed.
    fn damage(&self) -> Damage {
        Damage::default()
    }
}

impl Default for Box<dyn ChunkRepository> {
    /// In memory, as of a node without a disk.
    fn default() -> Self {
        Box::new(MemoryRepository::default())
    }
}

/// The losses of a repository, and the damaged files it has kept for inspection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Damage {
    /// Places at which durable chunks are damaged: each is at least one chunk.
    pub places: u64,
    /// Bytes there.
    pub bytes: u64,
    /// Bytes of chunks that were being stored when the process or the machine ended. Their storage was never
    /// acknowledged.
    pub unfinished_bytes: u64,
    /// Files with something damaged that were put aside.
    pub files: u64,
}

/// Keeps chunks in memory, for nodes without a disk.
#[derive(Clone, Debug, Default)]
pub struct MemoryRepository(BTreeMap<u64, (Vec<u8>, Bytes)>);

impl ChunkRepository for MemoryRepository {
    fn put(&mut self, id: u64, head: &[u8], payload: &[Bytes]) -> Result<(), StoreError> {
        // Copied, because arriving chunks are slices of receive buffers that they would keep alive.
        self.0.insert(id, (head.into(), payload.concat().into()));
        Ok(())
    }
    fn remove(&mut self, id: u64) -> Result<(), StoreError> {
        self.0.remove(&id);
        Ok(())
    }
    fn commit(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    fn read(&mut self, id: u64) -> Result<Bytes, StoreError> {
        let missing =
            StoreError::Io { operation: "read", path: String::new(), reason: "there is no such chunk".into() };
        self.0.get(&id).map(|(_, payload)| payload.clone()).ok_or(missing)
    }
    fn list(&mut self) -> Result<Vec<(u64, Vec<u8>, u64)>, StoreError> {
        Ok(self.0.iter().map(|(id, (head, payload))| (*id, head.clone(), payload.len() as u64)).collect())
    }
}

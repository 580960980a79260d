//! Stored chunks on a disk.
use std::{io, path::Path, sync::Arc};

use bytes::Bytes;
use tributary_content::StoreError;
use tributary_core::Duration;
use tributary_mf::{
    payload::Payload,
    router::proxy::{ChunkRepository, Damage},
};
use tributary_net::{
    disk::{
        fs::FileSystem,
        repository::{self, DiskRepository},
    },
    wall_clock,
};

/// The chunks of a proxy, or the records of a replica, in one folder of a disk; see [`DiskRepository`].
#[derive(Debug)]
pub struct FileRepository(DiskRepository);

impl FileRepository {
    /// A repository in `folder`, which is made when it is first listed.
    ///
    /// # Panics
    /// If the system has no thread left.
    pub fn new(folder: &Path) -> FileRepository {
        FileRepository(DiskRepository::new(folder))
    }
    /// A repository without a thread, on any file system; see [`DiskRepository::in_steps`].
    pub fn in_steps(fs: Arc<dyn FileSystem>, folder: &Path, at_once: usize) -> FileRepository {
        FileRepository(DiskRepository::in_steps(fs, folder, at_once))
    }
    /// Sees that a folder, which is made if there is none, can be read and written.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn check(folder: &Path) -> io::Result<()> {
        DiskRepository::check(folder)
    }
}

impl ChunkRepository for FileRepository {
    fn put(&mut self, id: u64, head: &[u8], payload: &Payload) -> Result<(), StoreError> {
        self.0.put(id, head, payload.pieces())
    }
    fn remove(&mut self, id: u64) -> Result<(), StoreError> {
        self.0.remove(id)
    }
    fn commit(&mut self) -> Result<(), StoreError> {
        self.0.commit()
    }
    fn is_committed(&mut self) -> Result<bool, StoreError> {
        self.0.is_committed()
    }
    fn read(&mut self, id: u64) -> Result<Bytes, StoreError> {
        self.0.read(id)
    }
    fn list(&mut self) -> Result<Vec<(u64, Vec<u8>, u64)>, StoreError> {
        self.0.list()
    }
    fn clock(&self) -> Duration {
        wall_clock()
    }
    fn damage(&self) -> Damage {
        let repository::Damage { places, bytes, files, .. } = self.0.damage();
        Damage { places, bytes, files }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_opened_again_keeps_chunks_no_longer_than_they_were_to_be_kept() {
        use tributary_core::Time;
        use tributary_mf::{
            config::ProxyConfig,
            ids::{Guid, NetworkAddress, Token},
            router::{
                StoreReason,
                proxy::{Kept, Proxy},
            },
            wire::{ChunkHeader, ChunkKind, DataTag, Reliability},
        };
        let dir = tempfile::tempdir().expect("a folder");
        let open = || {
            let (repository, own) = (FileRepository::new(dir.path()), (Guid([9; 20]), NetworkAddress(7)));
            Proxy::new(Time::ZERO, ProxyConfig::default(), own, Box::new(repository)).expect("a disk")
        };
        let lifetime = Duration::from_secs(3_600);
        let left = |proxy: &Proxy| proxy.holdings().next().expect("it is stored").until.since(Time::ZERO);
        let mut proxy = open();
        let tag = DataTag {
            object: tributary_content::ObjectId([9; 16]),
            transfer: 1,
            token: Token(7),
            number: 0,
            count: 1,
            chunk_bytes: 1_000,
            reliability: Reliability::Nack,
            window: 0,
            window_chunks: 0,
        };
        let header = ChunkHeader::new(ChunkKind::Data(tag), Guid([1; 20]), Guid([2; 20]), NetworkAddress(5));
        let header = ChunkHeader { lifetime_ms: 3_600_000, ..header };
        proxy.put(Time::ZERO, &header, &vec![1; 10].into(), Kept::For(StoreReason::Away)).expect("room");
        assert_eq!(left(&proxy), lifetime);
        drop(proxy);
        let mut before = lifetime;
        for _ in 0..2 {
            let left = left(&open());
            assert!(left < before && left > Duration::ZERO, "{left:?}");
            before = left;
            // The disk tells milliseconds.
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

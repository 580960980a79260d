//! The table of held chunks of a download.
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tributary_content::{ChunkIndex, Hash, HashTree, Manifest, ObjectId};

use super::{
    fs::{Create, FileSystem, FsFile, Kind, Links, Lock, OpenOptions, RealFileSystem, Wait},
    io_error, refusal,
};
use crate::Clock;
use tributary_content::StoreError;
use tributary_core::Time;

/// The file `state` next to the `part` of a download, locked while a process writes to the part.
///
/// ```text
///   magic "TrP\x01" | bytes of the manifest, u32 | manifest | BLAKE3 of all before, first 16 bytes
///   hash tree, Manifest::tree_bytes; zeros until it is known; checked against the manifest's root
///   slot of chunk 0 | slot of chunk 1 | …
///
///   slot: hash of the chunk, 32 | check, 8: start of BLAKE3(object id, index, hash)
/// ```
/// A table of fixed slots rather than a database or a log: one write of 40 bytes after the chunk's own bytes makes a
/// chunk held, there is nothing to replay, to compact or to grow, and a slot that is torn, missing or of another
/// object fails its check and is simply not held.
pub(super) struct StateTable {
    file: Arc<dyn FsFile>,
    path: PathBuf,
    id: ObjectId,
    /// The header as it is in the file.
    header: Vec<u8>,
    slots_offset: u64,
}

/// How often a lock that is waited for is tried.
const LOCK_LOOK: Duration = Duration::from_millis(10);

impl StateTable {
    /// Reads the header only, without a lock. `None` if there is no file, or its start is invalid, as after a crash of the
    /// machine.
    pub(super) fn peek(path: &Path) -> Option<Manifest> {
        read_header(&*open(&RealFileSystem, path, Create::Never).ok()?).ok()?
    }
    /// Opens or creates the file at `path` and locks it against other fetches, in this process and in others. A holder
    /// of the lock may be about to end; this waits for it for up to `patience`.
    pub(super) fn lock(fs: &dyn FileSystem, path: &Path, patience: Duration) -> Result<Arc<dyn FsFile>, StoreError> {
        let clock = Clock::new();
        // The previous holder of the lock may have removed the file; then the lock is on a file without a name.
        let mut without_name = 0;
        while without_name < 100 {
            let file = open(fs, path, Create::IfMissing).map_err(|error| io_error("open", path, &error))?;
            match file.lock(Lock::Exclusive, Wait::Never) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && clock.now().since(Time::ZERO) < patience => {
                    std::thread::sleep(LOCK_LOOK);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let reason =
                        "something else is being fetched to the same place; wait for it, or choose another place";
                    return Err(refusal("lock", path, reason));
                }
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    tracing::warn!("'{}' cannot be locked here; do not fetch to it twice at once", path.display());
                }
                Err(error) => return Err(io_error("lock", path, &error)),
            }
            let locked = file.metadata().map_err(|error| io_error("read", path, &error))?;
            if fs.metadata(path).is_ok_and(|named| named.identity == locked.identity) {
                return Ok(file);
            }
            without_name += 1;
        }
        Err(refusal("lock", path, "it is being created and removed all the time"))
    }
    /// Empties a locked file and writes the header of a new download.
    pub(super) fn start(file: Arc<dyn FsFile>, path: &Path, manifest: &Manifest) -> Result<Self, StoreError> {
        file.set_len(0).map_err(|error| io_error("write", path, &error))?;
        let table = Self::resume(file, path, manifest);
        table.put_header()?;
        Ok(table)
    }
    /// Writes the header again, as it was.
    pub(super) fn put_header(&self) -> Result<(), StoreError> {
        self.write(&self.header, 0)
    }
    /// Continues with a locked file whose header matches `stored`. A manifest that continues it may be longer or
    /// shorter, as when mirrors were added since then: the header stays, since the places of tree and slots follow from
    /// its length.
    pub(super) fn resume(file: Arc<dyn FsFile>, path: &Path, stored: &Manifest) -> Self {
        let manifest_bytes = stored.encode();
        let length = u32::try_from(manifest_bytes.len()).expect("a manifest is short").to_be_bytes();
        let mut header = [MAGIC, &length[..], &manifest_bytes].concat();
        header.extend_from_slice(&blake3::hash(&header).as_bytes()[..CHECKSUM_BYTES]);
        let slots_offset = header.len() as u64 + stored.tree_bytes();
        StateTable { file, path: path.into(), id: stored.object_id(), header, slots_offset }
    }
    fn tree_offset(&self) -> u64 {
        self.header.len() as u64
    }

    /// The tree, if it was written completely.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it cannot be read.
    pub(super) fn tree(&self, manifest: &Manifest) -> Result<Option<HashTree>, StoreError> {
        let mut bytes = vec![0; usize::try_from(manifest.tree_bytes()).unwrap_or(0)];
        let is_there = is_filled(&*self.file, &mut bytes, self.tree_offset());
        let is_there = is_there.map_err(|error| io_error("read", &self.path, &error))?;
        Ok(is_there.then(|| HashTree::decode(manifest, &bytes).ok()).flatten())
    }
    /// Writes the tree.
    pub(super) fn put_tree(&self, tree: &HashTree) -> Result<(), StoreError> {
        self.write(&tree.encode(), self.tree_offset())
    }
    /// The hash in each slot whose check is right, by the number of the chunk.
    ///
    /// # Errors
    /// [`StoreError::Io`] if they cannot be read: then the held chunks are unknown.
    pub(super) fn slots(&self, count: u32) -> Result<Vec<Option<Hash>>, StoreError> {
        let mut bytes = vec![0; count as usize * SLOT_BYTES];
        let mut have = 0;
        while have < bytes.len() {
            match self.file.read_at(&mut bytes[have..], self.slots_offset + have as u64) {
                Ok(0) => break,
                Ok(more) => have += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io_error("read", &self.path, &error)),
            }
        }
        let slots = bytes.as_chunks::<SLOT_BYTES>().0;
        Ok((0..).map(ChunkIndex).zip(slots).map(|(index, slot)| self.read_slot(index, slot)).collect())
    }
    /// Marks a chunk as held; its bytes were written before.
    pub(super) fn put_slot(&self, index: ChunkIndex, hash: &Hash) -> Result<(), StoreError> {
        let mut slot = [0; SLOT_BYTES];
        slot[..Hash::BYTES].copy_from_slice(&hash.0);
        slot[Hash::BYTES..].copy_from_slice(&self.check(index, hash));
        self.write(&slot, self.slot_offset(index))
    }
    /// Marks a chunk as not held.
    pub(super) fn clear_slot(&self, index: ChunkIndex) -> Result<(), StoreError> {
        self.write(&[0; SLOT_BYTES], self.slot_offset(index))
    }

    fn read_slot(&self, index: ChunkIndex, slot: &[u8; SLOT_BYTES]) -> Option<Hash> {
        let (hash, check) = slot.split_first_chunk()?;
        let hash = Hash(*hash);
        (self.check(index, &hash) == check).then_some(hash)
    }
    fn check(&self, index: ChunkIndex, hash: &Hash) -> [u8; CHECK_BYTES] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.id.0).update(&index.0.to_be_bytes()).update(&hash.0);
        *hasher.finalize().as_bytes().first_chunk().expect("8 of 32 bytes")
    }
    fn slot_offset(&self, index: ChunkIndex) -> u64 {
        self.slots_offset + u64::from(index.0) * SLOT_BYTES as u64
    }
    /// Waits until all of it is on the disk.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|error| io_error("write to disk", &self.path, &error))
    }
    fn write(&self, bytes: &[u8], offset: u64) -> Result<(), StoreError> {
        self.file.write_all_at(bytes, offset).map_err(|error| io_error("write", &self.path, &error))
    }
}

/// Opens a file of a download for reading and writing. It never follows a link: these names can be guessed, and in a
/// directory that other users can write, a link could lead anywhere.
pub(super) fn open(fs: &dyn FileSystem, path: &Path, create: Create) -> io::Result<Arc<dyn FsFile>> {
    let file = fs.open(path, OpenOptions { create, links: Links::Refuse, mode: 0o666, ..OpenOptions::WRITE })?;
    match file.metadata()?.kind {
        Kind::File => Ok(file),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}
/// The manifest in the header; `None` if it is damaged.
///
/// # Errors
/// Errors of the file system: a header that cannot be read at the moment is not damaged.
pub(super) fn read_header(file: &dyn FsFile) -> io::Result<Option<Manifest>> {
    let mut start = [0; MAGIC.len() + 4];
    if !is_filled(file, &mut start, 0)? {
        return Ok(None);
    }
    let (magic, length) = start.split_at(MAGIC.len());
    let length = u32::from_be_bytes(length.try_into().expect("4 bytes")) as usize;
    if magic[..3] == MAGIC[..3] && NEWER_VERSIONS.contains(&magic[3]) {
        // Not damaged: starting over would lose what that program has verified.
        let reason =
            "a newer version of this program has begun this download; finish it with that one, or remove the file";
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    if magic != MAGIC || length > Manifest::BYTES_MAX {
        return Ok(None);
    }
    let mut header = vec![0; start.len() + length + CHECKSUM_BYTES];
    if !is_filled(file, &mut header, 0)? {
        return Ok(None);
    }
    let (checked, checksum) = header.split_at(start.len() + length);
    if blake3::hash(checked).as_bytes()[..CHECKSUM_BYTES] != *checksum {
        return Ok(None);
    }
    Ok(Manifest::decode_own(&checked[start.len()..], None).ok())
}
/// Fills the buffer from `offset` on; false if the file ends before.
fn is_filled(file: &dyn FsFile, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
    match file.read_exact_at(buffer, offset) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

const MAGIC: &[u8; 4] = b"TrP\x01";
/// Versions of later programs; other bytes are damage.
const NEWER_VERSIONS: std::ops::RangeInclusive<u8> = MAGIC[3] + 1..=15;
const CHECKSUM_BYTES: usize = 16;
const CHECK_BYTES: usize = 8;
const SLOT_BYTES: usize = Hash::BYTES + CHECK_BYTES;

//! Where objects are read from and written to: traits that a driver injects into a core.
use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};
use bytes::Bytes;
use core::{fmt, ops::Range};

use crate::{Bitmap, ChunkIndex, HashTree, Manifest, Name, PublicKey};

/// Reads one published object.
pub trait ObjectReader: Send {
    /// The manifest of the published object.
    fn manifest(&self) -> &Manifest;
    /// The hashes of all chunks, 32 bytes each, in order; receivers check them against the manifest's root.
    fn tree(&self) -> Bytes;
    /// One chunk, verified against the tree in this read.
    ///
    /// # Errors
    /// [`StoreError::Altered`] if the bytes changed since they were published, [`StoreError::Io`] if they cannot be
    /// read.
    fn read_chunk(&mut self, index: ChunkIndex) -> Result<Bytes, StoreError>;
    /// One chunk, verified, if that needs no wait for a disk; `None` if it does. By default nothing does.
    ///
    /// # Errors
    /// The same as [`ObjectReader::read_chunk`].
    fn try_read(&mut self, index: ChunkIndex) -> Result<Option<Bytes>, StoreError> {
        self.read_chunk(index).map(Some)
    }
    /// Starts to read a chunk that [`ObjectReader::try_read`] has not returned. The driver wakes the node when
    /// [`ObjectReader::poll_read`] has something. The caller limits the reads in progress: each takes the memory of a
    /// chunk.
    fn begin_read(&mut self, _index: ChunkIndex) {}
    /// The next result of a read; each once.
    fn poll_read(&mut self) -> Option<(ChunkIndex, Result<Bytes, StoreError>)> {
        None
    }
    /// The present chunks, ascending, of an object that is still arriving; `None` if all are present.
    fn held(&self) -> Option<Vec<Range<u32>>> {
        None
    }
}

/// A task of a store; see [`ChunkStore::begin`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreTask {
    /// [`ChunkStore::put_tree`].
    Tree(HashTree),
    /// [`ChunkStore::put_chunk`].
    Chunk(ChunkIndex, Vec<u8>),
    /// [`ChunkStore::sync`].
    Sync,
    /// [`ChunkStore::finish`].
    Finish,
}

/// What a store has done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreAnswer {
    /// It is open: [`ChunkStore::held`] and [`ChunkStore::tree`] show the remains of an earlier fetch.
    Opened,
    /// The tree is kept; held chunks that do not match it were dropped.
    Tree,
    /// The chunk is held. Its bytes return as a buffer for reuse.
    Chunk(ChunkIndex, Vec<u8>),
    /// The chunks held at the time of the request survive a loss of power.
    Synced,
    /// The object has its final name.
    Finished,
}

/// Stores one object during its fetch. It gets verified chunks only.
///
/// A node calls [`ChunkStore::begin`]. A store that answers at once, such as one in memory, implements only the methods
/// that do one thing each; one that works on another thread answers later, in order, and its driver wakes the node when
/// [`ChunkStore::poll_answer`] has something. Nothing counts before its answer: [`ChunkStore::held`] changes with it
/// and not before. The caller limits the bytes in progress.
pub trait ChunkStore: Send {
    /// Whether it is open; a store that is opened on another thread holds nothing before [`StoreAnswer::Opened`].
    fn is_open(&self) -> bool {
        true
    }
    /// Executes a task and returns the answer, or starts it and returns `None`; then [`ChunkStore::poll_answer`]
    /// returns the answer.
    ///
    /// # Errors
    /// The errors of the method that does the task.
    fn begin(&mut self, task: StoreTask) -> Result<Option<StoreAnswer>, StoreError> {
        self.perform(task).map(Some)
    }
    /// Does a task by the method that does it.
    ///
    /// # Errors
    /// The errors of that method.
    fn perform(&mut self, task: StoreTask) -> Result<StoreAnswer, StoreError> {
        Ok(match task {
            StoreTask::Tree(tree) => {
                self.put_tree(&tree)?;
                StoreAnswer::Tree
            }
            StoreTask::Chunk(index, bytes) => {
                self.put_chunk(index, &bytes)?;
                StoreAnswer::Chunk(index, bytes)
            }
            StoreTask::Sync => {
                self.sync()?;
                StoreAnswer::Synced
            }
            StoreTask::Finish => {
                self.finish()?;
                StoreAnswer::Finished
            }
        })
    }
    /// The next answer to an operation; `None` if no operation has ended.
    ///
    /// # Errors
    /// [`StoreError`] if an operation, or the opening, failed. Chunks held before are not lost.
    fn poll_answer(&mut self) -> Result<Option<StoreAnswer>, StoreError> {
        Ok(None)
    }
    /// The chunks kept, including those from earlier fetches.
    fn held(&self) -> &Bitmap;
    /// The verified hash tree, if this or an earlier fetch gave it; then it need not be fetched again.
    fn tree(&self) -> Option<&HashTree> {
        None
    }
    /// Takes the verified hash tree before the first chunk. The store then need not hash chunks and can keep the tree
    /// for later fetches. It drops chunks from [`ChunkStore::held`] that do not match.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it cannot be kept.
    fn put_tree(&mut self, tree: &HashTree) -> Result<(), StoreError> {
        let _ = tree;
        Ok(())
    }
    /// Keeps one verified chunk. When this returns `Ok`, a killed process does not lose the chunk
    /// beyond the last state flush that the store documents.
    ///
    /// # Errors
    /// [`StoreError::Io`], a full disk among its causes; nothing that was kept before is lost.
    fn put_chunk(&mut self, index: ChunkIndex, bytes: &[u8]) -> Result<(), StoreError>;
    /// Makes all held chunks survive a loss of power. A store without persistence, or whose bytes leave the machine,
    /// does nothing.
    ///
    /// # Errors
    /// [`StoreError::Io`] if that fails; then a loss of power may take held chunks.
    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    /// Gives the object its final name; all chunks are held.
    ///
    /// # Errors
    /// [`StoreError::Io`] if that fails; nothing is lost, and a later fetch finishes it.
    fn finish(&mut self) -> Result<(), StoreError>;
    /// The parts of the object that the reader wants; `None` if it wants everything, in any order. Every call returns
    /// the same object.
    fn wishes(&self) -> Option<Arc<dyn Wishes>> {
        None
    }
    /// Whether its operations never wait for a disk, so that a node's own thread may call them.
    fn never_waits(&self) -> bool {
        false
    }
    /// Whether it takes this chunk now; [`ChunkStore::put_chunk`] refuses others.
    fn accepts(&self, index: ChunkIndex) -> bool {
        let _ = index;
        true
    }
}

/// Readers' wishes for an object that is being fetched; they change at any time, from any thread.
pub trait Wishes: Send + Sync {
    /// The chunks wanted now.
    fn wanted(&self) -> Wanted;
    /// A number that changes whenever [`Wishes::wanted`] does.
    fn version(&self) -> u64;
    /// Parts of wanted chunks that the store has; each once. A node that requests chunks as a whole leaves them.
    fn take_parts(&self) -> Vec<ChunkPart> {
        Vec::new()
    }
    /// Whether each change wakes the node (`handle_storage`). If not, the node looks every few milliseconds while it
    /// has nothing to request.
    fn wakes(&self) -> bool {
        false
    }
}

/// A chunk with some local bytes. The transfer verifies them with the rest of the chunk, like received ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChunkPart {
    /// The chunk.
    pub index: u32,
    /// All its bytes; missing ones are zeros.
    pub bytes: Vec<u8>,
    /// The ranges of local bytes, ascending.
    pub here: Vec<Range<u32>>,
}

/// The part of an object that is wanted now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Chunk windows, most urgent first. Chunks outside are not requested; chunks already requested may still arrive
    /// after the window has moved on.
    pub windows: Vec<Range<u32>>,
    /// Whether other chunks may be wanted later. The fetch then continues after all chunks of the windows have arrived.
    pub may_change: bool,
    /// The bytes of the object that the fetch is for: progress counts these. `None` counts the whole object.
    pub extent: Option<Vec<Range<u64>>>,
}

impl Wanted {
    /// One window of chunks, for good.
    pub fn only(window: Range<u32>) -> Wanted {
        Wanted { windows: core::iter::once(window).collect(), ..Wanted::default() }
    }
    /// Whether a chunk is in one of the windows.
    pub fn contains(&self, index: u32) -> bool {
        self.windows.iter().any(|window| window.contains(&index))
    }
}

/// Decides on trust and opens the store of a fetch once the manifest is known.
pub trait StoreOpener: Send {
    /// Checks that this manifest's publisher is trusted for this name. Changes nothing.
    ///
    /// # Errors
    /// [`StoreError::Untrusted`] explains why not.
    fn trusts(&self, manifest: &Manifest) -> Result<(), StoreError>;
    /// Whether a key is pinned or remembered for `name`, so that [`StoreOpener::trusts`] does not accept an unknown
    /// one.
    fn knows_publisher(&self, _name: &Name) -> bool {
        false
    }
    /// An authority vouches for this publisher of the name: it is believed ahead of remembered keys.
    fn certify(&mut self, _publisher: PublicKey) {}
    /// Several publishers sign the same bytes under one name, and no key is known: stores opened from now on bind the
    /// name to none of them. A store that binds no name does nothing.
    fn bind_no_key(&mut self) {}
    /// Whether an interrupted fetch left verified chunks of this object: the same name and bytes.
    fn resumes(&self, manifest: &Manifest) -> bool;
    /// Whether the fetch ends with the manifest: it is a lookup, and no transfer.
    fn only_looks(&self) -> bool {
        false
    }
    /// Opens the store. If the key is the first for this name, the store remembers it when the object is complete. It
    /// does not wait for a disk on the node's thread: a store that must wait opens on another thread and reports
    /// through [`ChunkStore::is_open`].
    ///
    /// # Errors
    /// [`StoreError`] names the object and the reason.
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError>;
    /// Opens a store for a pushed object. `delivery` identifies the sending: it is equal each time this sending
    /// arrives, also after a restart, and differs if the same object is sent again, so that a completed object is not
    /// taken twice.
    ///
    /// # Errors
    /// The errors of [`StoreOpener::open`], and [`StoreError::Later`] if its present holder should keep it for now.
    fn open_sent(&mut self, manifest: &Manifest, _delivery: &[u8]) -> Result<Box<dyn ChunkStore>, StoreError> {
        self.open(manifest)
    }
}

/// The store of an object that an earlier process received completely: nothing of it is taken again.
#[derive(Clone, Debug)]
pub struct HadStore(Bitmap);

impl HadStore {
    /// Of the object of `manifest`.
    pub fn new(manifest: &Manifest) -> HadStore {
        let mut held = Bitmap::new(manifest.chunk_count());
        (0..manifest.chunk_count()).for_each(|index| _ = held.set(index));
        HadStore(held)
    }
}
impl ChunkStore for HadStore {
    fn held(&self) -> &Bitmap {
        &self.0
    }
    fn put_chunk(&mut self, _: ChunkIndex, _: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }
    fn finish(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// The remains of a closed store: which chunks it held.
#[derive(Clone, Debug)]
pub struct ClosedStore(Bitmap);

impl ClosedStore {
    /// Of a store that held these chunks.
    pub fn new(held: Bitmap) -> ClosedStore {
        ClosedStore(held)
    }
    fn refused<T>() -> Result<T, StoreError> {
        Err(StoreError::Io { operation: "write to", path: String::new(), reason: "it is closed".into() })
    }
}
impl ChunkStore for ClosedStore {
    fn held(&self) -> &Bitmap {
        &self.0
    }
    fn put_chunk(&mut self, _: ChunkIndex, _: &[u8]) -> Result<(), StoreError> {
        Self::refused()
    }
    fn finish(&mut self) -> Result<(), StoreError> {
        Self::refused()
    }
}

/// Why a store operation failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The disk or its like refused.
    #[error("cannot {operation} '{path}': {reason}")]
    Io {
        /// The operation: `create`, `write`, `read`, `rename`, …
        operation: &'static str,
        /// On what.
        path: String,
        /// The system's reason.
        reason: String,
    },
    /// It cannot do it now: the disk is full, or nothing more is wanted at the moment. Later it may.
    #[error("{reason}")]
    Later {
        /// The explanation.
        reason: String,
    },
    /// The object is still arriving, and this chunk is missing.
    #[error("chunk {chunk} is not here yet")]
    NotYet {
        /// The chunk.
        chunk: u32,
    },
    /// A published file has changed since it was published.
    #[error("'{path}' was changed after it was published: chunk {chunk} has another hash")]
    Altered {
        /// The file.
        path: String,
        /// The first chunk that differs.
        chunk: u32,
    },
    /// A published file is shorter than it was when it was published.
    #[error("'{path}' was cut after it was published: it ends too early")]
    Cut {
        /// The file.
        path: String,
    },
    /// A published file has disappeared.
    #[error("'{path}' is gone since it was published")]
    Gone {
        /// The file.
        path: String,
    },
    /// The publisher is not believed for this name.
    #[error("{reason}")]
    Untrusted {
        /// The explanation, with both keys.
        reason: String,
    },
    /// The object does not contain the requested part.
    #[error("{reason}")]
    Absent {
        /// The explanation.
        reason: String,
    },
    /// It is sealed, and this node has no key that opens it.
    #[error("{reason}")]
    Sealed {
        /// The explanation.
        reason: String,
    },
}

/// Why a source cannot deliver its object, or a receiver cannot store one, as sent over the wire: the other end learns
/// the reason and not the path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Unavailable {
    /// The file or folder is not as it was when it was published.
    Changed,
    /// The file or folder has disappeared.
    Gone,
    /// The source cannot read it.
    Unreadable,
    /// The source is still fetching it, and has other chunks.
    NotYet,
}
impl Unavailable {
    /// Why a source that got `error` stops serving its object; `None` if it may recover.
    pub fn of(error: &StoreError) -> Option<Unavailable> {
        match error {
            StoreError::Altered { .. } | StoreError::Cut { .. } => Some(Unavailable::Changed),
            StoreError::Gone { .. } => Some(Unavailable::Gone),
            StoreError::Io { .. }
            | StoreError::Untrusted { .. }
            | StoreError::Absent { .. }
            | StoreError::Sealed { .. } => Some(Unavailable::Unreadable),
            StoreError::NotYet { .. } => Some(Unavailable::NotYet),
            StoreError::Later { .. } => None,
        }
    }
    /// Its number on the wire, at least 1.
    pub fn number(self) -> u8 {
        match self {
            Unavailable::Changed => 1,
            Unavailable::Gone => 2,
            Unavailable::Unreadable => 3,
            Unavailable::NotYet => 4,
        }
    }
    /// The reverse of [`Unavailable::number`]; unknown numbers count as [`Unavailable::Unreadable`].
    pub fn from_number(number: u8) -> Option<Unavailable> {
        match number {
            0 => None,
            1 => Some(Unavailable::Changed),
            2 => Some(Unavailable::Gone),
            4 => Some(Unavailable::NotYet),
            _ => Some(Unavailable::Unreadable),
        }
    }
}
impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unavailable::Changed => "its file was changed at the source after it was published",
            Unavailable::Gone => "its file is gone from the source since it was published",
            Unavailable::Unreadable => "the source cannot read its file",
            Unavailable::NotYet => "the source is still fetching it",
        })
    }
}

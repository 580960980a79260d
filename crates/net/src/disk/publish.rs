//! What publishing a file and publishing a directory share: hashing, reading, remembering.
use bytes::Bytes;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::UNIX_EPOCH,
};
use tributary_content::{
    Access, ChunkIndex, Hash, HashTree, Manifest, ManifestError, Name, ObjectId, ObjectKind, ObjectReader, Piece,
    PieceSizes, Pieces, PublicKey, SigningKey, StoreError, chunk_hash, chunk_size_for, list_pieces,
};

use super::{
    DirectoryObject, FileObject, LeftOut, Storage, directory::DirectorySource, file::FileSource, io_error,
    pieces::Cutter, replace_file, selection::Selection, with_suffix,
};

/// How to publish. Objects published with clones of the same options share one cache of chunks.
#[derive(Clone, Default)]
pub struct PublishOptions {
    /// The version; `None` uses the time of the last modification in microseconds since 1970, or one more than the
    /// previous version published from this path, whichever is later. Copies with equal times get equal versions.
    pub version: Option<u64>,
    /// Bytes of a chunk; `None` chooses by the size ([`chunk_size_for`]).
    pub chunk_size: Option<u32>,
    /// URLs of web servers that have the same file; receivers may fetch from them too. For unsealed files only.
    pub mirrors: Vec<String>,
    /// The daemon's state folder, which remembers manifest and tree, so that an unchanged file is not hashed again
    /// after a restart. `None` remembers nothing.
    pub state_dir: Option<PathBuf>,
    /// Chunks read lately.
    pub cache: ChunkCache,
    /// Reads chunks that are not in memory; `None` lets the caller wait.
    pub storage: Option<Storage>,
}

/// A publication of a path, and the report about it.
pub struct Publication {
    /// The object.
    pub object: Box<dyn ObjectReader>,
    /// Omitted entries of a directory.
    pub left_out: Vec<LeftOut>,
    /// The path as it is now.
    pub original: Original,
}

impl Publication {
    pub(super) fn new<S: Source + 'static>(published: Published<S>, left_out: Vec<LeftOut>) -> Self {
        let (path, fingerprint) = (published.path().into(), published.look(S::fingerprint_of_original));
        let is_snapshot = published.look(S::is_snapshot);
        let original = Original { path, kind: S::KIND, fingerprint, is_snapshot };
        Publication { object: Box::new(published), left_out, original }
    }
}

/// A path as it was when it was published.
#[derive(Clone, Debug)]
pub struct Original {
    path: PathBuf,
    kind: ObjectKind,
    fingerprint: Hash,
    /// Whether its bytes are in memory.
    is_snapshot: bool,
}

impl Original {
    /// Whether the file has not changed since, by sizes, times and inodes; no bytes are read.
    pub fn is_unchanged(&self) -> bool {
        if self.is_snapshot {
            return true;
        }
        let now = match self.kind {
            ObjectKind::File => FileSource::open(&self.path).map(|source| source.fingerprint()),
            ObjectKind::Directory => DirectorySource::open(&self.path).map(|source| source.fingerprint()),
        };
        now.is_ok_and(|now| now == self.fingerprint)
    }
}

/// Publishes the file or directory at `path` under `name`, signed with `key`.
///
/// # Errors
/// [`PublishError`] names what cannot be published, and the reason.
pub fn publish(
    path: &Path,
    name: Name,
    key: &SigningKey,
    options: &PublishOptions,
) -> Result<Publication, PublishError> {
    let metadata = fs::metadata(path).map_err(|error| io_error("read", path, &error))?;
    if metadata.is_dir() {
        let directory = DirectoryObject::publish(path, name, key, options)?;
        let left_out = directory.left_out();
        Ok(Publication::new(directory, left_out))
    } else {
        Ok(Publication::new(FileObject::publish(path, name, key, options)?, Vec::new()))
    }
}

/// Publishes a fetched file or folder at `path` as its publisher signed it: no secret key is needed. The version and
/// the chunk size in `options` are ignored.
///
/// # Errors
/// [`PublishError::Unsuitable`] if no fetch of this node has written it, or its bytes are unsigned;
/// [`PublishError::NotTheObject`] if it was changed or opened since.
pub fn publish_copy(path: &Path, options: &PublishOptions) -> Result<Publication, PublishError> {
    let path = &fs::canonicalize(path).map_err(|error| io_error("read", path, &error))?;
    let unsuitable =
        |reason: &str| PublishError::Unsuitable { path: path.display().to_string(), reason: reason.into() };
    let Some(Record { manifest, .. }) = Record::load(options.state_dir.as_deref(), path) else {
        return Err(unsuitable("no fetch of this node has written it"));
    };
    if manifest.is_unsigned() {
        return Err(unsuitable("its packets were signed one by one, and it has no signature as a whole"));
    }
    Ok(match path.is_dir() {
        true => Publication::new(DirectoryObject::mirror(path, manifest, options)?, Vec::new()),
        false => Publication::new(FileObject::mirror(path, manifest, options)?, Vec::new()),
    })
}

/// Why something cannot be published.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// It cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its manifest would break a limit.
    #[error("cannot publish '{path}': {reason}")]
    Manifest {
        /// The path.
        path: String,
        /// The limit.
        reason: ManifestError,
    },
    /// It is neither a file nor a directory, or contains such an entry.
    #[error("cannot publish '{path}': {reason}")]
    Unsuitable {
        /// The offending path.
        path: String,
        /// The defect.
        reason: String,
    },
    /// It was written to while it was read.
    #[error("cannot publish '{path}': it changed while it was read; publish it again when it is complete")]
    Changed {
        /// The path.
        path: String,
    },
    /// A mirror of an object needs exactly its bytes.
    #[error("cannot mirror '{name}' from '{path}': the bytes are not those that {publisher} published")]
    NotTheObject {
        /// The object to mirror.
        name: Name,
        /// From where.
        path: String,
        /// Who signed it.
        publisher: PublicKey,
    },
}

/// Recently read verified chunks, so that several paths with requests for nearby packets cost one read. Clones share
/// one cache; its limit covers all objects together.
#[derive(Clone, Debug)]
pub struct ChunkCache(Arc<Mutex<CacheInner>>);

#[derive(Debug)]
struct CacheInner {
    bytes_max: usize,
    bytes: usize,
    uses: u64,
    chunks: BTreeMap<(ObjectId, ChunkIndex), (u64, Bytes)>,
    /// The same chunks by the number of their last use.
    by_use: BTreeMap<u64, (ObjectId, ChunkIndex)>,
}

impl ChunkCache {
    /// The default limit: 16 MiB.
    pub const BYTES_DEFAULT: usize = 16 << 20;

    /// An empty cache of at most `bytes_max` bytes; zero keeps nothing.
    pub fn new(bytes_max: usize) -> Self {
        let (chunks, by_use) = (BTreeMap::new(), BTreeMap::new());
        ChunkCache(Arc::new(Mutex::new(CacheInner { bytes_max, bytes: 0, uses: 0, chunks, by_use })))
    }
    /// Bytes held now.
    pub fn bytes(&self) -> usize {
        self.0.lock().bytes
    }
    fn find(&self, key: (ObjectId, ChunkIndex)) -> Option<Bytes> {
        let mut inner = self.0.lock();
        inner.uses += 1;
        let now = inner.uses;
        let (used, chunk) = inner.chunks.get_mut(&key)?;
        let (before, chunk) = (std::mem::replace(used, now), chunk.clone());
        inner.by_use.remove(&before);
        inner.by_use.insert(now, key);
        Some(chunk)
    }
    /// Evicts entries to make room for `length` bytes and returns a buffer of that length, an evicted one if it is not
    /// in use.
    fn buffer(&self, length: usize) -> Vec<u8> {
        let mut inner = self.0.lock();
        let mut buffer = Vec::new();
        while inner.bytes + length > inner.bytes_max {
            let Some((_, key)) = inner.by_use.pop_first() else { break };
            let Some((_, old)) = inner.chunks.remove(&key) else { break };
            inner.bytes -= old.len();
            if let Ok(old) = old.try_into_mut() {
                buffer = Vec::from(old);
            }
        }
        drop(inner);
        buffer.resize(length, 0);
        buffer
    }
    fn keep(&self, key: (ObjectId, ChunkIndex), chunk: &Bytes) {
        let mut inner = self.0.lock();
        if inner.bytes + chunk.len() <= inner.bytes_max && !inner.chunks.contains_key(&key) {
            inner.uses += 1;
            let now = inner.uses;
            inner.bytes += chunk.len();
            inner.chunks.insert(key, (now, chunk.clone()));
            inner.by_use.insert(now, key);
        }
    }
}
impl Default for ChunkCache {
    fn default() -> Self {
        ChunkCache::new(Self::BYTES_DEFAULT)
    }
}

/// Bytes that can be published: a file, or an index with files behind it.
pub trait Source: Send + Sized {
    /// The kind of object.
    const KIND: ObjectKind;
    /// The fingerprint of the present file or directory at `path`.
    ///
    /// # Errors
    /// [`PublishError`] if it cannot be read or cannot be sent.
    fn fingerprint_at(&self, path: &Path) -> Result<Hash, PublishError>;
    /// The fingerprint of the file or folder behind it.
    fn fingerprint_of_original(&self) -> Hash {
        self.fingerprint()
    }
    /// Whether its bytes are sealed.
    fn is_sealed(&self) -> bool {
        false
    }
    /// Bytes in all.
    fn size(&self) -> u64;
    /// Time of the last modification, in microseconds since 1970.
    fn modified(&self) -> u64;
    /// Who may read it.
    fn access(&self) -> Access;
    /// Whether it was read to its end when it was opened, because its size does not state its length.
    fn is_snapshot(&self) -> bool {
        false
    }
    /// A hash over everything that shows whether a file has changed: sizes, times, inodes.
    fn fingerprint(&self) -> Hash;
    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// [`StoreError`] if they cannot be read.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError>;
    /// Fills `buffer` likewise if the system has all the bytes in memory; false if it has not, or does not report that.
    fn read_cached(&mut self, _offset: u64, _buffer: &mut [u8]) -> bool {
        false
    }
}

/// A source that is fully described by a path.
pub trait OpenSource: Source {
    /// Reads the metadata of the path, not its contents.
    ///
    /// # Errors
    /// [`PublishError`] if it cannot be read or cannot be sent.
    fn open(path: &Path) -> Result<Self, PublishError>;
}

/// A published source: its bytes stay where they are and are checked against the tree whenever they are read.
pub struct Published<S> {
    content: Arc<Content<S>>,
    storage: Option<Storage>,
    reads: Reads,
}

/// Chunks read by other threads and not taken yet.
#[derive(Clone, Default)]
pub(super) struct Reads(Arc<Mutex<VecDeque<ReadChunk>>>);
/// A chunk that was read, or why it could not be.
pub(super) type ReadChunk = (ChunkIndex, Result<Bytes, StoreError>);

impl Reads {
    /// Has a thread of `storage` read a chunk, and ring when it is done.
    pub(super) fn begin(
        &self,
        storage: &Storage,
        index: ChunkIndex,
        read: impl FnOnce() -> Result<Bytes, StoreError> + Send + 'static,
    ) {
        let (reads, bell) = (Arc::clone(&self.0), storage.bell().clone());
        storage.read(move || {
            let chunk = read();
            reads.lock().push_back((index, chunk));
            bell.ring();
        });
    }
    /// One that was read.
    pub(super) fn poll(&self) -> Option<ReadChunk> {
        self.0.lock().pop_front()
    }
}

/// What a reader on another thread needs.
struct Content<S> {
    path: PathBuf,
    manifest: Manifest,
    id: ObjectId,
    tree: HashTree,
    source: Mutex<S>,
    cache: ChunkCache,
}

impl<S: Source> Published<S> {
    fn new(path: PathBuf, source: S, manifest: Manifest, tree: HashTree, options: &PublishOptions) -> Self {
        let (id, source, cache) = (manifest.object_id(), Mutex::new(source), options.cache.clone());
        let content = Arc::new(Content { path, manifest, id, tree, source, cache });
        Published { content, storage: options.storage.clone(), reads: Reads::default() }
    }
    /// Hashes everything in one pass, at any size, and signs the manifest.
    ///
    /// # Errors
    /// [`PublishError`] if a part of it cannot be read, cannot be sent, is too large, or changes while it is read.
    pub fn publish(path: &Path, name: Name, key: &SigningKey, options: &PublishOptions) -> Result<Self, PublishError>
    where
        S: OpenSource,
    {
        let path = fs::canonicalize(path).map_err(|error| io_error("read", path, &error))?;
        let source = S::open(&path)?;
        Self::publish_source(path, source, name, key, options)
    }
    /// Publishes an open source; `path` has no links in it.
    pub(super) fn publish_source(
        path: PathBuf,
        mut source: S,
        name: Name,
        key: &SigningKey,
        options: &PublishOptions,
    ) -> Result<Self, PublishError> {
        let chunk_size = options.chunk_size.unwrap_or_else(|| chunk_size_for(source.size()));
        let illegal = |reason| PublishError::Manifest { path: path.display().to_string(), reason };
        let record = Record::load_own(options.state_dir.as_deref(), &path, &key.public());
        let fingerprint = source.fingerprint();
        let unchanged = record.as_ref().filter(|record| record.is_of(&source, chunk_size));
        let (tree, pieces) = match unchanged {
            Some(record) => (record.tree.clone(), record.manifest.pieces),
            None => {
                // Signing with a root of zeros shows illegal fields before a terabyte is hashed.
                if source.size() > 0 {
                    let root = Hash([0; 32]);
                    Manifest::sign(name.clone(), 0, S::KIND, source.size(), chunk_size, root, key).map_err(illegal)?;
                }
                let sizes = PieceSizes::of(source.size()).filter(|_| !source.is_sealed());
                hash(&path, &mut source, chunk_size, sizes)?
            }
        };
        let version = options.version.unwrap_or_else(|| match &record {
            Some(record) if record.manifest.name == name && record.manifest.publisher == key.public() => {
                let same = record.manifest.root == tree.root()
                    && record.manifest.chunk_size == chunk_size
                    && record.manifest.access == source.access();
                if same { record.manifest.version } else { source.modified().max(record.manifest.version + 1) }
            }
            _ => source.modified(),
        });
        let is_same = |of: &&Manifest| {
            (&of.name, of.version, of.publisher) == (&name, version, key.public())
                && (of.kind, of.access, of.is_sealed) == (S::KIND, source.access(), source.is_sealed())
                && of.mirrors == options.mirrors
        };
        // Signing costs more than all the rest for a small file.
        let manifest = match unchanged.map(|record| &record.manifest).filter(is_same) {
            Some(manifest) => manifest.clone(),
            None => {
                let manifest = Manifest::sign(name, version, S::KIND, source.size(), chunk_size, tree.root(), key);
                complete(manifest.map_err(illegal)?, &path, &source, pieces, key, options)?
            }
        };
        // A long name or mirrors may leave no room for pieces in the manifest; the tree then has no list of them.
        let tree = if manifest.pieces.is_some() { tree } else { tree.without_pieces() };
        // The record saves hashing, which is cheap for one chunk, and tells the next version if the caller does not.
        let is_worth_it = options.version.is_none() || manifest.chunk_count() > 1;
        if is_worth_it && unchanged.is_none_or(|record| record.manifest != manifest) {
            Record { fingerprint, manifest: manifest.clone(), tree: tree.clone() }
                .save(options.state_dir.as_deref(), &path);
        }
        Ok(Published::new(path, source, manifest, tree, options))
    }
    /// Offers a copy of an object that another publisher signed, such as a finished download. The version and the chunk
    /// size in `options` are ignored.
    ///
    /// # Errors
    /// [`PublishError::NotTheObject`] if a single byte differs, and the errors of [`Published::publish`].
    pub fn mirror(path: &Path, manifest: Manifest, options: &PublishOptions) -> Result<Self, PublishError>
    where
        S: OpenSource,
    {
        let path = fs::canonicalize(path).map_err(|error| io_error("read", path, &error))?;
        let mut source = S::open(&path)?;
        let differs = || PublishError::NotTheObject {
            name: manifest.name.clone(),
            path: path.display().to_string(),
            publisher: manifest.publisher,
        };
        if source.size() != manifest.size || manifest.kind != S::KIND {
            return Err(differs());
        }
        let fingerprint = source.fingerprint();
        let record = Record::load(options.state_dir.as_deref(), &path);
        // The record may be of another publication of these bytes, cut otherwise.
        let is_of_this =
            |record: &Record| record.is_of(&source, manifest.chunk_size) && record.manifest.pieces == manifest.pieces;
        let (tree, pieces) = match record.filter(is_of_this) {
            Some(record) => (record.tree, record.manifest.pieces),
            None => {
                let sizes = manifest.pieces.map(|pieces| pieces.sizes);
                hash(&path, &mut source, manifest.chunk_size, sizes)?
            }
        };
        if tree.root() != manifest.root || pieces != manifest.pieces {
            return Err(differs());
        }
        Record { fingerprint, manifest: manifest.clone(), tree: tree.clone() }
            .save(options.state_dir.as_deref(), &path);
        Ok(Published::new(path, source, manifest, tree, options))
    }

    /// The hash tree.
    pub fn hash_tree(&self) -> &HashTree {
        &self.content.tree
    }
    /// Where it is, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.content.path
    }
    /// Looks at the source.
    pub(super) fn look<R>(&self, look: impl FnOnce(&S) -> R) -> R {
        look(&self.content.source.lock())
    }
}
impl<S: Source + 'static> ObjectReader for Published<S> {
    fn manifest(&self) -> &Manifest {
        &self.content.manifest
    }
    fn tree(&self) -> Bytes {
        self.content.tree.encode()
    }
    fn read_chunk(&mut self, index: ChunkIndex) -> Result<Bytes, StoreError> {
        match self.content.find(index)? {
            Some(chunk) => Ok(chunk),
            None => self.content.read(index),
        }
    }
    /// Without a reader thread all chunks are read synchronously.
    fn try_read(&mut self, index: ChunkIndex) -> Result<Option<Bytes>, StoreError> {
        if self.storage.is_none() {
            return self.read_chunk(index).map(Some);
        }
        match self.content.find(index)? {
            Some(chunk) => Ok(Some(chunk)),
            None => self.content.read_cached(index),
        }
    }
    fn begin_read(&mut self, index: ChunkIndex) {
        let Some(storage) = &self.storage else { return };
        let content = Arc::clone(&self.content);
        self.reads.begin(storage, index, move || content.read(index));
    }
    fn poll_read(&mut self) -> Option<(ChunkIndex, Result<Bytes, StoreError>)> {
        self.reads.poll()
    }
}
impl<S: Source> Content<S> {
    /// A chunk that was read lately.
    fn find(&self, index: ChunkIndex) -> Result<Option<Bytes>, StoreError> {
        if index.0 >= self.manifest.chunk_count() {
            return Err(super::refusal("read", &self.path, format!("there is no chunk {}", index.0)));
        }
        Ok(self.cache.find((self.id, index)))
    }
    fn read(&self, index: ChunkIndex) -> Result<Bytes, StoreError> {
        let mut chunk = self.cache.buffer(self.manifest.chunk_len(index) as usize);
        self.source.lock().read_at(self.manifest.chunk_offset(index), &mut chunk)?;
        self.keep(index, chunk)
    }
    /// A chunk that the system has in memory.
    fn read_cached(&self, index: ChunkIndex) -> Result<Option<Bytes>, StoreError> {
        let mut chunk = self.cache.buffer(self.manifest.chunk_len(index) as usize);
        let offset = self.manifest.chunk_offset(index);
        // A reader that has it is waiting for the disk.
        let is_read = self.source.try_lock().is_some_and(|mut source| source.read_cached(offset, &mut chunk));
        if is_read { self.keep(index, chunk).map(Some) } else { Ok(None) }
    }
    /// Verifies a chunk, and keeps it for further requests.
    fn keep(&self, index: ChunkIndex, chunk: Vec<u8>) -> Result<Bytes, StoreError> {
        if !self.tree.verify_chunk(index, &chunk) {
            return Err(StoreError::Altered { path: self.path.display().to_string(), chunk: index.0 });
        }
        let chunk = Bytes::from(chunk);
        self.cache.keep((self.id, index), &chunk);
        Ok(chunk)
    }
}

/// Adds the optional fields to a manifest.
fn complete<S: Source>(
    manifest: Manifest,
    path: &Path,
    source: &S,
    pieces: Option<Pieces>,
    key: &SigningKey,
    options: &PublishOptions,
) -> Result<Manifest, PublishError> {
    let illegal = |reason| PublishError::Manifest { path: path.display().to_string(), reason };
    let mut manifest = manifest.restricted(source.access(), key);
    if !options.mirrors.is_empty() {
        if S::KIND == ObjectKind::Directory || source.is_sealed() {
            let reason = "web servers can mirror unsealed files only";
            return Err(PublishError::Unsuitable { path: path.display().to_string(), reason: reason.into() });
        }
        manifest = manifest.mirrored(options.mirrors.clone(), key).map_err(illegal)?;
    }
    if source.is_sealed() {
        manifest = manifest.sealed(key).map_err(illegal)?;
    }
    if let Some(pieces) = pieces {
        manifest = manifest.in_pieces(pieces, key);
    }
    Ok(manifest)
}

/// One pass over all bytes, several complete chunks at a time; cuts pieces too if it gets their sizes.
pub(super) fn hash<S: Source>(
    path: &Path,
    source: &mut S,
    chunk_size: u32,
    sizes: Option<PieceSizes>,
) -> Result<(HashTree, Option<Pieces>), PublishError> {
    let before = source.fingerprint();
    let chunk_size = chunk_size as usize;
    let step = (HASH_BUFFER_BYTES / chunk_size).max(1) * chunk_size;
    let mut buffer = vec![0; usize::try_from(source.size()).unwrap_or(usize::MAX).min(step)];
    let mut leaves = Vec::with_capacity(usize::try_from(source.size()).unwrap_or(0) / chunk_size + 1);
    let mut cutter = sizes.map(Cutter::new);
    let mut offset = 0;
    while offset < source.size() {
        let length = usize::try_from(source.size() - offset).unwrap_or(usize::MAX).min(step);
        let bytes = &mut buffer[..length];
        source.read_at(offset, bytes)?;
        offset += length as u64;
        let are_last = offset >= source.size();
        // Cutting costs more than hashing.
        std::thread::scope(|threads| {
            cutter.iter_mut().for_each(|cutter| _ = threads.spawn(|| cutter.push(bytes, are_last)));
            leaves.extend(bytes.chunks(chunk_size).map(chunk_hash));
        });
    }
    // Bytes in memory cannot change.
    if !source.is_snapshot() && source.fingerprint_at(path)? != before {
        return Err(PublishError::Changed { path: path.display().to_string() });
    }
    let listed = sizes.zip(cutter).map(|(sizes, cutter)| list_pieces(sizes, &cutter.pieces()));
    let (pieces, list) = listed.unzip();
    Ok((HashTree::with_pieces(leaves, &list.unwrap_or_default()), pieces))
}

/// The record of a path that is published, or of a directory that was fetched to: `STATE_DIR/published/HASH_OF_PATH`.
/// ```text
///   magic "TrR\x01" | fingerprint, 32 | bytes of the manifest, u32 | manifest | tree | BLAKE3 of all before, 32
/// ```
pub(super) struct Record {
    pub(super) fingerprint: Hash,
    pub(super) manifest: Manifest,
    pub(super) tree: HashTree,
}

impl Record {
    /// Whether a source has not changed since.
    fn is_of<S: Source>(&self, source: &S, chunk_size: u32) -> bool {
        self.fingerprint == source.fingerprint()
            && self.manifest.chunk_size == chunk_size
            && self.manifest.size == source.size()
    }
    /// The record of a part of a folder: only the same selection recognises it.
    pub(super) fn of_part(&self, selection: &Selection) -> Record {
        let fingerprint = selection.fingerprint(&self.fingerprint);
        Record { fingerprint, manifest: self.manifest.clone(), tree: self.tree.clone() }
    }
    /// The path under which the record of a part at `path` is kept, next to the record of its object.
    pub(super) fn part_at(path: &Path) -> PathBuf {
        // No path has a zero byte in it.
        with_suffix(path, "\0part")
    }
    pub(super) fn load(state_dir: Option<&Path>, path: &Path) -> Option<Record> {
        Self::read(state_dir, path, None)
    }
    /// The same, without a check of the signature if this node's `key` has made it: a program that can write into its
    /// folder can also sign.
    fn load_own(state_dir: Option<&Path>, path: &Path, key: &PublicKey) -> Option<Record> {
        Self::read(state_dir, path, Some(key))
    }
    fn read(state_dir: Option<&Path>, path: &Path, own: Option<&PublicKey>) -> Option<Record> {
        let file = Record::path(state_dir?, path);
        let lists = Manifest::CHUNKS_MAX as usize * Hash::BYTES + Pieces::COUNT_MAX as usize * Piece::BYTES;
        let longest = RECORD_FIXED_BYTES + Manifest::BYTES_MAX + lists;
        if fs::metadata(&file).ok()?.len() > longest as u64 {
            return None;
        }
        let bytes = fs::read(&file).ok()?;
        let (body, checksum) = bytes.split_last_chunk::<32>()?;
        if blake3::hash(body) != *checksum {
            return None;
        }
        let (magic, body) = body.split_first_chunk::<4>()?;
        let (fingerprint, body) = body.split_first_chunk::<32>()?;
        let (length, body) = body.split_first_chunk::<4>()?;
        let (manifest, tree) = body.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        let manifest = Manifest::decode_own(manifest, own).ok()?;
        // Unsigned objects have no tree.
        let tree = match manifest.is_unsigned() {
            true => HashTree::from_leaves(Vec::new()),
            false => HashTree::decode(&manifest, tree).ok()?,
        };
        (magic == RECORD_MAGIC).then_some(Record { fingerprint: Hash(*fingerprint), manifest, tree })
    }
    /// A record that cannot be written costs time after the next restart and nothing else, so it is no error.
    pub(super) fn save(&self, state_dir: Option<&Path>, path: &Path) {
        let Some(state_dir) = state_dir else { return };
        let file = Record::path(state_dir, path);
        let manifest = self.manifest.encode();
        let length = u32::try_from(manifest.len()).expect("a manifest is short").to_be_bytes();
        let tree = if self.manifest.is_unsigned() { Bytes::new() } else { self.tree.encode() };
        let parts: [&[u8]; 5] = [RECORD_MAGIC, &self.fingerprint.0, &length, &manifest, &tree];
        let mut checksum = blake3::Hasher::new();
        for part in parts {
            checksum.update(part);
        }
        let checksum = checksum.finalize();
        let [a, b, c, d, e] = parts;
        let saved = fs::create_dir_all(state_dir.join("published"))
            .and_then(|()| replace_file(&file, &[a, b, c, d, e, checksum.as_bytes()]));
        if let Err(error) = saved {
            tracing::warn!("cannot save the record of '{}': {}", path.display(), io_error("write", &file, &error));
        }
    }
    /// Deletes the record of a path, if possible.
    pub(super) fn forget(state_dir: Option<&Path>, path: &Path) {
        drop(state_dir.map(|state_dir| fs::remove_file(Record::path(state_dir, path))));
    }
    fn path(state_dir: &Path, path: &Path) -> PathBuf {
        let hash = blake3::hash(path.as_os_str().as_encoded_bytes());
        state_dir.join("published").join(&hash.to_hex()[..32])
    }
}

/// The error of a published file that can no longer be read.
pub(super) fn unreadable(path: &Path, error: &io::Error) -> StoreError {
    let shown = || path.display().to_string();
    match error.kind() {
        io::ErrorKind::UnexpectedEof => StoreError::Cut { path: shown() },
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StoreError::Gone { path: shown() },
        _ => io_error("read", path, error),
    }
}
/// Feeds one file's identity into a fingerprint. The time of the last change of the inode is in it because programs
/// can set back the time of the last modification, but not that one.
pub(super) fn identify(hasher: &mut blake3::Hasher, metadata: &fs::Metadata) {
    use std::os::unix::fs::MetadataExt;
    for number in [metadata.dev(), metadata.ino(), metadata.size(), u64::from(metadata.mode())] {
        hasher.update(&number.to_be_bytes());
    }
    for number in [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()] {
        hasher.update(&number.to_be_bytes());
    }
}
/// Microseconds since 1970; zero for older or unknown times.
pub(super) fn modified_micros(metadata: &fs::Metadata) -> u64 {
    let since = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

const HASH_BUFFER_BYTES: usize = 4 << 20;
const RECORD_MAGIC: &[u8; 4] = b"TrR\x01";
const RECORD_FIXED_BYTES: usize = 4 + 32 + 4 + 32;

#[cfg(test)]
mod tests;

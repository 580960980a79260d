//! Objects that many readers read at any place while they are being fetched.
//!
//! ```text
//!   readers ── want(bytes) ──► wishes ──► the node requests these chunks
//!      ▲                                             │ verified
//!      └── read(bytes) ◄── sparse file, held ◄── put_chunk
//! ```
//! Each object has a sparse file and, once its session has ended, a list of the chunks in it. A later session verifies
//! these chunks again before it uses them.
//!
//! When the disk is full, objects that no session has open are removed, the least recently read first. If that is not
//! enough, chunks pass through memory: they stay until no reader's window holds them.
use std::{
    collections::BTreeMap,
    fs,
    fs::File,
    io,
    ops::Range,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tributary_content::{
    Bitmap, ChunkCipher, ChunkIndex, ChunkStore, HashTree, Manifest, Name, ObjectKey, PublicKey, StoreError,
    StoreOpener, Wanted, Wishes,
};

use super::{Sealed, StoreHooks, Trust, check_chunk, io_error, opener::Remember};
use crate::bell::Bell;

/// The folder of the objects, and its size. Clones are one cache.
#[derive(Clone)]
pub struct ObjectCache(Arc<Folder>);

struct Folder {
    path: PathBuf,
    bytes_max: u64,
    age_max: Duration,
    /// Bytes of the disk that stay free.
    reserve_bytes: AtomicU64,
    /// How many open objects each file has.
    open: Mutex<BTreeMap<String, usize>>,
    /// Their latest opened objects.
    latest: Mutex<BTreeMap<String, Weak<Shared>>>,
    /// Whether the disk was full at the last write; a change is logged once.
    is_full: AtomicBool,
    /// Bytes that may still be written, counted down since the last look at all files; the time of that look.
    room: Mutex<(u64, SystemTime)>,
}

impl Folder {
    /// Counts written bytes, as the disk's blocks.
    fn spend(&self, bytes: usize) {
        let room = &mut *self.room.lock();
        room.0 = room.0.saturating_sub(bytes.next_multiple_of(4_096) as u64);
    }
}

/// Maximum bytes of one object's chunks in memory while the disk is full: more than the windows of usual readers.
const PASSING_BYTES_MAX: usize = 64 << 20;
/// Interval of the looks at all files while there is room: files age, and other programs use the disk.
const LOOK_EVERY: Duration = Duration::from_secs(60);

impl ObjectCache {
    /// A cache in a folder, which is made if it is missing, of at most `bytes_max` bytes. Objects that have not been
    /// read for `age_max` are removed.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the folder cannot be made.
    pub fn open(path: &Path, bytes_max: u64, age_max: Duration) -> Result<ObjectCache, StoreError> {
        use std::os::unix::fs::DirBuilderExt;
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| io_error("make the folder", path, &error))?;
        let cache = ObjectCache(Arc::new(Folder {
            path: path.into(),
            bytes_max,
            age_max,
            reserve_bytes: AtomicU64::new(0),
            open: Mutex::default(),
            latest: Mutex::default(),
            is_full: AtomicBool::new(false),
            room: Mutex::new((0, SystemTime::UNIX_EPOCH)),
        }));
        cache.sweep();
        Ok(cache)
    }
    /// Leaves this many bytes of the disk free, or a twentieth of a small disk.
    pub fn reserve(&self, bytes: u64) {
        self.0.reserve_bytes.store(bytes, Ordering::Relaxed);
        self.0.room.lock().0 = 0;
    }
    /// Removes objects that are too old, and then the least recently read ones, until the others fit. Open objects
    /// stay.
    pub fn sweep(&self) {
        self.make_room(0);
    }
    /// The same, until `more` bytes fit too; false if they never would, and then no object is removed for them.
    pub fn make_room(&self, more: u64) -> bool {
        let (room, looked) = *self.0.room.lock();
        let is_recent = |age: Duration| age < LOOK_EVERY.min(self.0.age_max);
        if room > more && looked.elapsed().is_ok_and(is_recent) {
            return true;
        }
        let files = self.files();
        let mut bytes: u64 = files.iter().map(|file| file.bytes).sum::<u64>().saturating_add(more);
        let (mut free, all) = super::fs::space(&self.0.path).unwrap_or((u64::MAX, 0));
        let need = self.0.reserve_bytes.load(Ordering::Relaxed).min(all / 20).saturating_add(more);
        let removable: u64 = files.iter().filter(|file| !file.is_open).map(|file| file.bytes).sum();
        let would_fit = bytes - removable <= self.0.bytes_max && free.saturating_add(removable) >= need;
        let mut has_removed = false;
        for file in files {
            let is_old = file.read_at.elapsed().is_ok_and(|age| age > self.0.age_max);
            let is_tight = (bytes > self.0.bytes_max || free < need) && (would_fit || more == 0);
            if !file.is_open && (is_old || is_tight) && file.remove() {
                bytes -= file.bytes;
                free = free.saturating_add(file.bytes);
                has_removed = true;
            }
        }
        let room = self.0.bytes_max.saturating_sub(bytes).min(free.saturating_sub(need));
        // A publication may keep a removed file open; its space is free only later.
        *self.0.room.lock() = (if has_removed { 0 } else { room }, now());
        bytes <= self.0.bytes_max && free >= need
    }
    /// Keeps the file `STEM.data` in the folder while the result lives.
    pub fn pin(&self, stem: &str) -> Pin {
        *self.0.open.lock().entry(stem.into()).or_default() += 1;
        Pin(OpenFile { cache: self.clone(), id: stem.into() })
    }
    /// Notes that the file `STEM.data` was read. Its own time stays, because a publication has that.
    pub fn touch(&self, stem: &str) {
        let path = self.0.path.join(format!("{stem}.used"));
        let marked = File::options().write(true).create(true).truncate(false).open(path);
        let _ = marked.and_then(|file| file.set_modified(now()));
    }
    /// Removes the least recently read object that uses space and is not open; false if all are open.
    fn evict(&self) -> bool {
        self.files().into_iter().any(|file| !file.is_open && file.bytes > 0 && file.remove())
    }
    /// The objects, the least recently read first.
    fn files(&self) -> Vec<CacheFile> {
        let open = self.0.open.lock();
        let Ok(entries) = fs::read_dir(&self.0.path) else { return Vec::new() };
        let mut files = Vec::new();
        for entry in entries.flatten() {
            let (path, Ok(metadata)) = (entry.path(), entry.metadata()) else { continue };
            let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            if path.extension().is_some_and(|extension| extension == "data") {
                let time = |metadata: fs::Metadata| metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let used = fs::metadata(path.with_extension("used")).map(time);
                let read_at = time(metadata.clone()).max(used.unwrap_or(SystemTime::UNIX_EPOCH));
                files.push(CacheFile {
                    read_at,
                    bytes: metadata.blocks() * 512,
                    path,
                    is_open: open.contains_key(&stem),
                });
            }
        }
        files.sort_by_key(|file| file.read_at);
        files
    }
    /// Writes a chunk, and frees space for it if needed; false if the disk stays full.
    ///
    /// # Errors
    /// The system's error, if it is another one than a full disk.
    pub fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<bool> {
        self.0.spend(bytes.len());
        let is_written = loop {
            match file.write_all_at(bytes, offset) {
                Ok(()) => break true,
                Err(error) if !matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
                    return Err(error);
                }
                Err(_) if self.evict() => {}
                Err(_) => break false,
            }
        };
        if self.0.is_full.swap(!is_written, Ordering::Relaxed) == is_written {
            let folder = self.0.path.display();
            match is_written {
                true => tracing::info!("the disk of the cache '{folder}' has space again"),
                false => tracing::warn!(
                    "the disk of the cache '{folder}' is full: objects pass through and are not kept; make room, or lower \
                     'cache_size' in [http]"
                ),
            }
        }
        Ok(is_written)
    }
    fn object(&self, manifest: &Manifest, key: Option<&ObjectKey>, bell: &Bell) -> Result<CachedObject, StoreError> {
        let id = manifest.object_id().to_string();
        let path = self.0.path.join(format!("{id}.data"));
        *self.0.open.lock().entry(id.clone()).or_default() += 1;
        let opened = OpenFile { cache: self.clone(), id };
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path).map_err(|error| io_error("open", &path, &error))?;
        let before = self.0.latest.lock().get(&opened.id).and_then(Weak::upgrade);
        let (held, tree) = match &before {
            // Its list is written only at the end of its session; its chunks were verified.
            Some(before) => {
                let state = before.state.lock();
                (state.on_disk(), state.tree.clone())
            }
            None => kept(&path, manifest, &file).unwrap_or((Bitmap::new(manifest.chunk_count()), None)),
        };
        file.set_len(manifest.size).map_err(|error| io_error("make room in", &path, &error))?;
        let _ = file.set_modified(now());
        let cipher = key.filter(|_| manifest.is_sealed).map(|key| ChunkCipher::of(key, manifest));
        let state = State { held, tree, ..State::default() };
        let id = opened.id.clone();
        let shared = Arc::new(Shared {
            manifest: manifest.clone(),
            cipher,
            path,
            file,
            state: Mutex::new(state),
            version: AtomicU64::new(0),
            bell: bell.clone(),
            opened,
        });
        self.0.latest.lock().insert(id, Arc::downgrade(&shared));
        Ok(CachedObject(shared))
    }
}

/// An object on the disk.
struct CacheFile {
    read_at: SystemTime,
    bytes: u64,
    path: PathBuf,
    is_open: bool,
}
impl CacheFile {
    fn remove(&self) -> bool {
        // Without its list a file starts empty, so the list is removed first.
        let _ = fs::remove_file(self.path.with_extension("held"));
        let _ = fs::remove_file(self.path.with_extension("used"));
        fs::remove_file(&self.path).is_ok()
    }
}

#[expect(clippy::disallowed_methods, reason = "files are aged by the clock on the wall, as the disk does")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// Keeps a file from eviction.
pub struct Pin(#[expect(dead_code, reason = "its end counts")] OpenFile);

/// Counts as open while it lives.
struct OpenFile {
    cache: ObjectCache,
    id: String,
}
impl Drop for OpenFile {
    fn drop(&mut self) {
        let mut open = self.cache.0.open.lock();
        if let Some(count) = open.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.id);
                self.cache.0.latest.lock().remove(&self.id);
            }
        }
    }
}

/// What an earlier session left of exactly this object, verified.
fn kept(path: &Path, manifest: &Manifest, file: &File) -> Option<(Bitmap, Option<HashTree>)> {
    let list = fs::read(path.with_extension("held")).ok()?;
    let _ = fs::remove_file(path.with_extension("held"));
    let tree_bytes = usize::try_from(manifest.tree_bytes()).ok()?;
    let (tree, bits) = list.split_at_checked(tree_bytes)?;
    let tree = HashTree::decode(manifest, tree).ok()?;
    let claimed = Bitmap::decode(manifest.chunk_count(), bits).ok()?;
    let mut held = Bitmap::new(manifest.chunk_count());
    for index in claimed.iter_set().map(ChunkIndex) {
        let mut chunk = vec![0; manifest.chunk_len(index) as usize];
        if file.read_exact_at(&mut chunk, manifest.chunk_offset(index)).is_ok() && tree.verify_chunk(index, &chunk) {
            held.set(index);
        }
    }
    Some((held, Some(tree)))
}

/// One object of a cache. Clones are the same object.
#[derive(Clone)]
pub struct CachedObject(Arc<Shared>);

struct Shared {
    manifest: Manifest,
    cipher: Option<ChunkCipher>,
    path: PathBuf,
    file: File,
    state: Mutex<State>,
    version: AtomicU64,
    bell: Bell,
    opened: OpenFile,
}
#[derive(Default)]
struct State {
    held: Bitmap,
    tree: Option<HashTree>,
    /// What each reader waits for, and its read-ahead.
    readers: BTreeMap<u64, (Range<u32>, Range<u32>)>,
    next_reader: u64,
    wakers: Vec<Waker>,
    /// No reader wants more: the fetch ends.
    is_closed: bool,
    /// Why nothing more arrives.
    failed: Option<String>,
    /// Chunks that did not fit on the disk and that a reader's window holds.
    passing: BTreeMap<u32, Bytes>,
    /// Whether an arrived chunk has been dropped. This session does not fetch it again, so new readers use a new one.
    has_dropped: bool,
}
impl State {
    fn on_disk(&self) -> Bitmap {
        let mut held = self.held.clone();
        for index in self.passing.keys() {
            held.clear(*index);
        }
        held
    }
    /// Drops the chunks in memory that no reader's window holds.
    fn pass_on(&mut self) {
        let State { passing, readers, held, has_dropped, .. } = self;
        passing.retain(|index, _| {
            let is_wanted = readers.values().any(|(urgent, ahead)| urgent.contains(index) || ahead.contains(index));
            if !is_wanted {
                held.clear(*index);
                *has_dropped = true;
            }
            is_wanted
        });
    }
}

impl Shared {
    /// The wanted chunks have changed.
    fn on_change(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
        self.bell.ring();
    }
}
impl Wishes for Shared {
    fn wanted(&self) -> Wanted {
        let state = self.state.lock();
        let is_open = |window: &Range<u32>| !window.clone().all(|index| state.held.get(index));
        let urgent = state.readers.values().map(|(urgent, _)| urgent.clone());
        let ahead = state.readers.values().map(|(_, ahead)| ahead.clone());
        let mut windows: Vec<Range<u32>> = Vec::new();
        for window in urgent.chain(ahead).filter(is_open) {
            // Readers of the same place want the same.
            if !windows.contains(&window) {
                windows.push(window);
            }
        }
        Wanted { windows, may_change: !state.is_closed, extent: None }
    }
    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
    fn wakes(&self) -> bool {
        true
    }
}

impl CachedObject {
    /// The manifest of the object.
    pub fn manifest(&self) -> &Manifest {
        &self.0.manifest
    }
    /// Whether its bytes can be read here: it is not sealed, or the node has a key.
    pub fn is_readable(&self) -> bool {
        !self.0.manifest.is_sealed || self.0.cipher.is_some()
    }
    /// Its bytes, opened.
    pub fn size(&self) -> u64 {
        if self.0.cipher.is_some() { self.0.manifest.plain_size() } else { self.0.manifest.size }
    }
    /// A new reader, which wants nothing yet.
    pub fn reader(&self) -> CacheReader {
        let mut state = self.0.state.lock();
        let id = state.next_reader;
        state.next_reader += 1;
        CacheReader { object: self.clone(), id }
    }
    /// No reader wants more: the fetch ends in order.
    pub fn close(&self) {
        self.0.state.lock().is_closed = true;
        self.0.on_change();
    }
    /// The fetch has ended, and why; readers that wait are woken.
    pub fn end(&self, reason: &str) {
        let wakers = {
            let mut state = self.0.state.lock();
            state.failed.get_or_insert_with(|| reason.into());
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
    /// Whether new readers need another session: the fetch has ended, or chunks that passed through were discarded.
    pub fn has_ended(&self) -> bool {
        let state = self.0.state.lock();
        state.failed.is_some() || state.is_closed || state.has_dropped
    }
    /// Whether the object is complete.
    pub fn is_complete(&self) -> bool {
        self.0.state.lock().held.is_full()
    }
    fn step(&self) -> u64 {
        let chunk =
            if self.0.cipher.is_some() { self.0.manifest.plain_chunk_size() } else { self.0.manifest.chunk_size };
        u64::from(chunk.max(1))
    }
    /// The chunks of a range of its bytes.
    fn chunks(&self, bytes: &Range<u64>) -> Range<u32> {
        let (step, end) = (self.step(), bytes.end.min(self.size()));
        if bytes.start >= end {
            return 0..0;
        }
        (bytes.start / step) as u32..end.div_ceil(step) as u32
    }
    /// Reads bytes whose chunks have arrived; waits for the disk.
    ///
    /// # Errors
    /// The system's error, or that a chunk differs from the publisher's sealed one.
    pub fn read(&self, bytes: Range<u64>) -> io::Result<Bytes> {
        let (cipher, passing) = (self.0.cipher.as_ref(), self.0.state.lock().passing.clone());
        if cipher.is_none() && passing.is_empty() {
            let len = usize::try_from(bytes.end - bytes.start).map_err(io::Error::other)?;
            let mut buffer = Vec::with_capacity(len);
            read_into(&self.0.file, &mut buffer, len, bytes.start)?;
            return Ok(buffer.into());
        }
        let (step, mut plain) = (self.step(), Vec::new());
        for index in self.chunks(&bytes) {
            let manifest = &self.0.manifest;
            let mut chunk = match passing.get(&index) {
                Some(chunk) => chunk.to_vec(),
                None => {
                    let mut chunk = vec![0; manifest.chunk_len(ChunkIndex(index)) as usize];
                    self.0.file.read_exact_at(&mut chunk, manifest.chunk_offset(ChunkIndex(index)))?;
                    chunk
                }
            };
            let opened = match cipher {
                Some(cipher) => {
                    cipher.open(ChunkIndex(index), &mut chunk).map_err(|error| io::Error::other(error.to_string()))?
                }
                None => &chunk[..],
            };
            let first = u64::from(index) * step;
            let end = (first + opened.len() as u64).min(bytes.end);
            plain.extend_from_slice(&opened[(bytes.start.max(first) - first) as usize..(end - first) as usize]);
        }
        Ok(plain.into())
    }
}
/// Reads into memory that was not cleared before.
fn read_into(file: &File, buffer: &mut Vec<u8>, len: usize, mut offset: u64) -> io::Result<()> {
    while buffer.len() < len {
        let room = len - buffer.len();
        let read = rustix::io::pread(file, rustix::buffer::spare_capacity(buffer), offset)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer.truncate(buffer.len().min(len));
        offset += read.min(room) as u64;
    }
    Ok(())
}

/// One reader of an object; it wants nothing more when it is dropped.
pub struct CacheReader {
    object: CachedObject,
    id: u64,
}

impl CacheReader {
    /// The object.
    pub fn object(&self) -> &CachedObject {
        &self.object
    }
    /// Wants the chunk at `at` first, and then those up to `end`.
    pub fn want(&mut self, at: u64, end: u64) {
        let ahead = self.object.chunks(&(at..end));
        let wanted = (ahead.start..ahead.end.min(ahead.start + 1), ahead);
        let before = {
            let mut state = self.object.0.state.lock();
            let before = state.readers.insert(self.id, wanted.clone());
            state.pass_on();
            before
        };
        if before != Some(wanted) {
            self.object.0.on_change();
        }
    }
    /// Waits until the byte at `at` has arrived, and returns the end of the bytes that follow it without a gap, at most
    /// `end`.
    pub fn poll_here(&mut self, context: &mut Context<'_>, at: u64, end: u64) -> Poll<Result<u64, String>> {
        let chunks = self.object.chunks(&(at..end));
        let mut state = self.object.0.state.lock();
        let here = chunks.clone().take_while(|index| state.held.get(*index)).count() as u64;
        if here == 0 && !chunks.is_empty() {
            if let Some(reason) = &state.failed {
                return Poll::Ready(Err(reason.clone()));
            }
            if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                state.wakers.push(context.waker().clone());
            }
            return Poll::Pending;
        }
        Poll::Ready(Ok(((u64::from(chunks.start) + here) * self.object.step()).min(end)))
    }
}
impl Drop for CacheReader {
    fn drop(&mut self) {
        let was_there = {
            let mut state = self.object.0.state.lock();
            let was_there = state.readers.remove(&self.id).is_some();
            state.pass_on();
            was_there
        };
        if was_there {
            self.object.0.on_change();
        }
    }
}

/// Receives the object once it is known.
pub type OnOpen = Box<dyn FnMut(CachedObject) + Send>;

/// Opens objects of a cache for fetches.
pub struct CacheOpener {
    /// The cache that holds them.
    pub cache: ObjectCache,
    /// Whom the fetch believes.
    pub trust: Trust,
    /// How sealed objects are opened.
    pub sealed: Sealed,
    /// Rung when readers' wishes change.
    pub bell: Bell,
    /// Gets the object.
    pub on_open: OnOpen,
}
impl StoreOpener for CacheOpener {
    fn trusts(&self, manifest: &Manifest) -> Result<(), StoreError> {
        self.trust.check(manifest)
    }
    fn knows_publisher(&self, name: &Name) -> bool {
        self.trust.knows(name)
    }
    fn certify(&mut self, publisher: PublicKey) {
        self.trust.certify(publisher);
    }
    fn bind_no_key(&mut self) {
        self.trust.bind_no_key();
    }
    fn resumes(&self, _: &Manifest) -> bool {
        false
    }
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
        self.trusts(manifest)?;
        let key = match &self.sealed {
            Sealed::Open(keys) if manifest.is_sealed => Some(keys.find_key(manifest)?),
            Sealed::Open(_) | Sealed::Keep => None,
        };
        let object = self.cache.object(manifest, key.as_ref(), &self.bell)?;
        (self.on_open)(object.clone());
        let held = object.0.state.lock().held.clone();
        let tree = object.0.state.lock().tree.clone();
        let remember = Remember { trust: self.trust.clone(), manifest: manifest.clone() };
        Ok(Box::new(CacheStore { remember, object, held, tree }))
    }
}
/// The store of a fetch into a cache.
struct CacheStore {
    remember: Remember,
    object: CachedObject,
    held: Bitmap,
    tree: Option<HashTree>,
}
impl ChunkStore for CacheStore {
    fn held(&self) -> &Bitmap {
        &self.held
    }
    fn tree(&self) -> Option<&HashTree> {
        self.tree.as_ref()
    }
    fn put_tree(&mut self, tree: &HashTree) -> Result<(), StoreError> {
        self.tree = Some(tree.clone());
        self.object.0.state.lock().tree = Some(tree.clone());
        Ok(())
    }
    fn put_chunk(&mut self, index: ChunkIndex, bytes: &[u8]) -> Result<(), StoreError> {
        let shared = &self.object.0;
        let manifest = &shared.manifest;
        check_chunk(manifest, index, bytes, &shared.path)?;
        let cache = &shared.opened.cache;
        let written = cache.write(&shared.file, bytes, manifest.chunk_offset(index));
        let is_written = written.map_err(|error| io_error("write", &shared.path, &error))?;
        self.held.set(index);
        let wakers = {
            let mut state = shared.state.lock();
            if !is_written {
                let passing: usize = state.passing.values().map(Bytes::len).sum();
                if passing + bytes.len() > PASSING_BYTES_MAX {
                    let full = io::Error::from(io::ErrorKind::StorageFull);
                    return Err(io_error("write", &shared.path, &full));
                }
                state.passing.insert(index.0, Bytes::copy_from_slice(bytes));
            }
            state.held.set(index);
            state.pass_on();
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
        Ok(())
    }
    fn finish(&mut self) -> Result<(), StoreError> {
        // A name is bound to a publisher's key only after a chunk of that publisher was verified.
        if self.held.count() > 0 { self.remember.before_finish() } else { Ok(()) }
    }
    fn wishes(&self) -> Option<Arc<dyn Wishes>> {
        Some(self.object.0.clone())
    }
}
impl Drop for CacheStore {
    /// Leaves a list of the held chunks for the next session, which starts empty without one.
    fn drop(&mut self) {
        let shared = &self.object.0;
        let tree = self.tree.as_ref().filter(|_| shared.manifest.tree_bytes() > 0).map(HashTree::encode);
        if self.tree.is_some() || shared.manifest.tree_bytes() == 0 {
            let list = [&tree.unwrap_or_default()[..], &shared.state.lock().on_disk().encode()].concat();
            let _ = fs::write(shared.path.with_extension("held"), list);
        }
        self.object.end("the fetch has ended");
    }
}

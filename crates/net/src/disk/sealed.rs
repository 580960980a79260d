//! Publishing for selected readers, and opening sealed downloads.
//!
//! ```text
//!   publisher   file or folder ──SealedSource──► chunks, sealed as they are read ──► hashed, served: an ordinary object
//!               Secret: key, readers, versions ─► KeyList, an object of its own
//!   reader      part, sealed chunks ──open_to──► the plain bytes, once all chunks are there
//! ```
//! The plain bytes stay where they are, and the publisher's disk holds no sealed copy. Only the secret is stored: after
//! a restart the same bytes yield the same object again, which caches and mirrors still hold.
use bytes::Bytes;
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};
use tributary_content::{
    Access, Bitmap, ChunkCipher, ChunkIndex, Hash, KeyList, Manifest, MemoryObject, Name, ObjectKey, ObjectKind,
    PublicKey, SigningKey, StoreError, chunk_size_for,
    sealed::{TAG_BYTES, sealed_size},
};

use super::{
    Publication, PublishError, PublishOptions,
    directory::DirectorySource,
    file::FileSource,
    io_error,
    publish::{OpenSource, Published, Source},
    refusal, replace_file,
};

/// A sealed object and the list of its keys, both to be published.
pub struct SealedPublication {
    /// The object.
    pub publication: Publication,
    /// Its key, wrapped for its readers.
    pub keys: MemoryObject,
}

/// Publishes the file or directory at `path` under `name` for `readers` only.
///
/// If the same bytes were published under this name for no others than these readers, the object stays the same, and only
/// the list of its keys is another one. Else it gets a new key and a later version.
///
/// # Errors
/// [`PublishError`] names what cannot be published, and the reason.
pub fn publish_sealed(
    path: &Path,
    name: Name,
    key: &SigningKey,
    readers: &[PublicKey],
    options: &PublishOptions,
) -> Result<SealedPublication, PublishError> {
    let path = fs::canonicalize(path).map_err(|error| io_error("read", path, &error))?;
    let metadata = fs::metadata(&path).map_err(|error| io_error("read", &path, &error))?;
    if metadata.is_dir() {
        let source = DirectorySource::open(&path)?;
        let left_out = source.left_out.clone();
        let (object, keys) = seal(path, source, name, key, readers, options)?;
        Ok(SealedPublication { publication: Publication::new(object, left_out), keys })
    } else {
        let source = FileSource::open(&path)?;
        let (object, keys) = seal(path, source, name, key, readers, options)?;
        Ok(SealedPublication { publication: Publication::new(object, Vec::new()), keys })
    }
}

fn seal<S: Source + 'static>(
    path: PathBuf,
    source: S,
    name: Name,
    key: &SigningKey,
    readers: &[PublicKey],
    options: &PublishOptions,
) -> Result<(Published<SealedSource<S>>, MemoryObject), PublishError> {
    let unsuitable = |reason: String| PublishError::Unsuitable { path: path.display().to_string(), reason };
    let readers: BTreeSet<PublicKey> = readers.iter().copied().collect();
    let chunk_size = options.chunk_size.unwrap_or_else(|| sealed_chunk_size(source.size()));
    let file = Secret::path(options.state_dir.as_deref(), &name, &key.public());
    let known = file.as_deref().map(Secret::load).transpose()?.flatten();
    let is_same = |known: &Secret| {
        known.fingerprint == source.fingerprint()
            && known.chunk_size == chunk_size
            && known.readers.is_subset(&readers)
            && options.version.is_none_or(|version| version == known.version)
    };
    let (mut secret, is_new) = match known {
        Some(known) if is_same(&known) => (known, false),
        known => {
            let after = known.as_ref().map(|known| known.version);
            if let (Some(after), Some(version)) = (after, options.version)
                && version <= after
            {
                let reason = format!(
                    "version {after} of '{name}' was sealed with another key already; leave the version out, or give a later one"
                );
                return Err(unsuitable(reason));
            }
            // Without a record of an earlier version the time of the last change may have been that version's.
            let earliest = after.map_or_else(now_micros, |after| after + 1);
            let secret = Secret {
                key: ObjectKey::from_secret(random(&path)?),
                fingerprint: source.fingerprint(),
                chunk_size,
                version: options.version.unwrap_or_else(|| source.modified().max(earliest)),
                list_version: known.as_ref().map_or(0, |known| known.list_version),
                readers: BTreeSet::new(),
                list: Bytes::new(),
            };
            (secret, true)
        }
    };
    let source = SealedSource::new(source, &secret.key, chunk_size);
    let sealed_options =
        PublishOptions { version: Some(secret.version), chunk_size: Some(chunk_size), ..options.clone() };
    let object = Published::publish_source(path.clone(), source, name, key, &sealed_options)?;
    let manifest = tributary_content::ObjectReader::manifest(&object);
    // Nonces are numbers of chunks: a key must never seal other bytes. A file can change within one tick of its times.
    if !is_new && !secret.is_of(manifest) {
        let reason =
            "its bytes are not those that were sealed before, though its times are: touch it and publish it again";
        return Err(unsuitable(reason.into()));
    }
    if is_new || secret.readers != readers {
        let mut failed = None;
        let mut entropy = |bytes: &mut [u8]| {
            failed = failed.take().or(getrandom::fill(bytes).err());
        };
        let of: Vec<PublicKey> = readers.iter().copied().collect();
        let list = KeyList::seal(manifest.object_id(), &secret.key, &of, &mut entropy);
        if let Some(error) = failed {
            return Err(unsuitable(format!("the system gives no random bytes: {error}")));
        }
        secret.list = list.map_err(|error| unsuitable(error.to_string()))?.encode();
        (secret.readers, secret.list_version) = (readers, now_micros().max(secret.list_version + 1));
        // Before anything is published: losing a key would let the next start seal other bytes as the same version.
        if let Some(file) = &file {
            secret.save(file)?;
        }
    }
    let illegal = |reason| PublishError::Manifest { path: path.display().to_string(), reason };
    let list_name = KeyList::name_for(manifest).map_err(|error| unsuitable(error.to_string()))?;
    let list_chunk = chunk_size_for(secret.list.len() as u64);
    let keys = MemoryObject::with_options(
        list_name,
        secret.list.clone(),
        key,
        secret.list_version,
        ObjectKind::File,
        list_chunk,
    );
    Ok((object, keys.map_err(illegal)?))
}

/// The key of the object of `manifest`, if it was the last object sealed under its name and `state_dir` remembers it.
pub fn own_key(state_dir: &Path, manifest: &Manifest) -> Option<ObjectKey> {
    let secret = Secret::load(&Secret::path(Some(state_dir), &manifest.name, &manifest.publisher)?).ok()??;
    secret.is_of(manifest).then(|| secret.key.clone())
}

/// Writes the plain bytes of the sealed object of `manifest` to a new file; `part` at `part_path` has the chunks that
/// are `held`, and missing chunks become holes.
pub(super) fn open_to(
    (part, part_path): (&dyn super::fs::FsFile, &Path),
    manifest: &Manifest,
    held: &Bitmap,
    key: &ObjectKey,
    to: &Path,
) -> Result<File, StoreError> {
    let write = |error: &io::Error| io_error("write", to, error);
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).open(to).map_err(|error| write(&error))?;
    let cipher = ChunkCipher::of(key, manifest);
    let (mut buffer, step) = (Vec::new(), u64::from(manifest.plain_chunk_size()));
    for index in held.iter_set().map(ChunkIndex) {
        buffer.resize(manifest.chunk_len(index) as usize, 0);
        let read = part.read_exact_at(&mut buffer, manifest.chunk_offset(index));
        read.map_err(|error| io_error("read", part_path, &error))?;
        let plain = cipher.open(index, &mut buffer).map_err(|error| not_sealed(manifest, &error))?;
        file.write_all_at(plain, u64::from(index.0) * step).map_err(|error| write(&error))?;
    }
    file.set_len(manifest.plain_size()).map_err(|error| write(&error))?;
    Ok(file)
}
pub(super) fn not_sealed(manifest: &Manifest, error: &tributary_content::NotSealed) -> StoreError {
    StoreError::Sealed { reason: format!("cannot open '{}': {error}; its publisher has made a mistake", manifest.name) }
}

/// A source whose bytes are a sealed object.
pub struct SealedSource<S> {
    inner: S,
    cipher: ChunkCipher,
    commitment: Hash,
    chunk_size: u32,
    size: u64,
}

impl<S: Source> SealedSource<S> {
    /// Seals the bytes of `inner`, in chunks of `chunk_size` bytes.
    pub(super) fn new(inner: S, key: &ObjectKey, chunk_size: u32) -> Self {
        let size = sealed_size(inner.size(), chunk_size);
        // Too many for an object are refused when it is signed.
        let chunks = u32::try_from(size.div_ceil(u64::from(chunk_size))).unwrap_or(u32::MAX);
        SealedSource { inner, cipher: ChunkCipher::new(key, chunks), commitment: key.commitment(), chunk_size, size }
    }
    fn fingerprint_with(&self, inner: Hash) -> Hash {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"sealed").update(&inner.0).update(&self.commitment.0);
        Hash(*hasher.finalize().as_bytes())
    }
    /// Fills a buffer of whole chunks by `read`, which gets places in the plain bytes.
    fn fill<E>(
        &mut self,
        offset: u64,
        buffer: &mut [u8],
        mut read: impl FnMut(&mut S, u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let first = offset / u64::from(self.chunk_size);
        for (index, chunk) in (first..).zip(buffer.chunks_mut(self.chunk_size as usize)) {
            let plain = chunk.len().saturating_sub(TAG_BYTES as usize);
            read(&mut self.inner, index * u64::from(self.chunk_size - TAG_BYTES), &mut chunk[..plain])?;
            self.cipher.seal(ChunkIndex(u32::try_from(index).unwrap_or(u32::MAX)), chunk);
        }
        Ok(())
    }
    /// Whether a buffer is made of whole chunks: others cannot be sealed.
    fn is_encrypted_chunk(&self, offset: u64, buffer: &[u8]) -> bool {
        let chunk = u64::from(self.chunk_size);
        let end = offset.saturating_add(buffer.len() as u64);
        offset.is_multiple_of(chunk) && (end.is_multiple_of(chunk) || end == self.size)
    }
}
impl<S: Source> Source for SealedSource<S> {
    const KIND: ObjectKind = S::KIND;

    fn fingerprint_at(&self, path: &Path) -> Result<Hash, PublishError> {
        Ok(self.fingerprint_with(self.inner.fingerprint_at(path)?))
    }
    fn fingerprint_of_original(&self) -> Hash {
        self.inner.fingerprint()
    }
    fn is_sealed(&self) -> bool {
        true
    }
    fn size(&self) -> u64 {
        self.size
    }
    tributary_core::forwarded! {
        this => this.inner;
        fn modified(&Self) -> u64;
        fn access(&Self) -> Access;
        fn is_snapshot(&Self) -> bool;
    }
    fn fingerprint(&self) -> Hash {
        self.fingerprint_with(self.inner.fingerprint())
    }
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        if !self.is_encrypted_chunk(offset, buffer) {
            return Err(refusal("seal", Path::new("-"), "only whole chunks can be sealed"));
        }
        self.fill(offset, buffer, |inner, at, plain| inner.read_at(at, plain))
    }
    fn read_cached(&mut self, offset: u64, buffer: &mut [u8]) -> bool {
        let is_cached = |is: bool| if is { Ok(()) } else { Err(()) };
        self.is_encrypted_chunk(offset, buffer)
            && self.fill(offset, buffer, |inner, at, plain| is_cached(inner.read_cached(at, plain))).is_ok()
    }
}

/// What a publisher remembers of a sealed object: `STATE_DIR/sealed/HASH_OF_NAME_AND_KEY`, readable by its owner only.
/// ```text
///   magic "TrS\x01" | key, 32 | fingerprint of the original, 32 | chunk size, u32 | version, u64 | version of the list, u64
///   | readers, u16 | their keys, 32 each | the list | BLAKE3 of all before, 32
/// ```
struct Secret {
    key: ObjectKey,
    fingerprint: Hash,
    chunk_size: u32,
    version: u64,
    list_version: u64,
    readers: BTreeSet<PublicKey>,
    list: Bytes,
}

impl Secret {
    /// Whether it is the list for the object of `manifest`.
    fn is_of(&self, manifest: &Manifest) -> bool {
        KeyList::decode(&self.list).is_ok_and(|list| list.object() == manifest.object_id())
    }
    fn path(state_dir: Option<&Path>, name: &Name, publisher: &PublicKey) -> Option<PathBuf> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&publisher.0).update(name.as_tlv());
        Some(state_dir?.join("sealed").join(&hasher.finalize().to_hex()[..32]))
    }
    /// What `file` has; `None` if it does not exist. A damaged one is an error: its versions must not be used again.
    fn load(file: &Path) -> Result<Option<Secret>, StoreError> {
        let bytes = match fs::read(file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("read", file, &error)),
        };
        let damaged = || {
            let reason = "it is damaged; move it away, and the object gets a new key and a later version";
            refusal("read", file, reason)
        };
        Self::decode(&bytes).ok_or_else(damaged).map(Some)
    }
    fn decode(bytes: &[u8]) -> Option<Secret> {
        let (body, checksum) = bytes.split_last_chunk::<32>()?;
        if blake3::hash(body) != *checksum {
            return None;
        }
        let (magic, body) = body.split_first_chunk::<4>()?;
        let (key, body) = body.split_first_chunk::<32>()?;
        let (fingerprint, body) = body.split_first_chunk::<32>()?;
        let (chunk_size, body) = body.split_first_chunk::<4>()?;
        let (version, body) = body.split_first_chunk::<8>()?;
        let (list_version, body) = body.split_first_chunk::<8>()?;
        let (count, body) = body.split_first_chunk::<2>()?;
        let (readers, list) = body.split_at_checked(usize::from(u16::from_be_bytes(*count)) * 32)?;
        let (readers, _) = readers.as_chunks::<32>();
        (magic == MAGIC).then(|| Secret {
            key: ObjectKey::from_secret(*key),
            fingerprint: Hash(*fingerprint),
            chunk_size: u32::from_be_bytes(*chunk_size),
            version: u64::from_be_bytes(*version),
            list_version: u64::from_be_bytes(*list_version),
            readers: readers.iter().map(|key| PublicKey(*key)).collect(),
            list: Bytes::copy_from_slice(list),
        })
    }
    fn save(&self, file: &Path) -> Result<(), StoreError> {
        let count = u16::try_from(self.readers.len()).expect("a list has at most 1,024").to_be_bytes();
        let mut bytes = Vec::new();
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(self.key.secret());
        bytes.extend_from_slice(&self.fingerprint.0);
        bytes.extend_from_slice(&self.chunk_size.to_be_bytes());
        bytes.extend_from_slice(&self.version.to_be_bytes());
        bytes.extend_from_slice(&self.list_version.to_be_bytes());
        bytes.extend_from_slice(&count);
        self.readers.iter().for_each(|reader| bytes.extend_from_slice(&reader.0));
        bytes.extend_from_slice(&self.list);
        let checksum = blake3::hash(&bytes);
        let folder = super::parent(file);
        fs::create_dir_all(folder)
            .and_then(|()| replace_file(file, &[&bytes, checksum.as_bytes()]))
            .map_err(|error| io_error("write", file, &error))
    }
}

/// The chunk size of a sealed object of `plain` bytes.
fn sealed_chunk_size(plain: u64) -> u32 {
    chunk_size_for(sealed_size(plain, chunk_size_for(plain)))
}
fn random(path: &Path) -> Result<[u8; 32], PublishError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        let reason = format!("the system gives no random bytes: {error}");
        PublishError::Unsuitable { path: path.display().to_string(), reason }
    })?;
    Ok(bytes)
}
/// Microseconds since 1970.
fn now_micros() -> u64 {
    u64::try_from(crate::wall_clock().as_micros()).unwrap_or(u64::MAX)
}

const MAGIC: &[u8; 4] = b"TrS\x01";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{
        DiskOpener, DiskOptions, PartFile, PartOptions, TrustStore,
        fixtures::{CHUNK, believing, directory, key, names, pattern, put, put_missing, read_all},
        opener::{Destination, FindKey, Sealed},
    };
    use parking_lot::Mutex;
    use std::sync::Arc;
    use tributary_content::{ObjectReader, StoreOpener};

    fn reader(byte: u8) -> SigningKey {
        SigningKey::from_secret(&[byte; 32])
    }
    fn options(state: &Path) -> PublishOptions {
        PublishOptions { chunk_size: Some(CHUNK), state_dir: Some(state.into()), ..PublishOptions::default() }
    }
    fn sealed(path: &Path, readers: &[u8], state: &Path) -> SealedPublication {
        let readers: Vec<PublicKey> = readers.iter().map(|byte| reader(*byte).public()).collect();
        let name = "/lab/x".parse().expect("a name");
        publish_sealed(path, name, &key(), &readers, &options(state)).expect("publishable")
    }
    /// What a reader's node does once it has the list.
    fn found(published: &SealedPublication, byte: u8) -> Option<ObjectKey> {
        let list = KeyList::decode(published.keys.bytes()).expect("it is one");
        list.open(published.publication.object.manifest().object_id(), &reader(byte))
    }
    struct Known(Option<ObjectKey>);
    impl FindKey for Known {
        fn find_key(&self, manifest: &Manifest) -> Result<ObjectKey, StoreError> {
            let reason = format!("'{}' is sealed", manifest.name);
            self.0.clone().ok_or(StoreError::Sealed { reason })
        }
    }
    fn opener(target: &Path, sealed: Sealed) -> DiskOpener {
        let state_dir = Some(target.parent().expect("in a folder").join("state"));
        let part = PartOptions { state_dir, ..PartOptions::default() };
        let trust = TrustStore::new(target.with_file_name("trust"));
        let options = DiskOptions { part, sealed, ..DiskOptions::default() };
        DiskOpener::new(believing(&trust, None), Destination::Path(target.into()), options)
    }
    fn opening(key: Option<ObjectKey>) -> Sealed {
        Sealed::Open(Arc::new(Known(key)))
    }
    /// Whether any eight bytes of the plain ones are in `bytes`.
    fn shows(bytes: &[u8], plain: &[u8]) -> bool {
        let known: BTreeSet<&[u8]> = plain.windows(8).collect();
        bytes.windows(8).any(|window| known.contains(window))
    }

    #[test]
    fn a_sealed_file_is_kept_sealed_until_it_is_whole_and_then_opened() {
        let (home, state) = (directory(), directory());
        let (path, target) = (home.path().join("file"), home.path().join("out"));
        for length in [0, 1, 1007, 1008, 1009, 5000] {
            fs::write(&path, pattern(length)).expect("writable");
            let mut published = sealed(&path, &[1], state.path());
            let manifest = published.publication.object.manifest().clone();
            assert!(manifest.is_sealed && manifest.plain_size() == length as u64);
            assert!(!shows(&read_all(&mut *published.publication.object), &pattern(length)));
            let key = found(&published, 1);
            let mut store = opener(&target, opening(key.clone())).open(&manifest).expect("there is a key");
            put(&mut *store, &mut *published.publication.object, 0);
            drop(store);
            // After a kill the download continues with the sealed chunks that it had.
            let part = PartFile::unfinished_at(&target).expect("it has a name").join("part");
            assert!(!shows(&fs::read(part).expect("there"), &pattern(length)));
            assert!(opener(&target, opening(key.clone())).resumes(&manifest));
            let mut store = opener(&target, opening(key.clone())).open(&manifest).expect("there is a key");
            assert_eq!(store.held().count(), 1);
            put_missing(&mut *store, &mut *published.publication.object);
            store.finish().expect("all is there");
            drop(store);
            assert!(fs::read(&target).expect("there") == pattern(length), "{length}");
            assert_eq!(names(home.path()), ["file", "out", "state", "trust", "trust.lock"]);
            let again = opener(&target, opening(key)).open(&manifest).expect("there is a key");
            assert!(again.held().is_full(), "nothing is fetched twice");
        }
    }

    #[test]
    fn a_sealed_folder_is_unpacked_by_a_reader_and_kept_as_one_file_by_a_mirror() {
        let (home, state) = (directory(), directory());
        let folder = home.path().join("folder");
        fs::create_dir_all(folder.join("sub")).expect("writable");
        fs::write(folder.join("sub/secret-name"), pattern(5000)).expect("writable");
        let mut published = sealed(&folder, &[1], state.path());
        let manifest = published.publication.object.manifest().clone();
        let bytes = read_all(&mut *published.publication.object);
        assert!(!bytes.windows(11).any(|window| window == b"secret-name"));
        let (out, copy) = (home.path().join("out"), home.path().join("copy"));
        let openers = [(&out, opening(found(&published, 1))), (&copy, Sealed::Keep)];
        for (target, sealed) in openers {
            let mut store = opener(target, sealed).open(&manifest).expect("nothing speaks against it");
            put_missing(&mut *store, &mut *published.publication.object);
            store.finish().expect("all is there");
        }
        assert!(fs::read(out.join("sub/secret-name")).expect("there") == pattern(5000));
        assert!(fs::read(&copy).expect("there") == bytes);
        // The plain bytes follow the sealed ones.
        let store = opener(&copy, opening(found(&published, 1))).open(&manifest);
        assert!(store.is_err_and(|error| error.to_string().contains("there is a file of that name")));
    }

    #[test]
    fn who_is_no_reader_is_refused_before_anything_is_written() {
        let (home, state) = (directory(), directory());
        let (path, target) = (home.path().join("file"), home.path().join("out"));
        fs::write(&path, pattern(5000)).expect("writable");
        let published = sealed(&path, &[1, 2], state.path());
        assert_eq!(found(&published, 3), None);
        let refused = opener(&target, opening(found(&published, 3))).open(published.publication.object.manifest());
        assert!(matches!(refused, Err(StoreError::Sealed { .. })));
        assert_eq!(names(home.path()), ["file"]);
    }

    #[test]
    fn bytes_that_open_with_another_key_never_get_the_name() {
        let (home, state) = (directory(), directory());
        let (path, target) = (home.path().join("file"), home.path().join("out"));
        fs::write(&path, pattern(5000)).expect("writable");
        let mut published = sealed(&path, &[1], state.path());
        let wrong = opening(Some(ObjectKey::from_secret([1; 32])));
        let mut store = opener(&target, wrong).open(published.publication.object.manifest()).expect("it has a key");
        put_missing(&mut *store, &mut *published.publication.object);
        let refused = store.finish().expect_err("it does not open").to_string();
        assert!(refused.contains("chunk 0 was not sealed with the key") && !target.exists(), "{refused}");
    }

    /// Collects the bytes written to a pipe.
    #[derive(Clone, Default)]
    struct Pipe(Arc<Mutex<Vec<u8>>>);
    impl io::Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stream_is_opened_in_order() {
        let (home, state, out) = (directory(), directory(), Pipe::default());
        let path = home.path().join("file");
        fs::write(&path, pattern(5000)).expect("writable");
        let mut published = sealed(&path, &[1], state.path());
        let options = DiskOptions { sealed: opening(found(&published, 1)), ..DiskOptions::default() };
        let trust = TrustStore::new(home.path().join("trust"));
        let mut opener = DiskOpener::new(believing(&trust, None), Destination::Stream(Box::new(out.clone())), options);
        let mut store = opener.open(published.publication.object.manifest()).expect("there is a key");
        for index in [4, 2, 0, 3, 1] {
            put(&mut *store, &mut *published.publication.object, index);
        }
        store.finish().expect("the reader takes all");
        assert!(*out.0.lock() == pattern(5000));
    }

    #[test]
    fn a_reader_is_added_without_a_new_object_and_removed_with_a_new_key() {
        let (home, state) = (directory(), directory());
        let path = home.path().join("file");
        fs::write(&path, pattern(5000)).expect("writable");
        let of = |published: &SealedPublication| published.publication.object.manifest().clone();
        let first = sealed(&path, &[1, 2], state.path());
        let restarted = sealed(&path, &[2, 1], state.path());
        assert_eq!(of(&restarted), of(&first), "caches still have it");
        assert_eq!(restarted.keys.manifest(), first.keys.manifest());

        let added = sealed(&path, &[1, 2, 3], state.path());
        assert_eq!(of(&added), of(&first));
        assert_eq!(added.keys.manifest().name, first.keys.manifest().name);
        assert!(added.keys.manifest().version > first.keys.manifest().version);
        assert_eq!(found(&added, 3), found(&first, 1));

        let removed = sealed(&path, &[1, 3], state.path());
        assert!(of(&removed).version > of(&first).version && of(&removed).root != of(&first).root);
        assert!(found(&removed, 2).is_none() && found(&removed, 1) != found(&first, 1));
        let file = Secret::path(Some(state.path()), &of(&first).name, &key().public()).expect("there is a folder");
        let known = Secret::load(&file).expect("readable").expect("there");
        assert_eq!(known.readers, BTreeSet::from([1, 3].map(|byte| reader(byte).public())));

        // Other bytes never come under the same key.
        fs::write(&path, pattern(5001)).expect("writable");
        let changed = sealed(&path, &[1, 3], state.path());
        assert!(of(&changed).version > of(&removed).version && found(&changed, 1) != found(&removed, 1));
        let again = PublishOptions { version: Some(of(&changed).version), ..options(state.path()) };
        fs::write(&path, pattern(5002)).expect("writable");
        let refused = publish_sealed(&path, of(&changed).name, &key(), &[reader(1).public()], &again);
        assert!(refused.is_err_and(|error| error.to_string().contains("sealed with another key already")));
    }

    #[test]
    fn other_bytes_with_the_times_of_those_before_are_not_sealed_with_their_key() {
        let (home, state) = (directory(), directory());
        let path = home.path().join("file");
        fs::write(&path, pattern(5000)).expect("writable");
        let first = sealed(&path, &[1], state.path());
        let name = first.publication.object.manifest().name.clone();
        let file = Secret::path(Some(state.path()), &name, &key().public()).expect("there is a folder");
        let before = Secret::load(&file).expect("readable").expect("there");
        fs::write(&path, vec![0; 5000]).expect("writable");
        let fingerprint = FileSource::open(&path).expect("readable").fingerprint();
        Secret { fingerprint, ..before }.save(&file).expect("writable");
        let refused = publish_sealed(&path, name, &key(), &[reader(1).public()], &options(state.path()));
        assert!(refused.is_err_and(|error| error.to_string().contains("its bytes are not those")));
    }

    #[test]
    fn a_damaged_secret_is_an_error_and_none_is_readable_by_others() {
        use std::os::unix::fs::PermissionsExt;
        let (home, state) = (directory(), directory());
        let path = home.path().join("file");
        fs::write(&path, pattern(5000)).expect("writable");
        sealed(&path, &[1], state.path());
        let folder = state.path().join("sealed");
        let secret = folder.join(&names(&folder)[0]);
        assert_eq!(fs::metadata(&secret).expect("there").permissions().mode() & 0o077, 0);
        let mut bytes = fs::read(&secret).expect("there");
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert!(Secret::decode(&bytes).is_none(), "{at}");
            bytes[at] ^= 1;
        }
        bytes.pop();
        fs::write(&secret, bytes).expect("writable");
        let name = "/lab/x".parse().expect("a name");
        let refused = publish_sealed(&path, name, &key(), &[reader(1).public()], &options(state.path()));
        assert!(refused.is_err_and(|error| error.to_string().contains("it is damaged")));
    }
}

//! A file as an object.
use bytes::Bytes;
use std::{
    fs, io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};
use tributary_content::{Access, Hash, ObjectKind, StoreError};

use super::{
    PublishError, io_error,
    open_files::PooledFile,
    publish::{OpenSource, Published, Source, identify, modified_micros, unreadable},
    snapshot,
};
use crate::platform;

/// A published file.
pub type FileObject = Published<FileSource>;

/// A file that is published.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    file: PooledFile,
    metadata: fs::Metadata,
    /// Its bytes in memory, if its size does not state their number.
    snapshot: Option<Bytes>,
}

impl OpenSource for FileSource {
    fn open(path: &Path) -> Result<Self, PublishError> {
        // Checked before it is opened: opening a pipe waits for its other end.
        let metadata = fs::metadata(path).map_err(|error| io_error("read", path, &error))?;
        if !metadata.is_file() {
            let reason = "it is neither a file nor a directory".into();
            return Err(PublishError::Unsuitable { path: path.display().to_string(), reason });
        }
        let file = snapshot::open(path).map_err(|error| io_error("open", path, &error))?;
        let metadata = file.metadata().map_err(|error| io_error("read", path, &error))?;
        let snapshot = snapshot::snapshot(&file, path, &metadata)?;
        let file = PooledFile::new(path, file).map_err(|error| io_error("read", path, &error))?;
        Ok(FileSource { path: path.into(), file, metadata, snapshot })
    }
}
impl Source for FileSource {
    const KIND: ObjectKind = ObjectKind::File;

    fn fingerprint_at(&self, path: &Path) -> Result<Hash, PublishError> {
        Self::open(path).map(|source| source.fingerprint())
    }
    fn size(&self) -> u64 {
        self.snapshot.as_ref().map_or(self.metadata.len(), |bytes| bytes.len() as u64)
    }
    fn access(&self) -> Access {
        Access::of_mode(self.metadata.mode())
    }
    fn is_snapshot(&self) -> bool {
        self.snapshot.is_some()
    }
    fn modified(&self) -> u64 {
        modified_micros(&self.metadata)
    }
    fn fingerprint(&self) -> Hash {
        let mut hasher = blake3::Hasher::new();
        identify(&mut hasher, &self.metadata);
        // The system does not report when such a file changes.
        if let Some(bytes) = &self.snapshot {
            hasher.update(bytes);
        }
        Hash(*hasher.finalize().as_bytes())
    }
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        match &self.snapshot {
            Some(bytes) => copy_from(bytes, offset, buffer),
            None => self.file.with(|file| file.read_exact_at(buffer, offset)),
        }
        .map_err(|error| unreadable(&self.path, &error))
    }
    fn read_cached(&mut self, offset: u64, buffer: &mut [u8]) -> bool {
        if let Some(bytes) = &self.snapshot {
            return copy_from(bytes, offset, buffer).is_ok();
        }
        let length = buffer.len();
        // The kernel returns bytes in memory and an error for the others; file systems that cannot distinguish return
        // an error for all.
        let read = self.file.with_open(|file| platform::read_cached_at(file, buffer, offset));
        read.is_some_and(|read| read.is_ok_and(|read| read == length))
    }
}

fn copy_from(bytes: &[u8], offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
    buffer.copy_from_slice(rest.get(..buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{
        ChunkCache, PublishOptions,
        fixtures::{CHUNK, directory, key, names, pattern, read_all},
        publish,
    };
    use bytes::Bytes;
    use std::{fs::File, os::unix::fs::PermissionsExt, time::Duration};
    use tributary_content::{ChunkIndex, HashTree, Manifest, Name, ObjectReader};

    fn name() -> Name {
        "/x".parse().expect("a name")
    }
    fn small_chunks(state: Option<&Path>) -> PublishOptions {
        PublishOptions { chunk_size: Some(CHUNK), state_dir: state.map(Into::into), ..PublishOptions::default() }
    }

    #[test]
    fn files_of_any_length_are_published_and_read_back() {
        let directory = directory();
        let path = directory.path().join("file");
        for length in [0, 1, 1023, 1024, 1025, 100_000] {
            fs::write(&path, pattern(length)).expect("writable");
            let mut published = FileObject::publish(&path, name(), &key(), &small_chunks(None)).expect("publishable");
            assert_eq!(published.manifest().size, length as u64);
            assert!(Manifest::decode(&published.manifest().encode()).is_ok());
            assert!(HashTree::decode(published.manifest(), &published.tree()).is_ok());
            assert!(read_all(&mut published) == pattern(length), "{length}");
            let beyond = ChunkIndex(published.manifest().chunk_count());
            assert!(matches!(published.read_chunk(beyond), Err(StoreError::Io { .. })));
        }
    }

    #[test]
    fn a_file_whose_size_says_nothing_is_read_to_its_end_and_stays_as_it_was_read() {
        for path in ["/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled", "/proc/uptime"] {
            let Ok(now) = fs::read(path) else { continue };
            let published = publish(Path::new(path), name(), &key(), &small_chunks(None)).expect("publishable");
            let mut object = published.object;
            let read = read_all(&mut *object);
            assert!(!read.is_empty() && (read == now || path == "/proc/uptime"), "{path}");
            assert!(published.original.is_unchanged() && read_all(&mut *object) == read);
        }
        let directory = directory();
        // A small file that is one hole has the length that it reports.
        let hole = directory.path().join("hole");
        File::create(&hole).and_then(|hole| hole.set_len(5000)).expect("writable");
        let published = publish(&hole, name(), &key(), &small_chunks(None)).expect("publishable");
        assert_eq!(published.object.manifest().size, 5000);
        fs::OpenOptions::new().write(true).open(&hole).and_then(|hole| hole.set_len(6000)).expect("writable");
        assert!(!published.original.is_unchanged());
    }

    #[test]
    fn what_is_no_file_or_has_no_end_is_refused() {
        let directory = directory();
        let pipe = directory.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("pipes can be made");
        let socket = directory.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&socket).expect("sockets can be made");
        for path in [&pipe, &socket, Path::new("/dev/zero"), Path::new("/dev/null")] {
            let refused = publish(path, name(), &key(), &small_chunks(None)).map(|_| ()).expect_err("it is no file");
            assert!(refused.to_string().contains("neither a file nor a directory"), "{refused}");
        }
        // The log of the kernel lets its reader wait.
        if snapshot::open(Path::new("/proc/kmsg")).is_ok() {
            assert!(publish(Path::new("/proc/kmsg"), name(), &key(), &small_chunks(None)).is_err());
        }
    }

    #[test]
    fn a_file_that_is_not_for_everybody_says_so_and_gets_a_new_version_when_that_changes() {
        let (directory, state) = (directory(), directory());
        let path = directory.path().join("file");
        fs::write(&path, pattern(5000)).expect("writable");
        let with_mode = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("modes can be set");
            let published = FileObject::publish(&path, name(), &key(), &small_chunks(Some(state.path())));
            published.expect("publishable").manifest().clone()
        };
        let [open, group, private] = [0o644, 0o640, 0o600].map(with_mode);
        assert_eq!([open.access, group.access, private.access], [Access::Everybody, Access::Group, Access::Owner]);
        assert!(open.version < group.version && group.version < private.version);
        assert_eq!(with_mode(0o4700), private, "who may do what else does not matter");
    }

    #[test]
    fn a_file_longer_than_the_hash_buffer_gets_the_same_root_as_in_one_piece() {
        let directory = directory();
        let path = directory.path().join("file");
        // Chunks that do not divide the buffer, and one chunk larger than it.
        for (length, chunk_size) in [(9_000_001, 300_000), (9_000_001, 5 << 20)] {
            let bytes = pattern(length);
            fs::write(&path, &bytes).expect("writable");
            let options = PublishOptions { chunk_size: Some(chunk_size), ..PublishOptions::default() };
            let published = FileObject::publish(&path, name(), &key(), &options).expect("publishable");
            let leaves = bytes.chunks(chunk_size as usize).map(tributary_content::chunk_hash).collect();
            assert_eq!(published.manifest().root, HashTree::from_leaves(leaves).root());
        }
    }

    #[test]
    fn a_file_altered_after_it_was_published_is_not_served() {
        let directory = directory();
        let path = directory.path().join("file");
        fs::write(&path, pattern(5000)).expect("writable");
        let options = PublishOptions { cache: ChunkCache::new(0), ..small_chunks(None) };
        let mut published = FileObject::publish(&path, name(), &key(), &options).expect("publishable");
        let file = fs::OpenOptions::new().write(true).open(&path).expect("writable");
        file.write_all_at(&[pattern(5000)[2000] ^ 1], 2000).expect("writable");
        assert!(published.read_chunk(ChunkIndex(0)).is_ok());
        let altered = published.read_chunk(ChunkIndex(1)).expect_err("it was altered");
        assert!(matches!(altered, StoreError::Altered { chunk: 1, .. }), "{altered}");
        file.set_len(4500).expect("writable");
        let short = published.read_chunk(ChunkIndex(4)).expect_err("it was cut").to_string();
        assert!(short.ends_with("it ends too early"), "{short}");
    }

    #[test]
    fn nearby_requests_cost_one_read_and_the_cache_keeps_its_limit() {
        let directory = directory();
        let path = directory.path().join("file");
        fs::write(&path, pattern(10_240)).expect("writable");
        let options = PublishOptions { cache: ChunkCache::new(3 * CHUNK as usize), ..small_chunks(None) };
        let mut published = FileObject::publish(&path, name(), &key(), &options).expect("publishable");
        for index in [0, 1, 2, 0, 3] {
            published.read_chunk(ChunkIndex(index)).expect("unaltered");
            assert!(options.cache.bytes() <= 3 * CHUNK as usize);
        }
        // Chunks outside the cache are lost now: 1 was used least recently and was evicted for 3.
        fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(0)).expect("writable");
        for (index, cached) in [(0, true), (2, true), (3, true), (1, false), (4, false)] {
            assert_eq!(published.read_chunk(ChunkIndex(index)).is_ok(), cached, "{index}");
        }
    }

    #[test]
    fn chunks_that_are_still_in_use_are_not_overwritten_when_buffers_are_reused() {
        let directory = directory();
        let path = directory.path().join("file");
        fs::write(&path, pattern(10_240)).expect("writable");
        let options = PublishOptions { cache: ChunkCache::new(CHUNK as usize), ..small_chunks(None) };
        let mut published = FileObject::publish(&path, name(), &key(), &options).expect("publishable");
        let held: Vec<Bytes> = (0..10).map(|i| published.read_chunk(ChunkIndex(i)).expect("unaltered")).collect();
        assert!(held.concat() == pattern(10_240));
        assert_eq!(options.cache.bytes(), CHUNK as usize);
    }

    #[test]
    fn an_unchanged_file_is_not_hashed_again_after_a_restart() {
        let directory = directory();
        let (path, state) = (directory.path().join("file"), directory.path().join("state"));
        fs::write(&path, pattern(5000)).expect("writable");
        let options = small_chunks(Some(&state));
        let first = FileObject::publish(&path, name(), &key(), &options).expect("publishable");
        // Other bytes behind the publisher's back would be noticed by hashing only; reading shows that they differ.
        let record = state.join("published").join(&names(&state.join("published"))[0]);
        let mut bytes = fs::read(&record).expect("readable");
        let mut again = FileObject::publish(&path, name(), &key(), &options).expect("publishable");
        assert_eq!(again.manifest(), first.manifest());
        assert!(read_all(&mut again) == pattern(5000));

        // A forged record with another tree and a valid checksum is accepted, which shows that nothing was hashed.
        let other = tributary_content::MemoryObject::with_options(
            name(),
            pattern(5001)[1..].to_vec(),
            &key(),
            1,
            ObjectKind::File,
            CHUNK,
        )
        .expect("legal");
        let manifest = other.manifest().encode();
        bytes.truncate(36);
        bytes.extend_from_slice(&u32::try_from(manifest.len()).expect("short").to_be_bytes());
        bytes.extend_from_slice(&manifest);
        bytes.extend_from_slice(&other.tree());
        let checksum = blake3::hash(&bytes);
        fs::write(&record, [&bytes[..], checksum.as_bytes()].concat()).expect("writable");
        let mut forged = FileObject::publish(&path, name(), &key(), &options).expect("publishable");
        assert_eq!(forged.manifest().root, other.manifest().root);
        let error = forged.read_chunk(ChunkIndex(0)).expect_err("it is checked whenever it is read");
        assert!(matches!(error, StoreError::Altered { .. }));

        // A damaged record is ignored.
        bytes.push(0);
        fs::write(&record, &bytes).expect("writable");
        let rehashed = FileObject::publish(&path, name(), &key(), &options).expect("publishable");
        assert_eq!(rehashed.manifest().root, first.manifest().root);
    }

    #[test]
    fn a_changed_file_is_hashed_again_and_gets_a_later_version_even_if_its_time_is_set_back() {
        let directory = directory();
        let (path, state) = (directory.path().join("file"), directory.path().join("state"));
        fs::write(&path, pattern(5000)).expect("writable");
        let options = small_chunks(Some(&state));
        let first = FileObject::publish(&path, name(), &key(), &options).expect("publishable");
        let time = fs::metadata(&path).and_then(|metadata| metadata.modified()).expect("known");
        fs::write(&path, &pattern(5001)[1..]).expect("writable");
        let file = fs::OpenOptions::new().write(true).open(&path).expect("writable");
        file.set_modified(time - Duration::from_secs(60)).expect("times can be set");
        let second = FileObject::publish(&path, name(), &key(), &options).expect("publishable");
        assert_ne!(second.manifest().root, first.manifest().root);
        assert_eq!(second.manifest().version, first.manifest().version + 1);
        let touched = fs::set_permissions(&path, fs::Permissions::from_mode(0o755));
        touched.expect("modes can be set");
        let third = FileObject::publish(&path, name(), &key(), &options).expect("publishable");
        assert_eq!(third.manifest(), second.manifest(), "equal bytes stay the same object");
    }

    #[test]
    fn copies_with_equal_times_become_the_same_object() {
        let directory = directory();
        let time = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let publish = |file: &str| {
            let path = directory.path().join(file);
            fs::write(&path, pattern(5000)).expect("writable");
            fs::OpenOptions::new()
                .write(true)
                .open(&path)
                .and_then(|f| f.set_modified(time))
                .expect("times can be set");
            FileObject::publish(&path, name(), &key(), &small_chunks(None)).expect("publishable")
        };
        let (a, b) = (publish("a"), publish("b"));
        assert_eq!(a.manifest(), b.manifest());
        assert_eq!(a.manifest().version, 1_000_000_000_000);
    }

    #[test]
    fn a_mirror_offers_the_same_object_and_refuses_other_bytes() {
        let directory = directory();
        let (path, copy) = (directory.path().join("file"), directory.path().join("copy"));
        fs::write(&path, pattern(5000)).expect("writable");
        fs::write(&copy, pattern(5000)).expect("writable");
        let published = FileObject::publish(&path, name(), &key(), &small_chunks(None)).expect("publishable");
        let manifest = published.manifest().clone();
        let options = PublishOptions { state_dir: Some(directory.path().join("state")), ..PublishOptions::default() };
        for _ in 0..2 {
            let mut mirror = FileObject::mirror(&copy, manifest.clone(), &options).expect("the same bytes");
            assert_eq!(mirror.manifest(), &manifest);
            assert!(read_all(&mut mirror) == pattern(5000));
        }
        for other in [&pattern(5001)[1..], &pattern(4999)] {
            fs::write(&copy, other).expect("writable");
            let refused = FileObject::mirror(&copy, manifest.clone(), &options).err().expect("other bytes");
            assert!(matches!(refused, PublishError::NotTheObject { .. }), "{refused}");
        }
    }

    #[test]
    fn what_is_no_file_is_refused_without_waiting_for_it() {
        let directory = directory();
        let pipe = directory.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("pipes can be made");
        let publish = |path: &Path| FileObject::publish(path, name(), &key(), &PublishOptions::default());
        assert!(matches!(publish(&pipe), Err(PublishError::Unsuitable { .. })));
        assert!(matches!(publish(directory.path()), Err(PublishError::Unsuitable { .. })));
        assert!(matches!(publish(&directory.path().join("nothing")), Err(PublishError::Store(_))));
        let file = directory.path().join("file");
        fs::write(&file, b"x").expect("writable");
        let root = FileObject::publish(&file, Name::root(), &key(), &PublishOptions::default());
        assert!(matches!(root, Err(PublishError::Manifest { .. })));
    }
}

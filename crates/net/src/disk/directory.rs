//! A directory as one object.
use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{FileExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
};
use tributary_content::{Access, Hash, ObjectKind, StoreError};

use super::{
    PublishError,
    index::{DirectoryIndex, EntryKind, FileMode, IndexEntry, check_target},
    io_error,
    open_files::PooledFile,
    publish::{OpenSource, Published, Source, identify, modified_micros, unreadable},
    snapshot,
    staging::is_reserved,
};

/// A published directory: a [`DirectoryIndex`] and the bytes of its files behind it. No copy is made; the files are
/// read where they are.
pub type DirectoryObject = Published<DirectorySource>;

impl DirectoryObject {
    /// The index of the directory.
    pub fn index(&self) -> Arc<DirectoryIndex> {
        self.look(|source| Arc::clone(&source.index))
    }
    /// What in it cannot be sent and is not part of the object: the path below the directory, and why.
    pub fn left_out(&self) -> Vec<LeftOut> {
        self.look(|source| source.left_out.clone())
    }
}

/// An entry omitted when a directory is published: a link that leads out of it, or anything but a file, directory or
/// link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// The path below the directory.
    pub path: String,
    /// Why it cannot be sent.
    pub reason: &'static str,
}

/// A directory that is published.
#[derive(Debug)]
pub struct DirectorySource {
    path: PathBuf,
    pub(super) index: Arc<DirectoryIndex>,
    encoded: Vec<u8>,
    /// The entries of the directory that are not in the object.
    pub(super) left_out: Vec<LeftOut>,
    /// Where each file that is not empty starts in the object, and its number in the index.
    starts: Vec<(u64, usize)>,
    size: u64,
    modified: u64,
    access: Access,
    fingerprint: Hash,
    /// The hash by which each entry of the index counts in the fingerprint.
    identities: Vec<Hash>,
    /// The file read last: most chunks lie within one file.
    open: Option<(usize, PooledFile)>,
}

impl OpenSource for DirectorySource {
    fn open(path: &Path) -> Result<Self, PublishError> {
        let metadata = fs::metadata(path).map_err(|error| io_error("read", path, &error))?;
        let mut walk =
            Walk { root: path, entries: Vec::new(), modified: 0, identities: Vec::new(), left_out: Vec::new() };
        walk.visit(path, 0)?;
        walk.identities.sort();
        let fingerprint = fingerprint_of(walk.identities.iter().map(|(path, identity)| (&path[..], identity)));
        let unsuitable = |reason| PublishError::Unsuitable { path: path.display().to_string(), reason };
        let (modified, left_out) = (walk.modified, walk.left_out);
        let index = DirectoryIndex::new(walk.entries).map_err(unsuitable)?;
        let encoded = index.encode();
        let (mut at, mut starts) = (encoded.len() as u64, Vec::new());
        for (number, entry) in index.entries().iter().enumerate().filter(|(_, entry)| entry.content_bytes() > 0) {
            starts.push((at, number));
            at = at.saturating_add(entry.content_bytes());
        }
        // Both are in the order of their paths.
        let identities = walk.identities.into_iter().map(|(_, identity)| identity).collect();
        let index = Arc::new(index);
        let (path, size) = (path.into(), at);
        let access = access_of_directory(&metadata);
        Ok(DirectorySource {
            path,
            index,
            encoded,
            left_out,
            starts,
            size,
            modified,
            access,
            fingerprint,
            identities,
            open: None,
        })
    }
}
impl Source for DirectorySource {
    const KIND: ObjectKind = ObjectKind::Directory;

    fn fingerprint_at(&self, path: &Path) -> Result<Hash, PublishError> {
        Self::open(path).map(|source| source.fingerprint())
    }
    fn size(&self) -> u64 {
        self.size
    }
    fn modified(&self) -> u64 {
        self.modified
    }
    fn access(&self) -> Access {
        self.access
    }
    fn fingerprint(&self) -> Hash {
        self.fingerprint
    }
    fn read_at(&mut self, mut offset: u64, mut buffer: &mut [u8]) -> Result<(), StoreError> {
        if let Some(left) = self.encoded.len().checked_sub(usize::try_from(offset).unwrap_or(usize::MAX)) {
            let (head, rest) = buffer.split_at_mut(left.min(buffer.len()));
            let start = self.encoded.len() - left;
            head.copy_from_slice(&self.encoded[start..start + head.len()]);
            offset += head.len() as u64;
            buffer = rest;
        }
        while !buffer.is_empty() {
            let at = self.starts.partition_point(|(start, _)| *start <= offset);
            let Some((start, number)) = at.checked_sub(1).map(|at| self.starts[at]) else { break };
            let entry = &self.index.entries()[number];
            let within = offset - start;
            let left = usize::try_from(entry.content_bytes().saturating_sub(within)).unwrap_or(usize::MAX);
            let path = self.path.join(OsStr::from_bytes(&entry.path));
            if left == 0 {
                return Err(super::refusal("read", &self.path, "the object ends before the chunk does"));
            }
            if self.open.as_ref().is_none_or(|(open, _)| *open != number) {
                let file = snapshot::open(&path).and_then(|file| PooledFile::new(&path, file));
                self.open = Some((number, file.map_err(|error| unreadable(&path, &error))?));
            }
            let (piece, rest) = buffer.split_at_mut(left.min(buffer.len()));
            let (_, file) = self.open.as_ref().expect("it was opened above");
            file.with(|file| file.read_exact_at(piece, within)).map_err(|error| unreadable(&path, &error))?;
            offset += piece.len() as u64;
            buffer = rest;
        }
        Ok(())
    }
}

impl DirectorySource {
    /// The entries in the order of their paths, each with its hash in the fingerprint.
    pub(super) fn identities(&self) -> impl Iterator<Item = (&IndexEntry, &Hash)> {
        self.index.entries().iter().zip(&self.identities)
    }
    /// Whether this is the metadata that the entry at `path` had when the directory was opened.
    pub(super) fn is_as_opened(&self, path: &[u8], metadata: &fs::Metadata) -> bool {
        let at = self.index.entries().binary_search_by(|entry| entry.path[..].cmp(path));
        at.is_ok_and(|at| self.identities[at] == identity_of(metadata))
    }
    /// Length of the encoded index, which precedes the files.
    pub(super) fn index_bytes(&self) -> u64 {
        self.encoded.len() as u64
    }
    /// Whether the object contains every entry of the directory.
    pub(super) fn is_complete(&self) -> bool {
        self.left_out.is_empty()
    }
}

struct Walk<'a> {
    root: &'a Path,
    entries: Vec<IndexEntry>,
    left_out: Vec<LeftOut>,
    modified: u64,
    identities: Vec<(Vec<u8>, Hash)>,
}

impl Walk<'_> {
    fn visit(&mut self, directory: &Path, depth: usize) -> Result<(), PublishError> {
        let unsuitable = |path: &Path, reason: &str| PublishError::Unsuitable {
            path: path.display().to_string(),
            reason: reason.into(),
        };
        if depth > DirectoryIndex::DEPTH_MAX {
            return Err(unsuitable(directory, "it is more than 64 directories deep"));
        }
        for entry in fs::read_dir(directory).map_err(|error| io_error("read", directory, &error))? {
            let path = entry.map_err(|error| io_error("read", directory, &error))?.path();
            let metadata = fs::symlink_metadata(&path).map_err(|error| io_error("read", &path, &error))?;
            let relative = path.strip_prefix(self.root).expect("it was found below").as_os_str().as_bytes().to_vec();
            let mut leave_out = |reason| {
                let path = String::from_utf8_lossy(&relative).into_owned();
                self.left_out.push(LeftOut { path, reason });
            };
            if path.file_name().is_some_and(|name| is_reserved(name.as_bytes())) {
                leave_out("it belongs to an unfinished download");
                continue;
            }
            let kind = if metadata.is_file() {
                let executable = metadata.permissions().mode() & 0o100 != 0;
                let mode = if executable { FileMode::Executable } else { FileMode::Plain };
                if is_made_while_read(&path, &metadata) {
                    leave_out("its size does not reveal its content");
                    continue;
                }
                EntryKind::File { size: metadata.len(), mode, access: Access::of_mode(metadata.mode()) }
            } else if metadata.is_dir() {
                EntryKind::Directory { access: access_of_directory(&metadata) }
            } else if metadata.is_symlink() {
                let target = fs::read_link(&path).map_err(|error| io_error("read", &path, &error))?;
                let target = target.into_os_string().into_vec();
                if let Err(reason) = check_target(&relative, &target) {
                    leave_out(reason);
                    continue;
                }
                EntryKind::Link { target }
            } else {
                leave_out("it is neither a file nor a directory nor a link");
                continue;
            };
            if self.entries.len() == DirectoryIndex::ENTRIES_MAX {
                return Err(unsuitable(self.root, "it has more than 100,000 entries"));
            }
            if !metadata.is_dir() {
                self.modified = self.modified.max(modified_micros(&metadata));
            }
            self.identities.push((relative.clone(), identity_of(&metadata)));
            self.entries.push(IndexEntry { path: relative, kind });
            if metadata.is_dir() {
                self.visit(&path, depth + 1)?;
            }
        }
        Ok(())
    }
}

/// The fingerprint of a directory from the identities of its entries, in the order of their paths.
pub(super) fn fingerprint_of<'a>(identities: impl Iterator<Item = (&'a [u8], &'a Hash)>) -> Hash {
    let mut hasher = blake3::Hasher::new();
    for (path, identity) in identities {
        hasher.update(&(path.len() as u64).to_be_bytes()).update(path).update(&identity.0);
    }
    Hash(*hasher.finalize().as_bytes())
}
/// The hash by which an entry counts in the fingerprint of its directory.
pub(super) fn identity_of(metadata: &fs::Metadata) -> Hash {
    let mut hasher = blake3::Hasher::new();
    if metadata.is_dir() {
        // Its entries are listed; its own times and size also change for irrelevant reasons.
        hasher.update(b"directory");
    } else {
        identify(&mut hasher, metadata);
    }
    Hash(*hasher.finalize().as_bytes())
}
/// Who may enter a directory: it needs both reading and passing.
fn access_of_directory(metadata: &fs::Metadata) -> Access {
    let passed = (metadata.mode() & 0o011) << 2;
    Access::of_mode(metadata.mode() & passed)
}
/// Whether a file is one whose bytes the system makes while it is read, as in `/proc`.
fn is_made_while_read(path: &Path, metadata: &fs::Metadata) -> bool {
    if metadata.blocks() > 0 {
        return false;
    }
    // An empty file has nothing to read, with any permissions.
    let Ok(file) = snapshot::open(path) else { return false };
    // One that cannot be read to its end is of that kind as well.
    snapshot::snapshot(&file, path, metadata).map_or(true, |snapshot| snapshot.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{
        PartFile, PartOptions, PublishOptions,
        fixtures::{CHUNK, directory, key, names, pattern, put_missing, read_all},
    };
    use tributary_content::{ChunkIndex, ChunkStore, MemoryObject, Name, ObjectReader};

    fn name() -> Name {
        "/tree".parse().expect("a name")
    }
    fn options() -> PublishOptions {
        PublishOptions { chunk_size: Some(CHUNK), ..PublishOptions::default() }
    }
    fn example(root: &Path) {
        fs::create_dir_all(root.join("sub/deeper")).expect("writable");
        fs::create_dir(root.join("nothing in it")).expect("writable");
        fs::write(root.join("a"), pattern(3000)).expect("writable");
        fs::write(root.join("empty"), b"").expect("writable");
        fs::write(root.join("sub/program"), pattern(10)).expect("writable");
        fs::set_permissions(root.join("sub/program"), fs::Permissions::from_mode(0o755)).expect("modes can be set");
        fs::write(root.join("sub/deeper/z"), pattern(2049)).expect("writable");
        for number in 0..50 {
            fs::write(root.join(format!("sub/{number}")), [number; 40]).expect("writable");
        }
        std::os::unix::fs::symlink("../a", root.join("sub/link")).expect("links can be made");
        fs::write(root.join(OsStr::from_bytes(b"\xff\xfe")), b"a name that is no text").expect("writable");
    }
    fn fetch(published: &mut dyn ObjectReader, target: &Path) -> Result<(), StoreError> {
        let mut store = PartFile::open(target, published.manifest(), &PartOptions::default())?;
        for index in (0..published.manifest().chunk_count()).map(ChunkIndex) {
            store.put_chunk(index, &published.read_chunk(index)?)?;
        }
        store.finish()
    }

    #[test]
    fn a_directory_arrives_as_it_was_published() {
        let directory = directory();
        let (source, target) = (directory.path().join("source"), directory.path().join("target"));
        example(&source);
        let mut published = DirectoryObject::publish(&source, name(), &key(), &options()).expect("publishable");
        assert_eq!(published.manifest().kind, ObjectKind::Directory);
        let bytes = read_all(&mut published);
        assert_eq!(bytes.len() as u64, published.manifest().size);
        fetch(&mut published, &target).expect("it can be stored");
        assert_eq!(names(directory.path()), ["source", "target"]);
        for path in ["a", "empty", "sub/program", "sub/deeper/z", "sub/49", "sub/link"] {
            let read = |root: &Path| fs::read(root.join(path)).expect(path);
            assert!(read(&target) == read(&source), "{path}");
        }
        assert_eq!(fs::read_link(target.join("sub/link")).expect("a link"), Path::new("../a"));
        let mode = |path: &str| fs::metadata(target.join(path)).expect("there").permissions().mode() & 0o100;
        assert_eq!((mode("sub/program"), mode("a")), (0o100, 0));
        // Its index is identical, so any receiver can offer it.
        let mut mirror = DirectoryObject::mirror(&target, published.manifest().clone(), &options()).expect("the same");
        assert!(read_all(&mut mirror) == bytes);
        fs::write(target.join("a"), pattern(3000).split_off(1)).expect("writable");
        let refused = DirectoryObject::mirror(&target, published.manifest().clone(), &options());
        assert!(matches!(refused, Err(PublishError::NotTheObject { .. })));
    }

    #[test]
    fn every_chunk_boundary_falls_right_whatever_the_sizes() {
        for sizes in [&[1usize][..], &[0, 0], &[1024, 1024], &[1000, 0, 5000, 1], &[]] {
            let directory = directory();
            for (number, size) in sizes.iter().enumerate() {
                fs::write(directory.path().join(number.to_string()), pattern(*size)).expect("writable");
            }
            let mut published =
                DirectoryObject::publish(directory.path(), name(), &key(), &options()).expect("publishable");
            let mut expected = published.index().encode();
            sizes.iter().for_each(|size| expected.extend_from_slice(&pattern(*size)));
            assert!(read_all(&mut published) == expected, "{sizes:?}");
        }
    }

    #[test]
    fn what_cannot_be_sent_is_left_out_and_told_and_the_rest_is_published() {
        let (directory, target) = (directory(), directory());
        let (source, target) = (directory.path(), target.path().join("target"));
        fs::create_dir(source.join("sub")).expect("writable");
        fs::write(source.join("sub/file"), b"stays").expect("writable");
        std::os::unix::fs::symlink("file", source.join("sub/inside")).expect("links can be made");
        std::os::unix::fs::symlink("/etc", source.join("sub/absolute")).expect("links can be made");
        std::os::unix::fs::symlink("../../etc", source.join("sub/climbs")).expect("links can be made");
        nix::unistd::mkfifo(&source.join("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("pipes can be made");
        fs::create_dir(source.join("sub/.tributary-0123")).expect("writable");
        fs::write(source.join("sub/.tributary-0123/part"), b"unfinished").expect("writable");
        let mut published = DirectoryObject::publish(source, name(), &key(), &options()).expect("publishable");
        let mut left_out: Vec<_> = published.left_out().into_iter().map(|left_out| left_out.path).collect();
        left_out.sort();
        assert_eq!(left_out, ["pipe", "sub/.tributary-0123", "sub/absolute", "sub/climbs"]);
        fetch(&mut published, &target).expect("it can be stored");
        assert_eq!(
            (names(&target), names(&target.join("sub"))),
            (vec!["sub".into()], vec!["file".into(), "inside".into()])
        );
    }

    #[test]
    fn altered_or_shortened_files_are_not_served() {
        let directory = directory();
        example(directory.path());
        let options = PublishOptions { cache: crate::disk::ChunkCache::new(0), ..options() };
        let mut published = DirectoryObject::publish(directory.path(), name(), &key(), &options).expect("publishable");
        let last = ChunkIndex(published.manifest().chunk_count() - 1);
        assert!(published.read_chunk(last).is_ok());
        let index = published.index();
        let all: Vec<_> = index.entries().iter().filter(|e| e.content_bytes() > 0).collect();
        let path = directory.path().join(OsStr::from_bytes(&all.last().expect("there are files").path));
        let bytes = fs::read(&path).expect("readable");
        fs::write(&path, vec![0; bytes.len()]).expect("writable");
        assert!(matches!(published.read_chunk(last), Err(StoreError::Altered { .. })));
        fs::write(&path, b"").expect("writable");
        assert!(matches!(published.read_chunk(last), Err(StoreError::Cut { .. })));
        let mut published = DirectoryObject::publish(directory.path(), name(), &key(), &options).expect("publishable");
        fs::rename(directory.path().join("sub"), directory.path().join("other")).expect("renamable");
        let last = ChunkIndex(published.manifest().chunk_count() - 1);
        assert!(matches!(published.read_chunk(last), Err(StoreError::Gone { .. })));
    }

    #[test]
    fn an_unchanged_directory_is_not_hashed_again_and_a_changed_one_is() {
        let (directory, state) = (directory(), directory());
        example(directory.path());
        let options = PublishOptions { state_dir: Some(state.path().into()), ..options() };
        let publish = || DirectoryObject::publish(directory.path(), name(), &key(), &options).expect("publishable");
        let record = || {
            let records = state.path().join("published");
            fs::read(records.join(&names(&records)[0])).expect("readable")
        };
        let first = publish();
        let remembered = record();
        assert_eq!(publish().manifest(), first.manifest());
        assert_eq!(record(), remembered);
        fs::rename(directory.path().join("a"), directory.path().join("b")).expect("renamable");
        let second = publish();
        assert_ne!(second.manifest().root, first.manifest().root);
        assert!(second.manifest().version > first.manifest().version);
    }

    #[test]
    fn a_hostile_index_writes_nothing_outside_and_gets_no_name() {
        let entry = |kind: u8, path: &[u8], detail: &[u8]| {
            let length = u16::try_from(path.len()).expect("short").to_be_bytes();
            [&[kind], &length[..], path, detail].concat()
        };
        let index = |entries: &[Vec<u8>], content: &[u8]| {
            let body = entries.concat();
            let length = u32::try_from(12 + body.len()).expect("short").to_be_bytes();
            let count = u32::try_from(entries.len()).expect("few").to_be_bytes();
            [b"TrD\x01", &length[..], &count, &body, content].concat()
        };
        let one = 1u64.to_be_bytes();
        let hostile = [
            index(&[entry(0, b"../escaped", &one)], b"!"),
            index(&[entry(0, b"/tmp/escaped", &one)], b"!"),
            index(&[entry(3, b"l", b"\0\x02.."), entry(0, b"l/escaped", &one)], b"!"),
            index(&[entry(3, b"l", b"\0\x04/tmp")], b""),
            index(&[entry(0, b"a", &2u64.to_be_bytes())], b"!"),
            index(&[entry(0, b"a", &one)], b"!!"),
            index(&[entry(2, b"a", b""), entry(0, b"a", &one)], b"!"),
            b"TrD\x01\xff\xff\xff\xff\0\0\0\0".to_vec(),
            b"TrD".to_vec(),
            pattern(2000),
        ];
        for bytes in hostile {
            let directory = directory();
            let inside = directory.path().join("inside");
            fs::create_dir(&inside).expect("writable");
            let mut published =
                MemoryObject::with_options(name(), bytes, &key(), 1, ObjectKind::Directory, CHUNK).expect("legal");
            fetch(&mut published, &inside.join("out")).expect_err("it must be refused");
            assert_eq!(names(directory.path()), ["inside"]);
            assert!(names(&inside).is_empty(), "no later fetch can unpack it");
        }
    }

    #[test]
    fn unpacking_starts_anew_after_it_was_interrupted_and_never_replaces_anything() {
        let directory = directory();
        let (source, target) = (directory.path().join("source"), directory.path().join("target"));
        example(&source);
        let published = DirectoryObject::publish(&source, name(), &key(), &options()).expect("publishable");
        let manifest = published.manifest().clone();
        let mut store = PartFile::open(&target, &manifest, &PartOptions::default()).expect("nothing speaks against it");
        let left_over = PartFile::unfinished_at(&target).expect("it has a name").join("unpacked");
        fs::create_dir(&left_over).expect("writable");
        fs::write(left_over.join("a"), b"half").expect("writable");
        std::os::unix::fs::symlink(&source, left_over.join("sub")).expect("links can be made");
        let mut published: Box<dyn ObjectReader> = Box::new(published);
        for index in (0..manifest.chunk_count()).map(ChunkIndex) {
            store.put_chunk(index, &published.read_chunk(index).expect("unaltered")).expect("there is room");
        }
        fs::create_dir(&target).expect("writable");
        let error = store.finish().expect_err("somebody took the name meanwhile").to_string();
        assert!(error.contains("it exists"), "{error}");
        fs::remove_dir(&target).expect("removable");
        store.finish().expect("the name is free again");
        assert!(fs::read(target.join("a")).expect("there") == pattern(3000));
        assert!(source.join("sub/program").exists(), "what a left-over link leads to is not removed");
        drop(store);
        assert!(PartFile::already_there(&target, &manifest, &PartOptions::default()).is_some());
        fs::write(target.join("own"), b"mine").expect("writable");
        let refused = PartFile::open(&target, &manifest, &PartOptions::default()).err().expect("it exists");
        assert!(refused.to_string().contains("it exists"), "{refused}");
    }

    #[test]
    fn what_is_private_in_a_directory_arrives_private_and_nothing_is_run_as_somebody_else() {
        let directory = directory();
        let (source, target) = (directory.path().join("source"), directory.path().join("target"));
        example(&source);
        let set = |path: &str, mode| {
            let path = source.join(path);
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("modes can be set");
        };
        set("a", 0o600);
        set("sub/program", 0o6750);
        set("sub/0", 0o640);
        set("sub/deeper", 0o2711);
        set("", 0o700);
        let mut published = DirectoryObject::publish(&source, name(), &key(), &options()).expect("publishable");
        fetch(&mut published, &target).expect("it can be stored");
        let mode = |path: &str| fs::metadata(target.join(path)).expect("there").permissions().mode() & 0o7777;
        // The umask of the test may take more away.
        for (path, most) in [("", 0o700), ("a", 0o600), ("sub/program", 0o770), ("sub/0", 0o660), ("sub/deeper", 0o700)]
        {
            assert_eq!(mode(path) & !most, 0, "'{path}' has mode {:o}", mode(path));
        }
        assert_eq!(mode("sub/program") & 0o700, 0o700);
        assert!(DirectoryObject::mirror(&target, published.manifest().clone(), &options()).is_ok());
    }

    #[test]
    fn files_of_the_system_in_a_directory_are_left_out() {
        let Ok(mut source) = DirectorySource::open(Path::new("/proc/self/attr")) else { return };
        assert!(!source.left_out.is_empty() || source.index.entries().is_empty());
        let mut bytes = vec![0; usize::try_from(source.size()).expect("small")];
        source.read_at(0, &mut bytes).expect("what is in it can be read");
    }

    #[test]
    fn an_empty_object_is_not_a_directory() {
        let directory = directory();
        let mut empty =
            MemoryObject::with_options(name(), vec![], &key(), 1, ObjectKind::Directory, CHUNK).expect("legal");
        let target = directory.path().join("out");
        let mut store = PartFile::open(&target, empty.manifest(), &PartOptions::default()).expect("it may be tried");
        put_missing(&mut store, &mut empty);
        assert!(store.finish().is_err());
        assert!(names(directory.path()).is_empty(), "a refused folder leaves nothing behind");
    }
}

//! Objects that are sent to this node, written into one folder.
mod arrived;
mod file_names;
mod received;

use std::{
    fs::{self, File},
    io::{self, Seek, SeekFrom, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};
use tributary_content::{
    Bitmap, ChunkIndex, ChunkStore, HadStore, Manifest, MemoryOpener, ObjectKind, StoreError, StoreOpener,
};
use tributary_net::disk::{Existing, HookedStore, PartFile, Placed, StoreHooks, Trust, number_of, numbered};

use self::{
    file_names::{Below, file_names, place_below, refused},
    received::Key,
};
use super::files::Files;
use crate::request::OnRepeat;

pub(crate) use self::{arrived::Arrived, received::Received};

/// Bytes of the longest object that is added to a file as a line.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// In place of the number that an object's name has got: it is just getting it.
const NUMBER_UNKNOWN: u64 = 0;

/// Writes received objects into one folder.
pub(crate) struct Inbox {
    pub(crate) place: Place,
    /// The publishers that it believes, as known at its start.
    pub(crate) trust: Trust,
}

impl Inbox {
    /// Refuses an object that cannot be kept here, and records the refusal.
    fn check(&self, manifest: &Manifest) -> Result<Vec<String>, StoreError> {
        let checked = self.trust.check(manifest).and_then(|()| {
            file_names(&manifest.name).map_err(|reason| {
                let path = manifest.name.to_string();
                StoreError::Io { operation: "write", path, reason: reason.into() }
            })
        });
        checked.inspect_err(|error| self.place.arrived.refuse(&manifest.name, error.to_string()))
    }
}
impl StoreOpener for Inbox {
    fn trusts(&self, manifest: &Manifest) -> Result<(), StoreError> {
        self.check(manifest).map(drop)
    }
    fn resumes(&self, _: &Manifest) -> bool {
        false
    }
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
        self.open_sent(manifest, &[])
    }
    fn open_sent(&mut self, manifest: &Manifest, delivery: &[u8]) -> Result<Box<dyn ChunkStore>, StoreError> {
        let names = self.check(manifest)?;
        self.place.arrived.begin(manifest)?;
        let (place, wanted, delivery) = (self.place.clone(), manifest.clone(), delivery.to_vec());
        Ok(Box::new(self.place.files.storage.open_store(manifest, move || place.open(&names, &wanted, &delivery))?))
    }
}

/// The folder that objects are written into, and the record of those received into it.
#[derive(Clone)]
pub(crate) struct Place {
    /// The node's files.
    pub(crate) files: Files,
    pub(crate) folder: PathBuf,
    /// Whom it believes.
    pub(crate) trust: Trust,
    /// Objects in progress.
    pub(crate) arrived: Arrived,
    /// The treatment of an object whose name was received before.
    pub(crate) on_repeat: OnRepeat,
    /// What earlier runs have received.
    pub(crate) received: Received,
}
impl Place {
    /// Gives objects their names that an earlier run had received completely when it was killed.
    pub(crate) fn finish_left(&self) {
        for manifest in PartFile::complete_below(&self.folder) {
            let finished = file_names(&manifest.name)
                .map_err(|reason| reason.to_string())
                .and_then(|names| self.open(&names, &manifest, &[]).map_err(|error| error.to_string()))
                .and_then(|mut store| match store.held().is_full() {
                    true => store.finish().map_err(|error| error.to_string()),
                    false => Ok(()),
                });
            if let Err(reason) = finished {
                tracing::warn!("'{}' was received and could not get its name: {reason}", manifest.name);
            }
        }
    }
    /// Opens the store of an object; waits for the disk. `delivery` identifies the sending, and is empty if unknown.
    fn open(&self, names: &[String], manifest: &Manifest, delivery: &[u8]) -> Result<Box<dyn ChunkStore>, StoreError> {
        let below = place_below(&self.folder, names, manifest.kind)?;
        let path = below.path.clone();
        let key = Received::key(&self.folder, &manifest.publication_id(), delivery);
        let existing = match self.on_repeat {
            OnRepeat::Replace => Existing::EarlierFetchOrNumber,
            OnRepeat::Number | OnRepeat::Append => Existing::Number,
        };
        let is_line = self.on_repeat == OnRepeat::Append
            && manifest.kind == ObjectKind::File
            && manifest.size <= LINE_BYTES_MAX
            && !is_unfinished(&path, manifest);
        // Once more by an unknown sending replaces the same bytes by the same.
        let key = (self.on_repeat != OnRepeat::Replace || !delivery.is_empty()).then_some(key);
        if let Some(key) = &key
            && !is_unfinished(&path, manifest)
            && self.has(&path, key, manifest, delivery, is_line)
        {
            self.arrived.give_back(manifest);
            return Ok(Box::new(HadStore::new(manifest)));
        }
        self.files.check_owner(&self.folder, &path, manifest)?;
        if is_line && Lines::may_append(&path, &self.received, &self.folder) {
            return Ok(Box::new(Lines::open(self.clone(), below, manifest, delivery)?));
        }
        let placed = Placed::default();
        let inner = self.files.open_below(&path, &self.trust, manifest, existing, &placed)?;
        let (place, manifest) = (self.clone(), manifest.clone());
        Ok(Box::new(HookedStore { inner, hooks: Arrival { placed, place, manifest, below, key } }))
    }
    /// Whether an object that may be delivered twice was received before.
    fn has(&self, path: &Path, key: &Key, manifest: &Manifest, delivery: &[u8], is_line: bool) -> bool {
        let (known, left) = {
            let received = self.received.0.lock();
            let left = Received::key(&self.folder, &manifest.publication_id(), &[]);
            (received.known(key), received.known(&left).filter(|_| !delivery.is_empty()))
        };
        // A line is complete if the file is long enough; a complete object may have been moved away since.
        let is_there = |at: u64| match (is_line, at) {
            (true, at) => Lines::holds(path, at, manifest),
            (false, NUMBER_UNKNOWN) => true,
            (false, number) => fs::symlink_metadata(numbered(path, number, manifest.kind)).is_ok(),
        };
        match (known, left) {
            (Some(at), _) if delivery.is_empty() || is_line => is_there(at),
            // The sending ends when its custodian learns of that, regardless of the file.
            (Some(_), _) => true,
            // An earlier process received it completely and was killed before it could record the sending.
            (None, Some(at)) => is_there(at),
            (None, None) => false,
        }
    }
}
/// Whether an unfinished part of exactly this object is stored there.
fn is_unfinished(path: &Path, manifest: &Manifest) -> bool {
    PartFile::is_unfinished_apart(path, manifest)
}

/// Marks an object as received before it gets its name, and reports it afterwards.
struct Arrival {
    placed: Placed,
    place: Place,
    manifest: Manifest,
    below: Below,
    /// What its arrival is remembered by; `None` remembers nothing.
    key: Option<Key>,
}
impl StoreHooks for Arrival {
    fn before_finish(&mut self) -> Result<(), StoreError> {
        self.below.check()?;
        let Some(key) = self.key else { return Ok(()) };
        let mut received = self.place.received.0.lock();
        received.add(key, NUMBER_UNKNOWN)?;
        // Were it lost with the power after the object has its name, that one would be kept twice.
        received.sync()
    }
    fn after_finish(&mut self) {
        let path = self.placed.path().unwrap_or_else(|| self.below.path.clone());
        if let Some(key) = self.key {
            // It has its name: a failure to write this costs only a second copy of a repeated message.
            let number = number_of(&self.below.path, &path, self.manifest.kind);
            let _ = self.place.received.0.lock().add(key, number.unwrap_or(NUMBER_UNKNOWN));
        }
        self.place.arrived.finish(&self.manifest, &path);
    }
}

/// A store of a small object whose bytes are appended to a file as a line when it is complete.
struct Lines {
    place: Place,
    below: Below,
    manifest: Manifest,
    key: Key,
    content: tributary_content::MemoryContent,
    inner: Box<dyn ChunkStore>,
    is_written: bool,
}
impl Lines {
    fn open(place: Place, below: Below, manifest: &Manifest, delivery: &[u8]) -> Result<Lines, StoreError> {
        let mut opener = MemoryOpener::new();
        let content = opener.content();
        let inner = opener.open(manifest)?;
        let key = Received::key(&place.folder, &manifest.publication_id(), delivery);
        Ok(Lines { place, below, manifest: manifest.clone(), key, content, inner, is_written: false })
    }
    /// Whether lines may be added to the file at `path`: it does not exist, or started as appended lines.
    fn may_append(path: &Path, received: &Received, folder: &Path) -> bool {
        match fs::symlink_metadata(path) {
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            Ok(there) => there.is_file() && received.0.lock().known(&Received::of_lines(folder, path)).is_some(),
        }
    }
    /// Whether the file at `path` contains the object of `manifest` at offset `at`, judged by its length.
    fn holds(path: &Path, at: u64, manifest: &Manifest) -> bool {
        fs::metadata(path).is_ok_and(|file| file.len() >= at + manifest.size)
    }
    fn append(&self, bytes: &[u8]) -> Result<PathBuf, StoreError> {
        self.below.check()?;
        // A foreign line after the publisher's would be mistaken for the publisher's.
        self.place.trust.check_and_remember(&self.manifest)?;
        // One at a time: where a line starts is written down before it is.
        let mut received = self.place.received.0.lock();
        let path = &self.below.path;
        let refused = |error: &io::Error| refused(path, error);
        let of_lines = Received::of_lines(&self.place.folder, path);
        if fs::symlink_metadata(path).is_err() {
            received.add(of_lines, 0)?;
        }
        let mut file = self.below.open().map_err(|error| refused(&error))?;
        let mut end = file.seek(SeekFrom::End(0)).map_err(|error| refused(&error))?;
        let newline: &[u8] = if bytes.last() == Some(&b'\n') { b"" } else { b"\n" };
        let line = [bytes, newline].concat();
        match received.known(&self.key).filter(|at| is_begun(&file, *at..end, &line)) {
            // By a process that was killed.
            Some(at) => end = at,
            None => {
                let mut last = [b'\n'];
                if end > 0 {
                    file.read_exact_at(&mut last, end - 1).map_err(|error| refused(&error))?;
                }
                if last != [b'\n'] {
                    file.write_all(b"\n").map_err(|error| refused(&error))?;
                    end += 1;
                }
                received.add(self.key, end)?;
                received.sync()?;
            }
        }
        let written = file.write_all_at(&line, end).and_then(|()| file.sync_data());
        written.map_err(|error| refused(&error))?;
        Ok(path.clone())
    }
}
impl ChunkStore for Lines {
    fn held(&self) -> &Bitmap {
        self.inner.held()
    }
    fn put_chunk(&mut self, index: ChunkIndex, bytes: &[u8]) -> Result<(), StoreError> {
        self.inner.put_chunk(index, bytes)
    }
    /// Memory does not survive.
    fn sync(&mut self) -> Result<(), StoreError> {
        if self.inner.held().is_full() { self.finish() } else { Ok(()) }
    }
    fn finish(&mut self) -> Result<(), StoreError> {
        if self.is_written {
            return Ok(());
        }
        self.inner.finish()?;
        let Some(bytes) = self.content.finished(&self.manifest.name) else { return Ok(()) };
        let path = self.append(&bytes)?;
        self.is_written = true;
        self.place.arrived.finish(&self.manifest, &path);
        Ok(())
    }
}

/// Whether a file's content in `range`, up to its end, is the start of `line`.
fn is_begun(file: &File, range: std::ops::Range<u64>, line: &[u8]) -> bool {
    let Some(length) = range.end.checked_sub(range.start).and_then(|length| usize::try_from(length).ok()) else {
        return false;
    };
    let mut there = vec![0; length.min(line.len())];
    length <= line.len() && file.read_exact_at(&mut there, range.start).is_ok() && line.starts_with(&there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_content::{MemoryObject, ObjectReader, SigningKey};

    /// As a restarted node finds it.
    fn place(home: &Path, on_repeat: OnRepeat) -> Place {
        let (state, folder) = (home.join("state"), home.join("inbox"));
        let files = Files::open(&state, &Default::default()).unwrap();
        fs::create_dir_all(&folder).unwrap();
        let (arrived, received) = (Arrived::default(), Received::open(&state).unwrap());
        Place { trust: files.trust(None, None).for_senders(), files, folder, arrived, on_repeat, received }
    }
    fn reading(text: &str, version: u64) -> MemoryObject {
        let (name, key) = ("/roof".parse().unwrap(), SigningKey::from_secret(&[1; 32]));
        MemoryObject::with_options(name, text.to_string(), &key, version, ObjectKind::File, 1024).unwrap()
    }
    /// Opens the store of an object and puts all of it there.
    fn put(place: &Place, object: &mut MemoryObject) -> Box<dyn ChunkStore> {
        put_sent(place, object, &[])
    }
    fn put_sent(place: &Place, object: &mut MemoryObject, delivery: &[u8]) -> Box<dyn ChunkStore> {
        let manifest = object.manifest().clone();
        let mut store = place.open(&file_names(&manifest.name).unwrap(), &manifest, delivery).unwrap();
        for index in (0..manifest.chunk_count()).map(ChunkIndex) {
            store.put_chunk(index, &object.read_chunk(index).unwrap()).unwrap();
        }
        store
    }

    #[test]
    fn what_was_whole_when_its_process_was_killed_gets_its_name_and_is_told_by_the_next_one() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        for version in 1..=2 {
            drop(put(&place(home, OnRepeat::Number), &mut reading("21.5", version)));
        }
        let next = place(home, OnRepeat::Number);
        next.finish_left();
        let notices: Vec<_> = std::iter::from_fn(|| next.arrived.take_left()).map(|(_, path)| path).collect();
        assert_eq!(notices.len(), 2);
        assert!(notices.iter().all(|path| fs::read(path).unwrap() == b"21.5"));
        // A second delivery is recognised while the file is in the inbox.
        for is_taken in [false, true] {
            if is_taken {
                notices.iter().for_each(|path| fs::remove_file(path).unwrap());
            }
            let again = place(home, OnRepeat::Number);
            put(&again, &mut reading("21.5", 1)).finish().unwrap();
            assert_eq!(again.arrived.take_left().is_some(), is_taken);
        }
        assert_eq!(fs::read_dir(home.join("inbox")).unwrap().count(), 1);
    }

    #[test]
    fn a_sending_is_kept_once_however_often_it_comes_and_another_one_of_the_same_object_is_kept_too() {
        for on_repeat in [OnRepeat::Number, OnRepeat::Append, OnRepeat::Replace] {
            let home = tempfile::tempdir().unwrap();
            let arrive = |delivery: &[u8]| {
                let place = place(home.path(), on_repeat);
                put_sent(&place, &mut reading("21.5", 1), delivery).finish().unwrap();
                place.arrived.take_left().is_some()
            };
            assert_eq!([&b"1"[..], b"1", b"2", b"1", b"2"].map(arrive), [true, false, true, false, false]);
            // A user who removed the file has already read it.
            fs::remove_file(home.path().join("inbox/roof")).unwrap();
            assert_eq!(arrive(b"1"), on_repeat == OnRepeat::Append, "a file of lines that is gone begins anew");
        }
    }

    #[test]
    fn what_has_a_name_and_was_not_delivered_under_it_by_this_key_stays_as_it_is() {
        let of = |key: u8, version| {
            let key = SigningKey::from_secret(&[key; 32]);
            let name = "/roof".parse().unwrap();
            MemoryObject::with_options(name, format!("by {version}"), &key, version, ObjectKind::File, 1024).unwrap()
        };
        for on_repeat in [OnRepeat::Number, OnRepeat::Append, OnRepeat::Replace] {
            let home = tempfile::tempdir().unwrap();
            let at = |file: &str| fs::read_to_string(home.path().join("inbox").join(file)).ok();
            let place = place(home.path(), on_repeat);
            // The owner of the inbox has put a file there.
            fs::write(home.path().join("inbox/roof"), "mine").unwrap();
            put(&place, &mut of(1, 1)).finish().unwrap();
            assert_eq!((at("roof").as_deref(), at("roof~2").as_deref()), (Some("mine"), Some("by 1")), "{on_repeat:?}");
            // Another key uses the same name, when no publisher is known yet and when the first one is.
            let refused = place.open(&["roof".into()], of(2, 2).manifest(), &[]).err().map(|error| error.to_string());
            assert!(refused.is_some_and(|text| text.contains("was published by")), "{on_repeat:?}");
        }
        // Lines are their publisher's too.
        let home = tempfile::tempdir().unwrap();
        let place = place(home.path(), OnRepeat::Append);
        let mut other = put(&place, &mut of(2, 1));
        put(&place, &mut of(1, 1)).finish().unwrap();
        assert!(matches!(other.finish(), Err(StoreError::Untrusted { .. })));
        assert_eq!(fs::read_to_string(home.path().join("inbox/roof")).unwrap(), "by 1\n");
    }

    #[test]
    fn lines_are_added_once_whatever_was_written_of_them_when_a_process_was_killed() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        let path = home.join("inbox/roof");
        let deliver = |text: &str, version| {
            let place = place(home, OnRepeat::Append);
            let mut store = put(&place, &mut reading(text, version));
            store.sync().unwrap();
            store.finish().unwrap();
            std::iter::from_fn(|| place.arrived.take_left()).count()
        };
        assert_eq!((deliver("21.5", 1), deliver("22\n", 2)), (1, 1));
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        for cut in 1..=3 {
            file.set_len(8 - cut).unwrap();
            deliver("22\n", 2);
            assert_eq!(fs::read_to_string(&path).unwrap(), "21.5\n22\n", "cut by {cut}");
        }
        assert_eq!(deliver("22\n", 2), 0, "it is there");
        // Another program has rewritten the file.
        fs::write(&path, "99\n98\n9").unwrap();
        deliver("22\n", 2);
        assert_eq!(fs::read_to_string(&path).unwrap(), "99\n98\n9\n22\n");
    }
}

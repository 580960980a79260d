//! What is sent to this node, written into one folder: which name gets which path, and what is kept of a name that comes
//! again.
use std::{
    collections::{BTreeMap, VecDeque},
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tributary_content::{
    Bitmap, ChunkIndex, ChunkStore, HadStore, Manifest, MemoryOpener, Name, ObjectId, ObjectKind, PublicKey,
    StoreError, StoreOpener,
};
use tributary_net::disk::{Existing, PartFile, Placed, Questions, is_reserved, number_of, numbered, replace_file};

use super::{
    files::Files,
    hooked_store::{HookedStore, StoreHooks},
};
use crate::request::OnRepeat;

/// What is being received. Versions of one name may come at once.
#[derive(Clone, Default, Debug)]
pub(crate) struct Arrived(Arc<Mutex<Coming>>);

#[derive(Default, Debug)]
struct Coming {
    /// What is not whole yet.
    begun: Vec<Manifest>,
    /// What has its final name and was not told yet.
    whole: Vec<(Manifest, PathBuf)>,
    /// The latest that were refused before anything was begun, why, and whether that was told.
    refused: VecDeque<(Name, String, bool)>,
    /// How many more may begin; `None` is no limit.
    left: Option<u64>,
}

impl Arrived {
    /// Takes at most `most` objects; `None` is no limit.
    pub(crate) fn new(most: Option<u64>) -> Arrived {
        Arrived(Arc::new(Mutex::new(Coming { left: most, ..Coming::default() })))
    }
    /// Begins an object if one more is wanted; otherwise its custodian keeps it.
    fn begin(&self, manifest: &Manifest) -> Result<(), StoreError> {
        let mut coming = self.coming();
        match &mut coming.left {
            Some(0) => {
                let name = &manifest.name;
                let reason = format!("'{name}' is not wanted now: as many objects as were asked for have begun");
                return Err(StoreError::Later { reason });
            }
            Some(left) => *left -= 1,
            None => {}
        }
        coming.begun.push(manifest.clone());
        Ok(())
    }
    /// The object turned out to be here already: another one may begin.
    fn give_back(&self, manifest: &Manifest) {
        let mut coming = self.coming();
        if let Some(at) = coming.begun.iter().position(|begun| begun == manifest) {
            coming.begun.remove(at);
            coming.left.iter_mut().for_each(|left| *left += 1);
        }
    }
    pub(crate) fn finish(&self, manifest: &Manifest, path: &Path) {
        let mut coming = self.coming();
        if let Some(at) = coming.begun.iter().position(|begun| begun == manifest) {
            coming.begun.remove(at);
        }
        coming.whole.push((manifest.clone(), path.into()));
    }
    /// Something of that name that is whole; each is given once.
    pub(crate) fn take_whole(&self, name: &Name) -> Option<(Manifest, PathBuf)> {
        let mut coming = self.coming();
        let at = coming.whole.iter().position(|(manifest, _)| manifest.name == *name)?;
        Some(coming.whole.remove(at))
    }
    /// Something that an earlier run had received and that has got its name only now.
    pub(crate) fn take_left(&self) -> Option<(Manifest, PathBuf)> {
        let mut coming = self.coming();
        if coming.whole.is_empty() { None } else { Some(coming.whole.remove(0)) }
    }
    /// Forgets something of that name that will not be whole; false if there was nothing.
    pub(crate) fn give_up(&self, name: &Name) -> bool {
        let mut coming = self.coming();
        let at = coming.begun.iter().position(|begun| begun.name == *name);
        let gone = at.map(|at| coming.begun.remove(at)).is_some();
        if gone {
            coming.left.iter_mut().for_each(|left| *left += 1);
        }
        gone
    }
    fn refuse(&self, name: &Name, reason: String) {
        let mut coming = self.coming();
        // Whoever sends the same again and again is told of once.
        if !coming.refused.iter().any(|(of, why, _)| of == name && *why == reason) {
            coming.refused.push_back((name.clone(), reason, false));
            if coming.refused.len() > REFUSED_MAX {
                coming.refused.pop_front();
            }
        }
    }
    /// Something that was refused at once, and why; each is given once.
    pub(crate) fn take_refused(&self) -> Option<(Name, String)> {
        let mut coming = self.coming();
        let (name, reason, is_told) = coming.refused.iter_mut().find(|(.., is_told)| !is_told)?;
        *is_told = true;
        Some((name.clone(), reason.clone()))
    }
    fn coming(&self) -> MutexGuard<'_, Coming> {
        lock(&self.0)
    }
}

/// Writes what is sent into one folder.
pub(crate) struct Inbox {
    pub(crate) place: Place,
    pub(crate) questions: Questions,
}

impl Inbox {
    /// Refuses what cannot be kept here, and sees that it is told.
    fn check(&self, manifest: &Manifest) -> Result<Vec<String>, StoreError> {
        let checked = self.questions.trusts(manifest).and_then(|()| {
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
        Ok(Box::new(self.place.files.storage().open_store(manifest, move || place.open(&names, &wanted, &delivery))?))
    }
}

/// Where all of it goes, and what is known of that.
#[derive(Clone)]
pub(crate) struct Place {
    /// The node's files.
    pub(crate) files: Files,
    /// The folder.
    pub(crate) folder: PathBuf,
    /// The only one to believe.
    pub(crate) publisher: Option<PublicKey>,
    /// What is under way.
    pub(crate) arrived: Arrived,
    /// What becomes of a name that comes again.
    pub(crate) on_repeat: OnRepeat,
    /// What earlier runs have received.
    pub(crate) received: Received,
}
impl Place {
    /// Gives their names to objects that an earlier run had received whole when it was killed.
    pub(crate) fn finish_left(&self) {
        for manifest in PartFile::whole_below(&self.folder) {
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
    /// Opens the store of an object; waits for the disk. `delivery` names the very sending that it comes by, and is empty if
    /// that is not known.
    fn open(&self, names: &[String], manifest: &Manifest, delivery: &[u8]) -> Result<Box<dyn ChunkStore>, StoreError> {
        let path = path_below(&self.folder, names, manifest.kind)?;
        let key = Received::key(&self.folder, &manifest.object_id(), delivery);
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
            return Ok(Box::new(Lines::open(self.clone(), path, manifest, delivery)?));
        }
        let placed = Placed::default();
        let inner = self.files.open_below(&path, self.publisher, manifest, existing, &placed)?;
        let (place, manifest) = (self.clone(), manifest.clone());
        Ok(Box::new(HookedStore { inner, hooks: Arrival { placed, place, manifest, path, key } }))
    }
    /// Whether an object that may come once more is here already, or has been.
    fn has(&self, path: &Path, key: &Key, manifest: &Manifest, delivery: &[u8], is_line: bool) -> bool {
        let (known, left) = {
            let received = lock(&self.received.0);
            let left = Received::key(&self.folder, &manifest.object_id(), &[]);
            (received.known(key), received.known(&left).filter(|_| !delivery.is_empty()))
        };
        // A line is whole if the file is long enough; an object that got its name may have been taken away since.
        let is_there = |at: u64| match (is_line, at) {
            (true, at) => Lines::holds(path, at, manifest),
            (false, NUMBER_UNKNOWN) => true,
            (false, number) => fs::symlink_metadata(numbered(path, number, manifest.kind)).is_ok(),
        };
        match (known, left) {
            (Some(at), _) if delivery.is_empty() || is_line => is_there(at),
            // The sending ends when its custodian learns of that, whatever became of the file.
            (Some(_), _) => true,
            // An earlier run received it whole and was killed before it could say by which sending.
            (None, Some(at)) => is_there(at),
            (None, None) => false,
        }
    }
}
/// Whether an unfinished part of exactly this object lies there.
fn is_unfinished(path: &Path, manifest: &Manifest) -> bool {
    PartFile::is_unfinished_apart(path, manifest)
}

/// Marks an object as received before it gets its name, and reports it afterwards.
struct Arrival {
    placed: Placed,
    place: Place,
    manifest: Manifest,
    path: PathBuf,
    /// What its arrival is remembered by; `None` remembers nothing.
    key: Option<Key>,
}
impl StoreHooks for Arrival {
    fn before_finish(&mut self) -> Result<(), StoreError> {
        let Some(key) = self.key else { return Ok(()) };
        let mut received = lock(&self.place.received.0);
        received.add(key, NUMBER_UNKNOWN)?;
        // Were it lost with the power after the object has its name, that one would be kept twice.
        received.sync()
    }
    fn after_finish(&mut self) {
        let path = self.placed.path().unwrap_or_else(|| self.path.clone());
        if let Some(key) = self.key {
            // It has its name: that this cannot be written costs nothing but a second copy of what is sent again.
            let number = number_of(&self.path, &path, self.manifest.kind);
            let _ = lock(&self.place.received.0).add(key, number.unwrap_or(NUMBER_UNKNOWN));
        }
        self.place.arrived.finish(&self.manifest, &path);
    }
}

/// A store of something small whose bytes are added to a file as a line once they are here.
struct Lines {
    place: Place,
    path: PathBuf,
    manifest: Manifest,
    key: Key,
    content: tributary_content::MemoryContent,
    inner: Box<dyn ChunkStore>,
    is_written: bool,
}
impl Lines {
    fn open(place: Place, path: PathBuf, manifest: &Manifest, delivery: &[u8]) -> Result<Lines, StoreError> {
        let mut opener = MemoryOpener::new();
        let content = opener.content();
        let inner = opener.open(manifest)?;
        let key = Received::key(&place.folder, &manifest.object_id(), delivery);
        Ok(Lines { place, path, manifest: manifest.clone(), key, content, inner, is_written: false })
    }
    /// Whether lines may be added to what is at `path`: nothing, or a file that was begun by adding a line.
    fn may_append(path: &Path, received: &Received, folder: &Path) -> bool {
        match fs::symlink_metadata(path) {
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            Ok(there) => there.is_file() && lock(&received.0).known(&Received::of_lines(folder, path)).is_some(),
        }
    }
    /// Whether the file at `path` has at `at` what the object of `manifest` says, as far as its length tells.
    fn holds(path: &Path, at: u64, manifest: &Manifest) -> bool {
        fs::metadata(path).is_ok_and(|file| file.len() >= at + manifest.size)
    }
    fn append(&self, bytes: &[u8]) -> Result<PathBuf, StoreError> {
        // One at a time: where a line starts is written down before it is.
        let mut received = lock(&self.place.received.0);
        let refused = |error: &io::Error| refused(&self.path, error);
        let of_lines = Received::of_lines(&self.place.folder, &self.path);
        if fs::symlink_metadata(&self.path).is_err() {
            received.add(of_lines, 0)?;
        }
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
            .open(&self.path)
            .map_err(|error| refused(&error))?;
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
        Ok(self.path.clone())
    }
}
impl ChunkStore for Lines {
    fn held(&self) -> &Bitmap {
        self.inner.held()
    }
    fn put_chunk(&mut self, index: ChunkIndex, bytes: &[u8]) -> Result<(), StoreError> {
        self.inner.put_chunk(index, bytes)
    }
    /// What is in memory does not survive.
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

/// Whether what a file has in `range`, up to its end, is the start of `line`.
fn is_begun(file: &File, range: std::ops::Range<u64>, line: &[u8]) -> bool {
    let Some(length) = range.end.checked_sub(range.start).and_then(|length| usize::try_from(length).ok()) else {
        return false;
    };
    let mut there = vec![0; length.min(line.len())];
    length <= line.len() && file.read_exact_at(&mut there, range.start).is_ok() && line.starts_with(&there)
}

/// What was received into which folder, so that what is delivered again after a crash is not kept twice. Remembers the
/// latest [`RECEIVED_MAX`] objects, in `STATE_DIR/received`: of each a key and a place in a file, appended.
#[derive(Clone, Debug)]
pub(crate) struct Received(Arc<Mutex<Memory>>);

#[derive(Debug)]
struct Memory {
    path: PathBuf,
    file: Option<File>,
    known: BTreeMap<Key, u64>,
    order: VecDeque<Key>,
}

impl Received {
    /// Reads what earlier runs have received.
    pub(crate) fn open(state_dir: &Path) -> Result<Received, StoreError> {
        let path = state_dir.join("received");
        let mut bytes = Vec::new();
        match File::open(&path) {
            Ok(file) => {
                let longest = (ENTRY_BYTES * RECEIVED_MAX * 2) as u64;
                file.take(longest).read_to_end(&mut bytes).map_err(|error| refused(&path, &error))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(refused(&path, &error)),
        }
        let mut memory = Memory { path, file: None, known: Default::default(), order: VecDeque::new() };
        // A process that was killed may have left half an entry at the end.
        for entry in bytes.as_chunks::<ENTRY_BYTES>().0 {
            let (key, at) = entry.split_at(KEY_BYTES);
            let key = key.try_into().expect("it has its length");
            memory.note(key, u64::from_be_bytes(at.try_into().expect("it has its length")));
        }
        memory.write_anew()?;
        Ok(Received(Arc::new(Mutex::new(memory))))
    }
    fn key(folder: &Path, object: &ObjectId, delivery: &[u8]) -> Key {
        key_of(&[folder.as_os_str().as_bytes(), b"\0", &object.0, delivery])
    }
    /// The key under which it is remembered that a file has lines.
    fn of_lines(folder: &Path, path: &Path) -> Key {
        key_of(&[folder.as_os_str().as_bytes(), b"\0\0", path.as_os_str().as_bytes()])
    }
}
fn key_of(parts: &[&[u8]]) -> Key {
    let mut hasher = blake3::Hasher::new();
    parts.iter().for_each(|part| {
        hasher.update(part);
    });
    *hasher.finalize().as_bytes().first_chunk().expect("a hash has 32 bytes")
}
impl Memory {
    fn known(&self, key: &Key) -> Option<u64> {
        self.known.get(key).copied()
    }
    fn note(&mut self, key: Key, at: u64) {
        if self.known.insert(key, at).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > RECEIVED_MAX {
            let oldest = self.order.pop_front();
            oldest.map(|oldest| self.known.remove(&oldest));
        }
    }
    fn add(&mut self, key: Key, at: u64) -> Result<(), StoreError> {
        if self.known(&key) == Some(at) {
            return Ok(());
        }
        let is_long = self.file.as_ref().and_then(|file| file.metadata().ok());
        if is_long.is_some_and(|file| file.len() >= (ENTRY_BYTES * RECEIVED_MAX * 2) as u64) {
            self.write_anew()?;
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path);
                let file = self.file.insert(opened.map_err(|error| refused(&self.path, &error))?);
                let folder = self.path.parent().unwrap_or(Path::new("."));
                sync_folder(folder).map_err(|error| refused(&self.path, &error))?;
                file
            }
        };
        let entry = [&key[..], &at.to_be_bytes()].concat();
        let end = file.metadata().map_err(|error| refused(&self.path, &error))?.len();
        if let Err(error) = file.write_all(&entry) {
            // Behind half an entry no other one could be read.
            let _ = file.set_len(end);
            return Err(refused(&self.path, &error));
        }
        self.note(key, at);
        Ok(())
    }
    /// Waits until what was added is on the disk.
    fn sync(&self) -> Result<(), StoreError> {
        self.file.iter().try_for_each(File::sync_data).map_err(|error| refused(&self.path, &error))
    }
    /// Writes the file as short as it can be.
    fn write_anew(&mut self) -> Result<(), StoreError> {
        self.file = None;
        if self.order.is_empty() {
            return Ok(());
        }
        let entry = |key: &Key| [&key[..], &self.known.get(key).copied().unwrap_or(0).to_be_bytes()].concat();
        let bytes: Vec<u8> = self.order.iter().flat_map(entry).collect();
        replace_file(&self.path, &[&bytes]).map_err(|error| refused(&self.path, &error))
    }
}

/// The names of the file and the folders that the name of an object stands for. No two names give the same, and none
/// leads elsewhere, hides a file, or is that of something of ours.
fn file_names(name: &Name) -> Result<Vec<String>, &'static str> {
    let names: Vec<String> = name
        .typed_components()
        .map(|(kind, value)| match value {
            b"." | b".." if kind == GENERIC => Err("it leads out of the folder"),
            value => {
                let escaped = match kind {
                    GENERIC => escaped(value),
                    kind => format!("{kind}={}", escaped(value)),
                };
                if escaped.len() > FILE_NAME_BYTES_MAX {
                    Err("a part of its name is too long for a file")
                } else {
                    Ok(escaped)
                }
            }
        })
        .collect::<Result<_, _>>()?;
    match names.is_empty() {
        true => Err("its name cannot be a file's name"),
        false => Ok(names),
    }
}
/// A component as a file's name: what such a name cannot have, and what has a meaning here, as `%XX`.
fn escaped(component: &[u8]) -> String {
    let text = String::from_utf8_lossy(component);
    let is_text = matches!(text, std::borrow::Cow::Borrowed(_));
    let digits = component.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_like_typed = digits > 0 && component.get(digits) == Some(&b'=');
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("%{byte:02X}")).collect::<String>();
    if !is_text {
        return hex(component);
    }
    let mut name = String::new();
    let last = component.len().saturating_sub(1);
    for (at, character) in text.char_indices() {
        let is_hiding = at == 0 && character == '.';
        // Some file systems leave these out.
        let is_dropped = at == last && matches!(character, '.' | ' ');
        let is_special = matches!(character, '/' | '\0' | '%' | '~') || is_like_typed && at == digits;
        match is_hiding || is_dropped || is_special || character.is_control() {
            true => name.push_str(&hex(character.encode_utf8(&mut [0; 4]).as_bytes())),
            false => name.push(character),
        }
    }
    // No other name is empty, or has a % without digits behind it.
    if name.is_empty() { "%".into() } else { name }
}

/// Where an object goes; the folders on the way are made. A name may be that of an object and lead to others: what comes
/// second has a `~` behind that part of its name. Links are not followed: whoever can write here could lead anywhere.
fn path_below(folder: &Path, names: &[String], kind: ObjectKind) -> Result<PathBuf, StoreError> {
    let mut path = folder.to_path_buf();
    let last = names.len() - 1;
    for (depth, name) in names.iter().enumerate() {
        debug_assert!(!is_reserved(name.as_bytes()), "a dot at the start is escaped");
        let wants_folder = depth < last || kind == ObjectKind::Directory;
        let mut chosen = None;
        for candidate in [name.clone(), format!("{name}~")] {
            let candidate = path.join(OsStr::new(&candidate));
            match fs::symlink_metadata(&candidate) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(refused(&candidate, &error)),
                Ok(there) if there.is_symlink() => {
                    let reason = "it is a link, and none is followed in the folder that is received into".into();
                    let path = candidate.display().to_string();
                    return Err(StoreError::Io { operation: "write", path, reason });
                }
                Ok(there) if there.is_dir() != wants_folder => continue,
                Ok(_) => {}
            }
            chosen = Some(candidate);
            break;
        }
        path = chosen.ok_or_else(|| StoreError::Io {
            operation: "write",
            path: path.join(name).display().to_string(),
            reason: "it is a file where a folder is needed, or the other way round, and so is that with a '~' behind"
                .into(),
        })?;
        if depth < last {
            match fs::create_dir(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(refused(&path, &error)),
                Err(_) => {}
                // Its name has to survive a loss of power, as what is written below it does.
                Ok(()) => sync_folder(path.parent().unwrap_or(folder)).map_err(|error| refused(&path, &error))?,
            }
        }
    }
    Ok(path)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
fn refused(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Io { operation: "write", path: path.display().to_string(), reason: error.to_string() }
}
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind it is whole between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The NDN type of ordinary components.
const GENERIC: u16 = 8;
/// What Linux takes, with room for a number behind it.
const FILE_NAME_BYTES_MAX: usize = 240;
/// Refusals that are remembered, so that each is told once.
const REFUSED_MAX: usize = 64;
/// Bytes of the longest object that is added to a file as a line.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// In place of the number that an object's name has got: it is just getting it.
const NUMBER_UNKNOWN: u64 = 0;
/// Objects whose arrival is remembered over a restart.
const RECEIVED_MAX: usize = 1 << 18;
const KEY_BYTES: usize = 16;
type Key = [u8; KEY_BYTES];
const ENTRY_BYTES: usize = KEY_BYTES + 8;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tributary_content::{MemoryObject, ObjectReader, SigningKey};

    fn names(name: &str) -> Result<Vec<String>, &'static str> {
        file_names(&name.parse().unwrap())
    }

    #[test]
    fn names_become_paths_that_lead_nowhere_else_and_hide_nothing() {
        for (name, path) in [
            ("/sensors/roof", "sensors/roof"),
            ("/a%20b/c%2Fd", "a b/c%2Fd"),
            ("/.ssh/authorized_keys", "%2Essh/authorized_keys"),
            ("/.tributary-0/part", "%2Etributary-0/part"),
            ("/a/1000=report", "a/1000=report"),
            ("/a/1000%3Dreport", "a/1000%3Dreport"),
            ("/a/v=7", "a/54=%07"),
            ("/a/%0A%FF", "a/%0A%FF"),
            ("/a/x./y%20", "a/x%2E/y%20"),
            ("/a/roof~2", "a/roof%7E2"),
            ("/a/50%25", "a/50%25"),
            ("/a/...", "a/%"),
            ("/caf%C3%A9", "café"),
        ] {
            assert_eq!(names(name).map(|names| names.join("/")).as_deref(), Ok(path), "{name}");
        }
        for name in ["/", "/a/.....", "/a/....", &format!("/{}", "x".repeat(250))] {
            assert!(names(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_name_that_is_an_object_and_leads_to_others_has_two_places_whatever_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let at = |names: &[&str], kind| {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            path_below(folder.path(), &names, kind).map(|path| path.strip_prefix(folder.path()).unwrap().to_path_buf())
        };
        let file = |names: &[&str]| at(names, ObjectKind::File).unwrap();
        fs::write(folder.path().join(file(&["roof"])), "x").unwrap();
        assert_eq!(file(&["roof", "temperature"]), Path::new("roof~/temperature"));
        assert_eq!(at(&["roof"], ObjectKind::Directory).unwrap(), Path::new("roof~"));
        assert_eq!(file(&["cellar", "door"]), Path::new("cellar/door"));
        assert_eq!(file(&["cellar"]), Path::new("cellar~"));
        std::os::unix::fs::symlink("/tmp", folder.path().join("link")).unwrap();
        for names in [&["link"][..], &["link", "x"]] {
            assert!(at(names, ObjectKind::File).unwrap_err().to_string().contains("is a link"));
        }
    }

    #[test]
    fn what_was_received_is_known_after_a_restart_and_half_an_entry_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let key = |number| Received::key(Path::new("/inbox"), &ObjectId([number; 16]), &[]);
        let received = Received::open(folder.path()).unwrap();
        for number in 0..3 {
            lock(&received.0).add(key(number), number.into()).unwrap();
        }
        let path = folder.path().join("received");
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 5]).unwrap();
        let known = |received: &Received| [0, 1, 2].map(|number| lock(&received.0).known(&key(number)));
        let again = Received::open(folder.path()).unwrap();
        assert_eq!(known(&again), [Some(0), Some(1), None]);
        lock(&again.0).add(key(2), 9).unwrap();
        assert_eq!(known(&Received::open(folder.path()).unwrap()), [Some(0), Some(1), Some(9)]);
        assert_ne!(key(0), Received::key(Path::new("/other"), &ObjectId([0; 16]), &[]));
    }

    /// As a node that is started anew finds it.
    fn place(home: &Path, on_repeat: OnRepeat) -> Place {
        let (state, folder) = (home.join("state"), home.join("inbox"));
        let files = Files::open(&state).unwrap();
        fs::create_dir_all(&folder).unwrap();
        let (arrived, received) = (Arrived::default(), Received::open(&state).unwrap());
        Place { files, folder, publisher: None, arrived, on_repeat, received }
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
        let told: Vec<_> = std::iter::from_fn(|| next.arrived.take_left()).map(|(_, path)| path).collect();
        assert_eq!(told.len(), 2);
        assert!(told.iter().all(|path| fs::read(path).unwrap() == b"21.5"));
        // Delivered once more, it is known, until somebody has taken it away.
        for is_taken in [false, true] {
            if is_taken {
                told.iter().for_each(|path| fs::remove_file(path).unwrap());
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
            // Whoever took it away has had it.
            fs::remove_file(home.path().join("inbox/roof")).unwrap();
            assert_eq!(arrive(b"1"), on_repeat == OnRepeat::Append, "a file of lines that is gone begins anew");
        }
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
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        for cut in 1..=3 {
            file.set_len(8 - cut).unwrap();
            deliver("22\n", 2);
            assert_eq!(fs::read_to_string(&path).unwrap(), "21.5\n22\n", "cut by {cut}");
        }
        assert_eq!(deliver("22\n", 2), 0, "it is there");
        // Somebody has begun the file anew.
        fs::write(&path, "99\n98\n9").unwrap();
        deliver("22\n", 2);
        assert_eq!(fs::read_to_string(&path).unwrap(), "99\n98\n9\n22\n");
    }

    proptest! {
        #[test]
        fn two_names_never_become_one_path(
            one in prop::collection::vec((prop_oneof![Just(8u16), 1u16..60], prop::collection::vec(any::<u8>(), 0..5)), 1..4),
            other in prop::collection::vec((prop_oneof![Just(8u16), 1u16..60], "[.~%=/0-9a A]{0,4}"), 1..4),
        ) {
            let name = |of: Vec<(u16, Vec<u8>)>| {
                of.into_iter().try_fold(Name::root(), |name, (kind, value)| name.typed_child(kind, &value)).ok()
            };
            let names = [name(one), name(other.into_iter().map(|(kind, text)| (kind, text.into_bytes())).collect())];
            let [Some(one), Some(other)] = names else { return Ok(()) };
            if let (Ok(a), Ok(b)) = (file_names(&one), file_names(&other)) {
                prop_assert_eq!(a == b, one == other);
                for part in a.iter().chain(&b) {
                    prop_assert!(!part.starts_with('.') && !part.contains(['/', '\0', '\n', '~']) && !part.is_empty());
                }
            }
        }
    }
}

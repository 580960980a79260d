//! The first key seen for each name, or for each neighbour's address.
use parking_lot::Mutex;
use std::{collections::BTreeMap, fmt::Display, io, path::PathBuf, str::FromStr, sync::Arc};
use tributary_content::{Manifest, Name, ObjectId, PublicKey, StoreError};
use tributary_trust::{Believed, Ground, owner_of};

use super::{
    fs::{self, FileSystem, FsFile, Lock, OpenOptions, Wait, create_folders},
    io_error, parent, refusal, with_suffix,
};

/// Remembers which key first signed each name, and refuses others. With other subjects than names, such as addresses,
/// it remembers their first keys. The text of a subject contains no space.
///
/// A plain file with one line per name, `NAME KEY`, rather than a database: a person can read and edit it to decide
/// about a changed key. Lines that start with `#` are comments. It is read for each check, so that several processes
/// may share it; changes are made under a lock: a new name is a line behind the others, any other change replaces the
/// file in one step. Both are on the disk before they are reported. A malformed line stops everything that depends on
/// trust, because skipping it could mean to trust a wrong key; except for a last line that a power cut has torn, which
/// was never reported.
#[derive(Clone, Debug)]
pub struct TrustStore<Subject = Name> {
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
    settled: Arc<Mutex<Settled>>,
    /// The keys read once, if questions should not read the file again.
    remembered: Option<Arc<BTreeMap<Subject, PublicKey>>>,
}

/// The state that is known to be on the disk.
#[derive(Clone, Copy, Debug)]
struct Settled {
    /// Which file, and how long it was.
    stamp: Option<Stamp>,
    /// Whether a sync may have failed since, in this process or in one before it: its bytes are read from memory and
    /// may not be on the disk.
    is_suspect: bool,
}

/// A file and its length: lines are only appended, else it is another file.
type Stamp = ((u64, u64), u64);

/// The contents of the file.
struct Contents<Subject> {
    keys: BTreeMap<Subject, PublicKey>,
    /// The start of an incomplete last line.
    torn_at: Option<u64>,
    stamp: Option<Stamp>,
}

impl<Subject: Clone + Ord + Display + FromStr<Err: Display>> TrustStore<Subject> {
    /// Maximum remembered names.
    pub const NAMES_MAX: usize = 100_000;

    /// The store in the file `path`; it and its directory are made when the first key is remembered.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::on(fs::real(), path)
    }
    /// The same, on any file system.
    pub fn on(fs: Arc<dyn FileSystem>, path: impl Into<PathBuf>) -> Self {
        let settled = Arc::new(Mutex::new(Settled { stamp: None, is_suspect: true }));
        TrustStore { fs, path: path.into(), settled, remembered: None }
    }
    /// The same store with answers from the file's present contents, which never wait for a disk. Changes read the file
    /// again.
    ///
    /// # Errors
    /// [`StoreError::Io`] names the file, and the line that makes no sense: without it no publisher is trusted.
    pub fn snapshot(&self) -> Result<Self, StoreError> {
        let remembered = Some(Arc::new(self.read()?.keys));
        Ok(TrustStore { remembered, ..self.clone() })
    }
    /// The answer of `question` about the remembered keys.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the file cannot be read.
    pub fn ask<T>(&self, question: impl FnOnce(&BTreeMap<Subject, PublicKey>) -> T) -> Result<T, StoreError> {
        match &self.remembered {
            Some(remembered) => Ok(question(remembered)),
            None => Ok(question(&self.read()?.keys)),
        }
    }
    /// The key remembered for `name`.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the file cannot be read.
    pub fn known(&self, name: &Subject) -> Result<Option<PublicKey>, StoreError> {
        self.ask(|keys| keys.get(name).copied())
    }
    /// Remembers `publisher` for `name`, in place of any other key.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the file cannot be written or is full.
    pub fn accept(&self, name: &Subject, publisher: &PublicKey) -> Result<(), StoreError> {
        self.change(name, |_| Some(*publisher)).map(drop)
    }
    /// Remembers `key` for `name`: a pinned one in place of any other, otherwise the first one. Returns the key that is
    /// valid from now on: if two processes see different first keys, one gets the other's.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the file cannot be read or written, or is full.
    pub fn remember(&self, name: &Subject, key: &PublicKey, is_pinned: bool) -> Result<PublicKey, StoreError> {
        let contents = self.read()?;
        // It may be of a process that was killed before it waited for the disk.
        if self.is_settled(contents.stamp) && contents.keys.get(name) == Some(key) {
            return Ok(*key);
        }
        let first = |known: Option<PublicKey>| known.filter(|_| !is_pinned).unwrap_or(*key);
        Ok(first(self.change(name, |known| Some(first(known)))?))
    }
    /// Forgets the key of `name`, and returns it.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the file cannot be written.
    pub fn forget(&self, name: &Subject) -> Result<Option<PublicKey>, StoreError> {
        self.change(name, |_| None)
    }

    /// Stores for `name` the result of `decide` on the present key, and returns it.
    fn change(
        &self,
        name: &Subject,
        decide: impl FnOnce(Option<PublicKey>) -> Option<PublicKey>,
    ) -> Result<Option<PublicKey>, StoreError> {
        if self.settled.lock().stamp.is_none() {
            let folder = parent(&self.path);
            create_folders(&*self.fs, folder).map_err(|error| io_error("create", folder, &error))?;
        }
        let lock_path = self.lock_path();
        let locked = self.fs.open(&lock_path, OpenOptions::CREATE).and_then(|file| {
            file.lock(Lock::Exclusive, Wait::UntilFree)?;
            Ok(file)
        });
        let _lock = locked.map_err(|error| io_error("lock", &lock_path, &error))?;
        let Contents { mut keys, torn_at, stamp } = self.read_locked()?;
        let known = keys.get(name).copied();
        let wanted = decide(known);
        let written = match (known, wanted) {
            _ if wanted == known => self.settle(stamp),
            (None, Some(_)) if keys.len() >= Self::NAMES_MAX => {
                let reason = format!("it has {} names already; forget some", Self::NAMES_MAX);
                return Err(refusal("add to", &self.path, reason));
            }
            (None, Some(key)) => self.append(&format!("{name} {key}\n"), torn_at),
            (_, wanted) => {
                keys.remove(name);
                keys.extend(wanted.map(|key| (name.clone(), key)));
                let lines = keys.iter().map(|(name, key)| format!("{name} {key}\n"));
                let text: String = [String::from(HEADER)].into_iter().chain(lines).collect();
                fs::replace(&*self.fs, &self.path, &[text.as_bytes()])
            }
        };
        written.map_err(|error| io_error("write", &self.path, &error))?;
        Ok(known)
    }
    /// Appends a line, in place of a torn one, and waits for the disk: stores call this on threads that may block.
    fn append(&self, line: &str, torn_at: Option<u64>) -> io::Result<()> {
        let file = self.fs.open(&self.path, OpenOptions::CREATE)?;
        let length = match torn_at {
            Some(torn_at) => {
                file.set_len(torn_at)?;
                torn_at
            }
            None => file.metadata()?.length,
        };
        let mut last = [b'\n'];
        if length > 0 {
            file.read_exact_at(&mut last, length - 1)?;
        }
        let before = if length == 0 { HEADER } else { "\n".trim_start_matches(char::from(last[0])) };
        let written = file.write_all_at([before, line].concat().as_bytes(), length).and_then(|()| self.wait(&*file));
        if written.is_err() {
            // It was not acknowledged.
            file.set_len(length)?;
        }
        written
    }
    /// Whether the file of this stamp is known to be on the disk as it is in memory. After a failed sync, its bytes may
    /// be on the disk although memory has dropped them.
    fn is_settled(&self, stamp: Option<Stamp>) -> bool {
        let settled = self.settled.lock();
        stamp == settled.stamp && !settled.is_suspect
    }
    /// Ensures that the bytes that were read are on the disk.
    fn settle(&self, stamp: Option<Stamp>) -> io::Result<()> {
        if stamp.is_none() || self.is_settled(stamp) {
            return Ok(());
        }
        self.wait(&*self.fs.open(&self.path, OpenOptions::WRITE)?)
    }
    fn wait(&self, file: &dyn FsFile) -> io::Result<()> {
        let metadata = file.metadata()?;
        let is_new = self.settled.lock().stamp.is_none_or(|(identity, _)| identity != metadata.identity);
        if self.settled.lock().is_suspect {
            let mut bytes = vec![0; metadata.length as usize];
            file.read_exact_at(&mut bytes, 0)?;
            file.write_all_at(&bytes, 0)?;
        }
        let synced = file.sync_data();
        self.settled.lock().is_suspect |= synced.is_err();
        synced?;
        if is_new {
            self.fs.sync_folder(parent(&self.path))?;
        }
        *self.settled.lock() = Settled { stamp: Some((metadata.identity, metadata.length)), is_suspect: false };
        Ok(())
    }
    fn lock_path(&self) -> PathBuf {
        with_suffix(&self.path, ".lock")
    }
    fn read(&self) -> Result<Contents<Subject>, StoreError> {
        // Without it half of a line that is being written could be read. Without a lock file nothing was written yet.
        let _lock = self.fs.open(&self.lock_path(), OpenOptions::READ).and_then(|file| {
            file.lock(Lock::Shared, Wait::UntilFree)?;
            Ok(file)
        });
        self.read_locked()
    }
    fn read_locked(&self) -> Result<Contents<Subject>, StoreError> {
        let (text, stamp) = match self.read_file() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Contents { keys: BTreeMap::new(), torn_at: None, stamp: None });
            }
            read => read.map_err(|error| io_error("read", &self.path, &error))?,
        };
        let mut contents = Contents { keys: BTreeMap::new(), torn_at: None, stamp: Some(stamp) };
        let mut at = 0;
        for (number, bytes) in (1..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
            let start = at;
            at += bytes.len();
            let refuse = |reason: String| Err(refusal("read", &self.path, format!("line {number}: {reason}")));
            let reason = match parse(bytes) {
                Ok(None) => continue,
                Ok(Some((name, key))) => match contents.keys.insert(name, key) {
                    Some(_) => return refuse("the name occurs twice".into()),
                    None => continue,
                },
                Err(reason) => reason,
            };
            // A power cut leaves zeros in the line that was being written, or less than all of it.
            let is_torn = at == text.len() && (bytes.contains(&0) || !bytes.ends_with(b"\n"));
            if !is_torn {
                return refuse(reason);
            }
            tracing::warn!(
                "'{}' ends with a line that was never written to its end; it is ignored",
                self.path.display()
            );
            contents.torn_at = Some(start as u64);
        }
        Ok(contents)
    }
    fn read_file(&self) -> io::Result<(Vec<u8>, Stamp)> {
        let file = self.fs.open(&self.path, OpenOptions::READ)?;
        let metadata = file.metadata()?;
        let mut text = vec![0; metadata.length as usize];
        file.read_exact_at(&mut text, 0)?;
        Ok((text, (metadata.identity, metadata.length)))
    }
}

/// The publishers that a fetch believes, by its request, the node's config, and the keys that a store remembers.
#[derive(Clone, Debug)]
pub struct Trust {
    store: TrustStore,
    believed: Believed,
    /// Whether a complete object binds its name to its publisher's key.
    binds_key: bool,
}

impl Trust {
    /// Uses the keys of `store` for names that `believed` does not decide.
    pub fn new(store: TrustStore, believed: Believed) -> Self {
        Trust { store, believed, binds_key: true }
    }
    /// A copy for a request that accepts only this publisher, and only these bytes.
    pub fn pinning(&self, pinned: Option<PublicKey>, object: Option<ObjectId>) -> Self {
        Trust { believed: Believed { pinned, object, ..self.believed.clone() }, ..self.clone() }
    }
    /// A copy for objects that others send to this node.
    pub fn for_senders(mut self) -> Self {
        self.believed.is_for_senders = true;
        self
    }
    /// A copy with the store's [snapshot](TrustStore::snapshot).
    ///
    /// # Errors
    /// [`StoreError::Io`] if the file cannot be read.
    pub fn snapshot(&self) -> Result<Self, StoreError> {
        Ok(Trust { store: self.store.snapshot()?, ..self.clone() })
    }
    /// An authority vouches for this publisher.
    pub fn certify(&mut self, publisher: PublicKey) {
        if !self.believed.certified.contains(&publisher) {
            self.believed.certified.push(publisher);
        }
    }
    /// Completed objects no longer bind their names to keys.
    pub fn bind_no_key(&mut self) {
        self.binds_key = false;
    }
    /// The only key that is believed for `name`, and why; `None` believes the first one.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the file cannot be read.
    pub fn key(&self, name: &Name) -> Result<Option<(PublicKey, Ground)>, StoreError> {
        self.store.ask(|remembered| self.believed.key(name, remembered))
    }
    /// Checks the publisher of a manifest. Changes nothing.
    ///
    /// # Errors
    /// Errors of [`Believed::check`]; [`StoreError::Io`] if the file cannot be read.
    pub fn check(&self, manifest: &Manifest) -> Result<(), StoreError> {
        self.store.ask(|remembered| self.believed.check(manifest, remembered))?
    }
    /// Whether the first publisher that offers a name is not simply believed.
    pub fn knows(&self, name: &Name) -> bool {
        self.store.ask(|remembered| self.believed.knows(name, remembered)).unwrap_or(false)
    }
    /// Checks the manifest of a complete object and binds its name to its publisher's key, in place of a remembered key
    /// if something else decides. Of two processes that see different first keys for one name, one is refused.
    ///
    /// # Errors
    /// Errors of [`Trust::check`] and [`TrustStore::accept`].
    pub fn check_and_remember(&self, manifest: &Manifest) -> Result<(), StoreError> {
        let Manifest { name, publisher, .. } = manifest;
        self.check(manifest)?;
        // Names that belong to a key need no memory.
        if !(self.binds_key && self.believed.binds()) || owner_of(name).is_some() {
            return Ok(());
        }
        let outranks = !matches!(self.key(name)?, None | Some((_, Ground::Remembered(_))));
        match self.store.remember(name, publisher, outranks)? {
            known if known != *publisher => self.check(manifest),
            _ => Ok(()),
        }
    }
}

/// The contents of a line; nothing if it is empty or a comment.
fn parse<Subject: FromStr<Err: Display>>(line: &[u8]) -> Result<Option<(Subject, PublicKey)>, String> {
    let line = std::str::from_utf8(line).map_err(|error| error.to_string())?.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (name, key) = line.split_once(char::is_whitespace).ok_or("a line is a name, a space and a key")?;
    let name = name.parse::<Subject>().map_err(|error| error.to_string())?;
    let key = key.trim().parse::<PublicKey>().map_err(|error| error.to_string())?;
    Ok(Some((name, key)))
}

const HEADER: &str =
    "# The key first seen for each name or address. Remove a line to trust the next key that comes for it.\n";

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::disk::fixtures::{believing, directory, object_of};
    use tributary_content::{ObjectReader, SigningKey};

    fn key(number: u8) -> PublicKey {
        SigningKey::from_secret(&[number; 32]).public()
    }
    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }
    fn offered(text: &str, by: u8) -> Manifest {
        object_of(&[1], text, 1, &SigningKey::from_secret(&[by; 32])).manifest().clone()
    }
    fn check(store: &TrustStore, text: &str, by: u8, pinned: Option<u8>) -> Result<(), StoreError> {
        believing(store, pinned.map(key)).check(&offered(text, by))
    }
    fn check_and_remember(store: &TrustStore, text: &str, by: u8, pinned: Option<u8>) -> Result<(), StoreError> {
        believing(store, pinned.map(key)).check_and_remember(&offered(text, by))
    }

    #[test]
    fn the_first_key_is_remembered_and_another_is_refused_naming_both() {
        let directory = directory();
        let store = TrustStore::new(directory.path().join("state/trust"));
        assert_eq!(check(&store, "/x", 1, None), Ok(()));
        assert_eq!(store.known(&name("/x")), Ok(None), "a question changes nothing");
        assert_eq!(check_and_remember(&store, "/x", 1, None), Ok(()));
        let again = TrustStore::new(directory.path().join("state/trust"));
        assert_eq!(check(&again, "/x", 1, None), Ok(()));
        assert_eq!(check(&again, "/y", 2, None), Ok(()));
        let refused = check_and_remember(&again, "/x", 2, None).expect_err("another key").to_string();
        assert!(refused.contains(&format!("was published by {} before", key(1))), "{refused}");
        assert!(refused.contains(&format!("--publisher {}", key(2))), "{refused}");
        assert_eq!(again.known(&name("/x")), Ok(Some(key(1))));
    }

    #[test]
    fn a_pinned_key_alone_decides_and_replaces_the_remembered_one() {
        let directory = directory();
        let store = TrustStore::new(directory.path().join("trust"));
        check_and_remember(&store, "/x", 1, None).expect("the first key");
        let refused = check(&store, "/x", 1, Some(2)).expect_err("not the pinned key").to_string();
        assert!(refused.contains(&key(1).to_string()) && refused.contains(&key(2).to_string()), "{refused}");
        check_and_remember(&store, "/x", 2, Some(2)).expect("it is pinned");
        assert_eq!(store.known(&name("/x")), Ok(Some(key(2))));
        assert!(check(&store, "/x", 1, None).is_err());
    }

    #[test]
    fn a_certified_key_replaces_a_remembered_one_and_is_remembered_itself() {
        let directory = directory();
        let store = TrustStore::new(directory.path().join("trust"));
        check_and_remember(&store, "/x", 1, None).expect("the first key");
        let mut trust = believing(&store, None);
        trust.certify(key(2));
        assert!(trust.check(&offered("/x", 1)).is_err() && trust.knows(&name("/y")));
        trust.check_and_remember(&offered("/x", 2)).expect("an authority vouches for it");
        assert_eq!(store.known(&name("/x")), Ok(Some(key(2))));
        assert!(check(&store, "/x", 1, None).is_err() && check(&store, "/x/below", 1, None).is_err());
    }

    #[test]
    fn keys_can_be_accepted_and_forgotten() {
        let directory = directory();
        let store = TrustStore::new(directory.path().join("trust"));
        store.accept(&name("/x"), &key(1)).expect("writable");
        store.accept(&name("/x"), &key(2)).expect("writable");
        store.accept(&name("/a b"), &key(1)).expect("writable");
        assert_eq!(store.ask(BTreeMap::len), Ok(2));
        assert_eq!(store.forget(&name("/x")), Ok(Some(key(2))));
        assert_eq!(store.forget(&name("/x")), Ok(None));
        assert_eq!(store.ask(|keys| keys.keys().cloned().collect()), Ok(vec![name("/a b")]));
    }

    #[test]
    fn a_line_that_makes_no_sense_trusts_nobody_and_is_named() {
        let directory = directory();
        let path = directory.path().join("trust");
        let store = TrustStore::new(&path);
        store.accept(&name("/x"), &key(1)).expect("writable");
        let good = fs::read_to_string(&path).expect("readable");
        let line = format!("/x {}", key(2));
        for bad in ["/y", "/y ed25519:00", "no-slash ed25519:00", &line] {
            fs::write(&path, format!("{good}{bad}\n")).expect("writable");
            let refused = check(&store, "/z", 1, None).expect_err("the file is damaged").to_string();
            assert!(refused.contains("line 3:"), "{bad}: {refused}");
            assert!(store.accept(&name("/z"), &key(1)).is_err());
        }
        fs::write(&path, format!("\n  # by hand\n  /y \t {}", key(3))).expect("writable");
        assert_eq!(store.known(&name("/y")), Ok(Some(key(3))));
        store.accept(&name("/x"), &key(1)).expect("a line that does not end is ended");
        assert_eq!(store.known(&name("/y")), Ok(Some(key(3))));
        assert_eq!(store.known(&name("/x")), Ok(Some(key(1))));
    }

    #[test]
    fn a_last_line_that_a_power_cut_has_torn_is_ignored_and_replaced() {
        let directory = directory();
        let path = directory.path().join("trust");
        let line = format!("/y {}\n", key(2));
        for torn in [&line.as_bytes()[..30], &[0; 60], &[&[0; 40][..], &line.as_bytes()[40..]].concat()] {
            let store = TrustStore::new(&path);
            store.accept(&name("/x"), &key(1)).expect("writable");
            let good = fs::read(&path).expect("readable");
            fs::write(&path, [&good[..], torn].concat()).expect("writable");
            let again = TrustStore::new(&path);
            assert_eq!(again.known(&name("/x")), Ok(Some(key(1))));
            check_and_remember(&again, "/z", 3, None).expect("it is the first key");
            assert_eq!(fs::read(&path).expect("readable"), [&good[..], format!("/z {}\n", key(3)).as_bytes()].concat());
            fs::remove_file(&path).expect("it is there");
        }
    }

    #[test]
    fn of_many_that_see_different_first_keys_at_once_all_but_one_are_refused() {
        let directory = directory();
        let store = TrustStore::new(directory.path().join("trust"));
        let trusted: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|number| {
                    let store = &store;
                    scope.spawn(move || usize::from(check_and_remember(store, "/x", number, None).is_ok()))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(trusted, 1);
    }
}

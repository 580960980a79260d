//! The first key seen for each name.
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::PathBuf,
    sync::Arc,
};
use tributary_content::{Name, PublicKey, StoreError};

use super::{io_error, refusal, replace_file, with_suffix};

/// Remembers which key first signed each name, and refuses another one.
///
/// A plain file with one line per name, `NAME KEY`, rather than a database: who has to decide about a changed key can
/// read and edit it. Lines that start with `#` are comments. It is read at each question, so that several processes
/// may share it; changes are made under a lock: a new name is a line behind the others, anything else replaces the file
/// in one step. A line that makes no sense stops everything that depends on trust, because skipping it could mean to
/// trust a wrong key.
#[derive(Clone, Debug)]
pub struct TrustStore {
    path: PathBuf,
    /// What was read once, if questions are not to be answered by reading the file.
    remembered: Option<Arc<Result<BTreeMap<Name, PublicKey>, StoreError>>>,
}

impl TrustStore {
    /// How many names are remembered at most.
    pub const NAMES_MAX: usize = 100_000;

    /// The store in the file `path`; it and its directory are made when the first key is remembered.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        TrustStore { path: path.into(), remembered: None }
    }
    /// The same store, whose questions are answered by what the file says now and never wait for a disk. Changes are made
    /// on what the file says then.
    pub fn snapshot(&self) -> Self {
        TrustStore { path: self.path.clone(), remembered: Some(Arc::new(self.read())) }
    }
    /// Sees that it can be read: without it nobody is believed.
    ///
    /// # Errors
    /// [`StoreError::Io`] names the file, and the line that makes no sense.
    pub fn check_readable(&self) -> Result<(), StoreError> {
        match &self.remembered {
            Some(remembered) => remembered.as_ref().as_ref().map(drop).map_err(Clone::clone),
            None => self.read().map(drop),
        }
    }
    fn current(&self) -> Result<BTreeMap<Name, PublicKey>, StoreError> {
        match &self.remembered {
            Some(remembered) => (**remembered).clone(),
            None => self.read(),
        }
    }
    /// Whether `publisher` may be believed for `name`. Changes nothing.
    ///
    /// If `pinned` is given, it alone decides; otherwise the key remembered for the name does, and any key will do for
    /// a name that is not known.
    ///
    /// # Errors
    /// [`StoreError::Untrusted`] names both keys and how to accept the new one; [`StoreError::Io`] if the file cannot
    /// be read.
    pub fn check(&self, name: &Name, publisher: &PublicKey, pinned: Option<&PublicKey>) -> Result<(), StoreError> {
        let refuse = |reason| Err(StoreError::Untrusted { reason });
        if let Some(pinned) = pinned {
            return if pinned == publisher {
                Ok(())
            } else {
                refuse(format!(
                    "'{name}' is offered with a signature by {publisher}, but you asked for {pinned}; \
                     if you trust the offered key, fetch with --publisher {publisher}"
                ))
            };
        }
        match self.known(name)? {
            Some(known) if known != *publisher => refuse(format!(
                "'{name}' was published by {known} before, and is now offered with a signature by {publisher}: \
                 either its publisher has a new key, or somebody else uses its name; \
                 if you trust the new key, fetch with --publisher {publisher}"
            )),
            _ => Ok(()),
        }
    }
    /// The key remembered for `name`.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the file cannot be read.
    pub fn known(&self, name: &Name) -> Result<Option<PublicKey>, StoreError> {
        match &self.remembered {
            Some(remembered) => match &**remembered {
                Ok(keys) => Ok(keys.get(name).copied()),
                Err(error) => Err(error.clone()),
            },
            None => Ok(self.read()?.remove(name)),
        }
    }
    /// All names and keys.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the file cannot be read.
    pub fn entries(&self) -> Result<BTreeMap<Name, PublicKey>, StoreError> {
        self.current()
    }
    /// Remembers `publisher` for `name`, in place of any other key.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the file cannot be written or is full.
    pub fn accept(&self, name: &Name, publisher: &PublicKey) -> Result<(), StoreError> {
        self.change(name, |_| Some(*publisher)).map(drop)
    }
    /// Checks as [`TrustStore::check`] does and remembers the key: a pinned one in place of any other, otherwise the
    /// first one. Of two processes that see different first keys for one name, one is refused.
    ///
    /// # Errors
    /// Those of [`TrustStore::check`] and [`TrustStore::accept`].
    pub fn check_and_remember(
        &self,
        name: &Name,
        publisher: &PublicKey,
        pinned: Option<&PublicKey>,
    ) -> Result<(), StoreError> {
        self.check(name, publisher, pinned)?;
        if self.known(name)? == Some(*publisher) {
            return Ok(());
        }
        match self.change(name, |known| if pinned.is_none() { known.or(Some(*publisher)) } else { Some(*publisher) })? {
            Some(first) if first != *publisher => self.check(name, publisher, pinned),
            _ => Ok(()),
        }
    }
    /// Forgets the key of `name`; tells whether there was one.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the file cannot be written.
    pub fn forget(&self, name: &Name) -> Result<Option<PublicKey>, StoreError> {
        self.change(name, |_| None)
    }

    /// Remembers for `name` what `decide` makes of what is remembered, and gives that.
    fn change(
        &self,
        name: &Name,
        decide: impl FnOnce(Option<PublicKey>) -> Option<PublicKey>,
    ) -> Result<Option<PublicKey>, StoreError> {
        if let Some(parent) = self.path.parent() {
            fs::create_dir_all(parent).map_err(|error| io_error("create", parent, &error))?;
        }
        let lock_path = self.lock_path();
        let lock = File::create(&lock_path).and_then(|file| file.lock().map(|()| file));
        let _lock = lock.map_err(|error| io_error("lock", &lock_path, &error))?;
        let mut keys = self.read_locked()?;
        let known = keys.get(name).copied();
        let wanted = decide(known);
        if wanted == known {
            return Ok(known);
        }
        let written = match (known, wanted) {
            (None, Some(_)) if keys.len() >= Self::NAMES_MAX => {
                let reason = format!("it has {} names already; forget some", Self::NAMES_MAX);
                return Err(refusal("add to", &self.path, reason));
            }
            (None, Some(key)) => self.append(&format!("{name} {key}\n")),
            (_, wanted) => {
                keys.remove(name);
                keys.extend(wanted.map(|key| (name.clone(), key)));
                let lines = keys.iter().map(|(name, key)| format!("{name} {key}\n"));
                let text: String = [String::from(HEADER)].into_iter().chain(lines).collect();
                replace_file(&self.path, &[text.as_bytes()])
            }
        };
        written.map_err(|error| io_error("write", &self.path, &error))?;
        Ok(known)
    }
    /// Writes a line behind the others. Does not wait for the disk, because fetches wait for it: if the machine loses
    /// power within seconds the line may be gone, and no other.
    fn append(&self, line: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&self.path)?;
        let length = file.metadata()?.len();
        let mut last = [b'\n'];
        if length > 0 {
            file.read_exact_at(&mut last, length - 1)?;
        }
        let before = if length == 0 { HEADER } else { "\n".trim_start_matches(char::from(last[0])) };
        let written = file.write_all([before, line].concat().as_bytes());
        if written.is_err() {
            // Half a line would trust nobody.
            file.set_len(length)?;
        }
        written
    }
    fn lock_path(&self) -> PathBuf {
        with_suffix(&self.path, ".lock")
    }
    fn read(&self) -> Result<BTreeMap<Name, PublicKey>, StoreError> {
        // Else half of a line that is being written could be read. Where there is no lock nobody has written yet.
        let _lock = File::open(self.lock_path()).and_then(|file| file.lock_shared().map(|()| file));
        self.read_locked()
    }
    fn read_locked(&self) -> Result<BTreeMap<Name, PublicKey>, StoreError> {
        let text = match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            read => read.map_err(|error| io_error("read", &self.path, &error))?,
        };
        let mut keys = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let refuse = |reason: String| Err(refusal("read", &self.path, format!("line {number}: {reason}")));
            let Some((name, key)) = line.split_once(char::is_whitespace) else {
                return refuse("a line is a name, a space and a key".into());
            };
            let (name, key) = match (name.parse::<Name>(), key.trim().parse::<PublicKey>()) {
                (Ok(name), Ok(key)) => (name, key),
                (Err(error), _) => return refuse(error.to_string()),
                (_, Err(error)) => return refuse(error.to_string()),
            };
            if keys.insert(name, key).is_some() {
                return refuse("the name is there twice".into());
            }
        }
        Ok(keys)
    }
}

const HEADER: &str =
    "# The publisher's key first seen for each name. Remove a line to trust the next key that offers it.\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::fixtures::directory;
    use tributary_content::SigningKey;

    fn key(number: u8) -> PublicKey {
        SigningKey::from_secret(&[number; 32]).public()
    }
    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    #[test]
    fn the_first_key_is_remembered_and_another_is_refused_naming_both() {
        let directory = directory();
        let store = TrustStore::new(directory.path().join("state/trust"));
        assert_eq!(store.check(&name("/x"), &key(1), None), Ok(()));
        assert_eq!(store.known(&name("/x")), Ok(None), "a question changes nothing");
        assert_eq!(store.check_and_remember(&name("/x"), &key(1), None), Ok(()));
        let again = TrustStore::new(directory.path().join("state/trust"));
        assert_eq!(again.check(&name("/x"), &key(1), None), Ok(()));
        assert_eq!(again.check(&name("/y"), &key(2), None), Ok(()));
        let refused = again.check_and_remember(&name("/x"), &key(2), None).expect_err("another key").to_string();
        assert!(refused.contains(&format!("was published by {} before", key(1))), "{refused}");
        assert!(refused.contains(&format!("--publisher {}", key(2))), "{refused}");
        assert_eq!(again.known(&name("/x")), Ok(Some(key(1))));
    }

    #[test]
    fn a_pinned_key_alone_decides_and_replaces_the_remembered_one() {
        let directory = directory();
        let store = TrustStore::new(directory.path().join("trust"));
        store.check_and_remember(&name("/x"), &key(1), None).expect("the first key");
        let refused = store.check(&name("/x"), &key(1), Some(&key(2))).expect_err("not the pinned key").to_string();
        assert!(refused.contains(&key(1).to_string()) && refused.contains(&key(2).to_string()), "{refused}");
        store.check_and_remember(&name("/x"), &key(2), Some(&key(2))).expect("it is pinned");
        assert_eq!(store.known(&name("/x")), Ok(Some(key(2))));
        assert!(store.check(&name("/x"), &key(1), None).is_err());
    }

    #[test]
    fn keys_can_be_accepted_and_forgotten() {
        let directory = directory();
        let store = TrustStore::new(directory.path().join("trust"));
        store.accept(&name("/x"), &key(1)).expect("writable");
        store.accept(&name("/x"), &key(2)).expect("writable");
        store.accept(&name("/a b"), &key(1)).expect("writable");
        assert_eq!(store.entries().map(|entries| entries.len()), Ok(2));
        assert_eq!(store.forget(&name("/x")), Ok(Some(key(2))));
        assert_eq!(store.forget(&name("/x")), Ok(None));
        assert_eq!(store.entries().map(|entries| entries.into_keys().collect()), Ok(vec![name("/a b")]));
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
            let refused = store.check(&name("/z"), &key(1), None).expect_err("the file is damaged").to_string();
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
    fn of_many_that_see_different_first_keys_at_once_all_but_one_are_refused() {
        let directory = directory();
        let store = TrustStore::new(directory.path().join("trust"));
        let trusted: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|number| {
                    let store = &store;
                    scope.spawn(move || usize::from(store.check_and_remember(&name("/x"), &key(number), None).is_ok()))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(trusted, 1);
    }
}

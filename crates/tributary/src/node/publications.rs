//! What `trib put` published, remembered over restarts.
use serde::{Deserialize, Serialize};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tributary_content::Name;
use tributary_net::disk::fs::{self, FileSystem};

use crate::{
    error::{ApiError, ErrorKind},
    state_file::StateFile,
};

/// The file in the folder of a node's state.
const FILE: &str = "publications.json";

/// The publications of one node, in one small file that is replaced as a unit.
#[derive(Debug)]
pub(crate) struct Publications {
    fs: Arc<dyn FileSystem>,
    file: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    list: Vec<Publication>,
    /// Whether the disk may have something else: the file could not be replaced, by this process or by one before it, and it
    /// is not known how far that came.
    is_unsure: bool,
}

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Publication {
    pub(crate) name: Name,
    pub(crate) path: PathBuf,
    pub(crate) version: Option<u64>,
    /// Who alone can read it, as they were named; empty if everybody can.
    pub(crate) readers: Vec<String>,
    /// Web servers that have it too.
    pub(crate) mirrors: Vec<String>,
    /// Set for what was fetched and is served as its publisher signed it.
    pub(crate) copy: Option<Copy>,
    /// Whether it is published anew when it changes.
    pub(crate) is_watched: bool,
}

/// What was fetched and is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Copy {
    /// Since when, in seconds since 1970.
    pub(crate) since: u64,
    /// Its size.
    pub(crate) bytes: u64,
}

/// One of them in the file.
#[derive(Serialize, Deserialize)]
struct Record {
    name: String,
    #[serde(with = "crate::any_path")]
    path: PathBuf,
    version: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    readers: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    mirrors: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    copy: Option<Copy>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    watched: bool,
}

impl Publications {
    /// Reads the file in `state_dir`, if it exists.
    pub(crate) fn open(state_dir: &Path) -> Result<Self, ApiError> {
        Self::on(fs::real(), state_dir)
    }
    /// The same, on any file system.
    fn on(fs: Arc<dyn FileSystem>, state_dir: &Path) -> Result<Self, ApiError> {
        let file = state_dir.join(FILE);
        let stored = StateFile::new(&*fs, state_dir, FILE, "move it away to start without remembered publications");
        let records: Vec<Record> = stored.read()?;
        // One that was left out would be forgotten with the next change.
        let parse = |record: Record| {
            let name =
                record.name.parse().map_err(|error| stored.unreadable(&format!("'{}': {error}", record.name)))?;
            Ok(Publication {
                name,
                path: record.path,
                version: record.version,
                readers: record.readers,
                mirrors: record.mirrors,
                copy: record.copy,
                is_watched: record.watched,
            })
        };
        let list = records.into_iter().map(parse).collect::<Result<_, ApiError>>()?;
        Ok(Publications { fs, known: Mutex::new(Known { list, is_unsure: true }), file })
    }
    /// All of them, in the order in which they were made.
    pub(crate) fn list(&self) -> Vec<Publication> {
        self.locked().list.clone()
    }
    /// Keeps one; an older one of the same name is replaced. What cannot be written changes nothing.
    pub(crate) fn remember(&self, publication: Publication) -> Result<(), ApiError> {
        let mut known = self.locked();
        let mut new: Vec<_> = known.list.iter().filter(|of| of.name != publication.name).cloned().collect();
        new.push(publication);
        self.replace(&mut known, new)
    }
    /// Drops one; gives whether it was there.
    pub(crate) fn forget(&self, name: &Name) -> Result<bool, ApiError> {
        let mut known = self.locked();
        let new: Vec<_> = known.list.iter().filter(|of| of.name != *name).cloned().collect();
        let was_there = new.len() < known.list.len();
        if was_there || known.is_unsure {
            self.replace(&mut known, new)?;
        }
        Ok(was_there)
    }

    /// Drops a copy; false if something else has its name by now.
    pub(crate) fn forget_copy(&self, name: &Name, copy: Copy) -> Result<bool, ApiError> {
        let mut known = self.locked();
        let is_it = |of: &Publication| of.name == *name && of.copy == Some(copy);
        let new: Vec<_> = known.list.iter().filter(|of| !is_it(of)).cloned().collect();
        let was_there = new.len() < known.list.len();
        if was_there {
            self.replace(&mut known, new)?;
        }
        Ok(was_there)
    }

    /// Those that are published anew when they change.
    pub(crate) fn watched(&self) -> Vec<Publication> {
        self.locked().list.iter().filter(|of| of.is_watched).cloned().collect()
    }

    fn replace(&self, known: &mut Known, list: Vec<Publication>) -> Result<(), ApiError> {
        known.is_unsure = true;
        self.write(&list)?;
        *known = Known { list, is_unsure: false };
        Ok(())
    }
    fn write(&self, list: &[Publication]) -> Result<(), ApiError> {
        let records: Vec<_> = list
            .iter()
            .map(|of| Record {
                name: of.name.to_string(),
                path: of.path.clone(),
                version: of.version,
                readers: of.readers.clone(),
                mirrors: of.mirrors.clone(),
                copy: of.copy,
                watched: of.is_watched,
            })
            .collect();
        let mut text = serde_json::to_vec_pretty(&records)
            .map_err(|error| ApiError::new(ErrorKind::Io, format!("cannot remember the publication: {error}")))?;
        text.push(b'\n');
        fs::replace(&*self.fs, &self.file, &[&text]).map_err(|error| ApiError::io("write", self.file.display(), &error))
    }
    fn locked(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    #[test]
    fn remembers_over_restarts_and_replaces_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let name: Name = "/a/b".parse().unwrap();
        let first = Publication {
            name: name.clone(),
            path: "/x".into(),
            version: None,
            readers: Vec::new(),
            mirrors: Vec::new(),
            copy: None,
            is_watched: false,
        };
        // A file may have any name, UTF-8 or not.
        let second = Publication {
            path: OsStr::from_bytes(b"/\xff").into(),
            version: Some(7),
            readers: vec!["lab".into()],
            mirrors: Vec::new(),
            ..first.clone()
        };
        let publications = Publications::open(folder.path()).unwrap();
        publications.remember(first).unwrap();
        publications.remember(second.clone()).unwrap();
        drop(publications);
        let publications = Publications::open(folder.path()).unwrap();
        assert_eq!(publications.list(), [second]);
        assert!(publications.forget(&name).unwrap());
        assert!(!publications.forget(&name).unwrap());
        assert_eq!(Publications::open(folder.path()).unwrap().list(), []);
    }

    /// The list is as it was when something of it was acknowledged last, or as an attempt that failed since would have it.
    #[test]
    fn what_was_acknowledged_outlives_kills_power_cuts_and_failing_disks() {
        use std::collections::BTreeSet;

        use tributary_net::disk::fs::histories::{self, Machine, trace};

        let history = |seed| {
            let mut machine = Machine::new(seed);
            let state = Path::new("/state");
            let texts = |list: &[Publication]| -> Vec<String> { list.iter().map(|of| format!("{of:?}")).collect() };
            let mut possible = BTreeSet::from([Vec::new()]);
            for _ in 0..2 + machine.random.below(5) {
                fs::create_folders(&*machine.fs, state).expect("nothing fails");
                let publications = Publications::on(Arc::clone(&machine.fs), state).expect("it is never damaged");
                let found = texts(&publications.list());
                assert!(possible.contains(&found), "{found:?} of {possible:?}");
                machine.be_rough();
                for _ in 0..machine.random.below(15) {
                    let name: Name = format!("/{}", machine.random.below(6)).parse().unwrap();
                    let mut wanted: Vec<_> = publications.list().into_iter().filter(|of| of.name != name).collect();
                    let done = match machine.random.below(3) {
                        0 => publications.forget(&name).map(drop),
                        _ => {
                            let version = Some(machine.random.bits());
                            let new = Publication {
                                name,
                                path: "/x".into(),
                                version,
                                readers: Vec::new(),
                                mirrors: Vec::new(),
                                copy: None,
                                is_watched: false,
                            };
                            wanted.push(new.clone());
                            publications.remember(new)
                        }
                    };
                    trace(|| format!("{wanted:?}: {done:?}"));
                    match done {
                        Ok(()) => possible = BTreeSet::from([texts(&wanted)]),
                        Err(_) => drop(possible.insert(texts(&wanted))),
                    }
                }
                machine.restart();
            }
        };
        histories::run("publications", 1_000, history);
    }

    #[test]
    fn what_cannot_be_written_changes_nothing_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let publications = Publications::open(folder.path()).unwrap();
        let first = Publication {
            name: "/a".parse().unwrap(),
            path: "/x".into(),
            version: None,
            readers: Vec::new(),
            mirrors: Vec::new(),
            copy: None,
            is_watched: false,
        };
        publications.remember(first.clone()).unwrap();
        // Nothing can take the place of a folder that is not empty.
        let file = folder.path().join(FILE);
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir_all(file.join("in the way")).unwrap();
        let other = Publication { name: "/b".parse().unwrap(), ..first.clone() };
        assert!(publications.remember(other).is_err() && publications.forget(&first.name).is_err());
        assert_eq!(publications.list(), [first]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_file_is_an_error_that_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        for (text, notices) in
            [("no", "expected ident"), ("[{\"name\":\"lab\",\"path\":\"/x\",\"version\":null}]", "'lab': ")]
        {
            std::fs::write(folder.path().join(FILE), text).unwrap();
            let error = Publications::open(folder.path()).unwrap_err().to_string();
            assert!(error.contains(notices) && error.contains("move it away"), "{error}");
        }
    }
}

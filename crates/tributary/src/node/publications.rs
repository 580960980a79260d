//! What `trib put` published, remembered over restarts.
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tributary_content::Name;
use tributary_net::disk::fs::{self, FileSystem, FsFile, OpenOptions};

use crate::{error::ApiError, state_file::StateFile};

/// The file in the folder of a node's state: a line of JSON for each change, the last one of a name counts.
const FILE: &str = "publications.jsonl";
/// The same as one array, which earlier versions of the program replaced at each change.
const FORMER: &str = "publications.json";
/// Its first line: the form of the others. Without it a file that was emptied would be one without publications.
const HEADER: &[u8] = b"{\"publications\":1}\n";
const HINT: &str = "move it away to start without remembered publications";
/// Outdated lines, beyond the number of publications, before the file is rewritten.
const OUTDATED_MAX: usize = 1_024;

/// The publications of one node. A change costs one line, regardless of their number.
#[derive(Debug)]
pub(crate) struct Publications {
    fs: Arc<dyn FileSystem>,
    state_dir: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    list: List,
    /// `None` if the disk may differ: this process or an earlier one could not write a change, and its extent is
    /// unknown.
    log: Option<Log>,
}
/// Publications in the order in which they were made.
#[derive(Debug, Default)]
struct List {
    next: u64,
    numbers: HashMap<Name, u64>,
    by_number: BTreeMap<u64, Publication>,
}
/// The file while its content is known.
#[derive(Debug)]
struct Log {
    file: Arc<dyn FsFile>,
    bytes: u64,
    lines: usize,
}

/// A publication.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Publication {
    #[serde(with = "name_serde")]
    pub(crate) name: Name,
    #[serde(with = "crate::path_serde")]
    pub(crate) path: PathBuf,
    pub(crate) version: Option<u64>,
    /// Who alone can read it, as they were written; empty for everybody.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) readers: Vec<String>,
    /// Web servers that have it too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) mirrors: Vec<String>,
    /// Set for fetched objects that are served as their publisher signed them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) copy: Option<Copy>,
    /// Whether changes are published.
    #[serde(rename = "watched", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_watched: bool,
}

/// A fetched object that is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Copy {
    /// Since when, in seconds of the [age](tributary_net::disk::age) of the state folder.
    pub(crate) since: u64,
    /// Its size.
    pub(crate) bytes: u64,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Change {
    Published(Publication),
    Withdrawn {
        #[serde(with = "name_serde")]
        name: Name,
    },
}
impl Publications {
    /// Reads the file in `state_dir`, if it exists.
    pub(crate) fn open(state_dir: &Path) -> Result<Self, ApiError> {
        Self::on(fs::real(), state_dir)
    }
    /// The same, on any file system.
    fn on(fs: Arc<dyn FileSystem>, state_dir: &Path) -> Result<Self, ApiError> {
        let list = read(&*fs, state_dir)?;
        Ok(Publications { fs, state_dir: state_dir.into(), known: Mutex::new(Known { list, log: None }) })
    }
    /// All of them, in the order of their creation.
    pub(crate) fn list(&self) -> Vec<Publication> {
        self.known.lock().list.by_number.values().cloned().collect()
    }
    /// The one of this name.
    pub(crate) fn get(&self, name: &Name) -> Option<Publication> {
        self.known.lock().list.get(name).cloned()
    }
    /// Keeps one; an older one of the same name is replaced. What cannot be written changes nothing.
    pub(crate) fn remember(&self, publication: Publication) -> Result<(), ApiError> {
        let mut known = self.known.lock();
        self.write(&mut known, &Change::Published(publication.clone()), Some(&publication))?;
        known.list.insert(publication);
        Ok(())
    }
    /// Drops one; returns whether it existed.
    pub(crate) fn forget(&self, name: &Name) -> Result<bool, ApiError> {
        let mut known = self.known.lock();
        let was_there = known.list.get(name).is_some();
        if was_there || known.log.is_none() {
            self.write(&mut known, &Change::Withdrawn { name: name.clone() }, None)?;
            known.list.remove(name);
        }
        Ok(was_there)
    }
    /// Drops a copy; false if something else has its name by now.
    pub(crate) fn forget_copy(&self, name: &Name, copy: Copy) -> Result<bool, ApiError> {
        let mut known = self.known.lock();
        let is_it = known.list.get(name).is_some_and(|of| of.copy == Some(copy));
        if is_it {
            self.write(&mut known, &Change::Withdrawn { name: name.clone() }, None)?;
            known.list.remove(name);
        }
        Ok(is_it)
    }
    /// The publications whose changes are published.
    pub(crate) fn watched(&self) -> Vec<Publication> {
        self.known.lock().list.by_number.values().filter(|of| of.is_watched).cloned().collect()
    }

    /// Writes a change of one name: it is published as `now`, or withdrawn.
    fn write(&self, known: &mut Known, change: &Change, now: Option<&Publication>) -> Result<(), ApiError> {
        let line = change.line();
        let written = match known.log.take() {
            Some(log) if log.lines <= 2 * known.list.by_number.len() + OUTDATED_MAX => log.append(&line),
            _ => {
                let name = change.name();
                let others = known.list.by_number.values().filter(|of| of.name != *name);
                self.rewrite(others.chain(now))
            }
        };
        known.log = Some(written.map_err(|error| ApiError::io("write", self.path().display(), &error))?);
        Ok(())
    }
    /// Replaces the file.
    fn rewrite<'a>(&self, publications: impl Iterator<Item = &'a Publication>) -> io::Result<Log> {
        let lines: Vec<Vec<u8>> = publications.map(|of| Change::Published(of.clone()).line()).collect();
        let text = [HEADER, &lines.concat()].concat();
        fs::replace(&*self.fs, &self.path(), &[&text])?;
        match self.fs.remove_file(&self.state_dir.join(FORMER)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = self.fs.open(&self.path(), OpenOptions::WRITE)?;
        Ok(Log { file, bytes: text.len() as u64, lines: lines.len() })
    }
    fn path(&self) -> PathBuf {
        self.state_dir.join(FILE)
    }
}

/// What the folder of a state remembers.
fn read(fs: &dyn FileSystem, state_dir: &Path) -> Result<List, ApiError> {
    let stored = StateFile::new(fs, state_dir, FILE, HINT);
    let mut list = List::default();
    let Some(bytes) = stored.bytes()? else {
        let former = StateFile::new(fs, state_dir, FORMER, HINT);
        former.read::<Vec<Publication>>()?.into_iter().for_each(|publication| list.insert(publication));
        return Ok(list);
    };
    let changes = bytes.strip_prefix(HEADER).ok_or_else(|| stored.unreadable("it does not begin as it should"))?;
    let mut lines = changes.split_inclusive(|byte| *byte == b'\n').zip(2..).peekable();
    while let Some((line, number)) = lines.next() {
        // The last line may be incomplete: it was never acknowledged then. A disk may have kept its end without its
        // start.
        if lines.peek().is_none() && (!line.ends_with(b"\n") || line.contains(&0)) {
            break;
        }
        let change = serde_json::from_slice(line);
        match change.map_err(|error| stored.unreadable(&format!("line {number}: {error}")))? {
            Change::Published(publication) => list.insert(publication),
            Change::Withdrawn { name } => list.remove(&name),
        }
    }
    Ok(list)
}

impl List {
    fn get(&self, name: &Name) -> Option<&Publication> {
        self.by_number.get(self.numbers.get(name)?)
    }
    fn insert(&mut self, publication: Publication) {
        self.remove(&publication.name);
        self.next += 1;
        self.numbers.insert(publication.name.clone(), self.next);
        self.by_number.insert(self.next, publication);
    }
    fn remove(&mut self, name: &Name) {
        if let Some(number) = self.numbers.remove(name) {
            self.by_number.remove(&number);
        }
    }
}
impl Log {
    /// Writes at its end and waits for the disk.
    fn append(mut self, line: &[u8]) -> io::Result<Log> {
        self.file.write_all_at(line, self.bytes)?;
        self.file.sync_data()?;
        self.bytes += line.len() as u64;
        self.lines += 1;
        Ok(self)
    }
}
impl Change {
    fn name(&self) -> &Name {
        match self {
            Change::Published(Publication { name, .. }) | Change::Withdrawn { name } => name,
        }
    }
    fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("texts can always be written");
        line.push(b'\n');
        line
    }
}
mod name_serde {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use tributary_content::Name;

    pub(super) fn serialize<S: Serializer>(name: &Name, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(name)
    }
    // One that was left out would be forgotten with the next change.
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|error| D::Error::custom(format!("'{text}': {error}")))
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
        let first = Publication { name: name.clone(), path: "/x".into(), ..Publication::default() };
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

    #[test]
    fn a_change_costs_a_line_and_outdated_lines_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let of = |number: u64| Publication {
            name: format!("/{}", number % 100).parse().unwrap(),
            path: "/x".into(),
            version: Some(number),
            ..Publication::default()
        };
        let publications = Publications::open(folder.path()).unwrap();
        let bytes = || std::fs::metadata(folder.path().join(FILE)).unwrap().len();
        (0..100).for_each(|number| publications.remember(of(number)).unwrap());
        let before = bytes();
        publications.remember(of(100)).unwrap();
        assert!(bytes() - before < 100);
        (101..3_000).for_each(|number| publications.remember(of(number)).unwrap());
        assert!(bytes() < 100 * (100 + 2 * 100 + OUTDATED_MAX as u64), "{}", bytes());
        let again = Publications::open(folder.path()).unwrap();
        assert_eq!(again.list(), (2_900..3_000).map(of).collect::<Vec<_>>());
    }

    #[test]
    fn the_file_of_earlier_versions_is_read_until_something_changes() {
        let folder = tempfile::tempdir().unwrap();
        let former = folder.path().join(FORMER);
        std::fs::write(&former, r#"[{"name":"/a","path":"/x","version":3},{"name":"/b","path":"/y","version":null}]"#)
            .unwrap();
        let publications = Publications::open(folder.path()).unwrap();
        assert_eq!(publications.list().len(), 2);
        publications.forget(&"/a".parse().unwrap()).unwrap();
        assert!(!former.exists());
        assert_eq!(Publications::open(folder.path()).unwrap().list()[0].path, Path::new("/y"));
    }

    /// The list matches the last acknowledged change, or an attempt since then that failed.
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
                            let new = Publication { name, path: "/x".into(), version, ..Publication::default() };
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
        let first = Publication { name: "/a".parse().unwrap(), path: "/x".into(), ..Publication::default() };
        publications.remember(first.clone()).unwrap();
        let publications = Publications::open(folder.path()).unwrap();
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
        let line = "{\"published\":{\"name\":\"NAME\",\"path\":\"/x\",\"version\":null}}\n";
        let header = std::str::from_utf8(HEADER).unwrap();
        for (text, notices) in [
            ("", "does not begin"),
            (&line.replace("NAME", "/a"), "does not begin"),
            (&format!("{header}no\n{line}"), "line 2: expected"),
            (&format!("{header}{}", line.replace("NAME", "lab")), "'lab': "),
        ] {
            std::fs::write(folder.path().join(FILE), text).unwrap();
            let error = Publications::open(folder.path()).unwrap_err().to_string();
            assert!(error.contains(notices) && error.contains("move it away"), "{error}");
        }
    }
}

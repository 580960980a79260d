//! Names of objects as names of files.
use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::fd::OwnedFd,
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, fsync, mkdirat, openat, statat},
    io::Errno,
};
use tributary_content::{Name, ObjectKind, StoreError};
use tributary_core::printable;
use tributary_net::{disk::is_reserved, platform::open_folder_beneath};

/// The NDN type of ordinary components.
const GENERIC: u16 = 8;
/// Linux's maximum, with space for a number at the end.
const FILE_NAME_BYTES_MAX: usize = 240;

/// The path of an object's name: its file and the folders above it. No two names have the same path, and no path leads
/// out of the folder, hides a file, or is one of our own files.
pub(super) fn file_names(name: &Name) -> Result<Vec<String>, &'static str> {
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
/// A component as a file name: characters that are illegal or have a meaning there become `%XX`.
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
        match is_hiding || is_dropped || is_special || printable::is_unsafe(character) {
            true => name.push_str(&hex(character.encode_utf8(&mut [0; 4]).as_bytes())),
            false => name.push(character),
        }
    }
    // No other name is empty, or has a % without digits behind it.
    if name.is_empty() { "%".into() } else { name }
}

/// The place of an object: a file or folder in an open folder. The handle stays the same folder if its name is
/// replaced.
#[derive(Debug)]
pub(super) struct Below {
    /// Its whole path.
    pub(super) path: PathBuf,
    /// The inbox, and the names of the folders that lead from it to the parent.
    inbox: OwnedFd,
    above: PathBuf,
    /// The folder that it is in.
    parent: OwnedFd,
}
impl Below {
    /// Opens it for reading and writing, and creates it if missing; never the target of a link.
    pub(super) fn open(&self) -> io::Result<File> {
        let name = self.path.file_name().unwrap_or_default();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.parent, name, flags, Mode::from_raw_mode(0o666))?))
    }
    /// Sees that the path still leads to the folder that was opened, beneath the inbox and over no link.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let there = open_folder(&self.inbox, &self.above).and_then(fstat);
        let is_same =
            |there: Stat| fstat(&self.parent).is_ok_and(|own| (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino));
        if there.is_ok_and(is_same) {
            return Ok(());
        }
        let reason = "the folder that it is in was moved or replaced while it was received".into();
        Err(StoreError::Io { operation: "write", path: self.path.display().to_string(), reason })
    }
}

/// Opens a folder beneath `folder`, over no link on the way: with one call if the system has it, else step by step.
fn open_folder(folder: &OwnedFd, below: &Path) -> rustix::io::Result<OwnedFd> {
    if below.as_os_str().is_empty() {
        return folder.try_clone().map_err(|_| Errno::MFILE);
    }
    open_folder_beneath(folder, below, FOLDER).unwrap_or_else(|| open_folder_in_steps(folder, below))
}
fn open_folder_in_steps(folder: &OwnedFd, below: &Path) -> rustix::io::Result<OwnedFd> {
    let mut at = folder.try_clone().map_err(|_| Errno::MFILE)?;
    for step in below.components() {
        // A name of ours is never `..`, and `/` would lead anywhere.
        let Component::Normal(name) = step else { return Err(Errno::XDEV) };
        at = openat(&at, name, FOLDER, Mode::empty())?;
    }
    Ok(at)
}
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The place of an object; creates the folders on the way. A name may be an object's and also a prefix of others: the
/// later one gets a `~` after that part of its name. Links are not followed: anyone with write access here could
/// redirect them anywhere.
pub(super) fn place_below(folder: &Path, names: &[String], kind: ObjectKind) -> Result<Below, StoreError> {
    let inbox = File::open(folder).map(OwnedFd::from).map_err(|error| refused(folder, &error))?;
    let (mut path, mut above) = (folder.to_path_buf(), PathBuf::new());
    let mut parent = inbox.try_clone().map_err(|error| refused(folder, &error))?;
    let last = names.len() - 1;
    for (depth, name) in names.iter().enumerate() {
        debug_assert!(!is_reserved(name.as_bytes()), "a dot at the start is escaped");
        let wants_folder = depth < last || kind == ObjectKind::Directory;
        let mut chosen = None;
        for candidate in [name.clone(), format!("{name}~")] {
            let whole = path.join(OsStr::new(&candidate));
            match statat(&parent, &candidate, AtFlags::SYMLINK_NOFOLLOW)
                .map(|there| FileType::from_raw_mode(there.st_mode))
            {
                Err(Errno::NOENT) => {}
                Err(error) => return Err(refused(&whole, &error.into())),
                Ok(FileType::Symlink) => {
                    let reason = "it is a link, and none is followed in the folder that is received into".into();
                    let path = whole.display().to_string();
                    return Err(StoreError::Io { operation: "write", path, reason });
                }
                Ok(there) if there.is_dir() != wants_folder => continue,
                Ok(_) => {}
            }
            chosen = Some(candidate);
            break;
        }
        let name = chosen.ok_or_else(|| StoreError::Io {
            operation: "write",
            path: path.join(name).display().to_string(),
            reason: "it is a file where a folder is needed, or the other way round, and so is that with a '~' behind"
                .into(),
        })?;
        path.push(&name);
        if depth < last {
            match mkdirat(&parent, &name, Mode::from_raw_mode(0o777)) {
                Err(Errno::EXIST) => {}
                Err(error) => return Err(refused(&path, &error.into())),
                // Its name must survive a loss of power, as its content does.
                Ok(()) => fsync(&parent).map_err(|error| refused(&path, &error.into()))?,
            }
            parent = open_folder(&parent, Path::new(&name)).map_err(|error| refused(&path, &error.into()))?;
            above.push(&name);
        }
    }
    Ok(Below { path, inbox, above, parent })
}

/// Waits until the names in a folder are on the disk.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
/// A store's error if the system refuses to write.
pub(super) fn refused(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Io { operation: "write", path: path.display().to_string(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

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
            // What would show a program as a text: a right-to-left override.
            ("/txt.%E2%80%AEexe", "txt.%E2%80%AEexe"),
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
            place_below(folder.path(), &names, kind)
                .map(|it| it.path.strip_prefix(folder.path()).unwrap().to_path_buf())
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
    fn a_folder_that_is_replaced_by_a_link_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let (inbox, outside) = (home.path().join("inbox"), home.path().join("outside"));
        fs::create_dir_all(&inbox).unwrap();
        fs::create_dir_all(&outside).unwrap();
        let names = ["cam".to_string(), "1".to_string()];
        let place = place_below(&inbox, &names, ObjectKind::File).unwrap();
        place.check().unwrap();
        fs::rename(inbox.join("cam"), inbox.join("was")).unwrap();
        std::os::unix::fs::symlink(&outside, inbox.join("cam")).unwrap();
        assert!(place.check().is_err());
        drop(place.open().unwrap());
        assert!(
            !outside.join("1").exists() && inbox.join("was/1").exists(),
            "the folder that was opened is written to"
        );
        assert!(place_below(&inbox, &names, ObjectKind::File).is_err());
        // The file itself is no link either.
        fs::remove_file(inbox.join("was/1")).unwrap();
        std::os::unix::fs::symlink(outside.join("x"), inbox.join("was/1")).unwrap();
        assert!(place.open().is_err());
    }

    #[test]
    fn a_kernel_without_openat2_follows_no_link_either() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        std::os::unix::fs::symlink("a", folder.path().join("link")).unwrap();
        let opened = OwnedFd::from(File::open(folder.path()).unwrap());
        for open in [open_folder, open_folder_in_steps] {
            assert!(open(&opened, Path::new("a/b")).is_ok());
            for path in ["link/b", "link", "../etc", "/etc", "a/../../etc"] {
                assert!(open(&opened, Path::new(path)).is_err(), "{path}");
            }
        }
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

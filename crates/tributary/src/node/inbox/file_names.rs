//! Names of objects as names of files.
use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};
use tributary_content::{Name, ObjectKind, StoreError};
use tributary_net::disk::is_reserved;

/// The NDN type of ordinary components.
const GENERIC: u16 = 8;
/// What Linux takes, with room for a number behind it.
const FILE_NAME_BYTES_MAX: usize = 240;

/// The names of the file and the folders that the name of an object stands for. No two names give the same, and none
/// leads elsewhere, hides a file, or is that of something of ours.
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
        match is_hiding || is_dropped || is_special || character.is_control() {
            true => name.push_str(&hex(character.encode_utf8(&mut [0; 4]).as_bytes())),
            false => name.push(character),
        }
    }
    // No other name is empty, or has a % without digits behind it.
    if name.is_empty() { "%".into() } else { name }
}

/// The path of an object; the folders on the way are created. A name may be both an object and a prefix of other names:
/// the later one gets a `~` behind that part of its name. Links are not followed: a user who can write here could lead
/// anywhere.
pub(super) fn path_below(folder: &Path, names: &[String], kind: ObjectKind) -> Result<PathBuf, StoreError> {
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
                // The folder's name has to survive a loss of power, as the files below it do.
                Ok(()) => sync_folder(path.parent().unwrap_or(folder)).map_err(|error| refused(&path, &error))?,
            }
        }
    }
    Ok(path)
}

/// Waits until the names in a folder are on the disk.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
/// What a store says if the system refuses to write.
pub(super) fn refused(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Io { operation: "write", path: path.display().to_string(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

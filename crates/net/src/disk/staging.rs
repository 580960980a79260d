//! The place of an unfinished download: next to its target, under a reserved name.
use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, MetadataExt},
    },
    path::{Path, PathBuf},
};
use tributary_content::{ObjectId, StoreError};

use super::{io_error, parent, refusal};

/// The folder of one unfinished download, in the folder of its target and thus on the same file system:
/// `.tributary-HASH`, readable by its owner only, with the files `part` and `state` and, for a moment at the end, the
/// file `opened` or the folder `unpacked`. Where a folder is updated in place, the file `update` and the folder
/// `changes` are in the one of its name, whichever object it is.
///
/// HASH covers the target's name and the user, so that the same fetch finds it again and two users of one folder do not
/// meet. Names with this prefix are reserved for this program: [`is_reserved`] refuses them in received folders. Other
/// files under such a name are left alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Staging {
    pub(super) folder: PathBuf,
}

impl Staging {
    /// The staging folder of a download to `target`; with `apart`, one for this object alone.
    pub(super) fn of(target: &Path, apart: Option<&ObjectId>) -> Staging {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&nix::unistd::geteuid().as_raw().to_be_bytes());
        hasher.update(target.file_name().unwrap_or_default().as_bytes());
        if let Some(object) = apart {
            // No name of a file has a slash in it.
            hasher.update(b"/").update(&object.0);
        }
        let hash = hasher.finalize().to_hex();
        Staging { folder: parent(target).join(format!("{PREFIX}{}", &hash[..HASH_DIGITS])) }
    }
    /// That in the folder `path`, if this user made it.
    pub(super) fn at(path: &Path) -> Option<Staging> {
        let is_named_so = path.file_name().is_some_and(|name| is_reserved(name.as_bytes()));
        let there = is_named_so.then(|| fs::symlink_metadata(path).ok()).flatten()?;
        let is_own = there.is_dir() && there.uid() == nix::unistd::geteuid().as_raw();
        is_own.then(|| Staging { folder: path.into() })
    }
    /// The bytes, each chunk at its offset.
    pub(super) fn part(&self) -> PathBuf {
        self.folder.join("part")
    }
    /// The table of the chunks that are held.
    pub(super) fn state(&self) -> PathBuf {
        self.folder.join("state")
    }
    /// A file whose presence means that bytes read here may not be on the disk, because a sync has failed.
    pub(super) fn suspect(&self) -> PathBuf {
        self.folder.join("unsynced")
    }
    /// The journal of a folder's update.
    pub(super) fn update(&self) -> PathBuf {
        self.folder.join("update")
    }
    /// Where entries of a folder are before and after their exchange.
    pub(super) fn changes(&self) -> PathBuf {
        self.folder.join("changes")
    }
    /// Where a directory is unpacked before it gets its final name.
    pub(super) fn unpacked(&self) -> PathBuf {
        self.folder.join("unpacked")
    }
    /// Where the bytes of a sealed object are opened before the object gets its final name.
    pub(super) fn opened(&self) -> PathBuf {
        self.folder.join("opened")
    }
    /// Makes the folder, or checks that the existing one can only have been made by this user.
    pub(super) fn make(&self) -> Result<(), StoreError> {
        let folder = &self.folder;
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map_err(|error| io_error("create", folder, &error)),
        }
        match fs::symlink_metadata(folder) {
            Ok(there) if there.is_dir() && there.uid() == nix::unistd::geteuid().as_raw() => Ok(()),
            Ok(_) => {
                let reason =
                    "its name is reserved for unfinished downloads, but another user has made it; move it away";
                Err(refusal("write", folder, reason))
            }
            // The process that had it has just ended.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.make(),
            Err(error) => Err(io_error("read", folder, &error)),
        }
    }
    /// Removes the folder if there is nothing in it.
    pub(super) fn remove(&self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Whether, on some file system, a file of this name would be in the place of an unfinished download.
pub fn is_reserved(name: &[u8]) -> bool {
    name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX.as_bytes()))
}

const PREFIX: &str = ".tributary-";
const HASH_DIGITS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::fixtures::directory;

    #[test]
    fn each_target_has_a_folder_of_its_own_beside_it() {
        let of = |target: &str| Staging::of(Path::new(target), None).folder;
        assert_eq!(of("/a/x").parent(), Some(Path::new("/a")));
        assert_ne!(of("/a/x"), of("/a/y"));
        assert_eq!(of("/a/x").file_name(), of("/b/x").file_name());
        assert_eq!(of("x").parent(), Some(Path::new(".")));
        let apart = Staging::of(Path::new("/a/x"), Some(&ObjectId([1; 16])));
        assert_ne!(apart.folder, of("/a/x"));
        assert!(is_reserved(of("/a/x").file_name().expect("it has a name").as_bytes()));
        assert!(is_reserved(b".TRIBUTARY-x") && !is_reserved(b".tributary") && !is_reserved(b"x.tributary-"));
    }

    #[test]
    fn what_somebody_else_put_there_is_left_alone() {
        let directory = directory();
        let staging = Staging::of(&directory.path().join("x"), None);
        fs::write(&staging.folder, b"mine").expect("writable");
        assert!(staging.make().is_err_and(|error| error.to_string().contains("move it away")));
        fs::remove_file(&staging.folder).expect("removable");
        std::os::unix::fs::symlink("/tmp", &staging.folder).expect("links can be made");
        assert!(staging.make().is_err());
        staging.remove();
        assert!(fs::symlink_metadata(&staging.folder).is_ok());
        fs::remove_file(&staging.folder).expect("removable");
        staging.make().expect("the name is free");
        staging.make().expect("it is ours");
        fs::write(staging.folder.join("note"), b"mine").expect("writable");
        staging.remove();
        assert!(staging.folder.join("note").exists());
    }
}

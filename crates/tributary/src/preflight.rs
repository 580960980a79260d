//! Checks of the disk before a request reaches a node.
use std::{
    fs,
    path::{Path, PathBuf},
};
use tributary_content::Name;
use tributary_net::disk::{self, part::TARGET_NAME_BYTES_MAX};

use crate::error::{ApiError, ErrorKind};

/// Refuses to write `bytes` bytes to the file at `path` and its temporary folder if the disk lacks the space.
///
/// # Errors
/// [`ApiError`] with the space that is needed and left.
pub fn check_room(path: &Path, bytes: u64) -> Result<(), ApiError> {
    Ok(disk::check_room(path, bytes)?)
}
/// The path from the root, whether or not there is something.
///
/// # Errors
/// [`ApiError`] if it is empty, or the working folder is gone.
pub fn absolute(path: &Path) -> Result<PathBuf, ApiError> {
    std::path::absolute(path).map_err(|error| ApiError::io("find", path.display(), &error))
}
/// Refuses a request whose file or folder does not exist.
pub(crate) fn must_be_there(path: &Path) -> Result<(), ApiError> {
    fs::metadata(path).map(drop).map_err(|error| ApiError::io("read", path.display(), &error))
}
/// Whether a target names a folder by a slash at its end.
pub fn is_folder_name(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}
/// The last part of a name as a file name, if it is a legal one.
///
/// # Errors
/// [`ApiError`] if it would lead elsewhere, or cannot be shown or typed.
pub fn file_name(name: &Name) -> Result<PathBuf, ApiError> {
    let last = name.components().last().and_then(|last| std::str::from_utf8(last).ok()).unwrap_or_default();
    let is_fit = !["", ".", ".."].contains(&last)
        && !last.contains('/')
        && !last.contains(char::is_control)
        && !last.starts_with('-');
    if is_fit {
        return Ok(last.into());
    }
    let message = format!("the last part of '{name}' cannot be a file's name");
    Err(ApiError::usage(message).with_hint("say where to write it with -o FILE"))
}
/// The file `file` in `path` if that is a folder or ends with a slash, which makes it one; else `path`.
///
/// # Errors
/// [`ApiError`] if the folder cannot be made.
pub fn into(path: &Path, file: &Path) -> Result<PathBuf, ApiError> {
    if is_folder_name(path) {
        fs::create_dir_all(path).map_err(|error| ApiError::io("create", path.display(), &error))?;
    }
    Ok(if path.is_dir() { path.join(file) } else { path.into() })
}
/// Refuses to fetch `name` to a target that cannot be written. The node makes a folder that a slash names.
pub(crate) fn must_take(path: &Path, name: &str) -> Result<(), ApiError> {
    match name.parse::<Name>() {
        Ok(name) if is_folder_name(path) => must_be_short(&path.join(file_name(&name)?)),
        Ok(_) | Err(_) => must_be_writable(path),
    }
}
fn must_be_short(path: &Path) -> Result<(), ApiError> {
    let name_bytes = path.file_name().map_or(0, |name| name.len());
    if name_bytes <= TARGET_NAME_BYTES_MAX {
        return Ok(());
    }
    let message = format!("cannot write '{}': the last part has {name_bytes} bytes", path.display());
    let hint = format!("choose another target with -o, whose last part has at most {TARGET_NAME_BYTES_MAX} bytes");
    Err(ApiError::new(ErrorKind::Io, message).with_hint(hint))
}
/// Refuses a target that cannot be written.
pub(crate) fn must_be_writable(path: &Path) -> Result<(), ApiError> {
    must_be_short(path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match fs::metadata(folder) {
        Ok(metadata) if !metadata.is_dir() => {
            let message = format!("cannot write '{}': '{}' is no folder", path.display(), folder.display());
            Err(ApiError::new(ErrorKind::Io, message))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(ApiError::io("write to the folder", folder.display(), &error)
            .with_hint("make the folder first, or choose another target with -o")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_a_name_is_the_file_unless_it_would_lead_elsewhere() {
        assert_eq!(file_name(&"/lab/debian.iso".parse().unwrap()).unwrap(), Path::new("debian.iso"));
        for name in ["/", "/a/%2E%2E%2Fb", "/a/.....", "/a/....", "/a/%00", "/a/%1B", "/a/-rf", "/a/%FF"] {
            assert!(file_name(&name.parse().unwrap()).is_err(), "{name}");
        }
    }
}

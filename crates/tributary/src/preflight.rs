//! Checks of the disk before a request reaches a node.
use std::{fs, path::Path};
use tributary_net::disk::{self, part::TARGET_NAME_BYTES_MAX};

use crate::error::{ApiError, ErrorKind};

/// Refuses to write `bytes` bytes to the file at `path` and its temporary folder if the disk lacks the space.
///
/// # Errors
/// [`ApiError`] with the space that is needed and left.
pub fn check_room(path: &Path, bytes: u64) -> Result<(), ApiError> {
    Ok(disk::check_room(path, bytes)?)
}
/// Refuses a request whose file or folder does not exist.
pub(crate) fn must_be_there(path: &Path) -> Result<(), ApiError> {
    fs::metadata(path).map(drop).map_err(|error| ApiError::io("read", path.display(), &error))
}
/// Refuses a request whose target cannot be written.
pub(crate) fn must_be_writable(path: &Path) -> Result<(), ApiError> {
    let name_bytes = path.file_name().map_or(0, |name| name.len());
    if name_bytes > TARGET_NAME_BYTES_MAX {
        let message = format!("cannot write '{}': the last part has {name_bytes} bytes", path.display());
        let hint = format!("choose another target with -o, whose last part has at most {TARGET_NAME_BYTES_MAX} bytes");
        return Err(ApiError::new(ErrorKind::Io, message).with_hint(hint));
    }
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

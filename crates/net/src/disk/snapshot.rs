//! Files of unknown size, such as those that the system generates on reading (`/proc`, `/sys`).
use bytes::Bytes;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};
use tributary_core::ByteCount;

use super::{PublishError, io_error};

/// Largest file of unknown size, which is read as a whole: 16 MiB.
pub(super) const SNAPSHOT_BYTES_MAX: u64 = 16 << 20;
/// Files that the system makes report a size of one page or nothing; larger sizes are reliable.
const BELIEVED_BYTES: u64 = 64 << 10;

/// Opens a file for reading; an open that would block returns an error instead.
pub(super) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits()).open(path)
}
/// All bytes of a file, if their number differs from its reported size.
///
/// # Errors
/// [`PublishError`] if it cannot be read, or has no end within [`SNAPSHOT_BYTES_MAX`].
pub(super) fn snapshot(file: &File, path: &Path, metadata: &fs::Metadata) -> Result<Option<Bytes>, PublishError> {
    if metadata.blocks() > 0 || metadata.len() > BELIEVED_BYTES {
        return Ok(None);
    }
    let unsuitable = |reason: String| PublishError::Unsuitable { path: path.display().to_string(), reason };
    let mut bytes = Vec::new();
    match file.take(SNAPSHOT_BYTES_MAX + 1).read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Err(unsuitable("reading it would wait for an event; write its data to a file first".into()));
        }
        Err(error) => return Err(io_error("read", path, &error).into()),
    }
    let have = bytes.len() as u64;
    if have > SNAPSHOT_BYTES_MAX {
        let (says, most) = (ByteCount(metadata.len()), ByteCount(SNAPSHOT_BYTES_MAX));
        return Err(unsuitable(format!("it reports {says} and holds more than {most}; copy it to a file first")));
    }
    Ok((have != metadata.len()).then(|| bytes.into()))
}

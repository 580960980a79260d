//! From the bytes of a directory object to a directory.
use std::{
    ffi::OsStr,
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    },
    path::Path,
};
use tributary_content::StoreError;

use super::{
    index::{DirectoryIndex, EntryKind, FileMode},
    io_error, refusal,
};

/// Makes the directory `into`, which must not exist, of the `size` verified bytes of `packed`.
///
/// Everything in it is made anew: directories first, then files, links last, so nothing is ever written through a
/// link; what the index may say is checked by [`DirectoryIndex::decode`].
pub(super) fn unpack(packed: &mut File, packed_path: &Path, size: u64, into: &Path) -> Result<(), StoreError> {
    let index = read_index(packed, packed_path)?;
    let start = index.encode().len() as u64;
    if start.checked_add(index.content_bytes()) != Some(size) {
        return Err(refusal("unpack", packed_path, "the sizes in its index do not add up to its own"));
    }
    packed.seek(SeekFrom::Start(start)).map_err(|error| io_error("read", packed_path, &error))?;
    make_directory(into)?;
    let mut links = Vec::new();
    for entry in index.entries() {
        let path = into.join(OsStr::from_bytes(&entry.path));
        match &entry.kind {
            EntryKind::Directory => make_directory(&path)?,
            EntryKind::File { size, mode } => {
                let mode = match mode {
                    FileMode::Plain => 0o666,
                    FileMode::Executable => 0o777,
                };
                let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
                let mut file = file.map_err(|error| io_error("create", &path, &error))?;
                let copied = io::copy(&mut packed.by_ref().take(*size), &mut file);
                if copied.map_err(|error| io_error("write", &path, &error))? != *size {
                    return Err(refusal("unpack", packed_path, "it ends too early"));
                }
            }
            EntryKind::Link { target } => links.push((target, path)),
        }
    }
    for (target, path) in links {
        std::os::unix::fs::symlink(OsStr::from_bytes(target), &path)
            .map_err(|error| io_error("create link", &path, &error))?;
    }
    Ok(())
}

fn read_index(packed: &File, path: &Path) -> Result<DirectoryIndex, StoreError> {
    let read = |buffer: &mut [u8]| packed.read_exact_at(buffer, 0).map_err(|error| io_error("read", path, &error));
    let mut header = [0; DirectoryIndex::HEADER_BYTES];
    read(&mut header)?;
    let malformed = |error: super::index::IndexError| refusal("unpack", path, error.to_string());
    let mut bytes = vec![0; DirectoryIndex::encoded_len(&header).map_err(malformed)?];
    read(&mut bytes)?;
    DirectoryIndex::decode(&bytes).map_err(malformed)
}
fn make_directory(path: &Path) -> Result<(), StoreError> {
    DirBuilder::new().mode(0o777).create(path).map_err(|error| io_error("create", path, &error))
}

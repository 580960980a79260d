//! From the bytes of a directory object to a directory.
use std::{
    ffi::OsStr,
    fs::{DirBuilder, File, OpenOptions},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    },
    path::Path,
};
use tributary_content::{Access, Manifest, ObjectKind, StoreError};

use super::{
    index::{DirectoryIndex, EntryKind, FileMode},
    io_error, refusal,
    selection::Selected,
    sparse,
};

/// Makes the directory `into`, which must not exist, from `packed`, the verified bytes of `manifest`; with `selected`,
/// only these entries. Then `into` may become a single file.
///
/// Every entry is new: directories first, then files, links last, so nothing is ever written through a link;
/// [`DirectoryIndex::decode`] checks the index.
///
/// The umask decides who may read it, as far as the manifest and the index allow.
pub(super) fn unpack(
    packed: &File,
    packed_path: &Path,
    manifest: &Manifest,
    selected: Option<&Selected>,
    into: &Path,
) -> Result<(), StoreError> {
    let index = read_index(packed, packed_path)?;
    let index_bytes = index.encode().len() as u64;
    if index_bytes.checked_add(index.content_bytes()) != Some(manifest.plain_size()) {
        return Err(refusal("unpack", packed_path, "the sizes in its index do not add up to its own"));
    }
    let all = selected.is_none().then(|| Selected::all(&index, index_bytes, manifest.access));
    let selected = selected.or(all.as_ref()).expect("it is one or the other");
    if selected.kind == ObjectKind::Directory {
        make_directory(into, selected.access)?;
    }
    let mut links = Vec::new();
    for entry in &selected.entries {
        let path = match selected.kind {
            ObjectKind::Directory => into.join(OsStr::from_bytes(&entry.path)),
            ObjectKind::File => into.into(),
        };
        match &entry.kind {
            EntryKind::Directory { access } => make_directory(&path, *access)?,
            EntryKind::File { size, mode, access } => {
                let mode = match mode {
                    FileMode::Plain => 0o666,
                    FileMode::Executable => 0o777,
                } & access.mode_mask();
                let mode = if selected.kind == ObjectKind::File { mode & selected.access.mode_mask() } else { mode };
                let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
                let file = file.map_err(|error| not_created(&path, &error))?;
                sparse::copy(packed, entry.start, *size, &file).map_err(|error| io_error("write", &path, &error))?;
            }
            EntryKind::Link { target } => links.push((target, path)),
        }
    }
    for (target, path) in links {
        std::os::unix::fs::symlink(OsStr::from_bytes(target), &path).map_err(|error| not_created(&path, &error))?;
    }
    Ok(())
}

/// An index has no path twice, but a file system may take two paths for one.
fn not_created(path: &Path, error: &io::Error) -> StoreError {
    if error.kind() == io::ErrorKind::AlreadyExists {
        let reason = "this file system does not distinguish it from another name in the folder, such as one that \
            differs by case; fetch to another file system";
        return refusal("create", path, reason);
    }
    io_error("create", path, error)
}
fn read_index(packed: &File, path: &Path) -> Result<DirectoryIndex, StoreError> {
    let read = |buffer: &mut [u8]| packed.read_exact_at(buffer, 0).map_err(|error| io_error("read", path, &error));
    let mut header = [0; DirectoryIndex::HEADER_BYTES];
    read(&mut header)?;
    let malformed = |error: String| refusal("unpack", path, error);
    let mut bytes = vec![0; DirectoryIndex::encoded_len(&header).map_err(malformed)?];
    read(&mut bytes)?;
    DirectoryIndex::decode(&bytes).map_err(malformed)
}
fn make_directory(path: &Path, access: Access) -> Result<(), StoreError> {
    DirBuilder::new().mode(access.mode_mask()).create(path).map_err(|error| not_created(path, &error))
}

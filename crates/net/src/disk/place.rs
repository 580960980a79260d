//! The last step of a download: it gets its name, and replaces no file of another origin.
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};
use tributary_content::{Hash, HashTree, Manifest, ObjectKind, StoreError};

use super::{
    directory::DirectorySource,
    file::FileSource,
    io_error,
    part::{Existing, PartOptions},
    publish::{OpenSource, Record, Source, hash},
    refusal,
};

/// The present holder of the download's final name.
pub(super) enum There {
    /// Nothing.
    Nothing,
    /// Exactly the fetched object.
    Same,
    /// Something that may be replaced, with its state; a directory with its entries.
    Replaceable(Seen, Option<Box<DirectorySource>>),
    /// Something that stays, and why.
    Taken(&'static str),
}

/// How something was when it was decided that it may be replaced. A file's times of change are not in it: they change with
/// its name.
#[derive(PartialEq, Eq)]
pub(super) struct Seen {
    mode: u32,
    is_directory: bool,
    fingerprint: Hash,
}
impl Seen {
    fn at(path: &Path) -> Option<Seen> {
        let metadata = fs::symlink_metadata(path).ok()?;
        let fingerprint = match metadata.is_dir() {
            true => DirectorySource::open(path).ok()?.fingerprint(),
            false => metadata.is_file().then(|| placed_fingerprint(&metadata))?,
        };
        Some(Seen { mode: metadata.mode(), is_directory: metadata.is_dir(), fingerprint })
    }
}

/// The fingerprint by which a fetched file is recognised: renaming does not change it.
pub(super) fn placed_fingerprint(metadata: &fs::Metadata) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"placed");
    for number in [metadata.dev(), metadata.ino(), metadata.size()] {
        hasher.update(&number.to_be_bytes());
    }
    for number in [metadata.mtime(), metadata.mtime_nsec()] {
        hasher.update(&number.to_be_bytes());
    }
    Hash(*hasher.finalize().as_bytes())
}

/// The record of the download at `path` before it gets its name.
pub(super) fn record_of(
    path: &Path,
    manifest: &Manifest,
    tree: HashTree,
    options: &PartOptions,
) -> Result<Record, StoreError> {
    let fingerprint = match options.kind(manifest) {
        ObjectKind::File => {
            placed_fingerprint(&fs::symlink_metadata(path).map_err(|error| io_error("read", path, &error))?)
        }
        ObjectKind::Directory => {
            DirectorySource::open(path).map_err(|error| refusal("read", path, error.to_string()))?.fingerprint()
        }
    };
    Ok(Record { fingerprint, manifest: manifest.clone(), tree })
}

/// Refuses, before anything is fetched, a download that could not get its name in the end. `staged` may hold a killed
/// process's record of the placement.
pub(super) fn check(
    target: &Path,
    manifest: &Manifest,
    options: &PartOptions,
    staged: &Path,
) -> Result<There, StoreError> {
    match look(target, manifest, options, staged)? {
        There::Taken(reason) if !options.existing.numbers() => Err(refusal("write", target, reason)),
        there => Ok(there),
    }
}
/// The directory at `target` with all its entries, if it may be replaced.
pub(super) fn replaceable_directory(
    target: &Path,
    manifest: &Manifest,
    options: &PartOptions,
    staged: &Path,
) -> Result<Option<Box<DirectorySource>>, StoreError> {
    match look(target, manifest, options, staged)? {
        There::Replaceable(_, directory) => Ok(directory.filter(|directory| directory.is_complete())),
        There::Nothing | There::Same | There::Taken(_) => Ok(None),
    }
}
/// Moves the file at `from` to its final name: `wanted`, or the next number of it. Returns that name; the replaced
/// file, or the download itself where exactly that was there already, is at `from` then.
pub(super) fn place(
    from: &Path,
    wanted: &Path,
    manifest: &Manifest,
    options: &PartOptions,
) -> Result<PathBuf, StoreError> {
    let (mut target, kind) = (wanted.to_path_buf(), options.kind(manifest));
    for _ in 0..PLACE_TRIES {
        match look(&target, manifest, options, from)? {
            There::Nothing => match rename_to_new(from, &target, kind) {
                Ok(()) => return Ok(target),
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty) => {}
                Err(error) => return Err(io_error("rename to", &target, &error)),
            },
            There::Same => return Ok(target),
            There::Replaceable(seen, _) => {
                close_as(from, &target, &seen)?;
                if replace(from, &target, &seen)? {
                    return Ok(target);
                }
            }
            There::Taken(_) if options.existing.numbers() => target = next_number(wanted, kind),
            There::Taken(reason) => return Err(refusal("write", &target, reason)),
        }
    }
    Err(refusal("write", &target, "another process keeps writing to it"))
}

fn look(target: &Path, manifest: &Manifest, options: &PartOptions, staged: &Path) -> Result<There, StoreError> {
    let there = match fs::symlink_metadata(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return check_parent(target).map(|()| There::Nothing),
        Err(error) => return Err(io_error("write", target, &error)),
        Ok(there) => there,
    };
    let is_directory = match (&options.selection, options.part_kind) {
        // The kind of a part of a folder follows from its index.
        (Some(_), None) => there.is_dir(),
        _ => options.kind(manifest) == ObjectKind::Directory,
    };
    if there.is_dir() && !is_directory {
        return Ok(There::Taken("it is a directory; give the name of a file in it"));
    }
    if !there.is_dir() && !there.is_file() {
        let reason = "it is not a regular file; to write to a pipe or a device, fetch to '-' and redirect";
        return Ok(There::Taken(reason));
    }
    if there.is_file() && is_directory {
        return Ok(There::Taken("the object is a directory, and there is a file of that name"));
    }
    if !options.existing.replaces() {
        return Ok(There::Taken("it exists"));
    }
    let state_dir = options.state_dir.as_deref();
    let (own, left) = (Record::load(state_dir, target), Record::load(state_dir, staged));
    let remembered =
        Remembered { state_dir, own: usize::from(own.is_some()), records: own.into_iter().chain(left).collect() };
    // How it is now, before it is decided upon.
    let (now, verdict, directory) = match is_directory {
        false => {
            let (now, source) = (placed_fingerprint(&there), FileSource::open(target).ok());
            let known = source.map(|mut source| known(target, &mut source, (manifest, options), &remembered, now));
            (Some(now), known, None)
        }
        true => match DirectorySource::open(target).ok().map(Box::new) {
            Some(mut source) => {
                let now = source.fingerprint();
                let known = known(target, &mut *source, (manifest, options), &remembered, now);
                // Files in it that belong to no object are the user's.
                (Some(now), source.is_complete().then_some(known), Some(source))
            }
            None => (None, None, None),
        },
    };
    let verdict = match (verdict.unwrap_or(Known::Unrelated), &options.selection) {
        (verdict, None) => verdict,
        (Known::Same, Some(selection)) if selection.is_of_all() => Known::Same,
        (Known::Same | Known::Earlier, Some(selection)) => now.map_or(Known::Unrelated, |now| {
            known_part((target, staged), manifest, selection.fingerprint(&now), state_dir)
        }),
        (verdict, Some(_)) => verdict,
    };
    let replaceable = |directory| match now {
        Some(fingerprint) => There::Replaceable(Seen { mode: there.mode(), is_directory, fingerprint }, directory),
        None => There::Taken("it cannot be read"),
    };
    Ok(match verdict {
        Known::Same => There::Same,
        _ if options.existing == Existing::Anything => replaceable(directory),
        Known::Earlier => replaceable(directory),
        Known::OtherPart => There::Taken(
            "it exists, and has all or another part of the folder: replace it with --overwrite, or choose another place",
        ),
        Known::Changed => There::Taken(
            "it exists, and is not as it was when it was fetched: replace it with --overwrite, move it away, or choose another \
             place",
        ),
        Known::Unrelated => There::Taken(
            "it exists, and is no earlier version that was fetched to it under this name from this publisher: replace it with \
             --overwrite, move it away, or choose another place",
        ),
    })
}

/// What a file with the name is.
enum Known {
    /// It has exactly the bytes that are wanted.
    Same,
    /// A download to this place under the same name from the same publisher, unchanged since.
    Earlier,
    /// Such a download, of more or less of the folder than is wanted.
    OtherPart,
    /// Such a download, changed since.
    Changed,
    /// Something else.
    Unrelated,
}

/// The records of a place: first the completed download's, then the one that a killed process was about to write.
struct Remembered<'a> {
    state_dir: Option<&'a Path>,
    /// How many of the records are its own.
    own: usize,
    records: Vec<Record>,
}

/// How a placed, unchanged part of a folder relates to the object of `manifest`; `fingerprint` is its selection's.
fn known_part(
    (target, staged): (&Path, &Path),
    manifest: &Manifest,
    fingerprint: Hash,
    state_dir: Option<&Path>,
) -> Known {
    for path in [target, staged] {
        let Some(record) = Record::load(state_dir, &Record::part_at(path)) else { continue };
        let of = &record.manifest;
        if record.fingerprint != fingerprint || of.name != manifest.name || of.publisher != manifest.publisher {
            continue;
        }
        if path == staged {
            // A killed process has left it where the next one would write over it.
            record.save(state_dir, &Record::part_at(target));
        }
        let is_same = (of.root, of.chunk_size, of.size) == (manifest.root, manifest.chunk_size, manifest.size);
        return if is_same { Known::Same } else { Known::Earlier };
    }
    Known::OtherPart
}

fn known<S: Source>(
    path: &Path,
    source: &mut S,
    (manifest, options): (&Manifest, &PartOptions),
    remembered: &Remembered<'_>,
    now: Hash,
) -> Known {
    let has_bytes_of = |manifest: &Manifest, source: &mut S| {
        !manifest.is_unsigned()
            && source.size() == manifest.size
            && hash(path, source, manifest.chunk_size, None).is_ok_and(|(tree, _)| tree.root() == manifest.root)
    };
    // A sealed object may have been fetched to this place opened, or as it is.
    let wanted_bytes = if options.key_of(manifest).is_some() { manifest.plain_size() } else { manifest.size };
    let has_wanted_bytes = source.size() == wanted_bytes;
    let has_same_bytes = |record: &Record| {
        let of = &record.manifest;
        (of.root, of.chunk_size, of.size) == (manifest.root, manifest.chunk_size, manifest.size) && has_wanted_bytes
    };
    let is_earlier =
        |record: &&Record| record.manifest.name == manifest.name && record.manifest.publisher == manifest.publisher;
    let records = &remembered.records;
    if let Some(at) = records.iter().position(|record| record.fingerprint == now) {
        let record = &records[at];
        if at >= remembered.own {
            // A killed process has left it where the next one would write over it.
            record.save(remembered.state_dir, path);
        }
        // No byte needs reading.
        return match (has_same_bytes(record) && !manifest.is_unsigned(), is_earlier(&record)) {
            (true, _) => Known::Same,
            (false, true) => Known::Earlier,
            (false, false) => Known::Unrelated,
        };
    }
    if has_bytes_of(manifest, source) {
        return Known::Same;
    }
    let mut earlier = records.iter().filter(is_earlier).peekable();
    match (earlier.peek().is_some(), earlier.any(|record| has_bytes_of(&record.manifest, source))) {
        (_, true) => Known::Earlier,
        (true, false) => Known::Changed,
        (false, false) => Known::Unrelated,
    }
}

/// Restricts the file at `from` to the readers of the file that it replaces.
fn close_as(from: &Path, target: &Path, seen: &Seen) -> Result<(), StoreError> {
    let refused = |path: &Path, error: &io::Error| io_error("set the mode of", path, error);
    close(from, seen.mode).map_err(|error| refused(from, &error))?;
    if seen.is_directory {
        let source = DirectorySource::open(from).map_err(|error| refusal("read", from, error.to_string()))?;
        for entry in source.index.entries() {
            let path = Path::new(OsStr::from_bytes(&entry.path));
            let (new, old) = (from.join(path), fs::symlink_metadata(target.join(path)));
            let is_link = fs::symlink_metadata(&new).is_ok_and(|new| new.is_symlink());
            if let Some(old) = old.ok().filter(|old| !is_link && !old.is_symlink()) {
                close(&new, old.mode()).map_err(|error| refused(&new, &error))?;
            }
        }
    }
    Ok(())
}
/// Restricts a file or folder to those who may read one of the mode `old`.
pub(super) fn close(path: &Path, old: u32) -> io::Result<()> {
    let mode = fs::symlink_metadata(path)?.mode() & 0o777;
    let closed = mode & (old | 0o700);
    if closed == mode { Ok(()) } else { fs::set_permissions(path, fs::Permissions::from_mode(closed)) }
}

/// Renames to a name that must be free.
fn rename_to_new(from: &Path, target: &Path, kind: ObjectKind) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, target, RenameFlags::NOREPLACE) {
        // Some file systems cannot do that in one step.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {}
        renamed => return renamed.map_err(Into::into),
    }
    match kind {
        ObjectKind::File => match fs::hard_link(from, target) {
            Ok(()) => fs::remove_file(from),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            Err(_) => {
                drop(fs::OpenOptions::new().write(true).create_new(true).open(target)?);
                fs::rename(from, target)
            }
        },
        // A directory may take the place of an empty one, and of no other.
        ObjectKind::Directory => {
            fs::create_dir(target)?;
            fs::rename(from, target)
        }
    }
}
/// Exchanges the files at `from` and `target`, if the latter has not changed since it was seen; false if it has.
fn replace(from: &Path, target: &Path, seen: &Seen) -> Result<bool, StoreError> {
    let failed = |error: rustix::io::Errno| io_error("rename to", target, &error.into());
    match renameat_with(CWD, from, CWD, target, RenameFlags::EXCHANGE) {
        Ok(()) => {}
        Err(rustix::io::Errno::NOENT) => return Ok(false),
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
            return replace_in_steps(from, target, seen);
        }
        Err(error) => return Err(failed(error)),
    }
    if Seen::at(from).as_ref() == Some(seen) {
        return Ok(true);
    }
    // It was changed at the last moment.
    renameat_with(CWD, from, CWD, target, RenameFlags::EXCHANGE).map_err(failed)?;
    Ok(false)
}
/// The same where two names cannot be exchanged.
fn replace_in_steps(from: &Path, target: &Path, seen: &Seen) -> Result<bool, StoreError> {
    if Seen::at(target).as_ref() != Some(seen) {
        return Ok(false);
    }
    let failed = |error: io::Error| io_error("rename to", target, &error);
    if !seen.is_directory {
        return fs::rename(from, target).map(|()| true).map_err(failed);
    }
    let old = super::with_suffix(from, ".old");
    fs::rename(target, &old).map_err(failed)?;
    if let Err(error) = fs::rename(from, target) {
        fs::rename(&old, target).map_err(failed)?;
        return Err(failed(error));
    }
    fs::rename(&old, from).map_err(failed)?;
    Ok(true)
}

/// The first of `wanted~2`, `wanted~3`, … that is free; a suffix of a file's name stays at its end.
fn next_number(wanted: &Path, kind: ObjectKind) -> PathBuf {
    let is_free = |number: u64| fs::symlink_metadata(numbered(wanted, number, kind)).is_err();
    let (mut taken, mut free) = (1, 2);
    while !is_free(free) {
        (taken, free) = (free, free * 2);
    }
    while taken + 1 < free {
        let middle = taken.midpoint(free);
        if is_free(middle) { free = middle } else { taken = middle }
    }
    numbered(wanted, free, kind)
}
/// The name that the object of this number has among those that were to be called `wanted`; the first one has it as it is.
pub fn numbered(wanted: &Path, number: u64, kind: ObjectKind) -> PathBuf {
    if number <= 1 {
        return wanted.to_path_buf();
    }
    let (stem, extension) = parts(wanted, kind);
    let mut name = OsString::from(stem);
    name.push(format!("~{number}"));
    if let Some(extension) = extension {
        name.push(".");
        name.push(extension);
    }
    wanted.with_file_name(name)
}
/// The reverse of [`numbered`]; `None` if `placed` is no such name.
pub fn number_of(wanted: &Path, placed: &Path, kind: ObjectKind) -> Option<u64> {
    if placed == wanted {
        return Some(1);
    }
    let rest = placed.file_name()?.as_bytes().strip_prefix(parts(wanted, kind).0.as_bytes())?.strip_prefix(b"~")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    (numbered(wanted, number, kind) == placed).then_some(number)
}
/// The parts of a name before and behind a number.
fn parts(wanted: &Path, kind: ObjectKind) -> (&OsStr, Option<&OsStr>) {
    match kind {
        ObjectKind::File => (wanted.file_stem().unwrap_or_default(), wanted.extension()),
        ObjectKind::Directory => (wanted.file_name().unwrap_or_default(), None),
    }
}

fn check_parent(target: &Path) -> Result<(), StoreError> {
    let parent = super::parent(target);
    match fs::metadata(parent) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(refusal("write", target, format!("'{}' is not a directory", parent.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(refusal("write", target, format!("the directory '{}' does not exist", parent.display())))
        }
        Err(error) => Err(io_error("write", target, &error)),
    }
}

/// How often a step is tried when another program interferes.
const PLACE_TRIES: u32 = 100;

//! Updates the folder at the target to a new version: finds the differences, writes them, and records the result.
use std::{
    ffi::OsStr,
    fs::{self, Metadata, Permissions},
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    },
    path::Path,
};

use tributary_content::{Access, Hash, StoreError};

use super::{PartFile, exists, remove, remove_all};
use crate::disk::{
    directory::{DirectorySource, fingerprint_of, identity_of},
    fs::RealFileSystem,
    index::EntryKind,
    io_error, parent,
    pieces::Lent,
    place::{self, close, placed_fingerprint},
    publish::{OpenSource, Record, Source},
    selection::{Selected, SelectedEntry},
    staging::Staging,
    unpack::Packed,
    update::{Step, Update, is_interference, slot},
};

/// The differences between a new version and the present folder.
struct Differences<'a> {
    /// Entries to remove; those in a folder precede it.
    gone: Vec<&'a SelectedEntry>,
    /// New or changed entries, each with the one that it replaces.
    made: Vec<(&'a SelectedEntry, Option<&'a SelectedEntry>)>,
    /// All entries of the new version, and the identities of those that stay.
    all: Vec<(&'a [u8], Option<Hash>)>,
}

/// Steps, and what each replaces as it was seen.
type Steps = (Vec<Step>, Vec<Option<Hash>>);

impl PartFile {
    /// Replaces the changed entries of the folder at the target; false if the whole folder must be written.
    pub(super) fn update(&self, packed: &mut Packed) -> Result<bool, StoreError> {
        let staging = Staging::of(&self.target, None);
        let Some(_locked) = lock_folder(&self.target).filter(|_| self.options.selection.is_none()) else {
            return Ok(false);
        };
        // Another process may have been killed during its update since the last check.
        if exists(&staging.update()) {
            return Ok(false);
        }
        let updated = self.update_locked(packed, &staging);
        if !exists(&staging.update()) {
            remove_all(&staging.changes())?;
            staging.remove();
        }
        updated
    }
    fn update_locked(&self, packed: &mut Packed, staging: &Staging) -> Result<bool, StoreError> {
        let staged = self.staging.unpacked();
        let there = place::replaceable_directory(&self.target, &self.manifest, &self.options, &staged)?;
        let Some(mut there) = there else { return Ok(false) };
        let (index, index_bytes) = packed.index(&self.manifest)?;
        let new = Selected::all(&index, index_bytes, self.manifest.access);
        let old = Selected::all(&there.index, there.index_bytes(), Access::Everybody);
        let differences = differences(packed, &mut there, &old, &new)?;
        if !prepare_folders(&self.target, &old, &new)? {
            return Ok(false);
        }
        let slots = staging.changes();
        staging.make()?;
        remove_all(&slots)?;
        // Another process that ends its fetch may just have removed the folder around it.
        if fs::DirBuilder::new().mode(0o700).create(&slots).is_err() {
            return Ok(false);
        }
        let Some((steps, seen)) = self.write_steps(packed, &there, &differences, &slots)? else { return Ok(false) };
        let update = Update { fs: &*self.fs, target: &self.target, slots: &slots, steps };
        let (state_dir, journal) = (self.options.state_dir.as_deref(), staging.update());
        let failed = |error| io_error("update", &self.target, &error);
        let renamed = |number, _: &[u8]| Some(identity_if_renamed(&symlink_metadata(&update.slot(number)).ok()?));
        let Some(fingerprint) = differences.fingerprint(renamed) else { return Ok(false) };
        let (manifest, tree) = (self.manifest.clone(), self.complete_tree()?);
        let record = Record { fingerprint, manifest, tree };
        record.save(state_dir, &slots);
        update.save(&journal).map_err(failed)?;
        let done = update.go_on();
        let as_seen = |(number, seen): (usize, &Option<Hash>)| match seen {
            Some(seen) => is_as_seen(&update.slot(number), *seen),
            None => true,
        };
        let in_place =
            |_, path: &[u8]| Some(identity_of(&symlink_metadata(&self.target.join(OsStr::from_bytes(path))).ok()?));
        let fingerprint = match done.is_ok() && seen.iter().enumerate().all(as_seen) {
            true => differences.fingerprint(in_place),
            false => None,
        };
        match fingerprint {
            Some(fingerprint) => Record { fingerprint, ..record }.save(state_dir, &self.target),
            // It was changed at the last moment, or this file system cannot exchange names.
            None => update.undo().map_err(failed)?,
        }
        Record::forget(state_dir, &slots);
        update.end(&journal).map_err(failed)?;
        Ok(fingerprint.is_some())
    }
    /// Writes the new entries to the disk, under the numbers of their steps; `None` if the folder has changed. Returns
    /// each step with the identity of the entry that it replaces.
    fn write_steps(
        &self,
        packed: &mut Packed,
        there: &DirectorySource,
        differences: &Differences<'_>,
        slots: &Path,
    ) -> Result<Option<Steps>, StoreError> {
        let (mut steps, mut seen) = (Vec::new(), Vec::new());
        let gone = differences.gone.iter().map(|old| (None, Some(*old)));
        let made = differences.made.iter().map(|(new, old)| (Some(*new), *old));
        for (number, (new, old)) in gone.chain(made).enumerate() {
            let path = new.or(old).map(|entry| entry.path.clone()).unwrap_or_default();
            let mut step = Step { path, old: 0, new: 0 };
            let mut replaced = None;
            if old.is_some() {
                let at = self.target.join(OsStr::from_bytes(&step.path));
                let now = symlink_metadata(&at).ok().filter(|now| there.is_as_opened(&step.path, now));
                let Some(now) = now else { return Ok(None) };
                step.old = now.ino();
                replaced = Some(now);
            }
            if let Some(new) = new {
                let slot = slot(slots, number);
                packed.make(&new.kind, new.start, &slot)?;
                if let (Some(old), false) = (&replaced, matches!(new.kind, EntryKind::Link { .. }))
                    && !old.is_symlink()
                {
                    close(&slot, old.mode()).map_err(|error| io_error("set the mode of", &slot, &error))?;
                }
                step.new = symlink_metadata(&slot).map_err(|error| io_error("read", &slot, &error))?.ino();
            }
            seen.push(replaced.as_ref().map(identity_if_renamed));
            steps.push(step);
        }
        self.sync_slots(slots, steps.len())?;
        Ok(Some((steps, seen)))
    }
    /// Waits until the new entries are on the disk: they replace bytes that a power cut would have left.
    fn sync_slots(&self, slots: &Path, count: usize) -> Result<(), StoreError> {
        let failed = |path: &Path, error: &std::io::Error| io_error("write to disk", path, error);
        if count > SYNCED_ONE_BY_ONE {
            nix::unistd::sync();
        } else {
            for path in (0..count).map(|number| slot(slots, number)) {
                if symlink_metadata(&path).is_ok_and(|there| there.is_file()) {
                    let synced = fs::File::open(&path).and_then(|file| file.sync_all());
                    synced.map_err(|error| failed(&path, &error))?;
                }
            }
        }
        for folder in [slots, parent(&self.target)] {
            self.fs.sync_folder(folder).map_err(|error| failed(folder, &error))?;
        }
        Ok(())
    }
}

/// Ends an update of the folder `target` that a kill or a power cut has interrupted. If the folder was changed since, the
/// update is undone.
pub(super) fn end_update(target: &Path, state_dir: Option<&Path>) -> Result<(), StoreError> {
    let staging = Staging::of(target, None);
    let (journal, slots) = (staging.update(), staging.changes());
    if !exists(&slots) {
        return Ok(());
    }
    // Its process may have ended it when the folder is free.
    let locked = lock_folder(target);
    let failed = |error| io_error("update", target, &error);
    if locked.is_some()
        && exists(&journal)
        && let Some(update) = Update::load(&RealFileSystem, &journal, (target, &slots)).map_err(failed)?
    {
        match update.go_on() {
            Ok(()) => remember(target, &slots, &update.steps, state_dir),
            Err(error) if is_interference(&error) => {
                tracing::warn!("'{}' has changed since its update was interrupted: undoing it", target.display());
                update.undo().map_err(failed)?;
            }
            Err(error) => return Err(failed(error)),
        }
        update.end(&journal).map_err(failed)?;
    }
    Record::forget(state_dir, &slots);
    remove(&journal)?;
    remove_all(&slots)?;
    staging.remove();
    Ok(())
}
/// Waits until no other process updates the folder; `None` if there is no folder.
fn lock_folder(folder: &Path) -> Option<fs::File> {
    let options =
        fs::OpenOptions::new().read(true).custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_DIRECTORY).open(folder);
    let folder = options.ok()?;
    // Where there are no locks, two updates at once may hinder each other; then a complete copy is made.
    let _ = folder.lock();
    Some(folder)
}
/// Saves the record of the new version, if the folder is exactly as the update has left it.
fn remember(target: &Path, slots: &Path, steps: &[Step], state_dir: Option<&Path>) {
    let Some(record) = Record::load(state_dir, slots) else { return };
    let Ok(there) = DirectorySource::open(target) else { return };
    let made: std::collections::BTreeSet<&[u8]> = steps.iter().map(|step| &step.path[..]).collect();
    let renamed = there.identities().map(|(entry, identity)| {
        let now = || symlink_metadata(&target.join(OsStr::from_bytes(&entry.path))).ok();
        let identity = match made.contains(&entry.path[..]) {
            true => now().as_ref().map_or(*identity, identity_if_renamed),
            false => *identity,
        };
        (&entry.path, identity)
    });
    let renamed: Vec<_> = renamed.collect();
    if fingerprint_of(renamed.iter().map(|(path, identity)| (&path[..], identity))) == record.fingerprint {
        Record { fingerprint: there.fingerprint(), ..record }.save(state_dir, target);
    }
}

impl Differences<'_> {
    /// The fingerprint of the new version. `made` gives the identity of a new entry by the number of its step and its
    /// path.
    fn fingerprint(&self, made: impl Fn(usize, &[u8]) -> Option<Hash>) -> Option<Hash> {
        let mut steps = self.gone.len()..;
        let identities = self.all.iter().map(|(path, identity)| identity.or_else(|| made(steps.next()?, path)));
        let identities = identities.collect::<Option<Vec<_>>>()?;
        Some(fingerprint_of(self.all.iter().zip(&identities).map(|((path, _), identity)| (*path, identity))))
    }
}

fn differences<'a>(
    packed: &mut Packed,
    there: &mut DirectorySource,
    old: &'a Selected,
    new: &'a Selected,
) -> Result<Differences<'a>, StoreError> {
    let (mut gone, mut made, mut all) = (Vec::new(), Vec::new(), Vec::new());
    let identities: Vec<Hash> = there.identities().map(|(_, identity)| *identity).collect();
    let mut olds = old.entries.iter().zip(&identities).peekable();
    let is_folder = |entry: &SelectedEntry| matches!(entry.kind, EntryKind::Directory { .. });
    for entry in &new.entries {
        while let Some((removed, _)) = olds.next_if(|(old, _)| old.path < entry.path) {
            gone.push(removed);
        }
        let was = olds.next_if(|(old, _)| old.path == entry.path);
        let identity = match was {
            Some((was, identity)) if is_same(packed, there, was, entry)? => Some(*identity),
            Some((was, _)) if is_folder(was) == is_folder(entry) => {
                made.push((entry, Some(was)));
                None
            }
            other => {
                gone.extend(other.map(|(was, _)| was));
                made.push((entry, None));
                None
            }
        };
        all.push((&entry.path[..], identity));
    }
    gone.extend(olds.map(|(old, _)| old));
    gone.reverse();
    Ok(Differences { gone, made, all })
}
/// Whether an entry can stay as it is. A file that fewer may read than its publisher says stays so.
fn is_same(
    packed: &mut Packed,
    there: &mut DirectorySource,
    old: &SelectedEntry,
    new: &SelectedEntry,
) -> Result<bool, StoreError> {
    match (&old.kind, &new.kind) {
        (
            EntryKind::File { size, mode, access },
            EntryKind::File { size: new_size, mode: new_mode, access: new_access },
        ) if (size, mode) == (new_size, new_mode) && access >= new_access => {
            let place = new.start..new.start + size;
            let is_there = |lent: &Lent| lent.lies_at(&place, old.start, &there.fingerprint());
            Ok(packed.lent.as_ref().is_some_and(is_there)
                || has_same_bytes(packed, there, (old.start, new.start), *size)?)
        }
        (EntryKind::Directory { .. }, EntryKind::Directory { .. }) => Ok(true),
        (EntryKind::Link { target: old }, EntryKind::Link { target: new }) => Ok(old == new),
        _ => Ok(false),
    }
}
fn has_same_bytes(
    packed: &mut Packed,
    there: &mut DirectorySource,
    (old, new): (u64, u64),
    size: u64,
) -> Result<bool, StoreError> {
    let mut buffers = [0, 1].map(|_| vec![0; usize::try_from(size.min(COMPARED_BYTES)).unwrap_or(0)]);
    let mut at = 0;
    while at < size {
        let length = usize::try_from((size - at).min(COMPARED_BYTES)).unwrap_or(0);
        let [theirs, ours] = buffers.each_mut().map(|buffer| &mut buffer[..length]);
        packed.read_at(new + at, theirs)?;
        if there.read_at(old + at, ours).is_err() || theirs != ours {
            return Ok(false);
        }
        at += length as u64;
    }
    Ok(true)
}
/// Makes folders that stay, or that lose entries, writable for their owner, and no more readable than the new version
/// is; false if others may write to one, and could lead a rename elsewhere by a link.
fn prepare_folders(target: &Path, old: &Selected, new: &Selected) -> Result<bool, StoreError> {
    let access_of = |path: &[u8]| {
        let at = new.entries.binary_search_by(|entry| entry.path[..].cmp(path)).ok()?;
        match new.entries[at].kind {
            EntryKind::Directory { access } => Some(access),
            EntryKind::File { .. } | EntryKind::Link { .. } => None,
        }
    };
    let folders = old.entries.iter().filter(|entry| matches!(entry.kind, EntryKind::Directory { .. }));
    let folders = folders.map(|entry| (target.join(OsStr::from_bytes(&entry.path)), access_of(&entry.path)));
    for (path, access) in std::iter::once((target.to_path_buf(), Some(new.access))).chain(folders) {
        let there = symlink_metadata(&path).map_err(|error| io_error("read", &path, &error))?;
        let mode = there.mode() & 0o7777;
        if !there.is_dir() || mode & 0o002 != 0 {
            return Ok(false);
        }
        let wanted = mode & (access.unwrap_or_default().mode_mask() | 0o7000) | 0o700;
        if wanted != mode {
            let set = fs::set_permissions(&path, Permissions::from_mode(wanted));
            set.map_err(|error| io_error("set the mode of", &path, &error))?;
        }
    }
    Ok(true)
}
/// Whether a step has replaced the entry of identity `seen`; a folder must be empty.
fn is_as_seen(slot: &Path, seen: Hash) -> bool {
    symlink_metadata(slot).is_ok_and(|now| {
        let is_empty = || fs::read_dir(slot).is_ok_and(|mut entries| entries.next().is_none());
        identity_if_renamed(&now) == seen && (!now.is_dir() || is_empty())
    })
}
/// The identity of an entry that a rename does not change.
fn identity_if_renamed(metadata: &Metadata) -> Hash {
    if metadata.is_dir() { identity_of(metadata) } else { placed_fingerprint(metadata) }
}
fn symlink_metadata(path: &Path) -> std::io::Result<Metadata> {
    fs::symlink_metadata(path)
}

const COMPARED_BYTES: u64 = 1 << 20;
/// More files than these are written to the disk with everything else that waits for it.
const SYNCED_ONE_BY_ONE: usize = 64;

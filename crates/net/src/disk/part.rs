//! A download that survives being killed at any moment.
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};
use tributary_content::{Bitmap, ChunkIndex, ChunkStore, HashTree, Manifest, ObjectKind, StoreError, chunk_hash};

use super::{
    check_room,
    directory::DirectorySource,
    io_error, parent,
    publish::{Record, Source},
    refusal,
    state::{Create, StateTable, Stored, journal, open, read_header},
    unpack::unpack,
    with_suffix,
};

/// How a download treats what is there already, and how much it insists on the disk.
#[derive(Clone, Debug)]
pub struct PartOptions {
    /// What to believe of an interrupted run.
    pub resume: Resume,
    /// What must survive.
    pub durability: Durability,
    /// What to do with a file that has the final name.
    pub existing: Existing,
    /// How long another fetch to the same place is waited for. Default: 1 s, because a daemon whose client was ended and
    /// started again takes a moment to see that the first one has gone.
    pub lock_patience: Duration,
    /// If another object is just being fetched to the same place, a part of its own, `OUT.ID.part`, where ID is the start
    /// of the object's id, rather than waiting. Both get the name `OUT` in the end, each when it is complete.
    pub apart: bool,
    /// Where it is remembered which directories were fetched; without it none is ever replaced.
    pub state_dir: Option<PathBuf>,
}
impl Default for PartOptions {
    fn default() -> Self {
        PartOptions {
            resume: Resume::default(),
            durability: Durability::default(),
            existing: Existing::default(),
            lock_patience: Duration::from_secs(1),
            apart: false,
            state_dir: None,
        }
    }
}

/// What to believe of an interrupted run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Resume {
    /// Every chunk that the state calls held is read and hashed again (some 6 GB/s where the bytes are in memory), and
    /// dropped if it fails. The only safe choice after a crash of the machine, or on disks that err.
    #[default]
    Rehash,
    /// The state is believed. Safe if only the process was killed.
    Trust,
}

/// What a finished download survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// The end of the process at any moment. A machine that loses power within seconds of the end may lose the file,
    /// as with most programs that download.
    #[default]
    Process,
    /// Loss of power: the bytes are on the disk before the file gets its name. Costs as long as the disk takes.
    Power,
}

/// What to do with a file that has the final name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Existing {
    /// Keep it until the download is complete, then replace it in one step. A directory is replaced only by what has the
    /// same name and publisher as what it was fetched as, and only if nobody has changed anything in it since.
    #[default]
    Replace,
    /// Do not start.
    Refuse,
}

/// One object being fetched to `OUT`, by way of `OUT.part` and `OUT.part.state`.
///
/// ```text
///   put_chunk:  bytes ──► OUT.part at the chunk's place, then its slot ──► OUT.part.state
///   finish:     file       rename OUT.part to OUT, remove the state
///               directory  unpack to OUT.part-dir, exchange it with OUT or rename it to OUT, remove the part, the state,
///                          and what OUT was before
/// ```
/// The slot is written after the bytes, so whenever the process is killed, the state names only chunks whose bytes
/// were written. Nothing else of an earlier run is believed, and by default not even that: see [`Resume`]. Each chunk
/// is in the state when [`ChunkStore::put_chunk`] returns; there is no flush to wait for.
///
/// What is found at the start decides:
/// | `OUT.part` | `OUT.part.state` | |
/// |---|---|---|
/// | there | of exactly this object | go on |
/// | there | of the same name and publisher, another version | start anew: its bytes serve nobody any more |
/// | there | of another name or publisher | refused: somebody is fetching something else to the same place |
/// | there | damaged | start anew |
/// | there | missing | refused: it is not ours |
/// | missing | any | start anew |
///
/// The state is locked while the store lives, so that two processes never write to the same part. If `OUT` is a link
/// to a file, the file it leads to is what is replaced.
pub struct PartFile {
    manifest: Manifest,
    options: PartOptions,
    target: PathBuf,
    part_path: PathBuf,
    part: File,
    state_path: PathBuf,
    state: StateTable,
    tree: Option<HashTree>,
    held: Bitmap,
    finished: bool,
}

impl PartFile {
    /// Starts or resumes the download of the object of `manifest` to `target`.
    ///
    /// # Errors
    /// [`StoreError::Io`] if `target` cannot become a file, the part belongs to something else, another process uses
    /// it, or the disk has no room.
    pub fn open(target: &Path, manifest: &Manifest, options: &PartOptions) -> Result<Self, StoreError> {
        let target = resolve(target)?;
        check_target(&target, manifest, options)?;
        let patience = if options.apart { Duration::ZERO } else { options.lock_patience };
        let claimed = match claim(&target, manifest, patience) {
            Err(_) if options.apart => {
                let state = StateTable::peek(&with_suffix(&target, STATE_SUFFIX));
                let is_same = matches!(state, Stored::Object(stored) if *stored == *manifest);
                let beside = with_suffix(&target, &format!(".{:.8}", manifest.object_id().to_string()));
                claim(if is_same { &target } else { &beside }, manifest, options.lock_patience)
            }
            claimed => claimed,
        };
        let (part_path, state_path, locked) = claimed?;
        let (stored, part_exists) = (read_header(&locked), exists(&part_path));
        let same = matches!(&stored, Stored::Object(stored) if **stored == *manifest);
        if let Stored::Object(other) = &stored
            && part_exists
            && (other.name != manifest.name || other.publisher != manifest.publisher)
        {
            let reason = format!(
                "it holds an unfinished download of '{}' by {}; finish or remove it, or choose another place",
                other.name, other.publisher
            );
            return Err(refusal("write", &part_path, reason));
        }
        let resumes = same && part_exists;
        let state = if resumes {
            StateTable::resume(locked, &state_path, manifest)
        } else {
            StateTable::start(locked, &state_path, manifest)?
        };
        let part = open(&part_path, Create::IfMissing).map_err(|error| io_error("open", &part_path, &error))?;
        let is_empty = || part.metadata().is_ok_and(|metadata| metadata.len() == 0);
        // An empty file is not emptied again: ext4 would take that for the start of a replacement and write everything
        // to the disk when the file is closed, at the cost of the node's thread.
        if !resumes && !is_empty() {
            journal::set_len(journal::File::Part, 0);
            part.set_len(0).map_err(|error| io_error("empty", &part_path, &error))?;
        }
        journal::set_len(journal::File::Part, manifest.size);
        part.set_len(manifest.size).map_err(|error| io_error("reserve space for", &part_path, &error))?;
        let tree = state.tree(manifest);
        let held = Bitmap::new(manifest.chunk_count());
        let (manifest, options) = (manifest.clone(), options.clone());
        let mut opened =
            PartFile { manifest, options, target, part_path, part, state_path, state, tree, held, finished: false };
        opened.load()?;
        Ok(opened)
    }
    /// Whether an interrupted run left chunks of exactly this object for `target`. Nothing is locked or verified.
    pub fn resumes(target: &Path, manifest: &Manifest) -> bool {
        let Ok(target) = resolve(target) else { return false };
        let state_path = with_suffix(&target, STATE_SUFFIX);
        let same = matches!(StateTable::peek(&state_path), Stored::Object(stored) if *stored == *manifest);
        if !same || fs::symlink_metadata(with_suffix(&target, PART_SUFFIX)).is_err() {
            return false;
        }
        let Ok(file) = open(&state_path, Create::Never) else { return false };
        let state = StateTable::resume(file, &state_path, manifest);
        state.slots(manifest.chunk_count()).iter().any(Option::is_some)
    }
    /// The manifest of the download that was interrupted at `target`, if there is one: what a person would resume.
    pub fn interrupted(target: &Path) -> Option<Manifest> {
        match StateTable::peek(&with_suffix(&resolve(target).ok()?, STATE_SUFFIX)) {
            Stored::Object(manifest) => Some(*manifest),
            Stored::Nothing | Stored::Damaged => None,
        }
    }
    /// Removes the state of an object that has its final name: a process may be killed between the two.
    pub fn forget(target: &Path, manifest: &Manifest) {
        let Ok(target) = resolve(target) else { return };
        for beside in [target.clone(), with_suffix(&target, &format!(".{:.8}", manifest.object_id().to_string()))] {
            let state = with_suffix(&beside, STATE_SUFFIX);
            let is_same = matches!(StateTable::peek(&state), Stored::Object(stored) if *stored == *manifest);
            if is_same && !exists(&with_suffix(&beside, PART_SUFFIX)) {
                // What stays is of no harm, and the next fetch to the same place takes it away.
                let _ = remove(&state);
            }
        }
    }
    /// Gives up and removes the part and the state; a file with the final name stays.
    ///
    /// # Errors
    /// [`StoreError::Io`] if something cannot be removed.
    pub fn discard(self) -> Result<(), StoreError> {
        if self.finished {
            return Ok(());
        }
        remove(&self.part_path)?;
        remove(&self.state_path)
    }
    /// Where the object ends up.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Takes over what an earlier run held.
    fn load(&mut self) -> Result<(), StoreError> {
        let mut buffer = Vec::new();
        for (index, slot) in (0..).map(ChunkIndex).zip(self.state.slots(self.manifest.chunk_count())) {
            let Some(hash) = slot else { continue };
            let leaf = self.tree.as_ref().and_then(|tree| tree.leaf(index)).unwrap_or(hash);
            buffer.resize(self.manifest.chunk_len(index) as usize, 0);
            let verified = leaf == hash
                && match self.options.resume {
                    Resume::Trust => true,
                    Resume::Rehash => match self.part.read_exact_at(&mut buffer, self.manifest.chunk_offset(index)) {
                        Ok(()) => chunk_hash(&buffer) == leaf,
                        Err(_) => false,
                    },
                };
            if verified {
                self.held.set(index);
            } else {
                tracing::warn!("'{}': {index} of the earlier run fails its check", self.part_path.display());
                self.state.clear_slot(index)?;
            }
        }
        Ok(())
    }
    /// Sees that the part has its name. If somebody has removed it, what is held is still here, and is written anew.
    fn keep_name(&mut self) -> Result<(), StoreError> {
        let read = |error| io_error("read", &self.part_path, &error);
        let own = self.part.metadata().map_err(read)?;
        if own.nlink() > 0 {
            let is_own = |named: fs::Metadata| (named.dev(), named.ino()) == (own.dev(), own.ino());
            return match fs::symlink_metadata(&self.part_path).is_ok_and(is_own) {
                true => Ok(()),
                false => Err(refusal("write", &self.part_path, "it was moved away, or something else is in its place")),
            };
        }
        tracing::warn!("'{}' was removed; what is verified is written anew", self.part_path.display());
        let write = |error| io_error("write", &self.part_path, &error);
        let part = OpenOptions::new().read(true).write(true).create_new(true).open(&self.part_path).map_err(write)?;
        part.set_len(self.manifest.size).map_err(write)?;
        let mut buffer = Vec::new();
        for index in self.held.iter_set().map(ChunkIndex) {
            let offset = self.manifest.chunk_offset(index);
            buffer.resize(self.manifest.chunk_len(index) as usize, 0);
            self.part.read_exact_at(&mut buffer, offset).map_err(read)?;
            part.write_all_at(&buffer, offset).map_err(write)?;
        }
        self.part = part;
        Ok(())
    }
    fn finish_file(&mut self) -> Result<(), StoreError> {
        self.keep_name()?;
        if self.options.durability == Durability::Power {
            self.part.sync_all().map_err(|error| io_error("write to disk", &self.part_path, &error))?;
        }
        check_target(&self.target, &self.manifest, &self.options)?;
        fs::rename(&self.part_path, &self.target).map_err(|error| io_error("rename to", &self.target, &error))
    }
    fn finish_directory(&mut self) -> Result<(), StoreError> {
        let into = self.unpack()?;
        let new = self.exchange(&into)?;
        let state_dir = self.options.state_dir.as_deref();
        new.save(state_dir, &self.target);
        Record::forget(state_dir, &into);
        remove_all(&into)?;
        remove(&self.part_path)
    }
    /// Makes the directory beside its final place; gives where.
    fn unpack(&mut self) -> Result<PathBuf, StoreError> {
        let into = with_suffix(&self.part_path, DIRECTORY_SUFFIX);
        remove_all(&into)?;
        unpack(&mut self.part, &self.part_path, self.manifest.size, &into)?;
        if self.options.durability == Durability::Power {
            // One call for thousands of files; there is no other that covers them and their names.
            nix::unistd::sync();
        }
        Ok(into)
    }
    /// Gives the directory `into` the final name, and what had that name the other one; gives what is to be remembered of it.
    fn exchange(&self, into: &Path) -> Result<Record, StoreError> {
        check_target(&self.target, &self.manifest, &self.options)?;
        let source = DirectorySource::open(into).map_err(|error| refusal("read", into, error.to_string()))?;
        let leaves = self.state.slots(self.manifest.chunk_count()).into_iter().flatten().collect();
        let (fingerprint, tree) = (source.fingerprint(), HashTree::from_leaves(leaves));
        let new = Record { fingerprint, manifest: self.manifest.clone(), tree };
        // Before it has the final name: a process may be killed between these two.
        new.save(self.options.state_dir.as_deref(), into);
        let flags = if exists(&self.target) { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        renameat_with(CWD, into, CWD, &self.target, flags)
            .map_err(|error| io_error("rename to", &self.target, &error.into()))?;
        Ok(new)
    }
}

impl ChunkStore for PartFile {
    fn held(&self) -> &Bitmap {
        &self.held
    }
    fn tree(&self) -> Option<&HashTree> {
        self.tree.as_ref()
    }
    fn put_tree(&mut self, tree: &HashTree) -> Result<(), StoreError> {
        if tree.root() != self.manifest.root || tree.chunk_count() != self.manifest.chunk_count() {
            return Err(refusal("keep the hash tree of", &self.target, "it has another root"));
        }
        if self.tree.is_some() {
            return Ok(());
        }
        self.state.put_tree(tree)?;
        for (index, slot) in (0..).map(ChunkIndex).zip(self.state.slots(self.manifest.chunk_count())) {
            if self.held.get(index) && slot != tree.leaf(index) {
                self.held.clear(index);
                self.state.clear_slot(index)?;
            }
        }
        self.tree = Some(tree.clone());
        Ok(())
    }
    fn put_chunk(&mut self, index: ChunkIndex, bytes: &[u8]) -> Result<(), StoreError> {
        let need = self.manifest.chunk_len(index) as usize;
        if index.0 >= self.manifest.chunk_count() || bytes.len() != need {
            let reason = format!("chunk {} has {need} bytes, not {}", index.0, bytes.len());
            return Err(refusal("write", &self.part_path, reason));
        }
        if self.held.get(index) {
            return Ok(());
        }
        self.keep_name()?;
        let offset = self.manifest.chunk_offset(index);
        journal::write(journal::File::Part, offset, bytes)
            .and_then(|()| self.part.write_all_at(bytes, offset))
            .map_err(|error| io_error("write", &self.part_path, &error))?;
        let leaf = self.tree.as_ref().and_then(|tree| tree.leaf(index)).unwrap_or_else(|| chunk_hash(bytes));
        self.state.put_slot(index, &leaf)?;
        self.held.set(index);
        Ok(())
    }
    fn sync(&mut self) -> Result<(), StoreError> {
        // The state names only chunks whose bytes are on the disk: those go first.
        self.part.sync_data().map_err(|error| io_error("write to disk", &self.part_path, &error))?;
        self.state.sync()
    }
    fn finish(&mut self) -> Result<(), StoreError> {
        if self.finished {
            return Ok(());
        }
        if !self.held.is_full() {
            let missing = self.held.len() - self.held.count();
            return Err(refusal(
                "finish",
                &self.target,
                format!("{missing} of {} chunks are missing", self.held.len()),
            ));
        }
        match self.manifest.kind {
            ObjectKind::File => self.finish_file()?,
            ObjectKind::Directory => self.finish_directory()?,
        }
        self.finished = true;
        remove(&self.state_path)?;
        if self.options.durability == Durability::Power {
            let parent = parent(&self.target);
            let synced = File::open(parent).and_then(|parent| parent.sync_all());
            synced.map_err(|error| io_error("write to disk", parent, &error))?;
        }
        Ok(())
    }
}
impl fmt::Debug for PartFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartFile")
            .field("target", &self.target)
            .field("held", &self.held.count())
            .field("of", &self.held.len())
            .finish_non_exhaustive()
    }
}

/// The path that the object really gets: what a link to a file leads to, else `target` itself.
fn resolve(target: &Path) -> Result<PathBuf, StoreError> {
    if target.file_name().is_none() {
        return Err(refusal("write", target, "it is not the name of a file"));
    }
    match fs::symlink_metadata(target) {
        Ok(metadata) if metadata.is_symlink() => {
            fs::canonicalize(target).map_err(|error| io_error("follow link", target, &error))
        }
        _ => Ok(target.into()),
    }
}
/// The paths of the part and the state beside `beside`, and the state, locked.
fn claim(beside: &Path, manifest: &Manifest, patience: Duration) -> Result<(PathBuf, PathBuf, File), StoreError> {
    let (part, state) = (with_suffix(beside, PART_SUFFIX), with_suffix(beside, STATE_SUFFIX));
    // Asked before the state is created: a state beside it is what marks a part as ours. A fetch that ends between the
    // first two looks takes both away.
    if exists(&part) && !exists(&state) && exists(&part) {
        return Err(refusal("write", &part, "it exists and is not ours; remove it or choose another place"));
    }
    // Unpacking a directory needs its bytes once more. The part is sparse, so other programs can still fill the disk; then
    // `put_chunk` fails and what is held stays.
    let copies = if manifest.kind == ObjectKind::Directory { 2 } else { 1 };
    check_room(&part, manifest.size.saturating_mul(copies))?;
    let locked = StateTable::lock(&state, patience)?;
    Ok((part, state, locked))
}
fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
fn check_target(target: &Path, manifest: &Manifest, options: &PartOptions) -> Result<(), StoreError> {
    let there = match fs::symlink_metadata(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return check_parent(target),
        Err(error) => return Err(io_error("write", target, &error)),
        Ok(there) => there,
    };
    let reason = if there.is_dir() && manifest.kind != ObjectKind::Directory {
        "it is a directory; give the name of a file in it"
    } else if options.existing == Existing::Refuse && (there.is_dir() || there.is_file()) {
        "it exists"
    } else if there.is_dir() && is_unchanged(target, manifest, options.state_dir.as_deref()) {
        return Ok(());
    } else if there.is_dir() {
        "it exists, and is not as it was when it was fetched under this name from this publisher; move it away, or \
         choose another place"
    } else if !there.is_file() {
        "it is not a regular file; to write to a pipe or a device, fetch to '-' and redirect"
    } else if manifest.kind == ObjectKind::Directory {
        "the object is a directory, and there is a file of that name"
    } else {
        return Ok(());
    };
    Err(refusal("write", target, reason))
}
/// Whether the directory at `target` was fetched under the same name from the same publisher, and nobody has changed
/// anything in it since. What a killed process had exchanged is remembered at the place where it was unpacked.
fn is_unchanged(target: &Path, manifest: &Manifest, state_dir: Option<&Path>) -> bool {
    let unpacked = with_suffix(target, &[PART_SUFFIX, DIRECTORY_SUFFIX].concat());
    let records = [target, &unpacked].into_iter().filter_map(|path| Record::load(state_dir, path));
    let mut ours = records
        .filter(|record| record.manifest.name == manifest.name && record.manifest.publisher == manifest.publisher)
        .peekable();
    // Who is not remembered costs no look into the directory.
    ours.peek().is_some()
        && DirectorySource::open(target)
            .is_ok_and(|mut source| source.is_whole() && ours.any(|record| record.holds(target, &mut source)))
}
/// What the directory at `path` was fetched or published as, if that is remembered in `state_dir`. Where there is no
/// directory any more it is forgotten.
pub fn directory_at(path: &Path, state_dir: &Path) -> Option<Manifest> {
    let path = &resolve(path).ok()?;
    if !path.is_dir() {
        Record::forget(Some(state_dir), path);
        return None;
    }
    let manifest = Record::load(Some(state_dir), path)?.manifest;
    (manifest.kind == ObjectKind::Directory).then_some(manifest)
}
fn check_parent(target: &Path) -> Result<(), StoreError> {
    let parent = parent(target);
    match fs::metadata(parent) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(refusal("write", target, format!("'{}' is not a directory", parent.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(refusal("write", target, format!("the directory '{}' does not exist", parent.display())))
        }
        Err(error) => Err(io_error("write", target, &error)),
    }
}
/// Removes a directory, if there is one, with all that is in it.
fn remove_all(path: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", path, &error)),
        _ => Ok(()),
    }
}
fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", path, &error)),
        _ => Ok(()),
    }
}

const PART_SUFFIX: &str = ".part";
const STATE_SUFFIX: &str = ".part.state";
/// Bytes that the name of a target may have, so that those of its part and state are names too: Linux takes 255.
pub const TARGET_NAME_BYTES_MAX: usize = 255 - STATE_SUFFIX.len();
/// Behind that of the part.
const DIRECTORY_SUFFIX: &str = "-dir";

#[cfg(test)]
mod tests;

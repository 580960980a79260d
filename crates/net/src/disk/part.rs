//! A download that survives being killed at any moment.
use parking_lot::Mutex;
use std::{
    fs::File,
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tributary_content::{
    Bitmap, ChunkIndex, ChunkStore, HadStore, HashTree, Manifest, ObjectKey, ObjectKind, StoreError, Wishes, chunk_hash,
};

use super::{
    arriving::{self, Held, Share},
    check_chunk, check_room,
    directory::DirectorySource,
    fs::{self, Create, FileSystem, FsFile, OpenOptions, RealFileSystem},
    io_error, parent,
    pieces::Lent,
    place::{self, There},
    publish::Record,
    refusal,
    reuse::ReuseWishes,
    sealed::open_to,
    selection::{Selected, Selection},
    sparse::{data_in, overwrite},
    staging::Staging,
    state::{StateTable, open, read_header},
    unpack::{Packed, unpack},
    with_suffix,
};

mod folder;
mod steps;
mod update;

/// How a download treats existing files, and how strictly it waits for the disk.
#[derive(Clone, Default)]
pub struct PartOptions {
    /// What to trust of an interrupted fetch.
    pub resume: Resume,
    /// What must survive.
    pub durability: Durability,
    /// What to do with a file that has the final name.
    pub existing: Existing,
    /// Each object has a separate part, so that several can be fetched to one place at the same time. Each gets its
    /// name when it is complete.
    pub apart: bool,
    /// The folder that remembers which object was fetched to which place; without it nothing counts as an earlier
    /// fetch.
    pub state_dir: Option<PathBuf>,
    /// Receives the final name of the object.
    pub placed: Placed,
    /// What to do with an unfinished download of the same name by another publisher.
    pub leftover: Leftover,
    /// Receives the object to serve it during its arrival. Then its chunks are wanted from a random one on, so that
    /// receivers which serve each other have different ones.
    pub share: Option<Share>,
    /// The part of a folder that is wanted; `None` wants all of any object.
    pub selection: Option<Arc<Selection>>,
    /// The kind of that part; known to a store once it has read the index of the folder.
    pub part_kind: Option<ObjectKind>,
    /// The key of a sealed object, which is opened once it is complete; without it the sealed bytes are kept in one
    /// file, even for a folder.
    pub key: Option<ObjectKey>,
}

impl PartOptions {
    /// What the object of `manifest` is on the disk.
    pub(super) fn kind(&self, manifest: &Manifest) -> ObjectKind {
        let whole = if manifest.is_sealed && self.key.is_none() { ObjectKind::File } else { manifest.kind };
        self.part_kind.unwrap_or(whole)
    }
    /// The key, if it opens the object of `manifest`.
    pub(super) fn key_of(&self, manifest: &Manifest) -> Option<&ObjectKey> {
        self.key.as_ref().filter(|_| manifest.is_sealed)
    }
}

/// What to do with an unfinished download to the same place that has the same name and another publisher.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Leftover {
    /// Refuse to start: the wanted publisher is not known for sure, and may be the other one.
    #[default]
    Refuse,
    /// Start from the beginning: the publisher is pinned or remembered, so the other publisher's bytes are useless.
    StartAnew,
}

/// The final name of a download, once placed: it may differ from the requested one. Clones show the same.
#[derive(Clone, Debug, Default)]
pub struct Placed(Arc<Mutex<Option<PathBuf>>>);
impl Placed {
    /// The name; `None` before it is complete.
    pub fn path(&self) -> Option<PathBuf> {
        self.0.lock().clone()
    }
    fn set(&self, path: &Path) {
        *self.0.lock() = Some(path.into());
    }
}

/// What to trust of an interrupted fetch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Resume {
    /// Every chunk that the state calls held is read and hashed again (some 6 GB/s where the bytes are in memory), and
    /// dropped if it fails. The only safe choice after a crash of the machine, or on disks that err.
    #[default]
    Rehash,
    /// The state is trusted. Safe if only the process was killed.
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

/// What to do with a file or directory that has the final name. It stays until the download is complete; then a
/// file is replaced in one step, a directory entry by entry, or it stays. An identical object stays in any case but the
/// last two, and nothing is fetched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Existing {
    /// Replace an earlier version: a download to this very place under the same name from the same publisher, unchanged
    /// since. Refuse to start if it is anything else.
    #[default]
    EarlierFetch,
    /// Replace anything.
    Anything,
    /// Replace an earlier version; if the name is taken by anything else use the next number, as [`Existing::Number`]
    /// does.
    EarlierFetchOrNumber,
    /// Replace nothing: a download to a taken name gets the next number, such as `out~2` or `out~2.txt`.
    Number,
    /// Do not start.
    Refuse,
}
impl Existing {
    pub(super) fn replaces(self) -> bool {
        !matches!(self, Existing::Number | Existing::Refuse)
    }
    pub(super) fn numbers(self) -> bool {
        matches!(self, Existing::EarlierFetchOrNumber | Existing::Number)
    }
}

/// One object being fetched to `OUT`, through a private folder next to it ([`Staging`]).
///
/// ```text
///   put_chunk:  bytes ──► part at the chunk's place, then its slot ──► state
///   finish:     sealed     open part to opened, which takes its place in what follows
///               file       exchange part with OUT or rename it to OUT, remove the state, and what OUT was before
///               directory  over an earlier version: unpack what differs to changes, write the journal, exchange each with its place in OUT, remove the
///                          journal, the part, the state, and what was replaced
///                          else: unpack it, or the wanted part of it, to unpacked, exchange that with OUT or rename it to OUT, remove the part, the
///                          state, and what OUT was before
/// ```
/// The slot is written after the bytes, so whenever the process is killed, the state names only chunks whose bytes were
/// written. Nothing else of an earlier fetch is trusted, and by default not even that: see [`Resume`]. Each chunk is in
/// the state when [`ChunkStore::put_chunk`] returns; there is no flush to wait for.
///
/// The files found at the start decide:
/// | part | state | |
/// |---|---|---|
/// | there | of exactly this object | continue |
/// | there | of the same name and publisher, another version | start again: its bytes are of no use |
/// | there | of another name | refused: another object is being fetched to the same place |
/// | there | of another publisher | start again if the wanted one is pinned or remembered, else refused ([`Leftover`]) |
/// | there | damaged | start again |
/// | there | missing | refused: it is not ours |
/// | missing | any | start again |
///
/// The state is locked while the store lives, so that two processes never write to the same part. If `OUT` is a link to
/// a file, the link's target is replaced. The result is no more readable than its publisher's original, than the file
/// it replaces, and than the umask allows.
pub struct PartFile {
    manifest: Manifest,
    options: PartOptions,
    target: PathBuf,
    staging: Staging,
    part_path: PathBuf,
    fs: Arc<dyn FileSystem>,
    part: Arc<dyn FsFile>,
    /// Chunks that were put since the last sync, and whether one has failed since.
    unsynced: Bitmap,
    is_suspect: bool,
    /// Whether the names of part and state are on the disk.
    is_named: bool,
    /// Whether the part is all zeros where no chunk is held.
    is_blank: bool,
    state_path: PathBuf,
    state: StateTable,
    tree: Option<HashTree>,
    held: Bitmap,
    /// The chunks held, shared with readers of a download in progress.
    shared: Held,
    /// The folder at the target, until its pieces are known.
    earlier: Option<Box<DirectorySource>>,
    /// Held chunks that are in the earlier version at the target, and not in the part.
    lent: Option<Lent>,
    /// Of an object that replaces another one, or of a folder that is fetched in part: the chunks that are not here.
    wishes: Option<Arc<ReuseWishes>>,
    /// The part of the folder, once it is known.
    selected: Option<Selected>,
    finished: bool,
}

impl PartFile {
    /// Starts or resumes the download of the object of `manifest` to `target`.
    ///
    /// # Errors
    /// [`StoreError::Io`] if `target` cannot become a file, the part belongs to something else, another process uses
    /// it, or the disk is full.
    pub fn open(target: &Path, manifest: &Manifest, options: &PartOptions) -> Result<Self, StoreError> {
        Self::open_at(look(target, manifest, options)?, manifest, options)
    }
    /// The same, or a store without work if `target` is exactly the object already; then the files are removed that a
    /// process left that was killed at its end.
    ///
    /// # Errors
    /// As [`PartFile::open`].
    pub fn open_unless_there(
        target: &Path,
        manifest: &Manifest,
        options: &PartOptions,
    ) -> Result<Box<dyn ChunkStore>, StoreError> {
        let place = look(target, manifest, options)?;
        match place.there {
            There::Same => Ok(Box::new(place.end(manifest, options))),
            _ => Ok(Box::new(Self::open_at(place, manifest, options)?)),
        }
    }
    fn open_at(place: Place, manifest: &Manifest, options: &PartOptions) -> Result<Self, StoreError> {
        let Place { target, staging, there } = place;
        warn_of_earlier_parts(&target);
        let is_update = target.is_dir() && manifest.pieces.is_some();
        let locked = claim(&staging, manifest, options, is_update)?;
        let earlier = match there {
            There::Replaceable(_, directory) => directory,
            There::Nothing | There::Same | There::Taken(_) => None,
        };
        Self::open_locked(fs::real(), locked, staging, (target, earlier), manifest, options)
    }
    /// Continues from the locked state, on any file system.
    pub(super) fn open_locked(
        fs: Arc<dyn FileSystem>,
        locked: Arc<dyn FsFile>,
        staging: Staging,
        (target, earlier): (PathBuf, Option<Box<DirectorySource>>),
        manifest: &Manifest,
        options: &PartOptions,
    ) -> Result<Self, StoreError> {
        let (part_path, state_path) = (staging.part(), staging.state());
        let stored = read_header(&*locked).map_err(|error| io_error("read", &state_path, &error))?;
        let part_exists = match fs.metadata(&part_path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            there => there.map(|_| true).map_err(|error| io_error("read", &part_path, &error))?,
        };
        let continued = stored.as_ref().filter(|stored| manifest.continues(stored));
        let same = continued.is_some();
        if let Some(other) = &stored
            && part_exists
            && !same
            && (other.name != manifest.name
                || other.publisher != manifest.publisher && options.leftover == Leftover::Refuse)
        {
            let pin = match other.name == manifest.name {
                true => format!(", or fetch with --publisher {} to accept this publisher", manifest.publisher),
                false => String::new(),
            };
            let reason = format!(
                "it holds an unfinished download of '{}' by {}; finish or remove it, or choose another place{pin}",
                other.name, other.publisher
            );
            return Err(refusal("write", &part_path, reason));
        }
        let continued = continued.filter(|_| part_exists);
        let resumes = continued.is_some();
        let state = match continued {
            Some(stored) => StateTable::resume(locked, &state_path, stored),
            None => StateTable::start(locked, &state_path, manifest)?,
        };
        let part = open(&*fs, &part_path, Create::IfMissing).map_err(|error| io_error("open", &part_path, &error))?;
        let is_empty = || part.metadata().is_ok_and(|metadata| metadata.length == 0);
        // An empty file is not emptied again: ext4 would take that for the start of a replacement and write everything
        // to the disk when the file is closed, at the cost of the node's thread.
        if !resumes && !is_empty() {
            part.set_len(0).map_err(|error| io_error("empty", &part_path, &error))?;
        }
        part.set_len(manifest.size).map_err(|error| io_error("reserve space for", &part_path, &error))?;
        let tree = state.tree(manifest)?;
        let held = Bitmap::new(manifest.chunk_count());
        let (manifest, options) = (manifest.clone(), options.clone());
        let (is_blank, finished) = (!resumes, false);
        let is_suspect = fs.metadata(&staging.suspect()).is_ok();
        let mut opened = PartFile {
            manifest,
            options,
            target,
            staging,
            part_path,
            fs,
            part,
            unsynced: Bitmap::new(held.len()),
            is_suspect,
            is_named: false,
            is_blank,
            state_path,
            state,
            tree,
            shared: Held::default(),
            held,
            earlier,
            lent: None,
            wishes: None,
            selected: None,
            finished,
        };
        opened.load()?;
        *opened.shared.lock() = opened.held.clone();
        opened.begin_reuse()?;
        opened.begin_share();
        // An earlier process may have ended before it synced them, and a failed sync drops that process's writes too.
        opened.unsynced = opened.in_part();
        Ok(opened)
    }
    /// A store without work, if `target` is exactly the object of `manifest` already.
    #[cfg(test)]
    pub(super) fn already_there(
        target: &Path,
        manifest: &Manifest,
        options: &PartOptions,
    ) -> Option<Box<dyn ChunkStore>> {
        let place = look(target, manifest, options).ok()?;
        matches!(place.there, There::Same).then(|| Box::new(place.end(manifest, options)) as _)
    }
    /// The folder of an unfinished download to `target`.
    pub fn unfinished_at(target: &Path) -> Option<PathBuf> {
        Some(Staging::of(&resolve(target).ok()?, None).folder)
    }
    /// Whether an interrupted fetch left chunks of these bytes under this name for `target`. Nothing is locked or verified.
    pub fn resumes(target: &Path, manifest: &Manifest) -> bool {
        let Ok(target) = resolve(target) else { return false };
        let staging = Staging::of(&target, None);
        let state_path = staging.state();
        let Some(stored) = StateTable::peek(&state_path) else { return false };
        if !manifest.continues(&stored) || !exists(&staging.part()) {
            return false;
        }
        let Ok(file) = open(&RealFileSystem, &state_path, Create::Never) else { return false };
        let state = StateTable::resume(file, &state_path, &stored);
        state.slots(manifest.chunk_count()).is_ok_and(|slots| slots.iter().any(Option::is_some))
    }
    /// Whether [`PartOptions::apart`] would resume a part of exactly this object next to `target`.
    pub fn is_unfinished_apart(target: &Path, manifest: &Manifest) -> bool {
        let staging = Staging::of(target, Some(&manifest.publication_id()));
        exists(&staging.part()) && StateTable::peek(&staging.state()).as_ref() == Some(manifest)
    }
    /// The complete objects among the unfinished downloads in a folder and below it, in the order of their paths: their
    /// process was killed before it could rename them. Leftovers of renamed ones are removed. Links are not followed.
    pub fn complete_below(folder: &Path) -> Vec<Manifest> {
        let (mut complete, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
        while let Some(at) = folders.pop() {
            let entries = std::fs::read_dir(&at).into_iter().flatten().flatten();
            let is_folder = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
            let mut below: Vec<PathBuf> = entries.filter(is_folder).map(|entry| entry.path()).collect();
            below.sort();
            for path in below.into_iter().rev() {
                let Some(staging) = Staging::at(&path) else {
                    folders.push(path);
                    continue;
                };
                let Some(manifest) = StateTable::peek(&staging.state()) else { continue };
                let Ok(locked) = StateTable::lock(&RealFileSystem, &staging.state(), Duration::ZERO) else { continue };
                if !exists(&staging.part()) {
                    let _ = clear(&staging);
                    continue;
                }
                let state = StateTable::resume(locked, &staging.state(), &manifest);
                if state.slots(manifest.chunk_count()).is_ok_and(|slots| slots.iter().all(Option::is_some)) {
                    complete.push(manifest);
                }
            }
        }
        complete
    }
    /// The manifest of the download that was interrupted at `target`, if any, for a user to resume.
    pub fn interrupted(target: &Path) -> Option<Manifest> {
        StateTable::peek(&Staging::of(&resolve(target).ok()?, None).state())
    }
    /// Cancels the download and removes the part and the state; a file with the final name stays.
    ///
    /// # Errors
    /// [`StoreError::Io`] if something cannot be removed.
    pub fn discard(self) -> Result<(), StoreError> {
        if self.finished {
            return Ok(());
        }
        clear(&self.staging)
    }
    /// The file with the bytes so far.
    pub fn part(&self) -> &Path {
        &self.part_path
    }
    /// Reads bytes of the part; where nothing was put they are zeros.
    ///
    /// # Errors
    /// [`StoreError::Io`] if they cannot be read.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), StoreError> {
        self.part.read_exact_at(bytes, offset).map_err(|error| io_error("read", &self.part_path, &error))
    }
    /// Drops a held chunk that turned out wrong; it can be put again.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the state cannot be written.
    pub fn forget(&mut self, index: ChunkIndex) -> Result<(), StoreError> {
        if self.held.get(index) {
            self.state.clear_slot(index)?;
            self.held.clear(index);
            self.shared.lock().clear(index);
            self.is_blank = false;
        }
        Ok(())
    }
    /// Where the object ends up.
    pub fn target(&self) -> &Path {
        &self.target
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
        for (index, slot) in (0..).map(ChunkIndex).zip(self.state.slots(self.manifest.chunk_count())?) {
            if self.held.get(index) && slot != tree.leaf(index) {
                self.held.clear(index);
                self.shared.lock().clear(index);
                self.is_blank = false;
                self.state.clear_slot(index)?;
            }
        }
        self.tree = Some(tree.clone());
        self.offer();
        self.go_on_with_reuse()
    }
    fn put_chunk(&mut self, index: ChunkIndex, bytes: &[u8]) -> Result<(), StoreError> {
        check_chunk(&self.manifest, index, bytes, &self.part_path)?;
        if self.held.get(index) {
            return Ok(());
        }
        self.keep_name()?;
        self.keep(index, bytes)?;
        self.go_on_with_reuse()
    }
    fn wishes(&self) -> Option<Arc<dyn Wishes>> {
        self.wishes.clone().map(|wishes| wishes as Arc<dyn Wishes>)
    }
    fn sync(&mut self) -> Result<(), StoreError> {
        let synced = self.sync_all();
        if synced.is_ok() {
            self.unsynced = Bitmap::new(self.manifest.chunk_count());
        }
        (self.is_suspect, self.is_named) = (synced.is_err(), synced.is_ok());
        synced
    }
    fn finish(&mut self) -> Result<(), StoreError> {
        if self.finished {
            return Ok(());
        }
        let missing = self.missing();
        if missing > 0 {
            return Err(refusal(
                "finish",
                &self.target,
                format!("{missing} of {} chunks are missing", self.held.len()),
            ));
        }
        match self.options.kind(&self.manifest) {
            ObjectKind::File if self.selected.is_none() => self.finish_file()?,
            ObjectKind::File | ObjectKind::Directory => self.finish_directory()?,
        }
        self.finished = true;
        remove(&self.state_path)?;
        remove(&self.staging.suspect())?;
        self.staging.remove();
        Ok(())
    }
}
/// The destination of an object, and its present content.
struct Place {
    target: PathBuf,
    staging: Staging,
    there: There,
}

/// Looks at the place of a download, once an interrupted update of it is ended.
fn look(target: &Path, manifest: &Manifest, options: &PartOptions) -> Result<Place, StoreError> {
    let target = resolve(target)?;
    folder::check_selectable(manifest, options)?;
    let staging = staging_of(&target, manifest, options);
    update::end_update(&target, options.state_dir.as_deref())?;
    let there = place::check(&target, manifest, options, &staged(&staging, manifest, options))?;
    Ok(Place { target, staging, there })
}
impl Place {
    /// Ends a download whose object is at its destination already.
    fn end(self, manifest: &Manifest, options: &PartOptions) -> HadStore {
        let staging = self.staging;
        let is_of_this = StateTable::peek(&staging.state()).is_some_and(|stored| manifest.continues(&stored));
        if is_of_this && let Ok(_locked) = StateTable::lock(&RealFileSystem, &staging.state(), Duration::ZERO) {
            let _ = clear(&staging);
        }
        options.placed.set(&self.target);
        HadStore::new(manifest)
    }
}
/// The final path of the object: the target of a link to a file, else `target` itself.
fn resolve(target: &Path) -> Result<PathBuf, StoreError> {
    if target.file_name().is_none() {
        return Err(refusal("write", target, "it is not the name of a file"));
    }
    match std::fs::symlink_metadata(target) {
        Ok(metadata) if metadata.is_symlink() => {
            std::fs::canonicalize(target).map_err(|error| io_error("follow link", target, &error))
        }
        _ => Ok(target.into()),
    }
}
fn staging_of(target: &Path, manifest: &Manifest, options: &PartOptions) -> Staging {
    Staging::of(target, options.apart.then(|| manifest.publication_id()).as_ref())
}
/// The path of a download before it gets its name.
fn staged(staging: &Staging, manifest: &Manifest, options: &PartOptions) -> PathBuf {
    match options.kind(manifest) {
        _ if options.selection.is_some() => staging.unpacked(),
        ObjectKind::File if options.key_of(manifest).is_some() => staging.opened(),
        ObjectKind::File => staging.part(),
        ObjectKind::Directory => staging.unpacked(),
    }
}
/// Makes the folder of a download and locks its state.
fn claim(
    staging: &Staging,
    manifest: &Manifest,
    options: &PartOptions,
    is_update: bool,
) -> Result<Arc<dyn FsFile>, StoreError> {
    let (part, state) = (staging.part(), staging.state());
    staging.make()?;
    let claimed = || {
        // Checked before the state is created, because the state next to a part marks the part as ours. A fetch that
        // ends between the first two checks removes both.
        if exists(&part) && !exists(&state) && exists(&part) {
            return Err(refusal("write", &part, "it exists and is not ours; remove it or choose another place"));
        }
        // Unpacking a directory needs its bytes once more, and so does opening a sealed object. The part is sparse, so
        // other programs can still fill the disk; then `put_chunk` fails and held chunks stay.
        let is_unpacked = options.kind(manifest) == ObjectKind::Directory;
        let copies = 1 + u64::from(is_unpacked) + u64::from(options.key_of(manifest).is_some());
        // The index of a folder gives the size of a part; the earlier version gives that of an update.
        let size = if options.selection.is_some() || is_update { 0 } else { manifest.size };
        check_room(&part, size.saturating_mul(copies))?;
        StateTable::lock(&RealFileSystem, &state, LOCK_PATIENCE)
    };
    for _ in 0..CLAIM_TRIES {
        match claimed() {
            // Another fetch to the same place has just ended and taken the folder away.
            Err(_) if !exists(&staging.folder) => staging.make()?,
            Err(error) => {
                staging.remove();
                return Err(error);
            }
            locked => return locked,
        }
    }
    Err(refusal("lock", &state, "it is being created and removed all the time"))
}
/// Removes the leftovers of a download.
fn clear(staging: &Staging) -> Result<(), StoreError> {
    remove(&staging.part())?;
    remove(&staging.opened())?;
    remove_all(&staging.unpacked())?;
    remove(&staging.state())?;
    remove(&staging.suspect())?;
    staging.remove();
    Ok(())
}
/// Earlier versions of this program had their parts next to the target; they are left alone.
fn warn_of_earlier_parts(target: &Path) {
    let part = with_suffix(target, ".part");
    if StateTable::peek(&with_suffix(target, ".part.state")).is_some() {
        let part = part.display();
        tracing::warn!(
            "'{part}' and '{part}.state' are an unfinished download of an earlier version; they are not used"
        );
    }
}
fn exists(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}
/// The object that the directory at `path` was fetched or published as, if `state_dir` has a record of it. The record
/// of a removed directory is deleted.
pub fn directory_at(path: &Path, state_dir: &Path) -> Option<Manifest> {
    let path = &resolve(path).ok()?;
    if !path.is_dir() {
        Record::forget(Some(state_dir), path);
        return None;
    }
    // A process that was killed as it placed the directory has left the record where the next fetch would begin.
    let left = || Record::load(Some(state_dir), &Staging::of(path, None).unpacked());
    let manifest = Record::load(Some(state_dir), path).or_else(left)?.manifest;
    (manifest.kind == ObjectKind::Directory).then_some(manifest)
}
/// Removes a directory with its contents, or a file, if it exists.
fn remove_all(path: &Path) -> Result<(), StoreError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => remove(path),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", path, &error)),
        _ => Ok(()),
    }
}
fn remove(path: &Path) -> Result<(), StoreError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", path, &error)),
        _ => Ok(()),
    }
}

/// Maximum bytes of a target's name: Linux's limit.
pub const TARGET_NAME_BYTES_MAX: usize = 255;
/// How long to wait for another fetch to the same place: a daemon takes a moment to notice that a restarted client's
/// earlier request has ended.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// Maximum attempts to make a download's folder that another one removes.
const CLAIM_TRIES: u32 = 100;

#[cfg(test)]
mod tests;

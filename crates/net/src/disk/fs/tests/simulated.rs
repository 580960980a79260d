//! A disk in memory whose machine can lose its power, whose processes can be killed, and that fails on command.
//!
//! ```text
//!   process ──► SimulatedFs ──► cached ── sync ──► durable        one machine; SimulatedDisk is its owner's handle
//!                 of one life     │                   │
//!     kill():  the life ends, cached stays            │
//!     cut_power(): cached := durable and an arbitrary part of what was not synced
//! ```
//! The model is the one that SQLite and TigerBeetle test against, and the behaviour that Pillai et al. ("All file
//! systems are not created equal", OSDI 2014) found in file systems:
//!
//! - Of each page that was written since the last sync, each sector of 512 bytes is after a power cut as any of these writes
//!   left it, or as it was before: unsynced writes may be lost, reordered and torn, synced ones are not. A sector is never
//!   torn itself.
//! - The length of a file and the bytes in it are lost separately; gaps read as zeros. Bytes removed by truncation do
//!   not come back behind the end.
//! - A file's name is lost unless its folder was synced, even if the file was. Of names that changed, an arbitrary part
//!   or, as with a journal, a first part stays; a rename is done in one step.
//! - A sync that fails drops the pending writes: the next one succeeds without them. Readers see either the dropped
//!   bytes or the ones on the disk, as the file system likes.
//! - A failed write may have written any part of it.
mod file;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    io,
    path::{Component, Path},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tributary_core::random::Random;

use file::{Epoch, File, Length};

use super::super::{Access, Create, FileSystem, FsFile, Kind, Lock, Metadata, OpenOptions, Rename, Wait};

/// How often operations fail: probabilities for each single one.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Faults {
    /// A read gives EIO.
    pub read: f64,
    /// A write gives EIO, and may have written a part.
    pub write: f64,
    /// A write or an allocation gives ENOSPC, despite free space.
    pub full: f64,
    /// A write writes only some of the bytes, and returns their number.
    pub short: f64,
    /// A sync of a file gives EIO and drops the pending writes; one of a folder gives EIO.
    pub sync: f64,
    /// Making, renaming, removing, cutting, or opening gives EIO, before or after it is done.
    pub change: f64,
}

impl Faults {
    /// Nothing fails.
    pub const NONE: Faults = Faults { read: 0.0, write: 0.0, full: 0.0, short: 0.0, sync: 0.0, change: 0.0 };
}

/// A disk and the machine around it. Clones are the same one. The same seed and operations give the same faults.
#[derive(Clone, Debug)]
pub struct SimulatedDisk(Arc<Mutex<Machine>>);

impl SimulatedDisk {
    /// An empty disk without a limit, on which nothing fails.
    pub fn new(seed: u64) -> SimulatedDisk {
        let root = Inode { links: 1, locks: BTreeMap::new(), handles: 0, node: Node::Folder(Folder::default()) };
        SimulatedDisk(Arc::new(Mutex::new(Machine {
            random: Random::new(seed, STREAM),
            inodes: BTreeMap::from([(ROOT, root)]),
            pending: Vec::new(),
            next_inode: ROOT + 1,
            next_handle: 0,
            life: 0,
            stopped: false,
            stop_after: None,
            is_within: false,
            operations: 0,
            faults: Faults::NONE,
            pages_max: None,
            pages: 0,
            failed: 0,
        })))
    }
    /// The file system for a process that starts now. Its operations after [`SimulatedDisk::kill`] or
    /// [`SimulatedDisk::cut_power`] fail and change nothing.
    pub fn start(&self) -> Arc<dyn FileSystem> {
        let life = self.lock().life;
        Arc::new(SimulatedFs { disk: self.clone(), life })
    }
    /// Ends the process: its files are closed, and everything that it wrote stays, synced or not.
    pub fn kill(&self) {
        self.lock().end_life();
    }
    /// Ends the process and the machine: synced data stays, and an arbitrary part of the unsynced.
    pub fn cut_power(&self) {
        let mut machine = self.lock();
        machine.end_life();
        machine.lose_power();
    }
    /// Lets the process fail at everything from its `operations`-th operation from now on, which is done, not done, or, if it
    /// is a write, done in part: to be followed by [`SimulatedDisk::kill`] or [`SimulatedDisk::cut_power`].
    pub fn stop_after(&self, operations: u64) {
        self.lock().stop_after = Some(operations);
    }
    /// Whether the process was stopped by [`SimulatedDisk::stop_after`].
    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }
    /// Sets the faults from now on; returns the previous ones.
    pub fn set_faults(&self, faults: Faults) -> Faults {
        std::mem::replace(&mut self.lock().faults, faults)
    }
    /// Total space in bytes; `None`: unlimited.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.lock().pages_max = bytes.map(|bytes| bytes / PAGE_BYTES as u64);
    }
    /// Bytes in use.
    pub fn used_bytes(&self) -> u64 {
        self.lock().pages * PAGE_BYTES as u64
    }
    /// Operations so far, and those that were made to fail.
    pub fn operations(&self) -> (u64, u64) {
        let machine = self.lock();
        (machine.operations, machine.failed)
    }
    /// Damages a file's copy on the disk: flips `bits` of a byte.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn damage(&self, path: &Path, offset: u64, bits: u8) {
        let mut machine = self.lock();
        let inode = machine.find(path).expect("there is such a file");
        let Node::File(file) = &mut machine.inode(inode).node else { panic!("'{}' is a folder", path.display()) };
        file.settle();
        for content in [&mut file.cached, &mut file.durable] {
            let mut byte = [0];
            content.read(&mut byte, offset);
            content.write(&[byte[0] ^ bits], offset);
        }
    }
    fn lock(&self) -> MutexGuard<'_, Machine> {
        // The state is consistent between any two statements.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The disk as one process sees it.
#[derive(Debug)]
struct SimulatedFs {
    disk: SimulatedDisk,
    life: u64,
}

impl FileSystem for SimulatedFs {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn FsFile>> {
        let mut machine = self.disk.lock();
        let inode = match (machine.find(path), options.create) {
            (Ok(_), Create::New) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Ok(inode), _) => {
                machine.enter(self.life, |faults| faults.change / 4.0)?;
                inode
            }
            (Err(error), Create::IfMissing | Create::New) if error.kind() == io::ErrorKind::NotFound => {
                let inode = machine.next_inode;
                machine.change(self.life, |machine| {
                    let place = machine.place(path)?;
                    machine.next_inode += 1;
                    let node = Node::File(File::default());
                    machine.inodes.insert(inode, Inode { links: 0, locks: BTreeMap::new(), handles: 0, node });
                    Ok(vec![(place, Some(inode))])
                })?;
                inode
            }
            (Err(error), _) => return Err(error),
        };
        if matches!(machine.inode(inode).node, Node::Folder(_)) && options.access == Access::ReadWrite {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        machine.inode(inode).handles += 1;
        machine.next_handle += 1;
        let handle = machine.next_handle;
        Ok(Arc::new(SimulatedFile { disk: self.disk.clone(), life: self.life, inode, handle }))
    }
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.disk.lock().change(self.life, |machine| {
            let place = machine.place(path)?;
            if machine.at(&place).is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let inode = machine.next_inode;
            machine.next_inode += 1;
            let node = Node::Folder(Folder::default());
            machine.inodes.insert(inode, Inode { links: 0, locks: BTreeMap::new(), handles: 0, node });
            Ok(vec![(place, Some(inode))])
        })
    }
    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let mut machine = self.disk.lock();
        machine.enter(self.life, |faults| faults.read)?;
        let inode = machine.find(folder)?;
        Ok(machine.folder(inode)?.cached.keys().cloned().collect())
    }
    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let mut machine = self.disk.lock();
        machine.enter(self.life, |_| 0.0)?;
        let inode = machine.find(path)?;
        Ok(machine.metadata(inode))
    }
    fn rename(&self, from: &Path, to: &Path, how: Rename) -> io::Result<()> {
        self.disk.lock().change(self.life, |machine| {
            let (from, to) = (machine.place(from)?, machine.place(to)?);
            let inode = machine.at(&from).ok_or(io::ErrorKind::NotFound)?;
            match (machine.at(&to), how) {
                (Some(_), Rename::NoReplace) => Err(io::ErrorKind::AlreadyExists.into()),
                (None, Rename::Exchange) => Err(io::ErrorKind::NotFound.into()),
                (Some(other), Rename::Exchange) => Ok(vec![(from, Some(other)), (to, Some(inode))]),
                (Some(other), Rename::Replace) if matches!(machine.inode(other).node, Node::Folder(_)) => {
                    Err(io::ErrorKind::IsADirectory.into())
                }
                _ => Ok(vec![(from, None), (to, Some(inode))]),
            }
        })
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.lock().change(self.life, |machine| {
            let (inode, to) = (machine.find(from)?, machine.place(to)?);
            match machine.at(&to) {
                Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
                None => Ok(vec![(to, Some(inode))]),
            }
        })
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.lock().change(self.life, |machine| {
            let place = machine.place(path)?;
            let inode = machine.at(&place).ok_or(io::ErrorKind::NotFound)?;
            match machine.inode(inode).node {
                Node::Folder(_) => Err(io::ErrorKind::IsADirectory.into()),
                Node::File(_) => Ok(vec![(place, None)]),
            }
        })
    }
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut machine = self.disk.lock();
        let inode = machine.find(folder)?;
        machine.folder(inode)?;
        machine.enter(self.life, |faults| faults.sync)?;
        machine.sync_folder(inode);
        Ok(())
    }
    fn free_bytes(&self, _: &Path) -> Option<u64> {
        let machine = self.disk.lock();
        machine.pages_max.map(|max| max.saturating_sub(machine.pages) * PAGE_BYTES as u64)
    }
}

/// An open file of one process.
#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    life: u64,
    inode: u64,
    handle: u64,
}

impl FsFile for SimulatedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut machine = self.disk.lock();
        machine.enter(self.life, |faults| faults.read)?;
        Ok(machine.file(self.inode)?.cached.read(buffer, offset))
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut machine = self.disk.lock();
        let faults = machine.faults;
        let outcome = machine.enter(self.life, |faults| faults.write);
        let wanted = match &outcome {
            Ok(()) if bytes.len() > 1 && machine.random.chance(faults.short) => {
                1 + machine.random.below(bytes.len() as u64 - 1) as usize
            }
            Ok(()) => bytes.len(),
            // It was stopped within the write, or the disk has failed within it.
            Err(_) if machine.is_within => machine.random.below(bytes.len() as u64 + 1) as usize,
            Err(_) => 0,
        };
        let is_full = outcome.is_ok() && machine.random.chance(faults.full);
        let wanted = if is_full { machine.random.below(bytes.len() as u64) as usize } else { wanted };
        let room = machine.room();
        let file = machine.file(self.inode)?;
        let before = file.cached.pages.len() as u64;
        let fits = file.cached.fits(wanted, offset, room);
        file.write(&bytes[..fits], offset);
        let added = file.cached.pages.len() as u64 - before;
        machine.pages += added;
        outcome?;
        if fits == 0 && !bytes.is_empty() {
            machine.failed += u64::from(is_full);
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(fits)
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.disk.lock().alter(self.life, self.inode, |file| file.set_len(length))
    }
    fn metadata(&self) -> io::Result<Metadata> {
        let mut machine = self.disk.lock();
        machine.enter(self.life, |_| 0.0)?;
        Ok(machine.metadata(self.inode))
    }
    fn sync_data(&self) -> io::Result<()> {
        let mut machine = self.disk.lock();
        let synced = machine.enter(self.life, |faults| faults.sync);
        if synced.is_err() && !machine.is_within {
            return synced;
        }
        let mut random = machine.random.clone();
        let is_stopped = machine.stopped;
        let Node::File(file) = &mut machine.inode(self.inode).node else { return synced };
        match &synced {
            Ok(()) => file.settle(),
            // Its effect is decided when the power is cut.
            Err(_) if is_stopped => {}
            Err(_) => {
                file.durable = file.remains(&mut random, Length::Last);
                file.epochs = vec![Epoch::default()];
                if random.chance(0.5) {
                    file.cached = file.durable.clone();
                }
            }
        }
        machine.random = random;
        machine.count_pages();
        synced
    }
    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }
    fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
        let mut machine = self.disk.lock();
        let room = machine.room();
        if machine.file(self.inode)?.cached.fits(length as usize, offset, room) < length as usize {
            return Err(io::ErrorKind::StorageFull.into());
        }
        machine.alter(self.life, self.inode, |file| file.allocate(offset, length))
    }
    fn punch_hole(&self, offset: u64, length: u64) -> io::Result<()> {
        self.disk.lock().alter(self.life, self.inode, |file| file.punch_hole(offset, length))
    }
    /// One thread drives a simulated disk, so a lock that is taken will never be free: waiting for it is refused too.
    fn lock(&self, lock: Lock, _: Wait) -> io::Result<()> {
        let mut machine = self.disk.lock();
        machine.enter(self.life, |_| 0.0)?;
        let locks = &mut machine.inode(self.inode).locks;
        let conflicts = |(handle, other): (&u64, &Lock)| {
            *handle != self.handle && (lock == Lock::Exclusive || *other == Lock::Exclusive)
        };
        if locks.iter().any(conflicts) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        locks.insert(self.handle, lock);
        Ok(())
    }
}
impl Drop for SimulatedFile {
    fn drop(&mut self) {
        let mut machine = self.disk.lock();
        if machine.life == self.life
            && let Some(inode) = machine.inodes.get_mut(&self.inode)
        {
            inode.handles -= 1;
            inode.locks.remove(&self.handle);
            machine.forget_unused();
        }
    }
}

/// The state of a [`SimulatedDisk`].
#[derive(Debug)]
struct Machine {
    random: Random,
    inodes: BTreeMap<u64, Inode>,
    /// Names that changed and are not synced, in order; each is done in one step.
    pending: Vec<Edits>,
    next_inode: u64,
    next_handle: u64,
    /// The process that runs; another one's files do nothing.
    life: u64,
    stopped: bool,
    stop_after: Option<u64>,
    /// Whether the operation in progress belongs to the running process, so that it may take effect although it fails.
    is_within: bool,
    operations: u64,
    faults: Faults,
    pages_max: Option<u64>,
    /// Pages in use.
    pages: u64,
    failed: u64,
}

/// A name in a folder.
type Place = (u64, OsString);
/// Names and their new inodes.
type Edits = Vec<(Place, Option<u64>)>;

#[derive(Debug)]
struct Inode {
    links: u64,
    /// By open file.
    locks: BTreeMap<u64, Lock>,
    handles: u64,
    node: Node,
}

#[derive(Debug)]
enum Node {
    File(File),
    Folder(Folder),
}

#[derive(Default, Debug)]
struct Folder {
    cached: BTreeMap<OsString, u64>,
    durable: BTreeMap<OsString, u64>,
}

impl Machine {
    /// Starts an operation that fails with the probability returned by `fault`.
    fn enter(&mut self, life: u64, fault: impl Fn(&Faults) -> f64) -> io::Result<()> {
        self.is_within = life == self.life && !self.stopped;
        if !self.is_within {
            return Err(io::Error::other("the process was killed"));
        }
        self.operations += 1;
        if let Some(left) = &mut self.stop_after {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.stopped = true;
                return Err(io::Error::other("the process is killed here"));
            }
        }
        let probability = fault(&self.faults);
        if self.random.chance(probability) {
            self.failed += 1;
            return Err(io::Error::from_raw_os_error(nix::libc::EIO));
        }
        Ok(())
    }
    /// Changes names; a change that fails may still take effect.
    fn change(&mut self, life: u64, edits: impl FnOnce(&mut Machine) -> io::Result<Edits>) -> io::Result<()> {
        let outcome = self.enter(life, |faults| faults.change);
        if outcome.is_err() && !(self.is_within && self.random.chance(0.5)) {
            return outcome;
        }
        let edits = edits(self)?;
        for ((folder, name), inode) in &edits {
            let Node::Folder(of) = &mut self.inode(*folder).node else { unreachable!("places are in folders") };
            let before = match inode {
                Some(inode) => of.cached.insert(name.clone(), *inode),
                None => of.cached.remove(name),
            };
            inode.iter().for_each(|inode| self.inode(*inode).links += 1);
            before.iter().for_each(|inode| self.inode(*inode).links -= 1);
        }
        self.pending.push(edits);
        self.forget_unused();
        outcome
    }
    /// Changes the bytes of a file otherwise than by a write.
    fn alter(&mut self, life: u64, inode: u64, alter: impl FnOnce(&mut File)) -> io::Result<()> {
        let outcome = self.enter(life, |faults| faults.change);
        if outcome.is_err() && !(self.is_within && self.random.chance(0.5)) {
            return outcome;
        }
        let file = self.file(inode)?;
        let before = file.cached.pages.len() as u64;
        alter(file);
        let after = file.cached.pages.len() as u64;
        self.pages = (self.pages + after) - before;
        outcome
    }
    fn sync_folder(&mut self, folder: u64) {
        // With a change go those before it of the same names, else they would undo it later.
        let mut names = BTreeSet::<Place>::new();
        let mut done = Vec::new();
        for edits in std::mem::take(&mut self.pending).into_iter().rev() {
            if edits.iter().any(|(place, _)| place.0 == folder || names.contains(place)) {
                names.extend(edits.iter().map(|(place, _)| place.clone()));
                done.push(edits);
            } else {
                self.pending.push(edits);
            }
        }
        self.pending.reverse();
        done.into_iter().rev().for_each(|edits| self.keep(edits));
        self.forget_unused();
    }
    /// Makes changed names durable.
    fn keep(&mut self, edits: Edits) {
        for ((folder, name), inode) in edits {
            let Some(Inode { node: Node::Folder(of), .. }) = self.inodes.get_mut(&folder) else { continue };
            match inode {
                Some(inode) => drop(of.durable.insert(name, inode)),
                None => drop(of.durable.remove(&name)),
            }
        }
    }
    fn end_life(&mut self) {
        self.life += 1;
        (self.stopped, self.stop_after) = (false, None);
        for inode in self.inodes.values_mut() {
            inode.handles = 0;
            inode.locks.clear();
        }
        self.forget_unused();
    }
    fn lose_power(&mut self) {
        // A journal keeps changes in order, other file systems need not.
        let pending = std::mem::take(&mut self.pending);
        let is_journal = self.random.chance(0.5);
        let kept_first = self.random.below(pending.len() as u64 + 1) as usize;
        for (number, edits) in pending.into_iter().enumerate() {
            if if is_journal { number < kept_first } else { self.random.chance(0.5) } {
                self.keep(edits);
            }
        }
        let mut links = BTreeMap::<u64, u64>::from([(ROOT, 1)]);
        let mut reached = vec![ROOT];
        while let Some(inode) = reached.pop() {
            if let Node::Folder(folder) = &mut self.inode(inode).node {
                folder.cached = folder.durable.clone();
                for inode in folder.durable.values() {
                    let count = links.entry(*inode).or_default();
                    *count += 1;
                    if *count == 1 {
                        reached.push(*inode);
                    }
                }
            }
        }
        self.inodes.retain(|inode, _| links.contains_key(inode));
        // In the order in which they were made, not by name: some names are drawn from the system's entropy.
        let mut random = self.random.clone();
        for (inode, count) in links {
            let inode = self.inode(inode);
            inode.links = count;
            if let Node::File(file) = &mut inode.node {
                file.durable = file.remains(&mut random, Length::Any);
                file.cached = file.durable.clone();
                file.epochs = vec![Epoch::default()];
            }
        }
        self.random = random;
        self.count_pages();
    }
    /// Drops files that cannot be reached any longer, not even after a power cut.
    fn forget_unused(&mut self) {
        let is_unused = |inode: &Inode| inode.links == 0 && inode.handles == 0;
        if !self.inodes.values().any(is_unused) {
            return;
        }
        let mut used: BTreeSet<u64> = self.pending.iter().flatten().filter_map(|(_, inode)| *inode).collect();
        for inode in self.inodes.values() {
            if let Node::Folder(folder) = &inode.node {
                used.extend(folder.durable.values());
            }
        }
        self.inodes.retain(|number, inode| !is_unused(inode) || used.contains(number));
        self.count_pages();
    }
    fn count_pages(&mut self) {
        // A file without a name and without an open handle uses no space, though a power cut may bring it back.
        let is_counted = |inode: &&Inode| inode.links > 0 || inode.handles > 0;
        let pages = |inode: &Inode| match &inode.node {
            Node::File(file) => file.cached.pages.len() as u64,
            Node::Folder(_) => 0,
        };
        self.pages = self.inodes.values().filter(is_counted).map(pages).sum();
    }
    fn room(&self) -> u64 {
        self.pages_max.map_or(u64::MAX, |max| max.saturating_sub(self.pages))
    }
    fn inode(&mut self, inode: u64) -> &mut Inode {
        self.inodes.get_mut(&inode).expect("what has a name or is open is there")
    }
    fn file(&mut self, inode: u64) -> io::Result<&mut File> {
        // The file of another life may have been removed.
        match self.inodes.get_mut(&inode).map(|inode| &mut inode.node) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Folder(_)) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::Error::other("the process was killed")),
        }
    }
    fn folder(&mut self, inode: u64) -> io::Result<&mut Folder> {
        match &mut self.inode(inode).node {
            Node::Folder(folder) => Ok(folder),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }
    fn metadata(&mut self, number: u64) -> Metadata {
        let inode = self.inode(number);
        let (kind, length, pages) = match &inode.node {
            Node::File(file) => (Kind::File, file.cached.length, file.cached.pages.len()),
            Node::Folder(_) => (Kind::Folder, 0, 0),
        };
        let allocated = (pages * PAGE_BYTES) as u64;
        Metadata { kind, length, allocated, identity: (DEVICE, number), links: inode.links, mode: 0o600 }
    }
    fn find(&mut self, path: &Path) -> io::Result<u64> {
        let mut inode = ROOT;
        for component in path.components() {
            if let Component::Normal(name) = component {
                inode = *self.folder(inode)?.cached.get(name).ok_or(io::ErrorKind::NotFound)?;
            }
        }
        Ok(inode)
    }
    fn place(&mut self, path: &Path) -> io::Result<Place> {
        let name = path.file_name().map(OsStr::to_os_string).ok_or(io::ErrorKind::InvalidInput)?;
        let folder = self.find(path.parent().unwrap_or(Path::new("")))?;
        self.folder(folder)?;
        Ok((folder, name))
    }
    fn at(&mut self, place: &Place) -> Option<u64> {
        self.folder(place.0).ok()?.cached.get(&place.1).copied()
    }
}

const PAGE_BYTES: usize = 4096;
const SECTOR_BYTES: usize = 512;
const ROOT: u64 = 1;
const DEVICE: u64 = 1;
/// Its random stream.
const STREAM: u64 = 0xd15c;

#[cfg(test)]
mod tests;

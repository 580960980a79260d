//! A disk in memory whose machine can lose its power, whose processes can be killed, and that fails when told to.
//!
//! ```text
//!   process ──► SimulatedFs ──► cached ── sync ──► durable        one machine; SimulatedDisk is its owner's handle
//!                 of one life     │                   │
//!     kill():  the life ends, cached stays            │
//!     cut_power(): cached := durable and an arbitrary part of what was not synced
//! ```
//! The model is the one that SQLite and TigerBeetle test against, and what Pillai et al. ("All file systems are not created
//! equal", OSDI 2014) found that file systems do:
//!
//! - Of each page that was written since the last sync, each sector of 512 bytes is after a power cut as any of these writes
//!   left it, or as it was before: unsynced writes may be lost, reordered and torn, synced ones are not. A sector is never
//!   torn itself.
//! - The length of a file and the bytes in it are lost separately; what lies between is zeros. What a file was cut by does
//!   not come back behind its end.
//! - A file's name is lost unless its folder was synced, whatever was done to the file. Of names that changed, an arbitrary
//!   part or, as with a journal, a first part stays; a rename is done in one step.
//! - A sync that fails drops what was to be written: the next one succeeds without it. Readers see it still, or see what the
//!   disk has, as the file system likes.
//! - A write that fails may have written any part of it.
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    io,
    path::{Component, Path},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tributary_core::random::Random;

use super::{Access, Create, FileSystem, FsFile, Kind, Lock, Metadata, OpenOptions, Rename, Wait};

/// How often operations fail: probabilities for each single one.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Faults {
    /// A read gives EIO.
    pub read: f64,
    /// A write gives EIO, and may have written a part.
    pub write: f64,
    /// A write or an allocation gives ENOSPC, though there is room.
    pub full: f64,
    /// A write writes only some of the bytes, and says so.
    pub short: f64,
    /// A sync of a file gives EIO and drops what was to be written; one of a folder gives EIO.
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
    /// The file system for a process that starts now. What it does after [`SimulatedDisk::kill`] or
    /// [`SimulatedDisk::cut_power`] fails and changes nothing.
    pub fn start(&self) -> Arc<dyn FileSystem> {
        let life = self.lock().life;
        Arc::new(SimulatedFs { disk: self.clone(), life })
    }
    /// Ends the process: its files are closed, and everything that it wrote stays, synced or not.
    pub fn kill(&self) {
        self.lock().end_life();
    }
    /// Ends the process and the machine: what was synced stays, and an arbitrary part of the rest.
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
    /// What fails from now on; gives what did before.
    pub fn set_faults(&self, faults: Faults) -> Faults {
        std::mem::replace(&mut self.lock().faults, faults)
    }
    /// How many bytes there is room for in all; `None`: any number.
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
    /// Damages what the disk has of a file: flips `bits` of a byte.
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
        // What is behind it is whole between any two statements.
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
            // What comes of it is decided when the power is cut.
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

/// What is behind a [`SimulatedDisk`].
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
    /// Whether the operation that was begun last is one of the process that runs, so that it may have done something
    /// though it has failed.
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
/// Names and what they are to lead to.
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
    /// Begins an operation that fails with the probability that `fault` gives.
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
    /// Changes names; a change that fails may be done all the same.
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
        // In the order in which they were made, whatever their names: some are drawn from the system's entropy.
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
    /// Drops files that nobody can reach any more, not even after a power cut.
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
        // A file without a name and without a user takes no room, though a power cut may bring it back.
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
        // The file of another life may be gone.
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

/// The bytes of a file as readers see them, as the disk has them, and everything that may be lost.
#[derive(Debug)]
struct File {
    cached: Content,
    durable: Content,
    /// What was done since the last sync, from one cut to the next.
    epochs: Vec<Epoch>,
}

impl Default for File {
    fn default() -> Self {
        File { cached: Content::default(), durable: Content::default(), epochs: vec![Epoch::default()] }
    }
}

/// Writes between two cuts.
#[derive(Default, Debug)]
struct Epoch {
    /// It begins by cutting the file to so many bytes.
    cut: Option<u64>,
    /// How each page was left by each write.
    pages: BTreeMap<u64, Vec<Option<Page>>>,
    /// How long the file was made by each write.
    lengths: Vec<u64>,
}

/// What is left of the length of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    /// Any that it had since the last sync.
    Any,
    /// The one that it has.
    Last,
}

impl File {
    fn write(&mut self, bytes: &[u8], offset: u64) {
        if bytes.is_empty() {
            return;
        }
        self.cached.write(bytes, offset);
        self.record(offset, bytes.len() as u64);
    }
    /// Notes how the pages of these bytes are now.
    fn record(&mut self, offset: u64, length: u64) {
        let epoch = self.epochs.last_mut().expect("there is always one");
        for page in offset / PAGE_BYTES as u64..(offset + length).div_ceil(PAGE_BYTES as u64) {
            epoch.pages.entry(page).or_default().push(self.cached.pages.get(&page).cloned());
        }
        epoch.lengths.push(self.cached.length);
    }
    fn set_len(&mut self, length: u64) {
        if length < self.cached.length {
            self.cached.cut(length);
            self.epochs.push(Epoch { cut: Some(length), ..Epoch::default() });
        } else {
            self.cached.length = length;
            self.epochs.last_mut().expect("there is always one").lengths.push(length);
        }
    }
    fn allocate(&mut self, offset: u64, length: u64) {
        for page in offset / PAGE_BYTES as u64..(offset + length).div_ceil(PAGE_BYTES as u64) {
            self.cached.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE_BYTES]));
        }
        self.set_len(self.cached.length.max(offset + length));
    }
    fn punch_hole(&mut self, offset: u64, length: u64) {
        let end = (offset + length).min(self.cached.length);
        if offset >= end {
            return;
        }
        let first_page = offset.div_ceil(PAGE_BYTES as u64);
        let end_page = end / PAGE_BYTES as u64;
        for page in offset / PAGE_BYTES as u64..end.div_ceil(PAGE_BYTES as u64) {
            if (first_page..end_page).contains(&page) {
                self.cached.pages.remove(&page);
            } else if let Some(bytes) = self.cached.pages.get_mut(&page) {
                let start = page * PAGE_BYTES as u64;
                let range = offset.max(start) - start..end.min(start + PAGE_BYTES as u64) - start;
                Arc::make_mut(bytes)[range.start as usize..range.end as usize].fill(0);
            }
        }
        self.record(offset, end - offset);
    }
    /// A sync that succeeds.
    fn settle(&mut self) {
        for epoch in std::mem::replace(&mut self.epochs, vec![Epoch::default()]) {
            if let Some(length) = epoch.cut {
                self.durable.cut(length);
            }
            for (page, mut versions) in epoch.pages {
                self.durable.set_page(page, versions.pop().flatten());
            }
            self.durable.length = epoch.lengths.last().copied().unwrap_or(self.durable.length);
        }
    }
    /// What the disk may have if it stops now.
    fn remains(&mut self, random: &mut Random, length: Length) -> Content {
        let mut content = self.durable.clone();
        let epochs = std::mem::take(&mut self.epochs);
        let last = match length {
            Length::Any => random.below(epochs.len() as u64) as usize,
            Length::Last => epochs.len() - 1,
        };
        // Often all or nothing of it, else a part.
        let kept = [0.0, 0.5, 0.9, 1.0][random.below(4) as usize];
        let is_torn = random.chance(0.5);
        for (number, epoch) in epochs.into_iter().take(last + 1).enumerate() {
            if let Some(length) = epoch.cut {
                content.cut(length);
            }
            for (page, mut versions) in epoch.pages {
                let pick = |random: &mut Random| {
                    let newest = versions.len() - 1;
                    random.chance(kept).then(|| match random.chance(0.7) {
                        true => newest,
                        false => random.below(versions.len() as u64) as usize,
                    })
                };
                if !is_torn {
                    if let Some(version) = pick(random) {
                        content.set_page(page, versions.swap_remove(version));
                    }
                    continue;
                }
                let mut bytes = content.pages.get(&page).map_or([0; PAGE_BYTES], |page| **page);
                for (sector, bytes) in bytes.chunks_exact_mut(SECTOR_BYTES).enumerate() {
                    if let Some(version) = pick(random) {
                        let from = sector * SECTOR_BYTES;
                        match &versions[version] {
                            Some(page) => bytes.copy_from_slice(&page[from..from + SECTOR_BYTES]),
                            None => bytes.fill(0),
                        }
                    }
                }
                content.set_page(page, Some(Arc::new(bytes)));
            }
            let pick = match length {
                Length::Any if number == last => random.below(epoch.lengths.len() as u64 + 1).checked_sub(1),
                _ => (epoch.lengths.len() as u64).checked_sub(1),
            };
            content.length = pick.map_or(content.length, |pick| epoch.lengths[pick as usize]);
        }
        let length = content.length;
        content.cut(length);
        content
    }
}

/// Bytes in pages; a page that is not there is zeros, and behind the length there is nothing.
#[derive(Clone, Default, Debug)]
struct Content {
    pages: BTreeMap<u64, Page>,
    length: u64,
}

type Page = Arc<[u8; PAGE_BYTES]>;

impl Content {
    fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let count = (self.length.saturating_sub(offset)).min(buffer.len() as u64) as usize;
        for (start, end, page, within) in pieces(offset, count) {
            match self.pages.get(&page) {
                Some(page) => buffer[start..end].copy_from_slice(&page[within..within + end - start]),
                None => buffer[start..end].fill(0),
            }
        }
        count
    }
    fn write(&mut self, bytes: &[u8], offset: u64) {
        for (start, end, page, within) in pieces(offset, bytes.len()) {
            let page = self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE_BYTES]));
            Arc::make_mut(page)[within..within + end - start].copy_from_slice(&bytes[start..end]);
        }
        self.length = self.length.max(offset + bytes.len() as u64);
    }
    /// How many of `count` bytes at `offset` can be written if there is room for so many pages more.
    fn fits(&self, count: usize, offset: u64, mut room: u64) -> usize {
        if room == u64::MAX {
            return count;
        }
        for (start, _, page, _) in pieces(offset, count) {
            if !self.pages.contains_key(&page) {
                if room == 0 {
                    return start;
                }
                room -= 1;
            }
        }
        count
    }
    fn cut(&mut self, length: u64) {
        let within = (length % PAGE_BYTES as u64) as usize;
        drop(self.pages.split_off(&length.div_ceil(PAGE_BYTES as u64)));
        if within > 0
            && let Some(page) = self.pages.get_mut(&(length / PAGE_BYTES as u64))
        {
            Arc::make_mut(page)[within..].fill(0);
        }
        self.length = length;
    }
    fn set_page(&mut self, page: u64, bytes: Option<Page>) {
        match bytes {
            Some(bytes) => drop(self.pages.insert(page, bytes)),
            None => drop(self.pages.remove(&page)),
        }
    }
}

/// Cuts `count` bytes at `offset` by pages: from and to where among these bytes, the page, and from where in it.
fn pieces(offset: u64, count: usize) -> impl Iterator<Item = (usize, usize, u64, usize)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        if start == count {
            return None;
        }
        let at = offset + start as u64;
        let within = (at % PAGE_BYTES as u64) as usize;
        let end = count.min(start + PAGE_BYTES - within);
        let piece = (start, end, at / PAGE_BYTES as u64, within);
        start = end;
        Some(piece)
    })
}

const PAGE_BYTES: usize = 4096;
const SECTOR_BYTES: usize = 512;
const ROOT: u64 = 1;
const DEVICE: u64 = 1;
/// Its random stream.
const STREAM: u64 = 0xd15c;

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(fs: &dyn FileSystem, path: &str) -> Option<Vec<u8>> {
        super::super::read(fs, Path::new(path)).ok()
    }
    fn disk(seed: u64) -> (SimulatedDisk, Arc<dyn FileSystem>) {
        let disk = SimulatedDisk::new(seed);
        let fs = disk.start();
        (disk, fs)
    }

    #[test]
    fn a_power_cut_keeps_what_was_synced_and_an_arbitrary_part_of_the_rest() {
        let mut outcomes = BTreeSet::new();
        for seed in 0..2000 {
            let (disk, fs) = disk(seed);
            let file = fs.open(Path::new("/a"), OpenOptions::CREATE).unwrap();
            file.write_all_at(&[1; 1024], 0).unwrap();
            file.sync_data().unwrap();
            fs.sync_folder(Path::new("/")).unwrap();
            file.write_all_at(&[2; 1024], 0).unwrap();
            file.write_all_at(&[3; 700], 1024).unwrap();
            disk.cut_power();
            assert!(file.write_at(&[9], 0).is_err(), "a process that has ended writes nothing");
            let found = bytes(&*disk.start(), "/a").expect("its name was synced");
            assert!(found.len() == 1024 || found.len() == 1724, "{}", found.len());
            for (sector, bytes) in found.chunks(SECTOR_BYTES).enumerate() {
                let allowed: &[u8] = if sector < 2 { &[1, 2] } else { &[0, 3] };
                assert!(allowed.contains(&bytes[0]) && bytes.iter().all(|byte| *byte == bytes[0]), "sector {sector}");
            }
            outcomes.insert(found.chunks(SECTOR_BYTES).map(|sector| sector[0]).collect::<Vec<_>>());
        }
        // Two sectors that are old or new, and two at the end that are missing, zero or new.
        assert_eq!(outcomes.len(), 4 * (1 + 4), "{outcomes:?}");
    }

    #[test]
    fn names_are_lost_unless_their_folder_was_synced_and_renames_are_done_in_one_step() {
        let mut outcomes = BTreeSet::new();
        for seed in 0..200 {
            let (disk, fs) = disk(seed);
            for name in ["/old", "/other"] {
                let file = fs.open(Path::new(name), OpenOptions::CREATE).unwrap();
                file.write_all_at(name.as_bytes(), 0).unwrap();
                file.sync_all().unwrap();
            }
            fs.sync_folder(Path::new("/")).unwrap();
            fs.rename(Path::new("/other"), Path::new("/old"), Rename::Replace).unwrap();
            let new = fs.open(Path::new("/new"), OpenOptions::CREATE_NEW).unwrap();
            new.sync_all().unwrap();
            disk.cut_power();
            let fs = disk.start();
            let (old, other) = (bytes(&*fs, "/old").unwrap(), bytes(&*fs, "/other"));
            assert!(match &old[..] {
                b"/old" => other.as_deref() == Some(b"/other"),
                b"/other" => other.is_none(),
                _ => false,
            });
            outcomes.insert((old, bytes(&*fs, "/new").is_some()));
        }
        assert_eq!(outcomes.len(), 4, "{outcomes:?}");
    }

    #[test]
    fn a_sync_that_fails_drops_what_it_was_to_write_and_the_next_one_does_not_tell() {
        let (mut lost, mut seen) = (0, 0);
        for seed in 0..100 {
            let (disk, fs) = disk(seed);
            let file = fs.open(Path::new("/a"), OpenOptions::CREATE).unwrap();
            fs.sync_folder(Path::new("/")).unwrap();
            file.write_all_at(&[1; 512], 0).unwrap();
            disk.set_faults(Faults { sync: 1.0, ..Faults::NONE });
            assert!(file.sync_data().is_err());
            disk.set_faults(Faults::NONE);
            file.sync_data().expect("it is dropped");
            seen += u32::from(bytes(&*fs, "/a").unwrap() == [1; 512]);
            disk.cut_power();
            lost += u32::from(bytes(&*disk.start(), "/a").unwrap() == [0; 512]);
        }
        assert!((10..90).contains(&lost) && seen > 100 - lost, "lost {lost}, seen {seen}");
    }

    #[test]
    fn what_a_file_was_cut_by_does_not_come_back_behind_its_end() {
        for seed in 0..500 {
            let (disk, fs) = disk(seed);
            let file = fs.open(Path::new("/a"), OpenOptions::CREATE).unwrap();
            fs.sync_folder(Path::new("/")).unwrap();
            file.write_all_at(&[1; 9000], 0).unwrap();
            file.sync_data().unwrap();
            file.set_len(100).unwrap();
            file.set_len(5000).unwrap();
            file.write_all_at(&[2; 1000], 4000).unwrap();
            disk.cut_power();
            let found = bytes(&*disk.start(), "/a").unwrap();
            match found.len() {
                9000 => assert!(found.iter().all(|byte| *byte == 1)),
                100 | 5000 => {
                    assert!(found[..100].iter().all(|byte| *byte == 1));
                    assert!(found[100..].iter().all(|byte| *byte != 1), "it comes back");
                }
                other => panic!("{other} bytes"),
            }
        }
    }

    #[test]
    fn a_killed_process_leaves_what_it_wrote_and_a_full_disk_takes_no_more() {
        let (disk, fs) = disk(1);
        disk.set_room(Some(8192));
        let file = fs.open(Path::new("/a"), OpenOptions::CREATE).unwrap();
        assert_eq!(file.write_at(&[1; 10_000], 0).unwrap(), 8192);
        assert_eq!(file.write_at(&[1; 10], 8192).unwrap_err().kind(), io::ErrorKind::StorageFull);
        file.lock(Lock::Exclusive, Wait::Never).unwrap();
        disk.kill();
        let fs = disk.start();
        assert_eq!(bytes(&*fs, "/a").unwrap(), [1; 8192]);
        let file = fs.open(Path::new("/a"), OpenOptions::WRITE).unwrap();
        file.lock(Lock::Exclusive, Wait::Never).expect("locks go with their process");
        let again = fs.open(Path::new("/a"), OpenOptions::READ).unwrap();
        assert_eq!(again.lock(Lock::Shared, Wait::Never).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        file.punch_hole(0, 4096).unwrap();
        assert_eq!((disk.used_bytes(), fs.free_bytes(Path::new("/"))), (4096, Some(4096)));
        fs.remove_file(Path::new("/a")).unwrap();
        assert_eq!(disk.used_bytes(), 4096, "it is open");
        drop((file, again));
        assert_eq!(disk.used_bytes(), 0);
    }

    #[test]
    fn a_process_can_be_stopped_in_the_middle_of_any_operation() {
        let mut lengths = BTreeSet::new();
        for seed in 0..50 {
            let (disk, fs) = disk(seed);
            let file = fs.open(Path::new("/a"), OpenOptions::CREATE).unwrap();
            disk.stop_after(2);
            file.write_all_at(&[1; 3], 0).unwrap();
            assert!(file.write_all_at(&[2; 3], 3).is_err() && disk.is_stopped());
            assert!(file.write_all_at(&[3; 3], 3).is_err() && fs.remove_file(Path::new("/a")).is_err());
            disk.kill();
            let found = bytes(&*disk.start(), "/a").unwrap();
            assert!(found.starts_with(&[1; 3]) && found[3..].iter().all(|byte| *byte == 2));
            lengths.insert(found.len());
        }
        assert_eq!(lengths, BTreeSet::from([3, 4, 5, 6]));
    }
}

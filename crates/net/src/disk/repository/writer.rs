//! Writes chunks into segments and frees their space.
use std::{
    collections::{BTreeMap, BTreeSet},
    io, mem,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::Mutex;

use super::{
    super::{
        age::Age,
        fs::{FileSystem, FsFile, OpenOptions, Rename, create_folders},
    },
    Damage, Listed, file,
    segment::{self, Place},
};

/// Where a committed chunk is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Where {
    /// In a segment.
    Segment(Place),
    /// In a single-chunk file.
    File,
}

/// Where committed chunks are, by their numbers; for both threads.
#[derive(Clone, Default, Debug)]
pub(super) struct Places(pub(super) Arc<Mutex<Known>>);

/// See [`Places`].
#[derive(Default, Debug)]
pub(super) struct Known {
    pub(super) chunks: BTreeMap<u64, Where>,
    /// Chunks that a reader has found damaged.
    pub(super) damaged: BTreeSet<u64>,
}

tributary_core::declared! {
    /// Appends chunks to segments, and frees the space of removed chunks: by punching holes; by removing segments
    /// without chunks; by moving the few remaining chunks out of a segment.
    ///
    /// A step that fails leaves its unfinished work here ([`Debt`]), and the next commit completes it before it reports
    /// success. A sync that has failed once proves nothing when it succeeds the next time, so its data is written
    /// again.
    pub(super) struct Writer {
        fs: Arc<dyn FileSystem> = fs,
        folder: PathBuf = folder.into(),
        places: Places = places,
        /// What lifetimes of chunks are counted by.
        age: Age = age,
        segments: BTreeMap<u64, Segment> = BTreeMap::new(),
        next_segment: u64 = 0,
        /// The segment that grows.
        current: Option<Current> = None,
        /// Put since the last commit.
        uncommitted: BTreeMap<u64, Place> = BTreeMap::new(),
        /// Removed since the last commit, in segments.
        removed: Vec<Place> = Vec::new(),
        /// Work that the next commit must complete on the disk, by segment.
        debts: BTreeMap<u64, Debt> = BTreeMap::new(),
        /// Segments and files without wanted chunks whose names still exist.
        doomed: BTreeSet<u64> = BTreeSet::new(),
        doomed_files: BTreeSet<u64> = BTreeSet::new(),
        /// Whether files were added or removed since the last commit, so that the next one must sync the folder.
        folder_changed: bool = false,
        /// The failure since the last commit.
        failed: Option<io::Error> = None,
        buffer: Vec<u8> = Vec::new(),
    }
    pub(super) fn new(fs: Arc<dyn FileSystem>, folder: &Path, places: Places, age: Age) {}
}

/// A file with chunks.
#[derive(Default)]
struct Segment {
    /// Chunks that were not removed.
    live: BTreeSet<u64>,
    live_bytes: u64,
    /// Its bytes on the disk.
    bytes: u64,
    /// Whether something in it is damaged: then it is not removed but put aside.
    is_damaged: bool,
}

/// What must be on the disk of a segment before a commit is done.
#[derive(Default)]
struct Debt {
    /// Open, if it was written to.
    file: Option<Arc<dyn FsFile>>,
    /// The starts of chunks that are marked as removed.
    marks: BTreeSet<u64>,
    /// The end of the valid part: bytes behind it were half written.
    cut: Option<u64>,
    /// Whether marks and cut must be repeated.
    again: bool,
}

struct Current {
    number: u64,
    file: Arc<dyn FsFile>,
    /// The next chunk starts here.
    end: u64,
    /// Up to here it is on the disk.
    durable: u64,
    /// Up to here the file system has allocated space.
    allocated: u64,
    /// Whether it does that.
    allocates: bool,
}

impl Writer {
    // Finds the existing chunks.

    /// Lists the chunks, and ensures that all of them are on the disk. Segments of an earlier process get no further
    /// chunks.
    pub(super) fn list(&mut self) -> io::Result<Listed> {
        create_folders(&*self.fs, &self.folder)?;
        self.age.load(&*self.fs)?;
        self.close();
        // On a repeated call: a former failure would be found.
        self.pay_all()?;
        self.uncommitted.clear();
        let (mut numbers, mut files) = (BTreeSet::new(), BTreeSet::new());
        for name in self.fs.list(&self.folder)? {
            let path = self.folder.join(&name);
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            match (extension, u64::from_str_radix(stem, 16)) {
                ("new", Ok(_)) => drop(self.fs.remove_file(&path)),
                ("chunks", Ok(number)) => drop(numbers.insert(number)),
                ("chunk", Ok(id)) => drop(files.insert(id)),
                _ => {}
            }
        }
        let mut listed = Listed::default();
        let mut found = BTreeMap::new();
        let mut heads = BTreeMap::new();
        for id in files {
            let path = file::path(&self.folder, id);
            match file::head(&*self.fs, &path)? {
                Some((head, bytes)) => {
                    heads.insert(id, (head, bytes));
                    found.insert(id, Where::File);
                }
                None => self.put_file_aside(&path, &mut listed.damage),
            }
        }
        self.segments.clear();
        self.removed.clear();
        let mut doubles = BTreeMap::<u64, Vec<Where>>::new();
        for number in numbers {
            self.next_segment = self.next_segment.max(number + 1);
            let file = self.open(number)?;
            let contents = segment::contents(&*file, number)?;
            self.take_over(number, file, &contents, &mut listed.damage)?;
            for one in contents.found.into_iter().filter(|one| one.is_live) {
                heads.insert(one.id, (one.head, one.place.payload_bytes));
                if let Some(older) = found.insert(one.id, Where::Segment(one.place)) {
                    doubles.entry(one.id).or_default().push(older);
                }
            }
        }
        for (id, older) in doubles {
            self.keep_one(id, older, &mut found, &mut heads)?;
        }
        for (id, place) in &found {
            if let Where::Segment(place) = place {
                let segment = self.segments.entry(place.segment).or_default();
                segment.live.insert(*id);
                segment.live_bytes += place.bytes();
            }
        }
        *self.places.0.lock() = Known { chunks: found, damaged: BTreeSet::new() };
        // Listed chunks count as durable from now on, and their names may be on no disk yet.
        self.folder_changed = true;
        self.pay_all()?;
        let numbers: Vec<u64> = self.segments.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.try_to_tidy(number));
        listed.damage.files = self.damaged_files().len() as u64;
        listed.chunks = heads.into_iter().map(|(id, (head, bytes))| (id, head, bytes)).collect();
        Ok(listed)
    }
    /// Takes over a segment of an earlier process. That process may have ended after a sync had failed: the system then
    /// shows from memory the bytes that it has dropped, and no later sync writes them. So removals, and chunks that no
    /// later one proves durable, are written again.
    fn take_over(
        &mut self,
        number: u64,
        file: Arc<dyn FsFile>,
        contents: &segment::Contents,
        damage: &mut Damage,
    ) -> io::Result<()> {
        let path = segment::path(&self.folder, number);
        let mut segment = Segment { bytes: contents.end, ..Segment::default() };
        let mut debt = Debt { file: Some(Arc::clone(&file)), again: true, ..Debt::default() };
        for (from, to) in &contents.damaged {
            damage.places += 1;
            damage.bytes += to - from;
            segment.is_damaged = true;
            tracing::warn!(
                path = %path.display(), from, to,
                "stored chunks are damaged and lost; the file is put into the folder '{DAMAGED_FOLDER}' once its others have left"
            );
        }
        let unfinished: u64 =
            contents.torn.iter().map(|one| one.place.bytes()).sum::<u64>() + contents.unfinished(&*file)?;
        if unfinished > 0 {
            damage.unfinished_bytes += unfinished;
            tracing::warn!(
                path = %path.display(), bytes = unfinished,
                "chunks are incomplete: they were being stored, and not yet confirmed, when the process or the \
                 machine ended, or the disk has damaged them"
            );
        }
        // Damaged bytes are kept for diagnosis.
        if !segment.is_damaged && contents.end < contents.length {
            debt.cut = Some(contents.end);
        }
        for one in contents.found.iter().filter(|one| !one.is_live).chain(&contents.torn) {
            // The earlier life may have ended before it gave that back.
            segment.bytes -= hole_bytes(&one.place);
            self.removed.push(one.place);
            debt.marks.insert(one.place.at);
        }
        for one in contents.found.iter().filter(|one| one.is_live && one.place.end() > contents.durable) {
            rewrite(&*file, &one.place)?;
        }
        self.segments.insert(number, segment);
        self.debts.insert(number, debt);
        Ok(())
    }
    /// Keeps the newest whole chunk among those with the same number, which a move in progress leaves. If another one
    /// stayed, it would come back when that is removed.
    fn keep_one(
        &mut self,
        id: u64,
        mut places: Vec<Where>,
        found: &mut BTreeMap<u64, Where>,
        heads: &mut BTreeMap<u64, (Vec<u8>, u64)>,
    ) -> io::Result<()> {
        places.extend(found.get(&id).copied());
        let mut chosen = places.len() - 1;
        for (number, place) in places.iter().enumerate().rev() {
            let complete = match place {
                Where::Segment(place) => segment::read(&*self.fs, &self.folder, place)?,
                Where::File => match file::read(&*self.fs, &self.folder, id)? {
                    Some(payload) => {
                        file::head(&*self.fs, &file::path(&self.folder, id))?.map(|(head, _)| (head, payload))
                    }
                    None => None,
                },
            };
            if let Some((head, payload)) = complete {
                chosen = number;
                heads.insert(id, (head, payload.len() as u64));
                break;
            }
        }
        let kept = places.swap_remove(chosen);
        found.insert(id, kept);
        for place in places {
            match place {
                Where::Segment(place) => {
                    if let Some(segment) = self.segments.get_mut(&place.segment) {
                        segment.bytes -= hole_bytes(&place);
                    }
                    self.mark(place)?;
                }
                Where::File => self.remove_own_file(id)?,
            }
        }
        Ok(())
    }

    // Commands.

    /// Appends a chunk; the commit reports failures.
    pub(super) fn put(&mut self, id: u64, head: &[u8], payload: &[Bytes]) {
        match self.append(id, head, payload) {
            Ok(place) => drop(self.uncommitted.insert(id, place)),
            Err(error) => self.fail(error),
        }
    }
    /// Removes a chunk; the commit reports failures.
    pub(super) fn remove(&mut self, id: u64) {
        let removed = match self.uncommitted.remove(&id) {
            Some(place) => self.forget(id, place),
            None => {
                let mut known = self.places.0.lock();
                let (place, is_damaged) = (known.chunks.remove(&id), known.damaged.remove(&id));
                drop(known);
                match place {
                    Some(Where::Segment(place)) => {
                        if is_damaged && let Some(segment) = self.segments.get_mut(&place.segment) {
                            segment.is_damaged = true;
                        }
                        self.forget(id, place)
                    }
                    Some(Where::File) => self.remove_own_file(id),
                    None => Ok(()),
                }
            }
        };
        if let Err(error) = removed {
            self.fail(error);
        }
    }
    /// Waits until everything is on the disk; returns the chunks that were put.
    pub(super) fn commit(&mut self) -> io::Result<Vec<u64>> {
        let made = self.failed.take().map_or(Ok(()), Err).and_then(|()| self.pay_all());
        let made = made.and_then(|()| self.age.save(&*self.fs));
        let put = mem::take(&mut self.uncommitted);
        if let Err(error) = made {
            // The disk's copy is uncertain, and the chunk will not be read again.
            self.close();
            for (id, place) in put {
                let _ = self.forget(id, place);
            }
            return Err(error);
        }
        self.places.0.lock().chunks.extend(put.iter().map(|(id, place)| (*id, Where::Segment(*place))));
        if let Some(current) = &mut self.current {
            current.durable = current.end;
        }
        let removed = mem::take(&mut self.removed);
        self.give_back(&removed);
        Ok(put.into_keys().collect())
    }

    /// Records the chunks' age, if there are any.
    pub(super) fn note_age(&self) {
        if !self.places.0.lock().chunks.is_empty() {
            // The mark before it counts on, and the next commit writes another one.
            let _ = self.age.save(&*self.fs);
        }
    }

    // Paying debts.

    /// Pays all debts to the disk. Failed ones stay.
    fn pay_all(&mut self) -> io::Result<()> {
        let numbers: Vec<u64> = self.debts.keys().copied().collect();
        for number in numbers {
            self.pay(number)?;
            self.debts.remove(&number);
        }
        for number in self.doomed.clone() {
            self.dispose(number)?;
            self.doomed.remove(&number);
        }
        for id in self.doomed_files.clone() {
            self.unlink(&file::path(&self.folder, id))?;
            self.doomed_files.remove(&id);
        }
        if self.folder_changed {
            self.fs.sync_folder(&self.folder)?;
            self.folder_changed = false;
        }
        Ok(())
    }
    fn pay(&mut self, number: u64) -> io::Result<()> {
        let file = match self.debts.get(&number).and_then(|debt| debt.file.clone()) {
            Some(file) => file,
            None => self.open(number)?,
        };
        let Some(debt) = self.debts.get_mut(&number) else { return Ok(()) };
        debt.file = Some(Arc::clone(&file));
        if debt.again {
            if let Some(end) = debt.cut {
                file.set_len(end)?;
            }
            debt.marks.iter().try_for_each(|at| segment::mark_removed(&*file, *at))?;
        }
        // If this fails the system drops the unwritten bytes.
        debt.again = true;
        file.sync_data()
    }
    fn fail(&mut self, error: io::Error) {
        self.failed.get_or_insert(error);
    }
    /// The debt of a segment.
    fn owe(&mut self, number: u64) -> &mut Debt {
        let file = self.current.as_ref().filter(|current| current.number == number);
        let file = file.map(|current| Arc::clone(&current.file));
        self.debts.entry(number).or_insert_with(|| Debt { file, ..Debt::default() })
    }
    fn open(&self, number: u64) -> io::Result<Arc<dyn FsFile>> {
        match &self.current {
            Some(current) if current.number == number => Ok(Arc::clone(&current.file)),
            _ => self.fs.open(&segment::path(&self.folder, number), OpenOptions::WRITE),
        }
    }
    /// Removes a name; a missing name is no error.
    fn unlink(&mut self, path: &Path) -> io::Result<()> {
        // It may be done though it fails.
        self.folder_changed = true;
        match self.fs.remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    // Appending.

    fn append(&mut self, id: u64, head: &[u8], payload: &[Bytes]) -> io::Result<Place> {
        if self.current.as_ref().is_some_and(|current| current.end >= SEGMENT_BYTES) {
            self.close();
        }
        if self.current.is_none() {
            self.begin_segment()?;
        }
        let current = self.current.as_mut().expect("one was begun");
        segment::encode(&mut self.buffer, id, current.durable, head, payload);
        let bytes = self.buffer.len() as u64;
        current.allocate(bytes);
        let written = current.file.write_all_at(&self.buffer, current.end);
        self.buffer.shrink_to(BUFFER_BYTES_KEPT);
        let place = Place {
            segment: current.number,
            at: current.end,
            head_bytes: head.len() as u32,
            payload_bytes: payload.iter().map(|piece| piece.len() as u64).sum(),
        };
        self.owe(place.segment);
        if let Err(error) = written {
            // The whole chunk may be on the disk nevertheless.
            self.owe(place.segment).cut = Some(place.at);
            self.owe(place.segment).again = true;
            self.close();
            return Err(error);
        }
        if let Some(current) = &mut self.current {
            current.end += bytes;
        }
        let segment = self.segments.entry(place.segment).or_default();
        segment.live.insert(id);
        segment.live_bytes += bytes;
        segment.bytes += bytes;
        Ok(place)
    }
    fn begin_segment(&mut self) -> io::Result<()> {
        for _ in 0..SEGMENTS_TRIED {
            let number = self.next_segment;
            self.folder_changed = true;
            match self.fs.open(&segment::path(&self.folder, number), OpenOptions::CREATE_NEW) {
                // An attempt that failed may have made it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.next_segment += 1,
                Err(error) => return Err(error),
                Ok(file) => {
                    self.next_segment += 1;
                    self.segments.insert(number, Segment::default());
                    self.current = Some(Current { number, file, end: 0, durable: 0, allocated: 0, allocates: true });
                    return Ok(());
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "the names for its next files are taken"))
    }
    /// Stops appending to the current segment.
    fn close(&mut self) {
        if let Some(mut current) = self.current.take() {
            if current.durable == current.end && current.end > 0 {
                // Without it a start cannot determine which of the last chunks were promised; nothing else is lost.
                let seal = segment::seal(current.end);
                current.end += match current.file.write_all_at(&seal, current.end) {
                    Ok(()) => seal.len() as u64,
                    Err(_) => 0,
                };
            }
            // Half-written bytes, or space that was set aside and not needed.
            let _ = current.file.set_len(current.end);
        }
    }

    // Removing.

    fn forget(&mut self, id: u64, place: Place) -> io::Result<()> {
        if let Some(segment) = self.segments.get_mut(&place.segment)
            && segment.live.remove(&id)
        {
            segment.live_bytes -= place.bytes();
            segment.bytes -= hole_bytes(&place);
        }
        self.mark(place)
    }
    fn mark(&mut self, place: Place) -> io::Result<()> {
        self.removed.push(place);
        if self.doomed.contains(&place.segment) {
            return Ok(());
        }
        let debt = self.owe(place.segment);
        debt.marks.insert(place.at);
        let marked = match debt.file.clone() {
            Some(file) => segment::mark_removed(&*file, place.at),
            None => self.open(place.segment).and_then(|file| {
                self.owe(place.segment).file = Some(Arc::clone(&file));
                segment::mark_removed(&*file, place.at)
            }),
        };
        self.owe(place.segment).again |= marked.is_err();
        marked
    }
    fn remove_own_file(&mut self, id: u64) -> io::Result<()> {
        self.doomed_files.insert(id);
        self.unlink(&file::path(&self.folder, id))?;
        self.doomed_files.remove(&id);
        Ok(())
    }
    /// Returns the space of removed chunks to the file system. On an error it stays in use, without other consequences.
    fn give_back(&mut self, removed: &[Place]) {
        let numbers: BTreeSet<u64> = removed.iter().map(|place| place.segment).collect();
        for place in removed.iter().filter(|place| hole_bytes(place) > 0) {
            let is_kept = |segment: &Segment| !segment.live.is_empty() && !segment.is_damaged;
            if self.segments.get(&place.segment).is_some_and(is_kept)
                && let Ok(file) = self.open(place.segment)
            {
                let _ = file.punch_hole(place.payload_at(), place.payload_bytes);
            }
        }
        numbers.into_iter().for_each(|number| self.try_to_tidy(number));
    }
    fn try_to_tidy(&mut self, number: u64) {
        if let Err(error) = self.tidy(number) {
            let path = segment::path(&self.folder, number);
            tracing::warn!(path = %path.display(), %error, "cannot free the space of removed chunks");
        }
    }
    /// Removes a segment that is empty, or whose few remaining chunks can be moved.
    fn tidy(&mut self, number: u64) -> io::Result<()> {
        let Some(segment) = self.segments.get(&number) else { return Ok(()) };
        let is_empty = segment.live.is_empty();
        let is_due = match self.current.as_ref().filter(|current| current.number == number) {
            Some(current) => is_empty && current.end >= TIDY_BYTES_MIN,
            None => is_empty || segment.bytes >= TIDY_BYTES_MIN && segment.bytes / 4 > segment.live_bytes,
        };
        if !is_due {
            return Ok(());
        }
        self.current.take_if(|current| current.number == number);
        if !is_empty {
            self.move_out_of(number)?;
        }
        // Its chunks are elsewhere or removed, and no commit confirms their removal until its name is removed durably.
        self.debts.remove(&number);
        self.doomed.insert(number);
        self.dispose(number)?;
        self.doomed.remove(&number);
        Ok(())
    }
    fn move_out_of(&mut self, number: u64) -> io::Result<()> {
        let ids: Vec<u64> = self.segments.get(&number).into_iter().flat_map(|segment| &segment.live).copied().collect();
        let mut moved = Vec::new();
        let move_all = || -> io::Result<()> {
            for id in ids {
                let place = self.places.0.lock().chunks.get(&id).copied();
                let Some(Where::Segment(place)) = place else { continue };
                let path = segment::path(&self.folder, number);
                let damaged = || io::Error::other(format!("{} is damaged at byte {}", path.display(), place.at));
                let (head, payload) = segment::read(&*self.fs, &self.folder, &place)?.ok_or_else(damaged)?;
                moved.push((id, self.append(id, &head, &[payload])?));
            }
            self.pay_all()
        };
        if let Err(error) = move_all() {
            self.close();
            for (id, place) in moved {
                let _ = self.forget(id, place);
            }
            // It is not retried.
            if let Some(segment) = self.segments.get_mut(&number) {
                segment.bytes = segment.live_bytes;
            }
            return Err(error);
        }
        self.places.0.lock().chunks.extend(moved.iter().map(|(id, place)| (*id, Where::Segment(*place))));
        if let Some(current) = &mut self.current {
            current.durable = current.end;
        }
        Ok(())
    }

    // The damaged file.

    /// Removes the file of a segment, or puts it aside if something in it is damaged.
    fn dispose(&mut self, number: u64) -> io::Result<()> {
        let path = segment::path(&self.folder, number);
        let is_damaged = self.segments.get(&number).is_some_and(|segment| segment.is_damaged);
        if !(is_damaged && self.put_aside(&path)) {
            self.unlink(&path)?;
        }
        self.segments.remove(&number);
        Ok(())
    }
    fn put_file_aside(&mut self, path: &Path, damage: &mut Damage) {
        damage.places += 1;
        damage.bytes += self.fs.metadata(path).map_or(0, |metadata| metadata.length);
        let is_kept = self.put_aside(path);
        tracing::warn!(path = %path.display(), is_kept, "a stored chunk is damaged and lost; its file is put into the folder '{DAMAGED_FOLDER}'");
    }
    /// Moves a damaged file to a folder that is not scanned for chunks, so that a person can examine it; true if it was
    /// moved.
    fn put_aside(&mut self, path: &Path) -> bool {
        let folder = self.folder.join(DAMAGED_FOLDER);
        let kept = self.damaged_files();
        let Some(name) = path.file_name().filter(|_| kept.len() < DAMAGED_FILES_MAX) else { return false };
        let name = name.to_string_lossy();
        let made = create_folders(&*self.fs, &folder).and_then(|()| {
            let free = (0..).map(|number| format!("{name}.{number}")).find(|name| !kept.contains(name));
            self.fs.rename(path, &folder.join(free.expect("not all are taken")), Rename::NoReplace)
        });
        self.folder_changed |= made.is_ok();
        made.is_ok()
    }
    fn damaged_files(&self) -> Vec<String> {
        let names = self.fs.list(&self.folder.join(DAMAGED_FOLDER)).unwrap_or_default();
        names.iter().map(|name| name.to_string_lossy().into_owned()).collect()
    }
}
impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

impl Current {
    /// Allocates space for `bytes` more, and for as many again as there are.
    fn allocate(&mut self, bytes: u64) {
        if self.allocates && self.end + bytes > self.allocated {
            let ahead = bytes.max(self.end.clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX));
            self.allocates = self.file.allocate(self.end, ahead).is_ok();
            self.allocated = self.end + ahead;
        }
    }
}

impl segment::Contents {
    /// Nonzero bytes after the last chunk of an otherwise intact file.
    fn unfinished(&self, file: &dyn FsFile) -> io::Result<u64> {
        if !self.damaged.is_empty() {
            return Ok(0);
        }
        let mut window = vec![0; WINDOW_BYTES.min(self.length - self.end) as usize];
        let (mut at, mut last) = (self.end, self.end);
        while at < self.length {
            let bytes = (self.length - at).min(window.len() as u64) as usize;
            file.read_exact_at(&mut window[..bytes], at)?;
            last = window[..bytes].iter().rposition(|byte| *byte != 0).map_or(last, |found| at + found as u64 + 1);
            at += bytes as u64;
        }
        Ok(last - self.end)
    }
}

/// Writes a chunk where it is, because a sync may have dropped it.
fn rewrite(file: &dyn FsFile, place: &Place) -> io::Result<()> {
    let mut bytes = vec![0; place.bytes() as usize];
    file.read_exact_at(&mut bytes, place.at)?;
    file.write_all_at(&bytes, place.at)
}
/// The bytes of a removed chunk that are given back while its segment has other chunks.
fn hole_bytes(place: &Place) -> u64 {
    if place.payload_bytes >= HOLE_BYTES_MIN { place.payload_bytes } else { 0 }
}

/// A segment of this many bytes is closed.
const SEGMENT_BYTES: u64 = 64 << 20;
/// Names tried for the next segment at once.
const SEGMENTS_TRIED: u32 = 16;
/// Space allocated at once.
const AHEAD_BYTES_MIN: u64 = 1 << 20;
const AHEAD_BYTES_MAX: u64 = 32 << 20;
/// Less than this is not given back alone.
const HOLE_BYTES_MIN: u64 = 64 << 10;
/// Segments that take less are left as they are.
const TIDY_BYTES_MIN: u64 = 1 << 20;
/// Room that the buffer keeps.
const BUFFER_BYTES_KEPT: usize = 2 << 20;
/// Bytes read at a time behind the last chunk of a segment.
const WINDOW_BYTES: u64 = 1 << 20;
/// The folder of damaged files, and how many are kept there.
const DAMAGED_FOLDER: &str = "damaged";
const DAMAGED_FILES_MAX: usize = 16;

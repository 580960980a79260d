//! The thread that writes.
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use nix::fcntl::{FallocateFlags, fallocate};
use tributary_mf::payload::Payload;

use super::{
    file,
    segment::{self, Place},
};

/// Where a committed chunk is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Where {
    /// In a segment.
    Segment(Place),
    /// In a file of its own.
    File,
}

/// Where committed chunks are, by their numbers; for both threads.
#[derive(Clone, Default, Debug)]
pub(super) struct Places(Arc<Mutex<BTreeMap<u64, Where>>>);

impl Places {
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Where>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Numbers, heads and payload lengths of all chunks.
pub(super) type Listed = Vec<(u64, Vec<u8>, u64)>;

/// Appends chunks to segments, and gives back what was removed: by punching holes; by removing segments without chunks; by
/// moving the few that are left out of a segment.
pub(super) struct Writer {
    folder: PathBuf,
    places: Places,
    segments: BTreeMap<u64, Segment>,
    next_segment: u64,
    /// The segment that grows.
    current: Option<Current>,
    /// Put since the last commit.
    uncommitted: BTreeMap<u64, Place>,
    /// Removed since the last commit, in segments.
    removed: Vec<Place>,
    /// Segments that were written to since the last commit.
    touched: BTreeMap<u64, Arc<File>>,
    /// Whether files have come or gone since the last commit, of whose coming or going the commit tells.
    folder_changed: bool,
    /// What went wrong since the last commit.
    failed: Option<io::Error>,
    buffer: Vec<u8>,
}

/// A file with chunks.
#[derive(Default)]
struct Segment {
    /// Those that nobody has removed.
    live: BTreeSet<u64>,
    live_bytes: u64,
    /// Bytes that it takes on the disk.
    bytes: u64,
}

struct Current {
    number: u64,
    file: Arc<File>,
    /// The next chunk begins here.
    end: u64,
    /// Up to here it is on the disk.
    durable: u64,
    /// Up to here the file system has set room aside.
    allocated: u64,
    /// Whether it does that.
    allocates: bool,
}

impl Writer {
    pub(super) fn new(folder: &Path, places: Places) -> Writer {
        Writer {
            folder: folder.into(),
            places,
            segments: BTreeMap::new(),
            next_segment: 0,
            current: None,
            uncommitted: BTreeMap::new(),
            removed: Vec::new(),
            touched: BTreeMap::new(),
            folder_changed: false,
            failed: None,
            buffer: Vec::new(),
        }
    }
    /// Finds out what there is. What an earlier life had begun is not gone on with.
    pub(super) fn list(&mut self) -> io::Result<Listed> {
        super::make_folder(&self.folder)?;
        self.close();
        self.segments.clear();
        let mut listed = BTreeMap::new();
        let mut places = BTreeMap::new();
        let mut segments = BTreeSet::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            match (extension, u64::from_str_radix(stem, 16)) {
                ("new", Ok(_)) => fs::remove_file(&path)?,
                ("chunks", Ok(number)) => drop(segments.insert(number)),
                ("chunk", Ok(id)) => match file::head(&path)? {
                    Some((head, payload_bytes)) => {
                        listed.insert(id, (head, payload_bytes));
                        places.insert(id, Where::File);
                    }
                    None => {
                        tracing::warn!(path = %path.display(), "a stored chunk is damaged and is removed");
                        fs::remove_file(&path)?;
                    }
                },
                _ => {}
            }
        }
        for number in segments {
            self.next_segment = self.next_segment.max(number + 1);
            let contents = segment::contents(&self.folder, number)?;
            let file = self.open(number)?;
            file.set_len(contents.end)?;
            // It is told of, so it has to outlast a power failure from now on.
            file.sync_data()?;
            let mut segment = Segment { bytes: contents.end, ..Segment::default() };
            for one in contents.found {
                let older = match places.get(&one.id) {
                    Some(Where::Segment(older)) if one.is_live => Some(*older),
                    _ => None,
                };
                // Where two have a number, that of one may be damaged. If it stayed, it would come back when the other one
                // is removed.
                let is_damaged = older.is_some() && segment::read(&self.folder, &one.place).is_err();
                if is_damaged {
                    segment::mark_removed(&file, &one.place)?;
                }
                if is_damaged || !one.is_live {
                    // The earlier life may have ended before it gave that back.
                    segment.bytes -= hole_bytes(&one.place);
                    self.removed.push(one.place);
                    continue;
                }
                if let Some(older) = older {
                    // It was being moved.
                    self.mark(one.id, older)?;
                    segment.live_bytes -= if older.segment == number { older.bytes() } else { 0 };
                }
                segment.live.insert(one.id);
                segment.live_bytes += one.place.bytes();
                listed.insert(one.id, (one.head, one.place.payload_bytes));
                places.insert(one.id, Where::Segment(one.place));
            }
            self.segments.insert(number, segment);
        }
        let numbers: Vec<u64> = self.segments.keys().copied().collect();
        numbers.into_iter().try_for_each(|number| self.tidy(number))?;
        *self.places.lock() = places;
        Ok(listed.into_iter().map(|(id, (head, bytes))| (id, head, bytes)).collect())
    }
    /// Appends a chunk; the commit tells if that fails.
    pub(super) fn put(&mut self, id: u64, head: &[u8], payload: &Payload) {
        match self.append(id, head, payload) {
            Ok(place) => drop(self.uncommitted.insert(id, place)),
            Err(error) => self.fail(error),
        }
    }
    /// Removes a chunk; the commit tells if that fails.
    pub(super) fn remove(&mut self, id: u64) {
        let removed = match self.uncommitted.remove(&id) {
            Some(place) => self.mark(id, place),
            None => {
                let place = self.places.lock().remove(&id);
                match place {
                    Some(Where::Segment(place)) => self.mark(id, place),
                    Some(Where::File) => {
                        self.folder_changed = true;
                        fs::remove_file(file::path(&self.folder, id))
                    }
                    None => Ok(()),
                }
            }
        };
        if let Err(error) = removed {
            self.fail(error);
        }
    }
    /// Waits until everything is on the disk; gives what was put.
    pub(super) fn commit(&mut self) -> io::Result<Vec<u64>> {
        let made = self.failed.take().map_or(Ok(()), Err).and_then(|()| self.sync());
        let put = std::mem::take(&mut self.uncommitted);
        let removed = std::mem::take(&mut self.removed);
        if let Err(error) = made {
            // It is not known what the disk has of it, and nobody will ask for it.
            self.close();
            for (id, place) in put {
                let _ = self.mark(id, place);
            }
            return Err(error);
        }
        self.places.lock().extend(put.iter().map(|(id, place)| (*id, Where::Segment(*place))));
        if let Some(current) = &mut self.current {
            current.durable = current.end;
        }
        self.give_back(&removed);
        Ok(put.into_keys().collect())
    }
    fn sync(&mut self) -> io::Result<()> {
        for file in std::mem::take(&mut self.touched).into_values() {
            file.sync_data()?;
        }
        if std::mem::take(&mut self.folder_changed) {
            File::open(&self.folder)?.sync_all()?;
        }
        Ok(())
    }
    fn fail(&mut self, error: io::Error) {
        self.failed.get_or_insert(error);
    }
    fn open(&self, number: u64) -> io::Result<Arc<File>> {
        match &self.current {
            Some(current) if current.number == number => Ok(Arc::clone(&current.file)),
            _ => OpenOptions::new().write(true).open(segment::path(&self.folder, number)).map(Arc::new),
        }
    }

    // Appending.

    fn append(&mut self, id: u64, head: &[u8], payload: &Payload) -> io::Result<Place> {
        if self.current.as_ref().is_some_and(|current| current.end >= SEGMENT_BYTES) {
            self.close();
        }
        let current = match &mut self.current {
            Some(current) => current,
            None => {
                let number = self.next_segment;
                let path = segment::path(&self.folder, number);
                let file = Arc::new(OpenOptions::new().write(true).create_new(true).open(path)?);
                self.next_segment += 1;
                self.folder_changed = true;
                self.segments.insert(number, Segment::default());
                self.current.insert(Current { number, file, end: 0, durable: 0, allocated: 0, allocates: true })
            }
        };
        segment::encode(&mut self.buffer, id, current.durable, head, payload);
        let bytes = self.buffer.len() as u64;
        current.allocate(bytes);
        let written = current.file.write_all_at(&self.buffer, current.end);
        self.buffer.shrink_to(BUFFER_BYTES_KEPT);
        if let Err(error) = written {
            self.close();
            return Err(error);
        }
        let place = Place {
            segment: current.number,
            at: current.end,
            head_bytes: head.len() as u32,
            payload_bytes: payload.len() as u64,
        };
        current.end += bytes;
        self.touched.entry(current.number).or_insert_with(|| Arc::clone(&current.file));
        let segment = self.segments.entry(current.number).or_default();
        segment.live.insert(id);
        segment.live_bytes += bytes;
        segment.bytes += bytes;
        Ok(place)
    }
    /// Appends nothing to the current segment any more.
    fn close(&mut self) {
        if let Some(current) = self.current.take() {
            // What was half written, or set aside and not needed.
            let _ = current.file.set_len(current.end);
        }
    }

    // Removing.

    fn mark(&mut self, id: u64, place: Place) -> io::Result<()> {
        self.forget(id, place);
        let file = match self.touched.get(&place.segment) {
            Some(file) => Arc::clone(file),
            None => self.open(place.segment)?,
        };
        segment::mark_removed(&file, &place)?;
        self.touched.insert(place.segment, file);
        self.removed.push(place);
        Ok(())
    }
    fn forget(&mut self, id: u64, place: Place) {
        if let Some(segment) = self.segments.get_mut(&place.segment)
            && segment.live.remove(&id)
        {
            segment.live_bytes -= place.bytes();
            segment.bytes -= hole_bytes(&place);
        }
    }
    /// Gives the room of what was removed back to the file system. What goes wrong leaves it in use, and nothing else.
    fn give_back(&mut self, removed: &[Place]) {
        let numbers: BTreeSet<u64> = removed.iter().map(|place| place.segment).collect();
        for place in removed.iter().filter(|place| hole_bytes(place) > 0) {
            if self.segments.get(&place.segment).is_some_and(|segment| !segment.live.is_empty())
                && let Ok(file) = self.open(place.segment)
            {
                let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
                let _ = fallocate(&*file, flags, place.payload_at() as i64, place.payload_bytes as i64);
            }
        }
        for number in numbers {
            if let Err(error) = self.tidy(number) {
                let path = segment::path(&self.folder, number);
                tracing::warn!(path = %path.display(), %error, "cannot give back what stored chunks took");
            }
        }
    }
    /// Removes a segment of which nothing is left, or so little that it is moved.
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
        self.segments.remove(&number);
        self.touched.remove(&number);
        fs::remove_file(segment::path(&self.folder, number))?;
        // Else what was moved, and removed then, could come back with it.
        if is_empty { Ok(()) } else { File::open(&self.folder)?.sync_all() }
    }
    fn move_out_of(&mut self, number: u64) -> io::Result<()> {
        let ids: Vec<u64> = self.segments.get(&number).into_iter().flat_map(|segment| &segment.live).copied().collect();
        let mut moved = Vec::new();
        let move_all = || -> io::Result<()> {
            for id in ids {
                let place = self.places.lock().get(&id).copied();
                let Some(Where::Segment(place)) = place else { continue };
                let (head, payload) = segment::read(&self.folder, &place)?;
                moved.push((id, self.append(id, &head, &payload.into())?));
            }
            self.sync()
        };
        let made = move_all();
        if made.is_err() {
            self.close();
            for (id, place) in moved {
                let _ = self.mark(id, place);
            }
            // It is not tried again and again.
            if let Some(segment) = self.segments.get_mut(&number) {
                segment.bytes = segment.live_bytes;
            }
            return made;
        }
        self.places.lock().extend(moved.iter().map(|(id, place)| (*id, Where::Segment(*place))));
        if let Some(current) = &mut self.current {
            current.durable = current.end;
        }
        Ok(())
    }
}
impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

impl Current {
    /// Sets room aside for so many bytes more, and for as many again as there are.
    fn allocate(&mut self, bytes: u64) {
        if self.allocates && self.end + bytes > self.allocated {
            let ahead = bytes.max(self.end.clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX));
            let made = fallocate(&*self.file, FallocateFlags::empty(), self.end as i64, ahead as i64);
            self.allocates = made.is_ok();
            self.allocated = self.end + ahead;
        }
    }
}

/// What is given back of a removed chunk while others of its segment are there.
fn hole_bytes(place: &Place) -> u64 {
    if place.payload_bytes >= HOLE_BYTES_MIN { place.payload_bytes } else { 0 }
}

/// A segment of so many bytes grows no more.
const SEGMENT_BYTES: u64 = 64 << 20;
/// Room that is set aside at once.
const AHEAD_BYTES_MIN: u64 = 1 << 20;
const AHEAD_BYTES_MAX: u64 = 32 << 20;
/// Less than this is not given back alone.
const HOLE_BYTES_MIN: u64 = 64 << 10;
/// Segments that take less are left as they are.
const TIDY_BYTES_MIN: u64 = 1 << 20;
/// Room that the buffer keeps.
const BUFFER_BYTES_KEPT: usize = 2 << 20;

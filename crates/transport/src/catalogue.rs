//! The objects that a node publishes, and their outgoing chunks: reads from a disk complete asynchronously, so that
//! they never block the node.
//!
//! A source opens an object with [`Catalogue::open`] and calls [`Published::chunk`]. If that returns `None`, the source
//! starts to read the chunk with
//! [`Catalogue::begin_read`], keeps the request, for example in a [`WaitQueue`], and answers it between
//! [`Catalogue::take_read`] and [`Catalogue::forget_read`].
//!
//! A publication is identified by [`Manifest::publication_id`](tributary_content::Manifest::publication_id). Requests
//! name bytes ([`Manifest::object_id`](tributary_content::Manifest::object_id)), which several publications may share:
//! one of them answers, and another takes its place when it is withdrawn or unreadable.
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::{String, ToString},
    vec::Vec,
};

use bytes::Bytes;
use tributary_content::{ChunkIndex, Hash, Name, ObjectId, ObjectReader, StoreError, Unavailable, chunk_hash};
use tributary_core::ByteCount;

use crate::layout::{Layout, Unit};

/// Maximum bytes of chunks that a source reads at a time; at least one chunk is read.
pub const READ_BYTES_MAX: u64 = 8 << 20;

/// Maximum bytes of chunks that are kept to be given again, and their number.
const RECENT_BYTES_MAX: u64 = 8 << 20;
const RECENT_MAX: usize = 64;

tributary_core::declared! {
    /// Publications by id, by name and by their bytes; `T` is the family's state of each.
    pub struct Catalogue<T> {
        objects: BTreeMap<ObjectId, Published<T>> = BTreeMap::new(),
        by_name: BTreeMap<Name, ObjectId> = BTreeMap::new(),
        /// The publications under a name that have the same bytes; the first one answers for them.
        by_bytes: BTreeMap<ObjectId, Vec<ObjectId>> = BTreeMap::new(),
        /// Objects with chunks being read, and the bytes of all these chunks.
        reading: BTreeSet<ObjectId> = BTreeSet::new(),
        reading_bytes: u64 = 0,
        recent: Recent = Recent::default(),
        failures: VecDeque<(Name, StoreError)> = VecDeque::new(),
    }
}

/// The chunks that were given last, the latest first. Requests for neighbouring packets follow each other, and several
/// receivers ask for different chunks in turn: without them each request would read and hash a whole chunk.
#[derive(Default)]
pub struct Recent {
    chunks: VecDeque<Kept>,
    bytes: u64,
}
struct Kept {
    object: ObjectId,
    index: ChunkIndex,
    bytes: Bytes,
    is_checked: bool,
}

impl Recent {
    /// A chunk that was given. Once others have been given since, it must pass `check` first: a slip of the memory would
    /// be given again and again.
    fn get(&mut self, object: &ObjectId, index: ChunkIndex, check: impl FnOnce(&Bytes) -> bool) -> Option<Bytes> {
        let at = self.chunks.iter().position(|kept| kept.index == index && kept.object == *object)?;
        if at > 0 {
            let mut kept = self.chunks.remove(at)?;
            kept.is_checked = kept.is_checked || check(&kept.bytes);
            if !kept.is_checked {
                self.bytes -= kept.bytes.len() as u64;
                return None;
            }
            self.chunks.push_front(kept);
        }
        self.chunks.front().map(|kept| kept.bytes.clone())
    }
    fn put(&mut self, object: ObjectId, index: ChunkIndex, bytes: Bytes) {
        self.bytes += bytes.len() as u64;
        self.chunks.push_front(Kept { object, index, bytes, is_checked: false });
        while self.chunks.len() > RECENT_MAX || self.chunks.len() > 1 && self.bytes > RECENT_BYTES_MAX {
            let Some(oldest) = self.chunks.pop_back() else { return };
            self.bytes -= oldest.bytes.len() as u64;
        }
    }
    fn forget(&mut self, object: &ObjectId) {
        self.chunks.retain(|kept| kept.object != *object);
        self.bytes = self.chunks.iter().map(|kept| kept.bytes.len() as u64).sum();
    }
}

/// An object, and its chunks that are being read.
pub struct Published<T> {
    reader: Box<dyn ObjectReader>,
    reading: BTreeSet<ChunkIndex>,
    read: BTreeMap<ChunkIndex, Result<Bytes, StoreError>>,
    /// Why it could not be read last.
    failed: Option<String>,
    /// The id of its bytes.
    bytes: ObjectId,
    /// The family's state of it.
    pub state: T,
}

impl<T> Published<T> {
    /// The object.
    pub fn reader(&self) -> &dyn ObjectReader {
        &*self.reader
    }
    /// A chunk, or `None` if it must be read first: then [`Catalogue::begin_read`] with it.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be read.
    pub fn chunk(&mut self, index: ChunkIndex, recent: &mut Recent) -> Result<Option<Bytes>, StoreError> {
        // An object of one chunk has no leaves to check with.
        let check = |bytes: &Bytes| {
            let (tree, at) = (self.reader.tree(), index.0 as usize * Hash::BYTES);
            tree.get(at..at + Hash::BYTES).is_none_or(|leaf| *leaf == chunk_hash(bytes).0)
        };
        if let Some(bytes) = recent.get(&self.bytes, index, check) {
            return Ok(Some(bytes));
        }
        let bytes = match self.read.get(&index) {
            Some(read) => read.clone().map(Some)?,
            None if self.reading.contains(&index) => None,
            None => self.reader.try_read(index)?,
        };
        if let Some(bytes) = &bytes {
            recent.put(self.bytes, index, bytes.clone());
        }
        Ok(bytes)
    }
    /// A unit, whose hash tree is `tree`; `None` for a chunk that must be read first: then [`Catalogue::begin_read`].
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be read.
    pub fn unit(
        &mut self,
        unit: Unit,
        recent: &mut Recent,
        tree: impl FnOnce(&T) -> &Bytes,
    ) -> Result<Option<Bytes>, StoreError> {
        match Layout::chunk_of(unit) {
            None => Ok(Some(tree(&self.state).clone())),
            Some(index) => self.chunk(index, recent),
        }
    }
    /// Records why it cannot be read; false if that is already known.
    pub fn note_failure(&mut self, reason: &str) -> bool {
        let is_news = self.failed.as_deref() != Some(reason);
        self.failed = Some(reason.into());
        is_news
    }
    fn chunk_bytes(&self, index: ChunkIndex) -> u64 {
        u64::from(self.reader.manifest().chunk_len(index))
    }
}

impl<T> Catalogue<T> {
    /// Offers an object under its name in place of an older one. Returns the publications that were removed or got
    /// another reader: no read of theirs is in progress any longer.
    pub fn publish(&mut self, reader: Box<dyn ObjectReader>, state: T) -> Vec<ObjectId> {
        let (name, bytes) = (reader.manifest().name.clone(), reader.manifest().object_id());
        let publication = reader.manifest().publication_id();
        let old = self.by_name.insert(name, publication).filter(|old| *old != publication);
        let mut gone: Vec<ObjectId> = old.filter(|old| self.remove(old)).into_iter().collect();
        // One that is still arriving answers only where no complete one does.
        let is_arriving = reader.held().is_some();
        gone.extend(self.keep(reader, state));
        let same = self.by_bytes.entry(bytes).or_default();
        same.insert(if is_arriving { same.len() } else { 0 }, publication);
        gone
    }
    /// Keeps an object without offering it: only its publication's id leads to it. Returns that id if it had another
    /// reader before.
    pub fn keep(&mut self, reader: Box<dyn ObjectReader>, state: T) -> Option<ObjectId> {
        let (publication, bytes) = (reader.manifest().publication_id(), reader.manifest().object_id());
        let had_other = self.remove(&publication);
        let (reading, read, failed) = (BTreeSet::new(), BTreeMap::new(), None);
        self.objects.insert(publication, Published { reader, reading, read, failed, bytes, state });
        had_other.then_some(publication)
    }
    /// Withdraws a name; returns its publication.
    pub fn withdraw(&mut self, name: &Name) -> Option<ObjectId> {
        let publication = self.by_name.remove(name)?;
        self.remove(&publication);
        Some(publication)
    }
    /// Removes a publication; false if it is unknown.
    pub fn remove(&mut self, publication: &ObjectId) -> bool {
        let Some(gone) = self.objects.remove(publication) else { return false };
        if let Some(same) = self.by_bytes.get_mut(&gone.bytes) {
            same.retain(|other| other != publication);
            if same.is_empty() {
                self.by_bytes.remove(&gone.bytes);
            }
        }
        self.recent.forget(&gone.bytes);
        self.reading.remove(publication);
        self.reading_bytes -= gone.reading.iter().map(|index| gone.chunk_bytes(*index)).sum::<u64>();
        true
    }

    /// The publication that answers for an id, which names a publication or its bytes.
    pub fn answering(&self, object: &ObjectId) -> Option<ObjectId> {
        let own = self.objects.contains_key(object).then_some(*object);
        own.or_else(|| self.by_bytes.get(object)?.first().copied())
    }
    /// An object, by the id of its publication or of its bytes.
    pub fn get(&self, object: &ObjectId) -> Option<&Published<T>> {
        self.objects.get(&self.answering(object)?)
    }
    /// The same, to change.
    pub fn get_mut(&mut self, object: &ObjectId) -> Option<&mut Published<T>> {
        Some(self.open(object)?.0)
    }
    /// The same, to read from.
    pub fn open(&mut self, object: &ObjectId) -> Option<(&mut Published<T>, &mut Recent)> {
        let publication = self.answering(object)?;
        Some((self.objects.get_mut(&publication)?, &mut self.recent))
    }
    /// The publication under a name.
    pub fn by_name(&self, name: &Name) -> Option<ObjectId> {
        self.by_name.get(name).copied()
    }
    /// Names and sizes of all objects that are published.
    pub fn published(&self) -> impl ExactSizeIterator<Item = (&Name, ByteCount)> {
        self.by_name.iter().map(|(name, object)| {
            let size = self.objects.get(object).map_or(0, |published| published.reader.manifest().size);
            (name, ByteCount(size))
        })
    }

    /// Begins to read a chunk, unless other reads must end first. Whether it is being read now.
    pub fn begin_read(&mut self, object: &ObjectId, index: ChunkIndex) -> bool {
        let Some(publication) = self.answering(object) else { return false };
        let Some(published) = self.objects.get_mut(&publication) else { return false };
        if published.reading.contains(&index) {
            return true;
        }
        let bytes = published.chunk_bytes(index);
        if self.reading_bytes > 0 && self.reading_bytes + bytes > READ_BYTES_MAX {
            return false;
        }
        published.reading.insert(index);
        published.reader.begin_read(index);
        self.reading.insert(publication);
        self.reading_bytes += bytes;
        true
    }
    /// Whether chunks are being read.
    pub fn is_reading(&self) -> bool {
        !self.reading.is_empty()
    }
    /// Takes the completed reads, each as publication and chunk. [`Published::chunk`] returns them until
    /// [`Catalogue::forget_read`].
    pub fn take_read(&mut self) -> Vec<(ObjectId, ChunkIndex)> {
        let mut taken = Vec::new();
        for object in &self.reading {
            let Some(published) = self.objects.get_mut(object) else { continue };
            while !published.reading.is_empty()
                && let Some((index, read)) = published.reader.poll_read()
            {
                published.reading.remove(&index);
                self.reading_bytes -= published.chunk_bytes(index);
                published.read.insert(index, read);
                taken.push((*object, index));
            }
        }
        let objects = &self.objects;
        self.reading.retain(|object| objects.get(object).is_some_and(|published| !published.reading.is_empty()));
        taken
    }
    /// Lets go of the chunks that [`Catalogue::take_read`] took.
    pub fn forget_read(&mut self, taken: &[(ObjectId, ChunkIndex)]) {
        for (object, index) in taken {
            self.objects.entry(*object).and_modify(|published| _ = published.read.remove(index));
        }
    }

    /// An object could not be read. Returns the error for the requesters, or `None` if a retry may succeed because
    /// another publication of the same bytes answers from now on.
    pub fn on_failure(&mut self, object: &ObjectId, error: StoreError) -> Option<Unavailable> {
        let why = Unavailable::of(&error);
        if why == Some(Unavailable::NotYet) {
            // Nothing is amiss.
            return why;
        }
        let Some(publication) = self.answering(object) else { return why };
        let Some(published) = self.objects.get_mut(&publication) else { return why };
        let name = published.reader.manifest().name.clone();
        if published.note_failure(&error.to_string()) {
            self.failures.push_back((name, error));
        }
        if why.is_some() && self.let_another_answer(object) { None } else { why }
    }
    /// Switches these bytes to another publication without a recorded failure; false if there is none.
    pub fn let_another_answer(&mut self, bytes: &ObjectId) -> bool {
        let objects = &self.objects;
        let is_good = |other: &ObjectId| objects.get(other).is_some_and(|published| published.failed.is_none());
        let Some(same) = self.by_bytes.get_mut(bytes) else { return false };
        let other = same.iter().position(is_good);
        other.into_iter().for_each(|other| same.swap(0, other));
        other.is_some()
    }
    /// An object that could not be read, and why; each failure once.
    pub fn poll_failure(&mut self) -> Option<(Name, StoreError)> {
        self.failures.pop_front()
    }
}

/// Requests that wait for chunks in reading, in order of arrival.
pub struct WaitQueue<R> {
    requests: VecDeque<R>,
    max: usize,
    /// Requests that were dropped because the queue was full; requesters retransmit them.
    pub drops: u64,
}

impl<R> WaitQueue<R> {
    /// A queue of at most `max` requests.
    pub fn new(max: usize) -> WaitQueue<R> {
        WaitQueue { requests: VecDeque::new(), max, drops: 0 }
    }
    /// Adds a request, or drops it if too many wait.
    pub fn push(&mut self, request: R) {
        if self.requests.len() < self.max {
            self.requests.push_back(request);
        } else {
            self.drops += 1;
        }
    }
    /// Takes all of them; the caller answers the possible ones and adds the others again.
    pub fn take(&mut self) -> VecDeque<R> {
        core::mem::take(&mut self.requests)
    }
    /// Those that wait.
    pub fn iter(&self) -> impl Iterator<Item = &R> {
        self.requests.iter()
    }
    /// How many wait.
    pub fn len(&self) -> usize {
        self.requests.len()
    }
    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use tributary_content::{MemoryObject, ObjectKind, SigningKey};

    use super::*;

    /// Chunks of 4 MiB, all on disk; reads that have started complete one by one.
    struct Slow(MemoryObject, VecDeque<ChunkIndex>);
    impl ObjectReader for Slow {
        fn manifest(&self) -> &tributary_content::Manifest {
            self.0.manifest()
        }
        fn tree(&self) -> Bytes {
            self.0.tree()
        }
        fn read_chunk(&mut self, index: ChunkIndex) -> Result<Bytes, StoreError> {
            self.0.read_chunk(index)
        }
        fn try_read(&mut self, _: ChunkIndex) -> Result<Option<Bytes>, StoreError> {
            Ok(None)
        }
        fn begin_read(&mut self, index: ChunkIndex) {
            self.1.push_back(index);
        }
        fn poll_read(&mut self) -> Option<(ChunkIndex, Result<Bytes, StoreError>)> {
            self.1.pop_front().map(|index| (index, self.0.read_chunk(index)))
        }
    }
    fn slow(name: &str) -> Box<Slow> {
        let key = SigningKey::from_secret(&[7; 32]);
        let bytes = alloc::vec![5; 3 << 22];
        let name = name.parse().expect("a name");
        let object = MemoryObject::with_options(name, bytes, &key, 1, ObjectKind::File, 1 << 22).expect("legal");
        Box::new(Slow(object, VecDeque::new()))
    }

    #[test]
    fn reads_no_more_at_a_time_than_the_limit_whichever_objects_they_are_of() {
        let mut catalogue = Catalogue::default();
        let ids = ["/a", "/b"].map(|name| {
            let object = slow(name);
            let id = object.manifest().publication_id();
            assert!(catalogue.publish(object, ()).is_empty());
            id
        });
        let begin =
            |catalogue: &mut Catalogue<()>, object: usize, index| catalogue.begin_read(&ids[object], ChunkIndex(index));
        assert!(begin(&mut catalogue, 0, 0) && begin(&mut catalogue, 1, 0) && begin(&mut catalogue, 0, 0));
        assert!(!begin(&mut catalogue, 0, 1), "8 MiB are being read");
        assert_eq!(catalogue.publish(slow("/b"), ()), [ids[1]], "its reader is another one");
        assert!(begin(&mut catalogue, 0, 1));
        let taken = catalogue.take_read();
        assert_eq!((taken.len(), catalogue.is_reading()), (2, false));
        let read = |catalogue: &mut Catalogue<()>, index| {
            let (object, recent) = catalogue.open(&ids[0]).expect("it is here");
            object.chunk(ChunkIndex(index), recent).expect("it can be read").is_some()
        };
        assert!(read(&mut catalogue, 0) && read(&mut catalogue, 1));
        catalogue.forget_read(&taken);
        assert!(read(&mut catalogue, 0) && read(&mut catalogue, 1), "as much as may be read at a time is kept");
        catalogue.recent = Recent::default();
        assert!(!read(&mut catalogue, 0) && !read(&mut catalogue, 1));
    }

    /// An object that has nothing yet.
    struct Empty(MemoryObject);
    impl ObjectReader for Empty {
        fn manifest(&self) -> &tributary_content::Manifest {
            self.0.manifest()
        }
        fn tree(&self) -> Bytes {
            self.0.tree()
        }
        fn read_chunk(&mut self, index: ChunkIndex) -> Result<Bytes, StoreError> {
            Err(StoreError::NotYet { chunk: index.0 })
        }
        fn held(&self) -> Option<Vec<core::ops::Range<u32>>> {
            Some(Vec::new())
        }
    }

    #[test]
    fn an_object_that_arrives_hides_no_complete_one_of_the_same_bytes() {
        let of = |name: &str| {
            let (name, key) = (name.parse().expect("a name"), SigningKey::from_secret(&[7; 32]));
            MemoryObject::new(name, alloc::vec![5; 9], &key).expect("legal")
        };
        let bytes = of("/a").manifest().object_id();
        let [complete, arriving] = ["/a", "/b"].map(|name| of(name).manifest().publication_id());
        for complete_first in [true, false] {
            let mut catalogue = Catalogue::default();
            if complete_first {
                catalogue.publish(Box::new(of("/a")), ());
            }
            catalogue.publish(Box::new(Empty(of("/b"))), ());
            assert_eq!(catalogue.answering(&bytes), Some(if complete_first { complete } else { arriving }));
            catalogue.publish(Box::new(of("/a")), ());
            assert_eq!(catalogue.answering(&bytes), Some(complete));
        }
    }

    #[test]
    fn another_publication_of_the_same_bytes_answers_for_one_that_is_withdrawn_or_cannot_be_read() {
        let mut catalogue = Catalogue::default();
        let of = |name: &str| {
            let (name, key) = (name.parse().expect("a name"), SigningKey::from_secret(&[7; 32]));
            MemoryObject::new(name, alloc::vec![5; 9], &key).expect("legal")
        };
        let names = ["/a", "/b", "/c"];
        let publications = names.map(|name| {
            assert!(catalogue.publish(Box::new(of(name)), ()).is_empty());
            of(name).manifest().publication_id()
        });
        let bytes = of("/a").manifest().object_id();
        let answering = |catalogue: &Catalogue<()>| {
            names
                .iter()
                .zip(publications)
                .find(|(_, id)| catalogue.answering(&bytes) == Some(*id))
                .map(|(name, _)| *name)
        };
        assert_eq!(answering(&catalogue), Some("/c"));
        let gone = || StoreError::Gone { path: "c".into() };
        assert_eq!(catalogue.on_failure(&bytes, gone()), None, "another one has it");
        let next = answering(&catalogue).expect("it is another one");
        assert_ne!(next, "/c");
        assert_eq!(catalogue.on_failure(&publications[0], gone()), Some(Unavailable::Gone), "it was asked for itself");
        catalogue.withdraw(&next.parse().expect("a name"));
        assert!(catalogue.get(&bytes).is_some());
        let _ = catalogue.on_failure(&bytes, gone());
        for name in names {
            catalogue.withdraw(&name.parse().expect("a name"));
        }
        assert!(catalogue.get(&bytes).is_none() && catalogue.by_bytes.is_empty());
        assert!(catalogue.keep(Box::new(of("/a")), ()).is_none());
        assert!(catalogue.get(&bytes).is_none(), "what is not offered is known by its publication alone");
        assert!(catalogue.get(&publications[0]).is_some());
    }

    #[test]
    fn receivers_that_ask_for_different_chunks_in_turn_read_each_once() {
        let key = SigningKey::from_secret(&[7; 32]);
        let object = |name: &str, chunks: usize| {
            let bytes = alloc::vec![chunks as u8; chunks << 20];
            let name = name.parse().expect("a name");
            Box::new(MemoryObject::with_options(name, bytes, &key, 1, ObjectKind::File, 1 << 20).expect("legal"))
        };
        let mut recent = Recent::default();
        let of = |object: &MemoryObject| object.manifest().object_id();
        let (mut one, mut other) = (object("/a", 4), object("/b", 6));
        for round in 0..3 {
            for (is_one, index) in [(true, 0), (false, 0), (true, 3), (false, 5)] {
                let object = if is_one { &mut one } else { &mut other };
                let (id, index) = (of(object), ChunkIndex(index));
                let had = recent.get(&id, index, |_| true);
                assert_eq!(had.is_some(), round > 0);
                if had.is_none() {
                    recent.put(id, index, object.read_chunk(index).expect("it is here"));
                }
            }
        }
        (0..6).for_each(|index| recent.put(of(&other), ChunkIndex(index), Bytes::from(alloc::vec![0; 2 << 20])));
        assert!(recent.bytes <= RECENT_BYTES_MAX && recent.get(&of(&one), ChunkIndex(0), |_| true).is_none());
        assert!(recent.get(&of(&other), ChunkIndex(4), |_| false).is_none(), "the memory has slipped");
        assert!(recent.get(&of(&other), ChunkIndex(4), |_| true).is_none(), "it is read again");
        recent.forget(&of(&other));
        assert_eq!((recent.bytes, recent.chunks.len()), (0, 0));
    }
}

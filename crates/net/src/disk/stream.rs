//! A download to a pipe: of an object, or of ranges of its bytes.
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use std::{
    collections::BTreeMap,
    io::{self, Write},
    ops::Range,
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle},
};
use tributary_content::{
    Bitmap, ByteRanges, ChunkCipher, ChunkIndex, ChunkStore, Manifest, ObjectKey, StoreError, Wanted, Wishes,
};

use super::{check_chunk, io_error, refusal};
use crate::bell::Bell;

/// Writes the chunks in order to a writer, such as standard output.
///
/// A separate thread writes, so a slow reader never stops the node: [`ChunkStore::put_chunk`] only queues. Chunks that
/// come early wait in a buffer of bounded size; [`ChunkStore::wishes`] limits requests to those that fit. A stream
/// cannot be resumed.
pub struct StreamStore {
    manifest: Manifest,
    held: Bitmap,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    plan: Plan,
    bell: Bell,
}
#[derive(Default)]
struct Queue {
    waiting: BTreeMap<u32, Bytes>,
    /// The first chunk that is not written yet; that after the last one if all are.
    next: u32,
    /// How often `next` or `state` has changed.
    version: u64,
    state: State,
}
/// The bytes to write.
struct Plan {
    /// The bytes, ascending; they do not overlap.
    bytes: Vec<Range<u64>>,
    /// The chunks that they are in, ascending; they neither touch nor overlap.
    chunks: Vec<Range<u32>>,
    /// Bytes of a chunk as they are written, but for the last one.
    chunk_bytes: u64,
    /// The chunk after the last one of the object.
    end: u32,
    /// How many chunks may wait.
    room: u32,
}
impl Plan {
    /// The first chunk to write from `index` on; the end of the object if no chunk follows.
    fn from(&self, index: u32) -> u32 {
        let next = self.chunks.iter().find(|chunks| chunks.end > index);
        next.map_or(self.end, |chunks| chunks.start.max(index))
    }
    /// The chunks from `next` on that fit.
    fn window(&self, next: u32) -> Vec<Range<u32>> {
        let mut room = self.room;
        let ahead = self.chunks.iter().filter(|chunks| chunks.end > next);
        let windows = ahead.map_while(|chunks| {
            let first = chunks.start.max(next);
            let end = chunks.end.min(first.saturating_add(room));
            room -= end - first;
            (first < end).then_some(first..end)
        });
        windows.collect()
    }
    /// The parts of a chunk that are written, as offsets in it.
    fn parts(&self, index: u32, len: usize) -> impl Iterator<Item = Range<usize>> {
        let first = u64::from(index) * self.chunk_bytes;
        let end = first + len as u64;
        let overlapping = self.bytes.iter().filter(move |bytes| bytes.start < end && bytes.end > first);
        overlapping.map(move |bytes| (bytes.start.max(first) - first) as usize..(bytes.end.min(end) - first) as usize)
    }
}
#[derive(Default)]
enum State {
    #[default]
    Open,
    /// No chunk follows.
    Closed,
    /// The receiver gave up.
    Abandoned,
    /// The other end refused.
    Failed(StoreError),
}

impl StreamStore {
    /// The default size of the buffer: 32 MiB, more than a receiver asks ahead by default.
    pub const BUFFER_BYTES_DEFAULT: u64 = 32 << 20;

    /// Starts a thread that writes the object of `manifest` to `out`, opened by `key` if it is sealed and that is given. Of
    /// chunks that come early at most `options.buffer_bytes` are kept, but always room for two chunks.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the object has no byte of the ranges, or the system has no more threads.
    pub fn new(
        manifest: &Manifest,
        out: Box<dyn Write + Send>,
        options: StreamOptions,
        key: Option<&ObjectKey>,
    ) -> Result<Self, StoreError> {
        let key = key.filter(|_| manifest.is_sealed);
        let cipher = key.map(|key| ChunkCipher::of(key, manifest));
        let (size, chunk_bytes) = match key {
            Some(_) => (manifest.plain_size(), u64::from(manifest.plain_chunk_size())),
            None => (manifest.size, u64::from(manifest.chunk_size)),
        };
        let count = manifest.chunk_count();
        let (bytes, chunks) = match &options.ranges {
            None => (std::iter::once(0..size).collect(), std::iter::once(0..count).collect()),
            Some(ranges) => {
                let bytes = ranges.ascending(size).ok_or_else(|| {
                    let reason = format!("'{}' has {size} bytes, none of them in the range {ranges}", manifest.name);
                    refusal("write", Path::new("-"), reason)
                })?;
                let chunks = chunks_of(&bytes, chunk_bytes);
                (bytes, chunks)
            }
        };
        let room = u32::try_from(options.buffer_bytes / u64::from(manifest.chunk_size)).unwrap_or(u32::MAX).max(2);
        let plan = Plan { bytes, chunks, chunk_bytes, end: count, room };
        let queue = Mutex::new(Queue { next: plan.from(0), ..Queue::default() });
        let shared = Arc::new(Shared { queue, changed: Condvar::new(), plan, bell: options.bell });
        let theirs = shared.clone();
        let thread = thread::Builder::new()
            .name("stream".into())
            .spawn(move || theirs.run(out, cipher))
            .map_err(|error| io_error("start a thread for", Path::new("-"), &error))?;
        let held = Bitmap::new(count);
        Ok(StreamStore { manifest: manifest.clone(), held, shared, thread: Some(thread) })
    }
}

tributary_core::declared! {
    /// How a [`StreamStore`] writes.
    #[derive(Clone, Debug)]
    pub struct StreamOptions {
        /// Maximum bytes of out-of-order chunks.
        pub buffer_bytes: u64 = StreamStore::BUFFER_BYTES_DEFAULT,
        /// The parts of the object to write, in ascending order; `None` writes the whole object.
        pub ranges: Option<ByteRanges> = None,
        /// Rung when there is space for more.
        pub bell: Bell = Bell::default(),
    }
}

/// The chunks of `chunk_bytes` that ascending ranges of bytes are in.
fn chunks_of(bytes: &[Range<u64>], chunk_bytes: u64) -> Vec<Range<u32>> {
    let mut chunks: Vec<Range<u32>> = Vec::new();
    for range in bytes.iter().filter(|range| range.start < range.end) {
        let (first, end) = ((range.start / chunk_bytes) as u32, range.end.div_ceil(chunk_bytes) as u32);
        match chunks.last_mut() {
            Some(last) if last.end >= first => last.end = last.end.max(end),
            _ => chunks.push(first..end),
        }
    }
    chunks
}

impl Wishes for Shared {
    fn wanted(&self) -> Wanted {
        let queue = self.queue.lock();
        // If the reader has closed the stream, the end of the fetch returns the error.
        let is_gone = matches!(queue.state, State::Failed(_));
        let next = if is_gone { self.plan.end } else { queue.next };
        let extent = Some(self.plan.bytes.clone()).filter(|_| !is_whole(&self.plan));
        Wanted { windows: self.plan.window(next), may_change: next < self.plan.end, extent }
    }
    fn version(&self) -> u64 {
        self.queue.lock().version
    }
    fn wakes(&self) -> bool {
        true
    }
}
fn is_whole(plan: &Plan) -> bool {
    plan.chunks.first().is_none_or(|chunks| *chunks == (0..plan.end))
        && plan.bytes.first().is_none_or(|bytes| bytes.start == 0)
        && plan.bytes.len() == 1
}

impl Shared {
    fn run(&self, mut out: Box<dyn Write + Send>, cipher: Option<ChunkCipher>) {
        let count = self.plan.end;
        let mut queue = self.queue.lock();
        let written = loop {
            if matches!(queue.state, State::Abandoned) {
                break Ok(());
            }
            let next = queue.next;
            if let Some(chunk) = queue.waiting.remove(&next) {
                drop(queue);
                let written = match &cipher {
                    None => self.write(&mut out, next, &chunk),
                    Some(cipher) => cipher
                        .open(ChunkIndex(next), &mut Vec::from(chunk))
                        .map_err(|error| io::Error::other(error.to_string()))
                        .and_then(|plain| self.write(&mut out, next, plain)),
                };
                queue = self.queue.lock();
                if written.is_err() {
                    break written;
                }
                queue.next = self.plan.from(next + 1);
                queue.version += 1;
                self.bell.ring();
            } else if next == count {
                drop(queue);
                let flushed = out.flush();
                queue = self.queue.lock();
                break flushed;
            } else if matches!(queue.state, State::Closed) {
                break Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed early"));
            } else {
                self.changed.wait(&mut queue);
            }
        };
        if let Err(error) = written {
            // A stream keeps nothing, for any reason.
            queue.state = State::Failed(refusal("write", Path::new("-"), error.to_string()));
            queue.waiting.clear();
            queue.version += 1;
            self.bell.ring();
        }
    }
    fn write(&self, out: &mut dyn Write, index: u32, chunk: &[u8]) -> io::Result<()> {
        self.plan.parts(index, chunk.len()).try_for_each(|part| out.write_all(&chunk[part]))
    }
}

impl ChunkStore for StreamStore {
    fn held(&self) -> &Bitmap {
        &self.held
    }
    fn put_chunk(&mut self, index: ChunkIndex, bytes: &[u8]) -> Result<(), StoreError> {
        check_chunk(&self.manifest, index, bytes, Path::new("-"))?;
        let mut queue = self.shared.queue.lock();
        if let State::Failed(error) = &queue.state {
            return Err(error.clone());
        }
        if self.held.get(index) {
            return Ok(());
        }
        if !self.shared.plan.window(queue.next).iter().any(|window| window.contains(&index.0)) {
            let reason = format!("chunk {} came while its reader waits for chunk {}", index.0, queue.next);
            return Err(refusal("buffer for", Path::new("-"), reason));
        }
        queue.waiting.insert(index.0, Bytes::copy_from_slice(bytes));
        drop(queue);
        self.shared.changed.notify_one();
        self.held.set(index);
        Ok(())
    }
    /// Waits until the reader has taken everything, which it has when nothing more is wanted.
    fn finish(&mut self) -> Result<(), StoreError> {
        let wanted = self.shared.plan.chunks.iter().cloned().flatten();
        let missing = wanted.filter(|index| !self.held.get(*index)).count();
        if missing > 0 {
            return Err(refusal("finish", Path::new("-"), format!("{missing} chunks are missing")));
        }
        if let Some(thread) = self.thread.take() {
            {
                let mut queue = self.shared.queue.lock();
                if matches!(queue.state, State::Open) {
                    queue.state = State::Closed;
                }
            }
            self.shared.changed.notify_one();
            if thread.join().is_err() {
                return Err(refusal("write", Path::new("-"), "its thread panicked"));
            }
        }
        match &self.shared.queue.lock().state {
            State::Failed(error) => Err(error.clone()),
            State::Open | State::Closed | State::Abandoned => Ok(()),
        }
    }
    fn wishes(&self) -> Option<Arc<dyn Wishes>> {
        Some(self.shared.clone())
    }
    fn never_waits(&self) -> bool {
        true
    }
    fn accepts(&self, index: ChunkIndex) -> bool {
        let next = self.shared.queue.lock().next;
        self.shared.plan.window(next).iter().any(|window| window.contains(&index.0))
    }
}
impl Drop for StreamStore {
    /// The thread is not joined: it may hang in a pipe without a reader.
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        if self.thread.is_some() && matches!(queue.state, State::Open) {
            queue.state = State::Abandoned;
            queue.waiting.clear();
        }
        drop(queue);
        self.shared.changed.notify_one();
    }
}
#[cfg(test)]
mod tests {
    #![expect(clippy::single_range_in_vec_init, reason = "these are lists of ranges")]
    use super::*;
    use crate::disk::fixtures::{CHUNK, object, put};
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
    use tributary_content::{MemoryObject, ObjectReader};

    /// A reader that takes one piece each time the test does.
    struct Pipe(SyncSender<Vec<u8>>);
    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    fn wanted(store: &StreamStore) -> Wanted {
        store.wishes().expect("it is read in order").wanted()
    }
    fn pipe(object: &MemoryObject, buffer_chunks: u64) -> (StreamStore, Receiver<Vec<u8>>) {
        let (sender, receiver) = sync_channel(0);
        let out = Box::new(Pipe(sender));
        let options = StreamOptions { buffer_bytes: buffer_chunks * u64::from(CHUNK), ..StreamOptions::default() };
        let store = StreamStore::new(object.manifest(), out, options, None).expect("threads are free");
        (store, receiver)
    }

    #[test]
    fn chunks_come_out_in_order_whatever_the_order_they_came_in() {
        let mut published = object(5000);
        let (mut store, reader) = pipe(&published, 8);
        let reader = thread::spawn(move || reader.iter().flatten().collect::<Vec<u8>>());
        for index in [4, 2, 0, 3, 1, 1, 0] {
            put(&mut store, &mut published, index);
        }
        store.finish().expect("the reader takes all");
        assert_eq!(wanted(&store), Wanted::default());
        drop(store);
        assert!(reader.join().expect("it ends with the store") == *published.bytes());
    }

    #[test]
    fn a_slow_reader_holds_back_what_may_be_asked_for_and_never_the_node() {
        let mut published = object(10_240);
        let (mut store, reader) = pipe(&published, 3);
        assert_eq!(wanted(&store), Wanted { windows: vec![0..3], may_change: true, extent: None });
        for index in 0..3 {
            put(&mut store, &mut published, index);
        }
        // The reader has read no byte, and no call waited for it.
        assert_eq!(wanted(&store).windows, [0..3]);
        let chunk = published.read_chunk(ChunkIndex(3)).expect("published");
        let error = store.put_chunk(ChunkIndex(3), &chunk).expect_err("the buffer is full").to_string();
        assert!(error.contains("chunk 3 came while its reader waits for chunk 0"), "{error}");
        assert!(!store.held().get(3u32));
        reader.recv().expect("the first chunk");
        reader.recv().expect("the second chunk");
        assert!(wanted(&store).windows[0].start >= 1, "the second piece is offered after the first is counted");
        put(&mut store, &mut published, 3);
    }

    #[test]
    fn a_reader_that_goes_away_is_an_error_that_says_so() {
        let mut published = object(5000);
        let (mut store, reader) = pipe(&published, 8);
        drop(reader);
        for index in 0..5 {
            let chunk = published.read_chunk(ChunkIndex(index)).expect("published");
            let _ = store.put_chunk(ChunkIndex(index), &chunk);
        }
        for _ in 0..2 {
            let error = match store.finish() {
                Err(error) => error.to_string(),
                Ok(()) => panic!("nobody read it"),
            };
            assert!(error.starts_with("cannot ") && error.contains("'-'"), "{error}");
            assert_eq!(wanted(&store), Wanted::default(), "nobody need wait for it");
        }
    }

    #[test]
    fn of_ranges_only_their_chunks_are_wanted_and_only_their_bytes_are_written() {
        let mut published = object(10_240);
        let (sender, reader) = sync_channel(100);
        let ranges = Some("-10,1000-1100,1050-1199,5000-5000".parse().expect("four ranges"));
        let options = StreamOptions { ranges, ..StreamOptions::default() };
        let mut store = StreamStore::new(published.manifest(), Box::new(Pipe(sender)), options, None).expect("fits");
        let bytes = [1000..1200, 5000..5001, 10_230..10_240];
        let windows = vec![0..2, 4..5, 9..10];
        assert_eq!(wanted(&store), Wanted { windows, may_change: true, extent: Some(bytes.to_vec()) });
        for index in [9, 1, 4, 0] {
            put(&mut store, &mut published, index);
        }
        store.finish().expect("all that is wanted is here");
        drop(store);
        let read: Vec<u8> = reader.iter().flatten().collect();
        let meant: Vec<u8> = bytes
            .into_iter()
            .flat_map(|range| published.bytes().slice(range.start as usize..range.end as usize))
            .collect();
        assert!(read == meant);
    }

    #[test]
    fn a_range_behind_the_end_is_an_error_that_tells_the_size() {
        let published = object(3000);
        let options = StreamOptions { ranges: Some("3000-".parse().expect("a range")), ..StreamOptions::default() };
        let error = StreamStore::new(published.manifest(), Box::new(io::sink()), options, None).err();
        let error = error.expect("nothing is there").to_string();
        assert!(error.contains("has 3000 bytes, none of them in the range 3000-"), "{error}");
    }

    #[test]
    fn an_empty_object_ends_the_stream_and_an_incomplete_one_is_an_error() {
        let (mut store, reader) = pipe(&object(0), 2);
        store.finish().expect("there is nothing to wait for");
        assert!(reader.recv().is_err());
        let (mut store, reader) = pipe(&object(2000), 2);
        assert!(store.finish().is_err());
        drop(store);
        assert!(reader.recv().is_err(), "the thread ends with its store");
    }
}

//! A download to a pipe.
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Write},
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};
use tributary_content::{Bitmap, ChunkCipher, ChunkIndex, ChunkStore, Manifest, ObjectKey, StoreError};

use super::{io_error, refusal};

/// Writes the chunks in order to something that takes bytes, such as standard output.
///
/// A thread of its own writes, so a slow reader never stops the node: [`ChunkStore::put_chunk`] only queues. Chunks
/// that come early wait in a buffer of bounded size; [`ChunkStore::in_order_until`] says from which chunk on none may
/// be asked for yet. Nothing can be resumed.
pub struct StreamStore {
    manifest: Manifest,
    held: Bitmap,
    window: u32,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}
#[derive(Default)]
struct Queue {
    waiting: BTreeMap<u32, Bytes>,
    /// The first chunk that is not written yet.
    next: u32,
    state: State,
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
    /// chunks that come early at most `buffer_bytes` are kept, but always room for two chunks.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the system has no more threads.
    pub fn new(
        manifest: &Manifest,
        out: Box<dyn Write + Send>,
        buffer_bytes: u64,
        key: Option<&ObjectKey>,
    ) -> Result<Self, StoreError> {
        let cipher = key.filter(|_| manifest.is_sealed).map(|key| ChunkCipher::of(key, manifest));
        let shared = Arc::new(Shared::default());
        let (theirs, count) = (shared.clone(), manifest.chunk_count());
        let thread = thread::Builder::new()
            .name("stream".into())
            .spawn(move || theirs.run(out, count, cipher))
            .map_err(|error| io_error("start a thread for", Path::new("-"), &error))?;
        let window = u32::try_from(buffer_bytes / u64::from(manifest.chunk_size)).unwrap_or(u32::MAX).max(2);
        let held = Bitmap::new(manifest.chunk_count());
        Ok(StreamStore { manifest: manifest.clone(), held, window, shared, thread: Some(thread) })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn run(&self, mut out: Box<dyn Write + Send>, count: u32, cipher: Option<ChunkCipher>) {
        let mut queue = self.lock();
        let written = loop {
            if matches!(queue.state, State::Abandoned) {
                break Ok(());
            }
            let next = queue.next;
            if let Some(chunk) = queue.waiting.remove(&next) {
                drop(queue);
                let written = match &cipher {
                    None => out.write_all(&chunk),
                    Some(cipher) => cipher
                        .open(ChunkIndex(next), &mut Vec::from(chunk))
                        .map_err(|error| io::Error::other(error.to_string()))
                        .and_then(|plain| out.write_all(plain)),
                };
                queue = self.lock();
                if written.is_err() {
                    break written;
                }
                queue.next += 1;
            } else if next == count {
                drop(queue);
                let flushed = out.flush();
                queue = self.lock();
                break flushed;
            } else if matches!(queue.state, State::Closed) {
                break Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed early"));
            } else {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        };
        if let Err(error) = written {
            // Of a stream nothing is kept, whatever the reason.
            queue.state = State::Failed(refusal("write", Path::new("-"), error.to_string()));
            queue.waiting.clear();
        }
    }
}

impl ChunkStore for StreamStore {
    fn held(&self) -> &Bitmap {
        &self.held
    }
    fn put_chunk(&mut self, index: ChunkIndex, bytes: &[u8]) -> Result<(), StoreError> {
        let need = self.manifest.chunk_len(index) as usize;
        if index.0 >= self.manifest.chunk_count() || bytes.len() != need {
            let reason = format!("chunk {} has {need} bytes, not {}", index.0, bytes.len());
            return Err(refusal("write", Path::new("-"), reason));
        }
        let mut queue = self.shared.lock();
        if let State::Failed(error) = &queue.state {
            return Err(error.clone());
        }
        if self.held.get(index) {
            return Ok(());
        }
        if index.0 >= queue.next.saturating_add(self.window) {
            let reason = format!("chunk {} came while its reader waits for chunk {}", index.0, queue.next);
            return Err(refusal("buffer for", Path::new("-"), reason));
        }
        queue.waiting.insert(index.0, Bytes::copy_from_slice(bytes));
        drop(queue);
        self.shared.changed.notify_one();
        self.held.set(index);
        Ok(())
    }
    /// Waits until the reader has taken everything, which it has when [`ChunkStore::in_order_from`] is beyond the end.
    fn finish(&mut self) -> Result<(), StoreError> {
        if !self.held.is_full() {
            let missing = self.held.len() - self.held.count();
            return Err(refusal("finish", Path::new("-"), format!("{missing} chunks are missing")));
        }
        if let Some(thread) = self.thread.take() {
            {
                let mut queue = self.shared.lock();
                if matches!(queue.state, State::Open) {
                    queue.state = State::Closed;
                }
            }
            self.shared.changed.notify_one();
            if thread.join().is_err() {
                return Err(refusal("write", Path::new("-"), "its thread panicked"));
            }
        }
        match &self.shared.lock().state {
            State::Failed(error) => Err(error.clone()),
            State::Open | State::Closed | State::Abandoned => Ok(()),
        }
    }
    fn in_order_from(&self) -> Option<ChunkIndex> {
        let queue = self.shared.lock();
        // The reader is gone; the next call returns the error.
        let is_gone = matches!(queue.state, State::Failed(_));
        Some(ChunkIndex(if is_gone { self.manifest.chunk_count() } else { queue.next }))
    }
    fn in_order_until(&self) -> Option<ChunkIndex> {
        Some(ChunkIndex(self.shared.lock().next.saturating_add(self.window)))
    }
}
impl Drop for StreamStore {
    /// The thread is not joined: it may hang in a pipe without a reader.
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        if self.thread.is_some() && matches!(queue.state, State::Open) {
            queue.state = State::Abandoned;
            queue.waiting.clear();
        }
        drop(queue);
        self.shared.changed.notify_one();
    }
}
impl fmt::Debug for StreamStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamStore")
            .field("name", &self.manifest.name)
            .field("held", &self.held.count())
            .field("written", &self.shared.lock().next)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::fixtures::{CHUNK, object, put};
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
    use tributary_content::{MemoryObject, ObjectReader};

    /// A reader that takes one piece whenever the test does.
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
    fn pipe(object: &MemoryObject, buffer_chunks: u64) -> (StreamStore, Receiver<Vec<u8>>) {
        let (sender, receiver) = sync_channel(0);
        let out = Box::new(Pipe(sender));
        let store =
            StreamStore::new(object.manifest(), out, buffer_chunks * u64::from(CHUNK), None).expect("threads are free");
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
        assert_eq!(store.in_order_from(), Some(ChunkIndex(5)));
        drop(store);
        assert!(reader.join().expect("it ends with the store") == *published.bytes());
    }

    #[test]
    fn a_slow_reader_holds_back_what_may_be_asked_for_and_never_the_node() {
        let mut published = object(10_240);
        let (mut store, reader) = pipe(&published, 3);
        assert_eq!((store.in_order_from(), store.in_order_until()), (Some(ChunkIndex(0)), Some(ChunkIndex(3))));
        for index in 0..3 {
            put(&mut store, &mut published, index);
        }
        // Nobody has read a byte, and no call waited for it.
        assert_eq!(store.in_order_from(), Some(ChunkIndex(0)));
        let chunk = published.read_chunk(ChunkIndex(3)).expect("published");
        let error = store.put_chunk(ChunkIndex(3), &chunk).expect_err("the buffer is full").to_string();
        assert!(error.contains("chunk 3 came while its reader waits for chunk 0"), "{error}");
        assert!(!store.held().get(3u32));
        reader.recv().expect("the first chunk");
        reader.recv().expect("the second chunk");
        assert!(store.in_order_from() >= Some(ChunkIndex(1)), "the second piece is offered after the first is counted");
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
            assert_eq!(store.in_order_from(), Some(ChunkIndex(5)), "nobody need wait for it");
        }
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

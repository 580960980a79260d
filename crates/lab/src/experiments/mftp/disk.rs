//! An in-memory disk that loses uncommitted chunks when its node is killed, and whose commits take time.
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tributary_content::{ChunkRepository, StoreError};
use tributary_core::{Duration, Rate, Time};

/// Chunks by number: head and payload. Clones are the same disk.
#[derive(Clone)]
pub(super) struct Disk(Arc<Mutex<State>>);

/// The time as disks see it: the time of the last step of their network. Clones are the same clock.
#[derive(Clone, Default)]
pub(super) struct DiskClock(Arc<AtomicU64>);

impl DiskClock {
    pub(super) fn set(&self, now: Time) {
        self.0.store(now.as_nanos(), Ordering::Relaxed);
    }
    fn now(&self) -> Time {
        Time::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// How fast a disk is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Speed {
    /// Its write rate.
    pub(super) rate: Rate,
    /// Fixed additional time per commit.
    pub(super) each: Duration,
}

type Chunks = BTreeMap<u64, (Vec<u8>, Bytes)>;

#[derive(Default)]
struct State {
    clock: DiskClock,
    /// `None` for immediate commits.
    speed: Option<Speed>,
    durable: Chunks,
    current: Chunks,
    /// Put since the last commit began.
    unwritten_bytes: u64,
    /// What the commit that runs makes durable, and when it is done.
    writing: Option<(Chunks, Time)>,
}

impl State {
    fn finish(&mut self) {
        let now = self.clock.now();
        if let Some((chunks, _)) = self.writing.take_if(|(_, done)| *done <= now) {
            self.durable = chunks;
        }
    }
}

impl Disk {
    /// One of that speed.
    pub(super) fn new(speed: Option<Speed>, clock: &DiskClock) -> Disk {
        Disk(Arc::new(Mutex::new(State { speed, clock: clock.clone(), ..State::default() })))
    }
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Power fails: uncommitted chunks are lost.
    pub(super) fn crash(&self) {
        let mut state = self.state();
        state.finish();
        state.writing = None;
        state.unwritten_bytes = 0;
        state.current = state.durable.clone();
    }
}

impl ChunkRepository for Disk {
    fn put(&mut self, id: u64, head: &[u8], payload: &[Bytes]) -> Result<(), StoreError> {
        let (mut state, bytes) = (self.state(), Bytes::from(payload.concat()));
        state.unwritten_bytes += bytes.len() as u64;
        state.current.insert(id, (head.into(), bytes));
        Ok(())
    }
    fn remove(&mut self, id: u64) -> Result<(), StoreError> {
        self.state().current.remove(&id);
        Ok(())
    }
    fn commit(&mut self) -> Result<(), StoreError> {
        let mut state = self.state();
        let takes = state.speed.map_or(Duration::ZERO, |Speed { rate, each }| {
            each + Duration::from_secs_f64(state.unwritten_bytes as f64 * 8.0 / rate.bits_per_second() as f64)
        });
        state.unwritten_bytes = 0;
        state.writing = Some((state.current.clone(), state.clock.now() + takes));
        Ok(())
    }
    fn is_committed(&mut self) -> Result<bool, StoreError> {
        let mut state = self.state();
        state.finish();
        Ok(state.writing.is_none())
    }
    fn read(&mut self, id: u64) -> Result<Bytes, StoreError> {
        self.state().current.get(&id).map(|(_, payload)| payload.clone()).ok_or_else(|| StoreError::Io {
            operation: "read",
            path: format!("chunk {id}"),
            reason: "there is no such chunk".into(),
        })
    }
    fn list(&mut self) -> Result<Vec<(u64, Vec<u8>, u64)>, StoreError> {
        let list = |(id, (head, payload)): (&u64, &(Vec<u8>, Bytes))| (*id, head.clone(), payload.len() as u64);
        Ok(self.state().current.iter().map(list).collect())
    }
}

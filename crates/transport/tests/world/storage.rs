//! Stores that answer later.
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use tributary_content::{
    Bitmap, ChunkIndex, ChunkStore, HashTree, Manifest, StoreAnswer, StoreError, StoreOpener, StoreTask,
};

use super::*;

/// A disk that may complete this many more tasks, and the tasks that it was given.
#[derive(Default)]
struct State {
    allowed: usize,
    begun: VecDeque<StoreTask>,
    chunk_bytes_max: usize,
    refuses: bool,
}
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<State>>);

impl Disk {
    fn allow(&self, tasks: usize) {
        self.0.lock().unwrap().allowed = tasks;
    }
    fn may(&self) -> bool {
        let mut state = self.0.lock().unwrap();
        let may = state.allowed > 0;
        state.allowed = state.allowed.saturating_sub(1);
        may
    }
}
struct Later {
    inner: Box<dyn ChunkStore>,
    nothing: Bitmap,
    disk: Disk,
    is_open: bool,
}
struct LaterOpener(MemoryOpener, Disk);

impl StoreOpener for LaterOpener {
    fn trusts(&self, manifest: &Manifest) -> Result<(), StoreError> {
        self.0.trusts(manifest)
    }
    fn resumes(&self, manifest: &Manifest) -> bool {
        self.0.resumes(manifest)
    }
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
        let (inner, nothing) = (self.0.open(manifest)?, Bitmap::new(manifest.chunk_count()));
        Ok(Box::new(Later { inner, nothing, disk: self.1.clone(), is_open: false }))
    }
}
impl ChunkStore for Later {
    fn is_open(&self) -> bool {
        self.is_open
    }
    fn begin(&mut self, task: StoreTask) -> Result<Option<StoreAnswer>, StoreError> {
        assert!(self.is_open, "asked before it is open");
        let mut state = self.disk.0.lock().unwrap();
        state.begun.push_back(task);
        let bytes = |task: &StoreTask| if let StoreTask::Chunk(_, bytes) = task { bytes.len() } else { 0 };
        state.chunk_bytes_max = state.chunk_bytes_max.max(state.begun.iter().map(bytes).sum());
        Ok(None)
    }
    fn poll_answer(&mut self) -> Result<Option<StoreAnswer>, StoreError> {
        let has_any = !self.is_open || !self.disk.0.lock().unwrap().begun.is_empty();
        if !has_any || !self.disk.may() {
            return Ok(None);
        }
        if !self.is_open {
            self.is_open = true;
            return Ok(Some(StoreAnswer::Opened));
        }
        let mut state = self.disk.0.lock().unwrap();
        if state.refuses {
            return Err(StoreError::Io { operation: "write", path: "out".into(), reason: "no space left".into() });
        }
        let task = state.begun.pop_front().unwrap();
        drop(state);
        self.inner.begin(task)
    }
    fn held(&self) -> &Bitmap {
        if self.is_open { self.inner.held() } else { &self.nothing }
    }
    fn tree(&self) -> Option<&HashTree> {
        self.inner.tree().filter(|_| self.is_open)
    }
    fn put_chunk(&mut self, _: ChunkIndex, _: &[u8]) -> Result<(), StoreError> {
        unreachable!("it is asked by begin()")
    }
    fn finish(&mut self) -> Result<(), StoreError> {
        unreachable!("it is asked by begin()")
    }
}

/// A fetch over one path of 80 Mbit/s with 4 MiB of memory, and the disk that it writes to.
fn on_a_disk(bytes: usize) -> (World, Disk) {
    let config =
        TransferConfig { assembly_bytes_max: 4 << 20, storing_bytes_max: 1 << 20, ..TransferConfig::default() };
    let mut world = World::new(bytes, config.clone(), 3);
    let (opener, disk) = (MemoryOpener::new(), Disk::default());
    world.content = opener.content();
    let opener = Box::new(LaterOpener(opener, disk.clone()));
    world.transfer = Transfer::new(Time::ZERO, name(), config, opener, None, Some(Duration::from_secs(2)));
    let source = world.source(Conduct::Honest);
    world.path(source, link(80, 20, 0.0));
    world.offer();
    (world, disk)
}
fn stored(world: &World) -> (u64, usize) {
    let reported = world.events.iter().filter(|(_, event)| matches!(event, TransferEvent::ChunkStored { .. }));
    (world.transfer.report(world.now).stored_bytes, reported.count())
}
/// The disk completes `tasks` tasks, and the fetch runs until `end`.
fn go_on(world: &mut World, disk: &Disk, tasks: usize, end: Time) {
    disk.allow(tasks);
    world.transfer.handle_storage(world.now);
    world.run_until(end);
}

#[test]
fn a_disk_that_stands_still_costs_bounded_memory_and_no_patience_and_nothing_counts_before_it_is_stored() {
    let (mut world, disk) = on_a_disk(12_000_000);
    // Longer than the fetch waits for a source.
    world.run_until(Time::from_millis(3_000));
    assert_eq!((world.sent_packets, world.transfer.is_ended()), (0, false), "nothing is asked for before it is open");
    go_on(&mut world, &disk, 1, Time::from_millis(9_000));
    assert_eq!(stored(&world), (0, 0));
    assert!(!world.transfer.is_ended());
    let (under_way, sent) = (disk.0.lock().unwrap().chunk_bytes_max, world.sent_packets);
    assert!((1 << 20..=2 << 20).contains(&under_way), "{under_way}");
    assert!(sent * 1443 < 3 << 20, "it asks for more than it has room for: {sent} packets");
    // The hash list and every waiting chunk.
    let chunks = under_way / (256 << 10);
    go_on(&mut world, &disk, 1 + chunks, Time::from_millis(10_000));
    assert_eq!(stored(&world), (under_way as u64, chunks));
    assert!(world.sent_packets > sent, "what has left makes room");
    while !world.transfer.is_ended() {
        let next = world.now + Duration::from_millis(50);
        assert!(next < Time::from_millis(60_000));
        go_on(&mut world, &disk, usize::MAX, next);
    }
    world.assert_complete();
    assert!(disk.0.lock().unwrap().chunk_bytes_max <= 2 << 20);
}

#[test]
fn the_final_name_is_given_after_the_last_chunk_and_only_then_is_it_told() {
    let (mut world, disk) = on_a_disk(1_000_000);
    // Opening, the hash list, four chunks.
    go_on(&mut world, &disk, 6, Time::from_millis(1_000));
    world.transfer.handle_storage(world.now);
    world.run_until(Time::from_millis(6_000));
    assert_eq!((stored(&world), world.transfer.is_ended()), ((1_000_000, 4), false));
    assert_eq!(disk.0.lock().unwrap().begun, [StoreTask::Finish]);
    go_on(&mut world, &disk, 1, Time::from_millis(7_000));
    world.assert_complete();
}

#[test]
fn what_the_disk_refuses_later_ends_the_fetch_with_its_words() {
    let (mut world, disk) = on_a_disk(4_000_000);
    go_on(&mut world, &disk, 4, Time::from_millis(1_000));
    world.transfer.handle_storage(world.now);
    disk.0.lock().unwrap().refuses = true;
    go_on(&mut world, &disk, 1, Time::from_millis(2_000));
    let failure = world.transfer.report(world.now).failure.unwrap();
    assert_eq!(failure, "cannot write 'out': no space left");
    assert!(world.transfer.report(world.now).stored_bytes > 0, "what was stored is");
}

//! Stores whose readers want a part of the object, and change it.
#![expect(clippy::single_range_in_vec_init, reason = "these are lists of ranges")]
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use proptest::prelude::*;
use tributary_content::{
    Bitmap, ChunkIndex, ChunkPart, ChunkStore, HashTree, Manifest, StoreError, StoreOpener, Wanted, Wishes,
};

use super::*;

/// A fetch over two sources whose store wants these chunks.
fn reading(seed: u64, windows: Vec<core::ops::Range<u32>>) -> World {
    let mut world = World::new(4_000_000, TransferConfig::default(), seed);
    let chunk = 65_536;
    world.object = MemoryObject::with_options(name(), world.object.bytes().clone(), &key(), 1, ObjectKind::File, chunk)
        .expect("legal");
    let (opener, patience) = (MemoryOpener::new(), Some(Duration::from_secs(10)));
    world.content = opener.content();
    world.content.want(Wanted { windows, may_change: true, extent: None });
    world.transfer = Transfer::new(Time::ZERO, name(), TransferConfig::default(), Box::new(opener), None, patience);
    for (mbps, loss) in [(20, 0.0), (8, 0.01)] {
        let source = world.source(Conduct::Honest);
        world.path(source, link(mbps, 20, loss));
    }
    world.offer();
    world
}
/// The chunks requested since the request of this number.
fn requested(world: &World, from: usize) -> Vec<u32> {
    let chunk = |request: &PacketRequest, packet: u32| {
        let layout = Layout::exact(world.object.manifest(), request.packet_bytes).expect("it is cut so");
        layout.locate(packet).and_then(|(unit, ..)| Layout::chunk_of(unit)).map(|index| index.0)
    };
    let packets = world.requests[from..].iter().flat_map(|request| {
        request
            .ranges
            .iter()
            .flat_map(move |&(first, count)| (first..first + u32::from(count)).map(move |at| (request, at)))
    });
    packets.filter_map(|(request, packet)| chunk(request, packet)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Readers seek while the fetch runs: requested chunks are always wanted at that moment, and wanted chunks arrive.
    #[test]
    fn only_chunks_that_are_wanted_at_the_moment_are_requested(
        seed in 1u64..1000,
        seeks in proptest::collection::vec((0u32..60, 1u32..12, 0u32..60, 1u32..6, 1u64..400), 1..6),
    ) {
        let mut world = reading(seed, vec![]);
        world.run_until(Time::from_millis(50));
        prop_assert!(requested(&world, 0).is_empty());
        let mut last = Vec::new();
        for (urgent, len, other, more, pause) in seeks {
            let end = world.object.manifest().chunk_count();
            last = vec![urgent..(urgent + len).min(end), other..(other + more).min(end)];
            world.content.want(Wanted { windows: last.clone(), may_change: true, extent: None });
            let from = world.requests.len();
            world.run_until(world.now + Duration::from_millis(pause));
            for chunk in requested(&world, from) {
                prop_assert!(last.iter().any(|window| window.contains(&chunk)), "chunk {chunk} of {last:?}");
            }
        }
        world.run_until(world.now + Duration::from_secs(20));
        let held = world.content.held(&name()).expect("it is open");
        for chunk in last.iter().cloned().flatten() {
            prop_assert!(held.get(chunk), "chunk {chunk} of {last:?} did not come");
        }
        prop_assert!(!world.transfer.is_ended(), "its readers may want more: {:?}", world.events.last());
        world.content.want(Wanted { windows: last, may_change: false, extent: None });
        world.run(Duration::from_secs(120));
        prop_assert!(matches!(world.events.last(), Some((_, TransferEvent::Completed))));
    }
}

#[test]
fn what_a_reader_waits_for_goes_before_its_read_ahead() {
    let mut world = reading(1, vec![50..51, 3..40]);
    let first = |world: &World, chunk| {
        world
            .events
            .iter()
            .position(|(_, event)| matches!(event, TransferEvent::ChunkStored { index, .. } if *index == chunk))
    };
    while first(&world, 39).is_none() {
        world.run_until(world.now + Duration::from_millis(50));
    }
    assert!(first(&world, 50) < first(&world, 3).max(first(&world, 6)), "{:?}", first(&world, 50));
    // A seek: the awaited chunk arrives within a few round trips, not behind the old read-ahead.
    world.content.want(Wanted { windows: vec![45..46, 46..60], may_change: true, extent: None });
    let before = world.now;
    while first(&world, 45).is_none() {
        world.run_until(world.now + Duration::from_millis(5));
    }
    let time = world.now.since(before);
    assert!(time < Duration::from_millis(300), "{time:?}");
}

#[test]
fn a_fetch_of_a_part_reports_the_bytes_of_that_part() {
    let mut world = reading(1, vec![]);
    let (first, chunk) = (200_000, u64::from(world.object.manifest().chunk_size));
    let extent = Some(vec![first..first + 1000]);
    let window = (first / chunk) as u32..(first / chunk) as u32 + 1;
    world.content.want(Wanted { windows: vec![window], may_change: false, extent });
    let report = world.run(Duration::from_secs(20));
    assert_eq!((report.bytes, report.stored_bytes), (1000, 1000));
    assert!(matches!(world.events.last(), Some((_, TransferEvent::Completed))), "{:?}", world.events.last());
}

/// A store that has parts of chunks, and wants everything else.
struct Partly {
    inner: Box<dyn ChunkStore>,
    wishes: Arc<PartlyWishes>,
}
struct PartlyWishes {
    chunks: u32,
    parts: Mutex<Vec<ChunkPart>>,
    looks: AtomicU64,
}
struct PartlyOpener(MemoryOpener, Vec<ChunkPart>);

impl StoreOpener for PartlyOpener {
    fn trusts(&self, manifest: &Manifest) -> Result<(), StoreError> {
        self.0.trusts(manifest)
    }
    fn resumes(&self, manifest: &Manifest) -> bool {
        self.0.resumes(manifest)
    }
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
        let parts = Mutex::new(std::mem::take(&mut self.1));
        let wishes = Arc::new(PartlyWishes { chunks: manifest.chunk_count(), parts, looks: AtomicU64::new(0) });
        Ok(Box::new(Partly { inner: self.0.open(manifest)?, wishes }))
    }
}
impl ChunkStore for Partly {
    fn held(&self) -> &Bitmap {
        self.inner.held()
    }
    fn tree(&self) -> Option<&HashTree> {
        self.inner.tree()
    }
    fn put_tree(&mut self, tree: &HashTree) -> Result<(), StoreError> {
        self.inner.put_tree(tree)
    }
    fn put_chunk(&mut self, index: ChunkIndex, bytes: &[u8]) -> Result<(), StoreError> {
        self.inner.put_chunk(index, bytes)
    }
    fn finish(&mut self) -> Result<(), StoreError> {
        self.inner.finish()
    }
    fn wishes(&self) -> Option<Arc<dyn Wishes>> {
        Some(self.wishes.clone())
    }
}
impl Wishes for PartlyWishes {
    fn wanted(&self) -> Wanted {
        Wanted::only(0..self.chunks)
    }
    fn version(&self) -> u64 {
        // Its parts are known some time after it is open.
        self.looks.fetch_add(1, Ordering::Relaxed).min(1)
    }
    fn take_parts(&self) -> Vec<ChunkPart> {
        std::mem::take(&mut self.parts.lock().unwrap())
    }
}

/// A fetch of 40 chunks with these parts: how many packets were requested, beyond the whole object's if negative.
fn saved_with(parts: impl Fn(&[u8]) -> Vec<ChunkPart>) -> i64 {
    let chunk = 65_536;
    let fetch = |has_parts: bool| {
        let mut world = World::new(40 * chunk as usize, TransferConfig::default(), 5);
        let bytes = world.object.bytes().clone();
        world.object = MemoryObject::with_options(name(), bytes.clone(), &key(), 1, ObjectKind::File, chunk).unwrap();
        let opener = MemoryOpener::new();
        world.content = opener.content();
        let opener = Box::new(PartlyOpener(opener, if has_parts { parts(&bytes) } else { Vec::new() }));
        let patience = Some(Duration::from_secs(10));
        world.transfer = Transfer::new(Time::ZERO, name(), TransferConfig::default(), opener, None, patience);
        for mbps in [20, 8] {
            let source = world.source(Conduct::Honest);
            world.path(source, link(mbps, 20, 0.0));
        }
        world.offer();
        world.run(Duration::from_secs(60));
        world.assert_complete();
        let is_blamed = |event: &TransferEvent| matches!(event, TransferEvent::SourceDistrusted { .. });
        assert!(!world.events.iter().any(|(_, event)| is_blamed(event)), "{:?}", world.events);
        world.sent_packets as i64
    };
    fetch(false) - fetch(true)
}
/// The part of chunk `index` that `here` covers; `alter` changes it.
fn part_of(bytes: &[u8], index: u32, here: core::ops::Range<u32>, alter: u8) -> ChunkPart {
    let mut part = vec![0; 65_536];
    let (from, until) = (here.start as usize, here.end as usize);
    let start = index as usize * 65_536;
    part[from..until].copy_from_slice(&bytes[start + from..start + until]);
    part[from..until].iter_mut().for_each(|byte| *byte ^= alter);
    ChunkPart { index, bytes: part, here: vec![here] }
}

#[test]
fn packets_of_a_chunk_that_are_here_are_not_requested() {
    let saved = saved_with(|bytes| (0..40).map(|index| part_of(bytes, index, 10_000..65_536, 0)).collect());
    // A chunk has 46 packets; 7 are missing.
    assert!((40 * 38..40 * 40).contains(&saved), "{saved} packets");
}

#[test]
fn a_part_that_is_wrong_or_claims_too_much_costs_its_packets_and_blames_nobody() {
    let wrong = saved_with(|bytes| vec![part_of(bytes, 3, 0..30_000, 1), part_of(bytes, 7, 0..65_536, 1)]);
    assert!((-2..=2).contains(&wrong), "{wrong} packets");
}

//! Random histories of a store over a disk that loses, tears and refuses writes, checked against the store's promises.
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use tributary_core::Random;

use super::{
    super::{
        age::Reading,
        fs::{Faults, SimulatedDisk, histories},
    },
    *,
};

/// The expected state of a chunk.
#[derive(Clone, Debug)]
struct Known {
    chunk: Chunk,
    fate: Fate,
}

/// What a chunk is filled with, and how long it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Chunk {
    seed: u64,
    bytes: usize,
}

/// Its possible states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// It was put and no commit was answered since: it is complete or absent.
    Put,
    /// Promised: it must exist.
    Promised,
    /// It was removed and no commit was answered since: it is complete or absent.
    Removed,
}

impl Chunk {
    fn head(&self) -> Vec<u8> {
        self.seed.to_be_bytes().repeat(1 + self.seed as usize % 30)
    }
    fn payload(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes];
        match self.seed % 2 {
            // Long runs of the same byte look like unwritten space.
            0 => bytes.fill(self.seed as u8),
            _ => blake3::Hasher::new().update(&self.seed.to_be_bytes()).finalize_xof().fill(&mut bytes),
        }
        bytes
    }
}

/// One history: its store, its disk, and the store's promises.
struct History {
    random: Random,
    disk: SimulatedDisk,
    repository: DiskRepository,
    known: BTreeMap<u64, Known>,
    next_id: u64,
    /// What an answer to the commit that runs will be about.
    committing: Option<(BTreeSet<u64>, BTreeSet<u64>)>,
    faults: Faults,
    largest: usize,
    at_once: usize,
}

const FOLDER: &str = "/state/store";

/// They stand still, so that a history can be replayed.
fn clocks() -> Clocks {
    Arc::new(Reading::default)
}

impl History {
    fn new(seed: u64) -> History {
        let mut random = Random::new(seed, 0);
        let disk = SimulatedDisk::new(seed);
        let is_rough = random.chance(0.5);
        let mut rare = |most: f64| if is_rough && random.chance(0.5) { most * random.unit() } else { 0.0 };
        let faults = Faults {
            read: 0.0,
            write: rare(0.02),
            full: rare(0.05),
            short: rare(0.3),
            sync: rare(0.1),
            change: rare(0.02),
        };
        // Many small ones or a few large ones; rarely the largest possible.
        let largest = [40, 3_000, 60_000, 200_000, 4_500_000][[0, 1, 1, 2, 2, 2, 3, 3, 3][random.below(9) as usize]];
        let largest = if random.chance(0.01) { 4_500_000 } else { largest };
        if random.chance(0.2) {
            disk.set_room(Some(100_000 + random.below(4_000_000)));
        }
        let at_once = 1 + random.below(20) as usize;
        let repository = DiskRepository::in_steps(disk.start(), Path::new(FOLDER), at_once, clocks());
        History {
            random,
            disk,
            repository,
            known: BTreeMap::new(),
            next_id: 0,
            committing: None,
            faults,
            largest,
            at_once,
        }
    }
    fn run(&mut self) {
        self.begin_life();
        for _ in 0..1 + self.random.below(6) {
            self.live();
            self.end_life();
            self.begin_life();
        }
        // All promises are kept once faults have ended.
        self.disk.set_room(None);
        self.commit_until_done();
        self.check_reads();
        self.end_life();
        self.begin_life();
        let ids: Vec<u64> = self.known.keys().copied().collect();
        ids.into_iter().for_each(|id| self.remove(id));
        self.commit_until_done();
        assert!(self.known.is_empty());
        self.disk.cut_power();
        self.restart();
        let listed = self.repository.list().expect("nothing fails");
        assert!(listed.is_empty(), "{listed:?}");
    }
    /// Some operations in one life of the node.
    fn live(&mut self) {
        self.disk.set_faults(self.faults);
        let operations = self.random.below(120);
        for _ in 0..operations {
            if self.disk.is_stopped() {
                return;
            }
            match self.random.below(100) {
                0..40 => self.put(),
                40..60 => {
                    let count = self.known.len() as u64;
                    let id = self.known.keys().nth(self.random.below(count) as usize).copied();
                    id.into_iter().for_each(|id| self.remove(id));
                }
                // A destination takes every waiting chunk, or all but one.
                60..63 => {
                    let ids: Vec<u64> = self.known.keys().copied().collect();
                    let spared = ids.get(self.random.below(ids.len() as u64) as usize).copied();
                    ids.into_iter().filter(|id| Some(*id) != spared).for_each(|id| self.remove(id));
                }
                63..75 => self.begin_commit(),
                75..95 => self.poll_commit(),
                95..97 => self.check_reads(),
                97..99 => {
                    let operations = 1 + self.random.below(60);
                    self.trace(|| format!("stops in operation {operations}"));
                    self.disk.stop_after(operations);
                }
                _ => {
                    let is_calm = self.random.chance(0.5);
                    self.disk.set_faults(if is_calm { Faults::NONE } else { self.faults });
                }
            }
        }
    }
    fn put(&mut self) {
        let count = match self.random.below(10) {
            0 => 1 + self.random.below(40),
            _ => 1,
        };
        for _ in 0..count {
            let bytes = match self.random.below(8) {
                0 => self.random.below(2),
                1 => self.random.below(40),
                2..5 => self.random.below(self.largest as u64 / 8 + 1),
                _ => self.random.below(self.largest as u64 + 1),
            };
            // Stores of a few MiB.
            let held: usize = self.known.values().map(|known| known.chunk.bytes).sum();
            let bytes = if held > 6 << 20 { bytes.min(2_000) } else { bytes };
            let chunk = Chunk { seed: self.random.bits() >> 8, bytes: bytes as usize };
            let id = self.next_id;
            self.next_id += 1;
            self.trace(|| format!("put {id}: {chunk:?}"));
            let payload = Bytes::from(chunk.payload());
            let cut = payload.len().min(self.random.below(2_000) as usize);
            let pieces = [payload.slice(..cut), payload.slice(cut..)];
            self.repository.put(id, &chunk.head(), &pieces).expect("no thread ends");
            self.known.insert(id, Known { chunk, fate: Fate::Put });
        }
    }
    fn remove(&mut self, id: u64) {
        let Some(known) = self.known.get_mut(&id) else { return };
        if known.fate == Fate::Removed {
            return;
        }
        known.fate = Fate::Removed;
        self.trace(|| format!("remove {id}"));
        self.repository.remove(id).expect("no thread ends");
    }
    /// As a proxy does, one at a time.
    fn begin_commit(&mut self) {
        if self.committing.is_some() {
            return;
        }
        self.trace(|| "commit".into());
        let of = |fate: Fate| self.known.iter().filter(move |(_, known)| known.fate == fate).map(|(id, _)| *id);
        self.committing = Some((of(Fate::Put).collect(), of(Fate::Removed).collect()));
        self.repository.commit().expect("no thread ends");
    }
    fn poll_commit(&mut self) {
        let answer = self.repository.is_committed();
        let Some((put, removed)) = self.committing.take() else { return assert_eq!(answer, Ok(true)) };
        match answer {
            Ok(false) => self.committing = Some((put, removed)),
            Ok(true) => {
                self.trace(|| "committed".into());
                for id in put {
                    if let Some(known) = self.known.get_mut(&id).filter(|known| known.fate == Fate::Put) {
                        known.fate = Fate::Promised;
                    }
                }
                // Chunks that were removed before the commit started.
                self.known.retain(|id, _| !removed.contains(id));
            }
            Err(error) => {
                self.trace(|| format!("not committed: {error}"));
                // As a proxy does with chunks that it was about to promise.
                put.into_iter().for_each(|id| self.remove(id));
            }
        }
    }
    fn commit_until_done(&mut self) {
        self.disk.set_faults(Faults::NONE);
        for _ in 0..10_000 {
            let is_open = |known: &Known| known.fate != Fate::Promised;
            if self.committing.is_none() && !self.known.values().any(is_open) {
                return;
            }
            self.begin_commit();
            self.poll_commit();
        }
        panic!("a commit never ends");
    }
    /// Promised chunks are read, byte for byte, and so are uncommitted ones.
    fn check_reads(&mut self) {
        let faults = self.disk.set_faults(Faults::NONE);
        for (id, known) in self.known.iter().filter(|(_, known)| known.fate != Fate::Removed) {
            let read = self.repository.read(*id);
            if self.disk.is_stopped() {
                break;
            }
            match read {
                Ok(read) => assert!(read == known.chunk.payload(), "chunk {id} has other bytes: {:?}", known.chunk),
                Err(error) => panic!("chunk {id} is not read: {error}"),
            }
        }
        self.disk.set_faults(faults);
    }
    fn end_life(&mut self) {
        let how = self.random.below(3);
        let is_stopped = self.disk.is_stopped();
        match how {
            0 if !is_stopped => {
                self.trace(|| "ends in order".into());
                let committed = self.committing.take();
                drop(committed);
                self.restart();
            }
            1 => {
                self.trace(|| "is killed".into());
                self.disk.kill();
                self.restart();
            }
            _ => {
                self.trace(|| "loses power".into());
                self.disk.cut_power();
                self.restart();
            }
        }
        self.committing = None;
    }
    fn restart(&mut self) {
        self.repository = DiskRepository::in_steps(self.disk.start(), Path::new(FOLDER), self.at_once, clocks());
    }
    /// Lists the chunks, through faults, kills and power cuts, and compares the list with the promises.
    fn begin_life(&mut self) {
        let mut listed = Err(StoreError::Io { operation: "", path: String::new(), reason: String::new() });
        self.disk.set_faults(Faults { full: 0.0, ..self.faults });
        for attempt in 0.. {
            if attempt == 20 {
                self.disk.set_faults(Faults::NONE);
            }
            if self.random.chance(0.1) && attempt < 10 {
                let operations = 1 + self.random.below(80);
                self.trace(|| format!("stops listing in operation {operations}"));
                self.disk.stop_after(operations);
            }
            listed = self.repository.list();
            if listed.is_ok() {
                break;
            }
            self.trace(|| format!("not listed: {listed:?}"));
            assert!(attempt < 30, "it is never listed: {listed:?}");
            if self.disk.is_stopped() || self.random.chance(0.3) {
                self.end_life();
            }
        }
        self.disk.stop_after(u64::MAX);
        let listed = listed.expect("it is listed in the end");
        let ids: BTreeSet<u64> = listed.iter().map(|(id, ..)| *id).collect();
        self.trace(|| format!("lists {ids:?}"));
        assert!(listed.windows(2).all(|pair| pair[0].0 < pair[1].0), "numbers ascend");
        for (id, head, bytes) in &listed {
            let Some(known) = self.known.get(id) else { panic!("chunk {id} comes back") };
            assert!(*head == known.chunk.head() && *bytes == known.chunk.bytes as u64, "chunk {id} has another head");
        }
        for (id, known) in &self.known {
            assert!(known.fate != Fate::Promised || ids.contains(id), "chunk {id} is lost: {:?}", known.chunk);
        }
        assert_eq!(self.repository.damage().places, 0, "nothing is damaged");
        // Listed chunks are promised, and unlisted ones are lost.
        self.known.retain(|id, _| ids.contains(id));
        self.known.values_mut().for_each(|known| known.fate = Fate::Promised);
        if self.disk.is_stopped() {
            // It stopped while it freed the space of chunks.
            self.end_life();
            return self.begin_life();
        }
        self.check_reads();
    }
    fn trace(&self, what: impl FnOnce() -> String) {
        histories::trace(what);
    }
}

#[test]
fn what_is_promised_outlives_kills_power_cuts_and_failing_disks() {
    histories::run("repository", 600, |seed| History::new(seed).run());
}

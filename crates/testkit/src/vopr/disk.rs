//! The disk of a node, which outlives it: the real chunk repository over a disk in memory that loses unsynced data when
//! its machine loses power.
//!
//! ```text
//!   node ── put, remove, commit ──► DiskRepository, a few jobs each time it is asked ──► SimulatedDisk
//!                                        dies with the node                                  stays
//! ```
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tributary_core::{Duration, Random, Time};
#[cfg(feature = "mf")]
use tributary_net::disk::{
    age::{Clocks, Reading},
    fs::{Faults, SimulatedDisk},
};

/// The time of the simulation, for a node's clock that continues while the node is dead.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    /// Sets it; it never goes back.
    pub fn set(&self, now: Time) {
        self.0.fetch_max(now.as_nanos(), Ordering::Relaxed);
    }
    /// The time.
    pub fn now(&self) -> Time {
        Time::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// The delays after which a receiver's stores answer, like a real node's, which work on separate threads.
#[derive(Clone, Debug)]
pub struct Pace {
    clock: Clock,
    waits: Arc<Mutex<Waits>>,
}

#[derive(Debug)]
struct Waits {
    random: Random,
    /// When each running task ends.
    due: BTreeSet<Time>,
}

/// The maximum duration of a task.
const TASK_MAX: Duration = Duration::from_millis(8);

impl Pace {
    /// Disks whose speed is drawn from `random`.
    pub fn new(clock: Clock, random: Random) -> Pace {
        Pace { clock, waits: Arc::new(Mutex::new(Waits { random, due: BTreeSet::new() })) }
    }
    /// Begins a task behind one that ends at `behind`; returns when it ends.
    pub fn begin(&self, behind: Option<Time>) -> Time {
        let mut waits = self.lock();
        let lasts = TASK_MAX.mul_f64(waits.random.unit() * waits.random.unit());
        let due = (self.clock.now() + lasts).max(behind.unwrap_or_default());
        waits.due.insert(due);
        due
    }
    /// Whether a task that ends then has ended.
    pub fn is_done(&self, due: Time) -> bool {
        due <= self.clock.now()
    }
    /// When the next task ends and the node needs a wake-up.
    pub fn next(&self) -> Option<Time> {
        self.lock().due.first().copied()
    }
    /// Whether a task has ended since the last call.
    pub fn ring(&self, now: Time) -> bool {
        let mut waits = self.lock();
        let before = waits.due.len();
        waits.due.retain(|due| *due > now);
        waits.due.len() < before
    }
    /// The node has died: its tasks have no receiver.
    pub fn forget(&self) {
        self.lock().due.clear();
    }
    fn lock(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What ails a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Trouble {
    /// Nothing.
    #[default]
    None,
    /// It is full.
    Full,
    /// Some writes and syncs fail.
    Fails,
}

/// How the life of a node ends, as its disk sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Death {
    /// Its process is killed: written data stays.
    Killed,
    /// Its machine loses power: synced data stays, and an arbitrary part of the unsynced.
    PowerCut,
    /// The disk is lost; the node restarts with an empty one.
    DiskLost,
}

/// The disk of one node. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct Disk {
    clock: Clock,
    content: Arc<Mutex<Content>>,
}

#[derive(Debug)]
struct Content {
    random: Random,
    #[cfg(feature = "mf")]
    machine: SimulatedDisk,
    #[cfg(feature = "mf")]
    boots: Boots,
}

impl Disk {
    /// An empty one. `random` decides its speed and the effect of a power cut.
    pub fn new(clock: Clock, mut random: Random) -> Disk {
        #[cfg(feature = "mf")]
        let boots = Boots { seed: random.clone().bits(), number: 0, since: Time::ZERO };
        #[cfg(feature = "mf")]
        let machine = SimulatedDisk::new(random.bits());
        #[cfg(not(feature = "mf"))]
        let _ = random.bits();
        let content = Content {
            random,
            #[cfg(feature = "mf")]
            machine,
            #[cfg(feature = "mf")]
            boots,
        };
        Disk { clock, content: Arc::new(Mutex::new(content)) }
    }
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(not(feature = "mf"))]
impl Disk {
    /// What ails it from now on.
    pub fn set_trouble(&self, _: Trouble) {}
    /// The life of its node ends; to be called before the node is dropped, which would end in order otherwise.
    pub fn end(&self, _: Death) {}
}

/// The boots of a machine whose time of day steps: to 1970, back, ahead, and to the right one.
#[cfg(feature = "mf")]
#[derive(Debug)]
struct Boots {
    seed: u64,
    number: u64,
    since: Time,
}

#[cfg(feature = "mf")]
impl Boots {
    fn restart(&mut self, now: Time) {
        (self.number, self.since) = (self.number + 1, now);
    }
    fn clocks(&self, clock: Clock) -> Clocks {
        const RIGHT: Duration = Duration::from_secs(1_800_000_000);
        const DAY: Duration = Duration::from_secs(86_400);
        let Boots { seed, number, since } = *self;
        Arc::new(move || {
            let (now, uptime) = (clock.now().since(Time::ZERO), clock.now().since(since));
            let wall = match Random::new(seed, now.as_secs() / 5).below(4) {
                0 => uptime,
                1 => RIGHT + now + 2 * DAY,
                2 => RIGHT + now - DAY,
                _ => RIGHT + now,
            };
            Reading { boot: number.to_string(), uptime, wall }
        })
    }
}

#[cfg(feature = "mf")]
mod machine {
    use std::path::Path;

    use bytes::Bytes;
    use tributary_content::{ChunkRepository, StoreError};
    use tributary_core::{Duration, Random, Time};
    use tributary_net::disk::DiskRepository;

    use super::{Clock, Death, Disk, Faults, SimulatedDisk, Trouble};

    /// Jobs that a disk does per poll.
    const JOBS_MAX: u64 = 40;
    /// The maximum space left on a full disk, in bytes.
    const FULL_BYTES_MAX: u64 = 200_000;

    impl Disk {
        /// What ails it from now on.
        pub fn set_trouble(&self, trouble: Trouble) {
            let mut content = self.lock();
            let left = content.random.below(FULL_BYTES_MAX);
            let machine = &content.machine;
            let failing = Faults { write: 0.05, short: 0.05, sync: 0.3, change: 0.05, ..Faults::NONE };
            machine.set_faults(if trouble == Trouble::Fails { failing } else { Faults::NONE });
            machine.set_room((trouble == Trouble::Full).then(|| machine.used_bytes() + left));
        }
        /// The life of its node ends; to be called before the node is dropped, which would end in order otherwise.
        pub fn end(&self, death: Death) {
            let mut content = self.lock();
            if death != Death::Killed {
                content.boots.restart(self.clock.now());
            }
            match death {
                Death::Killed => content.machine.kill(),
                Death::PowerCut => content.machine.cut_power(),
                Death::DiskLost => {
                    content.machine.kill();
                    content.machine = SimulatedDisk::new(content.random.bits());
                }
            }
        }
        /// The repository of this name on it, for a starting node.
        pub fn repository(&self, name: &str) -> Box<dyn ChunkRepository> {
            let mut content = self.lock();
            let at_once = 1 + content.random.below(JOBS_MAX) as usize;
            let folder = Path::new("/").join(name);
            let slowest = [0, 2, 10, 40][content.random.below(4) as usize];
            let (slowest, random) = (Duration::from_millis(slowest), Random::new(content.random.bits(), 0));
            let clocks = content.boots.clocks(self.clock.clone());
            let inner = DiskRepository::in_steps(content.machine.start(), &folder, at_once, clocks);
            Box::new(Repository { inner, clock: self.clock.clone(), random, slowest, due: Time::ZERO })
        }
    }

    struct Repository {
        inner: DiskRepository,
        clock: Clock,
        random: Random,
        /// The maximum duration of a commit.
        slowest: Duration,
        /// When the one that runs is done.
        due: Time,
    }

    impl ChunkRepository for Repository {
        fn put(&mut self, id: u64, head: &[u8], payload: &[Bytes]) -> Result<(), StoreError> {
            self.inner.put(id, head, payload)
        }
        fn remove(&mut self, id: u64) -> Result<(), StoreError> {
            self.inner.remove(id)
        }
        fn commit(&mut self) -> Result<(), StoreError> {
            self.due = self.clock.now() + self.slowest.mul_f64(self.random.unit());
            self.inner.commit()
        }
        fn is_committed(&mut self) -> Result<bool, StoreError> {
            if self.clock.now() < self.due {
                return Ok(false);
            }
            self.inner.is_committed()
        }
        fn read(&mut self, id: u64) -> Result<Bytes, StoreError> {
            self.inner.read(id)
        }
        fn list(&mut self) -> Result<Vec<(u64, Vec<u8>, u64)>, StoreError> {
            self.inner.list()
        }
        fn clock(&self) -> Duration {
            self.inner.clock()
        }
    }
}

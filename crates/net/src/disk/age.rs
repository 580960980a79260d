//! Age across restarts: how long a folder's contents have been kept, independent of changes to the time of day.
//!
//! A lifetime counts age, as in the Bundle Age block of RFC 9171 §4.4.2. A mark in the folder records the age of its
//! contents at a reading of the machine's clocks, and a later reading adds the time since:
//!
//! | since the mark | the added time |
//! |---|---|
//! | the machine has not been rebooted | its uptime, which cannot be set |
//! | it was rebooted, [`SETTLE`] or longer ago | the time of day if it was not set back, else the uptime since the boot |
//! | it was rebooted a moment ago | the uptime since the boot: the time of day may still be wrong |
//!
//! So the age may be too low after a reboot, by the time that the machine was off, and promised chunks are kept for
//! longer. It is too high only if the time of day is wrong for [`SETTLE`] after a boot.
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::Mutex;
use tributary_core::Time;

use super::fs::{FileSystem, read, real, replace};
use crate::{Clock, platform, wall_clock};

/// The file in a folder.
pub(super) const FILE: &str = "age";
/// The time of day is ignored for this long after a boot: a machine without a battery-backed clock gets it from the
/// network.
pub const SETTLE: Duration = Duration::from_secs(600);
/// How often the mark is written, when the folder is written anyway.
const MARK_INTERVAL: Duration = Duration::from_secs(60);
/// An earlier time of day (September 2020) comes from a clock that was never set.
const CREDIBLE: Duration = Duration::from_secs(1_600_000_000);

/// What the clocks of a machine show.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reading {
    /// Names the boot; without white space.
    pub boot: String,
    /// Time since that boot, suspended or not.
    pub uptime: Duration,
    /// The time of day since the start of 1970.
    pub wall: Duration,
}

impl Reading {
    /// What this machine shows now. Where a boot has no name, each process counts as one.
    pub fn now() -> Reading {
        static PROCESS: OnceLock<(String, Clock)> = OnceLock::new();
        let (boot, uptime) = match (fs::read_to_string("/proc/sys/kernel/random/boot_id"), platform::uptime()) {
            (Ok(boot), Some(uptime)) => (boot.trim().into(), uptime),
            _ => {
                let (name, clock) = PROCESS.get_or_init(|| (format!("process-{:?}", wall_clock()), Clock::new()));
                (name.clone(), clock.now().since(Time::ZERO))
            }
        };
        Reading { boot, uptime, wall: wall_clock() }
    }
    /// Minimum time since `earlier`.
    fn since(&self, earlier: &Reading) -> Duration {
        if self.boot == earlier.boot {
            return self.uptime.saturating_sub(earlier.uptime);
        }
        match self.uptime >= SETTLE && earlier.wall >= CREDIBLE {
            true => self.wall.saturating_sub(earlier.wall).max(self.uptime),
            false => self.uptime,
        }
    }
}

/// Reads the clocks.
pub type Clocks = Arc<dyn Fn() -> Reading + Send + Sync>;

/// The age of one folder's contents; see the [module](self). Clones are the same.
#[derive(Clone)]
pub struct Age {
    file: PathBuf,
    clocks: Clocks,
    marks: Arc<Mutex<Marks>>,
}

#[derive(Default)]
struct Marks {
    /// The age at a reading.
    known: (Duration, Reading),
    /// When the one in the file was written, by its age.
    written: Option<Duration>,
}

impl Age {
    /// The age of a folder of this machine.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn open(folder: &Path) -> io::Result<Age> {
        let age = Age::new(folder, Arc::new(Reading::now));
        age.load(&*real()).map(|()| age)
    }
    /// The age of a folder by these clocks. Until [`Age::load`] the folder counts as new.
    pub fn new(folder: &Path, clocks: Clocks) -> Age {
        let reading = clocks();
        let marks = Marks { known: (reading.wall, reading), written: None };
        Age { file: folder.join(FILE), clocks, marks: Arc::new(Mutex::new(marks)) }
    }
    /// Reads the mark. The contents of a folder without one are as old as the time of day: earlier versions counted so.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(crate) fn load(&self, fs: &dyn FileSystem) -> io::Result<()> {
        let mark = match read(fs, &self.file) {
            Ok(bytes) => decode(&bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let mut marks = self.marks.lock();
        if let Some(known) = mark {
            *marks = Marks { written: Some(known.0), known };
        }
        Ok(())
    }
    /// The age now. It never decreases while the process runs.
    pub fn now(&self) -> Duration {
        self.marks.lock().advance((self.clocks)())
    }
    /// The same as [`Age::now`], before something is kept in the folder: writes a mark if there is no recent one.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn mark(&self) -> io::Result<Duration> {
        self.save(&*real()).map(|()| self.now())
    }
    /// Writes a mark, unless there is a recent one. A failed write is repeated at the next call; it is an error only
    /// without any mark.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(crate) fn save(&self, fs: &dyn FileSystem) -> io::Result<()> {
        let mut marks = self.marks.lock();
        let now = (self.clocks)();
        let age = marks.advance(now.clone());
        // A mark of an earlier boot stays until the time of day is reliable: it is needed to compute the time off.
        let is_recent =
            |written: Duration| age.saturating_sub(written) < MARK_INTERVAL || marks.known.1.boot != now.boot;
        if marks.written.is_some_and(is_recent) {
            return Ok(());
        }
        let Reading { boot, uptime, wall } = now;
        let text = format!("{} {} {} {boot}\n", age.as_millis(), uptime.as_millis(), wall.as_millis());
        match replace(fs, &self.file, &[text.as_bytes()]) {
            Err(error) if marks.written.is_none() => return Err(error),
            Err(_) => {}
            Ok(()) => marks.written = Some(age),
        }
        Ok(())
    }
}
impl Marks {
    /// The age at a reading, which becomes the known one if it is certain.
    fn advance(&mut self, now: Reading) -> Duration {
        let (age, at) = &self.known;
        let age = *age + now.since(at);
        if now.boot == at.boot || now.uptime >= SETTLE || at.wall < CREDIBLE {
            self.known = (age, now);
        }
        age
    }
}
/// The age in a mark, and the reading then.
fn decode(bytes: &[u8]) -> Option<(Duration, Reading)> {
    let mut words = std::str::from_utf8(bytes).ok()?.split_whitespace();
    let mut millis = || words.next()?.parse().ok().map(Duration::from_millis);
    let (age, uptime, wall) = (millis()?, millis()?, millis()?);
    Some((age, Reading { boot: words.next()?.into(), uptime, wall }))
}

#[cfg(test)]
mod tests {
    use super::{super::fs::SimulatedDisk, *};

    const HOUR: u64 = 3_600;
    const NOW: u64 = 1_800_000_000;

    /// How much older a folder of the first life is in each of the others, in seconds.
    fn ages(first: (&str, u64, u64), lives: &[(&str, u64, u64)]) -> Vec<u64> {
        let disk = SimulatedDisk::new(1);
        let start = |(boot, uptime, wall): (&str, u64, u64)| {
            let [uptime, wall] = [uptime, wall].map(Duration::from_secs);
            let reading = Reading { boot: boot.into(), uptime, wall };
            let age = Age::new(Path::new("/"), Arc::new(move || reading.clone()));
            let fs = disk.start();
            age.load(&*fs).and_then(|()| age.save(&*fs)).unwrap();
            age.now().as_secs()
        };
        let stored = start(first);
        lives.iter().map(|life| start(*life) - stored).collect()
    }

    #[test]
    fn age_counts_uptime_and_believes_the_time_of_day_only_where_it_makes_sense() {
        let first = ("a", 9 * HOUR, NOW);
        // What happens; boot id, uptime and time of day at first and at later starts; the ages then.
        type Life = (&'static str, u64, u64);
        let cases: [(&str, Life, &[Life], &[u64]); 8] = [
            (
                "the time of day steps in one boot",
                first,
                &[("a", 10 * HOUR, 60), ("a", 11 * HOUR, NOW * 2)],
                &[HOUR, 2 * HOUR],
            ),
            ("booted in 1971 and corrected", ("a", 60, 3_600), &[("a", 120, NOW), ("a", 180, NOW + 60)], &[60, 120]),
            ("stored in 1971, the next boot is right", ("a", 60, 3_600), &[("b", HOUR, NOW)], &[HOUR]),
            ("the next boot is in 1971", first, &[("b", 60, 60), ("b", HOUR, HOUR)], &[60, HOUR]),
            ("off for a day, shortly after the boot", first, &[("b", 60, NOW + 24 * HOUR)], &[60]),
            (
                "off for a day, some time after the boot",
                first,
                &[("b", 60, NOW + 24 * HOUR), ("b", HOUR, NOW + 25 * HOUR)],
                &[60, 25 * HOUR],
            ),
            (
                "a boot two days ahead, corrected in time",
                first,
                &[("b", 60, NOW + 48 * HOUR), ("b", HOUR, NOW + HOUR + 300)],
                &[60, HOUR + 300],
            ),
            (
                "set back a day",
                first,
                &[("b", HOUR, NOW - 24 * HOUR), ("b", 2 * HOUR, NOW + 99 * HOUR)],
                &[HOUR, 2 * HOUR],
            ),
        ];
        for (what, first, lives, expected) in cases {
            assert_eq!(ages(first, lives), expected, "{what}");
        }
    }

    #[test]
    fn a_mark_that_cannot_be_read_makes_nothing_older_than_the_time_of_day() {
        let disk = SimulatedDisk::new(1);
        let fs = disk.start();
        replace(&*fs, Path::new("/age"), &[b"nonsense"]).unwrap();
        let age =
            Age::new(Path::new("/"), Arc::new(|| Reading { wall: Duration::from_secs(NOW), ..Reading::default() }));
        age.load(&*fs).unwrap();
        assert_eq!(age.now(), Duration::from_secs(NOW));
    }
}

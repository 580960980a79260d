//! Random histories of small durable things over a disk that loses, tears and refuses, checked against what was promised.
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use tributary_content::{Name, PublicKey, SigningKey};
use tributary_core::Random;

use super::{
    TrustStore,
    fs::{self, Faults, FileSystem, SimulatedDisk, create_folders, histories},
    key::{self, KeyFileError},
};

/// What may be remembered of something: one value if that was acknowledged, and the others of attempts that failed since.
type Possible<T> = BTreeSet<T>;

/// A machine and its process.
struct Machine {
    random: Random,
    disk: SimulatedDisk,
    fs: Arc<dyn FileSystem>,
    faults: Faults,
}

impl Machine {
    fn new(seed: u64) -> Machine {
        let mut random = Random::new(seed, 0);
        let disk = SimulatedDisk::new(seed);
        let is_rough = random.chance(0.6);
        let mut rare = |most: f64| if is_rough && random.chance(0.5) { most * random.unit() } else { 0.0 };
        let faults = Faults {
            read: rare(0.02),
            write: rare(0.1),
            full: rare(0.1),
            short: rare(0.3),
            sync: rare(0.2),
            change: rare(0.1),
        };
        let fs = disk.start();
        Machine { random, disk, fs, faults }
    }
    /// Lets what comes fail, and perhaps the process stop within it.
    fn be_rough(&mut self) {
        self.disk.set_faults(self.faults);
        if self.random.chance(0.3) {
            let operations = 1 + self.random.below(60);
            trace(|| format!("stops in operation {operations}"));
            self.disk.stop_after(operations);
        }
    }
    /// Ends the process, by a kill or a power cut, and starts another one on which nothing fails.
    fn restart(&mut self) {
        // A process that is stopped between a sync that fails and the repair of it leaves a next one of the same machine
        // what is on no disk; nobody can tell.
        let may_mislead = self.disk.is_stopped() && self.faults.sync > 0.0;
        match self.random.chance(0.4) && !may_mislead {
            true => self.disk.kill(),
            false => self.disk.cut_power(),
        }
        trace(|| "restarts".into());
        self.disk.set_faults(Faults::NONE);
        self.disk.stop_after(u64::MAX);
        self.fs = self.disk.start();
    }
}

fn trace(what: impl FnOnce() -> String) {
    if histories::is_traced() {
        eprintln!("{}", what());
    }
}

/// The first key of each name: what was acknowledged is never forgotten, or changed, or makes the rest unreadable.
fn trust(seed: u64) {
    let mut machine = Machine::new(seed);
    let keys: Vec<PublicKey> = (0..4).map(|number| SigningKey::from_secret(&[number; 32]).public()).collect();
    let names: Vec<Name> =
        (0..12).map(|number| format!("/{number}/{}", "x".repeat(number * 60)).parse().expect("a name")).collect();
    let mut known = BTreeMap::<usize, Possible<Option<usize>>>::new();
    for _ in 0..2 + machine.random.below(6) {
        let store = TrustStore::on(Arc::clone(&machine.fs), "/home/state/trust");
        let entries = store.entries().expect("a power cut never makes it unreadable");
        for (number, name) in names.iter().enumerate() {
            let found = entries.get(name).map(|key| keys.iter().position(|other| other == key).expect("one of them"));
            let possible = known.entry(number).or_insert_with(|| BTreeSet::from([None]));
            assert!(possible.contains(&found), "{name} has {found:?} of {possible:?}");
        }
        machine.be_rough();
        for _ in 0..machine.random.below(30) {
            let (name, key) = (machine.random.below(12) as usize, machine.random.below(4) as usize);
            let possible = known.get_mut(&name).expect("each has some");
            let how = machine.random.below(8);
            let (wanted, done) = match how {
                0 => (None, store.forget(&names[name]).map(drop)),
                1 => (Some(key), store.accept(&names[name], &keys[key])),
                // It refuses another key than the first.
                _ => (Some(key), store.check_and_remember(&names[name], &keys[key], None)),
            };
            trace(|| format!("{how}: {name} {wanted:?}: {done:?}"));
            match done {
                Ok(()) => *possible = BTreeSet::from([wanted]),
                Err(tributary_content::StoreError::Untrusted { .. }) => {}
                Err(_) => drop(possible.insert(wanted)),
            }
        }
        drop(store);
        machine.restart();
    }
}

/// Files that are replaced as a whole, such as publications, groups and readers.
fn replaced(seed: u64) {
    let mut machine = Machine::new(seed);
    let path = Path::new("/home/state/file");
    let contents = |version: u64| {
        let mut bytes = vec![0; Random::new(version, 2).below(20_000) as usize];
        blake3::Hasher::new().update(&version.to_be_bytes()).finalize_xof().fill(&mut bytes);
        bytes
    };
    let mut possible = BTreeSet::from([0]);
    let mut version = 0;
    for _ in 0..2 + machine.random.below(6) {
        match fs::read(&*machine.fs, path) {
            Ok(found) => {
                let is_one = possible.iter().any(|version| *version > 0 && found == contents(*version));
                assert!(is_one, "it has {} bytes, none of versions {possible:?}", found.len());
            }
            Err(error) => assert!(possible.contains(&0), "it is gone: {error}"),
        }
        machine.be_rough();
        for _ in 0..machine.random.below(10) {
            version += 1;
            let bytes = contents(version);
            let cut = machine.random.below(bytes.len() as u64 + 1) as usize;
            let folders = create_folders(&*machine.fs, Path::new("/home/state"));
            let done = folders.and_then(|()| fs::replace(&*machine.fs, path, &[&bytes[..cut], &bytes[cut..]]));
            trace(|| format!("{version}: {done:?}"));
            match done {
                Ok(()) => possible = BTreeSet::from([version]),
                Err(_) => drop(possible.insert(version)),
            }
        }
        machine.restart();
    }
}

/// A node's own key: once it was used, it is the key.
fn own_key(seed: u64) {
    let mut machine = Machine::new(seed);
    let path = Path::new("/home/state/key");
    let mut used = None;
    for _ in 0..2 + machine.random.below(5) {
        machine.be_rough();
        for _ in 0..3 {
            match key::load_or_create(&*machine.fs, path) {
                // What was found may be on no disk as long as it cannot be synced.
                Ok(key) if machine.disk.operations().1 == 0 && !machine.disk.is_stopped() => {
                    let first = *used.get_or_insert(key.public());
                    assert_eq!(key.public(), first, "there is another key");
                }
                Ok(_) => {}
                Err(error) => {
                    trace(|| error.to_string());
                    assert!(!matches!(error, KeyFileError::Damaged { .. }), "{error}");
                }
            }
        }
        machine.restart();
    }
}

#[test]
fn a_key_that_was_used_outlives_kills_power_cuts_and_failing_disks() {
    histories::run("key", 2_000, own_key);
}

#[test]
fn keys_that_were_remembered_outlive_kills_power_cuts_and_failing_disks() {
    histories::run("trust", 3_000, trust);
}

#[test]
fn files_that_were_replaced_outlive_kills_power_cuts_and_failing_disks() {
    histories::run("replaced", 3_000, replaced);
}

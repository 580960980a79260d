//! Random histories of small durable files over a disk that loses, tears and refuses writes, checked against the
//! acknowledged values.
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

use tributary_content::{ChunkIndex, ChunkStore, Name, ObjectReader, PublicKey, SigningKey};
use tributary_core::Random;

use super::{
    PartFile, PartOptions, TrustStore,
    fixtures::{believing, object, object_of},
    fs::{
        self, create_folders,
        histories::{self, Machine, trace},
    },
    key::{self, KeyFileError},
    staging::Staging,
    state::StateTable,
    update::{self, Step, Update},
};

/// The possible values of an entry: the acknowledged one, and those that later failed attempts tried to write.
type Possible<T> = BTreeSet<T>;

/// The first key of each name: an acknowledged one is never forgotten, never changed, and never makes the others
/// unreadable.
fn trust(seed: u64) {
    let mut machine = Machine::new(seed);
    let keys: Vec<PublicKey> = (0..4).map(|number| SigningKey::from_secret(&[number; 32]).public()).collect();
    let names: Vec<Name> =
        (0..12).map(|number| format!("/{number}/{}", "x".repeat(number * 60)).parse().expect("a name")).collect();
    let mut known = BTreeMap::<usize, Possible<Option<usize>>>::new();
    for _ in 0..2 + machine.random.below(6) {
        let store = TrustStore::on(Arc::clone(&machine.fs), "/home/state/trust");
        let entries = store.ask(Clone::clone).expect("a power cut never makes it unreadable");
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
                _ => {
                    let signer = SigningKey::from_secret(&[key as u8; 32]);
                    let offered = object_of(&[1], &names[name].to_string(), 1, &signer);
                    (Some(key), believing(&store, None).check_and_remember(offered.manifest()))
                }
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

/// Files that are replaced as a unit, such as publications, groups and readers.
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

/// A download: put chunks survive the process, synced ones survive a power cut, and nothing else is held.
fn download(seed: u64) {
    let mut machine = Machine::new(seed);
    let size = 1 + machine.random.below(30_000) as usize;
    let mut published = object(size);
    let manifest = published.manifest().clone();
    let count = manifest.chunk_count();
    let staging = Staging::of(Path::new("/out"), None);
    let options = PartOptions::default();
    // Chunks that are certain to exist, and all chunks that were ever put.
    let (mut promised, mut expected, mut put) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for _ in 0..2 + machine.random.below(6) {
        machine.be_rough();
        // As `PartFile::open` starts: the folder, and the lock on the state.
        let open = || {
            match machine.fs.create_folder(&staging.folder) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return None,
                _ => {}
            }
            let locked = StateTable::lock(&*machine.fs, &staging.state(), Duration::ZERO).ok()?;
            let fs = Arc::clone(&machine.fs);
            PartFile::open_locked(fs, locked, staging.clone(), ("/out".into(), None), &manifest, &options).ok()
        };
        let Some(mut store) = open() else {
            machine.restart();
            if machine.was_power_cut {
                expected = promised.clone();
            }
            continue;
        };
        let held: BTreeSet<u32> = store.held().iter_set().collect();
        trace(|| format!("holds {held:?}, expected {expected:?}"));
        assert!(held.is_superset(&expected), "{held:?} lacks some of {expected:?}");
        assert!(held.iter().all(|index| put.contains(index)), "{held:?} has more than {put:?}");
        for _ in 0..machine.random.below(40) {
            match machine.random.below(10) {
                0 => {
                    let done = store.put_tree(published.hash_tree());
                    trace(|| format!("tree: {done:?}"));
                }
                1 => {
                    let done = store.sync();
                    trace(|| format!("sync: {done:?}"));
                    if done.is_ok() {
                        promised = store.held().iter_set().collect();
                    }
                }
                _ => {
                    let index = machine.random.below(count.into()) as u32;
                    let chunk = published.read_chunk(ChunkIndex(index)).expect("it is published");
                    put.insert(index);
                    let done = store.put_chunk(ChunkIndex(index), &chunk);
                    trace(|| format!("put {index}: {done:?}"));
                }
            }
        }
        let held: BTreeSet<u32> = store.held().iter_set().collect();
        machine.restart();
        drop(store);
        // A kill loses nothing, unless the disk had dropped it before.
        expected = promised.clone();
        if !machine.was_power_cut && machine.faults.sync == 0.0 {
            expected = held;
        }
    }
}

/// The update of a folder: each of its files is the old or the new one at any time, and in the end all are of one version.
fn folder_update(seed: u64) {
    let mut machine = Machine::new(seed);
    let (target, slots, journal) = (Path::new("/out"), Path::new("/staging/unpacked"), Path::new("/staging/update"));
    let bytes = |version: u8, path: &str| [&[version; 700][..], path.as_bytes()].concat();
    let write = |machine: &Machine, path: &Path, bytes: &[u8]| {
        fs::replace(&*machine.fs, path, &[bytes]).expect("nothing fails yet");
        machine.fs.metadata(path).expect("there").identity.1
    };
    let folder = |machine: &Machine, path: &Path| {
        create_folders(&*machine.fs, path).expect("nothing fails yet");
        machine.fs.metadata(path).expect("there").identity.1
    };
    for path in [target, slots, &target.join("kept")] {
        folder(&machine, path);
    }
    let mut steps = Vec::new();
    let is_old = |machine: &mut Machine| machine.random.chance(0.7);
    let removed = ["gone/1", "gone/2", "gone"].map(|path| (path, true, false));
    let made = ["new", "new/1", "new/2"].map(|path| (path, false, true));
    let changed = ["a", "b", "c", "kept/a", "kept/b"].map(|path| (path, is_old(&mut machine), true));
    folder(&machine, &target.join("gone"));
    for (number, (path, was, is)) in removed.into_iter().chain(made).chain(changed).enumerate() {
        let is_folder = ["gone", "new"].contains(&path);
        let make = |version, at: &Path| match is_folder {
            true => folder(&machine, at),
            false => write(&machine, at, &bytes(version, path)),
        };
        let old = if was { make(1, &target.join(path)) } else { 0 };
        let new = if is { make(2, &update::slot(slots, number)) } else { 0 };
        steps.push(Step { path: path.into(), old, new });
    }
    let files: Vec<&Step> = steps.iter().filter(|step| ![&b"gone"[..], b"new"].contains(&&step.path[..])).collect();
    let (mut is_saved, mut version) = (false, 1);
    for life in 0..2 + machine.random.below(6) {
        // The last process has no bad luck.
        let is_last = life > 5;
        if !is_last {
            machine.be_rough();
        }
        let fs = Arc::clone(&machine.fs);
        let mut update = Update { fs: &*fs, target, slots, steps: steps.clone() };
        let saved = match is_saved {
            true => Update::load(&*fs, journal, (target, slots)).map(|loaded| update = loaded.expect("undamaged")),
            false => update.save(journal),
        };
        let done = saved.and_then(|()| update.go_on());
        trace(|| format!("{done:?}"));
        // A kill or a power cut ends it, whether it was stopped before or not. Files that it removed may come back.
        let ended = match &done {
            Ok(()) => Some(2),
            Err(_) => update.undo().is_ok().then_some(1),
        };
        if let Some(ended) = ended.filter(|_| machine.random.chance(0.7)) {
            version = ended;
            if update.end(journal).is_ok() {
                (0..steps.len()).for_each(|number| drop(fs.remove_file(&update::slot(slots, number))));
            }
        }
        machine.restart();
        is_saved = machine.fs.metadata(journal).is_ok();
        for step in &files {
            let path = std::str::from_utf8(&step.path).expect("text");
            let there = fs::read(&*machine.fs, &target.join(path)).ok();
            let is = |version: u8, inode: u64| there == (inode != 0).then(|| bytes(version, path));
            let (is_old, is_new) = (is(1, step.old), is(2, step.new));
            trace(|| format!("'{path}' is old: {is_old}, new: {is_new}"));
            assert!(is_old || is_new, "'{path}' is neither the old nor the new one");
            assert!(is_saved || if version == 2 { is_new } else { is_old }, "'{path}' is not of version {version}");
        }
        if !is_saved && ended.is_some() {
            return;
        }
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
                // A key that was read may be on no disk as long as it cannot be synced.
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
fn a_download_outlives_kills_and_what_was_synced_power_cuts_and_failing_disks() {
    histories::run("download", 1_500, download);
}

#[test]
fn the_update_of_a_folder_outlives_kills_power_cuts_and_failing_disks() {
    histories::run("update", 3_000, folder_update);
}

#[test]
fn keys_that_were_remembered_outlive_kills_power_cuts_and_failing_disks() {
    // A line whose sync had failed was taken back in memory and not on the disk, and `forget` found nothing to do.
    trust(13_803);
    histories::run("trust", 3_000, trust);
}

#[test]
fn files_that_were_replaced_outlive_kills_power_cuts_and_failing_disks() {
    histories::run("replaced", 3_000, replaced);
}

mod recorded;

use super::*;
use crate::disk::{
    ChunkCache, DirectoryObject, PublishOptions,
    fixtures::{CHUNK, directory, key, names, object, object_of, pattern, put, put_missing, read_all},
};
use proptest::prelude::*;
use std::{
    fs::{self, OpenOptions},
    io::{BufRead, BufReader},
    os::unix::fs::MetadataExt,
};

use recorded::{Recorded, Step};
use tributary_content::{MemoryObject, ObjectReader, SigningKey};

fn open_default(target: &Path, manifest: &Manifest) -> Result<PartFile, StoreError> {
    PartFile::open(target, manifest, &PartOptions::default())
}
fn staging(target: &Path) -> Staging {
    Staging::of(target, None)
}
fn reason(result: Result<PartFile, StoreError>) -> String {
    result.err().expect("it must be refused").to_string()
}
/// Every chunk that the store claims to hold has the published bytes on disk.
fn assert_claims_hold(store: &PartFile, object: &MemoryObject) {
    let part = fs::read(&store.part_path).expect("the part is there");
    for index in store.held.iter_set() {
        let start = index as usize * CHUNK as usize;
        let end = (start + CHUNK as usize).min(object.bytes().len());
        assert_eq!(part[start..end], object.bytes()[start..end], "chunk {index} is claimed");
    }
}

#[test]
fn a_download_gets_its_name_only_when_it_is_complete() {
    let (directory, mut published) = (directory(), object(5000));
    let target = directory.path().join("out");
    let mut store = open_default(&target, published.manifest()).expect("nothing speaks against it");
    store.put_tree(published.hash_tree()).expect("it matches");
    for index in [4, 0, 2, 1] {
        put(&mut store, &mut published, index);
    }
    let error = store.finish().expect_err("a chunk is missing").to_string();
    assert!(error.ends_with("1 of 5 chunks are missing"), "{error}");
    assert_eq!(names(directory.path()).len(), 1, "all is in one folder");
    assert_eq!(names(&staging(&target).folder), ["part", "state"]);
    put(&mut store, &mut published, 3);
    store.finish().expect("all is there");
    assert!(fs::read(&target).expect("it has its name") == *published.bytes());
    assert_eq!(names(directory.path()), ["out"]);
    store.finish().expect("finishing twice does no harm");
}

#[test]
fn empty_and_one_byte_objects_are_stored() {
    for length in [0, 1] {
        let (directory, mut published) = (directory(), object(length));
        let target = directory.path().join("out");
        let mut store = open_default(&target, published.manifest()).expect("nothing speaks against it");
        put_missing(&mut store, &mut published);
        store.finish().expect("all is there");
        assert_eq!(fs::read(&target).expect("it has its name").len(), length);
    }
}

#[test]
fn what_was_held_is_held_after_a_restart_whether_the_tree_was_given_or_not() {
    for with_tree in [true, false] {
        let (directory, mut published) = (directory(), object(5000));
        let (target, manifest) = (directory.path().join("out"), published.manifest().clone());
        let mut store = open_default(&target, &manifest).expect("nothing speaks against it");
        if with_tree {
            store.put_tree(published.hash_tree()).expect("it matches");
        }
        assert!(!PartFile::resumes(&target, &manifest));
        put(&mut store, &mut published, 1);
        put(&mut store, &mut published, 4);
        drop(store);

        assert!(PartFile::resumes(&target, &manifest));
        assert_eq!(PartFile::interrupted(&target), Some(manifest.clone()));
        let mut store = open_default(&target, &manifest).expect("it is ours");
        assert!(store.held().iter_set().eq([1, 4]));
        assert_eq!(store.tree().is_some(), with_tree);
        store.put_tree(published.hash_tree()).expect("it matches");
        assert!(store.held().iter_set().eq([1, 4]));
        put_missing(&mut store, &mut published);
        store.finish().expect("all is there");
        assert!(fs::read(&target).expect("it has its name") == *published.bytes());
    }
}

#[test]
fn a_chunk_altered_on_disk_is_dropped_when_the_download_resumes() {
    let (directory, mut published) = (directory(), object(5000));
    let (target, manifest) = (directory.path().join("out"), published.manifest().clone());
    let mut store = open_default(&target, &manifest).expect("nothing speaks against it");
    put_missing(&mut store, &mut published);
    let (part_path, first) = (store.part_path.clone(), published.bytes()[0]);
    drop(store);
    let part = OpenOptions::new().write(true).open(&part_path).expect("it is there");
    part.write_all_at(&[first ^ 1], 0).expect("it is writable");
    part.set_len(4500).expect("it is writable");
    let trusting = PartOptions { resume: Resume::Trust, ..PartOptions::default() };
    let trusted = PartFile::open(&target, &manifest, &trusting).expect("it is ours");
    assert!(trusted.held().is_full(), "nothing is read under Resume::Trust");
    drop(trusted);
    part.set_len(4500).expect("it is writable");
    let mut store = open_default(&target, &manifest).expect("it is ours");
    assert!(store.held().iter_set().eq([1, 2, 3]));
    drop(store);
    store = PartFile::open(&target, &manifest, &trusting).expect("it is ours");
    assert!(store.held().iter_set().eq([1, 2, 3]), "what failed once stays dropped");
}

#[test]
fn a_chunk_that_contradicts_the_tree_is_dropped_when_the_tree_is_known() {
    let (directory, mut published) = (directory(), object(5000));
    let target = directory.path().join("out");
    let mut store = open_default(&target, published.manifest()).expect("nothing speaks against it");
    put(&mut store, &mut published, 0);
    store.put_chunk(ChunkIndex(1), &[9; CHUNK as usize]).expect("without the tree it cannot know better");
    assert_eq!(store.held().count(), 2);
    let other = object(5001);
    assert!(store.put_tree(other.hash_tree()).is_err());
    store.put_tree(published.hash_tree()).expect("it matches");
    assert!(store.held().iter_set().eq([0]));
}

#[test]
fn chunks_of_a_wrong_length_or_index_are_refused() {
    let (directory, published) = (directory(), object(3000));
    let mut store =
        open_default(&directory.path().join("out"), published.manifest()).expect("nothing speaks against it");
    for (index, length) in [(0, CHUNK - 1), (0, CHUNK + 1), (2, CHUNK), (3, 0), (u32::MAX, CHUNK)] {
        assert!(store.put_chunk(ChunkIndex(index), &vec![0; length as usize]).is_err(), "{index} {length}");
    }
    assert_eq!(store.held().count(), 0);
}

#[test]
fn two_stores_never_write_to_the_same_part() {
    let (directory, published) = (directory(), object(3000));
    let target = directory.path().join("out");
    let first = open_default(&target, published.manifest()).expect("nothing speaks against it");
    let error = reason(open_default(&target, published.manifest()));
    assert!(error.contains("something else is being fetched to the same place"), "{error}");
    drop(first);
    open_default(&target, published.manifest()).expect("the lock went with its store");
}

#[test]
fn versions_of_one_object_that_come_at_once_are_all_kept_whole_if_they_may_be_apart() {
    let directory = directory();
    let target = directory.path().join("out");
    let existing = Existing::Number;
    let options = PartOptions { apart: true, existing, ..PartOptions::default() };
    let mut versions: Vec<_> = (1..=3).map(|n| object_of(&[n; 3000], "/x", n.into(), &key())).collect();
    let open = |object: &MemoryObject| PartFile::open(&target, object.manifest(), &options).expect("it has its place");
    let mut stores: Vec<_> = versions.iter().map(open).collect();
    for (store, object) in stores.iter_mut().zip(&mut versions) {
        put_missing(store, object);
    }
    for ((store, object), name) in stores.iter_mut().zip(&versions).zip(["out", "out~2", "out~3"]) {
        store.finish().expect("all is there");
        assert!(fs::read(directory.path().join(name)).expect("there") == *object.bytes());
        assert_eq!(options.placed.path(), Some(directory.path().join(name)));
    }
    drop(stores);
    assert_eq!(names(directory.path()), ["out", "out~2", "out~3"]);
}

#[test]
fn a_store_that_is_about_to_end_is_waited_for_and_its_chunks_are_kept() {
    let (directory, mut published) = (directory(), object(3000));
    let target = directory.path().join("out");
    let mut first = open_default(&target, published.manifest()).expect("nothing speaks against it");
    put(&mut first, &mut published, 1);
    let ending = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        drop(first);
    });
    let second = open_default(&target, published.manifest()).expect("the first one ends soon");
    assert!(second.held().iter_set().eq([1]));
    ending.join().expect("it sleeps and ends");
}

#[test]
fn the_same_bytes_under_a_name_go_on_whoever_signed_them() {
    let bytes = pattern(3000);
    for (version, secret) in [(2, 7), (1, 8), (0, 9)] {
        let directory = directory();
        let target = directory.path().join("out");
        let mut old = object_of(&bytes, "/x", 1, &key());
        let mut store = open_default(&target, old.manifest()).expect("nothing speaks against it");
        put(&mut store, &mut old, 0);
        drop(store);
        let mut new = object_of(&bytes, "/x", version, &SigningKey::from_secret(&[secret; 32]));
        assert!(PartFile::resumes(&target, new.manifest()));
        let mut store = open_default(&target, new.manifest()).expect("nothing of it is lost");
        assert_eq!(store.held().count(), 1);
        put_missing(&mut store, &mut new);
        store.finish().expect("all is there");
        assert_eq!(fs::read(&target).expect("readable"), bytes);
    }
}

#[test]
fn another_version_starts_anew_and_another_name_or_publisher_is_refused() {
    let bytes = pattern(3000);
    let old = || object_of(&bytes, "/x", 1, &key());
    for (name, version, secret, starts) in [("/x", 2, 7, true), ("/y", 1, 7, false), ("/x", 1, 8, false)] {
        let directory = directory();
        let target = directory.path().join("out");
        let mut store = open_default(&target, old().manifest()).expect("nothing speaks against it");
        put(&mut store, &mut old(), 0);
        drop(store);
        let new = object_of(&pattern(2999), name, version, &SigningKey::from_secret(&[secret; 32]));
        assert!(!PartFile::resumes(&target, new.manifest()));
        match open_default(&target, new.manifest()) {
            Ok(store) => assert!(starts && store.held().count() == 0),
            Err(error) => {
                let publisher = key().public();
                assert!(!starts && error.to_string().contains(&format!("of '/x' by {publisher}")), "{error}");
                let kept = open_default(&target, old().manifest()).expect("it is ours");
                assert_eq!(kept.held().count(), 1, "a refusal loses nothing");
            }
        }
    }
}

#[test]
fn a_download_goes_on_when_its_publication_names_other_mirrors_or_none() {
    let bytes = pattern(5000);
    let object = |version| object_of(&bytes, "/x", version, &key());
    let mirrored = |urls: &[&str]| {
        let urls = urls.iter().map(ToString::to_string).collect();
        object(2).manifest().clone().mirrored(urls, &key()).expect("legal")
    };
    let forms =
        [object(1).manifest().clone(), mirrored(&["http://a/x"]), mirrored(&["http://a/x", "http://b/longer/x"])];
    for before in &forms {
        for after in &forms {
            let (directory, mut published) = (directory(), object(1));
            let target = directory.path().join("out");
            let mut store = open_default(&target, before).expect("nothing speaks against it");
            store.put_tree(published.hash_tree()).expect("it matches");
            [0, 3].into_iter().for_each(|index| put(&mut store, &mut published, index));
            drop(store);
            assert!(PartFile::resumes(&target, after));
            let mut store = open_default(&target, after).expect("it is ours");
            assert_eq!((store.held().count(), store.tree().is_some()), (2, true));
            // What a failed sync may have dropped is written again, at the same places.
            put(&mut store, &mut published, 1);
            store.write_again().expect("the disk has room");
            drop(store);
            let mut store = open_default(&target, before).expect("it is ours");
            assert_eq!((store.held().count(), store.tree().is_some()), (3, true));
            [2, 4].into_iter().for_each(|index| put(&mut store, &mut published, index));
            store.finish().expect("all is there");
            assert!(fs::read(&target).expect("it has its name") == bytes);
        }
    }
}

#[test]
fn a_part_that_is_not_ours_is_left_alone() {
    let (directory, published) = (directory(), object(3000));
    let target = directory.path().join("out");
    let staging = staging(&target);
    staging.make().expect("writable");
    fs::write(staging.part(), b"somebody's").expect("writable");
    for _ in 0..2 {
        let error = reason(open_default(&target, published.manifest()));
        assert!(error.contains("is not ours"), "{error}");
    }
    assert_eq!(names(&staging.folder), ["part"]);
    assert_eq!(fs::read(staging.part()).expect("readable"), b"somebody's");
}

#[test]
fn files_of_a_person_beside_the_target_are_left_alone_whatever_they_are_called() {
    let (directory, mut published) = (directory(), object(3000));
    let target = directory.path().join("out");
    let own = ["out.part", "out.part.state", "out.part-dir", "out.tmp", ".out.part", "part", "state", ".tributary-"];
    own.iter().for_each(|name| fs::write(directory.path().join(name), b"mine").expect("writable"));
    let mut store = open_default(&target, published.manifest()).expect("nothing speaks against it");
    put_missing(&mut store, &mut published);
    store.finish().expect("all is there");
    for name in own {
        assert_eq!(fs::read(directory.path().join(name)).expect("it is there"), b"mine", "{name}");
    }
    assert_eq!(names(directory.path()).len(), own.len() + 1);
}

#[test]
fn links_in_place_of_part_or_state_are_not_followed() {
    for is_part in [true, false] {
        let (directory, published) = (directory(), object(3000));
        let (target, victim) = (directory.path().join("out"), directory.path().join("victim"));
        fs::write(&victim, b"precious").expect("writable");
        let staging = staging(&target);
        staging.make().expect("writable");
        let link = if is_part { staging.part() } else { staging.state() };
        std::os::unix::fs::symlink(&victim, link).expect("links can be made");
        if is_part {
            fs::write(staging.state(), b"").expect("writable");
        }
        assert!(open_default(&target, published.manifest()).is_err());
        assert_eq!(fs::read(&victim).expect("readable"), b"precious");
    }
}

#[test]
fn targets_that_cannot_become_a_file_are_refused_before_anything_is_created() {
    let (directory, published) = (directory(), object(3000));
    let path = directory.path();
    fs::create_dir(path.join("directory")).expect("writable");
    fs::write(path.join("file"), b"old").expect("writable");
    nix::unistd::mkfifo(&path.join("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("pipes can be made");
    std::os::unix::fs::symlink("nowhere", path.join("dangling")).expect("links can be made");
    let before = names(path);
    let refuse = PartOptions { existing: Existing::Refuse, ..PartOptions::default() };
    for (target, options, expected) in [
        ("directory", PartOptions::default(), "it is a directory"),
        ("pipe", PartOptions::default(), "not a regular file"),
        ("missing/out", PartOptions::default(), "does not exist"),
        ("file/out", PartOptions::default(), "ot a directory"),
        ("dangling", PartOptions::default(), "cannot follow link"),
        ("..", PartOptions::default(), "not the name of a file"),
        ("file", refuse, "it exists"),
        ("file", PartOptions::default(), "no earlier version that was fetched to it"),
        ("file", PartOptions::default(), "replace it with --overwrite"),
    ] {
        let error = reason(PartFile::open(&path.join(target), published.manifest(), &options));
        assert!(error.contains(expected), "{target}: {error}");
    }
    assert_eq!(names(path), before);
}

#[test]
fn an_existing_file_is_kept_until_the_new_one_is_complete() {
    let (directory, mut published) = (directory(), object(3000));
    let (real, link) = (directory.path().join("real"), directory.path().join("link"));
    fs::write(&real, b"old").expect("writable");
    std::os::unix::fs::symlink("real", &link).expect("links can be made");
    let anything = PartOptions { existing: Existing::Anything, ..PartOptions::default() };
    let mut store = PartFile::open(&link, published.manifest(), &anything).expect("it may be replaced");
    put_missing(&mut store, &mut published);
    assert_eq!(fs::read(&real).expect("readable"), b"old");
    store.finish().expect("all is there");
    assert!(fs::read(&real).expect("readable") == *published.bytes());
    assert!(fs::symlink_metadata(&link).is_ok_and(|link| link.is_symlink()), "the link stays a link");
}

#[test]
fn an_object_larger_than_the_disk_is_refused_at_once_with_both_sizes() {
    let directory = directory();
    let root = tributary_content::Hash([1; 32]);
    let (name, size) = ("/x".parse().expect("a name"), Manifest::SIZE_MAX);
    let huge = Manifest::sign(name, 1, ObjectKind::File, size, Manifest::CHUNK_SIZE_MAX, root, &key()).expect("legal");
    let disk = nix::sys::statvfs::statvfs(directory.path()).expect("the disk can be asked");
    if disk.blocks_available() * disk.fragment_size() > size {
        return;
    }
    let error = reason(open_default(&directory.path().join("out"), &huge));
    assert!(error.contains("it needs 1 TiB more, and the disk has "), "{error}");
    assert_eq!(names(directory.path()), [""; 0]);
}

#[test]
fn a_disk_that_gets_full_loses_nothing_and_the_download_goes_on_when_there_is_room() {
    let mut failures = 0;
    for writes in 0..12 {
        let (directory, mut published) = (directory(), object(5000));
        let target = directory.path().join("out");
        let disk = Recorded::that_fills_after(writes);
        let mut kept = 0;
        if let Ok(mut store) = disk.open_part(&target, published.manifest()) {
            for index in 0..5 {
                let chunk = published.read_chunk(ChunkIndex(index)).expect("it is published");
                match store.put_chunk(ChunkIndex(index), &chunk) {
                    Ok(()) => kept += 1,
                    Err(error) => {
                        failures += 1;
                        assert!(error.to_string().contains("free some space and fetch again"), "{error}");
                        assert!(!store.held().get(index));
                    }
                }
            }
        }
        let mut store = open_default(&target, published.manifest()).expect("there is room again");
        assert_eq!(store.held().count(), kept);
        put_missing(&mut store, &mut published);
        store.finish().expect("all is there");
        assert!(fs::read(&target).expect("it has its name") == *published.bytes());
    }
    assert!(failures > 10, "the disk was never full");
}

#[test]
fn discarding_removes_part_and_state() {
    let (directory, mut published) = (directory(), object(3000));
    let mut store =
        open_default(&directory.path().join("out"), published.manifest()).expect("nothing speaks against it");
    put(&mut store, &mut published, 0);
    store.discard().expect("removable");
    assert_eq!(names(directory.path()), [""; 0]);
}

#[test]
fn a_state_cut_or_damaged_anywhere_claims_only_what_is_there() {
    for with_tree in [true, false] {
        let (directory, mut published) = (directory(), object(5000));
        let (target, manifest) = (directory.path().join("out"), published.manifest().clone());
        let mut store = open_default(&target, &manifest).expect("nothing speaks against it");
        if with_tree {
            store.put_tree(published.hash_tree()).expect("it matches");
        }
        for index in [0, 1, 4] {
            put(&mut store, &mut published, index);
        }
        let (state_path, part_path) = (store.state_path.clone(), store.part_path.clone());
        drop(store);
        let (state, part) = (fs::read(&state_path).expect("readable"), fs::read(&part_path).expect("readable"));
        let trusting = PartOptions { resume: Resume::Trust, ..PartOptions::default() };
        let mut most = 0;
        for cut in 0..=state.len() {
            let mut flipped = state.clone();
            if let Some(byte) = flipped.get_mut(cut) {
                *byte ^= 0x10;
            }
            for damaged in [&state[..cut], &flipped] {
                fs::write(&state_path, damaged).expect("writable");
                fs::write(&part_path, &part).expect("writable");
                let store = PartFile::open(&target, &manifest, &trusting).expect("a damaged state starts anew");
                assert!(store.held().iter_set().all(|index| [0, 1, 4].contains(&index)), "cut at {cut}");
                assert_claims_hold(&store, &published);
                most = most.max(store.held().count());
            }
        }
        assert_eq!(most, 3);
    }
}

#[test]
fn a_download_that_a_newer_program_has_begun_is_refused_and_stays_as_it_is() {
    let (directory, mut published) = (directory(), object(5000));
    let (target, manifest) = (directory.path().join("out"), published.manifest().clone());
    let mut store = open_default(&target, &manifest).expect("nothing speaks against it");
    put(&mut store, &mut published, 1);
    let (state_path, part_path) = (store.state_path.clone(), store.part_path.clone());
    drop(store);
    let mut newer = fs::read(&state_path).expect("readable");
    newer[3] += 1;
    fs::write(&state_path, &newer).expect("writable");
    let part = fs::read(&part_path).expect("readable");
    let refused = open_default(&target, &manifest).err().expect("it is newer").to_string();
    assert!(refused.contains("a newer version of this program"), "{refused}");
    assert_eq!((fs::read(&state_path).expect("there"), fs::read(&part_path).expect("there")), (newer, part));
}

/// Applies the first `steps` steps whole and `bytes` bytes of the next one, as a kill at that moment leaves them.
fn replay(recorded: &[Step], steps: usize, bytes: usize, part: &Path, state: &Path) {
    let make = |path: &Path| OpenOptions::new().create(true).truncate(false).write(true).open(path);
    for (number, step) in recorded.iter().enumerate().take(steps + 1) {
        let path = |is_state: &bool| if *is_state { state } else { part };
        match step {
            Step::SetLen(is_state, length) if number < steps => {
                make(path(is_state)).and_then(|file| file.set_len(*length)).expect("writable");
            }
            Step::SetLen(..) => {}
            Step::Write(is_state, offset, written) => {
                let keep = if number < steps { written.len() } else { bytes.min(written.len()) };
                make(path(is_state)).and_then(|file| file.write_all_at(&written[..keep], *offset)).expect("writable");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn a_kill_at_any_moment_leaves_claims_that_hold_and_the_same_file_in_the_end(
        length in 1usize..6000,
        order in Just((0..6u32).collect::<Vec<_>>()).prop_shuffle(),
        tree_after in 0usize..7,
        cut: prop::sample::Index,
        torn in 0usize..1100,
        resume in prop::sample::select(vec![Resume::Rehash, Resume::Trust]),
    ) {
        let (before, after, mut published) = (directory(), directory(), object(length));
        let manifest = published.manifest().clone();
        let disk = Recorded::that_fills_after(u32::MAX);
        let mut store = disk.open_part(&before.path().join("out"), &manifest).expect("nothing speaks against it");
        let mut put_in_order = Vec::new();
        for (number, index) in order.into_iter().enumerate() {
            if number == tree_after {
                store.put_tree(published.hash_tree()).expect("it matches");
            }
            if index < manifest.chunk_count() {
                put(&mut store, &mut published, index);
                put_in_order.push(index);
            }
        }
        let steps = disk.steps();
        let cut = cut.index(steps.len() + 1);
        let target = after.path().join("out");
        let staging = staging(&target);
        staging.make().expect("writable");
        replay(&steps, cut, torn, &staging.part(), &staging.state());

        // Under Resume::Trust this shows that bytes are written before the state names them.
        let options = PartOptions { resume, ..PartOptions::default() };
        let mut store = PartFile::open(&target, &manifest, &options).expect("a killed download can be resumed");
        assert_claims_hold(&store, &published);
        let state_writes = |step: &Step| matches!(step, Step::Write(true, _, bytes) if bytes.len() == 40);
        let completed = steps[..cut].iter().filter(|step| state_writes(step)).count();
        let complete = &put_in_order[..completed];
        prop_assert!(complete.iter().all(|index| store.held().get(*index)), "a chunk that was put is lost");
        put_missing(&mut store, &mut published);
        store.finish().expect("all is there");
        prop_assert!(fs::read(&target).expect("it has its name") == *published.bytes());
    }
}

/// Run by [`a_process_killed_while_it_writes_loses_nothing_that_it_had_put`] in a child process.
#[test]
#[ignore = "it is the process that gets killed"]
fn victim() {
    let Some(target) = std::env::var_os("TRIBUTARY_TEST_TARGET") else { return };
    let mut published = object(VICTIM_BYTES);
    let mut store = open_default(Path::new(&target), published.manifest()).expect("nothing speaks against it");
    while let Some(index) = store.held().first_unset() {
        put(&mut store, &mut published, index);
        println!("put {index}");
    }
    std::thread::park();
}
const VICTIM_BYTES: usize = 4 << 20;

#[test]
fn a_process_killed_while_it_writes_loses_nothing_that_it_had_put() {
    let (directory, mut published) = (directory(), object(VICTIM_BYTES));
    let target = directory.path().join("out");
    let mut held_before = 0;
    for lines in [1, 300, 700] {
        let program = std::env::current_exe().expect("a test is a program");
        let (_, module) = module_path!().split_once("::").expect("the crate and the module");
        let mut child = std::process::Command::new(program)
            .args(["--exact", &format!("{module}::victim"), "--ignored", "--nocapture"])
            .env("TRIBUTARY_TEST_TARGET", &target)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("it can be started");
        let out = BufReader::new(child.stdout.take().expect("it is a pipe"));
        let reported = |line: String| line.split_once("put ").and_then(|(_, index)| index.trim().parse::<u32>().ok());
        let put: Vec<u32> = out.lines().map_while(Result::ok).filter_map(reported).take(lines).collect();
        child.kill().expect("it runs");
        child.wait().expect("it was killed");
        assert_eq!(put.len(), lines);
        let store = open_default(&target, published.manifest()).expect("the lock went with the process");
        assert_claims_hold(&store, &published);
        assert!(put.iter().all(|index| store.held().get(*index)), "a chunk that was put is lost");
        assert!(store.held().count() >= held_before);
        held_before = store.held().count();
    }
    let mut store = open_default(&target, published.manifest()).expect("it is ours");
    put_missing(&mut store, &mut published);
    store.finish().expect("all is there");
    assert!(fs::read(&target).expect("it has its name") == *published.bytes());
}

#[test]
fn a_part_that_is_removed_meanwhile_costs_nothing_and_one_that_is_replaced_ends_the_fetch() {
    let (directory, mut published) = (directory(), object(5000));
    let target = directory.path().join("out");
    let mut store = open_default(&target, published.manifest()).expect("nothing speaks against it");
    put(&mut store, &mut published, 1);
    fs::remove_file(staging(&target).part()).expect("it is there");
    put(&mut store, &mut published, 3);
    assert_claims_hold(&store, &published);
    put_missing(&mut store, &mut published);
    fs::remove_dir_all(&staging(&target).folder).expect("it is there");
    store.finish().expect("all is there");
    assert!(fs::read(&target).expect("it has its name") == *published.bytes());

    let other = directory.path().join("other");
    let mut store = open_default(&other, published.manifest()).expect("nothing speaks against it");
    put_missing(&mut store, &mut published);
    fs::remove_file(staging(&other).part()).expect("it is there");
    fs::write(directory.path().join("foreign"), [0; 5000]).expect("writable");
    fs::rename(directory.path().join("foreign"), staging(&other).part()).expect("renamable");
    let refused = store.finish().expect_err("it is another file").to_string();
    assert!(!other.exists() && refused.contains("/part'"), "{refused}");
}

/// A directory with one file of these bytes.
fn version(number: u64, bytes: &[u8], publisher: &SigningKey) -> DirectoryObject {
    let directory = directory();
    fs::write(directory.path().join("file"), bytes).expect("writable");
    let options = PublishOptions {
        version: Some(number),
        cache: ChunkCache::default(),
        chunk_size: Some(CHUNK),
        ..PublishOptions::default()
    };
    let mut published =
        DirectoryObject::publish(directory.path(), "/tree".parse().expect("a name"), publisher, &options)
            .expect("publishable");
    // The whole object is in the cache from here on.
    read_all(&mut published);
    published
}

#[test]
fn a_directory_is_replaced_by_its_publishers_next_version_unless_somebody_has_changed_it() {
    let (directory, state) = (directory(), directory());
    let target = directory.path().join("out");
    let options = PartOptions { state_dir: Some(state.path().into()), ..PartOptions::default() };
    let get = |published: &mut DirectoryObject| {
        if PartFile::already_there(&target, published.manifest(), &options).is_some() {
            return Ok(());
        }
        let mut store = PartFile::open(&target, published.manifest(), &options)?;
        put_missing(&mut store, published);
        store.finish()
    };
    let held = || fs::read(target.join("file")).expect("it is there");
    let (mut first, mut second) = (version(1, b"first", &key()), version(2, b"second", &key()));
    get(&mut first).expect("nothing is there");
    for (is_first, bytes) in [(true, b"first".as_slice()), (false, b"second"), (true, b"first")] {
        get(if is_first { &mut first } else { &mut second }).expect("it is as it was fetched");
        assert_eq!((held(), names(directory.path())), (bytes.to_vec(), vec!["out".into()]));
    }
    // A copy is another file to the system, with the same bytes.
    fs::write(target.join("copy"), b"first").expect("writable");
    fs::rename(target.join("copy"), target.join("file")).expect("renamable");
    get(&mut second).expect("it has the bytes that were fetched");
    for other in [version(3, b"third", &SigningKey::from_secret(&[8; 32])), {
        fs::write(target.join("own"), b"mine").expect("writable");
        version(3, b"third", &key())
    }] {
        let mut other = other;
        let refused = get(&mut other).expect_err("it is somebody else's").to_string();
        assert!(refused.contains("it exists") && refused.contains("move it away"), "{refused}");
        assert!(refused.contains("--overwrite"), "{refused}");
        assert_eq!(held(), b"second");
    }
    assert_eq!(fs::read(target.join("own")).expect("it is there"), b"mine");
}

#[test]
fn what_was_placed_by_a_process_that_was_killed_then_is_replaced_like_any_other() {
    let (directory, state) = (directory(), directory());
    let target = directory.path().join("out");
    let options = PartOptions { state_dir: Some(state.path().into()), ..PartOptions::default() };
    for (number, bytes, is_killed) in [(1, b"first".as_slice(), false), (2, b"second", true), (3, b"third", false)] {
        let mut published = version(number, bytes, &key());
        let mut store = PartFile::open(&target, published.manifest(), &options).expect("it is as it was fetched");
        put_missing(&mut store, &mut published);
        match is_killed {
            true => {
                let mut packed = store.packed().expect("readable");
                let into = store.unpack(&mut packed).expect("there is room");
                // As `place` does, up to the new memory of the target.
                let leaves =
                    store.state.slots(store.manifest.chunk_count()).expect("readable").into_iter().flatten().collect();
                let record = place::record_of(&into, &store.manifest, HashTree::from_leaves(leaves), &store.options)
                    .expect("readable");
                record.save(Some(state.path()), &into);
                place::place(&into, &target, &store.manifest, &options).expect("it may be replaced");
            }
            false => store.finish().expect("it may be replaced"),
        }
        assert_eq!(fs::read(target.join("file")).expect("it is there"), bytes);
    }
    assert_eq!(names(directory.path()), ["out"]);
}

/// Fetches a version of `/x` of these bytes to `target`.
fn get_file(target: &Path, bytes: &[u8], version: u64, options: &PartOptions) -> Result<(), StoreError> {
    let mut published = object_of(bytes, "/x", version, &key());
    if PartFile::already_there(target, published.manifest(), options).is_some() {
        return Ok(());
    }
    let mut store = PartFile::open(target, published.manifest(), options)?;
    put_missing(&mut store, &mut published);
    store.finish()
}

#[test]
fn a_file_is_replaced_by_its_publishers_next_version_unless_somebody_has_changed_it() {
    let (directory, state) = (directory(), directory());
    let target = directory.path().join("out");
    let options = PartOptions { state_dir: Some(state.path().into()), ..PartOptions::default() };
    let get = |bytes: &[u8], version| get_file(&target, bytes, version, &options);
    get(b"first", 1).expect("nothing is there");
    get(b"second", 2).expect("it is as it was fetched");
    // Touched, moved to and fro, copied: it has the bytes that were fetched.
    let touched =
        OpenOptions::new().append(true).open(&target).and_then(|file| file.set_modified(std::time::UNIX_EPOCH));
    touched.expect("times can be set");
    get(b"third", 3).expect("its bytes are those that were fetched");
    fs::write(&target, b"third, and mine").expect("writable");
    let refused = get(b"fourth", 4).expect_err("somebody has changed it").to_string();
    assert!(refused.contains("not as it was when it was fetched") && refused.contains("--overwrite"), "{refused}");
    assert_eq!(fs::read(&target).expect("readable"), b"third, and mine");
    // A file with the wanted bytes need not be fetched, even if another program wrote it.
    fs::write(&target, b"fourth").expect("writable");
    get(b"fourth", 4).expect("it is there already");
    let anything = PartOptions { existing: Existing::Anything, ..options.clone() };
    fs::write(&target, b"mine again").expect("writable");
    get_file(&target, b"fifth", 5, &anything).expect("it was asked for");
    get(b"sixth", 6).expect("it is an earlier fetch again");
    assert_eq!(names(directory.path()), ["out"]);
}

#[test]
fn what_nobody_signed_is_replaced_by_its_next_version_as_well() {
    let (directory, state) = (directory(), directory());
    let target = directory.path().join("out");
    let options = PartOptions { state_dir: Some(state.path().into()), ..PartOptions::default() };
    let get = |bytes: &[u8], version| {
        let (name, size) = ("/theirs".parse().expect("a name"), bytes.len() as u64);
        let publisher = tributary_content::PublicKey([5; 32]);
        let manifest = Manifest::unsigned(name, version, size, CHUNK, publisher).expect("it is within limits");
        assert!(PartFile::already_there(&target, &manifest, &options).is_none(), "nobody knows what it has to be");
        let mut store = PartFile::open(&target, &manifest, &options)?;
        store.put_chunk(ChunkIndex(0), bytes)?;
        store.finish()
    };
    for (version, bytes) in [(1, b"first".as_slice()), (2, b"second"), (2, b"second")] {
        get(bytes, version).expect("it is as it was fetched");
        assert_eq!(fs::read(&target).expect("there"), bytes);
    }
    fs::write(&target, b"mine").expect("writable");
    assert!(get(b"third", 3).is_err());
}

#[test]
fn what_appears_while_a_file_is_fetched_stays() {
    let (directory, mut published) = (directory(), object(3000));
    let target = directory.path().join("out");
    let mut store = open_default(&target, published.manifest()).expect("nothing is there");
    put_missing(&mut store, &mut published);
    fs::write(&target, b"mine").expect("writable");
    let refused = store.finish().expect_err("it is somebody's").to_string();
    assert!(refused.contains("--overwrite"), "{refused}");
    assert_eq!(fs::read(&target).expect("readable"), b"mine");
    fs::remove_file(&target).expect("removable");
    store.finish().expect("the name is free again");
    assert!(fs::read(&target).expect("there") == *published.bytes());
}

#[test]
fn numbers_are_found_among_many_and_come_before_the_suffix() {
    let directory = directory();
    let target = directory.path().join("log.txt");
    let options = PartOptions { existing: Existing::Number, apart: true, ..PartOptions::default() };
    for version in 1..=40 {
        // Equal readings still count as separate readings.
        get_file(&target, b"21.5", version, &options).expect("there is a name for each");
    }
    for number in [1, 2, 40] {
        let name = place::numbered(&target, number, ObjectKind::File);
        assert_eq!(place::number_of(&target, &name, ObjectKind::File), Some(number));
    }
    assert_eq!(place::number_of(&target, &target.with_file_name("log~x.txt"), ObjectKind::File), None);
    let names = names(directory.path());
    assert_eq!(names.len(), 40);
    assert!(["log.txt", "log~2.txt", "log~40.txt"].iter().all(|name| names.contains(&(*name).into())), "{names:?}");
}

#[test]
fn a_file_is_no_more_readable_than_its_original_and_than_what_it_replaces() {
    let (directory, state) = (directory(), directory());
    let options = PartOptions { state_dir: Some(state.path().into()), ..PartOptions::default() };
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o7777;
    let private = directory.path().join("private");
    for access in [tributary_content::Access::Owner, tributary_content::Access::Group] {
        let mut published = object_of(b"secret", "/s", access.number().into(), &key()).restricted(access, &key());
        let mut store = PartFile::open(&private, published.manifest(), &options).expect("it may be replaced");
        put_missing(&mut store, &mut published);
        store.finish().expect("all is there");
        assert_eq!(mode(&private) & !access.mode_mask(), 0);
        fs::remove_file(&private).expect("removable");
    }
    let replaced = directory.path().join("replaced");
    get_file(&replaced, b"first", 1, &options).expect("nothing is there");
    fs::set_permissions(&replaced, fs::Permissions::from_mode(0o4600)).expect("modes can be set");
    get_file(&replaced, b"second", 2, &options).expect("its bytes are as they were fetched");
    assert_eq!(mode(&replaced), 0o600);
}

#[test]
fn what_is_all_zeros_takes_no_room() {
    let directory = directory();
    let target = directory.path().join("out");
    let mut bytes = vec![0; 8 << 20];
    bytes[..5].copy_from_slice(b"start");
    bytes[(8 << 20) - 5..].copy_from_slice(b"later");
    let name = "/sparse".parse().expect("a name");
    let mut published = MemoryObject::with_options(name, bytes, &key(), 1, ObjectKind::File, 256 << 10).expect("legal");
    let mut store = open_default(&target, published.manifest()).expect("nothing is there");
    put(&mut store, &mut published, 31);
    drop(store);
    let mut store = open_default(&target, published.manifest()).expect("it is ours");
    put_missing(&mut store, &mut published);
    store.finish().expect("all is there");
    assert!(fs::read(&target).expect("there") == *published.bytes());
    let blocks = fs::metadata(&target).expect("there").blocks() * 512;
    assert!(blocks <= 1 << 20, "{blocks} bytes of disk");
}

#[test]
fn zeros_are_written_over_what_is_not_zero() {
    let (directory, mut published) = (directory(), object_of(&[0; 4096], "/x", 1, &key()));
    let target = directory.path().join("out");
    let mut store = open_default(&target, published.manifest()).expect("nothing is there");
    store.put_chunk(ChunkIndex(1), &[9; CHUNK as usize]).expect("without the tree it cannot know better");
    store.put_tree(published.hash_tree()).expect("it matches");
    put_missing(&mut store, &mut published);
    assert_claims_hold(&store, &published);
    store.finish().expect("all is there");
    assert_eq!(fs::read(&target).expect("there"), [0; 4096]);
}

/// Versions of files and folders that share most of their bytes.
mod reuse {
    use super::*;
    use crate::disk::publish;
    use std::collections::BTreeMap;

    const CHUNK: usize = 16 << 10;

    /// Publishes `source` and fetches it to `target`; returns the number of fetched chunks.
    fn update(source: &Path, target: &Path, version: u64, state: Option<&Path>) -> usize {
        let mut object = publish_version(source, version);
        let options =
            PartOptions { state_dir: state.map(Into::into), existing: Existing::Anything, ..PartOptions::default() };
        if PartFile::already_there(target, object.manifest(), &options).is_some() {
            return 0;
        }
        let mut store = PartFile::open(target, object.manifest(), &options).expect("it may be replaced");
        let is_first = store.wishes().is_none();
        assert!(is_first || store.wishes().expect("some").wanted().windows.is_empty(), "the tree decides");
        let moved = fetch(&mut store, &mut *object);
        store.finish().expect("all is here");
        moved
    }
    fn publish_version(source: &Path, version: u64) -> Box<dyn ObjectReader> {
        let (version, chunk_size) = (Some(version), u32::try_from(CHUNK).ok());
        let options = PublishOptions { version, chunk_size, ..PublishOptions::default() };
        let name = "/lab".parse().expect("a name");
        publish(source, name, &key(), &options).expect("publishable").object
    }
    /// Puts what the store wants; returns the number of chunks.
    fn fetch(store: &mut PartFile, object: &mut dyn ObjectReader) -> usize {
        let manifest = object.manifest().clone();
        store.put_tree(&HashTree::decode(&manifest, &object.tree()).expect("its tree")).expect("it matches");
        let mut moved = 0;
        loop {
            let all = || std::iter::once(0..manifest.chunk_count()).collect();
            let windows = store.wishes().map_or_else(all, |wishes| wishes.wanted().windows);
            let Some(index) = windows.into_iter().flatten().find(|index| !store.held().get(*index)) else { break };
            put(store, object, index);
            moved += 1;
        }
        moved
    }

    #[test]
    fn of_a_changed_file_only_the_chunks_around_the_change_move() {
        let (directory, state) = (directory(), directory());
        let (source, target) = (directory.path().join("source"), directory.path().join("target"));
        let old = pattern(4 << 20);
        let zeros: &[u8] = &[0; 100];
        let edits: [(&str, Vec<u8>, usize); 6] = [
            ("overwritten", [&old[..2_000_000], zeros, &old[2_000_100..]].concat(), 20),
            ("inserted", [b"x", &old[..]].concat(), 20),
            ("appended", [&old[..], &pattern(100_000)[..]].concat(), 30),
            ("removed", [&old[..1_000_000], &old[1_300_000..]].concat(), 20),
            ("moved", [&old[3_000_000..], &old[..3_000_000]].concat(), 40),
            ("equal", old.clone(), 0),
        ];
        for (number, (edit, new, most)) in (1..).zip(&edits) {
            // With the record of the first fetch, and without: then the earlier file is read.
            for state in [Some(state.path()), None] {
                let _ = fs::remove_file(&target);
                fs::write(&source, &old).expect("writable");
                assert_eq!(update(&source, &target, 2 * number, state), (4 << 20) / CHUNK);
                fs::write(&source, new).expect("writable");
                let moved = update(&source, &target, 2 * number + 1, state);
                assert!(moved <= *most, "{edit}: {moved} chunks");
                assert!(fs::read(&target).expect("there") == *new, "{edit}");
            }
        }
    }

    #[test]
    fn files_of_a_folder_that_were_renamed_split_or_changed_hardly_move() {
        let directory = directory();
        let (source, target) = (directory.path().join("source"), directory.path().join("target"));
        let (a, b) = (pattern(2_000_000), pattern(3_000_000)[2_000_000..].to_vec());
        let files = |files: &[(&str, &[u8])]| {
            let _ = fs::remove_dir_all(&source);
            fs::create_dir_all(source.join("inner")).expect("writable");
            files.iter().for_each(|(path, bytes)| fs::write(source.join(path), bytes).expect("writable"));
        };
        files(&[("a", &a), ("b", &b)]);
        assert!(update(&source, &target, 1, None) > 180);
        files(&[("inner/z", &a), ("b", &b)]);
        assert!(update(&source, &target, 2, None) < 30, "renamed");
        files(&[("a1", &a[..700_000]), ("a2", &a[700_000..]), ("b", &b)]);
        assert!(update(&source, &target, 3, None) < 40, "split");
        assert!(fs::read(target.join("a2")).expect("there") == a[700_000..]);
    }

    /// All files and links below a folder, with inode, time of the last change of the bytes, mode, and bytes or target.
    fn files(folder: &Path) -> BTreeMap<PathBuf, (u64, i64, u32, Vec<u8>)> {
        let (mut files, mut folders) = (BTreeMap::new(), vec![folder.to_path_buf()]);
        while let Some(at) = folders.pop() {
            for path in fs::read_dir(at).expect("readable").map(|entry| entry.expect("readable").path()) {
                let there = fs::symlink_metadata(&path).expect("there");
                let bytes = match (there.is_dir(), there.is_symlink()) {
                    (true, _) => Vec::new(),
                    (_, true) => fs::read_link(&path).expect("a link").as_os_str().as_encoded_bytes().to_vec(),
                    _ => fs::read(&path).expect("readable"),
                };
                let time = if there.is_dir() { 0 } else { there.mtime_nsec() };
                let below = path.strip_prefix(folder).expect("below").to_path_buf();
                files.insert(below, (there.ino(), time, there.mode(), bytes));
                folders.extend(there.is_dir().then_some(path));
            }
        }
        files
    }
    fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        files(folder).into_iter().map(|(path, (_, _, _, bytes))| (path, bytes)).collect()
    }
    /// Fills a folder for a version with what stays, changes, comes, goes, and becomes something else.
    fn fill(source: &Path, version: u8) {
        let _ = fs::remove_dir_all(source);
        fs::create_dir_all(source.join("kept/inner")).expect("writable");
        let write = |path: &str, bytes: &[u8]| {
            let path = source.join(path);
            fs::create_dir_all(path.parent().expect("it is in a folder")).expect("writable");
            fs::write(path, bytes).expect("writable");
        };
        let link = |target: &str, path: &str| std::os::unix::fs::symlink(target, source.join(path)).expect("possible");
        write("kept/large", &pattern(1_500_000));
        for number in 0..40 {
            write(&format!("kept/inner/{number}"), &[number; 3_000]);
        }
        link("large", "kept/link");
        write("changed", &[version; 5_000]);
        write("kept/inner/changed", &[&pattern(100_000)[..], &[version]].concat());
        match version {
            1 => {
                write("gone/deep/file", b"goes");
                write("kept/inner/gone", b"goes");
                write("file or folder", b"file");
                write("folder or file/inner", b"folder");
                link("kept", "changed link");
            }
            _ => {
                write("new/deep/file", b"comes");
                write("kept/inner/new", b"comes");
                write("file or folder/inner", b"folder");
                write("folder or file", b"file");
                link("new", "changed link");
                fs::set_permissions(source.join("kept/inner/7"), fs::Permissions::from_mode(0o755)).expect("ours");
            }
        }
    }

    #[test]
    fn what_a_new_version_of_a_folder_does_not_change_stays_the_same_files() {
        let (directory, state) = (directory(), directory());
        let (source, target) = (directory.path().join("source"), directory.path().join("target"));
        fill(&source, 1);
        update(&source, &target, 1, Some(state.path()));
        // Nobody but the receiver may read it from now on.
        fs::set_permissions(target.join("changed"), fs::Permissions::from_mode(0o600)).expect("ours");
        fs::set_permissions(target.join("kept/inner/1"), fs::Permissions::from_mode(0o400)).expect("ours");
        let before = files(&target);
        fill(&source, 2);
        assert!(update(&source, &target, 2, Some(state.path())) < 40);
        let after = files(&target);
        assert_eq!(contents(&target), contents(&source));
        for (path, was) in &before {
            let name = path.to_string_lossy();
            let is_changed =
                ["changed", "changed link", "kept/inner/changed", "kept/inner/7", "file or folder", "folder or file"];
            match after.get(path) {
                None => assert!(name.contains("gone") || name.contains("or file/"), "{name}"),
                Some(now) => assert_eq!(now == was, !is_changed.contains(&&*name), "{name}"),
            }
        }
        let mode = |path: &str| after[Path::new(path)].2 & 0o777;
        assert_eq!((mode("changed"), mode("kept/inner/1"), mode("kept/inner/7") & 0o100), (0o600, 0o400, 0o100));
        assert_eq!(names(directory.path()), ["source", "target"]);
        // It is remembered as it is.
        let there = files(&target);
        assert_eq!(update(&source, &target, 3, Some(state.path())), 0);
        assert!(files(&target) == there);
    }

    #[test]
    fn a_folder_that_everybody_may_write_to_is_replaced_as_a_whole() {
        let directory = directory();
        let (source, target) = (directory.path().join("source"), directory.path().join("target"));
        fill(&source, 1);
        update(&source, &target, 1, None);
        fs::set_permissions(target.join("kept"), fs::Permissions::from_mode(0o777)).expect("ours");
        let before = files(&target);
        fill(&source, 2);
        update(&source, &target, 2, None);
        let (path, after) = (Path::new("kept/large"), files(&target));
        assert!(before[path].0 != after[path].0 && before[path].3 == after[path].3);
        assert_eq!(contents(&target), contents(&source));
        assert_eq!(names(directory.path()), ["source", "target"]);
    }

    /// Begins to update the folder `target`, which has version 1, to version 2 of `source`, in a process that is killed
    /// after `renames` renames. Returns the options and version 2, and how the update ended.
    fn update_killed_after(
        renames: u32,
        (source, target): (&Path, &Path),
        state: &Path,
    ) -> (PartOptions, Box<dyn ObjectReader>, Recorded, Result<(), StoreError>) {
        fill(source, 2);
        let mut object = publish_version(source, 2);
        let options = PartOptions { state_dir: Some(state.into()), ..PartOptions::default() };
        let mut store = PartFile::open(target, object.manifest(), &options).expect("it may be replaced");
        let disk = Recorded::that_is_killed_after(renames);
        store.fs = Arc::new(disk.clone());
        fetch(&mut store, &mut *object);
        let done = store.finish();
        (options, object, disk, done)
    }

    #[test]
    fn an_update_whose_process_is_killed_is_ended_by_the_next_fetch() {
        let (directory, state) = (directory(), directory());
        let (source, target) = (directory.path().join("source"), directory.path().join("target"));
        // The first rename is the journal's.
        for renames in 0.. {
            let _ = fs::remove_dir_all(&target);
            fill(&source, 1);
            update(&source, &target, 1, Some(state.path()));
            let old = contents(&target);
            let (options, mut object, disk, done) = update_killed_after(renames, (&source, &target), state.path());
            if done.is_ok() {
                assert!(renames > 10 && disk.renames_left() == 0, "{renames}");
                break;
            }
            if renames <= 1 {
                assert_eq!(contents(&target), old);
            }
            let there = PartFile::already_there(&target, object.manifest(), &options);
            assert_eq!(there.is_some(), renames > 0, "after {renames} renames");
            if there.is_none() {
                let mut store = PartFile::open(&target, object.manifest(), &options).expect("it is as it was");
                fetch(&mut store, &mut *object);
                store.finish().expect("all is here");
            }
            assert_eq!(contents(&target), contents(&source));
            assert_eq!(names(directory.path()), ["source", "target"]);
        }
    }

    #[test]
    fn what_the_earlier_version_has_is_not_written_to_the_part_and_verified_when_it_is_used() {
        let (directory, state) = (directory(), directory());
        let (source, target) = (directory.path().join("source"), directory.path().join("target"));
        fill(&source, 1);
        update(&source, &target, 1, Some(state.path()));
        fill(&source, 2);
        fs::rename(source.join("kept/large"), source.join("moved")).expect("renamable");
        let mut object = publish_version(&source, 2);
        let existing = Existing::Anything;
        let options = PartOptions { state_dir: Some(state.path().into()), existing, ..PartOptions::default() };
        let fetched = |object: &mut dyn ObjectReader| {
            let mut store = PartFile::open(&target, object.manifest(), &options).expect("it may be replaced");
            let moved = fetch(&mut store, object);
            (store, moved)
        };
        let (mut store, moved) = fetched(&mut *object);
        let part = fs::metadata(staging(&target).part()).expect("there");
        assert!(moved < 40 && part.blocks() * 512 < 700_000, "{moved} chunks, {} blocks", part.blocks());
        // A restart finds the same again.
        drop(store);
        (store, _) = fetched(&mut *object);
        assert!(store.held().is_full());
        fs::write(target.join("kept/large"), [7; 1_500_000]).expect("writable");
        let refused = store.finish().expect_err("what it would be made of is gone").to_string();
        assert!(refused.contains("fetch again"), "{refused}");
        drop(store);
        let (mut store, moved) = fetched(&mut *object);
        assert!(moved > 40, "{moved} chunks");
        store.finish().expect("all is here");
        assert_eq!(contents(&target), contents(&source));
    }

    #[test]
    fn an_interrupted_update_is_undone_if_somebody_has_changed_the_folder_since() {
        let (directory, state) = (directory(), directory());
        let (source, target) = (directory.path().join("source"), directory.path().join("target"));
        fill(&source, 1);
        update(&source, &target, 1, Some(state.path()));
        let old = contents(&target);
        let (options, object, _, done) = update_killed_after(4, (&source, &target), state.path());
        done.expect_err("it is killed");
        fs::write(target.join("new"), b"mine").expect("writable");
        let refused = reason(PartFile::open(&target, object.manifest(), &options));
        assert!(refused.contains("is not as it was"), "{refused}");
        fs::remove_file(target.join("new")).expect("there");
        assert_eq!(contents(&target), old);
    }

    #[test]
    fn a_file_that_lies_about_its_record_costs_bytes_and_nothing_else() {
        let (directory, state) = (directory(), directory());
        let (source, target) = (directory.path().join("source"), directory.path().join("target"));
        fs::write(&source, pattern(4 << 20)).expect("writable");
        update(&source, &target, 1, Some(state.path()));
        // Altered without a trace in its size and time, as by a failing disk.
        let modified = fs::metadata(&target).and_then(|there| there.modified()).expect("there");
        let file = OpenOptions::new().write(true).open(&target).expect("there");
        nix::sys::uio::pwrite(&file, &[0; 5_000], 1_000_000).expect("writable");
        file.set_modified(modified).expect("times can be set");
        let new = [b"x", &pattern(4 << 20)[..]].concat();
        fs::write(&source, &new).expect("writable");
        let moved = update(&source, &target, 2, Some(state.path()));
        assert!((2..40).contains(&moved), "{moved} chunks");
        assert!(fs::read(&target).expect("there") == new);
    }
}

/// A folder with files of many sizes, and the store of a part of it.
mod parts {
    use super::*;
    use crate::disk::{Selection, publish_sealed, sealed};

    fn folder(at: &Path, last: usize) -> PathBuf {
        let source = at.join("source");
        for inner in ["data/old", "doc"] {
            fs::create_dir_all(source.join(inner)).expect("writable");
        }
        for (path, len) in [("a.csv", 3_000), ("data/b.csv", 9_000), ("data/old/c.csv", 500), ("doc/big", 60_000)] {
            fs::write(source.join(path), pattern(len)).expect("writable");
        }
        fs::write(source.join("doc/last"), pattern(last)).expect("writable");
        source
    }
    fn published(source: &Path, version: u64) -> DirectoryObject {
        let options = PublishOptions { version: Some(version), chunk_size: Some(CHUNK), ..PublishOptions::default() };
        DirectoryObject::publish(source, "/lab".parse().expect("a name"), &key(), &options).expect("publishable")
    }
    fn options(at: &Path, below: &str, include: &[&str]) -> PartOptions {
        let include: Vec<String> = include.iter().map(ToString::to_string).collect();
        let selection = Selection::new(below, &include, &[]).expect("patterns");
        PartOptions {
            selection: Some(Arc::new(selection)),
            state_dir: Some(at.join("state")),
            ..PartOptions::default()
        }
    }
    /// Puts wanted chunks until the store wants no more, at most `most`; returns their number.
    fn serve(store: &mut PartFile, object: &mut dyn ObjectReader, most: usize) -> Result<usize, StoreError> {
        if store.tree().is_none() {
            let tree = HashTree::decode(object.manifest(), &object.tree()).expect("it is its tree");
            store.put_tree(&tree)?;
        }
        for count in 0..most {
            let wanted = store.wishes().expect("it is a part").wanted();
            let next = wanted.windows.into_iter().flatten().find(|index| !store.held().get(*index));
            let Some(index) = next.map(ChunkIndex) else { return Ok(count) };
            store.put_chunk(index, &object.read_chunk(index)?)?;
        }
        Ok(most)
    }

    #[test]
    fn of_a_part_only_its_chunks_are_wanted_and_the_second_fetch_wants_none() {
        let directory = directory();
        let (source, target) = (folder(directory.path(), 100), directory.path().join("out"));
        let mut object = published(&source, 1);
        let manifest = object.manifest().clone();
        let other = options(directory.path(), "", &["doc"]);
        let options = options(directory.path(), "", &["*.csv"]);
        let mut store = PartFile::open(&target, &manifest, &options).expect("nothing speaks against it");
        assert!(store.finish().is_err(), "it knows nothing yet");
        let count = serve(&mut store, &mut object, 1_000).expect("it is there");
        assert!(count < 16, "{count} chunks of {}", manifest.chunk_count());
        let extent = store.wishes().expect("a part").wanted().extent.expect("it is known");
        let index = u64::try_from(object.index().encode().len()).expect("small");
        assert_eq!(extent.iter().map(|range| range.end - range.start).sum::<u64>(), index + 12_500);
        store.finish().expect("all that is wanted is here");
        assert_eq!(names(&target), ["a.csv", "data"]);
        assert_eq!(names(&target.join("data")), ["b.csv", "old"]);
        assert_eq!(fs::read(target.join("data/old/c.csv")).expect("there"), pattern(500));
        assert_eq!(names(directory.path()), ["out", "source", "state"]);

        let there = PartFile::already_there(&target, &manifest, &options);
        assert!(there.is_some_and(|there| there.held().is_full()), "the same part is there already");
        let refused = reason(PartFile::open(&target, &manifest, &other));
        assert!(refused.contains("another part of the folder"), "{refused}");
        // The whole folder replaces the part, and takes over the chunks that exist.
        let whole = PartOptions { selection: None, ..options.clone() };
        let mut store = PartFile::open(&target, &manifest, &whole).expect("a part may become the whole");
        let count = serve(&mut store, &mut object, 1_000).expect("it is there");
        assert!(count + 10 < manifest.chunk_count() as usize, "{count} chunks");
        store.finish().expect("all is here");
        assert_eq!(names(&target), ["a.csv", "data", "doc"]);
        assert!(PartFile::already_there(&target, &manifest, &options).is_some(), "the whole has every part");
    }

    #[test]
    fn an_interrupted_part_goes_on_and_a_later_version_moves_what_changed() {
        let directory = directory();
        let (source, target) = (folder(directory.path(), 100), directory.path().join("doc"));
        let mut object = published(&source, 1);
        let options = options(directory.path(), "doc", &[]);
        let open = |object: &DirectoryObject| PartFile::open(&target, object.manifest(), &options).expect("it is ours");
        let mut store = open(&object);
        assert_eq!(serve(&mut store, &mut object, 20), Ok(20));
        drop(store);
        let mut store = open(&object);
        assert_eq!(store.held().count(), 20);
        let count = serve(&mut store, &mut object, 1_000).expect("it is there");
        assert!((30..60).contains(&count), "{count}");
        store.finish().expect("all that is wanted is here");
        assert_eq!(names(&target), ["big", "last"]);
        let mut object = published(&folder(directory.path(), 5_000), 2);
        let mut store = open(&object);
        let count = serve(&mut store, &mut object, 1_000).expect("it is there");
        assert!(count < 12, "{count} chunks for 5,000 new bytes");
        store.finish().expect("all that is wanted is here");
        assert_eq!(fs::read(target.join("last")).expect("there"), pattern(5_000));
    }

    #[test]
    fn a_file_of_a_folder_becomes_a_file() {
        let directory = directory();
        let (source, target) = (folder(directory.path(), 100), directory.path().join("out"));
        let mut object = published(&source, 1);
        let options = options(directory.path(), "data/b.csv", &[]);
        for _ in 0..2 {
            let mut store = PartFile::open(&target, object.manifest(), &options).expect("nothing speaks against it");
            serve(&mut store, &mut object, 1_000).expect("it is there");
            store.finish().expect("all that is wanted is here");
            assert_eq!(fs::read(&target).expect("a file"), pattern(9_000));
        }
        assert!(PartFile::already_there(&target, object.manifest(), &options).is_some());
    }

    #[test]
    fn what_is_not_in_the_folder_is_told_when_its_index_is_here_and_leaves_nothing() {
        let directory = directory();
        let (source, target) = (folder(directory.path(), 100), directory.path().join("out"));
        let mut object = published(&source, 1);
        for (below, include, said) in
            [("", &["*.png"][..], "'*.png' matches nothing"), ("nowhere", &[], "there is no 'nowhere'")]
        {
            let options = options(directory.path(), below, include);
            let mut store = PartFile::open(&target, object.manifest(), &options).expect("nothing is known yet");
            let refused = serve(&mut store, &mut object, 1_000).expect_err("it is not there");
            assert!(matches!(&refused, StoreError::Absent { reason } if reason.contains(said)), "{refused}");
            drop(store);
            assert_eq!(names(directory.path()), ["source"]);
        }
        let file = super::object(3_000);
        let refused = reason(PartFile::open(&target, file.manifest(), &options(directory.path(), "x", &[])));
        assert!(refused.contains("'/x' is a file"), "{refused}");
    }

    #[test]
    fn a_part_of_a_sealed_folder_is_opened_for_its_reader() {
        let directory = directory();
        let (source, target) = (folder(directory.path(), 100), directory.path().join("out"));
        let publish = PublishOptions {
            chunk_size: Some(CHUNK),
            state_dir: Some(directory.path().join("state")),
            ..PublishOptions::default()
        };
        let name = "/lab".parse().expect("a name");
        let sealed = publish_sealed(&source, name, &key(), &[key().public()], &publish).expect("publishable");
        let mut object = sealed.publication.object;
        let manifest = object.manifest().clone();
        let options = options(directory.path(), "doc", &["big"]);
        let refused = reason(PartFile::open(&target, &manifest, &options));
        assert!(refused.contains("is sealed"), "{refused}");
        let key = sealed::own_key(&directory.path().join("state"), &manifest);
        let options = PartOptions { key, ..options };
        let mut store = PartFile::open(&target, &manifest, &options).expect("there is a key");
        serve(&mut store, &mut *object, 1_000).expect("it is there");
        assert!(!store.held().is_full());
        store.finish().expect("all that is wanted is here");
        assert_eq!(names(&target), ["big"]);
        assert_eq!(fs::read(target.join("big")).expect("there"), pattern(60_000));
    }
}

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::FileExt,
    time::Duration,
};

use super::*;

/// Waits for the thread's answer to the last commit.
fn answer(repository: &mut DiskRepository) -> Result<(), StoreError> {
    while !repository.is_committed()? {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
fn commit(repository: &mut DiskRepository) {
    repository.commit().expect("a thread");
    answer(repository).expect("a disk");
}
/// Waits until the thread has completed its jobs, without a commit.
fn drain(repository: &mut DiskRepository) {
    let (tell, done) = channel();
    repository.send(Job::Wait(tell)).expect("a thread");
    done.recv().expect("a thread");
}
fn put(repository: &mut DiskRepository, id: u64, bytes: usize) {
    repository.put(id, b"head", &[payload(id, bytes).into()]).expect("a thread");
}
fn payload(id: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at as u64 * 31 + id * 7) as u8).collect()
}
fn listed(repository: &mut DiskRepository) -> Vec<u64> {
    repository.list().expect("a folder").into_iter().map(|(id, ..)| id).collect()
}
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path()).collect();
    // These tests ignore the age of the folder.
    files.retain(|file| file.file_name().is_none_or(|name| name != "age"));
    files.sort();
    files
}
/// Bytes that the files of a folder take on the disk.
fn used(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    files(folder).iter().map(|file| file.metadata().expect("a file").blocks() * 512).sum()
}
/// The folder that a killed process leaves: a copy, since the thread of this one continues. The zeros that a segment
/// reserves ahead use no space in the copy.
fn killed(folder: &Path, to: &Path) -> DiskRepository {
    fs::create_dir(to).expect("a folder");
    for file in files(folder) {
        let bytes = fs::read(&file).expect("a file");
        let written = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let copy = File::create(to.join(file.file_name().expect("a name"))).expect("a file");
        copy.write_all_at(&bytes[..written], 0).expect("a disk");
        copy.set_len(bytes.len() as u64).expect("a disk");
    }
    DiskRepository::new(to, &Bell::default())
}

#[test]
fn what_was_committed_is_there_after_a_kill_and_what_was_not_is_whole_or_not_there() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().join("store");
    let mut repository = DiskRepository::new(&folder, &Bell::default());
    assert!(listed(&mut repository).is_empty());
    repository.put(1, b"head one", &[payload(1, 100_000).into()]).expect("a thread");
    repository.put(2, b"head two", &[]).expect("a thread");
    put(&mut repository, 3, 70_000);
    commit(&mut repository);
    put(&mut repository, 4, 50_000);
    assert_eq!(repository.read(4).expect("it is there"), payload(4, 50_000));
    repository.remove(2).expect("a thread");
    drain(&mut repository);
    let segment = segment::path(&folder, 0);
    let end = 3 * 64 + 8 + 8 + 4 + 170_000;
    let complete = end + 64 + 4 + 50_000;
    assert_eq!(fs::read(&segment).expect("a file")[end..][..4], *b"TBC2");
    // Killed at any moment of writing the last chunk.
    for (number, length) in
        [end, end + 1, end + 63, end + 64, end + 68, end + 30_000, complete - 1].into_iter().enumerate()
    {
        for fill in [0, 0xff] {
            let to = dir.path().join(format!("{number} {fill}"));
            drop(killed(&folder, &to));
            let copy = OpenOptions::new().write(true).open(segment::path(&to, 0)).expect("a file");
            copy.write_all_at(&vec![fill; complete - length], length as u64).expect("a disk");
            let mut again = DiskRepository::new(&to, &Bell::default());
            let found = again.list().expect("a folder");
            let heads: Vec<_> = found.iter().map(|(id, head, bytes)| (*id, &head[..], *bytes)).collect();
            assert_eq!(heads, [(1, &b"head one"[..], 100_000), (3, b"head", 70_000)], "{length} bytes, then {fill}");
            assert_eq!(again.read(1).expect("it is there"), payload(1, 100_000));
            assert!(again.read(4).is_err());
            // It continues, and torn chunks do not come back.
            put(&mut again, 4, 1_000);
            commit(&mut again);
            drop(again);
            let mut again = DiskRepository::new(&to, &Bell::default());
            assert_eq!(listed(&mut again), [1, 3, 4]);
            assert_eq!(again.read(4).expect("it is there"), payload(4, 1_000));
        }
    }
    let mut again = killed(&folder, &dir.path().join("whole"));
    assert_eq!(listed(&mut again), [1, 3, 4]);
    assert_eq!(again.read(4).expect("it is there"), payload(4, 50_000));
    assert!(segment.metadata().expect("a file").len() > complete as u64, "room is set aside");
    drop(repository);
    assert_eq!(segment.metadata().expect("a file").len(), complete as u64, "and given back in the end");
}

/// A power failure may keep a later chunk and lose an earlier one, as long as no commit has been answered since.
#[test]
fn what_was_torn_hides_nothing_that_is_whole_behind_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().join("store");
    let mut repository = DiskRepository::new(&folder, &Bell::default());
    assert!(listed(&mut repository).is_empty());
    (1..=3).for_each(|id| put(&mut repository, id, 10_000));
    drain(&mut repository);
    let to = dir.path().join("copy");
    drop(killed(&folder, &to));
    let copy = OpenOptions::new().write(true).open(segment::path(&to, 0)).expect("a file");
    copy.write_all_at(&[0; 4_096], 4_096).expect("a disk");
    assert_eq!(listed(&mut DiskRepository::new(&to, &Bell::default())), [2, 3]);
}

#[test]
fn what_is_removed_gives_its_room_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut repository = DiskRepository::new(dir.path(), &Bell::default());
    assert!(listed(&mut repository).is_empty());
    for id in 0..160 {
        put(&mut repository, id, 1 << 20);
    }
    commit(&mut repository);
    assert_eq!(files(dir.path()).len(), 3);
    assert!(used(dir.path()) >= 160 << 20);
    // Every other one: holes.
    (0..160).step_by(2).for_each(|id| repository.remove(id).expect("a thread"));
    commit(&mut repository);
    let ahead = 32 << 20;
    assert!(used(dir.path()) < (82 << 20) + ahead, "{} bytes", used(dir.path()));
    // A kill before that is made up for.
    let to = dir.path().with_extension("copy");
    let mut again = killed(dir.path(), &to);
    assert_eq!(listed(&mut again).len(), 80);
    commit(&mut again);
    assert!(used(&to) < 83 << 20, "{} bytes", used(&to));
    fs::remove_dir_all(&to).expect("a disk");
    // All but two: whole segments are removed, and the others keep their chunks.
    (3..159).for_each(|id| repository.remove(id).expect("a thread"));
    commit(&mut repository);
    assert!(used(dir.path()) < (4 << 20) + ahead, "{} bytes", used(dir.path()));
    assert_eq!(listed(&mut repository), [1, 159]);
    assert_eq!(repository.read(1).expect("it is there"), payload(1, 1 << 20));
    assert_eq!(repository.read(159).expect("it is there"), payload(159, 1 << 20));
    [1, 159].into_iter().for_each(|id| repository.remove(id).expect("a thread"));
    commit(&mut repository);
    assert!(listed(&mut repository).is_empty());
    assert!(files(dir.path()).is_empty(), "{:?}", files(dir.path()));
}

/// Names change all the time, and each change is a small chunk.
#[test]
fn a_segment_of_which_little_is_left_is_moved_and_outlives_a_kill_in_between() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().join("store");
    let mut repository = DiskRepository::new(&folder, &Bell::default());
    assert!(listed(&mut repository).is_empty());
    for id in 0..300 {
        put(&mut repository, id, 10_000);
    }
    commit(&mut repository);
    // It is closed, and the next one starts.
    drop(repository);
    let mut repository = DiskRepository::new(&folder, &Bell::default());
    assert_eq!(listed(&mut repository).len(), 300);
    let before = killed(&folder, &dir.path().join("before"));
    drop(before);
    (0..290).for_each(|id| repository.remove(id).expect("a thread"));
    commit(&mut repository);
    assert_eq!(files(&folder), [segment::path(&folder, 1)], "it is not moved");
    assert!(used(&folder) < 2 << 20);
    assert_eq!(repository.read(295).expect("it is there"), payload(295, 10_000));
    repository.remove(299).expect("a thread");
    commit(&mut repository);
    drop(repository);
    // Killed before the old one was removed: a chunk that is in both is listed once.
    fs::copy(segment::path(&dir.path().join("before"), 0), segment::path(&folder, 0)).expect("a disk");
    let file = OpenOptions::new().write(true).open(segment::path(&folder, 0)).expect("a file");
    for id in (0..290).chain([299]) {
        segment::mark_removed(&file, id * 10_068).expect("a disk");
    }
    let mut repository = DiskRepository::new(&folder, &Bell::default());
    assert_eq!(listed(&mut repository), (290..299).collect::<Vec<_>>());
    repository.remove(290).expect("a thread");
    commit(&mut repository);
    drop(repository);
    assert_eq!(
        listed(&mut DiskRepository::new(&folder, &Bell::default())),
        (291..299).collect::<Vec<_>>(),
        "it has come back"
    );
}

#[test]
fn a_folder_that_cannot_be_used_is_found_before_anything_is_entrusted_to_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().join("deep/store");
    DiskRepository::check(&folder).expect("it is made");
    assert_eq!(fs::read_dir(&folder).expect("it is there").count(), 0, "nothing is left behind");
    let file = dir.path().join("file");
    fs::write(&file, "no folder").expect("a disk");
    assert!(DiskRepository::check(&file).is_err());
    assert!(DiskRepository::check(&file.join("store")).is_err());
    for name in ["0000000000000007.chunks", "0000000000000007.chunk"] {
        let taken = folder.join(name);
        fs::create_dir(&taken).expect("a disk");
        let reported = DiskRepository::check(&folder).expect_err("it cannot be read").to_string();
        assert!(reported.starts_with(&format!("{}: ", taken.display())), "{reported}");
        fs::remove_dir(&taken).expect("a disk");
    }
    DiskRepository::check(&folder).expect("nothing is in the way");
}

#[test]
fn what_is_damaged_is_never_given_out() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut repository = DiskRepository::new(dir.path(), &Bell::default());
    assert!(listed(&mut repository).is_empty());
    for id in 0..3 {
        put(&mut repository, id, 1_000);
        commit(&mut repository);
    }
    let file = OpenOptions::new().write(true).open(segment::path(dir.path(), 0)).expect("a file");
    // In the payload of the first, and in the head of the second.
    file.write_all_at(&[0xee], 500).expect("a disk");
    file.write_all_at(&[0xee], 1_068 + 65).expect("a disk");
    assert!(repository.read(0).is_err() && repository.read(1).is_err(), "a changed byte passes");
    assert!(repository.read(2).is_ok());
    drop(repository);
    let mut repository = DiskRepository::new(dir.path(), &Bell::default());
    assert_eq!(listed(&mut repository), [0, 1, 2], "what was durable is not read at a start");
    assert!(repository.read(0).is_err() && repository.read(1).is_err());
}

#[test]
fn what_is_damaged_is_counted_and_its_file_kept_when_the_rest_has_left() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut repository = DiskRepository::new(dir.path(), &Bell::default());
    assert!(listed(&mut repository).is_empty());
    for id in 0..3 {
        put(&mut repository, id, 1_000);
        commit(&mut repository);
    }
    drop(repository);
    let path = segment::path(dir.path(), 0);
    let file = OpenOptions::new().write(true).open(&path).expect("a file");
    // The fronts of the second and the third: without the seal nothing shows that the third was ever whole.
    file.write_all_at(&[0xee; 64], 1_068).expect("a disk");
    file.write_all_at(&[0xee; 64], 2 * 1_068).expect("a disk");
    let mut repository = DiskRepository::new(dir.path(), &Bell::default());
    assert_eq!(listed(&mut repository), [0]);
    let expected = Damage { places: 1, bytes: 2 * 1_068, unfinished_bytes: 0, files: 0 };
    assert_eq!(repository.damage(), expected);
    // And the payload of the first.
    file.write_all_at(&[0xee], 500).expect("a disk");
    let damaged = fs::read(&path).expect("a file");
    assert!(repository.read(0).is_err() && repository.read(0).is_err());
    assert_eq!(repository.damage(), Damage { places: 2, bytes: 3 * 1_068, ..expected }, "it is counted once");
    repository.remove(0).expect("a thread");
    commit(&mut repository);
    let kept = dir.path().join("damaged/0000000000000000.chunks.0");
    let mark = b"TBX2";
    assert_eq!(fs::read(kept).expect("it is kept"), [mark, &damaged[4..]].concat());
    assert!(!path.exists());
    drop(repository);
    let mut repository = DiskRepository::new(dir.path(), &Bell::default());
    assert!(listed(&mut repository).is_empty());
    assert_eq!(repository.damage(), Damage { files: 1, ..Damage::default() });
}

/// Each byte in front of a chunk in turn, its head included: lengths that end too early, too late and nowhere, a number that
/// another chunk has.
#[test]
fn a_damaged_front_takes_nothing_with_it() {
    // In memory where there is such a disk: it is listed some thousand times.
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.expect("a folder");
    let folder = dir.path().join("store");
    let mut repository = DiskRepository::new(&folder, &Bell::default());
    assert!(listed(&mut repository).is_empty());
    for id in 1..=4 {
        put(&mut repository, id, 1_000);
        commit(&mut repository);
    }
    let at = |id: u64| (id - 1) * 1_068;
    for (id, others) in [(1, [2, 3, 4]), (2, [1, 3, 4]), (3, [1, 2, 4])] {
        for byte in 0..68 {
            for bits in [0x01, 0x03, 0x10, 0xff] {
                let to = dir.path().join("copy");
                drop(killed(&folder, &to));
                let copy = OpenOptions::new().read(true).write(true).open(segment::path(&to, 0)).expect("a file");
                let mut damaged = [0];
                copy.read_exact_at(&mut damaged, at(id) + byte).expect("a disk");
                copy.write_all_at(&[damaged[0] ^ bits], at(id) + byte).expect("a disk");
                let mut again = DiskRepository::new(&to, &Bell::default());
                let found = listed(&mut again);
                for other in others {
                    assert!(found.contains(&other), "chunk {id}, byte {byte} ^ {bits:#x}: {found:?}");
                    assert_eq!(
                        again.read(other).expect("it is there"),
                        payload(other, 1_000),
                        "chunk {id}, byte {byte}"
                    );
                }
                assert!(again.read(id).is_err(), "chunk {id}, byte {byte}: a changed byte passes");
                drop(again);
                fs::remove_dir_all(&to).expect("a disk");
            }
        }
    }
}

/// Bytes in a payload may look like a chunk; they are ignored while the surrounding chunk is whole.
#[test]
fn a_payload_that_looks_like_chunks_is_none() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().join("store");
    let mut repository = DiskRepository::new(&folder, &Bell::default());
    assert!(listed(&mut repository).is_empty());
    let mut inner = Vec::new();
    segment::encode(&mut inner, 9, 0, b"head", &[payload(9, 500).into()]);
    repository.put(1, b"head", &[payload(1, 300).into(), inner.into()]).expect("a thread");
    put(&mut repository, 2, 1_000);
    commit(&mut repository);
    drop(repository);
    assert_eq!(listed(&mut DiskRepository::new(&folder, &Bell::default())), [1, 2]);
}

#[test]
fn chunks_of_earlier_versions_are_restored_and_removed() {
    let dir = tempfile::tempdir().expect("a folder");
    let chunk = |id: u64, payload: &[u8]| {
        let rest = [b"head", payload].concat();
        let mut bytes = b"TBC1".to_vec();
        bytes.extend_from_slice(&4u32.to_be_bytes());
        bytes.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        bytes.extend_from_slice(blake3::hash(&rest).as_bytes());
        bytes.extend_from_slice(&rest);
        fs::write(file::path(dir.path(), id), &bytes).expect("a disk");
    };
    (4..8).for_each(|id| chunk(id, &payload(id, 1_000)));
    fs::write(dir.path().join("0000000000000009.new"), "half a chunk").expect("a disk");
    let change = |id, change: &dyn Fn(&mut Vec<u8>)| {
        let path = file::path(dir.path(), id);
        let mut bytes = fs::read(&path).expect("a file");
        change(&mut bytes);
        fs::write(&path, bytes).expect("a disk");
    };
    change(6, &|bytes| bytes[500] ^= 1);
    change(7, &|bytes| bytes.truncate(700));
    let mut repository = DiskRepository::new(dir.path(), &Bell::default());
    let found = repository.list().expect("a folder");
    assert_eq!(found, [4, 5, 6].map(|id| (id, b"head".to_vec(), 1_000)), "one of the wrong length counts");
    assert_eq!(repository.read(4).expect("it is there"), payload(4, 1_000));
    assert!(repository.read(6).is_err(), "a flipped bit passes");
    put(&mut repository, 8, 1_000);
    [4, 6].into_iter().for_each(|id| repository.remove(id).expect("a thread"));
    commit(&mut repository);
    drop(repository);
    assert_eq!(listed(&mut DiskRepository::new(dir.path(), &Bell::default())), [5, 8]);
    let damaged = dir.path().join("damaged");
    assert_eq!(files(dir.path()), [segment::path(dir.path(), 0), file::path(dir.path(), 5), damaged.clone()]);
    assert_eq!(files(&damaged), [damaged.join("0000000000000007.chunk.0")], "what is damaged is kept");
}

#[test]
fn whoever_waits_for_a_commit_is_called_when_it_is_done() {
    let dir = tempfile::tempdir().expect("a folder");
    let bell = Bell::default();
    let mut repository = DiskRepository::new(dir.path(), &bell);
    assert_eq!(repository.poll_interval(), None, "nobody has to ask");
    for id in 1..4 {
        repository.put(id, b"head", &[payload(id, 1_000).into()]).expect("a thread");
        repository.commit().expect("a thread");
        while !bell.take() {
            std::thread::yield_now();
        }
        assert_eq!(repository.is_committed(), Ok(true), "it is done by then");
    }
}

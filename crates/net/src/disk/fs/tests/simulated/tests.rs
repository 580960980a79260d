use super::*;

fn bytes(fs: &dyn FileSystem, path: &str) -> Option<Vec<u8>> {
    crate::disk::fs::read(fs, Path::new(path)).ok()
}
fn disk(seed: u64) -> (SimulatedDisk, Arc<dyn FileSystem>) {
    let disk = SimulatedDisk::new(seed);
    let fs = disk.start();
    (disk, fs)
}

#[test]
fn a_power_cut_keeps_what_was_synced_and_an_arbitrary_part_of_the_rest() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..2000 {
        let (disk, fs) = disk(seed);
        let file = fs.open(Path::new("/a"), OpenOptions::CREATE).unwrap();
        file.write_all_at(&[1; 1024], 0).unwrap();
        file.sync_data().unwrap();
        fs.sync_folder(Path::new("/")).unwrap();
        file.write_all_at(&[2; 1024], 0).unwrap();
        file.write_all_at(&[3; 700], 1024).unwrap();
        disk.cut_power();
        assert!(file.write_at(&[9], 0).is_err(), "a process that has ended writes nothing");
        let found = bytes(&*disk.start(), "/a").expect("its name was synced");
        assert!(found.len() == 1024 || found.len() == 1724, "{}", found.len());
        for (sector, bytes) in found.chunks(SECTOR_BYTES).enumerate() {
            let allowed: &[u8] = if sector < 2 { &[1, 2] } else { &[0, 3] };
            assert!(allowed.contains(&bytes[0]) && bytes.iter().all(|byte| *byte == bytes[0]), "sector {sector}");
        }
        outcomes.insert(found.chunks(SECTOR_BYTES).map(|sector| sector[0]).collect::<Vec<_>>());
    }
    // Two sectors that are old or new, and two at the end that are missing, zero or new.
    assert_eq!(outcomes.len(), 4 * (1 + 4), "{outcomes:?}");
}

#[test]
fn names_are_lost_unless_their_folder_was_synced_and_renames_are_done_in_one_step() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        let (disk, fs) = disk(seed);
        for name in ["/old", "/other"] {
            let file = fs.open(Path::new(name), OpenOptions::CREATE).unwrap();
            file.write_all_at(name.as_bytes(), 0).unwrap();
            file.sync_all().unwrap();
        }
        fs.sync_folder(Path::new("/")).unwrap();
        fs.rename(Path::new("/other"), Path::new("/old"), Rename::Replace).unwrap();
        let new = fs.open(Path::new("/new"), OpenOptions::CREATE_NEW).unwrap();
        new.sync_all().unwrap();
        disk.cut_power();
        let fs = disk.start();
        let (old, other) = (bytes(&*fs, "/old").unwrap(), bytes(&*fs, "/other"));
        assert!(match &old[..] {
            b"/old" => other.as_deref() == Some(b"/other"),
            b"/other" => other.is_none(),
            _ => false,
        });
        outcomes.insert((old, bytes(&*fs, "/new").is_some()));
    }
    assert_eq!(outcomes.len(), 4, "{outcomes:?}");
}

#[test]
fn a_sync_that_fails_drops_what_it_was_to_write_and_the_next_one_does_not_tell() {
    let (mut lost, mut seen) = (0, 0);
    for seed in 0..100 {
        let (disk, fs) = disk(seed);
        let file = fs.open(Path::new("/a"), OpenOptions::CREATE).unwrap();
        fs.sync_folder(Path::new("/")).unwrap();
        file.write_all_at(&[1; 512], 0).unwrap();
        disk.set_faults(Faults { sync: 1.0, ..Faults::NONE });
        assert!(file.sync_data().is_err());
        disk.set_faults(Faults::NONE);
        file.sync_data().expect("it is dropped");
        seen += u32::from(bytes(&*fs, "/a").unwrap() == [1; 512]);
        disk.cut_power();
        lost += u32::from(bytes(&*disk.start(), "/a").unwrap() == [0; 512]);
    }
    assert!((10..90).contains(&lost) && seen > 100 - lost, "lost {lost}, seen {seen}");
}

#[test]
fn what_a_file_was_cut_by_does_not_come_back_behind_its_end() {
    for seed in 0..500 {
        let (disk, fs) = disk(seed);
        let file = fs.open(Path::new("/a"), OpenOptions::CREATE).unwrap();
        fs.sync_folder(Path::new("/")).unwrap();
        file.write_all_at(&[1; 9000], 0).unwrap();
        file.sync_data().unwrap();
        file.set_len(100).unwrap();
        file.set_len(5000).unwrap();
        file.write_all_at(&[2; 1000], 4000).unwrap();
        disk.cut_power();
        let found = bytes(&*disk.start(), "/a").unwrap();
        match found.len() {
            9000 => assert!(found.iter().all(|byte| *byte == 1)),
            100 | 5000 => {
                assert!(found[..100].iter().all(|byte| *byte == 1));
                assert!(found[100..].iter().all(|byte| *byte != 1), "it comes back");
            }
            other => panic!("{other} bytes"),
        }
    }
}

#[test]
fn a_killed_process_leaves_what_it_wrote_and_a_full_disk_takes_no_more() {
    let (disk, fs) = disk(1);
    disk.set_room(Some(8192));
    let file = fs.open(Path::new("/a"), OpenOptions::CREATE).unwrap();
    assert_eq!(file.write_at(&[1; 10_000], 0).unwrap(), 8192);
    assert_eq!(file.write_at(&[1; 10], 8192).unwrap_err().kind(), io::ErrorKind::StorageFull);
    file.lock(Lock::Exclusive, Wait::Never).unwrap();
    disk.kill();
    let fs = disk.start();
    assert_eq!(bytes(&*fs, "/a").unwrap(), [1; 8192]);
    let file = fs.open(Path::new("/a"), OpenOptions::WRITE).unwrap();
    file.lock(Lock::Exclusive, Wait::Never).expect("locks go with their process");
    let again = fs.open(Path::new("/a"), OpenOptions::READ).unwrap();
    assert_eq!(again.lock(Lock::Shared, Wait::Never).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    file.punch_hole(0, 4096).unwrap();
    assert_eq!((disk.used_bytes(), fs.free_bytes(Path::new("/"))), (4096, Some(4096)));
    fs.remove_file(Path::new("/a")).unwrap();
    assert_eq!(disk.used_bytes(), 4096, "it is open");
    drop((file, again));
    assert_eq!(disk.used_bytes(), 0);
}

#[test]
fn a_process_can_be_stopped_in_the_middle_of_any_operation() {
    let mut lengths = BTreeSet::new();
    for seed in 0..50 {
        let (disk, fs) = disk(seed);
        let file = fs.open(Path::new("/a"), OpenOptions::CREATE).unwrap();
        disk.stop_after(2);
        file.write_all_at(&[1; 3], 0).unwrap();
        assert!(file.write_all_at(&[2; 3], 3).is_err() && disk.is_stopped());
        assert!(file.write_all_at(&[3; 3], 3).is_err() && fs.remove_file(Path::new("/a")).is_err());
        disk.kill();
        let found = bytes(&*disk.start(), "/a").unwrap();
        assert!(found.starts_with(&[1; 3]) && found[3..].iter().all(|byte| *byte == 2));
        lengths.insert(found.len());
    }
    assert_eq!(lengths, BTreeSet::from([3, 4, 5, 6]));
}

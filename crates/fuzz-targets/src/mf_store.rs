//! A folder of MobilityFirst's store, in which a power failure, a broken disk or anybody may have left anything.
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use tempfile::TempDir;
use tributary_content::ChunkRepository;
use tributary_net::{Bell, disk::DiskRepository};

use crate::{input::Input, seeds::Seed};

const HEAD: &[u8] = b"head";
const PAYLOAD: [u8; 100] = [7; 100];

/// Listed chunks ascend, and each reads at its stated length or is refused. A complete chunk stays complete. A put
/// chunk is found after the folder is opened again, a removed one is not, and no other chunk appears.
pub fn mf_store(data: &[u8]) {
    let mut input = Input::new(data);
    let folder = folder();
    let (is_old, number) = (input.u8() & 1 == 1, u64::from(input.u8()));
    let names = [
        "0000000000000000.chunks".into(),
        match is_old {
            true => format!("{number:016x}.chunk"),
            false => format!("{:016x}.chunks", number.max(1)),
        },
    ];
    for name in names {
        std::fs::write(folder.path().join(name), input.blob()).expect("a folder for a test");
    }
    let mut repository = DiskRepository::new(folder.path(), &Bell::default());
    let before = chunks(&mut repository);
    let new = before.keys().last().map_or(Some(1), |last| last.checked_add(1));
    let gone = before.keys().next().copied();
    if let Some(id) = new {
        repository.put(id, HEAD, &[PAYLOAD.to_vec().into()]).expect("the thread runs");
    }
    if let Some(id) = gone {
        repository.remove(id).expect("the thread runs");
    }
    commit(&mut repository);
    drop(repository);
    let after = chunks(&mut DiskRepository::new(folder.path(), &Bell::default()));
    let expected = || before.iter().filter(|(id, _)| Some(**id) != gone);
    for (id, complete) in expected() {
        assert!(complete.is_none() || after.get(id) == Some(complete), "chunk {id} was whole");
    }
    if let Some(id) = new {
        assert_eq!(
            after.get(&id),
            Some(&Some((HEAD.to_vec(), PAYLOAD.to_vec()))),
            "what was put and committed is there"
        );
    }
    let known: BTreeSet<u64> = expected().map(|(id, _)| *id).chain(new).collect();
    assert!(after.keys().all(|id| known.contains(id)), "{:?} beside {known:?}", after.keys());
}

/// Head and payload of a chunk; `None` if it is listed and cannot be read.
type Chunk = Option<(Vec<u8>, Vec<u8>)>;

fn chunks(repository: &mut DiskRepository) -> BTreeMap<u64, Chunk> {
    let listed = repository.list().expect("a folder that can be read");
    assert!(listed.windows(2).all(|pair| pair[0].0 < pair[1].0), "numbers ascend");
    let read = |(id, head, bytes): (u64, Vec<u8>, u64)| {
        let payload = repository.read(id).ok();
        assert!(payload.as_ref().is_none_or(|payload| payload.len() as u64 == bytes), "as long as told");
        (id, payload.map(|payload| (head, payload.to_vec())))
    };
    listed.into_iter().map(read).collect()
}
fn commit(repository: &mut DiskRepository) {
    repository.commit().expect("the thread runs");
    while !repository.is_committed().expect("a disk that works") {
        std::thread::yield_now();
    }
}
/// In memory where such a disk exists: fuzzers write many files.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.expect("a folder for a test")
}

/// Valid inputs to start from: segments as the store writes them, with and without holes, and a foreign file.
pub(crate) fn seeds() -> Vec<Seed> {
    let written = |ids: &[u64], removed: &[u64]| {
        let folder = folder();
        let mut repository = DiskRepository::new(folder.path(), &Bell::default());
        chunks(&mut repository);
        for id in ids {
            let payload = vec![*id as u8; 40 * *id as usize];
            repository.put(*id, &[*id as u8; 20], &[payload.into()]).expect("the thread runs");
            commit(&mut repository);
        }
        removed.iter().for_each(|id| repository.remove(*id).expect("the thread runs"));
        commit(&mut repository);
        drop(repository);
        let mut files: Vec<_> = std::fs::read_dir(folder.path()).expect("it was made").flatten().collect();
        files.sort_by_key(|file| file.file_name());
        files.first().map_or(Vec::new(), |file| std::fs::read(file.path()).expect("it was written"))
    };
    let blob = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
    let own = {
        let (head, payload) = ([5; 20], [6; 90]);
        let hash = blake3::hash(&[&head[..], &payload].concat());
        [&b"TBC1"[..], &20_u32.to_be_bytes(), &90_u64.to_be_bytes(), hash.as_bytes(), &head, &payload].concat()
    };
    let complete = written(&[1, 2, 5], &[]);
    let cut = &complete[..complete.len() - 30];
    let seeds = [
        ("whole", [&[0, 1][..], &blob(&complete), &blob(&written(&[7, 9], &[]))].concat()),
        ("removed", [&[0, 1][..], &blob(&written(&[1, 2, 3], &[2])), &blob(&[])].concat()),
        ("cut", [&[0, 1][..], &blob(cut), &blob(&written(&[2, 3], &[]))].concat()),
        ("own-file", [&[1, 7][..], &blob(&complete), &blob(&own)].concat()),
    ];
    seeds.into_iter().map(|(label, bytes)| ("mf_store", format!("seed-{label}"), bytes)).collect()
}

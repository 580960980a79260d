//! Random histories of a node's persistent settings, over a disk that loses, tears and refuses writes.
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use tributary_content::SigningKey;
use tributary_core::{Duration, Time};
use tributary_mf::{
    Asker, NameMessage, NameRecord, Readers, RecordBody, Records, Replica, Statement,
    ids::{Guid, NetworkAddress},
};
use tributary_net::{
    Bell,
    disk::{
        DiskRepository,
        age::Reading,
        fs::{
            Faults,
            histories::{self, Machine, trace},
        },
    },
};

use super::{groups, readers};

const STATE: &str = "/home/state";

/// Groups have the members of the last change, or of a later attempt that failed.
#[test]
fn groups_outlive_kills_power_cuts_and_failing_disks() {
    histories::run("groups", 1_000, |seed| {
        let mut machine = Machine::new(seed);
        let mut possible = BTreeMap::<String, BTreeSet<Option<Option<Vec<Guid>>>>>::new();
        for _ in 0..2 + machine.random.below(5) {
            let found = groups::load(&*machine.fs, Path::new(STATE)).expect("it is never damaged");
            for (label, possible) in &possible {
                assert!(possible.contains(&found.get(label).cloned()), "{label}: {found:?} of {possible:?}");
            }
            machine.be_rough();
            for _ in 0..machine.random.below(10) {
                let label = machine.random.below(4).to_string();
                let member = Guid([machine.random.below(9) as u8; 20]);
                let members = machine.random.chance(0.7).then(|| vec![member]);
                let texts = members.clone().map(|members| members.iter().map(ToString::to_string).collect());
                let done = groups::remember(&*machine.fs, Path::new(STATE), label.clone(), texts);
                trace(|| format!("{label} {members:?}: {done:?}"));
                let known = possible.entry(label).or_insert_with(|| BTreeSet::from([None]));
                match done {
                    Ok(()) => *known = BTreeSet::from([Some(members)]),
                    Err(_) => drop(known.insert(Some(members))),
                }
            }
            machine.restart();
        }
    });
}

/// Restricted names never become public.
#[test]
fn rules_about_readers_outlive_kills_power_cuts_and_failing_disks() {
    histories::run("readers", 1_000, |seed| {
        let mut machine = Machine::new(seed);
        let mut possible = BTreeMap::<_, BTreeSet<Option<Option<BTreeSet<Guid>>>>>::new();
        for _ in 0..2 + machine.random.below(5) {
            let found = readers::load(&*machine.fs, Path::new(STATE)).expect("it is never damaged");
            for (name, possible) in &possible {
                assert!(possible.contains(&found.get(name).cloned()), "{name:?}: {found:?} of {possible:?}");
            }
            machine.be_rough();
            for _ in 0..machine.random.below(10) {
                let number = machine.random.below(4);
                let name = (number > 0).then(|| format!("/{number}").parse().expect("a name"));
                let reader = Guid([machine.random.below(9) as u8; 20]);
                let rule = machine.random.chance(0.7).then(|| BTreeSet::from([reader]));
                let done = readers::remember(&*machine.fs, Path::new(STATE), name.clone(), rule.clone());
                trace(|| format!("{name:?} {rule:?}: {done:?}"));
                let known = possible.entry(name).or_insert_with(|| BTreeSet::from([None]));
                match done {
                    Ok(()) => *known = BTreeSet::from([Some(rule)]),
                    Err(_) => drop(known.insert(Some(rule))),
                }
            }
            machine.restart();
        }
    });
}

/// After a restart a replica has each acknowledged record, in that version or a later one.
#[test]
fn names_that_were_acknowledged_outlive_kills_power_cuts_and_failing_disks() {
    let keys: Vec<SigningKey> = (0..6).map(|number| SigningKey::from_secret(&[number; 32])).collect();
    let signed = |author: usize, version: u64| {
        let statement = Statement {
            key: keys[author].public(),
            version,
            lifetime_ms: 3_000_000,
            ends: None,
            label: "x".into(),
            body: RecordBody::Device(vec![(NetworkAddress(version as u32), 1)]),
            readers: Readers::All,
        };
        NameRecord::sign(statement, &keys[author]).expect("legal")
    };
    let asker = Asker { guid: Guid([9; 20]), address: NetworkAddress(9) };
    histories::run("names", 150, |seed| {
        let mut machine = Machine::new(seed);
        machine.faults.read = 0.0;
        // By author: the version that was acknowledged, and the newest that was brought.
        let mut acknowledged = [0_u64; 6];
        let mut brought = [0_u64; 6];
        let mut now = Time::from_millis(1);
        for _ in 0..2 + machine.random.below(4) {
            let store = Path::new("/home/store/names");
            let mut replica = Replica::new(1_000_000);
            let repository = DiskRepository::in_steps(Arc::clone(&machine.fs), store, 3, Arc::new(Reading::default));
            replica.restore(now, Box::new(repository)).expect("nothing fails");
            for (author, acknowledged) in acknowledged.iter().enumerate() {
                let place = signed(author, 1).guid();
                replica.handle(now, asker, NameMessage::Lookup { request: 0, place });
                let Some((_, NameMessage::Found { records, .. })) = replica.poll_message() else {
                    panic!("a lookup is answered")
                };
                let version = records
                    .first()
                    .map_or(0, |record| NameRecord::decode(record).expect("it is whole").statement().version);
                let brought = brought[author];
                assert!(
                    (*acknowledged..=brought).contains(&version),
                    "{author} has {version} of {acknowledged}..={brought}"
                );
            }
            machine.be_rough();
            // Which author's which version a request brings.
            let mut requests = Vec::<(usize, u64)>::new();
            for _ in 0..machine.random.below(60) {
                now += Duration::from_millis(machine.random.below(3_000));
                if machine.random.chance(0.05) {
                    machine.disk.set_faults(Faults::NONE);
                }
                if machine.random.chance(0.4) {
                    let author = machine.random.below(6) as usize;
                    brought[author] += u64::from(brought[author] == 0 || machine.random.chance(0.8));
                    let record = signed(author, brought[author]);
                    trace(|| format!("{author} brings version {}", brought[author]));
                    let (request, place) = (requests.len() as u32, record.guid());
                    requests.push((author, brought[author]));
                    replica.handle(now, asker, NameMessage::Put { request, place, record: record.encode() });
                }
                replica.handle_timeout(now);
                replica.settle(now);
                while let Some((_, message)) = replica.poll_message() {
                    if let NameMessage::Done { request, .. } = message {
                        let (author, version) = requests[request as usize];
                        trace(|| format!("{author} is answered version {version}"));
                        acknowledged[author] = acknowledged[author].max(version);
                    }
                }
            }
            let _ = replica.poll_failure();
            // The machine fails before its process releases anything.
            let ended = replica;
            machine.restart();
            drop(ended);
        }
    });
}

#[test]
fn a_store_that_is_opened_again_keeps_chunks_no_longer_than_they_were_to_be_kept() {
    use tributary_mf::{
        ChunkHeader, ChunkKind, DataTag, Kept, Proxy, Reliability, StoreReason,
        config::ProxyConfig,
        ids::{Guid, NetworkAddress, Token},
    };
    let dir = tempfile::tempdir().expect("a folder");
    let open = || {
        let (repository, own) = (DiskRepository::new(dir.path(), &Bell::default()), (Guid([9; 20]), NetworkAddress(7)));
        let proxy = Proxy::open(Time::ZERO, ProxyConfig::default(), own, Box::new(repository));
        proxy.map_err(|(error, _)| error).expect("a disk")
    };
    let lifetime = Duration::from_secs(3_600);
    let left = |proxy: &Proxy| proxy.holdings().next().expect("it is stored").until.since(Time::ZERO);
    let mut proxy = open();
    let tag = DataTag {
        object: tributary_content::ObjectId([9; 16]),
        transfer: 1,
        token: Token(7),
        number: 0,
        count: 1,
        chunk_bytes: 1_000,
        reliability: Reliability::Nack,
        window: 0,
        window_chunks: 0,
    };
    let header = ChunkHeader::new(ChunkKind::Data(tag), Guid([1; 20]), Guid([2; 20]), NetworkAddress(5));
    let header = ChunkHeader { lifetime_ms: 3_600_000, ..header };
    proxy.put(Time::ZERO, &header, &vec![1; 10].into(), Kept::For(StoreReason::Away)).expect("room");
    assert_eq!(left(&proxy), lifetime);
    drop(proxy);
    let mut before = lifetime;
    for _ in 0..2 {
        let left = left(&open());
        assert!(left < before && left > Duration::ZERO, "{left:?}");
        before = left;
        // The file system's times have a resolution of milliseconds.
        std::thread::sleep(Duration::from_millis(2));
    }
}

use std::{
    io::Write,
    net::TcpStream,
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

use tributary_mf::{RecordBody, ids::Guid};
use tributary_transport::engine::{Answer, Before, Engine, Entry, If, Lease, Request};

use crate::common::{LEASE, NoRules, Node, PATIENCE, device, entry_at, group_of, is_new, options, signed, swarm};

#[test]
fn what_one_peer_puts_another_one_finds_and_no_older_record_replaces_it() {
    let mut nodes = swarm(3, |_| {});
    let (place, entry) = device(1, 5);
    assert!(is_new(&nodes[0].put_as(&entry, If::Below(5), LEASE)));
    assert_eq!(nodes[2].find(&place), Some(vec![5]));
    assert_eq!(nodes[1].find(&device(2, 1).0), Some(vec![]), "nothing is there");

    let (_, older) = device(1, 4);
    match nodes[1].put_as(&older, If::Below(4), LEASE) {
        Answer::Stale { entry: Some(there), .. } => assert_eq!(there, entry),
        other => panic!("{other:?}"),
    }
    assert!(!is_new(&nodes[1].put_as(&entry, If::Below(5), LEASE)), "the same");
    let (_, newer) = device(1, 6);
    assert!(is_new(&nodes[2].put_as(&newer, If::Below(6), LEASE)));
    for node in &mut nodes {
        assert_eq!(node.find(&place), Some(vec![6]));
    }
}

#[test]
fn half_of_fifty_peers_are_killed_and_every_record_is_found_by_the_others_and_nothing_forged_is() {
    const RECORDS: u16 = 40;
    const FORGED: u16 = 8;
    nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| {
            nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, hard.min(20_000), hard)
        })
        .unwrap();
    let begun = Instant::now();
    let mut nodes = swarm(50, |_| {});
    println!("50 peers know each other after {:?}", begun.elapsed());
    let begun = Instant::now();
    for number in 0..RECORDS {
        let (_, entry) = device(number, 5);
        nodes[usize::from(number)].put(&entry, LEASE);
    }
    println!("{RECORDS} records put, {:?} each", begun.elapsed() / u32::from(RECORDS));

    // One that takes its own records whatever they are offers forged and old ones to all.
    let mut faulty = Node::with(&options(99, &[nodes[0].address()]), Arc::new(NoRules));
    faulty.until("it knows others", |faulty| faulty.count() >= 15);
    for number in 0..FORGED {
        let (place, honest) = device(number, 5);
        let mut broken = honest.clone();
        *broken.value.last_mut().unwrap() ^= 1;
        let forged = [
            Entry { version: 9, ..broken },
            Entry { version: u64::MAX, ..honest.clone() },
            Entry { key: honest.key.clone(), version: 9, value: device(number + 1, 9).1.value },
        ];
        for entry in forged {
            assert!(matches!(faulty.put_as(&entry, If::Always, LEASE), Answer::Failed { .. }), "nobody keeps it");
        }
        assert!(matches!(faulty.put_as(&device(number, 4).1, If::Always, LEASE), Answer::Failed { .. }), "an old one");
        let reader = usize::from(number + 1) % 50;
        assert_eq!(nodes[reader].find(&place), Some(vec![5]));
    }
    nodes.iter_mut().for_each(|node| node.until("it is told", |node| node.peers.is_some()));
    sleep(Duration::from_millis(2_100));
    nodes.iter_mut().for_each(Node::settle);
    let forged: u64 = nodes.iter().map(|node| node.forged).sum();
    println!("{forged} forged records counted");
    assert!(forged >= 3 * u64::from(FORGED) * 10, "those who were to keep them have counted them: {forged}");
    drop(faulty);

    let killed: Vec<Node> = nodes.drain(..25).collect();
    drop(killed);
    let begun = Instant::now();
    let mut tries = 0;
    for number in 0..RECORDS {
        let place = device(number, 5).0;
        let node = &mut nodes[usize::from(number) % 25];
        let asked = Instant::now();
        loop {
            tries += 1;
            if let Some(found) = node.find(&place).filter(|found| !found.is_empty()) {
                assert_eq!(found, [5]);
                break;
            }
            assert!(asked.elapsed() < PATIENCE, "record {number} is lost");
        }
    }
    println!("{RECORDS} records found with half of the peers, {tries} lookups of {:?}", begun.elapsed() / tries);
    for number in 0..RECORDS {
        nodes[usize::from(number + 7) % 25].put(&device(number, 6).1, LEASE);
        assert_eq!(nodes[usize::from(number + 11) % 25].find(&device(number, 6).0), Some(vec![6]));
    }
}

#[test]
fn a_record_ends_with_its_lease_and_goes_on_with_it_and_comes_to_peers_that_come_later() {
    let mut nodes = swarm(3, |_| {});
    let (short, kept) = (Lease { id: 1, seconds: 3 }, Lease { id: 2, seconds: 3 });
    let ((gone, ends), (stays, renewed)) = (device(1, 5), device(2, 5));
    nodes[0].put(&ends, short);
    nodes[0].put(&renewed, kept);
    assert_eq!((nodes[1].find(&gone), nodes[1].find(&stays)), (Some(vec![5]), Some(vec![5])));
    let first = nodes[0].address();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(8) {
        let id = nodes[0].begin(|id| Request::Renew { id, lease: kept });
        assert_eq!(nodes[0].wait(id), Answer::Renewed { id, is_alive: true });
        sleep(Duration::from_millis(300));
    }
    assert_eq!((nodes[2].find(&gone), nodes[2].find(&stays)), (Some(vec![]), Some(vec![5])));
    let id = nodes[0].begin(|id| Request::Renew { id, lease: short });
    assert_eq!(nodes[0].wait(id), Answer::Renewed { id, is_alive: false });
    let is_end = |answer: &Answer| matches!(answer, Answer::Changed { key, after: None, .. } if *key == ends.key);
    nodes[0].until("its end is told", |node| node.told.iter().any(is_end));

    // The swarm's two others go, and what was put is said to one that comes.
    let mut late = Node::new(&options(50, &[first]));
    late.until("it knows others", |node| node.count() >= 2);
    nodes.truncate(1);
    let begun = Instant::now();
    while late.peers.is_none_or(|peers| peers.records == 0) {
        assert!(begun.elapsed() < PATIENCE);
        let id = nodes[0].begin(|id| Request::Renew { id, lease: kept });
        nodes[0].wait(id);
        sleep(Duration::from_millis(300));
        late.settle();
    }
    drop(nodes);
    assert_eq!(late.find(&stays), Some(vec![5]), "by its own copy");
}

#[test]
fn a_peer_keeps_no_more_than_it_may_and_says_what_it_refuses() {
    let mut nodes = swarm(3, |options| options.records_max = 20);
    let mut refused = Vec::new();
    let mut kept = Vec::new();
    for number in 0..30 {
        let (place, entry) = device(number, 5);
        match nodes[0].put_as(&entry, If::Below(5), LEASE) {
            Answer::Stored { .. } => kept.push(place),
            Answer::Failed { reason, is_full, .. } => refused.push((reason, is_full)),
            other => panic!("{other:?}"),
        }
    }
    let (reason, is_full) = refused.last().unwrap();
    assert!(*is_full && reason.contains("records_max"), "{reason}");
    for number in 30..60 {
        let _ = nodes[1].put_as(&device(number, 5).1, If::Below(5), LEASE);
    }
    sleep(Duration::from_millis(2_100));
    nodes.iter_mut().for_each(Node::settle);
    assert!(nodes.iter().all(|node| node.peers.unwrap().records <= 20), "{:?}", nodes[2].peers);
    assert!(nodes.iter().map(|node| node.refused).sum::<u64>() > 0);
    assert!(!kept.is_empty());
    // What a resolver has put is found at it, whoever else has no room for it.
    for place in kept {
        assert_eq!(nodes[0].find(&place), Some(vec![5]));
    }
}

#[test]
fn a_listing_longer_than_a_set_is_split_and_found_in_pages() {
    const NAMES: u16 = 500;
    let mut nodes = swarm(4, |_| {});
    let place = Guid::of_name(&"/all".parse().unwrap());
    let attached = |owner| signed(owner, 1, RecordBody::Attached { name: "/all".parse().unwrap() });
    let mut all: Vec<Entry> = (0..NAMES).map(|owner| entry_at(&place, &attached(owner))).collect();
    let begun = Instant::now();
    for entry in &all {
        nodes[0].put(entry, LEASE);
    }
    println!("{NAMES} names put into one listing, {:?} each", begun.elapsed() / u32::from(NAMES));
    all.sort_by(|one, other| one.key.cmp(&other.key));
    let begun = Instant::now();
    let mut found: Vec<Entry> = Vec::new();
    loop {
        let last = found.last().map(|last| last.key.clone());
        let id = nodes[3].begin_list(&place, last.as_deref(), 256);
        match nodes[3].wait(id) {
            Answer::Listed { entries, more, .. } => {
                found.extend(entries);
                if !more {
                    break;
                }
            }
            Answer::Failed { .. } => assert!(begun.elapsed() < PATIENCE),
            other => panic!("{other:?}"),
        }
    }
    println!("found in {:?}", begun.elapsed());
    let bytes: usize = all.iter().map(|entry| entry.value.len() + entry.key.len() - group_of(&place).len()).sum();
    assert!(bytes > 90_000, "it is longer than a set: {bytes}");
    assert_eq!(found, all);
}

#[test]
fn a_peer_that_is_alone_says_so_and_what_it_was_told_is_found_by_those_who_come() {
    let mut alone = Node::new(&options(0, &[]));
    let (place, entry) = device(1, 5);
    alone.until("it is told", |node| node.peers.is_some());
    assert_eq!(alone.count(), 0);
    alone.put(&entry, LEASE);
    assert_eq!(alone.find(&place), Some(vec![5]));

    let mut other = Node::new(&options(1, &[alone.address()]));
    other.until("it finds the first", |node| node.count() == 1);
    alone.until("it finds the other", |node| node.count() == 1);
    other.until("it keeps it too", |node| node.peers.unwrap().records == 1);
    drop(alone);
    assert_eq!(other.find(&place), Some(vec![5]));
    other.until("it is alone now", |node| node.count() == 0);

    // One that is to have others, and has none, waits for them first; then it goes on alone.
    let mut lonely = Node::new(&options(2, &["127.0.0.1:9".parse().unwrap()]));
    assert!(matches!(lonely.put_as(&entry, If::Below(5), LEASE), Answer::Failed { .. }));
    lonely.put(&entry, LEASE);
    assert_eq!(lonely.count(), 0);
}

#[test]
fn changes_of_what_is_watched_are_told_and_of_nothing_else() {
    let mut nodes = swarm(2, |_| {});
    let ((place, entry), (_, other)) = (device(1, 5), device(2, 5));
    nodes[1].engine.watch(&group_of(&place), true);
    nodes[0].put(&entry, LEASE);
    nodes[0].put(&other, LEASE);
    let told = |node: &Node| -> Vec<(Option<u64>, Before)> {
        let changes = node.told.iter().filter_map(|answer| match answer {
            Answer::Changed { after, before, .. } => Some((after.as_ref().map(|after| after.version), before.clone())),
            _ => None,
        });
        changes.collect()
    };
    let [_, watcher] = &mut nodes[..] else { unreachable!() };
    watcher.until("it is told", |node| told(node) == [(Some(5), Before::Nothing)]);
    nodes[0].put(&device(1, 6).1, LEASE);
    let [_, watcher] = &mut nodes[..] else { unreachable!() };
    watcher.until("the next one too", |node| told(node).last() == Some(&(Some(6), Before::Entry(entry.clone()))));
    watcher.engine.watch(&group_of(&place), false);
    watcher.until("it is forgotten", |node| told(node).last().is_some_and(|(after, _)| after.is_none()));
    assert!(matches!(watcher.told.first(), Some(Answer::Restarted { .. })));
    assert!(watcher.told.contains(&Answer::Current));
}

#[test]
fn noise_from_strangers_ends_nothing() {
    let mut nodes = swarm(2, |_| {});
    for length in [0usize, 1, 20, 70_000] {
        let mut stranger = TcpStream::connect(nodes[0].address()).unwrap();
        let _ = stranger.write_all(&vec![0x5a; length]);
        let _ = stranger.write_all(b"\x13/multistream/1.0.0\n\xff\xff\xff\xff\x7f");
    }
    let (place, entry) = device(1, 5);
    nodes[1].put(&entry, LEASE);
    assert_eq!(nodes[0].find(&place), Some(vec![5]));
}

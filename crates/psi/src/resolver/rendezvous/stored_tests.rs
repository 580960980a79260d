//! Rendezvous nodes over one store in memory, which behaves like etcd.
use alloc::{string::String, sync::Arc, vec, vec::Vec};
extern crate std;

use std::sync::Mutex;

use tributary_core::{Duration, NodeId};
use tributary_directory::engine::{Answer as StoreAnswer, Entry as Kept};
use tributary_testkit::engine::MemoryStore;

use super::{stored::lease_of, tests::World, *};
use crate::{
    network_tests::{Faults, route},
    pubsub::{PubSub, PubSubConfig},
    wire::{ClientRequest, Operation},
};

type Memories = Arc<Mutex<MemoryStore>>;

/// A domain whose rendezvous nodes keep records in one store.
fn world(resolvers: u64, hosts: u64) -> (World, Memories) {
    world_with(resolvers, hosts, RendezvousConfig::default())
}
fn world_with(resolvers: u64, hosts: u64, config: RendezvousConfig) -> (World, Memories) {
    let memory = Memories::default();
    let mut world = World::with(7, Faults::NONE, 0, hosts, config);
    (1..=resolvers).for_each(|node| start(&mut world, &memory, NodeId(node)));
    world.announce();
    run(&mut world, &memory, Duration::from_secs(3));
    (world, memory)
}
fn start(world: &mut World, memory: &Memories, node: NodeId) {
    world.start_resolver(node);
    let resolver = world.resolvers.get_mut(&node).unwrap();
    resolver.keep_records_by(MemoryStore::engine(memory), node.0);
}
fn run(world: &mut World, memory: &Memories, time: Duration) {
    run_in_steps(world, memory, time, Duration::from_millis(50));
}
fn run_in_steps(world: &mut World, memory: &Memories, time: Duration, step: Duration) {
    let end = world.now() + time;
    while world.now() < end {
        let now = world.now();
        memory.lock().unwrap().advance(now);
        world.resolvers.values_mut().for_each(|resolver| resolver.handle_store(now));
        world.run(step);
    }
}
fn name(text: &str) -> tributary_content::Name {
    text.parse().unwrap()
}
fn publish(world: &mut World, host: u64, text: &str) {
    world.act(host, |client, now| client.publish(now, &name(text), vec![1], 10, crate::wire::MissingScopes::Create));
}
/// At how many nodes an item has a publisher.
fn holders(world: &World, text: &str) -> usize {
    let records = world.resolvers.values().filter_map(|resolver| resolver.records.get(&key_of(&name(text))));
    records.filter(|record| record.publishers().next().is_some()).count()
}

#[test]
fn what_one_node_was_told_all_responsible_ones_hold_and_one_that_comes_later_reads() {
    let (mut world, memory) = world(3, 1);
    (0..40).for_each(|number| publish(&mut world, 1, &format!("/a/{number}")));
    run(&mut world, &memory, Duration::from_secs(5));
    assert!((0..40).all(|number| holders(&world, &format!("/a/{number}")) == 3));
    // All of them have failed before the next one joins.
    (1..=3).for_each(|node| world.kill(NodeId(node)));
    start(&mut world, &memory, NodeId(9));
    let pending_before = memory.lock().unwrap().revision;
    world.announce();
    run(&mut world, &memory, Duration::from_secs(3));
    assert!((0..40).all(|number| holders(&world, &format!("/a/{number}")) == 1));
    assert!(world.resolvers[&NodeId(9)].is_ready());
    run(&mut world, &memory, Duration::from_secs(240));
    assert!((0..40).all(|number| holders(&world, &format!("/a/{number}")) == 1), "it renews");
    let puts = memory.lock().unwrap().revision - pending_before;
    assert!(puts < 80, "a renewal puts nothing: {puts}");
    let leases = memory.lock().unwrap().leases.len();
    assert!(leases <= 12, "a lease for each client, not for each name: {leases}");
}

#[test]
fn a_publisher_that_dies_goes_though_the_store_has_it_still() {
    let (mut world, memory) = world(2, 2);
    publish(&mut world, 1, "/a");
    publish(&mut world, 2, "/b");
    run(&mut world, &memory, Duration::from_secs(5));
    assert_eq!((holders(&world, "/a"), holders(&world, "/b")), (2, 2));
    world.kill(NodeId(1_001));
    run(&mut world, &memory, Duration::from_secs(240));
    assert_eq!((holders(&world, "/a"), holders(&world, "/b")), (0, 2));
}

#[test]
fn without_the_store_nothing_is_acknowledged_and_what_was_refused_is_kept_once_it_is_back() {
    let (mut world, memory) = world(2, 1);
    memory.lock().unwrap().is_broken = true;
    publish(&mut world, 1, "/a");
    run(&mut world, &memory, Duration::from_secs(4));
    assert!(memory.lock().unwrap().kept.is_empty());
    let refused = Rejection::StoreUnavailable;
    let store_answer = |world: &World| world.replies.iter().any(|(_, reply)| reply.answer == Answer::Rejected(refused));
    assert!(store_answer(&world), "{:?}", world.replies);
    let text = format!("{refused}");
    assert_eq!(world.rejections(1), [("publish".into(), text.clone())]);
    assert!(text.contains("etcd") && world.notes.iter().any(|(_, note)| note.contains("cannot be used")));
    memory.lock().unwrap().is_broken = false;
    run(&mut world, &memory, Duration::from_secs(30));
    assert_eq!(holders(&world, "/a"), 2);
    assert!(!memory.lock().unwrap().kept.is_empty());
}

#[test]
fn a_node_to_which_no_changes_are_told_does_not_act() {
    let (mut world, memory) = world(1, 1);
    assert!(world.resolvers[&NodeId(1)].is_ready());
    memory.lock().unwrap().mute = [0].into();
    run(&mut world, &memory, Duration::from_secs(8));
    assert!(!world.resolvers[&NodeId(1)].is_ready());
    memory.lock().unwrap().mute.clear();
    run(&mut world, &memory, Duration::from_secs(4));
    assert!(world.resolvers[&NodeId(1)].is_ready());
}

#[test]
fn what_lies_in_the_store_and_is_no_entry_is_counted_and_gives_way() {
    let (mut world, memory) = world(1, 1);
    publish(&mut world, 1, "/a");
    run(&mut world, &memory, Duration::from_secs(3));
    let key = memory.lock().unwrap().kept.keys().find(|key| key.contains(&b'p')).unwrap().clone();
    {
        let mut memory = memory.lock().unwrap();
        let lease = memory.kept[&key].1;
        memory.set(Kept { key: key.clone(), version: u64::MAX, value: vec![1, 2, 3] }, lease);
    }
    run(&mut world, &memory, Duration::from_secs(1));
    let (stats, ..) = world.resolvers[&NodeId(1)].store_status().unwrap();
    assert_eq!((stats.forged, holders(&world, "/a")), (1, 1));
    world.act(1, |client, now| client.unpublish(now, &name("/a")));
    run(&mut world, &memory, Duration::from_secs(3));
    assert_eq!(holders(&world, "/a"), 0);
    let version = memory.lock().unwrap().kept[&key].0.version;
    assert!(version < u64::MAX, "{version}");
    let notes: Vec<&String> = world.notes.iter().map(|(_, note)| note).collect();
    assert!(!notes.iter().any(|note| note.contains("cannot be used")), "{notes:?}");
}

#[test]
fn a_node_that_is_told_nothing_leaves_its_work_to_the_others() {
    let (mut world, memory) = world(2, 2);
    (0..20).for_each(|number| publish(&mut world, 1, &format!("/a/{number}")));
    run(&mut world, &memory, Duration::from_secs(5));
    let acting = |world: &World, node: u64| world.resolvers[&NodeId(node)].status().acting;
    assert!(acting(&world, 1) > 0 && acting(&world, 2) > 0);
    memory.lock().unwrap().mute = [0].into();
    run(&mut world, &memory, Duration::from_secs(10));
    assert_eq!((acting(&world, 1), world.resolvers[&NodeId(1)].is_ready()), (0, false));
    (0..20).for_each(|number| world.subscribe(2, &format!("/a/{number}"), number));
    run(&mut world, &memory, Duration::from_secs(5));
    let met = (0..20).filter(|number| world.sources(2, *number) == Some(vec![1])).count();
    assert_eq!(met, 20, "each of them finds who has it");
    // Once its notices work again it has its part again.
    memory.lock().unwrap().mute.clear();
    memory.lock().unwrap().inboxes[0].push_back(StoreAnswer::Restarted { revision: 0 });
    run(&mut world, &memory, Duration::from_secs(5));
    assert!(acting(&world, 1) > 0);
    let all = world.resolvers[&NodeId(1)].status().records;
    assert_eq!(acting(&world, 1) + acting(&world, 2), all, "one node acts for each record");
}

#[test]
fn much_is_read_in_rounds_by_a_node_that_begins() {
    let (mut world, memory) = world(1, 1);
    (0..2_000).for_each(|number| publish(&mut world, 1, &format!("/a/{number}")));
    run(&mut world, &memory, Duration::from_secs(20));
    assert!(memory.lock().unwrap().kept.len() > 4_000);
    start(&mut world, &memory, NodeId(2));
    world.announce();
    run(&mut world, &memory, Duration::from_secs(5));
    assert!(world.resolvers[&NodeId(2)].is_ready());
    assert!((0..2_000).all(|number| holders(&world, &format!("/a/{number}")) == 2));
}

#[test]
fn when_a_node_goes_the_others_work_on_and_read_only_what_they_did_not_have() {
    let config = RendezvousConfig { replicas: 2, ..RendezvousConfig::default() };
    let (mut world, memory) = world_with(6, 1, config);
    (0..200).for_each(|number| publish(&mut world, 1, &format!("/a/{number}")));
    run(&mut world, &memory, Duration::from_secs(5));
    let held = |world: &World| world.resolvers.values().map(|node| node.status().records).sum::<usize>();
    // The items, their scope and the root, twice each.
    assert_eq!(held(&world), 2 * 202);
    world.kill(NodeId(3));
    world.announce();
    assert!(world.resolvers.values().all(Rendezvous::is_ready));
    run(&mut world, &memory, Duration::from_secs(5));
    assert_eq!(held(&world), 2 * 202);
    assert!((0..200).all(|number| holders(&world, &format!("/a/{number}")) == 2));
}

#[test]
fn a_withdrawal_that_is_said_again_when_the_store_is_back_is_kept_there() {
    let (mut world, memory) = world(1, 1);
    publish(&mut world, 1, "/a");
    run(&mut world, &memory, Duration::from_secs(3));
    let is_kept = |memory: &Memories| memory.lock().unwrap().kept.keys().filter(|key| key.contains(&b'p')).count();
    assert_eq!(is_kept(&memory), 1);
    let host = NodeId(1_001);
    let record = &world.resolvers[&NodeId(1)].records[&key_of(&name("/a"))];
    let version = record.entries[&EntryKey::Publisher(host)].version + 1;
    for request in 1..=2 {
        memory.lock().unwrap().is_broken = request == 1;
        let operation = Operation::Unpublish;
        let message = Message::Request(ClientRequest { request, version, name: name("/a"), operation });
        let now = world.now();
        world.resolvers.get_mut(&NodeId(1)).unwrap().handle_message(now, host, route(host), message);
        run(&mut world, &memory, Duration::from_millis(200));
    }
    let kept = memory.lock().unwrap().kept.clone();
    let (entry, ..) = kept.iter().find(|(key, _)| key.contains(&b'p')).unwrap().1;
    assert_eq!(entry.version, version, "the withdrawal is in the store");
}

#[test]
fn what_stands_for_an_hour_without_renewal_stays_in_the_store_for_longer() {
    for seconds in [1, 30, 300, 301, 3_600] {
        let lease = lease_of(NodeId(1), Duration::from_secs(seconds));
        assert!(u64::from(lease.seconds) >= 2 * seconds, "{seconds}");
    }
    let (mut world, memory) = world(1, 0);
    let node = NodeId(1_001);
    world.start_host(node);
    let lease = Duration::from_secs(3_600);
    world.hosts.insert(node, PubSub::new(PubSubConfig { node, lease, ..PubSubConfig::default() }, 99));
    world.announce();
    publish(&mut world, 1, "/a");
    run(&mut world, &memory, Duration::from_secs(3));
    let revision =
        |memory: &Memories| memory.lock().unwrap().kept.iter().find(|(key, _)| key.contains(&b'p')).unwrap().1.2;
    let before = revision(&memory);
    run_in_steps(&mut world, &memory, Duration::from_secs(10_000), Duration::from_secs(1));
    assert_eq!(revision(&memory), before, "it was there all the time");
}

#[test]
fn what_the_store_has_lost_is_put_again_by_those_who_have_it() {
    let (mut world, memory) = world(2, 1);
    publish(&mut world, 1, "/a");
    run(&mut world, &memory, Duration::from_secs(3));
    {
        let mut memory = memory.lock().unwrap();
        memory.kept.clear();
        memory.leases.clear();
        memory.tell(&StoreAnswer::Restarted { revision: 0 });
    }
    run(&mut world, &memory, Duration::from_secs(40));
    assert!(memory.lock().unwrap().kept.keys().any(|key| key.contains(&b'p')));
    assert_eq!(holders(&world, "/a"), 2);
}

#[test]
fn a_full_store_is_told_by_its_name_and_not_again_and_again() {
    let (mut world, memory) = world(1, 1);
    publish(&mut world, 1, "/a");
    run(&mut world, &memory, Duration::from_secs(3));
    memory.lock().unwrap().is_full = true;
    publish(&mut world, 1, "/b");
    run(&mut world, &memory, Duration::from_secs(30));
    let is_refused = |reply: &Reply| reply.answer == Answer::Rejected(Rejection::StoreFull);
    assert!(world.replies.iter().any(|(_, reply)| is_refused(reply)));
    assert_eq!(world.rejections(1), [("publish".into(), format!("{}", Rejection::StoreFull))]);
    let (stats, _, state) = world.resolvers[&NodeId(1)].store_status().unwrap();
    assert!(stats.failed > 10 && state.contains("full"), "{stats:?} {state}");
    let notes = world.notes.iter().filter(|(_, note)| note.contains("full")).count();
    assert!((1..=4).contains(&notes), "{notes} in 30 s");
    assert_eq!(holders(&world, "/a"), 1, "what is there stays");
    memory.lock().unwrap().is_full = false;
    run(&mut world, &memory, Duration::from_secs(20));
    assert_eq!(holders(&world, "/b"), 1);
    assert_eq!(world.resolvers[&NodeId(1)].store_status().unwrap().2, "in use");
}

#[test]
fn a_store_that_is_back_is_in_use_though_nobody_asks() {
    let (mut world, memory) = world(1, 1);
    memory.lock().unwrap().is_broken = true;
    publish(&mut world, 1, "/a");
    run(&mut world, &memory, Duration::from_secs(3));
    let state = |world: &World| world.resolvers[&NodeId(1)].store_status().unwrap().2;
    assert_eq!(state(&world), "cannot be used now");
    world.kill(NodeId(1_001));
    memory.lock().unwrap().is_broken = false;
    run(&mut world, &memory, Duration::from_secs(5));
    assert_eq!(state(&world), "in use");
}

//! Rendezvous nodes over one store in memory, which does what etcd does.
use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    string::String,
    sync::Arc,
    vec,
    vec::Vec,
};
use std::sync::Mutex;

use tributary_core::{Duration, NodeId};
use tributary_transport::engine::{Answer as Told, Before, Engine, Entry as Kept, If, Priority, Request};

use super::{tests::World, *};
use crate::testing::Faults;

/// What several engines share.
#[derive(Default)]
struct Memory {
    revision: u64,
    kept: BTreeMap<Vec<u8>, (Kept, u64, u64)>,
    leases: BTreeMap<u64, u32>,
    inboxes: Vec<VecDeque<Told>>,
    is_broken: bool,
    is_mute: bool,
}

impl Memory {
    fn tell(&mut self, told: &Told) {
        if !self.is_mute {
            self.inboxes.iter_mut().for_each(|inbox| inbox.push_back(told.clone()));
        }
    }
    fn ask(&mut self, request: Request) -> Told {
        let id = request.id();
        if self.is_broken {
            return Told::Failed { id, reason: "it is broken".into(), is_full: false };
        }
        match request {
            Request::Put { entry, when, lease, .. } => {
                self.leases.insert(lease.id, lease.seconds);
                let there = self.kept.get(&entry.key).cloned();
                let may = match (&there, when) {
                    (None, If::Below(_)) | (_, If::Always) => true,
                    (Some((there, ..)), If::Below(below)) => there.version < below,
                    (there, If::Unchanged(at)) => there.as_ref().is_some_and(|(_, _, revision)| *revision == at),
                };
                match there {
                    Some((there, ..)) if there == entry => return Told::Stored { id, is_new: false },
                    Some((there, _, revision)) if !may => return Told::Stale { id, entry: Some(there), revision },
                    None if !may => return Told::Stale { id, entry: None, revision: self.revision },
                    _ => {}
                }
                self.revision += 1;
                self.kept.insert(entry.key.clone(), (entry.clone(), lease.id, self.revision));
                let (revision, key) = (self.revision, entry.key.clone());
                self.tell(&Told::Changed { revision, key, after: Some(entry), before: Before::Unknown });
                Told::Stored { id, is_new: true }
            }
            Request::Renew { lease, .. } => Told::Renewed { id, is_alive: self.leases.contains_key(&lease.id) },
            Request::Get { keys, .. } => {
                let entries = keys.iter().filter_map(|key| Some(self.kept.get(key)?.0.clone())).collect();
                Told::Listed { id, entries, more: false, revision: self.revision }
            }
            Request::List { from, to, count, .. } => {
                let found = self.kept.range(from..to).map(|(_, (entry, ..))| entry.clone());
                let mut entries: Vec<Kept> = found.take(count as usize + 1).collect();
                let more = entries.len() > count as usize;
                entries.truncate(count as usize);
                Told::Listed { id, entries, more, revision: self.revision }
            }
        }
    }
}

struct Shared(Arc<Mutex<Memory>>, usize);
impl Engine for Shared {
    fn name(&self) -> &'static str {
        "memory"
    }
    fn ask(&mut self, request: Request, _: Priority) {
        let mut memory = self.0.lock().unwrap();
        let told = memory.ask(request);
        memory.inboxes[self.1].push_back(told);
    }
    fn poll(&mut self) -> Option<Told> {
        self.0.lock().unwrap().inboxes[self.1].pop_front()
    }
}

type Memories = Arc<Mutex<Memory>>;

/// A domain whose rendezvous nodes keep records in one store.
fn world(resolvers: u64, hosts: u64) -> (World, Memories) {
    let memory = Memories::default();
    let mut world = World::new(7, Faults::NONE, 0, hosts);
    (1..=resolvers).for_each(|node| start(&mut world, &memory, NodeId(node)));
    world.announce();
    run(&mut world, &memory, Duration::from_secs(3));
    (world, memory)
}
fn start(world: &mut World, memory: &Memories, node: NodeId) {
    let at = {
        let mut memory = memory.lock().unwrap();
        memory.inboxes.push(VecDeque::from([Told::Restarted { revision: 0 }]));
        memory.inboxes.len() - 1
    };
    world.start_resolver(node);
    let resolver = world.resolvers.get_mut(&node).unwrap();
    resolver.keep_records_by(Box::new(Shared(Arc::clone(memory), at)), node.0);
}
fn run(world: &mut World, memory: &Memories, time: Duration) {
    let end = world.now() + time;
    let mut next = world.now();
    while world.now() < end {
        if world.now() >= next {
            memory.lock().unwrap().tell(&Told::Current);
            next = world.now() + Duration::from_secs(2);
        }
        let now = world.now();
        world.resolvers.values_mut().for_each(|resolver| resolver.handle_store(now));
        world.run(Duration::from_millis(50));
    }
}
fn name(text: &str) -> tributary_content::Name {
    text.parse().unwrap()
}
fn publish(world: &mut World, host: u64, text: &str) {
    let now = world.now();
    world.client(host).publish(now, &name(text), vec![1], 10, crate::wire::MissingScopes::Create);
}
/// At how many nodes an item has a publisher.
fn holders(world: &World, text: &str) -> usize {
    let records = world.resolvers.values().filter_map(|resolver| resolver.records.get(&key_of(&name(text))));
    records.filter(|record| record.publishers().next().is_some()).count()
}

#[test]
fn what_one_node_was_told_all_responsible_ones_hold_and_one_that_comes_later_reads() {
    let (mut world, memory) = world(3, 1);
    (0..40).for_each(|number| publish(&mut world, 1, &std::format!("/a/{number}")));
    run(&mut world, &memory, Duration::from_secs(5));
    assert!((0..40).all(|number| holders(&world, &std::format!("/a/{number}")) == 3));
    // All of them are gone before the next one comes.
    (1..=3).for_each(|node| world.kill(NodeId(node)));
    start(&mut world, &memory, NodeId(9));
    let asked_before = memory.lock().unwrap().revision;
    world.announce();
    run(&mut world, &memory, Duration::from_secs(3));
    assert!((0..40).all(|number| holders(&world, &std::format!("/a/{number}")) == 1));
    assert!(world.resolvers[&NodeId(9)].is_ready());
    run(&mut world, &memory, Duration::from_secs(240));
    assert!((0..40).all(|number| holders(&world, &std::format!("/a/{number}")) == 1), "it renews");
    let puts = memory.lock().unwrap().revision - asked_before;
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
    let told = |world: &World| world.replies.iter().any(|(_, reply)| reply.answer == Answer::Rejected(refused));
    assert!(told(&world), "{:?}", world.replies);
    let text = std::format!("{refused}");
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
    memory.lock().unwrap().is_mute = true;
    run(&mut world, &memory, Duration::from_secs(8));
    assert!(!world.resolvers[&NodeId(1)].is_ready());
    memory.lock().unwrap().is_mute = false;
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
        memory.revision += 1;
        let revision = memory.revision;
        let entry = Kept { key: key.clone(), version: u64::MAX, value: vec![1, 2, 3] };
        memory.kept.insert(key.clone(), (entry.clone(), 1, revision));
        memory.tell(&Told::Changed { revision, key: key.clone(), after: Some(entry), before: Before::Unknown });
    }
    run(&mut world, &memory, Duration::from_secs(1));
    let (stats, ..) = world.resolvers[&NodeId(1)].store_status().unwrap();
    assert_eq!((stats.malformed, holders(&world, "/a")), (1, 1));
    let now = world.now();
    world.client(1).unpublish(now, &name("/a"));
    run(&mut world, &memory, Duration::from_secs(3));
    assert_eq!(holders(&world, "/a"), 0);
    let version = memory.lock().unwrap().kept[&key].0.version;
    assert!(version < u64::MAX, "{version}");
    let notes: Vec<&String> = world.notes.iter().map(|(_, note)| note).collect();
    assert!(!notes.iter().any(|note| note.contains("cannot be used")), "{notes:?}");
}

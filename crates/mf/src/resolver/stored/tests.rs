use alloc::{boxed::Box, format, string::ToString, sync::Arc, vec, vec::Vec};
use std::sync::Mutex;

use tributary_content::SigningKey;
use tributary_core::{Duration, Time};
use tributary_directory::engine::{Answer, Engine, Entry, Priority, Request};
use tributary_testkit::engine::MemoryStore;

use super::{
    super::{Answer as Told, Asker, Front, GnrsClient, NameResolver, Records},
    *,
};
use crate::wire::{NameRecord, Readers, RecordBody, Statement, bucket_of};

const LIFE: Duration = Duration::from_secs(30);
const DAY: Duration = Duration::from_secs(86_400);
const TICK: Duration = Duration::from_millis(100);

/// Two resolvers over one store, and an access router with clients.
struct World {
    now: Time,
    store: Arc<Mutex<MemoryStore>>,
    resolvers: Vec<(NetworkAddress, Stored)>,
    front: Front,
    clients: Vec<(Asker, GnrsClient)>,
}

fn key(number: u8) -> SigningKey {
    SigningKey::from_secret(&[number; 32])
}
fn device(number: u8) -> Guid {
    Guid::of(&key(number).public(), b"")
}
fn signed(owner: u8, version: u64, address: u32) -> NameRecord {
    let statement = Statement {
        key: key(owner).public(),
        version,
        lifetime_ms: LIFE.as_millis() as u32,
        ends: None,
        label: "host".into(),
        body: RecordBody::Device(vec![(NetworkAddress(address), 255)]),
        readers: Readers::All,
    };
    NameRecord::sign(statement, &key(owner)).unwrap()
}
fn name(label: &str) -> tributary_content::Name {
    format!("/{label}").parse().unwrap()
}
fn content(label: &str) -> RecordBody {
    let object = tributary_content::MemoryObject::new(name(label), vec![1; 10], &key(9)).unwrap();
    RecordBody::Content(tributary_content::ObjectReader::manifest(&object).encode())
}
fn content_at(label: &str) -> Guid {
    Guid::of_content(&key(9).public(), &name(label))
}

impl World {
    fn new(clients: u8) -> World {
        let store = Arc::default();
        let addresses = [NetworkAddress(1), NetworkAddress(2)];
        let resolver = |(at, address): (usize, &NetworkAddress)| {
            let mut stored = Stored::new(MemoryStore::engine(&store), 1_000, at as u64);
            stored.handle_members(Time::ZERO, *address, &[], &addresses, 1);
            (*address, stored)
        };
        let mut front = Front::new(Guid::NONE, 5);
        front.handle_members(Time::ZERO, addresses.to_vec());
        let resolvers = addresses.iter().enumerate().map(resolver).collect();
        let mut world = World { now: Time::ZERO, store, resolvers, front, clients: Vec::new() };
        (1..=clients).for_each(|number| world.join(number));
        world.run(Duration::from_secs(2));
        world
    }
    fn join(&mut self, number: u8) {
        let asker = Asker { guid: device(number), address: NetworkAddress(100) };
        let mut client = GnrsClient::new(key(number), "host", LIFE, 0).with_leases(LIFE * 10, DAY * 7);
        client.on_reachable(self.now);
        self.clients.push((asker, client));
    }
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.store.lock().unwrap().advance(self.now);
            self.front.handle_timeout(self.now);
            self.clients.iter_mut().for_each(|(_, client)| client.handle_timeout(self.now));
            self.resolvers.iter_mut().for_each(|(_, resolver)| resolver.handle_timeout(self.now));
            while self.settle() {}
            self.now += TICK;
        }
    }
    fn settle(&mut self) -> bool {
        let (now, mut moved) = (self.now, false);
        for (asker, client) in &mut self.clients {
            while let Some(message) = client.poll_message() {
                moved = true;
                self.front.handle_question(now, *asker, message);
            }
        }
        let from = Asker { guid: Guid::NONE, address: NetworkAddress(100) };
        while let Some((to, message)) = self.front.poll_message() {
            moved = true;
            if let Some((_, resolver)) = self.resolvers.iter_mut().find(|(address, _)| *address == to) {
                resolver.handle(now, from, message);
            }
        }
        for (address, resolver) in &mut self.resolvers {
            resolver.settle(now);
            while let Some((_, message)) = resolver.poll_message() {
                moved = true;
                self.front.handle_answer(now, *address, message);
            }
        }
        while let Some((to, message)) = self.front.poll_answer() {
            moved = true;
            if let Some((_, client)) = self.clients.iter_mut().find(|(asker, _)| *asker == to) {
                client.handle_message(now, message);
            }
        }
        moved
    }
    /// What a resolver answers to a question, alone.
    fn ask(&mut self, resolver: usize, message: NameMessage) -> Vec<NameMessage> {
        let asker = Asker { guid: device(99), address: NetworkAddress(77) };
        let now = self.now;
        let (_, stored) = &mut self.resolvers[resolver];
        stored.settle(now);
        stored.handle(now, asker, message);
        stored.settle(now);
        core::iter::from_fn(|| stored.poll_message()).filter(|(to, _)| *to == asker).map(|(_, said)| said).collect()
    }
    fn put(&mut self, resolver: usize, record: &NameRecord) -> NameMessage {
        let put = NameMessage::Put { request: 1, place: record.guid(), record: record.encode() };
        self.ask(resolver, put).pop().expect("it is answered")
    }
    /// The versions that a resolver finds at a place.
    fn found(&mut self, resolver: usize, place: Guid) -> Vec<u64> {
        // Earlier messages may precede it.
        match self.ask(resolver, NameMessage::Lookup { request: 2, place }).pop() {
            Some(NameMessage::Found { records, .. }) => {
                records.iter().map(|record| NameRecord::decode(record).unwrap().statement().version).collect()
            }
            other => panic!("{other:?}"),
        }
    }
    fn answers(&mut self, client: usize) -> Vec<Told> {
        core::iter::from_fn(|| self.clients[client].1.poll_answer()).collect()
    }
    fn stats(&self, resolver: usize) -> StoreStats {
        self.resolvers[resolver].1.stats()
    }
}

#[test]
fn what_one_resolver_was_told_another_one_finds_and_tells_those_who_watch() {
    let mut world = World::new(0);
    let watch = NameMessage::Watch { request: 5, place: device(1), lease_ms: 60_000, known: 0 };
    assert!(matches!(&world.ask(1, watch)[..], [NameMessage::Found { records, .. }] if records.is_empty()));
    assert_eq!(world.put(0, &signed(1, 3, 7)), NameMessage::Done { request: 1, replicas: 1 });
    assert_eq!((world.found(0, device(1)), world.found(1, device(1))), (vec![3], vec![3]));
    assert_eq!(world.put(0, &signed(1, 4, 8)), NameMessage::Done { request: 1, replicas: 1 });
    let told = world.ask(1, NameMessage::Lookup { request: 6, place: device(2) });
    assert!(matches!(&told[..], [NameMessage::Notify { .. }, NameMessage::Found { .. }]), "{told:?}");
}

#[test]
fn an_old_record_replaces_no_newer_one_whichever_resolver_takes_it() {
    let mut world = World::new(0);
    world.put(0, &signed(1, 5, 7));
    assert_eq!(world.put(1, &signed(1, 4, 8)), NameMessage::Stale { request: 1, current: 5 });
    assert_eq!(world.put(1, &signed(1, 5, 9)), NameMessage::Stale { request: 1, current: 5 }, "another one");
    assert_eq!(world.put(1, &signed(1, 5, 7)), NameMessage::Done { request: 1, replicas: 1 }, "the same");
    let put = NameMessage::Put { request: 1, place: device(2), record: signed(1, 6, 7).encode() };
    assert_eq!(world.ask(0, put), [NameMessage::Refused { request: 1, refusal: Refusal::Misplaced }]);
    assert_eq!(world.found(1, device(1)), [5]);
}

#[test]
fn what_nobody_signed_is_counted_and_not_found_and_gives_way() {
    let mut world = World::new(0);
    let honest = signed(1, 5, 7);
    world.put(0, &honest);
    let watch = NameMessage::Watch { request: 5, place: device(1), lease_ms: 60_000, known: 0 };
    world.ask(1, watch);
    let slot = (device(1), honest.key());
    let mut bytes = signed(1, 9, 8).encode();
    *bytes.last_mut().unwrap() ^= 1;
    let forged = [
        // A broken signature, another's record, the honest one with a version that it does not have.
        Entry { key: keys::key_of(&slot), version: 9, value: [&[1], &bytes[..]].concat() },
        Entry { key: keys::key_of(&slot), version: 9, value: [&[1], &signed(2, 9, 8).encode()[..]].concat() },
        Entry { key: keys::key_of(&slot), version: u64::MAX, value: [&[1], &honest.encode()[..]].concat() },
        Entry { key: keys::key_of(&slot), version: 0, value: Vec::new() },
    ];
    for (count, entry) in (1..).zip(forged) {
        world.store.lock().unwrap().set(entry, 1);
        assert!(world.found(0, device(1)).is_empty());
        assert_eq!(world.stats(0).forged, 2 * count - 1);
        let told = world.ask(1, NameMessage::Lookup { request: 6, place: device(2) });
        assert!(!told.iter().any(|message| matches!(message, NameMessage::Notify { .. })), "{told:?}");
        assert!(world.stats(1).forged >= count, "who watches a place counts it too");
        assert_eq!(world.put(0, &signed(1, 5 + count, 7)), NameMessage::Done { request: 1, replicas: 1 });
        assert_eq!(world.found(1, device(1)), [5 + count]);
    }
}

#[test]
fn what_replaces_a_forged_record_replaces_no_newer_one_that_came_meanwhile() {
    let mut world = World::new(0);
    let honest = signed(1, 5, 7);
    let slot = (device(1), honest.key());
    let forged = Entry { key: keys::key_of(&slot), version: u64::MAX, value: vec![1, 2, 3] };
    let newer = keys::entry(&slot, &signed(1, 9, 8), &signed(1, 9, 8).encode());
    {
        let mut store = world.store.lock().unwrap();
        store.set(forged, 1);
        store.overtakes = Some(newer);
    }
    assert_eq!(world.put(0, &honest), NameMessage::Stale { request: 1, current: 9 });
    let there = world.store.lock().unwrap().kept[&keys::key_of(&slot)].0.version;
    assert_eq!(there, 9);
}

#[test]
fn names_go_with_their_device_and_come_back_with_it_without_being_put_again() {
    let mut world = World::new(2);
    let labels: Vec<_> = (0..20).map(|number| number.to_string()).collect();
    for label in &labels {
        world.clients[0].1.put(world.now, content(label));
    }
    world.run(Duration::from_secs(60));
    let places: Vec<Guid> = labels.iter().map(|label| content_at(label)).collect();
    assert!(places.iter().all(|place| world.found(1, *place).len() == 1));
    let client = world.clients.remove(0);
    world.run(LIFE * 2);
    assert!(places.iter().all(|place| world.found(0, *place).is_empty()), "it does not renew");
    world.store.lock().unwrap().puts = 0;
    world.clients.insert(0, client);
    world.run(LIFE);
    assert!(places.iter().all(|place| world.found(1, *place).len() == 1));
    let puts = world.store.lock().unwrap().puts;
    assert!(puts <= 2, "its presence is put, at each resolver: {puts}");
    let leases = world.store.lock().unwrap().leases.len();
    assert!(leases <= 2, "two for a device, however many names it has: {leases}");
}

#[test]
fn who_repeats_an_old_record_of_a_device_that_is_gone_brings_none_of_its_names_back() {
    let mut world = World::new(0);
    world.put(0, &signed(1, 5, 7));
    assert_eq!(world.found(1, device(1)), [5]);
    world.run(LIFE * 2);
    assert!(world.found(0, device(1)).is_empty());
    assert_eq!(world.put(0, &signed(1, 4, 7)), NameMessage::Stale { request: 1, current: 5 });
    assert_eq!(world.put(1, &signed(1, 5, 7)), NameMessage::Done { request: 1, replicas: 1 });
    assert!(world.found(0, device(1)).is_empty() && world.found(1, device(1)).is_empty());
    world.put(1, &signed(1, 6, 8));
    assert_eq!(world.found(0, device(1)), [6], "what it says anew does");
}

#[test]
fn renewals_that_say_something_wrong_end_no_names_of_a_device_that_renews_them() {
    let mut world = World::new(1);
    world.clients[0].1.put(world.now, content("a"));
    world.run(LIFE);
    let place = content_at("a");
    let wrong = Holding { bucket: bucket_of(&place), ..Holding::default() };
    for _ in 0..4 {
        for resolver in 0..2 {
            let holdings = vec![wrong];
            world.ask(resolver, NameMessage::Renew { request: 9, author: device(1), lease_ms: 1, holdings });
        }
        world.run(Duration::from_secs(5));
    }
    assert_eq!((world.stats(0).ended, world.stats(1).ended), (0, 0));
    assert_eq!(world.found(0, place).len(), 1);
    world.clients.clear();
    world.run(Duration::from_secs(20));
    assert_eq!(world.found(1, place).len(), 1, "nor do they shorten its lease");
}

#[test]
fn what_a_device_does_not_say_in_its_next_life_ends_and_its_version_stays_known() {
    let mut world = World::new(1);
    let now = world.now;
    ["a", "b", "c"].into_iter().for_each(|label| world.clients[0].1.put(now, content(label)));
    world.run(LIFE);
    let place = |label: &str| content_at(label);
    let old = world.ask(0, NameMessage::Lookup { request: 2, place: place("b") });
    let [NameMessage::Found { records, .. }] = &old[..] else { panic!("{old:?}") };
    let old = records[0].clone();
    // It restarts and declares only one of them, and its versions restart too.
    world.clients.clear();
    world.join(1);
    world.clients[0].1.put(world.now, content("a"));
    world.run(LIFE * 6);
    assert_eq!(world.found(1, place("a")).len(), 1);
    assert!(world.found(1, place("b")).is_empty() && world.found(0, place("c")).is_empty());
    assert!(world.stats(0).ended + world.stats(1).ended >= 2);
    let put = NameMessage::Put { request: 1, place: place("b"), record: old };
    assert!(matches!(&world.ask(0, put)[..], [NameMessage::Stale { .. }]), "nobody brings it back");
}

#[test]
fn attachments_and_groups_hold_while_their_device_is_away_and_in_its_next_life_until_it_takes_them_back() {
    let mut world = World::new(1);
    let group = RecordBody::Group { label: b"fleet".into(), members: Vec::new(), proxy: Guid::NONE };
    let home = RecordBody::Attached { name: name("home") };
    let (at_home, at_group) = (Guid::of_name(&name("home")), Guid::of(&key(1).public(), b"fleet"));
    for body in [home.clone(), group, content("a")] {
        world.clients[0].1.put(world.now, body);
    }
    world.run(LIFE);
    world.clients.clear();
    let found = |world: &mut World, place| world.found(0, place).len() + world.found(1, place).len();
    let pass = |world: &mut World, time| {
        world.now += time;
        world.run(Duration::from_secs(5));
    };
    pass(&mut world, DAY * 2);
    let held = |world: &mut World| [at_home, at_group, content_at("a")].map(|place| found(world, place));
    assert_eq!(held(&mut world), [2, 2, 0]);
    let watch = NameMessage::Watch { request: 5, place: at_home, lease_ms: 60_000, known: 0 };
    assert!(matches!(&world.ask(1, watch)[..], [NameMessage::Found { records, .. }] if records.len() == 1));
    // In its next run it declares none of them, and renews its other records.
    world.join(1);
    world.clients[0].1.put(world.now, content("b"));
    world.run(LIFE * 6);
    assert_eq!(held(&mut world), [2, 2, 0]);
    world.clients[0].1.put(world.now, home);
    world.clients[0].1.delete(world.now, at_home);
    world.run(LIFE);
    assert_eq!(held(&mut world), [0, 2, 0]);
    world.clients.clear();
    pass(&mut world, DAY * 6);
    assert_eq!(held(&mut world), [0, 0, 0], "a week and an eighth after it was stated");
}

#[test]
fn a_deletion_is_remembered_for_minutes_and_then_forgotten() {
    let mut world = World::new(1);
    world.clients[0].1.put(world.now, content("a"));
    world.run(Duration::from_secs(5));
    let place = content_at("a");
    let said = world.ask(0, NameMessage::Lookup { request: 2, place });
    let [NameMessage::Found { records, .. }] = &said[..] else { panic!("{said:?}") };
    let old = records[0].clone();
    world.clients[0].1.delete(world.now, place);
    world.run(Duration::from_secs(500));
    assert!(world.found(1, place).is_empty());
    let put = NameMessage::Put { request: 1, place, record: old };
    assert!(matches!(&world.ask(1, put)[..], [NameMessage::Stale { .. }]));
    world.run(Duration::from_secs(1_000));
    let left = world.store.lock().unwrap().kept.keys().filter(|key| key.starts_with(b"r/")).count();
    assert_eq!(left, 0, "deletions do not heap up");
}

#[test]
fn without_its_store_a_resolver_acknowledges_nothing_and_says_why() {
    let mut world = World::new(1);
    world.store.lock().unwrap().is_broken = true;
    let refused = |request| NameMessage::Refused { request, refusal: Refusal::Engine };
    assert_eq!(world.put(0, &signed(1, 5, 7)), refused(1));
    assert_eq!(world.ask(1, NameMessage::Lookup { request: 2, place: device(1) }), [refused(2)]);
    world.clients[0].1.put(world.now, content("a"));
    world.clients[0].1.watch(world.now, device(7));
    world.run(Duration::from_secs(5));
    let guid = content_at("a");
    assert!(world.answers(0).contains(&Told::Refused(guid, Refusal::Engine)));
    assert_eq!(world.clients[0].1.trouble(), Some(Refusal::Engine));
    assert!(Refusal::Engine.reason().contains("etcd"));
    assert!(world.resolvers[0].1.failing_since().is_some());
    assert!(world.resolvers[0].1.poll_note().is_some_and(|note| note.contains("cannot be used")));

    world.store.lock().unwrap().is_broken = false;
    world.run(LIFE);
    assert!(world.answers(0).iter().any(|answer| matches!(answer, Told::Kept(kept, _) if *kept == guid)));
    assert_eq!(world.found(1, guid).len(), 1);
    assert_eq!((world.clients[0].1.trouble(), world.resolvers[0].1.failing_since()), (None, None));
}

#[test]
fn a_store_that_answers_every_other_request_is_told_of_now_and_then() {
    let mut world = World::new(0);
    for number in 1..40 {
        world.store.lock().unwrap().is_broken = number % 2 == 0;
        world.put(0, &signed(1, number, 7));
        world.run(TICK);
    }
    let notes: Vec<String> = core::iter::from_fn(|| world.resolvers[0].1.poll_note()).collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
}

#[test]
fn a_device_that_no_change_has_told_of_is_found_and_one_that_has_gone_is_not() {
    let mut world = World::new(0);
    world.store.lock().unwrap().mute = [0, 1].into();
    world.put(0, &signed(1, 3, 7));
    assert_eq!(world.found(1, device(1)), [3]);
    let watch = NameMessage::Watch { request: 5, place: device(1), lease_ms: 60_000, known: 0 };
    assert!(matches!(&world.ask(1, watch)[..], [NameMessage::Found { records, .. }] if records.len() == 1));
    world.store.lock().unwrap().mute.clear();
    world.run(LIFE * 2);
    assert!(world.found(1, device(1)).is_empty(), "its lease is over");
}

#[test]
fn a_store_that_tells_no_changes_is_not_believed_for_long_and_one_that_is_full_is_read() {
    let mut world = World::new(0);
    world.put(0, &signed(1, 3, 7));
    world.store.lock().unwrap().mute = [0, 1].into();
    world.run(Duration::from_secs(8));
    let refused = [NameMessage::Refused { request: 2, refusal: Refusal::Engine }];
    assert_eq!(world.ask(1, NameMessage::Lookup { request: 2, place: device(1) }), refused);
    let notes: Vec<String> = core::iter::from_fn(|| world.resolvers[1].1.poll_note()).collect();
    assert!(notes.len() == 1 && notes[0].contains("no watch"), "{notes:?}");
    world.store.lock().unwrap().mute.clear();
    world.run(Duration::from_secs(3));
    assert_eq!((world.found(1, device(1)), world.resolvers[1].1.state().as_str()), (vec![3], "in use"));

    world.store.lock().unwrap().is_full = true;
    let full = NameMessage::Refused { request: 1, refusal: Refusal::EngineFull };
    assert_eq!(world.put(1, &signed(1, 4, 8)), full);
    assert_eq!(
        (world.found(1, device(1)), world.resolvers[1].1.state().as_str()),
        (vec![3], "full: keeps nothing new")
    );
}

#[test]
fn an_answer_that_comes_too_late_is_a_refusal() {
    let mut world = World::new(0);
    struct Mute;
    impl Engine for Mute {
        fn name(&self) -> &'static str {
            "mute"
        }
        fn ask(&mut self, _: Request, _: Priority) {}
        fn poll(&mut self) -> Option<Answer> {
            None
        }
    }
    world.resolvers[0].1 = Stored::new(Box::new(Mute), 1_000, 0);
    let put = NameMessage::Put { request: 1, place: device(1), record: signed(1, 5, 7).encode() };
    assert!(world.ask(0, put).is_empty());
    assert_eq!(world.resolvers[0].1.poll_timeout(), Some(world.now + PATIENCE));
    world.now += PATIENCE;
    let refused = world.ask(0, NameMessage::Done { request: 0, replicas: 0 });
    assert_eq!(refused, [NameMessage::Refused { request: 1, refusal: Refusal::Engine }]);
}

#[test]
fn after_changes_that_were_not_told_everything_is_read_anew_and_watchers_hear_of_them() {
    let mut world = World::new(0);
    world.put(0, &signed(1, 5, 7));
    let watch = NameMessage::Watch { request: 5, place: device(1), lease_ms: 60_000, known: 0 };
    assert!(matches!(&world.ask(1, watch)[..], [NameMessage::Found { records, .. }] if records.len() == 1));
    world.put(0, &signed(1, 6, 8));
    world.put(0, &signed(2, 1, 8));
    {
        // The changes in between are lost, as by a compaction during the watch's absence.
        let mut store = world.store.lock().unwrap();
        store.inboxes[1].clear();
        let revision = store.revision;
        store.inboxes[1].push_back(Answer::Restarted { revision });
    }
    let told = world.ask(1, NameMessage::Lookup { request: 6, place: device(3) });
    let is_news = |message: &NameMessage| matches!(message, NameMessage::Notify { record, .. } if *record == signed(1, 6, 8).encode());
    assert!(told.iter().any(is_news), "{told:?}");
    world.run(Duration::from_secs(2));
    assert_eq!(world.found(1, device(2)), [1], "whose device is there is read again too");
    assert_eq!(world.resolvers[1].1.size(), (2, usize::from(BUCKETS), 2));
}

#[test]
fn a_listing_longer_than_an_answer_is_found_in_pages() {
    let mut world = World::new(0);
    let place = Guid::of_name(&"/all".parse().unwrap());
    let attached = |owner: u16| {
        let mut secret = [0; 32];
        secret[..2].copy_from_slice(&owner.to_be_bytes());
        let key = SigningKey::from_secret(&secret);
        let statement = Statement {
            key: key.public(),
            version: 1,
            lifetime_ms: LIFE.as_millis() as u32,
            ends: None,
            label: "host".into(),
            body: RecordBody::Attached { name: "/all".parse().unwrap() },
            readers: Readers::All,
        };
        NameRecord::sign(statement, &key).unwrap()
    };
    let mut all: Vec<_> = (0..600).map(attached).collect();
    for record in &all {
        let put = NameMessage::Put { request: 1, place, record: record.encode() };
        assert!(matches!(world.ask(0, put)[..], [NameMessage::Done { .. }]));
        // Each round takes a part of the store's messages.
        world.now += Duration::from_millis(1);
    }
    world.now = Time::from_millis(4_000);
    world.run(TICK * 5);
    let mut found = Vec::new();
    let mut question = NameMessage::Lookup { request: 2, place };
    loop {
        match world.ask(1, question).pop() {
            Some(NameMessage::Page { records, ends: (_, Some(last)), .. }) => {
                found.extend(records);
                question = NameMessage::Next { request: 2, place, after: last };
            }
            Some(NameMessage::Page { records, .. }) => {
                found.extend(records);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    all.sort_by_key(NameRecord::key);
    assert_eq!(found, all.iter().map(NameRecord::encode).collect::<Vec<_>>());
}

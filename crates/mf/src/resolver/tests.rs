use alloc::{
    boxed::Box,
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};

use proptest::prelude::*;
use tributary_content::SigningKey;
use tributary_core::{Duration, Time};

use super::*;
use crate::wire::{NameMessage, NameRecord, Readers, RecordBody, Statement, bucket_of};

const LIFE: Duration = Duration::from_secs(30);

/// One access router, several replicas, and clients, connected only by this.
struct Service {
    now: Time,
    front: Front,
    replicas: BTreeMap<NetworkAddress, Replica>,
    clients: Vec<(Asker, GnrsClient)>,
    /// A client that receives nothing.
    deaf: Option<usize>,
    /// Whether the next messages between replicas are lost.
    lost: Vec<bool>,
    /// Messages of each kind sent to replicas: puts, renewals, watches, and page requests.
    sent: [usize; 4],
}

fn key(number: u8) -> SigningKey {
    SigningKey::from_secret(&[number; 32])
}
fn device(number: u8) -> Guid {
    Guid::of(&key(number).public(), b"")
}

impl Service {
    fn new(replicas: u32, clients: u8) -> Service {
        let addresses: Vec<NetworkAddress> = (1..=replicas).map(NetworkAddress).collect();
        let mut front = Front::new(Guid::NONE, 5);
        front.handle_members(Time::ZERO, addresses.clone());
        let client = |number| {
            let asker = Asker { guid: device(number), address: NetworkAddress(100) };
            let mut client = GnrsClient::new(key(number), "host", LIFE, 0);
            client.on_reachable(Time::ZERO);
            (asker, client)
        };
        Service {
            now: Time::ZERO,
            front,
            replicas: addresses.into_iter().map(|address| (address, Replica::new(1_000_000))).collect(),
            clients: (1..=clients).map(client).collect(),
            deaf: None,
            lost: Vec::new(),
            sent: [0; 4],
        }
    }
    /// Five replicas; the second client watches the first one's name and has been notified of it.
    fn watched() -> Service {
        let mut service = Service::new(5, 2);
        service.put(0, 7);
        service.watch(1, device(1));
        service.run(Duration::from_secs(1));
        service.answers(1);
        service
    }
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle();
            let clients = self.clients.iter().filter_map(|(_, client)| client.poll_timeout());
            let Some(next) = clients.chain(self.front.poll_timeout()).min().filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            self.front.handle_timeout(self.now);
            self.clients.iter_mut().for_each(|(_, client)| client.handle_timeout(self.now));
            self.replicas.values_mut().for_each(|replica| replica.handle_timeout(self.now));
        }
        self.now = end;
    }
    fn settle(&mut self) {
        loop {
            let mut moved = false;
            for (asker, client) in &mut self.clients {
                while let Some(message) = client.poll_message() {
                    moved = true;
                    self.front.handle_question(self.now, *asker, message);
                }
            }
            while let Some((to, message)) = self.front.poll_message() {
                moved = true;
                let from = Asker { guid: Guid::NONE, address: NetworkAddress(100) };
                if let Some(replica) = self.replicas.get_mut(&to) {
                    match &message {
                        NameMessage::Put { .. } => self.sent[0] += 1,
                        NameMessage::Renew { .. } => self.sent[1] += 1,
                        NameMessage::Watch { .. } => self.sent[2] += 1,
                        NameMessage::Next { .. } => self.sent[3] += 1,
                        _ => {}
                    }
                    replica.handle(self.now, from, message);
                }
            }
            let mut handed_over = Vec::new();
            for (address, replica) in &mut self.replicas {
                while let Some((to, message)) = replica.poll_message() {
                    moved = true;
                    match message {
                        NameMessage::Put { .. } => handed_over.push((*address, to.address, message)),
                        _ if message.answers_hand_over() => handed_over.push((*address, to.address, message)),
                        _ => self.front.handle_answer(self.now, *address, message),
                    }
                }
            }
            for (from, to, message) in handed_over {
                if !self.lost.is_empty() && self.lost.remove(0) {
                    continue;
                }
                let Some(replica) = self.replicas.get_mut(&to) else { continue };
                match message.answers_hand_over() {
                    true => replica.handle_answer(self.now, from, &message),
                    false => replica.handle(self.now, Asker { guid: Guid::NONE, address: from }, message),
                }
            }
            while let Some((to, message)) = self.front.poll_answer() {
                moved = true;
                let client = self.clients.iter().position(|(asker, _)| *asker == to).expect("somebody asked");
                if self.deaf != Some(client) {
                    self.clients[client].1.handle_message(self.now, message);
                }
            }
            if !moved {
                return;
            }
        }
    }
    fn answers(&mut self, client: usize) -> Vec<Answer> {
        core::iter::from_fn(|| self.clients[client].1.poll_answer()).collect()
    }
    fn put(&mut self, client: usize, address: u32) {
        let now = self.now;
        self.clients[client].1.put(now, RecordBody::Device(vec![(NetworkAddress(address), 1)]));
    }
    fn watch(&mut self, client: usize, place: Guid) {
        let now = self.now;
        self.clients[client].1.watch(now, place);
    }
    /// The addresses of the first client, as a client that watches it knows them.
    fn watched_addresses(&mut self, client: usize) -> Vec<u32> {
        self.deaf = Some(client);
        self.watch(client, device(1));
        self.deaf = None;
        self.found(client, device(1))
    }
    fn lookup(&mut self, client: usize, place: Guid) -> Vec<u32> {
        let now = self.now;
        self.clients[client].1.lookup(now, place);
        self.run(Duration::from_secs(8));
        self.found(client, place)
    }
    /// The addresses in the first answer about a place.
    fn found(&mut self, client: usize, place: Guid) -> Vec<u32> {
        let answers = self.answers(client);
        let found = answers.iter().find_map(|answer| match answer {
            Answer::Found(at, records) if *at == place => Some(addresses(records)),
            _ => None,
        });
        found.unwrap_or_else(|| panic!("no answer among {answers:?}"))
    }
}
fn addresses(records: &[NameRecord]) -> Vec<u32> {
    let bound = |record: &NameRecord| match &record.statement().body {
        RecordBody::Device(addresses) => addresses.iter().map(|(address, _)| address.0).collect(),
        _ => Vec::new(),
    };
    records.iter().flat_map(bound).collect()
}

#[test]
fn what_one_says_others_find_and_who_watches_is_told_of_each_change_once() {
    let mut service = Service::new(8, 3);
    service.watch(2, device(1));
    service.run(Duration::from_secs(1));
    assert_eq!(service.answers(2), [Answer::Found(device(1), vec![])]);
    service.put(0, 7);
    service.run(Duration::from_secs(1));
    assert_eq!(service.answers(0), [Answer::Kept(device(1), 5)]);
    assert_eq!(service.lookup(1, device(1)), [7]);
    service.put(0, 8);
    service.run(Duration::from_secs(60));
    assert_eq!(service.lookup(1, device(1)), [8]);
    let reported: Vec<Vec<u32>> = service
        .answers(2)
        .iter()
        .map(|answer| match answer {
            Answer::Changed(_, record) => addresses(core::slice::from_ref(record)),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(reported, [[7], [8]], "renewals of the same are no news");
    let now = service.now;
    service.clients[0].1.delete(now, device(1));
    service.run(Duration::from_secs(1));
    assert!(matches!(&service.answers(2)[..], [Answer::Changed(_, record)] if record.is_deletion()));
    assert_eq!(service.lookup(1, device(1)), [0; 0]);
}

#[test]
fn forged_stale_and_misplaced_records_are_refused_and_change_nothing() {
    let mut service = Service::new(5, 2);
    service.put(0, 7);
    service.run(Duration::from_secs(1));
    let old = service.clients[0].1.own[&device(1)].record.clone();
    service.put(0, 8);
    service.run(Duration::from_secs(1));
    let replica = service.replicas.get_mut(&NetworkAddress(1)).expect("it is there");
    let asker = Asker { guid: device(2), address: NetworkAddress(100) };
    let mut put = |place: Guid, record: Vec<u8>| {
        replica.handle(Time::ZERO, asker, NameMessage::Put { request: 1, place, record });
        let answers: Vec<NameMessage> = core::iter::from_fn(|| replica.poll_message()).map(|(_, m)| m).collect();
        answers.into_iter().next_back().expect("there is an answer")
    };
    let refused = |refusal| NameMessage::Refused { request: 1, refusal };
    // Another device's statement about this GUID, signed by its key, belongs to its own GUID.
    let body = RecordBody::Device(vec![(NetworkAddress(66), 1)]);
    let theirs = Statement {
        key: key(2).public(),
        version: 99,
        lifetime_ms: 30_000,
        ends: None,
        label: "x".into(),
        body,
        readers: Readers::All,
    };
    let theirs = NameRecord::sign(theirs, &key(2)).expect("legal").encode();
    assert_eq!(put(device(1), theirs.clone()), refused(Refusal::Misplaced));
    // The same with the key swapped has a wrong signature.
    let mut swapped = theirs;
    swapped[1..33].copy_from_slice(&key(1).public().0);
    assert_eq!(put(device(1), swapped), refused(Refusal::Forged));
    // Replaying the owner's old record does not bring it back.
    assert_eq!(put(device(1), old.encode()), NameMessage::Stale { request: 1, current: 2 });
    assert_eq!(service.lookup(1, device(1)), [8]);
}

#[test]
fn any_four_of_five_replicas_may_be_gone() {
    let mut service = Service::new(9, 2);
    service.put(0, 7);
    service.run(Duration::from_secs(1));
    let chosen = place_on(&device(1), (1..=9).map(NetworkAddress), 5);
    for survivor in &chosen {
        let mut others = Vec::new();
        for gone in chosen.iter().filter(|other| *other != survivor) {
            others.push((*gone, service.replicas.remove(gone).expect("it was there")));
        }
        assert_eq!(service.lookup(1, device(1)), [7], "only {survivor} is left");
        service.replicas.extend(others);
        // The returned ones have missed renewals; the next one updates them.
        service.run(LIFE / 2);
    }
}

#[test]
fn routers_that_come_to_hold_a_name_are_told_of_it_by_those_that_did() {
    let mut service = Service::new(9, 2);
    let become_members = |service: &mut Service, members: core::ops::RangeInclusive<u32>| {
        let members: Vec<NetworkAddress> = members.map(NetworkAddress).collect();
        for (address, replica) in &mut service.replicas {
            replica.handle_members(service.now, *address, service.front.members(), &members, 5);
        }
        service.front.handle_members(service.now, members);
        service.run(Duration::from_secs(1));
    };
    become_members(&mut service, 1..=1);
    service.put(0, 7);
    service.run(Duration::from_secs(1));
    become_members(&mut service, 1..=9);
    become_members(&mut service, 2..=9);
    assert_eq!(service.lookup(1, device(1)), [7], "its first holder is gone, and nobody has renewed it");
    let holders = service.replicas.values().filter(|replica| replica.size().1 > 0).count();
    assert_eq!(holders, 6, "five of nine, and the first");
}

#[test]
fn a_name_that_is_not_renewed_ends_and_its_old_versions_stay_refused() {
    let mut service = Service::new(5, 2);
    service.put(0, 7);
    service.run(Duration::from_secs(1));
    let record = service.clients[0].1.own[&device(1)].record.clone();
    service.clients[0].1 = GnrsClient::new(key(1), "host", LIFE, 0);
    service.put(0, 9);
    service.run(LIFE + Duration::from_secs(2));
    assert_eq!(service.lookup(1, device(1)), [0; 0]);
    let now = service.now;
    service.clients[0].1.on_reachable(now);
    service.run(Duration::from_secs(1));
    assert_eq!(service.lookup(1, device(1)), [9], "a client that starts anew finds the version to go on from");
    assert_eq!(record.statement().version, 1);
}

#[test]
fn a_name_that_is_not_renewed_ends_for_those_who_watch_it_too() {
    let mut service = Service::watched();
    service.clients[0].1 = GnrsClient::new(key(1), "host", LIFE, 0);
    service.run(LIFE * 3);
    assert_eq!(service.answers(1), [Answer::Found(device(1), vec![])]);
}

#[test]
fn who_was_out_of_reach_is_told_later_what_has_changed() {
    let mut service = Service::watched();
    service.deaf = Some(1);
    let now = service.now;
    service.clients[0].1.delete(now, device(1));
    service.run(Duration::from_secs(1));
    service.deaf = None;
    service.run(LIFE / 2);
    assert_eq!(service.answers(1), [Answer::Found(device(1), vec![])]);
}

#[test]
fn what_is_said_anew_after_author_and_replicas_have_forgotten_that_it_was_deleted_is_told() {
    let mut service = Service::watched();
    let now = service.now;
    service.clients[0].1.delete(now, device(1));
    service.run(Duration::from_secs(1));
    service.answers(1);
    // All but the front restart: the author with low versions, which replicas accept.
    service.replicas.values_mut().for_each(|replica| *replica = Replica::new(1_000_000));
    service.clients[0].1 = GnrsClient::new(key(1), "host", LIFE, 0);
    service.clients[0].1.on_reachable(now);
    service.put(0, 9);
    service.run(LIFE);
    assert_eq!(service.lookup(1, device(1)), [9]);
    let reported = service.watched_addresses(1);
    assert_eq!(reported, [9]);
}

#[test]
fn who_watches_is_told_soon_that_what_nobody_renews_has_ended() {
    let mut service = Service::watched();
    let now = service.now;
    // It put the same record for a shorter time, and vanishes silently.
    service.clients[0].1 = GnrsClient::new(key(1), "host", LIFE / 5, 1);
    service.clients[0].1.on_reachable(now);
    service.put(0, 8);
    service.run(Duration::from_secs(1));
    assert!(matches!(&service.answers(1)[..], [Answer::Changed(..)]));
    service.clients[0].1 = GnrsClient::new(key(1), "host", LIFE, 0);
    service.run(LIFE / 5 - Duration::from_secs(2));
    assert_eq!(service.answers(1), []);
    // Its own lifetime, that of the last answer, and the interval at which replicas are queried: 6, 15 and 10 s.
    service.run(Duration::from_secs(27));
    assert_eq!(service.answers(1), [Answer::Found(device(1), vec![])]);
}

#[test]
fn who_asks_for_what_is_watched_already_is_told_at_once_even_out_of_reach() {
    let mut service = Service::watched();
    service.deaf = Some(1);
    service.watch(1, device(1));
    let reported = service.answers(1);
    assert!(matches!(&reported[..], [Answer::Found(_, records)] if addresses(records) == [7]), "{reported:?}");
    // Before the service has answered, the state is unknown; requesters get it afterwards.
    let mut service = Service::new(5, 2);
    service.put(0, 7);
    service.deaf = Some(1);
    service.watch(1, device(1));
    service.watch(1, device(1));
    service.run(Duration::from_secs(20));
    assert_eq!(service.answers(1), []);
    service.deaf = None;
    service.run(LIFE / 2);
    assert!(matches!(&service.answers(1)[..], [Answer::Found(_, records)] if addresses(records) == [7]));
}

#[test]
fn the_loss_of_a_replica_moves_only_what_it_held() {
    let all: Vec<NetworkAddress> = (1..=20).map(NetworkAddress).collect();
    let mut held = [0u32; 21];
    for number in 0..200u8 {
        let place = Guid([number; 20]);
        let before = place_on(&place, all.iter().copied(), 3);
        before.iter().for_each(|address| held[address.0 as usize] += 1);
        let after = place_on(&place, all.iter().copied().filter(|address| address.0 != 5), 3);
        if before.contains(&NetworkAddress(5)) {
            assert_eq!(before.iter().filter(|address| after.contains(address)).count(), 2);
        } else {
            assert_eq!(before, after);
        }
    }
    assert!(held[1..].iter().all(|count| (10..60).contains(count)), "600 over 20: {held:?}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story")]
fn a_replica_that_starts_again_knows_what_it_was_told_and_refuses_what_it_refused() {
    use crate::router::proxy::{ChunkRepository, MemoryRepository};
    use std::sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    };

    /// A disk that several runs share. It can be slow, and then wakes its node after a commit. The last field says
    /// whether it is unreadable now.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<MemoryRepository>>, Arc<Mutex<Option<bool>>>, Arc<AtomicBool>);
    impl ChunkRepository for Shared {
        fn put(&mut self, id: u64, head: &[u8], payload: &[bytes::Bytes]) -> Result<(), tributary_content::StoreError> {
            self.0.lock().unwrap().put(id, head, payload)
        }
        fn remove(&mut self, id: u64) -> Result<(), tributary_content::StoreError> {
            self.0.lock().unwrap().remove(id)
        }
        fn commit(&mut self) -> Result<(), tributary_content::StoreError> {
            self.0.lock().unwrap().commit()
        }
        fn is_committed(&mut self) -> Result<bool, tributary_content::StoreError> {
            Ok(self.1.lock().unwrap().unwrap_or(true))
        }
        fn poll_interval(&self) -> Option<Duration> {
            None
        }
        fn read(&mut self, id: u64) -> Result<bytes::Bytes, tributary_content::StoreError> {
            self.0.lock().unwrap().read(id)
        }
        fn list(&mut self) -> Result<Vec<(u64, Vec<u8>, u64)>, tributary_content::StoreError> {
            if self.2.load(Ordering::Relaxed) {
                let (path, reason) = (String::new(), String::from("input/output error"));
                return Err(tributary_content::StoreError::Io { operation: "list", path, reason });
            }
            self.0.lock().unwrap().list()
        }
    }

    let disk = Shared::default();
    let signed = |version: u64, address: u32| {
        let body = RecordBody::Device(Vec::from([(NetworkAddress(address), 1)]));
        let statement = Statement {
            key: key(1).public(),
            version,
            lifetime_ms: 30_000,
            ends: None,
            label: "x".into(),
            body,
            readers: Readers::All,
        };
        NameRecord::sign(statement, &key(1)).unwrap()
    };
    let place = signed(1, 1).guid();
    let asker = Asker { guid: place, address: NetworkAddress(9) };
    let put = |replica: &mut Replica, record: &NameRecord| {
        let message = NameMessage::Put { request: 1, place, record: record.encode() };
        replica.handle(Time::from_millis(1), asker, message);
        replica.settle(Time::from_millis(1));
        replica.settle(Time::from_millis(1));
        replica.poll_message().unwrap().1
    };
    let mut replica = Replica::new(1_000_000);
    replica.restore(Time::ZERO, Box::new(disk.clone())).unwrap();
    assert_eq!(put(&mut replica, &signed(4, 1)), NameMessage::Done { request: 1, replicas: 1 });
    assert_eq!(put(&mut replica, &signed(5, 2)), NameMessage::Done { request: 1, replicas: 1 });
    drop(replica);
    let mut replica = Replica::new(1_000_000);
    assert_eq!(replica.restore(Time::ZERO, Box::new(disk.clone())), Ok(1));
    replica.handle(Time::from_millis(2), asker, NameMessage::Lookup { request: 2, place });
    let records = Vec::from([signed(5, 2).encode()]);
    assert_eq!(replica.poll_message().unwrap().1, NameMessage::Found { request: 2, place, records });
    assert_eq!(put(&mut replica, &signed(4, 1)), NameMessage::Stale { request: 1, current: 5 });

    // A running commit sets no timer: the disk wakes the node.
    *disk.1.lock().unwrap() = Some(false);
    let message = NameMessage::Put { request: 3, place, record: signed(6, 3).encode() };
    replica.handle(Time::from_millis(3), asker, message);
    (0..2).for_each(|_| replica.settle(Time::from_millis(3)));
    let answered =
        std::iter::from_fn(|| replica.poll_message()).any(|(_, message)| matches!(message, NameMessage::Done { .. }));
    assert_eq!((answered, replica.poll_timeout()), (false, None));
    *disk.1.lock().unwrap() = Some(true);
    replica.settle(Time::from_millis(4));
    assert!(
        std::iter::from_fn(|| replica.poll_message()).any(|(_, message)| matches!(message, NameMessage::Done { .. }))
    );

    *disk.1.lock().unwrap() = None;
    drop(replica);
    // The disk cannot be read at first: until then no record is accepted.
    let mut replica = Replica::new(1_000_000);
    disk.2.store(true, Ordering::Relaxed);
    assert!(replica.restore(Time::ZERO, Box::new(disk.clone())).is_err());
    let refused = NameMessage::Refused { request: 1, refusal: Refusal::Full };
    assert_eq!(put(&mut replica, &signed(7, 3)), refused);
    let due = replica.poll_timeout().unwrap();
    replica.settle(due);
    let again = replica.poll_timeout().unwrap();
    assert!(again > due, "it is tried again, and not at once");
    disk.2.store(false, Ordering::Relaxed);
    replica.settle(again);
    assert_eq!(replica.size(), (1, 1), "what was on the disk");
    assert_eq!(put(&mut replica, &signed(7, 3)), NameMessage::Done { request: 1, replicas: 1 });
}

/// What a client finds at a place, how often it is answered, and how long that takes.
fn looked_up(service: &mut Service, client: usize, place: Guid) -> (Vec<usize>, Duration) {
    let before = service.now;
    let now = service.now;
    service.clients[client].1.lookup(now, place);
    for _ in 0..10_000 {
        let answers = service.answers(client);
        let found: Vec<usize> = answers
            .iter()
            .filter_map(|answer| if let Answer::Found(_, all) = answer { Some(all.len()) } else { None })
            .collect();
        if !found.is_empty() {
            return (found, service.now.since(before));
        }
        service.run(Duration::from_millis(1));
    }
    panic!("no answer");
}
fn only(devices: &[u8]) -> Readers {
    Readers::Only(devices.iter().map(|number| device(*number)).collect())
}

#[test]
fn whoever_may_not_know_a_name_finds_what_is_found_where_there_is_none() {
    let mut service = Service::new(5, 3);
    service.clients[0].1.set_readers(Time::ZERO, device(1), only(&[2]));
    service.put(0, 7);
    service.put(1, 8);
    service.run(Duration::from_secs(1));
    for client in 0..3 {
        service.answers(client);
    }
    assert_eq!(looked_up(&mut service, 0, device(1)).0, [1], "the owner itself");
    assert_eq!(looked_up(&mut service, 1, device(1)).0, [1], "who may");
    let hidden = looked_up(&mut service, 2, device(1));
    assert_eq!(hidden, looked_up(&mut service, 2, device(99)), "who may not, and a name that is none");
    assert_eq!(looked_up(&mut service, 2, device(2)).0, [1], "a name for all");
    // Two replicas are gone: it is notified no sooner, and of nothing else.
    for gone in place_on(&device(1), (1..=5).map(NetworkAddress), 1) {
        service.replicas.remove(&gone);
    }
    let (found, time) = looked_up(&mut service, 2, device(1));
    let (none, as_long) = looked_up(&mut service, 2, device(99));
    assert_eq!((found, time >= Duration::from_millis(1)), (none, as_long >= Duration::from_millis(1)));
}

#[test]
fn watches_tell_only_who_may_know_and_whoever_may_no_more_that_it_is_gone() {
    let mut service = Service::new(5, 3);
    let reported = |service: &mut Service, client: usize| -> Vec<String> {
        service.run(Duration::from_secs(1));
        let answers = service.answers(client);
        let is_of_place = |answer: &Answer| match answer {
            Answer::Found(_, records) => Some(format!("found {}", records.len())),
            Answer::Changed(_, record) if record.is_deletion() => Some("deleted".into()),
            Answer::Changed(..) => Some("changed".into()),
            Answer::Kept(..) | Answer::Refused(..) => None,
        };
        answers.iter().filter_map(is_of_place).collect()
    };
    let rule = |service: &mut Service, readers: Readers| {
        let now = service.now;
        service.clients[0].1.set_readers(now, device(1), readers);
    };
    rule(&mut service, only(&[2]));
    service.put(0, 7);
    service.run(Duration::from_secs(1));
    for client in [1, 2] {
        service.watch(client, device(1));
    }
    let (known, hidden) = (reported(&mut service, 1), reported(&mut service, 2));
    assert_eq!((known.last().map(String::as_str), hidden), (Some("found 1"), vec!["found 0".into()]));
    service.put(0, 8);
    assert_eq!((reported(&mut service, 1), reported(&mut service, 2)), (vec!["changed".into()], vec![]));
    // Watches are renewed, and bring neither client news.
    service.run(LIFE * 3);
    assert_eq!((reported(&mut service, 1), reported(&mut service, 2)), (vec![], vec![]));
    rule(&mut service, only(&[3]));
    assert_eq!(
        (reported(&mut service, 1), reported(&mut service, 2)),
        (vec!["found 0".into()], vec!["changed".into()])
    );
    service.put(0, 9);
    assert_eq!((reported(&mut service, 1), reported(&mut service, 2)), (vec![], vec!["changed".into()]));
    rule(&mut service, Readers::All);
    assert_eq!(
        (reported(&mut service, 1), reported(&mut service, 2)),
        (vec!["changed".into()], vec!["changed".into()])
    );
    rule(&mut service, only(&[3]));
    reported(&mut service, 1);
    reported(&mut service, 2);
    let now = service.now;
    service.clients[0].1.delete(now, device(1));
    assert_eq!((reported(&mut service, 1), reported(&mut service, 2)), (vec![], vec!["deleted".into()]));
}

/// A front during a lookup: the front, the queried replicas, another one, its request's number, and the answer of a
/// replica that knows the name.
fn requested() -> (Front, Vec<NetworkAddress>, NetworkAddress, u32, Vec<u8>) {
    let members: Vec<NetworkAddress> = (1..=5).map(NetworkAddress).collect();
    let mut front = Front::new(Guid::NONE, 5);
    front.handle_members(Time::ZERO, members.clone());
    let asker = Asker { guid: device(2), address: NetworkAddress::NONE };
    front.handle_question(Time::ZERO, asker, NameMessage::Lookup { request: 7, place: device(1) });
    let mut number = 0;
    let requested: Vec<NetworkAddress> = core::iter::from_fn(|| front.poll_message())
        .map(|(to, message)| {
            number = message.question().expect("a question");
            to
        })
        .collect();
    assert_eq!(requested.len(), 2);
    let other = *members.iter().find(|member| !requested.contains(member)).expect("five");
    (front, requested, other, number, signed(1, 4).encode())
}
/// A key owner's record of itself at this address.
fn signed(owner: u8, address: u32) -> NameRecord {
    let (key, body) = (key(owner), RecordBody::Device(vec![(NetworkAddress(address), 1)]));
    let readers = Readers::All;
    let statement =
        Statement { key: key.public(), version: 1, lifetime_ms: 30_000, ends: None, label: "x".into(), body, readers };
    NameRecord::sign(statement, &key).expect("legal")
}
fn found(request: u32, place: Guid, records: &[&[u8]]) -> NameMessage {
    NameMessage::Found { request, place, records: records.iter().map(|record| record.to_vec()).collect() }
}

#[test]
fn only_replicas_that_were_asked_answer_and_each_once() {
    let (mut front, requested, other, number, record) = requested();
    let mut hear = |from: NetworkAddress, records: &[&[u8]]| {
        front.handle_answer(Time::ZERO, from, found(number, device(1), records));
        front.poll_answer().map(|(_, answer)| answer)
    };
    assert_eq!(hear(other, &[&record]), None, "it was not asked");
    // The name is unknown when all say so, not when one says it twice.
    assert_eq!(hear(requested[0], &[]), None);
    assert_eq!(hear(requested[0], &[]), None);
    assert_eq!(hear(requested[0], &[&record]), None, "it has answered");
    assert_eq!(hear(requested[1], &[&record]), Some(found(7, device(1), &[&record])));
}

#[test]
fn who_watches_is_told_only_what_belongs_to_the_place() {
    let mut service = Service::watched();
    let (now, theirs) = (service.now, signed(3, 66).encode());
    let from = place_on(&device(1), (1..=5).map(NetworkAddress), 1)[0];
    let notify = NameMessage::Notify { place: device(1), record: theirs.clone() };
    service.front.handle_answer(now, from, notify.clone());
    assert_eq!(service.front.poll_answer(), None, "the front passes it on");
    let client = &mut service.clients[1].1;
    client.handle_message(now, notify);
    assert_eq!(client.poll_answer(), None, "the client takes it");
    client.handle_message(now, found(0, device(1), &[&theirs]));
    assert_eq!(client.poll_answer(), Some(Answer::Found(device(1), vec![])));
    service.put(0, 8);
    service.run(Duration::from_secs(1));
    // It lacked the known record: the service was queried once more, and confirmed it.
    assert!(matches!(
        &service.answers(1)[..],
        [Answer::Found(_, all), Answer::Changed(_, record)]
            if addresses(all) == [7] && addresses(&[(**record).clone()]) == [8]
    ));
}

#[test]
fn an_answer_about_another_place_than_was_asked_for_is_none() {
    let mut client = GnrsClient::new(key(2), "host", LIFE, 0);
    client.on_reachable(Time::ZERO);
    client.lookup(Time::ZERO, device(1));
    let request = client.poll_message().and_then(|message| message.question()).expect("it asks");
    client.handle_message(Time::ZERO, found(request, device(3), &[&signed(3, 66).encode()]));
    assert_eq!(client.poll_answer(), None);
    client.handle_message(Time::ZERO, found(request, device(1), &[&signed(1, 4).encode()]));
    let answer = client.poll_answer();
    assert!(matches!(&answer, Some(Answer::Found(at, all)) if *at == device(1) && addresses(all) == [4]), "{answer:?}");
    client.handle_message(Time::ZERO, found(request, device(1), &[]));
    assert_eq!(client.poll_answer(), None, "it was answered");
}

#[test]
fn a_record_that_its_disk_has_at_another_place_is_not_restored() {
    use crate::router::proxy::{ChunkRepository, MemoryRepository};
    for (place, restored) in [(device(1), 1), (device(2), 0)] {
        let mut disk = MemoryRepository::default();
        disk.put(1, &place.0, &[signed(1, 4).encode().into()]).expect("memory");
        assert_eq!(Replica::new(1_000_000).restore(Time::ZERO, Box::new(disk)), Ok(restored));
    }
}

/// Successive records of one device: its address, or its departure.
fn history(number: u8, gone: &[bool]) -> Vec<NameRecord> {
    let stated = gone.iter().enumerate().map(|(index, gone)| {
        let body = match gone {
            true => RecordBody::Deleted(Vec::new()),
            false => RecordBody::Device(vec![(NetworkAddress(index as u32 + 1), 1)]),
        };
        let (version, readers) = (index as u64 + 1, Readers::All);
        let statement = Statement {
            key: key(number).public(),
            version,
            lifetime_ms: 30_000,
            ends: None,
            label: String::new(),
            body,
            readers,
        };
        NameRecord::sign(statement, &key(number)).unwrap()
    });
    stated.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn records_in_any_order_and_often_leave_the_newest_at_a_replica(
        gone in prop::collection::vec(any::<bool>(), 1..8),
        order in prop::collection::vec(any::<prop::sample::Index>(), 20),
    ) {
        let records = history(1, &gone);
        let mut replica = Replica::new(1_000_000);
        let asker = Asker { guid: Guid::NONE, address: NetworkAddress(9) };
        let shuffled = order.iter().map(|at| at.get(&records)).chain(records.iter().rev());
        for record in shuffled {
            let put = NameMessage::Put { request: 1, place: device(1), record: record.encode() };
            replica.handle(Time::ZERO, asker, put);
        }
        while replica.poll_message().is_some() {}
        replica.handle(Time::ZERO, asker, NameMessage::Lookup { request: 2, place: device(1) });
        let newest = records.last().filter(|record| !record.is_deletion()).map(NameRecord::encode);
        let found = NameMessage::Found { request: 2, place: device(1), records: newest.into_iter().collect() };
        prop_assert_eq!(replica.poll_message(), Some((asker, found)));
    }

    #[test]
    fn what_a_watcher_is_told_in_any_order_and_often_is_the_newest_in_the_end(
        gone in prop::collection::vec(any::<bool>(), 1..6),
        order in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 20),
    ) {
        let records = history(1, &gone);
        let mut client = GnrsClient::new(key(2), "host", LIFE, 0);
        client.on_reachable(Time::ZERO);
        client.watch(Time::ZERO, device(1));
        let whole = |record: &NameRecord| {
            let records = Some(record).filter(|record| !record.is_deletion()).map(NameRecord::encode);
            NameMessage::Found { request: 0, place: device(1), records: records.into_iter().collect() }
        };
        let single = |record: &NameRecord| NameMessage::Notify { place: device(1), record: record.encode() };
        let mut reported: Vec<NameMessage> = order
            .iter()
            .map(|(at, is_complete)| if *is_complete { whole(at.get(&records)) } else { single(at.get(&records)) })
            .collect();
        reported.extend(records.iter().rev().map(single));
        let newest = records.last().unwrap();
        for message in reported {
            client.handle_message(Time::ZERO, message);
            // The service sends its state to a client that knows something else.
            while let Some(message) = client.poll_message() {
                let NameMessage::Watch { known, .. } = message else { continue };
                let is_live = Some(newest).filter(|record| !record.is_deletion());
                if known != digest(is_live.into_iter().map(|record| (record.key(), record.statement().version))) {
                    client.handle_message(Time::ZERO, whole(newest));
                }
            }
        }
        client.poll_answer();
        while client.poll_answer().is_some() {}
        client.watch(Time::ZERO, device(1));
        let found: Vec<u64> = match client.poll_answer() {
            Some(Answer::Found(_, records)) => records.iter().map(|record| record.statement().version).collect(),
            Some(other) => panic!("{other:?}"),
            None => Vec::new(),
        };
        let expected: Vec<u64> =
            Some(newest).filter(|record| !record.is_deletion()).map(|record| record.statement().version).into_iter().collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn watches_begun_and_ended_in_any_order_and_often_are_as_was_said_last(
        wanted in prop::collection::vec(any::<bool>(), 1..8),
        order in prop::collection::vec(any::<prop::sample::Index>(), 20),
        first: u32,
    ) {
        let mut replica = Replica::new(1_000_000);
        let [watcher, author] = [5, 9].map(|address| Asker { guid: Guid::NONE, address: NetworkAddress(address) });
        let numbered: Vec<(u32, bool)> = (0..).zip(&wanted).map(|(at, wanted)| (first.wrapping_add(at), *wanted)).collect();
        for (number, wanted) in order.iter().map(|at| at.get(&numbered)).chain(numbered.iter().rev()) {
            let (request, lease_ms) = (number & !NameMessage::HAND_OVER_BIT, if *wanted { 30_000 } else { 0 });
            replica.handle(Time::ZERO, watcher, NameMessage::Watch { request, place: device(1), lease_ms, known: 0 });
        }
        while replica.poll_message().is_some() {}
        let record = history(1, &[false]).remove(0).encode();
        replica.handle(Time::ZERO, author, NameMessage::Put { request: 1, place: device(1), record });
        let reported = core::iter::from_fn(|| replica.poll_message());
        let notified = reported.filter(|(to, message)| *to == watcher && matches!(message, NameMessage::Notify { .. })).count();
        prop_assert_eq!(notified == 1, *wanted.last().unwrap());
    }
}

#[test]
fn what_is_handed_over_is_said_again_until_it_is_confirmed() {
    let mut service = Service::new(2, 1);
    let alone = vec![NetworkAddress(1)];
    service.front.handle_members(service.now, alone.clone());
    service.put(0, 7);
    service.run(Duration::from_secs(1));
    service.clients.clear();
    service.lost = vec![true, true, false, true, false];
    let both = vec![NetworkAddress(1), NetworkAddress(2)];
    service.replicas.get_mut(&NetworkAddress(1)).unwrap().handle_members(
        service.now,
        NetworkAddress(1),
        &alone,
        &both,
        5,
    );
    let held = |service: &Service| service.replicas[&NetworkAddress(2)].size().1;
    service.settle();
    assert_eq!(held(&service), 0, "it was lost");
    for _ in 0..60 {
        service.now += Duration::from_millis(500);
        service.replicas.values_mut().for_each(|replica| replica.handle_timeout(service.now));
        service.settle();
    }
    assert_eq!(held(&service), 1);
    assert!(service.lost.is_empty(), "the confirmation was lost once as well");
}

#[test]
fn a_replica_that_knows_nothing_yet_hides_nothing() {
    let mut service = Service::new(5, 2);
    service.put(0, 7);
    service.run(Duration::from_secs(1));
    // The two nearest ones have restarted and have received no hand-over so far.
    for nearest in 0..2 {
        service.replicas.insert(service.front.members()[nearest], Replica::new(1_000_000));
    }
    assert_eq!(service.lookup(1, device(1)), [7]);
    assert_eq!(service.lookup(1, device(9)), [0; 0], "nobody has that");
}

/// A device's record of a content with this name.
fn content(name: &str) -> RecordBody {
    let object = tributary_content::MemoryObject::new(name.parse().unwrap(), vec![1; 10], &key(9)).unwrap();
    RecordBody::Content(tributary_content::ObjectReader::manifest(&object).encode())
}
fn listing(name: &str) -> Guid {
    Guid::of_name(&name.parse().unwrap())
}
fn names(records: &[NameRecord]) -> Vec<String> {
    let name = |record: &NameRecord| match &record.statement().body {
        RecordBody::Content(_) => format!("{}", record.manifest().unwrap().name),
        RecordBody::Scope { name } => format!("{name}/"),
        other => panic!("{other:?}"),
    };
    let mut names: Vec<String> = records.iter().map(name).collect();
    names.sort();
    names
}
impl Service {
    fn publish(&mut self, client: usize, names: impl Iterator<Item = String>) {
        let now = self.now;
        for name in names {
            self.clients[client].1.put(now, content(&name));
        }
        self.run(Duration::from_secs(1));
    }
    /// The newest whole answer about a place.
    fn listed(&mut self, client: usize, place: Guid) -> Vec<String> {
        let answers = self.answers(client);
        let found = answers.iter().rev().find_map(|answer| match answer {
            Answer::Found(at, records) if *at == place => Some(names(records)),
            _ => None,
        });
        found.unwrap_or_else(|| panic!("no answer among {} others", answers.len()))
    }
}

#[test]
fn a_listing_longer_than_an_answer_comes_in_pages_and_is_renewed_without_being_sent_again() {
    let mut service = Service::new(5, 3);
    service.publish(0, (0..600).map(|number| format!("/many/{number:03}")));
    let kept = service.answers(0).iter().filter(|answer| matches!(answer, Answer::Kept(_, 5))).count();
    assert_eq!(kept, 601, "all of them, and the scope");
    service.watch(1, listing("/many"));
    service.run(Duration::from_secs(1));
    let all = service.listed(1, listing("/many"));
    assert_eq!((all.len(), &all[0][..], &all[599][..]), (600, "/many/000", "/many/599"));
    assert!(service.sent[3] >= 6, "both replicas are asked for the pages behind the first: {:?}", service.sent);
    // Renewals of the watch compare digests.
    service.sent = [0; 4];
    service.run(LIFE * 2);
    assert!(service.answers(1).is_empty(), "nothing is new");
    assert!(service.sent[2] > 0 && service.sent[3] == 0, "no page is sent again: {:?}", service.sent);
    // The front answers later requesters, also in pages.
    service.watch(2, listing("/many"));
    service.run(Duration::from_secs(1));
    assert_eq!(service.listed(2, listing("/many")), all);
    // Watchers notice records that end without a notice.
    let now = service.now;
    let gone = Guid::of_content(&key(9).public(), &"/many/300".parse().unwrap());
    service.clients[0].1.delete(now, gone);
    service.run(Duration::from_secs(1));
    assert!(matches!(&service.answers(1)[..], [Answer::Changed(_, record)] if record.is_deletion()));
    service.replicas.values_mut().for_each(|replica| *replica = Replica::new(1_000_000));
    service.run(LIFE);
    service.watch(1, listing("/many"));
    assert_eq!(service.listed(1, listing("/many")).len(), 599, "replicas that have lost everything are told again");
}

#[test]
fn a_scope_is_listed_once_however_many_contents_are_in_it() {
    let mut service = Service::new(3, 2);
    service.publish(0, (0..20).map(|number| format!("/a/b/{number:02}")));
    service.publish(0, ["/top".to_string()].into_iter());
    for scope in ["/", "/a", "/a/b"] {
        service.watch(1, listing(scope));
        service.run(Duration::from_secs(1));
        let all = service.listed(1, listing(scope));
        match scope {
            "/" => assert_eq!(all, ["/a/", "/top"]),
            "/a" => assert_eq!(all, ["/a/b/"]),
            _ => assert_eq!(all.len(), 20),
        }
    }
    // The scope goes with the last of its contents, and not before.
    for number in 0..20 {
        let now = service.now;
        let name = format!("/a/b/{number:02}").parse().unwrap();
        service.clients[0].1.delete(now, Guid::of_content(&key(9).public(), &name));
        service.run(Duration::from_secs(1));
        service.answers(1);
        service.watch(1, listing("/"));
        let left: &[&str] = if number < 19 { &["/a/", "/top"] } else { &["/top"] };
        assert_eq!(service.listed(1, listing("/")), left);
    }
}

#[test]
fn a_device_renews_all_its_names_by_one_message_and_puts_again_what_a_replica_has_lost() {
    let mut service = Service::new(5, 2);
    service.publish(0, (0..300).map(|number| format!("/x/{number}")));
    service.sent = [0; 4];
    service.run(LIFE * 3);
    let [puts, renewals, ..] = service.sent;
    assert_eq!(puts, 0, "nothing is put again");
    assert!((5..=50).contains(&renewals), "one for each of five replicas each 10 s: {renewals}");
    // One of them restarts. Only its own records are put again, and where others have them nothing changes.
    let lost = service.replicas.insert(NetworkAddress(3), Replica::new(1_000_000)).unwrap().size().1;
    service.run(LIFE / 2);
    assert_eq!(service.replicas[&NetworkAddress(3)].size().1, lost);
    // It declares nothing anymore: all of it ends.
    service.clients[0].1 = GnrsClient::new(key(1), "host", LIFE, 0);
    service.run(LIFE + Duration::from_secs(2));
    service.watch(1, listing("/x"));
    service.run(Duration::from_secs(1));
    assert_eq!(service.listed(1, listing("/x")), [""; 0]);
}

#[test]
fn nobody_renews_what_another_device_has_said() {
    let mut service = Service::new(5, 2);
    service.put(0, 7);
    service.run(Duration::from_secs(1));
    let replica = &service.replicas[&service.front.members()[0]];
    assert_eq!(replica.size().1, 1);
    service.clients[0].1 = GnrsClient::new(key(1), "host", LIFE, 0);
    let holdings =
        vec![crate::wire::Holding { bucket: bucket_of(&device(1)), count: 1, sum: mark(&device(1), &device(1), 1) }];
    let (intruder, _) = service.clients[1];
    for request in 1..60 {
        let renew = NameMessage::Renew { request, author: device(1), lease_ms: 30_000, holdings: holdings.clone() };
        let now = service.now;
        service.front.handle_question(now, intruder, renew);
        service.run(Duration::from_secs(1));
    }
    assert_eq!(service.lookup(1, device(1)), [0; 0], "it has ended");
}

#[test]
fn names_beyond_the_window_wait_for_answers() {
    let mut client = GnrsClient::new(key(1), "host", LIFE, 0);
    client.on_reachable(Time::ZERO);
    for number in 0..200 {
        client.put(Time::ZERO, content(&format!("/{number}")));
    }
    let mut all = Vec::new();
    for round in 0.. {
        let puts: Vec<u32> = core::iter::from_fn(|| client.poll_message()).filter_map(|it| it.question()).collect();
        assert!(puts.len() <= 256, "{} at once", puts.len());
        if puts.is_empty() {
            assert!(round > 1);
            break;
        }
        puts.iter().for_each(|request| {
            client.handle_message(Time::ZERO, NameMessage::Done { request: *request, replicas: 1 });
        });
        all.extend(puts);
    }
    assert_eq!(all.len(), 600, "a content is kept at its GUID, at its name and in the listing above");
    let kept = core::iter::from_fn(|| client.poll_answer()).count();
    assert_eq!(kept, 200);
}

#[test]
fn devices_with_far_more_names_than_a_router_takes_questions_put_them_all_and_nobody_is_told() {
    let mut service = Service::new(3, 4);
    service.front.set_open_max(40);
    for client in 0..4 {
        service.publish(client, (0..100).map(|name| format!("/{client}/{name}")));
    }
    service.run(Duration::from_secs(20));
    for client in 0..4 {
        let answers = service.answers(client);
        let refused: Vec<_> = answers.iter().filter(|answer| matches!(answer, Answer::Refused(..))).collect();
        let kept = answers.iter().filter(|answer| matches!(answer, Answer::Kept(..))).count();
        assert!(kept >= 100 && refused.is_empty(), "{client}: {kept} are kept, {refused:?}");
    }
}

#[test]
fn what_is_kept_is_renewed_while_more_is_put_into_the_same_bucket_for_longer_than_a_lease() {
    let mut client = GnrsClient::new(key(1), "host", LIFE, 0);
    client.on_reachable(Time::ZERO);
    for name in 0..3_000 {
        client.put(Time::ZERO, content(&format!("/many/{name}")));
    }
    let listing = bucket_of(&Guid::of_name(&"/many".parse().unwrap()));
    let (mut now, mut renewed_at, mut kept) = (Time::ZERO, Time::ZERO, 0);
    // Each answer takes a second.
    while client.poll_timeout().is_some() && now < Time::ZERO + LIFE * 3 {
        let said: Vec<NameMessage> = core::iter::from_fn(|| client.poll_message()).collect();
        now += Duration::from_secs(1);
        for message in said {
            match message {
                NameMessage::Put { request, .. } => {
                    kept += 1;
                    client.handle_message(now, NameMessage::Done { request, replicas: 1 });
                }
                NameMessage::Renew { request, holdings, .. } => {
                    if holdings.iter().any(|holding| holding.bucket == listing) {
                        renewed_at = now;
                    }
                    client.handle_message(now, NameMessage::Renewed { request, missing: Vec::new() });
                }
                _ => {}
            }
        }
        client.handle_timeout(now);
        assert!(now.since(renewed_at) < LIFE * 2 / 3, "at {now}, {kept} are kept");
    }
    assert!(kept > 9_000, "{kept}");
}

#[test]
fn a_full_replica_says_which_limit_refuses() {
    let mut service = Service::new(1, 1);
    service.replicas.insert(NetworkAddress(1), Replica::new(3));
    service.publish(0, ["/a".to_string(), "/b".to_string()].into_iter());
    let answers = service.answers(0);
    assert!(answers.iter().any(|answer| matches!(answer, Answer::Kept(_, 1))), "{answers:?}");
    let refused = answers.iter().find_map(|answer| match answer {
        Answer::Refused(_, refusal) => Some(refusal.reason()),
        _ => None,
    });
    assert!(refused.is_some_and(|reason| reason.contains("records_max")), "{answers:?}");
    // It is tried again at the pace of renewals, and kept when there is space.
    let now = service.now;
    service.clients[0].1.delete(now, Guid::of_content(&key(9).public(), &"/a".parse().unwrap()));
    service.run(Duration::from_secs(1));
    service.replicas.insert(NetworkAddress(1), Replica::new(9));
    service.answers(0);
    service.run(LIFE);
    assert!(service.answers(0).iter().any(|answer| matches!(answer, Answer::Kept(_, 1))));
}

mod ends {
    use alloc::sync::Arc;
    use tributary_trust::{Access, CLOCK_TOLERANCE, Identity, Network, UnixTime};

    use super::*;
    use crate::{
        router::proxy::{ChunkRepository, MemoryRepository},
        wire::{RECORD_SPAN, Refusal},
    };

    const START: u64 = 1_000_000;

    fn identity() -> Identity {
        let clock = |now: Time| UnixTime(START).after(now.since(Time::ZERO).as_millis() as u64 / 1_000);
        Identity::new(key(9), None, Network::new(key(99).public(), Access::Closed), Arc::new(clock))
    }
    /// A record of a device at this address, or its deletion.
    fn record(version: u64, address: Option<u32>, ends: Option<u64>) -> NameRecord {
        let body = match address {
            Some(address) => RecordBody::Device(vec![(NetworkAddress(address), 1)]),
            None => RecordBody::Deleted(Vec::new()),
        };
        let (key, readers, ends) = (key(1), Readers::All, ends.map(UnixTime));
        let statement =
            Statement { key: key.public(), version, lifetime_ms: 30_000, ends, label: "x".into(), body, readers };
        NameRecord::sign(statement, &key).expect("legal")
    }
    fn hours(hours: u64) -> Time {
        Time::ZERO + Duration::from_secs(hours * 3_600)
    }
    fn put(replica: &mut Replica, now: Time, record: &NameRecord) -> NameMessage {
        let from = Asker { guid: Guid::NONE, address: NetworkAddress(5) };
        replica.handle(now, from, NameMessage::Put { request: 1, place: device(1), record: record.encode() });
        replica.settle(now);
        replica.poll_message().expect("an answer").1
    }
    fn pass(replica: &mut Replica, from: Time, to: Time) {
        let mut now = from;
        while now < to {
            now += Duration::from_secs(300);
            replica.handle_timeout(now);
        }
    }
    const REFUSED: NameMessage = NameMessage::Refused { request: 1, refusal: Refusal::Ended };
    const TAKEN: NameMessage = NameMessage::Done { request: 1, replicas: 1 };

    #[test]
    fn a_record_says_when_it_ends_and_nobody_brings_it_back() {
        let old = record(1, Some(7), Some(START + RECORD_SPAN));
        let mut open = Replica::new(1_000_000);
        assert_eq!(
            put(&mut open, Time::ZERO, &record(1, Some(7), None)),
            TAKEN,
            "without an authority there is no end"
        );
        let new = || {
            let mut replica = Replica::new(1_000_000);
            replica.set_identity(&identity());
            replica
        };
        let mut replica = new();
        assert_eq!(put(&mut replica, Time::ZERO, &record(1, Some(7), None)), REFUSED);
        assert_eq!(
            put(&mut replica, Time::ZERO, &record(1, Some(7), Some(START + RECORD_SPAN + CLOCK_TOLERANCE + 1))),
            REFUSED
        );
        assert_eq!(put(&mut replica, Time::ZERO, &old), TAKEN);
        // It is not renewed, and then deleted: neither it nor its earlier version comes back.
        let deleted = record(2, None, Some(START + 3_600 + RECORD_SPAN));
        assert_eq!(put(&mut replica, hours(1), &deleted), TAKEN);
        pass(&mut replica, hours(1), hours(5));
        assert_eq!(put(&mut replica, hours(5), &old), NameMessage::Stale { request: 1, current: 2 });
        pass(&mut replica, hours(5), hours(8));
        assert_eq!(replica.size().1, 0, "when nobody can bring it back, it is forgotten");
        assert_eq!(put(&mut replica, hours(8), &old), REFUSED);
        // A record whose owner fell silent is remembered too.
        let mut replica = new();
        assert_eq!(put(&mut replica, Time::ZERO, &record(3, Some(8), Some(START + RECORD_SPAN))), TAKEN);
        pass(&mut replica, Time::ZERO, hours(4));
        assert_eq!(put(&mut replica, hours(4), &old), NameMessage::Stale { request: 1, current: 3 });
        // A restarted resolver restores it from its disk.
        let mut disk = MemoryRepository::default();
        disk.put(1, &device(1).0, &[deleted.encode().into()]).expect("memory");
        let mut again = new();
        assert_eq!(again.restore(hours(1), Box::new(disk)), Ok(1));
        pass(&mut again, hours(1), hours(4));
        assert_eq!(put(&mut again, hours(4), &old), NameMessage::Stale { request: 1, current: 2 });
    }

    #[test]
    fn owners_say_again_what_ends_soon_and_readers_believe_nothing_that_has_ended() {
        let mut service = Service::new(3, 2);
        service.replicas.values_mut().for_each(|replica| replica.set_identity(&identity()));
        service.put(0, 7);
        for (_, client) in &mut service.clients {
            client.set_identity(Time::ZERO, &identity());
        }
        service.watch(1, device(1));
        service.run(Duration::from_secs(2));
        let ends = |service: &Service| {
            let own = service.clients[0].1.own.values().next().expect("what it said");
            own.record.statement().ends.expect("it ends").0
        };
        assert!(!service.answers(1).is_empty(), "what was said before has an end now too");
        let first = ends(&service);
        assert!((START + RECORD_SPAN..=START + RECORD_SPAN + 2).contains(&first));
        service.run(Duration::from_secs(RECORD_SPAN / 4));
        assert_eq!(ends(&service), first);
        service.run(Duration::from_secs(RECORD_SPAN));
        assert!(ends(&service) > first + RECORD_SPAN / 2);
        let place = service.replicas.values().filter(|replica| replica.knows(&device(1))).count();
        assert_eq!(place, 3);
        // A resolver's outdated answer is ignored.
        let now = service.now;
        let client = &mut service.clients[1].1;
        client.watch(now, device(3));
        let notify = |record: NameRecord| NameMessage::Notify { place: device(1), record: record.encode() };
        let over = START + now.since(Time::ZERO).as_millis() as u64 / 1_000;
        while client.poll_answer().is_some() {}
        client.handle_message(now, notify(record(900, Some(9), Some(over))));
        assert_eq!(client.poll_answer(), None);
        client.handle_message(now, notify(record(901, Some(9), Some(over + 60))));
        assert!(matches!(client.poll_answer(), Some(Answer::Changed(..))));
    }
}

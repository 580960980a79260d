//! Resolvers of MobilityFirst whose names lie in a swarm.
use std::{
    net::SocketAddr,
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

use tributary_core::Time;
use tributary_kademlia::{Kademlia, KademliaOptions};
use tributary_mf::{
    NameMessage, NameRecord, NameRules, RecordBody,
    ids::{Guid, NetworkAddress},
    resolver::{Asker, Stored, mark},
    wire::{Holding, Refusal, bucket_of},
};

use crate::common::{PATIENCE, key, options, signed};

struct Resolver {
    stored: Stored,
    address: SocketAddr,
    clock: Instant,
    notes: Vec<String>,
    told: Vec<NameMessage>,
}

impl Resolver {
    fn new(number: u16, peers: &[SocketAddr]) -> Resolver {
        Resolver::with(number, &options(number, peers))
    }
    fn with(number: u16, options: &KademliaOptions) -> Resolver {
        let engine = Kademlia::start(options, Arc::new(NameRules), || {}).unwrap();
        let begun = Instant::now();
        while engine.listeners().is_empty() {
            assert!(begun.elapsed() < PATIENCE);
            sleep(Duration::from_millis(2));
        }
        let address = engine.listeners()[0];
        let mut stored = Stored::new(Box::new(engine), 10_000, u64::from(number));
        let own = NetworkAddress(u32::from(number));
        stored.handle_members(Time::ZERO, own, &[own]);
        Resolver { stored, address, clock: Instant::now(), notes: Vec::new(), told: Vec::new() }
    }
    fn swarm(size: u16) -> Vec<Resolver> {
        let mut all = vec![Resolver::new(0, &[])];
        let first = all[0].address;
        all.extend((1..size).map(|number| Resolver::new(number, &[first])));
        for resolver in &mut all {
            resolver.until("it knows the others", |resolver| {
                resolver.stored.state().contains(&format!("in use, {} peers", size - 1))
            });
        }
        all
    }
    fn turn(&mut self) {
        sleep(Duration::from_millis(2));
        let now = Time::ZERO + self.clock.elapsed();
        self.stored.settle(now);
        self.stored.handle_timeout(now);
        self.notes.extend(core::iter::from_fn(|| self.stored.poll_note()));
    }
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Resolver) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < PATIENCE, "{what}: {} {:?}", self.stored.state(), self.notes);
            self.turn();
        }
    }
    /// Asks until that is not refused by the engine, as fronts do.
    fn ask(&mut self, message: NameMessage) -> NameMessage {
        let asker = Asker { guid: Guid::of(&key(98).public(), b""), address: NetworkAddress(1) };
        let begun = Instant::now();
        loop {
            let now = Time::ZERO + self.clock.elapsed();
            self.stored.handle(now, asker, message.clone());
            let answer = loop {
                self.turn();
                match self.stored.poll_message() {
                    Some((_, told @ NameMessage::Notify { .. })) => self.told.push(told),
                    Some((_, answer)) => break answer,
                    None => assert!(begun.elapsed() < PATIENCE),
                }
            };
            if !matches!(answer, NameMessage::Refused { refusal: Refusal::Engine, .. }) {
                return answer;
            }
            assert!(begun.elapsed() < PATIENCE, "{:?}", self.notes);
        }
    }
    fn put(&mut self, record: &NameRecord) -> NameMessage {
        self.ask(NameMessage::Put { request: 2, place: record.places()[0], record: record.encode() })
    }
    fn found(&mut self, place: Guid) -> Vec<u64> {
        match self.ask(NameMessage::Lookup { request: 1, place }) {
            NameMessage::Found { records, .. } => {
                records.iter().map(|record| NameRecord::decode(record).unwrap().statement().version).collect()
            }
            other => panic!("{other:?}"),
        }
    }
}

fn record(owner: u16, version: u64) -> NameRecord {
    signed(owner, version, RecordBody::Device(vec![(NetworkAddress(7), 255)]))
}
fn place(owner: u16) -> Guid {
    record(owner, 1).places()[0]
}
const DONE: NameMessage = NameMessage::Done { request: 2, replicas: 1 };

#[test]
fn what_one_resolver_was_told_another_one_finds_and_tells_and_goes_on_with_when_it_dies() {
    let mut all = Resolver::swarm(4);
    assert_eq!(all[0].put(&record(1, 5)), DONE);
    for resolver in &mut all {
        assert_eq!(resolver.found(place(1)), [5]);
    }
    assert_eq!(all[2].put(&record(1, 4)), NameMessage::Stale { request: 2, current: 5 });
    let watch = NameMessage::Watch { request: 3, place: place(1), lease_ms: 60_000, known: 0 };
    assert!(matches!(all[3].ask(watch), NameMessage::Found { records, .. } if records.len() == 1));
    assert_eq!(all[0].put(&record(1, 6)), DONE);
    let is_news =
        |told: &NameMessage| matches!(told, NameMessage::Notify { record: told, .. } if *told == record(1, 6).encode());
    all[3].until("whoever watches is told", |resolver| {
        resolver.told.extend(core::iter::from_fn(|| resolver.stored.poll_message()).map(|(_, message)| message));
        resolver.told.iter().any(is_news)
    });

    // Renewals come to another resolver, which has never heard of the device: it says its records again there.
    all.remove(0);
    let mut holding = Holding { bucket: bucket_of(&place(1)), ..Holding::default() };
    holding.add(mark(&place(1), &record(1, 6).guid(), 6));
    let author = record(1, 6).author();
    let renew = NameMessage::Renew { request: 4, author, lease_ms: 30_000, holdings: vec![holding] };
    let missing = vec![bucket_of(&place(1))];
    assert_eq!(all[0].ask(renew.clone()), NameMessage::Renewed { request: 4, missing });
    assert_eq!(all[0].put(&record(1, 6)), DONE);
    assert_eq!(all[0].ask(renew), NameMessage::Renewed { request: 4, missing: vec![] });
    for resolver in &mut all {
        assert_eq!(resolver.found(place(1)), [6]);
    }
}

#[test]
fn a_resolver_that_is_alone_says_so_and_works() {
    let mut alone = Resolver::new(0, &[]);
    alone.until("it says that it is alone", |resolver| resolver.notes.iter().any(|note| note.contains("is alone")));
    assert!(alone.stored.state().contains("alone"), "{}", alone.stored.state());
    assert_eq!(alone.put(&record(1, 5)), DONE);
    assert_eq!(alone.found(place(1)), [5]);
    let other = Resolver::new(1, &[alone.address]);
    alone.until("it is not any more", |resolver| resolver.notes.iter().any(|note| note.contains("has peers again")));
    assert!(alone.stored.state().contains("1 peers"), "{}", alone.stored.state());
    drop(other);
}

#[test]
fn a_resolver_without_room_says_so_to_people_and_to_those_who_put() {
    let mut one = Resolver::with(0, &KademliaOptions { records_max: 4, ..options(0, &[]) });
    let mut other = Resolver::new(1, &[one.address]);
    one.until("it is not alone", |resolver| resolver.stored.state().contains("1 peers"));
    other.until("nor is the other", |resolver| resolver.stored.state().contains("1 peers"));
    // A record, and that its device is there.
    assert_eq!((one.put(&record(1, 5)), one.put(&record(2, 5))), (DONE, DONE));
    let full = NameMessage::Refused { request: 2, refusal: Refusal::EngineFull };
    assert_eq!(one.put(&record(3, 5)), full);
    assert_eq!(one.found(place(1)), [5]);
    for owner in 4..12 {
        let now = Time::ZERO + other.clock.elapsed();
        let (record, place) = (record(owner, 5).encode(), place(owner));
        other.stored.handle(
            now,
            Asker { guid: place, address: NetworkAddress(1) },
            NameMessage::Put { request: 2, place, record },
        );
    }
    let begun = Instant::now();
    while !one.notes.iter().any(|note| note.contains("no room here") && note.contains("records_max")) {
        assert!(begun.elapsed() < PATIENCE, "{:?}", one.notes);
        one.turn();
        other.turn();
    }
    assert!(one.stored.stats.refused > 0);
}

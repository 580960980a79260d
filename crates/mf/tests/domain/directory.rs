//! Names that another service than the embedded one resolves: a directory that all nodes read and write.
use std::collections::VecDeque;

use super::*;
use tributary_mf::{
    ids::Guid,
    resolver::{Answer, NameResolver},
    wire::{NameMessage, NameRecord, Readers, RecordBody, RecordKey, Statement},
};

/// How often a watcher of a place checks.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Clone, Default)]
struct Directory(Arc<Mutex<BTreeMap<RecordKey, NameRecord>>>);

impl Directory {
    fn at(&self, place: Guid) -> Vec<NameRecord> {
        self.0.lock().unwrap().values().filter(|record| record.places().contains(&place)).cloned().collect()
    }
}

/// One node's view of it.
struct View {
    directory: Directory,
    key: SigningKey,
    version: u64,
    readers: BTreeMap<Guid, Readers>,
    watched: BTreeMap<Guid, Option<Vec<NameRecord>>>,
    answers: VecDeque<Answer>,
    look_at: Time,
}

impl View {
    fn new(directory: &Directory, key: SigningKey) -> View {
        View {
            directory: directory.clone(),
            key,
            version: 0,
            readers: BTreeMap::new(),
            watched: BTreeMap::new(),
            answers: VecDeque::new(),
            look_at: Time::ZERO,
        }
    }
}

impl NameResolver for View {
    fn put(&mut self, _: Time, body: RecordBody) {
        self.version += 1;
        let (key, version, label) = (self.key.public(), self.version, String::new());
        let mut statement =
            Statement { key, version, lifetime_ms: 60_000, ends: None, label, body, readers: Readers::All };
        statement.readers = self.readers.get(&statement.guid().unwrap()).cloned().unwrap_or(Readers::All);
        let record = NameRecord::sign(statement, &self.key).unwrap();
        self.answers.push_back(Answer::Kept(record.guid(), 1));
        self.directory.0.lock().unwrap().insert(record.key(), record);
    }
    fn set_readers(&mut self, _: Time, guid: Guid, readers: Readers) {
        self.readers.insert(guid, readers);
    }
    fn delete(&mut self, _: Time, guid: Guid) {
        let author = Guid::of(&self.key.public(), &[]);
        self.directory.0.lock().unwrap().retain(|_, record| (record.author(), record.guid()) != (author, guid));
    }
    fn lookup(&mut self, _: Time, place: Guid) {
        self.answers.push_back(Answer::Found(place, self.directory.at(place)));
    }
    fn watch(&mut self, now: Time, place: Guid) {
        self.watched.insert(place, None);
        self.look_at = now;
    }
    fn unwatch(&mut self, _: Time, place: Guid) {
        self.watched.remove(&place);
    }
    fn on_reachable(&mut self, _: Time) {}
    fn handle_message(&mut self, _: Time, _: NameMessage) {}
    fn handle_timeout(&mut self, now: Time) {
        for (place, known) in &mut self.watched {
            let found = self.directory.at(*place);
            if known.as_ref() != Some(&found) {
                *known = Some(found.clone());
                self.answers.push_back(Answer::Found(*place, found));
            }
        }
        self.look_at = now + LOOK;
    }
    fn poll_message(&mut self) -> Option<NameMessage> {
        None
    }
    fn poll_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }
    fn poll_timeout(&self) -> Option<Time> {
        (!self.watched.is_empty()).then_some(self.look_at)
    }
}

/// Two routers without name service, a publisher behind the first, and a receiver that moves from there to the second.
#[test]
fn names_may_be_resolved_by_another_service() {
    let mut domain = Domain::new(21);
    for label in ["r1", "r2"] {
        domain.node(label, |config| config.router = true);
    }
    for label in ["publisher", "receiver"] {
        domain.node(label, |_| {});
    }
    let directory = Directory::default();
    for label in ["r1", "r2", "publisher", "receiver"] {
        domain.with(label, |node, now| {
            let view = View::new(&directory, node.key().clone());
            node.set_resolver(now, Box::new(view));
        });
    }
    domain.link("r1", "r2", 100, ms(5));
    domain.link("publisher", "r1", 20, ms(1));
    domain.link("receiver", "r1", 20, ms(1));
    domain.link("receiver", "r2", 20, ms(1));
    domain.cut("receiver", "r2");
    let bytes = random_bytes(5_000_000, 1);
    domain.publish("publisher", object("/lab/film", bytes.clone()));
    let (id, content) = domain.fetch("receiver", "/lab/film");
    domain.run(Duration::from_secs(1));
    domain.cut("receiver", "r1");
    domain.mend("receiver", "r2");
    let took = domain.finish("receiver", id, 10).as_secs_f64();
    assert_eq!(content.finished(&name("/lab/film")).unwrap(), bytes);
    assert!(took < 4.0, "2 s of link, and a move: {took} s");
    domain.assert_conservation();
}

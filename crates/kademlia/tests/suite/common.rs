//! Peers of a test, and signed records.
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

use tributary_content::SigningKey;
use tributary_kademlia::{Kademlia, KademliaOptions};
use tributary_mf::{
    NameRecord, NameRules, Readers, RecordBody, Statement,
    ids::{Guid, NetworkAddress},
};
use tributary_transport::engine::{Answer, Engine, Entry, If, Lease, Peers, Priority, Request, Rules};

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);
pub(crate) const LEASE: Lease = Lease { id: 7, seconds: 600 };

/// Takes whatever its resolver puts; such a peer lies to others.
pub(crate) struct NoRules;
impl Rules for NoRules {
    fn group<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        NameRules.group(key)
    }
    fn accepts(&self, _: &Entry) -> bool {
        true
    }
}

pub(crate) struct Node {
    pub(crate) engine: Kademlia,
    next_id: u64,
    answers: BTreeMap<u64, Answer>,
    /// What was told unasked.
    pub(crate) told: Vec<Answer>,
    pub(crate) peers: Option<Peers>,
    /// All that were counted.
    pub(crate) forged: u64,
    pub(crate) refused: u64,
}

pub(crate) fn options(number: u16, peers: &[SocketAddr]) -> KademliaOptions {
    let mut secret = [9; 32];
    secret[..2].copy_from_slice(&number.to_be_bytes());
    KademliaOptions {
        listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        peers: peers.iter().map(SocketAddr::to_string).collect(),
        prefix: "/test/".into(),
        secret,
        records_max: 100_000,
        bytes_max: 64 << 20,
    }
}

impl Node {
    pub(crate) fn new(options: &KademliaOptions) -> Node {
        Node::with(options, Arc::new(NameRules))
    }
    pub(crate) fn with(options: &KademliaOptions, rules: Arc<dyn Rules>) -> Node {
        let engine = Kademlia::start(options, rules, || {}).unwrap();
        let (answers, told) = (BTreeMap::new(), Vec::new());
        Node { engine, next_id: 0, answers, told, peers: None, forged: 0, refused: 0 }
    }
    pub(crate) fn address(&self) -> SocketAddr {
        let begun = Instant::now();
        loop {
            if let Some(address) = self.engine.listeners().first() {
                return *address;
            }
            assert!(begun.elapsed() < PATIENCE);
            sleep(Duration::from_millis(2));
        }
    }
    pub(crate) fn settle(&mut self) {
        while let Some(answer) = self.engine.poll() {
            match (answer.id(), answer) {
                (Some(id), answer) => drop(self.answers.insert(id, answer)),
                (None, Answer::Peers(peers)) => {
                    self.peers = Some(peers);
                    self.forged += peers.forged;
                    self.refused += peers.refused;
                }
                (None, answer) => self.told.push(answer),
            }
        }
    }
    pub(crate) fn begin(&mut self, request: impl FnOnce(u64) -> Request) -> u64 {
        self.next_id += 1;
        self.engine.ask(request(self.next_id), Priority::Question);
        self.next_id
    }
    pub(crate) fn wait(&mut self, id: u64) -> Answer {
        let begun = Instant::now();
        loop {
            self.settle();
            if let Some(answer) = self.answers.remove(&id) {
                return answer;
            }
            assert!(begun.elapsed() < PATIENCE, "no answer");
            sleep(Duration::from_millis(1));
        }
    }
    pub(crate) fn put_as(&mut self, entry: &Entry, when: If, lease: Lease) -> Answer {
        let entry = entry.clone();
        let id = self.begin(|id| Request::Put { id, entry, when, lease });
        self.wait(id)
    }
    /// Puts a record until that is not refused, as devices do.
    pub(crate) fn put(&mut self, entry: &Entry, lease: Lease) {
        let begun = Instant::now();
        loop {
            match self.put_as(entry, If::Below(entry.version), lease) {
                Answer::Stored { .. } => return,
                answer => assert!(begun.elapsed() < PATIENCE, "{answer:?}"),
            }
        }
    }
    pub(crate) fn begin_list(&mut self, place: &Guid, after: Option<&[u8]>, count: u32) -> u64 {
        let from = after.map_or_else(|| group_of(place), |after| [after, &[0]].concat());
        let to = format!("r/{place}0").into_bytes();
        self.begin(|id| Request::List { id, from, to, count, at: None })
    }
    /// The versions that are found at a place; `None` if it could not be read.
    pub(crate) fn find(&mut self, place: &Guid) -> Option<Vec<u64>> {
        let id = self.begin_list(place, None, 1_000);
        self.found(id)
    }
    pub(crate) fn found(&mut self, id: u64) -> Option<Vec<u64>> {
        match self.wait(id) {
            Answer::Listed { entries, .. } => Some(entries.iter().map(|entry| entry.version).collect()),
            Answer::Failed { .. } => None,
            other => panic!("{other:?}"),
        }
    }
    pub(crate) fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Node) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < PATIENCE, "{what}: {:?}", self.peers);
            sleep(Duration::from_millis(20));
            self.settle();
        }
    }
    pub(crate) fn count(&self) -> u32 {
        self.peers.map_or(0, |peers| peers.count)
    }
}

/// Peers that know each other, or as many others as they have room for.
pub(crate) fn swarm(size: u16, change: impl Fn(&mut KademliaOptions)) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for number in 0..size {
        let first: Vec<SocketAddr> = nodes.first().map(Node::address).into_iter().collect();
        let mut options = options(number, &first);
        change(&mut options);
        nodes.push(Node::new(&options));
    }
    let others = u32::from(size - 1);
    for node in &mut nodes {
        node.until("it knows others", |node| node.count() >= others.min(15));
    }
    nodes
}

pub(crate) fn key(owner: u16) -> SigningKey {
    let mut secret = [0; 32];
    secret[..2].copy_from_slice(&owner.to_be_bytes());
    SigningKey::from_secret(&secret)
}
pub(crate) fn group_of(place: &Guid) -> Vec<u8> {
    format!("r/{place}/").into_bytes()
}
pub(crate) fn signed(owner: u16, version: u64, body: RecordBody) -> NameRecord {
    let key = key(owner);
    let statement = Statement {
        key: key.public(),
        version,
        lifetime_ms: 30_000,
        ends: None,
        label: "host".into(),
        body,
        readers: Readers::All,
    };
    NameRecord::sign(statement, &key).unwrap()
}
pub(crate) fn entry_at(place: &Guid, record: &NameRecord) -> Entry {
    let (author, guid) = record.key();
    let key = format!("r/{place}/{author}/{guid}").into_bytes();
    Entry { key, version: record.statement().version, value: [&[1], &record.encode()[..]].concat() }
}
/// A device's record of its own, and where it is.
pub(crate) fn device(owner: u16, version: u64) -> (Guid, Entry) {
    let record = signed(owner, version, RecordBody::Device(vec![(NetworkAddress(7), 255)]));
    let place = record.places()[0];
    (place, entry_at(&place, &record))
}
/// Whether a put has brought a record, or it was there; panics if it was refused.
pub(crate) fn is_new(answer: &Answer) -> bool {
    match answer {
        Answer::Stored { is_new, .. } => *is_new,
        other => panic!("{other:?}"),
    }
}

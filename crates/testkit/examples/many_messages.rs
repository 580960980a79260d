//! Messages for a device that is away and is killed while they arrive, from a sender that has left: all arrive, once.
//!
//! ```text
//! cargo run -p trib-testkit --features mf --example many_messages -- [COUNT [KILLS [SEED [BYTES_MAX [BATCH]]]]]
//!
//!   server ── 1000 ── a ── 100, 5 ms ── b ── 50, 5 ms ── phone
//! ```
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a program for people that measures"
)]
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Instant,
};

use bytes::Bytes;
use tributary_content::{ChunkRepository, MemoryObject, Name, ObjectReader, SigningKey, StoreError};
use tributary_core::{
    ByteCount, Duration, FaceId, Random, Rate,
    link::{LinkChange, LinkConfig, LinkState},
};
use tributary_mf::{Config, MfNode, sender::SendOptions};
use tributary_sim::{Connection, Network, NodeIndex};
use tributary_testkit::Inbox;
use tributary_transport::{Endpoint, FaceOptions, Messaging, messaging::AcceptOptions};

/// Messages that one life of the sender has in flight, by default.
const BATCH: u64 = 250;

/// A disk that outlives its router. Payloads are shared, not copied.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<Chunks>>);
/// Heads and payloads by their numbers.
type Chunks = BTreeMap<u64, (Vec<u8>, Bytes)>;

impl ChunkRepository for Disk {
    fn put(&mut self, id: u64, head: &[u8], payload: &[Bytes]) -> Result<(), StoreError> {
        self.0.lock().unwrap().insert(id, (head.into(), payload.concat().into()));
        Ok(())
    }
    fn remove(&mut self, id: u64) -> Result<(), StoreError> {
        self.0.lock().unwrap().remove(&id);
        Ok(())
    }
    fn commit(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    fn read(&mut self, id: u64) -> Result<Bytes, StoreError> {
        Ok(self.0.lock().unwrap()[&id].1.clone())
    }
    fn list(&mut self) -> Result<Vec<(u64, Vec<u8>, u64)>, StoreError> {
        let chunks = self.0.lock().unwrap();
        Ok(chunks.iter().map(|(id, (head, payload))| (*id, head.clone(), payload.len() as u64)).collect())
    }
}

struct Domain {
    net: Network<MfNode>,
    nodes: BTreeMap<&'static str, NodeIndex>,
    faces: BTreeMap<&'static str, u32>,
    disks: BTreeMap<&'static str, Disk>,
    seed: u64,
}

impl Domain {
    fn make(&mut self, label: &'static str) -> (Config, Disk) {
        self.seed += 1;
        let mut config = Config::new(label, self.seed);
        if ["a", "b"].contains(&label) {
            (config.router, config.resolver) = (true, true);
            let room = ByteCount(1 << 40);
            (config.proxy.capacity, config.proxy.flow_capacity, config.proxy.source_capacity) = (room, room, room);
            config.proxy.lifetime = Duration::from_secs(10_000_000);
        }
        (config, self.disks.entry(label).or_default().clone())
    }
    fn node(&mut self, label: &'static str) {
        let (config, disk) = self.make(label);
        let node = MfNode::with_repository(self.net.now(), config, Box::new(disk));
        self.nodes.insert(label, self.net.add_node(node));
    }
    fn link(&mut self, a: &'static str, b: &'static str, mbps: u64, delay_ms: u64) -> Connection {
        let mut end = |label: &'static str| {
            let face = self.faces.entry(label).or_default();
            *face += 1;
            (self.nodes[label], FaceId(*face))
        };
        let (a, b) = (end(a), end(b));
        let mut link = LinkConfig::new(Rate::from_mbps(mbps), Duration::from_millis(delay_ms));
        link.queue_bytes = 2_000_000;
        let connection = self.net.connect(a, b, link.clone(), link);
        for (node, face) in [a, b] {
            self.net.with(node, |node, now| node.add_face(now, face, FaceOptions { mtu: 1_472, rate: None }));
        }
        connection
    }
    fn restart(&mut self, label: &'static str) {
        let (config, disk) = self.make(label);
        let faces = self.faces[label];
        self.net.restart(self.nodes[label], |now| {
            let mut node = MfNode::with_repository(now, config, Box::new(disk));
            (1..=faces).for_each(|face| node.add_face(now, FaceId(face), FaceOptions { mtu: 1_472, rate: None }));
            node
        });
    }
    fn accept(&mut self, inbox: &Inbox) {
        let inbox = Box::new(inbox.clone());
        self.net.with(self.nodes["phone"], |node, now| {
            Messaging::accept(node, now, Some(inbox), &AcceptOptions::default());
        });
    }
    fn run(&mut self, millis: u64) {
        let until = self.net.now() + Duration::from_millis(millis);
        self.net.run_until(until);
    }
    fn at(&self, label: &str) -> &MfNode {
        self.net.node(self.nodes[label])
    }
}

#[expect(clippy::too_many_lines, reason = "the script of one measurement")]
fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let mut next = |usual| arguments.next().unwrap_or(usual);
    let (count, kills, seed, most) = (next(10_000) as u32, next(10), next(1), next(3_000_000));
    let at_once = next(BATCH) as u32;
    let (begun, mut random) = (Instant::now(), Random::new(seed, 7));
    let mut domain = Domain {
        net: Network::new(seed),
        nodes: BTreeMap::new(),
        faces: BTreeMap::new(),
        disks: BTreeMap::new(),
        seed: seed * 1_000_000,
    };
    ["server", "a", "b", "phone"].into_iter().for_each(|label| domain.node(label));
    domain.link("server", "a", 1_000, 1);
    domain.link("a", "b", 100, 5);
    let last = domain.link("b", "phone", 50, 5);
    domain.run(2_000);
    domain.net.change(last, LinkChange::State(LinkState::Down));
    domain.run(2_000);
    // Sizes from one byte on: most are small, all orders of magnitude occur.
    let pool: Bytes = (0..most + u64::from(count)).map(|at| (at * at / 7) as u8).collect();
    let key = SigningKey::from_secret(&[7; 32]);
    let to = domain.at("phone").guid();
    let (mut sent, mut bytes) = (0, 0);
    while sent < count {
        let batch = at_once.min(count - sent);
        let mut transfers = Vec::new();
        for number in sent..sent + batch {
            let part = random.below(1 << 20) as f64 / f64::from(1 << 20);
            let size = (most as f64).powf(part.powi(8)) as usize;
            bytes += size as u64;
            let name: Name = format!("/message/{number}").parse().unwrap();
            let content = pool.slice(number as usize..number as usize + size);
            let object = MemoryObject::new(name, content, &key).unwrap();
            let id = object.manifest().object_id();
            domain.net.with(domain.nodes["server"], |node, now| {
                node.offer(Box::new(object));
                let options = SendOptions::new(&node.config().transfer);
                transfers.extend(node.send(now, id, to, options));
            });
        }
        assert_eq!(transfers.len() as u32, batch, "all are taken");
        let is_stored = |domain: &Domain, transfer: &u32| {
            let report = domain.at("server").sender().report(*transfer);
            report.is_some_and(|report| report.stored_chunks == report.chunks)
        };
        let mut waited = 0;
        while !transfers.iter().all(|transfer| is_stored(&domain, transfer)) {
            domain.run(500);
            waited += 1;
            assert!(waited < 50_000, "the network does not keep them");
        }
        sent += batch;
        domain.net.kill(domain.nodes["server"]);
        domain.restart("server");
        domain.run(1_000);
    }
    domain.net.kill(domain.nodes["server"]);
    let stored_in = begun.elapsed();
    println!(
        "{count} messages of {} in all are stored; {:.1} s of real time",
        ByteCount(bytes),
        stored_in.as_secs_f64()
    );
    let inbox = Inbox::default();
    domain.net.change(last, LinkChange::State(LinkState::Up));
    domain.accept(&inbox);
    let start = domain.net.now();
    let mut at: Vec<usize> = (0..kills).map(|_| random.below(u64::from(count)) as usize).collect();
    at.sort_unstable();
    let mut killed = 0;
    while inbox.count() < count as usize {
        domain.run(1 + random.below(5));
        assert!(domain.net.now().since(start) < Duration::from_secs(1_000_000), "{} arrived", inbox.count());
        if at.first().is_some_and(|at| inbox.count() >= *at) {
            at.remove(0);
            killed += 1;
            domain.net.kill(domain.nodes["phone"]);
            inbox.crash();
            domain.run(random.below(2_000));
            domain.restart("phone");
            domain.accept(&inbox);
        }
    }
    let took = domain.net.now().since(start);
    domain.run(200_000);
    let came = inbox.came();
    assert!(came.len() == count as usize && came.values().all(|times| *times == 1), "each once");
    let left = ["a", "b"].map(|router| domain.at(router).holdings().len());
    assert_eq!(left, [0, 0], "nothing is kept of what has arrived");
    let stats = ["a", "b"].map(|router| domain.at(router).proxy().unwrap().stats);
    println!(
        "all {count} arrived once, {killed} kills of the receiver; {:.1} s of virtual time ({:.2} Mbit/s), {:.1} s of real \
         time; {} syncs; sent again: {} at a, {} at b",
        took.as_secs_f64(),
        bytes as f64 * 8e-6 / took.as_secs_f64(),
        (begun.elapsed() - stored_in).as_secs_f64(),
        inbox.syncs(),
        stats[0].timeouts,
        stats[1].timeouts
    );
}

//! Whole networks in virtual time: servers, routers with storage, name servers, and receivers that come and go.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test: a failed unwrap is a failed test")]

mod buckets;
mod contacts;
mod crowd;
mod custody;
mod directory;
mod disconnection;
mod ends;
mod fetches;
mod groups;
mod limits;
mod messages;
mod mobility;
mod names;
mod restarts;
mod uplinks;
mod weights;
mod wireless;

use std::{
    cell::RefCell,
    collections::BTreeMap,
    rc::Rc,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use tributary_content::{ChunkRepository, MemoryContent, MemoryObject, MemoryOpener, Name, SigningKey, StoreError};
use tributary_core::{
    Duration, FaceId, Random, Rate, Time, TransferId,
    event::{Event, TransferEvent, TransferReport},
    link::{LinkChange, LinkConfig, LinkState},
};
use tributary_mf::{Config, MfNode};
use tributary_sim::{Connection, Network, NodeIndex};
use tributary_transport::{Endpoint, FaceOptions, Fetch, PathMetric};

pub(crate) type Events = Rc<RefCell<Vec<(Time, NodeIndex, Event)>>>;

/// A network under construction or running.
pub(crate) struct Domain {
    pub net: Network<MfNode>,
    pub nodes: BTreeMap<String, NodeIndex>,
    configs: BTreeMap<String, Config>,
    faces: BTreeMap<String, Vec<FaceId>>,
    pub connections: BTreeMap<(String, String), Connection>,
    pub repositories: BTreeMap<String, Disk>,
    /// Where nodes keep names for others; only in memory without an entry.
    names: BTreeMap<String, Disk>,
    /// Where nodes keep parts of chunks; nowhere without an entry.
    pub partials: BTreeMap<String, Disk>,
    pub events: Events,
    seed: u64,
}

pub(crate) fn name(text: &str) -> Name {
    text.parse().unwrap()
}
pub(crate) fn random_bytes(len: usize, seed: u64) -> Bytes {
    let mut random = Random::new(seed, 99);
    (0..len.div_ceil(8)).flat_map(|_| random.bits().to_le_bytes()).take(len).collect()
}
pub(crate) fn object(text: &str, bytes: Bytes) -> MemoryObject {
    MemoryObject::new(name(text), bytes, &SigningKey::from_secret(&[7; 32])).unwrap()
}
pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Domain {
    pub(crate) fn new(seed: u64) -> Domain {
        let events = Events::default();
        let mut net = Network::new(seed);
        let log = Rc::clone(&events);
        net.set_observer(move |time, node, event| log.borrow_mut().push((time, node, event.clone())));
        Domain {
            net,
            nodes: BTreeMap::new(),
            configs: BTreeMap::new(),
            faces: BTreeMap::new(),
            connections: BTreeMap::new(),
            repositories: BTreeMap::new(),
            names: BTreeMap::new(),
            partials: BTreeMap::new(),
            events,
            seed,
        }
    }
    /// A network of hosts, routers (`*`) and links, each with its Mbit/s and its milliseconds each way.
    pub(crate) fn drawn(seed: u64, paths: &[&str]) -> Domain {
        Domain::drawn_with(seed, paths, |_, _| {})
    }
    /// The same with what `set` says of the nodes, by label.
    pub(crate) fn drawn_with(seed: u64, paths: &[&str], set: impl Fn(&str, &mut Config)) -> Domain {
        let mut domain = Domain::new(seed);
        for path in paths {
            let words: Vec<&str> = path.split(' ').collect();
            for word in words.iter().step_by(2) {
                let (label, is_router) = (word.trim_end_matches('*'), word.ends_with('*'));
                if !domain.nodes.contains_key(label) {
                    domain.node(label, |config| {
                        (config.router, config.resolver) = (is_router, is_router);
                        set(label, config);
                    });
                }
            }
            for hop in words.windows(3).step_by(2) {
                let [a, b] = [hop[0], hop[2]].map(|word| word.trim_end_matches('*'));
                let (mbps, millis) = hop[1].trim_matches('-').split_once(',').unwrap();
                domain.link(a, b, mbps.parse().unwrap(), ms(millis.parse().unwrap()));
            }
        }
        domain
    }
    /// Adds a node; `set` sets its roles.
    pub(crate) fn node(&mut self, label: &str, set: impl FnOnce(&mut Config)) -> NodeIndex {
        let mut config = Config::new(label, self.seed.wrapping_mul(1000) + self.nodes.len() as u64);
        set(&mut config);
        assert_eq!(config.check(), Ok(()));
        let disk = Disk::default();
        let node = MfNode::with_repository(Time::ZERO, config.clone(), Box::new(disk.clone()));
        let index = self.net.add_node(node);
        self.nodes.insert(label.into(), index);
        self.configs.insert(label.into(), config);
        self.repositories.insert(label.into(), disk);
        index
    }
    pub(crate) fn router(&mut self, label: &str) -> NodeIndex {
        self.node(label, |config| (config.router, config.resolver) = (true, true))
    }
    /// Connects two nodes with a link of `mbps` and `delay` each way.
    pub(crate) fn link(&mut self, a: &str, b: &str, mbps: u64, delay: Duration) {
        let rate = Rate::from_mbps(mbps);
        let mut config = LinkConfig::new(rate, delay);
        config.queue_bytes = rate.bytes_in(ms(200)).max(100_000);
        self.link_with(a, b, config);
    }
    pub(crate) fn link_with(&mut self, a: &str, b: &str, config: LinkConfig) {
        let mut end = |label: &str| {
            let faces = self.faces.entry(label.into()).or_default();
            let face = FaceId(faces.len() as u32 + 1);
            faces.push(face);
            (self.nodes[label], face)
        };
        let (a_end, b_end) = (end(a), end(b));
        let connection = self.net.connect(a_end, b_end, config.clone(), config);
        self.connections.insert((a.into(), b.into()), connection);
        for (node, face) in [a_end, b_end] {
            self.net.with(node, |node, now| node.add_face(now, face, FaceOptions { mtu: 1472, rate: None }));
        }
    }
    pub(crate) fn connection(&self, a: &str, b: &str) -> Connection {
        self.connections[&(a.to_string(), b.to_string())]
    }
    pub(crate) fn cut(&mut self, a: &str, b: &str) {
        let connection = self.connection(a, b);
        self.net.change(connection, LinkChange::State(LinkState::Down));
    }
    pub(crate) fn mend(&mut self, a: &str, b: &str) {
        let connection = self.connection(a, b);
        self.net.change(connection, LinkChange::State(LinkState::Up));
    }
    /// From now on a node keeps names for others on a disk.
    pub(crate) fn keep_names(&mut self, label: &str) {
        let disk = Disk::default();
        self.names.insert(label.into(), disk.clone());
        self.with(label, |node, now| node.keep_names(now, Box::new(disk)));
    }
    /// From now on a node keeps parts of interrupted chunks on a disk.
    pub(crate) fn keep_partials(&mut self, label: &str) {
        let disk = Disk::default();
        self.partials.insert(label.into(), disk.clone());
        self.with(label, |node, now| node.keep_partials(now, Box::new(disk)));
    }
    /// Kills a node at any moment; uncommitted data on its disk is lost.
    pub(crate) fn kill(&mut self, label: &str) {
        self.net.kill(self.nodes[label]);
        self.repositories[label].crash();
        [&self.names, &self.partials].iter().flat_map(|disks| disks.get(label)).for_each(Disk::crash);
    }
    /// Restarts it with its disk.
    pub(crate) fn restart(&mut self, label: &str) {
        let config = self.configs.get_mut(label).unwrap();
        config.seed += 1_000_003;
        let (config, faces, disk) = (config.clone(), self.faces[label].clone(), self.repositories[label].clone());
        let (names, partials) = (self.names.get(label).cloned(), self.partials.get(label).cloned());
        self.net.restart(self.nodes[label], |now| {
            let mut node = MfNode::with_repository(now, config, Box::new(disk));
            names.into_iter().for_each(|names| node.keep_names(now, Box::new(names)));
            partials.into_iter().for_each(|partials| node.keep_partials(now, Box::new(partials)));
            for face in faces {
                node.add_face(now, face, FaceOptions { mtu: 1472, rate: None });
            }
            node
        });
    }
    pub(crate) fn with<R>(&mut self, label: &str, command: impl FnOnce(&mut MfNode, Time) -> R) -> R {
        let node = self.nodes[label];
        self.net.with(node, command)
    }
    pub(crate) fn at(&self, label: &str) -> &MfNode {
        self.net.node(self.nodes[label])
    }
    pub(crate) fn publish(&mut self, label: &str, object: MemoryObject) {
        self.with(label, |node, now| node.publish(now, Box::new(object)));
    }
    pub(crate) fn fetch(&mut self, label: &str, what: &str) -> (TransferId, MemoryContent) {
        self.fetch_limited(label, what, None)
    }
    pub(crate) fn fetch_limited(
        &mut self,
        label: &str,
        what: &str,
        rate_limit: Option<Rate>,
    ) -> (TransferId, MemoryContent) {
        let opener = MemoryOpener::new();
        let content = opener.content();
        let fetch = Fetch {
            name: name(what),
            opener: Box::new(opener),
            rate_limit,
            paths_per_source: 1,
            metric: PathMetric::Hops,
            patience: None,
        };
        (self.with(label, |node, now| node.fetch(now, fetch)), content)
    }
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.net.now() + time;
        self.net.run_until(end);
    }
    /// Runs until a transfer of `label` ends; panics after `seconds`. Gives how long it took.
    pub(crate) fn finish(&mut self, label: &str, id: TransferId, seconds: u64) -> Duration {
        let (node, limit) = (self.nodes[label], self.net.now() + Duration::from_secs(seconds));
        self.net
            .run_while(limit, |net| net.node(node).report(net.now(), id).is_some_and(|report| report.ended.is_none()));
        let report = self.report(label, id);
        let Some(ended) = report.ended else {
            let last: Vec<_> = self.events.borrow().iter().rev().take(12).cloned().collect();
            panic!("not done at {}: {report:#?}\n{last:#?}", self.net.now());
        };
        assert_eq!(report.failure, None);
        ended.since(report.started)
    }
    pub(crate) fn report(&self, label: &str, id: TransferId) -> TransferReport {
        self.at(label).report(self.net.now(), id).unwrap()
    }
    /// Every chunk that entered a router is accounted for: forwarded, consumed, dropped or still there.
    pub(crate) fn assert_conservation(&self) {
        for (label, node) in &self.nodes {
            if self.net.is_alive(*node) {
                let router = self.net.node(*node).router();
                let stats = router.stats;
                let came = stats.arrived + stats.originated;
                let went = stats.sent + stats.consumed + stats.dropped + stats.returned;
                let held = router.buffer.len() as u64;
                assert!(came <= went + held, "{label}: {came} came, {went} went, {held} are here: {stats:?}");
                assert!(went <= came, "{label}: {went} went, {came} came: {stats:?}");
            }
        }
        for (index, _, _, link) in self.net.links() {
            let stats = link.stats();
            let out = stats.out_packets + stats.lost_packets + stats.dropped_packets + stats.oversize_packets;
            assert_eq!(stats.in_packets + stats.duplicated_packets, out + link.in_flight(), "{index:?}");
        }
    }
}

/// A disk that loses uncommitted data when its node is killed.
#[derive(Clone, Default)]
pub(crate) struct Disk(Arc<Mutex<DiskState>>);

#[derive(Clone, Default)]
struct DiskState {
    durable: BTreeMap<u64, (Vec<u8>, Bytes)>,
    current: BTreeMap<u64, (Vec<u8>, Bytes)>,
}

impl Disk {
    pub(crate) fn crash(&self) {
        let mut state = self.0.lock().unwrap();
        state.current = state.durable.clone();
    }
    /// Changes a byte of each chunk's payload: the last one.
    pub(crate) fn spoil(&self) {
        let mut state = self.0.lock().unwrap();
        let DiskState { durable, current } = &mut *state;
        for (_, payload) in durable.values_mut().chain(current.values_mut()) {
            let mut bytes = payload.to_vec();
            bytes.last_mut().into_iter().for_each(|last| *last ^= 1);
            *payload = bytes.into();
        }
    }
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().durable.len()
    }
}
impl ChunkRepository for Disk {
    fn put(&mut self, id: u64, head: &[u8], payload: &[Bytes]) -> Result<(), StoreError> {
        self.0.lock().unwrap().current.insert(id, (head.into(), payload.concat().into()));
        Ok(())
    }
    fn remove(&mut self, id: u64) -> Result<(), StoreError> {
        self.0.lock().unwrap().current.remove(&id);
        Ok(())
    }
    fn commit(&mut self) -> Result<(), StoreError> {
        let mut state = self.0.lock().unwrap();
        state.durable = state.current.clone();
        Ok(())
    }
    fn read(&mut self, id: u64) -> Result<Bytes, StoreError> {
        Ok(self.0.lock().unwrap().current[&id].1.clone())
    }
    fn list(&mut self) -> Result<Vec<(u64, Vec<u8>, u64)>, StoreError> {
        let state = self.0.lock().unwrap();
        Ok(state.current.iter().map(|(id, (head, payload))| (*id, head.clone(), payload.len() as u64)).collect())
    }
}

/// The paper's Fig. 7: server, two routers `rtt` apart, and a client on a last hop of 25 Mbit/s.
/// ```text
///   n1 ──1000── n2 ──1000, rtt── n3 ──25── n4
/// ```
pub(crate) fn figure_7(seed: u64, rtt: Duration, loss: f64, set: fn(&mut Config)) -> Domain {
    let mut domain = Domain::new(seed);
    domain.node("n1", set);
    for label in ["n2", "n3"] {
        domain.node(label, |config| {
            (config.router, config.resolver) = (true, true);
            set(config);
        });
    }
    domain.node("n4", set);
    domain.link("n1", "n2", 1_000, Duration::from_micros(100));
    domain.link("n2", "n3", 1_000, rtt / 2);
    let mut last = LinkConfig::new(Rate::from_mbps(25), ms(1));
    last.queue_bytes = 200_000;
    if loss > 0.0 {
        last.loss = tributary_core::link::Loss::Bernoulli(loss);
    }
    domain.link_with("n3", "n4", last);
    domain
}

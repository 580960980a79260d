//! Whole domains in virtual time: publishers, forwarders, rendezvous nodes, topology managers and receivers.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test: a failed unwrap is a failed test")]

mod control;
mod crowd;
mod fetches;
mod hostile;
mod offers;
mod restarts;
mod swarm;

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use bytes::Bytes;
use tributary_content::{MemoryContent, MemoryObject, MemoryOpener, Name, SigningKey};
use tributary_core::{
    Duration, FaceId, Random, Rate, Time, TransferId,
    event::{Event, ResolverEvent, TransferEvent, TransferReport},
    link::{LinkConfig, Loss},
};
use tributary_psi::{Config, PsiNode};
use tributary_sim::{Connection, Network, NodeIndex};
use tributary_transport::{Endpoint, FaceOptions, Fetch, PathMetric};

pub(crate) type Events = Rc<RefCell<Vec<(Time, NodeIndex, Event)>>>;

/// A domain under construction or running.
pub(crate) struct Domain {
    pub net: Network<PsiNode>,
    pub nodes: BTreeMap<String, NodeIndex>,
    configs: BTreeMap<String, Config>,
    faces: BTreeMap<String, Vec<(FaceId, Option<Rate>)>>,
    pub connections: BTreeMap<(String, String), Connection>,
    pub events: Events,
    seed: u64,
    /// What every link gets on top of its rate and delay.
    pub trouble: fn(&mut LinkConfig),
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
            events,
            seed,
            trouble: |_| {},
        }
    }
    /// Adds a node; `set` sets its roles.
    pub(crate) fn node(&mut self, label: &str, set: impl FnOnce(&mut Config)) -> NodeIndex {
        let mut config = Config::new(label, self.seed.wrapping_mul(1000) + self.nodes.len() as u64);
        set(&mut config);
        let index = self.net.add_node(PsiNode::new(config.clone()));
        self.nodes.insert(label.into(), index);
        self.configs.insert(label.into(), config);
        index
    }
    /// Connects two nodes with a link of `mbps` and `delay_ms` each way.
    pub(crate) fn link(&mut self, a: &str, b: &str, mbps: u64, delay_ms: u64) {
        let rate = Rate::from_mbps(mbps);
        let mut config = LinkConfig::new(rate, Duration::from_millis(delay_ms));
        config.queue_bytes = rate.bytes_in(Duration::from_millis(80)).max(100_000);
        config.mtu = 1472;
        (self.trouble)(&mut config);
        let mut end = |label: &str| {
            let faces = self.faces.entry(label.into()).or_default();
            let face = FaceId(faces.len() as u32 + 1);
            faces.push((face, Some(rate)));
            (self.nodes[label], face)
        };
        let (a_end, b_end) = (end(a), end(b));
        let connection = self.net.connect(a_end, b_end, config.clone(), config);
        self.connections.insert((a.into(), b.into()), connection);
        for (node, face) in [a_end, b_end] {
            self.net.with(node, |node, now| node.add_face(now, face, FaceOptions { mtu: 1472, rate: Some(rate) }));
        }
    }
    /// Kills a node and restarts it with an empty memory at `time`.
    pub(crate) fn kill(&mut self, label: &str) {
        self.net.kill(self.nodes[label]);
    }
    pub(crate) fn restart(&mut self, label: &str, prepare: impl FnOnce(&mut PsiNode, Time)) {
        let config = self.configs.get_mut(label).unwrap();
        config.seed += 1_000_003;
        let (config, faces) = (config.clone(), self.faces[label].clone());
        self.net.restart(self.nodes[label], |now| {
            let mut node = PsiNode::new(config);
            for (face, rate) in faces {
                node.add_face(now, face, FaceOptions { mtu: 1472, rate });
            }
            prepare(&mut node, now);
            node
        });
    }
    /// Ends a node without a message and restarts it at other faces of its neighbours, as a program does that binds to
    /// another port. The caller adds links with [`Domain::link`].
    pub(crate) fn restart_elsewhere(&mut self, label: &str) {
        self.kill(label);
        let config = self.configs.get_mut(label).unwrap();
        config.seed += 1_000_003;
        let index = self.net.add_node(PsiNode::new(config.clone()));
        self.faces.remove(label);
        self.nodes.insert(label.into(), index);
    }
    pub(crate) fn with<R>(&mut self, label: &str, command: impl FnOnce(&mut PsiNode, Time) -> R) -> R {
        let node = self.nodes[label];
        self.net.with(node, command)
    }
    pub(crate) fn publish(&mut self, label: &str, object: MemoryObject) {
        self.with(label, |node, now| node.publish(now, Box::new(object)));
    }
    pub(crate) fn fetch(&mut self, label: &str, what: &str) -> (TransferId, MemoryContent) {
        let opener = MemoryOpener::new();
        let content = opener.content();
        let fetch = Fetch {
            name: name(what),
            opener: Box::new(opener),
            rate_limit: None,
            paths_per_source: 4,
            metric: PathMetric::Hops,
            patience: Some(Duration::from_secs(20)),
        };
        (self.with(label, |node, now| node.fetch(now, fetch)), content)
    }
    pub(crate) fn run(&mut self, seconds: f64) {
        let end = self.net.now() + Duration::from_secs_f64(seconds);
        self.net.run_until(end);
    }
    /// Runs until a transfer of `label` ends; panics after `seconds`.
    pub(crate) fn finish(&mut self, label: &str, id: TransferId, seconds: f64) -> TransferReport {
        let (node, limit) = (self.nodes[label], self.net.now() + Duration::from_secs_f64(seconds));
        self.net
            .run_while(limit, |net| net.node(node).report(net.now(), id).is_some_and(|report| report.ended.is_none()));
        let report = self.net.node(node).report(self.net.now(), id).unwrap();
        assert!(report.ended.is_some(), "not done at {}: {report:#?}\n{:#?}", self.net.now(), self.reported(label));
        let failed = self
            .reported(label)
            .into_iter()
            .find(|e| matches!(e, Event::Transfer(t, TransferEvent::Failed { .. }) if *t == id));
        assert_eq!(failed, None);
        report
    }
    /// Every event of a node.
    pub(crate) fn reported(&self, label: &str) -> Vec<Event> {
        let node = self.nodes[label];
        self.events.borrow().iter().filter(|(_, n, _)| *n == node).map(|(.., event)| event.clone()).collect()
    }
    pub(crate) fn resolver_events(&self, label: &str) -> Vec<ResolverEvent> {
        let resolver = |event| if let Event::Resolver(event) = event { Some(event) } else { None };
        self.reported(label).into_iter().filter_map(resolver).collect()
    }
}

/// Three publishers, three forwarders with caches in a triangle, three rendezvous nodes, two topology managers, and a
/// receiver that is attached to all three forwarders:
/// ```text
///   pub-1 ──20── fn-1 ═══ fn-2 ──8── pub-2       receiver ══ fn-1, fn-2, fn-3
///     └────12──── fn-2    fn-3 ──16── pub-2      rn-1 ══ fn-1, rn-2 ══ fn-2, rn-3 ══ fn-3
///                          └──8── pub-3          tm-1 ══ fn-1, tm-2 ══ fn-3
/// ```
pub(crate) fn three_sources(seed: u64, trouble: fn(&mut LinkConfig)) -> Domain {
    let mut domain = Domain::new(seed);
    domain.trouble = trouble;
    for label in ["fn-1", "fn-2", "fn-3"] {
        domain.node(label, |config| config.router = true);
    }
    for label in ["rn-1", "rn-2", "rn-3"] {
        domain.node(label, |config| config.resolver = true);
    }
    domain.node("tm-1", |config| config.topology_manager = Some(20));
    domain.node("tm-2", |config| config.topology_manager = Some(10));
    for label in ["pub-1", "pub-2", "pub-3", "receiver"] {
        domain.node(label, |_| {});
    }
    for (a, b, mbps, delay) in [
        ("fn-1", "fn-2", 200, 2),
        ("fn-2", "fn-3", 200, 2),
        ("fn-3", "fn-1", 200, 2),
        ("rn-1", "fn-1", 100, 1),
        ("rn-2", "fn-2", 100, 1),
        ("rn-3", "fn-3", 100, 1),
        ("tm-1", "fn-1", 100, 1),
        ("tm-2", "fn-3", 100, 1),
        ("receiver", "fn-1", 100, 5),
        ("receiver", "fn-2", 100, 5),
        ("receiver", "fn-3", 100, 5),
        ("pub-1", "fn-1", 20, 10),
        ("pub-1", "fn-2", 12, 15),
        ("pub-2", "fn-2", 8, 5),
        ("pub-2", "fn-3", 16, 10),
        ("pub-3", "fn-3", 8, 20),
    ] {
        domain.link(a, b, mbps, delay);
    }
    domain
}
pub(crate) const CAPACITY_MBPS: f64 = 64.0;
/// The share of a link's rate that is payload: packets of 1,441 bytes in datagrams of at most 1,500.
pub(crate) const PAYLOAD_SHARE: f64 = 0.955;

pub(crate) fn lossy(share: f64) -> Loss {
    Loss::Bernoulli(share)
}

//! Nodes of MobilityFirst in a separate network, for experiments beyond fetches: page loads, messages, storage.
use std::{cell::RefCell, collections::BTreeMap, rc::Rc};
use tributary_content::{MemoryContent, MemoryObject, MemoryOpener, Name};
use tributary_core::{FaceId, Time, TransferId, event::Event};
use tributary_mf::{Config, MfNode};
use tributary_sim::{Connection, Network, NodeIndex};
use tributary_transport::{Endpoint, FaceOptions, Fetch, PathMetric};

use super::disk::{Disk, DiskClock, Speed};

use crate::simulation::{Host, Scenario};

/// Events of nodes, with node and time.
type Events = Rc<RefCell<Vec<(Time, NodeIndex, Event)>>>;

/// The nodes and links of a scenario; its workload and faults are left to the experiment.
pub(super) struct Nodes {
    pub(super) net: Network<MfNode>,
    places: BTreeMap<String, NodeIndex>,
    configs: BTreeMap<String, Config>,
    faces: BTreeMap<String, Vec<(FaceId, FaceOptions)>>,
    links: BTreeMap<String, Connection>,
    disks: BTreeMap<String, Disk>,
    clock: DiskClock,
    events: Events,
}

impl Nodes {
    /// Builds it. Every node has a [`Disk`] with immediate commits.
    pub(super) fn new(scenario: &Scenario) -> Nodes {
        Nodes::with_disks(scenario, None)
    }
    /// Builds it with disks of that speed.
    pub(super) fn with_disks(scenario: &Scenario, speed: Option<Speed>) -> Nodes {
        let clock = DiskClock::default();
        let events = Events::default();
        let mut net = Network::new(scenario.seed);
        let log = Rc::clone(&events);
        net.set_observer(move |time, node, event| {
            if let Event::Transfer(..) = event {
                log.borrow_mut().push((time, node, event.clone()));
            }
        });
        let (mut places, mut configs, mut disks) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for (number, node) in (0u64..).zip(&scenario.nodes) {
            let Host::Endpoint(config) = &node.host else { continue };
            let config = Config { seed: scenario.seed.wrapping_mul(1_000).wrapping_add(number), ..config.mf().clone() };
            let disk = Disk::new(speed, &clock);
            let made = MfNode::with_repository(Time::ZERO, config.clone(), Box::new(disk.clone()));
            places.insert(node.label.clone(), net.add_node(made));
            configs.insert(node.label.clone(), config);
            disks.insert(node.label.clone(), disk);
        }
        let mut faces: BTreeMap<String, Vec<(FaceId, FaceOptions)>> = BTreeMap::new();
        let mut links = BTreeMap::new();
        for link in &scenario.links {
            let ends = [(&link.ends[0], &link.forward), (&link.ends[1], &link.backward)];
            let ends = ends.map(|(label, config)| {
                let of = faces.entry(label.clone()).or_default();
                let face = FaceId(of.len() as u32 + 1);
                of.push((face, FaceOptions { mtu: config.mtu, rate: config.rate }));
                (places[label], face)
            });
            let connection = net.connect(ends[0], ends[1], link.forward.clone(), link.backward.clone());
            links.insert(link.name.clone(), connection);
        }
        let mut nodes = Nodes { net, places, configs, faces, links, disks, clock, events };
        let labels: Vec<String> = nodes.places.keys().cloned().collect();
        for label in labels {
            for (face, options) in nodes.faces.get(&label).cloned().unwrap_or_default() {
                nodes.with(&label, |node, now| node.add_face(now, face, options));
            }
        }
        nodes
    }
    /// The place of a node.
    pub(super) fn place(&self, label: &str) -> NodeIndex {
        self.places[label]
    }
    /// A node, to look at.
    pub(super) fn at(&self, label: &str) -> &MfNode {
        self.net.node(self.places[label])
    }
    /// Passes a command to a node.
    pub(super) fn with<R>(&mut self, label: &str, command: impl FnOnce(&mut MfNode, Time) -> R) -> R {
        self.net.with(self.places[label], command)
    }
    /// A link by its name.
    pub(super) fn link(&self, name: &str) -> Connection {
        self.links[name]
    }
    /// Kills a node; its uncommitted data is lost.
    pub(super) fn kill(&mut self, label: &str) {
        self.net.kill(self.places[label]);
        self.disks[label].crash();
    }
    /// Starts it again with the data on its disk.
    pub(super) fn restart(&mut self, label: &str) {
        let config = self.configs.get_mut(label).expect("the node is there");
        config.seed = config.seed.wrapping_add(1_000_003);
        let (config, disk) = (config.clone(), self.disks[label].clone());
        let faces = self.faces.get(label).cloned().unwrap_or_default();
        self.net.restart(self.places[label], |now| {
            let mut node = MfNode::with_repository(now, config, Box::new(disk));
            faces.into_iter().for_each(|(face, options)| node.add_face(now, face, options));
            node
        });
    }
    pub(super) fn publish(&mut self, label: &str, object: MemoryObject) {
        self.with(label, |node, now| node.publish(now, Box::new(object)));
    }
    /// Starts a fetch into memory.
    pub(super) fn fetch(&mut self, label: &str, name: Name) -> (TransferId, MemoryContent) {
        let opener = MemoryOpener::new();
        let content = opener.content();
        let fetch = Fetch {
            name,
            opener: Box::new(opener),
            rate_limit: None,
            paths_per_source: 1,
            metric: PathMetric::Hops,
            patience: None,
        };
        (self.with(label, |node, now| node.fetch(now, fetch)), content)
    }
    /// Runs until `end`, keeping the disks' time up to date.
    pub(super) fn run_until(&mut self, end: Time) {
        let clock = self.clock.clone();
        self.net.run_while(end, |net| {
            clock.set(net.now());
            true
        });
    }
    /// Runs until a transfer emits an event or until `limit`; returns the events.
    pub(super) fn run_to_event(&mut self, limit: Time) -> Vec<(Time, NodeIndex, Event)> {
        let events = Rc::clone(&self.events);
        let clock = self.clock.clone();
        self.net.run_while(limit, |net| {
            clock.set(net.now());
            events.borrow().is_empty()
        });
        self.events.take()
    }
    /// Unaccounted packets.
    pub(super) fn unaccounted_packets(&self) -> u64 {
        self.net.links().map(|(.., link)| link.stats().unaccounted_packets(link.in_flight())).sum()
    }
}

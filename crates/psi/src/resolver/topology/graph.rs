//! The domain as the link-state messages show it.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use tributary_core::{Duration, FaceId, Location, NodeId, Time};
use tributary_transport::{Cadence, PathMetric};

use crate::{
    ids::Roles,
    router::labels::LabelKey,
    wire::{Adjacency, LinkState},
};

/// The newest link state of each node.
pub struct LinkStates {
    nodes_max: usize,
    links_max: usize,
    silence: Duration,
    records: BTreeMap<NodeId, Record>,
    links: usize,
    /// The highest term that any node saw.
    pub term: u32,
}

/// Earlier boot numbers remembered per node. Boot numbers have no order: a message of a superseded boot is late.
const RUNS_MAX: usize = 8;
/// Maximum step between two message numbers. A node numbers its messages one by one and is forgotten when it is silent,
/// so a larger step is a forgery, and would make the node's next messages count as old.
const STEP_MAX: u32 = 1_024;

struct Record {
    state: LinkState,
    /// Earlier runs and the last number of each. A run that continues its numbering has not ended, despite forged
    /// messages in its name.
    earlier: Vec<(u64, u32)>,
    heard: Time,
    /// The interval of its messages: longer than usual over a slow link.
    cadence: Cadence,
}

impl Record {
    /// When the node is forgotten: after three of its messages and a little, and not before `silence`.
    fn expires(&self, silence: Duration) -> Time {
        self.heard + (self.cadence.interval(Duration::ZERO) * 16 / 5).max(silence)
    }
}

/// What a link-state message changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Change {
    /// Nothing.
    None,
    /// Round-trip times or loads.
    Metrics,
    /// Capacities, MTUs or labels for people: offers that use the node's links change, the graph does not.
    Properties,
    /// Links, nodes, roles, locations or secrets.
    Reshaped,
}

/// The reasons for which a link-state message is refused.
pub mod reason {
    /// Older than the known state.
    pub const STALE: &str = "link state is stale";
    /// More nodes than configured.
    pub const NODES: &str = "too many nodes in the domain";
    /// More links than configured.
    pub const LINKS: &str = "too many links in the domain";
    /// Two links on one face, or the "no node" id.
    pub const ILLEGAL: &str = "link state makes no sense";
}

impl LinkStates {
    /// An empty domain. A node that is silent for `silence` is forgotten.
    pub fn new(nodes_max: usize, links_max: usize, silence: Duration) -> LinkStates {
        LinkStates { nodes_max, links_max, silence, records: BTreeMap::new(), links: 0, term: 0 }
    }
    /// Merges a link-state message.
    ///
    /// # Errors
    /// One of the phrases in [`reason`], if it is refused.
    pub fn handle(&mut self, now: Time, mut state: LinkState) -> Result<Change, &'static str> {
        state.adjacencies.sort_by_key(|adjacency| adjacency.face);
        let twice = state.adjacencies.windows(2).any(|pair| pair[0].face == pair[1].face);
        if twice || state.node == NodeId::NONE {
            return Err(reason::ILLEGAL);
        }
        let known = self.records.get(&state.node);
        let mut earlier = known.map(|known| known.earlier.clone()).unwrap_or_default();
        if let Some(known) = known {
            let before = earlier.iter().position(|(boot, _)| *boot == state.boot);
            let last = match before {
                Some(at) => Some(earlier[at].1),
                None => (known.state.boot == state.boot).then_some(known.state.sequence),
            };
            if last.is_some_and(|last| state.sequence <= last || state.sequence - last > STEP_MAX) {
                return Err(reason::STALE);
            }
            if known.state.boot != state.boot {
                before.into_iter().for_each(|at| _ = earlier.remove(at));
                earlier.truncate(RUNS_MAX - 1);
                earlier.insert(0, (known.state.boot, known.state.sequence));
            }
        } else if self.records.len() >= self.nodes_max {
            return Err(reason::NODES);
        }
        let before = known.map_or(0, |known| known.state.adjacencies.len());
        let links = self.links - before + state.adjacencies.len();
        if links > self.links_max {
            return Err(reason::LINKS);
        }
        let change = known.map_or(Change::Reshaped, |known| change(&known.state, &state));
        let mut cadence = known.map(|known| known.cadence).unwrap_or_default();
        cadence.on_message(now);
        self.links = links;
        self.term = self.term.max(state.term);
        self.records.insert(state.node, Record { state, earlier, heard: now, cadence });
        Ok(change)
    }
    /// Forgets silent nodes, and returns them.
    pub fn expire(&mut self, now: Time) -> Vec<NodeId> {
        let silence = self.silence;
        let gone = self.records.iter().filter(|(_, record)| record.expires(silence) <= now);
        let gone: Vec<NodeId> = gone.map(|(node, _)| *node).collect();
        for node in &gone {
            if let Some(record) = self.records.remove(node) {
                self.links -= record.state.adjacencies.len();
            }
        }
        gone
    }
    /// When [`LinkStates::expire`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.records.values().map(|record| record.expires(self.silence)).min()
    }
    /// The last link state of a node.
    pub fn get(&self, node: NodeId) -> Option<&LinkState> {
        self.records.get(&node).map(|record| &record.state)
    }
    /// The domain as it is now.
    pub fn graph(&self) -> Graph {
        let states: Vec<&LinkState> = self.records.values().map(|record| &record.state).collect();
        Graph::new(&states)
    }
}

fn change(old: &LinkState, new: &LinkState) -> Change {
    let itself = |state: &LinkState| (state.secret, state.roles, state.boot, state.location);
    if itself(old) != itself(new) {
        return Change::Reshaped;
    }
    let end = |adjacency: &Adjacency| (adjacency.face, adjacency.neighbour, adjacency.neighbour_face);
    let has = |state: &LinkState, wanted: &Adjacency| state.adjacencies.iter().any(|link| end(link) == end(wanted));
    if old.adjacencies.len() != new.adjacencies.len() || new.adjacencies.iter().any(|link| !has(old, link)) {
        return Change::Reshaped;
    }
    let pairs = || old.adjacencies.iter().zip(&new.adjacencies);
    if old.label != new.label || pairs().any(|(a, b)| (a.capacity_kbps, a.mtu) != (b.capacity_kbps, b.mtu)) {
        return Change::Properties;
    }
    if pairs().any(|(a, b)| a != b) { Change::Metrics } else { Change::None }
}

/// The domain as a directed graph. Nodes and links are numbered in the order of node ids and faces, so that equal
/// link states give equal graphs.
#[derive(Clone)]
pub struct Graph {
    nodes: Vec<Node>,
    links: Vec<Link>,
    index: BTreeMap<NodeId, NodeIndex>,
}

/// A node in a [`Graph`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeIndex(pub u32);

/// A directed link in a [`Graph`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkIndex(pub u32);

/// A directed link, identified by its stable properties: the sending node and its face.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkKey {
    /// The sending node.
    pub node: NodeId,
    /// Its face.
    pub face: FaceId,
}

impl LinkKey {
    /// A number below 2²⁶ that differs between links: 63 of them stay below [`HOP`].
    fn lot(self) -> u64 {
        let mixed = (self.node.0 ^ u64::from(self.face.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(LOT_FACTOR);
        (mixed ^ mixed >> 32).wrapping_mul(LOT_FACTOR) >> 38
    }
}

/// A two-way link as far as paths depend on it, besides its cost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Way {
    /// Its name.
    pub key: LinkKey,
    /// Where it ends.
    pub to: NodeId,
    /// Whether packets may pass through the node where it starts, and through the one where it ends.
    pub is_transit: [bool; 2],
}

/// A node.
#[derive(Clone)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// Boot number; another one after each start.
    pub boot: u64,
    /// Its human-readable name.
    pub label: String,
    /// Its roles.
    pub roles: Roles,
    /// What its labels are made from.
    pub key: LabelKey,
    /// Its location, if known.
    pub location: Option<Location>,
    secret: [u8; 16],
    first_link: u32,
    links: u32,
    arriving: Vec<LinkIndex>,
}

/// A directed link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Where it starts.
    pub from: NodeIndex,
    /// The face that it leaves by.
    pub face: FaceId,
    /// Its far end and the reverse link: only if both ends announce it (two-way check). No route uses a link without
    /// this, but its sending end does forward packets whose FID matches.
    pub two_way: Option<(NodeIndex, LinkIndex)>,
    /// As its sending end reported it.
    pub adjacency: Adjacency,
}

impl Graph {
    /// The graph of these link states, each of another node, adjacencies in order of faces.
    pub fn new(states: &[&LinkState]) -> Graph {
        let mut states: Vec<&LinkState> = states.into();
        states.sort_by_key(|state| state.node);
        let index: BTreeMap<NodeId, NodeIndex> =
            states.iter().enumerate().map(|(i, state)| (state.node, NodeIndex(i as u32))).collect();
        let mut nodes = Vec::with_capacity(states.len());
        let mut links = Vec::new();
        for (i, state) in states.iter().enumerate() {
            nodes.push(Node {
                id: state.node,
                boot: state.boot,
                label: state.label.clone(),
                roles: state.roles,
                key: LabelKey::new(&state.secret),
                location: state.location,
                secret: state.secret,
                first_link: links.len() as u32,
                links: state.adjacencies.len() as u32,
                arriving: Vec::new(),
            });
            let from = NodeIndex(i as u32);
            links.extend(state.adjacencies.iter().map(|adjacency| Link {
                from,
                face: adjacency.face,
                two_way: None,
                adjacency: *adjacency,
            }));
        }
        let mut graph = Graph { nodes, links, index };
        for i in 0..graph.links.len() {
            let link = graph.links[i];
            let Some(to) = graph.node(link.adjacency.neighbour) else { continue };
            let back = graph.links_of(to).find(|back| {
                let other = graph.link(*back);
                other.face == link.adjacency.neighbour_face
                    && other.adjacency.neighbour == graph.nodes[link.from.0 as usize].id
                    && other.adjacency.neighbour_face == link.face
            });
            if let Some(back) = back
                && to != link.from
            {
                graph.links[i].two_way = Some((to, back));
                graph.nodes[to.0 as usize].arriving.push(LinkIndex(i as u32));
            }
        }
        graph
    }
    /// The number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }
    /// The number of directed links.
    pub fn link_count(&self) -> usize {
        self.links.len()
    }
    /// The node with this id.
    pub fn node(&self, id: NodeId) -> Option<NodeIndex> {
        self.index.get(&id).copied()
    }
    /// The node at an index.
    pub fn node_info(&self, node: NodeIndex) -> &Node {
        &self.nodes[node.0 as usize]
    }
    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = NodeIndex> + use<> {
        (0..self.nodes.len() as u32).map(NodeIndex)
    }
    /// The link at an index.
    pub fn link(&self, link: LinkIndex) -> &Link {
        &self.links[link.0 as usize]
    }
    /// The links that leave a node, one-way ones included.
    pub fn links_of(&self, node: NodeIndex) -> impl Iterator<Item = LinkIndex> + use<> {
        let node = &self.nodes[node.0 as usize];
        (node.first_link..node.first_link + node.links).map(LinkIndex)
    }
    /// The two-way links that arrive at a node.
    pub fn links_into(&self, node: NodeIndex) -> &[LinkIndex] {
        &self.nodes[node.0 as usize].arriving
    }
    /// The far end of a two-way link.
    pub fn end_of(&self, link: LinkIndex) -> Option<NodeIndex> {
        self.link(link).two_way.map(|(to, _)| to)
    }
    /// The link that leads back.
    pub fn reverse_of(&self, link: LinkIndex) -> Option<LinkIndex> {
        self.link(link).two_way.map(|(_, back)| back)
    }
    /// A link's name that holds in later graphs too.
    pub fn key_of(&self, link: LinkIndex) -> LinkKey {
        self.key_of_link(self.link(link))
    }
    fn key_of_link(&self, link: &Link) -> LinkKey {
        LinkKey { node: self.node_info(link.from).id, face: link.face }
    }
    /// The link with this name, if it exists and is two-way.
    pub fn find(&self, key: LinkKey) -> Option<LinkIndex> {
        let node = &self.nodes[self.node(key.node)?.0 as usize];
        let own = &self.links[node.first_link as usize..(node.first_link + node.links) as usize];
        let at = own.binary_search_by_key(&key.face, |link| link.face).ok()?;
        own[at].two_way.map(|_| LinkIndex(node.first_link + at as u32))
    }
    /// Whether packets may pass through a node on their way.
    pub fn is_transit(&self, node: NodeIndex) -> bool {
        self.node_info(node).roles.contains(Roles::ROUTER)
    }
    /// The nodes of this graph that are not in `earlier` with the same label secret, and the nodes of `earlier` that
    /// are missing: a node that has been away may have returned with another secret.
    pub fn renewed(&self, earlier: &Graph) -> BTreeSet<NodeId> {
        let known = |graph: &Graph, node: &Node| {
            graph.node(node.id).is_some_and(|index| graph.node_info(index).secret == node.secret)
        };
        let new = self.nodes.iter().filter(|node| !known(earlier, node));
        let gone = earlier.nodes.iter().filter(|node| !known(self, node));
        new.chain(gone).map(|node| node.id).collect()
    }
    /// The two-way links, in order of their names.
    pub fn ways(&self) -> Vec<Way> {
        let ways = self.links.iter().filter_map(|link| {
            let (to, _) = link.two_way?;
            let key = self.key_of_link(link);
            let is_transit = [link.from, to].map(|node| self.is_transit(node));
            Some(Way { key, to: self.node_info(to).id, is_transit })
        });
        ways.collect()
    }
    /// The length in links of the longest of the shortest paths, as found by two sweeps: exact on trees.
    pub fn diameter(&self) -> u32 {
        let farthest = |from: NodeIndex| {
            let mut seen = alloc::vec![false; self.nodes.len()];
            let (mut open, mut distance, mut last) = (Vec::from([from]), 0, from);
            seen[from.0 as usize] = true;
            while !open.is_empty() {
                last = open[0];
                let mut next = Vec::new();
                for node in open.into_iter().filter(|node| *node == from || self.is_transit(*node)) {
                    for to in self.links_of(node).filter_map(|link| self.end_of(link)) {
                        if !core::mem::replace(&mut seen[to.0 as usize], true) {
                            next.push(to);
                        }
                    }
                }
                distance += u32::from(!next.is_empty());
                open = next;
            }
            (last, distance)
        };
        if self.nodes.is_empty() {
            return 0;
        }
        let (end, _) = farthest(NodeIndex(0));
        farthest(end).1
    }
    /// The cost of each link by `metric`; at least 1.
    ///
    /// Hops: 2³² and a little, by which no two paths cost the same. Latency: half the round-trip time in microseconds, plus 10 for the hop itself. Residual capacity: 10⁹
    /// over the unused rate in kbit/s, where an unknown capacity counts as 1 Gbit/s. Distance: the microseconds that
    /// light needs in fibre between its ends, plus 10; if an end has no position, as for latency.
    pub fn costs(&self, metric: PathMetric) -> Vec<u64> {
        let latency = |link: &Link| u64::from(link.adjacency.rtt_us / 2) + HOP_US;
        let cost = |link: &Link| match metric {
            // Among paths of equally many hops, the links' names decide, whatever other links there are.
            PathMetric::Hops => HOP + self.key_of_link(link).lot(),
            PathMetric::Latency => latency(link),
            PathMetric::Distance => match self.length_km(link) {
                Some(km) => (km * FIBRE_US_PER_KM) as u64 + HOP_US,
                None => latency(link),
            },
            PathMetric::ResidualCapacity => {
                1_000_000_000 / u64::from(residual_kbps(&link.adjacency).clamp(1, 1_000_000_000))
            }
        };
        self.links.iter().map(cost).collect()
    }
    /// The distance between the ends of a link, if both have positions.
    fn length_km(&self, link: &Link) -> Option<f64> {
        let (to, _) = link.two_way?;
        Some(self.node_info(link.from).location?.distance_km(self.node_info(to).location?))
    }
}

/// The cost of a hop besides its delay, so that among equally long paths the one with fewer links wins.
const HOP_US: u64 = 10;
/// The cost of a hop where only hops count.
const HOP: u64 = 1 << 32;
/// An odd number with half of its bits set; another one would choose other paths of equally many hops.
const LOT_FACTOR: u64 = 0x9fb2_1c65_1e98_df25;
const FIBRE_US_PER_KM: f64 = 5.0;

/// The unused rate of a link in kbit/s; 1 Gbit/s minus the used rate if the capacity is unknown.
pub fn residual_kbps(adjacency: &Adjacency) -> u32 {
    let capacity = if adjacency.capacity_kbps == 0 { 1_000_000 } else { adjacency.capacity_kbps };
    capacity.saturating_sub(adjacency.used_kbps)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use alloc::format;
    use proptest::prelude::*;
    use tributary_core::Random;

    /// Link states of nodes 1..=n with these undirected links; faces are numbered per node from 0.
    pub(crate) fn states(count: usize, links: &[(usize, usize)]) -> Vec<LinkState> {
        let mut states: Vec<LinkState> = (0..count)
            .map(|i| LinkState {
                node: NodeId(i as u64 + 1),
                boot: 1,
                sequence: 1,
                term: 0,
                roles: Roles::ROUTER,
                label: format!("n{}", i + 1),
                secret: *blake3::hash(&i.to_be_bytes()).as_bytes().first_chunk().unwrap(),
                location: None,
                adjacencies: Vec::new(),
            })
            .collect();
        for (a, b) in links {
            let faces = [states[*a].adjacencies.len() as u32, states[*b].adjacencies.len() as u32];
            for (from, to, own, other) in [(*a, *b, faces[0], faces[1]), (*b, *a, faces[1], faces[0])] {
                states[from].adjacencies.push(Adjacency {
                    face: FaceId(own),
                    neighbour: NodeId(to as u64 + 1),
                    neighbour_face: FaceId(other),
                    rtt_us: 1000,
                    capacity_kbps: 10_000,
                    used_kbps: 0,
                    mtu: 1472,
                });
            }
        }
        states
    }
    pub(crate) fn graph(count: usize, links: &[(usize, usize)]) -> Graph {
        let states = states(count, links);
        Graph::new(&states.iter().collect::<Vec<_>>())
    }
    /// A connected random graph: a random tree and `extra` more links, no two between the same nodes.
    pub(crate) fn random_links(random: &mut Random, count: usize, extra: usize) -> Vec<(usize, usize)> {
        let mut links: Vec<(usize, usize)> = (1..count).map(|i| (random.below(i as u64) as usize, i)).collect();
        for _ in 0..extra {
            let a = random.below(count as u64) as usize;
            let b = random.below(count as u64) as usize;
            if a != b && !links.contains(&(a, b)) && !links.contains(&(b, a)) {
                links.push((a, b));
            }
        }
        links
    }

    fn domain() -> (LinkStates, Vec<LinkState>) {
        let mut domain = LinkStates::new(3, 6, Duration::from_secs(15));
        let states = states(3, &[(0, 1), (1, 2)]);
        for state in &states {
            assert_eq!(domain.handle(Time::ZERO, state.clone()), Ok(Change::Reshaped));
        }
        (domain, states)
    }

    #[test]
    fn a_link_counts_when_both_ends_report_it() {
        let (mut domain, states) = domain();
        let graph = domain.graph();
        assert_eq!(
            graph.nodes().flat_map(|node| graph.links_of(node)).filter_map(|link| graph.end_of(link)).count(),
            4
        );
        let mut one_sided = states[0].clone();
        one_sided.sequence = 2;
        one_sided.adjacencies.clear();
        assert_eq!(domain.handle(Time::ZERO, one_sided), Ok(Change::Reshaped));
        let graph = domain.graph();
        assert_eq!(graph.link_count(), 3);
        assert_eq!(graph.links_into(NodeIndex(0)), []);
        let key = LinkKey { node: NodeId(2), face: FaceId(0) };
        assert_eq!(graph.find(key), None);
        assert_eq!(graph.find(LinkKey { face: FaceId(1), ..key }).map(|link| graph.key_of(link).face), Some(FaceId(1)));
    }

    proptest! {
        /// Boots follow each other; the messages of each come in any order and several times, mixed with messages of
        /// the boots before.
        #[test]
        fn link_states_in_any_order_and_often_leave_what_the_last_run_said_last(
            runs in prop::collection::vec(1u32..5, 1..6),
            order in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 40),
        ) {
            let template = states(1, &[]).remove(0);
            let mut domain = LinkStates::new(9, 9, Duration::from_secs(100));
            let mut stated: Vec<LinkState> = Vec::new();
            let mut picks = order.iter();
            for (run, count) in runs.iter().enumerate() {
                // If no message of a boot arrived before the next boot, its end cannot be recognised.
                let boot = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(run as u64 + 1);
                let label = |sequence: u32| format!("{run}.{sequence}");
                let of_run: Vec<LinkState> = (1..=*count)
                    .map(|sequence| LinkState { boot, sequence, label: label(sequence), ..template.clone() })
                    .collect();
                stated.extend(of_run.iter().cloned());
                let mut sent: Vec<&LinkState> =
                    picks.by_ref().take(6).map(|(at, old)| if *old { at.get(&stated) } else { at.get(&of_run) }).collect();
                sent.extend(of_run.iter().rev());
                for state in sent {
                    let _ = domain.handle(Time::ZERO, state.clone());
                }
                let last = of_run.last().unwrap();
                prop_assert_eq!(domain.get(template.node).map(|state| &state.label), Some(&last.label));
            }
        }
    }

    #[test]
    fn stale_and_oversized_messages_are_refused() {
        let (mut domain, states) = domain();
        assert_eq!(domain.handle(Time::ZERO, states[0].clone()), Err(reason::STALE));
        let restarted = LinkState { boot: 9, sequence: 1, ..states[0].clone() };
        assert_eq!(domain.handle(Time::ZERO, restarted), Ok(Change::Reshaped));
        assert_eq!(domain.handle(Time::ZERO, states[0].clone()), Err(reason::STALE), "of the run before");
        let fourth = LinkState { node: NodeId(4), ..states[0].clone() };
        assert_eq!(domain.handle(Time::ZERO, fourth), Err(reason::NODES));
        let mut more = LinkState { sequence: 2, ..states[2].clone() };
        more.adjacencies.extend((1..4).map(|i| Adjacency { face: FaceId(i), ..states[2].adjacencies[0] }));
        assert_eq!(domain.handle(Time::ZERO, more.clone()), Err(reason::LINKS));
        more.adjacencies[1].face = more.adjacencies[0].face;
        assert_eq!(domain.handle(Time::ZERO, more), Err(reason::ILLEGAL));
    }

    #[test]
    fn what_is_said_in_the_name_of_a_node_silences_it_for_no_longer_than_until_its_next_message() {
        let (mut domain, states) = domain();
        let own = |sequence| LinkState { sequence, ..states[0].clone() };
        for forged in 0..20 {
            // A forged restart with no links left.
            let gone = LinkState { boot: 100 + forged, sequence: u32::MAX, adjacencies: Vec::new(), ..own(1) };
            assert!(domain.handle(Time::ZERO, gone).is_ok());
            let back = domain.handle(Time::ZERO, own(forged as u32 + 2));
            assert_eq!(back, Ok(Change::Reshaped));
            assert_eq!(domain.get(states[0].node).map(|state| state.adjacencies.len()), Some(1));
        }
        // With a number that it reaches never.
        assert_eq!(domain.handle(Time::ZERO, own(u32::MAX)), Err(reason::STALE));
        assert!(domain.handle(Time::ZERO, own(50)).is_ok());
    }

    #[test]
    fn changes_are_reported_apart() {
        let (mut domain, states) = domain();
        let mut state = states[1].clone();
        let mut send = |edit: &dyn Fn(&mut LinkState)| {
            state.sequence += 1;
            edit(&mut state);
            domain.handle(Time::ZERO, state.clone()).unwrap()
        };
        assert_eq!(send(&|_| {}), Change::None);
        assert_eq!(send(&|state| state.adjacencies[0].rtt_us = 7), Change::Metrics);
        assert_eq!(send(&|state| state.adjacencies[0].mtu = 9000), Change::Properties);
        assert_eq!(send(&|state| state.adjacencies.truncate(1)), Change::Reshaped);
        assert_eq!(send(&|state| state.roles = Roles::NONE), Change::Reshaped);
    }

    #[test]
    fn silent_nodes_are_forgotten() {
        let (mut domain, states) = domain();
        let refreshed = LinkState { sequence: 2, ..states[0].clone() };
        domain.handle(Time::from_millis(10_000), refreshed).unwrap();
        assert_eq!(domain.poll_timeout(), Some(Time::from_millis(15_000)));
        assert_eq!(domain.expire(Time::from_millis(14_999)), []);
        assert_eq!(domain.expire(Time::from_millis(15_000)), [NodeId(2), NodeId(3)]);
        assert_eq!(domain.graph().node_count(), 1);
    }
}

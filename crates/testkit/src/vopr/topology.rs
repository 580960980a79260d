//! Nodes, their roles and the links between them, drawn from a seed.
//!
//! Routers form a line, a star, a ring or a random mesh with parallel links; every other role is either put on a router
//! or on a separate host that is attached to one to four routers.
use std::collections::BTreeSet;

use tributary_core::{ByteCount, Duration, FaceId, Random, Rate, link::LinkConfig};
use tributary_transport::{ControllerKind, Coupling, TransferConfig};

/// A node of a plan.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// Its name, unique in the plan.
    pub label: String,
    /// Whether it forwards for others.
    pub router: bool,
    /// Whether it answers where names are.
    pub resolver: bool,
    /// Whether it computes paths, and with which priority; families without such a role take it for a resolver.
    pub manager: Option<u8>,
    /// Whether the workload permits it to publish.
    pub publisher: bool,
    /// Whether the workload permits it to fetch.
    pub receiver: bool,
    /// Bytes of its cache if it is a router.
    pub cache_bytes: ByteCount,
    /// The number of its cache policy in the family, modulo their count.
    pub cache_policy: usize,
    /// How it fetches.
    pub transfer: TransferConfig,
}

/// Two links between two nodes.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// The nodes by index, each with its face.
    pub ends: [(usize, FaceId); 2],
    /// From the first node to the second, and back.
    pub directions: [LinkConfig; 2],
    /// The largest datagram in the faces' configuration; the link may carry less.
    pub face_mtu: u32,
}

/// The shape of the routers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// One after the other.
    Line,
    /// All around one.
    Star,
    /// In a circle.
    Ring,
    /// A random tree with random links on top, parallel ones among them.
    Mesh,
}

/// Nodes and links.
#[derive(Clone, Debug)]
pub struct Topology {
    /// The topology of the routers; all but doubles are the first nodes.
    pub shape: Shape,
    /// All nodes.
    pub nodes: Vec<NodeSpec>,
    /// All links.
    pub links: Vec<LinkSpec>,
}

/// The most nodes of a plan.
pub const NODES_MAX: usize = 20;

impl Topology {
    /// Draws one.
    pub fn draw(random: &mut Random) -> Topology {
        let routers = 1 + random.below(7) as usize;
        let shape = [Shape::Line, Shape::Star, Shape::Ring, Shape::Mesh][random.below(4) as usize];
        let mut topology = Topology { shape, nodes: Vec::new(), links: Vec::new() };
        for number in 1..=routers {
            let node = topology.add(random, &format!("router-{number}"));
            topology.nodes[node].router = true;
        }
        for (a, b) in backbone(shape, routers, random) {
            topology.join(random, a, b);
        }
        topology.place(random, routers, 5, "resolver", |node, _| node.resolver = true);
        topology.place(random, routers, 3, "manager", |node, random| {
            node.manager = Some(random.below(4) as u8);
        });
        topology.place(random, routers, 4, "publisher", |node, _| node.publisher = true);
        topology.place(random, routers, 4, "receiver", |node, _| node.receiver = true);
        if random.chance(0.15) {
            let (a, b) = (random.below(topology.nodes.len() as u64), random.below(topology.nodes.len() as u64));
            if a != b {
                topology.join(random, a as usize, b as usize);
            }
        }
        topology
    }
    /// The links of a node: number of the link, which end it is.
    pub fn links_of(&self, node: usize) -> impl Iterator<Item = (usize, usize)> {
        let end = move |(index, link): (usize, &LinkSpec)| {
            link.ends.iter().position(|(other, _)| *other == node).map(|end| (index, end))
        };
        self.links.iter().enumerate().filter_map(end)
    }
    /// The nodes at the other ends of a node's links.
    pub fn neighbours(&self, node: usize) -> impl Iterator<Item = usize> {
        self.links_of(node).map(|(link, end)| self.links[link].ends[1 - end].0)
    }
    /// The rate of the widest path between two nodes over routers and the sum of the delays of all links, which no path
    /// exceeds; `None` if they are not connected.
    pub fn widest(&self, from: usize, to: usize) -> Option<(Rate, Duration)> {
        self.widest_without(&BTreeSet::new(), from, to)
    }
    /// The same when some nodes have left.
    pub fn widest_without(&self, gone: &BTreeSet<usize>, from: usize, to: usize) -> Option<(Rate, Duration)> {
        let mut best = vec![0u64; self.nodes.len()];
        best[from] = u64::MAX;
        let is_there = |link: &&LinkSpec| !link.ends.iter().any(|(node, _)| gone.contains(node));
        for _ in 0..self.nodes.len() {
            for link in self.links.iter().filter(is_there) {
                let narrow = link.directions.iter().filter_map(|d| d.rate).map(Rate::bits_per_second).min();
                for (a, b) in [(link.ends[0].0, link.ends[1].0), (link.ends[1].0, link.ends[0].0)] {
                    if self.nodes[a].router || a == from {
                        best[b] = best[b].max(best[a].min(narrow.unwrap_or(u64::MAX)));
                    }
                }
            }
        }
        let mut delays: Vec<Duration> =
            self.links.iter().map(|l| l.directions[0].delay + l.directions[1].delay).collect();
        delays.sort_unstable();
        let delay = delays.iter().rev().take(self.nodes.len()).fold(Duration::ZERO, |sum, delay| sum + *delay);
        (best[to] > 0).then(|| (Rate::from_bits_per_second(best[to].min(1_000_000_000)), delay))
    }

    /// The nodes that are routers.
    pub fn routers(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|node| self.nodes[*node].router).collect()
    }
    /// Adds a host with `links` links, each to any of the routers.
    pub fn add_host(&mut self, random: &mut Random, links: usize, label: &str) -> usize {
        let (routers, node) = (self.routers(), self.add(random, label));
        for _ in 0..links {
            let router = routers[random.below(routers.len() as u64) as usize];
            self.join(random, node, router);
        }
        node
    }
    /// Adds a router linked to all neighbours of another router, so that the others can do without the latter.
    pub fn add_double(&mut self, random: &mut Random, router: usize, label: &str) -> usize {
        let mut peers: Vec<usize> = self.neighbours(router).filter(|node| self.nodes[*node].router).collect();
        peers.dedup();
        let node = self.add(random, label);
        self.nodes[node].router = true;
        peers.into_iter().for_each(|other| self.join(random, node, other));
        node
    }
    /// Whether all other nodes stay connected without `node`, and each of its roles exists elsewhere too.
    pub fn can_do_without(&self, node: usize) -> bool {
        let has_role = |wanted: fn(&NodeSpec) -> bool| {
            !wanted(&self.nodes[node])
                || self.nodes.iter().enumerate().any(|(other, spec)| other != node && wanted(spec))
        };
        let roles = has_role(|spec| spec.resolver) && has_role(|spec| spec.manager.is_some());
        let peers = || (0..self.nodes.len()).filter(|other| *other != node);
        let gone = BTreeSet::from([node]);
        // A node that reaches one of the others reaches all of them.
        let Some(first) = peers().next() else { return false };
        let is_kept =
            |other: usize| self.widest(first, other).is_none() || self.widest_without(&gone, first, other).is_some();
        roles && node != 0 && peers().all(is_kept)
    }

    fn place(
        &mut self,
        random: &mut Random,
        routers: usize,
        count_max: u64,
        label: &str,
        give: impl Fn(&mut NodeSpec, &mut Random),
    ) {
        for number in 1..=1 + random.below(count_max) {
            let full = self.nodes.len() >= NODES_MAX;
            let node = if full || random.chance(0.3) {
                // Any node will do, so that roles are combined on hosts too.
                random.below(self.nodes.len() as u64) as usize
            } else {
                let node = self.add(random, &format!("{label}-{number}"));
                let links = [1, 1, 1, 2, 2, 3, 4][random.below(7) as usize];
                for _ in 0..links {
                    let router = random.below(routers as u64) as usize;
                    self.join(random, node, router);
                }
                node
            };
            give(&mut self.nodes[node], random);
        }
    }
    fn add(&mut self, random: &mut Random, label: &str) -> usize {
        let cache_bytes = match random.below(4) {
            0 => 0,
            1 => 2_000 + random.below(60_000),
            2 => 100_000 + random.below(1_000_000),
            _ => 64 << 20,
        };
        self.nodes.push(NodeSpec {
            label: label.into(),
            router: false,
            resolver: false,
            manager: None,
            publisher: false,
            receiver: false,
            cache_bytes: ByteCount(cache_bytes),
            cache_policy: random.below(12) as usize,
            transfer: draw_transfer(random),
        });
        self.nodes.len() - 1
    }
    fn join(&mut self, random: &mut Random, a: usize, b: usize) {
        let face = |topology: &Topology, node| FaceId(topology.links_of(node).count() as u32 + 1);
        let ends = [(a, face(self, a)), (b, face(self, b))];
        let there = draw_link(random);
        let mut back = there.clone();
        if random.chance(0.2) {
            back = LinkConfig { mtu: there.mtu, ..draw_link(random) };
        }
        let face_mtu = there.mtu.max(1_472);
        self.links.push(LinkSpec { ends, directions: [there, back], face_mtu });
    }
}

fn backbone(shape: Shape, routers: usize, random: &mut Random) -> Vec<(usize, usize)> {
    let line = (1..routers).map(|node| (node - 1, node));
    match shape {
        Shape::Line => line.collect(),
        Shape::Star => (1..routers).map(|node| (0, node)).collect(),
        Shape::Ring if routers > 2 => line.chain([(routers - 1, 0)]).collect(),
        Shape::Ring => line.collect(),
        Shape::Mesh => {
            let mut pairs: Vec<_> = (1..routers).map(|node| (random.below(node as u64) as usize, node)).collect();
            for _ in 0..random.below(routers as u64 + 2) {
                let (a, b) = (random.below(routers as u64) as usize, random.below(routers as u64) as usize);
                if a != b {
                    pairs.push((a, b));
                }
            }
            pairs
        }
    }
}

/// A number from `low` to `high` with a uniformly distributed logarithm.
fn logarithmic(random: &mut Random, low: f64, high: f64) -> f64 {
    low * (high / low).powf(random.unit())
}

fn draw_link(random: &mut Random) -> LinkConfig {
    let rate = Rate::from_bits_per_second(logarithmic(random, 1e6, 200e6) as u64);
    let delay = Duration::from_secs_f64(logarithmic(random, 50e-6, 60e-3));
    let queue = Duration::from_secs_f64(logarithmic(random, 5e-3, 200e-3));
    let config = LinkConfig {
        rate: (!random.chance(0.05)).then_some(rate),
        delay,
        jitter: if random.chance(0.2) { Duration::from_secs_f64(random.unit() * 10e-3) } else { Duration::ZERO },
        queue_bytes: rate.bytes_in(queue).max(6_000),
        mtu: [1_472, 1_472, 1_472, 1_472, 1_472, 1_472, 1_200, 1_300, 1_452, 9_000][random.below(10) as usize],
        ..LinkConfig::default()
    };
    // A queue that does not hold a few of the longest packets is no queue.
    LinkConfig { queue_bytes: config.queue_bytes.max(4 * u64::from(config.mtu)), ..config }
}

/// Draws a receiver's fetch options; half of the receivers keep the defaults, as most users do.
fn draw_transfer(random: &mut Random) -> TransferConfig {
    let mut config = TransferConfig::default();
    if random.chance(0.5) {
        return config;
    }
    if random.chance(0.4) {
        config.controller = ControllerKind::LossBased;
    }
    config.coupling = [Coupling::Uncoupled, Coupling::LinkedIncrease, Coupling::Normalised][random.below(3) as usize];
    config.request_packets_max = [1, 2, 8, 64][random.below(4) as usize];
    config.request_duration = Duration::from_millis(random.below(20));
    config.window_initial_packets = [1, 4, 16, 64][random.below(4) as usize];
    config.window_bytes_max = [65_536, 1 << 20, 8 << 20][random.below(3) as usize];
    config.rto_min = Duration::from_millis(1 + random.below(100));
    config.rto_initial = config.rto_min + Duration::from_millis(random.below(500));
    config.rto_max = config.rto_initial + Duration::from_millis(random.below(2_000));
    config.reorder_packets = 1 + random.below(20) as u32;
    config.assembly_bytes_max = [1 << 20, 4 << 20, 24 << 20][random.below(3) as usize];
    config.packet_bytes = random.chance(0.3).then(|| 64 + random.below(1_400) as u16);
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_can_do_without_a_router_that_has_a_double_and_not_without_the_only_one() {
        let mut random = Random::new(1, 1);
        let mut topology = Topology { shape: Shape::Star, nodes: Vec::new(), links: Vec::new() };
        for number in 0..3 {
            let router = topology.add(&mut random, &format!("router-{number}"));
            topology.nodes[router].router = true;
        }
        let [left, right] = ["left", "right"].map(|label| topology.add(&mut random, label));
        for router in [1, 2] {
            topology.join(&mut random, 0, router);
            topology.join(&mut random, router, left);
        }
        topology.join(&mut random, 2, right);
        assert!(topology.can_do_without(1), "2 leads wherever 1 does");
        assert!(!topology.can_do_without(2), "only 2 leads to the right");
        assert!(topology.can_do_without(left), "it is nobody's way");
        topology.nodes[left].resolver = true;
        assert!(!topology.can_do_without(left), "nobody else knows names");
    }
}

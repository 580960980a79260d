//! The paths chosen for transfers by hops, kept for as long as a search would choose the same.
//!
//! No two paths cost the same, so the cheapest one is the same without any link that it does not have. A choice therefore
//! holds in each graph that lacks some links, if none of its candidates has one of them, and holds again when the links
//! return: a link that goes costs only the transfers that have it in a candidate, and one that returns costs no search.
use super::*;
use crate::resolver::topology::{graph::Way, paths::select_noting};

/// Graphs that are remembered.
const SHAPES_MAX: usize = 8;
/// Choices that a transfer remembers.
const SELECTIONS_MAX: usize = 3;

/// The graphs of late, the present one first.
#[derive(Default)]
pub(super) struct Shapes {
    known: VecDeque<Shape>,
    next: u64,
}

struct Shape {
    number: u64,
    ways: Vec<Way>,
    /// Links that it has and the present graph lacks.
    lost: BTreeSet<LinkKey>,
    /// Links that the present graph has and it lacks.
    new: Vec<Way>,
}

/// The paths of a transfer from each of its sources, and where they hold.
pub(super) struct Selection {
    /// The graph in which they were found.
    shape: u64,
    sources: Vec<NodeId>,
    k: usize,
    paths: Vec<Vec<Vec<LinkKey>>>,
    /// The links of all candidates.
    used: BTreeSet<LinkKey>,
}

impl Shapes {
    /// Takes the present graph.
    fn on_graph(&mut self, graph: &Graph) {
        let ways = graph.ways();
        let at = self.known.iter().position(|shape| shape.ways == ways);
        let present = at.and_then(|at| self.known.remove(at)).unwrap_or_else(|| {
            self.next += 1;
            Shape { number: self.next, ways, lost: BTreeSet::new(), new: Vec::new() }
        });
        self.known.push_front(present);
        let (present, others) = self.known.make_contiguous().split_first_mut().expect("it was just pushed");
        (present.lost, present.new) = (BTreeSet::new(), Vec::new());
        for shape in others {
            shape.lost = difference(&shape.ways, &present.ways).map(|way| way.key).collect();
            shape.new = difference(&present.ways, &shape.ways).copied().collect();
        }
    }
    /// Whether a search in the present graph would choose the same paths for a transfer with these ends.
    fn hold(&self, selection: &Selection, is_end: impl Fn(NodeId) -> bool) -> bool {
        let Some(shape) = self.known.iter().find(|shape| shape.number == selection.shape) else { return false };
        shape.lost.is_disjoint(&selection.used) && !shape.new.iter().any(|way| way.concerns(&is_end))
    }
    /// The links that have come or gone with the last change.
    pub(super) fn changed(&self) -> impl Iterator<Item = &Way> {
        let now = self.known.front().map_or(&[][..], |now| &now.ways);
        let before = self.known.get(1);
        let gone = before.into_iter().flat_map(|before| difference(&before.ways, now));
        gone.chain(before.map_or(now, |before| &before.new))
    }
    /// Whether a search would choose the paths again that a transfer has. `is_core_changed` is whether links between
    /// routers have come or gone since.
    pub(super) fn stand(&self, subscriber: NodeId, transfer: &Transfer, is_core_changed: bool) -> bool {
        if transfer.metric != PathMetric::Hops {
            return !is_core_changed;
        }
        let holds =
            |last: &Selection| self.hold(last, |node| transfer.has_end(subscriber, node)) && last.is_offered(transfer);
        transfer.selections.first().is_some_and(holds)
    }
    fn present(&self) -> u64 {
        self.known.front().map_or(0, |shape| shape.number)
    }
}

/// The elements of `these` that `others` lacks; both are sorted.
fn difference<'a>(these: &'a [Way], others: &'a [Way]) -> impl Iterator<Item = &'a Way> {
    let mut others = others.iter().peekable();
    these.iter().filter(move |way| {
        while others.next_if(|other| other < way).is_some() {}
        others.peek() != Some(way)
    })
}

impl Way {
    /// Whether paths of a transfer with these ends may take it. Others' paths do not pass through hosts.
    fn concerns(&self, is_end: impl Fn(NodeId) -> bool) -> bool {
        let [from, to] = self.is_transit;
        (from || is_end(self.key.node)) && (to || is_end(self.to))
    }
}

impl Selection {
    /// Whether each of its paths has been offered. A path for which no FID could be made may have one in another graph.
    fn is_offered(&self, transfer: &Transfer) -> bool {
        let offered = transfer.last_offered.iter().flatten().map(|source| source.paths.len()).sum::<usize>();
        offered == self.paths.iter().map(Vec::len).sum::<usize>()
    }
}

impl Transfer {
    /// Whether a node is one of its ends.
    pub(super) fn has_end(&self, subscriber: NodeId, node: NodeId) -> bool {
        node == subscriber || self.publishers().any(|(publisher, ..)| publisher == node)
    }
}

impl TopologyManager {
    /// The paths of a transfer from these sources, best first.
    pub(super) fn chosen(
        &mut self,
        (subscriber, sources): (NodeIndex, &[NodeIndex]),
        k: usize,
        transfer: &mut Transfer,
    ) -> Vec<Vec<Vec<LinkIndex>>> {
        let graph = &self.graph;
        let ids: Vec<NodeId> = sources.iter().map(|source| graph.node_info(*source).id).collect();
        let id = graph.node_info(subscriber).id;
        let holds = |known: &Selection| {
            transfer.metric == PathMetric::Hops
                && known.sources == ids
                && known.k == k
                && self.shapes.hold(known, |node| transfer.has_end(id, node))
        };
        let known = transfer.selections.iter().position(holds);
        if let Some(at) = known {
            transfer.selections[..=at].rotate_right(1);
            let known = &transfer.selections[0].paths;
            let found = |path: &Vec<LinkKey>| path.iter().filter_map(|key| graph.find(*key)).collect();
            return known.iter().map(|paths| paths.iter().map(found).collect()).collect();
        }
        self.computations += 1;
        let (costs, mut used) = (graph.costs(transfer.metric), BTreeSet::new());
        let chosen = select_noting(graph, &costs, (sources, subscriber), k, &self.config.paths, &mut used);
        let links = |paths: Vec<Path>| paths.into_iter().map(|path| path.links).collect();
        let chosen: Vec<Vec<Vec<LinkIndex>>> = chosen.into_iter().map(links).collect();
        if transfer.metric != PathMetric::Hops {
            return chosen;
        }
        let key = |link: &LinkIndex| graph.key_of(*link);
        let paths = chosen.iter().map(|paths| paths.iter().map(|path| path.iter().map(key).collect()).collect());
        let used = used.iter().map(key).collect();
        let new = Selection { shape: self.shapes.present(), sources: ids, k, paths: paths.collect(), used };
        transfer.selections.insert(0, new);
        transfer.selections.truncate(SELECTIONS_MAX);
        chosen
    }
    /// Takes the present graph, and forgets the one that was last present longest ago: what holds in both is the
    /// present one's now.
    pub(super) fn reshape(&mut self) {
        self.shapes.on_graph(&self.graph);
        let Some(oldest) = self.shapes.known.get(SHAPES_MAX).map(|shape| shape.number) else { return };
        let present = self.shapes.present();
        for (key, transfer) in &mut self.transfers {
            let mut selections = core::mem::take(&mut transfer.selections);
            selections.retain_mut(|selection| {
                let is_older = selection.shape == oldest;
                let keeps = !is_older || self.shapes.hold(selection, |node| transfer.has_end(key.0, node));
                selection.shape = if is_older { present } else { selection.shape };
                keeps
            });
            transfer.selections = selections;
        }
        self.shapes.known.truncate(SHAPES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::ItemId,
        resolver::topology::{
            graph::tests::{random_links, states},
            paths::select,
        },
        wire::Publisher,
    };
    use proptest::prelude::*;
    use tributary_core::Random;

    /// A manager on node 1, and the states of all nodes with all links.
    struct Domain {
        manager: TopologyManager,
        now: Time,
        states: Vec<LinkState>,
        down: BTreeSet<(usize, usize)>,
        links: Vec<(usize, usize)>,
    }

    impl Domain {
        fn new(random: &mut Random, count: usize) -> Domain {
            let links = random_links(random, count, count * 3 / 2);
            let mut states = states(count, &links);
            for state in &mut states[1..] {
                if random.chance(0.15) {
                    state.roles = Roles::SENDER | Roles::RECEIVER;
                }
            }
            let mut config = ManagerConfig::new(&Config { node: NodeId(1), ..Config::new("tm", 1) }, 1, 1);
            config.node_silence = Duration::from_secs(100_000);
            let manager = TopologyManager::new(config);
            let mut domain = Domain { manager, now: Time::from_millis(1), states, down: BTreeSet::new(), links };
            domain.run(1);
            (0..count).for_each(|node| domain.state(node));
            domain.run(100);
            domain
        }
        fn run(&mut self, steps: usize) {
            for _ in 0..steps {
                self.now += Duration::from_millis(10);
                self.manager.handle_timeout(self.now);
                while self.manager.poll_message().is_some() {}
            }
        }
        /// Sends a node's link state, without the links that are down.
        fn state(&mut self, node: usize) {
            self.states[node].sequence += 1;
            let mut state = self.states[node].clone();
            let ends = |other: NodeId| (node.min(other.0 as usize - 1), node.max(other.0 as usize - 1));
            state.adjacencies.retain(|link| !self.down.contains(&ends(link.neighbour)));
            self.manager.handle_link_state(self.now, state);
        }
        fn flap(&mut self, number: usize) {
            let (a, b) = self.links[number];
            let link = (a.min(b), a.max(b));
            if !self.down.remove(&link) {
                self.down.insert(link);
            }
            [a, b].into_iter().for_each(|node| self.state(node));
        }
        fn fetch(&mut self, random: &mut Random, transfer: u32) {
            let mut node = || NodeId(1 + random.below(self.states.len() as u64));
            let publisher = |node| Publisher { node, version: 1, label: String::new(), manifest: Vec::new() };
            let request = PathRequest {
                subscriber: node(),
                transfer,
                version: 1,
                item: ItemId::new(&"/a".parse().expect("a name")),
                metric: PathMetric::Hops,
                paths: 1 + (transfer % 4) as u8,
                lease_ms: u32::MAX,
                publishers: [publisher(node()), publisher(node())].into(),
                withdrawn: Vec::new(),
            };
            self.manager.handle_path_request(self.now, NodeId(1), request);
        }
        /// Whether each transfer has the paths that a search from scratch finds, with FIDs that hold.
        fn check(&mut self) -> Result<(), TestCaseError> {
            let manager = &mut self.manager;
            let costs = manager.graph.costs(PathMetric::Hops);
            for (key, transfer) in &manager.transfers {
                let Some(offered) = &transfer.last_offered else { continue };
                let Some(subscriber) = manager.graph.node(key.0) else { continue };
                let sources: Vec<NodeIndex> =
                    transfer.publishers().filter_map(|(node, ..)| manager.graph.node(node)).collect();
                let k = transfer.paths.into();
                let right = select(&manager.graph, &costs, &sources, subscriber, k, &manager.config.paths);
                let key_of = |link: &LinkIndex| manager.graph.key_of(*link);
                let right = right.iter().map(|paths| paths.iter().map(|path| path.links.iter().map(key_of).collect()));
                let right: Vec<Vec<Vec<LinkKey>>> = right.map(Iterator::collect).collect();
                let keys = |source: &OfferedSource| source.paths.iter().map(|path| path.links.clone()).collect();
                let found: Vec<Vec<Vec<LinkKey>>> = offered.iter().map(keys).collect();
                prop_assert_eq!(found, right);
                for (source, path) in
                    sources.iter().zip(offered).flat_map(|(at, of)| of.paths.iter().map(move |path| (at, path)))
                {
                    let (graph, builder) = (&manager.graph, &mut manager.builder);
                    let holds = path.holds(&mut |links, fid| {
                        let is_forward = links == path.links;
                        let links: Vec<LinkIndex> = links.iter().filter_map(|link| graph.find(*link)).collect();
                        let ends = [*source, subscriber];
                        let [from, to] = if is_forward { ends } else { [subscriber, *source] };
                        let tree = Tree { source: from, links: &links, destinations: &[to] };
                        builder.verify(graph, tree, fid)
                    });
                    prop_assert!(holds);
                }
            }
            Ok(())
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn after_any_flaps_all_transfers_have_the_paths_of_a_search_from_scratch(seed in any::<u64>(), count in 4usize..40) {
            let mut random = Random::new(seed, 0);
            let mut domain = Domain::new(&mut random, count);
            (0..20).for_each(|transfer| domain.fetch(&mut random, transfer));
            for _ in 0..30 {
                let link = random.below(domain.links.len() as u64) as usize;
                domain.flap(link);
                // Some flaps are seen together.
                if random.chance(0.7) {
                    domain.run(20);
                    domain.check()?;
                }
            }
        }
    }

    #[test]
    fn a_link_that_returns_costs_no_search() {
        let mut random = Random::new(1, 0);
        let mut domain = Domain::new(&mut random, 40);
        (0..100).for_each(|transfer| domain.fetch(&mut random, transfer));
        domain.run(20);
        for link in 0..domain.links.len() {
            domain.flap(link);
            domain.run(20);
            let before = domain.manager.computations;
            domain.flap(link);
            domain.run(20);
            assert_eq!(domain.manager.computations, before, "link {link}");
        }
        domain.check().expect("all paths are right");
    }
}

//! Makes FIDs that match exactly the intended links.
//!
//! A Bloom filter also matches links that were not inserted. The manager knows all labels, so it walks its graph as the
//! routers would and hands out only FIDs without any false match, local deliveries included (reference/psi, LIPSIN
//! limits). It tries filter sizes from small to large with all salts, then a bitmap, then a list of labels, in the
//! order of its config.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use tributary_core::{FaceId, NodeId};

use super::graph::{Graph, LinkIndex, NodeIndex};
use crate::{
    router::{
        is_overfull,
        labels::{
            BLOOM_BYTES_MIN, FILL_MAX, FILTER_WORDS_MAX, Filter, LABEL_BITS, LabelSeeds, Port, SALTS, filter_bytes,
            filter_words, is_listed,
        },
        ttl_of_copies,
    },
    wire::{BEACON_LABELS_MAX, BitmapNumbers, FID_BYTES_MAX, Fid, FidKind, TTL_MAX, list_fid},
};

tributary_core::declared! {
    /// How FIDs are made.
    #[derive(Clone, PartialEq, Debug)]
    pub struct FidConfig {
        /// Kinds to try, in this order. Default: bloom, bitmap, list.
        pub kinds: Vec<FidKind> = [FidKind::Bloom, FidKind::Bitmap, FidKind::List].into(),
        /// Sizes of Bloom filters to try, in bytes, ascending; odd ones are rounded up, 8 to 96. Default: 8, 16, 32,
        /// 64.
        pub bloom_bytes: Vec<usize> = [8, 16, 32, 64].into(),
        /// Salts to try per size, 1 to 64. Default: 64.
        pub salts: u8 = SALTS,
    }
}

/// The target of an FID: a path or tree of two-way links from `source`, each node entered once, and the nodes that
/// should get the packet.
#[derive(Clone, Copy, Debug)]
pub struct Tree<'a> {
    /// Where packets start.
    pub source: NodeIndex,
    /// The links, in any order.
    pub links: &'a [LinkIndex],
    /// The nodes that get it; each the source or the end of a link.
    pub destinations: &'a [NodeIndex],
}

/// Makes FIDs, and remembers labels and bitmap numbers.
pub struct FidBuilder {
    config: FidConfig,
    seeds: HashMap<(NodeId, Port, u8), LabelSeeds, FxBuildHasher>,
    numbers: Numbers,
}

/// Maximum remembered labels; one more empties the memory.
const SEEDS_MAX: usize = 1 << 18;
/// Below this expected number of salts that work, a filter size is not tried.
const EXPECTED_SUCCESSES_MIN: f64 = 0.02;

impl FidBuilder {
    /// A builder that remembers nothing yet.
    pub fn new(mut config: FidConfig) -> FidBuilder {
        let legal = |size: &usize| size.next_multiple_of(2).clamp(BLOOM_BYTES_MIN, FID_BYTES_MAX);
        let sizes: BTreeSet<usize> = config.bloom_bytes.iter().map(legal).collect();
        config.bloom_bytes = sizes.into_iter().collect();
        config.salts = config.salts.clamp(1, SALTS);
        FidBuilder { config, seeds: HashMap::with_hasher(FxBuildHasher), numbers: Numbers::default() }
    }
    /// Call this when the graph has changed: forgets the labels of nodes that have left or have another secret, and
    /// gives new links their bitmap numbers.
    pub fn on_graph(&mut self, graph: &Graph, renewed: &BTreeSet<NodeId>) {
        if !renewed.is_empty() {
            self.seeds.retain(|(node, ..), _| !renewed.contains(node));
        }
        if self.config.kinds.contains(&FidKind::Bitmap) {
            self.numbers.assign(graph);
        }
    }
    /// Starts a new numbering of bitmaps, which must differ from another manager's.
    pub fn set_bitmap_epoch(&mut self, epoch: u8) {
        if self.numbers.epoch != epoch {
            self.numbers = Numbers { epoch, ..Numbers::default() };
        }
    }
    /// The present numbering of bitmaps.
    pub fn bitmap_epoch(&self) -> u8 {
        self.numbers.epoch
    }
    /// The bitmap numbers of one node.
    pub fn bitmap_numbers(&self, graph: &Graph, node: NodeIndex) -> BitmapNumbers {
        let id = graph.node_info(node).id;
        let number = |port| self.numbers.bits.get(&(id, port)).copied();
        let faces = graph.links_of(node).filter_map(|link| {
            let face = graph.link(link).face;
            Some((face, number(Port::Face(face))?))
        });
        BitmapNumbers { epoch: self.numbers.epoch, local: number(Port::Local), faces: faces.collect() }
    }
    /// The first FID in the order of the config that reaches exactly `tree`; `None` if no FID does.
    pub fn build(&mut self, graph: &Graph, tree: Tree<'_>) -> Option<Fid> {
        let stops = self.stops(graph, tree)?;
        let kinds = self.config.kinds.clone();
        kinds.into_iter().find_map(|kind| match kind {
            FidKind::Bloom => self.build_bloom(graph, &stops),
            FidKind::Bitmap => self.build_bitmap(graph, &stops),
            FidKind::List => self.build_list(graph, &stops),
        })
    }
    /// An FID that routers match without bitmap numbers: for the control messages that distribute these.
    pub fn build_self_contained(&mut self, graph: &Graph, tree: Tree<'_>) -> Option<Fid> {
        let stops = self.stops(graph, tree)?;
        let bloom = self.config.kinds.contains(&FidKind::Bloom).then(|| self.build_bloom(graph, &stops)).flatten();
        bloom.or_else(|| self.build_list(graph, &stops))
    }
    /// FIDs that together reach `tree`: one, or if a single one cannot, one for each part of a split by destinations.
    /// `None` if not even a path to a single destination can be encoded.
    pub fn build_split(&mut self, graph: &Graph, tree: Tree<'_>) -> Option<Vec<Fid>> {
        if let Some(fid) = self.build(graph, tree) {
            return Some([fid].into());
        }
        if tree.destinations.len() < 2 {
            return None;
        }
        let (left, right) = tree.destinations.split_at(tree.destinations.len() / 2);
        let mut fids = Vec::new();
        for destinations in [left, right] {
            let links = prune(graph, tree.links, destinations);
            fids.extend(self.build_split(graph, Tree { source: tree.source, links: &links, destinations })?);
        }
        Some(fids)
    }
    /// Whether a packet with `fid` that starts at the source takes exactly the links of `tree` and is delivered
    /// exactly at its destinations, by the routers' own rules, the hop limit included.
    pub fn verify(&mut self, graph: &Graph, tree: Tree<'_>, fid: &Fid) -> bool {
        let Some(stops) = self.stops(graph, tree) else { return false };
        match fid.kind() {
            FidKind::Bloom => {
                let len = fid.bytes().len();
                let filter = filter_words(fid.bytes());
                len >= BLOOM_BYTES_MIN
                    && fid.salt() < SALTS
                    && self.bloom_is_exact(graph, &stops, &filter, len, fid.salt())
            }
            FidKind::Bitmap if fid.salt() != self.numbers.epoch => false,
            FidKind::Bitmap | FidKind::List => self.is_exact(graph, &stops, fid),
        }
    }
    fn is_exact(&mut self, graph: &Graph, stops: &[Stop], fid: &Fid) -> bool {
        stops.iter().all(|stop| {
            let mut matches = |port: &Port| self.matches(graph, stop.node, *port, fid);
            stop.wanted.iter().all(&mut matches) && !stop.unwanted.iter().any(matches)
        })
    }

    /// Whether a node would send a packet with `fid` to a port too.
    pub fn matches(&mut self, graph: &Graph, node: NodeIndex, port: Port, fid: &Fid) -> bool {
        match fid.kind() {
            FidKind::Bloom => {
                let (filter, len) = (filter_words(fid.bytes()), fid.bytes().len());
                self.seeds(graph, node, port, fid.salt()).bloom(len, LABEL_BITS).is_in(&filter)
            }
            FidKind::Bitmap => {
                let bit = self.numbers.bits.get(&(graph.node_info(node).id, port)).copied().map(usize::from);
                bit.is_some_and(|bit| fid.bytes().get(bit / 8).is_some_and(|byte| byte & (1 << (bit % 8)) != 0))
            }
            FidKind::List => is_listed(fid.bytes(), fid.salt(), &graph.node_info(node).key.list(port)),
        }
    }

    /// The nodes on the way with the ports that must match there and those that must not.
    fn stops(&self, graph: &Graph, tree: Tree<'_>) -> Option<Vec<Stop>> {
        let mut entered = BTreeMap::from([(tree.source, None)]);
        for link in tree.links {
            let (to, back) = graph.link(*link).two_way?;
            if entered.insert(to, Some(back)).is_some() {
                return None;
            }
        }
        let mut stops: Vec<Stop> = Vec::with_capacity(entered.len());
        for (node, arrival) in entered {
            let mut stop = Stop { node, wanted: Vec::new(), unwanted: Vec::new() };
            let local = tree.destinations.contains(&node);
            (if local { &mut stop.wanted } else { &mut stop.unwanted }).push(Port::Local);
            for link in graph.links_of(node) {
                if Some(link) != arrival {
                    let wanted = tree.links.contains(&link);
                    (if wanted { &mut stop.wanted } else { &mut stop.unwanted })
                        .push(Port::Face(graph.link(link).face));
                }
            }
            // A node that is entered and neither left nor a destination would be a dead end.
            if stop.wanted.is_empty() {
                return None;
            }
            stops.push(stop);
        }
        let wanted: usize = stops.iter().map(|stop| stop.wanted.len()).sum();
        let total = wanted == tree.links.len() + tree.destinations.len();
        (total && hops_suffice(graph, tree)).then_some(stops)
    }
    fn build_bloom(&mut self, graph: &Graph, stops: &[Stop]) -> Option<Fid> {
        let labels: usize = stops.iter().map(|stop| stop.wanted.len()).sum();
        let tests: usize = stops.iter().map(|stop| stop.unwanted.len()).sum();
        for size in self.config.bloom_bytes.clone() {
            if expected_successes(self.config.salts, size, labels, tests) < EXPECTED_SUCCESSES_MIN {
                continue;
            }
            for salt in 0..self.config.salts {
                let mut filter = [0; FILTER_WORDS_MAX];
                for stop in stops {
                    for port in &stop.wanted {
                        self.seeds(graph, stop.node, *port, salt).bloom(size, LABEL_BITS).add_to(&mut filter);
                    }
                }
                if self.bloom_is_exact(graph, stops, &filter, size, salt) {
                    return Some(Fid::new(FidKind::Bloom, salt, &filter_bytes(&filter, size)));
                }
            }
        }
        None
    }
    fn bloom_is_exact(&mut self, graph: &Graph, stops: &[Stop], filter: &Filter, size: usize, salt: u8) -> bool {
        if is_overfull(filter, size) {
            return false;
        }
        stops.iter().all(|stop| {
            let mut matches =
                |port: &Port| self.seeds(graph, stop.node, *port, salt).bloom(size, LABEL_BITS).is_in(filter);
            !stop.unwanted.iter().any(&mut matches) && stop.wanted.iter().all(&mut matches)
        })
    }
    fn build_bitmap(&mut self, graph: &Graph, stops: &[Stop]) -> Option<Fid> {
        let mut bytes = Vec::new();
        for stop in stops {
            let id = graph.node_info(stop.node).id;
            for port in &stop.wanted {
                let bit = usize::from(*self.numbers.bits.get(&(id, *port))?);
                if bytes.len() <= bit / 8 {
                    bytes.resize(bit / 8 + 1, 0);
                }
                bytes[bit / 8] |= 1 << (bit % 8);
            }
        }
        let fid = Fid::new(FidKind::Bitmap, self.numbers.epoch, &bytes);
        self.is_exact(graph, stops, &fid).then_some(fid)
    }
    fn build_list(&mut self, graph: &Graph, stops: &[Stop]) -> Option<Fid> {
        let mut labels = Vec::new();
        for stop in stops {
            let key = &graph.node_info(stop.node).key;
            labels.extend(stop.wanted.iter().map(|port| key.list(*port)));
        }
        let fid = (labels.len() <= BEACON_LABELS_MAX).then(|| list_fid(&labels))?;
        self.is_exact(graph, stops, &fid).then_some(fid)
    }
    fn seeds(&mut self, graph: &Graph, node: NodeIndex, port: Port, salt: u8) -> LabelSeeds {
        let node = graph.node_info(node);
        if self.seeds.len() >= SEEDS_MAX {
            self.seeds.clear();
        }
        *self.seeds.entry((node.id, port, salt)).or_insert_with(|| node.key.seeds(port, salt))
    }
}

/// Whether the hop limit, which copies share, lets a packet reach all of a tree.
fn hops_suffice(graph: &Graph, tree: Tree<'_>) -> bool {
    let mut onward: BTreeMap<NodeIndex, Vec<LinkIndex>> = BTreeMap::new();
    tree.links.iter().for_each(|link| onward.entry(graph.link(*link).from).or_default().push(*link));
    let mut open = alloc::vec![(tree.source, TTL_MAX, true)];
    while let Some((node, ttl, own)) = open.pop() {
        let Some(links) = onward.get(&node) else { continue };
        let share = ttl_of_copies(ttl, links.len());
        let Some(left) = (if own { share } else { share.and_then(|share| share.checked_sub(1)) }) else { return false };
        open.extend(links.iter().filter_map(|link| Some((graph.end_of(*link)?, left, false))));
    }
    true
}

/// A node on the way.
struct Stop {
    node: NodeIndex,
    wanted: Vec<Port>,
    unwanted: Vec<Port>,
}

/// The links of a tree that lead to these destinations.
fn prune(graph: &Graph, links: &[LinkIndex], destinations: &[NodeIndex]) -> Vec<LinkIndex> {
    let into: BTreeMap<NodeIndex, LinkIndex> =
        links.iter().filter_map(|link| Some((graph.end_of(*link)?, *link))).collect();
    let mut kept = BTreeSet::new();
    for destination in destinations {
        let mut node = *destination;
        while let Some(link) = into.get(&node) {
            if !kept.insert(*link) {
                break;
            }
            node = graph.link(*link).from;
        }
    }
    kept.into_iter().collect()
}

/// With how many salts a filter of `size` bytes is expected to have no false match: `salts · (1 − ρᵏ)^tests`, where
/// ρ = 1 − (1 − 1/m)^(k·n) is the fill (reference/psi). Zero if the fill alone is too high.
fn expected_successes(salts: u8, size: usize, labels: usize, tests: usize) -> f64 {
    let power = |base: f64, exponent: usize| (0..exponent).fold(1.0, |product, _| product * base);
    let bits = (size * 8) as f64;
    let k = usize::from(LABEL_BITS);
    let fill = 1.0 - power(1.0 - 1.0 / bits, k * labels);
    // The fill of one salt may be lower than the expected one, but hardly by a tenth.
    if fill > FILL_MAX * 1.1 {
        return 0.0;
    }
    f64::from(salts) * power(1.0 - power(fill, k), tests)
}

/// Bit numbers of the domain's ports. A number is not given to another port within one epoch.
#[derive(Default)]
struct Numbers {
    epoch: u8,
    bits: BTreeMap<(NodeId, Port), u16>,
    next: u16,
}

impl Numbers {
    const MAX: u16 = (FID_BYTES_MAX * 8) as u16;

    fn assign(&mut self, graph: &Graph) {
        let ports = || {
            graph.nodes().flat_map(|node| {
                let id = graph.node_info(node).id;
                let face = move |face: FaceId| (id, Port::Face(face));
                let links = graph.links_of(node).filter(|link| graph.end_of(*link).is_some());
                links.map(move |link| face(graph.link(link).face)).chain([(id, Port::Local)])
            })
        };
        let missing = ports().filter(|port| !self.bits.contains_key(port)).count();
        let live = ports().count();
        if usize::from(self.next) + missing > usize::from(Self::MAX) && live <= usize::from(Self::MAX) {
            *self = Numbers { epoch: self.epoch.wrapping_add(1), ..Numbers::default() };
        }
        for port in ports() {
            if self.next < Self::MAX
                && let alloc::collections::btree_map::Entry::Vacant(entry) = self.bits.entry(port)
            {
                entry.insert(self.next);
                self.next += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        graph::tests::{graph, random_links, states},
        yen::Search,
    };
    use super::*;
    use crate::{
        router::{Router, RouterConfig},
        wire::{Header, LinkState, PacketType, Routes, TTL_MAX},
    };
    use alloc::collections::VecDeque;
    use bytes::Bytes;
    use proptest::prelude::*;
    use tributary_core::{ByteCount, Random, Time, TransmitBuf};
    use tributary_transport::FaceOptions;

    /// Real routers on the links of a domain.
    struct Domain {
        states: Vec<LinkState>,
        routers: Vec<Router>,
    }

    impl Domain {
        fn new(states: Vec<LinkState>, graph: &Graph, builder: &FidBuilder) -> Domain {
            let routers = states.iter().map(|state| {
                let mut config = RouterConfig::new(state.node, state.secret);
                config.cache_bytes = ByteCount(0);
                let mut router = Router::new(config);
                for adjacency in &state.adjacencies {
                    router.add_face(adjacency.face, FaceOptions { mtu: 1500, rate: None });
                    router.set_face_up(adjacency.face, true);
                }
                router.handle_routes(&Routes {
                    manager: NodeId(1),
                    term: 1,
                    sequence: 1,
                    resolvers: Vec::new(),
                    bitmap: builder.bitmap_numbers(graph, graph.node(state.node).unwrap()),
                    keys: Vec::new(),
                });
                router
            });
            Domain { routers: routers.collect(), states }
        }
        /// The links that a packet takes, and the nodes that get it, with multiplicity.
        fn send(&mut self, graph: &Graph, source: NodeIndex, fid: Fid) -> (Vec<LinkIndex>, Vec<NodeIndex>) {
            let header = Header { packet_type: PacketType::Control, flags: 0, ttl: TTL_MAX, fid };
            let (mut taken, mut delivered) = (Vec::new(), Vec::new());
            let verdict = self.routers[source.0 as usize].originate(Time::ZERO, &header, b"", Bytes::from_static(b"x"));
            if verdict.local.is_some() {
                delivered.push(source);
            }
            let mut busy = VecDeque::from([source]);
            let mut batch = TransmitBuf::new();
            while let Some(node) = busy.pop_front() {
                while let Some(transmit) = self.routers[node.0 as usize].poll_transmit(&mut batch) {
                    let adjacencies = &self.states[node.0 as usize].adjacencies;
                    let adjacency = *adjacencies.iter().find(|link| link.face == transmit.face).unwrap();
                    let link = graph.links_of(node).find(|link| graph.link(*link).face == transmit.face).unwrap();
                    let to = graph.node(adjacency.neighbour).unwrap();
                    for datagram in batch.drain() {
                        taken.push(link);
                        assert!(taken.len() < 10_000, "the packet loops");
                        let router = &mut self.routers[to.0 as usize];
                        if router.forward(Time::ZERO, Some(adjacency.neighbour_face), datagram).local.is_some() {
                            delivered.push(to);
                        }
                        busy.push_back(to);
                    }
                }
            }
            taken.sort_unstable();
            delivered.sort_unstable();
            (taken, delivered)
        }
    }

    fn config(kinds: &[FidKind]) -> FidConfig {
        FidConfig { kinds: kinds.into(), ..FidConfig::default() }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn packets_take_exactly_the_links_of_the_path(seed in any::<u64>(), count in 2usize..40, extra in 0usize..60) {
            let mut random = Random::new(seed, 2);
            let states = states(count, &random_links(&mut random, count, extra));
            let graph = Graph::new(&states.iter().collect::<Vec<_>>());
            let costs = graph.costs(Default::default());
            let kinds = [&[FidKind::Bloom][..], &[FidKind::Bitmap], &[FidKind::List], &[FidKind::Bloom, FidKind::Bitmap, FidKind::List]];
            for kinds in kinds {
                let mut builder = FidBuilder::new(config(kinds));
                builder.on_graph(&graph, &BTreeSet::new());
                let mut domain = Domain::new(states.clone(), &graph, &builder);
                let (start, goal) = (NodeIndex(0), NodeIndex(random.below(count as u64) as u32));
                for path in Search::new(&graph, &costs, start, goal).k_shortest(4) {
                    let tree = Tree { source: start, links: &path.links, destinations: &[goal] };
                    let Some(fid) = builder.build(&graph, tree) else {
                        prop_assert!(kinds == [FidKind::Bloom] || path.links.len() >= BEACON_LABELS_MAX);
                        continue;
                    };
                    prop_assert!(builder.verify(&graph, tree, &fid));
                    let mut wanted = path.links.clone();
                    wanted.sort_unstable();
                    prop_assert_eq!(domain.send(&graph, start, fid), (wanted, [goal].into()));
                }
            }
        }

        #[test]
        fn trees_are_reached_exactly_though_they_may_be_split(seed in any::<u64>(), count in 2usize..60, extra in 0usize..60, leaves in 1usize..30) {
            let mut random = Random::new(seed, 3);
            let states = states(count, &random_links(&mut random, count, extra));
            let graph = Graph::new(&states.iter().collect::<Vec<_>>());
            let last = super::super::yen::shortest_tree(&graph, NodeIndex(0));
            let destinations: BTreeSet<NodeIndex> = (0..leaves).map(|_| NodeIndex(random.below(count as u64) as u32)).collect();
            let destinations: Vec<NodeIndex> = destinations.into_iter().collect();
            let all: Vec<LinkIndex> = last.iter().flatten().copied().collect();
            let links = prune(&graph, &all, &destinations);
            let mut builder = FidBuilder::new(FidConfig { bloom_bytes: [16].into(), ..config(&[FidKind::Bloom, FidKind::List]) });
            let tree = Tree { source: NodeIndex(0), links: &links, destinations: &destinations };
            let fids = builder.build_split(&graph, tree).expect("paths of this length can be encoded");
            let mut domain = Domain::new(states, &graph, &builder);
            let mut delivered = Vec::new();
            for fid in fids {
                let (taken, reached) = domain.send(&graph, NodeIndex(0), fid);
                prop_assert!(taken.iter().all(|link| links.contains(link)));
                prop_assert!(taken.windows(2).all(|pair| pair[0] != pair[1]));
                delivered.extend(reached);
            }
            delivered.sort_unstable();
            prop_assert_eq!(delivered, destinations);
        }
    }

    #[test]
    fn a_node_reaches_itself() {
        let graph = graph(2, &[(0, 1)]);
        let mut builder = FidBuilder::new(FidConfig::default());
        let tree = Tree { source: NodeIndex(0), links: &[], destinations: &[NodeIndex(0)] };
        let fid = builder.build(&graph, tree).unwrap();
        assert_eq!((fid.kind(), fid.bytes().len()), (FidKind::Bloom, 8));
        assert!(!builder.verify(&graph, Tree { destinations: &[NodeIndex(1)], ..tree }, &fid));
    }

    #[test]
    fn a_new_link_with_a_false_match_is_noticed() {
        // The same FID on a graph with many more links at the node: sooner or later one matches.
        let small = graph(3, &[(0, 1), (1, 2)]);
        let mut links = alloc::vec![(0, 1), (1, 2)];
        (3..400).for_each(|i| links.push((1, i)));
        let large = graph(400, &links);
        let mut builder = FidBuilder::new(FidConfig { bloom_bytes: [8].into(), ..config(&[FidKind::Bloom]) });
        let path = Search::new(&small, &[1; 4], NodeIndex(0), NodeIndex(2)).k_shortest(1);
        let tree = Tree { source: NodeIndex(0), links: &path[0].links, destinations: &[NodeIndex(2)] };
        let fid = builder.build(&small, tree).unwrap();
        assert!(builder.verify(&small, tree, &fid));
        let path = Search::new(&large, &alloc::vec![1; large.link_count()], NodeIndex(0), NodeIndex(2)).k_shortest(1);
        let tree = Tree { links: &path[0].links, ..tree };
        let exact = builder.verify(&large, tree, &fid);
        let states = states(400, &links);
        let mut domain = Domain::new(states, &large, &builder);
        assert_eq!(exact, domain.send(&large, NodeIndex(0), fid).0.len() == 2);
        assert!(!exact, "with 397 more links one was expected to match");
    }

    #[test]
    fn bitmap_numbers_stay_until_they_run_out_and_then_start_a_new_epoch() {
        let mut builder = FidBuilder::new(config(&[FidKind::Bitmap]));
        let first = graph(3, &[(0, 1), (1, 2)]);
        builder.on_graph(&first, &BTreeSet::new());
        let before = builder.bitmap_numbers(&first, NodeIndex(0));
        let grown = graph(4, &[(0, 1), (1, 2), (2, 3)]);
        builder.on_graph(&grown, &BTreeSet::new());
        assert_eq!(builder.bitmap_numbers(&grown, NodeIndex(0)), before);
        // A ring of 256 nodes has exactly 768 ports.
        let ring: Vec<_> = (0..256).map(|i| (i, (i + 1) % 256)).collect();
        let ring = graph(256, &ring);
        builder.on_graph(&ring, &BTreeSet::new());
        let full = builder.bitmap_numbers(&ring, NodeIndex(255));
        assert!(full.local.is_some() && full.faces.len() == 2);
        let other: Vec<_> = (0..255).map(|i| (i, i + 1)).collect();
        let mut states = states(256, &other);
        states.iter_mut().for_each(|state| {
            state.node.0 += 1000;
            state.adjacencies.iter_mut().for_each(|link| link.neighbour.0 += 1000);
        });
        let other = Graph::new(&states.iter().collect::<Vec<_>>());
        builder.on_graph(&other, &BTreeSet::new());
        let renewed = builder.bitmap_numbers(&other, NodeIndex(0));
        assert_ne!(renewed.epoch, full.epoch);
        assert_eq!(renewed.local.is_some() as usize + renewed.faces.len(), 2);
    }
}

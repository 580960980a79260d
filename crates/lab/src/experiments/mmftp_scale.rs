//! What mmFTP acknowledges (§III-E, §V): a central topology manager and Bloom filters have limits. Where are they?
use crate::topology::{Topology, generate};
use tributary::{Family, config::Role};
use tributary_core::{ByteCount, Duration, FaceId, NodeId, Random, Time};
use tributary_psi::topology::{
    Adjacency, FidBuilder, FidConfig, FidKind, Graph, LinkState, NodeIndex, PathConfig, Roles, Tree, select,
};
use tributary_transport::PathMetric;

use crate::{
    Results, Settings, Table,
    figures::{Chart, Series, Style, lines},
    runs::each,
    simulation::{Outcome, Scenario, object},
    stats::{mean, quantile},
    wide_area::link,
};

pub(super) fn run(settings: &Settings, results: &mut Results) {
    identifiers(results, settings);
    domains(results, settings);
}

/// How many random pairs are tried per graph.
const PAIRS: usize = 60;

fn identifiers(results: &mut Results, settings: &Settings) {
    let sides: &[usize] = settings.choose(&[4, 8, 16, 24, 32, 48, 64, 96, 128], &[4, 8]);
    let sizes: &[usize] = settings.choose(&[50, 100, 200, 400, 800, 1_600, 3_200], &[50, 100]);
    let mut table = Table::new(
        "identifiers",
        &[
            "network",
            "nodes",
            "hops_mean",
            "hops_max",
            "bloom8",
            "bloom16",
            "bloom32",
            "bloom64",
            "exact",
            "too long",
            "bytes_mean",
        ],
    );
    let mut figures = Vec::new();
    for (kind, graphs) in [
        ("grid", sides.iter().map(|side| generate::grid(*side, *side)).collect::<Vec<_>>()),
        ("barabasi-albert", sizes.iter().map(|size| generate::barabasi_albert(*size, 2, settings.seed)).collect()),
    ] {
        let mut curves: Vec<Vec<(f64, f64)>> = vec![Vec::new(); 3];
        for topology in &graphs {
            let row = encode(topology, settings.seed);
            let nodes = topology.places.len();
            let mut put = |quantity: &str, value: f64, unit: &str| {
                results.metric(format!("{kind}.{quantity}@nodes{nodes}"), value, unit);
            };
            put("hops_mean", mean(&row.hops), "count");
            put("bloom_share", row.up_to(64), "share");
            put("fid_bytes_mean", mean(&row.bytes), "bytes");
            put("unreachable", row.failed as f64, "count");
            for (curve, bytes) in curves.iter_mut().zip([16, 32, 64]) {
                curve.push((nodes as f64, row.up_to(bytes)));
            }
            let mut cells = vec![kind.to_string(), format!("{nodes}")];
            cells.extend([mean(&row.hops), quantile(&row.hops, 1.0)].map(|value| format!("{value:.2}")));
            cells.extend([8, 16, 32, 64].map(|bytes| format!("{:.3}", row.up_to(bytes))));
            cells.push(format!("{:.3}", row.exact()));
            cells.push(format!("{:.3}", row.too_long()));
            cells.push(format!("{:.1}", mean(&row.bytes)));
            table.push(cells);
        }
        figures.push((kind, curves));
    }
    results.tables.push(table);
    for (kind, curves) in figures {
        let series = curves.into_iter().zip(["up to 16 bytes", "up to 32 bytes", "up to 64 bytes"]);
        let series: Vec<_> = series.map(|(points, label)| Series::new(label, points).styled(Style::Marked)).collect();
        let mut chart = Chart::new(
            &format!("Shortest paths that a verified Bloom filter encodes: {kind}"),
            "nodes",
            "share of paths",
        );
        (chart.y_to, chart.is_x_logarithmic) = (1.0, true);
        results.captioned(
            format!("identifiers-{kind}"),
            format!(
                "{PAIRS} random pairs per network; 64 salts per size. The pairs missing at the top have a bitmap or a \
                 list, or are further apart than a packet may travel."
            ),
            lines(&chart, &series),
        );
    }
}

#[derive(Default)]
struct Encoded {
    hops: Vec<f64>,
    /// Bytes of the FID that was handed out.
    bytes: Vec<f64>,
    /// Bytes of the filter; `None` for an exact FID.
    filters: Vec<Option<usize>>,
    failed: usize,
}
impl Encoded {
    /// Share of pairs whose path has a filter of up to `bytes`.
    fn up_to(&self, bytes: usize) -> f64 {
        self.share(self.filters.iter().filter(|filter| filter.is_some_and(|filter| filter <= bytes)).count())
    }
    /// Share of pairs whose path has a bitmap or a list.
    fn exact(&self) -> f64 {
        self.share(self.filters.iter().filter(|filter| filter.is_none()).count())
    }
    /// Share of pairs without a path within a packet's hop limit.
    fn too_long(&self) -> f64 {
        self.share(self.failed)
    }
    fn share(&self, pairs: usize) -> f64 {
        pairs as f64 / (self.filters.len() + self.failed).max(1) as f64
    }
}

fn encode(topology: &Topology, seed: u64) -> Encoded {
    let graph = graph(topology, seed);
    let costs = graph.costs(PathMetric::Hops);
    let mut builder = FidBuilder::new(FidConfig::default());
    builder.on_graph(&graph, &std::collections::BTreeSet::new());
    let mut random = Random::new(seed, 0x5ca1e);
    let mut encoded = Encoded::default();
    let count = topology.places.len() as u64;
    for _ in 0..PAIRS {
        let source = random.below(count) as u32;
        let receiver = (source + 1 + random.below(count - 1) as u32) % count as u32;
        let (source, receiver) = (NodeIndex(source), NodeIndex(receiver));
        let paths = select(&graph, &costs, &[source], receiver, 1, &PathConfig::default());
        let fid = paths.first().and_then(|paths| paths.first()).and_then(|path| {
            encoded.hops.push(path.links.len() as f64);
            builder.build(&graph, Tree { source, links: &path.links, destinations: &[receiver] })
        });
        match fid {
            Some(fid) => {
                encoded.bytes.push(fid.bytes().len() as f64);
                encoded.filters.push((fid.kind() == FidKind::Bloom).then(|| fid.bytes().len()));
            }
            None => encoded.failed += 1,
        }
    }
    encoded
}

/// The graph built from the link states of these routers.
fn graph(topology: &Topology, seed: u64) -> Graph {
    let mut random = Random::new(seed, 1);
    let mut states: Vec<LinkState> = (0..topology.places.len())
        .map(|index| {
            let mut secret = [0; 16];
            secret[..8].copy_from_slice(&random.bits().to_be_bytes());
            secret[8..].copy_from_slice(&random.bits().to_be_bytes());
            LinkState {
                node: NodeId(index as u64 + 1),
                boot: 1,
                sequence: 1,
                term: 0,
                roles: Roles::ROUTER,
                label: topology.places[index].name.clone(),
                secret,
                location: None,
                adjacencies: Vec::new(),
            }
        })
        .collect();
    for edge in &topology.edges {
        let [a, b] = edge.ends;
        let faces = [states[a].adjacencies.len() as u32, states[b].adjacencies.len() as u32];
        for (from, to, own, other) in [(a, b, faces[0], faces[1]), (b, a, faces[1], faces[0])] {
            states[from].adjacencies.push(Adjacency {
                face: FaceId(own),
                neighbour: NodeId(to as u64 + 1),
                neighbour_face: FaceId(other),
                rtt_us: 1_000,
                capacity_kbps: 100_000,
                used_kbps: 0,
                mtu: 1_472,
            });
        }
    }
    Graph::new(&states.iter().collect::<Vec<_>>())
}

struct Item {
    seed: u64,
    nodes: usize,
}

const FETCH_AT: Time = Time::from_millis(6_000);

fn scenario(item: &Item) -> Scenario {
    let topology = generate::barabasi_albert(item.nodes, 2, item.seed);
    let mut scenario = Scenario::new("scale", item.seed);
    for (index, place) in topology.places.iter().enumerate() {
        let roles: &[Role] = match index {
            0 => &[Role::Router, Role::TopologyManager],
            1..=3 => &[Role::Router, Role::Resolver],
            _ => &[Role::Router],
        };
        scenario.add_node(&place.name, Family::Psi, roles).psi_mut().cache_bytes = ByteCount(0);
    }
    for edge in &topology.edges {
        let [a, b] = edge.ends.map(|end| topology.places[end].name.as_str());
        scenario.add_link(a, b, link(100_000, 3));
    }
    let mut random = Random::new(item.seed, 0x5ca1e2);
    for number in 0..item.nodes / 10 {
        let mut pick = || topology.places[4 + random.below(item.nodes as u64 - 4) as usize].name.clone();
        let (publisher, receiver) = (pick(), pick());
        let name = format!("/lab/object-{number}");
        let gap = Duration::from_millis(10 * number as u64);
        scenario.publish(&publisher, Time::from_millis(4_000) + gap, object(&name, 100_000, number as u64));
        scenario.fetch(&receiver, FETCH_AT + gap, name.parse().expect("a right name"));
    }
    scenario.until = crate::simulation::RunUntil::Limit;
    scenario.limit = Time::from_millis(10_000);
    scenario
}

/// Results for a domain of one size.
struct Domain {
    completed: f64,
    seconds: f64,
    manager: f64,
    resolver: f64,
    other: f64,
}

fn read(item: &Item, _: &Scenario, outcome: Outcome) -> Domain {
    let complete = outcome.transfers.iter().filter(|transfer| transfer.is_complete());
    let seconds: Vec<_> = complete.clone().filter_map(|transfer| transfer.seconds()).collect();
    let messages = |from: usize, to: usize| {
        let of = outcome.nodes.iter().skip(from).take(to - from);
        let counts = of
            .filter_map(|node| node.status.as_ref())
            .map(|status| status.counters.get("control messages delivered").copied().unwrap_or(0) as f64);
        mean(&counts.collect::<Vec<_>>())
    };
    Domain {
        completed: complete.count() as f64 / outcome.transfers.len().max(1) as f64,
        seconds: mean(&seconds),
        manager: messages(0, 1),
        resolver: messages(1, 4),
        other: messages(4, item.nodes),
    }
}

fn domains(results: &mut Results, settings: &Settings) {
    let sizes: &[usize] = settings.choose(&[25, 50, 100, 200, 400, 800], &[20]);
    let mut table =
        Table::new("domains", &["nodes", "run", "completed", "seconds_mean", "manager", "resolver", "other"]);
    let mut curves: Vec<Vec<(f64, f64)>> = vec![Vec::new(); 3];
    for nodes in sizes {
        let items: Vec<_> =
            (0..settings.runs).map(|run| Item { seed: settings.seed_of(*nodes as u64, run), nodes: *nodes }).collect();
        let rows = each(&items, scenario, read);
        let of = |value: fn(&Domain) -> f64| mean(&rows.iter().map(value).collect::<Vec<_>>());
        let mut put = |quantity: &str, value: f64, unit: &str| {
            results.metric(format!("domain.{quantity}@nodes{nodes}"), value, unit);
        };
        put("completed", of(|row| row.completed), "share");
        put("seconds_mean", of(|row| row.seconds), "seconds");
        put("messages_per_manager", of(|row| row.manager), "count");
        put("messages_per_resolver", of(|row| row.resolver), "count");
        put("messages_per_node", of(|row| row.other), "count");
        for (curve, value) in
            curves.iter_mut().zip([of(|row| row.manager), of(|row| row.resolver), of(|row| row.other)])
        {
            curve.push((*nodes as f64, value));
        }
        for (run, row) in (1..).zip(&rows) {
            let mut cells = vec![format!("{nodes}"), format!("{run}")];
            let values = [row.completed, row.seconds, row.manager, row.resolver, row.other];
            cells.extend(values.map(|value| format!("{value:.4}")));
            table.push(cells);
        }
    }
    results.tables.push(table);
    let series = curves.into_iter().zip(["topology manager", "rendezvous node", "any other node"]);
    let series: Vec<_> = series.map(|(points, label)| Series::new(label, points).styled(Style::Marked)).collect();
    results.figure("messages", lines(&Chart::new("Control messages by role", "nodes", "messages in 10 s"), &series));
}

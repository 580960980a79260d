//! What mmFTP leaves for later (§V): sources and paths chosen by network state and location, against hop count.
use crate::topology::{Topology, generate};
use std::collections::VecDeque;
use tributary::{Family, config::Role};
use tributary_content::{MemoryObject, Name, SigningKey};
use tributary_core::{Duration, Random, Rate, Time, link::LinkConfig};
use tributary_transport::PathMetric;

use crate::{
    Results, Settings, Table,
    figures::{Bar, BarGroup, Chart, bars},
    optimum,
    runs::{PaperTimes, Times, each},
    simulation::{RunUntil, Scenario, object},
    stats::mean,
};

/// Routers of the network; each has one host.
const PLACES: usize = 24;
/// Transfers that keep the network busy.
const BACKGROUND: usize = 6;
const FOREGROUND_START: Time = Time::from_millis(7_000);

/// A selection method: publishers used, metric, paths to each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Choice {
    name: &'static str,
    publishers: Publishers,
    metric: PathMetric,
    paths_per_source: u8,
}

/// Which of the publishers are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Publishers {
    /// The one with the fewest hops.
    FewestHops,
    /// The one that is nearest on the map.
    Nearest,
    /// All.
    All,
}

const fn choice(name: &'static str, publishers: Publishers, metric: PathMetric, paths_per_source: u8) -> Choice {
    Choice { name, publishers, metric, paths_per_source }
}

const CHOICES: [Choice; 8] = [
    choice("nearest-source", Publishers::FewestHops, PathMetric::Hops, 1),
    choice("nearest-source-by-place", Publishers::Nearest, PathMetric::Distance, 1),
    choice("hops", Publishers::All, PathMetric::Hops, 1),
    choice("place", Publishers::All, PathMetric::Distance, 1),
    choice("latency", Publishers::All, PathMetric::Latency, 1),
    choice("capacity", Publishers::All, PathMetric::ResidualCapacity, 1),
    choice("place-two-paths", Publishers::All, PathMetric::Distance, 2),
    choice("capacity-two-paths", Publishers::All, PathMetric::ResidualCapacity, 2),
];

struct Item {
    seed: u64,
    choice: Choice,
    bytes: usize,
    background: Vec<MemoryObject>,
}

/// The participants of a run.
struct Cast {
    receiver: usize,
    sources: Vec<usize>,
    background: Vec<[usize; 2]>,
}

fn cast(seed: u64) -> Cast {
    let mut random = Random::new(seed, 0x5e1ec7);
    let mut pick = |taken: &[usize]| loop {
        let place = random.below(PLACES as u64) as usize;
        if !taken.contains(&place) {
            break place;
        }
    };
    let receiver = pick(&[]);
    let mut taken = vec![receiver];
    for _ in 0..3 {
        taken.push(pick(&taken));
    }
    let background = (0..BACKGROUND).map(|_| {
        let from = pick(&[receiver]);
        [from, pick(&[receiver, from])]
    });
    Cast { receiver, background: background.collect(), sources: taken[1..].to_vec() }
}

/// Links from `start` to every place.
fn hops(topology: &Topology, start: usize) -> Vec<u32> {
    let mut hops = vec![u32::MAX; topology.places.len()];
    hops[start] = 0;
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for edge in topology.edges.iter().filter(|edge| edge.ends.contains(&at)) {
            let next = edge.ends[usize::from(edge.ends[0] == at)];
            if hops[next] == u32::MAX {
                hops[next] = hops[at] + 1;
                queue.push_back(next);
            }
        }
    }
    hops
}

fn scenario(item: &Item) -> Scenario {
    let topology = generate::waxman(PLACES, 0.25, 0.45, Duration::from_millis(25), item.seed);
    let mut random = Random::new(item.seed, 0x4a7e5);
    let mut scenario = Scenario::new("selection", item.seed);
    let link = |mbps: u64, delay: Duration| LinkConfig {
        queue_bytes: Rate::from_mbps(mbps).bytes_in(Duration::from_millis(50)).max(64 << 10),
        ..LinkConfig::new(Rate::from_mbps(mbps), delay)
    };
    for place in &topology.places {
        crate::wide_area::router(&mut scenario, &place.name).psi_mut().location = place.location;
    }
    for edge in &topology.edges {
        let mbps = [10, 20, 40][random.below(3) as usize];
        let [a, b] = edge.ends.map(|end| topology.places[end].name.as_str());
        scenario.add_link(a, b, link(mbps, edge.forward.delay.unwrap_or_default().max(Duration::from_millis(1))));
    }
    for (index, place) in topology.places.iter().enumerate() {
        let host = format!("h{index}");
        scenario.add_node(&host, Family::Psi, &[Role::Sender, Role::Receiver]).psi_mut().location = place.location;
        scenario.add_link(&host, &place.name, link(100, Duration::from_millis(1)));
    }
    scenario.add_node("rn-tm", Family::Psi, &[Role::Resolver, Role::TopologyManager]);
    scenario.add_link("rn-tm", &topology.places[0].name, link(100, Duration::from_millis(1)));
    let cast = cast(item.seed);
    for (number, [from, to]) in cast.background.iter().enumerate() {
        scenario.publish(&format!("h{from}"), Time::ZERO, item.background[number].clone());
        let fetch = scenario.fetch(&format!("h{to}"), Time::from_millis(3_000), background_name(number));
        fetch.paths_per_source = 1;
    }
    let object = object("/lab/file", item.bytes, 99);
    for source in publishers(item.choice.publishers, &cast, &topology) {
        scenario.publish(&format!("h{source}"), Time::ZERO, object.clone());
    }
    let name = "/lab/file".parse().expect("a right name");
    let fetch = scenario.fetch(&format!("h{}", cast.receiver), FOREGROUND_START, name);
    (fetch.paths_per_source, fetch.metric) = (item.choice.paths_per_source, item.choice.metric);
    scenario.until = RunUntil::FetchEnds(BACKGROUND);
    scenario.limit = Time::from_millis(120_000);
    scenario
}

/// The places of the publishers that are used.
fn publishers(which: Publishers, cast: &Cast, topology: &Topology) -> Vec<usize> {
    let best = match which {
        Publishers::All => return cast.sources.clone(),
        Publishers::FewestHops => {
            let hops = hops(topology, cast.receiver);
            cast.sources.iter().copied().min_by_key(|source| hops[*source])
        }
        Publishers::Nearest => {
            let location =
                |place: usize| topology.places[place].location.expect("the square is small enough for a map");
            let km = |source: &usize| location(*source).distance_km(location(cast.receiver));
            cast.sources.iter().copied().min_by(|a, b| km(a).total_cmp(&km(b)))
        }
    };
    best.into_iter().collect()
}

fn background_name(number: usize) -> Name {
    format!("/lab/background-{number}").parse().expect("a right name")
}

pub(super) fn run(settings: &Settings, results: &mut Results) {
    let bytes = settings.choose(8_000_000, 1_500_000);
    let mut table = Table::new("times", &["variant", "run", "seconds", "bound_seconds"]);
    let block = object("/lab/bytes", bytes * 6, 5);
    let key = SigningKey::from_secret(&[5; 32]);
    let sign = |number| MemoryObject::new(background_name(number), block.bytes().clone(), &key);
    let background: Vec<_> = (0..BACKGROUND).map(|number| sign(number).expect("the name is not the root")).collect();
    let mut groups = Vec::new();
    let mut bounds = Vec::new();
    for choice in CHOICES {
        let seeds = (0..settings.runs).map(|run| settings.seed_of(1, run));
        let items: Vec<_> = seeds.map(|seed| Item { seed, choice, bytes, background: background.clone() }).collect();
        let rows = each(&items, scenario, |item, scenario, outcome| {
            let cast = cast(item.seed);
            let sources: Vec<_> = cast.sources.iter().map(|source| format!("h{source}")).collect();
            let sources: Vec<_> = sources.iter().map(String::as_str).collect();
            let mbps = optimum::mbps(scenario, &sources, &format!("h{}", cast.receiver));
            // The last fetch is the one in question.
            let transfer = outcome.transfers.last();
            let seconds = transfer.filter(|of| of.is_complete()).and_then(|of| of.seconds());
            (seconds, item.bytes as f64 * 8e-6 / mbps.max(1e-9))
        });
        let mut times = Times::default();
        for (run, (seconds, bound)) in (1..).zip(&rows) {
            times.push(*seconds);
            let text = seconds.map(|seconds| format!("{seconds:.6}")).unwrap_or_default();
            table.push(vec![choice.name.into(), format!("{run}"), text, format!("{bound:.6}")]);
        }
        bounds = rows.iter().map(|(_, bound)| *bound).collect();
        times.tell(results, choice.name, PaperTimes::default());
        groups.push(BarGroup { label: choice.name.into(), bars: vec![times.bar()] });
    }
    results.metric("optimum.seconds_mean", mean(&bounds), "seconds");
    let hops = results.value("hops.seconds_mean");
    for choice in CHOICES.iter().filter(|choice| choice.publishers == Publishers::All && choice.name != "hops") {
        let gain = 1.0 - results.value(&format!("{}.seconds_mean", choice.name)) / hops;
        results.metric(format!("{}.gain", choice.name), gain, "relative");
    }
    results.tables.push(table);
    groups.push(BarGroup { label: "optimum".into(), bars: vec![Bar::new(mean(&bounds))] });
    let chart =
        Chart::new("Download from three publishers on a busy network", "paths chosen by", "mean download time (s)");
    results.figure("means", bars(&chart, &["mean"], &groups));
    describe(results, bytes);
}

fn describe(results: &mut Results, bytes: usize) {
    results.parameter(
        "network",
        format!("Waxman, {PLACES} routers, links of 10, 20 or 40 Mbit/s by lot, a square of 25 ms"),
    );
    results.parameter("other transfers", format!("{BACKGROUND} of {} bytes, one path each by hops", bytes * 6));
    results
        .parameter("transfer in question", format!("{bytes} bytes from three publishers, 4 s after the others began"));
}

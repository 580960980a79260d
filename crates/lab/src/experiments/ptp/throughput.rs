//! What the tree, the diamond and the mesh have in common: one consumer, and how much of the maximum flow it gets.
use std::collections::BTreeMap;

use tributary::simulation::parallel;
use tributary_core::{Duration, Time};
use tributary_ndn::{
    naming,
    sender::Sender,
    wire::{Interest, NameView, SignKey},
};

use super::{
    figures,
    schemes::{ALTERNATIVES, MAIN, Scheme},
    topology::Topology,
    world::{self, Object, Plan, Record, SEGMENT_BYTES, Start},
};
use crate::{
    Results, Settings, Table,
    stats::{confidence, mean},
};

/// Queue of every link, in packets, unless it is swept.
pub(super) const QUEUE_PACKETS: u64 = 50;
/// The other lengths of the sweep.
const QUEUES_SWEPT: [u64; 2] = [20, 200];

/// An experiment of this kind.
pub(super) struct Spec {
    pub(super) name: &'static str,
    /// What it is called in figures.
    pub(super) title: &'static str,
    pub(super) topology: Topology,
    pub(super) consumer: u8,
    pub(super) producers: &'static [u8],
    /// The paper's utilisations by scheme.
    pub(super) paper: &'static [(&'static str, f64)],
    /// Seconds that a run lasts and that are not counted, at full scale.
    pub(super) seconds: (f64, f64),
}

/// One run to make.
#[derive(Clone, Debug)]
struct Item {
    /// Where its values go: `@` and a setting, or nothing.
    setting: String,
    scheme: Scheme,
    queue_packets: u64,
    delays: Delays,
    seed: u64,
}

/// How long the links are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Delays {
    /// As in the reconstruction.
    Full,
    /// A tenth of that.
    Short,
}

/// What a run gave.
pub(super) struct Measured {
    /// Of the maximum flow, on the wire of the consumer's link.
    pub(super) utilisation: f64,
    /// Content bytes, each once, of what the maximum flow could carry of full packets.
    pub(super) goodput: f64,
    /// Kbit/s by hop.
    pub(super) hops: Vec<f64>,
    pub(super) record: Record,
}

/// Runs it.
pub(super) fn run(spec: &Spec, settings: &Settings) -> Results {
    let mut results = Results::new(spec.name, settings);
    let (seconds, skipped) = seconds_of(spec, settings);
    let (optimum, optimum_hops) = spec.topology.optimum(spec.producers, spec.consumer);
    results.metric("optimum.mbps", optimum as f64 / 1e3, "mbps");
    let items = items(settings);
    let measured = measure_all(spec, settings, &items);
    let mut by_variant: BTreeMap<(usize, String), Vec<&Measured>> = BTreeMap::new();
    let order = |item: &Item| MAIN.iter().position(|scheme| scheme.name == item.scheme.name).unwrap_or(MAIN.len());
    for (item, measured) in items.iter().zip(&measured) {
        by_variant.entry((order(item), item.setting.clone())).or_default().push(measured);
    }
    tell(spec, &mut results, &by_variant);
    let main: Vec<(&Scheme, &[&Measured])> = MAIN
        .iter()
        .enumerate()
        .filter_map(|(at, scheme)| Some((scheme, &by_variant.get(&(at, String::new()))?[..])))
        .collect();
    links_table(spec, &mut results, &main, &optimum_hops);
    figures::links(spec, &mut results, &main, &optimum_hops);
    figures::over_time(spec, &mut results, &main);
    figures::sweep(spec, &mut results);
    describe(spec, &mut results, (seconds, skipped));
    results
}

/// Runs one scheme with as many seeds as there are runs.
pub(super) fn runs(spec: &Spec, settings: &Settings, scheme: &Scheme) -> Vec<Measured> {
    let item = |run| Item {
        setting: String::new(),
        scheme: scheme.clone(),
        queue_packets: QUEUE_PACKETS,
        delays: Delays::Full,
        seed: settings.seed_of(0, run),
    };
    measure_all(spec, settings, &(0..settings.runs).map(item).collect::<Vec<_>>())
}

/// Seconds that a run lasts, and that are not counted.
fn seconds_of(spec: &Spec, settings: &Settings) -> (f64, f64) {
    settings.choose(spec.seconds, (spec.seconds.0 / 3.0, spec.seconds.1 / 3.0))
}

fn measure_all(spec: &Spec, settings: &Settings, items: &[Item]) -> Vec<Measured> {
    let (seconds, skipped) = seconds_of(spec, settings);
    let (optimum, _) = spec.topology.optimum(spec.producers, spec.consumer);
    let objects = [Object::new("A", (optimum as f64 * 1.1 * seconds * 125.0) as u64, spec.producers)];
    let shorter = spec.topology.shorter();
    parallel::map(items, |item| {
        let plan = Plan {
            topology: if item.delays == Delays::Full { &spec.topology } else { &shorter },
            scheme: &item.scheme,
            objects: &objects,
            consumers: vec![Start { node: spec.consumer, object: 0, at: start_of(item.seed), plain: None }],
            caches: Vec::new(),
            queue_packets: item.queue_packets,
            until: Time::from_nanos((seconds * 1e9) as u64),
            seed: item.seed,
        };
        let record = world::run(&plan);
        measure(spec, record, skipped, optimum as f64, data_bytes(&objects[0]))
    })
}

/// Bytes on the wire of a Data with a full segment: name, metadata and digest signature included.
fn data_bytes(object: &Object) -> f64 {
    let mut sender = Sender::new("5", SEGMENT_BYTES, SignKey::Digest, Duration::ZERO);
    sender.publish(Box::new(object.content.clone()));
    let name = naming::packet_name(&world::object_name("A"), 1, 300).expect("a short name");
    let data = sender.handle_interest(Time::ZERO, &Interest::new(NameView::from(&name)));
    data.map_or(f64::from(SEGMENT_BYTES), |data| data.len() as f64)
}

/// When a consumer begins: within the first tenth of a second, so that runs differ.
pub(super) fn start_of(seed: u64) -> Time {
    Time::from_nanos(tributary_core::Random::new(seed, 5).below(100_000_000))
}

fn items(settings: &Settings) -> Vec<Item> {
    let mut items = Vec::new();
    let mut add = |phase: u64, setting: &str, scheme: &Scheme, queue_packets, delays| {
        for run in 0..settings.runs {
            let (setting, scheme) = (setting.into(), scheme.clone());
            items.push(Item { setting, scheme, queue_packets, delays, seed: settings.seed_of(phase, run) });
        }
    };
    for scheme in &MAIN {
        add(0, "", scheme, QUEUE_PACKETS, Delays::Full);
        add(4, "@delays-tenth", scheme, QUEUE_PACKETS, Delays::Short);
        for (queue, phase) in QUEUES_SWEPT.into_iter().zip(1..) {
            add(phase, &format!("@queue{queue}"), scheme, queue, Delays::Full);
        }
    }
    for scheme in &ALTERNATIVES {
        add(3, &format!("@{}", scheme.label), scheme, QUEUE_PACKETS, Delays::Full);
    }
    items
}

/// Measures from `skipped` seconds on.
fn measure(spec: &Spec, record: Record, skipped: f64, optimum: f64, data_bytes: f64) -> Measured {
    let first = record.samples.iter().find(|sample| sample.at >= skipped - 1e-9).expect("runs are longer than that");
    let last = record.samples.last().expect("a run has samples");
    let seconds = last.at - first.at;
    let hops: Vec<f64> =
        last.wire.iter().zip(&first.wire).map(|(end, start)| (end - start) as f64 * 8e-3 / seconds).collect();
    let into = spec.topology.hops();
    let access: f64 =
        into.iter().zip(&hops).filter(|((_, from, _), _)| *from == spec.consumer).map(|(_, kbps)| kbps).sum();
    let content = (last.consumers[0].bytes - first.consumers[0].bytes) as f64 * 8e-3 / seconds;
    let goodput = content / (optimum * f64::from(SEGMENT_BYTES) / data_bytes);
    Measured { utilisation: access / optimum, goodput, hops, record }
}

fn tell(spec: &Spec, results: &mut Results, by_variant: &BTreeMap<(usize, String), Vec<&Measured>>) {
    let mut table = Table::new("utilisation", &["scheme", "setting", "run", "utilisation", "goodput share"]);
    for ((at, setting), measured) in by_variant {
        let name = MAIN[*at].name;
        let of =
            |value: fn(&Measured) -> f64| -> Vec<f64> { measured.iter().map(|measured| value(measured)).collect() };
        let (wire, goodput) = (of(|measured| measured.utilisation), of(|measured| measured.goodput));
        let paper = spec.paper.iter().find(|(known, _)| *known == name && setting.is_empty());
        match paper {
            Some((_, paper)) => results.beside(format!("{name}.utilisation"), mean(&wire), "share", *paper),
            None => results.metric(format!("{name}.utilisation{setting}"), mean(&wire), "share"),
        }
        results.metric(format!("{name}.utilisation_confidence{setting}"), confidence(&wire), "share");
        results.metric(format!("{name}.goodput_share{setting}"), mean(&goodput), "share");
        for (run, measured) in (1..).zip(measured) {
            table.push(vec![
                name.into(),
                setting.trim_start_matches('@').into(),
                format!("{run}"),
                format!("{:.5}", measured.utilisation),
                format!("{:.5}", measured.goodput),
            ]);
        }
    }
    results.tables.push(table);
}

fn links_table(spec: &Spec, results: &mut Results, main: &[(&Scheme, &[&Measured])], optimum: &[u64]) {
    let mut table = Table::new(
        "links",
        &["scheme", "link", "rate (kbit/s)", "optimum (kbit/s)", "measured (kbit/s)", "measured / rate"],
    );
    for (scheme, measured) in main {
        for (at, (link, from, to)) in spec.topology.hops().into_iter().enumerate() {
            let rate = spec.topology.links[link].kbps;
            let kbps = mean(&measured.iter().map(|measured| measured.hops[at]).collect::<Vec<_>>());
            table.push(vec![
                scheme.name.into(),
                format!("{to}-{from}"),
                format!("{rate}"),
                format!("{}", optimum[at]),
                format!("{kbps:.1}"),
                format!("{:.4}", kbps / rate as f64),
            ]);
        }
    }
    results.tables.push(table);
}

fn describe(spec: &Spec, results: &mut Results, (seconds, skipped): (f64, f64)) {
    results.parameter("run", format!("{seconds} s, of which the first {skipped} s are not counted"));
    results.parameter("segment", format!("{SEGMENT_BYTES} bytes of content"));
    results.parameter("queue", format!("drop-tail, {QUEUE_PACKETS} packets; swept: 20 and 200"));
    results.parameter("paths in use", "10 at most, changed every 10 s (N and T of §6 A)");
    results.parameter("decrease", "β = 0.75 for the paper's window (§6 A)");
    for link in &spec.topology.links {
        results.parameter(
            &format!("link {}-{}", link.near, link.far),
            format!("{} kbit/s, {} ms", link.kbps, link.delay_us / 1_000),
        );
    }
    results.note(
        "Utilisation is what arrives over the consumer's link, headers and probes included, by what the maximum flow allows \
         there, as the paper measures it; goodput share counts each content byte once, by the content that the maximum flow \
         could carry in full packets, so nothing that is asked for twice, probed or lost counts.",
    );
    results.note(
        "Routers, consumers and producers of PTP are the product's own nodes; the rivals' consumers run on the same routers \
         with the strategies rfa, paf and pcon.",
    );
}

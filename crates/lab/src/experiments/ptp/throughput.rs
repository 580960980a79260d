//! The common part of the tree, the diamond and the mesh: one consumer, and its share of the maximum flow.
use tributary_core::{Duration, Time};
use tributary_ndn::{Interest, NameView, Sender, SignKey, packet_name};

use super::{
    figures::{self, Shown},
    links::{Link, Use},
    schemes::Scheme,
    topology::Topology,
    variants::{self, QUEUE_PACKETS, Run, Runs, Variant},
    world::{self, Object, Plan, Record, SEGMENT_BYTES, Start},
};
use crate::{Results, Settings, Table};

/// An experiment of this kind.
pub(super) struct Spec {
    /// Its name in figures.
    pub(super) title: &'static str,
    pub(super) topology: Topology,
    pub(super) consumer: u8,
    pub(super) producers: &'static [u8],
    /// The paper's utilisations: of PTP, then of [`PAPERS_RIVALS`] if it has them.
    pub(super) paper: &'static [f64],
    /// Seconds that a run lasts and that are not counted, at full scale.
    pub(super) seconds: (f64, f64),
}

/// Samples over which a rate is averaged: one second.
const SMOOTH: usize = 10;

/// The rivals of the paper: its solutions 2 to 4.
const PAPERS_RIVALS: [&str; 3] = ["rfa-raaqm", "rfa-chopcop", "paf-raaqm"];

impl Spec {
    /// The paper's utilisation by a scheme.
    fn paper_of(&self, scheme: &str) -> Option<f64> {
        let rival = PAPERS_RIVALS.iter().position(|rival| *rival == scheme);
        let at = if scheme.starts_with("ptp") { 0 } else { 1 + rival? };
        self.paper.get(at).copied()
    }
}

/// What a run gave.
pub(super) struct Measured {
    /// Of the maximum flow, on the wire of the consumer's link.
    pub(super) utilisation: f64,
    /// Content bytes without duplicates, as a share of the maximum flow of full packets.
    pub(super) goodput: f64,
    /// Packets declared lost, as a share of the requested ones.
    pub(super) lost: f64,
    /// Kbit/s by hop.
    pub(super) hops: Vec<f64>,
    /// Paths that the consumer knew in the end.
    pub(super) paths_known: f64,
    /// Bytes of tags on all links for each segment that arrived.
    pub(super) tag_bytes: f64,
    /// Of the run that figures show.
    pub(super) record: Option<Record>,
}

pub(super) fn run(spec: &Spec, settings: &Settings, results: &mut Results) {
    let (seconds, skipped) = seconds_of(spec, settings);
    let (optimum, optimum_hops) = spec.topology.optimum(spec.producers, spec.consumer);
    results.metric("optimum.mbps", optimum as f64 / 1e3, "mbps");
    let all = measure_all(spec, settings, Variant::all(settings));
    tell(spec, results, &all);
    let main = variants::plain(&all);
    let hops = spec.topology.hops().into_iter().zip(optimum_hops);
    let hops = hops.map(|((link, from, to), full)| Link::new(from, to, spec.topology.links[link].kbps, full));
    let links = Use {
        title: spec.title,
        full: "optimum",
        caption: "By the load of one maximum flow. The first link carries everything that the consumer gets. Where \
            there are several optima, a link beyond the first may have less than 1 while another has more.",
        links: &hops.collect::<Vec<_>>(),
    };
    links.tell(results, &main, |run| &run.hops);
    let shown: Vec<Shown<'_>> = variants::shown(&main, |run| run.record.as_ref()).collect();
    for run in &shown {
        figures::windows(spec.title, results, *run, &[(0, "")], Vec::new());
    }
    figures::rates_by_scheme(spec.title, results, &shown, SMOOTH, 0.0);
    figures::sweep(spec.title, results, "utilisation", "utilisation of the maximum flow");
    describe(spec, results, (seconds, skipped));
}

/// Runs one scheme with as many seeds as there are runs.
pub(super) fn runs(spec: &Spec, settings: &Settings, scheme: &Scheme) -> Runs<Measured> {
    measure_all(spec, settings, vec![Variant::plain(scheme)]).remove(0)
}

/// Seconds that a run lasts, and that are not counted.
fn seconds_of(spec: &Spec, settings: &Settings) -> (f64, f64) {
    settings.choose(spec.seconds, (spec.seconds.0 / 3.0, spec.seconds.1 / 3.0))
}

fn measure_all(spec: &Spec, settings: &Settings, variants: Vec<Variant>) -> Vec<Runs<Measured>> {
    let (seconds, skipped) = seconds_of(spec, settings);
    let (optimum, _) = spec.topology.optimum(spec.producers, spec.consumer);
    let objects = [Object::new("A", (optimum as f64 * 1.1 * seconds * 125.0) as u64, spec.producers)];
    variants::run(settings, variants, |Run { variant, seed, is_shown }| {
        let plan = Plan {
            topology: &variant.topology(&spec.topology),
            scheme: &variant.scheme,
            objects: &objects,
            consumers: vec![Start { node: spec.consumer, object: 0, at: start_of(*seed), plain: None }],
            caches: Vec::new(),
            legacy: &[],
            queue_packets: variant.queue_packets,
            until: Time::from_nanos((seconds * 1e9) as u64),
            seed: *seed,
        };
        let measured = measure(spec, world::run(&plan), skipped, optimum as f64, data_bytes(&objects[0]));
        Measured { record: measured.record.filter(|_| *is_shown), ..measured }
    })
}

/// Bytes on the wire of a Data with a full segment: name, metadata and digest signature included.
fn data_bytes(object: &Object) -> f64 {
    let mut sender = Sender::new("5", SEGMENT_BYTES, SignKey::Digest, Duration::ZERO);
    sender.publish(Box::new(object.content.clone()));
    let name = packet_name(&world::object_name("A"), 1, 300).expect("a short name");
    let data = sender.handle_interest(Time::ZERO, &Interest::new(NameView::from(&name)));
    data.map_or(f64::from(SEGMENT_BYTES), |data| data.len() as f64)
}

/// Start of a consumer: within the first tenth of a second, so that runs differ.
pub(super) fn start_of(seed: u64) -> Time {
    Time::from_nanos(tributary_core::Random::new(seed, 5).below(100_000_000))
}

/// Measures from `skipped` seconds on.
fn measure(spec: &Spec, record: Record, skipped: f64, optimum: f64, data_bytes: f64) -> Measured {
    let samples = &record.samples;
    let first = samples.iter().position(|sample| sample.at >= skipped - 1e-9).expect("runs are longer than that");
    let hops = record.kbps(first, samples.len() - 1);
    let tag_bytes = record.tag_bytes(first, samples.len() - 1);
    let (first, last) = (&samples[first], &samples[samples.len() - 1]);
    let seconds = last.at - first.at;
    let into = spec.topology.hops();
    let access: f64 =
        into.iter().zip(&hops).filter(|((_, from, _), _)| *from == spec.consumer).map(|(_, kbps)| kbps).sum();
    let content = (last.consumers[0].bytes - first.consumers[0].bytes) as f64 * 8e-3 / seconds;
    let goodput = content / (optimum * f64::from(SEGMENT_BYTES) / data_bytes);
    let [requested, lost] = [
        last.consumers[0].requested - first.consumers[0].requested,
        last.consumers[0].lost.saturating_sub(first.consumers[0].lost),
    ];
    let lost = lost as f64 / requested.max(1) as f64;
    let paths_known = last.consumers[0].paths_known as f64;
    Measured { utilisation: access / optimum, goodput, lost, hops, tag_bytes, paths_known, record: Some(record) }
}

fn tell(spec: &Spec, results: &mut Results, all: &[Runs<Measured>]) {
    let mut table = Table::new("utilisation", &["scheme", "setting", "run", "utilisation", "goodput share"]);
    for runs in all {
        let name = runs.variant.scheme.name;
        runs.tell(results, "utilisation", &runs.of(|run| run.utilisation), "share", spec.paper_of(name));
        runs.tell(results, "goodput_share", &runs.of(|run| run.goodput), "share", None);
        runs.record_tags(results, |run| run.tag_bytes);
        if runs.variant.records_tags() {
            runs.tell(results, "paths_known", &runs.of(|run| run.paths_known), "count", None);
        }
        for (run, measured) in (1..).zip(&runs.values) {
            table.push(vec![
                name.into(),
                runs.variant.setting.trim_start_matches('@').into(),
                format!("{run}"),
                format!("{:.5}", measured.utilisation),
                format!("{:.5}", measured.goodput),
            ]);
        }
    }
    results.tables.push(table);
}

fn describe(spec: &Spec, results: &mut Results, (seconds, skipped): (f64, f64)) {
    results.parameter("run", format!("{seconds} s; the first {skipped} s are not counted"));
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
        "Utilisation is the traffic that arrives over the consumer's link, headers and probes included, by the \
         maximum flow there, as the paper measures it; goodput share counts each content byte once, by the content \
         that the maximum flow could carry in full packets, so that repeated requests, probes and losses do not \
         count.",
    );
    results.note(
        "Tag bytes are the path tags on all links, Interests and Data, with the rates sent with labels, for each \
         segment that arrives. Huffman: routers write Huffman codes in place of labels of 4 bytes, whose ends only \
         the router itself knows (the paper's §4 A leaves open whether that pays).",
    );
    results.note(
        "Routers, consumers and producers of PTP are the product's own nodes; the rivals' consumers run on the same routers \
         with the strategies rfa, paf and pcon.",
    );
}

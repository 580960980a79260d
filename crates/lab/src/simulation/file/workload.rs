//! `[[publish]]`, `[[fetch]]`, `[random]`, `[[rival]]` and `[[traffic]]`: the actions of nodes, and their times.
use crate::traffic::{GreedyConfig, Law, Packet, Pattern, SourceConfig};
use std::collections::{BTreeMap, BTreeSet};
use tributary_content::{MemoryObject, Name};
use tributary_core::{ByteCount, Duration, Random, Rate, Time};
use tributary_transport::PathMetric;

use super::{
    places::Places,
    rivals::{RIVALS, RivalSpec},
    values::{TIME_MAX, moment, required, unknown},
};
use crate::simulation::{Scenario, object, traffic};
use tributary::config::{
    Role,
    reader::Section,
    values::{RATE_HINT, duration, size},
};

/// Reads them all into `scenario`.
pub(super) fn read(root: &Section<'_>, places: &mut Places<'_>, scenario: &mut Scenario, rivals: &mut Vec<RivalSpec>) {
    let mut objects = Objects::default();
    for section in root.sections("publish") {
        publish(section, places, scenario, &mut objects);
    }
    let mut random = Random::new(scenario.seed, FETCH_STREAM);
    for section in root.sections("fetch") {
        fetch(section, places, scenario, &objects, &mut random);
    }
    if let Some(section) = root.section("random") {
        transfers(&section, places, scenario, &mut objects);
        section.finish();
    }
    for (section, number) in root.sections("rival").into_iter().zip(1..) {
        rivals.extend(rival(&section, places, number));
        section.finish();
    }
    for (section, number) in root.sections("traffic").into_iter().zip(1..) {
        cross_traffic(&section, places, scenario, number);
        section.finish();
    }
}

/// The maximum size of an object; all objects of a scenario are in memory.
const OBJECT_BYTES_MAX: u64 = 8 << 30;
/// Before this a network has hardly found itself.
const FETCH_START: Time = Time::from_millis(2_000);
const NAME_HINT: &str = "write a name such as \"/lab/file\"";
/// The random stream of the start times of fetches.
const FETCH_STREAM: u64 = 0x6665_7463;
/// The random stream of the workload.
const WORKLOAD_STREAM: u64 = 0x776f_726b;

/// Objects by name, size and seed: several nodes may publish the same object, which is created once.
#[derive(Default)]
struct Objects {
    made: BTreeMap<(String, u64, u64), MemoryObject>,
    /// The names of all sections that publish, those with mistakes too: a fetch of theirs is no second mistake.
    names: BTreeSet<String>,
}

impl Objects {
    fn make(&mut self, name: &str, bytes: u64, seed: u64) -> MemoryObject {
        let make = || object(name, usize::try_from(bytes).unwrap_or(usize::MAX), seed);
        self.made.entry((name.into(), bytes, seed)).or_insert_with(make).clone()
    }
    fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}

fn publish(section: Section<'_>, places: &mut Places<'_>, scenario: &mut Scenario, objects: &mut Objects) {
    let node = required(&section, "node", "name the node that publishes").filter(|node| places.check(&section, node));
    let name = name(&section);
    objects.names.extend(name.as_ref().map(Name::to_string));
    let bytes = size(&section, "size", 1, OBJECT_BYTES_MAX);
    if bytes.is_none() && !section.has("size") {
        section.missing("size", "write a size with its unit, such as \"10MB\"");
    }
    let seed = section.integer("seed", 0..=i64::MAX as u64).unwrap_or(1);
    let at = moment(&section, "start").unwrap_or(Time::ZERO);
    if let (Some(node), Some(name), Some(bytes)) = (node, name, bytes) {
        places.add_role(&node.value, Role::Sender);
        scenario.publish(&node.value, at, objects.make(&name.to_string(), bytes, seed));
    }
    section.finish();
}
fn name(section: &Section<'_>) -> Option<Name> {
    let text = required(section, "name", NAME_HINT)?;
    let name: Name = section.parse("name", &text, NAME_HINT)?;
    if name.components().next().is_none() {
        section.problem(text.span, "'name' is the root", NAME_HINT);
        return None;
    }
    Some(name)
}

fn fetch(
    section: Section<'_>,
    places: &mut Places<'_>,
    scenario: &mut Scenario,
    objects: &Objects,
    random: &mut Random,
) {
    let node = required(&section, "node", "name the node that fetches").filter(|node| places.check(&section, node));
    let name_of = name(&section);
    if let (Some(name), Some(text)) = (&name_of, section.text("name"))
        && !objects.names().any(|known| known == name.to_string())
    {
        unknown(&section, "publication", &text, objects.names());
    }
    let at = beginning(&section)(random);
    let paths = section.integer("paths_per_source", 1..=16);
    let metric = section.choice("metric", &PathMetric::ALL);
    let patience = duration(&section, "patience", Duration::from_millis(100), TIME_MAX);
    let limit: Option<Rate> = section.parsed("limit", RATE_HINT);
    if let (Some(node), Some(name)) = (node, name_of) {
        places.add_role(&node.value, Role::Receiver);
        let fetch = scenario.fetch(&node.value, at, name);
        fetch.paths_per_source = paths.map_or(fetch.paths_per_source, |paths| paths as u8);
        fetch.metric = metric.unwrap_or(fetch.metric);
        fetch.patience = patience;
        fetch.rate_limit = limit;
    }
    section.finish();
}

/// Start times of things with a `start` and a `spread`: each at a random time within that span.
fn beginning(section: &Section<'_>) -> impl Fn(&mut Random) -> Time + use<> {
    let start = moment(section, "start").unwrap_or(FETCH_START);
    let spread = duration(section, "spread", Duration::ZERO, TIME_MAX).unwrap_or_default();
    let nanos = u64::try_from(spread.as_nanos()).unwrap_or(u64::MAX);
    move |random| start + Duration::from_nanos(random.below(nanos.saturating_add(1)))
}

/// Transfers between random nodes: each with a separate object, from one or more others.
fn transfers(section: &Section<'_>, places: &mut Places<'_>, scenario: &mut Scenario, objects: &mut Objects) {
    let count = section.integer("transfers", 1..=100_000);
    if count.is_none() && !section.has("transfers") {
        section.missing("transfers", "write how many");
    }
    let bytes = size(section, "size", 1, OBJECT_BYTES_MAX).unwrap_or(1_000_000);
    let sources = section.integer("sources", 1..=64).unwrap_or(1) as usize;
    let begin = beginning(section);
    let Some(count) = count else { return };
    if !places.is_complete() {
        return;
    }
    let labels = places.attachments();
    if labels.len() <= sources {
        let message = format!("{} nodes are too few for a receiver and {sources} sources", labels.len());
        section.wrong("sources", message, "add nodes, or ask for fewer sources");
        return;
    }
    if count.saturating_mul(bytes) > OBJECT_BYTES_MAX {
        let message = format!("{count} objects of {} do not fit into memory", ByteCount(bytes));
        section.wrong("size", message, "make them smaller");
        return;
    }
    let mut random = Random::new(scenario.seed, WORKLOAD_STREAM);
    for number in 1..=count {
        let mut free = labels.clone();
        let mut draw = || free.swap_remove(random.below(free.len() as u64) as usize);
        let receiver = draw();
        let publishers: Vec<String> = (0..sources).map(|_| draw()).collect();
        let text = format!("/random/{number}");
        objects.names.insert(text.clone());
        let object = objects.make(&text, bytes, number);
        for publisher in publishers {
            places.add_role(&publisher, Role::Sender);
            scenario.publish(&publisher, Time::ZERO, object.clone());
        }
        places.add_role(&receiver, Role::Receiver);
        let at = begin(&mut random);
        scenario.fetch(&receiver, at, text.parse().expect("digits make a name"));
    }
}

/// A download with a rival transport.
fn rival(section: &Section<'_>, places: &Places<'_>, number: u32) -> Option<RivalSpec> {
    let end = |key, hint| required(section, key, hint).filter(|node| places.check(section, node));
    let (from, to) = (end("from", "name the node that serves"), end("to", "name the node that downloads"));
    let kind = section.choice("kind", &RIVALS.map(|kind| (kind, kind)));
    if kind.is_none() && !section.has("kind") {
        section.missing("kind", &format!("write one of {}", RIVALS.join(", ")));
    }
    let bytes = size(section, "size", 1, OBJECT_BYTES_MAX);
    if bytes.is_none() && !section.has("size") {
        section.missing("size", "write a size with its unit, such as \"10MB\"");
    }
    let connections = section.integer("connections", 1..=64).unwrap_or(1) as u32;
    let start = moment(section, "start").unwrap_or(FETCH_START);
    let name = section.text("name").map_or_else(|| format!("rival-{number}"), |text| text.value);
    let (from, to) = (from?, to?);
    if from.value == to.value {
        section.problem(to.span, "this rival serves itself", "name another node");
        return None;
    }
    let (from, to) = (from.value, to.value);
    Some(RivalSpec { name, kind: kind?.into(), from, to, bytes: bytes?, connections, start })
}

fn cross_traffic(section: &Section<'_>, places: &Places<'_>, scenario: &mut Scenario, number: u32) {
    let end = |key, hint| required(section, key, hint).filter(|node| places.check(section, node));
    let (from, to) = (end("from", "name the node that sends"), end("to", "name the node that gets it"));
    let kinds = [("constant", Kind::Constant), ("on-off", Kind::OnOff), ("greedy", Kind::Greedy)];
    let kind = section.choice("kind", &kinds).unwrap_or(Kind::Constant);
    let packet_bytes = section.integer("packet", Packet::BYTES as u64..=60_000).unwrap_or(1_400) as u32;
    let start = moment(section, "start").unwrap_or(Time::ZERO);
    let end = moment(section, "end").unwrap_or(Time::MAX);
    let name = section.text("name").map_or_else(|| format!("traffic-{number}"), |text| text.value);
    let flow = match kind {
        Kind::Greedy => traffic::Flow::Greedy(GreedyConfig { packet_bytes, start, end, ..GreedyConfig::default() }),
        Kind::Constant | Kind::OnOff => {
            let rate: Option<Rate> = section.parsed("rate", RATE_HINT);
            if rate.is_none() && !section.has("rate") {
                section.missing("rate", RATE_HINT);
            }
            if rate.is_some_and(|rate| rate.bits_per_second() == 0) {
                section.wrong("rate", "'rate' is zero", "leave the traffic out");
            }
            let pattern = if kind == Kind::OnOff { bursts(section) } else { Pattern::Constant };
            let rate = rate.filter(|rate| rate.bits_per_second() > 0).unwrap_or(Rate::from_mbps(1));
            traffic::Flow::Source(SourceConfig { rate, packet_bytes, pattern, start, end })
        }
    };
    if let (Some(from), Some(to)) = (from, to) {
        if from.value == to.value {
            section.problem(to.span, "this traffic leads to where it comes from", "name another node");
            return;
        }
        traffic::add(scenario, &name, &from.value, &to.value, &flow);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Constant,
    OnOff,
    Greedy,
}

fn bursts(section: &Section<'_>) -> Pattern {
    let (shortest, longest) = (Duration::from_micros(1), Duration::from_secs(3_600));
    let on = duration(section, "on", shortest, longest).unwrap_or(Duration::from_millis(500));
    let off = duration(section, "off", Duration::ZERO, longest).unwrap_or(Duration::from_millis(500));
    let laws = [("fixed", Law::Fixed), ("exponential", Law::Exponential), ("pareto", Law::Pareto(PARETO_SHAPE))];
    let law = section.choice("law", &laws).unwrap_or(Law::Exponential);
    let law = match (section.number("shape", 1.01..=100.0), law) {
        (Some(shape), Law::Pareto(_)) => Law::Pareto(shape),
        (Some(_), Law::Fixed | Law::Exponential) => {
            section.wrong("shape", "'shape' belongs to the law of Pareto", "add law = \"pareto\", or remove this line");
            law
        }
        (None, law) => law,
    };
    Pattern::OnOff { on, off, law }
}

/// The shape of ns-2's and most other simulators' Pareto sources.
const PARETO_SHAPE: f64 = 1.5;

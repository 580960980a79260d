//! One run: nodes, links, consumers, and ten samples per second.
use std::collections::BTreeMap;

use tributary_content::{MemoryObject, MemoryOpener, Name, ObjectReader, SigningKey};
use tributary_core::{
    ByteCount, Datagram, Duration, FaceId, Node, Rate, Time, TimerId, TransferId, Transmit, TransmitBuf,
    event::{Event, PathState},
    link::LinkConfig,
};
use tributary_ndn::{Config, FACE_RECEIVER, FACE_SENDER, FaceProfile, LpPacket, NdnNode};
use tributary_sim::{Connection, LinkIndex, Network, NodeIndex};
use tributary_transport::{Endpoint, FaceOptions, Fetch, PathMetric};

use super::{
    schemes::{Receiver, Scheme},
    topology::Topology,
};
use crate::rivals::ndn::{Consumer, ConsumerConfig, ConsumerKind};

/// Content bytes of a segment (§6 A).
pub(super) const SEGMENT_BYTES: u16 = 1024;
/// The sampling interval.
pub(super) const SAMPLE: Duration = Duration::from_millis(100);

/// How long ndnd's forwarder holds back copies of an Interest.
const LEGACY_SUPPRESSION: Duration = Duration::from_millis(400);

/// A run to be made.
#[derive(Clone, Debug)]
pub(super) struct Plan<'a> {
    pub(super) topology: &'a Topology,
    pub(super) scheme: &'a Scheme,
    pub(super) objects: &'a [Object],
    pub(super) consumers: Vec<Start>,
    /// Nodes with a content store, and the share of the Data passing by that it keeps.
    pub(super) caches: Vec<(u8, f64)>,
    /// Nodes that do not know tags and suppress copies of an Interest for as long as ndnd's forwarder does.
    pub(super) legacy: &'a [u8],
    pub(super) queue_packets: u64,
    pub(super) until: Time,
    pub(super) seed: u64,
}

/// An object and the nodes that have it.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) content: MemoryObject,
    pub(super) producers: Vec<u8>,
}

impl Object {
    /// An object of `bytes` zeros.
    pub(super) fn new(name: &str, bytes: u64, producers: &[u8]) -> Self {
        let key = SigningKey::from_secret(&[1; 32]);
        let bytes = vec![0; bytes as usize];
        let content = MemoryObject::new(object_name(name), bytes, &key).expect("the name is not the root's");
        Object { content, producers: producers.to_vec() }
    }
}

impl Object {
    fn name(&self) -> &Name {
        &self.content.manifest().name
    }
}

/// The name below `/lab`.
pub(super) fn object_name(name: &str) -> Name {
    format!("/lab/{name}").parse().expect("a plain name")
}

/// A consumer.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub(super) node: u8,
    pub(super) object: usize,
    pub(super) at: Time,
    /// `None` for the scheme's own; `Some` for a plain consumer of that many segments, with any scheme.
    pub(super) plain: Option<u32>,
}

/// The samples of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Record {
    pub(super) samples: Vec<Sample>,
}

impl Record {
    /// Kbit/s on the wire by hop between two samples, the earlier one first.
    pub(super) fn kbps(&self, from: usize, to: usize) -> Vec<f64> {
        let (from, to) = (&self.samples[from], &self.samples[to]);
        let seconds = (to.at - from.at).max(1e-9);
        to.wire.iter().zip(&from.wire).map(|(end, start)| (end - start) as f64 * 8e-3 / seconds).collect()
    }
    /// Bytes of tags on all links, by the segments that consumers had of it, between two samples.
    pub(super) fn tag_bytes(&self, from: usize, to: usize) -> f64 {
        let content = |at: usize| self.samples[at].consumers.iter().map(|seen| seen.bytes).sum::<u64>();
        let segments = (content(to) - content(from)) as f64 / f64::from(SEGMENT_BYTES);
        (self.samples[to].tag_bytes - self.samples[from].tag_bytes) as f64 / segments.max(1.0)
    }
}

/// One sample.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Sample {
    pub(super) at: f64,
    /// Bytes on the wire so far by hop of [`Topology::hops`], towards the consumers.
    pub(super) wire: Vec<u64>,
    /// Bytes of tags, and of the rates sent with labels, on all links in both directions so far.
    pub(super) tag_bytes: u64,
    /// By consumer, in the order of the plan.
    pub(super) consumers: Vec<Seen>,
}

/// A sample of a consumer.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Seen {
    /// Interests sent for content.
    pub(super) requested: u64,
    /// Content bytes without duplicates.
    pub(super) bytes: u64,
    /// Of these from caches.
    pub(super) cached: u64,
    /// Windows in packets: by path, or one.
    pub(super) windows: BTreeMap<String, f64>,
    /// Packets declared lost.
    pub(super) lost: u64,
    /// Paths that probes have found.
    pub(super) paths_known: usize,
}

/// A node of either kind.
pub(super) enum LabNode {
    Ours(Box<Ours>),
    Rival(Box<Consumer>),
}

/// A node of ours, and its counters of sent bytes.
pub(super) struct Ours {
    node: NdnNode,
    /// Bytes of tags, and of the rates sent with them.
    tag_bytes: u64,
}

impl LabNode {
    fn new(config: Config) -> LabNode {
        LabNode::Ours(Box::new(Ours { node: NdnNode::new(config), tag_bytes: 0 }))
    }
    fn ours(&mut self) -> Option<&mut NdnNode> {
        match self {
            LabNode::Ours(ours) => Some(&mut ours.node),
            LabNode::Rival(_) => None,
        }
    }
    fn node(&mut self) -> &mut dyn Node {
        match self {
            LabNode::Ours(ours) => &mut ours.node,
            LabNode::Rival(node) => &mut **node,
        }
    }
}

impl Node for LabNode {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        self.node().handle_datagram(now, face, datagram);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.node().handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        let transmit = self.node().poll_transmit(now, out)?;
        if let LabNode::Ours(ours) = self {
            ours.tag_bytes += out.iter().map(|(head, body)| tag_bytes(head, body)).sum::<u64>();
        }
        Some(transmit)
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        match self {
            LabNode::Ours(ours) => ours.node.poll_timeout(),
            LabNode::Rival(node) => node.poll_timeout(),
        }
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.node().poll_event()
    }
}

/// Bytes of the tag on a packet, and of the rates with it, including their headers.
fn tag_bytes(head: &[u8], body: &[u8]) -> u64 {
    // A type of three bytes, and a length of one.
    const AROUND: usize = 4;
    let read = if head.is_empty() { LpPacket::decode(body) } else { LpPacket::decode_head(head, body.len()) };
    let Ok(packet) = read else { return 0 };
    let labels = packet.tag.map(|tag| AROUND + tag.as_bytes().len());
    let bits = packet.tag_bits.map(|tag| AROUND + tag.to_stack().value().len());
    let rates = packet.rates.map(|rates| AROUND + rates.as_bytes().len());
    [labels, bits, rates].into_iter().flatten().sum::<usize>() as u64
}

/// A network that runs.
struct World<'a> {
    plan: &'a Plan<'a>,
    net: Network<LabNode>,
    nodes: BTreeMap<u8, NodeIndex>,
    links: Vec<Connection>,
    fetches: Vec<Option<TransferId>>,
    /// The nodes that labels in the names of paths stand for.
    names: BTreeMap<String, String>,
}

/// Makes the run.
///
/// # Panics
/// If a consumer has more than one link, or a name means nothing.
pub(super) fn run(plan: &Plan<'_>) -> Record {
    let mut world = World::new(plan);
    let mut record = Record::default();
    let mut now = Time::ZERO;
    loop {
        world.start_due(now);
        record.samples.push(world.sample(now));
        if now >= plan.until {
            return record;
        }
        now = (now + SAMPLE).min(plan.until);
        let starts = plan.consumers.iter().map(|start| start.at);
        for at in starts.filter(|at| *at > world.net.now() && *at < now).collect::<Vec<_>>() {
            world.net.run_until(at);
            world.start_due(at);
        }
        world.net.run_until(now);
    }
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan<'a>) -> Self {
        let mut net = Network::new(plan.seed);
        let mut nodes = BTreeMap::new();
        for number in plan.topology.nodes() {
            let made = match plan.consumers.iter().enumerate().find(|(_, start)| start.node == number) {
                Some((index, start)) => consumer(plan, index, start),
                None => LabNode::new(config(plan, number)),
            };
            nodes.insert(number, net.add_node(made));
        }
        let fetches = vec![None; plan.consumers.len()];
        let mut world = World { plan, net, nodes, links: Vec::new(), fetches, names: BTreeMap::new() };
        world.connect();
        for object in plan.objects {
            for producer in &object.producers {
                let content = Box::new(object.content.clone());
                world.net.with(world.nodes[producer], |node, now| {
                    node.ours().expect("a producer is ours").publish(now, content);
                });
            }
        }
        world
    }
    fn connect(&mut self) {
        let mut faces: BTreeMap<u8, u32> = BTreeMap::new();
        let mut ends = Vec::new();
        for link in &self.plan.topology.links {
            let rate = Rate::from_bits_per_second(link.kbps * 1_000);
            let config = LinkConfig {
                overhead_bytes: 0,
                queue_packets: Some(self.plan.queue_packets),
                mtu: 9_000,
                ..LinkConfig::new(rate, Duration::from_micros(link.delay_us))
            };
            let mut end = |number: u8| {
                let face = faces.entry(number).or_default();
                *face += 1;
                (number, FaceId(*face))
            };
            let both = [end(link.near), end(link.far)];
            let [near, far] = both.map(|(number, face)| (self.nodes[&number], face));
            self.links.push(self.net.connect(near, far, config.clone(), config));
            for (number, face) in both {
                let scheme = self.plan.scheme;
                let known = Some(rate).filter(|_| scheme.receiver.knows_rates());
                let profile = FaceProfile {
                    marking: scheme.marking,
                    shaping: scheme.shaping,
                    ..FaceProfile::from(FaceOptions { mtu: 8_900, rate: known })
                };
                let far_end = if number == link.near { link.far } else { link.near };
                let label = self.net.with(self.nodes[&number], |node, _| {
                    let node = node.ours()?;
                    node.add_face_with(face, profile);
                    node.router().label(face)
                });
                self.names.extend(label.map(|label| (hex(&label), far_end.to_string())));
            }
            ends.push(both);
        }
        for number in self.nodes.keys() {
            let own = [FACE_SENDER, FACE_RECEIVER].map(|face| {
                self.net.with(self.nodes[number], |node, _| node.ours().and_then(|node| node.router().label(face)))
            });
            self.names.extend(own.into_iter().flatten().map(|label| (hex(&label), String::new())));
        }
        for object in self.plan.objects {
            let name = object.name();
            for (link, from, _) in self.plan.topology.routes(&object.producers) {
                let face = ends[link].iter().find(|(number, _)| *number == from).map(|(_, face)| *face);
                if let Some(face) = face {
                    self.net.with(self.nodes[&from], |node, _| {
                        node.ours().map(|node| node.router_mut().add_route(name, face, 0))
                    });
                }
            }
        }
    }
    fn start_due(&mut self, now: Time) {
        for (index, start) in self.plan.consumers.iter().enumerate() {
            if start.at > now || self.fetches[index].is_some() {
                continue;
            }
            let fetch = Fetch {
                name: self.plan.objects[start.object].name().clone(),
                opener: Box::new(MemoryOpener::new()),
                rate_limit: None,
                paths_per_source: 16,
                metric: PathMetric::Hops,
                patience: None,
            };
            let node = self.nodes[&start.node];
            self.fetches[index] = self.net.with(node, |node, now| node.ours().map(|node| node.fetch(now, fetch)));
        }
    }
    fn sample(&mut self, now: Time) -> Sample {
        let wire = |link: LinkIndex| self.net.link_stats(link).out_bytes;
        let hops = self.plan.topology.hops();
        let wire = hops
            .iter()
            .map(|(link, from, _)| {
                let connection = self.links[*link];
                let forward = self.plan.topology.links[*link].near == *from;
                wire(if forward { connection.b_to_a } else { connection.a_to_b })
            })
            .collect();
        let consumers = self.plan.consumers.iter().zip(&self.fetches);
        let consumers = consumers
            .map(|(start, fetch)| match self.net.node(self.nodes[&start.node]) {
                LabNode::Ours(ours) => self.seen_of(&ours.node, now, *fetch),
                LabNode::Rival(node) => Seen {
                    requested: node.requested,
                    bytes: node.arrived.1,
                    cached: node.cached * u64::from(SEGMENT_BYTES),
                    windows: BTreeMap::from([("all paths".into(), node.window())]),
                    lost: node.lost.0,
                    paths_known: 0,
                },
            })
            .collect();
        let tags = self.nodes.values().map(|node| match self.net.node(*node) {
            LabNode::Ours(ours) => ours.tag_bytes,
            LabNode::Rival(_) => 0,
        });
        Sample { at: now.as_nanos() as f64 / 1e9, wire, tag_bytes: tags.sum(), consumers }
    }
    fn seen_of(&self, node: &NdnNode, now: Time, fetch: Option<TransferId>) -> Seen {
        let Some(report) = fetch.and_then(|id| node.report(now, id)) else { return Seen::default() };
        let open = report.paths.iter().filter(|path| path.state != PathState::Closed);
        Seen {
            requested: report.paths.iter().map(|path| path.requested_packets).sum(),
            bytes: report.paths.iter().map(|path| path.bytes).sum(),
            cached: report.paths.iter().map(|path| path.cached_bytes).sum(),
            windows: open
                .map(|path| (self.readable(&path.label), path.window_bytes as f64 / f64::from(SEGMENT_BYTES)))
                .collect(),
            lost: report.paths.iter().map(|path| path.lost_packets).sum(),
            paths_known: fetch.and_then(|id| node.receiver().paths(id)).map_or(0, |(known, _)| known),
        }
    }
    /// The name of a path with nodes in place of labels: `1-2-3-5`.
    fn readable(&self, label: &str) -> String {
        let mut nodes: Vec<&str> = Vec::new();
        for part in label.split('>') {
            let node = self.names.get(part).map_or(part, String::as_str);
            if nodes.last() != Some(&node) && !node.is_empty() {
                nodes.push(node);
            }
        }
        nodes.join("-")
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The settings of a node.
fn config(plan: &Plan<'_>, number: u8) -> Config {
    let mut config = Config::new(&format!("{number}"), plan.seed.wrapping_mul(1_009).wrapping_add(u64::from(number)));
    config.strategy = plan.scheme.strategy.into();
    config.segment_bytes = SEGMENT_BYTES;
    config.label_all = matches!(plan.scheme.receiver, Receiver::Single(_));
    let cache = plan.caches.iter().find(|(node, _)| *node == number);
    config.cache_bytes = ByteCount(if cache.is_some() { 64 << 20 } else { 0 });
    config.cache_share = cache.map_or(1.0, |(_, share)| *share);
    if plan.legacy.contains(&number) {
        config.path_tags = false;
        config.suppression = (LEGACY_SUPPRESSION, LEGACY_SUPPRESSION);
    }
    if let Receiver::Ptp(form) = &plan.scheme.receiver {
        form.put(&mut config);
    }
    config
}

fn consumer(plan: &Plan<'_>, index: usize, start: &Start) -> LabNode {
    let kind = match (&plan.scheme.receiver, start.plain) {
        (Receiver::Ptp(_), None) => return LabNode::new(config(plan, start.node)),
        (Receiver::Single(kind), None) => *kind,
        (_, Some(_)) => ConsumerKind::Icp,
    };
    let object = &plan.objects[start.object];
    let segments = object.content.bytes().len().div_ceil(usize::from(SEGMENT_BYTES)) as u32;
    LabNode::Rival(Box::new(Consumer::new(ConsumerConfig {
        object: object.name().clone(),
        version: 1,
        segments: start.plain.unwrap_or(segments),
        start: start.at,
        stop: Time::MAX,
        kind,
        lifetime: Duration::from_secs(4),
        seed: plan.seed.wrapping_add(index as u64),
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::ptp::schemes::MAIN;

    /// One producer behind one narrow link: the share of it that each scheme uses from 10 to 40 s.
    fn alone(scheme: &Scheme, kbps: u64, delay_ms: u64) -> f64 {
        let topology = Topology::new(&[(1, 2, 10_000, 5), (2, 3, kbps, delay_ms), (3, 4, 10_000, 5)]);
        let record = run(&Plan {
            topology: &topology,
            scheme,
            objects: &[Object::new("A", kbps * 125 * 50, &[4])],
            consumers: vec![Start { node: 1, object: 0, at: Time::from_millis(7), plain: None }],
            caches: Vec::new(),
            legacy: &[],
            queue_packets: 50,
            until: Time::from_millis(40_000),
            seed: 1,
        });
        let wire = |at: usize| record.samples[at].wire[1] as f64;
        (wire(400) - wire(100)) * 8.0 / 30.0 / (kbps as f64 * 1e3)
    }

    /// A rival that cannot fill one path is no measure for several.
    #[test]
    fn every_scheme_fills_a_single_path() {
        let mut short = Vec::new();
        for scheme in &MAIN {
            let mut cases = vec![(500, 10, 0.95), (2_000, 10, 0.95), (1_000, 75, 0.95)];
            if scheme.label.contains("RAAQM") {
                // Its author allows 5 ms of queue. One packet takes 9 ms on the link of 1 Mbit/s, so that any two that follow
                // each other look like a queue; where one takes less than 5 ms, it fills as long a path.
                cases = vec![(500, 10, 0.95), (2_000, 10, 0.95), (1_000, 75, 0.7), (5_000, 75, 0.9)];
            }
            for (kbps, delay_ms, bound) in cases {
                let share = alone(scheme, kbps, delay_ms);
                println!("{} {kbps} {delay_ms} {share:.4}", scheme.label);
                if share < bound {
                    short.push((scheme.label, kbps, delay_ms, share));
                }
            }
        }
        assert!(short.is_empty(), "{short:?}");
    }
}

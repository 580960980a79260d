//! What people do with the network of a plan: publish, fetch, cancel, limit, watch.
use tributary_core::{Duration, Random, Rate, Time};
use tributary_transport::PathMetric;

use super::{faults::Moment, messages::MessageSpec, topology::Topology};

/// An object of a plan, with all versions that it will have.
#[derive(Clone, Debug)]
pub struct ObjectSpec {
    /// Its name as an NDN URI: `/scope/object`.
    pub name: String,
    /// Bytes of each version; version numbers count from 1.
    pub sizes: Vec<u64>,
    /// Bytes of a chunk.
    pub chunk_size: u32,
    /// The nodes that may publish it.
    pub publishers: Vec<usize>,
}

/// Something that a person does at one node.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Publishes a version of an object, which replaces older ones at this node.
    Publish {
        /// Where.
        node: usize,
        /// Which object.
        object: usize,
        /// Which version, from 1.
        version: u64,
    },
    /// Withdraws an object.
    Unpublish {
        /// Where.
        node: usize,
        /// Which object.
        object: usize,
    },
    /// Fetches an object.
    Fetch(FetchSpec),
    /// Ends the fetch of that number if it runs.
    Cancel {
        /// [`FetchSpec::number`].
        fetch: usize,
    },
    /// Limits a fetch or all fetches of a node.
    Limit {
        /// Where.
        node: usize,
        /// Which fetch; `None` for all together.
        fetch: Option<usize>,
        /// `None` lifts the limit.
        rate: Option<Rate>,
    },
    /// Watches a scope.
    Watch {
        /// Where.
        node: usize,
        /// The scope.
        scope: String,
    },
    /// Ends a watch.
    Unwatch {
        /// Where.
        node: usize,
        /// The scope.
        scope: String,
    },
    /// Attaches to a group.
    Attach {
        /// Where.
        node: usize,
        /// The group.
        group: usize,
    },
    /// Detaches from a group.
    Detach {
        /// Where.
        node: usize,
        /// The group.
        group: usize,
    },
    /// Sends something to a group or a device.
    Send(MessageSpec),
    /// Goes where no link of the plan reaches it.
    Away {
        /// Who.
        node: usize,
    },
    /// Comes back.
    Back {
        /// Who.
        node: usize,
        /// Its links, by number in the plan; `None` for all of them.
        link: Option<usize>,
    },
    /// Ends the sending of the message of that number if it runs.
    CancelSend {
        /// [`MessageSpec::number`].
        message: usize,
    },
}

/// A fetch of a plan.
#[derive(Clone, Debug)]
pub struct FetchSpec {
    /// Its number in the plan.
    pub number: usize,
    /// Where.
    pub node: usize,
    /// Which object.
    pub object: usize,
    /// Paths per source.
    pub paths: u8,
    /// What makes a path good.
    pub metric: PathMetric,
    /// How long to go without any source.
    pub patience: Option<Duration>,
    /// The rate not to exceed.
    pub limit: Option<Rate>,
}

impl Operation {
    /// Whether it sends something from `node`.
    pub fn sends_from(&self, node: usize) -> bool {
        matches!(self, Operation::Send(message) if message.node == node)
    }
    /// Where it is done; `None` if that depends on where the fetch or the message is.
    pub fn node(&self) -> Option<usize> {
        match self {
            Operation::Publish { node, .. }
            | Operation::Unpublish { node, .. }
            | Operation::Limit { node, .. }
            | Operation::Watch { node, .. }
            | Operation::Unwatch { node, .. }
            | Operation::Attach { node, .. }
            | Operation::Detach { node, .. }
            | Operation::Away { node }
            | Operation::Back { node, .. } => Some(*node),
            Operation::Fetch(fetch) => Some(fetch.node),
            Operation::Send(message) => Some(message.node),
            Operation::Cancel { .. } | Operation::CancelSend { .. } => None,
        }
    }
}

/// The time within which all receivers of a crowd start.
const CROWD_SPREAD: Duration = Duration::from_secs(2);

/// Draws objects and operations of the time before `end`, in order of time.
pub fn draw(topology: &Topology, end: Duration, random: &mut Random) -> (Vec<ObjectSpec>, Vec<(Time, Operation)>) {
    let nodes = |wanted: &dyn Fn(usize) -> bool| (0..topology.nodes.len()).filter(|node| wanted(*node)).collect();
    let publishers: Vec<usize> = nodes(&|node| topology.nodes[node].publisher);
    let receivers: Vec<usize> = nodes(&|node| topology.nodes[node].receiver);
    let scopes = 1 + random.below(3);
    let objects: Vec<ObjectSpec> = (0..1 + random.below(5))
        .map(|number| draw_object(&format!("/scope-{}/object-{number}", number % scopes), &publishers, random))
        .collect();
    let mut operations = Vec::new();
    let draw_time = |random: &mut Random| Time::ZERO + Duration::from_secs_f64(random.unit() * end.as_secs_f64());
    for (object, spec) in objects.iter().enumerate() {
        let absent = random.chance(0.1);
        for &node in spec.publishers.iter().filter(|_| !absent) {
            let first = if random.chance(0.7) { Time::from_millis(random.below(1_500)) } else { draw_time(random) };
            operations.push((first, Operation::Publish { node, object, version: 1 }));
            let mut time = first;
            for version in 2..=spec.sizes.len() as u64 {
                // Some publishers skip a version.
                time = time.max(draw_time(random));
                if random.chance(0.8) {
                    operations.push((time, Operation::Publish { node, object, version }));
                }
            }
            if random.chance(0.15) {
                operations.push((draw_time(random).max(time), Operation::Unpublish { node, object }));
            }
        }
    }
    let mut number = 0;
    // Receivers that fetch one object at about the same time: caches get requests for packets that are still on their
    // way.
    if random.chance(0.4) {
        let object = random.below(objects.len() as u64) as usize;
        let (start, spread) = (draw_time(random), random.unit() * CROWD_SPREAD.as_secs_f64());
        for &node in receivers.iter().filter(|_| receivers.len() > 1) {
            let start = start + Duration::from_secs_f64(random.unit() * spread);
            operations.push((start, Operation::Fetch(draw_fetch(number, node, object, random))));
            number += 1;
        }
    }
    for &node in &receivers {
        for _ in 0..1 + random.below(5) {
            let object = random.below(objects.len() as u64) as usize;
            let fetch = draw_fetch(number, node, object, random);
            let start = if random.chance(0.3) { Time::from_millis(random.below(3_000)) } else { draw_time(random) };
            if random.chance(0.12) {
                operations.push((draw_time(random).max(start), Operation::Cancel { fetch: number }));
            }
            if random.chance(0.15) {
                let rate = random.chance(0.8).then(|| Rate::from_bits_per_second(200_000 + random.below(20_000_000)));
                let fetch = random.chance(0.5).then_some(number);
                operations.push((draw_time(random).max(start), Operation::Limit { node, fetch, rate }));
            }
            operations.push((start, Operation::Fetch(fetch)));
            number += 1;
        }
    }
    for node in 0..topology.nodes.len() {
        if random.chance(if topology.nodes[node].receiver { 0.4 } else { 0.05 }) {
            let scope = format!("/scope-{}", random.below(scopes));
            let start = draw_time(random);
            if random.chance(0.15) {
                let time = draw_time(random).max(start);
                operations.push((time, Operation::Unwatch { node, scope: scope.clone() }));
            }
            operations.push((start, Operation::Watch { node, scope }));
        }
    }
    operations.sort_by_key(|(time, _)| *time);
    (objects, operations)
}

/// Makes all publishers of some objects appear at almost the same time, while others wait for them.
pub fn gather(objects: &[ObjectSpec], operations: &mut [(Time, Operation)], end: Duration, random: &mut Random) {
    for (object, spec) in objects.iter().enumerate() {
        let is_of = |operation: &Operation| match operation {
            Operation::Publish { object: of, .. } | Operation::Unpublish { object: of, .. } => *of == object,
            _ => false,
        };
        let publishers = operations.iter().filter(|(_, operation)| is_of(operation)).count();
        // It is never withdrawn, and has one version.
        let leaves = |operation: &Operation| is_of(operation) && matches!(operation, Operation::Unpublish { .. });
        let stays = spec.sizes.len() == 1 && !operations.iter().any(|(_, operation)| leaves(operation));
        if publishers < 2 || !stays || !random.chance(0.4) {
            continue;
        }
        let first = Time::ZERO + end.mul_f64(random.unit());
        for (time, operation) in operations.iter_mut() {
            match operation {
                Operation::Fetch(fetch) if fetch.object == object && random.chance(0.6) => {
                    *time = Time::ZERO + first.since(Time::ZERO).mul_f64(random.unit());
                }
                operation if is_of(operation) => *time = first + GATHERED.mul_f64(random.unit()),
                _ => {}
            }
        }
    }
    operations.sort_by_key(|(time, _)| *time);
}

/// When the only name server accepts a record.
pub fn moments(name_server: Option<usize>, operations: &[(Time, Operation)]) -> Vec<Moment> {
    let Some(node) = name_server else { return Vec::new() };
    let publishes = operations.iter().filter(|(_, operation)| matches!(operation, Operation::Publish { .. }));
    publishes.map(|(from, _)| Moment { from: *from, lasts: GATHERED, node }).collect()
}

/// How long it takes until all have arrived.
const GATHERED: Duration = Duration::from_millis(100);

fn draw_object(name: &str, publishers: &[usize], random: &mut Random) -> ObjectSpec {
    let versions = [1, 1, 1, 2, 3][random.below(5) as usize];
    let mut size = || match random.below(10) {
        0 => random.below(3),
        1..=3 => random.below(20_000),
        4..=7 => random.below(600_000),
        _ => random.below(4_000_000),
    };
    let sizes: Vec<u64> = (0..versions).map(|_| size()).collect();
    let chunk_size = [1 << 10, 4_000, 16 << 10, 64 << 10, 256 << 10, 1 << 20][random.below(6) as usize];
    // Small chunks of large objects would make more hashes than packets.
    let chunk_size = sizes.iter().fold(chunk_size, |chunk, size| chunk.max((size / 2_000) as u32));
    let mut chosen: Vec<usize> = publishers.iter().copied().filter(|_| random.chance(0.6)).collect();
    if chosen.is_empty() {
        chosen.push(publishers[random.below(publishers.len() as u64) as usize]);
    }
    ObjectSpec { name: name.into(), sizes, chunk_size, publishers: chosen }
}

fn draw_fetch(number: usize, node: usize, object: usize, random: &mut Random) -> FetchSpec {
    FetchSpec {
        number,
        node,
        object,
        paths: [1, 2, 4, 4, 8, 16][random.below(6) as usize],
        metric: PathMetric::ALL[random.below(3) as usize].1,
        patience: random.chance(0.6).then(|| Duration::from_millis(500 + random.below(60_000))),
        limit: random.chance(0.1).then(|| Rate::from_bits_per_second(500_000 + random.below(20_000_000))),
    }
}

//! What is sent in a plan to devices that are away, by senders that end: messages that the network has promised to keep
//! have nobody left who could send them again. Drawn from a stream of its own, after everything else.
use std::collections::BTreeMap;

use tributary_core::{Duration, Random, Rate, Time};
use tributary_transport::messaging::{Delivery, InNetwork, SendOptions, Spread};

use super::{
    messages::{Addressee, MessageSpec},
    topology::Topology,
    workload::Operation,
};

/// Devices and senders of a plan.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Post {
    /// Hosts that are gone for good once everything that they send is promised.
    pub couriers: Vec<usize>,
    /// Devices that come and go.
    pub phones: Vec<usize>,
}

/// Numbers of messages to devices start here.
const NUMBERS: usize = 100_000;
/// Messages of a plan at most, and their bytes.
const MESSAGES_MAX: u64 = 600;
const BYTES_MAX: u64 = 4_000_000;

/// Adds devices and senders to the topology of more than half of all plans; gives what they do before `end`.
pub fn draw(topology: &mut Topology, end: Duration, random: &mut Random) -> (Post, Vec<(Time, Operation)>) {
    let mut post = Post::default();
    let mut operations = Vec::new();
    if random.chance(0.4) {
        return (post, operations);
    }
    let routers = topology.nodes.iter().filter(|node| node.router).count();
    for number in 1..=1 + random.below(3) {
        let links = [1, 1, 2, 2, 3][random.below(5) as usize];
        post.phones.push(topology.add_host(random, routers, links, &format!("phone-{number}")));
    }
    for number in 1..=1 + random.below(2) {
        post.couriers.push(topology.add_host(random, routers, 1, &format!("courier-{number}")));
    }
    let draw_time = |random: &mut Random| Time::ZERO + end.mul_f64(random.unit());
    // When each device is away, the last time perhaps until everything is mended.
    let mut absences: BTreeMap<usize, Vec<(Time, Time)>> = BTreeMap::new();
    for &node in &post.phones {
        slow_down(topology, node, random);
        let mut times: Vec<Time> = (0..2 * (1 + random.below(3))).map(|_| draw_time(random)).collect();
        times.sort_unstable();
        if random.chance(0.5) {
            times[0] = Time::ZERO;
        }
        for pair in times.chunks(2) {
            operations.push((pair[0], Operation::Away { node }));
            operations.push((pair[1], Operation::Back { node }));
            absences.entry(node).or_default().push((pair[0], pair[1]));
        }
    }
    let (mut number, mut messages, mut bytes) = (NUMBERS, 0, 0);
    for &node in &post.couriers {
        // As a rule somebody is away meanwhile.
        let away = &absences[&post.phones[random.below(post.phones.len() as u64) as usize]];
        let (from, until) = away[random.below(away.len() as u64) as usize];
        let begins =
            if random.chance(0.7) { from + until.since(from).mul_f64(random.unit()) } else { draw_time(random) };
        let lasts = Duration::from_secs_f64(random.unit() * random.unit() * 10.0);
        let options = draw_options(random);
        let (count_max, size_max) =
            [(500, 40), (400, 2_000), (200, 20_000), (60, 64_000), (5, 2_000_000)][random.below(5) as usize];
        for _ in 0..1 + random.below(count_max).max(random.below(count_max)) {
            let size = 1 + random.below(size_max);
            (messages, bytes) = (messages + 1, bytes + size);
            if messages > MESSAGES_MAX || bytes > BYTES_MAX {
                break;
            }
            let device = post.phones[random.below(post.phones.len() as u64) as usize];
            let time = begins + lasts.mul_f64(random.unit());
            let options = SendOptions { chunk_bytes: draw_chunk(size, random), ..options.clone() };
            let chunk_size = [1 << 10, 16 << 10, 64 << 10][random.below(3) as usize];
            let to = Addressee::Device(device);
            operations.push((time, Operation::Send(MessageSpec { number, node, to, size, chunk_size, options })));
            number += 1;
        }
    }
    (post, operations)
}

/// Half of the devices are behind links on which what waits for them takes its time.
fn slow_down(topology: &mut Topology, node: usize, random: &mut Random) {
    let rate = Rate::from_bits_per_second((300e3 * 100f64.powf(random.unit())) as u64);
    if random.chance(0.5) {
        let links: Vec<usize> = topology.links_of(node).map(|(link, _)| link).collect();
        for link in links {
            topology.links[link].directions.iter_mut().for_each(|way| way.rate = Some(rate));
        }
    }
}

/// The usual size, or a small one that does not make more than some hundred chunks of the message.
fn draw_chunk(size: u64, random: &mut Random) -> Option<u32> {
    let small = 1 << random.below(17);
    random.chance(0.5).then_some((small as u32).max((size / 200) as u32))
}

/// What one sender chooses; most choose nothing.
fn draw_options(random: &mut Random) -> SendOptions {
    let mut options = SendOptions { spread: Spread::All, ..SendOptions::default() };
    if random.chance(0.5) {
        return options;
    }
    options.delivery = [None, Some(Delivery::Nack), Some(Delivery::Ack)][random.below(3) as usize];
    options.in_network = [None, Some(InNetwork::Store), Some(InNetwork::Delegate)][random.below(3) as usize];
    options.lifetime = random.chance(0.3).then(|| Duration::from_secs(5 + random.below(3_600)));
    options
}

/// When what waits for devices moves, and which routers it moves through: those that are next to a device when it comes back
/// or to a sender, and the ones next to these.
pub fn moments(topology: &Topology, operations: &[(Time, Operation)]) -> Vec<(Time, usize)> {
    let mut moments = Vec::new();
    for (time, operation) in operations {
        let Operation::Back { node } = operation else { continue };
        for next in topology.neighbours(*node) {
            moments.push((*time, next));
            moments.extend(topology.neighbours(next).filter(|far| topology.nodes[*far].router).map(|far| (*time, far)));
        }
    }
    moments
}

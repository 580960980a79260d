//! The messages of a plan to absent devices, by senders that end: after that no node is left that could send promised
//! messages again. Drawn from a separate stream, after everything else.
use std::collections::{BTreeMap, BTreeSet};

use tributary_core::{Duration, Random, Rate, Time};
use tributary_transport::messaging::{CHUNK_BYTES, InNetwork, Reliability, SendOptions, Spread};

use super::{
    faults::Moment,
    messages::{Addressee, MessageSpec},
    topology::Topology,
    workload::Operation,
};

/// Devices and senders of a plan.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Post {
    /// Hosts that leave for good once all their messages are promised.
    pub couriers: Vec<usize>,
    /// Devices that come and go.
    pub phones: Vec<usize>,
}

/// Numbers of messages to devices start here.
const NUMBERS: usize = 100_000;
/// Messages of a plan at most, and their bytes.
const MESSAGES_MAX: u64 = 600;
const BYTES_MAX: u64 = 6_000_000;

/// Adds devices and senders to the topology of more than half of all plans; returns their operations before `end`.
pub fn draw(topology: &mut Topology, end: Duration, random: &mut Random) -> (Post, Vec<(Time, Operation)>) {
    let mut post = Post::default();
    let mut operations = Vec::new();
    if random.chance(0.4) {
        return (post, operations);
    }
    let routers = topology.routers();
    if routers.len() > 1 && random.chance(0.5) {
        // Any router but the first, which holds names.
        let router = routers[1 + random.below(routers.len() as u64 - 1) as usize];
        topology.add_double(random, router, "double");
    }
    for number in 1..=1 + random.below(3) {
        let links = [1, 1, 2, 2, 3][random.below(5) as usize];
        post.phones.push(topology.add_host(random, links, &format!("phone-{number}")));
    }
    for number in 1..=1 + random.below(2) {
        post.couriers.push(topology.add_host(random, 1, &format!("courier-{number}")));
    }
    let mut absences = BTreeMap::new();
    for &node in &post.phones {
        let spans = draw_absences(end, random);
        let links: Vec<usize> = topology.links_of(node).map(|(link, _)| link).collect();
        // Each time elsewhere, so that waiting messages have a path.
        let roams = links.len() > 1 && random.chance(0.6);
        for (from, until) in &spans {
            let link = roams.then(|| links[random.below(links.len() as u64) as usize]);
            operations.push((*from, Operation::Away { node }));
            operations.push((*until, Operation::Back { node, link }));
        }
        absences.insert(node, spans);
    }
    draw_mail(&post, &absences, end, random, &mut operations);
    for node in &post.phones {
        let seconds = end.as_secs_f64() * 0.4 * 0.05f64.powf(random.unit());
        slow_down(topology, *node, bytes_to(*node, &operations) as f64 / seconds, random);
    }
    (post, operations)
}

/// When a device is away, the last time perhaps until everything is mended.
fn draw_absences(end: Duration, random: &mut Random) -> Vec<(Time, Time)> {
    // Most of them leave some time for waiting messages before the faults end.
    let end = if random.chance(0.7) { end.mul_f64(0.6) } else { end };
    let mut times: Vec<Time> =
        (0..2 * (1 + random.below(3))).map(|_| Time::ZERO + end.mul_f64(random.unit())).collect();
    times.sort_unstable();
    if random.chance(0.5) {
        times[0] = Time::ZERO;
    }
    times.chunks(2).map(|pair| (pair[0], pair[1])).collect()
}

/// What the couriers send to the phones.
fn draw_mail(
    post: &Post,
    absences: &BTreeMap<usize, Vec<(Time, Time)>>,
    end: Duration,
    random: &mut Random,
    operations: &mut Vec<(Time, Operation)>,
) {
    let (mut number, mut messages, mut bytes) = (NUMBERS, 0, 0);
    for &node in &post.couriers {
        // Usually a device is away during that time.
        let away = &absences[&post.phones[random.below(post.phones.len() as u64) as usize]];
        let (from, until) = away[random.below(away.len() as u64) as usize];
        let begins = match random.chance(0.7) {
            true => from + until.since(from).mul_f64(random.unit()),
            false => Time::ZERO + end.mul_f64(random.unit()),
        };
        // All at once, so that receivers have to refuse some, or one after the other.
        let lasts = if random.chance(0.4) { 0.0 } else { random.unit() * random.unit() * 10.0 };
        let lasts = Duration::from_secs_f64(lasts);
        let options = draw_options(random);
        // In half of the plans most is for one device: when it has that, little is left in a store of much.
        let favourite = post.phones[random.below(post.phones.len() as u64) as usize];
        let share = if random.chance(0.5) { 0.85 } else { 0.0 };
        let (count_max, size_max) = [
            (500, 40),
            (500, 2_000),
            (200, 20_000),
            (200, 20_000),
            (60, 64_000),
            (60, 64_000),
            (20, 200_000),
            (5, 2_000_000),
        ][random.below(8) as usize];
        for _ in 0..1 + random.below(count_max).max(random.below(count_max)) {
            let size = 1 + random.below(size_max);
            (messages, bytes) = (messages + 1, bytes + size);
            if messages > MESSAGES_MAX || bytes > BYTES_MAX {
                break;
            }
            let device = match random.chance(share) {
                true => favourite,
                false => post.phones[random.below(post.phones.len() as u64) as usize],
            };
            let time = begins + lasts.mul_f64(random.unit());
            let options = SendOptions { chunk_bytes: draw_chunk(size, random), ..options.clone() };
            let chunk_size = [1 << 10, 16 << 10, 64 << 10][random.below(3) as usize];
            let to = Addressee::Device(device);
            operations.push((time, Operation::Send(MessageSpec { number, node, to, size, chunk_size, options })));
            number += 1;
        }
    }
}

/// Bytes sent to a device, including the approximate overhead of small messages.
fn bytes_to(node: usize, operations: &[(Time, Operation)]) -> u64 {
    let sent = operations.iter().filter_map(|(_, operation)| match operation {
        Operation::Send(message) if message.to == Addressee::Device(node) => Some(message.size + MESSAGE_BYTES),
        _ => None,
    });
    sent.sum()
}

/// Most devices are behind slow links, on which the messages to them take a good part of the run: then they are in
/// flight for long enough that a fault meets them there.
fn slow_down(topology: &mut Topology, node: usize, bytes_per_second: f64, random: &mut Random) {
    let rate = Rate::from_bytes_per_second(bytes_per_second as u64).max(RATE_MIN);
    if random.chance(0.7) {
        let links: Vec<usize> = topology.links_of(node).map(|(link, _)| link).collect();
        for link in links {
            topology.links[link].directions.iter_mut().for_each(|way| way.rate = Some(rate));
        }
    }
}

/// The usual size, or a small one that does not make more than some hundred chunks of the message.
fn draw_chunk(size: u64, random: &mut Random) -> Option<u32> {
    let small = 1 << random.below(17);
    random.chance(0.7).then_some((small as u32).max((size / 200) as u32).max(*CHUNK_BYTES.start()))
}

/// What one sender chooses; most choose nothing.
fn draw_options(random: &mut Random) -> SendOptions {
    let mut options = SendOptions { spread: Spread::All, ..SendOptions::default() };
    if random.chance(0.5) {
        return options;
    }
    options.reliability = [None, Some(Reliability::Nack), Some(Reliability::Ack)][random.below(3) as usize];
    options.in_network = [None, Some(InNetwork::Store), Some(InNetwork::Delegate)][random.below(3) as usize];
    options.lifetime = random.chance(0.3).then(|| Duration::from_secs(5 + random.below(3_600)));
    options
}

/// When waiting messages for devices move, and which nodes they move through: the device, the routers next to it, and
/// the routers next to these.
pub fn moments(topology: &Topology, operations: &[(Time, Operation)]) -> Vec<Moment> {
    let mut moments = Vec::new();
    for (from, operation) in operations {
        let Operation::Back { node, link } = operation else { continue };
        let links = topology.links_of(*node).filter(|(number, _)| link.is_none_or(|link| link == *number));
        let links: Vec<(usize, usize)> = links.collect();
        let rate = links.iter().filter_map(|(link, end)| topology.links[*link].directions[1 - end].rate).max();
        let seconds = rate.map_or(0.0, |rate| bytes_to(*node, operations) as f64 / rate.bytes_per_second() as f64);
        let lasts = SETTLES + Duration::from_secs_f64(seconds.min(SECONDS_MAX));
        let sent = |operation: &Operation| match operation {
            Operation::Send(message) if message.to == Addressee::Device(*node) => Some(message.node),
            _ => None,
        };
        // The routers next to its senders keep the messages that they have no route for.
        let senders: BTreeSet<usize> = operations.iter().filter_map(|(_, operation)| sent(operation)).collect();
        let mut on_the_way: BTreeSet<usize> =
            senders.into_iter().flat_map(|sender| topology.neighbours(sender)).collect();
        for (link, end) in links {
            let next = topology.links[link].ends[1 - end].0;
            on_the_way.insert(next);
            on_the_way.extend(topology.neighbours(next).filter(|far| topology.nodes[*far].router));
        }
        let moment = |node| Moment { from: *from, lasts, node };
        // Its messages reach the disks of these routers before that.
        let sent = operations.iter().filter_map(|(at, operation)| match operation {
            Operation::Send(message) if message.to == Addressee::Device(*node) && at < from => Some(*at),
            _ => None,
        });
        if let Some(first) = sent.min() {
            let keeping = |node: &usize| Moment { from: first, lasts: from.since(first), node: *node };
            moments.extend(on_the_way.iter().map(keeping));
        }
        // The device as often as any other node.
        moments.extend(core::iter::repeat_n(moment(*node), on_the_way.len()));
        moments.extend(on_the_way.into_iter().map(moment));
    }
    moments
}

/// The approximate cost of a small message in addition to its bytes.
const MESSAGE_BYTES: u64 = 1_500;
/// No link of a device is slower.
const RATE_MIN: Rate = Rate::from_bits_per_second(64_000);
/// The approximate time until routers know that a device is present.
const SETTLES: Duration = Duration::from_millis(1_500);
/// Longer a moment is not.
const SECONDS_MAX: f64 = 60.0;

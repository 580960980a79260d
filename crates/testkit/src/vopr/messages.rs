//! A plan's messages to groups: which node attaches to which name, the messages to it, and how they are sent. Drawn
//! from a separate stream, so that a plan without groups does not depend on them.
use tributary_core::{Duration, Random, Time};
use tributary_transport::messaging::{InNetwork, Reliability, SendOptions, Spread};

use super::{
    topology::Topology,
    workload::{ObjectSpec, Operation},
};

/// Groups of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Groups {
    /// Their number.
    pub count: usize,
    /// Whether routers wait for the end of a chunk before they send it on.
    pub store_and_forward: bool,
}

/// The receiver of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addressee {
    /// Everybody, or the nearest one, in a group.
    Group(usize),
    /// One device: a node.
    Device(usize),
}

/// A pushed message.
#[derive(Clone, Debug)]
pub struct MessageSpec {
    /// Its number in the plan.
    pub number: usize,
    /// The sender.
    pub node: usize,
    /// The receiver.
    pub to: Addressee,
    /// Bytes.
    pub size: u64,
    /// Bytes of a chunk of the object.
    pub chunk_size: u32,
    /// How.
    pub options: SendOptions,
}

impl MessageSpec {
    /// The object, which only the sender publishes.
    pub fn object(&self) -> ObjectSpec {
        ObjectSpec {
            name: format!("/message/{}", self.number),
            sizes: vec![self.size],
            chunk_size: self.chunk_size,
            publishers: vec![self.node],
        }
    }
    /// The group to which it is sent.
    pub fn group(&self) -> Option<usize> {
        match self.to {
            Addressee::Group(group) => Some(group),
            Addressee::Device(_) => None,
        }
    }
    /// Whether every recipient that stays attached and reachable receives it eventually, as far as the options promise
    /// that.
    pub fn is_promised(&self, routers: usize) -> bool {
        let far_enough = match self.options.spread {
            Spread::All => true,
            // Requests that have passed `depth` proxies are discarded.
            Spread::AllByProxies(depth) => usize::from(depth) > routers,
            // A chosen member that receives nothing cannot ask, and no other node knows that it was chosen.
            Spread::Nearest => false,
        };
        far_enough && self.options.reliability != Some(Reliability::DontCare)
    }
}

/// The name of a group.
pub fn group_name(group: usize) -> String {
    format!("/group/{group}")
}

/// Draws the groups of about half of all plans, and their operations before `end`.
pub fn draw(topology: &Topology, end: Duration, random: &mut Random) -> (Groups, Vec<(Time, Operation)>) {
    if random.chance(0.5) {
        return (Groups::default(), Vec::new());
    }
    let groups = Groups { count: 1 + random.below(2) as usize, store_and_forward: random.chance(0.3) };
    let draw_time = |random: &mut Random| Time::ZERO + Duration::from_secs_f64(random.unit() * end.as_secs_f64());
    let mut operations = Vec::new();
    let (mut number, nodes) = (0, topology.nodes.len());
    for group in 0..groups.count {
        let share = [0.2, 0.4, 0.8][random.below(3) as usize];
        for node in 0..nodes {
            if !random.chance(share) {
                continue;
            }
            let early = random.chance(0.6);
            let mut time = if early { Time::from_millis(random.below(2_000)) } else { draw_time(random) };
            operations.push((time, Operation::Attach { node, group }));
            if random.chance(0.2) {
                time = time.max(draw_time(random));
                operations.push((time, Operation::Detach { node, group }));
                if random.chance(0.5) {
                    operations.push((time.max(draw_time(random)), Operation::Attach { node, group }));
                }
            }
        }
        for _ in 0..1 + random.below(4) {
            let spec = draw_message(number, random.below(nodes as u64) as usize, group, random);
            let start = if random.chance(0.3) { Time::from_millis(random.below(4_000)) } else { draw_time(random) };
            if random.chance(0.1) {
                operations.push((start.max(draw_time(random)), Operation::CancelSend { message: number }));
            }
            operations.push((start, Operation::Send(spec)));
            number += 1;
        }
    }
    (groups, operations)
}

fn draw_message(number: usize, node: usize, group: usize, random: &mut Random) -> MessageSpec {
    let size = match random.below(10) {
        0 => random.below(3),
        1..=3 => random.below(20_000),
        4..=7 => random.below(400_000),
        _ => random.below(2_000_000),
    };
    let chunk_size = [1 << 10, 16 << 10, 64 << 10, 256 << 10][random.below(4) as usize].max((size / 2_000) as u32);
    let spread = match random.below(8) {
        0..=3 => Spread::All,
        4 => Spread::AllByProxies(1 + random.below(3) as u8),
        5 | 6 => Spread::AllByProxies(64),
        _ => Spread::Nearest,
    };
    let options = SendOptions {
        chunk_bytes: [None, None, Some(1 << 10), Some(16 << 10), Some(128 << 10)][random.below(5) as usize],
        reliability: [
            None,
            Some(Reliability::Nack),
            Some(Reliability::Nack),
            Some(Reliability::Ack),
            Some(Reliability::DontCare),
        ][random.below(5) as usize],
        in_network: [None, Some(InNetwork::Store), Some(InNetwork::Delegate), Some(InNetwork::Nothing)]
            [random.below(4) as usize],
        priority: random.below(4) as u8,
        lifetime: None,
        spread,
    };
    MessageSpec { number, node, to: Addressee::Group(group), size, chunk_size, options }
}

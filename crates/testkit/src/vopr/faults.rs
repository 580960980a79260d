//! The faults of a plan: each kind is drawn from its own stream, so that omitting one changes no other.
use std::{collections::BTreeSet, fmt, str::FromStr};

use tributary_core::{
    Duration, Random, Rate, Time,
    link::{Loss, Reorder},
};

use super::{disk::Trouble, topology::Topology, workload::ObjectSpec};

/// A kind of fault; the swarm switches each on or off.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FaultKind {
    /// Links lose packets, alone or in bursts.
    Loss,
    /// Links hold packets back behind later ones.
    Reorder,
    /// Links deliver packets twice.
    Duplicate,
    /// Links flip bits.
    Corrupt,
    /// Links are cut and mended.
    Flap,
    /// All links between two halves of the nodes are cut at once.
    Partition,
    /// Rates and delays of links change.
    Shift,
    /// Links carry shorter datagrams than before.
    Mtu,
    /// Nodes are killed and start again with the data on their disks.
    Kill,
    /// Nodes are killed and start again with nothing.
    Amnesia,
    /// Nodes take leave before they stop.
    Leave,
    /// Nodes stop, their sockets fill, and they resume.
    Freeze,
    /// Nodes handle packets, but their clocks stand still; then all timers are late.
    Clock,
    /// Sources send other bytes than they published.
    LyingSource,
    /// Routers flip bits in packets that they forward and answer.
    LyingCache,
    /// An imposter publishes another file under the same name.
    Imposter,
    /// Datagrams that make no sense, from neighbours and strangers.
    Malformed,
    /// Earlier datagrams of any nodes.
    Replay,
    /// Stores of receivers are full.
    DiskFull,
    /// Machines lose power: only a part of the unsynced data exists when they start again.
    PowerCut,
    /// A node is killed and never starts again.
    Gone,
    /// Stores of routers are full.
    StoreFull,
    /// Disks of routers fail for some time.
    StoreFails,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [FaultKind; 23] = [
        FaultKind::Loss,
        FaultKind::Reorder,
        FaultKind::Duplicate,
        FaultKind::Corrupt,
        FaultKind::Flap,
        FaultKind::Partition,
        FaultKind::Shift,
        FaultKind::Mtu,
        FaultKind::Kill,
        FaultKind::Amnesia,
        FaultKind::Leave,
        FaultKind::Freeze,
        FaultKind::Clock,
        FaultKind::LyingSource,
        FaultKind::LyingCache,
        FaultKind::Imposter,
        FaultKind::Malformed,
        FaultKind::Replay,
        FaultKind::DiskFull,
        FaultKind::PowerCut,
        FaultKind::Gone,
        FaultKind::StoreFull,
        FaultKind::StoreFails,
    ];
    /// The number of kinds, from the first on, in [`Profile::Laboratory`](super::profile::Profile::Laboratory).
    pub const IN_LABORATORY: usize = 19;
}
impl FaultKind {
    /// Whether bytes may arrive that were never published.
    pub fn is_byzantine(self) -> bool {
        let lies = [
            FaultKind::Corrupt,
            FaultKind::LyingSource,
            FaultKind::LyingCache,
            FaultKind::Imposter,
            FaultKind::Malformed,
        ];
        lies.contains(&self)
    }
}
impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}
impl FromStr for FaultKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = FaultKind::ALL.into_iter().find(|kind| kind.to_string() == text);
        found.ok_or_else(|| {
            let all: Vec<String> = FaultKind::ALL.iter().map(FaultKind::to_string).collect();
            format!("there is no fault '{text}', but {}", all.join(", "))
        })
    }
}

/// One fault with its time.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Its kind.
    pub kind: FaultKind,
    /// Start time.
    pub from: Time,
    /// When it ends.
    pub until: Time,
    /// What happens.
    pub what: What,
}

/// What happens while a fault lasts. Links are counted by [`super::topology::LinkSpec`], nodes by
/// [`super::topology::NodeSpec`].
#[derive(Clone, Debug)]
pub enum What {
    /// A link loses packets in both directions.
    Loss(usize, Loss),
    /// A link holds packets back.
    Reorder(usize, Reorder),
    /// A link delivers packets twice, with this probability.
    Duplicate(usize, f64),
    /// A link flips bits, with this probability per packet.
    Corrupt(usize, f64),
    /// A link has another rate and delay.
    Shift(usize, Option<Rate>, Duration),
    /// A link carries datagrams up to this size only.
    Mtu(usize, u32),
    /// These links are cut.
    Cut(Vec<usize>),
    /// A node is dead.
    Kill(usize, Memory, Farewell),
    /// A node does nothing.
    Freeze(usize),
    /// A node's clock stops.
    StopClock(usize),
    /// A node's objects are altered, in this share of the chunks.
    LyingSource(usize, f64),
    /// A node flips bits in this share of the packets that it sends.
    LyingCache(usize, f64),
    /// A node publishes another file under an object's name.
    Imposter(usize, usize),
    /// A node gets this many malformed datagrams.
    Malformed(usize, u32),
    /// A node gets this many old datagrams.
    Replay(usize, u32),
    /// A node's store accepts this many more chunks.
    DiskFull(usize, u64),
    /// A node is dead for good.
    Gone(usize),
    /// A node's disk is ailing.
    Disk(usize, Trouble),
}

impl What {
    /// Whether it happens to that node.
    pub fn is_of(&self, node: usize) -> bool {
        match self {
            What::Kill(of, ..)
            | What::Freeze(of)
            | What::StopClock(of)
            | What::LyingSource(of, _)
            | What::LyingCache(of, _)
            | What::Imposter(of, _)
            | What::Malformed(of, _)
            | What::Replay(of, _)
            | What::DiskFull(of, _)
            | What::Gone(of)
            | What::Disk(of, _) => *of == node,
            What::Loss(..)
            | What::Reorder(..)
            | What::Duplicate(..)
            | What::Corrupt(..)
            | What::Shift(..)
            | What::Mtu(..)
            | What::Cut(_) => false,
        }
    }
}

/// A node's knowledge when it restarts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// Its fetches, publications and watches, and its written data.
    Kept,
    /// The same, but only the synced part of its written data.
    Synced,
    /// Nothing.
    Lost,
}
/// How a node stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Farewell {
    /// It withdraws everything, and stops half a second later.
    Announced,
    /// It does not.
    Missing,
}

/// The subject of faults.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Nodes and links.
    pub topology: &'a Topology,
    /// The published objects.
    pub objects: &'a [ObjectSpec],
    /// When and where a promise is at risk: most faults of single nodes fall into one of these.
    pub moments: &'a [Moment],
}

/// A span in which data for a waiting device moves from disk to disk, and a node that it moves through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// When the device is present.
    pub from: Time,
    /// The approximate duration of the transfer.
    pub lasts: Duration,
    /// The device itself, or a router on the path to it.
    pub node: usize,
}

/// Draws the kinds of fault of a plan that is about promises: a node dies, the weather may be bad, and nothing happens
/// that would excuse a loss.
pub fn draw_deadly(random: &mut Random) -> BTreeSet<FaultKind> {
    if random.chance(0.2) {
        // Devices come and go, without other faults: no transmission may be wasted.
        return BTreeSet::new();
    }
    let rest = FaultKind::ALL.into_iter().filter(|kind| !kind.is_byzantine() && *kind != FaultKind::DiskFull);
    let density = [0.0, 0.05, 0.1, 0.25][random.below(4) as usize];
    let mut kinds: BTreeSet<FaultKind> = rest.filter(|_| random.chance(density)).collect();
    if random.chance(0.25) {
        // A disk fails, and its data is needed when its machine loses power.
        kinds.extend([FaultKind::StoreFails, FaultKind::PowerCut]);
    }
    let deaths = [FaultKind::Kill, FaultKind::Kill, FaultKind::PowerCut, FaultKind::PowerCut, FaultKind::Gone];
    for _ in 0..1 + random.below(2) {
        kinds.insert(deaths[random.below(deaths.len() as u64) as usize]);
    }
    kinds
}

/// Draws the kinds of fault of a plan in which messages get lost and overtake each other, and nothing else fails: then
/// no node may get a report that was never true.
pub fn draw_weather(random: &mut Random) -> BTreeSet<FaultKind> {
    let rest = [FaultKind::Reorder, FaultKind::Duplicate].into_iter().filter(|_| random.chance(0.4));
    rest.chain([FaultKind::Loss]).collect()
}

/// Draws the faults of the kinds in `kinds` between zero and `end`, in order of time.
pub fn draw(
    kinds: &BTreeSet<FaultKind>,
    subject: Subject<'_>,
    end: Duration,
    stream: impl Fn(u64) -> Random,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (number, kind) in FaultKind::ALL.into_iter().enumerate() {
        if kinds.contains(&kind) {
            draw_kind(kind, subject, end, &mut stream(number as u64), &mut faults);
        }
    }
    faults.sort_by_key(|fault| fault.from);
    faults
}

#[expect(clippy::too_many_lines, reason = "one exhaustive match over the kinds; each arm is short")]
fn draw_kind(
    kind: FaultKind,
    Subject { topology, objects, moments }: Subject<'_>,
    end: Duration,
    random: &mut Random,
    faults: &mut Vec<Fault>,
) {
    let (links, nodes) = (topology.links.len() as u64, topology.nodes.len() as u64);
    let with = |wanted: fn(&super::topology::NodeSpec) -> bool| -> Vec<usize> {
        (0..topology.nodes.len()).filter(|node| wanted(&topology.nodes[*node])).collect()
    };
    let share = 0.1 + 0.9 * random.unit();
    let every = random.chance(0.5);
    let count = match kind {
        FaultKind::Loss | FaultKind::Reorder | FaultKind::Duplicate | FaultKind::Corrupt => links,
        FaultKind::Flap => 1 + random.below(10),
        FaultKind::Malformed | FaultKind::Replay | FaultKind::Shift => 1 + random.below(12),
        FaultKind::Gone => 1,
        _ => 1 + random.below(4),
    };
    let severity = random.unit();
    for index in 0..count {
        let weather = count == links && index < links;
        if weather && !random.chance(share) {
            continue;
        }
        let from = if weather && every { Duration::ZERO } else { end.mul_f64(random.unit()) };
        let moment = match kind {
            FaultKind::Kill
            | FaultKind::PowerCut
            | FaultKind::Gone
            | FaultKind::Amnesia
            | FaultKind::Freeze
            | FaultKind::StoreFull
            | FaultKind::StoreFails
                if !moments.is_empty() && random.chance(0.7) =>
            {
                draw_moment(kind, topology, moments, random)
            }
            _ => None,
        };
        let from = moment.map_or(from, |(time, _)| time.since(Time::ZERO).min(end));
        let longest = (end - from).as_secs_f64();
        let lasts = match kind {
            _ if weather && every => longest,
            FaultKind::Flap => longest.min(0.01 + random.unit() * random.unit() * 8.0),
            _ => longest.min(0.05 + random.unit() * 20.0),
        };
        let node = random.below(nodes) as usize;
        let node = moment.map_or(node, |(_, node)| node);
        let link = if weather { index as usize } else { random.below(links.max(1)) as usize };
        let what = match kind {
            FaultKind::Loss if random.chance(0.6) => What::Loss(link, Loss::Bernoulli(severity * random.unit() * 0.4)),
            FaultKind::Loss => {
                let (good_to_bad, bad_to_good) = (random.unit() * 0.05, 0.05 + random.unit() * 0.5);
                let loss_bad = 0.3 + 0.7 * random.unit();
                What::Loss(link, Loss::GilbertElliott { good_to_bad, bad_to_good, loss_good: 0.0, loss_bad })
            }
            FaultKind::Reorder => {
                let delay = Duration::from_secs_f64(random.unit() * 0.05);
                What::Reorder(link, Reorder { probability: severity * random.unit() * 0.3, delay })
            }
            FaultKind::Duplicate => What::Duplicate(link, severity * random.unit() * 0.3),
            FaultKind::Corrupt => What::Corrupt(link, severity * random.unit() * 0.02),
            FaultKind::Flap => What::Cut(vec![link]),
            FaultKind::Partition => {
                let side: Vec<bool> = (0..nodes).map(|_| random.chance(0.5)).collect();
                let cut = topology.links.iter().enumerate().filter(|(_, l)| side[l.ends[0].0] != side[l.ends[1].0]);
                What::Cut(cut.map(|(index, _)| index).collect())
            }
            FaultKind::Shift => {
                let rate = Rate::from_bits_per_second(500_000 + random.below(100_000_000));
                What::Shift(link, Some(rate), Duration::from_secs_f64(random.unit() * 0.15))
            }
            FaultKind::Mtu => What::Mtu(link, [1_200, 1_280, 1_400][random.below(3) as usize]),
            FaultKind::Kill => What::Kill(node, Memory::Kept, Farewell::Missing),
            FaultKind::Amnesia => What::Kill(node, Memory::Lost, Farewell::Missing),
            FaultKind::Leave => {
                What::Kill(node, [Memory::Kept, Memory::Lost][random.below(2) as usize], Farewell::Announced)
            }
            FaultKind::Freeze => What::Freeze(node),
            FaultKind::Clock => What::StopClock(node),
            FaultKind::LyingSource => {
                What::LyingSource(pick(&with(|node| node.publisher), random), random.unit() * random.unit())
            }
            FaultKind::LyingCache => {
                What::LyingCache(pick(&with(|node| node.router), random), random.unit() * random.unit() * 0.3)
            }
            FaultKind::Imposter if objects.is_empty() => continue,
            FaultKind::Imposter => What::Imposter(node, random.below(objects.len() as u64) as usize),
            FaultKind::Malformed => What::Malformed(node, 1 + random.below(100) as u32),
            FaultKind::Replay => What::Replay(node, 1 + random.below(100) as u32),
            FaultKind::DiskFull => What::DiskFull(pick(&with(|node| node.receiver), random), random.below(20)),
            FaultKind::PowerCut => What::Kill(node, Memory::Synced, Farewell::Missing),
            FaultKind::Gone => {
                let dispensable: Vec<usize> =
                    (0..topology.nodes.len()).filter(|node| topology.can_do_without(*node)).collect();
                if dispensable.is_empty() {
                    continue;
                }
                let picked = pick(&dispensable, random);
                What::Gone(if dispensable.contains(&node) { node } else { picked })
            }
            FaultKind::StoreFull | FaultKind::StoreFails => {
                let router = if topology.nodes[node].router { node } else { pick(&with(|node| node.router), random) };
                What::Disk(router, if kind == FaultKind::StoreFull { Trouble::Full } else { Trouble::Fails })
            }
        };
        // A node alone has no links.
        if links == 0 && matches!(kind, FaultKind::Flap | FaultKind::Shift | FaultKind::Mtu) {
            continue;
        }
        let from = Time::ZERO + from;
        faults.push(Fault { kind, from, until: from + Duration::from_secs_f64(lasts.max(0.0)), what });
    }
}

/// The time and node of a fault of this kind, if it is to fall into a moment: only routers have disks that fail, and
/// only nodes that all others can do without leave for good.
fn draw_moment(kind: FaultKind, topology: &Topology, moments: &[Moment], random: &mut Random) -> Option<(Time, usize)> {
    let is_router = |moment: &&Moment| topology.nodes[moment.node].router;
    let moments: Vec<&Moment> = match kind {
        FaultKind::StoreFull | FaultKind::StoreFails => moments.iter().filter(is_router).collect(),
        FaultKind::Gone => {
            moments.iter().filter(is_router).filter(|moment| topology.can_do_without(moment.node)).collect()
        }
        _ => moments.iter().collect(),
    };
    let moment = moments.get(random.below(moments.len() as u64) as usize)?;
    Some((moment.from + moment.lasts.mul_f64(random.unit()), moment.node))
}

fn pick(nodes: &[usize], random: &mut Random) -> usize {
    nodes[random.below(nodes.len() as u64) as usize]
}

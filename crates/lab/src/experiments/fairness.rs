//! One transfer against one rival's download, on one narrow link: shares, and the harm to the rival.
//!
//! Harm (Ware et al., HotNets 2019) is the part of its rate alone that a rival loses. RFC 9743 §5 compares a new
//! congestion control with the established ones: ours may do 1.1 times the harm that a second rival of the same kind or
//! a Cubic flow does, whichever is more, and gets at least 0.8 of the share that Cubic gets.
use std::collections::BTreeMap;

use tributary::{Family, config::Role};
use tributary_content::{MemoryObject, Name, SigningKey};
use tributary_core::{
    Duration, Rate, Time,
    link::{
        LinkConfig, QueueDiscipline,
        queue::{codel::CoDelConfig, red::RedConfig},
    },
};

use tributary_transport::TransferConfig;

use crate::{
    Results, Settings, Table,
    figures::{CellRow, Chart, Figure, cells},
    rivals::guest,
    runs::each,
    simulation::{Outcome, RunUntil, Scenario, file::RivalSpec, object},
    stats::mean,
    wide_area::router,
};

const RIVALS: [&str; 3] = ["quic-cubic", "quic-newreno", "quic-bbr"];
const MBPS: [u64; 3] = [2, 20, 100];
const ROUND_TRIPS_MS: [u64; 3] = [10, 50, 200];
/// Who shares with the rival: the default window over one path or four, one that does not watch for rivals, or another rival.
pub(super) const SHARERS: [(&str, Sharer); 7] = [
    ("alone", Sharer::Nobody),
    ("own-kind", Sharer::Same),
    ("default", Sharer::Ours { paths: 1, watches: true }),
    ("default-4-paths", Sharer::Ours { paths: 4, watches: true }),
    ("not-watching", Sharer::Ours { paths: 1, watches: false }),
    ("quic-cubic", Sharer::Rival("quic-cubic")),
    ("quic-newreno", Sharer::Rival("quic-newreno")),
];
/// The queue: its discipline, and how many bandwidth-delay products it holds.
const QUEUES: [(Discipline, f64); 7] = [
    (Discipline::DropTail, 0.5),
    (Discipline::DropTail, 1.0),
    (Discipline::DropTail, 2.0),
    (Discipline::DropTail, 4.0),
    (Discipline::DropTail, 8.0),
    (Discipline::Red, 4.0),
    (Discipline::CoDel, 4.0),
];
/// No queue is smaller: ten full packets.
const QUEUE_BYTES_MIN: u64 = 15_000;
/// The maximum that rivals keep in flight, by their flow control.
const IN_FLIGHT_MAX: f64 = 4.0 * 1024.0 * 1024.0;
const START: Time = Time::from_millis(3_000);
/// Shares that count as fair, and those beyond which one starves the other.
const GOAL: std::ops::RangeInclusive<f64> = 0.35..=0.65;
const MUST: std::ops::RangeInclusive<f64> = 0.25..=0.75;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Discipline {
    DropTail,
    Red,
    CoDel,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sharer {
    /// The rival has the link alone.
    Nobody,
    /// A second flow of the rival's kind.
    Same,
    Ours {
        paths: usize,
        watches: bool,
    },
    Rival(&'static str),
}

#[derive(Clone, Debug)]
struct Item {
    seed: u64,
    sharer: Sharer,
    rival: &'static str,
    mbps: u64,
    round_trip_ms: u64,
    queue: (Discipline, f64),
    seconds: u64,
    object: MemoryObject,
}

impl Item {
    fn product(&self) -> f64 {
        self.mbps as f64 * 125.0 * self.round_trip_ms as f64
    }
    /// The narrow link, near to far.
    fn bottleneck(&self) -> LinkConfig {
        let (discipline, products) = self.queue;
        let queue_bytes = ((self.product() * products) as u64).max(QUEUE_BYTES_MIN);
        let packets = queue_bytes as f64 / 1_500.0;
        // Thresholds in proportion to the queue, the upper one three times the lower one.
        let threshold_min = (packets / 6.0).max(RedConfig::DEFAULT.threshold_min);
        let discipline = match discipline {
            Discipline::DropTail => QueueDiscipline::DropTail,
            Discipline::Red => QueueDiscipline::Red(RedConfig {
                threshold_min,
                threshold_max: 3.0 * threshold_min,
                ..RedConfig::DEFAULT
            }),
            Discipline::CoDel => QueueDiscipline::CoDel(CoDelConfig::DEFAULT),
        };
        // The access links take a part of the round trip.
        let delay = Duration::from_micros(self.round_trip_ms * 500) - ACCESS_DELAY * 2;
        LinkConfig { queue_bytes, discipline, ..LinkConfig::new(Rate::from_mbps(self.mbps), delay) }
    }
    fn setting(&self) -> String {
        let (discipline, products) = self.queue;
        let queue = match discipline {
            Discipline::DropTail => format!("q{products}"),
            Discipline::Red => "red".into(),
            Discipline::CoDel => "codel".into(),
        };
        format!("{}-{}mbps-{}ms-{queue}", self.rival, self.mbps, self.round_trip_ms)
    }
}

const ACCESS_DELAY: Duration = Duration::from_millis(1);

/// ```text
///   pub-0, … ──┐                      ┌── receiver
///   rival-a  ──┼─ near ══narrow══ far ┼── rival-b
/// ```
fn scenario(item: &Item) -> Scenario {
    let mut scenario = Scenario::new("fairness", item.seed);
    router(&mut scenario, "near");
    router(&mut scenario, "far");
    scenario.add_node("rn-tm", Family::Psi, &[Role::Resolver, Role::TopologyManager]);
    let access = || {
        let rate = Rate::from_mbps((item.mbps * 5).max(100));
        LinkConfig { queue_bytes: 4 << 20, ..LinkConfig::new(rate, ACCESS_DELAY) }
    };
    scenario.add_link("rn-tm", "far", access());
    let narrow = scenario.add_link("near", "far", item.bottleneck());
    // The reverse direction carries requests and acknowledgements, which must not be lost or delayed.
    narrow.backward.queue_bytes = 4 << 20;
    narrow.backward.discipline = QueueDiscipline::DropTail;
    for (label, next) in [("rival-a", "near"), ("rival-b", "far")] {
        scenario.add_node(label, Family::Psi, &[Role::Receiver]);
        scenario.add_link(label, next, access());
    }
    match item.sharer {
        Sharer::Nobody => {}
        Sharer::Same => download(&mut scenario, item, "sharer", item.rival),
        Sharer::Rival(kind) => download(&mut scenario, item, "sharer", kind),
        Sharer::Ours { paths, watches } => {
            scenario.set_transfer(&TransferConfig { watch_rivals: watches, ..TransferConfig::default() });
            scenario.add_node("receiver", Family::Psi, &[Role::Receiver]);
            scenario.add_link("receiver", "far", access());
            for number in 0..paths {
                let publisher = format!("pub-{number}");
                scenario.add_node(&publisher, Family::Psi, &[Role::Sender]);
                scenario.add_link(&publisher, "near", access());
                scenario.publish(&publisher, Time::ZERO, item.object.clone());
            }
            scenario.fetch("receiver", START, name()).paths_per_source = 1;
        }
    }
    download(&mut scenario, item, "rival", item.rival);
    scenario.sampling = None;
    scenario.until = RunUntil::Limit;
    scenario.limit = START + Duration::from_secs(item.seconds);
    scenario
}

fn download(scenario: &mut Scenario, item: &Item, name: &str, kind: &str) {
    let spec = RivalSpec {
        name: name.into(),
        kind: kind.into(),
        from: "rival-a".into(),
        to: "rival-b".into(),
        bytes: item.object.bytes().len() as u64,
        connections: 1,
        start: START,
    };
    guest::add(scenario, &spec).expect("the rival is known");
}

fn name() -> Name {
    "/lab/file".parse().expect("the name is right")
}

/// Results of one run.
struct Row {
    share: f64,
    used: f64,
    lost: f64,
}

impl Row {
    /// The rival's rate, as a part of the link's.
    fn rival_rate(&self) -> f64 {
        (1.0 - self.share) * self.used
    }
}

fn read(item: &Item, _: &Scenario, outcome: Outcome) -> Row {
    let bytes = |transfer: usize| -> f64 {
        outcome.transfers[transfer].report.iter().flat_map(|report| &report.paths).map(|path| path.bytes as f64).sum()
    };
    let (own, rival) = if item.sharer == Sharer::Nobody { (0.0, bytes(0)) } else { (bytes(0), bytes(1)) };
    let link = outcome.links.iter().find(|link| link.from == "near" && link.to == "far");
    let lost = link.map_or(0.0, |link| link.stats.dropped_packets as f64 / link.stats.in_packets.max(1) as f64);
    let carried = item.mbps as f64 * 125_000.0 * item.seconds as f64;
    Row { share: own / (own + rival).max(1.0), used: (own + rival) / carried, lost }
}

pub(super) fn run(settings: &Settings, results: &mut Results) {
    let seconds = settings.choose(57, 20);
    let columns = ["sharer", "rival", "mbps", "rtt_ms", "queue", "run", "share", "used", "lost"];
    let mut table = Table::new("shares", &columns);
    let mut cells_of = BTreeMap::new();
    for (sharer_name, sharer) in SHARERS.into_iter().filter(|(name, _)| settings.takes(name)) {
        let mut rows = Vec::new();
        let mut all = Vec::new();
        for (rival, mbps, round_trip_ms) in grid(settings, sharer) {
            let object = file(mbps, seconds);
            let queues = QUEUES.iter().filter(|queue| {
                let product = mbps as f64 * 125.0 * round_trip_ms as f64;
                let is_asked = settings.choose(true, queue.1 == 1.0);
                is_asked && product * (1.0 + queue.1) <= IN_FLIGHT_MAX
            });
            let items: Vec<Item> = queues
                .flat_map(|queue| {
                    (0..settings.runs).map(|run| Item {
                        seed: settings.seed_of(mbps, run),
                        sharer,
                        rival,
                        mbps,
                        round_trip_ms,
                        queue: *queue,
                        seconds,
                        object: object.clone(),
                    })
                })
                .collect();
            let measured = each(&items, scenario, read);
            let mut shares = vec![None; QUEUES.len()];
            for (items, of) in items.chunks(settings.runs as usize).zip(measured.chunks(settings.runs as usize)) {
                let item = &items[0];
                let mean_of = |value: fn(&Row) -> f64| mean(&of.iter().map(value).collect::<Vec<_>>());
                let share = mean_of(|row| row.share);
                let row = Row { share, used: mean_of(|row| row.used), lost: mean_of(|row| row.lost) };
                results.metric(format!("{sharer_name}.share@{}", item.setting()), share, "share");
                cells_of.insert((item.setting(), sharer_name), row);
                shares[QUEUES.iter().position(|queue| *queue == item.queue).expect("it is one of them")] = Some(share);
                all.push(share);
                for (run, row) in (1..).zip(of) {
                    let (discipline, products) = item.queue;
                    let words = [sharer_name.into(), rival.into(), mbps.to_string(), round_trip_ms.to_string()];
                    let mut cells = words.to_vec();
                    cells.extend([format!("{discipline:?} {products}"), format!("{run}")]);
                    cells.extend([row.share, row.used, row.lost].map(|value| format!("{value:.4}")));
                    table.push(cells);
                }
            }
            rows.push(CellRow { label: format!("{rival}, {mbps} Mbit/s, {round_trip_ms} ms"), shares });
        }
        // A rival that is alone shares nothing: it is what harm compares with.
        if sharer != Sharer::Nobody {
            tell(results, sharer_name, &all);
            results.figures.push(figure(sharer_name, &rows));
        }
    }
    results.tables.push(table);
    judge(results, &cells_of);
    describe(results, seconds);
}

/// The means of each setting, by sharer.
type Cells = BTreeMap<(String, &'static str), Row>;

/// Compares the harm that our flows do with what a flow of the rival's own kind or Cubic does.
fn judge(results: &mut Results, cells: &Cells) {
    let columns =
        ["setting", "sharer", "harm", "harm_allowed", "share", "share_wanted", "lost", "lost_own_kind", "holds"];
    let mut table = Table::new("harm", &columns);
    let mut held: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    let is_ours = |of: &str| SHARERS.iter().any(|(name, kind)| *name == of && matches!(kind, Sharer::Ours { .. }));
    for ((setting, sharer), row) in cells.iter().filter(|((_, sharer), _)| is_ours(sharer)) {
        let of = |other: &'static str| cells.get(&(setting.clone(), other));
        // Two Cubic flows are two of a kind.
        let (Some(alone), Some(own_kind)) = (of("alone"), of("own-kind")) else { continue };
        let cubic = of("quic-cubic").unwrap_or(own_kind);
        let harm = |row: &Row| 1.0 - row.rival_rate() / alone.rival_rate().max(f64::MIN_POSITIVE);
        let allowed = 1.1 * harm(own_kind).max(harm(cubic)).max(0.0);
        let wanted = 0.8 * cubic.share;
        let holds = harm(row) <= allowed && row.share >= wanted;
        let rival = setting.split("-").take(2).collect::<Vec<_>>().join("-");
        let (good, all) = held.entry(format!("{sharer}.holds@{rival}")).or_default();
        (*good, *all) = (*good + u32::from(holds), *all + 1);
        let values = [harm(row), allowed, row.share, wanted, row.lost, own_kind.lost];
        let mut line = vec![setting.clone(), (*sharer).to_string()];
        line.extend(values.map(|value| format!("{value:.4}")));
        line.push(holds.to_string());
        table.push(line);
    }
    for (name, (good, all)) in held {
        results.metric(name, f64::from(good) / f64::from(all), "share");
    }
    results.tables.push(table);
}

/// The rivals, rates and round trips that a flow is measured with.
fn grid(settings: &Settings, sharer: Sharer) -> Vec<(&'static str, u64, u64)> {
    let mut grid = Vec::new();
    for rival in RIVALS {
        for mbps in MBPS {
            for round_trip_ms in ROUND_TRIPS_MS {
                // The same pair in the other order would be redundant.
                let is_new = match sharer {
                    Sharer::Ours { .. } | Sharer::Nobody | Sharer::Same => true,
                    Sharer::Rival(kind) => {
                        RIVALS.iter().position(|of| *of == kind) < RIVALS.iter().position(|of| *of == rival)
                    }
                };
                if is_new && settings.choose(true, mbps == 20 && round_trip_ms == 50) {
                    grid.push((rival, mbps, round_trip_ms));
                }
            }
        }
    }
    grid
}

/// A file that no flow completes before the end.
fn file(mbps: u64, seconds: u64) -> MemoryObject {
    let bytes = object("/lab/bytes", (mbps * 125_000 * (seconds + 3)) as usize, 3);
    MemoryObject::new(name(), bytes.bytes().clone(), &SigningKey::from_secret(&[3; 32])).expect("a right name")
}

fn tell(results: &mut Results, sharer: &str, shares: &[f64]) {
    let part = |holds: &dyn Fn(&f64) -> bool| {
        shares.iter().filter(|share| holds(share)).count() as f64 / shares.len().max(1) as f64
    };
    results.metric(format!("{sharer}.cells"), shares.len() as f64, "count");
    results.metric(format!("{sharer}.fair"), part(&|share| GOAL.contains(share)), "share");
    results.metric(format!("{sharer}.starved_or_starving"), part(&|share| !MUST.contains(share)), "share");
    results.metric(format!("{sharer}.share_min"), shares.iter().copied().fold(f64::INFINITY, f64::min), "share");
    results.metric(format!("{sharer}.share_max"), shares.iter().copied().fold(0.0, f64::max), "share");
}

fn figure(sharer: &str, rows: &[CellRow]) -> Figure {
    let columns: Vec<String> = QUEUES
        .iter()
        .map(|(discipline, products)| match discipline {
            Discipline::DropTail => format!("{products}"),
            Discipline::Red => format!("RED, {products}"),
            Discipline::CoDel => format!("CoDel, {products}"),
        })
        .collect();
    let chart =
        Chart::new(&format!("Share of {sharer} against one rival, by queue in bandwidth-delay products"), "", "");
    Figure {
        name: format!("shares-{sharer}"),
        caption: format!(
            "What {sharer} gets of one link that it shares with one rival flow; 0.5 is fair, orange is more."
        ),
        svg: cells(&chart, &columns, rows),
    }
}

fn describe(results: &mut Results, seconds: u64) {
    results.parameter("measured", format!("bytes of the {seconds} s from the moment on when both begin"));
}

//! Future work of mmFTP (§III-D, §V): forwarders that signal congestion, against loss that does.
use tributary::{Family, config::Role};
use tributary_core::{
    Duration, Time,
    link::{
        QueueDiscipline,
        queue::{Signal, codel::CoDelConfig, red::RedConfig, threshold::ThresholdConfig},
    },
};
use tributary_transport::TransferConfig;

use crate::{
    Results, Settings, Table,
    figures::{Bar, BarGroup, Chart, bars},
    optimum::PAYLOAD_SHARE,
    runs::each,
    simulation::{Outcome, RunUntil, Scenario, object},
    stats::{jain, mean, quantile},
    wide_area::{controllers, link, router},
};

/// Rate of the bottleneck.
const KBPS: u64 = 20_000;
const START: Time = Time::from_millis(3_000);

/// What the bottleneck's queue does, by name.
fn disciplines() -> [(&'static str, QueueDiscipline); 6] {
    let red = |signal| QueueDiscipline::Red(RedConfig { signal, ..RedConfig::DEFAULT });
    let codel = |signal| QueueDiscipline::CoDel(CoDelConfig { signal, ..CoDelConfig::DEFAULT });
    [
        ("drop-tail", QueueDiscipline::DropTail),
        ("red-drop", red(Signal::Drop)),
        ("red-mark", red(Signal::Mark)),
        ("codel-drop", codel(Signal::Drop)),
        ("codel-mark", codel(Signal::Mark)),
        ("threshold-mark", QueueDiscipline::Threshold(ThresholdConfig::DEFAULT)),
    ]
}

struct Item {
    seed: u64,
    discipline: QueueDiscipline,
    transfer: TransferConfig,
    seconds: u64,
}

/// ```text
///   pub-0 ──┐                        ┌── receiver-0
///   pub-1 ──┼─ near ══20 Mbit/s══ far ┼── receiver-1
/// ```
fn scenario(item: &Item) -> Scenario {
    let mut scenario = Scenario::new("in-network", item.seed);
    router(&mut scenario, "near");
    router(&mut scenario, "far");
    scenario.add_node("rn-tm", Family::Psi, &[Role::Resolver, Role::TopologyManager]);
    scenario.add_link("rn-tm", "far", link(100_000, 1));
    let bottleneck = scenario.add_link("near", "far", link(KBPS, 20));
    // Twice the bandwidth-delay product: a queue that hurts when it is full.
    bottleneck.forward.queue_bytes = 250_000;
    bottleneck.forward.discipline = item.discipline;
    for number in 0..2 {
        let (publisher, receiver) = (format!("pub-{number}"), format!("receiver-{number}"));
        let name = format!("/lab/object-{number}");
        scenario.add_node(&publisher, Family::Psi, &[Role::Sender]);
        scenario.add_node(&receiver, Family::Psi, &[Role::Receiver]);
        scenario.add_link(&publisher, "near", link(100_000, 2));
        scenario.add_link("far", &receiver, link(100_000, 3));
        let bytes = 2_600_000 * (item.seconds as usize + 3);
        scenario.publish(&publisher, Time::ZERO, object(&name, bytes, number));
        let later = START + Duration::from_secs(2 * number);
        scenario.fetch(&receiver, later, name.parse().expect("a right name")).paths_per_source = 1;
    }
    scenario.set_transfer(&item.transfer);
    scenario.sampling = Some(Duration::from_millis(50));
    scenario.until = RunUntil::Limit;
    scenario.limit = START + Duration::from_secs(item.seconds);
    scenario
}

/// Results of one run, over its second half.
struct Row {
    mbps: [f64; 2],
    queue_ms: Vec<f64>,
    dropped: f64,
    marked: f64,
}

fn read(item: &Item, _: &Scenario, outcome: Outcome) -> Row {
    let half = START + Duration::from_millis(item.seconds * 500);
    let mbps = [0, 1].map(|transfer| {
        let within: Vec<_> = outcome.samples_of(transfer).filter(|sample| sample.time >= half).collect();
        match (within.first(), within.last()) {
            (Some(first), Some(last)) if last.time > first.time => {
                (last.bytes - first.bytes) as f64 * 8e-6 / last.time.since(first.time).as_secs_f64()
            }
            _ => 0.0,
        }
    });
    let index = outcome.links.iter().position(|link| link.from == "near" && link.to == "far").unwrap_or(0);
    let samples = outcome.link_samples.iter().filter(|sample| sample.link == index && sample.time >= half);
    let stats = outcome.links[index].stats;
    let packets = stats.in_packets.max(1) as f64;
    Row {
        mbps,
        queue_ms: samples.map(|sample| sample.queue_bytes as f64 * 8.0 / KBPS as f64).collect(),
        dropped: stats.dropped_packets as f64 / packets,
        marked: stats.marked_packets as f64 / packets,
    }
}

pub(super) fn run(settings: &Settings, results: &mut Results) {
    let seconds = settings.choose(24, 10);
    let columns = ["variant", "run", "mbps", "queue_ms_mean", "queue_ms_95", "dropped", "marked", "jain"];
    let mut table = Table::new("runs", &columns);
    let mut groups: [Vec<BarGroup>; 2] = [Vec::new(), Vec::new()];
    for (discipline_name, discipline) in disciplines() {
        let mut bars = [Vec::new(), Vec::new()];
        for (prefix, transfer) in controllers() {
            let seeds = (0..settings.runs).map(|run| settings.seed_of(1, run));
            let items: Vec<_> =
                seeds.map(|seed| Item { seed, discipline, transfer: transfer.clone(), seconds }).collect();
            let rows = each(&items, scenario, read);
            let of = |value: &dyn Fn(&Row) -> f64| rows.iter().map(value).collect::<Vec<_>>();
            let goodput = of(&|row| row.mbps.iter().sum());
            let queue = of(&|row| mean(&row.queue_ms));
            let variant = format!("{prefix}{discipline_name}");
            let mut put = |quantity: &str, value: f64, unit: &str| {
                results.metric(format!("{variant}.{quantity}"), value, unit);
            };
            put("goodput_mbps", mean(&goodput), "mbps");
            put("utilisation", mean(&goodput) / (KBPS as f64 / 1000.0 * PAYLOAD_SHARE), "share");
            put("queue_ms_mean", mean(&queue), "milliseconds");
            put("queue_ms_95", mean(&of(&|row| quantile(&row.queue_ms, 0.95))), "milliseconds");
            put("dropped", mean(&of(&|row| row.dropped)), "share");
            put("marked", mean(&of(&|row| row.marked)), "share");
            put("jain", mean(&of(&|row| jain(&row.mbps))), "share");
            for (run, row) in (1..).zip(&rows) {
                let values = [
                    row.mbps.iter().sum(),
                    mean(&row.queue_ms),
                    quantile(&row.queue_ms, 0.95),
                    row.dropped,
                    row.marked,
                    jain(&row.mbps),
                ];
                let mut cells = vec![variant.clone(), format!("{run}")];
                cells.extend(values.iter().map(|value| format!("{value:.5}")));
                table.push(cells);
            }
            bars[0].push(Bar::of(&goodput));
            bars[1].push(Bar::of(&queue));
        }
        for (groups, bars) in groups.iter_mut().zip(bars) {
            groups.push(BarGroup { label: discipline_name.into(), bars });
        }
    }
    results.metric("optimum.goodput_mbps", KBPS as f64 / 1000.0 * PAYLOAD_SHARE, "mbps");
    results.tables.push(table);
    let names = ["paper's controller", "default"];
    for (groups, (name, title, unit)) in groups.iter().zip([
        ("goodput", "Goodput of two transfers over 20 Mbit/s", "goodput (Mbit/s)"),
        ("queue", "How long packets wait at the bottleneck", "mean queueing delay (ms)"),
    ]) {
        results.captioned(
            name,
            format!("{title}, by queue discipline; the second half of the time."),
            bars(&Chart::new(title, "queue", unit), &names, groups),
        );
    }
}

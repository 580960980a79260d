//! MFTP §3.4.3: back-pressure of a slow destination holds up what is for another one; the proxy is to relieve that.
use tributary::{
    Family,
    config::Role,
    simulation::{Outcome, RunUntil, Scenario, object, parallel},
};
use tributary_content::MemoryObject;
use tributary_core::{Duration, Rate, Time, link::LinkConfig};
use tributary_mf::{Config, config::HolRelief};

use super::network::{START, tell_conservation, unaccounted};
use crate::{
    Experiment, Results, Settings, Table,
    figures::{Bar, BarGroup, Chart, Figure, bars},
    optimum::{Demand, Goal, together},
    rivals::{Content, DownloadConfig, Plan, Rival, outcome as outcome_of, run_download},
    runs::run as run_scenario,
    stats::{confidence, jain, mean},
};

/// The entry of the table.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "mftp-hol",
    title: "A slow and a fast destination behind one router: back-pressure with and without relief",
    paper: "claimed in MFTP §3.4.3, not evaluated there",
    runs: 3,
    run,
};

/// How much later the fast transfer begins: the slow one has filled what it can fill by then.
const LATER: Duration = Duration::from_secs(3);
const SLOW_MBPS: u64 = 2;
const FAST_MBPS: u64 = 50;

struct Item {
    seed: u64,
    relief: HolRelief,
    objects: [MemoryObject; 2],
}

fn wire(mbps: u64, delay_ms: u64) -> LinkConfig {
    let rate = Rate::from_mbps(mbps);
    let queue_bytes = rate.bytes_in(Duration::from_millis(50)).max(64 << 10);
    LinkConfig { queue_bytes, ..LinkConfig::new(rate, Duration::from_millis(delay_ms)) }
}

/// ```text
///   s-slow ──┐                        ┌──2── slow
///            ├─ r1 ──100 Mbit/s── r2 ──┤
///   s-fast ──┘                        └──50── fast
/// ```
fn scenario(item: &Item) -> Scenario {
    let mut scenario = Scenario::new("head-of-line", item.seed);
    for label in ["r1", "r2"] {
        let config = scenario.add_node(label, Family::Mf, &[Role::Router, Role::Resolver]);
        set(&mut config.mf, item.relief);
    }
    for (name, role) in
        [("s-slow", Role::Sender), ("s-fast", Role::Sender), ("slow", Role::Receiver), ("fast", Role::Receiver)]
    {
        let config = scenario.add_node(name, Family::Mf, &[role]);
        set(&mut config.mf, item.relief);
    }
    scenario.add_link("s-slow", "r1", wire(200, 1));
    scenario.add_link("s-fast", "r1", wire(200, 1));
    scenario.add_link("r1", "r2", wire(100, 5));
    scenario.add_link("r2", "slow", wire(SLOW_MBPS, 5));
    scenario.add_link("r2", "fast", wire(FAST_MBPS, 5));
    for (name, object) in ["s-slow", "s-fast"].into_iter().zip(&item.objects) {
        scenario.publish(name, Time::ZERO, object.clone());
    }
    scenario.fetch("slow", START, "/lab/slow".parse().expect("a name"));
    scenario.fetch("fast", START + LATER, "/lab/fast".parse().expect("a name"));
    scenario.sampling = Some(Duration::from_millis(250));
    scenario.until = RunUntil::FetchEnds(1);
    scenario.limit = START + Duration::from_secs(300);
    scenario
}
fn set(config: &mut Config, relief: HolRelief) {
    config.relief = relief;
    // Two thirds of the usual buffer, so that it fills soon.
    config.buffer_packets = 4_000;
}

/// Goodput of the two in Mbit/s: of the slow one while it is alone and beside the fast one, of the fast one in all.
#[derive(Clone, Copy, Default)]
struct Row {
    slow: f64,
    fast: f64,
    unaccounted: u64,
}

fn read(item: &Item, outcome: &Outcome) -> Row {
    let fast = outcome.transfers[1].seconds().filter(|_| outcome.transfers[1].is_complete());
    let bytes = item.objects[1].bytes().len() as f64;
    let slow = outcome.samples_of(0).last();
    let rate = slow.map(|last| last.bytes as f64 * 8e-6 / last.time.since(START).as_secs_f64().max(1e-9));
    Row {
        slow: rate.unwrap_or(0.0),
        fast: fast.map_or(0.0, |seconds| bytes * 8e-6 / seconds),
        unaccounted: unaccounted(outcome),
    }
}

/// Two downloads of a rival on the same links.
fn rival(rival: Rival, item: &Item) -> Row {
    let mut plan = Plan::new();
    let content = |number: usize| Content { seed: item.seed, bytes: item.objects[number].bytes().len() as u64 };
    let servers = [0, 1].map(|number| plan.server(rival, content(number)));
    let starts = [START, START + LATER];
    let clients = [0, 1].map(|number| {
        let config = DownloadConfig { start: starts[number], ..DownloadConfig::single() };
        plan.client(rival, content(number), &[servers[number]], config)
    });
    let routers = [plan.router(), plan.router()];
    let mut connect = |a, b, link: LinkConfig| {
        plan.connect(a, b, link.clone(), link);
    };
    servers.into_iter().for_each(|server| connect(server, routers[0], wire(200, 1)));
    connect(routers[0], routers[1], wire(100, 5));
    connect(routers[1], clients[0], wire(SLOW_MBPS, 5));
    connect(routers[1], clients[1], wire(FAST_MBPS, 5));
    let (mut net, _) = plan.build(item.seed);
    run_download(&mut net, clients[1], START + Duration::from_secs(300));
    let slow = outcome_of(&net, clients[0], &servers[..1]).bytes as f64;
    let fast = outcome_of(&net, clients[1], &servers[1..]);
    Row {
        slow: slow * 8e-6 / net.now().since(START).as_secs_f64(),
        fast: fast.seconds.map_or(0.0, |seconds| fast.bytes as f64 * 8e-6 / seconds),
        unaccounted: net.links().map(|(.., link)| link.stats().unaccounted_packets(link.in_flight())).sum(),
    }
}

fn run(settings: &Settings) -> Results {
    let mut results = Results::new(EXPERIMENT.name, settings);
    let objects = [
        object("/lab/slow", settings.choose(30_000_000, 8_000_000), 1),
        object("/lab/fast", settings.choose(50_000_000, 6_000_000), 2),
    ];
    let items = |relief| -> Vec<Item> {
        (0..settings.runs)
            .map(|run| Item { seed: settings.seed_of(1, run), relief, objects: objects.clone() })
            .collect()
    };
    let demand = |source: &str, receiver: &str| Demand { sources: vec![source.into()], receiver: receiver.into() };
    let both = [demand("s-slow", "slow"), demand("s-fast", "fast")];
    let bound = together(&scenario(&items(HolRelief::Off)[0]), &both, Goal::Sum).unwrap_or_default();
    let [slow_bound, fast_bound] = [bound.first(), bound.get(1)].map(|rate| rate.copied().unwrap_or(0.0));
    results.metric("optimum.slow_mbps", slow_bound, "mbps");
    results.metric("optimum.fast_mbps", fast_bound, "mbps");
    let ours = |relief| parallel::map(&items(relief), |item| read(item, &run_scenario(&scenario(item))));
    let mut all = vec![
        ("relieved", ours(HolRelief::Windows)),
        ("proxy-only", ours(HolRelief::Proxy)),
        ("blocked", ours(HolRelief::Off)),
    ];
    for of in [Rival::TcpCubic, Rival::QuicBbr] {
        all.push((of.name(), parallel::map(&items(HolRelief::Off), |item| rival(of, item))));
    }
    let mut table = Table::new("rates", &["variant", "run", "slow_mbps", "fast_mbps"]);
    let mut groups = Vec::new();
    for (variant, rows) in &all {
        let (slow, fast): (Vec<f64>, Vec<f64>) = rows.iter().map(|row| (row.slow, row.fast)).unzip();
        // Each as a share of what it could have: equal shares are fair.
        let shares: Vec<f64> = rows.iter().map(|row| jain(&[row.slow / slow_bound, row.fast / fast_bound])).collect();
        results.metric(format!("{variant}.slow_mbps"), mean(&slow), "mbps");
        results.metric(format!("{variant}.fast_mbps"), mean(&fast), "mbps");
        results.metric(format!("{variant}.fast_utilisation"), mean(&fast) / fast_bound, "share");
        results.metric(format!("{variant}.slow_utilisation"), mean(&slow) / slow_bound, "share");
        results.metric(format!("{variant}.jain"), mean(&shares), "share");
        tell_conservation(&mut results, variant, rows.iter().map(|row| row.unaccounted).sum());
        for (run, row) in (1..).zip(rows) {
            let rates = [row.slow, row.fast].map(|mbps| format!("{mbps:.4}"));
            table.push([variant.to_string(), format!("{run}")].into_iter().chain(rates).collect());
        }
        let share = |values: &[f64], bound: f64| Bar::with_spread(mean(values) / bound, confidence(values) / bound);
        let bars = vec![share(&fast, fast_bound), share(&slow, slow_bound)];
        groups.push(BarGroup { label: (*variant).into(), bars });
    }
    results.tables.push(table);
    let mut chart = Chart::new("What a fast and a slow destination get of what they could", "", "share of the optimum");
    chart.y_to = 1.0;
    results.figures.push(Figure {
        name: "shares".into(),
        caption: format!(
            "Behind one router: {FAST_MBPS} and {SLOW_MBPS} Mbit/s; the slow transfer began {} s earlier.",
            LATER.as_secs()
        ),
        svg: bars(&chart, &["fast destination", "slow destination"], &groups),
    });
    results.parameter("objects", format!("{} and {} bytes", objects[0].bytes().len(), objects[1].bytes().len()));
    results.parameter("back-pressure buffer", "4,000 packets at every router");
    results.note(
        "'Blocked': chunks stay where they are, so the slow destination's fill the buffer of the router that both need, and \
         back-pressure holds the fast one's sender as well. 'Proxy-only': chunks of a blocked line are pushed up to the \
         proxy (paper §3.4.3). 'Relieved', the default: each destination has a share of the buffer and a window of its own \
         besides. End-to-end transports have no such buffer and no such problem; they are the yardstick.",
    );
    results
}

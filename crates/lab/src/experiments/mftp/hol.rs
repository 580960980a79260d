//! MFTP §3.4.3: back-pressure from a slow destination delays chunks for another one; the proxy should relieve that.
use tributary::{Family, config::Role};
use tributary_content::MemoryObject;
use tributary_core::{Duration, Random, Rate, Time, link::LinkConfig};
use tributary_mf::{Config, config::HolRelief};

use super::network::{RIVALS, START, payload_share, record_conservation, unaccounted};
use crate::{
    Results, Settings, Table,
    comparison::{Download, Together},
    figures::{Bar, BarGroup, Chart, bars},
    optimum::{Demand, Goal, MFTP_PAYLOAD_SHARE, PAYLOAD_SHARE, together},
    rivals::Rival,
    runs::run as run_scenario,
    simulation::{Outcome, RunUntil, Scenario, object, parallel},
    stats::{confidence, jain, mean},
};

/// The minimum and maximum delay of the fast transfer: the slow one has filled the buffers by then.
const LATER: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(5)];
const SLOW_MBPS: u64 = 2;
const FAST_MBPS: u64 = 50;

/// One run: the transfers start at random times.
struct Item {
    seed: u64,
    relief: HolRelief,
    objects: [MemoryObject; 2],
    starts: [Time; 2],
}

impl Item {
    fn new(settings: &Settings, run: u32, relief: HolRelief, objects: &[MemoryObject; 2]) -> Item {
        let seed = settings.seed_of(1, run);
        let mut random = Random::new(seed, START_STREAM);
        let slow = START + Duration::from_secs_f64(random.unit());
        let fast = slow + LATER[0] + (LATER[1] - LATER[0]).mul_f64(random.unit());
        Item { seed, relief, objects: objects.clone(), starts: [slow, fast] }
    }
}
const START_STREAM: u64 = 0x57a7;

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
        set(config.mf_mut(), item.relief);
    }
    for (name, role) in
        [("s-slow", Role::Sender), ("s-fast", Role::Sender), ("slow", Role::Receiver), ("fast", Role::Receiver)]
    {
        let config = scenario.add_node(name, Family::Mf, &[role]);
        set(config.mf_mut(), item.relief);
    }
    scenario.add_link("s-slow", "r1", wire(200, 1));
    scenario.add_link("s-fast", "r1", wire(200, 1));
    scenario.add_link("r1", "r2", wire(100, 5));
    scenario.add_link("r2", "slow", wire(SLOW_MBPS, 5));
    scenario.add_link("r2", "fast", wire(FAST_MBPS, 5));
    for (name, object) in ["s-slow", "s-fast"].into_iter().zip(&item.objects) {
        scenario.publish(name, Time::ZERO, object.clone());
    }
    scenario.fetch("slow", item.starts[0], "/lab/slow".parse().expect("a name"));
    scenario.fetch("fast", item.starts[1], "/lab/fast".parse().expect("a name"));
    scenario.sampling = Some(Duration::from_millis(250));
    scenario.until = RunUntil::FetchEnds(1);
    scenario.limit = START + Duration::from_secs(300);
    scenario
}
fn set(config: &mut Config, relief: HolRelief) {
    config.relief = relief;
    // Two thirds of the usual buffer, so that it fills sooner.
    config.buffer_packets = 4_000;
}

/// Goodput of the two in Mbit/s: of the slow one while it is alone and during the fast one, of the fast one in all.
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
    let rate = slow.map(|last| last.bytes as f64 * 8e-6 / last.time.since(item.starts[0]).as_secs_f64().max(1e-9));
    Row {
        slow: rate.unwrap_or(0.0),
        fast: fast.map_or(0.0, |seconds| bytes * 8e-6 / seconds),
        unaccounted: unaccounted(outcome),
    }
}

/// Two downloads of a rival on the same links.
fn rival(rival: Rival, item: &Item) -> Row {
    let scenario = scenario(item);
    let downloads = [("s-slow", "slow", 0), ("s-fast", "fast", 1)].map(|(source, receiver, number)| Download {
        source,
        receiver,
        bytes: item.objects[number].bytes().len() as u64,
        start: item.starts[number],
    });
    let mut net = Together::new(rival, &scenario, &downloads);
    let fast = net.seconds(1, scenario.limit);
    Row {
        slow: net.received()[0] as f64 * 8e-6 / net.now().since(item.starts[0]).as_secs_f64(),
        fast: fast.map_or(0.0, |seconds| downloads[1].bytes as f64 * 8e-6 / seconds),
        unaccounted: net.unaccounted_packets(),
    }
}

pub(in crate::experiments) fn run(settings: &Settings, results: &mut Results) {
    let objects = [
        object("/lab/slow", settings.choose(30_000_000, 8_000_000), 1),
        object("/lab/fast", settings.choose(50_000_000, 6_000_000), 2),
    ];
    let items =
        |relief| -> Vec<Item> { (0..settings.runs).map(|run| Item::new(settings, run, relief, &objects)).collect() };
    let demand = |source: &str, receiver: &str| Demand { sources: vec![source.into()], receiver: receiver.into() };
    let both = [demand("s-slow", "slow"), demand("s-fast", "fast")];
    let bound = together(&scenario(&items(HolRelief::Off)[0]), &both, Goal::Sum).unwrap_or_default();
    let [slow_bound, fast_bound] =
        [bound.first(), bound.get(1)].map(|rate| rate.map_or(0.0, |rate| rate / PAYLOAD_SHARE * MFTP_PAYLOAD_SHARE));
    results.metric("optimum.slow_mbps", slow_bound, "mbps");
    results.metric("optimum.fast_mbps", fast_bound, "mbps");
    let ours = |relief| parallel::map(&items(relief), |item| read(item, &run_scenario(&scenario(item))));
    let mut all = vec![
        ("relieved", ours(HolRelief::Windows)),
        ("proxy-only", ours(HolRelief::Proxy)),
        ("blocked", ours(HolRelief::Off)),
    ];
    for (of, _) in RIVALS {
        all.push((of.name(), parallel::map(&items(HolRelief::Off), |item| rival(of, item))));
    }
    let mut table = Table::new("rates", &["variant", "run", "slow_mbps", "fast_mbps"]);
    let mut groups = Vec::new();
    for (variant, rows) in &all {
        let (slow, fast): (Vec<f64>, Vec<f64>) = rows.iter().map(|row| (row.slow, row.fast)).unzip();
        let of_own = payload_share(variant) / MFTP_PAYLOAD_SHARE;
        let (slow_bound, fast_bound) = (slow_bound * of_own, fast_bound * of_own);
        // Each as a share of its bound: equal shares are fair.
        let shares: Vec<f64> = rows.iter().map(|row| jain(&[row.slow / slow_bound, row.fast / fast_bound])).collect();
        results.metric(format!("{variant}.slow_mbps"), mean(&slow), "mbps");
        results.metric(format!("{variant}.fast_mbps"), mean(&fast), "mbps");
        results.metric(format!("{variant}.fast_utilisation"), mean(&fast) / fast_bound, "share");
        results.metric(format!("{variant}.slow_utilisation"), mean(&slow) / slow_bound, "share");
        results.metric(format!("{variant}.jain"), mean(&shares), "share");
        record_conservation(results, variant, rows.iter().map(|row| row.unaccounted).sum());
        for (run, row) in (1..).zip(rows) {
            let rates = [row.slow, row.fast].map(|mbps| format!("{mbps:.4}"));
            table.push([variant.to_string(), format!("{run}")].into_iter().chain(rates).collect());
        }
        let share = |values: &[f64], bound: f64| Bar::with_spread(mean(values) / bound, confidence(values) / bound);
        let bars = vec![share(&fast, fast_bound), share(&slow, slow_bound)];
        groups.push(BarGroup { label: (*variant).into(), bars });
    }
    results.tables.push(table);
    let mut chart =
        Chart::new("Goodput of a fast and a slow destination, as shares of their bounds", "", "share of the optimum");
    chart.y_to = 1.0;
    results.captioned(
        "shares",
        format!(
            "Behind one router: {FAST_MBPS} and {SLOW_MBPS} Mbit/s; the slow transfer began {} to {} s earlier.",
            LATER[0].as_secs(),
            LATER[1].as_secs()
        ),
        bars(&chart, &["fast destination", "slow destination"], &groups),
    );
    alike(results, settings);
    results.parameter("objects", format!("{} and {} bytes", objects[0].bytes().len(), objects[1].bytes().len()));
}

// ---- four that are alike but for their distance

/// One-way delays from the four sources to the first router.
const DELAYS_MS: [u64; 4] = [1, 10, 25, 50];
const SHARED_MBPS: u64 = 20;
/// The start, which does not count.
const SETTLED: Duration = Duration::from_secs(5);

/// ```text
///   s0 ─1 ms─┐                        ┌── f0
///   …        ├─ r1 ──20 Mbit/s── r2 ──┤   …
///   s3 ─50───┘                        └── f3
/// ```
fn four(seed: u64, relief: HolRelief, objects: &[MemoryObject], starts: &[Time]) -> Scenario {
    let mut scenario = Scenario::new("four alike", seed);
    for label in ["r1", "r2"] {
        let config = scenario.add_node(label, Family::Mf, &[Role::Router, Role::Resolver]);
        set(config.mf_mut(), relief);
    }
    scenario.add_link("r1", "r2", wire(SHARED_MBPS, 5));
    for (number, delay) in DELAYS_MS.iter().enumerate() {
        for (label, role) in [(format!("s{number}"), Role::Sender), (format!("f{number}"), Role::Receiver)] {
            let config = scenario.add_node(&label, Family::Mf, &[role]);
            set(config.mf_mut(), relief);
        }
        scenario.add_link(&format!("s{number}"), "r1", wire(100, *delay));
        scenario.add_link("r2", &format!("f{number}"), wire(100, 1));
        scenario.publish(&format!("s{number}"), Time::ZERO, objects[number].clone());
        let name = format!("/lab/equal-{number}").parse().expect("a name");
        scenario.fetch(&format!("f{number}"), starts[number], name);
    }
    scenario.sampling = Some(INTERVAL);
    scenario.limit = START + Duration::from_secs(180);
    scenario
}
const INTERVAL: Duration = Duration::from_millis(250);

/// Mbit/s of each until `end`, when the first of them completes, excluding the start; computed from bytes by time.
fn shares(progress: &[Vec<(Time, u64)>], end: Time) -> Vec<f64> {
    let begin = START + SETTLED;
    let rate = |of: &Vec<(Time, u64)>| {
        let counted: Vec<_> = of.iter().filter(|(time, _)| (begin..=end).contains(time)).collect();
        let (Some((from, before)), Some((to, after))) = (counted.first(), counted.last()) else { return 0.0 };
        (after - before) as f64 * 8e-6 / to.since(*from).as_secs_f64().max(1e-9)
    };
    progress.iter().map(rate).collect()
}

#[expect(clippy::too_many_lines, reason = "the script of one scenario")]
fn alike(results: &mut Results, settings: &Settings) {
    let bytes = settings.choose(40_000_000, 15_000_000);
    let objects: Vec<MemoryObject> =
        (0..DELAYS_MS.len() as u64).map(|number| object(&format!("/lab/equal-{number}"), bytes, number)).collect();
    let runs: Vec<(u64, Vec<Time>)> = (0..settings.runs)
        .map(|run| {
            let seed = settings.seed_of(2, run);
            let mut random = Random::new(seed, START_STREAM);
            (seed, DELAYS_MS.iter().map(|_| START + Duration::from_secs_f64(random.unit())).collect())
        })
        .collect();
    let ours = |relief| {
        parallel::map(&runs, |(seed, starts)| {
            let outcome = run_scenario(&four(*seed, relief, &objects, starts));
            let of = |number| outcome.samples_of(number).map(|sample| (sample.time, sample.bytes)).collect();
            let progress: Vec<Vec<(Time, u64)>> = (0..DELAYS_MS.len()).map(of).collect();
            let ends = outcome.transfers.iter().zip(starts);
            let ends = ends.filter_map(|(of, start)| Some(*start + Duration::from_secs_f64(of.seconds()?)));
            (shares(&progress, ends.min().unwrap_or(Time::MAX)), unaccounted(&outcome))
        })
    };
    let theirs = |of: Rival| {
        parallel::map(&runs, |(seed, starts)| {
            let scenario = four(*seed, HolRelief::Off, &objects, starts);
            let names: Vec<[String; 2]> =
                (0..DELAYS_MS.len()).map(|number| [format!("s{number}"), format!("f{number}")]).collect();
            let downloads: Vec<Download<'_>> = names
                .iter()
                .zip(starts)
                .map(|([source, receiver], start)| Download { source, receiver, bytes: bytes as u64, start: *start })
                .collect();
            let mut net = Together::new(of, &scenario, &downloads);
            let mut progress = vec![Vec::new(); names.len()];
            let mut now = START;
            while now < scenario.limit && net.received().iter().all(|got| *got < bytes as u64) {
                now += INTERVAL;
                net.run_until(now);
                progress.iter_mut().zip(net.received()).for_each(|(of, got)| of.push((now, got)));
            }
            (shares(&progress, now), net.unaccounted_packets())
        })
    };
    let mut all = vec![
        ("relieved", ours(HolRelief::Windows)),
        ("proxy-only", ours(HolRelief::Proxy)),
        ("blocked", ours(HolRelief::Off)),
    ];
    all.extend(RIVALS.map(|(of, _)| (of.name(), theirs(of))));
    results.metric("optimum.sum_mbps@alike", SHARED_MBPS as f64 * MFTP_PAYLOAD_SHARE, "mbps");
    let mut table = Table::new("alike", &["variant", "run", "mbps_1ms", "mbps_10ms", "mbps_25ms", "mbps_50ms", "jain"]);
    let mut groups = Vec::new();
    for (variant, rows) in &all {
        let fairness: Vec<f64> = rows.iter().map(|(rates, _)| jain(rates)).collect();
        let sums: Vec<f64> = rows.iter().map(|(rates, _)| rates.iter().sum()).collect();
        results.metric(format!("{variant}.jain@alike"), mean(&fairness), "share");
        results.metric(format!("{variant}.jain_confidence@alike"), confidence(&fairness), "share");
        results.metric(format!("{variant}.sum_mbps@alike"), mean(&sums), "mbps");
        let lost = rows.iter().map(|(_, lost)| lost).sum::<u64>();
        results.metric(format!("{variant}.unaccounted_packets@alike"), lost as f64, "count");
        for (run, ((rates, _), jain)) in (1..).zip(rows.iter().zip(&fairness)) {
            let cells = rates.iter().chain([jain]).map(|value| format!("{value:.4}"));
            table.push([variant.to_string(), format!("{run}")].into_iter().chain(cells).collect());
        }
        let bars = (0..DELAYS_MS.len()).map(|number| {
            let of: Vec<f64> = rows.iter().map(|(rates, _)| rates[number]).collect();
            Bar::of(&of)
        });
        groups.push(BarGroup { label: (*variant).into(), bars: bars.collect() });
    }
    results.tables.push(table);
    let chart = Chart::new("Four flows over one link, at four distances", "", "Mbit/s");
    let labels = DELAYS_MS.map(|delay| format!("source {delay} ms away"));
    results.captioned(
        "alike",
        format!("{SHARED_MBPS} Mbit/s for four; a fair part is a quarter."),
        bars(&chart, &labels.each_ref().map(String::as_str), &groups),
    );
    results.note(format!(
        "Four alike: sources 1, 10, 25 and 50 ms from the first router, a shared link of {SHARED_MBPS} Mbit/s, starts drawn \
         within a second; rates from {} s after that until the first of them is complete.",
        SETTLED.as_secs()
    ));
}

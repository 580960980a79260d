//! mmFTP's statements on caches (§III-A, §III-B2), measured: where to put them, and which packets they evict first.
use tributary::{Family, config::Role};
use tributary_content::MemoryObject;
use tributary_core::{Duration, Random, Time};

use crate::{
    Results, Settings, Table,
    figures::{Bar, BarGroup, Chart, Series, Style, bars, lines},
    runs::each,
    simulation::{Outcome, Scenario, object},
    stats::mean,
    wide_area::link,
};

/// Where the cache bytes of the whole network are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Placement {
    Nowhere,
    /// All at the routers to which receivers are attached, in equal parts.
    Access,
    /// All at the router to which the publisher is attached.
    Core,
    /// Equal parts at every router.
    Everywhere,
}

const PLACEMENTS: [(&str, Placement); 3] =
    [("access", Placement::Access), ("core", Placement::Core), ("everywhere", Placement::Everywhere)];
const POLICIES: [&str; 3] = ["object-oriented", "lru", "fifo"];
/// Share of the catalogue that all caches together hold.
const BUDGETS: [f64; 3] = [0.05, 0.2, 0.8];
/// Routers at the edge, each with two receivers.
const EDGES: usize = 4;
const RECEIVERS: usize = 2 * EDGES;
/// Exponent and plateau of the Zipf–Mandelbrot law: popularity of rank k is proportional to 1 / (k + q)^s.
const EXPONENT: f64 = 0.9;
const PLATEAU: f64 = 3.0;

#[derive(Clone)]
struct Item {
    seed: u64,
    placement: Placement,
    policy: &'static str,
    /// Bytes of all caches together.
    budget: u64,
    objects: Vec<MemoryObject>,
    requests: usize,
}

/// ```text
///   publisher ── core ─┬─ middle-0 ─┬─ edge-0 ── two receivers
///                      │            └─ edge-1
///                      └─ middle-1 ─┬─ edge-2
///                                   └─ edge-3
/// ```
fn scenario(item: &Item) -> Scenario {
    let mut scenario = Scenario::new("cache", item.seed);
    let edges: Vec<_> = (0..EDGES).map(|n| format!("edge-{n}")).collect();
    let routers: Vec<_> = ["core", "middle-0", "middle-1"].into_iter().map(String::from).chain(edges).collect();
    for router in &routers {
        let share = match item.placement {
            Placement::Nowhere => 0,
            Placement::Access => {
                if router.starts_with("edge") {
                    item.budget / EDGES as u64
                } else {
                    0
                }
            }
            Placement::Core => {
                if router == "core" {
                    item.budget
                } else {
                    0
                }
            }
            Placement::Everywhere => item.budget / routers.len() as u64,
        };
        let config = scenario.add_node(router, Family::Psi, &[Role::Router]);
        config.psi_mut().cache_bytes.0 = share;
        config.psi_mut().cache_policy = item.policy.into();
    }
    scenario.add_node("rn-tm", Family::Psi, &[Role::Resolver, Role::TopologyManager]);
    scenario.add_link("rn-tm", "core", link(100_000, 1));
    scenario.add_node("publisher", Family::Psi, &[Role::Sender]);
    // The publisher's link is the narrow one: that is where caches help most.
    scenario.add_link("publisher", "core", link(30_000, 10));
    for n in 0..2 {
        scenario.add_link("core", &format!("middle-{n}"), link(60_000, 8));
    }
    for n in 0..EDGES {
        scenario.add_link(&format!("middle-{}", n / 2), &format!("edge-{n}"), link(40_000, 4));
        for which in 0..2 {
            let receiver = format!("receiver-{}", n * 2 + which);
            scenario.add_node(&receiver, Family::Psi, &[Role::Receiver]);
            scenario.add_link(&format!("edge-{n}"), &receiver, link(40_000, 1));
        }
    }
    for object in &item.objects {
        scenario.publish("publisher", Time::ZERO, object.clone());
    }
    let law = Law::new(item.objects.len());
    let mut random = Random::new(item.seed, 0xcac4e);
    let mut at = Time::from_millis(4_000);
    for _ in 0..item.requests {
        at += Duration::from_secs_f64(-(1.0 - random.unit()).ln() * 0.12);
        let receiver = format!("receiver-{}", random.below(RECEIVERS as u64));
        let name = name(law.draw(random.unit()));
        scenario.fetch(&receiver, at, name.parse().expect("a right name")).paths_per_source = 1;
    }
    scenario.limit = at + Duration::from_secs(60);
    scenario
}

fn name(rank: usize) -> String {
    format!("/lab/object-{rank}")
}

/// The Zipf–Mandelbrot law over ranks from zero on.
struct Law(Vec<f64>);
impl Law {
    fn new(count: usize) -> Self {
        let mut sum = 0.0;
        let sums = (1..=count).map(|rank| {
            sum += 1.0 / (rank as f64 + PLATEAU).powf(EXPONENT);
            sum
        });
        Law(sums.collect())
    }
    /// The rank at `place` (0 to 1) of the summed popularity.
    fn draw(&self, place: f64) -> usize {
        let total = self.0.last().copied().unwrap_or(0.0);
        self.0.partition_point(|sum| *sum <= place * total).min(self.0.len().saturating_sub(1))
    }
}

/// Results of one run.
struct Row {
    hits: f64,
    seconds: f64,
    source_bytes: f64,
    failed: usize,
}

fn read(_: &Item, _: &Scenario, outcome: Outcome) -> Row {
    let reports = || outcome.transfers.iter().filter_map(|transfer| transfer.report.as_ref());
    let bytes: u64 = reports().map(|report| report.bytes).sum();
    let cached: u64 = reports().map(|report| report.cached_bytes).sum();
    let seconds: Vec<_> = outcome.transfers.iter().filter_map(|transfer| transfer.seconds()).collect();
    let sent = outcome.link("publisher", "core").map_or(0, |link| link.stats.out_bytes);
    Row {
        hits: cached as f64 / bytes.max(1) as f64,
        seconds: mean(&seconds),
        source_bytes: sent as f64 / bytes.max(1) as f64,
        failed: outcome.transfers.iter().filter(|transfer| !transfer.is_complete()).count(),
    }
}

pub(super) fn run(settings: &Settings, results: &mut Results) {
    let (count, requests, bytes) = settings.choose((150, 400, 150_000), (20, 30, 60_000));
    let objects: Vec<_> = (0..count).map(|rank| object(&name(rank), bytes, rank as u64)).collect();
    let catalogue = (count * bytes) as f64;
    let base = Item { seed: 0, placement: Placement::Nowhere, policy: "lru", budget: 0, objects, requests };
    let measure = |placement, policy, budget| {
        let items: Vec<_> = (0..settings.runs)
            .map(|run| Item { seed: settings.seed_of(1, run), placement, policy, budget, ..base.clone() })
            .collect();
        each(&items, scenario, read)
    };
    let mut table = Table::new("runs", &["variant", "setting", "run", "hit_share", "seconds_mean", "source_load"]);
    let nothing = tell(results, &mut table, "no-cache", "all", &measure(Placement::Nowhere, "lru", 0));
    let mut groups = Vec::new();
    let mut curves = Vec::new();
    for (placement_name, placement) in PLACEMENTS {
        let mut group = Vec::new();
        for policy in POLICIES {
            let variant = format!("{placement_name}-{policy}");
            let mut curve = Vec::new();
            for budget in BUDGETS {
                // Policies are compared at every size at the access routers, elsewhere at the middle one.
                let is_middle = (budget - BUDGETS[1]).abs() < 1e-9;
                if placement != Placement::Access && !is_middle {
                    continue;
                }
                let rows = measure(placement, policy, (catalogue * budget) as u64);
                let setting = format!("cache{:.0}", budget * 100.0);
                let (hits, bar) = tell(results, &mut table, &variant, &setting, &rows);
                curve.push((budget * 100.0, hits));
                if is_middle {
                    group.push(bar);
                }
            }
            if placement == Placement::Access {
                curves.push(Series::new(policy, curve).styled(Style::Marked));
            }
        }
        groups.push(BarGroup { label: placement_name.into(), bars: group });
    }
    groups.push(BarGroup { label: "no cache".into(), bars: vec![nothing.1, None, None] });
    results.tables.push(table);
    let chart = Chart::new(
        "Mean time of a fetch; all caches together hold 20 % of the catalogue",
        "placement",
        "mean time (s)",
    );
    results.figure("placement", bars(&chart, &POLICIES, &groups));
    let mut chart = Chart::new(
        "Share of bytes that caches at access routers answer",
        "size of all caches (% of the catalogue)",
        "share of bytes",
    );
    chart.y_to = 0.5;
    results.figure("policies", lines(&chart, &curves));
    results.parameter("catalogue", format!("{count} objects of {bytes} bytes"));
    results.parameter("requests", format!("{requests}, Poisson, mean gap 0.12 s, by {RECEIVERS} receivers"));
    results.parameter("popularity", format!("Zipf–Mandelbrot, exponent {EXPONENT}, plateau {PLATEAU}"));
}

fn tell(results: &mut Results, table: &mut Table, variant: &str, setting: &str, rows: &[Row]) -> (f64, Option<Bar>) {
    let of = |value: &dyn Fn(&Row) -> f64| rows.iter().map(value).collect::<Vec<_>>();
    let (hits, seconds, load) = (of(&|row| row.hits), of(&|row| row.seconds), of(&|row| row.source_bytes));
    results.metric(format!("{variant}.hit_share@{setting}"), mean(&hits), "share");
    results.metric(format!("{variant}.seconds_mean@{setting}"), mean(&seconds), "seconds");
    results.metric(format!("{variant}.source_load@{setting}"), mean(&load), "share");
    let failed: usize = rows.iter().map(|row| row.failed).sum();
    if failed > 0 {
        results.metric(format!("{variant}.failed@{setting}"), failed as f64, "count");
    }
    for (run, row) in (1..).zip(rows) {
        let mut cells = vec![variant.to_string(), setting.to_string(), format!("{run}")];
        cells.extend([row.hits, row.seconds, row.source_bytes].map(|value| format!("{value:.5}")));
        table.push(cells);
    }
    (mean(&hits), Bar::of(&seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popular_objects_are_drawn_as_often_as_the_law_says() {
        let law = Law::new(100);
        let mut random = Random::new(1, 1);
        let draws = 100_000;
        let first = (0..draws).filter(|_| law.draw(random.unit()) == 0).count() as f64 / f64::from(draws);
        let expected = law.0[0] / law.0[99];
        assert!((first - expected).abs() < 0.005, "{first} {expected}");
        assert_eq!((law.draw(0.0), law.draw(1.0)), (0, 99));
    }
}

//! What mmFTP leaves for later (§III-D, §V): is a transfer of several sub-flows friendly to one of a single flow?
use tributary::{Family, config::Role};
use tributary_content::{MemoryObject, SigningKey};
use tributary_core::{Duration, Time};
use tributary_transport::{Coupling, TransferConfig};

use crate::{
    Results, Settings, Table,
    figures::{Bar, BarGroup, Chart, Series, bars, lines},
    optimum::{Demand, Goal, together},
    runs::each,
    simulation::{Outcome, RunUntil, Scenario, object},
    stats::{jain, mean},
    wide_area::{controllers, link, router},
};

/// Where the bottlenecks are. Each has 20 Mbit/s, and on the first one there is always a single-flow transfer.
/// ```text
///   shared         disjoint          partly            blind
///   M: 2 over A    M: 1 A, 1 B       M: 2 A, 1 B       as disjoint, but M has one wide link to both,
///   S: A           S: A, T: B        S: A              so that all of its sub-flows share a link
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Shared,
    Disjoint,
    Partly,
    Blind,
}

const PLACES: [(&str, Place); 4] =
    [("shared", Place::Shared), ("disjoint", Place::Disjoint), ("partly", Place::Partly), ("blind", Place::Blind)];
const COUPLINGS: [(&str, Coupling); 3] =
    [("uncoupled", Coupling::Uncoupled), ("linked", Coupling::LinkedIncrease), ("normalised", Coupling::Normalised)];
/// Rate of a bottleneck.
const KBPS: u64 = 20_000;
/// When the single flows start, and the delay of the one with several sub-flows.
const START: Time = Time::from_millis(3_000);
const LATER: Duration = Duration::from_secs(4);

impl Place {
    /// How many sub-flows of M cross bottleneck A, and bottleneck B.
    fn sub_flows(self) -> [usize; 2] {
        match self {
            Place::Shared => [2, 0],
            Place::Disjoint | Place::Blind => [1, 1],
            Place::Partly => [2, 1],
        }
    }
    /// The single flows: the bottleneck that each crosses.
    fn singles(self) -> &'static [usize] {
        match self {
            Place::Shared | Place::Partly => &[0],
            Place::Disjoint | Place::Blind => &[0, 1],
        }
    }
}

struct Item {
    seed: u64,
    place: Place,
    transfer: TransferConfig,
    seconds: u64,
    objects: Vec<MemoryObject>,
}

/// A bottleneck is the link near-x ── far-x; publishers are behind near-x, receivers behind far-x.
fn scenario(item: &Item) -> Scenario {
    let mut scenario = Scenario::new("friendliness", item.seed);
    router(&mut scenario, "hub");
    scenario.add_node("rn-tm", Family::Psi, &[Role::Resolver, Role::TopologyManager]);
    scenario.add_link("rn-tm", "hub", link(100_000, 1));
    scenario.add_node("multi", Family::Psi, &[Role::Receiver]);
    let flows = item.place.sub_flows();
    for (index, side) in ["a", "b"].into_iter().enumerate() {
        let (near, far) = (format!("near-{side}"), format!("far-{side}"));
        router(&mut scenario, &near);
        router(&mut scenario, &far);
        let mut bottleneck = link(KBPS, 20);
        // One bandwidth-delay product, so that it stays busy when windows halve.
        bottleneck.queue_bytes = 125_000;
        scenario.add_link(&near, &far, bottleneck);
        // The path of control messages: narrow in name only, and never cheaper than the data path.
        scenario.add_link(&far, "hub", link(100_000, 30));
        for flow in 0..flows[index] {
            let publisher = format!("pub-{side}{flow}");
            scenario.add_node(&publisher, Family::Psi, &[Role::Sender]);
            scenario.add_link(&publisher, &near, link(200_000, 2));
            scenario.publish(&publisher, Time::ZERO, item.objects[0].clone());
        }
    }
    for (number, bottleneck) in item.place.singles().iter().enumerate() {
        let side = ["a", "b"][*bottleneck];
        let (publisher, receiver) = (format!("pub-s{number}"), format!("single-{number}"));
        scenario.add_node(&publisher, Family::Psi, &[Role::Sender]);
        scenario.add_node(&receiver, Family::Psi, &[Role::Receiver]);
        scenario.add_link(&publisher, &format!("near-{side}"), link(200_000, 2));
        scenario.add_link(&format!("far-{side}"), &receiver, link(200_000, 2));
        scenario.publish(&publisher, Time::ZERO, item.objects[number + 1].clone());
    }
    match item.place {
        Place::Blind => {
            router(&mut scenario, "wide");
            scenario.add_link("far-a", "wide", link(200_000, 1));
            scenario.add_link("far-b", "wide", link(200_000, 1));
            scenario.add_link("wide", "multi", link(400_000, 1));
        }
        Place::Shared => drop(scenario.add_link("far-a", "multi", link(200_000, 2))),
        Place::Disjoint | Place::Partly => {
            scenario.add_link("far-a", "multi", link(200_000, 2));
            scenario.add_link("far-b", "multi", link(200_000, 2));
        }
    }
    scenario.set_transfer(&item.transfer);
    scenario.fetch("multi", START + LATER, name(0)).paths_per_source = 1;
    for number in 0..item.place.singles().len() {
        scenario.fetch(&format!("single-{number}"), START, name(number + 1)).paths_per_source = 1;
    }
    scenario.sampling = Some(Duration::from_millis(500));
    scenario.until = RunUntil::Limit;
    scenario.limit = START + LATER + Duration::from_secs(item.seconds);
    scenario
}

fn name(number: usize) -> tributary_content::Name {
    format!("/lab/object-{number}").parse().expect("the name is right")
}

/// Rates in Mbit/s, every half second.
#[derive(Clone, Default)]
struct Row {
    /// Of M over bottlenecks A and B.
    multi: [Vec<(f64, f64)>; 2],
    /// Of the single flows.
    singles: Vec<Vec<(f64, f64)>>,
    bottlenecks: Vec<usize>,
    bound: f64,
}

fn read(item: &Item, scenario: &Scenario, outcome: Outcome) -> Row {
    let curve = |transfer: usize, side: Option<&str>| {
        let mut totals: Vec<(f64, u64)> = Vec::new();
        for sample in outcome.samples_of(transfer) {
            if side.is_some_and(|side| !sample.source.starts_with(&format!("pub-{side}"))) {
                continue;
            }
            let time = sample.time.since(START + LATER).as_secs_f64();
            if sample.time < START + LATER {
                continue;
            }
            match totals.last_mut() {
                Some((at, bytes)) if (*at - time).abs() < 1e-9 => *bytes += sample.bytes,
                _ => totals.push((time, sample.bytes)),
            }
        }
        let pairs = totals.windows(2);
        pairs
            .map(|pair| {
                let bytes = pair[1].1.saturating_sub(pair[0].1) as f64;
                (pair[1].0, bytes * 8e-6 / (pair[1].0 - pair[0].0))
            })
            .collect::<Vec<_>>()
    };
    let singles = item.place.singles();
    let sources = |prefix: &str| {
        let labels = scenario.nodes.iter().map(|node| node.label.clone());
        labels.filter(|label| label.starts_with(prefix)).collect::<Vec<_>>()
    };
    let mut demands = vec![Demand { sources: [sources("pub-a"), sources("pub-b")].concat(), receiver: "multi".into() }];
    for number in 0..singles.len() {
        demands.push(Demand { sources: vec![format!("pub-s{number}")], receiver: format!("single-{number}") });
    }
    Row {
        multi: [curve(0, Some("a")), curve(0, Some("b"))],
        singles: (0..singles.len()).map(|number| curve(number + 1, None)).collect(),
        bottlenecks: singles.to_vec(),
        bound: together(scenario, &demands, Goal::Sum).map_or(0.0, |rates| rates.iter().sum()),
    }
}

impl Row {
    /// Mean rate of a curve over its second half.
    fn steady(curve: &[(f64, f64)]) -> f64 {
        let half = &curve[curve.len() / 2..];
        mean(&half.iter().map(|(_, mbps)| *mbps).collect::<Vec<_>>())
    }
    /// Jain's index over M and S at each bottleneck that has both; the mean of the bottlenecks.
    fn jain(&self) -> f64 {
        let pairs = self.singles.iter().zip(&self.bottlenecks);
        let each =
            pairs.map(|(single, bottleneck)| jain(&[Row::steady(&self.multi[*bottleneck]), Row::steady(single)]));
        mean(&each.collect::<Vec<_>>())
    }
    /// M's share of the rate of M and S at the first bottleneck, at each time, smoothed over two seconds.
    fn share(&self) -> Vec<(f64, f64)> {
        let (Some(single), multi) = (self.singles.first(), &self.multi[0]) else { return Vec::new() };
        let shares = multi.windows(4).zip(single.windows(4)).map(|(multi, single)| {
            let sum = |curve: &[(f64, f64)]| curve.iter().map(|(_, mbps)| mbps).sum::<f64>();
            (multi[3].0, sum(multi) / (sum(multi) + sum(single)).max(1e-9))
        });
        shares.collect()
    }
    /// When the share comes within 0.1 of its value in the second half and stays there for four seconds.
    fn convergence(&self) -> Option<f64> {
        let shares = self.share();
        let last = Row::steady(&shares);
        let near = |(_, share): &(f64, f64)| (share - last).abs() <= 0.1;
        shares.windows(8).find(|window| window.iter().all(near)).map(|window| window[0].0)
    }
}

pub(super) fn run(settings: &Settings, results: &mut Results) {
    let seconds = settings.choose(24, 10);
    // Long enough that no flow completes before the end; bytes do not matter, so one block serves all.
    let bytes = object("/lab/bytes", 5_100_000 * (seconds as usize + 6), 3);
    let key = SigningKey::from_secret(&[3; 32]);
    let objects: Vec<_> = (0..3)
        .map(|number| MemoryObject::new(name(number), bytes.bytes().clone(), &key).expect("the name is not the root"))
        .collect();
    let mut table = Table::new("rates", &["variant", "setting", "run", "multi_mbps", "single_mbps", "jain"]);
    let mut drawn: Vec<(&str, BarGroup)> =
        PLACES.iter().map(|(setting, _)| (*setting, BarGroup { label: (*setting).into(), bars: Vec::new() })).collect();
    let mut shares = [Vec::new(), Vec::new()];
    for (which, (prefix, transfer)) in controllers().into_iter().enumerate() {
        for (coupling_name, coupling) in COUPLINGS {
            let variant = format!("{prefix}{coupling_name}");
            for (place_index, (setting, place)) in PLACES.into_iter().enumerate() {
                let transfer = TransferConfig { coupling, ..transfer.clone() };
                let seeds = (0..settings.runs).map(|run| settings.seed_of(place_index as u64, run));
                let items: Vec<_> = seeds
                    .map(|seed| Item { seed, place, transfer: transfer.clone(), seconds, objects: objects.clone() })
                    .collect();
                let rows = each(&items, scenario, read);
                let bar = tell(results, &mut table, &variant, setting, &rows);
                drawn[place_index].1.bars.push(bar);
                if place == Place::Shared
                    && let Some(row) = rows.first()
                {
                    shares[which].push(Series::new(coupling_name, row.share()));
                }
            }
        }
    }
    results.tables.push(table);
    figures(results, drawn, &shares);
}

fn tell(results: &mut Results, table: &mut Table, variant: &str, setting: &str, rows: &[Row]) -> Option<Bar> {
    let of = |value: &dyn Fn(&Row) -> f64| rows.iter().map(value).collect::<Vec<_>>();
    let multi = of(&|row| Row::steady(&row.multi[0]));
    let all_multi = of(&|row| row.multi.iter().map(|curve| Row::steady(curve)).sum());
    let single = of(&|row| row.singles.first().map_or(0.0, |curve| Row::steady(curve)));
    let all_single = of(&|row| row.singles.iter().map(|curve| Row::steady(curve)).sum());
    let fairness = of(&Row::jain);
    let mut put = |quantity: &str, value: f64, unit: &str| {
        results.metric(format!("{variant}.{quantity}@{setting}"), value, unit);
    };
    put("multi_mbps", mean(&all_multi), "mbps");
    put("single_mbps", mean(&single), "mbps");
    let shares: Vec<_> = multi.iter().zip(&single).map(|(multi, single)| multi / (multi + single).max(1e-9)).collect();
    put("multi_share", mean(&shares), "share");
    put("jain", mean(&fairness), "share");
    let bound = mean(&of(&|row| row.bound));
    put("utilisation", (mean(&all_multi) + mean(&all_single)) / bound.max(1e-9), "share");
    let times: Vec<_> = rows.iter().filter_map(Row::convergence).collect();
    if !times.is_empty() {
        put("convergence_seconds", mean(&times), "seconds");
    }
    for (run, ((multi, single), fairness)) in (1..).zip(all_multi.iter().zip(&all_single).zip(&fairness)) {
        let cells = [*multi, *single, *fairness].map(|value| format!("{value:.4}"));
        let mut row = vec![variant.to_string(), setting.to_string(), format!("{run}")];
        row.extend(cells);
        table.push(row);
    }
    Bar::of(&shares)
}

fn figures(results: &mut Results, drawn: Vec<(&str, BarGroup)>, shares: &[Vec<Series>; 2]) {
    let names =
        ["uncoupled", "linked increase", "normalised", "default uncoupled", "default linked", "default normalised"];
    let groups: Vec<_> = drawn.into_iter().map(|(_, group)| group).collect();
    let mut chart =
        Chart::new("Share of the first bottleneck that the transfer of several sub-flows takes", "", "share");
    chart.y_to = 0.75;
    results.figure("shares", bars(&chart, &names, &groups));
    for (series, (name, who)) in
        shares.iter().zip([("paper", "the paper's controller"), ("default", "the product's default")])
    {
        let title = format!("Share of the shared bottleneck over time, {who}");
        let mut chart = Chart::new(&title, "time since the second transfer began (s)", "share of several sub-flows");
        chart.y_to = 0.9;
        let end = series.iter().flat_map(|of| &of.points).map(|(time, _)| *time).fold(0.0, f64::max);
        let mut series = series.clone();
        series.push(Series::new("fair", vec![(0.0, 0.5), (end, 0.5)]).dashed().coloured(6));
        results.captioned(
            format!("convergence-{name}"),
            format!("Two sub-flows join one flow on a link of 20 Mbit/s, with {who}; one run, means of two seconds."),
            lines(&chart, &series),
        );
    }
}

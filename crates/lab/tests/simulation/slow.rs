//! Slow links: a file takes little longer than its bytes, control traffic keeps to its part, and neighbours stay.
use tributary::{Family, config::Role};
use tributary_core::{Duration, Rate, Time, link::LinkConfig};
use tributary_lab::simulation::{Outcome, RunUntil, Scenario, Simulation, object};

const BYTES: usize = 50_000;
const FAMILIES: [Family; 3] = [Family::Psi, Family::Ndn, Family::Mf];
/// From the slowest radios to a formerly fast modem, in bits per second.
const RATES: [u64; 5] = [9_600, 20_000, 32_000, 64_000, 128_000];

/// ```text
///   a ──── r ──── b        both links with this rate and 20 ms
/// ```
fn two_hops(family: Family, rate: u64) -> Scenario {
    let mut scenario = Scenario::new("two slow hops", 1);
    let router: &[Role] = match family {
        Family::Psi => &[Role::Router, Role::Resolver, Role::TopologyManager],
        Family::Mf => &[Role::Router, Role::Resolver],
        _ => &[Role::Router],
    };
    scenario.add_node("a", family, &[Role::Sender]);
    scenario.add_node("r", family, router);
    scenario.add_node("b", family, &[Role::Receiver]);
    for ends in [["a", "r"], ["r", "b"]] {
        let link = LinkConfig::new(Rate::from_bits_per_second(rate), Duration::from_millis(20));
        scenario.add_link(ends[0], ends[1], link);
    }
    scenario.publish("a", Time::ZERO, object("/f", BYTES, 7));
    scenario.keeps_events = true;
    scenario
}
fn run(scenario: &Scenario) -> Outcome {
    Simulation::run(scenario).expect("a legal scenario")
}
/// How often a neighbour was wrongly declared gone.
fn losses_of_neighbours(outcome: &Outcome) -> usize {
    outcome
        .events
        .iter()
        .filter(|event| event.contains(r#""event":"neighbour""#) && event.contains(r#""up":false"#))
        .count()
}

#[test]
fn a_file_over_two_slow_hops_takes_at_most_1_3_times_what_its_bytes_take() {
    let mut failures = Vec::new();
    for family in FAMILIES {
        for rate in RATES {
            let mut scenario = two_hops(family, rate);
            scenario.fetch("b", Time::from_millis(2_000), "/f".parse().expect("a name"));
            let ideal = BYTES as f64 * 8.0 / rate as f64;
            scenario.limit = Time::from_millis(2_000 + (ideal * 4_000.0) as u64);
            let outcome = run(&scenario);
            let seconds = outcome.transfers[0].seconds().unwrap_or(f64::INFINITY);
            let text = format!("{family}, {rate} bit/s: {seconds:.2} s, {:.2} times the ideal", seconds / ideal);
            println!("{text}");
            let is_whole = outcome.transfers[0].is_completed && outcome.transfers[0].is_verified == Some(true);
            if !is_whole || seconds > 1.3 * ideal {
                failures.push(text);
            }
            let gone = losses_of_neighbours(&outcome);
            if gone > 0 {
                failures.push(format!("{family}, {rate} bit/s: a neighbour was taken for gone {gone} times"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// On links without fetches, after the start.
#[test]
fn control_traffic_takes_at_most_a_twentieth_of_an_idle_link() {
    let mut failures = Vec::new();
    for family in FAMILIES {
        for rate in RATES {
            let bytes_until = |seconds: u64| -> Vec<u64> {
                let mut scenario = two_hops(family, rate);
                scenario.until = RunUntil::Limit;
                scenario.limit = Time::from_millis(seconds * 1_000);
                let links = run(&scenario).links;
                links.iter().map(|link| link.stats.out_bytes + 28 * link.stats.out_packets).collect()
            };
            let (before, after) = (bytes_until(60), bytes_until(360));
            let most = before.iter().zip(&after).map(|(before, after)| after - before).max().unwrap_or(0);
            let share = most as f64 * 8.0 / 300.0 / rate as f64;
            let text = format!("{family}, {rate} bit/s: {:.1} % of a link", share * 100.0);
            println!("{text}");
            if share > 0.05 {
                failures.push(text);
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

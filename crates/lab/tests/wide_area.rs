//! mmFTP over the paper's wide-area network: it uses the network's knowledge immediately, and takes capacity that
//! becomes free.
use tributary_core::{Duration, Time};
use tributary_lab::{
    runs::run,
    simulation::{Fault, Outcome, Scenario},
    wide_area::{START, file, file_name, three_sources},
};
use tributary_transport::TransferConfig;

const SOURCES: [&str; 3] = ["pub-1", "pub-2", "pub-3"];

fn scenario() -> Scenario {
    let mut scenario = three_sources(1, None, &TransferConfig::default());
    SOURCES.iter().for_each(|source| scenario.publish(source, Time::ZERO, file(20_000_000)));
    scenario.fetch("receiver", START, file_name()).paths_per_source = 1;
    scenario.sampling = Some(Duration::from_millis(20));
    scenario
}

/// Bytes that had arrived over the receiver's link `ms` milliseconds after the request.
fn arrived(outcome: &Outcome, ms: u64) -> u64 {
    let is_last_hop = |index: usize| outcome.links[index].from == "fn-0" && outcome.links[index].to == "receiver";
    let until = START + Duration::from_millis(ms);
    let samples = outcome.link_samples.iter().filter(|sample| sample.time <= until && is_last_hop(sample.link));
    samples.map(|sample| sample.out_bytes).max().unwrap_or(0)
}

/// The first answer of any publisher comes after 43 ms, the farthest one's after 115: until then the others alone
/// cannot fill the link of 35.5 Mbit/s with their shares of it.
#[test]
fn first_windows_fill_the_link_that_they_share() {
    let outcome = run(&scenario());
    let mbps = (arrived(&outcome, 120) - arrived(&outcome, 40)) as f64 * 8.0 / 80e3;
    println!("{mbps:.1} Mbit/s from 40 to 120 ms after the request");
    assert!(mbps > 29.0, "{mbps}");
}

/// The links of the two that are left carry 26.4 Mbit/s.
#[test]
fn what_a_silent_publisher_leaves_is_taken_within_a_second() {
    let mut scenario = scenario();
    scenario.fault(START + Duration::from_millis(1_500), Fault::StopServing { node: "pub-2".into() });
    let outcome = run(&scenario);
    let mbps = (arrived(&outcome, 4_500) - arrived(&outcome, 2_500)) as f64 * 8.0 / 2e6;
    println!("{mbps:.1} Mbit/s from one to three seconds after the silence began");
    assert!(mbps > 24.5, "{mbps}");
}

/// The network's knowledge of the path matches its first round trip: the flow does not double, and the queue of 40 ms
/// before its link is not overrun.
#[test]
fn a_path_that_carries_what_was_told_needs_no_doubling() {
    let mut scenario = three_sources(1, None, &TransferConfig::default());
    scenario.publish("pub-1", Time::ZERO, file(6_000_000));
    scenario.fetch("receiver", START, file_name()).paths_per_source = 1;
    let outcome = run(&scenario);
    let dropped: u64 = outcome.links.iter().map(|link| link.stats.dropped_packets).sum();
    assert!(outcome.transfers[0].seconds().is_some());
    assert!(dropped < 200, "{dropped} packets dropped");
}

/// The answers of the farthest publisher take 121 ms at the end, the nearest one's 54: packets that the nearer ones
/// deliver in between are left to them, and nothing comes twice.
#[test]
fn near_the_end_a_long_path_takes_nothing_that_others_bring_sooner() {
    let outcome = run(&scenario());
    let report = outcome.transfers[0].report.as_ref().expect("it ends");
    let seconds = outcome.transfers[0].seconds().expect("it ends");
    println!("{} bytes twice, {seconds:.3} s", report.duplicate_bytes);
    assert!(report.duplicate_bytes < 10_000, "{}", report.duplicate_bytes);
    // And they deliver it: 20 MB in packets of 1,433 of 1,490 bytes take the link of 35.5 Mbit/s 4.69 s.
    assert!(seconds < 4.8, "{seconds}");
}

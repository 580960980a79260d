//! Queues that are never empty: flows must not mistake the queue that they cause together for the path, nor its drops
//! for random loss.
use super::{shared::Contest, *};
use tributary_core::link::{LinkChange, QueueDiscipline, Script, queue::red::RedConfig};

/// What a flow got between two moments.
#[derive(Debug)]
struct Part {
    mbps: f64,
    lost: f64,
    rtt_min_ms: f64,
}

/// Flows that start at `starts_ms`, over that link, and each one's part between `from` and `to` seconds.
fn parts(narrow: LinkConfig, starts_ms: &[u64], from: u64, to: u64) -> Vec<Part> {
    let mbps = narrow.rate.map_or(0.0, |rate| rate.bits_per_second() as f64 / 1e6);
    let mut contest = Contest::over(narrow, (mbps * 125_000.0 * to as f64) as usize);
    for start in starts_ms {
        contest.run_until(Time::from_millis(*start));
        contest.add(TransferConfig::default(), &[0]);
    }
    contest.run_until(Time::from_millis(from * 1000));
    let before = contest.paths();
    contest.run_until(Time::from_millis(to * 1000));
    let part = |(before, after): (&PathReport, &PathReport)| Part {
        mbps: (after.bytes - before.bytes) as f64 * 8e-6 / (to - from) as f64,
        lost: (after.lost_packets - before.lost_packets) as f64
            / (after.requested_packets - before.requested_packets).max(1) as f64,
        rtt_min_ms: after.rtt_min.map_or(0.0, |rtt| rtt.as_secs_f64() * 1e3),
    };
    let parts: Vec<Part> = before.iter().zip(&contest.paths()).map(part).collect();
    for part in &parts {
        println!("  {:.3} Mbit/s, {:.4} lost, {:.1} ms", part.mbps, part.lost, part.rtt_min_ms);
    }
    parts
}

fn jain(parts: &[Part]) -> f64 {
    let sum: f64 = parts.iter().map(|part| part.mbps).sum();
    sum * sum / parts.iter().map(|part| part.mbps * part.mbps).sum::<f64>() / parts.len() as f64
}

#[test]
fn flows_that_come_late_to_a_queue_that_is_never_empty_get_their_part() {
    for (mbps, starts) in [(2, &[0, 60][..]), (2, &[0, 5_000, 9_000]), (20, &[0, 5_000]), (20, &[0, 70, 3_000, 8_000])]
    {
        let mut narrow = link(mbps, 50, 0.0);
        // Five bandwidth-delay products of the slow link, and 0.6 of the fast one.
        narrow.queue_bytes = 50 * 1_500;
        println!("{mbps} Mbit/s, {starts:?}");
        let parts = parts(narrow, starts, 40, 100);
        assert!(jain(&parts) > 0.9, "{parts:?}");
        assert!(parts.iter().all(|part| part.lost < 0.1), "{parts:?}");
        let used: f64 = parts.iter().map(|part| part.mbps).sum();
        assert!(used > 0.92 * mbps as f64, "{used}");
    }
}

/// An early-dropping queue keeps round trips short: only the loss shows that the rate is too high.
#[test]
fn what_a_queue_drops_early_is_no_random_loss() {
    for starts in [&[0][..], &[0, 2_000]] {
        let mut narrow = link(20, 54, 0.0);
        narrow.queue_bytes = 250_000;
        narrow.discipline = QueueDiscipline::Red(RedConfig::DEFAULT);
        println!("{starts:?}");
        let parts = parts(narrow, starts, 10, 40);
        assert!(parts.iter().all(|part| part.lost < 0.1), "{parts:?}");
        let used: f64 = parts.iter().map(|part| part.mbps).sum();
        assert!(used > 17.0 && jain(&parts) > 0.9, "{used}");
    }
}

/// A burst of congestion leaves a quarter of the rate for 3 s: the flow uses the full rate again soon after it ends.
#[test]
fn capacity_that_comes_back_is_used_within_a_second() {
    let rate = Rate::from_mbps(20);
    let change = |seconds, rate| (Duration::from_secs(seconds), LinkChange::Rate(Some(rate)));
    let mut path = link(20, 50, 0.0);
    path.script = Some(Script::new([change(3, Rate::from_mbps(5)), change(6, rate)], None));
    let mut world = World::new(30_000_000, TransferConfig::default(), 11);
    let source = world.source(Conduct::Honest);
    world.path(source, path);
    world.offer();
    world.run_until(Time::from_millis(7_000));
    let bytes = |world: &World| world.transfer.report(world.now).paths[0].bytes;
    let before = bytes(&world);
    world.run_until(Time::from_millis(9_000));
    let mbps = (bytes(&world) - before) as f64 * 8e-6 / 2.0;
    println!("{mbps:.2} Mbit/s");
    assert!(mbps > 18.0, "{mbps} of 20 Mbit/s from one to three seconds after the burst");
}

/// A path with an announced rate and round-trip time, and a queue that holds 40 ms.
fn known_path(rate: Rate, script: Option<Script>) -> World {
    let mut path = link(1, 106, 0.0);
    (path.rate, path.queue_bytes, path.script) = (Some(rate), rate.bytes_in(Duration::from_millis(40)), script);
    let mut world = World::new(20_000_000, TransferConfig::default(), 11);
    let source = world.source(Conduct::Honest);
    world.path(source, path);
    let offer = &mut world.offers()[0].paths[0];
    (offer.rtt, offer.capacity) = (Some(Duration::from_millis(106)), Some(rate));
    world.offer();
    world
}

#[test]
fn a_first_window_as_large_as_the_path_fills_it_and_not_its_queue() {
    let mut world = known_path(Rate::from_mbps(14), None);
    world.run_until(Time::from_millis(320));
    let report = world.transfer.report(world.now).paths.remove(0);
    let mbps = report.bytes as f64 * 8e-6 / (0.320 - 0.106);
    assert_eq!(report.lost_packets, 0);
    assert!(mbps > 12.0, "{mbps} of 14 Mbit/s from the first round trip on");
}

/// The queue of a long path is short: it overflowed while the rate was low, and the lower ceiling must not last.
#[test]
fn a_long_path_takes_its_rate_back_within_some_round_trips() {
    let rate = Rate::from_mbps(14);
    let change = |ms, rate| (Duration::from_millis(ms), LinkChange::Rate(Some(rate)));
    let mut world = known_path(rate, Some(Script::new([change(2000, Rate::from_mbps(7)), change(4500, rate)], None)));
    world.run_until(Time::from_millis(4_500));
    let bytes = |world: &World| world.transfer.report(world.now).paths[0].bytes;
    let before = bytes(&world);
    world.run_until(Time::from_millis(6_500));
    let mbps = (bytes(&world) - before) as f64 * 8e-6 / 2.0;
    println!("{mbps:.2} Mbit/s");
    assert!(mbps > 11.0, "{mbps} of 14 Mbit/s in the two seconds after the burst");
}

/// Part of a path is left unused while its round-trip time is probed, the more the longer that is: so it is done more rarely.
#[test]
fn probes_of_a_long_path_take_next_to_nothing_of_it() {
    let mut narrow = link(1, 400, 0.0);
    (narrow.rate, narrow.queue_bytes) = (Some(Rate::from_bits_per_second(200_000)), 30_000);
    let parts = parts(narrow, &[0], 20, 200);
    assert!(parts[0].mbps > 0.186, "{parts:?}");
}

/// The old smallest round trip holds for half a minute at most, and for less when the path delivers less.
#[test]
fn a_long_path_that_becomes_longer_is_used_again() {
    let change = (Duration::from_secs(45), LinkChange::Delay(Duration::from_millis(600)));
    let mut narrow = link(14, 300, 0.0);
    narrow.queue_bytes = 1_000_000;
    narrow.script = Some(Script::new([change], None));
    let parts = parts(narrow, &[0], 60, 100);
    assert!(parts[0].mbps > 12.0, "{parts:?}");
}

/// On a link between neighbours no other flow has to see the queue empty: its probe is over sooner.
#[test]
fn a_link_of_ones_own_is_probed_for_less_time() {
    let probed = |shares_queues| {
        let mut narrow = link(2, 20, 0.0);
        narrow.queue_bytes = 100_000;
        let mut contest = Contest::over(narrow, 60_000_000);
        contest.add(TransferConfig { shares_queues, ..TransferConfig::default() }, &[0]);
        let probing = |at: u64| {
            contest.run_until(Time::from_millis(at));
            contest.paths()[0].reason.contains("probe rtt")
        };
        (5_000..125_000).step_by(5).map(probing).filter(|probing| *probing).count() * 5
    };
    let [shared, own] = [true, false].map(probed);
    println!("{shared} ms and {own} ms of two minutes");
    assert!(own * 10 < shared * 9, "{shared} ms, {own} ms");
}

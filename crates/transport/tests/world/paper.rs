//! The paper's forms of a fetch, and the effects of unusual paths and readers.
use super::*;
use tributary_content::ChunkIndex;
use tributary_core::{Duration, event::PathState};
use tributary_transport::{ControllerKind, Coupling, TREE_PACKET_FIRST};

/// Slow start, congestion avoidance, halving, and a request for each packet.
fn papers() -> TransferConfig {
    TransferConfig {
        controller: ControllerKind::LossBased,
        coupling: Coupling::Uncoupled,
        request_packets_max: 1,
        ..TransferConfig::default()
    }
}
fn seconds(report: &TransferReport) -> f64 {
    report.ended.unwrap().since(report.started).as_secs_f64()
}
/// Seconds that `bytes` take at `mbps`, with headers of 29 + 28 bytes for each packet of 1,441.
fn fluid_seconds(bytes: u64, mbps: f64) -> f64 {
    bytes as f64 * 8.0 / (mbps * 1e6) * 1498.0 / 1441.0
}
fn one_path(bytes: usize, config: TransferConfig, mbps: u64) -> World {
    let mut world = World::new(bytes, config, 40);
    let source = world.source(Conduct::Honest);
    world.path(source, link(mbps, 20, 0.0));
    world
}

#[test]
fn a_run_of_one_asks_for_each_packet_by_itself_and_in_ascending_order() {
    let mut world = one_path(3_000_000, papers(), 20);
    world.offer();
    world.run(Duration::from_secs(30));
    world.assert_complete();
    assert!(world.requests.iter().all(|request| request.ranges.len() == 1 && request.ranges[0].1 == 1));
    let mut first_requested = std::collections::BTreeSet::new();
    // Hash list first, then the chunks; retransmissions do not count.
    let order: Vec<u32> = world
        .requests
        .iter()
        .map(|request| request.ranges[0].0.wrapping_sub(TREE_PACKET_FIRST))
        .filter(|rank| first_requested.insert(*rank))
        .collect();
    assert!(order.is_sorted(), "{order:?}");
    let layout = Layout::new(world.object.manifest(), 1443).unwrap();
    let packets = (0..layout.chunks()).map(|chunk| layout.packets(Unit::Chunk(chunk))).map(|(first, end)| end - first);
    assert!(order.len() as u32 >= packets.sum::<u32>());
}

#[test]
fn the_papers_window_fills_three_paths_that_lose_nothing_at_random() {
    let mut world = World::new(50_000_000, papers(), 41);
    for mbps in [20, 12, 8] {
        let source = world.source(Conduct::Honest);
        world.path(source, link(mbps, 40, 0.0));
    }
    world.offer();
    let report = world.run(Duration::from_secs(60));
    world.assert_complete();
    let ratio = seconds(&report) / fluid_seconds(50_000_000, 40.0);
    println!("ratio {ratio:.4}, retransmitted {}", report.retransmitted_bytes);
    assert!(ratio < 1.10, "{ratio}");
    assert!(report.paths.iter().all(|path| path.lost_packets > 0), "each window grew until its queue overflowed");
}

#[test]
fn one_run_for_many_packets_and_one_for_each_bring_the_same_bytes() {
    for request_packets_max in [1, 7, 64] {
        let mut world = one_path(2_000_000, TransferConfig { request_packets_max, ..TransferConfig::default() }, 50);
        world.offer();
        world.run(Duration::from_secs(30));
        world.assert_complete();
        let most = world.requests.iter().map(|request| request.ranges.iter().map(|run| u32::from(run.1)).sum::<u32>());
        assert!(most.max().unwrap() <= u32::from(request_packets_max));
    }
}

/// The windows in packets of two paths after some round trips of congestion avoidance, with these groups.
fn windows_after(coupling: Coupling, groups: [&[u16]; 2], then: Option<[&[u16]; 2]>) -> Vec<u64> {
    let config = TransferConfig { coupling, ..papers() };
    let mut world = World::new(400_000_000, config, 42);
    for _ in 0..2 {
        let source = world.source(Conduct::Honest);
        let mut wide = link(400, 50, 0.0);
        wide.queue_bytes = 50_000_000;
        world.path(source, wide);
    }
    let group = |world: &mut World, groups: [&[u16]; 2]| {
        for (offer, groups) in world.offers().iter_mut().zip(groups) {
            offer.paths[0].shared_links = groups.iter().copied().map(SharedLink::new).collect();
        }
        world.offer();
    };
    group(&mut world, groups);
    // One loss each ends slow start.
    world.run_until(Time::from_millis(120));
    for path in world.paths.values_mut() {
        path.silent = Some((Time::from_millis(120), Time::from_millis(500)));
    }
    world.run_until(Time::from_millis(2000));
    if let Some(groups) = then {
        group(&mut world, groups);
    }
    let before: Vec<u64> = world.transfer.report(world.now).paths.iter().map(|path| path.window_bytes / 1441).collect();
    world.run_until(Time::from_millis(6000));
    let after = world.transfer.report(world.now).paths.iter().map(|path| path.window_bytes / 1441).collect::<Vec<_>>();
    after.iter().zip(before).map(|(after, before)| after - before).collect()
}

#[test]
fn sub_flows_that_share_a_link_grow_together_like_one_and_disjoint_ones_each_for_itself() {
    let alone = windows_after(Coupling::LinkedIncrease, [&[], &[]], None);
    let disjoint = windows_after(Coupling::LinkedIncrease, [&[1], &[2]], None);
    assert_eq!(alone, disjoint, "groups of one couple nothing");
    for (coupling, share) in [(Coupling::LinkedIncrease, 0.25), (Coupling::Normalised, 0.5)] {
        let shared = windows_after(coupling, [&[7], &[7]], None);
        for (shared, alone) in shared.iter().zip(&alone) {
            let ratio = *shared as f64 / *alone as f64;
            assert!((ratio - share).abs() < 0.1, "{coupling:?}: {shared} packets against {alone}");
        }
    }
    assert_eq!(windows_after(Coupling::Uncoupled, [&[7], &[7]], None), alone);
}

#[test]
fn sub_flows_that_share_nothing_any_more_grow_each_for_itself_again() {
    let alone = windows_after(Coupling::LinkedIncrease, [&[], &[]], None);
    let freed = windows_after(Coupling::LinkedIncrease, [&[7], &[7]], Some([&[], &[]]));
    for (freed, alone) in freed.iter().zip(&alone) {
        assert!(freed * 10 > alone * 8, "{freed} packets against {alone}");
    }
}

#[test]
fn packets_fit_the_smallest_path_and_a_smaller_one_that_comes_later_is_refused_with_the_reason() {
    let mut world = one_path(8_000_000, TransferConfig::default(), 20);
    let small = world.source(Conduct::Honest);
    world.path(small, link(20, 20, 0.0));
    let smaller = world.source(Conduct::Honest);
    world.path(smaller, link(20, 20, 0.0));
    world.offers()[1].paths[0].packet_bytes_max = 1000;
    world.offers()[2].paths[0].packet_bytes_max = 900;
    let later = world.offers().split_off(2);
    world.offer();
    world.run_until(Time::from_millis(500));
    assert!(world.requests.iter().all(|request| request.packet_bytes <= 1000));
    world.offers().extend(later);
    world.offer();
    let report = world.run(Duration::from_secs(30));
    world.assert_complete();
    assert!(report.paths[1].bytes > 1_000_000);
    assert_eq!((report.paths[2].state, report.paths[2].bytes), (PathState::Closed, 0));
    let reason = format!("carries packets of 900 bytes, this transfer's have {}", world.requests[0].packet_bytes);
    assert_eq!(report.paths[2].reason, reason);
}

#[test]
fn an_object_that_was_chosen_before_there_was_a_path_is_cut_for_the_first_one() {
    for packet_bytes in [700, 1443] {
        let mut world = World::new(300_000, TransferConfig::default(), 5);
        let source = world.source(Conduct::Honest);
        world.offer();
        world.path(source, link(20, 20, 0.0));
        world.offers()[0].paths[0].packet_bytes_max = packet_bytes;
        world.offer();
        world.run(Duration::from_secs(10));
        world.assert_complete();
        let cut = Layout::new(world.object.manifest(), packet_bytes).unwrap().packet_bytes();
        assert!(world.requests.iter().all(|request| request.packet_bytes == cut));
    }
}

#[test]
fn a_path_that_comes_to_carry_less_is_closed_with_the_reason() {
    let mut world = one_path(8_000_000, TransferConfig::default(), 20);
    // Another path still carries them, so the packets stay as they are.
    let other = world.source(Conduct::Honest);
    world.path(other, link(20, 20, 0.0));
    world.offer();
    world.run_until(Time::from_millis(500));
    world.offers()[0].paths[0].packet_bytes_max = 900;
    world.offer();
    assert_eq!(world.transfer.report(world.now).paths[0].state, PathState::Closed);
}

/// A fetch of a stream whose reader has read nothing and buffers up to chunk `until`.
fn paused_reader(until: u32) -> World {
    let mut world = one_path(8_000_000, TransferConfig::default(), 20);
    let (opener, patience) = (MemoryOpener::new(), Some(Duration::from_secs(10)));
    world.content = opener.content();
    world.content.read_in_order(Some(ChunkIndex(0)), Some(ChunkIndex(until)));
    world.transfer = Transfer::new(Time::ZERO, name(), TransferConfig::default(), Box::new(opener), None, patience);
    world.offer();
    world
}

#[test]
fn nothing_is_asked_for_beyond_what_the_reader_of_a_stream_has_room_for() {
    let mut world = paused_reader(4);
    world.run_until(Time::from_millis(5000));
    let layout = Layout::new(world.object.manifest(), 1443).unwrap();
    let end = layout.packets(Unit::Chunk(4)).0;
    let beyond = |first: u32, count: u8| first < TREE_PACKET_FIRST && first + u32::from(count) > end;
    let requested = world.requests.iter().flat_map(|request| &request.ranges);
    assert!(requested.clone().count() > 0 && requested.clone().all(|&(first, count)| !beyond(first, count)));
    assert_eq!(world.transfer.report(world.now).stored_bytes, 4 * u64::from(world.object.manifest().chunk_size));
}

#[test]
fn a_reader_that_pauses_does_not_wear_out_the_patience_with_the_sources() {
    let mut world = paused_reader(4);
    world.run_until(Time::from_millis(30_000));
    assert!(!world.transfer.is_ended(), "{:?}", world.events.last());
}

#[test]
fn a_fetch_ends_with_the_reader_of_its_stream_and_waits_for_it_without_stopping_the_node() {
    let mut world = paused_reader(u32::MAX);
    world.run_until(Time::from_millis(30_000));
    let report = world.transfer.report(world.now);
    assert_eq!((report.stored_bytes, report.ended), (report.bytes, None));
    let all = ChunkIndex(world.object.manifest().chunk_count());
    world.content.read_in_order(Some(all), Some(ChunkIndex(u32::MAX)));
    let report = world.run(Duration::from_secs(31));
    assert!(report.ended.is_some() && report.failure.is_none(), "{report:?}");
}

#[test]
fn a_low_rate_limit_does_not_wear_out_the_patience_with_the_sources() {
    let mut world = one_path(1_000_000, TransferConfig::default(), 20);
    let opener = Box::new(MemoryOpener::new());
    let (rate, patience) = (Some(Rate::from_bits_per_second(20_000)), Some(Duration::from_secs(5)));
    world.transfer = Transfer::new(Time::ZERO, name(), TransferConfig::default(), opener, rate, patience);
    world.offer();
    world.run_until(Time::from_millis(60_000));
    assert!(!world.transfer.is_ended(), "{:?}", world.events.last());
    let bytes = world.transfer.report(world.now).paths[0].bytes;
    assert!((100_000..160_000).contains(&bytes), "{bytes} in a minute at 2,500 bytes a second");
}

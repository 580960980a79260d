//! Forged data, silence, changes: none of these may ever cost a byte.
use super::*;
use proptest::prelude::*;
use tributary_core::{SourceId, event::PathState, link::Reorder};

pub(super) fn distrusted(world: &World) -> Vec<SourceId> {
    let named = |event: &(Time, TransferEvent)| match event.1 {
        TransferEvent::SourceDistrusted { source, .. } => Some(source),
        _ => None,
    };
    world.events.iter().filter_map(named).collect()
}

pub(super) fn three_sources(bytes: usize, seed: u64) -> World {
    let mut world = World::new(bytes, TransferConfig::default(), seed);
    for mbps in [20, 12, 8] {
        let source = world.source(Conduct::Honest);
        world.path(source, link(mbps, 20, 0.0));
    }
    world
}

#[test]
fn a_source_that_corrupts_is_named_and_dropped_and_nobody_else() {
    for every in [1, 7, 100] {
        let mut world = three_sources(8_000_000, 11);
        world.sources[1] = Conduct::Corrupts(every);
        world.offer();
        world.run(Duration::from_secs(30));
        world.assert_complete();
        assert_eq!(distrusted(&world), [SourceId(2)], "one of {every} packets corrupt");
    }
}

#[test]
fn a_source_that_cuts_packets_short_is_named_and_dropped() {
    let mut world = three_sources(2_000_000, 12);
    world.sources[0] = Conduct::CutsShort;
    world.offer();
    world.run(Duration::from_secs(30));
    world.assert_complete();
    assert_eq!(distrusted(&world), [SourceId(1)]);
}

#[test]
fn if_all_sources_lie_the_fetch_fails_and_says_who_did_what() {
    let mut world = three_sources(2_000_000, 13);
    world.sources.fill(Conduct::Corrupts(1));
    world.offer();
    world.run(Duration::from_secs(30));
    let Some((_, TransferEvent::Failed { reason })) = world.events.last() else { panic!("{:?}", world.events.last()) };
    for source in ["source-1", "source-2", "source-3", "failed verification"] {
        assert!(reason.contains(source), "{reason}");
    }
    assert_eq!(world.content.finished(&name()), None);
}

#[test]
fn a_lying_cache_is_bypassed_and_its_source_is_not_blamed() {
    let mut world = three_sources(8_000_000, 14);
    world.paths.get_mut(&PathId(1)).unwrap().lying_cache = true;
    world.offer();
    world.run(Duration::from_secs(30));
    world.assert_complete();
    assert_eq!(distrusted(&world), []);
    let named =
        world.events.iter().filter(|(_, e)| matches!(e, TransferEvent::CacheDistrusted { node, .. } if node.0 == 77));
    assert_eq!(named.count(), 1);
    let report = world.transfer.report(world.now);
    assert!(report.paths[0].bytes - report.paths[0].cached_bytes > 1_000_000, "the path goes on without its cache");
}

#[test]
fn another_file_under_the_same_name_is_named_and_not_asked_for_when_the_key_is_known() {
    let mut world = three_sources(2_000_000, 15);
    let opener = MemoryOpener::pinned(key().public());
    world.content = opener.content();
    let patience = Some(Duration::from_secs(60));
    world.transfer = Transfer::new(Time::ZERO, name(), TransferConfig::default(), Box::new(opener), None, patience);
    let imposter = MemoryObject::new(name(), random_bytes(2_000_000, 99), &SigningKey::from_secret(&[9; 32])).unwrap();
    world.offers()[0].manifest = imposter.manifest().encode();
    world.offer();
    world.run(Duration::from_secs(30));
    world.assert_complete();
    assert_eq!(distrusted(&world), [SourceId(1)]);
}

#[test]
fn sources_and_paths_that_appear_during_a_transfer_are_used_and_withdrawn_ones_are_not() {
    let mut world = three_sources(16_000_000, 16);
    let later = world.offers().split_off(1);
    world.offer();
    world.run_until(Time::from_millis(1000));
    world.offers().extend(later);
    world.offer();
    world.run_until(Time::from_millis(2000));
    let before = world.transfer.report(world.now).paths[0].bytes;
    world.offers().remove(0);
    world.offer();
    let report = world.run(Duration::from_secs(30));
    world.assert_complete();
    assert!(report.paths[1].bytes > 2_000_000 && report.paths[2].bytes > 1_000_000, "{report:#?}");
    assert_eq!((report.paths[0].bytes, report.paths[0].state), (before, PathState::Closed));
}

#[test]
fn a_path_that_is_offered_again_after_it_was_withdrawn_is_told_to_be_active() {
    let mut world = three_sources(16_000_000, 16);
    world.offer();
    world.run_until(Time::from_millis(500));
    let first = world.offers().remove(0);
    world.offer();
    world.run_until(Time::from_millis(1_000));
    world.offers().push(first);
    world.offer();
    world.run(Duration::from_secs(30));
    world.assert_complete();
    let states = world.events.iter().filter_map(|(_, event)| match event {
        TransferEvent::PathState { path: PathId(1), state, .. } => Some(*state),
        _ => None,
    });
    let states: Vec<PathState> = states.filter(|state| *state != PathState::Idle).collect();
    assert_eq!(states[..2], [PathState::Closed, PathState::Active], "{states:?}");
}

#[test]
fn silence_is_noticed_within_a_timeout_and_a_path_that_returns_is_used_again() {
    let mut world = three_sources(20_000_000, 17);
    world.paths.get_mut(&PathId(1)).unwrap().silent = Some((Time::from_millis(1000), Time::from_millis(2500)));
    world.offer();
    world.run(Duration::from_secs(30));
    world.assert_complete();
    let state = |wanted: PathState| {
        let found = |(at, event): &(Time, TransferEvent)| match event {
            TransferEvent::PathState { path: PathId(1), state, .. } if *state == wanted => Some(*at),
            _ => None,
        };
        world.events.iter().find_map(found).expect("told")
    };
    assert!(state(PathState::Silent) < Time::from_millis(1200), "{}", state(PathState::Silent));
    assert!(state(PathState::Active) < Time::from_millis(2700), "{}", state(PathState::Active));
}

#[test]
fn without_any_source_it_gives_up_after_its_patience_with_a_reason() {
    let mut world = World::new(1000, TransferConfig::default(), 18);
    world.run_until(Time::from_millis(61_000));
    let Some((at, TransferEvent::Failed { reason })) = world.events.last() else { panic!("{:?}", world.events) };
    assert_eq!(*at, Time::from_millis(60_000));
    assert_eq!(reason, "no publisher of '/test/object' answered within 60s");
}

#[test]
fn who_stood_still_waits_for_the_sources_anew() {
    for (asleep_from, requested) in [(500, true), (500, false), (59_500, false)] {
        let mut world = three_sources(4_000_000, 21);
        if requested {
            world.offer();
        }
        world.run_until(Time::from_millis(asleep_from));
        // Packets are lost while the node falls asleep and while it sleeps, and with them those in flight.
        let awake = world.now + Duration::from_secs(3_600);
        world.paths.values_mut().for_each(|path| path.silent = Some((Time::ZERO, awake + Duration::from_secs(2))));
        world.now = awake;
        if !requested {
            world.run_until(awake + Duration::from_secs(50));
            world.offer();
        }
        world.run(Duration::from_secs(3_800));
        world.assert_complete();
    }
}

#[test]
fn who_woke_up_gives_up_after_its_patience_as_well() {
    let mut world = three_sources(4_000_000, 22);
    world.offer();
    world.run_until(Time::from_millis(500));
    let awake = world.now + Duration::from_secs(3_600);
    world.paths.values_mut().for_each(|path| path.silent = Some((Time::ZERO, Time::MAX)));
    world.now = awake;
    world.run(Duration::from_secs(4_000));
    let Some((at, TransferEvent::Failed { reason })) = world.events.last() else { panic!("{:?}", world.events.last()) };
    // Answers in flight before may still arrive when it wakes.
    assert!((60..=61).contains(&at.since(awake).as_secs()), "{at}");
    assert!(reason.contains("none of the 3 sources"), "{reason}");
}

#[test]
fn a_full_disk_ends_the_fetch_with_the_disks_own_words() {
    let mut world = three_sources(4_000_000, 19);
    world.content.refuse_chunks_after(Some(3));
    world.offer();
    world.run(Duration::from_secs(30));
    assert!(matches!(&world.events.last().unwrap().1, TransferEvent::Failed { reason } if reason.contains("write")));
}

#[test]
fn empty_and_tiny_objects_arrive() {
    for bytes in [0, 1, 1441, 262_144, 262_145] {
        let mut world = three_sources(bytes, 20);
        world.offer();
        world.run(Duration::from_secs(5));
        world.assert_complete();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn what_arrives_is_what_was_published_under_any_loss_reordering_and_duplication(
        seed in any::<u64>(),
        bytes in 0usize..3_000_000,
        rates in proptest::collection::vec((1u64..200, 1u64..80), 1..5),
        loss in 0.0f64..0.3,
        reorder in 0.0f64..0.3,
        duplicate in 0.0f64..0.2,
        faulty in any::<bool>(),
    ) {
        let mut world = World::new(bytes, TransferConfig::default(), seed);
        let honest = world.source(Conduct::Honest);
        let other = world.source(if faulty { Conduct::Corrupts(5) } else { Conduct::Honest });
        for (index, (mbps, rtt)) in rates.iter().enumerate() {
            let mut config = link(*mbps, *rtt, loss);
            config.reorder = Reorder { probability: reorder, delay: Duration::from_millis(*rtt / 4) };
            config.duplicate = duplicate;
            world.path(if index % 2 == 0 { honest } else { other }, config);
        }
        world.offer();
        world.run(Duration::from_secs(300));
        world.assert_complete();
        prop_assert!(!distrusted(&world).contains(&SourceId(1)), "the honest source is never blamed");
    }
}

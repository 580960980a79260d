//! Blames a node when bytes are wrong, versions change, or several publishers claim a name.
use super::*;
use faults::{distrusted, three_sources};
use tributary_content::{ManifestError, ObjectKind, chunk_size_for};
use tributary_core::{SourceId, event::PathState};

fn named_forwarders(world: &World) -> Vec<String> {
    let named = |event: &(Time, TransferEvent)| match &event.1 {
        TransferEvent::ForwarderDistrusted { label, .. } => Some(label.clone()),
        _ => None,
    };
    world.events.iter().filter_map(named).collect()
}
fn advice(world: &World) -> String {
    let text = |event: &(Time, TransferEvent)| match &event.1 {
        TransferEvent::Advice { text } => Some(text.clone()),
        _ => None,
    };
    world.events.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}
/// Three sources of one object, each over the forwarders of `ways`; 10 Mbit/s per path.
fn network(bytes: usize, seed: u64, ways: &[&[&str]]) -> World {
    let mut world = World::new(bytes, TransferConfig::default(), seed);
    for (index, forwarders) in ways.iter().enumerate() {
        let source = world.source(Conduct::Honest);
        for forwarder in *forwarders {
            world.path(source, link(10, 20, 0.0));
            let offer = world.offers()[source].paths.last_mut().unwrap();
            offer.label = format!("receiver>{forwarder}>source-{}", index + 1);
            offer.hops = offer.label.matches('>').count() as u32;
        }
    }
    world
}
fn versioned(name: Name, bytes: Vec<u8>, version: u64, key: &SigningKey) -> Result<MemoryObject, ManifestError> {
    let chunk_size = chunk_size_for(bytes.len() as u64);
    MemoryObject::with_options(name, bytes, key, version, ObjectKind::File, chunk_size)
}
fn alter_through(world: &mut World, forwarder: &str, every: u32) {
    let labels: Vec<(PathId, String)> =
        world.offers().iter().flat_map(|offer| &offer.paths).map(|path| (path.path, path.label.clone())).collect();
    for (id, _) in labels.iter().filter(|(_, label)| label.contains(forwarder)) {
        world.paths.get_mut(id).unwrap().altering = Some(every);
    }
}

#[test]
fn a_forwarder_that_alters_is_named_and_avoided_and_its_source_goes_on_over_another_path() {
    for every in [1, 50] {
        let mut world = network(24_000_000, 61, &[&["fn-1", "fn-2"], &["fn-2"]]);
        alter_through(&mut world, "fn-1", every);
        world.offer();
        let report = world.run(Duration::from_secs(60));
        world.assert_complete();
        assert_eq!(distrusted(&world), [], "one of {every}");
        assert_eq!(named_forwarders(&world), ["fn-1"], "one of {every}");
        assert_eq!(report.paths[0].state, PathState::Closed);
        assert!(report.paths[1].bytes > 4_000_000, "the source goes on: {}", report.paths[1].bytes);
        // Offers over the same path, or over another one through that node, stay closed.
        let before = world.transfer.report(world.now).paths[0].bytes;
        assert!(before < 2_000_000, "{before}");
    }
}

#[test]
fn a_path_that_altered_bytes_is_not_opened_again_by_the_next_offer() {
    let mut world = network(24_000_000, 62, &[&["fn-1", "fn-2"], &["fn-3"]]);
    alter_through(&mut world, "fn-1", 1);
    world.offer();
    world.run_until(Time::from_millis(1500));
    assert_eq!(world.transfer.report(world.now).paths[0].state, PathState::Closed);
    world.offer();
    let report = world.transfer.report(world.now);
    assert_eq!(report.paths[0].state, PathState::Closed, "{report:#?}");
    assert!(report.paths[0].reason.contains("failed verification"), "{}", report.paths[0].reason);
}

#[test]
fn a_forwarder_before_two_sources_costs_neither_of_them_its_name() {
    let mut world = network(24_000_000, 63, &[&["gw-1", "gw-2"], &["gw-1", "gw-2"], &["gw-2"]]);
    alter_through(&mut world, "gw-1", 3);
    world.offer();
    world.run(Duration::from_secs(60));
    world.assert_complete();
    assert_eq!(distrusted(&world), []);
    assert_eq!(named_forwarders(&world), ["gw-1"]);
}

#[test]
fn a_source_that_lies_over_two_ways_is_named_and_no_forwarder_is() {
    for every in [1, 40] {
        let mut world = network(24_000_000, 64, &[&["fn-1", "fn-2"], &["fn-3"]]);
        world.sources[0] = Conduct::Corrupts(every);
        world.offer();
        world.run(Duration::from_secs(60));
        world.assert_complete();
        assert_eq!(distrusted(&world), [SourceId(1)], "one of {every}");
        assert_eq!(named_forwarders(&world), [""; 0], "one of {every}");
    }
}

#[test]
fn a_source_behind_a_forwarder_that_serves_others_well_is_named() {
    let mut world = network(24_000_000, 65, &[&["gw"], &["gw"], &["gw"]]);
    world.sources[1] = Conduct::Corrupts(2);
    world.offer();
    world.run(Duration::from_secs(60));
    world.assert_complete();
    assert_eq!(distrusted(&world), [SourceId(2)]);
}

#[test]
fn with_one_way_to_one_source_nobody_can_be_singled_out_and_both_are_told() {
    let mut world = network(8_000_000, 66, &[&["fn-1"]]);
    alter_through(&mut world, "fn-1", 2);
    world.offer();
    world.run(Duration::from_secs(60));
    assert_eq!(distrusted(&world), []);
    let Some((_, TransferEvent::Failed { reason })) = world.events.last() else { panic!("{:?}", world.events.last()) };
    assert!(reason.contains("'fn-1' or 'source-1'"), "{reason}");
}

#[test]
fn ways_that_the_network_has_withdrawn_are_no_reason_to_wait() {
    let mut world = network(24_000_000, 68, &[&["fn-1"]]);
    world.path(0, link(10, 20, 0.0));
    world.offers()[0].paths[1].label = "receiver>fn-2>source-1".into();
    alter_through(&mut world, "fn-1", 2);
    world.offer();
    world.run_until(Time::from_millis(1500));
    assert_eq!(world.transfer.report(world.now).paths[0].state, PathState::Closed);
    assert!(!world.transfer.is_ended(), "the other way is open");
    world.offers()[0].paths.truncate(1);
    world.offer();
    world.run(Duration::from_secs(1));
    let Some((_, TransferEvent::Failed { reason })) = world.events.last() else { panic!("{:?}", world.events.last()) };
    assert!(reason.contains("no path to it can be trusted"), "{reason}");
}

#[test]
fn what_a_cache_gave_wrongly_is_asked_for_past_it_so_that_it_heals() {
    let mut world = three_sources(8_000_000, 14);
    world.paths.get_mut(&PathId(1)).unwrap().lying_cache = true;
    world.offer();
    world.run(Duration::from_secs(30));
    world.assert_complete();
    let packets = |caches| {
        let requested =
            world.requests.iter().filter(move |request| request.path == PathId(1) && request.caches == caches);
        requested.flat_map(|request| request.ranges.iter().flat_map(|&(first, count)| first..first + u32::from(count)))
    };
    let lies: std::collections::BTreeSet<u32> = packets(CacheUse::Allowed).collect();
    let healed = packets(CacheUse::Bypassed).filter(|packet| lies.contains(packet)).count();
    println!("{healed} of {}", lies.len());
    assert!(healed * 2 > lies.len(), "{healed} of {} packets of the cache", lies.len());
}

/// One chunk of 1 MiB, two sources with a path of 1 Mbit/s each, and both have delivered a part of it that will fail.
fn chunk_that_will_fail(seed: u64) -> World {
    let mut world = World::new(1, TransferConfig::default(), seed);
    let bytes = random_bytes(1 << 20, seed);
    world.object = MemoryObject::with_options(name(), bytes, &key(), 1, ObjectKind::File, 1 << 20).unwrap();
    for _ in 0..2 {
        let source = world.source(Conduct::Honest);
        world.path(source, link(1, 20, 0.0));
    }
    world.paths.get_mut(&PathId(1)).unwrap().altering = Some(3);
    world.offer();
    world.run_until(Time::from_millis(4_000));
    assert!(world.transfer.report(world.now).paths.iter().all(|path| path.bytes > 400_000));
    world
}

#[test]
fn a_chunk_that_failed_comes_although_no_path_lasts_as_long_as_it_takes() {
    let mut world = chunk_that_will_fail(73);
    world.paths.get_mut(&PathId(1)).unwrap().altering = None;
    let both = world.offers().clone();
    // It takes 8.4 s over one of them.
    for turn in 0..20 {
        *world.offers() = both.clone();
        world.offers()[turn % 2].paths.clear();
        world.offer();
        world.run_until(world.now + Duration::from_secs(2));
    }
    world.assert_complete();
    assert!(world.now < Time::from_millis(16_000), "{}", world.now);
}

#[test]
fn a_liar_that_is_silent_in_between_spoils_a_chunk_that_failed_once_more_and_not_for_ever() {
    let mut world = chunk_that_will_fail(74);
    while world.now < Time::from_millis(120_000) && !world.transfer.is_ended() {
        let now = world.now;
        let silence = Some((now + Duration::from_secs(1), now + Duration::from_secs(4)));
        world.paths.get_mut(&PathId(1)).unwrap().silent = silence;
        world.run_until(now + Duration::from_secs(4));
    }
    world.assert_complete();
    assert_eq!(world.transfer.report(world.now).sources[1].distrusted, None);
}

#[test]
fn a_new_version_during_a_transfer_closes_the_source_and_calls_nobody_a_liar() {
    let mut world = three_sources(16_000_000, 67);
    world.offer();
    world.run_until(Time::from_millis(800));
    let newer = versioned(name(), random_bytes(16_000_000, 98), world.object.manifest().version + 1, &key());
    world.offers()[0].manifest = newer.unwrap().manifest().encode();
    world.offer();
    let report = world.run(Duration::from_secs(30));
    world.assert_complete();
    assert_eq!(distrusted(&world), []);
    assert_eq!(report.sources[0].distrusted, None);
    let closed = report.sources[0].closed.as_deref().unwrap();
    assert!(closed.contains("version"), "{closed}");
    assert_eq!(report.paths[0].state, PathState::Closed);
}

#[test]
fn a_source_that_says_that_it_cannot_give_what_it_was_asked_for_is_asked_no_more() {
    let mut world = three_sources(16_000_000, 71);
    world.offer();
    world.run_until(Time::from_millis(800));
    let why = tributary_content::Unavailable::Changed;
    let closed = |world: &World| {
        let report = world.transfer.report(world.now);
        report.sources.into_iter().filter_map(|source| source.closed).collect::<Vec<_>>()
    };
    // Answers to packets that were never requested.
    for (path, number, packet) in [(1, 60_000, 0), (1, 0, 1 << 30), (9, 0, 0)] {
        world.transfer.handle_unavailable(world.now, PathId(path), number, packet, why);
    }
    assert!(closed(&world).is_empty());
    for (path, is_last) in [(1, false), (2, false), (3, true)] {
        let requested = world.requests.iter().rev().find(|request| request.path == PathId(path)).unwrap();
        let (number, packet) = (requested.number, requested.ranges[0].0);
        world.transfer.handle_unavailable(world.now, PathId(path), number, packet, why);
        // The network offers it again, wrongly: its source knows better.
        world.offer();
        world.run_until(world.now + Duration::from_millis(300));
        assert_eq!((closed(&world).len(), world.transfer.is_ended()), (usize::from(path), is_last));
    }
    let Some((_, TransferEvent::Failed { reason })) = world.events.last() else { panic!("{:?}", world.events.last()) };
    assert!(reason.contains("changed at the source") && !reason.contains("trusted"), "{reason}");
}

#[test]
fn when_all_sources_have_moved_on_the_fetch_ends_and_says_so() {
    let mut world = three_sources(16_000_000, 68);
    world.offer();
    world.run_until(Time::from_millis(800));
    let version = world.object.manifest().version + 1;
    let newer = versioned(name(), random_bytes(16_000_000, 98), version, &key()).unwrap();
    for offer in world.offers() {
        offer.manifest = newer.manifest().encode();
    }
    world.offer();
    world.run_until(Time::from_millis(900));
    let Some((_, TransferEvent::Failed { reason })) = world.events.last() else { panic!("{:?}", world.events.last()) };
    assert!(reason.contains(&format!("version {version}")) && reason.contains("are verified and kept"), "{reason}");
    assert!(!reason.contains("trusted"), "{reason}");
}

#[test]
fn of_two_publishers_that_nothing_is_known_of_none_is_believed() {
    for squatter in [0, 1] {
        let mut world = World::new(1_000_000, TransferConfig::default(), 69);
        for _ in 0..2 {
            let source = world.source(Conduct::Honest);
            world.path(source, link(10, 20, 0.0));
        }
        // A high version number makes no better claim.
        let other = SigningKey::from_secret(&[9; 32]);
        let object = versioned(name(), random_bytes(1_000_000, 99), u64::MAX, &other).unwrap();
        world.offers()[squatter].manifest = object.manifest().encode();
        world.offer();
        world.run_until(Time::from_millis(100));
        let Some((_, TransferEvent::Failed { reason })) = world.events.last() else { panic!("{:?}", world.events) };
        assert!(reason.contains("--publisher") && reason.contains(&key().public().to_string()), "{reason}");
        assert_eq!(world.sent_packets, 0);
    }
}

#[test]
fn a_squatter_that_answers_first_does_not_matter_when_the_key_is_known() {
    let mut world = three_sources(1_000_000, 70);
    let other = SigningKey::from_secret(&[9; 32]);
    let object = versioned(name(), random_bytes(1_000_000, 99), u64::MAX, &other).unwrap();
    world.offers()[0].manifest = object.manifest().encode();
    let later = world.offers().split_off(1);
    let opener = MemoryOpener::pinned(key().public());
    world.content = opener.content();
    let patience = Some(Duration::from_secs(60));
    world.transfer = Transfer::new(Time::ZERO, name(), TransferConfig::default(), Box::new(opener), None, patience);
    assert!(world.transfer.knows_publisher());
    world.offers().extend(later);
    world.offer();
    world.run(Duration::from_secs(30));
    world.assert_complete();
    assert_eq!(advice(&world), "");
}

#[test]
fn the_first_key_that_is_believed_is_told() {
    let mut world = three_sources(1_000_000, 71);
    world.offer();
    world.run(Duration::from_secs(30));
    assert!(advice(&world).contains("because no source has another one"), "{}", advice(&world));
}

/// Two honest sources do not outvote a forged one, nor two forged ones an honest one: the fetch cannot distinguish
/// them.
#[test]
fn no_majority_of_unproven_publishers_is_believed() {
    let mut world = three_sources(1_000_000, 71);
    let other = SigningKey::from_secret(&[9; 32]);
    let object = versioned(name(), random_bytes(1_000_000, 99), u64::MAX, &other).unwrap();
    world.offers()[0].manifest = object.manifest().encode();
    world.offer();
    world.run_until(Time::from_millis(100));
    let Some((_, TransferEvent::Failed { reason })) = world.events.last() else { panic!("{:?}", world.events) };
    assert!(reason.contains("2 sources") && reason.contains("--publisher"), "{reason}");
    assert_eq!(world.sent_packets, 0);
}

#[test]
fn more_sources_than_the_limit_are_left_out_and_told() {
    let mut world = World::new(100_000, TransferConfig::default(), 72);
    let source = world.source(Conduct::Honest);
    world.path(source, link(10, 20, 0.0));
    let template = world.offers()[0].clone();
    for number in 0..70_000 {
        let mut offer = template.clone();
        offer.node = NodeId(1000 + number);
        offer.paths.clear();
        world.offers().push(offer);
    }
    world.offer();
    world.run(Duration::from_secs(30));
    world.assert_complete();
    assert_eq!(world.transfer.report(world.now).sources.len(), 1024);
    assert!(advice(&world).contains("more sources"));
}

//! Policies of faces: the effects of backups, costs, rates, closed faces and priorities on the paths of a fetch.
use super::{shared::Contest, *};
use tributary_transport::policy::{FacePolicy, PathDemands};

const ONE: FaceId = FaceId(1);
const TWO: FaceId = FaceId(2);

/// One source over two faces.
fn two_uplinks(bytes: usize) -> (World, PathId, PathId) {
    let mut world = World::new(bytes, TransferConfig::default(), 3);
    let source = world.source(Conduct::Honest);
    let one = world.path_by(source, link(20, 30, 0.0), ONE);
    let two = world.path_by(source, link(20, 30, 0.0), TWO);
    (world, one, two)
}
fn bytes(world: &World, path: PathId) -> u64 {
    world.transfer.report(world.now).paths.iter().find(|of| of.path == path).map_or(0, |of| of.bytes)
}
fn reason(world: &World, path: PathId) -> String {
    world.transfer.report(world.now).paths.iter().find(|of| of.path == path).unwrap().reason.clone()
}
fn closed(why: &str) -> FacePolicy {
    FacePolicy { closed: Some(why.into()), ..FacePolicy::default() }
}
fn backup() -> FacePolicy {
    FacePolicy { is_backup: true, ..FacePolicy::default() }
}
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_backup_carries_nothing_while_another_path_answers() {
    let (mut world, one, two) = two_uplinks(5_000_000);
    world.shared.faces.set(Time::ZERO, TWO, backup());
    world.offer();
    world.run_until(Time::from_millis(1_000));
    assert_eq!(reason(&world, two), "backup: other paths answer");
    world.run(LIMIT);
    world.assert_complete();
    assert_eq!((bytes(&world, one), bytes(&world, two)), (5_000_000 + world.object.tree().len() as u64, 0));
}

#[test]
fn a_backup_takes_over_while_the_others_are_silent_and_stops_when_they_answer_again() {
    let (mut world, one, two) = two_uplinks(30_000_000);
    world.shared.faces.set(Time::ZERO, TWO, backup());
    world.paths.get_mut(&one).unwrap().silent = Some((Time::from_millis(1_000), Time::from_millis(4_000)));
    world.offer();
    world.run_until(Time::from_millis(3_900));
    let during = bytes(&world, two);
    assert!(during > 4_000_000, "{during} bytes in nearly 3 s at 20 Mbit/s");
    world.run_until(Time::from_millis(7_000));
    let after = bytes(&world, two);
    world.run(LIMIT);
    world.assert_complete();
    assert!(bytes(&world, two) - after < 200_000, "{} bytes later", bytes(&world, two) - after);
}

#[test]
fn a_face_that_closes_hands_over_to_the_others_and_comes_back_when_it_opens() {
    let (mut world, one, two) = two_uplinks(20_000_000);
    world.offer();
    world.run_until(Time::from_millis(1_500));
    assert!(bytes(&world, one) > 500_000 && bytes(&world, two) > 500_000, "both carry it");
    world.shared.faces.set(world.now, ONE, closed("its quota is used up"));
    world.run_until(Time::from_millis(3_000));
    let at_closing = bytes(&world, one);
    assert_eq!(reason(&world, one), "its quota is used up");
    world.run_until(Time::from_millis(4_000));
    assert_eq!(bytes(&world, one), at_closing, "nothing is requested over it");
    world.shared.faces.set(world.now, ONE, FacePolicy::default());
    world.run(LIMIT);
    world.assert_complete();
    assert!(bytes(&world, one) > at_closing + 1_000_000, "it is used again");
}

#[test]
fn a_fetch_that_may_use_no_path_fails_and_says_why() {
    let (mut world, ..) = two_uplinks(1_000_000);
    world.shared.faces.set(Time::ZERO, ONE, closed("the quota of fibre is used up"));
    world.transfer.set_demands(Time::ZERO, PathDemands { avoid: vec![TWO], ..PathDemands::default() });
    world.offer();
    let report = world.run(Duration::from_secs(100));
    let failure = report.failure.unwrap();
    assert!(failure.contains("the quota of fibre is used up") && failure.contains("avoids face-2"), "{failure}");
}

#[test]
fn only_and_avoid_leave_faces_out() {
    for demands in [
        PathDemands { only: vec![ONE], ..PathDemands::default() },
        PathDemands { avoid: vec![TWO], ..PathDemands::default() },
    ] {
        let (mut world, one, two) = two_uplinks(2_000_000);
        world.transfer.set_demands(Time::ZERO, demands);
        world.offer();
        world.run(LIMIT);
        world.assert_complete();
        assert!(bytes(&world, one) > 2_000_000 && bytes(&world, two) == 0);
    }
}

#[test]
fn a_dear_path_carries_only_what_the_cheap_one_has_no_room_for() {
    for (limit, dear) in [(Some(Rate::from_mbps(10)), 0..=200_000), (None, 4_000_000..=6_000_000)] {
        let (mut world, _, two) = two_uplinks(10_000_000);
        world.shared.faces.set(Time::ZERO, TWO, FacePolicy { cost: 5, ..FacePolicy::default() });
        world.transfer.set_limit(Time::ZERO, limit);
        world.offer();
        world.run(LIMIT);
        world.assert_complete();
        assert!(dear.contains(&bytes(&world, two)), "{limit:?}: {}", bytes(&world, two));
    }
}

/// The expensive path could deliver the whole remainder before the cheap one has answered for the first time.
#[test]
fn a_cheap_path_that_is_found_late_is_used_though_a_dear_one_is_quicker() {
    let mut world = World::new(3_000_000, TransferConfig::default(), 3);
    let source = world.source(Conduct::Honest);
    let dear = world.path_by(source, link(1_000, 1, 0.0), TWO);
    world.shared.faces.set(Time::ZERO, TWO, FacePolicy { cost: 5, ..FacePolicy::default() });
    world.transfer.set_limit(Time::ZERO, Some(Rate::from_mbps(8)));
    world.offer();
    world.run_until(Time::from_millis(300));
    let cheap = world.path_by(source, link(1_000, 1, 0.0), ONE);
    world.offer();
    world.run(LIMIT);
    world.assert_complete();
    assert!(bytes(&world, dear) < 500_000 && bytes(&world, cheap) > 2_500_000, "{}", bytes(&world, cheap));
}

#[test]
fn a_face_keeps_its_rate_and_the_others_their_own() {
    let (mut world, one, two) = two_uplinks(30_000_000);
    world.shared.faces.set(Time::ZERO, ONE, FacePolicy { rate: Some(Rate::from_mbps(4)), ..FacePolicy::default() });
    world.offer();
    world.run_until(Time::from_millis(2_000));
    let before = [one, two].map(|path| bytes(&world, path));
    world.run_until(Time::from_millis(8_000));
    let [slow, fast] = [one, two].map(|path| bytes(&world, path));
    let mbps = |bytes: u64| bytes as f64 * 8.0 / 6e6;
    let (slow, fast) = (mbps(slow - before[0]), mbps(fast - before[1]));
    assert!((3.6..4.1).contains(&slow) && fast > 17.0, "{slow} and {fast} Mbit/s");
}

#[test]
fn a_fetch_of_higher_priority_gets_the_face_until_it_ends() {
    let mut contest = Contest::new(20, 30, 1.5, 0.0, 10_000_000);
    contest.face = Some(ONE);
    contest.add(TransferConfig::default(), &[0]);
    contest.run_until(Time::from_millis(1_000));
    let urgent = PathDemands { priority: 1, ..PathDemands::default() };
    contest.add(TransferConfig::default(), &[0]);
    contest.shared.faces.have_priorities();
    contest.transfer(1).set_demands(Time::from_millis(1_000), urgent);
    contest.run_until(Time::from_millis(2_000));
    let before = contest.bytes();
    contest.run_until(Time::from_millis(4_000));
    let after = contest.bytes();
    let (low, high) = (after[0] - before[0], after[1] - before[1]);
    assert!(low * 20 < high, "{low} and {high} bytes in two seconds");
    contest.run_until(Time::from_millis(20_000));
    assert!(contest.transfer(0).is_ended() && contest.transfer(1).is_ended(), "{:?}", contest.bytes());
}

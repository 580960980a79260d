//! A receiver that moves over access routers (paper §3.3).
use super::*;

const SIZE: usize = 40_000_000;
const STAY: Duration = Duration::from_secs(4);

/// The network of the lab's `mftp-mobility`; returns the duration of a file's transfer with moves every four seconds
/// and the given pause in each, or without any, and the number of moves.
/// ```text
///              ┌──5 ms── a0 ──25── mobile
///   server ── core ──15── a1 ──25── mobile
///              └──30──── a2 ──25── mobile
/// ```
fn journey(seed: u64, pause: Option<Duration>) -> (Duration, u32) {
    let mut domain = Domain::new(seed);
    domain.node("server", |_| {});
    domain.router("core");
    domain.node("mobile", |_| {});
    domain.link("server", "core", 1_000, ms(5));
    for (label, delay) in [("a0", 5), ("a1", 15), ("a2", 30)] {
        domain.router(label);
        domain.link("core", label, 1_000, ms(delay));
        let mut last = LinkConfig::new(Rate::from_mbps(25), ms(1));
        last.queue_bytes = 312_500;
        domain.link_with(label, "mobile", last);
    }
    domain.cut("a1", "mobile");
    domain.cut("a2", "mobile");
    let bytes = random_bytes(SIZE, seed);
    domain.publish("server", object("/lab/film", bytes.clone()));
    // Nothing in it is random: each run starts at another moment between two hellos.
    domain.run(ms(13_000 + 61 * seed));
    let (id, content) = domain.fetch("mobile", "/lab/film");
    let mut moved = 0;
    if let Some(pause) = pause {
        loop {
            domain.run(STAY);
            if domain.report("mobile", id).ended.is_some() {
                break;
            }
            let [old, new] = [moved % 3, (moved + 1) % 3].map(|number| format!("a{number}"));
            domain.cut(&old, "mobile");
            domain.run(pause);
            domain.mend(&new, "mobile");
            moved += 1;
        }
    }
    let time = domain.finish("mobile", id, 120);
    assert_eq!(content.finished(&name("/lab/film")).unwrap(), bytes);
    domain.run(Duration::from_secs(1));
    domain.assert_conservation();
    (time, moved)
}

#[test]
fn a_move_without_a_pause_costs_less_than_a_new_connection_would() {
    for seed in 1..4 {
        let (still, _) = journey(seed, None);
        let (moving, moves) = journey(seed, Some(Duration::ZERO));
        let lost = moving.saturating_sub(still).as_secs_f64() / f64::from(moves);
        println!("seed {seed}: {still:?} without and {moving:?} with {moves} moves: {lost:.3} s lost by each");
        // A download manager that requests the rest at once over a new BBR connection loses a third of a second.
        assert!(moves >= 3 && lost < 0.28, "{lost} s");
    }
}

#[test]
fn what_waits_for_a_receiver_comes_as_soon_as_it_is_back() {
    for (seed, pause) in [(1, 1), (2, 1), (3, 5)] {
        let (still, _) = journey(seed, None);
        let (moving, moves) = journey(seed, Some(Duration::from_secs(pause)));
        let away = Duration::from_secs(pause) * moves;
        let lost = moving.saturating_sub(still + away).as_secs_f64() / f64::from(moves);
        println!(
            "seed {seed}: {still:?} without and {moving:?} with {moves} pauses of {pause} s: {lost:.3} s lost by each"
        );
        assert!(moves >= 3 && lost < 0.28, "{lost} s");
    }
}

#[test]
fn another_router_sends_only_the_rest_of_the_chunk_that_was_under_way() {
    let pause = Duration::from_secs(1);
    let fetch = |gone_after: Option<u64>| {
        let mut domain = Domain::new(1);
        domain.node("server", |_| {});
        domain.router("core");
        domain.node("mobile", |_| {});
        domain.link("server", "core", 1_000, ms(5));
        for (label, delay) in [("a0", 5), ("a1", 15)] {
            domain.router(label);
            domain.link("core", label, 1_000, ms(delay));
            domain.link(label, "mobile", 25, ms(1));
        }
        domain.cut("a1", "mobile");
        domain.publish("server", object("/lab/film", random_bytes(8_000_000, 1)));
        domain.run(ms(13_061));
        let (id, _content) = domain.fetch("mobile", "/lab/film");
        if let Some(after) = gone_after {
            domain.run(ms(after));
            domain.cut("a0", "mobile");
            domain.run(pause);
            domain.mend("a1", "mobile");
        }
        domain.finish("mobile", id, 60)
    };
    let still = fetch(None);
    // A chunk takes 0.34 s on the last hop: the receiver leaves during it, or just after one has arrived.
    for after in (1_400..1_450).step_by(2).chain((1_450..1_800).step_by(50)) {
        let lost = fetch(Some(after)).saturating_sub(still + pause);
        println!("gone after {after} ms: {lost:?} lost");
        assert!(lost < ms(200), "gone after {after} ms: {lost:?} lost");
    }
}

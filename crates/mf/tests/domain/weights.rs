//! Weights of accesses: how a host's chunks are distributed over them, and which of several sources is requested.
use super::*;

const SIZE: usize = 20_000_000;

/// A reader behind two routers at the same distance, over accesses with these rates in Mbit/s; a source of `source`
/// Mbit/s.
/// ```text
///                         ┌── r2 ──accesses[0]── reader
///   server ──source── r1 ─┤
///                         └── r3 ──accesses[1]── reader
/// ```
fn two_accesses(source: u64, accesses: [u64; 2], weights: Option<[u8; 2]>, rates: Option<[u64; 2]>) -> (f64, Duration) {
    let mut domain = Domain::new(6);
    for label in ["r1", "r2", "r3"] {
        domain.node(label, |config| {
            (config.router, config.resolver) = (true, true);
            config.buffer_packets = 2_200;
        });
    }
    domain.node("server", |_| {});
    domain.node("reader", |config| {
        config.weights = (1..).map(FaceId).zip(weights.into_iter().flatten()).collect();
    });
    domain.link("server", "r1", source, ms(1));
    domain.link("r1", "r2", 200, ms(5));
    domain.link("r1", "r3", 200, ms(5));
    for (router, (mbps, face)) in ["r2", "r3"].into_iter().zip(accesses.into_iter().zip(1..)) {
        domain.link(router, "reader", mbps, ms(2));
        let rate = rates.map(|rates| Rate::from_mbps(rates[face as usize - 1]));
        domain.with("reader", |node, now| node.add_face(now, FaceId(face), FaceOptions { mtu: 1472, rate }));
    }
    let bytes = random_bytes(SIZE, 1);
    domain.publish("server", object("/lab/file", bytes.clone()));
    domain.run(Duration::from_secs(3));
    let (id, content) = domain.fetch("reader", "/lab/file");
    let time = domain.finish("reader", id, 120);
    assert_eq!(content.finished(&name("/lab/file")).unwrap(), bytes);
    let came = ["r2", "r3"].map(|router| {
        let ends = (domain.nodes[router], domain.nodes["reader"]);
        let links = domain.net.links().filter(|(_, from, to, _)| (*from, *to) == ends);
        links.map(|(.., link)| link.stats().out_bytes).sum::<u64>() as f64
    });
    domain.run(Duration::from_secs(1));
    domain.assert_conservation();
    let share = came[0] / (came[0] + came[1]);
    println!("{source} -> {accesses:?}, weights {weights:?}, rates {rates:?}: {share:.3} by the first, in {time:?}");
    (share, time)
}

#[test]
fn what_both_accesses_can_carry_is_split_by_their_weights() {
    for (weights, expected) in [([192, 64], 0.75), ([64, 192], 0.25), ([255, 51], 5.0 / 6.0)] {
        let (share, _) = two_accesses(20, [50, 50], Some(weights), None);
        assert!((share - expected).abs() < 0.05, "{weights:?}: {share}");
    }
}

#[test]
fn the_rates_of_accesses_are_their_weights_unless_the_operator_says_others() {
    let (share, _) = two_accesses(20, [50, 50], None, Some([30, 10]));
    assert!((share - 0.75).abs() < 0.05, "{share}");
    let (share, _) = two_accesses(20, [50, 50], Some([64, 192]), Some([30, 10]));
    assert!((share - 0.25).abs() < 0.05, "{share}");
}

#[test]
fn an_access_that_does_not_carry_what_its_weight_promises_leaves_none_idle() {
    let (_, by_load) = two_accesses(200, [5, 20], None, None);
    let (_, by_weight) = two_accesses(200, [5, 20], Some([200, 50]), None);
    let (_, by_rate) = two_accesses(200, [5, 20], None, Some([5, 20]));
    // Four fifths over the slower one would take 26 s. The promised weights count until the paces are measured.
    assert!(by_weight < by_load.mul_f64(2.2), "{by_weight:?}, without weights {by_load:?}");
    assert!(by_rate < by_load, "{by_rate:?}, without weights {by_load:?}");
}

#[test]
fn of_several_sources_that_of_the_better_access_is_asked_though_it_is_further() {
    for (weight, expected) in [(255, "near"), (150, "near"), (20, "far")] {
        let mut domain = Domain::drawn(5, &["r1* --100,5-- r2*", "r1* --100,20-- r3*"]);
        domain.node("reader", |_| {});
        domain.link("reader", "r1", 20, ms(1));
        for (label, router, weight) in [("near", "r2", weight), ("far", "r3", 255)] {
            domain.node(label, |config| config.weights = BTreeMap::from([(FaceId(1), weight)]));
            domain.link(label, router, 20, ms(1));
            domain.publish(label, object("/lab/file", random_bytes(50_000, 1)));
        }
        domain.run(Duration::from_secs(3));
        let (id, _) = domain.fetch("reader", "/lab/file");
        domain.finish("reader", id, 10);
        let sent: Vec<&str> =
            ["near", "far"].into_iter().filter(|label| domain.at(label).sender().chunks.0 > 0).collect();
        assert_eq!(sent, [expected], "weight {weight} of the nearer one");
    }
}

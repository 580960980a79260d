//! A host with several unequal uplinks: together they carry its chunks.
use super::*;

/// The payload's share of a packet of 1,500 bytes, at most.
const PAYLOAD: f64 = 1_462.0 / 1_500.0;

struct Uplink {
    mbps: u64,
    delay: Duration,
    queue: u64,
    loss: f64,
}

fn uplink(mbps: u64, delay_ms: u64, queue_kib: u64, loss_percent: f64) -> Uplink {
    Uplink { mbps, delay: ms(delay_ms), queue: queue_kib << 10, loss: loss_percent / 100.0 }
}

/// A server behind a core router, and a reader with these uplinks, each with a separate access router, which may know
/// the rates of its accesses. Fetches the bytes that all uplinks carry in `seconds`, and returns the ratio of `seconds`
/// to the actual time.
/// ```text
///                    ┌── u0 ──uplinks[0]── r
///   s ──────── core ─┤
///                    └── u1 ──uplinks[1]── r
/// ```
fn share(uplinks: &[Uplink], knows_rates: bool, seconds: f64) -> f64 {
    let mut domain = Domain::new(9);
    let all: u64 = uplinks.iter().map(|uplink| uplink.mbps).sum();
    domain.node("s", |_| {});
    domain.router("core");
    domain.node("r", |_| {});
    let with = |mbps, delay, queue| {
        let mut link = LinkConfig::new(Rate::from_mbps(mbps), delay);
        link.queue_bytes = queue;
        link
    };
    domain.link_with("s", "core", with(all * 2, ms(1), 8 << 20));
    for (index, uplink) in uplinks.iter().enumerate() {
        let router = format!("u{index}");
        domain.node(&router, |config| config.router = true);
        domain.link_with("core", &router, with(uplink.mbps * 4, ms(1), 4 << 20));
        let mut link = with(uplink.mbps, uplink.delay, uplink.queue);
        if uplink.loss > 0.0 {
            link.loss = tributary_core::link::Loss::Bernoulli(uplink.loss);
        }
        domain.link_with(&router, "r", link);
        let rate = knows_rates.then(|| Rate::from_mbps(uplink.mbps));
        let face = FaceId(index as u32 + 1);
        domain.with("r", |node, now| node.add_face(now, face, FaceOptions { mtu: 1472, rate }));
    }
    let carried: f64 = uplinks.iter().map(|uplink| uplink.mbps as f64 * (1.0 - uplink.loss)).sum();
    let bytes = random_bytes((carried * 1e6 / 8.0 * PAYLOAD * seconds) as usize, 1);
    domain.publish("s", object("/lab/file", bytes.clone()));
    domain.run(Duration::from_secs(1));
    let (id, content) = domain.fetch("r", "/lab/file");
    let time = domain.finish("r", id, 120);
    assert_eq!(content.finished(&name("/lab/file")).unwrap().len(), bytes.len());
    let ends = |index| (domain.nodes[&format!("u{index}")], domain.nodes["r"]);
    let used = |index| {
        let links = domain.net.links().filter(|(_, from, to, _)| (*from, *to) == ends(index));
        links.map(|(.., link)| link.stats().out_bytes).sum::<u64>() as f64 * 8e-6 / time.as_secs_f64()
    };
    let used: Vec<f64> = (0..uplinks.len()).map(used).collect();
    let share = seconds / time.as_secs_f64();
    let rates: Vec<u64> = uplinks.iter().map(|uplink| uplink.mbps).collect();
    println!("{rates:?}, rates known: {knows_rates}: {share:.3}, Mbit/s by each {used:.1?}");
    domain.run(Duration::from_secs(1));
    domain.assert_conservation();
    share
}

#[test]
fn an_ethernet_and_three_radios_carry_a_file_together() {
    let uplinks = [uplink(85, 3, 512, 0.0), uplink(9, 23, 256, 0.2), uplink(6, 11, 256, 0.2), uplink(6, 19, 256, 0.2)];
    let share = share(&uplinks, true, 15.0);
    assert!(share >= 0.97, "{share:.3}");
}

#[test]
fn a_slow_line_does_not_hold_up_a_fast_one() {
    let uplinks = [uplink(10, 12, 64, 0.0), uplink(125, 7, 256, 0.0)];
    let known = share(&uplinks, true, 10.0);
    assert!(known >= 0.97, "{known:.3}");
    // Both then have the same weight, and their rates are measured.
    let unknown = share(&uplinks, false, 10.0);
    assert!(unknown >= 0.85, "{unknown:.3}");
}

#[test]
fn a_lossy_radio_and_a_slow_one_carry_a_file_together() {
    let share = share(&[uplink(50, 3, 256, 3.0), uplink(10, 30, 256, 0.0)], true, 15.0);
    assert!(share >= 0.95, "{share:.3}");
}

#[test]
#[ignore = "minutes: run it where these rates are looked at"]
fn uplinks_of_more_than_a_gigabit_carry_a_file_together() {
    for uplinks in [
        vec![uplink(800, 6, 2_048, 0.0), uplink(100, 20, 1_024, 0.1)],
        vec![uplink(80, 12, 256, 0.0), uplink(1_000, 7, 2_048, 0.0)],
        vec![
            uplink(1_100, 4, 2_048, 0.0),
            uplink(200, 22, 2_048, 0.5),
            uplink(40, 30, 1_024, 0.2),
            uplink(25, 35, 1_024, 0.5),
        ],
    ] {
        let share = share(&uplinks, true, 15.0);
        assert!(share >= 0.97, "{share:.3}");
    }
}

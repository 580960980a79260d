//! Large objects over a last hop that loses packets (paper §5.1), in virtual time, against capacity × (1 − loss).
use super::*;

const SIZE: usize = 40 << 20;
/// The share of a datagram with its IP and UDP headers that is payload of an object.
const PAYLOAD_SHARE: f64 = 1_462.0 / 1_500.0;

fn goodput_mbps(rtt: u64, loss: f64) -> f64 {
    let mut domain = figure_7(3, ms(rtt), loss, |_| {});
    let bytes = random_bytes(SIZE, 1);
    domain.publish("n1", object("/lab/film", bytes.clone()));
    domain.run(Duration::from_secs(2));
    let (id, content) = domain.fetch("n4", "/lab/film");
    let time = domain.finish("n4", id, 120);
    assert_eq!(content.finished(&name("/lab/film")).unwrap(), bytes);
    domain.run(Duration::from_secs(1));
    domain.assert_conservation();
    SIZE as f64 * 8.0 / 1e6 / time.as_secs_f64()
}

#[test]
fn one_percent_of_loss_costs_at_most_three_percent() {
    let bound = 25.0 * PAYLOAD_SHARE;
    for rtt in [10, 50, 100] {
        let (clean, lossy) = (goodput_mbps(rtt, 0.0), goodput_mbps(rtt, 0.01));
        println!("rtt {rtt} ms: {clean:.2} and {lossy:.2} Mbit/s ({:.4}), bound {bound:.2}", lossy / clean);
        assert!(lossy >= 0.97 * clean, "rtt {rtt}: {lossy} of {clean}");
        assert!(clean >= 0.9 * bound, "rtt {rtt}: {clean} of {bound}");
    }
}

#[test]
fn cut_through_brings_the_first_chunk_earlier() {
    use tributary_mf::link::Forwarding;
    let time = |set: fn(&mut Config)| {
        let mut domain = figure_7(3, ms(20), 0.0, set);
        domain.publish("n1", object("/lab/page", random_bytes(900_000, 1)));
        domain.run(Duration::from_secs(2));
        let (id, _) = domain.fetch("n4", "/lab/page");
        let time = domain.finish("n4", id, 20);
        (time, domain.at("n3").router().stats.cut_through)
    };
    let (stored, none) = time(|config| config.hop.forwarding = Forwarding::StoreAndForward);
    let (cut, some) = time(|config| config.hop.forwarding = Forwarding::CutThrough);
    println!("store and forward {stored:?}, cut-through {cut:?}");
    assert!(cut < stored && none == 0 && some > 0);
}

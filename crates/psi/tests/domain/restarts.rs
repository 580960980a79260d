//! Nodes that restart: their neighbours and the topology manager know the former run.
use super::*;

/// A hub with all roles, or a forwarder with a separate rendezvous node and topology manager; a publisher and a
/// receiver.
fn star(seed: u64, apart: bool) -> (Domain, Bytes) {
    let mut domain = Domain::new(seed);
    domain.node("hub", |config| {
        config.router = true;
        (config.resolver, config.topology_manager) = (!apart, (!apart).then_some(1));
    });
    if apart {
        domain.node("rn-1", |config| config.resolver = true);
        domain.node("tm-1", |config| config.topology_manager = Some(1));
    }
    for label in ["publisher", "receiver"] {
        domain.node(label, |_| {});
    }
    for label in domain.nodes.clone().into_keys().filter(|label| label != "hub") {
        domain.link("hub", &label, 1000, 0);
    }
    let bytes = random_bytes(300_000, 5);
    domain.publish("publisher", object("/lab/file", bytes.clone()));
    domain.run(3.0);
    (domain, bytes)
}
/// Fetches the file and returns the time to completion.
fn fetch_seconds(domain: &mut Domain, bytes: &Bytes) -> f64 {
    let (id, content) = domain.fetch("receiver", "/lab/file");
    let report = domain.finish("receiver", id, 30.0);
    assert_eq!(content.finished(&name("/lab/file")).as_ref(), Some(bytes), "{report:?}");
    report.ended.unwrap().since(report.started).as_secs_f64()
}

#[test]
fn a_receiver_that_starts_anew_from_another_port_is_served_at_once() {
    for apart in [false, true] {
        let (mut domain, bytes) = star(60, apart);
        let mut random = Random::new(60, 1);
        for round in 0..30 {
            // It is killed twice, at arbitrary moments: routes and offers to former runs are in flight then.
            for _ in 0..2 {
                domain.fetch("receiver", "/lab/file");
                domain.run(random.below(600) as f64 / 1000.0);
                domain.restart_elsewhere("receiver");
                domain.link("hub", "receiver", 1000, 0);
            }
            let seconds = fetch_seconds(&mut domain, &bytes);
            assert!(seconds < 1.0, "round {round}, apart {apart}: {seconds} s");
        }
    }
}

#[test]
fn a_hub_that_starts_anew_serves_soon() {
    for away in [0.1, 0.7, 1.5, 4.0, 10.0] {
        let (mut domain, bytes) = star(61, false);
        fetch_seconds(&mut domain, &bytes);
        domain.kill("hub");
        domain.run(away);
        domain.restart("hub", |_, _| {});
        let seconds = fetch_seconds(&mut domain, &bytes);
        assert!(seconds < 1.5, "away for {away} s: {seconds} s");
    }
}

#[test]
fn a_hub_that_starts_anew_serves_soon_who_publishes_much() {
    let (mut domain, bytes) = star(62, false);
    for number in 0..40 {
        let bytes = random_bytes(1_000, 100 + number);
        domain.publish("publisher", object(&format!("/lab/other-{number}"), bytes));
    }
    domain.run(30.0);
    domain.kill("hub");
    domain.run(1.0);
    domain.restart("hub", |_, _| {});
    let seconds = fetch_seconds(&mut domain, &bytes);
    assert!(seconds < 1.5, "{seconds} s");
}

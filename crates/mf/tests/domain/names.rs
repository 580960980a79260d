//! Names that only some may look up.
use super::*;
use tributary_mf::wire::Readers;

/// Two routers that keep names on disks, an owner at the first, and two hosts at the second.
fn network() -> Domain {
    let mut domain = Domain::new(8);
    for label in ["r1", "r2"] {
        domain.node(label, |config| {
            (config.router, config.resolver, config.network_key) = (true, true, [7; 32]);
        });
        domain.keep_names(label);
    }
    domain.link("r1", "r2", 100, ms(5));
    for (label, router) in [("owner", "r1"), ("reader", "r2"), ("stranger", "r2")] {
        domain.node(label, |_| {});
        domain.link(label, router, 20, ms(1));
    }
    domain
}
fn plans() -> Bytes {
    random_bytes(200_000, 1)
}
fn is_over(domain: &Domain, label: &str, id: TransferId) -> bool {
    domain.report(label, id).ended.is_some()
}

#[test]
fn what_is_for_some_is_not_there_for_others_until_they_may() {
    let mut domain = network();
    let readers = Readers::Only([domain.at("reader").guid()].into());
    let of = name("/lab/plans");
    assert!(domain.with("owner", |node, now| node.set_readers(now, Some(&of), readers.clone())));
    domain.publish("owner", object("/lab/plans", plans()));
    domain.with("stranger", |node, now| node.watch(now, &name("/lab")));
    domain.run(Duration::from_secs(3));
    let (id, content) = domain.fetch("reader", "/lab/plans");
    domain.finish("reader", id, 10);
    assert_eq!(content.finished(&of).unwrap(), plans());
    let (hidden, content) = domain.fetch("stranger", "/lab/plans");
    domain.run(Duration::from_secs(40));
    let seen = |domain: &Domain| {
        let events = domain.events.borrow();
        let seen = |event: &Event| matches!(event, Event::Resolver(event) if format!("{event:?}").contains("plans"));
        events.iter().any(|(_, node, event)| *node == domain.nodes["stranger"] && seen(event))
    };
    assert!(!is_over(&domain, "stranger", hidden) && domain.report("stranger", hidden).sources.is_empty());
    assert!(!seen(&domain), "nor is it listed");
    // Who held the record starts anew: the rule stands in the record.
    for router in ["r1", "r2"] {
        domain.kill(router);
        domain.restart(router);
        domain.run(Duration::from_secs(3));
    }
    assert!(domain.report("stranger", hidden).sources.is_empty() && !seen(&domain));
    domain.with("owner", |node, now| node.set_readers(now, Some(&of), Readers::All));
    domain.finish("stranger", hidden, 10);
    assert_eq!(content.finished(&of).unwrap(), plans());
    assert!(seen(&domain));
    domain.with("owner", |node, now| node.set_readers(now, Some(&of), readers));
    domain.run(Duration::from_secs(1));
    let (again, _) = domain.fetch("stranger", "/lab/plans");
    domain.run(Duration::from_secs(5));
    assert!(domain.report("stranger", again).sources.is_empty());
}

#[test]
fn a_router_that_serves_as_a_host_keeps_to_the_readers_too() {
    let mut domain = network();
    let readers = Readers::Only([domain.at("reader").guid()].into());
    let of = name("/lab/plans");
    domain.with("owner", |node, now| node.set_readers(now, Some(&of), readers));
    domain.publish("owner", object("/lab/plans", plans()));
    domain.run(Duration::from_secs(3));
    let (id, _) = domain.fetch("r2", "/lab/plans");
    domain.run(Duration::from_secs(5));
    assert!(domain.report("r2", id).sources.is_empty());
}

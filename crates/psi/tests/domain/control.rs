//! Publishing, subscribing, watching, and the events about them.
use super::*;

#[test]
fn a_later_publication_reaches_an_earlier_subscription() {
    let mut domain = three_sources(30, |_| {});
    domain.run(3.0);
    let (id, content) = domain.fetch("receiver", "/lab/later");
    domain.run(4.0);
    let bytes = random_bytes(500_000, 9);
    domain.publish("pub-2", object("/lab/later", bytes.clone()));
    domain.finish("receiver", id, 10.0);
    assert_eq!(content.finished(&name("/lab/later")), Some(bytes));
}

#[test]
fn a_name_that_nobody_publishes_fails_with_a_reason_after_its_patience() {
    let mut domain = three_sources(31, |_| {});
    domain.run(3.0);
    let (id, _) = domain.fetch("receiver", "/lab/nothing");
    domain.run(25.0);
    let failed = domain.reported("receiver").into_iter().find_map(|event| match event {
        Event::Transfer(transfer, TransferEvent::Failed { reason }) if transfer == id => Some(reason),
        _ => None,
    });
    assert_eq!(failed.unwrap(), "no publisher of '/lab/nothing' answered within 20s");
}

#[test]
fn a_scope_is_listed_and_its_changes_are_told() {
    let mut domain = three_sources(32, |_| {});
    domain.publish("pub-1", object("/lab/a", random_bytes(1000, 1)));
    domain.publish("pub-2", object("/lab/deep/b", random_bytes(2000, 2)));
    domain.run(3.0);
    assert!(domain.resolver_events("pub-1").contains(&ResolverEvent::Published { name: "/lab/a".into() }));
    domain.with("receiver", |node, now| node.watch(now, &name("/lab")));
    domain.run(2.0);
    let reported = domain.resolver_events("receiver");
    let item = ResolverEvent::Appeared { name: "/lab/a".into(), is_scope: false, publishers: 1, bytes: 1000 };
    let scope = ResolverEvent::Appeared { name: "/lab/deep".into(), is_scope: true, publishers: 0, bytes: 0 };
    assert!(reported.contains(&item) && reported.contains(&scope), "{reported:?}");
    assert!(reported.contains(&ResolverEvent::Listed { name: "/lab".into(), entries: 2 }), "{reported:?}");
    domain.publish("pub-3", object("/lab/c", random_bytes(10, 3)));
    domain.with("pub-1", |node, now| node.unpublish(now, &name("/lab/a")));
    domain.run(2.0);
    let reported = domain.resolver_events("receiver");
    assert!(reported.iter().any(|event| matches!(event, ResolverEvent::Appeared { name, .. } if name == "/lab/c")));
    assert!(reported.contains(&ResolverEvent::Disappeared { name: "/lab/a".into() }), "{reported:?}");
}

#[test]
fn rejections_reach_the_application() {
    let mut domain = three_sources(33, |_| {});
    domain.run(3.0);
    domain.with("pub-1", |node, now| node.unpublish(now, &name("/lab/never-published")));
    domain.run(2.0);
    let reported = domain.resolver_events("pub-1");
    assert!(
        reported.iter().any(|event| matches!(event, ResolverEvent::Rejected { operation: "unpublish", .. })),
        "{reported:?}"
    );
}

#[test]
fn a_host_that_was_away_for_long_is_served_again_at_once() {
    let mut domain = Domain::new(35);
    domain.node("hub", |config| {
        (config.router, config.resolver, config.topology_manager) = (true, true, Some(1));
    });
    domain.node("receiver", |_| {});
    domain.link("hub", "receiver", 100, 1);
    let bytes = random_bytes(300_000, 5);
    domain.publish("hub", object("/lab/file", bytes.clone()));
    domain.run(2.0);
    for away in [1.0, 12.0, 40.0, 100.0] {
        domain.kill("receiver");
        domain.run(away);
        domain.restart("receiver", |_, _| {});
        let (id, content) = domain.fetch("receiver", "/lab/file");
        let report = domain.finish("receiver", id, 3.0);
        assert_eq!(content.finished(&name("/lab/file")), Some(bytes.clone()), "away for {away} s: {report:?}");
    }
}

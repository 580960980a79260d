//! Names that only some may look up.
use super::*;
use tributary_mf::{config::GroupConfig, ids::Guid, wire::Readers};
use tributary_transport::{
    Messaging,
    messaging::{Destination, SendOptions, SendReport},
};

/// Two routers that keep names on disks, an owner at the first, and two hosts at the second.
fn network() -> Domain {
    let mut domain = Domain::new(8);
    for label in ["r1", "r2"] {
        domain.node(label, |config| {
            (config.router, config.resolver) = (true, true);
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
    // The replica restarts: the rule is part of the record.
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
fn a_group_that_is_a_reader_admits_its_members_as_long_as_they_are_in_it() {
    let mut domain = network();
    domain.node("boss", |_| {});
    domain.link("boss", "r1", 20, ms(1));
    let [reader, outsider] = ["reader", "stranger"].map(|label| domain.at(label).guid());
    let friends = domain.at("boss").group("friends");
    let readers = Readers::Only([friends].into());
    let change = |domain: &mut Domain, members: &[Guid]| {
        let group = (!members.is_empty()).then(|| GroupConfig { members: members.into(), proxy: None });
        assert!(domain.with("boss", |node, now| node.set_group(now, "friends", group)));
        domain.run(Duration::from_secs(3));
    };
    let of = name("/lab/plans");
    assert!(domain.with("owner", |node, now| node.set_readers(now, Some(&of), readers)));
    domain.publish("owner", object("/lab/plans", plans()));
    domain.run(Duration::from_secs(3));
    let (waiting, content) = domain.fetch("reader", "/lab/plans");
    domain.run(Duration::from_secs(10));
    assert!(domain.report("reader", waiting).sources.is_empty(), "there is no such group yet");
    change(&mut domain, &[reader]);
    domain.finish("reader", waiting, 5);
    assert_eq!(content.finished(&of).unwrap(), plans());
    let (hidden, content) = domain.fetch("stranger", "/lab/plans");
    // Longer than unrequested names are remembered.
    domain.run(Duration::from_secs(150));
    assert!(domain.report("stranger", hidden).sources.is_empty(), "it is no member");
    change(&mut domain, &[reader, outsider]);
    domain.finish("stranger", hidden, 5);
    assert_eq!(content.finished(&of).unwrap(), plans());
    for members in [&[reader][..], &[]] {
        change(&mut domain, members);
        let (again, _) = domain.fetch("stranger", "/lab/plans");
        domain.run(Duration::from_secs(5));
        assert!(domain.report("stranger", again).sources.is_empty(), "it is no member any more");
    }
    let (again, _) = domain.fetch("reader", "/lab/plans");
    domain.run(Duration::from_secs(5));
    assert!(domain.report("reader", again).sources.is_empty(), "the group is no more");
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

/// A host whose network address only `reader` may know, and two others: one at the other router, one at its own.
struct Hidden {
    domain: Domain,
    inbox: MemoryContent,
}

impl Hidden {
    fn new() -> Hidden {
        let mut domain = network();
        domain.node("next door", |_| {});
        domain.link("next door", "r1", 20, ms(1));
        let opener = MemoryOpener::new();
        let inbox = opener.content();
        domain.with("owner", |node, now| Messaging::accept(node, now, Some(Box::new(opener)), &Default::default()));
        let mut hidden = Hidden { domain, inbox };
        let reader = hidden.domain.at("reader").guid();
        hidden.set_readers(Readers::Only([reader].into()));
        hidden
    }
    fn set_readers(&mut self, readers: Readers) {
        assert!(self.domain.with("owner", |node, now| node.set_readers(now, None, readers)));
        self.domain.run(Duration::from_secs(3));
    }
    fn send(&mut self, from: &str, path: &str) -> TransferId {
        let to = Destination::Id(self.domain.at("owner").guid().to_string());
        let object = object(path, random_bytes(5_000, 3));
        let options = SendOptions::default();
        self.domain.with(from, |node, now| Messaging::send(node, now, Box::new(object), &to, &options).unwrap())
    }
    fn report(&self, from: &str, id: TransferId) -> SendReport {
        self.domain.at(from).send_report(self.domain.net.now(), id).unwrap()
    }
    fn has(&self, path: &str) -> bool {
        self.inbox.finished(&name(path)).is_some()
    }
}

#[test]
fn what_is_sent_by_those_who_may_not_know_where_a_device_is_waits_as_if_it_were_away_and_holds_up_nobody() {
    let mut hidden = Hidden::new();
    // Several, some of which would leave before other senders' chunks.
    for from in ["stranger", "next door"] {
        for number in 0..4 {
            let path = format!("/{}/{number}", from.replace(' ', "-"));
            let id = hidden.send(from, &path);
            hidden.domain.run(Duration::from_secs(1));
            let report = hidden.report(from, id);
            assert!(!hidden.has(&path), "{path} has come");
            assert_eq!((report.stored_chunks, report.delivered.len()), (report.chunks, 0), "{report:?}");
        }
    }
    hidden.send("reader", "/reader/1");
    hidden.domain.run(ms(500));
    assert!(hidden.has("/reader/1"));
    // What waits with theirs at the same router.
    hidden.domain.cut("owner", "r1");
    hidden.domain.run(Duration::from_secs(3));
    hidden.send("reader", "/reader/2");
    hidden.domain.run(Duration::from_secs(3));
    assert!(!hidden.has("/reader/2"));
    hidden.domain.mend("owner", "r1");
    hidden.domain.run(Duration::from_secs(2));
    assert!(hidden.has("/reader/2"), "{:?}", hidden.domain.at("r1").holdings());
    assert!(!hidden.has("/stranger/0") && !hidden.has("/next-door/0"));
    hidden.set_readers(Readers::All);
    for number in 0..4 {
        assert!(hidden.has(&format!("/stranger/{number}")) && hidden.has(&format!("/next-door/{number}")));
    }
}

#[test]
fn a_device_that_is_hidden_fetches_from_others() {
    let mut hidden = Hidden::new();
    hidden.domain.publish("stranger", object("/lab/open", plans()));
    hidden.domain.run(Duration::from_secs(3));
    let (id, content) = hidden.domain.fetch("owner", "/lab/open");
    hidden.domain.finish("owner", id, 5);
    assert_eq!(content.finished(&name("/lab/open")).unwrap(), plans());
    // It moves during a transfer whose chunks do not follow it: it reports the missing ones at once.
    hidden.domain.link("owner", "r2", 20, ms(1));
    hidden.domain.cut("owner", "r2");
    let big = random_bytes(4_000_000, 5);
    hidden.domain.publish("stranger", object("/lab/big", big.clone()));
    hidden.domain.run(Duration::from_secs(3));
    let (id, content) = hidden.domain.fetch("owner", "/lab/big");
    hidden.domain.run(Duration::from_secs(1));
    hidden.domain.cut("owner", "r1");
    hidden.domain.mend("owner", "r2");
    let seconds = hidden.domain.finish("owner", id, 30).as_secs_f64();
    assert!(seconds < 3.5, "{seconds} s");
    assert_eq!(content.finished(&name("/lab/big")).unwrap(), big);
}

//! One object to many (paper §3.5): small and large scale, members that are away, the nearest one.
use tributary_mf::{Config, config::GroupConfig, ids::Guid};
use tributary_transport::{
    Messaging,
    messaging::{Destination, Reliability, SendOptions, SendReport, Spread},
};

use super::*;

const GROUP: &str = "/lab/all";

/// A source behind a router, and `members` receivers distributed over access routers with at most eight each.
/// ```text
///   source ── core ─┬─ r0 ── m0, …, m7
///                   ├─ r1 ── m8, …
/// ```
struct Tree {
    domain: Domain,
    inboxes: Vec<(String, MemoryContent)>,
}

fn tree(seed: u64, members: usize, loss: f64, set: fn(&mut Config)) -> Tree {
    let mut domain = Domain::new(seed);
    domain.node("source", |_| {});
    domain.node("core", |config| {
        (config.router, config.resolver) = (true, true);
        set(config);
    });
    domain.link("source", "core", 100, ms(2));
    let mut inboxes = Vec::new();
    for member in 0..members {
        let router = format!("r{}", member / 8);
        if member % 8 == 0 {
            domain.node(&router, |config| {
                (config.router, config.resolver) = (true, member < 40);
                set(config);
            });
            domain.link("core", &router, 100, ms(5));
        }
        let label = format!("m{member}");
        domain.node(&label, |_| {});
        let mut last = LinkConfig::new(Rate::from_mbps(25), ms(1));
        last.queue_bytes = 200_000;
        if loss > 0.0 {
            last.loss = tributary_core::link::Loss::Bernoulli(loss);
        }
        domain.link_with(&router, &label, last);
        let opener = MemoryOpener::new();
        inboxes.push((label.clone(), opener.content()));
        domain.with(&label, |node, now| {
            Messaging::accept(node, now, Some(Box::new(opener)), &Default::default());
            node.attach(now, &name(GROUP));
        });
    }
    domain.run(Duration::from_secs(3));
    Tree { domain, inboxes }
}

impl Tree {
    fn send(&mut self, path: &str, bytes: &Bytes, options: &SendOptions) -> TransferId {
        let object = object(path, bytes.clone());
        let to = Destination::Name(name(GROUP));
        self.domain.with("source", |node, now| Messaging::send(node, now, Box::new(object), &to, options).unwrap())
    }
    fn report(&self, id: TransferId) -> SendReport {
        let now = self.domain.net.now();
        self.domain.at("source").send_report(now, id).unwrap()
    }
    /// Runs until all members have everything; returns the duration.
    fn finish(&mut self, id: TransferId, seconds: u64) -> Duration {
        let start = self.domain.net.now();
        while self.domain.net.now().since(start) < Duration::from_secs(seconds) {
            self.domain.run(ms(20));
            if self.report(id).is_over {
                return self.domain.net.now().since(start);
            }
        }
        panic!("not done: {:?}", self.report(id));
    }
    fn received(&self, path: &str, bytes: &Bytes) -> usize {
        let got =
            self.inboxes.iter().filter(|(_, content)| content.finished(&name(path)).is_some_and(|got| got == *bytes));
        got.count()
    }
    /// Bytes that left the source.
    fn source_bytes(&self) -> u64 {
        let status = self.domain.at("source").status(self.domain.net.now());
        status.faces.iter().map(|face| face.sent.1.0).sum()
    }
}

#[test]
fn two_to_sixty_four_receivers_get_a_file_that_leaves_the_source_once() {
    for members in [2, 8, 20, 64] {
        let bytes = random_bytes(3_000_000, 1);
        let mut tree = tree(members as u64, members, 0.0, |_| {});
        let before = tree.source_bytes();
        let id = tree.send("/lab/film", &bytes, &SendOptions::default());
        let time = tree.finish(id, 60);
        let sent = tree.source_bytes() - before;
        println!("{members} receivers: {time:?}, {sent} bytes left the source, {:?}", tree.report(id).repeated_chunks);
        assert_eq!(tree.received("/lab/film", &bytes), members);
        assert_eq!(tree.report(id).delivered.len(), members);
        // In addition to the file: the members' names, and chunks that the first router refused for lack of space.
        assert!(sent < 4_000_000, "{sent} bytes for {members} receivers");
        // One last hop alone takes one second.
        assert!(time < ms(2_500), "{members} receivers: {time:?}");
        tree.domain.run(Duration::from_secs(1));
        tree.domain.assert_conservation();
    }
}

#[test]
fn copies_for_members_are_kept_as_long_as_one_may_ask_for_them_and_no_longer() {
    let bytes = random_bytes(3_000_000, 2);
    let mut tree = tree(3, 12, 0.0, |_| {});
    let held = |tree: &Tree| ["core", "r0", "r1"].map(|router| tree.domain.at(router).holdings().len());
    let sure = SendOptions { spread: Spread::AllByProxies(3), ..SendOptions::default() };
    let id = tree.send("/lab/film", &bytes, &sure);
    tree.domain.run(ms(500));
    assert!(held(&tree).iter().all(|held| *held > 0), "they answer: {:?}", held(&tree));
    tree.finish(id, 60);
    tree.domain.run(Duration::from_secs(1));
    assert_eq!((tree.received("/lab/film", &bytes), held(&tree)), (12, [0; 3]), "all have everything");
    tree.send("/lab/noise", &bytes, &SendOptions { reliability: Some(Reliability::DontCare), ..sure.clone() });
    tree.domain.run(ms(500));
    assert_eq!(held(&tree), [0; 3], "nobody asks for what nobody cares about");
    // An absent member may still send requests.
    tree.domain.cut("r1", "m11");
    tree.domain.run(Duration::from_secs(3));
    tree.send("/lab/other", &bytes, &sure);
    tree.domain.run(Duration::from_secs(4));
    let [core, done, open] = held(&tree);
    assert!(core > 0 && done == 0 && open > 0, "all behind r0 have everything: {:?}", held(&tree));
    tree.domain.mend("r1", "m11");
    tree.domain.run(Duration::from_secs(5));
    assert_eq!((tree.received("/lab/other", &bytes), held(&tree)), (12, [0; 3]));
}

/// ```text
///   source, owner ── core ─┬─ r0 ── m0, m1
///                          └─ r1 ── m2, m3         the proxy of the group "far"
/// ```
#[test]
fn a_group_that_its_owner_lists_is_reached_and_so_is_a_group_in_it_through_its_proxy() {
    let guid = |label: &str| Guid::of(&SigningKey::from_secret(&Config::new(label, 0).secret).public(), b"");
    for spread in [Spread::AllByProxies(3), Spread::Nearest] {
        let mut domain = Domain::drawn(6, &["core* --100,5-- r0*", "core* --100,5-- r1*"]);
        domain.node("owner", |config| {
            let far = Guid::of(&SigningKey::from_secret(&config.secret).public(), b"far");
            let of = |members: &[Guid], proxy: Option<Guid>| GroupConfig { members: members.into(), proxy };
            config.groups.insert("far".into(), of(&[guid("m2"), guid("m3")], Some(guid("r1"))));
            config.groups.insert("all".into(), of(&[guid("m0"), guid("m1"), far], None));
        });
        domain.node("source", |_| {});
        domain.link("owner", "core", 100, ms(1));
        domain.link("source", "core", 100, ms(1));
        let mut inboxes = Vec::new();
        for (member, router) in [("m0", "r0"), ("m1", "r0"), ("m2", "r1"), ("m3", "r1")] {
            domain.node(member, |_| {});
            domain.link(member, router, 25, ms(1));
            let opener = MemoryOpener::new();
            inboxes.push(opener.content());
            domain.with(member, |node, now| Messaging::accept(node, now, Some(Box::new(opener)), &Default::default()));
        }
        domain.run(Duration::from_secs(3));
        let (to, bytes) = (Destination::Id(domain.at("owner").group("all").to_string()), random_bytes(2_500_000, 1));
        let options = SendOptions { spread, ..SendOptions::default() };
        let film = object("/lab/film", bytes.clone());
        domain.with("source", |node, now| Messaging::send(node, now, Box::new(film), &to, &options).unwrap());
        domain.run(Duration::from_secs(10));
        let got = inboxes.iter().filter(|inbox| inbox.finished(&name("/lab/film")).is_some_and(|got| got == bytes));
        assert_eq!(got.count(), if spread == Spread::Nearest { 1 } else { 4 });
        let status = domain.at("source").status(domain.net.now());
        let sent: u64 = status.faces.iter().map(|face| face.sent.1.0).sum();
        assert!(sent < 3_000_000, "{sent} bytes left the source");
        domain.with("owner", |node, now| node.leave(now));
        domain.run(Duration::from_secs(2));
        let late = object("/lab/late", bytes.clone());
        domain.with("source", |node, now| Messaging::send(node, now, Box::new(late), &to, &options).unwrap());
        domain.run(Duration::from_secs(5));
        assert!(inboxes.iter().all(|inbox| inbox.finished(&name("/lab/late")).is_none()), "there is no such group");
    }
}

#[test]
fn cut_through_brings_a_group_its_chunks_earlier() {
    let time = |set: fn(&mut Config)| {
        let bytes = random_bytes(900_000, 1);
        let mut tree = tree(3, 16, 0.0, set);
        let id = tree.send("/lab/film", &bytes, &SendOptions::default());
        let time = tree.finish(id, 60);
        assert_eq!(tree.received("/lab/film", &bytes), 16);
        tree.domain.run(Duration::from_secs(1));
        tree.domain.assert_conservation();
        time
    };
    let whole = time(|config| config.hop.forwarding = tributary_mf::link::Forwarding::StoreAndForward);
    let cut = time(|config| config.hop.forwarding = tributary_mf::link::Forwarding::CutThrough);
    println!("one chunk to 16: {whole:?} whole, {cut:?} cut through");
    // At each of two routers the chunk arrives within 72 ms; checks every 20 ms.
    assert!(cut + ms(80) <= whole, "{cut:?}, whole {whole:?}");
}

#[test]
fn loss_on_every_last_hop_is_repaired_there() {
    for spread in [Spread::All, Spread::AllByProxies(3)] {
        let bytes = random_bytes(2_000_000, 2);
        let mut tree = tree(7, 24, 0.03, |_| {});
        let before = tree.source_bytes();
        let id = tree.send("/lab/film", &bytes, &SendOptions { spread, ..SendOptions::default() });
        let time = tree.finish(id, 60);
        println!("{spread:?}: {time:?}");
        assert_eq!(tree.received("/lab/film", &bytes), 24);
        assert!(tree.source_bytes() - before < 2_300_000);
    }
}

#[test]
fn a_member_that_is_away_gets_it_later_and_delays_nobody() {
    for spread in [Spread::All, Spread::AllByProxies(2)] {
        let bytes = random_bytes(2_000_000, 3);
        let mut tree = tree(8, 10, 0.0, |_| {});
        tree.domain.cut("r0", "m3");
        tree.domain.run(Duration::from_secs(2));
        let id = tree.send("/lab/film", &bytes, &SendOptions { spread, ..SendOptions::default() });
        tree.domain.run(Duration::from_secs(4));
        assert_eq!(tree.received("/lab/film", &bytes), 9, "{spread:?}");
        tree.domain.mend("r0", "m3");
        tree.finish(id, 20);
        assert_eq!(tree.received("/lab/film", &bytes), 10, "{spread:?}");
    }
}

#[test]
fn who_attaches_after_all_was_sent_asks_for_it_whatever_else_it_hears() {
    let bytes = random_bytes(500_000, 12);
    let mut domain = Domain::new(12);
    domain.router("core");
    for label in ["source", "member"] {
        // Its name is renewed more often than the silence lasts.
        domain.node(label, |config| config.binding_lifetime = Duration::from_secs(3));
        domain.link(label, "core", 20, ms(2));
    }
    domain.run(Duration::from_secs(3));
    let (film, to) = (object("/lab/film", bytes.clone()), Destination::Name(name(GROUP)));
    let send = |node: &mut MfNode, now| Messaging::send(node, now, Box::new(film), &to, &SendOptions::default());
    domain.with("source", send).unwrap();
    domain.run(Duration::from_secs(2));
    let opener = MemoryOpener::new();
    let content = opener.content();
    domain.with("member", |node, now| {
        Messaging::accept(node, now, Some(Box::new(opener)), &Default::default());
        node.attach(now, &name(GROUP));
    });
    // It is reminded within 12 s, and reports the missing chunks 3 s later.
    domain.run(Duration::from_secs(20));
    assert_eq!(content.finished(&name("/lab/film")), Some(bytes));
}

#[test]
fn a_router_that_forgets_makes_its_members_ask_and_proxies_answer_for_the_source() {
    let run = |spread: Spread| {
        let bytes = random_bytes(6_000_000, 4);
        let mut tree = tree(9, 16, 0.0, |_| {});
        let id = tree.send("/lab/film", &bytes, &SendOptions { spread, ..SendOptions::default() });
        tree.domain.run(ms(1_200));
        // Everything that it had in memory is gone; its disk is not.
        tree.domain.kill("r1");
        tree.domain.run(ms(300));
        tree.domain.restart("r1");
        let time = tree.finish(id, 120);
        assert_eq!(tree.received("/lab/film", &bytes), 16);
        let again = tree.report(id).repeated_chunks;
        let requests = |label: &str| {
            *tree.domain.at(label).status(tree.domain.net.now()).counters.get("repairs out of copies").unwrap_or(&0)
        };
        let repairs = requests("core") + requests("r1") + requests("r0");
        println!("{spread:?}: {time:?}, the source repeated {again} chunks, proxies repaired {repairs}");
        (again, repairs, time)
    };
    let (source, none, small) = run(Spread::All);
    assert!(source > 0 && none == 0);
    let (source, proxies, large) = run(Spread::AllByProxies(3));
    assert!(proxies > 0 && source == 0, "proxies repaired {proxies}, the source {source}");
    // Requests are collected once more on the way. A copy for each of eight members would take 0.08 s over the link to
    // their router, in sequence.
    assert!(large <= small + ms(200), "large scale {large:?}, small scale {small:?}");
}

#[test]
fn wrong_copies_on_the_way_delay_a_message_and_nobody_blames_its_source() {
    let bytes = random_bytes(6_000_000, 4);
    for spread in [Spread::All, Spread::AllByProxies(3)] {
        let mut tree = tree(9, 16, 0.0, |_| {});
        tree.domain.cut("r0", "m3");
        let id = tree.send("/lab/film", &bytes, &SendOptions { spread, ..SendOptions::default() });
        tree.domain.run(ms(1_200));
        // Chunks that were in its memory are requested again, and answered from copies; one member is away until then.
        tree.domain.kill("r1");
        tree.domain.run(ms(300));
        let spoilt = ["core", "r0", "r1"].map(|router| {
            tree.domain.repositories[router].spoil();
            tree.domain.repositories[router].len()
        });
        assert!(spoilt.into_iter().sum::<usize>() > 0, "{spread:?}: nothing was stored");
        tree.domain.restart("r1");
        tree.domain.run(ms(500));
        tree.domain.mend("r0", "m3");
        let time = tree.finish(id, 120);
        println!("{spread:?}: {time:?}, {spoilt:?} copies were wrong");
        assert_eq!(tree.received("/lab/film", &bytes), 16, "{spread:?}");
        let events = tree.domain.events.borrow();
        let blames = |event: &Event| matches!(event, Event::Transfer(_, TransferEvent::SourceDistrusted { .. }));
        assert!(!events.iter().any(|(.., event)| blames(event)), "{spread:?}");
    }
}

#[test]
fn data_that_nobody_needs_surely_is_sent_once_and_never_repeated() {
    let bytes = random_bytes(500_000, 5);
    let mut tree = tree(10, 6, 0.01, |_| {});
    let options = SendOptions { reliability: Some(Reliability::DontCare), ..SendOptions::default() };
    let id = tree.send("/sensors/frame", &bytes, &options);
    tree.domain.run(Duration::from_secs(2));
    assert!(tree.report(id).is_over);
    assert_eq!((tree.report(id).repeated_chunks, tree.received("/sensors/frame", &bytes)), (0, 6));
}

#[test]
fn the_nearest_of_those_who_are_attached_gets_it_alone() {
    let bytes = random_bytes(300_000, 6);
    let mut tree = tree(11, 10, 0.0, |_| {});
    let id = tree.send("/lab/job", &bytes, &SendOptions { spread: Spread::Nearest, ..SendOptions::default() });
    tree.finish(id, 20);
    assert_eq!((tree.report(id).delivered.len(), tree.received("/lab/job", &bytes)), (1, 1));
}

#[test]
fn who_sends_to_the_nearest_of_a_group_is_not_meant_itself() {
    let bytes = random_bytes(300_000, 6);
    let mut tree = tree(11, 3, 0.0, |_| {});
    tree.domain.with("source", |node, now| {
        Messaging::accept(node, now, Some(Box::new(MemoryOpener::new())), &Default::default());
        node.attach(now, &name(GROUP));
    });
    tree.domain.run(Duration::from_secs(2));
    let id = tree.send("/lab/job", &bytes, &SendOptions { spread: Spread::Nearest, ..SendOptions::default() });
    tree.finish(id, 20);
    assert_eq!((tree.report(id).delivered.len(), tree.received("/lab/job", &bytes)), (1, 1));
}

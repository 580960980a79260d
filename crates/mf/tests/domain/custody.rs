//! Custody (RFC 5050 §5.10): some node keeps a stored chunk on disk until its receiver has it on its own.
use tributary_mf::{
    config::CustodyUntil,
    router::proxy::{Holding, Place},
    sender::SendOptions,
};
use tributary_testkit::Inbox;
use tributary_transport::{Messaging, messaging::AcceptOptions};

use super::*;

const SIZE: usize = 3_000_000;

/// ```text
///            ┌─ 20 ── c ─ 20 ─┐
///   server ── a ── 20 ── b ── 20 ── phone      c only if there is another way
/// ```
/// The phone is away while the server, which is gone afterwards, sends it a film and some readings.
struct Chain {
    domain: Domain,
    content: MemoryContent,
    sent: Vec<(String, Bytes)>,
    has_other_way: bool,
}

impl Chain {
    fn new(seed: u64, b_stores: bool, has_other_way: bool) -> Chain {
        let paths = ["server --100,1-- a* --20,5-- b* --20,2-- phone", "a --20,6-- c* --20,2-- phone"];
        let paths = &paths[..1 + usize::from(has_other_way)];
        let mut domain =
            Domain::drawn_with(seed, paths, |label, config| config.proxy.enabled = label != "b" || b_stores);
        domain.run(Duration::from_secs(3));
        let mut chain = Chain { domain, content: MemoryOpener::new().content(), sent: Vec::new(), has_other_way };
        chain.accept();
        // The path to the phone ends at a: b knows that it is present, and a keeps its chunks.
        chain.set_ways(false);
        chain.domain.run(Duration::from_secs(2));
        for (path, size) in [("/film", SIZE), ("/reading/1", 10), ("/reading/2", 60_000), ("/reading/3", 1)] {
            chain.send(path, size);
        }
        chain.domain.run(Duration::from_secs(4));
        assert_eq!(chain.domain.at("server").sender().chunks.1, 0, "nothing was sent again");
        assert!(chain.held("a") >= SIZE as u64, "a has promised to keep it");
        chain.domain.kill("server");
        chain
    }
    fn set_ways(&mut self, up: bool) {
        let ways: &[(&str, &str)] = if self.has_other_way { &[("a", "b"), ("a", "c")] } else { &[("a", "b")] };
        for (from, to) in ways {
            if up { self.domain.mend(from, to) } else { self.domain.cut(from, to) }
        }
    }
    fn accept(&mut self) {
        let opener = MemoryOpener::new();
        self.content = opener.content();
        self.domain.with("phone", |node, now| {
            Messaging::accept(node, now, Some(Box::new(opener)), &AcceptOptions::default());
        });
    }
    fn send(&mut self, path: &str, size: usize) {
        use tributary_content::store::ObjectReader;
        let bytes = random_bytes(size, size as u64);
        let (to, object) = (self.domain.at("phone").guid(), object(path, bytes.clone()));
        let id = object.manifest().publication_id();
        self.domain.with("server", |node, now| {
            node.offer(Box::new(object));
            let options = SendOptions::new(&node.config().transfer);
            node.send(now, id, to, options).unwrap();
        });
        self.sent.push((path.into(), bytes));
    }
    fn held(&self, router: &str) -> u64 {
        self.domain.at(router).holdings().iter().map(|held| held.bytes).sum()
    }
    fn has_all(&self) -> bool {
        self.sent.iter().all(|(path, bytes)| self.content.finished(&name(path)).as_ref() == Some(bytes))
    }
    /// Runs until the phone has everything; returns the duration. Panics after `seconds`.
    fn finish(&mut self, seconds: u64) -> Duration {
        let begin = self.domain.net.now();
        while !self.has_all() {
            self.domain.run(ms(50));
            let left: Vec<_> = ["a", "b", "c"].iter().filter(|label| self.domain.nodes.contains_key(**label)).collect();
            assert!(
                self.domain.net.now().since(begin) < Duration::from_secs(seconds),
                "not whole: {:#?}",
                left.into_iter()
                    .filter(|label| self.domain.net.is_alive(self.domain.nodes[**label]))
                    .map(|label| (label, self.domain.at(label).holdings()))
                    .collect::<Vec<_>>()
            );
        }
        self.domain.net.now().since(begin)
    }
    /// Delivered chunks are kept nowhere.
    fn assert_forgotten(&mut self) {
        self.domain.run(Duration::from_secs(10));
        for label in ["a", "b", "c"] {
            if self.domain.nodes.get(label).is_some_and(|node| self.domain.net.is_alive(*node)) {
                assert_eq!(self.held(label), 0, "{label}: {:#?}", self.domain.at(label).holdings());
            }
        }
        self.domain.assert_conservation();
    }
}

/// Of 3 MB at 20 Mbit/s the last chunk arrives after 1.2 s or later.
const MOMENTS: [u64; 8] = [20, 60, 150, 300, 500, 800, 1_100, 1_400];

#[test]
fn what_was_promised_arrives_though_the_hop_after_the_custodian_is_killed_with_all_that_it_had_in_memory() {
    for b_stores in [true, false] {
        for moment in MOMENTS {
            let mut chain = Chain::new(moment, b_stores, false);
            chain.set_ways(true);
            chain.domain.run(ms(moment));
            chain.domain.kill("b");
            chain.domain.run(ms(1_000));
            chain.domain.restart("b");
            let time = chain.finish(60);
            println!("b stores: {b_stores}, killed after {moment} ms: {time:?}");
            assert!(time < Duration::from_secs(5), "{time:?}");
            chain.assert_forgotten();
        }
    }
}

#[test]
fn what_was_promised_goes_another_way_when_the_hop_after_the_custodian_is_gone_for_good() {
    for moment in MOMENTS {
        let mut chain = Chain::new(moment, false, true);
        chain.set_ways(true);
        chain.domain.run(ms(moment));
        chain.domain.kill("b");
        let time = chain.finish(60);
        println!("b is gone after {moment} ms: {time:?}");
        assert!(time < Duration::from_secs(6), "{time:?}");
        chain.assert_forgotten();
    }
}

#[test]
fn the_custodian_may_be_killed_at_any_moment_and_goes_on_with_its_disk() {
    for moment in MOMENTS {
        let mut chain = Chain::new(moment, true, false);
        chain.set_ways(true);
        chain.domain.run(ms(moment));
        chain.domain.kill("a");
        chain.domain.run(ms(700));
        chain.domain.restart("a");
        let time = chain.finish(60);
        println!("a is killed after {moment} ms: {time:?}");
        assert!(time < Duration::from_secs(8), "{time:?}");
        chain.assert_forgotten();
    }
}

/// It keeps its disk up to the last synced byte: nothing that it reported as kept comes again, and nothing is lost.
#[test]
fn a_receiver_that_is_killed_at_any_moment_goes_on_with_its_disk_and_has_each_object_once() {
    for moment in MOMENTS {
        let mut chain = Chain::new(moment, true, false);
        let inbox = Inbox::default();
        let accept = |chain: &mut Chain| {
            let inbox = Box::new(inbox.clone());
            chain.domain.with("phone", |node, now| {
                Messaging::accept(node, now, Some(inbox), &AcceptOptions::default());
            });
        };
        accept(&mut chain);
        chain.set_ways(true);
        for kill in 0..3 {
            chain.domain.run(ms(moment / (kill + 1) + kill));
            chain.domain.kill("phone");
            inbox.crash();
            chain.domain.run(ms(500));
            chain.domain.restart("phone");
            accept(&mut chain);
        }
        chain.domain.run(Duration::from_secs(20));
        let came = inbox.came();
        assert_eq!(came.len(), chain.sent.len(), "killed after {moment} ms: {came:?}");
        assert!(came.values().all(|times| *times == 1), "{came:?}");
        chain.assert_forgotten();
    }
}

/// A restarted process uses another port, while its earlier run at the old one still counts as up.
#[test]
fn what_was_on_its_way_to_a_receiver_that_was_killed_goes_to_its_next_life_at_once_wherever_that_comes_from() {
    for moment in MOMENTS {
        let mut domain = Domain::drawn(moment, &["server --100,1-- b* --20,2-- phone"]);
        let before = domain.connection("b", "phone");
        domain.run(Duration::from_secs(3));
        let (content, sent, has_other_way) = (MemoryOpener::new().content(), Vec::new(), false);
        let mut chain = Chain { domain, content, sent, has_other_way };
        chain.domain.cut("b", "phone");
        chain.domain.run(Duration::from_secs(5));
        chain.send("/film", SIZE);
        (1..100).for_each(|number| chain.send(&format!("/reading/{number}"), number * 100));
        chain.domain.run(Duration::from_secs(4));
        chain.domain.kill("server");
        assert!(chain.held("b") >= SIZE as u64, "b has promised to keep it");
        let inbox = Inbox::default();
        let accept = |chain: &mut Chain| {
            let inbox = Box::new(inbox.clone());
            chain.domain.with("phone", |node, now| {
                Messaging::accept(node, now, Some(inbox), &AcceptOptions::default());
            });
        };
        accept(&mut chain);
        chain.domain.mend("b", "phone");
        chain.domain.link("b", "phone", 20, ms(2));
        chain.domain.cut("b", "phone");
        chain.domain.run(ms(moment));
        chain.domain.kill("phone");
        chain.domain.net.change(before, LinkChange::State(LinkState::Down));
        chain.domain.mend("b", "phone");
        chain.domain.faces.get_mut("phone").unwrap().remove(0);
        inbox.crash();
        let had = inbox.count();
        chain.domain.restart("phone");
        accept(&mut chain);
        // The custody timeout alone takes 10 s.
        chain.domain.run(Duration::from_secs(6));
        let came = inbox.came();
        assert_eq!(came.len(), chain.sent.len(), "killed after {moment} ms with {had}");
        assert!(came.values().all(|times| *times == 1), "{came:?}");
        chain.assert_forgotten();
    }
}

#[test]
fn a_receiver_that_wants_no_more_leaves_the_rest_with_its_custodian() {
    let mut chain = Chain::new(9, true, false);
    let inbox = Inbox::default();
    for (count, whole) in [(1, 1), (2, 3), (0, 3), (1, 4)] {
        inbox.take_only(Some(count));
        let taken = Box::new(inbox.clone());
        chain.domain.with("phone", |node, now| {
            Messaging::accept(node, now, Some(taken), &AcceptOptions::default());
        });
        chain.set_ways(true);
        chain.domain.run(Duration::from_secs(20));
        assert_eq!(inbox.count(), whole);
    }
    chain.assert_forgotten();
}

#[test]
fn custody_passes_to_a_router_further_on_that_has_it_on_its_disk() {
    let mut chain = Chain::new(1, true, false);
    chain.domain.cut("b", "phone");
    chain.set_ways(true);
    chain.domain.run(Duration::from_secs(6));
    // While its name has no binding, a keeps the rest; b's chunks are not at a.
    let (at_a, at_b) = (chain.held("a"), chain.held("b"));
    println!("{at_a} bytes at a, {at_b} at b; a: {:?}", chain.domain.at("a").proxy().unwrap().stats);
    let keys = |label: &str| -> std::collections::BTreeSet<_> {
        chain.domain.at(label).holdings().into_iter().map(|held| held.key).collect()
    };
    assert!(keys("a").is_disjoint(&keys("b")), "each chunk has one custodian");
    chain.domain.kill("a");
    chain.domain.run(Duration::from_secs(1));
    chain.domain.restart("a");
    chain.domain.mend("b", "phone");
    chain.finish(30);
    chain.assert_forgotten();
}

#[test]
fn nothing_is_lost_of_a_thousand_messages_whose_sender_has_gone() {
    for count in [1, 240, 300, 1_000] {
        let mut chain = Chain::new(7, true, false);
        // The server is back for these.
        chain.domain.restart("server");
        chain.domain.run(Duration::from_secs(2));
        for number in 0..count {
            chain.send(&format!("/message/{number}"), 1 + number * 37 % 5_000);
            if number % 50 == 0 {
                chain.domain.run(ms(100));
            }
        }
        chain.domain.run(Duration::from_secs(10));
        chain.domain.kill("server");
        chain.set_ways(true);
        let time = chain.finish(120);
        println!("{count} messages: {time:?}");
        chain.assert_forgotten();
    }
}

#[test]
fn a_receiver_that_nobody_takes_for_is_sent_little_until_somebody_does() {
    let mut chain = Chain::new(3, true, false);
    chain.domain.with("phone", |node, now| Messaging::accept(node, now, None, &AcceptOptions::default()));
    chain.set_ways(true);
    let link = chain.domain.connection("b", "phone").a_to_b;
    chain.domain.run(Duration::from_secs(10));
    let before = chain.domain.net.link_stats(link).out_bytes;
    chain.domain.run(Duration::from_secs(120));
    let more = chain.domain.net.link_stats(link).out_bytes - before;
    println!("{more} bytes in two minutes");
    assert!(more < 2 * SIZE as u64, "{more} bytes: sent in vain");
    let custodians = ["a", "b"].map(|router| chain.held(router));
    assert!(custodians.iter().sum::<u64>() >= SIZE as u64, "{custodians:?}");
    let opener = MemoryOpener::new();
    chain.content = opener.content();
    chain.domain.with("phone", |node, now| {
        Messaging::accept(node, now, Some(Box::new(opener)), &AcceptOptions::default());
    });
    let time = chain.finish(20);
    assert!(time < Duration::from_secs(4), "{time:?}: it says that it is ready");
    chain.assert_forgotten();
}

/// The cost: chunks stored for a phone move from one router's store to another's, and from there to the phone, with
/// custody until disk and without.
///
/// ```text
///   server ── 1000 ── r1 ── 100, 20 ms ── r2 ── 100, 20 ms ── r3 ── 100, 5 ms ── phone
/// ```
#[test]
fn custody_costs_little_of_the_rate_of_a_chain() {
    let size = 60_000_000;
    let rates = |custody: CustodyUntil| {
        let path = "server --1000,1-- r1* --100,20-- r2* --100,20-- r3* --100,5-- phone";
        let mut domain = Domain::drawn_with(11, &[path], |_, config| config.proxy.custody = custody);
        domain.run(Duration::from_secs(3));
        let mut chain =
            Chain { domain, content: MemoryOpener::new().content(), sent: Vec::new(), has_other_way: false };
        chain.accept();
        chain.domain.run(Duration::from_secs(2));
        chain.domain.cut("r1", "r2");
        chain.domain.run(Duration::from_secs(2));
        chain.send("/film", size);
        chain.domain.run(Duration::from_secs(5));
        chain.domain.kill("server");
        assert!(chain.held("r1") >= size as u64, "it is stored at the first router");
        chain.domain.cut("r3", "phone");
        chain.domain.mend("r1", "r2");
        let mut seconds = [0.0; 2];
        let begin = chain.domain.net.now();
        while chain.held("r3") < size as u64 {
            chain.domain.run(ms(20));
            assert!(chain.domain.net.now().since(begin) < Duration::from_secs(25), "{} at r3", chain.held("r3"));
        }
        seconds[0] = chain.domain.net.now().since(begin).as_secs_f64();
        chain.domain.run(Duration::from_secs(1));
        assert_eq!(chain.held("r1"), 0, "each chunk has one custodian");
        chain.domain.mend("r3", "phone");
        let back = chain.domain.connection("r3", "phone").b_to_a;
        let before = chain.domain.net.link_stats(back).out_bytes;
        seconds[1] = chain.finish(60).as_secs_f64();
        let bytes = chain.domain.net.link_stats(back).out_bytes - before;
        let rates = seconds.map(|seconds| size as f64 * 8e-6 / seconds);
        println!(
            "{custody:?}: store to store {:.2}, to the phone {:.2} Mbit/s, {bytes} bytes back",
            rates[0], rates[1]
        );
        chain.assert_forgotten();
        rates
    };
    let (disk, hop) = (rates(CustodyUntil::Disk), rates(CustodyUntil::Hop));
    assert!((0..2).all(|stage| disk[stage] > 0.95 * hop[stage]), "{disk:?} of {hop:?} Mbit/s");
}

#[test]
fn holdings_say_where_each_chunk_is() {
    let mut chain = Chain::new(5, true, false);
    let held = |chain: &Chain| chain.domain.at("a").holdings();
    assert!(held(&chain).iter().all(|held| held.place == Place::Here && !held.rests));
    chain.set_ways(true);
    chain.domain.run(ms(300));
    let b = chain.domain.at("b").guid();
    let is_at_b = |held: &Holding| matches!(held.place, Place::InTransit { via, .. } if via == b);
    assert!(held(&chain).iter().any(is_at_b), "{:?}", held(&chain));
    chain.finish(20);
    chain.assert_forgotten();
}

/// The film of `cases/mf/custody`: a has stored it as its link was down, and b is killed while it passes it on slowly.
#[test]
fn what_was_asked_for_and_stored_arrives_though_its_source_has_gone_and_a_router_starts_anew() {
    for moment in [500, 1_000, 2_000, 4_000, 9_000] {
        let mut domain = Domain::drawn(12, &["server --100,2-- a* --100,5-- b* --2,2-- phone"]);
        let bytes = random_bytes(4_000_000, 4);
        domain.publish("server", object("/lab/film", bytes.clone()));
        domain.run(Duration::from_secs(14));
        let (id, content) = domain.fetch("phone", "/lab/film");
        domain.run(ms(100));
        domain.cut("a", "b");
        domain.run(ms(1_900));
        domain.kill("server");
        domain.run(ms(1_000));
        domain.mend("a", "b");
        domain.run(ms(moment));
        domain.kill("b");
        domain.run(ms(1_000));
        domain.restart("b");
        domain.run(ms(1_000));
        let time = domain.finish("phone", id, 60);
        assert_eq!(content.finished(&name("/lab/film")).unwrap(), bytes);
        println!("killed after {moment} ms: {time:?}");
        assert!(time < Duration::from_secs(30), "{time:?}");
    }
}

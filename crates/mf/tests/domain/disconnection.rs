//! Receivers that go away and come back (paper §5.2), routers that are killed, full storage.
use tributary_content::ObjectId;
use tributary_core::ByteCount;
use tributary_mf::{
    config::{ProxyConfig, Rebinding},
    router::StoreReason,
    sender::SendOptions,
    wire::Reliability,
};
use tributary_transport::messaging::InNetwork;

use super::*;

const SIZE: usize = 10_000_000;

/// The duration of a transfer, with an optional outage of the last hop after one second.
fn transfer(outage: Option<Duration>, seed: u64, set: fn(&mut Config)) -> (Duration, Domain) {
    let mut domain = figure_7(seed, ms(50), 0.0, set);
    let bytes = random_bytes(SIZE, 1);
    domain.publish("n1", object("/lab/film", bytes.clone()));
    domain.run(Duration::from_secs(2));
    let (id, content) = domain.fetch("n4", "/lab/film");
    if let Some(outage) = outage {
        let (down, connection) = (domain.net.now() + ms(1_000 + seed * 37), domain.connection("n3", "n4"));
        domain.net.outage(connection, down, down + outage);
    }
    let time = domain.finish("n4", id, 200);
    assert_eq!(content.finished(&name("/lab/film")).unwrap(), bytes);
    domain.run(Duration::from_secs(1));
    domain.assert_conservation();
    (time, domain)
}

#[test]
fn at_most_a_tenth_of_a_second_is_lost_beyond_an_outage() {
    let (undisturbed, _) = transfer(None, 1, |_| {});
    for seconds in [10, 30] {
        for seed in 1..6 {
            let outage = Duration::from_secs(seconds);
            let (time, domain) = transfer(Some(outage), seed, |_| {});
            let lost = time.as_secs_f64() - undisturbed.as_secs_f64() - outage.as_secs_f64();
            println!(
                "outage {seconds} s: {lost:.3} s beyond the ideal; stored {:?}",
                domain.at("n3").proxy().unwrap().stats
            );
            assert!(lost <= 0.1, "{lost} s lost after {seconds} s");
            assert!(domain.at("n3").proxy().unwrap().stats.stored > 0, "it was stored on the way");
        }
    }
}

/// ```text
///   server ── core ── gate ─ 2 Mbit/s ─ d0, d1, …
/// ```
fn gateway(seed: u64, devices: usize, size: usize) -> Domain {
    let mut domain = Domain::drawn(seed, &["server --1000,5-- core* --1000,20-- gate*"]);
    for device in 0..devices {
        let label = format!("d{device}");
        domain.node(&label, |_| {});
        domain.link("gate", &label, 2, ms(10));
        domain.publish("server", object(&format!("/lab/film{device}"), random_bytes(size, device as u64)));
    }
    domain.run(Duration::from_secs(2));
    domain
}

#[test]
fn a_chunk_goes_on_where_a_long_absence_interrupted_it() {
    let mut domain = gateway(1, 1, 3_000_000);
    let (id, _) = domain.fetch("d0", "/lab/film0");
    let down = domain.net.now() + Duration::from_secs(8);
    domain.net.outage(domain.connection("gate", "d0"), down, down + Duration::from_secs(300));
    let time = domain.finish("d0", id, 600).as_secs_f64();
    let lost = time - 300.0 - 3_000_000.0 * 8e-6 / 2.0 / 0.966;
    println!("{lost:.3} s beyond the ideal");
    assert!(lost < 1.0, "{lost} s: a chunk takes four");
}

#[test]
fn who_comes_gets_what_is_stored_for_it_though_others_fill_the_buffer() {
    let mut domain = gateway(2, 5, 20_000_000);
    let (id, _) = domain.fetch("d0", "/lab/film0");
    domain.run(Duration::from_secs(1));
    domain.cut("gate", "d0");
    (1..5).for_each(|device| drop(domain.fetch(&format!("d{device}"), &format!("/lab/film{device}"))));
    domain.run(Duration::from_secs(15));
    assert!(domain.at("gate").holdings().len() > 10, "it is stored");
    let link = domain.connection("gate", "d0").a_to_b;
    let before = domain.net.link_stats(link).out_bytes;
    domain.mend("gate", "d0");
    domain.run(Duration::from_secs(20));
    let used = (domain.net.link_stats(link).out_bytes - before) as f64 * 8e-6 / 20.0 / 2.0;
    println!("{used:.3} of the link is used, {} bytes", domain.report("d0", id).stored_bytes);
    // At worst it waits for the first chunk of the others to leave.
    assert!(used > 0.75, "{used}");
}

#[test]
fn the_network_is_ahead_of_the_receiver_that_asks_again() {
    let outage = Some(Duration::from_secs(10));
    let (proactive, _) = transfer(outage, 2, |_| {});
    let (timer, _) = transfer(outage, 2, |config| config.proxy.rebinding = Rebinding::Timer);
    let (driven, _) = transfer(outage, 2, |config| {
        config.proxy.rebinding = Rebinding::Never;
        config.transfer.nack_timeout = ms(1_000);
    });
    println!("watching {proactive:?}, storage timer {timer:?}, receiver-driven {driven:?}");
    assert!(proactive <= timer && proactive < driven);
}

#[test]
fn chunks_follow_a_receiver_to_another_router() {
    for watching in [true, false] {
        let mut domain = Domain::drawn(
            4,
            &["server --100,1-- r1* --100,5-- r2*", "r1* --100,5-- r3*", "r2* --20,2-- mobile", "r3* --20,2-- mobile"],
        );
        domain.cut("r3", "mobile");
        let bytes = random_bytes(6_000_000, 2);
        domain.publish("server", object("/lab/film", bytes.clone()));
        domain.run(Duration::from_secs(2));
        let (id, content) = domain.fetch("mobile", "/lab/film");
        domain.run(ms(1_000));
        domain.cut("r2", "mobile");
        domain.run(Duration::from_secs(if watching { 5 } else { 0 }));
        domain.mend("r3", "mobile");
        let time = domain.finish("mobile", id, 60);
        println!("{time:?}, stored at r2 {:?}", domain.at("r2").proxy().unwrap().stats);
        assert_eq!(content.finished(&name("/lab/film")).unwrap(), bytes);
        // 2.4 s at 20 Mbit/s, and the outage; the NACK timeout of 3 s bounds further losses.
        let limit = if watching { 12_000 } else { 8_000 };
        assert!(time < ms(limit), "{time:?}");
        domain.run(Duration::from_secs(1));
        domain.assert_conservation();
    }
}

#[test]
fn a_router_that_is_killed_while_it_stores_loses_nothing_that_it_acknowledged() {
    let mut domain = figure_7(5, ms(20), 0.0, |_| {});
    let bytes = random_bytes(20_000_000, 3);
    let film = object("/lab/film", bytes.clone());
    domain.publish("n1", film);
    domain.run(Duration::from_secs(2));
    let (id, content) = domain.fetch("n4", "/lab/film");
    domain.run(ms(500));
    domain.cut("n3", "n4");
    domain.run(Duration::from_secs(5));
    let held = domain.at("n3").holdings().len();
    let (sent, again) = domain.at("n1").sender().chunks;
    assert!(held >= 10, "{held} chunks in store, {sent} sent, {again} again");
    domain.kill("n3");
    assert_eq!(domain.repositories["n3"].len(), held);
    domain.run(Duration::from_secs(2));
    domain.restart("n3");
    assert_eq!(domain.at("n3").proxy().unwrap().stats.restored as usize, held);
    let left = bytes.len() as u64 - domain.report("n4", id).stored_bytes;
    domain.mend("n3", "n4");
    let mended = domain.net.now();
    let time = domain.finish("n4", id, 60);
    assert_eq!(content.finished(&name("/lab/film")).unwrap(), bytes);
    let lost = domain.net.now().since(mended).as_secs_f64() - left as f64 * 8e-6 / 24.3;
    println!(
        "{lost:.3} s lost beyond what was left; {time:?}: {:?}, sender {:?}",
        domain.at("n3").proxy().unwrap().stats,
        domain.at("n1").sender().chunks
    );
    let again = domain.at("n1").sender().chunks.1;
    assert!(again <= 2, "{again} chunks were sent again: only what was in memory and not in store may be");
    assert!(lost < 0.5, "{lost} s");
}

#[test]
fn what_a_killed_router_had_in_memory_is_asked_for_at_once() {
    let (undisturbed, _) = transfer(None, 1, |_| {});
    let mut domain = figure_7(1, ms(50), 0.0, |_| {});
    let bytes = random_bytes(SIZE, 1);
    domain.publish("n1", object("/lab/film", bytes.clone()));
    domain.run(Duration::from_secs(2));
    let (id, content) = domain.fetch("n4", "/lab/film");
    domain.run(ms(1_500));
    assert!(domain.at("n3").router().buffer.len() > 1, "chunks wait there");
    domain.kill("n3");
    domain.run(ms(500));
    domain.restart("n3");
    let time = domain.finish("n4", id, 60);
    assert_eq!(content.finished(&name("/lab/film")).unwrap(), bytes);
    let lost = time.saturating_sub(undisturbed).as_secs_f64() - 0.5;
    println!("{lost:.3} s lost by the kill; {:?} chunks sent, and again", domain.at("n1").sender().chunks);
    // Instead of the NACK timeout of three seconds and more.
    assert!(domain.at("n1").sender().chunks.1 > 0 && lost < 1.0, "{lost} s");
}

/// The network of `trib demo --family mf`, without the publishers that the receiver does not choose.
/// ```text
///   server ── 50 ── core ── 100, 10 ms ── access ── 40, 5 ms ── receiver
/// ```
#[test]
fn a_router_killed_while_its_host_is_away_costs_little_and_brings_little_twice() {
    for seed in 1..6 {
        let mut domain = Domain::drawn(seed, &["server --50,2-- core* --100,10-- access* --40,5-- receiver"]);
        let bytes = random_bytes(48_000_000, 1);
        domain.publish("server", object("/lab/film", bytes.clone()));
        domain.run(Duration::from_secs(2));
        let (id, content) = domain.fetch("receiver", "/lab/film");
        domain.run(ms(3_000 + seed * 37));
        let down = domain.net.now();
        domain.cut("access", "receiver");
        while domain.repositories["access"].len() < 4 {
            domain.run(ms(50));
        }
        let (buffered, killed_at) = (domain.at("access").router().buffer.len(), domain.net.now());
        domain.kill("access");
        domain.run(ms(100));
        domain.restart("access");
        domain.net.run_until(down + Duration::from_secs(3));
        domain.mend("access", "receiver");
        let time = domain.finish("receiver", id, 60);
        assert_eq!(content.finished(&name("/lab/film")).unwrap(), bytes);
        let ideal = 3.0 + 48_000_000.0 * 8e-6 / 40.0 / 0.966;
        let lost = time.as_secs_f64() - ideal;
        let report = domain.report("receiver", id);
        println!(
            "{lost:.3} s lost; {} bytes twice, {} again; killed after {:?} with {buffered} chunks; sent {:?}, {:?}",
            report.duplicate_bytes,
            report.retransmitted_bytes,
            killed_at.since(down),
            domain.at("server").sender().chunks,
            domain.at("access").proxy().unwrap().stats
        );
        assert!(lost < 0.5 && report.duplicate_bytes < 1 << 20, "{lost} s");
    }
}

/// Pushes an object of `size` bytes to a device; returns the object.
fn push(domain: &mut Domain, from: &str, to: &str, path: &str, size: usize, options: fn(&mut SendOptions)) -> ObjectId {
    use tributary_content::store::ObjectReader;
    let to = domain.at(to).guid();
    let object = object(path, random_bytes(size, size as u64));
    let id = object.manifest().publication_id();
    domain.with(from, |node, now| {
        node.offer(Box::new(object));
        let mut chosen = SendOptions::new(&node.config().transfer);
        options(&mut chosen);
        node.send(now, id, to, chosen).unwrap();
    });
    id
}
fn accept(domain: &mut Domain, label: &str) -> MemoryContent {
    let opener = MemoryOpener::new();
    let content = opener.content();
    domain.with(label, |node, _| node.accept(Box::new(opener)));
    content
}

/// n1 has just delegated a reading to n4, whose link is cut.
fn delegated_while_cut(seed: u64) -> (Domain, MemoryContent) {
    let mut domain = figure_7(seed, ms(20), 0.0, |_| {});
    domain.run(Duration::from_secs(1));
    let content = accept(&mut domain, "n4");
    domain.cut("n3", "n4");
    domain.run(Duration::from_secs(2));
    push(&mut domain, "n1", "n4", "/sensor/reading", 200_000, |options| options.in_network = InNetwork::Delegate);
    (domain, content)
}

#[test]
fn a_sensor_may_sleep_once_its_access_router_has_its_data() {
    let (mut domain, content) = delegated_while_cut(6);
    domain.run(ms(500));
    domain.kill("n1");
    domain.run(Duration::from_secs(5));
    assert_eq!(content.finished(&name("/sensor/reading")), None);
    assert!(!domain.at("n2").holdings().is_empty(), "a copy lies at the producer's access router");
    // Routers may restart; losing the disk is another matter (see below).
    for router in ["n2", "n3"] {
        domain.kill(router);
        domain.restart(router);
    }
    domain.run(Duration::from_secs(3));
    domain.mend("n3", "n4");
    domain.run(Duration::from_secs(5));
    let got = content.finished(&name("/sensor/reading"));
    assert!(got == Some(random_bytes(200_000, 200_000)), "{:?}", domain.at("n3").holdings());
    let left = ["n2", "n3"].map(|router| domain.at(router).holdings().len());
    assert_eq!(left, [0, 0], "no copy of what has arrived is kept");
}

#[test]
fn what_is_delegated_waits_in_the_one_router_of_a_sensor_and_its_receiver_through_a_kill() {
    for kills in [false, true] {
        let mut domain = Domain::drawn(21, &["sensor --10,1-- gate* --10,1-- hub"]);
        domain.run(Duration::from_secs(1));
        let content = accept(&mut domain, "hub");
        domain.cut("gate", "hub");
        domain.run(Duration::from_secs(2));
        push(&mut domain, "sensor", "hub", "/sensor/reading", 200_000, |options| {
            options.in_network = InNetwork::Delegate
        });
        domain.run(Duration::from_secs(1));
        domain.kill("sensor");
        if kills {
            domain.kill("gate");
            domain.restart("gate");
        }
        domain.run(Duration::from_secs(3));
        let held = domain.at("gate").holdings();
        assert!(!held.is_empty() && held.iter().all(|held| held.delegated && held.owed), "{held:?}");
        domain.mend("gate", "hub");
        domain.run(Duration::from_secs(3));
        let got = content.finished(&name("/sensor/reading"));
        assert!(got == Some(random_bytes(200_000, 200_000)), "killed: {kills}, {:?}", domain.at("gate").holdings());
        assert_eq!(domain.at("gate").holdings().len(), 0, "no copy of what has arrived is kept");
    }
}

#[test]
fn what_is_delegated_waits_for_a_better_way_though_its_sensor_sleeps() {
    let mut domain = figure_7(9, ms(20), 0.0, |_| {});
    // See `chunks_wait_while_the_way_is_much_worse_than_usual`.
    domain.run(Duration::from_secs(25));
    let content = accept(&mut domain, "n4");
    let connection = domain.connection("n2", "n3");
    domain.net.change(connection, LinkChange::Delay(ms(60)));
    domain.run(Duration::from_secs(5));
    push(&mut domain, "n1", "n4", "/sensor/reading", 200_000, |options| options.in_network = InNetwork::Delegate);
    domain.run(ms(500));
    domain.kill("n1");
    let held = domain.at("n2").holdings();
    assert!(held.iter().any(|held| held.owed && held.reason == StoreReason::BadPath), "{held:?}");
    domain.net.change(connection, LinkChange::Delay(ms(10)));
    domain.run(Duration::from_secs(10));
    let got = content.finished(&name("/sensor/reading"));
    assert!(got == Some(random_bytes(200_000, 200_000)), "{:?}", domain.at("n2").holdings());
}

#[test]
fn what_was_stored_for_a_device_is_not_lost_if_it_comes_before_anybody_takes_it() {
    use tributary_transport::{Messaging, messaging::AcceptOptions};
    let mut domain = figure_7(8, ms(20), 0.0, |_| {});
    domain.run(Duration::from_secs(1));
    domain.cut("n3", "n4");
    domain.run(Duration::from_secs(2));
    push(&mut domain, "n1", "n4", "/lab/film", 3_000_000, |_| {});
    domain.run(Duration::from_secs(3));
    domain.kill("n1");
    domain.mend("n3", "n4");
    domain.run(Duration::from_secs(3));
    let opener = MemoryOpener::new();
    let content = opener.content();
    domain.with("n4", |node, now| Messaging::accept(node, now, Some(Box::new(opener)), &AcceptOptions::default()));
    domain.run(Duration::from_secs(1));
    assert!(content.finished(&name("/lab/film")).unwrap() == random_bytes(3_000_000, 3_000_000));
}

#[test]
fn what_nobody_comes_for_is_given_up_after_its_lifetime_and_stored_no_longer() {
    let mut domain = figure_7(8, ms(20), 0.0, |config| config.proxy.lifetime = Duration::from_secs(20));
    domain.run(Duration::from_secs(1));
    domain.cut("n3", "n4");
    domain.run(Duration::from_secs(2));
    let lifetime = Duration::from_secs(60);
    push(&mut domain, "n1", "n4", "/lab/news", 300_000, |options| options.lifetime = Some(Duration::from_secs(60)));
    let (begin, mut stored) = (domain.net.now(), 0);
    while domain.net.now().since(begin) < lifetime - ms(600) {
        domain.run(ms(500));
        // While its name has no binding, the first router keeps it.
        stored += usize::from(["n2", "n3"].iter().any(|router| !domain.at(router).holdings().is_empty()));
        assert_eq!(domain.at("n1").sender().flows(), 1);
    }
    assert!(stored > 100, "the router keeps it 20 s at a time, and its source sends it again: {stored}");
    domain.run(ms(1_600));
    let kept = |domain: &Domain| ["n2", "n3"].map(|router| domain.at(router).holdings().len());
    assert_eq!((domain.at("n1").sender().flows(), kept(&domain)), (0, [0, 0]));
    let is_reported = |event: &Event| matches!(event, Event::Note(note) if note.contains("its lifetime was over"));
    assert_eq!(domain.events.borrow().iter().filter(|(.., event)| is_reported(event)).count(), 1);
    domain.mend("n3", "n4");
    let content = accept(&mut domain, "n4");
    domain.run(Duration::from_secs(30));
    assert_eq!((content.finished(&name("/lab/news")), kept(&domain)), (None, [0, 0]), "nothing of it is anywhere");
}

#[test]
fn a_file_of_many_windows_is_stored_as_a_whole_for_a_receiver_that_is_away() {
    let mut domain = figure_7(9, ms(20), 0.0, |_| {});
    domain.run(Duration::from_secs(1));
    let content = accept(&mut domain, "n4");
    domain.cut("n3", "n4");
    domain.run(Duration::from_secs(2));
    let size = 40_000_000;
    push(&mut domain, "n1", "n4", "/lab/long", size, |_| {});
    domain.run(Duration::from_secs(30));
    let stored: u64 = domain.at("n3").holdings().iter().map(|held| held.bytes).sum();
    assert!(stored >= size as u64, "{stored} bytes are stored: windows wait for a receiver that cannot answer");
    domain.kill("n1");
    domain.mend("n3", "n4");
    domain.run(Duration::from_secs(20));
    assert!(content.finished(&name("/lab/long")).unwrap() == random_bytes(size, size as u64));
}

#[test]
fn each_kind_of_reliability_delivers_and_says_as_much_as_it_should() {
    for reliability in [Reliability::DontCare, Reliability::Nack, Reliability::Ack] {
        let mut domain = figure_7(7, ms(20), 0.02, |_| {});
        domain.run(Duration::from_secs(1));
        let content = accept(&mut domain, "n4");
        let set: fn(&mut SendOptions) = match reliability {
            Reliability::DontCare => |options| options.reliability = Reliability::DontCare,
            Reliability::Nack => |options| options.reliability = Reliability::Nack,
            Reliability::Ack => |options| options.reliability = Reliability::Ack,
        };
        push(&mut domain, "n1", "n4", "/lab/message", 50_000, set);
        domain.run(Duration::from_secs(2));
        assert_eq!(content.finished(&name("/lab/message")).map(|bytes| bytes.len()), Some(50_000), "{reliability:?}");
        assert_eq!(domain.at("n1").sender().flows(), 0, "{reliability:?}: the sender knows that it is done");
    }
}

#[test]
fn what_a_killed_router_had_in_memory_is_repeated_unless_nobody_cares() {
    for reliability in [Reliability::DontCare, Reliability::Nack, Reliability::Ack] {
        let mut domain = figure_7(7, ms(20), 0.0, |_| {});
        domain.run(Duration::from_secs(1));
        let content = accept(&mut domain, "n4");
        let set: fn(&mut SendOptions) = match reliability {
            Reliability::DontCare => |options| options.reliability = Reliability::DontCare,
            Reliability::Nack => |options| options.reliability = Reliability::Nack,
            Reliability::Ack => |options| options.reliability = Reliability::Ack,
        };
        push(&mut domain, "n1", "n4", "/lab/film", 6_000_000, set);
        domain.run(ms(700));
        let buffered = domain.at("n3").router().buffer.len();
        assert!(buffered > 1, "{buffered} chunks wait there");
        domain.kill("n3");
        domain.run(ms(500));
        domain.restart("n3");
        domain.run(Duration::from_secs(60));
        let again = domain.at("n1").sender().chunks.1;
        let cares = reliability != Reliability::DontCare;
        assert_eq!(
            (content.finished(&name("/lab/film")).is_some(), again > 0),
            (cares, cares),
            "{reliability:?}: {again}"
        );
        assert!(again <= buffered as u64, "{reliability:?}: {again} again of {buffered} that were lost");
        assert_eq!(domain.at("n1").sender().flows(), 0, "{reliability:?}: the sender knows that it is done");
    }
}

/// 4 MB of n1 and, at the same time, more from another source have been in transit to n4 for ten seconds, whose link is
/// cut.
fn modest_beside_greedy(seed: u64, set: fn(&mut Config), greedy: usize) -> (Domain, MemoryContent) {
    let mut domain = figure_7(seed, ms(20), 0.0, set);
    domain.node("greedy", |_| {});
    domain.link("greedy", "n2", 1_000, ms(1));
    domain.run(Duration::from_secs(2));
    let content = accept(&mut domain, "n4");
    domain.cut("n3", "n4");
    domain.run(Duration::from_secs(2));
    push(&mut domain, "n1", "n4", "/lab/modest", 4_000_000, |_| {});
    push(&mut domain, "greedy", "n4", "/lab/greedy", greedy, |_| {});
    domain.run(Duration::from_secs(10));
    (domain, content)
}
/// Bytes of a source in the store of n3.
fn held_of(domain: &Domain, source: &str) -> u64 {
    let guid = domain.at(source).guid();
    let holdings = domain.at("n3").holdings();
    holdings.iter().filter(|held| held.key.flow.source == guid).map(|held| held.bytes).sum()
}

#[test]
fn a_flow_that_uses_up_its_share_of_the_store_harms_nobody_else() {
    let set = |config: &mut Config| {
        config.proxy.capacity = ByteCount(40_000_000);
        config.proxy.flow_capacity = ByteCount(10_000_000);
    };
    let (mut domain, content) = modest_beside_greedy(8, set, 60_000_000);
    let (greedy, modest) = (held_of(&domain, "greedy"), held_of(&domain, "n1"));
    assert!(greedy <= 10_000_000 && greedy > 8_000_000, "{greedy}");
    assert!(modest >= 4_000_000, "all of the modest flow is held: {modest}");
    domain.mend("n3", "n4");
    let back = domain.net.now();
    let all = || content.finished(&name("/lab/modest")).is_some() && content.finished(&name("/lab/greedy")).is_some();
    while !all() && domain.net.now().since(back) < Duration::from_secs(60) {
        domain.run(ms(50));
    }
    // The minimum is 21.0 s.
    let took = domain.net.now().since(back);
    println!("both together take {took:?}");
    assert!(took < ms(22_000), "{took:?}: what was dropped is sent again");
    domain.run(Duration::from_secs(2));
    domain.assert_conservation();
}

#[test]
fn what_waits_in_the_last_store_does_not_wait_for_all_that_comes_from_those_before_it() {
    let set = |config: &mut Config| {
        config.proxy.capacity = ByteCount(16_000_000);
        config.proxy.flow_capacity = ByteCount(16_000_000);
    };
    let (mut domain, content) = modest_beside_greedy(13, set, 40_000_000);
    let (greedy, modest) = (held_of(&domain, "greedy"), held_of(&domain, "n1"));
    assert!(modest >= 4_000_000 && greedy > 8_000_000, "{modest}, {greedy}");
    domain.mend("n3", "n4");
    // Alone they take 1.3 s; those not yet in this store take 8 s and more.
    domain.run(Duration::from_secs(4));
    assert!(content.finished(&name("/lab/modest")).is_some(), "{} are here still", held_of(&domain, "n1"));
    domain.run(Duration::from_secs(56));
    assert!(content.finished(&name("/lab/greedy")).is_some());
    domain.assert_conservation();
}

#[test]
fn many_sources_that_fill_a_small_store_take_nothing_of_what_another_was_promised() {
    let mut domain = figure_7(22, ms(20), 0.0, |config| config.proxy = ProxyConfig::with_capacity(ByteCount(20 << 20)));
    let greedy = ["g0", "g1", "g2", "g3", "g4", "g5"];
    for label in greedy {
        domain.node(label, |_| {});
        domain.link(label, "n2", 1_000, ms(1));
    }
    domain.run(Duration::from_secs(2));
    let content = accept(&mut domain, "n4");
    domain.cut("n3", "n4");
    domain.run(Duration::from_secs(2));
    push(&mut domain, "n1", "n4", "/lab/modest", 2_000_000, |_| {});
    domain.run(Duration::from_secs(3));
    let modest = domain.at("n1").guid();
    // Chunks that the network has promised to keep may leave their source.
    domain.kill("n1");
    for label in greedy {
        push(&mut domain, label, "n4", &format!("/lab/{label}"), 30_000_000, |_| {});
    }
    domain.run(Duration::from_secs(20));
    let holdings = domain.at("n3").holdings();
    let kept = holdings.iter().filter(|held| held.key.flow.source == modest).map(|held| held.bytes).sum::<u64>();
    let all = holdings.iter().map(|held| held.bytes).sum::<u64>();
    assert!(kept >= 2_000_000 && all > 15 << 20, "{kept} of {all} bytes in a store that others fill");
    domain.mend("n3", "n4");
    domain.run(Duration::from_secs(120));
    assert!(content.finished(&name("/lab/modest")).is_some());
    for label in greedy {
        assert!(content.finished(&name(&format!("/lab/{label}"))).is_some(), "{label} has sent again what had no room");
    }
    domain.assert_conservation();
}

/// ```text
///             ┌─ near, 5 ms ─┐
///   n1 ── west               east ── n4
///             └─ far, 10 ms ─┘
/// ```
#[test]
fn what_has_two_ways_goes_round_the_one_whose_storage_is_used_up() {
    for percent in [30, 0] {
        let paths = [
            "n1 --100,1-- west* --100,5-- near* --100,5-- east*",
            "west --100,10-- far* --100,10-- east --100,1-- n4",
            "near --100,1-- gone",
        ];
        let mut domain = Domain::drawn_with(23, &paths, |_, config| {
            config.proxy.depleted_percent = percent;
            config.proxy.capacity = ByteCount(3_000_000);
            config.proxy.flow_capacity = ByteCount(3_000_000);
        });
        domain.run(Duration::from_secs(3));
        let content = accept(&mut domain, "n4");
        let carried = |domain: &Domain| {
            [("west", "near"), ("west", "far")].map(|(a, b)| {
                let link = domain.connection(a, b).a_to_b;
                domain.net.link_stats(link).out_bytes
            })
        };
        let send = |domain: &mut Domain, path: &str| {
            let before = carried(domain);
            push(domain, "n1", "n4", path, 2_000_000, |_| {});
            domain.run(Duration::from_secs(3));
            let after = carried(domain);
            assert!(content.finished(&name(path)).is_some());
            [after[0] - before[0], after[1] - before[1]].map(|bytes| bytes > 2_000_000)
        };
        assert_eq!(send(&mut domain, "/lab/before"), [true, false], "the shorter one");
        domain.cut("near", "gone");
        domain.run(Duration::from_secs(2));
        push(&mut domain, "n1", "gone", "/lab/kept", 2_200_000, |_| {});
        domain.run(Duration::from_secs(3));
        let (used, _) = domain.at("near").proxy().unwrap().usage();
        assert!(used.0 > 2_100_000, "more than seven tenths: {used}");
        // A node without storage is not reported as nearly full.
        assert_eq!(send(&mut domain, "/lab/after"), [percent == 0, percent > 0], "{percent} percent");
    }
}

#[test]
fn what_a_depleted_store_cannot_hold_waits_upstream() {
    let mut domain = Domain::drawn_with(12, &["n1 --100,1-- n2* --100,10-- n3* --25,1-- n4"], |label, config| {
        if label == "n3" {
            config.proxy.capacity = ByteCount(3_000_000);
            config.proxy.flow_capacity = ByteCount(3_000_000);
        }
    });
    domain.run(Duration::from_secs(2));
    let content = accept(&mut domain, "n4");
    domain.cut("n3", "n4");
    domain.run(Duration::from_secs(2));
    push(&mut domain, "n1", "n4", "/lab/film", 12_000_000, |_| {});
    domain.run(Duration::from_secs(10));
    let [upstream, here] = ["n2", "n3"].map(|label| domain.at(label).holdings());
    let bytes = |holdings: &[tributary_mf::router::proxy::Holding]| holdings.iter().map(|held| held.bytes).sum::<u64>();
    println!("{} bytes in {} chunks at n2, {} at n3", bytes(&upstream), upstream.len(), bytes(&here));
    assert!(bytes(&here) <= 3_000_000 && here.len() == 3, "the description and two chunks of 1 MiB fit");
    assert!(upstream.len() >= 9 && upstream.iter().all(|held| held.reason == StoreReason::Depleted), "{upstream:?}");
    let carried = domain.net.links().map(|(.., link)| link.stats().in_bytes).max().unwrap();
    assert!(carried < 15_000_000, "{carried}: chunks are not sent to and fro");
    domain.mend("n3", "n4");
    let start = domain.net.now();
    domain.run(Duration::from_secs(20));
    let got = content.finished(&name("/lab/film")).map(|bytes| bytes.len());
    assert_eq!(got, Some(12_000_000), "{:?}", domain.at("n2").holdings());
    let (sent, again) = domain.at("n1").sender().chunks;
    println!("{sent} chunks sent, {again} again, since {start}");
    assert_eq!(again, 0, "nothing was lost");
    domain.assert_conservation();
}

#[test]
fn chunks_wait_while_the_way_is_much_worse_than_usual() {
    let mut domain = figure_7(9, ms(20), 0.0, |_| {});
    let bytes = random_bytes(3_000_000, 4);
    domain.publish("n1", object("/lab/film", bytes.clone()));
    // Long enough for ten samples of the usual cost.
    domain.run(Duration::from_secs(25));
    let connection = domain.connection("n2", "n3");
    domain.net.change(connection, LinkChange::Delay(ms(60)));
    // Three samples of the new one: the short-term cost has moved, the long-term cost has not.
    domain.run(Duration::from_secs(5));
    let (id, content) = domain.fetch("n4", "/lab/film");
    domain.run(ms(500));
    let held = domain.at("n2").holdings();
    assert!(held.iter().any(|held| held.reason == StoreReason::BadPath), "{held:?}");
    assert!(domain.at("n2").router().stats.sent > 0);
    domain.net.change(connection, LinkChange::Delay(ms(10)));
    domain.finish("n4", id, 60);
    assert_eq!(content.finished(&name("/lab/film")).unwrap(), bytes);
}

#[test]
fn the_copy_at_the_access_router_answers_for_a_producer_that_sleeps() {
    let mut domain = figure_7(11, ms(20), 0.0, |config| config.transfer.nack_timeout = ms(500));
    domain.run(Duration::from_secs(1));
    let content = accept(&mut domain, "n4");
    push(&mut domain, "n1", "n4", "/sensor/film", 4_000_000, |options| options.in_network = InNetwork::Delegate);
    // Everything has left the producer, and the router in the middle loses its memory.
    domain.run(ms(300));
    domain.kill("n1");
    domain.kill("n3");
    domain.repositories.insert("n3".into(), Disk::default());
    domain.run(ms(200));
    domain.restart("n3");
    domain.run(Duration::from_secs(30));
    let got = content.finished(&name("/sensor/film")).map(|bytes| bytes.len());
    assert_eq!(got, Some(4_000_000), "{:?}", domain.at("n2").holdings());
}

#[test]
fn who_heard_nothing_of_what_was_delegated_is_sent_it_though_its_producer_sleeps() {
    let (mut domain, content) = delegated_while_cut(12);
    domain.run(Duration::from_secs(1));
    domain.kill("n1");
    // Everything has left for its receiver's router, which loses it with its disk.
    assert!(domain.at("n2").holdings().iter().all(|held| held.delegated && !held.owed));
    domain.kill("n3");
    domain.repositories.insert("n3".into(), Disk::default());
    domain.restart("n3");
    domain.mend("n3", "n4");
    // It is reminded after 12 s, and reports missing chunks 3 s later.
    domain.run(Duration::from_secs(18));
    let got = content.finished(&name("/sensor/reading"));
    assert!(got == Some(random_bytes(200_000, 200_000)), "{:?}", domain.at("n2").holdings());
    assert_eq!(domain.at("n2").holdings().len(), 0, "no copy of what has arrived is kept");
    let reminded = |domain: &Domain| domain.at("n2").proxy().unwrap().stats.reminded;
    assert_eq!(reminded(&domain), 1);
    domain.run(Duration::from_secs(60));
    assert_eq!(reminded(&domain), 1, "nobody is reminded of what has arrived");
}

#[test]
fn a_router_that_is_killed_in_the_midst_of_a_chunk_does_not_block_the_next_one() {
    // Chunks arrive slowly and are forwarded during their arrival.
    let mut domain = Domain::drawn(1, &["n1 --5,1-- n2* --100,10-- n3* --100,1-- n4"]);
    let bytes = random_bytes(3_000_000, 1);
    domain.publish("n1", object("/lab/film", bytes.clone()));
    domain.run(Duration::from_secs(2));
    let (id, content) = domain.fetch("n4", "/lab/film");
    domain.run(Duration::from_secs(1));
    assert!(domain.at("n3").router().stats.cut_through > 0);
    domain.kill("n2");
    domain.run(ms(300));
    domain.restart("n2");
    domain.finish("n4", id, 20);
    assert_eq!(content.finished(&name("/lab/film")).unwrap(), bytes);
}

#[test]
fn a_link_that_is_full_is_not_a_bad_one() {
    for (kbps, queue_bytes, chunk_bytes) in
        [(1_100, 10_000, 1 << 16), (2_000, 33_000, 1 << 16), (25_000, 250_000, 1 << 20)]
    {
        let mut domain = Domain::new(1);
        domain.node("n1", |config| config.transfer.chunk_bytes = chunk_bytes);
        domain.router("n2");
        domain.router("n3");
        domain.node("n4", |config| config.transfer.chunk_bytes = chunk_bytes);
        domain.link("n1", "n2", 100, ms(1));
        let rate = Rate::from_bits_per_second(kbps * 1_000);
        domain.link_with("n2", "n3", LinkConfig { queue_bytes, ..LinkConfig::new(rate, ms(5)) });
        domain.link("n3", "n4", 100, ms(1));
        let bytes = random_bytes(rate.bytes_in(Duration::from_secs(60)) as usize, 1);
        domain.publish("n1", object("/lab/film", bytes.clone()));
        // Long enough for ten samples of the idle link.
        domain.run(Duration::from_secs(25));
        let (id, content) = domain.fetch("n4", "/lab/film");
        let took = domain.finish("n4", id, 64);
        assert_eq!(content.finished(&name("/lab/film")).unwrap(), bytes);
        assert!(took >= Duration::from_secs(60), "{kbps} kbit/s: {took:?}");
        assert_eq!(domain.at("n2").proxy().map(|proxy| proxy.stats.stored), Some(0));
    }
}

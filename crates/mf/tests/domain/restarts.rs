//! Restarts of routers.
use super::*;

#[derive(Clone, Copy)]
enum Step {
    Kill,
    Restart,
    Fetch,
}

/// Two routers, the first with the names, and the devices at each.
fn two_routers(at_server: &str, at_reader: &str) -> Domain {
    let mut domain = Domain::new(30);
    domain.router("r1");
    domain.node("r2", |config| config.router = true);
    domain.link("r1", "r2", 100, Duration::from_micros(100));
    for (label, router) in [("server", at_server), ("reader", at_reader)] {
        domain.node(label, |_| {});
        domain.link(label, router, 100, Duration::from_micros(100));
    }
    domain.keep_names("r1");
    domain
}

/// The router that keeps the names is killed, and restarts 0.3 s later with its disk; a reader starts and fetches
/// `fetch_after` milliseconds after the kill. Returns the time from when both are up.
fn fetch_about_a_restart(at_server: &str, at_reader: &str, fetch_after: i64) -> Duration {
    let mut domain = two_routers(at_server, at_reader);
    let bytes = random_bytes(100_000, 1);
    domain.publish("server", object("/lab/file", bytes.clone()));
    domain.run(Duration::from_secs(4));
    domain.kill("reader");
    let start = domain.net.now();
    let at = |after: i64| start + ms((1_000 + after) as u64);
    let mut steps = [(at(0), Step::Kill), (at(300), Step::Restart), (at(fetch_after), Step::Fetch)];
    steps.sort_by_key(|(at, _)| *at);
    let mut fetch = None;
    for (at, step) in steps {
        domain.net.run_until(at);
        match step {
            Step::Kill => domain.kill("r1"),
            Step::Restart => domain.restart("r1"),
            Step::Fetch => {
                domain.restart("reader");
                fetch = Some(domain.fetch("reader", "/lab/file"));
            }
        }
    }
    let (begun, (id, content)) = (domain.net.now(), fetch.unwrap());
    domain.finish("reader", id, 60);
    assert_eq!(content.finished(&name("/lab/file")).unwrap(), bytes);
    domain.report("reader", id).ended.unwrap().since(begun)
}

#[test]
fn a_fetch_about_a_restart_of_the_router_that_keeps_the_names_goes_on_at_once() {
    for (at_server, at_reader) in [("r1", "r1"), ("r1", "r2"), ("r2", "r1"), ("r2", "r2")] {
        let offsets = (-10..40).map(|step| step * 25).chain((-25..10).map(|step| step * 2));
        let times = offsets.map(|after| (fetch_about_a_restart(at_server, at_reader, after), after));
        let (slowest, after) = times.max().unwrap();
        println!("server at {at_server}, reader at {at_reader}: {slowest:?} {after} ms after the router was killed");
        assert!(slowest < ms(500), "{slowest:?}");
    }
}

#[test]
fn who_waits_for_a_name_is_told_of_it_though_the_router_that_keeps_it_has_started_anew() {
    for (at_server, at_reader) in [("r1", "r1"), ("r1", "r2"), ("r2", "r1"), ("r2", "r2")] {
        let mut domain = two_routers(at_server, at_reader);
        domain.run(Duration::from_secs(4));
        let (id, _) = domain.fetch("reader", "/lab/file");
        domain.run(Duration::from_secs(1));
        domain.kill("r1");
        domain.run(ms(300));
        domain.restart("r1");
        domain.run(Duration::from_secs(1));
        domain.publish("server", object("/lab/file", random_bytes(100_000, 1)));
        let published = domain.net.now();
        domain.finish("reader", id, 60);
        let time = domain.net.now().since(published);
        println!("server at {at_server}, reader at {at_reader}: {time:?}");
        assert!(time < ms(500), "{time:?}");
    }
}

#[test]
fn a_face_that_is_removed_leaves_nothing_in_the_buffer() {
    let mut domain = Domain::new(31);
    domain.router("r1");
    for label in ["source", "reader"] {
        domain.node(label, |_| {});
        domain.link(label, "r1", 20, ms(5));
    }
    domain.publish("source", object("/lab/file", random_bytes(5_000_000, 1)));
    domain.run(Duration::from_secs(2));
    domain.fetch("reader", "/lab/file");
    domain.run(ms(500));
    let face = domain.faces["r1"][0];
    domain.cut("source", "r1");
    domain.run(Duration::from_secs(10));
    assert!(domain.at("r1").router().buffer.used() > 0, "a chunk was under way");
    domain.with("r1", |node, now| node.remove_face(now, face));
    let router = domain.at("r1").router();
    assert!(router.buffer.used() == 0 && router.face_stats(face).is_none());
}

#[test]
fn two_machines_with_one_key_are_reported_once_and_a_restart_is_not() {
    let mut domain = Domain::new(31);
    domain.router("r1");
    for label in ["phone", "clone"] {
        domain.node(label, |config| config.secret = [7; 32]);
        domain.link(label, "r1", 100, ms(1));
    }
    domain.cut("clone", "r1");
    domain.run(Duration::from_secs(2));
    domain.kill("phone");
    domain.restart("phone");
    // The same machine at another address.
    domain.run(Duration::from_secs(3));
    domain.mend("clone", "r1");
    domain.cut("phone", "r1");
    domain.run(Duration::from_secs(5));
    let reports = |domain: &Domain| {
        let is_report = |event: &Event| matches!(event, Event::Note(text) if text.contains("two machines"));
        domain.events.borrow().iter().filter(|(.., event)| is_report(event)).count()
    };
    assert_eq!(reports(&domain), 0);
    domain.mend("phone", "r1");
    domain.run(Duration::from_secs(20));
    assert_eq!(reports(&domain), 1);
}

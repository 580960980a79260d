//! Messages between real nodes over UDP: to a group, and to an absent node for which a router stores them.
use std::sync::Arc;
use tributary::{
    Api, LocalApi, Notice, Request, Term,
    messenger::{Messenger, MessengerOptions},
    views::StoreView,
};
use tributary_core::Duration;
use tributary_transport::messaging::{
    Destination, GetOptions, InNetwork, Reliability, SendOptions, SendReport, Spread,
};

use super::nodes::{ENDS, ROUTER, node, port};

#[path = "../../examples/messages.rs"]
mod example;

fn wait(messenger: &Messenger, transfer: tributary_core::TransferId) -> SendReport {
    let clock = tributary::Clock::new();
    loop {
        let report = messenger.report(transfer).unwrap().unwrap();
        if report.is_over || clock.now() > tributary_core::Time::from_millis(30_000) {
            return report;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
fn store(api: &LocalApi) -> StoreView {
    let notices = api.answers(Request::Store).unwrap().remove(0);
    let Notice::Store(view) = notices else { panic!("{notices:?}") };
    view
}

fn count(api: &LocalApi, of: &str) -> u64 {
    let notices = api.answers(Request::Status).unwrap().remove(0);
    let Notice::Status(status) = notices else { panic!("{notices:?}") };
    status.counters[of]
}

#[test]
fn one_message_reaches_all_that_are_attached_and_each_has_verified_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = port();
    let _router = node(folder.path(), "router", ROUTER, at, None);
    let group = "/lab/all".parse().unwrap();
    let open = |label: &str, names: &[tributary_content::Name]| {
        let api = node(folder.path(), label, ENDS, port(), Some(at));
        Messenger::open(api, names, MessengerOptions::default()).unwrap()
    };
    let members: Vec<Messenger> = ["m1", "m2", "m3"].map(|label| open(label, std::slice::from_ref(&group))).into();
    let source = open("source", &[]);
    // The resolver gets the names, but no event reports it.
    std::thread::sleep(Duration::from_millis(500));
    let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    for spread in [Spread::All, Spread::AllByProxies(2)] {
        let name = format!("/lab/film/{}", if spread == Spread::All { 1 } else { 2 }).parse().unwrap();
        let options = SendOptions { spread, ..SendOptions::default() };
        let transfer = source.send(name, bytes.clone(), &Destination::Name(group.clone()), &options).unwrap();
        let report = wait(&source, transfer);
        assert_eq!((report.delivered.len(), report.destinations), (3, 3), "{report:?}");
        for member in &members {
            assert!(member.next(Duration::from_secs(1)).unwrap().bytes == bytes);
        }
    }
}

#[test]
fn the_example_of_the_library_works() {
    example::main().unwrap();
}

#[test]
fn a_messenger_gets_what_is_published_and_follows_its_names() {
    let folder = tempfile::tempdir().unwrap();
    let at = port();
    let router = node(folder.path(), "router", ROUTER, at, None);
    let open = |label: &str, options: MessengerOptions| {
        Messenger::open(node(folder.path(), label, ENDS, port(), Some(at)), &[], options).unwrap()
    };
    let hub = open("hub", MessengerOptions::default());
    let narrow = open("narrow", MessengerOptions { message_bytes_max: 1_000, ..MessengerOptions::default() });
    let bytes: Vec<u8> = (0..300_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    let path = folder.path().join("plan");
    std::fs::write(&path, &bytes).unwrap();
    let put = Request::Put {
        path,
        name: "/lab/plan".into(),
        version: None,
        patience_ms: 5_000,
        term: Term::UntilRemoved,
        readers: Vec::new(),
        mirrors: Vec::new(),
    };
    let reader = open("reader", MessengerOptions::default());
    hub.api().answers(put).unwrap();
    let name = "/lab/plan".parse().unwrap();
    let patience = Duration::from_secs(10);
    let options = GetOptions {
        chunk_bytes: Some(10_000),
        reliability: Some(Reliability::Ack),
        nack_timeout: Some(Duration::from_millis(200)),
        in_network: Some(InNetwork::Delegate),
    };
    assert!(reader.get(&name, &options, patience).unwrap().bytes == bytes);
    assert_eq!(count(hub.api(), "object chunks sent"), 31, "30 of 10,000 bytes, and the description");
    assert_eq!(count(&router, "chunks stored"), 31, "to answer for the hub");
    let refused = narrow.get(&name, &GetOptions::default(), Duration::from_secs(3)).unwrap_err();
    assert!(refused.to_string().contains("cannot fetch '/lab/plan'"), "{refused}");
    let nobody = reader.get(&"/lab/none".parse().unwrap(), &options, Duration::from_millis(300)).unwrap_err();
    assert!(nobody.to_string().contains("cannot fetch '/lab/none'"), "{nobody}");
    // Messages to a name arrive from attach until detach.
    let (group, to) = ("/lab/all".parse().unwrap(), Destination::Name("/lab/all".parse().unwrap()));
    for (attached, text) in [(true, "first"), (false, "second")] {
        if attached {
            reader.attach(&group).unwrap()
        } else {
            reader.detach(&group).unwrap()
        }
        std::thread::sleep(Duration::from_millis(500));
        let sent = hub.send(format!("/lab/{text}").parse().unwrap(), text, &to, &SendOptions::default()).unwrap();
        let message = reader.next(Duration::from_secs(if attached { 10 } else { 1 }));
        assert_eq!(message.map(|message| message.bytes), attached.then(|| text.into()));
        let report = hub.report(sent).unwrap().unwrap();
        assert_eq!((report.reliability, report.in_network), (Reliability::Nack, InNetwork::Store), "the node's");
    }
}

#[test]
fn what_is_sent_to_one_that_is_away_waits_in_the_router_and_is_listed_there() {
    let folder = tempfile::tempdir().unwrap();
    let (at, of_hub) = (port(), port());
    let router = node(folder.path(), "router", ROUTER, at, None);
    let hub = node(folder.path(), "hub", ENDS, of_hub, Some(at));
    let id = Messenger::open(Arc::clone(&hub), &[], MessengerOptions::default()).unwrap().id().to_string();
    hub.stop().unwrap();
    drop(hub);
    let sensor = node(folder.path(), "sensor", ENDS, port(), Some(at));
    let sensor = Messenger::open(sensor, &[], MessengerOptions::default()).unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    let options = SendOptions {
        reliability: Some(Reliability::Nack),
        lifetime: Some(Duration::from_secs(600)),
        ..SendOptions::default()
    };
    let to = Destination::Id(id.clone());
    let transfer = sensor.send("/sensor/reading".parse().unwrap(), "21.5", &to, &options).unwrap();
    let clock = tributary::Clock::new();
    while store(&router).held.is_empty() {
        assert!(clock.now() < tributary_core::Time::from_millis(20_000), "nothing is stored");
        std::thread::sleep(Duration::from_millis(20));
    }
    let held = store(&router).held.remove(0);
    assert_eq!((held.destination.as_str(), held.reason.as_str()), (id.as_str(), "the destination is away"));
    assert!(held.left_seconds > 500.0 && held.left_seconds <= 600.0, "{held:?}");
    let hub = node(folder.path(), "hub", ENDS, of_hub, Some(at));
    let hub = Messenger::open(hub, &[], MessengerOptions::default()).unwrap();
    assert_eq!(hub.id(), id, "a device is known by its key");
    let message = hub.next(Duration::from_secs(20)).expect("it was stored for the hub");
    assert_eq!((&message.bytes[..], message.name.to_string().as_str()), (&b"21.5"[..], "/sensor/reading"));
    assert_eq!(wait(&sensor, transfer).delivered, [id]);
    assert!(store(&router).held.is_empty(), "what was delivered is not kept");
}

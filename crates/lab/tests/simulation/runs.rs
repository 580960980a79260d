//! Scenarios in virtual time: construction, faults, and reproducibility.
use std::collections::VecDeque;
use tributary::{Family, config::Role};
use tributary_content::Name;
use tributary_core::{
    Datagram, Duration, FaceId, Node, Rate, Time, TimerId, TransferId, Transmit, TransmitBuf,
    event::{Event, TransferEvent, TransferReport},
    link::{LinkChange, LinkConfig, LinkState},
};
use tributary_lab::simulation::{
    Fault, GUEST_HEADER_BYTES, Guest, GuestFactory, Outcome, Scenario, ScenarioError, Simulation, object, parallel,
};

fn seconds(seconds: f64) -> Time {
    Time::ZERO + Duration::from_secs_f64(seconds)
}
fn link(mbps: u64, delay_ms: u64) -> LinkConfig {
    LinkConfig { queue_bytes: 100_000, ..LinkConfig::new(Rate::from_mbps(mbps), Duration::from_millis(delay_ms)) }
}
fn name() -> Name {
    "/lab/file".parse().unwrap()
}

/// ```text
///   pub-1 ──20── fn ──50── receiver
///   pub-2 ──10──┘          rn-tm ── fn
/// ```
fn two_sources(seed: u64, bytes: usize) -> Scenario {
    let mut scenario = Scenario::new("two sources", seed);
    scenario.add_node("fn", Family::Psi, &[Role::Router]).psi_mut().cache_bytes.0 = 0;
    scenario.add_node("rn-tm", Family::Psi, &[Role::Resolver, Role::TopologyManager]);
    for host in ["pub-1", "pub-2"] {
        scenario.add_node(host, Family::Psi, &[Role::Sender]);
    }
    scenario.add_node("receiver", Family::Psi, &[Role::Receiver]);
    for (a, mbps, delay) in [("pub-1", 20, 10), ("pub-2", 10, 15), ("receiver", 50, 2), ("rn-tm", 100, 1)] {
        scenario.add_link(a, "fn", link(mbps, delay));
    }
    let object = object("/lab/file", bytes, 7);
    scenario.publish("pub-1", Time::ZERO, object.clone());
    scenario.publish("pub-2", Time::ZERO, object);
    scenario.fetch("receiver", seconds(3.0), name());
    scenario.limit = seconds(60.0);
    scenario
}
fn run(scenario: &Scenario) -> Outcome {
    Simulation::run(scenario).unwrap()
}

#[test]
fn an_outcome_tells_sources_links_samples_and_events() {
    let mut scenario = two_sources(1, 6_000_000);
    scenario.sampling = Some(Duration::from_millis(50));
    scenario.keeps_events = true;
    let outcome = run(&scenario);
    assert!(outcome.is_complete());
    let transfer = &outcome.transfers[0];
    let fluid = 6.0 * 8.0 / 30.0;
    let took = transfer.seconds().unwrap();
    assert!((fluid..fluid * 1.25).contains(&took), "{took} s");
    assert!(transfer.bytes_from("pub-1") > transfer.bytes_from("pub-2"));
    assert_eq!(transfer.bytes_from("pub-1") + transfer.bytes_from("pub-2"), 6_000_000);
    let used = outcome.link("pub-1", "fn").unwrap().stats.out_bytes;
    assert!(used > transfer.bytes_from("pub-1") && used < transfer.bytes_from("pub-1") * 11 / 10, "{used}");
    assert!(outcome.samples_of(0).any(|sample| sample.source == "pub-2" && sample.rtt.is_some()));
    assert!(outcome.link_samples.len() > 100);
    let completed = outcome.events.iter().filter(|line| line.contains("\"event\":\"completed\""));
    assert_eq!(completed.count(), 1);
    for line in &outcome.events {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(value["event"].is_string() && value["time"].is_number() && value["node"].is_string(), "{line}");
    }
}

#[test]
fn what_a_run_keeps_is_limited_and_what_it_writes_is_the_same() {
    let mut scenario = two_sources(1, 3_000_000);
    scenario.keeps_events = true;
    let all = run(&scenario).events;
    (scenario.sampling, scenario.samples_max) = (Some(Duration::from_millis(1)), 500);
    scenario.events_max = 10;
    let mut simulation = Simulation::new(&scenario).unwrap();
    while !simulation.advance(scenario.limit) {}
    let outcome = simulation.outcome();
    assert!((200..=500).contains(&(outcome.link_samples.len() + outcome.path_samples.len())));
    assert_eq!((&outcome.events[..], outcome.events_dropped), (&all[..10], all.len() as u64 - 10));

    #[derive(Clone, Default)]
    struct Shared(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);
    impl std::io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let written = Shared::default();
    let mut simulation = Simulation::new(&scenario).unwrap();
    simulation.write_events(Box::new(written.clone()));
    while !simulation.advance(scenario.limit) {}
    assert!(simulation.events_error().is_none());
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.lines().collect::<Vec<_>>(), all);
    assert!(simulation.outcome().events.is_empty());
}

#[test]
fn the_same_scenario_has_the_same_outcome_on_any_thread_and_another_seed_another_one() {
    let scenarios: Vec<_> = [5, 6, 5].map(|seed| two_sources(seed, 1_000_000)).into();
    let together = parallel::map_on(3, &scenarios, run);
    let alone: Vec<_> = scenarios.iter().map(run).collect();
    assert_eq!(together, alone);
    assert_eq!(together[0], together[2]);
    assert_ne!(together[0].trace_hash, together[1].trace_hash);
}

#[test]
fn a_publisher_that_stops_answering_costs_its_share_and_comes_back() {
    let mut scenario = two_sources(2, 12_000_000);
    scenario.sampling = Some(Duration::from_millis(20));
    scenario.fault(seconds(4.0), Fault::StopServing { node: "pub-1".into() });
    scenario.fault(seconds(6.0), Fault::ServeAgain { node: "pub-1".into() });
    let outcome = run(&scenario);
    assert!(outcome.is_complete());
    let bytes_at = |time: f64| {
        let samples = outcome.samples_of(0).filter(|sample| sample.source == "pub-1" && sample.time <= seconds(time));
        samples.map(|sample| sample.bytes).max().unwrap_or(0)
    };
    assert_eq!(bytes_at(4.2), bytes_at(6.0), "nothing comes while it is silent");
    assert!(bytes_at(9.0) > bytes_at(6.0) + 500_000, "it is used again");
}

#[test]
fn a_receiver_that_is_killed_goes_on_where_it_was() {
    let mut scenario = two_sources(3, 12_000_000);
    scenario.fault(seconds(4.5), Fault::Kill { node: "receiver".into() });
    scenario.fault(seconds(5.0), Fault::Start { node: "receiver".into() });
    let outcome = run(&scenario);
    assert!(outcome.is_complete(), "{:?}", outcome.transfers);
    assert!(outcome.transfers[0].report.as_ref().unwrap().resumed_bytes > 3_000_000);
}

#[test]
fn a_frozen_node_and_a_cut_link_end_a_run_at_its_limit() {
    let freeze = (seconds(3.5), Fault::Freeze { node: "pub-1".into() });
    let cut = Fault::Link {
        link: "pub-2-fn".into(),
        direction: tributary_lab::simulation::Direction::Both,
        change: LinkChange::State(LinkState::Down),
    };
    let mut scenario = two_sources(4, 12_000_000);
    scenario.faults.push(tributary_lab::simulation::PlannedFault { at: freeze.0, fault: freeze.1 });
    scenario.fault(seconds(3.5), cut);
    scenario.limit = seconds(8.0);
    let outcome = run(&scenario);
    assert_eq!((outcome.is_complete(), outcome.ended), (false, seconds(8.0)));
    assert_eq!(outcome.transfers[0].seconds(), None);
    scenario.fault(seconds(7.0), Fault::Thaw { node: "pub-1".into() });
    scenario.limit = seconds(60.0);
    assert!(run(&scenario).is_complete());
}

/// Sends `count` packets of 1,000 bytes on face 0, one a millisecond, after a fetch command; ends after as many
/// answers.
#[derive(Default)]
struct Prober {
    left: u32,
    due: Option<Time>,
    answered: u32,
    out: VecDeque<(FaceId, Datagram)>,
    events: VecDeque<Event>,
    started: Time,
    ended: Option<Time>,
}
const PROBES: u32 = 50;

impl Node for Prober {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        assert_eq!((face, datagram.len()), (FaceId(0), 1_000));
        self.answered += 1;
        if self.answered == PROBES {
            self.ended = Some(now);
            self.events.push_back(Event::Transfer(TransferId(3), TransferEvent::Completed));
        }
    }
    fn handle_timeout(&mut self, now: Time) {
        self.out.push_back((FaceId(0), Datagram::from(vec![1; 1_000])));
        self.left -= 1;
        self.due = (self.left > 0).then_some(now + Duration::from_millis(1));
    }
    fn poll_transmit(&mut self, _: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        let (face, datagram) = self.out.pop_front()?;
        out.push_datagram(datagram);
        Some(Transmit { face })
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        self.due.map(|due| (due, TimerId(1)))
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
impl Guest for Prober {
    fn fetch(&mut self, now: Time, _: &Name) -> Option<TransferId> {
        (self.left, self.due, self.started) = (PROBES, Some(now), now);
        Some(TransferId(3))
    }
    fn report(&self, _: Time, transfer: TransferId) -> Option<TransferReport> {
        let report = TransferReport { started: self.started, ended: self.ended, ..TransferReport::default() };
        (transfer == TransferId(3)).then_some(report)
    }
}

/// Returns each packet to its sender.
#[derive(Default)]
struct Echo(VecDeque<(FaceId, Datagram)>);
impl Node for Echo {
    fn handle_datagram(&mut self, _: Time, face: FaceId, datagram: Datagram) {
        self.0.push_back((face, datagram));
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, _: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        let (face, datagram) = self.0.pop_front()?;
        out.push_datagram(datagram);
        Some(Transmit { face })
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        None
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}
impl Guest for Echo {}

#[test]
fn guests_talk_over_the_links_of_the_family_without_its_routing() {
    let mut scenario = two_sources(5, 1_000_000);
    scenario.add_guest("prober", "receiver", &["echo"], GuestFactory::new(|_| Prober::default()));
    scenario.add_guest(
        "echo",
        "pub-1",
        &[],
        GuestFactory::new(|seat| {
            let face = &seat.faces[0];
            assert_eq!((face.peer.as_str(), face.rate), ("prober", Some(Rate::from_mbps(20))));
            Echo::default()
        }),
    );
    scenario.fetches.clear();
    scenario.fetch("prober", seconds(1.0), name());
    let outcome = run(&scenario);
    assert!(outcome.is_complete());
    // 49 ms of sending, then 2 × 12 ms, and 1,032 bytes over 20 and 50 Mbit/s both ways.
    let wire = (1_000 + GUEST_HEADER_BYTES + 28) as f64 * 8.0;
    let expected = 0.049 + 0.024 + 2.0 * wire / 20e6 + 2.0 * wire / 50e6;
    // Hellos and link states of the family share the queues.
    let took = outcome.transfers[0].seconds().unwrap();
    assert!((expected..expected + 0.002).contains(&took), "{took} s, expected {expected}");
}

#[test]
fn names_that_mean_nothing_are_told() {
    let mut scenario = two_sources(6, 1_000);
    scenario.fault(seconds(1.0), Fault::Kill { node: "pub-3".into() });
    let unknown = scenario.check().unwrap_err();
    assert_eq!(unknown.to_string(), "fault at 1.000000 s names the node 'pub-3', which does not exist");
    let mut scenario = two_sources(6, 1_000);
    scenario.add_bare_node("island");
    scenario.add_guest("a", "island", &["b"], GuestFactory::new(|_| Echo::default()));
    scenario.add_guest("b", "fn", &[], GuestFactory::new(|_| Echo::default()));
    let no_way = ScenarioError::NoWay { from: "a".into(), to: "b".into() };
    assert_eq!(Simulation::run(&scenario).err(), Some(no_way));
    scenario.add_bare_node("fn");
    assert_eq!(scenario.check(), Err(ScenarioError::Twice { what: "node", name: "fn".into() }));
}

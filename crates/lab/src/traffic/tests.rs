//! Cross traffic over real links.
use super::*;
use std::collections::VecDeque;
use tributary_core::{
    Datagram, Duration, FaceId, Node, Random, Rate, Time, TimerId, Transmit, TransmitBuf,
    event::Event,
    link::{
        LinkChange, LinkConfig, Loss, QueueDiscipline, Script,
        queue::{red::RedConfig, threshold::ThresholdConfig},
    },
};
use tributary_sim::{Connection, Network, NodeIndex};

/// A source of traffic on either end of one link, each with its sink: both share the link from left to right.
type Net = Network<Box<dyn Node>>;

fn s(seconds: u64) -> Time {
    Time::from_millis(seconds * 1_000)
}
/// A sender and a receiver joined by `link`, and a return path that is never a bottleneck.
fn pair(sender: impl Node + 'static, link: LinkConfig) -> (Net, NodeIndex, Connection) {
    let mut net = Net::new(1);
    let a = net.add_node(Box::new(sender));
    let b = net.add_node(Box::new(Sink::default()));
    let back = LinkConfig { delay: link.delay, ..LinkConfig::default() };
    let connection = net.connect((a, FaceId(0)), (b, FaceId(0)), link, back);
    (net, a, connection)
}

#[test]
fn a_constant_source_sends_exactly_its_rate_between_start_and_end() {
    let config = SourceConfig { start: s(1), end: s(11), ..SourceConfig::constant(Rate::from_mbps(8)) };
    let (mut net, _, connection) = pair(Source::new(config, Random::new(1, 1)), LinkConfig::default());
    net.run_until(s(30));
    // 1,400 bytes at 8 Mbit/s are 1.4 ms; packets leave at 1 s, 1.0014 s, … before 11 s.
    assert_eq!(net.link_stats(connection.a_to_b).out_packets, 10_000_000_u64.div_ceil(1_400));
}

#[test]
fn bursts_have_their_share_of_time_by_every_law() {
    for law in [Law::Fixed, Law::Exponential, Law::Pareto(2.5)] {
        let pattern = Pattern::OnOff { on: Duration::from_millis(20), off: Duration::from_millis(60), law };
        let config = SourceConfig { pattern, ..SourceConfig::constant(Rate::from_mbps(40)) };
        let (mut net, _, connection) = pair(Source::new(config, Random::new(3, 3)), LinkConfig::default());
        net.run_until(s(400));
        let mbps = net.link_stats(connection.a_to_b).out_bytes as f64 * 8.0 / 400e6;
        assert!((mbps / 10.0 - 1.0).abs() < 0.05, "{law:?}: {mbps} Mbit/s instead of 10");
    }
}

#[test]
fn a_greedy_flow_fills_its_link_and_halves_for_marks_without_loss() {
    let link = LinkConfig {
        queue_bytes: 120_000,
        overhead_bytes: 0,
        ..LinkConfig::new(Rate::from_mbps(10), Duration::from_millis(20))
    };
    let (mut net, _, connection) = pair(Greedy::new(GreedyConfig::default()), link.clone());
    net.run_until(s(60));
    let stats = net.link_stats(connection.a_to_b);
    let use_of = |bytes: u64| bytes as f64 * 8.0 / 60.0 / 10e6;
    assert!(use_of(stats.out_bytes) > 0.97, "{}", use_of(stats.out_bytes));
    assert!(stats.dropped_packets > 0, "it finds the limit by loss");

    let discipline = QueueDiscipline::Threshold(ThresholdConfig { threshold: 60_000, ..ThresholdConfig::DEFAULT });
    let marking = LinkConfig { discipline, queue_bytes: 1 << 20, ..link };
    let (mut net, _, connection) = pair(Greedy::new(GreedyConfig::default()), marking);
    net.run_until(s(60));
    let stats = net.link_stats(connection.a_to_b);
    assert!(use_of(stats.out_bytes) > 0.95, "{}", use_of(stats.out_bytes));
    assert_eq!(stats.dropped_packets, 0);
    assert!(stats.marked_packets > 10, "{}", stats.marked_packets);
}

/// Joins its faces 1, 2, … to face 0, with a first byte that names the face; the other end splits them again.
#[derive(Default)]
struct Multiplexer(VecDeque<(FaceId, Datagram)>);
impl Node for Multiplexer {
    fn handle_datagram(&mut self, _: Time, face: FaceId, datagram: Datagram) {
        self.0.push_back(match face {
            FaceId(0) => (FaceId(u32::from(datagram.header_bytes()[0])), datagram.strip(1)),
            FaceId(from) => (FaceId(0), Datagram::new(&[from as u8], datagram.into_bytes())),
        });
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

/// The shares of a bottleneck's rate that two competing senders get from `start` to `end`.
fn shares(senders: [Box<dyn Node>; 2], bottleneck: LinkConfig, start: u64, end: u64) -> [f64; 2] {
    let mut net = Net::new(1);
    let [left, right] = [(); 2].map(|()| net.add_node(Box::new(Multiplexer::default())));
    let rate = bottleneck.rate.expect("a bottleneck has a rate").bits_per_second() as f64;
    net.connect((left, FaceId(0)), (right, FaceId(0)), bottleneck.clone(), bottleneck);
    let wire = LinkConfig { delay: Duration::from_millis(5), ..LinkConfig::default() };
    let mut face = 0;
    let arrivals = senders.map(|sender| {
        face += 1;
        let (sender, sink) = (net.add_node(sender), net.add_node(Box::new(Sink::default())));
        net.connect((sender, FaceId(0)), (left, FaceId(face)), wire.clone(), wire.clone());
        net.connect((right, FaceId(face)), (sink, FaceId(0)), wire.clone(), wire.clone()).a_to_b
    });
    net.run_until(s(start));
    let before = arrivals.map(|link| net.link_stats(link).out_bytes);
    net.run_until(s(end));
    let [a, b] = arrivals.map(|link| net.link_stats(link).out_bytes);
    let share = |bytes: u64| bytes as f64 * 8.0 / (end - start) as f64 / rate;
    [share(a - before[0]), share(b - before[1])]
}

#[test]
fn two_greedy_flows_share_evenly_and_give_way_to_what_does_not_listen() {
    let red = QueueDiscipline::Red(RedConfig::DEFAULT);
    let bottleneck = LinkConfig { discipline: red, ..LinkConfig::new(Rate::from_mbps(10), Duration::from_millis(10)) };
    let greedy =
        |start| -> Box<dyn Node> { Box::new(Greedy::new(GreedyConfig { start: s(start), ..GreedyConfig::default() })) };
    let [a, b] = shares([greedy(0), greedy(5)], bottleneck.clone(), 20, 140);
    // RED keeps the queue well below the 34 packets in flight, which costs some of the rate.
    assert!(a + b > 0.85, "{a} + {b}");
    assert!((a / (a + b) - 0.5).abs() < 0.05, "{a} against {b}");

    let constant = SourceConfig::constant(Rate::from_mbps(6));
    let [deaf, greedy] = shares([Box::new(Source::new(constant, Random::new(1, 1))), greedy(0)], bottleneck, 20, 140);
    assert!(deaf > 0.57 && (0.25..0.40).contains(&greedy), "{deaf} and {greedy}");
}

#[test]
fn a_greedy_flow_survives_an_outage_by_its_timeout() {
    let (mut net, _, connection) =
        pair(Greedy::new(GreedyConfig::default()), LinkConfig::new(Rate::from_mbps(10), Duration::from_millis(20)));
    net.outage(connection, s(5), s(8));
    net.run_until(s(8));
    let before = net.link_stats(connection.a_to_b).out_bytes;
    net.run_until(s(30));
    let mbps = (net.link_stats(connection.a_to_b).out_bytes - before) as f64 * 8.0 / 22e6;
    assert!(mbps > 7.0, "{mbps} Mbit/s after the outage");
}

#[test]
fn what_the_simulator_keeps_does_not_grow_with_simulated_time() {
    let steps = [(Duration::ZERO, LinkChange::Delay(Duration::from_millis(20)))];
    let link = LinkConfig {
        loss: Loss::Bernoulli(0.001),
        jitter: Duration::from_millis(1),
        queue_bytes: 60_000,
        script: Some(Script::new(steps, Some(Duration::from_millis(700)))),
        ..LinkConfig::new(Rate::from_mbps(10), Duration::from_millis(20))
    };
    let (mut net, _, _) = pair(Greedy::new(GreedyConfig::default()), link);
    net.run_until(s(60));
    let (early, hops) = (net.footprint(), net.stats().packet_hops);
    net.run_until(s(1_200));
    let late = net.footprint();
    assert!(net.stats().packet_hops > 15 * hops, "it was busy all the time");
    assert!(late.packet_places <= early.packet_places + 10, "{early:?}, then {late:?}");
    assert!(late.agenda_entries <= 4 && late.actions == 0, "{late:?}");
}

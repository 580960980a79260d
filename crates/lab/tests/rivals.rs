//! The rivals against known properties of TCP and QUIC: full links, fair shares, the square-root law.
use std::{cell::RefCell, rc::Rc};

use tributary_core::{
    Datagram, Duration, FaceId, Node, Rate, Time, TransmitBuf,
    event::Event,
    link::{LinkConfig, LinkStats, QueueDiscipline, Reorder, queue::threshold::ThresholdConfig},
};
use tributary_lab::rivals::{
    Content, DownloadConfig, PathSpec, Paths, Plan, Rival, RivalNode, Routes, address_of, download, outcome,
    run_download,
};
use tributary_sim::NodeIndex;

const RTT: Duration = Duration::from_millis(40);
const MINUTE: Time = Time::from_millis(60_000);

fn path(mbps: u64) -> PathSpec {
    PathSpec::new(Rate::from_mbps(mbps), RTT)
}
fn single(rival: Rival, bytes: u64, path: PathSpec, seed: u64) -> Paths {
    Paths::new(rival, bytes, &[path], DownloadConfig::single(), seed)
}
/// Mean goodput over a file, in Mbit/s.
fn mbps(rival: Rival, bytes: u64, path: PathSpec, seed: u64) -> f64 {
    let outcome = download(rival, bytes, &[path], DownloadConfig::single(), seed);
    assert_eq!((outcome.bytes, outcome.wrong_bytes), (bytes, 0), "{}", rival.name());
    bytes as f64 * 8e-6 / outcome.seconds.expect("a whole file has a time")
}

// ---- known behaviour

#[test]
fn one_flow_fills_a_clean_link_once_it_has_found_its_rate() {
    for rival in Rival::ALL {
        let mut paths = single(rival, 200_000_000, path(20), 1);
        let mut at = |seconds: u64| {
            paths.net.run_until(Time::from_millis(seconds * 1_000));
            paths.net.node(paths.client).download().expect("a client").received_bytes()
        };
        let (start, end) = (at(10), at(40));
        let share = (end - start) as f64 * 8.0 / 30.0 / (20e6 * rival.payload_share());
        println!("{}: {share:.4} of the payload share", rival.name());
        assert!(share <= 1.001, "{}: no more than the link carries: {share}", rival.name());
        assert!(share >= 0.95, "{}: {share}", rival.name());
    }
}

#[test]
fn two_cubic_flows_share_a_bottleneck_about_equally() {
    for rival in [Rival::TcpCubic, Rival::QuicCubic] {
        let content = Content { seed: 1, bytes: 400_000_000 };
        let mut plan = Plan::new();
        let (left, right) = (plan.router(), plan.router());
        let bottleneck = path(20).link();
        plan.connect(left, right, bottleneck.clone(), bottleneck);
        let edge = LinkConfig::new(Rate::from_mbps(1_000), Duration::from_micros(10));
        let clients: Vec<_> = (0..2)
            .map(|number| {
                let server = plan.server(rival, content);
                let start = Time::from_millis(500 * number);
                let client =
                    plan.client(rival, content, &[server], DownloadConfig { start, ..DownloadConfig::single() });
                plan.connect(server, left, edge.clone(), edge.clone());
                plan.connect(client, right, edge.clone(), edge.clone());
                client
            })
            .collect();
        let (mut net, _) = plan.build(3);
        let mut at = |seconds: u64| {
            net.run_until(Time::from_millis(seconds * 1_000));
            let bytes = |client: &NodeIndex| net.node(*client).download().expect("a client").received_bytes() as f64;
            (bytes(&clients[0]), bytes(&clients[1]))
        };
        let (start, end) = (at(20), at(80));
        let (a, b) = (end.0 - start.0, end.1 - start.1);
        let jain = (a + b).powi(2) / (2.0 * (a * a + b * b));
        let share = (a + b) * 8.0 / 60.0 / (20e6 * rival.payload_share());
        println!("{}: {:.3} of the bytes for the first, Jain {jain:.4}, link {share:.3}", rival.name(), a / (a + b));
        assert!(jain > 0.95, "{}: {jain}", rival.name());
        assert!(share > 0.9, "{}: {share}", rival.name());
    }
}

#[test]
fn random_loss_holds_windows_to_the_square_root_law_and_bbr_does_not_mind() {
    let lossy = PathSpec { loss: 0.01, ..path(20) };
    // Mathis et al. 1997: C × segment ÷ (round-trip time × √loss), C = √(3/2) with an ACK for each segment. Where the
    // law's rate is far below the link's, queues are empty.
    let mathis = (1.5_f64).sqrt() * 1_460.0 * 8e-6 / (0.040 * 0.1);
    let mut rates = Vec::new();
    for rival in Rival::ALL {
        let bytes = if rival == Rival::QuicBbr { 20_000_000 } else { 8_000_000 };
        let mean = (1..=3).map(|seed| mbps(rival, bytes, lossy, seed)).sum::<f64>() / 3.0;
        println!("{}: {mean:.2} Mbit/s at 1 % loss; Mathis {mathis:.2}", rival.name());
        rates.push(mean);
    }
    // What recovers without timeouts comes near the law; smoltcp waits a second for many a loss and stays below.
    assert!((0.6..1.6).contains(&(rates[2] / mathis)), "NewReno with acknowledgement ranges: {}", rates[2]);
    assert!((0.6..1.9).contains(&(rates[3] / mathis)), "Cubic with acknowledgement ranges: {}", rates[3]);
    assert!(rates[0] > 0.2 * mathis && rates[0] < 1.2 * mathis, "smoltcp's Reno: {}", rates[0]);
    assert!(rates[1] > 0.2 * mathis && rates[1] < 1.5 * mathis, "smoltcp's Cubic: {}", rates[1]);
    assert!(rates[4] > 0.8 * 20.0 * Rival::QuicBbr.payload_share(), "BBR: {}", rates[4]);
}

#[test]
fn marks_slow_quic_down_without_loss_and_cost_tcp_its_packets() {
    for rival in [Rival::QuicCubic, Rival::TcpCubic] {
        let content = Content { seed: 1, bytes: 10_000_000 };
        let mut plan = Plan::new();
        let server = plan.server(rival, content);
        let (first, second) = (plan.router(), plan.router());
        let client = plan.client(rival, content, &[server], DownloadConfig::single());
        let wide = path(100).link();
        let mut narrow = path(20).link();
        // Room for the packets of slow start until the first mark comes back.
        narrow.queue_bytes = 1 << 20;
        narrow.discipline = QueueDiscipline::Threshold(ThresholdConfig::DEFAULT);
        plan.connect(server, first, wide.clone(), wide.clone());
        plan.connect(first, second, narrow.clone(), narrow);
        plan.connect(second, client, wide.clone(), wide);
        let (mut net, _) = plan.build(1);
        run_download(&mut net, client, MINUTE);
        let outcome = outcome(&net, client, &[server]);
        println!("{}: {outcome:?}", rival.name());
        assert_eq!((outcome.bytes, outcome.wrong_bytes), (10_000_000, 0));
        assert_eq!(outcome.retransmitted_bytes == 0, rival == Rival::QuicCubic, "{outcome:?}");
    }
}

// ---- downloads

#[test]
fn three_connections_use_three_paths_and_the_file_is_right() {
    for rival in Rival::ALL {
        let outcome = download(rival, 10_000_000, &[path(20), path(12), path(8)], DownloadConfig::default(), 5);
        assert_eq!((outcome.bytes, outcome.wrong_bytes), (10_000_000, 0), "{}", rival.name());
        assert_eq!(outcome.sources.iter().map(|source| source.bytes).sum::<u64>(), 10_000_000);
        assert!(outcome.sources.iter().all(|source| source.bytes > 500_000), "{}: {outcome:?}", rival.name());
    }
}

#[test]
fn a_silent_server_costs_time_and_nothing_else() {
    for rival in Rival::ALL {
        let mut paths = [path(20), path(12), path(8)];
        paths[0].silent = Some((Time::from_millis(1_000), Time::from_millis(6_000)));
        let many = download(rival, 10_000_000, &paths, DownloadConfig::default(), 5);
        assert_eq!((many.bytes, many.wrong_bytes), (10_000_000, 0), "{}", rival.name());
        let one = download(rival, 4_000_000, &paths[..1], DownloadConfig::single(), 5);
        assert_eq!((one.bytes, one.wrong_bytes, one.sources[0].connections), (4_000_000, 0, 1), "{}", rival.name());
        assert!(one.seconds.is_some_and(|seconds| seconds > 6.0), "the only path was away until then: {one:?}");
    }
}

#[test]
fn a_server_that_never_comes_back_is_replaced_by_the_others() {
    for rival in [Rival::TcpCubic, Rival::QuicCubic] {
        let mut paths = Paths::new(rival, 10_000_000, &[path(20), path(12)], DownloadConfig::default(), 5);
        let server = paths.servers[0];
        paths.net.at(Time::from_millis(1_500), move |net| drop(net.kill(server)));
        let outcome = paths.run(MINUTE);
        assert_eq!((outcome.bytes, outcome.wrong_bytes), (10_000_000, 0), "{}", rival.name());
        assert!(outcome.sources[0].bytes > 0 && outcome.sources[0].connections > 1, "{outcome:?}");
    }
}

#[test]
fn loss_reordering_duplication_and_flipped_bits_leave_the_file_right() {
    for rival in Rival::ALL {
        let content = Content { seed: 2, bytes: 1_000_000 };
        let mut plan = Plan::new();
        let server = plan.server(rival, content);
        let client = plan.client(rival, content, &[server], DownloadConfig::single());
        let mut link = PathSpec { loss: 0.02, ..path(10) }.link();
        link.reorder = Reorder { probability: 0.02, delay: Duration::from_millis(5) };
        link.duplicate = 0.02;
        link.corrupt = 0.02;
        plan.connect(client, server, link.clone(), link);
        let (mut net, _) = plan.build(11);
        run_download(&mut net, client, Time::from_millis(600_000));
        let outcome = outcome(&net, client, &[server]);
        assert_eq!((outcome.bytes, outcome.wrong_bytes), (1_000_000, 0), "{}: {outcome:?}", rival.name());
    }
}

// ---- accounts and replay

#[test]
fn every_packet_is_accounted_for_and_no_byte_is_free() {
    for rival in Rival::ALL {
        let mut paths = single(rival, 3_000_000, PathSpec { loss: 0.01, ..path(20) }, 7);
        let outcome = paths.run(MINUTE);
        assert_eq!(outcome.bytes, 3_000_000);
        let limit = paths.net.now() + Duration::from_secs(5);
        paths.net.run_until(limit);
        let stats = |link| -> LinkStats { paths.net.link_stats(link) };
        let (up, down) = (stats(paths.connections[0].a_to_b), stats(paths.connections[0].b_to_a));
        for link in [up, down] {
            let gone = link.out_packets + link.lost_packets + link.dropped_packets + link.oversize_packets;
            assert_eq!((link.in_packets, link.oversize_packets), (gone, 0), "{}", rival.name());
        }
        let sent = paths.net.node(paths.servers[0]).stack_stats();
        assert_eq!((down.in_packets, down.in_bytes), (sent.packets, sent.packet_bytes), "{}", rival.name());
        let least = (3_000_000 + outcome.retransmitted_bytes) as f64;
        let wire = down.in_bytes as f64 * rival.payload_share();
        println!("{}: {:.4} of the sent bytes explained", rival.name(), least / wire);
        assert!((0.96..1.02).contains(&(least / wire)), "{}: {least} of {wire}", rival.name());
    }
}

/// Time, link and length of each packet that arrived.
fn trace(rival: Rival, seed: u64) -> Vec<(Time, u32, usize)> {
    let lossy = [PathSpec { loss: 0.01, ..path(20) }, PathSpec { loss: 0.01, ..path(8) }];
    let mut paths = Paths::new(rival, 2_000_000, &lossy, DownloadConfig::default(), seed);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = seen.clone();
    paths.net.set_tap(move |packet| log.borrow_mut().push((packet.time, packet.link.0, packet.datagram.len())));
    assert_eq!(paths.run(MINUTE).bytes, 2_000_000);
    drop(paths);
    Rc::try_unwrap(seen).expect("the network is gone").into_inner()
}

#[test]
fn the_same_seed_gives_the_same_packets_at_the_same_times() {
    for rival in Rival::ALL {
        let (first, second, other) = (trace(rival, 3), trace(rival, 3), trace(rival, 4));
        assert!(first.len() > 2_000);
        assert_eq!(first, second, "{}", rival.name());
        assert_ne!(first, other, "{}", rival.name());
    }
}

#[test]
fn a_router_drops_what_it_cannot_send_on_and_says_why() {
    let mut router = tributary_lab::rivals::IpRouter::new(Routes::default());
    let packet = tributary_lab::rivals::ip::udp_headers(address_of(0), address_of(1), 443, 0);
    let mut damaged = packet;
    damaged[13] ^= 1;
    for (bytes, reason) in [(packet, "no route to the address"), (damaged, "damaged IPv4 header")] {
        router.handle_datagram(Time::ZERO, FaceId(0), Datagram::from(&bytes[..]));
        let event = router.poll_event();
        assert_eq!(event, Some(Event::Dropped { face: FaceId(0), reason, bytes: 28 }));
    }
    assert_eq!(router.stats().dropped_packets, 2);
    let mut node = RivalNode::Router(router);
    assert!(node.poll_transmit(Time::ZERO, &mut TransmitBuf::new()).is_none());
}

//! The driver with real sockets on loopback. Ports are chosen by the kernel; no test asserts a wall-clock time
//! from above that a busy machine could miss.
use std::{
    collections::VecDeque,
    net::{SocketAddr, UdpSocket},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration as StdDuration,
};

use bytes::Bytes;
use tributary_core::{
    event::Event,
    link::{
        LinkChange, LinkConfig, LinkState, Loss,
        queue::{QueueDiscipline, threshold::ThresholdConfig},
    },
    *,
};
use tributary_net::{Clock, Driver, DriverConfig, DriverError, DriverHandle, FaceConfig, ListenConfig};

/// Sends its outbox, and reports received packets or, in echo mode, sends them back.
#[derive(Default)]
struct Talker {
    outbox: VecDeque<(FaceId, Vec<Bytes>)>,
    got: Vec<(Time, FaceId, Bytes)>,
    marked: u64,
    echoes: bool,
    tells: bool,
    reported: VecDeque<Event>,
    alarm: Option<Time>,
}
impl Node for Talker {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        self.marked += u64::from(datagram.is_marked());
        let bytes = datagram.into_bytes();
        if self.tells {
            self.reported.push_back(Event::Note(format!("got {} bytes on {face}", bytes.len())));
        }
        if self.echoes {
            self.outbox.push_back((face, vec![bytes.clone()]));
        }
        self.got.push((now, face, bytes));
    }
    fn handle_timeout(&mut self, now: Time) {
        if self.alarm.is_some_and(|due| due <= now) {
            self.alarm = None;
            self.reported.push_back(Event::Note("alarm".into()));
        }
    }
    fn poll_transmit(&mut self, _: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        let (face, datagrams) = self.outbox.pop_front()?;
        for datagram in datagrams {
            out.push(&datagram[..datagram.len().min(3)], datagram.slice(datagram.len().min(3)..));
        }
        Some(Transmit { face })
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        self.alarm.map(|due| (due, TimerId(1)))
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.reported.pop_front()
    }
}

const PATIENCE: StdDuration = StdDuration::from_secs(20);
const FACE: FaceId = FaceId(1);

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}
fn spawn(config: DriverConfig) -> (DriverHandle<Talker>, Receiver<String>) {
    spawn_as(Talker::default, config)
}
fn spawn_as(
    make: impl FnOnce() -> Talker + Send + 'static,
    config: DriverConfig,
) -> (DriverHandle<Talker>, Receiver<String>) {
    let (sender, events) = mpsc::channel();
    let on_event = move |_, event| {
        if let Event::Note(note) = event {
            let _ = sender.send(note);
        }
    };
    (Driver::spawn(make, config, on_event).expect("it starts"), events)
}
fn listening(listen: ListenConfig) -> DriverConfig {
    DriverConfig { listen: vec![listen], ..DriverConfig::default() }
}
fn facing(face: FaceConfig) -> DriverConfig {
    DriverConfig { faces: vec![face], ..DriverConfig::default() }
}
fn echo() -> Talker {
    Talker { echoes: true, ..Talker::default() }
}
fn say(driver: &DriverHandle<Talker>, face: FaceId, lens: &[usize]) {
    let datagrams: Vec<_> = lens.iter().enumerate().map(|(i, len)| Bytes::from(vec![i as u8; *len])).collect();
    driver.call(move |node, _| node.outbox.push_back((face, datagrams))).expect("it lives");
}
/// Waits until the node has got `count` datagrams, and gives them.
fn got(driver: &DriverHandle<Talker>, count: usize) -> Vec<(Time, FaceId, Bytes)> {
    let clock = driver.clock();
    let end = clock.now() + PATIENCE;
    loop {
        let got = driver.call(|node, _| node.got.clone()).expect("it lives");
        if got.len() >= count || clock.now() > end {
            assert_eq!(got.len(), count, "datagrams in time");
            return got;
        }
        thread::yield_now();
    }
}

#[test]
fn two_drivers_echo_every_length_in_order() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let address: SocketAddr = address.parse().expect("an address");
        let (server, _) = spawn_as(echo, listening(ListenConfig::new(address)));
        let (client, _) = spawn(facing(FaceConfig::new(FACE, server.listen_addrs()[0])));
        let lens: Vec<usize> = (0..60).map(|i| i * 23 % 1_473).collect();
        say(&client, FACE, &lens);
        let answers: Vec<_> = got(&client, 60).into_iter().map(|(_, face, bytes)| (face, bytes.to_vec())).collect();
        let expected: Vec<_> = lens.iter().enumerate().map(|(i, len)| (FACE, vec![i as u8; *len])).collect();
        assert_eq!(answers, expected, "{address}");
        let stats = client.stop().expect("it stops");
        assert_eq!((stats.out_datagrams, stats.in_datagrams), (60, 60));
        assert_eq!(stats.faces[0].in_bytes, lens.iter().sum::<usize>() as u64);
    }
}

#[test]
fn equal_datagrams_share_system_calls_both_ways() {
    let (server, _) = spawn(listening(ListenConfig::new(any())));
    let (client, _) = spawn(facing(FaceConfig::new(FACE, server.listen_addrs()[0])));
    let mut lens = [1_472; 64];
    lens[63] = 100;
    say(&client, FACE, &lens);
    let arrived: Vec<_> = got(&server, 64).into_iter().map(|(_, _, bytes)| (bytes[0], bytes.len())).collect();
    assert_eq!(arrived, (0..64).map(|i| (i as u8, lens[i])).collect::<Vec<_>>());
    let (sent, received) = (client.stop().expect("it stops"), server.stop().expect("it stops"));
    assert_eq!((sent.out_datagrams, sent.send_calls, sent.gso_calls), (64, 2, 2), "44 and 20 datagrams");
    assert!(received.gro_buffers <= 2, "loopback keeps runs together: {received:?}");
}

#[test]
fn an_unknown_peer_gets_a_face_until_it_is_idle() {
    let config = DriverConfig {
        faces_max: 2,
        face_idle: Duration::from_millis(500),
        dynamic_face_first: 100,
        ..listening(ListenConfig::new(any()))
    };
    let (server, events) = spawn_as(echo, config);
    let clients: Vec<_> = (0..2).map(|_| UdpSocket::bind(any()).expect("a socket")).collect();
    for client in &clients {
        client.send_to(b"hello", server.listen_addrs()[0]).expect("it is sent");
    }
    let faces: Vec<_> = got(&server, 2).into_iter().map(|(_, face, _)| face).collect();
    assert_eq!(faces, [FaceId(100), FaceId(101)]);
    let mut answer = [0; 8];
    assert_eq!(clients[1].recv(&mut answer).expect("an answer"), 5);
    let notes: Vec<_> = (0..4).map(|_| events.recv_timeout(PATIENCE).expect("a note")).collect();
    assert_eq!(notes[0], format!("face-100 is {}", clients[0].local_addr().expect("bound")));
    assert!(notes[2].starts_with("face-100 to ") && notes[2].ends_with(" was idle and is forgotten"), "{notes:?}");
    // A datagram to a forgotten face goes nowhere; the next one from its peer makes a new face.
    say(&server, FaceId(100), &[1]);
    clients[0].send_to(b"again", server.listen_addrs()[0]).expect("it is sent");
    assert_eq!(got(&server, 3)[2].1, FaceId(102));
    assert_eq!(server.stop().expect("it stops").unknown_face_drops, 1);
}

#[test]
fn however_many_addresses_somebody_forges_who_speaks_keeps_its_face_and_a_new_peer_gets_one() {
    let config = DriverConfig { faces_max: 4, dynamic_face_first: 100, ..listening(ListenConfig::new(any())) };
    let (server, _) = spawn_as(echo, config);
    let socket = || UdpSocket::bind(any()).expect("a socket");
    let say = |client: &UdpSocket| {
        let mut answer = [0; 8];
        client.send_to(b"hello", server.listen_addrs()[0]).expect("it is sent");
        client.recv(&mut answer).expect("an answer");
    };
    let neighbours = [socket(), socket(), socket()];
    neighbours.iter().for_each(say);
    thread::sleep(StdDuration::from_millis(250));
    neighbours.iter().for_each(say);
    let forged: Vec<_> = (0..40).map(|_| socket()).collect();
    forged.iter().for_each(say);
    say(&neighbours[0]);
    say(&socket());
    let faces: Vec<u32> = got(&server, 48).into_iter().map(|(_, face, _)| face.0).collect();
    assert_eq!(faces[..6], [100, 101, 102, 100, 101, 102]);
    assert_eq!(faces[6..46], (103..143).collect::<Vec<u32>>());
    assert_eq!(faces[46..], [100, 143]);
    // Where all faces are established and recently heard, the table is full.
    let fourth = socket();
    say(&fourth);
    thread::sleep(StdDuration::from_millis(250));
    say(&fourth);
    let fifth = socket();
    fifth.send_to(b"hello", server.listen_addrs()[0]).expect("it is sent");
    say(&fourth);
    assert_eq!(server.stop().expect("it stops").unknown_peer_drops, 1);
}

#[test]
fn a_shaped_face_keeps_its_rate() {
    let (server, _) = spawn(listening(ListenConfig::new(any())));
    let link = LinkConfig { queue_bytes: 1 << 20, ..LinkConfig::new(Rate::from_mbps(40), Duration::from_millis(5)) };
    let face = FaceConfig { link: Some(link), ..FaceConfig::new(FACE, server.listen_addrs()[0]) };
    let (client, _) = spawn(facing(face));
    let clock = Clock::new();
    for _ in 0..5 {
        say(&client, FACE, &[972; 64]);
    }
    got(&server, 320);
    // 320 packets of 1,000 bytes at 40 Mbit/s, and 5 ms; a busy machine only makes it longer. How exactly the rate is kept
    // is measured by `--example shaped`.
    let took = clock.now().since(Time::ZERO);
    assert!(took >= Duration::from_millis(69), "{took:?}");
    let stats = client.stop().expect("it stops");
    let link = stats.faces[0].link.expect("it is shaped");
    assert_eq!((link.in_packets, link.out_packets, stats.out_datagrams), (320, 320, 320));
}

#[test]
fn marks_of_a_queue_arrive_in_the_header_of_the_network() {
    for (address, ecn) in [("127.0.0.1:0", Ecn::Classic), ("[::1]:0", Ecn::Scalable), ("127.0.0.1:0", Ecn::Off)] {
        let listener = ListenConfig::new(address.parse().expect("an address"));
        let (server, _) = spawn_as(echo, DriverConfig { ecn, ..listening(listener) });
        let link = LinkConfig {
            queue_bytes: 1 << 20,
            discipline: QueueDiscipline::Threshold(ThresholdConfig::DEFAULT),
            ..LinkConfig::new(Rate::from_mbps(40), Duration::from_millis(1))
        };
        let face = FaceConfig { link: Some(link), ..FaceConfig::new(FACE, server.listen_addrs()[0]) };
        let (client, _) = spawn(DriverConfig { ecn, ..facing(face) });
        // Until the peer was heard sixteen times, datagrams have no codepoint.
        say(&client, FACE, &[100; 16]);
        got(&client, 16);
        // Packets of 1,000 bytes, beyond 30,000 of which the queue marks.
        say(&client, FACE, &[972; 64]);
        let (marked, arrived) = if ecn == Ecn::Off { (0, 32) } else { (32, 64) };
        got(&client, 16 + arrived);
        // Those that are dropped come last.
        while client.stats().expect("it lives").faces[0].link.expect("it is shaped").out_packets < 80 {
            thread::yield_now();
        }
        let seen = server.call(|node, _| node.marked).expect("it lives");
        let (sender, receiver) = (client.stop().expect("it stops"), server.stop().expect("it stops"));
        let counts = receiver.ecn;
        assert_eq!((seen, counts.marked, counts.ignored), (marked, marked, 0), "{ecn:?}");
        assert_eq!(sender.marked_drops, 32 - marked, "RFC 3168 §5: what may not be marked is dropped");
        let capable = (arrived as u64 - marked, 16);
        let expected = match ecn {
            Ecn::Off => (32 + 16, 0, 0),
            Ecn::Classic => (capable.1, capable.0, 0),
            Ecn::Scalable => (capable.1, 0, capable.0),
        };
        assert_eq!((counts.not_capable, counts.classic, counts.scalable), expected);
    }
}

#[test]
fn an_emulated_link_can_be_cut_and_mended() {
    let (server, _) = spawn(listening(ListenConfig::new(any())));
    let face = FaceConfig { link: Some(LinkConfig::default()), ..FaceConfig::new(FACE, server.listen_addrs()[0]) };
    let (client, _) = spawn(facing(face));
    client.change_link(FACE, LinkChange::State(LinkState::Down)).expect("it has a link");
    say(&client, FACE, &[10; 10]);
    client.change_link(FACE, LinkChange::State(LinkState::Up)).expect("it has a link");
    say(&client, FACE, &[20]);
    assert_eq!(got(&server, 1)[0].2.len(), 20);
    let stats = client.stats().expect("it lives");
    assert_eq!(stats.faces[0].link.expect("it is shaped").lost_packets, 10);
    let absent = client.change_link(FaceId(9), LinkChange::State(LinkState::Up));
    assert_eq!(absent.map_err(|error| error.to_string()), Err("there is no face-9".into()));
}

#[test]
fn ingress_loss_takes_datagrams_before_the_node() {
    let peer = UdpSocket::bind(any()).expect("a socket");
    let ingress_loss = Loss::Mask(vec![true, false, true]);
    let face =
        FaceConfig { ingress_loss, local: Some(any()), ..FaceConfig::new(FACE, peer.local_addr().expect("bound")) };
    let (driver, _) = spawn(facing(face));
    let address = driver.stats().expect("it lives").faces[0].local;
    for len in 1..=4 {
        peer.send_to(&vec![0; len], address).expect("it is sent");
    }
    assert_eq!(got(&driver, 2).iter().map(|(_, _, bytes)| bytes.len()).collect::<Vec<_>>(), [2, 4]);
    assert_eq!(driver.stop().expect("it stops").ingress_lost, 2);
}

#[test]
fn what_is_too_long_is_counted_and_the_rest_goes_on() {
    let (server, _) = spawn(listening(ListenConfig::new(any())));
    let peer = server.listen_addrs()[0];
    // The first limit is the face's, the second one the kernel's: no UDP datagram has 65,508 bytes.
    let small = FaceConfig { mtu: 100, ..FaceConfig::new(FACE, peer) };
    let large = FaceConfig { mtu: 70_000, local: Some(any()), ..FaceConfig::new(FaceId(2), peer) };
    let (client, _) = spawn(DriverConfig { faces: vec![small, large], ..DriverConfig::default() });
    say(&client, FACE, &[100, 101]);
    say(&client, FaceId(2), &[65_507, 65_508, 65_507]);
    say(&client, FaceId(2), &[5]);
    assert_eq!(got(&server, 4).len(), 4);
    assert_eq!(client.stop().expect("it stops").oversize_drops, 2);
}

#[test]
fn a_dead_peer_stops_nothing() {
    let nobody = UdpSocket::bind(any()).expect("a socket").local_addr().expect("bound");
    let (server, _) = spawn(listening(ListenConfig::new(any())));
    let faces = vec![FaceConfig::new(FACE, nobody), FaceConfig::new(FaceId(2), server.listen_addrs()[0])];
    let (client, _) = spawn(DriverConfig { faces, ..DriverConfig::default() });
    for _ in 0..20 {
        say(&client, FACE, &[10; 3]);
        say(&client, FaceId(2), &[10]);
    }
    assert_eq!(got(&server, 20).len(), 20);
}

#[test]
fn timers_and_events_arrive() {
    let (driver, events) = spawn(listening(ListenConfig::new(any())));
    let due = driver
        .call(|node, now| {
            node.tells = true;
            node.alarm = Some(now + Duration::from_millis(20));
            now + Duration::from_millis(20)
        })
        .expect("it lives");
    assert_eq!(events.recv_timeout(PATIENCE).expect("an event"), "alarm");
    assert!(driver.clock().now() >= due);
}

#[test]
fn an_idle_driver_sleeps() {
    let (driver, _) = spawn(listening(ListenConfig::new(any())));
    let before = driver.stats().expect("it lives").turns;
    thread::sleep(StdDuration::from_millis(200));
    let turns = driver.stats().expect("it lives").turns - before;
    assert!(turns < 20, "{turns} turns with nothing to do");
}

#[test]
fn a_busy_port_is_said_clearly() {
    let taken = UdpSocket::bind(any()).expect("a socket").local_addr().expect("bound");
    let holder = UdpSocket::bind(taken).expect("it was free a moment ago");
    let failure = Driver::spawn(Talker::default, listening(ListenConfig::new(taken)), |_, _| {}).err();
    let message = failure.expect("it is taken").to_string();
    assert!(message.starts_with(&format!("cannot bind {taken}: address already in use; hint: ")), "{message}");
    drop(holder);
    assert!(Driver::spawn(Talker::default, listening(ListenConfig::new(taken)), |_, _| {}).is_ok());
}

#[test]
fn contradicting_faces_are_refused() {
    let peer: SocketAddr = "127.0.0.1:9".parse().expect("an address");
    let twice = |a: FaceConfig, b: FaceConfig| {
        let config = DriverConfig { faces: vec![a, b], ..DriverConfig::default() };
        Driver::spawn(Talker::default, config, |_, _| {}).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let face = |id| FaceConfig::new(FaceId(id), peer);
    assert!(twice(face(1), face(1)).starts_with("face-1 is configured twice"));
    assert!(twice(face(1), face(2)).starts_with("face-2 and face-1 have the same peer 127.0.0.1:9"));
    assert!(twice(face(1), face(65_536)).starts_with("face-65536 is in the range of dynamic faces"));
    let apart = FaceConfig { local: Some(any()), ..face(2) };
    assert_eq!(twice(face(1), apart), "");
}

#[test]
fn faces_come_and_go_at_run_time() {
    let (server, _) = spawn(listening(ListenConfig::new(any())));
    let (client, _) = spawn(DriverConfig::default());
    let face = FaceConfig::new(FACE, server.listen_addrs()[0]);
    client.add_face(face.clone()).expect("it is new");
    assert!(matches!(client.add_face(face), Err(DriverError::DuplicateFace { face: FACE })));
    say(&client, FACE, &[7]);
    assert_eq!(got(&server, 1).len(), 1);
    client.remove_face(FACE).expect("it is there");
    assert!(matches!(client.remove_face(FACE), Err(DriverError::UnknownFace { .. })));
    say(&client, FACE, &[7]);
    assert_eq!(client.stop().expect("it stops").unknown_face_drops, 1);
}

#[test]
fn a_panic_of_the_node_is_an_error_for_callers() {
    let (driver, _) = spawn(listening(ListenConfig::new(any())));
    let outcome = driver.call(|_, _| panic!("out of luck"));
    assert!(matches!(outcome, Err(DriverError::Panicked { message }) if message == "out of luck"));
    let later = driver.call(|_, _| ());
    assert_eq!(later.map_err(|e| e.to_string()), Err("the node panicked: out of luck".into()));
    assert!(driver.stop().is_err());
}

#[test]
fn stopping_is_clean_and_can_be_repeated() {
    let (driver, _) = spawn(listening(ListenConfig::new(any())));
    let first = driver.stop().expect("it stops");
    assert_eq!(driver.stop().expect("it has stopped"), first);
    assert!(matches!(driver.call(|_, _| ()), Err(DriverError::Stopped)));
    let port = driver.listen_addrs()[0];
    UdpSocket::bind(port).expect("the port is free again");
}

#[test]
fn a_small_buffer_is_told_with_the_remedy() {
    let config = DriverConfig { receive_buffer_bytes: usize::MAX >> 40, ..listening(ListenConfig::new(any())) };
    assert!(spawn(config).0.warnings().is_empty());
    // More than the kernel can book, privileges or not.
    let config = DriverConfig { receive_buffer_bytes: 3 << 30, ..listening(ListenConfig::new(any())) };
    let (driver, _) = spawn(config);
    let warning = driver.warnings().first().cloned().unwrap_or_default();
    assert!(warning.contains("sysctl -w net.core.rmem_max="), "{warning}");
    assert!(driver.stats().expect("it lives").buffer_shortfall_bytes > 0);
}

#[test]
fn a_handle_can_be_shared_between_threads_whatever_the_node_is() {
    struct Pinned(Talker, std::rc::Rc<()>);
    impl Node for Pinned {
        fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
            self.0.handle_datagram(now, face, datagram);
        }
        fn handle_timeout(&mut self, now: Time) {
            self.0.handle_timeout(now);
        }
        fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
            self.0.poll_transmit(now, out)
        }
        fn poll_timeout(&self) -> Option<(Time, TimerId)> {
            self.0.poll_timeout()
        }
        fn poll_event(&mut self) -> Option<Event> {
            self.0.poll_event()
        }
    }
    let make = || Pinned(Talker::default(), std::rc::Rc::new(()));
    let driver = Driver::spawn(make, DriverConfig::default(), |_, _| {}).expect("it starts");
    let references: usize = thread::scope(|scope| {
        let count = || driver.call(|node, _| std::rc::Rc::strong_count(&node.1)).expect("it lives");
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(count)).collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).sum()
    });
    assert_eq!(references, 8);
}

/// A driver that echoes on all addresses, and its port.
fn on_all_addresses() -> (DriverHandle<Talker>, u16) {
    let all = ListenConfig::new("0.0.0.0:0".parse().expect("an address"));
    let (server, _) = spawn_as(echo, listening(all));
    let port = server.listen_addrs()[0].port();
    (server, port)
}
fn client() -> UdpSocket {
    let client = UdpSocket::bind(any()).expect("a socket");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    client
}

#[test]
fn a_listener_on_all_addresses_answers_from_the_one_that_was_asked() {
    // All of 127.0.0.0/8 is this machine; the routing table would answer from 127.0.0.1.
    let (server, port) = on_all_addresses();
    let client = client();
    let mut answer = [0; 16];
    for requested in ["127.0.0.2", "127.0.0.3", "127.0.0.2"] {
        let requested = SocketAddr::new(requested.parse().expect("an address"), port);
        client.send_to(b"hello", requested).expect("it is sent");
        assert_eq!(client.recv_from(&mut answer).expect("an answer"), (5, requested));
    }
    let sources: Vec<_> = server.stats().expect("it lives").faces.iter().filter_map(|face| face.source).collect();
    assert_eq!(sources, ["127.0.0.2", "127.0.0.3"].map(|source| source.parse::<std::net::IpAddr>().expect("one")));
}

#[test]
fn a_static_face_on_all_addresses_answers_where_it_was_asked_last() {
    let (server, port) = on_all_addresses();
    let client = client();
    let local = Some("0.0.0.0:0".parse().expect("an address"));
    let face = FaceConfig { local, ..FaceConfig::new(FACE, client.local_addr().expect("it is bound")) };
    // The port was chosen by the kernel; the shared socket is keyed by the requested address.
    server.add_face(face).expect("it is added");
    let mut answer = [0; 16];
    for requested in ["127.0.0.2", "127.0.0.3"] {
        let requested = SocketAddr::new(requested.parse().expect("an address"), port);
        client.send_to(b"hello", requested).expect("it is sent");
        assert_eq!(client.recv_from(&mut answer).expect("an answer"), (5, requested));
    }
    let faces: Vec<_> = got(&server, 2).into_iter().map(|(_, face, _)| face).collect();
    assert_eq!(faces, [FACE, FACE]);
}

#[test]
fn what_is_sent_from_the_address_that_was_asked_still_shares_system_calls() {
    let (server, port) = on_all_addresses();
    let client = client();
    client.send_to(b"hello", ("127.0.0.2", port)).expect("it is sent");
    let face = got(&server, 1)[0].1;
    say(&server, face, &[1_200; 40]);
    let mut answer = [0; 1_500];
    for _ in 0..41 {
        let (_, from) = client.recv_from(&mut answer).expect("it arrives");
        assert_eq!(from, SocketAddr::new("127.0.0.2".parse().expect("an address"), port));
    }
    let stats = server.stop().expect("it stops");
    assert!(stats.gso_calls >= 1 && stats.send_calls <= 5, "{stats:?}");
}

#[test]
fn a_peer_that_cannot_be_reached_yet_keeps_its_face_and_the_account_says_why() {
    let peer = "192.0.2.1:9".parse().expect("an address");
    let face = FaceConfig { local: Some(any()), ..FaceConfig::new(FACE, peer) };
    let (driver, _) = spawn(facing(face));
    say(&driver, FACE, &[5]);
    let stats = driver.stats().expect("it lives");
    let (why, _) = stats.faces[0].refused.expect("a datagram to there does not leave loopback");
    // Without any route the system's check fails first.
    assert!(["Invalid argument", "Network is unreachable"].contains(&why), "{why}");
    assert_eq!(stats.send_errors, 1);
}

//! Streams of all kinds between two drivers, against raw sockets, and through breaks.
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::fd::AsFd,
    sync::{Arc, mpsc},
    time::Duration as Wait,
};

use bytes::Bytes;
use proptest::prelude::*;
use socket2::{Domain, SockRef, Socket, Type};
use tributary_core::{
    Datagram, Duration, FaceChange, FaceId, Node, Time, TimerId, Transmit, TransmitBuf, event::Event,
};

use super::{
    Framing, PacketLength, StreamAddress, StreamFaceConfig,
    connection::{Connection, WebOrigins},
    table::Streams,
};
use crate::{Driver, DriverConfig, DriverError, DriverHandle, DriverStats, UnixAccess};

/// Packets that begin with their length in two bytes, themselves included.
#[derive(Debug)]
struct LengthFirst;
impl Framing for LengthFirst {
    fn packet_length(&self, bytes: &[u8]) -> PacketLength {
        match bytes {
            [high, low, ..] => match u16::from_be_bytes([*high, *low]) {
                0..2 => PacketLength::Invalid,
                length => PacketLength::Known(length.into()),
            },
            _ => PacketLength::Unknown,
        }
    }
}
fn packet(length: usize, fill: u8) -> Vec<u8> {
    let mut packet = vec![fill; length];
    packet[..2].copy_from_slice(&(length as u16).to_be_bytes());
    packet
}

/// Reports received packets, and echoes them if it is configured to.
struct Witness {
    seen: mpsc::Sender<Seen>,
    echoes: bool,
    outgoing: Vec<(FaceId, Datagram)>,
}
#[derive(Debug, PartialEq)]
enum Seen {
    Face(FaceId, FaceChange),
    Packet(FaceId, Vec<u8>),
}
impl Node for Witness {
    fn handle_datagram(&mut self, _: Time, face: FaceId, datagram: Datagram) {
        if self.echoes {
            self.outgoing.push((face, datagram));
        } else {
            self.seen.send(Seen::Packet(face, datagram.to_vec())).expect("the test listens");
        }
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, _: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        if self.outgoing.is_empty() {
            return None;
        }
        let (face, datagram) = self.outgoing.remove(0);
        out.push_datagram(datagram);
        Some(Transmit { face })
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        None
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
    fn handle_face(&mut self, _: Time, face: FaceId, change: FaceChange) {
        let _ = self.seen.send(Seen::Face(face, change));
    }
}

const FACE: FaceId = FaceId(7);
const PATIENCE: Wait = Wait::from_secs(20);

fn driver(echoes: bool, config: DriverConfig) -> (DriverHandle<Witness>, mpsc::Receiver<Seen>) {
    let (sender, seen) = mpsc::channel();
    let config = DriverConfig { framing: Some(Arc::new(LengthFirst)), ..config };
    let made = move || Witness { seen: sender, echoes, outgoing: Vec::new() };
    (Driver::spawn(made, config, |_, _| {}).expect("loopback works"), seen)
}
fn server(listen: &str) -> (DriverHandle<Witness>, mpsc::Receiver<Seen>) {
    let listen = vec![listen.parse().expect("an address")];
    driver(true, DriverConfig { stream_listen: listen, ..DriverConfig::default() })
}
fn client(peer: &StreamAddress) -> (DriverHandle<Witness>, mpsc::Receiver<Seen>) {
    let faces = vec![StreamFaceConfig { id: FACE, peer: peer.clone() }];
    driver(false, DriverConfig { stream_faces: faces, ..DriverConfig::default() })
}
fn opened(seen: &mpsc::Receiver<Seen>) -> FaceId {
    match seen.recv_timeout(PATIENCE).expect("it opens") {
        Seen::Face(face, FaceChange::Opened { .. }) => face,
        other => panic!("{other:?}"),
    }
}
fn send(driver: &DriverHandle<Witness>, packets: Vec<Vec<u8>>) {
    let send = move |node: &mut Witness, _| {
        node.outgoing.extend(packets.into_iter().map(|packet| (FACE, Datagram::from(packet))));
    };
    driver.call(send).expect("it runs");
}
fn echoes_packets_of_all_lengths(listen: &str) {
    let (server, _served) = server(listen);
    let (client, seen) = client(&server.stream_addrs()[0]);
    assert_eq!(opened(&seen), FACE);
    let packets: Vec<_> =
        [2, 3, 1_000, 8_800, 65_535].iter().cycle().take(60).map(|&length| packet(length, length as u8)).collect();
    send(&client, packets.clone());
    for packet in packets {
        let got = seen.recv_timeout(PATIENCE).expect("it comes back");
        assert!(got == Seen::Packet(FACE, packet), "another packet came");
    }
    assert_eq!(client.stats().expect("it runs").streams[0].in_packets, 60);
}

#[test]
fn tcp_carries_packets_of_all_lengths() {
    echoes_packets_of_all_lengths("tcp://127.0.0.1:0");
}
#[test]
fn websocket_carries_packets_of_all_lengths() {
    echoes_packets_of_all_lengths("ws://127.0.0.1:0");
}
#[test]
fn unix_sockets_carry_packets_and_leave_no_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("node.sock");
    echoes_packets_of_all_lengths(&format!("unix://{}", path.display()));
    assert!(!path.exists(), "the socket file is left behind");
    // The socket of a killed process does not stand in the way; one in use does.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    let (server, _seen) = server(&format!("unix://{}", path.display()));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).expect("it is there").permissions());
    assert_eq!(mode & 0o777, 0o600, "others must not connect");
    let config = DriverConfig {
        stream_listen: server.stream_addrs().to_vec(),
        framing: Some(Arc::new(LengthFirst)),
        ..DriverConfig::default()
    };
    let (sender, _seen) = mpsc::channel();
    let second = Driver::spawn(|| Witness { seen: sender, echoes: false, outgoing: Vec::new() }, config, |_, _| {});
    assert!(matches!(second, Err(DriverError::Stream { .. })));
}
#[test]
fn a_unix_socket_has_the_mode_that_the_settings_say_whatever_the_umask_is() {
    let dir = tempfile::tempdir().expect("a folder");
    for mode in [0o600, 0o660, 0o666] {
        let path = dir.path().join(format!("{mode:o}.sock"));
        let config = DriverConfig {
            stream_listen: vec![StreamAddress::Unix(path.clone())],
            unix_access: UnixAccess { mode, group: None },
            framing: Some(Arc::new(LengthFirst)),
            ..DriverConfig::default()
        };
        let (sender, _seen) = mpsc::channel();
        let made = Driver::spawn(|| Witness { seen: sender, echoes: false, outgoing: Vec::new() }, config, |_, _| {});
        let metadata = std::fs::metadata(&path).expect("it is there");
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777, mode);
        drop(made);
    }
}
#[test]
fn a_dialled_stream_comes_back_after_its_peer() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let (_client, seen) = client(&StreamAddress::Tcp(address));
    let (accepted, _) = listener.accept().expect("it dials");
    assert_eq!(opened(&seen), FACE);
    drop((accepted, listener));
    assert_eq!(seen.recv_timeout(PATIENCE), Ok(Seen::Face(FACE, FaceChange::Closed)));
    let listener = TcpListener::bind(address).expect("the port is free again");
    let (mut accepted, _) = listener.accept().expect("it dials again");
    assert_eq!(opened(&seen), FACE);
    accepted.write_all(&packet(100, 1)).expect("it is open");
    assert_eq!(seen.recv_timeout(PATIENCE), Ok(Seen::Packet(FACE, packet(100, 1))));
}
#[test]
fn a_peer_that_is_away_is_tried_again_each_second_at_least() {
    let peer = StreamAddress::Unix("/nowhere/at/all".into());
    let (mut streams, _) = Streams::open(&DriverConfig {
        framing: Some(Arc::new(LengthFirst)),
        stream_faces: vec![StreamFaceConfig { id: FaceId(1), peer }],
        ..DriverConfig::default()
    })
    .unwrap();
    let mut now = Time::ZERO;
    for _ in 0..20 {
        streams.poll(now, &mut DriverStats::default());
        let due = streams.next_due().unwrap();
        assert!(due > now && due.since(now) <= Duration::from_secs(1), "{due}");
        now = due;
    }
}

#[test]
fn a_connection_that_does_not_open_is_given_up_and_tried_again() {
    // Without an accept, connections beyond the backlog get no answer, as from a machine that is away.
    let full = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().expect("an address");
    full.bind(&any.into()).expect("a port is free");
    full.listen(0).expect("it listens");
    let peer = full.local_addr().expect("it is bound").as_socket().expect("IP");
    let _first = TcpStream::connect(peer).expect("the backlog has one place");
    let (mut streams, _) = Streams::open(&DriverConfig {
        framing: Some(Arc::new(LengthFirst)),
        stream_faces: vec![StreamFaceConfig { id: FACE, peer: StreamAddress::Tcp(peer) }],
        ..DriverConfig::default()
    })
    .expect("it opens");
    let (mut now, mut dialled) = (Time::ZERO, 0);
    while now < Time::ZERO + Duration::from_secs(20) {
        assert!(streams.poll(now, &mut DriverStats::default()).is_empty(), "it never opens");
        dialled += usize::from(streams.interests().count() == 1);
        now = streams.next_due().expect("it goes on");
    }
    assert!((4..=5).contains(&dialled), "{dialled} times in 20 s");
}
#[test]
fn who_connects_and_says_nothing_holds_its_place_for_some_seconds_only() {
    let config = DriverConfig {
        framing: Some(Arc::new(LengthFirst)),
        stream_listen: vec!["ws://127.0.0.1:0".parse().expect("an address")],
        ..DriverConfig::default()
    };
    let (mut streams, listen) = Streams::open(&config).expect("it opens");
    let StreamAddress::WebSocket(address) = listen[0] else { panic!("WebSocket") };
    let mut silent = TcpStream::connect(address).expect("it listens");
    streams.set_ready([true].into_iter());
    streams.poll(Time::ZERO, &mut DriverStats::default());
    assert_eq!(streams.interests().count(), 2, "the listener and the silent one");
    let due = streams.next_due().expect("it is given up");
    assert!(streams.poll(due, &mut DriverStats::default()).is_empty());
    assert_eq!((streams.interests().count(), streams.next_due()), (1, None));
    assert!(matches!(silent.read(&mut [0; 8]), Ok(0) | Err(_)), "it is told");
}
#[test]
fn a_web_page_opens_a_websocket_only_if_its_origin_is_known() {
    let known = ["https://example.org", "http://localhost:8080"];
    let listen = vec!["ws://127.0.0.1:0".parse().expect("an address")];
    let config = |web_origins| DriverConfig { stream_listen: listen.clone(), web_origins, ..DriverConfig::default() };
    let (closed, closed_seen) = driver(false, config(Vec::new()));
    let (open, open_seen) = driver(false, config(known.map(String::from).to_vec()));
    for (origins, status_closed, status_open) in [
        ("", "101", "101"),
        ("Origin: https://example.org\r\n", "403", "101"),
        ("origin: http://localhost:8080\r\n", "403", "101"),
        ("Origin: https://example.net\r\n", "403", "403"),
        ("Origin: http://example.org\r\n", "403", "403"),
        ("Origin: https://example.org:8443\r\n", "403", "403"),
        ("Origin: https://example.org.example.net\r\n", "403", "403"),
        ("Origin: null\r\n", "403", "403"),
        ("Origin:\r\n", "403", "403"),
        ("Origin: https://example.org\r\nOrigin: https://example.net\r\n", "403", "403"),
    ] {
        for (server, seen, expected) in [(&closed, &closed_seen, status_closed), (&open, &open_seen, status_open)] {
            let StreamAddress::WebSocket(address) = server.stream_addrs()[0] else { panic!("WebSocket") };
            let mut peer = TcpStream::connect(address).expect("it listens");
            peer.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            let request = format!(
                "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{origins}\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            );
            peer.write_all(request.as_bytes()).expect("it is open");
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                peer.read_exact(&mut byte).expect("it answers");
                answer.extend(byte);
            }
            let answer = String::from_utf8_lossy(&answer);
            assert!(answer.starts_with(&format!("HTTP/1.1 {expected} ")), "{origins}{answer}");
            if expected == "101" {
                let face = opened(seen);
                drop(peer);
                assert_eq!(seen.recv_timeout(PATIENCE), Ok(Seen::Face(face, FaceChange::Closed)));
            } else {
                assert!(matches!(peer.read(&mut [0; 8]), Ok(0)), "{origins}: it stays open");
                assert_eq!(server.stats().expect("it runs").streams, [], "{origins}");
                assert!(seen.try_recv().is_err(), "{origins}: the node has seen it");
            }
        }
    }
}
#[test]
fn a_connection_is_watched_by_the_kernel_as_long_as_it_lasts() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let peer = StreamAddress::Tcp(listener.local_addr().expect("it is bound"));
    let dialled = Connection::dial(&peer, 1_000).expect("it dials");
    let accepted = listener.accept().expect("it comes").0.into();
    let accepted = Connection::accepted(accepted, &peer, &WebOrigins::default(), 1_000).expect("it is");
    for connection in [dialled, accepted] {
        let (fd, limit) = (connection.as_fd(), Wait::from_secs(15));
        let socket = SockRef::from(&fd);
        assert_eq!(socket.tcp_user_timeout().expect("it is TCP"), Some(limit));
        assert!(socket.keepalive().expect("it is TCP") && socket.tcp_keepalive_time().expect("it is TCP") < limit);
    }
}
#[test]
fn a_peer_that_sends_no_packets_is_closed() {
    let (server, seen) = server("tcp://127.0.0.1:0");
    let StreamAddress::Tcp(address) = server.stream_addrs()[0] else { panic!("TCP") };
    let mut peer = TcpStream::connect(address).expect("it listens");
    let face = opened(&seen);
    peer.write_all(&[0, 1, 2, 3]).expect("it is open");
    assert_eq!(seen.recv_timeout(PATIENCE), Ok(Seen::Face(face, FaceChange::Closed)));
    peer.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    assert!(matches!(peer.read(&mut [0; 8]), Ok(0) | Err(_)), "it is closed for the peer too");
}
#[test]
fn what_a_slow_peer_does_not_read_is_dropped_in_whole_packets() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = StreamAddress::Tcp(listener.local_addr().expect("it is bound"));
    let faces = vec![StreamFaceConfig { id: FACE, peer: address }];
    let config = DriverConfig { stream_faces: faces, backlog_bytes_max: 100_000, ..DriverConfig::default() };
    let (client, seen) = driver(false, config);
    let (mut accepted, _) = listener.accept().expect("it dials");
    opened(&seen);
    send(&client, (0..3_000).map(|index| packet(10_000, index as u8)).collect());
    let stats = loop {
        let stats = client.stats().expect("it runs");
        if stats.streams[0].out_packets + stats.backlog_drops == 3_000 {
            break stats;
        }
    };
    assert!(stats.backlog_drops > 0, "30 MB fit into the kernel");
    let mut received = 0;
    accepted.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut bytes = vec![0; 10_000];
    while received < stats.streams[0].out_packets {
        accepted.read_exact(&mut bytes).expect("what was taken arrives");
        assert!(bytes == packet(10_000, bytes[2]), "a packet was cut");
        received += 1;
    }
}
#[test]
fn streams_need_a_framing() {
    let (sender, _seen) = mpsc::channel();
    let config = DriverConfig {
        stream_listen: vec!["tcp://127.0.0.1:0".parse().expect("an address")],
        ..DriverConfig::default()
    };
    let driver = Driver::spawn(|| Witness { seen: sender, echoes: false, outgoing: Vec::new() }, config, |_, _| {});
    assert!(matches!(driver, Err(DriverError::NoFraming)));
}
#[test]
fn addresses_read_back_and_nonsense_is_refused() {
    for text in ["tcp://127.0.0.1:6363", "tcp://[::1]:6363", "unix:///run/node.sock", "ws://127.0.0.1:9696"] {
        assert_eq!(text.parse::<StreamAddress>().expect(text).to_string(), text);
    }
    assert_eq!("tcp4://127.0.0.1:1".parse(), Ok(StreamAddress::Tcp("127.0.0.1:1".parse().expect("an address"))));
    for text in
        ["", "tcp://", "tcp://127.0.0.1", "tcp6://127.0.0.1:1", "unix://relative", "udp://127.0.0.1:1", "127.0.0.1:1"]
    {
        assert!(text.parse::<StreamAddress>().is_err(), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]
    /// However the bytes are cut on their way, the same packets arrive.
    #[test]
    fn packets_survive_any_cuts(lengths in prop::collection::vec(2usize..3_000, 1..40), cuts in prop::collection::vec(1usize..4_000, 1..40)) {
        let (server, _seen) = server("tcp://127.0.0.1:0");
        let StreamAddress::Tcp(address) = server.stream_addrs()[0] else { panic!("TCP") };
        let mut peer = TcpStream::connect(address).expect("it listens");
        peer.set_nodelay(true).expect("an option");
        peer.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let bytes: Bytes = lengths.iter().enumerate().flat_map(|(index, &length)| packet(length, index as u8)).collect();
        let mut rest = bytes.clone();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            peer.write_all(&rest.split_to((*cut).min(rest.len()))).expect("it is open");
        }
        let mut back = vec![0; bytes.len()];
        peer.read_exact(&mut back).expect("all comes back");
        prop_assert!(back == bytes);
    }
}

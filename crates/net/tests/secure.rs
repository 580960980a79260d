//! Secure faces on real sockets.
use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{self, Receiver},
    },
    thread,
    time::Duration as StdDuration,
};

use bytes::Bytes;
use tributary_core::{event::Event, *};
use tributary_net::{Driver, DriverConfig, DriverHandle, FaceConfig, ListenConfig};
use tributary_secure::{Admission, Config, Peer, Protection, Refusal, Secured};

/// Sends its outbox, and in echo mode sends back received packets.
#[derive(Default)]
struct Talker {
    outbox: Vec<(FaceId, Bytes)>,
    got: Vec<(FaceId, Bytes)>,
    echoes: bool,
}

impl Node for Talker {
    fn handle_datagram(&mut self, _: Time, face: FaceId, datagram: Datagram) {
        let bytes = datagram.into_bytes();
        if self.echoes {
            self.outbox.push((face, bytes.clone()));
        }
        self.got.push((face, bytes));
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, _: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        let (face, bytes) = self.outbox.pop()?;
        out.push(&[], bytes);
        Some(Transmit { face })
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        None
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}

struct Anybody;

impl Admission for Anybody {
    fn admit(&mut self, _: Time, _: FaceId, key: &[u8; 32], _: &[u8]) -> Result<Peer, Refusal> {
        Ok(Peer { key: PeerKey(*key), label: "somebody".into() })
    }
}

const PATIENCE: StdDuration = StdDuration::from_secs(20);
const FACE: FaceId = FaceId(1);

fn spawn(number: u8, echoes: bool, config: DriverConfig) -> (DriverHandle<Secured<Talker>>, Receiver<String>) {
    let (sender, events) = mpsc::channel();
    let on_event = move |_, event| {
        if let Event::Note(note) = event {
            let _ = sender.send(note);
        }
    };
    let make = move || {
        let config = Config {
            secret: [number; 32],
            presented: Vec::new(),
            protection: Protection::Encrypted,
            policy: FaceProtection::Required,
        };
        let mut random = Random::new(u64::from(number), 0);
        let entropy = Box::new(move |bytes: &mut [u8]| bytes.iter_mut().for_each(|byte| *byte = random.bits() as u8));
        Secured::new(Talker { echoes, ..Talker::default() }, config, Box::new(Anybody), entropy)
    };
    (Driver::spawn(make, config, on_event).expect("it starts"), events)
}
fn any() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}
/// Waits until the node has got `count` packets, and gives them.
fn got(driver: &DriverHandle<Secured<Talker>>, count: usize) -> Vec<(FaceId, Bytes)> {
    let end = driver.clock().now() + PATIENCE;
    loop {
        let got = driver.call(|node, _| node.node().got.clone()).expect("it lives");
        if got.len() >= count || driver.clock().now() > end {
            assert_eq!(got.len(), count, "packets in time");
            return got;
        }
        thread::sleep(StdDuration::from_millis(1));
    }
}
fn say(driver: &DriverHandle<Secured<Talker>>, text: &'static str) {
    driver.call(move |node, _| node.node_mut().outbox.push((FACE, text.into()))).expect("it lives");
}

/// A NAT between a client and `server`: it has one address for the client and, towards the server, one that it changes
/// on command.
struct Nat {
    front: SocketAddr,
    generation: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Nat {
    fn start(server: SocketAddr) -> Nat {
        let (front, generation, stop) = (
            UdpSocket::bind(any()).expect("a socket"),
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let address = front.local_addr().expect("bound");
        let (wanted, ends) = (Arc::clone(&generation), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            let outer = || {
                let socket = UdpSocket::bind(any()).expect("a socket");
                socket.connect(server).expect("an address");
                socket.set_nonblocking(true).expect("it can");
                socket
            };
            front.set_nonblocking(true).expect("it can");
            let (mut back, mut has, mut client) = (outer(), 0, None);
            let mut room = [0; 2_000];
            while !ends.load(Ordering::Relaxed) {
                if wanted.load(Ordering::Relaxed) != has {
                    (back, has) = (outer(), has + 1);
                }
                if let Ok((bytes, from)) = front.recv_from(&mut room) {
                    client = Some(from);
                    let _ = back.send(&room[..bytes]);
                } else if let (Ok(bytes), Some(client)) = (back.recv(&mut room), client) {
                    let _ = front.send_to(&room[..bytes], client);
                } else {
                    thread::sleep(StdDuration::from_micros(200));
                }
            }
        });
        Nat { front: address, generation, stop, thread: Some(thread) }
    }
    fn restart(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Nat {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().into_iter().for_each(|thread| thread.join().expect("it ends"));
    }
}

#[test]
fn a_neighbour_behind_a_nat_keeps_its_face_when_the_nat_is_started_again() {
    let listening = DriverConfig { listen: vec![ListenConfig::new(any())], ..DriverConfig::default() };
    let (server, events) = spawn(1, true, listening);
    let nat = Nat::start(server.listen_addrs()[0]);
    let config = DriverConfig { faces: vec![FaceConfig::new(FACE, nat.front)], ..DriverConfig::default() };
    let (client, _) = spawn(2, false, config);
    say(&client, "one");
    let face = got(&server, 1)[0].0;
    got(&client, 1);
    for number in 1..4usize {
        nat.restart();
        // The first packet from the new address asks for the proof, and its answer goes the old way.
        say(&client, "moved");
        got(&server, number * 2);
        loop {
            let note = events.recv_timeout(PATIENCE).expect("the face moves");
            if note.contains("has moved from") {
                break;
            }
        }
        let heard = client.call(|node, _| node.node().got.len()).expect("it lives");
        say(&client, "again");
        let all = got(&server, number * 2 + 1);
        assert!(all.iter().all(|(of, _)| *of == face), "it is the same neighbour: {all:?}");
        let end = client.clock().now() + PATIENCE;
        while client.call(|node, _| node.node().got.len()).expect("it lives") <= heard {
            assert!(client.clock().now() < end, "answers find the new address");
            thread::sleep(StdDuration::from_millis(1));
        }
    }
    let stats = server.stop().expect("it stops");
    assert_eq!(stats.faces.len(), 1, "the faces of old addresses are gone");
}

#[test]
fn addresses_get_no_face_before_they_return_their_own_cookie() {
    let listening = DriverConfig { listen: vec![ListenConfig::new(any())], ..DriverConfig::default() };
    let (server, _) = spawn(1, true, listening);
    let at = server.listen_addrs()[0];
    let initiation = |cookie: &[u8]| [&[0xd0, 53, 1, 0, 0, 9][..], cookie, &[7; 32]].concat();
    let ask = |socket: &UdpSocket, packet: &[u8]| {
        socket.send_to(packet, at).expect("sent");
        let mut room = [0; 2_000];
        socket.recv(&mut room).map(|bytes| room[..bytes].to_vec()).expect("an answer")
    };
    let sockets: Vec<UdpSocket> = (0..50).map(|_| UdpSocket::bind(any()).expect("a socket")).collect();
    for socket in &sockets {
        socket.set_read_timeout(Some(PATIENCE)).expect("it can");
    }
    let cookies: Vec<_> = sockets.iter().map(|socket| ask(socket, &initiation(&[0; 17]))[5..22].to_vec()).collect();
    // A cookie of another address is worth another cookie.
    assert_eq!(ask(&sockets[1], &initiation(&cookies[0]))[0], 0xd1);
    // Words without a session, and packets of sessions that nobody has, get no face either.
    assert_eq!(ask(&sockets[2], &[&[0xd4, 1, 2, 3][..], &[0; 40]].concat())[0], 0xd7);
    let faces = || server.stats().expect("it lives").faces.len();
    assert_eq!(faces(), 0);
    assert_eq!(ask(&sockets[3], &initiation(&cookies[3]))[0], 0xd2, "its handshake is answered");
    assert_eq!(faces(), 1);
    let (client, _) =
        spawn(2, false, DriverConfig { faces: vec![FaceConfig::new(FACE, at)], ..DriverConfig::default() });
    say(&client, "a true neighbour");
    got(&client, 1);
    assert_eq!(faces(), 2);
}

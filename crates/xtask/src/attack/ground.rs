//! The target: a publisher, and receivers that fetch from it through a relay.
use std::{
    fs,
    net::{SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use socket2::SockRef;

use super::Family;
use crate::{
    Outcome,
    harness::{
        stage::Stage,
        trib::{Daemon, Done, Face, NodeSpec, Trib},
    },
};

const NAME: &str = "/attacked/file";
const LINK: &str = "rate = \"100Mbps\", queue = \"512KiB\"";
/// How long a fetch may take that should take some seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long to wait for an answer to an unknown sender.
const ANSWER_PATIENCE: Duration = Duration::from_millis(30);

/// A network of one family.
pub(super) struct Ground<'a> {
    trib: &'a Trib,
    stage: &'a Stage,
    family: Family,
    publisher: Daemon,
    pub(super) relay: Arc<Relay>,
}

/// The answers to one message of an unknown sender.
pub(super) struct Amplified {
    pub(super) name: String,
    sent: usize,
    received: usize,
}

impl Amplified {
    pub(super) fn factor(&self) -> f64 {
        self.received as f64 / self.sent.max(1) as f64
    }
}

impl<'a> Ground<'a> {
    /// Starts the publisher.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) fn new(trib: &'a Trib, stage: &'a Stage, family: Family, file: &Path) -> Outcome<Ground<'a>> {
        let (word, roles) = (family.word(), roles(family));
        let (front, back) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        let publisher = NodeSpec {
            label: format!("{word}-publisher"),
            family: Some(word),
            roles,
            faces: vec![Face { egress: Some(LINK.into()), ..Face::to(back.local_addr()?) }],
            publish: Some((NAME.into(), file.into())),
            ..NodeSpec::default()
        };
        let publisher = trib.node(stage, &publisher)?;
        if family != Family::Ndn {
            publisher.wait_until_published()?;
        }
        let relay = Relay::start(front, back, publisher.address)?;
        Ok(Ground { trib, stage, family, publisher, relay })
    }
    /// Where the publisher listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.publisher.address
    }
    /// The most memory that the publisher has had.
    pub(super) fn memory(&self) -> u64 {
        self.publisher.process.peak_bytes()
    }
    /// Bytes of its log.
    pub(super) fn log_bytes(&self) -> u64 {
        let log = self.stage.path(&format!("{}-publisher.stderr", self.family.word()));
        fs::metadata(log).map_or(0, |log| log.len())
    }
    /// Fetches the file with a fresh receiver whose packets take `delay` to the relay; returns the seconds.
    ///
    /// # Errors
    /// If it does not arrive.
    pub(super) fn fetch(&self, delay: Duration) -> Outcome<f64> {
        let word = self.family.word();
        let receiver = NodeSpec::new(format!("{word}-receiver"), &["receiver"]).family(word).face(Face {
            egress: Some(format!("{LINK}, delay = \"{}ms\"", delay.as_millis())),
            more: if self.family == Family::Ndn { "routes = [\"/\"]\n".into() } else { String::new() },
            ..Face::to(self.relay.front.local_addr()?)
        });
        let output: PathBuf = self.stage.path(&format!("{}-output", receiver.label));
        if output.exists() {
            fs::remove_file(&output)?;
        }
        let get = self.trib.get_here(self.stage, &receiver, NAME, &output)?;
        Ok(Done::read(&get.finish(PATIENCE)?.lines)?.seconds)
    }
    /// Sends each kind of message of the family once, each from a separate address, and counts the bytes of the
    /// answers.
    ///
    /// # Errors
    /// If no socket can be opened.
    pub(super) fn amplification(&self) -> Outcome<Vec<Amplified>> {
        let mut measured = Vec::new();
        for (name, bytes) in super::flood::messages(self.family) {
            let stranger = UdpSocket::bind("127.0.0.1:0")?;
            stranger.set_read_timeout(Some(ANSWER_PATIENCE))?;
            stranger.send_to(&bytes, self.address())?;
            let mut buffer = [0; 1 << 16];
            let mut received = 0;
            while let Ok(length) = stranger.recv(&mut buffer) {
                received += length;
            }
            measured.push(Amplified { name, sent: bytes.len(), received });
        }
        Ok(measured)
    }
}

/// Everything that a network needs in one node, which also publishes.
pub(super) fn roles(family: Family) -> &'static [&'static str] {
    match family {
        Family::Psi => &["sender", "router", "resolver", "topology-manager"],
        Family::Ndn => &["sender", "router"],
        Family::Mf => &["sender", "router", "resolver"],
    }
}

/// Passes packets between the receiver and the publisher, and lets an attacker read them and inject others.
pub(super) struct Relay {
    front: UdpSocket,
    back: UdpSocket,
    publisher: SocketAddr,
    receiver: Mutex<Option<SocketAddr>>,
    /// The last packets: where to, and their bytes.
    seen: Mutex<Vec<(Towards, Vec<u8>)>>,
    ended: AtomicBool,
}

/// Whom a packet is for.
#[derive(Clone, Copy)]
pub(super) enum Towards {
    Publisher,
    Receiver,
}

/// What the kernel keeps for the relay, in bytes.
const BUFFER: usize = 4 << 20;
/// Packets that an attacker remembers.
const SEEN_MAX: usize = 2_048;

impl Relay {
    fn start(front: UdpSocket, back: UdpSocket, publisher: SocketAddr) -> Outcome<Arc<Relay>> {
        for socket in [&front, &back] {
            // A thread must see that the relay has ended.
            socket.set_read_timeout(Some(Duration::from_millis(100)))?;
            let socket = SockRef::from(socket);
            socket.set_recv_buffer_size(BUFFER)?;
            socket.set_send_buffer_size(BUFFER)?;
        }
        let (receiver, seen) = (Mutex::new(None), Mutex::new(Vec::new()));
        let relay = Arc::new(Relay { front, back, publisher, receiver, seen, ended: AtomicBool::new(false) });
        for towards in [Towards::Publisher, Towards::Receiver] {
            let relay = Arc::downgrade(&relay);
            thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while let Some(relay) = relay.upgrade().filter(|relay| !relay.ended.load(Ordering::Relaxed)) {
                    relay.pass(towards, &mut buffer);
                }
            });
        }
        Ok(relay)
    }
    fn pass(&self, towards: Towards, buffer: &mut [u8]) {
        let from = match towards {
            Towards::Publisher => &self.front,
            Towards::Receiver => &self.back,
        };
        let until = Instant::now() + Duration::from_millis(100);
        let mut count = 0_usize;
        while Instant::now() < until
            && let Ok((length, peer)) = from.recv_from(buffer)
        {
            match towards {
                Towards::Publisher => *lock(&self.receiver) = Some(peer),
                // What the flood sends to this address is no part of the path.
                Towards::Receiver if peer != self.publisher => continue,
                Towards::Receiver => {}
            }
            self.send(towards, &buffer[..length]);
            count += 1;
            let mut seen = lock(&self.seen);
            if seen.len() < SEEN_MAX {
                seen.push((towards, buffer[..length].to_vec()));
            } else {
                let place = count.wrapping_mul(0x9e37_79b1) % SEEN_MAX;
                seen[place] = (towards, buffer[..length].to_vec());
            }
        }
    }
    /// Sends a packet as if over the path; packets that do not fit into the kernel's buffer are lost.
    pub(super) fn send(&self, towards: Towards, packet: &[u8]) {
        let _ = match towards {
            Towards::Publisher => self.back.send_to(packet, self.publisher),
            Towards::Receiver => {
                let Some(receiver) = *lock(&self.receiver) else { return };
                self.front.send_to(packet, receiver)
            }
        };
    }
    /// Destination of packets in that direction.
    pub(super) fn address(&self, towards: Towards) -> Option<SocketAddr> {
        match towards {
            Towards::Publisher => Some(self.publisher),
            Towards::Receiver => *lock(&self.receiver),
        }
    }
    /// One of the last packets.
    pub(super) fn seen(&self, number: usize) -> Option<(Towards, Vec<u8>)> {
        let seen = lock(&self.seen);
        (!seen.is_empty()).then(|| seen[number % seen.len()].clone())
    }
}
impl Drop for Ground<'_> {
    fn drop(&mut self) {
        self.relay.ended.store(true, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

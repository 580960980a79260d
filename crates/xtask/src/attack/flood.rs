//! Floods: the attacker's packets, their source, and their rate.
use std::{
    fmt,
    net::UdpSocket,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tributary_core::Random;

use super::{
    Family,
    ground::{Ground, Relay, Towards},
};
use crate::Outcome;

/// A kind of flood.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Random bytes from one address.
    Garbage,
    /// Random bytes from 500 addresses.
    GarbageFromMany,
    /// Valid messages of the family, of every kind, from 500 addresses.
    MessagesFromMany,
    /// First messages of handshakes from 500 addresses.
    HandshakesFromMany,
    /// First messages of handshakes from one address that returns the cookie.
    HandshakesWithCookie,
    /// Packets of the path, repeated over the path.
    Replayed,
    /// Packets of the path with one bit changed, over the path.
    Changed,
    /// The same from 500 addresses.
    ChangedFromMany,
}

impl Kind {
    pub(super) const ALL: &[Kind] = &[
        Kind::Garbage,
        Kind::GarbageFromMany,
        Kind::MessagesFromMany,
        Kind::HandshakesFromMany,
        Kind::HandshakesWithCookie,
        Kind::Replayed,
        Kind::Changed,
        Kind::ChangedFromMany,
    ];
    fn addresses(self) -> usize {
        match self {
            Kind::Garbage | Kind::HandshakesWithCookie => 1,
            Kind::Replayed | Kind::Changed => 0,
            _ => 500,
        }
    }
}
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Garbage => "garbage",
            Kind::GarbageFromMany => "garbage, 500 addresses",
            Kind::MessagesFromMany => "messages, 500 addresses",
            Kind::HandshakesFromMany => "handshakes, 500 addresses",
            Kind::HandshakesWithCookie => "handshakes with cookies",
            Kind::Replayed => "replayed, on the path",
            Kind::Changed => "changed, on the path",
            Kind::ChangedFromMany => "changed, 500 addresses",
        })
    }
}

/// Valid messages of a family that any node may send, by name.
pub(super) fn messages(family: Family) -> Vec<(String, Vec<u8>)> {
    let targets: &[&str] = match family {
        Family::Psi => &["header", "request", "data_header", "hello", "beacon", "control_packet"],
        Family::Ndn => &["ndn_interest", "ndn_data", "ndn_link", "ndn_control"],
        Family::Mf => &["mf_hello", "mf_hop", "mf_chunk"],
    };
    let seeds = fuzz_targets::seeds::all().into_iter().filter(|(target, ..)| targets.contains(target));
    let messages = seeds.map(|(target, name, bytes)| (format!("{target} {name}"), bytes));
    messages.chain([("handshake".into(), initiation(&[7; 32], &NO_COOKIE))]).collect()
}

const NO_COOKIE: [u8; 17] = [0; 17];

/// The first message of a handshake; see the packets of the crate `trib-secure`.
fn initiation(ephemeral: &[u8], cookie: &[u8]) -> Vec<u8> {
    [&[0xd0, 53, 1], &ephemeral[..3], cookie, &ephemeral[..32]].concat()
}

/// A running flood.
pub(super) struct Flood {
    ended: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    begun: Instant,
    thread: JoinHandle<()>,
}

/// Interval of the bursts.
const TICK: Duration = Duration::from_millis(1);

impl Flood {
    /// Begins to send `rate` packets a second to both ends of the path.
    ///
    /// # Errors
    /// If sockets cannot be opened.
    pub(super) fn start(kind: Kind, family: Family, ground: &Ground<'_>, rate: u32) -> Outcome<Flood> {
        let address = |number: usize| format!("127.1.{}.{}:0", number / 250, 1 + number % 250);
        let sockets: Vec<UdpSocket> =
            (0..kind.addresses()).map(|number| UdpSocket::bind(address(number))).collect::<Result<_, _>>()?;
        for socket in &sockets {
            socket.set_nonblocking(true)?;
        }
        let messages = messages(family).into_iter().map(|(_, bytes)| bytes).collect();
        let random = Random::new(1, 1);
        let mut attacker =
            Attacker { kind, sockets, messages, random, relay: Arc::clone(&ground.relay), cookie: NO_COOKIE };
        let (ended, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let begun = Instant::now();
        let thread = thread::spawn({
            let (ended, sent) = (Arc::clone(&ended), Arc::clone(&sent));
            move || {
                while !ended.load(Ordering::Relaxed) {
                    let owed = (begun.elapsed().as_secs_f64() * f64::from(rate)) as u64;
                    // Where the machine had no time it is not made up for.
                    let burst = owed.saturating_sub(sent.load(Ordering::Relaxed)).min(u64::from(rate) / 100);
                    (0..burst).for_each(|_| attacker.send());
                    sent.fetch_add(burst, Ordering::Relaxed);
                    thread::sleep(TICK);
                }
            }
        });
        Ok(Flood { ended, sent, begun, thread })
    }
    /// Ends it; returns how many packets it sent a second.
    pub(super) fn stop(self) -> u64 {
        self.ended.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        (self.sent.load(Ordering::Relaxed) as f64 / self.begun.elapsed().as_secs_f64()) as u64
    }
}

struct Attacker {
    kind: Kind,
    sockets: Vec<UdpSocket>,
    messages: Vec<Vec<u8>>,
    random: Random,
    relay: Arc<Relay>,
    cookie: [u8; 17],
}

impl Attacker {
    fn send(&mut self) {
        match self.kind {
            Kind::Garbage | Kind::GarbageFromMany => {
                let length = 1 + self.random.below(1_400) as usize;
                let packet = self.bytes(length);
                self.send_apart(&packet);
            }
            Kind::MessagesFromMany => {
                let at = self.random.below(self.messages.len() as u64) as usize;
                let packet = self.messages[at].clone();
                self.send_apart(&packet);
            }
            Kind::HandshakesFromMany => {
                let ephemeral = self.bytes(32);
                self.send_apart(&initiation(&ephemeral, &NO_COOKIE));
            }
            Kind::HandshakesWithCookie => {
                let mut buffer = [0; 2_048];
                while let Ok(length) = self.sockets[0].recv(&mut buffer) {
                    if let [0xd1, 20, _, _, _, cookie @ ..] = &buffer[..length]
                        && let Ok(cookie) = cookie.try_into()
                    {
                        self.cookie = cookie;
                    }
                }
                let ephemeral = self.bytes(32);
                let packet = initiation(&ephemeral, &self.cookie);
                if let Some(publisher) = self.relay.address(Towards::Publisher) {
                    let _ = self.sockets[0].send_to(&packet, publisher);
                }
            }
            Kind::Replayed => self.copy(false, true),
            Kind::Changed => self.copy(true, true),
            Kind::ChangedFromMany => self.copy(true, false),
        }
    }
    /// A repeated packet of the path.
    fn copy(&mut self, is_changed: bool, is_on_path: bool) {
        let number = self.random.below(1 << 32) as usize;
        let Some((towards, mut packet)) = self.relay.seen(number).filter(|(_, packet)| !packet.is_empty()) else {
            return;
        };
        if is_changed {
            let bit = self.random.below(packet.len() as u64 * 8) as usize;
            packet[bit / 8] ^= 1 << (bit % 8);
        }
        match is_on_path {
            true => self.relay.send(towards, &packet),
            false => self.send_apart_towards(towards, &packet),
        }
    }
    /// Sends from a separate address to either end.
    fn send_apart(&mut self, packet: &[u8]) {
        let towards = if self.random.below(2) == 0 { Towards::Publisher } else { Towards::Receiver };
        self.send_apart_towards(towards, packet);
    }
    fn send_apart_towards(&mut self, towards: Towards, packet: &[u8]) {
        let from = self.random.below(self.sockets.len() as u64) as usize;
        // The receiver's address is known from its first packet; packets that do not fit into the kernel's buffer are
        // lost.
        if let Some(to) = self.relay.address(towards) {
            let _ = self.sockets[from].send_to(packet, to);
        }
    }
    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length.div_ceil(8)).flat_map(|_| self.random.below(u64::MAX).to_le_bytes()).take(length).collect()
    }
}

//! Messages of all exchanges, in and out of the node's messenger. The messenger blocks on the node's thread, which
//! tasks of the runtime must not do, so it runs on its own threads.
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread::JoinHandle,
};
use tokio::{
    runtime::Runtime,
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tributary::{
    Clock, Credential,
    messenger::{Message as Mail, Messenger},
};
use tributary_content::{Name, PublicKey};
use tributary_core::{Duration, Time, TransferId};
use tributary_transport::messaging::{Destination, InNetwork, Reliability, SendOptions, SendReport, Spread};

use crate::{
    config::{Limits, Timeouts},
    exchange::{ExchangeId, Kind, Message},
    stream::{Exchange, SILENCE_MAX},
};

/// How often the state of the messages under way is read; each reading takes the node's thread some microseconds.
const POLL: Duration = Duration::from_millis(5);
/// The same when nothing is under way.
const POLL_IDLE: Duration = Duration::from_millis(50);
/// Interval of the check for silent exchanges.
const TEND: Duration = Duration::from_secs(1);
/// How long a request without a receiver is retried: the device attached to its name may be moving.
const NOBODY_PATIENCE: Duration = Duration::from_secs(2);
/// Messages under way to one device at most: a node takes 256 at a time, from everybody.
const UNDER_WAY_TO_ONE: usize = 128;
/// Verified credentials that are remembered; verifying one again costs 50 µs.
const CREDENTIALS_KEPT: usize = 1_024;
/// How long messages that are under way may take to arrive when the proxy ends.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// A message that is to go.
pub(crate) struct Outgoing {
    pub(crate) to: Destination,
    pub(crate) message: Message,
    /// Released when the message has arrived or has failed.
    pub(crate) permits: Vec<OwnedSemaphorePermit>,
    /// The exchange, which fails if the message cannot arrive, and is known until it has.
    pub(crate) exchange: Option<Arc<Exchange>>,
}

/// The signer of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Peer {
    /// The GUID of the device, in hex.
    pub(crate) device: String,
    /// The key that its messages are signed with.
    pub(crate) key: PublicKey,
}

/// Takes requests that begin an exchange.
pub(crate) type OnOpen = Box<dyn Fn(&Arc<Courier>, Peer, Message) + Send>;

/// The messages of all exchanges.
pub(crate) struct Courier {
    pub(crate) messenger: Messenger,
    credential: Credential,
    pub(crate) clock: Clock,
    counter: AtomicU64,
    outgoing: Mutex<mpsc::Sender<Outgoing>>,
    exchanges: Mutex<BTreeMap<ExchangeId, Weak<Exchange>>>,
    /// How many messages may be under way to each device.
    to_devices: Mutex<BTreeMap<String, Weak<Semaphore>>>,
    ended: AtomicBool,
}

/// The threads of a courier; dropping it ends them.
pub(crate) struct Threads {
    courier: Arc<Courier>,
    handles: Vec<JoinHandle<()>>,
}
impl Drop for Threads {
    fn drop(&mut self) {
        self.courier.ended.store(true, Ordering::SeqCst);
        for handle in self.handles.drain(..) {
            let _ = handle.join();
        }
    }
}

impl Courier {
    /// Begins to carry messages; requests go to `on_open`.
    pub(crate) fn start(messenger: Messenger, on_open: Option<OnOpen>) -> std::io::Result<(Arc<Courier>, Threads)> {
        let (outgoing, to_send) = mpsc::channel();
        let credential = messenger.credential();
        let courier = Arc::new(Courier {
            messenger,
            credential,
            clock: Clock::new(),
            counter: AtomicU64::new(0),
            outgoing: Mutex::new(outgoing),
            exchanges: Mutex::default(),
            to_devices: Mutex::default(),
            ended: AtomicBool::new(false),
        });
        let mut threads = Threads { courier: Arc::clone(&courier), handles: Vec::new() };
        let reader = Arc::clone(&courier);
        let read = move || Reader { courier: reader, known: BTreeMap::new() }.run(on_open);
        threads.handles.push(std::thread::Builder::new().name("http in".into()).spawn(read)?);
        let sender = Arc::clone(&courier);
        let send = move || Sender { courier: sender, under_way: Vec::new() }.run(&to_send);
        threads.handles.push(std::thread::Builder::new().name("http out".into()).spawn(send)?);
        Ok((courier, threads))
    }
    /// Sends a message. How many wait is limited by the permits and credits of those who send.
    pub(crate) fn post(&self, outgoing: Outgoing) {
        // Sending fails only when the proxy shuts down.
        let _ = self.outgoing.lock().send(outgoing);
    }
    /// A message of this device.
    pub(crate) fn message(&self, id: ExchangeId, kind: Kind) -> Message {
        Message { id, credential: self.credential, kind }
    }
    /// Tells a device that an exchange has failed.
    pub(crate) fn reset(&self, id: ExchangeId, device: &str, status: u16, reason: &str) {
        let message = self.message(id, Kind::Reset { status, reason: reason.into() });
        self.post(Outgoing { to: Destination::Id(device.into()), message, permits: Vec::new(), exchange: None });
    }
    pub(crate) fn register(&self, exchange: &Arc<Exchange>) {
        self.exchanges.lock().insert(exchange.id, Arc::downgrade(exchange));
    }
    pub(crate) fn forget(&self, id: ExchangeId) {
        self.exchanges.lock().remove(&id);
    }
    pub(crate) fn exchange(&self, id: ExchangeId) -> Option<Arc<Exchange>> {
        self.exchanges.lock().get(&id).and_then(Weak::upgrade)
    }
    /// The running exchanges.
    pub(crate) fn exchanges(&self) -> Vec<Arc<Exchange>> {
        self.exchanges.lock().values().filter_map(Weak::upgrade).collect()
    }
    /// Lets the exchanges that hold `places` finish for a while, and ends the others.
    pub(crate) fn end(
        &self,
        runtime: Runtime,
        places: &Semaphore,
        (limits, timeouts): (&Limits, &Timeouts),
        why: &str,
    ) {
        let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
        runtime.block_on(async {
            let _ = tokio::time::timeout(timeouts.end, places.acquire_many(all)).await;
        });
        self.exchanges().iter().for_each(|exchange| exchange.abort(503, why));
        runtime.shutdown_background();
    }
    /// How many messages may be under way to a device.
    pub(crate) fn room_to(&self, device: &str) -> Arc<Semaphore> {
        let mut devices = self.to_devices.lock();
        if let Some(room) = devices.get(device).and_then(Weak::upgrade) {
            return room;
        }
        devices.retain(|_, room| room.strong_count() > 0);
        let room = Arc::new(Semaphore::new(UNDER_WAY_TO_ONE));
        devices.insert(device.into(), Arc::downgrade(&room));
        room
    }
    /// Whom a request was delivered to, as far as known.
    pub(crate) fn delivered_to(&self, request: TransferId) -> Vec<String> {
        let report = self.messenger.report(request).ok().flatten();
        report.map(|report| report.delivered).unwrap_or_default()
    }
}

/// Takes messages in.
struct Reader {
    courier: Arc<Courier>,
    known: BTreeMap<(PublicKey, [u8; Credential::BYTES]), String>,
}
impl Reader {
    fn run(mut self, on_open: Option<OnOpen>) {
        while !self.courier.ended.load(Ordering::SeqCst) {
            if let Some(mail) = self.courier.messenger.next(POLL_IDLE) {
                self.take(&mail, on_open.as_ref());
            }
        }
    }
    fn take(&mut self, mail: &Mail, on_open: Option<&OnOpen>) {
        let Some(message) = Message::decode(&mail.bytes) else {
            return tracing::debug!(
                "'{}' is no message of an exchange of version {}",
                mail.name,
                crate::exchange::VERSION
            );
        };
        let Some(device) = self.device(&message.credential, &mail.publisher) else {
            return tracing::debug!("'{}' is signed by a key that its device does not vouch for", mail.name);
        };
        let peer = Peer { device, key: mail.publisher };
        match (self.courier.exchange(message.id), &message.kind, on_open) {
            (Some(exchange), kind, _) if !matches!(kind, Kind::Open { .. }) => exchange.on_message(peer, message.kind),
            (_, Kind::Open { .. }, Some(on_open)) => on_open(&self.courier, peer, message),
            // The other side does not know yet that the exchange has ended, or that this side has restarted.
            (None, Kind::Segment { .. } | Kind::Credit { .. }, _) => {
                self.courier.reset(message.id, &peer.device, 0, "the other proxy knows this exchange no longer");
            }
            _ => {}
        }
    }
    fn device(&mut self, credential: &Credential, publisher: &PublicKey) -> Option<String> {
        let key = (*publisher, credential.to_bytes());
        if let Some(device) = self.known.get(&key) {
            return Some(device.clone());
        }
        let device = credential.device(publisher)?;
        if self.known.len() >= CREDENTIALS_KEPT {
            self.known.clear();
        }
        self.known.insert(key, device.clone());
        Some(device)
    }
}

/// A message that has not arrived yet.
struct UnderWay {
    transfer: TransferId,
    since: Time,
    /// The name that it goes to if it begins an exchange.
    opens: Option<Name>,
    _permits: Vec<OwnedSemaphorePermit>,
    exchange: Option<Arc<Exchange>>,
}

/// Sends messages and watches what becomes of them.
struct Sender {
    courier: Arc<Courier>,
    under_way: Vec<UnderWay>,
}
impl Sender {
    fn run(mut self, to_send: &mpsc::Receiver<Outgoing>) {
        let (mut polled, mut tended) = (Time::ZERO, Time::ZERO);
        loop {
            let wait = if self.under_way.is_empty() { POLL_IDLE } else { POLL };
            if let Ok(first) = to_send.recv_timeout(wait) {
                self.send(first);
                to_send.try_iter().take(64).for_each(|outgoing| self.send(outgoing));
            }
            let now = self.courier.clock.now();
            if now.since(polled) >= POLL && !self.under_way.is_empty() {
                polled = now;
                self.look(now);
            }
            if now.since(tended) >= TEND {
                tended = now;
                self.courier.exchanges().iter().for_each(|exchange| exchange.tend(now));
            }
            if self.courier.ended.load(Ordering::SeqCst) {
                break;
            }
        }
        // The last messages, such as resets, should still arrive.
        let begin = self.courier.clock.now();
        to_send.try_iter().for_each(|outgoing| self.send(outgoing));
        while !self.under_way.is_empty() && self.courier.clock.now().since(begin) < END_PATIENCE {
            std::thread::sleep(POLL);
            self.look(self.courier.clock.now());
        }
    }
    fn send(&mut self, outgoing: Outgoing) {
        let Outgoing { to, message, permits, exchange } = outgoing;
        if exchange.as_ref().is_some_and(|exchange| exchange.is_cancelled()) {
            return;
        }
        let opens = matches!(message.kind, Kind::Open { .. });
        let options = SendOptions {
            reliability: Some(Reliability::Ack),
            // A request without a receiver fails at once; later messages may wait in the network for a moving device.
            in_network: Some(if opens { InNetwork::Nothing } else { InNetwork::Store }),
            lifetime: Some(SILENCE_MAX),
            spread: if opens { Spread::Nearest } else { Spread::All },
            ..SendOptions::default()
        };
        let counter = self.courier.counter.fetch_add(1, Ordering::Relaxed);
        let Ok(name) = format!("/http/message/{counter:x}").parse::<Name>() else { return };
        match self.courier.messenger.send(name, message.encode(), &to, &options) {
            Ok(transfer) => {
                if let Some(exchange) = exchange.as_ref().filter(|_| opens) {
                    exchange.on_requested(transfer);
                }
                let since = self.courier.clock.now();
                let opens = match to {
                    Destination::Name(name) if opens => Some(name),
                    _ => None,
                };
                self.under_way.push(UnderWay { transfer, since, opens, _permits: permits, exchange });
            }
            Err(error) => {
                tracing::debug!("a message cannot be sent: {error}");
                exchange.iter().for_each(|exchange| exchange.fail(503, &error.to_string()));
            }
        }
    }
    fn look(&mut self, now: Time) {
        let ids: Vec<TransferId> = self.under_way.iter().map(|message| message.transfer).collect();
        let Ok(reports) = self.courier.messenger.reports(&ids) else {
            // The node has ended.
            return self.under_way.clear();
        };
        let mut cancelled = Vec::new();
        let mut reports = reports.into_iter();
        self.under_way.retain(|message| {
            let report = reports.next().flatten();
            if message.exchange.as_ref().is_some_and(|exchange| exchange.is_cancelled()) {
                cancelled.push(message.transfer);
                return false;
            }
            Sender::still(message, report.as_ref(), now)
        });
        if !cancelled.is_empty() {
            let _ = self.courier.messenger.cancel(&cancelled);
        }
    }
    /// Whether a message is still under way.
    fn still(message: &UnderWay, report: Option<&SendReport>, now: Time) -> bool {
        let Some(report) = report else { return false };
        let Some(exchange) = &message.exchange else { return !report.is_over };
        if let Some(name) = &message.opens {
            exchange.on_delivered(&report.delivered);
            if now.since(message.since) >= NOBODY_PATIENCE && Messenger::is_dropped(report) {
                exchange.fail(502, &format!("no device in the network is attached to '{name}'"));
                return false;
            }
        }
        if !report.refused.is_empty() {
            exchange.fail(502, "the other proxy cannot take its messages");
        } else if report.is_over && report.delivered.is_empty() {
            exchange.fail(504, &format!("the other proxy could not be reached within {SILENCE_MAX:?}"));
        }
        !report.is_over
    }
}

/// A random id.
///
/// # Errors
/// If the system has no random numbers.
pub(crate) fn random_id() -> std::io::Result<ExchangeId> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(ExchangeId(id))
}

/// The bytes of a message that a messenger must be ready to take.
pub const MESSAGE_BYTES_MAX: u64 = (crate::exchange::HEADER_BYTES + crate::exchange::SEGMENT_BYTES) as u64;

//! The two streams of an exchange: segments in order, within the window that the receiver grants, in bounded memory.
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tributary_content::Name;
use tributary_core::{Duration, Time, TransferId};
use tributary_transport::messaging::Destination;

use crate::{
    config::{WINDOW_BYTES_MAX, WINDOW_BYTES_MIN},
    exchange::{ExchangeId, Frame, Frames, Kind, SEGMENT_BYTES},
    messages::{Courier, Outgoing, Peer},
};

/// Maximum segments of a stream in flight while others use the shared memory.
const UNDER_WAY_MIN: usize = 2;
/// Additional segments of a stream that may be in flight.
const UNDER_WAY_MORE: usize = 14;
/// Maximum segments that arrived out of order; as many may be in flight at a time, but early ones stay.
const EARLY_MAX: usize = 128;
/// Smaller segments are joined, so that an event of some bytes does not cost a whole buffer.
const SMALL_BYTES: usize = 4 << 10;
/// Maximum messages that wait for the delivery of their request to be known.
const UNCONFIRMED_MAX: usize = 8;
/// A side that has sent nothing of an exchange for so long sends a credit as a keepalive.
const KEEPALIVE: Duration = Duration::from_secs(50);
/// After so long without a word the other proxy counts as gone.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(180);

/// The memory that all streams of a proxy share, beyond the minimum reserved for each.
#[derive(Clone, Debug)]
pub(crate) struct Memory(Arc<Semaphore>);
impl Memory {
    pub(crate) fn new(bytes: u64) -> Memory {
        let segments = usize::try_from(bytes / SEGMENT_BYTES as u64).unwrap_or(usize::MAX);
        Memory(Arc::new(Semaphore::new(segments.min(Semaphore::MAX_PERMITS))))
    }
    fn take(&self, segments: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).try_acquire_many_owned(u32::try_from(segments).ok()?).ok()
    }
}

/// Why a stream is broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Broken {
    /// The receiver wants no more of it.
    Stopped,
    /// The exchange has failed.
    Failed {
        /// As in [`Kind::Reset`].
        status: u16,
        /// For people.
        reason: String,
    },
}
impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Stopped => f.write_str("the other side wants no more"),
            Broken::Failed { reason, .. } => f.write_str(reason),
        }
    }
}
impl From<Broken> for std::io::Error {
    fn from(broken: Broken) -> std::io::Error {
        std::io::Error::other(broken.to_string())
    }
}

/// A running request and its response, or a tunnel.
pub(crate) struct Exchange {
    pub(crate) id: ExchangeId,
    courier: Arc<Courier>,
    memory: Memory,
    state: Mutex<State>,
    /// Something has arrived, or the exchange has failed.
    inward: Notify,
    /// More may go out, or the exchange has failed.
    outward: Notify,
    /// Messages in flight are obsolete, and the courier cancels them.
    cancelled: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The other side. The browser's side knows it once the request has been delivered.
    peer: Option<Peer>,
    /// The message that carries the request, on the browser's side.
    request: Option<TransferId>,
    /// Whom that was delivered to.
    receivers: Vec<String>,
    unconfirmed: Vec<(Peer, Kind)>,
    inbound: Inbound,
    outbound: Outbound,
    failure: Option<Broken>,
    heard: Time,
    sent_at: Time,
}

/// The incoming stream.
#[derive(Default)]
struct Inbound {
    next: u64,
    early: BTreeMap<u64, (bool, Bytes)>,
    ready: VecDeque<Piece>,
    ready_bytes: usize,
    /// Bytes received, bytes read, and bytes granted.
    received: u64,
    read: u64,
    limit: u64,
    window: usize,
    /// The share of the common memory that the window needs.
    share: Option<OwnedSemaphorePermit>,
    has_ended: bool,
    is_dropped: bool,
}

/// The outgoing stream.
#[derive(Default)]
struct Outbound {
    limit: u64,
    is_stopped: bool,
    is_over: bool,
}

enum Piece {
    Complete(Bytes),
    Joined(BytesMut),
}

impl Inbound {
    fn new(limit: u64) -> Inbound {
        Inbound { limit, window: WINDOW_BYTES_MIN, ..Inbound::default() }
    }
    /// Takes a segment; an error if the sender has sent more than it may.
    fn take(&mut self, number: u64, is_last: bool, bytes: Bytes) -> Result<(), &'static str> {
        if self.is_dropped || self.has_ended || number < self.next || self.early.contains_key(&number) {
            return Ok(());
        }
        self.received += bytes.len() as u64;
        if self.received > self.limit || self.early.len() >= EARLY_MAX {
            return Err("the other proxy sends more than it may");
        }
        self.early.insert(number, (is_last, bytes));
        while let Some((is_last, bytes)) = self.early.remove(&self.next) {
            self.next += 1;
            self.has_ended |= is_last;
            self.push(bytes);
        }
        Ok(())
    }
    fn push(&mut self, bytes: Bytes) {
        self.ready_bytes += bytes.len();
        match self.ready.back_mut() {
            _ if bytes.is_empty() => {}
            Some(Piece::Joined(joined)) if joined.len() + bytes.len() <= SEGMENT_BYTES && bytes.len() < SMALL_BYTES => {
                joined.extend_from_slice(&bytes);
            }
            _ if bytes.len() < SMALL_BYTES => self.ready.push_back(Piece::Joined(BytesMut::from(&bytes[..]))),
            _ => self.ready.push_back(Piece::Complete(bytes)),
        }
    }
    fn pop(&mut self) -> Option<Bytes> {
        let bytes = match self.ready.pop_front()? {
            Piece::Complete(bytes) => bytes,
            Piece::Joined(joined) => joined.freeze(),
        };
        self.ready_bytes -= bytes.len();
        Some(bytes)
    }
    /// Counts bytes that were read. Returns the new limit when the sender should learn it.
    fn on_read(&mut self, bytes: usize, memory: &Memory) -> Option<u64> {
        self.read += bytes as u64;
        if self.has_ended {
            return None;
        }
        let outstanding = self.limit - self.read;
        if outstanding > self.window as u64 / 2 {
            return None;
        }
        if self.ready_bytes > 0 && self.ready_bytes as u64 * 4 >= outstanding * 3 {
            // Nearly all granted bytes have arrived: a reader slower than the network needs no large window.
            self.window = (self.window / 2).max(WINDOW_BYTES_MIN);
        } else if self.ready.is_empty() && self.window < WINDOW_BYTES_MAX {
            // A reader that waits for the network gets a larger one if there is memory.
            let more = memory.take(self.window / SEGMENT_BYTES);
            if let Some(more) = more {
                self.window *= 2;
                match &mut self.share {
                    Some(share) => share.merge(more),
                    None => self.share = Some(more),
                }
            }
        }
        // A granted limit cannot be withdrawn: the share of memory returns when the sender can no longer use it.
        let held = outstanding.max(self.window as u64);
        let needed = (held.saturating_sub(WINDOW_BYTES_MIN as u64)).div_ceil(SEGMENT_BYTES as u64) as usize;
        if let Some(share) = &mut self.share
            && let Some(excess) = share.num_permits().checked_sub(needed)
        {
            drop(share.split(excess));
        }
        let limit = self.limit.max(self.read + self.window as u64);
        (limit > self.limit).then(|| {
            self.limit = limit;
            limit
        })
    }
    fn drop_all(&mut self) {
        (self.is_dropped, self.share) = (true, None);
        self.ready.clear();
        self.early.clear();
    }
}

impl Exchange {
    /// Begins one on the browser's side.
    pub(crate) fn begin(courier: &Arc<Courier>, memory: &Memory) -> std::io::Result<(Inlet, Outlet)> {
        let id = crate::messages::random_id()?;
        let (inbound, outbound) = (Inbound::new(WINDOW_BYTES_MIN as u64), SEGMENT_BYTES as u64);
        Ok(Exchange::halves(courier, memory, id, None, inbound, outbound))
    }
    /// Accepts an exchange that the browser's side opened: its first segment, and the limit for the response.
    pub(crate) fn accept(
        courier: &Arc<Courier>,
        memory: &Memory,
        (id, peer): (ExchangeId, Peer),
        (limit, is_last, bytes): (u64, bool, Bytes),
    ) -> (Inlet, Outlet) {
        let mut inbound = Inbound::new(WINDOW_BYTES_MIN as u64);
        let _ = inbound.take(0, is_last, bytes);
        let (inlet, outlet) = Exchange::halves(courier, memory, id, Some(peer), inbound, limit);
        if !is_last {
            inlet.exchange.credit(WINDOW_BYTES_MIN as u64, false);
        }
        (inlet, outlet)
    }
    fn halves(
        courier: &Arc<Courier>,
        memory: &Memory,
        id: ExchangeId,
        peer: Option<Peer>,
        inbound: Inbound,
        limit: u64,
    ) -> (Inlet, Outlet) {
        let now = courier.clock.now();
        let exchange = Arc::new(Exchange {
            id,
            courier: Arc::clone(courier),
            memory: memory.clone(),
            state: Mutex::new(State {
                peer,
                inbound,
                outbound: Outbound { limit, ..Outbound::default() },
                heard: now,
                sent_at: now,
                ..State::default()
            }),
            inward: Notify::new(),
            outward: Notify::new(),
            cancelled: AtomicBool::new(false),
        });
        courier.register(&exchange);
        let inlet = Inlet {
            exchange: Arc::clone(&exchange),
            frames: Frames::default(),
            ready: VecDeque::new(),
            has_ended: false,
        };
        let outlet = Outlet {
            exchange,
            buffer: BytesMut::new(),
            number: 0,
            sent: 0,
            floor: Arc::new(Semaphore::new(UNDER_WAY_MIN)),
            more: Arc::new(Semaphore::new(UNDER_WAY_MORE)),
        };
        (inlet, outlet)
    }

    // The courier's reports.

    /// The request is in flight.
    pub(crate) fn on_requested(&self, request: TransferId) {
        self.state.lock().request = Some(request);
    }
    /// The request was delivered to these devices.
    pub(crate) fn on_delivered(&self, devices: &[String]) {
        let unconfirmed = {
            let mut state = self.state.lock();
            if state.peer.is_some() || devices.is_empty() {
                return;
            }
            state.receivers = devices.to_vec();
            std::mem::take(&mut state.unconfirmed)
        };
        unconfirmed.into_iter().for_each(|(peer, kind)| self.on_message(peer, kind));
    }
    /// Takes a message, if it comes from the device that received the request.
    pub(crate) fn on_message(&self, peer: Peer, kind: Kind) {
        let request = {
            let state = self.state.lock();
            let knows = state.peer.is_some() || state.receivers.contains(&peer.device);
            if knows { None } else { state.request }
        };
        // It may have arrived just before it was read that the request has.
        let delivered = request.map(|request| self.courier.delivered_to(request)).unwrap_or_default();
        let mut state = self.state.lock();
        if state.peer.is_none() {
            if state.receivers.is_empty() {
                state.receivers = delivered;
            }
            if state.receivers.is_empty() {
                if state.unconfirmed.len() < UNCONFIRMED_MAX {
                    state.unconfirmed.push((peer, kind));
                }
                return;
            }
            if state.receivers.contains(&peer.device) {
                state.peer = Some(peer.clone());
            }
        }
        if state.peer.as_ref() != Some(&peer) {
            let text = format!("ignored: {} answers a request that was not sent to it", peer.device);
            return tributary::warn_bounded(&text);
        }
        state.heard = self.courier.clock.now();
        match kind {
            Kind::Segment { number, is_last, bytes } => {
                if let Err(reason) = state.inbound.take(number, is_last, bytes) {
                    drop(state);
                    return self.abort(502, reason);
                }
                self.inward.notify_one();
            }
            Kind::Credit { limit, stop } => {
                state.outbound.limit = state.outbound.limit.max(limit);
                state.outbound.is_stopped |= stop;
                // A browser that wants no more of a response has disconnected; a server may just want no more of a
                // request.
                if stop && state.request.is_none() {
                    self.cancelled.store(true, Ordering::SeqCst);
                }
            }
            Kind::Reset { status, reason } => {
                drop(state);
                self.fail(status, &reason);
            }
            Kind::Open { .. } => {}
        }
        self.outward.notify_one();
    }
    /// No further message arrives.
    pub(crate) fn fail(&self, status: u16, reason: &str) {
        self.state.lock().failure.get_or_insert_with(|| Broken::Failed { status, reason: reason.into() });
        self.cancelled.store(true, Ordering::SeqCst);
        self.inward.notify_one();
        self.outward.notify_one();
    }
    /// Ends the exchange and informs the other side.
    pub(crate) fn abort(&self, status: u16, reason: &str) {
        let peer = {
            let state = self.state.lock();
            state.peer.clone().filter(|_| state.failure.is_none())
        };
        if let Some(peer) = peer {
            self.courier.reset(self.id, &peer.device, status, reason);
        }
        self.fail(status, reason);
    }
    /// Whether messages in flight are obsolete.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }
    /// Sends a keepalive if this side has been silent, and fails the exchange if the other one has.
    pub(crate) fn tend(&self, now: Time) {
        let (limit, is_silent) = {
            let state = self.state.lock();
            let is_over = state.outbound.is_over && (state.inbound.has_ended || state.inbound.is_dropped);
            if state.peer.is_none() || state.failure.is_some() || is_over {
                return;
            }
            let limit = (now.since(state.sent_at) >= KEEPALIVE).then_some(state.inbound.limit);
            (limit, now.since(state.heard) >= SILENCE_MAX)
        };
        if is_silent {
            return self.abort(504, &format!("the other proxy has been silent for {SILENCE_MAX:?}"));
        }
        if let Some(limit) = limit {
            self.credit(limit, false);
        }
    }
    fn credit(&self, limit: u64, stop: bool) {
        let peer = {
            let mut state = self.state.lock();
            state.sent_at = self.courier.clock.now();
            state.peer.clone()
        };
        let Some(peer) = peer else { return };
        let message = self.courier.message(self.id, Kind::Credit { limit, stop });
        let to = Destination::Id(peer.device);
        self.courier.post(Outgoing { to, message, permits: Vec::new(), exchange: None });
    }
}
impl Drop for Exchange {
    fn drop(&mut self) {
        self.courier.forget(self.id);
    }
}

/// The incoming stream of an exchange. Dropping it before its end stops the sender.
pub(crate) struct Inlet {
    pub(crate) exchange: Arc<Exchange>,
    frames: Frames,
    ready: VecDeque<Frame>,
    has_ended: bool,
}
impl Inlet {
    /// The next frame; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, Broken> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Ok(Some(frame));
            }
            let Some(bytes) = self.read().await? else {
                if self.frames.is_complete() {
                    self.has_ended = true;
                    return Ok(None);
                }
                return Err(Broken::Failed { status: 502, reason: "the other proxy's message is cut off".into() });
            };
            let mut frames = Vec::new();
            if let Err(reason) = self.frames.take(bytes, &mut frames) {
                self.exchange.abort(502, reason);
                return Err(Broken::Failed { status: 502, reason: reason.into() });
            }
            self.ready.extend(frames);
        }
    }
    /// Whether the stream has been read to its end.
    pub(crate) fn is_at_end(&self) -> bool {
        let state = self.exchange.state.lock();
        self.ready.is_empty() && state.inbound.has_ended && state.inbound.ready.is_empty() && self.frames.is_complete()
    }
    async fn read(&mut self) -> Result<Option<Bytes>, Broken> {
        loop {
            let arrives = self.exchange.inward.notified();
            {
                let mut state = self.exchange.state.lock();
                if let Some(bytes) = state.inbound.pop() {
                    let credit = state.inbound.on_read(bytes.len(), &self.exchange.memory);
                    drop(state);
                    credit.into_iter().for_each(|limit| self.exchange.credit(limit, false));
                    return Ok(Some(bytes));
                }
                if state.inbound.has_ended {
                    return Ok(None);
                }
                if let Some(failure) = &state.failure {
                    return Err(failure.clone());
                }
            }
            arrives.await;
        }
    }
}
impl Drop for Inlet {
    fn drop(&mut self) {
        let (limit, wants_stop) = {
            let mut state = self.exchange.state.lock();
            let wants_stop = !state.inbound.has_ended && state.failure.is_none();
            state.inbound.drop_all();
            if wants_stop && state.peer.is_none() {
                // The request may not even have arrived.
                self.exchange.cancelled.store(true, Ordering::SeqCst);
            }
            (state.inbound.limit, wants_stop)
        };
        if wants_stop {
            self.exchange.credit(limit, true);
        }
    }
}

/// The outgoing stream of an exchange. Dropped before its end, it tells the other side that it is cut off.
pub(crate) struct Outlet {
    exchange: Arc<Exchange>,
    pub(crate) buffer: BytesMut,
    number: u64,
    sent: u64,
    floor: Arc<Semaphore>,
    more: Arc<Semaphore>,
}
impl Outlet {
    /// Appends a frame; [`Outlet::flush`] sends it.
    pub(crate) fn push(&mut self, frame: &Frame) {
        frame.encode(&mut self.buffer);
    }
    /// Whether none of it is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.floor.available_permits() == UNDER_WAY_MIN && self.more.available_permits() == UNDER_WAY_MORE
    }
    /// Waits until the stream is broken.
    pub(crate) async fn broken(&self) -> Broken {
        loop {
            let changes = self.exchange.outward.notified();
            if let Some(broken) = self.is_broken() {
                // Wakes the writer that waits for the window.
                self.exchange.outward.notify_one();
                return broken;
            }
            changes.await;
        }
    }
    fn is_broken(&self) -> Option<Broken> {
        let state = self.exchange.state.lock();
        state.failure.clone().or(state.outbound.is_stopped.then_some(Broken::Stopped))
    }
    /// Sends the request to the device attached to a name: the pushed bytes, as far as they fit, and then the rest.
    pub(crate) async fn open(&mut self, to: Name, last: Last) -> Result<(), Broken> {
        let bytes = self.buffer.split_to(self.buffer.len().min(SEGMENT_BYTES)).freeze();
        let is_last = last == Last::Yes && self.buffer.is_empty();
        let limit = self.exchange.state.lock().inbound.limit;
        let length = bytes.len();
        let permits = self.permits(None).await;
        self.post(Destination::Name(to), Kind::Open { limit, is_last, bytes }, (length, is_last), permits);
        if is_last { Ok(()) } else { self.flush(last).await }
    }
    /// Sends the pushed bytes, as fast as the other side accepts them.
    pub(crate) async fn flush(&mut self, last: Last) -> Result<(), Broken> {
        while !self.buffer.is_empty() || last == Last::Yes && !self.exchange.state.lock().outbound.is_over {
            let (room, device) = self.room().await?;
            let permits = self.permits(Some(&device)).await;
            if let Some(broken) = self.is_broken() {
                return Err(broken);
            }
            let length = self.buffer.len().min(SEGMENT_BYTES).min(room);
            let bytes = self.buffer.split_to(length).freeze();
            let is_last = last == Last::Yes && self.buffer.is_empty();
            let kind = Kind::Segment { number: self.number, is_last, bytes };
            self.post(Destination::Id(device), kind, (length, is_last), permits);
        }
        Ok(())
    }
    /// Waits until the other side is known and its window has space, if there are bytes to send.
    async fn room(&self) -> Result<(usize, String), Broken> {
        loop {
            let changes = self.exchange.outward.notified();
            if let Some(broken) = self.is_broken() {
                return Err(broken);
            }
            {
                let state = self.exchange.state.lock();
                let room = usize::try_from(state.outbound.limit.saturating_sub(self.sent)).unwrap_or(usize::MAX);
                if let Some(peer) = state.peer.as_ref().filter(|_| room > 0 || self.buffer.is_empty()) {
                    return Ok((room, peer.device.clone()));
                }
            }
            changes.await;
        }
    }
    /// Waits until another message may be in flight.
    async fn permits(&self, device: Option<&str>) -> Vec<OwnedSemaphorePermit> {
        let mut permits = Vec::new();
        if let Ok(own) = Arc::clone(&self.floor).try_acquire_owned() {
            permits.push(own);
        } else if let Ok(more) = Arc::clone(&self.more).try_acquire_owned()
            && let Some(memory) = self.exchange.memory.take(1)
        {
            permits.extend([more, memory]);
        } else {
            permits.extend(Arc::clone(&self.floor).acquire_owned().await);
        }
        if let Some(device) = device {
            permits.extend(self.exchange.courier.room_to(device).acquire_owned().await);
        }
        permits
    }
    fn post(
        &mut self,
        to: Destination,
        kind: Kind,
        (length, is_last): (usize, bool),
        permits: Vec<OwnedSemaphorePermit>,
    ) {
        self.number += 1;
        self.sent += length as u64;
        let courier = &self.exchange.courier;
        {
            let mut state = self.exchange.state.lock();
            (state.sent_at, state.outbound.is_over) = (courier.clock.now(), is_last);
        }
        let message = courier.message(self.exchange.id, kind);
        courier.post(Outgoing { to, message, permits, exchange: Some(Arc::clone(&self.exchange)) });
    }
    /// Ends the exchange as failed.
    pub(crate) fn fail(self, status: u16, reason: &str) {
        self.exchange.abort(status, reason);
    }
}
impl Drop for Outlet {
    fn drop(&mut self) {
        let state = self.exchange.state.lock();
        let is_cut = !state.outbound.is_over && !state.outbound.is_stopped && state.failure.is_none();
        drop(state);
        if is_cut {
            self.exchange.abort(0, "it was broken off");
        }
    }
}

/// Whether a stream ends after the pushed bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Last {
    /// It does.
    Yes,
    /// More may follow.
    No,
}

#[cfg(test)]
mod tests;

//! Schedules *bulk sources*: servers that deliver any byte range of an object in order, such as HTTP servers.
//!
//! ```text
//!   unassigned chunks ─────poll_order──► range of chunks for one flow ──► the driver requests and reads it
//!          ▲                                                                   │
//!          └── given back: failed, stalled, cut ◄── handle_chunk, handle_failure ──┘
//! ```
//! A flow is one connection to one mirror over one uplink. Each flow fetches one contiguous range at a time, sized so
//! that it takes [`BulkConfig::segment_min`] to [`BulkConfig::segment_max`]; long round trips get longer ranges,
//! because a connection idles for one round trip between two of them. When every missing chunk is assigned, an idle
//! flow takes over the end of the range that would finish last, and fetches a second copy of a chunk if it would
//! deliver that sooner.
//!
//! The sender of a connection is a server whose congestion control is not ours: over a lossy link, or from a server
//! that limits each connection, one connection carries only a part of the uplink's capacity. So each mirror has
//! *spare* flows over each uplink. They are enabled one at a time, and stay enabled only if the uplink as a whole
//! delivers more (`tuning`); over a full link they are disabled again.
//!
//! The machine has no clock and no socket. After any input call [`Bulk::poll_order`] and [`Bulk::poll_cut`] until they
//! return `None`, and [`Bulk::handle_timeout`] several times a second.
use alloc::{
    collections::VecDeque,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::ops::Range;

use tuning::Uplink;

use tributary_core::{
    Duration, NodeId, PathId, Rate, SourceId, Time,
    event::{PathReport, PathState, SourceReport, TransferEvent, TransferReport},
};

/// A mirror, by its place in the order of [`Bulk::add_mirror`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MirrorId(pub u16);
/// A flow, by its place in the order of [`Bulk::add_flow`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BulkFlowId(pub u16);

/// Maximum flows of one fetch.
pub const BULK_FLOWS_MAX: usize = 256;
/// Maximum connections to one mirror over one uplink: browsers and download managers use 6 to 16.
pub const CONNECTIONS_MAX: usize = 4;

/// The connections that a driver adds for each mirror and uplink, with this many mirrors over this many uplinks.
pub fn connections_for(mirrors: usize, uplinks: usize) -> usize {
    (BULK_FLOWS_MAX / (mirrors * uplinks).max(1)).clamp(1, CONNECTIONS_MAX)
}

tributary_core::declared! {
    /// How ranges are sized, and when a connection counts as stalled.
    #[derive(Clone, Copy, PartialEq, Debug)]
    pub struct BulkConfig {
        /// Minimum target duration of a range. Default: 500 ms.
        pub segment_min: Duration = Duration::from_millis(500),
        /// Maximum target duration of a range. Default: 4 s.
        pub segment_max: Duration = Duration::from_secs(4),
        /// Target duration of a range in round trips, within these limits: one of them is idle. Default: 64.
        pub segment_round_trips: u32 = 64,
        /// Bytes of a flow's first range, before its rate is known. Default: 1 MiB.
        pub first_bytes: u64 = 1 << 20,
        /// Silence after which a range is given to others. Default: 2 s.
        pub stall: Duration = Duration::from_secs(2),
        /// The wait after a first failed request; it doubles with each further one, up to a quarter of the time since
        /// the flow last worked. Default: 500 ms.
        pub retry_min: Duration = Duration::from_millis(500),
        /// The longest wait. Default: 8 s.
        pub retry_max: Duration = Duration::from_secs(8),
        /// Failures in a row after which a mirror that has never answered is closed, and refusals in a row after which
        /// any mirror is. Default: 4.
        pub failures_unanswered_max: u32 = 4,
        /// The increase of an uplink's rate that keeps one more connection in use. Default: 0.03.
        pub connection_gain: f64 = 0.03,
    }
}

/// The chunks of an object as seen by the component that stores them.
pub trait ChunkPool {
    /// Takes the lowest run of at most `chunks` missing and unassigned chunks.
    fn take(&mut self, chunks: u32) -> Option<Range<u32>>;
    /// Returns a run of [`ChunkPool::take`] to the unassigned chunks. Chunks of it that have arrived since then are
    /// ignored.
    fn give_back(&mut self, run: Range<u32>);
    /// A missing chunk that its present fetcher would deliver only after `eta`; `None` if all are due sooner.
    fn take_late(&mut self, _eta: Time) -> Option<u32> {
        None
    }
    /// Whether a chunk is still missing.
    fn is_missing(&self, chunk: u32) -> bool;
    /// Bytes of chunks that are missing and unassigned.
    fn idle_bytes(&self) -> u64;
    /// Bytes of every chunk but the last.
    fn chunk_bytes(&self) -> u32;
    /// The number of chunks.
    fn chunks(&self) -> u32;
}

/// Whether a mirror delivers any range or only the whole object from its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Delivers {
    /// Any range.
    #[default]
    Ranges,
    /// The whole object in order; used only while no other mirror is.
    Everything,
}

/// A range for a flow to fetch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BulkOrder {
    /// The flow.
    pub flow: BulkFlowId,
    /// The number of the order; everything that it yields carries it.
    pub number: u64,
    /// The chunks, in order.
    pub chunks: Range<u32>,
}

/// A shorter end of an order: chunks from `end` on are no longer wanted. An order that has delivered `end` is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BulkCut {
    /// The flow.
    pub flow: BulkFlowId,
    /// The order.
    pub number: u64,
    /// The chunk after the last one that is wanted.
    pub end: u32,
}

/// What became of a chunk that a flow delivered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BulkChunk {
    /// It is verified as far as possible, and kept.
    Kept,
    /// It was already present.
    Duplicate,
    /// It failed verification, which is the mirror's fault; the reason.
    Bad(String),
}

/// Why an order ended early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BulkFailure {
    /// The connection failed or the server is busy: the flow tries again, after `wait` if the server requests it.
    Again {
        /// What happened.
        reason: String,
        /// The pause that the server requests.
        wait: Option<Duration>,
    },
    /// The server failed: the flow tries again, and a probe may by a request of another form.
    Failed(String),
    /// The mirror does not have the object, or refuses it. It is closed, unless it has delivered before: then the flow tries
    /// again, because a server that limits connections or the age of addresses refuses some requests only.
    Refused(String),
    /// The mirror delivers no ranges: it is used as one stream.
    NoRanges(String),
    /// The mirror has another version of the object by now: it is closed.
    Changed(String),
    /// The mirror sent wrong bytes: it is distrusted.
    Faulty(String),
}

impl BulkFailure {
    /// What happened, in words.
    pub fn reason(self) -> String {
        match self {
            BulkFailure::Again { reason, .. }
            | BulkFailure::Failed(reason)
            | BulkFailure::Refused(reason)
            | BulkFailure::NoRanges(reason)
            | BulkFailure::Changed(reason)
            | BulkFailure::Faulty(reason) => reason,
        }
    }
}

/// What the driver of bulk sources reports to a transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BulkInput {
    /// A mirror was probed: it has the object, or it cannot be used for the reason given; flows use these uplinks.
    Mirror {
        /// Its name for people.
        label: String,
        /// The uplinks; an empty name leaves the choice to the system.
        uplinks: Vec<String>,
        /// The fault that excludes it.
        objection: Option<BulkFailure>,
    },
    /// No further mirror follows.
    Settled,
    /// See [`Bulk::handle_head`].
    Head {
        /// The flow.
        flow: BulkFlowId,
        /// The order.
        number: u64,
    },
    /// See [`Bulk::handle_bytes`].
    Bytes {
        /// The flow.
        flow: BulkFlowId,
        /// The order.
        number: u64,
        /// How many.
        bytes: u64,
    },
    /// A chunk that was delivered: the transfer verifies it.
    Chunk {
        /// The flow.
        flow: BulkFlowId,
        /// The order.
        number: u64,
        /// Its number.
        chunk: u32,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// See [`Bulk::handle_failure`].
    Failed {
        /// The flow.
        flow: BulkFlowId,
        /// The order.
        number: u64,
        /// Why.
        failure: BulkFailure,
    },
}

/// How an object is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BulkShape {
    /// Its bytes.
    pub size: u64,
    /// Bytes of every chunk but the last.
    pub chunk_size: u32,
}

/// The next tasks of the driver of a transfer's bulk sources.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BulkStep {
    /// The object, once its manifest and its hash list are known; mirrors are useless before.
    pub shape: Option<BulkShape>,
    /// New orders.
    pub orders: Vec<BulkOrder>,
    /// Orders that are shortened.
    pub cuts: Vec<BulkCut>,
    /// Whether the transfer has ended.
    pub is_ended: bool,
}

#[derive(Default)]
struct Mirror {
    label: String,
    delivers: Delivers,
    source: SourceId,
    bytes: u64,
    has_answered: bool,
    distrusted: Option<String>,
    closed: Option<String>,
    failures: u32,
    /// Whether it refuses one more connection than it has.
    is_full: bool,
}
impl Mirror {
    fn is_usable(&self) -> bool {
        self.distrusted.is_none() && self.closed.is_none()
    }
}

#[derive(Default)]
struct Flow {
    mirror: usize,
    path: PathId,
    label: String,
    /// Its place among the uplinks.
    uplink: usize,
    /// Whether it gets no orders: another flow of its mirror is on its uplink, and more would not help or was not tried.
    is_spare: bool,
    rate: Meter,
    rtt: Option<f64>,
    rtt_min: Option<f64>,
    bytes: u64,
    order: Option<Order>,
    /// Not before this, after a failure.
    retry_at: Time,
    failures: u32,
    requests: u64,
    failed_requests: u64,
    trouble: Option<Trouble>,
    /// Whether its last failure was silence, as of an uplink that is away.
    was_stalled: bool,
    /// Whether the uplink has returned since the order was sent.
    is_hurried: bool,
}
/// The fault of a flow.
struct Trouble {
    reason: String,
    since: Time,
}
#[derive(Default)]
struct Order {
    number: u64,
    next: u32,
    end: u32,
    sent: Time,
    has_head: bool,
    heard: Time,
    /// Bytes that arrived of chunk `next`.
    partial: u64,
    is_copy: bool,
    /// Whether its last chunk was also given to others.
    is_shared: bool,
}

/// A delivery rate, smoothed over samples of at least [`Meter::SAMPLE`].
#[derive(Clone, Copy, Default)]
struct Meter {
    rate: Option<f64>,
    since: Option<Time>,
    bytes: u64,
}
impl Meter {
    const SAMPLE: f64 = 0.2;
    const WEIGHT: f64 = 0.3;
    fn start(&mut self, now: Time) {
        (self.since, self.bytes) = (Some(now), 0);
    }
    fn on_bytes(&mut self, now: Time, bytes: u64) {
        let Some(since) = self.since else { return };
        self.bytes += bytes;
        let seconds = now.since(since).as_secs_f64();
        if seconds >= Self::SAMPLE {
            self.take(seconds);
            self.start(now);
        }
    }
    /// The end of a range: the sample in progress counts, unless it is too short and a rate is already known.
    fn stop(&mut self, now: Time) {
        let Some(since) = self.since.take() else { return };
        let seconds = now.since(since).as_secs_f64();
        if self.bytes > 0 && (seconds >= Self::SAMPLE / 2.0 || self.rate.is_none()) {
            self.take(seconds.max(1e-4));
        }
    }
    fn take(&mut self, seconds: f64) {
        let sample = self.bytes as f64 / seconds;
        self.rate = Some(self.rate.map_or(sample, |rate| rate + Self::WEIGHT * (sample - rate)));
    }
}

/// The bulk sources of one fetch.
#[derive(Default)]
pub struct Bulk {
    config: BulkConfig,
    mirrors: Vec<Mirror>,
    flows: Vec<Flow>,
    uplinks: Vec<Uplink>,
    cuts: VecDeque<BulkCut>,
    events: VecDeque<TransferEvent>,
    number: u64,
    only: Option<MirrorId>,
    first_source: u16,
    first_path: u16,
    /// Bytes that arrived a second time.
    duplicate_bytes: u64,
    /// Bytes that were requested again from another mirror or over another uplink.
    retried_bytes: u64,
}

impl Bulk {
    /// Without mirrors. The first source and path get these numbers in reports and events.
    pub fn new(config: BulkConfig, first_source: SourceId, first_path: PathId) -> Bulk {
        Bulk { config, first_source: first_source.0, first_path: first_path.0, ..Bulk::default() }
    }

    // Inputs.

    /// Adds a mirror; a second one of the same label gets a number behind it.
    pub fn add_mirror(&mut self, label: &str, delivers: Delivers) -> MirrorId {
        let same = |mirror: &&Mirror| {
            mirror.label.strip_prefix(label).is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
        };
        let label = match self.mirrors.iter().filter(same).count() {
            0 => label.to_string(),
            before => format!("{label} ({})", before + 1),
        };
        let id = MirrorId(self.mirrors.len() as u16);
        let source = SourceId(self.first_source + id.0);
        self.events.push_back(TransferEvent::SourceAdded { source, node: NodeId(0), label: label.clone() });
        self.mirrors.push(Mirror { label, delivers, source, ..Mirror::default() });
        id
    }
    /// Adds a connection to a mirror over an uplink; an empty `uplink` leaves the choice to the system. The first one
    /// of a mirror and an uplink is used at once, further ones where they help. `None` at the limit of
    /// [`BULK_FLOWS_MAX`]. `rtt` is the round trip if measured.
    pub fn add_flow(&mut self, mirror: MirrorId, uplink: &str, rtt: Option<Duration>) -> Option<BulkFlowId> {
        let of = self.mirrors.get(usize::from(mirror.0)).filter(|_| self.flows.len() < BULK_FLOWS_MAX)?;
        let label = if uplink.is_empty() { of.label.clone() } else { format!("{uplink}>{}", of.label) };
        let uplink = match self.uplinks.iter().position(|known| known.name == uplink) {
            Some(known) => known,
            None => {
                self.uplinks.push(Uplink::new(uplink));
                self.uplinks.len() - 1
            }
        };
        let at = usize::from(mirror.0);
        let before = self.flows.iter().filter(|flow| flow.mirror == at && flow.uplink == uplink).count();
        let label = if before == 0 { label } else { format!("{label} #{}", before + 1) };
        let path = PathId(self.first_path + self.flows.len() as u16);
        if before == 0 {
            self.events.push_back(TransferEvent::PathAdded { path, source: of.source });
        }
        let rtt = rtt.map(|rtt| rtt.as_secs_f64());
        let is_spare = before > 0;
        self.flows.push(Flow { mirror: at, path, label, uplink, is_spare, rtt, rtt_min: rtt, ..Flow::default() });
        Some(BulkFlowId((self.flows.len() - 1) as u16))
    }
    /// Uses one mirror only from now on, or (`None`) all of them again; orders in progress continue.
    pub fn set_only(&mut self, mirror: Option<MirrorId>) {
        self.only = mirror;
    }
    /// The head of the answer to an order has arrived.
    pub fn handle_head(&mut self, now: Time, flow: BulkFlowId, number: u64) {
        let Some(flow) = self.flow_of(flow, number) else { return };
        let Some(order) = flow.order.as_mut().filter(|order| !order.has_head) else { return };
        (order.has_head, order.heard) = (true, now);
        let sample = now.since(order.sent).as_secs_f64();
        flow.rtt = Some(flow.rtt.map_or(sample, |rtt| rtt + 0.25 * (sample - rtt)));
        flow.rtt_min = Some(flow.rtt_min.map_or(sample, |rtt| rtt.min(sample)));
        flow.rate.start(now);
        let was_in_trouble = flow.trouble.take().is_some();
        let (path, mirror, uplink) = (flow.path, flow.mirror, flow.uplink);
        (self.mirrors[mirror].has_answered, self.mirrors[mirror].failures) = (true, 0);
        if was_in_trouble {
            let reason = "answers again".into();
            self.events.push_back(TransferEvent::PathState { path, state: PathState::Active, reason });
            // The uplink is back: the others need not wait. An attempt in progress may have lost its first packet
            // before, and has less time from now on.
            let others = self.flows.iter_mut().filter(|flow| flow.uplink == uplink && flow.trouble.is_some());
            others.filter(|flow| flow.was_stalled).for_each(|flow| (flow.retry_at, flow.is_hurried) = (now, true));
        }
    }
    /// Bytes of an order have arrived.
    pub fn handle_bytes(&mut self, now: Time, flow: BulkFlowId, number: u64, bytes: u64) {
        let Some(flow) = self.flow_of(flow, number).filter(|_| bytes > 0) else { return };
        flow.rate.on_bytes(now, bytes);
        flow.failures = 0;
        if let Some(order) = &mut flow.order {
            order.heard = now;
            order.partial += bytes;
        }
        let uplink = flow.uplink;
        self.uplinks[uplink].on_bytes(bytes);
    }
    /// A chunk of an order, by its number and its bytes, is complete and was judged. Chunks arrive in order.
    pub fn handle_chunk(
        &mut self,
        now: Time,
        flow: BulkFlowId,
        number: u64,
        (chunk, bytes): (u32, u32),
        verdict: BulkChunk,
        pool: &mut dyn ChunkPool,
    ) {
        let Some(index) = self.index_of(flow, number) else {
            // Other flows have taken over its order, but its bytes still count.
            if let (Some(flow), BulkChunk::Kept) = (self.flows.get_mut(usize::from(flow.0)), &verdict) {
                flow.bytes += u64::from(bytes);
                self.mirrors[flow.mirror].bytes += u64::from(bytes);
                self.end_copies(now, chunk);
            }
            return;
        };
        let mirror = self.flows[index].mirror;
        match verdict {
            BulkChunk::Bad(reason) => return self.distrust(mirror, reason, pool),
            BulkChunk::Duplicate => self.duplicate_bytes += u64::from(bytes),
            BulkChunk::Kept => {
                self.flows[index].bytes += u64::from(bytes);
                self.mirrors[mirror].bytes += u64::from(bytes);
            }
        }
        let flow = &mut self.flows[index];
        if let Some(order) = &mut flow.order {
            (order.next, order.heard) = (chunk + 1, now);
            order.partial = order.partial.saturating_sub(u64::from(bytes));
            if order.next >= order.end {
                flow.order = None;
                flow.rate.stop(now);
            }
        }
        self.end_copies(now, chunk);
    }
    /// An order has ended before its last chunk.
    pub fn handle_failure(
        &mut self,
        now: Time,
        flow: BulkFlowId,
        number: u64,
        failure: BulkFailure,
        pool: &mut dyn ChunkPool,
    ) {
        let Some(index) = self.index_of(flow, number) else { return };
        let mirror = self.flows[index].mirror;
        match failure {
            BulkFailure::Failed(reason) => self.back_off(now, index, (reason, Failure::Request), pool),
            BulkFailure::Refused(reason) => self.back_off(now, index, (reason, Failure::Refusal), pool),
            BulkFailure::Changed(reason) => self.close(mirror, reason, pool),
            BulkFailure::Faulty(reason) => self.distrust(mirror, reason, pool),
            BulkFailure::NoRanges(_) => {
                self.mirrors[mirror].delivers = Delivers::Everything;
                self.give_back(index, pool);
            }
            BulkFailure::Again { reason, wait } => {
                let failure = wait.map_or(Failure::Request, Failure::Busy);
                self.back_off(now, index, (reason, failure), pool);
            }
        }
    }
    /// Adds a mirror that delivers ranges, as its driver found it: with a flow over each uplink, or closed or distrusted if
    /// the driver objects to it.
    pub fn handle_mirror(
        &mut self,
        label: &str,
        uplinks: &[String],
        objection: Option<BulkFailure>,
        pool: &mut dyn ChunkPool,
    ) {
        let mirror = self.add_mirror(label, Delivers::Ranges);
        match objection {
            Some(BulkFailure::Faulty(reason)) => self.distrust_mirror(mirror, reason, pool),
            Some(failure) => self.close_mirror(mirror, failure.reason(), pool),
            None => uplinks.iter().for_each(|uplink| _ = self.add_flow(mirror, uplink, None)),
        }
    }
    /// Closes an honest mirror, such as one that has another version.
    pub fn close_mirror(&mut self, mirror: MirrorId, reason: String, pool: &mut dyn ChunkPool) {
        self.close(usize::from(mirror.0), reason, pool);
    }
    /// Distrusts a mirror whose bytes were wrong.
    pub fn distrust_mirror(&mut self, mirror: MirrorId, reason: String, pool: &mut dyn ChunkPool) {
        if usize::from(mirror.0) < self.mirrors.len() {
            self.distrust(usize::from(mirror.0), reason, pool);
        }
    }
    /// Assigns the ranges of stalled connections to others.
    pub fn handle_timeout(&mut self, now: Time, pool: &mut dyn ChunkPool) {
        for index in 0..self.flows.len() {
            let Some(order) = &self.flows[index].order else { continue };
            let silent = now.since(order.heard);
            if silent >= self.patience_of(&self.flows[index]) {
                let reason = format!("no byte for {:.1} s", silent.as_secs_f64());
                self.cuts.push_back(BulkCut { flow: BulkFlowId(index as u16), number: order.number, end: 0 });
                self.back_off(now, index, (reason, Failure::Stall), pool);
            }
        }
        self.tune(now, pool.idle_bytes());
    }

    // Outputs.

    /// The next range to fetch.
    pub fn poll_order(&mut self, now: Time, pool: &mut dyn ChunkPool) -> Option<BulkOrder> {
        let has_ranges = self.mirrors.iter().any(|mirror| mirror.is_usable() && mirror.delivers == Delivers::Ranges)
            && self.only.is_none_or(|only| self.mirrors[usize::from(only.0)].delivers == Delivers::Ranges);
        let mut ready: Vec<usize> = (0..self.flows.len())
            .filter(|index| {
                let flow = &self.flows[*index];
                let mirror = &self.mirrors[flow.mirror];
                flow.order.is_none()
                    && !flow.is_spare
                    && flow.retry_at <= now
                    && mirror.is_usable()
                    && self.only.is_none_or(|only| usize::from(only.0) == flow.mirror)
                    && (mirror.delivers == Delivers::Ranges || !has_ranges)
            })
            .collect();
        // Unmeasured flows first, then the fastest: near the end the remainder goes to the flows that deliver it
        // soonest.
        let rate = |index: &usize| self.flows[*index].rate.rate.unwrap_or(f64::MAX);
        ready.sort_by(|a, b| rate(b).total_cmp(&rate(a)).then(a.cmp(b)));
        for index in ready {
            let is_stream = self.mirrors[self.flows[index].mirror].delivers == Delivers::Everything;
            if is_stream && self.flows.iter().any(|flow| flow.order.is_some()) {
                continue;
            }
            let wanted = if is_stream { pool.chunks() } else { self.segment(index, pool) };
            let taken =
                pool.take(wanted).map(|run| (run, false)).or_else(|| self.take_over(now, index, pool)).or_else(|| {
                    let (latency, rate) = self.speed(index);
                    let seconds = latency + f64::from(pool.chunk_bytes()) / rate;
                    let chunk = pool.take_late(now + Duration::from_secs_f64(seconds))?;
                    Some((chunk..chunk + 1, false))
                });
            let Some((mut chunks, is_copy)) = taken else { continue };
            if is_stream {
                // A stream cannot be cut into ranges, so one request covers the whole object; chunks that are stored
                // already are skipped.
                while let Some(more) = pool.take(pool.chunks()) {
                    chunks.end = more.end;
                }
            }
            self.number += 1;
            let flow = &mut self.flows[index];
            flow.requests += 1;
            flow.is_hurried = false;
            let (number, next, end) = (self.number, chunks.start, chunks.end);
            flow.order = Some(Order { number, next, end, sent: now, heard: now, is_copy, ..Order::default() });
            return Some(BulkOrder { flow: BulkFlowId(index as u16), number: self.number, chunks });
        }
        None
    }
    /// The next order that is shortened.
    pub fn poll_cut(&mut self) -> Option<BulkCut> {
        self.cuts.pop_front()
    }
    /// The next event.
    pub fn poll_event(&mut self) -> Option<TransferEvent> {
        self.events.pop_front()
    }

    // Questions.

    /// Whether any mirror may still deliver something.
    pub fn any_usable(&self) -> bool {
        self.mirrors.iter().any(Mirror::is_usable)
    }
    /// Whether any flow has an order.
    pub fn has_orders(&self) -> bool {
        self.flows.iter().any(|flow| flow.order.is_some())
    }
    /// Whether a mirror may still deliver something; with [`Bulk::set_only`], only that one.
    pub fn is_usable(&self, mirror: MirrorId) -> bool {
        let is_meant = self.only.is_none_or(|only| only == mirror);
        is_meant && self.mirrors.get(usize::from(mirror.0)).is_some_and(Mirror::is_usable)
    }
    /// What a mirror delivers.
    pub fn delivers(&self, mirror: MirrorId) -> Delivers {
        self.mirrors.get(usize::from(mirror.0)).map_or(Delivers::Everything, |mirror| mirror.delivers)
    }
    /// The connections over which a mirror delivers, if it refuses more.
    pub fn connections_max(&self, mirror: MirrorId) -> Option<usize> {
        let at = usize::from(mirror.0);
        let in_use = self.flows.iter().filter(|flow| flow.mirror == at && !flow.is_spare).count();
        self.mirrors.get(at).filter(|mirror| mirror.is_full).map(|_| in_use.max(1))
    }
    /// The mirror of a flow.
    pub fn mirror_of(&self, flow: BulkFlowId) -> Option<MirrorId> {
        self.flows.get(usize::from(flow.0)).map(|flow| MirrorId(flow.mirror as u16))
    }
    /// Adds its sources and paths to the report.
    pub fn add_to(&self, now: Time, report: &mut TransferReport) {
        report.sources.extend(self.source_reports());
        report.paths.extend(self.path_reports(now));
        report.duplicate_bytes += self.duplicate_bytes;
        report.retransmitted_bytes += self.retried_bytes;
    }
    /// Why no mirror can be used: the failure of each.
    pub fn hopeless_reason(&self) -> String {
        let why = |(at, mirror): (usize, &Mirror)| {
            let objection = mirror.distrusted.as_deref().or(mirror.closed.as_deref());
            let own = self.flows.iter().filter(|flow| flow.mirror == at);
            let trouble = || own.clone().find_map(|flow| Some(flow.trouble.as_ref()?.reason.as_str()));
            format!("'{}': {}", mirror.label, objection.or_else(trouble).unwrap_or("it does not answer"))
        };
        self.mirrors.iter().enumerate().map(why).collect::<Vec<_>>().join("; ")
    }
    /// The account of each mirror.
    pub fn source_reports(&self) -> Vec<SourceReport> {
        let report = |mirror: &Mirror| SourceReport {
            source: mirror.source,
            node: NodeId(0),
            label: mirror.label.clone(),
            bytes: mirror.bytes,
            distrusted: mirror.distrusted.clone(),
            closed: mirror.closed.clone(),
        };
        self.mirrors.iter().map(report).collect()
    }
    /// The account of each flow that was ever in use.
    pub fn path_reports(&self, now: Time) -> Vec<PathReport> {
        let used = self.flows.iter().filter(|flow| !flow.is_spare || flow.requests > 0);
        used.map(|flow| self.path_report(now, flow)).collect()
    }
}

/// A chunk is fetched a second time only if that takes less than this part of the first copy's remaining time.
const COPY_GAIN: f64 = 0.75;
/// The shortest time that a failing flow has to answer.
const ANSWER_MIN: Duration = Duration::from_millis(500);

/// Why a flow must wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// No bytes arrived.
    Stall,
    /// The request failed.
    Request,
    /// The server refused it.
    Refusal,
    /// The server requests a pause.
    Busy(Duration),
}

mod pieces;
mod tuning;

#[cfg(test)]
mod tests;

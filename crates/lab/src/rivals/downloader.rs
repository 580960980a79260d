//! The client: fetches one file over one connection or several in parallel, as a download manager does.
use std::{collections::VecDeque, net::Ipv4Addr};

use tributary_core::{
    Duration, Rate, SourceId, Time, TransferId,
    event::{Event, TransferEvent},
};

use super::{
    content::Content,
    host::Application,
    mirror::Range,
    stack::{ConnectionId, ConnectionState, Stack},
};

/// How a file is fetched.
#[derive(Clone, PartialEq, Debug)]
pub struct DownloadConfig {
    /// Connections to each source. Default 1.
    pub connections_per_source: u32,
    /// Bytes that a connection asks for at once; `None` for the whole file, which only a single connection should.
    /// Default 128 KiB; aria2's pieces have 1 MiB, which makes it wait longer for the slowest at the end.
    pub piece_bytes: Option<u64>,
    /// A connection requests its next piece when the requested ones will have arrived in this time at its present rate,
    /// so that its pipe never runs empty. Default 0.25 s; should exceed the round-trip time with full queues.
    pub ahead: Duration,
    /// A connection that is silent for this long is closed, its pieces go to others, and it is opened again; `None`
    /// leaves that to the transport's own timers. Default 2 s; with 1 s smoltcp's retransmission timeout would count as
    /// silence.
    pub idle_timeout: Option<Duration>,
    /// Pause before a connection that failed is opened again. Default 0.2 s.
    pub retry: Duration,
    /// The most that may be in flight on one connection: TCP's receive buffer, QUIC's flow control. Default 4 MiB: far
    /// more than rate × round-trip time of any scenario of the lab, and about the size to which Linux grows it.
    pub window_bytes: usize,
    /// Start of the download. Default: at once.
    pub start: Time,
}

impl Default for DownloadConfig {
    fn default() -> Self {
        DownloadConfig {
            connections_per_source: 1,
            piece_bytes: Some(128 << 10),
            ahead: Duration::from_millis(250),
            idle_timeout: Some(Duration::from_secs(2)),
            retry: Duration::from_millis(200),
            window_bytes: WINDOW_BYTES,
            start: Time::ZERO,
        }
    }
}

impl DownloadConfig {
    /// One request for everything over one connection that is never given up, as curl does.
    pub fn single() -> Self {
        DownloadConfig { piece_bytes: None, idle_timeout: None, ..DownloadConfig::default() }
    }
}

/// One mirror, and our address for its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceAddress {
    /// An address of the mirror.
    pub remote: Ipv4Addr,
    /// An address of the client; answers take the route to it.
    pub local: Ipv4Addr,
}

/// The bytes from one source.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SourceCount {
    /// Bytes of the file that it delivered first.
    pub bytes: u64,
    /// Connections that were opened to it.
    pub connections: u32,
}

/// A download of one file from several mirrors.
#[derive(Debug)]
pub struct Downloader {
    content: Content,
    config: DownloadConfig,
    lanes: Vec<Lane>,
    sources: Vec<SourceCount>,
    /// Parts that have not been requested, or that were given back.
    queue: VecDeque<Range>,
    received_bytes: u64,
    wrong_bytes: u64,
    started: Option<Time>,
    ended: Option<Time>,
    events: VecDeque<Event>,
}

/// One place for a connection.
#[derive(Debug)]
struct Lane {
    source: usize,
    address: SourceAddress,
    connection: Option<ConnectionId>,
    /// Requested parts that have not arrived, in order of the requests.
    requested: VecDeque<Range>,
    unwritten: Vec<u8>,
    /// The last time that something arrived or that nothing was awaited.
    progressed: Time,
    retry_at: Time,
    /// Bytes received since `counted_from`, and the rate before that.
    counted_bytes: u64,
    counted_from: Time,
    rate: Option<Rate>,
}

impl Downloader {
    /// A download of `content` from `sources`.
    pub fn new(content: Content, sources: &[SourceAddress], config: DownloadConfig) -> Self {
        let per_source = config.connections_per_source.max(1);
        let lanes = (0..per_source).flat_map(|_| sources.iter().enumerate()).map(|(source, address)| Lane {
            source,
            address: *address,
            connection: None,
            requested: VecDeque::new(),
            unwritten: Vec::new(),
            progressed: Time::ZERO,
            retry_at: config.start,
            counted_bytes: 0,
            counted_from: config.start,
            rate: None,
        });
        let piece = config.piece_bytes.unwrap_or(content.bytes).max(1);
        let pieces = content.bytes.div_ceil(piece);
        let queue = (0..pieces).map(|index| {
            let offset = index * piece;
            Range { offset, bytes: piece.min(content.bytes - offset) }
        });
        Downloader {
            content,
            lanes: lanes.collect(),
            sources: vec![SourceCount::default(); sources.len()],
            queue: queue.collect(),
            config,
            received_bytes: 0,
            wrong_bytes: 0,
            started: None,
            ended: None,
            events: VecDeque::new(),
        }
    }
    /// Bytes of the file that have arrived and were found right.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }
    /// Bytes that differ from the file; anything but zero is an error of the transport.
    pub fn wrong_bytes(&self) -> u64 {
        self.wrong_bytes
    }
    /// The bytes from each source.
    pub fn sources(&self) -> &[SourceCount] {
        &self.sources
    }
    /// When the first connection was opened.
    pub fn started(&self) -> Option<Time> {
        self.started
    }
    /// When the last byte arrived.
    pub fn ended(&self) -> Option<Time> {
        self.ended
    }

    fn begin(&mut self, now: Time) {
        if self.started.is_none() {
            self.started = Some(now);
            let started = TransferEvent::Started { bytes: self.content.bytes, resumed_bytes: 0 };
            self.events.push_back(Event::Transfer(TransferId(0), started));
        }
    }
    fn end(&mut self, now: Time, stack: &mut dyn Stack) {
        self.ended = Some(now);
        self.events.push_back(Event::Transfer(TransferId(0), TransferEvent::Completed));
        for connection in self.lanes.iter_mut().filter_map(|lane| lane.connection.take()) {
            stack.abort(now, connection);
        }
    }
    /// Opens due connections, processes received bytes, and closes silent or ended connections.
    fn receive(&mut self, now: Time, stack: &mut dyn Stack) {
        for lane in &mut self.lanes {
            let Some(connection) = lane.connection else {
                if lane.retry_at <= now {
                    lane.connection = Some(stack.connect(now, lane.address.local, lane.address.remote));
                    lane.progressed = now;
                    self.sources[lane.source].connections += 1;
                }
                continue;
            };
            let (content, source) = (self.content, &mut self.sources[lane.source]);
            let (received_bytes, wrong_bytes) = (&mut self.received_bytes, &mut self.wrong_bytes);
            stack.read(connection, &mut |bytes| {
                let right = lane.on_bytes(now, content, bytes);
                *received_bytes += right;
                source.bytes += right;
                *wrong_bytes += bytes.len() as u64 - right;
            });
            let state = stack.state(connection);
            if state == ConnectionState::Open && lane.requested.is_empty() {
                lane.progressed = now;
            }
            let silent = now.since(lane.progressed);
            let is_silent = self.config.idle_timeout.is_some_and(|limit| silent >= limit);
            if state == ConnectionState::Closed || is_silent {
                stack.abort(now, connection);
                let reason = if is_silent { "silent" } else { "closed by the other side" };
                self.events.push_back(lane.on_failure(now + self.config.retry, reason));
                for range in lane.requested.drain(..).rev() {
                    self.queue.push_front(range);
                }
            }
        }
    }
    /// Asks for more where the pipe would run empty.
    fn request(&mut self, now: Time, stack: &mut dyn Stack) {
        for lane in &mut self.lanes {
            lane.measure(now);
            let Some(connection) = lane.connection else { continue };
            if stack.state(connection) != ConnectionState::Open {
                continue;
            }
            let ahead_bytes = lane.rate.map_or(AHEAD_BYTES_FIRST, |rate| rate.bytes_in(self.config.ahead));
            while lane.requested_bytes() < ahead_bytes.max(AHEAD_BYTES_MIN)
                && let Some(range) = self.queue.pop_front()
            {
                lane.unwritten.extend_from_slice(&range.to_bytes());
                lane.requested.push_back(range);
            }
            if !lane.unwritten.is_empty() {
                let written = stack.write(connection, &lane.unwritten);
                lane.unwritten.drain(..written);
            }
        }
    }
}

impl Lane {
    /// Processes bytes of the file; returns how many of them were requested and correct.
    fn on_bytes(&mut self, now: Time, content: Content, bytes: &[u8]) -> u64 {
        let mut rest = bytes;
        let mut right = 0;
        while let Some(range) = self.requested.front_mut()
            && !rest.is_empty()
        {
            let take = rest.len().min(usize::try_from(range.bytes).unwrap_or(usize::MAX));
            if !content.agrees(range.offset, &rest[..take]) {
                break;
            }
            right += take as u64;
            range.offset += take as u64;
            range.bytes -= take as u64;
            rest = &rest[take..];
            if range.bytes == 0 {
                self.requested.pop_front();
            }
        }
        self.progressed = now;
        self.counted_bytes += right;
        right
    }
    fn measure(&mut self, now: Time) {
        let time = now.since(self.counted_from);
        if time >= RATE_TIME {
            // A time without any bytes is no sample of the rate: the path was silent, or the queue was empty.
            if self.counted_bytes > 0 {
                self.rate = Rate::over(self.counted_bytes, time);
            }
            self.counted_bytes = 0;
            self.counted_from = now;
        }
    }
    fn requested_bytes(&self) -> u64 {
        self.requested.iter().map(|range| range.bytes).sum()
    }
    fn on_failure(&mut self, retry_at: Time, reason: &str) -> Event {
        self.connection = None;
        self.unwritten.clear();
        self.retry_at = retry_at;
        Event::Note(format!(
            "connection to {} ({}) given up: {reason}",
            self.address.remote,
            SourceId(self.source as u16)
        ))
    }
}

impl Application for Downloader {
    fn run(&mut self, now: Time, stack: &mut dyn Stack) {
        if self.ended.is_some() || now < self.config.start {
            return;
        }
        self.begin(now);
        self.receive(now, stack);
        if self.received_bytes == self.content.bytes {
            self.end(now, stack);
        } else {
            self.request(now, stack);
        }
    }
    fn poll_timeout(&self) -> Option<Time> {
        if self.ended.is_some() {
            return None;
        }
        let dues = self.lanes.iter().filter_map(|lane| match lane.connection {
            None => Some(lane.retry_at),
            Some(_) => self.config.idle_timeout.map(|limit| lane.progressed + limit),
        });
        dues.min()
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

/// Default windows of flow control and send buffers.
pub(super) const WINDOW_BYTES: usize = 4 << 20;
/// Over how long the rate of a connection is measured.
const RATE_TIME: Duration = Duration::from_millis(200);
/// How much a connection requests ahead before its rate is known.
const AHEAD_BYTES_FIRST: u64 = 256 << 10;
/// The least that it requests ahead.
const AHEAD_BYTES_MIN: u64 = 64 << 10;
